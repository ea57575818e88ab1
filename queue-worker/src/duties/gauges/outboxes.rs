//! Metrics of outboxes, from the reports of relays.

use queue_core::inspect::OutboxRecord;

/// The label is the name of the database. A queue has a bounded number of outboxes.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
pub(super) fn set(reported: Vec<OutboxRecord>) {
    for outbox in OutboxRecord::merged(reported) {
        let name = &outbox.database;
        for (state, rows) in [("waiting", outbox.waiting()), ("in_flight", outbox.in_flight()), ("refused", outbox.refused())] {
            metrics::gauge!("queue_outbox_rows", "outbox" => name.clone(), "state" => state).set(rows as f64);
        }
        metrics::gauge!("queue_outbox_oldest_seconds", "outbox" => name.clone()).set(outbox.oldest().unwrap_or_default().as_secs_f64());
        let full = outbox.queues.iter().filter(|depth| depth.full).count();
        metrics::gauge!("queue_outbox_full", "outbox" => name.clone()).set(full as f64);
        metrics::gauge!("queue_outbox_report_age_seconds", "outbox" => name.clone()).set(outbox.age.as_secs_f64());
    }
}
