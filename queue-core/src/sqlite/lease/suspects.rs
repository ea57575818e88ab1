//! Look one: lanes whose lease is over, or ends later than it can.

use std::time::Duration;

use rusqlite::params;

use crate::{
    broker::{Ahead, PartyName, Suspect, Suspects},
    sqlite::connection::{
        lenient::{Number, Words},
        statement::sql,
        tx::{Failed, Tx},
    },
};

pub(crate) fn suspects(tx: &mut Tx<'_>, queue: &str, limit: usize) -> Result<Suspects, Failed> {
    const FENCED: &str = "SELECT count(*) FROM queue_workers WHERE queue = ?1 AND fenced";
    let Some(queue) = tx.queue(queue)? else { return Ok(Suspects::default()) };
    let mut lanes = tx.sql(sql!("suspects_expired.sql"))?;
    let expired = lanes
        .query_map(params![queue.key, tx.now, limit], |row| {
            Ok(Suspect { worker: PartyName::new(row.get::<_, Words>(0)?.0), deadline_ms: row.get::<_, Number>(1)?.0 })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let mut lanes = tx.sql(sql!("suspects_ahead.sql"))?;
    let ahead = lanes
        .query_map(params![queue.key, tx.now, limit], |row| {
            let suspect = Suspect { worker: PartyName::new(row.get::<_, Words>(0)?.0), deadline_ms: row.get::<_, Number>(1)?.0 };
            Ok(Ahead { suspect, term: Duration::from_millis(row.get::<_, Number>(2)?.0.max(0).unsigned_abs()) })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let fenced = tx.sql(FENCED)?.query_row([queue.key], |row| row.get(0))?;
    Ok(Suspects::new(expired, fenced).ahead(ahead))
}
