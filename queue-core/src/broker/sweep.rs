//! Housekeeping, and the limits of kept jobs.

use std::time::Duration;

use crate::address::JobId;

/// How much a queue keeps of ended jobs that have a retention. Beyond the limits, the oldest are
/// removed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepLimits {
    /// The number of kept jobs. Default: 1,000,000.
    pub count: u64,
    /// The bytes of their envelopes and results together. Default: 256 MiB.
    pub bytes: u64,
}

impl Default for KeepLimits {
    fn default() -> Self {
        KeepLimits { count: 1_000_000, bytes: 256 * 1024 * 1024 }
    }
}

/// The producer of a [relay](super::Enqueue::relayed) is kept this many times longer than others,
/// because its requests are repeated until they are answered.
pub const RELAY_AGE: u32 = 30;

/// How long a sweeper that has left expired entries excludes other sweepers after each of its
/// calls: longer than it takes to sweep a few other queues.
pub const SWEEPER_LEASE: Duration = Duration::from_secs(5);

/// More expired entries of one kind mean that cleanup does not keep up.
pub const CLEANUP_BEHIND: usize = 100_000;

/// Limits of one sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepLimits {
    /// Forget a producer that was silent for at least this long. Default: 24 h. On Redis it may
    /// take twice as long: an enqueue does not store its time, so a sweep finds out which producers
    /// have enqueued since the sweep before.
    pub producers: Duration,
    /// How long a given id is remembered after its job is done. Default: 24 h.
    pub remembered: Duration,
    /// How many ids are remembered, at most. Default: 1,000,000.
    pub remembered_count: u64,
    /// How long dead jobs are kept. Default: 180 days.
    pub dead: Duration,
    /// How many bytes of dead jobs are kept, at most. Default: 256 MiB.
    pub dead_bytes: u64,
    /// Limits for ended jobs that have a retention.
    pub keep: KeepLimits,
    /// The most items of each kind that one call handles. Default: 100. With 0 the call removes
    /// nothing, and reports for each kind whether more than [`CLEANUP_BEHIND`] expired entries
    /// wait: then its count is larger than that, and otherwise 0. In this case, the ages for
    /// producers, ids and dead jobs are those of the last worker that swept, if there was one.
    pub items: usize,
    /// The number of the sweeper, which each worker draws. While a sweeper has left expired
    /// entries, the sweeps of others do nothing until five seconds after its last call, so one
    /// sweeps a queue at a time. The sweep of a topic's address always excludes others, which must
    /// not trim the log meanwhile. Default: 0, this sweep waits for no other, and no other waits
    /// for it.
    pub sweeper: u64,
}

impl Default for SweepLimits {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        SweepLimits {
            producers: DAY,
            remembered: DAY,
            remembered_count: 1_000_000,
            dead: DAY * 180,
            dead_bytes: 256 * 1024 * 1024,
            keep: KeepLimits::default(),
            items: 100,
            sweeper: 0,
        }
    }
}

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Idle producers.
    pub producers: usize,
    /// Remembered ids.
    pub remembered: usize,
    /// Dead jobs past their retention; each is counted in the queue's `dead_evicted`.
    pub dead: usize,
    /// Kept jobs past their retention.
    pub ended: usize,
    /// Unique keys whose hold time has passed.
    pub keys: usize,
    /// Keys of limits whose rates no longer restrict a start; they can be removed.
    pub rates: usize,
    /// Groups without jobs whose start is not ahead of the virtual time.
    pub groups: usize,
    /// Marks of callers that waited for the end of a job.
    pub waiters: usize,
    /// Ids of jobs that a backfill or an operator has made, past
    /// [`BACKFILL_REMEMBERED`](super::BACKFILL_REMEMBERED).
    pub backfilled: usize,
    /// Lanes whose leases have expired: a reclaimer removes them, and not a sweep. 0 unless a sweep
    /// only counts.
    pub lanes: usize,
    /// Parked jobs that no release could read in time: they are buried. 0 unless a sweep only
    /// counts.
    pub parked: usize,
    /// Jobs that it has buried because no release could read them within their time.
    pub buried: Vec<JobId>,
    /// Whether more items of some kind are left than one call removes.
    pub more: bool,
    /// Whether another worker sweeps this queue: then this call has done nothing.
    pub elsewhere: bool,
}

impl Swept {
    /// How many entries were removed.
    pub fn removed(&self) -> usize {
        self.producers + self.remembered + self.dead + self.ended + self.keys + self.rates + self.groups + self.waiters + self.backfilled
    }

    /// The kinds of which something was removed, or waits, as reports name them.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let kinds = [
            ("producers", self.producers),
            ("given ids", self.remembered),
            ("dead jobs", self.dead),
            ("kept jobs", self.ended),
            ("unique keys", self.keys),
            ("rates of limits", self.rates),
            ("groups", self.groups),
            ("marks of callers", self.waiters),
            ("ids of backfills", self.backfilled),
            ("lanes", self.lanes),
            ("parked jobs", self.parked),
        ];
        kinds.into_iter().filter(|(_, entries)| *entries > 0)
    }

    /// True if there was nothing to do.
    pub fn is_empty(&self) -> bool {
        *self == Swept::default()
    }
}
