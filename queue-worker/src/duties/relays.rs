//! The relays of the worker's outboxes. They call code of the application, for example to connect,
//! so they run on its runtime.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use queue_core::{__private::panic_text, Client};
use queue_outbox::Relay;
use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::Restarts;
use crate::{time::now, tuning::RESTART};

const NAME: &str = "relay";

/// How long a worker waits for its relays at its end.
const PATIENCE: Duration = Duration::from_secs(3);

/// The relays end when this is dropped, even if the worker is dropped.
pub(crate) struct Relays(JoinSet<()>);

impl Relays {
    /// Runs the relays until the worker ends. A relay that panics is restarted.
    pub(crate) fn start(
        client: &Client,
        home: Option<&Arc<str>>,
        relays: Vec<Relay>,
        restarts: &Arc<Restarts>,
        over: &CancellationToken,
    ) -> Self {
        let mut running = JoinSet::new();
        for relay in relays {
            let relay = match home {
                Some(home) => relay.reporting_in(home.clone()),
                None => relay,
            };
            let (client, restarts, over) = (client.clone(), restarts.clone(), over.clone());
            running.spawn(async move {
                while let Err(panic) = AssertUnwindSafe(relay.run(&client, over.cancelled())).catch_unwind().await {
                    restarts.panicked(NAME, now());
                    let error = panic_text(panic);
                    tracing::error!(duty = NAME, error, "the relay of an outbox panicked and is started again");
                    if over.run_until_cancelled(tokio::time::sleep(RESTART)).await.is_none() {
                        break;
                    }
                }
            });
        }
        Relays(running)
    }

    /// Waits for the relays at the end of the worker. The next relay sends the remaining rows.
    pub(crate) async fn end(mut self) {
        let ended = timeout(PATIENCE, async { while self.0.join_next().await.is_some() {} });
        if ended.await.is_err() {
            tracing::warn!("a relay of an outbox has not ended in time; its lease expires, and another relay goes on");
        }
    }
}
