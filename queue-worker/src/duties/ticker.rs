//! Makes the ticks of schedules when they are due.
//!
//! It wakes for the earliest known tick, by an alarm as exact as that of due jobs, and for
//! announcements of earlier ticks. Idle schedules are cheap: the ticker polls rarely, in case an
//! announcement was lost, and even less often if it has never seen a schedule. The broker decides
//! which worker makes a tick: it returns a due schedule to one of them.
//!
//! A tick is made exactly once, even after crashes: the broker compares the state of the schedule
//! with the one that was read, and stores the job in the same transition.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use queue_core::{
    broker::DynBroker,
    schedule::{DueTicks, Ticks, tick_due},
};
use tokio_util::sync::CancellationToken;

use super::Duty;
use crate::{
    metrics,
    queues::Queues,
    time::now,
    tuning::{LOGGED_AGAIN, SCHEDULES_ASKED, SCHEDULES_SOUGHT, TICK_PATIENCE, TICKS_TOGETHER},
};

pub(crate) struct Ticker {
    broker: DynBroker,
    queues: Queues,
    /// When the schedules of each queue are read next.
    next: Vec<Instant>,
    /// When a problem was last logged.
    logged: Option<Instant>,
}

impl Ticker {
    pub(crate) fn new(broker: DynBroker, queues: Queues) -> Self {
        let next = queues.iter().map(|_| now()).collect();
        Ticker { broker, queues, next, logged: None }
    }

    async fn make_ticks(mut self) {
        let broker = self.broker.clone();
        let alarm = broker.alarm();
        let listen = |queue: usize, mut hints: queue_core::broker::Hints| async move {
            let hint = hints.next().await;
            (queue, hints, hint)
        };
        let hints = self.queues.iter().enumerate().map(|(at, queue)| listen(at, broker.tick_hints(&queue.name)));
        let mut hints: FuturesUnordered<_> = hints.collect();
        loop {
            let earliest = self.next.iter().copied().min();
            tokio::select! {
                Some((queue, again, hint)) = hints.next() => {
                    let due = hint.due.unwrap_or_else(now);
                    self.next[queue] = self.next[queue].min(due);
                    hints.push(listen(queue, again));
                }
                () = wait(&alarm, earliest) => drop(self.tick().await),
            }
        }
    }

    /// Reads the schedules of the queues that are due. Returns the number of ticks that were made.
    pub(crate) async fn tick(&mut self) -> usize {
        let now = now();
        let due: Vec<usize> = (0..self.next.len()).filter(|queue| self.next[*queue] <= now).collect();
        let mut made = 0;
        for some in due.chunks(TICKS_TOGETHER) {
            let this = &*self;
            let asked: FuturesUnordered<_> = some.iter().map(|queue| async move { (*queue, this.ask(*queue).await) }).collect();
            for (queue, answer) in asked.collect::<Vec<_>>().await {
                made += self.answered(queue, answer);
            }
        }
        made
    }

    /// A call that never returns must not stop the ticks of other queues.
    async fn ask(&self, queue: usize) -> Option<DueTicks> {
        let asked = tick_due(&self.broker, &self.queues[queue].name, TICKS_TOGETHER);
        match tokio::time::timeout(TICK_PATIENCE, asked).await {
            Ok(Ok(ticks)) => Some(ticks),
            // Other duties report an outage.
            Ok(Err(error)) => {
                tracing::debug!(queue = &*self.queues[queue].name, %error, "cannot read the schedules of the queue");
                None
            }
            Err(_) => None,
        }
    }

    fn answered(&mut self, queue: usize, answer: Option<DueTicks>) -> usize {
        let asked_at = now();
        let Some(DueTicks { schedules, next_due }) = answer else {
            self.next[queue] = asked_at + Duration::from_secs(1);
            return 0;
        };
        let is_known = !schedules.is_empty() || next_due.is_some();
        if is_known {
            self.queues[queue].has_schedules.store(true, Ordering::Relaxed);
        }
        // The announcement of another new schedule may have been lost.
        let most = if is_known { SCHEDULES_ASKED } else { SCHEDULES_SOUGHT }.mul_f64(0.75 + fastrand::f64() / 4.0);
        self.next[queue] = asked_at + next_due.map_or(most, |due| due.min(most));
        schedules.iter().map(|ticks| self.log_ticks(queue, ticks)).sum()
    }

    fn log_ticks(&mut self, queue: usize, ticks: &Ticks) -> usize {
        let (name, queue) = (&*ticks.name, &*self.queues[queue].name);
        metrics::ticked(queue, &ticks.late, ticks.skipped);
        if ticks.skipped > 0 {
            tracing::info!(
                queue,
                schedule = name,
                skipped = ticks.skipped,
                "ticks of a schedule were skipped; `schedules show` prints the reason"
            );
        }
        if let Some(error) = &ticks.problem {
            if error.is_transient() {
                tracing::debug!(queue, schedule = name, %error, "a tick is delayed: the broker is unavailable or full");
            } else if self.logged.is_none_or(|logged| now() >= logged + LOGGED_AGAIN) {
                self.logged = Some(now());
                tracing::warn!(queue, schedule = name, %error, "this worker cannot create the job of a tick; another worker may");
            }
        }
        ticks.late.len()
    }
}

async fn wait(alarm: &queue_core::__private::Alarm, until: Option<Instant>) {
    match until {
        Some(until) => alarm.until(until).await,
        None => std::future::pending().await,
    }
}

impl Duty for Ticker {
    const NAME: &'static str = "ticker";

    async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.make_ticks()).await;
    }
}

#[cfg(test)]
mod tests {
    use queue_core::{Client, RawJob, schedule::Schedule};

    use super::*;
    use crate::queues::queues;

    #[tokio::test]
    async fn what_is_due_is_made_once_by_many_workers() {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let job = RawJob::new("report", vec![0x80]).queue("reports");
        client.schedules().upsert(Schedule::every("often", Duration::from_secs(1)).raw_job(job)).await.unwrap();
        let ticker = || Ticker::new(client.broker().clone(), queues(["reports"]));
        let mut tickers = [ticker(), ticker()];
        let mut made = 0;
        while made < 2 {
            for ticker in &mut tickers {
                ticker.next[0] = now();
                made += ticker.tick().await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let record = client.schedules().get(&"reports/often".parse().unwrap()).await.unwrap().unwrap();
        assert_eq!((record.made, record.skipped), (made as u64, 0));
        let jobs = client.inspector().stats("reports").await.unwrap();
        assert_eq!(jobs.count(queue_core::JobState::Ready), made as u64);
    }
}
