//! The cursor of a search, as a string.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Filter, bytes_of, text_of};
use crate::{codec, digest::sha256};

/// Where a search continues: how many jobs were examined before, in which queue, and where within
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct At {
    #[serde(rename = "l")]
    pub(super) examined: u64,
    #[serde(rename = "q")]
    pub(super) queue: String,
    #[serde(rename = "p")]
    pub(super) place: Option<Vec<u8>>,
    /// The digest of the filter and of the named queues: a cursor of another search would skip
    /// jobs. A new search has no queues yet.
    #[serde(rename = "f")]
    pub(super) filter: u32,
    #[serde(rename = "n")]
    pub(super) queues: Option<u32>,
}

impl At {
    pub(super) fn text(&self) -> String {
        text_of(&codec::pack(self).unwrap_or_default())
    }

    pub(super) fn read(text: &str) -> Option<At> {
        codec::unpack(&bytes_of(text)?).ok()
    }
}

/// The digest of the filter in a cursor.
pub(super) fn check(filter: &Filter) -> u32 {
    check_of(&filter.to_string())
}

/// The digest of the queues in a cursor. In which order they are named does not matter.
pub(super) fn check_queues(queues: &[String]) -> u32 {
    let queues: BTreeSet<&str> = queues.iter().map(String::as_str).collect();
    check_of(&queues.into_iter().collect::<Vec<_>>().join(" "))
}

fn check_of(text: &str) -> u32 {
    let digest = sha256(text.as_bytes());
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_printed() {
        let at = At { examined: 5000, queue: "orders".to_owned(), place: Some(vec![0, 255, 7]), filter: u32::MAX, queues: Some(7) };
        assert_eq!(At::read(&at.text()), Some(at.clone()));
        for wrong in ["", "0", "zz", "é0", &at.text()[2..], &format!("{}00", at.text())] {
            assert_eq!(At::read(wrong), None, "{wrong}");
        }
    }
}
