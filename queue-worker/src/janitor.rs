//! Removes what was kept long enough: idle producers, tombstones, kept jobs past their retention.

use std::{sync::Arc, time::Duration};

use crate::engine::Shared;

/// Between two rounds over all queues.
const ROUND: Duration = Duration::from_secs(60);

/// Calls per queue and round; the next round goes on.
const CALLS: usize = 50;

pub(crate) async fn run(shared: Arc<Shared>) {
    loop {
        // Workers that were started together do not sweep together.
        tokio::time::sleep(ROUND.mul_f64(0.5 + fastrand::f64())).await;
        for queue in &shared.queues {
            for _ in 0..CALLS {
                match shared.broker.sweep(queue, &shared.settings.sweep).await {
                    Ok(swept) if swept.is_empty() => break,
                    Ok(swept) => tracing::debug!(queue = %queue, ?swept, "housekeeping"),
                    Err(error) => {
                        tracing::debug!(queue = %queue, "housekeeping waits for the next round: {error}");
                        break;
                    }
                }
            }
        }
    }
}
