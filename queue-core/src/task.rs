//! The definition of a task, which the macros write. `handler.rs` runs it.

use std::{fmt, time::Duration};

pub use crate::codec::ParamDef;
use crate::{
    begin::{Begin, Unknown},
    error::Result,
    group::GroupRule,
    key::UniqueDef,
    limit::LimitDef,
    outcome::{ReadBack, TaskReturn},
    priority::Priority,
};

/// The queue of a task that names none.
pub(crate) const DEFAULT_QUEUE: &str = "default";

/// The default of `max_attempts`: after the 25th failure the job is a dead letter.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 25;

/// A type that represents a task: the type that `#[task]` adds to the function, or a payload struct
/// with `#[derive(Task)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a task",
    note = "put `#[task]` on an async function, or `#[derive(Task)]` on a payload struct that implements `Handler`"
)]
pub trait Task: Send + 'static {
    /// The return type of the handler. The result of a completed job is its `Output`, see
    /// [`TaskOutput`].
    type Return: TaskReturn;

    /// The check that a result can be read back, if its type can be.
    #[doc(hidden)]
    const READ_BACK: Option<ReadBack> = None;

    /// Its definition.
    fn definition() -> &'static TaskDef;
}

/// In scope with the prelude. If a value that is not a job is enqueued (a task itself, or the
/// return value of its function), the compiler suggests the correct code. No type implements this
/// trait.
#[doc(hidden)]
pub trait EnqueueOfJob {
    /// Never called.
    fn enqueue(&self) {}
}

impl<T: ?Sized + IsJob> EnqueueOfJob for T {}

/// Reported for a value that is enqueued without being a job.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be enqueued: make a job of the task with `task::job(..)`",
    label = "write `task::job(..).enqueue(&client)`",
    note = "`task(..)` calls the function here and now; `task::job(..)` makes a job with these parameters"
)]
pub trait IsJob {}

/// The result of a completed job of a task: the `T` of a handler that returns `Result<T, E>`.
pub type TaskOutput<T> = <<T as Task>::Return as TaskReturn>::Output;

/// How the delay before a retry grows: `base · 2^(attempt − 1)` up to `max`, of which the upper
/// half is random ("equal jitter": AWS Architecture Blog, *Exponential Backoff And Jitter*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure, before jitter. Default: 2 s.
    pub base: Duration,
    /// The longest delay. Default: 24 h.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Backoff {
    /// The default.
    pub const DEFAULT: Backoff = Backoff { base: Duration::from_secs(2), max: Duration::from_secs(24 * 3600) };

    /// The delay after the `attempt`-th failure (from 1), without jitter.
    pub fn nominal(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1).min(40);
        self.base.checked_mul(1u32.checked_shl(doublings).unwrap_or(u32::MAX)).unwrap_or(self.max).min(self.max)
    }

    /// The delay with jitter: between half of [`nominal`](Self::nominal) and all of it.
    pub fn delay(&self, attempt: u32) -> Duration {
        let nominal = self.nominal(attempt);
        nominal.mul_f64(0.5 + fastrand::f64() / 2.0).min(nominal)
    }
}

/// What a worker does with a running handler if it has not reached the broker for a whole lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnIsolation {
    /// It continues; if the lease was lost, its result is discarded.
    #[default]
    Continue,
    /// It is cancelled at the end of the lease, so it overlaps its successor only briefly.
    Cancel,
}

/// A task that declares limits, so that a job of another task may name them. Submitted by the
/// macros.
#[doc(hidden)]
#[derive(Debug)]
pub struct WithLimits(pub &'static TaskDef);

inventory::collect!(WithLimits);

/// The limits that tasks of this program declare for a queue.
pub(crate) fn limits_of(queue: &str) -> impl Iterator<Item = &'static str> {
    let tasks = inventory::iter::<WithLimits>.into_iter().map(|WithLimits(task)| *task).filter(move |task| task.queue == queue);
    tasks.flat_map(|task| task.limits).map(|limit| limit.name)
}

