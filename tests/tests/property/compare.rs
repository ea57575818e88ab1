//! What two brokers are asked, and when two answers are the same.

use std::fmt::{self, Debug};

use queue_core::broker::{Diagnosis, DynBroker, JobState, StoredJob, StoredPage, StoredTransition, Turn, TurnAnswer};

use crate::world::Sides;

/// What is wrong.
pub(crate) type Check<T = ()> = Result<T, String>;

impl Sides {
    /// Asks both, and returns their answer. An error is an answer.
    pub(crate) async fn ask<T: Debug>(
        &self,
        what: &str,
        ask: impl AsyncFn(&DynBroker) -> queue_core::Result<T>,
    ) -> Check<queue_core::Result<T>> {
        self.ask_as(what, ask, |answer| answer).await
    }

    /// Asks both, and compares what matters of their answers; returns that of the second.
    pub(crate) async fn ask_as<T, U: Debug>(
        &self,
        what: &str,
        ask: impl AsyncFn(&DynBroker) -> queue_core::Result<T>,
        face: impl Fn(T) -> U,
    ) -> Check<queue_core::Result<U>> {
        let seed = fastrand::u64(..);
        // Names of parties are random in part. Both brokers draw the same.
        fastrand::seed(seed);
        let first = ask(&self.brokers[0]).await.map(&face);
        fastrand::seed(seed);
        let second = ask(&self.brokers[1]).await.map(&face);
        let text = |answer: &queue_core::Result<U>| match answer {
            Ok(answer) => format!("{answer:?}"),
            Err(error) => format!("error: {error}"),
        };
        self.equal(what, &text(&first), &text(&second))?;
        Ok(second)
    }

    /// Two texts, one of each side, are the same; or else: from a little before the place where
    /// they differ.
    pub(crate) fn equal(&self, what: &str, first: &str, second: &str) -> Check {
        if first == second {
            return Ok(());
        }
        let at = first.bytes().zip(second.bytes()).take_while(|(one, other)| one == other).count();
        let from = |text: &str| {
            let mut start = at.saturating_sub(160).min(text.len());
            while !text.is_char_boundary(start) {
                start -= 1;
            }
            text[start..].chars().take(600).collect::<String>()
        };
        Err(format!("{what}: {} says\n  …{}\nand {}\n  …{}", self.names[0], from(first), self.names[1], from(second)))
    }

    /// A turn; returns the answer of the second. A broker may promise more jobs than there are, and
    /// need not know when a job starts that waits for a limit.
    pub(crate) async fn ask_turn(&self, turn: &Turn, has_limits: bool) -> Check<queue_core::Result<TurnAnswer>> {
        let face = |mut answer: TurnAnswer| {
            let whole = answer.clone();
            answer.aside = sorted(answer.aside);
            (answer.as_of, answer.more, answer.suspects) = (None, false, false);
            answer.next_due = answer.next_due.filter(|_| !has_limits);
            Seen(format!("{answer:?}"), whole)
        };
        let answer = self.ask_as("turn", async |broker| broker.turn(turn).await, face).await?;
        Ok(answer.map(|Seen(_, answer)| answer))
    }

    /// A read that must not fail.
    pub(crate) async fn read<T: Debug>(&self, what: &str, ask: impl AsyncFn(&DynBroker) -> queue_core::Result<T>) -> Check<T> {
        self.ask(what, ask).await?.map_err(|error| format!("{what}: {error}"))
    }
}

/// An answer, and what is compared of it.
struct Seen<T>(String, T);

impl<T> Debug for Seen<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort();
    all
}

/// A page of a listing. The order of jobs that are due or have ended in the same millisecond is
/// free, and that of those that run. Ready jobs of one group and priority that differ in their
/// limits are listed in any order.
pub(crate) fn face_of_page(state: JobState, mut page: StoredPage, now_ms: i64) -> StoredPage {
    page.jobs.iter_mut().for_each(|job| face_of_job(job, now_ms));
    if state != JobState::Ready {
        page.jobs.sort_by(|one, other| (one.at_ms, &one.id).cmp(&(other.at_ms, &other.id)));
    } else if page.jobs.iter().any(|job| !job.limits.is_empty()) {
        page.jobs.sort_by(|one, other| (&one.group, one.priority, &one.limits).cmp(&(&other.group, other.priority, &other.limits)));
    }
    page
}

/// Where jobs stand. How many go before one is an upper bound: Redis counts those in its line that
/// were cancelled, too.
pub(crate) fn faces_of_diagnoses(mut diagnoses: Vec<Option<Diagnosis>>, now_ms: i64) -> Vec<Option<Diagnosis>> {
    for diagnosis in diagnoses.iter_mut().flatten() {
        diagnosis.line.iter_mut().for_each(|line| line.ahead = 0);
        face_of_job(&mut diagnosis.job, now_ms);
    }
    diagnoses
}

pub(crate) fn faces_of_jobs(mut jobs: Vec<Option<StoredJob>>, now_ms: i64) -> Vec<Option<StoredJob>> {
    jobs.iter_mut().flatten().for_each(|job| face_of_job(job, now_ms));
    jobs
}

/// A job that releases could not read, and whose time for that is over: when it is looked at again
/// is free.
fn face_of_job(job: &mut StoredJob, now_ms: i64) {
    if let Some(unreadable) = job.unreadable.as_mut().filter(|unreadable| unreadable.until_ms <= now_ms + 60_000) {
        unreadable.until_ms = 0;
    }
}

/// Transitions, of each job in order. In which order several jobs are told of that one step has
/// moved is free.
pub(crate) fn by_job(mut told: Vec<StoredTransition>) -> Vec<StoredTransition> {
    told.sort_by(|one, other| (&one.id, one.number).cmp(&(&other.id, other.number)));
    told.iter_mut().for_each(|told| told.number = 0);
    told
}
