//! Lists the jobs of a state, page by page.

use super::record::{failures, if_readable, record};
use crate::{
    broker::{JobState, StoredPage},
    sqlite::{
        connection::tx::{Failed, Tx},
        doors::page,
    },
};

pub(crate) fn list(tx: &mut Tx<'_>, queue: &str, state: JobState, from: u64, limit: usize) -> Result<StoredPage, Failed> {
    let Some(queue) = tx.queue(queue)? else { return Ok(StoredPage::default()) };
    let (found, next) = page::page(tx, &queue, state, from, limit, |row| {
        let mut job = record(tx, &queue, row)?;
        job.failures = failures(row)?;
        Ok::<_, Failed>(job.listed())
    })?;
    let found = found.into_iter().filter_map(|job| if_readable(job).transpose()).collect::<Result<_, _>>()?;
    Ok(StoredPage::new(found, next))
}
