//! The program `queue`, with a shell and a browser.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use queue_tests::{
    folder::folder,
    patience::{Lines, exit, output, patience},
};
use serde_json::Value;

fn queue(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_queue"));
    command.args(arguments).env("QUEUE_URL", format!("sqlite://{}", folder.join("queue.db").display()));
    command.env_remove("QUEUE_DASHBOARD_TOKEN").env_remove("RUST_LOG");
    command
}

fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = output(&mut queue(folder, arguments)).unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn it_has_every_command_and_enqueues_tasks_that_it_does_not_know() {
    let folder = folder();
    let run = |arguments: &[&str]| run(folder.path(), arguments);
    let (code, _, help) = run(&[]);
    assert_eq!(code, 2);
    for command in ["work", "tasks", "enqueue", "status", "workers", "doctor", "jobs", "queues", "backup", "exporter", "dashboard"] {
        assert!(help.contains(&format!("\n  {command} ")), "no `{command}` in {help}");
    }
    assert!(run(&["enqueue", "send_mail"]).2.contains("--queue"));
    assert_eq!(run(&["enqueue", "send_mail", "--queue", "mail", "--args", "[1]"]).0, 2);
    let arguments = ["enqueue", "send_mail", "--queue", "mail", "--args", r#"{"to":"ada","n":[1,null]}"#, "--id", "one"];
    let (code, job, reported) = run(&arguments);
    assert_eq!((code, job.as_str()), (0, "mail/one\n"));
    assert!(reported.contains("no worker has ever served queue `mail`"), "{reported}");
    let job: Value = serde_json::from_str(&run(&["jobs", "show", "mail/one", "--json"]).1).unwrap();
    assert_eq!((&job["task"], &job["payload"]), (&"send_mail".into(), &serde_json::json!({"to": "ada", "n": [1, null]})));
    run(&["enqueue", "send_mail", "--queue", "mail", "--args", r#"{"order":17}"#, "--id", "two", "--tag", "order=17", "--tag", "shop=4"]);
    let (code, reported, warned) = run(&["jobs", "edit", "mail/two", "--payload", r#"{"order":18}"#, "--json"]);
    assert!(code == 0 && warned.contains("the tag order=17 is unchanged") && !warned.contains("shop=4"), "{warned}");
    assert_eq!(serde_json::from_str::<Value>(&reported).unwrap()["stale_tags"], serde_json::json!({"order": "17"}));
    assert_eq!(run(&["jobs", "cancel", "mail/two"]).0, 0);
    let (code, _, reported) = run(&["work"]);
    assert!(code == 6 && reported.contains("start the worker binary of your application"), "{reported}");
    assert_eq!(run(&["jobs", "cancel", "mail/one"]).0, 0);
}

#[test]
fn a_dashboard_that_strangers_could_use_does_not_start() {
    let folder = folder();
    let run = |arguments: &[&str]| run(folder.path(), arguments);
    assert_eq!(run(&["enqueue", "x", "--queue", "mail"]).0, 0);
    for arguments in [
        &["dashboard", "--bind", "0.0.0.0:0"][..],
        &["dashboard", "--bind", "0.0.0.0:0", "--insecure-no-auth"],
        &["dashboard", "--bind", "[::]:0"],
    ] {
        let (code, out, reported) = run(arguments);
        assert_eq!((code, out.as_str()), (6, ""), "{arguments:?}: {reported}");
        assert!(reported.contains("does not listen on"), "{reported}");
    }
    let token = folder.path().join("token");
    std::fs::write(&token, "short\n").unwrap();
    let (code, _, reported) = run(&["dashboard", "--token-file", token.to_str().unwrap(), "--bind", "127.0.0.1:0"]);
    assert!(code == 6 && reported.contains("shorter than 16"), "{reported}");
}

/// A running dashboard. It is killed at the end.
struct Served(Child, String);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(folder: &Path, arguments: &[&str]) -> Served {
    start(folder, &[&["dashboard", "--bind", "127.0.0.1:0"], arguments].concat())
}

/// A command that prints its address and serves until it is killed.
fn start(folder: &Path, arguments: &[&str]) -> Served {
    let mut child = queue(folder, arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let url = Lines::of(child.stdout.take().unwrap()).next();
    Served(child, url)
}

fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    let (line, headers) = request.split_once('\n').unwrap_or((request, ""));
    write!(stream, "{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_exporter_reports_queues_without_a_worker() {
    let folder = folder();
    assert_eq!(run(folder.path(), &["enqueue", "send_mail", "--queue", "mail"]).0, 0);
    let mut served = start(folder.path(), &["exporter", "--bind", "127.0.0.1:0"]);
    let address = served.1.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let answer = ask(address, "GET /metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/plain"), "{answer}");
    for line in ["queue_workers{queue=\"mail\"} 0\n", "queue_jobs{queue=\"mail\",state=\"ready\"} 1\n"] {
        assert!(answer.contains(line), "no {line}: {answer}");
    }
    assert!(ask(address, "GET /").starts_with("HTTP/1.1 404") && ask(address, "POST /metrics").starts_with("HTTP/1.1 405"));
    assert!(Command::new("kill").arg(served.0.id().to_string()).status().unwrap().success());
    assert!(exit(&mut served.0).success(), "a signal ends it in order");
}

#[test]
fn a_dashboard_asks_for_its_token_is_read_only_and_stops_while_a_page_is_open() {
    let folder = folder();
    assert_eq!(run(folder.path(), &["enqueue", "send_mail", "--queue", "mail", "--id", "one"]).0, 0);
    let mut served = serve(folder.path(), &[]);
    let (address, token) = served.1.strip_prefix("http://").unwrap().split_once("/?token=").unwrap();
    assert!(ask(address, "GET /").starts_with("HTTP/1.1 401"));
    assert!(ask(address, "GET /?token=0123456789abcdef0123456789abcdef").starts_with("HTTP/1.1 401"));
    let opened = ask(address, &format!("GET /?token={token}"));
    assert!(opened.starts_with("HTTP/1.1 303") && opened.contains("location: /\r\n"), "{opened}");
    let cookie = opened.lines().find_map(|line| line.strip_prefix("set-cookie: queue_session_")).unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Lax"), "{cookie}");
    let cookie = format!("cookie: queue_session_{}\r\n", cookie.split(';').next().unwrap());
    assert!(!cookie.contains(token), "the cookie is not the token");
    let page = ask(address, &format!("GET /jobs/mail/one\n{cookie}"));
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("send_mail") && !page.contains("formaction"), "{page}");
    assert!(ask(address, &format!("GET /queues\nauthorization: Bearer {token}\r\n")).starts_with("HTTP/1.1 200"));
    assert!(ask(address, &format!("POST /jobs/cancel\n{cookie}content-length: 0\r\n")).starts_with("HTTP/1.1 403"));

    // An open page does not delay the end of the process.
    let mut open = TcpStream::connect(address).unwrap();
    write!(open, "GET /live/overview HTTP/1.1\r\nhost: {address}\r\n{cookie}\r\n").unwrap();
    let mut first = [0; 64];
    open.set_read_timeout(Some(patience())).unwrap();
    open.read_exact(&mut first).unwrap();
    assert!(Command::new("kill").arg(served.0.id().to_string()).status().unwrap().success());
    assert!(exit(&mut served.0).success());
}
