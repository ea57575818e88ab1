//! Turns of groups under a key of a limit. Of the chains of a group that are shut under a key, the
//! first by priority and ticket has the start of the group, and the others none: [`NO_TURN`]. So a
//! group has one turn under a key, however many chains wait there. A chain for which the key is
//! reserved has a turn of its own.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap, VecDeque},
};

use rusqlite::{OptionalExtension, params};

use super::{groups, ledger::Ledger, limits::NO_GROUP, rules, virtual_time};
use crate::{
    broker::{JobLimits, LIMIT_STEP, LimitKey},
    sqlite::connection::{
        tx::{Queue, Tx},
        unsigned::Unsigned,
    },
};

/// The start of a chain that waits behind another one of its group: behind all turns.
const NO_TURN: i64 = i64::MAX;

/// The first chain of a group that is shut under a key, and its start.
fn first_of(tx: &Tx<'_>, queue: &Queue<'_>, key: &LimitKey, name: &[u8]) -> rusqlite::Result<Option<(i64, i64)>> {
    const FIRST: &str =
        "SELECT chain, start FROM queue_chains WHERE queue = ?1 AND shut = ?2 AND name = ?3 ORDER BY priority, ticket, chain LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    tx.sql(FIRST)?.query_row(params![queue.key, key.as_bytes(), name], read).optional()
}

fn set_start(tx: &Tx<'_>, chain: i64, start: i64) -> rusqlite::Result<()> {
    const START: &str = "UPDATE queue_chains SET start = ?2 WHERE chain = ?1 AND start <> ?2";
    tx.sql(START)?.execute([chain, start]).map(drop)
}

/// Shuts a chain, which has a start of its own so far. The first chain of its group has the turn,
/// with the earlier start.
pub(super) fn shut(
    tx: &Tx<'_>,
    queue: &Queue<'_>,
    ledger: &mut Ledger,
    (chain, key): (i64, &LimitKey),
    (start, ticket, waited): (i64, i64, i64),
) -> rusqlite::Result<()> {
    const SHUT: &str = "UPDATE queue_chains SET shut = ?2, start = iif(ticket < ?5, start, ?3), ticket = iif(ticket < ?5, ticket, ?4) \
        WHERE chain = ?1 RETURNING name, start";
    const NAME: &str = "SELECT name FROM queue_chains WHERE chain = ?1";
    let Some(name) = tx.sql(NAME)?.query_row([chain], |row| row.get::<_, Vec<u8>>(0)).optional()? else { return Ok(()) };
    let before = first_of(tx, queue, key, &name)?;
    let own = tx.sql(SHUT)?.query_row(params![chain, key.as_bytes(), start, ticket, waited], |row| row.get::<_, i64>(1))?;
    if let Some((other, its_start)) = before {
        let (first, behind) = match first_of(tx, queue, key, &name)? {
            Some((first, _)) if first == chain => (chain, other),
            _ => (other, chain),
        };
        set_start(tx, first, own.min(its_start))?;
        if !ledger.is_kept_for(tx, queue, key, behind)? {
            set_start(tx, behind, NO_TURN)?;
        }
    }
    Ok(())
}

/// A chain that may be shut leaves its place by a change: the next one of its group has its turn.
fn leave(tx: &Tx<'_>, queue: &Queue<'_>, chain: i64, change: impl FnOnce() -> rusqlite::Result<()>) -> rusqlite::Result<()> {
    const PLACE: &str = "SELECT name, shut, start FROM queue_chains WHERE chain = ?1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Option<Vec<u8>>>(1)?, row.get::<_, i64>(2)?));
    let place = tx.sql(PLACE)?.query_row([chain], read).optional()?;
    let place = place.and_then(|(name, shut, start)| Some((name, LimitKey::from_bytes(&shut?)?, start)));
    let Some((name, key, start)) = place else { return change() };
    let was_first = first_of(tx, queue, &key, &name)?.is_some_and(|(first, _)| first == chain);
    change()?;
    match first_of(tx, queue, &key, &name)?.filter(|_| was_first) {
        Some((first, its_start)) => set_start(tx, first, start.min(its_start)),
        None => Ok(()),
    }
}

