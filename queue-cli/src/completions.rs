//! `completions`: the completion script of a shell. It calls the program with the words on the
//! command line. The program prints the possible continuations: commands, options, and names in the
//! broker.

use std::{collections::BTreeSet, time::Duration};

use clap::{Arg, Command, ValueEnum};
use queue_core::{__private::is_control, Client, Registry, Result, inspect::Filter};

use super::{
    args::{add_default_verb, program},
    exit::Failure,
    output::print,
    paused_tasks::known_tasks,
};

/// How the script calls the program.
const COMPLETE: &str = "__complete";

/// The maximum time for reading names.
const PATIENCE: Duration = Duration::from_secs(1);

/// The maximum number of names of a kind in a queue.
const MOST: usize = 500;

#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(super) fn completions(args: &CompletionsArgs) -> std::result::Result<(), Failure> {
    let script = match args.shell {
        Shell::Bash => include_str!("completions/bash.sh"),
        Shell::Zsh => include_str!("completions/zsh.sh"),
        Shell::Fish => include_str!("completions/fish.fish"),
    };
    let name = program();
    let function = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    Ok(print(&script.replace("{bin}", &name).replace("{function}", &function))?)
}

/// Answers a completion script, if the program was called by one. It prints only candidates, one
/// per line, each with its help after a tab.
pub(super) async fn answer(program: &Command) {
    let mut arguments = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    if arguments.next().is_none_or(|first| first != COMPLETE) {
        return;
    }
    let answer = candidates(program, arguments.collect());
    let lines = tokio::time::timeout(PATIENCE, answer).await.unwrap_or_default();
    // The shell discards errors.
    let _ = if lines.is_empty() { Ok(()) } else { print(&lines.join("\n")) };
    // `exit` also ends threads that still wait for the broker.
    std::process::exit(0);
}

/// The candidates for the last word.
async fn candidates(program: &Command, words: Vec<String>) -> Vec<String> {
    let mut program = program.clone();
    program.build();
    let place = Place::of(&program, words);
    let mut found = place.words();
    let linked: Vec<String> = Registry::linked().tasks().map(|task| task.name.to_owned()).collect();
    match place.value.and_then(kind) {
        None => {}
        Some("TASK") if !linked.is_empty() => found.extend(linked),
        Some(kind) => {
            let url = place.url.clone().map_or_else(Client::url_from_env, Ok);
            let names = async { names(kind, &Client::connect_existing(&url?).await?, &place.word).await };
            found.extend(names.await.unwrap_or_default());
        }
    }
    // A terminal would interpret the control characters of other names.
    found.retain(|name| name.starts_with(&place.word) && !name.contains(|c: char| is_control(c) && c != '\t'));
    found.iter().map(|name| format!("{}{name}", place.before)).collect()
}

/// The position on the command line in the grammar of the program.
struct Place<'c> {
    command: &'c Command,
    /// The argument that has the last word as its value.
    value: Option<&'c Arg>,
    /// Whether the last word may be a command, because no argument precedes it.
    is_first: bool,
    /// The part of the last word that is not completed: an option and its `=`.
    before: String,
    /// The rest of the last word.
    word: String,
    url: Option<String>,
}

impl<'c> Place<'c> {
    fn of(program: &'c Command, words: Vec<String>) -> Self {
        let words = [vec![String::new()], words].concat().into_iter().map(Into::into).collect();
        let words = add_default_verb(program, words).into_iter().skip(1).map(|word| word.to_string_lossy().into_owned());
        let mut words: Vec<String> = words.collect();
        let last = words.pop().unwrap_or_default();
        let (mut command, mut value, mut arguments, mut url) = (program, None, 0, None);
        for word in words {
            let is_url = |option: &Arg| option.get_id() == "url";
            if let Some(option) = value.take() {
                url = if is_url(option) { Some(word) } else { url };
            } else if let Some((option, text)) = option(command, &word) {
                match text {
                    Some(text) if is_url(option) => url = Some(text.to_owned()),
                    Some(_) => {}
                    None => value = Some(option).filter(|option| option.get_action().takes_values() && !option.is_require_equals_set()),
                }
            } else if let Some(next) = command.find_subcommand(&word).filter(|_| arguments == 0) {
                command = next;
            } else if !word.starts_with('-') {
                arguments += 1;
            }
        }
        let mut place = Place { command, value, is_first: arguments == 0, before: String::new(), word: last, url };
        if place.value.is_some() {
            place.is_first = false;
        } else if let Some((option, Some(text))) = option(command, &place.word) {
            (place.value, place.is_first) = (Some(option), false);
            place.before = place.word[..place.word.len() - text.len()].to_owned();
            place.word = text.to_owned();
        } else if !place.word.starts_with('-') {
            let positionals = || command.get_positionals();
            let repeated = positionals().last().filter(|last| last.get_num_args().is_some_and(|n| n.max_values() > 1));
            place.value = positionals().nth(arguments).or(repeated);
        }
        place
    }

