//! Limits: what holds a job back. A slot is an active job: there is no counter. Of a limit with a rate each key has a theoretical arrival time.

use std::collections::{BTreeMap, BTreeSet};

use queue_core::{
    JobId, LimitKey, LimitRule,
    broker::{
        HOLDERS_NAMED, LIMIT_RULES, LONGEST_CLOSED, LimitKeys, LimitRecord, LimitSet, SetLimit, StoredLimit, StoredLimitKey, Used, gcra,
    },
};

use super::{Model, Place, admit::Room};

/// The limits of a queue.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    stored: BTreeMap<String, Vec<u8>>,
    rates: BTreeMap<LimitKey, Arrival>,
    /// Whether a job had limits: then a broker is free to choose among those that may start.
    pub(in crate::model) used: bool,
}

/// When the next start is due by a rate, in microseconds, by which rate, and until when the key is closed in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Arrival {
    tat: i64,
    step: f64,
    closed: i64,
}

/// Jobs that have everything in common that limits look at: they start in order.
pub(in crate::model) type Chain = (Option<queue_core::GroupName>, u8, Vec<LimitKey>);

impl Model {
    /// What is declared or set of the limit of a key.
    fn limit_rule(&self, key: &LimitKey) -> LimitRule {
        let stored = self.limits.stored.iter().find(|(name, _)| key.is_of(name));
        stored.map(|(_, stored)| LimitRecord::rule_in(stored)).unwrap_or_default()
    }

    fn holders(&self, key: &LimitKey) -> impl Iterator<Item = &JobId> {
        let holds = |(_, job): &(&JobId, &super::Job)| matches!(job.place, Place::Active { .. }) && job.limit_keys().contains(key);
        self.jobs.iter().filter(holds).map(|(id, _)| id)
    }

    /// Forgets keys whose rates are over, at most so many.
    pub(in crate::model) fn forget_rates(&mut self, items: usize) -> usize {
        let now = self.now;
        let is_over = |arrival: &Arrival| arrival.tat <= now * 1000 && arrival.closed <= now;
        let over: Vec<LimitKey> =
            self.limits.rates.iter().filter(|(_, arrival)| is_over(arrival)).map(|(key, _)| *key).take(items).collect();
        for key in &over {
            self.limits.rates.remove(key);
        }
        over.len()
    }

    fn ahead(&self, key: &LimitKey, rule: &LimitRule) -> (i64, i64) {
        let arrival = self.limits.rates.get(key).copied().unwrap_or_default();
        let longest = i64::try_from(LONGEST_CLOSED.as_millis()).unwrap_or(i64::MAX);
        let ahead = (arrival.tat - self.now.saturating_mul(1000)).max(0);
        (gcra::rebased(rule, ahead, arrival.step), arrival.closed.min(self.now.saturating_add(longest)))
    }

    /// From when on a key lets a job of this cost start, slots apart; `None`: it does now.
    fn opens(&self, rule: &LimitRule, (ahead, closed): (i64, i64), cost: u32) -> Option<i64> {
        let wait = gcra::wait(rule, ahead, cost);
        let rated = (wait > 0).then(|| self.now.saturating_add(wait.saturating_add(999) / 1000));
        Some(closed).filter(|closed| *closed > self.now).max(rated)
    }

    /// Until when a key holds a job of this cost back; `None`: it does not. A slot is free at no time that is known.
    fn key_until(&self, key: &LimitKey, cost: u32) -> Option<i64> {
        let rule = self.limit_rule(key);
        if rule.concurrency.is_some_and(|most| self.holders(key).count() >= most as usize) {
            return Some(i64::MAX);
        }
        let (ahead, closed) = self.ahead(key, &rule);
        self.opens(&rule, (ahead, closed), cost)
    }

    /// Until when a job is held back by its limits.
    pub(in crate::model) fn held_back(&self, id: &JobId) -> Option<i64> {
        let limits = self.jobs[id].limits.as_ref()?;
        limits.keys().iter().find_map(|key| self.key_until(key, limits.cost))
    }

    /// The keys that let a job not start now.
    pub(in crate::model) fn held_back_by(&self, id: &JobId) -> Vec<StoredLimitKey> {
        let Some(limits) = &self.jobs[id].limits else { return Vec::new() };
        let held = |key: &LimitKey| {
            self.key_until(key, limits.cost)?;
            let rule = self.limit_rule(key);
            let mut stored = StoredLimitKey::new(*key, rule);
            stored.held = self.holders(key).count() as u64;
            stored.holders = self.holders(key).take(HOLDERS_NAMED).cloned().collect();
            stored.until_ms = self.opens(&rule, self.ahead(key, &rule), limits.cost);
            Some(stored)
        };
        limits.keys().iter().filter_map(held).collect()
    }

