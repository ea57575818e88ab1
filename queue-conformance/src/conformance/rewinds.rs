//! Rewinds: afterwards a subscription is in the same state as if it had begun at the target. No
//! event after the target is lost on the way.

use std::time::Duration;

use queue_core::{
    JobId,
    broker::{
        Audit, Begin, BuryReason, Ending, JobState, MAX_ITEMS, Retention, Rewind, RewindStep, RewindTarget, Rewound, TRIM_STEP,
        subscription_address,
    },
    topics::RewindPreview,
};

use super::{
    bed::{Bed, eventually, finish, nack},
    topics::{event, keep, lane, numbers, publish, publisher, subscribe, subscription, topic},
};

/// Rewinds to the end. Returns the number of events to read again, and of cancelled jobs.
async fn rewind(bed: &Bed, to: impl Into<RewindTarget>) -> (u64, u64) {
    let mut rewinding = bed.inspector().rewind(&bed.queue, "billing", to);
    while rewinding.step().await.expect("a rewind goes on") {}
    (rewinding.again(), rewinding.cancelled())
}

async fn preview(bed: &Bed, to: impl Into<RewindTarget>) -> RewindPreview {
    bed.inspector().preview_rewind(&bed.queue, "billing", to).await.expect("it can be looked at")
}

async fn step(bed: &Bed, step: RewindStep) -> Rewound {
    bed.broker.rewind(&Rewind::new(bed.queue.clone(), "billing", step)).await.expect("it is answered")
}

/// The positions of the log.
async fn positions(bed: &Bed) -> Vec<String> {
    let read = bed.broker.read_topic(&bed.queue, None, 100).await.expect("a log can be read");
    read.into_iter().map(|event| event.position).collect()
}

/// Done, dead, retrying and ready jobs are all read again. A preview returns their number.
pub async fn a_rewind_reads_again_what_has_ended(bed: Bed) {
    subscribe(&bed, "billing", Begin::Start).await;
    let mut events: Vec<_> = (0..6).map(event).collect();
    events[1].id = JobId::given("order-17-paid").expect("it is a name");
    publisher(&bed).await.stored(events).await;
    let mut lane = lane(&bed, "billing").await;
    let claimed = lane.claim(5).await;
    lane.ack(&claimed[..2]).await;
    assert!(lane.end(&claimed[2], Ending::Ack { result: None, keep: Some(Duration::from_secs(600)) }).await);
    let bury = Ending::Bury { reason: BuryReason::Buried, error: None };
    assert!(lane.end(&claimed[3], bury).await);
    assert!(lane.end(&claimed[4], nack(Duration::from_secs(600))).await);
    let looked = preview(&bed, Begin::Start).await;
    assert_eq!((looked.again, looked.waiting, looked.is_short), (5, 0, false));
    assert_eq!(lane.claim(1).await.len(), 1, "a look changes nothing");
    assert_eq!(rewind(&bed, Begin::Start).await, (6, 0));
    let stored = subscription(&bed, "billing").await;
    assert_eq!((stored.behind, stored.begin, stored.rewinding), (Some(6), Begin::Start, false));
    // The running one is skipped.
    assert_eq!(numbers(&lane.claim(10).await), [0, 1, 2, 3, 4]);
}

/// A job that ran during the first rewind has ended by the second one. It is read again, even if
/// the subscription has not reached it by then.
pub async fn a_second_rewind_reads_again_what_ran_during_the_first(bed: Bed) {
    subscribe(&bed, "billing", Begin::Start).await;
    let mut events: Vec<_> = (0..4).map(event).collect();
    events[3].id = JobId::given("order-17-paid").expect("it is a name");
    publisher(&bed).await.stored(events).await;
    let mut lane = lane(&bed, "billing").await;
    let claimed = lane.claim(4).await;
    lane.ack(&claimed[..2]).await;
    assert_eq!(rewind(&bed, Begin::Start).await, (4, 0));
    assert!(lane.end(&claimed[2], Ending::Bury { reason: BuryReason::Buried, error: None }).await);
    lane.ack(&claimed[3..]).await;
    assert_eq!(preview(&bed, Begin::Start).await.again, 4);
    assert_eq!(rewind(&bed, Begin::Start).await, (4, 0));
    assert_eq!(numbers(&lane.claim(10).await), [0, 1, 2, 3]);
    assert_eq!((subscription(&bed, "billing").await.behind, preview(&bed, Begin::Start).await.again), (Some(0), 4));
}

