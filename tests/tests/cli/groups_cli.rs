//! Groups on the command line: rules apply from the next claim on, and invalid ones are refused
//! with a fix.

use queue_core::{__private::declare_groups, Client, inspect::GroupRule, prelude::*};
use queue_tests::{command_line::Place, patience::WatchBroker};
use serde_json::Value;

const SHOP: &str = env!("CARGO_BIN_EXE_shop_worker");

#[task(queue = "orders", group = tenant)]
async fn bill(tenant: String) {
    drop(tenant);
}

#[task(queue = "notes")]
async fn note() {}

#[tokio::test]
async fn a_person_lists_groups_and_sets_their_rules() {
    let place = Place::sqlite(SHOP);
    let client = Client::connect(place.url()).await.unwrap().watched();
    for tenant in ["acme", "acme", "globex"] {
        bill::job(tenant.to_owned()).enqueue(&client).await.unwrap();
    }
    let listed: Value = place.json(&["groups", "list", "--queue", "orders"])["queues"][0].clone();
    let depth = |listed: &Value, at: usize| (listed["groups"][at]["group"].to_string(), listed["groups"][at]["ready"].as_u64());
    assert_eq!((depth(&listed, 0), depth(&listed, 1)), (("\"acme\"".to_owned(), Some(2)), ("\"globex\"".to_owned(), Some(1))));

    // All queues, and a queue without groups.
    client.enqueue_all([note::job()]).await.unwrap();
    let all: Value = place.json(&["groups", "list"]);
    assert_eq!((&all["queues"][0]["queue"], &all["queues"][1]["queue"]), (&"notes".into(), &"orders".into()), "{all}");
    assert!(place.ok(&["groups", "list"]).lines().any(|line| line.starts_with("orders  acme")));

    place.ok(&["groups", "set", "orders/acme", "--weight", "3", "--cap", "10"]);
    place.ok(&["groups", "set", "orders/*", "--max-size", "100"]);
    place.ok(&["groups", "pause", "orders/acme", "orders/globex"]);
    let shown = place.ok(&["groups", "show", "orders/acme"]);
    for line in ["weight    3", "cap       10", "max size  100 (all groups)"] {
        assert!(shown.lines().any(|shown| shown.trim_end() == line), "{line}: {shown}");
    }
    assert!(shown.contains("paused    "), "{shown}");
    place.ok(&["groups", "resume", "orders/acme"]);
    let table = place.ok(&["groups", "list", "--queue", "orders"]);
    assert!(table.contains("globex") && table.contains("yes") && table.contains('*'), "{table}");
    place.ok(&["groups", "set", "orders/acme", "--clear"]);
    let shown: Value = place.json(&["groups", "show", "orders/acme"]);
    assert_eq!((&shown["weight"], &shown["paused"]), (&Value::Null, &Value::Bool(false)));
    let jobs = place.ok(&["jobs", "list", "--state", "ready", "group=acme", "--json"]).replace(' ', "");
    assert_eq!((jobs.matches(r#""group":"acme""#).count(), jobs.contains("globex")), (2, false), "{jobs}");
}

#[tokio::test]
async fn a_person_sees_what_code_declares_of_groups_and_goes_over_it() {
    let place = Place::sqlite(SHOP);
    let client = Client::connect(place.url()).await.unwrap().watched();
    bill::job("acme".to_owned()).enqueue(&client).await.unwrap();
    let mut rule = GroupRule::new();
    (rule.cap, rule.max_size) = (Some(2), Some(100));
    declare_groups(client.broker(), &"orders".into(), "v1", &rule).await.unwrap();
    let shows = |lines: &[&str]| {
        let shown = place.ok(&["groups", "show", "orders/acme"]);
        for line in lines {
            assert!(shown.lines().any(|shown| shown.trim_end() == *line), "{line}: {shown}");
        }
    };
    shows(&["weight    1", "cap       2 (code)", "max size  100 (code)", "order     any"]);
    place.ok(&["groups", "set", "orders/*", "--cap", "5"]);
    shows(&["cap       5 (all groups)", "max size  100 (code)"]);
    let table = place.ok(&["groups", "list", "--queue", "orders"]);
    assert!(table.contains("* (code)"), "{table}");
    let listed: Value = place.json(&["groups", "list", "--queue", "orders"])["queues"][0].clone();
    assert_eq!((&listed["others"]["cap"], &listed["declared"]["cap"]), (&Value::from(5), &Value::from(2)));
    let shown: Value = place.json(&["groups", "show", "orders/acme"]);
    assert_eq!((&shown["cap"], &shown["holds"]["cap"], &shown["holds"]["max_size"]), (&Value::Null, &Value::from(5), &Value::from(100)));
    place.ok(&["groups", "set", "orders/*", "--clear"]);
    shows(&["cap       2 (code)"]);
    place.ok(&["groups", "set", "orders/*", "--clear"]);
    shows(&["cap       none", "max size  none"]);
}

#[test]
fn a_rule_that_cannot_be_is_refused_with_advice() {
    let place = Place::sqlite(SHOP);
    place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":1}"#, "--group", "acme"]);
    let weight = place.fails(&["groups", "set", "orders/acme", "--weight", "0"]);
    assert!(weight.contains("weight `0` is not between 1 and 1000; to stop the group, pause it"), "{weight}");
    let contradiction = place.fails(&["groups", "set", "orders/acme", "--order", "ordered", "--cap", "2"]);
    assert!(contradiction.contains("cap `2` contradicts the order `ordered`"), "{contradiction}");
    place.ok(&["groups", "set", "orders/*", "--order", "ordered"]);
    let across = place.fails(&["groups", "set", "orders/acme", "--cap", "2"]);
    assert!(across.contains("cap `2` contradicts the order `ordered` of all groups"), "{across}");
    assert!(across.contains("give `acme` the order `any`"), "{across}");
    place.ok(&["groups", "set", "orders/acme", "--cap", "2", "--order", "any"]);
    place.ok(&["groups", "set", "orders/*", "--clear"]);
    let nothing = place.fails(&["groups", "set", "orders/acme"]);
    assert!(nothing.contains("nothing to set"), "{nothing}");
    let order = place.fails(&["groups", "set", "orders/acme", "--order", "fifo"]);
    assert!(order.contains("any, ordered, skip_failed"), "{order}");
    let long = place.fails(&["groups", "show", &format!("orders/{}", "x".repeat(257))]);
    assert!(long.contains("257 bytes"), "{long}");
    let plain = place.fails(&["groups", "set", "orders/-", "--cap", "1"]);
    assert!(plain.contains("only a weight"), "{plain}");
}

#[test]
fn what_stands_for_many_groups_is_no_group() {
    let place = Place::sqlite(SHOP);
    place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":1}"#, "--group", "acme"]);
    for command in ["pause", "resume", "show", "drain", "cancel"] {
        let all = place.fails(&["groups", command, "orders/*"]);
        assert!(all.contains("`*` means all groups") && all.contains("`queues pause` pauses a whole queue"), "{command}: {all}");
        let none = place.fails(&["groups", command, "orders/-"]);
        assert!(none.contains("`-` means jobs without a group"), "{command}: {none}");
    }
    place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":3}"#]);
    assert_eq!(place.ok(&["jobs", "cancel", "--all", "--where", "group="]), "orders: 1 job cancelled\n", "the way out that is named");
    let cap = place.fails(&["groups", "set", "orders/-", "--cap", "3"]);
    assert!(cap.contains("cap `3` cannot be set for jobs without a group"), "{cap}");
    place.ok(&["groups", "set", "orders/acme", "--max-size", "1"]);
    let full = place.refused(4, &["enqueue", "close_order", "--args", r#"{"order_id":2}"#, "--group", "acme"]);
    assert!(full.contains("group `acme` of queue `orders` is full") && full.contains("groups set 'orders/acme' --max-size N"), "{full}");
}

#[test]
fn two_arguments_in_place_of_an_address_are_refused_with_the_address() {
    let place = Place::sqlite(SHOP);
    place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":1}"#, "--group", "acme"]);
    for old in [
        &["groups", "show", "orders", "acme"][..],
        &["groups", "set", "orders", "acme", "--cap", "1"],
        &["groups", "pause", "orders", "acme"],
        &["tasks", "pause", "close_order", "--queue", "orders"],
        &["keys", "release", "4f1d0c2e9b7a63d5801fb2c4e6a79d35"],
    ] {
        let refused = place.refused(2, old);
        assert!(refused.contains("write the queue and the name as one argument"), "{old:?}: {refused}");
    }
}

/// A name comes from the data of tenants. A terminal must not interpret it, and a shell must accept
/// it unchanged.
#[test]
fn the_name_of_a_group_is_plain_text() {
    let place = Place::sqlite(SHOP);
    let (red, quote, line) = ("a\u{1b}[31mred", "it's", "two\nlines");
    let [of_red, of_line] = [red, line].map(|group| format!("orders/{group}"));
    for (n, group) in [red, quote, line, "z", "the longest comes last"].into_iter().enumerate() {
        place.ok(&["enqueue", "close_order", "--args", &format!(r#"{{"order_id":{n}}}"#), "--group", group]);
    }
    let told = [
        place.ok(&["groups", "pause", &of_red, "--reason", "\u{1b}[31mlate"]),
        place.ok(&["groups", "show", &of_red]),
        place.ok(&["groups", "show", &of_line]),
        place.ok(&["groups", "resume", &of_red]),
        place.ok(&["groups", "drain", &of_line, "--yes"]),
    ];
    assert!(!told.concat().contains('\u{1b}') && told[2].contains("two lines") && told[4].lines().count() == 1, "{told:?}");
    let page = |after: &str| {
        let page = place.run(&["groups", "list", "--queue", "orders", "--limit", "1", "--after", after]);
        String::from_utf8(page.stderr).unwrap()
    };
    // Short names come first.
    assert!(page("z").contains(r"--after 'it'\''s'"), "{}", page("z"));
    assert!(page(quote).contains("`--json` has the group to continue after"), "{}", page(quote));
}

#[tokio::test]
async fn the_jobs_of_a_group_are_cancelled_and_those_of_others_are_not() {
    let place = Place::sqlite(SHOP);
    let client = Client::connect(place.url()).await.unwrap().watched();
    client.enqueue_all((0..1_100).map(|_| bill::job("acme".to_owned()))).await.unwrap();
    bill::job("globex".to_owned()).enqueue(&client).await.unwrap();
    let later = bill::job("acme".to_owned()).delay(std::time::Duration::from_secs(3600)).enqueue(&client).await.unwrap();
    place.ok(&["groups", "pause", "orders/acme", "--reason", "unpaid"]);
    let shown = place.ok(&["groups", "show", "orders/acme"]);
    assert!(shown.contains("paused    ") && shown.contains("unpaid") && shown.lines().any(|line| line.starts_with("oldest")), "{shown}");
    let asked = place.refused(2, &["groups", "drain", "orders/acme", "orders/globex"]);
    assert!(asked.contains("1102 jobs of orders/acme, orders/globex will be cancelled; add --yes to confirm"), "{asked}");
    let said = place.ok(&["groups", "drain", "orders/acme", "orders/initech", "--reason", "left", "--yes"]);
    assert_eq!(said, "orders/acme: 1101 jobs cancelled\norders/initech: 0 jobs cancelled\n");
    let jobs = place.ok(&["jobs", "show", &later.address().to_string()]);
    assert!(jobs.contains("left"), "{jobs}");
    let cancelled: Value = place.json(&["groups", "cancel", "orders/globex", "--yes"]);
    assert_eq!((&cancelled["groups"][0]["group"], &cancelled["groups"][0]["cancelled"]), (&Value::from("globex"), &Value::from(1)));
}

/// A rule may exist before the first job of its queue. The name of the queue may be misspelled.
#[tokio::test]
async fn a_queue_that_is_not_there_is_reported() {
    let place = Place::sqlite(SHOP);
    let client = Client::connect(place.url()).await.unwrap().watched();
    bill::job("acme".to_owned()).enqueue(&client).await.unwrap();
    for arguments in [["groups", "set", "ordres/acme", "--cap=1"], ["groups", "pause", "ordesr/acme", "--reason=unpaid"]] {
        let output = place.run(&arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && told.contains("there is no queue `ord") && told.contains("did you mean `orders`?"), "{told}");
    }
    let known = place.run(&["groups", "set", "orders/acme", "--cap=1"]);
    assert!(known.status.success() && known.stderr.is_empty());
    for command in ["drain", "cancel"] {
        let refused = place.fails(&["groups", command, "oders/acme"]);
        assert!(refused.contains("there is no queue `oders`: did you mean `orders`?"), "{refused}");
    }
}
