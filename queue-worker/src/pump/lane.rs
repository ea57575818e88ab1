//! Lanes: the workers that the broker knows. A process has up to four per queue, so that one turn
//! can be prepared while another is in flight.

use std::{sync::Arc, time::Instant};

use queue_core::{
    __private::LeaseClock,
    Error,
    broker::{DynBroker, Ending, Finish, PartyName, Register, Turn, TurnAnswer},
};

use crate::{
    connection::Connection, letters::Burial, outage::Waiting, patience::Patience, shared::Shared, time::now, tuning::LONGEST_PAUSE,
};

/// The state of a lane in the pump.
#[derive(Default)]
pub(super) struct Lane {
    /// `None` if the lane has to register first.
    pub(super) name: Option<PartyName>,
    /// Grows with every name. A delivery of an older generation is lost.
    pub(super) generation: u32,
    /// The number of the last answered turn.
    pub(super) answered: u64,
    /// Whether a turn or a registration is in flight.
    pub(super) in_flight: bool,
    /// Slots that are reserved for the answer of the turn in flight, and the time at which it was
    /// sent.
    pub(super) reserved: usize,
    pub(super) sent: Option<Instant>,
    /// Jobs that the turn in flight may hold at the broker: those whose endings it carries, or
    /// those that it claims.
    pub(super) in_doubt: usize,
    /// Whether the turn in flight is not answered in time. The jobs of a late lane take no slots
    /// from other lanes.
    pub(super) late: bool,
    /// Endings of its deliveries that wait for its next turn.
    pub(super) finishes: Vec<Finish>,
    /// The log entries of results, collected or in flight, that create dead letters.
    pub(super) burials: Vec<Burial>,
    /// The number of endings in the turn in flight.
    pub(super) sending: usize,
    /// The number of deliveries without an ending.
    pub(super) held: usize,
    /// When its lease ends.
    pub(super) lease: LeaseClock,
    /// Whether it replaces a lane that the broker has forgotten before the end of its lease.
    pub(super) lost: bool,
}

impl Lane {
    /// Whether the broker should have an entry with a valid lease.
    pub(super) fn is_leased(&self) -> bool {
        self.name.is_some() && self.lease.until() > now()
    }

    /// Whether it holds jobs or may hold some. Its lease must not expire.
    pub(super) fn is_used(&self) -> bool {
        self.held > 0 || self.in_flight || !self.finishes.is_empty()
    }

    /// Resets a lane that the broker has forgotten.
    pub(super) fn forget(&mut self) {
        self.lost |= self.is_leased();
        self.generation += 1;
        self.name = None;
        self.answered = 0;
        self.held = 0;
        self.finishes.clear();
        self.lease = LeaseClock::default();
    }
}

/// The index of a queue, and of a lane in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneId {
    pub(super) queue: usize,
    pub(super) lane: usize,
}

/// How a turn ended.
#[allow(clippy::large_enum_variant, reason = "nearly all are of the large kind")]
pub(super) enum TurnEnd {
    /// The lane was registered by a request sent at this time, and there was no other work.
    Registered { name: PartyName, sent: Instant },
    /// The turn was answered. A request sent at this time has renewed the lease.
    Answered { name: PartyName, turn: Turn, answer: TurnAnswer, sent: Instant },
    /// The broker no longer knows the lane.
    Forgotten,
}

/// Registers if necessary, then sends the turn, unchanged, until it is answered (R10).
///
/// `lost` is true if the lane replaces one that the broker has forgotten before the end of its
/// lease.
pub(super) async fn send_turn(shared: Arc<Shared>, name: Option<PartyName>, lost: bool, mut turn: Turn) -> TurnEnd {
    let (queue, connection, identity) = (turn.queue.clone(), &shared.connection, &shared.identity);
    // A replay does not renew the lease (R5). The next heartbeat after it must not be too late.
    let mut patience = Patience::new(LONGEST_PAUSE.min(turn.lease / 6));
    let mut waiting = None;
    let name = match name {
        Some(name) => name,
        None => loop {
            let request = Register::lane(queue.clone(), identity.process, turn.lease).with_info(identity.info.clone()).after_loss(lost);
            let sent = now();
            let registered = connection.broker.register(&request).await.map(|registered| registered.name);
            if registered.is_ok() {
                waiting = None;
                connection.outage.answered();
            }
            match registered {
                Ok(name) if turn.claim == 0 && turn.finishes.is_empty() => return TurnEnd::Registered { name, sent },
                Ok(name) => break name,
                Err(error) => wait(connection, &mut waiting, &mut patience, &queue, sent, &error).await,
            }
        },
    };
    turn.lane = name.clone();
    loop {
        let sent = now();
        match connection.broker.turn(&turn).await {
            Ok(answer) => {
                drop(waiting);
                connection.answered();
                return TurnEnd::Answered { name, turn, answer, sent };
            }
            Err(Error::Forgotten(_) | Error::Old { .. }) => return TurnEnd::Forgotten,
            Err(error) => wait(connection, &mut waiting, &mut patience, &queue, sent, &error).await,
        }
    }
}

/// Returns the jobs that a turn has claimed for a lane that was abandoned in the meantime, so they
/// do not wait for the end of its lease. The request is sent once. If it is lost, the jobs are
/// reclaimed when the lease expires.
pub(super) fn return_claims(broker: &DynBroker, end: TurnEnd) {
    let TurnEnd::Answered { name, turn, answer, .. } = end else { return };
    let claimed = answer.deliveries.iter().filter(|delivery| !delivery.void);
    let finishes: Vec<Finish> = claimed.map(|delivery| Finish::new(delivery, Ending::Return)).collect();
    if finishes.is_empty() {
        return;
    }
    let returned = Turn::new(turn.queue, name, turn.seq + 1, turn.lease).finish(finishes);
    let sent = broker.clone();
    broker.spawn(Box::pin(async move {
        if let Err(error) = sent.turn(&returned).await {
            let (queue, jobs) = (&returned.queue, returned.finishes.len());
            tracing::debug!(%queue, jobs, %error, "cannot return the jobs of a lost lane: they wait until its lease expires");
        }
    }));
}

/// Logs why a request that was sent at `sent` has no answer, then waits before the next try.
async fn wait(connection: &Connection, waiting: &mut Option<Waiting>, patience: &mut Patience, queue: &str, sent: Instant, error: &Error) {
    patience.failed();
    let tries = patience.tries();
    if error.is_transient() {
        waiting.get_or_insert_with(|| connection.outage.begin_waiting(sent, error));
        connection.outage.log_if_lasting(now());
        tracing::debug!(queue, tries, %error, "the broker does not answer, retrying");
        return patience.pause().await;
    }
    *waiting = None;
    connection.outage.answered();
    // Credentials that are being rotated, or a bug. The worker does not abandon jobs in this case.
    if patience.is_logged() {
        tracing::error!(queue, tries, %error, "the broker rejected a request, retrying");
    }
    patience.longest_pause().await;
}
