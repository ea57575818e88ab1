//! Unknown names, which are mostly typing errors: they are refused with a similar name.

use queue_tests::command_line::Place;

/// A queue `polite` with a job of a group, and a limit.
fn bed() -> Place {
    let place = Place::sqlite(env!("CARGO_BIN_EXE_rude_worker"));
    place.ok(&["enqueue", "obey", "--id", "it", "--group", "acme"]);
    place.ok(&["limits", "set", "polite/stripe", "--concurrency", "2", "--new"]);
    place.ok(&["groups", "set", "polite/acme", "--weight", "2"]);
    place
}

#[test]
fn a_name_that_nobody_knows_is_refused_with_the_nearest() {
    let place = bed();
    place.ok(&["schedules", "add", "nightly", "--cron", "0 3 * * *", "--task", "obey"]);
    place.ok(&["topics", "publish", "paid", "OrderPaid", "{\"order\":1}"]);
    place.ok(&["topics", "publish", "elsewhere", "Moved", "{}"]);
    let cases: [(i32, &[&str], &str); 21] = [
        (2, &["enqueue", "obey", "--limit", "strpe"], "did you mean `stripe`?"),
        (2, &["enqueue", "obey", "--limit", "nope"], "is not a limit of queue `polite`"),
        (3, &["enqueue", "obye"], "did you mean `obey`?"),
        (2, &["topics", "publish", "payd", "OrderPayd", "{}"], "did you mean `paid`?"),
        (2, &["topics", "publish", "paid", "OrderPayd", "{}"], "did you mean `OrderPaid`?"),
        (2, &["topics", "publish", "money", "OrderPaid", "{}"], "of topic `paid`, not of `money`."),
        (3, &["topics", "read", "piad"], "did you mean `paid`?"),
        (3, &["topics", "show", "piad"], "did you mean `paid`?"),
        (3, &["topics", "trim", "piad"], "did you mean `paid`?"),
        (3, &["groups", "show", "polite/acne"], "did you mean `acme`?"),
        (3, &["groups", "show", "polit/acme"], "did you mean `polite`?"),
        (3, &["groups", "resume", "polite/acne"], "did you mean `acme`?"),
        (3, &["groups", "list", "--queue", "polit"], "did you mean `polite`?"),
        (3, &["limits", "list", "--queue", "polit"], "did you mean `polite`?"),
        (3, &["limits", "show", "polite/strpe"], "did you mean `stripe`?"),
        (3, &["schedules", "show", "polite/nightli"], "did you mean `polite/nightly`?"),
        (3, &["schedules", "pause", "polite/nightli"], "did you mean `polite/nightly`?"),
        (3, &["schedules", "next", "polite/nightli"], "did you mean `polite/nightly`?"),
        (3, &["tasks", "pause", "polite/obye"], "did you mean `obey`?"),
        (3, &["jobs", "list", "--queue", "polit"], "did you mean `polite`?"),
        (3, &["queues", "pause", "polit"], "did you mean `polite`?"),
    ];
    for (code, arguments, said) in cases {
        let error = place.refused(code, arguments);
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
    assert_eq!(place.json(&["jobs", "list", "--queue", "polite"])["jobs"].as_array().map_or(0, Vec::len), 1, "nothing was stored");
}

#[test]
fn a_new_name_is_called_new_where_it_may_be() {
    let place = bed();
    let told = |arguments: &[&str]| {
        let output = place.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(told(&["topics", "publish", "elsewhere", "Moved", "{}"]).contains("topic `elsewhere` is new"));
    assert!(!told(&["topics", "publish", "elsewhere", "Moved", "{}"]).contains("is new"));
    assert!(told(&["topics", "subscribe", "mail@else", "--from", "now"]).contains("topic `else` is new"));
    assert!(told(&["groups", "pause", "polite/acne"]).contains("group `acne` of queue `polite` is new: did you mean `acme`?"));
    assert!(told(&["groups", "set", "polite/other", "--weight", "2"]).contains("group `other` of queue `polite` is new"));
    assert!(told(&["tasks", "pause", "polite/something"]).contains("task `something` is new in queue `polite`"));
    assert!(told(&["enqueue", "obey", "--queue", "polit"]).contains("Did you mean `polite`?"));
    assert!(!told(&["enqueue", "obey", "--limit", "stripe=a"]).contains("stripe"));
}
