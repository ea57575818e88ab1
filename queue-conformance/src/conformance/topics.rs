//! Topics: each subscription gets each event from its begin on, once. Subscriptions do not affect
//! each other.

use std::{sync::Arc, time::Duration};

use queue_core::{
    __private::Envelope,
    JobId,
    broker::{
        Audit, Begin, Delivery, Enqueued, JobState, MAX_BYTES, MOST_TAKEN, NewJob, READS_AHEAD, Retention, Rewind, RewindStep, Rewound,
        SetPause, StoredSubscription, StoredTopic, Subscribe, Trimmed, subscription_address, topic_address,
    },
    inspect::GroupOrder,
};

use super::bed::{Bed, Lane, Producer, eventually, nack};

/// An event with a number.
pub(super) fn event(n: u8) -> NewJob {
    // The map that a handler would read: {"n": n}.
    let payload = [0x81, 0xa1, b'n', 0xcc, n];
    let mut event = NewJob::new(JobId::make(), Envelope::new("suite.event", &payload).encode().expect("it is small"));
    event.digest = u64::from(n);
    event
}

fn number(delivery: &Delivery) -> u8 {
    let envelope = Envelope::decode(&delivery.envelope).expect("it was encoded here");
    assert_eq!(envelope.task, "suite.event");
    *envelope.payload.last().expect("it has a number")
}

pub(super) fn numbers(deliveries: &[Delivery]) -> Vec<u8> {
    deliveries.iter().map(number).collect()
}

pub(super) async fn publisher(bed: &Bed) -> Producer {
    Producer::on(&bed.broker, &topic_address(&bed.queue)).await
}

pub(super) async fn publish(bed: &Bed, events: impl IntoIterator<Item = u8>) {
    publisher(bed).await.stored(events.into_iter().map(event).collect()).await;
}

pub(super) async fn subscribe(bed: &Bed, name: &str, begin: Begin) -> bool {
    bed.broker.subscribe(&Subscribe::new(bed.queue.clone(), name, begin)).await.expect("a subscription can be made")
}

/// A lane in the queue of a subscription.
pub(super) async fn lane(bed: &Bed, name: &str) -> Lane {
    Lane::on(&bed.broker, &subscription_address(name, &bed.queue)).await
}

pub(super) async fn topic(bed: &Bed) -> StoredTopic {
    bed.broker.topic(&bed.queue).await.expect("a topic can be looked at").expect("it exists")
}

pub(super) async fn subscription(bed: &Bed, name: &str) -> StoredSubscription {
    topic(bed).await.subscriptions.into_iter().find(|subscription| subscription.name == name).expect("it is there")
}

pub(super) async fn keep(bed: &Bed, retention: Retention) {
    bed.broker.set_retention(&bed.queue, retention).await.expect("the retention can be set");
}

/// A step over large events reads few of them, because the broker is busy while it reads.
pub async fn a_step_over_large_events_passes_few_of_them(bed: Bed) {
    const EVENTS: u64 = 30;
    const BYTES: usize = 200_000;
    assert!(subscribe(&bed, "billing", Begin::Start).await);
    let mut publisher = publisher(&bed).await;
    for _ in 0..EVENTS {
        let envelope = Envelope::new("suite.event", &vec![0x80; BYTES]).encode().expect("it is below the bound");
        publisher.stored(vec![NewJob::new(JobId::make(), envelope)]).await;
    }
    let few = |entries: u64| (1..=2 * (MAX_BYTES / BYTES) as u64).contains(&entries);
    let look = Rewind::new(bed.queue.clone(), "billing", RewindStep::Look(Begin::Start.into()));
    let Ok(Rewound::Target { from, .. }) = bed.broker.rewind(&look).await else { panic!("it is found") };
    let last = bed.broker.read_topic(&bed.queue, None, 100).await.expect("it can be read").pop().expect("there are some").position;
    let count = Rewind::new(bed.queue.clone(), "billing", RewindStep::Count(from, last));
    let Ok(Rewound::Passed { entries, next: Some(_) }) = bed.broker.rewind(&count).await else { panic!("there are more") };
    assert!(few(entries), "a step of a rewind has passed {entries}");

    let is_large = Retention { count: Some(1), lag: Some(Duration::ZERO), ..Retention::default() };
    keep(&bed, is_large).await;
    // Events of this millisecond are not older than the maximum lag.
    let mut trimmed = Trimmed::default();
    while trimmed.entries == 0 {
        trimmed = bed.broker.trim_topic(&bed.queue).await.expect("it is answered");
    }
    assert!(few(trimmed.entries) && trimmed.more, "a step of a trim has removed {}", trimmed.entries);
    while bed.broker.trim_topic(&bed.queue).await.expect("it is answered").more {}
    assert_eq!(topic(&bed).await.entries, 1, "steps go on where the one before has ended");
}

