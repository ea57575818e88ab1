//! apalis on SQLite. See [`queue_contender`] for its commands.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, UNIX_EPOCH},
};

use apalis::prelude::*;
use apalis_sqlite::{Config, SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteStorage};
use queue_contender::{About, Contender, Error, Jobs};
use tokio::{runtime::Handle, time::Interval};

#[derive(Clone)]
struct Apalis(SqlitePool);

impl Contender for Apalis {
    const ABOUT: About = About {
        versions: "apalis 1.0.0, apalis-sqlite 1.0.0",
        settings: "its own set-up (WAL, synchronous=OFF), one connection, batch_size = concurrency, lock_tasks(false), parallelize(tokio::spawn), a poll every 5 ms",
        bulk: true,
        delays: true,
        most_jobs: None,
    };

    async fn connect(url: &str) -> Result<Self, Error> {
        let file = url.strip_prefix("sqlite://").ok_or("not a URL of SQLite")?;
        // Its pragmas apply only to the connection that executes them, so there is one connection.
        let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
        SqliteStorage::setup(&pool).await?;
        Ok(Apalis(pool))
    }

    async fn enqueue(&self, payload: String, due_ms: Option<u64>) -> Result<(), Error> {
        let mut storage = storage(&self.0, 10);
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
        Ok(storage(&self.0, 10).push_bulk(payloads).await?)
    }

    async fn work(&self, concurrency: usize, jobs: Arc<Jobs>) -> Result<(), Error> {
        let storage = storage(&self.0, concurrency);
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

fn storage(pool: &SqlitePool, batch: usize) -> SqliteStorage<String> {
    SqliteStorage::new(pool).with_config(Config::default().queue("bench").lock_tasks(false).batch_size(batch))
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
