//! The part of the auditor that finds damage. It only reads, with separate statements, and calls no
//! door: a mistake of a door is damage too.

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

/// The checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
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
    GroupIndexWrong,
    TagLeaked,
    TagStrange,
    TagMissing,
}

/// All checks, in the order of their repairs. Slots come before eligible groups, because free slots
/// decide which groups may be served.
pub(super) const CHECKS: [Check; 24] = [
    Check::LeaseEndless,
    Check::LeaseTooLong,
    Check::RecordWithoutLane,
    Check::WorkerWithoutRecord,
    Check::HeldByNobody,
    Check::WithoutPlace,
    Check::WithoutLine,
    Check::ParkedStray,
    Check::ParkedHollow,
    Check::KeyLeaked,
    Check::HeldForNobody,
    Check::KeyMissing,
    Check::RunWithoutJob,
    Check::SlotLeaked,
    Check::SlotMissing,
    Check::LineLeaked,
    Check::LimitSlotLeaked,
    Check::LimitSlotMissing,
    Check::LimitAsleep,
    Check::LimitHollow,
    Check::GroupIndexWrong,
    Check::TagLeaked,
    Check::TagStrange,
    Check::TagMissing,
];

/// The subject of a finding, and the data that its repair needs.
pub(super) type Found = (Value, Value);

/// Findings of one check.
const STEP: usize = 500;

/// A lease with a later end never expires: 140,000 years.
const FOREVER: i64 = 1 << 52;

/// Bits of the `eligible` of a group: it has a job that may start; it has a suspect that may.
const ELIGIBLE: i64 = 1;
const ELIGIBLE_SUSPECT: i64 = 2;

/// Lanes whose deadline is never reached.
/// ?1 queue, ?2 the latest valid deadline, ?3 limit.
const LEASE_ENDLESS: &str = "SELECT CAST(name AS BLOB), lane FROM queue_lanes WHERE queue = ?1 AND deadline > ?2 LIMIT ?3";

/// Lanes whose lease ends later than its duration allows.
const LEASE_TOO_LONG: &str =
    "SELECT CAST(name AS BLOB), lane FROM queue_lanes WHERE queue = ?1 AND NOT fenced AND deadline > ?2 + duration LIMIT ?3";

/// Workers with a record or a load but without a lane. Fenced lanes do not count. ?1 queue, ?2
/// nothing, ?3 limit.
const RECORD_WITHOUT_LANE: &str = "SELECT CAST(process AS BLOB), ?2 FROM (SELECT queue, process FROM queue_workers \
        UNION SELECT queue, process FROM queue_loads) \
    WHERE queue = ?1 AND process NOT IN (SELECT process FROM queue_lanes WHERE queue = ?1 AND NOT fenced) LIMIT ?3";

/// Active jobs whose lane does not exist.
const HELD_BY_NOBODY: &str = "SELECT id, rank FROM queue_jobs \
    WHERE queue = ?1 AND state = ?2 AND rank NOT IN (SELECT lane FROM queue_lanes WHERE queue = ?1) LIMIT ?3";

/// Jobs in a place that no query finds. The rank of ready jobs (0) is their priority. The rank of
/// active jobs (4) is their lane, of jobs of groups (11, 12) their line, and of jobs with limits
/// (13) their chain.
const WITHOUT_PLACE: &str = "SELECT id, state FROM queue_jobs WHERE queue = ?1 AND state NOT IN (?2, 4, 11, 12, 13) AND rank <> 0 LIMIT ?3";

/// Ready jobs of groups in a line that belongs to no group, and ready jobs with limits that are in
/// no chain.
const WITHOUT_LINE: &str = "SELECT id, state FROM queue_jobs \
    WHERE queue = ?1 AND (state IN (?2, ?2 + 1) AND rank NOT IN (SELECT line FROM queue_groups WHERE queue = ?1) \
    OR state = ?2 + 2 AND rank NOT IN (SELECT chain FROM queue_chains WHERE queue = ?1)) LIMIT ?3";

