//! The condition of a broker: its free space, and whether it accepts new jobs.

use std::fmt;

/// The answer of [`Broker::condition`](super::Broker::condition). A value that the broker does not
/// report is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Condition {
    /// Bytes of memory that the server uses, as it counts them against its limit.
    pub used: Option<u64>,
    /// Bytes of memory that the server may use.
    pub limit: Option<u64>,
    /// Bytes that are free on the disk of the database file.
    pub free: Option<u64>,
    /// Bytes of the write-ahead log of the database file, once it is far larger than it should be:
    /// a process that reads for long keeps it from being emptied.
    pub log: Option<u64>,
    /// The numbers of the processes of this machine that read the database file now, where `log` is
    /// a figure and the system names them.
    pub readers: Vec<u32>,
    /// Why the broker refuses new jobs, or would lose some; `None` while it accepts and keeps them.
    pub trouble: Option<Trouble>,
    /// Problems of the folder or file system that has the database file. The broker works with
    /// them.
    pub advice: Vec<Advice>,
}

/// A problem with which the broker works, but more slowly or less safely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The cause.
    pub problem: String,
    /// The recommended action.
    pub advice: &'static str,
}

/// Why a reachable broker does not accept or keep new jobs. The string has the cause, with figures.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// There is no room: enqueues are refused with [`Error::BrokerFull`](crate::Error::BrokerFull).
    /// Jobs can still be claimed and end, and leases are renewed.
    Full(String),
    /// The server drops keys when its memory is full, and jobs with them, in any state and without
    /// a trace: an eviction policy was set while it was in use.
    Evicting(String),
    /// The server refuses every write, so that jobs can be neither claimed nor ended.
    ReadOnly(String),
    /// The database file was deleted, moved or replaced while it was open: nothing is read or
    /// written.
    Lost(String),
}

impl Trouble {
    /// The names of all kinds.
    pub const NAMES: [&'static str; 4] = ["full", "evicting", "read-only", "lost"];

    /// One word for it, as reports have it.
    pub fn name(&self) -> &'static str {
        match self {
            Trouble::Full(_) => "full",
            Trouble::Evicting(_) => "evicting",
            Trouble::ReadOnly(_) => "read-only",
            Trouble::Lost(_) => "lost",
        }
    }

    /// The recommended action.
    pub fn advice(&self) -> &'static str {
        match self {
            Trouble::Full(_) => "make room (raise `maxmemory`, or free space on the disk), or let workers catch up",
            Trouble::Evicting(_) => "set `maxmemory-policy` to `noeviction`, then see with `doctor` whether jobs are missing",
            Trouble::ReadOnly(why) if why.ends_with("(NOREPLICAS)") => "reconnect its replicas, or lower `min-replicas-to-write`",
            Trouble::ReadOnly(_) => "free space on the server's disk, then run `BGSAVE`",
            Trouble::Lost(_) => {
                "move the file back; do not start or restart a worker before that: it would create an empty database, without your jobs"
            }
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Full(why) => write!(f, "new jobs are refused: {why}"),
            Trouble::Evicting(why) => write!(f, "it drops jobs when its memory is full: {why}"),
            Trouble::ReadOnly(why) => write!(f, "every write is refused: {why}"),
            Trouble::Lost(why) => f.write_str(why),
        }
    }
}

impl Condition {
    /// Whether new jobs are refused for lack of room.
    pub fn is_full(&self) -> bool {
        matches!(self.trouble, Some(Trouble::Full(_)))
    }

    /// Whether the database file is gone.
    pub fn is_lost(&self) -> bool {
        matches!(self.trouble, Some(Trouble::Lost(_)))
    }

    /// The share of the memory limit that is used, in percent; `None` without a limit.
    pub fn percent(&self) -> Option<u64> {
        let (used, limit) = (self.used?, self.limit.filter(|limit| *limit > 0)?);
        Some(used.saturating_mul(100) / limit)
    }

    /// The message about a large write-ahead log: "its write-ahead log has 96.0 MiB: process 4321
    /// reads the file".
    pub fn large_log(&self) -> Option<String> {
        let size = bytes(self.log?);
        let numbers: Vec<String> = self.readers.iter().map(u32::to_string).collect();
        let readers = match &*numbers {
            [] => "a process has read the file for long".to_owned(),
            [one] => format!("process {one} reads the file"),
            several => format!("processes {} read the file", several.join(", ")),
        };
        Some(format!("its write-ahead log (-wal) has {size}: {readers}, and the log cannot be emptied meanwhile"))
    }

    /// The values in words: "1.5 MiB of 2.0 MiB of memory used". `None` if no relevant value is
    /// known.
    pub fn room(&self) -> Option<String> {
        match (self.used, self.limit, self.free) {
            (Some(used), Some(limit), _) => Some(format!("{} of {} of memory used", bytes(used), bytes(limit))),
            (Some(used), None, _) => Some(format!("{} of memory used, without a limit (`maxmemory` is 0)", bytes(used))),
            (None, _, Some(free)) => Some(format!("{} free on the disk", bytes(free))),
            _ => None,
        }
    }
}

/// A number of bytes in readable form.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let (mut tenths, mut unit) = (u128::from(bytes) * 10 / 1024, 0);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_refuses_every_write_has_the_fix_of_its_cause() {
        let fix = |why: &str| Trouble::ReadOnly(why.to_owned()).advice();
        assert!(fix("it has 0 of the 1 replicas that it requires (NOREPLICAS)").contains("`min-replicas-to-write`"));
        assert!(fix("its last snapshot could not be saved (MISCONF)").contains("free space"));
    }

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!([bytes(0), bytes(1023), bytes(1024), bytes(1536)], ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 KiB"]);
        assert_eq!([bytes(8 << 20), bytes(u64::MAX)], ["8.0 MiB", "16383.9 PiB"]);
        let server = Condition { used: Some(3 << 20), limit: Some(2 << 20), ..Condition::default() };
        assert_eq!((server.percent(), server.room().unwrap()), (Some(150), "3.0 MiB of 2.0 MiB of memory used".to_owned()));
        assert_eq!(Condition { used: Some(1), limit: Some(0), ..Condition::default() }.percent(), None);
        let read = Condition { log: Some(96 << 20), readers: vec![17, 4321], ..Condition::default() };
        let text = read.large_log().unwrap();
        assert!(text.starts_with("its write-ahead log (-wal) has 96.0 MiB: processes 17, 4321 read the file"), "{text}");
    }
}
