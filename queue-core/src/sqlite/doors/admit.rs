//! The door `admit`: a waiting job becomes active, under the receipt of the lane that claims it.
//!
//! Every claimed job passes here: jobs of the line, suspects, parked jobs. Conditions are checked
//! before a job is moved: [`Admission::look`] returns whether a job may be next, and a refused job
//! has not moved. Only then [`Admission::admit`] writes.
//!
//! | inputs | receipt (lane and claim number), the most jobs, the most bytes ([`MAX_BYTES`], except for a single job) |
//! |---|---|
//! | changes | state, rank and pos of each taken job (its receipt); the entry of a parked job in `queue_parked` |
//! | leaves | attempts, crashes, snoozes, failures, envelope |
//! | ends | a row with an invalid id: another program wrote it, no worker could end it, and it would block the line |

use rusqlite::{OptionalExtension, params, types::Value};

use super::{
    aging, end, groups,
    ready::{self, End, Waiting},
    row::{ACTIVE, PARKED, Receipt},
    settle,
};
use crate::{
    address::JobId,
    broker::{Delivery, MAX_BYTES, failed_releases, snoozes_of, stored_release},
    sqlite::connection::{
        tx::{Failed, Queue, Tx},
        unsigned::Unsigned,
    },
};

/// The number of names that one turn examines, under which jobs of one task are parked because
/// releases could not read them. The turn examines the first names, and as many after those of the
/// previous turn.
const PARKED_NAMES: usize = 100;

/// The number of jobs under one name that a turn examines in addition to those for which it has
/// room. It skips suspects, and jobs of groups, which wait until they are served.
const PARKED_BESIDE: usize = 100;

/// The same for jobs after the first ones.
const PARKED_FURTHER: usize = 500;

/// The claimed jobs of one turn, and its remaining room.
pub(crate) struct Admission {
    receipt: Receipt,
    /// Jobs that may still be examined.
    left: usize,
    /// The bytes of the admitted envelopes.
    bytes: usize,
    /// Whether no job was admitted yet.
    empty: bool,
    /// Whether a job was refused because of its bytes.
    full: bool,
    /// The number of examined groups and limit keys.
    pub(super) examined: usize,
    deliveries: Vec<Delivery>,
}

impl Admission {
    /// For a lane with room for `claim` jobs.
    pub(crate) fn new(receipt: Receipt, claim: usize) -> Self {
        Admission { receipt, left: claim, bytes: 0, empty: true, full: false, examined: 0, deliveries: Vec::new() }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.left > 0
    }

    pub(crate) fn room(&self) -> usize {
        self.left
    }

