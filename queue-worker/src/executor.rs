//! Runs handlers, on the application's runtime, and says how each ended.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::FutureExt;
use queue_core::{
    JobContext, Outcome,
    broker::{BuryReason, Delivery, Ending},
    context::{CancelCause, ContextInit, LeaseClock},
    envelope::{ENVELOPE_VERSION, Envelope},
    outcome::HandlerEnd,
    task::{Call, OnIsolation, RunFn, TaskDef},
};
use tokio::sync::mpsc;
use tracing::Instrument;

use crate::{
    config::FailedAttempt,
    engine::{Known, Shared, count},
    letters::address,
    pump::{Event, SlotId},
    time::now,
};

/// How long a handler that was told to stop may take for it before it is dropped.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// A job does not wait longer than this, whatever its handler says.
const LONGEST: Duration = queue_core::client::LONGEST;

/// Jobs of one turn, on their way to their handlers.
pub(crate) struct Batch {
    pub(crate) queue: Arc<str>,
    pub(crate) lease: LeaseClock,
    /// The broker's clock when they were claimed.
    pub(crate) now_ms: i64,
    pub(crate) jobs: Vec<(SlotId, Delivery)>,
}

/// Starts the handlers of every batch. Ends with the pump.
pub(crate) async fn dispatch(shared: Arc<Shared>, mut batches: mpsc::UnboundedReceiver<Batch>, events: mpsc::UnboundedSender<Event>) {
    while let Some(batch) = batches.recv().await {
        for (slot, delivery) in batch.jobs {
            let job = Job {
                shared: shared.clone(),
                answer: Answer::new(events.clone(), slot, &shared),
                queue: batch.queue.clone(),
                lease: batch.lease.clone(),
                now_ms: batch.now_ms,
            };
            tokio::spawn(job.run(delivery));
        }
    }
}

/// The one answer that every delivery gets (R8). A run that dies without one, with its runtime or by a bug, is answered when it
/// is dropped: no slot is lost.
struct Answer {
    events: mpsc::UnboundedSender<Event>,
    slot: SlotId,
    shared: Arc<Shared>,
    given: bool,
}

impl Answer {
    fn new(events: mpsc::UnboundedSender<Event>, slot: SlotId, shared: &Arc<Shared>) -> Self {
        count(&shared.running, 1);
        Answer { events, slot, shared: shared.clone(), given: false }
    }

    /// False: nobody listens any more.
    fn begins(&self, context: JobContext, isolation: bool) -> bool {
        self.events.send(Event::Begun { slot: self.slot, context, isolation }).is_ok()
    }

    fn give(mut self, ending: Ending) {
        self.send(ending);
    }

    fn send(&mut self, ending: Ending) {
        self.given = true;
        count(&self.shared.running, -1);
        self.shared.finished.fetch_add(1, Ordering::Relaxed);
        // The pump is gone only when the worker was dropped; the lease then gives the job back.
        let _ = self.events.send(Event::Ended { slot: self.slot, ending });
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.given {
        } else if std::thread::panicking() {
            let error = "its run panicked outside of its handler".to_owned();
            self.send(Ending::Nack { delay: Duration::from_secs(60), error });
        } else {
            self.send(Ending::Release);
        }
    }
}

struct Job {
    shared: Arc<Shared>,
    answer: Answer,
    queue: Arc<str>,
    lease: LeaseClock,
    now_ms: i64,
}

impl Job {
    async fn run(self, delivery: Delivery) {
        let ending = self.ending(delivery).await;
        self.answer.give(ending);
    }

