//! A queue of the outbox, in the state of one relay between two rounds.

use std::{collections::HashSet, time::Duration};

use queue_core::{
    __private::row::decode,
    Client, Error,
    broker::{CALL_DEADLINE, Enqueue, Enqueued, NewJob, PartyName, ProcessId, Register},
};
use tokio::time::{Instant, timeout};

use super::{AGAIN, Relayed};
use crate::store::{Done, Fate, LEASE, Request};

/// The pause after a request that was not answered.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The polling interval of a relay without the lease.
const LEASED: Duration = Duration::from_secs(1);

/// The minimum age of rows for a warning.
const OLD: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Queue {
    /// The request in flight. It is not changed until it is answered.
    pub(super) request: Option<Request>,
    /// The answer to the last request, which the next take ends.
    pub(super) done: Option<Done>,
    /// A new name for the request, and whether all rows of the queue may have been sent before.
    pub(super) renamed: Option<(String, bool)>,
    /// The end of the relay's lease, by the relay's own clock.
    leased_until: Option<Instant>,
    /// The earliest time of the next request.
    due: Option<Instant>,
    pause: Duration,
    /// The times of the first and the last failure since the last successful call.
    failing: Option<Failing>,
    warned: Option<Instant>,
    /// How often in a row the request has received a new name.
    renames: u32,
    /// Whether the database has rows of the queue to send.
    pub(super) has_rows: bool,
    counts: Relayed,
}

struct Failing {
    since: Instant,
    logged: Instant,
}

impl Queue {
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_none_or(|due| due <= now)
    }

    /// Whether the next round needs no state of this queue.
    pub(super) fn is_idle(&self) -> bool {
        !self.has_rows && self.request.is_none() && self.done.is_none()
    }

    pub(super) fn took(&mut self, request: Request) {
        let now = Instant::now();
        self.leased_until = Some(now + LEASE);
        if let Some(oldest) = request.rows.first().filter(|row| row.age >= OLD)
            && self.warned.is_none_or(|warned| now >= warned + AGAIN)
        {
            self.warned = Some(now);
            tracing::warn!(age = ?oldest.age, "jobs have waited long in the outbox");
        }
        self.request = Some(request);
    }

    pub(super) fn is_served_elsewhere(&mut self) {
        self.due = Some(Instant::now() + LEASED.mul_f64(0.75 + fastrand::f64() / 2.0));
    }

    /// Records a failed call. While the relay has the lease, it tries again after a pause. After
    /// that another relay may have the lease, for the length of a lease.
    pub(super) fn failed(&mut self, queue: &str, error: &dyn std::fmt::Display) {
        let now = Instant::now();
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        let again = now + self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        let lost = self.leased_until.is_some_and(|until| until <= again);
        if lost {
            (self.request, self.leased_until) = (None, None);
        }
        self.due = Some(if lost { now + LEASE } else { again });
        let failing = self.failing.get_or_insert(Failing { since: now, logged: now });
        if failing.since == now || now >= failing.logged + AGAIN {
            failing.logged = now;
            tracing::warn!(queue, %error, "cannot send the jobs of the outbox; they wait");
        }
    }

    fn succeeded(&mut self, queue: &str) {
        (self.due, self.pause, self.renames) = (None, Duration::ZERO, 0);
        if let Some(failing) = self.failing.take() {
            tracing::info!(queue, lasted = ?failing.since.elapsed(), "jobs of the outbox are sent again");
        }
    }

    /// Sends the request, if there is one. Returns true if it was answered.
    pub(super) async fn send(&mut self, client: &Client, queue: &str) -> bool {
        let Some(request) = self.request.take() else { return false };
        let outcome = if request.is_changed { Err(changed(&request)) } else { enqueue(client, queue, &request).await };
        match outcome {
            Ok(answers) => {
                self.succeeded(queue);
                let fates = self.fates(queue, &request, &answers);
                self.done = Some(Done { request, fates });
                true
            }
            Err(error @ (Error::Forgotten(_) | Error::Old { .. })) => {
                let all = matches!(error, Error::Old { .. });
                match register(client, queue).await {
                    Ok(producer) => {
                        tracing::warn!(queue, %error, rows = request.rows.len(), "a request of the outbox is sent again under a new producer name");
                        (self.request, self.renamed) = (Some(request), Some((producer, all)));
                        self.renames += 1;
                        if self.renames > 1 {
                            self.failed(queue, &error);
                        }
                        true
                    }
                    Err(error) => {
                        self.request = Some(request);
                        self.failed(queue, &error);
                        false
                    }
                }
            }
            Err(error) => {
                self.request = Some(request);
                self.failed(queue, &error);
                false
            }
        }
    }

    /// The outcome of each row.
    fn fates(&mut self, queue: &str, request: &Request, answers: &[(Enqueued, NewJob)]) -> Vec<Fate> {
        let mut put_off = HashSet::new();
        let fates = answers.iter().zip(&request.rows).map(|((answer, job), row)| match answer {
            Enqueued::IdConflict => {
                self.counts.refused += 1;
                let why = format!("another job of queue `{queue}` has the id `{}`", job.id);
                tracing::warn!(queue, job = %job.id, why, "a job of the outbox was rejected and will not be sent again");
                Fate::Refused(why)
            }
            // Counts the first job of a group. The other jobs of the group wait with it.
            Enqueued::GroupFull | Enqueued::Held if job.group.is_none() || put_off.insert(&job.group) => {
                self.counts.put_off += 1;
                Fate::Later
            }
            Enqueued::GroupFull | Enqueued::Held => Fate::Held,
            _ => {
                self.counts.sent += 1;
                self.counts.perhaps_twice += u64::from(*answer == Enqueued::Stored && row.seq <= request.suspect);
                Fate::Sent
            }
        });
        fates.collect()
    }

    /// Adds the counts since the last call.
    pub(super) fn count(&mut self, all: &mut Relayed) {
        let Relayed { sent, refused, put_off, perhaps_twice } = std::mem::take(&mut self.counts);
        all.sent += sent;
        all.refused += refused;
        all.put_off += put_off;
        all.perhaps_twice += perhaps_twice;
    }
}

