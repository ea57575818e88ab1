//! `cargo xtask test`: the checks that a change needs, and a summary. [`whole`] has the checks that
//! are too slow for each change.
//!
//! Everything is compiled before the first test runs: a concurrent compiler would delay tests that
//! wait.

use std::{fs, path::PathBuf, process::ExitCode, thread, time::Instant};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::{
    api, gate,
    load::Load,
    run::{cargo, output, succeeds, target},
    selection::Selection,
    servers::{self, Server},
    suites::{self, Built, Chosen, Outcome, Program, Ran, Setting, Test},
    whole,
};

/// The compiler whose messages `queue-macros/tests/ui` expects.
const EXPECTED_COMPILER: &str = "rustc 1.95.0";

/// The maximum number of tests that run a second time.
const RETRIED: usize = 3;

/// Options of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Installs what is missing (redis-server, postgresql, chromium) with the system's package
    /// manager, even when not root.
    #[arg(long)]
    install: bool,
    /// Fails when there is no server of these kinds to test on.
    #[arg(long, value_delimiter = ',', value_name = "KINDS")]
    require: Vec<Kind>,
    /// The change is what has come since this commit. Default: the newest commit older than 48
    /// hours
    #[arg(long, value_name = "COMMIT")]
    base: Option<String>,
    /// Selects the rotated tests of this day (YYYY-MM-DD). Default: today
    #[arg(long, value_name = "DATE")]
    date: Option<String>,
    /// Runs the rotated tests of all days.
    #[arg(long)]
    all: bool,
    /// Builds and runs only the programs whose name contains this, or the tests of `PROGRAM:TEST`.
    /// With --whole: only the steps, or groups of steps, whose name contains this.
    #[arg(long, value_name = "SUITE")]
    only: Vec<String>,
    /// With --only: runs the tests this many times.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "only", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    again: u32,
    /// Keeps one core busy while the tests run.
    #[arg(long)]
    load: bool,
    /// Runs the whole tier instead: a slice of at most 45 minutes at each call, until all is done.
    #[arg(long, conflicts_with_all = ["again", "base", "date", "all", "load"])]
    whole: bool,
    /// With --whole: what has run for this commit is run again, from the start.
    #[arg(long, requires = "whole")]
    restart: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Redis,
    Valkey,
    Postgres,
    Chromium,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Redis => "redis",
            Kind::Valkey => "valkey",
            Kind::Postgres => "postgres",
            Kind::Chromium => "chromium",
        }
    }
}

/// The servers and programs that tests need.
pub(crate) struct Servers(Vec<(Kind, Result<Server, String>)>);

impl Servers {
    pub(crate) fn find(install: bool) -> Servers {
        let servers = Servers(vec![
            (Kind::Redis, servers::redis(install)),
            (Kind::Valkey, servers::valkey()),
            (Kind::Postgres, servers::postgres(install)),
            (Kind::Chromium, servers::chromium(install)),
        ]);
        for (kind, server) in &servers.0 {
            match server {
                Ok(Server { program, version }) => println!("{}: {} (version {version})", kind.name(), program.display()),
                Err(why) => println!("{}: none: {why}", kind.name()),
            }
        }
        servers
    }

    /// Variables with the addresses, and arguments that skip the tests without a server: each has
    /// the kind in its name.
    pub(crate) fn setting(&self) -> (Vec<(String, String)>, Vec<String>) {
        let (mut variables, mut skipped) = (Vec::new(), Vec::new());
        for (kind, server) in &self.0 {
            match server {
                Ok(_) if *kind == Kind::Chromium => {}
                Ok(server) => {
                    variables.push((format!("QUEUE_TEST_{}_SERVER", kind.name().to_uppercase()), server.program.display().to_string()));
                }
                Err(_) if *kind == Kind::Chromium => skipped.extend(["--skip".to_owned(), "in_chromium".to_owned()]),
                Err(_) => skipped.extend(["--skip".to_owned(), format!("on_{}", kind.name())]),
            }
        }
        (variables, skipped)
    }

    pub(crate) fn redis(&self) -> Option<&Server> {
        self.0.iter().find(|(kind, _)| *kind == Kind::Redis).and_then(|(_, server)| server.as_ref().ok())
    }

    fn missing(&self) -> impl Iterator<Item = (Kind, &str)> {
        self.0.iter().filter_map(|(kind, server)| Some((*kind, server.as_ref().err()?.as_str())))
    }
}

/// One line of the summary.
struct Step {
    name: String,
    failed: bool,
    seconds: f32,
    /// A further remark.
    remark: String,
}

