//! The half of the auditor that finds damage. It only reads, by statements of its own, and calls none of the doors: a mistake of a door is damage, too.

use std::collections::HashMap;

use rusqlite::{OptionalExtension, params, types::Value};

use crate::{
    address::JobId,
    broker::{DamageKind, GroupName, GroupOrder, GroupRule, LimitKey, LimitRecord, ProcessId, RuleOf, UniqueKey, WorkerInfo},
    envelope::tags::tag_digests,
    sqlite::{
        connection::{
            statement::sql,
            tx::{Failed, Queue, Tx},
            unsigned::Unsigned,
        },
        doors::row::{ACTIVE, CHAINED, HELD, LINED, LINED_SUSPECT, PARKED, READY},
    },
};

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    LeaseEndless,
    LeaseTooLong,
    RecordWithoutLane,
    WorkerWithoutRecord,
    HeldByNobody,
    WithoutPlace,
    WithoutLine,
    ParkedStray,
    ParkedHollow,
    KeyLeaked,
    HeldForNobody,
    KeyMissing,
    RunWithoutJob,
    SlotLeaked,
    SlotMissing,
    LineLeaked,
    LimitSlotLeaked,
    LimitSlotMissing,
    LimitAsleep,
    LimitHollow,
    OutOfTurn,
    TagLeaked,
    TagStrange,
    TagMissing,
}

/// All looks, in the order of their repairs. Slots come before turns: what they leave free decides who may be served.
pub(super) const LOOKS: [Look; 24] = [
    Look::LeaseEndless,
    Look::LeaseTooLong,
    Look::RecordWithoutLane,
    Look::WorkerWithoutRecord,
    Look::HeldByNobody,
    Look::WithoutPlace,
    Look::WithoutLine,
    Look::ParkedStray,
    Look::ParkedHollow,
    Look::KeyLeaked,
    Look::HeldForNobody,
    Look::KeyMissing,
    Look::RunWithoutJob,
    Look::SlotLeaked,
    Look::SlotMissing,
    Look::LineLeaked,
    Look::LimitSlotLeaked,
    Look::LimitSlotMissing,
    Look::LimitAsleep,
    Look::LimitHollow,
    Look::OutOfTurn,
    Look::TagLeaked,
    Look::TagStrange,
    Look::TagMissing,
];

/// The subject of a finding, and what its repair needs.
pub(super) type Found = (Value, Value);

/// Findings of one look.
const STEP: usize = 500;

/// A lease that ends later never ends: 140,000 years.
const FOREVER: i64 = 1 << 52;

/// Bits of a group's turn: it has a job that may start; it has a suspect that may.
const TURN: i64 = 1;
const DOUBT: i64 = 2;

impl Look {
    /// Whether it goes through all jobs or groups, which may be many.
    pub(super) fn is_thorough(self) -> bool {
        matches!(self, Look::WithoutPlace | Look::WithoutLine | Look::OutOfTurn | Look::TagStrange | Look::TagMissing)
    }

    pub(super) fn kind(self) -> DamageKind {
        match self {
            Look::LeaseEndless => DamageKind::LaneWithoutLease,
            Look::LeaseTooLong => DamageKind::LeaseTooLong,
            Look::RecordWithoutLane => DamageKind::RecordWithoutLane,
            Look::WorkerWithoutRecord => DamageKind::WorkerWithoutRecord,
            Look::HeldByNobody => DamageKind::HeldByNobody,
            Look::WithoutPlace | Look::WithoutLine | Look::ParkedStray => DamageKind::JobWithoutPlace,
            Look::ParkedHollow => DamageKind::IdWithoutJob,
            Look::KeyLeaked => DamageKind::KeyLeaked,
            Look::HeldForNobody => DamageKind::HeldForNobody,
            Look::KeyMissing => DamageKind::KeyMissing,
            Look::RunWithoutJob => DamageKind::RunWithoutJob,
            Look::SlotLeaked | Look::LimitSlotLeaked => DamageKind::SlotLeaked,
            Look::SlotMissing | Look::LimitSlotMissing => DamageKind::SlotMissing,
            Look::LineLeaked => DamageKind::LineLeaked,
            Look::LimitAsleep | Look::LimitHollow => DamageKind::LimitOutOfTurn,
            Look::OutOfTurn => DamageKind::GroupOutOfTurn,
            Look::TagLeaked | Look::TagStrange => DamageKind::TagLeaked,
            Look::TagMissing => DamageKind::TagMissing,
        }
    }

