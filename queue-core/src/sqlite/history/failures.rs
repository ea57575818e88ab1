//! The failures of a queue, by fingerprint. The table is created with the first failure.

use rusqlite::{OptionalExtension, params};

use crate::{
    broker::history::{FAILURE_PATTERNS, FailurePattern, recent},
    sqlite::connection::{
        tx::{Failed, Queue, Tx},
        unsigned::Unsigned,
    },
};

/// Adds what a worker has counted since its last report.
pub(super) fn add(tx: &mut Tx<'_>, queue: &Queue<'_>, kinds: &[FailurePattern]) -> Result<(), Failed> {
    const GET: &str = "SELECT record FROM queue_failures WHERE queue = ?1 AND fingerprint = ?2";
    const ROOM: &str = "DELETE FROM queue_failures WHERE queue = ?1 AND fingerprint IN \
        (SELECT fingerprint FROM queue_failures WHERE queue = ?1 ORDER BY seen DESC, fingerprint DESC LIMIT -1 OFFSET ?2)";
    const PUT: &str = "INSERT OR REPLACE INTO queue_failures (queue, fingerprint, seen, record) VALUES (?1, ?2, ?3, ?4)";
    for kind in kinds {
        let print = kind.fingerprint.to_string();
        let stored: Option<Vec<u8>> = tx.sql(GET)?.query_row(params![queue.key, print], |row| row.get(0)).optional()?;
        let mut failure = match stored.and_then(|failure| FailurePattern::decoded(kind.fingerprint, &failure)) {
            Some(failure) => failure,
            None => {
                tx.sql(ROOM)?.execute(params![queue.key, Unsigned(FAILURE_PATTERNS - 1)])?;
                FailurePattern::new(kind.fingerprint, "")
            }
        };
        failure.merge(kind, tx.now);
        tx.sql(PUT)?.execute(params![queue.key, print, tx.now, failure.encoded()])?;
    }
    Ok(())
}

pub(crate) fn failures(tx: &mut Tx<'_>, name: &str) -> Result<Vec<FailurePattern>, Failed> {
    const ALL: &str = "SELECT fingerprint, record FROM queue_failures WHERE queue = ?1";
    let Some(queue) = tx.queue(name)? else { return Ok(Vec::new()) };
    let mut rows = tx.sql(ALL)?;
    let rows = rows.query_map([queue.key], |row| {
        let (print, failure): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
        Ok(print.parse().ok().and_then(|print| FailurePattern::decoded(print, &failure)))
    })?;
    let kinds = rows.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    Ok(recent(kinds, tx.now))
}
