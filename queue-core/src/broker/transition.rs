//! Transitions: the state changes of jobs, reported to the watchers of a queue. Also the lifetimes
//! of marks, of watchers and of programs that wait for a job.

use std::time::Duration;

use super::JobState;
use crate::address::JobId;

/// The longest validity of the mark of a watcher that [follows](super::Broker::follow) a queue.
pub const FOLLOWED: Duration = Duration::from_secs(15);

/// The validity of the mark of a program that [watches](super::Broker::watch) a job.
pub const WATCHED: Duration = Duration::from_secs(30);

/// How long a job without retention is kept after its end if a program
/// [watched](super::Broker::watch) it then.
pub const WATCHED_KEEP: Duration = Duration::from_secs(60);

/// Most jobs of a queue that are watched at once.
pub const MOST_WATCHED: usize = 10_000;

/// At most 10,000 transitions of a queue, the last ones, are kept for the watchers that follow it.
pub const TRANSITIONS_KEPT: u64 = 10_000;

/// One request reports at most 1,000 transitions; only on Redis. Those beyond are lost, and counted
/// as such.
pub const TRANSITIONS_AT_ONCE: u64 = 1_000;

/// At most 200 bytes of the reason of a transition are reported, cut at a character.
pub const REASON_BYTES: usize = 200;

/// The position at which a watcher of a queue starts, or whether it may continue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Followed {
    /// The number of the last transition. `None`: the queue does not exist yet, and was not marked.
    pub last: Option<u64>,
    /// Whether the queue was marked before, so that every transition since then has a number.
    pub was_valid: bool,
    /// The identity of a server's run; another server may lack the last transitions.
    pub life: String,
}

impl Followed {
    /// A mark was set.
    pub fn new(last: u64, was_valid: bool, life: String) -> Self {
        Followed { last: Some(last), was_valid, life }
    }
}

/// A job went from one state to another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredTransition {
    /// Its number: those of a queue are numbered one after the other.
    pub number: u64,
    /// When, by the broker's clock, in milliseconds since 1970.
    pub at_ms: i64,
    /// The job.
    pub id: JobId,
    /// The job's task; empty if it cannot be read.
    pub task: String,
    /// The old state; `None`: the job is new.
    pub from: Option<JobState>,
    /// The new state; `None`: the job was removed before its end.
    pub to: Option<JobState>,
    /// How many of its attempts had failed.
    pub attempts: u32,
    /// Why it is dead, or was cancelled.
    pub reason: Option<String>,
}

impl StoredTransition {
    /// A transition of a job.
    pub fn new(number: u64, at_ms: i64, id: JobId) -> Self {
        StoredTransition { number, at_ms, id, task: String::new(), from: None, to: None, attempts: 0, reason: None }
    }
}

/// Transitions of a queue, in their order, as [`Inspect::transitions`](super::Inspect::transitions)
/// gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transitions {
    /// They are some of those after the requested number.
    pub entries: Vec<StoredTransition>,
    /// The number of others up to [`upto`](Self::upto) that are no longer kept; `None`: unknown.
    pub lost: Option<u64>,
    /// The number for the next call.
    pub upto: u64,
    /// The life of the server that has answered, as [`Followed::life`]. If it differs from that of
    /// the mark, transitions may be missing although the numbers show no gap.
    pub life: String,
}

impl Transitions {
    /// The transitions for a reader that has read up to `after`, of a queue whose last transition
    /// is `last`. `is_all`: no other is kept after those that were read.
    pub fn read(mut entries: Vec<StoredTransition>, after: u64, last: u64, is_all: bool) -> Self {
        entries.retain(|transition| transition.number > after);
        entries.sort_by_key(|transition| transition.number);
        if last < after {
            // The numbers were reset, or a restored copy continues with older ones.
            return Transitions { entries: Vec::new(), lost: None, upto: last, life: String::new() };
        }
        let read = entries.last().map_or(after, |transition| transition.number);
        let upto = if is_all { last.max(read) } else { read };
        let lost = (upto - after).saturating_sub(entries.len() as u64);
        Transitions { entries, lost: Some(lost), upto, life: String::new() }
    }

    /// The same, of a server with this life.
    pub fn of_life(mut self, life: String) -> Self {
        self.life = life;
        self
    }
}

/// The task in the first bytes of an envelope: its version, how long the name is, and the name.
pub fn task_in(head: &[u8]) -> String {
    let name = match head {
        [1, length, rest @ ..] => rest.get(..usize::from(*length)).unwrap_or_default(),
        _ => &[],
    };
    String::from_utf8_lossy(name).into_owned()
}

/// The first bytes of a reason.
pub fn cut_reason(reason: &str) -> &str {
    let end = (0..=REASON_BYTES.min(reason.len())).rev().find(|at| reason.is_char_boundary(*at));
    &reason[..end.unwrap_or(0)]
}

/// The text of a reason whose first bytes are stored. They may end in the middle of a character.
#[cfg(any(feature = "redis", feature = "sqlite", test))]
pub(crate) fn reason_in(head: &[u8]) -> Option<String> {
    let whole = match std::str::from_utf8(head) {
        Err(problem) if problem.error_len().is_none() => &head[..problem.valid_up_to()],
        _ => head,
    };
    Some(String::from_utf8_lossy(whole).into_owned()).filter(|reason| !reason.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(numbers: impl IntoIterator<Item = u64>) -> Vec<StoredTransition> {
        let id = JobId::make();
        numbers.into_iter().map(|number| StoredTransition::new(number, 0, id.clone())).collect()
    }

    #[test]
    fn what_is_missing_is_counted() {
        let read = |numbers: &[u64], after, last, is_all| {
            let read = Transitions::read(some(numbers.iter().copied()), after, last, is_all);
            (read.entries.len(), read.lost, read.upto)
        };
        assert_eq!(read(&[], 7, 7, true), (0, Some(0), 7));
        assert_eq!(read(&[8, 9], 7, 9, true), (2, Some(0), 9));
        assert_eq!(read(&[11, 12], 7, 12, true), (2, Some(3), 12), "the oldest are not kept");
        assert_eq!(read(&[8, 9], 7, 12, true), (2, Some(3), 12), "a request had more than it tells of");
        assert_eq!(read(&[8, 9], 7, 12, false), (2, Some(0), 9), "a page is full, and the others come with the next");
        assert_eq!(read(&[6, 7, 8], 7, 8, true), (1, Some(0), 8), "some of them were read before");
        assert_eq!(read(&[1, 2], 7, 2, true), (0, None, 2), "the numbers have begun anew");
    }

    #[test]
    fn the_task_stands_at_the_head_of_an_envelope() {
        assert_eq!(task_in(b"\x01\x04mail\0\0"), "mail");
        for strange in [&b""[..], b"\x02\x04mail", b"\x01\x05mail"] {
            assert_eq!(task_in(strange), "");
        }
    }

    #[test]
    fn a_reason_ends_with_a_whole_character() {
        for long in ["é", "a€", "🦀", "a🦀"].map(|text| text.repeat(REASON_BYTES)) {
            let cut = cut_reason(&long);
            assert!(long.starts_with(cut) && cut.len() <= REASON_BYTES && cut.len() > REASON_BYTES - 4, "{cut}");
            assert_eq!(reason_in(&long.as_bytes()[..REASON_BYTES]).as_deref(), Some(cut));
        }
        assert_eq!(reason_in(b""), None);
        assert_eq!(reason_in(b"\xff late").as_deref(), Some("\u{fffd} late"), "another program has written it");
    }
}
