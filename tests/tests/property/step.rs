//! The steps of a story, and how they are chosen.

use std::{fmt, time::Duration};

use proptest::{collection::vec, option, prelude::*};
use queue_core::{
    broker::{BuryReason, Change, Ending, Hold, OnConflict, Priority, WorkerMode},
    inspect::{GroupOrder, GroupRule},
};

use crate::{
    edit::{self, Wanted},
    operate::{self, Operating},
};

/// The number of a lane, a job or a delivery, among those that are there when it is needed.
#[derive(Clone, Copy)]
pub(crate) struct Index(u8);

impl Index {
    /// Names this one.
    pub(crate) fn of(n: usize) -> Index {
        Index(u8::try_from(n).expect("there are few"))
    }

    pub(crate) fn index(self, len: usize) -> usize {
        usize::from(self.0) % len
    }

    pub(crate) fn get<T>(self, all: &[T]) -> &T {
        &all[self.index(all.len())]
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

pub(crate) fn index() -> impl Strategy<Value = Index> {
    (0..120u8).prop_map(Index)
}

/// One thing that somebody does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A lane registers, of one of three processes.
    Register { process: Index },
    /// One of two producers sends jobs.
    Enqueue { producer: Index, jobs: Vec<New> },
    /// A producer sends its last request again.
    EnqueueAgain { producer: Index },
    /// A producer's last request but one arrives late.
    EnqueueLate { producer: Index },
    /// A lane hands in and claims.
    Turn { lane: Index, finishes: Vec<End>, claim: usize, suspect: bool, resume: Option<&'static str> },
    /// A lane sends its last turn again.
    TurnAgain { lane: Index },
    /// A lane's number is not the next: so much less or more.
    TurnOff { lane: Index, by: i64 },
    /// A lane gives a sign of life.
    Heartbeat { lane: Index },
    /// Something is asked of the worker of a lane.
    Ask { lane: Index, number: u64, mode: WorkerMode },
    /// The handler of a delivery tells something; `stray`: of any lane's.
    Progress { lane: Index, delivery: Index, stray: bool, progress: Option<u8>, first: u64, lines: Vec<String> },
    /// A lane's lease runs out.
    Lapse { lane: Index },
    /// Somebody fences a lane that was seen to have lapsed, now or earlier.
    Fence { suspect: Index },
    /// Somebody takes the jobs of the fenced lanes back.
    Sweep,
    /// A person changes jobs.
    Change { change: Change, reason: Option<String>, jobs: Vec<Index> },
    /// A person edits a job.
    Edit { job: Index, wanted: Wanted },
    /// A person pauses the task of all jobs, or lets it go on.
    PauseTask { paused: bool },
    /// A person stops claims of the queue or a group, or lets them go on; `soon`: the pause ends at
    /// the next [`Wait`](Self::Wait), or not before the story is over.
    Pause { group: Option<u8>, paused: bool, soon: Option<bool> },
    /// A person takes a key from whoever holds it.
    ReleaseKey { key: u8 },
    /// A person sets how often jobs rise that wait: never, soon, or not before the story is over.
    SetAging { every: Option<Duration> },
    /// A person sets the rule of a group, or of all.
    SetGroup { group: Option<u8>, rule: GroupRule },
    /// A release declares what holds for all groups, or all that was declared is forgotten.
    DeclareGroups { rule: Option<GroupRule> },
    /// A person sets a limit, or removes it. With a burst it has a rate by which nothing more
    /// starts before the story is over.
    SetLimit { all: bool, concurrency: Option<u32>, burst: Option<u32> },
    /// A person or a runner does something with operations.
    Operate(Operating),
    /// A watcher follows the queue: not beyond some later steps, or for longer than the story
    /// lasts.
    Follow { is_brief: bool },
    /// Time passes, in milliseconds; where the clock is that of the machine, what was due soon is
    /// due.
    Wait { ms: u64 },
}

/// A job to be enqueued.
#[derive(Clone, Debug)]
pub(crate) struct New {
    /// One of a few given ids, or a made one.
    pub(crate) id: Option<u8>,
    pub(crate) payload: u8,
    /// When it says that it was enqueued: long ago, or long after the story. `None`: it does not
    /// say.
    pub(crate) enqueued_ms: Option<i64>,
    /// Its envelope is over 2 KiB.
    pub(crate) large: bool,
    pub(crate) priority: Priority,
    pub(crate) delay: Duration,
    pub(crate) key: Option<Key>,
    /// One of a few.
    pub(crate) group: Option<u8>,
    /// Keys of limits, of a few.
    pub(crate) limits: Vec<u8>,
    /// How many starts it counts for.
    pub(crate) cost: u32,
    /// The value of its tag, one of a few.
    pub(crate) tag: Option<u8>,
}

/// Of a worker.
fn release() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("v1"), Just("v2"), Just("v3")]
}

