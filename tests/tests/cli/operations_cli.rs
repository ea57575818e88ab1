//! Operations on the command line: changes of all matching jobs, drains and purges.

use std::{
    process::{Child, Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use queue_core::{
    Client, JobState, RawJob,
    broker::{Broker, DynBroker, Operate, Operated, OperationDeed, Wrapper},
    inspect::{NewOperation, OperationKind, OperationState},
};
use queue_tests::{
    folder::folder,
    patience::{WatchBroker, exit, output},
    server::{Kind, Server},
};
use serde_json::Value;
use tempfile::TempDir;

fn command(folder: &TempDir, url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shop_worker"));
    command.args(arguments).current_dir(folder.path()).env_remove("RUST_LOG").env("QUEUE_URL", url).env("USER", "ada");
    command
}

fn run(folder: &TempDir, url: &str, arguments: &[&str]) -> Output {
    output(&mut command(folder, url, arguments)).unwrap()
}

fn ok(folder: &TempDir, url: &str, arguments: &[&str]) -> String {
    let output = run(folder, url, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn json(folder: &TempDir, url: &str, arguments: &[&str]) -> Value {
    serde_json::from_str(&ok(folder, url, &[arguments, &["--json"]].concat())).unwrap()
}

/// The exit code and the message.
fn refused(folder: &TempDir, url: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(folder, url, arguments);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn in_folder() -> (TempDir, String) {
    let folder = folder();
    let url = format!("sqlite://{}", folder.path().join("queue.db").display());
    (folder, url)
}

async fn put(client: &Client, jobs: usize) {
    let jobs: Vec<RawJob> = (0..jobs).map(|n| RawJob::new("close_order", vec![0x80]).queue("orders").id(format!("o-{n}"))).collect();
    for some in jobs.chunks(500) {
        futures_util::future::try_join_all(some.iter().map(|job| client.enqueue_raw(job.clone()))).await.unwrap();
    }
}

/// A filter with the address of a job selects or excludes exactly this job.
#[tokio::test]
async fn the_address_of_a_job_is_taken_in_every_filter() {
    let (folder, url) = in_folder();
    let client = Client::connect(&url).await.unwrap().watched();
    put(&client, 3).await;
    client.enqueue_raw(RawJob::new("close_order", vec![0x80]).queue("mail").id("o-1")).await.unwrap();
    for command in [&["jobs", "list"][..], &["jobs", "search"]] {
        let found = json(&folder, &url, &[command, &["id=orders/o-1"]].concat());
        let jobs = &found["jobs"];
        assert_eq!(jobs.as_array().map(|jobs| (jobs.len(), &jobs[0]["job"])), Some((1, &"orders/o-1".into())), "{command:?}: {found}");
    }
    ok(&folder, &url, &["jobs", "delete", "--all", "--where", "id!=orders/o-1", "--queue", "orders", "--yes"]);
    assert_eq!(client.inspector().stats("orders").await.unwrap().count(JobState::Ready), 1);
    ok(&folder, &url, &["jobs", "delete", "--all", "--where", "id=orders/o-1", "--yes"]);
    let left = async |queue| client.inspector().stats(queue).await.unwrap().count(JobState::Ready);
    assert_eq!((left("orders").await, left("mail").await), (0, 1));
}

#[tokio::test]
async fn an_operation_is_previewed_started_and_kept() {
    let (folder, url) = in_folder();
    let client = Client::connect(&url).await.unwrap().watched();
    put(&client, 12).await;
    let cancel = ["jobs", "cancel", "--all", "--state", "ready", "--where", "id~o-1"];
    let looked = [&cancel[..], &["--dry-run"]].concat();
    assert_eq!(ok(&folder, &url, &looked), "orders: 3 jobs would be cancelled");
    let looked = json(&folder, &url, &looked);
    assert_eq!((&looked["queues"][0]["eligible"], &looked["queues"][0]["is_whole"]), (&3.into(), &true.into()));
    assert_eq!(client.inspector().stats("orders").await.unwrap().count(JobState::Ready), 12);
    assert_eq!(json(&folder, &url, &["operations", "list"]), serde_json::json!({ "operations": [] }));

    assert_eq!(ok(&folder, &url, &[&cancel[..], &["--reason", "a wrong import"]].concat()), "orders: 3 ready jobs cancelled");
    let listed = json(&folder, &url, &["operations", "list", "--queue", "orders"]);
    let operation = &listed["operations"][0];
    assert_eq!((&operation["kind"], &operation["state"], &operation["by"]), (&"cancel".into(), &"completed".into(), &"ada".into()));
    assert_eq!((&operation["changed"], &operation["skipped"], &operation["percent"]), (&3.into(), &9.into(), &100.into()));
    assert_eq!(operation["filter"], "state=ready id~o-1");
    let address = operation["operation"].as_str().unwrap();
    let shown = ok(&folder, &url, &["operations", "show", address]);
    assert!(shown.contains("a wrong import") && shown.contains("12 of about 12, 100%"), "{shown}");
    assert!(ok(&folder, &url, &["operations", "list"]).contains(address));
    let stopped = ok(&folder, &url, &["operations", "stop", address]);
    assert_eq!(stopped, format!("{address} is completed: 3 jobs cancelled"), "it has ended before");
    for (arguments, code, says) in [
        (["operations", "show", "orders/none"], 3, "there is no operation `orders/none`"),
        (["operations", "stop", "orders/none"], 3, "there is no operation"),
        (["operations", "resume", address], 4, "cannot be resumed: it is completed"),
        (["operations", "show", "none"], 2, "it has no `/`"),
    ] {
        let (found, problem) = refused(&folder, &url, &arguments);
        assert!(found == Some(code) && problem.contains(says), "{arguments:?}: {found:?} {problem}");
    }
}

#[tokio::test]
async fn an_operation_that_is_under_way_keeps_others_out() {
    let (folder, url) = in_folder();
    let client = Client::connect(&url).await.unwrap().watched();
    put(&client, 3).await;
    let detached = run(&folder, &url, &["jobs", "delete", "--all", "--state", "ready", "--detach", "--yes"]);
    let [told, noted] = [detached.stdout, detached.stderr].map(|said| String::from_utf8(said).unwrap());
    let operation = client.inspector().operations("orders").await.unwrap().remove(0);
    let address = operation.address();
    assert!(told.starts_with(&format!("{address} is started: the workers of orders carry it out")), "{told}");
    assert!(
        noted.contains(&format!("no worker serves orders: it starts with the next worker, or with `operations resume {address}`")),
        "{noted}"
    );
    client.enqueue_raw(RawJob::new("close_order", vec![0x80]).queue("quiet")).await.unwrap();
    let (code, problem) = refused(&folder, &url, &["jobs", "cancel", "--all", "--state", "ready"]);
    assert_eq!(client.inspector().stats("quiet").await.unwrap().count(JobState::Cancelled), 1, "the other queues are gone on with");
    assert!(code == Some(4) && problem.contains(&format!("operation `{address}` is still running")), "{code:?} {problem}");
    assert!(problem.contains(&format!("operations stop {address}")), "{problem}");
    assert_eq!(ok(&folder, &url, &["operations", "resume", &address]), format!("{address} is completed: 3 jobs deleted"));
    assert_eq!(client.inspector().stats("orders").await.unwrap().jobs(), 0);
}

#[tokio::test]
async fn a_drain_and_a_purge_want_a_yes() {
    let (folder, url) = in_folder();
    let client = Client::connect(&url).await.unwrap().watched();
    put(&client, 5).await;
    ok(&folder, &url, &["jobs", "cancel", "orders/o-0", "orders/o-1"]);
    for (verb, jobs) in [("drain", 3), ("purge", 5)] {
        let (code, problem) = refused(&folder, &url, &["queues", verb, "orders"]);
        let asked = format!("{jobs} jobs of orders will be removed permanently; add --yes to confirm");
        assert!(code == Some(2) && problem.contains(&asked), "{code:?} {problem}");
    }
    let (code, problem) = refused(&folder, &url, &["queues", "drain", "order", "--yes"]);
    assert!(code == Some(3) && problem.contains("did you mean `orders`?"), "{code:?} {problem}");
    assert_eq!(ok(&folder, &url, &["queues", "drain", "orders", "--dry-run"]), "orders: 3 jobs would be removed");
    assert_eq!(ok(&folder, &url, &["queues", "drain", "orders", "--yes"]), "orders: 3 jobs removed");
    let stats = client.inspector().stats("orders").await.unwrap();
    assert_eq!((stats.count(JobState::Ready), stats.count(JobState::Cancelled)), (0, 2));
    let purged = json(&folder, &url, &["queues", "purge", "orders", "--yes", "--reason", "all of it"]);
    assert_eq!((&purged["changed"], &purged["kind"], &purged["reason"]), (&2.into(), &"purge".into(), &"all of it".into()));
    assert_eq!(client.inspector().stats("orders").await.unwrap().jobs(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_survives_the_process_that_runs_it() {
    let server = Server::start(Kind::Redis);
    let folder = folder();
    survives(&folder, &server.url()).await;
    let (folder, url) = in_folder();
    survives(&folder, &url).await;
}

/// Its process is killed in the middle. Another one continues, and a late step of the first one
/// changes nothing.
async fn survives(folder: &TempDir, url: &str) {
    const JOBS: usize = 20_000;
    let client = Client::connect(url).await.unwrap().watched();
    let inspector = client.inspector();
    let (mut middle, mut too_quick) = (None, 0);
    while middle.is_none() {
        put(&client, JOBS).await;
        let mut command = command(folder, url, &["jobs", "cancel", "--all", "--state", "ready"]);
        let mut child: Child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let (began, mut begun) = (Instant::now(), None);
        while begun.is_none() && child.try_wait().unwrap().is_none() && began.elapsed() < Duration::from_secs(60) {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let all = inspector.operations("orders").await.unwrap();
            begun = all.into_iter().find(|operation| operation.is_running() && operation.changed > 0);
        }
        child.kill().unwrap();
        exit(&mut child);
        if let Some(killed) = begun {
            middle = Some(inspector.operation("orders", &killed.id).await.unwrap()).filter(|left| left.is_running());
        }
        if middle.is_none() {
            // It had ended before the kill, so the test is repeated.
            too_quick += 1;
            assert!(too_quick < 10, "it cannot be killed in the middle");
            ok(folder, url, &["queues", "purge", "orders", "--yes"]);
        }
    }
    let left = middle.expect("it was killed in the middle");
    assert!(left.changed < JOBS as u64, "it was killed in the middle: {left:?}");
    let other = NewOperation::new(OperationKind::Delete, "state=cancelled".parse().unwrap());
    assert!(inspector.start_operation("orders", &other).await.is_err(), "it is still under way");
    let told = ok(folder, url, &["operations", "resume", &left.address()]);
    assert_eq!(told, format!("{} is completed: {JOBS} jobs cancelled", left.address()));
    let ended = inspector.operation("orders", &left.id).await.unwrap();
    assert_eq!((ended.state, ended.changed), (OperationState::Completed, JOBS as u64));
    let stats = inspector.stats("orders").await.unwrap();
    assert_eq!((stats.count(JobState::Ready), stats.count(JobState::Cancelled)), (0, JOBS as u64));
}

/// A broker that carries out each start without an answer.
#[derive(Debug)]
struct StartsInSilence {
    inner: DynBroker,
}

impl Wrapper for StartsInSilence {
    fn inner(&self) -> &dyn Broker {
        &*self.inner
    }

    async fn operate(&self, request: &Operate) -> queue_core::Result<Operated> {
        self.inner.operate(request).await?;
        Err(queue_core::Error::ambiguous("nowhere", "the answer is lost"))
    }
}

#[tokio::test]
async fn a_start_without_an_answer_names_the_operation_that_may_have_begun() {
    let inner = Client::connect("sqlite://:memory:").await.unwrap().broker().clone();
    let (client, silent) = (Client::with_broker(inner.clone()), Client::with_broker(Arc::new(StartsInSilence { inner })));
    put(&client, 1).await;
    let error = silent.inspector().start_operation("orders", &NewOperation::all_of(OperationKind::Drain)).await.unwrap_err();
    let begun = client.inspector().operations("orders").await.unwrap().remove(0);
    let says = format!("`operations show {}` prints whether the operation has started", begun.address());
    assert!(error.is_ambiguous() && error.to_string().contains(&says), "{error}");
}

/// A broker that carries out each step and loses most answers. It may lose two in a row, so that a
/// repeated step has no answer either.
#[derive(Debug)]
struct LosesAnswers {
    inner: DynBroker,
    asked: AtomicUsize,
}

impl Wrapper for LosesAnswers {
    fn inner(&self) -> &dyn Broker {
        &*self.inner
    }

    async fn operate(&self, request: &Operate) -> queue_core::Result<Operated> {
        let answer = self.inner.operate(request).await;
        match (&request.deed, self.asked.fetch_add(1, Ordering::Relaxed) % 8) {
            (OperationDeed::Start(_), _) | (_, 0 | 3 | 4 | 6) => answer,
            _ => Err(queue_core::Error::ambiguous("nowhere", "the answer is lost")),
        }
    }
}

/// No job is left out or counted twice.
#[tokio::test]
async fn every_job_is_changed_although_answers_are_lost() {
    const JOBS: usize = 900;
    let (_folder, url) = in_folder();
    let inner = Client::connect(&url).await.unwrap().broker().clone();
    let client = Client::with_broker(Arc::new(LosesAnswers { inner, asked: AtomicUsize::new(0) }));
    put(&client, JOBS).await;
    let inspector = client.inspector();
    for (kind, filter) in [(OperationKind::Cancel, "state=ready"), (OperationKind::Requeue, "state=cancelled"), (OperationKind::Drain, "")]
    {
        let new = NewOperation::new(kind, filter.parse().unwrap()).all();
        let started = inspector.start_operation("orders", &new).await.unwrap();
        let (mut run, mut lost) = (inspector.run_operation(&started), 0);
        for steps in 0.. {
            assert!(steps < 1000, "it ends");
            match run.step().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => lost += usize::from(error.is_transient()),
            }
        }
        let ended = inspector.operation("orders", &started.id).await.unwrap();
        assert_eq!((ended.state, ended.changed, ended.failed), (OperationState::Completed, JOBS as u64, 0), "{kind}: {ended:?}");
        assert!(lost > 0, "two answers in a row were lost");
    }
    assert_eq!(inspector.stats("orders").await.unwrap().jobs(), 0);
}