/// Removes a chain.
pub(crate) fn remove(tx: &Tx<'_>, queue: &Queue<'_>, chain: i64) -> rusqlite::Result<()> {
    const DROP: &str = "DELETE FROM queue_chains WHERE chain = ?1";
    leave(tx, queue, chain, || tx.sql(DROP)?.execute([chain]).map(drop))
}

/// Opens a chain that was shut. It keeps its ticket: it is next. `start`: that of its turn.
pub(super) fn open(tx: &Tx<'_>, queue: &Queue<'_>, chain: i64, start: i64) -> rusqlite::Result<()> {
    const OPEN: &str = "UPDATE queue_chains SET shut = NULL, start = ?2 WHERE chain = ?1";
    leave(tx, queue, chain, || tx.sql(OPEN)?.execute([chain, start]).map(drop))
}

/// The group and the keys of a chain that has waited; nothing of another one.
pub(super) fn waited(tx: &Tx<'_>, chain: i64, waited: i64) -> rusqlite::Result<Option<(Vec<u8>, Vec<LimitKey>)>> {
    const WAITED: &str = "SELECT name, keys FROM queue_chains WHERE chain = ?1 AND ticket < ?2";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, JobLimits::keys_of(&row.get::<_, Vec<u8>>(1)?)));
    tx.sql(WAITED)?.query_row([chain, waited], read).optional()
}

/// A group that has waited for a key was served: its turn is no earlier than its start.
pub(super) fn served(tx: &Tx<'_>, queue: &Queue<'_>, key: &LimitKey, name: &[u8], start: i64) -> rusqlite::Result<()> {
    match first_of(tx, queue, key, name)? {
        Some((first, its_start)) if its_start < start => set_start(tx, first, start),
        _ => Ok(()),
    }
}

/// A chain whose turn comes, in the order of turns.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    start: i64,
    ticket: i64,
    pub(super) chain: i64,
    /// The start that is stored.
    pub(super) stored: i64,
    pub(super) name: Vec<u8>,
    /// Priority, ticket and chain behind which the next one of its group waits.
    behind: (i64, i64, i64),
}

/// What a claim opens.
#[derive(Default)]
pub(super) struct Opened {
    /// The starts of the groups of which it has opened chains.
    starts: HashMap<Vec<u8>, i64>,
    chains: BTreeSet<i64>,
}

impl Opened {
    pub(super) fn has(&mut self, chain: i64) {
        self.chains.insert(chain);
    }

    /// A chain of a group was opened, which may be served.
    pub(super) fn serves(&mut self, tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8]) -> rusqlite::Result<()> {
        let cost = virtual_time::cost(rules::rule(tx, queue, name)?.weight.map_or(1, u64::from));
        let start = match self.starts.get(name) {
            Some(start) => *start,
            None => served_until(tx, queue, name)?.max(virtual_time::read(tx, queue)?.0),
        };
        self.starts.insert(name.to_vec(), start.saturating_add(cost));
        Ok(())
    }
}

/// The start of a group, if it is later than that of a group that comes now: it was served.
fn served_until(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8]) -> rusqlite::Result<i64> {
    let start = match name {
        NO_GROUP => virtual_time::read(tx, queue)?.1,
        name => groups::start_of(tx, queue, name)?,
    };
    let weight = if name == NO_GROUP { 1 } else { rules::rule(tx, queue, name)?.weight.map_or(1, u64::from) };
    Ok(if start > virtual_time::next(tx, queue, weight)? { start } else { 0 })
}

/// The turns under a key, the earliest first. A group that was served meanwhile has the turn of its
/// start, unless it has waited for long.
pub(super) struct Turns<'a> {
    key: &'a LimitKey,
    asked: usize,
    read: VecDeque<Turn>,
    /// Start and ticket of the last that was read; nothing: they are all known.
    behind: Option<(i64, i64)>,
    passed: usize,
    waiting: BinaryHeap<Reverse<Turn>>,
}

