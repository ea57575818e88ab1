//! Turns: what is sent when, and what their answers mean.

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use queue_core::{
    broker::{Delivery, Ending, Finish, MAX_BYTES, PartyName, Turn, TurnAnswer},
    context::CancelCause,
};

use super::{Held, Pump, SlotId, clock::poll_interval, shares::served};
use crate::{
    engine::Shared,
    lane::{LANES, Lane, LaneId, TurnEnd, give_back, settle},
    letters::{self, address},
    run::Batch,
    time::now,
};

/// A finished turn, with what it had reserved.
pub(super) struct TurnDone {
    lane: LaneId,
    generation: u32,
    claim: usize,
    end: TurnEnd,
}

/// So many queues are registered at once.
const MOST_INTRODUCED: usize = 64;

/// Nothing is reserved any longer for a turn that has not been answered for so long.
const LATE: Duration = Duration::from_millis(500);

/// Parked jobs of known tasks are asked for at most this often, and this many names at once.
const RESUME: Duration = Duration::from_secs(1);
const RESUME_NAMES: usize = 200;

impl Pump {
    /// Sends what can be sent.
    pub(super) fn plan(&mut self) {
        let now = now();
        self.introduce(now);
        self.pace.begin(now);
        let free = self.free.len().saturating_sub(self.reserved);
        if self.stopping.is_none() && free > 0 && self.pace.goes(free, usize::MAX, true, &mut self.sharing_waits, now) {
            for (queue, share) in self.shares(free) {
                if !self.send_claims(queue, share, now) && self.shared.settings.strict_order {
                    break;
                }
            }
        }
        // What is not worth a turn yet comes to its end again.
        let n_dirty = self.dirty.len();
        for at in 0..n_dirty {
            let queue = self.dirty[at];
            self.queues[queue].dirty = false;
            for lane in 0..self.queues[queue].lanes.len() {
                let entry = &self.queues[queue].lanes[lane];
                if entry.in_flight || entry.finishes.is_empty() {
                    continue;
                }
                if self.is_worth(queue, entry.finishes.len(), now) {
                    self.send(LaneId { queue, lane }, 0);
                } else {
                    self.soil(queue);
                }
            }
        }
        self.dirty.drain(..n_dirty);
    }

    /// Registers the first lanes of many queues together: a slot that is given to a queue does not wait for that.
    fn introduce(&mut self, now: Instant) {
        if self.strangers.is_empty() || self.stopping.is_some() {
            return;
        }
        // The server of one queue is no matter of the others here, too.
        self.introducing.retain(|(since, queue)| !self.queues[*queue].introduced && now < *since + LATE);
        while self.introducing.len() < MOST_INTRODUCED {
            let Some(queue) = self.strangers.pop() else { return };
            self.introducing.push((now, queue));
            let (shared, state) = (self.shared.clone(), &mut self.queues[queue]);
            let turn = Turn::new(state.name.clone(), nobody(), 1, shared.settings.lease);
            state.lanes.push(Lane { in_flight: true, ..Lane::default() });
            let (lane, generation) = (LaneId { queue, lane: 0 }, state.lanes[0].generation);
            self.turns.push(Box::pin(async move {
                let end = settle(shared, None, turn).await;
                TurnDone { lane, generation, claim: 0, end }
            }));
        }
    }

    /// When the next ones may be introduced, whatever becomes of those before.
    pub(super) fn next_introduction(&self) -> Option<Instant> {
        self.introducing.first().filter(|_| !self.strangers.is_empty()).map(|(since, _)| *since + LATE)
    }

    /// Whether a turn of this queue with so many items goes out now.
    fn is_worth(&mut self, queue: usize, items: usize, now: Instant) -> bool {
        let state = &mut self.queues[queue];
        let idle = state.lanes.iter().all(|lane| !lane.in_flight);
        self.pace.goes(items, state.limit, idle, &mut state.waits, now)
    }

    /// Claims up to `share` jobs. A queue that has more than that is claimed from in parts, by several lanes: while the jobs
    /// of one run, the turn of another is on its way. False: not all of it could be, or should be now.
    fn send_claims(&mut self, queue: usize, share: usize, now: Instant) -> bool {
        let mut left = share;
        while left > 0 && self.queues[queue].is_hungry() {
            let part = if self.queues[queue].backlog { self.slots.len().div_ceil(2).max(SMALLEST_PART) } else { left };
            let claim = left.min(part).min(MOST_WORK);
            if !self.send_claim(queue, claim, now) {
                return false;
            }
            left -= claim;
        }
        true
    }

