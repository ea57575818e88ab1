//! Libraries that are loaded into a program before all others, and replace system calls.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
};

/// The environment variable with these libraries.
pub const VARIABLE: &str = "LD_PRELOAD";

/// Compiles the text of a library into a folder. An existing library is kept.
///
/// # Errors
/// If there is no C compiler (`cc`), or it rejects the text.
pub fn library(folder: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    let (source, library) = (folder.join(name).with_extension("c"), folder.join(name).with_extension("so"));
    if library.exists() {
        return Ok(library);
    }
    std::fs::write(&source, text)?;
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl").output();
    let compiled =
        compiled.map_err(|error| io::Error::new(error.kind(), format!("a program cannot be deceived without a C compiler: {error}")))?;
    if !compiled.status.success() {
        return Err(io::Error::other(format!("cc: {}", String::from_utf8_lossy(&compiled.stderr))));
    }
    Ok(library)
}

/// The library with which a server measures its commands by CPU time. The wall clock would include
/// the time in which other processes use the processor. On a shared machine, that is most of the
/// longest commands.
///
/// This works only for a server that reads the time from the system: its `INFO` contains
/// `monotonic_clock:POSIX` ([`asks_for_the_time`]).
///
/// # Errors
/// If there is no C compiler (`cc`).
pub fn cpu_clock(folder: &Path) -> io::Result<PathBuf> {
    library(folder, "cpu_clock", include_str!("cpu_clock.c"))
}

/// The library that gives a program a wall clock that can be moved while it runs: see
/// `moved_clock.c`.
///
/// # Errors
/// If there is no C compiler (`cc`).
pub fn moved_clock(folder: &Path) -> io::Result<PathBuf> {
    library(folder, "moved_clock", include_str!("moved_clock.c"))
}

/// The environment variable with the file that controls a [moved clock](moved_clock).
pub const MOVED: &str = "QUEUE_TEST_CLOCK";

/// Moves the clock of programs with this file.
///
/// # Errors
/// If the file cannot be written.
pub fn move_clock(file: &Path, by_ms: i64) -> io::Result<()> {
    set_clock(file, [by_ms, 0])
}

/// Stops the clock of programs with this file at this time, in milliseconds since 1970.
///
/// # Errors
/// If the file cannot be written.
pub fn freeze_clock(file: &Path, at_ms: i64) -> io::Result<()> {
    set_clock(file, [0, at_ms])
}

fn set_clock(file: &Path, numbers: [i64; 2]) -> io::Result<()> {
    // The file is not truncated first, because the program has mapped it.
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(file)?;
    file.write_all(&numbers.map(i64::to_ne_bytes).concat())
}

/// Whether a server, by its `INFO server`, reads the time from the system. Valkey reads it from the
/// processor.
pub fn asks_for_the_time(info: &str) -> bool {
    info.lines().any(|line| line.starts_with("monotonic_clock:POSIX"))
}

#[cfg(test)]
mod tests {
    use std::{
        thread,
        time::{Duration, Instant, SystemTime, UNIX_EPOCH},
    };

    use crate::{
        patience::{patience, wait_for},
        server::{Kind, Server},
    };

    const STOPPED: Duration = Duration::from_millis(200);

    /// More than a second of work, because the test must find it running.
    const WORK: &str = "local n = 0 for i = 1, 200000000 do n = n + i % 7 end return n";

    /// An entry of the slow log: number, time, microseconds, words, and client.
    type SlowCommand = (u64, u64, u64, Vec<String>, String, String);

    /// A server with a slow script processes events during the script, and then updates its clock.
    const PATIENT: [&str; 2] = ["--busy-reply-threshold", "60000"];

    #[test]
    fn a_command_takes_no_longer_for_being_set_aside_in_the_middle() {
        let options = [&["--appendonly", "no", "--slowlog-log-slower-than", "10000"], &PATIENT[..]].concat();
        let server = Server::by_cpu(Kind::Redis, &options);
        assert!(server.measures_by_cpu());
        let used = |server: &Server| -> f64 {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).expect("the server lives");
            let times = stat.rsplit(')').next().expect("there is a name").split_whitespace();
            times.skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number")).sum()
        };
        let before = used(&server);
        let elapsed = thread::scope(|scope| {
            let work = scope.spawn(|| {
                let begun = Instant::now();
                server.ask_patiently::<u64>(&["EVAL", WORK, "0"], patience()).expect("the script ends");
                begun.elapsed()
            });
            wait_for("the script to be under way", || (used(&server) > before + 9.0).then_some(()));
            server.pause();
            thread::sleep(STOPPED);
            assert!(!work.is_finished(), "the script had ended before the server was stopped");
            server.resume();
            work.join().expect("the script ends")
        });
        let slow: Vec<SlowCommand> = server.ask(&["SLOWLOG", "GET", "10"]).expect("there is a slow log");
        let took = slow.iter().find(|command| command.3[0] == "EVAL").map(|command| Duration::from_micros(command.2));
        let took = took.expect("the script was slow");
        assert!(took + STOPPED <= elapsed, "{took:?} were measured of {elapsed:?}, in which nothing was done for {STOPPED:?}");
        assert!(took >= Duration::from_millis(80), "{took:?} were measured of {elapsed:?}");
        what_waits_for_a_time_gets_it(&server);
    }

    fn what_waits_for_a_time_gets_it(server: &Server) {
        let wait = Duration::from_millis(300);
        let begun = Instant::now();
        server.ask::<()>(&["SET", "key", "value", "PX", "300"]).expect("a key is set");
        let nothing: Option<Vec<String>> = server.ask_patiently(&["BLPOP", "list", "0.3"], patience()).expect("nothing comes");
        assert!(nothing.is_none() && begun.elapsed() >= wait, "{:?}", begun.elapsed());
        wait_for("the key to expire", || (server.ask::<u64>(&["EXISTS", "key"]).expect("the server answers") == 0).then_some(()));
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let before = now();
        let (seconds, micros): (u64, u64) = server.ask(&["TIME"]).expect("the server has a clock");
        let told = Duration::new(seconds, 0) + Duration::from_micros(micros);
        assert!(told + Duration::from_millis(50) > before && told <= now(), "{told:?} is told, after {before:?}");
    }
}
