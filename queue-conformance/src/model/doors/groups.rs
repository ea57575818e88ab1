//! Groups: who may be served, and in which order. The jobs of a group that are ready stand in a line of its own; a group has a *virtual start*, and
//! the least is served next. Plain jobs are one more group.

mod list;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use queue_core::{
    JobId,
    broker::{
        GROUP_RULES, GroupName, GroupOrder, GroupRule, GroupSet, NewJob, PartyName, PauseOf, Priority, RuleOf, SetGroup, TURN_APART,
        TURN_COST, share_of_plain,
    },
};

use super::{Model, Place, limits::Chain};

/// The groups of a queue.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    lines: BTreeMap<GroupName, Line>,
    /// The virtual starts of the groups with a job that may start, suspects left out.
    turns: BTreeMap<GroupName, u64>,
    /// The groups with a suspect that may start.
    doubts: BTreeSet<GroupName>,
    /// The virtual starts of the groups that have no turn.
    rested: BTreeMap<GroupName, u64>,
    /// The largest start that was served.
    virtual_time: u64,
    plain: u64,
    rules: BTreeMap<RuleOf, GroupRule>,
    /// What code declares of all groups, as it is stored.
    declared: String,
    /// Of ordered groups: who holds the line.
    held: BTreeMap<GroupName, JobId>,
}

/// The jobs of a group that are ready: who holds the line, then by priority; and the suspects.
#[derive(Clone, Debug, Default)]
struct Line {
    jobs: [VecDeque<JobId>; 5],
    suspects: VecDeque<JobId>,
}

impl Line {
    fn members(&self) -> impl Iterator<Item = &JobId> {
        self.jobs.iter().flatten().chain(&self.suspects)
    }

    fn depth(&self) -> u64 {
        self.members().count() as u64
    }
}

/// A job that is to be claimed by the turn of its group, or how many plain ones.
#[derive(Clone, Debug)]
pub(in crate::model) struct Pick {
    pub(in crate::model) id: JobId,
    group: GroupName,
    start: u64,
    cost: u64,
}

/// What a claim takes, where there are groups.
#[derive(Debug, Default)]
pub(in crate::model) struct Picks {
    /// The starts of the plain jobs; what each costs; and how many there may be, where no group waits.
    plain: Vec<u64>,
    plain_cost: u64,
    unbounded: usize,
    /// The jobs of groups, in order.
    pub(in crate::model) grouped: Vec<Pick>,
}

impl Picks {
    /// So many plain jobs, without a turn.
    pub(in crate::model) fn all_plain(unbounded: usize) -> Picks {
        Picks { unbounded, ..Picks::default() }
    }

    /// How many plain jobs are taken.
    pub(in crate::model) fn plain_jobs(&self) -> usize {
        self.plain.len().max(self.unbounded)
    }
}

impl Groups {
    /// Whether a group may be served.
    pub(in crate::model) fn waits(&self) -> bool {
        !self.turns.is_empty()
    }

    /// All jobs in the lines, group by group, the suspects behind all others.
    pub fn page(&self) -> impl Iterator<Item = &JobId> {
        self.lines.values().flat_map(|line| line.jobs.iter().flatten()).chain(self.suspects())
    }

    /// How many jobs there are in the lines.
    pub fn depth(&self) -> usize {
        self.page().count()
    }

    /// The line of a group, but for its suspects: in which part each job stands.
    pub(in crate::model) fn line_of(&self, group: &GroupName) -> impl Iterator<Item = (usize, &JobId)> + Clone {
        let parts = self.lines.get(group).map(|line| line.jobs.iter().enumerate()).into_iter().flatten();
        parts.flat_map(|(n, jobs)| jobs.iter().map(move |id| (n, id)))
    }

    /// Whether a suspect stands in a line.
    pub fn has_suspects(&self) -> bool {
        self.suspects().next().is_some()
    }

    fn suspects(&self) -> impl Iterator<Item = &JobId> {
        self.lines.values().flat_map(|line| &line.suspects)
    }

    /// How many suspects of its group go before one.
    pub(in crate::model) fn suspects_before(&self, group: &GroupName, id: &JobId) -> u64 {
        self.lines.get(group).and_then(|line| line.suspects.iter().position(|other| other == id)).unwrap_or_default() as u64
    }

