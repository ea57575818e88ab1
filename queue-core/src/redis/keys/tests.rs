//! The documented keys are the stored ones.

use super::*;

#[test]
fn keys_are_what_is_stored_by_every_version_of_this_schema() {
    let keys = Keys::new("queue");
    assert_eq!(keys.of("mail", Kind::Jobs), "queue:{mail}:jobs");
    assert_eq!(keys.of("mail", Kind::Ready2), "queue:{mail}:ready:2");
    assert_eq!(keys.queues(), "queue:queues");
    assert_eq!(keys.sibling_of_queues("1"), "queue:aside:{queue:queues}:1");
    assert_eq!(keys.queue_of_channel("queue:{mail}:hint").as_deref(), Some("mail"));
    assert_eq!(keys.queue_of_channel("other:{mail}:hint"), None);
}

#[test]
fn queues_of_one_tag_share_a_slot_and_no_key() {
    let keys = Keys::new("queue");
    let (billing, topic) = (keys.of("billing@orders", Kind::Jobs), keys.of("orders", Kind::Jobs));
    assert_eq!((billing.as_str(), topic.as_str()), ("queue:{orders}@billing:jobs", "queue:{orders}:jobs"));
    assert_eq!((tag_of("billing@orders"), tag_of("orders")), ("orders", "orders"));
    for queue in ["orders", "billing@orders"] {
        assert_eq!(keys.queue_of_channel(&keys.of(queue, Kind::Hint)).as_deref(), Some(queue));
    }
    assert_eq!(keys.queue_of_channel("queue:{orders}billing:hint"), None);
}

#[test]
fn the_log_of_a_topic_is_that_of_all_its_subscriptions() {
    let keys = Keys::new("queue");
    for address in ["@orders", "billing@orders", "mail@orders"] {
        assert_eq!(keys.of(address, Kind::Log), "queue:{orders}:log");
        assert_eq!(keys.of(address, Kind::Subscriptions), "queue:{orders}:subscriptions");
    }
    assert_eq!(keys.of("@orders", Kind::Producers), "queue:{orders}@:producers");
    assert_eq!(keys.of("orders", Kind::Producers), "queue:{orders}:producers", "a queue may have the name of a topic");
}
