//! `back`: → where a job waits. A new job arrives by this door, and every job that is not at its end comes back by it.
//!
//! What decides how a job waits is asked here: the line, its head or its tail, the time. Those who listen for work hear of it.

use std::time::Duration;

use queue_core::{JobId, broker::NewJob};

use super::{Job, Model, Out, Place};

/// Where a job waits.
#[derive(Debug)]
pub(in crate::model) enum Back {
    /// First in its line: it had been there, and nothing was its fault.
    Head,
    /// Last in its line.
    Tail,
    /// For the time that it asked for.
    Scheduled(Duration),
    /// For the end of its backoff.
    Retry(Duration),
    /// For a worker that knows this task.
    Parked(String),
}

impl Model {
    /// A job that is new waits until this time, in milliseconds since 1970, or is ready if that is over.
    pub(in crate::model) fn arrive(&mut self, new: &NewJob, at: i64) {
        self.limits.used |= new.limits.is_some();
        self.jobs.add_aside(new.id.clone(), Job::new(new, Place::Scheduled(at), self.now));
        self.wait_until(Out(new.id.clone()), at);
    }

    /// A job that is new is held until its key is free.
    pub(in crate::model) fn arrive_held(&mut self, new: &NewJob, at: i64) {
        self.limits.used |= new.limits.is_some();
        self.jobs.add(new.id.clone(), Job::new(new, Place::Held(at), self.now));
    }

    /// A job that has not started waits until this time, or is ready if that is over.
    pub(super) fn wait_until(&mut self, Out(id): Out, at: i64) {
        if at <= self.now {
            self.line_up(&id, false);
        } else {
            self.jobs.set_place(&id, Place::Scheduled(at));
            self.announce(at);
        }
    }

    /// A job that left its place comes back.
    pub(in crate::model) fn back(&mut self, Out(id): Out, how: Back) {
        self.back_to(&id, how);
        // It may have had a slot of its group.
        if let Some(group) = self.jobs[&id].group.clone() {
            self.review(&group);
        }
    }

    fn back_to(&mut self, id: &JobId, how: Back) {
        match how {
            Back::Head => self.line_up(id, true),
            Back::Tail => self.line_up(id, false),
            Back::Scheduled(delay) => self.wait(id, Place::Scheduled, delay),
            Back::Retry(delay) => self.wait(id, Place::Retry, delay),
            Back::Parked(task) => {
                self.tick_ended(id, "parked");
                let releases = self.jobs[id].unreadable.iter().flat_map(|unreadable| &unreadable.releases);
                let name = releases.fold(task, |name, release| name + "\u{1}" + release);
                self.jobs.set_place(id, Place::Parked(name));
                self.announce(self.now);
            }
        }
    }

    fn line_up(&mut self, id: &JobId, head: bool) {
        self.jobs.set_place(id, Place::Ready);
        if self.jobs[id].limits.is_some() {
            // Which of those starts that may is up to the broker, and where they are listed.
            self.ready.loose.insert(id.clone());
        }
        self.set_out(id);
        let job = &self.jobs[id];
        if let Some(group) = job.group.clone() {
            self.push_grouped(id, &group, head);
            self.announce(self.now);
            return;
        }
        let line = (job.priority, job.crashes > 0);
        self.ready.push(line, id, head);
        self.announce(self.now);
    }

    fn wait(&mut self, id: &JobId, place: fn(i64) -> Place, delay: Duration) {
        let at = self.due_after(delay);
        self.jobs.set_place(id, place(at));
        self.announce(at);
    }
}
