//! The contents of an outbox, for operators and the command line. It needs the database, but no
//! broker.

use std::{fmt, str::FromStr, time::Duration};

use queue_core::JobId;
use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::{
    Relay,
    dialect::{hex, read_hex},
    error::{Error, Result},
};

/// A queue of an outbox. It is [`Serialize`]: the fields by their names, and `oldest_ms`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OutboxQueue {
    /// Its name, or `@` and the name of a topic.
    pub queue: String,
    /// Rows that are not sent yet.
    pub waiting: u64,
    /// Rows that can never be sent.
    pub refused: u64,
    /// The age of the oldest row that is not sent, by the clock of the database.
    #[serde(rename = "oldest_ms", serialize_with = "ms")]
    pub oldest: Option<Duration>,
    /// Rows of the request in flight.
    pub in_flight: u64,
    /// The broker that the last request was for.
    pub broker: Option<String>,
    /// Whether a relay has the lease. The lease lasts for 30 seconds after a new request.
    pub leased: bool,
    /// The relay that has the lease: its host and process.
    pub holder: Option<String>,
    /// Whether new rows are refused, because there are too many or too old ones.
    pub full: bool,
}

/// Identifies a row by its number and the id of its job, for example
/// `4711/0199a3c1-8f2e-7d10-a5b4-c6d7e8f90123`. The number alone is not unique: the numbers of a
/// restored database can start again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRowId {
    /// The number of the row, which is its position in the sending order.
    pub seq: i64,
    pub(crate) job: Vec<u8>,
}

impl OutboxRowId {
    /// The id of its job. Bytes that are not a valid id are shown as `#` and hexadecimal digits.
    pub fn job(&self) -> String {
        let id = JobId::from_bytes(&self.job).map(|id| id.to_string());
        let is_read_again = |text: &String| text.parse::<JobId>().is_ok_and(|id| id.as_bytes() == self.job);
        id.ok().filter(is_read_again).unwrap_or_else(|| format!("#{}", hex(&self.job)))
    }
}

impl fmt::Display for OutboxRowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.seq, self.job())
    }
}

impl Serialize for OutboxRowId {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut id = serializer.serialize_struct("OutboxRowId", 3)?;
        id.serialize_field("row", &self.to_string())?;
        id.serialize_field("seq", &self.seq)?;
        id.serialize_field("job", &self.job())?;
        id.end()
    }
}

fn ms<S: Serializer>(time: &(impl Copy + Into<Option<Duration>>), serializer: S) -> std::result::Result<S::Ok, S::Error> {
    (*time).into().map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
}

impl FromStr for OutboxRowId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let (seq, job) = text.split_once('/')?;
            let job = match job.strip_prefix('#') {
                Some(hex) => read_hex(hex)?,
                None => job.parse::<JobId>().ok()?.as_bytes().to_vec(),
            };
            Some(OutboxRowId { seq: seq.parse().ok()?, job })
        };
        let problem = || "is not a row: write its number, `/` and the id of its job, as `outbox list --queue` shows them".to_owned();
        read().ok_or_else(|| Error::Invalid { field: "row id", value: text.chars().take(200).collect(), problem: problem() })
    }
}

/// A row of an outbox. It is [`Serialize`]: `row` (its id), `seq`, `job`, `task`, `age_ms`,
/// `put_off` and `refused`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OutboxRow {
    /// The number, and the present or future id of the job.
    #[serde(flatten)]
    pub id: OutboxRowId,
    /// The task, or the type of the event, if it can be read.
    pub task: Option<String>,
    /// Its age, by the clock of the database.
    #[serde(rename = "age_ms", serialize_with = "ms")]
    pub age: Duration,
    /// Whether it waits, because its group is full.
    pub put_off: bool,
    /// Why it can never be sent.
    pub refused: Option<String>,
}

/// A change of rows by an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutboxChange {
    /// Sends these rows again that were refused or put off. Without rows, it applies to the whole
    /// queue. In PostgreSQL, a refused row gets a new number after all others.
    Retry(Vec<OutboxRowId>),
    /// Deletes these rows. Their jobs are never enqueued.
    Drop(Vec<OutboxRowId>),
    /// Removes a request from flight whose broker does not come back. Its rows are sent again: jobs
    /// that this broker has run may run a second time.
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

    /// The first rows of a queue, at most `limit`, in the sending order. With `refused`, only those
    /// that can never be sent.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn rows(&self, queue: &str, refused: bool, limit: u32) -> Result<Vec<OutboxRow>> {
        self.store().rows(queue, refused, limit).await
    }

    /// Changes rows of a queue. Returns the changed rows.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a drop of rows in flight, and then nothing was
    /// changed; those of the database.
    pub async fn change(&self, queue: &str, change: &OutboxChange) -> Result<Vec<OutboxRowId>> {
        self.store().change(queue, change).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_is_printed() {
        for job in [JobId::make().as_bytes(), JobId::given("order-7").unwrap().as_bytes(), b"", b"\xff\x00", b"sixteen bytes of"] {
            let row = OutboxRowId { seq: 4711, job: job.to_vec() };
            assert_eq!(row.to_string().parse::<OutboxRowId>().unwrap(), row);
        }
        for wrong in ["", "4711", "4711/", "x/order-7", "/order-7", "4711/a b"] {
            assert!(matches!(wrong.parse::<OutboxRowId>(), Err(Error::Invalid { field: "row id", .. })), "{wrong}");
        }
    }
}
