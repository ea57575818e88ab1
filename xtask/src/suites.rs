//! Runs the test programs of the workspace, several at a time: most tests wait for servers and
//! processes rather than compute.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::run::{cargo, kill_group, own_group, root, with_lints, without_our_package};

/// These programs take longest, so they start first.
const LONGEST: [&str; 12] = [
    "tests/outbox",
    "servers",
    "dashboard/dashboard",
    "rows",
    "outages",
    "tests/cli",
    "conformance access",
    "property",
    "features",
    "stored",
    "corrupt",
    "log_lines",
];

/// The number of concurrent tests of a program on a machine with fewer cores. Each test computes
/// for less than a third of its time.
const FEWEST_AT_ONCE: usize = 4;

/// Programs whose tests call a compiler. They run before all others, and report as text: the
/// variable that allows the report in JSON changes the messages of the compiler.
pub(crate) const COMPILING: [&str; 2] = ["queue-macros/tests/macros", "tests/readme"];

/// The time limit of one program. After that, its output is printed and it is killed.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);

/// A program that contains tests.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The folder of its package, and the name of an integration test: `queue-core`,
    /// `tests/conformance`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// The folder of its package, where its tests run.
    pub(crate) folder: PathBuf,
    /// The root of its sources, relative to the workspace.
    pub(crate) source: PathBuf,
}

/// The products of one cargo build.
#[derive(Debug, Default)]
pub(crate) struct Built {
    pub(crate) programs: Vec<Program>,
    /// Executables without tests, by name.
    pub(crate) executables: BTreeMap<String, PathBuf>,
}

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Ignored,
    Failed,
    /// It failed, but the broker still made progress when the wait timed out.
    Slow,
}

impl Outcome {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Ignored => "ignored",
            Outcome::Failed => "failed",
            Outcome::Slow => "slow",
        }
    }
}

/// One test that ran.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    pub(crate) seconds: f64,
    /// What it printed.
    pub(crate) output: String,
}

/// One run of a program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) program: Program,
    pub(crate) tests: Vec<Test>,
    pub(crate) seconds: f32,
    /// Why the program itself failed, if no test explains that.
    pub(crate) problem: Option<String>,
}

impl Ran {
    pub(crate) fn count(&self, outcome: Outcome) -> usize {
        self.tests.iter().filter(|test| test.outcome == outcome).count()
    }
}

/// The parameters of a run.
pub(crate) struct Setting<'a> {
    /// The addresses of the servers, and other variables.
    pub(crate) variables: &'a [(String, String)],
    /// Arguments for each program, such as `--skip`.
    pub(crate) arguments: &'a [String],
}

/// A program and its tests; all if `None`.
pub(crate) type Chosen = (Program, Option<Vec<String>>);

/// Builds all test programs, the executables that they start, and the gate.
pub(crate) const WORKSPACE: [&str; 7] = ["build", "--workspace", "--all-features", "--lib", "--tests", "--bin", "gate"];

/// Builds with one call of cargo, and lints the compiled crates. `None` if a compilation or a lint
/// has failed.
pub(crate) fn build(arguments: &[&str]) -> Option<Built> {
    built(with_lints(cargo().args(arguments)))
}

/// The products of this build command.
pub(crate) fn built(build: &mut Command) -> Option<Built> {
    build.arg("--message-format=json-render-diagnostics");
    let mut child = build.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().ok()?;
    let built = read(child.stdout.take()?);
    child.wait().is_ok_and(|status| status.success()).then_some(built)
}

/// The programs in cargo's messages.
fn read(messages: impl Read) -> Built {
    let mut built = Built::default();
    for message in BufReader::new(messages).lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&message) else { continue };
        let (Some(path), Some(name)) = (message["executable"].as_str(), message["target"]["name"].as_str()) else { continue };
        if message["profile"]["test"] == true {
            built.programs.extend(program(&message, name, path));
        } else {
            built.executables.insert(name.to_owned(), path.into());
        }
    }
    built
}

