//! A job as a row of an outbox, which holds it in the database of the application from its
//! transaction until a relay has sent it to the broker.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | version of the row, now 1 |
//! | 2 | length of the options, the high byte first |
//! | that many | the options: a MessagePack map, without default values |
//! | the rest | the [envelope](crate::envelope) |

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Job, RawJob, prepare::Prepared};
use crate::{
    address::{JobAddress, JobId},
    broker::{Due, GroupName, Hold, JobLimits, MAX_BYTES, NewJob, OnConflict, Priority, Unique, UniqueKey},
    codec,
    draft::{EnqueueStack, OnEnqueue},
    envelope::stamp,
    error::{Error, Result},
    event::Publication,
    task::Task,
};

/// The newest version of a row that this library reads, and the one that it writes.
pub const ROW_VERSION: u8 = 1;

/// The bytes in front of the options.
const HEAD: usize = 3;

/// The items that can be stored in an outbox: a [`Job`], a [`RawJob`], and a [`Publication`] of an
/// event.
pub trait Outgoing {
    /// Checks and encodes it, and gives it an id.
    ///
    /// # Errors
    /// Those of an enqueue that are about the job.
    fn prepare(self, middleware: &Middlewares) -> Result<(JobAddress, NewJob)>;
}

impl<T: Task> Outgoing for Job<T> {
    fn prepare(self, middleware: &Middlewares) -> Result<(JobAddress, NewJob)> {
        self.prepare(T::definition(), &middleware.0).map(parts)
    }
}

impl Outgoing for RawJob {
    fn prepare(self, middleware: &Middlewares) -> Result<(JobAddress, NewJob)> {
        self.prepare(&middleware.0).map(parts)
    }
}

impl Outgoing for Publication {
    fn prepare(self, middleware: &Middlewares) -> Result<(JobAddress, NewJob)> {
        super::events::prepared(self, &middleware.0).map(parts)
    }
}

fn parts(Prepared { address, job, .. }: Prepared) -> (JobAddress, NewJob) {
    (address, job)
}

/// The middleware that each job passes before it is encoded, like that of a client.
#[derive(Clone, Debug, Default)]
pub struct Middlewares(EnqueueStack);

impl Middlewares {
    /// Appends a middleware.
    pub(crate) fn push_on_enqueue(&mut self, last: impl OnEnqueue + 'static) {
        self.0.push(last);
    }
}

/// The data of a job except its id and its envelope.
#[derive(Default, Serialize, Deserialize)]
struct Options {
    /// Its delay, in milliseconds.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    /// When it may start, in milliseconds since 1970.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    at_ms: Option<i64>,
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    digest: Option<u64>,
    #[serde(rename = "g", default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    limits: Option<(Chain, u32)>,
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    unique: Option<Keyed>,
}

type Chain = Vec<u8>;

#[derive(Serialize, Deserialize)]
struct Keyed {
    #[serde(rename = "k")]
    key: String,
    /// `e` until it has ended, `s` until it has started, or for this number of milliseconds.
    #[serde(rename = "h")]
    hold: String,
    /// `s` skip, `r` replace, `b` buffer one.
    #[serde(rename = "c")]
    on_conflict: char,
    #[serde(rename = "f", default, skip_serializing_if = "std::ops::Not::not")]
    keep_payload: bool,
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    max_wait_ms: Option<u64>,
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl From<&Unique> for Keyed {
    fn from(unique: &Unique) -> Self {
        let hold = match unique.hold {
            Hold::UntilEnded => "e".to_owned(),
            Hold::UntilStarted => "s".to_owned(),
            Hold::Within(time) => ms(time).to_string(),
        };
        let on_conflict = match unique.on_conflict {
            OnConflict::Skip => 's',
            OnConflict::Replace => 'r',
            OnConflict::BufferOne => 'b',
        };
        Keyed { key: unique.key.to_string(), hold, on_conflict, keep_payload: unique.keep_payload, max_wait_ms: unique.max_wait.map(ms) }
    }
}

impl Keyed {
    fn read(&self) -> Option<Unique> {
        let key: UniqueKey = self.key.parse().ok()?;
        let hold = match self.hold.as_str() {
            "e" => Hold::UntilEnded,
            "s" => Hold::UntilStarted,
            within => Hold::Within(Duration::from_millis(within.parse().ok()?)),
        };
        let on_conflict = match self.on_conflict {
            's' => OnConflict::Skip,
            'r' => OnConflict::Replace,
            'b' => OnConflict::BufferOne,
            _ => return None,
        };
        let mut unique = Unique::new(key).hold(hold).on_conflict(on_conflict);
        unique.keep_payload = self.keep_payload;
        unique.max_wait = self.max_wait_ms.map(Duration::from_millis);
        Some(unique)
    }
}

/// The digest of some byte strings, each preceded by its length: of the rows of a request, of the
/// name of a group.
pub fn digest_of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 16] {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend(part.len().to_be_bytes());
        bytes.extend(part);
    }
    let mut digest = [0; 16];
    digest.copy_from_slice(&crate::digest::sha256(&bytes)[..16]);
    digest
}

