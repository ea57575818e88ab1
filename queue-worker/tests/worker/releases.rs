//! Two releases of an application at once: a job that one cannot read waits for the other.

use std::time::Duration;

use queue_core::{Client, JobState, Registry, prelude::*};
use queue_worker::Worker;

use crate::common::{memory, run, until_state};

/// The parameters of the old release.
mod v1 {
    use queue_core::prelude::*;

    #[task(name = "mail.send", queue = "mail", retention = "1h")]
    pub(crate) async fn send(to: String) -> Result<String, String> {
        Ok(format!("v1 to {to}"))
    }
}

/// In the new release, `to` is a structure.
mod v2 {
    use queue_core::prelude::*;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    pub(crate) struct Address {
        pub(crate) name: String,
    }

    #[task(name = "mail.send", queue = "mail", retention = "1h")]
    pub(crate) async fn send(to: Address) -> Result<String, String> {
        Ok(format!("v2 to {}", to.name))
    }
}

fn worker(client: &Client, release: &str) -> Worker {
    let mut registry = Registry::empty();
    if release == "v1" {
        registry.register::<v1::send>()
    } else {
        registry.register::<v2::send>()
    }
    Worker::new(client.clone()).registry(registry).queue("mail").release(release).lease(Duration::from_secs(3))
}

fn to(name: &str) -> v2::Address {
    v2::Address { name: name.to_owned() }
}

/// In both directions: a new release gets jobs of an old one, and an old release gets those of a
/// new one.
#[tokio::test]
async fn a_job_of_another_release_waits_for_it_whichever_takes_it_first() {
    let client = memory().await;
    let old = v1::send::job("Ada".to_owned()).enqueue(&client).await.unwrap();
    run(worker(&client, "v2"), until_state(&old, Some(JobState::Parked))).await;
    let new = v2::send::job(to("Bob")).enqueue(&client).await.unwrap();
    run(worker(&client, "v1"), async {
        until_state(&new, Some(JobState::Parked)).await;
        until_state(&old, Some(JobState::Done)).await;
    })
    .await;
    let record = client.inspector().show(new.address()).await.unwrap();
    let unreadable = record.unreadable.clone().unwrap();
    assert_eq!((unreadable.releases.as_slice(), record.failures), (&["v1".to_owned()][..], 0));
    assert!(unreadable.problem.starts_with("parameter `to`"), "{unreadable:?}");
    assert!(record.last_error().unwrap().starts_with("release v1 cannot read it: parameter `to`"), "{record:?}");

    run(worker(&client, "v2"), until_state(&new, Some(JobState::Done))).await;
    assert_eq!(old.result().await.unwrap(), JobResult::Done("v1 to Ada".to_owned()));
    assert_eq!(new.result().await.unwrap(), JobResult::Done("v2 to Bob".to_owned()));
}

/// While both releases run, no job is lost, and no release runs a job that it cannot read.
#[tokio::test]
async fn two_releases_side_by_side_run_what_each_can_read() {
    const JOBS: usize = 20;
    let client = memory().await;
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for n in 0..JOBS {
        old.push(v1::send::job(n.to_string()).enqueue(&client).await.unwrap());
        new.push(v2::send::job(to(&n.to_string())).enqueue(&client).await.unwrap());
    }
    let done = async {
        for (old, new) in old.iter().zip(&new) {
            until_state(old, Some(JobState::Done)).await;
            until_state(new, Some(JobState::Done)).await;
        }
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let other = tokio::spawn(worker(&client, "v1").run(async { drop(stopped.await) }));
    run(worker(&client, "v2"), done).await;
    drop(stop);
    other.await.unwrap().unwrap();
    for (n, (old, new)) in old.iter().zip(&new).enumerate() {
        assert_eq!(old.result().await.unwrap(), JobResult::Done(format!("v1 to {n}")));
        assert_eq!(new.result().await.unwrap(), JobResult::Done(format!("v2 to {n}")));
    }
}
