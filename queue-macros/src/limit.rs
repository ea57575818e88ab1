//! The option `limit` of `#[task(...)]`: the maximum number of jobs with the same key that run at
//! once, and that start in a period.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Error, Ident, LitInt, LitStr, Result, Token, ext::IdentExt, parenthesized, parse::ParseStream};

use crate::{
    options::{checked_name, value},
    params::Param,
    problems::Problems,
    suggest::nearest,
    unique::{By, asks_of, by, no_key, unknown_parameter},
};

const KNOWN: [&str; 6] = ["name", "by", "group", "concurrency", "rate", "burst"];

/// The names of these options in other systems.
const ELSEWHERE: [(&str, &str); 9] = [
    ("key", "by"),
    ("keys", "by"),
    ("per", "by"),
    ("tenant", "group"),
    ("by_group", "group"),
    ("max", "concurrency"),
    ("cap", "concurrency"),
    ("limit", "concurrency"),
    ("period", "rate"),
];

/// The maximum number of limits of one task, as in queue-core.
const LIMITS: usize = 8;

/// The largest burst, as in queue-core.
const BURST: u32 = 1_000_000;

/// `limit(...)`, as it is written.
pub(crate) struct Limit {
    span: Span,
    name: Option<(String, Span)>,
    by: Vec<By>,
    group: bool,
    concurrency: Option<u32>,
    rate: Option<(u32, u64)>,
    burst: Option<u32>,
}

impl Limit {
    /// Reads the option after `limit`.
    pub(crate) fn parse(key: &Ident, input: ParseStream) -> Result<Self> {
        if !input.peek(syn::token::Paren) {
            let wanted = "write `limit(concurrency = 2)`, or `limit(name = \"stripe\", by = [account], rate = \"100/1m\", burst = 20)`";
            return Err(Error::new(key.span(), wanted));
        }
        let inner;
        parenthesized!(inner in input);
        let mut limit = Limit { span: key.span(), name: None, by: Vec::new(), group: false, concurrency: None, rate: None, burst: None };
        let (mut seen, mut burst) = (Vec::new(), None);
        while !inner.is_empty() {
            let key = inner.call(Ident::parse_any)?;
            let name = key.to_string();
            if seen.contains(&name) {
                return Err(Error::new(key.span(), format!("`{name}` is given twice; keep one of the two")));
            }
            match &*name {
                "burst" => burst = Some(number(&key, &inner, "20")?),
                _ => limit.option(&key, &name, &inner)?,
            }
            seen.push(name);
            if !inner.is_empty() {
                inner.parse::<Token![,]>().map_err(|error| Error::new(error.span(), "write a `,` between two options"))?;
            }
        }
        limit.check(key, burst)?;
        Ok(limit)
    }

    fn option(&mut self, key: &Ident, name: &str, input: ParseStream) -> Result<()> {
        match name {
            "name" => {
                let text: LitStr = value(key, input, "\"stripe\"")?;
                self.name = Some((checked_name(&text)?, text.span()));
            }
            "by" => self.by = by(key, input)?,
            "group" if input.peek(Token![=]) => {
                return Err(Error::new(input.span(), "`group` takes no value here: it gives each group a separate limit"));
            }
            "group" => self.group = true,
            "concurrency" => self.concurrency = Some(number(key, input, "2")?.0),
            "rate" => self.rate = Some(rate(&value(key, input, "\"100/1m\"")?)?),
            other => return Err(Error::new(key.span(), unknown(other))),
        }
        Ok(())
    }

    fn check(&mut self, key: &Ident, burst: Option<(u32, Span)>) -> Result<()> {
        if self.concurrency.is_none() && self.rate.is_none() && self.name.is_none() {
            return Err(Error::new(
                key.span(),
                "a limit needs a bound: add `concurrency = 2` or `rate = \"100/1m\"`, or the name of a limit that has one",
            ));
        }
        match burst {
            Some((_, span)) if self.rate.is_none() => {
                Err(Error::new(span, "a burst belongs to a rate: add `rate = \"100/1m\"`, or leave `burst` out"))
            }
            Some((0, span)) => Err(Error::new(span, "a burst must be at least 1, which spreads starts evenly")),
            Some((burst, span)) if burst > BURST => Err(Error::new(span, format!("a burst is at most {BURST}"))),
            burst => {
                self.burst = burst.map(|(burst, _)| burst);
                Ok(())
            }
        }
    }

