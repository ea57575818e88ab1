//! `cargo xtask test`: every check there is, and a summary.

use std::{process::ExitCode, time::Instant};

use clap::{Args, ValueEnum};

use crate::{
    gate,
    run::{Counts, cargo, patient_cargo, succeeds},
    servers::{self, Server},
    suites::{self, Ended, Suite, Told},
};

/// Options of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Installs a missing redis-server or chromium with the system's package manager, also when not root.
    #[arg(long)]
    install: bool,
    /// Fails when there is no server of these kinds to test on.
    #[arg(long, value_delimiter = ',', value_name = "KINDS")]
    require: Vec<Kind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Redis,
    Valkey,
    Chromium,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Redis => "redis",
            Kind::Valkey => "valkey",
            Kind::Chromium => "chromium",
        }
    }
}

struct Line {
    name: &'static str,
    outcome: Outcome,
    seconds: f32,
}

enum Outcome {
    Ran(Ended),
    NotRun { why: String, fatal: bool },
}

/// A library crate and its features, each of which must build alone.
const FEATURES: [(&str, &[&str]); 3] = [
    ("queue-core", &["", "sqlite", "redis", "sentinel", "cluster", "tls", "otel"]),
    ("queue-dashboard", &[""]),
    (
        "queue-worker",
        &["", "cli", "job-log", "dashboard", "sqlite", "redis", "sentinel", "cluster", "tls", "metrics", "prometheus", "otel"],
    ),
];

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let servers = [
        (Kind::Redis, servers::redis(arguments.install)),
        (Kind::Valkey, servers::valkey()),
        (Kind::Chromium, servers::chromium(arguments.install)),
    ];
    let mut lines = Vec::new();
    for (kind, server) in &servers {
        match server {
            Ok(Server { program, version }) => println!("{}: {} (version {version})", kind.name(), program.display()),
            Err(why) => {
                println!("{}: none: {why}", kind.name());
                let fatal = arguments.require.contains(kind);
                lines.push(Line { name: kind.name(), outcome: Outcome::NotRun { why: why.clone(), fatal }, seconds: 0.0 });
            }
        }
    }

    let mut timed = |name: &'static str, run: &mut dyn FnMut() -> Ended| {
        println!("\n=== {name}");
        let start = Instant::now();
        let ended = run();
        lines.push(Line { name, outcome: Outcome::Ran(ended), seconds: start.elapsed().as_secs_f32() });
    };
    let alone =
        |name: &str, succeeded: bool| Ended { counts: Counts::default(), failed: if succeeded { vec![] } else { vec![name.to_owned()] } };
    let mut step = |name, arguments: &[&str]| timed(name, &mut || alone(name, succeeds(cargo().args(arguments))));
    step("format", &["fmt", "--all", "--check"]);
    step("lints", &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]);
    let (mut variables, mut skipped) = (Vec::new(), Vec::new());
    for (kind, server) in &servers {
        match server {
            Ok(_) if *kind == Kind::Chromium => {}
            Ok(server) => variables.push((format!("QUEUE_TEST_{}_SERVER", kind.name().to_uppercase()), server.program.clone())),
            Err(_) if *kind == Kind::Chromium => skipped.extend(["--skip".to_owned(), "in_chromium".to_owned()]),
            // Every test on such a server has its kind in its name.
            Err(_) => skipped.extend(["--skip".to_owned(), format!("on_{}", kind.name())]),
        }
    }
    let told = Told { variables, arguments: &skipped };
    timed("tests", &mut || suites::run(&told, builds()));
    if let Ok(server) = &servers[0].1 {
        let mut gate = gate::command();
        gate.env("QUEUE_TEST_REDIS_SERVER", &server.program);
        timed(GATE, &mut || alone(GATE, succeeds(&mut gate)));
    }
    summary(&lines)
}

const GATE: &str = "what a job costs";

/// What is built beside the tests: it shows by itself whether all is well, or is needed after them.
fn builds() -> Vec<Suite> {
    let suite = |name: &str, arguments: &[&str]| {
        let mut command = patient_cargo();
        command.args(arguments);
        Suite { name: name.to_owned(), command }
    };
    let mut document = suite("documentation", &["doc", "--workspace", "--all-features", "--no-deps"]);
    document.command.env("RUSTDOCFLAGS", "-D warnings");
    let mut builds =
        vec![document, suite("public items", &["xtask", "api", "--built"]), Suite { name: "the gate".to_owned(), command: gate::build() }];
    for (package, features) in FEATURES {
        for feature in features {
            let arguments = ["clippy", "--quiet", "-p", package, "--no-default-features", "--features", feature, "--", "-D", "warnings"];
            builds.push(suite(&format!("{package} with the feature `{feature}` alone"), &arguments));
        }
    }
    builds
}

fn summary(lines: &[Line]) -> ExitCode {
    println!("\n=== summary");
    let mut total = Counts::default();
    let mut red = false;
    for Line { name, outcome, seconds } in lines {
        match outcome {
            Outcome::Ran(Ended { counts, failed }) => {
                total.passed += counts.passed;
                total.failed += counts.failed;
                red |= !failed.is_empty();
                let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
                let tests = if counts.passed + counts.failed > 0 {
                    format!("{} passed, {} failed", counts.passed, counts.failed)
                } else {
                    String::new()
                };
                println!("{name:<20} {verdict:<8} {seconds:>6.1} s  {tests}");
                failed.iter().filter(|suite| *suite != name).for_each(|suite| println!("{:<20} {suite}", ""));
            }
            Outcome::NotRun { why, fatal } => {
                red |= fatal;
                println!("{name:<20} NOT RUN  {}{why}", if *fatal { "but required: " } else { "" });
            }
        }
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    if red { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
