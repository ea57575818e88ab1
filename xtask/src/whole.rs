//! `cargo xtask test --whole`: all checks, in slices. Results are appended to a file, from which a
//! page is generated.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::{Duration, Instant, SystemTime},
};

use serde_json::{Value, json};

use crate::{
    mutants,
    run::{cargo, output, root},
    suites::{self, Built, Outcome, Program, Setting, bounded},
    test::{Servers, print_ran},
};

/// A call starts no step that would end later than this, by the times of the last run.
const SLICE: Duration = Duration::from_secs(45 * 60);

/// The expected time of a step without an earlier run.
const EXPECTED: Duration = Duration::from_secs(60);

/// The time limit of a step. A soak of a million takes longest.
const LIMIT: Duration = Duration::from_secs(90 * 60);

const RESULTS: &str = "docs/whole-tier.jsonl";
const PAGE: &str = "docs/whole-tier.md";

/// A library crate and its features, each of which must build alone.
const FEATURES: [(&str, &[&str]); 5] = [
    ("queue-core", &["", "sqlite", "redis", "sentinel", "cluster", "tls", "otel"]),
    ("queue-cli", &["", "dashboard", "outbox-postgres", "sqlite", "redis", "sentinel", "cluster", "tls", "otel"]),
    ("queue-dashboard", &[""]),
    ("queue-outbox", &["", "postgres", "sqlite", "postgres,tls"]),
    (
        "queue-worker",
        &["", "cli", "job-log", "dashboard", "sqlite", "redis", "sentinel", "cluster", "tls", "metrics", "prometheus", "otel"],
    ),
];

/// Targets for which the crates without C code must build.
const TARGETS: [&str; 2] = ["x86_64-pc-windows-gnu", "aarch64-apple-darwin"];

/// Simulated runs: the number of parts, and of seeds in each.
const SIMULATED: (u64, u64) = (10, 1_000);

/// Stories that both brokers run concurrently: the number of parts, and of stories in each. There
/// are as many about topics.
const STORIES: (u64, u64) = (10, 1_000);

/// Groups, keys, ids, results, tags and events of a soak.
const SOAKED: &str = "1000000";

/// The number of rows for a relay that has idled on an empty table.
const BACKLOG: &str = "100000";

/// The orders of one part. Its processes and server are killed while jobs pay the orders. All parts
/// together have a million orders.
const EFFECTS: &str = "100000";
const EFFECTS_IN: [(&str, usize); 4] = [
    ("on_postgres::on_redis::effects_are_commits_whatever_is_killed", 3),
    ("on_postgres::on_redis::effects_are_commits_in_a_server_that_forgets_commits", 1),
    ("in_sqlite_and_on_redis::effects_are_commits_whatever_is_killed", 3),
    ("in_sqlite_and_on_sqlite::effects_are_commits_whatever_is_killed", 3),
];

/// The result of a step.
enum Ended {
    Held(String),
    Failed(String),
    /// This machine lacks a requirement.
    NotRun(String),
}

struct Step<'a> {
    group: &'static str,
    name: String,
    seed: Option<u64>,
    run: Box<dyn Fn() -> Ended + 'a>,
}

