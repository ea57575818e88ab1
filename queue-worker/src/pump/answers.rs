//! Answers to turns, and late turns: their effect on slots, lanes and queues.

use std::{mem, time::Instant};

use queue_core::{
    CancelCause,
    broker::{Delivery, Ending, Finish, PauseOf, Turn, TurnAnswer},
};

use super::{
    Pump,
    clock::poll_interval,
    lane::{LaneId, TurnEnd, return_claims},
    reason::{Latest, Reason},
    shares::served,
    slots::Held,
};
use crate::{
    letters::{self, address},
    messages::{Batch, SlotId},
    time::now,
    tuning::LATE,
};

/// A finished turn, with its reservations.
pub(super) struct TurnDone {
    pub(super) lane: LaneId,
    pub(super) generation: u32,
    pub(super) claim: usize,
    pub(super) end: TurnEnd,
}

impl Pump {
    /// Releases the reservations of turns that are not answered in time, so a slow server of one
    /// queue does not affect the others. The late answer may bring jobs that find no slot or may
    /// not run. These are returned at once.
    pub(super) fn release_late_turns(&mut self, now: Instant) {
        for (index, queue) in self.queues.all.iter_mut().enumerate() {
            for (number, lane) in queue.lanes.iter_mut().enumerate().filter(|(_, lane)| lane.in_flight && !lane.late) {
                if lane.sent.is_some_and(|sent| now >= sent + LATE) {
                    lane.late = true;
                    self.slots.unanswered -= lane.finishes.len() + mem::take(&mut lane.in_doubt);
                    if lane.reserved > 0 {
                        self.slots.reserved -= mem::take(&mut lane.reserved);
                        queue.claiming -= 1;
                        self.suspects.answered(LaneId { queue: index, lane: number });
                    }
                }
            }
        }
        self.poll_for_suspect();
    }

    pub(super) fn turn_ended(&mut self, done: TurnDone) {
        let TurnDone { lane: id, generation, claim, end } = done;
        self.suspects.answered(id);
        self.queues.mark_dirty(id.queue);
        let state = &mut self.queues[id.queue];
        state.used -= claim;
        let lane = &mut state.lanes[id.lane];
        if let Some(sent) = lane.sent {
            self.pace.answered(id, now().saturating_duration_since(sent));
        }
        state.claiming -= usize::from(lane.reserved > 0);
        self.slots.reserved -= mem::take(&mut lane.reserved);
        lane.in_flight = false;
        lane.sending = 0;
        self.slots.unanswered -= mem::take(&mut lane.in_doubt);
        if mem::take(&mut lane.late) {
            self.slots.unanswered += lane.finishes.len();
        }
        state.registered = true;
        if lane.generation != generation {
            // The lane was abandoned while this turn was in flight.
            state.work.ask(Reason::Lost);
            return_claims(&self.shared.connection.broker, end);
            return self.poll_for_suspect();
        }
        match end {
            TurnEnd::Answered { name, turn, answer, sent } => {
                (lane.name, lane.lost) = (Some(name), false);
                lane.answered = turn.seq;
                lane.lease.set(sent + turn.lease);
                self.process_answer(id, claim, &turn, answer, sent);
            }
            TurnEnd::Registered { name, sent } => {
                (lane.name, lane.lost) = (Some(name), false);
                lane.lease.set(sent + self.shared.settings.lease);
            }
            TurnEnd::Forgotten => {
                state.work.ask(Reason::Lost);
                self.lane_forgotten(id);
            }
        }
        self.send_first_heartbeat();
        self.poll_for_suspect();
    }

