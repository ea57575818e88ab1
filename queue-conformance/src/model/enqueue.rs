//! R12: enqueues, answered once per number.

use queue_core::{
    Error, Result,
    broker::{Due, Enqueue, Enqueued, JobState, NewJob, PartyName},
};

use super::Model;

/// Somebody who enqueues.
#[derive(Clone, Debug, Default)]
pub(super) struct Producer {
    pub(super) seq: u64,
    pub(super) seen: i64,
    pub(super) answers: Vec<Enqueued>,
    /// The digest of the last request, if it was a relay's.
    pub(super) relayed: Option<[u8; 16]>,
}

impl Producer {
    /// Whether a request comes too late: its number is below the last, or that of another one.
    fn is_old(&self, request: &Enqueue) -> bool {
        request.seq < self.seq || request.seq == self.seq && request.relayed != self.relayed
    }
}

pub(super) fn forgotten(name: &PartyName) -> Error {
    Error::Forgotten(name.to_string())
}

impl Model {
    /// Stores jobs; a replay gives the stored answers.
    pub fn enqueue(&mut self, request: &Enqueue) -> Result<Vec<Enqueued>> {
        let producer = self.producers.get(&request.producer).ok_or_else(|| forgotten(&request.producer))?;
        if producer.is_old(request) {
            return Err(Error::Old { name: request.producer.to_string(), seq: request.seq });
        }
        if request.seq == producer.seq {
            return Ok(producer.answers.clone());
        }
        let mut answers: Vec<Enqueued> = Vec::with_capacity(request.jobs.len());
        for (at, job) in request.jobs.iter().enumerate() {
            let is_behind = |(answer, before): (&Enqueued, &NewJob)| *answer == Enqueued::GroupFull && before.group == job.group;
            let held = request.relayed.is_some() && answers.iter().zip(&request.jobs[..at]).any(is_behind);
            answers.push(self.store(job, request.relayed.is_some(), held));
        }
        self.count("enqueued", answers.iter().zip(&request.jobs).filter(|(answer, job)| answer.is_new(&job.id)).count());
        let entry = Producer { seq: request.seq, seen: self.now, answers: answers.clone(), relayed: request.relayed };
        self.producers.insert(request.producer.clone(), entry);
        Ok(answers)
    }

    /// The events of an enqueue at the address of a topic, unless they were answered before.
    pub fn number<'a>(&mut self, request: &'a Enqueue) -> Result<Option<&'a [NewJob]>> {
        let now = self.now;
        let producer = self.producers.get_mut(&request.producer).ok_or_else(|| forgotten(&request.producer))?;
        if producer.is_old(request) {
            return Err(Error::Old { name: request.producer.to_string(), seq: request.seq });
        }
        let is_new = request.seq > producer.seq;
        (producer.seq, producer.seen, producer.relayed) = (request.seq, now, request.relayed);
        Ok(is_new.then_some(&request.jobs))
    }

    /// `held`: a job of its group before it was refused.
    fn store(&mut self, new: &NewJob, relayed: bool, held: bool) -> Enqueued {
        if relayed && !new.id.is_given() && self.jobs.contains_key(&new.id) {
            return Enqueued::Existing;
        }
        let known = match self.jobs.get(&new.id) {
            // The record of a job that nobody wanted gives way.
            Some(job) if matches!(job.place().state(), JobState::Cancelled | JobState::Expired) => None,
            Some(job) => Some(job.digest),
            None => self.remembered.get(&new.id).map(|(digest, _)| *digest),
        };
        match known {
            Some(digest) if !new.id.is_given() || digest == new.digest => return Enqueued::Existing,
            Some(_) => return Enqueued::IdConflict,
            None if held => return Enqueued::Held,
            None => {}
        }
        let mut at = match new.due {
            Due::Now => self.now,
            Due::After(delay) => self.due_after(delay),
            Due::AtMs(at) => at,
        };
        if let Some(unique) = &new.unique {
            at = unique.max_wait.map_or(at, |wait| at.min(self.after(wait)));
            if let Some(answer) = self.conflict(new, unique, at) {
                return answer;
            }
        }
        if self.is_full(new) {
            return Enqueued::GroupFull;
        }
        self.arrive(new, at);
        self.take_key(&new.id);
        Enqueued::Stored
    }
}
