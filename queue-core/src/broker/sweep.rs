//! Housekeeping: how much is kept of what has ended.

use std::time::Duration;

/// Limits of what a queue keeps of jobs that ended and were asked to be kept; the oldest go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepLimits {
    /// Number of kept jobs. Default: 1,000,000.
    pub count: u64,
    /// Bytes of their envelopes and results together. Default: 256 MiB.
    pub bytes: u64,
}

impl Default for KeepLimits {
    fn default() -> Self {
        KeepLimits { count: 1_000_000, bytes: 256 * 1024 * 1024 }
    }
}

/// Limits of a round of housekeeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepLimits {
    /// Forget producers that were silent for so long at least. Default: 24 h. On Redis it may take twice as long: an enqueue does
    /// not say when it was, and the round finds out who has sent since it last looked.
    pub producers: Duration,
    /// Keep the tombstone of a finished given id for so long. Default: 24 h.
    pub tombstones: Duration,
    /// Keep at most so many of them. Default: 1,000,000.
    pub tombstone_count: u64,
    /// Keep dead jobs for so long. Default: 180 days.
    pub dead: Duration,
    /// Keep at most so many bytes of dead jobs. Default: 256 MiB.
    pub dead_bytes: u64,
    /// Limits of kept jobs that ended.
    pub keep: KeepLimits,
    /// Touch at most so many items of each kind in one call. Default: 100.
    pub items: usize,
}

impl Default for SweepLimits {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        SweepLimits {
            producers: DAY,
            tombstones: DAY,
            tombstone_count: 1_000_000,
            dead: DAY * 180,
            dead_bytes: 256 * 1024 * 1024,
            keep: KeepLimits::default(),
            items: 100,
        }
    }
}

/// What a round of housekeeping removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Idle producers.
    pub producers: usize,
    /// Tombstones of given ids.
    pub tombstones: usize,
    /// Dead jobs past their retention; each is counted in the queue's `dead_evicted`.
    pub dead: usize,
    /// Kept jobs past their retention.
    pub ended: usize,
}

impl Swept {
    /// True when nothing was left to do.
    pub fn is_empty(&self) -> bool {
        *self == Swept::default()
    }
}