/// A job in the form of a row.
///
/// # Errors
/// [`Error::Internal`] for options that cannot be encoded, which no job has.
pub fn encode(job: &NewJob) -> Result<Vec<u8>> {
    let (delay_ms, at_ms) = match job.due {
        Due::Now => (None, None),
        Due::After(delay) => (Some(ms(delay)), None),
        Due::AtMs(at) => (None, Some(at)),
    };
    let options = Options {
        delay_ms,
        at_ms,
        priority: (job.priority != Priority::Normal).then(|| job.priority.number()),
        digest: (job.digest != 0).then_some(job.digest),
        group: job.group.as_ref().map(|group| group.as_str().to_owned()),
        limits: job.limits.as_ref().map(|limits| (limits.chain(), limits.cost)),
        unique: job.unique.as_deref().map(Keyed::from),
    };
    let options = codec::pack(&options).map_err(Error::Internal)?;
    let length = u16::try_from(options.len()).map_err(|_| Error::Internal(format!("a job has options of {} bytes", options.len())))?;
    Ok([&[ROW_VERSION], length.to_be_bytes().as_slice(), &options, &job.envelope].concat())
}

/// Reads the form of a row that was stored at this time, in milliseconds since 1970 by the clock of
/// its database, and is of this age by the same clock.
///
/// # Errors
/// [`Error::SchemaTooNew`] for a row of a newer library, which waits for an update;
/// [`Error::Decode`] for an unreadable row.
pub fn decode(queue: &str, id: &[u8], body: &[u8], created_ms: i64, age: Duration) -> Result<NewJob> {
    let damaged = |problem: &str| Error::Decode { what: "a row of the outbox".into(), problem: problem.to_owned() };
    let version = *body.first().ok_or_else(|| damaged("it is empty"))?;
    if version > ROW_VERSION {
        return Err(Error::SchemaTooNew { queue: queue.to_owned(), found: version.into(), known: ROW_VERSION.into() });
    }
    if id.len() + body.len() > MAX_BYTES {
        return Err(damaged(&format!("it has {} bytes, and a broker takes {MAX_BYTES} at most", id.len() + body.len())));
    }
    let head = body.get(1..HEAD).ok_or_else(|| damaged("it is cut off"))?;
    let length = usize::from(u16::from_be_bytes([head[0], head[1]]));
    let (options, envelope) = body[HEAD..].split_at_checked(length).ok_or_else(|| damaged("it is cut off"))?;
    let options: Options = codec::unpack(options).map_err(|problem| damaged(&problem))?;
    let mut job = NewJob::new(JobId::from_bytes(id)?, envelope.to_vec());
    // The elapsed part of a delay is known, because both times are of the same clock.
    job.due = match (options.delay_ms, options.at_ms) {
        (Some(delay), _) => match Duration::from_millis(delay).saturating_sub(age) {
            Duration::ZERO => Due::Now,
            rest => Due::After(rest),
        },
        (None, Some(at)) => Due::AtMs(at),
        (None, None) => Due::Now,
    };
    if let Some(number) = options.priority {
        job.priority = Priority::from_number(number).ok_or_else(|| damaged("it has no priority that is known"))?;
    }
    job.digest = options.digest.unwrap_or_default();
    job.group = options.group.map(GroupName::new).transpose()?;
    job.limits = match options.limits {
        // An unreadable limit is an error. It must not be ignored.
        Some((chain, cost)) => {
            let limits = JobLimits::new(JobLimits::keys_of(&chain), cost).filter(|limits| limits.chain() == chain);
            Some(Box::new(limits.ok_or_else(|| damaged("it has limits that are none"))?))
        }
        None => None,
    };
    job.unique = match options.unique {
        Some(keyed) => Some(Box::new(keyed.read().ok_or_else(|| damaged("it has a key that is none"))?)),
        None => None,
    };
    stamp(&mut job.envelope, created_ms);
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{broker::LimitKey, envelope::Envelope};

    fn job() -> NewJob {
        NewJob::new(JobId::make(), Envelope::new("task", b"\x80").encode().unwrap())
    }

    fn read(job: &NewJob, age: u64) -> NewJob {
        decode("mail", job.id.as_bytes(), &encode(job).unwrap(), 5, Duration::from_millis(age)).unwrap()
    }

    fn same(one: &NewJob, other: &NewJob) {
        let without_time = |job: &NewJob| {
            let mut job = job.clone();
            job.envelope.clear();
            format!("{job:?}")
        };
        assert_eq!(without_time(one), without_time(other));
        let (one, other) = (Envelope::decode(&one.envelope).unwrap(), Envelope::decode(&other.envelope).unwrap());
        assert_eq!((&one.task, one.payload), (&other.task, other.payload));
    }

    #[test]
    fn a_job_comes_back_as_it_was() {
        let mut all = vec![job()];
        for due in [Due::After(Duration::from_secs(3)), Due::AtMs(17), Due::Now] {
            for (hold, on_conflict) in [
                (Hold::UntilEnded, OnConflict::Skip),
                (Hold::UntilStarted, OnConflict::BufferOne),
                (Hold::Within(Duration::from_secs(7)), OnConflict::Replace),
            ] {
                let mut job = job();
                let mut unique = Unique::new(UniqueKey::of("task", b"key")).hold(hold).on_conflict(on_conflict);
                unique.keep_payload = due == Due::Now;
                unique.max_wait = (due == Due::Now).then_some(Duration::from_secs(9));
                (job.due, job.unique) = (due, Some(Box::new(unique)));
                (job.priority, job.digest) = (Priority::High, u64::MAX);
                job.group = Some(GroupName::new("ü".repeat(128)).unwrap());
                job.limits = JobLimits::new((0..10_u8).map(|n| LimitKey::of("stripe", &[n])).collect(), 3).map(Box::new);
                all.push(job);
            }
        }
        for job in &all {
            same(job, &read(job, 0));
        }
        assert_eq!(encode(&all[0]).unwrap().len(), all[0].envelope.len() + HEAD + 1, "what is as usual takes no room");
        assert_eq!(Envelope::decode(&read(&all[0], 0).envelope).unwrap().enqueued_ms, Some(5));
    }

    #[test]
    fn no_limit_is_left_out() {
        for chain in [vec![], vec![0], vec![9, 1, 2], vec![1]] {
            let options = codec::pack(&Options { limits: Some((chain, 1)), ..Options::default() }).unwrap();
            let length = u16::try_from(options.len()).unwrap().to_be_bytes();
            let body = [&[ROW_VERSION], length.as_slice(), &options, &job().envelope].concat();
            assert!(matches!(decode("mail", job().id.as_bytes(), &body, 0, Duration::ZERO), Err(Error::Decode { .. })));
        }
    }

    #[test]
    fn a_row_has_no_more_bytes_than_a_request() {
        let mut body = encode(&job()).unwrap();
        body.resize(MAX_BYTES, 0);
        let refused = decode("mail", job().id.as_bytes(), &body, 0, Duration::ZERO);
        assert!(refused.unwrap_err().to_string().contains("1048576 at most"));
    }

    #[test]
    fn a_delay_has_passed_in_part() {
        let mut job = job();
        job.due = Due::After(Duration::from_millis(100));
        assert_eq!(read(&job, 40).due, Due::After(Duration::from_millis(60)));
        assert_eq!(read(&job, 100).due, Due::Now);
        assert_eq!(read(&job, 4000).due, Due::Now);
    }

    #[test]
    fn what_is_no_row_is_reported() {
        let (job, age) = (job(), Duration::ZERO);
        let body = encode(&job).unwrap();
        let of = |body: &[u8]| decode("mail", job.id.as_bytes(), body, 0, age);
        for wrong in [&b""[..], &body[..2], &[1, 0, 9, 0x80], &[1, 0, 1, 0xc1], &[0, 0, 0]] {
            assert!(matches!(of(wrong), Err(Error::Decode { .. })), "{wrong:?}");
        }
        let mut newer = body;
        newer[0] = ROW_VERSION + 1;
        assert!(matches!(of(&newer), Err(Error::SchemaTooNew { found: 2, known: 1, .. })));
    }
}
