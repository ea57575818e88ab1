//! Limits: effective values, holders of slots, and declarations.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

use super::Inspector;
use crate::{
    address::{JobAddress, check_name, check_queue},
    broker::{DynBroker, LimitKey, LimitKeys, LimitRecord, LimitRule, LimitSet, SetLimit, StoredLimit, StoredLimitKey},
    error::{Error, Result},
    json,
};

/// So often a change is tried while others change the same limit.
const TRIES: u32 = 50;

/// A limit of a queue, in decoded form. From [`Inspector::limits`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LimitInfo {
    /// Its name.
    #[serde(rename = "limit")]
    pub name: String,
    /// The effective rule: the set values, and the declared values for the rest.
    #[serde(flatten)]
    pub rule: LimitRule,
    /// The declaration of code.
    pub declared: Option<LimitRule>,
    /// The value that an operator has set at run time.
    pub set: Option<LimitRule>,
    /// How many slots are held, of all keys: one for each job that runs.
    pub held: u64,
    /// How many jobs wait for a slot of it, of at most 1,000 kinds that differ in group, priority
    /// or keys.
    pub full: u64,
    /// The number of jobs that wait for its rate, counted in the same way.
    pub rated: u64,
}

/// A limit key in decoded form: jobs of one account, of one tenant. From [`Inspector::limit_keys`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LimitKeyInfo {
    /// The key as the broker stores it.
    pub key: LimitKey,
    /// The values of the key, taken from one of its jobs; empty for the whole queue, `None` if no
    /// job could be read.
    #[serde(rename = "by")]
    pub text: Option<String>,
    /// The effective rule.
    pub rule: LimitRule,
    /// The number of held slots.
    pub held: u64,
    /// The first jobs that hold one, at most 10.
    pub holders: Vec<JobAddress>,
    /// How many jobs wait for it, of at most 1,000 kinds.
    pub waiting: u64,
    /// A job that waits for it.
    pub next: Option<JobAddress>,
    /// The time until which its rate permits no job.
    #[serde(serialize_with = "json::utc")]
    pub until: Option<SystemTime>,
}

fn info(stored: &StoredLimit) -> Result<LimitInfo> {
    let record = LimitRecord::decode(&stored.stored)?;
    let (rule, declared, set) = (record.rule(), record.declared(), record.set());
    Ok(LimitInfo { name: record.name, rule, declared, set, held: stored.held, full: stored.full, rated: stored.rated })
}

impl Inspector {
    /// The limits of a queue, by name. An unreadable limit is left out.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name outside the grammar; [`Error::NoSuchQueue`]; those of the
    /// broker, here and below.
    pub async fn limits(&self, queue: &str) -> Result<Vec<LimitInfo>> {
        let stored = self.stored_limits(queue, None).await?;
        let is_nothing = stored.is_empty();
        let stored = self.found_of(queue, stored, is_nothing).await?;
        let mut limits: Vec<LimitInfo> = stored.iter().filter_map(|stored| info(stored).ok()).collect();
        limits.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(limits)
    }

    /// A limit of a queue; `None` if it is neither declared nor set.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name outside the grammar.
    pub async fn limit(&self, queue: &str, name: &str) -> Result<Option<LimitInfo>> {
        check_name("limit", name)?;
        self.stored_limits(queue, Some(name)).await?.first().map(info).transpose()
    }

