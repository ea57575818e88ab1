//! A turn as a call of its script.

use std::{fmt::Write, time::Duration};

use redis::Cmd;

use super::answer::Plain;
use crate::{
    broker::{Ending, Finish, MAX_BYTES, Turn},
    redis::{
        keys::Keys,
        script::{FAILURE_KEYS, TURN, TURN_PLAIN},
        values::ms,
    },
};

/// A turn for a plain queue, as far as is known; none if this one brings more than acks, or the queue is not plain.
pub(in crate::redis) fn plain_turn(turn: &Turn, plain: Plain, keys: &Keys) -> Option<Cmd> {
    if plain == Plain::No || !turn.resume.is_empty() || !turn.finishes.iter().all(|finish| ack(finish).is_some()) {
        return None;
    }
    let mut acks: Vec<&Finish> = turn.finishes.iter().collect();
    acks.sort_by_key(|finish| group_of(finish));
    let keeps = plain == Plain::Kept || acks.iter().any(|finish| kept(finish).is_some());
    let (used, arguments) = match (keeps, plain == Plain::Failed) {
        (true, _) => (TURN_PLAIN.keys.len(), 6 + 6 * acks.len()),
        (false, true) => (FAILURE_KEYS.end, 4 + 3 * acks.len()),
        (false, false) => (FAILURE_KEYS.start, 4 + 3 * acks.len()),
    };
    let bytes: usize = acks.iter().map(|finish| 16 + finish.id.as_bytes().len()).sum();
    let mut call = TURN_PLAIN.call_with_first(used, keys, &turn.queue, arguments, 128 + bytes);
    call.arg(turn.worker.as_str()).arg(turn.seq).arg(ms(turn.lease)).arg(turn.claim);
    if keeps {
        call.arg(turn.keep.count).arg(turn.keep.bytes);
    }
    for group in acks.chunk_by(|one, other| group_of(one) == group_of(other)) {
        if keeps {
            acks_of_a_group(&mut call, group.iter().copied());
            continue;
        }
        call.arg(group[0].claim).arg(group.len());
        for finish in group {
            call.arg(finish.id.as_bytes());
        }
    }
    Some(call)
}

/// The positions of a turn's finishes in the order in which the script gets them.
pub(in crate::redis) type Positions = Vec<usize>;

pub(in crate::redis) fn turn(turn: &Turn, keys: &Keys) -> (Cmd, Positions) {
    let mut call = TURN.call(keys, &turn.queue);
    call.arg(turn.worker.as_str()).arg(turn.seq).arg(ms(turn.lease)).arg(turn.claim).arg(u8::from(turn.suspect));
    call.arg(MAX_BYTES).arg(turn.keep.count).arg(turn.keep.bytes);
    call.arg(turn.resume.len());
    for task in &turn.resume {
        call.arg(task.as_ref());
    }
    // The common end, an ack, is a few variadic commands per claim.
    let (mut acks, others): (Positions, Positions) = (0..turn.finishes.len()).partition(|at| ack(&turn.finishes[*at]).is_some());
    acks.sort_by_key(|at| group_of(&turn.finishes[*at]));
    let groups: Vec<&[usize]> = acks.chunk_by(|one, other| group_of(&turn.finishes[*one]) == group_of(&turn.finishes[*other])).collect();
    let keeping = groups.iter().filter(|group| kept(&turn.finishes[group[0]]).is_some()).count();
    call.arg(groups.len()).arg(keeping).arg(others.len());
    for group in groups {
        acks_of_a_group(&mut call, group.iter().map(|position| &turn.finishes[*position]));
    }
    for position in &others {
        let finish = &turn.finishes[*position];
        call.arg(finish.claim).arg(finish.id.as_bytes());
        ending(&mut call, &finish.ending);
    }
    acks.extend(others);
    (call, acks)
}

/// Acks of one claim that are kept equally long: ids, results, and sizes of what is kept.
fn acks_of_a_group<'a>(call: &mut Cmd, group: impl ExactSizeIterator<Item = &'a Finish> + Clone) {
    let Some((claim, keep)) = group.clone().next().map(group_of) else { return };
    call.arg(claim).arg(keep.map(|keep| keep.to_string()).unwrap_or_default()).arg(group.len());
    for finish in group.clone() {
        call.arg(finish.id.as_bytes());
    }
    let results = group.clone().map(|finish| ack(finish).map_or(&[][..], |(_, result)| result));
    if keep.is_some() && results.clone().any(|result| !result.is_empty()) {
        call.arg(group.len());
        results.for_each(|result| {
            call.arg(result);
        });
    } else {
        call.arg(0);
    }
    if keep.is_some() {
        call.arg(sizes(group.map(|finish| finish.size)));
    }
}

/// Acks that have this in common travel together.
fn group_of(finish: &Finish) -> (u64, Option<u64>) {
    (finish.claim, kept(finish))
}

/// Of jobs that are mostly of one size: that, or each of theirs.
fn sizes(sizes: impl Iterator<Item = usize> + Clone) -> String {
    let first = sizes.clone().next().unwrap_or_default();
    if sizes.clone().all(|size| size == first) {
        return first.to_string();
    }
    sizes.fold(String::new(), |mut all, size| {
        let _ = write!(all, "{}{size}", if all.is_empty() { "" } else { "," });
        all
    })
}

/// How many milliseconds the job of an ack is kept, if at all.
fn kept(finish: &Finish) -> Option<u64> {
    ack(finish).and_then(|(keep, _)| keep)
}

/// Of an ack: how many milliseconds its job is kept, if at all, and the result.
fn ack(finish: &Finish) -> Option<(Option<u64>, &[u8])> {
    match &finish.ending {
        Ending::Ack { result, keep } => Some((kept_for(*keep), result.as_deref().unwrap_or_default())),
        _ => None,
    }
}

fn kept_for(keep: Option<Duration>) -> Option<u64> {
    keep.filter(|keep| !keep.is_zero()).map(ms)
}

/// Kind and two parameters.
fn ending(call: &mut Cmd, ending: &Ending) {
    match ending {
        Ending::Ack { .. } => unreachable!("acks travel in groups"),
        Ending::Nack { delay, error } => call.arg("nack").arg(ms(*delay)).arg(error),
        Ending::Snooze { delay } => call.arg("snooze").arg(ms(*delay)).arg(""),
        Ending::Repeat { delay } => call.arg("repeat").arg(ms(*delay)).arg(""),
        // The sign before the error tells an empty one from none.
        Ending::Bury { reason, error } => {
            call.arg("bury").arg(reason.name()).arg(error.as_ref().map(|error| format!("!{error}")).unwrap_or_default())
        }
        Ending::Cancel { reason } => call.arg("cancel").arg(reason).arg(""),
        Ending::Expire => call.arg("expire").arg("").arg(""),
        Ending::Release | Ending::Void => call.arg("release").arg("").arg(""),
        Ending::Park { task } => call.arg("park").arg(task).arg(""),
    };
}
