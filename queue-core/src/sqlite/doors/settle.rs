//! The door `settle`: a job leaves `active`, for any reason. It releases what the job holds while
//! it is active.
//!
//! Only the receipt decides: a holder passes with a valid receipt, and is otherwise stale and
//! changes nothing. Other callers pass without one, and state their reason: reclaim (the lane was
//! fenced), an operator's cancel, repair.
//!
//! | function | leaving jobs | changes |
//! |---|---|---|
//! | [`settle_by_holder`] | a job that its holder ends | crashes, first crash and note, if the process survived the run |
//! | [`record_failure`] | the same, after a run that failed | attempts, failures; `failed` |
//! | [`record_unreadable`] | the same, where its release cannot read the job | failures |
//! | [`reclaim`], [`charge`] | a job of a fenced lane | `reclaimed`, `forgotten`; crashes, first crash and failures; `crashed` |
//! | [`cancel`] | a job that an operator cancels | a row of `queue_gone`, which notifies the lane |
//! | [`orphan`] | a job that no lane holds | nothing |
//!
//! All of them release the slot of the job's group: see [`groups`]. They leave state, rank and pos
//! for `return_jobs` or `end`, which come next. The ack of a job without a record passes both doors
//! in one statement, [`end::ack_and_delete`](super::end::ack_and_delete).

use std::time::Duration;

use rusqlite::{OptionalExtension, ToSql, params, types::Value};

use super::{
    Leaving, groups,
    row::{self, ACTIVE, Receipt},
};
use crate::{
    broker::CrashRule,
    sqlite::connection::{
        statement::sql,
        text::Text,
        tx::{Failed, Queue, Tx},
    },
};

/// Takes a job that its holder ends; `None` if the receipt is not valid. `ran`: the process has
/// survived a run of the job, so its crashes are cleared, and so is the note about releases that
/// could not read the job.
pub(crate) fn settle_by_holder<'a>(
    tx: &mut Tx<'_>,
    queue: &Queue<'_>,
    receipt: Receipt,
    id: &'a [u8],
    ran: bool,
) -> Result<Option<Leaving<'a>>, Failed> {
    /// Clears the crashes of a job that its process has survived, and the releases that could not
    /// read it: its own release has read it.
    const FORGIVE: &str = "UPDATE queue_jobs SET crashes = 0, first_crash = NULL, note = NULL \
        WHERE queue = ?1 AND id = ?2 AND (crashes > 0 OR note IS NOT NULL)";
    let held = tx
        .sql(sql!("settle_holder.sql"))?
        .query_row(params![queue.key, id, ACTIVE, receipt.lane, receipt.claim], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, Option<Text>>(2)?))
        })
        .optional()?;
    let Some((digest, failures, note)) = held else {
        record_stale(tx, receipt, id)?;
        return Ok(None);
    };
    groups::release_slot(tx, queue, id)?;
    if ran {
        tx.sql(FORGIVE)?.execute(params![queue.key, id])?;
    }
    let unreadable = note.and_then(|Text(note)| row::unreadable(&note)).filter(|_| !ran);
    Ok(Some(Leaving { digest, failures, unreadable, ..Leaving::only(id) }))
}

/// An ending was stale. If the reason is a cancel, the lane no longer needs to be notified.
pub(super) fn record_stale(tx: &Tx<'_>, receipt: Receipt, id: &[u8]) -> rusqlite::Result<()> {
    const FORGET: &str = "DELETE FROM queue_gone WHERE lane = ?1 AND id = ?2 AND claim = ?3";
    tx.sql(FORGET)?.execute(params![receipt.lane, id, receipt.claim]).map(drop)
}

/// Records that the run of a job failed.
pub(crate) fn record_failure(tx: &mut Tx<'_>, queue: &Queue<'_>, job: &Leaving<'_>, error: &str) -> Result<(), Failed> {
    const FAIL: &str = "UPDATE queue_jobs SET attempts = min(attempts + 1, 4294967295), failures = ?3 WHERE queue = ?1 AND id = ?2";
    let failures = row::with_failure(job.failures.as_deref(), tx.now, error)?;
    tx.sql(FAIL)?.execute(params![queue.key, job.id(), failures])?;
    tx.count(queue.key, "failed", 1);
    Ok(())
}

/// Records that a release could not read a job. Charges nothing.
pub(crate) fn record_unreadable(tx: &Tx<'_>, queue: &Queue<'_>, job: &Leaving<'_>, error: &str) -> Result<(), Failed> {
    const NOTE: &str = "UPDATE queue_jobs SET failures = ?3 WHERE queue = ?1 AND id = ?2";
    let failures = row::with_failure(job.failures.as_deref(), tx.now, error)?;
    tx.sql(NOTE)?.execute(params![queue.key, job.id(), failures])?;
    Ok(())
}

/// A job that a fenced lane holds.
pub(crate) struct Held {
    id: Vec<u8>,
    crashes: i64,
    first_crash: Option<i64>,
    failures: Option<Vec<u8>>,
    /// For how long the job may have run when it crashed.
    ran: Option<i64>,
    claim: i64,
}

impl Held {
    pub(crate) fn id(&self) -> &[u8] {
        &self.id
    }

    /// Whether the job has crashed, and its process was not alive for longer in this run than the
    /// crashed run may have lasted. `renewed`: the last renewal of the lease.
    pub(crate) fn is_suspect(&self, renewed: i64) -> bool {
        self.crashes > 0 && self.ran.is_none_or(|ran| renewed.saturating_sub(self.claim) <= ran)
    }
}

