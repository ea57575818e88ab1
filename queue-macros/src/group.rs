//! The option `group` of `#[task(...)]`: the parameter that names the group of a job, and the rules
//! for all groups of the queue.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{
    Error, GenericArgument, Ident, LitInt, LitStr, PathArguments, Result, Token, Type, ext::IdentExt, parenthesized, parse::ParseStream,
};

use crate::{
    options::{one_of, value},
    params::{Param, key_of, last_segment},
    problems::Problems,
    suggest::nearest,
    unique::unknown_parameter,
};

const KNOWN: [&str; 4] = ["by", "cap", "max_size", "order"];

/// The names of these options in other systems.
const ELSEWHERE: [(&str, &str); 8] = [
    ("name", "by"),
    ("key", "by"),
    ("tenant", "by"),
    ("concurrency", "cap"),
    ("limit", "cap"),
    ("max", "cap"),
    ("max_queue_size", "max_size"),
    ("ordering", "order"),
];

/// `group = tenant` or `group(by = tenant, cap = 2)`, as it is written.
pub(crate) struct Group {
    by: Option<Ident>,
    cap: Option<u32>,
    max_size: Option<u64>,
    order: Option<Ident>,
}

impl Group {
    /// Reads the option after `group`.
    pub(crate) fn parse(key: &Ident, input: ParseStream) -> Result<Self> {
        let mut group = Group { by: None, cap: None, max_size: None, order: None };
        if input.peek(syn::token::Paren) {
            let inner;
            parenthesized!(inner in input);
            group.options(key, &inner)?;
        } else {
            group.by = Some(parameter(key, input, "write `group = tenant`: the name of the parameter that names the group")?);
        }
        Ok(group)
    }

    /// `ordered` of a subscription, which may also have a `group(..)`.
    pub(crate) fn ordered(key: &Ident, group: Option<Self>) -> Result<Self> {
        let group = group.unwrap_or(Group { by: None, cap: None, max_size: None, order: None });
        if group.cap.is_some() || group.order.is_some() {
            return Err(Error::new(key.span(), "contradicts `group(..)`, which sets another order or a cap; leave one of the two out"));
        }
        Ok(Group { order: Some(Ident::new("Ordered", key.span())), ..group })
    }

    /// `group(..)` of a subscription. The publisher sets the group of an event.
    pub(crate) fn of_subscription(key: &Ident, input: ParseStream, before: Option<&Self>) -> Result<Self> {
        let group = Self::parse(key, input)?;
        if group.by.is_some() || group.max_size.is_some() {
            let problem = "the publisher gives an event its group, with `.group(..)`, and none is refused: leave out `by` and `max_size`";
            return Err(Error::new(key.span(), problem));
        }
        match before {
            Some(_) => Group::ordered(key, Some(group)),
            None => Ok(group),
        }
    }

    fn options(&mut self, group: &Ident, input: ParseStream) -> Result<()> {
        let (mut seen, mut cap) = (Vec::new(), None);
        while !input.is_empty() {
            let key = input.call(Ident::parse_any)?;
            let name = key.to_string();
            if seen.contains(&name) {
                return Err(Error::new(key.span(), format!("`{name}` is given twice; keep one of the two")));
            }
            match &*name {
                "by" => self.by = Some(parameter(&key, input, "write `by = tenant`: the name of the parameter that names the group")?),
                "cap" => cap = Some(number::<u32>(&key, input, "2")?),
                "max_size" => match number::<u64>(&key, input, "1000")? {
                    (0, span) => {
                        return Err(Error::new(span, "`max_size` must be at least 1; leave it out for no maximum"));
                    }
                    (most, _) => self.max_size = Some(most),
                },
                "order" => {
                    let text: LitStr = value(&key, input, "\"ordered\"")?;
                    self.order = Some(one_of(&text, "order", &[("any", "Any"), ("ordered", "Ordered"), ("skip_failed", "SkipFailed")])?);
                }
                _ => return Err(Error::new(key.span(), unknown(&name))),
            }
            seen.push(name);
            if !input.is_empty() {
                input.parse::<Token![,]>().map_err(|error| Error::new(error.span(), "write a `,` between two options"))?;
            }
        }
        if seen.is_empty() {
            return Err(Error::new(
                group.span(),
                "write `group(by = tenant, cap = 2)`: a group has the parameter that names it, or a rule for all groups",
            ));
        }
        match cap {
            Some((0, span)) => {
                Err(Error::new(span, "a cap of all groups must be at least 1; close or pause groups by name, with `groups set`"))
            }
            Some((cap, span)) if cap > 1 && self.order.as_ref().is_some_and(|order| order != "Any") => {
                Err(Error::new(span, "contradicts the order, by which one job of a group runs at a time; leave one of the two out"))
            }
            cap => {
                self.cap = cap.map(|(cap, _)| cap);
                Ok(())
            }
        }
    }

