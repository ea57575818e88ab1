//! effectum. See [`queue_contender`] for its commands.

use std::{
    fmt,
    path::Path,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use effectum::{Job, JobRunner, Queue, RunningJob, Worker};
use queue_contender::{About, Contender, Error, Jobs};

#[derive(Clone)]
struct Effectum(Arc<Queue>);

/// The context that its workers pass to the handler must be `Debug`.
#[derive(Clone)]
struct Context(Arc<Jobs>);

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Context")
    }
}

impl Contender for Effectum {
    const ABOUT: About = About {
        versions: "effectum 0.7.0",
        settings: "its own set-up (synchronous=NORMAL), max_concurrency = concurrency, min_concurrency = half of it",
        bulk: true,
        delays: true,
        most_jobs: None,
    };

    async fn connect(url: &str) -> Result<Self, Error> {
        let file = url.strip_prefix("sqlite://").ok_or("not a URL of SQLite")?;
        Ok(Effectum(Arc::new(Queue::new(Path::new(file)).await?)))
    }

    async fn enqueue(&self, payload: String, due_ms: Option<u64>) -> Result<(), Error> {
        let mut job = Job::builder("job").payload(payload.into_bytes());
        if let Some(ms) = due_ms {
            job = job.run_at((UNIX_EPOCH + Duration::from_millis(ms)).into());
        }
        job.add_to(&self.0).await?;
        Ok(())
    }

    async fn enqueue_all(&self, payloads: Vec<String>) -> Result<(), Error> {
        let jobs = payloads.into_iter().map(|payload| Job::builder("job").payload(payload.into_bytes()).build());
        self.0.add_jobs(jobs.collect()).await?;
        Ok(())
    }

    async fn work(&self, concurrency: usize, jobs: Arc<Jobs>) -> Result<(), Error> {
        let runner = JobRunner::builder("job", run).build();
        let most = u16::try_from(concurrency)?;
        let worker = Worker::builder(&self.0, Context(jobs)).max_concurrency(most).min_concurrency(most / 2).jobs([runner]);
        let _worker = worker.build().await?;
        std::future::pending().await
    }
}

async fn run(job: RunningJob, context: Context) -> Result<(), Error> {
    context.0.run(std::str::from_utf8(&job.payload)?).await;
    Ok(())
}

#[tokio::main]
async fn main() {
    queue_contender::main::<Effectum>().await
}
