//! `cargo xtask mutants`: takes one safeguard out at a time and shows that a test fails without it. A suite that cannot fail
//! proves nothing.
//!
//! Works on a copy of the sources under `target/mutants`, which is also where it builds. The tests read scripts and statements from the
//! copy, and nearly all other mutants are in one build, to be switched on by the environment: a mutant takes the time of its tests.

mod list;

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use clap::Args;

use self::list::{BUILT_ALONE, MUTANTS, Mutant};
use crate::{
    run::{root, target},
    servers,
};

/// How long the tests of one mutant may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Names the mutant that is switched on.
const SWITCH: &str = "QUEUE_MUTANT";

/// Options of `cargo xtask mutants`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Parts of the names of those to try; all without any.
    names: Vec<String>,
    /// Only says which there are.
    #[arg(long)]
    list: bool,
    /// Prints one JSON object per mutant.
    #[arg(long)]
    json: bool,
}

/// What became of a mutant.
#[derive(Clone, PartialEq, Eq)]
enum Fate {
    /// This test failed: somebody watches.
    Found(String),
    /// All tests passed: nobody would notice.
    Survived,
    /// Nothing failed, and it did not end: somebody may have noticed, and nobody says what.
    Hangs,
    /// It is no mutant: it does not compile.
    Invalid,
    /// Its tests fail without it, too: this one, or none that is known.
    Untried(String),
}

impl Fate {
    fn name(&self) -> &'static str {
        match self {
            Fate::Found(_) => "found",
            Fate::Survived => "SURVIVED",
            Fate::Hangs => "HANGS",
            Fate::Invalid => "INVALID",
            Fate::Untried(_) => "UNTRIED",
        }
    }

    /// The test that failed.
    fn test(&self) -> &str {
        if let Fate::Found(test) | Fate::Untried(test) = self { test } else { "" }
    }
}

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let wanted = |mutant: &&Mutant| arguments.names.is_empty() || arguments.names.iter().any(|name| mutant.name.contains(name.as_str()));
    let mutants: Vec<&Mutant> = MUTANTS.iter().filter(wanted).collect();
    if mutants.is_empty() {
        eprintln!("error: no mutant has such a name; `cargo xtask mutants --list` shows all");
        return ExitCode::from(2);
    }
    if arguments.list {
        mutants.iter().for_each(|mutant| println!("{:<48} {}", mutant.name, mutant.file));
        return ExitCode::SUCCESS;
    }
    match try_all(&mutants, arguments.json) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all were found.
fn try_all(mutants: &[&Mutant], json: bool) -> Result<bool, String> {
    let lab = Lab::open()?;
    let mut alone: HashMap<&[&str], Fate> = HashMap::new();
    let mut bad = 0;
    for (number, mutant) in mutants.iter().enumerate() {
        eprintln!("{} of {}: {}", number + 1, mutants.len(), mutant.name);
        // Tests that fail anyway would find everything. On a busy machine they may fail once.
        if !alone.contains_key(mutant.tests) {
            let fate = match lab.fate(mutant.tests, "")? {
                Fate::Survived => Fate::Survived,
                _ => lab.fate(mutant.tests, "")?,
            };
            alone.insert(mutant.tests, fate);
        }
        let start = Instant::now();
        let fate = match &alone[mutant.tests] {
            Fate::Survived => lab.try_one(mutant)?,
            fails => Fate::Untried(fails.test().to_owned()),
        };
        bad += usize::from(!matches!(fate, Fate::Found(_)));
        let seconds = start.elapsed().as_secs_f32();
        if json {
            let (fate, test) = (fate.name(), fate.test());
            let line = serde_json::json!({ "name": mutant.name, "file": mutant.file, "fate": fate, "test": test, "seconds": seconds });
            println!("{line}");
        } else {
            println!("{:<56} {:<9} {seconds:>6.1} s  {}", mutant.name, fate.name(), fate.test());
        }
    }
    eprintln!("{} of {} found", mutants.len() - bad, mutants.len());
    Ok(bad == 0)
}

