//! The completion of a job whose effects commit together with its ending: the row of
//! `queue_effects` that a crate such as `queue-outbox` inserts in the transaction of the
//! application, and [`Done`], which only such a commit makes.
//!
//! The key of the row names one *incarnation* of a job: its queue, its id, and when it was
//! enqueued. A job that reuses the id of one that has ended has another key; a retry and a requeue
//! have the same. The row has the ending. If the job has a row when it is delivered, its ending is
//! replayed and its effects are not repeated.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::JobContext;
use crate::{
    address::JobId,
    client::row::digest_of,
    codec,
    error::{Error, Result},
    outcome::{CancelCause, Encoded, NIL, Outcome, TaskResult},
};

/// The return type of a task whose effects commit together with its ending: `Result<Done<T>, E>`,
/// where `T` is the result. Only a commit creates it (`ctx.commit(tx, result)` of `queue-outbox`),
/// so a task that forgets the commit does not compile:
///
/// ```compile_fail,E0308
/// use queue_core::{Done, prelude::*};
///
/// #[task]
/// async fn pay(order: i64) -> Result<Done<i64>, std::io::Error> {
///     Ok(order)
/// }
/// ```
#[must_use = "return it from the task"]
pub struct Done<T> {
    outcome: Outcome,
    result: PhantomData<fn() -> T>,
}

impl<T> Done<T> {
    /// For crates that have just committed this ending.
    #[doc(hidden)]
    pub fn committed(ending: &StoredEnding) -> Self {
        let outcome = match (ending.repeat_after(), &ending.result) {
            (Some(delay), _) => Outcome::Repeat(delay),
            (None, Some(result)) => Outcome::DoneWith(Encoded::stored(result)),
            (None, None) => Outcome::Done,
        };
        Done { outcome, result: PhantomData }
    }
}

impl<T> fmt::Debug for Done<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Done").field(&self.outcome).finish()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Serialize> TaskResult for Done<T> {
    type Output = T;
    fn end_ok(self, wanted: bool) -> Outcome {
        match self.outcome {
            Outcome::DoneWith(_) if !wanted => Outcome::Done,
            outcome => outcome,
        }
    }
}

/// The key of an incarnation: the time of its enqueue, so that the oldest come first, and a digest
/// of its queue and id.
#[doc(hidden)]
pub type EffectsKey = [u8; 24];

const TIME: usize = 8;

/// The key of a job.
#[doc(hidden)]
pub fn effects_key(queue: &str, id: &JobId, enqueued_ms: Option<i64>) -> EffectsKey {
    let mut key = [0; 24];
    key[..TIME].copy_from_slice(&enqueued_ms.unwrap_or(0).max(0).to_be_bytes());
    key[TIME..].copy_from_slice(&digest_of([queue.as_bytes(), id.as_bytes()]));
    key
}

/// Below it are the keys of jobs that were enqueued before this time.
#[doc(hidden)]
pub fn effects_before(ms: i64) -> EffectsKey {
    let mut key = [0; 24];
    key[..TIME].copy_from_slice(&ms.max(0).to_be_bytes());
    key
}

/// The version of the stored form.
const VERSION: u8 = 1;

/// How a job has ended, as its row has it.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEnding {
    #[serde(rename = "q")]
    queue: String,
    #[serde(rename = "i")]
    id: Vec<u8>,
    /// The claim of the run that has committed: no two endings of a job are equal.
    #[serde(rename = "c")]
    claim: u64,
    /// Whether the round of [`Repeat`](Outcome::Repeat) was an odd one.
    #[serde(rename = "o", default, skip_serializing_if = "std::ops::Not::not")]
    odd: bool,
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    repeat_ms: Option<u64>,
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    result: Option<Vec<u8>>,
}

impl StoredEnding {
    /// As it is stored.
    ///
    /// # Errors
    /// [`Error::Internal`] for a value that cannot be encoded. Every ending can be encoded.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let packed = codec::pack(self).map_err(Error::Internal)?;
        Ok([&[VERSION], packed.as_slice()].concat())
    }

    /// Decodes the stored form.
    ///
    /// # Errors
    /// [`Error::SchemaTooNew`], [`Error::Decode`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = |problem: String| Error::Decode { what: "an ending in `queue_effects`".to_owned(), problem };
        match bytes {
            [VERSION, packed @ ..] => codec::unpack(packed).map_err(damaged),
            [newer, ..] if *newer > VERSION => {
                Err(Error::SchemaTooNew { queue: "queue_effects".to_owned(), found: (*newer).into(), known: VERSION.into() })
            }
            _ => Err(damaged(format!("it has {} bytes and no version", bytes.len()))),
        }
    }

    /// The queue of the job.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// The id of the job.
    ///
    /// # Errors
    /// For bytes that are not a valid id.
    pub fn id(&self) -> Result<JobId> {
        JobId::from_bytes(&self.id)
    }

    /// The encoded result, if it has one.
    pub fn result(&self) -> Option<&[u8]> {
        self.result.as_deref()
    }

    /// The delay of the next round, if the job repeats.
    pub fn repeat_after(&self) -> Option<Duration> {
        self.repeat_ms.map(Duration::from_millis)
    }

    /// Whether it is the ending of this round. A job that repeats has one row: that of its last
    /// round.
    pub fn is_of(&self, odd: bool) -> bool {
        self.repeat_ms.is_none() || self.odd == odd
    }
}

