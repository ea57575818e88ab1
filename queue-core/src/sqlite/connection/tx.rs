//! One transaction of the writer, which all operations share.

use std::{cell::Cell, collections::BTreeMap, time::Duration};

use rusqlite::{CachedStatement, Connection, ErrorCode, OptionalExtension, params};

use super::schema::{self, Feature, Noted};
use crate::{address::JobId, clock::Clock, error::Error};

/// Why an operation was not carried out: refused by the operation itself or by the database.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Its writes are undone; the other operations of its group continue.
    Refused(Error),
    /// The whole group has to be rolled back.
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Failed::Sqlite(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::Refused(error)
    }
}

/// A hint for the listeners of a queue: there is work now, or at this time (broker milliseconds).
pub(crate) type HintsOut = BTreeMap<String, i64>;

pub(crate) struct Tx<'a> {
    connection: &'a Connection,
    /// The broker's clock, and its time at the beginning of the operation, also in whole
    /// milliseconds.
    source: &'a Clock,
    clock: Duration,
    pub(crate) now: i64,
    noted: Noted,
    counters: BTreeMap<(i64, &'static str), i64>,
    hints: HintsOut,
}

/// Bits of the column `paused` of a queue: the queue is paused; a pause in it ends automatically.
pub(crate) const PAUSED: i64 = 1;
pub(crate) const ENDS: i64 = 2;

