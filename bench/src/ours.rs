//! Our own queue among those that are compared, with its default settings, and with an outbox in
//! PostgreSQL.

use std::{
    future::pending,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use queue_contender::{About, Contender, Error, Jobs};
use queue_core::{Registry, prelude::*};
use queue_outbox::{
    Dialect, Outbox, Relay,
    postgres::{EnqueueAllIn, EnqueueIn},
};
use queue_tests::postgres::try_connect;
use queue_worker::Worker;

#[derive(Clone)]
pub(crate) struct Ours(Client);

/// Hands its text to what all contenders run.
#[task(queue = "bench")]
async fn carry(d: String, jobs: Data<Arc<Jobs>>) {
    jobs.run(&d).await;
}

fn job(payload: String, due_ms: Option<u64>) -> Job<carry> {
    match due_ms {
        Some(ms) => carry::job(payload).at(SystemTime::UNIX_EPOCH + Duration::from_millis(ms)),
        None => carry::job(payload),
    }
}

impl Contender for Ours {
    const ABOUT: About =
        About { versions: concat!("queue ", env!("CARGO_PKG_VERSION")), settings: "defaults", bulk: true, delays: true, most_jobs: None };

    async fn connect(url: &str) -> Result<Self, Error> {
        Ok(Ours(Client::connect(url).await?))
    }

    async fn enqueue(&self, payload: String, due_ms: Option<u64>) -> Result<(), Error> {
        self.0.enqueue(job(payload, due_ms)).await?;
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

/// An outbox in PostgreSQL, whose relay sends to the broker of `QUEUE_URL`. Each call is a
/// transaction of its own.
#[derive(Clone)]
pub(crate) struct Outboxed {
    queue: Client,
    url: String,
    outbox: Outbox,
    /// Connections that no producer uses.
    free: Arc<Mutex<Vec<tokio_postgres::Client>>>,
}

impl Outboxed {
    async fn client(&self) -> Result<tokio_postgres::Client, Error> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match free {
            Some(client) => Ok(client),
            None => Ok(try_connect(&self.url).await?),
        }
    }

    fn give_back(&self, client: tokio_postgres::Client) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(client);
    }
}

impl Contender for Outboxed {
    const ABOUT: About = About {
        versions: concat!("queue-outbox ", env!("CARGO_PKG_VERSION")),
        settings: "defaults; a connection for each producer, and a relay to Redis in the process of the worker",
        bulk: true,
        delays: true,
        most_jobs: None,
    };

    async fn connect(url: &str) -> Result<Self, Error> {
        let client = try_connect(url).await?;
        if client.query_one("SELECT to_regclass('queue_outbox') IS NULL", &[]).await?.get(0) {
            client.batch_execute(&Dialect::Postgres.migration("public")?).await?;
        }
        let outbox = Outbox::postgres(&client).await?;
        let queue = Client::connect(&std::env::var("QUEUE_URL")?).await?;
        Ok(Outboxed { queue, url: url.to_owned(), outbox, free: Arc::new(Mutex::new(vec![client])) })
    }

    async fn enqueue(&self, payload: String, due_ms: Option<u64>) -> Result<(), Error> {
        let mut client = self.client().await?;
        let tx = client.transaction().await?;
        job(payload, due_ms).enqueue_in(&self.outbox, &tx).await?;
        tx.commit().await?;
        self.outbox.notify(&client).await;
        self.give_back(client);
        Ok(())
    }

    async fn enqueue_all(&self, payloads: Vec<String>) -> Result<(), Error> {
        let mut client = self.client().await?;
        let tx = client.transaction().await?;
        payloads.into_iter().map(carry::job).enqueue_all_in(&self.outbox, &tx).await?;
        tx.commit().await?;
        self.outbox.notify(&client).await;
        self.give_back(client);
        Ok(())
    }

    async fn work(&self, concurrency: usize, jobs: Arc<Jobs>) -> Result<(), Error> {
        let worker = Worker::new(self.queue.clone()).registry(Registry::empty()).register::<carry>();
        let worker = worker.data(jobs).concurrency(concurrency).outbox(Relay::postgres(&self.url)?);
        Ok(worker.run(pending()).await.map(|_| ())?)
    }
}
