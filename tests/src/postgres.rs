//! A real PostgreSQL: the test starts it on a free port, as a user without privileges, with its
//! data in memory. It stops when it is dropped.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use queue_conformance::{
    folder::{folder, on_disk},
    patience,
    port::Port,
};
use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::{preload, process::Process};

/// The variable with the program, which `cargo xtask test` sets.
const VARIABLE: &str = "QUEUE_TEST_POSTGRES_SERVER";

/// The role that owns everything.
const USER: &str = "queue";

/// A running server with a separate data folder.
#[derive(Debug)]
pub struct Postgres {
    /// The port, which stays reserved while the server is down.
    port: Port,
    options: Vec<String>,
    /// Whether its clock can be moved.
    own_clock: bool,
    /// Before the folder, which is removed when no process writes there.
    process: Option<Process>,
    folder: TempDir,
}

/// The program: named by `cargo xtask test`, or on the path, or the newest that Debian has
/// installed.
fn program() -> PathBuf {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = || std::env::split_paths(&path).map(|folder| folder.join("postgres")).find(|program| program.is_file());
    let number = |folder: &PathBuf| folder.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let debian = || {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path());
        versions.max_by_key(number).map(|folder| folder.join("bin/postgres"))
    };
    let found = named.or_else(on_path).or_else(debian).and_then(|program| program.canonicalize().ok());
    found.unwrap_or_else(|| panic!("this test needs postgres: run `cargo xtask test`, which gets one, or set {VARIABLE}"))
}

/// Processes of root drop their privileges, because PostgreSQL refuses to run as root.
#[cfg(unix)]
fn unprivileged(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    if let Some((user, group)) = *other_user() {
        command.uid(user).gid(group);
    }
}

#[cfg(not(unix))]
fn unprivileged(_: &mut Command) {}

/// The user `postgres`, or else `nobody`, with its group, if this process runs as root.
fn other_user() -> &'static Option<(u32, u32)> {
    static USER: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    let id = |arguments: &[&str]| -> Option<u32> {
        let output = Command::new("id").args(arguments).stderr(Stdio::null()).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    USER.get_or_init(|| {
        let is_root = id(&["-u"]) == Some(0);
        let of = |name: &&str| Some((id(&["-u", name])?, id(&["-g", name])?));
        is_root.then(|| ["postgres", "nobody"].iter().find_map(of).expect("root needs a user `postgres` or `nobody` to run PostgreSQL as"))
    })
}

impl Postgres {
    /// Starts a server that does not sync its files. It survives `kill -9`, but not a loss of
    /// power.
    pub fn start() -> Postgres {
        Postgres::with(&["fsync=off", "full_page_writes=off"])
    }

    /// Starts a server with these settings (`name=value`).
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn with(settings: &[&str]) -> Postgres {
        Postgres::in_folder(folder(), settings, false)
    }

