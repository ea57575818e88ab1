//! Runs the suites of the workspace, several at a time. Each suite is a program, and most of them wait for servers and processes rather than
//! compute. Beside them, one after another, goes what `cargo` builds: the processor has time for it.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use serde_json::Value;

use crate::run::{Counts, cargo, counts_of, patient_cargo};

/// Those that take longest begin first, so that none of them runs alone at the end.
const LONGEST: [&str; 7] = ["rows", "conformance", "corrupt", "chromium", "cluster_faults", "deadlines", "places"];

/// The suite that calls `cargo`, which lets one build at a time into a folder.
const BUILDING: &str = "readme";

/// The suite whose tests wait for servers and disks nearly all of their time, and how many of its tests run at once per core.
const WAITING: (&str, usize) = ("conformance", 2);

/// One program, or what `cargo` runs as one.
pub(crate) struct Suite {
    pub(crate) name: String,
    pub(crate) command: Command,
}

/// What became of them all.
#[derive(Default)]
pub(crate) struct Ended {
    pub(crate) counts: Counts,
    /// The names of those that failed.
    pub(crate) failed: Vec<String>,
}

/// What the suites are told.
pub(crate) struct Told<'a> {
    /// Where the servers are: variables and their values.
    pub(crate) variables: Vec<(String, PathBuf)>,
    /// Arguments of each suite.
    pub(crate) arguments: &'a [String],
}

/// Builds all suites and runs them, and beside them what else is to be built.
pub(crate) fn run(told: &Told<'_>, builds: Vec<Suite>) -> Ended {
    let Some(mut suites) = built() else { return Ended { failed: vec!["their build".to_owned()], ..Ended::default() } };
    let place = |suite: &Suite| LONGEST.iter().position(|name| *name == suite.name).unwrap_or(LONGEST.len());
    suites.sort_by_key(place);
    suites.insert(0, documentation());
    for Suite { command, .. } in &mut suites {
        command.args(told.arguments).envs(told.variables.iter().map(|(name, value)| (name, value)));
    }
    let cores = thread::available_parallelism().map_or(2, usize::from);
    for suite in suites.iter_mut().filter(|suite| suite.name == WAITING.0) {
        suite.command.arg(format!("--test-threads={}", WAITING.1 * cores));
    }
    let (mut building, suites): (Vec<_>, Vec<_>) =
        suites.into_iter().partition(|suite| suite.name == BUILDING || suite.name == DOCUMENTATION);
    building.extend(builds);
    let (building, suites) = (Mutex::new(VecDeque::from(building)), Mutex::new(VecDeque::from(suites)));
    let ended = Mutex::new(Ended::default());
    thread::scope(|scope| {
        scope.spawn(|| run_each(&building, &ended));
        for _ in 0..cores.clamp(2, 8) {
            scope.spawn(|| run_each(&suites, &ended));
        }
    });
    ended.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs what waits, one after another, until nothing is left.
fn run_each(waiting: &Mutex<VecDeque<Suite>>, ended: &Mutex<Ended>) {
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(mut suite) = next else { break };
        let (said, succeeded, seconds) = suite.run();
        let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
        // As a whole, so that suites do not talk at the same time.
        println!("\n--- {} ({seconds:.1} s)\n{said}", suite.name);
        for counts in said.lines().filter_map(counts_of) {
            ended.counts.passed += counts.passed;
            ended.counts.failed += counts.failed;
        }
        if !succeeded {
            println!("{} FAILED", suite.name);
            ended.failed.push(suite.name);
        }
    }
}

impl Suite {
    /// What it says, whether it succeeded, and how long it took.
    fn run(&mut self) -> (String, bool, f32) {
        let begun = Instant::now();
        let ended = self.command.stdin(Stdio::null()).output();
        let seconds = begun.elapsed().as_secs_f32();
        match ended {
            Ok(output) => {
                let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
                (said, output.status.success(), seconds)
            }
            Err(error) => (format!("cannot be run: {error}"), false, seconds),
        }
    }
}

const DOCUMENTATION: &str = "examples in the documentation";

/// The examples in the documentation, which `cargo` alone can run.
fn documentation() -> Suite {
    let mut command = patient_cargo();
    command.args(["test", "--workspace", "--all-features", "--doc", "--no-fail-fast", "--"]);
    Suite { name: DOCUMENTATION.to_owned(), command }
}

/// Builds them all, at once. `None`: something does not compile.
fn built() -> Option<Vec<Suite>> {
    let mut build = cargo();
    build.args(["test", "--workspace", "--all-features", "--no-run", "--message-format=json-render-diagnostics"]);
    let mut child = build.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().ok()?;
    let suites = read(child.stdout.take()?);
    child.wait().is_ok_and(|status| status.success()).then_some(suites)
}

/// The programs among what `cargo` says that it has built.
fn read(messages: impl Read) -> Vec<Suite> {
    let messages = BufReader::new(messages).lines().map_while(Result::ok);
    messages.filter_map(|message| suite(&serde_json::from_str(&message).ok()?)).collect()
}

fn suite(message: &Value) -> Option<Suite> {
    let program = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?;
    let mut command = Command::new(program);
    // As `cargo test` does it.
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
    Some(Suite { name: message["target"]["name"].as_str()?.to_owned(), command })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_test_are_found_among_what_cargo_says() {
        let messages = [
            r#"{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"a"},"profile":{"test":false},"executable":"/w/a"}"#,
            r#"{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"a"},"profile":{"test":true},"executable":null}"#,
            "not of cargo",
            r#"{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"keys"},"profile":{"test":true},"executable":"/w/keys-1"}"#,
            r#"{"reason":"build-finished","success":true}"#,
        ];
        let suites = read(messages.join("\n").as_bytes());
        let found: Vec<_> =
            suites.iter().map(|suite| (&*suite.name, suite.command.get_program(), suite.command.get_current_dir())).collect();
        assert_eq!(found, [("keys", "/w/keys-1".as_ref(), Some(Path::new("/w/a")))]);
    }

    #[test]
    fn a_suite_that_fails_or_is_not_there_has_not_succeeded() {
        let suite = |program: &str, argument: &str| {
            let mut command = Command::new(program);
            command.arg(argument);
            Suite { name: program.to_owned(), command }.run()
        };
        assert!(suite("true", "").1);
        assert!(!suite("false", "").1);
        let (said, succeeded, _) = suite("/there/is/none", "");
        assert!(!succeeded && said.starts_with("cannot be run"));
    }
}