/// For how long a run of a job that has crashed is suspected.
pub(crate) fn suspicion_time(tx: &Tx<'_>, queue: &Queue<'_>, id: &(impl ToSql + ?Sized)) -> rusqlite::Result<Duration> {
    const RAN: &str = "SELECT ifnull(ran, 0) FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    let ran = tx.sql(RAN)?.query_row(params![queue.key, id], |row| row.get(0)).optional()?;
    Ok(Duration::from_millis(ran.map_or(0, |ran: i64| ran.max(0).unsigned_abs())))
}

/// The jobs that a lane holds.
pub(crate) fn held(tx: &Tx<'_>, queue: &Queue<'_>, lane: i64) -> rusqlite::Result<Vec<Held>> {
    /// The jobs that a lane holds, as `Held` reads them.
    const HELD: &str = "SELECT id, crashes, first_crash, failures, ran, pos FROM queue_jobs INDEXED BY queue_jobs_order \
            WHERE queue = ?1 AND state = ?2 AND rank = ?3";
    tx.sql(HELD)?
        .query_map(params![queue.key, ACTIVE, lane], |row| {
            let (id, crashes): (Vec<u8>, i64) = (row.get(0)?, row.get(1)?);
            let (first_crash, failures) = (row.get(2)?, row.get(3)?);
            let (ran, claim): (_, i64) = (row.get::<_, Option<i64>>(4)?, row.get(5)?);
            Ok(Held { id, crashes, first_crash, failures, ran, claim })
        })?
        .collect()
}

/// Takes a job from a fenced lane without a charge. `lives`: its process has not crashed, and the
/// broker had only forgotten the lane.
pub(crate) fn reclaim<'a>(tx: &mut Tx<'_>, queue: &Queue<'_>, held: &'a Held, lives: bool) -> rusqlite::Result<Leaving<'a>> {
    groups::release_slot(tx, queue, &held.id)?;
    tx.count(queue.key, "reclaimed", 1);
    tx.count(queue.key, "forgotten", i64::from(lives));
    Ok(Leaving::only(held.id.as_slice()))
}

/// Takes a job from a fenced lane and charges a crash. The process was alive until a time at most.
/// Returns the number of crashes within the rule's window, and whether it exceeds the limit.
pub(crate) fn charge<'a>(
    tx: &mut Tx<'_>,
    queue: &Queue<'_>,
    held: &'a Held,
    until: i64,
    rule: &CrashRule,
) -> Result<(Leaving<'a>, i64, bool), Failed> {
    const ENVELOPE: &str = "SELECT envelope FROM queue_jobs WHERE queue = ?1 AND id = ?2";
    const CHARGE: &str = "UPDATE queue_jobs SET crashes = ?3, first_crash = ?4, failures = ?5, ran = ?6 WHERE queue = ?1 AND id = ?2";
    groups::release_slot(tx, queue, &held.id)?;
    let window = i64::try_from(rule.window.as_millis()).unwrap_or(i64::MAX);
    let ran = until.saturating_sub(held.claim).max(0);
    let (crashes, first, ran) = match held.first_crash {
        Some(first) if held.crashes > 0 && tx.now.saturating_sub(first) <= window => {
            ((held.crashes + 1).min(u32::MAX.into()), first, held.ran.map_or(ran, |before| before.max(ran)))
        }
        _ => (1, tx.now, ran),
    };
    let failures = row::with_failure(held.failures.as_deref(), tx.now, "the process that ran it died, or lost the broker")?;
    tx.sql(CHARGE)?.execute(params![queue.key, held.id, crashes, first, failures, ran])?;
    tx.count(queue.key, "reclaimed", 1);
    tx.count(queue.key, "crashed", 1);
    let most = if rule.tasks.is_empty() {
        rule.max_crashes
    } else {
        let envelope: Vec<u8> = tx.sql(ENVELOPE)?.query_row(params![queue.key, held.id], |row| row.get(0))?;
        rule.most_of(&envelope)
    };
    Ok((Leaving::only(held.id.as_slice()), crashes, crashes >= i64::from(most)))
}

/// Takes a job from the lane that holds it, for an operator's cancel. The lane is notified with its
/// next heartbeat.
pub(crate) fn cancel<'a>(tx: &mut Tx<'_>, queue: &Queue<'_>, receipt: Receipt, id: &'a [u8]) -> rusqlite::Result<Leaving<'a>> {
    groups::release_slot(tx, queue, id)?;
    record_cancellation(tx, receipt, id)?;
    Ok(Leaving::only(id))
}

/// Notifies a lane with its next heartbeat that one of its jobs is cancelled. The receipt may stay
/// valid until the job ends.
pub(crate) fn record_cancellation(tx: &Tx<'_>, receipt: Receipt, id: &[u8]) -> rusqlite::Result<()> {
    /// Notifies a lane that one of its jobs was cancelled.
    const NOTE: &str = "INSERT OR IGNORE INTO queue_gone (lane, id, claim) VALUES (?1, ?2, ?3)";
    tx.sql(NOTE)?.execute(params![receipt.lane, id, receipt.claim]).map(drop)
}

/// Takes an active job that no lane ever held, for its repair.
pub(crate) fn orphan<'a>(tx: &mut Tx<'_>, queue: &Queue<'_>, id: &'a Value) -> rusqlite::Result<Leaving<'a>> {
    groups::release_slot(tx, queue, id)?;
    Ok(Leaving::only(id))
}