/// Events that were removed from the log cannot be read again. Their jobs stay in a rewind to the
/// oldest event. A rewind to a target cancels the jobs before it.
pub async fn a_rewind_to_the_start_cancels_nothing(bed: Bed) {
    subscribe(&bed, "billing", Begin::Start).await;
    publish(&bed, 0..4).await;
    let mut lane = lane(&bed, "billing").await;
    for failed in lane.claim(4).await {
        assert!(lane.end(&failed, nack(Duration::from_secs(600))).await);
    }
    let last = positions(&bed).await.pop().expect("there are some");
    keep(&bed, Retention { count: Some(2), ..Retention::default() }).await;
    bed.broker.trim_topic(&bed.queue).await.expect("it is answered");
    assert_eq!(preview(&bed, Begin::Start).await.waiting, 0);
    assert_eq!(rewind(&bed, Begin::Start).await, (2, 0));
    let queue = subscription_address("billing", &bed.queue);
    assert_eq!(bed.broker.stats(&queue).await.expect("statistics can be read").count(JobState::Retry), 2);
    assert_eq!(numbers(&lane.claim(10).await), [2, 3]);
    assert_eq!(preview(&bed, RewindTarget::Event(last.clone())).await.waiting, 2);
    assert_eq!(rewind(&bed, RewindTarget::Event(last)).await, (1, 2));
}

/// A running job is not claimed twice, whether it ends before the subscription reaches it or not.
pub async fn a_rewind_passes_over_what_runs(bed: Bed) {
    subscribe(&bed, "billing", Begin::Start).await;
    publish(&bed, 0..3).await;
    let mut lane = lane(&bed, "billing").await;
    let running = lane.claim_one().await;
    assert_eq!(rewind(&bed, Begin::Start).await, (1, 0));
    assert_eq!(numbers(&lane.claim(10).await), [1, 2]);
    assert!(lane.end(&running, nack(Duration::ZERO)).await, "its receipt is still good");
    assert_eq!(numbers(&[lane.wait_for_one().await]), [0]);
}

/// At a time, at an event, or at the next one. Events before the target are not read again.
pub async fn a_rewind_begins_at_its_mark(bed: Bed) {
    subscribe(&bed, "billing", Begin::Start).await;
    let mut publisher = publisher(&bed).await;
    publisher.stored(vec![event(1)]).await;
    let later = eventually("the clock goes on", async || {
        publisher.stored(vec![event(2)]).await;
        let read = bed.broker.read_topic(&bed.queue, None, 100).await.expect("a log can be read");
        let (first, last) = (read.first()?.at_ms, read.last()?.at_ms);
        (last > first).then_some(last)
    })
    .await;
    publisher.stored(vec![event(3)]).await;
    let mut lane = lane(&bed, "billing").await;
    let all = lane.claim(100).await;
    lane.ack(&all).await;
    assert_eq!(rewind(&bed, Begin::AtMs(later)).await.1, 0);
    assert_eq!(subscription(&bed, "billing").await.behind, Some(2), "its place in the log is known");
    let claimed = lane.claim(100).await;
    assert_eq!(numbers(&claimed), [2, 3]);
    lane.ack(&claimed).await;
    let last = positions(&bed).await.pop().expect("there are some");
    assert_eq!(rewind(&bed, RewindTarget::Event(last)).await, (1, 0));
    let claimed = lane.claim(100).await;
    assert_eq!(numbers(&claimed), [3]);
    lane.ack(&claimed).await;
    assert_eq!(rewind(&bed, Begin::Now).await, (0, 0));
    assert_eq!(lane.claim(100).await, []);
    publisher.stored(vec![event(4)]).await;
    assert_eq!(numbers(&lane.claim(100).await), [4]);
    let strange = Rewind::new(bed.queue.clone(), "billing", RewindStep::Look(RewindTarget::Event("first".to_owned())));
    assert!(bed.broker.rewind(&strange).await.is_err());
}

