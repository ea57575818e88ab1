//! Conversion of the application's [`Outcome`] into the broker's [`Ending`].

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use queue_core::{
    __private::{Encoded, panic_text},
    CancelCause, Failure, JobContext, Outcome, TaskDef,
    broker::{BuryReason, Ending},
};

use super::{Run, inject::Options};
use crate::{
    config::{CustomBackoff, FailedAttempt},
    letters::address,
};

/// The longest delay that a handler can request.
const LONGEST: Duration = queue_core::__private::LONGEST;

/// How often a job is rate limited before it is buried.
const RATE_LIMITED_MOST: u32 = 1000;

fn rate_limited(context: &JobContext, after: Duration, limit: Option<String>) -> Ending {
    if context.rate_limited() + 1 >= RATE_LIMITED_MOST {
        let error = format!("rate limited {RATE_LIMITED_MOST} times");
        return Ending::Bury { reason: BuryReason::Buried, error: Some(error) };
    }
    Ending::RateLimited { after: after.min(LONGEST), limit }
}

impl Run {
    pub(super) fn ending(&self, outcome: Outcome, task: &TaskDef, options: &Options, context: &JobContext) -> Ending {
        let timed_out = || format!("timed out after {:?}", options.timeout.unwrap_or_default());
        match (outcome, context.cancel_cause()) {
            (Outcome::Done, _) => Ending::Ack { result: None, keep: options.keep },
            (Outcome::DoneWith(result), _) => {
                let is_wanted = options.keep.is_some() || self.watched.is_valid();
                let result = is_wanted.then(|| self.stored(result, task, context));
                Ending::Ack { result, keep: options.keep }
            }
            (Outcome::Stopped(CancelCause::TimedOut), Some(_)) => self.failed(task, options, None, timed_out().into(), context),
            (Outcome::Failed(error), Some(CancelCause::TimedOut)) => {
                self.failed(task, options, None, format!("{}: {error}", timed_out()).into(), context)
            }
            // The handler was asked to stop and has returned an error for that reason. The job is
            // not charged, or its ending is already stale.
            (Outcome::Failed(_) | Outcome::Stopped(_), Some(cause)) => Ending::Stopped { by_shutdown: cause == CancelCause::Shutdown },
            (Outcome::Failed(error) | Outcome::Retry(error), _) => self.failed(task, options, None, error, context),
            (Outcome::RetryAfter(delay, why), _) => self.failed(task, options, Some(delay), why, context),
            (Outcome::Snooze(delay), _) => Ending::Snooze { delay: delay.min(LONGEST) },
            (Outcome::RateLimited(after), _) => rate_limited(context, after, None),
            (Outcome::RateLimitedBy(name, after), _) => rate_limited(context, after, Some(name)),
            (Outcome::Repeat(delay), _) => Ending::Repeat { delay: delay.min(LONGEST) },
            (Outcome::Cancel(reason), _) => Ending::Cancel { reason },
            (Outcome::Bury(why), _) => Ending::Bury { reason: BuryReason::Buried, error: Some(why) },
            (Outcome::Undecodable(problem), _) => self.unreadable(task, problem, context),
            // A panic, or a handler that returned `Stopped` without having been cancelled.
            (other, _) => self.failed(task, options, None, other.to_string().into(), context),
        }
    }

    /// Parks the job: another release may be able to read it.
    fn unreadable(&self, task: &TaskDef, problem: String, context: &JobContext) -> Ending {
        let within = self.shared.settings.unreadable_for;
        if within.is_zero() {
            return Ending::Bury { reason: BuryReason::Undecodable, error: Some(problem) };
        }
        let (job, release) = (address(&self.queue, context.id()), self.shared.identity.release.as_ref());
        tracing::warn!(
            %job,
            task = task.name,
            release,
            buried_in = ?within,
            error = problem,
            "parked: this release cannot read the job's parameters; a worker of a release that can read them runs the job"
        );
        let error = format!("release {release} cannot read it: {problem}");
        Ending::Unreadable { task: task.name.to_owned(), release: release.to_owned(), error, within: within.min(LONGEST) }
    }

    fn stored(&self, result: Encoded, task: &TaskDef, context: &JobContext) -> Vec<u8> {
        let (stored, problem) = result.into_stored();
        if let Some(problem) = problem {
            let (job, attempt) = (address(&self.queue, context.id()), context.attempt());
            tracing::error!(%job, task = task.name, attempt, error = problem, "the job is done, but its result was dropped");
        }
        stored
    }

    /// The job failed. It is retried after this delay or after the backoff, unless this was its
    /// last attempt.
    fn failed(&self, task: &TaskDef, options: &Options, delay: Option<Duration>, failure: Failure, context: &JobContext) -> Ending {
        let (queue, name, attempt) = (&*self.queue, task.name, context.attempt());
        if attempt >= options.max_attempts {
            return Ending::Bury { reason: BuryReason::Failed, error: Some(failure.into_text()) };
        }
        let settings = &self.shared.settings;
        let delay = delay.unwrap_or_else(|| {
            let delay = task.backoff.unwrap_or(settings.backoff).delay(attempt);
            let Some(CustomBackoff(custom)) = &settings.custom_backoff else { return delay };
            let failed = FailedAttempt { task: name, queue, attempt, error: failure.text(), failure: &failure, delay };
            catch_unwind(AssertUnwindSafe(|| custom(&failed))).unwrap_or_else(|panic| {
                let error = panic_text(panic);
                tracing::error!(queue, task = name, error, "the custom backoff panicked; the default backoff is used");
                delay
            })
        });
        let (job, error) = (address(queue, context.id()), failure.into_text());
        tracing::warn!(%job, task = name, attempt, retry_in = ?delay, error, "the job has failed and will run again");
        Ending::Nack { delay: delay.min(LONGEST), error }
    }
}

#[cfg(test)]
mod tests {
    use queue_core::TestContext;

    use super::*;

    #[test]
    fn the_thousandth_rate_limit_buries_a_job_however_often_it_has_snoozed() {
        let ending = |context: TestContext| rate_limited(&context.build(), Duration::from_secs(1), None);
        assert!(matches!(ending(TestContext::new().snoozes(5_000).rate_limited(998)), Ending::RateLimited { .. }));
        let Ending::Bury { reason: BuryReason::Buried, error } = ending(TestContext::new().rate_limited(999)) else {
            panic!("it is the thousandth time");
        };
        assert_eq!(error.as_deref(), Some("rate limited 1000 times"));
    }
}