pub(crate) fn main(servers: &Servers, restart: bool, only: &[String]) -> ExitCode {
    match slice(servers, restart, only) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Runs steps until the time of a slice is over. Returns whether all of them passed.
fn slice(servers: &Servers, restart: bool, only: &[String]) -> Result<bool, String> {
    let begun = Instant::now();
    let earlier = read()?;
    let (variables, skipped) = servers.setting();
    let setting = Setting { variables: &variables, arguments: &skipped };
    let Some(built) = suites::build(&suites::WORKSPACE) else { return Err("the workspace does not build".to_owned()) };
    let steps = steps(&built, &setting)?;
    let last_run = earlier.iter().map(number_of_run).max().unwrap_or(0);
    // A failed step is run again after a change.
    let here = commit();
    let done_in = |run: u64, step: &Step<'_>| {
        let last = earlier.iter().rfind(|line| number_of_run(line) == run && line["step"] == *step.name);
        last.is_some_and(|line| line["outcome"] != "FAILED" || line["commit"] == *here)
    };
    let chosen = |step: &Step<'_>| only.is_empty() || only.iter().any(|part| step.name.contains(&**part) || step.group.contains(&**part));
    if !steps.iter().any(chosen) {
        return Err(format!("--only {}: no step or group has this in its name; they are listed in {PAGE}", only.join(" ")));
    }
    let is_complete = steps.iter().all(|step| done_in(last_run, step));
    let run = if restart || is_complete || last_run == 0 { last_run + 1 } else { last_run };
    let mut ran = 0;
    for (place, step) in steps.iter().enumerate() {
        if !chosen(step) || done_in(run, step) {
            continue;
        }
        let took = earlier.iter().rev().find(|line| line["step"] == *step.name).and_then(|line| line["seconds"].as_f64());
        let expected = took.map_or(EXPECTED, Duration::from_secs_f64);
        if ran > 0 && begun.elapsed() + expected > SLICE {
            continue;
        }
        println!("\n=== {} of {}: {}", place + 1, steps.len(), step.name);
        let start = Instant::now();
        let ended = (step.run)();
        let seconds = start.elapsed().as_secs_f64();
        let (outcome, remark) = match ended {
            Ended::Held(remark) => ("held", remark),
            Ended::Failed(remark) => ("FAILED", remark),
            Ended::NotRun(remark) => ("not run", remark),
        };
        println!("{outcome} after {seconds:.1} s  {}", remark.lines().next().unwrap_or_default());
        ran += 1;
        append(&json!({
            "run": run, "step": step.name, "group": step.group, "outcome": outcome, "remark": remark, "seconds": seconds, "seed": step.seed,
            "commit": commit(), "date": humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        }))?;
    }
    let lines = last_of_each(read()?.into_iter().filter(|line| number_of_run(line) == run));
    let waits = |step: &&Step<'_>| !lines.iter().any(|line| line["step"] == *step.name);
    let (waiting, left) = (steps.iter().filter(waits).count(), steps.iter().filter(|step| chosen(step)).filter(waits).count());
    fs::write(root().join(PAGE), page(&lines, waiting)).map_err(|error| format!("{PAGE}: {error}"))?;
    let failed: Vec<_> = lines.iter().filter(|line| line["outcome"] == "FAILED").collect();
    println!("\n{} steps of run {run} have run, {} failed, {waiting} wait; see {PAGE}", lines.len(), failed.len());
    failed.iter().for_each(|line| println!("FAILED {}", line["step"].as_str().unwrap_or_default()));
    if left > 0 {
        println!("call `cargo xtask test --whole` again: it goes on where this slice has stopped");
    }
    Ok(failed.is_empty())
}

