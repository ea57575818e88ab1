//! The history of a queue: reports of workers are added up, once, and within bounds. Also the
//! waiting time of its oldest ready job.

use std::time::Duration;

use queue_core::{
    __private::Envelope,
    Error, JobId,
    broker::{
        Counter, Ending, JobState, NewJob, OUTBOXES, OutboxDepth, OutboxRecord, Priority, ProcessId, WorkerInfo,
        history::{OTHERS, RELEASES_SEEN, Report, TASKS, Tally},
    },
    inspect::{History, HistoryRow, HistorySpan},
};

use super::bed::{Bed, nack};

/// A tally of `done` done jobs, each with a run of `ms` milliseconds.
fn tally(done: u64, ms: u64) -> Tally {
    let mut tally = Tally::default();
    (tally.counts.started, tally.counts.done) = (done, done);
    for n in 0..done {
        tally.wait.add(Duration::from_micros(n * 700));
        tally.run.add(Duration::from_millis(ms + n));
    }
    tally
}

async fn history(bed: &Bed, span: HistorySpan) -> History {
    bed.broker.history(&bed.queue, span).await.expect("a history can be read")
}

/// The totals of a task in both resolutions, which must agree.
async fn total_of(bed: &Bed, task: &str) -> HistoryRow {
    let by_minutes = history(bed, HistorySpan::TWO_HOURS).await.total_of(task).expect("something happened");
    let by_hours = history(bed, HistorySpan::TWO_WEEKS).await.total_of(task).expect("something happened");
    assert_eq!((&by_minutes.counts, &by_minutes.wait, &by_minutes.run), (&by_hours.counts, &by_hours.wait, &by_hours.run));
    by_hours
}

/// Reports of several workers, and several reports of one, are added up, with the histograms bucket
/// by bucket.
pub async fn what_workers_report_is_added_up_by_task(bed: Bed) {
    let (mut sum, mut other) = (Tally::default(), Tally::default());
    for process in [ProcessId::random(), ProcessId::random()] {
        for seq in 1..=3 {
            let (mail, order) = (tally(seq, 20 * seq), tally(1, 1));
            sum.merge(&mail);
            other.merge(&order);
            let report = Report::new(bed.queue.clone(), process, seq).task("mail.send", mail).task("order", order);
            bed.broker.report(&report).await.unwrap();
        }
    }
    let row = total_of(&bed, "mail.send").await;
    assert_eq!((row.counts, row.wait, row.run), (sum.counts, sum.wait.clone(), sum.run.clone()));
    assert_eq!(total_of(&bed, "order").await.run, other.run);
    let history = history(&bed, HistorySpan::DAY).await;
    sum.merge(&other);
    assert_eq!((history.total().counts, history.total().run), (sum.counts, sum.run));
    assert_eq!((history.rows.len(), history.tasks.len(), history.queue.as_str()), (24, 2, &*bed.queue));
}

/// A report that is sent again because its answer was lost, or that comes late, changes nothing.
pub async fn a_report_that_is_sent_again_counts_once(bed: Bed) {
    let (process, other) = (ProcessId::random(), ProcessId::random());
    let first = Report::new(bed.queue.clone(), process, 1).task("mail", tally(1, 5));
    let second = Report::new(bed.queue.clone(), process, 2).task("mail", tally(2, 5));
    for report in [&first, &first, &second, &first, &second] {
        bed.broker.report(report).await.unwrap();
    }
    assert_eq!(total_of(&bed, "mail").await.counts.done, 3);
    bed.broker.report(&Report::new(bed.queue.clone(), other, 1).task("mail", tally(4, 5))).await.unwrap();
    assert_eq!(total_of(&bed, "mail").await.counts.done, 7, "numbers are those of a process");
}

/// Every report has the depth of the queue. The largest depth of a period is kept.
pub async fn a_report_carries_the_depth_of_the_queue(bed: Bed) {
    let process = ProcessId::random();
    let ready = async || {
        let history = history(&bed, HistorySpan::TWO_HOURS).await;
        assert!(history.tasks.is_empty() && history.total().counts.started == 0);
        history.total().ready
    };
    assert_eq!(ready().await, None, "nobody has looked");
    bed.broker.report(&Report::new(bed.queue.clone(), process, 1)).await.unwrap();
    assert_eq!(ready().await, Some(0));
    bed.put(5).await;
    bed.broker.report(&Report::new(bed.queue.clone(), process, 2)).await.unwrap();
    assert_eq!(ready().await, Some(5));
    let mut lane = bed.lane().await;
    let claimed = lane.claim(4).await;
    lane.ack(&claimed).await;
    bed.broker.report(&Report::new(bed.queue.clone(), process, 3)).await.unwrap();
    assert_eq!(ready().await, Some(5));
}

