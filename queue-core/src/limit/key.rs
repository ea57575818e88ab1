//! Keys of limits, and the limits of a job.

use std::{fmt, str::FromStr};

use crate::{
    digest,
    error::{Error, Result},
};

/// A key that the jobs of one limit share: 128 bits, derived from the limit's name and the values
/// of its parameters. As text it is 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LimitKey([u8; LimitKey::BYTES]);

impl LimitKey {
    /// The length of a key in storage.
    pub const BYTES: usize = 16;

    /// The number of bytes that are derived from the name.
    pub const NAME: usize = 6;

    /// The key of a limit for these encoded values; without any it is that of the whole queue.
    pub fn of(name: &str, values: &[u8]) -> Self {
        let mut key = [0; LimitKey::BYTES];
        key[..LimitKey::NAME].copy_from_slice(&LimitKey::name(name));
        if !values.is_empty() {
            key[LimitKey::NAME..].copy_from_slice(&digest::sha256(values)[..LimitKey::BYTES - LimitKey::NAME]);
        }
        LimitKey(key)
    }

    /// The part that all keys of a limit have.
    pub fn name(name: &str) -> [u8; LimitKey::NAME] {
        let mut part = [0; LimitKey::NAME];
        part.copy_from_slice(&digest::sha256(name.as_bytes())[..LimitKey::NAME]);
        part
    }

    /// Reads the form in storage; `None` if it has another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(LimitKey)
    }

    /// The form in storage.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is a key of this limit.
    pub fn is_of(&self, name: &str) -> bool {
        self.0[..LimitKey::NAME] == LimitKey::name(name)
    }
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for LimitKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = |at: usize| text.get(2 * at..2 * at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let bytes: Option<Vec<u8>> = (0..LimitKey::BYTES).map(read).collect();
        let whole = text.len() == 2 * LimitKey::BYTES && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let key = bytes.filter(|_| whole).and_then(|bytes| LimitKey::from_bytes(&bytes));
        key.ok_or_else(|| Error::invalid("limit key", text, "is not a key of 32 hexadecimal digits, as `limits show` prints it"))
    }
}

impl fmt::Debug for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LimitKey({self})")
    }
}

/// The limits of a job, and its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobLimits {
    keys: Vec<LimitKey>,
    /// How many starts it counts for, where a limit has a rate.
    pub cost: u32,
}

impl JobLimits {
    /// These keys without duplicates. `None`: there are none.
    pub fn new(mut keys: Vec<LimitKey>, cost: u32) -> Option<Self> {
        keys.sort_unstable();
        keys.dedup();
        (!keys.is_empty()).then_some(JobLimits { keys, cost: cost.max(1) })
    }

    /// The keys, sorted.
    pub fn keys(&self) -> &[LimitKey] {
        &self.keys
    }

    /// For brokers: the keys after their length in one byte.
    pub fn chain(&self) -> Vec<u8> {
        let length = u8::try_from(self.keys.len() * LimitKey::BYTES).unwrap_or(u8::MAX);
        [length].into_iter().chain(self.keys.iter().flat_map(|key| key.0)).collect()
    }

    /// For brokers: the keys of a stored chain.
    pub fn keys_of(chain: &[u8]) -> Vec<LimitKey> {
        chain.get(1..).unwrap_or_default().chunks_exact(LimitKey::BYTES).filter_map(LimitKey::from_bytes).collect()
    }
}

crate::address::serde_as_text!(LimitKey);