fn program(message: &Value, target: &str, path: &str) -> Option<Program> {
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let package = folder.strip_prefix(root()).unwrap_or(folder).display().to_string();
    let source = Path::new(message["target"]["src_path"].as_str()?);
    let kind = message["target"]["kind"][0].as_str().unwrap_or_default();
    let name = match kind {
        "lib" | "proc-macro" => package,
        "bin" => format!("{package} (program {target})"),
        _ => format!("{package}/{target}"),
    };
    let source = source.strip_prefix(root()).unwrap_or(source).to_owned();
    Some(Program { name, path: path.into(), folder: folder.to_owned(), source })
}

impl Program {
    fn command(&self, setting: &Setting<'_>) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).stdin(Stdio::null());
        without_our_package(&mut command);
        command.env("RUST_TEST_THREADS", cores().max(FEWEST_AT_ONCE).to_string());
        command.args(setting.arguments).envs(setting.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The names of its tests.
    pub(crate) fn list(&self, setting: &Setting<'_>) -> Result<Vec<String>, String> {
        let listed = self.command(setting).args(["--list", "--format", "terse"]).output();
        let listed = listed.map_err(|error| format!("{}: {error}", self.path.display()))?;
        let names =
            String::from_utf8_lossy(&listed.stdout).lines().filter_map(|line| line.strip_suffix(": test").map(str::to_owned)).collect();
        Ok(names)
    }

    /// Runs these tests, or all.
    pub(crate) fn run(&self, tests: Option<&[String]>, setting: &Setting<'_>) -> Ran {
        let mut command = self.command(setting);
        let compiles = COMPILING.contains(&&*self.name);
        if !compiles {
            // The format is not stable, and this variable allows it. Other formats lack the
            // duration and the output of a test.
            command.env("RUSTC_BOOTSTRAP", "1").args(["-Z", "unstable-options", "--format", "json", "--report-time", "--show-output"]);
        }
        if let Some(tests) = tests {
            command.arg("--exact").args(tests);
        }
        let begun = Instant::now();
        let (said, problem) = match bounded(&mut command, LIMIT) {
            Ok(ended) => ended,
            Err(error) => (Vec::new(), Some(format!("cannot be run: {error}"))),
        };
        let (tests, noise) = if compiles { (tests_of_text(&said), said.join("\n")) } else { tests_of(&said) };
        let failed = |test: &Test| matches!(test.outcome, Outcome::Failed | Outcome::Slow);
        // An interrupted test does not explain the failure; the last lines of the program do.
        let explained = !compiles && tests.iter().any(failed) && !tests.iter().any(|test| test.output == CUT_OFF);
        let problem = problem.filter(|problem| !explained || problem.contains("limit")).map(|problem| format!("{problem}\n{noise}"));
        Ran { program: self.clone(), tests, seconds: begun.elapsed().as_secs_f32(), problem }
    }
}

/// The output of a command with this time limit, and the reason if it failed. Its children are
/// killed at the limit.
pub(crate) fn bounded(command: &mut Command, limit: Duration) -> std::io::Result<(Vec<String>, Option<String>)> {
    let mut child = own_group(command.stdout(Stdio::piped()).stderr(Stdio::piped())).spawn()?;
    let mut guard = guard(child.id())?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = ended_within(&mut child, limit)?;
    guard.kill()?;
    guard.wait()?;
    let problem = match status {
        None => Some(format!("the limit of {} s was reached", limit.as_secs())),
        Some(status) if !status.success() => Some(status.to_string()),
        Some(_) => None,
    };
    let mut lines = stdout.join().unwrap_or_default();
    lines.extend(stderr.join().unwrap_or_default());
    Ok((lines, problem))
}

/// A shell that kills the group when its pipe from this program closes. Ctrl-C reaches this
/// program, but not other groups.
fn guard(group: u32) -> std::io::Result<Child> {
    let script = "trap '' INT TERM; read -r _; kill -9 -- \"-$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "guard", &group.to_string()]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.spawn()
}

fn ended_within(child: &mut Child, limit: Duration) -> std::io::Result<Option<std::process::ExitStatus>> {
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() > end {
            break None;
        }
        thread::sleep(Duration::from_millis(20));
    };
    // A server that a test has left would keep the pipes open.
    kill_group(child.id());
    child.wait()?;
    Ok(status)
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<String>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.into_iter().for_each(|mut pipe| drop(pipe.read_to_end(&mut bytes)));
        String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
    })
}

/// Replaces the output of a test that had not ended when its program ended.
const CUT_OFF: &str = "it had not ended when the program did";