/// Memory is bounded: tasks beyond the bound share a history.
pub async fn tasks_beyond_the_bound_are_counted_together(bed: Bed) {
    let process = ProcessId::random();
    let reports = |seq, from: usize, to: usize| {
        let report = Report::new(bed.queue.clone(), process, seq);
        (from..to).fold(report, |report, n| report.task(format!("task-{n}"), tally(1, 5)))
    };
    bed.broker.report(&reports(1, 0, TASKS)).await.unwrap();
    bed.broker.report(&reports(2, TASKS - 1, TASKS + 3)).await.unwrap();
    let history = history(&bed, HistorySpan::HOUR).await;
    assert_eq!(history.tasks.len(), TASKS + 1);
    assert_eq!(history.total_of(&format!("task-{}", TASKS - 1)).map(|row| row.counts.done), Some(2));
    assert_eq!(history.total_of(OTHERS).map(|row| (row.counts.done, row.run.count())), Some((3, 3)));
    assert_eq!(history.total().counts.done, TASKS as u64 + 4);
}

/// Counts without a task have a separate place, which does not take one from a task.
pub async fn what_has_no_task_is_counted_apart(bed: Bed) {
    let mut crashes = Tally::default();
    crashes.counts.crashed = 2;
    let report = Report::new(bed.queue.clone(), ProcessId::random(), 1).task(OTHERS, crashes).task("mail", tally(1, 5));
    bed.broker.report(&report).await.unwrap();
    let history = history(&bed, HistorySpan::HOUR).await;
    assert_eq!(history.others().map(|row| row.counts.crashed), Some(2));
    assert_eq!((history.total().counts.crashed, history.total().counts.done), (2, 1));
}

/// A request that is larger than its bound, or has an invalid name, is refused.
pub async fn a_report_outside_its_bounds_is_refused(bed: Bed) {
    let report = Report::new(bed.queue.clone(), ProcessId::random(), 1);
    let large = (0..=TASKS).fold(report, |report, n| report.task(format!("task-{n}"), tally(1, 5)));
    assert!(matches!(bed.broker.report(&large).await, Err(Error::Invalid { .. })));
    let strange = Report::new("a b", ProcessId::random(), 1);
    assert!(matches!(bed.broker.report(&strange).await, Err(Error::Invalid { .. })));
    assert!(matches!(bed.inspector().history("a b", HistorySpan::HOUR).await, Err(Error::Invalid { .. })));
}

/// The history of a queue without reports has empty rows.
pub async fn the_history_of_an_unknown_queue_is_empty(bed: Bed) {
    for (span, rows) in [(HistorySpan::HOUR, 60), (HistorySpan::minutes(7), 7), (HistorySpan::hours(99_999), 336)] {
        let history = history(&bed, span).await;
        assert_eq!((history.rows.len(), history.tasks.len(), history.total().ready), (rows, 0, None));
        assert!(history.rows.windows(2).all(|rows| rows[1].at == rows[0].at + span.step()));
        let age = std::time::SystemTime::now().duration_since(history.rows.last().unwrap().at).unwrap_or_default();
        assert!(age < span.step() + Duration::from_secs(60), "{age:?}");
    }
}

/// A job of this task that its producer has enqueued `ago`, with this delay.
pub(super) fn enqueued(task: &str, ago: Duration, delay: Duration) -> NewJob {
    let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mut envelope = Envelope::new(task, &[0x80]);
    envelope.enqueued_ms = Some(ms(now) - ms(ago));
    envelope.delay_ms = (!delay.is_zero()).then(|| ms(delay).unsigned_abs());
    NewJob::new(JobId::make(), envelope.encode().unwrap())
}

/// The age is that of the first job of a priority with a known age, counted from when it could
/// start.
pub async fn stats_report_the_age_of_the_oldest_ready_job(bed: Bed) {
    const HOUR: Duration = Duration::from_secs(3600);
    let is_about = async |age: Duration| {
        let oldest = bed.stats().await.oldest.expect("its age is known");
        assert!(oldest + HOUR / 60 > age && oldest < age + HOUR / 60, "{oldest:?} instead of {age:?}");
    };
    let mut producer = bed.producer().await;
    assert_eq!(bed.stats().await.oldest, None);
    producer.stored(vec![enqueued("send", HOUR * 5, HOUR * 4), enqueued("send", HOUR / 2, Duration::ZERO)]).await;
    is_about(HOUR).await;
    let mut urgent = enqueued("send", HOUR * 3, Duration::ZERO);
    urgent.priority = Priority::Critical;
    producer.stored(vec![urgent]).await;
    is_about(HOUR * 3).await;

    // A job that has failed waits for other reasons.
    let mut lane = bed.lane().await;
    let job = lane.claim_one().await;
    lane.end(&job, nack(Duration::ZERO)).await;
    let failed = lane.wait_for_one().await;
    assert_eq!((&failed.id, failed.attempts), (&job.id, 1));
    lane.end(&failed, Ending::Return).await;
    assert_eq!(bed.depth(JobState::Ready).await, 3);
    is_about(HOUR).await;

    // The start of the wait of a repeating job's round is unknown.
    let mut tally = Tally::default();
    tally.counts.repeated = 1;
    bed.broker.report(&Report::new(bed.queue.clone(), ProcessId::random(), 1).task("send", tally)).await.unwrap();
    assert_eq!(bed.stats().await.oldest, None);
    producer.stored(vec![enqueued("other", HOUR * 2, Duration::ZERO)]).await;
    is_about(HOUR * 2).await;
}

