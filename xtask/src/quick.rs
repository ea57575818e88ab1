//! `cargo xtask quick`: tests a changed line of `queue-core` within a minute and a half, and a
//! changed script within seconds. Debug builds read Lua and SQL from the sources in
//! `QUEUE_TEST_SOURCES`.

use std::{fs, path::PathBuf, process::ExitCode, time::Instant};

use clap::Args;
use serde_json::{Value, json};

use crate::{
    run::{cargo, output, root, target},
    suites::{self, Outcome, Program, Setting},
    test::{Servers, print_ran},
};

/// Options of `cargo xtask quick`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Runs the tests whose name contains this: `fences`, `on_redis::groups`. Default: all
    #[arg(default_value = "")]
    filter: String,
}

const BUILD: [&str; 10] = ["test", "--no-run", "--lib", "--test", "conformance", "-p", "queue-core", "-p", "queue-tests", "--all-features"];

/// The programs, with the prefixes of their tests.
const PROGRAMS: [(&str, &[&str]); 2] = [("queue-core", &[""]), ("tests/conformance", &["on_redis::", "on_sqlite_file::"])];

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let begun = Instant::now();
    let servers = Servers::find(false);
    let (mut variables, skipped) = servers.setting();
    variables.push(("QUEUE_TEST_SOURCES".to_owned(), root().display().to_string()));
    let setting = Setting { variables: &variables, arguments: &skipped };
    let Some(programs) = programs() else {
        eprintln!("error: it does not compile");
        return ExitCode::FAILURE;
    };
    println!("built after {:.1} s", begun.elapsed().as_secs_f32());
    let mut chosen = Vec::new();
    for (program, starts) in programs {
        match program.list(&setting) {
            Ok(tests) => {
                let wanted = |test: &String| test.contains(&*arguments.filter) && starts.iter().any(|start| test.starts_with(start));
                let tests: Vec<String> = tests.into_iter().filter(wanted).collect();
                chosen.extend((!tests.is_empty()).then_some((program, Some(tests))));
            }
            Err(problem) => {
                eprintln!("error: {problem}");
                return ExitCode::FAILURE;
            }
        }
    }
    if chosen.is_empty() {
        eprintln!("error: no test of queue-core and of the conformance suite has `{}` in its name", arguments.filter);
        return ExitCode::from(2);
    }
    let ran = suites::run_all(chosen, &setting, print_ran);
    let failed = ran.iter().any(|ran| ran.problem.is_some() || ran.count(Outcome::Failed) + ran.count(Outcome::Slow) > 0);
    println!("{} after {:.1} s", if failed { "FAILED" } else { "passed" }, begun.elapsed().as_secs_f32());
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The programs. They are built again only if a source has changed that is not a script. Cargo
/// would also compile a crate again for a changed script.
fn programs() -> Option<Vec<(Program, &'static [&'static str])>> {
    let stamp = target().join("xtask").join("quick.json");
    let sources = sources()?;
    let known: Option<Value> = fs::read_to_string(&stamp).ok().and_then(|text| serde_json::from_str(&text).ok());
    let mut found = Vec::new();
    if let Some(known) = known.filter(|known| known["sources"] == sources) {
        for (name, starts) in PROGRAMS {
            let path = PathBuf::from(known[name].as_str().unwrap_or_default());
            let folder = root().join(name.split('/').next().unwrap_or(name));
            found.extend(path.exists().then(|| (Program { name: name.to_owned(), path, folder, source: PathBuf::new() }, starts)));
        }
    }
    if found.len() == PROGRAMS.len() {
        return Some(found);
    }
    let mut record = json!({ "sources": sources });
    // Without lints: a warning should not fail before the change is complete.
    let built = suites::built(cargo().args(BUILD))?;
    let mut found = Vec::new();
    for (name, starts) in PROGRAMS {
        let program = built.programs.iter().find(|program| program.name == name)?;
        record[name] = json!(program.path);
        found.push((program.clone(), starts));
    }
    drop(stamp.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&stamp, record.to_string())));
    Some(found)
}

/// A digest of all sources except scripts.
fn sources() -> Option<String> {
    let mut git = std::process::Command::new("git");
    let listed =
        output(git.args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.toml", "*.lock"]).current_dir(root()))?;
    let mut all = Vec::new();
    for file in listed.lines() {
        all.extend(file.as_bytes());
        all.extend(fs::read(root().join(file)).unwrap_or_default());
    }
    Some(format!("{:016x}", crate::selection::hash(&all)))
}