    fn process_answer(&mut self, id: LaneId, claim: usize, turn: &Turn, answer: TurnAnswer, sent: Instant) {
        for position in &answer.stale {
            if let Some(finish) = turn.finishes.get(*position)
                && !matches!(finish.ending, Ending::Void | Ending::Return | Ending::Stopped { .. })
            {
                let job = address(&turn.queue, &finish.id);
                tracing::warn!(%job, claim = finish.claim, "lease lost: the result of the handler was discarded");
            }
        }
        let burials = &mut self.queues[id.queue].lanes[id.lane].burials;
        if !burials.is_empty() {
            letters::log_confirmed(&turn.queue, burials, &turn.finishes, &answer.stale);
        }
        for of in &answer.resumed {
            tracing::info!(queue = %turn.queue, %of, "pause expired, resumed");
        }
        let now = now();
        let state = &mut self.queues[id.queue];
        state.parked = answer.parked;
        if answer.resumed.iter().any(|of| matches!(of, PauseOf::Task(_))) {
            // The pause has ended. This turn has not requested its parked jobs, or has done so
            // before the end.
            state.resumed = None;
            state.work.ask(Reason::Clock);
        }
        state.served -= served(claim.saturating_sub(answer.deliveries.len()), state.weight);
        if claim > 0 {
            let nothing = !answer.more && !answer.suspects && !answer.parked;
            let latest = match (answer.more && !answer.paused, nothing && answer.next_due.is_none()) {
                (true, _) => Latest::Backlog,
                (_, true) => Latest::Calm,
                _ => Latest::Other,
            };
            state.workers = answer.lanes;
            state.work.answered(latest, answer.as_of, nothing && !answer.paused);
            self.suspects.set_waiting(id.queue, answer.suspects);
            let poll = poll_interval(answer.lanes);
            let due = answer.next_due;
            // The broker has read its clock about half-way. The wake time is never later than a
            // hint that was received in the meantime, because this answer may be older than the
            // hint.
            let looked = sent + now.saturating_duration_since(sent) / 2;
            self.queues.wake_by(id.queue, looked + due.map_or(poll, |due| due.min(poll)));
        }
        let mut jobs = Vec::with_capacity(answer.deliveries.len());
        for delivery in answer.deliveries {
            if let Some(slot) = self.take_slot(id, &delivery, now) {
                jobs.push((slot, delivery));
            } else {
                // The claim is revoked, or this turn was sent before its slots were reassigned or
                // before the stop request.
                let ending = if delivery.void { Ending::Void } else { Ending::Return };
                self.slots.unanswered += 1;
                self.queues[id.queue].lanes[id.lane].finishes.push(Finish::new(&delivery, ending));
            }
        }
        if jobs.is_empty() {
            return;
        }
        let state = &mut self.queues[id.queue];
        let lane = &mut state.lanes[id.lane];
        lane.finishes.reserve(jobs.len());
        let Some(name) = lane.name.clone() else { unreachable!("a lane that was answered has a name") };
        let batch = Batch {
            queue: state.name.clone(),
            lane: name,
            lease: lane.lease.clone(),
            watched: self.shared.queues[id.queue].watched.clone(),
            now_ms: answer.now_ms,
            jobs,
        };
        if let Err(lost) = self.batches.send(batch) {
            // The application's runtime has ended: no job can run here any more.
            for (slot, _) in lost.0.jobs {
                self.ended(slot, Ending::Return, None, now);
            }
        }
    }

    fn take_slot(&mut self, id: LaneId, delivery: &Delivery, since: Instant) -> Option<SlotId> {
        if delivery.void || self.stop.times.is_some() {
            return None;
        }
        let suspect = delivery.crashes > 0;
        if suspect && self.suspects.runs() {
            return None;
        }
        let slot = self.slots.take()?;
        let queue = &mut self.queues[id.queue];
        let lane = &mut queue.lanes[id.lane];
        lane.held += 1;
        queue.used += 1;
        if suspect {
            // One heartbeat later, so that the broker knows that the process is alive.
            let lasts = Some(delivery.suspected_for).filter(|lasts| !lasts.is_zero());
            self.suspects.began(lasts.and_then(|lasts| since.checked_add(lasts + self.shared.settings.heartbeat_interval())));
        }
        self.slots.jobs[slot.index] = Some(Held {
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
            cancelled: None,
            stuck: false,
            polls: (0, since),
        });
        Some(slot)
    }

    /// R11. If the lease of the lane had expired, only this lane is affected. Otherwise the broker
    /// is an older copy of itself, and its answers to the other lanes are equally doubtful.
    pub(super) fn lane_forgotten(&mut self, id: LaneId) {
        let state = &mut self.queues[id.queue];
        let lane = &state.lanes[id.lane];
        let concerned: Vec<usize> = if lane.held > 0 || lane.is_leased() { (0..state.lanes.len()).collect() } else { vec![id.lane] };
        if lane.is_leased() {
            self.shared.connection.outage.log_data_loss(now());
        }
        let lost: usize = concerned.iter().map(|lane| state.lanes[*lane].held).sum();
        if lost > 0 {
            tracing::error!(queue = %state.name, jobs = lost, "the broker has no record of this worker: the leases of its jobs are lost");
        }
        for lane in &concerned {
            let lane = &mut state.lanes[*lane];
            if !lane.late {
                self.slots.unanswered -= lane.finishes.len();
            }
            letters::log_unconfirmed(&state.name, &mut lane.burials);
            lane.forget();
        }
        state.work.ask(Reason::Lost);
        self.cancel(CancelCause::LeaseLost, |held| held.lane.queue == id.queue && concerned.contains(&held.lane.lane));
    }
}
