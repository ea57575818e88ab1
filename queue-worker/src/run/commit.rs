//! Tasks whose effects commit together with the ending of their job. A job that has committed is
//! not run again, whatever has happened to its run since: its stored ending is replayed.

use std::{sync::Arc, time::Duration};

use queue_core::{
    __private::{Completion, Envelope, StoredEnding, effects_key},
    Outcome,
    broker::{Delivery, Ending},
};

use super::{Run, inject::Options};
use crate::letters::address;

/// A job runs again after this time, and up to as much more, if it is not known whether it has
/// committed.
const UNKNOWN: Duration = Duration::from_secs(1);

impl Run {
    /// What the run has to know to commit. `Err`: the job has committed already, or this is not
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
            // By an error or a middleware.
            done if done.is_done() => Outcome::Failed("the task ended as done without `commit`".into()),
            other => other,
        };
        let ending = ending(outcome);
        let Some(endings) = &self.shared.application.endings else { return ending };
        let found = match &ending {
            Ending::Nack { .. } => endings.find(completion.key()).await.map(|found| found.ending),
            // Nobody looks at the job again: a commit that is under way is waited for.
            Ending::Bury { .. } | Ending::Cancel { .. } => endings.settled(completion.key()).await,
            // The next run looks.
            _ => return ending,
        };
        match found {
            Ok(Some(found)) => self.replay(&found, delivery.odd, delivery, options).err().unwrap_or(ending),
            Ok(None) => ending,
            Err(problem) => self.unknown(delivery, &problem),
        }
    }

    /// `Err`: the ending, if it is that of this round.
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

    /// It is not known whether the job has committed: it waits, and is not charged.
    fn unknown(&self, delivery: &Delivery, error: &str) -> Ending {
        let job = address(&self.queue, &delivery.id);
        let delay = UNKNOWN.mul_f64(1.0 + fastrand::f64());
        tracing::warn!(%job, ?delay, error, "cannot look up whether the job has committed; it runs again later, uncharged");
        Ending::Snooze { delay }
    }
}
