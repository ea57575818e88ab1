//! The producer protocol.
//!
//! A producer has a registered name and a sequence. It registers if it has no name, then sends its
//! batch. It repeats the batch under the same number until the broker answers or the deadline of
//! the last caller has passed. At its own deadline, each caller gets an error if nothing was sent,
//! or a [`Pending`]. The producer then continues under a new name, because the old number cannot be
//! repeated safely once a later one was accepted.

use std::{
    mem,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use super::{
    callers::{Callers, LATE},
    clock::BrokerClock,
    handle::Stored,
    pending::{Lost, unknown},
    unserved,
};
use crate::{
    address::JobAddress,
    broker::{Confirm, Confirmed, DynBroker, Enqueue, Enqueued, NewJob, PartyName, ProcessId, Register, Registered, after},
    envelope::stamp,
    error::{Error, Result},
    group::GroupName,
    pauses::Pauses,
};

/// The first pause before a request is sent again; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The last try of a request begins this long before its deadline, for a broker that recovers late.
const LAST_TRY: Duration = Duration::from_millis(100);

/// A request without an answer is sent again after this part of the callers' time: the answer may
/// be lost, or the connection dead.
const ATTEMPTS: u32 = 3;

/// Not sooner than this: a broker that is slow for a moment is not asked twice.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(100);

/// The age from which an earlier error is no longer reported as the cause.
const STALE: Duration = Duration::from_secs(20);

/// The outcome of a job's enqueue, and its durability if the caller requested it.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    enqueued: Enqueued,
    confirmed: Option<Confirmed>,
    /// The group that was full, if that is the answer.
    full: Option<GroupName>,
}

impl Answer {
    /// The job that will run, the outcome for this one, and the confirmed durability.
    pub(super) fn of(self, mut address: JobAddress) -> Result<(JobAddress, Stored, Option<Confirmed>)> {
        let stored = match self.enqueued {
            Enqueued::Stored => Stored::New,
            Enqueued::Existing => Stored::Existing,
            Enqueued::IdConflict => return Err(Error::IdConflict(address)),
            Enqueued::Duplicate(id) => {
                address.id = id;
                Stored::Existing
            }
            Enqueued::Replaced(id) => {
                address.id = id;
                Stored::Replaced
            }
            Enqueued::Buffered(id) => {
                address.id = id;
                Stored::Buffered
            }
            Enqueued::GroupFull | Enqueued::Held => {
                return Err(Error::group_full(&address.queue, self.full.as_ref().map(GroupName::as_str)));
            }
        };
        Ok((address, stored, self.confirmed))
    }
}

/// The destination of a producer, its party, and how long it tries.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) broker: DynBroker,
    pub(super) queue: Arc<str>,
    pub(super) process: ProcessId,
    pub(super) deadline: Duration,
    /// The durability for which an enqueue waits after the jobs are stored.
    pub(super) confirm: Option<Confirm>,
    /// The last error of a request, and its time.
    pub(super) met: Arc<Mutex<Option<(Instant, Error)>>>,
    /// Whether a queue that no worker has ever served is refused.
    pub(super) served_only: bool,
    /// Whether it was logged that no worker has ever served the queue.
    pub(super) warned: Arc<AtomicBool>,
}

/// One name at a time, with its sequence. One request in flight at a time.
#[derive(Debug)]
pub(super) struct Producer {
    route: Route,
    name: Option<PartyName>,
    seq: u64,
    clock: Option<BrokerClock>,
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
    pub(super) fn new(route: Route) -> Self {
        Producer { route, name: None, seq: 0, clock: None }
    }

    /// Sends a request again that may have arrived, under its own name and number.
    pub(super) async fn again(route: &Route, request: Enqueue, callers: &mut Callers) -> Result<Vec<Answer>, Failure> {
        let mut producer = Producer { route: route.clone(), name: Some(request.producer.clone()), seq: request.seq, clock: None };
        producer.conclude(request, Fate { sent: true, ..Fate::default() }, callers).await
    }

