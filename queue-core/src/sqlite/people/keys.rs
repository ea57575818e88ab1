//! Shows and releases the holder of a unique key.

use crate::{
    broker::{KeyHolder, UniqueKey},
    sqlite::{
        connection::tx::{Failed, Tx},
        doors::keys,
    },
};

pub(crate) fn key_holder(tx: &mut Tx<'_>, queue: &str, key: &UniqueKey) -> Result<Option<KeyHolder>, Failed> {
    match tx.queue(queue)? {
        Some(queue) => keys::holder(tx, &queue, key),
        None => Ok(None),
    }
}

pub(crate) fn release_key(tx: &mut Tx<'_>, queue: &str, key: &UniqueKey) -> Result<Option<KeyHolder>, Failed> {
    match tx.queue(queue)? {
        Some(queue) => keys::release(tx, &queue, key),
        None => Ok(None),
    }
}
