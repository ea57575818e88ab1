//! Every mistake in the declaration of a task gives one message, at the token that has to change,
//! naming the fix.
//!
//! `TRYBUILD=overwrite cargo test -p queue-macros --test macros mistakes` rewrites the `.stderr`
//! files. Read them before committing.

use std::{fs, path::Path};

#[test]
fn each_mistake_is_reported_as_expected() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("ui/*.rs");
}

/// The messages of the compiler are compared above. This test checks that there is only one.
#[test]
fn each_mistake_gives_exactly_one_message() {
    let mut seen = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("ui")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "stderr") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let messages = text.lines().filter(|line| line.starts_with("error") || line.starts_with("warning")).count();
        assert_eq!(messages, 1, "{} has {messages} messages:\n{text}", path.display());
        seen += 1;
    }
    assert!(seen > 40, "only {seen} cases were found");
}
