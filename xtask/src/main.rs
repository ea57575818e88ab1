//! All commands for CI and contributors: `cargo xtask test`, `cargo xtask quick`, `cargo xtask
//! api`, `cargo xtask apps`, `cargo xtask bench`, `cargo xtask gate`, `cargo xtask faults`, `cargo
//! xtask foreign`, `cargo xtask mutants`, `cargo xtask publish`, `cargo xtask resolve`, `cargo
//! xtask screenshots`.

mod api;
mod apps;
mod bench;
mod faults;
mod foreign;
mod gate;
mod load;
mod mutants;
mod peers;
mod publish;
mod quick;
mod resolve;
mod run;
mod screenshots;
mod selection;
mod servers;
mod suites;
mod test;
mod whole;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Everything that CI and a contributor run", after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  cargo xtask test                              what a change needs, on the servers that are found
  cargo xtask test --install --require redis,valkey,postgres
  cargo xtask test --only conformance:on_redis::groups --again 20 --load
  cargo xtask test --whole                      everything, in slices of 45 minutes
  cargo xtask quick fences                      unit tests of queue-core and the conformance suite
  cargo xtask api                               what is public, against docs/api.md
  cargo xtask apps                              applications with their own lock files are built and run
  cargo xtask bench                             every figure
  cargo xtask bench process latency --json      two of them, one JSON object each
  cargo xtask bench --report docs/benchmarks.md every figure, on a page with plots
  cargo xtask bench designs                     beside the designs that it grew out of
  cargo xtask bench peers bullmq-node           beside other projects' queues, or one of them
  cargo xtask bench failover                    behind sentinels and in a cluster: some twenty minutes
  cargo xtask gate --accept                     what a job costs now is what it may cost
  cargo xtask faults --row M4                   one row of the fault matrix, on every broker
  cargo xtask foreign                           programs in Python and Node publish events
  cargo xtask mutants fence                     safeguards whose name has this in it
  cargo xtask publish                           builds and checks the packages as an upload would do
  cargo xtask resolve                           applications to which the crates can be added
  cargo xtask screenshots                       the dashboard, in target/screenshots";

#[derive(Subcommand)]
enum Command {
    /// Finds the servers that the tests need, then checks and tests what a change needs.
    Test(test::Arguments),
    /// Tests a change of queue-core: its unit tests, and the conformance suite on one Redis and one
    /// SQLite file.
    Quick(quick::Arguments),
    /// Compares what is public with `docs/api.md`.
    Api(api::Arguments),
    /// Builds and runs applications that have lock files of their own, with crates.io in reach.
    Apps,
    /// Measures the queue beside raw Redis, from a release build.
    Bench(bench::Arguments),
    /// Counts what a job costs in commands, bytes and allocations, and compares it with what was
    /// accepted.
    Gate(gate::Arguments),
    /// Lets everything fail around real processes, and checks that no promise is broken.
    Faults(faults::Arguments),
    /// Lets programs in Python and Node publish events, which a subscription handles.
    Foreign,
    /// Takes one safeguard out at a time, and shows that a test fails without it.
    Mutants(mutants::Arguments),
    /// Sets the addresses that are known at publication, and checks or publishes the packages.
    Publish(publish::Arguments),
    /// Resolves kinds of applications that add the crates, with crates.io in reach.
    Resolve,
    /// Makes pictures of the dashboard: every page, at three sizes, in light and in dark.
    Screenshots(screenshots::Arguments),
}

fn main() -> ExitCode {
    if let Some(ended) = api::rustdoc() {
        return ended;
    }
    match Arguments::parse().command {
        Command::Test(arguments) => test::main(&arguments),
        Command::Quick(arguments) => quick::main(&arguments),
        Command::Api(arguments) => api::main(&arguments),
        Command::Apps => apps::main(),
        Command::Bench(arguments) => bench::main(&arguments),
        Command::Gate(arguments) => gate::main(&arguments),
        Command::Faults(arguments) => faults::main(&arguments),
        Command::Foreign => foreign::main(),
        Command::Mutants(arguments) => mutants::main(&arguments),
        Command::Publish(arguments) => publish::main(&arguments),
        Command::Resolve => resolve::main(),
        Command::Screenshots(arguments) => screenshots::main(&arguments),
    }
}