/// Waiting jobs are cancelled and unread events are skipped. Neither counts as lost.
pub async fn a_rewind_ahead_passes_over_what_was_not_read(bed: Bed) {
    let queue = subscription_address("billing", &bed.queue);
    subscribe(&bed, "billing", Begin::Start).await;
    publish(&bed, 0..8).await;
    let mut lane = lane(&bed, "billing").await;
    let claimed = lane.claim(2).await;
    assert!(lane.end(&claimed[0], nack(Duration::from_secs(600))).await);
    let looked = preview(&bed, Begin::Now).await;
    assert_eq!((looked.again, looked.waiting), (0, 1));
    assert_eq!(rewind(&bed, Begin::Now).await, (0, 1));
    let stats = bed.broker.stats(&queue).await.expect("statistics can be read");
    assert_eq!((stats.count(JobState::Retry), stats.count(JobState::Active), stats.count(JobState::Cancelled)), (0, 1, 1));
    assert_eq!(lane.claim(10).await, []);
    publish(&bed, [8]).await;
    assert_eq!(numbers(&lane.claim(10).await), [8]);
    assert_eq!(subscription(&bed, "billing").await.lost, 0);
}

/// The result reports that.
pub async fn a_rewind_beyond_what_is_kept_begins_at_the_oldest(bed: Bed) {
    subscribe(&bed, "billing", Begin::Start).await;
    publish(&bed, 0..6).await;
    let first = positions(&bed).await;
    let mut lane = lane(&bed, "billing").await;
    let claimed = lane.claim(10).await;
    lane.ack(&claimed).await;
    keep(&bed, Retention { count: Some(2), ..Retention::default() }).await;
    bed.broker.trim_topic(&bed.queue).await.expect("it is answered");
    assert!(!preview(&bed, Begin::Start).await.is_short, "the oldest is what was asked for");
    assert!(!preview(&bed, RewindTarget::Event(first[4].clone())).await.is_short, "it is the oldest");
    for target in [RewindTarget::Event(first[1].clone()), Begin::AtMs(1).into()] {
        let looked = preview(&bed, target.clone()).await;
        assert_eq!((looked.again, looked.is_short), (2, true), "{target}");
    }
    assert_eq!(rewind(&bed, RewindTarget::Event(first[1].clone())).await, (2, 0));
    assert_eq!((subscription(&bed, "billing").await.behind, subscription(&bed, "billing").await.lost), (Some(2), 0));
    assert_eq!(numbers(&lane.claim(10).await), [4, 5]);
}

/// The runner of the rewind is gone. The subscription reads nothing until another rewind has ended.
pub async fn half_a_rewind_reads_nothing(bed: Bed) {
    subscribe(&bed, "billing", Begin::Start).await;
    publish(&bed, 0..4).await;
    let mut lane = lane(&bed, "billing").await;
    let claimed = lane.claim(2).await;
    lane.ack(&claimed).await;
    let mut dropped = bed.inspector().rewind(&bed.queue, "billing", Begin::Start);
    for what in ["it looks", "it begins"] {
        assert!(dropped.step().await.expect(what));
    }
    drop(dropped);
    assert_eq!(lane.claim(10).await, []);
    assert!(subscription(&bed, "billing").await.rewinding);
    assert!(!subscribe(&bed, "billing", Begin::Now).await, "it is there");
    assert!(subscription(&bed, "billing").await.rewinding);
    let shown = bed.inspector().topic(&bed.queue).await.expect("it is answered").expect("it exists");
    assert!(shown.subscriptions[0].stop_reason.as_ref().is_some_and(|why| why.contains("a rewind is under way")));
    // The second rewind releases the jobs that were read before the first one.
    assert_eq!(preview(&bed, Begin::Start).await.again, 2);
    assert_eq!(rewind(&bed, Begin::Start).await, (2, 0));
    assert_eq!(numbers(&lane.claim(10).await), [0, 1, 2, 3]);
    assert!(!subscription(&bed, "billing").await.rewinding);
}

