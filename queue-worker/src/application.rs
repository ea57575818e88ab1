//! The application's code: the functions of its tasks, and the values that they need.

use std::{collections::HashMap, sync::Arc};

use queue_core::{
    __private::{Endings, Environment, HandlerDef, Stack},
    Registry,
};

use crate::threads::Threads;

/// The maximum number of task names in one turn: the bound of the contract, see
/// [`Turn::resume`](queue_core::broker::Turn::resume).
const RESUME_NAMES: usize = 200;

pub(crate) struct Application {
    tasks: HashMap<&'static str, Known>,
    /// The functions of subscriptions, by queue and type of event.
    subscribers: HashMap<&'static str, HashMap<&'static str, Known>>,
    pub(crate) environment: Arc<Environment>,
    pub(crate) middleware: Stack,
    /// Where blocking tasks run.
    pub(crate) threads: Threads,
    /// The databases in which tasks commit the endings of their jobs, if there are any.
    pub(crate) endings: Option<Box<dyn Endings>>,
    /// The last rounds of repeating jobs, for their traces.
    #[cfg(feature = "otel")]
    pub(crate) rounds: queue_core::observe::otel::Rounds,
}

/// The handler of a task, and the name of the task to be shared.
pub(crate) struct Known {
    pub(crate) handler: &'static HandlerDef,
    pub(crate) name: Arc<str>,
}

impl Application {
    pub(crate) fn new(registry: &Registry, environment: Environment, middleware: Stack, endings: Option<Box<dyn Endings>>) -> Self {
        let known = |name| registry.get(name).map(|handler| (name, Known { handler, name: handler.task.name.into() }));
        let mut subscribers = HashMap::<_, HashMap<_, _>>::new();
        for handler in registry.subscribers() {
            let task = handler.task;
            subscribers.entry(task.queue).or_default().insert(task.name, Known { handler, name: task.name.into() });
        }
        Application {
            tasks: registry.names().filter_map(known).collect(),
            subscribers,
            environment: Arc::new(environment),
            middleware,
            threads: Threads::default(),
            endings,
            #[cfg(feature = "otel")]
            rounds: queue_core::observe::otel::Rounds::default(),
        }
    }

    /// The task of a job in a queue. In the queue of a subscription, it is the function for this
    /// type of event, or else a task that was enqueued there by name.
    pub(crate) fn task(&self, queue: &str, name: &str) -> Option<&Known> {
        self.subscribers.get(queue).and_then(|events| events.get(name)).or_else(|| self.tasks.get(name))
    }

    /// The queues of its subscriptions.
    pub(crate) fn subscribed_queues(&self) -> impl Iterator<Item = &'static str> {
        self.subscribers.keys().copied()
    }

    /// The names of tasks and types of event whose parked jobs this worker takes from a queue. One
    /// turn has room for [`RESUME_NAMES`] names. If there are more, each call returns a random part
    /// of them.
    pub(crate) fn names_to_resume(&self, queue: &str) -> Vec<Arc<str>> {
        let events = self.subscribers.get(queue).into_iter().flat_map(|events| events.keys().copied());
        let mut names: Vec<Arc<str>> = self.tasks.keys().copied().chain(events).map(Arc::from).collect();
        if names.len() > RESUME_NAMES {
            fastrand::shuffle(&mut names);
            names.truncate(RESUME_NAMES);
        }
        names
    }
}
