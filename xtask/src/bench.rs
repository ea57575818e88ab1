//! `cargo xtask bench`: builds the benchmarks for release and runs them.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;

use crate::{
    peers,
    run::{cargo, pass_on},
    servers,
};

/// Options of `cargo xtask bench`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The figures to measure, by broker, by name or by the first words of their names; without a
    /// name, all but the long ones and `failover`, which takes some twenty minutes. After `designs`
    /// or `peers`: those that stand beside ours, or their figures; all of them without a name.
    names: Vec<String>,
    /// Takes also the figures that take minutes each, or gigabytes of memory.
    #[arg(long)]
    long: bool,
    /// Writes the numbers to this page, and plots to the folder beside it; what the page had of
    /// other figures stays.
    #[arg(long, value_name = "PAGE")]
    report: Option<PathBuf>,
    /// Measures nothing: the report is written anew from its numbers.
    #[arg(long, requires = "report")]
    redraw: bool,
    /// Names the figures and what they measure, and takes none.
    #[arg(long)]
    list: bool,
    /// Prints one JSON object per figure: `broker`, `name`, `value`, `unit`, `raw`, `ratio`, and
    /// what they mean.
    #[arg(long)]
    json: bool,
    /// Paired runs per figure, of which the median is told.
    #[arg(long, default_value_t = 5)]
    runs: u32,
}

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    if arguments.names.iter().any(|name| name == "failover") {
        return failovers(&arguments.names);
    }
    let (mut names, mut peers) = (arguments.names.clone(), Vec::new());
    if names.iter().any(|group| group == "peers") {
        peers = peers::build(&mut names);
        if peers.is_empty() {
            return ExitCode::FAILURE;
        }
    }
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "-p", "queue-bench", "--bin", "queue-bench"]);
    // It compiles metrics and traces in, unlike the other figures.
    command.args(names.iter().filter(|name| *name == "observed").flat_map(|feature| ["--features", feature]));
    command.arg("--").args(&names);
    command.args(peers.iter().flat_map(|peer| ["--peer", peer]));
    command.args(["--runs", &arguments.runs.to_string()]);
    let given = [("--json", arguments.json), ("--long", arguments.long), ("--list", arguments.list), ("--redraw", arguments.redraw)];
    command.args(given.into_iter().filter_map(|(name, given)| given.then_some(name)));
    if let Some(page) = &arguments.report {
        command.arg("--report").arg(page);
    }
    match servers::redis(false) {
        Ok(server) => {
            command.arg("--server").arg(server.program);
        }
        Err(why) => eprintln!("only SQLite can be measured: {why}"),
    }
    pass_on(&mut command)
}

/// Time from the promotion of a master to the first start, over 20 failovers of each sort: on
/// Redis, and on Valkey if there is one.
fn failovers(names: &[String]) -> ExitCode {
    if names.len() > 1 {
        eprintln!("`failover` is measured alone");
        return ExitCode::from(2);
    }
    let built = pass_on(cargo().args(["build", "--quiet", "--release", "-p", "queue-tests", "--bins"]));
    if built != ExitCode::SUCCESS {
        return built;
    }
    let mut last = ExitCode::SUCCESS;
    for (name, variable, server) in
        [("redis", "QUEUE_TEST_REDIS_SERVER", servers::redis(false)), ("valkey", "QUEUE_TEST_VALKEY_SERVER", servers::valkey())]
    {
        match server {
            Ok(server) => {
                let mut command = cargo();
                command.args(["run", "--quiet", "--release", "-p", "queue-tests", "--bin", "failovers", "--", name]);
                last = pass_on(command.env(variable, server.program));
            }
            Err(why) => eprintln!("{name}: {why}"),
        }
    }
    last
}
