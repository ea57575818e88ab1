//! Completion: the ending of a job is a row of `queue_effects`, which commits together with the
//! effects of the job.
//!
//! A run inserts the row as the last statement of its transaction. Of two runs of one job, one
//! inserts it: the other hits the primary key, and its transaction fails. A worker looks the row up
//! before it runs a job and before it reports a failure, and replays the ending that it finds.
//! Before it buries or cancels a job, it takes the lock of the row, which waits for a commit that
//! is still under way.
//!
//! A relay removes a row that is seven days old, once the broker has no job of this incarnation
//! that may still run.

use std::{
    convert::Infallible,
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, UNIX_EPOCH},
};

use async_trait::async_trait;
use futures_util::{StreamExt, stream::iter};
use queue_core::{
    __private::{Completion, EffectsKey, Endings, FoundEnding, StoredEnding, effects_before, effects_key},
    Client, Done, JobAddress, JobContext, JobState,
};
use tokio::sync::oneshot;

use crate::{
    Outbox, Relay,
    error::{Error, Result},
    store::{LEASE, Store},
};

/// The minimum time for which a row is kept. A run that takes longer has lost its lease.
pub(crate) const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// The interval at which a relay searches for endings to remove, with jitter.
const CLEAN: Duration = Duration::from_secs(60);

/// The number of rows that the cleanup checks together, and the maximum number of its concurrent
/// requests to the broker.
pub(crate) const PAGE: usize = 500;
const AT_ONCE: usize = 25;

/// A row of `queue_effects`.
#[derive(Clone, Debug)]
pub(crate) struct EffectsRow {
    pub(crate) key: Vec<u8>,
    pub(crate) ending: Vec<u8>,
    /// Whether it is older than [`KEPT`].
    pub(crate) is_old: bool,
}

/// A commit that is about to be executed.
#[derive(Debug)]
pub struct Committing<'a> {
    pub(crate) completion: &'a Completion,
    pub(crate) ending: StoredEnding,
    pub(crate) encoded: Vec<u8>,
    job: String,
}

impl<'a> Committing<'a> {
    /// Checks that a run may commit.
    ///
    /// # Errors
    /// [`Error::OtherTask`], [`Error::CommittedTwice`], [`Error::NotOfWorker`],
    /// [`Error::LeaseLost`].
    pub fn new(context: &'a JobContext, outbox: &Outbox, ending: impl FnOnce(&Completion) -> StoredEnding) -> Result<Committing<'a>> {
        let job = format!("{}/{}", context.queue(), context.id());
        let completion = context.completion().ok_or_else(|| Error::OtherTask { task: context.task().to_owned() })?;
        if completion.committed().is_some() {
            return Err(Error::CommittedTwice { job });
        }
        if !completion.is_looked_up_in(outbox.database()) {
            return Err(Error::NotOfWorker { job });
        }
        if context.has_lost_its_lease() {
            return Err(Error::LeaseLost { job });
        }
        let ending = ending(completion);
        let encoded = ending.encode()?;
        Ok(Committing { completion, ending, encoded, job })
    }

    /// Another run has inserted the row.
    pub fn lost_race(&self) -> Error {
        Error::CommittedElsewhere { job: self.job.clone() }
    }

    /// The transaction that was begun has ended.
    pub fn ended(&self) -> Error {
        Error::Ended { job: self.job.clone() }
    }

    /// The database has acknowledged the commit.
    pub fn acknowledged<T>(self) -> Done<T> {
        let done = Done::committed(&self.ending);
        self.completion.has_committed(self.ending);
        done
    }
}

/// A database.
struct Source {
    store: tokio::sync::Mutex<Box<dyn Store>>,
    waiting: Mutex<Vec<Asked>>,
}

type Found = Result<(Vec<u8>, Option<Vec<u8>>), String>;
type Asked = (EffectsKey, oneshot::Sender<Found>);

/// The databases of a worker's relays.
#[derive(Debug)]
struct Databases(Vec<Source>);

impl Relay {
    /// Looks up endings in the databases of these relays, for workers. `None` if there are no
    /// relays.
    #[doc(hidden)]
    pub fn endings(relays: &[Relay]) -> Option<Box<dyn Endings>> {
        let source = |relay: &Relay| Source { store: tokio::sync::Mutex::new(relay.store()), waiting: Mutex::default() };
        (!relays.is_empty()).then(|| Box::new(Databases(relays.iter().map(source).collect())) as Box<dyn Endings>)
    }
}

#[async_trait]
impl Endings for Databases {
    async fn find(&self, key: &EffectsKey) -> Result<FoundEnding, String> {
        let mut found = FoundEnding::default();
        for source in &self.0 {
            let (database, ending) = source.find(key).await?;
            found.databases.push(database);
            found.ending = found.ending.or(ending);
        }
        Ok(found)
    }

