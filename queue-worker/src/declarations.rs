//! The declarations in the code of a worker's tasks, which it stores in the broker.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use queue_core::{
    broker::Subscribe,
    inspect::{GroupRule, LimitRule},
    schedule::Prepared,
};

/// Limits, by queue and name.
pub(crate) type Limits = BTreeMap<Arc<str>, BTreeMap<&'static str, LimitRule>>;

/// The rule of all groups of a queue, by queue.
pub(crate) type GroupRules = BTreeMap<Arc<str>, GroupRule>;

#[derive(Default)]
pub(crate) struct Declarations {
    pub(crate) schedules: Vec<Prepared>,
    pub(crate) limits: Limits,
    pub(crate) groups: GroupRules,
    /// The aging interval of waiting jobs, by queue.
    pub(crate) aging: BTreeMap<&'static str, Duration>,
    pub(crate) subscriptions: Vec<Subscribe>,
}
