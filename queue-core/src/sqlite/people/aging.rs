//! The interval of aging of a queue.

use rusqlite::params;

use crate::{
    broker::{AgingRecord, AgingSet, SetAging},
    error::Result,
    sqlite::{
        connection::{
            operation::Commit,
            schema::Feature,
            tx::{Failed, Tx},
            unsigned::Unsigned,
            writer::Writer,
        },
        doors::aging,
    },
};

/// The number of rows that one transaction removes.
const STEP: usize = 2000;

pub(crate) async fn set_aging(writer: &Writer, request: &SetAging) -> Result<AgingSet> {
    request.check()?;
    let commit = if request.stored.is_empty() { Commit::Synced } else { Commit::Extra(256 + request.stored.len()) };
    let wanted = request.clone();
    let answer = writer.call(commit, move |tx| set(tx, &wanted)).await?;
    // Aging has ended. The rows are removed in bounded steps.
    let mut rest = answer == AgingSet::Set && AgingRecord::effective_interval(&request.stored).is_none();
    while rest {
        let queue = request.queue.clone();
        rest = writer.call(Commit::Soon, move |tx| delete_rises(tx, &queue)).await?;
    }
    Ok(answer)
}

fn set(tx: &mut Tx<'_>, request: &SetAging) -> std::result::Result<AgingSet, Failed> {
    const STORE: &str = "INSERT OR REPLACE INTO queue_aging (queue, stored) VALUES (?1, ?2)";
    const REMOVE: &str = "DELETE FROM queue_aging WHERE queue = ?1";
    let queue = tx.queue_or_create(&request.queue)?;
    let stored = aging::stored(tx, &queue)?;
    if stored == request.stored {
        return Ok(AgingSet::Set);
    }
    if stored != request.expected {
        return Ok(AgingSet::Stale(stored));
    }
    tx.note(Feature::Aging)?;
    if request.stored.is_empty() {
        tx.sql(REMOVE)?.execute([queue.key])?;
    } else {
        tx.sql(STORE)?.execute(params![queue.key, request.stored])?;
    }
    Ok(AgingSet::Set)
}

/// Removes some rows of `queue_rising`. Returns whether there are more.
fn delete_rises(tx: &mut Tx<'_>, queue: &str) -> std::result::Result<bool, Failed> {
    const FORGET: &str = "DELETE FROM queue_rising WHERE queue = ?1 AND id IN (SELECT id FROM queue_rising WHERE queue = ?1 LIMIT ?2)";
    let Some(queue) = tx.queue(queue)? else { return Ok(false) };
    // An operator may have set the interval again.
    if AgingRecord::effective_interval(&aging::stored(tx, &queue)?).is_some() {
        return Ok(false);
    }
    Ok(tx.sql(FORGET)?.execute(params![queue.key, Unsigned(STEP)])? == STEP)
}