/// The tests in lines like `test a::b ... ok`.
fn tests_of_text(lines: &[String]) -> Vec<Test> {
    let test = |line: &String| {
        let (name, end) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let outcome = match end {
            "ok" => Outcome::Passed,
            "FAILED" => Outcome::Failed,
            _ if end.starts_with("ignored") => Outcome::Ignored,
            _ => return None,
        };
        Some(Test { name: name.to_owned(), outcome, seconds: 0.0, output: String::new() })
    };
    lines.iter().filter_map(test).collect()
}

/// The tests that libtest reports in JSON, and all other lines.
fn tests_of(lines: &[String]) -> (Vec<Test>, String) {
    let (mut running, mut tests, mut noise) = (BTreeMap::new(), Vec::new(), String::new());
    for line in lines {
        // A child process may have written before the report on the same line.
        let report =
            line.find("{ \"type\"").or_else(|| line.find("{\"type\"")).and_then(|at| serde_json::from_str::<Value>(&line[at..]).ok());
        let Some(report) = report else {
            noise.push_str(line);
            noise.push('\n');
            continue;
        };
        let Some(name) = report["name"].as_str().filter(|_| report["type"] == "test") else { continue };
        let outcome = match report["event"].as_str() {
            Some("started") => {
                running.insert(name.to_owned(), ());
                continue;
            }
            Some("ok") => Outcome::Passed,
            Some("ignored") => Outcome::Ignored,
            Some("timeout") => continue,
            _ => Outcome::Failed,
        };
        running.remove(name);
        let output = report["stdout"].as_str().unwrap_or_default().to_owned();
        let outcome = if outcome == Outcome::Failed && is_slow(&output) { Outcome::Slow } else { outcome };
        tests.push(Test { name: name.to_owned(), outcome, seconds: report["exec_time"].as_f64().unwrap_or_default(), output });
    }
    let cut_off = running.into_keys().map(|name| Test { name, outcome: Outcome::Failed, seconds: 0.0, output: CUT_OFF.to_owned() });
    tests.extend(cut_off);
    (tests, noise)
}

/// Whether each verdict of the waits in a test's output is `SLOW`: see `tests/src/patience.rs`.
fn is_slow(output: &str) -> bool {
    let mut verdicts = output.lines().filter_map(|line| line.trim_start().strip_prefix("verdict: ")).peekable();
    verdicts.peek().is_some() && verdicts.all(|verdict| verdict.starts_with("SLOW"))
}

/// The conformance suite by storage. Each storage has the time limit of a suite, and they run
/// concurrently.
pub(crate) fn by_storage(program: &Program, tests: Option<Vec<String>>) -> Vec<Chosen> {
    let tests = match tests {
        Some(tests) if program.name.ends_with("conformance") => tests,
        tests => return vec![(program.clone(), tests)],
    };
    let mut storages = BTreeMap::<String, Vec<String>>::new();
    for test in tests {
        storages.entry(test.split("::").next().unwrap_or_default().to_owned()).or_default().push(test);
    }
    let of_storage = |(storage, tests)| (Program { name: format!("{} {storage}", program.name), ..program.clone() }, Some(tests));
    storages.into_iter().map(of_storage).collect()
}

