//! `cargo xtask mutants`: takes one safeguard out at a time and shows that a test fails without it. A suite that cannot fail
//! proves nothing.
//!
//! Works on a copy of the sources under `target/mutants`, which is also where it builds.

mod list;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use clap::Args;

use self::list::{MUTANTS, Mutant};
use crate::{run::root, servers};

/// How long the tests of one mutant may take: one that hangs is found out as well.
const PATIENCE: Duration = Duration::from_secs(300);

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
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// A test failed: somebody watches.
    Found,
    /// All tests passed: nobody would notice.
    Survived,
    /// It is no mutant: it does not compile, or its tests fail without it.
    Invalid,
}

impl Fate {
    fn name(self) -> &'static str {
        match self {
            Fate::Found => "found",
            Fate::Survived => "SURVIVED",
            Fate::Invalid => "INVALID",
        }
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
    let mut sound: Vec<&[&str]> = Vec::new();
    let mut bad = 0;
    for (number, mutant) in mutants.iter().enumerate() {
        eprintln!("{} of {}: {}", number + 1, mutants.len(), mutant.name);
        if !sound.contains(&mutant.tests) {
            // Tests that fail anyway would find everything.
            if !lab.compiles(mutant.tests) || !lab.passes(mutant.tests)? {
                return Err(format!("`cargo test {}` fails without any mutant", mutant.tests.join(" ")));
            }
            sound.push(mutant.tests);
        }
        let start = Instant::now();
        let fate = lab.try_one(mutant)?;
        bad += usize::from(fate != Fate::Found);
        let seconds = start.elapsed().as_secs_f32();
        if json {
            let line = serde_json::json!({ "name": mutant.name, "file": mutant.file, "fate": fate.name(), "seconds": seconds });
            println!("{line}");
        } else {
            println!("{:<48} {:<9} {seconds:>6.1} s", mutant.name, fate.name());
        }
    }
    eprintln!("{} of {} found", mutants.len() - bad, mutants.len());
    Ok(bad == 0)
}

/// A copy of the sources, and a place to build them.
struct Lab {
    sources: PathBuf,
    build: PathBuf,
    servers: Vec<(&'static str, PathBuf)>,
}

impl Lab {
    fn open() -> Result<Lab, String> {
        let folder = root().join("target").join("mutants");
        let lab = Lab {
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
        let Ok(text) = fs::read(root().join(file)) else { return Ok(()) };
        let copy = self.sources.join(file);
        if fs::read(&copy).is_ok_and(|there| there == text) {
            return Ok(());
        }
        fs::create_dir_all(copy.parent().unwrap_or(&self.sources)).map_err(problem)?;
        fs::write(&copy, text).map_err(problem)
    }

    fn try_one(&self, mutant: &Mutant) -> Result<Fate, String> {
        let file = self.sources.join(mutant.file);
        let problem = |error: std::io::Error| format!("{}: {error}", mutant.file);
        let text = fs::read_to_string(&file).map_err(problem)?;
        let changed = mutant.applied(&text)?;
        fs::write(&file, changed).map_err(problem)?;
        let fate = if self.compiles(mutant.tests) {
            self.passes(mutant.tests).map(|passes| if passes { Fate::Survived } else { Fate::Found })
        } else {
            Ok(Fate::Invalid)
        };
        fs::write(&file, text).map_err(problem)?;
        fate
    }

    fn compiles(&self, tests: &[&str]) -> bool {
        // A filter of names is no argument of the build.
        let build = tests.iter().take_while(|argument| **argument != "--");
        self.cargo().args(build).arg("--no-run").status().is_ok_and(|status| status.success())
    }

    fn passes(&self, tests: &[&str]) -> Result<bool, String> {
        let mut child = self.cargo().args(tests).spawn().map_err(|error| format!("cargo does not start: {error}"))?;
        let until = Instant::now() + PATIENCE;
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status.success()),
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(50)),
                _ => {
                    // With everything that it has started.
                    let _ = Command::new("kill").args(["-9", "--", &format!("-{}", child.id())]).status();
                    let _ = child.wait();
                    return Ok(false);
                }
            }
        }
    }

    fn cargo(&self) -> Command {
        let mut command = crate::run::cargo();
        command.args(["test", "--quiet"]).current_dir(&self.sources).env("CARGO_TARGET_DIR", &self.build);
        // Small and soon built: nobody looks at what it says.
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.envs(self.servers.iter().map(|(variable, program)| (variable, program)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Mutant {
    fn applied(&self, text: &str) -> Result<String, String> {
        match text.matches(self.find).count() {
            1 => Ok(text.replacen(self.find, self.replace, 1)),
            count => Err(format!("mutant `{}`: {} has its text {count} times, not once: `{}`", self.name, self.file, self.find)),
        }
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
}
