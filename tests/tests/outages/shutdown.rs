//! Processes end when they are told to, whatever their handlers do.

#![cfg(unix)]

use std::{
    io::{BufRead, BufReader, Read},
    process::{ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use queue_tests::{apart, command_line::Place, patience::wait_for, process::Process};

const GRACE: Duration = Duration::from_secs(2);

fn place() -> Place {
    Place::sqlite(env!("CARGO_BIN_EXE_rude_worker"))
}

/// A worker process, whose log goes to a file.
struct Working {
    process: Process,
    told: BufReader<ChildStdout>,
    log: std::path::PathBuf,
}

impl Working {
    fn start(place: &Place, threads: usize) -> Working {
        Working::started(place, place.command(&["work", "--grace", "2s"]).env("THREADS", threads.to_string()))
    }

    fn started(place: &Place, command: &mut Command) -> Working {
        let log = place.folder().join("worker.log");
        let file = std::fs::File::create(&log).unwrap();
        let mut process = Process::start(command.stdout(Stdio::piped()).stderr(file));
        let told = BufReader::new(process.stdout());
        Working { process, told, log }
    }

    /// Waits for a line of a handler.
    fn says(&mut self, word: &str) {
        let mut line = String::new();
        self.told.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), word, "{}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Its exit code, and how long it took.
    fn ends(&mut self, since: Instant) -> (Option<i32>, Duration) {
        let status = wait_for("the process to end", || self.process.ended());
        (status.code(), since.elapsed())
    }
}

/// Any handler that does not stop: the process names it, and ends by itself.
#[test]
fn a_process_ends_although_a_handler_blocks() {
    for (task, threads) in [("block_a_thread", 2), ("block_the_runtime", 2), ("block_the_runtime", 1), ("block_the_runtime", 0)] {
        let place = place();
        place.ok(&["enqueue", task, "--id", "it"]);
        let mut worker = Working::start(&place, threads);
        worker.says("blocked");
        if threads == 0 {
            let hint = |line: &str| ["blocks a thread of its runtime", "#[task(blocking)]", task].iter().all(|part| line.contains(part));
            wait_for("the handler to be named", || worker.log().lines().any(hint).then_some(()));
        }
        let told = Instant::now();
        worker.process.signal("-TERM");
        let (code, took) = worker.ends(told);
        let log = worker.log();
        assert_eq!(code, Some(7), "{task} on {threads} threads: {log}");
        // The machine may be busy, and the figure is the promise's and not the machine's.
        assert!(took < GRACE + Duration::from_secs(3) + Duration::from_secs(2), "{task} on {threads} threads took {took:?}: {log}");
        let named = log.lines().any(|line| line.contains("stuck") && line.contains("rude/it") && line.contains(task));
        assert!(named, "{task} on {threads} threads: {log}");
        let job = place.json(&["jobs", "show", "rude/it"]);
        assert_eq!(
            (&job["state"], &job["crashes"]),
            (&"active".into(), &0.into()),
            "it is not returned while its process may run it: {job}"
        );
    }
}

/// The job of a stuck handler runs again when its lease is over, and its process has not crashed.
#[test]
fn a_job_that_was_left_behind_is_not_charged() {
    let place = place();
    place.ok(&["enqueue", "block_a_thread", "--id", "it"]);
    let start = || Working::started(&place, place.command(&["work", "--grace", "1s"]).env("LEASE_SECONDS", "3"));
    let mut worker = start();
    worker.says("blocked");
    worker.process.signal("-TERM");
    assert_eq!(worker.ends(Instant::now()).0, Some(7));
    let mut next = start();
    next.says("blocked");
    let job = place.json(&["jobs", "show", "rude/it"]);
    assert_eq!((&job["state"], &job["crashes"], &job["failures"]), (&"active".into(), &0.into(), &0.into()), "{job}");
}

/// What a handler leaves behind holds nothing up either.
#[test]
fn a_process_ends_although_a_dropped_handler_has_left_a_thread_behind() {
    let place = place();
    place.ok(&["enqueue", "leave_a_thread", "--id", "it"]);
    let mut worker = Working::start(&place, 2);
    worker.says("blocked");
    worker.process.signal("-TERM");
    let (code, _) = worker.ends(Instant::now());
    assert_eq!(code, Some(7), "{}", worker.log());
    assert_eq!(place.json(&["jobs", "show", "rude/it"])["state"], "ready");
}

#[test]
fn a_second_signal_skips_the_grace_time() {
    for signals in [["-TERM", "-TERM"], ["-HUP", "-INT"]] {
        let place = place();
        place.ok(&["enqueue", "obey", "--id", "it"]);
        place.ok(&["enqueue", "block_the_runtime", "--id", "it"]);
        let mut worker = Working::started(&place, place.command(&["work", "--grace", "10m"]).env("THREADS", "2"));
        let mut words = [String::new(), String::new()];
        for word in &mut words {
            worker.told.read_line(word).unwrap();
        }
        words.sort();
        assert_eq!(words, ["blocked\n", "waiting\n"]);
        worker.process.signal(signals[0]);
        wait_for("the first signal to be heard", || worker.log().contains("no new jobs").then_some(()));
        let told = Instant::now();
        worker.process.signal(signals[1]);
        let (code, took) = worker.ends(told);
        assert_eq!(code, Some(7), "{}", worker.log());
        assert!(took < Duration::from_secs(3 + 2), "{took:?}: {}", worker.log());
        let obeyed = place.json(&["jobs", "show", "polite/it"]);
        assert_eq!((&obeyed["state"], &obeyed["failures"], &obeyed["crashes"]), (&"ready".into(), &0.into(), &0.into()), "{obeyed}");
        assert_eq!(place.json(&["jobs", "show", "rude/it"])["state"], "active");
    }
}

/// Every signal by which managers, shells and terminals end a process.
#[test]
fn a_worker_drains_at_every_signal_that_ends_a_process() {
    for signal in ["-TERM", "-INT", "-HUP", "-QUIT"] {
        let place = place();
        place.ok(&["enqueue", "obey", "--id", "it"]);
        let mut worker = Working::start(&place, 2);
        worker.says("waiting");
        worker.process.signal(signal);
        let (code, _) = worker.ends(Instant::now());
        assert_eq!(code, Some(7), "{signal}: {}", worker.log());
        assert_eq!(place.json(&["jobs", "show", "polite/it"])["state"], "ready", "{signal}");
    }
}

/// `nohup` means that the end of a terminal ends nothing.
#[test]
fn a_worker_under_nohup_outlives_its_terminal() {
    let place = place();
    place.ok(&["enqueue", "obey", "--id", "it"]);
    let mut nohup = Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$0\" work --grace 2s", env!("CARGO_BIN_EXE_rude_worker")]);
    let mut worker = Working::started(&place, nohup.env("QUEUE_URL", place.url()).env_remove("RUST_LOG"));
    worker.says("waiting");
    worker.process.signal("-HUP");
    worker.process.signal("-TERM");
    let (code, _) = worker.ends(Instant::now());
    assert_eq!(code, Some(7), "{}", worker.log());
    assert!(worker.log().contains("SIGTERM") && !worker.log().contains("SIGHUP"), "{}", worker.log());
}

