//! `#[task]`, `#[derive(Task)]`, `#[subscribe]` and `#[derive(Event)]` of
//! [queue-core](https://docs.rs/queue-core), where they are documented and re-exported. The
//! glossary in `docs/README.md` of the repository defines the terms.
//!
//! Each mistake is reported once, at the token that has to change. The macros check the syntax
//! directly. They route every requirement on a type through exactly one expression with the span of
//! that type.

mod derive;
mod event;
mod expand;
mod fallback;
mod from;
mod function;
mod group;
mod limit;
mod names;
mod options;
mod params;
mod place;
mod problems;
mod schedule;
mod serde;
mod subscribe;
mod suggest;
mod tag;
mod unique;

use proc_macro::TokenStream;

/// Turns a function into a task. See `queue_core::task`.
#[proc_macro_attribute]
pub fn task(options: TokenStream, item: TokenStream) -> TokenStream {
    checked(&[&options, &item], || function::expand(options.clone().into(), &item.clone().into()))
}

/// Turns a payload struct into a task. See `queue_core::Task`.
#[proc_macro_derive(Task, attributes(task, default, inject, serde))]
pub fn derive_task(item: TokenStream) -> TokenStream {
    checked(&[&item], || derive::expand(item.clone().into()))
}

/// Turns a struct into a type of event. See `queue_core::Event`.
#[proc_macro_derive(Event, attributes(event, default, serde))]
pub fn derive_event(item: TokenStream) -> TokenStream {
    checked(&[&item], || event::expand(item.clone().into()))
}

/// Turns a function into a handler of a subscription. See `queue_core::subscribe`.
#[proc_macro_attribute]
pub fn subscribe(options: TokenStream, item: TokenStream) -> TokenStream {
    checked(&[&options, &item], || subscribe::expand(options.clone().into(), &item.clone().into()))
}

/// The expansion, or an error if a name in the input is reserved for the expansion.
fn checked(input: &[&TokenStream], expand: impl FnOnce() -> proc_macro2::TokenStream) -> TokenStream {
    let reserved = input.iter().find_map(|tokens| names::reserved(&TokenStream::clone(tokens).into()));
    reserved.map_or_else(expand, syn::Error::into_compile_error).into()
}
