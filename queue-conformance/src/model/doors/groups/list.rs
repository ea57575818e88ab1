//! Groups as they are listed.

use std::collections::VecDeque;

use queue_core::{
    JobId,
    broker::{GroupList, GroupName, GroupPage, PauseOf, RuleOf, StoredGroup},
};

use super::{Groups, Line, Place};
use crate::model::Model;

impl Groups {
    /// The jobs of a group that are ready, by priority.
    pub(in crate::model) fn priorities(&self, group: &GroupName) -> impl Iterator<Item = &VecDeque<JobId>> {
        self.lines.get(group).into_iter().flat_map(|line| &line.jobs[1..])
    }

    /// Those with a job that is ready, by name.
    pub(in crate::model) fn names(&self) -> impl Iterator<Item = &GroupName> {
        self.lines.keys()
    }

    /// The groups whose turn comes first.
    pub(in crate::model) fn next(&self, most: usize) -> Vec<&GroupName> {
        let mut next: Vec<_> = self.turns.iter().map(|(group, start)| (start, group)).collect();
        next.sort();
        next.into_iter().take(most).map(|(_, group)| group).collect()
    }
}

impl Model {
    /// Groups, and their rules.
    pub fn list_groups(&self, which: &GroupList) -> GroupPage {
        let mut page = self.group_page(which);
        page.stored_declared.clone_from(&self.groups.declared);
        page.now_ms = self.now;
        page
    }

    fn group_page(&self, which: &GroupList) -> GroupPage {
        let (others, plain) = (self.groups.rule(&RuleOf::Others), self.groups.rule(&RuleOf::Plain));
        let stored = |name: &GroupName| {
            let mut stored = StoredGroup::new(name.clone());
            stored.ready = self.groups.lines.get(name).map_or(0, Line::depth);
            stored.active = self.running(name);
            stored.rule = self.groups.rule(&RuleOf::Group(name.clone()));
            let pause = self.pauses.get(&PauseOf::Group(name.clone())).cloned();
            stored.pause = stored.rule.paused.then(|| pause.unwrap_or_default());
            stored.held_by = self.groups.held.get(name).cloned();
            stored.oldest = self.oldest_of(name);
            stored
        };
        let after = match which {
            GroupList::One(name) => return GroupPage::new(vec![stored(name)], others, plain, None),
            GroupList::Line { group, .. } => {
                let mut page = GroupPage::new(vec![stored(group)], others, plain, None);
                page.line = self.groups.lines.get(group).into_iter().flat_map(Line::members).take(which.limit()).cloned().collect();
                return page;
            }
            GroupList::All { after, .. } => after,
            _ => &None,
        };
        let active = self.jobs.values().filter(|job| matches!(job.place, Place::Active { .. })).filter_map(|job| job.group.clone());
        let ruled = self.groups.rules.keys().filter_map(|of| match of {
            RuleOf::Group(name) => Some(name.clone()),
            _ => None,
        });
        let mut names: Vec<GroupName> = self.groups.lines.keys().cloned().chain(active).chain(ruled).collect();
        names.sort();
        names.dedup();
        names.retain(|name| after.as_ref().is_none_or(|after| name > after));
        let more = names.len() > which.limit();
        names.truncate(which.limit());
        let next = names.last().cloned().filter(|_| more);
        GroupPage::new(names.iter().map(stored).collect(), others, plain, next)
    }
}
