//! `schedule(..)` in the options of a task: its times, and the parameters of its jobs. Everything
//! except the time zone is checked here. The worker checks the time zone.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use queue_calendar::{CatchUp, Expression, LONGEST_JITTER, Overlap};
use quote::{quote, quote_spanned};
use syn::{Error, Expr, LitInt, LitStr, Result, Token, ext::IdentExt, parenthesized, parse::ParseStream};

use crate::{
    expand::{Definition, in_order},
    options::{checked_name, duration, value},
    params::Param,
    problems::Problems,
    suggest::nearest,
};

const KNOWN: [&str; 10] = ["cron", "every", "tz", "name", "overlap", "catch_up", "window", "jitter", "pause_after_dead", "args"];

/// A schedule as written, checked.
pub(crate) struct Schedule {
    span: Span,
    name: Option<String>,
    expression: String,
    zone: String,
    overlap: String,
    catch_up: String,
    window: Option<Duration>,
    jitter: Duration,
    pause_after_dead: u32,
    args: Vec<(Ident, Expr)>,
}

impl Schedule {
    /// Reads the option after `schedule`.
    pub(crate) fn parse(key: &Ident, input: ParseStream) -> Result<Self> {
        if !input.peek(syn::token::Paren) {
            return Err(Error::new(
                key.span(),
                "write `schedule(cron = \"0 9 * * MON-FRI\", tz = \"Europe/Berlin\")` or `schedule(every = \"90s\")`",
            ));
        }
        let inner;
        parenthesized!(inner in input);
        let mut schedule = Schedule {
            span: key.span(),
            name: None,
            expression: String::new(),
            zone: "UTC".to_owned(),
            overlap: Overlap::default().name().to_owned(),
            catch_up: CatchUp::default().to_string(),
            window: None,
            jitter: Duration::ZERO,
            pause_after_dead: 0,
            args: Vec::new(),
        };
        let mut seen: Vec<String> = Vec::new();
        while !inner.is_empty() {
            let key = inner.call(Ident::parse_any)?;
            let name = key.to_string();
            if seen.contains(&name) {
                return Err(Error::new(key.span(), format!("`{name}` is given twice; keep one of the two")));
            }
            if matches!(&*name, "cron" | "every") && !schedule.expression.is_empty() {
                return Err(Error::new(key.span(), "a schedule has `cron` or `every`; keep one of the two"));
            }
            schedule.option(&key, &name, &inner)?;
            seen.push(name);
            if !inner.is_empty() {
                inner.parse::<Token![,]>().map_err(|error| Error::new(error.span(), "write a `,` between two options"))?;
            }
        }
        if schedule.expression.is_empty() {
            return Err(Error::new(key.span(), "a schedule needs a time: add `cron = \"0 9 * * *\"` or `every = \"90s\"`"));
        }
        Ok(schedule)
    }

    fn option(&mut self, key: &Ident, name: &str, input: ParseStream) -> Result<()> {
        match name {
            "cron" => {
                let text: LitStr = value(key, input, "\"0 9 * * MON-FRI\"")?;
                self.expression = text.value();
                if let Err(error) = Expression::parse(&self.expression) {
                    let place = self.expression.get(error.at.clone()).filter(|place| !place.is_empty());
                    let at = place.map_or_else(|| format!("at column {}", error.at.start + 1), |place| format!("at `{place}`"));
                    return Err(Error::new(text.span(), format!("{at}: {}", error.problem)));
                }
            }
            "every" => {
                let text: LitStr = value(key, input, "\"90s\"")?;
                Expression::every(duration(&text, false)?).map_err(|error| Error::new(text.span(), error.problem))?;
                self.expression = format!("@every {}", text.value());
            }
            "tz" => self.zone = value::<LitStr>(key, input, "\"Europe/Berlin\"")?.value(),
            "name" => self.name = Some(checked_name(&value(key, input, "\"nightly\"")?)?),
            "overlap" => {
                let text: LitStr = value(key, input, "\"skip\"")?;
                Overlap::parse(&text.value()).map_err(|error| Error::new(text.span(), error.problem))?;
                self.overlap = text.value();
            }
            "catch_up" => {
                let text: LitStr = value(key, input, "\"all(100)\"")?;
                CatchUp::parse(&text.value()).map_err(|error| Error::new(text.span(), error.problem))?;
                self.catch_up = text.value();
            }
            "window" => self.window = Some(duration(&value(key, input, "\"6h\"")?, false)?),
            "jitter" => {
                let text: LitStr = value(key, input, "\"5m\"")?;
                self.jitter = duration(&text, true)?;
                if self.jitter > LONGEST_JITTER {
                    return Err(Error::new(text.span(), "`jitter` is at most 24 hours"));
                }
            }
            "pause_after_dead" => self.pause_after_dead = value::<LitInt>(key, input, "3")?.base10_parse()?,
            "args" => self.args = args(key, input)?,
            other => {
                let near = nearest(other, &KNOWN).map_or_else(
                    || format!("it has {}", KNOWN.map(|known| format!("`{known}`")).join(", ")),
                    |near| format!("did you mean `{near}`?"),
                );
                return Err(Error::new(key.span(), format!("`schedule` has no `{other}`; {near}")));
            }
        }
        Ok(())
    }