    async fn ending(&self, delivery: Delivery) -> Ending {
        if self.must_not_start() {
            return Ending::Release;
        }
        let envelope = match Envelope::decode(&delivery.envelope) {
            Ok(envelope) => envelope,
            Err(error) => {
                return Ending::Bury { reason: BuryReason::Undecodable, error: Some(error.to_string()) };
            }
        };
        if envelope.version > ENVELOPE_VERSION {
            // Kept apart from the task's own name, under which this very worker would take it back.
            return Ending::Park { task: format!("{}@v{}", envelope.task, envelope.version) };
        }
        if envelope.expires_ms.is_some_and(|expires| expires < self.now_ms) {
            return Ending::Expire;
        }
        let Some(known) = self.shared.tasks.get(envelope.task.as_ref()) else {
            let (job, task) = (address(&self.queue, &delivery.id), &*envelope.task);
            tracing::warn!(%job, task, "parked: no task of this name is known here; a worker that knows it takes the job back");
            return Ending::Park { task: envelope.task.into_owned() };
        };
        let options = Options::of(&self.shared, known.task, &envelope);
        let context = self.context(known, &delivery, envelope.headers, &options);
        let (claim, attempts) = (delivery.claim, delivery.attempts);
        let payload = payload_range(&delivery.envelope, envelope.payload);
        let call = Call::new(delivery.envelope, payload, context.clone(), options.keep.is_some());
        let isolation = known.task.on_isolation == OnIsolation::Cancel;
        if !self.answer.begins(context.clone(), isolation) {
            return Ending::Release;
        }
        let span = self.span(&context);
        let handled = async {
            match known.task.run {
                RunFn::Async(run) => poll_handler(run, call, &context, self.shared.settings.notice()).await,
                RunFn::Blocking(run) => block_on_handler(run, call, &context, span.clone()).await,
            }
        };
        let end = if span.is_disabled() { handled.await } else { handled.instrument(span.clone()).await };
        tracing::trace!(job = %address(&self.queue, context.id()), task = known.task.name, claim, "ended: {end:?}");
        self.settle(end, known.task, &options, attempts.saturating_add(1), &context)
    }

    /// Whether the worker was told to stop while the job waited for a thread, or has lost touch with the broker.
    fn must_not_start(&self) -> bool {
        self.shared.stopping.load(Ordering::Relaxed) || self.shared.is_isolated() || self.lease.until() <= now()
    }

    /// What the handler logs belongs to its job, and to the trace of whoever enqueued it.
    fn span(&self, context: &JobContext) -> tracing::Span {
        let trace = context.header("traceparent");
        let (job, task) = (address(&self.queue, context.id()), context.task());
        tracing::info_span!("job", %job, task, attempt = context.attempt(), traceparent = trace)
    }

    fn context(
        &self,
        known: &Known,
        delivery: &Delivery,
        headers: std::collections::BTreeMap<String, String>,
        options: &Options,
    ) -> JobContext {
        let mut init = ContextInit::new(self.queue.clone(), known.name.clone(), delivery.id.clone(), self.shared.environment.clone());
        init.claim = delivery.claim;
        init.attempts = delivery.attempts;
        init.crashes = delivery.crashes;
        init.snoozes = delivery.snoozes;
        init.max_attempts = options.max_attempts;
        init.headers = headers;
        init.lease = self.lease.clone();
        init.deadline = options.timeout.and_then(|timeout| now().checked_add(timeout));
        JobContext::new(init)
    }

    /// What an end of a handler means for its job.
    fn settle(&self, end: End, task: &TaskDef, options: &Options, attempt: u32, context: &JobContext) -> Ending {
        let timed_out = || format!("timed out after {:?}", options.timeout.unwrap_or_default());
        let end = match (end, context.cancel_cause()) {
            (End::Panicked(text), _) => HandlerEnd::Failed(format!("panicked: {text}")),
            (End::Stopped(CancelCause::TimedOut), _) => HandlerEnd::Failed(timed_out()),
            (End::Returned(HandlerEnd::Failed(error)), Some(CancelCause::TimedOut)) => {
                HandlerEnd::Failed(format!("{}: {error}", timed_out()))
            }
            // It was told to stop, and says so with an error: its job is not to blame, or its finish changes nothing any more.
            (End::Returned(HandlerEnd::Failed(_)), Some(_)) | (End::Stopped(_), _) => return Ending::Release,
            (End::Returned(end), _) => end,
        };
        match end {
            HandlerEnd::Done(result) => {
                let result = match result {
                    Some(Ok(result)) => Some(result),
                    Some(Err(problem)) => {
                        let job = address(&self.queue, context.id());
                        tracing::error!(%job, task = task.name, attempt, error = problem, "done, but without its result");
                        None
                    }
                    None => None,
                };
                Ending::Ack { result, keep: options.keep }
            }
            HandlerEnd::Failed(error) => self.failed(task, options, attempt, None, error, context),
            HandlerEnd::Undecodable(problem) => Ending::Bury { reason: BuryReason::Undecodable, error: Some(problem) },
            HandlerEnd::Steered(outcome) => match outcome {
                Outcome::Retry(why) => self.failed(task, options, attempt, None, why, context),
                Outcome::RetryAfter(delay, why) => self.failed(task, options, attempt, Some(delay), why, context),
                Outcome::Snooze(delay) => Ending::Snooze { delay: delay.min(LONGEST) },
                Outcome::Repeat(delay) => Ending::Repeat { delay: delay.min(LONGEST) },
                Outcome::Cancel(reason) => Ending::Cancel { reason },
                Outcome::Bury(why) => Ending::Bury { reason: BuryReason::Buried, error: Some(why) },
                _ => Ending::Ack { result: None, keep: options.keep },
            },
            _ => Ending::Release,
        }
    }

