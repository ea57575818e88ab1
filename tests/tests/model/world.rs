//! A broker and the model of it, to which the same is done.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use queue_conformance::model::{Model, Place, Seen};
use queue_core::{
    JobId, LimitKey, LimitRule, LogLevel,
    broker::{
        Aging, AgingRecord, AgingSet, AskWorker, CrashRule, Delivery, Due, DynBroker, Enqueue, Extend, Finish, GroupList, GroupName,
        GroupsRecord, JobLimits, JobRemarks, KeyHolder, LimitRecord, LineNow, NewJob, OverdueLane, PartyName, Pause, PauseOf, Pauses,
        Pausing, ProcessId, ProgressNow, Reclaimed, Register, Remarks, RuleOf, SetAging, SetGroup, SetLimit, SetPause, StoredGroup,
        StoredLimit, Turn, Unique, UniqueKey, Used, WorkerAsk, WorkerInfo, WorkerLoad,
    },
    envelope::Envelope,
};

use crate::{
    compare::{Check, outcome, same, same_jobs, same_turn},
    edit,
    follow::Follower,
    operate::{Operating, Operations, same_operations},
    step::{End, Index, KEYS, LONG, New, Step, TASK},
    why::{foresees, is_kept_back, same_standings},
};

const RULE: CrashRule = CrashRule { max_crashes: 3, tasks: &[], window: Duration::from_secs(3600), delay: Duration::from_millis(1) };

/// Jobs, lanes and deliveries that numbers can name: the latest of them.
const NAMED: usize = 12;

pub(crate) struct World {
    broker: DynBroker,
    queue: Arc<str>,
    model: Model,
    processes: [ProcessId; 3],
    lanes: Vec<Lane>,
    producers: Vec<Producer>,
    deliveries: Vec<(PartyName, Delivery)>,
    /// When jobs that wait for a key are due, if they have a short delay.
    held_until_ms: i64,
    suspects: Vec<OverdueLane>,
    ids: Vec<JobId>,
    /// Jobs whose place in line the broker may choose in this step.
    followers: Vec<JobId>,
    /// Whether limits have rates: their times are the same but for a millisecond.
    rated: bool,
    operations: Operations,
    follower: Follower,
}

struct Lane {
    name: PartyName,
    answered: u64,
    last: Option<Turn>,
}

struct Producer {
    name: PartyName,
    requests: Vec<Enqueue>,
}

/// What two clocks may differ in is left out.
fn ageless_pause(pause: &Pause) -> Pause {
    let mut pause = pause.clone();
    pause.since = None;
    pause
}

pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(now.as_millis()).expect("it is not yet so late")
}

impl World {
    pub(crate) async fn new(broker: DynBroker) -> World {
        let queue: Arc<str> = format!("model-{:016x}", fastrand::u64(..)).into();
        let processes = [ProcessId::random(), ProcessId::random(), ProcessId::random()];
        let (mut model, mut producers) = (Model::default(), Vec::new());
        model.now = now_ms();
        for _ in 0..2 {
            let register = Register::producer(queue.clone(), processes[0]);
            let name = broker.register(&register).await.expect("a producer can register").name;
            model.registered(&register, name.clone());
            producers.push(Producer { name, requests: Vec::new() });
        }
        let (lanes, deliveries, suspects, ids) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let operations = Operations::new(&broker, &queue);
        let (followers, rated, held_until_ms, follower) = (Vec::new(), false, 0, Follower::default());
        let mut world = World {
            broker,
            queue,
            model,
            processes,
            lanes,
            producers,
            deliveries,
            held_until_ms,
            suspects,
            ids,
            followers,
            rated,
            operations,
            follower,
        };
        world.register(world.processes[0]).await.expect("a lane can register");
        world
    }

