//! `cargo xtask foreign`: programs in other languages publish events, and a subscription handles
//! them. Their libraries go to `target/foreign`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use crate::run::{cargo, output, pass_on, root, target};

pub(crate) fn main() -> ExitCode {
    let folder = target().join("foreign");
    match python(&folder.join("python")).and_then(|python| Ok((python, node(&folder.join("node"))?))) {
        Ok((python, node)) => {
            let mut test = cargo();
            test.args(["test", "-p", "queue-tests", "--test", "stored", "--", "foreign::", "--ignored"]);
            pass_on(test.env("QUEUE_TEST_PYTHON", python).env("QUEUE_TEST_NODE", node))
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// `INTERPRETER=FOLDER` of a virtual environment with the library.
fn python(folder: &Path) -> Result<String, String> {
    let interpreter = folder.join("bin").join("python");
    copied(folder, &["publish.py", "requirements.txt"])?;
    if !interpreter.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder), "there is no python3 that can make virtual environments")?;
    }
    let mut install = Command::new(&interpreter);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]).arg(folder.join("requirements.txt"));
    run(&mut install, "pip could not install redis-py; the first time, its registry must be in reach")?;
    Ok(format!("{}={}", interpreter.display(), folder.display()))
}

fn node(folder: &Path) -> Result<String, String> {
    for program in ["node", "npm"] {
        output(Command::new(program).arg("--version")).ok_or_else(|| format!("there is no {program} on PATH"))?;
    }
    copied(folder, &["publish.mjs", "package.json"])?;
    let mut install = Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]).current_dir(folder);
    run(&mut install, "npm could not install node-redis; the first time, its registry must be in reach")?;
    Ok(format!("node={}", folder.display()))
}

fn copied(folder: &Path, files: &[&str]) -> Result<(), String> {
    let sources: PathBuf = root().join("tests").join("foreign");
    let copy = |file: &&str| fs::copy(sources.join(file), folder.join(file)).map(|_| ());
    fs::create_dir_all(folder)
        .and_then(|()| files.iter().try_for_each(copy))
        .map_err(|error| format!("cannot copy the programs to {}: {error}", folder.display()))
}

fn run(command: &mut Command, problem: &str) -> Result<(), String> {
    let done = command.stdin(Stdio::null()).stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    if done { Ok(()) } else { Err(problem.to_owned()) }
}
