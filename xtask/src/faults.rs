//! `cargo xtask faults`: builds the fault suite and runs it.

use std::process::ExitCode;

use clap::Args;

use crate::{run::cargo, servers};

/// Options of `cargo xtask faults`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Rows of the matrix, such as M4; without one, all.
    #[arg(long, value_delimiter = ',')]
    row: Vec<String>,
    /// Replays the runs of this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Runs the rows again and again for so long; without it, each once.
    #[arg(long)]
    minutes: Option<f64>,
    /// One broker alone: redis, sentinel, cluster or sqlite.
    #[arg(long)]
    broker: Option<String>,
    /// Prints the report as one JSON object.
    #[arg(long)]
    json: bool,
    /// Prints the rows, and those that are left out.
    #[arg(long)]
    list: bool,
}

const EXAMPLES: &str = "Examples:
  cargo xtask faults                          every row once, on every broker
  cargo xtask faults --row M4 --broker redis
  cargo xtask faults --row M4 --seed 17       the same schedule once more
  cargo xtask faults --minutes 60 --json";

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let mut command = cargo();
    command.args(["run", "--quiet", "-p", "queue-faults", "--bin", "faults", "--"]);
    let valued = [
        ("--row", (!arguments.row.is_empty()).then(|| arguments.row.join(","))),
        ("--seed", arguments.seed.map(|seed| seed.to_string())),
        ("--minutes", arguments.minutes.map(|minutes| minutes.to_string())),
    ];
    for (name, value) in valued {
        command.args(value.into_iter().flat_map(|value| [name.to_owned(), value]));
    }
    command.args([("--json", arguments.json), ("--list", arguments.list)].into_iter().filter_map(|(name, given)| given.then_some(name)));
    let mut broker = arguments.broker.clone();
    match servers::redis(false) {
        Ok(server) => drop(command.env("QUEUE_TEST_REDIS_SERVER", server.program)),
        Err(why) if broker.is_none() => {
            eprintln!("redis: NOT RUN: {why}");
            broker = Some("sqlite".to_owned());
        }
        // Whoever asks for another broker is told by the suite.
        Err(_) => {}
    }
    command.args(broker.into_iter().flat_map(|broker| ["--broker".to_owned(), broker]));
    match command.status() {
        Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from),
        Err(error) => {
            eprintln!("cannot run cargo: {error}");
            ExitCode::FAILURE
        }
    }
}
