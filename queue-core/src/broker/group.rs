//! Groups: how they are listed, and how their rules are set.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize, Serializer};

use super::{MAX_ITEMS, Pause};
use crate::{
    address::{JobId, check_queue},
    error::{Error, Result},
    group::{GroupName, GroupRule, RuleOf},
    json,
};

/// How far a claimed job advances the virtual start of a group of weight 1.
pub const START_COST: u64 = 10_000;

/// How far the start of a new group is behind the virtual time. It is small compared with the cost
/// of a job.
pub const START_APART: u64 = 100;

/// Up to how many jobs and groups are counted for the share of plain jobs.
pub const SHARE_COUNTED: u64 = 256;

/// Most rules of one queue.
pub const GROUP_RULES: usize = 10_000;

/// For brokers: the default weight of jobs without a group, which is their share of the waiting
/// jobs.
pub fn share_of_plain(groups: u64, plain: u64, grouped: u64) -> u64 {
    let [groups, plain, grouped] = [groups, plain, grouped].map(|count| count.min(SHARE_COUNTED));
    (groups * plain).checked_div(grouped).unwrap_or(1).clamp(1, u64::from(crate::group::WEIGHT_MAX))
}

/// Sets a rule, if it is the one that was read. It holds from the next claim on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SetGroup {
    /// The queue.
    pub queue: Arc<str>,
    /// The groups to which the rule applies.
    pub of: RuleOf,
    /// The rule that was read.
    pub expected: GroupRule,
    /// The rule that is to hold. An empty one is removed.
    pub rule: GroupRule,
    /// Only for [`RuleOf::Declared`]: the stored form that was read, which is compared, and the new
    /// stored form. See [`GroupsRecord`].
    pub record: Option<(Arc<str>, Arc<str>)>,
}

/// The declarations of releases for all groups of a queue. The stored form is the effective rule,
/// followed by this record, which brokers do not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupsRecord(Vec<Declared>);

/// A release, the time at which it was first seen, and the declared rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Declared(String, i64, String);

impl GroupsRecord {
    /// The effective declaration: that of the release that was first seen last.
    pub fn rule(&self) -> GroupRule {
        self.0.iter().max_by_key(|declared| declared.1).map(|declared| GroupRule::of_stored(&declared.2)).unwrap_or_default()
    }

    /// The declaration of each release.
    pub fn declarations(&self) -> impl Iterator<Item = (&str, GroupRule)> {
        self.0.iter().map(|declared| (declared.0.as_str(), GroupRule::of_stored(&declared.2)))
    }

    /// Stores the declaration of a release. Removes the declarations of releases without a live
    /// worker.
    pub fn declare(&mut self, release: &str, rule: &GroupRule, live: &BTreeSet<String>, now_ms: i64) {
        match self.0.iter_mut().find(|declared| declared.0 == release) {
            Some(known) => known.2 = rule.stored(),
            None => self.0.push(Declared(release.to_owned(), now_ms, rule.stored())),
        }
        self.0.retain(|declared| declared.0 == release || live.contains(&declared.0));
    }

    /// The form in storage; empty if nothing is declared.
    pub fn encode(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        self.rule().stored() + &serde_json::to_string(self).expect("texts and numbers can be encoded")
    }

    /// Reads the form in storage. An unreadable form is read as empty; the next worker declares the
    /// rule again.
    pub fn decode(stored: &str) -> Self {
        stored.find('[').and_then(|at| serde_json::from_str(&stored[at..]).ok()).unwrap_or_default()
    }
}

impl SetGroup {
    /// A change of a rule.
    pub fn new(queue: impl Into<Arc<str>>, of: RuleOf, expected: GroupRule, rule: GroupRule) -> Self {
        SetGroup { queue: queue.into(), of, expected, rule, record: None }
    }

    /// A change of the declared rule of all groups: the rule that was read, and the rule to store.
    pub fn declared(queue: impl Into<Arc<str>>, read: &str, stored: &str) -> Self {
        let mut request = SetGroup::new(queue, RuleOf::Declared, GroupRule::of_stored(read), GroupRule::of_stored(stored));
        request.record = Some((read.into(), stored.into()));
        request
    }

    /// For brokers: whether it is one that can be taken.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a queue outside the grammar, and for a rule that cannot be.
    pub fn check(&self) -> Result<()> {
        check_queue(&self.queue)?;
        if self.record.is_some() != (self.of == RuleOf::Declared) {
            let problem = "is declared by workers; set the rule of all groups, `*`, which overrides it";
            return Err(Error::invalid("rule", self.of.to_string(), problem));
        }
        self.rule.check(&self.of)
    }

