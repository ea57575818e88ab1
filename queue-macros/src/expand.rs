//! What functions and structs have in common: the `Task` impl, the definition, the way into the registry.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Type, spanned::Spanned};

use crate::{options::Options, params::Param};

/// A task as read from the source.
pub(crate) struct Definition<'a> {
    /// The type that stands for it.
    pub name: &'a Ident,
    /// What its jobs carry.
    pub task_name: String,
    pub options: &'a Options,
    pub params: &'a [Param],
    pub return_type: &'a Type,
    pub blocking: bool,
    /// The call of the user's code with these values, one per parameter.
    pub call: &'a dyn Fn(&[Ident]) -> TokenStream,
}

impl Definition<'_> {
    /// Statements that write the payload from `locals`, one per payload parameter, and make a job of it.
    pub(crate) fn writes(&self, locals: &[TokenStream]) -> TokenStream {
        let core = self.options.krate();
        let fields = self.params.iter().enumerate().filter(|(_, param)| param.is_payload()).zip(locals).map(|((index, param), local)| {
            let (key, (access, _)) = (param.key(), param.access(index));
            quote!(__payload.field(#key, &#local, &#access);)
        });
        let count = locals.len();
        quote! {
            let mut __payload = __queue::PayloadWriter::new(#count);
            #(#fields)*
            #core::Job::from_written(__payload)
        }
    }
}

/// The expansion; `inherent` goes inside, where it sees the same names.
pub(crate) fn expand(task: &Definition<'_>, inherent: &TokenStream) -> TokenStream {
    let core = task.options.krate();
    let (name, task_name, return_type) = (task.name, &task.task_name, task.return_type);
    let accesses: Vec<(Ident, TokenStream)> = task.params.iter().enumerate().map(|(index, param)| param.access(index)).collect();
    let items = accesses.iter().map(|(_, item)| item);
    let types = task.params.iter().map(|param| &param.ty);
    let values = task.params.iter().zip(&accesses).map(|(param, (access, _))| param.value(access));
    let variables: Vec<Ident> =
        (0..task.params.len()).map(|index| Ident::new(&format!("value_{index}"), proc_macro2::Span::call_site())).collect();
    let call = (task.call)(&variables);
    let payload_params = || task.params.iter().enumerate().filter(|(_, param)| param.is_payload());
    let definitions = payload_params().map(|(_, param)| param.definition(&core));
    let from_json = payload_params().map(|(index, param)| {
        let (key, access) = (param.key(), &accesses[index].0);
        quote!(payload.json(#key, &#access, &object)?;)
    });
    let states = task.params.iter().zip(&accesses).filter(|(param, _)| !param.is_payload()).map(|(_, (access, _))| quote!(#access.need()));
    let assignments = task.options.assignments(&core);
    let returned = quote_spanned!(return_type.span()=> type Return = #return_type;);
    let (run, run_fn) = if task.blocking {
        let run = quote! {
            fn run(call: #core::task::Call) -> #core::outcome::HandlerEnd {
                match arguments(&call) {
                    ::core::result::Result::Ok((#(#variables,)*)) => __queue::end::<#name>(#call, call.wants_result),
                    ::core::result::Result::Err(end) => end,
                }
            }
        };
        (run, quote!(Blocking))
    } else {
        let polled = quote_spanned!(name.span()=> __queue::run::<#name, _>(#call, call.wants_result));
        let run = quote! {
            fn run(call: #core::task::Call) -> #core::BoxFuture<'static, #core::outcome::HandlerEnd> {
                match arguments(&call) {
                    ::core::result::Result::Ok((#(#variables,)*)) => #polled,
                    ::core::result::Result::Err(end) => __queue::ended(end),
                }
            }
        };
        (run, quote!(Async))
    };
    quote! {
        #[allow(clippy::all, clippy::pedantic, unused_variables, unused_mut, non_snake_case)]
        const _: () = {
            use #core::__private as __queue;

            #(#items)*
            #inherent

            impl #core::Task for #name {
                #returned

                fn definition() -> &'static #core::task::TaskDef {
                    &DEFINITION
                }
            }

            static DEFINITION: #core::task::TaskDef = {
                let mut def = #core::task::TaskDef::new(#task_name, #core::task::RunFn::#run_fn(run), payload_from_json);
                #assignments
                def.params = PARAMS;
                def.states = states;
                def.file = ::core::file!();
                def.line = ::core::line!();
                def
            };
            const PARAMS: &[#core::task::ParamDef] = &[#(#definitions),*];

            fn states() -> __queue::Vec<#core::task::StateNeed> {
                let needs: __queue::Vec<__queue::Option<#core::task::StateNeed>> = __queue::Vec::from([#(#states),*]);
                needs.into_iter().flatten().collect()
            }

            fn payload_from_json(json: &str) -> #core::Result<__queue::Vec<u8>> {
                let object = __queue::json_object(#task_name, PARAMS, json)?;
                let mut payload = __queue::PayloadWriter::new(object.len());
                #(#from_json)*
                payload.finish(#task_name)
            }

            fn arguments(call: &#core::task::Call) -> ::core::result::Result<(#(#types,)*), #core::outcome::HandlerEnd> {
                let mut payload = __queue::PayloadReader::new(call)?;
                let context = &call.context;
                ::core::result::Result::Ok((#(#values,)*))
            }

            #run

            __queue::inventory::submit! { #core::registry::Submitted(&DEFINITION) }
        };
    }
}
