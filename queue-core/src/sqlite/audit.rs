//! Looking through a queue for damage by other hands: rows that were changed or deleted by somebody else's SQL.

use rusqlite::params;

use super::{
    jobs::{ACTIVE, PARKED},
    tx::{Failed, Tx},
};
use crate::broker::{Damage, DamageKind};

/// Items of one call.
const STEP: usize = 500;

pub(super) fn audit(tx: &mut Tx<'_>, name: &str, repair: bool) -> Result<Vec<Damage>, Failed> {
    let Some(mut queue) = tx.queue(name)? else { return Ok(Vec::new()) };
    let mut damages = Vec::new();

    let held = rows(
        tx,
        "SELECT id, rank FROM queue_jobs WHERE queue = ?1 AND state = ?2
         AND rank NOT IN (SELECT worker FROM queue_workers WHERE queue = ?1) LIMIT ?3",
        queue.key,
        ACTIVE,
    )?;
    for (id, worker) in &held {
        damages.push(Damage { kind: DamageKind::HeldByNobody, subject: shown(id) });
        if repair {
            // Its lane, as one that was fenced: the next sweep takes the job back by the rule for those that died.
            tx.sql(
                "INSERT OR IGNORE INTO queue_workers (worker, queue, name, process, deadline, fenced)
                 VALUES (?1, ?2, 'lost.' || ?1, 'lost', 0, 1)",
            )?
            .execute(params![worker, queue.key])?;
        }
    }

    let strays = rows(
        tx,
        "SELECT id, 0 FROM queue_jobs WHERE queue = ?1 AND state = ?2
         AND id NOT IN (SELECT id FROM queue_parked WHERE queue = ?1) LIMIT ?3",
        queue.key,
        PARKED,
    )?;
    for (id, _) in &strays {
        damages.push(Damage { kind: DamageKind::JobWithoutPlace, subject: shown(id) });
        if repair {
            // Who does not know its task parks it again.
            tx.make_ready(&mut queue, id, false)?;
        }
    }

    let hollow = rows(
        tx,
        "SELECT id, 0 FROM queue_parked WHERE queue = ?1
         AND id NOT IN (SELECT id FROM queue_jobs WHERE queue = ?1 AND state = ?2) LIMIT ?3",
        queue.key,
        PARKED,
    )?;
    for (id, _) in &hollow {
        damages.push(Damage { kind: DamageKind::IdWithoutJob, subject: shown(id) });
        if repair {
            tx.sql("DELETE FROM queue_parked WHERE queue = ?1 AND id = ?2")?.execute(params![queue.key, id])?;
        }
    }

    if repair && !damages.is_empty() {
        tx.count(queue.key, "repaired", i64::try_from(damages.len()).unwrap_or(i64::MAX));
        tx.save(&queue)?;
    }
    Ok(damages)
}

fn rows(tx: &Tx<'_>, sql: &str, queue: i64, state: i64) -> rusqlite::Result<Vec<(Vec<u8>, i64)>> {
    let mut statement = tx.sql(sql)?;
    statement.query_map(params![queue, state, STEP], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn shown(id: &[u8]) -> String {
    crate::address::JobId::from_bytes(id).map_or_else(|_| String::from_utf8_lossy(id).into_owned(), |id| id.to_string())
}
