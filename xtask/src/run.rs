//! Running commands, and reading along.

use std::{
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

/// What a step printed about its tests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

/// The root of the workspace, wherever it was called from.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The same, for what has time: it takes what others leave of the processor.
pub(crate) fn patient_cargo() -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(cargo().get_program()).current_dir(root());
    command
}

/// Runs a command to its end, which becomes ours.
pub(crate) fn pass_on(command: &mut Command) -> ExitCode {
    match command.status() {
        Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from),
        Err(error) => {
            eprintln!("cannot run cargo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command, which says by itself what is wrong. Whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    match command.stdin(Stdio::null()).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cannot run {}: {error}", command.get_program().display());
            false
        }
    }
}

/// Reads a line like `test result: ok. 28 passed; 0 failed; 0 ignored; …`.
pub(crate) fn counts_of(line: &str) -> Option<Counts> {
    let rest = line.trim_start().strip_prefix("test result: ")?;
    let number = |word: &str| {
        let before = &rest[..rest.find(word)?];
        before.split_whitespace().next_back()?.parse().ok()
    };
    Some(Counts { passed: number(" passed")?, failed: number(" failed")? })
}

/// The output of a command that succeeds.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_tests_are_counted() {
        let counts =
            counts_of("test result: FAILED. 27 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s").unwrap();
        assert_eq!((counts.passed, counts.failed), (27, 1));
        assert!(counts_of("test a::b ... ok").is_none());
    }
}
