//! Unique keys, which allow one job per key in a queue.

use std::{fmt, str::FromStr, time::Duration};

use crate::{
    address::JobId,
    digest,
    error::{Error, Result},
};

/// A key: 128 bits, derived from the task and from the values that distinguish its jobs. As text it
/// is 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UniqueKey([u8; UniqueKey::BYTES]);

/// The input of a unique key begins with one of these bytes, so that a text never has the key of
/// parameters.
pub(crate) const GIVEN: u8 = 1;
pub(crate) const OF_PARAMETERS: u8 = 2;

impl UniqueKey {
    /// The length of a key in storage.
    pub const BYTES: usize = 16;

    /// The key of a task's jobs with these encoded values. Keys of two tasks are never the same.
    pub fn of(task: &str, values: &[u8]) -> Self {
        let length = u32::try_from(task.len()).unwrap_or(u32::MAX).to_be_bytes();
        let whole = digest::sha256([&length, task.as_bytes(), values].concat().as_slice());
        let mut key = [0; UniqueKey::BYTES];
        key.copy_from_slice(&whole[..UniqueKey::BYTES]);
        UniqueKey(key)
    }

    /// The key that `.unique_key(key)` sets for jobs of a task.
    pub fn given(task: &str, key: &str) -> Self {
        UniqueKey::of(task, &[&[GIVEN], key.as_bytes()].concat())
    }

    /// Reads the form in storage; `None` if it has another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(UniqueKey)
    }

    /// The form in storage.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for UniqueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for UniqueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UniqueKey({self})")
    }
}

impl FromStr for UniqueKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = |at: usize| text.get(2 * at..2 * at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let bytes: Option<Vec<u8>> = (0..UniqueKey::BYTES).map(read).collect();
        let whole = text.len() == 2 * UniqueKey::BYTES && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let key = bytes.filter(|_| whole).and_then(|bytes| UniqueKey::from_bytes(&bytes));
        key.ok_or_else(|| Error::invalid("unique key", text, "is not a key of 32 hexadecimal digits, as `jobs show` prints it"))
    }
}

/// For how long a job holds its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hold {
    /// Until the job has ended, in any state.
    #[default]
    UntilEnded,
    /// Until the job starts. A job that waits again (retry, snooze) acquires its key again, unless
    /// a younger job has it.
    UntilStarted,
    /// For this time from the enqueue on, even if the job has ended. Range: more than 0, to 100
    /// years.
    Within(Duration),
}

/// The conflict handling for a job whose key another job holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnConflict {
    /// It is not stored: the job that holds the key is the answer.
    #[default]
    Skip,
    /// The job that holds the key takes the payload and the time of the new job, if it has not
    /// started. If it is active, the new job waits for its end, as with `BufferOne`.
    Replace,
    /// The new job runs once after the job that holds the key, with the newest payload. If the
    /// holder has not started, it takes the new payload.
    BufferOne,
}

/// The unique key of a new job, and its hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unique {
    /// The key.
    pub key: UniqueKey,
    /// For how long the job holds it.
    pub hold: Hold,
    /// The conflict handling if another job holds the key. [`Hold::Within`] allows only
    /// [`OnConflict::Skip`].
    pub on_conflict: OnConflict,
    /// Whether [`OnConflict::Replace`] keeps the first payload, and changes only the time.
    pub keep_payload: bool,
    /// The longest time from the first enqueue by which later ones may postpone the job.
    pub max_wait: Option<Duration>,
}

impl Unique {
    /// A key that is held until the job has ended; a second job is skipped.
    pub fn new(key: UniqueKey) -> Self {
        Unique { key, hold: Hold::UntilEnded, on_conflict: OnConflict::Skip, keep_payload: false, max_wait: None }
    }

    /// The same, held for this long.
    #[must_use]
    pub fn hold(mut self, hold: Hold) -> Self {
        self.hold = hold;
        self
    }

    /// The same with another way out of a conflict.
    #[must_use]
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.on_conflict = on_conflict;
        self
    }
}

/// The holder of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyHolder {
    /// The job. A key that is held for a time may outlive it.
    pub id: JobId,
    /// Until when, in broker milliseconds since 1970, if it is held for a time.
    pub until_ms: Option<i64>,
    /// The job that waits in `held` until the key is free.
    pub next: Option<JobId>,
}

impl KeyHolder {
    /// A holder without waiting jobs.
    pub fn new(id: JobId) -> Self {
        KeyHolder { id, until_ms: None, next: None }
    }
}

/// The reason of a cancelled job that found its key held by a younger one when it returned.
pub fn superseded_by(id: &JobId) -> String {
    format!("superseded by {id}")
}

crate::address::serde_as_text!(UniqueKey);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_printed() {
        let key = UniqueKey::of("mail.send", b"7");
        assert_eq!(key.to_string().parse::<UniqueKey>().unwrap(), key);
        assert_eq!(UniqueKey::from_bytes(key.as_bytes()), Some(key));
        for wrong in ["", "7", &"x".repeat(32), &"+1".repeat(16), &"0".repeat(33)] {
            assert!(wrong.parse::<UniqueKey>().unwrap_err().to_string().contains("32 hexadecimal"), "{wrong}");
        }
    }

    #[test]
    fn keys_of_two_tasks_are_two() {
        assert_ne!(UniqueKey::of("a", b"bc"), UniqueKey::of("ab", b"c"));
        assert_eq!(UniqueKey::of("a", b"x").to_string().len(), 32);
    }
}