/// Parked jobs without an entry under their task.
const PARKED_STRAYS: &str =
    "SELECT id, 0 FROM queue_jobs WHERE queue = ?1 AND state = ?2 AND id NOT IN (SELECT id FROM queue_parked WHERE queue = ?1) LIMIT ?3";

/// Entries under a task without a parked job.
const PARKED_HOLLOW: &str =
    "SELECT id, 0 FROM queue_parked WHERE queue = ?1 AND id NOT IN (SELECT id FROM queue_jobs WHERE queue = ?1 AND state = ?2) LIMIT ?3";

/// Held jobs for which no key has an entry.
const HELD_FOR_NOBODY: &str = "SELECT id, state FROM queue_jobs WHERE queue = ?1 AND state = ?2 \
    AND NOT EXISTS (SELECT 1 FROM queue_keyed JOIN queue_keys USING (queue, key) \
    WHERE queue_keyed.queue = ?1 AND queue_keyed.id = queue_jobs.id AND next = queue_jobs.id) LIMIT ?3";

/// Live jobs whose key no job holds. Two kinds are excluded: started jobs that hold their key until
/// they start, and jobs from which an operator has released the key.
const KEY_MISSING: &str = "SELECT id, state FROM queue_keyed JOIN queue_jobs USING (queue, id) \
    WHERE queue = ?1 AND hold <> 'within' AND first > 0 AND state NOT IN (6, 7, 8, 9, ?2) AND NOT (hold = 'started' AND state = 4) \
    AND NOT EXISTS (SELECT 1 FROM queue_keys WHERE queue = ?1 AND key = queue_keyed.key) LIMIT ?3";

/// Jobs of schedules that are recorded as running, but have ended or do not exist.
/// ?1 queue, ?2 the last state, ?3 limit.
const TICKED_HOLLOW: &str = "SELECT id, run FROM queue_ticked WHERE queue = ?1 AND NOT EXISTS (SELECT 1 FROM queue_jobs \
    WHERE queue = ?1 AND id = queue_ticked.id AND state BETWEEN 0 AND ?2 AND state NOT IN (6, 7, 8, 9)) LIMIT ?3";

/// Slots of groups whose jobs are not active, or are in another group.
const SLOT_LEAKED: &str = "SELECT id, name FROM queue_holders AS slot WHERE queue = ?1 AND NOT EXISTS ( \
        SELECT 1 FROM queue_jobs JOIN queue_grouped USING (queue, id) \
        WHERE queue_jobs.queue = ?1 AND queue_jobs.id = slot.id AND state = ?2 AND name = slot.name) LIMIT ?3";

/// Active jobs of groups without a slot.
const SLOT_MISSING: &str = "SELECT job.id, grouped.name FROM queue_jobs AS job CROSS JOIN queue_grouped AS grouped \
        ON grouped.queue = ?1 AND grouped.id = job.id \
    WHERE job.queue = ?1 AND job.state = ?2 \
    AND NOT EXISTS (SELECT 1 FROM queue_holders WHERE queue = ?1 AND name = grouped.name AND id = job.id) LIMIT ?3";

/// Groups whose line is blocked by a job that has ended or does not exist.
/// ?1 queue, ?2 zero, ?3 limit.
const LINE_LEAKED: &str = "SELECT name, front FROM queue_groups WHERE queue = ?1 AND front IS NOT NULL AND NOT EXISTS ( \
        SELECT 1 FROM queue_jobs WHERE queue = ?1 AND id = front AND state NOT IN (6, 7, 8, 9) AND rank >= ?2) LIMIT ?3";

/// Slots of limits whose jobs are not active, or do not have the limit.
const LIMIT_SLOT_LEAKED: &str = "SELECT id, key FROM queue_slots AS slot WHERE queue = ?1 AND NOT EXISTS ( \
        SELECT 1 FROM queue_jobs JOIN queue_limited USING (queue, id) \
        WHERE queue_jobs.queue = ?1 AND queue_jobs.id = slot.id AND state = ?2 \
            AND (instr(queue_limited.keys, slot.key) - 2) % 16 = 0) LIMIT ?3";

