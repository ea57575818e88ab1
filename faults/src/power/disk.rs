//! Files as a disk sees them.

use std::collections::{BTreeMap, HashMap};

use fastrand::Rng;

use super::{Change, Entry};

/// A write of this many bytes is not torn by a disk.
const SECTOR: usize = 512;

/// What becomes of that which nobody has waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of it is lost.
    Everything,
    /// Nothing is.
    Nothing,
    /// The latest of it.
    Latest,
    /// Any of the writes.
    Writes,
    /// Any sector of any of them.
    Sectors,
}

impl Loss {
    /// All.
    pub const ALL: [Loss; 5] = [Loss::Everything, Loss::Nothing, Loss::Latest, Loss::Writes, Loss::Sectors];
}

/// Some files, up to some moment.
#[derive(Clone, Debug, Default)]
pub struct Disk<'a> {
    files: BTreeMap<String, File<'a>>,
    forgetful: bool,
}

#[derive(Clone, Debug, Default)]
struct File<'a> {
    /// Surely there.
    kept: Vec<u8>,
    /// Not yet waited for.
    pending: Vec<Change<'a>>,
    /// How many changes went before the pending ones.
    before: usize,
    /// How many changes there were when each thread began to wait.
    waiting: HashMap<u32, usize>,
}

impl<'a> Disk<'a> {
    /// A disk with these files.
    pub fn with(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Disk<'a> {
        let file = |(name, kept)| (name, File { kept, ..File::default() });
        Disk { files: files.into_iter().map(file).collect(), forgetful: false }
    }

    /// The same, but it lies: whoever waits for it waits for nothing. For showing that this is
    /// noticed.
    #[must_use]
    pub fn forgetful(self) -> Disk<'a> {
        Disk { forgetful: true, ..self }
    }

    /// Lets something happen to one of the files. What is done to others is ignored.
    pub fn play(&mut self, entry: Entry<'a>) {
        let Some(file) = self.files.get_mut(entry.file) else { return };
        match entry.change {
            Change::Write(..) | Change::Resize(_) => file.pending.push(entry.change),
            Change::SyncBegins => drop(file.waiting.insert(entry.thread, file.before + file.pending.len())),
            Change::SyncEnds if self.forgetful => {}
            Change::SyncEnds => {
                let all = file.waiting.remove(&entry.thread).unwrap_or(0);
                let surely: Vec<_> = file.pending.drain(..all.saturating_sub(file.before)).collect();
                file.before += surely.len();
                surely.into_iter().for_each(|change| apply(&mut file.kept, change));
            }
        }
    }

    /// The files as they could be after a power cut at this moment.
    pub fn after_a_cut(&self, loss: Loss, rng: &mut Rng) -> BTreeMap<&str, Vec<u8>> {
        self.files.iter().map(|(name, file)| (name.as_str(), file.after_a_cut(loss, rng))).collect()
    }
}

impl File<'_> {
    fn after_a_cut(&self, loss: Loss, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = self.kept.clone();
        let last = if loss == Loss::Latest { rng.usize(..=self.pending.len()) } else { self.pending.len() };
        for change in &self.pending[..last] {
            match (loss, *change) {
                (Loss::Everything, _) => {}
                (Loss::Nothing | Loss::Latest, change) => apply(&mut bytes, change),
                (Loss::Sectors, Change::Write(at, data)) => {
                    for (at, sector) in sectors(at, data).filter(|_| rng.bool()) {
                        apply(&mut bytes, Change::Write(at, sector));
                    }
                }
                (Loss::Writes | Loss::Sectors, change) => {
                    if rng.bool() {
                        apply(&mut bytes, change);
                    }
                }
            }
        }
        bytes
    }
}

/// A write in pieces that each lie in one sector.
fn sectors(at: usize, data: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let first = (SECTOR - at % SECTOR).min(data.len());
    let (head, rest) = data.split_at(first);
    let rest = rest.chunks(SECTOR).enumerate().map(move |(number, piece)| (at + first + number * SECTOR, piece));
    std::iter::once((at, head)).chain(rest)
}

fn apply(bytes: &mut Vec<u8>, change: Change<'_>) {
    match change {
        Change::Resize(length) => bytes.resize(length, 0),
        Change::Write(at, data) => {
            bytes.resize(bytes.len().max(at + data.len()), 0);
            bytes[at..at + data.len()].copy_from_slice(data);
        }
        Change::SyncBegins | Change::SyncEnds => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(changes: &[(u32, Change<'static>)]) -> Disk<'static> {
        let mut disk = Disk::with([("a".to_owned(), b"....".to_vec())]);
        changes.iter().for_each(|(thread, change)| disk.play(Entry { file: "a", thread: *thread, change: *change }));
        disk
    }

    fn left(disk: &Disk<'_>, loss: Loss) -> Vec<u8> {
        disk.after_a_cut(loss, &mut Rng::with_seed(1)).remove("a").unwrap()
    }

    #[test]
    fn what_was_waited_for_is_kept() {
        let disk = played(&[(1, Change::Write(1, b"xy")), (1, Change::SyncBegins), (1, Change::SyncEnds), (1, Change::Write(3, b"z"))]);
        assert_eq!(left(&disk, Loss::Everything), b".xy.");
        assert_eq!(left(&disk, Loss::Nothing), b".xyz");
    }

    #[test]
    fn what_is_written_while_another_waits_is_not_waited_for() {
        let disk = played(&[(1, Change::SyncBegins), (2, Change::Write(0, b"x")), (1, Change::SyncEnds)]);
        assert_eq!(left(&disk, Loss::Everything), b"....");
    }

    #[test]
    fn a_wait_that_has_not_ended_keeps_nothing() {
        let disk = played(&[(1, Change::Resize(2)), (1, Change::SyncBegins), (2, Change::SyncEnds)]);
        assert_eq!(left(&disk, Loss::Everything), b"....");
    }

    #[test]
    fn a_write_is_torn_between_sectors_alone() {
        let data = [7; 1_300];
        let pieces: Vec<_> = sectors(500, &data).map(|(at, piece)| (at, piece.len())).collect();
        assert_eq!(pieces, [(500, 12), (512, 512), (1_024, 512), (1_536, 264)]);
    }
}
