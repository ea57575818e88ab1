//! Selects the jobs with limits for a claim: from the open chains of a group, in rotation.

use std::collections::{BTreeMap, VecDeque};

use rusqlite::{OptionalExtension, params, types::Value};

use super::{
    ledger::Ledger,
    limits::{self, Until},
    row::{CHAINED, READY},
};
use crate::{
    broker::TICKETS,
    sqlite::connection::{
        tx::{Failed, Queue, Tx},
        unsigned::Unsigned,
    },
};

/// The most chains that one claim shuts.
const SHUT: usize = 1000;

/// A share of a group: one start.
#[derive(Clone, Copy)]
pub(super) struct Share<'a> {
    pub(super) name: &'a [u8],
    pub(super) start: i64,
    pub(super) cost: i64,
}

impl Share<'_> {
    /// Whether jobs with limits come first in this share, among jobs of equal priority. They do in
    /// half of the starts of a group. Multiples of the golden ratio are spread evenly, even if only
    /// every second or third of them occurs: a group that pauses between its starts skips some of
    /// them.
    fn is_of_limited(&self) -> bool {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let share = (self.start / self.cost.max(1)).cast_unsigned();
        share.wrapping_mul(GOLDEN) < 1 << 63
    }
}

/// The open chains of a group that were read.
pub(super) struct Chains {
    asked: usize,
    known: VecDeque<Chain>,
    /// Priority and ticket of the last chain that was read; `None`: all were read.
    behind: Option<(i64, i64)>,
    /// The chains from which jobs were picked: the number of the last pick, and the number of
    /// picks.
    picked: BTreeMap<i64, (usize, usize)>,
    shut: usize,
}

pub(super) struct Chain {
    pub(super) chain: i64,
    pub(super) priority: i64,
    /// Whether it has waited for a key, and no job was picked from it since.
    pub(super) has_waited: bool,
    /// The place after which its next job is.
    behind: i64,
}

impl Chains {
    pub(super) fn new(asked: usize) -> Self {
        let behind = Some((i64::MIN, i64::MIN));
        Chains { asked, known: VecDeque::new(), behind, picked: BTreeMap::new(), shut: 0 }
    }

    /// The chains from which jobs were picked: the number of the last pick, the chain, and the
    /// number of picks.
    pub(super) fn touched(&self) -> impl Iterator<Item = (usize, i64, usize)> {
        self.picked.iter().map(|(chain, (pick, picks))| (*pick, *chain, *picks))
    }

    fn refill(&mut self, tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8]) -> Result<(), Failed> {
        const OPEN: &str = "SELECT chain, priority, ticket FROM queue_chains
            WHERE queue = ?1 AND name = ?2 AND shut IS NULL AND (priority, ticket) > (?3, ?4) ORDER BY priority, ticket LIMIT ?5";
        let Some((priority, ticket)) = self.behind.filter(|_| self.known.is_empty()) else { return Ok(()) };
        let limit = self.asked.clamp(1, 500);
        let mut open = tx.sql(OPEN)?;
        let mut rows = open.query(params![queue.key, name, priority, ticket, Unsigned(limit)])?;
        self.behind = None;
        while let Some(row) = rows.next()? {
            let (chain, priority, ticket): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            self.known.push_back(Chain { chain, priority, has_waited: ticket < TICKETS, behind: i64::MIN });
            self.behind = Some((priority, ticket)).filter(|_| self.known.len() == limit);
        }
        Ok(())
    }

    /// The next job of a group. If a job blocks the group line, only that job may be next. Chains
    /// that cannot start a job are shut. `free`: the priority of a ready job without limits in this
    /// group. If the priorities are equal, both kinds get their share.
    pub(super) fn next(
        &mut self,
        tx: &mut Tx<'_>,
        queue: &Queue<'_>,
        ledger: &mut Ledger,
        share: Share<'_>,
        holder: Option<&[u8]>,
        free: Option<i64>,
    ) -> Result<Option<Value>, Failed> {
        const NEXT: &str = "SELECT id, pos FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = ?3 AND pos > ?4 ORDER BY pos LIMIT 1";
        loop {
            self.refill(tx, queue, share.name)?;
            let Some(mut chain) = self.known.pop_front() else { return Ok(None) };
            let loses = free.is_some_and(|free| free < chain.priority || free == chain.priority && !share.is_of_limited());
            if loses || self.shut > SHUT {
                self.known.push_front(chain);
                return Ok(None);
            }
            let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Value>(0)?, row.get::<_, i64>(1)?));
            let next = tx.sql(NEXT)?.query_row(params![queue.key, CHAINED, chain.chain, chain.behind], read).optional()?;
            let Some((id, pos)) = next else { continue };
            if holder.is_some_and(|holder| id != Value::Blob(holder.to_vec())) {
                continue;
            }
            let Some(limited) = limits::of(tx, queue, &id)? else { continue };
            let blocker = match ledger.blocker(tx, queue, &limited)? {
                None => ledger.waits_behind(tx, queue, share.name, &chain, &limited, holder.is_some())?.map(|key| (key, Until::Others)),
                blocker => blocker,
            };
            if let Some((key, until)) = blocker {
                ledger.shut(tx, queue, chain.chain, (&key, until), share.start, chain.has_waited)?;
                self.picked.remove(&chain.chain);
                self.shut += 1;
                continue;
            }
            ledger.take(tx, queue, &limited, false)?;
            let picks = self.picked.get(&chain.chain).map_or(0, |(_, picks)| *picks);
            self.picked.insert(chain.chain, (ledger.next_pick(), picks + 1));
            (chain.behind, chain.has_waited) = (pos, false);
            // Behind the other chains of its priority.
            let place = self.known.iter().position(|other| other.priority > chain.priority).unwrap_or(self.known.len());
            self.known.insert(place, chain);
            return Ok(Some(id));
        }
    }
}

/// The numbers of ready plain jobs without limits, by priority.
pub(super) struct Lists([u64; 4]);

/// The next plain job.
pub(super) enum Plain {
    /// A job with limits.
    Limited(Value),
    /// The first job in the line.
    Free,
}

impl Lists {
    pub(super) fn of(tx: &Tx<'_>, queue: &Queue<'_>, needed: bool) -> Result<Self, Failed> {
        const COUNT: &str = "SELECT count(*) FROM (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = ?3 LIMIT 500)";
        let mut lists = [0; 4];
        for (priority, count) in lists.iter_mut().enumerate().filter(|_| needed) {
            *count = tx.sql(COUNT)?.query_row(params![queue.key, READY, Unsigned(priority)], |row| Unsigned::get(row, 0))?;
        }
        Ok(Lists(lists))
    }

    /// The next job: of a higher priority first. If the priorities are equal, both kinds get their
    /// share.
    pub(super) fn next(
        &mut self,
        tx: &mut Tx<'_>,
        queue: &Queue<'_>,
        chains: &mut Chains,
        ledger: &mut Ledger,
        share: Share<'_>,
    ) -> Result<Option<Plain>, Failed> {
        let first = self.0.iter().position(|count| *count > 0);
        let free = first.and_then(|first| i64::try_from(first).ok());
        if let Some(id) = chains.next(tx, queue, ledger, share, None, free)? {
            return Ok(Some(Plain::Limited(id)));
        }
        Ok(first.map(|first| {
            self.0[first] -= 1;
            Plain::Free
        }))
    }
}
