//! Looking through a queue for damage by other hands: rows that were changed or deleted by somebody else's SQL.

pub(crate) mod sweep;

use rusqlite::{params, types::Value};

use crate::sqlite::{
    connection::tx::{Failed, Tx},
    doors::row::{ACTIVE, PARKED, READY},
};
use crate::{
    address::JobId,
    broker::{Audit, Damage, DamageKind},
};

/// Items of one call.
const STEP: usize = 500;

/// A lease that ends later never ends: 140,000 years.
const FOREVER: i64 = 1 << 52;

pub(crate) fn audit(tx: &mut Tx<'_>, name: &str, how: Audit) -> Result<Vec<Damage>, Failed> {
    let repair = how.repair;
    let Some(mut queue) = tx.queue(name)? else { return Ok(Vec::new()) };
    let mut damages = Vec::new();

    let lanes = rows(
        tx,
        "SELECT name, worker FROM queue_workers WHERE queue = ?1 AND (typeof(deadline) <> 'integer' OR deadline > ?2) LIMIT ?3",
        queue.key,
        FOREVER,
    )?;
    for (lane, worker) in &lanes {
        damages.push(Damage { kind: DamageKind::LaneWithoutLease, subject: shown(lane) });
        if repair {
            tx.sql("UPDATE queue_workers SET deadline = ?2 WHERE worker = ?1")?.execute(params![worker, tx.now])?;
        }
    }

    let ahead = rows(
        tx,
        "SELECT name, worker FROM queue_workers WHERE queue = ?1 AND NOT fenced AND typeof(deadline) = 'integer' AND deadline > ?2 + term LIMIT ?3",
        queue.key,
        tx.now,
    )?;
    for (lane, worker) in &ahead {
        damages.push(Damage { kind: DamageKind::LeaseTooLong, subject: shown(lane) });
        if repair {
            tx.sql("UPDATE queue_workers SET deadline = ?2 + term WHERE worker = ?1")?.execute(params![worker, tx.now])?;
        }
    }

    let held = rows(
        tx,
        "SELECT id, rank FROM queue_jobs WHERE queue = ?1 AND state = ?2
         AND rank NOT IN (SELECT worker FROM queue_workers WHERE queue = ?1) LIMIT ?3",
        queue.key,
        ACTIVE,
    )?;
    // A number that no lane ever had must not become one: the next would have to be larger.
    let last: i64 =
        tx.sql("SELECT ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'queue_workers'), 0)")?.query_row([], |row| row.get(0))?;
    for (id, worker) in &held {
        damages.push(Damage { kind: DamageKind::HeldByNobody, subject: shown(id) });
        if !repair {
            continue;
        }
        if let Value::Integer(worker @ 1..) = worker
            && *worker <= last
        {
            // Its lane, as one that was fenced: the next sweep takes the job back by the rule for those that died.
            tx.sql(
                "INSERT OR IGNORE INTO queue_workers (worker, queue, name, process, deadline, fenced)
                 VALUES (?1, ?2, 'lost.' || ?1, 'lost', 0, 1)",
            )?
            .execute(params![worker, queue.key])?;
        } else {
            tx.make_ready(&mut queue, id, true)?;
        }
    }

    if how.thorough {
        // A number that means no state, or a place that no query finds.
        let lost = rows(
            tx,
            "SELECT id, state FROM queue_jobs WHERE queue = ?1 AND (state NOT IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) OR typeof(pos) <> 'integer'
             OR (state <> ?2 AND state <> 4 AND rank <> 0)) LIMIT ?3",
            queue.key,
            READY,
        )?;
        for (id, state) in &lost {
            damages.push(Damage { kind: DamageKind::JobWithoutPlace, subject: shown(id) });
            if repair && matches!(state, Value::Integer(1..=9)) && *state != Value::Integer(ACTIVE) {
                let repaired = "UPDATE queue_jobs SET rank = 0, pos = CASE typeof(pos) WHEN 'integer' THEN pos ELSE ?3 END
                                WHERE queue = ?1 AND id = ?2";
                tx.sql(repaired)?.execute(params![queue.key, id, tx.now])?;
            } else if repair {
                tx.make_ready(&mut queue, id, false)?;
            }
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

fn rows(tx: &Tx<'_>, sql: &str, queue: i64, than: i64) -> rusqlite::Result<Vec<(Value, Value)>> {
    let mut statement = tx.sql(sql)?;
    statement.query_map(params![queue, than, STEP], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn shown(subject: &Value) -> String {
    match subject {
        Value::Blob(id) => JobId::from_bytes(id).map_or_else(|_| String::from_utf8_lossy(id).into_owned(), |id| id.to_string()),
        Value::Text(text) => text.clone(),
        other => format!("{other:?}"),
    }
}
