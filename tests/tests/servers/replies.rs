//! What is said of each answer by which a server does not serve. The table is that of the module
//! `redis::connection::refusal`. What a real server can be made to say, a real one says; the others
//! are said by a server of the test's.

use std::{
    io::{Read, Write},
    net::TcpListener,
    process::Command,
    thread,
};

use queue_core::{Client, Error, prelude::*};
use queue_tests::{
    on_servers,
    patience::{WatchBroker, joined, output},
    server::{Kind, Server, free_port},
    wire::Wire,
};

on_servers! {
    a_busy_server_is_named_busy
    a_server_without_connections_left_is_named_so
    a_server_that_lacks_replicas_is_named_so
    a_database_that_does_not_exist_is_a_wrong_url
    tls_at_a_plain_port_is_a_wrong_url
    a_missing_password_is_asked_for
}

#[task(queue = "replies")]
async fn note(number: u32) {
    let _ = number;
}

/// A port where every request is answered with this line.
fn answers(line: &'static str) -> u16 {
    serve(move |mut stream| {
        let mut request = [0; 4096];
        while let Ok(1..) = stream.read(&mut request) {
            // Several requests may come in one piece: each begins with a star at the begin of a
            // line.
            let text = String::from_utf8_lossy(&request).into_owned();
            let count = text.split("\r\n").filter(|part| part.starts_with('*')).count();
            request.fill(0);
            if stream.write_all(format!("-{line}\r\n").repeat(count).as_bytes()).is_err() {
                return;
            }
        }
    })
}

/// A port where everybody is greeted with this line and turned away.
fn turns_away(line: &'static str) -> u16 {
    serve(move |mut stream| drop(stream.write_all(format!("-{line}\r\n").as_bytes())))
}

fn serve(conversation: impl Fn(std::net::TcpStream) + Send + Sync + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let conversation = conversation.clone();
            thread::spawn(move || conversation(stream));
        }
    });
    port
}

async fn refusal(url: &str) -> Error {
    Client::connect(url).await.expect_err("it does not serve")
}

/// What the command line says, and its exit code.
fn told(url: &str) -> (String, Option<i32>) {
    let output = output(Command::new(env!("CARGO_BIN_EXE_shop_worker")).args(["status", "--url", url])).unwrap();
    (String::from_utf8(output.stderr).unwrap(), output.status.code())
}

#[tokio::test]
async fn each_reply_has_a_message_that_is_true_of_it() {
    const UNAVAILABLE: i32 = 5;
    const SETUP: i32 = 6;
    let replies = [
        ("READONLY You can't write against a read only replica.", "it has become a replica and accepts no writes", UNAVAILABLE),
        ("LOADING Redis is loading the dataset in memory", "is loading its data", UNAVAILABLE),
        (
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "a replica that has lost its master",
            UNAVAILABLE,
        ),
        ("CLUSTERDOWN Hash slot not served", "does not serve all slots (CLUSTERDOWN Hash slot not served)", UNAVAILABLE),
        ("TRYAGAIN Multiple keys request during rehashing of slot", "migrating to another node", UNAVAILABLE),
        ("MOVED 3999 127.0.0.1:6381", "do not agree where the queue is (MOVED 3999", UNAVAILABLE),
        ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", "blocked by a script", UNAVAILABLE),
        (
            "MISCONF Errors writing to the AOF file: No space left on device",
            "cannot save them to its disk (MISCONF Errors writing",
            UNAVAILABLE,
        ),
        ("NOREPLICAS Not enough good replicas to write.", "`min-replicas-to-write`", UNAVAILABLE),
        ("ERR max number of clients reached", "raise its `maxclients`", UNAVAILABLE),
        ("OOM command not allowed when used memory > 'maxmemory'.", "its `maxmemory` is reached", UNAVAILABLE),
        ("NOAUTH Authentication required.", "it requires a password", SETUP),
        ("WRONGPASS invalid username-password pair or user is disabled.", "wrong user name or password, or the user is disabled", SETUP),
        ("ERR DB index is out of range", "a database that the server does not have", SETUP),
        ("CROSSSLOT Keys in request don't hash to the same slot", "are on several nodes", 1),
        ("ERR something new", "unexpected answer from the broker: ERR something new", 1),
    ];
    for (reply, expected, code) in replies {
        let url = format!("redis://127.0.0.1:{}", answers(reply));
        let error = refusal(&url).await;
        assert!(error.to_string().contains(expected) && !error.is_unreachable(), "{reply}: {error}");
        let (text, exit) = told(&url);
        assert!(text.contains(expected) && !text.contains("check that it runs"), "{reply}: {text}");
        assert_eq!(exit, Some(code), "{reply}: {text}");
    }
}

