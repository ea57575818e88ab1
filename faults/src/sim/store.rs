//! A broker in memory, by the book: what the two real ones are two tellings of. Its clock is that of the simulation.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use queue_core::{
    Error, JobId, Result,
    broker::{
        Announcer, BuryReason, CrashRule, Delivery, Due, Ending, Enqueue, Enqueued, Extend, Extended, Hints, NewJob, PartyName, Reclaimed,
        Register, Suspect, Suspects, Turn, TurnAnswer,
    },
};

use crate::{
    checker::{Held, Lane, Snapshot},
    history::Memory,
    work::key_and_digest,
};

/// Where a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Ready,
    Waiting(&'static str),
    Active { lane: PartyName, claim: u64 },
    Dead(BuryReason),
    Done(Option<Vec<u8>>),
}

#[derive(Debug)]
struct Job {
    /// In which order jobs came: nothing may hang on the order of a hash map, or on ids, which are random.
    number: u64,
    envelope: Vec<u8>,
    priority: usize,
    attempts: u32,
    crashes: u32,
    snoozes: u32,
    place: Place,
}

#[derive(Debug, Default)]
struct Entry {
    seq: u64,
    stale: Vec<usize>,
    handed_out: Vec<(JobId, u64)>,
    deadline_ms: i64,
    gone: Vec<(JobId, u64)>,
}

/// Everything that is stored.
#[derive(Debug)]
pub(super) struct Store {
    clock: Memory,
    jobs: HashMap<JobId, Job>,
    /// By priority; those of suspects come before.
    ready: [VecDeque<JobId>; 4],
    suspects: VecDeque<JobId>,
    /// `scheduled` and `retry`, by when they are due and in which order they came.
    waiting: BTreeMap<(i64, u64), JobId>,
    lanes: BTreeMap<PartyName, Entry>,
    fenced: BTreeSet<PartyName>,
    producers: HashMap<PartyName, (u64, Vec<Enqueued>)>,
    digests: HashMap<JobId, u64>,
    counters: BTreeMap<String, u64>,
    claim: u64,
    count: u64,
    /// How often somebody was told that he is not known.
    pub(super) forgotten: usize,
    /// One per listener: those of one channel are woken in an order that is left to chance.
    listeners: Vec<Announcer>,
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

impl Store {
    pub(super) fn new(clock: Memory) -> Store {
        Store {
            clock,
            jobs: HashMap::new(),
            ready: Default::default(),
            suspects: VecDeque::new(),
            waiting: BTreeMap::new(),
            lanes: BTreeMap::new(),
            fenced: BTreeSet::new(),
            producers: HashMap::new(),
            digests: HashMap::new(),
            counters: BTreeMap::new(),
            claim: 0,
            count: 0,
            forgotten: 0,
            listeners: Vec::new(),
        }
    }

    pub(super) fn now_ms(&self) -> i64 {
        i64::try_from(self.clock.now_us() / 1000).unwrap_or(i64::MAX)
    }

    pub(super) fn hints(&mut self) -> Hints {
        let announcer = Announcer::new();
        let hints = announcer.hints();
        self.listeners.push(announcer);
        hints
    }

    fn tell(&self) {
        self.listeners.iter().for_each(|listener| listener.announce(None));
    }

    fn add(&mut self, counter: &str) {
        *self.counters.entry(counter.to_owned()).or_default() += 1;
    }

    pub(super) fn register(&mut self, request: &Register) -> PartyName {
        self.count += 1;
        let name = PartyName::new(format!("{}.{:x}", request.process, self.count));
        match request.party {
            queue_core::broker::Party::Worker { lease } => {
                let entry = Entry { deadline_ms: self.now_ms() + ms(lease), ..Entry::default() };
                self.lanes.insert(name.clone(), entry);
            }
            _ => drop(self.producers.insert(name.clone(), (0, Vec::new()))),
        }
        name
    }

