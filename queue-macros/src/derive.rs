//! `#[derive(Task)]` on a payload struct.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Data, DeriveInput, Error, Fields, Result, parse_quote, spanned::Spanned};

use crate::{
    expand::{Definition, expand as expand_task},
    options::Options,
    params::Param,
};

pub(crate) fn expand(item: TokenStream) -> TokenStream {
    syn::parse2::<DeriveInput>(item).and_then(|input| task(&input)).unwrap_or_else(Error::into_compile_error)
}

fn task(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(item) = &input.data else {
        return Err(Error::new(input.ident.span(), "`#[derive(Task)]` goes on a struct: its fields are the payload, by name"));
    };
    if let Some(generic) = input.generics.params.first() {
        return Err(Error::new(
            generic.span(),
            "a task cannot be generic, its jobs would not say which one to run: write one struct per type",
        ));
    }
    let fields = match &item.fields {
        Fields::Named(fields) => fields.named.iter().collect::<Vec<_>>(),
        Fields::Unit => Vec::new(),
        Fields::Unnamed(fields) => return Err(Error::new(fields.span(), "give the fields names: a payload is a map by name")),
    };
    let mut tokens = TokenStream::new();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("task")) {
        if !tokens.is_empty() {
            return Err(Error::new(attribute.span(), "put all options into one `#[task(...)]`"));
        }
        tokens = attribute.meta.require_list()?.tokens.clone();
    }
    let options = Options::parse(tokens)?;
    if let Some(span) = options.blocking {
        return Err(Error::new(
            span,
            "a `Handler` is async: use `tokio::task::spawn_blocking` inside, or `#[task(blocking)]` on a sync function",
        ));
    }
    let params = fields
        .into_iter()
        .filter_map(|field| field.ident.clone().map(|name| Param::of_field(name, field.ty.clone(), &field.attrs)))
        .collect::<Result<Vec<_>>>()?;

    let (visibility, name) = (&input.vis, &input.ident);
    let names: Vec<_> = params.iter().map(|param| &param.name).collect();
    let locals: Vec<TokenStream> = names.iter().map(|name| quote!(self.#name)).collect();
    let core = options.krate();
    let definition = Definition {
        name,
        task_name: options.name.clone().unwrap_or_else(|| name.to_string()),
        options: &options,
        params: &params,
        return_type: &parse_quote!(<#name as #core::task::Handler>::Output),
        blocking: false,
        call: &|values| quote_spanned!(name.span()=> <#name as #core::task::Handler>::run(#name { #(#names: #values),* }, call.context.clone())),
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
    Ok(expand_task(&definition, &inherent))
}
