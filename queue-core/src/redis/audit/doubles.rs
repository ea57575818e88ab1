//! Searches for ids that are in `ready` twice, or in `ready` and in another place: such a job would
//! run twice. The search runs in bounded steps while other programs push and pop.
//!
//! The lists are read from the tail to the head (see `strays`). A place is known by its distance
//! from the tail at the beginning. Ids that are pushed later move all places of a list by the same
//! distance. This distance is known as soon as the former last ids, the *anchor*, are found again.
//! For this reason a script can find all places of suspicious ids at the moment of the repair. If
//! too many ids were pushed to find the anchor in one call, the search sets a new anchor.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
};

use redis::Value;

use super::{
    strays::pushed_since,
    {Checkpoint, Pass},
};
use crate::{
    error::Result,
    redis::{
        keys::{Kind, READY},
        values::{array, bytes},
    },
};

/// The most and the fewest ids of one read. The size varies, so that the borders between reads
/// differ from audit to audit.
const READ: usize = 2_000;
const SHORT_READ: usize = 1_000;

/// Ids of one call that checks whether they are elsewhere too.
const STEP: usize = 500;

/// Ids that are remembered at a time. Longer lists are read several times, each time for a part of
/// the ids.
const PART: usize = 1_000_000;

/// Suspicious ids of one call.
const TOGETHER: usize = 50;

/// Suspicious ids of one audit. The next audit examines the others.
const MOST: usize = 10_000;

/// Ids of an anchor.
const ANCHOR: usize = 8;

/// How many anchors are set for the same suspicious ids.
const TRIES: usize = 10;

/// Where an id was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::redis) struct Place {
    /// Its position in `READY`.
    list: u8,
    /// The number of ids between it and the end of the anchor.
    distance: u32,
}

impl Place {
    /// The digit of the list, and the distance.
    pub(in crate::redis) fn arguments(self) -> (&'static str, u32) {
        (READY[usize::from(self.list)].digit(), self.distance)
    }
}

/// The last ids of each list at some moment.
pub(in crate::redis) struct Anchor {
    /// Taken before that moment.
    pub(in crate::redis) checkpoint: Checkpoint,
    tails: [Vec<Vec<u8>>; READY.len()],
}

impl Anchor {
    /// The lists that are not empty: their digits and last ids.
    pub(in crate::redis) fn arguments(&self) -> impl Iterator<Item = (&'static str, &[Vec<u8>])> {
        READY.iter().zip(&self.tails).filter(|(_, tail)| !tail.is_empty()).map(|(list, tail)| (list.digit(), tail.as_slice()))
    }
}

/// An id that may be in several places.
pub(in crate::redis) type Suspicious = (Vec<u8>, Vec<Place>);

/// The ids that are in several places. They are repaired if requested.
pub(in crate::redis) async fn find(pass: &Pass<'_>) -> Result<Vec<Vec<u8>>> {
    let mut doubled = Vec::new();
    let ids: usize = pass.checkpoint().await?.lengths.iter().sum();
    let parts = ids / PART + 1;
    for part in 0..parts {
        let checkpoint = pass.checkpoint().await?;
        let lengths = checkpoint.lengths;
        let anchor = Anchor { checkpoint, tails: Default::default() };
        let mut search = Search { pass, part, parts, hasher: RandomState::new(), anchor, seen: HashMap::new(), suspicious: HashMap::new() };
        for (list, length) in (0..).zip(lengths) {
            if length > 0 {
                search.read(list).await?;
            }
        }
        let suspicious = search.suspicious.into_iter().collect();
        doubled.extend(verify_suspicious(pass, search.anchor, suspicious).await?);
    }
    Ok(doubled)
}

/// One pass through all lists.
struct Search<'a> {
    pass: &'a Pass<'a>,
    part: usize,
    parts: usize,
    hasher: RandomState,
    anchor: Anchor,
    /// Digests of the ids of this part. Two ids with the same digest are only suspicious.
    seen: HashMap<u64, Place>,
    suspicious: HashMap<Vec<u8>, Vec<Place>>,
}

impl Search<'_> {
    /// Reads a list towards its head.
    async fn read(&mut self, list: u8) -> Result<()> {
        let (mut from, mut counted, mut last) = (0, 0, Vec::new());
        loop {
            let size = fastrand::usize(SHORT_READ..=READ);
            let ids = read_range(self.pass, list, from, size).await?;
            if from == 0 {
                self.anchor.tails[usize::from(list)] = last_ids(&ids);
            }
            // Ids that were pushed meanwhile have moved ids of the last read into this read.
            let new: Vec<&Vec<u8>> = ids.iter().rev().skip(overlap(&ids, &last)).collect();
            let place = |at: usize| Place { list, distance: u32::try_from(counted + at).unwrap_or(u32::MAX) };
            let places: Vec<(&Vec<u8>, Place)> = new.into_iter().enumerate().map(|(at, id)| (id, place(at))).collect();
            counted += places.len();
            if self.part == 0 {
                self.record_elsewhere(&places).await?;
            }
            places.iter().for_each(|(id, place)| self.record_place(id, *place));
            if ids.len() < size {
                return Ok(());
            }
            (from, last) = (from + size, ids);
        }
    }

    fn record_place(&mut self, id: &[u8], place: Place) {
        let digest = self.hasher.hash_one(id);
        if digest % self.parts as u64 != self.part as u64 {
            return;
        }
        if let Some(first) = self.seen.get(&digest) {
            add_suspicious(&mut self.suspicious, id, [*first, place]);
        } else {
            self.seen.insert(digest, place);
        }
    }

    async fn record_elsewhere(&mut self, places: &[(&Vec<u8>, Place)]) -> Result<()> {
        for some in places.chunks(STEP) {
            let ids: Vec<Vec<u8>> = some.iter().map(|(id, _)| (*id).clone()).collect();
            let elsewhere = array(self.pass.check("elsewhere", &ids).await?)?;
            let elsewhere: HashSet<Vec<u8>> = elsewhere.into_iter().map(bytes).collect::<Result<_>>()?;
            for (id, place) in some.iter().filter(|(id, _)| elsewhere.contains(*id)) {
                add_suspicious(&mut self.suspicious, id, [*place]);
            }
        }
        Ok(())
    }
}

