//! Aging: jobs that wait rise by one priority each time that they have waited for so long, and stand behind those that have it already.

use std::time::Duration;

use queue_core::{
    JobId,
    broker::{AgingRecord, AgingSet, DUE_ITEMS, Priority, SetAging},
};

use super::{Model, Place};

impl Model {
    /// How often jobs rise; `None`: they do not.
    pub fn aging(&self) -> Option<Duration> {
        AgingRecord::every_in(&self.aging)
    }

    /// Changes that, if what is stored is what was read.
    pub fn set_aging(&mut self, request: &SetAging) -> AgingSet {
        if self.aging != request.stored {
            if self.aging != request.expected {
                return AgingSet::Stale(self.aging.clone());
            }
            self.aging.clone_from(&request.stored);
        }
        if self.aging().is_none() {
            let ids: Vec<JobId> = self.jobs.keys().cloned().collect();
            ids.iter().for_each(|id| self.jobs.edit(id).rises = None);
        }
        AgingSet::Set
    }

    /// A job that comes into the line rises from now on.
    pub(super) fn set_out(&mut self, id: &JobId) {
        let at = self.aging().map(|every| self.after(every));
        let job = self.jobs.edit(id);
        (job.rises, job.risen) = (at.filter(|_| job.priority != Priority::Critical), None);
    }

    /// A job is not ready any more.
    pub(super) fn rest(&mut self, id: &JobId) {
        let job = self.jobs.edit(id);
        (job.rises, job.risen) = (None, None);
    }

    /// Jobs that have waited for long enough rise: as many as may become due at once.
    pub(in crate::model) fn rise(&mut self) {
        let Some(every) = self.aging() else { return };
        let mut left = DUE_ITEMS;
        for _ in 0..3 {
            let line: Vec<JobId> = self.ready.page(0).chain(self.groups.page()).cloned().collect();
            // Those of one time in the order in which they stand.
            let mut due: Vec<(i64, JobId)> = line.into_iter().filter_map(|id| Some((self.jobs[&id].rises?, id))).collect();
            due.retain(|(at, _)| *at <= self.now);
            due.sort_by_key(|(at, _)| *at);
            due.truncate(left);
            left -= due.len();
            for (at, id) in due {
                let job = &self.jobs[&id];
                debug_assert_eq!(job.place, Place::Ready);
                let from = job.risen.unwrap_or(job.priority);
                // A suspect stands before all others.
                let Some(to) = from.number().checked_sub(1).and_then(Priority::from_number).filter(|_| job.crashes == 0) else {
                    self.jobs.edit(&id).rises = None;
                    continue;
                };
                match job.group.clone() {
                    Some(group) => self.lift_grouped(&id, &group, to),
                    None => self.ready.lift(&id, to),
                }
                let next = (to != Priority::Critical).then(|| at.saturating_add(i64::try_from(every.as_millis()).unwrap_or(i64::MAX)));
                let job = self.jobs.edit(&id);
                (job.rises, job.risen) = (next, Some(to));
            }
        }
    }
}
