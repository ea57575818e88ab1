//! Tests that need other rights than the process that runs them: each runs again in a separate
//! process.

use std::{any::type_name_of_val, io::Write, path::Path, process::Command};

use crate::{folder::folder, preload};

/// Set in the process in which a test runs again.
const INSIDE: &str = "QUEUE_TEST_APART";

/// Allows skipping such tests where the machine does not support them.
const LEFT_OUT: &str = "QUEUE_TEST_WITHOUT_APART";

/// Runs the test again in a process that may mount file systems. Other processes do not see these,
/// and they end with it: `if !may_mount(&this_test) { return }`. Returns `true` in that process,
/// and `false` in the one that has started it, for which the test is over.
///
/// # Panics
/// If the test fails there, or no such process can be started.
pub fn may_mount<F: Fn()>(test: &F) -> bool {
    let as_root: &[&str] = &["unshare", "--mount"];
    let as_user: &[&str] = &["unshare", "--user", "--map-root-user", "--mount"];
    runs_here(test, if starts(as_root) { as_root } else { as_user })
}

/// Runs the test again in a process to which file permissions apply, which root may override. It
/// returns the same as [`may_mount`].
///
/// # Panics
/// If the test fails there, or no such process can be started.
pub fn heeds_permissions<F: Fn()>(test: &F) -> bool {
    runs_here(test, &["setpriv", "--bounding-set=-dac_override,-dac_read_search"])
}

/// Runs the test again in a separate process, whose wall clock [`move_clock`] moves. It returns the
/// same as [`may_mount`].
///
/// # Panics
/// If the test fails there, or there is no C compiler.
pub fn has_own_clock<F: Fn()>(test: &F) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let folder = folder();
    let (library, clock) = (preload::moved_clock(folder.path()).expect("the clock can be compiled"), folder.path().join("clock"));
    preload::move_clock(&clock, 0).expect("the folder can be written to");
    let [library, clock] = [(preload::VARIABLE, library), (preload::MOVED, clock)].map(|(name, path)| format!("{name}={}", path.display()));
    runs_here(test, &["env", &library, &clock])
}

/// Sets the error of the wall clock of this process, in milliseconds, rounded to whole seconds.
///
/// # Panics
/// If this is not the process of [`has_own_clock`].
pub fn move_clock(by_ms: i64) {
    let clock = std::env::var_os(preload::MOVED).expect("this process has a clock of its own");
    preload::move_clock(Path::new(&clock), by_ms).expect("the clock can be moved");
}

fn runs_here<F: Fn()>(test: &F, wrapper: &[&str]) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let name = type_name_of_val(test);
    let name = name.split_once("::").map_or(name, |(_, name)| name);
    if !can_start(name, wrapper) {
        return false;
    }
    let program = std::env::current_exe().expect("the program of this test");
    let inside = Command::new(wrapper[0]).args(&wrapper[1..]).arg(program).args(["--exact", name, "--nocapture"]).env(INSIDE, "1").output();
    let inside = inside.expect("it could be started a moment ago");
    let said = [inside.stdout, inside.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(inside.status.success() && said.contains("1 passed"), "the test fails in a process of its own:\n{said}");
    print!("{said}");
    false
}

/// Whether this wrapper can start a process. If not, the test fails. If such tests may be skipped,
/// it reports instead that the test did not run.
pub fn can_start(name: &str, wrapper: &[&str]) -> bool {
    if starts(wrapper) {
        return true;
    }
    let wrapper = wrapper.join(" ");
    assert!(
        std::env::var_os(LEFT_OUT).is_some(),
        "this test needs a process that `{wrapper}` cannot start here: run it as root, or set {LEFT_OUT}=1 to leave such tests out"
    );
    // Written directly, because the output of a passing test is captured.
    let _ = writeln!(std::io::stderr(), "NOT RUN: {name}: `{wrapper}` cannot start a process here");
    false
}

/// Whether a process can be started with this wrapper.
fn starts(wrapper: &[&str]) -> bool {
    Command::new(wrapper[0]).args(&wrapper[1..]).arg("true").output().is_ok_and(|output| output.status.success())
}
