//! The jobs that a turn claims, in this order: parked jobs of its tasks, one suspect if the lane
//! runs none, the line.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    address::JobId,
    broker::{CLAIM_STEPS, Delivery, LIMIT_STEP, MAX_ITEMS, Turn},
    sqlite::{
        connection::tx::{Failed, Queue, Tx},
        doors::{
            admit::Admission,
            keys,
            ledger::Ledger,
            limits, pauses, ready, return_jobs, rotation,
            row::{READY, Receipt, SUSPECT},
            settle, transitions,
        },
    },
};

/// The cost of a round without the entries that it examines.
const ROUND: usize = 20;

/// The cost of each job that is parked.
const PARKED: usize = 4;

/// The claimed jobs of a turn.
#[derive(Default)]
pub(super) struct Claimed {
    pub(super) deliveries: Vec<Delivery>,
    /// The jobs that were parked because their tasks are paused.
    pub(super) aside: Vec<JobId>,
    /// Whether jobs and suspects wait, if the last round has checked.
    pub(super) waits: Option<(bool, bool)>,
}

/// The claim starts another round if a round found no job although jobs may wait, or if it parked
/// jobs of paused tasks. The jobs that a round skipped or parked do not hinder the next round. The
/// rounds of a claim cost at most [`CLAIM_STEPS`] in total.
pub(super) fn claim(tx: &mut Tx<'_>, queue: &Queue<'_>, receipt: Receipt, turn: &Turn) -> Result<Claimed, Failed> {
    let paused = pauses::tasks(tx, queue)?;
    let (mut claimed, mut spent) = (Claimed::default(), 0);
    let wanted = turn.claim.min(MAX_ITEMS);
    loop {
        let mut admission = Admission::new(receipt, wanted - claimed.deliveries.len());
        let may_suspect = turn.suspect && claimed.deliveries.iter().all(|delivery| delivery.crashes == 0);
        if admission.has_room() && spent == 0 {
            for task in turn.resume.iter().filter(|task| !paused.contains_key(*task)) {
                admission.take_parked(tx, queue, task, turn.release.as_deref().unwrap_or_default(), turn.suspect)?;
            }
        }
        take(tx, queue, &mut admission, may_suspect)?;
        let suspects = if queue.doubted.get() == Some(true) { LIMIT_STEP } else { 0 };
        let (is_full, examined) = (admission.is_full(), admission.examined() + suspects);
        let before = claimed.aside.len();
        aside(tx, queue, receipt, &paused, admission.into_deliveries(), &mut claimed)?;
        let parked = claimed.aside.len() - before;
        let has_found = !claimed.deliveries.is_empty();
        if claimed.deliveries.len() >= wanted || has_found && (is_full || parked == 0) {
            break;
        }
        claimed.waits = Some(ready::has_waiting(tx, queue)?);
        let may_wait = claimed.waits.is_some_and(|(jobs, suspects)| jobs || turn.suspect && suspects);
        if !may_wait && parked == 0 {
            break;
        }
        spent += ROUND + PARKED * parked + examined;
        if spent >= CLAIM_STEPS {
            break;
        }
        queue.doubted.set(None);
        claimed.waits = None;
    }
    for delivery in &claimed.deliveries {
        // Its start may have made the next job of its unique key ready.
        claimed.waits = None;
        if tx.may_have_keys() {
            keys::release_at_start(tx, queue, delivery.id.as_bytes())?;
        }
    }
    Ok(claimed)
}

/// One suspect if the lane runs none, and the line.
fn take(tx: &mut Tx<'_>, queue: &Queue<'_>, admission: &mut Admission, may_suspect: bool) -> Result<(), Failed> {
    if admission.has_room() && may_suspect && !admission.has_suspect() {
        admission.take(tx, queue, SUSPECT, 1)?;
        if !admission.has_suspect() && admission.has_room() {
            rotation::take_suspect(tx, queue, admission)?;
        }
    }
    if admission.has_room() && tx.may_have_limits() {
        rotation::take_limited(tx, queue, admission)?;
    } else if !admission.has_room() || !rotation::take(tx, queue, admission, Ledger::default())? {
        admission.take(tx, queue, READY, MAX_ITEMS)?;
    }
    Ok(())
}

/// Parks the jobs of paused tasks, as if a worker that does not know the task had ended them with
/// park.
fn aside(
    tx: &mut Tx<'_>,
    queue: &Queue<'_>,
    receipt: Receipt,
    paused: &BTreeMap<Arc<str>, String>,
    deliveries: Vec<Delivery>,
    claimed: &mut Claimed,
) -> Result<(), Failed> {
    if paused.is_empty() && claimed.deliveries.is_empty() {
        claimed.deliveries = deliveries;
        return Ok(());
    }
    for delivery in deliveries {
        let task = task_of(&delivery.envelope).filter(|task| paused.contains_key(*task)).map(str::to_owned);
        let Some(task) = task else {
            claimed.deliveries.push(delivery);
            continue;
        };
        if let Some(job) = settle::settle_by_holder(tx, queue, receipt, delivery.id.as_bytes(), false)? {
            limits::refund(tx, queue, delivery.id.as_bytes())?;
            return_jobs::park_paused(tx, queue, job, &task)?;
            transitions::merge_into_parked(tx, queue, delivery.id.as_bytes())?;
        }
        claimed.aside.push(delivery.id);
    }
    Ok(())
}

/// The name of the task at the beginning of an envelope.
fn task_of(envelope: &[u8]) -> Option<&str> {
    let length = usize::from(*envelope.get(1)?);
    std::str::from_utf8(envelope.get(2..2 + length)?).ok()
}
