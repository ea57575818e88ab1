//! Failures of runs since the last report, by fingerprint. A run that did not fail has no cost
//! here.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use queue_core::{
    JobId,
    broker::{
        Ending,
        history::{CRASHED, FailurePattern, OTHERS, PATTERNS_REPORTED},
    },
    inspect::Fingerprint,
};

/// By queue and fingerprint.
pub(super) struct Failures {
    release: Arc<str>,
    queues: Mutex<Vec<Patterns>>,
}

type Patterns = HashMap<Fingerprint, FailurePattern>;

impl Failures {
    pub(super) fn new(queues: usize, release: Arc<str>) -> Self {
        Failures { release, queues: Mutex::new((0..queues).map(|_| Patterns::new()).collect()) }
    }

    /// Records the ending of a delivery. `task` is absent if no handler had begun.
    pub(super) fn ended(&self, queue: usize, task: Option<&str>, job: &JobId, ending: &Ending) {
        let (text, task) = match ending {
            Ending::Nack { error, .. } | Ending::Bury { error: Some(error), .. } => (error, task),
            Ending::Unreadable { error, task, .. } => (error, Some(task.as_str())),
            _ => return,
        };
        self.add(queue, 1, text, task.unwrap_or(OTHERS), Some(job.clone()));
    }

    /// Records jobs of crashed workers that were charged with a crash.
    pub(super) fn crashed(&self, queue: usize, jobs: usize) {
        if jobs > 0 {
            self.add(queue, jobs as u64, CRASHED, OTHERS, None);
        }
    }

    fn add(&self, queue: usize, count: u64, text: &str, task: &str, job: Option<JobId>) {
        let pattern = Fingerprint::pattern(text);
        let print = Fingerprint::of_pattern(&pattern);
        let mut queues = self.lock();
        let kinds = &mut queues[queue];
        // The last place is reserved for failures without a place.
        let has_place = kinds.contains_key(&print) || kinds.len() < PATTERNS_REPORTED - 1;
        let (print, pattern) = if has_place { (print, pattern) } else { (Fingerprint::OTHERS, String::new()) };
        kinds.entry(print).or_insert_with(|| FailurePattern::new(print, pattern)).add(count, text, task, &self.release, job);
    }

    /// Takes the failures of a queue.
    pub(super) fn take(&self, queue: usize) -> Vec<FailurePattern> {
        mem::take(&mut self.lock()[queue]).into_values().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Patterns>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use queue_core::broker::BuryReason;

    use super::*;

    fn job(n: usize) -> JobId {
        JobId::given(&format!("j{n}")).unwrap()
    }

    fn nack(error: &str) -> Ending {
        Ending::Nack { delay: Duration::ZERO, error: error.to_owned() }
    }

    #[test]
    fn every_ending_that_failed_is_counted_by_what_it_says() {
        let failures = Failures::new(2, "v7".into());
        let bury = |error: Option<&str>| Ending::Bury { reason: BuryReason::Failed, error: error.map(str::to_owned) };
        let unreadable =
            Ending::Unreadable { task: "old".into(), release: "v7".into(), error: "release v7 cannot".into(), within: Duration::ZERO };
        let endings = [
            nack("order 17: no"),
            nack("order 4711: no"),
            bury(Some("order 1: no")),
            bury(None),
            unreadable,
            Ending::Return,
            Ending::Ack { result: None, keep: None },
        ];
        for (n, ending) in endings.iter().enumerate() {
            failures.ended(1, Some("mail"), &job(n), ending);
        }
        failures.crashed(1, 3);
        failures.crashed(1, 0);
        let mut taken = failures.take(1);
        taken.sort_by_key(|failure| failure.pattern.clone());
        let counted: Vec<_> = taken.iter().map(|failure| (failure.pattern.as_str(), failure.count, failure.tasks[0].0.as_str())).collect();
        assert_eq!(counted, [("order *: no", 3, "mail"), ("release v* cannot", 1, "old"), (CRASHED, 3, OTHERS)]);
        assert_eq!((taken[0].message.as_str(), &taken[0].releases[..]), ("order 1: no", &[("v7".to_owned(), 3)][..]));
        assert_eq!(taken[0].jobs, [0, 1, 2].map(job));
        assert!(failures.take(1).is_empty() && failures.take(0).is_empty(), "nothing is reported twice");
    }

    #[test]
    fn what_differs_too_much_is_counted_together() {
        let failures = Failures::new(1, "v7".into());
        let word = |n: usize| char::from(b'a' + u8::try_from(n % 26).unwrap()).to_string().repeat(1 + n / 26);
        for n in 0..PATTERNS_REPORTED + 10 {
            failures.ended(0, Some("mail"), &job(n), &nack(&word(n)));
        }
        failures.ended(0, Some("mail"), &job(0), &nack(&word(0)));
        let taken = failures.take(0);
        assert_eq!(taken.len(), PATTERNS_REPORTED);
        let others = taken.iter().find(|failure| failure.fingerprint == Fingerprint::OTHERS).expect("some are others");
        assert_eq!((others.count, others.pattern.as_str()), (11, ""));
    }
}
