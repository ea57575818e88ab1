//! The answers to probes: `/health` reports whether this process works, and `/ready` whether it
//! reaches its broker. A restart can repair a process, but not an unavailable broker, so an outage
//! does not change `/health`.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use queue_core::__private::{Answer, DROPPED_LINES};
use serde::Serialize;

use super::super::Restarts;
use crate::{connection::Connection, queues::Queues, status::Status, time::now, tuning::STALLED};

/// The parts of the worker on which the answers depend.
pub(crate) struct Health {
    pub(crate) connection: Arc<Connection>,
    pub(crate) queues: Queues,
    pub(crate) status: Arc<Status>,
    pub(crate) restarts: Arc<Restarts>,
    pub(crate) concurrency: usize,
}

/// The body of both answers.
#[derive(Serialize)]
struct State<'a> {
    status: &'static str,
    /// Whether the worker's duties run: the answer to `/health`.
    live: bool,
    /// Whether it reaches its broker and takes jobs: the answer to `/ready`.
    ready: bool,
    /// Duties that panic repeatedly.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failing: Vec<&'static str>,
    broker: String,
    queues: Vec<&'a str>,
    concurrency: usize,
    running: usize,
    stuck: usize,
    finished: u64,
    last_contact_ms: u128,
    /// Whether the broker refuses new jobs for lack of room. The worker is healthy: it still claims
    /// and finishes stored jobs.
    full: bool,
    /// Whether an operator has asked the worker to claim no jobs.
    quiet: bool,
    /// The message of the broker's trouble.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    /// The number of log lines that were lost.
    dropped_log_lines: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    used_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
}

impl Health {
    /// `/health`: 503 if a restart may help.
    pub(super) fn liveness(&self) -> Answer {
        let state = State::of(self, now());
        answer(&state, state.live)
    }

    /// `/ready`: 503 while the worker takes no jobs.
    pub(super) fn ready(&self) -> Answer {
        let state = State::of(self, now());
        answer(&state, state.ready)
    }
}

fn answer(state: &State<'_>, well: bool) -> Answer {
    let body = serde_json::to_string(state).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
    Answer::json(if well { "200 OK" } else { "503 Service Unavailable" }, body)
}

impl<'a> State<'a> {
    fn of(health: &'a Health, now: Instant) -> Self {
        let Health { connection, queues, status: worker, restarts, concurrency } = health;
        let (reached, stopping) = (worker.reached.load(Ordering::Relaxed), worker.stopping.load(Ordering::Relaxed));
        let (condition, failing) = (connection.condition(), restarts.failing(now));
        let stalled = reached && now > worker.pulse.until() + STALLED;
        let status = match () {
            () if stalled => "stalled",
            () if !failing.is_empty() => "failing",
            () if !reached => "waiting",
            () if condition.is_lost() => "lost",
            () if connection.is_isolated() => "isolated",
            () if stopping => "stopping",
            () => "ok",
        };
        State {
            status,
            live: !stalled && failing.is_empty(),
            ready: status == "ok",
            failing,
            broker: connection.broker.info().location,
            queues: queues.iter().map(|queue| &*queue.name).collect(),
            concurrency: *concurrency,
            running: worker.running.load(Ordering::Relaxed),
            stuck: worker.stuck.load(Ordering::Relaxed),
            finished: worker.finished.load(Ordering::Relaxed),
            last_contact_ms: connection.last_answer().elapsed().as_millis(),
            full: condition.is_full(),
            quiet: worker.quiet.load(Ordering::Relaxed),
            trouble: condition.trouble.as_ref().map(ToString::to_string),
            dropped_log_lines: DROPPED_LINES.load(Ordering::Relaxed),
            used_bytes: condition.used,
            limit_bytes: condition.limit,
            free_bytes: condition.free,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use queue_core::{
        Client,
        broker::{Condition, Trouble},
    };

    use super::*;
    use crate::queues::queues;

    async fn health() -> Health {
        let broker = Client::connect("sqlite://:memory:").await.unwrap().broker().clone();
        let connection = Connection::new(broker, Duration::from_secs(5));
        Health { connection, queues: queues(["mail"]), status: Arc::default(), restarts: Arc::default(), concurrency: 64 }
    }

    /// The status, and the fields `live` and `ready`.
    fn state(health: &Health, now: Instant) -> (&'static str, bool, bool) {
        let state = State::of(health, now);
        (state.status, state.live, state.ready)
    }

    #[tokio::test]
    async fn a_process_is_live_unless_its_pump_stands_still_and_ready_while_it_takes_jobs() {
        let health = health().await;
        assert_eq!(state(&health, now()), ("waiting", true, false), "a restart brings no broker");
        assert!(health.liveness().status.starts_with("200") && health.ready().status.starts_with("503"));
        health.connection.answered();
        health.status.pulse.set(now());
        health.status.reached.store(true, Ordering::Relaxed);
        assert_eq!(state(&health, now()), ("ok", true, true));
        assert_eq!(state(&health, now() + STALLED * 2), ("stalled", false, false));

        let (mut lost, mut full) = (Condition::default(), Condition::default());
        lost.trouble = Some(Trouble::Lost(String::new()));
        health.connection.set_condition(lost);
        assert_eq!(state(&health, now()), ("lost", true, false));
        full.trouble = Some(Trouble::Full(String::new()));
        health.connection.set_condition(full);
        assert_eq!(state(&health, now()), ("ok", true, true), "stored jobs can still be run");
        health.status.stopping.store(true, Ordering::Relaxed);
        assert_eq!(state(&health, now()), ("stopping", true, false), "it drains, and nobody should cut that short");
    }

    #[tokio::test]
    async fn a_duty_that_panics_again_and_again_makes_a_process_unwell() {
        let health = health().await;
        let began = now();
        for _ in 0..9 {
            health.restarts.panicked("janitor", began);
        }
        assert_eq!(state(&health, began), ("failing", false, false));
        assert!(health.liveness().status.starts_with("503") && health.liveness().body.contains(r#""failing":["janitor"]"#));
        // The duty has run without a panic since then.
        let later = began + Duration::from_secs(600);
        assert_eq!(state(&health, later), ("waiting", true, false));
        health.restarts.panicked("janitor", later);
        assert_eq!(state(&health, later), ("waiting", true, false), "one panic is no row");
    }
}
