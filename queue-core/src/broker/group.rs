//! Groups: how they are listed, and how their rules are set.

use std::{sync::Arc, time::Duration};

use super::MAX_ITEMS;
use crate::{
    address::{JobId, check_name},
    error::{Error, Result},
    group::{GroupName, GroupRule, RuleOf},
};

/// By how much the virtual start of a group of weight 1 grows with a job of it that is claimed.
pub const TURN_COST: u64 = 10_000;

/// Up to how many jobs and groups are counted for the share of plain jobs.
pub const SHARE_COUNTED: u64 = 256;

/// Most rules of one queue.
pub const GROUP_RULES: usize = 10_000;

/// For brokers: the weight of plain jobs that no rule says: their share of what waits.
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
    /// Whose rule.
    pub of: RuleOf,
    /// The rule that was read.
    pub expected: GroupRule,
    /// The rule that is to hold. An empty one is removed.
    pub rule: GroupRule,
    /// Why it pauses, if it does; `None`: as before.
    pub reason: Option<Arc<str>>,
}

impl SetGroup {
    /// A change of a rule.
    pub fn new(queue: impl Into<Arc<str>>, of: RuleOf, expected: GroupRule, rule: GroupRule) -> Self {
        SetGroup { queue: queue.into(), of, expected, rule, reason: None }
    }

    /// For brokers: whether it is one that can be taken.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a queue outside the grammar, and for a rule that cannot be.
    pub fn check(&self) -> Result<()> {
        check_name("queue", &self.queue)?;
        self.rule.check(&self.of)
    }

    /// For brokers: what is stored where this is: the rule, and why it pauses. Empty: there is none.
    pub fn stored_over(&self, stored: &str) -> String {
        let rule = if self.rule.is_empty() { String::new() } else { self.rule.stored() };
        match &self.reason {
            _ if !self.rule.paused => rule,
            Some(reason) => rule + reason,
            None => rule + &GroupRule::reason_of_stored(stored).unwrap_or_default(),
        }
    }

    /// For brokers: the error where there are as many rules as there may be.
    pub fn too_many(&self) -> Error {
        let problem =
            format!("would be one more than the {GROUP_RULES} rules of a queue; remove others, or set the rule of all groups, `*`");
        Error::invalid("rule", self.of.to_string(), problem)
    }
}

/// What became of a [`SetGroup`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupSet {
    /// It was set.
    Set,
    /// The rule is another one: somebody else has changed it. Nothing was written.
    Stale,
}

/// Which groups of a queue are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupList {
    /// The one of this name, whether anything is known of it or not.
    One(GroupName),
    /// All that have a job that is ready or runs, or a rule: by the length and the bytes of their names.
    All {
        /// Behind this one: the [`next`](GroupPage::next) of the page before.
        after: Option<GroupName>,
        /// At most so many, 1 to 500.
        limit: usize,
    },
    /// One group, and the first jobs of its [line](GroupPage::line).
    Line {
        /// The group.
        group: GroupName,
        /// At most so many jobs, 1 to 500.
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredGroup {
    /// Its name.
    pub name: GroupName,
    /// How many jobs of it are ready.
    pub ready: u64,
    /// How many run: the slots that it holds.
    pub active: u64,
    /// Its own rule.
    pub rule: GroupRule,
    /// Why it is paused, if that was said.
    pub paused_because: Option<String>,
    /// Of an ordered group: the job that holds its line.
    pub held_by: Option<JobId>,
    /// How long ago its oldest ready job could start for the first time, as [`QueueStats::oldest`](super::QueueStats::oldest) says it of a queue.
    pub oldest: Option<Duration>,
}

impl StoredGroup {
    /// A group of which nothing is known.
    pub fn new(name: GroupName) -> Self {
        StoredGroup { name, ready: 0, active: 0, rule: GroupRule::default(), paused_because: None, held_by: None, oldest: None }
    }

    /// For brokers: notes the rule as it is stored, with the reason of a pause.
    pub fn set_rule(&mut self, stored: &str) {
        self.rule = GroupRule::of_stored(stored);
        self.paused_because = GroupRule::reason_of_stored(stored);
    }
}

/// Groups of a queue.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GroupPage {
    /// The groups.
    pub groups: Vec<StoredGroup>,
    /// The rule of all groups, where their own says nothing.
    pub others: GroupRule,
    /// The rule of jobs without a group.
    pub plain: GroupRule,
    /// Behind which group the next page begins.
    pub next: Option<GroupName>,
    /// If a [`GroupList::Line`] was asked for: the first jobs of the line, in the order in which they will start; suspects last.
    pub line: Vec<JobId>,
}

impl GroupPage {
    /// A page.
    pub fn new(groups: Vec<StoredGroup>, others: GroupRule, plain: GroupRule, next: Option<GroupName>) -> Self {
        GroupPage { groups, others, plain, next, line: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_jobs_have_their_share_of_what_waits() {
        assert_eq!(share_of_plain(1, 1, 1), 1);
        assert_eq!(share_of_plain(4, 100, 50), 8);
        assert_eq!(share_of_plain(100_000, 1, 100_000), 1);
        assert_eq!(share_of_plain(100_000, 1_000_000, 1_000_000), 256);
        assert_eq!((share_of_plain(3, 5, 0), share_of_plain(256, 256, 1)), (1, 1000));
    }
}