fn mode() -> impl Strategy<Value = WorkerMode> {
    prop_oneof![Just(WorkerMode::Works), Just(WorkerMode::Quiet), Just(WorkerMode::Stopping)]
}

/// The key of a job, one of a few, and how it is held.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) key: u8,
    pub(crate) hold: Hold,
    pub(crate) on_conflict: OnConflict,
    pub(crate) keep_payload: bool,
    /// Later jobs cannot put it off.
    pub(crate) at_once: bool,
}

/// How many groups there are.
pub(crate) const GROUPS: u8 = 4;

/// How many keys there are.
pub(crate) const KEYS: u8 = 3;

/// The ending of one of a lane's deliveries; `stray`: of any delivery that ever was, of any lane.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) delivery: Index,
    pub(crate) stray: bool,
    pub(crate) ending: Ending,
    /// What the run says that it has used of rates.
    pub(crate) used: Option<u32>,
}

/// Over before the next `Wait` is.
pub(crate) const SOON: Duration = Duration::from_millis(2);

const HOUR: u64 = 3_600_000;

/// Not over before the story is, unless it waits for so long.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

/// The task of all jobs, and the name under which they are parked.
pub(crate) const TASK: &str = "model.task";

/// The steps of a story: anything in half of them, and mostly ordinary jobs in the others.
pub(crate) fn story(most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![
        2 => vec(step(), 1..=most),
        2 => vec(ordinary_step(), 1..=most),
        1 => vec(prop_oneof![step(), ordinary_step()], 1..=most).prop_map(|steps| steps.into_iter().enumerate().map(tagged).collect()),
        1 => vec(prop_oneof![6 => step(), 1 => rule()], 1..=most).prop_map(|steps| steps.into_iter().enumerate().map(grouped).collect()),
        3 => with_limits(most),
        2 => blocked(most),
        1 => aging(with_limits(most)),
        1 => aging(vec(step(), 1..=most)),
        1 => aging(vec(prop_oneof![6 => step(), 1 => rule()], 1..=most).prop_map(|steps| steps.into_iter().enumerate().map(grouped).collect())),
        2 => vec(prop_oneof![3 => step(), 1 => operating()], 1..=most),
        1 => vec(prop_oneof![2 => ordinary_step(), 1 => operating()], 1..=most),
        1 => aging(vec(prop_oneof![4 => step(), 1 => rule(), 2 => operating()], 1..=most)
            .prop_map(|steps| steps.into_iter().enumerate().map(grouped).collect())),
        2 => followed(vec(step(), 1..=most)),
        1 => followed(vec(ordinary_step(), 1..=most)),
        1 => followed(vec(prop_oneof![3 => step(), 1 => operating()], 1..=most)),
        1 => followed(with_limits(most)),
        2 => followed(aging(vec(prop_oneof![6 => step(), 1 => rule()], 1..=most).prop_map(|steps| steps.into_iter().enumerate().map(grouped).collect()))),
    ]
}

/// Stories that begin with steps which plain scripts serve, and of which some come to others; and
/// all others.
pub(crate) fn story_for_scripts(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let begun = (vec(plain_step(), 1..=most), vec(prop_oneof![3 => plain_step(), 1 => step()], 0..=most / 2));
    prop_oneof![
        3 => vec(plain_step(), 1..=most),
        3 => begun.prop_map(|(plain, rest)| plain.into_iter().chain(rest).collect()),
        1 => vec(ordinary_step(), 1..=most),
        1 => story(most),
    ]
}