/// Active jobs with limits that hold fewer slots than they have keys.
const LIMIT_SLOT_MISSING: &str = "SELECT job.id, limited.keys FROM queue_jobs AS job CROSS JOIN queue_limited AS limited \
        ON limited.queue = ?1 AND limited.id = job.id \
    WHERE job.queue = ?1 AND job.state = ?2 \
    AND (SELECT count(*) FROM queue_slots WHERE queue = ?1 AND id = job.id \
        AND instr(limited.keys, key) > 0) < (length(limited.keys) - 1) / 16 LIMIT ?3";

/// Chains that are shut under a key that no claim will examine. A later check finds out whether the
/// key has room.
/// ?1 queue, ?2 nothing, ?3 limit.
const LIMIT_ASLEEP: &str = "SELECT DISTINCT shut, ?2 FROM queue_chains WHERE queue = ?1 AND shut IS NOT NULL \
    AND NOT EXISTS (SELECT 1 FROM queue_wakes WHERE queue_wakes.queue = ?1 AND queue_wakes.key = queue_chains.shut) LIMIT ?3";

/// Chains without a ready job.
/// ?1 queue, ?2 state (ready, with limits), ?3 limit.
const LIMIT_HOLLOW: &str = "SELECT chain, name FROM queue_chains AS chains WHERE queue = ?1 \
    AND NOT EXISTS (SELECT 1 FROM queue_jobs WHERE queue_jobs.queue = ?1 AND state = ?2 AND rank = chains.chain) LIMIT ?3";

/// Entries of the index of tags without a job.
/// ?1 queue, ?2 anything, ?3 limit.
const TAG_LEAKED: &str = "SELECT id, digest FROM queue_tags WHERE queue = ?1 AND ?2 IS NOT NULL \
    AND NOT EXISTS (SELECT 1 FROM queue_jobs WHERE queue = ?1 AND id = queue_tags.id) LIMIT ?3";

impl Check {
    /// Whether the check reads all jobs or groups, which may be many.
    pub(super) fn is_thorough(self) -> bool {
        matches!(self, Check::WithoutPlace | Check::WithoutLine | Check::GroupIndexWrong | Check::TagStrange | Check::TagMissing)
    }

    pub(super) fn kind(self) -> DamageKind {
        match self {
            Check::LeaseEndless => DamageKind::LaneWithoutLease,
            Check::LeaseTooLong => DamageKind::LeaseTooLong,
            Check::RecordWithoutLane => DamageKind::RecordWithoutLane,
            Check::WorkerWithoutRecord => DamageKind::WorkerWithoutRecord,
            Check::HeldByNobody => DamageKind::HeldByNobody,
            Check::WithoutPlace | Check::WithoutLine | Check::ParkedStray => DamageKind::JobWithoutPlace,
            Check::ParkedHollow => DamageKind::IdWithoutJob,
            Check::KeyLeaked => DamageKind::KeyLeaked,
            Check::HeldForNobody => DamageKind::HeldForNobody,
            Check::KeyMissing => DamageKind::KeyMissing,
            Check::RunWithoutJob => DamageKind::RunWithoutJob,
            Check::SlotLeaked | Check::LimitSlotLeaked => DamageKind::SlotLeaked,
            Check::SlotMissing | Check::LimitSlotMissing => DamageKind::SlotMissing,
            Check::LineLeaked => DamageKind::LineLeaked,
            Check::LimitAsleep | Check::LimitHollow => DamageKind::LimitIndexWrong,
            Check::GroupIndexWrong => DamageKind::GroupIndexWrong,
            Check::TagLeaked | Check::TagStrange => DamageKind::TagLeaked,
            Check::TagMissing => DamageKind::TagMissing,
        }
    }

