//! The arguments of the command line.

use std::{
    ffi::OsString,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use clap::{
    Args as _, FromArgMatches,
    builder::{PossibleValuesParser, TypedValueParser},
};
use queue_core::{
    broker::{JobState, Priority},
    inspect::Aging,
};

use super::commands::Command;

// Not documentation: it would become the text of `--help`.
#[derive(Debug, clap::Parser)]
pub(super) struct Args {
    /// The broker: sqlite://FILE, redis://HOST[:PORT][/DB], redis+sentinel://HOST,HOST/SERVICE,
    /// redis+cluster://HOST,HOST, rediss… for TLS [default: $QUEUE_URL, else sqlite://queue.db]
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Args)]
pub(super) struct Format {
    /// Print JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct EnqueueArgs {
    /// The task, as `tasks` lists it
    pub(super) task: String,
    /// The parameters by name, as a JSON object; `-` reads it from standard input
    #[arg(long, visible_alias = "payload", value_name = "JSON", default_value = "{}")]
    pub(super) args: String,
    /// Put the job into this queue instead of its task's queue
    #[arg(long, value_name = "QUEUE")]
    pub(super) queue: Option<String>,
    /// Start the job after this delay, as in `10s`, `1h 30m`, `2days`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) delay: Option<Duration>,
    /// Start the job at this time, as in `2030-01-31T08:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "delay")]
    pub(super) at: Option<SystemTime>,
    /// Give the job this id; enqueuing the id again with the same task and parameters stores no
    /// second job
    #[arg(long, value_name = "ID")]
    pub(super) id: Option<String>,
    /// Give the job this unique key, instead of the one derived from its parameters: no second job
    /// is stored while another job holds the key
    #[arg(long, value_name = "KEY")]
    pub(super) unique_key: Option<String>,
    /// Put the job into this group, instead of the one derived from a parameter
    #[arg(long, value_name = "GROUP")]
    pub(super) group: Option<String>,
    /// Start the job before waiting jobs of lower priority
    #[arg(long, value_parser = priority_parser())]
    pub(super) priority: Option<Priority>,
    /// The number of failures after which the job becomes a dead letter; 1 means no retry
    #[arg(long, value_name = "N")]
    pub(super) max_attempts: Option<u32>,
    /// The longest time of one attempt
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) timeout: Option<Duration>,
    /// Keep the job and its result for this long after it is done
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) retention: Option<Duration>,
    /// Drop the job if it has not started within this time
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) expires: Option<Duration>,
    /// Fail if no worker has ever served the queue, instead of printing a warning
    #[arg(long)]
    pub(super) strict: bool,
    /// Add a header; repeat the option for several
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    pub(super) header: Vec<(String, String)>,
    /// Add a tag, to find the job with the filter tag.NAME=VALUE; repeat the option for several
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    pub(super) tag: Vec<(String, String)>,
    /// Make the job subject to a limit, under a key; repeat the option for several
    #[arg(long, value_name = "NAME[=KEY]", value_parser = limit)]
    pub(super) limit: Vec<(String, Option<String>)>,
    /// The number of starts that the job counts as under a rate; 1 to the burst of the limit
    #[arg(long, value_name = "STARTS")]
    pub(super) cost: Option<u32>,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// Only this queue
    #[arg(long, value_name = "QUEUE")]
    pub(super) queue: Option<String>,
    /// Repair what can be repaired
    #[arg(long)]
    pub(super) repair: bool,
    #[command(flatten)]
    pub(super) format: Format,
}

/// The parsed arguments of this process.
pub(super) struct Read<W> {
    pub(super) url: Option<String>,
    /// The options of `work`, or another command.
    pub(super) command: Result<W, Command>,
}

/// `work` in a program without tasks. It accepts all options and fails.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Operator {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

/// Adds all commands to a program that has `work`.
pub(super) fn with_commands(program: clap::Command) -> clap::Command {
    Args::augment_args(program).version(env!("CARGO_PKG_VERSION")).subcommand_required(false).arg_required_else_help(false)
}

/// The program `queue`. Without a command, it prints its help.
pub(super) fn operator_command() -> clap::Command {
    let work = Operator::augment_args(clap::Command::new("work"))
        .about("Not in this program, which has no tasks: start the worker binary of your application")
        .after_help("Examples:\n  shop-worker work");
    let program = clap::Command::new("queue").about("Inspect and repair background jobs").after_help(OPERATOR_HELP);
    Args::augment_args(program.subcommand(work)).version(env!("CARGO_PKG_VERSION")).arg_required_else_help(true)
}

const OPERATOR_HELP: &str = "Examples:
  {bin} --url redis://127.0.0.1:6379 status    counts of waiting, running and failed jobs
  {bin} jobs list --state dead                 jobs that will not run again
  {bin} doctor                                 what is wrong
  {bin} dashboard                              the same in a browser

The broker is the one that --url names, else QUEUE_URL, else sqlite://queue.db.";