fn add_suspicious<const N: usize>(suspicious: &mut HashMap<Vec<u8>, Vec<Place>>, id: &[u8], places: [Place; N]) {
    if suspicious.len() >= MOST && !suspicious.contains_key(id) {
        return;
    }
    let known = suspicious.entry(id.to_owned()).or_default();
    for place in places {
        if !known.contains(&place) {
            known.push(place);
        }
    }
}

/// How many ids at the end of a read are also at the beginning of the previous one.
fn overlap(ids: &[Vec<u8>], last: &[Vec<u8>]) -> usize {
    let Some(border) = last.first() else {
        return 0;
    };
    let starts = ids.iter().enumerate().rev().filter(|(_, id)| *id == border).map(|(at, _)| at);
    starts.map(|at| ids.len() - at).find(|again| *again <= last.len() && ids[ids.len() - again..] == last[..*again]).unwrap_or(0)
}

/// The last few ids of a read at the tail of a list.
fn last_ids(ids: &[Vec<u8>]) -> Vec<Vec<u8>> {
    ids[ids.len().saturating_sub(ANCHOR)..].to_vec()
}

/// The ids that the script finds in several places.
async fn verify_suspicious(pass: &Pass<'_>, mut anchor: Anchor, mut suspicious: Vec<Suspicious>) -> Result<Vec<Vec<u8>>> {
    let (mut doubled, mut tries) = (Vec::new(), TRIES);
    while !suspicious.is_empty() {
        let some = &suspicious[suspicious.len().saturating_sub(TOGETHER)..];
        if let Some(found) = pass.find_doubled(&anchor, some).await? {
            doubled.extend(found);
            suspicious.truncate(suspicious.len().saturating_sub(TOGETHER));
            tries = TRIES;
        } else if tries > 0 {
            tries -= 1;
            let Some(cast) = new_anchor(pass, &anchor, &mut suspicious).await? else {
                break;
            };
            anchor = cast;
        } else {
            break;
        }
    }
    // The next audit examines the remaining ids.
    Ok(doubled)
}

/// Sets a new anchor, and converts the distances to it. `None`: the server has another copy of the
/// queue than before.
async fn new_anchor(pass: &Pass<'_>, last: &Anchor, suspicious: &mut [Suspicious]) -> Result<Option<Anchor>> {
    let checkpoint = pass.checkpoint().await?;
    if checkpoint.life != last.checkpoint.life || checkpoint.life.is_empty() || checkpoint.pushes < last.checkpoint.pushes {
        return Ok(None);
    }
    let come = pushed_since(&last.checkpoint, &checkpoint);
    let mut anchor = Anchor { checkpoint, tails: Default::default() };
    let mut moved = [None; READY.len()];
    for (number, tail_then) in (0..).zip(&last.tails) {
        let list = usize::from(number);
        let mut ids: Vec<Vec<u8>> = Vec::new();
        // The anchor may cross the border between two reads, and ids may be pushed between them.
        while !tail_then.is_empty() && moved[list].is_none() && ids.len() <= come + ANCHOR {
            let read = read_range(pass, number, ids.len(), READ).await?;
            let is_last = read.len() < READ;
            ids.splice(0..0, read);
            if anchor.tails[list].is_empty() {
                anchor.tails[list] = last_ids(&ids);
            }
            let found = ids.windows(tail_then.len()).rposition(|window| window == tail_then);
            moved[list] = found.map(|at| ids.len() - at - tail_then.len());
            if is_last {
                break;
            }
        }
    }
    for (_, places) in suspicious {
        places.retain_mut(|place| {
            let by = moved[usize::from(place.list)].and_then(|by| u32::try_from(by).ok());
            place.distance = place.distance.saturating_add(by.unwrap_or(0));
            by.is_some()
        });
    }
    Ok(Some(anchor))
}

/// `size` ids of a list from a distance from the tail on, the nearest to the head first.
async fn read_range(pass: &Pass<'_>, list: u8, from: usize, size: usize) -> Result<Vec<Vec<u8>>> {
    let kind: Kind = READY[usize::from(list)];
    let mut command = pass.broker.keys.on("LRANGE", pass.queue, kind);
    command.arg(format!("-{}", from + size)).arg(format!("-{}", from + 1));
    let ids: Value = pass.broker.read(pass.queue, &command).await?;
    array(ids)?.into_iter().map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_again_is_known_by_what_was_read_last() {
        let ids = |text: &str| text.bytes().map(|byte| vec![byte]).collect::<Vec<_>>();
        assert_eq!(overlap(&ids("abcdef"), &[]), 0);
        assert_eq!(overlap(&ids("abcdef"), &ids("ghi")), 0);
        assert_eq!(overlap(&ids("abcgh"), &ids("ghi")), 2, "two were pushed meanwhile");
        assert_eq!(overlap(&ids("abcghi"), &ids("ghi")), 3);
        assert_eq!(overlap(&ids("agcdef"), &ids("ghi")), 0, "an id that is there twice is not passed over");
    }
}
