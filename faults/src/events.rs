//! The events of the suite. Like jobs, each carries a plan for the handlers of all subscriptions.

use queue_core::{Registry, prelude::*};

use crate::{
    history::Recorder,
    work::{Failure, Plan, Run, act},
};

/// The topic of all events.
pub const TOPIC: &str = "happenings";

/// The number of the failure that buries a job of an event.
pub const ATTEMPTS: u32 = 3;

/// The factor by which a handler of the slow subscription takes longer.
const SLOWER: u32 = 20;

/// An event.
#[derive(Debug, Event)]
#[event(topic = "happenings", name = "happening")]
pub struct Happening {
    /// The number of the event.
    pub key: u64,
    /// Padding.
    pub pad: String,
    /// The actions of handlers.
    pub plan: Plan,
}

/// A subscription, by the function that serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Subscriber {
    /// Handles the events of one group in their order.
    Ordered,
    /// Handles events in any order.
    Plain,
    /// Handles events in any order, and takes long.
    Slow,
    /// Begins with the event after its first worker.
    Late,
}

impl Subscriber {
    /// All subscriptions.
    pub const ALL: [Subscriber; 4] = [Subscriber::Ordered, Subscriber::Plain, Subscriber::Slow, Subscriber::Late];

    /// The name of the subscription.
    pub fn name(self) -> &'static str {
        match self {
            Subscriber::Ordered => "ordered",
            Subscriber::Plain => "plain",
            Subscriber::Slow => "slow",
            Subscriber::Late => "late",
        }
    }

    /// Its queue.
    pub fn queue(self) -> String {
        queue_core::broker::subscription_address(self.name(), TOPIC)
    }

    /// Registers its function at a worker.
    pub fn register(self, registry: &mut Registry) {
        match self {
            Subscriber::Ordered => registry.register::<in_order>(),
            Subscriber::Plain => registry.register::<as_they_come>(),
            Subscriber::Slow => registry.register::<slowly>(),
            Subscriber::Late => registry.register::<from_now_on>(),
        }
    }
}

/// Of the subscription [`Subscriber::Ordered`].
#[subscribe(name = "ordered", from = "start", ordered, max_attempts = 3)]
pub async fn in_order(event: Happening, recorder: Data<Recorder>, ctx: JobContext) -> Result<(), Failure> {
    handle(event, recorder, &ctx, 1).await
}

/// Of the subscription [`Subscriber::Plain`].
#[subscribe(name = "plain", from = "now", max_attempts = 3)]
pub async fn as_they_come(event: Happening, recorder: Data<Recorder>, ctx: JobContext) -> Result<(), Failure> {
    handle(event, recorder, &ctx, 1).await
}

/// Of the subscription [`Subscriber::Slow`].
#[subscribe(name = "slow", from = "start", max_attempts = 3)]
pub async fn slowly(event: Happening, recorder: Data<Recorder>, ctx: JobContext) -> Result<(), Failure> {
    handle(event, recorder, &ctx, SLOWER).await
}

/// Of the subscription [`Subscriber::Late`].
#[subscribe(name = "late", from = "now", max_attempts = 3)]
pub async fn from_now_on(event: Happening, recorder: Data<Recorder>, ctx: JobContext) -> Result<(), Failure> {
    handle(event, recorder, &ctx, 1).await
}

async fn handle(event: Happening, recorder: Data<Recorder>, ctx: &JobContext, slower: u32) -> Result<(), Failure> {
    let Happening { key, pad, plan } = event;
    let mut run = Run::start(key, &pad, recorder.into_inner(), ctx);
    act(Plan { ms: plan.ms * slower, ..plan }, ctx, &mut run).await.map(drop)
}
