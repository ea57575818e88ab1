//! Clients of `/health` that send nothing, or one byte at a time: real sockets, and real processes.

#![cfg(unix)]

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    process::Stdio,
    time::{Duration, Instant},
};

use queue_tests::{command_line::Place, patience::wait_for, process::Process, server::free_port};

fn connect(address: &str) -> TcpStream {
    wait_for("a connection", || TcpStream::connect(address).ok())
}

/// The whole answer.
fn get(address: &str, path: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Sends the start of a request, and then one byte after the other until the other side closes the
/// connection. Returns the answer.
fn one_by_one(address: &str, start: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(start.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&piece[..read]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if stream.write_all(b"a").is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn clients_of_health_that_do_not_ask_delay_nobody() {
    let place = Place::sqlite(env!("CARGO_BIN_EXE_rude_worker"));
    let address = format!("127.0.0.1:{}", free_port());
    let mut command = place.command(&["work", "--health", &address]);
    let _worker = Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
    wait_for("the worker to be well", || get(&address, "/health").starts_with("HTTP/1.1 200").then_some(()));
    // More clients than it has places for. A round counts only if no client has reached its time
    // limit of 5 s, because the machine may be busy.
    let rounds = (0..5).map(|_| {
        let began = Instant::now();
        let mut slow: Vec<TcpStream> = (0..40).map(|_| connect(&address)).collect();
        slow.iter_mut().step_by(2).for_each(|stream| stream.write_all(b"G").unwrap());
        assert!(get(&address, "/health").starts_with("HTTP/1.1 200"));
        began.elapsed()
    });
    let rounds: Vec<Duration> = rounds.collect();
    assert!(rounds.iter().any(|took| *took < Duration::from_secs(4)), "clients that do not ask keep others waiting: {rounds:?}");
    // A single client cannot take unlimited time either.
    one_by_one(&address, "GET /health HTTP/1.1\r\nx: ");
}
