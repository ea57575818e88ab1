//! Handlers and errors that cause harm affect only their own job.

use std::{fmt, panic, sync::Arc};

use crate::common::{Probe, address_in, memory, run, until_state, worker};
use queue_core::{broker::JobState, prelude::*};
use tokio::runtime::Handle as Runtime;

/// There are as many of these handlers at once as the runtime has blocking threads. Each handler
/// needs one of these threads for its file.
#[task(queue = "files", blocking, retention = "1h")]
fn reads_a_file(probe: Data<Probe>) -> Result<(), std::io::Error> {
    probe.note("began");
    probe.gate.block();
    Runtime::current().block_on(tokio::fs::read("Cargo.toml")).map(drop)
}

#[test]
fn blocking_handlers_take_no_threads_from_what_they_wait_for() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).max_blocking_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, probe) = (memory().await, Arc::new(Probe::default()));
        let mut jobs = Vec::new();
        for _ in 0..4 {
            jobs.push(reads_a_file::job().enqueue(&client).await.unwrap());
        }
        run(worker(&client, &probe), async {
            probe.noted("began", 4).await;
            probe.gate.open();
            for job in &jobs {
                until_state(job, Some(JobState::Done)).await;
            }
        })
        .await;
    });
}

/// Panics when it is dropped, with another value of the type.
#[derive(Debug)]
struct Mine(u32);

impl Drop for Mine {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic::panic_any(Mine(self.0 - 1));
        }
    }
}

impl fmt::Display for Mine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mine")
    }
}

impl std::error::Error for Mine {
    /// Its source is the error itself.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self)
    }
}

#[task(queue = "mines", max_attempts = 2)]
async fn fails_with_a_mine() -> Result<(), Mine> {
    Err(Mine(2))
}

#[task(queue = "mines", max_attempts = 2)]
async fn panics_with_a_mine() {
    panic::panic_any(Mine(2));
}

#[task(queue = "mines", max_attempts = 2, blocking)]
fn panics_with_a_mine_on_a_thread() {
    panic::panic_any(Mine(2));
}

#[tokio::test]
async fn errors_and_panics_that_panic_when_they_are_dropped_count_as_failures() {
    let client = memory().await;
    let jobs = [
        fails_with_a_mine::job().enqueue(&client).await.unwrap().address().clone(),
        panics_with_a_mine::job().enqueue(&client).await.unwrap().address().clone(),
        panics_with_a_mine_on_a_thread::job().enqueue(&client).await.unwrap().address().clone(),
    ];
    run(worker(&client, &Arc::default()), async {
        for job in &jobs {
            address_in(&client, job, JobState::Dead).await;
        }
    })
    .await;
    let errors = ["a mine", "panicked: without a message", "panicked: without a message"];
    for (job, error) in jobs.iter().zip(errors) {
        let record = client.inspector().show(job).await.unwrap();
        let messages: Vec<&str> = record.errors.iter().map(|failure| failure.message.as_str()).collect();
        assert!(messages.len() == 2 && messages.iter().all(|message| message.starts_with(error)), "{record:?}");
        assert_eq!(messages[0].contains(&format!(" ({}:", file!())), error != "a mine", "a panic has its place, on a thread too");
    }
}
