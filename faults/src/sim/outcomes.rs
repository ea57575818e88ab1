//! What happens in a life: a simulation in which something never does says nothing about it.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Ending, Operation, Phase, Record};

/// How often each outcome was seen.
pub type Outcomes = BTreeMap<&'static str, usize>;

/// Everything that has to happen in enough lives.
pub const OUTCOMES: [&str; 23] = [
    "published",
    "publish unknown",
    "trimmed",
    "rewound",
    "rewind given up",
    "done",
    "failed",
    "retried",
    "snoozed",
    "dead",
    "panicked",
    "killed",
    "cut off",
    "reclaimed",
    "crashed",
    "turn unanswered",
    "Forgotten",
    "enqueue refused",
    "enqueue unknown",
    "deadline met",
    "settled later",
    "cancelled",
    "lease lost",
];

/// The outcomes of a history, and of a store that has forgotten lanes so often.
pub(super) fn count(records: &[Record], forgotten: usize, deadlines_us: &BTreeMap<String, u64>) -> Outcomes {
    let mut outcomes = Outcomes::from([("Forgotten", forgotten)]);
    let mut open: BTreeMap<(u64, bool), (u64, bool)> = BTreeMap::new();
    let mut rewinding: BTreeSet<&String> = BTreeSet::new();
    for record in records {
        if let (Operation::Rewind { subscription, .. }, Phase::Ok) = (&record.operation, record.phase) {
            rewinding.remove(subscription);
        }
        let name = match (&record.operation, record.phase) {
            (Operation::Finish { ending, .. }, Phase::Ok) => match ending {
                Ending::Ack => "done",
                Ending::Nack { .. } => "failed",
                Ending::Snooze { .. } => "snoozed",
                Ending::Bury { .. } => "dead",
                _ => continue,
            },
            (Operation::Finish { .. }, Phase::Fail) => "lease lost",
            (Operation::Finish { .. }, Phase::Unknown) => "turn unanswered",
            (Operation::Claim { crashes: 1.., .. }, _) => "crashed",
            (Operation::Claim { attempts: 1.., .. }, _) => "retried",
            (Operation::Cancel { .. }, Phase::Ok) => "cancelled",
            (Operation::End { how, .. }, _) if how == "panicked" => "panicked",
            (Operation::Fence { .. }, Phase::Ok) => "reclaimed",
            (Operation::Publish { .. }, Phase::Ok) => "published",
            (Operation::Publish { .. }, Phase::Unknown) => "publish unknown",
            (Operation::Trim { entries: 1.., .. }, _) => "trimmed",
            (Operation::Rewind { .. }, Phase::Ok) => "rewound",
            (Operation::Rewind { subscription, .. }, Phase::Invoke) => {
                // Another one comes before it has ended.
                if !rewinding.insert(subscription) { "rewind given up" } else { continue }
            }
            (Operation::Fault { name, .. }, _) if name == "kill" => "killed",
            (Operation::Fault { .. }, _) => "cut off",
            (Operation::Enqueue { key, existing, .. }, Phase::Invoke) => {
                open.insert((*key, *existing), (record.mono_us, false));
                continue;
            }
            (Operation::Enqueue { key, existing, .. }, phase) => {
                let Some((began, was_unknown)) = open.get_mut(&(*key, *existing)) else { continue };
                let name = match phase {
                    Phase::Fail => "enqueue refused",
                    Phase::Unknown => "enqueue unknown",
                    _ if *was_unknown => "settled later",
                    _ => continue,
                };
                let in_time = deadlines_us.get(&record.process).is_none_or(|deadline| record.mono_us - *began < *deadline);
                if phase != Phase::Ok && !in_time {
                    *outcomes.entry("deadline met").or_default() += 1;
                }
                *was_unknown |= phase == Phase::Unknown;
                name
            }
            _ => continue,
        };
        *outcomes.entry(name).or_default() += 1;
    }
    outcomes
}
