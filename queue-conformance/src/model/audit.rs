//! Housekeeping, and the search for damage.

use queue_core::{
    JobId,
    broker::{
        Ahead, Audit, BuryReason, Damage, DamageKind, JobState, KeepLimits, OverdueLane, RELAY_AGE, SWEEPER_LEASE, SweepLimits, Swept,
    },
};

use super::{Job, Model, Place, doors::End, enqueue::Producer};

impl Model {
    /// The only damage that comes of a broker's own doing: that its clock was put back.
    pub fn audit(&mut self, how: Audit) -> Vec<Damage> {
        let mut damages = Vec::new();
        for Ahead { lane, term } in self.overdue(usize::MAX).ahead {
            if how.repair {
                let deadline_ms = self.after(term);
                self.set_deadline(&OverdueLane { deadline_ms, ..lane.clone() });
            }
            damages.push(Damage { kind: DamageKind::LeaseTooLong, subject: lane.name.as_str().to_owned() });
        }
        damages
    }

    /// One round of housekeeping. `of_topic`: at the address of a topic, whose sweeper keeps others away in any case.
    pub fn sweep(&mut self, limits: &SweepLimits, of_topic: bool) -> Swept {
        if self.sweeper.is_some_and(|(other, until)| ![0, other].contains(&limits.sweeper) && until > self.now) {
            let mut swept = Swept::default();
            swept.elsewhere = true;
            return swept;
        }
        if limits.items == 0 {
            // So many entries are nowhere.
            return Swept::default();
        }
        let buried = self.bury_unreadable(limits.items);
        let before = |age: std::time::Duration| self.now.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        let mut swept = Swept::default();
        swept.buried = buried;

        let (end, of_relays) = (before(limits.producers), before(limits.producers.saturating_mul(RELAY_AGE)));
        let is_idle = |producer: &Producer| producer.seen <= if producer.relayed.is_some() { of_relays } else { end };
        let idle: Vec<_> = self.producers.iter().filter(|(_, producer)| is_idle(producer)).map(|(name, _)| name.clone()).collect();
        for name in idle.iter().take(limits.items) {
            self.producers.remove(name);
            swept.producers += 1;
        }

        let end = before(limits.remembered);
        let mut remembered: Vec<(i64, JobId)> = self.remembered.iter().map(|(id, (_, at))| (*at, id.clone())).collect();
        remembered.sort();
        let excess = remembered.len().saturating_sub(usize::try_from(limits.remembered_count).unwrap_or(usize::MAX));
        for (n, (at, id)) in remembered.iter().enumerate().take(limits.items) {
            if *at <= end || n < excess {
                self.remembered.remove(id);
                swept.remembered += 1;
            }
        }

        let end = before(limits.dead);
        for id in self.ids(JobState::Dead).into_iter().take(limits.items) {
            let bytes: u64 =
                self.jobs.values().filter(|job| job.place().state() == JobState::Dead).map(|job| job.envelope.len() as u64).sum();
            if self.jobs[&id].place().at() > Some(end) && bytes <= limits.dead_bytes {
                break;
            }
            let out = self.leave(&id);
            self.end(out, End::Removed);
            swept.dead += 1;
        }
        self.count("dead_evicted", swept.dead);

        let now = self.now;
        let is_over = |place: &Place| matches!(place, Place::Ended { until, .. } if *until <= now);
        let over: Vec<JobId> =
            self.jobs.iter().filter(|(_, job)| is_over(job.place())).map(|(id, _)| id.clone()).take(limits.items).collect();
        swept.ended = over.len();
        for id in over {
            let out = self.leave(&id);
            self.end(out, End::Over);
        }
        swept.keys = self.prune_keys(limits.items);
        swept.ended += self.trim(limits.keep, limits.items - swept.ended);
        (swept.groups, swept.rates) = (self.forget_groups(limits.items), self.forget_rates(limits.items));
        swept.waiters = self.forget_waiters(limits.items);
        swept.backfilled = self.forget_backfilled(limits.items);
        let removed = [swept.producers, swept.remembered, swept.dead, swept.ended, swept.keys, swept.groups, swept.rates];
        let removed = removed.into_iter().chain([swept.waiters, swept.backfilled]);
        swept.more = swept.buried.len() >= limits.items || { removed }.any(|removed| removed >= limits.items);
        if (swept.more || of_topic) && limits.sweeper != 0 {
            self.sweeper = Some((limits.sweeper, self.now.saturating_add(SWEEPER_LEASE.as_millis().try_into().unwrap_or(i64::MAX))));
        } else if self.sweeper.is_some_and(|(other, until)| other == limits.sweeper || until <= self.now) {
            self.sweeper = None;
        }
        swept
    }

    /// Buries the parked jobs that no release has read in their time.
    fn bury_unreadable(&mut self, items: usize) -> Vec<JobId> {
        let parked = self.jobs.iter().filter(|(_, job)| matches!(job.place(), Place::Parked(_)));
        let until = parked.filter_map(|(id, job)| Some((job.unreadable.as_ref()?.until_ms, id.clone())));
        let mut over: Vec<(i64, JobId)> = until.filter(|(until, _)| *until <= self.now).collect();
        over.sort();
        over.truncate(items);
        let over: Vec<JobId> = over.into_iter().map(|(_, id)| id).collect();
        for id in &over {
            let out = self.leave(id);
            self.end(out, End::Dead(BuryReason::Undecodable));
        }
        over
    }

    /// Removes at most so many kept jobs, those that were to be kept for the shortest time first, while there are too many of them.
    pub(super) fn trim(&mut self, limits: KeepLimits, items: usize) -> usize {
        let mut removed = 0;
        while removed < items {
            let kept = || self.jobs.iter().filter(|(_, job)| matches!(job.place(), Place::Ended { .. }));
            let bytes: u64 = kept().map(|(_, job)| job.size()).sum();
            if kept().count() as u64 <= limits.count && bytes <= limits.bytes {
                break;
            }
            let until = |job: &Job| match job.place() {
                Place::Ended { until, .. } => *until,
                _ => i64::MAX,
            };
            let Some(oldest) = kept().min_by_key(|(_, job)| (until(job), job.place().order())).map(|(id, _)| id.clone()) else { break };
            let out = self.leave(&oldest);
            self.end(out, End::Over);
            removed += 1;
        }
        removed
    }
}
