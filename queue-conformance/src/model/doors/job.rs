//! A job, and where it is. All may read that; only the doors change it.

use std::{collections::BTreeMap, ops::Deref};

use queue_core::{
    JobId,
    broker::{
        BuryReason, FAILURES_KEPT, Failure, GroupName, JobLimits, JobState, LimitKey, NewJob, PartyName, Priority, StoredJob, Unreadable,
        task_in,
    },
};

use super::{super::remarks::Told, JobKey};

/// The jobs that are kept, by id.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    map: BTreeMap<JobId, Job>,
    /// Whether their transitions are noted.
    pub(in crate::model) follows: bool,
    /// Those of this operation.
    moved: Vec<Moved>,
    /// In which state jobs were that have no place for a moment; new ones in none.
    aside: BTreeMap<JobId, Option<JobState>>,
}

/// A job has gone from one state to another.
#[derive(Clone, Debug)]
pub(in crate::model) struct Moved {
    pub(in crate::model) id: JobId,
    pub(in crate::model) from: Option<JobState>,
    pub(in crate::model) to: Option<JobState>,
    pub(in crate::model) task: String,
    pub(in crate::model) attempts: u32,
}

impl Moved {
    fn of(id: &JobId, from: Option<JobState>, to: Option<JobState>, job: &Job) -> Moved {
        Moved { id: id.clone(), from, to, task: task_in(&job.envelope), attempts: job.attempts }
    }
}

impl Deref for Jobs {
    type Target = BTreeMap<JobId, Job>;

    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

impl Jobs {
    /// A job whose counters or history change. Its place does not.
    pub(in crate::model) fn edit(&mut self, id: &JobId) -> &mut Job {
        self.map.get_mut(id).expect("a job that an operation has just found is there")
    }

    /// A broker's clock has read another time than the model's: the time of the job becomes this one, in milliseconds since 1970.
    pub fn set_at(&mut self, id: &JobId, new: i64) {
        let place = self.map.get_mut(id).map(|job| &mut job.place);
        if let Some(Place::Scheduled(at) | Place::Retry(at) | Place::Held(at) | Place::Dead { at, .. } | Place::Ended { at, .. }) = place {
            *at = new;
        }
    }

    /// The same of the time at which it rises.
    pub fn set_rises(&mut self, id: &JobId, new: i64) {
        if let Some(job) = self.map.get_mut(id).filter(|job| job.rises.is_some()) {
            job.rises = Some(new);
        }
    }

    pub(super) fn add(&mut self, id: JobId, job: Job) {
        if self.follows {
            self.moved.push(Moved::of(&id, None, Some(job.place.state()), &job));
        }
        self.map.insert(id, job);
    }

    /// A new job, which is given a place next.
    pub(super) fn add_aside(&mut self, id: JobId, job: Job) {
        self.aside.insert(id.clone(), None);
        self.map.insert(id, job);
    }

    pub(super) fn set_place(&mut self, id: &JobId, place: Place) {
        let aside = self.aside.remove(id);
        let job = self.map.get_mut(id).expect("a job that an operation has just found is there");
        let (from, to) = (aside.unwrap_or(Some(job.place.state())), Some(place.state()));
        if self.follows && from != to {
            self.moved.push(Moved::of(id, from, to, job));
        }
        job.place = place;
    }

    /// A place for a moment: another one follows.
    pub(super) fn set_aside(&mut self, id: &JobId, place: Place) {
        let before = self.edit(id).place.state();
        self.aside.entry(id.clone()).or_insert(Some(before));
        self.edit(id).place = place;
    }

    pub(super) fn remove(&mut self, id: &JobId) {
        let Some(job) = self.map.remove(id) else { return };
        let from = self.aside.remove(id).unwrap_or(Some(job.place.state()));
        // Of what has ended nothing more is told.
        if self.follows && !from.is_some_and(JobState::is_final) {
            let to = (from == Some(JobState::Active)).then_some(JobState::Done);
            self.moved.push(Moved::of(id, from, to, &job));
        }
    }

    /// A job that was admitted is parked before it has started: both are one transition.
    pub(in crate::model) fn never_started(&mut self, id: &JobId) {
        let Some(last) = self.moved.iter().rposition(|moved| moved.id == *id) else { return };
        let to = self.moved.remove(last).to;
        if let Some(admitted) = self.moved.iter_mut().rfind(|moved| moved.id == *id) {
            admitted.to = to;
        }
    }

    /// The transitions since the last call.
    pub(in crate::model) fn take_moved(&mut self) -> Vec<Moved> {
        std::mem::take(&mut self.moved)
    }
}

/// A job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Where it is.
    pub(super) place: Place,
    /// What was enqueued.
    pub envelope: Vec<u8>,
    /// Its priority.
    pub priority: Priority,
    /// When it rises by one, while it is ready.
    pub(super) rises: Option<i64>,
    /// To which priority it has risen, while it is ready.
    pub(super) risen: Option<Priority>,
    /// Of a given id: what tells it from another job of that id.
    pub digest: u64,
    /// How often its handler has failed.
    pub attempts: u32,
    /// How often its process died, as charged.
    pub crashes: u32,
    /// When the first of these crashes was.
    pub first_crash: i64,
    /// How long it may have run when it crashed.
    pub ran: i64,
    /// How often it wanted to come back later.
    pub snoozes: u32,
    /// How often it was rate limited.
    pub rate_limited: u32,
    /// Whether it has repeated an odd number of times.
    pub odd: bool,
    /// How often its worker stopped while it ran, and when last.
    pub releases: (u32, Option<i64>),
    /// Its last failures, oldest first.
    pub failures: Vec<Failure>,
    /// Its result, when it is done and kept.
    pub result: Option<Vec<u8>>,
    /// Why it was cancelled.
    pub note: Option<String>,
    /// Which releases could not read it, until one has, and when it is buried.
    pub unreadable: Option<Unreadable>,
    /// Its key, whether it holds it or not.
    pub unique: Option<JobKey>,
    /// Its group.
    pub group: Option<GroupName>,
    /// What its handlers have told.
    pub(in crate::model) told: Told,
    /// The limits that it is subject to.
    pub limits: Option<JobLimits>,
}

