//! `admit`: → `active`. Everything that is claimed passes here: what is ready, suspects, and jobs that were parked.
//!
//! The door looks at the job before it takes it, so that nothing is taken and put back. What a claim may not exceed (jobs, bytes, one
//! suspect at a time; limits and rates, when there are any) is asked for here, and nowhere else.

use std::collections::BTreeSet;

use queue_core::{
    JobId,
    broker::{MAX_BYTES, MAX_ITEMS, PartyName, Turn},
};

use super::{Model, Place, limits::Chain};

/// Who claims, and what there is still room for.
#[derive(Debug)]
pub(in crate::model) struct Room {
    lane: PartyName,
    claim: u64,
    jobs: usize,
    bytes: usize,
    suspects: bool,
    taken: Vec<JobId>,
    /// Chains of which a job was held back by a limit.
    pub(super) blocked: BTreeSet<Chain>,
}

/// What the door answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) enum Admitted {
    /// The job is active.
    Taken,
    /// Not this job now, but perhaps the next in its line.
    Passed,
    /// No job of this line any more.
    Full,
}

impl Room {
    /// The room of a turn, whose jobs get this claim number.
    pub(in crate::model) fn new(turn: &Turn, claim: u64) -> Room {
        let jobs = turn.claim.min(MAX_ITEMS);
        Room { lane: turn.lane.clone(), claim, jobs, bytes: 0, suspects: turn.suspect, taken: Vec::new(), blocked: BTreeSet::new() }
    }

    /// How many jobs there is room for.
    pub(in crate::model) fn jobs(&self) -> usize {
        self.jobs
    }

    /// Whether there is room for a suspect.
    pub(in crate::model) fn suspects(&self) -> bool {
        self.suspects
    }

    /// Whether a job was taken.
    pub(in crate::model) fn has_taken(&self, id: &JobId) -> bool {
        self.taken.contains(id)
    }

    /// What was taken, in order.
    pub(in crate::model) fn taken(self) -> Vec<JobId> {
        self.taken
    }
}

impl Model {
    /// Makes a job that waits active, if it may start. Otherwise it changes nothing.
    pub(in crate::model) fn admit(&mut self, id: &JobId, room: &mut Room) -> Admitted {
        let job = &self.jobs[id];
        let (bytes, is_suspect) = (job.envelope.len(), job.crashes > 0);
        if room.jobs == 0 || (!room.taken.is_empty() && room.bytes + bytes > MAX_BYTES) {
            return Admitted::Full;
        }
        if is_suspect && !room.suspects {
            return Admitted::Passed;
        }
        if !self.passes_limits(id, room) {
            return Admitted::Passed;
        }
        let job = &self.jobs[id];
        if job.place == Place::Ready && job.group.is_none() {
            self.ready.pop(id);
        }
        self.jobs.set_place(id, Place::Active { lane: room.lane.clone(), claim: room.claim });
        self.charge_limits(id, false);
        self.started_in_group(id);
        self.rest(id);
        room.suspects &= !is_suspect;
        room.bytes += bytes;
        room.jobs -= 1;
        room.taken.push(id.clone());
        Admitted::Taken
    }
}
