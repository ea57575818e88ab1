//! `cargo xtask mutants`: removes one safeguard at a time from a Lua script or an SQL statement,
//! and shows that its test fails without it.
//!
//! Nothing is compiled. Debug builds read scripts and statements from the folder in
//! `QUEUE_TEST_SOURCES`, which is a copy.

mod list;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::Args;

use self::list::{MUTANTS, Mutant};
use crate::{
    run::{output, root, target},
    suites::{self, Outcome, Program, Setting},
    test::Servers,
};

/// The test that detects each mutant, by the last complete run.
const PAGE: &str = "docs/mutants.md";

/// Options of `cargo xtask mutants`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Parts of the names of those to try; all without any.
    names: Vec<String>,
    /// Only lists them.
    #[arg(long)]
    list: bool,
}

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let wanted = |mutant: &&Mutant| arguments.names.is_empty() || arguments.names.iter().any(|name| mutant.name.contains(name.as_str()));
    let mutants: Vec<&Mutant> = MUTANTS.iter().filter(wanted).collect();
    if mutants.is_empty() {
        eprintln!("error: no mutant has such a name; `cargo xtask mutants --list` shows all");
        return ExitCode::from(2);
    }
    if arguments.list {
        mutants.iter().for_each(|mutant| println!("{:<64} {}", mutant.name, mutant.file));
        return ExitCode::SUCCESS;
    }
    let (variables, skipped) = Servers::find(false).setting();
    let setting = Setting { variables: &variables, arguments: &skipped };
    let Some(built) = suites::build(&suites::WORKSPACE) else {
        eprintln!("error: the workspace does not build");
        return ExitCode::FAILURE;
    };
    match try_these(&mutants, &built.programs, &setting) {
        Ok(found) => {
            println!("{found}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Tries all mutants, and writes the page if each is detected.
pub(crate) fn try_all(programs: &[Program], setting: &Setting<'_>) -> Result<String, String> {
    try_these(&MUTANTS.iter().collect::<Vec<_>>(), programs, setting)
}

fn try_these(mutants: &[&Mutant], programs: &[Program], setting: &Setting<'_>) -> Result<String, String> {
    let lab = Lab::open(programs, setting)?;
    lab.pass_unchanged(mutants)?;
    let mut survived = Vec::new();
    for mutant in mutants {
        let is_found = lab.finds(mutant)?;
        println!("{:<64} {:<9} {}", mutant.name, if is_found { "found" } else { "SURVIVED" }, mutant.test);
        if !is_found {
            survived.push(mutant.name);
        }
    }
    if !survived.is_empty() {
        return Err(format!("{} of {} survived: {}", survived.len(), mutants.len(), survived.join("; ")));
    }
    if mutants.len() == MUTANTS.len() {
        fs::write(root().join(PAGE), page()).map_err(|error| format!("{PAGE}: {error}"))?;
    }
    Ok(format!("{} found", mutants.len()))
}

/// A copy of all scripts and statements, and the programs that read it.
struct Lab<'a> {
    sources: PathBuf,
    programs: &'a [Program],
    variables: Vec<(String, String)>,
}

impl Lab<'_> {
    fn open<'a>(programs: &'a [Program], setting: &Setting<'_>) -> Result<Lab<'a>, String> {
        let sources = target().join("mutants");
        let listed = output(Command::new("git").args(["ls-files", "*.lua", "*.sql"]).current_dir(root()));
        for file in listed.ok_or("git does not list the scripts")?.lines() {
            let to = sources.join(file);
            let made = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::copy(root().join(file), &to));
            made.map_err(|error| format!("{file}: {error}"))?;
        }
        let mut variables = setting.variables.to_vec();
        variables.push(("QUEUE_TEST_SOURCES".to_owned(), sources.display().to_string()));
        // All damaged states, and not only a part of them.
        variables.push(("QUEUE_TEST_CORRUPT".to_owned(), String::new()));
        Ok(Lab { sources, programs, variables })
    }

    /// Checks that the tests pass without a mutant: otherwise they would detect every mutant. On a
    /// busy machine a test may fail once.
    fn pass_unchanged(&self, mutants: &[&Mutant]) -> Result<(), String> {
        let mut tests: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        mutants.iter().for_each(|mutant| tests.entry(mutant.program).or_default().push(mutant.test.to_owned()));
        for (program, mut tests) in tests {
            tests.sort();
            tests.dedup();
            let failed = self.failed(program, &tests)?;
            let failed = if failed.is_empty() { failed } else { self.failed(program, &failed)? };
            if !failed.is_empty() {
                return Err(format!("without any mutant these fail: {}", failed.join(", ")));
            }
        }
        Ok(())
    }

    fn finds(&self, mutant: &Mutant) -> Result<bool, String> {
        let file = self.sources.join(mutant.file);
        let problem = |error: std::io::Error| format!("{}: {error}", mutant.file);
        let text = fs::read_to_string(&file).map_err(problem)?;
        fs::write(&file, mutant.applied(&text)?).map_err(problem)?;
        // On a busy machine a test may fail once. A mutant is detected if its test fails twice.
        let fails = || self.failed(mutant.program, &[mutant.test.to_owned()]).map(|failed| !failed.is_empty());
        let found = fails().and_then(|once| if once { fails() } else { Ok(false) });
        fs::write(&file, text).map_err(problem)?;
        found
    }

    /// The tests among these that fail.
    fn failed(&self, program: &str, tests: &[String]) -> Result<Vec<String>, String> {
        let named = self.programs.iter().find(|built| built.name == format!("tests/{program}"));
        let ran = named.ok_or_else(|| format!("there is no program `{program}`"))?;
        let ran = ran.run(Some(tests), &Setting { variables: &self.variables, arguments: &[] });
        if ran.tests.len() != tests.len() {
            let problem = ran.problem.unwrap_or_default();
            return Err(format!("{program} ran {} tests of {}: {}; {problem}", ran.tests.len(), tests.len(), tests.join(", ")));
        }
        let failed = ran.tests.into_iter().filter(|test| matches!(test.outcome, Outcome::Failed | Outcome::Slow));
        Ok(failed.map(|test| test.name).collect())
    }
}

