//! `#[derive(Task)]` on a payload struct.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Data, DeriveInput, Error, Field, Fields, Meta, Result, Type, spanned::Spanned};

use crate::{
    expand::{Definition, expand as expand_task},
    fallback,
    options::Options,
    params::Param,
    problems::Problems,
    serde,
};

pub(crate) fn expand(item: TokenStream) -> TokenStream {
    let input = match syn::parse2::<DeriveInput>(item) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    let mut problems = Problems::default();
    let options = problems.take(options(&input)).unwrap_or_default();
    task(&input, &options, &mut problems).unwrap_or_else(|| {
        let error = problems.finish().err().map(Error::into_compile_error);
        let rest = fallback::of_struct(&input.ident, &input.generics, &options.krate());
        quote!(#rest #error)
    })
}

fn options(input: &DeriveInput) -> Result<Options> {
    let mut tokens = TokenStream::new();
    for (index, attribute) in input.attrs.iter().filter(|attribute| attribute.path().is_ident("task")).enumerate() {
        if index > 0 {
            return Err(Error::new(attribute.path().span(), "put all options into one `#[task(...)]`"));
        }
        tokens = match &attribute.meta {
            Meta::Path(_) => TokenStream::new(),
            Meta::List(list) => list.tokens.clone(),
            Meta::NameValue(pair) => return Err(Error::new(pair.span(), "write the options as `#[task(queue = \"mail\")]`")),
        };
    }
    let options = Options::parse(tokens)?;
    match options.blocking {
        Some(span) => Err(Error::new(
            span,
            "a `Handler` is async: use `tokio::task::spawn_blocking` inside, or `#[task(blocking)]` on a sync function",
        )),
        None => Ok(options),
    }
}

fn fields(input: &DeriveInput) -> Result<Vec<&Field>> {
    let Data::Struct(item) = &input.data else {
        return Err(Error::new(input.ident.span(), "`#[derive(Task)]` goes on a struct: its fields are the payload, by name"));
    };
    match &item.fields {
        Fields::Named(fields) => Ok(fields.named.iter().collect()),
        Fields::Unit => Ok(Vec::new()),
        Fields::Unnamed(fields) => Err(Error::new(fields.span(), "give the fields names: a payload is a map by name")),
    }
}

/// `None` if there are problems.
fn task(input: &DeriveInput, options: &Options, problems: &mut Problems) -> Option<TokenStream> {
    if let Some(generic) = input.generics.params.first() {
        problems
            .add(generic.span(), "a task cannot be generic, because a stored job does not have type parameters: write one struct per type");
    }
    let container = problems.take(serde::Container::of(&input.attrs)).unwrap_or_default();
    let fields = problems.take(fields(input)).unwrap_or_default();
    let params: Vec<Param> = fields
        .into_iter()
        .filter_map(|field| field.ident.clone().map(|name| Param::of_field(name, field.ty.clone(), &field.attrs, &container)))
        .filter_map(|param| problems.take(param))
        .collect();
    if let Some(unique) = &options.unique {
        unique.check_params(&params, problems);
    }
    if let Some(group) = &options.group {
        group.check_params(&params, problems);
    }
    options.tags.check_params(&params, problems);
    crate::limit::check(&options.limits, options.task_name(&input.ident).ok().as_deref(), &params, problems);
    options.schedules.iter().for_each(|schedule| schedule.check(&params, problems));
    let task_name = problems.take(options.task_name(&input.ident))?;
    problems.finish().ok()?;

    let (visibility, name) = (&input.vis, &input.ident);
    let locals: Vec<TokenStream> =
        params.iter().filter(|param| param.is_payload()).map(|param| &param.name).map(|name| quote!(self.#name)).collect();
    let core = options.krate();
    let definition = Definition {
        name,
        task_name,
        options,
        params: &params,
        return_type: &Type::Verbatim(quote_spanned!(name.span()=> __queue::Returned<#name>)),
        blocking: false,
        fields: Some(&container),
        run: &|values| {
            quote! {{
                use __queue::{Handled as _, Unhandled as _};
                __queue::Handling(#(#values)*).handle(__queue_call.context.clone(), __queue_call.wants_result.clone())
            }}
        },
    };
    let writes = definition.writes(&locals);
    let job_docs = format!("A job of the task `{name}` with this payload. It is stored by `enqueue`.");
    let inherent = quote! {
        impl #name {
            #[doc = #job_docs]
            #visibility fn job(self) -> #core::Job<#name> {
                #writes
            }
        }
    };
    Some(expand_task(&definition, &inherent))
}
