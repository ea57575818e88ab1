//! How safe a stored job is: what the broker says, and what it can be asked for.

use queue_core::{
    Client,
    broker::{Durability, JobState},
    prelude::*,
};
use queue_tests::{
    folder::on_disk,
    on_servers, patience,
    patience::WatchBroker,
    sentinel::Sentinels,
    server::{Kind, Server},
};

#[task(queue = "durability")]
async fn note(number: u32) {
    let _ = number;
}

on_servers! {
    a_server_is_as_durable_as_its_log
    a_server_that_can_be_asked_syncs_its_log_before_it_answers
    an_enqueue_waits_for_replicas_and_reports_how_many_there_were
}

async fn level(client: &Client) -> Durability {
    client.broker().durability().await.unwrap()
}

async fn a_server_is_as_durable_as_its_log(kind: Kind) {
    let server = Server::start(kind);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    assert_eq!(level(&client).await, Durability::Volatile);
    server.command(&["CONFIG", "SET", "appendonly", "yes", "appendfsync", "everysec"]);
    assert_eq!(level(&client).await, Durability::ProcessCrash);
    server.command(&["CONFIG", "SET", "appendfsync", "always"]);
    assert_eq!(level(&client).await, Durability::PowerLoss);

    // Whoever may not read the settings hears the least that it can be.
    server.command(&["ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all", "-config"]);
    let client = Client::connect(&server.url().replace("redis://", "redis://app:pw@")).await.unwrap().watched();
    assert_eq!(level(&client).await, Durability::ProcessCrash);
}

async fn a_server_that_can_be_asked_syncs_its_log_before_it_answers(kind: Kind) {
    let server = Server::with(kind, &["--appendonly", "yes", "--appendfsync", "everysec"]);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    let safe = client.with_durability(Durability::PowerLoss);
    assert_eq!(note::job(1).enqueue(&client).await.unwrap().confirmed(), None, "nobody asked");
    // Redis 7.0 has no `WAITAOF`.
    let able = !server.command(&["COMMAND", "INFO", "waitaof"]).starts_with("*-1") && kind == Kind::Valkey;
    let expected = if able { Durability::PowerLoss } else { Durability::ProcessCrash };
    for number in 0..3 {
        let confirmed = note::job(number).enqueue(&safe).await.unwrap().confirmed().unwrap();
        assert_eq!(confirmed.durability, expected);
    }
    let many = safe.enqueue_all((0..1000).map(note::job)).await.unwrap();
    assert!(many.iter().all(|job| job.confirmed().is_some_and(|confirmed| confirmed.durability == expected)));
    assert_eq!(client.inspector().stats("durability").await.unwrap().count(JobState::Ready), 1004);
}

async fn an_enqueue_waits_for_replicas_and_reports_how_many_there_were(kind: Kind) {
    let deployment = Sentinels::start(kind, Duration::from_secs(60));
    let client = Client::connect(&deployment.url()).await.unwrap().with_replicas(1);
    patience::until("the replica to keep up", || async { note::job(1).enqueue(&client).await.unwrap().confirmed().unwrap().replicas == 1 })
        .await;
    // One that stands still has nothing: said after the wait, and the job is stored nevertheless.
    deployment.server(1).pause();
    let job = note::job(2).enqueue(&client).await.unwrap();
    deployment.server(1).resume();
    assert_eq!(job.confirmed().unwrap().replicas, 0);
    assert_eq!(job.status().await.unwrap(), Some(JobState::Ready));
}

#[tokio::test]
async fn a_sqlite_file_syncs_less_if_it_may_and_more_if_it_is_asked() {
    let folder = on_disk();
    let url = format!("sqlite://{}", folder.path().join("queue.db").display());
    assert_eq!(level(&Client::connect(&url).await.unwrap().watched()).await, Durability::PowerLoss);

    let fast = Client::connect(&format!("{url}?durability=process-crash")).await.unwrap().watched();
    assert_eq!(level(&fast).await, Durability::ProcessCrash);
    let safe = fast.with_durability(Durability::PowerLoss);
    let confirmed = note::job(1).enqueue(&safe).await.unwrap().confirmed().unwrap();
    assert_eq!((confirmed.durability, confirmed.replicas), (Durability::PowerLoss, 0));
    note::job(2).enqueue(&fast).await.unwrap();

    let memory = Client::connect("sqlite://:memory:").await.unwrap().watched();
    let confirmed = note::job(1).enqueue(&memory.with_durability(Durability::PowerLoss)).await.unwrap().confirmed().unwrap();
    assert_eq!(confirmed.durability, Durability::Volatile, "it cannot be had");
}
