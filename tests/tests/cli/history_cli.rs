//! The history of queues, and repeated lists, on the command line.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use queue_core::{
    Client,
    broker::{
        ProcessId, Register, WorkerInfo,
        history::{Report, Tally},
    },
};
use queue_tests::{
    command_line::Place,
    on_servers,
    patience::{WatchBroker, exit},
    server::{Kind, Server},
};

on_servers! {
    a_person_sees_what_happened_and_which_releases_came
    a_person_stays_at_a_list
    a_list_that_a_person_stays_at_outlives_an_outage
}

const SHOP: &str = env!("CARGO_BIN_EXE_shop_worker");

#[tokio::test]
async fn a_person_sees_what_happened_and_which_releases_came_on_sqlite() {
    sees(&Place::sqlite(SHOP)).await;
}

async fn a_person_sees_what_happened_and_which_releases_came(kind: Kind) {
    let server = Server::start(kind);
    sees(&Place::on(SHOP, server.url())).await;
}

async fn sees(place: &Place) {
    let client = Client::connect(place.url()).await.unwrap().watched();
    let worker = ProcessId::random();
    let register = Register::lane("orders", worker, Duration::from_secs(60)).with_info(WorkerInfo::new("web-1", 7, "v42\u{1b}", []));
    client.broker().register(&register).await.unwrap();
    let mut tally = Tally::default();
    (tally.counts.started, tally.counts.done, tally.counts.failed) = (9, 7, 2);
    tally.run.add(Duration::from_millis(20));
    client.broker().report(&Report::new("orders", worker, 1).task("close", tally)).await.unwrap();

    let text = place.ok(&["status", "--history"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "1 queue, each line 1m");
    // A heading, sixty minutes, the release, and all of them together.
    assert_eq!(lines.len(), 64, "{text}");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(lines[63])[..6], ["all", "?", "9", "7", "2", "-"], "{text}");
    let release = lines.iter().position(|line| line.contains("release v42")).expect("it is told");
    assert!(release >= 60 && !text.contains('\u{1b}'), "{text}");
    assert_eq!(lines[release - 1][..16], lines[release][..16], "it stands below its minute: {text}");

    let hours = place.json(&["status", "--queue", "orders", "--history=24h"]);
    let of = &hours["queues"][0];
    assert_eq!(
        (of["queue"].as_str(), of["step_ms"].as_u64(), of["rows"].as_array().map(Vec::len)),
        (Some("orders"), Some(3_600_000), Some(24))
    );
    assert_eq!(of["rows"][23]["done"], 7);
    assert_eq!(of["releases"][0]["release"], "v42\u{1b}");
    let refused = place.refused(2, &["status", "--history=20days"]);
    assert!(refused.contains("two weeks"), "{refused}");
    assert!(place.ok(&["status", "--help"]).contains("status --history=24h"));
}

#[tokio::test]
async fn a_person_stays_at_a_list_on_sqlite() {
    stays(&Place::sqlite(SHOP));
}

async fn a_person_stays_at_a_list(kind: Kind) {
    let server = Server::start(kind);
    stays(&Place::on(SHOP, server.url()));
}

/// An error follows the last answer, and then the next answers follow. A file contains no control
/// characters of a terminal.
async fn a_list_that_a_person_stays_at_outlives_an_outage(kind: Kind) {
    let mut server = Server::start(kind);
    let place = Place::on(SHOP, server.url());
    let enqueue = |id: &str| place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":17}"#, "--id", id]);
    enqueue("first");
    let mut command = place.command(&["jobs", "list", "--watch=100ms"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut printed = Vec::new();
    let mut is_listed = |id: &str| answers.by_ref().inspect(|line| printed.push(line.clone())).any(|line| line.contains(id));
    assert!(is_listed("orders/first"));
    server.kill();
    assert!(stderr.any(|line| line.starts_with("error: ")), "the outage is told");
    server.restart();
    enqueue("second");
    assert!(is_listed("orders/second"), "the watch goes on");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(exit(&mut child).code(), Some(0));
    assert!(printed.iter().all(|line| !line.contains('\u{1b}')), "{printed:?}");
    assert!(!printed[0].is_empty() && printed.windows(2).all(|two| !two[0].is_empty() || !two[1].is_empty()), "{printed:?}");
}

fn stays(place: &Place) {
    place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":17}"#, "--id", "first"]);
    for list in [&["status"][..], &["jobs", "list"], &["queues", "list"], &["workers"], &["operations", "list"]] {
        let mut command = place.command(&[list, &["--watch=100ms", "--json"]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Between two answers there is an empty line.
        let mut answers = 0;
        while answers < 2 {
            let line = lines.next().unwrap_or_else(|| panic!("{list:?} ends")).unwrap();
            answers += usize::from(line.is_empty());
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        assert_eq!(exit(&mut child).code(), Some(0), "{list:?}");
        drop(lines);
    }
    let mut child = place.command(&["jobs", "list", "--watch=100ms"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("orders/first")));
    place.ok(&["jobs", "cancel", "orders/first"]);
    assert!(lines.any(|line| line.contains("orders/first") && line.contains("cancelled")), "it is printed anew");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(exit(&mut child).code(), Some(0));
    let refused = place.refused(2, &["status", "--watch=1ms"]);
    assert!(refused.contains("shorter than 100ms"), "{refused}");
}
