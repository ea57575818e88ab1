//! Schedules: what is due, every change of one, and how its jobs end.

use std::{collections::BTreeMap, time::Duration};

use queue_core::{
    JobId,
    broker::{
        BACKFILL_REMEMBERED, DueSchedules, HANDED_OUT, MAX_ITEMS, STOPPED, ScheduleAnswer, ScheduleList, SchedulePage, ScheduleState,
        SetSchedule, StoredSchedule, TickJob,
    },
};

use super::{
    Model, Place,
    doors::{By, End},
};

const REMEMBERED_MS: i64 = BACKFILL_REMEMBERED.as_secs().cast_signed() * 1000;

/// What a queue has of schedules.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedules {
    stored: BTreeMap<String, Stored>,
    /// The jobs that have not ended: their schedules, the number of the run, and whether each is to be cancelled at its ending.
    ticked: BTreeMap<JobId, (String, u64, bool)>,
    /// The ids that a backfill or a person made, and when.
    backfilled: BTreeMap<JobId, i64>,
    announced: Option<i64>,
}

#[derive(Clone, Debug)]
struct Stored {
    definition: Vec<u8>,
    state: Vec<u8>,
    due: Option<i64>,
    declared: bool,
}

impl Model {
    /// Hands out the schedules that are due.
    pub fn due_schedules(&mut self, limit: usize) -> DueSchedules {
        let handed = self.after(HANDED_OUT);
        let mut due: Vec<(i64, String)> =
            self.schedules.stored.iter().filter_map(|(name, stored)| Some((stored.due?, name.clone()))).collect();
        due.sort();
        let names = due.into_iter().filter(|(due, _)| *due <= self.now).take(limit).map(|(_, name)| name);
        let mut schedules = Vec::new();
        for name in names.collect::<Vec<_>>() {
            let stored = self.schedules.stored.get_mut(&name).expect("it was found above");
            stored.due = Some(handed);
            schedules.push(StoredSchedule::new(name, stored.definition.clone(), stored.state.clone()));
        }
        let next = self.schedules.stored.values().filter_map(|stored| stored.due).min();
        let wait = next.map(|next| Duration::from_millis(u64::try_from(next - self.now).unwrap_or(0)));
        DueSchedules::new(self.now, schedules, wait)
    }

    /// Schedules of this queue.
    pub fn list_schedules(&self, which: &ScheduleList) -> SchedulePage {
        let mut found: Vec<(&String, &Stored)> = self.schedules.stored.iter().collect();
        let mut next = None;
        match which {
            ScheduleList::One(name) => found.retain(|(known, _)| *known == name),
            ScheduleList::Declared => found.retain(|(_, stored)| stored.declared),
            ScheduleList::All { offset, limit } => {
                let limit = (*limit).clamp(1, MAX_ITEMS);
                found.sort_by_key(|(name, stored)| (stored.due.unwrap_or(i64::MAX), *name));
                found.drain(..usize::try_from(*offset).unwrap_or(usize::MAX).min(found.len()));
                next = (found.len() > limit).then(|| offset + limit as u64);
                found.truncate(limit);
            }
            ScheduleList::After { after_ms, offset, limit } => {
                let limit = (*limit).clamp(1, MAX_ITEMS);
                found.retain(|(_, stored)| stored.due.is_some_and(|due| due > *after_ms));
                found.sort_by_key(|(name, stored)| (stored.due, *name));
                found.drain(..usize::try_from(*offset).unwrap_or(usize::MAX).min(found.len()));
                next = (found.len() > limit).then(|| offset + limit as u64);
                found.truncate(limit);
            }
            _ => {}
        }
        let found = found.into_iter().map(|(name, stored)| StoredSchedule::new(name, stored.definition.clone(), stored.state.clone()));
        SchedulePage::new(self.now, found.collect(), next)
    }

