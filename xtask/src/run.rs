//! Running commands, and reading their output.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::OnceLock,
};

/// The root of the workspace, independent of the current folder.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    without_our_package(command.current_dir(root()));
    command
}

/// Compiles the workspace with the driver of clippy, which lints and compiles at once. `cargo
/// clippy` only checks, so that a later build would compile every crate a second time.
pub(crate) fn with_lints(command: &mut Command) -> &mut Command {
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__")
}

/// Removes the variables that cargo has set for this package. The build script of `ring` reads
/// them: with other values, it and all dependent crates are built again.
pub(crate) fn without_our_package(command: &mut Command) {
    let names = std::env::vars_os().map(|(name, _)| name);
    let ours =
        |name: &std::ffi::OsString| name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"));
    for name in names.filter(ours) {
        command.env_remove(name);
    }
}

/// The folder that cargo builds into: `CARGO_TARGET_DIR`, `build.target-dir`, or `target`.
pub(crate) fn target() -> &'static Path {
    static TARGET: OnceLock<PathBuf> = OnceLock::new();
    TARGET.get_or_init(|| {
        let metadata = output(cargo().args(["metadata", "--no-deps", "--offline", "--format-version", "1"]));
        let metadata = metadata.and_then(|metadata| serde_json::from_str::<serde_json::Value>(&metadata).ok());
        let named = metadata.and_then(|metadata| metadata["target_directory"].as_str().map(PathBuf::from));
        named.unwrap_or_else(|| root().join("target"))
    })
}

/// Puts a command into a separate group, so that it and its children can be killed together.
pub(crate) fn own_group(command: &mut Command) -> &mut Command {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    command
}

/// Kills a process with its [own group](own_group), and all of its children.
pub(crate) fn kill_group(id: u32) {
    drop(Command::new("kill").args(["-9", "--", &format!("-{id}")]).stderr(Stdio::null()).status());
}

/// Runs a command, and returns its exit code.
pub(crate) fn pass_on(command: &mut Command) -> ExitCode {
    match command.status() {
        Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from),
        Err(error) => {
            eprintln!("cannot run {}: {error}", command.get_program().display());
            ExitCode::FAILURE
        }
    }
}

/// Runs a command that reports its own errors. Returns whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    match command.stdin(Stdio::null()).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cannot run {}: {error}", command.get_program().display());
            false
        }
    }
}

/// The output of a command that succeeds.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
