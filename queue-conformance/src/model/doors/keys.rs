//! Keys: at most one job holds each. `arrive` and `back` take a key, `admit` or `end` gives it back, and lets the job follow that is `held` for it.

use queue_core::{
    JobId,
    broker::{Enqueued, Hold, JobState, KeyHolder, NewJob, OnConflict, Unique, UniqueKey, superseded_by},
};

use super::{Back, End, Model, Out, Place};

/// Who holds a key.
#[derive(Clone, Debug)]
pub(in crate::model) struct Held {
    holder: JobId,
    /// Until when, and for how long at most from any now on, if it is for a time.
    within: Option<(i64, i64)>,
    /// Who is `held` for it.
    next: Option<JobId>,
}

/// What a job knows of its key.
#[derive(Clone, Copy, Debug)]
pub struct JobKey {
    /// The key.
    pub key: UniqueKey,
    hold: Hold,
    /// Since when it waits, or its first one did that it has replaced.
    first: i64,
}

impl JobKey {
    pub(super) fn new(unique: &Unique, first: i64) -> Self {
        JobKey { key: unique.key, hold: unique.hold, first }
    }
}

impl Model {
    /// Who holds a key now.
    fn held(&self, key: &UniqueKey) -> Option<&Held> {
        self.keys.get(key).filter(|held| held.within.is_none_or(|(until, term)| until.min(self.now.saturating_add(term)) > self.now))
    }

    /// Who holds a key, for people.
    pub fn key_holder(&self, key: &UniqueKey) -> Option<KeyHolder> {
        self.held(key).map(|held| {
            let mut holder = KeyHolder::new(held.holder.clone());
            holder.until_ms = held.within.map(|(until, _)| until);
            holder.next.clone_from(&held.next);
            holder
        })
    }

    /// A person takes a key from whoever holds it.
    pub fn release_key(&mut self, key: &UniqueKey) -> Option<KeyHolder> {
        let holder = self.key_holder(key)?;
        self.free(key);
        Some(holder)
    }

    /// A job that is new, or comes back, takes its key, which is free.
    pub(in crate::model) fn take_key(&mut self, id: &JobId) {
        let Some(JobKey { key, hold, .. }) = self.jobs[id].unique else { return };
        let within = match hold {
            Hold::Within(time) => {
                let until = self.after(time);
                Some((until, until - self.now))
            }
            _ => None,
        };
        self.keys.insert(key, Held { holder: id.clone(), within, next: None });
    }

    /// What a new job is answered whose key another job holds.
    pub(in crate::model) fn conflict(&mut self, new: &NewJob, unique: &Unique, at: i64) -> Option<Enqueued> {
        let Held { holder, within, next } = self.held(&unique.key)?.clone();
        if within.is_some() || unique.on_conflict == OnConflict::Skip || matches!(unique.hold, Hold::Within(_)) {
            return Some(Enqueued::Duplicate(holder));
        }
        let replaces = unique.on_conflict == OnConflict::Replace;
        let takes_payload = !(replaces && unique.keep_payload);
        let changed = next.clone().unwrap_or_else(|| holder.clone());
        let state = self.jobs[&changed].place().state();
        if state == JobState::Active || (matches!(state, JobState::Retry | JobState::Parked) && !replaces) {
            self.arrive_held(new, at);
            self.keys.get_mut(&unique.key).expect("it is held").next = Some(new.id.clone());
            return Some(Enqueued::Buffered(new.id.clone()));
        }
        let job = self.jobs.edit(&changed);
        if takes_payload {
            job.envelope.clone_from(&new.envelope);
        }
        let first = job.unique.map_or(self.now, |unique| unique.first.min(self.now));
        if replaces && !matches!(state, JobState::Retry | JobState::Parked) {
            let at = unique.max_wait.map_or(at, |wait| at.min(first.saturating_add(self.after(wait) - self.now)));
            self.put_off(&changed, new, at);
        }
        Some(if next.is_some() { Enqueued::Buffered(changed) } else { Enqueued::Replaced(changed) })
    }

