//! The aging of waiting jobs, as code declares it.

use std::time::Duration;

use crate::common::{memory, until};
use queue_core::{Registry, inspect::Aging, prelude::*};
use queue_worker::{Worker, WorkerError};

#[task(queue = "aging", aging = "60s")]
async fn ages() {}

#[task(queue = "aging", aging = "5m")]
async fn ages_otherwise() {}

#[tokio::test]
async fn tasks_that_do_not_agree_on_the_aging_of_their_queue_are_named() {
    let problem =
        match Worker::new(memory().await).registry(Registry::declared_in(file!())).queue("aging").run(std::future::pending()).await {
            Err(WorkerError::Setup(problems)) => problems.join("\n"),
            other => panic!("it started: {other:?}"),
        };
    for part in ["aging of queue `aging`", "`ages`", "60s", "`ages_otherwise`", "300s", "use the same"] {
        assert!(problem.contains(part), "{part}: {problem}");
    }
}

/// The declaration of one task applies to its queue. The setting of an operator overrides it.
#[tokio::test]
async fn a_worker_declares_the_aging_of_its_queue() {
    let client = memory().await;
    let inspector = client.inspector();
    let mut registry = Registry::default();
    registry.register::<ages>();
    let worker = Worker::new(client.clone()).registry(registry).queue("aging");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let runs = tokio::spawn(worker.run(async { drop(stopped.await) }));
    let minute = Some(Duration::from_secs(60));
    until("the aging to be declared", async || inspector.stats("aging").await.is_ok_and(|stats| stats.aging == minute)).await;
    assert_eq!(inspector.set_aging("aging", Aging::Off).await.unwrap(), None);
    assert_eq!(inspector.set_aging("aging", Aging::AsDeclared).await.unwrap(), minute);
    drop(stop);
    runs.await.unwrap().unwrap();
}
