//! R2 to R5: finishes, then promotion and claim.

use std::{collections::BTreeSet, time::Duration};

use queue_core::{
    Error, JobId, Result,
    broker::{DUE_ITEMS, Delivery, Ending, Finish, JobState, KeepLimits, MAX_BYTES, MAX_ITEMS, PartyName, Turn, TurnAnswer},
};

use super::{Model, Place, Seen, enqueues::forgotten};

impl Model {
    /// A turn. Where the broker was free to choose, what was seen of it decides.
    pub fn turn(&mut self, turn: &Turn, seen: Option<&Seen>) -> Result<TurnAnswer> {
        let last = self.workers.get(&turn.worker).filter(|worker| !worker.fenced).ok_or_else(|| forgotten(&turn.worker))?.seq;
        if turn.seq < last {
            return Err(Error::Old { name: turn.worker.to_string(), seq: turn.seq });
        }
        if turn.seq > last + 1 {
            return Err(forgotten(&turn.worker));
        }
        if turn.seq == last {
            return Ok(self.replay(turn));
        }
        let mut stale = Vec::new();
        for (position, finish) in turn.finishes.iter().enumerate() {
            if !self.finish(&turn.worker, finish, turn.keep) {
                stale.push(position);
            }
        }
        self.claim = (self.claim + 1).max(self.now.cast_unsigned());
        if let Some(claim) = seen.and_then(|seen| seen.claim) {
            self.claim = claim;
        }
        let mut taken = Vec::new();
        if !self.paused {
            self.promote();
            taken = self.choose(turn, seen);
        }
        let claim = self.claim;
        for id in &taken {
            self.lines.remove(id);
            self.job(id).place = Place::Active { worker: turn.worker.clone(), claim };
        }
        let deadline = self.after(turn.lease);
        let worker = self.workers.get_mut(&turn.worker).expect("it was found above");
        (worker.seq, worker.deadline) = (turn.seq, deadline);
        worker.last = (claim, taken.clone(), stale.clone());
        let mut answer = self.outlook();
        answer.stale = stale;
        answer.deliveries = taken.iter().map(|id| self.delivery(id, claim)).collect();
        Ok(answer)
    }

    /// Whether a job waits for anything, or for a worker.
    pub fn look(&self) -> bool {
        let waits = |place: &Place| matches!(place, Place::Ready | Place::Scheduled(_) | Place::Retry(_) | Place::Parked(_));
        self.jobs.values().any(|job| waits(&job.place))
    }

    /// R5. Writes nothing.
    fn replay(&self, turn: &Turn) -> TurnAnswer {
        let (claim, ids, stale) = &self.workers[&turn.worker].last;
        let mut answer = self.outlook();
        answer.workers = 0;
        answer.stale.clone_from(stale);
        let tag = Place::Active { worker: turn.worker.clone(), claim: *claim };
        answer.deliveries = ids
            .iter()
            .map(|id| match self.jobs.get(id) {
                Some(job) if job.place == tag => self.delivery(id, *claim),
                _ => {
                    let mut void = Delivery::new(id.clone(), *claim, Vec::new());
                    void.void = true;
                    void
                }
            })
            .collect();
        answer
    }

    fn delivery(&self, id: &JobId, claim: u64) -> Delivery {
        let job = &self.jobs[id];
        let mut delivery = Delivery::new(id.clone(), claim, job.envelope.clone());
        (delivery.attempts, delivery.crashes, delivery.snoozes) = (job.attempts, job.crashes, job.snoozes);
        delivery
    }

    /// False: it is stale, and changed nothing.
    fn finish(&mut self, worker: &PartyName, finish: &Finish, limits: KeepLimits) -> bool {
        let (id, now) = (&finish.id, self.now);
        let tag = Place::Active { worker: worker.clone(), claim: finish.claim };
        let Some(job) = self.jobs.get_mut(id).filter(|job| job.place == tag) else {
            self.answered(worker, id, finish.claim);
            return false;
        };
        if !matches!(finish.ending, Ending::Release | Ending::Void | Ending::Park { .. }) {
            job.crashes = 0;
        }
        match &finish.ending {
            Ending::Ack { result, keep } => {
                job.result = result.clone().filter(|_| keep.is_some());
                let digest = job.digest;
                if id.is_given() {
                    self.tombstones.insert(id.clone(), (digest, now));
                }
                match keep.filter(|keep| !keep.is_zero()) {
                    Some(keep) => {
                        self.end(id, JobState::Done, keep);
                        self.trim(limits, 2);
                    }
                    None => drop(self.jobs.remove(id)),
                }
                self.count("done", 1);
            }
            Ending::Nack { delay, error } => {
                job.attempts += 1;
                job.fail(now, error);
                self.wait(id, Place::Retry, *delay);
                self.count("failed", 1);
            }
            Ending::Snooze { delay } => {
                job.snoozes += 1;
                self.wait(id, Place::Scheduled, *delay);
                self.count("snoozed", 1);
            }
            Ending::Repeat { delay } => {
                (job.attempts, job.snoozes) = (0, 0);
                job.failures.clear();
                if delay.is_zero() {
                    self.make_ready(id, false);
                } else {
                    self.wait(id, Place::Scheduled, *delay);
                }
                self.count("repeated", 1);
            }
            Ending::Bury { reason, error } => {
                if let Some(error) = error {
                    job.attempts += 1;
                    job.fail(now, error);
                    self.count("failed", 1);
                }
                self.bury(id, *reason);
            }
            Ending::Cancel { reason } => self.end_unwanted(id, JobState::Cancelled, Some(reason)),
            Ending::Expire => self.end_unwanted(id, JobState::Expired, None),
            Ending::Park { task } => {
                job.place = Place::Parked(task.clone());
                self.announce(now);
            }
            _ => {
                self.make_ready(id, true);
                self.count("released", 1);
            }
        }
        true
    }

