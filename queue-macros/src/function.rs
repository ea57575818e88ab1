//! `#[task]` on a function.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Attribute, Error, Item, ItemFn, ReturnType, Safety, TraitItemFn, Type, ext::IdentExt, parse_quote, spanned::Spanned};

use crate::{
    expand::{Definition, expand as expand_task},
    fallback,
    options::Options,
    params::Param,
    place,
    problems::Problems,
};

pub(crate) fn expand(options: TokenStream, item: &TokenStream) -> TokenStream {
    let mut function = match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Fn(function)) => match place::of(&function.sig) {
            Some(place) => return misplaced(function, place),
            None => function,
        },
        Ok(Item::Struct(item)) => {
            let error = Error::new(
                item.ident.span(),
                "`#[task]` goes on a function; for a payload struct write `#[derive(Task)]`, with options in `#[task(...)]` below it",
            );
            return with_item(&item, &error);
        }
        Ok(Item::Verbatim(_)) if syn::parse2::<TraitItemFn>(item.clone()).is_ok() => {
            return with_item(item, &Error::new(item.span(), "a task is a free function with a body: move it out of the trait"));
        }
        Ok(other) => return with_item(&other, &Error::new(other.span(), "`#[task]` goes on an async function")),
        Err(error) => return with_item(item, &error),
    };
    let mut problems = Problems::default();
    let parsed = problems.take(Options::parse(options));
    check(&function, parsed.as_ref(), &mut problems);
    function.attrs.retain(|attribute| !attribute.path().is_ident("task"));
    // The parameters are also read after an error: all mistakes are reported together, and our
    // attributes have to be removed.
    let params: Vec<_> = function.sig.inputs.iter_mut().filter_map(|argument| problems.take(Param::of_argument(argument))).collect();
    let options = parsed.unwrap_or_default();
    if let Some(unique) = &options.unique {
        unique.check_params(&params, &mut problems);
    }
    if let Some(group) = &options.group {
        group.check_params(&params, &mut problems);
    }
    options.tags.check_params(&params, &mut problems);
    crate::limit::check(&options.limits, options.task_name(&function.sig.ident).ok().as_deref(), &params, &mut problems);
    let written = function.sig.inputs.len();
    // If a parameter has a mistake, it is unknown whether its value is missing.
    if params.len() == written {
        options.schedules.iter().for_each(|schedule| schedule.check(&params, &mut problems));
    }
    let name = problems.take(options.task_name(&function.sig.ident));
    let (Some(name), Ok(())) = (name, problems.finish()) else {
        let error = problems.finish().err().map(Error::into_compile_error);
        let rest = fallback::of_function(&function, &options);
        return quote!(#rest #error);
    };
    if matches!(&function.sig.output, ReturnType::Type(_, ty) if fallback::borrows(ty)) {
        // A task cannot borrow, and the compiler reports that for the function itself.
        return fallback::of_function(&function, &options);
    }
    let task = task(&function, name, &options, &params);
    quote! {
        #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments, reason = "a payload is owned, and has as many parts as it has")]
        #function
        #task
    }
}

