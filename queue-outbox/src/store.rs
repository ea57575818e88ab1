//! The operations of a relay in the database of the application, for each dialect.
//!
//! | transaction | what it does |
//! |---|---|
//! | [`Store::take`] | ends the request before, if it is still the one in flight; wins or keeps the lease; returns the request in flight unchanged, or stores a new one |
//! | [`Store::rename`] | gives the queue a new name in place of a request in flight, by compare-and-set on name, number and digest |
//! | [`Store::release`] | releases the leases |
//!
//! The lease avoids duplicate work, but does not fence. Every change of a request compares its
//! name, number and digest, so a late relay changes nothing.

use std::time::Duration;

use async_trait::async_trait;
use queue_core::__private::{EffectsKey, Envelope, row::digest_of};

use crate::{
    completion::EffectsRow,
    desk::{OutboxChange, OutboxQueue, OutboxRow, OutboxRowId},
    error::{Error, Result},
};

/// The length of the lease of a queue, counted from each new request.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// The maximum time for which a statement may wait for a lock, or run.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The maximum number of rows and bytes in a request.
pub(crate) const ROWS: usize = 500;
pub(crate) const BYTES: usize = 1 << 20;

/// A row of the outbox.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) seq: i64,
    pub(crate) id: Vec<u8>,
    pub(crate) body: Vec<u8>,
    /// The time at which the row was stored, in milliseconds since 1970, and its age, by the clock
    /// of the database.
    pub(crate) created_ms: i64,
    pub(crate) age: Duration,
}

impl Row {
    pub(crate) fn name(&self) -> OutboxRowId {
        OutboxRowId { seq: self.seq, job: self.id.clone() }
    }
}

/// The digest of the rows of a request, as stored.
pub(crate) fn digest(rows: &[Row]) -> [u8; 16] {
    digest_of(rows.iter().flat_map(|row| [row.id.as_slice(), row.body.as_slice()]))
}

/// A name that the broker has assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// The location of the broker.
    pub(crate) broker: String,
    pub(crate) producer: String,
}

/// A request that is stored in the database.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) name: Name,
    pub(crate) number: i64,
    pub(crate) digest: [u8; 16],
    pub(crate) rows: Vec<Row>,
    /// Whether the rows of the request were changed after it was stored. It must not be sent under
    /// this name.
    pub(crate) is_changed: bool,
    /// Rows up to this number may have been sent before.
    pub(crate) suspect: i64,
}

/// The outcome of a row after its request was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The broker has stored it.
    Sent,
    /// The broker refuses it permanently.
    Refused(String),
    /// The broker refuses it for now.
    Later,
    /// It waits behind a row that is refused for now.
    Held,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) request: Request,
    /// One for each row.
    pub(crate) fates: Vec<Fate>,
}

/// The result of a take.
#[derive(Clone, Debug)]
pub(crate) enum Taken {
    /// A request to send.
    Request(Request),
    /// No row can be sent.
    Nothing,
    /// Another relay has the lease.
    Leased,
    /// There are rows, but the queue has no name at this broker: take again with a name. The lease
    /// is not held, because a relay that cannot get a name must not keep it.
    Nameless,
    /// This relay cannot send, for this reason. It has not acquired the lease, so that another
    /// relay can send.
    NotHere(String),
}

impl Taken {
    pub(crate) fn in_flight_at(broker: &str, rows: usize) -> Self {
        Taken::NotHere(format!("{rows} rows are in flight at {broker}: run a relay with that URL until they are sent"))
    }
}

/// The parameters of a take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Take<'a> {
    pub(crate) queue: &'a str,
    /// The location of the broker.
    pub(crate) broker: &'a str,
    /// A new name, if the queue has none.
    pub(crate) name: Option<&'a str>,
    /// The answer to the previous request.
    pub(crate) done: Option<&'a Done>,
}

/// Separates the readable rows from the unreadable ones, and returns the problems of these.
/// Unreadable rows are set aside before a request is stored, because two relays must not read one
/// request differently. A request ends before the first row of a newer library.
pub(crate) fn readable(queue: &str, rows: Vec<Row>) -> (Vec<Row>, Vec<(Row, String)>, Option<queue_core::Error>) {
    let (mut good, mut bad) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        match queue_core::__private::row::decode(queue, &row.id, &row.body, row.created_ms, row.age) {
            Ok(_) => good.push(row),
            Err(newer @ queue_core::Error::SchemaTooNew { .. }) => return (good, bad, Some(newer)),
            Err(error) => bad.push((row, error.to_string())),
        }
    }
    (good, bad, None)
}