    /// Moves what is due to the tail of its line, in the order of the times.
    fn promote(&mut self) {
        for state in [JobState::Scheduled, JobState::Retry] {
            let due: Vec<JobId> =
                self.ids(state).into_iter().filter(|id| self.jobs[id].place.at() <= Some(self.now)).take(DUE_ITEMS).collect();
            for id in &due {
                self.make_ready(id, false);
            }
        }
    }

    /// Which jobs a turn gets: parked ones of its tasks, one suspect at most, then by priority.
    fn choose(&self, turn: &Turn, seen: Option<&Seen>) -> Vec<JobId> {
        let mut choice =
            Choice { model: self, seen, left: turn.claim.min(MAX_ITEMS), bytes: 0, may_suspect: turn.suspect, taken: Vec::new() };
        for task in &turn.resume {
            let is_parked = |place: &Place| matches!(place, Place::Parked(of) if **of == **task);
            let parked = self.jobs.iter().filter(|(_, job)| is_parked(&job.place)).map(|(id, _)| id);
            choice.take(parked, usize::MAX);
        }
        if choice.may_suspect {
            choice.take(self.lines.suspects().iter(), 1);
        }
        for line in self.lines.priorities() {
            choice.take(line.iter(), usize::MAX);
        }
        match seen {
            Some(seen) => as_seen(choice.taken, &self.loose, &seen.ids),
            None => choice.taken,
        }
    }

    fn outlook(&self) -> TurnAnswer {
        let mut answer = TurnAnswer::default();
        (answer.now_ms, answer.paused) = (self.now, self.paused);
        answer.suspects = !self.paused && !self.lines.suspects().is_empty();
        answer.more = !self.paused && self.lines.priorities().iter().any(|line| !line.is_empty());
        let waiting = self.jobs.values().filter(|job| matches!(job.place, Place::Scheduled(_) | Place::Retry(_)));
        let due = waiting.filter_map(|job| job.place.at()).min();
        answer.next_due = due.map(|due| Duration::from_millis(u64::try_from(due - self.now).unwrap_or(0)));
        answer.parked = self.jobs.values().any(|job| matches!(job.place, Place::Parked(_)));
        answer.workers = self.workers.values().filter(|worker| !worker.fenced).count();
        answer
    }
}

struct Choice<'a> {
    model: &'a Model,
    seen: Option<&'a Seen>,
    left: usize,
    bytes: usize,
    may_suspect: bool,
    taken: Vec<JobId>,
}

impl<'a> Choice<'a> {
    /// Takes the first of a line. Of the loose ones in it those that were seen, wherever in the line they were.
    fn take(&mut self, line: impl Iterator<Item = &'a JobId> + Clone, most: usize) {
        let most = most.min(self.left);
        let is_loose = |id: &JobId| self.model.loose.contains(id);
        let line: Vec<&JobId> = match self.seen {
            Some(seen) => {
                let loose = line.clone().filter(|id| is_loose(id) && seen.ids.contains(id));
                loose.chain(line.clone().filter(|id| !is_loose(id))).collect()
            }
            None => line.take(most.saturating_add(MAX_ITEMS)).collect(),
        };
        let mut count = 0;
        for id in line {
            let job = &self.model.jobs[id];
            if count == most || (!self.taken.is_empty() && self.bytes + job.envelope.len() > MAX_BYTES) {
                return;
            }
            if job.crashes > 0 {
                if !self.may_suspect {
                    continue;
                }
                self.may_suspect = false;
            }
            self.bytes += job.envelope.len();
            self.left -= 1;
            count += 1;
            self.taken.push(id.clone());
        }
    }
}

/// The loose ones go where they were seen; the others keep their order.
fn as_seen(taken: Vec<JobId>, loose: &BTreeSet<JobId>, seen: &[JobId]) -> Vec<JobId> {
    let (free, strict): (Vec<JobId>, Vec<JobId>) = taken.into_iter().partition(|id| loose.contains(id));
    let mut strict = strict.into_iter();
    let mut arranged: Vec<JobId> = Vec::new();
    for id in seen {
        if free.contains(id) {
            arranged.push(id.clone());
        } else {
            arranged.extend(strict.next());
        }
    }
    arranged.extend(strict);
    arranged
}