    /// How many groups have their turn, but for this one.
    pub(in crate::model) fn others_in_turn(&self, group: Option<&GroupName>) -> u64 {
        self.turns.keys().filter(|other| Some(*other) != group).count() as u64
    }

    /// Brings every line into the order in which its members are here: a broker was free to choose it.
    pub fn reorder(&mut self, seen: &[JobId]) {
        let place = |id: &JobId| seen.iter().position(|other| other == id).unwrap_or(usize::MAX);
        for line in self.lines.values_mut() {
            line.jobs.iter_mut().chain([&mut line.suspects]).for_each(|jobs| jobs.make_contiguous().sort_by_key(place));
        }
    }

    fn start_of(&self, group: &GroupName) -> u64 {
        self.turns.get(group).or(self.rested.get(group)).copied().unwrap_or_default()
    }

    fn rule(&self, of: &RuleOf) -> GroupRule {
        self.rules.get(of).copied().unwrap_or_default()
    }

    pub(in crate::model) fn effective(&self, group: &GroupName) -> GroupRule {
        self.rule(&RuleOf::Group(group.clone())).over(self.rule(&RuleOf::Others).or(GroupRule::of_stored(&self.declared)))
    }

    /// Who holds the line of a group, as far as its rule asks for that.
    pub(in crate::model) fn holder(&self, group: &GroupName) -> Option<&JobId> {
        self.held.get(group).filter(|_| self.effective(group).order == Some(GroupOrder::Ordered))
    }
}

fn cost(weight: u64) -> u64 {
    (TURN_COST / weight.max(1)).max(1)
}

impl Model {
    /// Brings every line into the order in which its members are here: a broker was free to choose it. Of jobs with limits those of one chain keep the places
    /// that they have together.
    pub fn reorder_groups(&mut self, seen: &[JobId]) {
        let place = |id: &JobId| seen.iter().position(|other| other == id).unwrap_or(usize::MAX);
        let chains: BTreeMap<JobId, Option<Chain>> = self.groups.page().map(|id| (id.clone(), self.chain(id))).collect();
        for line in self.groups.lines.values_mut() {
            for jobs in line.jobs.iter_mut().chain([&mut line.suspects]) {
                let mut alike: BTreeMap<&Option<Chain>, Vec<JobId>> = BTreeMap::new();
                jobs.iter().for_each(|id| alike.entry(&chains[id]).or_default().push(id.clone()));
                alike.values_mut().for_each(|ids| ids.sort_by_key(|id| std::cmp::Reverse(place(id))));
                for id in jobs.iter_mut() {
                    let next = alike.get_mut(&chains[id]).and_then(Vec::pop);
                    *id = next.expect("there are as many as places");
                }
            }
        }
    }

    /// A job that is ready joins the line of its group.
    pub(super) fn push_grouped(&mut self, id: &JobId, group: &GroupName, head: bool) {
        let job = &self.jobs[id];
        let (is_suspect, priority) = (job.crashes > 0, usize::from(job.priority.number()));
        let holds = self.groups.holder(group) == Some(id);
        let line = self.groups.lines.entry(group.clone()).or_default();
        let jobs = match (is_suspect, holds) {
            (true, _) => &mut line.suspects,
            (false, true) => &mut line.jobs[0],
            (false, false) => &mut line.jobs[1 + priority],
        };
        if head {
            jobs.push_front(id.clone())
        } else {
            jobs.push_back(id.clone())
        }
        self.review(group);
    }

    /// A job that is no suspect rises in the line of its group. Who holds the line stays before all others.
    pub(super) fn lift_grouped(&mut self, id: &JobId, group: &GroupName, to: Priority) {
        let holds = self.groups.holder(group) == Some(id);
        let line = self.groups.lines.entry(group.clone()).or_default();
        line.jobs.iter_mut().for_each(|jobs| jobs.retain(|other| other != id));
        line.jobs[if holds { 0 } else { 1 + usize::from(to.number()) }].push_back(id.clone());
    }

    /// A job leaves the line of its group.
    pub(super) fn cut_grouped(&mut self, id: &JobId, group: &GroupName) {
        if let Some(line) = self.groups.lines.get_mut(group) {
            line.jobs.iter_mut().chain([&mut line.suspects]).for_each(|jobs| jobs.retain(|other| other != id));
            if line.depth() == 0 {
                self.groups.lines.remove(group);
            }
        }
        self.review(group);
    }

