//! R7: reclaims the jobs of fenced lanes.

use rusqlite::{Row, params};

use crate::{
    address::JobId,
    broker::{BuryReason, CrashRule, RECLAIM_ITEMS, Reclaimed},
    sqlite::{
        connection::{
            statement::sql,
            text::Text,
            tx::{Failed, Queue, Tx},
        },
        doors::{
            end, return_jobs,
            row::ACTIVE,
            settle::{self, Held},
        },
        schedule,
    },
};

/// The jobs of the fenced lanes of one process are judged together. The jobs that are not charged
/// are moved first, so that a reclaimer that continues an incomplete reclaim judges alike.
pub(crate) fn reclaim(tx: &mut Tx<'_>, name: &str, rule: &CrashRule) -> Result<Reclaimed, Failed> {
    let mut reclaimed = Reclaimed::default();
    let Some(mut queue) = tx.queue(name)? else { return Ok(reclaimed) };
    let lanes: Vec<Lane> =
        tx.sql(sql!("fenced.sql"))?.query_map(params![queue.key, tx.now], Lane::read)?.collect::<rusqlite::Result<_>>()?;
    let mut left = RECLAIM_ITEMS;
    for lanes in lanes.chunk_by(|one, other| one.process == other.process) {
        let process = Process::of(tx, &queue, lanes)?;
        // In reverse order, because each job is pushed to the head.
        for (leaves, held) in process.free.iter().rev().take(left) {
            let job = settle::reclaim(tx, &queue, held, process.lives)?;
            if schedule::is_stopped(tx, &queue, held.id())? {
                end::cancel(tx, &queue, job, Some(schedule::STOPPED))?;
                continue;
            }
            if *leaves {
                return_jobs::count_return(tx, &queue, &job)?;
            }
            return_jobs::return_to_head(tx, &mut queue, job, false)?;
            reclaimed.returned += 1;
        }
        left -= process.free.len().min(left);
        for (held, until) in process.charged.iter().take(left) {
            if schedule::is_stopped(tx, &queue, held.id())? {
                let job = settle::reclaim(tx, &queue, held, process.lives)?;
                end::cancel(tx, &queue, job, Some(schedule::STOPPED))?;
                continue;
            }
            let (job, crashes, is_last) = settle::charge(tx, &queue, held, *until, rule)?;
            if is_last {
                end::bury(tx, &queue, job, BuryReason::Crashed)?;
                // A value that is not an id cannot be looked up, so it is left out.
                reclaimed.buried.extend(JobId::from_bytes(held.id()).ok());
            } else {
                return_jobs::retry(tx, &queue, job, rule.delay.saturating_mul(u32::try_from(crashes).unwrap_or(u32::MAX)))?;
                reclaimed.charged += 1;
            }
        }
        if process.charged.len() > left || process.free.len() + process.charged.len() > RECLAIM_ITEMS {
            break;
        }
        left -= process.charged.len();
        for lane in lanes {
            forget(tx, lane.key)?;
            reclaimed.forgotten += 1;
        }
    }
    tx.save(&queue)?;
    Ok(reclaimed)
}

/// A fenced lane.
struct Lane {
    key: i64,
    process: String,
    /// The latest time at which its process may have been alive.
    until: i64,
    /// The last renewal of its lease.
    renewed: i64,
}

impl Lane {
    fn read(row: &Row<'_>) -> rusqlite::Result<Lane> {
        let (Text(process), until, renewed): (Text, i64, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
        Ok(Lane { key: row.get(0)?, process, until, renewed })
    }
}

/// The jobs of the fenced lanes of a process, and how they are judged.
struct Process {
    /// The broker had only forgotten its lanes: the process continues under other names.
    lives: bool,
    /// These return to the head without a charge. Each with whether its worker has stopped and left
    /// it.
    free: Vec<(bool, Held)>,
    /// These are charged with a crash. Each with the latest time at which the process may have been
    /// alive.
    charged: Vec<(Held, i64)>,
}

impl Process {
    fn of(tx: &Tx<'_>, queue: &Queue<'_>, lanes: &[Lane]) -> Result<Self, Failed> {
        /// Whether any lane of a process holds a suspect, even if the lease of that lane is valid.
        /// A job does not count if its process lived for longer in this run than the crashed run
        /// may have lasted.
        const HAS_SUSPECT: &str = "SELECT EXISTS (SELECT 1 FROM queue_lanes JOIN queue_jobs INDEXED BY queue_jobs_order \
                ON queue_jobs.queue = queue_lanes.queue \
            AND queue_jobs.state = ?3 AND queue_jobs.rank = queue_lanes.lane \
            WHERE queue_lanes.queue = ?1 AND queue_lanes.name BETWEEN ?2 || '.' AND ?2 || '/' AND queue_lanes.process = ?2 \
                AND queue_jobs.crashes > 0 \
            AND NOT ifnull(fenced AND deadline - duration BETWEEN 0 AND ?4 AND deadline - duration - queue_jobs.pos > queue_jobs.ran, 0))";
        // The name of a lane begins with its process and a dot, so the index finds it.
        const LIVES: &str = "SELECT EXISTS (SELECT 1 FROM queue_lanes WHERE queue = ?1
            AND name BETWEEN ?2 || '.' AND ?2 || '/' AND process = ?2 AND NOT fenced AND deadline > ?3)";
        const LEAVES: &str = "SELECT EXISTS (SELECT 1 FROM queue_leaving WHERE lane = ?1)";
        let process = &lanes[0].process;
        let mut held = Vec::new();
        for lane in lanes {
            let leaves: bool = tx.sql(LEAVES)?.query_row([lane.key], |row| row.get(0))?;
            held.extend(settle::held(tx, queue, lane.key)?.into_iter().map(|job| (leaves, lane, job)));
        }
        let has_suspect: bool = tx.sql(HAS_SUSPECT)?.query_row(params![queue.key, process, ACTIVE, tx.now], |row| row.get(0))?;
        let lives: bool = tx.sql(LIVES)?.query_row(params![queue.key, process, tx.now], |row| row.get(0))?;
        let (mut charged, mut free) = (Vec::new(), Vec::new());
        for (leaves, lane, job) in held {
            let is_charged = !leaves && !lives && (!has_suspect || job.is_suspect(lane.renewed));
            if is_charged { charged.push((job, lane.until)) } else { free.push((leaves, job)) }
        }
        Ok(Process { lives, free, charged })
    }
}

/// Removes a lane without jobs.
fn forget(tx: &Tx<'_>, lane: i64) -> rusqlite::Result<()> {
    const NEWS: &str = "DELETE FROM queue_gone WHERE lane = ?1";
    const LEFT: &str = "DELETE FROM queue_leaving WHERE lane = ?1";
    const LANE: &str = "DELETE FROM queue_lanes WHERE lane = ?1";
    tx.sql(NEWS)?.execute([lane])?;
    tx.sql(LEFT)?.execute([lane])?;
    tx.sql(LANE)?.execute([lane]).map(drop)
}
