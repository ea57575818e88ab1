//! Watching queues: on the command line, in a program, and with errors.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use queue_conformance::conformance::Lane;
use queue_core::{
    __private::RedisBroker,
    Client, Error, JobState,
    broker::{Audit, DynBroker, SweepLimits},
    inspect::{Transition, Watch, Watched},
    observe::Calls,
    prelude::*,
};
use queue_tests::{
    command_line::Place,
    on_servers,
    patience::{WatchBroker, exit, joined, wait},
    roles,
    server::{Kind, Server},
};

on_servers! {
    a_person_watches_a_queue
    a_program_sees_all_queues_and_new_ones
    a_slow_reader_learns_how_much_is_lost
    a_watcher_goes_on_at_the_server_that_comes_back
    a_key_of_another_type_stops_no_job_and_loses_transitions
    a_queue_that_cannot_be_watched_ends_no_watch_of_others
    a_lane_that_does_not_know_it_keeps_watchers_out
    a_user_who_may_only_read_is_refused
    a_queue_is_as_before_when_the_watcher_has_gone
}

const QUEUE: &str = "watching";

#[task(queue = "watching", name = "add")]
async fn add(n: u64) -> Result<u64, std::convert::Infallible> {
    Ok(n + 1)
}

fn key(kind: &str) -> String {
    format!("queue:{{{QUEUE}}}:{kind}")
}

async fn connected(server: &Server) -> (Client, DynBroker) {
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    (Client::with_broker(broker.clone()), broker)
}

/// A watcher that has started.
async fn watching(client: &Client, filter: &str) -> Watch {
    let mut watch = client.watch(filter.parse().unwrap()).unwrap();
    assert_eq!(watch.next_within(Duration::from_millis(60)).await.unwrap(), None);
    watch
}

async fn next(watch: &mut Watch) -> Watched {
    wait("a transition").end_of(watch.next()).await.unwrap()
}

async fn told(watch: &mut Watch) -> Transition {
    match next(watch).await {
        Watched::Transition(told) => told,
        other => panic!("{other:?}"),
    }
}

async fn a_person_watches_a_queue(kind: Kind) {
    let server = Server::start(kind);
    sees(&Place::on(env!("CARGO_BIN_EXE_shop_worker"), server.url()));
}

#[test]
fn a_person_watches_a_queue_on_sqlite() {
    sees(&Place::sqlite(env!("CARGO_BIN_EXE_shop_worker")));
}

fn sees(place: &Place) {
    let enqueue = |id: &str| place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":17}"#, "--id", id]);
    enqueue("first");
    let mut watch = place.command(&["watch", "--queue", "orders", "state=cancelled", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    // It does not report its start, so jobs are cancelled one after the other until it reports one.
    let mut ids = (0..).map(|n| format!("job-{n}"));
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        if let Some(Ok(line)) = lines.next() {
            let _ = sender.send(line);
        }
    });
    let line = wait("a cancel to be told").block_some(|| {
        let id = ids.next().unwrap();
        enqueue(&id);
        place.ok(&["jobs", "cancel", &format!("orders/{id}"), "--reason", "a slip"]);
        receiver.recv_timeout(Duration::from_millis(300)).ok()
    });
    joined(reader);
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    let told = &told["transition"];
    assert_eq!(
        (told["task"].as_str(), told["from"].as_str(), told["to"].as_str()),
        (Some("close_order"), Some("ready"), Some("cancelled"))
    );
    assert!(told["job"].as_str().unwrap().starts_with("orders/job-") && told["at"].as_str().unwrap().ends_with('Z'), "{told}");
    assert_eq!(told["reason"], "a slip");
    // Ctrl-C is not an error.
    assert!(Command::new("kill").args(["-INT", &watch.id().to_string()]).status().unwrap().success());
    assert_eq!(exit(&mut watch).code(), Some(0));

    // It also ends after its time, and prints readable text.
    assert_eq!(place.ok(&["watch", "--for", "100ms"]), "");
    let mut watch = place
        .command(&["watch", "task=close_order", "--limit", "2", "--for", "10000000000000000000s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    while watch.try_wait().unwrap().is_none() {
        enqueue(&ids.next().unwrap());
    }
    let printed = std::io::read_to_string(watch.stdout.take().unwrap()).unwrap();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 2, "{printed}");
    assert!(
        lines[0].contains(" orders/job-") && lines[0].ends_with("close_order new -> ready") && !printed.contains('\u{1b}'),
        "{printed}"
    );

    let refused = place.refused(2, &["watch", "payload~17"]);
    assert!(refused.contains("payload~17") && refused.contains("transitions do not have"), "{refused}");
    assert!(place.ok(&["watch", "--help"]).contains("shop_worker watch --queue orders"));
}

