//! The run of the handler itself: within its timeout, told to stop when it should, and behind a wall for panics.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures_util::FutureExt;
use queue_core::{
    BoxFuture, JobContext, Outcome,
    context::CancelCause,
    outcome::panic_text,
    task::{Call, RunFn, TaskDef},
};
use tracing::Instrument;

use super::Run;
use crate::letters::address;

/// How long a handler that was told to stop may take for it before it is dropped.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_secs(1);

impl Run {
    /// Runs the handler to its end.
    pub(super) async fn handle(&self, task: &TaskDef, call: Call, context: &JobContext) -> Outcome {
        let span = self.span(context);
        let handled = async {
            match task.run {
                RunFn::Async(run) => poll_handler(run, call, context, self.shared.settings.notice()).await,
                RunFn::Blocking(run) => block_on_handler(run, call, context, span.clone()).await,
            }
        };
        let outcome = if span.is_disabled() { handled.await } else { handled.instrument(span.clone()).await };
        tracing::trace!(job = %address(&self.queue, context.id()), task = task.name, claim = context.claim(), "ended: {outcome:?}");
        outcome
    }

    /// What the handler logs belongs to its job, and to the trace of whoever enqueued it.
    fn span(&self, context: &JobContext) -> tracing::Span {
        let trace = context.header("traceparent");
        let (job, task) = (address(&self.queue, context.id()), context.task());
        tracing::info_span!("job", %job, task, attempt = context.attempt(), traceparent = trace)
    }
}

async fn poll_handler(run: fn(Call) -> BoxFuture<'static, Outcome>, call: Call, context: &JobContext, notice: Duration) -> Outcome {
    // The first steps of a handler may panic, too.
    let mut handler = match catch_unwind(AssertUnwindSafe(|| run(call))) {
        Ok(handler) => AssertUnwindSafe(handler).catch_unwind(),
        Err(panic) => return Outcome::Panicked(panic_text(panic.as_ref())),
    };
    let stop = async {
        match context.deadline() {
            Some(deadline) => tokio::select! {
                cause = context.cancelled() => cause,
                () = tokio::time::sleep_until(deadline.into()) => {
                    context.cancel(CancelCause::TimedOut);
                    CancelCause::TimedOut
                }
            },
            None => context.cancelled().await,
        }
    };
    let cause = tokio::select! {
        biased;
        end = &mut handler => return returned(end),
        cause = stop => cause,
    };
    let patience = if cause == CancelCause::Shutdown { notice } else { CANCEL_GRACE };
    match tokio::time::timeout(patience, &mut handler).await {
        Ok(end) => returned(end),
        Err(_) => {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(handler))) {
                let job = address(context.queue(), context.id());
                tracing::error!(%job, task = context.task(), error = panic_text(panic.as_ref()), "the handler panicked while it was dropped");
            }
            Outcome::Stopped(cause)
        }
    }
}

/// A blocking handler cannot be stopped: it keeps its slot until it returns.
async fn block_on_handler(run: fn(Call) -> Outcome, call: Call, context: &JobContext, span: tracing::Span) -> Outcome {
    let mut handler = tokio::task::spawn_blocking(move || span.in_scope(|| catch_unwind(AssertUnwindSafe(|| run(call)))));
    if let Some(deadline) = context.deadline() {
        if let Ok(end) = tokio::time::timeout_at(deadline.into(), &mut handler).await {
            return joined(end, context);
        }
        context.cancel(CancelCause::TimedOut);
    }
    joined(handler.await, context)
}

fn joined(end: Result<Result<Outcome, Box<dyn Any + Send>>, tokio::task::JoinError>, context: &JobContext) -> Outcome {
    match end {
        Ok(end) => returned(end),
        Err(_) => {
            // The runtime shuts down and has not started it.
            context.cancel(CancelCause::Shutdown);
            Outcome::Stopped(context.cancel_cause().unwrap_or(CancelCause::Shutdown))
        }
    }
}

fn returned(end: Result<Outcome, Box<dyn Any + Send>>) -> Outcome {
    end.unwrap_or_else(|panic| Outcome::Panicked(panic_text(panic.as_ref())))
}
