//! How a task is run: its handler, as the macros write it, the registry finds it and the worker
//! calls it.

use std::{convert::Infallible, fmt, marker::PhantomData, ops::Range};

use crate::{
    context::{DataNeed, JobContext, LeaseClock},
    io::BoxFuture,
    outcome::{Outcome, TaskReturn},
    task::{Task, TaskDef},
};

/// The work of a `#[derive(Task)]` struct.
///
/// ```
/// use queue_core::prelude::*;
///
/// #[derive(Task)]
/// #[task(queue = "mail", max_attempts = 5)]
/// struct SendMail {
///     to: String,
/// }
///
/// impl Handler for SendMail {
///     type Output = Result<(), std::io::Error>;
///
///     async fn run(self, ctx: JobContext) -> Self::Output {
///         println!("attempt {} to {}", ctx.attempt(), self.to);
///         Ok(())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "the task `{Self}` has no handler",
    label = "`#[derive(Task)]` needs `impl Handler for {Self}`",
    note = "write `impl Handler for {Self} {{ type Output = Result<(), YourError>; async fn run(self, ctx: JobContext) -> Self::Output {{ .. }} }}`"
)]
pub trait Handler: Sized + Send + 'static {
    /// The return type of the handler: `()`, an [`Outcome`], or a `Result`, as for functions.
    type Output: TaskReturn;

    /// Does the work.
    fn run(self, ctx: JobContext) -> impl Future<Output = Self::Output> + Send;
}

/// A task that this program can run: the macros implement it in addition to [`Task`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a task",
    note = "put `#[task]` on an async function, or `#[derive(Task)]` on a payload struct that implements `Handler`"
)]
pub trait Runnable: Task {
    /// Its handler.
    fn handler() -> &'static HandlerDef;
}

/// The handler of a task.
#[derive(Clone, Copy)]
pub struct HandlerDef {
    /// Its task.
    pub task: &'static TaskDef,
    /// Runs it.
    pub run: RunFn,
    /// The values to inject.
    pub needs: fn() -> Vec<DataNeed>,
}

impl fmt::Debug for HandlerDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "handler of {:?}", self.task)
    }
}

/// How a task is run.
#[derive(Clone, Copy, Debug)]
pub enum RunFn {
    /// An async function: the future is polled by the worker's runtime.
    Async(fn(Call) -> BoxFuture<'static, Outcome>),
    /// A sync function (`blocking`): it gets one of the worker's threads for such functions, of
    /// which there are as many as jobs run at once.
    Blocking(fn(Call) -> Outcome),
}

/// One run of a task.
#[derive(Debug)]
#[non_exhaustive]
pub struct Call {
    /// The stored envelope, which contains the payload.
    pub envelope: Vec<u8>,
    /// The range of the payload in the envelope.
    pub payload: Range<usize>,
    /// The job's context.
    pub context: JobContext,
    /// Whether the result is wanted.
    pub wants_result: Wanted,
}

/// Whether the result of a run is wanted, asked when the handler has returned.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The job is kept.
    kept: bool,
    /// Until when a caller waits for a job of its queue.
    watched: Option<LeaseClock>,
}

impl Wanted {
    /// For a job that is kept, or whose queue is watched.
    pub fn new(kept: bool, watched: LeaseClock) -> Self {
        Wanted { kept, watched: Some(watched) }
    }

    /// Whether it is wanted now.
    pub fn now(&self) -> bool {
        self.kept || self.watched.as_ref().is_some_and(LeaseClock::is_valid)
    }
}

impl From<bool> for Wanted {
    fn from(kept: bool) -> Self {
        Wanted { kept, watched: None }
    }
}

impl Call {
    /// A call whose payload is a range of `envelope`.
    pub fn new(envelope: Vec<u8>, payload: Range<usize>, context: JobContext, wants_result: impl Into<Wanted>) -> Self {
        Call { envelope, payload, context, wants_result: wants_result.into() }
    }

    /// The encoded payload.
    pub fn payload(&self) -> &[u8] {
        &self.envelope[self.payload.clone()]
    }
}

/// The return type of a payload struct as a task; it has no value. Only [`Handler`] requires that
/// the output can be stored, at the place where the user wrote it.
#[derive(Debug)]
pub struct Returned<H>(Infallible, PhantomData<fn() -> H>);

impl<H: Handler> TaskReturn for Returned<H> {
    type Output = <H::Output as TaskReturn>::Output;
    fn end(self, _: bool) -> Outcome {
        match self.0 {}
    }
}
