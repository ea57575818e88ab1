//! apalis on Redis. See [`queue_contender`] for its commands.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, UNIX_EPOCH},
};

use apalis::prelude::*;
use apalis_redis::{Config, RedisStorage};
use queue_contender::{About, Contender, Error, Jobs};
use tokio::{runtime::Handle, time::Interval};

#[derive(Clone)]
struct Apalis(RedisStorage<String>);

impl Contender for Apalis {
    const ABOUT: About = About {
        versions: "apalis 1.0.0, apalis-redis 1.0.0",
        settings: "batch_size = concurrency, lock_tasks(false), emit_events(false), parallelize(tokio::spawn), a poll every 5 ms",
        bulk: true,
        delays: true,
        most_jobs: Some(5_000),
    };

    async fn connect(url: &str) -> Result<Self, Error> {
        Ok(Apalis(RedisStorage::new(apalis_redis::connect(url).await?).with_config(config())))
    }

    async fn enqueue(&self, payload: String, due_ms: Option<u64>) -> Result<(), Error> {
        let mut storage = self.0.clone();
        match due_ms {
            None => storage.push(payload).await?,
            Some(ms) => {
                let task = TaskBuilder::new(payload).run_at_time(UNIX_EPOCH + Duration::from_millis(ms));
                storage.push_task(task.build()).await?;
            }
        }
        Ok(())
    }

    async fn enqueue_all(&self, payloads: Vec<String>) -> Result<(), Error> {
        // One script stores all of them. It can take about 1,000 at most because of Lua's stack.
        for chunk in payloads.chunks(500) {
            self.0.clone().push_bulk(chunk.to_vec()).await?;
        }
        Ok(())
    }

    async fn work(&self, concurrency: usize, jobs: Arc<Jobs>) -> Result<(), Error> {
        let storage = self.0.clone().with_config(config().batch_size(concurrency));
        // A separate thread polls the worker, because the compiler cannot prove that its future is
        // `Send`.
        let (runtime, interval) = (Handle::current(), tokio::time::interval(Duration::from_millis(5)));
        tokio::task::spawn_blocking(move || {
            let worker = WorkerBuilder::new(format!("bench-{}", std::process::id()))
                .backend(storage.poll_with_strategy(Ticks(interval)))
                .concurrency(concurrency)
                .data(jobs)
                .parallelize(tokio::spawn)
                .build(run);
            runtime.block_on(worker.run()).map_err(|error| error.to_string())
        })
        .await??;
        Ok(())
    }
}

fn config() -> Config {
    Config::default().queue("bench").lock_tasks(false).emit_events(false)
}

/// Polls every few milliseconds. The built-in strategy for that can miss its own timer, and then
/// sleeps.
struct Ticks(Interval);

impl PollStrategy for Ticks {
    fn poll_drive(&mut self, cx: &mut Context<'_>, _: &PollSnapshot) -> Poll<Option<()>> {
        while self.0.poll_tick(cx).is_ready() {}
        Poll::Ready(Some(()))
    }
}

async fn run(payload: String, jobs: Data<Arc<Jobs>>) -> Result<(), BoxDynError> {
    jobs.run(&payload).await;
    Ok(())
}

#[tokio::main]
async fn main() {
    queue_contender::main::<Apalis>().await
}
