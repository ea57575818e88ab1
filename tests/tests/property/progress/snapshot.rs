//! What a broker stores of a queue, as far as it decides what may start; and the property of a
//! claim between two of these.

use std::collections::{BTreeMap, BTreeSet};

use queue_core::{
    __private::Envelope,
    JobId,
    broker::{
        Delivery, DynBroker, GroupList, JobState, LIMIT_STEP, LimitKeys, LimitRecord, MAX_ITEMS, PauseOf, Priority, StoredJob, TurnAnswer,
    },
    inspect::{GroupName, GroupOrder, GroupRule, LimitKey, LimitRule},
};

/// What a broker stores of a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// Whether the queue is paused.
    pub(crate) paused: bool,
    /// The paused tasks.
    pub(crate) tasks: BTreeSet<String>,
    /// The jobs that are ready. Of the jobs of one line that have the same limits, the first comes
    /// first.
    pub(crate) ready: Vec<Job>,
    /// How many jobs run, by their groups and by the keys of their limits.
    pub(crate) running: BTreeMap<GroupName, u32>,
    pub(crate) holding: BTreeMap<LimitKey, u32>,
    /// What holds for each group, and which job has the line of an ordered one.
    pub(crate) groups: BTreeMap<GroupName, (GroupRule, Option<JobId>)>,
    pub(crate) others: GroupRule,
    pub(crate) plain: GroupRule,
    /// What holds for each limit, and the keys that their rates have closed.
    pub(crate) limits: BTreeMap<String, LimitRule>,
    pub(crate) closed: BTreeSet<LimitKey>,
    /// Whether jobs rise, or have risen: then their priorities are not known.
    pub(crate) aging: bool,
}

/// A job that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) group: Option<GroupName>,
    pub(crate) limits: Vec<LimitKey>,
    pub(crate) priority: Priority,
    pub(crate) suspect: bool,
    pub(crate) task: String,
}

/// What a claim asked for, and what it got.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claim {
    /// How many jobs.
    pub(crate) asked: usize,
    /// Whether one of them might be a suspect.
    pub(crate) suspect: bool,
    /// The jobs that came, in order, as they were when they were claimed.
    pub(crate) got: Vec<Job>,
    /// Whether jobs of paused tasks were parked in place of these: no claim meets them again.
    pub(crate) has_parked: bool,
    /// Whether the answer promises that another claim returns jobs.
    pub(crate) promises: bool,
}

impl Claim {
    /// `known`: all jobs that there ever were.
    pub(crate) fn new(asked: usize, suspect: bool, answer: &TurnAnswer, known: &BTreeMap<JobId, Job>) -> Claim {
        let got = |delivery: &Delivery| Job { suspect: delivery.crashes > 0, ..known[&delivery.id].clone() };
        let (got, has_parked) = (answer.deliveries.iter().map(got).collect(), !answer.aside.is_empty());
        Claim { asked, suspect, got, has_parked, promises: answer.more || suspect && answer.suspects }
    }

    /// Whether nothing has come of it.
    pub(crate) fn is_in_vain(&self) -> bool {
        self.got.is_empty() && self.asked > 0
    }

    fn is_full(&self) -> bool {
        self.got.len() >= self.asked
    }
}

impl Job {
    pub(crate) fn of(job: &StoredJob) -> Job {
        Job {
            id: job.id.clone(),
            group: job.group.clone(),
            limits: job.limits.clone(),
            priority: job.priority,
            suspect: job.crashes > 0,
            task: Envelope::decode(&job.envelope).map(|envelope| envelope.task.to_string()).unwrap_or_default(),
        }
    }

    /// Jobs of which this is the same stand in one line, and start in its order.
    fn is_beside(&self, other: &Job) -> bool {
        (&self.group, &self.limits, self.priority, self.suspect) == (&other.group, &other.limits, other.priority, other.suspect)
    }
}