    async fn settled(&self, key: &EffectsKey) -> Result<Option<Vec<u8>>, String> {
        for source in &self.0 {
            let mut store = source.store.lock().await;
            let found = match store.settled(key).await {
                Err(_) => {
                    // The connection may have been closed.
                    store.disconnect();
                    store.settled(key).await
                }
                found => found,
            };
            if let Some(ending) = found.map_err(|error| error.to_string())? {
                return Ok(Some(ending));
            }
        }
        Ok(None)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

impl Source {
    /// Requests that wait for the previous SELECT share the next one.
    async fn find(&self, key: &EffectsKey) -> Found {
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push((*key, answer));
        let mut store = self.store.lock().await;
        let mut asked = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        for asked in asked.chunks_mut(PAGE) {
            let keys: Vec<&[u8]> = asked.iter().map(|(key, _)| key.as_slice()).collect();
            let found = match store.endings(&keys).await {
                Err(_) => {
                    // The connection may have been closed.
                    store.disconnect();
                    store.endings(&keys).await
                }
                found => found,
            };
            drop(keys);
            let found: Vec<Found> = match found {
                Ok((database, endings)) => endings.into_iter().map(|ending| Ok((database.clone(), ending))).collect(),
                Err(error) => asked.iter().map(|_| Err(error.to_string())).collect(),
            };
            for ((_, answer), found) in asked.iter_mut().zip(found) {
                let (closed, _) = oneshot::channel();
                let _ = std::mem::replace(answer, closed).send(found);
            }
        }
        drop(store);
        answered.await.unwrap_or_else(|_| Err("the look-up was given up".to_owned()))
    }
}

/// The cleanup of `queue_effects` by a relay. It reads one page after the other, from the start of
/// the primary key up to the jobs that were enqueued seven days ago. One relay of a database does
/// this. Each page with old rows extends its lease. The rest of the lease keeps the other relays
/// from repeating the cleanup.
pub(crate) struct Cleanup {
    store: Box<dyn Store>,
    after: Vec<u8>,
    leased: Option<Instant>,
}

impl Cleanup {
    pub(crate) fn new(store: Box<dyn Store>) -> Self {
        Cleanup { store, after: Vec::new(), leased: None }
    }

    /// Removes endings about once a minute. It runs concurrently with the relay, on a separate
    /// connection.
    pub(crate) async fn run(&mut self, database: &str, client: &Client) -> Infallible {
        loop {
            let more = self.page(client).await.unwrap_or_else(|error| {
                tracing::warn!(database, %error, "the endings of jobs that are gone cannot be removed from `queue_effects`");
                false
            });
            if !more {
                self.store.disconnect();
                tokio::time::sleep(CLEAN.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
            }
        }
    }

    /// Removes rows of the next page. Returns false if it was the last page, or if another relay
    /// has the lease.
    async fn page(&mut self, client: &Client) -> Result<bool> {
        let after = std::mem::take(&mut self.after);
        if after.is_empty() {
            // An older library does not write to newer tables.
            self.store.open().await?;
        }
        let rows = self.store.effects(&after, PAGE).await?;
        let last = rows.last().filter(|_| rows.len() >= PAGE).map(|row| row.key.clone());
        let old: Vec<EffectsRow> = rows.into_iter().filter(|row| row.is_old).collect();
        if !old.is_empty() {
            if !self.store.may_clean().await? {
                return Ok(false);
            }
            self.leased = Some(Instant::now());
            let asked = iter(old.into_iter().map(async |row| is_gone(client, &row).await.then_some(row))).buffered(AT_ONCE);
            let gone: Vec<EffectsRow> = asked.filter_map(async |row| row).collect().await;
            if !gone.is_empty() {
                self.store.remove_effects(&gone).await?;
            }
        }
        self.after = last.unwrap_or_default();
        Ok(!self.after.is_empty())
    }

    /// Releases the lease.
    pub(crate) async fn release(mut self) {
        if self.leased.is_some_and(|leased| leased.elapsed() < LEASE)
            && let Err(error) = self.store.release(&[]).await
        {
            tracing::debug!(%error, "cannot release the lease of the cleanup; it expires");
        }
    }
}

/// Whether the broker has no job of this incarnation that may run again. Returns false for a row
/// that cannot be read, so the row stays.
async fn is_gone(client: &Client, row: &EffectsRow) -> bool {
    let Ok(stored) = StoredEnding::decode(&row.ending) else { return false };
    let Ok(id) = stored.id() else { return false };
    let address = JobAddress { queue: stored.queue().into(), id };
    match client.inspector().show(&address).await {
        Ok(job) => {
            let enqueued = job.enqueued_at.and_then(|at| i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok());
            // A done job that is kept does not run again.
            job.state == JobState::Done || effects_key(stored.queue(), &address.id, enqueued).as_slice() != row.key
        }
        Err(error) => matches!(error, queue_core::Error::NoSuchQueue { .. } | queue_core::Error::NoSuchJob(_)),
    }
}

/// The end of the keys that the cleanup reads: the jobs that were enqueued more than [`KEPT`] ago.
pub(crate) fn cleanup_before(now_ms: i64) -> EffectsKey {
    effects_before(now_ms.saturating_sub(i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX)))
}