    fn failed(
        &self,
        task: &TaskDef,
        options: &Options,
        attempt: u32,
        delay: Option<Duration>,
        error: String,
        context: &JobContext,
    ) -> Ending {
        let (queue, name) = (&*self.queue, task.name);
        if attempt >= options.max_attempts {
            return Ending::Bury { reason: BuryReason::Failed, error: Some(error) };
        }
        let settings = &self.shared.settings;
        let delay = delay.unwrap_or_else(|| {
            let delay = task.backoff.unwrap_or(settings.backoff).delay(attempt);
            let Some(custom) = &settings.custom_backoff else { return delay };
            let failed = FailedAttempt { task: name, queue, attempt, error: &error, delay };
            catch_unwind(AssertUnwindSafe(|| custom(&failed))).unwrap_or_else(|_| {
                tracing::error!(queue, task = name, "the custom backoff panicked; the usual one is used");
                delay
            })
        });
        let job = address(queue, context.id());
        tracing::warn!(%job, task = name, attempt, retry_in = ?delay, error, "the job has failed and will run again");
        Ending::Nack { delay: delay.min(LONGEST), error }
    }
}

/// The settings of one run: the job's own go before its task's, those before the worker's.
struct Options {
    max_attempts: u32,
    timeout: Option<Duration>,
    keep: Option<Duration>,
}

impl Options {
    fn of(shared: &Shared, task: &TaskDef, envelope: &Envelope<'_>) -> Self {
        let settings = &shared.settings;
        Options {
            max_attempts: envelope.max_attempts.or(task.max_attempts).unwrap_or(settings.max_attempts),
            timeout: envelope.timeout().or(task.timeout).or(settings.timeout),
            keep: envelope.retention().or(task.retention).or(settings.retention).filter(|keep| !keep.is_zero()),
        }
    }
}

/// Where in the envelope its payload lies.
fn payload_range(envelope: &[u8], payload: &[u8]) -> std::ops::Range<usize> {
    let start = payload.as_ptr().addr() - envelope.as_ptr().addr();
    start..start + payload.len()
}

#[derive(Debug)]
enum End {
    Returned(HandlerEnd),
    Panicked(String),
    /// It was told to stop, and did not return.
    Stopped(CancelCause),
}

async fn poll_handler(
    run: fn(Call) -> queue_core::BoxFuture<'static, HandlerEnd>,
    call: Call,
    context: &JobContext,
    notice: Duration,
) -> End {
    // The first steps of a handler may panic, too.
    let mut handler = match catch_unwind(AssertUnwindSafe(|| run(call))) {
        Ok(handler) => AssertUnwindSafe(handler).catch_unwind(),
        Err(panic) => return End::Panicked(panic_text(panic.as_ref())),
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
            End::Stopped(cause)
        }
    }
}

/// A blocking handler cannot be stopped: it keeps its slot until it returns.
async fn block_on_handler(run: fn(Call) -> HandlerEnd, call: Call, context: &JobContext, span: tracing::Span) -> End {
    let mut handler = tokio::task::spawn_blocking(move || span.in_scope(|| catch_unwind(AssertUnwindSafe(|| run(call)))));
    if let Some(deadline) = context.deadline() {
        if let Ok(end) = tokio::time::timeout_at(deadline.into(), &mut handler).await {
            return joined(end, context);
        }
        context.cancel(CancelCause::TimedOut);
    }
    joined(handler.await, context)
}

fn joined(end: Result<Result<HandlerEnd, Box<dyn Any + Send>>, tokio::task::JoinError>, context: &JobContext) -> End {
    match end {
        Ok(end) => returned(end),
        // The runtime shuts down and has not started it.
        Err(_) => End::Stopped(context.cancel_cause().unwrap_or(CancelCause::Shutdown)),
    }
}

fn returned(end: Result<HandlerEnd, Box<dyn Any + Send>>) -> End {
    match end {
        Ok(end) => End::Returned(end),
        Err(panic) => End::Panicked(panic_text(panic.as_ref())),
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
    queue_core::outcome::cut(text.unwrap_or_else(|| "without a message".to_owned()), queue_core::envelope::ERROR_MAX - 64)
}
