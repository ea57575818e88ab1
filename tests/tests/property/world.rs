//! Two brokers at one time, to which the same is done.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::future::join_all;
use queue_core::{
    __private::{RedisBroker, SqliteBroker},
    Client, JobId, LogLevel, Result,
    broker::{
        Aging, AgingRecord, AgingSet, AskWorker, Audit, CrashRule, Delivery, Due, DynBroker, Enqueue, Extend, FOLLOWED, Finish, GroupList,
        GroupName, GroupsRecord, JobProgress, JobState, LimitKeys, LimitRecord, LineNow, NewJob, OverdueLane, PartyName, PauseOf, Pausing,
        ProcessId, ProgressNow, ProgressReport, Register, RuleOf, Scan, SetAging, SetGroup, SetLimit, SetPause, StoredJob, StoredLimit,
        StoredLimitKey, SweepLimits, Swept, Turn, Used, WorkerAsk, WorkerInfo, WorkerLoad,
    },
    inspect::{JobRecord, LimitKey, LimitRule},
};
use queue_tests::server::{self, Kind, Server};
use redis::{AsyncCommands, aio::MultiplexedConnection};

use crate::{
    compare::{Check, by_job, face_of_page, faces_of_diagnoses, faces_of_jobs, sorted},
    edit,
    job::{group_name, new_job, unique_key},
    operate::{Operating, Operations},
    progress::{
        reasons::{agree, starts_no_blocked},
        snapshot::{Claim, Job, Snapshot, overtakes},
    },
    step::{End, Index, KEYS, LONG, New, Step, TASK},
};

const RULE: CrashRule = CrashRule { max_crashes: 3, tasks: &[], window: Duration::from_secs(3600), delay: Duration::from_millis(1) };

/// Jobs, lanes and deliveries that numbers can name: the latest of them.
const NAMED: usize = 12;

/// After so many steps, and at the end, all that can be seen is compared; after the others what
/// they may change.
const WHOLE: usize = 8;

/// When each story begins: in 2033, so that no clock of a machine is right.
const BEGIN_MS: i64 = 2_000_000_000_000;

/// The namespace of the broker that uses only full scripts.
const FULL: &str = "full";

