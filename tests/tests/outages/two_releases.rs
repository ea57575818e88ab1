//! Two executables of one program, whose task takes another type of parameter: none buries the jobs
//! of the other.

use std::process::{Command, Stdio};

use queue_core::{Client, JobAddress, JobState, inspect::JobRecord};
use queue_tests::{
    folder::folder,
    on_servers,
    patience::{WatchBroker, output, wait},
    process::Process,
    server::{Kind, Server},
};

on_servers! {
    a_job_waits_for_the_release_that_can_read_it
}

const OLD: &str = env!("CARGO_BIN_EXE_old_mailer");
const NEW: &str = env!("CARGO_BIN_EXE_new_mailer");

fn command(program: &str, url: &str) -> Command {
    let mut command = Command::new(program);
    command.env("QUEUE_URL", url).env_remove("RUST_LOG").env_remove("QUEUE_RELEASE").stdin(Stdio::null()).stderr(Stdio::null());
    command
}

fn worker(program: &str, url: &str) -> Process {
    Process::start(command(program, url).arg("work").stdout(Stdio::null()))
}

fn enqueue(program: &str, url: &str, arguments: &str) -> JobAddress {
    let output = output(command(program, url).args(["enqueue", "remind", "--args", arguments])).unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

async fn becomes(client: &Client, job: &JobAddress, state: JobState) -> JobRecord {
    let record = async || Some(client.inspector().show(job).await.unwrap()).filter(|record| record.state == state);
    wait(format!("{job} to become {state}")).on(client.broker()).some(record).await
}

/// Each of the two comes first once, and meets the job of the other.
async fn both_ways(url: &str) {
    let client = Client::connect(url).await.unwrap().watched();
    for (first, second, arguments, told) in
        [(NEW, OLD, r#"{"to":7}"#, "customer 7 is reminded"), (OLD, NEW, r#"{"to":"Ada"}"#, "Ada is reminded")]
    {
        let job = enqueue(second, url, arguments);
        let early = worker(first, url);
        let parked = becomes(&client, &job, JobState::Parked).await;
        let unreadable = parked.unreadable.expect("it says who could not read it");
        assert_eq!(unreadable.releases.len(), 1, "{unreadable:?}");
        let late = worker(second, url);
        let done = becomes(&client, &job, JobState::Done).await;
        assert_eq!(done.result::<String>().unwrap().as_deref(), Some(told));
        assert_eq!((early.stop().await, late.stop().await), (Some(0), Some(0)));
    }
}

async fn a_job_waits_for_the_release_that_can_read_it(kind: Kind) {
    let server = Server::start(kind);
    both_ways(&server.url()).await;
}

#[tokio::test]
async fn a_job_waits_for_the_release_that_can_read_it_in_a_sqlite_file() {
    let folder = folder();
    both_ways(&format!("sqlite://{}", folder.path().join("queue.db").display())).await;
}