    /// A request for a batch, with the next number. Without a name it has no number, which is 0:
    /// [`conclude`](Self::conclude) registers. It also registers after the machine has slept, to
    /// get the time of the broker: otherwise jobs would have an enqueue time from before the sleep.
    pub(super) fn request(&mut self, jobs: Vec<NewJob>) -> Enqueue {
        if self.clock.is_some_and(BrokerClock::is_doubtful) {
            (self.name, self.clock) = (None, None);
        }
        let name = self.name.clone().unwrap_or_else(|| PartyName::new(""));
        let mut request = Enqueue::new(self.route.queue.clone(), name, 0, jobs);
        if self.name.is_some() {
            self.number(&mut request);
        }
        request
    }

    /// Gives a request the next number, and its jobs the time, unless they have one.
    fn number(&mut self, request: &mut Enqueue) {
        self.seq += 1;
        request.seq = self.seq;
        if let Some(clock) = self.clock {
            let own = self.route.broker.clock();
            let now = if own.is_frozen() { own.now_ms() } else { clock.now_ms() };
            request.jobs.iter_mut().for_each(|job| stamp(&mut job.envelope, now));
        }
    }

    /// Sends a request until it is answered or no caller waits any more, and registers first if it
    /// has no number. Returns the answers for those callers that have not been answered.
    pub(super) async fn conclude(&mut self, mut request: Enqueue, mut fate: Fate, callers: &mut Callers) -> Result<Vec<Answer>, Failure> {
        let mut pauses = Pauses::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut forgotten = false;
        loop {
            let error = match fate.met.take() {
                Some(error) => error,
                None => {
                    self.fail_overdue(&mut request, &mut fate, callers)?;
                    let tried = match request.seq {
                        0 => self.register(&mut request, callers).await.map(|()| None),
                        _ => self.try_once(&mut request, &mut fate, callers).await.map(Some),
                    };
                    match tried {
                        Ok(None) => continue,
                        Ok(Some(answers)) => {
                            if let Some(lost) = &fate.lost {
                                self.name = None;
                                lost.is_resolved(&answers);
                            }
                            return Ok(answers);
                        }
                        Err(error) => error,
                    }
                }
            };
            fate.sent |= matches!(error, Error::Ambiguous { .. });
            self.route.met(&error);
            fate.error = Some(error.duplicate());
            if may_pass(&error) {
                pauses.sleep(callers.next(), LAST_TRY).await;
                continue;
            }
            if fate.sent {
                // An earlier request may have arrived, even if this answer is an error.
                self.name = None;
                return Err(Failure::Unknown(fate.lost(&self.route, &request)));
            }
            match error {
                // Nothing of this number was stored, so it may be sent under a new name.
                Error::Forgotten(_) if !callers.is_due(Instant::now()) => {
                    (self.name, request.seq) = (None, 0);
                    if mem::replace(&mut forgotten, true) {
                        pauses.sleep(callers.next(), LAST_TRY).await;
                    }
                }
                error => return Err(Failure::Refused(error)),
            }
        }
    }

    /// Sends a request once, for the waiting callers. Callers whose deadline passes meanwhile are
    /// answered. The try is abandoned when it is time to send the request again.
    async fn try_once(&self, request: &mut Enqueue, fate: &mut Fate, callers: &mut Callers) -> Result<Vec<Answer>> {
        // No request was sent yet, so its callers can get that error if the call ends in time.
        let until = if fate.sent { callers.last() } else { callers.next() };
        let end = self.route.end_of_attempt(until);
        request.until = Some(end.into_std());
        let mut attempt = pin!(self.route.attempt(request));
        loop {
            match timeout_at(callers.next().min(end) + LATE, &mut attempt).await {
                Ok(outcome) => return outcome,
                Err(_) => {
                    let silent = || self.route.ambiguous("it has not answered in time");
                    let now = Instant::now();
                    fate.sent = true;
                    fate.error.get_or_insert_with(silent);
                    if callers.is_due(now) {
                        callers.fail_overdue(now, &fate.lost(&self.route, request));
                    }
                    if callers.is_over(now) || now >= end {
                        return Err(silent());
                    }
                }
            }
        }
    }

