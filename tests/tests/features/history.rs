//! The history of a queue as time goes on, and beside what other programs write.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use queue_core::{
    __private::{Envelope, SqliteBroker},
    Client, JobId, Registry,
    broker::{
        DynBroker, Enqueue, NewJob, ProcessId, Register,
        history::{Report, TASKS, Tally},
    },
    inspect::{Counter, History, HistorySpan},
    prelude::*,
};
use queue_tests::{
    folder::folder,
    on_servers,
    patience::{WatchBroker, output, until, wait_for},
    server::{Kind, Server},
};

use queue_worker::{Shutdown, Worker};

const QUEUE: &str = "mail";

on_servers! {
    minutes_and_hours_go_by_on_a_server
    a_history_is_bounded_in_memory
    what_another_program_writes_into_a_history_stops_nobody
    a_full_server_refuses_a_report_and_takes_it_later
    a_worker_on_a_server_reports_what_it_did
}

fn done(jobs: u64) -> Tally {
    let mut tally = Tally::default();
    tally.counts.done = jobs;
    tally.run.add(Duration::from_millis(20));
    tally
}

/// A worker that reports, and a clock that can be set forward.
struct Reporter<'a> {
    broker: DynBroker,
    process: ProcessId,
    seq: u64,
    forward: &'a dyn Fn(Duration),
}

impl<'a> Reporter<'a> {
    fn new(broker: DynBroker, forward: &'a dyn Fn(Duration)) -> Self {
        Reporter { broker, process: ProcessId::random(), seq: 0, forward }
    }

    async fn report(&mut self, task: &str, jobs: u64) {
        self.seq += 1;
        let report = Report::new(QUEUE, self.process, self.seq).task(task, done(jobs));
        self.broker.report(&report).await.unwrap();
    }

    async fn history(&self, span: HistorySpan) -> History {
        Client::with_broker(self.broker.clone()).inspector().history(QUEUE, span).await.unwrap()
    }

    async fn done(&self, task: &str, span: HistorySpan) -> u64 {
        self.history(span).await.total_of(task).map_or(0, |row| row.counts.done)
    }
}

async fn minutes_and_hours_go_by(mut reporter: Reporter<'_>) {
    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3600);
    // In the middle of a minute and of an hour, so that none is over by chance.
    reporter.broker.register(&Register::producer(QUEUE, reporter.process)).await.unwrap();
    let of_hour = UNIX_EPOCH.elapsed().unwrap().as_secs() % 3600;
    (reporter.forward)(Duration::from_secs(5430 - of_hour));
    reporter.report("send", 1).await;
    (reporter.forward)(MINUTE * 119);
    reporter.report("send", 2).await;
    let history = reporter.history(HistorySpan::TWO_HOURS).await;
    assert_eq!((history.rows[0].counts.done, history.rows[119].counts.done, history.total().counts.done), (1, 2, 3));
    assert_eq!(reporter.done("send", HistorySpan::HOUR).await, 2);
    assert_eq!(reporter.done("send", HistorySpan::DAY).await, 3);

    // The place of the first minute is taken by another.
    (reporter.forward)(MINUTE);
    assert_eq!(reporter.done("send", HistorySpan::TWO_HOURS).await, 2);
    reporter.report("send", 4).await;
    assert_eq!(reporter.done("send", HistorySpan::TWO_HOURS).await, 6);
    assert_eq!(reporter.done("send", HistorySpan::TWO_WEEKS).await, 7);

    // Two weeks later nothing of it is left, and a new task takes the place of the old one.
    (reporter.forward)(HOUR * 24 * 14 + HOUR * 2);
    assert_eq!(reporter.done("send", HistorySpan::TWO_WEEKS).await, 0);
    for n in 0..TASKS {
        reporter.report(&format!("task-{n}"), 1).await;
    }
    let history = reporter.history(HistorySpan::DAY).await;
    assert_eq!((history.tasks.len(), history.others()), (TASKS, None));
    assert_eq!(history.total().counts.done, TASKS as u64);
}

#[tokio::test]
async fn minutes_and_hours_go_by_in_memory() {
    let broker = SqliteBroker::frozen(SystemTime::now()).unwrap();
    minutes_and_hours_go_by(Reporter::new(broker.clone(), &|by| broker.advance(by))).await;
}

/// Sets the server's clock forward, to so long after that of the machine, and waits until it shows
/// it: a server looks at its clock only now and then.
fn set_forward(server: &Server, to: Duration) {
    server.move_clock(i64::try_from(to.as_millis()).unwrap());
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    wait_for("the server's clock to show it", || {
        let (seconds, _): (u64, u64) = server.ask(&["TIME"]).unwrap();
        (seconds >= (begun + to).as_secs()).then_some(())
    });
}

