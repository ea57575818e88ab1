//! Pauses of the queue, its groups and its tasks, which may end by themselves.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use queue_core::{
    JobId, Result,
    broker::{Due, LONGEST_CLOSED, PAUSED_TASKS, Pause, PauseOf, Pauses, Pausing, RESUMED_AT_ONCE, SetPause, StoredPause},
    envelope::Envelope,
};

use super::{
    Model, Place,
    doors::{Back, By},
};

impl Model {
    /// Stops claims of the queue or a group, or lets them go on.
    ///
    /// # Errors
    /// For an end that has passed, and for one rule too many.
    pub fn set_pause(&mut self, request: &SetPause) -> Result<()> {
        let Some(pausing) = &request.pause else {
            self.go_on(&request.of);
            return Ok(());
        };
        let until = match pausing.until {
            Some(Due::AtMs(at)) => Some(at),
            Some(Due::After(time)) => Some(self.due_after(time)),
            _ => None,
        };
        if until.is_some_and(|until| until <= self.now) {
            return Err(request.past());
        }
        if let PauseOf::Group(group) = &request.of {
            if !self.pause_group(group, true) {
                return Err(request.too_many());
            }
        } else if let PauseOf::Task(_) = request.of {
            let is_task = |of: &&PauseOf| matches!(of, PauseOf::Task(_));
            if !self.pauses.contains_key(&request.of) && self.pauses.keys().filter(is_task).count() >= PAUSED_TASKS {
                return Err(request.too_many());
            }
        } else {
            self.paused = true;
        }
        let mut pause = Pause::default();
        pause.since =
            self.pauses.get(&request.of).filter(|before| !before.is_over_at(self.now)).and_then(|before| before.since).or(at(self.now));
        (pause.until, pause.reason) = (until.and_then(at), pausing.reason.as_deref().map(str::to_owned));
        pause.by = pausing.by.as_deref().map(str::to_owned);
        self.pauses.insert(request.of.clone(), pause);
        if let Some(until) = until {
            self.announce(until);
        }
        Ok(())
    }

    /// The group of a job has had enough until a time. A pause that a person has set stays, and ends no earlier. False: the job has no group, or there is no room for a rule.
    pub(super) fn close_group(&mut self, id: &JobId, until: i64) -> bool {
        let Some(group) = self.jobs[id].group.clone() else { return false };
        let of = PauseOf::Group(group.clone());
        if !self.pause_group(&group, true) {
            return false;
        }
        let mut pause = self.pauses.get(&of).filter(|before| !before.is_over_at(self.now)).cloned().unwrap_or_else(|| {
            let mut pause = Pause::default();
            (pause.since, pause.reason) = (at(self.now), Pausing::had_enough().reason.as_deref().map(str::to_owned));
            pause.until = at(self.now);
            pause
        });
        let longest = i64::try_from(LONGEST_CLOSED.as_millis()).unwrap_or(i64::MAX);
        let until = until.min(self.now + longest);
        if pause.until.is_some_and(|end| in_ms(end) < until) {
            pause.until = at(until);
            self.announce(until);
        }
        self.pauses.insert(of, pause);
        true
    }

    /// What is paused but for groups.
    pub fn pauses(&self) -> Pauses {
        let of_queue = self.pauses.get(&PauseOf::Queue).filter(|_| self.paused).cloned();
        let mut all: Vec<StoredPause> = of_queue.map(|pause| StoredPause::new(PauseOf::Queue, pause)).into_iter().collect();
        for (of, pause) in &self.pauses {
            if let PauseOf::Task(task) = of {
                let is_parked = |place: &Place| matches!(place, Place::Parked(name) if name.split('\u{1}').next() == Some(&**task));
                let mut stored = StoredPause::new(of.clone(), pause.clone());
                stored.parked = self.jobs.values().filter(|job| is_parked(job.place())).count() as u64;
                all.push(stored);
            }
        }
        Pauses::new(self.now, all)
    }

    fn go_on(&mut self, of: &PauseOf) {
        self.pauses.remove(of);
        if let PauseOf::Group(group) = of {
            self.pause_group(group, false);
        } else if *of == PauseOf::Queue {
            self.paused = false;
        }
        self.announce(self.now);
    }

    /// What was paused until now goes on.
    pub(super) fn resume_due(&mut self) -> Vec<PauseOf> {
        let mut due: Vec<_> = self.pauses.iter().filter_map(|(of, pause)| Some((in_ms(pause.until?), of.clone()))).collect();
        due.sort_by_key(|(until, of)| (*until, of.stored()));
        due.retain(|(until, _)| *until <= self.now);
        due.truncate(RESUMED_AT_ONCE);
        due.iter().for_each(|(_, of)| self.go_on(of));
        due.into_iter().map(|(_, of)| of).collect()
    }

    /// Whether a task is paused.
    pub fn is_aside(&self, task: &str) -> bool {
        self.pauses.contains_key(&PauseOf::Task(task.into()))
    }

    /// Parks those of some claimed jobs whose task is paused. Gives the others, and those.
    pub(super) fn set_aside(&mut self, claimed: Vec<JobId>) -> (Vec<JobId>, Vec<JobId>) {
        let task = |id: &JobId| Envelope::decode(&self.jobs[id].envelope).ok().map(|envelope| envelope.task.to_string());
        let (aside, left): (Vec<(JobId, Option<String>)>, Vec<_>) =
            claimed.into_iter().map(|id| (id.clone(), task(&id).filter(|task| self.is_aside(task)))).partition(|(_, task)| task.is_some());
        for (id, task) in &aside {
            let out = self.settle(id, By::Others).expect("it was claimed");
            self.charge_limits(id, true);
            self.back(out, Back::Parked(task.clone().unwrap_or_default()));
            self.jobs.never_started(id);
        }
        let ids = |jobs: Vec<(JobId, Option<String>)>| jobs.into_iter().map(|(id, _)| id).collect();
        (ids(left), ids(aside))
    }

    /// When the next pause ends; while the queue is paused, when that pause does.
    pub fn next_end(&self) -> Option<i64> {
        let counts = |of: &PauseOf| !self.paused || *of == PauseOf::Queue;
        self.pauses.iter().filter(|(of, _)| counts(of)).filter_map(|(_, pause)| pause.until).map(in_ms).min()
    }
}

fn at(ms: i64) -> Option<SystemTime> {
    u64::try_from(ms).ok().and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)))
}

fn in_ms(at: SystemTime) -> i64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |at| i64::try_from(at.as_millis()).unwrap_or(i64::MAX))
}
