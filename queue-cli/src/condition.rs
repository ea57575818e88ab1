//! The condition of the broker, for `status` and `doctor`.

use queue_core::broker::{Advice, Condition};
use serde::Serialize;

use super::doctor::Problem;

/// A server whose memory is used up to this percentage is soon full.
const SOON_FULL: u64 = 90;

/// The JSON fields of the condition.
#[derive(Serialize)]
pub(super) struct Shown {
    /// Whether new jobs are refused for lack of room.
    full: bool,
    /// The present problem, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    used_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_bytes: Option<u64>,
    /// Problems of the location of the database file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    advice: Vec<String>,
}

impl From<Condition> for Shown {
    fn from(condition: Condition) -> Self {
        Shown {
            full: condition.is_full(),
            trouble: condition.trouble.map(|trouble| trouble.to_string()),
            used_bytes: condition.used,
            limit_bytes: condition.limit,
            free_bytes: condition.free,
            log_bytes: condition.log,
            advice: condition.advice.into_iter().map(|Advice { problem, advice }| format!("{problem}; {advice}")).collect(),
        }
    }
}

/// The reason why the write-ahead log is large. A command reads the file only for a moment, and
/// does not name itself.
fn large_log(condition: &Condition) -> Option<String> {
    let mut others = condition.clone();
    others.readers.retain(|process| *process != std::process::id());
    others.large_log()
}

/// The text lines of the condition.
pub(super) fn text(condition: &Condition) -> String {
    let room = condition.room().map(|room| format!("{room}\n"));
    let trouble = condition.trouble.as_ref().map(|trouble| format!("{}: {trouble}; {}\n", trouble.name().to_uppercase(), trouble.advice()));
    let log = large_log(condition).map(|log| format!("{log}\n"));
    let advice = condition.advice.iter().map(|Advice { problem, advice }| format!("{problem}; {advice}\n"));
    [room, trouble, log].into_iter().flatten().chain(advice).collect()
}

/// The problems for `doctor`.
pub(super) fn problems(condition: &Condition) -> Vec<Problem> {
    let trouble = condition.trouble.as_ref().map(|trouble| Problem::of_broker(format!("{}: {trouble}", trouble.name()), trouble.advice()));
    let log = large_log(condition).map(|log| Problem::advice(None, log, "end the transaction of that process, or stop it"));
    let soon = condition.percent().filter(|percent| trouble.is_none() && *percent >= SOON_FULL);
    let room = soon.and(condition.room());
    let room =
        room.map(|room| Problem::advice(None, format!("the broker is nearly full: {room}"), "raise `maxmemory`, or let workers catch up"));
    trouble
        .into_iter()
        .chain(room)
        .chain(log)
        .chain(condition.advice.iter().map(|Advice { problem, advice }| Problem::advice(None, problem, *advice)))
        .collect()
}
