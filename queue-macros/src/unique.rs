//! The option `unique` of `#[task(...)]`: the parameters of the key of a job, and the conditions
//! under which the job holds it.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{
    Error, GenericArgument, Ident, LitStr, PathArguments, PathSegment, Result, Token, Type, bracketed, ext::IdentExt, parenthesized,
    parse::ParseStream,
};

use crate::{
    options::{duration, one_of, value},
    params::{Param, key_of, last_segment},
    problems::Problems,
    suggest::nearest,
};

const KNOWN: [&str; 5] = ["by", "until", "within", "on_conflict", "payload"];

/// The names of these options in other systems.
const ELSEWHERE: [(&str, &str); 8] = [
    ("args", "by"),
    ("keys", "by"),
    ("fields", "by"),
    ("period", "within"),
    ("ttl", "within"),
    ("for", "within"),
    ("lock", "until"),
    ("conflict", "on_conflict"),
];

/// `unique`, or `unique(...)`, as it is written.
pub(crate) struct Unique {
    span: Span,
    by: Option<Vec<By>>,
    until: Option<(Ident, Span)>,
    within: Option<(Duration, Span)>,
    on_conflict: Option<(Ident, Span)>,
    payload: Option<(Ident, Span)>,
}

/// A parameter, or a field in it: `order.id`.
pub(crate) struct By(pub Vec<Ident>);

impl By {
    pub(crate) fn path(&self) -> String {
        self.0.iter().map(|name| name.unraw().to_string()).collect::<Vec<_>>().join(".")
    }

    /// The same with the key of the parameter.
    pub(crate) fn stored_path(&self, params: &[Param]) -> String {
        let fields = self.0.iter().skip(1).map(|name| name.unraw().to_string());
        std::iter::once(key_of(&self.0[0], params)).chain(fields).collect::<Vec<_>>().join(".")
    }
}

impl Unique {
    /// Reads the option after `unique`.
    pub(crate) fn parse(key: &Ident, input: ParseStream) -> Result<Self> {
        let mut unique = Unique { span: key.span(), by: None, until: None, within: None, on_conflict: None, payload: None };
        if input.peek(Token![=]) {
            return Err(Error::new(input.span(), "`unique` takes no value; write `unique`, or `unique(by = [user_id])`"));
        }
        if input.peek(syn::token::Paren) {
            let inner;
            parenthesized!(inner in input);
            unique.options(&inner)?;
        }
        unique.check()?;
        Ok(unique)
    }

    fn options(&mut self, input: ParseStream) -> Result<()> {
        let mut seen: Vec<String> = Vec::new();
        while !input.is_empty() {
            let key = input.call(Ident::parse_any)?;
            let name = key.to_string();
            if seen.contains(&name) {
                return Err(Error::new(key.span(), format!("`{name}` is given twice; keep one of the two")));
            }
            match name.as_str() {
                "by" => self.by = Some(by(&key, input)?),
                "until" => {
                    let text: LitStr = value(&key, input, "\"started\"")?;
                    let until = one_of(&text, "until", &[("ended", "UntilEnded"), ("started", "UntilStarted")])?;
                    self.until = Some((until, key.span()));
                }
                "within" => {
                    let text: LitStr = value(&key, input, "\"10m\"")?;
                    self.within = Some((duration(&text, false)?, key.span()));
                }
                "on_conflict" => {
                    let text: LitStr = value(&key, input, "\"replace\"")?;
                    let known = [("skip", "Skip"), ("replace", "Replace"), ("buffer_one", "BufferOne")];
                    self.on_conflict = Some((one_of(&text, "on_conflict", &known)?, key.span()));
                }
                "payload" => {
                    let text: LitStr = value(&key, input, "\"first\"")?;
                    self.payload = Some((one_of(&text, "payload", &[("last", "Last"), ("first", "First")])?, key.span()));
                }
                _ => return Err(Error::new(key.span(), unknown(&name))),
            }
            seen.push(name);
            if input.is_empty() {
                break;
            }
            input.parse::<Token![,]>().map_err(|error| Error::new(error.span(), "write a `,` between two options"))?;
        }
        Ok(())
    }

    /// Reports contradictions between the values.
    fn check(&self) -> Result<()> {
        let replaces = self.on_conflict.as_ref().is_some_and(|(how, _)| how == "Replace");
        match (&self.within, &self.until, &self.on_conflict, &self.payload) {
            (Some((_, span)), Some(_), ..) => Err(Error::new(
                *span,
                "`within` holds the key for a fixed time, and `until` until the job reaches a state: keep one of the two",
            )),
            (Some(_), _, Some((how, span)), _) if how != "Skip" => Err(Error::new(
                *span,
                "with `within` a second job is skipped: the first may have ended long ago; leave `on_conflict` out, or write `until` instead of `within`",
            )),
            (.., Some((_, span))) if !replaces => Err(Error::new(
                *span,
                "`payload` selects the payload that is kept when a job is replaced: it needs `on_conflict = \"replace\"`",
            )),
            _ => Ok(()),
        }
    }

