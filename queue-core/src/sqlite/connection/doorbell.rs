//! Waking idle workers, here and in other processes, when work was committed.
//!
//! Within a process a hint goes through a channel. Between processes it is a datagram: every process that listens has a
//! socket in a folder that is named by the database's path, and a commit sends the name of the queue to all of them.
//! Hints may be lost: whoever waits polls as well.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use super::tx::{HintsOut, between};
use crate::{
    broker::{Announcers, Hints},
    clock::Clock,
};

/// The listeners of this process, by what they listen to: the name of a queue, or one that [`tx`](super::tx) makes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners {
    announcers: Arc<Mutex<Announcers<String>>>,
    clock: Clock,
}

impl Listeners {
    /// Of a broker with this clock.
    pub(crate) fn by(clock: Clock) -> Self {
        Listeners { clock, ..Listeners::default() }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Tells everybody that there may be work now.
    pub(crate) fn tell_all(&self) {
        self.announcers.lock().unwrap_or_else(PoisonError::into_inner).announce_all();
    }

    pub(crate) fn of(&self, queue: &str) -> Hints {
        let mut listeners = self.announcers.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.hints(queue.to_owned())
    }

    fn tell(&self, queue: &str, at: i64) {
        let listeners = self.announcers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(announcer) = listeners.get(queue) {
            let wait = between(self.clock.since_1970(), at);
            announcer.announce((!wait.is_zero()).then(|| Instant::now() + wait));
        }
    }
}

/// The ringing end, held by the writer.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    listeners: Listeners,
    #[cfg(unix)]
    street: Option<street::Street>,
}

impl Bell {
    /// A bell that nobody hears.
    pub(crate) fn silent() -> Self {
        Bell::default()
    }

    /// A bell for the listeners of this process, and for those of other processes that have the same file open.
    /// All but the broker's own house, which hears of it by the channel.
    #[cfg(unix)]
    pub(crate) fn new(listeners: Listeners, database: Option<&Path>, own: Option<&Guard>) -> Self {
        Bell { listeners, street: database.and_then(|database| street::Street::of(database, own)) }
    }

    /// A bell for the listeners of this process; the others poll.
    #[cfg(not(unix))]
    pub(crate) fn new(listeners: Listeners) -> Self {
        Bell { listeners }
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.listeners.clock()
    }

    pub(crate) fn ring(&mut self, hints: HintsOut) {
        for (queue, at) in hints {
            self.listeners.tell(&queue, at);
            #[cfg(unix)]
            if let Some(street) = &mut self.street {
                street.ring(&queue, at);
            }
        }
    }
}

#[cfg(unix)]
pub(crate) use street::{Guard, listen};

#[cfg(unix)]
mod street {
    use std::{
        fs, io,
        os::unix::{
            fs::{DirBuilderExt, MetadataExt},
            net::UnixDatagram,
        },
        path::{Path, PathBuf},
        time::{Duration, Instant, SystemTime},
    };

    use super::Listeners;
    use crate::{broker::ProcessId, io::IoThread};

