//! Audit: looks through a queue for rows that another program has changed or deleted, and repairs them; `sweep` removes what is
//! kept for a while only.

mod sweep;
mod tags;

use rusqlite::{params, types::Value};

pub(crate) use self::sweep::sweep;
use crate::{
    address::JobId,
    broker::{Audit, Damage, DamageKind, GroupName, LimitKey, ProcessId, UniqueKey, WorkerInfo},
    sqlite::{
        connection::{
            statement::sql,
            tx::{Failed, Queue, Tx},
            unsigned::Unsigned,
        },
        doors::{
            self, back, end, keys,
            ready::{self, End},
            row::{ACTIVE, CHAINED, HELD, LINED, PARKED, READY},
            settle,
        },
        people, schedule,
    },
};

/// Items of one call.
const STEP: usize = 500;

/// A lease that ends later never ends: 140,000 years.
const FOREVER: i64 = 1 << 52;

pub(crate) fn audit(tx: &mut Tx<'_>, name: &str, how: Audit) -> Result<Vec<Damage>, Failed> {
    let Some(mut queue) = tx.queue(name)? else { return Ok(Vec::new()) };
    let mut damages = Vec::new();
    leases(tx, &queue, how, &mut damages)?;
    workers(tx, &queue, how, &mut damages)?;
    held_by_nobody(tx, &mut queue, how, &mut damages)?;
    if how.thorough {
        without_place(tx, &mut queue, how, &mut damages)?;
    }
    parked(tx, &mut queue, how, &mut damages)?;
    if tx.keyed() {
        unique(tx, &queue, how, &mut damages)?;
    }
    ticked(tx, &queue, how, &mut damages)?;
    if tx.grouped() {
        groups(tx, &queue, how, &mut damages)?;
    }
    tags::find(tx, &queue, how, &mut damages)?;
    if how.repair && !damages.is_empty() {
        end::repaired(tx, &queue, damages.len());
        tx.save(&queue)?;
    }
    Ok(damages)
}

/// Lanes whose lease has no end, or ends later than its term allows.
fn leases(tx: &Tx<'_>, queue: &Queue<'_>, how: Audit, damages: &mut Vec<Damage>) -> Result<(), Failed> {
    const ENDS_NOW: &str = "UPDATE queue_lanes SET deadline = ?2 WHERE lane = ?1";
    const ENDS_AFTER_A_TERM: &str = "UPDATE queue_lanes SET deadline = ?2 + term WHERE lane = ?1";
    let endless = (DamageKind::LaneWithoutLease, rows(tx, sql!("lease_endless.sql"), queue, FOREVER)?, ENDS_NOW);
    let long = (DamageKind::LeaseTooLong, rows(tx, sql!("lease_too_long.sql"), queue, tx.now)?, ENDS_AFTER_A_TERM);
    for (kind, lanes, repair) in [endless, long] {
        for (name, lane) in &lanes {
            damages.push(Damage { kind, subject: shown(name) });
            if how.repair {
                tx.sql(repair)?.execute(params![lane, tx.now])?;
            }
        }
    }
    Ok(())
}

