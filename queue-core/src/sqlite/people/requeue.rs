//! Requeues a dead, cancelled or expired job.

use crate::{
    broker::Changed,
    sqlite::{
        connection::tx::{Failed, Queue, Tx},
        doors::return_jobs,
    },
};

pub(super) fn requeue(tx: &mut Tx<'_>, queue: &mut Queue<'_>, id: &[u8]) -> Result<Changed, Failed> {
    return_jobs::requeue(tx, queue, id)
}
