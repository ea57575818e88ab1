//! An edit: a job that waits becomes what a person wants, if it is as it was seen.

use queue_core::broker::{EditJob, EditedJob, JobState, NewJob};

use super::{Model, Place};

impl Model {
    /// Changes it, or says why not.
    pub fn edit(&mut self, request: &EditJob) -> EditedJob {
        let (id, now, seen) = (&request.id, self.now, &request.seen);
        let Some(job) = self.jobs.get(id) else { return EditedJob::Missing };
        let state = job.place().state();
        if state == JobState::Active || state.is_final() {
            return EditedJob::Closed(state);
        }
        let before = job.clone();
        let (at, own) = (before.place().at(), before.unique.map(|unique| unique.key));
        let rekeys = request.unique.filter(|key| own.is_some_and(|own| own != *key));
        let retimes = !request.is_time(at, now);
        let regroups = before.group != request.group || before.limits.as_ref() != request.limits.as_deref();
        let same = before.envelope == request.envelope && before.priority == request.priority;
        if same && !retimes && !regroups && rekeys.is_none() {
            return EditedJob::AsWanted;
        }
        let as_seen = (&before.envelope, before.priority, &before.group) == (&seen.envelope, seen.priority, &seen.group);
        if !as_seen || !request.is_time_seen(at, now) {
            return EditedJob::Differs;
        }
        if let Some(holder) = rekeys.and_then(|key| self.key_holder(&key)).filter(|holder| holder.id != *id) {
            return EditedJob::Held(holder.id);
        }
        let mut wanted = NewJob::new(id.clone(), Vec::new());
        wanted.group.clone_from(&request.group);
        if before.group != request.group && self.is_full(&wanted) {
            return EditedJob::GroupFull;
        }

        let leaves = match state {
            JobState::Held => rekeys.is_some(),
            JobState::Parked => retimes || request.is_new_payload,
            JobState::Ready => retimes || regroups || before.priority != request.priority,
            _ => retimes,
        };
        let out = leaves.then(|| self.leave(id));
        if before.group != request.group {
            self.jobs.set_aside(id, if leaves { Place::Scheduled(now) } else { before.place().clone() });
            self.free_line(id);
        }
        let job = self.jobs.edit(id);
        job.envelope.clone_from(&request.envelope);
        (job.priority, job.group, job.limits) = (request.priority, request.group.clone(), request.limits.as_deref().cloned());
        if id.is_given() {
            job.digest = request.digest;
        }
        self.limits.used |= request.limits.is_some();
        if let Some(key) = rekeys {
            self.exchange_key(id, key);
        }
        let time = request.at_ms.or(at).unwrap_or(now);
        match out {
            Some(out) => {
                self.jobs.edit(id).unreadable = before.unreadable.filter(|_| state != JobState::Parked);
                if state == JobState::Retry && time > now {
                    self.jobs.set_place(id, Place::Retry(time));
                    self.announce(time);
                } else {
                    self.wait_until(out, time);
                }
            }
            None if retimes => self.jobs.set_place(id, Place::Held(time)),
            None => {}
        }
        EditedJob::Yes
    }
}
