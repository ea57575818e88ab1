//! One job, with its failures and its result.

use rusqlite::params;

use super::record::record;
use crate::{
    address::JobId,
    broker::{Failure, StoredJob},
    error::Error,
    sqlite::{
        connection::{
            lenient::Bytes,
            statement::sql,
            tx::{Failed, Tx},
        },
        doors::row,
    },
};

pub(crate) fn show(tx: &mut Tx<'_>, queue: &str, id: &JobId) -> Result<Option<StoredJob>, Failed> {
    let Some(queue) = tx.queue(queue)? else { return Ok(None) };
    let mut job = tx.sql(sql!("show.sql"))?;
    let mut rows = job.query(params![queue.key, id.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut record = record(tx, row)?;
    let stored = row.get::<_, Option<Bytes>>(11)?.map(|Bytes(stored)| stored);
    let unreadable = |problem: Error| vec![Failure { at_ms: 0, message: problem.to_string() }];
    record.failures = row::failures(stored.as_deref()).unwrap_or_else(unreadable);
    record.result = row.get::<_, Option<Bytes>>(12)?.map(|Bytes(result)| result);
    Ok(Some(record))
}
