//! All kinds of requests.

use std::time::Duration;

use queue_core::{
    Error, JobId, Result,
    broker::{
        Audit, Begin, BuryReason, Delivery, Due, DynBroker, Ending, Enqueue, Finish, GroupName, JobState, KeepLimits, MAX_ITEMS, PauseOf,
        Pausing, Priority, ProcessId, Register, Retention, Rewind, RewindStep, Scan, SetPause, Subscribe, SweepLimits, Turn, Unknown,
        subscription_address, topic_address,
    },
};

use super::state::{Case, LONG, RULE, UNKNOWN, given, job};
use queue_conformance::Changes as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Acks,
    Endings,
    Claim,
    Replay,
    Enqueue,
    Extend,
    Overdue,
    Fence,
    SweepFenced,
    Cancel,
    Requeue,
    Promote,
    Delete,
    Sweep,
    Look,
    Repair,
    Pause,
    People,
    Register,
    /// Of a topic beside the queue. It is not tried on servers, where topics have keys of their
    /// own.
    Topic,
}

impl Deed {
    pub(crate) const ALL: [Deed; 19] = [
        Deed::Acks,
        Deed::Endings,
        Deed::Claim,
        Deed::Replay,
        Deed::Enqueue,
        Deed::Extend,
        Deed::Overdue,
        Deed::Fence,
        Deed::SweepFenced,
        Deed::Cancel,
        Deed::Requeue,
        Deed::Promote,
        Deed::Delete,
        Deed::Sweep,
        Deed::Look,
        Deed::Repair,
        Deed::Pause,
        Deed::People,
        Deed::Register,
    ];

    /// The jobs that it may end.
    pub(crate) fn ends(self) -> &'static [&'static str] {
        match self {
            Deed::Acks => &["h0", "h1"],
            Deed::Endings => &["h3", "h5", "h6", "h9"],
            Deed::Cancel => &["r0", "r2", "given", "later", "retry", "parked", "h0", "suspect"],
            // A held job is not deleted, unless its state is lost.
            Deed::Delete => &["r1", "later", "retry", "parked", "suspect", "h0"],
            _ => &[],
        }
    }

    pub(crate) async fn run(self, case: &Case) -> Result<()> {
        let Case { broker, queue, .. } = case;
        let ids = |names: &[&str]| names.iter().map(|name| case.id(name)).collect::<Vec<JobId>>();
        let held = |name: &str, ending: Ending| finish(&case.scene.contents.held[name], ending);
        match self {
            Deed::Acks => {
                let ack = || Ending::Ack { result: None, keep: None };
                broker.turn(&case.turn().finish(vec![held("h0", ack()), held("cancelled", ack()), held("h1", ack())])).await.map(drop)
            }
            Deed::Endings => {
                let error = "it failed".to_owned();
                let mut turn = case.turn().claim(50).finish(vec![
                    held("h0", Ending::Nack { delay: LONG, error: error.clone() }),
                    held("h1", Ending::Snooze { delay: LONG }),
                    held("h2", Ending::Repeat { delay: Duration::ZERO }),
                    held("h3", Ending::Ack { result: Some(vec![1]), keep: Some(LONG) }),
                    held("h4", Ending::Return),
                    held("h5", Ending::Bury { reason: BuryReason::Failed, error: Some(error) }),
                    held("h6", Ending::Cancel { reason: "unwanted".to_owned() }),
                    held("h7", Ending::Park { task: UNKNOWN.to_owned() }),
                    held("h8", Ending::Repeat { delay: LONG }),
                    held("h9", Ending::Expire),
                    held("cancelled", Ending::Void),
                ]);
                turn.resume = vec![UNKNOWN.into()];
                broker.turn(&turn).await.map(drop)
            }
            Deed::Claim => {
                let mut turn = case.turn().claim(50);
                turn.resume = vec![UNKNOWN.into()];
                broker.turn(&turn).await.map(drop)
            }
            Deed::Replay => broker.turn(&case.last_turn()).await.map(drop),
            Deed::Enqueue => {
                let (mut later, mut critical) = (job("n1"), job("n2"));
                (later.due, critical.priority) = (Due::After(LONG), Priority::Critical);
                let jobs = vec![job("n0"), later, critical, given("new", "new"), given("given", "given"), given("gone", "another")];
                broker.enqueue(&case.enqueue(jobs)).await.map(drop)
            }
            Deed::Extend => broker.extend(&[case.heartbeat()]).await.into_iter().try_for_each(|answer| answer.map(drop)),
            Deed::Overdue => broker.overdue(queue, 0, MAX_ITEMS).await.map(drop),
            Deed::Fence => {
                let suspects = broker.overdue(queue, 0, MAX_ITEMS).await?;
                broker.fence(queue, &suspects.expired).await.map(drop)
            }
            Deed::SweepFenced => broker.reclaim(queue, &RULE).await.map(drop),
            Deed::Cancel => broker.cancel(queue, &ids(self.ends())).await.map(drop),
            Deed::Requeue => broker.requeue(queue, &ids(&["dead", "kept", "r0"])).await.map(drop),
            Deed::Promote => broker.promote(queue, &ids(&["later", "retry", "r0"])).await.map(drop),
            Deed::Delete => {
                broker.delete(queue, &ids(&["r1", "later", "retry", "parked", "suspect", "dead", "kept", "h0"])).await.map(drop)
            }
            Deed::Sweep => {
                let limits = SweepLimits {
                    producers: LONG,
                    remembered: Duration::ZERO,
                    dead: Duration::ZERO,
                    dead_bytes: 0,
                    keep: KeepLimits { count: 0, bytes: 0 },
                    ..SweepLimits::default()
                };
                broker.sweep(queue, &limits).await.map(drop)
            }
            Deed::Look => broker.audit(queue, Audit { repair: false, thorough: true }).await.map(drop),
            Deed::Repair => broker.audit(queue, Audit { repair: true, thorough: true }).await.map(drop),
            Deed::Pause => {
                let group = || PauseOf::Group(GroupName::new("rested").expect("it is a name"));
                for of in [PauseOf::Queue, group(), PauseOf::Task("nobody".into())] {
                    let pausing = Pausing::new().because("a test").lasting(LONG);
                    broker.set_pause(&SetPause::pause(queue.clone(), of, pausing)).await?;
                }
                broker.set_pause(&SetPause::resume(queue.clone(), group())).await?;
                broker.set_pause(&SetPause::resume(queue.clone(), PauseOf::Task("nobody".into()))).await?;
                broker.set_pause(&SetPause::of_queue(queue.clone(), false)).await
            }
            Deed::People => people(case).await,
            Deed::Register => broker.register(&Register::lane(queue.clone(), ProcessId::random(), LONG)).await.map(drop),
            Deed::Topic => topic(broker).await,
        }
    }
}