/// The first claim after a publish has the event, with its id and its bytes, in every subscription.
pub async fn each_subscription_gets_each_event(bed: Bed) {
    for name in ["billing", "mail"] {
        assert!(subscribe(&bed, name, Begin::Now).await, "it was made");
        assert!(!subscribe(&bed, name, Begin::Start).await, "it was there");
    }
    let sent = event(7);
    publisher(&bed).await.stored(vec![sent.clone()]).await;
    for name in ["billing", "mail"] {
        let mut lane = lane(&bed, name).await;
        let claimed = lane.claim(10).await;
        assert_eq!(claimed.len(), 1, "{name}");
        assert_eq!((&claimed[0].id, number(&claimed[0])), (&sent.id, 7), "{name}");
        lane.ack(&claimed).await;
        assert_eq!(lane.claim(10).await, [], "{name} has it once");
    }
}

/// A subscription begins now, at the oldest event, or at a time.
pub async fn a_subscription_begins_where_it_was_asked_to(bed: Bed) {
    let mut publisher = publisher(&bed).await;
    publisher.stored(vec![event(1)]).await;
    // Publishes until an event has a later millisecond than the first. Its time comes from the
    // server with the log.
    let later = eventually("the clock goes on", async || {
        publisher.stored(vec![event(2)]).await;
        let read = bed.broker.read_topic(&bed.queue, None, 100).await.expect("a log can be read");
        let (first, last) = (read.first()?.at_ms, read.last()?.at_ms);
        (last > first).then_some(last)
    })
    .await;
    for (name, begin) in [("all", Begin::Start), ("later", Begin::AtMs(later)), ("none", Begin::Now)] {
        subscribe(&bed, name, begin).await;
    }
    publisher.stored(vec![event(3)]).await;
    let all = numbers(&lane(&bed, "all").await.claim(100).await);
    assert_eq!((all.first(), all.last()), (Some(&1), Some(&3)));
    assert_eq!(numbers(&lane(&bed, "later").await.claim(100).await), [2, 3]);
    assert_eq!(numbers(&lane(&bed, "none").await.claim(100).await), [3]);
}

/// R12: a publish that is sent again, because its answer was lost, appends nothing. A publish with
/// an unknown name is refused.
pub async fn a_publish_that_is_sent_again_appends_once(bed: Bed) {
    subscribe(&bed, "billing", Begin::Now).await;
    let publisher = publisher(&bed).await;
    let request = publisher.next(vec![event(1), event(2)]);
    for _ in 0..2 {
        assert_eq!(bed.broker.enqueue(&request).await.expect("it is answered"), [Enqueued::Stored, Enqueued::Stored]);
    }
    assert_eq!((topic(&bed).await.entries, topic(&bed).await.added), (2, 2));
    assert_eq!(numbers(&lane(&bed, "billing").await.claim(10).await), [1, 2]);
    let mut unknown = request.clone();
    unknown.producer = queue_core::broker::PartyName::new("nobody");
    assert!(matches!(bed.broker.enqueue(&unknown).await, Err(queue_core::Error::Forgotten(_))));
}

/// A turn reads as many events as it can start, and reports whether there are more. A turn without
/// a claim reads none.
pub async fn a_turn_reads_no_more_than_it_asks_for(bed: Bed) {
    subscribe(&bed, "billing", Begin::Now).await;
    publish(&bed, 0..50).await;
    let mut lane = lane(&bed, "billing").await;
    let turn = lane.next();
    assert_eq!(lane.send(&turn).await.deliveries, []);
    assert_eq!(subscription(&bed, "billing").await.behind, Some(50));
    let turn = lane.next().claim(READS_AHEAD - 1);
    let answer = lane.send(&turn).await;
    assert_eq!((numbers(&answer.deliveries), answer.more), ((0..15).collect::<Vec<_>>(), true));
    assert_eq!(subscription(&bed, "billing").await.behind, Some(35));
    // A turn that claims many may also read for later turns.
    assert_eq!(numbers(&lane.claim(READS_AHEAD).await), (15..31).collect::<Vec<_>>());
    assert!(subscription(&bed, "billing").await.behind <= Some(19));
    assert_eq!(numbers(&lane.claim(500).await), (31..50).collect::<Vec<_>>());
    let turn = lane.next().claim(20);
    assert!(!lane.send(&turn).await.more, "nothing is left");
    assert_eq!(subscription(&bed, "billing").await.behind, Some(0));
}

