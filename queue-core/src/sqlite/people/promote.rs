//! Makes a scheduled job or a retry ready before its time.

use crate::{
    broker::Changed,
    sqlite::{
        connection::tx::{Failed, Queue, Tx},
        doors::ready,
    },
};

pub(super) fn promote(tx: &mut Tx<'_>, queue: &mut Queue<'_>, id: &[u8]) -> Result<Changed, Failed> {
    Ok(ready::promote_early(tx, queue, id)?.into())
}