    /// For brokers: whether the stored rule differs from the rule that was read.
    pub fn is_stale(&self, stored: &str) -> bool {
        match &self.record {
            Some((read, _)) => **read != *stored,
            None => GroupRule::of_stored(stored) != self.expected,
        }
    }

    /// For brokers: whether nothing is stored any more.
    pub fn is_removal(&self) -> bool {
        self.record.as_ref().map_or(self.rule.is_empty(), |(_, wanted)| wanted.is_empty())
    }

    /// For brokers: whether groups are concerned that are not named.
    pub fn is_of_all(&self) -> bool {
        matches!(self.of, RuleOf::Others | RuleOf::Declared)
    }

    /// For brokers: the stored form: the rule, its pause, and the releases that declare it. Empty
    /// if there is none.
    pub fn stored_over(&self, stored: &str) -> String {
        if let Some((_, wanted)) = &self.record {
            return wanted.to_string();
        }
        let rule = if self.rule.is_empty() { String::new() } else { self.rule.stored() };
        if self.rule.paused { rule + &GroupRule::reason_of_stored(stored).unwrap_or_default() } else { rule }
    }

    /// For brokers: the error if the queue has the largest number of rules.
    pub fn too_many(&self) -> Error {
        let problem =
            format!("would be one more than the {GROUP_RULES} rules of a queue; remove others, or set the rule of all groups, `*`");
        Error::invalid("rule", self.of.to_string(), problem)
    }
}

/// The outcome of a [`SetGroup`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupSet {
    /// It was set.
    Set,
    /// The rule has been changed in the meantime. Nothing was written.
    Stale,
}

/// Selects the groups to list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupList {
    /// The group of this name, even if it has no jobs and no rule.
    One(GroupName),
    /// All that have a job that is ready or runs, or a rule: by the length and the bytes of their
    /// names.
    All {
        /// The last group of the previous page, its [`next`](GroupPage::next).
        after: Option<GroupName>,
        /// The most groups to list, 1 to 500.
        limit: usize,
    },
    /// One group, and the first jobs of its [line](GroupPage::line).
    Line {
        /// The group.
        group: GroupName,
        /// Most jobs to return. Range: 1 to 500.
        jobs: usize,
    },
}

impl GroupList {
    /// For brokers: the limit within its bounds, of groups, or of the jobs of a line.
    pub fn limit(&self) -> usize {
        match self {
            GroupList::One(_) => 1,
            GroupList::All { limit, .. } | GroupList::Line { jobs: limit, .. } => (*limit).clamp(1, MAX_ITEMS),
        }
    }
}

/// A group as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoredGroup {
    /// Its name.
    #[serde(rename = "group")]
    pub name: GroupName,
    /// The number of ready jobs.
    pub ready: u64,
    /// The number of running jobs, which is the number of held slots.
    pub active: u64,
    /// Its own rule.
    #[serde(flatten)]
    pub rule: GroupRule,
    /// The pause of the group, if it is paused.
    pub pause: Option<Pause>,
    /// For an ordered group: the job that blocks its line.
    pub blocked_by: Option<JobId>,
    /// How long ago its oldest ready job could start for the first time, in the same way as
    /// [`QueueStats::oldest`](super::QueueStats::oldest) for a queue.
    #[serde(rename = "oldest_ms", serialize_with = "json::ms")]
    pub oldest: Option<Duration>,
}

impl StoredGroup {
    /// A group without stored data.
    pub fn new(name: GroupName) -> Self {
        StoredGroup { name, ready: 0, active: 0, rule: GroupRule::default(), pause: None, blocked_by: None, oldest: None }
    }

    /// For brokers: notes the rule as it is stored, with its pause.
    pub fn set_rule(&mut self, stored: &str) {
        self.rule = GroupRule::of_stored(stored);
        self.pause = Pause::of_rule(stored);
    }
}