#[derive(Default)]
struct Summary {
    steps: Vec<Step>,
}

impl Summary {
    fn time(&mut self, name: &str, run: impl FnOnce() -> bool) -> bool {
        println!("\n=== {name}");
        let start = Instant::now();
        let succeeded = run();
        self.steps.push(Step { name: name.to_owned(), failed: !succeeded, seconds: start.elapsed().as_secs_f32(), remark: String::new() });
        succeeded
    }
}

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let compiler = compiler();
    let servers = Servers::find(arguments.install);
    if arguments.whole {
        return whole::main(&servers, arguments.restart, &arguments.only);
    }
    let selection = match Selection::new(arguments.date.as_deref(), arguments.base.as_deref(), arguments.all || !arguments.only.is_empty())
    {
        Ok(selection) => selection,
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::from(2);
        }
    };
    println!("{}", selection.describe());
    let begun = Instant::now();
    let mut summary = Summary::default();
    for (kind, why) in servers.missing() {
        let required = arguments.require.contains(&kind);
        let remark = format!("NOT RUN: {}{why}", if required { "required: " } else { "" });
        summary.steps.push(Step { name: kind.name().to_owned(), failed: required, seconds: 0.0, remark });
    }
    let (mut variables, skipped) = servers.setting();
    variables.push(("QUEUE_TEST_PART".to_owned(), selection.part()));
    let setting = Setting { variables: &variables, arguments: &skipped };
    let everything = arguments.only.is_empty();
    if everything {
        summary.time("format", || succeeds(cargo().args(["fmt", "--all", "--check"])));
    }
    let mut built = None;
    summary.time("lints and build", || {
        built = suites::build(&suites::WORKSPACE);
        built.is_some()
    });
    let ran = built.map(|built| run(&built, arguments, &selection, &setting, &mut summary)).unwrap_or_default();
    if everything && let (Some(gate), Some(redis)) = (ran.gate, servers.redis()) {
        summary.time("costs of a job (gate)", || succeeds(gate::command(&gate).env("QUEUE_TEST_REDIS_SERVER", &redis.program)));
    }
    let seconds = begun.elapsed().as_secs_f32();
    write_results(&compiler, &selection, &summary, &ran.programs, &ran.flaky, seconds);
    report(&summary, &ran.programs, &ran.flaky, seconds)
}

/// Prints the version of the compiler and returns it.
fn compiler() -> String {
    let version = output(cargo().args(["rustc", "--version"])).or_else(|| output(std::process::Command::new("rustc").arg("--version")));
    let version = version.unwrap_or_else(|| "rustc of an unknown version".to_owned()).trim().to_owned();
    println!("{version}");
    if !version.starts_with(EXPECTED_COMPILER) {
        println!("warning: the expected compiler messages were recorded with {EXPECTED_COMPILER}; tests of messages may differ");
    }
    version
}

#[derive(Default)]
struct AllRan {
    programs: Vec<Ran>,
    /// A test that passed when it was run a second time, with its first and its second output.
    flaky: Vec<(String, Test, Test)>,
    gate: Option<PathBuf>,
}

