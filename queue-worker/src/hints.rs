//! Forwards the broker's announcements to the pump as they arrive, and records that programs wait
//! for results or have cancelled running jobs. It has no passes, because an announcement that waits
//! for a pass would be late.

use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use queue_core::broker::WATCHED;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{duty::Duty, engine::Shared, pump::Event, time::now};

pub(crate) struct Hints {
    shared: Arc<Shared>,
    events: mpsc::UnboundedSender<Event>,
}

impl Hints {
    pub(crate) fn new(shared: Arc<Shared>, events: mpsc::UnboundedSender<Event>) -> Self {
        Hints { shared, events }
    }

    /// Until there is no listener any more.
    async fn forward(self) {
        let of_each = self.shared.queues.iter().enumerate().map(|(queue, name)| {
            let (mut hints, events) = (self.shared.broker.hints(name), self.events.clone());
            async move {
                loop {
                    let hint = hints.next().await;
                    if events.send(Event::Hint { queue, due: hint.due, as_of: hint.as_of }).is_err() {
                        return;
                    }
                }
            }
        });
        let watches = self.shared.queues.iter().zip(&self.shared.watched).map(|(name, watched)| {
            let (mut hints, events) = (self.shared.broker.watch_hints(name), self.events.clone());
            async move {
                loop {
                    hints.next().await;
                    watched.set(now() + WATCHED);
                    if events.send(Event::News).is_err() {
                        return;
                    }
                }
            }
        });
        let (mut of_each, mut watches) = (of_each.collect::<FuturesUnordered<_>>(), watches.collect::<FuturesUnordered<_>>());
        tokio::select! {
            _ = of_each.next() => {}
            _ = watches.next() => {}
        }
    }
}

impl Duty for Hints {
    const NAME: &'static str = "hints";

    async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.forward()).await;
    }
}