/// A copy of the sources, and a place to build them.
struct Lab {
    /// As they were when this run began: whoever works on them meanwhile changes nothing here.
    originals: PathBuf,
    /// The same, with the mutants in them.
    sources: PathBuf,
    build: PathBuf,
    servers: Vec<(&'static str, PathBuf)>,
}

impl Lab {
    fn open() -> Result<Lab, String> {
        let folder = target().join("mutants");
        let lab = Lab {
            originals: folder.join("originals"),
            sources: folder.join("sources"),
            build: folder.join("build"),
            servers: [("QUEUE_TEST_REDIS_SERVER", servers::redis(false)), ("QUEUE_TEST_VALKEY_SERVER", servers::valkey())]
                .into_iter()
                .filter_map(|(variable, server)| Some((variable, server.ok()?.program)))
                .collect(),
        };
        let listed = Command::new("git").args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root()).output();
        let listed = listed.map_err(|error| format!("git cannot list the sources: {error}"))?;
        for file in String::from_utf8_lossy(&listed.stdout).lines() {
            lab.copy(Path::new(file))?;
        }
        Ok(lab)
    }

    /// Copies a file that has changed; others keep their times, so that they are not built again.
    fn copy(&self, file: &Path) -> Result<(), String> {
        let problem = |error: std::io::Error| format!("{}: {error}", file.display());
        let Ok(mut text) = fs::read(root().join(file)) else { return Ok(()) };
        write(&self.originals.join(file), &text).map_err(problem)?;
        if let Some(file) = file.to_str().filter(|file| file.ends_with(".rs")) {
            text = prepared(file, &String::from_utf8_lossy(&text))?.into_bytes();
        }
        let copy = self.sources.join(file);
        if fs::read(&copy).is_ok_and(|there| there == text) {
            return Ok(());
        }
        write(&copy, &text).map_err(problem)
    }

    fn try_one(&self, mutant: &Mutant) -> Result<Fate, String> {
        if mutant.is_switched() {
            return self.fate(mutant.tests, mutant.name);
        }
        let file = self.sources.join(mutant.file);
        let problem = |error: std::io::Error| format!("{}: {error}", mutant.file);
        let before = fs::read_to_string(&file).map_err(problem)?;
        let text = fs::read_to_string(self.originals.join(mutant.file)).map_err(problem)?;
        fs::write(&file, mutant.applied(&text)?).map_err(problem)?;
        let fate = self.fate(mutant.tests, "");
        fs::write(&file, before).map_err(problem)?;
        fate
    }