async fn people(case: &Case) -> Result<()> {
    const STATES: [JobState; 9] = [
        JobState::Ready,
        JobState::Scheduled,
        JobState::Retry,
        JobState::Active,
        JobState::Parked,
        JobState::Dead,
        JobState::Done,
        JobState::Cancelled,
        JobState::Expired,
    ];
    let mut first: Option<Error> = None;
    let mut note = |outcome: Result<()>| {
        if let Err(error) = outcome {
            first.get_or_insert(error);
        }
    };
    note(case.broker.stats(&case.queue).await.map(drop));
    note(case.broker.workers(&case.queue).await.map(drop));
    note(case.broker.pauses(&case.queue).await.map(drop));
    note(case.broker.operations(&case.queue).await.map(drop));
    note(case.broker.scan(&Scan::new(&case.queue, &STATES, 100).including_moved()).await.map(drop));
    for state in STATES {
        note(case.broker.list(&case.queue, state, 0, 100).await.map(drop));
    }
    let contents = &case.scene.contents;
    for id in contents.pending.values().chain(contents.ended.values()) {
        note(case.broker.show(&case.queue, id).await.map(drop));
    }
    first.map_or(Ok(()), Err)
}

/// Publishes to a topic, reads its log for a subscription, and trims and lists it.
pub(crate) async fn topic(broker: &DynBroker) -> Result<()> {
    const TOPIC: &str = "events";
    let subscribe = Subscribe::new(TOPIC, "billing", Begin::Start).types(vec!["a.task".into()]).unknown(Unknown::Skip);
    broker.subscribe(&subscribe).await?;
    let address = topic_address(TOPIC);
    let producer = broker.register(&Register::producer(address.clone(), ProcessId::random())).await?.name;
    let mut grouped = job("grouped");
    grouped.group = Some(GroupName::new("g")?);
    broker.enqueue(&Enqueue::new(address, producer, 1, vec![job("published"), grouped, given("given", "given")])).await?;
    let queue = subscription_address("billing", TOPIC);
    let lane = broker.register(&Register::lane(queue.clone(), ProcessId::random(), LONG)).await?.name;
    broker.turn(&Turn::new(queue, lane, 1, LONG).claim(2)).await?;
    let look = Rewind::new(TOPIC, "billing", RewindStep::Look(Begin::Start.into()));
    broker.rewind(&look).await?;
    broker.set_retention(TOPIC, Retention { lag: Some(LONG), ..Retention::default() }).await?;
    broker.trim_topic(TOPIC).await?;
    broker.topics().await?;
    broker.topic(TOPIC).await?;
    broker.read_topic(TOPIC, None, 100).await.map(drop)
}

pub(crate) fn finish(delivery: &Delivery, ending: Ending) -> Finish {
    Finish::new(delivery, ending)
}
