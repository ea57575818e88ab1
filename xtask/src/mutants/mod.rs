//! `cargo xtask mutants`: takes one safeguard out at a time and shows that a test fails without it. A suite that cannot fail
//! proves nothing.
//!
//! Works on a copy of the sources under `target/mutants`, which is also where it builds. The tests read scripts and statements from the
//! copy, and nearly all other mutants are in one build, to be switched on by the environment: a mutant takes the time of its tests.

mod list;

use std::{
    collections::{HashMap, VecDeque},
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use serde_json::{Value, json};

use self::list::{BUILT_ALONE, MUTANTS, Mutant};
use crate::{
    run::{output, root, target},
    servers,
    suites::{self, Outcome, Program, Setting},
};

/// Where `--record` stores which tests found a mutant.
const RECORD: &str = "docs/mutants.jsonl";

/// A call with `--record` begins no mutant after this time.
const SLICE: Duration = Duration::from_secs(45 * 60);

/// The property test, which `--record` runs for mutants of scripts and statements, with each of these seeds.
const PROPERTY: &[&str] = &["-p", "queue-tests", "--test", "property"];
const SEEDS: [u64; 3] = [1, 2, 3];

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
    /// Appends to docs/mutants.jsonl which tests find a mutant, and whether the property test does. Leaves out the mutants that the
    /// file has, and stops after 45 minutes: call it again to go on.
    #[arg(long)]
    record: bool,
    /// Tries this many mutants at once: most tests wait for servers and leases.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    jobs: u8,
}

/// What became of a mutant.
#[derive(Clone, PartialEq, Eq)]
enum Fate {
    /// These tests failed.
    Found(Vec<String>),
    /// All tests passed.
    Survived,
    /// No test failed, and the program did not end.
    Hangs,
    /// It does not compile.
    Invalid,
    /// Its tests fail without it, too.
    Untried(Vec<String>),
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

