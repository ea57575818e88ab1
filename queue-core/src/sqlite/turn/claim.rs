//! What a turn claims, in this order: parked jobs of its tasks, one suspect if the lane runs none, the line.

use crate::{
    broker::{Delivery, MAX_ITEMS, Turn},
    sqlite::{
        connection::tx::{Failed, Queue, Tx},
        doors::{
            admit::Admission,
            keys,
            row::{READY, SUSPECT, Tag},
            turns,
        },
    },
};

pub(super) fn claim(tx: &mut Tx<'_>, queue: &Queue<'_>, tag: Tag, turn: &Turn) -> Result<Vec<Delivery>, Failed> {
    let mut admission = Admission::new(tag, turn.claim.min(MAX_ITEMS));
    if admission.has_room() {
        for task in &turn.resume {
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
    let deliveries = admission.into_deliveries();
    if tx.keyed() {
        for delivery in &deliveries {
            keys::started(tx, queue, delivery.id.as_bytes())?;
        }
    }
    Ok(deliveries)
}
