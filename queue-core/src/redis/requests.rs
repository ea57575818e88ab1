//! Requests as calls of scripts.

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use redis::Cmd;

use super::{
    answers::Plain,
    keys::Keys,
    script::{ENQUEUE, ENQUEUE_READY, FAILURE_KEYS, Script, TURN, TURN_PLAIN},
};
use crate::broker::{Confirm, Due, Durability, Ending, Enqueue, Finish, MAX_BYTES, NewJob, Priority, Turn};

/// Jobs that are larger make their queue one whose claims are bounded in bytes, too.
const LARGE: usize = 2048;

/// The longest time, in milliseconds: a score is a double, which holds twice this to the millisecond. It is 140,000 years.
const FOREVER: u64 = 1 << 52;

/// Milliseconds, rounded up, so that nothing starts early.
pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(FOREVER).min(FOREVER)
}

/// What a job needs from the script: neighbours that need the same travel as one group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Ready(u8),
    Later,
    Given,
}

impl Group {
    fn of(job: &NewJob) -> Self {
        match job.due {
            _ if job.id.is_given() => Group::Given,
            Due::Now => Group::Ready(job.priority.number()),
            Due::After(_) | Due::AtMs(_) => Group::Later,
        }
    }
}

/// How long an enqueue waits to be confirmed.
const CONFIRM: Duration = Duration::from_secs(2);

/// Commands that wait until what their connection has seen is as safe as that. Their answers are read by
/// [`confirmed`](super::answers::confirmed).
///
/// They wait for half of the time that their caller has left at most, so that their answers come in time.
pub(super) fn confirm(confirm: &Confirm, until: Option<Instant>) -> Vec<Cmd> {
    let left = until.map_or(CONFIRM, |until| (until.saturating_duration_since(Instant::now()) / 2).min(CONFIRM));
    // Zero would be for ever.
    let wait = ms(left).max(1);
    let mut commands = vec![redis::cmd("WAIT")];
    commands[0].arg(confirm.replicas).arg(wait);
    if confirm.durability >= Durability::PowerLoss {
        let mut synced = redis::cmd("WAITAOF");
        synced.arg(1).arg(0).arg(wait);
        commands.push(synced);
    }
    commands
}

/// An enqueue, and the script that it calls.
pub(super) fn enqueue(request: &Enqueue, keys: &Keys) -> (&'static Script, Cmd) {
    let large = request.jobs.iter().any(|job| job.envelope.len() > LARGE);
    let ready = request.jobs.iter().all(|job| Group::of(job) == Group::Ready(Priority::Normal.number()));
    let script: &Script = if ready { &ENQUEUE_READY } else { &ENQUEUE };
    let bytes: usize = request.jobs.iter().map(|job| job.id.as_bytes().len() + job.envelope.len()).sum();
    let mut call = script.call_with(keys, &request.queue, 3 + 2 * request.jobs.len(), 64 + bytes);
    call.arg(request.producer.as_str()).arg(request.seq);
    if ready {
        for job in &request.jobs {
            call.arg(job.id.as_bytes()).arg(&job.envelope);
        }
        if large {
            call.arg("large");
        }
        return (script, call);
    }
    call.arg(if large { "large" } else { "" });
    for group in request.jobs.chunk_by(|one, other| Group::of(one) == Group::of(other)) {
        match Group::of(&group[0]) {
            Group::Ready(list) => {
                call.arg("r").arg(list).arg(group.len());
                for job in group {
                    call.arg(job.id.as_bytes()).arg(&job.envelope);
                }
            }
            Group::Later => {
                call.arg("s").arg(group.len());
                group.iter().for_each(|job| with_due(&mut call, job));
            }
            Group::Given => {
                call.arg("g").arg(group.len());
                for job in group {
                    with_due(&mut call, job);
                    call.arg(job.digest);
                }
            }
        }
    }
    (script, call)
}

fn with_due(call: &mut Cmd, job: &NewJob) {
    call.arg(job.id.as_bytes()).arg(&job.envelope).arg(job.priority.number());
    match job.due {
        Due::Now => call.arg("").arg(""),
        Due::After(delay) => call.arg(ms(delay)).arg(""),
        Due::AtMs(at) => call.arg("").arg(at.clamp(0, FOREVER.cast_signed())),
    };
}

/// A turn for a plain queue, as far as is known; none if this one brings more than acks, or the queue is not plain.
pub(super) fn plain_turn(turn: &Turn, plain: Plain, keys: &Keys) -> Option<Cmd> {
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
pub(super) type Positions = Vec<usize>;

pub(super) fn turn(turn: &Turn, keys: &Keys) -> (Cmd, Positions) {
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
