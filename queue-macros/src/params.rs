//! The parameters of a task: which are payload, which are injected, and what a payload may lack.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Attribute, Error, Expr, FnArg, Ident, Meta, Pat, Result, Type, spanned::Spanned, visit::Visit};

/// One parameter of a task function, or one field of a payload struct.
pub(crate) struct Param {
    pub name: Ident,
    pub ty: Type,
    pub kind: Kind,
}

pub(crate) enum Kind {
    /// Travels in the payload; must be there.
    Required,
    /// May be missing: an `Option`, or `#[default]`.
    Optional,
    /// May be missing: `#[default(expression)]`.
    Defaulted(Box<Expr>),
    /// Comes from the worker.
    Injected,
}

impl Param {
    /// Reads a function's parameter and takes our attributes off it.
    pub(crate) fn of_argument(argument: &mut FnArg) -> Result<Self> {
        let argument = match argument {
            FnArg::Typed(argument) => argument,
            FnArg::Receiver(receiver) => {
                return Err(Error::new(
                    receiver.span(),
                    "a task has no `self`: make it a free function, or put `#[derive(Task)]` on the struct and implement `Handler`",
                ));
            }
        };
        let name = match argument.pat.as_ref() {
            Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => pattern.ident.clone(),
            other => {
                return Err(Error::new(
                    other.span(),
                    "the name of a parameter is its key in the payload: write `name: Type` and take it apart in the body",
                ));
            }
        };
        let (default, inject) = take_attributes(&mut argument.attrs)?;
        Self::new(name, (*argument.ty).clone(), default, inject)
    }

    /// Reads a struct's field.
    pub(crate) fn of_field(name: Ident, ty: Type, attributes: &[Attribute]) -> Result<Self> {
        let mut attributes = attributes.to_vec();
        let (default, inject) = take_attributes(&mut attributes)?;
        if let Some(span) = inject {
            return Err(Error::new(
                span,
                "a payload struct takes nothing from the worker; its handler finds states with `ctx.state::<T>()`",
            ));
        }
        check_payload_type(&ty)?;
        Ok(Param { kind: payload_kind(&ty, default), name, ty })
    }

    fn new(name: Ident, ty: Type, default: Option<Default>, inject: Option<Span>) -> Result<Self> {
        if inject.is_some() || looks_injected(&ty) {
            if let Some(default) = default {
                return Err(Error::new(default.span, "an injected parameter has no default: the worker provides it"));
            }
            return Ok(Param { name, ty, kind: Kind::Injected });
        }
        check_payload_type(&ty)?;
        Ok(Param { kind: payload_kind(&ty, default), name, ty })
    }

    pub(crate) fn is_payload(&self) -> bool {
        !matches!(self.kind, Kind::Injected)
    }

    /// Its key in the payload.
    pub(crate) fn key(&self) -> String {
        self.name.to_string().trim_start_matches("r#").to_owned()
    }

