//! `cargo xtask gate`: what a job costs in commands, bytes and allocations, against what was accepted.

use std::process::{Command, ExitCode};

use clap::Args;

use crate::{
    run::{cargo, pass_on, patient_cargo, root},
    servers,
};

/// Options of `cargo xtask gate`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Writes the numbers of this run to `bench/baseline.json`, as those that are accepted.
    #[arg(long)]
    accept: bool,
    /// Prints the numbers as one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let mut command = command();
    match servers::redis(false) {
        Ok(server) => drop(command.env("QUEUE_TEST_REDIS_SERVER", server.program)),
        Err(why) => {
            eprintln!("nothing was counted: {why}");
            return ExitCode::FAILURE;
        }
    }
    command
        .args([("--accept", arguments.accept), ("--json", arguments.json)].into_iter().filter_map(|(name, given)| given.then_some(name)));
    pass_on(&mut command)
}

/// The gate; it needs to be told the server.
pub(crate) fn command() -> Command {
    let mut command = cargo();
    command.arg("run").args(PROGRAM).args(["--", "--baseline"]);
    command.arg(root().join("bench").join("baseline.json"));
    command
}

/// Builds it: with the features that users have, and not with all as the tests are.
pub(crate) fn build() -> Command {
    let mut command = patient_cargo();
    command.arg("build").args(PROGRAM);
    command
}

const PROGRAM: [&str; 5] = ["--quiet", "-p", "queue-bench", "--bin", "gate"];