/// The first of two rewinds is notified, and does not finish.
pub async fn a_rewind_is_taken_over_by_the_next(bed: Bed) {
    subscribe(&bed, "billing", Begin::Start).await;
    publish(&bed, 0..3).await;
    let nobody = Rewind::new(bed.queue.clone(), "nobody", RewindStep::End("token".to_owned(), 0));
    assert_eq!(bed.broker.rewind(&nobody).await.expect("it is answered"), Rewound::NotFound);
    for token in ["one", "other"] {
        let begun = begin(&bed, Begin::Start, token).await;
        assert!(matches!(begun, Rewound::Target { .. }), "{begun:?}");
    }
    let from = match step(&bed, RewindStep::Look(Begin::Start.into())).await {
        Rewound::Target { from, .. } => from,
        other => panic!("{other:?}"),
    };
    assert_eq!(step(&bed, RewindStep::Forget(from, "one".to_owned())).await, Rewound::Other);
    assert_eq!(step(&bed, RewindStep::End("one".to_owned(), 0)).await, Rewound::Other);
    assert!(subscription(&bed, "billing").await.rewinding);
    for _ in 0..2 {
        assert_eq!(step(&bed, RewindStep::End("other".to_owned(), 0)).await, Rewound::Ended, "it may be sent again");
    }
    let late = RewindStep::Begin { target: Begin::Start.into(), token: "other".to_owned(), after: "one".to_owned() };
    assert_eq!(step(&bed, late).await, Rewound::Other, "it has ended");
    assert!(!subscription(&bed, "billing").await.rewinding);
    assert_eq!(step(&bed, RewindStep::End("one".to_owned(), 0)).await, Rewound::Other, "another one has ended");
    // Later changes of the subscription keep the rewind.
    subscribe(&bed, "billing", Begin::Now).await;
    assert_eq!(lane(&bed, "billing").await.claim(10).await.len(), 3);
    assert_eq!(step(&bed, RewindStep::End("one".to_owned(), 0)).await, Rewound::Other);
    assert_eq!(step(&bed, RewindStep::End("other".to_owned(), 0)).await, Rewound::Ended);
}

/// Begins a rewind like its runner.
async fn begin(bed: &Bed, target: Begin, token: &str) -> Rewound {
    let after = match step(bed, RewindStep::Look(target.into())).await {
        Rewound::Target { token, .. } => token,
        other => panic!("{other:?}"),
    };
    step(bed, RewindStep::Begin { target: target.into(), token: token.to_owned(), after }).await
}

/// An abandoned request may arrive much later. The next rewind has released the jobs of events that
/// it would skip.
pub async fn a_begin_that_comes_late_changes_nothing(bed: Bed) {
    subscribe(&bed, "billing", Begin::Start).await;
    let late = |token: &str, after: &str| RewindStep::Begin { target: Begin::Now.into(), token: token.to_owned(), after: after.to_owned() };
    assert!(matches!(step(&bed, late("one", "")).await, Rewound::Target { .. }));
    assert!(matches!(step(&bed, late("one", "")).await, Rewound::Target { .. }), "it may be sent again");
    assert_eq!(step(&bed, RewindStep::End("one".to_owned(), 0)).await, Rewound::Ended);
    publish(&bed, 0..2).await;
    assert!(matches!(begin(&bed, Begin::Start, "two").await, Rewound::Target { .. }));
    for (token, after) in [("one", ""), ("three", ""), ("three", "one")] {
        assert_eq!(step(&bed, late(token, after)).await, Rewound::Other, "{token} {after}");
    }
    assert_eq!(step(&bed, RewindStep::End("two".to_owned(), 0)).await, Rewound::Ended);
    for (token, after) in [("one", ""), ("two", "one"), ("three", "one")] {
        assert_eq!(step(&bed, late(token, after)).await, Rewound::Other, "{token} {after}");
    }
    assert_eq!(numbers(&lane(&bed, "billing").await.claim(10).await), [0, 1]);
}

fn cancel(token: &str, ids: &[JobId]) -> RewindStep {
    RewindStep::Cancel { token: token.to_owned(), reason: Some("a rewind".to_owned()), ids: ids.to_vec() }
}