    pub(super) fn enqueue(&mut self, request: &Enqueue) -> Result<Vec<Enqueued>> {
        let (last, answers) = self.producers.get(&request.producer).ok_or_else(|| forgotten(&request.producer))?;
        if request.seq == *last {
            return Ok(answers.clone());
        }
        if request.seq < *last {
            return Err(Error::Old { name: request.producer.to_string(), seq: request.seq });
        }
        let answers: Vec<Enqueued> = request.jobs.iter().map(|job| self.store(job)).collect();
        self.producers.insert(request.producer.clone(), (request.seq, answers.clone()));
        self.tell();
        Ok(answers)
    }

    fn store(&mut self, new: &NewJob) -> Enqueued {
        if new.id.is_given() {
            match self.digests.get(&new.id) {
                Some(digest) if *digest == new.digest => return Enqueued::Existing,
                Some(_) => return Enqueued::IdConflict,
                None => drop(self.digests.insert(new.id.clone(), new.digest)),
            }
        }
        let priority = usize::from(new.priority.number());
        self.count += 1;
        let number = self.count;
        let job = Job {
            number,
            envelope: new.envelope.clone(),
            priority,
            attempts: 0,
            crashes: 0,
            snoozes: 0,
            place: Place::Waiting("scheduled"),
        };
        self.jobs.insert(new.id.clone(), job);
        let now = self.now_ms();
        let due = match new.due {
            Due::Now => now,
            Due::After(delay) => now + ms(delay),
            Due::AtMs(at) => at,
        };
        self.wait(&new.id, due, "scheduled");
        self.add("enqueued");
        Enqueued::Stored
    }

    /// → `ready`, or to where it waits for its time.
    fn wait(&mut self, id: &JobId, due_ms: i64, state: &'static str) {
        if due_ms <= self.now_ms() {
            return self.push(id, false);
        }
        self.count += 1;
        self.waiting.insert((due_ms, self.count), id.clone());
        self.job(id).place = Place::Waiting(state);
    }

    fn push(&mut self, id: &JobId, at_head: bool) {
        let job = self.job(id);
        job.place = Place::Ready;
        let (priority, suspect) = (job.priority, job.crashes > 0);
        let list = if suspect { &mut self.suspects } else { &mut self.ready[priority] };
        if at_head { list.push_front(id.clone()) } else { list.push_back(id.clone()) }
    }

    fn job(&mut self, id: &JobId) -> &mut Job {
        self.jobs.get_mut(id).expect("what is listed is stored")
    }

    pub(super) fn turn(&mut self, turn: &Turn) -> Result<TurnAnswer> {
        let answer = self.turned(turn);
        self.forgotten += usize::from(matches!(answer, Err(Error::Forgotten(_))));
        answer
    }

    fn turned(&mut self, turn: &Turn) -> Result<TurnAnswer> {
        let entry = self.lanes.get(&turn.worker).ok_or_else(|| forgotten(&turn.worker))?;
        if turn.seq < entry.seq {
            return Err(Error::Old { name: turn.worker.to_string(), seq: turn.seq });
        }
        if turn.seq > entry.seq + 1 {
            return Err(forgotten(&turn.worker));
        }
        if turn.seq == entry.seq {
            let (stale, handed_out) = (entry.stale.clone(), entry.handed_out.clone());
            let deliveries = handed_out.iter().map(|(id, claim)| self.deliver(&turn.worker, id, *claim)).collect();
            return Ok(self.answer(stale, deliveries));
        }
        let mut stale = Vec::new();
        for (position, finish) in turn.finishes.iter().enumerate() {
            let tag = Place::Active { lane: turn.worker.clone(), claim: finish.claim };
            if self.jobs.get(&finish.id).is_some_and(|job| job.place == tag) {
                self.finish(&finish.id, &finish.ending);
            } else {
                stale.push(position);
            }
        }
        self.promote();
        let handed_out = self.claim(turn);
        let deadline_ms = self.now_ms() + ms(turn.lease);
        let entry = self.lanes.get_mut(&turn.worker).expect("it was found above");
        *entry = Entry { seq: turn.seq, stale: stale.clone(), handed_out: handed_out.clone(), deadline_ms, gone: Vec::new() };
        let deliveries = handed_out.iter().map(|(id, claim)| self.deliver(&turn.worker, id, *claim)).collect();
        Ok(self.answer(stale, deliveries))
    }

