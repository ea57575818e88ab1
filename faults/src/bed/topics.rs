//! Changes of the topic of a run and of its subscriptions.

use queue_core::{
    broker::{Counter, RewindTarget},
    topics::Retention,
};

use super::{Bed, Problem};
use crate::{
    events::{Subscriber, TOPIC},
    history::{self, Operation, Phase},
};

impl Bed {
    /// Waits until a subscription has handled this number of events, or no event is left to be
    /// published.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn handled(&mut self, by: Subscriber, events: u64) -> Result<(), Problem> {
        let queue = by.queue();
        self.until("events to be handled", async |bed| {
            let stats = bed.client.inspector().stats(&queue).await;
            stats.is_ok_and(|stats| stats.total(Counter::Done) >= events) || bed.has_published()
        })
        .await
    }

    /// The number of events that a subscription has not read or that have not ended; `None` while
    /// that is unknown.
    pub async fn behind(&self, of: Subscriber) -> Option<u64> {
        let topic = self.client.inspector().topic(TOPIC).await.ok()??;
        let found = topic.subscriptions.into_iter().find(|subscription| subscription.name == of.name())?;
        Some(found.behind? + found.open)
    }

    /// Sets the retention of the topic.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn keep(&mut self, retention: Retention) -> Result<(), Problem> {
        Ok(self.client.inspector().set_retention(TOPIC, retention).await?)
    }

    /// Trims the topic. While the broker is unreachable, nothing happens.
    pub async fn trim(&mut self) {
        if let Ok(trimmed) = self.client.inspector().trim_topic(TOPIC).await {
            self.harm("trim", "broker");
            self.recorder.note(Phase::Ok, Operation::Trim { entries: trimmed.entries, lost: trimmed.lost });
        }
    }

    /// Rewinds a subscription. With `dies`, its runner ends after the first steps, and another
    /// rewind starts.
    ///
    /// # Errors
    /// If it does not end in time.
    pub async fn rewind(&mut self, of: Subscriber, to: history::Mark, dies: bool) -> Result<(), Problem> {
        self.harm("rewind", "broker");
        let operation = || Operation::Rewind { subscription: of.queue(), to };
        let mark = match to {
            history::Mark::Start => RewindTarget::At(queue_core::topics::Begin::Start),
            history::Mark::Now => RewindTarget::At(queue_core::topics::Begin::Now),
            history::Mark::AtMs(at) => RewindTarget::At(queue_core::topics::Begin::AtMs(at)),
        };
        self.recorder.note(Phase::Invoke, operation());
        let inspector = self.client.inspector();
        if dies {
            let mut abandoned = inspector.rewind(TOPIC, of.name(), mark.clone());
            for _ in 0..self.rng.u32(1..4) {
                abandoned.step().await?;
            }
            let away = self.ms(0, 300);
            self.pass(away).await?;
        }
        let mut rewinding = inspector.rewind(TOPIC, of.name(), mark);
        let ended = async |_: &mut Bed| loop {
            match rewinding.step().await {
                Ok(true) => {}
                Ok(false) => return true,
                Err(_) => return false,
            }
        };
        self.until("a rewind to end", ended).await?;
        self.recorder.note(Phase::Ok, operation());
        Ok(())
    }
}