/// An ordinary step whose jobs are due at once, and succeed in the end.
fn plain_step() -> impl Strategy<Value = Step> {
    ordinary_step().prop_map(|mut step| {
        match &mut step {
            Step::Enqueue { jobs, .. } => jobs.iter_mut().for_each(|job| job.delay = Duration::ZERO),
            Step::Turn { finishes, .. } => {
                for end in finishes.iter_mut().filter(|end| matches!(end.ending, Ending::Bury { .. })) {
                    end.ending = Ending::Ack { result: None, keep: None };
                }
            }
            _ => {}
        }
        step
    })
}

/// The same story while watchers follow its queue: from the start or from a later step, now and
/// then or to its end.
fn followed(story: impl Strategy<Value = Vec<Step>>) -> impl Strategy<Value = Vec<Step>> {
    let mark = (any::<prop::sample::Index>(), prop::bool::weighted(0.7));
    (story, vec(mark, 0..4), any::<bool>()).prop_map(|(mut steps, marks, is_brief)| {
        for (at, is_brief) in marks {
            steps.insert(at.index(steps.len() + 1), Step::Follow { is_brief });
        }
        steps.insert(0, Step::Follow { is_brief });
        steps
    })
}

fn operating() -> impl Strategy<Value = Step> {
    operate::operating().prop_map(Step::Operate)
}

/// Jobs with limits, with groups or without. The story begins with their rules, so that some soon
/// wait for a slot or for a rate.
fn with_limits(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let steps = vec(prop_oneof![8 => step(), 1 => rule(), 1 => limit()], 1..=most);
    (steps, any::<bool>(), 0..3u8).prop_map(|(steps, with_groups, kind)| {
        let steps = steps.into_iter().enumerate().map(|(n, step)| limited(n, if with_groups { grouped((n, step)) } else { step }));
        let first = [true, false].map(|all| match kind {
            0 => Step::SetLimit { all, concurrency: Some(1 + u32::from(all)), burst: None },
            _ => Step::SetLimit { all, concurrency: None, burst: Some(if kind == 1 { 3 } else { 1 }) },
        });
        // Predicates are checked where all jobs cost the same.
        let steps = steps.enumerate().map(|(n, step)| if kind == 0 { step } else { rated(n, step, kind == 1) });
        first.into_iter().chain(steps).collect()
    })
}

/// Ordinary jobs, most of which wait: one of each group runs at a time, or their limits have rates
/// that let few start before the story is over.
fn blocked(most: usize) -> impl Strategy<Value = Vec<Step>> {
    (vec(ordinary_step(), 1..=most), any::<bool>(), 1..3u32).prop_map(|(steps, by_rate, number)| {
        let mut rule = GroupRule::new();
        rule.cap = Some(number);
        let first = match by_rate {
            true => [true, false].map(|all| Step::SetLimit { all, concurrency: None, burst: Some(number) }).to_vec(),
            false => vec![Step::SetGroup { group: None, rule }],
        };
        let steps = steps.into_iter().enumerate().map(|(n, step)| if by_rate { limited(n, step) } else { grouped((n, step)) });
        first.into_iter().chain(steps).collect()
    })
}

/// The same step where both limits have a rate, jobs differ in what they cost, and runs in what
/// they use. None costs more than a burst, and no debt is so large that it is cut: of several
/// endings the broker chooses the order.
fn rated(n: usize, mut step: Step, with_costs: bool) -> Step {
    let n = u32::try_from(n).unwrap_or_default();
    match &mut step {
        Step::SetLimit { burst, .. } => *burst = Some(if with_costs { 3 + n % 3 } else { 1 + n % 2 }),
        Step::Enqueue { jobs, .. } if with_costs => jobs.iter_mut().zip(n..).for_each(|(job, n)| job.cost = 1 + n % 3),
        Step::Turn { finishes, .. } => {
            for (end, n) in finishes.iter_mut().zip(n..) {
                end.used = [None, Some(0), Some(1), Some(2), Some(4)][n as usize % 5];
            }
        }
        _ => {}
    }
    step
}