/// The function without a task, and the error. An `impl` or a trait cannot contain a type, which
/// would give five more errors.
fn misplaced(mut function: ItemFn, place: &str) -> TokenStream {
    for argument in &mut function.sig.inputs {
        drop(Param::of_argument(argument));
    }
    let problem = format!("a task is a free function: move it out of the {place}; what it needs of `Self` is a parameter `Data<T>`");
    let error = Error::new(function.sig.ident.span(), problem).into_compile_error();
    quote!(#[allow(dead_code, unused, clippy::all, reason = "its mistake is told, the rest can wait")] #function #error)
}

pub(crate) fn with_item(item: &impl ToTokens, error: &Error) -> TokenStream {
    let error = error.to_compile_error();
    quote!(#item #error)
}

fn task(function: &ItemFn, task_name: String, options: &Options, params: &[Param]) -> TokenStream {
    let (visibility, name) = (&function.vis, &function.sig.ident);
    let shown_name = name.unraw();
    let docs = attributes(function, "doc");
    let cfgs = attributes(function, "cfg");
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
    let given: Vec<TokenStream> = params.iter().filter_map(Param::is_given).collect();
    let definition = Definition {
        name,
        task_name,
        options,
        params,
        return_type: &return_type,
        blocking: options.blocking.is_some(),
        fields: None,
        // The span of the name: the compiler reports there that a future is not `Send`.
        run: &|values| {
            // Only the path has this span. A name from outside a `macro_rules!` would have no
            // access to `__queue_call`.
            let (call, wanted) = (quote!(#name(#(#values),*)), quote!(__queue_call.wants_result.clone()));
            match options.blocking {
                Some(_) => quote!(__queue::end::<#name>(#call, &__queue_call.wants_result)),
                None if given.is_empty() => quote_spanned!(name.span()=> __queue::run::<#name, _>(#call, #wanted)),
                None => quote_spanned!(name.span()=> __queue::Given::<{ #(#given)&&* }>::run::<#name, _>(#call, #wanted)),
            }
        },
    };
    let writes = definition.writes(&locals);
    let job_docs = format!("A job of the task `{shown_name}` with this payload. It is stored by `enqueue`.");
    let inherent = quote! {
        impl #name {
            #[doc = #job_docs]
            #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value, reason = "the parameters are those of the task")]
            #visibility fn job(#(#arguments),*) -> #core::Job<#name> {
                #writes
            }
        }
    };
    let expansion = expand_task(&definition, &inherent);
    quote! {
        #(#cfgs)*
        #[doc = #title]
        #[doc = ""]
        #(#docs)*
        #[allow(non_camel_case_types, reason = "it has the name of its function")]
        #[derive(::core::fmt::Debug)]
        #visibility struct #name {}
        #(#cfgs)*
        #expansion
    }
}

pub(crate) fn attributes<'a>(function: &'a ItemFn, name: &str) -> Vec<&'a Attribute> {
    function.attrs.iter().filter(|attribute| attribute.path().is_ident(name)).collect()
}

/// `options` is `None` if they have mistakes. Then it is unknown whether the function is blocking.
pub(crate) fn check(function: &ItemFn, options: Option<&Options>, problems: &mut Problems) {
    let signature = &function.sig;
    match (&signature.asyncness, options.map(|options| options.blocking)) {
        (None, Some(None)) => problems.add(
            signature.fn_token.span(),
            "a task is async: write `async fn`; for a sync or CPU-bound function write `#[task(blocking)]`, which runs it on a separate thread",
        ),
        (Some(_), Some(Some(span))) => problems.add(span, "`blocking` is for sync functions: remove it, or remove `async`"),
        _ => {}
    }
    if let Some(generic) = signature.generics.params.first() {
        problems
            .add(generic.span(), "a task cannot be generic, because a stored job does not have type parameters: write one task per type");
    } else if let Some(clause) = &signature.generics.where_clause {
        problems.add(clause.span(), "a task cannot have a `where` clause");
    }
    if let Safety::Unsafe(token) = &signature.safety {
        problems.add(token.span(), "a task cannot be unsafe: the library cannot check the safety conditions of a stored call");
    }
    if let ReturnType::Type(_, ty) = &signature.output
        && let Type::ImplTrait(ty) = ty.as_ref()
    {
        problems.add(ty.span(), "name the type that the task returns: `()`, `Outcome`, or `Result<T, E>`");
    }
    for attribute in attributes(function, "task") {
        problems.add(attribute.path().span(), "put all options into one `#[task(...)]`");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(options: &str, item: &str) -> String {
        expand(options.parse().unwrap(), &item.parse().unwrap()).to_string()
    }

    /// The number of its errors, and the expansion.
    fn problems(options: &str, item: &str) -> (usize, String) {
        let text = expanded(options, item);
        (text.matches("compile_error").count(), text)
    }

    #[test]
    fn a_task_without_a_mistake_has_no_error() {
        assert_eq!(problems("queue = \"a\"", "async fn send(to: String, ctx: JobContext) {}").0, 0);
        assert_eq!(problems("blocking", "fn hash(mut path: String) {}").0, 0);
    }

    #[test]
    fn all_mistakes_are_reported_together_and_each_once() {
        let (count, text) = problems("quue = \"a\"", "async fn send<T>(to: &str, (a, b): (u8, u8)) -> impl Sized {}");
        assert_eq!(count, 5, "{text}");
    }

    #[test]
    fn a_name_that_cannot_be_stored_is_refused_unless_another_is_given() {
        let (count, text) = problems("", "async fn größe() {}");
        assert!(count == 1 && text.contains("ASCII"), "{text}");
        assert_eq!(problems("name = \"size\"", "async fn größe() {}").0, 0);
    }

    #[test]
    fn a_wrong_task_keeps_its_function_and_its_jobs() {
        let text = expanded("quue = \"a\"", "async fn send(#[default] to: String) {}");
        assert!(text.contains("async fn send (to : String)"), "{text}");
        assert!(text.contains("fn job"), "{text}");
    }
}