/// Groups of a queue.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct GroupPage {
    /// The groups.
    pub groups: Vec<StoredGroup>,
    /// The default rule of all groups, as an operator has set it.
    pub others: GroupRule,
    /// The stored declarations of code for all groups: see [`GroupsRecord`]. The effective one is
    /// [`declared`](Self::declared).
    #[serde(rename = "declared", serialize_with = "declared")]
    pub stored_declared: String,
    /// The rule of jobs without a group.
    pub plain: GroupRule,
    /// The group after which the next page begins.
    pub next: Option<GroupName>,
    /// For a [`GroupList::Line`]: the first jobs of the line, in the order in which they will
    /// start. Suspects come last.
    #[serde(skip)]
    pub line: Vec<JobId>,
    /// The broker's time, in milliseconds since 1970: a pause that has expired ends with the next
    /// claim.
    #[serde(skip)]
    pub now_ms: i64,
}

fn declared<S: Serializer>(stored: &str, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    GroupRule::of_stored(stored).serialize(serializer)
}

impl GroupPage {
    /// A page.
    pub fn new(groups: Vec<StoredGroup>, others: GroupRule, plain: GroupRule, next: Option<GroupName>) -> Self {
        GroupPage { groups, others, stored_declared: String::new(), plain, next, line: Vec::new(), now_ms: 0 }
    }

    /// The page without pauses that have ended by the broker's clock.
    #[must_use]
    pub fn without_ended_pauses(mut self) -> Self {
        let now_ms = self.now_ms;
        for group in self.groups.iter_mut().filter(|group| group.pause.as_ref().is_some_and(|pause| pause.is_over_at(now_ms))) {
            (group.pause, group.rule.paused) = (None, false);
        }
        self
    }

    /// The effective declaration of code for all groups.
    pub fn declared(&self) -> GroupRule {
        GroupRule::of_stored(&self.stored_declared)
    }

    /// The source of the effective value of a field for a group with this rule: `group`, `all
    /// groups` (set by an operator for all), `code`, or `default`.
    pub fn source_of(&self, own: &GroupRule, field: impl Fn(&GroupRule) -> bool) -> &'static str {
        let source = [("group", *own), ("all groups", self.others), ("code", self.declared())];
        source.into_iter().find(|(_, rule)| field(rule)).map_or("default", |(source, _)| source)
    }

    /// The effective defaults of all groups: the fields that an operator has set override those
    /// that code declares.
    pub fn defaults(&self) -> GroupRule {
        self.others.or(self.declared())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_releases_declare_the_latest_holds_and_a_rollback_takes_effect() {
        let live = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        let cap = |cap| GroupRule { cap: Some(cap), ..GroupRule::new() };
        let mut record = GroupsRecord::default();
        assert!(record.encode().is_empty() && GroupsRecord::decode("") == record);
        record.declare("v1: \"p[a]\"\n", &cap(1), &live(&["v1: \"p[a]\"\n"]), 10);
        record.declare("v2", &cap(2), &live(&["v1: \"p[a]\"\n", "v2"]), 20);
        assert_eq!((record.rule(), GroupRule::of_stored(&record.encode())), (cap(2), cap(2)));
        assert_eq!((GroupsRecord::decode(&record.encode()), GroupRule::reason_of_stored(&record.encode())), (record.clone(), None));
        record.declare("v1: \"p[a]\"\n", &cap(1), &live(&[]), 25);
        assert_eq!(record.rule(), cap(1), "v2 has gone");
        record.declare("v3", &GroupRule::new(), &live(&["v3"]), 30);
        assert_eq!((record.rule(), record.0.len()), (GroupRule::new(), 1));
    }

    #[test]
    fn what_code_declares_is_changed_with_its_record_alone() {
        let rule = GroupRule { cap: Some(2), ..GroupRule::new() };
        let refused = SetGroup::new("mail", RuleOf::Declared, GroupRule::new(), rule).check().unwrap_err().to_string();
        assert!(refused.starts_with("rule `+` is declared by workers"), "{refused}");
        let mut record = GroupsRecord::default();
        record.declare("v1", &rule, &BTreeSet::new(), 1);
        let request = SetGroup::declared("mail", "", &record.encode());
        assert!(request.check().is_ok() && !request.is_stale("") && request.is_stale(&record.encode()));
        assert_eq!((request.rule, request.stored_over("")), (rule, record.encode()));
    }

    #[test]
    fn plain_jobs_have_their_share_of_what_waits() {
        assert_eq!(share_of_plain(1, 1, 1), 1);
        assert_eq!(share_of_plain(4, 100, 50), 8);
        assert_eq!(share_of_plain(100_000, 1, 100_000), 1);
        assert_eq!(share_of_plain(100_000, 1_000_000, 1_000_000), 256);
        assert_eq!((share_of_plain(3, 5, 0), share_of_plain(256, 256, 1)), (1, 1000));
    }
}
