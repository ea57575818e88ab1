//! Encodes a turn as a call of its script.

use std::{fmt::Write, time::Duration};

use redis::Cmd;

use crate::{
    broker::{Ending, Finish, LimitKey, Turn, stored_release},
    redis::{keys::Keys, script::Script, values::ms},
};

/// The positions of a turn's finishes in the order in which the script gets them.
pub(in crate::redis) type Positions = Vec<usize>;

/// Whether the plain script serves a turn: it resumes no parked jobs, and its endings are acks that
/// keep nothing.
pub(in crate::redis) fn is_plain(turn: &Turn) -> bool {
    let is_plain =
        |finish: &Finish| finish.used().is_none() && ack(finish).is_some_and(|(keep, result)| keep.is_none() && result.is_empty());
    turn.resume.is_empty() && turn.finishes.iter().all(is_plain)
}

/// Encodes a turn for one of its scripts.
pub(in crate::redis) fn turn(turn: &Turn, script: &Script, plain: bool, keys: &Keys) -> (Cmd, Positions) {
    let (mut acks, others): (Positions, Positions) = (0..turn.finishes.len()).partition(|at| ack(&turn.finishes[*at]).is_some());
    // Acks of a group are processed together by a few variadic commands.
    acks.sort_by_key(|at| group_of(&turn.finishes[*at]));
    let bytes: usize = turn.finishes.iter().map(|finish| 16 + finish.id.as_bytes().len()).sum();
    let mut call = script.call_with(keys, &turn.queue, 9 + 6 * turn.finishes.len(), 128 + bytes);
    call.arg(turn.lane.as_str()).arg(turn.seq).arg(ms(turn.lease)).arg(turn.claim);
    if !plain {
        call.arg(turn.keep.count).arg(turn.keep.bytes);
        call.arg(u8::from(turn.suspect)).arg(turn.resume.len());
        for task in &turn.resume {
            call.arg(task.as_ref());
        }
        if !turn.resume.is_empty() {
            call.arg(stored_release(turn.release.as_deref().unwrap_or_default()));
        }
        call.arg(others.len());
        for position in &others {
            let finish = &turn.finishes[*position];
            call.arg(finish.claim).arg(finish.id.as_bytes());
            write_ending(&mut call, &finish.ending);
        }
        write_used(&mut call, &turn.finishes);
    }
    for group in acks.chunk_by(|one, other| group_of(&turn.finishes[*one]) == group_of(&turn.finishes[*other])) {
        write_acks(&mut call, plain, group.iter().map(|position| &turn.finishes[*position]));
    }
    if others.is_empty() {
        return (call, acks);
    }
    (call, [others, acks].concat())
}

/// The usage of rates that runs have reported, if any: see `used.lua`.
fn write_used(call: &mut Cmd, finishes: &[Finish]) {
    let reporting = finishes.iter().filter_map(|finish| Some((finish, finish.used()?)));
    let runs = reporting.clone().count();
    if runs == 0 {
        return;
    }
    call.arg("used").arg(runs);
    for (finish, used) in reporting {
        call.arg(finish.claim).arg(finish.id.as_bytes()).arg(used.named().len() + usize::from(used.all().is_some()));
        for (limit, starts) in used.named() {
            call.arg(&LimitKey::name(limit)).arg(starts);
        }
        if let Some(starts) = used.all() {
            call.arg("").arg(starts);
        }
    }
}

/// Acks of one claim with the same retention: ids, and for the full script also results and the
/// sizes of kept jobs.
fn write_acks<'a>(call: &mut Cmd, plain: bool, group: impl ExactSizeIterator<Item = &'a Finish> + Clone) {
    let Some((claim, keep)) = group.clone().next().map(group_of) else { return };
    call.arg(claim);
    if !plain {
        call.arg(keep.map(|keep| keep.to_string()).unwrap_or_default());
    }
    call.arg(group.len());
    for finish in group.clone() {
        call.arg(finish.id.as_bytes());
    }
    if plain {
        return;
    }
    let results = group.clone().map(|finish| ack(finish).map_or(&[][..], |(_, result)| result));
    if results.clone().any(|result| !result.is_empty()) {
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

/// Acks with the same claim and retention are sent together.
fn group_of(finish: &Finish) -> (u64, Option<u64>) {
    (finish.claim, kept_ms(finish))
}

/// The sizes of jobs: one number if they are equal, or a list.
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

/// The retention of an ack's job in milliseconds, if it is kept.
fn kept_ms(finish: &Finish) -> Option<u64> {
    ack(finish).and_then(|(keep, _)| keep)
}

/// For an ack: the retention of its job in milliseconds, if it is kept, and the result.
fn ack(finish: &Finish) -> Option<(Option<u64>, &[u8])> {
    match &finish.ending {
        Ending::Ack { result, keep } => Some((retention_ms(*keep), result.as_deref().unwrap_or_default())),
        _ => None,
    }
}

fn retention_ms(keep: Option<Duration>) -> Option<u64> {
    keep.filter(|keep| !keep.is_zero()).map(ms)
}

/// Kind and two parameters.
fn write_ending(call: &mut Cmd, ending: &Ending) {
    match ending {
        Ending::Ack { .. } => unreachable!("acks travel in groups"),
        Ending::Nack { delay, error } => call.arg("nack").arg(ms(*delay)).arg(error),
        Ending::Snooze { delay } => call.arg("snooze").arg(ms(*delay)).arg(""),
        Ending::Repeat { delay } => call.arg("repeat").arg(ms(*delay)).arg(""),
        Ending::RateLimited { after, limit } => {
            call.arg("limited").arg(ms(*after));
            match limit {
                Some(name) => call.arg(&LimitKey::name(name)),
                None => call.arg(""),
            }
        }
        // The sign before the error distinguishes an empty error from none.
        Ending::Bury { reason, error } => {
            call.arg("bury").arg(reason.name()).arg(error.as_ref().map(|error| format!("!{error}")).unwrap_or_default())
        }
        Ending::Cancel { reason } => call.arg("cancel").arg(reason).arg(""),
        Ending::Expire => call.arg("expire").arg("").arg(""),
        Ending::Return | Ending::Void => call.arg("return").arg("").arg(""),
        Ending::Stopped { by_shutdown } => call.arg("return").arg(if *by_shutdown { "s" } else { "b" }).arg(""),
        Ending::Park { task } => call.arg("park").arg(task).arg(""),
        Ending::Unreadable { task, release, error, within } => {
            call.arg("unreadable").arg(format!("{}:{task}\0{}", ms(*within), stored_release(release))).arg(error)
        }
    };
}
