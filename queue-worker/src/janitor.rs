//! Removes what was kept long enough: idle producers, tombstones, kept jobs past their retention. Repairs what other hands
//! have broken.

use std::sync::Arc;

use queue_core::broker::{Audit, Damage};

use crate::{
    engine::Shared,
    tuning::{AUDIT, CALLS, ROUND, TOLD},
};

pub(crate) async fn run(shared: Arc<Shared>) {
    let mut rounds = 0_u32;
    loop {
        // Workers that were started together do not sweep together.
        tokio::time::sleep(ROUND.mul_f64(0.5 + fastrand::f64())).await;
        for queue in &shared.queues {
            for _ in 0..CALLS {
                match shared.broker.sweep(queue, &shared.settings.sweep).await {
                    Ok(swept) if swept.is_empty() => break,
                    Ok(swept) => tracing::debug!(queue = %queue, ?swept, "housekeeping"),
                    Err(error) if error.is_transient() => {
                        tracing::debug!(queue = %queue, %error, "housekeeping waits for the next round");
                        break;
                    }
                    Err(error) => {
                        tracing::warn!(queue = %queue, %error, "what was kept long enough is not removed from here");
                        break;
                    }
                }
            }
            if rounds.is_multiple_of(AUDIT) {
                repair(&shared, queue).await;
            }
        }
        rounds += 1;
    }
}

async fn repair(shared: &Shared, queue: &str) {
    match shared.broker.audit(queue, Audit { repair: true, thorough: false }).await {
        Ok(damages) => {
            for Damage { kind, subject } in damages.iter().take(TOLD) {
                tracing::warn!(queue, %kind, subject, "something was broken by other hands, and is repaired");
            }
            if damages.len() > TOLD {
                tracing::warn!(queue, repaired = damages.len(), "and more; `doctor` looks through everything");
            }
        }
        Err(error) if error.is_transient() => tracing::debug!(queue, %error, "the look for damage waits for the next round"),
        Err(error) => tracing::warn!(queue, %error, "damage is not looked for"),
    }
}