#[tokio::test]
async fn what_a_server_reports_before_it_closes_is_heard() {
    let url = format!("redis://127.0.0.1:{}", turns_away("DENIED Redis is running in protected mode because ..."));
    let error = refusal(&url).await;
    assert!(matches!(error, Error::AccessDenied { .. }) && error.to_string().contains("protected mode"), "{error}");
}

#[tokio::test]
async fn only_a_server_that_cannot_be_reached_is_asked_whether_it_runs() {
    let port = free_port();
    let url = format!("redis://127.0.0.1:{port}");
    assert!(refusal(&url).await.is_unreachable());
    let (text, exit) = told(&url);
    assert!(text.contains("check that it runs, and check the URL") && exit == Some(5), "{text}");
    let sentinels = format!("redis+sentinel://127.0.0.1:{port}/shop");
    assert!(refusal(&sentinels).await.is_unreachable());
}

async fn a_busy_server_is_named_busy(kind: Kind) {
    let server = Server::with(kind, &["--busy-reply-threshold", "1"]);
    let url = server.url();
    let client = Client::connect(&url).await.unwrap().watched();
    note::job(1).enqueue(&client).await.unwrap();
    let port = server.port();
    let busy = thread::spawn(move || Wire::to(port).unwrap().say(&["EVAL", "while true do end", "0"]));
    let mut other = Wire::to(port).unwrap();
    while !other.say(&["PING"]).unwrap().starts_with("-BUSY") {}
    let (text, exit) = told(&url);
    assert!(text.contains("blocked by a script") && text.contains("SCRIPT KILL") && exit == Some(5), "{text}");
    // A job is stored as soon as the script is over.
    let waits = tokio::spawn(async move { note::job(2).enqueue(&client).await });
    assert_eq!(other.say(&["SCRIPT", "KILL"]).unwrap(), "+OK\r\n");
    waits.await.unwrap().unwrap();
    let _ = joined(busy);
}

async fn a_server_without_connections_left_is_named_so(kind: Kind) {
    let server = Server::start(kind);
    let mut only = Wire::to(server.port()).unwrap();
    assert_eq!(only.say(&["CONFIG", "SET", "maxclients", "1"]).unwrap(), "+OK\r\n");
    for _ in 0..20 {
        let error = refusal(&server.url()).await;
        assert!(error.to_string().contains("max number of clients reached"), "{error}");
    }
    let (text, exit) = told(&server.url());
    assert!(text.contains("`maxclients`") && !text.contains("check that it runs") && exit == Some(5), "{text}");
}

async fn a_server_that_lacks_replicas_is_named_so(kind: Kind) {
    let server = Server::start(kind);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let error = note::job(1).enqueue(&client.with_deadline(Duration::from_secs(1))).await.unwrap_err();
    assert!(error.to_string().contains("fewer replicas are connected"), "{error}");
}

async fn a_database_that_does_not_exist_is_a_wrong_url(kind: Kind) {
    let server = Server::start(kind);
    let error = refusal(&format!("{}/99", server.url())).await;
    assert!(matches!(error, Error::Config(_)) && error.to_string().contains("/99 names a database"), "{error}");
}

async fn tls_at_a_plain_port_is_a_wrong_url(kind: Kind) {
    let server = Server::start(kind);
    for _ in 0..4 {
        let error = refusal(&server.url().replace("redis://", "rediss://")).await;
        assert!(matches!(error, Error::Config(_)) && error.to_string().contains("write `redis` instead of `rediss`"), "{error}");
    }
}

async fn a_missing_password_is_asked_for(kind: Kind) {
    let server = Server::start(kind);
    server.command(&["CONFIG", "SET", "requirepass", "secret"]);
    let error = refusal(&server.url()).await;
    assert!(error.to_string().contains("it requires a password"), "{error}");
}