    /// The tests that failed.
    fn tests(&self) -> &[String] {
        if let Fate::Found(tests) | Fate::Untried(tests) = self { tests } else { &[] }
    }
}

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let wanted = |mutant: &&Mutant| arguments.names.is_empty() || arguments.names.iter().any(|name| mutant.name.contains(name.as_str()));
    let mutants: Vec<&'static Mutant> = MUTANTS.iter().filter(wanted).collect();
    if mutants.is_empty() {
        eprintln!("error: no mutant has such a name; `cargo xtask mutants --list` shows all");
        return ExitCode::from(2);
    }
    if arguments.list {
        mutants.iter().for_each(|mutant| println!("{:<48} {}", mutant.name, mutant.file));
        return ExitCode::SUCCESS;
    }
    match try_all(&mutants, arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all were found.
fn try_all(mutants: &[&'static Mutant], arguments: &Arguments) -> Result<bool, String> {
    let begun = Instant::now();
    let recorded = if arguments.record { recorded()? } else { Vec::new() };
    let lab = Lab::open(arguments.jobs)?;
    let left = mutants.iter().copied().filter(|mutant| !recorded.iter().any(|name| name == mutant.name));
    // What changes the sources is built alone: nothing else may run meanwhile.
    let (alone, together): (Vec<_>, Vec<_>) = left.partition(|mutant| !mutant.is_switched() && !is_script(Path::new(mutant.file)));
    let total = alone.len() + together.len();
    let is_over = || arguments.record && begun.elapsed() > SLICE;
    let ended = Mutex::new(Vec::new());
    let run = |scripts: &Path, waiting: &Mutex<VecDeque<&'static Mutant>>| -> Result<(), String> {
        while !is_over() {
            let Some(mutant) = lock(waiting).pop_front() else { break };
            let start = Instant::now();
            let (fate, seeds) = match lab.without(mutant.tests, scripts)? {
                Fate::Survived => lab.try_one(mutant, arguments.record, scripts)?,
                fails => (Fate::Untried(fails.tests().to_vec()), None),
            };
            let mut ended = lock(&ended);
            ended.push(matches!(fate, Fate::Found(_)));
            told(mutant, &fate, seeds.as_deref(), start.elapsed(), arguments, &format!("{} of {total}", ended.len()))?;
        }
        Ok(())
    };
    let waiting = Mutex::new(VecDeque::from(together));
    thread::scope(|scope| {
        let workers: Vec<_> = lab.scripts.iter().map(|scripts| scope.spawn(|| run(scripts, &waiting))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a thread panicked".to_owned())?)
    })?;
    run(&lab.scripts[0], &Mutex::new(VecDeque::from(alone)))?;
    let ended = lock(&ended);
    let (tried, found) = (ended.len(), ended.iter().filter(|found| **found).count());
    if tried < total {
        eprintln!("{} of {} have not been tried: call it again", total - tried, mutants.len());
    }
    eprintln!("{found} of {tried} found");
    Ok(found == tried)
}

fn told(mutant: &Mutant, fate: &Fate, seeds: Option<&[u64]>, took: Duration, arguments: &Arguments, number: &str) -> Result<(), String> {
    let seconds = took.as_secs_f32();
    let line = json!({
        "mutant": mutant.name, "file": mutant.file, "fate": fate.name(), "tests": fate.tests(), "property_test_seeds": seeds,
        "seconds": seconds, "commit": commit(),
    });
    if arguments.record {
        append(&line)?;
    }
    match arguments.json {
        true => println!("{line}"),
        false => {
            let first = fate.tests().first().map_or("", String::as_str);
            println!("{number:<12} {:<56} {:<9} {seconds:>6.1} s  {first}", mutant.name, fate.name());
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names in the record.
fn recorded() -> Result<Vec<String>, String> {
    let Ok(text) = fs::read_to_string(root().join(RECORD)) else { return Ok(Vec::new()) };
    let name = |(number, line)| {
        let line: Value = serde_json::from_str(line).map_err(|error| format!("{RECORD}, line {}: {error}", number + 1))?;
        Ok(line["mutant"].as_str().unwrap_or_default().to_owned())
    };
    text.lines().enumerate().map(name).collect()
}

fn append(line: &Value) -> Result<(), String> {
    let opened = fs::OpenOptions::new().create(true).append(true).open(root().join(RECORD));
    opened.and_then(|mut file| writeln!(file, "{line}")).map_err(|error| format!("{RECORD}: {error}"))
}

fn commit() -> String {
    let described = output(Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).current_dir(root()));
    described.unwrap_or_default().trim().to_owned()
}

/// A copy of the sources, and a place to build them.
struct Lab {
    /// As they were when this run began: whoever works on them meanwhile changes nothing here.
    originals: PathBuf,
    /// The same, with the mutants in them.
    sources: PathBuf,
    /// Scripts and statements, which the tests read here, once for each mutant that is tried at the same time. A change in `sources`
    /// would compile them.
    scripts: Vec<PathBuf>,
    build: PathBuf,
    variables: Vec<(String, String)>,
    /// The programs of each list of arguments. Empty: they do not compile.
    programs: Mutex<HashMap<Tests, Arc<Vec<Program>>>>,
    /// What becomes of the tests without a mutant.
    unchanged: Mutex<HashMap<Tests, Arc<OnceLock<Baseline>>>>,
}

type Baseline = Result<Fate, String>;

/// Arguments of `cargo test`.
type Tests = &'static [&'static str];

impl Lab {
    fn open(jobs: u8) -> Result<Lab, String> {
        let folder = target().join("mutants");
        let mut lab = Lab {
            originals: folder.join("originals"),
            sources: folder.join("sources"),
            scripts: (0..jobs).map(|job| folder.join(format!("scripts-{job}"))).collect(),
            build: folder.join("build"),
            variables: Vec::new(),
            programs: Mutex::default(),
            unchanged: Mutex::default(),
        };
        let servers = [("QUEUE_TEST_REDIS_SERVER", servers::redis(false)), ("QUEUE_TEST_VALKEY_SERVER", servers::valkey())];
        let servers =
            servers.into_iter().filter_map(|(variable, server)| Some((variable.to_owned(), server.ok()?.program.display().to_string())));
        lab.variables.extend(servers);
        lab.variables.extend([
            // All damaged states, not a part of them.
            ("QUEUE_TEST_CORRUPT".to_owned(), String::new()),
        ]);
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
        if is_script(file) {
            self.scripts.iter().try_for_each(|scripts| write(&scripts.join(file), &text)).map_err(problem)?;
        }
        let copy = self.sources.join(file);
        if fs::read(&copy).is_ok_and(|there| there == text) {
            return Ok(());
        }
        write(&copy, &text).map_err(problem)
    }

    /// What becomes of these tests without a mutant: tests that fail anyway would find everything. On a busy machine they may fail once.
    fn without(&self, tests: Tests, scripts: &Path) -> Result<Fate, String> {
        let fate = lock(&self.unchanged).entry(tests).or_default().clone();
        let fate = fate.get_or_init(|| match self.fate(tests, &[], scripts)? {
            Fate::Survived => Ok(Fate::Survived),
            _ => self.fate(tests, &[], scripts),
        });
        fate.clone()
    }

    /// Its fate, and for scripts and statements the seeds with which the property test finds it, if asked for.
    fn try_one(&self, mutant: &Mutant, with_property: bool, scripts: &Path) -> Result<(Fate, Option<Vec<u64>>), String> {
        if mutant.is_switched() {
            return Ok((self.fate(mutant.tests, &[(SWITCH.to_owned(), mutant.name.to_owned())], scripts)?, None));
        }
        let is_script = is_script(Path::new(mutant.file));
        let file = if is_script { scripts } else { &self.sources }.join(mutant.file);
        let problem = |error: std::io::Error| format!("{}: {error}", mutant.file);
        let before = fs::read_to_string(&file).map_err(problem)?;
        let text = fs::read_to_string(self.originals.join(mutant.file)).map_err(problem)?;
        fs::write(&file, mutant.applied(&text)?).map_err(problem)?;
        if !is_script {
            lock(&self.programs).clear();
        }
        let fate = self.fate(mutant.tests, &[], scripts);
        let is_checked = with_property && [".lua", ".sql"].iter().any(|ending| mutant.file.ends_with(ending));
        let seeds = is_checked.then(|| self.found_by_property(scripts)).transpose();
        fs::write(&file, before).map_err(problem)?;
        if !is_script {
            lock(&self.programs).clear();
        }
        Ok((fate?, seeds?))
    }

    /// The seeds with which the property test fails.
    fn found_by_property(&self, scripts: &Path) -> Result<Vec<u64>, String> {
        let mut found = Vec::new();
        for seed in SEEDS {
            let variables =
                [("QUEUE_TEST_SEED", seed.to_string()), ("QUEUE_TEST_CASES", "24".to_owned()), ("QUEUE_TEST_SHRINK", "0".to_owned())];
            let variables = variables.map(|(name, value)| (name.to_owned(), value));
            if self.run(PROPERTY, &["both_brokers_agree".to_owned()], &variables, scripts)? != Fate::Survived {
                found.push(seed);
            }
        }
        Ok(found)
    }

    /// Builds tests and runs them.
    fn fate(&self, tests: Tests, variables: &[(String, String)], scripts: &Path) -> Result<Fate, String> {
        let end = tests.iter().position(|argument| *argument == "--").unwrap_or(tests.len());
        let filters: Vec<String> = tests.iter().skip(end + 1).map(|filter| (*filter).to_owned()).collect();
        self.run(&tests[..end], &filters, variables, scripts)
    }

    fn run(&self, arguments: Tests, filters: &[String], variables: &[(String, String)], scripts: &Path) -> Result<Fate, String> {
        let programs = self.built(arguments);
        if programs.is_empty() {
            return Ok(Fate::Invalid);
        }
        let sources = ("QUEUE_TEST_SOURCES".to_owned(), scripts.display().to_string());
        let variables: Vec<_> = self.variables.iter().chain(variables).cloned().chain([sources]).collect();
        let setting = Setting { variables: &variables, arguments: filters };
        let (mut failed, mut hangs) = (Vec::new(), false);
        for program in programs.iter() {
            let ran = program.run(None, &setting);
            let failures = ran.tests.iter().filter(|test| matches!(test.outcome, Outcome::Failed | Outcome::Slow));
            failed.extend(failures.map(|test| test.name.clone()));
            hangs |= ran.problem.is_some();
        }
        Ok(match (failed.is_empty(), hangs) {
            (false, _) => Fate::Found(failed),
            (true, true) => Fate::Hangs,
            (true, false) => Fate::Survived,
        })
    }

    /// The programs of these tests. Empty: they do not compile.
    fn built(&self, arguments: Tests) -> Arc<Vec<Program>> {
        let mut programs = lock(&self.programs);
        let programs = programs.entry(arguments).or_insert_with(|| {
            let mut cargo = crate::run::cargo();
            cargo.args(["test", "--no-run"]).args(arguments).current_dir(&self.sources).env("CARGO_TARGET_DIR", &self.build);
            cargo.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_INCREMENTAL", "0");
            Arc::new(suites::built(&mut cargo).map(|built| built.programs).unwrap_or_default())
        });
        programs.clone()
    }
}

/// Whether the tests read this file where `QUEUE_TEST_SOURCES` says. The schema is compiled.
fn is_script(file: &Path) -> bool {
    let is_schema = file.parent().is_some_and(|folder| folder.ends_with("sqlite/connection"));
    !is_schema && file.extension().is_some_and(|ending| ending == "lua" || ending == "sql")
}

/// Writes a file, in a folder that may be missing.
fn write(file: &Path, text: &[u8]) -> std::io::Result<()> {
    file.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(file, text)
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
        let problem = |mutant: &Mutant| match fs::read_to_string(root().join(mutant.file)) {
            Err(error) => Some(format!("{}: {error}", mutant.file)),
            Ok(text) => match mutant.applied(&text) {
                Err(problem) => Some(problem),
                Ok(changed) => (changed == text).then(|| format!("mutant `{}` changes nothing", mutant.name)),
            },
        };
        let problems: Vec<String> = MUTANTS.iter().filter_map(problem).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
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
}
