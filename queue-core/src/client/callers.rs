//! The callers that wait for the answers to a request, and their deadlines.

use std::{sync::Arc, time::Duration};

use tokio::{sync::oneshot, time::Instant};

use super::{
    pending::{Lost, unknown},
    producer::{Answer, Failure},
};
use crate::{broker::NewJob, error::Result};

/// A broker ends a call at its deadline itself, with a precise error. The caller stops waiting this
/// much later.
pub(super) const LATE: Duration = Duration::from_millis(20);

/// Callers whose deadlines are this close together are answered together.
const TOGETHER: Duration = Duration::from_millis(10);

/// The caller of a single job.
#[derive(Debug)]
pub(super) struct Waiter {
    /// The deadline.
    pub(super) until: Instant,
    pub(super) answer: oneshot::Sender<Result<Answer>>,
}

/// The callers of a request.
#[derive(Debug)]
pub(super) enum Callers {
    /// One for all of its jobs.
    One(Instant),
    /// One for each job, in order; answered callers are removed.
    Each(Vec<Option<Waiter>>),
}

impl Callers {
    /// The first deadline of the waiting callers. `None`: no caller waits.
    pub(super) fn first(&self) -> Option<Instant> {
        match self {
            Callers::One(until) => Some(*until),
            Callers::Each(callers) => callers.iter().flatten().map(|caller| caller.until).min(),
        }
    }

    /// The latest deadline.
    pub(super) fn last(&self) -> Instant {
        match self {
            Callers::One(until) => *until,
            Callers::Each(callers) => callers.iter().flatten().map(|caller| caller.until).max().unwrap_or_else(Instant::now),
        }
    }

    /// The last deadline of the callers that are answered with the first.
    pub(super) fn next(&self) -> Instant {
        let Some(first) = self.first() else { return Instant::now() };
        match self {
            Callers::One(until) => *until,
            Callers::Each(callers) => {
                let together = callers.iter().flatten().map(|caller| caller.until).filter(|until| *until <= first + TOGETHER);
                together.max().unwrap_or(first)
            }
        }
    }

    /// Whether the deadline of a caller has passed.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.first().is_none_or(|first| first <= now)
    }

    /// Whether no caller waits any more.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        match self {
            Callers::One(until) => *until <= now,
            Callers::Each(callers) => callers.iter().all(Option::is_none),
        }
    }

    /// Answers the callers whose deadline has passed that their jobs were not stored, and removes
    /// these jobs from the request.
    pub(super) fn withdraw(&mut self, now: Instant, jobs: &mut Vec<NewJob>, failure: &Failure) {
        let Callers::Each(callers) = self else { return };
        let mut position = 0;
        jobs.retain(|_| {
            position += 1;
            callers.get(position - 1).is_some_and(|caller| caller.as_ref().is_some_and(|caller| caller.until > now))
        });
        for (position, caller) in callers.iter_mut().enumerate() {
            if let Some(caller) = caller.take_if(|caller| caller.until <= now) {
                drop(caller.answer.send(Err(failure.of(position))));
            }
        }
        callers.retain(Option::is_some);
    }

    /// Answers the callers whose deadline has passed that it is unknown whether their jobs are
    /// stored.
    pub(super) fn fail_overdue(&mut self, now: Instant, lost: &Arc<Lost>) {
        let Callers::Each(callers) = self else { return };
        for (position, caller) in callers.iter_mut().enumerate() {
            if let Some(caller) = caller.take_if(|caller| caller.until <= now) {
                let unknown = unknown(lost.clone(), position);
                drop(caller.answer.send(Err(unknown)));
            }
        }
    }

    /// Answers the callers that still wait. Callers that were dropped meanwhile do not.
    pub(super) fn answer(self, outcome: Result<Vec<Answer>, Failure>) {
        let Callers::Each(callers) = self else { return };
        match outcome {
            Ok(answers) => callers.into_iter().zip(answers).for_each(|(caller, answer)| {
                if let Some(caller) = caller {
                    drop(caller.answer.send(Ok(answer)));
                }
            }),
            Err(failure) => callers.into_iter().enumerate().for_each(|(position, caller)| {
                if let Some(caller) = caller {
                    drop(caller.answer.send(Err(failure.of(position))));
                }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobId, error::Error};

    #[tokio::test(start_paused = true)]
    async fn only_overdue_callers_get_an_error() {
        let now = Instant::now();
        let (callers, mut answers): (Vec<_>, Vec<_>) = [100, 5, 107, 5_000]
            .into_iter()
            .map(|millis| {
                let (answer, answered) = oneshot::channel();
                (Some(Waiter { until: now + Duration::from_millis(millis), answer }), answered)
            })
            .unzip();
        let mut jobs: Vec<NewJob> = (0..4_u8).map(|n| NewJob::new(JobId::make(), vec![n])).collect();
        let mut callers = Callers::Each(callers);
        assert_eq!((callers.first(), callers.next()), (Some(now + Duration::from_millis(5)), now + Duration::from_millis(5)));
        let failure = Failure::Refused(Error::unavailable("here", "it is away"));
        callers.withdraw(now + Duration::from_millis(5), &mut jobs, &failure);
        assert!(matches!(answers[1].try_recv(), Ok(Err(Error::Unavailable { .. }))));
        assert_eq!(jobs.iter().map(|job| job.envelope[0]).collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!((callers.next(), callers.last()), (now + Duration::from_millis(107), now + Duration::from_millis(5_000)));
        assert!(!callers.is_due(now + Duration::from_millis(99)) && callers.is_due(now + Duration::from_millis(100)));
        callers.answer(Err(failure));
        for position in [0, 2, 3] {
            assert!(answers[position].try_recv().is_ok(), "{position}");
        }
    }
}
