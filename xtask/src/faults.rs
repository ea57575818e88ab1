//! `cargo xtask faults`: builds the fault suite and runs it.

use std::process::ExitCode;

use clap::Args;

use crate::{
    run::{cargo, pass_on},
    servers,
};

/// The arguments for the suite, which describes them: `cargo xtask faults --help`.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn main(Arguments { arguments }: &Arguments) -> ExitCode {
    let mut command = cargo();
    command.args(["run", "--quiet", "-p", "queue-faults", "--bin", "faults"]);
    // Figures and runs of a million jobs use an optimized build.
    let release = arguments.iter().any(|argument| argument == "--release");
    command.args(release.then_some("--release")).arg("--").args(arguments.iter().filter(|argument| *argument != "--release"));
    match servers::redis(false) {
        Ok(server) => drop(command.env("QUEUE_TEST_REDIS_SERVER", server.program)),
        Err(why) if !arguments.iter().any(|argument| argument.starts_with("--broker")) => {
            eprintln!("redis: NOT RUN: {why}");
            command.args(["--broker", "sqlite"]);
        }
        // The suite reports the error for another broker.
        Err(_) => {}
    }
    pass_on(&mut command)
}
