//! The inputs of a run: its effective settings, and its context.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use queue_core::{
    __private::{Completion, ContextInit, Envelope},
    JobContext, TaskDef,
    broker::Delivery,
};

use super::Run;
use crate::{application::Known, config::Settings, time::now};

/// The settings of one run. Those of the job override those of its task, and these override those
/// of the worker.
pub(super) struct Options {
    pub(super) max_attempts: u32,
    pub(super) timeout: Option<Duration>,
    /// How long job and result are kept. `None`: they are not kept.
    pub(super) keep: Option<Duration>,
}

impl Options {
    pub(super) fn of(settings: &Settings, task: &TaskDef, envelope: &Envelope<'_>) -> Self {
        Options {
            max_attempts: envelope.max_attempts.or(task.max_attempts).unwrap_or(settings.max_attempts),
            timeout: envelope.timeout().or(task.timeout).or(settings.timeout),
            keep: envelope.retention().or(task.retention).or(settings.retention).filter(|keep| !keep.is_zero()),
        }
    }
}

impl Run {
    /// The context of the handler. Its timeout starts now.
    pub(super) fn inject(
        &self,
        known: &Known,
        delivery: &Delivery,
        headers: BTreeMap<String, String>,
        tick_ms: Option<i64>,
        options: &Options,
        completion: Option<Arc<Completion>>,
    ) -> JobContext {
        let mut init =
            ContextInit::new(self.queue.clone(), known.name.clone(), delivery.id.clone(), self.shared.application.environment.clone());
        init.claim = delivery.claim;
        init.attempts = delivery.attempts;
        init.crashes = delivery.crashes;
        init.snoozes = delivery.snoozes;
        init.rate_limited = delivery.rate_limited;
        init.max_attempts = options.max_attempts;
        init.headers = headers;
        init.scheduled_ms = tick_ms;
        init.completion = completion;
        init.lease = self.lease.clone();
        init.lane = Some(self.lane.clone());
        init.deadline = options.timeout.and_then(|timeout| now().checked_add(timeout));
        JobContext::new(init)
    }
}