/// The stored ending that was found for a job.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct FoundEnding {
    /// Its row, as it is stored.
    pub ending: Option<Vec<u8>>,
    /// The databases that were asked.
    pub databases: Vec<Vec<u8>>,
}

/// The databases in which a worker looks up endings. An error describes the problem of one of them:
/// it is then unknown whether the job has committed.
#[doc(hidden)]
#[async_trait]
pub trait Endings: fmt::Debug + Send + Sync {
    /// Looks up the ending of a job.
    async fn find(&self, key: &EffectsKey) -> Result<FoundEnding, String>;

    /// The same, once no commit of the job is under way.
    async fn settled(&self, key: &EffectsKey) -> Result<Option<Vec<u8>>, String>;
}

/// The data that a run needs for its commit. The worker provides it to tasks that return [`Done`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Completion {
    key: EffectsKey,
    odd: bool,
    /// The row of the round before.
    before: Option<Vec<u8>>,
    /// The databases in which the worker looks up endings. `None`: it does not.
    databases: Option<Vec<Vec<u8>>>,
    committed: Mutex<Option<StoredEnding>>,
}

impl Completion {
    /// Of a job in this round, for which the worker has found this row of the round before in these
    /// databases.
    pub fn new(key: EffectsKey, odd: bool, before: Option<Vec<u8>>, databases: Option<Vec<Vec<u8>>>) -> Self {
        Completion { key, odd, before, databases, committed: Mutex::new(None) }
    }

    /// The key of the row.
    pub fn key(&self) -> &EffectsKey {
        &self.key
    }

    /// The row to replace.
    pub fn before(&self) -> Option<&[u8]> {
        self.before.as_deref()
    }

    /// Whether the worker finds an ending in this database.
    pub fn is_looked_up_in(&self, database: &[u8]) -> bool {
        self.databases.as_ref().is_none_or(|databases| databases.iter().any(|known| known == database))
    }

    /// The ending that this run has committed.
    pub fn committed(&self) -> Option<StoredEnding> {
        self.now().clone()
    }

    /// The database has acknowledged the commit.
    pub fn has_committed(&self, ending: StoredEnding) {
        *self.now() = Some(ending);
    }

    fn now(&self) -> MutexGuard<'_, Option<StoredEnding>> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ending of a run with this result.
    pub fn done<T: Serialize + DeserializeOwned>(&self, context: &JobContext, result: &T) -> StoredEnding {
        let (result, problem) = Encoded::of(result).into_stored();
        if let Some(problem) = problem {
            let job = format!("{}/{}", context.queue(), context.id());
            tracing::error!(job, task = context.task(), error = problem, "the job is done, but its result was dropped");
        }
        let has_content = size_of::<T>() > 0 || result != NIL;
        StoredEnding { result: has_content.then_some(result), ..self.ending(context) }
    }

    /// The ending of a round, after which the next one starts in this time.
    pub fn repeat(&self, context: &JobContext, delay: Duration) -> StoredEnding {
        let ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        StoredEnding { repeat_ms: Some(ms), ..self.ending(context) }
    }

    fn ending(&self, context: &JobContext) -> StoredEnding {
        StoredEnding {
            queue: context.queue().to_owned(),
            id: context.id().as_bytes().to_vec(),
            claim: context.claim(),
            odd: self.odd,
            repeat_ms: None,
            result: None,
        }
    }
}

impl JobContext {
    /// Whether the lease of the run was lost, so that another run of the job may have begun.
    #[doc(hidden)]
    pub fn has_lost_its_lease(&self) -> bool {
        self.cancel_cause() == Some(CancelCause::LeaseLost) || self.lease_until() <= Instant::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestContext;

    #[test]
    fn an_ending_comes_back_as_it_was_stored() {
        let context = TestContext::new().claim(7).build();
        let completion = context.completion().unwrap();
        for ending in [
            completion.done(&context, &()),
            completion.done(&context, &"text".to_owned()),
            completion.done(&context, &None::<u8>),
            completion.repeat(&context, Duration::from_secs(60)),
        ] {
            let stored = ending.encode().unwrap();
            assert_eq!(StoredEnding::decode(&stored).unwrap(), ending);
            assert!(matches!(StoredEnding::decode(&[&[2], &stored[1..]].concat()), Err(Error::SchemaTooNew { .. })));
            assert!(matches!(StoredEnding::decode(&stored[..stored.len() - 1]), Err(Error::Decode { .. })));
        }
        assert_eq!(completion.done(&context, &()).result(), None, "`()` has no content");
        assert_eq!(completion.done(&context, &None::<u8>).result(), Some(NIL), "`None` has");
        assert!(matches!(StoredEnding::decode(b""), Err(Error::Decode { .. })));
    }

    #[test]
    fn a_key_names_one_incarnation_and_the_oldest_come_first() {
        let (one, other) = (JobId::make(), JobId::make());
        let key = effects_key("mail", &one, Some(5));
        assert_eq!(key, effects_key("mail", &one, Some(5)));
        for different in [effects_key("mail", &other, Some(5)), effects_key("male", &one, Some(5)), effects_key("mail", &one, Some(6))] {
            assert_ne!(key, different);
        }
        assert!(key < effects_key("mail", &one, Some(256)) && key < effects_before(6) && key > effects_before(5));
    }
}
