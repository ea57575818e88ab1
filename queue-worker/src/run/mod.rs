//! Runs jobs, on the application's runtime. Running one is a sequence of steps over one value,
//! [`Run`], one function each:
//!
//! 1. [`may_start`](Run::may_start): the worker has no stop request.
//! 2. [`decode`](Run::decode) reads the envelope, and [`find`](Run::find) finds the task
//!    (`find.rs`). A job whose effects commit with its ending may have ended already (`commit.rs`).
//! 3. [`Options::of`](Options::of) merges the settings, and [`inject`](Run::inject) builds the
//!    context (`inject.rs`).
//! 4. [`announce`](Run::announce) to the pump that the handler begins: from now on it can be
//!    cancelled.
//! 5. [`handle`](Run::handle): the handler, within its timeout; panics are caught (`handle.rs`).
//! 6. The progress and log lines of the handler are stored, if there are any (`scribe.rs`).
//! 7. [`ending`](Run::ending): the effect of the outcome on the job (`ending.rs`).
//!
//! The application sees the result of a run as an [`Outcome`], and the broker as an [`Ending`];
//! there is no third type.

mod commit;
mod ending;
mod find;
mod handle;
mod inject;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use queue_core::{
    __private::{Call, Envelope, LeaseClock, Wanted},
    JobContext, OnIsolation,
    broker::{BuryReason, Delivery, Ending, PartyName},
};
use tokio::sync::mpsc;

use self::inject::Options;
use crate::{
    messages::{Batch, Event, Ran, SlotId},
    shared::Shared,
    time::now,
    tuning::ONE_TRACE,
};

/// Starts a run for every job of every batch. Ends with the pump.
pub(crate) async fn dispatch(shared: Arc<Shared>, mut batches: mpsc::UnboundedReceiver<Batch>, events: mpsc::UnboundedSender<Event>) {
    while let Some(batch) = batches.recv().await {
        start(&shared, batch, &events);
    }
}

/// Starts a run for every job of a batch.
pub(crate) fn start(shared: &Arc<Shared>, batch: Batch, events: &mpsc::UnboundedSender<Event>) {
    for (slot, delivery) in batch.jobs {
        let run = Run {
            shared: shared.clone(),
            answer: Answer::new(events.clone(), slot, shared, &delivery),
            queue: batch.queue.clone(),
            lane: batch.lane.clone(),
            lease: batch.lease.clone(),
            watched: batch.watched.clone(),
            now_ms: batch.now_ms,
        };
        tokio::spawn(run.run(delivery));
    }
}

/// One run of one job, from its delivery to its ending.
struct Run {
    shared: Arc<Shared>,
    answer: Answer,
    queue: Arc<str>,
    lane: PartyName,
    lease: LeaseClock,
    watched: LeaseClock,
    /// The time of the broker's clock at the claim of the job.
    now_ms: i64,
}

impl Run {
    async fn run(self, delivery: Delivery) {
        let mut ran = None;
        let ending = self.run_to_ending(delivery, &mut ran).await.unwrap_or_else(|ending| ending);
        self.answer.report_ending(ending, ran);
    }

    /// `Err`: the job ended before its handler began.
    async fn run_to_ending(&self, delivery: Delivery, ran: &mut Option<Ran>) -> Result<Ending, Ending> {
        self.may_start()?;
        let envelope = self.decode(&delivery)?;
        let known = self.find(&envelope, &delivery)?;
        let task = known.handler.task;
        let options = Options::of(&self.shared.settings, task, &envelope);
        // Boxed, to keep the runs of other jobs small.
        let completion = if task.commits { Some(Box::pin(self.completion(&envelope, &delivery, &options)).await?) } else { None };
        if completion.is_some() && self.is_late(&envelope) {
            return Err(Ending::Expire);
        }
        self.answer.is_last.store(delivery.attempts.saturating_add(1) >= options.max_attempts, Ordering::Relaxed);
        let (waited, had_to) = (self.wait_time(&envelope, &delivery), envelope.delay_ms.is_some() || envelope.at_ms.is_some());
        let own_trace = had_to || delivery.odd || self.is_far_from_enqueue(&envelope);
        let payload = find::payload_range(&delivery.envelope, envelope.payload);
        let context = self.inject(known, &delivery, envelope.headers, envelope.tick_ms, &options, completion.clone());
        self.announce(&context, task.on_isolation)?;
        let mut delivery = delivery;
        let call = Call::new(
            std::mem::take(&mut delivery.envelope),
            payload,
            context.clone(),
            Wanted::new(options.keep.is_some(), self.watched.clone()),
        );
        let began = now();
        let outcome = self.handle(known.handler, call, &context, own_trace).await;
        *ran = Some(Ran { waited, took: now().saturating_duration_since(began) });
        // Store progress and log first: the ending clears the receipt they need.
        if context.has_reports() {
            // Boxed, to keep the runs of jobs without progress and log lines small.
            Box::pin(self.shared.progress.store(&context)).await;
        }
        let ending = |outcome| self.ending(outcome, task, &options, &context);
        Ok(match completion {
            Some(completion) => Box::pin(self.committed(&completion, outcome, &delivery, &options, ending)).await,
            None => ending(outcome),
        })
    }

