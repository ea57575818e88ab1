//! `cargo xtask gate`: compares the commands, bytes and allocations of a job with the accepted
//! numbers.

use std::{
    path::Path,
    process::{Command, ExitCode},
};

use clap::Args;

use crate::{
    run::{pass_on, root},
    servers, suites,
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
    // With the features of the tests, to avoid a second compilation.
    let Some(gate) = suites::build(&["build", "--workspace", "--all-features", "--bin", "gate"])
        .and_then(|built| built.executables.get("gate").cloned())
    else {
        return ExitCode::FAILURE;
    };
    let mut command = command(&gate);
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

/// The gate. The caller sets the variable with the server.
pub(crate) fn command(gate: &Path) -> Command {
    let mut command = Command::new(gate);
    command.arg("--baseline").arg(root().join("bench").join("baseline.json"));
    command
}