/// As the first process of a container, a program is not ended by a signal that it does not handle.
#[test]
fn every_command_that_goes_on_ends_at_sigterm_as_the_first_process_of_a_container() {
    if !apart::can_start("every command as the first process of a container", &["unshare", "-Urpf", "--mount-proc"]) {
        return;
    }
    let place = place();
    place.ok(&["enqueue", "obey", "--id", "it"]);
    place.ok(&["queues", "pause", "polite"]);
    let commands: [&[&str]; 4] =
        [&["work", "--grace", "2s"], &["watch"], &["status", "--watch"], &["jobs", "wait", "polite/it", "--timeout", "10m"]];
    for arguments in commands {
        // The shell ends with its child, which is number 1 of its namespace; the signal is sent to
        // it from outside.
        let mut command = Command::new("unshare");
        command.args(["-Urpf", "--mount-proc", "--kill-child", env!("CARGO_BIN_EXE_rude_worker")]).args(arguments);
        let mut outer = Process::start(command.env("QUEUE_URL", place.url()).stdout(Stdio::null()).stderr(Stdio::null()));
        let first = wait_for(&format!("{arguments:?} to be PID 1 of a namespace"), || child_with_handler(outer.id()));
        let status = Command::new("kill").args(["-TERM", &first]).status().unwrap();
        assert!(status.success());
        wait_for(&format!("{arguments:?} to end as PID 1"), || outer.ended());
    }
}

/// The child of this process, once it handles SIGTERM.
fn child_with_handler(parent: u32) -> Option<String> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    let child = children.split_whitespace().next()?.to_owned();
    let status = std::fs::read_to_string(format!("/proc/{child}/status")).ok()?;
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
    (caught & 1 << 14 != 0).then_some(child)
}

/// Standard error is a pipe that nobody reads, and it is full.
#[test]
fn a_log_that_nobody_reads_stops_neither_the_heartbeat_nor_the_end() {
    let place = place();
    let done = place.folder().join("done");
    place.ok(&["enqueue", "talk", "--args", &serde_json::json!({ "until": done }).to_string(), "--id", "it"]);
    let port = queue_tests::server::free_port();
    let mut command = place.command(&["work", "--health", &format!("127.0.0.1:{port}")]);
    // Whatever the worker itself logs goes the same way.
    command.env("RUST_LOG", "trace").env("LEASE_SECONDS", "3");
    let mut process = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut told = BufReader::new(process.stdout()).lines();
    assert_eq!(told.next().unwrap().unwrap(), "talking");
    assert_eq!(told.next().unwrap().unwrap(), "talked", "the handler is not held up");
    // Another worker, which would take the job over.
    let mut other = place.command(&["work", "--queue", "talkative"]);
    let other = Process::start(other.env("LEASE_SECONDS", "3").stdout(Stdio::null()).stderr(Stdio::null()));
    // It lives for longer than its lease and the reclaimer's two looks.
    let end = Instant::now() + Duration::from_secs(8);
    while Instant::now() < end {
        let job = place.json(&["jobs", "show", "talkative/it"]);
        assert_eq!((&job["state"], &job["crashes"]), (&"active".into(), &0.into()), "{job}");
        assert!(healthy(port), "`/health` answers");
        std::thread::sleep(Duration::from_millis(200));
    }
    std::fs::write(&done, "").unwrap();
    wait_for("the job to be done", || (place.run(&["jobs", "show", "talkative/it"]).status.code() == Some(3)).then_some(()));
    process.signal("-TERM");
    let status = wait_for("the process to end", || process.ended());
    assert_eq!(status.code(), Some(0));
    let mut read = String::new();
    process.stderr().read_to_string(&mut read).unwrap();
    drop(other);
}

fn healthy(port: u16) -> bool {
    use std::io::Write;
    let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut answer = String::new();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.starts_with("HTTP/1.1 200")
}
