//! Resource usage of this process: resident memory and CPU time. It is unknown on systems that do
//! not report it.

use std::time::{Duration, Instant};

use queue_core::broker::WorkerLoad;

/// The minimum time over which the CPU share is measured. Heartbeats may come within milliseconds
/// of each other. The cost of one request would be most of such a time.
const SPAN: Duration = Duration::from_secs(1);

/// The CPU share is that of the time between two samples. Within [`SPAN`] of the last sample, that
/// sample is returned again.
#[derive(Debug)]
pub(crate) struct Usage {
    /// The time of the last sample, and the CPU time then.
    last: Option<(Instant, Duration)>,
    /// The share at the last sample, in thousandths of one core. Unknown until the process has been
    /// sampled for a [`SPAN`].
    share: Option<u64>,
}

impl Usage {
    /// The first sample, at this time.
    pub(crate) fn begin(now: Instant) -> Self {
        Usage { last: cpu_time().map(|used| (now, used)), share: None }
    }

    /// The load at the time `now` of a worker with `slots` slots, of which `busy` hold a job.
    pub(crate) fn load(&mut self, busy: usize, slots: usize, now: Instant) -> WorkerLoad {
        let passed = self.last.map(|(then, _)| now.saturating_duration_since(then));
        if passed.is_none_or(|passed| passed >= SPAN) {
            let used = cpu_time();
            self.share =
                self.last.zip(used).zip(passed).and_then(|(((_, before), used), passed)| millis(used.saturating_sub(before), passed));
            self.last = used.map(|used| (now, used));
        }
        WorkerLoad::new(busy as u64, slots as u64).using(memory(), self.share)
    }
}

/// Thousandths of one core. `None` if no time has passed.
fn millis(used: Duration, passed: Duration) -> Option<u64> {
    let millis = used.as_micros().saturating_mul(1000).checked_div(passed.as_micros())?;
    u64::try_from(millis).ok()
}

/// The CPU time that all threads of this process have used.
fn cpu_time() -> Option<Duration> {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
    }
    #[cfg(not(unix))]
    None
}

/// The resident memory of this process, in bytes. The kernel creates this file when it is read, so
/// the read does not wait for a disk.
fn memory() -> Option<u64> {
    if cfg!(target_os = "linux") { resident(&std::fs::read_to_string("/proc/self/status").ok()?) } else { None }
}

/// The value in `/proc/self/status`, in units of 1,024 bytes.
fn resident(status: &str) -> Option<u64> {
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix("kB")?;
    kilobytes.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resident_memory_is_read_from_what_the_kernel_says() {
        assert_eq!(resident("Name:\tworker\nVmHWM:\t  9000 kB\nVmRSS:\t    4300 kB\nThreads:\t4\n"), Some(4300 * 1024));
        for other in ["", "VmRSS:\n", "VmRSS:\t4300 pages\n", "VmRSS:\tmany kB\n", "VmRSS:\t18446744073709551615 kB\n"] {
            assert_eq!(resident(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_share_of_cpu_is_what_was_used_of_the_time_that_passed() {
        let of = |used, passed| millis(Duration::from_millis(used), Duration::from_millis(passed));
        assert_eq!((of(2_500, 5_000), of(7_500, 5_000), of(0, 5_000), of(5, 0)), (Some(500), Some(1_500), Some(0), None));
    }

    #[cfg(unix)]
    #[test]
    fn samples_a_few_milliseconds_apart_repeat_the_last() {
        let began = Instant::now();
        let mut usage = Usage::begin(began);
        let mut cpu_at = |millis: u64| {
            // The CPU time divided by 5 ms would be a large share.
            let used = cpu_time().unwrap();
            while cpu_time().unwrap() < used + Duration::from_millis(2) {}
            usage.load(0, 4, began + Duration::from_millis(millis)).cpu_millis
        };
        assert_eq!([5, 10, 15, 999].map(&mut cpu_at), [None; 4], "it has not lived for a second");
        let first = cpu_at(1_000);
        assert!(first.is_some());
        assert_eq!([1_005, 1_010, 1_999].map(&mut cpu_at), [first; 3]);
        assert!(cpu_at(6_000).is_some());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_uses_memory_and_from_the_second_look_on_cpu() {
        let began = Instant::now();
        let mut usage = Usage::begin(began);
        let first = usage.load(1, 4, began);
        assert_eq!((first.busy, first.slots, first.cpu_millis), (1, 4, None));
        assert!(first.memory.is_some_and(|bytes| bytes > 100_000), "{first:?}");
        while cpu_time().unwrap() < usage.last.unwrap().1 + Duration::from_millis(20) {}
        let millis = usage.load(1, 4, began + Duration::from_secs(1)).cpu_millis.expect("there was a look before");
        assert!(millis > 0, "it has done nothing else");
    }
}
