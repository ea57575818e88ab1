//! `#[task]` on a function.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Error, FnArg, Item, ItemFn, Result, ReturnType, Safety, Type, parse_quote, spanned::Spanned};

use crate::{
    expand::{Definition, expand as expand_task},
    options::Options,
    params::Param,
};

pub(crate) fn expand(options: TokenStream, item: &TokenStream) -> TokenStream {
    let mut function = match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Fn(function)) => function,
        Ok(Item::Struct(item)) => {
            let error = Error::new(
                item.ident.span(),
                "`#[task]` goes on a function; for a payload struct write `#[derive(Task)]`, with options in `#[task(...)]` below it",
            );
            return error.into_compile_error();
        }
        Ok(other) => return Error::new(other.span(), "`#[task]` goes on an async function").into_compile_error(),
        Err(error) => {
            let error = error.into_compile_error();
            return quote!(#item #error);
        }
    };
    match Options::parse(options).and_then(|options| task(&mut function, &options)) {
        // A payload is owned, whatever its handler does with it.
        Ok(task) => quote!(#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)] #function #task),
        Err(error) => {
            // The function stays, without our attributes, so that its own callers are not told of our mistake.
            for argument in &mut function.sig.inputs {
                if let FnArg::Typed(argument) = argument {
                    argument.attrs.retain(|attribute| !attribute.path().is_ident("default") && !attribute.path().is_ident("inject"));
                }
            }
            let error = error.into_compile_error();
            quote!(#[allow(dead_code)] #function #error)
        }
    }
}

fn task(function: &mut ItemFn, options: &Options) -> Result<TokenStream> {
    check(function, options)?;
    let params = function.sig.inputs.iter_mut().map(Param::of_argument).collect::<Result<Vec<_>>>()?;
    let (visibility, name) = (&function.vis, &function.sig.ident);
    let shown_name = name.to_string();
    let docs: Vec<_> = function.attrs.iter().filter(|attribute| attribute.path().is_ident("doc")).collect();
    let cfgs: Vec<_> = function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
    let title = format!("The task `{shown_name}`: make a job of it with `{shown_name}::job(..)`.");
    let arguments = params.iter().filter(|param| param.is_payload()).map(|param| {
        let (name, ty) = (&param.name, &param.ty);
        quote!(#name: #ty)
    });
    let locals: Vec<TokenStream> = params.iter().filter(|param| param.is_payload()).map(|param| param.name.to_token_stream()).collect();
    let return_type: Type = match &function.sig.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, ty) => (**ty).clone(),
    };
    let core = options.krate();
    let definition = Definition {
        name,
        task_name: options.name.clone().unwrap_or_else(|| shown_name.trim_start_matches("r#").to_owned()),
        options,
        params: &params,
        return_type: &return_type,
        blocking: options.blocking.is_some(),
        // The span of the name: a future that is not `Send` is told there.
        call: &|values| quote_spanned!(name.span()=> #name(#(#values),*)),
    };
    let writes = definition.writes(&locals);
    let job_docs = format!("A job of the task `{shown_name}` with this payload. It is stored by `enqueue`.");
    let inherent = quote! {
        impl #name {
            #[doc = #job_docs]
            #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
            #visibility fn job(#(#arguments),*) -> #core::Job<#name> {
                #writes
            }
        }
    };
    let expansion = expand_task(&definition, &inherent);
    Ok(quote! {
        #(#cfgs)*
        #[doc = #title]
        #[doc = ""]
        #(#docs)*
        #[allow(non_camel_case_types)]
        #[derive(Debug)]
        #visibility struct #name {}
        #(#cfgs)*
        #expansion
    })
}

fn check(function: &ItemFn, options: &Options) -> Result<()> {
    let signature = &function.sig;
    match (&signature.asyncness, options.blocking) {
        (None, None) => {
            return Err(Error::new(
                signature.fn_token.span(),
                "a task is async: write `async fn`; for a sync or CPU-bound function write `#[task(blocking)]`, which gives it a thread of its own",
            ));
        }
        (Some(_), Some(span)) => {
            return Err(Error::new(span, "`blocking` is for sync functions: remove it, or remove `async`"));
        }
        _ => {}
    }
    if let Some(generic) = signature.generics.params.first() {
        return Err(Error::new(
            generic.span(),
            "a task cannot be generic, its jobs would not say which one to run: write one task per type",
        ));
    }
    if let Some(clause) = &signature.generics.where_clause {
        return Err(Error::new(clause.span(), "a task cannot have a `where` clause"));
    }
    if let Safety::Unsafe(token) = &signature.safety {
        return Err(Error::new(token.span(), "a task cannot be unsafe: nobody could vouch for a stored call"));
    }
    if let ReturnType::Type(_, ty) = &signature.output
        && let Type::ImplTrait(ty) = ty.as_ref()
    {
        return Err(Error::new(ty.span(), "name the type that the task returns: `()`, `Outcome`, or `Result<T, E>`"));
    }
    Ok(())
}
