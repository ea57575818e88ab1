//! A queue of messages that must be acknowledged: [`push`](AckQueue::push),
//! [`claim`](AckQueue::claim) for a while, [`ack`](AckQueue::ack) by id.
//!
//! It uses only the [`Broker`](queue_core::broker::Broker) trait: no tasks, no macros, no worker.
//! It shows the lease protocol. Each claim registers a *lane*, whose lease is the visibility time
//! and is not renewed. A message that is not acknowledged in time goes to the next claim, and a
//! late acknowledgement of the first claim changes nothing.

use std::{collections::HashMap, sync::Arc, time::Duration};

use queue_core::{
    __private::Envelope,
    Error, JobId, Result,
    broker::{CrashRule, DynBroker, Ending, Enqueue, Finish, NewJob, PartyName, ProcessId, Register, Turn, TurnAnswer},
};

/// The number of unacknowledged claims after which a message becomes a dead letter, which an
/// operator can inspect.
pub const MAX_CLAIMS: u32 = 5;

/// How often a request without an answer is sent again.
const TRIES: usize = 3;

/// A claimed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The id for the acknowledgement.
    pub id: JobId,
    /// The text of the message.
    pub text: String,
    /// The number of earlier claims that were not acknowledged.
    pub lost: u32,
}

/// A client of a queue. Other clients, in this process or elsewhere, use the same queue by its
/// name.
#[derive(Debug)]
pub struct AckQueue {
    broker: DynBroker,
    name: Arc<str>,
    producer: Option<(PartyName, u64)>,
    /// A lane without a message. A turn renews the lease of its whole lane. A lane with a message
    /// is therefore not used for another claim: its message would stay invisible for longer than
    /// requested.
    idle: Option<Lane>,
    held: HashMap<JobId, (Lane, u64)>,
}

#[derive(Debug)]
struct Lane {
    name: PartyName,
    /// The number of the last answered turn.
    answered: u64,
}

impl AckQueue {
    /// The queue of this name.
    pub fn new(broker: DynBroker, name: &str) -> Self {
        AckQueue { broker, name: name.into(), producer: None, idle: None, held: HashMap::new() }
    }

    /// Stores a message.
    ///
    /// # Errors
    /// Those of the broker. After [`Error::Ambiguous`] it may be stored.
    pub async fn push(&mut self, text: &str) -> Result<JobId> {
        let id = JobId::make();
        let envelope = Envelope::new("message", text.as_bytes()).encode()?;
        let (producer, seq) = match self.producer.take() {
            Some((producer, seq)) => (producer, seq + 1),
            None => (self.broker.register(&Register::producer(self.name.clone(), ProcessId::random())).await?.name, 1),
        };
        let request = Enqueue::new(self.name.clone(), producer.clone(), seq, vec![NewJob::new(id.clone(), envelope)]);
        // The same request is sent again, and never a new one: the broker knows its number and
        // stores nothing twice. After an error the producer is not used again, because the effect
        // of its last request is unknown.
        again(async || self.broker.enqueue(&request).await).await?;
        self.producer = Some((producer, seq));
        Ok(id)
    }

    /// Claims the next message for this time. Without an `ack` within it, the message goes to
    /// another claim. `None` if there is no message.
    ///
    /// # Errors
    /// Those of the broker. If a message was claimed despite the error, it becomes visible again
    /// when its time is over.
    pub async fn claim(&mut self, visible_again: Duration) -> Result<Option<Message>> {
        self.take_back().await?;
        let (lane, answer) = match self.idle.take() {
            Some(lane) => match self.turn(lane, visible_again, Vec::new(), 1).await {
                // The lane was idle for longer than its lease, and was fenced.
                Err(Error::Forgotten(_)) => self.turn(self.register(visible_again).await?, visible_again, Vec::new(), 1).await?,
                other => other?,
            },
            None => self.turn(self.register(visible_again).await?, visible_again, Vec::new(), 1).await?,
        };
        let Some(delivery) = answer.deliveries.into_iter().next() else {
            self.idle = Some(lane);
            return Ok(None);
        };
        self.held.insert(delivery.id.clone(), (lane, delivery.claim));
        let text = String::from_utf8_lossy(Envelope::decode(&delivery.envelope)?.payload).into_owned();
        Ok(Some(Message { id: delivery.id, text, lost: delivery.crashes }))
    }

    /// Removes a message that was claimed here. Returns false if it is too late, or if the message
    /// was never claimed here. Then nothing has changed.
    ///
    /// # Errors
    /// Those of the broker. After [`Error::Ambiguous`] it may be removed.
    pub async fn ack(&mut self, id: &JobId) -> Result<bool> {
        let Some((lane, claim)) = self.held.remove(id) else { return Ok(false) };
        let done = Finish { id: id.clone(), claim, size: 0, ending: Ending::Ack { result: None, keep: None }, used: None };
        match self.turn(lane, Duration::from_secs(1), vec![done], 0).await {
            Ok((lane, answer)) => {
                self.idle = Some(lane);
                Ok(answer.stale.is_empty())
            }
            Err(Error::Forgotten(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes messages visible again that were not acknowledged in time.
    async fn take_back(&self) -> Result<()> {
        let rule = CrashRule { max_crashes: MAX_CLAIMS, delay: Duration::ZERO, ..CrashRule::default() };
        let suspects = self.broker.overdue(&self.name, 0, 100).await?;
        if !suspects.expired.is_empty() {
            self.broker.fence(&self.name, &suspects.expired).await?;
        }
        if !suspects.expired.is_empty() || suspects.fenced > 0 {
            self.broker.reclaim(&self.name, &rule).await?;
        }
        Ok(())
    }

    /// Each lane has a separate process id, so that the crashes of each claim are counted
    /// separately.
    async fn register(&self, lease: Duration) -> Result<Lane> {
        let name = self.broker.register(&Register::lane(self.name.clone(), ProcessId::random(), lease)).await?.name;
        Ok(Lane { name, answered: 0 })
    }

    /// Sends one turn of a lane. After an error the lane is dropped. Its message becomes visible
    /// again when the lease expires.
    async fn turn(&self, lane: Lane, lease: Duration, finishes: Vec<Finish>, claim: usize) -> Result<(Lane, TurnAnswer)> {
        let seq = lane.answered + 1;
        let turn = Turn::new(self.name.clone(), lane.name.clone(), seq, lease).finish(finishes).claim(claim);
        let answer = again(async || self.broker.turn(&turn).await).await?;
        Ok((Lane { answered: seq, ..lane }, answer))
    }
}

/// Sends a request until it is answered, but at most a few times.
async fn again<T>(request: impl AsyncFn() -> Result<T>) -> Result<T> {
    for _ in 1..TRIES {
        match request().await {
            Err(error) if error.is_ambiguous() => {}
            answer => return answer,
        }
    }
    request().await
}
