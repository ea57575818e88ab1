//! The replacement for a task with a mistake. It is complete enough that code that uses the task
//! gives no further errors.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{FnArg, Generics, ItemFn, PatType, ReturnType, Type, parse_quote, visit::Visit};

use crate::{
    options::Options,
    params::{last_segment, looks_injected},
};

/// The function itself, and a task with its name that is never run.
pub(crate) fn of_function(function: &ItemFn, options: &Options) -> TokenStream {
    let signature = &function.sig;
    if signature.inputs.iter().any(|argument| matches!(argument, FnArg::Receiver(_))) {
        // The tokens do not show whether this is a method or a free function. In one of the two
        // cases the compiler would report its `self` again.
        return TokenStream::new();
    }
    let core = options.krate();
    let (function, import) = without_foreign_context(function, &core);
    let signature = &function.sig;
    let (visibility, name, generics) = (&function.vis, &signature.ident, &signature.generics);
    let types = signature.inputs.iter().filter_map(|argument| match argument {
        FnArg::Typed(PatType { ty, .. }) if !looks_injected(ty) => Some(ty),
        _ => None,
    });
    let output: Type = match &signature.output {
        ReturnType::Type(_, ty) if generics.params.is_empty() && !borrows(ty) && !is_opaque(ty) => (**ty).clone(),
        _ => parse_quote!(()),
    };
    let where_clause = &generics.where_clause;
    let task = task(name, &output, &core);
    quote! {
        #[allow(dead_code, unused, clippy::all, reason = "its mistake is told, the rest can wait")]
        #function
        #import
        #[doc(hidden)]
        #[allow(non_camel_case_types, missing_docs, dead_code, reason = "stands in for a task with a mistake")]
        #[derive(::core::fmt::Debug)]
        #visibility struct #name {}
        #[allow(missing_docs, dead_code, unused, clippy::all, reason = "stands in for a task with a mistake")]
        const _: () = {
            impl #name {
                #visibility fn job #generics (#(_: #types),*) -> #core::Job<#name> #where_clause {
                    ::core::unreachable!()
                }
            }
            #task
        };
    }
}

/// A `Context` of another crate is often a trait, or not `Send`, which the compiler would report as
/// well. The mistake is already reported, so the function gets the correct type, and the import
/// stays in use.
fn without_foreign_context(function: &ItemFn, core: &TokenStream) -> (ItemFn, Option<TokenStream>) {
    let (mut function, mut import) = (function.clone(), None);
    for argument in &mut function.sig.inputs {
        let FnArg::Typed(PatType { ty, .. }) = argument else { continue };
        if last_segment(ty).is_none_or(|segment| segment.ident != "Context") {
            continue;
        }
        if let Type::Path(path) = ty.as_ref() {
            let path = path.path.segments.iter().map(|segment| &segment.ident);
            import = Some(
                quote!(#[allow(unused_imports, reason = "the type of this import was replaced")] const _: () = { use #(#path)::* as _; };),
            );
        }
        **ty = parse_quote!(#core::JobContext);
    }
    (function, import)
}

/// A task with the name of the struct that is never run.
pub(crate) fn of_struct(name: &Ident, generics: &Generics, core: &TokenStream) -> TokenStream {
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let task = generics.params.is_empty().then(|| task(name, &parse_quote!(()), core));
    quote! {
        #[allow(dead_code, clippy::all, reason = "stands in for a task with a mistake")]
        const _: () = {
            impl #impl_generics #name #type_generics #where_clause {
                #[doc(hidden)]
                pub fn job(self) -> #core::Job<Self> {
                    ::core::unreachable!()
                }
            }
            #task
        };
    }
}

fn task(name: &Ident, output: &Type, core: &TokenStream) -> TokenStream {
    quote! {
        impl #core::Task for #name {
            type Return = #output;

            fn definition() -> &'static #core::TaskDef {
                ::core::unreachable!()
            }
        }

        impl #core::__private::Runnable for #name {
            fn handler() -> &'static #core::__private::HandlerDef {
                ::core::unreachable!()
            }
        }
    }
}

/// Whether the type contains a reference without `'static`.
pub(crate) fn borrows(ty: &Type) -> bool {
    struct Borrows(bool);
    impl<'a> Visit<'a> for Borrows {
        fn visit_type_reference(&mut self, reference: &'a syn::TypeReference) {
            self.0 |= reference.lifetime.as_ref().is_none_or(|lifetime| lifetime.ident != "static");
        }
    }
    let mut borrows = Borrows(false);
    borrows.visit_type(ty);
    borrows.0
}

/// Whether the type contains a lifetime or a reference.
pub(crate) fn has_lifetime(ty: &Type) -> bool {
    struct Finds(bool);
    impl<'a> Visit<'a> for Finds {
        fn visit_type_reference(&mut self, _: &'a syn::TypeReference) {
            self.0 = true;
        }

        fn visit_lifetime(&mut self, _: &'a syn::Lifetime) {
            self.0 = true;
        }
    }
    let mut finds = Finds(false);
    finds.visit_type(ty);
    finds.0
}

fn is_opaque(ty: &Type) -> bool {
    matches!(ty, Type::ImplTrait(_))
}
