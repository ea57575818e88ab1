//! Progress and logs that handlers report while their jobs run.

use std::time::Duration;

use futures_util::FutureExt;
use queue_core::{
    Error, JobId, LogLevel,
    broker::{
        Audit, BuryReason, Change, Delivery, Ending, Enqueued, JobProgress, KeepLimits, LINE_MAX, LOG_BYTES, LOG_LINES, LineNow, PartyName,
        ProgressAndLog, ProgressNow, ProgressReport, SweepLimits,
    },
};

use super::bed::{Bed, LONG, ack, hears_of_nothing_yet, nack};
use crate::patience::wait;

fn told(delivery: &Delivery, first: u64, lines: &[&str]) -> JobProgress {
    let mut told = JobProgress::new(delivery.id.clone(), delivery.claim, delivery.attempts + 1);
    told.first = first;
    told.lines = lines.iter().map(|text| LineNow::new(LogLevel::Info, *text)).collect();
    told
}

fn progress(delivery: &Delivery, seq: u64, fraction: f64, message: &str) -> JobProgress {
    let mut told = told(delivery, 0, &[]);
    told.progress = Some(ProgressNow::new(seq, Some(fraction), message, Some(vec![0xa1, b'v'])));
    told
}

async fn tell(bed: &Bed, lane: &PartyName, jobs: Vec<JobProgress>) -> Vec<bool> {
    let mut request = ProgressReport::new(bed.queue.clone(), lane.clone());
    request.jobs = jobs;
    bed.broker.store_progress(&request).await.expect("progress is taken")
}

async fn read(bed: &Bed, id: &JobId) -> ProgressAndLog {
    bed.broker.progress_and_log(&bed.queue, id, 0).await.expect("progress is answered").expect("the job is there")
}

async fn sound(bed: &Bed) {
    let wrong = bed.broker.audit(&bed.queue, Audit { repair: false, thorough: true }).await.expect("an audit is answered");
    assert!(wrong.is_empty(), "{wrong:?}");
}

fn texts(reported: &ProgressAndLog) -> Vec<&str> {
    reported.lines.iter().map(|line| &*line.text).collect()
}

/// The report of the holder of a job is stored with the broker's time, and can be read.
pub async fn reports_of_a_handler_are_stored(bed: Bed) {
    let ids = bed.put(2).await;
    let mut lane = bed.lane().await;
    let [one, other] = <[_; 2]>::try_from(lane.claim(2).await).expect("two jobs are ready");
    let mut both = progress(&one, 1, 0.25, "a quarter");
    both.lines = vec![LineNow::new(LogLevel::Warn, "slow: really"), LineNow::new(LogLevel::Debug, "")];
    both.lines[0].age = Duration::from_secs(60);
    assert_eq!(tell(&bed, &lane.name, vec![both, told(&other, 0, &["alone"])]).await, [true, true]);
    let reported = read(&bed, &ids[0]).await;
    let progress = reported.progress.as_ref().expect("it has made progress");
    assert_eq!((progress.fraction, &*progress.message, &progress.value), (Some(0.25), "a quarter", &Some(vec![0xa1, b'v'])));
    assert_eq!((texts(&reported), reported.next, reported.dropped), (vec!["slow: really", ""], 2, 0));
    assert_eq!((reported.lines[0].level, reported.lines[1].level, progress.attempt), (LogLevel::Warn, LogLevel::Debug, 1));
    let between = reported.lines[1].at_ms - reported.lines[0].at_ms;
    assert!((60_000..61_000).contains(&between) && (progress.at_ms - reported.lines[1].at_ms).abs() < 1000, "{reported:?}");
    let reported = read(&bed, &ids[1]).await;
    assert_eq!((texts(&reported), &reported.progress), (vec!["alone"], &None));
    assert_eq!(bed.broker.progress_and_log(&bed.queue, &JobId::make(), 0).await.expect("it is answered"), None, "a job that nobody knows");
    assert!(tell(&bed, &lane.name, Vec::new()).await.is_empty());
    sound(&bed).await;
}

