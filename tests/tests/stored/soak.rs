//! A soak: many of everything that a queue remembers for a while, and the clock moved past each
//! retention. In the end nothing is left of it.
//!
//! `QUEUE_TEST_SOAK=1000000 cargo test --release -p queue-tests --all-features --test stored soak -- --nocapture --test-threads=1`
//! prints how fast each kind is removed. The whole tier runs it with a million, the fast tier with
//! [`SMALL`].

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use futures_util::stream::{StreamExt, iter};
use queue_core::{
    Client, Job, RawJob, Registry, Task,
    broker::{Counter, CrashRule, Hold, MAX_ITEMS, ProcessId, Register, SweepLimits, topic_address},
    inspect::Rate,
    prelude::*,
    schedule::{Schedule, ScheduleAddress},
    topics::Retention,
};
use queue_tests::{
    apart::{has_own_clock, move_clock},
    folder::{folder, on_disk},
    patience::{WatchBroker, until, wait_for},
    server::{Kind, Server},
};
use queue_worker::{Shutdown, Worker};

/// Of each kind: groups, keys of limits, given ids, unique keys, results, tags, events. A hundredth
/// of marks, schedules, producers and lanes, and a tenth of dead jobs.
const SMALL: usize = 2_000;

/// Jobs and events that end before the next ones come.
const WAVE: usize = 5_000;

/// By how much the memory of the process may grow between the first round and one of ten times its
/// size: a leak of 40 bytes for each of a million entries exceeds it.
const GROWTH: u64 = 32 << 20;

/// As in row M49 of the fault matrix, in microseconds of processor time: 999 of 1,000 commands of
/// the server, and each.
const LONG_COMMAND: u64 = 5_000;
const LONGEST_COMMAND: u64 = 50_000;

/// A soak by hand has more.
const MANY_SCRIPTS: usize = 50_000;

const QUEUE: &str = "soak";
const COPIES: &str = "copy@soaked";
const TOPIC: &str = "soaked";

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The retentions of a round, in seconds. Each is over before the next one.
const KEPT: u64 = 10 * MINUTE;
const RATED: u64 = HOUR;
const UNIQUE: u64 = 3 * HOUR;
const LATER: u64 = 6 * HOUR;
const LOGGED: u64 = 8 * HOUR;

#[task(queue = "soak")]
async fn plain(_n: usize) {}

#[task(queue = "soak")]
async fn kept(n: usize) -> Result<usize, String> {
    Ok(n)
}

#[task(queue = "soak", max_attempts = 1)]
async fn fails(_n: usize) -> Result<(), String> {
    Err("as planned".to_owned())
}

#[derive(Event)]
#[event(topic = "soaked", name = "soak.happened")]
struct Happened {
    n: usize,
}

#[subscribe(name = "copy", from = "start")]
async fn copy(event: Happened) {
    let _ = event.n;
}

#[test]
fn on_redis_nothing_is_left_of_what_was_kept_for_a_while() {
    if !has_own_clock(&on_redis_nothing_is_left_of_what_was_kept_for_a_while) {
        return;
    }
    let server = Server::by_cpu_with_own_clock(Kind::Redis, &["--appendonly", "no"]);
    soaks(Place::Server(server));
}

#[test]
fn on_sqlite_nothing_is_left_of_what_was_kept_for_a_while() {
    if !has_own_clock(&on_sqlite_nothing_is_left_of_what_was_kept_for_a_while) {
        return;
    }
    let folder = if size() > SMALL { on_disk() } else { folder() };
    soaks(Place::File(folder.path().join("queue.db")));
}

fn size() -> usize {
    std::env::var("QUEUE_TEST_SOAK").ok().map_or(SMALL, |n| n.parse().expect("QUEUE_TEST_SOAK is a number"))
}

fn soaks(place: Place) {
    let n = size();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let client = Client::connect(&place.url()).await.expect("the broker is there").watched();
        let mut soak = Soak { place, client, round: 0, moved: 0, removed: BTreeMap::new() };
        soak.rules().await;
        soak.round(n / 10).await;
        let (entries, memory) = (soak.place.entries(), memory());
        assert!(entries.values().sum::<u64>() < 500, "a round leaves nothing: {entries:?}");
        soak.place.measure();
        soak.removed.clear();
        soak.round(n).await;
        let grown = self::memory().saturating_sub(memory);
        soak.print(n, grown);
        let mut left = soak.place.entries();
        left.retain(|name, count| entries.get(name) != Some(count));
        assert!(left.is_empty(), "entries are left: {left:?}, after {entries:?}");
        assert!(grown <= GROWTH, "the memory has grown by {grown} bytes");
        soak.place.is_quick();
    });
}

/// Anonymous memory of this process, in bytes: its client and its worker, and SQLite.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the kernel counts it");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024
}