    /// Sets a limit at run time. It overrides the declaration in code from the next claim on, also
    /// after deployments, until it is [removed](Self::remove_limit). A smaller concurrency stops no
    /// running job.
    ///
    /// ```
    /// use queue_core::prelude::*;
    ///
    /// # async fn example() -> queue_core::Result<()> {
    /// let client = Client::connect("sqlite://:memory:").await?;
    /// let limit = client.inspector().set_limit("orders", "stripe", |rule| rule.concurrency = Some(4)).await?;
    /// assert_eq!(limit.rule.concurrency, Some(4));
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid limit, with the field, its value and the fix, and for more
    /// limits than a queue can have.
    pub async fn set_limit(&self, queue: &str, name: &str, change: impl Fn(&mut LimitRule)) -> Result<LimitInfo> {
        self.change_limit(queue, name, |record| {
            let mut set = record.set().unwrap_or_default();
            change(&mut set);
            set.over(record.declared().unwrap_or_default()).check()?;
            record.set_to(Some(set));
            Ok(())
        })
        .await
    }

    /// Removes the run-time setting of a limit: the declaration applies again. If there was no
    /// setting, the limit itself is removed, until a live worker declares it again, within a
    /// minute. Its jobs stay and are no longer limited by it. Returns `false` if there is no such
    /// limit.
    ///
    /// # Errors
    /// Those of [`set_limit`](Self::set_limit).
    pub async fn remove_limit(&self, queue: &str, name: &str) -> Result<bool> {
        if self.limit(queue, name).await?.is_none() {
            return Ok(false);
        }
        self.change_limit(queue, name, |record| {
            if record.set().is_some() {
                record.set_to(None);
            } else {
                record.forget_declared();
            }
            Ok(())
        })
        .await
        .map(|_| true)
    }

    /// The keys of a limit that are held or waited for, at most `limit` (1 to 500): the first ones,
    /// or those after another one.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit out of range.
    pub async fn limit_keys(&self, queue: &str, name: &str, after: Option<LimitKey>, limit: usize) -> Result<Vec<LimitKeyInfo>> {
        if !(1..=500).contains(&limit) {
            return Err(Error::invalid("limit", limit.to_string(), "is not between 1 and 500"));
        }
        check_name("limit", name)?;
        let keys = self.stored_keys(queue, LimitKeys::Of { name: name.into(), after, limit }).await?;
        self.key_infos(queue, keys).await
    }

    /// The state of the limits of a job: the holders of their slots, and the time until which their
    /// rates delay it.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn limits_of(&self, queue: &str, keys: &[LimitKey]) -> Result<Vec<LimitKeyInfo>> {
        let keys = self.stored_keys(queue, LimitKeys::These(keys.to_vec())).await?;
        self.key_infos(queue, keys).await
    }

    async fn key_infos(&self, queue: &str, keys: Vec<StoredLimitKey>) -> Result<Vec<LimitKeyInfo>> {
        let mut infos = Vec::with_capacity(keys.len());
        for key in keys {
            let address = |id| JobAddress { queue: queue.into(), id };
            let mut info = LimitKeyInfo {
                key: key.key,
                text: None,
                rule: key.rule,
                held: key.held,
                holders: key.holders.into_iter().map(address).collect(),
                waiting: key.waiting,
                next: key.next.map(address),
                until: key.until_ms.and_then(|ms| u64::try_from(ms).ok()).map(|ms| UNIX_EPOCH + Duration::from_millis(ms)),
            };
            // One of its jobs has the values.
            if let Some(job) = info.holders.first().or(info.next.as_ref()) {
                let known = self.show(job).await.ok();
                info.text = known.and_then(|job| job.limits.into_iter().find(|(name, _)| key.key.is_of(name)).map(|(_, text)| text));
            }
            infos.push(info);
        }
        Ok(infos)
    }

    async fn change_limit(&self, queue: &str, name: &str, change: impl Fn(&mut LimitRecord) -> Result<()>) -> Result<LimitInfo> {
        check_name("limit", name)?;
        for _ in 0..TRIES {
            let stored = self.stored_limits(queue, Some(name)).await?.pop().unwrap_or_else(|| StoredLimit::new(Vec::new(), 0, 0, 0));
            let mut record = if stored.stored.is_empty() { LimitRecord::new(name) } else { LimitRecord::decode(&stored.stored)? };
            change(&mut record)?;
            let wanted = record.encode();
            let (rule, declared, set) = (record.rule(), record.declared(), record.set());
            let info = LimitInfo { name: name.to_owned(), rule, declared, set, held: stored.held, full: stored.full, rated: stored.rated };
            let request = SetLimit::new(queue, name, stored.stored, wanted);
            // A repeated request that was carried out before finds the new value.
            if request.stored == request.expected
                || self.run(|broker| async move { broker.set_limit(&request).await }).await? == LimitSet::Set
            {
                return Ok(info);
            }
        }
        Err(Error::Internal(format!("gave up: the limit `{name}` keeps changing")))
    }

    pub(super) async fn stored_limits(&self, queue: &str, name: Option<&str>) -> Result<Vec<StoredLimit>> {
        check_queue(queue)?;
        let (queue, name) = (queue.to_owned(), name.map(str::to_owned));
        self.ask(self.until(), move |broker| {
            let (queue, name) = (queue.clone(), name.clone());
            async move { broker.limits(&queue, name.as_deref()).await }
        })
        .await
    }

    async fn stored_keys(&self, queue: &str, which: LimitKeys) -> Result<Vec<StoredLimitKey>> {
        check_queue(queue)?;
        let queue = queue.to_owned();
        self.ask(self.until(), move |broker| {
            let (queue, which) = (queue.clone(), which.clone());
            async move { broker.limit_keys(&queue, &which).await }
        })
        .await
    }
}

