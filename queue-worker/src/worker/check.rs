//! Validation of the settings of a worker, which reports all problems at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use queue_core::{
    __private::{SubscriptionDef, check_queue, error_text},
    Backoff,
    broker::Subscribe,
    inspect::{GroupRule, LimitRule},
    schedule::{Prepared, Schedule},
};

use super::Worker;
use crate::{
    declarations::{GroupRules, Limits},
    error::WorkerError,
    identity,
};

/// Most jobs at once in one process.
const MAX_CONCURRENCY: usize = 100_000;

/// The maximum lease, the maximum grace time, and the maximum of all other times.
const MAX_LEASE: Duration = Duration::from_secs(24 * 3600);
const MAX_GRACE: Duration = Duration::from_secs(7 * 24 * 3600);
const LONGEST: Duration = queue_core::__private::LONGEST;

/// A client retries an enqueue for a few seconds. Its producer has to be known for longer.
const MIN_PRODUCER_RETENTION: Duration = Duration::from_secs(60);

/// Shortest lease: six heartbeats of 50 ms.
const MIN_LEASE: Duration = Duration::from_millis(300);

impl Worker {
    /// Checks settings, tasks and values, as [`run`](Self::run) does first.
    ///
    /// # Errors
    /// [`WorkerError::Setup`] with all problems.
    pub fn check(&self) -> Result<(), WorkerError> {
        let mut problems = self.registry.duplicates();
        let settings = &self.settings;
        if settings.concurrency == 0 {
            problems.push("concurrency `0` is not valid; use 1 or more".to_owned());
        }
        if settings.concurrency > MAX_CONCURRENCY {
            problems.push(format!("concurrency `{}` is more than {MAX_CONCURRENCY}; start several workers", settings.concurrency));
        }
        if settings.lease < MIN_LEASE {
            problems.push(format!("lease `{:?}` is too short to be renewed in time; use {MIN_LEASE:?} or more", settings.lease));
        }
        let longest = [
            ("lease", settings.lease, MAX_LEASE, "the jobs of a crashed worker would wait that long; long jobs do not need a long lease"),
            ("grace", settings.grace, MAX_GRACE, "a stop would take that long"),
            ("timeout", settings.timeout.unwrap_or_default(), LONGEST, "leave it out for no timeout"),
            ("retention", settings.retention.unwrap_or_default(), LONGEST, "use less"),
            ("dead_retention", settings.sweep.dead, LONGEST, "use less"),
            ("id_retention", settings.sweep.remembered, LONGEST, "use less"),
            ("producer_retention", settings.sweep.producers, LONGEST, "use less"),
            ("crash_window", settings.crashes.window, LONGEST, "use less"),
        ];
        for (field, value, most, advice) in longest.into_iter().filter(|(_, value, most, _)| value > most) {
            problems.push(format!("{field} `{value:?}` is more than {most:?}; {advice}"));
        }
        if settings.backoff.base > settings.backoff.max {
            let Backoff { base, max } = settings.backoff;
            problems.push(format!("backoff base `{base:?}` is more than its max `{max:?}`; the delay grows from base to max"));
        }
        if settings.sweep.producers < MIN_PRODUCER_RETENTION {
            let (value, least) = (settings.sweep.producers, MIN_PRODUCER_RETENTION);
            problems.push(format!("producer_retention `{value:?}` would forget clients between two enqueues; use {least:?} or more"));
        }
        if settings.max_attempts == 0 {
            problems.push("max_attempts `0` must be at least 1; 1 means no retry".to_owned());
        }
        if settings.crashes.max_crashes == 0 {
            problems
                .push("max_crashes `0` must be at least 1; 1 means that the job becomes a dead letter after its first crash".to_owned());
        }
        if settings.timeout == Some(Duration::ZERO) {
            problems.push("timeout `0s` must be greater than zero; leave it out for no timeout".to_owned());
        }
        problems.extend(identity::release(self.release.as_deref()).as_deref().and_then(identity::problem));
        for queue in &self.queues {
            if let Err(error) = check_queue(&queue.name) {
                problems.push(error.to_string());
            }
            if queue.weight == 0 {
                problems.push(format!("weight `0` of queue `{}` is not valid; use 1 or more, or leave the queue out", queue.name));
            }
            if queue.limit == Some(0) {
                problems.push(format!("limit `0` of queue `{}` is not valid; use 1 or more, or leave the queue out", queue.name));
            }
        }
        let mut seen = BTreeSet::new();
        problems.extend(
            self.queues.iter().filter(|queue| !seen.insert(&queue.name)).map(|queue| format!("queue `{}` is named twice", queue.name)),
        );
        if self.registry.tasks().next().is_none() {
            problems.push(
                "the worker has no task: put `#[task]` on a function, name the crate that has it (`use shop_tasks as _;`), or call `.register::<T>()`"
                    .to_owned(),
            );
        }
        problems.extend(self.missing_data());
        problems.extend(self.missing_outbox());
        problems.extend(self.declared().err().into_iter().flatten());
        problems.extend(self.limits().err().into_iter().flatten());
        problems.extend(self.group_rules().err().into_iter().flatten());
        problems.extend(self.aging().err().into_iter().flatten());
        problems.extend(self.subscriptions().err().into_iter().flatten());
        if problems.is_empty() { Ok(()) } else { Err(WorkerError::Setup(problems)) }
    }

