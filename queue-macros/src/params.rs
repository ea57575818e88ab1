//! The parameters of a task: payload parameters, injected parameters, and optional ones.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, GenericArgument, Ident, Lit, Meta, MetaNameValue, Pat, PathArguments, PathSegment, Result,
    Token, Type, ext::IdentExt, punctuated::Punctuated, spanned::Spanned, visit::Visit,
};

use crate::serde;

/// One parameter of a task function, or one field of a payload struct.
pub(crate) struct Param {
    pub name: Ident,
    pub ty: Type,
    pub kind: Kind,
    /// If it is a field: its serde attributes, its key, and whether the key has a default by the
    /// struct.
    field: Option<(serde::Field, String, bool)>,
}

pub(crate) enum Kind {
    /// Part of the payload, and required.
    Required,
    /// Optional: an `Option`, or `#[default]`.
    Optional,
    /// Optional: `#[default(expression)]`.
    Defaulted(Box<Expr>),
    /// Provided by the worker.
    Injected,
    /// A field that serde skips, or whose own fields are parameters.
    Nameless,
}

impl Param {
    /// Reads a function's parameter and removes our attributes from it.
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
        // First, so that the attributes are removed even if there are other mistakes.
        let serde = take_serde(&mut argument.attrs);
        let (default, inject) = take_attributes(&mut argument.attrs)?;
        if let Some(problem) = serde {
            return Err(problem);
        }
        let name = match argument.pat.as_ref() {
            Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => pattern.ident.clone(),
            other => {
                return Err(Error::new(
                    other.span(),
                    "the name of a parameter is its key in the payload: write `name: Type` and take it apart in the body",
                ));
            }
        };
        Self::new(name, (*argument.ty).clone(), default, inject)
    }

    /// Reads a struct's field.
    pub(crate) fn of_field(name: Ident, ty: Type, attributes: &[Attribute], container: &serde::Container) -> Result<Self> {
        let mut attributes = attributes.to_vec();
        let (default, inject) = take_attributes(&mut attributes)?;
        let mut field = serde::Field::of(&attributes)?;
        if let Some(span) = inject {
            return Err(Error::new(
                span,
                "a payload struct takes nothing from the worker; its handler finds what the worker was given with `ctx.data::<T>()`",
            ));
        }
        check_payload_type(&ty)?;
        let (key, defaulted) = container.name(&name.unraw().to_string(), &field);
        if default.is_some() || defaulted {
            field.unwritten = None;
        }
        let kind = if field.nameless { Kind::Nameless } else { payload_kind(&ty, default) };
        Ok(Param { kind, name, ty, field: Some((field, key, defaulted)) })
    }

    fn new(name: Ident, ty: Type, default: Option<OwnDefault>, inject: Option<Span>) -> Result<Self> {
        if inject.is_none()
            && let Some(problem) = foreign(&ty)
        {
            return Err(problem);
        }
        if inject.is_some() || looks_injected(&ty) {
            if let Some(default) = default {
                return Err(Error::new(default.span, "an injected parameter has no default: the worker provides it"));
            }
            return Ok(Param { name, ty, kind: Kind::Injected, field: None });
        }
        check_payload_type(&ty)?;
        Ok(Param { kind: payload_kind(&ty, default), name, ty, field: None })
    }

    pub(crate) fn is_payload(&self) -> bool {
        !matches!(self.kind, Kind::Injected | Kind::Nameless)
    }

    pub(crate) fn is_injected(&self) -> bool {
        matches!(self.kind, Kind::Injected)
    }

    /// The reason why no parameter has its name.
    pub(crate) fn no_parameter(&self) -> String {
        match self.kind {
            Kind::Nameless => format!("serde skips or flattens `{}`, and no parameter has its name: name another one", self.name),
            _ => format!("`{}` comes from the worker, and no job has it: name a parameter of the payload", self.name),
        }
    }

    /// Its key in the payload.
    pub(crate) fn key(&self) -> String {
        self.field.as_ref().map_or_else(|| self.name.unraw().to_string(), |(_, key, _)| key.clone())
    }

    /// A constant expression: whether it is an `Option` whose `None` is left out. A serialization
    /// function of the user may store `Some(None)`.
    fn is_option(&self) -> TokenStream {
        let ty = &self.ty;
        let has = quote_spanned!(ty.span()=> __queue::Has::<#ty>);
        quote!((#has::OPTION && !#has::NESTED))
    }

    /// Constant expressions: whether it is required, and whether it is left out when it is `None`.
    fn presence(&self) -> (TokenStream, TokenStream) {
        let option = self.is_option();
        // A missing value gets the default.
        let (by_serde, by_another) = match &self.field {
            Some((field, _, container)) => (field.default || *container, field.own_default || *container && !field.default),
            None => (false, false),
        };
        match self.kind {
            Kind::Defaulted(_) => (quote!(false), quote!(false)),
            _ if by_another => (quote!(false), quote!(false)),
            Kind::Required if !by_serde && self.field.as_ref().is_some_and(|(field, ..)| field.alias) => (quote!(true), quote!(false)),
            Kind::Required if !by_serde => (quote!(!#option), option),
            _ => (quote!(false), option),
        }
    }

    /// Whether a schedule may have to provide it. Its type may be an alias of `Option`, which only
    /// [`is_required`](Self::is_required) detects.
    pub(crate) fn may_be_required(&self) -> bool {
        let has_default = self.field.as_ref().is_some_and(|(field, _, container)| field.default || *container);
        matches!(self.kind, Kind::Required) && !has_default
    }

    /// A constant expression: whether a payload without it cannot be read.
    pub(crate) fn is_required(&self) -> TokenStream {
        self.presence().0
    }

    /// Whether a schedule can provide it.
    pub(crate) fn is_written(&self) -> bool {
        self.is_payload() || self.field.as_ref().is_some_and(|(field, ..)| field.flat)
    }

    /// All trait bounds on a parameter go through this item, so a missing bound gives one compiler
    /// error.
    pub(crate) fn access(&self, index: usize) -> (Ident, TokenStream) {
        let ty = &self.ty;
        let (access, constant) = match self.kind {
            Kind::Injected => (quote!(Injected), Ident::new(&format!("__QUEUE_INJECTED_{index}"), Span::call_site())),
            _ => (quote!(Param), Ident::new(&format!("__QUEUE_PARAM_{index}"), Span::call_site())),
        };
        let has = quote_spanned!(ty.span()=> __queue::Has::<#ty>);
        let (ask, get) = match self.kind {
            Kind::Injected => (quote!(__queue::of_injected(#has::INJECT, #has::DATA)), quote_spanned!(ty.span()=> injected)),
            // A field has no `#[inject]` that could be missing.
            _ if self.field.is_some() => {
                (quote!(__queue::of_payload(#has::SERIALIZE, #has::DESERIALIZE, false, #has::NESTED)), quote_spanned!(ty.span()=> payload))
            }
            _ => (
                quote!(__queue::of_payload(#has::SERIALIZE, #has::DESERIALIZE, #has::INJECT || #has::DATA, #has::NESTED)),
                quote_spanned!(ty.span()=> payload),
            ),
        };
        let stored = (!matches!(self.kind, Kind::Injected)).then(|| {
            let (_, option) = self.presence();
            quote!(.stored(#option, #has::BYTES, #has::SORTED))
        });
        let item = quote_spanned!(ty.span()=> const #constant: __queue::#access<#ty> = __queue::Access::<#ty, { #ask }>::#get() #stored;);
        (constant, item)
    }

    /// Whether the expansion checks that its type can be stored. It does not for a field that serde
    /// handles with functions of the user.
    pub(crate) fn is_stored_as_it_is(&self) -> bool {
        self.field.as_ref().is_none_or(|(field, ..)| !field.nameless && !field.writes && !field.reads)
    }

    /// The field of the struct for which serde derives, and the functions that serde calls for it.
    pub(crate) fn field(&self, index: usize) -> (TokenStream, TokenStream) {
        let (name, ty) = (&self.name, &self.ty);
        let Some((field, ..)) = &self.field else { return Default::default() };
        let attributes = &field.attributes;
        let [write, read] = ["write", "read"].map(|verb| Ident::new(&format!("__queue_{verb}_{index}"), Span::call_site()));
        let default = matches!(self.kind, Kind::Defaulted(_)) || matches!(self.kind, Kind::Optional) && self.adds_serde_default();
        let default = default.then(|| {
            let function = default_name(index).to_string();
            quote!(#[serde(default = #function)])
        });
        if !self.is_stored_as_it_is() {
            return (quote!(#(#attributes)* #default #name: #ty,), TokenStream::new());
        }
        let (writes, reads) = (write.to_string(), read.to_string());
        let has = quote_spanned!(ty.span()=> __queue::Has::<#ty>);
        let how = quote!(__queue::Field::<#ty, { #has::SERIALIZE && #has::DESERIALIZE }>);
        let item = quote! {
            fn #write<__QueueS: __queue::serde::Serializer>(
                __queue_value: &#ty,
                __queue_serializer: __QueueS,
            ) -> ::core::result::Result<__QueueS::Ok, __QueueS::Error> {
                #how::write(__queue_value, __queue_serializer, #has::BYTES, #has::SORTED)
            }
            fn #read<'de, __QueueD: __queue::serde::Deserializer<'de>>(
                __queue_deserializer: __QueueD,
            ) -> ::core::result::Result<#ty, __QueueD::Error> {
                #how::read(__queue_deserializer)
            }
        };
        (quote!(#(#attributes)* #[serde(serialize_with = #writes, deserialize_with = #reads)] #default #name: #ty,), item)
    }

    /// Whether a missing value gets the `Default` of its type although the serde attributes do not
    /// set that.
    fn adds_serde_default(&self) -> bool {
        let is_option = last_segment(&self.ty).is_some_and(|segment| segment.ident == "Option");
        self.field.as_ref().is_some_and(|(field, _, container)| !(field.default || is_option && *container))
    }

    /// An item that does not compile if serde may leave out the field and then cannot deserialize
    /// the payload.
    fn missing(&self) -> Option<TokenStream> {
        let field = &self.field.as_ref()?.0;
        let word = field.unwritten.as_ref()?;
        let is_readable = match self.kind {
            // Its default comes from the expansion.
            Kind::Optional => return None,
            _ if field.alias || field.nameless && field.reads => quote!(false),
            _ => self.is_option(),
        };
        let problem = format!("`{}: {}` cannot be read if `{word}` leaves it out: add `#[serde(default)]`", self.name, shown(&self.ty));
        Some(quote_spanned!(word.span()=> const _: () = if !#is_readable { ::core::panic!(#problem) };))
    }

    /// The value for a missing `None` of an `Option` under an alias. serde does not use a default
    /// if a function deserializes the field. A field with an alias is left out: its value may be
    /// stored under the alias.
    fn nil(&self) -> Option<TokenStream> {
        let (field, key, container) = self.field.as_ref()?;
        let (option, is_open) = (self.is_option(), matches!(self.kind, Kind::Required) && !field.default && !field.alias && !container);
        is_open.then(|| quote!((#key, #option)))
    }

    /// A constant expression: whether a worker can provide it. `None` for payload.
    pub(crate) fn is_given(&self) -> Option<TokenStream> {
        let ty = &self.ty;
        self.is_injected().then(|| quote_spanned!(ty.span()=> __queue::Has::<#ty>::INJECT))
    }

    /// An expression with its value, in a function that has `payload` and `context` and returns a
    /// `Result`.
    pub(crate) fn value(&self, index: usize, access: &Ident) -> TokenStream {
        let key = self.key();
        match &self.kind {
            Kind::Required => quote!(__queue_payload.required(#key, &#access)?),
            Kind::Optional | Kind::Defaulted(_) => {
                let function = default_name(index);
                quote!(__queue_payload.optional(#key, &#access, #function)?)
            }
            Kind::Injected | Kind::Nameless => quote!(#access.get(__queue_context)?),
        }
    }

    /// The function that returns its default. It is a separate function, so that the expression has
    /// no access to our names.
    pub(crate) fn default_item(&self, index: usize) -> Option<TokenStream> {
        let (function, ty) = (default_name(index), &self.ty);
        let value = match &self.kind {
            Kind::Defaulted(expression) => expression.to_token_stream(),
            Kind::Optional => quote_spanned!(ty.span()=> __queue::default_of()),
            Kind::Required | Kind::Injected | Kind::Nameless => return None,
        };
        Some(quote!(fn #function() -> #ty { #value }))
    }

    /// Its `ParamDef`.
    pub(crate) fn definition(&self, core: &TokenStream) -> TokenStream {
        let (key, ty, (required, option)) = (self.key(), shown(&self.ty), self.presence());
        quote!(#core::__private::ParamDef { name: #key, ty: #ty, required: #required, option: #option })
    }
}

/// The key in the payload of the parameter of this name.
pub(crate) fn key_of(name: &Ident, params: &[Param]) -> String {
    params.iter().find(|param| param.name.unraw() == name.unraw()).map_or_else(|| name.unraw().to_string(), Param::key)
}

/// The items for a struct whose fields are the payload: the struct for which serde derives, and its
/// implementation of `Fields`.
pub(crate) fn fields(of: &Ident, params: &[Param], container: &serde::Container, role: &TokenStream, core: &TokenStream) -> TokenStream {
    let attributes = &container.attributes;
    // In the order in which they are stored. Flattened fields keep their order, because each takes
    // the keys that the ones before it have left.
    let mut ordered: Vec<_> = params.iter().enumerate().collect();
    ordered.sort_by_key(|(_, param)| (!param.is_payload(), if param.is_payload() { param.key() } else { String::new() }));
    let (fields, functions): (Vec<_>, Vec<_>) = ordered.into_iter().map(|(index, param)| param.field(index)).unzip();
    let defaults = params.iter().enumerate().filter_map(|(index, param)| param.default_item(index));
    let stored = params.iter().enumerate().filter(|(_, param)| param.is_payload() && param.is_stored_as_it_is());
    let accesses = stored.map(|(index, param)| param.access(index).1);
    let definitions = params.iter().filter(|param| param.is_payload()).map(|param| param.definition(core));
    let nils = params.iter().filter_map(Param::nil);
    let missing = params.iter().filter_map(Param::missing);
    let remote = of.to_string();
    // serde needs a `Default`. This one calls the `Default` of the struct itself.
    let default = container.default.then(|| {
        quote! {
            impl ::core::default::Default for __QueueFields {
                fn default() -> Self {
                    ::core::unreachable!()
                }
            }
        }
    });
    quote! {
        #(#accesses)*
        #(#missing)*
        #(#defaults)*
        #(#functions)*

        #[derive(__queue::serde::Serialize, __queue::serde::Deserialize)]
        #[serde(crate = "__queue::serde", remote = #remote)]
        #(#attributes)*
        #[allow(dead_code, reason = "serde derives of it")]
        struct __QueueFields { #(#fields)* }

        #default

        impl __queue::Fields<__queue::#role> for #of {
            const PARAMS: &'static [#core::__private::ParamDef] = &[#(#definitions),*];
            const NILS: &'static [(&'static ::core::primitive::str, ::core::primitive::bool)] = &[#(#nils),*];

            fn write<__QueueS: __queue::serde::Serializer>(
                &self,
                __queue_serializer: __QueueS,
            ) -> ::core::result::Result<__QueueS::Ok, __QueueS::Error> {
                use __queue::NotDerived as _;
                __QueueFields::serialize(self, __queue_serializer)
            }

            fn read<'de, __QueueD: __queue::serde::Deserializer<'de>>(
                __queue_deserializer: __QueueD,
            ) -> ::core::result::Result<Self, __QueueD::Error> {
                use __queue::NotDerived as _;
                __QueueFields::deserialize(__queue_deserializer)
            }
        }
    }
}

fn default_name(index: usize) -> Ident {
    Ident::new(&format!("__queue_default_{index}"), Span::call_site())
}

struct OwnDefault {
    span: Span,
    expression: Option<Expr>,
}

fn payload_kind(ty: &Type, default: Option<OwnDefault>) -> Kind {
    match default {
        Some(OwnDefault { expression: Some(expression), .. }) => Kind::Defaulted(Box::new(expression)),
        Some(OwnDefault { expression: None, .. }) => Kind::Optional,
        None if last_segment(ty).is_some_and(|segment| segment.ident == "Option") => Kind::Optional,
        None => Kind::Required,
    }
}

/// serde attributes have no effect on a parameter. The error has the equivalent option.
fn take_serde(attributes: &mut Vec<Attribute>) -> Option<Error> {
    let at = attributes.iter().position(|attribute| attribute.path().is_ident("serde"))?;
    let attribute = attributes.remove(at);
    attributes.retain(|attribute| !attribute.path().is_ident("serde"));
    let first = match &attribute.meta {
        Meta::List(list) => list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?.into_iter().next(),
        _ => None,
    };
    let problem = match first {
        Some(Meta::Path(path)) if path.is_ident("default") => "serde does not see a parameter: write `#[default]`".to_owned(),
        Some(Meta::NameValue(MetaNameValue { path, value: Expr::Lit(ExprLit { lit: Lit::Str(function), .. }), .. }))
            if path.is_ident("default") =>
        {
            format!("serde does not see a parameter: write `#[default({}())]`", function.value())
        }
        _ => "serde does not see a parameter: put its attributes into a type of your own, and take that as the parameter".to_owned(),
    };
    Some(Error::new(attribute.path().span(), problem))
}

fn take_attributes(attributes: &mut Vec<Attribute>) -> Result<(Option<OwnDefault>, Option<Span>)> {
    let (mut default, mut inject) = (None, None);
    let mut problem = None::<Error>;
    attributes.retain(|attribute| {
        let path = attribute.path();
        if path.is_ident("default") {
            if default.is_some() {
                problem = Some(Error::new(path.span(), "`#[default]` is given twice; keep one of the two"));
            }
            let expression = match &attribute.meta {
                Meta::Path(_) => Ok(None),
                Meta::List(list) => list.parse_args::<Expr>().map(Some),
                Meta::NameValue(pair) => Err(Error::new(pair.span(), "write `#[default]` or `#[default(expression)]`")),
            };
            match expression {
                Ok(expression) => default = Some(OwnDefault { span: path.span(), expression }),
                Err(error) => problem = Some(error),
            }
            return false;
        }
        if path.is_ident("cfg") || path.is_ident("cfg_attr") {
            problem = Some(Error::new(
                path.span(),
                "a parameter cannot depend on the build: another build may run the job; take an `Option` instead",
            ));
        }
        if path.is_ident("inject") {
            if attribute.meta.require_path_only().is_err() {
                problem = Some(Error::new(path.span(), "`#[inject]` takes no value; the type says what is injected"));
            }
            inject = Some(path.span());
            return false;
        }
        true
    });
    problem.map_or(Ok((default, inject)), Err)
}

/// Whether the last path segment is `Data` or `JobContext`. The expansion checks whether the type
/// is ours.
pub(crate) fn looks_injected(ty: &Type) -> bool {
    last_segment(ty).is_some_and(|segment| segment.ident == "Data" || segment.ident == "JobContext")
}

/// The error for a type that cannot be ours, by its syntax. It is reported here because such a type
/// is often also not `Send`, which would give a second error.
fn foreign(ty: &Type) -> Option<Error> {
    let segment = last_segment(ty)?;
    let has_lifetime = match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.iter().any(|argument| matches!(argument, GenericArgument::Lifetime(_))),
        _ => false,
    };
    let problem = match segment.ident.to_string().as_str() {
        "Context" => {
            "the worker does not provide this type: write `JobContext`; if it is an alias of that, put `#[inject]` before the parameter; \
             a payload type needs another name"
        }
        "Data" if has_lifetime => "this `Data` is another crate's, ours has no lifetime: write `queue_core::Data<T>`",
        _ => return None,
    };
    Some(Error::new(segment.ident.span(), problem))
}

pub(crate) fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        Type::Group(group) => last_segment(&group.elem),
        Type::Paren(paren) => last_segment(&paren.elem),
        _ => None,
    }
}

/// The error for a type that cannot be part of a payload, at any depth of the type.
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

/// A type in the usual notation.
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
    fn payload_and_injected_parameters_are_distinguished() {
        assert!(matches!(kind(syn::parse_quote!(a: u8)), Kind::Required));
        assert!(matches!(kind(syn::parse_quote!(a: Option<u8>)), Kind::Optional));
        assert!(matches!(kind(syn::parse_quote!(#[default] a: u8)), Kind::Optional));
        assert!(matches!(kind(syn::parse_quote!(#[default(7)] a: u8)), Kind::Defaulted(_)));
        assert!(matches!(kind(syn::parse_quote!(a: queue_core::Data<Shop>)), Kind::Injected));
        assert!(matches!(kind(syn::parse_quote!(ctx: JobContext)), Kind::Injected));
        assert!(matches!(kind(syn::parse_quote!(#[inject] shop: Shop)), Kind::Injected));
        assert!(matches!(kind(syn::parse_quote!(#[inject] ctx: Context)), Kind::Injected));
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
