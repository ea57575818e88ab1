//! Starting and restarting the processes of a run.

use std::path::PathBuf;

use super::{
    Bed, Problem,
    child::{Around, Producer, Worker},
};
use crate::{
    events::Subscriber,
    history::{Operation, Phase, Recorder},
    process::{Common, ProducerOrders, WorkerOrders},
    recording::Failpoint,
};

impl Bed {
    /// Starts another worker.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_worker(&mut self) -> Result<usize, Problem> {
        self.launch(None, self.setup.tomorrow, 0)
    }

    /// Kills a worker, and starts another one that serves the same subscriptions.
    ///
    /// # Errors
    /// If that cannot be started.
    pub fn replace(&mut self, worker: usize) -> Result<usize, Problem> {
        let served = self.workers[worker].subscribers().to_vec();
        self.kill(worker);
        self.start_worker_of(&served)
    }

    /// Starts another worker, which serves these subscriptions.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_worker_of(&mut self, subscribers: &[Subscriber]) -> Result<usize, Problem> {
        self.launch_of(None, self.setup.tomorrow, 0, subscribers.to_vec())
    }

    /// Starts another worker with this error of its wall clock.
    ///
    /// # Errors
    /// If there is no C compiler.
    pub fn start_worker_at(&mut self, moved_ms: i64) -> Result<usize, Problem> {
        self.launch(None, self.setup.tomorrow, moved_ms)
    }

    /// Starts another worker, which kills itself at a failpoint, or has more tasks.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_worker_with(&mut self, failpoint: Option<Failpoint>, tomorrow: bool) -> Result<usize, Problem> {
        self.launch(failpoint, tomorrow, 0)
    }

    fn launch(&mut self, failpoint: Option<Failpoint>, tomorrow: bool, moved_ms: i64) -> Result<usize, Problem> {
        let all = self.setup.subscribers;
        let subscribers = if all.is_empty() { Vec::new() } else { all[self.started % all.len()].to_vec() };
        self.launch_of(failpoint, tomorrow, moved_ms, subscribers)
    }

    fn launch_of(
        &mut self,
        failpoint: Option<Failpoint>,
        tomorrow: bool,
        moved_ms: i64,
        subscribers: Vec<Subscriber>,
    ) -> Result<usize, Problem> {
        self.started += 1;
        let line = self.place.line();
        let orders = WorkerOrders {
            common: self.common(format!("w{}", self.started), line.url(&self.place)),
            lease_ms: self.setup.terms.lease_ms,
            concurrency: self.setup.concurrency,
            backoff_ms: self.setup.terms.backoff_ms,
            failpoint,
            tomorrow,
            late_ticks: self.setup.late_ticks,
            subscribers,
        };
        let around = Around { moved_ms, pid: self.setup.pid, memory_mb: self.setup.memory_mb, disk: self.disk_log() };
        self.workers.push(Worker::start(&self.program, orders, line, &around)?);
        Ok(self.workers.len() - 1)
    }

    pub(super) fn start_producer(&mut self, n: u64) -> Result<(), Problem> {
        let line = self.place.line();
        let orders = ProducerOrders {
            common: self.common(format!("p{}", n + 1), line.url(&self.place)),
            first_key: (n + 1) << 40,
            jobs: self.setup.jobs / self.setup.producers,
            callers: self.setup.callers,
            pause_ms: self.setup.pause_ms,
            deadline_ms: self.setup.deadline_ms,
            seed: self.rng.u64(..),
            mix: self.setup.mix.clone(),
        };
        self.producers.push(Producer::start(&self.program, orders, line, &Around { disk: self.disk_log(), ..Around::default() })?);
        Ok(())
    }

    /// The file in which processes record their file operations.
    fn disk_log(&self) -> Option<PathBuf> {
        self.recording.as_ref().map(|recording| recording.log().to_owned())
    }

    pub(super) fn common(&self, name: String, url: String) -> Common {
        Common { history: self.folder.path().join(format!("{name}.jsonl")), name, url }
    }

    /// Starts a worker for each that has ended unexpectedly, like a service manager.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn tend(&mut self) -> Result<(), Problem> {
        for worker in 0..self.workers.len() {
            if self.workers[worker].has_just_ended() {
                self.harm("died", self.workers[worker].name());
                self.note_down(worker);
                let served = self.workers[worker].subscribers().to_vec();
                self.start_worker_of(&served)?;
            }
        }
        Ok(())
    }

    pub(super) fn note_down(&self, worker: usize) {
        let name = self.workers[worker].name();
        // The history of the worker itself may end in a torn line, so this record has a separate
        // file.
        if let Ok(recorder) = Recorder::open(&self.folder.path().join("ends.jsonl"), name) {
            recorder.note(Phase::Ok, Operation::Down);
        }
    }
}
