//! Aging: waiting jobs rise in priority. The stored setting of a queue, and its changes.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    address::check_queue,
    codec,
    error::{Error, Result},
};

/// Longest interval of aging: a year.
pub const LONGEST_AGING: Duration = Duration::from_secs(366 * 24 * 3600);

/// The aging of waiting jobs of a queue, as an operator sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Aging {
    /// A waiting job rises by one priority after each interval. Range: 1 ms to a year.
    Every(Duration),
    /// Jobs do not rise. It overrides the declaration in code.
    Off,
    /// The declaration in code applies.
    AsDeclared,
}

/// The stored aging of a queue: the effective interval in milliseconds (0 for none), a colon, and
/// this record. Brokers read only the first part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgingRecord {
    /// The operator's setting, in milliseconds; 0 for none.
    #[serde(rename = "p", skip_serializing_if = "Option::is_none")]
    set: Option<u64>,
    /// The declarations of the workers' releases.
    #[serde(rename = "d", skip_serializing_if = "Vec::is_empty")]
    declared: Vec<Declared>,
}

/// A release, the time at which it was first seen, and the declared milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Declared(String, i64, u64);

impl AgingRecord {
    /// Sets the operator's value, which overrides the declared ones.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a time outside of the bounds.
    pub fn set(&mut self, aging: Aging) -> Result<()> {
        self.set = match aging {
            Aging::Every(every) => {
                check_aging(every)?;
                Some(in_ms(every))
            }
            Aging::Off => Some(0),
            Aging::AsDeclared => None,
        };
        Ok(())
    }

    /// Stores the declaration of a release. Removes the declarations of releases without a live
    /// worker.
    pub fn declare(&mut self, release: &str, every: Duration, live: &BTreeSet<String>, now_ms: i64) {
        match self.declared.iter_mut().find(|declared| declared.0 == release) {
            Some(known) => known.2 = in_ms(every),
            None => self.declared.push(Declared(release.to_owned(), now_ms, in_ms(every))),
        }
        self.declared.retain(|declared| declared.0 == release || live.contains(&declared.0));
    }

    /// The aging in effect: the operator's setting, or else the value that the newest release
    /// declares: the one that was first seen last.
    pub fn every(&self) -> Option<Duration> {
        let declared = self.declared.iter().max_by_key(|declared| declared.1).map(|declared| declared.2);
        self.set.or(declared).filter(|ms| *ms > 0).map(Duration::from_millis)
    }

    /// The stored form; empty if there are no settings or declarations.
    pub fn encode(&self) -> Vec<u8> {
        if self.set.is_none() && self.declared.is_empty() {
            return Vec::new();
        }
        let mut bytes = format!("{}:", self.every().map_or(0, in_ms)).into_bytes();
        bytes.extend(codec::pack(self).expect("texts and numbers can be encoded"));
        bytes
    }

    /// Reads the form in storage.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(AgingRecord::default());
        }
        let behind = bytes.iter().position(|byte| *byte == b':').map_or(bytes.len(), |at| at + 1);
        codec::unpack(&bytes[behind..]).map_err(|problem| Error::Decode { what: "what is set of aging".into(), problem })
    }

    /// For brokers: the interval that holds, of the form in storage.
    pub fn effective_interval(bytes: &[u8]) -> Option<Duration> {
        let digits = bytes.split(|byte| *byte == b':').next().unwrap_or_default();
        let ms: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        (ms > 0).then(|| Duration::from_millis(ms).min(LONGEST_AGING))
    }
}

/// Checks the interval of aging.
///
/// # Errors
/// [`Error::Invalid`], which names the allowed range.
pub fn check_aging(every: Duration) -> Result<()> {
    let invalid = |problem: &str| Err(Error::invalid("aging", humantime::format_duration(every).to_string(), problem));
    if every < Duration::from_millis(1) {
        return invalid("must be at least 1 ms; write for example `60s`, or `off`");
    }
    if every > LONGEST_AGING {
        return invalid("is more than a year; write a shorter time, or `off`");
    }
    Ok(())
}

fn in_ms(every: Duration) -> u64 {
    u64::try_from(every.as_millis()).unwrap_or(u64::MAX)
}

/// Changes the aging of a queue, if the stored value is the one that was read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SetAging {
    /// The queue.
    pub queue: Arc<str>,
    /// The stored form that was read; empty if there was none.
    pub expected: Vec<u8>,
    /// The new stored form, see [`AgingRecord::encode`]; empty to remove it.
    pub stored: Vec<u8>,
}

impl SetAging {
    /// A change.
    pub fn new(queue: impl Into<Arc<str>>, expected: Vec<u8>, stored: Vec<u8>) -> Self {
        SetAging { queue: queue.into(), expected, stored }
    }

    /// For brokers: whether it is one that can be taken.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name outside the grammar.
    pub fn check(&self) -> Result<()> {
        check_queue(&self.queue)
    }
}

/// The outcome of a [`SetAging`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgingSet {
    /// It holds.
    Set,
    /// This is stored instead: nothing was changed.
    Stale(Vec<u8>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_has_set_outlives_what_releases_declare_and_a_rollback_takes_effect() {
        let live = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        let seconds = Duration::from_secs;
        let mut record = AgingRecord::default();
        assert!(record.encode().is_empty() && record.every().is_none());
        record.declare("v1", seconds(1), &live(&["v1"]), 10);
        record.declare("v2", seconds(2), &live(&["v1", "v2"]), 20);
        record.declare("v1", seconds(1), &live(&["v1", "v2"]), 30);
        assert_eq!(record.every(), Some(seconds(2)));
        record.declare("v1", seconds(1), &live(&["v1"]), 40);
        assert_eq!(record.every(), Some(seconds(1)));
        record.set(Aging::Off).unwrap();
        assert_eq!((record.every(), AgingRecord::effective_interval(&record.encode())), (None, None));
        record.set(Aging::Every(seconds(9))).unwrap();
        assert_eq!(AgingRecord::decode(&record.encode()).unwrap(), record);
        assert_eq!(AgingRecord::effective_interval(&record.encode()), Some(seconds(9)));
        record.set(Aging::AsDeclared).unwrap();
        assert_eq!(record.every(), Some(seconds(1)));
        assert!(record.set(Aging::Every(Duration::ZERO)).unwrap_err().to_string().contains("aging `0s` must be at least 1 ms"));
        assert!(record.set(Aging::Every(2 * LONGEST_AGING)).is_err());
    }
}
