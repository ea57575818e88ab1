//! A story: hundreds of groups, limit keys and suspects, most of which may not start, and claims
//! that are checked.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use fastrand::Rng;
use queue_conformance::conformance::{Bed, Lane, ack, finish, nack};
use queue_core::{
    __private::Envelope,
    JobId, Priority,
    broker::{Audit, Change, CrashRule, Delivery, Ending, JobLimits, JobState, MAX_ITEMS, NewJob, SetPause},
    inspect::{Aging, GroupName, GroupOrder, GroupRule, LimitKey, LimitRule, PauseOf, Pausing, RuleOf},
};

use super::snapshot::{Claim, Job, Shares, Snapshot, overtakes, spins, starves};

/// The steps of a story, and the jobs that it has at most at a time.
const STEPS: usize = 30;
const JOBS: usize = 2_000;

/// Groups and keys of limits, which are hundreds each.
const GROUPS: usize = 700;
const KEYS: usize = 500;

const CRASHES: CrashRule = CrashRule { max_crashes: 1_000, tasks: &[], window: Duration::from_secs(3600), delay: Duration::ZERO };
const TASKS: [&str; 2] = ["suite.task", "suite.other"];
const OVER: Duration = Duration::from_millis(1);

pub(super) struct Story<'a> {
    bed: &'a Bed,
    rng: Rng,
    workers: Vec<Worker>,
    known: BTreeMap<JobId, Job>,
    shares: Shares,
    aging: bool,
    told: String,
}

struct Worker {
    lane: Lane,
    held: Vec<Delivery>,
}

