//! Groups, and their rules.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    Inspector,
    clear::{ClearGroup, Cleared},
};
use crate::{
    address::{JobId, check_queue},
    broker::{DynBroker, GroupList, GroupName, GroupPage, GroupRule, GroupSet, GroupsRecord, RuleOf, SetGroup, StoredGroup},
    error::{Error, Result},
};

/// So often a change is tried while others change the same rule.
const TRIES: u32 = 50;

impl Inspector {
    /// A group of a queue: the numbers of its ready and running jobs, and its rule. An unknown
    /// group has no ready jobs. Here and below, a pause that has expired by the broker's clock is
    /// left out.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name outside the grammar; those of the broker, here and below.
    pub async fn group(&self, queue: &str, group: &GroupName) -> Result<StoredGroup> {
        let page = self.group_page(queue, GroupList::One(group.clone())).await?.without_ended_pauses();
        Ok(page.groups.into_iter().next().unwrap_or_else(|| StoredGroup::new(group.clone())))
    }

    /// Groups with ready or running jobs, or a rule, at most `limit` (1 to 500), by the length and
    /// the bytes of their names: the first ones, or those after the [`next`](GroupPage::next) of
    /// the previous page.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit out of range; [`Error::NoSuchQueue`].
    pub async fn groups(&self, queue: &str, after: Option<GroupName>, limit: usize) -> Result<GroupPage> {
        if !(1..=500).contains(&limit) {
            return Err(Error::invalid("limit", limit.to_string(), "is not between 1 and 500"));
        }
        let is_first = after.is_none();
        let page = self.group_page(queue, GroupList::All { after, limit }).await?.without_ended_pauses();
        let is_default = page.stored_declared.is_empty() && page.others.is_empty() && page.plain.is_empty();
        let is_nothing = is_first && page.groups.is_empty() && is_default;
        self.found_of(queue, page, is_nothing).await
    }

    /// Changes the rule of a group, the default rule of all groups, or that of jobs without a
    /// group. It applies from the next claim on, overrides the declaration of code field by field,
    /// and is kept over deployments. A smaller cap stops no running job.
    ///
    /// ```
    /// use queue_core::{inspect::{GroupName, RuleOf}, prelude::*};
    ///
    /// # async fn example() -> queue_core::Result<()> {
    /// let client = Client::connect("sqlite://:memory:").await?;
    /// let acme = RuleOf::Group(GroupName::new("acme")?);
    /// client.inspector().set_group_rule("mail", &acme, |rule| (rule.weight, rule.cap) = (Some(3), Some(10))).await?;
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid rule, or one that contradicts the rule of all groups,
    /// naming the field, its value and the fix; and if the queue has the largest number of rules.
    pub async fn set_group_rule(&self, queue: &str, of: &RuleOf, change: impl Fn(&mut GroupRule)) -> Result<GroupRule> {
        for _ in 0..TRIES {
            let (expected, of_all) = self.group_rule(queue, of).await?;
            let mut rule = expected;
            change(&mut rule);
            rule.check(of)?;
            rule.check_below(of, &of_all)?;
            if rule == expected {
                return Ok(rule);
            }
            let request = SetGroup::new(queue, of.clone(), expected, rule);
            // A repeated request that was carried out before finds the new rule in the next round.
            if self.run(|broker| async move { broker.set_group(&request).await }).await? == GroupSet::Set {
                return Ok(rule);
            }
        }
        Err(Error::Internal(format!("gave up: the rule of `{of}` keeps changing")))
    }

