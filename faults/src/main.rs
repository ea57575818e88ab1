//! The fault suite's program: `cargo xtask faults` builds and runs it. Its worker and producer
//! processes are itself.

#![allow(clippy::print_stdout, reason = "the report goes to standard output")]

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Parser, Subcommand};
use queue_faults::{bed::Column, page, process, report::Report, rows, run};

/// Lets everything fail around a queue, and checks that it keeps its promise.
#[derive(Debug, Parser)]
#[command(name = "faults", bin_name = "cargo xtask faults", after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Rows of the matrix, such as M4; without one, all.
    #[arg(long, value_delimiter = ',')]
    row: Vec<String>,
    /// Replays the runs of this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Runs the rows again and again for so long; without it, each once.
    #[arg(long)]
    minutes: Option<f64>,
    /// Runs the rows again and again until so many jobs were accepted.
    #[arg(long)]
    jobs: Option<usize>,
    /// Runs each row on each broker again and again until it has done so many harms, such as kills.
    #[arg(long)]
    faults: Option<usize>,
    /// One broker alone: redis, sentinel, cluster or sqlite.
    #[arg(long)]
    broker: Option<Column>,
    /// Prints the report as one JSON object.
    #[arg(long)]
    json: bool,
    /// Prints the rows, and those that are left out.
    #[arg(long)]
    list: bool,
    /// Writes the report as a page of Markdown, too.
    #[arg(long, value_name = "PAGE")]
    report: Option<PathBuf>,
    /// Runs nothing: the page tells of these earlier runs, each printed by --json.
    #[arg(long, value_name = "RUN", value_delimiter = ',', requires = "report")]
    from: Vec<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  cargo xtask faults                          every row once, on every broker
  cargo xtask faults --row M4 --broker redis
  cargo xtask faults --row M4 --seed 17       the same schedule once more
  cargo xtask faults --minutes 60 --json
  cargo xtask faults --release --row M73 --broker redis --jobs 1000000 --json > random.json
  cargo xtask faults --row M1 --faults 500    workers are killed, 500 times on every broker
  cargo xtask faults --report docs/faults-report.md --from rows.json,random.json";

#[derive(Debug, Subcommand)]
enum Command {
    /// A process of a run.
    #[command(hide = true)]
    Process {
        /// What it is told.
        orders: String,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(Command::Process { orders }) = arguments.command {
        return process::main(&orders);
    }
    let unknown: Vec<_> = arguments.row.iter().filter(|row| !rows::all().iter().any(|known| known.number == **row)).collect();
    if !unknown.is_empty() {
        let known: Vec<_> = rows::all().iter().map(|row| row.number).collect();
        eprintln!("error: unknown row {unknown:?}; there are {}", known.join(", "));
        return ExitCode::from(2);
    }
    if arguments.list {
        for row in rows::all() {
            let columns: Vec<_> = row.columns.iter().map(ToString::to_string).collect();
            println!("{:<5} {:?}  {:<13} {}", row.number, row.grade, columns.join(","), row.name);
        }
        for (rows, why) in rows::LEFT_OUT {
            println!("{rows}: left out: {why}");
        }
        return ExitCode::SUCCESS;
    }
    if !arguments.from.is_empty() {
        return retell(&arguments);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(suite(&arguments)),
        Err(error) => {
            eprintln!("error: no runtime: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn suite(arguments: &Arguments) -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            eprintln!("error: this program does not know where it lies: {error}");
            return ExitCode::FAILURE;
        }
    };
    let chosen = rows::all().into_iter().filter(|row| arguments.row.is_empty() || arguments.row.iter().any(|name| name == row.number));
    let columns = |row: &'static rows::Row| row.columns.iter().map(move |column| (row, *column));
    let runs: Vec<_> = chosen.flat_map(columns).filter(|(_, column)| arguments.broker.is_none_or(|only| only == *column)).collect();
    if runs.is_empty() {
        eprintln!("error: no such row is run on this broker");
        return ExitCode::from(2);
    }
    let mut report = Report::begin(std::env::args().skip(1));
    let first = arguments.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let end = arguments.minutes.map(|minutes| Instant::now() + Duration::from_secs_f64(minutes * 60.0));
    for round in 0.. {
        let mut ran = false;
        for (row, column) in &runs {
            let (in_time, in_jobs) = (end.is_some_and(|end| Instant::now() < end), arguments.jobs.is_some_and(|jobs| report.jobs < jobs));
            let in_faults = arguments.faults.is_some_and(|faults| !report.has_done(faults, row, *column));
            if round > 0 && !in_time && !in_jobs && !in_faults {
                continue;
            }
            ran = true;
            let seed = first + round;
            let told = |outcome: &run::Outcome| {
                tell_run(row, *column, outcome);
                report.add(row, *column, outcome);
            };
            let last = run::conclusively(row, *column, seed, &program, told).await;
            report.conclude(row, *column, &last);
        }
        if !ran {
            break;
        }
    }
    tell(&report, arguments)
}

/// A line on standard error for each run, and what explains each broken promise.
fn tell_run(row: &rows::Row, column: Column, outcome: &run::Outcome) {
    let (number, seed, time) = (row.number, outcome.seed, outcome.time.as_secs_f32());
    let jobs = outcome.verdict.as_ref().map_or(0, |verdict| verdict.summary.jobs + verdict.summary.events);
    let word = match (outcome.held(), outcome.inconclusive()) {
        (true, _) => "held",
        (false, Some(_)) => "inconclusive",
        (false, None) => "NOT HELD",
    };
    eprintln!("{number:<5} {column:<6} seed {seed:<7} {time:>5.1} s {jobs:>7} jobs  {word}  {}", row.name);
    if let Some(problem) = outcome.problem() {
        eprintln!("      {}", problem.to_string().replace('\n', "\n      "));
    }
    for violation in outcome.verdict.iter().flat_map(|verdict| &verdict.violations).take(5) {
        eprintln!("      {}: {}", violation.invariant, violation.what);
        violation.timeline.iter().for_each(|line| eprintln!("      {line}"));
    }
    if let Some(histories) = &outcome.histories {
        eprintln!("      histories: {}", histories.display());
    }
    if !outcome.held() && outcome.disk_waits > 0 {
        eprintln!("      the server has kept everybody waiting for its disk {} times", outcome.disk_waits);
    }
    if !outcome.held() {
        eprintln!("      replay: cargo xtask faults --row {number} --broker {column} --seed {seed}");
    }
}

fn tell(report: &Report, arguments: &Arguments) -> ExitCode {
    if arguments.json {
        println!("{}", serde_json::to_string(report).expect("a report has only strings and numbers"));
    } else {
        print!("{}", report.table());
    }
    if let Some(page) = &arguments.report
        && let Err(problem) = write(page, std::slice::from_ref(report))
    {
        eprintln!("error: {problem}");
        return ExitCode::FAILURE;
    }
    if report.held() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The page of earlier runs.
fn retell(arguments: &Arguments) -> ExitCode {
    let read = |path: &PathBuf| -> Result<Report, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{} is no report: {error}", path.display()))
    };
    let page = arguments.report.as_deref().unwrap_or(Path::new("/dev/stdout"));
    let written = arguments.from.iter().map(read).collect::<Result<Vec<_>, _>>().and_then(|reports| {
        write(page, &reports)?;
        Ok(reports.iter().all(Report::held))
    });
    match written {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn write(page: &Path, reports: &[Report]) -> Result<(), String> {
    std::fs::write(page, page::of(reports)).map_err(|error| format!("{}: {error}", page.display()))
}
