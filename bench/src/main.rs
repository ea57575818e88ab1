//! Measures what the README claims. `cargo xtask bench` builds this in release mode and runs it.
//!
//! Every figure of the Redis broker stands beside *raw*: what `redis-benchmark` reads for `LPUSH`
//! with 50 clients and no pipeline on a server of the same sort, taken right before and right
//! after. The machines are shared: only ratios travel.
//!
//! - `frame` says what a figure is: what it measures, what its ratio is relative to.
//! - `bars` has what each number has to reach.
//! - `figures` has the figures, a module per idea. A new one is added to the list of its module.
//! - `take` takes a figure several times and keeps the medians.
//! - `contest` has those of `designs` and of other projects, beside `ours`.
//! - `report` writes the page with the plots.
//! - `worker`, `tasks` and `server` are what is measured, and `children` what other processes do.

#![allow(clippy::print_stdout, reason = "the report goes to standard output")]

mod bars;
mod children;
mod contest;
mod counted;
mod designs;
mod figures;
mod frame;
mod ours;
mod report;
mod server;
mod stats;
mod take;
mod tasks;
mod worker;

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;

use crate::{
    frame::{Figure, When},
    report::Report,
    take::{Ground, Line},
};

/// Measure the queue beside raw Redis on the same machine.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  cargo xtask bench\n  cargo xtask bench process latency --runs 5\n  cargo xtask bench sqlite --json > figures.jsonl\n  cargo xtask bench outbox peers river-sqlite river-postgres"
)]
struct Args {
    /// The figures to take, by broker, by name or by the first words of their names; without any,
    /// those of a plain run. `designs` and `peers` are measured beside our queue: after one of these
    /// words, some of them or of their figures may be named.
    names: Vec<String>,
    /// Takes also the figures that take minutes each, or gigabytes.
    #[arg(long)]
    long: bool,
    /// Runs of each figure; the median counts.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// One JSON object per figure.
    #[arg(long)]
    json: bool,
    /// Writes the numbers to this page, and plots to the folder beside it; what the page had of
    /// other figures stays.
    #[arg(long)]
    report: Option<PathBuf>,
    /// Measures nothing: the report is written anew from its numbers.
    #[arg(long, requires = "report")]
    redraw: bool,
    /// Names the figures and what they measure, and takes none.
    #[arg(long)]
    list: bool,
    /// The server to measure.
    #[arg(long, default_value = "redis-server")]
    server: PathBuf,
    /// Where SQLite files are put: a disk, not a memory file system.
    #[arg(long, default_value = "target")]
    disk: PathBuf,
    /// A peer, NAME=PROGRAM; `cargo xtask bench peers` builds them and gives them here.
    #[arg(long, hide = true)]
    peer: Vec<String>,
    /// What a process does that a figure starts: its part, and what that needs.
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    child: Vec<String>,
}

/// Whatever went wrong; a benchmark only prints it.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.child.split_first() {
        Some((part, rest)) => children::play(part, rest).await,
        None => measure(&args).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(args: &Args) -> Result<(), Error> {
    let (names, contest) =
        args.names.split_at(args.names.iter().position(|name| name == "designs" || name == "peers").unwrap_or(args.names.len()));
    let mut figures = if names.is_empty() && !contest.is_empty() { Vec::new() } else { chosen(figures::all(), names, args)? };
    if let Some((group, names)) = contest.split_first() {
        figures.extend(contest::chosen(group, names, &args.peer).await?);
    }
    if args.list {
        figures.iter().for_each(|figure| println!("{:<8} {:<28} {}", figure.broker, figure.name, figure.about));
        return Ok(());
    }
    let order: Vec<_> = figures::all().iter().map(|figure| (figure.broker.to_owned(), figure.name.to_string())).collect();
    let report = |lines| args.report.as_deref().map_or(Ok(()), |page| Report::at(page).add(lines, &args.server, &order));
    if args.redraw {
        return report(Vec::new());
    }
    let mut ground = Ground::new(args.server.clone(), args.disk.clone(), args.runs);
    let mut failed = Vec::new();
    for figure in &figures {
        match ground.take(figure).await {
            Ok(lines) => {
                lines.iter().for_each(|line| print(line, args.json));
                // At once: a run takes a quarter of an hour, and may be stopped.
                report(lines)?;
            }
            // The others do not suffer from it.
            Err(error) => {
                eprintln!("{}: {error}", figure.name);
                failed.push(figure.name.clone());
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("without a value: {}", failed.join(", ")).into()) }
}

/// The figures that were asked for.
fn chosen(mut all: Vec<Figure>, names: &[String], args: &Args) -> Result<Vec<Figure>, Error> {
    let is_named = |figure: &Figure, name: &String| {
        figure.name.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    let is = |figure: &Figure, name: &String| is_named(figure, name) || figure.broker == name;
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|figure| is(figure, name))) {
        let known: Vec<_> = all.iter().map(|figure| &*figure.name).collect();
        return Err(format!("unknown figure {unknown:?}; there are {}", known.join(", ")).into());
    }
    let is_usual = |figure: &Figure| figure.when == When::Plain || (figure.when == When::Long && args.long);
    all.retain(|figure| match names.iter().find(|name| is(figure, name)) {
        Some(name) => figure.name == name.as_str() || is_usual(figure),
        None => names.is_empty() && (is_usual(figure) || args.list),
    });
    Ok(all)
}

fn print(line: &Line, json: bool) {
    if json {
        println!("{}", serde_json::to_string(line).expect("a line has only strings and numbers"));
        return;
    }
    let ratio = line.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    let bar = match (&line.bar, line.met) {
        (Some(bar), Some(true)) => format!("{bar}: met"),
        (Some(bar), Some(false)) => format!("{bar}: NOT MET"),
        _ => String::new(),
    };
    println!("{:<8} {:<30} {:>12.3} {:<7} {ratio:>6}  {bar}", line.broker, line.name, line.value, line.unit);
}