/// All keys of a namespace, and what is in them: the fields of a hash by name.
const DUMP: &str = r"
local keys, dump = redis.call('KEYS', ARGV[1] .. ':*'), {}
table.sort(keys)
local reads = {
  string = function(key) return { redis.call('GET', key) } end,
  hash = function(key)
    local flat, fields = redis.call('HGETALL', key), {}
    for at = 1, #flat, 2 do
      fields[#fields + 1] = flat[at] .. '=' .. flat[at + 1]
    end
    table.sort(fields)
    return fields
  end,
  list = function(key) return redis.call('LRANGE', key, 0, -1) end,
  set = function(key)
    local members = redis.call('SMEMBERS', key)
    table.sort(members)
    return members
  end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
  stream = function(key) return { cjson.encode(redis.call('XRANGE', key, '-', '+')) } end,
}
for _, key in ipairs(keys) do
  dump[#dump + 1] = string.sub(key, #ARGV[1] + 1) .. ' for ' .. redis.call('PTTL', key)
  for _, part in ipairs(reads[redis.call('TYPE', key).ok](key)) do
    dump[#dump + 1] = part
  end
end
return dump
";

/// Two brokers, both empty, whose clocks stand still until they are moved.
pub(crate) struct Sides {
    pub(crate) names: [&'static str; 2],
    pub(crate) brokers: [DynBroker; 2],
    connection: MultiplexedConnection,
    /// Whether both are on Redis: then nothing is free, and what they have stored is the same.
    pub(crate) are_alike: bool,
    /// Moves the clocks to a time and by a time.
    clock: Box<dyn Fn(i64, Duration)>,
    now_ms: AtomicI64,
}

impl Sides {
    /// The server of all stories.
    pub(crate) fn server() -> Arc<Server> {
        Arc::new(Server::with_own_clock(Kind::Redis, &["--appendonly", "no"]))
    }

    /// Redis and SQLite.
    pub(crate) async fn of_brokers(server: &Arc<Server>) -> Sides {
        let connection = Sides::emptied(server).await;
        let redis = RedisBroker::connect(&server.socket_url()).await.expect("the URL of a server of ours");
        let begin = UNIX_EPOCH + Duration::from_millis(BEGIN_MS.unsigned_abs());
        let sqlite = SqliteBroker::frozen(begin).expect("a database in memory can be opened");
        let (server, moved) = (server.clone(), sqlite.clone());
        Sides {
            names: ["Redis", "SQLite"],
            brokers: [redis, sqlite],
            connection,
            are_alike: false,
            clock: Box::new(move |at_ms, by| {
                server.freeze_clock(at_ms);
                moved.advance(by);
            }),
            now_ms: AtomicI64::new(BEGIN_MS),
        }
    }

    /// Redis by the plain scripts where they will do, and by the full ones alone.
    pub(crate) async fn of_scripts(server: &Arc<Server>) -> Sides {
        let connection = Sides::emptied(server).await;
        let plain = RedisBroker::connect(&server.socket_url()).await.expect("the URL of a server of ours");
        let full = RedisBroker::__by_full_scripts(&format!("{}?namespace={FULL}", server.socket_url()))
            .await
            .expect("the URL of a server of ours");
        let server = server.clone();
        Sides {
            names: ["the plain script", "the full one"],
            brokers: [plain, full],
            connection,
            are_alike: true,
            clock: Box::new(move |at_ms, _| server.freeze_clock(at_ms)),
            now_ms: AtomicI64::new(BEGIN_MS),
        }
    }

    async fn emptied(server: &Server) -> MultiplexedConnection {
        server.freeze_clock(BEGIN_MS);
        server.ask::<()>(&["FLUSHALL"]).expect("a server can be emptied");
        server::connect(&server.socket_url()).await
    }

    /// The one whose answers are returned where both are the same.
    pub(crate) fn second(&self) -> DynBroker {
        self.brokers[1].clone()
    }

    /// Both namespaces have the same keys, with the same values and lifetimes.
    async fn store_the_same(&self) -> Check {
        let dump = async |namespace: &str| {
            let dumped = redis::cmd("EVAL").arg(DUMP).arg(0).arg(namespace).query_async(&mut self.connection.clone()).await;
            let dumped: Vec<Vec<u8>> = dumped.expect("the keys of a namespace can be read");
            dumped.iter().map(|part| format!("{}\n", part.escape_ascii())).collect::<String>()
        };
        self.equal("what is stored", &dump("queue").await, &dump(FULL).await)
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.now_ms().unsigned_abs())
    }

    /// Time passes, on both sides.
    pub(crate) fn advance(&self, ms: u64) {
        let now = self.now_ms.fetch_add(ms.cast_signed(), Ordering::Relaxed) + ms.cast_signed();
        (self.clock)(now, Duration::from_millis(ms));
    }
}

/// Tells a story. With two brokers it ends where the order of a line becomes free.
pub(crate) async fn tell(sides: &Sides, story: &[Step]) -> Check {
    let mut world = World::new(sides).await?;
    for (n, step) in story.iter().enumerate() {
        sides.advance(1);
        let is_whole = n + 1 == story.len() || n % WHOLE == WHOLE - 1;
        let told = match world.act(step).await {
            Ok(()) => world.same(is_whole).await,
            problem => problem,
        };
        let is_free =
            async |world: &mut World<'_>| world.is_order_free().await || matches!(step, Step::Wait { .. }) && world.is_burial_free().await;
        if !sides.are_alike && is_free(&mut world).await {
            return Ok(());
        }
        if let Err(problem) = told {
            return Err(format!("step {}, {step:?}: {problem}\n\n{}", n + 1, world.sketch().await));
        }
    }
    Ok(())
}

/// A queue of both, and who works with it.
struct World<'a> {
    sides: &'a Sides,
    queue: Arc<str>,
    processes: [ProcessId; 3],
    lanes: Vec<Lane>,
    producers: Vec<Producer>,
    deliveries: Vec<(PartyName, Delivery)>,
    overdue: Vec<OverdueLane>,
    ids: Vec<JobId>,
    operations: Operations,
    /// The last transition that was read.
    followed: Option<u64>,
    /// The places in lines of Redis that jobs have left.
    tombstones: BTreeSet<Vec<u8>>,
    /// What was stored before this step, and what it has claimed, if it has done nothing else.
    before: Option<Snapshot>,
    claim: Option<Claim>,
    /// Whether jobs have limits, and whether some count for several starts.
    has_limits: bool,
    has_costs: bool,
    /// Whether jobs may have risen.
    ages: bool,
    /// Whether this step may have taken a job out of a line to which it came back.
    may_return: bool,
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

impl World<'_> {
    async fn new(sides: &Sides) -> Check<World<'_>> {
        let queue: Arc<str> = "jobs".into();
        let processes = [ProcessId::random(), ProcessId::random(), ProcessId::random()];
        let mut world = World {
            sides,
            operations: Operations::new(sides, &queue),
            queue,
            processes,
            lanes: Vec::new(),
            producers: Vec::new(),
            deliveries: Vec::new(),
            overdue: Vec::new(),
            ids: Vec::new(),
            followed: None,
            tombstones: BTreeSet::new(),
            before: None,
            claim: None,
            has_limits: false,
            has_costs: false,
            ages: false,
            may_return: false,
        };
        for _ in 0..2 {
            let register = Register::producer(world.queue.clone(), processes[0]);
            let name = sides.read("a producer", async |broker| broker.register(&register).await).await?.name;
            world.producers.push(Producer { name, requests: Vec::new() });
        }
        world.register(processes[0]).await?;
        Ok(world)
    }

    async fn act(&mut self, step: &Step) -> Check {
        let (sides, queue) = (self.sides, self.queue.clone());
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
            Step::Heartbeat { lane } => self.heartbeat(lane.index(self.lanes.len()), LONG).await?,
            Step::Ask { lane, number, mode } => {
                let process = lane.get(&self.lanes).name.process().parse().expect("a lane is of a process");
                let ask = AskWorker::new(queue, process, WorkerAsk::new(*number, *mode, "ada"));
                sides.read("ask", async |broker| broker.ask_worker(&ask).await).await?;
            }
            Step::Progress { lane, delivery, stray, progress, first, lines } => {
                let lane = lane.get(&self.lanes).name.clone();
                self.store_progress(lane, *delivery, *stray, *progress, *first, lines).await?;
            }
            Step::Lapse { lane } => {
                self.heartbeat(lane.index(self.lanes.len()), Duration::from_millis(1)).await?;
                sides.advance(2);
                let mut found = sides.read("overdue lanes", async |broker| broker.overdue(&queue, 0, 100).await).await?;
                self.overdue.append(&mut found.expired);
            }
            Step::Fence { suspect: overdue } => {
                let latest: Vec<&OverdueLane> = self.overdue.iter().rev().take(NAMED).collect();
                if !latest.is_empty() {
                    let lanes = [(*overdue.get(&latest)).clone()];
                    sides.read("fence", async |broker| broker.fence(&queue, &lanes).await).await?;
                }
            }
            Step::Sweep => self.sweep().await?,
            Step::Change { change, reason, jobs } => {
                let ids = self.named(jobs);
                let ask = async |broker: &DynBroker| broker.change(&queue, *change, reason.as_deref(), &ids).await;
                sides.read(change.name(), ask).await?;
            }
            Step::Edit { job, wanted } => {
                if let Some(id) = self.named(&[*job]).pop()
                    && let Some(record) = sides.second().show(&queue, &id).await.map_err(|error| error.to_string())?
                {
                    self.may_return |= self.ages && record.state == JobState::Ready;
                    let request = edit::request(&queue, record, 1, sides.now_ms(), wanted);
                    self.has_limits |= request.limits.is_some();
                    sides.read("edit", async |broker| broker.edit(&request).await).await?;
                }
            }
            Step::PauseTask { paused } => self.set_pause(PauseOf::Task(TASK.into()), paused.then(Pausing::new)).await?,
            Step::Pause { group, paused, soon } => {
                let of = group.map_or(PauseOf::Queue, |group| PauseOf::Group(group_name(group)));
                let mut pausing = Pausing::new().because(format!("{soon:?}"));
                let until = sides.now_ms() + if *soon == Some(true) { 20 } else { 3_600_000 };
                pausing.until = soon.map(|_| Due::AtMs(until));
                self.set_pause(of, paused.then_some(pausing)).await?;
            }
            Step::ReleaseKey { key } => {
                let key = unique_key(*key);
                sides.read("release of a key", async |broker| broker.release_key(&queue, &key).await).await?;
            }
            Step::SetGroup { group, rule } => {
                let of = group.map_or(RuleOf::Others, |group| RuleOf::Group(group_name(group)));
                let which = group.map_or(GroupList::All { after: None, limit: 1 }, |group| GroupList::One(group_name(group)));
                let page = sides.read("rules", async |broker| broker.groups(&queue, &which).await).await?;
                let expected = if group.is_some() { page.groups[0].rule } else { page.others };
                let request = SetGroup::new(queue, of, expected, *rule);
                let _ = sides.ask("rule of a group", async |broker| broker.set_group(&request).await).await?;
            }
            Step::DeclareGroups { rule } => {
                let which = GroupList::All { after: None, limit: 1 };
                let page = sides.read("rules", async |broker| broker.groups(&queue, &which).await).await?;
                let mut record = GroupsRecord::default();
                if let Some(rule) = rule {
                    record.declare("v1", rule, &BTreeSet::new(), 1);
                }
                let request = SetGroup::declared(queue, &page.stored_declared, &record.encode());
                let _ = sides.ask("what is declared of groups", async |broker| broker.set_group(&request).await).await?;
            }
            Step::SetLimit { all, concurrency, burst } => {
                let name = if *all { "all" } else { "keyed" };
                let found = sides.read("a limit", async |broker| broker.limits(&queue, Some(name)).await).await?;
                let expected = found.into_iter().next().map(|limit| limit.stored).unwrap_or_default();
                let mut record = LimitRecord::new(name);
                let mut rule = LimitRule::new();
                let rate = burst.map(|_| "1/1h".parse().expect("it is a rate"));
                (rule.concurrency, rule.rate, rule.burst) = (*concurrency, rate, *burst);
                record.set_to(Some(rule));
                let request = SetLimit::new(queue, name, expected, record.encode());
                let _ = sides.ask("a limit that is set", async |broker| broker.set_limit(&request).await).await?;
            }
            Step::SetAging { every } => {
                let mut record = AgingRecord::default();
                record.set(every.map_or(Aging::Off, Aging::Every)).expect("it is a time");
                self.ages |= every.is_some();
                // What is stored is told by a change that would be none.
                let asked = SetAging::new(queue.clone(), b"?".to_vec(), b"??".to_vec());
                let stored = match sides.read("stored aging", async |broker| broker.set_aging(&asked).await).await? {
                    AgingSet::Stale(stored) => stored,
                    other => return Err(format!("a stale change of aging is answered {other:?}")),
                };
                let request = SetAging::new(queue, stored, record.encode());
                sides.read("aging", async |broker| broker.set_aging(&request).await).await?;
            }
            Step::Operate(operating) => {
                let jobs = if let Operating::Step { jobs, .. } = operating { self.named(jobs) } else { Vec::new() };
                self.operations.act(sides, operating, jobs, &self.ids).await?;
            }
            Step::Follow { is_brief } => {
                let stands = if *is_brief { Duration::from_millis(5) } else { FOLLOWED };
                let ask = async |broker: &DynBroker| broker.follow(&queue, stands).await;
                let found = sides.ask_as("follow", ask, |found| (found.was_valid, found.last)).await?;
                self.followed = found.map_err(|error| error.to_string())?.1;
            }
            Step::Wait { ms } => {
                sides.advance(*ms);
                self.forget().await?;
            }
        }
        Ok(())
    }

    /// The jobs are the same, and no audit finds anything. `whole`: and all else that can be seen.
    async fn same(&mut self, whole: bool) -> Check {
        let (sides, queue) = (self.sides, &*self.queue);
        let now_ms = sides.now_ms();
        let diagnosis = async |broker: &DynBroker| broker.diagnose(queue, &self.ids).await;
        let diagnoses = sides.ask_as("where jobs stand", diagnosis, |all| faces_of_diagnoses(all, now_ms)).await?;
        let diagnoses = diagnoses.map_err(|error| error.to_string())?;
        let jobs: Vec<Option<StoredJob>> = diagnoses.into_iter().map(|found| found.map(|found| found.job)).collect();
        self.operations.moved(&jobs);
        if sides.are_alike {
            sides.store_the_same().await?;
            return self.is_whole().await;
        }
        sides.read("counts", async |broker| broker.stats(queue).await).await?;
        self.lists(if whole { &JobState::ALL } else { &[JobState::Ready] }).await?;
        if let Some(after) = self.followed {
            let read = async |broker: &DynBroker| broker.transitions(queue, after, 500).await;
            let told = sides.ask_as("transitions", read, |read| (read.lost, read.upto, by_job(read.entries))).await?;
            self.followed = Some(told.map_err(|error| error.to_string())?.1);
        }
        if whole {
            self.all_is_the_same(&jobs).await?;
        }
        self.is_whole().await?;
        self.is_sound().await
    }

    async fn lists(&self, states: &[JobState]) -> Check {
        let now_ms = self.sides.now_ms();
        for state in states {
            let list = async |broker: &DynBroker| broker.list(&self.queue, *state, 0, 500).await;
            let _ = self.sides.ask_as(&format!("members of {state}"), list, |page| face_of_page(*state, page, now_ms)).await?;
        }
        Ok(())
    }

    /// What else can be seen of these jobs and of the queue is the same.
    async fn all_is_the_same(&self, jobs: &[Option<StoredJob>]) -> Check {
        let (sides, queue, now_ms) = (self.sides, &*self.queue, self.sides.now_ms());
        let shown = async |broker: &DynBroker| {
            let jobs = join_all(self.ids.iter().map(|id| broker.show(queue, id))).await;
            jobs.into_iter().collect::<Result<Vec<_>>>()
        };
        let _ = sides.ask_as("jobs", shown, |jobs| faces_of_jobs(jobs, now_ms)).await?;
        let reported = async |broker: &DynBroker| {
            let reported = join_all(self.ids.iter().map(|id| broker.progress_and_log(queue, id, 0))).await;
            reported.into_iter().collect::<Result<Vec<_>>>()
        };
        sides.read("progress", reported).await?;
        let scan = Scan::new(queue, &JobState::ALL, 500).tagged("all", "yes");
        sides.read("jobs with a tag", async |broker| broker.scan(&scan).await).await?;
        sides.read("workers", async |broker| broker.workers(queue).await).await?;
        for key in (0..KEYS).map(unique_key) {
            sides.read("holder of a key", async |broker| broker.key_holder(queue, &key).await).await?;
        }
        sides.read("pauses", async |broker| broker.pauses(queue).await).await?;
        let all = GroupList::All { after: None, limit: 500 };
        let groups = sides.read("groups", async |broker| broker.groups(queue, &all).await).await?.groups;
        // Those that differ in their limits are served in rotation, and listed in any order.
        for group in groups.into_iter().filter(|_| !self.has_limits) {
            let line = GroupList::Line { group: group.name, jobs: 3 };
            sides.read("line of a group", async |broker| broker.groups(queue, &line).await).await?;
        }
        let by_record = |mut limits: Vec<StoredLimit>| {
            limits.sort_by(|one, other| one.stored.cmp(&other.stored));
            limits
        };
        let _ = sides.ask_as("limits", async |broker| broker.limits(queue, None).await, by_record).await?;
        let keys: BTreeSet<LimitKey> = jobs.iter().flatten().flat_map(|job| job.limits.iter().copied()).collect();
        let keys = LimitKeys::These(keys.into_iter().collect());
        // Of several jobs that wait for a key the broker chooses the next.
        let face = |mut keys: Vec<StoredLimitKey>| {
            keys.iter_mut().for_each(|key| key.next = None);
            keys
        };
        let _ = sides.ask_as("keys of limits", async |broker| broker.limit_keys(queue, &keys).await, face).await?;
        self.operations.stored(sides).await.map(drop)
    }

    async fn is_whole(&self) -> Check {
        let audit = Audit { repair: false, thorough: true };
        let damage = self.sides.read("audit", async |broker| broker.audit(&self.queue, audit).await).await?;
        if damage.is_empty() { Ok(()) } else { Err(format!("an audit of either finds {damage:?}")) }
    }

    /// What `why` reports of all jobs.
    async fn reports(&self, broker: &DynBroker) -> Check<Vec<JobRecord>> {
        let reports = Client::with_broker(broker.clone()).inspector().why_many(&self.queue, &self.ids).await;
        Ok(reports.map_err(|error| error.to_string())?.into_iter().flatten().collect())
    }

    /// What both brokers might do wrong: a job that may start is reported as blocked, a claim
    /// leaves a job behind that may start, or one overtakes another.
    async fn is_sound(&mut self) -> Check {
        let broker = self.sides.second();
        let now = Snapshot::read(&broker, &self.queue, self.ages).await;
        // Of a job that costs more than one start its rate may say more.
        if !self.has_costs {
            agree(&self.reports(&broker).await?, self.sides.now(), &now)?;
        }
        if let Some((before, claim)) = self.before.take().zip(self.claim.take())
            && !self.has_costs
        {
            overtakes(&before, &claim, &now)?;
        }
        self.before = Some(now);
        Ok(())
    }

    /// The jobs that have not ended, on both sides.
    async fn sketch(&self) -> String {
        let mut sketch = String::new();
        for (name, broker) in self.sides.names.iter().zip(&self.sides.brokers) {
            sketch += &format!("{name} at {}:\n", self.sides.now_ms());
            for diagnosis in broker.diagnose(&self.queue, &self.ids).await.unwrap_or_default().into_iter().flatten() {
                let job = diagnosis.job;
                if !job.state.is_final() {
                    let (group, line) = (job.group.as_ref().map(GroupName::as_str), diagnosis.line);
                    let what = format!("{} {} {:?} {group:?} {:?}", job.id, job.state, job.priority, job.limits);
                    sketch += &format!("  {what} due {:?}, rises {:?}, {line:?}\n", job.at_ms, job.rises_ms);
                }
            }
        }
        sketch
    }

    /// A job that releases could not read, and whose time is over, is buried by the next sweep, or
    /// a minute later if it ran meanwhile.
    async fn is_burial_free(&self) -> bool {
        for broker in &self.sides.brokers {
            let parked = broker.list(&self.queue, JobState::Parked, 0, 500).await.expect("jobs can be listed");
            let is_over = |job: &StoredJob| job.unreadable.as_ref().is_some_and(|until| until.until_ms <= self.sides.now_ms() + 60_000);
            if parked.jobs.iter().any(is_over) {
                return true;
            }
        }
        false
    }

    /// A job that comes back to a line of Redis, where it stood and has left its place without a
    /// start, may take that place again. On SQLite it stands behind the others.
    async fn is_order_free(&mut self) -> bool {
        let mut connection = self.sides.connection.clone();
        let tombstones: BTreeSet<Vec<u8>> = connection.hkeys("queue:{jobs}:tomb").await.expect("the places can be read");
        let gone: Vec<Vec<u8>> =
            self.tombstones.difference(&tombstones).map(|tombstone| tombstone[..tombstone.len() - 1].to_vec()).collect();
        self.tombstones = tombstones;
        if self.may_return {
            return true;
        }
        for id in self.ids.iter().filter(|id| gone.iter().any(|gone| gone == id.as_bytes())) {
            let job = self.sides.brokers[0].show(&self.queue, id).await.expect("a job can be read");
            if job.is_some_and(|job| matches!(job.state, JobState::Ready | JobState::Active)) {
                return true;
            }
        }
        false
    }

    async fn register(&mut self, process: ProcessId) -> Check {
        let info = WorkerInfo::new("model", 1, &process.to_string(), []);
        let register = Register::lane(self.queue.clone(), process, LONG).with_info(info);
        let name = self.sides.read("a lane", async |broker| broker.register(&register).await).await?.name;
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
        self.has_limits |= jobs.iter().any(|job| job.limits.is_some());
        self.has_costs |= jobs.iter().any(|job| job.limits.as_ref().is_some_and(|limits| limits.cost > 1));
        for job in &jobs {
            if !self.ids.contains(&job.id) {
                self.ids.push(job.id.clone());
            }
        }
        let request = Enqueue::new(self.queue.clone(), producer.name.clone(), seq, jobs);
        self.producers[n].requests.push(request);
        self.enqueue_again(Index::of(n), 0).await
    }

    async fn enqueue_again(&mut self, producer: Index, back: usize) -> Check {
        if let Some(request) = producer.get(&self.producers).requests.iter().rev().nth(back) {
            let _ = self.sides.ask("enqueue", async |broker| broker.enqueue(request).await).await?;
        }
        Ok(())
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
        let is_claim = turn.finishes.is_empty() && turn.resume.is_empty() && turn.claim > 0 && turn.seq != self.lanes[lane].answered;
        let mut reports = Vec::new();
        if is_claim && !self.sides.are_alike {
            for broker in &self.sides.brokers {
                reports.extend(self.reports(broker).await?);
            }
        }
        let found = self.sides.ask_turn(&turn, self.has_limits).await?;
        let lane = &mut self.lanes[lane];
        if let Ok(answer) = found
            && turn.seq != lane.answered
        {
            if is_claim {
                let mut known = BTreeMap::new();
                for delivery in &answer.deliveries {
                    let job = self.sides.second().show(&self.queue, &delivery.id).await.ok().flatten().ok_or("a claimed job is gone")?;
                    known.insert(delivery.id.clone(), Job::of(&job));
                }
                let claim = Claim::new(turn.claim, turn.suspect, &answer, &known);
                starts_no_blocked(&reports, self.sides.now(), &claim)?;
                self.claim = Some(claim);
            }
            self.deliveries.extend(answer.deliveries.into_iter().map(|delivery| (turn.lane.clone(), delivery)));
            lane.answered = turn.seq;
            lane.last = Some(turn);
        }
        Ok(())
    }

    async fn heartbeat(&mut self, lane: usize, lease: Duration) -> Check {
        // Some of them say what their worker uses.
        let says = lane.is_multiple_of(2);
        let lane = &self.lanes[lane];
        let heartbeat = Extend::new(self.queue.clone(), lane.name.clone(), lane.answered, lease);
        let heartbeat = if says { heartbeat.with_load(WorkerLoad::new(lane.answered % 8, 8)) } else { heartbeat };
        // Of those that end, some do because their worker leaves, and the others because it has
        // died.
        let heartbeat = if lease < LONG && !says { heartbeat.leaving() } else { heartbeat };
        let extend =
            async |broker: &DynBroker| broker.extend(std::slice::from_ref(&heartbeat)).await.pop().expect("an answer for each lane");
        let _ = self.sides.ask_as("heartbeat", extend, |extended| (sorted(extended.cancelled), extended.asked)).await?;
        Ok(())
    }

    async fn store_progress(
        &mut self,
        lane: PartyName,
        delivery: Index,
        stray: bool,
        progress: Option<u8>,
        first: u64,
        lines: &[String],
    ) -> Check {
        let latest = self.deliveries.iter().rev().take(NAMED).filter(|(holder, _)| stray || *holder == lane);
        let latest: Vec<&Delivery> = latest.map(|(_, delivery)| delivery).collect();
        if latest.is_empty() {
            return Ok(());
        }
        let delivery = delivery.get(&latest);
        let mut told = JobProgress::new(delivery.id.clone(), delivery.claim, delivery.attempts + 1);
        told.progress = progress.map(|n| ProgressNow::new(u64::from(n), Some(f64::from(n) / 4.0), format!("{n} of 4"), Some(vec![n])));
        told.first = first;
        told.lines = lines.iter().map(|text| LineNow::new(LogLevel::Info, text)).collect();
        let mut request = ProgressReport::new(self.queue.clone(), lane);
        request.jobs.push(told);
        let _ = self.sides.ask("store_progress", async |broker| broker.store_progress(&request).await).await?;
        Ok(())
    }

    /// Reclaims the jobs of fenced lanes. How many steps a broker takes is free.
    async fn sweep(&mut self) -> Check {
        let reclaim = async |broker: &DynBroker| {
            let (mut returned, mut charged, mut forgotten, mut buried) = (0, 0, 0, Vec::new());
            loop {
                let step = broker.reclaim(&self.queue, &RULE).await?;
                if step == Default::default() {
                    buried.sort();
                    return Ok((returned, charged, forgotten, buried));
                }
                returned += step.returned;
                charged += step.charged;
                forgotten += step.forgotten;
                buried.extend(step.buried);
            }
        };
        self.sides.read("reclaim", reclaim).await?;
        Ok(())
    }

    /// Removes all that is kept no longer: when a broker does that for itself is free.
    async fn forget(&self) -> Check {
        let mut limits = SweepLimits::default();
        (limits.producers, limits.items) = (1000 * 24 * LONG, 1000);
        for broker in &self.sides.brokers {
            loop {
                let swept = broker.sweep(&self.queue, &limits).await.map_err(|error| error.to_string())?;
                if swept == Swept::default() {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn set_pause(&self, of: PauseOf, pausing: Option<Pausing>) -> Check {
        let queue = self.queue.clone();
        let request = match pausing {
            Some(pausing) => SetPause::pause(queue, of, pausing),
            None => SetPause::resume(queue, of),
        };
        let _ = self.sides.ask("pause", async |broker| broker.set_pause(&request).await).await?;
        Ok(())
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