impl Snapshot {
    /// Reads it. Costs of jobs are 1.
    pub(crate) async fn read(broker: &DynBroker, queue: &str, aging: bool) -> Snapshot {
        let mut snapshot = Snapshot { aging, ..Snapshot::default() };
        let pauses = broker.pauses(queue).await.expect("pauses can be read");
        for pause in pauses.unexpired() {
            match pause.of {
                PauseOf::Task(task) => drop(snapshot.tasks.insert(task.to_string())),
                _ => snapshot.paused = true,
            }
        }
        for state in [JobState::Ready, JobState::Active] {
            let mut from = Some(0);
            while let Some(offset) = from {
                let page = broker.list(queue, state, offset, MAX_ITEMS).await.expect("jobs can be listed");
                for job in &page.jobs {
                    match state {
                        JobState::Ready => snapshot.ready.push(Job::of(job)),
                        _ => snapshot.runs(job.group.as_ref(), &job.limits),
                    }
                }
                from = page.next;
            }
        }
        let mut after = None;
        loop {
            let page = broker.groups(queue, &GroupList::All { after, limit: MAX_ITEMS }).await.expect("groups can be read");
            let page = page.without_ended_pauses();
            let others = page.others.over(page.declared());
            (snapshot.others, snapshot.plain) = (others, page.plain);
            let own = page.groups.into_iter().map(|group| (group.name, (group.rule.over(others), group.blocked_by)));
            snapshot.groups.extend(own);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        for limit in broker.limits(queue, None).await.expect("limits can be read") {
            let record = LimitRecord::decode(&limit.stored).expect("it was stored by us");
            snapshot.limits.insert(record.name.to_string(), record.rule());
        }
        let rated = |key: &LimitKey| snapshot.limits.iter().any(|(name, rule)| rule.rate.is_some() && key.is_of(name));
        let keys: BTreeSet<LimitKey> = snapshot.ready.iter().flat_map(|job| &job.limits).filter(|key| rated(key)).copied().collect();
        let keys: Vec<LimitKey> = keys.into_iter().collect();
        for keys in keys.chunks(MAX_ITEMS) {
            let found = broker.limit_keys(queue, &LimitKeys::These(keys.to_vec())).await.expect("keys can be read");
            snapshot.closed.extend(found.into_iter().filter(|key| key.until_ms.is_some()).map(|key| key.key));
        }
        snapshot
    }

    /// A job runs.
    pub(crate) fn runs(&mut self, group: Option<&GroupName>, limits: &[LimitKey]) {
        if let Some(group) = group {
            *self.running.entry(group.clone()).or_default() += 1;
        }
        for key in limits {
            *self.holding.entry(*key).or_default() += 1;
        }
    }

    fn rule(&self, group: &GroupName) -> GroupRule {
        self.groups.get(group).map_or_else(|| GroupRule::new().over(self.others), |(rule, _)| *rule)
    }

    /// Whether the jobs of its group start in order.
    pub(crate) fn is_ordered(&self, job: &Job) -> bool {
        job.group.as_ref().is_some_and(|group| !matches!(self.rule(group).order, None | Some(GroupOrder::Any)))
    }

    /// How often a line is served for one time that another one of weight 1 is.
    pub(crate) fn weight(&self, group: Option<&GroupName>) -> f64 {
        f64::from(group.map_or(self.plain, |group| self.rule(group)).weight.unwrap_or(1))
    }

    /// The jobs that may start: those that wait for nothing but their turn.
    pub(crate) fn may_start(&self, suspects: bool) -> Vec<&Job> {
        // Of jobs of one group that differ in their limits the listing has not the order: while one
        // of them may not start, it may be the first.
        let mut jobs: BTreeMap<&GroupName, Vec<&Job>> = BTreeMap::new();
        for (group, job) in self.ready.iter().filter(|job| !job.suspect).filter_map(|job| Some((job.group.as_ref()?, job))) {
            jobs.entry(group).or_default().push(job);
        }
        jobs.retain(|_, jobs| jobs.iter().any(|job| job.limits != jobs[0].limits) && !jobs.iter().all(|job| self.is_open(job)));
        let mut first: BTreeSet<&GroupName> = jobs.into_keys().collect();
        let mut may = Vec::new();
        for job in &self.ready {
            // Of an ordered group the job that blocks the group line goes first, or else the first
            // that is no suspect.
            let is_next = job.group.as_ref().is_none_or(|group| {
                !self.is_ordered(job)
                    || self.groups.get(group).is_some_and(|(_, holder)| holder.is_some())
                    || job.suspect
                    || first.insert(group)
            });
            if is_next && (suspects || !job.suspect) && self.is_open(job) {
                may.push(job);
            }
        }
        may
    }

    /// Whether neither a pause nor a group nor a limit keeps a job from starting. In an ordered
    /// group whose line nobody holds it may stand behind another one.
    pub(crate) fn is_open(&self, job: &Job) -> bool {
        let group_lets = job.group.as_ref().is_none_or(|group| {
            let (rule, holder) = (self.rule(group), self.groups.get(group).and_then(|(_, holder)| holder.as_ref()));
            let room = rule.cap.is_none_or(|cap| self.running.get(group).copied().unwrap_or_default() < cap);
            !rule.paused && room && (!self.is_ordered(job) || holder.is_none_or(|holder| *holder == job.id))
        });
        let limits_let = job.limits.iter().all(|key| {
            let rule = self.limits.iter().find(|(name, _)| key.is_of(name)).map(|(_, rule)| *rule).unwrap_or_default();
            let held = self.holding.get(key).copied().unwrap_or_default();
            rule.concurrency.is_none_or(|most| held < most) && !self.closed.contains(key)
        });
        !self.paused && group_lets && limits_let && !self.tasks.contains(&job.task)
    }
}

/// Of this many suspects one claim finds one that may start.
const SUSPECTS: usize = 1_500;

/// A lane with room gets a job by one of two successive claims, if one may start.
pub(crate) fn starves(before: &Snapshot, first: &Claim, second: &Claim) -> Result<(), String> {
    let may = before.may_start(first.suspect && second.suspect);
    if !may.is_empty() && first.is_in_vain() && second.is_in_vain() {
        return Err(format!("two claims got nothing, and {} jobs may start: {:?}", may.len(), may[0]));
    }
    Ok(())
}

/// A claim that got nothing promises nothing: no other follows it without a hint, a due time or the
/// end of the poll interval.
pub(crate) fn spins(claim: &Claim) -> Result<(), String> {
    match claim.is_in_vain() && claim.promises {
        true => Err(format!("a claim of {} got nothing, and promises some", claim.asked)),
        false => Ok(()),
    }
}

/// What a claim leaves behind, it promises; and no job that may start, before the claim and after
/// it, is overtaken by one that comes behind it. Which of several jobs of one line starts first is
/// not checked where their limits differ: they are looked at again one after the other when a limit
/// has room. Nor is it where more jobs with other limits wait than a claim examines.
pub(crate) fn overtakes(before: &Snapshot, claim: &Claim, after: &Snapshot) -> Result<(), String> {
    let still: BTreeSet<&JobId> = after.may_start(claim.suspect).into_iter().map(|job| &job.id).collect();
    let left: Vec<&Job> = before.may_start(claim.suspect).into_iter().filter(|job| still.contains(&job.id)).collect();
    if let Some(job) = left.first().filter(|_| !claim.is_full() && !claim.promises) {
        return Err(format!(
            "a claim of {} got {}, promises no more, and {} jobs may start: {job:?}",
            claim.asked,
            claim.got.len(),
            left.len()
        ));
    }
    let suspects = || before.ready.iter().filter(|job| job.suspect).count();
    if let Some(job) = left.iter().find(|job| job.suspect).filter(|_| suspects() <= SUSPECTS && claim.got.iter().all(|got| !got.suspect)) {
        return Err(format!("a lane that runs no suspect got none, and {job:?} may start"));
    }
    let chains: BTreeSet<_> = before.ready.iter().map(|job| (&job.group, &job.limits, job.priority.number())).collect();
    let place: BTreeMap<&JobId, usize> = before.ready.iter().enumerate().map(|(place, job)| (&job.id, place)).collect();
    for got in &claim.got {
        // What has become ready in this claim is behind all others.
        let at = place.get(&got.id).copied().unwrap_or(usize::MAX);
        for job in left.iter().filter(|_| !before.aging) {
            if got.is_beside(job) && place[&job.id] < at {
                return Err(format!("{got:?} has overtaken {job:?}, which has the same limits and stands before it"));
            }
            let is_lower = got.priority.number() > job.priority.number();
            let are_examined = job.limits.is_empty() || chains.len() <= LIMIT_STEP;
            if got.group == job.group && !got.suspect && !job.suspect && is_lower && job.limits == got.limits && are_examined {
                return Err(format!("{got:?} has overtaken {job:?}, which has a higher priority"));
            }
        }
    }
    Ok(())
}

/// How far each line was overtaken while it had a job that may start, in services of weight 1.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    lags: BTreeMap<Line, BTreeMap<Line, f64>>,
    /// What a line has paid for its suspects, which are no turns.
    paid: BTreeMap<Line, f64>,
    /// The most that a line was overtaken, of what it may be.
    pub(crate) most: f64,
}

