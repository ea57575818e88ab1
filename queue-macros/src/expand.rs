//! The common parts of the expansions of functions and structs: the `Task` impl, the definition,
//! and the registration.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Type, ext::IdentExt, spanned::Spanned};

use crate::{
    fallback,
    options::Options,
    params::{Param, fields},
    serde,
};

/// A task as read from the source.
pub(crate) struct Definition<'a> {
    /// The type of the task.
    pub name: &'a Ident,
    /// The name of the task that its jobs carry.
    pub task_name: String,
    pub options: &'a Options,
    pub params: &'a [Param],
    pub return_type: &'a Type,
    pub blocking: bool,
    /// The serde attributes of the struct whose fields are the parameters, if it is one.
    pub fields: Option<&'a serde::Container>,
    /// An expression that runs the user's code with these values, one per parameter, in a function
    /// that has the `call`.
    pub run: &'a dyn Fn(&[Ident]) -> TokenStream,
}

impl Definition<'_> {
    /// Statements that write the payload from `locals`, one per payload parameter, and create a job
    /// from it.
    pub(crate) fn writes(&self, locals: &[TokenStream]) -> TokenStream {
        let core = self.options.krate();
        // Parameters may have any name. The hygiene of this identifier hides it from other code.
        let payload = Ident::new("__queue_payload", Span::mixed_site());
        let of_payload = || self.params.iter().enumerate().filter(|(_, param)| param.is_payload()).zip(locals);
        let fields = in_order(of_payload().map(|((index, param), local)| {
            let (key, (access, _)) = (param.key(), param.access(index));
            let write = quote!(#payload.field(#key, &#local, &#access););
            (key, write)
        }));
        let count = locals.len();
        let named = |name: &Ident| of_payload().find(|((_, param), _)| name.unraw() == param.name.unraw()).map(|(_, local)| local.clone());
        let checks = self.options.unique.as_ref().map(|unique| unique.checks(&payload, self.params, named));
        let writes = match self.fields {
            Some(_) => quote!(let mut #payload = __queue::PayloadWriter::of::<_, __queue::OfTask>(&self);),
            None => quote!(let mut #payload = __queue::PayloadWriter::new(#count); #(#fields)*),
        };
        quote! {
            #writes
            #checks
            #core::Job::from_written(#payload)
        }
    }
}

/// Statements in the order of the keys that they write. This is the order of the keys in a payload.
pub(crate) fn in_order(statements: impl Iterator<Item = (String, TokenStream)>) -> Vec<TokenStream> {
    let mut statements: Vec<(String, TokenStream)> = statements.collect();
    statements.sort_by(|one, other| one.0.cmp(&other.0));
    statements.into_iter().map(|(_, statement)| statement).collect()
}

/// The constant of a `Task` that checks whether its results can be deserialized. It is left out for
/// types that borrow: for these the compiler would first accept the check, and then give an error.
pub(crate) fn read_back(return_type: &Type) -> Option<TokenStream> {
    let is_asked = !matches!(return_type, Type::Verbatim(_)) && !fallback::has_lifetime(return_type);
    is_asked.then(|| quote!(const READ_BACK: __queue::Option<__queue::ReadBack> = __queue::Has::<#return_type>::READ_BACK;))
}

/// The statement that sets whether a task commits its effects with its ending.
pub(crate) fn commits(return_type: &Type) -> Option<TokenStream> {
    (!fallback::has_lifetime(return_type)).then(|| quote!(__queue_def.commits = __queue::Has::<#return_type>::COMMITS;))
}

/// The expansion. `inherent` goes inside, where it has access to the same names. They begin with
/// two underscores, because items have no hygiene: a task or a default of the user may be called
/// `run` or `needs`.
pub(crate) fn expand(task: &Definition<'_>, inherent: &TokenStream) -> TokenStream {
    let core = task.options.krate();
    let (name, task_name, return_type) = (task.name, &task.task_name, task.return_type);
    let accesses: Vec<(Ident, TokenStream)> = task.params.iter().enumerate().map(|(index, param)| param.access(index)).collect();
    let items = match task.fields {
        Some(container) => fields(name, task.params, container, &quote!(OfTask), &core),
        None => {
            let items = accesses.iter().map(|(_, item)| item);
            let defaults = task.params.iter().enumerate().filter_map(|(index, param)| param.default_item(index));
            quote!(#(#items)* #(#defaults)*)
        }
    };
    let asks = task.options.asks(task.params);
    let types = task.params.iter().map(|param| &param.ty);
    let values = task.params.iter().zip(&accesses).enumerate().map(|(index, (param, (access, _)))| param.value(index, access));
    let count = if task.fields.is_some() { 1 } else { task.params.len() };
    let variables: Vec<Ident> = (0..count).map(|index| Ident::new(&format!("__queue_value_{index}"), Span::call_site())).collect();
    let run = (task.run)(&variables);
    let payload_params = || task.params.iter().enumerate().filter(|(_, param)| param.is_payload());
    let definitions = payload_params().map(|(_, param)| param.definition(&core));
    let from_json = in_order(payload_params().map(|(index, param)| {
        let (key, access) = (param.key(), &accesses[index].0);
        let write = quote!(__queue_payload.json(#key, &#access, &__queue_object)?;);
        (key, write)
    }));
    let checks = payload_params().enumerate().map(|(at, (index, _))| {
        let access = &accesses[index].0;
        quote!(__queue_payload.check(&__QUEUE_PARAMS[#at], &#access)?;)
    });
    let (definitions, from_json, check, arguments) = match task.fields {
        Some(_) => (
            quote!(<#name as __queue::Fields<__queue::OfTask>>::PARAMS),
            quote!(__queue::fields_from_json::<#name, __queue::OfTask>(#task_name, __queue_json)),
            quote!(__queue::check_fields::<#name, __queue::OfTask>(#task_name, __queue_bytes)),
            quote!(fn __queue_arguments(__queue_call: &#core::__private::Call) -> ::core::result::Result<(#name,), #core::Outcome> {
                __queue::read_fields::<#name, __queue::OfTask>(__queue_call.payload()).map(|__queue_fields| (__queue_fields,))
            }),
        ),
        None => (
            quote!(&[#(#definitions),*]),
            quote! {
                let __queue_object = __queue::json_object(#task_name, __QUEUE_PARAMS, __queue_json)?;
                let mut __queue_payload = __queue::PayloadWriter::new(__queue_object.len());
                #(#from_json)*
                __queue_payload.finish(#task_name)
            },
            quote! {
                let mut __queue_payload = __queue::PayloadReader::checked(#task_name, __QUEUE_PARAMS, __queue_bytes)?;
                #(#checks)*
                ::core::result::Result::Ok(())
            },
            quote!(fn __queue_arguments(__queue_call: &#core::__private::Call) -> ::core::result::Result<(#(#types,)*), #core::Outcome> {
                let mut __queue_payload = __queue::PayloadReader::new(__queue_call.payload())?;
                let __queue_context = &__queue_call.context;
                ::core::result::Result::Ok((#(#values,)*))
            }),
        ),
    };
    let needs = task.params.iter().zip(&accesses).filter(|(param, _)| param.is_injected()).map(|(_, (access, _))| quote!(#access.needs()));
    let schedules = task.options.schedules.iter().enumerate();
    let schedules: Vec<_> = schedules.map(|(at, schedule)| schedule.expand(at, task, &core)).collect();
    let schedule_items = schedules.iter().map(|(item, _)| item);
    let schedule_definitions: Vec<&TokenStream> = schedules.iter().map(|(_, definition)| definition).collect();
    let schedule_definitions = (!schedule_definitions.is_empty()).then(|| quote!(__queue_def.schedules = &[#(#schedule_definitions),*];));
    let with_limits = (!task.options.limits.is_empty())
        .then(|| quote!(__queue::inventory::submit! { #core::__private::WithLimits(&__QUEUE_DEFINITION) }));
    let assignments = task.options.assignments(&core, &task.task_name, task.params);
    let returned = quote_spanned!(return_type.span()=> type Return = #return_type;);
    let read_back = read_back(return_type);
    let commits = commits(return_type);
    let (run_fn, end, refused) = if task.blocking {
        (quote!(Blocking), quote!(#core::Outcome), quote!(__queue_end))
    } else {
        (quote!(Async), quote!(#core::BoxFuture<'static, #core::Outcome>), quote!(__queue::ended(__queue_end)))
    };
    quote! {
        #[allow(
            clippy::all, clippy::pedantic, unused_variables, unused_mut, non_snake_case,
            reason = "generated: the names are the user's, and a task without parameters leaves some of it unused"
        )]
        const _: () = {
            use #core::__private as __queue;
            use __queue::Lacks as _;

            #items
            #asks
            #(#schedule_items)*
            #inherent

            impl #core::Task for #name {
                #returned
                #read_back

                fn definition() -> &'static #core::TaskDef {
                    &__QUEUE_DEFINITION
                }
            }

            impl #core::__private::Runnable for #name {
                fn handler() -> &'static #core::__private::HandlerDef {
                    &__QUEUE_HANDLER
                }
            }

            static __QUEUE_DEFINITION: #core::TaskDef = {
                let mut __queue_def = #core::TaskDef::new(#task_name, __queue_from_json);
                #assignments
                #schedule_definitions
                #commits
                __queue_def.params = __QUEUE_PARAMS;
                __queue_def.check_payload = __queue_check;
                __queue_def.file = ::core::file!();
                __queue_def.line = ::core::line!();
                __queue_def
            };
            static __QUEUE_HANDLER: #core::__private::HandlerDef = #core::__private::HandlerDef {
                task: &__QUEUE_DEFINITION,
                run: #core::__private::RunFn::#run_fn(__queue_run),
                needs: __queue_needs,
            };
            const __QUEUE_PARAMS: &[#core::__private::ParamDef] = #definitions;

            fn __queue_needs() -> __queue::Vec<#core::DataNeed> {
                let __queue_found: __queue::Vec<__queue::Vec<#core::DataNeed>> = __queue::Vec::from([#(#needs),*]);
                __queue_found.into_iter().flatten().collect()
            }

            fn __queue_from_json(__queue_json: &::core::primitive::str) -> #core::Result<__queue::Vec<::core::primitive::u8>> {
                #from_json
            }

            fn __queue_check(__queue_bytes: &[::core::primitive::u8]) -> #core::Result<()> {
                #check
            }

            #arguments

            fn __queue_run(__queue_call: #core::__private::Call) -> #end {
                match __queue_arguments(&__queue_call) {
                    ::core::result::Result::Ok((#(#variables,)*)) => #run,
                    ::core::result::Result::Err(__queue_end) => #refused,
                }
            }

            __queue::inventory::submit! { #core::__private::Submitted(&__QUEUE_HANDLER) }
            #with_limits
        };
    }
}