/// The definition of a task. Written by the macros; found through `inventory` or `.register(..)`.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct TaskDef {
    /// Its name, which its jobs carry. Default: the function's or struct's name.
    pub name: &'static str,
    /// Earlier names whose jobs it runs too.
    pub aliases: &'static [&'static str],
    /// The queue of its jobs.
    pub queue: &'static str,
    /// Most attempts; `None`: the worker's setting.
    pub max_attempts: Option<u32>,
    /// The number of crashes after which a job becomes a dead letter; `None`: the worker's setting.
    pub max_crashes: Option<u32>,
    /// Longest run; `None`: the worker's setting.
    pub timeout: Option<Duration>,
    /// Backoff; `None`: the worker's setting.
    pub backoff: Option<Backoff>,
    /// Priority of its jobs.
    pub priority: Priority,
    /// The retention of a done job and its result; `None`: they are not kept.
    pub retention: Option<Duration>,
    /// Whether it returns [`Done`](crate::Done): its effects commit together with the ending of its
    /// job.
    pub commits: bool,
    /// The handling of its running jobs in isolation.
    pub on_isolation: OnIsolation,
    /// The unique keys of its jobs, if they have any.
    pub unique: Option<UniqueDef>,
    /// The interval after which waiting jobs of its queue gain one priority; `None` if it declares
    /// none.
    pub aging: Option<Duration>,
    /// The parameter with the group of its jobs, if there is one.
    pub group: Option<&'static str>,
    /// Its declared rule for all groups of its queue. An empty rule leaves the declaration to other
    /// tasks.
    pub group_rule: GroupRule,
    /// The limits that its jobs are subject to.
    pub limits: &'static [LimitDef],
    /// The tags of its jobs: the name of each, and the parameter whose value it has.
    pub tags: &'static [(&'static str, &'static str)],
    /// The subscription whose events it handles, if it is a function of one.
    pub subscription: Option<SubscriptionDef>,
    /// The schedules that it declares.
    pub schedules: &'static [ScheduleDef],
    /// The payload's parameters, in the order of the function.
    pub params: &'static [ParamDef],
    /// Turns a JSON object with its parameters into a payload.
    pub payload_from_json: fn(&str) -> Result<Vec<u8>>,
    /// Checks that an encoded payload has its parameters, and no others.
    pub check_payload: fn(&[u8]) -> Result<()>,
    /// Where it is defined.
    pub file: &'static str,
    /// And in which line.
    pub line: u32,
}

impl TaskDef {
    /// A definition with defaults; the macros fill in the rest.
    pub const fn new(name: &'static str, payload_from_json: fn(&str) -> Result<Vec<u8>>) -> Self {
        TaskDef {
            name,
            aliases: &[],
            queue: DEFAULT_QUEUE,
            max_attempts: None,
            max_crashes: None,
            timeout: None,
            backoff: None,
            priority: Priority::Normal,
            retention: None,
            commits: false,
            on_isolation: OnIsolation::Continue,
            unique: None,
            aging: None,
            group: None,
            group_rule: GroupRule::made(None, None, None),
            limits: &[],
            tags: &[],
            subscription: None,
            schedules: &[],
            params: &[],
            payload_from_json,
            check_payload: |_| Ok(()),
            file: "",
            line: 0,
        }
    }
}

impl fmt::Debug for TaskDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task `{}` ({}:{})", self.name, self.file, self.line)
    }
}

/// A schedule that a task declares with `#[task(schedule(..))]`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields are the methods of `Schedule`")]
pub struct ScheduleDef {
    pub name: &'static str,
    pub expression: &'static str,
    pub tz: &'static str,
    pub overlap: &'static str,
    pub catch_up: &'static str,
    pub window: Option<Duration>,
    pub jitter: Duration,
    pub pause_after_dead: u32,
    /// The encoded parameters of its jobs.
    pub payload: fn() -> Result<Vec<u8>>,
}

/// The subscription of a function with `#[subscribe]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionDef {
    /// Its name.
    pub name: &'static str,
    /// The topic.
    pub topic: &'static str,
    /// Where it begins if it does not exist yet.
    pub begin: Begin,
    /// The handling of events of types that none of its functions handles.
    pub unknown: Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_maximum_and_jitters_in_the_upper_half() {
        let backoff = Backoff::default();
        assert_eq!(backoff.nominal(1), Duration::from_secs(2));
        assert_eq!(backoff.nominal(5), Duration::from_secs(32));
        assert_eq!(backoff.nominal(25), Duration::from_secs(24 * 3600));
        assert_eq!(backoff.nominal(u32::MAX), Duration::from_secs(24 * 3600));
        for attempt in 1..30 {
            let (nominal, delay) = (backoff.nominal(attempt), backoff.delay(attempt));
            assert!(delay <= nominal && delay >= nominal / 2, "{attempt}: {delay:?}");
        }
    }
}
