//! One transaction of the writer: what all operations share.

use std::{cell::Cell, collections::BTreeMap, time::Duration};

use rusqlite::{CachedStatement, Connection, ErrorCode, OptionalExtension, params};

use super::schema::{self, Feature, Noted};
use crate::{address::JobId, clock::Clock, error::Error};

/// Why an operation was not done: the operation's own refusal, or the database's.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Its writes are undone; the other operations of its group continue.
    Refused(Error),
    /// The whole group has to be given up.
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
    /// The broker's clock, and what it showed when the operation began: also in whole milliseconds.
    source: &'a Clock,
    clock: Duration,
    pub(crate) now: i64,
    noted: Noted,
    counters: BTreeMap<(i64, &'static str), i64>,
    hints: HintsOut,
}

/// In the column `paused` of a queue: it is paused; a pause in it ends by itself.
pub(crate) const PAUSED: i64 = 1;
pub(crate) const ENDS: i64 = 2;

/// A row of `queue_queues`.
#[derive(Clone, Debug)]
pub(crate) struct Queue<'n> {
    pub(crate) name: &'n str,
    pub(crate) key: i64,
    pub(crate) paused: bool,
    /// Whether a pause in it ends by itself.
    pub(crate) ends: bool,
    pub(crate) claim: i64,
    head: Cell<i64>,
    tail: Cell<i64>,
    /// What a search for suspects of groups in this transaction has left: `true`, it stopped
    /// half-way; `false`, no other may start.
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

    /// When a job may start that is to wait so long. A part of a millisecond counts as a whole one,
    /// so that nothing starts early.
    pub(crate) fn due_after(&self, delay: Duration) -> i64 {
        let is_between = !self.clock.subsec_nanos().is_multiple_of(1_000_000);
        after(self.now, delay).saturating_add(i64::from(!delay.is_zero() && is_between))
    }

    /// Runs one operation, and returns why it was refused. What a refused one wrote is still there.
    pub(crate) fn attempt(&mut self, work: impl FnOnce(&mut Self) -> Result<(), Failed>) -> rusqlite::Result<Option<Error>> {
        // It may have been asked for after this transaction began: its delays begin no earlier than
        // it. Never backwards, though.
        self.clock = self.clock.max(self.source.since_1970());
        self.now = in_ms(self.clock);
        if self.is_of_test() {
            // The triggers cannot ask for it.
            self.sql("UPDATE queue_followed SET now = ?1")?.execute([self.now])?;
        }
        match work(self) {
            Ok(()) => Ok(None),
            Err(Failed::Refused(error)) => Ok(Some(error)),
            Err(Failed::Sqlite(error)) if is_of_the_data(&error) => Ok(Some(Error::Internal(error.to_string()))),
            Err(Failed::Sqlite(error)) => Err(error),
        }
    }

    /// The same so that a refusal undoes what the operation wrote, and nothing else. SQLite keeps a
    /// copy of each page for that.
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

    /// Writes what was gathered; gives the hints to be rung after the commit.
    pub(crate) fn finish(self) -> rusqlite::Result<HintsOut> {
        for ((queue, name), value) in &self.counters {
            // Within the bounds of the column: a refusal here would undo the operations of other
            // callers, too.
            self.sql(
                "INSERT INTO queue_counters (queue, name, value) VALUES (?1, ?2, ?3)
                 ON CONFLICT (queue, name) DO UPDATE SET value = max(-9007199254740992, min(9007199254740992, value + excluded.value))",
            )?
            .execute(params![queue, name, value])?;
        }
        Ok(self.hints)
    }

    /// A statement, prepared once per connection.
    pub(crate) fn sql(&self, sql: &str) -> rusqlite::Result<CachedStatement<'a>> {
        self.connection.prepare_cached(sql)
    }

    /// Makes or drops triggers.
    pub(crate) fn with_triggers<T>(&self, change: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        change(self.connection)
    }

    /// Whether a feature was ever used in this file: if not, its tables are empty.
    pub(crate) fn uses(&self, feature: Feature) -> bool {
        self.noted.uses & feature as i64 != 0
    }

    /// From now on the feature is used.
    pub(crate) fn note(&mut self, feature: Feature) -> rusqlite::Result<()> {
        if !self.uses(feature) {
            schema::note(self.connection, feature)?;
            self.noted.uses |= feature as i64;
        }
        Ok(())
    }

    /// Whether a job in this file may have a key.
    pub(crate) fn keyed(&self) -> bool {
        self.uses(Feature::Keys)
    }

    /// Whether a job in this file may have a group.
    pub(crate) fn grouped(&self) -> bool {
        self.uses(Feature::Groups)
    }

    /// Whether a job in this file may have limits.
    pub(crate) fn limited(&self) -> bool {
        self.uses(Feature::Limits)
    }

    /// Whether jobs in this file may rise while they wait.
    pub(crate) fn aged(&self) -> bool {
        self.uses(Feature::Aging)
    }

    /// The broker's clock in microseconds.
    pub(crate) fn micros(&self) -> i64 {
        i64::try_from(self.clock.as_micros()).unwrap_or(i64::MAX)
    }

    /// Whether a caller waits for the end of a job in this file.
    pub(crate) fn watched(&self) -> bool {
        self.noted.watched
    }

    /// From now on a caller does.
    pub(crate) fn note_watched(&mut self) {
        self.noted.watched = true;
    }

    /// Counts in the queue's statistics. Names that begin with a dot are for the broker itself.
    pub(crate) fn count(&mut self, queue: i64, name: &'static str, by: i64) {
        if by != 0 {
            *self.counters.entry((queue, name)).or_default() += by;
        }
    }

    /// What was counted for a queue that is removed goes with it.
    pub(crate) fn forget_counts(&mut self, queue: i64) {
        self.counters.retain(|(of, _), _| *of != queue);
    }

    /// A counter's value, with what this transaction added.
    pub(crate) fn counter(&self, queue: i64, name: &'static str) -> rusqlite::Result<i64> {
        let stored = self.sql("SELECT value FROM queue_counters WHERE queue = ?1 AND name = ?2")?;
        let stored: Option<i64> = { stored }.query_row(params![queue, name], |row| row.get(0)).optional()?;
        Ok(stored.unwrap_or(0).saturating_add(self.counters.get(&(queue, name)).copied().unwrap_or(0)))
    }

    /// Stores the time of now among the queue's statistics. It counts nothing, so it may be noted
    /// beside a change of a place.
    pub(crate) fn note_time(&mut self, queue: i64, name: &'static str) -> rusqlite::Result<()> {
        let mut note = self.sql("INSERT OR REPLACE INTO queue_counters (queue, name, value) VALUES (?1, ?2, ?3)")?;
        note.execute(params![queue, name, self.now]).map(drop)
    }

    /// Where a bounded search or cleanup of the queue stopped, as it was [noted](Self::note_place).
    pub(crate) fn place(&self, queue: i64, name: &str) -> rusqlite::Result<Option<Vec<u8>>> {
        let mut stored = self.sql("SELECT place FROM queue_places WHERE queue = ?1 AND name = ?2")?;
        stored.query_row(params![queue, name], |row| row.get(0)).optional()
    }

    /// Stores where a bounded search stopped: the next one continues there. `None`: it starts over.
    pub(crate) fn note_place(&self, queue: i64, name: &str, place: Option<&[u8]>) -> rusqlite::Result<()> {
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

    /// Notifies those who make the ticks of the queue's schedules that one is due at this time.
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

    /// The queue's row, made if it is missing.
    pub(crate) fn queue_made<'n>(&self, name: &'n str) -> rusqlite::Result<Queue<'n>> {
        if let Some(queue) = self.queue(name)? {
            return Ok(queue);
        }
        self.sql("INSERT INTO queue_queues (name) VALUES (?1)")?.execute([name])?;
        let key = self.connection.last_insert_rowid();
        Ok(Queue { name, key, paused: false, ends: false, claim: 0, head: Cell::new(0), tail: Cell::new(0), doubted: Cell::new(None) })
    }

    /// Writes back what changed in a queue's row.
    pub(crate) fn save(&self, queue: &Queue<'_>) -> rusqlite::Result<()> {
        self.sql("UPDATE queue_queues SET claim = ?2, head = ?3, tail = ?4 WHERE queue = ?1")?
            .execute(params![queue.key, queue.claim, queue.head.get(), queue.tail.get()])
            .map(drop)
    }
}

