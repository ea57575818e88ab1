//! The option `tag` of `#[task(...)]` and `#[event(...)]`: which parameters are tags.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Error, LitStr, Result, Token, ext::IdentExt, parenthesized, parse::ParseStream};

use crate::{
    group::{asks, kind_of},
    params::{Param, key_of},
    problems::Problems,
    unique::unknown_of,
};

/// The maximum number of tags of a job, as in queue-core.
const MOST: usize = 8;

/// The maximum length of a name, as in queue-core.
const LONGEST: usize = 64;

/// `tag(order, customer = buyer)`, as it is written: name and parameter of each.
#[derive(Default)]
pub(crate) struct Tags(Vec<(Ident, Ident)>);

impl Tags {
    /// Reads the option after `tag`.
    pub(crate) fn parse(key: &Ident, input: ParseStream) -> Result<Self> {
        const WANTED: &str = "write `tag(order)`: the names of parameters, or `tag(order = order_id)`";
        if !input.peek(syn::token::Paren) {
            return Err(Error::new(key.span(), WANTED));
        }
        let inner;
        parenthesized!(inner in input);
        let mut tags: Vec<(Ident, Ident)> = Vec::new();
        while !inner.is_empty() {
            let name = inner.call(Ident::parse_any).map_err(|error| Error::new(error.span(), WANTED))?;
            let mut parameter = name.clone();
            if inner.peek(Token![=]) {
                inner.parse::<Token![=]>()?;
                if inner.peek(LitStr) {
                    let text: LitStr = inner.parse()?;
                    let problem =
                        format!("{WANTED}; a tag that is no parameter is given to each job: `.tag(\"{name}\", {:?})`", text.value());
                    return Err(Error::new(text.span(), problem));
                }
                parameter = inner.call(Ident::parse_any).map_err(|error| Error::new(error.span(), WANTED))?;
            }
            if inner.peek(Token![.]) {
                return Err(Error::new(inner.span(), "a tag is a parameter, and not a field of one: make the field a parameter"));
            }
            if tags.iter().any(|(other, _)| other.unraw() == name.unraw()) {
                return Err(Error::new(name.span(), format!("the tag `{name}` is given twice; keep one of the two")));
            }
            if name.unraw().to_string().len() > LONGEST {
                return Err(Error::new(
                    name.span(),
                    format!("the name of a tag has at most {LONGEST} letters; write `tag(order = {parameter})`"),
                ));
            }
            if tags.len() == MOST {
                return Err(Error::new(name.span(), format!("a job has at most {MOST} tags; leave this one out")));
            }
            tags.push((name, parameter));
            if !inner.is_empty() {
                inner.parse::<Token![,]>().map_err(|error| Error::new(error.span(), "write a `,` between two tags"))?;
            }
        }
        if tags.is_empty() {
            return Err(Error::new(key.span(), WANTED));
        }
        Ok(Tags(tags))
    }

    /// Reports conflicts with the parameters of the task.
    pub(crate) fn check_params(&self, params: &[Param], problems: &mut Problems) {
        self.check("the task has no parameter", params, problems);
    }

    /// Reports conflicts with the fields of the event.
    pub(crate) fn check_fields(&self, fields: &[Param], problems: &mut Problems) {
        self.check("the event has no field", fields, problems);
    }

    fn check(&self, lacks: &str, params: &[Param], problems: &mut Problems) {
        for (_, name) in &self.0 {
            match params.iter().find(|param| param.name.unraw() == name.unraw()) {
                None => problems.add(name.span(), unknown_of(lacks, name, params)),
                Some(param) if !param.is_payload() => problems.add(name.span(), param.no_parameter()),
                Some(param) => {
                    if let Some((kind, because)) = kind_of(param) {
                        let advice = "name a string, an integer or a bool, or give each job a tag with `.tag(..)`";
                        problems.add(name.span(), format!("`{name}` is a {kind}, which cannot be the value of a tag{because}; {advice}"));
                    }
                }
            }
        }
    }

    /// Items that check whether the types of the parameters can be values of tags.
    pub(crate) fn asks(&self, params: &[Param]) -> TokenStream {
        self.0.iter().filter_map(|(_, parameter)| asks(parameter, params, &quote!(Tag))).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Name and parameter of each, as an array.
    pub(crate) fn array(&self, params: &[Param]) -> TokenStream {
        let pairs = self.0.iter().map(|(name, parameter)| {
            let (name, parameter) = (name.unraw().to_string(), key_of(parameter, params));
            quote!((#name, #parameter))
        });
        quote!(&[#(#pairs),*])
    }
}

#[cfg(test)]
mod tests {
    use crate::function::expand;

    #[test]
    fn mistakes_of_a_tag_are_reported_with_what_to_write() {
        let long = format!("tag({} = to)", "n".repeat(65));
        for (options, expected) in [
            ("tag", "write `tag(order)`"),
            ("tag()", "write `tag(order)`"),
            ("tag = order", "write `tag(order)`"),
            ("tag(\"order\")", "write `tag(order)`"),
            ("tag(kind = \"mail\")", ".tag(\\\"kind\\\", \\\"mail\\\")"),
            ("tag(order.id)", "make the field a parameter"),
            ("tag(order, order)", "given twice"),
            ("tag(order to)", "write a `,`"),
            ("tag(ordre)", "did you mean `order`?"),
            ("tag(weight)", "is a float, which cannot be the value of a tag: floats"),
            ("tag(parts)", "is a list, which cannot be the value of a tag; name a string"),
            ("tag(a = to, b = to, c = to, d = to, e = to, f = to, g = to, h = to, i = to)", "at most 8 tags"),
            (&long, "at most 64 letters"),
        ] {
            let function = "async fn send(order: u64, to: Option<String>, weight: Option<f64>, parts: Vec<u8>) {}";
            let text = expand(options.parse().unwrap(), &function.parse().unwrap()).to_string();
            assert_eq!(text.matches("compile_error !").count(), 1, "{options}: {text}");
            assert!(text.contains(expected), "{options}: {text}");
        }
        let text = expand("tag(order, customer = to)".parse().unwrap(), &"async fn send(order: u64, to: String) {}".parse().unwrap());
        assert!(text.to_string().contains(r#"def . tags = & [("order" , "order") , ("customer" , "to")]"#), "{text}");
    }
}