/// A repeated request adds nothing, a late one restores nothing, and missing lines are counted.
pub async fn progress_that_comes_again_or_late_changes_nothing(bed: Bed) {
    let id = bed.put(1).await.remove(0);
    let mut lane = bed.lane().await;
    let job = lane.claim_one().await;
    tell(&bed, &lane.name, vec![progress(&job, 2, 0.5, "two")]).await;
    tell(&bed, &lane.name, vec![told(&job, 0, &["a", "b"])]).await;
    tell(&bed, &lane.name, vec![progress(&job, 1, 0.25, "one")]).await;
    tell(&bed, &lane.name, vec![told(&job, 0, &["a", "b"])]).await;
    tell(&bed, &lane.name, vec![told(&job, 1, &["b", "c"])]).await;
    tell(&bed, &lane.name, vec![told(&job, 5, &["f"])]).await;
    let reported = read(&bed, &id).await;
    assert_eq!((texts(&reported), reported.dropped), (vec!["a", "b", "c", "f"], 2));
    assert_eq!(reported.progress.expect("it has made progress").message, "two");
    // From a line on.
    let rest = bed.broker.progress_and_log(&bed.queue, &id, 2).await.unwrap().unwrap();
    assert_eq!((texts(&rest), rest.next), (vec!["c", "f"], 4));
    assert!(bed.broker.progress_and_log(&bed.queue, &id, 9).await.unwrap().unwrap().lines.is_empty());
}

/// A process that no longer holds a job cannot report on it.
pub async fn only_the_holder_of_a_job_reports(bed: Bed) {
    let id = bed.put(1).await.remove(0);
    let (mut lane, other) = (bed.lane().await, bed.lane().await);
    let first = lane.claim_one().await;
    assert_eq!(tell(&bed, &other.name, vec![told(&first, 0, &["not mine"])]).await, [false]);
    assert!(lane.end(&first, nack(Duration::ZERO)).await);
    assert_eq!(tell(&bed, &lane.name, vec![told(&first, 0, &["between"])]).await, [false]);
    let second = lane.wait_for_one().await;
    assert_eq!(tell(&bed, &lane.name, vec![told(&first, 0, &["late"]), told(&second, 0, &["in time"])]).await, [false, true]);
    bed.broker.change(&bed.queue, Change::Cancel, None, std::slice::from_ref(&id)).await.unwrap();
    assert_eq!(tell(&bed, &lane.name, vec![told(&second, 1, &["cancelled"]), progress(&second, 1, 1.0, "")]).await, [false, false]);
    let reported = read(&bed, &id).await;
    assert_eq!((texts(&reported), &reported.progress), (vec!["in time"], &None));
    // A lane that is fenced.
    bed.put(1).await;
    let mut short = bed.dying_lane().await;
    let job = short.claim_one().await;
    bed.fence(&[&short]).await;
    let mut request = ProgressReport::new(bed.queue.clone(), short.name.clone());
    request.jobs = vec![told(&job, 0, &["fenced"])];
    let refused = bed.broker.store_progress(&request).await;
    assert!(matches!(refused, Err(Error::Forgotten(_))), "{refused:?}");
    assert!(texts(&read(&bed, &job.id).await).is_empty());
}

/// Progress and log stay over retries, and for as long as the job is kept.
pub async fn progress_stays_with_the_job(bed: Bed) {
    let ids = bed.put(3).await;
    let mut lane = bed.lane().await;
    let [kept, dead, gone] = <[_; 3]>::try_from(lane.claim(3).await).expect("three jobs are ready");
    for job in [&kept, &dead, &gone] {
        tell(&bed, &lane.name, vec![progress(job, 1, 0.5, "half")]).await;
        tell(&bed, &lane.name, vec![told(job, 0, &["first run"])]).await;
    }
    assert!(lane.end(&kept, nack(Duration::ZERO)).await);
    let kept = lane.wait_for_one().await;
    tell(&bed, &lane.name, vec![told(&kept, 0, &["second run"])]).await;
    assert!(lane.end(&kept, Ending::Ack { keep: Some(LONG), result: None }).await);
    assert!(lane.end(&dead, Ending::Bury { reason: BuryReason::Failed, error: None }).await);
    assert!(lane.end(&gone, ack()).await);
    let reported = read(&bed, &ids[0]).await;
    assert_eq!(texts(&reported), ["first run", "second run"]);
    assert_eq!((reported.lines[0].attempt, reported.lines[1].attempt, reported.progress.unwrap().attempt), (1, 2, 1));
    assert_eq!(texts(&read(&bed, &ids[1]).await), ["first run"]);
    assert_eq!(bed.broker.progress_and_log(&bed.queue, &ids[2], 0).await.unwrap(), None);
    bed.broker.change(&bed.queue, Change::Requeue, None, &ids[1..2]).await.unwrap();
    assert_eq!(texts(&read(&bed, &ids[1]).await), ["first run"], "a requeue takes nothing away");
    bed.broker.change(&bed.queue, Change::Delete, None, &ids[..2]).await.unwrap();
    sound(&bed).await;
}

