//! The turn: the endings of a lane, then its claim, in one transaction (R2 to R5).
//!
//! `finish` passes each ending to the doors; due jobs become ready; `claim` takes as many jobs as
//! the lane has room for; `answer` returns these jobs and the state of the queue, and returns them
//! again after a lost answer.

mod answer;
mod claim;
mod finish;

use rusqlite::{OptionalExtension, params};

use self::{
    answer::Kept,
    claim::{Claimed, claim},
    finish::finish,
};
use crate::{
    broker::{Turn, TurnAnswer},
    error::Error,
    sqlite::{
        connection::{
            statement::sql,
            tx::{Failed, Tx, after},
            unsigned::Unsigned,
        },
        doors::{aging, pauses, ready, row::Receipt},
        topic,
    },
};

pub(crate) fn turn(tx: &mut Tx<'_>, turn: &Turn) -> Result<TurnAnswer, Failed> {
    let name = turn.lane.as_str();
    let forgotten = || Error::Forgotten(name.to_owned());
    let mut queue = tx.queue(&turn.queue)?.ok_or_else(forgotten)?;
    let lane: Option<(i64, u64, Option<Vec<u8>>)> = tx
        .sql(sql!("lane.sql"))?
        .query_row(params![queue.key, name], |row| Ok((row.get(0)?, Unsigned::get(row, 1)?, row.get(2)?)))
        .optional()?;
    let (lane, last, kept) = lane.ok_or_else(forgotten)?;
    if turn.seq < last {
        return Err(Error::Old { name: name.to_owned(), seq: turn.seq }.into());
    }
    if turn.seq - last > 1 {
        return Err(forgotten().into());
    }
    if turn.seq == last {
        return answer::replay(tx, &queue, lane, name, kept);
    }

    let mut stale = Vec::new();
    for (position, ending) in turn.finishes.iter().enumerate() {
        let receipt = Receipt { lane, claim: ending.claim.cast_signed() };
        if !finish(tx, &mut queue, receipt, ending, turn.keep)? {
            stale.push(position);
        }
    }
    queue.claim = tx.now.max(queue.last_claim() + 1);
    let resumed = pauses::resume_due(tx, &mut queue)?;
    let more_in_log = !queue.paused && topic::feed(tx, &queue, turn)?;
    let Claimed { deliveries, aside, waits } = if queue.paused {
        Claimed::default()
    } else {
        aging::raise_aged_jobs(tx, &queue)?;
        ready::promote(tx, &mut queue)?;
        claim(tx, &queue, Receipt { lane, claim: queue.claim }, turn)?
    };
    let kept = Kept::of(queue.claim, &deliveries, &stale)?;
    tx.sql(sql!("answered.sql"))?.execute(params![lane, Unsigned(turn.seq), kept, after(tx.now, turn.lease)])?;
    tx.save(&queue)?;
    let mut answer = answer::queue_state(tx, &queue, waits)?;
    answer.more |= more_in_log;
    (answer.stale, answer.deliveries, answer.resumed) = (stale, deliveries, resumed);
    answer.aside = aside;
    Ok(answer)
}