/// A group, or the jobs without one.
type Line = Option<GroupName>;

/// So many services of its own and of the other a line may be overtaken by another one: one in
/// turn, and the one with which a turn begins or ends.
const APART: f64 = 2.0;

impl Shares {
    /// A claim has served lines.
    pub(crate) fn served(&mut self, before: &Snapshot, claim: &Claim, after: &Snapshot) -> Result<(), String> {
        // A line whose jobs have limits comes back when its first chain is looked at again.
        let lines = |snapshot: &Snapshot| -> BTreeSet<Line> {
            snapshot.may_start(false).into_iter().filter(|job| job.limits.is_empty()).map(|job| job.group.clone()).collect()
        };
        let (had, has) = (lines(before), lines(after));
        let waits: BTreeSet<&Line> = had.intersection(&has).collect();
        self.lags.retain(|line, _| waits.contains(line));
        let weights = |line: &Line| (before.weight(line.as_ref()), after.weight(line.as_ref()));
        let (least, most) =
            (|line: &Line| f64::min(weights(line).0, weights(line).1), |line: &Line| f64::max(weights(line).0, weights(line).1));
        for job in &claim.got {
            let paid = 1.0 / least(&job.group);
            if job.suspect {
                *self.paid.entry(job.group.clone()).or_default() += paid;
                continue;
            }
            self.lags.get_mut(&job.group).into_iter().flat_map(BTreeMap::values_mut).for_each(|lag| *lag = (*lag - paid).max(0.0));
            let cost = 1.0 / most(&job.group);
            for line in waits.iter().filter(|line| ***line != job.group) {
                let lag = self.lags.entry((*line).clone()).or_default().entry(job.group.clone()).or_default();
                *lag += cost;
                let bound = APART / least(line) + APART / least(&job.group) + self.paid.get(*line).copied().unwrap_or_default();
                self.most = self.most.max(*lag / bound);
                if *lag > bound + 0.001 {
                    let waiting = before.may_start(false).into_iter().find(|job| job.group == **line);
                    return Err(format!("{waiting:?} may start, and {job:?} is {lag:.2} turns ahead of it; {bound:.2} is the bound"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn job(group: &str, priority: Priority) -> Job {
        let group = (!group.is_empty()).then(|| GroupName::new(group).expect("it is a name"));
        Job { id: JobId::make(), group, limits: Vec::new(), priority, suspect: false, task: "suite.task".to_owned() }
    }

    fn claim(asked: usize, got: &[&Job], promises: bool) -> Claim {
        Claim { asked, suspect: true, got: got.iter().map(|job| (*job).clone()).collect(), has_parked: false, promises }
    }

    fn without(snapshot: &Snapshot, gone: &[&Job]) -> Snapshot {
        let mut snapshot = snapshot.clone();
        snapshot.ready.retain(|job| !gone.contains(&job));
        gone.iter().for_each(|job| snapshot.runs(job.group.as_ref(), &job.limits));
        snapshot
    }

    /// The functions above find what they are for, and nothing else.
    pub(crate) fn each_breach_is_found() {
        let [one, two, low] = [job("", Priority::Normal), job("", Priority::Normal), job("", Priority::Low)];
        let queue = Snapshot { ready: vec![one.clone(), two.clone(), low.clone()], ..Snapshot::default() };
        let (nothing, all) = (claim(1, &[], false), claim(3, &[&one, &two, &low], false));
        assert!(starves(&queue, &nothing, &nothing).is_err() && starves(&queue, &nothing, &all).is_ok());
        assert!(spins(&nothing).is_ok() && spins(&claim(1, &[], true)).is_err() && spins(&claim(1, &[&one], true)).is_ok());
        assert!(starves(&Snapshot { paused: true, ..queue.clone() }, &nothing, &nothing).is_ok());
        assert!(overtakes(&queue, &all, &without(&queue, &[&one, &two, &low])).is_ok());
        for (got, promises, is_sound) in [
            (vec![&one], false, true),
            (vec![&two], false, false),
            (vec![&one, &low], false, false),
            (vec![], false, false),
            (vec![], true, true),
        ] {
            let claim = claim(got.len().max(1), &got, promises);
            assert_eq!(overtakes(&queue, &claim, &without(&queue, &got)).is_ok(), is_sound, "{claim:?}");
        }
        let (key, mut one_at_a_time) = (LimitKey::of("api", b""), LimitRule::new());
        one_at_a_time.concurrency = Some(1);
        let limited = Snapshot {
            ready: vec![Job { limits: vec![key], ..one.clone() }, two.clone()],
            limits: BTreeMap::from([("api".to_owned(), one_at_a_time)]),
            holding: BTreeMap::from([(key, 1)]),
            ..Snapshot::default()
        };
        assert_eq!(limited.may_start(true), [&two], "the limit of the other has no room");
        let [waits, later] = [&one, &low].map(|job| Job { limits: vec![key], ..job.clone() });
        let limited = Snapshot { ready: vec![waits, later.clone()], limits: BTreeMap::new(), ..limited };
        assert!(overtakes(&limited, &claim(1, &[&later], true), &without(&limited, &[&later])).is_err(), "it has a lower priority");
        let mut ordered = GroupRule::new();
        ordered.order = Some(GroupOrder::Ordered);
        let ordered = ordered.over(GroupRule::new());
        let [first, second, suspect] = [job("a", Priority::Normal), job("a", Priority::Normal), job("b", Priority::Normal)];
        let suspect = Job { suspect: true, ..suspect };
        let mut groups = Snapshot { ready: vec![first.clone(), second.clone(), suspect.clone()], ..Snapshot::default() };
        groups.groups.insert(first.group.clone().expect("it has one"), (ordered, None));
        assert_eq!((groups.may_start(true), groups.may_start(false)), (vec![&first, &suspect], vec![&first]));
        assert!(overtakes(&groups, &claim(1, &[&first], true), &without(&groups, &[&first])).is_err(), "the suspect goes first");
        let many: Vec<Job> = (0..9).map(|n| job(if n < 6 { "a" } else { "b" }, Priority::Normal)).collect();
        let mut snapshot = Snapshot { ready: many.clone(), ..Snapshot::default() };
        let mut shares = Shares::default();
        let mut told = Vec::new();
        for job in &many {
            let after = without(&snapshot, &[job]);
            told.push(shares.served(&snapshot, &claim(1, &[job], true), &after).is_ok());
            snapshot = after;
        }
        assert_eq!(told, [true, true, true, true, false, false, true, true, true], "the fifth turn is one too many");
    }
}