    /// The folder of the sockets of one database.
    fn folder(database: &Path) -> Option<PathBuf> {
        let path = fs::canonicalize(database).ok()?;
        // FNV-1a, 64 bits: two databases in one folder would only wake each other.
        let hash = path
            .as_os_str()
            .as_encoded_bytes()
            .iter()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        let base = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_dir()).unwrap_or_else(std::env::temp_dir);
        Some(base.join(format!("queue-bell-{hash:016x}")))
    }

    /// The neighbours' sockets.
    #[derive(Debug)]
    pub(crate) struct Street {
        folder: PathBuf,
        socket: UnixDatagram,
        own: PathBuf,
        houses: Vec<PathBuf>,
        changed: Option<SystemTime>,
        read: Option<Instant>,
    }

    impl Street {
        pub(crate) fn of(database: &Path, own: Option<&Guard>) -> Option<Self> {
            let socket = UnixDatagram::unbound().ok()?;
            socket.set_nonblocking(true).ok()?;
            // Without a house of its own in it, it is not known to be our street.
            let own = own?.0.clone();
            Some(Street { folder: folder(database)?, socket, own, houses: Vec::new(), changed: None, read: None })
        }

        pub(crate) fn ring(&mut self, queue: &str, at: i64) {
            self.look();
            let message = format!("{at} {queue}");
            let socket = &self.socket;
            self.houses.retain(|house| match socket.send_to(message.as_bytes(), house) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    // Its process is gone; nobody else will tidy up after it.
                    let _ = fs::remove_file(house);
                    false
                }
                // A full socket has hints enough.
                _ => true,
            });
        }

        /// Reads the folder again when it has changed, or after a second: its time of change has the grain of a timer tick.
        fn look(&mut self) {
            let changed = fs::metadata(&self.folder).and_then(|folder| folder.modified()).ok();
            if changed == self.changed && self.read.is_some_and(|read| read.elapsed() < Duration::from_secs(1)) {
                return;
            }
            let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
            self.houses = entries.map(|entry| entry.path()).filter(|house| *house != self.own).collect();
            (self.changed, self.read) = (changed, Some(Instant::now()));
        }
    }

    /// Takes a house in the street; the socket goes with the guard.
    pub(crate) fn listen(database: &Path, listeners: Listeners, io: &IoThread) -> Option<Guard> {
        let folder = folder(database)?;
        let path = folder.join(format!("{}-{}", std::process::id(), ProcessId::random()));
        let socket = settle(&folder, &path)?;
        let owner = |path: &Path| fs::symlink_metadata(path).map(|found| (found.uid(), found.is_symlink())).ok();
        let (own, street) = (owner(&path)?, owner(&folder)?);
        let guard = Guard(path);
        // The name can be guessed: in a folder that somebody else has put there he would hear of our queues.
        if street != own {
            return None;
        }
        socket.set_nonblocking(true).ok()?;
        let _entered = io.handle().enter();
        let socket = tokio::net::UnixDatagram::from_std(socket).ok()?;
        io.spawn(Box::pin(async move {
            // The longest message names a job and a subscription, at its topic.
            let mut buffer = [0; 1024];
            while let Ok(size) = socket.recv(&mut buffer).await {
                let message = std::str::from_utf8(&buffer[..size]).ok().and_then(|text| text.split_once(' '));
                if let Some((Ok(at), queue)) = message.map(|(at, queue)| (at.parse(), queue)) {
                    listeners.tell(queue, at);
                }
            }
        }));
        Some(guard)
    }

    /// Builds the house, and the street if it is the first there.
    fn settle(folder: &Path, house: &Path) -> Option<UnixDatagram> {
        // Whoever leaves an empty street takes it along, perhaps just before the house stands, or while it is found to be there.
        for _ in 0..100 {
            match fs::DirBuilder::new().mode(0o700).recursive(true).create(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return None,
                _ => {}
            }
            match UnixDatagram::bind(house) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                bound => return bound.ok(),
            }
        }
        None
    }

    #[derive(Debug)]
    pub(crate) struct Guard(PathBuf);

    impl Drop for Guard {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
            // While others live there, it is not empty and stays.
            let _ = self.0.parent().map(fs::remove_dir);
        }
    }

    #[cfg(test)]
    mod tests {
        use super::{super::super::tx::ending_of, *};
        use crate::address::{JobId, NAME_MAX, subscription_address};

        /// It names a job and a subscription, at its topic.
        #[test]
        fn the_longest_message_is_heard() {
            let database = tempfile::NamedTempFile::new().unwrap();
            let io = IoThread::start("street").unwrap();
            let listeners = Listeners::default();
            let long = |letter: &str| letter.repeat(NAME_MAX);
            let name = ending_of(&subscription_address(&long("s"), &long("t")), &JobId::given(&long("i")).unwrap());
            assert!(name.len() > 3 * NAME_MAX);
            let mut hints = listeners.of(&name);
            let _house = listen(database.path(), listeners, &io).unwrap();
            let rings = listen(database.path(), Listeners::default(), &io).unwrap();
            Street::of(database.path(), Some(&rings)).unwrap().ring(&name, i64::MIN);
            let (heard, hears) = std::sync::mpsc::channel();
            io.spawn(Box::pin(async move {
                hints.next().await;
                let _ = heard.send(());
            }));
            hears.recv_timeout(Duration::from_secs(60)).expect("the message is heard");
        }

        #[test]
        fn the_last_to_leave_takes_the_street_along_and_whoever_comes_meanwhile_gets_a_house() {
            let database = tempfile::NamedTempFile::new().unwrap();
            let street = folder(database.path()).unwrap();
            let io = IoThread::start("street").unwrap();
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..100 {
                            let house = listen(database.path(), Listeners::default(), &io).expect("there is room for everybody");
                            assert!(house.0.exists());
                        }
                    });
                }
            });
            assert!(!street.exists());
        }
    }
}