    /// The findings of the check.
    pub(super) fn find(self, tx: &Tx<'_>, queue: &Queue<'_>) -> Result<Vec<Found>, Failed> {
        let rows = |sql: &str, than: i64| rows(tx, sql, queue, than);
        Ok(match self {
            Check::LeaseEndless => rows(LEASE_ENDLESS, FOREVER)?,
            Check::LeaseTooLong => rows(LEASE_TOO_LONG, tx.now)?,
            Check::RecordWithoutLane => rows(RECORD_WITHOUT_LANE, 0)?,
            Check::WorkerWithoutRecord => workers_without_record(tx, queue)?,
            Check::HeldByNobody => rows(HELD_BY_NOBODY, ACTIVE)?,
            Check::WithoutPlace => rows(WITHOUT_PLACE, READY)?,
            Check::WithoutLine => rows(WITHOUT_LINE, LINED)?,
            Check::ParkedStray => rows(PARKED_STRAYS, PARKED)?,
            Check::ParkedHollow => rows(PARKED_HOLLOW, PARKED)?,
            Check::KeyLeaked => rows(sql!("key_leaked.sql"), HELD)?,
            Check::HeldForNobody => rows(HELD_FOR_NOBODY, HELD)?,
            Check::KeyMissing => rows(KEY_MISSING, HELD)?,
            Check::RunWithoutJob => rows(TICKED_HOLLOW, HELD)?,
            Check::SlotLeaked => rows(SLOT_LEAKED, ACTIVE)?,
            Check::SlotMissing => rows(SLOT_MISSING, ACTIVE)?,
            Check::LineLeaked => rows(LINE_LEAKED, 0)?,
            Check::LimitSlotLeaked => rows(LIMIT_SLOT_LEAKED, ACTIVE)?,
            Check::LimitSlotMissing => rows(LIMIT_SLOT_MISSING, ACTIVE)?,
            Check::LimitAsleep => shut_keys_with_room(tx, queue, rows(LIMIT_ASLEEP, 0)?)?,
            Check::LimitHollow => rows(LIMIT_HOLLOW, CHAINED)?,
            Check::GroupIndexWrong => wrongly_eligible(tx, queue)?,
            Check::TagLeaked => rows(TAG_LEAKED, 0)?,
            Check::TagStrange => wrong_tags(tx, queue)?,
            Check::TagMissing => missing_tags(tx, queue)?,
        })
    }

    /// The subject of a finding in the form in which operators search for it.
    pub(super) fn describe_subject(self, (subject, more): &Found) -> String {
        let known = match (self, subject, more) {
            (Check::KeyLeaked, Value::Blob(key), _) => UniqueKey::from_bytes(key).map(|key| key.to_string()),
            (Check::LimitAsleep, Value::Blob(key), _) => LimitKey::from_bytes(key).map(|key| key.to_string()),
            (Check::LineLeaked | Check::GroupIndexWrong, Value::Blob(name), _) | (Check::LimitHollow, _, Value::Blob(name)) => {
                GroupName::of_stored(name).map(|name| name.to_string())
            }
            // The names of lanes and workers, which may be invalid UTF-8.
            (Check::LeaseEndless | Check::LeaseTooLong | Check::RecordWithoutLane | Check::WorkerWithoutRecord, Value::Blob(_), _) => None,
            (_, Value::Blob(id), _) => JobId::from_bytes(id).ok().map(|id| id.to_string()),
            (_, other, _) => Some(format!("{other:?}")),
        };
        let bytes: &[u8] = if let Value::Blob(bytes) = subject { bytes } else { &[] };
        known.unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned())
    }
}

