//! Hints between the processes that share a database file.
//!
//! Every process that has the file open has a datagram socket in the hidden folder `.jobs.db-wake`
//! next to it, and a commit sends the name of the queue to all of them. The folder is found through
//! the database. For this reason neither `TMPDIR` nor a private `/tmp` separates the processes.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        net::UnixDatagram,
    },
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use super::doorbell::Listeners;
use crate::io::IoThread;

/// A socket whose file was deleted, for example by a cleaner of old files, is created again after
/// this time.
const REREAD_AFTER: Duration = Duration::from_secs(1);

/// The folder of the sockets of one database.
fn folder(database: &Path) -> io::Result<PathBuf> {
    let database = fs::canonicalize(database)?;
    let mut name = OsString::from(".");
    name.push(database.file_name().unwrap_or_default());
    name.push("-wake");
    Ok(database.with_file_name(name))
}

/// The sockets of the other processes.
#[derive(Debug)]
pub(crate) struct Peers {
    folder: PathBuf,
    socket: UnixDatagram,
    own: PathBuf,
    peers: Vec<PathBuf>,
    changed: Option<SystemTime>,
    read: Option<Instant>,
}

impl Peers {
    /// The sockets of the other listening processes.
    fn new(own: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        let folder = own.parent().unwrap_or(own).to_owned();
        Ok(Peers { folder, socket, own: own.to_owned(), peers: Vec::new(), changed: None, read: None })
    }

    pub(crate) fn ring(&mut self, queue: &str, at: i64) {
        self.read_folder();
        let message = format!("{at} {queue}");
        let socket = &self.socket;
        self.peers.retain(|peer| match socket.send_to(message.as_bytes(), peer) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // Its process is gone, and no other code deletes the file.
                let _ = fs::remove_file(peer);
                false
            }
            // A full socket has enough hints.
            _ => true,
        });
    }

    /// Reads the folder again when it has changed, or after a second, because its modification time
    /// only has the resolution of a timer tick.
    fn read_folder(&mut self) {
        let changed = fs::metadata(&self.folder).and_then(|folder| folder.modified()).ok();
        if changed == self.changed && self.read.is_some_and(|read| read.elapsed() < REREAD_AFTER) {
            return;
        }
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        self.peers = entries.map(|entry| entry.path()).filter(|peer| *peer != self.own).collect();
        (self.changed, self.read) = (changed, Some(Instant::now()));
    }
}

/// The socket of this process. Its file is deleted with it.
#[derive(Debug)]
pub(crate) struct Guard(PathBuf);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        // The folder remains while it has other sockets.
        let _ = self.0.parent().map(fs::remove_dir);
    }
}

/// Listens for the hints of other processes on the thread `io`, which ends before the guard is
/// dropped, and finds these processes.
///
/// # Errors
/// The reason why there can be no socket, for messages.
pub(crate) fn listen(database: &Path, listeners: Listeners, io: &IoThread) -> Result<(Guard, Peers), String> {
    let folder = folder(database).map_err(|error| format!("{}: {error}", database.display()))?;
    let problem = |error: io::Error| format!("{}: {error}", folder.display());
    let own = folder.join(format!("{}-{:08x}", std::process::id(), fastrand::u32(..)));
    let place = Place { database: database.to_owned(), own: own.clone() };
    let socket = place.bind().map_err(problem)?;
    let guard = Guard(own);
    let _entered = io.handle().enter();
    let socket = tokio::net::UnixDatagram::from_std(socket).map_err(problem)?;
    let peers = Peers::new(&guard.0).map_err(problem)?;
    io.spawn(Box::pin(receive(socket, place, listeners)));
    Ok((guard, peers))
}

async fn receive(mut socket: tokio::net::UnixDatagram, place: Place, listeners: Listeners) {
    // The longest message has a job and a subscription at its topic.
    let mut buffer = [0; 1024];
    let mut looks = tokio::time::interval(REREAD_AFTER);
    loop {
        tokio::select! {
            received = socket.recv(&mut buffer) => {
                let Ok(size) = received else { continue };
                let message = std::str::from_utf8(&buffer[..size]).ok().and_then(|text| text.split_once(' '));
                if let Some((Ok(at), queue)) = message.map(|(at, queue)| (at.parse(), queue)) {
                    listeners.notify(queue, at);
                }
            }
            _ = looks.tick() => {
                if place.own.exists() {
                    continue;
                }
                if let Ok(Ok(again)) = place.bind().map(tokio::net::UnixDatagram::from_std) {
                    socket = again;
                    // Hints may have been lost.
                    listeners.notify_all();
                }
            }
        }
    }
}

/// The location of a socket.
struct Place {
    database: PathBuf,
    own: PathBuf,
}