    /// The group rules that its tasks declare, by queue, or the conflicting declarations of tasks
    /// of one queue.
    pub(super) fn group_rules(&self) -> Result<GroupRules, Vec<String>> {
        let served: BTreeSet<String> = self.served().into_iter().map(|queue| queue.name).collect();
        let (mut declared, mut problems) = (BTreeMap::<&str, (&str, GroupRule)>::new(), Vec::new());
        // A task that only marks the parameter declares no rule.
        for task in self.registry.tasks().filter(|task| served.contains(task.queue) && !task.group_rule.is_empty()) {
            let (other, rule) = *declared.entry(task.queue).or_insert((task.name, task.group_rule));
            if rule != task.group_rule {
                problems.push(format!(
                    "groups of queue `{}`: the task `{other}` declares {rule}, and `{}` declares {}; use the same rule, or declare it at one task",
                    task.queue, task.name, task.group_rule
                ));
            }
        }
        if problems.is_empty() { Ok(declared.into_iter().map(|(queue, (_, rule))| (queue.into(), rule)).collect()) } else { Err(problems) }
    }

    /// The aging that its tasks declare, by queue, or the conflicting declarations of tasks of one
    /// queue.
    pub(super) fn aging(&self) -> Result<BTreeMap<&'static str, Duration>, Vec<String>> {
        let served: BTreeSet<String> = self.served().into_iter().map(|queue| queue.name).collect();
        let (mut declared, mut problems) = (BTreeMap::<&str, (&str, Duration)>::new(), Vec::new());
        for task in self.registry.tasks().filter(|task| served.contains(task.queue)) {
            let Some(every) = task.aging else { continue };
            let (other, known) = *declared.entry(task.queue).or_insert((task.name, every));
            if known != every {
                problems.push(format!(
                    "aging of queue `{}`: the task `{other}` declares {known:?}, and `{}` declares {every:?}; use the same value, or declare it at one task",
                    task.queue, task.name
                ));
            }
        }
        if problems.is_empty() { Ok(declared.into_iter().map(|(queue, (_, every))| (queue, every)).collect()) } else { Err(problems) }
    }

    /// The subscriptions of its functions, with their types of event, or the conflicting
    /// declarations: of the start of a subscription, or of the handling of other types.
    pub(super) fn subscriptions(&self) -> Result<Vec<Subscribe>, Vec<String>> {
        let served: BTreeSet<String> = self.served().into_iter().map(|queue| queue.name).collect();
        let (mut declared, mut problems) = (BTreeMap::<&str, Subscribe>::new(), Vec::new());
        for task in self.registry.tasks().filter(|task| served.contains(task.queue)) {
            let Some(SubscriptionDef { name, topic, begin, unknown }) = task.subscription else { continue };
            let known = declared.entry(task.queue).or_insert_with(|| Subscribe::new(topic, name, begin).unknown(unknown));
            if known.begin != begin {
                problems.push(format!(
                    "subscription `{}`: one function has `from = \"{}\"`, and the one for `{}` ({}:{}) has `from = \"{}\"`; use the same value",
                    task.queue,
                    known.begin.stored(),
                    task.name,
                    task.file,
                    task.line,
                    begin.stored()
                ));
            }
            if known.unknown != Some(unknown) {
                problems.push(format!(
                    "subscription `{}`: one function has `unknown = \"{}\"`, and the one for `{}` ({}:{}) has `unknown = \"{}\"`; use the same value",
                    task.queue,
                    known.unknown.unwrap_or_default().name(),
                    task.name,
                    task.file,
                    task.line,
                    unknown.name()
                ));
            }
            known.types.push(task.name.to_owned());
        }
        if problems.is_empty() { Ok(declared.into_values().collect()) } else { Err(problems) }
    }

    /// The schedules that it declares, or their problems: an invalid expression, a time zone that
    /// this machine does not have, or two schedules with the same name.
    pub(super) fn declared(&self) -> Result<Vec<Prepared>, Vec<String>> {
        let (mut declared, mut problems, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
        let served: BTreeSet<String> = self.served().into_iter().map(|queue| queue.name).collect();
        let of_tasks = self
            .registry
            .tasks()
            .filter(|task| served.contains(task.queue))
            .flat_map(|task| task.schedules.iter().map(move |schedule| Schedule::of_task(task, schedule)));
        for schedule in self.schedules.iter().cloned().map(Ok).chain(of_tasks) {
            let name = schedule.as_ref().map(|schedule| schedule.name().to_owned()).unwrap_or_default();
            match schedule.and_then(|schedule| schedule.prepared(&self.client)) {
                Ok(prepared) if !served.contains(&*prepared.queue) => problems.push(format!(
                    "schedule `{}/{}` belongs to a queue that this worker does not serve; add `.queue(\"{}\")`",
                    prepared.queue, prepared.name, prepared.queue
                )),
                Ok(prepared) if !names.insert((prepared.queue.clone(), prepared.name.clone())) => {
                    problems
                        .push(format!("schedule `{}/{}` is declared twice; give one of them another name", prepared.queue, prepared.name));
                }
                Ok(prepared) => declared.push(prepared),
                Err(error) => problems.push(format!("schedule `{name}`: {}", error_text(&error))),
            }
        }
        if problems.is_empty() { Ok(declared) } else { Err(problems) }
    }

    /// The limits that its tasks declare, by queue, or the conflicting declarations of a limit that
    /// tasks share.
    pub(super) fn limits(&self) -> Result<Limits, Vec<String>> {
        let (mut limits, mut problems): (Limits, Vec<String>) = (Limits::new(), Vec::new());
        let served: BTreeSet<String> = self.served().into_iter().map(|queue| queue.name).collect();
        let mut declared: BTreeMap<(&str, &str), (&str, LimitRule)> = BTreeMap::new();
        for task in self.registry.tasks().filter(|task| served.contains(task.queue)) {
            // A task that only names a limit declares no values for it.
            for limit in task.limits.iter().filter(|limit| !limit.rule.is_empty()) {
                let (other, rule) = *declared.entry((task.queue, limit.name)).or_insert((task.name, limit.rule));
                if rule != limit.rule {
                    problems.push(format!(
                        "limit `{}` of queue `{}`: the task `{other}` declares {rule}, and `{}` declares {}; use the same rule, or give one of them another name",
                        limit.name, task.queue, task.name, limit.rule
                    ));
                }
                limits.entry(task.queue.into()).or_default().insert(limit.name, limit.rule);
            }
        }
        if problems.is_empty() { Ok(limits) } else { Err(problems) }
    }

    /// Tasks of the served queues that commit, if the worker has no database with their stored
    /// endings.
    fn missing_outbox(&self) -> Option<String> {
        #[cfg(feature = "outbox")]
        if !self.relays.is_empty() {
            return None;
        }
        let served: BTreeSet<String> = self.served().into_iter().map(|queue| queue.name).collect();
        let tasks: Vec<String> = self
            .registry
            .tasks()
            .filter(|task| task.commits && served.contains(task.queue))
            .map(|task| format!("`{}`", task.name))
            .collect();
        (!tasks.is_empty()).then(|| {
            format!(
                "task {} returns `Done`, and the worker cannot look up what it has committed; call `.outbox(..)` (feature `outbox`) with a relay of the database",
                tasks.join(", ")
            )
        })
    }

    /// Values that tasks of the served queues need and that the worker does not provide.
    fn missing_data(&self) -> Vec<String> {
        let served: BTreeSet<String> = self.served().into_iter().map(|queue| queue.name).collect();
        let mut wanted: BTreeMap<&'static str, Vec<&'static str>> = BTreeMap::new();
        for handler in self.registry.handlers().filter(|handler| served.contains(handler.task.queue)) {
            for need in (handler.needs)().into_iter().filter(|need| !self.data.has(need)) {
                wanted.entry(need.name).or_default().push(handler.task.name);
            }
        }
        let problem = |(value, tasks): (&str, Vec<&str>)| {
            let tasks: Vec<String> = tasks.iter().map(|task| format!("`{task}`")).collect();
            let advice = match value.strip_prefix("alloc::sync::Arc<").and_then(|inner| inner.strip_suffix('>')) {
                Some(inner) => format!("take a `Data<{inner}>`, which is an `Arc` itself, or call `.data(..)` with an `Arc`"),
                None if value.starts_with("dyn ") => format!("call `.shared_data(..)` with an `Arc<{value}>`"),
                None => "call `.data(..)` with one".to_owned(),
            };
            format!("task {} needs a value of type `{value}`, and the worker has none; {advice}", tasks.join(", "))
        };
        wanted.into_iter().map(problem).collect()
    }
}
