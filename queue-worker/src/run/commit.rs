//! Tasks whose effects commit together with the ending of their job. A job that has committed is
//! not run again, even if the worker was lost after the commit. Its stored ending is replayed.

use std::{sync::Arc, time::Duration};

use queue_core::{
    __private::{Completion, Envelope, StoredEnding, effects_key},
    Outcome,
    broker::{Delivery, Ending},
};

use super::{Run, inject::Options};
use crate::letters::address;

/// The minimum delay of the next run if it is not known whether the job has committed. The maximum
/// is twice as long.
const UNKNOWN: Duration = Duration::from_secs(1);

impl Run {
    /// The data that the run needs to commit. `Err`: the job has already committed, or this is not
    /// known.
    pub(super) async fn completion(
        &self,
        envelope: &Envelope<'_>,
        delivery: &Delivery,
        options: &Options,
    ) -> Result<Arc<Completion>, Ending> {
        let key = effects_key(&self.queue, &delivery.id, envelope.enqueued_ms);
        let (mut before, mut databases) = (None, None);
        if let Some(endings) = &self.shared.application.endings {
            let found = endings.find(&key).await.map_err(|problem| self.unknown(delivery, &problem))?;
            if let Some(ending) = &found.ending {
                self.replay(ending, delivery.odd, delivery, options)?;
            }
            (before, databases) = (found.ending, Some(found.databases));
        }
        Ok(Arc::new(Completion::new(key, delivery.odd, before, databases)))
    }

    /// The ending of a run: the committed one, if there is one.
    pub(super) async fn committed(
        &self,
        completion: &Completion,
        outcome: Outcome,
        delivery: &Delivery,
        options: &Options,
        ending: impl FnOnce(Outcome) -> Ending,
    ) -> Ending {
        if let Some(stored) = completion.committed() {
            return self.replayed(&stored, options);
        }
        let outcome = match outcome {
            // The task has ended as done by an error or a middleware.
            done if done.is_done() => Outcome::Failed("the task ended as done without `commit`".into()),
            other => other,
        };
        let ending = ending(outcome);
        let Some(endings) = &self.shared.application.endings else { return ending };
        let found = match &ending {
            Ending::Nack { .. } => endings.find(completion.key()).await.map(|found| found.ending),
            // No later run checks for the commit, so a commit in progress is waited for.
            Ending::Bury { .. } | Ending::Cancel { .. } => endings.settled(completion.key()).await,
            // The next run checks for the commit.
            _ => return ending,
        };
        match found {
            Ok(Some(found)) => self.replay(&found, delivery.odd, delivery, options).err().unwrap_or(ending),
            Ok(None) => ending,
            Err(problem) => self.unknown(delivery, &problem),
        }
    }

    /// `Err`: the stored ending, if it belongs to this round.
    fn replay(&self, ending: &[u8], odd: bool, delivery: &Delivery, options: &Options) -> Result<(), Ending> {
        let stored = StoredEnding::decode(ending).map_err(|error| self.unknown(delivery, &error.to_string()))?;
        if !stored.is_of(odd) {
            return Ok(());
        }
        let job = address(&self.queue, &delivery.id);
        tracing::info!(%job, "the job had committed before; its stored ending is used, and its effects are not repeated");
        Err(self.replayed(&stored, options))
    }

    fn replayed(&self, stored: &StoredEnding, options: &Options) -> Ending {
        match stored.repeat_after() {
            Some(delay) => Ending::Repeat { delay: delay.min(queue_core::__private::LONGEST) },
            None => {
                let is_wanted = options.keep.is_some() || self.watched.is_valid();
                Ending::Ack { result: stored.result().filter(|_| is_wanted).map(<[u8]>::to_vec), keep: options.keep }
            }
        }
    }

    /// It is not known whether the job has committed. The job waits and is not charged.
    fn unknown(&self, delivery: &Delivery, error: &str) -> Ending {
        let job = address(&self.queue, &delivery.id);
        let delay = UNKNOWN.mul_f64(1.0 + fastrand::f64());
        tracing::warn!(%job, ?delay, error, "cannot look up whether the job has committed; it runs again later, uncharged");
        Ending::Snooze { delay }
    }
}
