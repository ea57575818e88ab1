//! What an outbox has, for people and the command line. It needs the database and no broker.

use std::time::Duration;

use crate::{Relay, error::Result};

/// A queue of an outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxQueue {
    /// Its name, or `@` and the name of a topic.
    pub queue: String,
    /// Rows that are not sent yet.
    pub waiting: u64,
    /// Rows that can never be sent.
    pub refused: u64,
    /// The age of the oldest row that is not sent, by the clock of the database.
    pub oldest: Option<Duration>,
    /// Rows of the request in flight.
    pub in_flight: u64,
    /// The broker that the last request was for.
    pub broker: Option<String>,
    /// Whether a relay has the lease. Without a new request it lasts for 30 seconds.
    pub leased: bool,
    /// The relay that has the lease: its host and process.
    pub holder: Option<String>,
    /// Whether new rows are refused, because there are too many or too old ones.
    pub full: bool,
}

/// A row of an outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxRow {
    /// Its number: the order to send in.
    pub seq: i64,
    /// The id that its job has, or will have.
    pub job: String,
    /// Its task, or the type of its event, if it can be read.
    pub task: Option<String>,
    /// Its age, by the clock of the database.
    pub age: Duration,
    /// Whether it waits, because its group is full.
    pub put_off: bool,
    /// Why it can never be sent.
    pub refused: Option<String>,
}

/// A change of rows by a person.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutboxChange {
    /// Sends these rows again that were refused, or put off; no numbers: all of the queue.
    Retry(Vec<i64>),
    /// Deletes these rows. Their jobs are never enqueued.
    Drop(Vec<i64>),
    /// Takes a request out of flight that is at a broker which does not come back. Its rows are sent again: jobs that this broker has run may run a second time.
    Release,
}

impl Relay {
    /// The queues of the outbox, sorted by name.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn queues(&self) -> Result<Vec<OutboxQueue>> {
        self.store().figures(i64::MAX).await
    }

    /// The first rows of a queue, at most `limit`, in the order to send in. `refused`: only those that can never be sent.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn rows(&self, queue: &str, refused: bool, limit: u32) -> Result<Vec<OutboxRow>> {
        self.store().rows(queue, refused, limit).await
    }

    /// Changes rows of a queue. Gives the numbers of those that were changed.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a drop of rows in flight, and then nothing was changed; those of the database.
    pub async fn change(&self, queue: &str, change: &OutboxChange) -> Result<Vec<i64>> {
        self.store().change(queue, change).await
    }
}
