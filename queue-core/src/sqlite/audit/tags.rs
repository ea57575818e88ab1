//! Entries of the index of tags without their jobs, and jobs whose tags it does not have.

use rusqlite::{params, types::Value};

use super::{STEP, rows, shown};
use crate::{
    broker::{Audit, Damage, DamageKind},
    sqlite::{
        connection::{
            statement::sql,
            tx::{Failed, Queue, Tx},
        },
        doors,
    },
    tags::tag_digests,
};

pub(super) fn find(tx: &Tx<'_>, queue: &Queue<'_>, how: Audit, damages: &mut Vec<Damage>) -> Result<(), Failed> {
    const FORGET: &str = "DELETE FROM queue_tags WHERE queue = ?1 AND id = ?2 AND digest = ?3";
    let mut leaked = rows(tx, sql!("tag_leaked.sql"), queue, 0)?;
    if how.thorough {
        leaked.append(&mut strange(tx, queue)?);
    }
    for (id, digest) in &leaked {
        damages.push(Damage { kind: DamageKind::TagLeaked, subject: shown(id) });
        if how.repair {
            tx.sql(FORGET)?.execute(params![queue.key, id, digest])?;
        }
    }
    let missing = if how.thorough { missing(tx, queue)? } else { Vec::new() };
    for (id, envelope) in &missing {
        damages.push(Damage { kind: DamageKind::TagMissing, subject: shown(id) });
        if let (true, Value::Blob(id)) = (how.repair, id) {
            doors::tags::note(tx, queue, id, envelope)?;
        }
    }
    Ok(())
}

/// Entries whose job does not have the tag.
fn strange(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Vec<(Value, Value)>> {
    let mut entries = tx.sql(sql!("tag_entries.sql"))?;
    let mut entries = entries.query([queue.key])?;
    let mut found = Vec::new();
    while let Some(entry) = entries.next()? {
        let (id, digest, envelope): (_, _, Vec<u8>) = (entry.get(0)?, entry.get::<_, Value>(1)?, entry.get(2)?);
        if !tag_digests(&envelope).iter().any(|own| digest == Value::Blob(own.to_vec())) {
            found.push((id, digest));
        }
        if found.len() == STEP {
            break;
        }
    }
    Ok(found)
}

/// Jobs with tags that the index does not have, and their envelopes.
fn missing(tx: &Tx<'_>, queue: &Queue<'_>) -> rusqlite::Result<Vec<(Value, Vec<u8>)>> {
    const KNOWN: &str = "SELECT 1 FROM queue_tags WHERE queue = ?1 AND digest = ?2 AND id = ?3";
    let mut jobs = tx.sql(sql!("tag_holders.sql"))?;
    let mut jobs = jobs.query([queue.key])?;
    let (mut found, mut known) = (Vec::new(), tx.sql(KNOWN)?);
    while let Some(job) = jobs.next()? {
        let (id, envelope): (_, Vec<u8>) = (job.get::<_, Value>(0)?, job.get(1)?);
        for digest in tag_digests(&envelope) {
            if !known.exists(params![queue.key, digest, id])? {
                found.push((id, envelope));
                break;
            }
        }
        if found.len() == STEP {
            break;
        }
    }
    Ok(found)
}