    /// Reports conflicts with the parameters of the task.
    pub(crate) fn check_params(&self, params: &[Param], problems: &mut Problems) {
        let Some(by) = &self.by else {
            for param in params.iter().filter(|param| param.is_payload()) {
                if let Some(problem) = no_key(&param.ty) {
                    let names: Vec<String> =
                        params.iter().filter(|param| param.is_payload() && no_key(&param.ty).is_none()).map(|param| param.key()).collect();
                    let advice = format!("name those that make the key: `unique(by = [{}])`", names.join(", "));
                    problems.add(self.span, format!("the parameter `{}` {problem}; {advice}", param.key()));
                }
            }
            return;
        };
        for path in by {
            let name = &path.0[0];
            let found = params.iter().find(|param| param.name.unraw() == name.unraw());
            match found {
                None => problems.add(name.span(), unknown_parameter(name, params)),
                Some(param) if !param.is_payload() => problems.add(name.span(), param.no_parameter()),
                Some(param) if path.0.len() == 1 => {
                    if let Some(problem) = no_key(&param.ty) {
                        problems
                            .add(name.span(), format!("`{name}` {problem}; name others, or give each job a key with `.unique_key(..)`"));
                    }
                }
                Some(_) => {}
            }
        }
    }

    /// Items that check whether the types of parameters can be part of a key.
    pub(crate) fn asks(&self, params: &[Param]) -> TokenStream {
        match &self.by {
            Some(by) => asks_of(by, params),
            None => params.iter().filter(|param| param.is_payload()).filter_map(|param| asks(&param.name, param)).collect(),
        }
    }

