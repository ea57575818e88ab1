//! Sending of turns: the time, the lane and the contents.

use std::time::Instant;

use queue_core::broker::{PartyName, Turn, WorkerMode};

use super::{
    Pump,
    answers::TurnDone,
    lane::{Lane, LaneId, send_turn},
    shares::served,
};
use crate::{
    time::now,
    tuning::{LANES, LATE, MOST_INTRODUCED, MOST_WORK, RESUME, SMALLEST_PART},
};

impl Pump {
    /// Sends all turns that may be sent now.
    pub(super) fn plan(&mut self) {
        let now = now();
        self.register_first_lanes(now);
        self.register_quiet();
        self.pace.begin(now);
        let free = self.slots.unreserved();
        if self.mode() == WorkerMode::Works && free > 0 && self.pace.may_share(free, now) {
            for (queue, share) in self.shares(free) {
                if !self.send_claims(queue, share, now) && self.shared.settings.strict_order {
                    break;
                }
            }
        }
        // A queue whose turn is postponed goes to the end of the list.
        let n_dirty = self.queues.dirty.len();
        for at in 0..n_dirty {
            let queue = self.queues.dirty[at];
            self.queues[queue].dirty = false;
            for lane in 0..self.queues[queue].lanes.len() {
                let entry = &self.queues[queue].lanes[lane];
                if entry.in_flight || entry.finishes.is_empty() {
                    continue;
                }
                if self.may_send_turn(queue, entry.finishes.len(), now) {
                    self.send(LaneId { queue, lane }, 0);
                } else {
                    self.queues.mark_dirty(queue);
                }
            }
        }
        self.queues.dirty.drain(..n_dirty);
    }

    /// Registers the first lanes of many queues together, so that a slot does not wait for the
    /// registration of its queue.
    fn register_first_lanes(&mut self, now: Instant) {
        if self.queues.unregistered.is_empty() || self.stop.times.is_some() {
            return;
        }
        // The server of one queue must not delay the registration in the others.
        let all = &self.queues.all;
        self.queues.registering.retain(|(since, queue)| !all[*queue].registered && now < *since + LATE);
        while self.queues.registering.len() < MOST_INTRODUCED {
            let Some(queue) = self.queues.unregistered.pop() else { return };
            self.queues.registering.push((now, queue));
            self.register(queue);
        }
    }

    /// A quiet worker sends no claims. In a queue whose broker has lost all of its lanes, it
    /// registers again, because it cannot be resumed without heartbeats.
    fn register_quiet(&mut self) {
        if self.mode() != WorkerMode::Quiet {
            return;
        }
        for queue in 0..self.queues.all.len() {
            let state = &self.queues[queue];
            if state.registered && state.lanes.iter().all(|lane| lane.name.is_none() && !lane.in_flight) {
                self.register(queue);
            }
        }
    }

    /// Registers the first lane of a queue without a claim.
    fn register(&mut self, queue: usize) {
        let (shared, state) = (self.shared.clone(), &mut self.queues[queue]);
        let turn = Turn::new(state.name.clone(), no_name(), 1, shared.settings.lease);
        if state.lanes.is_empty() {
            state.lanes.push(Lane::default());
        }
        let lane = &mut state.lanes[0];
        (lane.in_flight, lane.sent) = (true, None);
        let (lane, generation, lost) = (LaneId { queue, lane: 0 }, lane.generation, lane.lost);
        self.turns.push(Box::pin(async move {
            let end = send_turn(shared, None, lost, turn).await;
            TurnDone { lane, generation, claim: 0, end }
        }));
    }

    /// When the next first lanes are registered, even if the previous registrations have no answer.
    pub(super) fn next_registration(&self) -> Option<Instant> {
        self.queues.registering.first().filter(|_| !self.queues.unregistered.is_empty()).map(|(since, _)| *since + LATE)
    }

    /// Whether a turn of this queue with `items` items is sent now.
    fn may_send_turn(&mut self, queue: usize, items: usize, now: Instant) -> bool {
        let state = &mut self.queues[queue];
        let idle = state.lanes.iter().all(|lane| !lane.in_flight);
        self.pace.may_send(items, state.limit, idle, &mut state.waits, now)
    }

    /// Claims up to `share` jobs. A larger share is claimed in parts by several lanes: while the
    /// jobs of one part run, the turn of another is in flight. Returns false if a part of the share
    /// could not be claimed, or is postponed.
    fn send_claims(&mut self, queue: usize, share: usize, now: Instant) -> bool {
        let mut left = share;
        while left > 0 && self.queues[queue].may_have_work() {
            let part = if self.queues[queue].work.has_backlog() { self.slots.len().div_ceil(2).max(SMALLEST_PART) } else { left };
            let claim = left.min(part).min(MOST_WORK);
            if !self.send_claim(queue, claim, now) {
                return false;
            }
            left -= claim;
        }
        true
    }

    /// Claims through an idle lane: the one with the most results to submit, or a new one.
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
        // Claimed jobs also use the room of those that this turn ends.
        let room = self.slots.claimable() + state.lanes[lane].endings_per_turn();
        let part = claim.min(room);
        if part == 0 || !self.may_send_turn(queue, part.max(finishes), now) {
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
        let (worker, lost) = (lane.name.clone(), lane.lost);
        // An unregistered lane's name is filled in by `send_turn`.
        let mut turn = Turn::new(state.name.clone(), worker.clone().unwrap_or_else(no_name), lane.answered + 1, shared.settings.lease);
        lane.sending = finishes.len();
        lane.in_doubt = finishes.len().max(claim);
        self.slots.unanswered += lane.in_doubt - finishes.len();
        turn.finishes = finishes;
        turn.claim = claim;
        turn.suspect = asked;
        turn.keep = shared.settings.sweep.keep;
        if claim > 0 && state.parked && state.resumed.is_none_or(|last| last.elapsed() >= RESUME) {
            state.resumed = Some(now());
            turn.resume = shared.application.names_to_resume(&turn.queue);
            turn.release = Some(shared.identity.release.clone());
        }
        lane.in_flight = true;
        let (rest, sent) = (!lane.finishes.is_empty(), now());
        state.used += claim;
        state.served += served(claim, state.weight);
        if claim > 0 {
            state.claiming += 1;
            tracing::trace!(queue = %state.name, claim, reason = ?state.work.reason(), "asks for work");
            state.work.claim_sent();
        }
        lane.reserved = claim;
        lane.sent = Some(sent);
        self.pace.sent(sent, id);
        if rest {
            self.queues.mark_dirty(id.queue);
        }
        self.slots.reserved += claim;
        let (lane, generation) = (id, self.queues[id.queue].lanes[id.lane].generation);
        self.turns.push(Box::pin(async move {
            let end = send_turn(shared, worker, lost, turn).await;
            TurnDone { lane, generation, claim, end }
        }));
    }
}

fn no_name() -> PartyName {
    PartyName::new("")
}
