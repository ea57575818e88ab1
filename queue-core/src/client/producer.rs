//! The producer protocol.
//!
//! A producer has a registered name and a sequence. A batch is sent again under the same number until it is answered or
//! its time is up; then its callers hold a [`Pending`], and the producer goes on under a new name, since the old number
//! could no longer be repeated safely once a later one was accepted.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    job::LONGEST,
    pending::{Lost, Pending},
};
use crate::{
    address::JobAddress,
    broker::{Confirm, Confirmed, DynBroker, Enqueue, Enqueued, NewJob, PartyName, ProcessId, Register},
    error::{Error, Result},
};

/// The first pause before a request is sent again; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What became of a job, and how safe it is, if somebody wanted to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    enqueued: Enqueued,
    confirmed: Option<Confirmed>,
}

impl Answer {
    /// Whether the job existed before, and what was confirmed.
    pub(super) fn of(self, address: &JobAddress) -> Result<(bool, Option<Confirmed>)> {
        match self.enqueued {
            Enqueued::Stored => Ok((false, self.confirmed)),
            Enqueued::Existing => Ok((true, self.confirmed)),
            Enqueued::IdConflict => Err(Error::IdConflict(address.clone())),
        }
    }
}

/// So long from now, in a hundred years at the latest.
pub(super) fn after(time: Duration) -> Instant {
    Instant::now() + time.min(LONGEST)
}

/// Where a producer sends to, on whose behalf, and for how long it tries.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) broker: DynBroker,
    pub(super) queue: Arc<str>,
    pub(super) process: ProcessId,
    pub(super) deadline: Duration,
    /// What an enqueue waits for beyond being stored.
    pub(super) confirm: Option<Confirm>,
}

/// One registered name with its sequence. One request in flight at a time.
#[derive(Debug)]
pub(super) struct Producer {
    pub(super) line: Line,
    name: Option<PartyName>,
    seq: u64,
}

/// Why a batch has no answers.
#[derive(Debug)]
pub(super) enum Failure {
    /// It was not stored.
    Refused(Error),
    /// It may have been.
    Unknown(Arc<Lost>),
}

impl Producer {
    pub(super) fn new(line: Line) -> Self {
        Producer { line, name: None, seq: 0 }
    }

    /// Stores a batch, and tries to until then.
    pub(super) async fn send(&mut self, jobs: Vec<NewJob>, until: Instant) -> Result<Vec<Answer>, Failure> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => self.register(until).await?,
        };
        let request = self.number(name, jobs);
        self.conclude(request, None, until).await
    }

    /// The request that is next, if this producer has a name.
    pub(super) fn next(&mut self, job: NewJob) -> Result<Enqueue, NewJob> {
        match self.name.clone() {
            Some(name) => Ok(self.number(name, vec![job])),
            None => Err(job),
        }
    }

    fn number(&mut self, name: PartyName, jobs: Vec<NewJob>) -> Enqueue {
        self.seq += 1;
        Enqueue::new(self.line.queue.clone(), name, self.seq, jobs)
    }

    /// Sends a request until it is answered or the time is up; it may have been sent once, and this is what came of it.
    pub(super) async fn conclude(&mut self, mut request: Enqueue, mut met: Option<Error>, until: Instant) -> Result<Vec<Answer>, Failure> {
        let mut pause = FIRST_PAUSE;
        let mut forgotten = false;
        loop {
            match self.line.settle(&request, met.take(), until).await {
                Ok(answers) => return Ok(answers),
                // Nothing of this number was stored, so it may be sent under a new name.
                Err(Unsettled::Refused(Error::Forgotten(_))) if Instant::now() + pause < until => {
                    self.name = None;
                    if std::mem::replace(&mut forgotten, true) {
                        rest(&mut pause).await;
                    }
                    let name = self.register(until).await?;
                    request = self.number(name, request.jobs);
                }
                Err(Unsettled::Refused(error)) => return Err(Failure::Refused(error)),
                Err(Unsettled::Unknown) => {
                    self.name = None;
                    return Err(Failure::Unknown(Arc::new(Lost::new(self.line.clone(), request))));
                }
            }
        }
    }

    async fn register(&mut self, until: Instant) -> Result<PartyName, Failure> {
        let request = Register::producer(self.line.queue.clone(), self.line.process);
        let mut pause = FIRST_PAUSE;
        loop {
            match self.line.broker.register(&request).await {
                Ok(name) => {
                    (self.name, self.seq) = (Some(name.clone()), 0);
                    return Ok(name);
                }
                // A name that was given and lost is nobody's.
                Err(error) if may_pass(&error) && Instant::now() + pause < until => rest(&mut pause).await,
                Err(Error::Ambiguous { broker, .. }) => {
                    let problem = "it has not answered".to_owned();
                    return Err(Failure::Refused(Error::Unavailable { broker, problem }));
                }
                Err(error) => return Err(Failure::Refused(error)),
            }
        }
    }
}

/// Why a request was given up.
pub(super) enum Unsettled {
    Refused(Error),
    Unknown,
}

impl Line {
    /// Sends a request once.
    pub(super) async fn attempt(&self, request: &Enqueue) -> Result<Vec<Answer>> {
        let (answers, confirmed) = match &self.confirm {
            None => (self.broker.enqueue(request).await?, None),
            Some(confirm) => {
                let (answers, confirmed) = self.broker.enqueue_confirmed(request, confirm).await?;
                (answers, Some(confirmed))
            }
        };
        if answers.len() != request.jobs.len() {
            return Err(Error::Internal(format!("{} answers to an enqueue of {} jobs", answers.len(), request.jobs.len())));
        }
        Ok(answers.into_iter().map(|enqueued| Answer { enqueued, confirmed }).collect())
    }

    /// Sends one request, unchanged, until it is answered or the time is up. It may have met with an error already.
    pub(super) async fn settle(&self, request: &Enqueue, mut met: Option<Error>, until: Instant) -> Result<Vec<Answer>, Unsettled> {
        let mut pause = FIRST_PAUSE;
        let mut may_have_arrived = false;
        loop {
            let error = match met.take() {
                Some(error) => error,
                None => match self.attempt(request).await {
                    Ok(answers) => return Ok(answers),
                    Err(error) => error,
                },
            };
            may_have_arrived |= matches!(error, Error::Ambiguous { .. });
            if may_pass(&error) && Instant::now() + pause < until {
                rest(&mut pause).await;
                continue;
            }
            return Err(if may_have_arrived { Unsettled::Unknown } else { Unsettled::Refused(error) });
        }
    }

    pub(super) fn unavailable(&self, problem: impl Into<String>) -> Error {
        Error::Unavailable { broker: self.broker.info().location, problem: problem.into() }
    }
}

/// A full broker is not waited for: its users have to hear of it.
fn may_pass(error: &Error) -> bool {
    matches!(error, Error::Ambiguous { .. } | Error::Unavailable { .. })
}

async fn rest(pause: &mut Duration) {
    tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
}

impl Failure {
    /// The error for the job at this position of the batch.
    pub(super) fn of(&self, position: usize) -> Error {
        match self {
            Failure::Refused(error) => error.duplicate(),
            Failure::Unknown(lost) => Error::Unknown(Box::new(Pending::new(lost.clone(), position))),
        }
    }
}