    fn check_params(&self, params: &[Param], problems: &mut Problems) {
        for path in &self.by {
            let name = &path.0[0];
            match params.iter().find(|param| param.name.unraw() == name.unraw()) {
                None => problems.add(name.span(), unknown_parameter(name, params)),
                Some(param) if !param.is_payload() => problems.add(name.span(), param.no_parameter()),
                Some(param) if path.0.len() == 1 => {
                    if let Some(problem) = no_key(&param.ty) {
                        problems.add(name.span(), format!("`{name}` {problem}; name others, or give each job a key with `.limit(..)`"));
                    }
                }
                Some(_) => {}
            }
        }
    }

    /// Items that check whether the types of parameters can be part of a key.
    pub(crate) fn asks(&self, params: &[Param]) -> TokenStream {
        asks_of(&self.by, params)
    }

    /// An expression for the `LimitDef`. Without a name it has the name of the task.
    pub(crate) fn definition(&self, core: &TokenStream, task_name: &str, params: &[Param]) -> TokenStream {
        let name = self.name.as_ref().map_or(task_name, |(name, _)| name);
        let (by, group) = (self.by.iter().map(|path| path.stored_path(params)), self.group);
        let number = |number: Option<u32>| match number {
            Some(number) => quote!(::core::option::Option::Some(#number)),
            None => quote!(::core::option::Option::None),
        };
        let (concurrency, burst) = (number(self.concurrency), number(self.burst));
        let rate = match self.rate {
            Some((count, period)) => quote!(::core::option::Option::Some(#core::inspect::Rate::checked(#count, #period))),
            None => quote!(::core::option::Option::None),
        };
        quote!({
            const __QUEUE_BY: &[&::core::primitive::str] = &[#(#by),*];
            #core::inspect::LimitDef::made(#name, __QUEUE_BY, #group, #concurrency, #rate, #burst)
        })
    }
}

/// Reports conflicts with the parameters of the task, and between limits.
pub(crate) fn check(limits: &[Limit], task: Option<&str>, params: &[Param], problems: &mut Problems) {
    let mut names: Vec<&str> = Vec::new();
    for (n, limit) in limits.iter().enumerate() {
        limit.check_params(params, problems);
        let (name, span) = limit.name.as_ref().map_or((task, limit.span), |(name, span)| (Some(name), *span));
        if name.is_some_and(|name| names.contains(&name)) {
            problems.add(span, format!("two limits of the task are named `{}`; give one of them another name", name.unwrap_or_default()));
        }
        names.extend(name);
        if n == LIMITS {
            problems.add(limit.span, format!("a task has at most {LIMITS} limits; let several tasks share one by its name"));
        }
    }
}

fn number(key: &Ident, input: ParseStream, example: &str) -> Result<(u32, Span)> {
    let number: LitInt = value(key, input, example)?;
    let read =
        number.base10_parse::<u32>().map_err(|_| Error::new(number.span(), format!("write `{key} = {example}`: a whole number from 0")))?;
    Ok((read, number.span()))
}

/// The number of starts, and the period in microseconds, in the range that queue-core accepts.
fn rate(text: &LitStr) -> Result<(u32, u64)> {
    let written = text.value();
    let refused = |problem: &str| Error::new(text.span(), problem);
    let unreadable = || refused("a rate is a number of starts and a period, such as \"100/1m\", \"5/1s\" or \"1/24h\"");
    let (count, period) = written.split_once('/').ok_or_else(unreadable)?;
    let count: u32 = count.trim().parse().map_err(|_| unreadable())?;
    let period = period.trim();
    let period = if period.starts_with(|c: char| c.is_ascii_digit()) { period.to_owned() } else { format!("1{period}") };
    let period = humantime::parse_duration(&period).map_err(|_| unreadable())?;
    let micros = u64::try_from(period.as_micros()).unwrap_or(u64::MAX);
    if count == 0 {
        return Err(refused("a rate must be greater than 0; to close a limit, set its concurrency to 0"));
    }
    if period.is_zero() || period > Duration::from_secs(366 * 24 * 3600) {
        return Err(refused("the period of a rate is greater than 0 and at most a year"));
    }
    if micros / u64::from(count) < 100 {
        return Err(refused("a rate is at most 10000 per second"));
    }
    Ok((count, micros))
}

fn unknown(name: &str) -> String {
    let near = ELSEWHERE.iter().find(|(other, _)| *other == name).map(|(_, known)| *known).or_else(|| nearest(name, &KNOWN));
    match near {
        Some(near) => format!("`limit` has no `{name}`; did you mean `{near}`?"),
        None => format!("`limit` has no `{name}`; it has {}", KNOWN.map(|known| format!("`{known}`")).join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use crate::function::expand;

    /// The messages of a task with these options and parameters.
    fn problems(options: &str, params: &str) -> Vec<String> {
        let item = format!("async fn charge({params}) {{}}");
        let text = expand(options.parse().unwrap(), &item.parse().unwrap()).to_string();
        let messages = text.split("compile_error ! {").skip(1);
        messages
            .map(|rest| rest.split('}').next().unwrap_or_default().trim().trim_matches('"').replace("\\\"", "\"").trim().to_owned())
            .collect()
    }

    #[test]
    fn mistakes_of_a_limit_are_reported_once_with_what_to_write() {
        for (options, params, expected) in [
            ("limit", "", "write `limit(concurrency"),
            ("limit()", "", "a limit needs a bound"),
            ("limit(concurrency = 2, concurrency = 3)", "", "given twice"),
            ("limit(concurrency = -1)", "", "write `concurrency = 2`"),
            ("limit(burst = 2)", "", "a limit needs a bound"),
            ("limit(concurrency = 1, burst = 2)", "", "belongs to a rate"),
            ("limit(rate = \"1/1s\", burst = 0)", "", "at least 1"),
            ("limit(rate = \"1/1s\", burst = 1000001)", "", "at most 1000000"),
            ("limit(rate = \"many\")", "", "such as \"100/1m\""),
            ("limit(rate = \"0/1s\")", "", "greater than 0"),
            ("limit(rate = \"1/0s\")", "", "greater than 0"),
            ("limit(rate = \"20000/1s\")", "", "at most 10000 per second"),
            ("limit(max = 2)", "", "did you mean `concurrency`?"),
            ("limit(concurrency = 2, by = [acount])", "account: String", "did you mean `account`?"),
            ("limit(concurrency = 2, by = [ctx])", "ctx: JobContext", "comes from the worker"),
            ("limit(concurrency = 2, by = [share])", "share: f64", "is a float"),
            ("limit(concurrency = 2, group = tenant)", "tenant: String", "takes no value here"),
            ("limit(concurrency = 2), limit(name = \"charge\", rate = \"1/1s\")", "", "two limits of the task are named `charge`"),
            ("throttle = 3", "", "did you mean `limit`?"),
        ] {
            let problems = problems(options, params);
            assert_eq!(problems.len(), 1, "{options}: {problems:?}");
            assert!(problems[0].contains(expected), "{options}: {problems:?}");
        }
        let nine: Vec<String> = (0..9).map(|n| format!("limit(name = \"l{n}\", concurrency = 1)")).collect();
        assert!(problems(&nine.join(", "), "")[0].contains("at most 8 limits"));
    }

    #[test]
    fn several_limits_are_taken() {
        let options = "limit(concurrency = 4), limit(name = \"stripe\", by = [account, order.id], concurrency = 2, rate = \"100/1m\", burst = 20), \
                       limit(name = \"tenant\", group, rate = \"5/s\"), limit(name = \"shared\")";
        assert_eq!(problems(options, "account: Option<String>, order: Order"), [""; 0]);
    }
}
