//! R2 to R5: finishes, then promotion and claim.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use queue_core::{
    Error, JobId, Result,
    broker::{DUE_ITEMS, Delivery, Ending, Finish, JobState, KeepLimits, MAX_ITEMS, PartyName, Turn, TurnAnswer, UNREADABLE_RELEASES},
};

use super::{
    Model, Place, Seen,
    doors::{Admitted, Back, By, End, Picks, Room},
    enqueue::forgotten,
};

impl Model {
    /// A turn. Where the broker was free to choose, what was seen of it decides.
    pub fn turn(&mut self, turn: &Turn, seen: Option<&Seen>) -> Result<TurnAnswer> {
        let last = self.lanes.get(&turn.lane).filter(|lane| !lane.fenced).ok_or_else(|| forgotten(&turn.lane))?.seq;
        if turn.seq < last {
            return Err(Error::Old { name: turn.lane.to_string(), seq: turn.seq });
        }
        if turn.seq > last + 1 {
            return Err(forgotten(&turn.lane));
        }
        if turn.seq == last {
            return Ok(self.replay(turn));
        }
        let mut stale = Vec::new();
        for (position, finish) in turn.finishes.iter().enumerate() {
            if !self.finish(&turn.lane, finish, turn.keep) {
                stale.push(position);
            }
        }
        self.claim = (self.claim + 1).max(self.now.cast_unsigned());
        if let Some(claim) = seen.and_then(|seen| seen.claim) {
            self.claim = claim;
        }
        let (mut taken, mut aside) = (Vec::new(), Vec::new());
        let resumed = self.resume_due();
        if !self.paused {
            self.rise();
            self.promote_due();
            let claimed = self.hand_out(turn, seen);
            (taken, aside) = self.set_aside(claimed);
            taken.iter().for_each(|id| self.started(id));
        }
        let claim = self.claim;
        let deadline = self.after(turn.lease);
        let lane = self.lanes.get_mut(&turn.lane).expect("it was found above");
        (lane.seq, lane.deadline) = (turn.seq, deadline);
        lane.last = (claim, taken.clone(), stale.clone());
        let mut answer = self.outlook();
        (answer.stale, answer.resumed, answer.aside) = (stale, resumed, aside);
        answer.deliveries = taken.iter().map(|id| self.delivery(id, claim)).collect();
        Ok(answer)
    }

    /// Whether this turn would be carried out, and not answered again or refused.
    pub fn is_next(&self, turn: &Turn) -> bool {
        self.lanes.get(&turn.lane).is_some_and(|lane| !lane.fenced && turn.seq == lane.seq + 1)
    }

    /// Whether a job waits for anything, or for a lane.
    pub fn has_work(&self) -> bool {
        let waits = |place: &Place| matches!(place, Place::Ready | Place::Scheduled(_) | Place::Retry(_) | Place::Parked(_));
        self.jobs.values().any(|job| waits(job.place()))
    }