    /// Claims through an idle lane: the one with most endings to hand in, or a new one.
    fn send_claim(&mut self, queue: usize, claim: usize, now: Instant) -> bool {
        let state = &mut self.queues[queue];
        let idle = state.lanes.iter().enumerate().filter(|(_, lane)| !lane.in_flight).max_by_key(|(_, lane)| lane.finishes.len());
        let lane = match idle {
            Some((lane, _)) => lane,
            None if state.lanes.len() < LANES => {
                state.lanes.push(Lane::default());
                state.lanes.len() - 1
            }
            None => return false,
        };
        let finishes = state.lanes[lane].finishes.len();
        // The broker never holds more jobs for this worker than it can run: what is claimed takes the place of what is ended.
        let room = self.free.len().saturating_sub(self.unsettled) + state.lanes[lane].fitting();
        let part = claim.min(room);
        if part == 0 || !self.is_worth(queue, part.max(finishes), now) {
            return false;
        }
        self.send(LaneId { queue, lane }, part);
        part == claim
    }

    fn send(&mut self, id: LaneId, claim: usize) {
        let shared = self.shared.clone();
        let asked = claim > 0 && self.suspects.ask(id);
        let state = &mut self.queues[id.queue];
        let lane = &mut state.lanes[id.lane];
        let finishes = lane.take_finishes();
        let worker = lane.name.clone();
        // An unregistered lane's name is filled in by `settle`.
        let mut turn = Turn::new(state.name.clone(), worker.clone().unwrap_or_else(nobody), lane.answered + 1, shared.settings.lease);
        lane.sending = finishes.len();
        lane.in_doubt = finishes.len().max(claim);
        self.unsettled += lane.in_doubt - finishes.len();
        turn.finishes = finishes;
        turn.claim = claim;
        turn.suspect = asked;
        turn.keep = shared.settings.keep;
        if claim > 0 && state.parked && state.resumed.is_none_or(|last| last.elapsed() >= RESUME) {
            state.resumed = Some(now());
            turn.resume = names_to_resume(&shared);
        }
        lane.in_flight = true;
        let (rest, sent) = (!lane.finishes.is_empty(), now());
        state.used += claim;
        state.served += served(claim, state.weight);
        if claim > 0 {
            state.claiming += 1;
            state.hinted = false;
        }
        lane.reserved = claim;
        lane.sent = Some(sent);
        self.pace.sent(sent, id);
        if rest {
            self.soil(id.queue);
        }
        self.reserved += claim;
        let (lane, generation) = (id, self.queues[id.queue].lanes[id.lane].generation);
        self.turns.push(Box::pin(async move {
            let end = settle(shared, worker, turn).await;
            TurnDone { lane, generation, claim, end }
        }));
    }

    /// Gives back what is reserved for turns that are not answered in time: the server of one queue is no matter of the others.
    /// Jobs that such an answer brings in the end, and that find no slot or may not run, are released at once.
    pub(super) fn look_at_turns(&mut self, now: Instant) {
        for (index, queue) in self.queues.iter_mut().enumerate() {
            for (number, lane) in queue.lanes.iter_mut().enumerate().filter(|(_, lane)| lane.in_flight && !lane.late) {
                if lane.sent.is_some_and(|sent| now >= sent + LATE) {
                    lane.late = true;
                    self.unsettled -= lane.finishes.len() + mem::take(&mut lane.in_doubt);
                    if lane.reserved > 0 {
                        self.reserved -= mem::take(&mut lane.reserved);
                        queue.claiming -= 1;
                        self.suspects.answered(LaneId { queue: index, lane: number });
                    }
                }
            }
        }
        self.look_for_suspects();
    }

    pub(super) fn turn_ended(&mut self, done: TurnDone) {
        let TurnDone { lane: id, generation, claim, end } = done;
        self.suspects.answered(id);
        self.soil(id.queue);
        let state = &mut self.queues[id.queue];
        state.used -= claim;
        let lane = &mut state.lanes[id.lane];
        if let Some(sent) = lane.sent {
            self.pace.answered(id, now().saturating_duration_since(sent));
        }
        state.claiming -= usize::from(lane.reserved > 0);
        self.reserved -= mem::take(&mut lane.reserved);
        lane.in_flight = false;
        lane.sending = 0;
        self.unsettled -= mem::take(&mut lane.in_doubt);
        if mem::take(&mut lane.late) {
            self.unsettled += lane.finishes.len();
        }
        state.introduced = true;
        if lane.generation != generation {
            // It was given up while this turn was on its way.
            state.look();
            give_back(&self.shared, end);
            return self.look_for_suspects();
        }
        match end {
            TurnEnd::Answered { name, turn, answer, sent } => {
                lane.name = Some(name);
                lane.answered = turn.seq;
                lane.lease.set(sent + turn.lease);
                self.answered(id, claim, &turn, answer, sent);
            }
            TurnEnd::Registered { name, sent } => {
                lane.name = Some(name);
                lane.lease.set(sent + self.shared.settings.lease);
            }
            TurnEnd::Forgotten => {
                state.look();
                self.forgotten(id);
            }
        }
        self.look_for_suspects();
    }

