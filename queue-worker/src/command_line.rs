//! The command line of a worker binary: the commands of `queue-cli`, and `work`.

use std::{error::Error, future::poll_fn, net::SocketAddr, pin::pin, process::ExitCode, task::Poll, time::Duration};

use queue_cli::__worker::{self as cli, AllEvents, Exit, Failure, Log, duration, exit_at_signal};
use queue_core::{
    __private::{error_text, exit_soon},
    Client, LogLevel,
};

use crate::{
    config::QueueConfig, error::WorkerError, job_log::JobLogLayer, patience::Patience, time::now, tuning::LONGEST_PAUSE, worker::Worker,
};

/// Runs the command line of a worker binary: this is its whole `main`.
///
/// `setup` provides the values that the tasks need. It runs only for `work`: `--help`, `status` and
/// `enqueue` need neither a database nor a configuration of the application.
///
/// ```no_run
/// use std::process::ExitCode;
/// # struct Shop;
/// # impl Shop { async fn open() -> Result<Shop, std::io::Error> { Ok(Shop) } }
///
/// #[tokio::main]
/// async fn main() -> ExitCode {
///     queue_worker::run(async |worker| Ok(worker.data(Shop::open().await?))).await
/// }
/// ```
///
/// # Commands
///
/// Without a command it is `work`, which runs jobs until SIGTERM, SIGINT (Ctrl-C), SIGHUP or
/// SIGQUIT, and waits for an unreachable broker. `--help` lists the other commands, which enqueue,
/// inspect and change jobs; `docs/command-line.md` in the repository describes them.
///
/// Only `work`, `enqueue` and `schedules add` create a SQLite database that does not exist.
///
/// The queue is that of `--url`, else of the environment variable `QUEUE_URL`, else
/// `sqlite://queue.db` (feature `sqlite`, which is not a default). Every command has `--help` with
/// examples, and `--json` where it prints data.
///
/// The commands use the tasks that are linked into the program. The linker drops a crate of tasks
/// that the program does not name: write `use shop_tasks as _;` in the binary.
///
/// # Exit codes
///
/// | code | meaning |
/// |---|---|
/// | 0 | done; `work`: stopped, and every job had ended |
/// | 1 | unexpected error |
/// | 2 | invalid command line or parameters: nothing was done |
/// | 3 | no such job, queue, task or other thing, or no database at the path; nothing was created |
/// | 4 | the job's state does not allow the command, or its id or key is taken by another job, or its group is full |
/// | 5 | the broker is unreachable or full: nothing was stored, try again. Lists: a cluster master is unreachable, and its queues are missing |
/// | 6 | invalid setup: settings, tasks, injected values, `setup` itself, credentials, versions |
/// | 7 | `work`: stopped, and jobs that had not ended were returned, or are stuck |
/// | 8 | no answer from the broker: the request may have been carried out |
/// | 9 | `doctor`: a fault that is not repaired (advice alone is 0). Other commands: another program wrote to a key of the broker |
///
/// Commands other than `work` that a signal ends exit with 128 and the number of the signal;
/// `watch` and `--watch` exit with 0.
pub async fn run<F, W>(setup: F) -> ExitCode
where
    // Not `AsyncFnOnce`: the compiler could not infer the type of `worker` in `|worker| async move
    // { .. }`.
    F: FnOnce(Worker) -> W,
    W: Future<Output = Result<Worker, Box<dyn Error + Send + Sync>>>,
{
    cli::run(command(), async |url, args| work(url, args, setup).await).await
}

#[derive(Debug, Default, clap::Args)]
struct WorkArgs {
    /// Serve this queue, with this weight, instead of the queues of the program; repeat the option
    /// for several queues
    #[arg(long, value_name = "QUEUE[=WEIGHT]", value_parser = parse_weighted_queue)]
    queue: Vec<(String, u32)>,
    /// Most jobs that run at once
    #[arg(long, value_name = "JOBS")]
    concurrency: Option<usize>,
    /// Grace time of running jobs after a signal; handlers are cancelled one second before it ends
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    grace: Option<Duration>,
    /// Answer GET /health (is this process well?) and GET /ready (does it reach its broker?) on
    /// this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    health: Option<SocketAddr>,
    /// Copy lines that handlers log with `tracing`, at this level and above, into the logs of their
    /// jobs
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    job_log: Option<LogLevel>,
}

fn command() -> clap::Command {
    let work = <WorkArgs as clap::Args>::augment_args(clap::Command::new("work"))
        .about("Run jobs until SIGTERM or Ctrl-C; a second signal returns the running jobs at once [default command]")
        .after_help(WORK_HELP);
    clap::Command::new("worker").about("Run background jobs, and administer them").after_help(HELP).subcommand(work)
}

const HELP: &str = "Examples:
  {bin}                                        run jobs until Ctrl-C
  {bin} tasks                                  list the tasks and their parameters
  {bin} enqueue greet --args '{\"name\":\"Ada\"}'  store a job
  {bin} status                                 counts of waiting, running and failed jobs
  {bin} jobs list --state dead                 jobs that will not run again
  QUEUE_URL=redis://127.0.0.1:6379 {bin}       the same on Redis

Exit codes:
  0 done                      3 no such job, queue or     6 invalid setup
                                database file
  1 unexpected error      4 wrong state, or id taken  7 stopped, and jobs were given back
  2 wrong command line        5 broker away or full       8 no answer: it may have been done
  9 doctor: unrepaired fault (advice alone is 0); others: another program wrote to a key, run doctor";

