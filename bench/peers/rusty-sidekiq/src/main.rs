//! rusty-sidekiq. See [`queue_contender`] for its commands.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use queue_contender::{About, Contender, Error, Jobs, now_us};
use sidekiq::{Processor, ProcessorConfig, RedisConnectionManager, RedisPool, Worker, WorkerOpts};

#[derive(Clone)]
struct Sidekiq(String, RedisPool);

impl Contender for Sidekiq {
    const ABOUT: About = About {
        versions: "rusty-sidekiq 0.15.2",
        settings: "num_workers = concurrency, a pool with a connection per worker",
        bulk: false,
        delays: true,
        most_jobs: None,
    };

    async fn connect(url: &str) -> Result<Self, Error> {
        Ok(Sidekiq(url.to_owned(), pool(url, 50).await?))
    }

    async fn enqueue(&self, payload: String, due_ms: Option<u64>) -> Result<(), Error> {
        match due_ms {
            None => Run::perform_async(&self.1, payload).await?,
            Some(ms) => Run::perform_in(&self.1, Duration::from_millis(ms.saturating_sub(now_us() / 1000)), payload).await?,
        }
        Ok(())
    }

    async fn work(&self, concurrency: usize, jobs: Arc<Jobs>) -> Result<(), Error> {
        // In addition to the workers, some of its own tasks use connections.
        let pool = pool(&self.0, u32::try_from(concurrency)? + 8).await?;
        let config = ProcessorConfig::default().num_workers(concurrency);
        let mut processor = Processor::new(pool, vec!["bench".to_owned()]).with_config(config);
        processor.register(Run(Some(jobs)));
        processor.run().await;
        Ok(())
    }
}

async fn pool(url: &str, connections: u32) -> Result<RedisPool, Error> {
    Ok(bb8::Pool::builder().max_size(connections).build(RedisConnectionManager::new(url)?).await?)
}

struct Run(Option<Arc<Jobs>>);

#[async_trait]
impl Worker<String> for Run {
    fn opts() -> WorkerOpts<String, Self> {
        WorkerOpts::new().queue("bench")
    }

    async fn perform(&self, payload: String) -> sidekiq::Result<()> {
        if let Some(jobs) = &self.0 {
            jobs.run(&payload).await;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() {
    queue_contender::main::<Sidekiq>().await
}
