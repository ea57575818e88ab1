//! The waiting time of each tenant, and the reasons.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use queue_core::{
    JobState,
    inspect::{Inspector, Reason},
};
use serde::Serialize;
use tokio::sync::Notify;

use crate::tasks::QUEUE;

/// The maximum number of waiting jobs in one read.
const LOOK: usize = 500;

/// The collected data.
#[derive(Debug)]
pub(crate) struct Board {
    begun: Instant,
    tenants: Mutex<BTreeMap<String, Tenant>>,
    changed: Notify,
}

/// The data of one tenant.
#[derive(Debug, Default)]
struct Tenant {
    jobs: usize,
    /// The time at which each job was done, since the beginning.
    done: Vec<Duration>,
    refused: u32,
    /// The number of samples of waiting jobs, by reason.
    waits: BTreeMap<&'static str, u64>,
}

/// A line of the report.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) tenant: String,
    pub(crate) jobs: usize,
    /// The times at which the first, the middle and the last job were done, in milliseconds since
    /// the beginning.
    pub(crate) first_ms: u64,
    pub(crate) half_ms: u64,
    pub(crate) all_ms: u64,
    /// How often the service refused a call.
    pub(crate) refused: u32,
    /// The percentage of samples of its waiting jobs with each reason.
    pub(crate) waited_for: BTreeMap<&'static str, u64>,
}

impl Board {
    pub(crate) fn new() -> Self {
        Board { begun: Instant::now(), tenants: Mutex::default(), changed: Notify::new() }
    }

    /// Adds expected jobs of a tenant.
    pub(crate) fn expects(&self, tenant: &str, jobs: u32) {
        self.lock().entry(tenant.to_owned()).or_default().jobs += jobs as usize;
    }

    /// A job of a tenant is done.
    pub(crate) fn done(&self, tenant: &str) {
        self.lock().entry(tenant.to_owned()).or_default().done.push(self.begun.elapsed());
        self.changed.notify_one();
    }

    /// The service has refused a call.
    pub(crate) fn refused(&self, tenant: &str) {
        self.lock().entry(tenant.to_owned()).or_default().refused += 1;
    }

    /// Waits until all expected jobs are done.
    pub(crate) async fn all_done(&self) {
        while !self.lock().values().all(|tenant| tenant.done.len() >= tenant.jobs) {
            self.changed.notified().await;
        }
    }

    /// Repeatedly reads why jobs wait.
    pub(crate) async fn watch(&self, inspector: Inspector) {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            // A failed read is only missing in the report.
            let Ok(mut page) = inspector.list(QUEUE, JobState::Ready, 0, LOOK).await else { continue };
            if inspector.add_reasons(QUEUE, &mut page.jobs).await.is_err() {
                continue;
            }
            let mut tenants = self.lock();
            for job in &page.jobs {
                // Some jobs have started since they were listed.
                let waits = job.waiting.first().filter(|reason| !matches!(reason, Reason::Runs(_) | Reason::Ended { .. }));
                if let (Some(group), Some(reason)) = (&job.group, waits) {
                    *tenants.entry(group.to_string()).or_default().waits.entry(reason.name()).or_default() += 1;
                }
            }
        }
    }

    /// The number of done jobs, and of all jobs. Jobs in the queue from another program are
    /// ignored, here and in the report.
    pub(crate) fn progress(&self) -> Vec<(String, usize, usize)> {
        self.lock()
            .iter()
            .filter(|(_, tenant)| tenant.jobs > 0)
            .map(|(name, tenant)| (name.clone(), tenant.done.len(), tenant.jobs))
            .collect()
    }

    /// The largest tenant first.
    pub(crate) fn report(&self) -> Vec<Line> {
        let mut lines: Vec<Line> =
            self.lock().iter().filter(|(_, tenant)| tenant.jobs > 0).map(|(name, tenant)| tenant.line(name)).collect();
        lines.sort_by_key(|line| Reverse(line.jobs));
        lines
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Tenant>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tenant {
    fn line(&self, name: &str) -> Line {
        let ms = |at: usize| self.done.get(at).map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let looks: u64 = self.waits.values().sum();
        Line {
            tenant: name.to_owned(),
            jobs: self.jobs,
            first_ms: ms(0),
            half_ms: ms(self.done.len() / 2),
            all_ms: ms(self.done.len().saturating_sub(1)),
            refused: self.refused,
            waited_for: self.waits.iter().map(|(reason, times)| (*reason, times * 100 / looks.max(1))).collect(),
        }
    }
}
