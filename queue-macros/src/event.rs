//! `#[derive(Event)]` on a struct.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{
    Data, DeriveInput, Error, Field, Fields, LitStr, Meta, Path, Result, Token,
    ext::IdentExt,
    parse::{ParseStream, Parser},
    spanned::Spanned,
};

use crate::{
    options::{checked_name, is_name, value},
    params::Param,
    problems::Problems,
    serde,
    suggest::nearest,
    tag::Tags,
};

const KNOWN: [&str; 4] = ["topic", "name", "tag", "crate"];

/// The options of `#[event(...)]`.
#[derive(Default)]
struct Options {
    topic: Option<String>,
    name: Option<String>,
    tags: Tags,
    krate: Option<Path>,
}

impl Options {
    fn parser(input: ParseStream) -> Result<Self> {
        let (mut options, mut seen) = (Options::default(), Vec::new());
        while !input.is_empty() {
            let key = input.call(Ident::parse_any)?;
            let name = key.to_string();
            if seen.contains(&name) {
                return Err(Error::new(key.span(), format!("`{name}` is given twice; keep one of the two")));
            }
            match &*name {
                "topic" => options.topic = Some(checked_name(&value::<LitStr>(&key, input, "\"orders\"")?)?),
                "name" => options.name = Some(checked_name(&value::<LitStr>(&key, input, "\"order.paid\"")?)?),
                "tag" => options.tags = Tags::parse(&key, input)?,
                "crate" => options.krate = Some(value(&key, input, "my_crate::queue_core")?),
                _ => {
                    let hint = nearest(&name, &KNOWN)
                        .map_or_else(|| "there are `topic`, `name` and `tag`".to_owned(), |near| format!("did you mean `{near}`?"));
                    return Err(Error::new(key.span(), format!("there is no option `{name}` of an event; {hint}")));
                }
            }
            seen.push(name);
            if !input.is_empty() {
                input.parse::<Token![,]>().map_err(|error| Error::new(error.span(), "write a `,` between two options"))?;
            }
        }
        Ok(options)
    }

    fn of(input: &DeriveInput) -> Result<Self> {
        let mut attributes = input.attrs.iter().filter(|attribute| attribute.path().is_ident("event"));
        let missing = "the event needs a topic: write `#[event(topic = \"orders\")]` below the derive";
        let Some(attribute) = attributes.next() else { return Err(Error::new(input.ident.span(), missing)) };
        if let Some(second) = attributes.next() {
            return Err(Error::new(second.path().span(), "put all options into one `#[event(...)]`"));
        }
        let Meta::List(list) = &attribute.meta else { return Err(Error::new(attribute.span(), missing)) };
        let options = Self::parser.parse2(list.tokens.clone())?;
        if options.topic.is_none() {
            return Err(Error::new(attribute.path().span(), missing));
        }
        Ok(options)
    }
}

pub(crate) fn expand(item: TokenStream) -> TokenStream {
    let input = match syn::parse2::<DeriveInput>(item) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    let mut problems = Problems::default();
    let options = problems.take(Options::of(&input)).unwrap_or_default();
    let core = options.krate.as_ref().map_or_else(|| quote!(::queue_core), |path| quote!(#path));
    event(&input, &options, &core, &mut problems).unwrap_or_else(|| {
        let error = problems.finish().err().map(Error::into_compile_error);
        let rest = input.generics.params.is_empty().then(|| fallback(&input.ident, &core));
        quote!(#rest #error)
    })
}

fn fields(input: &DeriveInput) -> Result<Vec<&Field>> {
    let Data::Struct(item) = &input.data else {
        return Err(Error::new(input.ident.span(), "`#[derive(Event)]` goes on a struct, one for each type of event"));
    };
    match &item.fields {
        Fields::Named(fields) => Ok(fields.named.iter().collect()),
        Fields::Unit => Ok(Vec::new()),
        Fields::Unnamed(fields) => Err(Error::new(fields.span(), "give the fields names: a payload is a map by name")),
    }
}

/// `None` if there are problems.
fn event(input: &DeriveInput, options: &Options, core: &TokenStream, problems: &mut Problems) -> Option<TokenStream> {
    if let Some(generic) = input.generics.params.first() {
        problems.add(
            generic.span(),
            "an event cannot be generic, because a stored event does not have type parameters: write one struct per type",
        );
    }
    let container = problems.take(serde::Container::of(&input.attrs)).unwrap_or_default();
    let fields = problems.take(fields(input)).unwrap_or_default();
    let params: Vec<Param> = fields
        .into_iter()
        .filter_map(|field| field.ident.clone().map(|name| Param::of_field(name, field.ty.clone(), &field.attrs, &container)))
        .filter_map(|param| problems.take(param))
        .collect();
    options.tags.check_fields(&params, problems);
    let type_name = options.name.clone().unwrap_or_else(|| input.ident.unraw().to_string());
    if !is_name(&type_name) {
        let problem = "the name of a type of event has 1 to 128 ASCII letters, digits, `.`, `_` or `-`: give it one with `name = \"...\"`";
        problems.add(input.ident.span(), problem);
    }
    problems.finish().ok()?;

    let (name, topic) = (&input.ident, options.topic.as_ref()?);
    let (items, asks) = (crate::params::fields(name, &params, &container, &quote!(OfEvent), core), options.tags.asks(&params));
    let tags = options.tags.array(&params);
    Some(quote! {
        #[allow(
            clippy::all, clippy::pedantic, unused_variables, unused_mut, non_snake_case,
            reason = "generated: the names are the user's, and an event without fields leaves some of it unused"
        )]
        const _: () = {
            use #core::__private as __queue;
            use __queue::Lacks as _;

            #items
            #asks

            __queue::inventory::submit! {
                #core::__private::DeclaredEvent { topic: <#name as #core::Event>::TOPIC, name: <#name as #core::Event>::TYPE }
            }

            impl #core::Event for #name {
                const TOPIC: &'static ::core::primitive::str = #topic;
                const TYPE: &'static ::core::primitive::str = #type_name;
                const TAGS: &'static [(&'static ::core::primitive::str, &'static ::core::primitive::str)] = #tags;
            }
        };
    })
}

/// A minimal event, so that code that publishes or handles it gives no further errors.
fn fallback(name: &Ident, core: &TokenStream) -> TokenStream {
    quote! {
        #[allow(unused, clippy::all, reason = "stands in for an event with a mistake")]
        impl #core::Event for #name {
            const TOPIC: &'static ::core::primitive::str = "";
            const TYPE: &'static ::core::primitive::str = "";
        }
        #[allow(unused, clippy::all, reason = "stands in for an event with a mistake")]
        impl #core::__private::Fields<#core::__private::OfEvent> for #name {
            const PARAMS: &'static [#core::__private::ParamDef] = &[];
            fn write<S: #core::__private::serde::Serializer>(&self, _: S) -> ::core::result::Result<S::Ok, S::Error> {
                ::core::unreachable!()
            }
            fn read<'de, D: #core::__private::serde::Deserializer<'de>>(_: D) -> ::core::result::Result<Self, D::Error> {
                ::core::unreachable!()
            }
        }
    }
}
