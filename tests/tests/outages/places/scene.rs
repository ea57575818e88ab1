//! A folder with a queue, a worker process, and commands.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use queue_tests::{
    folder::folder,
    patience::{output, patience, wait_for},
    probe::free_address,
};
use tempfile::TempDir;

/// A folder, and commands that are given in it.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) file: PathBuf,
    pub(crate) url: Option<String>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = folder();
        Place { file: folder.path().join("queue.db"), folder, url: None }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop_worker"));
        command.args(arguments).current_dir(self.folder.path()).env("SHOP_NAME", "Ada").env("NO_COLOR", "1").env_remove("RUST_LOG");
        command.env("QUEUE_URL", self.url.clone().unwrap_or_else(|| format!("sqlite://{}", self.file.display())));
        command
    }

    /// Exit code, and what was printed to stdout and stderr.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = output(&mut self.command(arguments)).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let (code, stdout, stderr) = self.run(arguments);
        assert_eq!(code, 0, "{arguments:?}: {stderr}");
        stdout.trim_end().to_owned()
    }

    /// The files that `ls` shows.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    }

    pub(crate) fn greet(&self, id: &str) -> String {
        self.ok(&["enqueue", "greet", "--args", r#"{"name":"Bo"}"#, "--id", id])
    }

    pub(crate) fn is_done(&self, job: &str) -> bool {
        self.run(&["jobs", "show", job]).1.contains("done")
    }

    pub(crate) fn work(&self) -> Working {
        let working = self.begin_to_work();
        working.until_ready("200 OK", r#""status":"ok""#);
        working
    }

    /// Starts a worker whose broker may not be there yet.
    pub(crate) fn begin_to_work(&self) -> Working {
        let address = free_address();
        let mut command = self.command(&["work", "--health", &address.to_string()]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (log, stderr) = (Arc::<Mutex<Vec<String>>>::default(), child.stderr.take().unwrap());
        let lines = log.clone();
        thread::spawn(move || BufReader::new(stderr).lines().map_while(Result::ok).for_each(|line| lines.lock().unwrap().push(line)));
        Working { child, address, log }
    }
}

/// A worker process, killed with the test.
pub(crate) struct Working {
    child: Child,
    address: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
}

impl Working {
    /// The answer to `/ready`. That to `/health` says the same, and stays 200.
    pub(crate) fn ready(&self) -> Option<String> {
        self.ask("/ready")
    }

    fn ask(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(patience())).ok()?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    pub(crate) fn until_ready(&self, code: &str, says: &str) {
        let told = || self.ready().filter(|ready| ready.starts_with(&format!("HTTP/1.1 {code}")) && ready.contains(says));
        wait_for(&format!("/ready to be {code} with {says}"), || told().map(drop));
        let health = self.ask("/health").unwrap();
        assert!(health.starts_with("HTTP/1.1 200 OK"), "its process is well: {health}");
    }

    /// The lines of its log with this in them.
    pub(crate) fn told(&self, what: &str) -> Vec<String> {
        self.log.lock().unwrap().iter().filter(|line| line.contains(what)).cloned().collect()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{:#?}\n{:?}", self.log.lock().unwrap(), self.ready());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