async fn a_program_sees_all_queues_and_new_ones(kind: Kind) {
    let server = Server::start(kind);
    sees_all(Client::connect(&server.url()).await.unwrap().watched()).await;
}

#[tokio::test]
async fn a_program_sees_all_queues_and_new_ones_on_sqlite() {
    sees_all(Client::connect("sqlite://:memory:").await.unwrap().watched()).await;
}

async fn sees_all(client: Client) {
    add::job(1).enqueue(&client).await.unwrap();
    add::job(1).queue("other").enqueue(&client).await.unwrap();
    let mut watch = watching(&client, "task=add state!=cancelled").await;
    let mut only = watching(&client, "queue=other").await;
    let here = add::job(2).enqueue(&client).await.unwrap();
    assert_eq!((told(&mut watch).await.job, here.cancel("").await.is_ok()), (here.address().clone(), true));
    let there = add::job(2).queue("other").enqueue(&client).await.unwrap();
    let (one, other) = (told(&mut watch).await, told(&mut only).await);
    assert_eq!((&one, one.job.clone(), one.from, one.to), (&other, there.address().clone(), None, Some(JobState::Ready)));
    // The first transitions of a new queue are missed, which is reported. Later ones are reported
    // as for other queues.
    add::job(3).queue("new").enqueue(&client).await.unwrap();
    let Watched::Lost(lost) = next(&mut watch).await else { panic!("the first are not seen") };
    assert_eq!((lost.queue.as_str(), lost.transitions), ("new", None));
    let last = add::job(4).queue("new").enqueue(&client).await.unwrap();
    assert_eq!(told(&mut watch).await.job, *last.address());
    assert_eq!(watch.next_within(Duration::from_millis(300)).await.unwrap(), None);
}

async fn a_slow_reader_learns_how_much_is_lost(kind: Kind) {
    let server = Server::start(kind);
    reads_too_slowly(Client::connect(&server.url()).await.unwrap().watched()).await;
}

#[tokio::test]
async fn a_slow_reader_learns_how_much_is_lost_on_sqlite() {
    reads_too_slowly(Client::connect("sqlite://:memory:").await.unwrap().watched()).await;
}

async fn reads_too_slowly(client: Client) {
    add::job(0).enqueue(&client).await.unwrap();
    let mut watch = watching(&client, "queue=watching").await;
    let jobs = 13_000;
    for _ in 0..13 {
        client.enqueue_all((0..1_000).map(add::job)).await.unwrap();
    }
    let Watched::Lost(lost) = next(&mut watch).await else { panic!("the ring is not so large") };
    let lost = lost.transitions.expect("it is known");
    let mut seen = 0;
    while seen + lost < jobs {
        told(&mut watch).await;
        seen += 1;
    }
    assert_eq!(watch.next_within(Duration::from_millis(500)).await.unwrap(), None, "{seen} seen and {lost} lost are all");
    assert_eq!(seen + lost, jobs);
    assert!(lost >= 2_000, "{lost}");
}

async fn a_watcher_goes_on_at_the_server_that_comes_back(kind: Kind) {
    let mut server = Server::durable(kind);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    add::job(1).enqueue(&client).await.unwrap();
    let mut watch = watching(&client, "queue=watching").await;
    server.kill();
    assert_eq!(watch.next_within(Duration::from_secs(2)).await.unwrap(), None, "it waits");
    server.restart();
    let Watched::Lost(lost) = next(&mut watch).await else { panic!("it may lack the last ones") };
    assert_eq!(lost.transitions, None);
    let job = add::job(2).enqueue(&client).await.unwrap();
    assert_eq!(told(&mut watch).await.job, *job.address());
}

async fn a_key_of_another_type_stops_no_job_and_loses_transitions(kind: Kind) {
    let server = Server::start(kind);
    let (client, broker) = connected(&server).await;
    add::job(1).enqueue(&client).await.unwrap();
    let mut watch = watching(&client, "queue=watching").await;
    server.command(&["SET", &key("transitions"), "garbage"]);
    let mut lane = Lane::on(&broker, QUEUE).await;
    let job = lane.claim_one().await;
    lane.ack(&[job]).await;
    assert!(matches!(watch.next().await, Err(Error::WrongType { .. })));
    let damage = broker.audit(QUEUE, Audit { repair: true, thorough: true }).await.unwrap();
    assert!(!damage.is_empty(), "{damage:?}");
    let Watched::Lost(lost) = next(&mut watch).await else { panic!("two were not stored") };
    assert_eq!(lost.transitions, Some(2));
    let job = add::job(2).enqueue(&client).await.unwrap();
    assert_eq!(told(&mut watch).await.job, *job.address());
}

