//! The state of limit keys during one claim, and the starts that the claim has charged to them.

use std::collections::HashMap;

use rusqlite::{OptionalExtension, params};

use super::{
    chains::Chain,
    groups,
    limits::{Limited, NO_GROUP, Until, drop_empty, held, is_waited_for, of, reserved_until, rule, to_end, wake},
    row::CHAINED,
    rules,
    turns::{self, Opened, Turns},
};
use crate::{
    broker::{LIMIT_STEP, LONGEST_CLOSED, LimitKey, LimitRule, TICKETS, Used, gcra},
    sqlite::connection::{
        tx::{Queue, Tx},
        unsigned::Unsigned,
    },
};

/// The state of a limit key during a claim.
pub(super) struct State {
    pub(super) rule: LimitRule,
    pub(super) left: i64,
    pub(super) ahead: i64,
    pub(super) closed: i64,
    pub(super) dirty: bool,
}

/// The state of limit keys during one claim.
#[derive(Default)]
pub(crate) struct Ledger {
    keys: HashMap<LimitKey, State>,
    /// Whether a key that may have room was examined.
    are_roomy: bool,
    /// Keys that are reserved, each for the chain that was opened.
    reserved: HashMap<LimitKey, i64>,
    picks: usize,
}

impl Ledger {
    pub(super) fn state(&mut self, tx: &Tx<'_>, queue: &Queue<'_>, key: &LimitKey) -> rusqlite::Result<&mut State> {
        const RATE: &str = "SELECT tat, step, closed FROM queue_rates WHERE queue = ?1 AND key = ?2";
        if !self.keys.contains_key(key) {
            let rule = rule(tx, queue, key)?;
            let left = match rule.concurrency {
                Some(most) => i64::from(most) - held(tx, queue, key)?,
                None => i64::MAX / 2,
            };
            let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, f64>(1)?, row.get::<_, i64>(2)?));
            let stored = tx.sql(RATE)?.query_row(params![queue.key, key.as_bytes()], read).optional()?;
            let (ahead, closed) =
                stored.map_or((0, 0), |(tat, step, closed)| (gcra::rebased(&rule, (tat - tx.micros()).max(0), step), closed));
            let longest = i64::try_from(LONGEST_CLOSED.as_millis()).unwrap_or(i64::MAX);
            let latest = tx.now.saturating_add(longest);
            // From now on the new rate applies. A wrong clock has stored a time that is too far
            // ahead.
            let dirty = stored.is_some_and(|(tat, step, closed)| {
                let is_new = rule.rate.is_some_and(|rate| rate.step() != step);
                tat > tx.micros() && (is_new || tat - tx.micros() > gcra::most(&rule)) || closed > latest
            });
            self.keys.insert(*key, State { rule, left, ahead, closed: closed.min(latest), dirty });
        }
        Ok(self.keys.get_mut(key).expect("it was just put there"))
    }

    /// Whether none of the slots of a key is free.
    pub(crate) fn is_full(&mut self, tx: &Tx<'_>, queue: &Queue<'_>, key: &LimitKey) -> rusqlite::Result<bool> {
        Ok(self.state(tx, queue, key)?.left <= 0)
    }

    /// The time from which the rate of a key permits a job of this cost; `None`: now. Slots are not
    /// checked.
    pub(crate) fn opens_at(&mut self, tx: &Tx<'_>, queue: &Queue<'_>, key: &LimitKey, cost: u32) -> rusqlite::Result<Option<i64>> {
        let state = self.state(tx, queue, key)?;
        let closed = Some(state.closed).filter(|closed| *closed > tx.now);
        let wait = gcra::wait(&state.rule, state.ahead, cost);
        let rated = (wait > 0).then(|| tx.micros().saturating_add(wait).saturating_add(999) / 1000);
        Ok(closed.max(rated))
    }

    /// The same with its slots.
    pub(super) fn until(&mut self, tx: &Tx<'_>, queue: &Queue<'_>, key: &LimitKey, cost: u32) -> rusqlite::Result<Option<Until>> {
        if self.is_full(tx, queue, key)? {
            return Ok(Some(Until::Slot));
        }
        Ok(self.opens_at(tx, queue, key, cost)?.map(Until::At))
    }

    /// The key that blocks a job, and the time until which it does. A key with a rate may be
    /// reserved for a job with a higher cost.
    pub(crate) fn blocker(&mut self, tx: &Tx<'_>, queue: &Queue<'_>, limited: &Limited) -> rusqlite::Result<Option<(LimitKey, Until)>> {
        for key in &limited.keys {
            if self.is_full(tx, queue, key)? {
                return Ok(Some((*key, Until::Slot)));
            }
            let opens = self.opens_at(tx, queue, key, limited.cost)?;
            if let Some(at) = reserved_until(tx, queue, key, &self.state(tx, queue, key)?.rule, opens)? {
                return Ok(Some((*key, Until::At(at))));
            }
        }
        Ok(None)
    }

    /// Charges the slots and the starts of a job to its keys; `back`: refunds them.
    pub(crate) fn take(&mut self, tx: &Tx<'_>, queue: &Queue<'_>, limited: &Limited, back: bool) -> rusqlite::Result<()> {
        let sign = if back { -1 } else { 1 };
        for key in &limited.keys {
            let state = self.state(tx, queue, key)?;
            state.left -= sign;
            if state.rule.rate.is_some() {
                state.ahead = (state.ahead + sign * gcra::charge(&state.rule, limited.cost)).max(0);
                state.dirty = true;
            }
        }
        Ok(())
    }

    /// Corrects the charge of a job by the usage that it has reported.
    pub(crate) fn correct(&mut self, tx: &Tx<'_>, queue: &Queue<'_>, limited: &Limited, used: &Used) -> rusqlite::Result<()> {
        for key in &limited.keys {
            let Some(starts) = used.of(key) else { continue };
            let state = self.state(tx, queue, key)?;
            if state.rule.rate.is_some() {
                (state.ahead, state.dirty) = (gcra::corrected(&state.rule, state.ahead, limited.cost, starts), true);
            }
        }
        Ok(())
    }

    /// Stores the changed rates.
    pub(crate) fn write(&mut self, tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<()> {
        const WRITE: &str = "INSERT OR REPLACE INTO queue_rates (queue, key, tat, step, closed) VALUES (?1, ?2, ?3, ?4, ?5)";
        for (key, state) in self.keys.iter_mut().filter(|(_, state)| state.dirty) {
            state.dirty = false;
            let step = state.rule.rate.map_or(0.0, |rate| rate.step());
            tx.sql(WRITE)?.execute(params![queue.key, key.as_bytes(), tx.micros() + state.ahead, step, state.closed])?;
        }
        Ok(())
    }

    /// The number of the next pick.
    pub(super) fn next_pick(&mut self) -> usize {
        self.picks += 1;
        self.picks
    }

    /// The key for which an open chain still has to wait although the key has room. It waits if the
    /// key is reserved for another open chain, or if a chain of its group with a higher priority is
    /// shut under the key. A chain that has not waited also waits if the key is reserved for a shut
    /// chain, or if the next chain under the key has the same group and priority. In an ordered
    /// group only the first job may start, so priorities do not count.
    pub(super) fn waits_behind(
        &mut self,
        tx: &Tx<'_>,
        queue: &Queue<'_>,
        name: &[u8],
        chain: &Chain,
        limited: &Limited,
        is_ordered: bool,
    ) -> rusqlite::Result<Option<LimitKey>> {
        const BEST: &str = "SELECT min(priority) FROM queue_chains WHERE queue = ?1 AND shut = ?2 AND name = ?3";
        if !self.are_roomy {
            return Ok(None);
        }
        for key in &limited.keys {
            match self.reserved.get(key) {
                Some(reserved) if *reserved == chain.chain => continue,
                Some(_) => return Ok(Some(*key)),
                None => {}
            }
            let best: Option<i64> = match is_ordered {
                true => None,
                false => tx.sql(BEST)?.query_row(params![queue.key, key.as_bytes(), name], |row| row.get(0))?,
            };
            if best.is_some_and(|best| best < chain.priority) {
                return Ok(Some(*key));
            }
            if chain.has_waited {
                continue;
            }
            let Some((first, _, its_name)) = first_shut(tx, queue, key)? else { continue };
            if its_name == name && best == Some(chain.priority) || self.is_kept_for(tx, queue, key, first)? {
                return Ok(Some(*key));
            }
        }
        Ok(None)
    }

    /// Whether a key is reserved for the first job of a chain that is shut under it.
    pub(super) fn is_kept_for(&mut self, tx: &Tx<'_>, queue: &Queue<'_>, key: &LimitKey, chain: i64) -> rusqlite::Result<bool> {
        Ok(self.state(tx, queue, key)?.rule.rate.is_some() && head_of(tx, queue, chain)?.is_some_and(|head| head.cost > 1))
    }

    /// Moves a chain from which a job was picked to the end of its group and priority. A chain
    /// whose limits have no room is shut, and an empty one is removed. `start`: the new start of
    /// its group. `stays`: no job of the chain was taken, so it keeps its place.
    pub(super) fn settle(&mut self, tx: &mut Tx<'_>, queue: &Queue<'_>, chain: i64, start: i64, stays: bool) -> rusqlite::Result<()> {
        let Some(limited) = head_of(tx, queue, chain)? else { return drop_empty(tx, queue, chain).map(drop) };
        match self.blocker(tx, queue, &limited)? {
            Some((key, until)) => self.shut(tx, queue, chain, (&key, until), start, stays),
            None if stays => Ok(()),
            None => to_end(tx, chain),
        }
    }

    /// Shuts a chain under a key. Tickets grow over all priorities. If jobs cost more than the key
    /// permits, it is reserved for the job that a claim examined first. `stays`: a chain that has
    /// waited keeps its place.
    pub(super) fn shut(
        &mut self,
        tx: &mut Tx<'_>,
        queue: &Queue<'_>,
        chain: i64,
        (key, until): (&LimitKey, Until),
        start: i64,
        stays: bool,
    ) -> rusqlite::Result<()> {
        const ROOMY: &str = "INSERT OR IGNORE INTO queue_wakes (queue, key, at) VALUES (?1, ?2, 0)";
        turns::shut(tx, queue, self, (chain, key), (start, queue.next_tail(), if stays { TICKETS } else { i64::MIN }))?;
        match until {
            Until::At(at) => wake(tx, queue, key, at),
            Until::Slot => Ok(()),
            Until::Others => tx.sql(ROOMY)?.execute(params![queue.key, key.as_bytes()]).map(drop),
        }
    }

    /// The number of starts of cost 1 that a key permits now, or the time of the next one.
    fn room(&mut self, tx: &Tx<'_>, queue: &Queue<'_>, key: &LimitKey) -> rusqlite::Result<Result<i64, Until>> {
        if let Some(until) = self.until(tx, queue, key, 1)? {
            return Ok(Err(until));
        }
        let state = self.state(tx, queue, key)?;
        Ok(Ok(if state.rule.rate.is_some() {
            let (mut starts, charge) = (1, gcra::charge(&state.rule, 1).max(1));
            while starts < 500 && gcra::wait(&state.rule, state.ahead + starts * charge, 1) == 0 {
                starts += 1;
            }
            state.left.min(starts)
        } else {
            state.left
        }))
    }

    /// Opens chains that are shut under keys with room: per key, at most this number of chains
    /// whose groups may be served. Chains of other groups are opened on the way, and no claim
    /// examines them again. `passed`: the number of such chains in this claim. Returns the groups
    /// of all opened chains.
    pub(super) fn open_some(
        &mut self,
        tx: &mut Tx<'_>,
        queue: &Queue<'_>,
        most: usize,
        passed: &mut usize,
    ) -> rusqlite::Result<Vec<Vec<u8>>> {
        const BEHIND: &str = "UPDATE queue_wakes SET at = ?3 WHERE queue = ?1 AND key = ?2";
        let (mut names, mut left, keys) = (Vec::new(), most + LIMIT_STEP, due(tx, queue)?);
        self.are_roomy = !keys.is_empty();
        if keys.len() == LIMIT_STEP {
            // The next claim examines the keys after these.
            keys.iter().try_for_each(|key| tx.sql(BEHIND)?.execute(params![queue.key, key.as_bytes(), tx.now]).map(drop))?;
        }
        let (mut opened, mut opens) = (Opened::default(), Vec::new());
        for key in keys {
            let Ok(room) = self.room(tx, queue, &key)? else { continue };
            let mut asked = usize::try_from(room).unwrap_or(0).min(most).min(left);
            let (mut turns, mut is_first) = (Turns::new(&key, asked), true);
            while asked > 0 && *passed < LIMIT_STEP {
                let Some(turn) = turns.next(tx, queue, self, &opened)? else { break };
                // A key that is reserved for a job permits only that job.
                let is_kept = self.is_kept_for(tx, queue, &key, turn.chain)?;
                if is_kept && !is_first {
                    break;
                }
                opened.has(turn.chain);
                opens.push((turn.chain, turn.stored));
                left -= 1;
                if turn.name == NO_GROUP || groups::room(tx, queue, &turn.name, rules::rule(tx, queue, &turn.name)?)? > 0 {
                    opened.serves(tx, queue, &turn.name)?;
                    asked = if is_kept { 0 } else { asked - 1 };
                    is_first = false;
                    if is_kept {
                        self.reserved.insert(key, turn.chain);
                    }
                } else {
                    *passed += 1;
                }
                asked = asked.min(left);
                names.push(turn.name.clone());
                turns.again(tx, queue, turn, &opened)?;
            }
        }
        for (chain, start) in opens {
            turns::open(tx, queue, chain, start)?;
        }
        self.tidy(tx, queue)?;
        Ok(names)
    }

    /// A key stays among those that may have room while it has room and chains are shut under it.
    pub(super) fn tidy(&mut self, tx: &mut Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<()> {
        const REST: &str = "DELETE FROM queue_wakes WHERE queue = ?1 AND key = ?2";
        for key in due(tx, queue)? {
            let room = self.room(tx, queue, &key)?;
            match room {
                Err(Until::At(at)) if is_waited_for(tx, queue, &key)? => wake(tx, queue, &key, at)?,
                Ok(_) if is_waited_for(tx, queue, &key)? => {}
                _ => drop(tx.sql(REST)?.execute(params![queue.key, key.as_bytes()])?),
            }
        }
        Ok(())
    }
}

/// The next chain that is shut under a key, its start and its group.
fn first_shut(tx: &Tx<'_>, queue: &Queue<'_>, key: &LimitKey) -> rusqlite::Result<Option<(i64, i64, Vec<u8>)>> {
    const FIRST: &str = "SELECT chain, start, name FROM queue_chains WHERE queue = ?1 AND shut = ?2 ORDER BY start, ticket, chain LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?));
    tx.sql(FIRST)?.query_row(params![queue.key, key.as_bytes()], read).optional()
}

/// The limits of the first job of a chain.
fn head_of(tx: &Tx<'_>, queue: &Queue<'_>, chain: i64) -> rusqlite::Result<Option<Limited>> {
    const HEAD: &str = "SELECT id FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND rank = ?3 ORDER BY pos LIMIT 1";
    let head: Option<Vec<u8>> = tx.sql(HEAD)?.query_row(params![queue.key, CHAINED, chain], |row| row.get(0)).optional()?;
    head.map_or(Ok(None), |head| of(tx, queue, &head))
}

/// Keys that may have room now.
fn due(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Vec<LimitKey>> {
    const DUE: &str = "SELECT key FROM queue_wakes WHERE queue = ?1 AND at <= ?2 ORDER BY at LIMIT ?3";
    let keys: Vec<Vec<u8>> = tx
        .sql(DUE)?
        .query_map(params![queue.key, tx.now, Unsigned(LIMIT_STEP)], |row| row.get::<_, Vec<u8>>(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(keys.iter().filter_map(|key| LimitKey::from_bytes(key)).collect())
}