/// A replayed turn returns the same events, and reads no new ones.
pub async fn a_turn_that_is_sent_again_reads_nothing(bed: Bed) {
    subscribe(&bed, "billing", Begin::Now).await;
    publish(&bed, 0..4).await;
    let mut lane = lane(&bed, "billing").await;
    let turn = lane.next().claim(2);
    let first = lane.send(&turn).await.deliveries;
    assert_eq!(numbers(&lane.send(&turn).await.deliveries), numbers(&first));
    assert_eq!(numbers(&lane.claim(10).await), [2, 3]);
}

/// A failure in one subscription is retried there, and does not affect the others.
pub async fn a_failure_concerns_one_subscription(bed: Bed) {
    for name in ["billing", "mail"] {
        subscribe(&bed, name, Begin::Now).await;
    }
    publish(&bed, [1]).await;
    let (mut billing, mut mail) = (lane(&bed, "billing").await, lane(&bed, "mail").await);
    let failed = billing.claim_one().await;
    assert!(billing.end(&failed, nack(Duration::ZERO)).await);
    let done = mail.claim_one().await;
    mail.ack(&[done]).await;
    assert_eq!(mail.claim(1).await, []);
    let again = billing.wait_for_one().await;
    assert_eq!((number(&again), again.attempts), (1, 1));
}

/// If its subscription is ordered, the events of a group are handled in order, concurrently with
/// those of other groups.
pub async fn events_of_a_group_stay_in_order(bed: Bed) {
    let queue: Arc<str> = subscription_address("billing", &bed.queue).into();
    subscribe(&bed, "billing", Begin::Now).await;
    let inspector = bed.inspector();
    inspector
        .set_group_rule(&queue, &queue_core::inspect::RuleOf::Others, |rule| rule.order = Some(GroupOrder::Ordered))
        .await
        .expect("a rule can be set");
    let of_group = |n: u8, group: &str| {
        let mut event = event(n);
        event.group = Some(super::groups::name(group));
        event
    };
    publisher(&bed).await.stored(vec![of_group(1, "ada"), of_group(2, "ada"), of_group(3, "eve")]).await;
    let mut lane = lane(&bed, "billing").await;
    let first = lane.claim(10).await;
    let mut begun = numbers(&first);
    begun.sort_unstable();
    assert_eq!(begun, [1, 3], "one of each group");
    lane.ack(&first).await;
    assert_eq!(numbers(&lane.claim(10).await), [2]);
}

/// An event with a given id is one job of a subscription, however often it is published.
pub async fn an_event_with_a_given_id_is_one_job(bed: Bed) {
    subscribe(&bed, "billing", Begin::Now).await;
    let given = || {
        let mut given = event(1);
        given.id = JobId::given("order-17-paid").expect("it is a name");
        given
    };
    publisher(&bed).await.stored(vec![given(), given()]).await;
    let mut lane = lane(&bed, "billing").await;
    let claimed = lane.claim(10).await;
    assert_eq!(claimed.len(), 1);
    lane.ack(&claimed).await;
    publisher(&bed).await.stored(vec![given()]).await;
    assert_eq!(lane.claim(10).await, [], "the id is remembered");
}

/// A paused subscription reads nothing, and published events wait for it.
pub async fn a_paused_subscription_reads_nothing(bed: Bed) {
    let queue = subscription_address("billing", &bed.queue);
    subscribe(&bed, "billing", Begin::Now).await;
    let mut lane = lane(&bed, "billing").await;
    bed.broker.set_pause(&SetPause::of_queue(queue.clone(), true)).await.expect("a queue can be paused");
    publish(&bed, 0..3).await;
    assert_eq!(lane.claim(10).await, []);
    assert_eq!(subscription(&bed, "billing").await.behind, Some(3));
    bed.broker.set_pause(&SetPause::of_queue(queue.clone(), false)).await.expect("a queue can be resumed");
    assert_eq!(numbers(&lane.claim(10).await), [0, 1, 2]);
}

