//! The retention of a log, and the events that a subscription skips.

use queue_core::{
    __private::Envelope,
    JobId,
    broker::{Begin, NewJob, Retention, Subscribe, Unknown},
};

use super::{
    bed::Bed,
    topics::{keep, lane, publisher, subscribe, subscription, topic},
};

/// An event of a type, with about `bytes` bytes.
fn event(kind: &str, bytes: usize) -> NewJob {
    let mut payload = vec![0x81, 0xa1, b'n', 0xc5];
    payload.extend(u16::try_from(bytes).expect("it is small").to_be_bytes());
    payload.resize(payload.len() + bytes, 7);
    NewJob::new(JobId::make(), Envelope::new(kind, &payload).encode().expect("it is small"))
}

/// The size is exact to about a third. Events that a subscription has not read are kept.
pub async fn a_log_keeps_about_so_many_bytes(bed: Bed) {
    subscribe(&bed, "billing", Begin::Start).await;
    publisher(&bed).await.stored((0..200).map(|_| event("suite.event", 1000)).collect()).await;
    let bytes = topic(&bed).await.bytes;
    assert!((150_000..300_000).contains(&bytes), "{bytes}");
    keep(&bed, Retention { bytes: Some(100_000), ..Retention::default() }).await;
    assert_eq!(topic(&bed).await.retention.bytes, Some(100_000));
    assert_eq!(bed.broker.trim_topic(&bed.queue).await.expect("it is answered").entries, 0, "nothing was read");
    let mut lane = lane(&bed, "billing").await;
    while subscription(&bed, "billing").await.behind != Some(0) {
        let claimed = lane.claim(50).await;
        lane.ack(&claimed).await;
    }
    bed.broker.trim_topic(&bed.queue).await.expect("it is answered");
    let left = topic(&bed).await;
    assert!((65..=110).contains(&left.entries), "{}", left.entries);
    assert!((65_000..150_000).contains(&left.bytes), "{}", left.bytes);
    assert_eq!(subscription(&bed, "billing").await.lost, 0);
    let again = bed.broker.trim_topic(&bed.queue).await.expect("it is answered");
    assert!(again.entries < 20, "it stays at about that: {again:?}");
    let nothing = Retention { bytes: Some(0), ..Retention::default() };
    assert!(bed.broker.set_retention(&bed.queue, nothing).await.is_err(), "it would keep nothing");
}

fn known(bed: &Bed, name: &str, types: &[&str]) -> Subscribe {
    Subscribe::new(bed.queue.clone(), name, Begin::Start).types(types.iter().map(|kind| (*kind).to_owned()).collect())
}

/// If it is set to skip, unknown events are counted. Other subscriptions create jobs, which their
/// workers park.
pub async fn what_a_subscription_does_not_know_is_passed_over(bed: Bed) {
    for (name, unknown) in [("billing", Unknown::Skip), ("mail", Unknown::Park)] {
        let request = known(&bed, name, &["order.paid"]).unknown(unknown);
        assert!(bed.broker.subscribe(&request).await.expect("a subscription can be made"));
    }
    let events = ["order.sent", "order.paid", "order", "order.paid.twice", "order.paid"];
    publisher(&bed).await.stored(events.into_iter().map(|kind| event(kind, 8)).collect()).await;
    for (name, gets, skipped) in [("billing", 2, 3), ("mail", 5, 0)] {
        assert_eq!(lane(&bed, name).await.claim(10).await.len(), gets, "{name}");
        let stored = subscription(&bed, name).await;
        assert_eq!((stored.skipped, stored.behind, stored.lost), (skipped, Some(0), 0), "{name}");
    }
    assert_eq!(subscription(&bed, "billing").await.unknown, Unknown::Skip);
    // A declaration without this setting does not change it.
    subscribe(&bed, "billing", Begin::Now).await;
    assert_eq!(subscription(&bed, "billing").await.unknown, Unknown::Skip);
}

/// Workers of an older release know fewer types. Those of a newer release still do not miss an
/// event.
pub async fn no_type_is_forgotten_where_others_are_passed_over(bed: Bed) {
    for types in [&["a", "b"][..], &["a"], &["c"]] {
        bed.broker.subscribe(&known(&bed, "billing", types).unknown(Unknown::Skip)).await.expect("it is answered");
        bed.broker.subscribe(&known(&bed, "mail", types)).await.expect("it is answered");
    }
    assert_eq!(subscription(&bed, "billing").await.types, ["a", "b", "c"]);
    // A worker that parks may run between two that skip.
    bed.broker.subscribe(&known(&bed, "billing", &["d"]).unknown(Unknown::Park)).await.expect("it is answered");
    assert_eq!(subscription(&bed, "billing").await.unknown, Unknown::Park);
    bed.broker.subscribe(&known(&bed, "billing", &["a"]).unknown(Unknown::Skip)).await.expect("it is answered");
    assert_eq!(subscription(&bed, "billing").await.types, ["a", "b", "c", "d"]);
    assert_eq!(subscription(&bed, "mail").await.types, ["a", "b", "c"], "it may be told to pass over others later");
    publisher(&bed).await.stored(vec![event("b", 8)]).await;
    assert_eq!(lane(&bed, "billing").await.claim(10).await.len(), 1);
}

/// No worker has declared its types, so it may know all of them.
pub async fn a_subscription_that_knows_no_type_passes_over_nothing(bed: Bed) {
    bed.broker.subscribe(&known(&bed, "billing", &[]).unknown(Unknown::Skip)).await.expect("it is answered");
    publisher(&bed).await.stored(vec![event("a", 8), event("b", 8)]).await;
    assert_eq!(lane(&bed, "billing").await.claim(10).await.len(), 2);
    assert_eq!(subscription(&bed, "billing").await.skipped, 0);
}