/// Reads the arguments of this process. `Err`: help was printed, or a mistake was reported.
pub(super) fn read<W: clap::Args + Default>(command: clap::Command) -> Result<Read<W>, ExitCode> {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.is_empty() {
        arguments.push("worker".into());
    }
    let arguments = add_default_verb(&command, arguments);
    with_program_name(command, &program()).try_get_matches_from(&arguments).and_then(|matches| read_arguments(&matches)).map_err(|error| {
        // A closed pipe is not an error. Help goes to stdout and is not an error either.
        if error.use_stderr() {
            let mut text = redacted_message(&error.render().to_string(), &arguments);
            let has = |words: &[&str]| arguments.iter().take(5).any(|argument| words.iter().any(|word| argument == word));
            if error.kind() == clap::error::ErrorKind::UnknownArgument && has(&["groups", "limits", "keys", "tasks"]) {
                text.push_str(match has(&["list"]) {
                    true => "\n\n  tip: a list takes its queue as an option, as in `--queue mail`",
                    false => "\n\n  tip: write the queue and the name as one argument: QUEUE/NAME, as in `mail/acme`",
                });
            }
            match text.strip_prefix("error: ") {
                Some(problem) => super::exit::print_error(problem),
                None => super::output::print_stderr(&text),
            }
        } else {
            let _ = error.print();
        }
        ExitCode::from(if error.use_stderr() { super::exit::Exit::Usage } else { super::exit::Exit::Done })
    })
}

/// A noun without a verb lists: `queue limits` is `queue limits list`.
pub(super) fn add_default_verb(program: &clap::Command, mut arguments: Vec<OsString>) -> Vec<OsString> {
    let word = |at: usize| arguments.get(at).and_then(|word| word.to_str());
    // The first word from here on that is not an option of all commands.
    let behind_options = |mut at: usize| {
        while let Some(option) = word(at).filter(|word| word.starts_with("--url")) {
            at += if option == "--url" { 2 } else { 1 };
        }
        at
    };
    let at = behind_options(1);
    let noun = word(at).and_then(|noun| program.find_subcommand(noun));
    let lists = noun.is_some_and(|noun| noun.is_subcommand_required_set() && noun.find_subcommand("list").is_some());
    let has_verb = word(behind_options(at + 1)).is_some_and(|word| !word.starts_with('-') || ["-h", "--help"].contains(&word));
    if lists && !has_verb {
        arguments.insert(at + 1, "list".into());
    }
    arguments
}

fn read_arguments<W: clap::Args + Default>(matches: &clap::ArgMatches) -> Result<Read<W>, clap::Error> {
    let command = match matches.subcommand() {
        None => Ok(W::default()),
        Some(("work", options)) => Ok(W::from_arg_matches(options)?),
        Some(_) => Err(Command::from_arg_matches(matches)?),
    };
    Ok(Read { url: matches.get_one::<String>("url").cloned(), command })
}

/// The message of clap, without the password in a URL that it quotes.
fn redacted_message(mistake: &str, arguments: &[OsString]) -> String {
    let urls = arguments.iter().filter_map(|argument| argument.to_str()).filter(|argument| argument.contains("://"));
    urls.fold(mistake.trim_end().to_owned(), |text, url| text.replace(url, &queue_core::__private::redacted(url)))
}

/// The name under which the program was called.
pub(super) fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    std::path::Path::new(&path).file_name().map_or_else(|| "worker".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Replaces `{bin}` in the examples by the program's name.
pub(super) fn with_program_name(command: clap::Command, bin: &str) -> clap::Command {
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(help) => command.after_help(help.replace("{bin}", bin)),
        None => command,
    };
    command.mut_subcommands(|command| with_program_name(command, bin))
}

pub(super) fn state_parser() -> impl TypedValueParser<Value = JobState> {
    PossibleValuesParser::new(JobState::ALL.map(JobState::name)).try_map(|name| name.parse::<JobState>())
}

pub(super) fn priority_parser() -> impl TypedValueParser<Value = Priority> {
    PossibleValuesParser::new(Priority::ALL.map(Priority::name))
        .try_map(|name| Priority::ALL.into_iter().find(|priority| priority.name() == name).ok_or("is unknown"))
}

/// A duration in the format of the command line.
///
/// # Errors
/// The problem and an example.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| match text.trim().parse::<f64>() {
        Ok(_) => format!("the number has no unit; write for example `{0}s` or `{0}m`", text.trim()),
        Err(_) => format!("{error}; write for example `10s`, `1h 30m` or `2days`"),
    })
}

pub(super) fn aging(text: &str) -> Result<Aging, String> {
    match text {
        "off" => Ok(Aging::Off),
        "declared" => Ok(Aging::AsDeclared),
        text => duration(text).map(Aging::Every),
    }
}

pub(super) fn time(text: &str) -> Result<SystemTime, String> {
    humantime::parse_rfc3339(text).map_err(|error| format!("{error}; write for example `2030-01-31T08:00:00Z` (UTC)"))
}

pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it has no `=`; write NAME=VALUE")?;
    if name.is_empty() {
        return Err("it has no name before the `=`; write NAME=VALUE".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn limit(text: &str) -> Result<(String, Option<String>), String> {
    match text.split_once('=') {
        Some((_, "")) => Err("it has no key after the `=`; write NAME, or NAME=KEY".to_owned()),
        Some((name, key)) => Ok((name.to_owned(), Some(key.to_owned()))),
        None => Ok((text.to_owned(), None)),
    }
}

#[cfg(test)]
mod tests;
