//! Ports of this machine that test processes do not take from each other.

use std::{
    fmt,
    fs::{File, OpenOptions},
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

/// A reserved port, on which nobody listened when it was reserved.
///
/// It is reserved by a lock on a file, which the system releases when the process dies at the
/// latest. So a server that was killed finds its port again when it is restarted, and no other test
/// starts a server where a test relies on nobody listening.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Holds the lock.
    _file: File,
}

impl Port {
    /// Reserves a port, below those that systems hand out to connections.
    ///
    /// # Panics
    /// When no port is free.
    pub fn reserve() -> Port {
        let numbers = std::iter::repeat_with(|| fastrand::u16(10_000..32_000));
        numbers.take(1000).find_map(Port::lock).expect("a free port from 10000 to 32000")
    }

    fn lock(number: u16) -> Option<Port> {
        let folder = folder();
        let path = folder.join(number.to_string());
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.unwrap_or_else(|error| panic!("{}: {error}: tests reserve ports there, and must be able to write", path.display()));
        open_to_all(&path);
        file.try_lock().ok()?;
        TcpListener::bind(("127.0.0.1", number)).ok()?;
        Some(Port { number, _file: file })
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// A port that is reserved as long as this process lives.
pub fn free_port() -> u16 {
    static HELD: Mutex<Vec<Port>> = Mutex::new(Vec::new());
    let port = Port::reserve();
    let number = port.number;
    HELD.lock().unwrap_or_else(PoisonError::into_inner).push(port);
    number
}

/// An address at which nobody listens yet, with such a port.
pub fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// One folder for all test processes: not `TMPDIR`, which differs between them.
fn folder() -> PathBuf {
    let root = if cfg!(unix) { PathBuf::from("/tmp") } else { std::env::temp_dir() };
    let folder = root.join("queue-test-ports");
    if std::fs::create_dir_all(&folder).is_ok() {
        open_to_all(&folder);
    }
    folder
}

/// Other users of this machine run tests, too. Whoever does not own the path need not change it.
#[cfg(unix)]
fn open_to_all(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777));
}

#[cfg(not(unix))]
fn open_to_all(_: &std::path::Path) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_not_reserved_again_before_it_is_released() {
        let port = Port::reserve();
        assert!(Port::lock(port.number()).is_none(), "it is reserved");
        let number = port.number();
        let listener = TcpListener::bind(("127.0.0.1", number)).expect("nobody listens");
        drop(port);
        assert!(Port::lock(number).is_none(), "somebody listens");
        drop(listener);
        assert_eq!(Port::lock(number).map(|port| port.number()), Some(number));
    }
}
