//! What people do: look (`stats`, `workers`, `list`, `show`), and change jobs and queues.

mod cancel;
mod delete;
mod list;
mod pause;
mod promote;
mod record;
mod requeue;
mod show;
mod stats;
mod workers;

use crate::{
    address::JobId,
    broker::{Change, Changed},
    sqlite::connection::tx::{Failed, Tx},
};

pub(crate) use self::{
    list::list,
    pause::set_paused,
    show::show,
    stats::{queues, stats},
    workers::{worker_records, workers},
};

/// One answer per id, in order.
pub(crate) fn change(tx: &mut Tx<'_>, queue: &str, change: Change, ids: &[JobId]) -> Result<Vec<Changed>, Failed> {
    let Some(mut queue) = tx.queue(queue)? else { return Ok(vec![Changed::No; ids.len()]) };
    let one = match change {
        Change::Cancel => cancel::cancel,
        Change::Requeue => requeue::requeue,
        Change::Promote => promote::promote,
        Change::Delete => delete::delete,
    };
    let answers = ids.iter().map(|id| one(tx, &mut queue, id.as_bytes())).collect::<Result<_, _>>()?;
    tx.save(&queue)?;
    Ok(answers)
}