    pub(in crate::model) fn chain(&self, id: &JobId) -> Option<Chain> {
        let job = &self.jobs[id];
        job.limits.as_ref().map(|limits| (job.group.clone(), job.risen.unwrap_or(job.priority).number(), limits.keys().to_vec()))
    }

    /// Whether the limits of a job let it be claimed; if not, nor may the others of its chain.
    pub(in crate::model) fn passes_limits(&self, id: &JobId, room: &mut Room) -> bool {
        let Some(chain) = self.chain(id) else { return true };
        if self.jobs[id].crashes > 0 {
            return self.held_back(id).is_none();
        }
        if room.blocked.contains(&chain) {
            return false;
        }
        let passes = self.held_back(id).is_none();
        if !passes {
            room.blocked.insert(chain);
        }
        passes
    }

    /// A job has started: its slots go with its place, and its starts are charged.
    pub(in crate::model) fn charge_limits(&mut self, id: &JobId, back: bool) {
        let Some(limits) = self.jobs[id].limits.clone() else { return };
        for key in limits.keys() {
            let rule = self.limit_rule(key);
            let Some(rate) = rule.rate else { continue };
            let (ahead, closed) = self.ahead(key, &rule);
            let charge = gcra::charge(&rule, limits.cost);
            let ahead = if back { (ahead - charge).max(0) } else { ahead + charge };
            self.limits.rates.insert(*key, Arrival { tat: self.now * 1000 + ahead, step: rate.step(), closed });
        }
    }

    /// A run has used something else than its job is charged at a claim.
    pub(in crate::model) fn correct_limits(&mut self, id: &JobId, used: &Used) {
        let Some(limits) = self.jobs[id].limits.clone() else { return };
        for key in limits.keys() {
            let rule = self.limit_rule(key);
            let (Some(rate), Some(starts)) = (rule.rate, used.of(key)) else { continue };
            let (ahead, closed) = self.ahead(key, &rule);
            let ahead = gcra::corrected(&rule, ahead, limits.cost, starts);
            self.limits.rates.insert(*key, Arrival { tat: self.now * 1000 + ahead, step: rate.step(), closed });
        }
    }

    /// A limit of a job has had enough for so long: the one of a name, or else the first with a rate, or the first. False: it has none.
    pub(in crate::model) fn close_limit(&mut self, id: &JobId, until: i64, name: Option<&str>) -> bool {
        let keys = self.jobs[id].limit_keys();
        let chosen = match name {
            Some(name) => keys.iter().find(|key| key.is_of(name)),
            None => keys.iter().find(|key| self.limit_rule(key).rate.is_some()).or(keys.first()),
        };
        let Some(key) = chosen.copied() else { return false };
        let rule = self.limit_rule(&key);
        let (ahead, closed) = self.ahead(&key, &rule);
        let step = rule.rate.map_or(0.0, |rate| rate.step());
        self.limits.rates.insert(key, Arrival { tat: self.now * 1000 + ahead, step, closed: closed.max(until) });
        true
    }

    /// Whether a job of the line may start by its group and its limits, as the first of its chain.
    pub(in crate::model) fn may_start(&self, id: &JobId, suspects: bool) -> bool {
        let Some(job) = self.jobs.get(id) else { return false };
        if job.place != Place::Ready || job.crashes > 0 && !suspects || self.held_back(id).is_some() {
            return false;
        }
        let is_first = match &job.group {
            _ if job.crashes > 0 => true,
            Some(group) => self.is_first_of_chain(id, self.groups.line_of(group)),
            None => self
                .is_first_of_chain(id, self.ready.priorities().iter().enumerate().flat_map(|(n, line)| line.iter().map(move |id| (n, id)))),
        };
        is_first && job.group.as_ref().is_none_or(|group| self.group_lets(group, id))
    }