/// Declares the limits of a release in a queue, before its worker claims jobs there, and updates
/// those that other releases have declared. Of the releases with a live worker, the one that was
/// first seen last applies, so that a rollback takes effect. Returns the names of the limits whose
/// effective value changed.
///
/// # Errors
/// Those of the broker.
pub async fn declare_limits(
    broker: &DynBroker,
    queue: &Arc<str>,
    release: &str,
    own: &BTreeMap<&'static str, LimitRule>,
) -> Result<Vec<String>> {
    let known = broker.limits(queue, None).await?;
    if known.is_empty() && own.is_empty() {
        return Ok(Vec::new());
    }
    let workers = broker.workers(queue).await?;
    let mut live: BTreeSet<String> =
        workers.into_iter().filter(|worker| !worker.lease_left.is_zero()).map(|worker| worker.release).collect();
    live.insert(release.to_owned());
    let now_ms = broker.clock().now_ms();
    let mut names: BTreeSet<String> = own.keys().map(|name| (*name).to_owned()).collect();
    names.extend(known.iter().filter_map(|stored| LimitRecord::decode(&stored.stored).ok()).map(|record| record.name));
    let mut changed = Vec::new();
    for name in names {
        let (mut tries, mut stored) =
            (0, known.iter().find(|stored| is_named(stored, &name)).map(|stored| stored.stored.clone()).unwrap_or_default());
        loop {
            let before = if stored.is_empty() { LimitRecord::new(&name) } else { LimitRecord::decode(&stored)? };
            let mut record = before.clone();
            match own.get(name.as_str()) {
                Some(rule) => record.declare(release, rule, &live, now_ms),
                None => record.retain_live(&live),
            }
            if record == before {
                break;
            }
            let request = SetLimit::new(queue.clone(), name.as_str(), stored, record.encode());
            if broker.set_limit(&request).await? == LimitSet::Set {
                changed.extend((record.rule() != before.rule()).then(|| name.clone()));
                break;
            }
            tries += 1;
            if tries >= TRIES {
                return Err(Error::Internal(format!("gave up: the limit `{name}` keeps changing")));
            }
            stored = broker.limits(queue, Some(&name)).await?.pop().map(|limit| limit.stored).unwrap_or_default();
        }
    }
    Ok(changed)
}

fn is_named(stored: &StoredLimit, name: &str) -> bool {
    LimitRecord::decode(&stored.stored).is_ok_and(|record| record.name == name)
}