/// A removed subscription reads nothing, and its jobs stay. A new one may begin under its name.
pub async fn a_removed_subscription_reads_nothing(bed: Bed) {
    subscribe(&bed, "billing", Begin::Now).await;
    publish(&bed, 0..4).await;
    let mut lane = lane(&bed, "billing").await;
    assert_eq!(numbers(&lane.claim(1).await), [0]);
    assert!(bed.broker.unsubscribe(&bed.queue, "billing").await.expect("it is answered"));
    assert!(!bed.broker.unsubscribe(&bed.queue, "billing").await.expect("it is answered"), "there is none");
    assert_eq!(lane.claim(10).await, []);
    assert!(subscribe(&bed, "billing", Begin::Start).await);
    assert_eq!(numbers(&lane.claim(10).await), [1, 2, 3], "what it has is not made again");
}

/// If too many events have not ended, a subscription reads no further, whatever its workers
/// request.
pub async fn a_subscription_takes_a_bounded_number_of_events(bed: Bed) {
    let queue = subscription_address("billing", &bed.queue);
    subscribe(&bed, "billing", Begin::Now).await;
    let inspector = bed.inspector();
    inspector.set_group_rule(&queue, &queue_core::inspect::RuleOf::Others, |rule| rule.cap = Some(1)).await.expect("a rule can be set");
    let mut publisher = publisher(&bed).await;
    for _ in 0..MOST_TAKEN / 500 + 1 {
        let mut events: Vec<NewJob> = (0..500).map(|_| event(1)).collect();
        events.iter_mut().for_each(|event| event.group = Some(super::groups::name("ada")));
        publisher.stored(events).await;
    }
    let mut lane = lane(&bed, "billing").await;
    let (mut claimed, mut more) = (0, true);
    while more {
        let turn = lane.next().claim(500);
        let answer = lane.send(&turn).await;
        claimed += answer.deliveries.len();
        more = answer.more;
    }
    // This also holds if a worker still requests events.
    let turn = lane.next().claim(500);
    claimed += lane.send(&turn).await.deliveries.len();
    assert_eq!(claimed, 1, "the group has one slot");
    assert_eq!(subscription(&bed, "billing").await.behind, Some(500));
    let stats = bed.broker.stats(&queue).await.expect("statistics can be read");
    assert_eq!(stats.count(JobState::Ready) + stats.count(JobState::Active), MOST_TAKEN as u64);
}

/// The log keeps events by its retention, and unread ones.
pub async fn a_trim_keeps_what_a_subscription_has_not_read(bed: Bed) {
    subscribe(&bed, "billing", Begin::Now).await;
    publish(&bed, 0..10).await;
    keep(&bed, Retention { count: Some(3), ..Retention::default() }).await;
    assert_eq!(bed.broker.trim_topic(&bed.queue).await.expect("it is answered").entries, 0, "nothing was read");
    let mut lane = lane(&bed, "billing").await;
    lane.claim(4).await;
    let trimmed = bed.broker.trim_topic(&bed.queue).await.expect("it is answered");
    assert_eq!((trimmed.entries, trimmed.lost, topic(&bed).await.entries), (4, 0, 6));
    assert_eq!(numbers(&lane.claim(10).await), [4, 5, 6, 7, 8, 9]);
    let trimmed = bed.broker.trim_topic(&bed.queue).await.expect("it is answered");
    assert_eq!((trimmed.entries, topic(&bed).await.entries, topic(&bed).await.added), (3, 3, 10));
    assert_eq!(subscription(&bed, "billing").await.lost, 0);
    let begun = Subscribe::new(bed.queue.clone(), "late", Begin::Start);
    bed.broker.subscribe(&begun).await.expect("a subscription can be made");
    assert_eq!((subscription(&bed, "late").await.behind, subscription(&bed, "late").await.lost), (Some(3), 0));
}

