//! A worker that starts before its broker waits for it, says so, and can be stopped meanwhile.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use queue_conformance::failing::{FailingBroker, Fault};
use queue_core::{
    __private::SqliteBroker,
    Error, Registry,
    broker::{DynBroker, JobState},
    prelude::*,
};
use queue_tests::{
    folder::folder,
    patience::{WatchBroker, exit, until, wait, wait_for},
    probe::{ask, free_address, until_ready},
    server::{Kind, Server, free_port},
};
use queue_worker::{Shutdown, Stopped, Worker, WorkerError};
use tokio::sync::Semaphore;

#[task(queue = "early")]
async fn note(ran: Data<Semaphore>) {
    ran.add_permits(1);
}

/// A worker of the task of this file, and what counts its runs.
fn worker(client: Client) -> (Worker, Arc<Semaphore>) {
    let ran = Arc::new(Semaphore::new(0));
    (Worker::new(client).registry(Registry::empty()).register::<note>().shared_data(ran.clone()), ran)
}

async fn ended(working: tokio::task::JoinHandle<Result<Stopped, WorkerError>>) -> Result<Stopped, WorkerError> {
    wait("the worker ends").end_of(working).await.unwrap()
}

async fn a_worker_that_starts_before_its_server_works_as_soon_as_it_is_there(kind: Kind) {
    let mut server = Server::start(kind);
    server.kill();
    let shutdown = Shutdown::new();
    let address = free_address();
    let (worker, ran) = worker(Client::open(&server.url()).await.unwrap());
    let working = tokio::spawn(worker.health(address).run_with(shutdown.clone()));
    until_ready(address, 503, r#""status":"waiting""#).await;
    let health = ask(address, "/health").await;
    assert!(health.starts_with("HTTP/1.1 200 "), "a restart would not bring its server: {health}");
    // Everybody else is told at once.
    assert!(matches!(Client::connect(&server.url()).await, Err(Error::Unavailable { .. })));

    server.restart();
    note::job().enqueue(&Client::connect(&server.url()).await.unwrap().watched()).await.unwrap();
    wait("the job runs").end_of(ran.acquire()).await.unwrap().forget();
    until_ready(address, 200, r#""status":"ok""#).await;
    shutdown.drain();
    assert!(ended(working).await.unwrap().is_clean());
}

/// As a liveness probe would see it that asks all the time: one bad answer, and the whole fleet
/// would be restarted into an outage.
async fn a_worker_whose_server_goes_away_is_live_all_the_time_and_ready_again_when_it_is_back(kind: Kind) {
    let mut server = Server::start(kind);
    let (shutdown, address) = (Shutdown::new(), free_address());
    let (worker, ran) = worker(Client::open(&server.url()).await.unwrap());
    let working = tokio::spawn(worker.health(address).lease(Duration::from_secs(2)).run_with(shutdown.clone()));
    until_ready(address, 200, r#""status":"ok""#).await;
    let probe = tokio::spawn(async move {
        let mut probes = 0;
        loop {
            let health = ask(address, "/health").await;
            assert!(health.starts_with("HTTP/1.1 200 "), "after {probes} probes: {health}");
            probes += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    for _ in 0..2 {
        server.kill();
        until_ready(address, 503, r#""status":"isolated""#).await;
        server.restart();
        until_ready(address, 200, r#""status":"ok""#).await;
    }
    assert!(!probe.is_finished(), "{:?}", probe.await);
    probe.abort();
    note::job().enqueue(&Client::connect(&server.url()).await.unwrap().watched()).await.unwrap();
    wait("the job runs").end_of(ran.acquire()).await.unwrap().forget();
    shutdown.drain();
    assert!(ended(working).await.unwrap().is_clean());
}

/// As a web application starts that does not choose to start without its broker.
async fn a_program_that_connects_by_its_environment_waits_for_its_server(kind: Kind) {
    let mut server = Server::start(kind);
    server.kill();
    let (folder, nobody) = (folder(), TcpListener::bind(("127.0.0.1", server.port())).unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_chronicler"));
    command.arg("enqueue").env("QUEUE_URL", server.url()).env("QUEUES", "early").env("FIRST", "0");
    let _process = queue_tests::process::Process::start(command.env("JOURNAL", folder.path().join("journal")));
    nobody.accept().unwrap();
    drop(nobody);
    server.restart();
    let client = Client::connect(&server.url()).await.unwrap().watched();
    until("the program enqueues", async || client.inspector().stats("early").await.is_ok_and(|stats| stats.count(JobState::Ready) > 0))
        .await;
}

async fn what_waiting_does_not_mend_ends_it_at_once(kind: Kind) {
    let server = Server::with(kind, &["--requirepass", "sesame"]);
    let (worker, _) = worker(Client::open(&server.url()).await.unwrap());
    let refused = ended(tokio::spawn(worker.run(std::future::pending()))).await;
    assert!(matches!(refused, Err(WorkerError::Queue(Error::AccessDenied { .. }))), "{refused:?}");
}

queue_tests::on_servers! {
    a_worker_that_starts_before_its_server_works_as_soon_as_it_is_there
    a_worker_whose_server_goes_away_is_live_all_the_time_and_ready_again_when_it_is_back
    a_program_that_connects_by_its_environment_waits_for_its_server
    what_waiting_does_not_mend_ends_it_at_once
}

#[tokio::test]
async fn a_worker_that_waits_stops_when_it_is_asked_to() {
    let broker = FailingBroker::new(SqliteBroker::open("sqlite::memory:").unwrap());
    broker.fail(Fault::RequestLost, u32::MAX);
    let shutdown = Shutdown::new();
    let (worker, _) = worker(Client::with_broker(broker.clone() as DynBroker));
    let working = tokio::spawn(worker.run_with(shutdown.clone()));
    until("some tries", async || broker.failed() > 2).await;
    shutdown.drain();
    assert_eq!(ended(working).await.unwrap(), Stopped::default());
}

#[tokio::test]
async fn a_worker_that_is_dropped_while_it_waits_leaves_nobody_waiting() {
    let broker = FailingBroker::new(SqliteBroker::open("sqlite::memory:").unwrap());
    broker.fail(Fault::RequestLost, u32::MAX);
    let (worker, _) = worker(Client::with_broker(broker.clone() as DynBroker));
    let working = tokio::spawn(worker.run(std::future::pending()));
    until("a try", async || broker.failed() > 0).await;
    working.abort();
    until("the broker to be dropped", async || Arc::strong_count(&broker) == 1).await;
}

/// A process, which does not outlive the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_command_reports_what_it_waits_for_and_a_signal_ends_it_cleanly() {
    let url = format!("redis://127.0.0.1:{}", free_port());
    let mut command = Command::new(env!("CARGO_BIN_EXE_shop_worker"));
    command.args(["work", "--url", &url]).env("SHOP_NAME", "Ada").env_remove("RUST_LOG").stderr(Stdio::piped());
    let mut process = Process(command.spawn().unwrap());
    let mut lines = BufReader::new(process.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.find(|line| line.contains("the broker does not answer")).expect("it says what it waits for");
    assert!(said.contains(&url), "{said}");
    let pid = process.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    wait_for("the worker to end", || process.0.try_wait().unwrap());
    assert_eq!(exit(&mut process.0).code(), Some(0));
}
