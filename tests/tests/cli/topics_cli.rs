//! Topics on the command line: publish, read, subscribe, and the progress of subscriptions.

use queue_tests::command_line::Place;
use serde_json::Value;

const SHOP: &str = env!("CARGO_BIN_EXE_shop_worker");

/// An existing file, because commands that only read do not create one.
fn bed() -> Place {
    let place = Place::sqlite(SHOP);
    place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":1}"#]);
    place
}

#[test]
fn a_person_publishes_reads_and_subscribes() {
    let place = bed();
    assert_eq!(place.json(&["topics", "list"]), serde_json::json!({ "topics": [] }));
    assert!(place.ok(&["topics", "subscribe", "billing@orders", "--from", "start"]).contains("is made"));
    assert!(place.ok(&["topics", "subscribe", "billing@orders", "--from", "now"]).contains("keeps its position"));
    let id = place.ok(&["topics", "publish", "orders", "OrderPaid", r#"{"order":17}"#, "--group", "ada", "--tag", "order=17"]);
    place.ok(&["topics", "publish", "orders", "OrderPaid", r#"{"order":18}"#, "--id", "order-18-paid"]);

    let events = place.json(&["topics", "read", "orders", "--limit", "1"]);
    let event = &events["events"][0];
    assert_eq!((&event["type"], &event["group"], &event["payload"]["order"]), (&"OrderPaid".into(), &"ada".into(), &17.into()));
    assert_eq!((&event["id"], &event["tags"]), (&id.trim().into(), &serde_json::json!({"order": "17"})));
    let rest = place.json(&["topics", "read", "orders", "--after", event["position"].as_str().unwrap()]);
    assert_eq!(rest["events"][0]["id"], "order-18-paid");

    let shown = place.json(&["topics", "show", "orders"]);
    let billing = &shown["subscriptions"][0];
    assert_eq!((&shown["events"], &billing["behind"], &billing["from"]), (&2.into(), &2.into(), &"start".into()));
    assert_eq!(billing["stop_reason"], "no live worker serves it");
    let text = place.ok(&["topics", "show", "orders"]);
    assert!(text.contains("2 of 2 added in total") && text.contains("billing"), "{text}");
    assert!(place.ok(&["topics", "list"]).contains("orders"));

    let set = place.ok(&["topics", "set", "orders", "--bytes", "1GiB"]);
    assert!(set.contains("about 1.0 GiB"), "{set}");
    assert_eq!(place.json(&["topics", "show", "orders"])["retention"]["bytes"], 1_u64 << 30);
    let set = place.ok(&["topics", "set", "orders", "--count", "1", "--lag", "0s"]);
    assert!(set.contains("and 1 at most, and about 1.0 GiB; waits 0s for slow subscriptions"), "{set}");
    let trimmed = place.json(&["topics", "trim", "orders"]);
    assert_eq!((&trimmed["removed"], &trimmed["lost"]), (&1.into(), &1.into()));
    assert_eq!(place.json(&["topics", "show", "orders"])["subscriptions"][0]["lost"], 1);
    let told = place.ok(&["doctor"]);
    assert!(told.contains("billing@orders: 1 events were removed or damaged before it read them"), "{told}");
    let status = place.ok(&["status"]);
    assert!(status.contains("billing@orders: 1 events were removed or damaged before it read them, since it was created"), "{status}");
    assert_eq!(place.json(&["status"])["topic_warnings"][0]["queue"], "billing@orders");
    assert_eq!(place.json(&["status", "--queue", "orders"])["topic_warnings"], Value::Null, "one queue was asked for");
    assert!(place.ok(&["topics", "unsubscribe", "billing@orders"]).contains("is removed"));
    assert!(place.fails(&["topics", "unsubscribe", "billing@orders"]).contains("has no subscription `billing`"));
}

/// An event that has waited for most of the maximum lag expires soon, even if a subscription has
/// not read it.
#[test]
fn an_event_that_will_be_gone_before_it_is_read_is_reported_in_time() {
    let place = bed();
    place.ok(&["topics", "subscribe", "billing@orders", "--from", "start"]);
    place.ok(&["topics", "publish", "orders", "OrderPaid", r#"{"order":17}"#]);
    let soon = "the topic keeps unread events for 0s";
    for command in ["status", "doctor"] {
        assert!(!place.ok(&[command]).contains("the topic keeps unread events"), "there are days");
    }
    place.ok(&["topics", "set", "orders", "--lag", "0s"]);
    for command in ["status", "doctor"] {
        let told = place.ok(&[command]);
        assert!(told.contains("billing@orders: its oldest unread event is") && told.contains(soon), "{told}");
    }
}

#[test]
fn a_person_rewinds_a_subscription() {
    let place = bed();
    place.ok(&["topics", "subscribe", "billing@orders", "--from", "now"]);
    for order in 1..4 {
        place.ok(&["topics", "publish", "orders", "OrderPaid", &format!(r#"{{"order":{order}}}"#)]);
    }
    let rewind = |to: &str, how: &str| place.json(&["topics", "rewind", "billing@orders", "--to", to, how]);
    let looked = rewind("start", "--dry-run");
    assert_eq!((&looked["again"], &looked["cancelled"], &looked["dry_run"]), (&0.into(), &0.into(), &true.into()));
    let error = place.fails(&["topics", "rewind", "billing@orders", "--to", "start"]);
    assert!(error.contains("add --yes to confirm") && error.contains("0 events again"), "{error}");
    let behind = || place.json(&["topics", "show", "orders"])["subscriptions"][0].clone();
    assert_eq!(behind()["behind"], 3);
    assert_eq!(rewind("now", "--yes")["again"], 0);
    assert_eq!((&behind()["behind"], &behind()["from"]), (&0.into(), &"now".into()));
    assert_eq!(rewind("2", "--yes")["again"], 2);
    assert_eq!((&behind()["behind"], &behind()["rewinding"]), (&2.into(), &false.into()));
    let text = place.ok(&["topics", "rewind", "billing@orders", "--to", "start", "--yes"]);
    assert!(text.contains("billing@orders reads 3 events again; 0 jobs cancelled"), "{text}");
}

#[test]
fn what_cannot_be_is_refused_with_advice() {
    let place = bed();
    for (arguments, problem) in [
        (&["show", "orders"][..], "no topic `orders`; there is none"),
        (&["subscribe", "billing", "--from", "now"], "write them as `billing@orders`"),
        (&["subscribe", "billing@orders", "--from", "yesterday"], "write `start`, `now`, or a time"),
        (&["publish", "orders", "OrderPaid", "17"], "is not a JSON object"),
        (&["set", "orders"], "nothing to set: give --age, --count, --bytes or --lag"),
        (&["set", "orders", "--bytes", "many"], "as `1GiB`"),
        (&["set", "orders", "--count", "0"], "would keep nothing"),
        (&["rewind", "billing@orders", "--to", "yesterday"], "or a position that `topics read` has printed"),
        (&["rewind", "billing@orders", "--to", "now", "--yes"], "topic `orders` has no subscription `billing`"),
        (&["read", "orders", "--after", "first"], "is not a position in this log"),
    ] {
        let error = place.fails(&[&["topics"], arguments].concat());
        assert!(error.contains(problem), "{arguments:?}: {error}");
    }
}
