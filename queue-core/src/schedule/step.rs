//! The effect of due ticks. A pure function of the definition, the state and the broker's time. The
//! caller stores the result if the state has not changed since.

use queue_calendar::Overlap;

use super::rules::ReadRules;
use crate::{
    address::JobId,
    broker::{GroupName, JobLimits, NewJob, Priority, ScheduleBody, ScheduleEvent, ScheduleState, TickJob},
    envelope::Envelope,
    error::Result,
    observe::spans,
};

/// The decision.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// The jobs to be stored.
    pub(super) jobs: Vec<TickJob>,
    /// The job to be cancelled.
    pub(super) stop: Option<JobId>,
    /// The time of the next check of the schedule.
    pub(super) due_ms: Option<i64>,
    /// How late each tick is that is made, in milliseconds.
    pub(super) late_ms: Vec<i64>,
    /// How many ticks are skipped.
    pub(super) skipped: u64,
}

/// Which schedule.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) queue: &'a str,
    pub(super) name: &'a str,
    pub(super) body: &'a ScheduleBody,
}

/// Makes the ticks that are due, by the overlap policy of the schedule, in the state.
pub(super) fn step(of: Of<'_>, state: &mut ScheduleState, now_ms: i64) -> Result<Step> {
    let rules = ReadRules::of(of.name, of.body)?;
    let mut step = Step::default();
    if state.paused.is_some() {
        return Ok(step);
    }
    let plan = rules.plan(state.next_ms, now_ms);
    if let Some(missed) = plan.skipped {
        step.skip(state, now_ms, "skipped: missed", (missed.from_ms, missed.to_ms, missed.ticks));
    }
    let mut ticks = Vec::new();
    if let Some(waited) = state.buffered_ms.filter(|_| state.running.is_none()) {
        state.buffered_ms = None;
        if rules.is_too_old(waited, now_ms) {
            step.skip(state, now_ms, "skipped: it waited too long", (waited, waited, 1));
        } else {
            ticks.push((waited, false));
        }
    }
    ticks.extend(plan.make.iter().map(|tick| (*tick, true)));
    state.next_ms = plan.next_ms;
    for (tick, is_new) in ticks {
        if is_over(of.body, state) {
            break;
        }
        let overlaps = state.running.is_some();
        match rules.overlap {
            Overlap::Skip if overlaps => step.skip(state, now_ms, "skipped: the last job has not ended", (tick, tick, 1)),
            Overlap::BufferOne if overlaps && state.buffered_ms.is_some() => {
                step.skip(state, now_ms, "skipped: another tick waits already", (tick, tick, 1));
            }
            Overlap::BufferOne if overlaps => state.buffered_ms = Some(tick),
            Overlap::CancelRunning if overlaps => {
                if let Some(older) = state.buffered_ms.replace(tick) {
                    step.skip(state, now_ms, "skipped: a newer tick took its place", (older, older, 1));
                }
                step.stop = running_id(state);
            }
            _ => {
                let id = JobId::of_tick(of.queue, of.name, tick, 0);
                let run = state.begun(tick, id.to_string());
                (state.running, state.last_ms) = (Some(run), Some(tick));
                state.made += 1;
                let (job, trace) = job(of, id, tick, now_ms, state.trace.as_deref())?;
                state.trace = trace.or(state.trace.take());
                step.jobs.push(TickJob { job, run, remembered: false });
                if is_new {
                    step.late_ms.push(now_ms - rules.due(tick));
                }
            }
        }
    }
    // A job that is stored only now is not one to be cancelled by a tick of the same step.
    if step.jobs.iter().any(|tick| Some(&tick.job.id) == step.stop.as_ref()) {
        step.stop = None;
    }
    if is_over(of.body, state) {
        (state.next_ms, state.buffered_ms) = (None, None);
    }
    step.due_ms = due(&rules, state, now_ms);
    Ok(step)
}

impl Step {
    fn skip(&mut self, state: &mut ScheduleState, now_ms: i64, why: &str, (from_ms, to_ms, ticks): (i64, i64, u64)) {
        self.skipped += ticks;
        state.skipped += ticks;
        state.happened(ScheduleEvent(now_ms, why.to_owned(), from_ms, to_ms, ticks));
    }
}

/// The time of the next check of a schedule.
pub(super) fn due(rules: &ReadRules<'_>, state: &ScheduleState, now_ms: i64) -> Option<i64> {
    match state {
        ScheduleState { paused: Some(_), .. } => None,
        ScheduleState { buffered_ms: Some(_), running: None, .. } => Some(now_ms),
        _ => state.next_ms.map(|tick| rules.due(tick)),
    }
}

/// Whether all ticks were made that were to be made.
pub(super) fn is_over(body: &ScheduleBody, state: &ScheduleState) -> bool {
    body.most.is_some_and(|most| state.made >= most)
}

/// The id of the job of the last tick, if that has not ended.
pub(super) fn running_id(state: &ScheduleState) -> Option<JobId> {
    let running = state.running?;
    state.last_runs.iter().find(|run| run.0 == running)?.2.parse().ok()
}

/// The job of a tick, and the header that names its trace. It is not the trace in which the
/// schedule was defined: that would never end. `last` names the trace of the tick before.
pub(super) fn job(of: Of<'_>, id: JobId, tick_ms: i64, now_ms: i64, last: Option<&str>) -> Result<(NewJob, Option<String>)> {
    let mut envelope = Envelope::decode(&of.body.envelope)?;
    let trace = spans::tick(&mut envelope.headers, of.queue, of.name, last);
    envelope.enqueued_ms = Some(now_ms);
    envelope.tick_ms = Some(tick_ms);
    envelope.schedule = Some(of.name.into());
    envelope.expires_ms = of.body.expires_ms.map(|after| now_ms.saturating_add(i64::try_from(after).unwrap_or(i64::MAX)));
    let mut job = NewJob::new(id, envelope.encode()?);
    job.priority = Priority::from_number(of.body.priority).unwrap_or_default();
    job.group = of.body.group.as_deref().and_then(|group| GroupName::new(group).ok());
    let keys = of.body.limits.iter().filter_map(|key| key.parse().ok()).collect();
    job.limits = JobLimits::new(keys, of.body.cost.unwrap_or(1)).map(Box::new);
    Ok((job, trace))
}