    /// How many jobs of a group run. There is no counter: a slot is an active job.
    pub(in crate::model) fn running(&self, group: &GroupName) -> u64 {
        self.jobs.values().filter(|job| job.group.as_ref() == Some(group) && matches!(job.place, Place::Active { .. })).count() as u64
    }

    /// How many more jobs of a group may start.
    fn room(&self, group: &GroupName) -> u64 {
        let rule = self.groups.effective(group);
        match (rule.paused, rule.cap) {
            (true, _) => 0,
            (false, Some(cap)) => u64::from(cap).saturating_sub(self.running(group)),
            (false, None) => u64::MAX,
        }
    }

    /// Whether a group lets a job of it start.
    pub(in crate::model) fn group_lets(&self, group: &GroupName, id: &JobId) -> bool {
        let in_order = matches!(self.groups.effective(group).order, Some(GroupOrder::Ordered | GroupOrder::SkipFailed));
        let first = || self.groups.line_of(group).next().map(|(_, id)| id);
        let lets = match self.groups.holder(group) {
            Some(holder) => holder == id,
            None => !in_order || self.jobs[id].crashes > 0 || first() == Some(id),
        };
        lets && self.room(group) > 0
    }

    /// Whether a group is among those that may be served is decided anew.
    pub(super) fn review(&mut self, group: &GroupName) {
        let (line, holder) = (self.groups.lines.get(group), self.groups.holder(group));
        let fits = |id: &JobId| holder.is_none_or(|holder| holder == id);
        let has_room = self.room(group) > 0;
        let weight = self.groups.effective(group).weight.map_or(1, u64::from);
        let may = has_room && line.is_some_and(|line| line.jobs.iter().flatten().any(fits));
        let doubt = has_room && line.is_some_and(|line| line.suspects.iter().any(fits));
        let groups = &mut self.groups;
        let comes = doubt && !groups.doubts.contains(group);
        if doubt {
            groups.doubts.insert(group.clone());
        } else {
            groups.doubts.remove(group);
        }
        match (may, groups.turns.get(group).copied()) {
            (true, None) => {
                let rested = groups.rested.remove(group).unwrap_or(0);
                groups.turns.insert(group.clone(), rested.max(groups.virtual_time + TURN_APART.min(cost(weight))));
                self.announce(self.now);
            }
            (false, Some(start)) => {
                groups.turns.remove(group);
                groups.rested.insert(group.clone(), start);
            }
            _ => {}
        }
        if comes {
            if !self.groups.turns.contains_key(group) {
                let earliest = self.groups.virtual_time + TURN_APART.min(cost(weight));
                let start = self.groups.rested.entry(group.clone()).or_default();
                *start = earliest.max(*start);
            }
            self.announce(self.now);
        }
    }

    /// A job of a group has started: it has a slot, and perhaps the line.
    pub(in crate::model) fn started_in_group(&mut self, id: &JobId) {
        let Some(group) = self.jobs[id].group.clone() else { return };
        if self.groups.effective(&group).order == Some(GroupOrder::Ordered) {
            self.groups.held.insert(group.clone(), id.clone());
        }
        self.cut_grouped(id, &group);
    }

    /// A job has ended: it holds no line any more.
    pub(super) fn free_line(&mut self, id: &JobId) {
        let Some(group) = self.jobs.get(id).and_then(|job| job.group.clone()) else { return };
        if self.groups.held.get(&group) == Some(id) {
            self.groups.held.remove(&group);
        }
        self.review(&group);
    }

    /// Whether no further job of its group may be stored.
    pub(in crate::model) fn is_full(&self, new: &NewJob) -> bool {
        let Some(group) = &new.group else { return false };
        let ready = self.groups.lines.get(group).map_or(0, Line::depth);
        self.groups.effective(group).max_size.is_some_and(|most| ready >= most)
    }

    /// Whether jobs of this group that were due again go to the head.
    pub(in crate::model) fn comes_first(&self, id: &JobId) -> bool {
        let group = self.jobs[id].group.as_ref();
        group.is_some_and(|group| self.groups.effective(group).order == Some(GroupOrder::SkipFailed))
    }

