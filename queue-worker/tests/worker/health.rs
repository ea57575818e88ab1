//! `GET /health` and `GET /ready`.

use std::sync::Arc;

use crate::common::{Probe, ask, free_address, memory, run, until_health, until_healthy, worker};
use queue_core::prelude::*;
use tokio::net::TcpStream;

#[task(queue = "seen")]
async fn ignores_its_timeout(probe: Data<Probe>) {
    probe.note("started");
    probe.gate.block();
}

#[tokio::test]
async fn health_reports_the_state_and_nothing_else_is_served() {
    let (client, address) = (memory().await, free_address());
    run(worker(&client, &Arc::default()).health(address).concurrency(9), async {
        until_healthy(address).await;
        let health = ask(address, "GET /health").await;
        assert!(health.starts_with("HTTP/1.1 200 OK\r\n"), "{health}");
        for part in [r#""status":"ok""#, r#""queues":["seen"]"#, r#""concurrency":9"#, r#""running":0"#] {
            assert!(health.contains(part), "{health}");
        }
        let head = ask(address, "HEAD /health?verbose").await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        let ready = ask(address, "GET /ready").await;
        assert!(ready.starts_with("HTTP/1.1 200 OK\r\n") && ready.contains(r#""live":true,"ready":true"#), "{ready}");
        assert!(ask(address, "GET /").await.starts_with("HTTP/1.1 404 "));
        assert!(ask(address, "POST /health").await.starts_with("HTTP/1.1 405 "));
        assert!(ask(address, "\u{0}").await.starts_with("HTTP/1.1 405 "));
    })
    .await;
}

#[tokio::test]
async fn a_client_that_sends_nothing_delays_nobody() {
    let (client, address) = (memory().await, free_address());
    run(worker(&client, &Arc::default()).health(address), async {
        until_healthy(address).await;
        let mut silent = Vec::new();
        // Each client has five seconds to send its request. One after the other, they would take
        // minutes.
        for _ in 0..50 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        assert!(ask(address, "GET /health").await.starts_with("HTTP/1.1 200 OK"));
    })
    .await;
}

#[tokio::test]
async fn an_idle_worker_is_not_taken_for_an_isolated_one() {
    const LEASE: Duration = Duration::from_secs(2);
    let (client, address) = (memory().await, free_address());
    run(worker(&client, &Arc::default()).health(address).lease(LEASE), async {
        let mut others = Vec::new();
        // If the machine is suspended for half a lease, the worker is correctly isolated for a
        // moment. Then the health is checked again.
        for _ in 0..5 {
            until_healthy(address).await;
            // The test waits for longer than a lease and checks that the health does not change.
            let until = std::time::Instant::now() + LEASE + LEASE / 3;
            let other = loop {
                let health = ask(address, "GET /health").await;
                if !health.contains(r#""status":"ok""#) {
                    break health;
                } else if std::time::Instant::now() > until {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            };
            others.push(other);
        }
        panic!("{others:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_does_not_stop_is_shown_as_stuck() {
    let (client, probe, address) = (memory().await, Arc::new(Probe::default()), free_address());
    ignores_its_timeout::job().timeout(Duration::from_millis(50)).enqueue(&client).await.unwrap();
    let watched = worker(&client, &probe).health(address).lease(Duration::from_secs(2));
    run(watched, async {
        probe.noted("started", 1).await;
        until_health(address, r#""stuck":1"#).await;
        probe.gate.open();
        until_health(address, r#""stuck":0"#).await;
    })
    .await;
}
