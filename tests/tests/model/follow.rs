//! Watching as a step of a story: marks that stand for a while, and what is told of jobs until they are over.
//!
//! After every step what the broker has told is read and compared: of each job the same transitions in the same order as the model has seen, each once, and none while no mark stands.

use std::{collections::BTreeMap, time::Duration};

use queue_conformance::model::Model;
use queue_core::{
    JobId,
    broker::{DynBroker, FOLLOWED, JobState, StoredTransition},
};

use crate::{
    compare::{Check, same},
    world::now_ms,
};

/// A mark that is over before most stories are.
pub(crate) const BRIEF: Duration = Duration::from_millis(150);

/// How many milliseconds a step takes at most. One that might see the end of a mark waits until it is over.
const STEP_MS: i64 = 40;

/// Transitions of one answer, so that some take several.
const PAGE: usize = 7;

/// A watcher that reads after every step.
#[derive(Default)]
pub(crate) struct Follower {
    /// The numbers of the last transitions that it has read, of the broker and of the model.
    after: u64,
    known_after: u64,
    /// The life of the last mark.
    life: Option<String>,
    /// When the mark is over: the two clocks may differ by what the step took that has set it.
    over_ms: Option<(i64, i64)>,
    /// A mark was over in the middle of a step: what that has told is not known.
    is_lost: bool,
}

/// What is told of a transition, but for its number and its time.
pub(crate) type Face = (Option<JobState>, Option<JobState>, String, u32, Option<String>);

fn face(told: StoredTransition) -> Face {
    (told.from, told.to, told.task, told.attempts, told.reason)
}

/// Of each job, in order.
pub(crate) fn by_job(told: Vec<StoredTransition>) -> BTreeMap<JobId, Vec<Face>> {
    let mut jobs: BTreeMap<JobId, Vec<Face>> = BTreeMap::new();
    for told in told {
        jobs.entry(told.id.clone()).or_default().push(face(told));
    }
    jobs
}

impl Follower {
    /// Before a step. No mark ends in the middle of one, if the machine is not very slow.
    pub(crate) async fn ready(&mut self) {
        if let Some((from, upto)) = self.over_ms
            && now_ms() >= from - STEP_MS
        {
            while now_ms() <= upto + 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            self.over_ms = None;
        }
    }

    /// Sets a mark.
    pub(crate) async fn follow(&mut self, model: &mut Model, broker: &DynBroker, queue: &str, is_brief: bool) -> Check {
        let stands = if is_brief { BRIEF } else { FOLLOWED };
        let ms = i64::try_from(stands.as_millis()).expect("it is some seconds");
        let found = broker.follow(queue, stands).await.map_err(|error| error.to_string())?;
        let known = model.follow(stands);
        // The machine stood still, and a brief mark was over before the broker was asked.
        let is_late = !found.stood && self.over_ms.is_some_and(|(from, _)| now_ms() >= from);
        if !is_late {
            same("whether a mark stood", &known.stood, &found.stood)?;
        }
        same("the life of a mark that goes on", &found.stood, &(self.life.as_deref() == Some(&*found.life)))?;
        let (from, upto) = (model.now + ms, now_ms() + ms);
        self.over_ms = Some(self.over_ms.map_or((from, upto), |(before, until)| (from.max(before), upto.max(until))));
        self.life = Some(found.life);
        let last = found.last.ok_or("a queue that is in use cannot be followed")?;
        if found.stood && !self.is_lost {
            return same("the last transition", &self.after, &last);
        }
        (self.after, self.known_after, self.is_lost) = (last, known.last.unwrap_or_default(), false);
        Ok(())
    }

    /// After a step that has begun then.
    pub(crate) async fn read(&mut self, model: &Model, broker: &DynBroker, queue: &str, began_ms: i64) -> Check {
        let mut told = Vec::new();
        loop {
            let read = broker.transitions(queue, self.after, PAGE).await.map_err(|error| error.to_string())?;
            // A brief mark may be over meanwhile, if the machine stood still.
            self.is_lost |= self.over_ms.is_some_and(|(from, _)| now_ms() >= from);
            if self.is_lost {
                self.known_after = model.transitions(self.known_after, usize::MAX).upto;
                return Ok(());
            }
            same("transitions that are lost", &Some(0), &read.lost)?;
            if let Some(life) = &self.life {
                same("the life of the answer", life, &read.life)?;
            }
            let numbers: Vec<u64> = read.told.iter().map(|told| told.number).collect();
            same("their numbers", &(self.after + 1..=read.upto).collect::<Vec<_>>(), &numbers)?;
            told.extend(read.told);
            if read.upto == self.after {
                break;
            }
            self.after = read.upto;
        }
        let known = model.transitions(self.known_after, usize::MAX);
        self.known_after = known.upto;
        let now = now_ms();
        if self.over_ms.is_none() && !told.is_empty() {
            return Err(format!("no mark stands, and the broker has told\n  {told:?}"));
        }
        if let Some(odd) = told.iter().find(|told| !(began_ms - 1..=now + 1).contains(&told.at_ms)) {
            return Err(format!("a transition of a step between {began_ms} and {now} is told of another time: {odd:?}"));
        }
        same("transitions", &by_job(known.told), &by_job(told))
    }
}
