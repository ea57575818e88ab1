//! Topics on the command line: publish, read, subscribe and see how far each is.

use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn run(folder: &TempDir, arguments: &[&str]) -> Output {
    let url = format!("sqlite://{}", folder.path().join("queue.db").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_shop_worker"));
    command.args(arguments).current_dir(folder.path()).env_remove("RUST_LOG").env("QUEUE_URL", url);
    command.output().unwrap()
}

fn ok(folder: &TempDir, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(folder: &TempDir, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn json(folder: &TempDir, arguments: &[&str]) -> Value {
    serde_json::from_str(&ok(folder, &[arguments, &["--json"]].concat())).unwrap()
}

/// A file that exists: commands that look make none.
fn bed() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    ok(&folder, &["enqueue", "close_order", "--args", r#"{"order_id":1}"#]);
    folder
}

#[test]
fn a_person_publishes_reads_and_subscribes() {
    let folder = bed();
    assert_eq!(json(&folder, &["topics", "list"]), Value::Array(Vec::new()));
    assert!(ok(&folder, &["topics", "subscribe", "billing@orders", "--from", "start"]).contains("is made"));
    assert!(ok(&folder, &["topics", "subscribe", "billing@orders", "--from", "now"]).contains("goes on where it is"));
    let id = ok(&folder, &["topics", "publish", "orders", "OrderPaid", r#"{"order":17}"#, "--group", "ada"]);
    ok(&folder, &["topics", "publish", "orders", "OrderPaid", r#"{"order":18}"#, "--id", "order-18-paid"]);

    let events = json(&folder, &["topics", "read", "orders", "--limit", "1"]);
    let event = &events[0];
    assert_eq!((&event["type"], &event["group"], &event["payload"]["order"]), (&"OrderPaid".into(), &"ada".into(), &17.into()));
    assert_eq!(event["id"], id.trim());
    let rest = json(&folder, &["topics", "read", "orders", "--after", event["position"].as_str().unwrap()]);
    assert_eq!(rest[0]["id"], "order-18-paid");

    let shown = json(&folder, &["topics", "show", "orders"]);
    let billing = &shown["subscriptions"][0];
    assert_eq!((&shown["events"], &billing["behind"], &billing["from"]), (&2.into(), &2.into(), &"start".into()));
    assert_eq!(billing["stands_because"], "no worker serves it");
    let text = ok(&folder, &["topics", "show", "orders"]);
    assert!(text.contains("2 of 2 that were ever added") && text.contains("billing"), "{text}");
    assert!(ok(&folder, &["topics", "list"]).contains("orders"));

    let set = ok(&folder, &["topics", "set", "orders", "--count", "1", "--lag", "0s"]);
    assert!(set.contains("and 1 at most; waits 0s for slow subscriptions"), "{set}");
    let trimmed = json(&folder, &["topics", "trim", "orders"]);
    assert_eq!((&trimmed["removed"], &trimmed["lost"]), (&1.into(), &1.into()));
    assert_eq!(json(&folder, &["topics", "show", "orders"])["subscriptions"][0]["lost"], 1);
    assert!(ok(&folder, &["topics", "unsubscribe", "billing@orders"]).contains("is removed"));
    assert!(refused(&folder, &["topics", "unsubscribe", "billing@orders"]).contains("has no subscription `billing`"));
}

#[test]
fn what_cannot_be_is_refused_with_a_way_out() {
    let folder = bed();
    for (arguments, problem) in [
        (&["show", "orders"][..], "no topic `orders`; there is none"),
        (&["subscribe", "billing", "--from", "now"], "write them as `billing@orders`"),
        (&["subscribe", "billing@orders", "--from", "yesterday"], "write `start`, `now`, or a time"),
        (&["publish", "orders", "OrderPaid", "17"], "is no JSON object"),
        (&["set", "orders"], "nothing to set: say --age, --count or --lag"),
        (&["set", "orders", "--count", "0"], "would keep nothing"),
        (&["read", "orders", "--after", "first"], "is none of this log"),
    ] {
        let error = refused(&folder, &[&["topics"], arguments].concat());
        assert!(error.contains(problem), "{arguments:?}: {error}");
    }
}