/// Runs the programs: those that compile first, then all others, then again the tests that were
/// only slow.
fn run(built: &Built, arguments: &Arguments, selection: &Selection, setting: &Setting<'_>, summary: &mut Summary) -> AllRan {
    let mut chosen = match choose(built, &arguments.only, selection, setting) {
        Ok(chosen) => chosen,
        Err(problem) => {
            summary.time("selection", || {
                eprintln!("error: {problem}");
                false
            });
            return AllRan::default();
        }
    };
    let mut programs = Vec::new();
    let everything = arguments.only.is_empty();
    if everything {
        let compiling: Vec<Chosen> = chosen.extract_if(.., |(program, _)| suites::COMPILING.contains(&&*program.name)).collect();
        programs = thread::scope(|scope| {
            let run = |(program, tests): &Chosen| program.run(tests.as_deref(), setting);
            let compiling: Vec<_> = compiling.iter().map(|chosen| scope.spawn(move || run(chosen))).collect();
            document(setting, summary);
            let ended = compiling.into_iter().map(|run| run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            let compiled: Vec<Ran> = ended.collect();
            compiled.iter().for_each(print_ran);
            compiled
        });
    }
    let start = Instant::now();
    println!("\n=== tests");
    {
        let _load = arguments.load.then(Load::start);
        for round in 1..=arguments.again {
            if arguments.again > 1 {
                println!("round {round} of {}", arguments.again);
            }
            programs.extend(suites::run_all(chosen.clone(), setting, print_ran));
        }
    }
    let flaky = retry(&mut programs, selection, setting);
    let failed = programs.iter().any(|ran| ran.problem.is_some() || ran.count(Outcome::Failed) + ran.count(Outcome::Slow) > 0);
    let (passed, bad) = totals(&programs);
    let remark = format!("{passed} passed, {bad} failed, {} flaky", flaky.len());
    summary.steps.push(Step { name: "tests".to_owned(), failed, seconds: start.elapsed().as_secs_f32(), remark });
    AllRan { programs, flaky, gate: built.executables.get("gate").cloned() }
}

/// Builds the documentation and runs its examples.
fn document(setting: &Setting<'_>, summary: &mut Summary) {
    summary.time("documentation and its examples", || {
        let variables = setting.variables.iter().map(|(name, value)| (name, value));
        api::document(true).is_ok_and(|mut command| succeeds(command.envs(variables).arg("--").args(setting.arguments)))
    });
    summary.time("public items", || api::agrees(true));
}

/// The programs and tests of this run.
fn choose(built: &Built, only: &[String], selection: &Selection, setting: &Setting<'_>) -> Result<Vec<Chosen>, String> {
    let mut chosen = Vec::new();
    for program in &built.programs {
        let wanted: Vec<&str> = only.iter().filter_map(|only| part_of(only, &program.name)).collect();
        if !only.is_empty() && wanted.is_empty() {
            continue;
        }
        let tests = if wanted.iter().any(|part| !part.is_empty()) {
            let listed = program.list(setting)?;
            Some(listed.into_iter().filter(|test| wanted.iter().any(|part| test.contains(part))).collect())
        } else if Selection::rotates(&program.name) {
            let listed = program.list(setting)?;
            Some(listed.into_iter().filter(|test| selection.chooses(&program.name, test)).collect())
        } else {
            None
        };
        if tests.as_ref().is_none_or(|tests: &Vec<String>| !tests.is_empty()) {
            chosen.extend(suites::by_storage(program, tests));
        }
    }
    if chosen.is_empty() {
        let names: Vec<&str> = built.programs.iter().map(|program| &*program.name).collect();
        return Err(format!("--only {}: no program or test has this in its name; the programs are {}", only.join(" "), names.join(", ")));
    }
    Ok(chosen)
}

/// The part of a test's name in `PROGRAM:TEST`, if it refers to this program. Empty without a test.
fn part_of<'a>(only: &'a str, program: &str) -> Option<&'a str> {
    // `on_redis::turns` is only a test, without a program.
    let (name, test) = match only.split_once(':') {
        Some((name, test)) if !test.starts_with(':') => (name, test),
        _ => (only, ""),
    };
    program.contains(name).then_some(test)
}

/// Runs tests whose waits were only slow again, alone, unless there are many of them or the change
/// touches them.
fn retry(programs: &mut [Ran], selection: &Selection, setting: &Setting<'_>) -> Vec<(String, Test, Test)> {
    let mut flaky = Vec::new();
    let slow: usize = programs.iter().map(|ran| ran.count(Outcome::Slow)).sum();
    if slow > RETRIED {
        println!("{slow} tests were slow; at most {RETRIED} are run a second time, so none is");
        return flaky;
    }
    for ran in programs {
        let Ran { program, tests, problem, .. } = ran;
        for test in tests.iter_mut().filter(|test| test.outcome == Outcome::Slow) {
            let name = format!("{} {}", program.name, test.name);
            if selection.touches(&program.source, &test.name) {
                println!("{name} was slow and is not run a second time: the change touches its file");
                continue;
            }
            println!("{name} was slow and is run a second time, alone");
            let mut variables = setting.variables.to_vec();
            variables.extend(seed_of(&test.output).map(|seed| ("QUEUE_TEST_SEED".to_owned(), seed)));
            let again = program.run(Some(std::slice::from_ref(&test.name)), &Setting { variables: &variables, ..*setting });
            if let Some(second) = again.tests.first().filter(|second| second.outcome == Outcome::Passed) {
                flaky.push((name, test.clone(), second.clone()));
                test.outcome = Outcome::Passed;
            }
        }
        // The program failed only because of these tests.
        if tests.iter().all(|test| matches!(test.outcome, Outcome::Passed | Outcome::Ignored)) && !flaky.is_empty() {
            problem.take_if(|problem| !problem.contains("limit"));
        }
    }
    flaky
}

/// The last seed that a test printed as `QUEUE_TEST_SEED=17`.
fn seed_of(output: &str) -> Option<String> {
    let rest = output.rsplit_once("QUEUE_TEST_SEED=")?.1;
    Some(rest.chars().take_while(char::is_ascii_digit).collect()).filter(|seed: &String| !seed.is_empty())
}