fn steps<'a>(built: &'a Built, setting: &'a Setting<'a>) -> Result<Vec<Step<'a>>, String> {
    let mut steps = Vec::new();
    for program in &built.programs {
        steps.push(Step {
            group: "tests",
            name: format!("tests of {}", program.name),
            seed: None,
            run: Box::new(|| tests(program, setting, &[], &[])),
        });
    }
    let first = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
    if let Some(simulation) = built.programs.iter().find(|program| program.folder.ends_with("faults") && program.name.contains('/')) {
        for part in 0..SIMULATED.0 {
            let seed = first + part * SIMULATED.1;
            let variables = [("FAULTS_SEED".to_owned(), seed.to_string()), ("FAULTS_SEEDS".to_owned(), SIMULATED.1.to_string())];
            let run = Box::new(move || tests(simulation, setting, &variables, &["simulation::no_simulated_life"]));
            steps.push(Step { group: "simulation", name: format!("simulated lives, part {}", part + 1), seed: Some(seed), run });
        }
    }
    let property =
        built.programs.iter().find(|program| program.name.ends_with("/property")).ok_or("the build has no program `property`")?;
    for part in 0..STORIES.0 {
        let seed = first + part;
        let variables = [("QUEUE_TEST_SEED".to_owned(), seed.to_string()), ("QUEUE_TEST_CASES".to_owned(), STORIES.1.to_string())];
        let run = Box::new(move || tests(property, setting, &variables, &["both_brokers_agree"]));
        steps.push(Step { group: "property", name: format!("stories of both brokers, part {}", part + 1), seed: Some(seed), run });
    }
    let corrupt = built.programs.iter().filter(|program| program.name.ends_with("corrupt"));
    steps.extend(corrupt.map(|program| {
        let run = Box::new(|| tests(program, setting, &[("QUEUE_TEST_PART".to_owned(), "0/1".to_owned())], &[]));
        Step { group: "corrupt", name: "every request on every damaged state".to_owned(), seed: None, run }
    }));
    let mutants = || mutants::try_all(&built.programs, setting).map_or_else(Ended::Failed, Ended::Held);
    steps.push(Step {
        group: "mutants",
        name: "each removed safeguard is found by its test".to_owned(),
        seed: None,
        run: Box::new(mutants),
    });
    let faults = built.executables.get("faults").ok_or("the build has no program `faults`")?;
    for (row, broker) in rows(faults)? {
        let seed = first % 1_000_000;
        let run = Box::new({
            let (row, broker) = (row.clone(), broker.clone());
            move || fault_row(faults, &row, &broker, seed, setting)
        });
        steps.push(Step { group: "fault rows", name: format!("row {row} on {broker}"), seed: Some(seed), run });
    }
    let soak = built.programs.iter().find(|program| program.name.ends_with("/stored")).ok_or("the build has no program `stored`")?;
    for broker in ["redis", "sqlite"] {
        let run = Box::new(move || {
            let mut command = Command::new(&soak.path);
            command.current_dir(&soak.folder).args([&format!("soak::on_{broker}"), "--nocapture"]).env("QUEUE_TEST_SOAK", SOAKED);
            run(command.envs(setting.variables.iter().map(|(name, value)| (name, value))))
        });
        steps.push(Step { group: "soak", name: format!("a million of each on {broker}"), seed: None, run });
    }
    let outbox = built.programs.iter().find(|program| program.name.ends_with("/outbox")).ok_or("the build has no program `outbox`")?;
    let run_backlog = Box::new(move || {
        let mut command = Command::new(&outbox.path);
        command
            .current_dir(&outbox.folder)
            .args(["plans::on_postgres_a_relay_that_idled", "--nocapture"])
            .env("QUEUE_TEST_BACKLOG", BACKLOG);
        run(command.envs(setting.variables.iter().map(|(name, value)| (name, value))))
    });
    let name = "a relay that idled meets 100,000 rows of 20,000 groups".to_owned();
    steps.push(Step { group: "outbox", name, seed: None, run: run_backlog });
    let places = EFFECTS_IN.iter().flat_map(|(test, parts)| std::iter::repeat_n(*test, *parts));
    for (part, test) in places.enumerate() {
        let seed = first + part as u64;
        let run_effects = Box::new(move || {
            let mut command = Command::new(&outbox.path);
            command.current_dir(&outbox.folder).args(["--exact", &format!("kills::{test}"), "--nocapture"]);
            command.env("QUEUE_TEST_EFFECTS", EFFECTS).env("QUEUE_TEST_SEED", seed.to_string());
            run(command.envs(setting.variables.iter().map(|(name, value)| (name, value))))
        });
        let name = format!("a million effects, part {}: {}", part + 1, test.rsplit_once("::").map_or(test, |(place, _)| place));
        steps.push(Step { group: "outbox", name, seed: Some(seed), run: run_effects });
    }
    let command = |group, name: &str, arguments: Vec<String>| Step {
        group,
        name: name.to_owned(),
        seed: None,
        run: Box::new(move || run(cargo().args(&arguments))),
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    for (package, features) in FEATURES {
        for feature in features {
            let arguments =
                words(&["clippy", "--quiet", "-p", package, "--no-default-features", "--features", feature, "--", "-D", "warnings"]);
            steps.push(command("features", &format!("{package} with the feature `{feature}` alone"), arguments));
        }
    }
    let msrv =
        words(&["clippy", "--workspace", "--all-features", "--all-targets", "--", "-D", "warnings", "-D", "clippy::incompatible_msrv"]);
    steps.push(command("packages", "the oldest supported Rust has all that is used", msrv));
    let documentation = || run(cargo().args(["doc", "--workspace", "--all-features", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"));
    steps.push(Step { group: "packages", name: "documentation of all packages".to_owned(), seed: None, run: Box::new(documentation) });
    // `cargo package --workspace` would need a published version of each unpublished package as
    // well.
    steps.push(command("packages", "packages of the workspace", words(&["xtask", "publish"])));
    steps.push(Step { group: "packages", name: "fuzz targets build".to_owned(), seed: None, run: Box::new(fuzz) });
    for target in TARGETS {
        steps.push(Step { group: "targets", name: format!("check for {target}"), seed: None, run: Box::new(move || check_for(target)) });
    }
    steps.push(command("applications", "the crates resolve beside others", words(&["xtask", "resolve"])));
    steps.push(command("applications", "applications with lock files of their own", words(&["xtask", "apps"])));
    steps.push(Step {
        group: "applications",
        name: "payloads with all features of serde_json".to_owned(),
        seed: None,
        run: Box::new(|| serde_json(setting)),
    });
    steps.push(Step {
        group: "packages",
        name: "licenses of all crates".to_owned(),
        seed: None,
        run: Box::new(|| deny(&["licenses", "bans", "sources"])),
    });
    steps.push(Step { group: "packages", name: "advisories about all crates".to_owned(), seed: None, run: Box::new(advisories) });
    steps.push(command("other languages", "programs in Python and Node publish events", words(&["xtask", "foreign"])));
    Ok(steps)
}

/// All tests of a program whose names contain one of the filters.
fn tests(program: &Program, setting: &Setting<'_>, further: &[(String, String)], filters: &[&str]) -> Ended {
    let variables: Vec<_> = setting.variables.iter().chain(further).cloned().collect();
    let arguments: Vec<_> = setting.arguments.iter().cloned().chain(filters.iter().map(|filter| (*filter).to_owned())).collect();
    let ran = program.run(None, &Setting { variables: &variables, arguments: &arguments });
    print_ran(&ran);
    let remark = format!("{} passed, {} ignored", ran.count(Outcome::Passed), ran.count(Outcome::Ignored));
    let failed: Vec<&str> =
        ran.tests.iter().filter(|test| matches!(test.outcome, Outcome::Failed | Outcome::Slow)).map(|test| &*test.name).collect();
    match ran.problem {
        _ if !failed.is_empty() => Ended::Failed(format!("{remark}; failed: {}", failed.join(", "))),
        Some(problem) => Ended::Failed(problem.lines().next().unwrap_or_default().to_owned()),
        // The name of a test may have changed.
        None if !filters.is_empty() && ran.count(Outcome::Passed) == 0 => Ended::Failed("no test has run".to_owned()),
        None => Ended::Held(remark),
    }
}

/// The rows of the fault matrix, each with a broker.
fn rows(faults: &Path) -> Result<Vec<(String, String)>, String> {
    let listed = output(Command::new(faults).arg("--list")).ok_or("the fault suite does not list its rows")?;
    let mut rows = Vec::new();
    for line in listed.lines().filter(|line| !line.contains(": left out: ")) {
        let mut words = line.split_whitespace();
        if let (Some(row), Some(_grade), Some(brokers)) = (words.next(), words.next(), words.next()) {
            rows.extend(brokers.split(',').map(|broker| (row.to_owned(), broker.to_owned())));
        }
    }
    Ok(rows)
}

fn fault_row(faults: &Path, row: &str, broker: &str, seed: u64, setting: &Setting<'_>) -> Ended {
    let mut command = Command::new(faults);
    command.args(["--row", row, "--broker", broker, "--seed", &seed.to_string()]);
    run(command.envs(setting.variables.iter().map(|(name, value)| (name, value))))
}

/// Runs a command. The remark is the last line of its output.
fn run(command: &mut Command) -> Ended {
    match bounded(command, LIMIT) {
        // The name of a test may have changed.
        Ok((lines, None)) if lines.iter().any(|line| line.starts_with("test result: ok. 0 passed")) => {
            Ended::Failed("no test has run".to_owned())
        }
        Ok((lines, None)) => Ended::Held(lines.into_iter().rfind(|line| !line.trim().is_empty()).unwrap_or_default()),
        Ok((lines, Some(problem))) => {
            lines.iter().for_each(|line| println!("{line}"));
            let said: Vec<&str> = lines.iter().map(|line| &**line).filter(|line| !line.trim().is_empty()).collect();
            Ended::Failed(format!("{problem}: {}", said[said.len().saturating_sub(3)..].join(" / ")))
        }
        Err(error) => Ended::Failed(format!("cannot be run: {error}")),
    }
}

fn fuzz() -> Ended {
    if output(Command::new("rustup").args(["run", "nightly", "rustc", "--version"])).is_none() {
        return Ended::NotRun("no nightly compiler is installed".to_owned());
    }
    let mut build = Command::new("rustup");
    build.args(["run", "nightly", "cargo", "build", "--manifest-path", "fuzz/Cargo.toml"]).current_dir(root());
    // A separate target folder, because another compiler would build the workspace again in ours.
    run(build.env("CARGO_TARGET_DIR", crate::run::target().join("fuzz")).env("RUSTFLAGS", "--cfg fuzzing").env_remove("CARGO"))
}

/// The stored bytes do not depend on the features of serde_json that another crate of a program
/// enables.
fn serde_json(setting: &Setting<'_>) -> Ended {
    let features = "serde_json/arbitrary_precision,serde_json/preserve_order,serde_json/float_roundtrip";
    let mut build = cargo();
    build.args(["test", "--no-run", "-p", "queue-core", "-p", "queue-tests", "--all-features", "--features", features]);
    let Some(built) = suites::built(build.args(["--lib", "--test", "stored"])) else {
        return Ended::Failed("it does not build".to_owned());
    };
    let variables = [("QUEUE_TEST_SERDE_JSON".to_owned(), "all".to_owned())];
    let run = |name: &str| match built.programs.iter().find(|program| program.name == name) {
        Some(program) => tests(program, setting, &variables, &["values::", "codec::", "payload::", "any_json::"]),
        None => Ended::Failed(format!("the build has no program `{name}`")),
    };
    match run("queue-core") {
        Ended::Held(_) => run("tests/stored"),
        failed => failed,
    }
}

fn advisories() -> Ended {
    // It downloads them. If they are unreachable, the result does not depend on our crates.
    if output(cargo().args(["deny", "--version"])).is_some() && output(cargo().args(["deny", "fetch", "db"])).is_none() {
        return Ended::NotRun("the database of advisories could not be reached".to_owned());
    }
    deny(&["advisories"])
}

fn deny(checks: &[&str]) -> Ended {
    if output(cargo().args(["deny", "--version"])).is_none() {
        return Ended::NotRun("cargo-deny is not installed: `cargo install cargo-deny`".to_owned());
    }
    run(cargo().args(["deny", "check"]).args(checks))
}

/// Checks the crates for another system, with the features that need no C compiler for it.
fn check_for(target: &str) -> Ended {
    let added = Command::new("rustup").args(["target", "add", target]).output();
    if !added.is_ok_and(|added| added.status.success()) {
        return Ended::NotRun(format!("the target {target} could not be installed"));
    }
    run(cargo().args(["check", "--target", target, "-p", "queue-core", "-p", "queue-worker", "--no-default-features", "--features"]).arg(
        "queue-core/redis,queue-core/sentinel,queue-core/cluster,queue-worker/redis,queue-worker/sentinel,queue-worker/cluster,queue-worker/cli",
    ))
}

fn commit() -> String {
    let short = output(Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).current_dir(root()));
    short.unwrap_or_default().trim().to_owned()
}

fn number_of_run(line: &Value) -> u64 {
    line["run"].as_u64().unwrap_or_default()
}

fn read() -> Result<Vec<Value>, String> {
    let file = root().join(RESULTS);
    let Ok(text) = fs::read_to_string(&file) else { return Ok(Vec::new()) };
    let line = |(number, line)| serde_json::from_str(line).map_err(|error| format!("{RESULTS}, line {}: {error}", number + 1));
    text.lines().enumerate().map(line).collect()
}

fn append(line: &Value) -> Result<(), String> {
    let file: PathBuf = root().join(RESULTS);
    let opened = fs::OpenOptions::new().create(true).append(true).open(file);
    opened.and_then(|mut file| writeln!(file, "{line}")).map_err(|error| format!("{RESULTS}: {error}"))
}

/// The last line of each step.
fn last_of_each(lines: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut last: Vec<Value> = Vec::new();
    for line in lines {
        last.retain(|earlier| earlier["step"] != line["step"]);
        last.push(line);
    }
    last
}

/// The page: the steps, their results, and the steps that could not run.
fn page(lines: &[Value], waiting: usize) -> String {
    let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().replace('|', "\\|");
    let count = |outcome: &str| lines.iter().filter(|line| line["outcome"] == outcome).count();
    let mut groups: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    lines.iter().for_each(|line| groups.entry(text(line, "group")).or_default().push(line));
    let mut page = format!(
        "# Whole tier\n\nThe result of the last `cargo xtask test --whole`, which writes this page from \
         [whole-tier.jsonl](whole-tier.jsonl). The fast tier, `cargo xtask test`, runs for each change.\n\n\
         {} steps held, {} failed, {} could not run on this machine, {waiting} have not run yet.\n",
        count("held"),
        count("FAILED"),
        count("not run"),
    );
    for (group, lines) in groups {
        let seconds: f64 = lines.iter().filter_map(|line| line["seconds"].as_f64()).sum();
        page.push_str(&format!("\n## {group}\n\n{} steps, {seconds:.0} s\n\n| step | result | s | seed | commit | date | remark |\n|---|---|---|---|---|---|---|\n", lines.len()));
        for line in lines {
            let seed = line["seed"].as_u64().map(|seed| seed.to_string()).unwrap_or_default();
            let date: String = text(line, "date").chars().take(10).collect();
            page.push_str(&format!(
                "| {} | {} | {:.1} | {seed} | {} | {date} | {} |\n",
                text(line, "step"),
                text(line, "outcome"),
                line["seconds"].as_f64().unwrap_or_default(),
                text(line, "commit"),
                text(line, "remark"),
            ));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_what_failed_and_what_could_not_run() {
        let line = |step: &str, outcome: &str| json!({ "run": 1, "step": step, "group": "packages", "outcome": outcome, "remark": "a | b", "seconds": 1.5, "seed": 7, "commit": "abc", "date": "2026-11-27T10:00:00Z" });
        let lines = [line("one", "FAILED"), line("two", "FAILED"), line("one", "held"), line("three", "not run")];
        let page = page(&last_of_each(lines.into_iter()), 2);
        assert!(page.contains("1 steps held, 1 failed, 1 could not run on this machine, 2 have not run yet"), "{page}");
        assert!(page.contains("| two | FAILED | 1.5 | 7 | abc | 2026-11-27 | a \\| b |"), "{page}");
    }
}
