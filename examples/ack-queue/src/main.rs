//! An interactive queue, line by line: `cargo run -p ack-queue`.
//!
//! Start it twice, push in one process and claim in the other. If a process is killed or does not
//! acknowledge its message, the other process can claim it when the time is over.

use std::{
    io::{BufRead, IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

use ack_queue::AckQueue;
use queue_core::Client;

const HELP: &str = "push TEXT      stores a message
claim [TIME]   takes one for this time (default 30s)
ack ID         removes it: it is done
Ctrl-D         ends";

const USAGE: &str = "Usage: ack-queue

Reads commands from standard input, one a line. The queue is that of QUEUE_URL, else sqlite://queue.db.

";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if let Some(argument) = std::env::args().nth(1) {
        if argument == "--help" || argument == "-h" {
            println!("{USAGE}{HELP}");
            return ExitCode::SUCCESS;
        }
        eprintln!("error: unknown argument {argument:?}\n\n{USAGE}{HELP}");
        return ExitCode::from(2);
    }
    match talk().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn talk() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env().await?;
    let mut queue = AckQueue::new(client.broker().clone(), "messages");
    eprintln!("the queue is {}", client.info().location);
    if std::io::stdin().is_terminal() {
        eprintln!("{HELP}");
    }
    for line in std::io::stdin().lock().lines() {
        // An invalid line does not end the program.
        let answer = obey(&mut queue, line?.trim()).await.unwrap_or_else(|error| format!("error: {error}"));
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

async fn obey(queue: &mut AckQueue, line: &str) -> Result<String, Box<dyn std::error::Error>> {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    Ok(match (verb, rest.trim()) {
        ("push", text) => format!("pushed {}", queue.push(text).await?),
        ("claim", time) => {
            let time = if time.is_empty() { Duration::from_secs(30) } else { humantime::parse_duration(time)? };
            match queue.claim(time).await? {
                Some(message) => format!("claimed {} {}", message.id, message.text),
                None => "nothing to claim".to_owned(),
            }
        }
        ("ack", id) => match queue.ack(&id.parse()?).await? {
            true => "acknowledged".to_owned(),
            false => "too late, or not claimed here".to_owned(),
        },
        _ => HELP.to_owned(),
    })
}