    /// Does it, and compares what came of it.
    pub(crate) async fn act(&mut self, step: &Step) -> Check {
        self.follower.ready().await;
        while now_ms() < self.held_until_ms {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let before = now_ms();
        self.model.now = before;
        // What a sweep releases comes back in an order of the broker's own, until it was looked at.
        let loose = self.model.ready.loose.clone();
        match step {
            Step::Register { process } => self.register(*process.get(&self.processes)).await?,
            Step::Enqueue { producer, jobs } => self.enqueue(*producer, jobs).await?,
            Step::EnqueueAgain { producer } => self.enqueue_again(*producer, 0).await?,
            Step::EnqueueLate { producer } => self.enqueue_again(*producer, 1).await?,
            Step::Turn { lane, finishes, claim, suspect, resume } => {
                let lane = lane.index(self.lanes.len());
                let mut turn = self.next_turn(lane);
                turn.finishes = self.finishes(&turn.lane, finishes);
                (turn.claim, turn.suspect) = (*claim, *suspect);
                if let Some(release) = resume {
                    (turn.resume, turn.release) = (vec!["unrelated".into(), TASK.into()], Some((*release).into()));
                }
                self.send(lane, turn).await?;
            }
            Step::TurnAgain { lane } => {
                let lane = lane.index(self.lanes.len());
                if let Some(turn) = self.lanes[lane].last.clone() {
                    self.send(lane, turn).await?;
                }
            }
            Step::TurnOff { lane, by } => {
                let lane = lane.index(self.lanes.len());
                let mut turn = self.next_turn(lane);
                // Two before the next one is one before the last.
                turn.seq = if *by < 0 { turn.seq.saturating_sub(2).max(1) } else { turn.seq + 1 };
                if turn.seq != self.lanes[lane].answered && turn.seq != self.lanes[lane].answered + 1 {
                    self.send(lane, turn).await?;
                }
            }
            Step::Beat { lane } => self.beat(lane.index(self.lanes.len()), LONG).await?,
            Step::Ask { lane, number, mode } => {
                let process = self.lanes[lane.index(self.lanes.len())].name.process().parse().expect("a lane is of a process");
                let ask = AskWorker::new(self.queue.clone(), process, WorkerAsk::new(*number, *mode, "ada"));
                let found = self.broker.ask_worker(&ask).await.map_err(|error| error.to_string())?;
                same("ask", &self.model.ask_worker(&ask), &found)?;
            }
            Step::Remark { lane, delivery, stray, progress, first, lines } => {
                let lane = lane.get(&self.lanes).name.clone();
                self.remark(lane, *delivery, *stray, *progress, *first, lines).await?;
            }
            Step::Lapse { lane } => self.lapse(lane.index(self.lanes.len())).await?,
            Step::Fence { suspect } => self.fence(*suspect).await?,
            Step::Sweep => self.sweep().await?,
            Step::Change { change, reason, jobs } => {
                let ids = self.named(jobs);
                let found = self.broker.change(&self.queue, *change, reason.as_deref(), &ids).await;
                same(change.name(), &Ok(self.model.change(*change, reason.as_deref(), &ids)), &outcome(found))?;
            }
            Step::Edit { job, wanted } => {
                let id = self.named(&[*job]).pop();
                if let Some(request) = id.and_then(|id| edit::request(&self.model, &self.queue, &id, wanted)) {
                    let found = self.broker.edit(&request).await;
                    same("edit", &Ok(self.model.edit(&request)), &outcome(found))?;
                }
            }
            Step::PauseTask { paused } => {
                let (queue, of) = (self.queue.clone(), PauseOf::Task(TASK.into()));
                let request = if *paused { SetPause::pause(queue, of, Pausing::new()) } else { SetPause::resume(queue, of) };
                let found = self.broker.set_pause(&request).await;
                same("pause of a task", &outcome(self.model.set_pause(&request)), &outcome(found))?;
            }
            Step::Pause { group, paused, soon } => {
                let of = group.map_or(PauseOf::Queue, |group| PauseOf::Group(group_name(group)));
                let mut pausing = Pausing::new().because(format!("{soon:?}"));
                let until = before + if *soon == Some(true) { 20 } else { 3_600_000 };
                pausing.until = soon.map(|_| Due::AtMs(until));
                let request = match paused {
                    true => SetPause::pause(self.queue.clone(), of, pausing),
                    false => SetPause::resume(self.queue.clone(), of),
                };
                let found = self.broker.set_pause(&request).await;
                // A machine that stood still may have seen the end pass.
                if found.is_ok() || now_ms() < until {
                    same("pause", &outcome(self.model.set_pause(&request)), &outcome(found))?;
                }
            }
            Step::ReleaseKey { key } => {
                let key = unique_key(*key);
                let found = self.broker.release_key(&self.queue, &key).await;
                same(
                    "release of a key",
                    &Ok(self.model.release_key(&key).map(face_of_holder)),
                    &outcome(found).map(|holder| holder.map(face_of_holder)),
                )?;
            }
            Step::SetGroup { group, rule } => {
                let of = group.map_or(RuleOf::Others, |group| RuleOf::Group(group_name(group)));
                let which = group.map_or(GroupList::All { after: None, limit: 1 }, |group| GroupList::One(group_name(group)));
                let page = self.model.list_groups(&which);
                let expected = group.map_or(page.others, |_| page.groups[0].rule);
                let request = SetGroup::new(self.queue.clone(), of, expected, *rule);
                let found = self.broker.set_group(&request).await;
                same("rule of a group", &outcome(self.model.set_group(&request)), &outcome(found))?;
            }
            Step::DeclareGroups { rule } => {
                let read = self.model.list_groups(&GroupList::All { after: None, limit: 1 }).stored_declared;
                let mut record = GroupsRecord::default();
                if let Some(rule) = rule {
                    record.say("v1", rule, &BTreeSet::new(), 1);
                }
                let request = SetGroup::declared(self.queue.clone(), &read, &record.encode());
                let found = self.broker.set_group(&request).await;
                same("what is declared of groups", &outcome(self.model.set_group(&request)), &outcome(found))?;
            }
            Step::SetLimit { all, concurrency, burst } => {
                let name = if *all { "all" } else { "keyed" };
                let read = |limits: Vec<StoredLimit>| limits.into_iter().next().map(|limit| limit.stored).unwrap_or_default();
                let expected = read(self.model.list_limits(Some(name)));
                let mut record = LimitRecord::new(name);
                let mut rule = LimitRule::new();
                let rate = burst.map(|_| "1/1h".parse().expect("it is a rate"));
                (rule.concurrency, rule.rate, rule.burst) = (*concurrency, rate, *burst);
                record.set_to(Some(rule));
                self.rated |= burst.is_some();
                let request = SetLimit::new(self.queue.clone(), name, expected, record.encode());
                let found = self.broker.set_limit(&request).await;
                same("a limit", &outcome(self.model.set_limit(&request)), &outcome(found))?;
            }
            Step::SetAging { every } => {
                let mut record = AgingRecord::default();
                record.set(every.map_or(Aging::Off, Aging::Every)).expect("it is a time");
                // Of what is stored only the broker knows: it is asked by a change that would be none.
                let asked = SetAging::new(self.queue.clone(), b"?".to_vec(), b"??".to_vec());
                let stored = match self.broker.set_aging(&asked).await {
                    Ok(AgingSet::Stale(stored)) => stored,
                    other => return Err(format!("a stale change of aging is answered {other:?}")),
                };
                same("what is stored of aging", &self.model.set_aging(&asked), &AgingSet::Stale(stored.clone()))?;
                let request = SetAging::new(self.queue.clone(), stored, record.encode());
                let found = self.broker.set_aging(&request).await;
                same("aging", &Ok(self.model.set_aging(&request)), &outcome(found))?;
            }
            Step::Operate(operating) => {
                let jobs = if let Operating::Step { jobs, .. } = operating { self.named(jobs) } else { Vec::new() };
                self.operations.act(&mut self.model, operating, jobs, &self.ids).await?;
            }
            Step::Follow { is_brief } => self.follower.follow(&mut self.model, &self.broker, &self.queue, *is_brief).await?,
            Step::Wait { .. } => {
                while now_ms() < before + 3 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
        // A job that waits for its key leaves with any step, and by the broker's clock: whether it is due then is known only once its short delay is over.
        let may_be_held = match step {
            Step::Enqueue { jobs, .. } => jobs.iter().any(|job| job.key.is_some() && !job.delay.is_zero()),
            Step::EnqueueAgain { .. } | Step::EnqueueLate { .. } => true,
            _ => false,
        };
        if may_be_held {
            self.held_until_ms = now_ms() + 3;
        }
        self.model.tell_transitions();
        self.follower.read(&self.model, &self.broker, &self.queue, before).await?;
        // Of a turn the broker's clock is known; elsewhere it may round otherwise than ours.
        let took =
            if matches!(step, Step::Turn { .. } | Step::TurnAgain { .. } | Step::TurnOff { .. }) { 0 } else { now_ms() - before + 1 };
        for key in (0..KEYS).map(unique_key) {
            let found = self.broker.key_holder(&self.queue, &key).await;
            let (known, found) = (Ok(self.model.key_holder(&key)), outcome(found));
            same("holder of a key", &known.map(|holder| holder.map(face_of_holder)), &found.map(|holder| holder.map(face_of_holder)))?;
        }
        let all = GroupList::All { after: None, limit: 500 };
        let found = self.broker.groups(&self.queue, &all).await.map_err(|error| error.to_string())?;
        let ageless = |mut group: StoredGroup| {
            group.oldest = None;
            group.pause = group.pause.map(|pause| ageless_pause(&pause));
            group
        };
        let pauses = |pauses: Pauses| {
            pauses.pauses.into_iter().map(|stored| (stored.of, stored.parked, ageless_pause(&stored.pause))).collect::<Vec<_>>()
        };
        let paused = self.broker.pauses(&self.queue).await.map_err(|error| error.to_string())?;
        same("pauses", &pauses(self.model.pauses()), &pauses(paused))?;
        let declared = found.stored_declared;
        let found: Vec<StoredGroup> = found.groups.into_iter().map(ageless).collect();
        let known = self.model.list_groups(&all);
        same("what is declared", &known.stored_declared, &declared)?;
        let known: Vec<StoredGroup> = known.groups.into_iter().map(ageless).collect();
        same("groups", &known, &found)?;
        same_jobs(&mut self.model, &self.broker, &self.queue, &self.ids, took).await?;
        if let Some(group) = found.get(self.ids.len() % found.len().max(1)) {
            let line = GroupList::Line { group: group.name.clone(), jobs: 3 };
            let found = self.broker.groups(&self.queue, &line).await.map_err(|error| error.to_string())?;
            // Chains of a priority are served in rotation, and listed one after the other.
            if !self.model.has_limits() {
                same("line of a group", &self.model.list_groups(&line).line, &found.line)?;
            }
        }
        if matches!(step, Step::Sweep) {
            self.model.ready.loose = loose;
        }
        for follower in self.followers.drain(..) {
            self.model.ready.loose.remove(&follower);
        }
        self.operations.moved(&self.model);
        same_operations(&self.model, &self.broker, &self.queue).await?;
        same_standings(&self.model, &self.broker, &self.queue, &self.ids).await?;
        foresees(&self.model, &self.ids)
    }

    async fn register(&mut self, process: ProcessId) -> Check {
        let info = WorkerInfo::new("model", 1, &process.to_string(), []);
        let register = Register::lane(self.queue.clone(), process, LONG).with_info(info);
        let name = self.broker.register(&register).await.map_err(|error| error.to_string())?.name;
        self.model.registered(&register, name.clone());
        self.lanes.push(Lane { name, answered: 0, last: None });
        if self.lanes.len() > 4 {
            self.lanes.remove(0);
        }
        Ok(())
    }

    async fn enqueue(&mut self, producer: Index, jobs: &[New]) -> Check {
        let n = producer.index(self.producers.len());
        let producer = &self.producers[n];
        let seq = producer.requests.last().map_or(0, |request| request.seq) + 1;
        let jobs: Vec<NewJob> = jobs.iter().map(new_job).collect();
        for job in &jobs {
            if !self.ids.contains(&job.id) {
                self.ids.push(job.id.clone());
            }
        }
        let request = Enqueue::new(self.queue.clone(), producer.name.clone(), seq, jobs);
        self.producers[n].requests.push(request.clone());
        self.send_enqueue(&request).await
    }

    async fn enqueue_again(&mut self, producer: Index, back: usize) -> Check {
        let requests = &producer.get(&self.producers).requests;
        match requests.iter().rev().nth(back).cloned() {
            Some(request) => self.send_enqueue(&request).await,
            None => Ok(()),
        }
    }

    async fn send_enqueue(&mut self, request: &Enqueue) -> Check {
        let found = outcome(self.broker.enqueue(request).await);
        same("enqueue", &outcome(self.model.enqueue(request)), &found)
    }

    fn next_turn(&self, lane: usize) -> Turn {
        let lane = &self.lanes[lane];
        Turn::new(self.queue.clone(), lane.name.clone(), lane.answered + 1, LONG)
    }

    /// The finishes of a turn: each delivery once.
    fn finishes(&self, lane: &PartyName, ends: &[End]) -> Vec<Finish> {
        let latest = self.deliveries.iter().rev().take(NAMED);
        let mut seen = BTreeSet::new();
        let mut finishes = Vec::new();
        for end in ends {
            let of: Vec<&Delivery> =
                latest.clone().filter(|(holder, _)| end.stray || holder == lane).map(|(_, delivery)| delivery).collect();
            if of.is_empty() {
                continue;
            }
            let delivery = end.delivery.get(&of);
            if seen.insert((delivery.id.clone(), delivery.claim)) {
                let mut finish = Finish::new(delivery, end.ending.clone());
                finish.used = end.used.map(|starts| {
                    let mut used = Used::default();
                    used.set(starts);
                    Box::new(used)
                });
                finishes.push(finish);
            }
        }
        finishes
    }

    async fn send(&mut self, lane: usize, turn: Turn) -> Check {
        let replay = turn.seq == self.lanes[lane].answered;
        let found = outcome(self.broker.turn(&turn).await);
        if let Ok(answer) = &found {
            self.model.now = answer.now_ms;
        }
        let seen = found.as_ref().ok().map(|answer| Seen {
            claim: answer.deliveries.first().map(|delivery| delivery.claim),
            ids: answer.aside.iter().chain(answer.deliveries.iter().map(|delivery| &delivery.id)).cloned().collect(),
        });
        let has_tombs = !self.model.ready.loose.is_empty();
        if turn.finishes.len() > 1 {
            // Of several endings the broker chooses the order, and so who of those comes first that get a key or come back.
            let held = self.model.jobs.iter().filter(|(_, job)| matches!(job.place(), Place::Held(_))).map(|(id, _)| id.clone());
            self.followers = held.filter(|id| !self.model.ready.loose.contains(id)).collect();
            self.model.ready.loose.extend(self.followers.iter().cloned());
        }
        let known = outcome(self.model.turn(&turn, seen.as_ref()));
        let (known, found) = match (known, found) {
            (Ok(known), Ok(found)) => (known, found),
            (known, found) => return same("turn", &known.map(|_| ()), &found.map(|_| ())),
        };
        // A replay or a turn without a claim says less exactly whether there is more, and so does one with tombs in its way: jobs that rise leave some.
        let spurious = replay || turn.claim == 0 || has_tombs || self.model.groups.has_suspects();
        let has_risen = self.model.ready.loose.iter().any(|id| !self.followers.contains(id));
        let spurious = spurious || self.model.has_limits() || has_risen;
        let (mut known, mut found) = (known, found);
        if self.rated {
            // A broker knows when a job starts that waits for a rate if it has looked at the job, and looks again if it does not know.
            (known.next_due, found.next_due) = (None, None);
        }
        if self.model.has_limits() && !found.more {
            // What could start and was left waits for jobs that cost more, and the broker says so.
            let had_suspect = found.deliveries.iter().any(|delivery| delivery.crashes > 0);
            let suspects = !replay && turn.suspect && !had_suspect && found.deliveries.len() < turn.claim;
            let left: Vec<JobId> = self.model.could_start(suspects).cloned().collect();
            is_kept_back(&self.model, &self.broker, &self.queue, &left).await?;
            known.more = false;
        }
        same_turn(&known, &found, spurious)?;
        if replay {
            return Ok(());
        }
        for delivery in &found.deliveries {
            let last = self.deliveries.iter().filter(|(_, other)| other.id == delivery.id).map(|(_, other)| other.claim).max();
            if last >= Some(delivery.claim) {
                return Err(format!("{}: claim {} after {last:?}", delivery.id, delivery.claim));
            }
        }
        self.deliveries.extend(found.deliveries.into_iter().map(|delivery| (turn.lane.clone(), delivery)));
        self.lanes[lane].answered = turn.seq;
        self.lanes[lane].last = Some(turn);
        Ok(())
    }

    async fn beat(&mut self, lane: usize, lease: Duration) -> Check {
        // Some of them say what their worker uses.
        let says = lane.is_multiple_of(2);
        let lane = &self.lanes[lane];
        let beat = Extend::new(self.queue.clone(), lane.name.clone(), lane.answered, lease);
        let beat = if says { beat.saying(WorkerLoad::new(lane.answered % 8, 8)) } else { beat };
        // Of those that end, some do because their worker leaves, and the others because it has died.
        let beat = if lease < LONG && !says { beat.leaving() } else { beat };
        let found = self.broker.extend(std::slice::from_ref(&beat)).await.pop().expect("an answer for each lane");
        let sorted = |extended: queue_core::broker::Extended| {
            let mut cancelled = extended.cancelled;
            cancelled.sort();
            (cancelled, extended.asked)
        };
        same("beat", &outcome(self.model.extend(&beat)).map(sorted), &outcome(found).map(sorted))
    }

    async fn remark(&mut self, lane: PartyName, delivery: Index, stray: bool, progress: Option<u8>, first: u64, lines: &[String]) -> Check {
        let latest = self.deliveries.iter().rev().take(NAMED).filter(|(holder, _)| stray || *holder == lane);
        let latest: Vec<&Delivery> = latest.map(|(_, delivery)| delivery).collect();
        if latest.is_empty() {
            return Ok(());
        }
        let delivery = delivery.get(&latest);
        let mut told = JobRemarks::new(delivery.id.clone(), delivery.claim, delivery.attempts + 1);
        told.progress = progress.map(|n| ProgressNow::new(u64::from(n), Some(f64::from(n) / 4.0), format!("{n} of 4"), Some(vec![n])));
        told.first = first;
        told.lines = lines.iter().map(|text| LineNow::new(LogLevel::Info, text)).collect();
        let mut request = Remarks::new(self.queue.clone(), lane);
        request.jobs.push(told);
        let found = outcome(self.broker.remark(&request).await);
        same("remark", &outcome(self.model.remark(&request)), &found)
    }

    async fn lapse(&mut self, lane: usize) -> Check {
        self.beat(lane, Duration::from_millis(1)).await?;
        tokio::time::sleep(Duration::from_millis(3)).await;
        let found = self.broker.overdue(&self.queue, 100).await.map_err(|error| error.to_string())?;
        self.model.now = now_ms();
        for suspect in &found.expired {
            self.model.set_deadline(suspect);
        }
        let sorted = |mut suspects: Vec<OverdueLane>| {
            suspects.sort_by(|one, other| one.name.cmp(&other.name));
            suspects
        };
        let known = self.model.overdue(100);
        same("suspects", &sorted(known.expired), &sorted(found.expired.clone()))?;
        self.suspects.extend(found.expired);
        Ok(())
    }

    async fn fence(&mut self, suspect: Index) -> Check {
        let latest: Vec<&OverdueLane> = self.suspects.iter().rev().take(NAMED).collect();
        if latest.is_empty() {
            return Ok(());
        }
        let suspects = [(*suspect.get(&latest)).clone()];
        let found = self.broker.fence(&self.queue, &suspects).await;
        same("fence", &Ok(self.model.fence(&suspects)), &outcome(found))
    }

    async fn sweep(&mut self) -> Check {
        let active = self.model.jobs.iter().filter(|(_, job)| matches!(job.place(), Place::Active { .. }));
        self.model.ready.loose.extend(active.map(|(id, _)| id.clone()).collect::<Vec<_>>());
        let mut found = Reclaimed::default();
        for _ in 0..20 {
            let step = self.broker.reclaim(&self.queue, &RULE).await.map_err(|error| error.to_string())?;
            found.released += step.released;
            found.charged += step.charged;
            found.buried.extend(step.buried.iter().cloned());
            found.forgotten += step.forgotten;
            if step == Reclaimed::default() {
                break;
            }
        }
        let mut known = self.model.reclaim(&RULE);
        known.buried.sort();
        found.buried.sort();
        same("sweep", &known, &found)
    }

    /// The latest jobs have numbers.
    fn named(&self, jobs: &[Index]) -> Vec<JobId> {
        let latest: Vec<&JobId> = self.ids.iter().rev().take(NAMED).collect();
        if latest.is_empty() {
            return Vec::new();
        }
        jobs.iter().map(|job| (*job.get(&latest)).clone()).collect()
    }
}

pub(crate) fn new_job(new: &New) -> NewJob {
    let payload = vec![new.payload; if new.large { 2048 } else { 1 }];
    let mut envelope = Envelope::new(TASK, &payload);
    envelope.tags = new
        .tag
        .iter()
        .flat_map(|tag| [("all", "yes".to_owned()), ("one", tag.to_string())])
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    envelope.enqueued_ms = new.enqueued_ms;
    let envelope = envelope.encode().expect("a small envelope can be encoded");
    let id = new.id.map_or_else(JobId::make, |n| JobId::given(&format!("given-{n}")).expect("it is a name"));
    let digest = Envelope::decode(&envelope).expect("it was just encoded").digest();
    let mut job = NewJob::new(id, envelope);
    job.priority = new.priority;
    job.due = if new.delay.is_zero() { Due::Now } else { Due::After(new.delay) };
    job.digest = if job.id.is_given() { digest } else { 0 };
    job.group = new.group.map(group_name);
    job.limits = JobLimits::new(new.limits.iter().map(limit_key).collect(), new.cost).map(Box::new);
    job.unique = new.key.as_ref().map(|key| {
        let mut unique = Unique::new(unique_key(key.key)).hold(key.hold).on_conflict(key.on_conflict);
        (unique.keep_payload, unique.max_wait) = (key.keep_payload, key.at_once.then_some(Duration::ZERO));
        Box::new(unique)
    });
    job
}

pub(crate) fn limit_key(key: &u8) -> LimitKey {
    if *key == 3 { LimitKey::of("all", &[]) } else { LimitKey::of("keyed", &[1 + key]) }
}

pub(crate) fn group_name(group: u8) -> GroupName {
    GroupName::new(format!("{}{group}", "g".repeat(usize::from(group)))).expect("it is a name")
}

pub(crate) fn unique_key(key: u8) -> UniqueKey {
    UniqueKey::of(TASK, &[key])
}

/// Who holds a key, but for the time, and who is held for it.
fn face_of_holder(holder: KeyHolder) -> (JobId, bool, Option<JobId>) {
    (holder.id, holder.until_ms.is_some(), holder.next)
}