    /// What is damaged.
    pub(super) fn find(self, tx: &Tx<'_>, queue: &Queue<'_>) -> Result<Vec<Found>, Failed> {
        let rows = |sql: &str, than: i64| rows(tx, sql, queue, than);
        Ok(match self {
            Look::LeaseEndless => rows(sql!("lease_endless.sql"), FOREVER)?,
            Look::LeaseTooLong => rows(sql!("lease_too_long.sql"), tx.now)?,
            Look::RecordWithoutLane => rows(sql!("record_without_lane.sql"), 0)?,
            Look::WorkerWithoutRecord => workers_without_record(tx, queue)?,
            Look::HeldByNobody => rows(sql!("held_by_nobody.sql"), ACTIVE)?,
            Look::WithoutPlace => rows(sql!("without_place.sql"), READY)?,
            Look::WithoutLine => rows(sql!("without_line.sql"), LINED)?,
            Look::ParkedStray => rows(sql!("parked_strays.sql"), PARKED)?,
            Look::ParkedHollow => rows(sql!("parked_hollow.sql"), PARKED)?,
            Look::KeyLeaked => rows(sql!("key_leaked.sql"), HELD)?,
            Look::HeldForNobody => rows(sql!("held_for_nobody.sql"), HELD)?,
            Look::KeyMissing => rows(sql!("key_missing.sql"), HELD)?,
            Look::RunWithoutJob => rows(sql!("ticked_hollow.sql"), HELD)?,
            Look::SlotLeaked => rows(sql!("slot_leaked.sql"), ACTIVE)?,
            Look::SlotMissing => rows(sql!("slot_missing.sql"), ACTIVE)?,
            Look::LineLeaked => rows(sql!("line_leaked.sql"), 0)?,
            Look::LimitSlotLeaked => rows(sql!("limit_slot_leaked.sql"), ACTIVE)?,
            Look::LimitSlotMissing => rows(sql!("limit_slot_missing.sql"), ACTIVE)?,
            Look::LimitAsleep => limits_asleep(tx, queue, rows(sql!("limit_asleep.sql"), 0)?)?,
            Look::LimitHollow => rows(sql!("limit_hollow.sql"), CHAINED)?,
            Look::OutOfTurn => out_of_turn(tx, queue)?,
            Look::TagLeaked => rows(sql!("tag_leaked.sql"), 0)?,
            Look::TagStrange => strange_tags(tx, queue)?,
            Look::TagMissing => missing_tags(tx, queue)?,
        })
    }

    /// The subject of a finding, as people look for it.
    pub(super) fn shown(self, (subject, more): &Found) -> String {
        let known = match (self, subject, more) {
            (Look::KeyLeaked, Value::Blob(key), _) => UniqueKey::from_bytes(key).map(|key| key.to_string()),
            (Look::LimitAsleep, Value::Blob(key), _) => LimitKey::from_bytes(key).map(|key| key.to_string()),
            (Look::LineLeaked | Look::OutOfTurn, Value::Blob(name), _) | (Look::LimitHollow, _, Value::Blob(name)) => {
                GroupName::of_stored(name).map(|name| name.to_string())
            }
            // Names of lanes and of workers, which need not be UTF-8.
            (Look::LeaseEndless | Look::LeaseTooLong | Look::RecordWithoutLane | Look::WorkerWithoutRecord, Value::Blob(_), _) => None,
            (_, Value::Blob(id), _) => JobId::from_bytes(id).ok().map(|id| id.to_string()),
            (_, other, _) => Some(format!("{other:?}")),
        };
        let bytes: &[u8] = if let Value::Blob(bytes) = subject { bytes } else { &[] };
        known.unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned())
    }
}

