//! Look one: lanes whose lease is over, or ends later than it can.

use std::time::Duration;

use rusqlite::params;

use crate::{
    broker::{Ahead, OverdueLane, OverdueLanes, PartyName},
    sqlite::connection::{
        tx::{Failed, Tx},
        unsigned::Unsigned,
    },
};

pub(crate) fn overdue(tx: &mut Tx<'_>, queue: &str, skip: usize, limit: usize) -> Result<OverdueLanes, Failed> {
    /// Lanes whose lease is over, the longest first.
    const EXPIRED: &str = "SELECT name, deadline FROM queue_lanes WHERE queue = ?1 AND NOT fenced AND deadline <= ?2 \
            ORDER BY deadline, name LIMIT ?3 OFFSET ?4";
    /// Lanes whose lease ends later than its term allows: the clock was put back.
    const AHEAD: &str = "SELECT name, deadline, term FROM queue_lanes WHERE queue = ?1 AND NOT fenced AND deadline > ?2 + term \
            ORDER BY deadline DESC, name LIMIT ?3 OFFSET ?4";
    const FENCED: &str = "SELECT count(*) FROM queue_lanes WHERE queue = ?1 AND fenced";
    let Some(queue) = tx.queue(queue)? else { return Ok(OverdueLanes::default()) };
    let mut lanes = tx.sql(EXPIRED)?;
    let expired = lanes
        .query_map(params![queue.key, tx.now, Unsigned(limit), Unsigned(skip)], |row| {
            Ok(OverdueLane { name: PartyName::new(row.get::<_, String>(0)?), deadline_ms: row.get::<_, i64>(1)? })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let mut lanes = tx.sql(AHEAD)?;
    let ahead = lanes
        .query_map(params![queue.key, tx.now, Unsigned(limit), Unsigned(skip)], |row| {
            let lane = OverdueLane { name: PartyName::new(row.get::<_, String>(0)?), deadline_ms: row.get::<_, i64>(1)? };
            Ok(Ahead { lane, term: Duration::from_millis(row.get::<_, i64>(2)?.max(0).unsigned_abs()) })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let fenced = tx.sql(FENCED)?.query_row([queue.key], |row| Unsigned::get(row, 0))?;
    Ok(OverdueLanes::new(expired, fenced).ahead(ahead))
}