/// Where a job is: in one place, always.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In one of the lines.
    Ready,
    /// Waits for this time.
    Scheduled(i64),
    /// Waits for its backoff.
    Retry(i64),
    /// Held under this tag.
    Active {
        /// The lane.
        lane: PartyName,
        /// The claim number.
        claim: u64,
    },
    /// Waits for a worker that knows this task, of a release that has not failed to read the job: the names of the task and of those that
    /// have, with a character 1 between them.
    Parked(String),
    /// Waits until its key is free, and until this time if that is later.
    Held(i64),
    /// Dead since then.
    Dead {
        /// When it died.
        at: i64,
        /// The how manieth that ended.
        order: u64,
        /// Why.
        reason: BuryReason,
    },
    /// Done, cancelled or expired, and kept.
    Ended {
        /// Which of the three.
        state: JobState,
        /// When.
        at: i64,
        /// The how manieth that ended.
        order: u64,
        /// Until when it is kept.
        until: i64,
    },
}

impl Place {
    /// The state of a job in this place.
    pub fn state(&self) -> JobState {
        match self {
            Place::Ready => JobState::Ready,
            Place::Scheduled(_) => JobState::Scheduled,
            Place::Retry(_) => JobState::Retry,
            Place::Active { .. } => JobState::Active,
            Place::Parked(_) => JobState::Parked,
            Place::Held(_) => JobState::Held,
            Place::Dead { .. } => JobState::Dead,
            Place::Ended { state, .. } => *state,
        }
    }

    /// What records say of the time.
    pub fn at(&self) -> Option<i64> {
        match self {
            Place::Scheduled(at) | Place::Retry(at) | Place::Held(at) | Place::Dead { at, .. } | Place::Ended { at, .. } => Some(*at),
            Place::Ready | Place::Active { .. } | Place::Parked(_) => None,
        }
    }

    pub(in crate::model) fn order(&self) -> (i64, u64) {
        match self {
            Place::Dead { order, .. } | Place::Ended { order, .. } => (0, *order),
            place => (place.at().unwrap_or(0), 0),
        }
    }
}

impl Job {
    pub(super) fn new(new: &NewJob, place: Place, now: i64) -> Job {
        Job {
            place,
            envelope: new.envelope.clone(),
            priority: new.priority,
            rises: None,
            risen: None,
            digest: new.digest,
            attempts: 0,
            crashes: 0,
            first_crash: 0,
            ran: 0,
            snoozes: 0,
            rate_limited: 0,
            odd: false,
            releases: (0, None),
            failures: Vec::new(),
            result: None,
            note: None,
            unreadable: None,
            unique: new.unique.as_ref().map(|unique| JobKey::new(unique, now)),
            group: new.group.clone(),
            told: Told::default(),
            limits: new.limits.as_deref().cloned(),
        }
    }

    /// The keys of its limits.
    pub fn limit_keys(&self) -> &[LimitKey] {
        self.limits.as_ref().map_or(&[], JobLimits::keys)
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What an inspector sees.
    pub fn record(&self, id: &JobId) -> StoredJob {
        let mut record = StoredJob::new(id.clone(), self.place.state(), self.envelope.clone());
        record.priority = self.priority;
        (record.attempts, record.crashes, record.snoozes) = (self.attempts, self.crashes, self.snoozes);
        record.rate_limited = self.rate_limited;
        (record.releases, record.released_ms) = self.releases;
        record.at_ms = self.place.at();
        record.rises_ms = self.rises.filter(|_| self.crashes == 0);
        record.failures.clone_from(&self.failures);
        record.result.clone_from(&self.result);
        record.note.clone_from(&self.note);
        record.group.clone_from(&self.group);
        record.limits = self.limit_keys().to_vec();
        record.unique = self.unique.map(|unique| unique.key);
        match &self.place {
            Place::Active { lane, claim } => record.tag = Some(format!("{lane}:{claim}")),
            Place::Dead { reason, .. } => record.reason = Some(*reason),
            Place::Parked(_) => record.unreadable.clone_from(&self.unreadable),
            _ => {}
        }
        record
    }

    pub(in crate::model) fn fail(&mut self, at_ms: i64, message: &str) {
        self.failures.push(Failure { at_ms, message: message.to_owned() });
        let old = self.failures.len().saturating_sub(FAILURES_KEPT);
        self.failures.drain(..old);
    }

    /// Its worker stops, and it ran.
    pub(in crate::model) fn release(&mut self, at_ms: i64) {
        self.releases = (self.releases.0 + 1, Some(at_ms));
    }

    /// Bytes that it takes of its queue's limits.
    pub(in crate::model) fn size(&self) -> u64 {
        (self.envelope.len() + self.result.as_ref().map_or(0, Vec::len)) as u64
    }
}
