//! Reads further entries of a log: they become jobs of a subscription before a turn claims them.

use rusqlite::{OptionalExtension, params};

use crate::{
    address::{JobId, subscription_at, topic_address},
    broker::{GroupName, MAX_BYTES, MOST_TAKEN, NewJob, TRIM_STEP, Turn, Unknown},
    envelope::Envelope,
    sqlite::{
        connection::{
            text::Text,
            tx::{Failed, Queue, Tx},
            unsigned::Unsigned,
        },
        doors::{
            groups,
            row::{ACTIVE, CHAINED, HELD, LINED, LINED_SUSPECT, PARKED, READY, RETRY, SCHEDULED, SUSPECT},
        },
        enqueue,
    },
};

/// Creates jobs from entries while fewer jobs may start than the turn requests. Returns whether
/// more entries can be read; false for a queue without a subscription.
pub(crate) fn feed(tx: &mut Tx<'_>, queue: &Queue<'_>, turn: &Turn) -> Result<bool, Failed> {
    const CURSOR: &str = "SELECT cursor, unknown, types FROM queue_subscriptions WHERE topic = ?1 AND name = ?2 AND upto IS NULL";
    const READ_UP_TO: &str = "UPDATE queue_subscriptions SET cursor = ?3, skipped = min(skipped + ?4, 9007199254740992), lost = min(lost + ?5, 9007199254740992) \
            WHERE topic = ?1 AND name = ?2";
    const MORE: &str = "SELECT EXISTS (SELECT 1 FROM queue_log WHERE topic = ?1 AND seq > ?2)";
    let Some((name, topic)) = subscription_at(&turn.queue).filter(|_| turn.claim > 0) else { return Ok(false) };
    let Some(topic) = tx.queue(&topic_address(topic))?.map(|address| address.key) else { return Ok(false) };
    let found = tx.sql(CURSOR)?.query_row(params![topic, name], |row| {
        let (cursor, Text(unknown), Text(types)): (i64, Text, Text) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((cursor, Unknown::of_stored(&unknown) == Unknown::Skip, types))
    });
    let Some((mut cursor, skips, types)) = found.optional()? else { return Ok(false) };
    let mut could_start = count_startable(tx, queue, turn.claim)?;
    if could_start >= turn.claim {
        // Nothing has to be read, so the jobs are not counted. If the largest number of jobs is
        // taken, a turn with too few ready jobs returns this.
        return Ok(tx.sql(MORE)?.query_row([topic, cursor], |row| row.get(0))?);
    }
    let (mut taken, mut read, mut bytes, mut skipped, mut lost) = (count_not_ended(tx, queue)?, 0, 0, 0, 0);
    let begun = cursor;
    while could_start < turn.claim && taken < MOST_TAKEN && read < TRIM_STEP && bytes < MAX_BYTES {
        let Some((seq, event)) = next_entry(tx, topic, cursor)? else { break };
        (cursor, read) = (seq, read + 1);
        let Some(event) = event else {
            lost += 1;
            continue;
        };
        bytes += event.envelope.len();
        if skips && !types.is_empty() && !types.split(',').any(|known| is_of(&event, known)) {
            skipped += 1;
        } else if enqueue::feed(tx, queue, &event)? {
            taken += 1;
            could_start = if event.group.is_none() { could_start + 1 } else { count_startable(tx, queue, turn.claim)? };
        }
    }
    if cursor > begun {
        tx.sql(READ_UP_TO)?.execute(params![topic, name, cursor, skipped, lost])?;
    }
    // If it has taken the largest number of jobs, only an ending makes room.
    Ok(taken < MOST_TAKEN && tx.sql(MORE)?.query_row([topic, cursor], |row| row.get(0))?)
}

/// Whether an event is of this type.
fn is_of(event: &NewJob, known: &str) -> bool {
    Envelope::decode(&event.envelope).is_ok_and(|envelope| envelope.task == known)
}

/// The entry after a number, as a job; `None` instead of the job if another program has damaged its
/// id.
fn next_entry(tx: &Tx<'_>, topic: i64, seq: i64) -> Result<Option<(i64, Option<NewJob>)>, Failed> {
    const NEXT: &str = "SELECT seq, id, grouped, digest, envelope FROM queue_log WHERE topic = ?1 AND seq > ?2 ORDER BY seq LIMIT 1";
    let found = tx
        .sql(NEXT)?
        .query_row([topic, seq], |row| {
            let (id, envelope): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(4)?);
            Ok((row.get(0)?, id, row.get::<_, Option<Text>>(2)?, row.get::<_, Option<i64>>(3)?, envelope))
        })
        .optional()?;
    let Some((seq, id, group, digest, envelope)) = found else { return Ok(None) };
    let Ok(id) = JobId::from_bytes(&id) else { return Ok(Some((seq, None))) };
    let mut event = NewJob::new(id, envelope);
    event.group = group.and_then(|Text(group)| GroupName::new(group).ok());
    event.digest = digest.map_or(0, |digest| digest.cast_unsigned());
    Ok(Some((seq, Some(event))))
}

/// The number of jobs that have not ended, up to the limit.
fn count_not_ended(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<usize> {
    const TAKEN: &str = "SELECT count(*) FROM (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state IN (?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) LIMIT ?12)";
    let states =
        params![queue.key, READY, SUSPECT, SCHEDULED, RETRY, ACTIVE, PARKED, HELD, LINED, LINED_SUSPECT, CHAINED, Unsigned(MOST_TAKEN)];
    tx.sql(TAKEN)?.query_row(states, |row| Unsigned::get(row, 0))
}

/// The number of jobs that could start: at most `most` without a group, and one for each of at most
/// `most` eligible groups.
fn count_startable(tx: &Tx<'_>, queue: &Queue<'_>, most: usize) -> Result<usize, Failed> {
    const PLAIN: &str = "SELECT count(*) FROM (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2 LIMIT ?3)";
    let plain: usize = tx.sql(PLAIN)?.query_row(params![queue.key, READY, Unsigned(most)], |row| Unsigned::get(row, 0))?;
    Ok(plain + groups::next(tx, queue, most)?.len())
}