/// The same story in which jobs rise that wait, from the start.
fn aging(story: impl Strategy<Value = Vec<Step>>) -> impl Strategy<Value = Vec<Step>> {
    let every = prop_oneof![4 => Just(Some(SOON)), 1 => Just(Some(LONG)), 1 => Just(None)];
    (story, vec((any::<prop::sample::Index>(), every), 0..3)).prop_map(|(mut steps, changes)| {
        for (at, every) in changes {
            steps.insert(at.index(steps.len() + 1), Step::SetAging { every });
        }
        steps.insert(0, Step::SetAging { every: Some(SOON) });
        steps
    })
}

/// The same step where all jobs have groups: how many plain jobs there are is known to a broker
/// only nearly, while tombstones are among them.
fn grouped((n, mut step): (usize, Step)) -> Step {
    if let Step::Edit { wanted, .. } = &mut step {
        edit::grouped(n, wanted);
    }
    if let Step::Enqueue { jobs, .. } = &mut step {
        for (at, job) in jobs.iter_mut().enumerate() {
            job.group = Some(u8::try_from((n + at) % usize::from(GROUPS)).unwrap_or_default());
        }
    }
    step
}

/// The same step where most jobs have tags.
fn tagged((n, mut step): (usize, Step)) -> Step {
    if let Step::Enqueue { jobs, .. } = &mut step {
        for (at, job) in jobs.iter_mut().enumerate() {
            job.tag = [None, Some(0), Some(1), Some(2)][(n + at) % 4];
        }
    }
    step
}

/// The same step where most jobs have limits: of two limits, one for all and one by one of three
/// keys.
fn limited(n: usize, mut step: Step) -> Step {
    if let Step::Edit { wanted, .. } = &mut step {
        edit::limited(n, wanted);
    }
    if let Step::Enqueue { jobs, .. } = &mut step {
        for (at, job) in jobs.iter_mut().enumerate() {
            let key = u8::try_from((n + at) % 3).unwrap_or_default();
            job.limits = vec![vec![], vec![key], vec![key, 3], vec![3]].swap_remove((n + 2 * at) % 4);
        }
    }
    step
}

/// The concurrency of one of two limits.
fn limit() -> impl Strategy<Value = Step> {
    (any::<bool>(), option::of(0..3u32)).prop_map(|(all, concurrency)| Step::SetLimit { all, concurrency, burst: None })
}

fn rule() -> impl Strategy<Value = Step> {
    prop_oneof![4 => set_rule(), 1 => option::weighted(0.8, set_rule()).prop_map(declares)]
}

/// Code declares of all groups what a person could set of them.
fn declares(step: Option<Step>) -> Step {
    let rule = step.and_then(|step| match step {
        Step::SetGroup { mut rule, .. } => {
            (rule.weight, rule.paused) = (None, false);
            rule.cap = rule.cap.filter(|cap| *cap > 0);
            Some(rule)
        }
        _ => None,
    });
    Step::DeclareGroups { rule }
}

