//! Finds duplicate files: `cargo run -p quickstart -- [FOLDER]`.
//!
//! Every file becomes a job that hashes it. One more job waits until all of them are done and then
//! writes the report. The queue is an embedded SQLite file in your cache folder, or whatever
//! `QUEUE_URL` names; the code is the same. Kill it in the middle (`kill -9`) and start it again:
//! it goes on where it was.

mod error;
mod places;
mod report;
mod scan;
mod store;
mod tasks;
#[cfg_attr(not(feature = "dashboard"), path = "unwatched.rs")]
mod watched;

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use queue_core::Client;
use queue_worker::Worker;

use crate::{
    error::{Failure, Result},
    places::Places,
    store::Store,
    tasks::Desk,
    watched::Watched,
};

/// Finds duplicate files, one background job per file.
#[derive(Parser)]
#[command(name = "quickstart", after_help = EXAMPLES)]
struct Arguments {
    /// The folder to look through.
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Prints the report as one JSON object.
    #[arg(long)]
    json: bool,
    /// Serves a dashboard and works slowly, in two processes of which you may kill one: something
    /// to watch in a browser
    #[arg(long)]
    dashboard: bool,
    /// Is one of these two processes, and pauses so long in each job.
    #[arg(long, hide = true, value_name = "MILLISECONDS")]
    worker: Option<u64>,
}

const EXAMPLES: &str = "Examples:
  cargo run -p quickstart -- ~/Pictures
  cargo run -p quickstart -- --dashboard ~/Pictures
  QUEUE_URL=redis://127.0.0.1:6379 cargo run -p quickstart -- ~/Pictures --json";

/// A worker that dies gives its jobs back after this time; the default of 30 s would be long to
/// watch.
const LEASE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("stopped; run it again on the same folder and it goes on where it was");
            ExitCode::from(130)
        }
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Finds the duplicates and prints the report. False: Ctrl-C came first.
async fn run(arguments: &Arguments) -> Result<bool> {
    let folder = existing(&arguments.folder)?;
    let places = Places::of(&folder)?;
    let client = Client::connect(&places.queue_url()?).await?;
    let store = Arc::new(Store::open(&places.digests())?);
    if let Some(pause) = arguments.worker {
        return watched::in_a_process_of_its_own(client, &places, store, Duration::from_millis(pause)).await;
    }
    let run = store.begin_run()?;

    let found = scan::scan(&folder, &places.left_out(&client.info()));
    found.skipped.iter().for_each(|problem| eprintln!("skipped: {problem}"));
    let bar = progress(found.files.len());
    store.enter_files(run, &found.files)?;
    bar.set_position(store.done(run)?);

    let mut watched = if arguments.dashboard { Some(Watched::begin(&client, &folder, found.files.len()).await?) } else { None };
    let start = Instant::now();
    let working = async {
        if let Some(watched) = &mut watched {
            return watched.until(finished(&store, run, &bar)).await;
        }
        let desk = Desk { store: store.clone(), bar: bar.clone(), hiccups: 1, pause: Duration::ZERO };
        let worker = Worker::new(client.clone()).queue(places.queue.as_str()).data(desk).lease(LEASE).grace(Duration::from_secs(3));
        worker.run(finished(&store, run, &bar)).await.map(drop).map_err(Failure::from)
    };
    // The first files are hashed while the last ones are still being enqueued.
    let (enqueued, worked) = tokio::join!(tasks::enqueue(&client, &places.queue, run, &found.files, arguments.dashboard), working);
    enqueued?;
    worked?;
    bar.finish_and_clear();

    let groups = store.report(run)?;
    let is_done = groups.is_some();
    if let Some(groups) = groups {
        let report = report::Report::new(groups, found.files.len(), start.elapsed());
        let mut out = io::stdout().lock();
        let written = if arguments.json { report.write_json(&mut out) } else { report.write(&mut out, &folder, &client.info().location) };
        // The reader of the report may close the pipe early.
        written.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })?;
    }
    if let Some(mut watched) = watched {
        if is_done {
            watched.stay().await?;
        }
        watched.end().await?;
    }
    Ok(is_done)
}

/// Waits for the end of the run, or for Ctrl-C.
async fn finished(store: &Store, run: i64, bar: &ProgressBar) {
    let reported = async {
        while !store.report(run).is_ok_and(|report| report.is_some()) {
            // Other processes may also work on the run.
            bar.set_position(store.done(run).unwrap_or_else(|_| bar.position()));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = reported => {}
        _ = tokio::signal::ctrl_c() => {}
        () = lines(bar) => {}
    }
}

/// Prints a line of progress now and then if standard error is not a terminal.
async fn lines(bar: &ProgressBar) {
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        if bar.is_hidden() {
            eprintln!("{} of {} files", bar.position(), bar.length().unwrap_or_default());
        }
    }
}

fn existing(folder: &Path) -> Result<PathBuf> {
    let problem = |problem: String| Failure(format!("folder `{}` {problem}", folder.display()));
    let found = folder.canonicalize().map_err(|error| problem(format!("cannot be read: {error}")))?;
    if found.is_dir() { Ok(found) } else { Err(problem("is a file; name the folder that it is in".to_owned())) }
}

/// A progress bar on standard error, if that is a terminal.
fn progress(files: usize) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(files as u64), target);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} files  {per_sec}  {eta} left");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