    /// A statement that sets the field of a `TaskDef` named `def`.
    pub(crate) fn assignment(&self, core: &TokenStream, params: &[Param]) -> TokenStream {
        let by = self.by.as_ref().map(|by| {
            let paths = by.iter().map(|path| path.stored_path(params));
            quote!(__queue_unique.by = ::core::option::Option::Some(&[#(#paths),*]);)
        });
        let hold = match (&self.within, &self.until) {
            (Some((within, _)), _) => {
                let (seconds, nanos) = (within.as_secs(), within.subsec_nanos());
                Some(quote!(__queue_unique.hold = #core::Hold::Within(::core::time::Duration::new(#seconds, #nanos));))
            }
            (None, Some((until, _))) => Some(quote!(__queue_unique.hold = #core::Hold::#until;)),
            (None, None) => None,
        };
        let on_conflict = self.on_conflict.as_ref().map(|(how, _)| quote!(__queue_unique.on_conflict = #core::OnConflict::#how;));
        let keeps = self.payload.as_ref().is_some_and(|(which, _)| which == "First");
        let payload = keeps.then(|| quote!(__queue_unique.keep_payload = true;));
        quote! {
            __queue_def.unique = ::core::option::Option::Some({
                let mut __queue_unique = #core::inspect::UniqueDef::DEFAULT;
                #by #hold #on_conflict #payload
                __queue_unique
            });
        }
    }

    /// Statements that check the fields of a key against the values in `payload`. `local` returns
    /// the value of a parameter.
    pub(crate) fn checks(&self, payload: &Ident, params: &[Param], local: impl Fn(&Ident) -> Option<TokenStream>) -> TokenStream {
        let nested = self.by.iter().flatten().filter(|path| path.0.len() > 1);
        let checks = nested.filter_map(|path| {
            let local = local(&path.0[0])?;
            let (text, fields) = (path.stored_path(params), &path.0[1..]);
            // The error for a missing field has the span of its name.
            let span = fields[0].span();
            Some(quote_spanned!(span=> #payload.expects(#text, &#local.#(#fields).*);))
        });
        quote!(#(#checks)*)
    }
}

pub(crate) fn by(key: &Ident, input: ParseStream) -> Result<Vec<By>> {
    let wanted = "write `by = [user_id, order.id]`: names of parameters, or of fields in them";
    if !input.peek(Token![=]) {
        return Err(Error::new(key.span(), wanted));
    }
    input.parse::<Token![=]>()?;
    if !input.peek(syn::token::Bracket) {
        return Err(Error::new(input.span(), wanted));
    }
    let inner;
    bracketed!(inner in input);
    let mut paths: Vec<By> = Vec::new();
    while !inner.is_empty() {
        let mut path = vec![inner.call(Ident::parse_any).map_err(|error| Error::new(error.span(), wanted))?];
        while inner.peek(Token![.]) {
            inner.parse::<Token![.]>()?;
            path.push(inner.call(Ident::parse_any).map_err(|error| Error::new(error.span(), wanted))?);
        }
        let path = By(path);
        if paths.iter().any(|other| other.path() == path.path()) {
            return Err(Error::new(path.0[0].span(), format!("`{}` is named twice; keep one of the two", path.path())));
        }
        paths.push(path);
        if inner.is_empty() {
            break;
        }
        inner.parse::<Token![,]>().map_err(|error| Error::new(error.span(), "write a `,` between two parameters"))?;
    }
    Ok(paths)
}

fn unknown(name: &str) -> String {
    let near = ELSEWHERE.iter().find(|(other, _)| *other == name).map(|(_, known)| *known).or_else(|| nearest(name, &KNOWN));
    match near {
        Some(near) => format!("`unique` has no `{name}`; did you mean `{near}`?"),
        None => format!("`unique` has no `{name}`; it has {}", KNOWN.map(|known| format!("`{known}`")).join(", ")),
    }
}

pub(crate) fn unknown_parameter(name: &Ident, params: &[Param]) -> String {
    unknown_of("the task has no parameter", name, params)
}

/// The same for an item without parameters, such as an event. `lacks` is the beginning of the
/// message.
pub(crate) fn unknown_of(lacks: &str, name: &Ident, params: &[Param]) -> String {
    let names: Vec<String> = params.iter().filter(|param| param.is_payload()).map(Param::key).collect();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let text = name.unraw().to_string();
    match (nearest(&text, &known), known.is_empty()) {
        (Some(near), _) => format!("{lacks} `{text}`; did you mean `{near}`?"),
        (None, true) => format!("{lacks} `{text}`: it has none"),
        (None, false) => {
            format!("{lacks} `{text}`; it has {}", known.iter().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Why a parameter of this type cannot be part of a key, as far as its name shows it. A `HashSet`
/// as the whole parameter is stored sorted, so it can be.
pub(crate) fn no_key(ty: &Type) -> Option<&'static str> {
    let elements = set_in(ty).and_then(|set| match &set.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.first(),
        _ => None,
    });
    match elements {
        Some(GenericArgument::Type(ty)) => no_part(ty),
        _ => no_part(ty),
    }
}

/// The `HashSet` type, if its name shows that the whole parameter is one.
fn set_in(ty: &Type) -> Option<&PathSegment> {
    let segment = last_segment(ty)?;
    match (&segment.arguments, segment.ident == "Option") {
        (PathArguments::AngleBracketed(arguments), true) => match arguments.args.first()? {
            GenericArgument::Type(ty) => last_segment(ty),
            _ => None,
        },
        _ => Some(segment),
    }
    .filter(|segment| segment.ident == "HashSet")
}

/// The same of the parameters that are named.
pub(crate) fn asks_of(by: &[By], params: &[Param]) -> TokenStream {
    let whole = by.iter().filter(|path| path.0.len() == 1).map(|path| &path.0[0]);
    whole.filter_map(|name| asks(name, params.iter().find(|param| param.name.unraw() == name.unraw())?)).collect()
}

/// An item that does not compile if a part of the key is a set type of another crate, which is not
/// sorted.
fn asks(name: &Ident, param: &Param) -> Option<TokenStream> {
    let ty = &param.ty;
    let problem = format!("`{}` is a set without an order, which cannot be part of a key: take `std::collections::HashSet`", param.name);
    let is_set = param.is_stored_as_it_is() && set_in(ty).is_some();
    is_set.then(|| quote_spanned!(name.span()=> const _: () = if !__queue::Has::<#ty>::SORTED { ::core::panic!("{}", #problem) };))
}

fn no_part(ty: &Type) -> Option<&'static str> {
    let inside = match ty {
        Type::Tuple(tuple) => return tuple.elems.iter().find_map(no_part),
        Type::Array(array) => return no_part(&array.elem),
        _ => last_segment(ty)?,
    };
    match inside.ident.to_string().as_str() {
        "f32" | "f64" => return Some("is a float, which cannot be part of a key: floats that look equal may differ"),
        "HashMap" | "BTreeMap" => return Some("is a map, which cannot be part of a key"),
        "HashSet" => return Some("has a set without an order in it, which cannot be part of a key: take a `BTreeSet`"),
        _ => {}
    }
    let PathArguments::AngleBracketed(arguments) = &inside.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => no_part(ty),
        _ => None,
    })
}