fn set_rule() -> impl Strategy<Value = Step> {
    let order = prop_oneof![Just(None), Just(Some(GroupOrder::Ordered)), Just(Some(GroupOrder::SkipFailed))];
    let numbers = (option::of(1..4u32), option::of(0..2u32), option::weighted(0.2, 1..4u64));
    (option::of(0..GROUPS), numbers, order, prop::bool::weighted(0.2)).prop_map(|(group, (weight, cap, max_size), order, paused)| {
        let mut rule = GroupRule::new();
        (rule.weight, rule.cap, rule.max_size, rule.order, rule.paused) = (weight, cap, max_size, order, paused && group.is_some());
        if group.is_none() && rule.cap == Some(0) {
            rule.cap = None;
        }
        Step::SetGroup { group, rule }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => index().prop_map(|process| Step::Register { process }),
        8 => (index(), vec(new(), 1..5)).prop_map(|(producer, jobs)| Step::Enqueue { producer, jobs }),
        2 => index().prop_map(|producer| Step::EnqueueAgain { producer }),
        1 => index().prop_map(|producer| Step::EnqueueLate { producer }),
        16 => (index(), vec(end(), 0..4), 0..5usize, any::<bool>(), option::of(release()))
            .prop_map(|(lane, finishes, claim, suspect, resume)| Step::Turn { lane, finishes, claim, suspect, resume }),
        3 => index().prop_map(|lane| Step::TurnAgain { lane }),
        1 => (index(), prop_oneof![Just(-1), Just(1)]).prop_map(|(lane, by)| Step::TurnOff { lane, by }),
        2 => index().prop_map(|lane| Step::Heartbeat { lane }),
        1 => (index(), 1..4u64, mode()).prop_map(|(lane, number, mode)| Step::Ask { lane, number, mode }),
        4 => report_progress(),
        3 => index().prop_map(|lane| Step::Lapse { lane }),
        3 => index().prop_map(|suspect| Step::Fence { suspect }),
        3 => Just(Step::Sweep),
        3 => changes(Change::Cancel),
        2 => changes(Change::Requeue),
        2 => changes(Change::Promote),
        1 => changes(Change::Delete),
        4 => (index(), edit::wanted()).prop_map(|(job, wanted)| Step::Edit { job, wanted }),
        2 => pause(),
        1 => prop::bool::weighted(0.3).prop_map(|paused| Step::PauseTask { paused }),
        1 => (0..KEYS).prop_map(|key| Step::ReleaseKey { key }),
        2 => wait(),
    ]
}

/// What was due soon is due; leases end; what was kept is kept no longer.
fn wait() -> impl Strategy<Value = Step> {
    prop_oneof![8 => Just(3), 2 => Just(20), 1 => Just(2 * HOUR + 100_000), 1 => Just(50 * HOUR)].prop_map(|ms| Step::Wait { ms })
}

fn pause() -> impl Strategy<Value = Step> {
    (option::weighted(0.6, 0..GROUPS), any::<bool>(), option::of(any::<bool>())).prop_map(|(group, paused, soon)| Step::Pause {
        group,
        paused,
        soon,
    })
}

fn report_progress() -> impl Strategy<Value = Step> {
    let lines = vec("[a-z ü:\\PC]{0,12}", 0..4);
    (index(), index(), prop::bool::weighted(0.3), option::of(0..4u8), 0..6u64, lines)
        .prop_map(|(lane, delivery, stray, progress, first, lines)| Step::Progress { lane, delivery, stray, progress, first, lines })
}

fn changes(change: Change) -> impl Strategy<Value = Step> {
    let reason = option::of("[a-z ü\\PC]{1,12}");
    (vec(index(), 1..3), reason).prop_map(move |(jobs, reason)| Step::Change { change, reason, jobs })
}

fn new() -> impl Strategy<Value = New> {
    let priority = prop_oneof![
        3 => Just(Priority::Normal),
        1 => Just(Priority::Critical),
        1 => Just(Priority::High),
        1 => Just(Priority::Low),
    ];
    let key = prop_oneof![3 => Just(None), 2 => key().prop_map(Some)];
    (option::of(0..4u8), 0..2u8, enqueued(), large(), priority, delay(), key).prop_map(
        |(id, payload, enqueued_ms, large, priority, delay, key)| New {
            id,
            payload,
            enqueued_ms,
            large,
            priority,
            delay,
            key,
            group: None,
            limits: Vec::new(),
            cost: 1,
            tag: None,
        },
    )
}

fn key() -> impl Strategy<Value = Key> {
    let hold = prop_oneof![4 => Just(Hold::UntilEnded), 2 => Just(Hold::UntilStarted), 1 => Just(Hold::Within(LONG))];
    let on_conflict = prop_oneof![Just(OnConflict::Skip), Just(OnConflict::Replace), Just(OnConflict::BufferOne)];
    (0..KEYS, hold, on_conflict, prop::bool::weighted(0.2), prop::bool::weighted(0.2))
        .prop_map(|(key, hold, on_conflict, keep_payload, at_once)| Key { key, hold, on_conflict, keep_payload, at_once })
}

/// What most queues see: jobs of normal priority that succeed, fail or die.
fn ordinary_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => index().prop_map(|process| Step::Register { process }),
        8 => (index(), vec(ordinary(), 1..5)).prop_map(|(producer, jobs)| Step::Enqueue { producer, jobs }),
        24 => (index(), vec(ordinary_end(), 0..3), 0..3usize, any::<bool>())
            .prop_map(|(lane, finishes, claim, suspect)| Step::Turn { lane, finishes, claim, suspect, resume: None }),
        4 => index().prop_map(|lane| Step::TurnAgain { lane }),
        2 => changes(Change::Requeue),
        2 => wait(),
    ]
}

