//! Workers, as a person looks at them and asks them: on the command line.

use std::{
    process::{Command, Output},
    time::Duration,
};

use queue_core::{
    Client, JobId,
    broker::{Extend, JobRemarks, ProcessId, ProgressNow, Register, Remarks, Turn, WorkerInfo, WorkerLoad},
};
use queue_tests::{
    on_servers,
    server::{Kind, Server},
};
use serde_json::Value;
use tempfile::TempDir;

on_servers! {
    a_person_sees_what_runs_on_a_worker
}

const TERM: Duration = Duration::from_secs(600);

/// Where a command line looks for its workers.
struct Place {
    _folder: TempDir,
    folder: std::path::PathBuf,
    url: String,
}

impl Place {
    fn sqlite() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("queue.db").display());
        Place { folder: folder.path().to_owned(), _folder: folder, url }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop_worker"));
        command.args(arguments).current_dir(&self.folder).env_remove("RUST_LOG").env("QUEUE_URL", &self.url);
        tokio::task::block_in_place(|| command.output().unwrap())
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat())).unwrap()
    }

    fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        error
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_sees_what_runs_on_a_worker_on_sqlite() {
    sees_what_runs(&Place::sqlite()).await;
}

async fn a_person_sees_what_runs_on_a_worker(kind: Kind) {
    let server = Server::start(kind);
    sees_what_runs(&Place { url: server.url(), ..Place::sqlite() }).await;
}

async fn sees_what_runs(place: &Place) {
    let client = Client::connect(&place.url).await.unwrap();
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
    let mut told = JobRemarks::new(JobId::given("import").unwrap(), claims[0], 1);
    told.progress = Some(ProgressNow::new(1, Some(0.405), "reading \u{1b}[31mpage 3", None));
    let mut remarks = Remarks::new("orders", lanes[0].clone());
    remarks.jobs.push(told);
    assert_eq!(broker.remark(&remarks).await.unwrap(), [true]);
    let load = WorkerLoad::new(2, 8).using(Some(48_234_496), Some(1_250));
    broker.extend(&[Extend::new("orders", lanes[0].clone(), 1, TERM).saying(load)]).await.remove(0).unwrap();

    let shown = place.json(&["workers", "show", &process.to_string()]);
    let jobs = shown["jobs"].as_array().unwrap();
    let ids: Vec<&str> = jobs.iter().map(|job| job["job"].as_str().unwrap()).collect();
    assert_eq!((ids, &shown["is_whole"]), (vec!["orders/import", "orders/other"], &true.into()), "the first claimed first: {shown}");
    assert_eq!((&shown["worker"]["release"], &shown["worker"]["slots"]), (&"v42".into(), &8.into()));
    assert_eq!(jobs[0]["progress"]["fraction"], 0.405, "{shown}");
    assert!(jobs[1]["progress"].is_null(), "{shown}");
    let text = place.ok(&["workers", "show", &process.to_string()]);
    for part in ["web-1", "4711", "v42", "2/8", "46.0 MiB", "1.25", "orders/import", "close_order", "40 % reading", "orders/other"] {
        assert!(text.contains(part), "no `{part}`: {text}");
    }
    assert!(!text.contains('\u{1b}') && !text.contains("orders/waits"), "that one is another worker's: {text}");
    let other = place.json(&["workers", "show", &stranger.to_string()]);
    assert_eq!((other["jobs"].as_array().unwrap().len(), &other["worker"]["memory"]), (1, &Value::Null));

    let refused = place.refused(3, &["workers", "show", &none]);
    assert!(refused.contains(&process.to_string()) && refused.contains(&stranger.to_string()), "{refused}");
    let refused = place.refused(2, &["workers", "show", "web-1"]);
    assert!(refused.contains("16 digits and letters"), "{refused}");
}
