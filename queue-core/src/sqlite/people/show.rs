//! One job, with its failures and its result.

use rusqlite::params;

use super::record::{failures, record};
use crate::{
    address::JobId,
    broker::StoredJob,
    sqlite::{
        connection::{
            lenient::Bytes,
            statement::sql,
            tx::{Failed, Queue, Tx},
        },
        doors::watched,
    },
};

/// The same of a job for whose end somebody waits.
pub(crate) fn watch(tx: &mut Tx<'_>, queue: &str, id: &JobId) -> Result<Option<StoredJob>, Failed> {
    if let Some(queue) = tx.queue(queue)? {
        watched::watch(tx, &queue, id)?;
    }
    show(tx, queue, id)
}

pub(crate) fn show(tx: &mut Tx<'_>, queue: &str, id: &JobId) -> Result<Option<StoredJob>, Failed> {
    match tx.queue(queue)? {
        Some(queue) => shown(tx, &queue, id),
        None => Ok(None),
    }
}

pub(crate) fn shown(tx: &Tx<'_>, queue: &Queue<'_>, id: &JobId) -> Result<Option<StoredJob>, Failed> {
    let mut job = tx.sql(sql!("show.sql"))?;
    let mut rows = job.query(params![queue.key, id.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut record = record(tx, queue, row)?;
    record.failures = failures(row)?;
    record.result = row.get::<_, Option<Bytes>>(12)?.map(|Bytes(result)| result);
    Ok(Some(record))
}