    /// The next suspect that may start: of the group with the least start.
    pub(in crate::model) fn next_suspect(&self) -> Option<JobId> {
        let groups = &self.groups;
        let mut doubts: Vec<(u64, &GroupName)> = groups.doubts.iter().map(|group| (groups.start_of(group), group)).collect();
        doubts.sort();
        doubts.into_iter().find_map(|(_, group)| {
            let holder = groups.holder(group);
            let may = |id: &&JobId| holder.is_none_or(|holder| holder == *id) && self.held_back(id).is_none();
            groups.lines[group].suspects.iter().find(may).cloned()
        })
    }

    /// What a claim of so many jobs takes: one at a time, of the group with the least start.
    pub(in crate::model) fn choose(&self, jobs: usize) -> Picks {
        // Where limits hold jobs back it is decided one by one, on a copy.
        let mut ledger = self.limits.used.then(|| self.clone());
        let groups = &self.groups;
        let mut plain_left = self.ready.priorities().iter().map(VecDeque::len).sum::<usize>();
        let weight = match groups.rule(&RuleOf::Plain).weight {
            Some(weight) => u64::from(weight),
            None => share_of_plain(groups.turns.len() as u64, plain_left as u64, groups.depth() as u64),
        };
        let mut picks = Picks { plain_cost: cost(weight), ..Picks::default() };
        let mut plain = groups.plain.max(groups.virtual_time);
        let mut starts = groups.turns.clone();
        let mut lines: BTreeMap<&GroupName, VecDeque<JobId>> = BTreeMap::new();
        for group in starts.keys() {
            let line = &groups.lines[group];
            let room = usize::try_from(self.room(group)).unwrap_or(usize::MAX);
            let of = groups.turns.get_key_value(group).expect("it was just read").0;
            let jobs = match groups.holder(group) {
                Some(holder) => line.jobs.iter().flatten().filter(|id| *id == holder).cloned().collect(),
                None if ledger.is_some() => line.jobs.iter().flatten().cloned().collect(),
                None => line.jobs.iter().flatten().take(room).cloned().collect(),
            };
            lines.insert(of, jobs);
        }
        starts.retain(|group, _| !lines[group].is_empty());
        while picks.plain.len() + picks.grouped.len() < jobs {
            let least =
                starts.iter().min_by_key(|(group, start)| (**start, (*group).clone())).map(|(group, start)| (group.clone(), *start));
            match least {
                Some((group, start)) if plain_left == 0 || start < plain => {
                    let line = lines.get_mut(&group).expect("it was made above");
                    let id = match &mut ledger {
                        None => line.pop_front(),
                        Some(ledger) => ledger.next_by_limits(&group, line),
                    };
                    let Some(id) = id else {
                        starts.remove(&group);
                        continue;
                    };
                    let cost = cost(groups.effective(&group).weight.map_or(1, u64::from));
                    if line.is_empty() {
                        starts.remove(&group);
                    } else {
                        starts.insert(group.clone(), start + cost);
                    }
                    picks.grouped.push(Pick { id, group, start, cost });
                }
                None if plain_left == 0 => break,
                _ => {
                    picks.plain.push(plain);
                    plain += picks.plain_cost;
                    plain_left -= 1;
                }
            }
        }
        picks
    }

    /// The next of a line that may start, which starts in this copy.
    fn next_by_limits(&mut self, group: &GroupName, line: &mut VecDeque<JobId>) -> Option<JobId> {
        if self.room(group) == 0 {
            return None;
        }
        let mut blocked: Vec<Chain> = Vec::new();
        let in_order = matches!(self.groups.effective(group).order, Some(GroupOrder::Ordered | GroupOrder::SkipFailed));
        let most = if in_order { 1 } else { usize::MAX };
        let at = line.iter().take(most).position(|id| {
            let chain = self.chain(id);
            let may = chain.as_ref().is_none_or(|chain| !blocked.contains(chain)) && self.held_back(id).is_none();
            blocked.extend(chain.filter(|_| !may));
            may
        })?;
        let id = line.remove(at)?;
        self.charge_limits(&id, false);
        self.jobs.set_place(&id, Place::Active { lane: PartyName::new("copy"), claim: 0 });
        Some(id)
    }

    /// Whether a group waits of which a worker would get a job that runs no suspect.
    pub(in crate::model) fn groups_wait(&self) -> bool {
        if self.limits.used {
            return self.groups.page().any(|id| self.may_start(id, false));
        }
        self.groups.waits()
    }

