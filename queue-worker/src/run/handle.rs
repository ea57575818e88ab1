//! The run of the handler, within all middleware and its timeout. It is cancelled when the worker
//! or an operator stops it, and its panics are caught.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
    time::Duration,
};

use futures_util::FutureExt;
use queue_core::{
    __private::{Call, HandlerDef, RunFn, forget_panic_place, panic_text},
    BoxFuture, CancelCause, JobContext, Outcome,
    observe::spans,
};
use tokio::{
    runtime::Handle,
    sync::{
        Mutex,
        oneshot::{Receiver, error::RecvError},
    },
};
use tracing::Instrument;

use super::Run;
use crate::{config::CANCEL_GRACE, job_log, letters::address, threads::Threads};

/// What a handler returned, or its panic.
type Caught = Result<Outcome, Box<dyn Any + Send>>;

impl Run {
    /// Runs the handler to its end, within all middleware.
    pub(super) async fn handle(&self, handler: &HandlerDef, call: Call, context: &JobContext, own_trace: bool) -> Outcome {
        let span = self.span(context, own_trace);
        let application = &self.shared.application;
        let (middleware, notice) = (&application.middleware, self.shared.settings.notice());
        let handled = async {
            match handler.run {
                RunFn::Async(run) if middleware.is_empty() => poll(|| run(call), None, context, notice).await,
                RunFn::Blocking(run) if middleware.is_empty() => {
                    block_on_handler(&application.threads, run, call, context, span.clone()).await
                }
                RunFn::Async(run) => poll(|| middleware.run(context, move || run(call)), None, context, notice).await,
                RunFn::Blocking(run) => {
                    let (thread, span) = (Thread::default(), span.clone());
                    let handler = || Box::pin(thread.run(&application.threads, run, call, span)) as BoxFuture<'_, Outcome>;
                    let outcome = poll(|| middleware.run(context, handler), Some(&thread), context, notice).await;
                    thread.is_left().await;
                    outcome
                }
            }
        };
        let outcome = if span.is_disabled() { handled.await } else { handled.instrument(span.clone()).await };
        spans::ended(&span, &outcome);
        #[cfg(feature = "otel")]
        if matches!(outcome, Outcome::Repeat(_)) {
            application.rounds.ended(address(&self.queue, context.id()).to_string(), &span);
        }
        tracing::trace!(job = %address(&self.queue, context.id()), task = handler.task.name, claim = context.claim(), "ended: {outcome:?}");
        outcome
    }

    /// The span of the run. Log lines of the handler belong to its job and to the trace of its
    /// producer. The run has its own trace if it had to wait, or if it is a later round.
    fn span(&self, context: &JobContext, own_trace: bool) -> tracing::Span {
        let job = address(&self.queue, context.id());
        let span =
            job_log::opening(context, || spans::run(&job, &self.queue, context.task(), context.attempt(), context.header("traceparent")));
        #[cfg(feature = "otel")]
        {
            let is_round = !span.is_disabled() && self.shared.application.rounds.link(&job.to_string(), &span);
            queue_core::observe::otel::follow(&span, context.headers(), own_trace || is_round);
        }
        #[cfg(not(feature = "otel"))]
        let _ = own_trace;
        span
    }
}