    /// Whether no other job of its chain stands before it. `line`: jobs, and in which part of the line each stands.
    fn is_first_of_chain<'a>(&self, id: &JobId, line: impl Iterator<Item = (usize, &'a JobId)> + Clone) -> bool {
        let Some((part, _)) = line.clone().find(|(_, other)| *other == id) else { return false };
        let chain = self.chain(id);
        let mut alike = line.filter(|(other, job)| *other == part && self.chain(job) == chain);
        // Of plain jobs the place of an id that was cut out is loose.
        let is_loose = |id: &JobId| chain.is_none() && self.jobs[id].group.is_none() && self.ready.loose.contains(id);
        is_loose(id) || alike.find(|(_, other)| *other == id || !is_loose(other)).is_some_and(|(_, first)| first == id)
    }

    /// The jobs that could start now.
    pub fn could_start(&self, suspects: bool) -> impl Iterator<Item = &JobId> {
        let line = (!self.paused).then(|| self.ready.page(0).chain(self.groups.page()));
        line.into_iter().flatten().filter(move |id| self.may_start(id, suspects))
    }

    /// Until when a broker may keep a key for others that cost more, and wait for the rate: so that they do not starve. `None`: there is no such job.
    pub fn kept_until(&self, id: &JobId, key: &LimitKey) -> Option<i64> {
        let others = self.ready.page(0).chain(self.groups.page()).filter(|other| *other != id);
        let costs = others.filter_map(|other| self.jobs[other].limits.as_ref()).filter(|others| others.keys().contains(key));
        costs.filter_map(|others| self.key_until(key, others.cost)).filter(|until| *until < i64::MAX).max()
    }

    /// When a limit lets a job start that waits for it.
    pub(in crate::model) fn limits_due(&self) -> Option<i64> {
        if !self.limits.used {
            return None;
        }
        let ready = self.ready.page(0).chain(self.groups.page());
        ready.filter(|id| self.jobs[*id].limits.is_some()).filter_map(|id| self.held_back(id)).filter(|at| *at < i64::MAX).min()
    }

    /// Changes a limit.
    ///
    /// # Errors
    /// For one limit too many.
    pub fn set_limit(&mut self, request: &SetLimit) -> queue_core::Result<LimitSet> {
        let known = self.limits.stored.get(&*request.name).cloned().unwrap_or_default();
        if known == request.stored {
            return Ok(LimitSet::Set);
        }
        if known != request.expected {
            return Ok(LimitSet::Stale);
        }
        if request.stored.is_empty() {
            self.limits.stored.remove(&*request.name);
        } else if known.is_empty() && self.limits.stored.len() >= LIMIT_RULES {
            return Err(request.too_many());
        } else {
            self.limits.stored.insert(request.name.to_string(), request.stored.clone());
        }
        // From now on time passes by the new rate.
        let changed: Vec<LimitKey> = self.limits.rates.keys().filter(|key| key.is_of(&request.name)).copied().collect();
        for key in changed {
            let rule = self.limit_rule(&key);
            let (ahead, closed) = self.ahead(&key, &rule);
            let step = rule.rate.map_or(0.0, |rate| rate.step());
            self.limits.rates.insert(key, Arrival { tat: self.now * 1000 + ahead, step, closed });
        }
        self.announce(self.now);
        Ok(LimitSet::Set)
    }

    /// The limits, and how many slots of each are held.
    pub fn list_limits(&self, name: Option<&str>) -> Vec<StoredLimit> {
        let found = self.limits.stored.iter().filter(|(known, _)| name.is_none_or(|name| name == known.as_str()));
        found
            .map(|(name, stored)| {
                let of = |key: &&LimitKey| key.is_of(name);
                let active = self.jobs.values().filter(|job| matches!(job.place, Place::Active { .. }));
                let held = active.flat_map(|job| job.limit_keys()).filter(of).count() as u64;
                let waiting: Vec<LimitKey> = self.waiting().filter(|key| key.is_of(name)).collect();
                let full = waiting.iter().filter(|key| self.key_until(key, 1) == Some(i64::MAX)).count() as u64;
                StoredLimit::new(stored.clone(), held, full, waiting.len() as u64 - full)
            })
            .collect()
    }

    /// Of each job that waits for a limit the key that holds it back.
    fn waiting(&self) -> impl Iterator<Item = LimitKey> {
        let ready = self.ready.page(0).chain(self.groups.page());
        ready.filter_map(|id| {
            let limits = self.jobs[id].limits.as_ref()?;
            limits.keys().iter().find(|key| self.key_until(key, limits.cost).is_some()).copied()
        })
    }

    /// Keys of limits: who holds them, and when they let the next job start.
    pub fn limit_keys(&self, which: &LimitKeys) -> Vec<StoredLimitKey> {
        let keys: Vec<LimitKey> = match which {
            LimitKeys::These(keys) => keys.iter().take(which.limit()).copied().collect(),
            LimitKeys::Of { name, after, .. } => {
                let active = self.jobs.values().filter(|job| matches!(job.place, Place::Active { .. }));
                let held = active.flat_map(|job| job.limit_keys()).copied();
                let all: BTreeSet<LimitKey> = held.chain(self.waiting()).filter(|key| key.is_of(name)).collect();
                all.into_iter().filter(|key| after.is_none_or(|after| *key > after)).take(which.limit()).collect()
            }
            _ => Vec::new(),
        };
        let stored = |key: LimitKey| {
            let rule = self.limit_rule(&key);
            let mut stored = StoredLimitKey::new(key, rule);
            stored.held = self.holders(&key).count() as u64;
            stored.holders = self.holders(&key).take(HOLDERS_NAMED).cloned().collect();
            stored.waiting = self.waiting().filter(|other| *other == key).count() as u64;
            let waits = |id: &&JobId| self.jobs[*id].limit_keys().contains(&key) && self.held_back(id).is_some();
            stored.next = self.ready.page(0).chain(self.groups.page()).find(waits).cloned();
            stored.until_ms = self.opens(&rule, self.ahead(&key, &rule), 1);
            stored
        };
        keys.into_iter().map(stored).collect()
    }
}
