//! Requests of operators: reads (`stats`, `workers`, `list`, `show`), and changes of jobs and
//! queues.

mod aging;
mod cancel;
mod delete;
mod diagnose;
mod edit;
mod keys;
mod list;
mod pause;
mod promote;
mod record;
mod requeue;
mod scan;
mod show;
mod stats;
mod workers;

use crate::{
    address::JobId,
    broker::{Change, Changed},
    sqlite::connection::tx::{Failed, Tx},
};

pub(crate) use self::{
    aging::set_aging,
    cancel::cancel_waiting,
    delete::remove,
    diagnose::diagnose,
    edit::edit,
    keys::{key_holder, release_key},
    list::list,
    pause::{pauses, set_pause},
    scan::scan,
    show::{follow, read_job, show, transitions, watch},
    stats::{oldest_age, queues, stats},
    workers::{ask_worker, workers},
};

/// One answer per id, in order.
pub(crate) fn change(tx: &mut Tx<'_>, queue: &str, change: Change, reason: Option<&str>, ids: &[JobId]) -> Result<Vec<Changed>, Failed> {
    let Some(mut queue) = tx.queue(queue)? else { return Ok(vec![Changed::No; ids.len()]) };
    let mut one = |id: &[u8]| match change {
        Change::Cancel => cancel::cancel(tx, &mut queue, id, reason),
        Change::Requeue => requeue::requeue(tx, &mut queue, id),
        Change::Promote => promote::promote(tx, &mut queue, id),
        Change::Delete => delete::delete(tx, &mut queue, id),
    };
    let answers = ids.iter().map(|id| one(id.as_bytes())).collect::<Result<_, _>>()?;
    tx.save(&queue)?;
    Ok(answers)
}
