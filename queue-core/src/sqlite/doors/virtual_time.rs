//! The virtual time of a queue, by which its groups are served. The group with the smallest start
//! is served, and each of its jobs advances its start by [`cost`]. A group that returns never
//! starts earlier than the virtual time. The algorithm is start-time fair queueing: Goyal, Vin,
//! Cheng, SIGCOMM 1996.

use rusqlite::{OptionalExtension, params};

use crate::{
    broker::{START_APART, START_COST},
    sqlite::connection::tx::{Failed, Queue, Tx},
};

/// By how much a job advances the start of its group, for this weight.
pub(super) fn cost(weight: u64) -> i64 {
    i64::try_from((START_COST / weight.max(1)).max(1)).unwrap_or(i64::MAX)
}

/// The virtual time, and the start of plain jobs.
pub(super) fn read(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<(i64, i64)> {
    const TIMES: &str = "SELECT virtual, plain FROM queue_virtual_times WHERE queue = ?1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    Ok(tx.sql(TIMES)?.query_row([queue.key], read).optional()?.unwrap_or_default())
}

/// The earliest start of a group of this weight that becomes eligible: behind the groups that were
/// eligible before the last claim, but at most one job ahead. For this reason virtual time advances
/// even if no group returns, and no later group overtakes a waiting one.
pub(super) fn next(tx: &Tx<'_>, queue: &Queue<'_>, weight: u64) -> rusqlite::Result<i64> {
    Ok(read(tx, queue)?.0.saturating_add(cost(weight).min(START_APART.cast_signed())))
}

/// How far virtual time advances past the starts of all groups. 100,000 suspects of one group start
/// before the group is ahead again, and virtual time does not advance meanwhile.
const LEAP: i64 = 1 << 30;

/// Resets virtual time when no job waits, so that no group is ahead of another. Without groups
/// virtual time starts from zero. The remaining groups have jobs that block their lines: virtual
/// time advances past their starts, because their number is not bounded. With a hundred such sweeps
/// a minute, this is possible for 160 years.
pub(super) fn restart(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<()> {
    const RESTART: &str = "UPDATE queue_virtual_times SET virtual = earliest, plain = earliest + max(plain - virtual, 0)
        FROM (SELECT iif(EXISTS (SELECT 1 FROM queue_groups WHERE queue = ?1), virtual + ?2, 0) AS earliest
            FROM queue_virtual_times WHERE queue = ?1)
        WHERE queue = ?1 AND virtual <> earliest";
    tx.sql(RESTART)?.execute(params![queue.key, LEAP]).map(drop)
}

/// Charges a group for a job that was claimed at this start.
pub(super) fn charge(tx: &Tx<'_>, line: i64, start: i64, cost: i64) -> Result<(), Failed> {
    const CHARGE: &str = "UPDATE queue_groups SET start = ?2 WHERE line = ?1";
    Ok(tx.sql(CHARGE)?.execute(params![line, start.saturating_add(cost)]).map(drop)?)
}

/// The reached virtual time, and the next start of plain jobs.
#[derive(Default)]
pub(super) struct Served {
    virtual_time: Option<i64>,
    plain: Option<i64>,
}

impl Served {
    /// Records that a job of a group is served at this start.
    pub(super) fn serve_group(&mut self, start: i64) {
        self.virtual_time = self.virtual_time.max(Some(start));
    }

    /// The same for a plain job. The next one is served at `next`.
    pub(super) fn serve_plain(&mut self, start: i64, next: i64) {
        self.serve_group(start);
        self.plain = self.plain.max(Some(next));
    }

    pub(super) fn write(self, tx: &Tx<'_>, queue: &Queue<'_>) -> Result<(), Failed> {
        const SERVED: &str = "INSERT INTO queue_virtual_times (queue, virtual, plain) VALUES (?1, ?2, ifnull(?3, 0))
                              ON CONFLICT (queue) DO UPDATE SET virtual = max(virtual, ?2), plain = ifnull(?3, plain)";
        let Some(virtual_time) = self.virtual_time else { return Ok(()) };
        Ok(tx.sql(SERVED)?.execute(params![queue.key, virtual_time, self.plain]).map(drop)?)
    }
}