/// The number of these rows that fit into one request: at least one, if there are rows.
pub(crate) fn fitting(rows: &[Row]) -> usize {
    let mut bytes = 0;
    let fit = rows.iter().take(ROWS).take_while(|row| {
        bytes += row.body.len() + row.id.len();
        bytes <= BYTES
    });
    fit.count().max(1).min(rows.len())
}

/// The database of an outbox, with the operations of a relay.
#[async_trait]
pub(crate) trait Store: Send {
    /// The identity of the database.
    async fn open(&mut self) -> Result<Vec<u8>>;

    /// The queues that have a row to send, or a request in flight. This does not write.
    async fn queues(&mut self) -> Result<Vec<String>>;

    async fn take(&mut self, take: &Take<'_>) -> Result<Taken>;

    /// Ends a request without an answer, if it is still the one in flight. Its rows stay. The queue
    /// gets a new name, under which the next take begins with number 1. With `all`, all present
    /// rows may have been sent before, and not only those of the request.
    async fn rename(&mut self, queue: &str, request: &Request, name: &Name, all: bool) -> Result<()>;

    /// Ends these requests, and releases the leases.
    async fn release(&mut self, done: &[(&str, &Done)]) -> Result<()>;

    /// Marks these sorted queues as full, and the others as not full. It writes only if this
    /// changes a mark.
    async fn set_full(&mut self, queues: &[String]) -> Result<()>;

    /// The queues, as they are displayed. At most `most` rows of a queue are counted.
    async fn figures(&mut self, most: i64) -> Result<Vec<OutboxQueue>>;

    /// The first rows of a queue, or only those that are refused.
    async fn rows(&mut self, queue: &str, refused: bool, limit: u32) -> Result<Vec<OutboxRow>>;

    /// Changes rows, and returns the changed rows.
    async fn change(&mut self, queue: &str, change: &OutboxChange) -> Result<Vec<OutboxRowId>>;

    /// The identity of the database, and the endings of these jobs. An error means that it is not
    /// known whether they have committed.
    async fn endings(&mut self, keys: &[&[u8]]) -> Result<(Vec<u8>, Vec<Option<Vec<u8>>>)>;

    /// The ending of a job, after all commits of it have ended.
    async fn settled(&mut self, key: &EffectsKey) -> Result<Option<Vec<u8>>>;

    /// Acquires or extends the lease of the cleanup of endings: the row of `queue_relay` without a
    /// queue. Returns false if another relay has it.
    async fn may_clean(&mut self) -> Result<bool>;

    /// The rows of jobs with greater keys, by key, if the jobs were enqueued before the time limit
    /// of the cleanup.
    async fn effects(&mut self, after: &[u8], limit: usize) -> Result<Vec<EffectsRow>>;

    /// Removes these rows, if they were not changed.
    async fn remove_effects(&mut self, rows: &[EffectsRow]) -> Result<()>;

    /// Called after an error: the next call opens a new connection.
    fn disconnect(&mut self);
}

/// The name of a relay in leases: host and process for operators, and a random number.
pub(crate) fn holder() -> Vec<u8> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("COMPUTERNAME").ok());
    let host: String = host.as_deref().unwrap_or("unknown").trim().chars().take(64).collect();
    format!("{host} pid {} {:08x}", std::process::id(), fastrand::u32(..)).into_bytes()
}

/// A holder in readable form.
pub(crate) fn shown_holder(holder: &[u8]) -> String {
    let text = String::from_utf8_lossy(holder);
    // The random number is only for the database.
    let text = text.rsplit_once(' ').map_or(&*text, |(shown, _)| shown);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(100).collect()
}

/// A row as it is displayed.
pub(crate) fn shown(queue: &str, row: &Row, put_off: bool, refused: Option<String>) -> OutboxRow {
    let decoded = queue_core::__private::row::decode(queue, &row.id, &row.body, row.created_ms, row.age).ok();
    let task = decoded.and_then(|job| Some(Envelope::decode(&job.envelope).ok()?.task.to_string()));
    OutboxRow { id: row.name(), task, age: row.age, put_off, refused }
}

/// Returns an error for a row that the broker may already have. Without the row, its request would
/// be different.
pub(crate) fn none_in_flight(in_flight: &[i64], rows: &[OutboxRowId]) -> Result<()> {
    let Some(row) = rows.iter().find(|row| in_flight.contains(&row.seq)) else { return Ok(()) };
    let problem =
        "is in flight to the broker; wait until it is sent, or take the request back with `outbox release` first (nothing was dropped)";
    Err(Error::Invalid { field: "row", value: row.to_string(), problem: problem.to_owned() })
}