    /// Removes the declaration of code for all groups of a queue, for a declaration that no release
    /// makes any more. If a worker still declares it, the worker stores it again within a minute.
    /// Returns the removed declaration. The setting of an operator is kept.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn forget_declared_groups(&self, queue: &str) -> Result<GroupRule> {
        for _ in 0..TRIES {
            let page = self.group_page(queue, GroupList::All { after: None, limit: 1 }).await?;
            let request = SetGroup::declared(queue, &page.stored_declared, "");
            if page.stored_declared.is_empty() || self.run(|broker| async move { broker.set_group(&request).await }).await? == GroupSet::Set
            {
                return Ok(page.declared());
            }
        }
        Err(Error::Internal(format!("gave up: the declared group rules of queue `{queue}` keep changing")))
    }

    /// The next jobs of a group that are ready, at most `limit` (1 to 500), in the order in which
    /// they will start; suspects last.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit out of range.
    pub async fn group_line(&self, queue: &str, group: &GroupName, limit: usize) -> Result<Vec<JobId>> {
        if !(1..=500).contains(&limit) {
            return Err(Error::invalid("limit", limit.to_string(), "is not between 1 and 500"));
        }
        Ok(self.group_page(queue, GroupList::Line { group: group.clone(), jobs: limit }).await?.line)
    }

    /// Cancels the jobs of a group: the waiting ones, or all. Each [`step`](ClearGroup::step) is
    /// bounded. Completed steps are not undone.
    ///
    /// ```
    /// use queue_core::{inspect::{Cleared, GroupName}, prelude::*};
    ///
    /// #[task(queue = "mail", group = tenant)]
    /// async fn send(tenant: String) {}
    ///
    /// # async fn example() -> queue_core::Result<()> {
    /// let client = Client::connect("sqlite://:memory:").await?;
    /// send::job("acme".to_owned()).enqueue(&client).await?;
    /// let inspector = client.inspector().because("the customer has left");
    /// let mut clearing = inspector.clear_group("mail", &GroupName::new("acme")?, Cleared::Waiting);
    /// while clearing.step().await? {
    ///     println!("{} jobs are cancelled", clearing.cancelled());
    /// }
    /// assert_eq!(clearing.cancelled(), 1);
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn clear_group(&self, queue: &str, group: &GroupName, which: Cleared) -> ClearGroup {
        ClearGroup::new(self.clone(), queue, group.clone(), which)
    }

    /// A rule, and the rule of all groups.
    async fn group_rule(&self, queue: &str, of: &RuleOf) -> Result<(GroupRule, GroupRule)> {
        let which = match of {
            RuleOf::Group(group) => GroupList::One(group.clone()),
            _ => GroupList::All { after: None, limit: 1 },
        };
        let page = self.group_page(queue, which).await?;
        let declared = page.declared();
        Ok(match of {
            RuleOf::Group(_) => (page.groups.first().map(|group| group.rule).unwrap_or_default(), page.others.over(declared)),
            RuleOf::Others => (page.others, declared),
            RuleOf::Plain => (page.plain, GroupRule::default()),
            RuleOf::Declared => (declared, GroupRule::default()),
        })
    }

    /// The page of the first group, for its rule of all groups.
    pub(super) async fn first_group(&self, queue: &str) -> Result<GroupPage> {
        self.group_page(queue, GroupList::All { after: None, limit: 1 }).await
    }

    /// The stored form: a rule is compared with the form that was read, which includes an expired
    /// pause.
    async fn group_page(&self, queue: &str, which: GroupList) -> Result<GroupPage> {
        check_queue(queue)?;
        let queue = queue.to_owned();
        self.ask(self.until(), move |broker| {
            let (queue, which) = (queue.clone(), which.clone());
            async move { broker.groups(&queue, &which).await }
        })
        .await
    }
}

/// Declares the rule of all groups of a release in a queue, before its worker claims jobs there. Of
/// the releases with a live worker, the one that was first seen last applies, so that a rollback
/// takes effect. Returns the effective rule if it has changed.
///
/// # Errors
/// Those of the broker.
pub async fn declare_groups(broker: &DynBroker, queue: &Arc<str>, release: &str, own: &GroupRule) -> Result<Option<GroupRule>> {
    for _ in 0..TRIES {
        let stored = broker.groups(queue, &GroupList::All { after: None, limit: 1 }).await?.stored_declared;
        let workers = broker.workers(queue).await?;
        let mut live: BTreeSet<String> =
            workers.into_iter().filter(|worker| !worker.lease_left.is_zero()).map(|worker| worker.release).collect();
        live.insert(release.to_owned());
        let now_ms = broker.clock().now_ms();
        let before = GroupsRecord::decode(&stored);
        let mut record = before.clone();
        record.declare(release, own, &live, now_ms);
        if record == before {
            return Ok(None);
        }
        if broker.set_group(&SetGroup::declared(queue.clone(), &stored, &record.encode())).await? == GroupSet::Set {
            return Ok((record.rule() != before.rule()).then(|| record.rule()));
        }
    }
    Err(Error::Internal(format!("gave up: the declared group rules of queue `{queue}` keep changing")))
}
