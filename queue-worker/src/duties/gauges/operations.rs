//! Metrics of operations: whether one is running, and the result of the last of each kind.

use queue_core::{broker::DynBroker, inspect::OperationKind};

/// Without an answer, the gauges keep their values. A queue that never had an operation has no such
/// gauges.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
pub(super) async fn read(broker: &DynBroker, queue: &str) {
    let Ok(operations) = broker.operations(queue).await else { return };
    if operations.is_empty() {
        return;
    }
    let running = operations.iter().filter(|operation| operation.is_running()).count();
    metrics::gauge!("queue_operations_running", "queue" => queue.to_owned()).set(running as f64);
    for kind in OperationKind::ALL {
        let of_kind = operations.iter().filter(|operation| operation.kind == kind);
        let Some(last) = of_kind.max_by_key(|operation| operation.started_ms) else { continue };
        for (outcome, jobs) in [("changed", last.changed), ("skipped", last.skipped), ("failed", last.failed)] {
            let labels = [("queue", queue.to_owned()), ("change", kind.name().to_owned()), ("outcome", outcome.to_owned())];
            metrics::gauge!("queue_operation_jobs", &labels).set(jobs as f64);
        }
    }
}