fn ordinary() -> impl Strategy<Value = New> {
    // One that is due before all others is rare, if they are all due in an hour.
    let delay = prop_oneof![4 => Just(Duration::ZERO), 1 => Just(SOON), 2 => (1..50u32).prop_map(|hours| hours * LONG)];
    (option::of(0..4u8), 0..2u8, enqueued(), large(), delay).prop_map(|(id, payload, enqueued_ms, large, delay)| New {
        id,
        payload,
        enqueued_ms,
        large,
        priority: Priority::Normal,
        delay,
        key: None,
        group: None,
        limits: Vec::new(),
        cost: 1,
        tag: None,
    })
}

fn enqueued() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![8 => Just(None), 2 => Just(Some(1)), 1 => Just(Some(4_102_444_800_000))]
}

/// So few that half of the stories have none.
fn large() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.03)
}

fn ordinary_end() -> impl Strategy<Value = End> {
    let ending = prop_oneof![
        6 => Just(Ending::Ack { result: None, keep: None }),
        3 => Just(Ending::Nack { delay: Duration::ZERO, error: "x".to_owned() }),
        1 => delay().prop_map(|delay| Ending::Nack { delay, error: "x".to_owned() }),
        1 => Just(Ending::Bury { reason: BuryReason::Failed, error: Some("x".to_owned()) }),
    ];
    (index(), prop::bool::weighted(0.05), ending).prop_map(|(delivery, stray, ending)| End { delivery, stray, ending, used: None })
}

fn delay() -> impl Strategy<Value = Duration> {
    prop_oneof![3 => Just(Duration::ZERO), 2 => Just(SOON), 1 => Just(LONG)]
}

fn end() -> impl Strategy<Value = End> {
    (index(), prop::bool::weighted(0.2), ending()).prop_map(|(delivery, stray, ending)| End { delivery, stray, ending, used: None })
}

fn ending() -> impl Strategy<Value = Ending> {
    let keep = option::of(prop_oneof![Just(Duration::ZERO), Just(LONG)]);
    let result = option::of(vec(any::<u8>(), 1..4));
    let reason = prop_oneof![Just(BuryReason::Failed), Just(BuryReason::Buried), Just(BuryReason::Undecodable)];
    let text = || "[a-z ü\\PC]{0,12}";
    prop_oneof![
        3 => (result, keep).prop_map(|(result, keep)| Ending::Ack { result, keep }),
        2 => (delay(), text()).prop_map(|(delay, error)| Ending::Nack { delay, error }),
        1 => delay().prop_map(|delay| Ending::Snooze { delay }),
        1 => delay().prop_map(|delay| Ending::Repeat { delay }),
        1 => (reason, option::of(text())).prop_map(|(reason, error)| Ending::Bury { reason, error }),
        1 => text().prop_map(|reason| Ending::Cancel { reason }),
        1 => Just(Ending::Expire),
        2 => Just(Ending::Return),
        1 => any::<bool>().prop_map(|by_shutdown| Ending::Stopped { by_shutdown }),
        1 => Just(Ending::Void),
        2 => Just(Ending::Park { task: TASK.to_owned() }),
        2 => (release(), text()).prop_map(|(release, error)| Ending::Unreadable {
            task: TASK.to_owned(),
            release: release.to_owned(),
            error,
            within: LONG,
        }),
    ]
}
