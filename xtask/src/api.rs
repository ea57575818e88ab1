//! `cargo xtask api`: what is public, against `docs/api.md`. Nothing becomes public by accident.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, ExitCode},
};

use clap::Args;

use crate::run::{cargo, root, target};

/// The libraries whose items the page names.
const LIBRARIES: [&str; 6] = ["queue_cli", "queue_core", "queue_worker", "queue_dashboard", "queue_outbox", "queue_testing"];

/// The page says of these as a whole what they are: the contract for authors of brokers, and names
/// that are at the root, too.
const WHOLE: [&str; 2] = ["broker::", "prelude::"];

/// The packages for users that are libraries.
const DOCUMENTED: [&str; 8] =
    ["queue-calendar", "queue-cli", "queue-core", "queue-dashboard", "queue-macros", "queue-outbox", "queue-testing", "queue-worker"];

/// Options of `cargo xtask api`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Uses the documentation that was built last.
    #[arg(long)]
    built: bool,
}

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    if agrees(arguments.built) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether the page names what is public. Prints what differs.
pub(crate) fn agrees(built: bool) -> bool {
    let problems = compare(built).unwrap_or_else(|problem| vec![problem]);
    problems.iter().for_each(|problem| eprintln!("{problem}"));
    problems.is_empty()
}

/// A command that builds the documentation.
pub(crate) fn document() -> Command {
    let mut command = cargo();
    command.args(["doc", "--no-deps", "--all-features"]).args(DOCUMENTED.iter().flat_map(|package| ["-p", package]));
    command
}

fn compare(built: bool) -> Result<Vec<String>, String> {
    if !built && !document().arg("--quiet").status().is_ok_and(|status| status.success()) {
        return Err("the documentation cannot be built".to_owned());
    }
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut public = BTreeSet::new();
    for library in LIBRARIES {
        public.extend(listed(&read(&target().join("doc").join(library).join("all.html"))?));
    }
    if public.is_empty() {
        return Err("the documentation lists no item: rustdoc writes its list in another form now".to_owned());
    }
    Ok(problems(&public, &named(&read(&root().join("docs/api.md"))?)))
}

fn problems(public: &BTreeSet<String>, named: &BTreeSet<String>) -> Vec<String> {
    let new = public.difference(named).map(|item| format!("`{item}` is public: hide it, or name it in docs/api.md"));
    let gone = named.difference(public).map(|item| format!("docs/api.md names `{item}`, which is not public"));
    new.chain(gone).collect()
}

/// The items of rustdoc's list of all items of a library.
fn listed(page: &str) -> BTreeSet<String> {
    // Links within the page are its headings.
    let links = page.split("<li><a href=\"").skip(1).filter(|link| !link.starts_with('#'));
    let items = links.filter_map(|item| item.split_once("\">")?.1.split_once("</a>"));
    items.map(|(name, _)| name.to_owned()).filter(|name| !WHOLE.iter().any(|part| name.starts_with(part))).collect()
}

/// The names in the first columns of the page's tables, each with the module of `queue_core` that
/// the heading above it names.
fn named(page: &str) -> BTreeSet<String> {
    let (mut names, mut module) = (BTreeSet::new(), String::new());
    for line in page.lines() {
        if line.starts_with("## ") {
            let named = line.split_once("(`queue_core::").and_then(|(_, module)| module.split_once('`'));
            module = named.map(|(module, _)| format!("{module}::")).unwrap_or_default();
        } else if let Some((column, _)) = line.strip_prefix("| `").and_then(|row| row.split_once(" |")) {
            names.extend(column.split(", ").map(|name| format!("{module}{}", name.trim_matches('`'))));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_public_and_not_named_is_reported_and_so_is_the_reverse() {
        let page = "<li><a href=\"#structs\">Structs</a></li><li><a href=\"struct.Client.html\">Client</a></li><li><a href=\"broker/struct.Turn.html\">broker::Turn</a></li>\
                    <li><a href=\"observe/fn.verbs.html\">observe::verbs</a></li>";
        let tables = "| name | what |\n|---|---|\n| `Handle` | `Job` |\n## Calls (`queue_core::observe`)\n| `verbs` | |";
        let told = problems(&listed(page), &named(tables));
        assert_eq!(told, ["`Client` is public: hide it, or name it in docs/api.md", "docs/api.md names `Handle`, which is not public"]);
    }
}
