//! Edits a waiting job.

use crate::{
    broker::{EditJob, EditedJob},
    sqlite::{
        connection::tx::{Failed, Tx},
        doors::edit,
    },
};

pub(crate) fn edit(tx: &mut Tx<'_>, request: &EditJob) -> Result<EditedJob, Failed> {
    let Some(queue) = tx.queue(&request.queue)? else { return Ok(EditedJob::Missing) };
    let answer = edit::edit(tx, &queue, request)?;
    tx.save(&queue)?;
    Ok(answer)
}