    fn answer(&self, stale: Vec<usize>, deliveries: Vec<Delivery>) -> TurnAnswer {
        let mut answer = TurnAnswer::default();
        let due = |((at, _), _): (&(i64, u64), &JobId)| Duration::from_millis(u64::try_from(at - self.now_ms()).unwrap_or(0));
        (answer.stale, answer.deliveries, answer.now_ms) = (stale, deliveries, self.now_ms());
        answer.suspects = !self.suspects.is_empty();
        answer.more = self.ready.iter().any(|list| !list.is_empty());
        answer.next_due = self.waiting.iter().next().map(due);
        answer.workers = self.lanes.len();
        answer
    }

    fn deliver(&self, lane: &PartyName, id: &JobId, claim: u64) -> Delivery {
        let tag = Place::Active { lane: lane.clone(), claim };
        match self.jobs.get(id).filter(|job| job.place == tag) {
            Some(job) => {
                let mut delivery = Delivery::new(id.clone(), claim, job.envelope.clone());
                (delivery.attempts, delivery.crashes, delivery.snoozes) = (job.attempts, job.crashes, job.snoozes);
                delivery
            }
            None => {
                let mut delivery = Delivery::new(id.clone(), claim, Vec::new());
                delivery.void = true;
                delivery
            }
        }
    }

    fn promote(&mut self) {
        while let Some(first) =
            self.waiting.first_entry().filter(|first| first.key().0 <= i64::try_from(self.clock.now_us() / 1000).unwrap_or(0))
        {
            let id = first.remove();
            self.push(&id, false);
        }
    }

    fn claim(&mut self, turn: &Turn) -> Vec<(JobId, u64)> {
        let mut ids = Vec::new();
        if turn.claim > 0 && turn.suspect {
            ids.extend(self.suspects.pop_front());
        }
        while ids.len() < turn.claim
            && let Some(id) = self.ready.iter_mut().find_map(VecDeque::pop_front)
        {
            ids.push(id);
        }
        self.claim = (self.claim + 1).max(u64::try_from(self.now_ms()).unwrap_or(0));
        let claim = self.claim;
        for id in &ids {
            self.job(id).place = Place::Active { lane: turn.worker.clone(), claim };
        }
        ids.into_iter().map(|id| (id, claim)).collect()
    }

    fn finish(&mut self, id: &JobId, ending: &Ending) {
        let now = self.now_ms();
        let job = self.job(id);
        if !matches!(ending, Ending::Release | Ending::Void | Ending::Park { .. }) {
            job.crashes = 0;
        }
        match ending {
            Ending::Ack { result, keep } => {
                let result = result.clone();
                if keep.is_some() {
                    job.place = Place::Done(result);
                } else {
                    self.jobs.remove(id);
                }
                self.add("done");
            }
            Ending::Nack { delay, .. } => {
                job.attempts += 1;
                self.wait(id, now + ms(*delay), "retry");
                self.add("failed");
            }
            Ending::Snooze { delay } => {
                job.snoozes += 1;
                self.wait(id, now + ms(*delay), "scheduled");
                self.add("snoozed");
            }
            Ending::Repeat { delay } => {
                (job.attempts, job.snoozes) = (0, 0);
                self.wait(id, now + ms(*delay), "scheduled");
            }
            Ending::Bury { reason, error } => {
                job.place = Place::Dead(*reason);
                if error.is_some() {
                    job.attempts += 1;
                    self.add("failed");
                }
                self.add("dead");
            }
            Ending::Release | Ending::Void | Ending::Park { .. } => self.push(id, true),
            _ => drop(self.jobs.remove(id)),
        }
    }

    pub(super) fn extend(&mut self, lane: &Extend) -> Result<Extended> {
        let until = self.now_ms() + ms(lane.lease);
        let entry = self.lanes.get_mut(&lane.worker).filter(|entry| entry.seq >= lane.answered);
        let entry = entry.ok_or_else(|| forgotten(&lane.worker))?;
        entry.deadline_ms = until;
        Ok(Extended::new(entry.gone.clone()))
    }