    /// A job that has not started takes the time and the priority of another.
    fn put_off(&mut self, id: &JobId, new: &NewJob, at: i64) {
        let before = self.jobs[id].priority;
        let moves = before != new.priority;
        match self.jobs[id].place().clone() {
            Place::Held(_) => {
                self.jobs.edit(id).priority = new.priority;
                self.jobs.set_place(id, Place::Held(at));
            }
            Place::Ready if at <= self.now && !moves => {}
            _ => {
                let out = self.leave(id);
                self.jobs.edit(id).priority = new.priority;
                self.wait_until(out, at);
            }
        }
    }

    /// A job that comes back asks for its key again. `None`: a younger job has it, and this one has ended.
    pub(in crate::model) fn come_back(&mut self, out: Out, how: Back) {
        match self.younger(&out.0) {
            Some(younger) => self.end(out, End::Cancelled(Some(superseded_by(&younger)))),
            None => self.back(out, how),
        }
    }

    /// Takes the key of a job that comes back. Gives the job that has it meanwhile.
    pub(in crate::model) fn younger(&mut self, id: &JobId) -> Option<JobId> {
        let now = self.now;
        let unique = self.jobs.edit(id).unique.as_mut().filter(|unique| !matches!(unique.hold, Hold::Within(_)))?;
        unique.first = now;
        let key = unique.key;
        match self.held(&key).map(|held| (held.holder.clone(), held.within)) {
            Some((holder, None)) if holder != *id => return Some(holder),
            Some(_) => {}
            None => self.take_key(id),
        }
        None
    }

    /// A job that has started gives its key back if it holds it until then.
    pub(in crate::model) fn started(&mut self, id: &JobId) {
        if let Some(JobKey { hold: Hold::UntilStarted, .. }) = self.jobs[id].unique {
            self.give_key_back(id);
        }
    }

    /// A job gives its key back, if it holds it and not for a time.
    pub(super) fn give_key_back(&mut self, id: &JobId) {
        let Some(JobKey { key, .. }) = self.jobs.get(id).and_then(|job| job.unique) else { return };
        if self.keys.get(&key).is_some_and(|held| held.holder == *id && held.within.is_none()) {
            self.free(&key);
        }
    }

    /// A job that waits has another key, which is free: it gives the old one back, if it holds it, and takes the new one. One that was held for a time is held
    /// until the same time.
    pub(super) fn exchange_key(&mut self, id: &JobId, key: UniqueKey) {
        let Some(JobKey { key: before, hold, .. }) = self.jobs[id].unique else { return };
        if let Some(unique) = &mut self.jobs.edit(id).unique {
            unique.key = key;
        }
        let mine =
            self.keys.get(&before).is_some_and(|held| held.holder == *id && held.within.is_some() == matches!(hold, Hold::Within(_)));
        let held = self.keys.get(&before).filter(|_| mine).cloned();
        if mine {
            self.free(&before);
        }
        match (hold, held) {
            (Hold::Within(_), Some(held)) => drop(self.keys.insert(key, held)),
            (Hold::Within(_), None) => drop(self.keys.remove(&key)),
            _ => drop(self.keys.insert(key, Held { holder: id.clone(), within: None, next: None })),
        }
    }

    /// A job that is held waits no longer.
    pub(super) fn unhold(&mut self, id: &JobId) {
        self.keys.values_mut().filter(|held| held.next.as_ref() == Some(id)).for_each(|held| held.next = None);
    }

    /// Nobody holds a key any more, but the job that was held for it.
    fn free(&mut self, key: &UniqueKey) {
        let Some(Held { next: Some(next), .. }) = self.keys.remove(key) else { return };
        let Place::Held(at) = *self.jobs[&next].place() else { return };
        self.keys.insert(*key, Held { holder: next.clone(), within: None, next: None });
        self.wait_until(Out(next), at);
    }

    /// Removes at most so many of the keys that were held for a time which is over, and brings a time back that no clock could have set.
    pub(in crate::model) fn prune_keys(&mut self, items: usize) -> usize {
        let now = self.now;
        let over = |held: &Held| held.within.is_some_and(|(until, _)| until <= now);
        let keys: Vec<UniqueKey> = self.keys.iter().filter(|(_, held)| over(held)).map(|(key, _)| *key).take(items).collect();
        for held in self.keys.values_mut() {
            held.within = held.within.map(|(until, term)| (until.min(now.saturating_add(term)), term));
        }
        keys.iter().for_each(|key| drop(self.keys.remove(key)));
        keys.len()
    }
}
