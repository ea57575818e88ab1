//! `cargo xtask test`: every check there is, and a summary.

use std::{
    process::{Command, ExitCode},
    time::Instant,
};

use clap::{Args, ValueEnum};

use crate::{
    gate,
    run::{Counts, cargo, counted},
    servers::{self, Server},
    suites::{self, Told},
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
    Ran(Counts, bool),
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

    let mut timed = |name: &'static str, run: &mut dyn FnMut() -> (Counts, bool)| {
        println!("\n=== {name}");
        let start = Instant::now();
        let (counts, succeeded) = run();
        lines.push(Line { name, outcome: Outcome::Ran(counts, succeeded), seconds: start.elapsed().as_secs_f32() });
    };
    let mut step = |name: &'static str, command: &mut Command| timed(name, &mut || counted(command));
    step("format", cargo().args(["fmt", "--all", "--check"]));
    step("lints", cargo().args(["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]));
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
    timed("tests", &mut || suites::run(&told));
    let mut step = |name: &'static str, command: &mut Command| timed(name, &mut || counted(command));
    if let Ok(server) = &servers[0].1 {
        step("what a job costs", gate::command().env("QUEUE_TEST_REDIS_SERVER", &server.program));
    }
    step("documentation", cargo().args(["doc", "--workspace", "--all-features", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"));
    step("public items", cargo().args(["xtask", "api", "--built"]));
    for (name, features) in FEATURES {
        for feature in features {
            let flags = ["clippy", "--quiet", "-p", name, "--no-default-features", "--features", feature, "--", "-D", "warnings"];
            step("each feature alone", cargo().args(flags));
        }
    }
    summary(&lines)
}

fn summary(lines: &[Line]) -> ExitCode {
    println!("\n=== summary");
    let mut total = Counts::default();
    let mut red = false;
    for Line { name, outcome, seconds } in lines {
        match outcome {
            Outcome::Ran(counts, succeeded) => {
                total.passed += counts.passed;
                total.failed += counts.failed;
                red |= !succeeded;
                let verdict = if *succeeded { "ok" } else { "FAILED" };
                let tests = if counts.passed + counts.failed > 0 {
                    format!("{} passed, {} failed", counts.passed, counts.failed)
                } else {
                    String::new()
                };
                println!("{name:<20} {verdict:<8} {seconds:>6.1} s  {tests}");
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
