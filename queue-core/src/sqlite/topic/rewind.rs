//! Rewinds of subscriptions.

use rusqlite::{OptionalExtension, params};

use crate::{
    address::{subscription_address, topic_address},
    broker::{Begin, Rewind, RewindStep, RewindTarget, Rewound, TRIM_STEP},
    sqlite::{
        connection::{
            text::Text,
            tx::{Failed, Queue, Tx},
            unsigned::Unsigned,
        },
        doors::end,
        people,
        topic::MOST_BYTES,
    },
};

pub(crate) fn rewind(tx: &mut Tx<'_>, request: &Rewind) -> Result<Rewound, Failed> {
    const FIND: &str = "SELECT cursor, rewind, upto FROM queue_subscriptions WHERE topic = ?1 AND name = ?2";
    const BEGIN: &str = "UPDATE queue_subscriptions SET cursor = ?3, begin = ?4, rewind = ?5, upto = ?6 WHERE topic = ?1 AND name = ?2";
    const END: &str = "UPDATE queue_subscriptions SET upto = NULL, rewind = ?3 WHERE topic = ?1 AND name = ?2";
    let Some(topic) = tx.queue(&topic_address(&request.topic))?.map(|address| address.key) else { return Ok(Rewound::NotFound) };
    let name = &*request.name;
    let found = tx
        .sql(FIND)?
        .query_row(params![topic, name], |row| {
            let cursor: i64 = row.get(0)?;
            Ok((cursor, row.get::<_, Option<Text>>(1)?.map(|Text(token)| token), row.get::<_, Option<i64>>(2)?))
        })
        .optional()?;
    let Some((cursor, token, upto)) = found else { return Ok(Rewound::NotFound) };
    // After its end, the row keeps the token of the last rewind, and the cursor that the
    // subscription had before it.
    let (under_way, ended) = if upto.is_some() { (token, None) } else { (None, token) };
    let (ended, before) = match ended.as_deref().and_then(|ended| ended.split_once(':')) {
        Some((ended, before)) => (Some(ended.to_owned()), before.parse().unwrap_or(0)),
        None => (ended, 0),
    };
    // The entries that were read before an earlier rewind are removed as well: they may not have
    // been read again since.
    let upto = upto.unwrap_or(0).max(cursor).max(before);
    match &request.step {
        RewindStep::Look(target) => {
            let (from, _, is_short) = find(tx, topic, target)?;
            let token = under_way.or(ended).unwrap_or_default();
            Ok(Rewound::Target { from: from.to_string(), upto: upto.to_string(), is_short, token })
        }
        // A late request: the runner has sent it twice, and this rewind has ended or another one
        // has begun.
        RewindStep::Begin { token, after, .. }
            if under_way.as_ref() != Some(token) && under_way.as_ref().or(ended.as_ref()).map_or("", String::as_str) != after =>
        {
            Ok(Rewound::Other)
        }
        RewindStep::Begin { target, token, after } => {
            let (from, begin, is_short) = find(tx, topic, target)?;
            tx.sql(BEGIN)?.execute(params![topic, name, from, begin.stored(), token, upto])?;
            Ok(Rewound::Target { from: from.to_string(), upto: upto.to_string(), is_short, token: after.clone() })
        }
        RewindStep::Count(after, upto) => {
            let (entries, more) = entries(tx, topic, number(after)?, number(upto)?)?;
            Ok(passed(&entries, more))
        }
        RewindStep::End(token, _) if ended.as_ref() == Some(token) => Ok(Rewound::Ended),
        RewindStep::Cancel { token, .. } | RewindStep::Forget(_, token) | RewindStep::End(token, _)
            if under_way.as_ref() != Some(token) =>
        {
            Ok(Rewound::Other)
        }
        RewindStep::Cancel { reason, ids, .. } => {
            let queue = subscription_address(name, &request.topic);
            let (mut queue, mut cancelled) = (tx.queue_or_create(&queue)?, 0);
            for id in ids {
                cancelled += u64::from(people::cancel_waiting(tx, &mut queue, id.as_bytes(), reason.as_deref())?);
            }
            tx.save(&queue)?;
            Ok(Rewound::Cancelled(cancelled))
        }
        RewindStep::Forget(after, _) => {
            let (entries, more) = entries(tx, topic, number(after)?, upto)?;
            let queue = subscription_address(name, &request.topic);
            let mut queue = tx.queue_or_create(&queue)?;
            for (_, id) in &entries {
                forget(tx, &mut queue, id)?;
            }
            tx.save(&queue)?;
            Ok(passed(&entries, more))
        }
        RewindStep::End(..) => {
            let ended = under_way.map(|token| format!("{token}:{upto}"));
            tx.sql(END)?.execute(params![topic, name, ended])?;
            tx.hint(&subscription_address(name, &request.topic), tx.now);
            Ok(Rewound::Ended)
        }
    }
}