    /// Changes a schedule, if its state is the one that was read.
    pub fn set_schedule(&mut self, request: &SetSchedule) -> ScheduleAnswer {
        if request.has_moved(self.now) {
            return ScheduleAnswer::Moved;
        }
        let known = self.schedules.stored.get(&request.name);
        if known.map(|stored| &stored.state) != request.expected.as_ref() {
            return ScheduleAnswer::Stale;
        }
        let Some(set) = &request.set else {
            self.schedules.stored.remove(&request.name);
            return ScheduleAnswer::Set(Vec::new());
        };
        let before = known.map(|stored| stored.definition.clone()).unwrap_or_default();
        let definition = set.definition.clone().unwrap_or(before);
        let stored = Stored { definition, state: set.state.clone(), due: set.due_ms, declared: set.declared };
        self.schedules.stored.insert(request.name.clone(), stored);
        let first = self.schedules.stored.values().filter_map(|stored| stored.due).min();
        if let Some(due) = set.due_ms.filter(|due| first.is_some_and(|first| *due <= first)) {
            self.announce_tick(due);
        }
        let answers: Vec<bool> = request.jobs.iter().map(|tick| self.store_tick(&request.name, tick)).collect();
        self.count("enqueued", answers.iter().filter(|stored| **stored).count());
        if let Some(id) = &request.stop {
            self.stop(id);
        }
        ScheduleAnswer::Set(answers)
    }

    /// Forgets ids that a backfill or a person made, at most so many.
    pub(super) fn forget_backfilled(&mut self, items: usize) -> usize {
        let is_over = |at: &i64| *at <= self.now - REMEMBERED_MS;
        let over: Vec<JobId> =
            self.schedules.backfilled.iter().filter(|(_, at)| is_over(at)).map(|(id, _)| id.clone()).take(items).collect();
        over.iter().filter(|id| self.schedules.backfilled.remove(*id).is_some()).count()
    }

    fn store_tick(&mut self, schedule: &str, tick: &TickJob) -> bool {
        let (id, now) = (&tick.job.id, self.now);
        if tick.remembered {
            if self.schedules.backfilled.get(id).is_some_and(|at| *at > now - REMEMBERED_MS) {
                return false;
            }
            self.schedules.backfilled.insert(id.clone(), now);
        }
        if self.jobs.contains_key(id) {
            return false;
        }
        self.arrive(&tick.job, now);
        self.schedules.ticked.insert(id.clone(), (schedule.to_owned(), tick.run, false));
        true
    }

    fn stop(&mut self, id: &JobId) {
        let Some(job) = self.jobs.get(id).filter(|job| !job.place().state().is_final()) else { return };
        if let Place::Active { lane, claim } = job.place().clone() {
            if let Some((_, _, stop)) = self.schedules.ticked.get_mut(id) {
                *stop = true;
                self.note_gone(&lane, id, claim);
            }
            return;
        }
        let out = self.leave(id);
        self.end(out, End::Cancelled(Some(STOPPED.to_owned())));
    }

    /// Cancels a job that leaves its lane if it was to be stopped. False: it was not.
    pub(super) fn end_stopped(&mut self, id: &JobId, by: By<'_>) -> bool {
        if !self.schedules.ticked.get(id).is_some_and(|(_, _, stop)| *stop) {
            return false;
        }
        let Some(out) = self.settle(id, by) else { return false };
        self.end(out, End::Cancelled(Some(STOPPED.to_owned())));
        true
    }

    /// A job has ended in this state, or is parked: its schedule notes it.
    pub(super) fn tick_ended(&mut self, id: &JobId, how: &str) {
        let Some((name, run, stop)) = self.schedules.ticked.get(id).cloned() else { return };
        if stop {
            self.forget_gone(id);
        }
        if how != "parked" {
            self.schedules.ticked.remove(id);
        }
        let now = self.now;
        let Some(stored) = self.schedules.stored.get_mut(&name) else { return };
        let Ok(mut state) = ScheduleState::decode(&stored.state) else { return };
        let due_now = state.ended(run, how, now);
        stored.state = state.encode();
        if state.paused.is_some() {
            stored.due = None;
        } else if due_now {
            stored.due = Some(now);
            self.announce_tick(now);
        }
    }

    fn announce_tick(&mut self, at: i64) {
        let announced = &mut self.schedules.announced;
        *announced = Some(announced.map_or(at, |announced| announced.min(at)));
    }

    /// When the earliest schedule that was set since the last call is due, for those who make the ticks.
    pub fn take_tick_announcement(&mut self) -> Option<i64> {
        self.schedules.announced.take()
    }
}