    /// The commands, options and values that are valid at this position.
    fn words(&self) -> Vec<String> {
        let line = |name: &str, help: Option<&clap::builder::StyledStr>| {
            help.map_or_else(|| name.to_owned(), |help| format!("{name}\t{}", help.to_string().lines().next().unwrap_or_default()))
        };
        let values = self.value.map(Arg::get_possible_values).unwrap_or_default();
        let values = values.iter().map(|value| line(value.get_name(), value.get_help()));
        let commands = self.command.get_subcommands().filter(|command| self.is_first && !command.is_hide_set());
        let commands = commands.map(|command| line(command.get_name(), command.get_about()));
        let has_options = self.word.starts_with('-') && self.before.is_empty();
        let options = self.command.get_arguments().filter(|option| has_options && !option.is_hide_set());
        let options = options.filter_map(|option| Some(line(&format!("--{}", option.get_long()?), option.get_help())));
        values.chain(commands).chain(options).collect()
    }
}

/// An option of a command, and its value if the word has it.
fn option<'c, 'w>(command: &'c Command, word: &'w str) -> Option<(&'c Arg, Option<&'w str>)> {
    let named = |name: &str| {
        let mut options = command.get_arguments();
        options.find(|option| match name.strip_prefix("--") {
            Some(long) => option.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long)),
            None => option.get_short().is_some_and(|short| name == format!("-{short}")),
        })
    };
    match word.split_once('=').filter(|_| word.starts_with("--")) {
        Some((name, value)) => Some((named(name)?, Some(value))),
        None => Some((named(word)?, None)),
    }
}

/// The kind of the argument's value, from its help.
fn kind(value: &Arg) -> Option<&str> {
    value.get_value_names()?.first().map(|name| name.as_str().trim_end_matches("[=WEIGHT]"))
}

/// The existing names of a kind. For an address, the queue is completed first, then the name.
async fn names(kind: &str, client: &Client, word: &str) -> Result<Vec<String>> {
    let inspector = client.inspector();
    let Some(of_queue) = kind.strip_prefix("QUEUE/") else {
        return Ok(match kind {
            "QUEUE" => inspector.queues().await?,
            "TOPIC" => inspector.topics().await?.into_iter().map(|topic| topic.name).collect(),
            "SUBSCRIPTION@TOPIC" => {
                let subscriptions = inspector.topics().await?.into_iter().flat_map(|topic| topic.subscriptions);
                subscriptions.map(|subscription| subscription.queue).collect()
            }
            "WORKER" => inspector.workers().await?.into_iter().map(|worker| format!("{}\t{}", worker.id, worker.host)).collect(),
            "TASK" => {
                let tasks: BTreeSet<String> = inspector.workers().await?.into_iter().flat_map(|worker| worker.tasks).collect();
                tasks.into_iter().collect()
            }
            _ => Vec::new(),
        });
    };
    let Some((queue, _)) = word.split_once('/') else {
        return Ok(inspector.queues().await?.into_iter().map(|queue| format!("{queue}/")).collect());
    };
    let names: Vec<String> = match of_queue {
        "GROUP" => inspector.groups(queue, None, MOST).await?.groups.into_iter().map(|group| group.name.to_string()).collect(),
        "LIMIT" => inspector.limits(queue).await?.into_iter().map(|limit| limit.name).collect(),
        "TASK" => known_tasks(client, queue).await?.into_iter().collect(),
        "KEY" => inspector.keys(queue, None, MOST).await?.keys.into_iter().map(|(key, _)| key.to_string()).collect(),
        "OPERATION" => inspector.operations(queue).await?.into_iter().map(|operation| operation.id).collect(),
        "SCHEDULE" => client.schedules().list(queue).await?.into_iter().map(|record| record.schedule.name).collect(),
        "ID" => {
            let mut search = inspector.search(Filter::default()).queue(queue).page(MOST);
            search
                .next()
                .await?
                .into_iter()
                .flat_map(|found| found.jobs)
                .map(|job| format!("{}\t{}", job.address.id, job.task.unwrap_or_default()))
                .collect()
        }
        _ => Vec::new(),
    };
    Ok(names.into_iter().map(|name| format!("{queue}/{name}")).collect())
}
