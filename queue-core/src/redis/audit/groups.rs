//! Slots without their jobs, jobs without their slots, lines that a missing job blocks, and groups
//! whose index is wrong.

use super::{Pass, STEP, damage};
use crate::{
    broker::{Damage, DamageKind, GroupName, LimitKey},
    error::Result,
    redis::{
        groups::{self, job_of_slot},
        keys::Kind,
    },
};

/// The checks: command, key, check of the script, and damage. Slots come first, because free slots
/// decide which groups may be served.
const CHECKS: [(&str, Kind, &str, DamageKind); 9] = [
    ("ZSCAN", Kind::Holders, "holders", DamageKind::SlotLeaked),
    ("HSCAN", Kind::Grouped, "grouped", DamageKind::SlotMissing),
    ("HSCAN", Kind::Front, "front", DamageKind::LineLeaked),
    ("HSCAN", Kind::Chains, "chains", DamageKind::LimitIndexWrong),
    ("ZSCAN", Kind::Shut, "shut", DamageKind::LimitIndexWrong),
    ("ZSCAN", Kind::Numbered, "numbered", DamageKind::LimitIndexWrong),
    ("ZSCAN", Kind::Line, "unchained", DamageKind::LimitIndexWrong),
    ("ZSCAN", Kind::Next, "eligible", DamageKind::GroupIndexWrong),
    ("ZSCAN", Kind::Doubts, "eligible", DamageKind::GroupIndexWrong),
];

pub(super) async fn find(pass: &Pass<'_>, thorough: bool, damages: &mut Vec<Damage>) -> Result<()> {
    for (verb, kind, what, found) in CHECKS {
        // Jobs and groups may be many. Running jobs are few.
        if matches!(kind, Kind::Grouped | Kind::Next | Kind::Doubts | Kind::Numbered | Kind::Line) && !thorough {
            continue;
        }
        let mut cursor = "0".to_owned();
        loop {
            let (names, further) = pass.scan(verb, kind, &cursor).await?;
            let names: Vec<Vec<u8>> = names.into_iter().map(|(name, _)| name).collect();
            for names in names.chunks(STEP) {
                let broken = pass.check_each(what, names).await?;
                damages.extend(broken.iter().map(|subject| Damage { kind: found, subject: describe_subject(kind, subject) }));
            }
            cursor = further;
            if cursor == "0" {
                break;
            }
        }
    }
    if thorough { find_unlisted_groups(pass, damages).await } else { Ok(()) }
}

/// Members of the line that are the second of their job, or whose job is elsewhere.
pub(super) async fn find_doubled(pass: &Pass<'_>, damages: &mut Vec<Damage>) -> Result<()> {
    let mut cursor = "0".to_owned();
    loop {
        let (members, further) = pass.scan("ZSCAN", Kind::Line, &cursor).await?;
        let members: Vec<Vec<u8>> = members.into_iter().map(|(member, _)| member).collect();
        for members in members.chunks(STEP) {
            for (what, kind) in [("line", DamageKind::IdWithoutJob), ("line_doubled", DamageKind::IdInTwoPlaces)] {
                let broken = pass.check_each(what, members).await?;
                damages.extend(broken.iter().map(|member| damage(kind, &groups::id_in(member).unwrap_or_default())));
            }
        }
        cursor = further;
        if cursor == "0" {
            return Ok(());
        }
    }
}

/// Groups that have a job that may start but are not listed as eligible.
async fn find_unlisted_groups(pass: &Pass<'_>, damages: &mut Vec<Damage>) -> Result<()> {
    let mut from = Vec::new();
    loop {
        let mut answer = pass.check_each("asleep", &[from, STEP.to_string().into_bytes()]).await?.into_iter();
        from = answer.next().unwrap_or_default();
        damages.extend(answer.map(|group| Damage { kind: DamageKind::GroupIndexWrong, subject: group_label(&group) }));
        if from.is_empty() {
            return Ok(());
        }
    }
}

fn group_label(group: &[u8]) -> String {
    GroupName::of_stored(group).map_or_else(|| String::from_utf8_lossy(group).into_owned(), |group| group.to_string())
}

fn describe_subject(kind: Kind, subject: &[u8]) -> String {
    match kind {
        Kind::Holders => damage(DamageKind::SlotLeaked, job_of_slot(subject).unwrap_or(subject)).subject,
        Kind::Grouped => damage(DamageKind::SlotMissing, subject).subject,
        Kind::Shut => subject.get(..LimitKey::BYTES).and_then(LimitKey::from_bytes).map_or_else(String::new, |key| key.to_string()),
        Kind::Line => damage(DamageKind::LimitIndexWrong, &groups::id_in(subject).unwrap_or_default()).subject,
        Kind::Chains => group_label(groups::group_in(subject).unwrap_or(subject)),
        _ => group_label(subject),
    }
}