    fn answered(&mut self, id: LaneId, claim: usize, turn: &Turn, answer: TurnAnswer, sent: Instant) {
        for position in &answer.stale {
            if let Some(finish) = turn.finishes.get(*position)
                && !matches!(finish.ending, Ending::Void | Ending::Release)
            {
                let job = address(&turn.queue, &finish.id);
                tracing::warn!(%job, claim = finish.claim, "its lease was lost: this ending changed nothing");
            }
        }
        let burials = &mut self.queues[id.queue].lanes[id.lane].burials;
        if !burials.is_empty() {
            letters::confirmed(&turn.queue, burials, &turn.finishes, &answer.stale);
        }
        let now = now();
        let state = &mut self.queues[id.queue];
        state.parked = answer.parked;
        state.served -= served(claim.saturating_sub(answer.deliveries.len()), state.weight);
        if claim > 0 {
            state.backlog = answer.more && !answer.paused;
            state.calm = !answer.more && !answer.suspects && !answer.parked && answer.next_due.is_none();
            state.workers = answer.workers;
            let found_all = !answer.more && !answer.suspects && !answer.parked && !answer.paused;
            state.looked(answer.as_of, found_all);
            self.suspects.told(id.queue, answer.suspects);
            let poll = poll_interval(answer.workers);
            let due = answer.next_due.filter(|_| !answer.paused);
            // The broker looked at its clock about half-way. Never later than what a hint has said meanwhile: this answer may be
            // older than it.
            let looked = sent + now.saturating_duration_since(sent) / 2;
            self.wake_by(id.queue, looked + due.map_or(poll, |due| due.min(poll)));
        }
        let mut jobs = Vec::with_capacity(answer.deliveries.len());
        for delivery in answer.deliveries {
            if let Some(slot) = self.take_slot(id, &delivery, now) {
                jobs.push((slot, delivery));
            } else {
                // Taken away since, or claimed by a turn whose slots were given away, or that was under way when the worker was
                // told to stop.
                let ending = if delivery.void { Ending::Void } else { Ending::Release };
                self.unsettled += 1;
                self.queues[id.queue].lanes[id.lane].finishes.push(Finish::new(&delivery, ending));
            }
        }
        if jobs.is_empty() {
            return;
        }
        let state = &mut self.queues[id.queue];
        state.lanes[id.lane].finishes.reserve(jobs.len());
        let batch = Batch { queue: state.name.clone(), lease: state.lanes[id.lane].lease.clone(), now_ms: answer.now_ms, jobs };
        if let Err(lost) = self.batches.send(batch) {
            // The application's runtime is gone: nobody will run anything here any more.
            for (slot, _) in lost.0.jobs {
                self.ended(slot, Ending::Release, now);
            }
        }
    }

    fn take_slot(&mut self, id: LaneId, delivery: &Delivery, since: Instant) -> Option<SlotId> {
        if delivery.void || self.stopping.is_some() {
            return None;
        }
        let suspect = delivery.crashes > 0;
        if suspect && self.suspects.runs() {
            return None;
        }
        let index = self.free.pop()?;
        self.next_generation += 1;
        let slot = SlotId { index, generation: self.next_generation };
        let queue = &mut self.queues[id.queue];
        let lane = &mut queue.lanes[id.lane];
        lane.held += 1;
        queue.used += 1;
        if suspect {
            self.suspects.began();
        }
        self.slots[index] = Some(Held {
            generation: slot.generation,
            lane: id,
            lane_generation: lane.generation,
            id: delivery.id.clone(),
            claim: delivery.claim,
            size: delivery.envelope.len(),
            attempts: delivery.attempts,
            since,
            suspect,
            handler: None,
            told: None,
            stuck: false,
        });
        Some(slot)
    }

