//! What a turn claims, in this order: parked jobs of its tasks, one suspect if the lane runs none, the line.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    address::JobId,
    broker::{Delivery, MAX_ITEMS, Turn},
    sqlite::{
        connection::tx::{Failed, Queue, Tx},
        doors::{
            admit::Admission,
            back, keys, limits, pauses,
            row::{READY, SUSPECT, Tag},
            settle, transitions, turns,
        },
    },
};

/// Gives the deliveries, and the jobs that were parked because their tasks are paused.
pub(super) fn claim(tx: &mut Tx<'_>, queue: &Queue<'_>, tag: Tag, turn: &Turn) -> Result<(Vec<Delivery>, Vec<JobId>), Failed> {
    let paused = pauses::tasks(tx, queue)?;
    let mut admission = Admission::new(tag, turn.claim.min(MAX_ITEMS));
    if admission.has_room() {
        for task in turn.resume.iter().filter(|task| !paused.contains_key(*task)) {
            admission.take_parked(tx, queue, task, turn.release.as_deref().unwrap_or_default(), turn.suspect)?;
        }
        if turn.suspect && !admission.has_suspect() {
            admission.take(tx, queue, SUSPECT, 1)?;
            if !admission.has_suspect() && admission.has_room() {
                turns::take_suspect(tx, queue, &mut admission)?;
            }
        }
        if admission.has_room() && tx.limited() {
            turns::take_limited(tx, queue, &mut admission)?;
        } else if !admission.has_room() || !turns::take(tx, queue, &mut admission)? {
            admission.take(tx, queue, READY, MAX_ITEMS)?;
        }
    }
    let (deliveries, asides) = if paused.is_empty() {
        (admission.into_deliveries(), Vec::new())
    } else {
        aside(tx, queue, tag, &paused, admission.into_deliveries())?
    };
    if tx.keyed() {
        for delivery in &deliveries {
            keys::started(tx, queue, delivery.id.as_bytes())?;
        }
    }
    Ok((deliveries, asides))
}

/// Parks the jobs of paused tasks, as if a worker that does not know them had given them back.
fn aside(
    tx: &mut Tx<'_>,
    queue: &Queue<'_>,
    tag: Tag,
    paused: &BTreeMap<Arc<str>, String>,
    claimed: Vec<Delivery>,
) -> Result<(Vec<Delivery>, Vec<JobId>), Failed> {
    let (mut deliveries, mut asides) = (Vec::new(), Vec::new());
    for delivery in claimed {
        let task = task_of(&delivery.envelope).filter(|task| paused.contains_key(*task)).map(str::to_owned);
        let Some(task) = task else {
            deliveries.push(delivery);
            continue;
        };
        if let Some(job) = settle::holder(tx, queue, tag, delivery.id.as_bytes(), false)? {
            limits::refund(tx, queue, delivery.id.as_bytes())?;
            back::aside(tx, queue, job, &task)?;
            transitions::never_started(tx, queue, delivery.id.as_bytes())?;
        }
        asides.push(delivery.id);
    }
    Ok((deliveries, asides))
}

/// The name of a task, as it stands at the beginning of an envelope.
fn task_of(envelope: &[u8]) -> Option<&str> {
    let length = usize::from(*envelope.get(1)?);
    std::str::from_utf8(envelope.get(2..2 + length)?).ok()
}
