//! The address of one server, and the validity of the connections to it.

use std::sync::{Arc, Mutex, PoisonError};

use redis::{AsyncConnectionConfig, ProtocolVersion};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::url::{Access, Address};
use crate::error::{Error, Result};

/// A server. All links to it share this endpoint, so each link uses the state that other links have
/// found.
#[derive(Debug)]
pub(in crate::redis) struct Endpoint {
    /// The name of the server in errors, without secrets.
    shown: Arc<str>,
    access: Access,
    /// Whether the role of a server that answers has to be checked.
    may_be_replica: bool,
    place: Mutex<Place>,
    /// Wakes the task that finds the servers.
    trouble: Arc<Notify>,
}

#[derive(Debug)]
struct Place {
    address: Option<Address>,
    /// Cancelled when all connections made until then have become invalid.
    era: CancellationToken,
}

impl Endpoint {
    /// A server with a fixed address.
    pub(in crate::redis) fn fixed(shown: impl Into<Arc<str>>, access: Access, address: Address, trouble: Arc<Notify>) -> Arc<Self> {
        let place = Mutex::new(Place { address: Some(address), era: CancellationToken::new() });
        Arc::new(Endpoint { shown: shown.into(), access, may_be_replica: false, place, trouble })
    }

    /// A master whose address sentinels or nodes know.
    #[cfg(feature = "sentinel")]
    pub(in crate::redis) fn moving(shown: impl Into<Arc<str>>, access: Access, trouble: Arc<Notify>) -> Arc<Self> {
        let place = Mutex::new(Place { address: None, era: CancellationToken::new() });
        Arc::new(Endpoint { shown: shown.into(), access, may_be_replica: true, place, trouble })
    }

    pub(in crate::redis) fn shown(&self) -> &str {
        &self.shown
    }

    pub(in crate::redis) fn may_be_replica(&self) -> bool {
        self.may_be_replica
    }

    /// The current address of the server, if known.
    pub(in crate::redis) fn address(&self) -> Option<Address> {
        self.lock().address.clone()
    }

    pub(in crate::redis) fn uses_tls(&self) -> bool {
        self.access.uses_tls()
    }

    /// A client of the server at its current address, its connection settings, and the era in which
    /// the connection is valid.
    pub(in crate::redis) fn client(&self, protocol: ProtocolVersion) -> Result<(redis::Client, AsyncConnectionConfig, CancellationToken)> {
        let (address, era) = {
            let place = self.lock();
            (place.address.clone(), place.era.clone())
        };
        if era.is_cancelled() {
            return Err(self.unavailable("it holds no queue of this client any more"));
        }
        let address = address.ok_or_else(|| self.unavailable("the address of its master is not known yet"))?;
        let (client, config) = self.access.client(&address, protocol)?;
        Ok((client, config, era))
    }

    /// The server has moved. Drops every connection to the old address. Returns whether the address
    /// has changed.
    #[cfg(feature = "sentinel")]
    pub(in crate::redis) fn move_to(&self, address: Address) -> bool {
        let mut place = self.lock();
        let moved = place.address.as_ref() != Some(&address);
        if moved {
            place.address = Some(address);
            std::mem::take(&mut place.era).cancel();
        }
        moved
    }

    /// The server is not the expected one. Drops every connection to it.
    pub(in crate::redis) fn disconnect_all(&self) {
        std::mem::take(&mut self.lock().era).cancel();
        self.request_refresh();
    }

    /// The server is no longer needed.
    #[cfg(feature = "cluster")]
    pub(in crate::redis) fn close(&self) {
        self.lock().era.cancel();
    }

    /// Reports a problem with the server: the topology is refreshed.
    pub(in crate::redis) fn request_refresh(&self) {
        self.trouble.notify_one();
    }

    pub(in crate::redis) fn unavailable(&self, problem: impl Into<String>) -> Error {
        Error::unavailable(&*self.shown, problem)
    }

    /// The error for a server to which no connection can be made.
    pub(in crate::redis) fn unreachable(&self, problem: impl Into<String>) -> Error {
        Error::unreachable(&*self.shown, problem)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