/// One line for a program, and the output of its tests that failed.
pub(crate) fn print_ran(ran: &Ran) {
    let Ran { program: Program { name, .. }, tests, seconds, problem } = ran;
    let failed = ran.count(Outcome::Failed) + ran.count(Outcome::Slow);
    println!(
        "{name:<40} {:>5} passed {failed:>3} failed {:>3} ignored {seconds:>7.1} s",
        ran.count(Outcome::Passed),
        ran.count(Outcome::Ignored)
    );
    for test in tests.iter().filter(|test| matches!(test.outcome, Outcome::Failed | Outcome::Slow)) {
        println!("--- {name} {}: {} after {:.1} s\n{}", test.name, test.outcome.name(), test.seconds, test.output);
    }
    if let Some(problem) = problem {
        println!("--- {name}: {problem}");
    }
}

fn totals(programs: &[Ran]) -> (usize, usize) {
    let passed = programs.iter().map(|ran| ran.count(Outcome::Passed)).sum();
    let failed = |ran: &Ran| (ran.count(Outcome::Failed) + ran.count(Outcome::Slow)).max(usize::from(ran.problem.is_some()));
    (passed, programs.iter().map(failed).sum())
}

/// Writes the results to `target/xtask/results.json`.
fn write_results(compiler: &str, selection: &Selection, summary: &Summary, programs: &[Ran], flaky: &[(String, Test, Test)], seconds: f32) {
    let tests: Vec<Value> = programs
        .iter()
        .flat_map(|ran| ran.tests.iter().map(|test| (&ran.program.name, test)))
        .map(|(program, test)| {
            let seed = seed_of(&test.output);
            json!({ "program": program, "test": test.name, "outcome": test.outcome.name(), "seconds": test.seconds, "seed": seed })
        })
        .collect();
    let programs: Vec<Value> =
        programs.iter().map(|ran| json!({ "program": ran.program.name, "seconds": ran.seconds, "problem": ran.problem })).collect();
    let flaky: Vec<Value> =
        flaky.iter().map(|(name, first, second)| json!({ "test": name, "first": first.output, "second": second.output })).collect();
    let steps: Vec<Value> = summary
        .steps
        .iter()
        .map(|step| json!({ "step": step.name, "failed": step.failed, "seconds": step.seconds, "remark": step.remark }))
        .collect();
    let results = json!({
        "compiler": compiler, "selection": selection.describe(), "seconds": seconds, "steps": steps, "programs": programs, "flaky": flaky, "tests": tests,
    });
    let file = target().join("xtask").join("results.json");
    let written = file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&file, format!("{results:#}\n")));
    match written {
        Ok(()) => println!("\nresults: {}", file.display()),
        Err(error) => println!("\nthe results could not be written to {}: {error}", file.display()),
    }
}

fn report(summary: &Summary, programs: &[Ran], flaky: &[(String, Test, Test)], seconds: f32) -> ExitCode {
    println!("\n=== summary");
    for (name, first, second) in flaky {
        println!("FLAKY {name}: slow at first, and passed alone\n--- first\n{}\n--- second\n{}", first.output, second.output);
    }
    for Step { name, failed, seconds, remark } in &summary.steps {
        println!("{name:<30} {:<7} {seconds:>6.1} s  {remark}", if *failed { "FAILED" } else { "ok" });
    }
    for ran in programs {
        let failed = ran.tests.iter().filter(|test| matches!(test.outcome, Outcome::Failed | Outcome::Slow));
        failed.for_each(|test| println!("FAILED {} {}", ran.program.name, test.name));
        ran.problem.iter().for_each(|problem| println!("FAILED {}: {}", ran.program.name, problem.lines().next().unwrap_or_default()));
    }
    let (passed, failed) = totals(programs);
    println!("{:<30} {seconds:>14.1} s", "in all");
    println!("{passed} passed, {failed} failed");
    if summary.steps.iter().any(|step| step.failed) || failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_is_a_program_or_tests_of_one() {
        assert_eq!(part_of("conformance", "tests/conformance"), Some(""));
        assert_eq!(part_of("conformance:on_redis::turns", "tests/conformance"), Some("on_redis::turns"));
        assert_eq!(part_of("cli", "tests/conformance"), None);
    }

    #[test]
    fn the_seed_of_a_test_is_found_in_what_it_printed() {
        assert_eq!(seed_of("seed 5; QUEUE_TEST_SEED=5 replays it\n"), Some("5".to_owned()));
        assert_eq!(seed_of("no seed"), None);
    }
}
