//! The end of every run: heal, drain and check.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use queue_core::broker::JobState;

use super::{
    Bed, Problem,
    child::{Producer, Worker},
    snapshot::{self, known},
};
use crate::{
    checker::{Verdict, check},
    events::TOPIC,
    history::{self, Operation, Phase},
    work::QUEUE,
};

/// The results of a run.
#[derive(Debug)]
pub struct Ended {
    /// The verdict of the checker.
    pub verdict: Verdict,
    /// The folder with the histories, if a promise was broken.
    pub histories: Option<PathBuf>,
    /// The number of times that the server has waited for its disk.
    pub disk_waits: u64,
    /// The measurements of the row, in milliseconds.
    pub figures: BTreeMap<&'static str, f64>,
}

impl Bed {
    /// Heals everything, drains, takes the final state, stops the workers, and checks. If a promise
    /// was broken, the folder with the histories is kept.
    ///
    /// # Errors
    /// If a process does not stop, or a history cannot be read.
    pub async fn finish(mut self) -> Result<Ended, Problem> {
        self.heal().await?;
        let schedules = self.end_schedules().await?;
        let drained_ms = self.drain().await?;
        let unended = self.producers.iter_mut().filter_map(|producer| (!producer.has_ended()).then_some(())).count();
        self.hear_everybody().await?;
        let end = self.resources();
        let disk_waits = self.place.disk_waits();
        let mut snapshot = snapshot::take(&self.client, &mut self.place).await?;
        (snapshot.drained_ms, snapshot.unended) = (drained_ms, unended);
        (snapshot.base, snapshot.end, snapshot.schedules) = (self.base, end, schedules);
        // Workers that have not drained are killed. The snapshot has the jobs that they hold.
        for worker in 0..self.workers.len() {
            if self.workers[worker].is_alive() {
                self.end(worker).await?;
            }
        }
        self.producers.clear();
        let records = history::read(self.folder.path())?;
        let verdict = check(&records, &snapshot, &self.setup.terms);
        // An investigation needs the whole history.
        let histories = (!verdict.violations.is_empty()).then(|| self.folder.keep());
        Ok(Ended { verdict, histories, disk_waits, figures: self.figures })
    }

    async fn heal(&mut self) -> Result<(), Problem> {
        self.bring_back()?;
        self.clear_lines();
        for worker in &self.workers {
            worker.signal("-CONT");
        }
        self.tend()?;
        while self.workers.iter().filter(|worker| worker.is_alive()).count() < self.setup.workers.max(1) {
            self.start_worker()?;
        }
        let client = self.client.clone();
        self.until("the broker to answer", async |_| client.inspector().queues().await.is_ok()).await?;
        for worker in &mut self.workers {
            worker.mark();
        }
        self.recorder.note(Phase::Ok, Operation::Heal);
        Ok(())
    }

    /// Waits until no work is left. Returns how long that took, or `None` if it did not happen.
    async fn drain(&mut self) -> Result<Option<u64>, Problem> {
        let began = Instant::now();
        let time = Duration::from_millis(self.setup.terms.drain_ms);
        let drained = self
            .until_within("the queue to drain", time, async |bed| {
                bed.is_empty().await.unwrap_or(false) && bed.producers.iter_mut().all(Producer::has_ended)
            })
            .await;
        Ok(drained.is_ok().then(|| u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)))
    }

    /// Whether every event was read, and no job waits or runs.
    async fn is_empty(&self) -> Result<bool, queue_core::Error> {
        let inspector = self.client.inspector();
        let topic = inspector.topic(TOPIC).await?;
        let subscriptions = || topic.iter().flat_map(|topic| &topic.subscriptions);
        for queue in std::iter::once(QUEUE).chain(subscriptions().map(|of| of.queue.as_str())) {
            let Some(stats) = known(inspector.stats(queue).await)? else { continue };
            if JobState::ALL.into_iter().any(|state| !state.is_final() && stats.count(state) > 0) {
                return Ok(false);
            }
        }
        Ok(subscriptions().all(|of| of.behind == Some(0)))
    }

    /// Gives every worker the time in which it has to renew a lease again. The checker decides
    /// whether it did.
    async fn hear_everybody(&mut self) -> Result<(), Problem> {
        let time = Duration::from_millis(self.setup.terms.resume_ms + 500);
        let heard = async |bed: &mut Bed| bed.workers.iter().filter(|worker| worker.is_alive()).all(Worker::has_spoken);
        let _ = self.until_within("every worker to speak", time, heard).await;
        Ok(())
    }
}
