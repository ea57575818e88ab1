//! The answers to probes: `/health` reports whether this process works, and `/ready` whether it
//! reaches its broker. A restart can repair a process, but not an unavailable broker, so an outage
//! does not change `/health`.

use std::{sync::atomic::Ordering, time::Instant};

use queue_core::__private::{Answer, DROPPED_LINES};
use serde::Serialize;

use crate::{engine::Shared, time::now, tuning::STALLED};

/// The body of both answers.
#[derive(Serialize)]
struct State<'a> {
    status: &'static str,
    /// Whether the worker's duties run: the answer to `/health`.
    live: bool,
    /// Whether it reaches its broker and takes jobs: the answer to `/ready`.
    ready: bool,
    /// Duties that panic again and again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failing: Vec<&'static str>,
    broker: String,
    queues: Vec<&'a str>,
    concurrency: usize,
    running: usize,
    stuck: usize,
    finished: u64,
    last_contact_ms: u128,
    /// Whether the broker refuses new jobs for lack of room. Those at hand are claimed and finished, so that the worker is well.
    full: bool,
    /// Whether a person has asked the worker to claim nothing.
    quiet: bool,
    /// What is wrong with the broker, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    /// Lines of the log that were lost.
    dropped_log_lines: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    used_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
}

/// `/health`: 503 if a restart may help.
pub(crate) fn live(shared: &Shared) -> Answer {
    let state = State::of(shared, now());
    answer(&state, state.live)
}

/// `/ready`: 503 while the worker takes no jobs.
pub(crate) fn ready(shared: &Shared) -> Answer {
    let state = State::of(shared, now());
    answer(&state, state.ready)
}

fn answer(state: &State<'_>, well: bool) -> Answer {
    let body = serde_json::to_string(state).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
    Answer::json(if well { "200 OK" } else { "503 Service Unavailable" }, body)
}

impl<'a> State<'a> {
    fn of(shared: &'a Shared, now: Instant) -> Self {
        let (reached, stopping) = (shared.reached.load(Ordering::Relaxed), shared.stopping.load(Ordering::Relaxed));
        let (condition, failing) = (shared.condition(), shared.restarts.failing(now));
        let stalled = reached && now > shared.pulse.until() + STALLED;
        let status = match () {
            () if stalled => "stalled",
            () if !failing.is_empty() => "failing",
            () if !reached => "waiting",
            () if condition.is_lost() => "lost",
            () if shared.is_isolated() => "isolated",
            () if stopping => "stopping",
            () => "ok",
        };
        State {
            status,
            live: !stalled && failing.is_empty(),
            ready: status == "ok",
            failing,
            broker: shared.broker.info().location,
            queues: shared.queues.iter().map(AsRef::as_ref).collect(),
            concurrency: shared.settings.concurrency,
            running: shared.running.load(Ordering::Relaxed),
            stuck: shared.stuck.load(Ordering::Relaxed),
            finished: shared.finished.load(Ordering::Relaxed),
            last_contact_ms: shared.contact.until().elapsed().as_millis(),
            full: condition.is_full(),
            quiet: shared.quiet.load(Ordering::Relaxed),
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
    use crate::config::Settings;

    /// The status, and whether it is live and ready.
    fn state(shared: &Shared, now: Instant) -> (&'static str, bool, bool) {
        let state = State::of(shared, now);
        (state.status, state.live, state.ready)
    }

    #[tokio::test]
    async fn a_process_is_live_unless_its_pump_stands_still_and_ready_while_it_takes_jobs() {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let shared = Shared::alone(&client, &["mail"], Settings::default());
        assert_eq!(state(&shared, now()), ("waiting", true, false), "a restart brings no broker");
        assert!(live(&shared).status.starts_with("200") && ready(&shared).status.starts_with("503"));
        shared.heard();
        shared.pulse.set(now());
        shared.reached.store(true, Ordering::Relaxed);
        assert_eq!(state(&shared, now()), ("ok", true, true));
        assert_eq!(state(&shared, now() + STALLED * 2), ("stalled", false, false));

        let (mut lost, mut full) = (Condition::default(), Condition::default());
        lost.trouble = Some(Trouble::Lost(String::new()));
        shared.note(lost);
        assert_eq!(state(&shared, now()), ("lost", true, false));
        full.trouble = Some(Trouble::Full(String::new()));
        shared.note(full);
        assert_eq!(state(&shared, now()), ("ok", true, true), "stored jobs can still be run");
        shared.stopping.store(true, Ordering::Relaxed);
        assert_eq!(state(&shared, now()), ("stopping", true, false), "it drains, and nobody should cut that short");
    }

    #[tokio::test]
    async fn a_duty_that_panics_again_and_again_makes_a_process_unwell() {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let shared = Shared::alone(&client, &["mail"], Settings::default());
        let began = now();
        for _ in 0..9 {
            shared.restarts.panicked("janitor", began);
        }
        assert_eq!(state(&shared, began), ("failing", false, false));
        assert!(live(&shared).status.starts_with("503") && live(&shared).body.contains(r#""failing":["janitor"]"#));
        // It runs since.
        let later = began + Duration::from_secs(600);
        assert_eq!(state(&shared, later), ("waiting", true, false));
        shared.restarts.panicked("janitor", later);
        assert_eq!(state(&shared, later), ("waiting", true, false), "one panic is no row");
    }
}
