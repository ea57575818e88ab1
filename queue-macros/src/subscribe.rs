//! `#[subscribe]` on a function.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Error, Item, ItemFn, ReturnType, Type, parse_quote, spanned::Spanned};

use crate::{
    expand::{commits, read_back},
    fallback, function,
    options::Options,
    params::Param,
    problems::Problems,
};

pub(crate) fn expand(options: TokenStream, item: &TokenStream) -> TokenStream {
    let mut function = match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Fn(function)) => function,
        Ok(other) => return function::with_item(&other, &Error::new(other.span(), "`#[subscribe]` goes on an async function")),
        Err(error) => return function::with_item(item, &error),
    };
    let mut problems = Problems::default();
    let parsed = problems.take(Options::parse_subscription(options));
    function::check(&function, parsed.as_ref(), &mut problems);
    let params: Vec<_> = function.sig.inputs.iter_mut().filter_map(|argument| problems.take(Param::of_argument(argument))).collect();
    let options = parsed.unwrap_or_default();
    let is_whole = params.len() == function.sig.inputs.len();
    let event = params.iter().position(Param::is_payload);
    match (event, params.iter().filter(|param| param.is_payload()).nth(1)) {
        (None, _) if is_whole => {
            problems.add(
                function.sig.ident.span(),
                "a function of a subscription takes the event: add a parameter of a type with `#[derive(Event)]`",
            );
        }
        (_, Some(second)) => {
            let problem = "a function of a subscription takes one event and nothing else of a payload: put `#[inject]` before what the worker gives, or \
                           write one function for each type of event";
            problems.add(second.name.span(), problem);
        }
        _ => {}
    }
    let (Some(event), Ok(())) = (event, problems.finish()) else {
        let error = problems.finish().err().map(Error::into_compile_error);
        let rest = fallback::of_function(&function, &options);
        return quote!(#rest #error);
    };
    let subscriber = subscriber(&function, &options, &params, event);
    quote! {
        #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments, reason = "an event is owned")]
        #function
        #subscriber
    }
}

