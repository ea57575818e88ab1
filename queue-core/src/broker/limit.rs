//! Limits: the stored form, changes, and the holders of slots.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::MAX_ITEMS;
use crate::{
    address::{JobId, check_name, check_queue},
    codec,
    error::{Error, Result},
    limit::{LimitKey, LimitRule},
};

/// Most limits of one queue.
pub const LIMIT_RULES: usize = 1000;

/// The number of jobs that wait for a limit and are examined in one step.
pub const LIMIT_STEP: usize = 200;

/// The first ticket of chains of jobs that have not waited for a limit. Chains that have waited have
/// smaller tickets, so they are examined first.
pub(crate) const TICKETS: i64 = 1 << 48;

/// The total cost of the rounds of a claim that finds no job, or parks jobs. A round costs 20, plus
/// 4 for each job that it parks, plus 1 for each entry that it examines but may not claim.
pub const CLAIM_STEPS: usize = 4000;

/// The number of kinds of jobs that are counted as waiting for a limit. Jobs of one kind have the
/// same group, priority and keys.
pub const CHAINS_COUNTED: usize = 1000;

/// The longest time for which [`RateLimited`](super::Ending::RateLimited) closes a limit.
pub const LONGEST_CLOSED: Duration = Duration::from_secs(24 * 3600);

/// A limit as stored: the effective value, then NUL, then its settings and declarations. Brokers
/// read only the first part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitRecord {
    /// Its name.
    #[serde(rename = "n")]
    pub name: String,
    /// The rule that an operator has set; it overrides what code declares.
    #[serde(rename = "p", skip_serializing_if = "Option::is_none")]
    set: Option<String>,
    /// The declarations of the workers' releases.
    #[serde(rename = "d", skip_serializing_if = "Vec::is_empty")]
    declared: Vec<Declared>,
}

/// A release, the time at which it was first seen, and its declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Declared(String, i64, String);

impl LimitRecord {
    /// A limit without settings or declarations.
    pub fn new(name: &str) -> Self {
        LimitRecord { name: name.to_owned(), ..LimitRecord::default() }
    }

    /// The rule that an operator has set.
    pub fn set(&self) -> Option<LimitRule> {
        self.set.as_deref().map(LimitRule::of_stored)
    }

    /// An operator sets this value, or removes the setting.
    pub fn set_to(&mut self, rule: Option<LimitRule>) {
        self.set = rule.filter(|rule| !rule.is_empty()).map(|rule| rule.stored());
    }

    /// The effective declaration of code: that of the release that was first seen last.
    pub fn declared(&self) -> Option<LimitRule> {
        self.declared.iter().max_by_key(|declared| declared.1).map(|declared| LimitRule::of_stored(&declared.2))
    }

    /// The declaration of each release.
    pub fn declarations(&self) -> impl Iterator<Item = (&str, LimitRule)> {
        self.declared.iter().map(|declared| (declared.0.as_str(), LimitRule::of_stored(&declared.2)))
    }

    /// The effective rule.
    pub fn rule(&self) -> LimitRule {
        let declared = self.declared().unwrap_or_default();
        let rule = self.set().map_or(declared, |set| set.over(declared));
        // A burst that was declared with a rate has no effect without the rate.
        LimitRule { burst: rule.burst.filter(|_| rule.rate.is_some()), ..rule }
    }

    /// Stores the declaration of a release. Removes the declarations of releases without a live
    /// worker.
    pub fn declare(&mut self, release: &str, rule: &LimitRule, live: &BTreeSet<String>, now_ms: i64) {
        match self.declared.iter_mut().find(|declared| declared.0 == release) {
            Some(known) => known.2 = rule.stored(),
            None => self.declared.push(Declared(release.to_owned(), now_ms, rule.stored())),
        }
        self.declared.retain(|declared| declared.0 == release || live.contains(&declared.0));
    }

    /// Removes the declarations of releases without a live worker, unless no other declaration is
    /// left.
    pub fn retain_live(&mut self, live: &BTreeSet<String>) {
        if self.declared.iter().any(|declared| live.contains(&declared.0)) {
            self.declared.retain(|declared| live.contains(&declared.0));
        }
    }

    /// Removes all declarations.
    pub fn forget_declared(&mut self) {
        self.declared.clear();
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.set.is_none() && self.declared.is_empty()
    }

    /// The stored form; empty if there are no settings or declarations.
    pub fn encode(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut bytes = self.rule().stored().into_bytes();
        bytes.push(0);
        bytes.extend(codec::pack(self).expect("texts and numbers can be encoded"));
        bytes
    }

    /// Reads the form in storage.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let behind = bytes.iter().position(|byte| *byte == 0).map_or(bytes.len(), |at| at + 1);
        codec::unpack(&bytes[behind..]).map_err(|problem| Error::Decode { what: "a limit".into(), problem })
    }

    /// For brokers: the effective rule of the stored form.
    pub fn effective_rule(bytes: &[u8]) -> LimitRule {
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(text).map(LimitRule::of_stored).unwrap_or_default()
    }
}

