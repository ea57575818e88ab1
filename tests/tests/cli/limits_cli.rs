//! Limits on the command line: a setting applies from the next claim on, and an invalid one is
//! refused with a fix.

use std::collections::BTreeMap;

use queue_core::{__private::declare_limits, Client, Task, prelude::*};
use queue_tests::{command_line::Place, patience::WatchBroker};
use serde_json::Value;

const SHOP: &str = env!("CARGO_BIN_EXE_shop_worker");

#[task(queue = "orders", limit(name = "stripe", by = [account], concurrency = 2))]
async fn charge(account: String) {
    drop(account);
}

#[tokio::test]
async fn a_person_sets_shows_and_removes_limits() {
    let place = Place::sqlite(SHOP);
    let client = Client::connect(place.url()).await.unwrap().watched();
    let job = charge::job("acct_17".to_owned()).enqueue(&client).await.unwrap();
    assert!(place.ok(&["jobs", "show", &job.address().to_string()]).contains("stripe by acct_17"));

    let unknown = place.fails(&["limits", "set", "orders/stripe", "--concurrency", "4"]);
    assert!(unknown.contains("has no limit `stripe`; it has none; to make one that no task declares, add `--new`"), "{unknown}");
    for arguments in [&["limits", "set", "orders/stripe", "--concurrency", "4", "--json"][..], &["limits", "set", "orders", "--json"]] {
        let refused: Value = serde_json::from_str(place.fails(arguments).trim()).unwrap();
        assert!(refused["error"].as_str().is_some_and(|problem| !problem.starts_with("error")), "{refused}");
    }
    let set = place.ok(&["limits", "set", "orders/stripe", "--concurrency", "4", "--rate", "100/1m", "--burst", "20", "--new"]);
    assert_eq!(set.trim(), "orders/stripe: concurrency 4, rate 100/1m, burst 20");
    let listed: Value = place.json(&["limits", "list", "--queue", "orders"]);
    assert_eq!(listed, place.json(&["limits", "list"]), "there is one queue");
    let limit = &listed["limits"][0];
    assert_eq!(limit["queue"], "orders");
    assert_eq!((&limit["limit"], &limit["concurrency"], &limit["rate"]), (&"stripe".into(), &4.into(), &"100/1m".into()));
    assert!(place.ok(&["limits", "list", "--queue", "orders"]).contains("stripe"));
    let shown = place.ok(&["limits", "show", "orders/stripe"]);
    assert!(shown.contains("holds     concurrency 4, rate 100/1m, burst 20") && shown.contains("declared  nothing"), "{shown}");
    let removed = place.run(&["limits", "remove", "orders/stripe"]);
    assert_eq!((String::from_utf8(removed.stdout).unwrap().contains("is removed; its jobs stay"), removed.stderr.is_empty()), (true, true));
    assert!(place.fails(&["limits", "remove", "orders/stripe"]).contains("queue `orders` has no limit `stripe`; it has none"));
    assert_eq!(client.inspector().stats("orders").await.unwrap().jobs(), 1);

    let [declared] = <charge as Task>::definition().limits else { panic!("the task has one limit") };
    declare_limits(client.broker(), &"orders".into(), "v1", &BTreeMap::from([(declared.name, declared.rule)])).await.unwrap();
    let told = String::from_utf8(place.run(&["limits", "remove", "orders/stripe"]).stderr).unwrap();
    assert!(told.contains("code has declared it (concurrency 2): a worker that declares it stores it again within a minute"), "{told}");
}

#[test]
fn a_limit_that_cannot_be_is_refused_with_advice() {
    let place = Place::sqlite(SHOP);
    place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":1}"#]);
    for (arguments, problem) in [
        (&["orders/stripe"][..], "nothing to set: give --concurrency, --rate or --burst"),
        (&["orders/stripe", "--burst", "5"], "burst `5` needs a rate; add `rate`"),
        (&["orders/stripe", "--rate", "1/1s", "--burst", "0"], "burst `0` would let nothing start"),
        (&["orders/stripe", "--rate", "fast"], "write starts and a period: `100/1m`"),
        (&["orders/stripe", "--rate", "0/1s"], "to close a limit, set its concurrency to 0"),
        (&["orders/stripe", "--rate", "1000000/1s"], "more than 10000 per second"),
        (&["orders", "--concurrency", "1"], "it has no `/`; write the queue and the name as one argument"),
        (&["orders/a b", "--concurrency", "1"], "limit `a b`"),
    ] {
        let error = place.fails(&[&["limits", "set", "--new"], arguments].concat());
        assert!(error.contains(problem), "{arguments:?}: {error}");
    }
    assert!(place.fails(&["limits", "show", "orders/stripe"]).contains("has no limit `stripe`"));
}

#[test]
fn an_enqueue_by_limits_that_could_not_hold_is_refused() {
    let place = Place::sqlite(SHOP);
    let enqueue = |options: &[&str]| place.run(&[&["enqueue", "close_order", "--args", r#"{"order_id":1}"#], options].concat());
    assert!(enqueue(&[]).status.success());
    place.ok(&["limits", "set", "orders/tokens", "--rate", "1/1h", "--burst", "2", "--new"]);
    for (options, problem) in [
        (&["--limit", "tokens=a", "--cost", "3"][..], "cost `3` is more than the burst 2 of the limit `tokens`"),
        (&["--limit", "tokens=a", "--limit", "tokens=b"], "--limit `tokens` is given twice"),
        (&["--tag", "order=1", "--tag", "order=2"], "--tag `order` is given twice"),
        (&["--header", "trace=1", "--header", "trace=2"], "--header `trace` is given twice"),
    ] {
        let output = enqueue(options);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(problem), "{options:?}: {error}");
    }
    assert!(enqueue(&["--limit", "tokens=a", "--cost", "2"]).status.success());
    let jobs: Value = place.json(&["jobs", "list"]);
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(2), "what was refused is not stored: {jobs}");
}
