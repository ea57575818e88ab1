//! A job from its enqueue to its ack on SQLite, by hand.

#![cfg(feature = "sqlite")]

use std::{sync::Arc, time::Duration};

use queue_core::{
    __private::SqliteBroker,
    broker::{Broker, Counter, Ending, Finish, ProcessId, Register, Turn},
    prelude::*,
};

#[task(queue = "numbers")]
async fn add(one: u32, other: Option<u32>) -> Result<u32, std::io::Error> {
    Ok(one + other.unwrap_or(1))
}

#[tokio::test]
async fn a_job_is_claimed_and_acknowledged() {
    let broker = SqliteBroker::open("sqlite::memory:").unwrap();
    let client = Client::with_broker(broker.clone());
    let handles = client.enqueue_all((0..1000).map(|n| add::job(n, None))).await.unwrap();
    assert_eq!(handles.len(), 1000);
    let queue: Arc<str> = "numbers".into();
    let lease = Duration::from_secs(30);
    let worker = broker.register(&Register::lane(queue.clone(), ProcessId::random(), lease)).await.unwrap().name;
    let turn = Turn::new(queue.clone(), worker.clone(), 1, lease).claim(500);
    let answer = broker.turn(&turn).await.unwrap();
    assert_eq!(answer.deliveries.len(), 500);
    assert_eq!(broker.turn(&turn).await.unwrap().deliveries, answer.deliveries);
    let finishes = answer.deliveries.iter().map(|delivery| Finish::new(delivery, Ending::Ack { result: None, keep: None })).collect();
    let answer = broker.turn(&Turn::new(queue, worker, 2, lease).finish(finishes)).await.unwrap();
    assert!(answer.stale.is_empty() && answer.more);
    let stats = client.inspector().stats("numbers").await.unwrap();
    assert_eq!(stats.total(Counter::Done), 500);
    assert_eq!(handles[999].status().await.unwrap(), Some(queue_core::broker::JobState::Ready));
}
