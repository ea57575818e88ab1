//! I17: the stored reports of handlers belong to runs that held the job.

use super::{
    Invariant,
    facts::{Facts, Finding, Job, broken},
    snapshot::Told,
};

pub(super) fn check(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    for (id, job) in &facts.jobs {
        for held in &job.held {
            if let Some(what) = wrong(job, &held.told, held.progress, held.state == "done") {
                broken(found, Invariant::ResultBinding, id, what);
            }
        }
    }
}

/// The log has the first lines of each run, and all lines of the run with which the job is done. It
/// has no lines of a run from after the start of the next one.
fn wrong(job: &Job<'_>, log: &[Told], progress: Option<u64>, is_done: bool) -> Option<String> {
    let mut last: Option<Told> = None;
    for line in log {
        let Told { claim, line: n, .. } = *line;
        if !job.deliveries.contains_key(&claim) {
            return Some(format!("its log has a line of claim {claim}, of which nobody knows"));
        }
        let expected = match last {
            Some(before) if before.claim == claim => before.line + 1,
            Some(before) if before.claim > claim => {
                return Some(format!("its log has a line of claim {claim} behind one of claim {}", before.claim));
            }
            _ => 0,
        };
        if n != expected {
            return Some(format!("line {n} of claim {claim} stands in its log where line {expected} should"));
        }
        last = Some(*line);
    }
    let last = last?;
    if is_done && last.line + 1 != last.of {
        return Some(format!("it is done, and its log ends with line {} of {} of claim {}", last.line, last.of, last.claim));
    }
    match progress {
        Some(claim) if claim < last.claim => {
            Some(format!("its progress is that of claim {claim}, and its log that of claim {}", last.claim))
        }
        _ => None,
    }
}