/// The first registration of a release is kept, for a bounded number of releases.
pub async fn a_release_is_noted_when_it_is_first_seen(bed: Bed) {
    let registers = async |release: &str| {
        bed.lane_saying(ProcessId::random(), Duration::from_secs(60), WorkerInfo::new("web-1", 7, release, [])).await;
    };
    let seen = async || history(&bed, HistorySpan::HOUR).await.releases;
    let names = async || seen().await.into_iter().map(|seen| seen.release).collect::<Vec<_>>();
    bed.lane().await;
    assert_eq!(names().await, [""; 0], "one that is not known is none");
    registers("v1 ä").await;
    let first = seen().await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    registers("v2").await;
    registers("v1 ä").await;
    assert_eq!((names().await, seen().await[0].at), (vec!["v1 ä".to_owned(), "v2".to_owned()], first[0].at));
    let age = std::time::SystemTime::now().duration_since(first[0].at).unwrap_or_default();
    assert!(age < Duration::from_secs(60), "{age:?}");
    tokio::time::sleep(Duration::from_millis(5)).await;
    for n in 0..RELEASES_SEEN {
        registers(&format!("w{n}")).await;
    }
    let names = names().await;
    assert_eq!(names.len(), RELEASES_SEEN);
    assert!(!names.iter().any(|name| name.starts_with('v')), "the oldest have gone: {names:?}");
}

fn outbox(id: u8, waiting: u64) -> OutboxRecord {
    let mut depth = OutboxDepth::new("mail");
    (depth.waiting, depth.refused, depth.oldest, depth.holder) = (waiting, 1, Some(Duration::from_secs(3)), Some("web-1 pid 7".to_owned()));
    OutboxRecord::new(&[id, 0xff], format!("database {id:03}"), 9, Some(Duration::from_secs(60)), vec![depth])
}

/// A report of an outbox replaces the previous one, adds no counts, and is shown with its age.
pub async fn an_outbox_is_shown_as_it_was_reported_last(bed: Bed) {
    let process = ProcessId::random();
    assert_eq!(bed.stats().await.outboxes, [], "nothing was reported");
    let report =
        |seq: u64, outbox: OutboxRecord| Report::new(bed.queue.clone(), process, seq).task("mail.send", tally(1, 1)).outbox(outbox);
    for (seq, said) in [(1, outbox(1, 5)), (2, outbox(2, 6)), (3, outbox(1, 7)), (2, outbox(1, 8))] {
        bed.broker.report(&report(seq, said)).await.unwrap();
    }
    let (stats, said) = (bed.stats().await, [outbox(1, 7), outbox(2, 6)]);
    assert_eq!(stats.outboxes.len(), 2, "{:?}", stats.outboxes);
    for (shown, said) in stats.outboxes.iter().zip(said) {
        assert!(shown.age < Duration::from_secs(60), "{shown:?}");
        let age = std::time::SystemTime::now().duration_since(shown.reported_at).unwrap_or_default();
        assert!(age < Duration::from_secs(60), "{shown:?}");
        let mut shown = shown.clone();
        (shown.age, shown.reported_at) = (said.age, said.reported_at);
        assert_eq!(shown, said);
    }
    assert_eq!(stats.total(Counter::Enqueued), 0);
    assert_eq!(total_of(&bed, "mail.send").await.counts.done, 3);
    assert_eq!(history(&bed, HistorySpan::HOUR).await.tasks.len(), 1, "the report of an outbox adds no task");
}

/// If there are too many outboxes, the one with the oldest report is removed.
pub async fn outboxes_beyond_the_bound_replace_the_oldest(bed: Bed) {
    let (process, mut seq) = (ProcessId::random(), 0);
    let mut report = async |id: usize| {
        seq += 1;
        let outbox = outbox(u8::try_from(id).unwrap(), 1);
        bed.broker.report(&Report::new(bed.queue.clone(), process, seq).outbox(outbox)).await.unwrap();
        // The next report has another time.
        tokio::time::sleep(Duration::from_millis(3)).await;
    };
    for id in 1..=OUTBOXES {
        report(id).await;
    }
    report(1).await;
    report(OUTBOXES + 1).await;
    let shown: Vec<String> = bed.stats().await.outboxes.into_iter().map(|outbox| outbox.database).collect();
    let ids = std::iter::once(1).chain(3..=OUTBOXES + 1);
    assert_eq!(shown, ids.map(|id| format!("database {id:03}")).collect::<Vec<_>>());
}