/// A later job with the same id begins without progress, however the first one ended.
pub async fn a_job_that_is_gone_leaves_no_progress(bed: Bed) {
    for way in ["deleted", "done", "cancelled", "trimmed"] {
        let id = JobId::given(way).expect("it is a name");
        bed.put_given(way, "1").await;
        let mut lane = bed.lane().await;
        let delivery = lane.claim_one().await;
        let mut both = progress(&delivery, 1, 0.5, way);
        both.lines = vec![LineNow::new(LogLevel::Info, way)];
        assert_eq!(tell(&bed, &lane.name, vec![both]).await, [true]);
        match way {
            "deleted" => {
                assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Failed, error: None }).await);
                bed.broker.change(&bed.queue, Change::Delete, None, std::slice::from_ref(&id)).await.unwrap();
            }
            "cancelled" => drop(bed.broker.change(&bed.queue, Change::Cancel, None, std::slice::from_ref(&id)).await.unwrap()),
            "trimmed" => assert!(lane.end(&delivery, Ending::Ack { keep: Some(LONG), result: None }).await),
            _ => assert!(lane.end(&delivery, ack()).await),
        }
        if way != "cancelled" {
            let keep = KeepLimits { count: 0, bytes: 0 };
            bed.broker.sweep(&bed.queue, &SweepLimits { remembered: Duration::ZERO, keep, ..SweepLimits::default() }).await.unwrap();
        }
        // A day later the id is free. The id of a cancelled job is free at once.
        assert_eq!(bed.put_given(way, "1").await, Enqueued::Stored, "{way}");
        let reported = read(&bed, &id).await;
        assert_eq!((reported.progress, reported.lines.len(), reported.next), (None, 0, 0), "{way}");
        let again = lane.claim_one().await;
        assert_eq!(tell(&bed, &lane.name, vec![told(&again, 0, &["anew"])]).await, [true]);
        assert_eq!(texts(&read(&bed, &id).await), ["anew"], "{way}");
        assert!(lane.end(&again, ack()).await);
    }
    sound(&bed).await;
}

/// A log has a maximum number of lines and of bytes: the oldest lines are dropped and counted.
pub async fn a_log_is_bounded(bed: Bed) {
    let ids = bed.put(2).await;
    let mut lane = bed.lane().await;
    let [many, long] = <[_; 2]>::try_from(lane.claim(2).await).expect("two jobs are ready");
    let numbers: Vec<String> = (0..LOG_LINES + 20).map(|n| n.to_string()).collect();
    for (part, numbers) in numbers.chunks(300).enumerate() {
        let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
        tell(&bed, &lane.name, vec![told(&many, 300 * part as u64, &numbers)]).await;
    }
    let reported = read(&bed, &ids[0]).await;
    assert_eq!((reported.lines.len(), reported.dropped, reported.next), (LOG_LINES, 20, LOG_LINES as u64 + 20));
    assert_eq!((texts(&reported)[0], texts(&reported)[LOG_LINES - 1]), ("20", "1019"));
    let line = "x".repeat(2 * LINE_MAX);
    for part in 0..50 {
        tell(&bed, &lane.name, vec![told(&long, part, &[&line])]).await;
    }
    let reported = read(&bed, &ids[1]).await;
    let bytes: usize = reported.lines.iter().map(|line| line.text.len()).sum();
    assert!(reported.lines[0].text.len() <= LINE_MAX && bytes <= LOG_BYTES && bytes > LOG_BYTES * 9 / 10, "{bytes} bytes");
    assert_eq!((reported.dropped + reported.lines.len() as u64, reported.next), (50, 50));
    let from = bed.broker.progress_and_log(&bed.queue, &ids[1], 48).await.unwrap().unwrap();
    assert_eq!(from.lines.len(), 2);
}

/// A watcher of a job is notified of its reports, and not of those of other jobs.
pub async fn a_watcher_of_a_job_receives_its_reports(bed: Bed) {
    let ids = bed.put(2).await;
    let mut lane = bed.lane().await;
    let jobs = lane.claim(2).await;
    let listens = async |id: &JobId| hears_of_nothing_yet(&bed.broker, &bed.queue, bed.broker.progress_hints(&bed.queue, id)).await;
    let (mut watched, mut unwatched) = (listens(&ids[0]).await, listens(&ids[1]).await);
    bed.broker.watch(&bed.queue, &ids[0]).await.unwrap();
    let mut ending = hears_of_nothing_yet(&bed.broker, &bed.queue, bed.broker.ending_hints(&bed.queue, &ids[0])).await;
    tell(&bed, &lane.name, vec![progress(&jobs[1], 1, 0.5, ""), progress(&jobs[0], 1, 0.5, "")]).await;
    wait("the announcement").end_of(watched.next()).await;
    assert_eq!(unwatched.next().now_or_never(), None);
    assert_eq!(ending.next().now_or_never(), None, "it has not ended");
}
