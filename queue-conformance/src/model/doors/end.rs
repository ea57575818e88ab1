//! `end`: a job ends: acknowledged, buried, cancelled, expired, deleted, evicted.
//!
//! **What a job holds is given back in `give_back`, and nowhere else.** Today that is its key, the line of its group, its id if the application
//! gave it, what is noted of releases that could not read it, the schedule that waits for its end, and the mark of who watches it. Whoever lets
//! jobs hold something new gives it back there.

use std::time::Duration;

use queue_core::{
    JobId,
    broker::{BuryReason, ENDED_KEEP, JobState, WATCHED_KEEP},
};

use super::{Model, Out, Place};

/// How a job ends.
#[derive(Clone, Debug)]
pub(in crate::model) enum End {
    /// It is done, and kept for so long, or not at all.
    Done(Option<Duration>),
    /// It failed for good, and is kept for people.
    Dead(BuryReason),
    /// Nobody wants it any more, for this reason.
    Cancelled(Option<String>),
    /// Its time to start was over.
    Expired,
    /// A person has deleted it, or it was dead for too long: its id is free.
    Removed,
    /// What was kept of it was kept for long enough. Its id stays taken for as long as it is remembered.
    Over,
}

impl Model {
    /// A job that left its place ends.
    pub(in crate::model) fn end(&mut self, Out(id): Out, how: End) {
        let how = match how {
            // Who waits for it reads its result for a while.
            End::Done(keep) => End::Done(self.kept_for(&id, keep)),
            how => how,
        };
        self.give_back(&id, &how);
        // Before it is forgotten of which group it is; its slot is free once it has another place.
        let group = self.jobs[&id].group.clone();
        match how {
            End::Done(keep) => {
                match keep.filter(|keep| !keep.is_zero()) {
                    Some(keep) => self.keep(&id, JobState::Done, keep),
                    None => self.jobs.remove(&id),
                }
                self.count("done", 1);
            }
            End::Dead(reason) => {
                let (at, order) = (self.now, self.next_ending());
                self.jobs.set_place(&id, Place::Dead { at, order, reason });
                self.count("dead", 1);
            }
            End::Cancelled(note) => {
                self.keep(&id, JobState::Cancelled, ENDED_KEEP);
                self.jobs.edit(&id).note = note.filter(|note| !note.is_empty());
                self.count("cancelled", 1);
            }
            End::Expired => {
                self.keep(&id, JobState::Expired, ENDED_KEEP);
                self.count("expired", 1);
            }
            End::Removed | End::Over => self.jobs.remove(&id),
        }
        if let Some(group) = group {
            self.review(&group);
        }
    }

    /// How long a job that is done is kept.
    pub(in crate::model) fn kept_for(&self, id: &JobId, keep: Option<Duration>) -> Option<Duration> {
        keep.filter(|keep| !keep.is_zero()).or_else(|| self.watched.contains_key(id).then_some(WATCHED_KEEP))
    }

    /// A dead job passes here when it dies and again when it is removed, so that giving back twice must be harmless.
    fn give_back(&mut self, id: &JobId, how: &End) {
        self.give_key_back(id);
        if self.watched.remove(id).is_some() {
            self.endings_told.push(id.clone());
        }
        self.free_line(id);
        self.jobs.edit(id).unreadable = None;
        self.tick_ended(
            id,
            match how {
                End::Done(_) => "done",
                End::Dead(_) => "dead",
                End::Cancelled(_) => "cancelled",
                End::Expired => "expired",
                End::Removed | End::Over => "deleted",
            },
        );
        match how {
            End::Done(_) if id.is_given() => drop(self.remembered.insert(id.clone(), (self.jobs[id].digest, self.now))),
            End::Removed => drop(self.remembered.remove(id)),
            // A dead job can be put back, and keeps its id; a cancelled or expired one takes it again, unless another has it.
            End::Done(_) | End::Dead(_) | End::Cancelled(_) | End::Expired | End::Over => {}
        }
    }

    fn keep(&mut self, id: &JobId, state: JobState, keep: Duration) {
        let (at, until, order) = (self.now, self.after(keep), self.next_ending());
        self.jobs.set_place(id, Place::Ended { state, at, order, until });
    }

    fn next_ending(&mut self) -> u64 {
        self.endings += 1;
        self.endings
    }
}