impl<'a> Story<'a> {
    pub(super) fn new(bed: &'a Bed, seed: u64) -> Story<'a> {
        let rng = Rng::with_seed(seed);
        Story { bed, rng, workers: Vec::new(), known: BTreeMap::new(), shares: Shares::default(), aging: false, told: String::new() }
    }

    /// What has happened.
    pub(super) fn told(&self) -> &str {
        &self.told
    }

    pub(super) async fn tell(&mut self) -> Result<(), String> {
        for _ in 0..3 {
            self.hire().await;
        }
        // Without a weight jobs without a group have their share of what waits, which is another
        // one at each claim.
        let weighted = (0..40).map(|_| RuleOf::Group(self.group())).collect::<Vec<_>>();
        for of in weighted.iter().chain([&RuleOf::Plain]) {
            let weight = 1 + self.rng.u32(..5);
            self.bed.inspector().set_group_rule(&self.bed.queue, of, |rule| rule.weight = Some(weight)).await.expect("the rule is set");
        }
        self.enqueue(200).await;
        for _ in 0..STEPS {
            self.step().await?;
            let (worker, jobs) = (self.rng.usize(..self.workers.len()), if self.rng.bool() { 1 } else { self.rng.usize(2..24) });
            self.probe(worker, jobs).await?;
        }
        self.sound().await?;
        self.end().await
    }

    /// The auditor recounts slots, lines, chains and turns.
    async fn sound(&self) -> Result<(), String> {
        let audit = Audit { repair: false, thorough: true };
        let damage = self.bed.broker.audit(&self.bed.queue, audit).await.expect("a queue can be audited");
        if damage.is_empty() { Ok(()) } else { Err(format!("{} kinds of damage: {damage:?}", damage.len())) }
    }

    async fn step(&mut self) -> Result<(), String> {
        match self.rng.u8(..24) {
            0..4 => {
                let jobs = self.many();
                self.enqueue(jobs).await;
            }
            4..7 => {
                let worker = self.rng.usize(..self.workers.len());
                for _ in 0..self.rng.usize(1..6) {
                    self.probe(worker, 1).await?;
                }
            }
            7..11 => self.finish().await,
            11..15 => self.crash().await?,
            15..17 => self.pause().await,
            17..19 => self.rule().await,
            19..22 => self.limit().await,
            22 => self.cancel().await,
            _ if self.rng.bool() => {
                self.aging = true;
                let aging = if self.rng.bool() { Aging::Every(OVER) } else { Aging::Off };
                self.tell_of(format!("aging {aging:?}"));
                self.bed.inspector().set_aging(&self.bed.queue, aging).await.expect("aging can be set");
            }
            _ => self.requeue().await,
        }
        Ok(())
    }

    fn tell_of(&mut self, what: impl std::fmt::Display) {
        writeln!(self.told, "{what}").expect("a text can be longer");
    }

    /// A few, or hundreds.
    fn many(&mut self) -> usize {
        if self.rng.bool() { self.rng.usize(1..8) } else { self.rng.usize(100..700) }
    }

    fn group(&mut self) -> GroupName {
        GroupName::new(format!("g{}", self.rng.usize(..GROUPS))).expect("it is a name")
    }

    /// A few groups, hundreds, or all but a few.
    fn groups(&mut self) -> Vec<GroupName> {
        if self.rng.u8(..3) > 0 {
            let groups = self.many();
            return (0..groups).map(|_| self.group()).collect();
        }
        (0..GROUPS).filter(|_| self.rng.u8(..60) > 0).map(|n| GroupName::new(format!("g{n}")).expect("it is a name")).collect()
    }

    async fn hire(&mut self) {
        let lane = self.bed.lane().await;
        self.workers.push(Worker { lane, held: Vec::new() });
    }

    /// Jobs of groups and of none, with limits and without.
    async fn enqueue(&mut self, jobs: usize) {
        let stored = self.bed.stats().await.jobs();
        let jobs = jobs.min(JOBS.saturating_sub(usize::try_from(stored).unwrap_or(JOBS)));
        let mix = self.rng.usize(..4);
        self.tell_of(format!("enqueue {jobs} jobs of mix {mix}"));
        let mut batch = Vec::new();
        for _ in 0..jobs {
            let task = TASKS[usize::from(self.rng.u8(..8) == 0)];
            let mut job = NewJob::new(JobId::make(), Envelope::new(task, b"").encode().expect("it is small"));
            let group = self.rng.usize(..GROUPS);
            let has_group = mix != 0 && self.rng.u8(..8) > 0;
            // One group in ten has priorities, and its jobs have several chains; the limits of
            // others are those of their group.
            let of = if has_group && !group.is_multiple_of(10) { group } else { self.rng.usize(..KEYS) };
            job.group = has_group.then(|| GroupName::new(format!("g{group}")).expect("it is a name"));
            job.priority = if has_group && !group.is_multiple_of(10) { Priority::Normal } else { Priority::ALL[self.rng.usize(..4)] };
            let value = (of % KEYS).to_string();
            let key = |name| LimitKey::of(name, value.as_bytes());
            // Of other groups all jobs have the same, whatever the mix.
            let mix = if has_group && !group.is_multiple_of(10) { group / 4 % 4 } else { mix };
            let keys = match (mix, of % 4) {
                (0 | 1, 0) | (_, 1) => vec![],
                (2, 0) => vec![LimitKey::of("api", b"")],
                (_, 2) => vec![key("tenant")],
                (3, 3) => vec![key("slow")],
                _ => vec![LimitKey::of("api", b""), key("tenant")],
            };
            job.limits = JobLimits::new(keys.clone(), 1).map(Box::new);
            let limits = job.limits.as_ref().map(|limits| limits.keys().to_vec()).unwrap_or_default();
            let known =
                Job { id: job.id.clone(), group: job.group.clone(), limits, priority: job.priority, suspect: false, task: task.to_owned() };
            self.known.insert(job.id.clone(), known);
            batch.push(job);
        }
        for batch in batch.chunks(MAX_ITEMS) {
            self.bed.producer().await.stored(batch.to_vec()).await;
        }
    }

    /// Ends some of what runs.
    async fn finish(&mut self) {
        let worker = self.rng.usize(..self.workers.len());
        let held = self.workers[worker].held.len();
        let share = self.rng.usize(..=held);
        self.tell_of(format!("worker {worker} ends {share} of {held} jobs"));
        self.rng.shuffle(&mut self.workers[worker].held);
        let ended = self.workers[worker].held.split_off(held - share);
        for ended in ended.chunks(400) {
            let mut finishes = Vec::new();
            for delivery in ended {
                let ending = match self.rng.u8(..8) {
                    0 => nack(Duration::ZERO),
                    1 => Ending::Return,
                    2 => Ending::Snooze { delay: Duration::ZERO },
                    _ => ack(),
                };
                finishes.push(finish(delivery, ending));
            }
            let lane = &mut self.workers[worker].lane;
            let turn = lane.next().finish(finishes);
            lane.send(&turn).await;
        }
    }

    /// A worker claims many jobs and dies, mostly: its jobs are suspects then.
    async fn crash(&mut self) -> Result<(), String> {
        let worker = self.rng.usize(..self.workers.len());
        if self.rng.u8(..4) > 0 {
            let jobs = self.many().min(450);
            let before = self.snapshot().await;
            let claim = self.claim(worker, jobs).await;
            let after = self.snapshot().await;
            self.check(&before, &claim, &after)?;
        }
        let Worker { lane, held } = self.workers.remove(worker);
        self.tell_of(format!("worker {worker} dies with {} jobs", held.len()));
        self.bed.broker.extend(&[lane.heartbeat(OVER)]).await.remove(0).expect("the lane is known");
        self.bed.reclaim(&[&lane], CRASHES).await;
        self.hire().await;
        Ok(())
    }

    async fn pause(&mut self) {
        let paused = self.rng.u8(..3) > 0;
        let of = match self.rng.u8(..8) {
            0 => vec![PauseOf::Queue],
            1 => vec![PauseOf::Task(TASKS[1].into())],
            _ => self.groups().into_iter().map(PauseOf::Group).collect(),
        };
        self.tell_of(format!("{} {} things, the first of which is {:?}", if paused { "pause" } else { "resume" }, of.len(), of[0]));
        for of in of {
            let queue = self.bed.queue.clone();
            let request = if paused { SetPause::pause(queue, of, Pausing::new()) } else { SetPause::resume(queue, of) };
            self.bed.broker.set_pause(&request).await.expect("it can be paused");
        }
        // A paused queue shows little: two steps later it goes on.
        if paused && self.rng.u8(..4) > 0 {
            let resume = SetPause::resume(self.bed.queue.clone(), PauseOf::Queue);
            self.bed.broker.set_pause(&resume).await.expect("it can go on");
        }
    }

    /// Caps and orders of groups. Their weights stay: what a group has paid was counted by its
    /// weight.
    async fn rule(&mut self) {
        let (kind, number) = (self.rng.u8(..8), self.rng.u32(..3));
        let of: Vec<RuleOf> = if kind == 0 { vec![RuleOf::Others] } else { self.groups().into_iter().map(RuleOf::Group).collect() };
        self.tell_of(format!("rule {kind} with {number} for {} groups", of.len()));
        for of in of {
            let change = |rule: &mut GroupRule| match kind {
                0 => rule.cap = (number > 0).then_some(number),
                1..4 => (rule.cap, rule.order) = (Some(number), None),
                4 => rule.cap = None,
                5 | 6 if of != RuleOf::Others => (rule.cap, rule.order) = (None, Some(GroupOrder::Ordered)),
                _ => rule.order = None,
            };
            self.bed.inspector().set_group_rule(&self.bed.queue, &of, change).await.expect("the rule is set");
        }
    }

    async fn limit(&mut self) {
        let (name, most) = (["api", "tenant", "slow"][self.rng.usize(..3)], self.rng.u32(..6));
        self.tell_of(format!("limit {name} to {most}"));
        let change = |rule: &mut LimitRule| {
            rule.concurrency = [Some(0), Some(1), Some(1), Some(2), Some(3), None][most as usize];
            if name == "slow" {
                (rule.rate, rule.burst) = (Some("1/1h".parse().expect("it is a rate")), Some(1 + most));
            }
        };
        self.bed.inspector().set_limit(&self.bed.queue, name, change).await.expect("the limit is set");
    }

    /// Cancels jobs that wait, some or many.
    async fn cancel(&mut self) {
        let (state, jobs) = (JobState::Ready, self.many());
        let page = self.bed.broker.list(&self.bed.queue, state, 0, jobs.clamp(1, 500)).await.expect("jobs can be listed");
        let ids: Vec<JobId> = page.jobs.into_iter().map(|job| job.id).collect();
        self.tell_of(format!("cancel {} jobs", ids.len()));
        self.bed.broker.change(&self.bed.queue, Change::Cancel, None, &ids).await.expect("jobs can be cancelled");
    }

    async fn requeue(&mut self) {
        let page = self.bed.broker.list(&self.bed.queue, JobState::Cancelled, 0, 100).await.expect("jobs can be listed");
        let ids: Vec<JobId> = page.jobs.into_iter().map(|job| job.id).collect();
        self.tell_of(format!("requeue {} jobs", ids.len()));
        self.bed.broker.change(&self.bed.queue, Change::Requeue, None, &ids).await.expect("jobs can be requeued");
    }

    /// Two claims.
    async fn probe(&mut self, worker: usize, jobs: usize) -> Result<(), String> {
        self.tell_of(format!("worker {worker}, which holds {}, claims {jobs} twice", self.workers[worker].held.len()));
        let mut before = self.snapshot().await;
        let mut last: Option<(Snapshot, Claim)> = None;
        for _ in 0..2 {
            let claim = self.claim(worker, jobs).await;
            let after = self.snapshot().await;
            self.check(&before, &claim, &after)?;
            if let Some((before, first)) = &last {
                starves(before, first, &claim)?;
            }
            spins(&claim)?;
            last = Some((std::mem::replace(&mut before, after), claim));
        }
        Ok(())
    }

    async fn snapshot(&self) -> Snapshot {
        Snapshot::read(&self.bed.broker, &self.bed.queue, self.aging).await
    }

    fn check(&mut self, before: &Snapshot, claim: &Claim, after: &Snapshot) -> Result<(), String> {
        overtakes(before, claim, after)?;
        self.shares.served(before, claim, after)
    }

    async fn claim(&mut self, worker: usize, jobs: usize) -> Claim {
        let Worker { lane, held } = &mut self.workers[worker];
        let mut turn = lane.next().claim(jobs);
        turn.suspect = held.iter().all(|delivery| delivery.crashes == 0);
        let answer = lane.send(&turn).await;
        let claim = Claim::new(jobs, turn.suspect, &answer, &self.known);
        let (got, parked) = (answer.deliveries.len(), answer.parked);
        held.extend(answer.deliveries);
        if parked && self.rng.u8(..4) == 0 {
            let mut turn = lane.next();
            turn.resume = TASKS.map(Into::into).to_vec();
            lane.send(&turn).await;
        }
        self.tell_of(format!("  got {got}, promises: {}", claim.promises));
        claim
    }

    /// Everything is let go on: all jobs run to their end, and no claim but the last gets nothing
    /// twice.
    async fn end(&mut self) -> Result<(), String> {
        self.tell_of("all of it is let go on");
        let (queue, inspector) = (self.bed.queue.clone(), self.bed.inspector());
        for name in ["api", "tenant", "slow"] {
            inspector.remove_limit(&queue, name).await.expect("a limit can be removed");
        }
        let paused = [PauseOf::Queue, PauseOf::Task(TASKS[1].into())];
        let groups = (0..GROUPS).map(|n| GroupName::new(format!("g{n}")).expect("it is a name"));
        for of in paused.into_iter().chain(groups.clone().map(PauseOf::Group)) {
            self.bed.broker.set_pause(&SetPause::resume(queue.clone(), of)).await.expect("it can go on");
        }
        for of in groups.map(RuleOf::Group).chain([RuleOf::Others]) {
            inspector.set_group_rule(&queue, &of, |rule| rule.cap = None).await.expect("the rule is set");
        }
        let (mut asked, mut nothing) = (0, 0);
        while nothing < 2 {
            let worker = asked % self.workers.len();
            let Worker { lane, held } = &mut self.workers[worker];
            let finishes = held.drain(..held.len().min(400)).map(|delivery| finish(&delivery, ack())).collect();
            let mut turn = lane.next().finish(finishes).claim(60);
            turn.resume = TASKS.map(Into::into).to_vec();
            let answer = lane.send(&turn).await;
            let promises_more = answer.more || answer.suspects;
            if answer.deliveries.is_empty() && promises_more {
                break;
            }
            held.extend(answer.deliveries);
            asked += 1;
            let is_over = !promises_more && self.workers.iter().all(|worker| worker.held.is_empty());
            nothing = if is_over { nothing + 1 } else { 0 };
        }
        let stats = self.bed.stats().await;
        let waiting: Vec<_> =
            JobState::ALL.into_iter().filter(|state| !state.is_final()).map(|state| (state, stats.count(state))).collect();
        if waiting.iter().any(|(_, jobs)| *jobs > 0) {
            let left = self.snapshot().await.ready;
            let ids: Vec<JobId> = left.into_iter().map(|job| job.id).take(3).collect();
            let diagnosis = self.bed.broker.diagnose(&queue, &ids).await.expect("it can be asked where jobs stand");
            let damage = self.bed.broker.audit(&queue, Audit { repair: false, thorough: true }).await.expect("a queue can be audited");
            return Err(format!("jobs are left, and {nothing} claims promised none: {waiting:?}, {diagnosis:?}, {damage:?}"));
        }
        println!("{}: a line was overtaken by up to {:.0} % of what it may be", self.bed.queue, 100.0 * self.shares.most);
        Ok(())
    }
}