/// Records of workers without a lane, and workers whose record is missing or damaged.
fn workers(tx: &Tx<'_>, queue: &Queue<'_>, how: Audit, damages: &mut Vec<Damage>) -> Result<(), Failed> {
    const REMOVE: [&str; 2] =
        ["DELETE FROM queue_workers WHERE queue = ?1 AND process = ?2", "DELETE FROM queue_loads WHERE queue = ?1 AND process = ?2"];
    const STORE: &str = "INSERT OR REPLACE INTO queue_workers (queue, process, record) VALUES (?1, ?2, ?3)";
    for (worker, _) in &rows(tx, sql!("record_without_lane.sql"), queue, 0)? {
        damages.push(Damage { kind: DamageKind::RecordWithoutLane, subject: shown(worker) });
        if how.repair {
            for remove in REMOVE {
                tx.sql(remove)?.execute(params![queue.key, worker])?;
            }
        }
    }
    let records = people::worker_records(tx, queue)?;
    let with_lanes: Vec<String> =
        tx.sql(sql!("lane_processes.sql"))?.query_map([queue.key], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<_>>()?;
    // Whoever has another name is no worker.
    let is_damaged =
        |worker: &&String| worker.parse::<ProcessId>().is_ok() && records.get(*worker).is_none_or(|record| WorkerInfo::is_damaged(record));
    for worker in with_lanes.iter().filter(is_damaged).take(STEP) {
        damages.push(Damage { kind: DamageKind::WorkerWithoutRecord, subject: worker.clone() });
        if how.repair {
            tx.sql(STORE)?.execute(params![queue.key, worker, WorkerInfo::default().stored(tx.now)])?;
        }
    }
    Ok(())
}

/// Active jobs of a lane that is not there.
fn held_by_nobody(tx: &mut Tx<'_>, queue: &mut Queue<'_>, how: Audit, damages: &mut Vec<Damage>) -> Result<(), Failed> {
    const LAST_LANE: &str = "SELECT ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'queue_lanes'), 0)";
    let held = rows(tx, sql!("held_by_nobody.sql"), queue, ACTIVE)?;
    // A number that no lane ever had must not become one: the next would have to be larger.
    let last: i64 = tx.sql(LAST_LANE)?.query_row([], |row| row.get(0))?;
    for (id, lane) in &held {
        damages.push(Damage { kind: DamageKind::HeldByNobody, subject: shown(id) });
        if !how.repair {
            continue;
        }
        if let Value::Integer(lane @ 1..) = lane
            && *lane <= last
        {
            // Its lane, as one that was fenced: the next reclaim takes the job back by the rule for those that died.
            tx.sql(sql!("lost_lane.sql"))?.execute(params![lane, queue.key])?;
        } else {
            let job = settle::orphan(tx, queue, id)?;
            back::repair(tx, queue, job, End::Head)?;
        }
    }
    Ok(())
}

/// Jobs in a place that no query finds.
fn without_place(tx: &mut Tx<'_>, queue: &mut Queue<'_>, how: Audit, damages: &mut Vec<Damage>) -> Result<(), Failed> {
    for (id, _) in &rows(tx, sql!("without_place.sql"), queue, READY)? {
        damages.push(Damage { kind: DamageKind::JobWithoutPlace, subject: shown(id) });
        if how.repair {
            back::mend(tx, queue, id)?;
        }
    }
    for (id, _) in &rows(tx, sql!("without_line.sql"), queue, LINED)? {
        damages.push(Damage { kind: DamageKind::JobWithoutPlace, subject: shown(id) });
        if how.repair {
            back::repair(tx, queue, ready::stray(id), End::Tail)?;
        }
    }
    Ok(())
}

/// Parked jobs that no lane would find, and entries without a job.
fn parked(tx: &mut Tx<'_>, queue: &mut Queue<'_>, how: Audit, damages: &mut Vec<Damage>) -> Result<(), Failed> {
    for (id, _) in &rows(tx, sql!("parked_strays.sql"), queue, PARKED)? {
        damages.push(Damage { kind: DamageKind::JobWithoutPlace, subject: shown(id) });
        if how.repair {
            // Who does not know its task parks it again.
            let job = ready::stray(id);
            back::repair(tx, queue, job, End::Tail)?;
        }
    }
    for (id, _) in &rows(tx, sql!("parked_hollow.sql"), queue, PARKED)? {
        damages.push(Damage { kind: DamageKind::IdWithoutJob, subject: shown(id) });
        if how.repair {
            ready::unpark(tx, queue, id)?;
        }
    }
    Ok(())
}

/// Keys that nobody holds who could, jobs that do not hold theirs, and jobs that are held for nobody.
fn unique(tx: &mut Tx<'_>, queue: &Queue<'_>, how: Audit, damages: &mut Vec<Damage>) -> Result<(), Failed> {
    for (key, _) in &rows(tx, sql!("key_leaked.sql"), queue, HELD)? {
        let Value::Blob(key) = key else { continue };
        let subject = UniqueKey::from_bytes(key).map_or_else(|| String::from_utf8_lossy(key).into_owned(), |key| key.to_string());
        damages.push(Damage { kind: DamageKind::KeyLeaked, subject });
        if how.repair {
            keys::free(tx, queue, key)?;
        }
    }
    type Repair = fn(&mut Tx<'_>, &Queue<'_>, &[u8]) -> Result<(), Failed>;
    let held: (_, _, Repair) = (DamageKind::HeldForNobody, sql!("held_for_nobody.sql"), keys::mend);
    let missing: (_, _, Repair) = (DamageKind::KeyMissing, sql!("key_missing.sql"), keys::retake);
    for (kind, query, repair) in [held, missing] {
        for (id, _) in &rows(tx, query, queue, HELD)? {
            damages.push(Damage { kind, subject: shown(id) });
            if let (true, Value::Blob(id)) = (how.repair, id) {
                repair(tx, queue, id)?;
            }
        }
    }
    Ok(())
}

/// Jobs that a schedule counts as not ended, and that have ended or are not there.
fn ticked(tx: &mut Tx<'_>, queue: &Queue<'_>, how: Audit, damages: &mut Vec<Damage>) -> Result<(), Failed> {
    const FORGET: &str = "DELETE FROM queue_ticked WHERE queue = ?1 AND id = ?2";
    for (id, _) in &rows(tx, sql!("ticked_hollow.sql"), queue, HELD)? {
        damages.push(Damage { kind: DamageKind::RunWithoutJob, subject: shown(id) });
        if !how.repair {
            continue;
        }
        if let Value::Blob(bytes) = id {
            schedule::ended(tx, queue, bytes, "deleted")?;
        }
        tx.sql(FORGET)?.execute(params![queue.key, id])?;
    }
    Ok(())
}

/// Slots without their jobs and jobs without their slots, lines that are held by nobody, and groups that are out of turn.
fn groups(tx: &mut Tx<'_>, queue: &Queue<'_>, how: Audit, damages: &mut Vec<Damage>) -> Result<(), Failed> {
    const FREE: &str = "DELETE FROM queue_holders WHERE queue = ?1 AND name = ?2 AND id = ?3";
    const TAKE: &str = "INSERT OR IGNORE INTO queue_holders (queue, name, id) VALUES (?1, ?2, ?3)";
    const FRONT: &str = "UPDATE queue_groups SET front = NULL WHERE queue = ?1 AND name = ?2";
    let leaked = (DamageKind::SlotLeaked, rows(tx, sql!("slot_leaked.sql"), queue, ACTIVE)?, FREE);
    let missing = (DamageKind::SlotMissing, rows(tx, sql!("slot_missing.sql"), queue, ACTIVE)?, TAKE);
    for (kind, slots, repair) in [leaked, missing] {
        for (id, name) in &slots {
            damages.push(Damage { kind, subject: shown(id) });
            if let (true, Value::Blob(stored)) = (how.repair, name) {
                tx.sql(repair)?.execute(params![queue.key, name, id])?;
                doors::groups::review(tx, queue, stored)?;
            }
        }
    }
    for (name, _) in &rows(tx, sql!("line_leaked.sql"), queue, 0)? {
        damages.push(Damage { kind: DamageKind::LineLeaked, subject: group_shown(name) });
        if let (true, Value::Blob(stored)) = (how.repair, name) {
            tx.sql(FRONT)?.execute(params![queue.key, name])?;
            doors::groups::review(tx, queue, stored)?;
        }
    }
    if tx.limited() {
        limits(tx, queue, how, damages)?;
    }
    // Groups may be many.
    if how.thorough { out_of_turn(tx, queue, how, damages) } else { Ok(()) }
}

/// Slots of limits without their jobs, jobs without these slots, and chains that nobody will look at.
fn limits(tx: &mut Tx<'_>, queue: &Queue<'_>, how: Audit, damages: &mut Vec<Damage>) -> Result<(), Failed> {
    const FREE: &str = "DELETE FROM queue_slots WHERE queue = ?1 AND key = ?2 AND id = ?3";
    const DROP: &str = "DELETE FROM queue_chains WHERE chain = ?1";
    for (id, key) in &rows(tx, sql!("limit_slot_leaked.sql"), queue, ACTIVE)? {
        damages.push(Damage { kind: DamageKind::SlotLeaked, subject: shown(id) });
        if how.repair {
            tx.sql(FREE)?.execute(params![queue.key, key, id])?;
            if let Value::Blob(key) = key {
                LimitKey::from_bytes(key).map_or(Ok(()), |key| doors::limits::loosen(tx, queue, &key))?;
            }
        }
    }
    for (id, _) in &rows(tx, sql!("limit_slot_missing.sql"), queue, ACTIVE)? {
        damages.push(Damage { kind: DamageKind::SlotMissing, subject: shown(id) });
        if how.repair {
            doors::limits::start(tx, queue, id)?;
        }
    }
    for (key, _) in &rows(tx, sql!("limit_asleep.sql"), queue, 0)? {
        let Value::Blob(stored) = key else { continue };
        let Some(key) = LimitKey::from_bytes(stored) else { continue };
        if !doors::ledger::Ledger::default().is_full(tx, queue, &key)? {
            damages.push(Damage { kind: DamageKind::LimitOutOfTurn, subject: key.to_string() });
            if how.repair {
                doors::limits::loosen(tx, queue, &key)?;
            }
        }
    }
    for (chain, name) in &rows(tx, sql!("limit_hollow.sql"), queue, CHAINED)? {
        damages.push(Damage { kind: DamageKind::LimitOutOfTurn, subject: group_shown(name) });
        if how.repair {
            tx.sql(DROP)?.execute([chain])?;
        }
    }
    Ok(())
}

/// Groups that have their turn and nothing that may start, or the other way round.
fn out_of_turn(tx: &mut Tx<'_>, queue: &Queue<'_>, how: Audit, damages: &mut Vec<Damage>) -> Result<(), Failed> {
    let mut after = Vec::new();
    loop {
        let names: Vec<Vec<u8>> = tx
            .sql(sql!("../doors/groups_step.sql"))?
            .query_map(params![queue.key, after, Unsigned(STEP)], |row| row.get::<_, Vec<u8>>(0))?
            .collect::<rusqlite::Result<_>>()?;
        for name in &names {
            if doors::groups::is_out_of_turn(tx, queue, name)? {
                damages.push(Damage { kind: DamageKind::GroupOutOfTurn, subject: group_shown(&Value::Blob(name.clone())) });
                if how.repair {
                    doors::groups::review(tx, queue, name)?;
                }
            }
        }
        match names.last() {
            Some(last) if names.len() == STEP => after.clone_from(last),
            _ => return Ok(()),
        }
    }
}

fn group_shown(name: &Value) -> String {
    match name {
        Value::Blob(name) => GroupName::of_stored(name).map_or_else(|| String::from_utf8_lossy(name).into_owned(), |name| name.to_string()),
        other => format!("{other:?}"),
    }
}

/// What a query for damages finds: its subject, and what its repair needs. ?1 of the statement is the queue, ?3 the limit.
fn rows(tx: &Tx<'_>, sql: &str, queue: &Queue<'_>, than: i64) -> rusqlite::Result<Vec<(Value, Value)>> {
    let mut statement = tx.sql(sql)?;
    statement.query_map(params![queue.key, than, Unsigned(STEP)], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn shown(subject: &Value) -> String {
    match subject {
        Value::Blob(id) => JobId::from_bytes(id).map_or_else(|_| String::from_utf8_lossy(id).into_owned(), |id| id.to_string()),
        Value::Text(text) => text.clone(),
        other => format!("{other:?}"),
    }
}
