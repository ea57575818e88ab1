//! `#[task]` and `#[derive(Task)]` of [queue-core](https://docs.rs/queue-core), where they are documented and re-exported. The glossary in
//! `docs/README.md` of the repository says what the words mean.
//!
//! Each mistake is told once, at the token that has to change: the macros check what can be seen in the syntax, and route
//! every requirement on a type through exactly one expression that carries the span of that type.

mod derive;
mod expand;
mod fallback;
mod function;
mod group;
mod limit;
mod options;
mod params;
mod place;
mod problems;
mod schedule;
mod suggest;
mod unique;

use proc_macro::TokenStream;

/// Turns a function into a task. See `queue_core::task`.
#[proc_macro_attribute]
pub fn task(options: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(options.into(), &item.into()).into()
}

/// Turns a payload struct into a task. See `queue_core::Task`.
#[proc_macro_derive(Task, attributes(task, default, inject))]
pub fn derive_task(item: TokenStream) -> TokenStream {
    derive::expand(item.into()).into()
}
