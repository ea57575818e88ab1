//! Wakes idle workers of this and other processes when jobs were committed.
//!
//! Within a process a hint goes through a channel. Between processes it is a datagram, see
//! [`sockets`](super::sockets). Hints may be lost, so waiting workers also poll.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

#[cfg(unix)]
use super::sockets::Peers;
use super::tx::{HintsOut, between};
use crate::{
    broker::{Announcers, Hints},
    clock::Clock,
};

/// The listeners of this process, by their subjects: the name of a queue, or a name that
/// [`tx`](super::tx) makes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners {
    announcers: Arc<Mutex<Announcers<String>>>,
    clock: Clock,
}

impl Listeners {
    /// The listeners of a broker with this clock.
    pub(crate) fn by(clock: Clock) -> Self {
        Listeners { clock, ..Listeners::default() }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Notifies all listeners that there may be work now.
    pub(crate) fn notify_all(&self) {
        self.announcers.lock().unwrap_or_else(PoisonError::into_inner).announce_all();
    }

    pub(crate) fn of(&self, queue: &str) -> Hints {
        let mut listeners = self.announcers.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.hints(queue.to_owned())
    }

    pub(crate) fn notify(&self, queue: &str, at: i64) {
        let listeners = self.announcers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(announcer) = listeners.get(queue) {
            let wait = between(self.clock.since_1970(), at);
            announcer.announce((!wait.is_zero()).then(|| (Instant::now() + wait).into_std()));
        }
    }
}

/// The sending side, which the writer holds.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    listeners: Listeners,
    #[cfg(unix)]
    peers: Option<Peers>,
}

impl Bell {
    /// A bell without listeners.
    pub(crate) fn silent() -> Self {
        Bell::default()
    }

    /// A bell for the listeners of this process.
    pub(crate) fn new(listeners: Listeners) -> Self {
        Bell { listeners, ..Bell::default() }
    }

    /// Also notifies other processes that have the same file open.
    #[cfg(unix)]
    pub(crate) fn with(self, peers: Peers) -> Self {
        Bell { peers: Some(peers), ..self }
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.listeners.clock()
    }

    pub(crate) fn ring(&mut self, hints: HintsOut) {
        for (queue, at) in hints {
            self.listeners.notify(&queue, at);
            #[cfg(unix)]
            if let Some(peers) = &mut self.peers {
                peers.ring(&queue, at);
            }
        }
    }
}
