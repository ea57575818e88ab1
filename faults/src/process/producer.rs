//! A process that enqueues, as applications do: several callers at once, each of which settles what
//! it got no answer to.

use std::time::Duration;

use fastrand::Rng;
use queue_core::{Client, Error as QueueError, Event, Handle, Hold, Job, Priority, Task, inspect::Edit, topics::Publication};

use super::{Error, Mix, ProducerOrders, connect};
use crate::{
    events::Happening,
    history::{Operation, Phase, Recorder, Wish},
    work::{Deed, Plan, digest, work, work_of_tomorrow},
};

/// The unique key of this number.
pub fn unique_key(number: u64) -> String {
    format!("unique-{number}")
}

/// The group of a job, by its number.
pub fn group(key: u64, groups: u64) -> u64 {
    key % groups.max(1)
}

/// The limit of jobs whose groups are keys of one, and another one of all of them.
pub const LIMIT: &str = "key";
/// That of all jobs.
pub const ALL: &str = "all";

/// For how long a key is held that one job has alone.
const HELD: Duration = Duration::from_secs(1);

/// Most jobs of one bulk call.
const BULK: u64 = 1_000;

/// Enqueues all jobs. What is refused is given up, and another job takes its place.
pub(super) async fn run(orders: ProducerOrders) -> Result<(), Error> {
    let recorder = Recorder::open(&orders.common.history, &orders.common.name)?;
    let client = connect(&orders.common.url).await?.with_deadline(Duration::from_millis(orders.deadline_ms));
    let callers = (0..orders.callers).map(|n| {
        let share = orders.jobs / orders.callers + u64::from(n < orders.jobs % orders.callers);
        let producing = Producing {
            client: client.clone(),
            recorder: recorder.clone(),
            seed: orders.seed.wrapping_add(n),
            mix: orders.mix.clone(),
            // Every caller has its own numbers, more than it needs: some are given up.
            first_key: orders.first_key + n * (orders.jobs + 1_000_000),
            pause: Duration::from_millis(orders.pause_ms),
        };
        tokio::spawn(producing.run(share))
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await?;
    }
    Ok(())
}

/// One caller that enqueues.
#[derive(Debug)]
pub struct Producing {
    /// Where to.
    pub client: Client,
    /// Where it is written down.
    pub recorder: Recorder,
    /// The number of its first job.
    pub first_key: u64,
    /// Between two enqueues.
    pub pause: Duration,
    /// Seeds everything random.
    pub seed: u64,
    /// What the jobs are.
    pub mix: Mix,
}

impl Producing {
    /// Enqueues so many jobs.
    pub async fn run(self, jobs: u64) {
        let Producing { client, recorder, first_key, pause, seed, mix } = self;
        Caller { client, recorder, rng: Rng::with_seed(seed), mix, next: first_key, pause }.run(jobs).await;
    }
}

struct Caller {
    client: Client,
    recorder: Recorder,
    rng: Rng,
    mix: Mix,
    next: u64,
    pause: Duration,
}

/// A job before it is enqueued, and what is written down of it.
struct Draft {
    key: u64,
    pad: String,
    plan: Plan,
    delay_ms: u64,
    given: bool,
    kept: bool,
    cancelled: bool,
    tomorrow: bool,
    unique: Option<u64>,
    group: Option<u64>,
    limited: bool,
    once: bool,
    is_event: bool,
    priority: Priority,
    edited: bool,
    max_attempts: u32,
}

impl Draft {
    fn note(&self, id: Option<String>, existing: bool) -> Operation {
        let wish = match self.plan.deed {
            _ if self.cancelled => Wish::Any,
            Deed::Abort | Deed::Eat => Wish::Dead,
            Deed::Fail(times) | Deed::Panic(times) if times >= self.max_attempts => Wish::Dead,
            _ => Wish::Done,
        };
        let digest = digest(self.key, &self.pad);
        if self.is_event {
            return Operation::Publish { key: self.key, id, digest, again: existing, wish };
        }
        Operation::Enqueue {
            key: self.key,
            id,
            digest,
            delay_ms: self.delay_ms,
            max_attempts: self.max_attempts,
            existing,
            wish,
            unique: self.unique,
        }
    }

    fn event(&self) -> Publication {
        let mut event = Happening { key: self.key, pad: self.pad.clone(), plan: self.plan }.event();
        if let Some(group) = self.group {
            event = event.group(format!("group-{group}"));
        }
        if self.given {
            event = event.id(format!("given-{}", self.key));
        }
        event
    }

    fn job<T: Task>(&self, job: Job<T>) -> Job<T> {
        let mut job = job.max_attempts(self.max_attempts).priority(self.priority);
        if self.delay_ms > 0 {
            job = job.delay(Duration::from_millis(self.delay_ms));
        }
        if self.kept {
            job = job.retention(Duration::from_secs(3600));
        }
        if let Some(unique) = self.unique {
            job = job.unique_key(unique_key(unique));
        }
        match self.group {
            Some(group) if self.limited => job = job.limit(LIMIT, Some(&format!("group-{group}"))).limit(ALL, None),
            Some(group) => job = job.group(format!("group-{group}")),
            None => {}
        }
        if self.once {
            job = job.group(format!("group-{}", self.key)).limit(LIMIT, Some(&format!("key-{}", self.key)));
            if self.key.is_multiple_of(2) {
                job = job.unique_key(format!("once-{}", self.key)).hold(Hold::Within(HELD));
            }
        }
        if self.given || self.once && self.key % 2 == 1 {
            job = job.id(format!("given-{}", self.key));
        }
        job
    }
}

impl Caller {
    async fn run(mut self, jobs: u64) {
        let mut stored = 0;
        while stored < jobs {
            stored += if self.mix.bulk {
                self.bulk((jobs - stored).min(BULK)).await
            } else {
                let draft = self.draft();
                u64::from(self.single(&draft).await)
            };
            if !self.pause.is_zero() {
                tokio::time::sleep(self.pause).await;
            }
        }
    }

    fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.rng.u64(..n) == 0
    }

    fn draft(&mut self) -> Draft {
        let key = self.next;
        self.next += 1;
        let deed = self.mix.deeds.get(self.rng.usize(..self.mix.deeds.len().max(1))).copied().unwrap_or_default();
        let length = self.rng.usize(..=self.mix.bytes);
        let pad = std::iter::repeat_with(|| self.rng.alphanumeric()).take(length).collect();
        let (delayed, given, kept) = (self.one_in(self.mix.delayed), self.one_in(self.mix.given), self.one_in(self.mix.kept));
        let (cancelled, tomorrow) = (self.one_in(self.mix.cancelled), self.one_in(self.mix.tomorrow));
        let ms = self.rng.u32(self.mix.from_ms..=self.mix.ms);
        let edited = self.one_in(self.mix.edited);
        let low = self.mix.low;
        let priority = match self.one_in(low) {
            _ if low == 0 => Priority::Normal,
            true => Priority::Low,
            false => Priority::Critical,
        };
        let unique = (self.mix.unique > 0).then(|| self.rng.u64(..self.mix.unique));
        let group = (self.mix.groups > 0).then(|| group(key, self.mix.groups));
        let delay_ms = if delayed { self.rng.u64(1..1000) } else { 0 };
        Draft {
            key,
            pad,
            plan: Plan { ms, deed },
            delay_ms,
            given,
            kept,
            cancelled,
            tomorrow,
            unique,
            group,
            limited: self.mix.limited,
            once: self.mix.once,
            is_event: self.mix.events,
            priority,
            edited,
            max_attempts: self.mix.max_attempts,
        }
    }

    /// Enqueues one job, and says whether it was stored.
    async fn single(&mut self, draft: &Draft) -> bool {
        self.recorder.note(Phase::Invoke, draft.note(None, false));
        let answer = self.send(draft).await;
        let Some((id, existing)) = self.settle(draft, answer).await else { return false };
        if existing && draft.unique.is_some() {
            // Another job holds its key: there is none of this number.
            return true;
        }
        if draft.given {
            // Once more: it is the same job.
            self.recorder.note(Phase::Invoke, draft.note(Some(id.clone()), true));
            let again = self.send(draft).await;
            self.settle(draft, again).await;
        }
        if draft.edited {
            let within = Duration::from_millis(self.rng.u64(..=u64::from(self.mix.cancel_ms)));
            tokio::time::sleep(within).await;
            self.edit(&id, draft).await;
        }
        if draft.cancelled {
            let within = Duration::from_millis(self.rng.u64(..=u64::from(self.mix.cancel_ms)));
            tokio::time::sleep(within).await;
            self.cancel(&id).await;
        }
        true
    }

    async fn send(&self, draft: &Draft) -> Result<(String, bool), QueueError> {
        fn seen<T>(handle: &Handle<T>) -> (String, bool) {
            (handle.id().to_string(), handle.existing())
        }
        if draft.is_event {
            return draft.event().publish(&self.client).await.map(|published| (published.id.to_string(), false));
        }
        let (key, pad, plan) = (draft.key, draft.pad.clone(), draft.plan);
        if draft.tomorrow {
            draft.job(work_of_tomorrow::job(key, pad, plan)).enqueue(&self.client).await.map(|handle| seen(&handle))
        } else {
            draft.job(work::job(key, pad, plan)).enqueue(&self.client).await.map(|handle| seen(&handle))
        }
    }

    /// Writes down what became of an enqueue, and asks until it is known. The id, if it is stored,
    /// and whether it existed.
    async fn settle(&self, draft: &Draft, answer: Result<(String, bool), QueueError>) -> Option<(String, bool)> {
        let mut answer = answer;
        loop {
            match answer {
                Ok((id, existing)) => {
                    // Of a job that was skipped the id is that of another one.
                    let own = Some(id.clone()).filter(|_| !existing || draft.unique.is_none());
                    self.recorder.note(Phase::Ok, draft.note(own, existing));
                    return Some((id, existing));
                }
                Err(QueueError::Unknown(pending)) => {
                    let id = Some(pending.address().id.to_string()).filter(|_| draft.unique.is_none());
                    self.recorder.note(Phase::Unknown, draft.note(id, false));
                    answer = pending.retry().await.map(|handle| (handle.id().to_string(), handle.existing()));
                }
                // The broker has lost this producer, or stopped in the middle: nobody can say.
                Err(QueueError::Forgotten(_) | QueueError::WrongType { .. }) => return None,
                Err(_) => {
                    self.recorder.note(Phase::Fail, draft.note(None, false));
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    return None;
                }
            }
        }
    }

    async fn cancel(&self, id: &str) {
        let operation = || Operation::Cancel { id: id.to_owned() };
        let Ok(id) = id.parse() else { return };
        let address = queue_core::JobAddress { queue: crate::work::QUEUE.into(), id };
        self.recorder.note(Phase::Invoke, operation());
        let phase = match self.client.inspector().cancel(&address).await {
            Ok(_) => Phase::Ok,
            Err(QueueError::NoSuchJob(_) | QueueError::WrongState { .. } | QueueError::Unavailable { .. }) => Phase::Fail,
            Err(_) => Phase::Unknown,
        };
        self.recorder.note(phase, operation());
    }

    /// Gives a job another payload, if it waits.
    async fn edit(&self, id: &str, draft: &Draft) {
        #[derive(serde::Serialize)]
        struct Payload<'a> {
            key: u64,
            pad: &'a str,
            plan: Plan,
        }
        let pad = format!("{}-edited", draft.pad);
        let payload = Payload { key: draft.key, pad: &pad, plan: draft.plan };
        let (Ok(parsed), Ok(payload)) = (id.parse(), rmp_serde::to_vec_named(&payload)) else { return };
        let operation = || Operation::Edit { id: id.to_owned(), digest: digest(draft.key, &pad) };
        let address = queue_core::JobAddress { queue: crate::work::QUEUE.into(), id: parsed };
        self.recorder.note(Phase::Invoke, operation());
        let phase = match self.client.inspector().edit(&address, &Edit::new().payload(payload)).await {
            Ok(edited) if edited.changes.is_empty() => Phase::Unknown,
            Ok(_) => Phase::Ok,
            Err(QueueError::NoSuchJob(_) | QueueError::WrongState { .. }) => Phase::Fail,
            Err(_) => Phase::Unknown,
        };
        self.recorder.note(phase, operation());
    }

    /// Enqueues many in one call, and says how many were stored.
    async fn bulk(&mut self, jobs: u64) -> u64 {
        let drafts: Vec<Draft> = (0..jobs).map(|_| Draft { given: false, cancelled: false, tomorrow: false, ..self.draft() }).collect();
        self.recorder.note_all(drafts.iter().map(|draft| (Phase::Invoke, draft.note(None, false))));
        let sent = drafts.iter().map(|draft| draft.job(work::job(draft.key, draft.pad.clone(), draft.plan))).collect::<Vec<_>>();
        let mut answers = match self.client.enqueue_all(sent).await {
            Ok(handles) => handles.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => error.answers,
        }
        .into_iter();
        let mut stored = 0;
        for draft in &drafts {
            match answers.next() {
                Some(answer) => {
                    let answer = answer.map(|handle| (handle.id().to_string(), handle.existing()));
                    stored += u64::from(self.settle(draft, answer).await.is_some());
                }
                // It was never sent.
                None => self.recorder.note(Phase::Fail, draft.note(None, false)),
            }
        }
        stored
    }
}
