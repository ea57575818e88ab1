//! Forwards the broker's announcements to the pump as they arrive, and records that programs wait
//! for results or have cancelled running jobs. It has no passes, because an announcement that waits
//! for a pass would be late.

use futures_util::stream::{FuturesUnordered, StreamExt};
use queue_core::broker::{DynBroker, WATCHED};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Duty;
use crate::{messages::Event, queues::Queues, time::now};

pub(crate) struct Hints {
    broker: DynBroker,
    queues: Queues,
    events: mpsc::UnboundedSender<Event>,
}

impl Hints {
    pub(crate) fn new(broker: DynBroker, queues: Queues, events: mpsc::UnboundedSender<Event>) -> Self {
        Hints { broker, queues, events }
    }

    /// Runs until the pump no longer receives events.
    async fn forward(self) {
        let of_each = self.queues.iter().enumerate().map(|(queue, served)| {
            let (mut hints, events) = (self.broker.hints(&served.name), self.events.clone());
            async move {
                loop {
                    let hint = hints.next().await;
                    if events.send(Event::Hint { queue, due: hint.due, as_of: hint.as_of }).is_err() {
                        return;
                    }
                }
            }
        });
        let watches = self.queues.iter().map(|queue| {
            let (mut hints, events) = (self.broker.watch_hints(&queue.name), self.events.clone());
            async move {
                loop {
                    hints.next().await;
                    queue.watched.set(now() + WATCHED);
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
