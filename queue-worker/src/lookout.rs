//! Looks how the broker is, with every beat: whether it is full, or its file has gone. An idle worker looks, too.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use queue_core::broker::{Condition, Trouble};

use crate::{engine::Shared, time::now};

/// What lasts is told again after this time.
const TOLD_AGAIN: Duration = Duration::from_secs(60);

pub(crate) async fn run(shared: Arc<Shared>) {
    let mut told = Told::default();
    loop {
        match shared.broker.condition().await {
            Ok(condition) => {
                told.tell(&condition, now());
                shared.note(condition);
            }
            // Those who work with it say so.
            Err(error) => tracing::debug!("cannot ask how the broker is: {error}"),
        }
        tokio::time::sleep(shared.settings.beat().mul_f64(0.75 + fastrand::f64() / 4.0)).await;
    }
}

/// What was told last, and when.
#[derive(Default)]
struct Told(Option<(&'static str, Instant)>);

impl Told {
    /// Tells of trouble when it begins, once in a while as long as it lasts, and when it ends. That a file has gone is told by the
    /// broker itself, which is the first to know.
    fn tell(&mut self, condition: &Condition, now: Instant) {
        let Condition { used, limit, free, trouble, .. } = condition;
        match trouble {
            None | Some(Trouble::Lost(_)) => {
                if self.0.take().is_some() && trouble.is_none() {
                    tracing::info!(used, limit, free, "the broker takes new jobs again");
                }
            }
            Some(trouble) => {
                if self.0.is_some_and(|(name, at)| name == trouble.name() && now < at + TOLD_AGAIN) {
                    return;
                }
                self.0 = Some((trouble.name(), now));
                tracing::warn!(used, limit, free, "the broker is {}: {trouble}; {}", trouble.name(), trouble.way_out());
            }
        }
    }
}
