//! Look one: lanes whose lease is over, or ends later than it can.

use std::time::Duration;

use rusqlite::params;

use crate::{
    broker::{Ahead, OverdueLane, OverdueLanes, PartyName},
    sqlite::connection::{
        statement::sql,
        tx::{Failed, Tx},
        unsigned::Unsigned,
    },
};

pub(crate) fn overdue(tx: &mut Tx<'_>, queue: &str, skip: usize, limit: usize) -> Result<OverdueLanes, Failed> {
    const FENCED: &str = "SELECT count(*) FROM queue_lanes WHERE queue = ?1 AND fenced";
    let Some(queue) = tx.queue(queue)? else { return Ok(OverdueLanes::default()) };
    let mut lanes = tx.sql(sql!("overdue_expired.sql"))?;
    let expired = lanes
        .query_map(params![queue.key, tx.now, Unsigned(limit), Unsigned(skip)], |row| {
            Ok(OverdueLane { name: PartyName::new(row.get::<_, String>(0)?), deadline_ms: row.get::<_, i64>(1)? })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let mut lanes = tx.sql(sql!("overdue_ahead.sql"))?;
    let ahead = lanes
        .query_map(params![queue.key, tx.now, Unsigned(limit), Unsigned(skip)], |row| {
            let lane = OverdueLane { name: PartyName::new(row.get::<_, String>(0)?), deadline_ms: row.get::<_, i64>(1)? };
            Ok(Ahead { lane, term: Duration::from_millis(row.get::<_, i64>(2)?.max(0).unsigned_abs()) })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let fenced = tx.sql(FENCED)?.query_row([queue.key], |row| Unsigned::get(row, 0))?;
    Ok(OverdueLanes::new(expired, fenced).ahead(ahead))
}
