//! What the expansion of `#[task]` and `#[derive(Task)]` uses, so that a crate with tasks depends on this one alone. Not
//! part of the public interface.

pub use std::{option::Option, vec::Vec};

pub use inventory;

/// The nearest of some words, for "did you mean".
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    crate::client::nearest(word, known)
}

pub use crate::payload::{Injected, Param, PayloadReader, PayloadWriter, json_object};
use crate::{
    io::BoxFuture,
    outcome::{HandlerEnd, TaskReturn},
    task::Task,
};

/// Runs an async handler.
pub fn run<T, F>(handler: F, wants_result: bool) -> BoxFuture<'static, HandlerEnd>
where
    T: Task,
    F: Future<Output = T::Return> + Send + 'static,
{
    Box::pin(async move { handler.await.end(wants_result) })
}

/// Ends a blocking handler.
pub fn end<T: Task>(returned: T::Return, wants_result: bool) -> HandlerEnd {
    returned.end(wants_result)
}

/// A run that ended before its handler began.
pub fn ended(end: HandlerEnd) -> BoxFuture<'static, HandlerEnd> {
    Box::pin(std::future::ready(end))
}
