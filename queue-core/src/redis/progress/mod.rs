//! Progress and log lines that handlers report while their jobs run.

use redis::Value;

use crate::{
    address::JobId,
    broker::{Log, ProgressAndLog, ProgressReport, progress_of, progress_stored},
    error::Result,
    redis::{
        RedisBroker, bounded,
        script::{READ_PROGRESS, STORE_PROGRESS},
        values::{array, bytes, ms, next, number},
    },
};

pub(in crate::redis) async fn store(broker: &RedisBroker, reported: &ProgressReport) -> Result<Vec<bool>> {
    bounded("jobs", reported.jobs.len())?;
    if reported.jobs.is_empty() {
        return Ok(Vec::new());
    }
    let mut call = STORE_PROGRESS.call(&broker.keys, &reported.queue);
    call.arg(reported.lane.as_str());
    for job in &reported.jobs {
        call.arg(job.id.as_bytes()).arg(job.claim).arg(job.attempt);
        match &job.progress {
            Some(now) => call.arg(now.seq).arg(ms(now.age)).arg(progress_stored(job.attempt, now)),
            None => call.arg("").arg("").arg(""),
        };
        call.arg(job.first).arg(job.lines.len());
        for line in &job.lines {
            call.arg(ms(line.age)).arg(line.level.number()).arg(&line.text);
        }
    }
    let answers = array(broker.script(&reported.queue, &STORE_PROGRESS, call).await?)?;
    answers.into_iter().map(|stored| Ok(number::<i64>(stored)? == 1)).collect()
}

pub(in crate::redis) async fn read(broker: &RedisBroker, queue: &str, id: &JobId, from: u64) -> Result<Option<ProgressAndLog>> {
    let mut call = READ_PROGRESS.call(&broker.keys, queue);
    call.arg(id.as_bytes());
    let answer = broker.script(queue, &READ_PROGRESS, call).await?;
    if matches!(answer, Value::Nil) {
        return Ok(None);
    }
    let mut values = array(answer)?.into_iter();
    let progress = progress_of(&bytes(next(&mut values)?)?).map(|(_, progress)| progress);
    let log = Log::read(&bytes(next(&mut values)?)?);
    Ok(Some(ProgressAndLog::new(progress, log.lines_from(from), log.next(), log.dropped())))
}
