//! What a wait that timed out sees of queues: a text without ages and leases, which change while
//! nothing happens.

use std::fmt::Write;

use queue_core::{
    Client, Error,
    broker::{Audit, Counter, DynBroker, JobState},
    inspect::{Inspector, JobRecord},
};

/// Most queues of a broker that are looked at, and most jobs of a queue in one state.
const QUEUES: usize = 20;
const JOBS: usize = 100;

/// All queues of a broker with their topics, or one queue.
pub(super) async fn queues(broker: &DynBroker, queue: Option<&str>) -> Result<String, String> {
    let inspector = Client::with_broker(broker.clone()).inspector();
    let looked = async {
        let mut text = String::new();
        if let Some(queue) = queue {
            one(broker, &inspector, queue, &mut text).await?;
            return Ok(text);
        }
        let queues = broker.queues().await?;
        for queue in queues.iter().take(QUEUES) {
            one(broker, &inspector, queue, &mut text).await?;
        }
        for name in broker.topics().await?.iter().take(QUEUES) {
            let Some(topic) = broker.topic(name).await? else { continue };
            let _ = writeln!(text, "topic {name}: {} events added, {} kept", topic.added, topic.entries);
            for subscription in topic.subscriptions {
                let (name, cursor, rewinding) = (subscription.name, subscription.cursor, subscription.rewinding);
                let _ = writeln!(text, "  subscription {name}: at {cursor}, behind {:?}, rewinding {rewinding}", subscription.behind);
            }
        }
        if text.is_empty() {
            text.push_str("the broker has no queue\n");
        }
        Ok::<_, Error>(text)
    };
    looked.await.map_err(|error| error.to_string())
}

async fn one(broker: &DynBroker, inspector: &Inspector, queue: &str, text: &mut String) -> Result<(), Error> {
    let stats = broker.stats(queue).await?;
    let counters: Vec<String> = Counter::ALL
        .into_iter()
        .map(|counter| (counter, stats.total(counter)))
        .filter(|(_, total)| *total > 0)
        .map(|(counter, total)| format!("{counter} {total}"))
        .collect();
    let paused = if stats.paused { ", paused" } else { "" };
    let _ = writeln!(text, "queue {queue}: {} jobs, {} lanes{paused}; counters: {}", stats.jobs(), stats.lanes, counters.join(", "));
    for damage in broker.audit(queue, Audit { repair: false, thorough: true }).await? {
        let _ = writeln!(text, "  damage: {}: {}", damage.kind.name(), damage.subject);
    }
    for operation in broker.operations(queue).await? {
        let _ =
            writeln!(text, "  operation {}: {:?}, step {}, {} changed", operation.id, operation.state, operation.step, operation.changed);
    }
    for state in JobState::ALL.into_iter().filter(|state| stats.count(*state) > 0) {
        let listed = broker.list(queue, state, 0, JOBS).await?.jobs;
        let mut ids: Vec<_> = listed.into_iter().map(|job| job.id).collect();
        ids.sort();
        for record in inspector.why_many(queue, &ids).await?.into_iter().flatten() {
            job(&record, text);
        }
        let _ = writeln!(text, "  {} jobs are {state}", stats.count(state));
    }
    Ok(())
}

fn job(record: &JobRecord, text: &mut String) {
    let _ = write!(text, "  job {} {}", record.address.id, record.state);
    if let Some(receipt) = &record.receipt {
        let _ = write!(text, ", receipt {receipt}");
    }
    for (name, count) in [
        ("failures", record.failures),
        ("crashes", record.crashes),
        ("snoozes", record.snoozes),
        ("rate limited", record.rate_limited),
        ("returns", record.returns),
    ] {
        if count > 0 {
            let _ = write!(text, ", {name} {count}");
        }
    }
    if let Some(progress) = &record.progress {
        let _ = write!(text, ", progress {progress:?}");
    }
    for reason in &record.waiting {
        let _ = write!(text, "; {reason}");
        if let Some(until) = reason.until() {
            let _ = write!(text, " until {until:?}");
        }
    }
    text.push('\n');
}

/// The lines of the first text that the second lacks, and those of the second that the first lacks.
pub(super) fn changes(first: &str, second: &str) -> String {
    let lacks = |text: &str, line: &str| !text.lines().any(|other| other == line);
    let gone = first.lines().filter(|line| lacks(second, line)).map(|line| format!("- {line}\n"));
    let new = second.lines().filter(|line| lacks(first, line)).map(|line| format!("+ {line}\n"));
    gone.chain(new).collect()
}