enum Place {
    Server(Server),
    File(PathBuf),
}

impl Place {
    fn url(&self) -> String {
        match self {
            Place::Server(server) => server.url(),
            Place::File(path) => format!("sqlite://{}", path.display()),
        }
    }

    /// How many entries each key or table has. The history of a queue goes around in a circle, and
    /// is not counted.
    fn entries(&self) -> BTreeMap<String, u64> {
        let mut entries: BTreeMap<String, u64> = match self {
            Place::Server(server) => {
                let keys: Vec<String> = server.ask(&["KEYS", "*"]).expect("keys are listed");
                let count = |key: &String| {
                    let kind: String = server.ask(&["TYPE", key]).expect("it has a type");
                    let verb = match &*kind {
                        "hash" => "HLEN",
                        "list" => "LLEN",
                        "set" => "SCARD",
                        "zset" => "ZCARD",
                        "stream" => "XLEN",
                        _ => "STRLEN",
                    };
                    server.ask(&[verb, key]).expect("entries are counted")
                };
                keys.iter().map(|key| (key.clone(), count(key))).collect()
            }
            Place::File(path) => {
                let file = rusqlite::Connection::open(path).expect("the file can be opened");
                let mut tables = file.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").expect("there is a schema");
                let tables: Vec<String> =
                    tables.query_map([], |row| row.get(0)).expect("tables").map(|name| name.expect("a name")).collect();
                let count = |table: &String| {
                    file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, u32>(0).map(u64::from))
                        .expect("rows are counted")
                };
                tables.iter().map(|table| (table.clone(), count(table))).collect()
            }
        };
        entries.retain(|name, count| *count > 0 && !["history", "reporters", "tasks"].iter().any(|of| name.ends_with(of)));
        entries
    }

    /// From now on long commands of the server are counted.
    fn measure(&self) {
        if let Place::Server(server) = self {
            for words in [
                &["CONFIG", "SET", "slowlog-log-slower-than", &LONG_COMMAND.to_string()][..],
                &["CONFIG", "SET", "slowlog-max-len", "100000"],
                &["SLOWLOG", "RESET"],
                &["CONFIG", "RESETSTAT"],
            ] {
                server.ask::<()>(words).expect("the server obeys");
            }
        }
    }

    fn is_quick(&self) {
        /// Number, time, microseconds, words, and who.
        type Command = (u64, u64, u64, Vec<Vec<u8>>, String, String);
        let Place::Server(server) = self else { return };
        let info: String = server.ask(&["INFO", "commandstats"]).expect("the server counts");
        let calls = |verb: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(verb)).unwrap_or_default();
            line.split(',').next().and_then(|calls| calls.parse::<usize>().ok()).unwrap_or(0)
        };
        let scripts = calls("cmdstat_evalsha:calls=");
        let slow: Vec<Command> = server.ask(&["SLOWLOG", "GET", "100000"]).expect("there is a slow log");
        let words = |command: &Command| {
            let words = command.3.iter().filter(|word| !word.starts_with(b"queue:"));
            words.take(7).map(|word| String::from_utf8_lossy(&word[..word.len().min(24)]).into_owned()).collect::<Vec<_>>().join(" ")
        };
        let scripts_of = slow.into_iter().filter(|command| command.3[0].eq_ignore_ascii_case(b"EVALSHA"));
        let mut slow: Vec<(u64, String)> = scripts_of.map(|command| (command.2, words(&command))).collect();
        slow.sort_unstable();
        println!("{} of {scripts} scripts took over {LONG_COMMAND} µs, the longest {:?}", slow.len(), slow.last());
        if server.measures_by_cpu() {
            // Other work on the machine makes scripts longer, and a few slow ones of some hundreds
            // are many.
            let (few, longest) =
                if scripts > MANY_SCRIPTS { (scripts / 1_000, LONGEST_COMMAND) } else { (scripts / 4, 10 * LONGEST_COMMAND) };
            let is_quick = slow.len() <= few && slow.last().is_none_or(|(took, _)| *took <= longest);
            assert!(is_quick, "{} of {scripts} scripts took over {LONG_COMMAND} µs: {slow:#?}", slow.len());
        }
    }
}

struct Soak {
    place: Place,
    client: Client,
    round: usize,
    /// By how many seconds the clock was moved.
    moved: u64,
    /// Of each kind: how many entries were removed, in which time, by how many calls.
    removed: BTreeMap<&'static str, (usize, Duration, usize)>,
}