fn subscriber(function: &ItemFn, options: &Options, params: &[Param], event: usize) -> TokenStream {
    let (core, visibility, name) = (options.krate(), &function.vis, &function.sig.ident);
    let (docs, cfgs) = (function::attributes(function, "doc"), function::attributes(function, "cfg"));
    let event_type = &params[event].ty;
    let of_event = quote_spanned!(event_type.span()=> <#event_type as #core::Event>);
    let (subscription, begin) = (options.name.as_deref().unwrap_or_default(), options.begin(&core));
    let unknown = options.unknown(&core);
    let assignments = options.assignments(&core, subscription, &[]);
    let return_type: Type = match &function.sig.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, ty) => (**ty).clone(),
    };
    let returned = quote_spanned!(return_type.span()=> type Return = #return_type;);
    let read_back = read_back(&return_type);
    let commits = commits(&return_type);
    let injected = || params.iter().enumerate().filter(|(_, param)| !param.is_payload());
    let accesses: Vec<(Ident, TokenStream)> = injected().map(|(index, param)| param.access(index)).collect();
    let items = accesses.iter().map(|(_, item)| item);
    let needs = accesses.iter().map(|(access, _)| quote!(#access.needs()));
    let values = params.iter().enumerate().map(|(index, param)| {
        if index == event { quote!(#of_event::decode(__queue_call.payload())?) } else { param.value(index, &param.access(index).0) }
    });
    let types = params.iter().map(|param| &param.ty);
    let variables: Vec<Ident> = (0..params.len()).map(|index| Ident::new(&format!("__queue_value_{index}"), Span::call_site())).collect();
    let given: Vec<TokenStream> = params.iter().filter_map(Param::is_given).collect();
    let (called, wanted) = (quote!(#name(#(#variables),*)), quote!(__queue_call.wants_result.clone()));
    let (run, run_fn, end, refused) = match options.blocking {
        Some(_) => (
            quote!(__queue::end::<#name>(#called, &__queue_call.wants_result)),
            quote!(Blocking),
            quote!(#core::Outcome),
            quote!(__queue_end),
        ),
        None => {
            let run = if given.is_empty() {
                quote_spanned!(name.span()=> __queue::run::<#name, _>(#called, #wanted))
            } else {
                quote_spanned!(name.span()=> __queue::Given::<{ #(#given)&&* }>::run::<#name, _>(#called, #wanted))
            };
            (run, quote!(Async), quote!(#core::BoxFuture<'static, #core::Outcome>), quote!(__queue::ended(__queue_end)))
        }
    };
    let title = format!("A function of the subscription `{subscription}`.");
    quote! {
        #(#cfgs)*
        #[doc = #title]
        #[doc = ""]
        #(#docs)*
        #[allow(non_camel_case_types, reason = "it has the name of its function")]
        #[derive(::core::fmt::Debug)]
        #visibility struct #name {}
        #(#cfgs)*
        #[allow(
            clippy::all, clippy::pedantic, unused_variables, unused_mut, non_snake_case,
            reason = "generated: the names are the user's"
        )]
        const _: () = {
            use #core::__private as __queue;
            use __queue::Lacks as _;

            #(#items)*

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

            const __QUEUE_TOPIC: &::core::primitive::str = #of_event::TOPIC;
            const __QUEUE_ADDRESS: [::core::primitive::u8; #subscription.len() + 1 + __QUEUE_TOPIC.len()] = __queue::subscription_address(#subscription, __QUEUE_TOPIC);
            static __QUEUE_DEFINITION: #core::TaskDef = {
                let mut __queue_def = #core::TaskDef::new(#of_event::TYPE, #of_event::payload_from_json);
                #assignments
                __queue_def.queue = __queue::text(&__QUEUE_ADDRESS);
                __queue_def.subscription = ::core::option::Option::Some(#core::__private::SubscriptionDef {
                    name: #subscription,
                    topic: __QUEUE_TOPIC,
                    begin: #begin,
                    unknown: #unknown,
                });
                #commits
                __queue_def.params = #of_event::PARAMS;
                __queue_def.check_payload = #of_event::check_payload;
                __queue_def.file = ::core::file!();
                __queue_def.line = ::core::line!();
                __queue_def
            };
            static __QUEUE_HANDLER: #core::__private::HandlerDef = #core::__private::HandlerDef {
                task: &__QUEUE_DEFINITION,
                run: #core::__private::RunFn::#run_fn(__queue_run),
                needs: __queue_needs,
            };

            fn __queue_needs() -> __queue::Vec<#core::DataNeed> {
                let __queue_found: __queue::Vec<__queue::Vec<#core::DataNeed>> = __queue::Vec::from([#(#needs),*]);
                __queue_found.into_iter().flatten().collect()
            }

            fn __queue_arguments(__queue_call: &#core::__private::Call) -> ::core::result::Result<(#(#types,)*), #core::Outcome> {
                let __queue_context = &__queue_call.context;
                ::core::result::Result::Ok((#(#values,)*))
            }

            fn __queue_run(__queue_call: #core::__private::Call) -> #end {
                match __queue_arguments(&__queue_call) {
                    ::core::result::Result::Ok((#(#variables,)*)) => #run,
                    ::core::result::Result::Err(__queue_end) => #refused,
                }
            }

            __queue::inventory::submit! { #core::__private::Submitted(&__QUEUE_HANDLER) }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(options: &str, item: &str) -> (usize, String) {
        let text = expand(options.parse().unwrap(), &item.parse().unwrap()).to_string();
        (text.matches("compile_error").count(), text)
    }

    const BILL: &str = "async fn bill(event: OrderPaid, ctx: JobContext) {}";

    #[test]
    fn a_subscription_names_itself_and_where_it_begins() {
        for from in ["now", "start", "2026-01-02T03:04:05Z", "2026-01-02"] {
            assert_eq!(problems(&format!("name = \"billing\", from = \"{from}\", ordered, max_attempts = 8"), BILL).0, 0, "{from}");
        }
        for (options, problem) in [
            ("name = \"billing\"", "from = \\\"start\\\""),
            ("from = \"now\"", "name = \\\"billing\\\""),
            ("name = \"billing\", from = \"yesterday\"", "is not a time"),
            ("name = \"billing\", from = \"now\", unknown = \"drop\"", "write \\\"park\\\" or \\\"skip\\\""),
        ] {
            let (count, text) = problems(options, BILL);
            assert_eq!(count, 1, "{text}");
            assert!(text.contains(problem), "{text}");
        }
    }

    #[test]
    fn what_the_publisher_decides_is_no_option_of_a_subscription() {
        for option in [
            "queue = \"a\"",
            "unique",
            "priority = \"high\"",
            "alias = \"x\"",
            "limit(name = \"a\")",
            "schedule(every = \"1m\")",
            "group = order",
        ] {
            let (count, text) = problems(&format!("name = \"billing\", from = \"now\", {option}"), BILL);
            assert_eq!(count, 1, "{option}: {text}");
        }
        assert_eq!(problems("name = \"billing\", from = \"now\", group(cap = 2)", BILL).0, 0);
    }

    #[test]
    fn it_takes_one_event() {
        let options = "name = \"billing\", from = \"now\"";
        assert_eq!(problems(options, "async fn bill(ctx: JobContext) {}").0, 1);
        assert_eq!(problems(options, "async fn bill(one: OrderPaid, two: OrderPaid) {}").0, 1);
        assert_eq!(problems(options, "async fn bill(shop: Data<Shop>, one: OrderPaid) {}").0, 0);
    }
}