    /// Whether the enqueue is too old to be the parent of this trace: the rounds and attempts of a
    /// job may continue for weeks.
    fn is_far_from_enqueue(&self, envelope: &Envelope<'_>) -> bool {
        let since = envelope.startable_ms().map(|at| self.now_ms.saturating_sub(at));
        since.is_some_and(|ms| u64::try_from(ms).is_ok_and(|ms| Duration::from_millis(ms) > ONE_TRACE))
    }

    /// Whether the time by which the job had to start has passed.
    fn is_late(&self, envelope: &Envelope<'_>) -> bool {
        envelope.expires_ms.is_some_and(|expires| expires < self.now_ms)
    }

    /// Returns an error if the worker got a stop request while the job waited for a thread, or if
    /// the worker has lost contact with the broker.
    fn may_start(&self) -> Result<(), Ending> {
        let must_not =
            self.shared.status.stopping.load(Ordering::Relaxed) || self.shared.connection.is_isolated() || self.lease.until() <= now();
        if must_not { Err(Ending::Return) } else { Ok(()) }
    }

    /// How long the job has waited since it could start, by the broker's clock. This is known only
    /// before its first start.
    fn wait_time(&self, envelope: &Envelope<'_>, delivery: &Delivery) -> Option<Duration> {
        let first = delivery.attempts == 0 && delivery.crashes == 0 && delivery.snoozes == 0 && delivery.rate_limited == 0;
        let since = envelope.startable_ms().filter(|_| first)?;
        Some(Duration::from_millis(u64::try_from(self.now_ms.saturating_sub(since)).unwrap_or(0)))
    }

    /// Notifies the pump that the handler begins.
    fn announce(&self, context: &JobContext, on_isolation: OnIsolation) -> Result<(), Ending> {
        if self.answer.begins(context.clone(), on_isolation == OnIsolation::Cancel) { Ok(()) } else { Err(Ending::Return) }
    }
}

/// The one answer that every delivery gets (R8). A run may end without an answer, with its runtime
/// or because of a bug. The answer is then sent when this is dropped, so no slot is lost.
struct Answer {
    events: mpsc::UnboundedSender<Event>,
    slot: SlotId,
    shared: Arc<Shared>,
    given: bool,
    /// Whether a failure buries the job.
    is_last: AtomicBool,
}

impl Answer {
    fn new(events: mpsc::UnboundedSender<Event>, slot: SlotId, shared: &Arc<Shared>, delivery: &Delivery) -> Self {
        shared.status.running.fetch_add(1, Ordering::Relaxed);
        let is_last = delivery.attempts.saturating_add(1) >= shared.settings.max_attempts;
        Answer { events, slot, shared: shared.clone(), given: false, is_last: is_last.into() }
    }

    /// False if the pump has ended.
    fn begins(&self, context: JobContext, isolation: bool) -> bool {
        self.events.send(Event::Begun { slot: self.slot, context, isolation }).is_ok()
    }

    fn report_ending(mut self, ending: Ending, ran: Option<Ran>) {
        self.send(ending, ran);
    }

    fn send(&mut self, ending: Ending, ran: Option<Ran>) {
        self.given = true;
        self.shared.status.running.fetch_sub(1, Ordering::Relaxed);
        self.shared.status.finished.fetch_add(1, Ordering::Relaxed);
        // The pump has ended only if the worker was dropped. The job then runs again when the lease
        // expires.
        let _ = self.events.send(Event::Ended { slot: self.slot, ending, ran });
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.given {
        } else if std::thread::panicking() {
            let error = "the run panicked outside the handler".to_owned();
            let ending = if *self.is_last.get_mut() {
                Ending::Bury { reason: BuryReason::Failed, error: Some(error) }
            } else {
                Ending::Nack { delay: Duration::from_secs(60), error }
            };
            self.send(ending, None);
        } else {
            self.send(Ending::Return, None);
        }
    }
}
