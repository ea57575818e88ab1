//! The work of a worker: read due schedules, decide, and write the result.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};

use super::step::{Of, running_id, step};
use crate::{
    broker::{
        DynBroker, JobState, ScheduleAnswer, ScheduleDefinition, ScheduleList, ScheduleSet, ScheduleState, SetSchedule, StoredSchedule,
    },
    error::{Error, Result},
};

/// The number of schedules whose ticks are made at the same time.
const TOGETHER: usize = 32;

/// How often a schedule is read again that has been changed meanwhile.
const TRIES: usize = 5;

/// The outcomes of the due schedules of a queue.
#[derive(Debug, Default)]
pub struct DueTicks {
    /// The schedules.
    pub schedules: Vec<Ticks>,
    /// How long until the next one is due.
    pub next_due: Option<Duration>,
}

/// The outcome of a schedule that was due.
#[derive(Debug, Default)]
pub struct Ticks {
    /// Its name.
    pub name: String,
    /// How late each tick is that was made.
    pub late: Vec<Duration>,
    /// How many jobs were stored.
    pub jobs: usize,
    /// How many ticks were skipped.
    pub skipped: u64,
    /// Why nothing was set: this machine cannot, or the broker did not answer or has no room. The
    /// worker tries again.
    pub problem: Option<Error>,
}

/// Makes the ticks of a queue that are due, of at most `limit` schedules.
///
/// # Errors
/// Those of the broker.
pub async fn tick_due(broker: &DynBroker, queue: &Arc<str>, limit: usize) -> Result<DueTicks> {
    let due = broker.due_schedules(queue, limit).await?;
    let (now_ms, answered) = (due.now_ms, Instant::now());
    let ticks = due.schedules.into_iter().map(|stored| async move {
        let name = stored.name.clone();
        let ticks = tick_one(broker, queue, stored, now_ms).await;
        ticks.unwrap_or_else(|problem| Ticks { name, problem: Some(problem), ..Ticks::default() })
    });
    let schedules = stream::iter(ticks).buffer_unordered(TOGETHER).collect().await;
    // Making those took a while, and the next one does not wait for that.
    Ok(DueTicks { schedules, next_due: due.next_due.map(|next| next.saturating_sub(answered.elapsed())) })
}

async fn tick_one(broker: &DynBroker, queue: &Arc<str>, mut stored: StoredSchedule, mut now_ms: i64) -> Result<Ticks> {
    let name = stored.name.clone();
    for _ in 0..TRIES {
        let definition = ScheduleDefinition::decode(&stored.definition)?;
        let mut state = ScheduleState::decode(&stored.state)?;
        if definition.body.overlap != "allow" {
            forget_lost(broker, queue, &mut state).await?;
        }
        let of = Of { queue, name: &name, body: &definition.body };
        let step = step(of, &mut state, now_ms)?;
        let mut request = SetSchedule::new(queue.clone(), name.clone(), now_ms, Some(stored.state));
        let declared = !definition.declared.is_empty();
        request.set = Some(ScheduleSet { definition: None, state: state.encode(), due_ms: step.due_ms, declared });
        (request.jobs, request.stop) = (step.jobs, step.stop);
        match broker.set_schedule(&request).await? {
            ScheduleAnswer::Set(stored) => {
                let late = step.late_ms.iter().map(|late| Duration::from_millis(u64::try_from(*late).unwrap_or(0))).collect();
                let jobs = stored.iter().filter(|stored| **stored).count();
                return Ok(Ticks { name, late, jobs, skipped: step.skipped, problem: None });
            }
            ScheduleAnswer::Stale | ScheduleAnswer::Moved => {}
        }
        let page = broker.schedules(queue, &ScheduleList::One(name.clone())).await?;
        let Some(again) = page.schedules.into_iter().next() else { break };
        (stored, now_ms) = (again, page.now_ms);
    }
    // Others are at it.
    Ok(Ticks { name, ..Ticks::default() })
}

/// A schedule is notified of the end of its last job, unless the job was lost with other data; it
/// must not wait forever in that case.
async fn forget_lost(broker: &DynBroker, queue: &str, state: &mut ScheduleState) -> Result<()> {
    let Some(id) = running_id(state) else {
        state.running = None;
        return Ok(());
    };
    let lives = broker.show(queue, &id).await?.is_some_and(|job| !job.state.is_final() && job.state != JobState::Parked);
    if !lives {
        state.running = None;
    }
    Ok(())
}
