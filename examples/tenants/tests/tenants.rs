//! Runs the example as a program.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::TcpStream,
    process::Command,
};

use queue_tests::{
    folder::{folder, root},
    patience::{output, patience, wait_for},
    process::Process,
};
use serde_json::Value;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenants"));
    command.env_remove("QUEUE_URL").env("TMPDIR", root());
    command
}

#[test]
fn small_tenants_are_done_early_and_who_is_refused_waits_alone() {
    let ended = output(program().args(["--json", "--rows", "80"])).unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let line = |tenant: &str| report.as_array().unwrap().iter().find(|line| line["tenant"] == tenant).unwrap();
    let number = |tenant: &str, field: &str| line(tenant)[field].as_u64().unwrap();
    for (tenant, jobs) in [("acme", 80), ("globex", 40), ("initech", 12), ("hooli", 6), ("umbrella", 3)] {
        assert_eq!(number(tenant, "jobs"), jobs);
    }
    for small in ["hooli", "umbrella"] {
        assert!(number(small, "all_ms") < number("acme", "half_ms"), "{small} was enqueued last and is done early: {report}");
    }
    assert!(number("initech", "refused") > 0, "its plan is smaller than the limit that the task declares: {report}");
    assert_eq!(number("acme", "refused"), 0, "its limit keeps it below what the service allows: {report}");
    // 5 of its 80 rows start at once, and 20 in each second. They are never faster, even on an idle
    // machine.
    assert!(number("acme", "all_ms") >= 3_750, "its rate holds: {report}");
    // Some samples find jobs that wait for the rate.
    assert!(line("acme")["waited_for"]["rate_limited"].as_u64().is_some_and(|percent| percent > 0), "{report}");
}

#[test]
fn tenants_enqueue_over_the_api() {
    let folder = folder();
    let log = folder.path().join("log");
    let _program = Process::start(program().args(["--listen", "127.0.0.1:0"]).stderr(File::create(&log).unwrap()));
    let address = wait_for("the address", || {
        let said = fs::read_to_string(&log).unwrap();
        Some(said.split_once("http://")?.1.split_once(';')?.0.to_owned())
    });
    let ask = |method: &str, body: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        let head = format!("{method} /tenants/acme/imports HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
        let of_body = format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(format!("{head}{of_body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let refused = ask("POST", r#"{"rows": 1000000}"#);
    assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("send several imports"), "{refused}");
    let answer = ask("POST", r#"{"rows": 500}"#);
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    let depth = ask("GET", "");
    assert!(depth.starts_with("HTTP/1.1 200") && depth.contains(r#""waiting":"#), "{depth}");
}