/// A job that was claimed since it was listed continues, and a dead letter stays.
pub async fn a_rewind_cancels_what_waits_and_nothing_else(bed: Bed) {
    let queue = subscription_address("billing", &bed.queue);
    subscribe(&bed, "billing", Begin::Start).await;
    publish(&bed, 0..6).await;
    let mut lane = lane(&bed, "billing").await;
    let claimed = lane.claim(5).await;
    let ids: Vec<JobId> = claimed.iter().map(|job| job.id.clone()).collect();
    assert!(lane.end(&claimed[1], nack(Duration::from_secs(600))).await);
    assert!(lane.end(&claimed[2], nack(Duration::ZERO)).await);
    assert!(lane.end(&claimed[3], Ending::Bury { reason: BuryReason::Buried, error: None }).await);
    lane.ack(&claimed[4..]).await;
    begin(&bed, Begin::Now, "token").await;
    let mut asked = ids.clone();
    asked.extend([ids[1].clone(), JobId::make()]);
    assert_eq!(step(&bed, cancel("token", &asked)).await, Rewound::Cancelled(2));
    assert_eq!(step(&bed, cancel("token", &asked)).await, Rewound::Cancelled(0), "it may be sent again");
    let stats = bed.broker.stats(&queue).await.expect("statistics can be read");
    let counts = [JobState::Active, JobState::Cancelled, JobState::Dead, JobState::Retry, JobState::Ready].map(|state| stats.count(state));
    assert_eq!(counts, [1, 2, 1, 0, 0]);
    let shown = bed.broker.show(&queue, &ids[1]).await.expect("it can be read").expect("it is kept");
    assert_eq!(shown.note.as_deref(), Some("a rewind"));
    assert!(lane.end(&claimed[0], nack(Duration::ZERO)).await, "its receipt is still good");
    let damages = bed.broker.audit(&queue, Audit { repair: false, thorough: true }).await.expect("a queue can be audited");
    assert_eq!(damages, []);
    let many = Rewind::new(bed.queue.clone(), "billing", cancel("token", &vec![ids[0].clone(); MAX_ITEMS + 1]));
    assert!(bed.broker.rewind(&many).await.is_err());
}

/// The listed jobs may have been read again after the rewind that took over.
pub async fn a_rewind_that_was_taken_over_cancels_nothing(bed: Bed) {
    let queue = subscription_address("billing", &bed.queue);
    subscribe(&bed, "billing", Begin::Start).await;
    publish(&bed, 0..2).await;
    let mut lane = lane(&bed, "billing").await;
    let mut ids = Vec::new();
    for failed in lane.claim(2).await {
        ids.push(failed.id.clone());
        assert!(lane.end(&failed, nack(Duration::from_secs(600))).await);
    }
    assert_eq!(step(&bed, cancel("one", &ids)).await, Rewound::Other, "it has not begun");
    let mut first = bed.inspector().rewind(&bed.queue, "billing", Begin::Now);
    for what in ["it looks", "it begins", "it sees what waits"] {
        assert!(first.step().await.expect(what));
    }
    begin(&bed, Begin::Start, "other").await;
    assert_eq!(step(&bed, cancel("one", &ids)).await, Rewound::Other);
    let told = first.step().await.expect_err("another one has taken over").to_string();
    assert!(told.contains("has taken over"), "{told}");
    step(&bed, RewindStep::End("other".to_owned(), 0)).await;
    assert_eq!(step(&bed, cancel("other", &ids)).await, Rewound::Other, "it has ended");
    assert_eq!(bed.broker.stats(&queue).await.expect("statistics can be read").count(JobState::Retry), 2);
}

/// Page after page, with gaps from cancelled jobs.
pub async fn a_rewind_cancels_more_than_a_page(bed: Bed) {
    let queue = subscription_address("billing", &bed.queue);
    subscribe(&bed, "billing", Begin::Start).await;
    let mut lane = lane(&bed, "billing").await;
    let mut publisher = publisher(&bed).await;
    let (mut claimed, mut events) = (Vec::new(), 0);
    while events < 2 * MAX_ITEMS + 100 {
        publisher.stored((0..100).map(|_| event(1)).collect()).await;
        events += 100;
        claimed.extend(lane.claim(100).await);
    }
    for some in claimed.chunks(100) {
        let turn = lane.next().finish(some.iter().map(|job| finish(job, Ending::Return)).collect());
        assert!(lane.send(&turn).await.stale.is_empty());
    }
    assert_eq!(bed.broker.stats(&queue).await.expect("statistics can be read").count(JobState::Ready), events as u64);
    assert_eq!(rewind(&bed, Begin::Now).await, (0, events as u64));
}

