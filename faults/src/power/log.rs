//! What processes did to their files.

use std::{io, path::Path};

/// Everything that was done, in order.
#[derive(Debug)]
pub struct Log {
    bytes: Vec<u8>,
    /// Where each entry begins.
    starts: Vec<usize>,
}

/// One thing that a process did to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The file, without its folder.
    pub file: &'a str,
    /// Who: a thread of the machine.
    pub thread: u32,
    /// What.
    pub change: Change<'a>,
}

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// These bytes were written there.
    Write(usize, &'a [u8]),
    /// It was cut, or made longer.
    Resize(usize),
    /// Somebody begins to wait until it is on disk.
    SyncBegins,
    /// It is: all that was written before this wait began.
    SyncEnds,
}

/// Kind, thread, place, length of the name, length of what was written.
const HEAD: usize = 24;

impl Log {
    /// Reads what `bed/recorded.c` has written.
    ///
    /// # Errors
    /// When the file cannot be read, or is no such log.
    pub fn read(path: &Path) -> io::Result<Log> {
        Log::of(std::fs::read(path)?).map_err(|problem| io::Error::new(io::ErrorKind::InvalidData, problem))
    }

    fn of(bytes: Vec<u8>) -> Result<Log, String> {
        let (mut starts, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let (_, length) = entry(&bytes[at..]).ok_or_else(|| format!("the log of the disk is torn at byte {at}"))?;
            starts.push(at);
            at += length;
        }
        Ok(Log { bytes, starts })
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether nothing was done.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// One entry.
    ///
    /// # Panics
    /// Behind the last.
    pub fn entry(&self, position: usize) -> Entry<'_> {
        entry(&self.bytes[self.starts[position]..]).expect("it was read before").0
    }

    /// The entries, with their positions.
    pub fn entries(&self) -> impl Iterator<Item = (usize, Entry<'_>)> {
        (0..self.len()).map(|position| (position, self.entry(position)))
    }
}

/// The entry at the beginning of some bytes, and its length.
fn entry(bytes: &[u8]) -> Option<(Entry<'_>, usize)> {
    let head = bytes.get(..HEAD)?;
    let number = |at: usize| Some(u32::from_ne_bytes(head[at..at + 4].try_into().ok()?));
    let size = |at: usize| usize::try_from(number(at)?).ok();
    let at = usize::try_from(u64::from_ne_bytes(head[8..16].try_into().ok()?)).ok()?;
    let (name, data) = (size(16)?, size(20)?);
    let file = std::str::from_utf8(bytes.get(HEAD..HEAD + name)?).ok()?;
    let data = bytes.get(HEAD + name..HEAD + name + data)?;
    let change = match u8::try_from(number(0)?).ok()? {
        b'W' => Change::Write(at, data),
        b'T' => Change::Resize(at),
        b'B' => Change::SyncBegins,
        b'E' => Change::SyncEnds,
        _ => return None,
    };
    Some((Entry { file, thread: number(4)?, change }, HEAD + name + data.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(kind: u8, at: u64, name: &str, data: &[u8]) -> Vec<u8> {
        let numbers = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<_>>();
        let lengths = [u32::try_from(name.len()).unwrap(), u32::try_from(data.len()).unwrap()];
        [numbers(&[kind.into(), 7]), at.to_ne_bytes().to_vec(), numbers(&lengths), name.into(), data.into()].concat()
    }

    #[test]
    fn entries_are_read_in_order() {
        let log = Log::of([raw(b'W', 4096, "queue.db", b"abc"), raw(b'B', 0, "queue.db-wal", b"")].concat()).unwrap();
        let entries: Vec<_> = log.entries().map(|(_, entry)| entry).collect();
        let written = Entry { file: "queue.db", thread: 7, change: Change::Write(4096, b"abc") };
        assert_eq!(entries, [written, Entry { file: "queue.db-wal", thread: 7, change: Change::SyncBegins }]);
    }

    #[test]
    fn a_torn_log_is_refused() {
        let mut bytes = raw(b'W', 0, "queue.db", b"abc");
        bytes.pop();
        assert!(Log::of(bytes).unwrap_err().contains("torn at byte 0"));
    }
}
