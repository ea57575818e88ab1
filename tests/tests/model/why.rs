//! Why jobs wait: what the broker says of where each job stands is what the model says, and what it says is what then happens.

use std::{collections::BTreeSet, time::Duration};

use queue_conformance::model::{Model, Place};
use queue_core::{
    JobId,
    broker::{DynBroker, JobState, ProcessId, Register, Standing, Turn, WorkerInfo},
};

use super::{
    compare::{Check, same},
    step::TASK,
};

const HOUR_MS: i64 = 3_600_000;

/// What the times of a broker, which counts in microseconds, and of the model may differ by.
const SLACK_MS: i64 = 60_000;

/// Most jobs of one turn.
const ALL: usize = 500;

/// The broker's answer is that of the model.
pub(crate) async fn same_standings(model: &Model, broker: &DynBroker, queue: &str, ids: &[JobId]) -> Check {
    let found = broker.standing(queue, ids).await.map_err(|error| error.to_string())?;
    let loose = model.has_limits();
    for ((id, known), found) in ids.iter().zip(model.standing(ids)).zip(found) {
        let found = found.map(|found| without_kept_keys(model, known.as_ref(), found)).transpose()?;
        let face = |mut standing: Standing| {
            // Where a rate says when a job starts, a broker counts in microseconds: it is some hours away, to a millisecond.
            for limit in standing.line.iter_mut().flat_map(|line| &mut line.limits) {
                limit.until_ms = limit.until_ms.map(|at| (at - model.now + HOUR_MS / 2) / HOUR_MS);
            }
            let ahead = standing.line.as_ref().map(|line| line.ahead);
            // A chain that was not looked at yet may keep its group in its turn: how many groups take turns is loose then.
            let line = standing.line.map(|mut line| {
                let pause = line.group.as_mut().and_then(|group| group.pause.as_mut());
                pause.into_iter().for_each(|pause| pause.since = None);
                line
            });
            let line = line.map(|line| (if loose { 0 } else { line.groups }, line.group, line.limits));
            let state = standing.job.state;
            ((id.clone(), state, standing.paused, standing.holder, standing.lease_left_ms.map(|left| left > 0), line), ahead)
        };
        let (known, found) = (known.map(face), found.map(face));
        let (ahead, most) = (known.as_ref().and_then(|(_, ahead)| *ahead), found.as_ref().and_then(|(_, ahead)| *ahead));
        same("where a job stands", &known.map(|(face, _)| face), &found.map(|(face, _)| face))?;
        // A broker counts the tombs of those that were cancelled, too.
        if ahead > most {
            return Err(format!("{id}: {ahead:?} jobs go first, and the broker says at most {most:?}"));
        }
    }
    Ok(())
}

/// A job that was not claimed though it could start: the broker says which key it keeps for a job that costs more.
pub(crate) async fn is_kept_back(model: &Model, broker: &DynBroker, queue: &str, ids: &[JobId]) -> Check {
    for (known, found) in model.standing(ids).into_iter().zip(broker.standing(queue, ids).await.map_err(|error| error.to_string())?) {
        let found = found.ok_or("a job that could start is gone")?;
        let keys = |standing: &Standing| standing.line.as_ref().map_or(0, |line| line.limits.len());
        let said = keys(&found);
        if said == keys(&without_kept_keys(model, known.as_ref(), found.clone())?) {
            return Err(format!("{} could start, was not claimed, and the broker does not say why: {found:?}", found.job.id));
        }
    }
    Ok(())
}

/// Where a job stands, without the keys that the broker keeps for others that cost more.
fn without_kept_keys(model: &Model, known: Option<&Standing>, mut found: Standing) -> Check<Standing> {
    let known = known
        .and_then(|known| known.line.as_ref())
        .map(|line| line.limits.iter().map(|limit| (limit.key, limit.until_ms)).collect::<Vec<_>>());
    let Some((line, known)) = found.line.as_mut().zip(known) else { return Ok(found) };
    let mut kept = Vec::new();
    for mut limit in std::mem::take(&mut line.limits) {
        let own = known.iter().find(|(key, _)| *key == limit.key).map(|(_, until)| *until);
        let is_longer = |own: Option<i64>| own.zip(limit.until_ms).is_some_and(|(own, until)| until > own + SLACK_MS);
        if own.is_none_or(is_longer) {
            let latest = model.kept_until(&found.job.id, &limit.key);
            if limit.until_ms.is_none_or(|until| latest.is_none_or(|latest| until > latest + SLACK_MS)) {
                return Err(format!("{} is said to wait for {limit:?}, which is kept for nobody: {latest:?}", found.job.id));
            }
            let Some(own) = own else { continue };
            limit.until_ms = own;
        }
        kept.push(limit);
    }
    line.limits = kept;
    Ok(found)
}

/// A claim of all that there is takes no job that waits for something else than its turn, and one of all but suspects takes those that wait for nothing
/// else: a suspect goes before the other jobs of its group, and may take their last slot. Where there are limits, each of several jobs that could start may take the
/// slot or the start of the others.
pub(crate) fn foresees(model: &Model, ids: &[JobId]) -> Check {
    if model.next_end().is_some_and(|end| end <= model.now) || model.is_aside(TASK) {
        // What is paused goes on with that claim; or it parks all that it meets.
        return Ok(());
    }
    let standings: Vec<Standing> = model.standing(ids).into_iter().flatten().collect();
    let (taken, taken_without_suspects) = (claimed(model.clone(), true), claimed(model.clone(), false));
    let is_due = |job: &queue_conformance::model::Job| matches!(job.place(), Place::Scheduled(at) | Place::Retry(at) if *at <= model.now);
    let rises = |standing: &Standing| standing.job.rises_ms.is_some_and(|at| at <= model.now);
    let others_come = model.jobs.values().any(is_due) || standings.iter().any(rises);
    for standing in standings.iter().filter(|standing| standing.job.state == JobState::Ready) {
        let (id, line) = (&standing.job.id, standing.line.as_ref().ok_or("a ready job stands in a line")?);
        let closed =
            !line.limits.is_empty() || line.group.as_ref().is_some_and(|group| group.paused || group.is_full() || group.held_by.is_some());
        let room = line.group.as_ref().and_then(|group| Some(u64::from(group.cap?).saturating_sub(group.running)));
        let is_suspect = standing.job.crashes > 0;
        let (may, must) =
            (!standing.paused && !closed, room.is_none_or(|room| line.ahead < room) && !is_suspect && !others_come && !model.has_limits());
        if !may && taken.contains(id) {
            return Err(format!("{id} was said to be kept back, and is claimed: {standing:?}"));
        }
        if may && must && !taken_without_suspects.contains(id) {
            return Err(format!("{id} was said to wait for those before it alone, and is not claimed: {standing:?}"));
        }
    }
    Ok(())
}

/// What a turn of a worker with all the room takes, with a suspect or without.
fn claimed(mut model: Model, suspect: bool) -> BTreeSet<JobId> {
    let lease = Duration::from_secs(600);
    let register = Register::lane("model", ProcessId::random(), lease).with_info(WorkerInfo::default());
    let lane = model.register(&register, 1).name;
    let mut turn = Turn::new("model", lane, 1, lease);
    (turn.claim, turn.suspect) = (ALL, suspect);
    let answer = model.turn(&turn, None).expect("its lane was just registered");
    answer.deliveries.into_iter().map(|delivery| delivery.id).collect()
}
