//! The identity that a worker registers at the broker: host, process, release and tasks.

use std::{
    fs::File,
    io::{self, Read},
    sync::{Arc, OnceLock},
};

use queue_core::broker::{ProcessId, TEXT_MAX, WorkerInfo};

/// The environment variable with the release, for programs that set none.
pub(crate) const RELEASE: &str = "QUEUE_RELEASE";

/// The text for an unknown release or host.
const UNKNOWN: &str = "unknown";

pub(crate) struct Identity {
    pub(crate) process: ProcessId,
    /// The record that the worker sends when a lane registers.
    pub(crate) info: WorkerInfo,
    pub(crate) release: Arc<str>,
}

impl Identity {
    /// A worker of this release. Without a release, reads the executable on a blocking thread.
    pub(crate) async fn new(release: Option<String>, tasks: impl Iterator<Item = &str> + Send) -> Self {
        let release = match release {
            Some(release) => release,
            // The runtime may be shutting down.
            None => tokio::task::spawn_blocking(digest).await.unwrap_or_else(|_| UNKNOWN.to_owned()),
        };
        let info = WorkerInfo::new(&host(), std::process::id(), &release, tasks);
        Identity { process: ProcessId::random(), info, release: release.into() }
    }
}

/// The configured release of a worker: from the program, else from the environment. An empty
/// variable gives an empty release, which is a [problem].
pub(crate) fn release(set: Option<&str>) -> Option<String> {
    let of_environment = || std::env::var_os(RELEASE).map(|release| release.to_string_lossy().into_owned());
    set.map(ToOwned::to_owned).or_else(of_environment)
}

/// The problem of an invalid release name.
pub(crate) fn problem(release: &str) -> Option<String> {
    if release.is_empty() {
        return Some(format!(
            "the release ({RELEASE} or `Worker::release`) is empty; name a version, such as `v42`, or leave it out for a digest"
        ));
    }
    if release.contains(char::REPLACEMENT_CHARACTER) {
        return Some(format!("release {release:?} ({RELEASE} or `Worker::release`) is not Unicode; use a name such as `v42`"));
    }
    if release.len() > TEXT_MAX {
        return Some(format!("the release has {} bytes; use at most {TEXT_MAX}", release.len()));
    }
    if release.contains(char::is_control) {
        return Some(format!("release {release:?} has a control character in it; use a name such as `v42`"));
    }
    None
}

/// The name of this host.
fn host() -> String {
    #[cfg(unix)]
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let name = std::env::var("COMPUTERNAME").unwrap_or_default();
    if name.is_empty() { UNKNOWN.to_owned() } else { name }
}

/// A digest of this process's executable, which is computed once. Two builds of a program are
/// therefore two releases.
fn digest() -> String {
    static DIGEST: OnceLock<String> = OnceLock::new();
    DIGEST.get_or_init(|| release_of(executable().and_then(digest_of))).clone()
}

fn release_of(digest: io::Result<u64>) -> String {
    digest.map_or_else(|_| UNKNOWN.to_owned(), |digest| format!("exe-{digest:016x}"))
}

/// The file from which this process was started. A deployment may have replaced the file at this
/// path.
fn executable() -> io::Result<File> {
    if cfg!(target_os = "linux")
        && let Ok(file) = File::open("/proc/self/exe")
    {
        return Ok(file);
    }
    File::open(std::env::current_exe()?)
}

fn digest_of(mut file: impl Read) -> io::Result<u64> {
    /// The odd number nearest to 2^64 divided by the golden ratio, as in Fibonacci hashing.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut buffer = vec![0; 256 * 1024];
    let (mut digest, mut length) = (0u64, 0u64);
    let mut mix = |word: u64| digest = (digest.rotate_left(5) ^ word).wrapping_mul(SPREAD);
    loop {
        let read = read_full(&mut file, &mut buffer)?;
        // The length distinguishes files that differ only in zeros at the end.
        let words = buffer[..read].chunks(8);
        words.for_each(|word| {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            mix(u64::from_le_bytes(bytes));
        });
        length += read as u64;
        if read < buffer.len() {
            mix(length);
            return Ok(digest ^ (digest >> 32));
        }
    }
}

/// Reads until the buffer is full, or the file ends.
fn read_full(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_executables_have_two_digests() {
        let one: Vec<u8> = (0..600_000u32).map(|n| n.to_le_bytes()[0]).collect();
        let digest = |bytes: &[u8]| digest_of(bytes).unwrap();
        assert_eq!(digest(&one), digest(&one.clone()));
        for at in [0, 7, 8, 262_143, 262_144, 599_999] {
            let mut other = one.clone();
            other[at] ^= 0x80;
            assert_ne!(digest(&one), digest(&other), "byte {at}");
        }
        assert_ne!(digest(&one), digest(&one[..599_999]));
        assert_ne!(digest(&[]), digest(&[0]));
    }

    #[test]
    fn an_executable_that_cannot_be_read_is_an_unknown_release() {
        assert_eq!(release_of(Err(io::Error::other("gone"))), "unknown");
        let known = digest();
        assert!(known.starts_with("exe-") && known.len() == 20, "{known}");
        assert_eq!(known, digest());
    }

    #[test]
    fn a_release_has_a_name_of_some_length() {
        assert_eq!(problem("v42"), None);
        assert!(problem("").unwrap().contains("is empty"));
        assert!(problem("v4\n2").unwrap().contains("control character"));
        assert!(problem(&"v".repeat(257)).unwrap().contains("257 bytes"));
    }
}