fn page() -> String {
    let commit =
        output(Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).current_dir(root())).unwrap_or_default();
    let mut page = format!(
        "# Removed safeguards\n\n`cargo xtask mutants` removes one safeguard at a time from a script or a statement, and runs\nthe test that finds it. It writes this page when all are \
         found. Last run: commit {}, {} of {}\nfound.\n\n| safeguard | file | test |\n|---|---|---|\n",
        commit.trim(),
        MUTANTS.len(),
        MUTANTS.len(),
    );
    for mutant in MUTANTS {
        let file = Path::new(mutant.file).strip_prefix("queue-core/src").unwrap_or(Path::new(mutant.file));
        page.push_str(&format!("| {} | `{}` | `{}` of {} |\n", mutant.name, file.display(), mutant.test, mutant.program));
    }
    page
}

impl Mutant {
    /// The text with the safeguard replaced.
    fn applied(&self, text: &str) -> Result<String, String> {
        match text.matches(self.find).count() {
            1 => Ok(text.replacen(self.find, self.replace, 1)),
            count => Err(format!("mutant `{}`: {}: the text is there {count} times, not once: `{}`", self.name, self.file, self.find)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_safeguard_that_is_taken_out_is_there() {
        let problem = |mutant: &Mutant| match fs::read_to_string(root().join(mutant.file)) {
            Err(error) => Some(format!("{}: {error}", mutant.file)),
            Ok(text) => mutant.applied(&text).err(),
        };
        let problems: Vec<String> = MUTANTS.iter().filter_map(problem).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
        assert!(MUTANTS.len() <= 60, "a list that grows is a second copy of the scripts");
    }
}
