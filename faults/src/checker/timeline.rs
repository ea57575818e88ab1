//! The shortest explanation of a finding: what happened to that job, in order.

use super::facts::{About, Facts};
use crate::history::{Operation, Phase, Record, subscription_of};

/// More lines than these explain nothing.
const MOST: usize = 60;

/// The timeline of what a finding is about, in seconds since the first record.
pub(super) fn of(facts: &Facts<'_>, about: &About) -> Vec<String> {
    let began = facts.records.first().map_or(0, |record| record.wall_us);
    let lanes: Vec<&str> = match about {
        About::Job(id) => facts.jobs.get(id.as_str()).map_or(Vec::new(), |job| job.deliveries.values().map(|one| one.lane).collect()),
        _ => Vec::new(),
    };
    let key = match about {
        About::Job(id) => facts.jobs.get(id.as_str()).and_then(|job| job.key),
        About::Key(key) => Some(*key),
        _ => None,
    };
    let concerns = |record: &&Record| match (&record.operation, about) {
        (Operation::Fault { .. } | Operation::Heal, About::Job(_) | About::Key(_) | About::Process(_)) => true,
        (Operation::Fence { lane }, _) => lanes.contains(&lane.as_str()),
        (Operation::Enqueue { key: of, .. } | Operation::Publish { key: of, .. }, _) if Some(*of) == key => true,
        (Operation::Subscribe { subscription, .. } | Operation::Rewind { subscription, .. }, About::Job(id)) => {
            subscription_of(id) == Some(subscription)
        }
        (operation, About::Job(id)) => operation.id() == Some(id),
        (Operation::Start { key: of, .. }, About::Key(_)) => Some(*of) == key,
        (operation, About::Process(process)) => record.process == *process && matches!(operation, Operation::Up { .. } | Operation::Down),
        _ => false,
    };
    let mut lines: Vec<String> = facts.records.iter().filter(concerns).map(|record| line(record, began)).collect();
    if let About::Job(id) = about {
        for held in facts.jobs.get(id.as_str()).into_iter().flat_map(|job| &job.held) {
            let reason = held.reason.as_deref().map(|reason| format!(", {reason}")).unwrap_or_default();
            lines.push(format!("   in the end  {} (failures {}, crashes {}{reason})", held.state, held.attempts, held.crashes));
        }
    }
    if lines.len() > MOST {
        let left_out = lines.len() - MOST;
        lines.splice(MOST / 2..MOST / 2 + left_out, [format!("   … {left_out} more …")]);
    }
    lines
}

fn line(record: &Record, began: u64) -> String {
    let at = record.wall_us.saturating_sub(began) as f64 / 1e6;
    let phase = match record.phase {
        Phase::Invoke => "?",
        Phase::Ok => "ok",
        Phase::Fail => "refused",
        Phase::Unknown => "no answer",
    };
    let what = match &record.operation {
        Operation::Enqueue { key, id, delay_ms, existing, .. } => {
            let delay = if *delay_ms > 0 { format!(", delay {delay_ms} ms") } else { String::new() };
            format!(
                "enqueue {key}{}{delay}{}",
                id.as_ref().map(|id| format!(" as {id}")).unwrap_or_default(),
                if *existing { ", existing" } else { "" }
            )
        }
        Operation::Publish { key, id, again, .. } => {
            format!("publish {key}{}{}", id.as_ref().map(|id| format!(" as {id}")).unwrap_or_default(), if *again { ", again" } else { "" })
        }
        Operation::Subscribe { subscription, begin } => format!("subscribe {subscription} from {begin:?}"),
        Operation::Rewind { subscription, to } => format!("rewind {subscription} to {to:?}"),
        Operation::Trim { entries, lost } => format!("trim: {entries} events, {lost} lost"),
        Operation::Tick { schedule, tick_ms, .. } => format!("tick {tick_ms} of {schedule}"),
        Operation::Claim { lane, claim, attempts, crashes, .. } => {
            format!("claim {claim} by {lane} (failures {attempts}, crashes {crashes})")
        }
        Operation::Start { claim, .. } => format!("start of claim {claim}"),
        Operation::End { claim, how, .. } => format!("end of claim {claim}: {how}"),
        Operation::Finish { claim, seq, ending, .. } => {
            let delay = if ending.delay_ms() > 0 { format!(" for {} ms", ending.delay_ms()) } else { String::new() };
            format!("{}{delay} of claim {claim} in turn {seq}", ending.name())
        }
        Operation::Renew { lane } => format!("renewal of {lane}"),
        Operation::Ask { lane, seq } => format!("{lane} asks for jobs in turn {seq}"),
        Operation::Fence { lane } => format!("fence of {lane}"),
        Operation::Cancel { .. } => "cancel".to_owned(),
        Operation::Requeue { .. } => "requeue".to_owned(),
        Operation::Edit { .. } => "edit".to_owned(),
        Operation::Cap { cap } => format!("{cap} of each key may run"),
        Operation::Delete { .. } => "delete".to_owned(),
        Operation::Up { concurrency, .. } => format!("up, {concurrency} at once"),
        Operation::Down => "down".to_owned(),
        Operation::Fault { name, target } => format!("*** {name}: {target}"),
        Operation::Heal => "*** all harm ends".to_owned(),
    };
    format!("{at:>11.6} s  {:<8} {what} [{phase}]", record.process)
}