/// A row of `queue_queues`.
#[derive(Clone, Debug)]
pub(crate) struct Queue<'n> {
    pub(crate) name: &'n str,
    pub(crate) key: i64,
    pub(crate) paused: bool,
    /// Whether a pause in it ends automatically.
    pub(crate) ends: bool,
    pub(crate) claim: i64,
    head: Cell<i64>,
    tail: Cell<i64>,
    /// The result of the last search for suspects of groups in this transaction: `true`, it stopped
    /// half-way; `false`, no other suspect may start.
    pub(crate) doubted: Cell<Option<bool>>,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(connection: &'a Connection, noted: Noted, source: &'a Clock) -> Self {
        let clock = source.since_1970();
        Tx { connection, source, clock, now: in_ms(clock), noted, counters: BTreeMap::new(), hints: HintsOut::new() }
    }

    /// The time until the clock reads this. It is at least as precise as a microsecond, so that
    /// `at` is due after this wait.
    pub(crate) fn until(&self, at: i64) -> Duration {
        between(self.clock, at)
    }

    /// Whether the clock belongs to a test.
    pub(crate) fn is_of_test(&self) -> bool {
        self.source.is_of_test()
    }

    /// The time at which a job may start after a delay. It is rounded up to a whole millisecond, so
    /// that no job starts early.
    pub(crate) fn due_after(&self, delay: Duration) -> i64 {
        let is_between = !self.clock.subsec_nanos().is_multiple_of(1_000_000);
        after(self.now, delay).saturating_add(i64::from(!delay.is_zero() && is_between))
    }

    /// Runs one operation, and returns why it was refused. The writes of a refused operation are
    /// not undone.
    pub(crate) fn attempt(&mut self, work: impl FnOnce(&mut Self) -> Result<(), Failed>) -> rusqlite::Result<Option<Error>> {
        // The operation may have been requested after this transaction began, and its delays start
        // at the request. The clock never runs backwards.
        self.clock = self.clock.max(self.source.since_1970());
        self.now = in_ms(self.clock);
        if self.is_of_test() {
            // The triggers cannot call the clock of a test.
            self.sql("UPDATE queue_followed SET now = ?1")?.execute([self.now])?;
        }
        match work(self) {
            Ok(()) => Ok(None),
            Err(Failed::Refused(error)) => Ok(Some(error)),
            Err(Failed::Sqlite(error)) if is_of_the_data(&error) => Ok(Some(Error::Internal(error.to_string()))),
            Err(Failed::Sqlite(error)) => Err(error),
        }
    }

    /// The same, but a refusal undoes the writes of the operation. SQLite copies each changed page
    /// for that.
    pub(crate) fn isolated(&mut self, work: impl FnOnce(&mut Self) -> Result<(), Failed>) -> rusqlite::Result<Option<Error>> {
        let (counters, hints, noted) = (self.counters.clone(), self.hints.clone(), self.noted);
        self.sql("SAVEPOINT operation")?.execute([])?;
        let refusal = self.attempt(work)?;
        if refusal.is_some() {
            (self.counters, self.hints, self.noted) = (counters, hints, noted);
            self.sql("ROLLBACK TO operation")?.execute([])?;
        }
        self.sql("RELEASE operation")?.execute([])?;
        Ok(refusal)
    }

    /// Writes the collected counters. Returns the hints to send after the commit.
    pub(crate) fn finish(self) -> rusqlite::Result<HintsOut> {
        for ((queue, name), value) in &self.counters {
            // The value stays within the bounds of the column: an error here would also undo the
            // operations of other callers.
            self.sql(
                "INSERT INTO queue_counters (queue, name, value) VALUES (?1, ?2, ?3)
                 ON CONFLICT (queue, name) DO UPDATE SET value = max(-9007199254740992, min(9007199254740992, value + excluded.value))",
            )?
            .execute(params![queue, name, value])?;
        }
        Ok(self.hints)
    }

    /// A statement, which is prepared once per connection.
    pub(crate) fn sql(&self, sql: &str) -> rusqlite::Result<CachedStatement<'a>> {
        self.connection.prepare_cached(sql)
    }

    /// Creates or drops triggers.
    pub(crate) fn with_triggers<T>(&self, change: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        change(self.connection)
    }

    /// Whether a feature was ever used in this file: if not, its tables are empty.
    pub(crate) fn uses(&self, feature: Feature) -> bool {
        self.noted.uses & feature as i64 != 0
    }

    /// Records that the feature is used.
    pub(crate) fn note(&mut self, feature: Feature) -> rusqlite::Result<()> {
        if !self.uses(feature) {
            schema::mark_feature_used(self.connection, feature)?;
            self.noted.uses |= feature as i64;
        }
        Ok(())
    }

    /// Whether a job in this file may have a key.
    pub(crate) fn may_have_keys(&self) -> bool {
        self.uses(Feature::Keys)
    }

    /// Whether a job in this file may have a group.
    pub(crate) fn may_have_groups(&self) -> bool {
        self.uses(Feature::Groups)
    }

    /// Whether a job in this file may have limits.
    pub(crate) fn may_have_limits(&self) -> bool {
        self.uses(Feature::Limits)
    }

    /// Whether queues in this file may have aging.
    pub(crate) fn may_have_aging(&self) -> bool {
        self.uses(Feature::Aging)
    }

    /// The broker's clock in microseconds.
    pub(crate) fn micros(&self) -> i64 {
        i64::try_from(self.clock.as_micros()).unwrap_or(i64::MAX)
    }

    /// Whether a caller waits for the end of a job in this file.
    pub(crate) fn may_have_watchers(&self) -> bool {
        self.noted.watched
    }

    /// Records that a caller waits for the end of a job.
    pub(crate) fn mark_watched(&mut self) {
        self.noted.watched = true;
    }

    /// Adds to a counter of the queue. Names that begin with a dot are internal.
    pub(crate) fn count(&mut self, queue: i64, name: &'static str, by: i64) {
        if by != 0 {
            *self.counters.entry((queue, name)).or_default() += by;
        }
    }

    /// Discards the counts of a queue that is removed.
    pub(crate) fn discard_counts(&mut self, queue: i64) {
        self.counters.retain(|(of, _), _| *of != queue);
    }

    /// The value of a counter, including the counts of this transaction.
    pub(crate) fn counter(&self, queue: i64, name: &'static str) -> rusqlite::Result<i64> {
        let stored = self.sql("SELECT value FROM queue_counters WHERE queue = ?1 AND name = ?2")?;
        let stored: Option<i64> = { stored }.query_row(params![queue, name], |row| row.get(0)).optional()?;
        Ok(stored.unwrap_or(0).saturating_add(self.counters.get(&(queue, name)).copied().unwrap_or(0)))
    }

    /// Stores the current time among the counters of the queue. It counts nothing, so it is also
    /// allowed outside of the doors.
    pub(crate) fn store_time(&mut self, queue: i64, name: &'static str) -> rusqlite::Result<()> {
        let mut note = self.sql("INSERT OR REPLACE INTO queue_counters (queue, name, value) VALUES (?1, ?2, ?3)")?;
        note.execute(params![queue, name, self.now]).map(drop)
    }

    /// Where a bounded search or cleanup of the queue stopped, as it was
    /// [noted](Self::store_position).
    pub(crate) fn place(&self, queue: i64, name: &str) -> rusqlite::Result<Option<Vec<u8>>> {
        let mut stored = self.sql("SELECT place FROM queue_places WHERE queue = ?1 AND name = ?2")?;
        stored.query_row(params![queue, name], |row| row.get(0)).optional()
    }

    /// Stores where a bounded search stopped: the next one continues there. `None`: it starts over.
    pub(crate) fn store_position(&self, queue: i64, name: &str, place: Option<&[u8]>) -> rusqlite::Result<()> {
        match place {
            Some(place) => {
                let mut note = self.sql("INSERT OR REPLACE INTO queue_places (queue, name, place) VALUES (?1, ?2, ?3)")?;
                note.execute(params![queue, name, place]).map(drop)
            }
            None => self.sql("DELETE FROM queue_places WHERE queue = ?1 AND name = ?2")?.execute(params![queue, name]).map(drop),
        }
    }

    /// Notifies the queue's listeners of work at this time.
    pub(crate) fn hint(&mut self, queue: &str, at: i64) {
        match self.hints.get_mut(queue) {
            Some(earliest) => *earliest = at.min(*earliest),
            None => drop(self.hints.insert(queue.to_owned(), at)),
        }
    }

    /// Notifies the processes that make the ticks of the queue's schedules that one is due at this
    /// time.
    pub(crate) fn tick_hint(&mut self, queue: &str, at: i64) {
        self.hint(&ticks_of(queue), at);
    }

    /// The queue's row; `None` if it has no registrations.
    pub(crate) fn queue<'n>(&self, name: &'n str) -> rusqlite::Result<Option<Queue<'n>>> {
        self.sql("SELECT queue, paused, claim, head, tail FROM queue_queues WHERE name = ?1")?
            .query_row([name], |row| {
                let (paused, claim, head, tail): (i64, i64, i64, i64) = (row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
                let (is_paused, ends) = (paused & PAUSED != 0, paused & ENDS != 0);
                Ok(Queue {
                    name,
                    key: row.get(0)?,
                    paused: is_paused,
                    ends,
                    claim,
                    head: Cell::new(head),
                    tail: Cell::new(tail),
                    doubted: Cell::new(None),
                })
            })
            .optional()
    }

    /// The queue's row, which is created if it is missing.
    pub(crate) fn queue_or_create<'n>(&self, name: &'n str) -> rusqlite::Result<Queue<'n>> {
        if let Some(queue) = self.queue(name)? {
            return Ok(queue);
        }
        self.sql("INSERT INTO queue_queues (name) VALUES (?1)")?.execute([name])?;
        let key = self.connection.last_insert_rowid();
        Ok(Queue { name, key, paused: false, ends: false, claim: 0, head: Cell::new(0), tail: Cell::new(0), doubted: Cell::new(None) })
    }

    /// Saves the changed fields of a queue's row.
    pub(crate) fn save(&self, queue: &Queue<'_>) -> rusqlite::Result<()> {
        self.sql("UPDATE queue_queues SET claim = ?2, head = ?3, tail = ?4 WHERE queue = ?1")?
            .execute(params![queue.key, queue.claim, queue.head.get(), queue.tail.get()])
            .map(drop)
    }
}

