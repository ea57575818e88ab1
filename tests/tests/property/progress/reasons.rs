//! What `why` reports of jobs, and what may follow from it: the properties of its reports.

use std::{collections::BTreeSet, time::SystemTime};

use queue_core::{
    JobId, JobState,
    inspect::{JobRecord, Reason},
};

use super::snapshot::{Claim, Snapshot};

/// Whether a claim that comes now does not start the job, whichever lane it is of. What is missing
/// are not workers: the lane that claims is one.
fn blocks(reason: &Reason, now: SystemTime, claim: Option<&Claim>) -> bool {
    let takes = |id: &JobId| claim.is_some_and(|claim| claim.got.iter().any(|job| job.id == *id));
    match reason {
        // A claim moves first what is due.
        Reason::NotDue { until } | Reason::Retry { until, .. } => until.is_none_or(|until| until > now),
        // A key may be held until its job starts, and the next job of the key starts with the same
        // claim.
        Reason::KeyHeld { holder, .. } => !holder.as_ref().is_some_and(takes),
        // The line is free once its holder is set aside.
        Reason::OutOfOrder { .. } => !claim.is_some_and(|claim| claim.has_parked),
        Reason::Suspect { .. } => claim.is_some_and(|claim| !claim.suspect),
        Reason::QueuePaused { .. }
        | Reason::TaskPaused { .. }
        | Reason::GroupPaused { .. }
        | Reason::GroupFull { .. }
        | Reason::LimitFull { .. }
        | Reason::RateLimited { .. }
        | Reason::Runs(_)
        | Reason::Reclaiming { .. }
        | Reason::Ended { .. } => true,
        _ => false,
    }
}

/// A claim starts no job that was reported as blocked just before.
pub(crate) fn starts_no_blocked(reports: &[JobRecord], now: SystemTime, claim: &Claim) -> Result<(), String> {
    let got: BTreeSet<&JobId> = claim.got.iter().map(|job| &job.id).collect();
    for report in reports.iter().filter(|report| got.contains(&report.address.id)) {
        // A parked job starts only in a lane that names its task.
        let blocking = report.waiting.iter().find(|reason| blocks(reason, now, Some(claim)));
        if blocking.is_some() || report.state == JobState::Parked {
            return Err(format!("a claim has started a job that was reported as {}: {:?}", report.state, report.waiting));
        }
    }
    Ok(())
}

/// A ready job is reported as blocked if it may not start, and only then. Of an ordered group whose
/// line nobody holds, those behind the first are not.
pub(crate) fn agree(reports: &[JobRecord], now: SystemTime, snapshot: &Snapshot) -> Result<(), String> {
    for job in &snapshot.ready {
        let report = reports.iter().find(|report| report.address.id == job.id).ok_or_else(|| format!("{job:?} is not reported"))?;
        let is_blocked = report.waiting.iter().any(|reason| blocks(reason, now, None));
        if is_blocked == snapshot.is_open(job) {
            let may = if is_blocked { "may start" } else { "may not start" };
            return Err(format!("{job:?} {may}, and is reported as {:?}", report.waiting));
        }
    }
    Ok(())
}
