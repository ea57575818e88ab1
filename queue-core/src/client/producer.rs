//! The producer protocol.
//!
//! A producer has a registered name and a sequence. A batch is sent again under the same number until it is answered or
//! the time of its last caller is up. Each caller is told when its own time is up: that its job was not stored, if nothing was sent,
//! or it gets a [`Pending`]. Then the producer goes on under a new name, since the old number could no longer be repeated safely
//! once a later one was accepted.

use std::{
    mem,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use super::{
    callers::{Callers, LATE, Pauses},
    job::LONGEST,
    pending::{Lost, Pending},
};
use crate::{
    address::JobAddress,
    broker::{Confirm, Confirmed, DynBroker, Enqueue, Enqueued, NewJob, PartyName, ProcessId, Register},
    error::{Error, Result},
};

/// An error that was met so long ago explains nothing any more.
const STALE: Duration = Duration::from_secs(20);

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
pub(crate) fn after(time: Duration) -> Instant {
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
    /// What a request met with last, and when.
    pub(super) met: Arc<Mutex<Option<(Instant, Error)>>>,
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

    /// Stores a batch, and tries to until nobody waits for it any more. Gives the answers for those callers that have not been told.
    pub(super) async fn send(&mut self, mut jobs: Vec<NewJob>, callers: &mut Callers) -> Result<Vec<Answer>, Failure> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => self.register(&mut jobs, callers).await?,
        };
        let request = self.number(name, jobs);
        self.conclude(request, None, callers).await
    }

    /// The request that is next, if this producer has a name.
    pub(super) fn next(&mut self, job: NewJob, until: Instant) -> Result<Enqueue, NewJob> {
        let Some(name) = self.name.clone() else { return Err(job) };
        let mut request = self.number(name, vec![job]);
        request.until = Some(until.into_std());
        Ok(request)
    }

    fn number(&mut self, name: PartyName, jobs: Vec<NewJob>) -> Enqueue {
        self.seq += 1;
        Enqueue::new(self.line.queue.clone(), name, self.seq, jobs)
    }

    /// Sends a request until it is answered or nobody waits any more; it may have been sent once, and this is what came of it.
    pub(super) async fn conclude(
        &mut self,
        mut request: Enqueue,
        mut met: Option<Error>,
        callers: &mut Callers,
    ) -> Result<Vec<Answer>, Failure> {
        let mut pauses = Pauses::default();
        let mut fate = Fate::default();
        let mut forgotten = false;
        loop {
            let error = match met.take() {
                Some(error) => error,
                None => {
                    self.tell_those_due(&mut request, &mut fate, callers)?;
                    match self.try_once(&mut request, &mut fate, callers).await {
                        Ok(answers) => {
                            if let Some(lost) = &fate.lost {
                                self.name = None;
                                lost.is_settled(&answers);
                            }
                            return Ok(answers);
                        }
                        Err(error) => error,
                    }
                }
            };
            fate.sent |= matches!(error, Error::Ambiguous { .. });
            self.line.met(&error);
            fate.error = Some(error.duplicate());
            if may_pass(&error) {
                pauses.rest(callers.next()).await;
                continue;
            }
            if fate.sent {
                // Whatever is said now, an earlier sending may have arrived.
                self.name = None;
                return Err(Failure::Unknown(fate.lost(&self.line, &request)));
            }
            match error {
                // Nothing of this number was stored, so it may be sent under a new name.
                Error::Forgotten(_) if !callers.is_due(Instant::now()) => {
                    self.name = None;
                    if mem::replace(&mut forgotten, true) {
                        pauses.rest(callers.next()).await;
                    }
                    let mut jobs = request.jobs;
                    let name = self.register(&mut jobs, callers).await?;
                    request = self.number(name, jobs);
                }
                error => return Err(Failure::Refused(error)),
            }
        }
    }

    /// Sends a request once, for those who wait. Whoever does not wait any longer is told meanwhile.
    async fn try_once(&self, request: &mut Enqueue, fate: &mut Fate, callers: &mut Callers) -> Result<Vec<Answer>> {
        // As long as nothing was sent, an end of the call in time can tell that.
        let until = if fate.sent { callers.last() } else { callers.next() };
        request.until = Some(until.into_std());
        let mut attempt = pin!(self.line.attempt(request));
        loop {
            match timeout_at(callers.next() + LATE, &mut attempt).await {
                Ok(outcome) => return outcome,
                Err(_) => {
                    let silent = || self.line.ambiguous("it has not answered in time");
                    let now = Instant::now();
                    fate.sent = true;
                    fate.error.get_or_insert_with(silent);
                    callers.tell(now, &fate.lost(&self.line, request));
                    if callers.is_over(now) {
                        return Err(silent());
                    }
                }
            }
        }
    }

    /// Tells those whose time is up, before a request is sent again. Fails when nobody else waits.
    fn tell_those_due(&mut self, request: &mut Enqueue, fate: &mut Fate, callers: &mut Callers) -> Result<(), Failure> {
        let now = Instant::now();
        if !callers.is_due(now) {
            return Ok(());
        }
        if fate.sent {
            let lost = fate.lost(&self.line, request);
            callers.tell(now, &lost);
            if callers.is_over(now) {
                self.name = None;
                return Err(Failure::Unknown(lost));
            }
            return Ok(());
        }
        let refused = Failure::Refused(fate.error.as_ref().map_or_else(|| self.line.late(), Error::duplicate));
        callers.withdraw(now, &mut request.jobs, &refused);
        // It is another request now.
        self.seq += 1;
        request.seq = self.seq;
        if callers.is_over(now) { Err(refused) } else { Ok(()) }
    }

    async fn register(&mut self, jobs: &mut Vec<NewJob>, callers: &mut Callers) -> Result<PartyName, Failure> {
        let mut request = Register::producer(self.line.queue.clone(), self.line.process);
        let mut pauses = Pauses::default();
        loop {
            request.until = Some(callers.next().into_std());
            let registered = timeout_at(callers.next() + LATE, self.line.broker.register(&request)).await;
            let error = match registered.unwrap_or_else(|_| Err(self.line.ambiguous("it has not answered in time"))) {
                Ok(name) => {
                    (self.name, self.seq) = (Some(name.clone()), 0);
                    return Ok(name);
                }
                // A name that was given and lost is nobody's.
                Err(Error::Ambiguous { broker, problem, cause }) => {
                    Error::Unavailable { broker, problem: format!("it has not answered: {problem}"), cause }
                }
                Err(error) if may_pass(&error) => error,
                Err(error) => return Err(Failure::Refused(error)),
            };
            self.line.met(&error);
            pauses.rest(callers.next()).await;
            let now = Instant::now();
            if callers.is_due(now) {
                let refused = Failure::Refused(error);
                callers.withdraw(now, jobs, &refused);
                if callers.is_over(now) {
                    return Err(refused);
                }
            }
        }
    }
}

