//! The regression gate: compares the costs of a job, in numbers without noise, with the accepted
//! numbers.
//!
//! Time is not included, because machines are shared. Commands, bytes on the wire and to the disk,
//! and allocations are the same on every machine. A change that makes a job more expensive is
//! therefore detected on any machine, in seconds. `cargo xtask gate` and `cargo xtask test` run
//! this.

#![allow(clippy::print_stdout, reason = "the report goes to standard output")]

mod baseline;
mod redis_costs;
mod sqlite_costs;
mod steps;

use std::{alloc::System, path::PathBuf, process::ExitCode};

use clap::Parser;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use crate::baseline::Baseline;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Checks what a job costs against the numbers that were accepted.
#[derive(Debug, Parser)]
struct Args {
    /// Writes the numbers of this run as those that are accepted.
    #[arg(long)]
    accept: bool,
    /// Prints them as one JSON object.
    #[arg(long)]
    json: bool,
    /// The accepted numbers.
    #[arg(long)]
    baseline: PathBuf,
}

/// Any error; it is only printed.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// Names, and costs per job.
type Costs = Vec<(String, f64)>;

// One thread for handlers and callers, so that the order of their work is fixed.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match check(&Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn check(args: &Args) -> Result<bool, Error> {
    let mut costs = redis_costs::take().await?;
    costs.extend(sqlite_costs::take().await?);
    let found = Baseline::new(costs);
    if args.json {
        println!("{}", found.json());
    }
    if args.accept {
        found.write(&args.baseline)?;
        println!("{} numbers are accepted now: {}", found.len(), args.baseline.display());
        return Ok(true);
    }
    let complaints = Baseline::read(&args.baseline)?.compare(&found);
    for complaint in &complaints {
        println!("{complaint}");
    }
    println!("{} numbers compared, {} not as accepted", found.len(), complaints.len());
    Ok(complaints.is_empty())
}

/// The allocations of this process up to now, including reallocations.
fn allocations() -> f64 {
    let stats = ALLOCATOR.stats();
    (stats.allocations + stats.reallocations) as f64
}