/// Beyond the maximum lag, no event waits for a subscription. The lost events are counted once.
pub async fn what_a_subscription_has_lost_is_counted(bed: Bed) {
    subscribe(&bed, "billing", Begin::Now).await;
    publish(&bed, 0..5).await;
    lane(&bed, "billing").await.claim(1).await;
    keep(&bed, Retention { count: Some(2), lag: Some(Duration::ZERO), ..Retention::default() }).await;
    // The clock advances: an event is older than the limit in the next millisecond.
    let (mut entries, mut lost) = (0, 0);
    eventually("they are older than the limit", async || {
        let trimmed = bed.broker.trim_topic(&bed.queue).await.expect("it is answered");
        (entries, lost) = (entries + trimmed.entries, lost + trimmed.lost);
        (entries == 3).then_some(())
    })
    .await;
    assert_eq!((entries, lost), (3, 2));
    for _ in 0..2 {
        let stored = subscription(&bed, "billing").await;
        assert_eq!((stored.lost, stored.behind), (2, Some(2)));
        bed.broker.trim_topic(&bed.queue).await.expect("it is answered");
    }
    assert_eq!(numbers(&lane(&bed, "billing").await.claim(10).await), [3, 4]);
    assert_eq!(subscription(&bed, "billing").await.lost, 2);
}

/// A topic is in the list of topics, and is not a queue. Its log is read page by page, and its
/// settings and subscriptions are shown.
pub async fn a_topic_is_listed_and_read(bed: Bed) {
    assert!(bed.broker.topic(&bed.queue).await.expect("it is answered").is_none());
    publish(&bed, 0..3).await;
    let known = Subscribe::new(bed.queue.clone(), "billing", Begin::Start).types(vec!["suite.event".to_owned()]);
    bed.broker.subscribe(&known).await.expect("a subscription can be made");
    keep(&bed, Retention { age: Some(Duration::from_secs(60)), ..Retention::default() }).await;
    keep(&bed, Retention { count: Some(9), ..Retention::default() }).await;
    assert!(bed.broker.topics().await.expect("topics can be listed").contains(&bed.queue.to_string()));
    let queues = bed.broker.queues().await.expect("queues can be listed");
    assert!(!queues.iter().any(|queue| queue.contains('@') && queue.starts_with('@')), "{queues:?}");
    let stored = topic(&bed).await;
    assert_eq!((stored.entries, stored.added, stored.first_ms.is_some()), (3, 3, true));
    assert_eq!(stored.retention, Retention { age: Some(Duration::from_secs(60)), count: Some(9), bytes: None, lag: None });
    let billing = &stored.subscriptions[0];
    assert_eq!((billing.behind, billing.begin, &billing.types[..]), (Some(3), Begin::Start, &["suite.event".to_owned()][..]));
    assert!(billing.next_ms == stored.first_ms && billing.lag(stored.now_ms) <= Duration::from_secs(60));

    let first = bed.broker.read_topic(&bed.queue, None, 2).await.expect("a log can be read");
    let rest = bed.broker.read_topic(&bed.queue, Some(&first[1].position), 2).await.expect("a log can be read");
    let read: Vec<u8> = first.iter().chain(&rest).map(|event| *event.payload.last().expect("a number")).collect();
    assert_eq!((read, first[0].event.as_str()), (vec![0, 1, 2], "suite.event"));
}

/// Waiting workers of a subscription are notified of an event.
pub async fn a_publish_is_announced_to_each_subscription(bed: Bed) {
    let mut heard = Vec::new();
    for name in ["billing", "mail"] {
        subscribe(&bed, name, Begin::Now).await;
        let mut lane = lane(&bed, name).await;
        let mut hints = bed.broker.hints(&lane.queue);
        lane.claim(1).await;
        // A new listener gets an initial announcement.
        while tokio::time::timeout(Duration::from_millis(300), hints.next()).await.is_ok() {}
        heard.push((lane, hints));
    }
    let mut publisher = publisher(&bed).await;
    for (lane, hints) in &mut heard {
        eventually("a hint has come", async || {
            publisher.stored(vec![event(1)]).await;
            tokio::time::timeout(Duration::from_millis(200), hints.next()).await.ok().map(drop)
        })
        .await;
        assert!(!lane.claim(1).await.is_empty());
    }
}

/// After all of this, every key and every row has an owner.
pub async fn a_subscription_is_sound(bed: Bed) {
    subscribe(&bed, "billing", Begin::Now).await;
    publish(&bed, 0..5).await;
    let mut lane = lane(&bed, "billing").await;
    let claimed = lane.claim(3).await;
    lane.ack(&claimed[..2]).await;
    for queue in [subscription_address("billing", &bed.queue), bed.queue.to_string()] {
        let damages = bed.broker.audit(&queue, Audit { repair: false, thorough: true }).await.expect("a queue can be audited");
        assert_eq!(damages, [], "{queue}");
    }
}
