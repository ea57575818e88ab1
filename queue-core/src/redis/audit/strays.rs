//! Searches for jobs in `ready` in bounded steps while other programs push and pop. The length of
//! the lists does not matter.
//!
//! A lost job is pushed again. A job that was not lost would then run twice. So the search must
//! prove that an id is in no list. Ids leave a list at its head and enter at either end; nothing in
//! between moves. Counted from the tail, an id never comes nearer. A scan from the tail to the head
//! therefore meets every id that was in the list at its beginning, except for those that were
//! claimed before the scan reached them. Claimed ids may return. If `n` ids were pushed since some
//! moment, all of them are among the first `n` or the last `n` ids. So both ends are read again.
//! Each time this takes less time, because fewer ids were pushed. Finally the script can read the
//! rest itself, in the same transition as the repair.

use std::collections::HashSet;

use super::{Checkpoint, Pass};
use crate::{
    error::Result,
    redis::{
        keys::{Kind, READY},
        values::{array, bytes},
    },
};

/// Ids of one read.
const READ: usize = 2_000;

/// Jobs of one call of the script. The script looks for each of them in all other places, and
/// pushes it.
const LOST: usize = 100;

/// Reads in addition to those that the lists need if no id is pushed.
const SPARE_READS: usize = 200;

/// A search for jobs.
pub(in crate::redis) struct Search<'a> {
    pass: &'a Pass<'a>,
    /// The ids that were not seen yet.
    missed: HashSet<Vec<u8>>,
    /// How many reads are left. If other programs push faster than the search reads, the next audit
    /// examines the rest.
    reads: usize,
}

impl<'a> Search<'a> {
    /// The lost ids of these: jobs that are in no place. They are repaired if requested.
    pub(in crate::redis) async fn find_lost_jobs(pass: &'a Pass<'a>, ids: HashSet<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let mut checkpoint = pass.checkpoint().await?;
        let mut search = Search { pass, missed: ids, reads: SPARE_READS + 4 * checkpoint.lengths.iter().sum::<usize>() / READ };
        for (list, length) in READY.into_iter().zip(checkpoint.lengths) {
            if length > 0 {
                search.read(list, 0, usize::MAX).await?;
            }
        }
        let mut lost = Vec::new();
        while !search.missed.is_empty() && search.reads > 0 {
            let ids: Vec<Vec<u8>> = search.missed.iter().take(LOST).cloned().collect();
            match pass.find_lost(&checkpoint, &ids).await? {
                Some(found) => {
                    lost.extend(found);
                    for id in &ids {
                        search.missed.remove(id);
                    }
                    // The repaired ids were pushed, and have to be read again.
                    search.reads += SPARE_READS;
                }
                None => checkpoint = search.catch_up(&checkpoint).await?,
            }
        }
        Ok(lost)
    }

    /// Reads the ids that were pushed between a checkpoint and a new one.
    async fn catch_up(&mut self, last: &Checkpoint) -> Result<Checkpoint> {
        let checkpoint = self.pass.checkpoint().await?;
        if checkpoint.life != last.life || checkpoint.life.is_empty() || checkpoint.pushes < last.pushes {
            // The ids that were read belong to another copy of the queue.
            self.reads = 0;
        }
        let mut come = pushed_since(last, &checkpoint);
        for (list, length) in READY.into_iter().zip(checkpoint.lengths) {
            if length > 0 {
                self.read(list, length.saturating_sub(come), usize::MAX).await?;
            }
        }
        // Ids at the tail move away from it while more ids are pushed.
        let mut read = 0;
        while read < come && self.reads > 0 {
            for (list, length) in READY.into_iter().zip(checkpoint.lengths) {
                if length > 0 {
                    self.read(list, read, come).await?;
                }
            }
            read = come;
            come = pushed_since(last, &self.pass.checkpoint().await?);
        }
        Ok(checkpoint)
    }

    /// Reads a list towards its head, between two distances from its tail.
    async fn read(&mut self, list: Kind, from: usize, to: usize) -> Result<()> {
        let mut from = from;
        while from < to && self.reads > 0 && !self.missed.is_empty() {
            self.reads -= 1;
            let size = READ.min(to - from);
            let mut command = self.pass.broker.keys.on("LRANGE", self.pass.queue, list);
            command.arg(format!("-{}", from + size)).arg(format!("-{}", from + 1));
            let ids = array(self.pass.broker.read(self.pass.queue, &command).await?)?;
            from = if ids.len() < size { to } else { from + size };
            for id in ids {
                self.missed.remove(&bytes(id)?);
            }
        }
        Ok(())
    }
}

/// The most ids that were pushed between two checkpoints.
pub(in crate::redis) fn pushed_since(last: &Checkpoint, checkpoint: &Checkpoint) -> usize {
    usize::try_from(checkpoint.pushes - last.pushes).unwrap_or(0)
}
