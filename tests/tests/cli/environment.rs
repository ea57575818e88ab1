//! Environment variables: an empty or invalid value is refused, and is not treated as a missing
//! one.

#![cfg(unix)]

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, process::Stdio};

use queue_tests::{command_line::Place, patience};

#[test]
fn an_empty_variable_is_refused() {
    let place = Place::sqlite(env!("CARGO_BIN_EXE_rude_worker"));
    place.ok(&["enqueue", "obey"]);
    let cases: [(&str, &[&str], i32); 3] =
        [("QUEUE_URL", &["status"], 2), ("QUEUE_RELEASE", &["work", "--grace", "1s"], 6), ("RUST_LOG", &["work", "--grace", "1s"], 2)];
    for (variable, arguments, code) in cases {
        for value in [&b""[..], b"\xff\xfe"] {
            let mut command = place.command(arguments);
            command.env(variable, OsStr::from_bytes(value)).stdin(Stdio::null());
            let output = patience::output(&mut command).unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{variable} is {value:?}: {error}");
            assert!(error.contains(variable), "{variable} is {value:?}: {error}");
        }
    }
    let mut command = place.command(&["work", "--grace", "1s"]);
    let output = patience::output(command.env("RUST_LOG", "info,[")).unwrap();
    assert_eq!(output.status.code(), Some(2), "a filter that cannot be read is not the default");
}
