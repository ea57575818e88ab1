//! Wakes the relays of this process. They are found by the identity of their database.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::Notify;

/// That of a database.
pub(crate) fn of(database: &[u8]) -> Arc<Notify> {
    static BELLS: Mutex<Option<HashMap<Vec<u8>, Weak<Notify>>>> = Mutex::new(None);
    let mut bells = BELLS.lock().unwrap_or_else(PoisonError::into_inner);
    let bells = bells.get_or_insert_default();
    if let Some(bell) = bells.get(database).and_then(Weak::upgrade) {
        return bell;
    }
    bells.retain(|_, bell| bell.strong_count() > 0);
    let bell = Arc::new(Notify::new());
    bells.insert(database.to_vec(), Arc::downgrade(&bell));
    bell
}