/// Runs all programs, one more at a time than there are cores, and calls `report` after each.
pub(crate) fn run_all(mut chosen: Vec<Chosen>, setting: &Setting<'_>, report: impl Fn(&Ran) + Sync) -> Vec<Ran> {
    let place = |name: &str| LONGEST.iter().position(|long| name.ends_with(long)).unwrap_or(LONGEST.len());
    chosen.sort_by_key(|(program, _)| place(&program.name));
    let (waiting, ended) = (Mutex::new(VecDeque::from(chosen)), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..(cores() + 1).clamp(2, 8) {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some((program, tests)) = next else { break };
                    let ran = program.run(tests.as_deref(), setting);
                    let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                    report(&ran);
                    ended.push(ran);
                }
            });
        }
    });
    ended.into_inner().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(2, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_among_the_messages_of_cargo() {
        let here = root();
        let here = here.display();
        let messages = [
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"{here}/a/Cargo.toml","target":{{"name":"a","kind":["bin"],"src_path":"{here}/a/src/main.rs"}},"profile":{{"test":false}},"executable":"/w/a"}}"#
            ),
            r#"{"reason":"compiler-artifact","target":{"name":"a"},"profile":{"test":true},"executable":null}"#.to_owned(),
            "not a message of cargo".to_owned(),
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"{here}/a/Cargo.toml","target":{{"name":"keys","kind":["test"],"src_path":"{here}/a/tests/keys/main.rs"}},"profile":{{"test":true}},"executable":"/w/keys-1"}}"#
            ),
        ];
        let built = read(messages.join("\n").as_bytes());
        let found: Vec<_> = built.programs.iter().map(|program| (&*program.name, program.source.to_str().unwrap())).collect();
        assert_eq!(found, [("a/keys", "a/tests/keys/main.rs")]);
        assert_eq!(built.executables["a"], Path::new("/w/a"));
    }

    #[test]
    fn only_the_conformance_suite_is_run_by_storage() {
        let program = |name: &str| Program { name: name.to_owned(), path: "p".into(), folder: "f".into(), source: "s".into() };
        let tests = || Some(["on_redis::a", "access::b", "on_redis::c"].map(str::to_owned).to_vec());
        let parts = by_storage(&program("tests/conformance"), tests());
        let parts: Vec<_> = parts.iter().map(|(program, tests)| (&*program.name, tests.clone().unwrap())).collect();
        let [a, b, c] = ["on_redis::a", "access::b", "on_redis::c"].map(str::to_owned);
        assert_eq!(parts, [("tests/conformance access", vec![b]), ("tests/conformance on_redis", vec![a, c])]);
        assert_eq!(by_storage(&program("tests/cli"), tests()).len(), 1);
        assert_eq!(by_storage(&program("tests/conformance"), None).len(), 1);
    }

    fn shell(script: &str, limit: Duration) -> (Vec<String>, Option<String>) {
        bounded(Command::new("sh").args(["-c", script]), limit).unwrap()
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_with_its_children_and_its_output_is_kept() {
        let (said, problem) = shell("echo begun; sleep 600 & wait", Duration::from_millis(300));
        assert_eq!(said, ["begun"]);
        assert!(problem.unwrap().contains("limit"));
        // A remaining server keeps the pipe open, but does not delay this call.
        let (said, problem) = shell("sleep 600 & echo done; exit 3", Duration::from_secs(60));
        assert_eq!(said, ["done"]);
        assert!(problem.unwrap().contains('3'));
    }

    #[test]
    fn tests_are_read_from_the_report_with_what_they_printed() {
        let lines = [
            r#"{ "type": "suite", "event": "started", "test_count": 4 }"#,
            r#"{ "type": "test", "event": "started", "name": "a" }"#,
            r#"{ "type": "test", "event": "started", "name": "b" }"#,
            r#"{ "type": "test", "event": "started", "name": "c" }"#,
            r#"child: hello{ "type": "test", "name": "a", "event": "ok", "exec_time": 0.5, "stdout": "seed 1\n" }"#,
            r#"{ "type": "test", "name": "b", "event": "failed", "exec_time": 30.0, "stdout": "verdict: SLOW: a page\n" }"#,
            r#"{ "type": "test", "name": "c", "event": "failed", "exec_time": 30.0, "stdout": "verdict: SLOW: a page\nverdict: STUCK: a job\n" }"#,
            r#"{ "type": "test", "event": "started", "name": "d" }"#,
            "a line of a child",
        ];
        let (tests, noise) = tests_of(&lines.map(str::to_owned));
        let ended: Vec<_> = tests.iter().map(|test| (&*test.name, test.outcome)).collect();
        assert_eq!(ended, [("a", Outcome::Passed), ("b", Outcome::Slow), ("c", Outcome::Failed), ("d", Outcome::Failed)]);
        assert!(noise.contains("a line of a child") && tests[3].output.contains("not ended"));
        let text = ["running 2 tests", "test a::b ... ok", "test a::c ... FAILED", "test result: FAILED. 1 passed"].map(str::to_owned);
        let ended: Vec<_> = tests_of_text(&text).into_iter().map(|test| (test.name, test.outcome)).collect();
        assert_eq!(ended, [("a::b".to_owned(), Outcome::Passed), ("a::c".to_owned(), Outcome::Failed)]);
    }
}