    pub(super) fn suspects(&self, limit: usize) -> Suspects {
        let late = self.lanes.iter().filter(|(_, entry)| entry.deadline_ms <= self.now_ms());
        let late = late.map(|(worker, entry)| Suspect { worker: worker.clone(), deadline_ms: entry.deadline_ms });
        Suspects::new(late.take(limit).collect(), self.fenced.len())
    }

    pub(super) fn fence(&mut self, suspects: &[Suspect]) -> Vec<bool> {
        let now = self.now_ms();
        let fence = |suspect: &Suspect| {
            let found =
                self.lanes.get(&suspect.worker).is_some_and(|entry| entry.deadline_ms == suspect.deadline_ms && entry.deadline_ms <= now);
            if found {
                self.lanes.remove(&suspect.worker);
                self.fenced.insert(suspect.worker.clone());
            }
            found
        };
        suspects.iter().map(fence).collect()
    }

    pub(super) fn sweep_fenced(&mut self, rule: &CrashRule) -> Reclaimed {
        let mut reclaimed = Reclaimed::default();
        let fenced = std::mem::take(&mut self.fenced);
        let mut held: Vec<(JobId, PartyName, u32)> = self
            .jobs
            .iter()
            .filter_map(|(id, job)| match &job.place {
                Place::Active { lane, .. } if fenced.contains(lane) => Some((id.clone(), lane.clone(), job.crashes)),
                _ => None,
            })
            .collect();
        held.sort_by_key(|(id, ..)| self.jobs[id].number);
        for (id, lane, crashes) in &held {
            let lives = self.lanes.keys().any(|other| other.process() == lane.process());
            let suspects = held.iter().any(|(_, other, crashes)| other.process() == lane.process() && *crashes > 0);
            if lives || (suspects && *crashes == 0) {
                self.push(id, true);
                reclaimed.released += 1;
                continue;
            }
            let now = self.now_ms();
            let job = self.job(id);
            job.crashes += 1;
            let crashes = job.crashes;
            if crashes >= rule.max_crashes {
                job.place = Place::Dead(BuryReason::Crashed);
                reclaimed.buried.push(id.clone());
                self.add("dead");
            } else {
                self.wait(id, now + ms(rule.delay) * i64::from(crashes), "retry");
                reclaimed.charged += 1;
            }
        }
        reclaimed.forgotten = fenced.len();
        self.tell();
        reclaimed
    }

    /// Whether nothing waits, runs, or is to be taken back.
    pub(super) fn is_drained(&self) -> bool {
        self.fenced.is_empty() && self.jobs.values().all(|job| matches!(job.place, Place::Dead(_) | Place::Done(_)))
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let held = |(id, job): (&JobId, &Job)| {
            let state = match &job.place {
                Place::Ready => "ready",
                Place::Waiting(state) => state,
                Place::Active { .. } => "active",
                Place::Dead(_) => "dead",
                Place::Done(_) => "done",
            };
            let (key, digest) = key_and_digest(&job.envelope);
            Held {
                id: id.to_string(),
                state: state.to_owned(),
                shown: state.to_owned(),
                task: Some("work".to_owned()),
                key,
                digest: Some(digest),
                attempts: job.attempts,
                crashes: job.crashes,
                reason: if let Place::Dead(reason) = &job.place { Some(reason.name().to_owned()) } else { None },
                result: if let Place::Done(Some(result)) = &job.place { rmp_serde::from_slice(result).ok() } else { None },
                lane: if let Place::Active { lane, .. } = &job.place { Some(lane.to_string()) } else { None },
            }
        };
        Snapshot {
            at_ms: self.now_ms(),
            jobs: self.jobs.iter().map(held).collect(),
            lanes: self.lanes.iter().map(|(name, entry)| Lane { name: name.to_string(), deadline_ms: entry.deadline_ms }).collect(),
            counters: self.counters.clone(),
            ..Snapshot::default()
        }
    }
}

fn forgotten(name: &PartyName) -> Error {
    Error::Forgotten(name.to_string())
}

/// Many hold it.
pub(super) type Shared = Arc<std::sync::Mutex<Store>>;
