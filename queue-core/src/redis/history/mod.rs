//! The history of a queue: the reports of workers, and its readers.

use futures_util::future::try_join_all;

use crate::{
    broker::history::{FailurePattern, History, HistorySpan, OTHERS, Report, SAMPLE, StoredHistory, Tally, recent},
    error::Result,
    redis::{
        RedisBroker,
        keys::Kind,
        script::{FAILURES, HISTORY, REPORT},
        values::{array, bytes, display_text, next, number, text},
    },
};

pub(in crate::redis) async fn report(broker: &RedisBroker, report: &Report) -> Result<()> {
    report.check()?;
    let mut call = REPORT.call(&broker.keys, &report.queue);
    call.arg(report.process.to_string()).arg(report.seq);
    for (task, tally) in &report.tasks {
        call.arg(&**task).arg(tally.encoded());
    }
    for failure in &report.failures {
        call.arg(format!("\0{}", failure.fingerprint)).arg(failure.encoded());
    }
    if let Some(outbox) = &report.outbox {
        call.arg(format!("\u{1}{}", outbox.name())).arg(outbox.encoded());
    }
    broker.script(&report.queue, &REPORT, call).await.map(drop)
}

pub(in crate::redis) async fn failures(broker: &RedisBroker, queue: &str) -> Result<Vec<FailurePattern>> {
    let mut values = array(broker.script(queue, &FAILURES, FAILURES.call(&broker.keys, queue)).await?)?.into_iter();
    let now_ms = number(next(&mut values)?)?;
    let mut stored = array(next(&mut values)?)?.into_iter();
    let mut kinds = Vec::with_capacity(stored.len() / 2);
    while let (Some(print), Some(kind)) = (stored.next(), stored.next()) {
        // Another program has left this value, which is not a pattern.
        let print = text(print).ok().and_then(|print| print.parse().ok());
        kinds.extend(print.and_then(|print| FailurePattern::decoded(print, &bytes(kind).ok()?)));
    }
    Ok(recent(kinds, now_ms))
}

/// Reads the names first, then the rows of each.
pub(in crate::redis) async fn history(broker: &RedisBroker, queue: &str, span: HistorySpan) -> Result<History> {
    let mut values = array(broker.script(queue, &HISTORY, HISTORY.call(&broker.keys, queue)).await?)?.into_iter();
    let now_ms = number(next(&mut values)?)?;
    // A value that is not text is not the name of a task.
    let mut tasks: Vec<String> = array(next(&mut values)?)?.into_iter().filter_map(|name| text(name).ok()).collect();
    let mut seen = array(next(&mut values)?)?.into_iter();
    let mut releases = Vec::new();
    while let (Some(release), Some(at_ms)) = (seen.next(), seen.next()) {
        releases.push((display_text(release)?, number(at_ms).unwrap_or(0)));
    }
    tasks.extend([OTHERS, SAMPLE].map(str::to_owned));
    let rows = try_join_all(tasks.into_iter().map(|task| rows(broker, queue, task, span, now_ms))).await?;
    Ok(History::read(queue, span, StoredHistory { now_ms, rows: rows.into_iter().flatten().collect(), releases }))
}

/// The rows of a task in the periods of a span.
async fn rows(broker: &RedisBroker, queue: &str, task: String, span: HistorySpan, now_ms: i64) -> Result<Vec<(String, u64, Tally)>> {
    let mut command = broker.keys.on("HMGET", queue, Kind::History);
    let periods = span.periods(now_ms);
    // The period before is needed to compute the enqueued jobs of the first period. It does not
    // exist if the last period has replaced it.
    let before = u64::from(span.rows() < span.unit().kept());
    for period in periods.start().saturating_sub(before)..=*periods.end() {
        command.arg(format!("{task}\0{}{}", span.unit().letter(), span.unit().place(period)));
    }
    let values = array(broker.read(queue, &command).await?)?;
    let stored = values.into_iter().filter_map(|value| Tally::decoded_in(&bytes(value).ok()?));
    Ok(stored.map(|(period, tally)| (task.clone(), period, tally)).collect())
}
