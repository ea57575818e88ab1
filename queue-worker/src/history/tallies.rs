//! Counters of the jobs of each task. Counting makes no allocation per job.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use queue_core::broker::{
    BuryReason, Ending,
    history::{OTHERS, TASKS, Tally},
};

use crate::{messages::Ran, metrics::TaskMetrics};

/// By queue and task.
pub(super) struct Tallies {
    queues: Vec<Arc<str>>,
    cells: Mutex<Vec<Cells>>,
}

type Cells = HashMap<Arc<str>, Cell>;

struct Cell {
    tally: Tally,
    /// A job of the task has repeated. The start of the wait of its next rounds is unknown.
    repeats: bool,
    metrics: TaskMetrics,
}

impl Tallies {
    pub(super) fn new(queues: Vec<Arc<str>>) -> Self {
        Tallies { cells: Mutex::new(queues.iter().map(|_| HashMap::new()).collect()), queues }
    }

    /// Records that a handler of this task begins.
    pub(super) fn begun(&self, queue: usize, task: &str) {
        let mut queues = self.lock();
        let cell = self.cell(&mut queues, queue, task);
        cell.tally.counts.started += 1;
        cell.metrics.begun();
    }

    /// Records the ending of a delivery. `task` and `ran` are absent if no handler had begun.
    pub(super) fn ended(&self, queue: usize, task: Option<&str>, ran: Option<Ran>, ending: &Ending, lost: bool) {
        let mut queues = self.lock();
        let Cell { tally, repeats, metrics } = self.cell(&mut queues, queue, task.unwrap_or(OTHERS));
        let ran = ran.map(|ran| Ran { waited: ran.waited.filter(|_| !*repeats), ..ran });
        if let Some(ran) = ran {
            tally.run.add(ran.took);
            if let Some(waited) = ran.waited {
                tally.wait.add(waited);
            }
        }
        metrics.ended(if lost { "lost" } else { outcome(ending) }, ran);
        let counts = &mut tally.counts;
        match ending {
            _ if lost => counts.lost += 1,
            Ending::Ack { .. } => counts.done += 1,
            Ending::Nack { .. } => counts.failed += 1,
            Ending::Snooze { .. } | Ending::RateLimited { .. } => counts.snoozed += 1,
            Ending::Repeat { .. } => {
                counts.repeated += 1;
                *repeats = true;
            }
            Ending::Bury { reason, .. } => {
                counts.dead += 1;
                counts.failed += u64::from(*reason == BuryReason::Failed);
            }
            Ending::Cancel { .. } => counts.cancelled += 1,
            Ending::Expire => counts.expired += 1,
            Ending::Park { .. } | Ending::Unreadable { .. } => counts.parked += 1,
            _ => counts.returned += 1,
        }
    }

    /// Records jobs of crashed workers that were reclaimed.
    pub(super) fn reclaimed(&self, queue: usize, charged: usize, buried: usize) {
        if charged + buried > 0 {
            let mut queues = self.lock();
            let counts = &mut self.cell(&mut queues, queue, OTHERS).tally.counts;
            counts.crashed += (charged + buried) as u64;
            counts.dead += buried as u64;
        }
    }

    /// Records jobs that were buried because no release could read them.
    pub(super) fn buried(&self, queue: usize, jobs: usize) {
        if jobs > 0 {
            self.cell(&mut self.lock(), queue, OTHERS).tally.counts.dead += jobs as u64;
        }
    }

    /// Takes the tallies of a queue, of at most [`TASKS`] tasks.
    pub(super) fn take(&self, queue: usize) -> Vec<(Arc<str>, Tally)> {
        let mut queues = self.lock();
        let some = queues[queue].iter_mut().filter(|(_, cell)| !cell.tally.is_empty()).take(TASKS);
        let taken = some.map(|(task, cell)| {
            let tally = cell.tally.clone();
            cell.tally.clear();
            (task.clone(), tally)
        });
        taken.collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Cells>> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tasks are those of the registry, so their number is bounded.
    fn cell<'a>(&self, queues: &'a mut [Cells], queue: usize, task: &str) -> &'a mut Cell {
        let tasks = &mut queues[queue];
        if !tasks.contains_key(task) {
            let metrics = TaskMetrics::new(&self.queues[queue], task, tasks.len());
            tasks.insert(task.into(), Cell { tally: Tally::default(), repeats: false, metrics });
        }
        tasks.get_mut(task).expect("it was there, or was put there")
    }
}

/// The label of an ending in metrics.
fn outcome(ending: &Ending) -> &'static str {
    match ending {
        Ending::Ack { .. } => "done",
        Ending::Nack { .. } => "retried",
        Ending::Snooze { .. } => "snoozed",
        Ending::RateLimited { .. } => "rate_limited",
        Ending::Repeat { .. } => "repeated",
        Ending::Bury { .. } => "dead",
        Ending::Cancel { .. } => "cancelled",
        Ending::Expire => "expired",
        Ending::Park { .. } | Ending::Unreadable { .. } => "parked",
        _ => "returned",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RAN: Option<Ran> = Some(Ran { waited: Some(Duration::from_secs(1)), took: Duration::from_millis(5) });

    #[test]
    fn every_ending_is_counted_once_and_as_what_it_is() {
        let tallies = Tallies::new(vec!["idle".into(), "mails".into()]);
        let error = "no".to_owned();
        let endings = [
            Ending::Ack { result: None, keep: None },
            Ending::Nack { delay: Duration::ZERO, error: error.clone() },
            Ending::Bury { reason: BuryReason::Failed, error: Some(error.clone()) },
            Ending::Bury { reason: BuryReason::Buried, error: Some(error) },
            Ending::Return,
        ];
        for ending in &endings {
            tallies.begun(1, "mail");
            tallies.ended(1, Some("mail"), RAN, ending, false);
        }
        tallies.ended(1, Some("mail"), RAN, &endings[0], true);
        tallies.ended(1, None, None, &Ending::Park { task: "strange".to_owned() }, false);
        tallies.reclaimed(1, 2, 1);
        let mut taken: HashMap<_, _> = tallies.take(1).into_iter().collect();
        let mail = taken.remove("mail").unwrap();
        let counts = mail.counts;
        assert_eq!((counts.started, counts.done, counts.failed, counts.dead, counts.returned, counts.lost), (5, 1, 2, 2, 1, 1));
        assert_eq!((mail.run.count(), mail.wait.count()), (6, 6));
        let others = taken.remove(OTHERS).unwrap().counts;
        assert_eq!((others.parked, others.crashed, others.dead), (1, 3, 1));
        assert!(taken.is_empty() && tallies.take(1).is_empty() && tallies.take(0).is_empty(), "nothing is reported twice");
    }

    #[test]
    fn since_when_the_next_round_of_a_repeating_job_waits_is_not_known() {
        let tallies = Tallies::new(vec!["poller".into()]);
        for _ in 0..3 {
            tallies.ended(0, Some("poll"), RAN, &Ending::Repeat { delay: Duration::ZERO }, false);
        }
        let (_, poll) = tallies.take(0).remove(0);
        assert_eq!((poll.counts.repeated, poll.run.count(), poll.wait.count()), (3, 3, 1));
    }
}
