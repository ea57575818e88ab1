//! The command line of a program, in a separate folder.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use queue_conformance::{folder::folder, patience};
use serde_json::Value;
use tempfile::TempDir;

/// The folder in which a program is called, and its broker.
#[derive(Debug)]
pub struct Place {
    folder: TempDir,
    program: PathBuf,
    url: String,
}

impl Place {
    /// A new folder, with a SQLite file that the first command creates. `program` is its path, as
    /// in `env!("CARGO_BIN_EXE_shop_worker")`.
    pub fn sqlite(program: &str) -> Place {
        let folder = folder();
        let url = format!("sqlite://{}", folder.path().join("queue.db").display());
        Place { folder, program: program.into(), url }
    }

    /// The same with another broker.
    pub fn on(program: &str, url: String) -> Place {
        Place { url, ..Place::sqlite(program) }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The URL of the broker.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A command of the program with these arguments, which was not started yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.folder()).env_remove("RUST_LOG").env("QUEUE_URL", &self.url);
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        patience::output(&mut self.command(arguments)).expect("the program can be started")
    }

    /// The output of a command that has to succeed.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it prints text")
    }

    /// The output of a command with `--json`, which has to succeed.
    pub fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat())).expect("it prints JSON")
    }

    /// The error of a command that must not succeed.
    pub fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8(output.stderr).expect("it prints text");
        assert!(!output.status.success(), "{arguments:?}: {error}");
        error
    }

    /// The error of a command with this exit code.
    pub fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8(output.stderr).expect("it prints text");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        error
    }
}
