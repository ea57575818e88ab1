//! Our own queue among those that are compared, with its default settings.

use std::{
    future::pending,
    sync::Arc,
    time::{Duration, SystemTime},
};

use queue_contender::{About, Contender, Error, Jobs};
use queue_core::{prelude::*, registry::Registry};
use queue_worker::Worker;

#[derive(Clone)]
pub(crate) struct Ours(Client);

/// Hands its text to what all contenders run.
#[task(queue = "bench")]
async fn carry(d: String, jobs: Data<Arc<Jobs>>) {
    jobs.run(&d).await;
}

impl Contender for Ours {
    const ABOUT: About =
        About { versions: concat!("queue ", env!("CARGO_PKG_VERSION")), settings: "defaults", bulk: true, delays: true, most_jobs: None };

    async fn connect(url: &str) -> Result<Self, Error> {
        Ok(Ours(Client::connect(url).await?))
    }

    async fn enqueue(&self, payload: String, due_ms: Option<u64>) -> Result<(), Error> {
        let mut job = carry::job(payload);
        if let Some(ms) = due_ms {
            job = job.at(SystemTime::UNIX_EPOCH + Duration::from_millis(ms));
        }
        self.0.enqueue(job).await?;
        Ok(())
    }

    async fn enqueue_all(&self, payloads: Vec<String>) -> Result<(), Error> {
        self.0.enqueue_all(payloads.into_iter().map(carry::job)).await?;
        Ok(())
    }

    async fn work(&self, concurrency: usize, jobs: Arc<Jobs>) -> Result<(), Error> {
        let worker = Worker::new(self.0.clone()).registry(Registry::empty()).register::<carry>();
        Ok(worker.data(jobs).concurrency(concurrency).run(pending()).await.map(|_| ())?)
    }
}