    /// Reports conflicts with the parameters of the task.
    pub(crate) fn check_params(&self, params: &[Param], problems: &mut Problems) {
        let Some(name) = &self.by else { return };
        match params.iter().find(|param| param.name.unraw() == name.unraw()) {
            None => problems.add(name.span(), unknown_parameter(name, params)),
            Some(param) if !param.is_payload() => problems.add(name.span(), param.no_parameter()),
            Some(param) => {
                if let Some((kind, because)) = kind_of(param) {
                    let advice = "name a string, an integer or a bool, or give each job a group with `.group(..)`";
                    problems.add(name.span(), format!("`{name}` is a {kind}, which cannot name a group{because}; {advice}"));
                }
            }
        }
    }

    /// An item that checks whether the type of the parameter can name a group.
    pub(crate) fn asks(&self, params: &[Param]) -> Option<TokenStream> {
        self.by.as_ref().and_then(|name| asks(name, params, &quote!(Group)))
    }

    /// Statements that set the fields of a `TaskDef` named `def`.
    pub(crate) fn assignment(&self, core: &TokenStream, params: &[Param]) -> TokenStream {
        let by = self.by.as_ref().map(|name| {
            let name = key_of(name, params);
            quote!(__queue_def.group = ::core::option::Option::Some(#name);)
        });
        let option = |value: Option<TokenStream>| match value {
            Some(value) => quote!(::core::option::Option::Some(#value)),
            None => quote!(::core::option::Option::None),
        };
        let (cap, max_size) = (option(self.cap.map(|cap| quote!(#cap))), option(self.max_size.map(|most| quote!(#most))));
        let order = option(self.order.as_ref().map(|order| quote!(#core::inspect::GroupOrder::#order)));
        let says = self.cap.is_some() || self.max_size.is_some() || self.order.is_some();
        let rule = says.then(|| quote!(__queue_def.group_rule = #core::inspect::GroupRule::made(#cap, #max_size, #order);));
        quote!(#by #rule)
    }
}

/// An item that checks whether the type of a parameter is a text, a number or a bool, as far as the
/// type shows it.
pub(crate) fn asks(name: &Ident, params: &[Param], what: &TokenStream) -> Option<TokenStream> {
    let param = params.iter().find(|param| param.name.unraw() == name.unraw())?;
    let ty = &param.ty;
    // The value that a function of the user serializes is unknown.
    if !param.is_stored_as_it_is() {
        return None;
    }
    let has = quote!(__queue::Has::<#ty>);
    Some(
        quote_spanned!(name.span()=> const _: () = __queue::#what::<#ty, { __queue::is_word(#has::FLOAT, #has::DISPLAY, #has::OPTIONAL_DISPLAY) }>::check();),
    )
}

/// The name of a parameter after a `=`.
fn parameter(key: &Ident, input: ParseStream, wanted: &str) -> Result<Ident> {
    if !input.peek(Token![=]) {
        return Err(Error::new(key.span(), wanted));
    }
    input.parse::<Token![=]>()?;
    if input.peek(LitStr) {
        let text: LitStr = input.parse()?;
        let problem = format!("{wanted}; a group that all jobs share is given to each job: `.group({:?})`", text.value());
        return Err(Error::new(text.span(), problem));
    }
    let name = input.call(Ident::parse_any).map_err(|error| Error::new(error.span(), wanted))?;
    if input.peek(Token![.]) {
        return Err(Error::new(input.span(), "a group is named by a parameter, not by a field of one: make the field a parameter"));
    }
    Ok(name)
}

fn number<N: std::str::FromStr>(key: &Ident, input: ParseStream, example: &str) -> Result<(N, Span)>
where
    N::Err: std::fmt::Display,
{
    let number: LitInt = value(key, input, example)?;
    let read =
        number.base10_parse::<N>().map_err(|_| Error::new(number.span(), format!("write `{key} = {example}`: a whole number from 1")))?;
    Ok((read, number.span()))
}

fn unknown(name: &str) -> String {
    match name {
        "weight" => {
            return "weights are relative, so one weight for all groups has no effect; set the weights of groups at run time with `groups set`"
                .to_owned();
        }
        "paused" => return "groups are paused at run time and by name, with `groups pause`".to_owned(),
        "rate" | "burst" => {
            return format!("`group` has no `{name}`; each group has a rate of its own by `limit(group, rate = \"10/1s\", burst = 5)`");
        }
        "ordered" | "skip_failed" => return format!("write `order = \"{name}\"`"),
        _ => {}
    }
    let near = ELSEWHERE.iter().find(|(other, _)| *other == name).map(|(_, known)| *known).or_else(|| nearest(name, &KNOWN));
    match near {
        Some(near) => format!("`group` has no `{name}`; did you mean `{near}`?"),
        None => format!("`group` has no `{name}`; it has {}", KNOWN.map(|known| format!("`{known}`")).join(", ")),
    }
}

/// The kind of a type that is not a text, a number or a bool, as far as its name shows it, and a
/// hint for the message.
pub(crate) fn kind_of(param: &Param) -> Option<(&'static str, &'static str)> {
    if param.is_stored_as_it_is() { kind_of_type(&param.ty) } else { None }
}

fn kind_of_type(ty: &Type) -> Option<(&'static str, &'static str)> {
    let segment = match ty {
        Type::Tuple(_) | Type::Array(_) => return Some(("list", "")),
        _ => last_segment(ty)?,
    };
    match segment.ident.to_string().as_str() {
        "f32" | "f64" => Some(("float", ": floats that look equal may differ")),
        "HashMap" | "BTreeMap" => Some(("map", "")),
        "Vec" | "VecDeque" | "HashSet" | "BTreeSet" => Some(("list", "")),
        "Option" | "Box" | "Arc" => {
            let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
            arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(ty) => kind_of_type(ty),
                _ => None,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::function::expand;

    /// The messages of a task with these options.
    fn problems(options: &str) -> Vec<String> {
        let text = expand(options.parse().unwrap(), &"async fn send(tenant: String, to: String) {}".parse().unwrap()).to_string();
        let messages = text.split("compile_error ! {").skip(1);
        messages
            .map(|rest| rest.split('}').next().unwrap_or_default().trim().trim_matches('"').replace("\\\"", "\"").trim().to_owned())
            .collect()
    }

    #[test]
    fn mistakes_of_a_group_are_reported_once_with_what_to_write() {
        for (options, expected) in [
            ("group", "write `group = tenant`"),
            ("group()", "write `group(by = tenant, cap = 2)`"),
            ("group(by = \"acme\")", "is given to each job"),
            ("group(by = tennant, cap = 2)", "did you mean `tenant`?"),
            ("group(by = tenant, by = to)", "given twice"),
            ("group(by = tenant, cap = 0)", "at least 1"),
            ("group(by = tenant, cap = \"2\")", "write `cap = 2`"),
            ("group(by = tenant, cap = 5000000000)", "a whole number from 1"),
            ("group(by = tenant, max_size = 0)", "at least 1"),
            ("group(by = tenant, order = \"fifo\")", "is one of"),
            ("group(by = tenant, order = \"ordered\", cap = 2)", "contradicts the order"),
            ("group(by = tenant, concurrency = 2)", "did you mean `cap`?"),
            ("group(by = tenant, ordered)", "write `order = \"ordered\"`"),
            ("group(by = tenant, weight = 2)", "weights are relative"),
            ("group(by = tenant, rate = \"1/1s\")", "`limit(group, rate"),
            ("group(by = tenant, paused = true)", "`groups pause`"),
            ("group(by = tenant, colour = 2)", "it has `by`, `cap`, `max_size`, `order`"),
        ] {
            let problems = problems(options);
            assert_eq!(problems.len(), 1, "{options}: {problems:?}");
            assert!(problems[0].contains(expected), "{options}: {problems:?}");
        }
    }

    #[test]
    fn a_group_declares_a_rule_or_names_a_parameter_or_both() {
        for options in [
            "group = tenant",
            "group(by = tenant)",
            "group(cap = 3)",
            "group(by = tenant, cap = 1, max_size = 1000, order = \"skip_failed\")",
            "group(order = \"any\", cap = 9)",
        ] {
            assert_eq!(problems(options), [""; 0], "{options}");
        }
    }
}