/// The findings of a query. ?1 of the statement is the queue, ?3 the limit.
fn rows(tx: &Tx<'_>, sql: &str, queue: &Queue<'_>, than: i64) -> rusqlite::Result<Vec<Found>> {
    let mut statement = tx.sql(sql)?;
    statement.query_map(params![queue.key, than, Unsigned(STEP)], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// The workers that have a lane, and their records.
const LANE_PROCESSES: &str = "SELECT DISTINCT CAST(process AS BLOB), record FROM queue_lanes \
        LEFT JOIN queue_workers USING (queue, process) WHERE queue = ?1 AND NOT fenced";

/// Workers with a lane whose record is missing or damaged. Invalid names do not belong to workers.
fn workers_without_record(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Vec<Found>> {
    let mut statement = tx.sql(LANE_PROCESSES)?;
    let workers = statement.query_map([queue.key], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Option<Vec<u8>>>(1)?)))?;
    let workers: Vec<(Vec<u8>, Option<Vec<u8>>)> = workers.collect::<rusqlite::Result<_>>()?;
    let is_damaged = |(worker, record): &(Vec<u8>, Option<Vec<u8>>)| {
        let is_worker = str::from_utf8(worker).is_ok_and(|worker| worker.parse::<ProcessId>().is_ok());
        is_worker && record.as_ref().is_none_or(|record| WorkerInfo::is_damaged(record))
    };
    Ok(workers.into_iter().filter(is_damaged).take(STEP).map(|(worker, _)| (Value::Blob(worker), Value::Null)).collect())
}

/// The keys that have a free slot.
fn shut_keys_with_room(tx: &Tx<'_>, queue: &Queue<'_>, keys: Vec<Found>) -> rusqlite::Result<Vec<Found>> {
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

/// Whether the first job in the line of a group may be examined, apart from suspects. A job with
/// limits may if its chain is open.
const GROUP_FIRST: &str = "SELECT is_open FROM ( \
        SELECT * FROM (SELECT (pos >> 56) - 1 AS priority, pos & 0xffffffffffffff AS number, 1 AS is_open FROM queue_jobs \
            WHERE queue = ?1 AND state = ?4 AND rank = ?3 ORDER BY pos LIMIT 1) \
        UNION ALL SELECT priority, (SELECT min(pos) FROM queue_jobs WHERE queue = ?1 AND state = ?5 AND rank = chain), shut IS NULL \
            FROM queue_chains WHERE queue = ?1 AND name = ?2 \
    ) WHERE number IS NOT NULL ORDER BY priority, number LIMIT 1";

/// Groups that are eligible without a job that may start, and groups that have such a job but are
/// not eligible.
fn wrongly_eligible(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Vec<Found>> {
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
        let (name, line, eligible): (Vec<u8>, i64, i64) = (group.get(0)?, group.get(1)?, group.get(2)?);
        let running: u64 = Unsigned::get(group, 3)?;
        let (front, may_start, may_doubt): (Option<i64>, bool, bool) = (group.get(4)?, group.get(5)?, group.get(6)?);
        // Jobs that have limits but no group.
        let rule = if name == b"\0\0" { GroupRule::default() } else { rule(&name).over(others) };
        let doubt = if may_doubt { ELIGIBLE_SUSPECT } else { 0 };
        let due = match rule.order {
            _ if rule.paused || rule.cap.is_some_and(|cap| running >= u64::from(cap)) => 0,
            Some(GroupOrder::Ordered) if front.is_some() => front.unwrap_or_default(),
            Some(GroupOrder::Ordered | GroupOrder::SkipFailed) => {
                let first = tx.sql(GROUP_FIRST)?.query_row(params![queue.key, name, line, LINED, CHAINED], |row| row.get(0));
                first.optional()?.unwrap_or(0) | doubt
            }
            _ if may_start => ELIGIBLE | doubt,
            _ => doubt,
        };
        if due != eligible {
            found.push((Value::Blob(name), Value::Null));
        }
    }
    Ok(found)
}

/// All entries of the index of tags with the envelopes of their jobs.
const TAG_ENTRIES: &str = "SELECT tag.id, tag.digest, job.envelope FROM queue_tags AS tag CROSS JOIN queue_jobs AS job \
        ON job.queue = tag.queue AND job.id = tag.id WHERE tag.queue = ?1";

/// Entries of the index of tags whose job does not have the tag.
fn wrong_tags(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Vec<Found>> {
    let mut entries = tx.sql(TAG_ENTRIES)?;
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

/// Jobs that may have tags: the key `g` is somewhere in their envelopes.
const TAG_HOLDERS: &str = "SELECT id, envelope FROM queue_jobs WHERE queue = ?1 AND instr(envelope, x'a167') > 0";

/// Jobs with tags that are missing in the index, and their envelopes.
fn missing_tags(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Vec<Found>> {
    const KNOWN: &str = "SELECT 1 FROM queue_tags WHERE queue = ?1 AND digest = ?2 AND id = ?3";
    let mut jobs = tx.sql(TAG_HOLDERS)?;
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