    /// Answers the callers whose deadline has passed, before a request is sent again. Fails if no
    /// other caller waits.
    fn fail_overdue(&mut self, request: &mut Enqueue, fate: &mut Fate, callers: &mut Callers) -> Result<(), Failure> {
        let now = Instant::now();
        if !callers.is_due(now) {
            return Ok(());
        }
        if fate.sent {
            let lost = fate.lost(&self.route, request);
            callers.fail_overdue(now, &lost);
            if callers.is_over(now) {
                self.name = None;
                return Err(Failure::Unknown(lost));
            }
            return Ok(());
        }
        let refused = Failure::Refused(fate.error.as_ref().map_or_else(|| self.route.late(), Error::duplicate));
        callers.withdraw(now, &mut request.jobs, &refused);
        if request.seq > 0 {
            // It is another request now.
            self.number(request);
        }
        if callers.is_over(now) { Err(refused) } else { Ok(()) }
    }

    /// Registers once for a name, and gives the request its first number.
    async fn register(&mut self, request: &mut Enqueue, callers: &Callers) -> Result<()> {
        if self.route.served_only && unserved::is_unknown(&self.route).await? {
            return Err(unserved::error(&self.route).await);
        }
        let mut asked = Register::producer(self.route.queue.clone(), self.route.process);
        asked.until = Some(callers.next().into_std());
        let silent = || self.route.unavailable("it has not answered in time");
        match timeout_at(callers.next() + LATE, self.route.broker.register(&asked)).await.unwrap_or_else(|_| Err(silent())) {
            Ok(Registered { served: false, .. }) if self.route.served_only => Err(unserved::error(&self.route).await),
            Ok(Registered { name, now_ms, served }) => {
                if !served {
                    unserved::warn(&self.route);
                }
                (self.name, self.seq) = (Some(name.clone()), 0);
                self.clock = Some(BrokerClock::at(now_ms));
                request.producer = name;
                self.number(request);
                Ok(())
            }
            // A registration whose answer was lost has no effect, so this error is not ambiguous.
            Err(Error::Ambiguous { broker, problem, cause }) => {
                Err(Error::Unavailable { broker, problem: format!("it has not answered: {problem}"), cause })
            }
            Err(error) => Err(error),
        }
    }
}

/// The known fate of a request without an answer.
#[derive(Default)]
pub(super) struct Fate {
    /// The error of a first try from the caller's thread.
    met: Option<Error>,
    /// Whether it may have arrived.
    sent: bool,
    /// The error of the last try.
    error: Option<Error>,
    /// The shared part of the errors for callers that no longer wait.
    lost: Option<Arc<Lost>>,
}

impl Fate {
    /// Of a request that was sent once.
    pub(super) fn of(met: Error) -> Self {
        Fate { met: Some(met), ..Fate::default() }
    }

    fn lost(&mut self, route: &Route, request: &Enqueue) -> Arc<Lost> {
        let error = || self.error.as_ref().map_or_else(|| route.ambiguous("it has not answered in time"), Error::duplicate);
        self.lost.get_or_insert_with(|| Arc::new(Lost::new(route.clone(), request.clone(), error()))).clone()
    }
}

impl Route {
    /// The deadline of an attempt that begins now, for callers that wait until then.
    pub(super) fn end_of_attempt(&self, until: Instant) -> Instant {
        until.min(after((self.deadline / ATTEMPTS).max(SHORTEST_ATTEMPT)))
    }

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
        let answer = |(enqueued, job): (Enqueued, &NewJob)| {
            let full = job.group.clone().filter(|_| enqueued == Enqueued::GroupFull);
            Answer { enqueued, confirmed, full }
        };
        Ok(answers.into_iter().zip(&request.jobs).map(answer).collect())
    }

    /// Whether it was already logged that no worker serves the queue. From now on it counts as
    /// logged.
    pub(super) fn set_warned(&self) -> bool {
        self.warned.swap(true, Ordering::Relaxed)
    }

    /// Stores the error of a request, for later callers.
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

/// A full broker is not waited for, because callers must get this error. Nor is an error that a
/// test has injected.
pub(super) fn may_pass(error: &Error) -> bool {
    matches!(error, Error::Ambiguous { .. } | Error::Unavailable { .. }) && !error.is_injected()
}

impl Failure {
    /// The error for the job at this position of the batch.
    pub(super) fn of(&self, position: usize) -> Error {
        match self {
            Failure::Refused(error) => error.duplicate(),
            Failure::Unknown(lost) => unknown(lost.clone(), position),
        }
    }
}