    /// Builds tests and runs them, with this mutant switched on, up to the first that fails.
    fn fate(&self, tests: &[&str], switch: &str) -> Result<Fate, String> {
        // A filter of names is no argument of the build.
        let build = tests.iter().take_while(|argument| **argument != "--");
        let built = self.cargo().args(build).arg("--no-run").stderr(Stdio::piped()).output();
        let built = built.map_err(|error| format!("cargo does not start: {error}"))?;
        if !built.status.success() {
            eprint!("{}", String::from_utf8_lossy(&built.stderr));
            return Ok(Fate::Invalid);
        }
        let mut command = self.cargo();
        command.args(tests).env(SWITCH, switch).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cargo does not start: {error}"))?;
        let (sender, lines) = mpsc::channel();
        let stdout = child.stdout.take();
        std::thread::spawn(move || {
            let lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines().map_while(Result::ok));
            lines.for_each(|line| drop(sender.send(line)));
        });
        let until = Instant::now() + PATIENCE;
        let fate = loop {
            match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(test) = failed(&line) {
                        break Fate::Found(test.to_owned());
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => break Fate::Hangs,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let status = child.wait().map_err(|error| format!("cargo does not end: {error}"))?;
                    // No test says that it failed: it took the others along.
                    return Ok(if status.success() { Fate::Survived } else { Fate::Found("(the process of the tests)".to_owned()) });
                }
            }
        };
        // With everything that it has started.
        drop(Command::new("kill").args(["-9", "--", &format!("-{}", child.id())]).status());
        drop(child.wait());
        Ok(fate)
    }

    fn cargo(&self) -> Command {
        let mut command = crate::run::cargo();
        command.arg("test").current_dir(&self.sources).env("CARGO_TARGET_DIR", &self.build);
        // Small and soon built: nobody looks at what it says, and it is not run for long.
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        // All states that other hands can leave behind, not a part of them.
        command.env("QUEUE_TEST_CORRUPT", "");
        command.env("QUEUE_TEST_SOURCES", &self.sources);
        command.envs(self.servers.iter().map(|(variable, program)| (variable, program)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// Writes a file, in a folder that may be missing.
fn write(file: &Path, text: &[u8]) -> std::io::Result<()> {
    file.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(file, text)
}

/// The name in a line like `test a::b ... FAILED`.
fn failed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// A source of the copy: with its mutants in it, switched off.
fn prepared(file: &str, text: &str) -> Result<String, String> {
    let mut text = text.to_owned();
    for mutant in MUTANTS.iter().filter(|mutant| mutant.file == file && mutant.is_switched()) {
        text = mutant.switched(&text)?;
    }
    Ok(text)
}

impl Mutant {
    /// Whether it is built together with others.
    fn is_switched(&self) -> bool {
        self.file.ends_with(".rs") && !BUILT_ALONE.contains(&self.name)
    }

    fn switched(&self, text: &str) -> Result<String, String> {
        let condition = |text: &'static str| text.strip_prefix("if ")?.strip_suffix(" {");
        let (before, find, replace, after) = match (condition(self.find), condition(self.replace)) {
            (Some(find), Some(replace)) => ("if ", find, replace, " {"),
            _ => ("", self.find, self.replace, ""),
        };
        let is_on = format!("std::env::var_os({SWITCH:?}).is_some_and(|mutant| mutant == {:?})", self.name);
        let both = format!("{before}(if {is_on} {{ {replace} }} else {{ {find} }}){after}");
        exchanged(text, self.find, &both).map_err(|problem| format!("mutant `{}`: {}: {problem}", self.name, self.file))
    }

    fn applied(&self, text: &str) -> Result<String, String> {
        exchanged(text, self.find, self.replace).map_err(|problem| format!("mutant `{}`: {}: {problem}", self.name, self.file))
    }
}

/// A text with the one occurrence of a part exchanged.
fn exchanged(text: &str, find: &str, replace: &str) -> Result<String, String> {
    match text.matches(find).count() {
        1 => Ok(text.replacen(find, replace, 1)),
        count => Err(format!("the text is there {count} times, not once: `{find}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_safeguard_that_is_taken_out_is_there() {
        for mutant in MUTANTS {
            let text = fs::read_to_string(root().join(mutant.file)).unwrap_or_else(|error| panic!("{}: {error}", mutant.file));
            let changed = mutant.applied(&text).unwrap_or_else(|problem| panic!("{problem}"));
            assert_ne!(changed, text, "{}", mutant.name);
        }
    }

    #[test]
    fn all_mutants_of_a_file_go_into_one_build() {
        for mutant in MUTANTS {
            let text = fs::read_to_string(root().join(mutant.file)).unwrap();
            let text = prepared(mutant.file, &text).unwrap_or_else(|problem| panic!("{problem}"));
            assert_eq!(text.contains(&format!("mutant == {:?}", mutant.name)), mutant.is_switched(), "{}", mutant.name);
        }
        for mutant in MUTANTS.iter().filter(|mutant| mutant.is_switched()) {
            for text in [mutant.find, mutant.replace] {
                let condition = text.strip_prefix("if ").and_then(|text| text.strip_suffix(" {"));
                let expression = format!("{{ {} }}", condition.unwrap_or(text));
                let read =
                    syn::parse_str::<syn::Block>(&expression).unwrap_or_else(|error| panic!("mutant `{}`: {text}: {error}", mutant.name));
                let binds = read.stmts.iter().any(|statement| matches!(statement, syn::Stmt::Local(_)));
                assert!(!binds, "mutant `{}`: {text}: what `let` names is not there behind its block", mutant.name);
            }
        }
        assert!(BUILT_ALONE.iter().all(|name| MUTANTS.iter().any(|mutant| mutant.name == *name)));
    }

    #[test]
    fn a_test_that_fails_is_named() {
        assert_eq!(failed("test redis::a_job ... FAILED"), Some("redis::a_job"));
        assert_eq!(failed("test redis::a_job ... ok"), None);
    }
}