    /// R5. Writes nothing.
    fn replay(&self, turn: &Turn) -> TurnAnswer {
        let (claim, ids, stale) = &self.lanes[&turn.lane].last;
        let mut answer = self.outlook();
        answer.stale.clone_from(stale);
        let tag = Place::Active { lane: turn.lane.clone(), claim: *claim };
        answer.deliveries = ids
            .iter()
            .map(|id| match self.jobs.get(id) {
                Some(job) if *job.place() == tag => self.delivery(id, *claim),
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
        (delivery.rate_limited, delivery.odd) = (job.rate_limited, job.odd);
        if job.crashes > 0 {
            delivery.suspected_for = Duration::from_millis(job.ran.unsigned_abs());
        }
        delivery
    }

    /// False: it is stale, and changed nothing.
    fn finish(&mut self, lane: &PartyName, finish: &Finish, limits: KeepLimits) -> bool {
        let (id, now) = (&finish.id, self.now);
        let Some(out) = self.settle(id, By::Holder(lane, finish.claim)) else {
            self.answered(lane, id, finish.claim);
            return false;
        };
        let stays = matches!(finish.ending, Ending::Ack { .. } | Ending::Bury { .. } | Ending::Cancel { .. } | Ending::Expire);
        if !stays && self.end_stopped(id, By::Holder(lane, finish.claim)) {
            return true;
        }
        let job = self.jobs.edit(id);
        let ran = !matches!(
            finish.ending,
            Ending::Release | Ending::Stopped { .. } | Ending::Void | Ending::Park { .. } | Ending::Unreadable { .. }
        );
        if ran {
            job.crashes = 0;
            job.unreadable = None;
        }
        if !finish.ending.has_started() {
            self.charge_limits(id, true);
        } else if let Some(used) = finish.used() {
            self.correct_limits(id, used);
        }
        let job = self.jobs.edit(id);
        match &finish.ending {
            Ending::Ack { result, keep } => {
                let keep = self.kept_for(id, *keep);
                self.jobs.edit(id).result = result.clone().filter(|_| keep.is_some());
                self.end(out, End::Done(keep));
                if keep.is_some() {
                    self.trim(limits, 2);
                }
            }
            Ending::Nack { delay, error } => {
                job.attempts += 1;
                job.fail(now, error);
                self.come_back(out, Back::Retry(*delay));
                self.count("failed", 1);
            }
            Ending::Snooze { delay } => {
                job.snoozes += 1;
                self.come_back(out, Back::Scheduled(*delay));
                self.count("snoozed", 1);
            }
            Ending::RateLimited { after, limit } => {
                job.rate_limited += 1;
                let until = self.due_after(*after);
                let closes = until > now;
                let closed = closes && (self.close_limit(id, until, limit.as_deref()) || limit.is_none() && self.close_group(id, until));
                self.come_back(out, if closed || until <= now { Back::Head } else { Back::Scheduled(*after) });
                self.count("snoozed", 1);
            }
            Ending::Repeat { delay } => {
                (job.attempts, job.snoozes, job.rate_limited, job.releases) = (0, 0, 0, (0, None));
                job.odd = !job.odd;
                job.failures.clear();
                self.come_back(out, if delay.is_zero() { Back::Tail } else { Back::Scheduled(*delay) });
                self.count("repeated", 1);
            }
            Ending::Bury { reason, error } => {
                if let Some(error) = error {
                    job.attempts += 1;
                    job.fail(now, error);
                    self.count("failed", 1);
                }
                self.end(out, End::Dead(*reason));
            }
            Ending::Cancel { reason } => self.end(out, End::Cancelled(Some(reason.clone()))),
            Ending::Expire => self.end(out, End::Expired),
            Ending::Park { task } => self.come_back(out, Back::Parked(task.clone())),
            Ending::Unreadable { task, release, error, within } => {
                job.fail(now, error);
                let mut unreadable = job.unreadable.take().unwrap_or_default();
                if unreadable.releases.is_empty() {
                    unreadable.until_ms = now.saturating_add(i64::try_from(within.as_millis()).unwrap_or(i64::MAX));
                }
                if !unreadable.releases.contains(release) {
                    unreadable.releases.push(release.clone());
                    unreadable.releases.sort();
                }
                if unreadable.releases.len() > UNREADABLE_RELEASES {
                    unreadable.until_ms = now;
                }
                job.unreadable = Some(unreadable);
                self.come_back(out, Back::Parked(task.clone()));
            }
            ending => {
                if let Ending::Stopped { by_shutdown: true } = ending {
                    job.release(now);
                }
                self.come_back(out, Back::Head);
                self.count("released", 1);
            }
        }
        true
    }

    /// Moves what is due to the tail of its line, in the order of the times.
    fn promote_due(&mut self) {
        for state in [JobState::Scheduled, JobState::Retry] {
            let due: Vec<JobId> =
                self.ids(state).into_iter().filter(|id| self.jobs[id].place().at() <= Some(self.now)).take(DUE_ITEMS).collect();
            // What comes back to the head does so in the order of the times as well.
            let (first, last): (Vec<&JobId>, Vec<&JobId>) = due.iter().partition(|id| state == JobState::Retry && self.comes_first(id));
            for (id, how) in last.into_iter().map(|id| (id, Back::Tail)).chain(first.into_iter().rev().map(|id| (id, Back::Head))) {
                let out = self.leave(id);
                self.back(out, how);
            }
        }
    }

    /// Which jobs a turn gets: parked ones of its tasks, one suspect at most, then by priority.
    fn hand_out(&mut self, turn: &Turn, seen: Option<&Seen>) -> Vec<JobId> {
        let mut room = Room::new(turn, self.claim);
        for task in turn.resume.iter().filter(|task| !self.is_aside(task)).cloned().collect::<Vec<_>>() {
            let names: BTreeSet<String> =
                self.jobs.values().filter_map(|job| readable_by(turn.release.as_deref().unwrap_or_default(), &task, job.place())).collect();
            for name in names {
                let is_parked = |place: &Place| matches!(place, Place::Parked(under) if *under == name);
                let parked: Vec<JobId> = self.jobs.iter().filter(|(_, job)| is_parked(job.place())).map(|(id, _)| id.clone()).collect();
                // A job of a group, or with limits, waits for its turn.
                let (grouped, parked): (Vec<JobId>, Vec<JobId>) =
                    parked.into_iter().partition(|id| self.jobs[id].group.is_some() || self.jobs[id].limits.is_some());
                let fits = |id: &&JobId| room.suspects() || self.jobs[*id].crashes == 0;
                let grouped: Vec<&JobId> = grouped.iter().filter(fits).take(room.jobs()).collect();
                for id in grouped.into_iter().rev() {
                    let out = self.leave(id);
                    self.back(out, Back::Head);
                }
                self.admit_first(parked, usize::MAX, &mut room, seen);
            }
        }
        if let Some(seen) = seen.filter(|_| self.has_limits()) {
            return self.hand_out_seen(room, seen);
        }
        let near = |line: &VecDeque<JobId>, room: &Room| {
            let most = if seen.is_some() { line.len() } else { room.jobs().saturating_add(MAX_ITEMS) };
            line.iter().take(most).cloned().collect()
        };
        if room.suspects() {
            let line = near(self.ready.suspects(), &room);
            self.admit_first(line, 1, &mut room, seen);
        }
        if room.suspects()
            && let Some(suspect) = self.next_suspect()
            && self.admit(&suspect, &mut room) == Admitted::Taken
        {
            self.served_suspect(&suspect);
        }
        let picks = if self.groups.waits() { self.choose(room.jobs()) } else { Picks::all_plain(usize::MAX) };
        let mut plain = picks.plain_jobs();
        for priority in 0..self.ready.priorities().len() {
            let line = near(&self.ready.priorities()[priority], &room);
            let before = room.jobs();
            self.admit_first(line, plain, &mut room, seen);
            plain -= before - room.jobs();
        }
        self.served_plain(&picks, picks.plain_jobs() - plain);
        for pick in &picks.grouped {
            match self.admit(&pick.id, &mut room) {
                Admitted::Taken => self.served(pick),
                Admitted::Passed => {}
                Admitted::Full => break,
            }
        }
        let taken = room.taken();
        match seen {
            Some(seen) => as_seen(taken, &self.ready.loose, &seen.ids),
            None => taken,
        }
    }

    /// Whether a job had limits: then a broker is free to choose among those that may start.
    pub fn has_limits(&self) -> bool {
        self.limits.used
    }

    /// What was seen, up to the first that may not start.
    fn hand_out_seen(&mut self, mut room: Room, seen: &Seen) -> Vec<JobId> {
        for id in &seen.ids {
            if room.has_taken(id) {
                continue;
            }
            if !self.may_start(id, room.suspects()) || self.admit(id, &mut room) != Admitted::Taken {
                break;
            }
        }
        let mut taken = room.taken();
        taken.sort_by_key(|id| seen.ids.iter().position(|other| other == id));
        taken
    }

    /// Takes the first of a line, at most so many. Of the loose ones in it those that were seen, wherever in the line they were.
    fn admit_first(&mut self, line: Vec<JobId>, most: usize, room: &mut Room, seen: Option<&Seen>) {
        let line = match seen {
            Some(seen) => {
                let (mut loose, strict): (Vec<JobId>, Vec<JobId>) = line.into_iter().partition(|id| self.ready.loose.contains(id));
                loose.retain(|id| seen.ids.contains(id));
                loose.extend(strict);
                loose
            }
            None => line,
        };
        let mut taken = 0;
        for id in line {
            if taken == most {
                return;
            }
            match self.admit(&id, room) {
                Admitted::Taken => taken += 1,
                Admitted::Passed => {}
                Admitted::Full => return,
            }
        }
    }

    fn outlook(&self) -> TurnAnswer {
        let mut answer = TurnAnswer::default();
        (answer.now_ms, answer.paused) = (self.now, self.paused);
        let may = |id: &JobId| self.held_back(id).is_none();
        answer.suspects = !self.paused && (self.ready.suspects().iter().any(may) || self.next_suspect().is_some());
        if self.limits.used {
            answer.more = self.could_start(false).next().is_some();
        } else {
            answer.more = !self.paused && (self.ready.priorities().iter().any(|line| !line.is_empty()) || self.groups_wait());
        }
        let waiting = self.jobs.values().filter(|job| matches!(job.place(), Place::Scheduled(_) | Place::Retry(_)));
        let due = waiting.filter_map(|job| job.place().at()).chain(self.limits_due()).filter(|_| !self.paused);
        let due = due.chain(self.next_end()).min();
        answer.next_due = due.map(|due| Duration::from_millis(u64::try_from(due - self.now).unwrap_or(0)));
        answer.parked = self.jobs.values().any(|job| matches!(job.place(), Place::Parked(_)));
        answer.lanes = self.lanes.values().filter(|lane| !lane.fenced).count();
        answer
    }
}

/// The name under which a job is parked that a worker of a release takes that knows the task.
fn readable_by(release: &str, task: &str, place: &Place) -> Option<String> {
    let Place::Parked(name) = place else { return None };
    let mut parts = name.split('\u{1}');
    (parts.next() == Some(task) && parts.all(|failed| failed != release)).then(|| name.clone())
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