impl Soak {
    async fn rules(&self) {
        let inspector = self.client.inspector();
        let rate = Rate::new(1, Duration::from_secs(RATED)).expect("it is a rate");
        inspector.set_limit(QUEUE, "each", |rule| (rule.rate, rule.burst) = (Some(rate), Some(1))).await.expect("the limit is set");
        let retention =
            Retention { age: Some(Duration::from_secs(LOGGED)), lag: Some(Duration::from_secs(LOGGED)), ..Retention::default() };
        inspector.set_retention(TOPIC, retention).await.expect("the retention is set");
    }

    /// Fills the queue with this many of each, lets a worker run what can run, and removes all that
    /// is over, one retention after the other.
    async fn round(&mut self, n: usize) {
        self.round += 1;
        let few = (n / 100).max(5);
        let start = self.moved;
        let shutdown = Shutdown::new();
        let working = self.worker(&shutdown);
        let round = self.round;
        let name = |what: &str, n: usize| format!("{what}-{round}-{n}");
        self.jobs(n, |n| plain::job(n).group(name("group", n)).id(name("id", n)).tag("number", name("tag", n))).await;
        let unique = Hold::Within(Duration::from_secs(UNIQUE));
        self.jobs(n, |n| {
            let job = kept::job(n).limit("each", Some(&name("key", n))).unique_key(name("unique", n)).hold(unique);
            job.tag("number", name("kept", n)).retention(Duration::from_secs(KEPT))
        })
        .await;
        self.jobs(n / 10, fails::job).await;
        self.events(n).await;
        shutdown.drain();
        working.await.expect("the worker has not panicked").expect("the worker ends in order");
        self.schedules(few).await;
        let waiting = self.watched(few).await;
        self.parties(few).await;

        // What is over is removed as the janitor of a worker does it.
        self.clean().await;
        for after in [2 * MINUTE, 2 * KEPT + 2 * MINUTE, RATED + MINUTE, UNIQUE + MINUTE] {
            self.forward(start + after);
            self.lanes().await;
            self.clean().await;
        }
        self.forward(start + LATER + MINUTE);
        let shutdown = Shutdown::new();
        let working = self.worker(&shutdown);
        until("the jobs that were watched to end", async || self.ended().await == waiting).await;
        shutdown.drain();
        working.await.expect("the worker has not panicked").expect("the worker ends in order");
        // Of a producer a server knows after two looks that it has been silent.
        for days in [2, 4, 190, 192] {
            self.forward(start + days * DAY);
            self.lanes().await;
            self.clean().await;
        }
    }

    fn worker(&self, shutdown: &Shutdown) -> tokio::task::JoinHandle<Result<(), queue_worker::WorkerError>> {
        let worker = Worker::new(self.client.clone()).registry(Registry::empty()).concurrency(64);
        let worker = worker.register::<plain>().register::<kept>().register::<fails>().register::<copy>();
        let shutdown = shutdown.clone();
        tokio::spawn(async move { worker.run_with(shutdown).await.map(drop) })
    }

    async fn total(&self, queue: &str) -> u64 {
        let stats = self.client.inspector().stats(queue).await;
        stats.map_or(0, |stats| stats.total(Counter::Done) + stats.total(Counter::Dead))
    }

    async fn ended(&self) -> u64 {
        self.total(QUEUE).await
    }

    /// Enqueues so many jobs, and waits until they have ended.
    async fn jobs<T: Task>(&self, n: usize, job: impl Fn(usize) -> Job<T>) {
        for from in (0..n).step_by(WAVE) {
            let (before, upto) = (self.ended().await, n.min(from + WAVE));
            self.client.enqueue_all((from..upto).map(&job).collect::<Vec<_>>()).await.expect("the jobs are stored");
            until("the jobs to end", async || self.ended().await == before + (upto - from) as u64).await;
        }
    }

    async fn events(&self, n: usize) {
        for from in (0..n).step_by(WAVE) {
            let (before, upto) = (self.total(COPIES).await, n.min(from + WAVE));
            self.client.publish_all((from..upto).map(|n| Happened { n })).await.expect("the events are stored");
            until("the events to be handled", async || self.total(COPIES).await == before + (upto - from) as u64).await;
        }
    }

    /// Makes schedules, and removes them.
    async fn schedules(&self, n: usize) {
        let made = iter(0..n).map(async |n| {
            let job = RawJob::new("plain", vec![0x80]).queue(QUEUE);
            let name = format!("schedule-{n}");
            self.client.schedules().upsert(Schedule::every(&name, Duration::from_secs(DAY)).raw_job(job)).await.expect("it is stored");
            let removed = self.client.schedules().remove(&ScheduleAddress::new(QUEUE, &name).expect("it is a name")).await;
            assert!(removed.expect("it can be removed"));
        });
        made.buffer_unordered(16).collect::<Vec<()>>().await;
    }