/// The cursor before a target, the new beginning of the subscription, and whether entries of the
/// target are gone.
fn find(tx: &Tx<'_>, topic: i64, target: &RewindTarget) -> Result<(i64, Begin, bool), Failed> {
    const LOG: &str = "SELECT added, (SELECT min(seq) FROM queue_log WHERE topic = ?1), (SELECT at FROM queue_log WHERE topic = ?1 ORDER BY seq LIMIT 1) \
         FROM queue_topics WHERE topic = ?1";
    const BEFORE: &str = "SELECT max(seq) FROM queue_log WHERE topic = ?1 AND at < ?2";
    const AT: &str = "SELECT at FROM queue_log WHERE topic = ?1 AND seq = ?2";
    let (added, first, first_at) = tx
        .sql(LOG)?
        .query_row([topic], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, Option<i64>>(2)?)))
        .optional()?
        .unwrap_or_default();
    let gone = first.map_or(added, |first| first - 1);
    Ok(match target {
        RewindTarget::At(Begin::Start) => (gone, Begin::Start, false),
        RewindTarget::At(Begin::Now) => (added, Begin::Now, false),
        RewindTarget::At(begin @ Begin::AtMs(at)) => {
            let before = tx.sql(BEFORE)?.query_row(params![topic, at], |row| row.get::<_, Option<i64>>(0))?;
            let is_short = gone > 0 && first_at.is_none_or(|first| *at < first);
            (before.unwrap_or(gone), *begin, is_short)
        }
        RewindTarget::Event(position) => {
            let seq = number(position)?;
            let at = tx.sql(AT)?.query_row([topic, seq], |row| row.get::<_, i64>(0)).optional()?;
            let begin = at.map_or(if seq > added { Begin::Now } else { Begin::Start }, Begin::AtMs);
            (seq.saturating_sub(1).clamp(gone, added), begin, seq <= gone)
        }
    })
}

fn number(position: &str) -> Result<i64, Failed> {
    position.parse().map_err(|_| Rewind::unknown(position).into())
}

/// The numbers of entries, and their ids.
type Entries = Vec<(i64, Vec<u8>)>;

/// Numbers and ids of the entries after a number, up to another one: the entries of one step, and
/// whether there may be more.
fn entries(tx: &Tx<'_>, topic: i64, after: i64, upto: i64) -> Result<(Entries, bool), Failed> {
    const ENTRIES: &str =
        "SELECT seq, id, length(id) + length(envelope) FROM queue_log WHERE topic = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4";
    let mut found = tx.sql(ENTRIES)?;
    let mut rows = found.query(params![topic, after, upto, Unsigned(TRIM_STEP)])?;
    let (mut entries, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        if bytes >= MOST_BYTES {
            return Ok((entries, true));
        }
        let (id, size): (Vec<u8>, i64) = (row.get(1)?, row.get(2)?);
        entries.push((row.get(0)?, id));
        bytes += size;
    }
    let more = entries.len() == TRIM_STEP;
    Ok((entries, more))
}

fn passed(entries: &[(i64, Vec<u8>)], more: bool) -> Rewound {
    let next = entries.last().filter(|_| more).map(|(seq, _)| seq.to_string());
    Rewound::Passed { entries: entries.len() as u64, next }
}

/// Removes all data of an event, unless its job is active.
fn forget(tx: &mut Tx<'_>, queue: &mut Queue<'_>, id: &[u8]) -> Result<(), Failed> {
    const THERE: &str = "SELECT EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND id = ?2)";
    if people::remove(tx, queue, id)? || tx.sql(THERE)?.query_row(params![queue.key, id], |row| row.get(0))? {
        return Ok(());
    }
    Ok(end::forget_given_id(tx, queue, id)?)
}
