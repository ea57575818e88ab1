//! `cargo xtask resolve`: kinds of applications to which the crates can be added. Cargo resolves
//! them without building. It needs the index of crates.io.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use crate::run::{cargo, root, target};

/// The rusqlite version that an application has to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rusqlite {
    /// The feature `sqlite` is off.
    None,
    Version(&'static str),
    /// The newest published version.
    Newest,
}

use Rusqlite::{Newest, None as Without, Version};

/// A kind of application: its dependencies, whether it enables `sqlite`, and the expected version.
type Kind = (&'static str, &'static [&'static str], bool, Rusqlite);

const SQLX_08: &str = r#"sqlx = { version = "0.8", features = ["postgres", "runtime-tokio"] }"#;

const SQLX_08_FEW: &str = r#"sqlx = { version = "0.8", default-features = false, features = ["postgres", "runtime-tokio", "macros"] }"#;
const SQLX_09: &str = r#"sqlx = { version = "0.9", features = ["postgres", "runtime-tokio"] }"#;

const KINDS: [Kind; 18] = [
    ("nothing else, without sqlite", &[], false, Without),
    ("nothing else", &[], true, Newest),
    ("sqlx 0.8 by default, PostgreSQL, without sqlite", &[SQLX_08], false, Without),
    ("sqlx 0.8 by default, PostgreSQL", &[SQLX_08], true, Version("0.32.1")),
    ("sqlx 0.8, SQLite", &[r#"sqlx = { version = "0.8", features = ["sqlite", "runtime-tokio"] }"#], true, Version("0.32.1")),
    ("sqlx 0.8 with few features, PostgreSQL", &[SQLX_08_FEW], true, Newest),
    ("sqlx 0.9, SQLite", &[r#"sqlx = { version = "0.9", features = ["sqlite", "runtime-tokio"] }"#], true, Version("0.39.0")),
    ("sqlx 0.9, PostgreSQL", &[SQLX_09], true, Version("0.39.0")),
    ("SeaORM 1, PostgreSQL", &[r#"sea-orm = { version = "1", features = ["sqlx-postgres", "runtime-tokio"] }"#], true, Version("0.32.1")),
    ("SeaORM 2, SQLite", &[r#"sea-orm = { version = "2", features = ["sqlx-sqlite", "runtime-tokio"] }"#], true, Version("0.39.0")),
    ("diesel 2.2, SQLite", &[r#"diesel = { version = "~2.2", features = ["sqlite"] }"#], true, Version("0.37.0")),
    ("diesel 2.3, SQLite", &[r#"diesel = { version = "~2.3", features = ["sqlite"] }"#], true, Version("0.40.2")),
    ("rusqlite 0.32", &[r#"rusqlite = "0.32""#], true, Version("0.32.1")),
    ("rusqlite 0.37", &[r#"rusqlite = "0.37""#], true, Version("0.37.0")),
    ("the newest rusqlite", &[r#"rusqlite = "*""#], true, Newest),
    ("riverqueue 0.5, without sqlite", &[r#"riverqueue = "0.5""#], false, Without),
    ("riverqueue 0.5", &[r#"riverqueue = "0.5""#], true, Version("0.39.0")),
    (
        "an application that refuses an old SQLite",
        &[r#"libsqlite3-sys = ">=0.37""#, r#"sqlx = { version = "0.9", features = ["sqlite", "runtime-tokio"] }"#],
        true,
        Version("0.39.0"),
    ),
];

/// An application that changes and keeps its lock file. The fields are: its earlier dependencies,
/// and whether `sqlite` was enabled; its later dependencies; the command from the documentation, or
/// the effect of a build; the expected version.
type Change = (&'static str, (&'static [&'static str], bool), &'static [&'static str], &'static [&'static str], Rusqlite);

/// The first step of `cargo build`.
const BUILD: &[&str] = &["update", "--workspace"];
const UPDATE: &[&str] = &["update", "rusqlite", "libsqlite3-sys"];

const CHANGES: [Change; 5] = [
    ("sqlite is turned on beside sqlx 0.8", (&[SQLX_08], false), &[SQLX_08], BUILD, Version("0.32.1")),
    ("sqlx 0.8 is added", (&[], true), &[SQLX_08], BUILD, Version("0.32.1")),
    ("sqlx 0.8 gets more features", (&[SQLX_08_FEW], true), &[SQLX_08], &["update", "rusqlite"], Version("0.32.1")),
    ("sqlx 0.8 gets few features", (&[SQLX_08], true), &[SQLX_08_FEW], UPDATE, Newest),
    ("sqlx 0.8 becomes 0.9", (&[SQLX_08], true), &[SQLX_09], UPDATE, Version("0.39.0")),
];

pub(crate) fn main() -> ExitCode {
    let folder = target().join("resolve");
    let _ = fs::remove_dir_all(&folder);
    let newest = match newest(&folder.join("newest")) {
        Ok(newest) => newest,
        Err(problem) => {
            eprintln!("error: the newest rusqlite is not known: {problem}");
            return ExitCode::FAILURE;
        }
    };
    println!("the newest rusqlite is {newest}");
    let mut failed = 0;
    let mut told = |name: &str, found: Result<Option<String>, String>, expected: Rusqlite| {
        let expected = match expected {
            Without => None,
            Version(version) => Some(version),
            Newest => Some(&*newest),
        };
        let shown = |version: Option<&str>| version.map_or("no rusqlite".to_owned(), |version| format!("rusqlite {version}"));
        match found {
            Ok(found) if found.as_deref() == expected => println!("ok      {name}: {}", shown(expected)),
            Ok(found) => {
                failed += 1;
                println!("FAILED  {name}: {}, expected {}", shown(found.as_deref()), shown(expected));
            }
            Err(problem) => {
                failed += 1;
                println!("FAILED  {name}: expected {}\n{problem}", shown(expected));
            }
        }
    };
    for (number, (name, dependencies, sqlite, expected)) in KINDS.into_iter().enumerate() {
        let application = Application::new(folder.join(number.to_string()));
        told(name, application.write(dependencies, sqlite).and_then(|()| application.generate()), expected);
    }
    told("a workspace with one member on sqlx 0.8", workspace(&folder.join("workspace")), Version("0.32.1"));
    for (number, (name, before, after, command, expected)) in CHANGES.into_iter().enumerate() {
        let application = Application::new(folder.join(format!("changed-{number}")));
        let changed = || {
            application.write(before.0, before.1)?;
            application.generate()?;
            application.write(after, true)?;
            application.cargo(command)
        };
        told(name, changed(), expected);
    }
    told("an old SQLite is refused by `libsqlite3-sys`", refused(&folder.join("refused")), Without);
    println!("{} passed, {failed} failed", KINDS.len() + CHANGES.len() + 2 - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The newest published rusqlite, even if it needs a newer Rust.
fn newest(folder: &Path) -> Result<String, String> {
    let application = Application::new(folder.to_owned());
    application.manifest(&[], &[r#"rusqlite = "*""#])?;
    application.generate()?.ok_or_else(|| "no rusqlite in the lock file".to_owned())
}

fn workspace(folder: &Path) -> Result<Option<String>, String> {
    let [api, jobs] = ["api", "jobs"].map(|member| Application { root: folder.to_owned(), folder: folder.join(member) });
    write(&folder.join("Cargo.toml"), "[workspace]\nresolver = \"3\"\nmembers = [\"api\", \"jobs\"]\n")?;
    api.manifest(&[], &[SQLX_08])?;
    jobs.write(&[], true)?;
    jobs.generate()
}

fn refused(folder: &Path) -> Result<Option<String>, String> {
    let application = Application::new(folder.to_owned());
    application.write(&[SQLX_08, r#"libsqlite3-sys = ">=0.37""#], true)?;
    match application.generate() {
        Err(problem) if problem.contains("libsqlite3-sys") => Ok(None),
        Err(problem) => Err(problem),
        Ok(version) => Ok(Some(version.unwrap_or_default())),
    }
}

/// A package in a folder, with its own lock file.
struct Application {
    /// Where the lock file is.
    root: PathBuf,
    folder: PathBuf,
}

impl Application {
    fn new(folder: PathBuf) -> Self {
        Application { root: folder.clone(), folder }
    }

    /// Writes an application that uses both crates.
    fn write(&self, dependencies: &[&str], sqlite: bool) -> Result<(), String> {
        let features = if sqlite { r#", features = ["sqlite"]"# } else { "" };
        let ours = ["queue-core", "queue-worker"].map(|name| format!("{name} = {{ path = {:?}{features} }}", root().join(name)));
        self.manifest(&ours, dependencies)
    }

    fn manifest(&self, ours: &[String], dependencies: &[&str]) -> Result<(), String> {
        let workspace = if self.root == self.folder { "[workspace]\n" } else { "" };
        let manifest = format!(
            "[package]\nname = \"{}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n{workspace}[dependencies]\n{}\n{}\n",
            if self.root == self.folder { "application".into() } else { self.folder.file_name().unwrap_or_default().to_string_lossy() },
            ours.join("\n"),
            dependencies.join("\n"),
        );
        write(&self.folder.join("Cargo.toml"), &manifest)?;
        write(&self.folder.join("src/lib.rs"), "")
    }

    fn generate(&self) -> Result<Option<String>, String> {
        self.cargo(&["generate-lockfile"])
    }

    /// The rusqlite in the lock file after a command.
    fn cargo(&self, arguments: &[&str]) -> Result<Option<String>, String> {
        let mut command: Command = cargo();
        command.args(arguments).current_dir(&self.folder);
        // The newest version counts, even if it needs a newer Rust.
        command.env("CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS", "allow");
        let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let lock = fs::read_to_string(self.root.join("Cargo.lock")).map_err(|error| format!("Cargo.lock: {error}"))?;
        Ok(locked(&lock, "rusqlite"))
    }
}

/// The version of a package in a lock file.
fn locked(lock: &str, package: &str) -> Option<String> {
    let (_, rest) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    rest.split_once('"').map(|(version, _)| version.to_owned())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    made.map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_in_a_lock_file_is_found() {
        let lock = "[[package]]\nname = \"rusqlite\"\nversion = \"0.32.1\"\nsource = \"registry\"\n";
        assert_eq!(locked(lock, "rusqlite").as_deref(), Some("0.32.1"));
        assert_eq!(locked(lock, "sqlx"), None);
    }
}
