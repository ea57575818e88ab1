//! Lanes: the workers that the broker knows. A process has up to four per queue, so that one turn can be prepared while
//! another is in flight.

use std::{sync::Arc, time::Instant};

use queue_core::{
    __private::LeaseClock,
    Error,
    broker::{Ending, Finish, PartyName, Register, Turn, TurnAnswer},
};

use crate::{engine::Shared, letters::Burial, outage::Waiting, patience::Patience, time::now, tuning::LONGEST_PAUSE};

/// What the pump knows of a lane.
#[derive(Default)]
pub(crate) struct Lane {
    /// `None`: it has to register first.
    pub(crate) name: Option<PartyName>,
    /// Grows with every name: a delivery of an older one is lost.
    pub(crate) generation: u32,
    /// The last answered turn.
    pub(crate) answered: u64,
    /// Whether a turn, or a registration, is on its way.
    pub(crate) in_flight: bool,
    /// Slots that are reserved for the answer of the turn that is on its way, and since when.
    pub(crate) reserved: usize,
    pub(crate) sent: Option<Instant>,
    /// Jobs that the turn on its way may hold at the broker: those whose endings it carries, or those that it claims.
    pub(crate) in_doubt: usize,
    /// The turn on its way is not answered in time: what the lane holds at the broker takes no slots from other lanes.
    pub(crate) late: bool,
    /// Endings of its deliveries that wait for its next turn.
    pub(crate) finishes: Vec<Finish>,
    /// The log entries of results, collected or in flight, that create dead letters.
    pub(crate) burials: Vec<Burial>,
    /// How many travel with the turn that is on its way.
    pub(crate) sending: usize,
    /// How many of its deliveries have not ended.
    pub(crate) held: usize,
    /// When its lease ends.
    pub(crate) lease: LeaseClock,
    /// Whether it registers in the place of one that the broker has forgotten although its lease stood.
    pub(crate) lost: bool,
}

impl Lane {
    /// Whether the broker should have an entry with a valid lease.
    pub(crate) fn is_leased(&self) -> bool {
        self.name.is_some() && self.lease.until() > now()
    }

    /// Whether it holds jobs, or may hold some: its lease must not expire.
    pub(crate) fn is_used(&self) -> bool {
        self.held > 0 || self.in_flight || !self.finishes.is_empty()
    }

    /// Starts over: the broker has forgotten it.
    pub(crate) fn forget(&mut self) {
        self.lost |= self.is_leased();
        self.generation += 1;
        self.name = None;
        self.answered = 0;
        self.held = 0;
        self.finishes.clear();
        self.lease = LeaseClock::default();
    }
}

/// Which lane of which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneId {
    pub(crate) queue: usize,
    pub(crate) lane: usize,
}

/// How a turn ended.
#[allow(clippy::large_enum_variant, reason = "nearly all are of the large kind")]
pub(crate) enum TurnEnd {
    /// The lane has a name, by a request sent at this time, and there was nothing else to do.
    Registered { name: PartyName, sent: Instant },
    /// It was answered; the lease was renewed by a request sent at this time.
    Answered { name: PartyName, turn: Turn, answer: TurnAnswer, sent: Instant },
    /// The broker no longer knows the lane.
    Forgotten,
}

/// Registers if need be, then sends the turn, unchanged, until it is answered (R10).
///
/// `lost` if it registers in the place of a lane that the broker has forgotten although its lease stood.
pub(crate) async fn send_turn(shared: Arc<Shared>, name: Option<PartyName>, lost: bool, mut turn: Turn) -> TurnEnd {
    let queue = turn.queue.clone();
    // A replay does not renew the lease (R5), so that the next beat after it must not come too late.
    let mut patience = Patience::new(LONGEST_PAUSE.min(turn.lease / 6));
    let mut waiting = None;
    let name = match name {
        Some(name) => name,
        None => loop {
            let request = Register::lane(queue.clone(), shared.process, turn.lease).with_info(shared.info.clone()).after_loss(lost);
            let sent = now();
            let registered = shared.broker.register(&request).await.map(|registered| registered.name);
            if registered.is_ok() {
                waiting = None;
                shared.outage.answered();
            }
            match registered {
                Ok(name) if turn.claim == 0 && turn.finishes.is_empty() => return TurnEnd::Registered { name, sent },
                Ok(name) => break name,
                Err(error) => wait(&shared, &mut waiting, &mut patience, &queue, sent, &error).await,
            }
        },
    };
    turn.lane = name.clone();
    loop {
        let sent = now();
        match shared.broker.turn(&turn).await {
            Ok(answer) => {
                drop(waiting);
                shared.heard();
                return TurnEnd::Answered { name, turn, answer, sent };
            }
            Err(Error::Forgotten(_) | Error::Old { .. }) => return TurnEnd::Forgotten,
            Err(error) => wait(&shared, &mut waiting, &mut patience, &queue, sent, &error).await,
        }
    }
}

/// Releases the jobs that a turn has claimed for a lane that was abandoned in the meantime, so they
/// do not wait for the end of its lease. This is sent once. If it does not arrive, the jobs come
/// back when the lease has run out.
pub(crate) fn give_back(shared: &Shared, end: TurnEnd) {
    let TurnEnd::Answered { name, turn, answer, .. } = end else { return };
    let claimed = answer.deliveries.iter().filter(|delivery| !delivery.void);
    let finishes: Vec<Finish> = claimed.map(|delivery| Finish::new(delivery, Ending::Release)).collect();
    if finishes.is_empty() {
        return;
    }
    let release = Turn::new(turn.queue, name, turn.seq + 1, turn.lease).finish(finishes);
    let broker = shared.broker.clone();
    shared.broker.spawn(Box::pin(async move {
        if let Err(error) = broker.turn(&release).await {
            let (queue, jobs) = (&release.queue, release.finishes.len());
            tracing::debug!(%queue, jobs, %error, "cannot release the jobs of a lost lane: they wait until its lease expires");
        }
    }));
}

/// Tells why a request that was sent then has no answer, and waits before it is sent again.
async fn wait(shared: &Shared, waiting: &mut Option<Waiting>, patience: &mut Patience, queue: &str, sent: Instant, error: &Error) {
    patience.failed();
    let tries = patience.tries();
    if error.is_transient() {
        waiting.get_or_insert_with(|| shared.outage.met(sent, error));
        shared.outage.look(now());
        tracing::debug!(queue, tries, %error, "the broker does not answer, retrying");
        return patience.pause().await;
    }
    *waiting = None;
    shared.outage.answered();
    // Credentials that are being rotated, or a bug: no job is abandoned for it.
    if patience.is_news() {
        tracing::error!(queue, tries, %error, "the broker rejected a request, retrying");
    }
    patience.longest_pause().await;
}
