//! Workers on the command line: their state, and requests to them.

use std::{fs::File, path::PathBuf, process::Child, time::Duration};

use queue_core::{
    Client, JobId, RawJob,
    broker::{Extend, JobProgress, ProcessId, ProgressNow, ProgressReport, Register, Turn, WorkerInfo, WorkerLoad, history::Report},
    inspect::{OutboxDepth, OutboxRecord},
};
use queue_tests::{
    command_line::Place,
    on_servers,
    patience::{WatchBroker, wait},
    server::{Kind, Server},
};
use serde_json::Value;

on_servers! {
    a_person_sees_what_runs_on_a_worker
    a_person_asks_workers_to_be_quiet_and_to_stop
    a_person_sees_outboxes
}

const SHOP: &str = env!("CARGO_BIN_EXE_shop_worker");

const TERM: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_sees_what_runs_on_a_worker_on_sqlite() {
    sees_what_runs(&Place::sqlite(SHOP)).await;
}

async fn a_person_sees_what_runs_on_a_worker(kind: Kind) {
    let server = Server::start(kind);
    sees_what_runs(&Place::on(SHOP, server.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_sees_outboxes_on_sqlite() {
    sees_outboxes(&Place::sqlite(SHOP)).await;
}

async fn a_person_sees_outboxes(kind: Kind) {
    let server = Server::start(kind);
    sees_outboxes(&Place::on(SHOP, server.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_asks_workers_to_be_quiet_and_to_stop_on_sqlite() {
    asks(&Place::sqlite(SHOP));
}

async fn a_person_asks_workers_to_be_quiet_and_to_stop(kind: Kind) {
    let server = Server::start(kind);
    asks(&Place::on(SHOP, server.url()));
}

/// A worker of a release. It is killed at the end if it has not stopped.
struct Working {
    process: Child,
    log: PathBuf,
}

impl Working {
    fn start(place: &Place, release: &str) -> Working {
        let log = place.folder().join(format!("{release}.log"));
        let mut command = place.command(&["work"]);
        command.env("SHOP_NAME", "Ada").env("QUEUE_RELEASE", release).env("RUST_LOG", "info");
        command.stdout(File::create(&log).unwrap()).stderr(File::create(log.with_extension("err")).unwrap());
        Working { process: command.spawn().unwrap(), log }
    }

    fn said(&self) -> String {
        [self.log.clone(), self.log.with_extension("err")].map(|log| std::fs::read_to_string(log).unwrap()).concat()
    }

    /// The exit code, if it has ended.
    fn ended(&mut self) -> Option<i32> {
        self.process.try_wait().unwrap().map(|status| status.code().unwrap_or(-1))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[track_caller]
fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait(what).every(Duration::from_millis(50)).block_some(look)
}

fn asks(place: &Place) {
    let [mut old, mut new] = ["v41", "v42"].map(|release| Working::start(place, release));
    let listed = || place.json(&["workers"])["workers"].as_array().unwrap().clone();
    // Before the first worker registers, a SQLite file has no queue. Before its first heartbeat, a
    // worker cannot be controlled.
    let known = until("both workers have said what they use", || {
        let output = place.run(&["workers", "--json"]);
        let rows: Value = serde_json::from_slice(&output.stdout).ok()?;
        let rows = rows["workers"].as_array()?.clone();
        (rows.len() == 2 && rows.iter().all(|row| row["load"]["mode"] == "works")).then_some(rows)
    });
    let id = |release: &str| known.iter().find(|row| row["release"] == release).unwrap()["worker"].as_str().unwrap().to_owned();
    let (first, second) = (id("v41"), id("v42"));
    // Its task fails in its only attempt.
    let enqueue = |id: &str| place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":17}"#, "--id", id]);
    let state = |id: &str| place.json(&["jobs", "show", &format!("orders/{id}")])["state"].as_str().unwrap().to_owned();

    let refused = place.refused(2, &["workers", "quiet", "--release", "v41"]);
    assert!(refused.contains("--yes") && refused.contains(&first) && !refused.contains(&second), "{refused}");
    let refused = place.refused(3, &["workers", "quiet", "--release", "v40", "--yes"]);
    assert!(refused.contains("no such worker is alive") && refused.contains(&first), "{refused}");
    assert!(place.refused(2, &["workers", "quiet"]).contains("WORKER"));
    assert!(place.refused(3, &["workers", "stop", "0123456789abcdef"]).contains(&second));

    // The request is confirmed, and is shown in each of its queues for longer than the leases of
    // lanes without turns.
    assert_eq!(place.ok(&["workers", "quiet", "--release", "v41", "--yes"]), format!("{first} quiet\n"));
    assert_eq!(place.ok(&["workers", "quiet", &first]), format!("{first} quiet\n"), "it is idempotent");
    assert!(old.said().contains("asked to claim nothing") && old.said().contains("with the command line"), "{}", old.said());
    let row = |worker: &str, outcome: &str| serde_json::json!({ "workers": [{ "worker": worker, "asked": "quiet", "outcome": outcome }] });
    assert_eq!(place.json(&["workers", "quiet", &first]), row(&first, "confirmed"));
    assert_eq!(place.json(&["workers", "quiet", &second, "--no-wait"]), row(&second, "asked"));
    until("both are quiet", || listed().iter().all(|row| row["load"]["mode"] == "quiet").then_some(()));
    assert!(place.ok(&["workers"]).matches(" quiet").count() == 2);
    enqueue("waits");
    let why = until("the job waits for them", || {
        let why = place.json(&["jobs", "why", "orders/waits"])["waiting"].clone();
        (why[0]["reason"] == "workers_quiet").then_some(why)
    });
    assert_eq!(why[0]["workers"], 2, "{why}");
    let status = place.json(&["status"]);
    let queues = status["queues"].as_array().expect("a list of queues");
    assert!(queues.iter().any(|queue| queue["waiting"]["workers_quiet"] == 1), "{status}");
    assert_eq!(state("waits"), "ready");

    // One claims again, and the other is stopped, with the same effect as a signal.
    assert_eq!(place.ok(&["workers", "resume", &second]), format!("{second} works\n"));
    until("the job is run", || (state("waits") == "dead").then_some(()));
    let stopped = place.ok(&["workers", "stop", &first]);
    assert!(stopped == format!("{first} stopping\n") || stopped == format!("{first} has left\n"), "{stopped}");
    assert_eq!(until("it ends", || old.ended()), 0, "{}", old.said());
    assert!(old.said().contains("asked to stop"), "{}", old.said());
    enqueue("next");
    until("the other one goes on", || (state("next") == "dead").then_some(()));
    assert_eq!(new.ended(), None);
    let gone = place.run(&["workers", "quiet", &first]);
    assert!([Some(3), Some(0)].contains(&gone.status.code()), "it has left, or its lease is not over yet");
    assert!(place.ok(&["workers", "stop", "--queue", "orders", "--release", "v42", "--yes"]).contains(&second));
    assert_eq!(until("it ends", || new.ended()), 0, "{}", new.said());
}

async fn sees_what_runs(place: &Place) {
    let client = Client::connect(place.url()).await.unwrap().watched();
    let broker = client.broker();
    let none = ProcessId::random().to_string();
    let refused = place.refused(3, &["workers", "show", &none]);
    assert!(refused.contains(&format!("there is no worker {none}: no worker is alive")), "{refused}");
    for id in ["import", "waits", "other"] {
        place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":17}"#, "--id", id]);
    }
    let lane = async |process, release| {
        let info = WorkerInfo::new("web-1", 4711, release, ["close_order"]);
        broker.register(&Register::lane("orders", process, TERM).with_info(info)).await.unwrap().name
    };
    let (process, stranger) = (ProcessId::random(), ProcessId::random());
    let lanes = [lane(process, "v42").await, lane(stranger, "v41").await, lane(process, "v42").await];
    let mut claims = Vec::new();
    for lane in &lanes {
        let job = broker.turn(&Turn::new("orders", lane.clone(), 1, TERM).claim(1)).await.unwrap().deliveries.remove(0);
        claims.push(job.claim);
    }
    let mut told = JobProgress::new(JobId::given("import").unwrap(), claims[0], 1);
    told.progress = Some(ProgressNow::new(1, Some(0.405), "reading \u{1b}[31mpage 3", None));
    let mut reported = ProgressReport::new("orders", lanes[0].clone());
    reported.jobs.push(told);
    assert_eq!(broker.store_progress(&reported).await.unwrap(), [true]);
    let load = WorkerLoad::new(2, 8).using(Some(48_234_496), Some(1_250));
    broker.extend(&[Extend::new("orders", lanes[0].clone(), 1, TERM).with_load(load)]).await.remove(0).unwrap();

    let shown = place.json(&["workers", "show", &process.to_string()]);
    let jobs = shown["jobs"].as_array().unwrap();
    let ids: Vec<&str> = jobs.iter().map(|job| job["job"].as_str().unwrap()).collect();
    assert_eq!((ids, &shown["is_whole"]), (vec!["orders/import", "orders/other"], &true.into()), "the first claimed first: {shown}");
    assert_eq!((&shown["worker"]["release"], &shown["worker"]["load"]["slots"]), (&"v42".into(), &8.into()));
    assert_eq!(jobs[0]["progress"]["fraction"], 0.405, "{shown}");
    assert!(jobs[1]["progress"].is_null(), "{shown}");
    let text = place.ok(&["workers", "show", &process.to_string()]);
    for part in ["web-1", "4711", "v42", "2/8", "46.0 MiB", "1.25", "orders/import", "close_order", "40 % reading", "orders/other"] {
        assert!(text.contains(part), "no `{part}`: {text}");
    }
    assert!(!text.contains('\u{1b}') && !text.contains("orders/waits"), "that one is another worker's: {text}");
    let other = place.json(&["workers", "show", &stranger.to_string()]);
    assert_eq!((other["jobs"].as_array().unwrap().len(), &other["worker"]["load"]), (1, &Value::Null));

    let refused = place.refused(3, &["workers", "show", &none]);
    assert!(refused.contains(&process.to_string()) && refused.contains(&stranger.to_string()), "{refused}");
    let refused = place.refused(2, &["workers", "show", "web-1"]);
    assert!(refused.contains("16 digits and letters"), "{refused}");
}

/// `status` and `doctor` show it once, although two workers report it in two queues.
async fn sees_outboxes(place: &Place) {
    let client = Client::connect(place.url()).await.unwrap();
    assert_eq!(place.json(&["status"])["outboxes"], Value::Null, "nobody has reported one");
    let mut depth = OutboxDepth::new("mail");
    (depth.waiting, depth.refused, depth.full, depth.holder) = (1_200, 2, true, Some("web-1 pid 7".to_owned()));
    let outbox = OutboxRecord::new(b"\x01\x02", "PostgreSQL database `shop`", 1_000, None, vec![depth]);
    for queue in ["orders", "billing"] {
        client.enqueue_raw(RawJob::new("close_order", vec![0x80]).queue(queue)).await.unwrap();
        client.broker().report(&Report::new(queue, ProcessId::random(), 1).outbox(outbox.clone())).await.unwrap();
    }
    let status = place.json(&["status"]);
    let shown = status["outboxes"].as_array().unwrap();
    assert_eq!(
        (shown.len(), &shown[0]["outbox"], &shown[0]["waiting"], &shown[0]["stale"]),
        (1, &"0102".into(), &1_200.into(), &false.into())
    );
    assert_eq!((&shown[0]["queues"][0]["queue"], &shown[0]["queues"][0]["full"]), (&"mail".into(), &true.into()));
    assert!(status["queues"].as_array().unwrap().iter().all(|queue| queue["outboxes"].is_null()), "{status}");
    let problems = ["is full for mail and refuses new rows", "has 2 refused rows of mail"];
    let (text, report) = (place.ok(&["status"]), place.json(&["doctor"]));
    for part in problems.iter().chain(&["1200", "web-1 pid 7", "PostgreSQL database `shop`"]) {
        assert!(text.contains(part), "no `{part}`: {text}");
    }
    let found = report["problems"].as_array().unwrap();
    for part in problems {
        let of: Vec<_> = found.iter().filter(|problem| problem["problem"].as_str().unwrap().contains(part)).collect();
        assert!(of.len() == 1 && of[0]["advice"].is_string() && of[0]["is_fault"] == false, "{part}: {report}");
    }
}
