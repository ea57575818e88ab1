//! Runs the example as a program.

use std::process::Command;

use queue_conformance::{folder::root, patience};

#[test]
fn each_subscription_receives_each_order_even_after_a_pause() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_events"));
    let ended = patience::output(command.env_remove("QUEUE_URL").env("TMPDIR", root())).unwrap();
    let (said, errors) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{errors}");
    let rows: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    let last = |name: &str| rows.iter().rev().find(|row| row.first() == Some(&name)).cloned().unwrap_or_default();
    assert_eq!(last("billing")[..3], ["billing", "6", "0"], "{said}");
    for name in ["mail", "audit"] {
        assert_eq!(last(name)[1], "5", "{said}");
    }
    assert!(rows.contains(&vec!["mail", "0", "6", "0"]), "it waited for mail: {said}");
    assert!(said.contains("billing: order 1 is refunded, cancelled by ada"), "{said}");
}

/// `--help` prints help and opens no queue.
#[test]
fn a_question_for_help_starts_nothing() {
    let run = |argument: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_events"));
        patience::output(command.arg(argument).env("QUEUE_URL", "redis://127.0.0.1:1")).unwrap()
    };
    for argument in ["--help", "-h"] {
        let help = run(argument);
        assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("Usage: events"), "{help:?}");
    }
    let refused = run("--hlep");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--hlep"), "{refused:?}");
}
