//! The load that a worker reports with its heartbeats: resource usage and busy slots.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::{WorkerMode, between};
use crate::codec;
use crate::json;

/// The first element of a load as stored.
const VERSION: u64 = 1;

/// The load of a worker, as it reports it with one lane about every five seconds
/// ([`Extend::with_load`](super::Extend::with_load)).
///
/// Memory and CPU are those of its whole process. Each of several workers in one process reports
/// the load of the whole process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WorkerLoad {
    /// Resident memory of its process, in bytes. `None` if its system does not report it.
    pub memory: Option<u64>,
    /// CPU time that its process has used since the heartbeat before, in thousandths of one core:
    /// 1,500 is one core and a half. `None` if its system does not report it, or before the second
    /// heartbeat.
    #[serde(rename = "cpu", serialize_with = "cores")]
    pub cpu_millis: Option<u64>,
    /// The number of its slots that hold a job.
    pub busy: u64,
    /// The number of its slots: its concurrency.
    pub slots: u64,
    /// Its mode.
    pub mode: WorkerMode,
    /// The number of the last request that it has received; 0 before the first. See
    /// [`WorkerAsk`](super::WorkerAsk).
    pub received: u64,
    /// How long ago it was reported, by the broker's clock.
    #[serde(rename = "age_ms", serialize_with = "json::ms")]
    pub age: Duration,
}

/// A load as stored: a MessagePack array. The broker's time is the last element, so that a broker
/// can append it.
type Stored = (u64, Option<u64>, Option<u64>, u64, u64, u8, u64, i64);

fn in_cores(millis: u64) -> f64 {
    f64::from(u32::try_from(millis).unwrap_or(u32::MAX)) / 1000.0
}

fn cores<S: Serializer>(millis: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    millis.map(in_cores).serialize(serializer)
}

impl WorkerLoad {
    /// A worker with `slots` slots, of which `busy` hold a job. The memory and CPU usage of its
    /// process are unknown.
    pub fn new(busy: u64, slots: u64) -> Self {
        WorkerLoad { busy, slots, ..WorkerLoad::default() }
    }

    /// Adds the resource usage of its process.
    #[must_use]
    pub fn using(mut self, memory: Option<u64>, cpu_millis: Option<u64>) -> Self {
        (self.memory, self.cpu_millis) = (memory, cpu_millis);
        self
    }

    /// Sets the mode, and the last request that it has received.
    #[must_use]
    pub fn working(mut self, mode: WorkerMode, received: u64) -> Self {
        (self.mode, self.received) = (mode, received);
        self
    }

    /// The CPU that it uses, in cores.
    pub fn cores(&self) -> Option<f64> {
        self.cpu_millis.map(in_cores)
    }

    /// The stored form up to the last element: the time follows.
    pub fn encoded(&self) -> Vec<u8> {
        let stored: Stored = (VERSION, self.memory, self.cpu_millis, self.busy, self.slots, self.mode.number(), self.received, 0);
        let mut encoded = codec::pack(&stored).expect("numbers can be encoded");
        // The time: a zero is one byte.
        encoded.pop();
        encoded
    }

    /// As stored, with the broker's time in milliseconds since 1970.
    pub fn stored(&self, now_ms: i64) -> Vec<u8> {
        let mut stored = self.encoded();
        codec::pack_into(&mut stored, &now_ms).expect("a number can be encoded");
        stored
    }

    /// Decodes the stored form of a worker, at this time. A damaged form, or one of a newer
    /// library, is read as empty.
    pub(super) fn read(stored: &[u8], now_ms: i64) -> Option<Self> {
        let (version, memory, cpu_millis, busy, slots, mode, received, at_ms): Stored = codec::unpack(stored).ok()?;
        let mode = WorkerMode::of_number(mode).filter(|_| version == VERSION)?;
        Some(WorkerLoad { memory, cpu_millis, busy, slots, mode, received, age: between(at_ms, now_ms) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_comes_back_as_it_was_reported() {
        let busy = WorkerLoad::new(3, 8).using(Some(1 << 40), Some(1_500)).working(WorkerMode::Quiet, u64::MAX);
        let loads = [WorkerLoad::new(0, 64), busy, WorkerLoad::new(u64::MAX, 1).working(WorkerMode::Stopping, 1)];
        for load in loads {
            let stored = load.stored(1_700_000_000_000);
            assert!(stored.starts_with(&load.encoded()));
            let read = WorkerLoad::read(&stored, 1_700_000_002_000);
            assert_eq!(read, Some(WorkerLoad { age: Duration::from_secs(2), ..load }));
        }
    }

    #[test]
    fn the_form_of_a_load_is_what_the_documents_say() {
        assert_eq!(
            WorkerLoad::new(2, 4).using(Some(5), None).working(WorkerMode::Quiet, 9).stored(6),
            b"\x98\x01\x05\xc0\x02\x04\x01\x09\x06"
        );
    }

    #[test]
    fn what_is_damaged_or_of_a_newer_library_reports_nothing() {
        let whole = WorkerLoad::new(2, 4).stored(6);
        for other in
            [&b""[..], b"theirs", &whole[..whole.len() - 1], &[&whole[..], b"\x01"].concat(), b"\x98\x02\x05\xc0\x02\x04\x01\x09\x06"]
        {
            assert_eq!(WorkerLoad::read(other, 10), None, "{other:?}");
        }
    }
}
