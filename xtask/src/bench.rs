//! `cargo xtask bench`: builds the benchmarks for release and runs them.

use std::process::ExitCode;

use clap::Args;

use crate::{run::cargo, servers};

/// Options of `cargo xtask bench`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The figures to measure; without a name, all.
    names: Vec<String>,
    /// Prints one JSON object per figure: `broker`, `name`, `value`, `unit`, `raw`, `ratio`.
    #[arg(long)]
    json: bool,
    /// Paired runs per figure, of which the median is told.
    #[arg(long, default_value_t = 5)]
    runs: u32,
}

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "-p", "queue-bench", "--"]).args(&arguments.names);
    command.args(["--runs", &arguments.runs.to_string()]);
    if arguments.json {
        command.arg("--json");
    }
    match servers::redis(false) {
        Ok(server) => {
            command.arg("--server").arg(server.program);
        }
        Err(why) => eprintln!("only SQLite can be measured: {why}"),
    }
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot run cargo: {error}");
            ExitCode::FAILURE
        }
    }
}
