//! `cargo xtask api`: compares the public items with `docs/api.md`, so that no item becomes public
//! by accident.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    path::Path,
    process::{Command, ExitCode},
};

use clap::Args;

use crate::run::{cargo, pass_on, root, succeeds, target, with_lints};

/// The libraries whose items the page names.
const LIBRARIES: [&str; 6] = ["queue_cli", "queue_core", "queue_worker", "queue_dashboard", "queue_outbox", "queue_testing"];

/// The page describes these as a whole: the contract for authors of brokers, and names that are
/// also at the root.
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

/// Whether the page names all public items. Prints the differences.
pub(crate) fn agrees(built: bool) -> bool {
    let problems = compare(built).unwrap_or_else(|problem| vec![problem]);
    problems.iter().for_each(|problem| eprintln!("{problem}"));
    problems.is_empty()
}

/// Set if cargo runs this program as its rustdoc. The value is its task.
const AS_RUSTDOC: &str = "QUEUE_XTASK_RUSTDOC";

/// A command that builds the documentation of the libraries for users and, if asked to, runs the
/// examples of all packages. `cargo doc` would check all dependencies first; to run examples, cargo
/// passes rustdoc the libraries that the tests have built.
pub(crate) fn document(examples: bool) -> std::io::Result<Command> {
    let mut command = cargo();
    command.env("RUSTDOC", std::env::current_exe()?).env(AS_RUSTDOC, if examples { "document and run" } else { "document" });
    with_lints(&mut command).args(["test", "--workspace", "--all-features", "--doc", "--no-fail-fast"]);
    Ok(command)
}

/// The work of rustdoc, if cargo runs this program for it: documents the library of an order to run
/// its examples, then passes the order on.
pub(crate) fn rustdoc() -> Option<ExitCode> {
    let examples = std::env::var(AS_RUSTDOC).ok()? == "document and run";
    let order: Vec<OsString> = std::env::args_os().skip(1).collect();
    let library = order.iter().skip_while(|argument| *argument != "--crate-name").nth(1);
    let library = library.and_then(|name| name.to_str()).unwrap_or_default();
    let rustdoc = || Command::new("rustdoc");
    let documented = !DOCUMENTED.contains(&&*library.replace('_', "-"))
        || succeeds(rustdoc().args(without_examples(&order, library)).args(["-D", "warnings", "--out-dir"]).arg(target().join("doc")));
    Some(match examples {
        true if documented => pass_on(rustdoc().args(order)),
        _ if documented => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// The arguments that also apply to documentation. A library is not its own dependency.
fn without_examples<'a>(order: &'a [OsString], library: &str) -> Vec<&'a OsStr> {
    let (mut kept, mut order) = (Vec::new(), order.iter().map(OsString::as_os_str));
    while let Some(argument) = order.next() {
        let own = |value: &OsStr| value.to_str().is_some_and(|value| value.starts_with(&format!("{library}=")));
        match argument.to_str() {
            Some("--test") => {}
            Some("--test-run-directory" | "--test-args") => drop(order.next()),
            Some("--extern") => kept.extend(order.next().filter(|value| !own(value)).into_iter().flat_map(|value| [argument, value])),
            _ => kept.push(argument),
        }
    }
    kept
}

fn compare(built: bool) -> Result<Vec<String>, String> {
    if !built && !document(false).is_ok_and(|mut command| succeeds(command.arg("--quiet"))) {
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
    // Links within the page belong to its headings.
    let links = page.split("<li><a href=\"").skip(1).filter(|link| !link.starts_with('#'));
    let items = links.filter_map(|item| item.split_once("\">")?.1.split_once("</a>"));
    items.map(|(name, _)| name.to_owned()).filter(|name| !WHOLE.iter().any(|part| name.starts_with(part))).collect()
}

/// The names in the first columns of the page's tables, each with the module of `queue_core` in the
/// heading above it.
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