/// Some of its rows are missing or were changed. An answer to it must not delete rows.
fn changed(request: &Request) -> Error {
    Error::Old { name: request.name.producer.clone(), seq: u64::try_from(request.number).unwrap_or(0) }
}

/// Registers a name for the outbox at the broker.
pub(super) async fn register(client: &Client, queue: &str) -> Result<String, Error> {
    let request = Register::producer(queue, ProcessId::random());
    let late = || Error::unavailable(client.info().location, "it has not answered in time");
    let registered = timeout(CALL_DEADLINE, client.broker().register(&request)).await.map_err(|_| late())??;
    Ok(registered.name.as_str().to_owned())
}

/// Sends a request as it is stored. Returns the answer for each row.
async fn enqueue(client: &Client, queue: &str, request: &Request) -> Result<Vec<(Enqueued, NewJob)>, Error> {
    let jobs = request.rows.iter().map(|row| decode(queue, &row.id, &row.body, row.created_ms, row.age));
    let jobs = jobs.collect::<Result<Vec<NewJob>, Error>>()?;
    let number =
        u64::try_from(request.number).map_err(|_| Error::Internal(format!("the outbox has a request number {}", request.number)))?;
    let enqueue = Enqueue::new(queue, PartyName::new(request.name.producer.as_str()), number, jobs.clone()).relayed(request.digest);
    let late = || Error::ambiguous(client.info().location, "it has not answered in time");
    let answers = timeout(CALL_DEADLINE, client.enqueue_relayed(&enqueue)).await.map_err(|_| late())??;
    if answers.len() != jobs.len() {
        return Err(Error::Internal(format!("{} answers to a request of {} rows", answers.len(), jobs.len())));
    }
    Ok(answers.into_iter().zip(jobs).collect())
}
