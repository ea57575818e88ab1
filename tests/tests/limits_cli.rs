//! Limits on the command line: what a person sets holds from the next claim on, and what cannot be is refused with a way out.

use queue_core::{Client, prelude::*};
use queue_tests::command_line::Place;
use serde_json::Value;

const SHOP: &str = env!("CARGO_BIN_EXE_shop_worker");

#[task(queue = "orders", limit(name = "stripe", by = [account], concurrency = 2))]
async fn charge(account: String) {
    drop(account);
}

#[tokio::test]
async fn a_person_sets_shows_and_removes_limits() {
    let place = Place::sqlite(SHOP);
    let client = Client::connect(place.url()).await.unwrap();
    let job = charge::job("acct_17".to_owned()).enqueue(&client).await.unwrap();
    assert!(place.ok(&["jobs", "show", &job.address().to_string()]).contains("stripe by acct_17"));

    let unknown = place.fails(&["limits", "set", "orders/stripe", "--concurrency", "4"]);
    assert!(unknown.contains("has no limit `stripe`; it has none; to make one that no task declares, add `--new`"), "{unknown}");
    let set = place.ok(&["limits", "set", "orders/stripe", "--concurrency", "4", "--rate", "100/1m", "--burst", "20", "--new"]);
    assert_eq!(set.trim(), "orders/stripe: concurrency 4, rate 100/1m, burst 20");
    let listed: Value = place.json(&["limits", "list", "orders"]);
    let limit = &listed[0];
    assert_eq!((&limit["limit"], &limit["concurrency"], &limit["rate"]), (&"stripe".into(), &4.into(), &"100/1m".into()));
    assert!(place.ok(&["limits", "list", "orders"]).contains("stripe"));
    let shown = place.ok(&["limits", "show", "orders/stripe"]);
    assert!(shown.contains("holds     concurrency 4, rate 100/1m, burst 20") && shown.contains("declared  nothing"), "{shown}");
    assert!(place.ok(&["limits", "remove", "orders/stripe"]).contains("is removed; its jobs stay"));
    assert!(place.fails(&["limits", "remove", "orders/stripe"]).contains("queue `orders` has no limit `stripe`; it has none"));
    assert_eq!(client.inspector().stats("orders").await.unwrap().jobs(), 1);
}

#[test]
fn a_limit_that_cannot_be_is_refused_with_a_way_out() {
    let place = Place::sqlite(SHOP);
    place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":1}"#]);
    for (arguments, problem) in [
        (&["orders/stripe"][..], "nothing to set: say --concurrency, --rate or --burst"),
        (&["orders/stripe", "--burst", "5"], "burst `5` belongs to a rate, and there is none; add `rate`"),
        (&["orders/stripe", "--rate", "1/1s", "--burst", "0"], "burst `0` would let nothing start"),
        (&["orders/stripe", "--rate", "fast"], "write starts and a period: `100/1m`"),
        (&["orders/stripe", "--rate", "0/1s"], "to close a limit, set its concurrency to 0"),
        (&["orders/stripe", "--rate", "1000000/1s"], "more than 10000 per second"),
        (&["orders", "--concurrency", "1"], "write them as `orders/stripe`"),
        (&["orders/a b", "--concurrency", "1"], "limit `a b`"),
    ] {
        let error = place.fails(&[&["limits", "set", "--new"], arguments].concat());
        assert!(error.contains(problem), "{arguments:?}: {error}");
    }
    assert!(place.fails(&["limits", "show", "orders/stripe"]).contains("has no limit `stripe`"));
}
