//! Ends a delivery: removes it by `settle`, and continues with `back` or `end`.

use crate::{
    broker::{Ending, Finish, KeepLimits, WATCHED_KEEP},
    sqlite::{
        connection::tx::{Failed, Queue, Tx},
        doors::{
            back,
            end::{self, Kept},
            limits,
            row::Receipt,
            settle, watched,
        },
        schedule,
    },
};

/// Applies one ending. False: it is stale, and has changed nothing.
pub(super) fn finish(
    tx: &mut Tx<'_>,
    queue: &mut Queue<'_>,
    receipt: Receipt,
    finish: &Finish,
    limits: KeepLimits,
) -> Result<bool, Failed> {
    let id = finish.id.as_bytes();
    // A caller that waits for a job without a record needs its result for a while.
    let waits = matches!(finish.ending, Ending::Ack { .. }) && watched::is_watched(tx, queue, id)?;
    let used = finish.used();
    if let (Ending::Ack { keep: None, .. }, false, false, None) = (&finish.ending, finish.id.is_given(), waits, used) {
        return end::acked(tx, queue, receipt, id);
    }
    let ran =
        !matches!(finish.ending, Ending::Return | Ending::Stopped { .. } | Ending::Void | Ending::Park { .. } | Ending::Unreadable { .. });
    let Some(job) = settle::holder(tx, queue, receipt, id, ran)? else { return Ok(false) };
    if !finish.ending.has_started() {
        limits::refund(tx, queue, id)?;
    } else if let Some(used) = used {
        limits::correct(tx, queue, id, used)?;
    }
    let stays = matches!(finish.ending, Ending::Ack { .. } | Ending::Bury { .. } | Ending::Cancel { .. } | Ending::Expire);
    if !stays && schedule::is_stopped(tx, queue, id)? {
        end::cancelled(tx, queue, job, Some(schedule::STOPPED))?;
        return Ok(true);
    }
    match &finish.ending {
        Ending::Ack { result, keep } => {
            let keep = keep.filter(|keep| !keep.is_zero()).or(waits.then_some(WATCHED_KEEP));
            let kept = keep.map(|keep| Kept { keep, result: result.as_deref(), limits });
            end::done(tx, queue, job, kept.as_ref())?;
        }
        Ending::Nack { delay, error } => {
            settle::fail(tx, queue, &job, error)?;
            back::retry(tx, queue, job, *delay)?;
        }
        Ending::Snooze { delay } => back::snooze(tx, queue, job, *delay)?,
        Ending::RateLimited { after, limit } => back::limited(tx, queue, job, *after, limit.as_deref())?,
        Ending::Repeat { delay } => back::repeat(tx, queue, job, *delay)?,
        Ending::Bury { reason, error } => {
            if let Some(error) = error {
                settle::fail(tx, queue, &job, error)?;
            }
            end::bury(tx, queue, job, *reason)?;
        }
        Ending::Cancel { reason } => end::cancelled(tx, queue, job, Some(reason))?,
        Ending::Expire => end::expired(tx, queue, job)?,
        Ending::Stopped { by_shutdown } => {
            if *by_shutdown {
                back::count_return(tx, queue, &job)?;
            }
            back::return_to_head(tx, queue, job, true)?;
        }
        Ending::Return | Ending::Void => back::return_to_head(tx, queue, job, true)?,
        Ending::Park { task } => back::park(tx, queue, job, task)?,
        Ending::Unreadable { task, release, error, within } => {
            settle::unread(tx, queue, &job, error)?;
            back::unreadable(tx, queue, job, (task, release), *within)?;
        }
    }
    Ok(true)
}