    /// Stores jobs for later, for each of which somebody waits who goes away. Gives how many jobs
    /// will have ended with them.
    async fn watched(&self, n: usize) -> u64 {
        let jobs = (0..n).map(|n| plain::job(n).delay(Duration::from_secs(LATER)));
        let handles = self.client.enqueue_all(jobs.collect::<Vec<_>>()).await.expect("the jobs are stored");
        let watched = iter(handles).map(async |handle| {
            self.client.broker().watch(QUEUE, handle.id()).await.expect("it can be watched").expect("it is there");
        });
        watched.buffer_unordered(16).collect::<Vec<()>>().await;
        self.ended().await + n as u64
    }

    /// Producers and lanes that are never heard of again.
    async fn parties(&self, n: usize) {
        let broker = self.client.broker();
        let made = iter(0..n).map(async |_| {
            broker.register(&Register::producer(QUEUE, ProcessId::random())).await.expect("a producer registers");
            broker.register(&Register::lane(QUEUE, ProcessId::random(), Duration::from_secs(30))).await.expect("a lane registers");
        });
        made.buffer_unordered(16).collect::<Vec<()>>().await;
    }

    /// Removes the lanes whose leases are over, as a reclaimer does: also those of workers that
    /// have stopped.
    async fn lanes(&mut self) {
        let rule = CrashRule { max_crashes: 3, tasks: &[], window: Duration::from_secs(DAY), delay: Duration::ZERO };
        let (broker, begun) = (self.client.broker().clone(), Instant::now());
        let (mut lanes, mut calls) = (0, 0);
        for queue in [QUEUE, COPIES] {
            loop {
                let overdue = broker.overdue(queue, 0, MAX_ITEMS).await.expect("lanes are listed");
                if overdue.expired.is_empty() && overdue.fenced == 0 {
                    break;
                }
                if !overdue.expired.is_empty() {
                    broker.fence(queue, &overdue.expired).await.expect("lanes can be fenced");
                }
                lanes += broker.reclaim(queue, &rule).await.expect("jobs can be reclaimed").forgotten;
                calls += 3;
            }
        }
        self.note("lanes", lanes, begun.elapsed(), calls);
    }

    fn note(&mut self, kind: &'static str, removed: usize, time: Duration, calls: usize) {
        let of = self.removed.entry(kind).or_default();
        *of = (of.0 + removed, of.1 + time, of.2 + calls);
    }

    /// Removes what is over, with a pause as long as the call after each, as a janitor does.
    async fn clean(&mut self) {
        let broker = self.client.broker().clone();
        let limits = SweepLimits { sweeper: 1, ..SweepLimits::default() };
        for address in [QUEUE, COPIES, &*topic_address(TOPIC)] {
            let (begun, mut calls, mut removed) = (Instant::now(), 0, BTreeMap::<_, (usize, Duration, usize)>::new());
            loop {
                let asked = Instant::now();
                let swept = broker.sweep(address, &limits).await.expect("a sweep is answered");
                let took = asked.elapsed();
                calls += 1;
                for (kind, entries) in swept.kinds() {
                    let of = removed.entry(kind).or_default();
                    *of = (of.0 + entries, begun.elapsed(), calls);
                }
                if !swept.more {
                    break;
                }
                tokio::time::sleep(took).await;
            }
            for (kind, (entries, time, calls)) in removed {
                self.note(kind, entries, time, calls);
            }
        }
        let (begun, mut entries, mut calls) = (Instant::now(), 0, 0);
        loop {
            let asked = Instant::now();
            let trimmed = broker.trim_topic(TOPIC).await.expect("a log can be trimmed");
            let took = asked.elapsed();
            (entries, calls) = (entries + usize::try_from(trimmed.entries).expect("it is small"), calls + 1);
            if !trimmed.more {
                break;
            }
            tokio::time::sleep(took).await;
        }
        if entries > 0 {
            self.note("events", entries, begun.elapsed(), calls);
        }
    }

    /// Moves the clock to so many seconds after the start of the soak.
    fn forward(&mut self, to: u64) {
        self.moved = to;
        let by_ms = i64::try_from(to * 1_000).expect("it is some years");
        move_clock(by_ms);
        if let Place::Server(server) = &self.place {
            server.move_clock(by_ms);
            let shown = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs();
            wait_for("the clock of the server to show it", || {
                let (seconds, _): (u64, u64) = server.ask(&["TIME"]).expect("the server has a clock");
                (seconds >= shown).then_some(())
            });
        }
    }

    fn print(&self, n: usize, grown: u64) {
        println!("{n} of each; the memory has grown by {grown} bytes");
        for (kind, (entries, time, calls)) in &self.removed {
            let rate = *entries as f64 / time.as_secs_f64();
            println!("{kind:>20}: {entries:>8} removed by {calls:>6} calls in {:>8.3} s: {rate:>8.0} per second", time.as_secs_f64());
        }
    }
}
