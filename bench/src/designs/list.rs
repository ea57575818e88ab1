//! A list with an acknowledging pop: two scripts.
//!
//! A pop also returns at most one message whose time is over to the list. A late acknowledgement
//! removes the entry of the next holder, redeliveries are not counted, and workers are not notified
//! of new messages.

use std::sync::{Arc, LazyLock};

use futures_util::future::try_join_all;
use queue_contender::{About, Contender, Error, Jobs, now_us};
use redis::{AsyncCommands, Script, aio::MultiplexedConnection};

use super::{CHUNK, IDLE, Message, VISIBILITY, connect};

const QUEUE: &str = "design";
const BACKUP: &str = "designBACKUP";
const CONTEXT: &str = "designCONTEXT";

static POP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("list_pop.lua")));
static ACK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("list_ack.lua")));

#[derive(Clone)]
pub(super) struct List(MultiplexedConnection);

impl Contender for List {
    const ABOUT: About =
        About { versions: "design a", settings: "a poll every 10 ms when idle, timeout 30 s", bulk: true, delays: false, most_jobs: None };

    async fn connect(url: &str) -> Result<Self, Error> {
        Ok(List(connect(url).await?))
    }

    async fn enqueue(&self, payload: String, _: Option<u64>) -> Result<(), Error> {
        Ok(self.0.clone().lpush(QUEUE, Message::encode(payload)?).await?)
    }

    async fn enqueue_all(&self, payloads: Vec<String>) -> Result<(), Error> {
        let mut pipeline = redis::pipe();
        for chunk in payloads.chunks(CHUNK) {
            let messages: Vec<String> = chunk.iter().cloned().map(Message::encode).collect::<Result<_, _>>()?;
            pipeline.lpush(QUEUE, messages).ignore();
        }
        Ok(pipeline.query_async(&mut self.0.clone()).await?)
    }

    async fn work(&self, concurrency: usize, jobs: Arc<Jobs>) -> Result<(), Error> {
        let consumers = (0..concurrency).map(|_| tokio::spawn(consume(self.0.clone(), jobs.clone())));
        for ended in try_join_all(consumers).await? {
            ended?;
        }
        Ok(())
    }
}

async fn consume(mut connection: MultiplexedConnection, jobs: Arc<Jobs>) -> Result<(), Error> {
    loop {
        let mut pop = POP.key(QUEUE);
        pop.key(BACKUP).key(CONTEXT).arg(now_us() / 1000).arg(VISIBILITY.as_millis() as u64);
        let message: Option<String> = pop.invoke_async(&mut connection).await?;
        let Some(message) = message else {
            tokio::time::sleep(IDLE).await;
            continue;
        };
        let message: Message = serde_json::from_str(&message)?;
        jobs.run(&message.body).await;
        ACK.key(BACKUP).key(CONTEXT).arg(message.id).invoke_async::<()>(&mut connection).await?;
    }
}