    /// The one item through which everything that we need of its type goes, so that a type that lacks it is told once.
    pub(crate) fn access(&self, index: usize) -> (Ident, TokenStream) {
        let ty = &self.ty;
        let (access, constant) = match self.kind {
            Kind::Injected => (quote!(Injected), Ident::new(&format!("__INJECTED_{index}"), Span::call_site())),
            _ => (quote!(Param), Ident::new(&format!("__PARAM_{index}"), Span::call_site())),
        };
        let item = quote_spanned!(ty.span()=> const #constant: __queue::#access<#ty> = __queue::#access::<#ty>::NEW;);
        (constant, item)
    }

    /// An expression that gives its value, in a function that has `payload` and `context` and returns a `Result`.
    pub(crate) fn value(&self, access: &Ident) -> TokenStream {
        let key = self.key();
        match &self.kind {
            Kind::Required => quote!(payload.required(#key, &#access)?),
            Kind::Optional => {
                let ty = &self.ty;
                quote!(payload.optional(#key, &#access, <#ty as ::core::default::Default>::default)?)
            }
            Kind::Defaulted(expression) => quote!(payload.optional(#key, &#access, || #expression)?),
            Kind::Injected => quote!(#access.get(context)?),
        }
    }

    /// Its `ParamDef`.
    pub(crate) fn definition(&self, core: &TokenStream) -> TokenStream {
        let (key, ty, required) = (self.key(), shown(&self.ty), matches!(self.kind, Kind::Required));
        quote!(#core::task::ParamDef { name: #key, ty: #ty, required: #required })
    }
}

struct Default {
    span: Span,
    expression: Option<Expr>,
}

fn payload_kind(ty: &Type, default: Option<Default>) -> Kind {
    match default {
        Some(Default { expression: Some(expression), .. }) => Kind::Defaulted(Box::new(expression)),
        Some(Default { expression: None, .. }) => Kind::Optional,
        None if last_segment(ty).is_some_and(|name| name == "Option") => Kind::Optional,
        None => Kind::Required,
    }
}

fn take_attributes(attributes: &mut Vec<Attribute>) -> Result<(Option<Default>, Option<Span>)> {
    let (mut default, mut inject) = (None, None);
    let mut problem = None;
    attributes.retain(|attribute| {
        let path = attribute.path();
        if path.is_ident("default") {
            let expression = match &attribute.meta {
                Meta::Path(_) => Ok(None),
                Meta::List(list) => list.parse_args::<Expr>().map(Some),
                Meta::NameValue(pair) => Err(Error::new(pair.span(), "write `#[default]` or `#[default(expression)]`")),
            };
            match expression {
                Ok(expression) => default = Some(Default { span: attribute.span(), expression }),
                Err(error) => problem = Some(error),
            }
            return false;
        }
        if path.is_ident("inject") {
            inject = Some(attribute.span());
            return false;
        }
        true
    });
    problem.map_or(Ok((default, inject)), Err)
}

/// `State<T>` and `JobContext` by their last path segment; `Context` too, which is nobody's payload, to tell what to write.
fn looks_injected(ty: &Type) -> bool {
    last_segment(ty).is_some_and(|name| name == "State" || name == "JobContext" || name == "Context")
}

fn last_segment(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        Type::Group(group) => last_segment(&group.elem),
        Type::Paren(paren) => last_segment(&paren.elem),
        _ => None,
    }
}

/// What no payload can be, wherever it stands in the type.
fn check_payload_type(ty: &Type) -> Result<()> {
    struct Check(Option<Error>);
    impl<'a> Visit<'a> for Check {
        fn visit_type(&mut self, ty: &'a Type) {
            let problem = match ty {
                Type::Reference(reference) => {
                    let owned = match shown(&reference.elem).as_str() {
                        "str" => "String".to_owned(),
                        elem => match elem.strip_prefix('[').and_then(|elem| elem.strip_suffix(']')) {
                            Some(item) => format!("Vec<{item}>"),
                            None => elem.to_owned(),
                        },
                    };
                    Some(format!("a payload is stored, it cannot borrow: take an owned `{owned}`"))
                }
                Type::ImplTrait(_) => {
                    Some("a payload needs a name for its type to be read back: write a concrete type instead of `impl Trait`".to_owned())
                }
                Type::Infer(_) => Some("write the type: it is what the payload is read back as".to_owned()),
                _ => None,
            };
            match problem {
                Some(problem) => self.0 = self.0.take().or_else(|| Some(Error::new(ty.span(), problem))),
                None => syn::visit::visit_type(self, ty),
            }
        }
    }
    let mut check = Check(None);
    check.visit_type(ty);
    check.0.map_or(Ok(()), Err)
}

/// A type as people write it.
pub(crate) fn shown(ty: &Type) -> String {
    let mut text = ty.to_token_stream().to_string();
    for (wide, narrow) in [
        (" < ", "<"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" :: ", "::"),
        (":: ", "::"),
        (" ,", ","),
        (" ;", ";"),
        ("& ", "&"),
        ("[ ", "["),
        (" ]", "]"),
    ] {
        text = text.replace(wide, narrow);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(mut argument: FnArg) -> Kind {
        Param::of_argument(&mut argument).unwrap().kind
    }

    #[test]
    fn payload_and_injected_parameters_are_told_apart() {
        assert!(matches!(kind(syn::parse_quote!(a: u8)), Kind::Required));
        assert!(matches!(kind(syn::parse_quote!(a: Option<u8>)), Kind::Optional));
        assert!(matches!(kind(syn::parse_quote!(#[default] a: u8)), Kind::Optional));
        assert!(matches!(kind(syn::parse_quote!(#[default(7)] a: u8)), Kind::Defaulted(_)));
        assert!(matches!(kind(syn::parse_quote!(a: queue_core::State<Shop>)), Kind::Injected));
        assert!(matches!(kind(syn::parse_quote!(ctx: JobContext)), Kind::Injected));
        assert!(matches!(kind(syn::parse_quote!(#[inject] shop: Shop)), Kind::Injected));
    }

    #[test]
    fn types_are_shown_as_they_are_written() {
        assert_eq!(
            shown(&syn::parse_quote!(Option<std::collections::BTreeMap<String, Vec<u8>>>)),
            "Option<std::collections::BTreeMap<String, Vec<u8>>>"
        );
        assert_eq!(shown(&syn::parse_quote!([u8; 4])), "[u8; 4]");
    }

    #[test]
    fn a_borrowing_type_is_refused_at_any_depth_and_the_owned_one_is_named() {
        let problem = check_payload_type(&syn::parse_quote!(Option<&'static str>)).unwrap_err().to_string();
        assert!(problem.contains("`String`"), "{problem}");
        assert!(check_payload_type(&syn::parse_quote!(&[u8])).unwrap_err().to_string().contains("`Vec<u8>`"));
        assert!(check_payload_type(&syn::parse_quote!(Vec<_>)).is_err());
    }
}
