//! The first check: lanes whose lease has expired, or ends later than its duration allows.

use std::time::Duration;

use rusqlite::{Row, params, types::ValueRef};

use crate::{
    broker::{Ahead, OverdueLane, OverdueLanes, PartyName},
    sqlite::connection::{
        tx::{Failed, Tx},
        unsigned::Unsigned,
    },
};

/// The beginning of the name of a lane whose own name is not UTF-8. Its number follows.
pub(super) const UNREADABLE: &str = "unreadable.";

pub(crate) fn overdue(tx: &mut Tx<'_>, queue: &str, skip: usize, limit: usize) -> Result<OverdueLanes, Failed> {
    /// Lanes whose lease has expired, the oldest first.
    const EXPIRED: &str = "SELECT name, lane, deadline FROM queue_lanes WHERE queue = ?1 AND NOT fenced AND deadline <= ?2 \
            ORDER BY deadline, name LIMIT ?3 OFFSET ?4";
    /// Lanes whose lease ends later than its duration allows: the clock was set back.
    const AHEAD: &str = "SELECT name, lane, deadline, duration FROM queue_lanes WHERE queue = ?1 AND NOT fenced AND deadline > ?2 + duration \
            ORDER BY deadline DESC, name LIMIT ?3 OFFSET ?4";
    const FENCED: &str = "SELECT count(*) FROM queue_lanes WHERE queue = ?1 AND fenced";
    let Some(queue) = tx.queue(queue)? else { return Ok(OverdueLanes::default()) };
    let page = params![queue.key, tx.now, Unsigned(limit), Unsigned(skip)];
    let expired = tx.sql(EXPIRED)?.query_map(page, lane)?.collect::<rusqlite::Result<_>>()?;
    let mut lanes = tx.sql(AHEAD)?;
    let ahead = lanes
        .query_map(page, |row| {
            Ok(Ahead { lane: lane(row)?, duration: Duration::from_millis(row.get::<_, i64>(3)?.max(0).unsigned_abs()) })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let fenced = tx.sql(FENCED)?.query_row([queue.key], |row| Unsigned::get(row, 0))?;
    Ok(OverdueLanes::new(expired, fenced).ahead(ahead))
}

fn lane(row: &Row<'_>) -> rusqlite::Result<OverdueLane> {
    let name = match row.get_ref(0)? {
        ValueRef::Text(name) => str::from_utf8(name).ok().map(str::to_owned),
        _ => None,
    };
    let name = if let Some(name) = name { name } else { format!("{UNREADABLE}{}", row.get::<_, i64>(1)?) };
    Ok(OverdueLane { name: PartyName::new(name), deadline_ms: row.get(2)? })
}