const WORK_HELP: &str = "Examples:
  {bin} work
  {bin} work --concurrency 200 --health 127.0.0.1:8080
  {bin} work --queue orders=3 --queue mail     orders gets three times the slots of mail
  RUST_LOG=debug {bin} work                    log in detail";

async fn work<F, W>(url: Option<String>, args: WorkArgs, setup: F) -> Result<ExitCode, Failure>
where
    F: FnOnce(Worker) -> W,
    W: Future<Output = Result<Worker, Box<dyn Error + Send + Sync>>>,
{
    let log = Log::begin(args.job_log.map(|level| -> AllEvents { Box::new(JobLogLayer::new().level(level)) }))?;
    let ended = run_worker(url, args, setup).await;
    // The runtime of the program waits for every thread that a handler has left. A write to
    // standard error may block if the other end is not read.
    exit_soon(LEAVES, ended.as_ref().map_or_else(Failure::exit, |exit| *exit) as i32);
    // The report comes before the last spans, whose export may take longer than the program has.
    let code = ended.map_or_else(Failure::report, ExitCode::from);
    log.end().await;
    Ok(code)
}

/// The time that the program may take to end.
const LEAVES: Duration = Duration::from_secs(1);

async fn run_worker<F, W>(url: Option<String>, args: WorkArgs, setup: F) -> Result<Exit, Failure>
where
    F: FnOnce(Worker) -> W,
    W: Future<Output = Result<Worker, Box<dyn Error + Send + Sync>>>,
{
    // Until the worker listens, a signal ends the program. This includes the waits for its broker
    // (see `Worker::run`) and for its setup.
    let starting = exit_at_signal()?;
    let client = match url {
        Some(url) => open_patiently(&url).await?,
        None => open_patiently(&Client::url_from_env()?).await?,
    };
    let location = client.info().location;
    let worker = setup(Worker::new(client))
        .await
        .map_err(|error| Failure::new(Exit::Setup, format!("the setup of this worker failed: {}", error_text(error.as_ref()))))?;
    let worker = with_arguments(worker, args);
    worker.check().map_err(failure_of)?;
    let tasks: Vec<&str> = worker.tasks().tasks().map(|task| task.name).collect();
    tracing::info!(broker = location, queues = worker.queue_names().join(","), tasks = tasks.join(","), "starting; Ctrl-C stops");
    let mut running = pin!(worker.run_until_signal());
    let begun = poll_fn(|context| Poll::Ready(running.as_mut().poll(context))).await;
    drop(starting);
    let stopped = match begun {
        Poll::Ready(stopped) => stopped.map_err(failure_of)?,
        Poll::Pending => running.await.map_err(failure_of)?,
    };
    tracing::info!(finished = stopped.finished, "stopped");
    if stopped.is_clean() {
        return Ok(Exit::Done);
    }
    tracing::warn!(
        "stopped before all jobs had ended: {} returned, {} stuck, {} unconfirmed; they will run again",
        stopped.returned,
        stopped.stuck,
        stopped.unconfirmed
    );
    Ok(Exit::GivenBack)
}

/// A database file cannot be opened while its disk is full or another process holds its lock. This
/// waits, as the worker waits for a server.
async fn open_patiently(url: &str) -> queue_core::Result<Client> {
    let (mut patience, begun) = (Patience::new(LONGEST_PAUSE), now());
    loop {
        match Client::open(url).await {
            Ok(client) => {
                if patience.tries() > 0 {
                    let lasted = now().saturating_duration_since(begun);
                    tracing::warn!(broker = client.info().location, ?lasted, "the broker answers again");
                }
                return Ok(client);
            }
            Err(error) if error.is_transient() => {
                patience.failed();
                if patience.tries() == 1 {
                    tracing::warn!(%error, "the broker does not answer; the worker retries until it answers");
                }
                patience.pause().await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The command line overrides the settings of the program.
fn with_arguments(mut worker: Worker, args: WorkArgs) -> Worker {
    if !args.queue.is_empty() {
        worker = worker.only_queues(args.queue.into_iter().map(|(queue, weight)| QueueConfig::new(queue).weight(weight)).collect());
    }
    if let Some(jobs) = args.concurrency {
        worker = worker.concurrency(jobs);
    }
    if let Some(grace) = args.grace {
        worker = worker.grace(grace);
    }
    if let Some(address) = args.health {
        worker = worker.health(address);
    }
    worker.exit_if_stuck(Exit::GivenBack as i32)
}

fn failure_of(error: WorkerError) -> Failure {
    match error {
        WorkerError::Queue(error) => error.into(),
        error @ WorkerError::Setup(_) => Failure::new(Exit::Setup, error.to_string()),
        error => Failure::new(Exit::Unforeseen, error_text(&error)),
    }
}

fn parse_level(name: &str) -> Result<LogLevel, String> {
    name.parse().map_err(|_| format!("use one of {}", LogLevel::ALL.map(LogLevel::name).join(", ")))
}

fn parse_weighted_queue(text: &str) -> Result<(String, u32), String> {
    match text.split_once('=') {
        None => Ok((text.to_owned(), 1)),
        Some((queue, weight)) => match weight.parse() {
            Ok(weight) => Ok((queue.to_owned(), weight)),
            Err(_) => Err(format!("the weight `{weight}` is not an integer; write for example `{queue}=3`")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        cli::commands(command()).debug_assert();
    }

    #[test]
    fn a_queue_may_have_a_weight() {
        assert_eq!(parse_weighted_queue("mail"), Ok(("mail".to_owned(), 1)));
        assert_eq!(parse_weighted_queue("mail=3"), Ok(("mail".to_owned(), 3)));
        assert!(parse_weighted_queue("mail=x").unwrap_err().contains("`x`"));
    }
}
