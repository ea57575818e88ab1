//! The answer of a turn, and its replay (R5).

use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::{
    address::JobId,
    broker::{Delivery, TurnAnswer, snoozes_of},
    codec,
    error::Error,
    sqlite::{
        connection::{
            statement::sql,
            tx::{Failed, Queue, Tx},
            unsigned::Unsigned,
        },
        doors::{pauses, ready, row::ACTIVE, settle},
    },
};

/// The stored part of a turn's answer for a replay.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Kept {
    claim: i64,
    ids: Vec<Vec<u8>>,
    stale: Vec<usize>,
}

impl Kept {
    /// `None` if the answer has no jobs and no stale endings.
    pub(super) fn of(claim: i64, deliveries: &[Delivery], stale: &[usize]) -> Result<Option<Vec<u8>>, Failed> {
        if deliveries.is_empty() && stale.is_empty() {
            return Ok(None);
        }
        let ids = deliveries.iter().map(|delivery| delivery.id.as_bytes().to_vec()).collect();
        Ok(Some(codec::pack(&Kept { claim, ids, stale: stale.to_vec() }).map_err(Error::Internal)?))
    }
}

/// Repeats the answer. Writes nothing.
pub(super) fn replay(tx: &Tx<'_>, queue: &Queue<'_>, lane: i64, name: &str, kept: Option<Vec<u8>>) -> Result<TurnAnswer, Failed> {
    let mut answer = queue_state(tx, queue, None)?;
    let Some(kept) = kept else { return Ok(answer) };
    // An unreadable answer counts as missing: the lane has to register again.
    let kept: Kept = codec::unpack(&kept).map_err(|_| Error::Forgotten(name.to_owned()))?;
    for id in &kept.ids {
        let found = tx
            .sql(sql!("delivered.sql"))?
            .query_row(params![queue.key, id, ACTIVE, lane, kept.claim], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, Unsigned::get(row, 3)?))
            })
            .optional()?;
        let Ok(id) = JobId::from_bytes(id) else { continue };
        let mut delivery = Delivery::new(id, kept.claim.cast_unsigned(), Vec::new());
        match found {
            Some(found) => {
                let snoozes;
                (delivery.envelope, delivery.attempts, delivery.crashes, snoozes) = found;
                (delivery.snoozes, delivery.rate_limited, delivery.odd) = snoozes_of(snoozes);
                if delivery.crashes > 0 {
                    delivery.suspected_for = settle::suspicion_time(tx, queue, delivery.id.as_bytes())?;
                }
            }
            None => delivery.void = true,
        }
        answer.deliveries.push(delivery);
    }
    answer.stale = kept.stale;
    Ok(answer)
}

/// The state of the queue for an answer. `waits`: whether jobs and suspects wait, if known.
pub(super) fn queue_state(tx: &Tx<'_>, queue: &Queue<'_>, waits: Option<(bool, bool)>) -> Result<TurnAnswer, Failed> {
    const PARKED: &str = "SELECT EXISTS (SELECT 1 FROM queue_parked WHERE queue = ?1)";
    const LANES: &str = "SELECT count(*) FROM queue_lanes WHERE queue = ?1 AND NOT fenced";
    let (ready, suspected) = waits.map_or_else(|| ready::has_waiting(tx, queue), Ok)?;
    let mut answer = TurnAnswer { now_ms: tx.now, paused: queue.paused, ..TurnAnswer::default() };
    answer.suspects = !queue.paused && suspected;
    answer.more = !queue.paused && ready;
    let due = if queue.paused { None } else { ready::next_due(tx, queue)? };
    answer.next_due = [due, pauses::next_end(tx, queue)?].into_iter().flatten().min().map(|due| tx.until(due));
    answer.parked = tx.sql(PARKED)?.query_row([queue.key], |row| row.get(0))?;
    answer.lanes = tx.sql(LANES)?.query_row([queue.key], |row| Unsigned::get(row, 0))?;
    Ok(answer)
}