/// What a query for damage finds. ?1 of the statement is the queue, ?3 the limit.
fn rows(tx: &Tx<'_>, sql: &str, queue: &Queue<'_>, than: i64) -> rusqlite::Result<Vec<Found>> {
    let mut statement = tx.sql(sql)?;
    statement.query_map(params![queue.key, than, Unsigned(STEP)], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Workers with a lane whose record is missing or damaged. Whoever has another name is no worker.
fn workers_without_record(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Vec<Found>> {
    let mut statement = tx.sql(sql!("lane_processes.sql"))?;
    let workers = statement.query_map([queue.key], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Option<Vec<u8>>>(1)?)))?;
    let workers: Vec<(Vec<u8>, Option<Vec<u8>>)> = workers.collect::<rusqlite::Result<_>>()?;
    let is_damaged = |(worker, record): &(Vec<u8>, Option<Vec<u8>>)| {
        let is_worker = str::from_utf8(worker).is_ok_and(|worker| worker.parse::<ProcessId>().is_ok());
        is_worker && record.as_ref().is_none_or(|record| WorkerInfo::is_damaged(record))
    };
    Ok(workers.into_iter().filter(is_damaged).take(STEP).map(|(worker, _)| (Value::Blob(worker), Value::Null)).collect())
}

/// Those of the keys that have a free slot.
fn limits_asleep(tx: &Tx<'_>, queue: &Queue<'_>, keys: Vec<Found>) -> rusqlite::Result<Vec<Found>> {
    const HELD: &str = "SELECT count(*) FROM queue_slots WHERE queue = ?1 AND key = ?2";
    const LIMITS: &str = "SELECT stored FROM queue_limits WHERE queue = ?1";
    let records = tx.sql(LIMITS)?.query_map([queue.key], |row| row.get::<_, Vec<u8>>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    let records: Vec<LimitRecord> = records.iter().filter_map(|stored| LimitRecord::decode(stored).ok()).collect();
    let mut asleep = Vec::new();
    for (stored, more) in keys {
        let Value::Blob(bytes) = &stored else { continue };
        let Some(key) = LimitKey::from_bytes(bytes) else { continue };
        let most = records.iter().find(|record| key.is_of(&record.name)).and_then(|record| record.rule().concurrency);
        let held: u64 = tx.sql(HELD)?.query_row(params![queue.key, bytes], |row| Unsigned::get(row, 0))?;
        if most.is_none_or(|most| held < u64::from(most)) {
            asleep.push((stored, more));
        }
    }
    Ok(asleep)
}

/// Groups that have their turn and nothing that may start, or the other way round.
fn out_of_turn(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Vec<Found>> {
    const RULES: &str = "SELECT name, rule FROM queue_rules WHERE queue = ?1";
    let mut rules = tx.sql(RULES)?;
    let rules = rules.query_map([queue.key], |row| Ok((row.get(0)?, GroupRule::of_stored(&row.get::<_, String>(1)?))))?;
    let rules: HashMap<Vec<u8>, GroupRule> = rules.collect::<rusqlite::Result<_>>()?;
    let rule = |name: &[u8]| rules.get(name).copied().unwrap_or_default();
    let others = rule(&RuleOf::Others.stored()).or(rule(&RuleOf::Declared.stored()));
    let mut groups = tx.sql(sql!("groups.sql"))?;
    let mut groups = groups.query(params![queue.key, LINED, LINED_SUSPECT, CHAINED])?;
    let mut found = Vec::new();
    while let Some(group) = groups.next()? {
        let (name, line, turn): (Vec<u8>, i64, i64) = (group.get(0)?, group.get(1)?, group.get(2)?);
        let running: u64 = Unsigned::get(group, 3)?;
        let (front, may_start, may_doubt): (Option<i64>, bool, bool) = (group.get(4)?, group.get(5)?, group.get(6)?);
        // Jobs with limits and without a group.
        let rule = if name == b"\0\0" { GroupRule::default() } else { rule(&name).over(others) };
        let doubt = if may_doubt { DOUBT } else { 0 };
        let due = match rule.order {
            _ if rule.paused || rule.cap.is_some_and(|cap| running >= u64::from(cap)) => 0,
            Some(GroupOrder::Ordered) if front.is_some() => front.unwrap_or_default(),
            Some(GroupOrder::Ordered | GroupOrder::SkipFailed) => {
                let first = tx.sql(sql!("group_first.sql"))?.query_row(params![queue.key, name, line, LINED, CHAINED], |row| row.get(0));
                first.optional()?.unwrap_or(0) | doubt
            }
            _ if may_start => TURN | doubt,
            _ => doubt,
        };
        if due != turn {
            found.push((Value::Blob(name), Value::Null));
        }
    }
    Ok(found)
}

/// Entries of the index of tags whose job does not have the tag.
fn strange_tags(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Vec<Found>> {
    let mut entries = tx.sql(sql!("tag_entries.sql"))?;
    let mut entries = entries.query([queue.key])?;
    let mut found = Vec::new();
    while let Some(entry) = entries.next()?.filter(|_| found.len() < STEP) {
        let (id, digest, envelope): (_, _, Vec<u8>) = (entry.get(0)?, entry.get::<_, Value>(1)?, entry.get(2)?);
        if !tag_digests(&envelope).iter().any(|own| digest == Value::Blob(own.to_vec())) {
            found.push((id, digest));
        }
    }
    Ok(found)
}

/// Jobs with tags that the index does not have, and their envelopes.
fn missing_tags(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Vec<Found>> {
    const KNOWN: &str = "SELECT 1 FROM queue_tags WHERE queue = ?1 AND digest = ?2 AND id = ?3";
    let mut jobs = tx.sql(sql!("tag_holders.sql"))?;
    let mut jobs = jobs.query([queue.key])?;
    let (mut found, mut known) = (Vec::new(), tx.sql(KNOWN)?);
    while let Some(job) = jobs.next()?.filter(|_| found.len() < STEP) {
        let (id, envelope): (_, Vec<u8>) = (job.get::<_, Value>(0)?, job.get(1)?);
        let mut missing = false;
        for digest in tag_digests(&envelope) {
            missing |= !known.exists(params![queue.key, digest, id])?;
        }
        if missing {
            found.push((id, Value::Blob(envelope)));
        }
    }
    Ok(found)
}
