//! RPOPLPUSH to a list of what is being processed, and a monitor that gives back what stays there
//! too long.
//!
//! The monitor walks the list without popping from it, as a monitor that dies must not take a
//! message along. Between its look and its move the worker may finish: then its LREM removes
//! nothing, and it takes the message out of both lists again, which still races when the queue is
//! nearly empty. There must be one monitor: the worker that holds a lock.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;
use queue_contender::{About, Contender, Error, Jobs};
use redis::{AsyncCommands, aio::MultiplexedConnection};
use tokio::sync::Mutex;

use super::{CHUNK, Message, VISIBILITY, connect, id};

const QUEUE: &str = "message_queue";
const PROCESSING: &str = "processing_list";
const LOCK: &str = "monitor";

#[derive(Clone)]
pub(super) struct RpopLpush {
    url: String,
    connection: MultiplexedConnection,
}

impl Contender for RpopLpush {
    const ABOUT: About = About {
        versions: "design b",
        settings: "BRPOPLPUSH when idle, monitor every second, timeout 30 s",
        bulk: true,
        delays: false,
        most_jobs: None,
    };

    async fn connect(url: &str) -> Result<Self, Error> {
        Ok(RpopLpush { url: url.to_owned(), connection: connect(url).await? })
    }

    async fn enqueue(&self, payload: String, _: Option<u64>) -> Result<(), Error> {
        Ok(self.connection.clone().lpush(QUEUE, Message::encode(payload)?).await?)
    }

    async fn enqueue_all(&self, payloads: Vec<String>) -> Result<(), Error> {
        let mut pipeline = redis::pipe();
        for chunk in payloads.chunks(CHUNK) {
            let messages: Vec<String> = chunk.iter().cloned().map(Message::encode).collect::<Result<_, _>>()?;
            pipeline.lpush(QUEUE, messages).ignore();
        }
        Ok(pipeline.query_async(&mut self.connection.clone()).await?)
    }

    async fn work(&self, concurrency: usize, jobs: Arc<Jobs>) -> Result<(), Error> {
        let blocking = Arc::new(Mutex::new(connect(&self.url).await?));
        tokio::spawn(monitor(self.connection.clone()));
        let consumers = (0..concurrency).map(|_| tokio::spawn(consume(self.connection.clone(), blocking.clone(), jobs.clone())));
        for ended in try_join_all(consumers).await? {
            ended?;
        }
        Ok(())
    }
}

async fn consume(mut connection: MultiplexedConnection, blocking: Arc<Mutex<MultiplexedConnection>>, jobs: Arc<Jobs>) -> Result<(), Error> {
    loop {
        let mut message: Option<String> = connection.rpoplpush(QUEUE, PROCESSING).await?;
        if message.is_none() {
            // One consumer at a time waits for the next message; the others wait for its place.
            message = blocking.lock().await.brpoplpush(QUEUE, PROCESSING, 1.0).await?;
        }
        let Some(message) = message else { continue };
        jobs.run(&serde_json::from_str::<Message>(&message)?.body).await;
        // From the tail: what was taken first ends first, by and large.
        connection.lrem::<_, _, ()>(PROCESSING, -1, message).await?;
    }
}

async fn monitor(mut connection: MultiplexedConnection) -> Result<(), Error> {
    let (me, mut seen) = (id(), HashMap::new());
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        if !holds_lock(&mut connection, &me).await? {
            seen.clear();
            continue;
        }
        let tail: Vec<String> = connection.lrange(PROCESSING, -1_000, -1).await?;
        let now = Instant::now();
        seen = tail.into_iter().map(|message| (seen.get(&message).copied().unwrap_or(now), message)).map(|(at, m)| (m, at)).collect();
        for (message, since) in &seen {
            if now - *since > VISIBILITY {
                put_back(&mut connection, message).await?;
            }
        }
    }
}

async fn holds_lock(connection: &mut MultiplexedConnection, me: &str) -> Result<bool, Error> {
    redis::cmd("SET").arg(LOCK).arg(me).arg("NX").exec_async(connection).await?;
    let holder: Option<String> = connection.get(LOCK).await?;
    if holder.as_deref() == Some(me) {
        connection.pexpire::<_, ()>(LOCK, 3_000).await?;
        return Ok(true);
    }
    Ok(false)
}

async fn put_back(connection: &mut MultiplexedConnection, message: &str) -> Result<(), Error> {
    let mut transaction = redis::pipe();
    transaction.atomic().lrem(PROCESSING, -1, message).lpush(QUEUE, message).ignore();
    let (removed,): (usize,) = transaction.query_async(connection).await?;
    if removed != 1 {
        let mut undo = redis::pipe();
        undo.atomic().lrem(QUEUE, 1, message).ignore().lrem(PROCESSING, 1, message).ignore();
        undo.query_async::<()>(connection).await?;
    }
    Ok(())
}