/// What is known of a request that has no answer yet.
#[derive(Default)]
struct Fate {
    /// Whether it may have arrived.
    sent: bool,
    /// What the last try met with.
    error: Option<Error>,
    /// What those hold that do not wait any longer.
    lost: Option<Arc<Lost>>,
}

impl Fate {
    fn lost(&mut self, line: &Line, request: &Enqueue) -> Arc<Lost> {
        let error = || self.error.as_ref().map_or_else(|| line.ambiguous("it has not answered in time"), Error::duplicate);
        self.lost.get_or_insert_with(|| Arc::new(Lost::new(line.clone(), request.clone(), error()))).clone()
    }
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

    /// Notes what a request met with, for those who wait behind it.
    fn met(&self, error: &Error) {
        *self.met.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), error.duplicate()));
    }

    /// Nothing of a job was sent before its deadline, because those before it have no answer.
    pub(super) fn late(&self) -> Error {
        let late = self.unavailable("it has not answered to the jobs before this one");
        match &*self.met.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((when, error)) if when.elapsed() < self.deadline.saturating_add(STALE) => late.caused_by(error.duplicate()),
            _ => late,
        }
    }

    fn unavailable(&self, problem: impl Into<String>) -> Error {
        Error::unavailable(self.broker.info().location, problem)
    }

    pub(super) fn ambiguous(&self, problem: impl Into<String>) -> Error {
        Error::ambiguous(self.broker.info().location, problem)
    }
}

/// A full broker is not waited for: its users have to hear of it.
pub(super) fn may_pass(error: &Error) -> bool {
    matches!(error, Error::Ambiguous { .. } | Error::Unavailable { .. })
}

impl Failure {
    /// The error for the job at this position of the batch.
    pub(super) fn of(&self, position: usize) -> Error {
        match self {
            Failure::Refused(error) => error.duplicate(),
            Failure::Unknown(lost) => Pending::unknown(lost.clone(), position),
        }
    }
}
