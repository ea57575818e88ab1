//! Measures what the README claims. `cargo xtask bench` builds this in release mode and runs it.
//!
//! Every figure of the Redis broker stands beside *raw*: what `redis-benchmark` reads for `LPUSH` with 50 clients and no
//! pipeline on the same server, taken right before and right after. The machines are shared: only ratios travel.

#![allow(clippy::print_stdout, reason = "the report goes to standard output")]

mod figures;
mod raw;
mod tasks;

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;
use serde::Serialize;

use crate::figures::{FIGURES, Figure};

/// Measure the queue beside raw Redis on the same machine.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  cargo xtask bench\n  cargo xtask bench process latency --runs 5\n  cargo xtask bench --json > figures.jsonl"
)]
struct Args {
    /// The figures to take; all without any.
    names: Vec<String>,
    /// Runs of each figure; the median counts.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// One JSON object per figure.
    #[arg(long)]
    json: bool,
    /// The server to measure.
    #[arg(long, default_value = "redis-server")]
    server: PathBuf,
    /// Where SQLite files are put: a disk, not a memory file system.
    #[arg(long, default_value = "target")]
    disk: PathBuf,
    /// A worker process of the cross-process figures.
    #[arg(long, hide = true)]
    child: Option<String>,
}

/// One line of the report.
#[derive(Debug, Serialize)]
struct Line {
    broker: &'static str,
    name: String,
    value: f64,
    unit: &'static str,
    /// Raw `LPUSH` per second of the same run.
    raw: Option<f64>,
    /// `value / raw`, for figures in jobs per second.
    ratio: Option<f64>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(url) = &args.child {
        return finish(figures::latency_child(url).await);
    }
    let unknown: Vec<_> = args.names.iter().filter(|name| !FIGURES.iter().any(|figure| figure.name == **name)).collect();
    if !unknown.is_empty() {
        let known: Vec<_> = FIGURES.iter().map(|figure| figure.name).collect();
        eprintln!("unknown figure {unknown:?}; there are {}", known.join(", "));
        return ExitCode::from(2);
    }
    for figure in FIGURES.iter().filter(|figure| args.names.is_empty() || args.names.iter().any(|name| name == figure.name)) {
        match take(figure, &args).await {
            Ok(lines) => lines.iter().for_each(|line| print(line, args.json)),
            Err(error) => return finish(Err(format!("{}: {error}", figure.name).into())),
        }
    }
    ExitCode::SUCCESS
}

fn finish(result: Result<(), Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whatever went wrong; a benchmark only prints it.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// Takes a figure several times and keeps the medians.
async fn take(figure: &Figure, args: &Args) -> Result<Vec<Line>, Error> {
    let mut runs: Vec<Vec<Line>> = Vec::new();
    for run in 1..=args.runs.max(1) {
        eprintln!("{} {}: run {run} of {}", figure.broker, figure.name, args.runs.max(1));
        runs.push(figures::run(figure, &args.server, &args.disk).await?);
    }
    let first = &runs[0];
    Ok((0..first.len())
        .map(|i| Line {
            broker: first[i].broker,
            name: first[i].name.clone(),
            unit: first[i].unit,
            value: median(runs.iter().map(|lines| lines[i].value)),
            raw: first[i].raw.map(|_| median(runs.iter().filter_map(|lines| lines[i].raw))),
            ratio: first[i].ratio.map(|_| median(runs.iter().filter_map(|lines| lines[i].ratio))),
        })
        .collect())
}

/// The middle of some numbers.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    percentile(&mut values.collect::<Vec<_>>(), 50.0)
}

/// The `p`-th percentile of some numbers, which are sorted on the way.
pub(crate) fn percentile(values: &mut [f64], p: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get(((last as f64) * p / 100.0).round() as usize).copied().unwrap_or(f64::NAN)
}

fn print(line: &Line, json: bool) {
    if json {
        println!("{}", serde_json::to_string(line).expect("a line has only strings and numbers"));
        return;
    }
    let ratio = line.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    println!("{:<7} {:<22} {:>12.3} {:<7} {ratio}", line.broker, line.name, line.value, line.unit);
}
