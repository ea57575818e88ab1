//! A SQLite file that is not there, or is so no longer: as those see it who run a worker and type commands.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use queue_tests::patience::wait_for;
use tempfile::TempDir;

/// A folder, and commands that are given in it.
struct Place {
    folder: TempDir,
    file: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Place { file: folder.path().join("queue.db"), folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop_worker"));
        command.args(arguments).current_dir(self.folder.path()).env("SHOP_NAME", "Ada").env("NO_COLOR", "1").env_remove("RUST_LOG");
        command.env("QUEUE_URL", format!("sqlite://{}", self.file.display()));
        command
    }

    /// Exit code, and what was printed to stdout and stderr.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let (code, stdout, stderr) = self.run(arguments);
        assert_eq!(code, 0, "{arguments:?}: {stderr}");
        stdout.trim_end().to_owned()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn greet(&self, id: &str) -> String {
        self.ok(&["enqueue", "greet", "--args", r#"{"name":"Bo"}"#, "--id", id])
    }

    fn is_done(&self, job: &str) -> bool {
        self.run(&["jobs", "show", job]).1.contains("done")
    }

    fn work(&self) -> Working {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = self.command(&["work", "--health", &address.to_string()]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (log, stderr) = (Arc::<Mutex<Vec<String>>>::default(), child.stderr.take().unwrap());
        let lines = log.clone();
        thread::spawn(move || BufReader::new(stderr).lines().map_while(Result::ok).for_each(|line| lines.lock().unwrap().push(line)));
        let working = Working { child, address, log };
        working.until_health("200 OK", r#""status":"ok""#);
        working
    }
}

/// A worker process, killed with the test.
struct Working {
    child: Child,
    address: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
}

impl Working {
    fn health(&self) -> Option<String> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn until_health(&self, code: &str, says: &str) {
        let told = || self.health().filter(|health| health.starts_with(&format!("HTTP/1.1 {code}")) && health.contains(says));
        wait_for(&format!("a health of {code} with {says}"), || told().map(drop));
    }

    /// The lines of its log with this in them.
    fn told(&self, what: &str) -> Vec<String> {
        self.log.lock().unwrap().iter().filter(|line| line.contains(what)).cloned().collect()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{:#?}\n{:?}", self.log.lock().unwrap(), self.health());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every command that is not there to bring jobs, or to run them.
const LOOKS: &[&[&str]] = &[
    &["status"],
    &["status", "--json"],
    &["status", "--queue", "orders"],
    &["doctor"],
    &["doctor", "--repair"],
    &["jobs", "list"],
    &["jobs", "list", "--json"],
    &["jobs", "show", "orders/one"],
    &["jobs", "requeue", "orders/one"],
    &["jobs", "cancel", "orders/one"],
    &["jobs", "cancel", "--all", "--state", "ready"],
    &["jobs", "delete", "orders/one"],
    &["queues", "list"],
    &["queues", "pause", "orders"],
    &["queues", "resume", "orders"],
];

#[test]
fn who_only_looks_makes_no_database() {
    let place = Place::new();
    for arguments in LOOKS {
        let (code, stdout, stderr) = place.run(arguments);
        assert_eq!((code, stdout.as_str()), (3, ""), "{arguments:?}: {stderr}");
        let says = format!("error: no database at {}: no such file; `enqueue` or `work` makes one", place.file.display());
        assert!(stderr.starts_with(&says) && stderr.contains("--url"), "{arguments:?}: {stderr}");
        assert!(place.names().is_empty(), "{arguments:?}: {:?}", place.names());
        // In a folder that is not there, either.
        let elsewhere = [arguments, &["--url", "sqlite://missing/queue.db"][..]].concat();
        assert_eq!(place.run(&elsewhere).0, 3, "{elsewhere:?}");
        assert!(place.names().is_empty(), "{elsewhere:?}: {:?}", place.names());
    }
    place.greet("one");
    place.ok(&["status"]);
}

#[test]
fn who_looks_at_what_is_no_queue_is_told_and_changes_nothing() {
    let mut place = Place::new();
    place.file = place.folder.path().join("shop.db");
    rusqlite::Connection::open(&place.file).unwrap().execute_batch("CREATE TABLE orders (id INTEGER)").unwrap();
    let before = fs::read(&place.file).unwrap();
    for arguments in LOOKS {
        let (code, _, stderr) = place.run(arguments);
        assert_eq!(code, 3, "{arguments:?}: {stderr}");
        assert!(stderr.contains("a SQLite database without a queue in it"), "{arguments:?}: {stderr}");
        assert_eq!((fs::read(&place.file).unwrap(), place.names()), (before.clone(), vec!["shop.db".to_owned()]), "{arguments:?}");
    }
    fs::write(&place.file, "Dear reader, this is no database. ".repeat(100)).unwrap();
    for arguments in LOOKS {
        let (code, _, stderr) = place.run(arguments);
        assert_eq!(code, 6, "{arguments:?}: {stderr}");
        assert!(stderr.contains("is not a SQLite database"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_worker_whose_file_is_deleted_says_so_and_serves_the_one_that_is_made_next() {
    let place = Place::new();
    let worker = place.work();
    for name in place.names() {
        fs::remove_file(place.folder.path().join(name)).unwrap();
    }
    worker.until_health("503 ", r#""status":"lost""#);
    worker.until_health("503 ", "deleted or moved");
    let told = worker.told("deleted or moved while it was open");
    let errors = told.iter().filter(|line| line.contains("ERROR")).count();
    assert_eq!(errors, 1, "{told:#?}");
    assert!(told[0].contains("start a worker anew") && told[0].contains("queue.db"), "{told:#?}");
    assert_eq!(place.names(), Vec::<String>::new(), "the worker makes none");
    assert_eq!(place.run(&["status"]).0, 3);

    let job = place.greet("bo");
    wait_for("the job to be done", || place.is_done(&job).then_some(()));
    worker.until_health("200 OK", r#""status":"ok""#);
    assert_eq!(worker.told("opened the database file that is at the path now").len(), 1);
}

#[test]
fn a_worker_whose_file_is_moved_says_so_and_goes_on_when_it_is_back() {
    let place = Place::new();
    place.greet("before");
    let worker = place.work();
    wait_for("the job to be done", || place.is_done("greetings/before").then_some(()));
    let moved = place.folder.path().join("moved.db");
    fs::rename(&place.file, &moved).unwrap();
    let (code, _, stderr) = place.run(&["status"]);
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("only its log") && stderr.contains("queue.db-wal is left"), "{stderr}");
    worker.until_health("503 ", r#""status":"lost""#);
    let (code, _, stderr) = place.run(&["enqueue", "greet", "--args", r#"{"name":"Bo"}"#]);
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("move the database back"), "{stderr}");
    assert!(!place.file.exists(), "nobody makes a new one beside its log");

    fs::rename(&moved, &place.file).unwrap();
    worker.until_health("200 OK", r#""status":"ok""#);
    assert!(place.is_done("greetings/before"), "what was acknowledged is there");
    let job = place.greet("after");
    wait_for("the job to be done", || place.is_done(&job).then_some(()));
    assert_eq!(worker.told("the database file is back").len(), 1);
}
