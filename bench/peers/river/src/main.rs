//! River on SQLite and on PostgreSQL, depending on the URL. See [`queue_contender`] for its
//! commands.

use std::{future::pending, sync::Arc, time::Duration};

use queue_contender::{About, Contender, Error, Jobs};
use riverqueue::{
    BoxError, Client, InsertOpts, Job, JobArgs, QueueConfig, WorkContext, WorkOutcome, Workers,
    jiff::Timestamp,
    migrate::{PostgresMigrator, SqliteMigrator},
    sqlx::{
        postgres::{PgPool, PgPoolOptions},
        sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous},
    },
};
use serde::{Deserialize, Serialize};

/// Connections, as many as there are producers.
const CONNECTIONS: u32 = 50;
/// The minimum that it accepts.
const COOLDOWN: Duration = Duration::from_millis(1);
const POLL: Duration = Duration::from_millis(5);

#[derive(Clone, Debug, Deserialize, JobArgs, Serialize)]
#[river(kind = "carry")]
struct Carry {
    d: String,
}

#[derive(Clone)]
enum River {
    Postgres(PgPool, Client),
    Sqlite(SqlitePool, Client),
}

impl Contender for River {
    const ABOUT: About = About {
        versions: "riverqueue 0.5.0",
        settings: "fetch_cooldown(1 ms), a poll every 5 ms; on PostgreSQL 50 connections, on SQLite 10, WAL and synchronous=FULL",
        bulk: true,
        delays: true,
        most_jobs: None,
    };

    async fn connect(url: &str) -> Result<Self, Error> {
        if let Some(file) = url.strip_prefix("sqlite://") {
            let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
            let options =
                options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full).busy_timeout(Duration::from_secs(60));
            let pool = SqlitePoolOptions::new().connect_with(options).await?;
            SqliteMigrator::new(pool.clone()).migrate_up().await?;
            return Ok(River::Sqlite(pool.clone(), Client::builder(pool).fetch_cooldown(COOLDOWN).build()?));
        }
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(url).await?;
        PostgresMigrator::new(pool.clone()).migrate_up().await?;
        Ok(River::Postgres(pool.clone(), Client::builder(pool).fetch_cooldown(COOLDOWN).build()?))
    }

    async fn enqueue(&self, payload: String, due_ms: Option<u64>) -> Result<(), Error> {
        let opts = match due_ms {
            Some(ms) => InsertOpts::default().with_scheduled_at(Timestamp::from_millisecond(i64::try_from(ms)?)?),
            None => InsertOpts::default(),
        };
        self.client().insert(Carry { d: payload }).opts(opts).await?;
        Ok(())
    }

    async fn enqueue_all(&self, payloads: Vec<String>) -> Result<(), Error> {
        self.client().insert_many(payloads.into_iter().map(|d| Carry { d })).await?;
        Ok(())
    }

    async fn work(&self, concurrency: usize, jobs: Arc<Jobs>) -> Result<(), Error> {
        let mut workers = Workers::new();
        workers.add_fn(move |_: WorkContext, job: Job<Carry>| {
            let jobs = jobs.clone();
            async move {
                jobs.run(&job.args.d).await;
                Ok::<_, BoxError>(WorkOutcome::Complete)
            }
        })?;
        let queue = QueueConfig::new(concurrency).with_fetch_poll_interval(POLL);
        let builder = match self {
            River::Postgres(pool, _) => Client::builder(pool.clone()),
            River::Sqlite(pool, _) => Client::builder(pool.clone()),
        };
        let client = builder.fetch_cooldown(COOLDOWN).workers(workers).queue("default", queue).build()?;
        let _run = client.start()?;
        pending().await
    }
}

impl River {
    fn client(&self) -> &Client {
        let (River::Postgres(_, client) | River::Sqlite(_, client)) = self;
        client
    }
}

#[tokio::main]
async fn main() {
    queue_contender::main::<River>().await
}