impl<'a> Turns<'a> {
    pub(super) fn new(key: &'a LimitKey, asked: usize) -> Self {
        Turns { key, asked, read: VecDeque::new(), behind: Some((i64::MIN, i64::MIN)), passed: 0, waiting: BinaryHeap::new() }
    }

    fn refill(&mut self, tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<()> {
        const TURNS: &str = "SELECT start, ticket, chain, name FROM queue_chains
            WHERE queue = ?1 AND shut = ?2 AND start < ?6 AND (start, ticket) > (?3, ?4) ORDER BY start, ticket LIMIT ?5";
        let Some((start, ticket)) = self.behind.filter(|_| self.read.is_empty()) else { return Ok(()) };
        let limit = self.asked + 1;
        let mut turns = tx.sql(TURNS)?;
        let mut rows = turns.query(params![queue.key, self.key.as_bytes(), start, ticket, Unsigned(limit), NO_TURN])?;
        self.behind = None;
        while let Some(row) = rows.next()? {
            let (start, ticket, chain, name): (i64, i64, i64, _) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            self.read.push_back(Turn { start, ticket, chain, stored: start, name, behind: (i64::MIN, i64::MIN, i64::MIN) });
            self.behind = Some((start, ticket)).filter(|_| self.read.len() == limit);
        }
        Ok(())
    }

    pub(super) fn next(&mut self, tx: &Tx<'_>, queue: &Queue<'_>, ledger: &mut Ledger, opened: &Opened) -> rusqlite::Result<Option<Turn>> {
        let long_ago = virtual_time::read(tx, queue)?.0 - virtual_time::cost(1) * i64::try_from(LIMIT_STEP).unwrap_or(i64::MAX);
        while self.passed < self.asked + LIMIT_STEP {
            self.refill(tx, queue)?;
            let Some(mut turn) = self.read.pop_front() else { break };
            if self.waiting.peek().is_some_and(|Reverse(first)| (first.start, first.ticket) < (turn.start, turn.ticket)) {
                self.read.push_front(turn);
                break;
            }
            self.passed += 1;
            if ledger.is_kept_for(tx, queue, self.key, turn.chain)? {
                self.waiting.push(Reverse(turn));
            } else if !opened.chains.contains(&turn.chain) {
                if turn.start >= long_ago {
                    turn.start = turn.start.max(served_until(tx, queue, &turn.name)?);
                }
                self.hold(turn, opened);
            }
        }
        Ok(self.waiting.pop().map(|Reverse(turn)| turn))
    }

    fn hold(&mut self, mut turn: Turn, opened: &Opened) {
        turn.start = turn.start.max(opened.starts.get(&turn.name).copied().unwrap_or(i64::MIN));
        self.waiting.push(Reverse(turn));
    }

    /// The group of a turn waits for its next one.
    pub(super) fn again(&mut self, tx: &Tx<'_>, queue: &Queue<'_>, mut turn: Turn, opened: &Opened) -> rusqlite::Result<()> {
        const NEXT: &str = "SELECT priority, ticket, chain FROM queue_chains
            WHERE queue = ?1 AND shut = ?2 AND name = ?3 AND (priority, ticket, chain) > (?4, ?5, ?6) ORDER BY priority, ticket, chain LIMIT 1";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        loop {
            let (priority, ticket, chain) = turn.behind;
            let inputs = params![queue.key, self.key.as_bytes(), turn.name, priority, ticket, chain];
            let Some(next) = tx.sql(NEXT)?.query_row(inputs, read).optional()? else { return Ok(()) };
            turn.behind = next;
            if !opened.chains.contains(&next.2) {
                (turn.ticket, turn.chain) = (next.1, next.2);
                self.hold(turn, opened);
                return Ok(());
            }
        }
    }
}