/// Polls a run until it returns. If it is cancelled and does not return soon, it is dropped.
async fn poll<'a>(
    begin: impl FnOnce() -> BoxFuture<'a, Outcome>,
    thread: Option<&Thread>,
    context: &JobContext,
    notice: Duration,
) -> Outcome {
    forget_panic_place();
    // The first steps of a handler may also panic.
    let mut handler = match catch_unwind(AssertUnwindSafe(begin)) {
        Ok(handler) => AssertUnwindSafe(handler).catch_unwind(),
        Err(panic) => return Outcome::Panicked(panic_text(panic)),
    };
    let mut polled = poll_fn(|task| {
        context.polls().fetch_add(1, Ordering::Relaxed);
        forget_panic_place();
        let poll = handler.poll_unpin(task);
        context.polls().fetch_add(1, Ordering::Relaxed);
        poll
    });
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
        end = &mut polled => return returned(end),
        cause = stop => cause,
    };
    let patience = if cause == CancelCause::Shutdown { notice } else { CANCEL_GRACE };
    let runs_out = async {
        match thread {
            Some(thread) => thread.is_left_for(patience).await,
            None => tokio::time::sleep(patience).await,
        }
    };
    tokio::select! {
        biased;
        end = &mut polled => return returned(end),
        () = runs_out => {}
    }
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(handler))) {
        let job = address(context.queue(), context.id());
        tracing::error!(%job, task = context.task(), error = panic_text(panic), "the handler panicked while it was dropped");
    }
    Outcome::Stopped(cause)
}

/// The thread of a blocking handler that runs within middleware. A middleware may drop the handler,
/// but its thread continues. The run does not end before the thread: otherwise another worker could
/// get the job while its handler runs.
#[derive(Default)]
struct Thread(Mutex<Option<Receiver<Caught>>>);

impl Thread {
    /// Runs the handler. If this future is dropped before it returns, the thread continues.
    async fn run(&self, threads: &Threads, run: fn(Call) -> Outcome, call: Call, span: tracing::Span) -> Outcome {
        let mut thread = self.0.lock().await;
        let handler = match spawn(threads, run, call, span) {
            Ok(handler) => thread.insert(handler),
            Err(outcome) => return outcome,
        };
        let end = handler.await;
        *thread = None;
        outcome_of_thread(end)
    }

    /// Waits until no handler runs in the thread.
    async fn is_left(&self) {
        let mut thread = self.0.lock().await;
        if let Some(handler) = &mut *thread {
            // The middleware has dropped the handler, so its result is not needed.
            drop(handler.await);
            *thread = None;
        }
    }

    /// Waits until no handler has run in the thread for this time.
    async fn is_left_for(&self, patience: Duration) {
        loop {
            self.is_left().await;
            tokio::time::sleep(patience).await;
            if self.0.try_lock().is_ok_and(|thread| thread.is_none()) {
                return;
            }
        }
    }
}

/// A blocking handler cannot be stopped: it keeps its slot until it returns.
async fn block_on_handler(threads: &Threads, run: fn(Call) -> Outcome, call: Call, context: &JobContext, span: tracing::Span) -> Outcome {
    let mut handler = match spawn(threads, run, call, span) {
        Ok(handler) => handler,
        Err(outcome) => return outcome,
    };
    if let Some(deadline) = context.deadline() {
        if let Ok(end) = tokio::time::timeout_at(deadline.into(), &mut handler).await {
            return outcome_of_thread(end);
        }
        context.cancel(CancelCause::TimedOut);
    }
    outcome_of_thread(handler.await)
}

/// Starts the handler on a thread, within the runtime, so that it may block on a future.
fn spawn(threads: &Threads, run: fn(Call) -> Outcome, call: Call, span: tracing::Span) -> Result<Receiver<Caught>, Outcome> {
    let runtime = Handle::current();
    let spawned = threads.run(move || {
        let _inside = runtime.enter();
        forget_panic_place();
        let caught = span.in_scope(|| catch_unwind(AssertUnwindSafe(|| run(call))));
        // Only the thread of the panic knows its location.
        caught.or_else(|panic| Ok(Outcome::Panicked(panic_text(panic))))
    });
    spawned.map_err(|error| {
        tracing::error!(%error, "cannot start a thread for a blocking job; it runs again in one second, uncharged");
        Outcome::Snooze(Duration::from_secs(1))
    })
}

fn outcome_of_thread(end: Result<Caught, RecvError>) -> Outcome {
    end.map_or_else(|_| Outcome::Panicked("its thread has ended".to_owned()), returned)
}

fn returned(end: Caught) -> Outcome {
    end.unwrap_or_else(|panic| Outcome::Panicked(panic_text(panic)))
}