/// The watcher of all queues gets the reason once, and retries.
async fn a_queue_that_cannot_be_watched_ends_no_watch_of_others(kind: Kind) {
    let server = Server::start(kind);
    let (client, broker) = connected(&server).await;
    add::job(1).enqueue(&client).await.unwrap();
    add::job(1).queue("other").enqueue(&client).await.unwrap();
    let mut watch = watching(&client, "task=add").await;
    server.command(&["SET", &key("transitions"), "garbage"]);
    let Watched::Lost(lost) = next(&mut watch).await else { panic!("it cannot be read") };
    assert_eq!((lost.queue.as_str(), lost.transitions), (QUEUE, None));
    assert!(lost.problem.as_ref().is_some_and(|problem| problem.contains("doctor")) && lost.to_string().contains("doctor"), "{lost}");
    add::job(2).enqueue(&client).await.unwrap();
    let there = add::job(2).queue("other").enqueue(&client).await.unwrap();
    assert_eq!(told(&mut watch).await.job, *there.address());
    assert_eq!(watch.next_within(Duration::from_millis(2_500)).await.unwrap(), None, "it is told once");
    let damage = broker.audit(QUEUE, Audit { repair: true, thorough: true }).await.unwrap();
    assert!(!damage.is_empty(), "{damage:?}");
    let Watched::Lost(lost) = next(&mut watch).await else { panic!("one was not stored") };
    assert_eq!((lost.queue.as_str(), lost.transitions, lost.problem), (QUEUE, Some(1), None));
    let here = add::job(3).enqueue(&client).await.unwrap();
    assert_eq!(told(&mut watch).await.job, *here.address());
}

/// A lane of an older library would record nothing.
async fn a_lane_that_does_not_know_it_keeps_watchers_out(kind: Kind) {
    let server = Server::start(kind);
    let (client, broker) = connected(&server).await;
    add::job(1).enqueue(&client).await.unwrap();
    let lane = Lane::on(&broker, QUEUE).await;
    server.command(&["HSET", &key("knows"), lane.name.as_str(), "lfkpcztahusw"]);
    let mut watch = client.watch("queue=watching".parse().unwrap()).unwrap();
    let refused = watch.next().await.unwrap_err();
    assert!(matches!(&refused, Error::FeatureUnknown { .. }) && refused.to_string().contains("followed"), "{refused}");
}

async fn a_user_who_may_only_read_is_refused(kind: Kind) {
    let server = Server::start(kind);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    add::job(1).enqueue(&client).await.unwrap();
    roles::admit(&server, "queue");
    for (role, may) in [("dashboard", false), ("producer", true), ("worker", true), ("admin", true)] {
        let client = Client::connect(&roles::url(&server, role)).await.unwrap().watched();
        // A producer may not list queues.
        let filters: &[&str] = if role == "producer" { &["queue=watching"] } else { &["queue=watching", "task=add"] };
        for filter in filters {
            let mut watch = client.watch(filter.parse().unwrap()).unwrap();
            match watch.next_within(Duration::from_millis(60)).await {
                Ok(None) => assert!(may, "{role} may not"),
                refused => assert!(!may && matches!(refused, Err(Error::AccessDenied { .. })), "{role}: {refused:?}"),
            }
        }
    }
}

/// The bit is removed with the mark, so that turns use the small script again.
async fn a_queue_is_as_before_when_the_watcher_has_gone(kind: Kind) {
    let server = Server::start(kind);
    let (client, broker) = connected(&server).await;
    add::job(1).enqueue(&client).await.unwrap();
    let bits = || server.command(&["HGET", &key("meta"), "bits"]);
    let before = bits();
    broker.follow(QUEUE, Duration::from_secs(3)).await.unwrap();
    assert_ne!(bits(), before);
    let mut lane = Lane::on(&broker, QUEUE).await;
    let job = lane.claim_one().await;
    assert_eq!(server.command(&["EXISTS", &key("transitions")]), ":1\r\n");
    tokio::time::sleep(Duration::from_millis(3_020)).await;
    lane.ack(&[job]).await;
    assert_eq!(
        (bits(), server.command(&["EXISTS", &key("transitions")])),
        (before.clone(), ":0\r\n".to_owned()),
        "the next turn clears it"
    );
    broker.follow(QUEUE, Duration::from_millis(50)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(70)).await;
    broker.sweep(QUEUE, &SweepLimits::default()).await.unwrap();
    assert_eq!(bits(), before, "so does a sweep");
    // Only a watcher requests a mark.
    let calls = Arc::new(Calls::default());
    let observed = client.with_observer(calls.clone());
    add::job(2).enqueue(&observed).await.unwrap();
    assert!(!calls.snapshot().contains_key("follow"));
}