/// A pass that has cancelled a job is followed by another pass.
pub async fn what_fails_while_a_rewind_cancels_is_cancelled(bed: Bed) {
    let queue = subscription_address("billing", &bed.queue);
    subscribe(&bed, "billing", Begin::Start).await;
    publish(&bed, 0..4).await;
    let mut lane = lane(&bed, "billing").await;
    let claimed = lane.claim(4).await;
    assert!(lane.end(&claimed[0], nack(Duration::from_secs(600))).await);
    let mut rewinding = bed.inspector().rewind(&bed.queue, "billing", Begin::Now);
    let mut failing = claimed[1..3].iter();
    while rewinding.step().await.expect("a rewind goes on") {
        if rewinding.cancelled() > 0
            && let Some(failed) = failing.next()
        {
            assert!(lane.end(failed, nack(Duration::from_secs(600))).await);
        }
    }
    assert_eq!(rewinding.cancelled(), 3);
    assert_eq!(bed.broker.stats(&queue).await.expect("statistics can be read").count(JobState::Active), 1);
}

/// From its beginning on, the events that it will read are not trimmed.
pub async fn the_log_waits_for_a_subscription_that_is_rewound(bed: Bed) {
    subscribe(&bed, "billing", Begin::Start).await;
    publish(&bed, 0..5).await;
    let mut lane = lane(&bed, "billing").await;
    let claimed = lane.claim(10).await;
    lane.ack(&claimed).await;
    begin(&bed, Begin::Start, "token").await;
    keep(&bed, Retention { count: Some(1), ..Retention::default() }).await;
    assert_eq!(bed.broker.trim_topic(&bed.queue).await.expect("it is answered").entries, 0);
    assert_eq!(rewind(&bed, Begin::Start).await, (5, 0));
    assert_eq!(numbers(&lane.claim(10).await), [0, 1, 2, 3, 4]);
    assert_eq!(bed.broker.trim_topic(&bed.queue).await.expect("it is answered").entries, 4);
}

/// No step reads more entries than its maximum.
pub async fn a_rewind_goes_through_a_log_in_steps(bed: Bed) {
    subscribe(&bed, "billing", Begin::Start).await;
    let many = TRIM_STEP + 20;
    let mut publisher = publisher(&bed).await;
    for _ in 0..2 {
        publisher.stored((0..many / 2).map(|_| event(1)).collect()).await;
    }
    let mut lane = lane(&bed, "billing").await;
    let mut left = many;
    while left > 0 {
        let claimed = lane.claim(100).await;
        lane.ack(&claimed).await;
        left -= claimed.len();
    }
    begin(&bed, Begin::Start, "token").await;
    let begun = step(&bed, RewindStep::Look(Begin::Start.into())).await;
    let Rewound::Target { from, .. } = begun else { panic!("{begun:?}") };
    match step(&bed, RewindStep::Forget(from, "token".to_owned())).await {
        Rewound::Passed { entries, next: Some(_) } => assert!(entries <= TRIM_STEP as u64, "{entries}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(preview(&bed, Begin::Start).await.again, many as u64);
    assert_eq!(rewind(&bed, Begin::Start).await, (many as u64, 0));
    assert_eq!((subscription(&bed, "billing").await.behind, topic(&bed).await.entries), (Some(many as u64), many as u64));
}

/// No data of the released jobs is left.
pub async fn a_rewound_subscription_is_sound(bed: Bed) {
    let queue = subscription_address("billing", &bed.queue);
    subscribe(&bed, "billing", Begin::Start).await;
    let mut events: Vec<_> = (0..6).map(event).collect();
    events.iter_mut().skip(2).for_each(|event| event.group = Some(super::groups::name("ada")));
    publisher(&bed).await.stored(events).await;
    let mut lane = lane(&bed, "billing").await;
    let claimed = lane.claim(10).await;
    assert!(lane.end(&claimed[0], nack(Duration::from_secs(600))).await);
    lane.ack(&claimed[1..3]).await;
    rewind(&bed, Begin::Start).await;
    for queue in [queue.as_str(), &bed.queue] {
        let damages = bed.broker.audit(queue, Audit { repair: false, thorough: true }).await.expect("a queue can be audited");
        assert_eq!(damages, [], "{queue}");
    }
}