async fn minutes_and_hours_go_by_on_a_server(kind: Kind) {
    let server = Server::with_own_clock(kind, &["--appendonly", "no"]);
    let broker = Client::connect(&server.url()).await.unwrap().broker().clone();
    let moved = std::cell::Cell::new(Duration::ZERO);
    let forward = |by: Duration| {
        moved.set(moved.get() + by);
        set_forward(&server, moved.get());
    };
    minutes_and_hours_go_by(Reporter::new(broker, &forward)).await;
}

async fn a_history_is_bounded_in_memory(kind: Kind) {
    let [one, two] = [cost_of_tasks(kind, &["send"]).await, cost_of_tasks(kind, &["send", "close"]).await];
    let (task, queue) = (two - one, 2 * one - two);
    println!("each task costs {task} bytes, and the queue itself {queue}");
    assert!(task < 75_000 && queue < 25_000, "{task} and {queue} bytes");
}

/// The bytes of a queue's history in which every minute and every hour has something, in a dozen
/// buckets each.
async fn cost_of_tasks(kind: Kind, tasks: &[&str]) -> u64 {
    let server = Server::with_own_clock(kind, &["--appendonly", "no"]);
    let broker = Client::connect(&server.url()).await.unwrap().broker().clone();
    let (process, mut seq) = (ProcessId::random(), 0);
    let mut tally = done(900);
    (tally.counts.started, tally.counts.failed, tally.counts.dead) = (1_000, 90, 10);
    for n in 0..12u32 {
        for _ in 0..80 {
            tally.wait.add(Duration::from_millis(1 << n));
            tally.run.add(Duration::from_millis(3 << n));
        }
    }
    // Every hour of two weeks, then every minute of two hours, twice around.
    let mut at = 0;
    for step in std::iter::repeat_n(3600, 700).chain(std::iter::repeat_n(60, 240)) {
        (at, seq) = (at + step, seq + 1);
        set_forward(&server, Duration::from_secs(at));
        let report = tasks.iter().fold(Report::new(QUEUE, process, seq), |report, task| report.task(*task, tally.clone()));
        broker.report(&report).await.unwrap();
    }
    let key = |kind: &str| format!("queue:{{{QUEUE}}}:{kind}");
    assert_eq!(server.ask::<usize>(&["HLEN", &key("history")]).unwrap(), (1 + tasks.len()) * (120 + 336));
    let bytes = |key: String| server.ask::<u64>(&["MEMORY", "USAGE", &key, "SAMPLES", "0"]).unwrap();
    bytes(key("history")) + bytes(key("tasks")) + bytes(key("reporters"))
}

async fn what_another_program_writes_into_a_history_stops_nobody(kind: Kind) {
    let server = Server::start(kind);
    let broker = Client::connect(&server.url()).await.unwrap().broker().clone();
    let mut reporter = Reporter::new(broker, &|_| {});
    reporter.report("send", 1).await;
    let key = format!("queue:{{{QUEUE}}}:history");
    for garbage in ["theirs", "\u{1}", ""] {
        for place in 0..120 {
            server.command(&["HSET", &key, &format!("send\0m{place}"), garbage]);
        }
        for place in 0..336 {
            server.command(&["HSET", &key, &format!("send\0h{place}"), garbage]);
        }
        server.command(&["HSET", &format!("queue:{{{QUEUE}}}:tasks"), "other", garbage]);
        server.command(&["HSET", &format!("queue:{{{QUEUE}}}:reporters"), "nobody", garbage]);
        assert_eq!(reporter.done("send", HistorySpan::HOUR).await, 0);
        reporter.report("send", 2).await;
        assert_eq!(reporter.done("send", HistorySpan::DAY).await, 2, "what is no row is written anew");
    }
}

async fn a_full_server_refuses_a_report_and_takes_it_later(kind: Kind) {
    let server = Server::start(kind);
    let broker = Client::connect(&server.url()).await.unwrap().broker().clone();
    let producer = broker.register(&Register::producer(QUEUE, ProcessId::random())).await.unwrap().name;
    let envelope = Envelope::new("send", b"\x80").encode().unwrap();
    broker.enqueue(&Enqueue::new(QUEUE, producer, 1, vec![NewJob::new(JobId::make(), envelope)])).await.unwrap();
    let report = Report::new(QUEUE, ProcessId::random(), 1).task("send", done(3));
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = broker.report(&report).await;
    assert!(matches!(refused, Err(queue_core::Error::BrokerFull { .. })), "{refused:?}");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    broker.report(&report).await.unwrap();
    let inspector = Client::with_broker(broker).inspector();
    let history = inspector.history(QUEUE, HistorySpan::HOUR).await.unwrap();
    assert_eq!((history.total().counts.done, history.total().ready), (3, Some(1)));
    assert_eq!(inspector.stats(QUEUE).await.unwrap().total(Counter::Enqueued), 1);
}

