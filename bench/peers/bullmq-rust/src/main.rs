//! BullMQ's Rust port. See [`queue_contender`] for its commands.

use std::{sync::Arc, time::Duration};

use bullmq::{
    BulkJob, Job, Queue, QueueOptions, Worker, WorkerOptions, options::RedisConnectionOptions, types::RemoveOnFinish,
    worker::CancellationToken,
};
use queue_contender::{About, Contender, Error, Jobs, now_us};
use serde_json::Value;

#[derive(Clone)]
struct BullMq {
    url: String,
    queue: Queue,
}

impl Contender for BullMq {
    const ABOUT: About = About {
        versions: "bullmq-official 1.4.4",
        settings: "remove_on_complete(true), skip_version_check",
        bulk: true,
        delays: true,
        most_jobs: None,
    };

    async fn connect(url: &str) -> Result<Self, Error> {
        let options = QueueOptions { connection: RedisConnectionOptions::new().url(url), ..QueueOptions::default() };
        Ok(BullMq { url: url.to_owned(), queue: Queue::with_options("bench", options).await? })
    }

    async fn enqueue(&self, payload: String, due_ms: Option<u64>) -> Result<(), Error> {
        let adding = self.queue.add("job", payload);
        match due_ms {
            None => adding.await?,
            Some(ms) => adding.delay(Duration::from_millis(ms.saturating_sub(now_us() / 1000))).await?,
        };
        Ok(())
    }

    async fn enqueue_all(&self, payloads: Vec<String>) -> Result<(), Error> {
        self.queue.add_bulk(payloads.into_iter().map(|payload| BulkJob::new("job", payload)).collect()).await?;
        Ok(())
    }

    async fn work(&self, concurrency: usize, jobs: Arc<Jobs>) -> Result<(), Error> {
        let options = WorkerOptions {
            connection: RedisConnectionOptions::new().url(&self.url),
            concurrency,
            remove_on_complete: Some(RemoveOnFinish::Bool(true)),
            skip_version_check: true,
            ..WorkerOptions::default()
        };
        let processor = move |job: Job, _: CancellationToken| {
            let jobs = jobs.clone();
            async move {
                if let Value::String(payload) = job.data() {
                    jobs.run(payload).await;
                }
                Ok(Value::Null)
            }
        };
        let _worker = Worker::with_options("bench", processor, options).await?;
        std::future::pending().await
    }
}

#[tokio::main]
async fn main() {
    queue_contender::main::<BullMq>().await
}
