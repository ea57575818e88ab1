//! Ends a delivery: removes it by `settle`, and continues with `return_jobs` or `end`.

use crate::{
    broker::{Ending, Finish, KeepLimits, WATCHED_KEEP},
    sqlite::{
        connection::tx::{Failed, Queue, Tx},
        doors::{
            end::{self, Kept},
            limits, return_jobs,
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
        return end::ack_and_delete(tx, queue, receipt, id);
    }
    let ran =
        !matches!(finish.ending, Ending::Return | Ending::Stopped { .. } | Ending::Void | Ending::Park { .. } | Ending::Unreadable { .. });
    let Some(job) = settle::settle_by_holder(tx, queue, receipt, id, ran)? else { return Ok(false) };
    if !finish.ending.has_started() {
        limits::refund(tx, queue, id)?;
    } else if let Some(used) = used {
        limits::correct(tx, queue, id, used)?;
    }
    let stays = matches!(finish.ending, Ending::Ack { .. } | Ending::Bury { .. } | Ending::Cancel { .. } | Ending::Expire);
    if !stays && schedule::is_stopped(tx, queue, id)? {
        end::cancel(tx, queue, job, Some(schedule::STOPPED))?;
        return Ok(true);
    }
    match &finish.ending {
        Ending::Ack { result, keep } => {
            let keep = keep.filter(|keep| !keep.is_zero()).or(waits.then_some(WATCHED_KEEP));
            let kept = keep.map(|keep| Kept { keep, result: result.as_deref(), limits });
            end::complete(tx, queue, job, kept.as_ref())?;
        }
        Ending::Nack { delay, error } => {
            settle::record_failure(tx, queue, &job, error)?;
            return_jobs::retry(tx, queue, job, *delay)?;
        }
        Ending::Snooze { delay } => return_jobs::snooze(tx, queue, job, *delay)?,
        Ending::RateLimited { after, limit } => return_jobs::return_rate_limited(tx, queue, job, *after, limit.as_deref())?,
        Ending::Repeat { delay } => return_jobs::repeat(tx, queue, job, *delay)?,
        Ending::Bury { reason, error } => {
            if let Some(error) = error {
                settle::record_failure(tx, queue, &job, error)?;
            }
            end::bury(tx, queue, job, *reason)?;
        }
        Ending::Cancel { reason } => end::cancel(tx, queue, job, Some(reason))?,
        Ending::Expire => end::expire(tx, queue, job)?,
        Ending::Stopped { by_shutdown } => {
            if *by_shutdown {
                return_jobs::count_return(tx, queue, &job)?;
            }
            return_jobs::return_to_head(tx, queue, job, true)?;
        }
        Ending::Return | Ending::Void => return_jobs::return_to_head(tx, queue, job, true)?,
        Ending::Park { task } => return_jobs::park(tx, queue, job, task)?,
        Ending::Unreadable { task, release, error, within } => {
            settle::record_unreadable(tx, queue, &job, error)?;
            return_jobs::park_unreadable(tx, queue, job, (task, release), *within)?;
        }
    }
    Ok(true)
}