    /// R11. A lane whose lease had run out is alone concerned. If it should have stood, the broker is an older copy of itself,
    /// and what it told the other lanes is as doubtful.
    pub(super) fn forgotten(&mut self, id: LaneId) {
        let state = &mut self.queues[id.queue];
        let lane = &state.lanes[id.lane];
        let concerned: Vec<usize> = if lane.held > 0 || lane.is_leased() { (0..state.lanes.len()).collect() } else { vec![id.lane] };
        let lost: usize = concerned.iter().map(|lane| state.lanes[*lane].held).sum();
        if lost > 0 {
            tracing::error!(queue = %state.name, jobs = lost, "the broker has forgotten this worker: the leases of its jobs are lost");
        }
        for lane in &concerned {
            let lane = &mut state.lanes[*lane];
            if !lane.late {
                self.unsettled -= lane.finishes.len();
            }
            letters::unconfirmed(&state.name, &mut lane.burials);
            lane.forget();
        }
        state.look();
        self.cancel(CancelCause::LeaseLost, |held| held.lane.queue == id.queue && concerned.contains(&held.lane.lane));
    }
}

/// Fewer jobs than these are not worth a turn of their own.
const SMALLEST_PART: usize = 16;

/// Most claims of one turn, and most plain acks: the broker answers nobody else meanwhile.
const MOST_WORK: usize = 256;

impl Lane {
    /// What fits into one turn; the rest stays for the next.
    fn take_finishes(&mut self) -> Vec<Finish> {
        let rest = self.finishes.split_off(self.fitting());
        mem::replace(&mut self.finishes, rest)
    }

    /// How many of its endings fit into one turn.
    fn fitting(&self) -> usize {
        let (mut bytes, mut done) = (0, 0);
        let fit = self.finishes.iter().take_while(|finish| {
            bytes += size(&finish.ending);
            done += work(&finish.ending);
            bytes <= MAX_BYTES && done <= MOST_WORK
        });
        fit.count().max(1).min(self.finishes.len())
    }
}

/// About how many plain acks the broker could take in instead: they go all at once, others one by one.
fn work(ending: &Ending) -> usize {
    match ending {
        Ending::Ack { keep: None, .. } => 1,
        Ending::Ack { keep: Some(_), .. } => 2,
        _ => 4,
    }
}

/// About how many bytes an ending takes.
fn size(ending: &Ending) -> usize {
    const REST: usize = 64;
    REST + match ending {
        Ending::Ack { result, .. } => result.as_ref().map_or(0, Vec::len),
        Ending::Nack { error, .. } => error.len(),
        Ending::Bury { error, .. } => error.as_ref().map_or(0, String::len),
        Ending::Cancel { reason } => reason.len(),
        Ending::Park { task } => task.len(),
        _ => 0,
    }
}

/// The task names that this worker takes parked jobs of; another part of them each time where they are too many for one turn.
fn names_to_resume(shared: &Shared) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = shared.tasks.keys().map(|name| Arc::from(*name)).collect();
    if names.len() > RESUME_NAMES {
        fastrand::shuffle(&mut names);
        names.truncate(RESUME_NAMES);
    }
    names
}

fn nobody() -> PartyName {
    PartyName::new("")
}

#[cfg(test)]
mod tests {
    use queue_core::JobId;

    use super::*;

    fn acks(n: usize, bytes: usize) -> Lane {
        let finish = |claim| Finish { id: JobId::make(), claim, size: 0, ending: Ending::Ack { result: Some(vec![0; bytes]), keep: None } };
        Lane { finishes: (0..n as u64).map(finish).collect(), ..Lane::default() }
    }

    #[test]
    fn a_turn_is_bounded_in_work_and_in_bytes_and_nothing_is_left_behind() {
        let mut small = acks(MOST_WORK + 7, 0);
        assert_eq!(small.take_finishes().len(), MOST_WORK);
        assert_eq!(small.take_finishes().len(), 7);
        assert!(small.take_finishes().is_empty());

        let mut large = acks(40, 64 * 1024);
        let first = large.take_finishes();
        assert!(first.len() < 16 && !first.is_empty(), "{}", first.len());
        assert_eq!(first.len() + large.finishes.len(), 40);
    }

    #[test]
    fn endings_that_take_longer_fill_a_turn_sooner() {
        let mut lane = acks(MOST_WORK, 0);
        let failed = Ending::Nack { delay: Duration::ZERO, error: String::new() };
        lane.finishes.iter_mut().for_each(|finish| finish.ending = failed.clone());
        assert_eq!(lane.take_finishes().len(), MOST_WORK / 4);
        assert_eq!(lane.finishes.len(), MOST_WORK - MOST_WORK / 4);
    }

    #[test]
    fn an_ending_larger_than_a_turn_travels_alone() {
        let mut lane = acks(2, MAX_BYTES + 1);
        assert_eq!(lane.take_finishes().len(), 1);
        assert_eq!(lane.take_finishes().len(), 1);
    }
}