/// The subject under which the ticks of a queue are announced. It is not a valid name of a queue.
pub(crate) fn ticks_of(queue: &str) -> String {
    format!("#{queue}")
}

/// The subject under which the end of a job is announced.
pub(crate) fn ending_of(queue: &str, id: &JobId) -> String {
    format!("!{id} {queue}")
}

/// The subject that announces that a caller waits for a job of a queue.
pub(crate) fn watches_of(queue: &str) -> String {
    format!("&{queue}")
}

/// The subject under which the progress of a job is announced.
pub(crate) fn progress_hint_of(queue: &str, id: &JobId) -> String {
    format!("%{id} {queue}")
}

/// Whether an error is caused by damaged rows and not by the database as a whole.
fn is_of_the_data(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(code) => matches!(code, ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig),
        None => true,
    }
}

impl Queue<'_> {
    /// The next place at the tail of `ready`. It also numbers shut chains.
    pub(crate) fn next_tail(&self) -> i64 {
        self.tail.set(self.tail.get().saturating_add(1));
        self.tail.get()
    }

    /// The next place at the head of `ready`.
    pub(crate) fn next_head(&self) -> i64 {
        self.head.set(self.head.get().saturating_sub(1));
        self.head.get()
    }

    /// The last claim number. If another program has written a number near the largest one, it
    /// would no longer grow.
    pub(crate) fn last_claim(&self) -> i64 {
        if self.claim < 1 << 50 { self.claim } else { 0 }
    }
}

/// The time until `at`, for a clock that shows this time since 1970.
pub(crate) fn between(clock: Duration, at: i64) -> Duration {
    Duration::from_millis(u64::try_from(at).unwrap_or(0)).saturating_sub(clock)
}

fn in_ms(clock: Duration) -> i64 {
    i64::try_from(clock.as_millis()).unwrap_or(i64::MAX)
}

/// The time `now` plus a duration.
pub(crate) fn after(now: i64, delay: Duration) -> i64 {
    // Rounded up, so that nothing starts early.
    let ms = delay.as_nanos().div_ceil(1_000_000);
    now.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
}
