//! A stream with a consumer group.
//!
//! What was read and not acknowledged in time is found page by page and claimed; of several that
//! claim it one wins. A cleaner trims what was there at its last visit, handled or not. There are
//! no retry counts, no delays and no dead letters.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use queue_contender::{About, Contender, Error, Jobs};
use redis::{Script, aio::MultiplexedConnection};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{CHUNK, IDLE, VISIBILITY, connect};

const STREAM: &str = "{design}:stream";
const CLEANED: &str = "{design}:cleaned";
const GROUP: &str = "workers";
/// Unacknowledged entries that are asked for at once.
const PAGE: usize = 100;
/// Between two looks for entries of the dead.
const TAKE_OVER: Duration = Duration::from_secs(1);
/// Between two visits of the cleaner: longer than entries wait, or they are lost.
const CLEAN: Duration = Duration::from_secs(600);

static CLEANER: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("streams_clean.lua")));

/// An id and its fields; none when the entry was trimmed.
type Entry = (String, Option<Vec<String>>);

#[derive(Clone)]
pub(crate) struct Streams(MultiplexedConnection);

impl Contender for Streams {
    const ABOUT: About = About {
        versions: "design d",
        settings: "reads as many as are free, a poll every 10 ms when idle, takeover after 30 s, cleaned every ten minutes",
        bulk: true,
        delays: false,
        most_jobs: None,
    };

    async fn connect(url: &str) -> Result<Self, Error> {
        Ok(Streams(connect(url).await?))
    }

    async fn enqueue(&self, payload: String, _: Option<u64>) -> Result<(), Error> {
        Ok(redis::cmd("XADD").arg(STREAM).arg("*").arg("body").arg(payload).exec_async(&mut self.0.clone()).await?)
    }

    async fn enqueue_all(&self, payloads: Vec<String>) -> Result<(), Error> {
        for chunk in payloads.chunks(CHUNK) {
            let mut pipeline = redis::pipe();
            for payload in chunk {
                pipeline.cmd("XADD").arg(STREAM).arg("*").arg("body").arg(payload).ignore();
            }
            pipeline.query_async::<()>(&mut self.0.clone()).await?;
        }
        Ok(())
    }

    async fn work(&self, concurrency: usize, jobs: Arc<Jobs>) -> Result<(), Error> {
        let mut connection = self.0.clone();
        let mut create = redis::cmd("XGROUP");
        create.arg("CREATE").arg(STREAM).arg(GROUP).arg(0).arg("MKSTREAM");
        // Another worker may have made it.
        if let Err(error) = create.exec_async(&mut connection).await
            && error.code() != Some("BUSYGROUP")
        {
            return Err(error.into());
        }
        let consumer = Consumer { connection, name: std::process::id().to_string(), slots: Arc::new(Semaphore::new(concurrency)), jobs };
        // All three go on until the process ends; if one cannot, none does.
        tokio::try_join!(consumer.clone().take_over(), clean(self.0.clone()), consumer.read())?;
        Ok(())
    }
}

#[derive(Clone)]
struct Consumer {
    connection: MultiplexedConnection,
    name: String,
    slots: Arc<Semaphore>,
    jobs: Arc<Jobs>,
}

impl Consumer {
    /// Reads new entries, as many as there are free slots.
    async fn read(mut self) -> Result<(), Error> {
        loop {
            let mut slot = self.slots.clone().acquire_owned().await?;
            let more = self.slots.available_permits();
            if let Ok(others) = self.slots.clone().try_acquire_many_owned(u32::try_from(more)?) {
                slot.merge(others);
            }
            let mut read = redis::cmd("XREADGROUP");
            read.arg("GROUP").arg(GROUP).arg(&self.name).arg("COUNT").arg(slot.num_permits()).arg("STREAMS").arg(STREAM).arg(">");
            let streams: Option<Vec<(String, Vec<Entry>)>> = read.query_async(&mut self.connection).await?;
            let entries: Vec<Entry> = streams.into_iter().flatten().flat_map(|(_, entries)| entries).collect();
            if entries.is_empty() {
                drop(slot);
                tokio::time::sleep(IDLE).await;
                continue;
            }
            for entry in entries {
                let slot = slot.split(1).expect("no more entries than were asked for");
                tokio::spawn(self.clone().handle(entry, slot));
            }
        }
    }

    async fn handle(mut self, (id, fields): Entry, slot: OwnedSemaphorePermit) -> Result<(), Error> {
        // The fields are a name and a value. A trimmed entry has none, and is acknowledged to be
        // rid of it.
        if let Some(body) = fields.as_deref().and_then(|fields| fields.get(1)) {
            self.jobs.run(body).await;
        }
        redis::cmd("XACK").arg(STREAM).arg(GROUP).arg(id).exec_async(&mut self.connection).await?;
        drop(slot);
        Ok(())
    }

    /// Claims what others have read and not acknowledged in time.
    async fn take_over(mut self) -> Result<(), Error> {
        let (min_idle_ms, mut ticks) = (VISIBILITY.as_millis() as u64, tokio::time::interval(TAKE_OVER));
        loop {
            ticks.tick().await;
            let mut from = "-".to_owned();
            loop {
                let mut pending = redis::cmd("XPENDING");
                pending.arg(STREAM).arg(GROUP).arg(&from).arg("+").arg(PAGE);
                let page: Vec<(String, String, u64, u64)> = pending.query_async(&mut self.connection).await?;
                for (id, _, idle_ms, _) in &page {
                    if *idle_ms >= min_idle_ms {
                        let slot = self.slots.clone().acquire_owned().await?;
                        let mut claim = redis::cmd("XCLAIM");
                        claim.arg(STREAM).arg(GROUP).arg(&self.name).arg(min_idle_ms).arg(id);
                        let won: Vec<Entry> = claim.query_async(&mut self.connection).await?;
                        if let Some(entry) = won.into_iter().next() {
                            tokio::spawn(self.clone().handle(entry, slot));
                        }
                    }
                }
                match page.last() {
                    Some((last, ..)) if page.len() == PAGE => from = after(last)?,
                    _ => break,
                }
            }
        }
    }
}

/// The next possible id: ranges include their ends.
fn after(id: &str) -> Result<String, Error> {
    let (ms, sequence) = id.split_once('-').ok_or("the id of an entry has two parts")?;
    Ok(format!("{ms}-{}", sequence.parse::<u64>()? + 1))
}

async fn clean(mut connection: MultiplexedConnection) -> Result<(), Error> {
    // Not at once: a second worker that starts would trim what the first one has just seen.
    let mut ticks = tokio::time::interval_at(Instant::now() + CLEAN, CLEAN);
    loop {
        ticks.tick().await;
        CLEANER.key(STREAM).key(CLEANED).invoke_async::<()>(&mut connection).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::after;

    #[test]
    fn a_page_begins_after_the_last_id_of_the_page_before() {
        assert_eq!(after("1526919030474-55").unwrap(), "1526919030474-56");
        assert!(after("1526919030474").is_err());
    }
}
