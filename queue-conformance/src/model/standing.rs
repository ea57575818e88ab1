//! Where jobs stand.

use queue_core::{
    JobId,
    broker::{GroupLine, HOLDERS_NAMED, JobState, Line, PauseOf, Standing},
};

use super::{Model, Place};

impl Model {
    /// One answer per id.
    pub fn standing(&self, ids: &[JobId]) -> Vec<Option<Standing>> {
        ids.iter().map(|id| self.stands(id)).collect()
    }

    fn stands(&self, id: &JobId) -> Option<Standing> {
        let job = self.jobs.get(id)?;
        let mut standing = Standing::new(job.record(id), self.now, self.paused);
        match (job.place(), standing.job.state) {
            (_, JobState::Held) => {
                let key = job.unique.as_ref().map(|unique| unique.key);
                standing.holder = key.and_then(|key| self.key_holder(&key)).map(|holder| holder.id);
            }
            (Place::Active { lane, .. }, _) => {
                let left = |lane: &super::lease::Lane| if lane.fenced { lane.deadline.min(self.now) } else { lane.deadline } - self.now;
                standing.lease_left_ms = self.lanes.get(lane).map(left);
            }
            (Place::Ready, _) => standing.line = Some(self.line_of(id)),
            _ => {}
        }
        Some(standing)
    }

    fn line_of(&self, id: &JobId) -> Line {
        let mut line = Line::default();
        line.limits = self.held_back_by(id);
        if let Some(group) = &self.jobs[id].group {
            line.ahead = self.ahead_of(id, self.groups.line_of(group)).unwrap_or_else(|| self.groups.suspects_before(group, id));
            let plain = self.ready.priorities().iter().any(|jobs| !jobs.is_empty());
            line.groups = self.groups.others_in_turn(Some(group)) + u64::from(plain);
            line.group = Some(self.group_line(group, id));
        } else {
            let plain = self.ready.priorities().iter().enumerate().flat_map(|(n, jobs)| jobs.iter().map(move |id| (n, id)));
            let suspects = || self.ready.suspects().iter().position(|other| other == id).unwrap_or_default() as u64;
            line.ahead = self.ahead_of(id, plain).unwrap_or_else(suspects);
            line.groups = self.groups.others_in_turn(None);
        }
        line
    }

    /// How many jobs of a line may start before one: those of its part or a part that goes first, but for those of its chain that stand behind it. `None`: it does
    /// not stand there.
    fn ahead_of<'a>(&self, id: &JobId, line: impl Iterator<Item = (usize, &'a JobId)> + Clone) -> Option<u64> {
        let (part, _) = line.clone().find(|(_, other)| *other == id)?;
        let chain = self.chain(id);
        let alike = |(n, other): &(usize, &JobId)| *n == part && self.chain(other) == chain;
        let later = line.clone().skip_while(|(_, other)| *other != id).filter(alike).count();
        Some((line.filter(|(n, _)| *n <= part).count() - later) as u64)
    }

    fn group_line(&self, group: &queue_core::broker::GroupName, id: &JobId) -> GroupLine {
        let rule = self.groups.effective(group);
        let mut line = GroupLine::new(group.clone());
        (line.paused, line.cap, line.running) = (rule.paused, rule.cap, self.running(group));
        if rule.paused {
            line.pause = Some(self.pauses.get(&PauseOf::Group(group.clone())).cloned().unwrap_or_default());
        }
        if line.is_full() {
            let runs = |(_, job): &(&JobId, &super::Job)| job.group.as_ref() == Some(group) && matches!(job.place(), Place::Active { .. });
            line.holders = self.jobs.iter().filter(runs).map(|(id, _)| id.clone()).take(HOLDERS_NAMED).collect();
        }
        line.held_by = self.groups.holder(group).filter(|holder| *holder != id).cloned();
        line
    }
}