#[task(queue = "told")]
async fn works(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

#[task(queue = "told", max_attempts = 3, backoff(base = "1ms"))]
async fn fails() -> Result<(), String> {
    Err("the card was declined".to_owned())
}

/// What a worker did is told while it works, and the rest when it stops.
async fn a_worker_reports_what_it_did(client: Client) {
    let shutdown = Shutdown::new();
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<works>().register::<fails>();
    let working = tokio::spawn(worker.lease(Duration::from_secs(2)).run_with(shutdown.clone()));
    client.enqueue_all((0..50).map(|_| works::job(20))).await.unwrap();
    works::job(1).delay(Duration::from_millis(300)).enqueue(&client).await.unwrap();
    fails::job().enqueue(&client).await.unwrap();
    let inspector = client.inspector();
    let total = async |task: &str| inspector.history("told", HistorySpan::HOUR).await.unwrap().total_of(task);
    until("all of it to be told", async || {
        total("works").await.is_some_and(|row| row.counts.done == 51) && total("fails").await.is_some_and(|row| row.counts.dead == 1)
    })
    .await;
    let (works, fails) = (total("works").await.unwrap(), total("fails").await.unwrap());
    assert_eq!((works.counts.started, works.counts.failed, works.run.count(), works.wait.count()), (51, 0, 51, 51));
    assert!(works.run.p50().unwrap() >= Duration::from_millis(17), "{works:?}");
    assert_eq!((fails.counts.started, fails.counts.failed, fails.counts.done, fails.run.count()), (3, 3, 0, 3));
    assert_eq!(fails.wait.count(), 1, "an attempt that follows a failure has not waited for its first start");
    let stats = inspector.stats("told").await.unwrap();
    assert_eq!((stats.total(Counter::Done), stats.total(Counter::Failed), stats.total(Counter::Dead)), (51, 3, 1), "as the broker counts");

    // Within the last interval.
    works::job(1).enqueue(&client).await.unwrap();
    until("it to be done", async || inspector.stats("told").await.unwrap().total(Counter::Done) == 52).await;
    shutdown.drain();
    working.await.unwrap().unwrap();
    assert_eq!(total("works").await.unwrap().counts.done, 52);
}

async fn a_worker_on_a_server_reports_what_it_did(kind: Kind) {
    let server = Server::start(kind);
    a_worker_reports_what_it_did(Client::connect(&server.url()).await.unwrap().watched()).await;
}

#[tokio::test]
async fn a_worker_on_sqlite_reports_what_it_did() {
    a_worker_reports_what_it_did(Client::connect("sqlite://:memory:").await.unwrap().watched()).await;
}

#[tokio::test]
async fn status_and_doctor_report_the_age_of_the_oldest_ready_job() {
    let folder = folder();
    let url = format!("sqlite://{}", folder.path().join("queue.db").display());
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_shop_worker"));
        let done = output(command.args(arguments).args(["--url", &url]).env("SHOP_NAME", "Ada")).unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    // Enqueued three hours ago.
    let broker = Client::connect(&url).await.unwrap().broker().clone();
    let producer = broker.register(&Register::producer("greetings", ProcessId::random())).await.unwrap();
    let mut envelope = Envelope::new("greet", b"\x80");
    envelope.enqueued_ms = Some(producer.now_ms - 3 * 3600 * 1000);
    let job = NewJob::new(JobId::make(), envelope.encode().unwrap());
    broker.enqueue(&Enqueue::new("greetings", producer.name, 1, vec![job])).await.unwrap();
    let status: serde_json::Value = serde_json::from_str(&run(&["status", "--json"])).unwrap();
    let oldest = status["queues"][0]["oldest_ms"].as_u64().expect("the age is known");
    assert!((10_800_000..10_900_000).contains(&oldest), "{oldest}");
    let (status, doctor) = (run(&["status"]), run(&["doctor"]));
    assert!(status.contains("ready  oldest") && status.contains("3h"), "{status}");
    assert!(doctor.contains("no live worker serves it, and 1 job is waiting, the oldest for 3h"), "{doctor}");
}
