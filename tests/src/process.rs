//! Child processes that end with their test, however it ends.

use std::{
    path::Path,
    process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio},
};

use queue_conformance::patience::wait;

/// A child process. Dropping it kills it (`kill -9`).
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// A shell that waits until the pipe from this process closes, and then kills the child. Pipes
    /// are closed however a test process ends.
    guard: Child,
}

impl Process {
    /// Starts the process.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> Process {
        Process::guarded(command, "-KILL", &[])
    }

    /// Starts the process. If the test process ends, this folder is also removed.
    ///
    /// # Panics
    /// If it cannot be started.
    pub(crate) fn in_folder(command: &mut Command, folder: &Path) -> Process {
        Process::guarded(command, "-KILL", &[folder])
    }

    /// The same for a server with other processes and memory: if the test process ends, the server
    /// gets this signal.
    ///
    /// # Panics
    /// If it cannot be started.
    pub(crate) fn ended_by(signal: &str, command: &mut Command, folder: &Path) -> Process {
        Process::guarded(command, signal, &[folder])
    }

    fn guarded(command: &mut Command, signal: &str, folders: &[&Path]) -> Process {
        let child = command.stdin(Stdio::null()).spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let guard = guard(child.id(), signal, folders);
        Process { child, guard }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its standard output, if that is a pipe that was not taken yet.
    ///
    /// # Panics
    /// When it is not.
    pub fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("it has a pipe")
    }

    /// The same of its standard error.
    ///
    /// # Panics
    /// When it is not a pipe.
    pub fn stderr(&mut self) -> ChildStderr {
        self.child.stderr.take().expect("it has a pipe")
    }

    /// Sends a signal, such as `-STOP`.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill {signal}");
    }

    /// `kill -9`.
    pub fn kill(self) {
        drop(self);
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of ours can be asked for")
    }

    /// Sends SIGTERM and returns the exit code. `None` if a signal has ended it.
    ///
    /// # Panics
    /// If it does not end in time.
    pub async fn stop(mut self) -> Option<i32> {
        self.signal("-TERM");
        wait(format!("process {} to end after SIGTERM", self.id())).some(async || self.ended()).await.code()
    }
}

/// A shell that sends a signal to a process and removes folders when the pipe from this process
/// closes.
pub(crate) fn guard(process: u32, signal: &str, folders: &[&Path]) -> Child {
    let script = "trap '' INT TERM; read -r _; kill \"$2\" \"$1\"; shift 2; rm -rf \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "guard", &process.to_string(), signal]).args(folders);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("there is a shell")
}

impl Drop for Process {
    fn drop(&mut self) {
        // The guard is killed first: it must not kill another process that gets the id of the
        // child.
        for child in [&mut self.guard, &mut self.child] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
