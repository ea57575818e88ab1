//! R6: a heartbeat renews a lane's lease, and returns the lane's cancelled jobs.

use rusqlite::{OptionalExtension, params};

use crate::{
    broker::{Extend, Extended, WorkerAsk},
    error::Error,
    sqlite::{
        connection::{
            statement::sql,
            tx::{Failed, Tx, after},
            unsigned::Unsigned,
        },
        doors::row,
    },
};

pub(crate) fn extend(tx: &mut Tx<'_>, lane: &Extend) -> Result<Extended, Failed> {
    const GONE: &str = "SELECT id, claim FROM queue_gone WHERE lane = ?1 LIMIT 500";
    const LEAVES: &str = "INSERT OR IGNORE INTO queue_leaving (lane) VALUES (?1)";
    const LOAD: &str = "INSERT INTO queue_loads (queue, process, load) VALUES (?1, ?2, ?3)
        ON CONFLICT DO UPDATE SET load = excluded.load RETURNING ifnull(asked, x'')";
    let forgotten = || Error::Forgotten(lane.lane.as_str().to_owned());
    let queue = tx.queue(&lane.queue)?.ok_or_else(forgotten)?;
    let lane_key: i64 = tx
        .sql(sql!("extend.sql"))?
        .query_row(params![queue.key, lane.lane.as_str(), Unsigned(lane.answered), after(tx.now, lane.lease)], |row| row.get(0))
        .optional()?
        .ok_or_else(forgotten)?;
    if lane.leaving {
        tx.sql(LEAVES)?.execute([lane_key])?;
    }
    let mut asked = None;
    if let Some(load) = &lane.load {
        let stored: Vec<u8> = tx.sql(LOAD)?.query_row(params![queue.key, lane.lane.process(), load.stored(tx.now)], |row| row.get(0))?;
        asked = WorkerAsk::decoded(&stored);
    }
    let mut gone = tx.sql(GONE)?;
    let mut rows = gone.query([lane_key])?;
    let mut cancelled = Vec::new();
    while let Some(row) = rows.next()? {
        // The list is only a hint. If it cannot be read, the lease is renewed nevertheless.
        if let Ok(id) = row::id(row, 0) {
            cancelled.push((id, row.get::<_, i64>(1)?.cast_unsigned()));
        }
    }
    Ok(Extended::new(cancelled).asking(asked))
}
