//! Notifications that wake the relays of this process. They are found by the identity of their
//! database.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::watch;

/// The notification for a database. Each of its relays has a receiver, because only the relay with
/// the lease can act on it.
pub(crate) type Bell = watch::Sender<()>;

pub(crate) fn of(database: &[u8]) -> Arc<Bell> {
    static BELLS: Mutex<Option<HashMap<Vec<u8>, Weak<Bell>>>> = Mutex::new(None);
    let mut bells = BELLS.lock().unwrap_or_else(PoisonError::into_inner);
    let bells = bells.get_or_insert_default();
    if let Some(bell) = bells.get(database).and_then(Weak::upgrade) {
        return bell;
    }
    bells.retain(|_, bell| bell.strong_count() > 0);
    let bell = Arc::new(Bell::new(()));
    bells.insert(database.to_vec(), Arc::downgrade(&bell));
    bell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_relay_of_a_database_is_woken() {
        let (here, there) = (of(b"here"), of(b"there"));
        let (one, two, other) = (here.subscribe(), of(b"here").subscribe(), there.subscribe());
        here.send_replace(());
        let woken = [one, two, other].map(|relay| relay.has_changed().unwrap());
        assert_eq!(woken, [true, true, false]);
    }
}
