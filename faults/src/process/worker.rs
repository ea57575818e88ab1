//! A worker process.

use std::time::Duration;

use queue_core::{Backoff, Client, Registry, broker::DynBroker};
use queue_worker::Worker;

use super::{Error, WorkerOrders, connect};
use crate::{
    history::{Operation, Phase, Recorder},
    recording::RecordingBroker,
    work::{QUEUE, registry},
};

/// Runs jobs until SIGTERM. Answers whether every job had ended by itself.
pub(super) async fn run(orders: WorkerOrders) -> Result<bool, Error> {
    let recorder = Recorder::open(&orders.common.history, &orders.common.name)?;
    let mut registry = registry(orders.tomorrow);
    if !orders.subscribers.is_empty() {
        registry = Registry::empty();
        orders.subscribers.iter().for_each(|subscriber| subscriber.register(&mut registry));
    }
    let tasks = registry.names().map(str::to_owned).collect();
    let client = connect(&orders.common.url).await?;
    let broker = RecordingBroker::with_late_ticks(client.broker().clone(), recorder.clone(), orders.failpoint, orders.late_ticks);
    let mut worker = Worker::new(Client::with_broker(broker as DynBroker))
        .registry(registry)
        .data(recorder.clone())
        .concurrency(orders.concurrency)
        .lease(Duration::from_millis(orders.lease_ms))
        .grace(Duration::from_secs(10))
        .backoff(Backoff { base: Duration::from_millis(orders.backoff_ms.0), max: Duration::from_millis(orders.backoff_ms.1) });
    if orders.subscribers.is_empty() {
        worker = worker.queue(QUEUE);
    }
    recorder.note(Phase::Ok, Operation::Up { concurrency: orders.concurrency, tasks });
    Ok(worker.run_until_signal().await?.is_clean())
}