    /// Takes a job that is not at the head of the line. False: there is no room for it, and it has
    /// not moved.
    pub(super) fn take_one(&mut self, tx: &mut Tx<'_>, queue: &Queue<'_>, waiting: Waiting) -> Result<bool, Failed> {
        if !self.has_room_for(&waiting) {
            return Ok(false);
        }
        self.admit(tx, queue, waiting)?;
        Ok(true)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// The number of examined groups and limit keys.
    pub(crate) fn examined(&self) -> usize {
        self.examined
    }

    pub(crate) fn has_suspect(&self) -> bool {
        self.deliveries.iter().any(|delivery| delivery.crashes > 0)
    }

    pub(crate) fn into_deliveries(self) -> Vec<Delivery> {
        self.deliveries
    }

    /// Takes at most `limit` jobs from the head of a line (`READY` or `SUSPECT`), in order.
    pub(crate) fn take(&mut self, tx: &mut Tx<'_>, queue: &Queue<'_>, state: i64, limit: usize) -> Result<(), Failed> {
        let limit = limit.min(self.left);
        if limit == 0 {
            return Ok(());
        }
        for waiting in ready::pop(tx, queue, state, limit, |waiting| self.has_room_for(waiting))? {
            self.admit(tx, queue, waiting)?;
        }
        Ok(())
    }

    /// Takes parked jobs of a task: first the jobs whose task was unknown, then those that only
    /// other releases could not read.
    pub(crate) fn take_parked(
        &mut self,
        tx: &mut Tx<'_>,
        queue: &Queue<'_>,
        task: &str,
        release: &str,
        suspects: bool,
    ) -> Result<(), Failed> {
        /// The next name under which jobs are parked, between two others.
        const ADMIT_PARKED_NAMES: &str = "SELECT task FROM queue_parked WHERE queue = ?1 AND task > ?2 AND task < ?3 ORDER BY task LIMIT 1";
        let release = stored_release(release);
        self.take_parked_under(tx, queue, task, suspects)?;
        let mut next = tx.sql(ADMIT_PARKED_NAMES)?;
        let (mut after, end) = (format!("{task}\u{1}"), format!("{task}\u{2}"));
        let place = format!(".readable:{release}\u{1}{task}");
        for at in 0..2 * PARKED_NAMES {
            if !self.has_room() {
                return Ok(());
            }
            if at == PARKED_NAMES {
                let stored = tx.place(queue.key, &place)?.and_then(|name| String::from_utf8(name).ok());
                after = stored.unwrap_or(after);
            }
            let name = next.query_row(params![queue.key, after, end], |row| row.get::<_, String>(0)).optional()?;
            let Some(name) = name else {
                return if at < PARKED_NAMES { Ok(()) } else { Ok(tx.store_position(queue.key, &place, None)?) };
            };
            if failed_releases(&name).all(|failed| failed != release) {
                self.take_parked_under(tx, queue, &name, suspects)?;
            }
            after = name;
        }
        Ok(tx.store_position(queue.key, &place, Some(after.as_bytes()))?)
    }

    /// Takes jobs that are parked under a name. If the first ones may not be claimed, the search
    /// continues behind them, and the next claim continues where this search ended.
    fn take_parked_under(&mut self, tx: &mut Tx<'_>, queue: &Queue<'_>, task: &str, suspects: bool) -> Result<(), Failed> {
        let Some(last) = self.take_parked_behind(tx, queue, task, suspects, &Value::Blob(Vec::new()), PARKED_BESIDE)? else {
            return Ok(());
        };
        if !self.has_room() {
            return Ok(());
        }
        let place = format!(".parked:{task}");
        let behind = tx.place(queue.key, &place)?;
        let last = self.take_parked_behind(tx, queue, task, suspects, &behind.clone().map_or(last, Value::Blob), PARKED_FURTHER)?;
        match last {
            Some(Value::Blob(last)) => tx.store_position(queue.key, &place, Some(&last))?,
            _ if behind.is_some() => tx.store_position(queue.key, &place, None)?,
            _ => {}
        }
        Ok(())
    }

    /// The same for jobs behind an id. A parked job may be a suspect too: at most one is taken, if
    /// `suspects`. A job that is skipped stays parked. Returns the last job that was examined, if
    /// others are left.
    fn take_parked_behind(
        &mut self,
        tx: &mut Tx<'_>,
        queue: &Queue<'_>,
        task: &str,
        suspects: bool,
        behind: &Value,
        beside: usize,
    ) -> Result<Option<Value>, Failed> {
        /// The entries of a task's parked jobs after one, with the crashes of each.
        const PARKED_IDS: &str = "SELECT id, ifnull(crashes, 0) FROM queue_parked LEFT JOIN queue_jobs USING (queue, id) \
            WHERE queue = ?1 AND task = ?2 AND id > ?3 ORDER BY id LIMIT ?4";
        /// A parked job, as `Waiting` reads it.
        const ADMIT_PARKED: &str =
            "SELECT id, envelope, attempts, crashes, snoozes FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state = ?3";
        let (room, most) = (self.left, self.left + beside);
        let mut parked = tx.sql(PARKED_IDS)?;
        let found: Vec<(Value, u32)> = parked
            .query_map(params![queue.key, task, behind, Unsigned(most)], |row| Ok((row.get(0)?, row.get::<_, u32>(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let last = found.last().filter(|_| found.len() == most).map(|(id, _)| id.clone());
        let (mut grouped, mut is_full) = (Vec::new(), false);
        for (id, crashes) in found {
            if crashes > 0 && (!suspects || self.has_suspect()) {
                continue;
            }
            if grouped.len() < room && groups::of(tx, queue, &id)?.is_some() {
                ready::unpark_from(tx, queue, task, &id)?;
                grouped.push(id);
                continue;
            }
            if is_full || self.left == 0 || groups::of(tx, queue, &id)?.is_some() {
                continue;
            }
            let waiting = tx.sql(ADMIT_PARKED)?.query_row(params![queue.key, id, PARKED], Waiting::read).optional()?;
            // An entry without a job is removed as well.
            if let Some(waiting) = waiting {
                if !self.has_room_for(&waiting) {
                    is_full = true;
                    continue;
                }
                self.admit(tx, queue, waiting)?;
            }
            ready::unpark_from(tx, queue, task, &id)?;
        }
        // A job of a group waits until its group is served.
        for id in grouped.iter().rev() {
            ready::push(tx, queue, id, End::Head)?;
        }
        Ok(last)
    }

    /// Whether this job may be next. If so, it is counted, and has to be passed to `admit`.
    fn has_room_for(&mut self, waiting: &Waiting) -> bool {
        let bytes = self.bytes + waiting.envelope.len();
        self.full |= bytes > MAX_BYTES && !self.empty;
        if self.left == 0 || self.full {
            return false;
        }
        (self.left, self.bytes, self.empty) = (self.left - 1, bytes, false);
        true
    }

    /// Makes a checked job active.
    fn admit(&mut self, tx: &mut Tx<'_>, queue: &Queue<'_>, waiting: Waiting) -> Result<(), Failed> {
        /// Makes a job active: its receipt is its place.
        const ADMIT: &str = "UPDATE queue_jobs SET state = ?3, rank = ?4, pos = ?5 WHERE queue = ?1 AND id = ?2";
        let Waiting { id: stored, envelope, attempts, crashes, snoozes } = waiting;
        let id = match &stored {
            Value::Blob(id) => JobId::from_bytes(id).ok(),
            _ => None,
        };
        let Some(id) = id else {
            // Its place in this turn is free for another job.
            self.left += 1;
            return end::repair(tx, queue, &stored);
        };
        aging::stop_aging(tx, queue, &stored)?;
        tx.sql(ADMIT)?.execute(params![queue.key, stored, ACTIVE, self.receipt.lane, self.receipt.claim])?;
        let mut delivery = Delivery::new(id, self.receipt.claim.cast_unsigned(), envelope);
        (delivery.attempts, delivery.crashes) = (attempts, crashes);
        if crashes > 0 {
            delivery.suspected_for = settle::suspicion_time(tx, queue, &stored)?;
        }
        (delivery.snoozes, delivery.rate_limited, delivery.odd) = snoozes_of(snoozes);
        self.deliveries.push(delivery);
        Ok(())
    }
}