    /// Whether the parameters of its jobs are those of the task.
    pub(crate) fn check(&self, params: &[Param], problems: &mut Problems) {
        let keys: Vec<String> = params.iter().filter(|param| param.is_written()).map(|param| param.name.unraw().to_string()).collect();
        for (name, _) in &self.args {
            let name_text = name.unraw().to_string();
            if !keys.contains(&name_text) {
                let known: Vec<&str> = keys.iter().map(String::as_str).collect();
                let near = nearest(&name_text, &known).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                problems.add(name.span(), format!("the task has no parameter `{name_text}`{near}"));
            }
        }
    }

    /// An item that does not compile if a parameter is missing.
    fn missing(&self, params: &[Param]) -> Option<TokenStream> {
        let is_given = |param: &&Param| self.args.iter().any(|(name, _)| name.unraw() == param.name.unraw());
        let missing: Vec<&Param> = params.iter().filter(|param| param.may_be_required() && !is_given(param)).collect();
        let names: Vec<String> = missing.iter().map(|param| format!("{} = ..", param.name.unraw())).collect();
        let problem = format!("its jobs lack parameters of the task: add `args({})` to the schedule", names.join(", "));
        let are_required = missing.iter().map(|param| param.is_required());
        (!missing.is_empty())
            .then(|| quote_spanned!(self.span=> const _: () = if false #(|| #are_required)* { ::core::panic!("{}", #problem) };))
    }

    /// The function that writes the payload of its jobs, and its definition.
    pub(crate) fn expand(&self, at: usize, task: &Definition<'_>, core: &TokenStream) -> (TokenStream, TokenStream) {
        let (task_name, params) = (&task.task_name, task.params);
        let function = Ident::new(&format!("__queue_schedule_{at}"), Span::call_site());
        let missing = self.missing(params);
        let given = self.args.iter().filter_map(|(name, expression)| {
            let is_named = |(_, param): &(usize, &Param)| param.is_written() && name.unraw() == param.name.unraw();
            params.iter().enumerate().find(is_named).map(|(index, param)| (index, param, expression))
        });
        let writes = match task.fields {
            // As serde derives it for the struct itself.
            Some(container) => {
                let (attributes, of) = (&container.attributes, task.name);
                let (fields, values): (Vec<_>, Vec<_>) =
                    given.map(|(index, param, expression)| (param.field(index).0, (&param.name, expression))).unzip();
                let values = values.into_iter().map(|(name, expression)| quote!(#name: #expression));
                quote! {
                    #[derive(__queue::serde::Serialize)]
                    #[serde(crate = "__queue::serde")]
                    #(#attributes)*
                    struct __QueueGiven { #(#fields)* }

                    __queue::given_fields::<#of, __queue::OfTask>(#task_name, &__QueueGiven { #(#values),* })
                }
            }
            None => {
                let fields = in_order(given.map(|(index, param, expression)| {
                    let (key, ty, access) = (param.key(), &param.ty, param.access(index).0);
                    let write = quote!({
                        let __queue_value: #ty = #expression;
                        __queue_payload.field(#key, &__queue_value, &#access);
                    });
                    (key, write)
                }));
                let count = self.args.len();
                quote! {
                    let mut __queue_payload = __queue::PayloadWriter::new(#count);
                    #(#fields)*
                    __queue_payload.finish(#task_name)
                }
            }
        };
        let item = quote! {
            #missing

            fn #function() -> #core::Result<__queue::Vec<::core::primitive::u8>> {
                #writes
            }
        };
        let default = if at == 0 { task_name.clone() } else { format!("{task_name}-{}", at + 1) };
        let (name, expression, zone) = (self.name.as_ref().unwrap_or(&default), &self.expression, &self.zone);
        let (overlap, catch_up, pause) = (&self.overlap, &self.catch_up, self.pause_after_dead);
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let jitter = ms(self.jitter);
        let window = match self.window.map(ms) {
            Some(window) => quote!(::core::option::Option::Some(::core::time::Duration::from_millis(#window))),
            None => quote!(::core::option::Option::None),
        };
        let definition = quote! {
            #core::__private::ScheduleDef {
                name: #name,
                expression: #expression,
                tz: #zone,
                overlap: #overlap,
                catch_up: #catch_up,
                window: #window,
                jitter: ::core::time::Duration::from_millis(#jitter),
                pause_after_dead: #pause,
                payload: #function,
            }
        };
        (item, definition)
    }
}

fn args(key: &Ident, input: ParseStream) -> Result<Vec<(Ident, Expr)>> {
    if !input.peek(syn::token::Paren) {
        return Err(Error::new(key.span(), "write `args(customer = 7, dry_run = false)`"));
    }
    let inner;
    parenthesized!(inner in input);
    let mut args: Vec<(Ident, Expr)> = Vec::new();
    while !inner.is_empty() {
        let by_name = |error: Error| Error::new(error.span(), "give a parameter by its name, as in `args(customer = 7)`");
        let name = inner.call(Ident::parse_any).map_err(by_name)?;
        if args.iter().any(|(known, _)| *known == name) {
            return Err(Error::new(name.span(), format!("`{name}` is given twice; keep one of the two")));
        }
        if !inner.peek(Token![=]) {
            return Err(Error::new(name.span(), format!("write `{name} = ..` with a value for the parameter")));
        }
        inner.parse::<Token![=]>()?;
        args.push((name, inner.parse()?));
        if !inner.is_empty() {
            inner.parse::<Token![,]>()?;
        }
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use crate::function::expand;

    /// The messages of a task with these options and parameters.
    fn problems(options: &str, params: &str) -> Vec<String> {
        let item = format!("async fn report({params}) {{}}");
        let text = expand(options.parse().unwrap(), &item.parse().unwrap()).to_string();
        let messages = text.split("compile_error ! {").skip(1);
        messages
            .map(|rest| rest.split('}').next().unwrap_or_default().trim().trim_matches('"').replace("\\\"", "\"").trim().to_owned())
            .collect()
    }

    #[test]
    fn mistakes_of_a_schedule_are_reported_once_with_what_to_write() {
        for (options, params, expected) in [
            ("schedule", "", "write `schedule(cron ="),
            ("schedule(tz = \"UTC\")", "", "a schedule needs a time"),
            ("schedule(cron = \"@hourly\", every = \"90s\")", "", "`cron` or `every`; keep one"),
            ("schedule(cron = \"60 * * * *\")", "", "at `60`: a minute is 0 to 59"),
            ("schedule(cron = \"0 0 30 2 *\")", "", "would never tick"),
            ("schedule(cron = \"1--100000000 * * * *\")", "", "at column 3: a number is missing"),
            ("schedule(every = \"10ms\")", "", "a second or longer"),
            ("schedule(every = \"soon\")", "", "is not a duration"),
            ("schedule(every = \"90s\", overlap = \"queue\")", "", "`buffer_one`"),
            ("schedule(every = \"90s\", catch_up = \"all\")", "", "all(100)"),
            ("schedule(every = \"90s\", timezone = \"UTC\")", "", "`schedule` has no `timezone`"),
            ("schedule(every = \"90s\", tz = \"UTC\", tz = \"UTC\")", "", "given twice"),
            ("schedule(every = \"90s\", args(custmer = 7, customer = 7))", "customer: u64", "did you mean `customer`?"),
            ("schedule(every = \"90s\", args(7))", "customer: u64", "by its name"),
            ("cron = \"@hourly\"", "", "did you mean `schedule`?"),
        ] {
            let problems = problems(options, params);
            assert_eq!(problems.len(), 1, "{options}: {problems:?}");
            assert!(problems[0].contains(expected), "{options}: {problems:?}");
        }
    }

    #[test]
    fn several_schedules_and_their_parameters_are_taken() {
        let options = "schedule(cron = \"0 9 * * MON-FRI\", tz = \"Europe/Berlin\", args(customer = 7)), \
                       schedule(every = \"90s\", catch_up = \"all(100)\", overlap = \"skip\", jitter = \"5s\", args(customer = 8, dry = true))";
        assert_eq!(problems(options, "customer: u64, #[default] dry: bool"), [""; 0]);
    }
}