    /// Starts a server with the defaults of PostgreSQL and its data on a disk.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn on_disk() -> Postgres {
        Postgres::in_folder(on_disk(), &[], false)
    }

    /// Starts a server like [`start`](Self::start) whose clock can be [moved](Self::move_clock).
    ///
    /// # Panics
    /// When it cannot be started, or there is no C compiler.
    pub fn with_own_clock() -> Postgres {
        Postgres::in_folder(folder(), &["fsync=off", "full_page_writes=off"], true)
    }

    /// Moves its clock by this number of milliseconds from the right time, in whole seconds.
    ///
    /// # Panics
    /// When it was started without a [clock of its own](Self::with_own_clock).
    pub fn move_clock(&self, by_ms: i64) {
        assert!(self.own_clock, "its clock is that of the machine");
        preload::move_clock(&self.folder.path().join("clock"), by_ms).expect("the folder can be written to");
    }

    fn in_folder(folder: TempDir, settings: &[&str], own_clock: bool) -> Postgres {
        let data = data(folder.path());
        std::fs::create_dir(&data).expect("a folder can be made");
        #[cfg(unix)]
        if let Some((user, group)) = *other_user() {
            std::os::unix::fs::chown(&data, Some(user), Some(group)).expect("root can give a folder away");
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("the folder is ours");
        }
        let mut initdb = Command::new(program().with_file_name("initdb"));
        initdb.args(["--no-sync", "--auth=trust", "--username", USER, "--encoding=UTF8", "--locale=C", "--pgdata"]).arg(&data);
        unprivileged(initdb.current_dir(&data));
        let made = initdb.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{initdb:?}: {error}"));
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let options = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Postgres { port: Port::reserve(), options, own_clock, process: None, folder };
        if own_clock {
            server.move_clock(0);
        }
        // Another program may take the port before the start. Then another port is tried.
        for _ in 0..10 {
            if server.launch() {
                return server;
            }
            server.port = Port::reserve();
        }
        panic!("no PostgreSQL could be started, on ten ports:\n{}", server.log())
    }

    /// The URL of its first database, `postgres`.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port)
    }

    /// The URL of a new, empty database.
    ///
    /// # Panics
    /// When the server cannot be reached.
    pub async fn database(&self) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        connect(&self.url()).await.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("a database can be made");
        self.url_of(&name)
    }

    /// Kills the server (`kill -9`). The next start recovers from its log.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.signal("-KILL");
            process.kill();
        }
    }

    /// Starts the server again on the same port and data.
    ///
    /// # Panics
    /// If it does not answer in time.
    pub fn restart(&mut self) {
        self.kill();
        // The processes of its connections hold its memory until they notice that the server was
        // killed.
        let started = std::iter::repeat_with(|| self.launch()).take(100).any(|up| up);
        assert!(started, "PostgreSQL does not start again on port {}:\n{}", self.port, self.log());
    }

    /// Stores a copy of its data, which represents a lagging replica. The server is killed and
    /// restarted for that.
    ///
    /// # Panics
    /// If it does not start again.
    pub fn copy(&mut self) {
        self.kill();
        // Its user stays the owner.
        let (from, to) = (data(self.folder.path()), self.folder.path().join("copy"));
        let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
        assert!(copied.is_ok_and(|status| status.success()), "the data cannot be copied");
        self.restart();
    }

    /// Kills it and starts it with the data of the [copy](Self::copy), on the same port.
    ///
    /// # Panics
    /// When there is no copy, or it does not start.
    pub fn promote_copy(&mut self) {
        self.kill();
        let (folder, data) = (self.folder.path(), data(self.folder.path()));
        // Processes of its connections may still write there.
        std::fs::rename(&data, folder.join("lost")).expect("the folder is ours");
        std::fs::rename(folder.join("copy"), data).expect("there is a copy");
        self.restart();
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Returns false if its process has ended.
    fn launch(&mut self) -> bool {
        let data = data(self.folder.path());
        // The file of a server that was killed.
        let status = data.join("postmaster.pid");
        let _ = std::fs::remove_file(&status);
        let log = std::fs::File::create(self.folder.path().join("log")).expect("the folder can be written to");
        let mut command = Command::new(program());
        command.arg("-D").arg(&data).args(["-p", &self.port.to_string(), "-h", "127.0.0.1", "-k", ""]);
        // Its memory goes with its folder.
        for setting in ["dynamic_shared_memory_type=mmap", "max_connections=200"].into_iter().chain(self.options.iter().map(String::as_str))
        {
            command.args(["-c", setting]);
        }
        if self.own_clock {
            let library = preload::moved_clock(self.folder.path()).expect("the clock can be compiled");
            command.env(preload::VARIABLE, library).env(preload::MOVED, self.folder.path().join("clock"));
        }
        command.stdout(Stdio::null()).stderr(log).current_dir(&data);
        unprivileged(&mut command);
        let process = self.process.insert(Process::ended_by("-QUIT", &mut command, self.folder.path()));
        let started = patience::wait(format!("PostgreSQL on port {} to start", self.port)).every(Duration::from_millis(10));
        started.block_some(|| {
            let is_ready =
                std::fs::read_to_string(&status).is_ok_and(|lines| lines.lines().nth(7).is_some_and(|line| line.trim() == "ready"));
            if is_ready { Some(true) } else { process.ended().map(|_| false) }
        })
    }
}

impl Drop for Postgres {
    /// A fast stop, after which none of its memory is left.
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let asked = Command::new("kill").args(["-QUIT", &process.id().to_string()]).status();
        if asked.is_ok_and(|status| status.success()) {
            for _ in 0..500 {
                if process.ended().is_some() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// One server for all tests of a process: each has a [database](Postgres::database) of its own. It
/// ends with the process.
pub fn shared() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(Postgres::start)
}

/// A connection to a database, which ends when the client is dropped.
///
/// # Panics
/// When the server cannot be reached.
pub async fn connect(url: &str) -> tokio_postgres::Client {
    try_connect(url).await.expect("the database can be reached")
}

/// The same, of a server that may be down.
///
/// # Errors
/// When it cannot be reached.
pub async fn try_connect(url: &str) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async {
        // The error is also returned to the caller of the query.
        let _ = connection.await;
    });
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    mod on_postgres {
        use super::*;

        #[tokio::test(flavor = "multi_thread")]
        async fn a_server_keeps_what_was_committed_when_it_is_killed() {
            let mut server = Postgres::start();
            let url = server.database().await;
            let client = connect(&url).await;
            client.batch_execute("CREATE TABLE kept (n INT); INSERT INTO kept VALUES (7)").await.unwrap();
            server.kill();
            assert!(client.query_one("SELECT n FROM kept", &[]).await.is_err());
            server.restart();
            let n: i32 = connect(&url).await.query_one("SELECT n FROM kept", &[]).await.unwrap().get(0);
            assert_eq!(n, 7);
        }
    }
}