impl Place {
    /// Creates the socket, and its folder if necessary. Users who may write to the database may
    /// send to it.
    fn bind(&self) -> io::Result<UnixDatagram> {
        let database = fs::metadata(&self.database)?;
        let folder = self.own.parent().unwrap_or(&self.own);
        // The last process to leave removes the empty folder. This may happen just before the
        // socket is created, or while the folder is being checked.
        let mut left = 100;
        let socket = loop {
            let made = match fs::create_dir(folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                made => made.and_then(|()| open_to_writers(folder, &database)),
            };
            left -= 1;
            match made.and_then(|()| UnixDatagram::bind(&self.own)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && left > 0 => {}
                bound => break bound?,
            }
        };
        let trusted = |path: &Path| {
            let found = fs::symlink_metadata(path)?;
            let own = rustix::process::geteuid().as_raw();
            io::Result::Ok(!found.is_symlink() && [own, 0, database.uid()].contains(&found.uid()))
        };
        // The name can be guessed: another user who has created the folder could see our queues.
        if !trusted(folder)? {
            let _ = fs::remove_file(&self.own);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
        }
        fs::set_permissions(&self.own, fs::Permissions::from_mode(database.mode() & 0o666))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }
}

/// Opens a folder to users who may write to the database, as SQLite does with its log.
fn open_to_writers(folder: &Path, database: &fs::Metadata) -> io::Result<()> {
    let write = database.mode() & 0o222;
    fs::set_permissions(folder, fs::Permissions::from_mode(write << 1 | write | write >> 1))?;
    // Only root can change the owner, and has to.
    let _ = chown(folder, Some(database.uid()), Some(database.gid()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver};

    use super::*;
    use crate::{
        address::{JobId, NAME_MAX, subscription_address},
        sqlite::connection::tx::ending_of,
    };

    struct Process {
        io: IoThread,
        listeners: Listeners,
        guard: Guard,
        peers: Peers,
    }

    fn process(database: &Path) -> Process {
        let (io, listeners) = (IoThread::start("sockets").unwrap(), Listeners::default());
        let (guard, peers) = listen(database, listeners.clone(), &io).unwrap();
        Process { io, listeners, guard, peers }
    }

    impl Process {
        /// Reports the next hint.
        fn listen(&self, name: &str) -> Receiver<()> {
            let (sender, receiver) = mpsc::channel();
            let mut hints = self.listeners.of(name);
            self.io.spawn(Box::pin(async move {
                hints.next().await;
                let _ = sender.send(());
            }));
            receiver
        }
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    /// It has a job and a subscription at its topic.
    #[test]
    fn the_longest_message_is_heard() {
        let database = tempfile::NamedTempFile::new().unwrap();
        let long = |letter: &str| letter.repeat(NAME_MAX);
        let name = ending_of(&subscription_address(&long("s"), &long("t")), &JobId::given(&long("i")).unwrap());
        assert!(name.len() > 3 * NAME_MAX);
        let (listens, mut rings) = (process(database.path()), process(database.path()));
        let receiver = listens.listen(&name);
        rings.peers.ring(&name, i64::MIN);
        receiver.recv_timeout(PATIENCE).expect("the message is heard");
    }

    #[test]
    fn a_socket_that_was_removed_is_made_again() {
        let database = tempfile::NamedTempFile::new().unwrap();
        let (listens, mut rings) = (process(database.path()), process(database.path()));
        rings.peers.ring("jobs", i64::MIN);
        // The listener may create its socket again before the folder is empty.
        let _ = fs::remove_dir_all(folder(database.path()).unwrap());
        listens.listen("jobs").recv_timeout(PATIENCE).expect("it looks for work, since hints may have been lost");
        let receiver = listens.listen("jobs");
        let end = Instant::now() + PATIENCE;
        // Its peer reads the folder again within a second.
        while receiver.recv_timeout(Duration::from_millis(50)).is_err() {
            assert!(Instant::now() < end, "the new socket is found");
            rings.peers.ring("jobs", i64::MIN);
        }
    }

    #[test]
    fn a_socket_is_for_those_who_may_write_to_the_database() {
        for (mode, of_folder, of_socket) in [(0o600, 0o700, 0o600), (0o660, 0o770, 0o660), (0o644, 0o700, 0o644)] {
            let database = tempfile::NamedTempFile::new().unwrap();
            fs::set_permissions(database.path(), fs::Permissions::from_mode(mode)).unwrap();
            let listens = process(database.path());
            let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
            assert_eq!((mode(listens.guard.0.parent().unwrap()), mode(&listens.guard.0)), (of_folder, of_socket));
        }
    }

    #[test]
    fn a_path_that_is_too_long_is_named() {
        let top = tempfile::tempdir().unwrap();
        let database = top.path().join("long".repeat(30));
        fs::write(&database, "").unwrap();
        let problem = listen(&database, Listeners::default(), &IoThread::start("sockets").unwrap()).unwrap_err();
        assert!(problem.contains("long-wake: ") && problem.contains("SUN_LEN"), "{problem}");
    }

    #[test]
    fn the_last_process_removes_the_folder_and_a_process_that_comes_meanwhile_gets_a_socket() {
        let database = tempfile::NamedTempFile::new().unwrap();
        let io = IoThread::start("sockets").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let own = folder(database.path()).unwrap().join(format!("{:08x}", fastrand::u32(..)));
                        let place = Place { database: database.path().to_owned(), own: own.clone() };
                        let (_socket, guard) = (place.bind().expect("there is room for everybody"), Guard(own));
                        assert!(guard.0.exists());
                    }
                });
            }
        });
        drop(io);
        assert!(!folder(database.path()).unwrap().exists());
    }
}
