//! A delay queue that every consumer polls once a second.
//!
//! Every step is atomic, and any order of steps leaves the queue correct. Any number of consumers
//! can therefore run them without locks. An enqueue is three calls, which are not atomic together.
//! A message is lost when its TTL expires, even while it waits, or when its retries are used up.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures_util::future::try_join_all;
use queue_contender::{About, Contender, Error, Jobs, now_us};
use redis::{AsyncCommands, Pipeline, Script, aio::MultiplexedConnection};

use super::{CHUNK, VISIBILITY, connect, id};

const PENDING: &str = "{design}:pending";
const READY: &str = "{design}:ready";
const UNACK: &str = "{design}:unack";
const RETRY: &str = "{design}:retry";
const RETRY_COUNT: &str = "{design}:retry_count";
const GARBAGE: &str = "{design}:garbage";

const RETRIES: u32 = 25;
const TTL: Duration = Duration::from_secs(24 * 3600);
const TICK: Duration = Duration::from_secs(1);

static PENDING_TO_READY: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("delay_queue_pending_to_ready.lua")));
static TO_UNACK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("delay_queue_to_unack.lua")));
static UNACK_TO_RETRY: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("delay_queue_unack_to_retry.lua")));

#[derive(Clone)]
pub(super) struct DelayQueue(MultiplexedConnection);

impl Contender for DelayQueue {
    const ABOUT: About = About {
        versions: "design c",
        settings: "looks once a second, no fetch limit, maximum run time 30 s",
        bulk: true,
        delays: true,
        most_jobs: None,
    };

    async fn connect(url: &str) -> Result<Self, Error> {
        Ok(DelayQueue(connect(url).await?))
    }

    async fn enqueue(&self, payload: String, due_ms: Option<u64>) -> Result<(), Error> {
        let mut calls = redis::pipe();
        three_calls(&mut calls, &payload, due_ms.unwrap_or_else(now_ms));
        Ok(calls.query_async(&mut self.0.clone()).await?)
    }

    async fn enqueue_all(&self, payloads: Vec<String>) -> Result<(), Error> {
        for chunk in payloads.chunks(CHUNK) {
            let mut calls = redis::pipe();
            for payload in chunk {
                three_calls(&mut calls, payload, now_ms());
            }
            calls.query_async::<()>(&mut self.0.clone()).await?;
        }
        Ok(())
    }

    async fn work(&self, concurrency: usize, jobs: Arc<Jobs>) -> Result<(), Error> {
        let mut connection = self.0.clone();
        let mut ticks = tokio::time::interval(TICK);
        loop {
            ticks.tick().await;
            PENDING_TO_READY.key(PENDING).key(READY).arg(now_ms()).invoke_async::<()>(&mut connection).await?;
            self.handle_all(READY, concurrency, &jobs).await?;
            let mut expired = UNACK_TO_RETRY.key(UNACK);
            expired.key(RETRY_COUNT).key(RETRY).key(GARBAGE).arg(now_ms());
            expired.invoke_async::<()>(&mut connection).await?;
            self.collect_garbage().await?;
            self.handle_all(RETRY, concurrency, &jobs).await?;
        }
    }
}

impl DelayQueue {
    /// Handles one message after the other, in as many tasks as jobs may run at once, until there
    /// are none.
    async fn handle_all(&self, list: &'static str, concurrency: usize, jobs: &Arc<Jobs>) -> Result<(), Error> {
        let consumers = (0..concurrency).map(|_| tokio::spawn(handle(self.0.clone(), list, jobs.clone())));
        for ended in try_join_all(consumers).await? {
            ended?;
        }
        Ok(())
    }

    /// Deletes messages without retries.
    async fn collect_garbage(&self) -> Result<(), Error> {
        let mut connection = self.0.clone();
        let ids: Vec<String> = connection.smembers(GARBAGE).await?;
        if !ids.is_empty() {
            connection.del::<_, ()>(ids.iter().map(|id| message_key(id)).collect::<Vec<_>>()).await?;
            connection.srem::<_, _, ()>(GARBAGE, ids).await?;
        }
        Ok(())
    }
}

fn now_ms() -> u64 {
    now_us() / 1000
}

fn message_key(id: &str) -> String {
    format!("{{design}}:msg:{id}")
}

/// Stores a message, its retries and its time. Not atomic, but sent together.
fn three_calls(calls: &mut Pipeline, payload: &str, due_ms: u64) {
    let (id, ttl_s) = (id(), TTL.as_secs() + due_ms.saturating_sub(now_ms()) / 1000);
    calls.set_ex(message_key(&id), payload, ttl_s).ignore();
    calls.hset(RETRY_COUNT, &id, RETRIES).ignore();
    calls.zadd(PENDING, &id, due_ms).ignore();
}

async fn handle(mut connection: MultiplexedConnection, list: &str, jobs: Arc<Jobs>) -> Result<(), Error> {
    loop {
        let retry_at_ms = now_ms() + VISIBILITY.as_millis() as u64;
        let id: Option<String> = TO_UNACK.key(list).key(UNACK).arg(retry_at_ms).invoke_async(&mut connection).await?;
        let Some(id) = id else { return Ok(()) };
        let key = message_key(&id);
        let payload: Option<String> = connection.get(&key).await?;
        // A message whose TTL has expired counts as handled.
        if let Some(payload) = payload {
            jobs.run(&payload).await;
        }
        let mut ack = redis::pipe();
        ack.zrem(UNACK, &id).ignore().del(&key).ignore().hdel(RETRY_COUNT, &id).ignore();
        ack.query_async::<()>(&mut connection).await?;
    }
}