    /// Forgets groups that are not ahead of the virtual time, or all where nothing waits, at most so many.
    pub(in crate::model) fn forget_groups(&mut self, items: usize) -> usize {
        let waits = self.groups.waits() || !self.groups.doubts.is_empty() || self.ready.priorities().iter().any(|line| !line.is_empty());
        let upto = if waits { self.groups.virtual_time } else { u64::MAX };
        let groups = &mut self.groups;
        let is_over = |(group, start): &(&GroupName, &u64)| **start <= upto && !groups.lines.contains_key(*group);
        let over: Vec<GroupName> = groups.rested.iter().filter(is_over).map(|(group, _)| group.clone()).take(items).collect();
        for group in &over {
            groups.rested.remove(group);
        }
        over.len()
    }

    /// A pick was claimed.
    pub(in crate::model) fn served(&mut self, pick: &Pick) {
        self.groups.virtual_time = self.groups.virtual_time.max(pick.start);
        self.charge_turn(&pick.group, pick.start, pick.cost);
    }

    /// A suspect was claimed. It is no turn of its group, which pays for it: virtual time stands still.
    pub(in crate::model) fn served_suspect(&mut self, id: &JobId) {
        let Some(group) = self.jobs[id].group.clone() else { return };
        let start = self.groups.start_of(&group);
        self.charge_turn(&group, start, cost(self.groups.effective(&group).weight.map_or(1, u64::from)));
    }

    /// So many of the plain picks were claimed.
    pub(in crate::model) fn served_plain(&mut self, picks: &Picks, taken: usize) {
        if let Some(start) = picks.plain[..taken.min(picks.plain.len())].last() {
            self.groups.virtual_time = self.groups.virtual_time.max(*start);
            self.groups.plain = start + picks.plain_cost;
        }
    }

    fn charge_turn(&mut self, group: &GroupName, start: u64, cost: u64) {
        let groups = &mut self.groups;
        let own = groups.turns.get_mut(group).or(groups.rested.get_mut(group));
        if let Some(own) = own {
            *own = start + cost;
        }
    }

    /// Pauses a group, or lets it go on. False: that would be one rule too many.
    pub(in crate::model) fn pause_group(&mut self, group: &GroupName, paused: bool) -> bool {
        let of = RuleOf::Group(group.clone());
        let mut rule = self.groups.rule(&of);
        if paused && !self.groups.rules.contains_key(&of) && self.groups.rules.len() >= GROUP_RULES {
            return false;
        }
        rule.paused = paused;
        if rule.is_empty() {
            self.groups.rules.remove(&of);
        } else {
            self.groups.rules.insert(of, rule);
        }
        self.review(group);
        true
    }

    /// Sets a rule.
    ///
    /// # Errors
    /// For one rule too many.
    pub fn set_group(&mut self, request: &SetGroup) -> queue_core::Result<GroupSet> {
        let all = self.groups.lines.keys().cloned().collect::<Vec<_>>();
        if let Some((read, wanted)) = &request.record {
            if self.groups.declared == **wanted {
                return Ok(GroupSet::Set);
            }
            if self.groups.declared != **read {
                return Ok(GroupSet::Stale);
            }
            self.groups.declared = wanted.to_string();
            all.iter().for_each(|group| self.review(group));
            return Ok(GroupSet::Set);
        }
        let known = self.groups.rule(&request.of);
        if known == request.rule {
            return Ok(GroupSet::Set);
        }
        if known != request.expected {
            return Ok(GroupSet::Stale);
        }
        if request.rule.is_empty() {
            self.groups.rules.remove(&request.of);
        } else if !self.groups.rules.contains_key(&request.of) && self.groups.rules.len() >= GROUP_RULES {
            return Err(request.too_many());
        } else {
            self.groups.rules.insert(request.of.clone(), request.rule);
        }
        if let (RuleOf::Group(group), false) = (&request.of, request.rule.paused) {
            self.pauses.remove(&PauseOf::Group(group.clone()));
        }
        let groups = match &request.of {
            RuleOf::Group(group) => vec![group.clone()],
            RuleOf::Others => all,
            _ => Vec::new(),
        };
        groups.iter().for_each(|group| self.review(group));
        Ok(GroupSet::Set)
    }
}