/// Changes a limit, if it is stored as it was read. It holds from the next claim on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SetLimit {
    /// The queue.
    pub queue: Arc<str>,
    /// The name of the limit.
    pub name: Arc<str>,
    /// The stored form that was read; empty if there was none.
    pub expected: Vec<u8>,
    /// The new stored form; empty to remove it.
    pub stored: Vec<u8>,
}

impl SetLimit {
    /// A change.
    pub fn new(queue: impl Into<Arc<str>>, name: impl Into<Arc<str>>, expected: Vec<u8>, stored: Vec<u8>) -> Self {
        SetLimit { queue: queue.into(), name: name.into(), expected, stored }
    }

    /// For brokers: whether it is one that can be taken.
    ///
    /// # Errors
    /// [`Error::Invalid`] for names outside the grammar.
    pub fn check(&self) -> Result<()> {
        check_queue(&self.queue)?;
        check_name("limit", &self.name)
    }

    /// For brokers: the error if the queue has the largest number of limits.
    pub fn too_many(&self) -> Error {
        let problem = format!("would be one more than the {LIMIT_RULES} limits of a queue; remove others with `limits remove`");
        Error::invalid("limit", &*self.name, problem)
    }
}

/// The outcome of a [`SetLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitSet {
    /// It holds.
    Set,
    /// Another one is stored: nothing was changed.
    Stale,
}

/// A limit of a queue, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredLimit {
    /// The stored form, see [`LimitRecord`].
    pub stored: Vec<u8>,
    /// The number of held slots: one for each running job.
    pub held: u64,
    /// The number of jobs that wait for a slot. At most [`CHAINS_COUNTED`] kinds of jobs are
    /// counted, which differ in group, priority or keys.
    pub full: u64,
    /// The number of jobs that wait for the rate, counted in the same way.
    pub rated: u64,
}

impl StoredLimit {
    /// A limit.
    pub fn new(stored: Vec<u8>, held: u64, full: u64, rated: u64) -> Self {
        StoredLimit { stored, held, full, rated }
    }
}

/// Selects the limit keys to list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitKeys {
    /// Those of a limit that are held or waited for, by their bytes.
    Of {
        /// The name of the limit.
        name: Arc<str>,
        /// The key after which the page begins.
        after: Option<LimitKey>,
        /// The most keys to list, 1 to 500.
        limit: usize,
    },
    /// These keys, even if no job holds them: they show what blocks a job with these limits.
    These(Vec<LimitKey>),
}

impl LimitKeys {
    /// For brokers: the limit within its bounds.
    pub fn limit(&self) -> usize {
        match self {
            LimitKeys::Of { limit, .. } => (*limit).clamp(1, MAX_ITEMS),
            LimitKeys::These(keys) => keys.len().min(MAX_ITEMS),
        }
    }
}

/// A limit key: its holders, and when it permits the next job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredLimitKey {
    /// The key.
    pub key: LimitKey,
    /// The effective rule of the limit.
    pub rule: LimitRule,
    /// The number of held slots.
    pub held: u64,
    /// The first jobs that hold a slot, at most [`HOLDERS_NAMED`](super::HOLDERS_NAMED).
    pub holders: Vec<JobId>,
    /// How many jobs wait for it, of at most [`CHAINS_COUNTED`] kinds.
    pub waiting: u64,
    /// A job that waits for it.
    pub next: Option<JobId>,
    /// The time until which its rate permits no job, in broker milliseconds since 1970.
    pub until_ms: Option<i64>,
}

impl StoredLimitKey {
    /// A key without stored data.
    pub fn new(key: LimitKey, rule: LimitRule) -> Self {
        StoredLimitKey { key, rule, held: 0, holders: Vec::new(), waiting: 0, next: None, until_ms: None }
    }

    /// Whether a job of cost 1 could start by it now.
    pub fn is_open(&self) -> bool {
        self.until_ms.is_none() && self.rule.concurrency.is_none_or(|most| self.held < u64::from(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(concurrency: u32) -> LimitRule {
        let mut rule = LimitRule::new();
        rule.concurrency = Some(concurrency);
        rule
    }

    #[test]
    fn what_a_person_has_set_outlives_what_releases_declare_and_a_rollback_takes_effect() {
        let live = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        let mut record = LimitRecord::new("stripe");
        record.declare("v1", &of(1), &live(&["v1"]), 10);
        record.declare("v2", &of(2), &live(&["v1", "v2"]), 20);
        record.declare("v1", &of(1), &live(&["v1", "v2"]), 30);
        assert_eq!(record.rule(), of(2));
        record.retain_live(&live(&["v1"]));
        assert_eq!(record.rule(), of(1));
        record.retain_live(&live(&[]));
        assert_eq!(record.rule(), of(1), "it holds until another one does");
        record.set_to(Some(of(9)));
        assert_eq!((record.rule(), record.declared()), (of(9), Some(of(1))));
        assert_eq!(LimitRecord::decode(&record.encode()).unwrap(), record);
        assert_eq!(LimitRecord::effective_rule(&record.encode()), of(9));
        record.set_to(None);
        assert_eq!(record.rule(), of(1));
        record.forget_declared();
        assert!(record.is_empty() && record.encode().is_empty());
    }
}