/// Under which name the schedules of a queue are announced: it is no queue's.
pub(crate) fn ticks_of(queue: &str) -> String {
    format!("#{queue}")
}

/// Under which name the end of a job is announced.
pub(crate) fn ending_of(queue: &str, id: &JobId) -> String {
    format!("!{id} {queue}")
}

/// Under which name it is announced that a caller waits for a job of a queue.
pub(crate) fn watches_of(queue: &str) -> String {
    format!("&{queue}")
}

/// Under which name the progress of a job is announced.
pub(crate) fn progress_hint_of(queue: &str, id: &JobId) -> String {
    format!("%{id} {queue}")
}

/// Whether a failure comes from rows that are not what they should be, and not from the database as
/// a whole.
fn is_of_the_data(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(code) => matches!(code, ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig),
        None => true,
    }
}

impl Queue<'_> {
    /// The next place at the tail of `ready`; chains that are shut are numbered by it, too.
    pub(crate) fn next_tail(&self) -> i64 {
        self.tail.set(self.tail.get().saturating_add(1));
        self.tail.get()
    }

    /// The next place at the head of `ready`.
    pub(crate) fn next_head(&self) -> i64 {
        self.head.set(self.head.get().saturating_sub(1));
        self.head.get()
    }

    /// The last number of a claim. One near the end of all numbers, which another program has
    /// written, would not grow any more.
    pub(crate) fn last_claim(&self) -> i64 {
        if self.claim < 1 << 50 { self.claim } else { 0 }
    }
}

/// How long it is until a clock that shows this time since 1970 reads `at`.
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
