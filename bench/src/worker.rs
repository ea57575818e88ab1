//! A worker of this process, and the jobs for it.

use std::{sync::Arc, time::Duration};

use queue_core::{Registry, prelude::*};
use queue_worker::Worker;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    Error,
    tasks::{
        Counter, Lateness, Starts, Ticks, age, due, fails, grouped, grouped_stamp, hundred_bytes, noop, nothing, stamp, ticked, unique,
    },
};

/// A worker in this process, until it is told to stop.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
    pub(crate) counter: Arc<Counter>,
    pub(crate) starts: Arc<Starts>,
    pub(crate) lateness: Arc<Lateness>,
    pub(crate) ticks: Arc<Ticks>,
}

impl Running {
    pub(crate) fn start(client: &Client, concurrency: usize) -> Self {
        Running::with(client, concurrency, |worker| worker)
    }

    /// Serves these queues; those of all tasks without any.
    pub(crate) fn serving(client: &Client, concurrency: usize, queues: &[String]) -> Self {
        Running::with(client, concurrency, |worker| queues.iter().fold(worker, |worker, queue| worker.queue(queue.as_str())))
    }

    /// With further settings.
    pub(crate) fn with(client: &Client, concurrency: usize, settings: impl FnOnce(Worker) -> Worker) -> Self {
        let (stop, counter) = (CancellationToken::new(), Arc::new(Counter::default()));
        let (starts, lateness, ticks) = (Arc::new(Starts::default()), Arc::new(Lateness::default()), Arc::new(Ticks::default()));
        // Our tasks alone: those of the tests' clusters are linked in as well.
        let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<noop>().register::<stamp>();
        let worker = worker
            .register::<due>()
            .register::<age>()
            .register::<nothing>()
            .register::<fails>()
            .register::<unique>()
            .register::<ticked>()
            .register::<grouped>()
            .register::<grouped_stamp>()
            .concurrency(concurrency);
        let worker = settings(worker.data(counter.clone()).data(starts.clone()).data(lateness.clone()).data(ticks.clone()));
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = worker.run(stopped.cancelled_owned()).await {
                eprintln!("the worker failed: {error}");
            }
        });
        Running { stop, task, counter, starts, lateness, ticks }
    }

    /// Lets it run until the end of the process.
    pub(crate) async fn forever(self) {
        let _ = self.task.await;
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

/// How long a figure may wait for its jobs.
pub(crate) fn patience() -> Duration {
    queue_tests::patience::patience() * 2
}

/// So many jobs that do nothing, with payloads of 100 bytes.
pub(crate) fn jobs(n: usize) -> impl Iterator<Item = Job<noop>> + Send + use<> {
    jobs_of(n, hundred_bytes())
}

/// The same with this parameter.
pub(crate) fn jobs_of(n: usize, parameter: String) -> impl Iterator<Item = Job<noop>> + Send + use<> {
    (0..n).map(move |_| noop::job(parameter.clone()))
}

/// Jobs per second of a worker that finds these many waiting.
pub(crate) async fn drain(running: &Running, begun: std::time::Instant, n: usize) -> Result<f64, Error> {
    running.counter.all(patience()).await?;
    Ok(n as f64 / begun.elapsed().as_secs_f64())
}
