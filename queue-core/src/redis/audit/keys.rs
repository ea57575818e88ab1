//! Unique keys that no job holds although one could, jobs that lack their key, jobs that are held
//! for a free key, and runs of schedules without a job.

use super::{Pass, STEP};
use crate::{
    address::JobId,
    broker::{Damage, DamageKind, UniqueKey},
    error::Result,
    redis::keys::Kind,
};

/// The keys to check, the checks and the damage that each finds. Leaked unique keys come first:
/// held jobs then get them.
const CHECKS: [(Kind, &str, DamageKind); 4] = [
    (Kind::Unique, "unique", DamageKind::KeyLeaked),
    (Kind::Held, "held", DamageKind::HeldForNobody),
    (Kind::Keyed, "keyed", DamageKind::KeyMissing),
    (Kind::Ticked, "ticked", DamageKind::RunWithoutJob),
];

pub(super) async fn find(pass: &Pass<'_>, damages: &mut Vec<Damage>) -> Result<()> {
    for (kind, what, damage) in CHECKS {
        let mut cursor = "0".to_owned();
        loop {
            let (found, further) = pass.scan("HSCAN", kind, &cursor).await?;
            let names: Vec<Vec<u8>> = found.into_iter().map(|(name, _)| name).collect();
            for names in names.chunks(STEP) {
                let broken = pass.check_each(what, names).await?;
                damages.extend(broken.iter().map(|subject| Damage { kind: damage, subject: describe_subject(subject) }));
            }
            cursor = further;
            if cursor == "0" {
                break;
            }
        }
    }
    Ok(())
}

/// The subject of a finding, a key or an id: a key has as many bytes as a generated id, and differs
/// by the version. Both are shown in the form in which operators search for them.
fn describe_subject(subject: &[u8]) -> String {
    match (JobId::from_bytes(subject), UniqueKey::from_bytes(subject)) {
        (Ok(id), _) if id.is_given() || id.made_at_ms().is_some() => id.to_string(),
        (_, Some(key)) => key.to_string(),
        _ => String::from_utf8_lossy(subject).into_owned(),
    }
}
