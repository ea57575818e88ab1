//! Failures by fingerprint: reports of workers are added up, once, and within bounds. Jobs are
//! found by the fingerprint of their failure.

use std::{collections::BTreeMap, time::Duration};

use queue_core::{
    Error, JobId,
    broker::{
        BuryReason, Ending, JobState, ProcessId, Register,
        history::{FAILURE_PATTERNS, FailurePattern, JOBS_NAMED, PATTERNS_REPORTED, RELEASES_NAMED, Report, TASKS_NAMED},
    },
    inspect::{Change, Filter, Fingerprint},
};

use super::bed::{Bed, finish, nack};

/// `count` failures with this text.
fn kind(text: &str, count: u64, task: &str, release: &str, job: Option<JobId>) -> FailurePattern {
    FailurePattern::new(Fingerprint::of(text), Fingerprint::pattern(text)).with(count, text, task, release, job)
}

fn job(n: usize) -> JobId {
    JobId::given(&format!("job-{n}")).expect("it is a name")
}

async fn report(bed: &Bed, process: ProcessId, seq: u64, kinds: Vec<FailurePattern>) {
    let report = kinds.into_iter().fold(Report::new(bed.queue.clone(), process, seq), Report::failure);
    bed.broker.report(&report).await.expect("a report is taken");
}

async fn failures(bed: &Bed) -> Vec<FailurePattern> {
    bed.broker.failures(&bed.queue).await.expect("failures can be read")
}

/// Waits until the clock of the broker has the next millisecond. Two reports in the same
/// millisecond have the same time.
async fn later(bed: &Bed) {
    let now = async || bed.broker.register(&Register::producer(bed.queue.clone(), ProcessId::random())).await.expect("it registers").now_ms;
    let before = now().await;
    while now().await <= before {}
}

/// Reports of several workers, and several reports of one, are added up, with tasks, releases and
/// times.
pub async fn failures_are_counted_by_fingerprint(bed: Bed) {
    assert!(failures(&bed).await.is_empty());
    let (one, other) = (ProcessId::random(), ProcessId::random());
    report(&bed, one, 1, vec![kind("order 17: no", 2, "mail", "v1", Some(job(1)))]).await;
    let first = failures(&bed).await.remove(0);
    assert_eq!((first.count, first.first_at == first.last_at), (2, true));
    later(&bed).await;
    report(&bed, other, 1, vec![kind("order 4: no", 1, "bill", "v2", Some(job(2))), kind("timed out", 1, "mail", "v2", None)]).await;
    report(&bed, one, 2, vec![kind("order 5: no", 3, "mail", "v1", Some(job(1)))]).await;
    let found: BTreeMap<_, _> = failures(&bed).await.into_iter().map(|failure| (failure.fingerprint, failure)).collect();
    assert_eq!(found.len(), 2);
    let no = &found[&Fingerprint::of("order 6: no")];
    assert_eq!((no.count, no.pattern.as_str(), no.message.as_str()), (6, "order *: no", "order 5: no"));
    let names = |names: &[(String, u64)]| names.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>();
    assert_eq!((names(&no.tasks), names(&no.releases)), (vec!["bill 1".into(), "mail 5".into()], vec!["v2 1".into(), "v1 5".into()]));
    assert_eq!(no.jobs, [job(2), job(1)], "each once, the last one last");
    assert!(no.first_at == first.first_at && no.last_at > first.last_at);
    let timed_out = &found[&Fingerprint::of("timed out")];
    assert_eq!((timed_out.count, timed_out.jobs.len(), timed_out.first_at == timed_out.last_at), (1, 0, true));
    later(&bed).await;
    report(&bed, one, 3, vec![kind("timed out", 1, "mail", "v1", None)]).await;
    assert_eq!(failures(&bed).await[0].fingerprint, timed_out.fingerprint, "what was seen last comes first");
    let other = bed.broker.failures("nobody-knows").await.expect("failures can be read");
    assert!(other.is_empty());
}

/// A report that is sent again because its answer was lost changes nothing.
pub async fn a_report_of_failures_that_is_sent_again_counts_once(bed: Bed) {
    let process = ProcessId::random();
    for seq in [1, 1, 2, 1, 2] {
        report(&bed, process, seq, vec![kind("no", seq, "mail", "v1", None)]).await;
    }
    assert_eq!(failures(&bed).await[0].count, 3);
}

/// Memory is bounded, and a repeated failure keeps its place.
pub async fn the_kind_that_was_not_seen_for_the_longest_time_goes_first(bed: Bed) {
    let process = ProcessId::random();
    let word = |n: usize| format!("{} happened", char::from(b'a' + u8::try_from(n % 26).expect("a letter")).to_string().repeat(1 + n / 26));
    let words = |range: std::ops::Range<usize>| range.map(|n| kind(&word(n), 1, "mail", "v1", None)).collect::<Vec<_>>();
    for (n, from) in (0..FAILURE_PATTERNS).step_by(PATTERNS_REPORTED).enumerate() {
        report(&bed, process, 1 + n as u64, words(from..from + PATTERNS_REPORTED)).await;
        later(&bed).await;
    }
    report(&bed, process, 100, words(0..1)).await;
    later(&bed).await;
    report(&bed, process, 101, words(FAILURE_PATTERNS..FAILURE_PATTERNS + PATTERNS_REPORTED - 1)).await;
    let left: BTreeMap<_, _> = failures(&bed).await.into_iter().map(|failure| (failure.fingerprint, failure.count)).collect();
    let count = |n: usize| left.get(&Fingerprint::of(&word(n))).copied();
    assert_eq!((left.len(), count(0)), (FAILURE_PATTERNS, Some(2)), "what failed again stays");
    assert!((1..PATTERNS_REPORTED).all(|n| count(n).is_none()), "those of the first report have gone");
    assert!((PATTERNS_REPORTED..FAILURE_PATTERNS + PATTERNS_REPORTED - 1).all(|n| count(n) == Some(1)), "the others are there");
}

/// Each pattern has a bounded number of names: those that were reported last.
pub async fn names_of_a_kind_are_bounded(bed: Bed) {
    let process = ProcessId::random();
    for n in 0..TASKS_NAMED + 3 {
        report(&bed, process, 1 + n as u64, vec![kind("no", 1, &format!("task-{n}"), &format!("v{n}"), Some(job(n)))]).await;
    }
    report(&bed, process, 1000, vec![kind("no", 5, "task-7", "v21", Some(job(21)))]).await;
    let failure = failures(&bed).await.remove(0);
    assert_eq!(failure.count, TASKS_NAMED as u64 + 8);
    assert_eq!((failure.tasks.len(), failure.releases.len(), failure.jobs.len()), (TASKS_NAMED, RELEASES_NAMED, JOBS_NAMED));
    assert_eq!((failure.tasks[0].0.as_str(), failure.tasks.last().cloned()), ("task-3", Some(("task-7".to_owned(), 6))));
    assert_eq!((failure.releases[0].0.as_str(), failure.releases.last().cloned()), ("v13", Some(("v21".to_owned(), 6))));
    assert_eq!(failure.jobs, [18, 19, 20, 22, 21].map(job));
}

/// A request that is larger than its bound is refused.
pub async fn a_report_of_too_many_failures_is_refused(bed: Bed) {
    let kinds = |n: usize| (0..n).map(|n| kind(&"x".repeat(n + 1), 1, "mail", "v1", None));
    let new = || Report::new(bed.queue.clone(), ProcessId::random(), 1);
    let large = kinds(PATTERNS_REPORTED + 1).fold(new(), Report::failure);
    assert!(matches!(bed.broker.report(&large).await, Err(Error::Invalid { .. })));
    bed.broker.report(&kinds(PATTERNS_REPORTED).fold(new(), Report::failure)).await.expect("so many are taken");
    assert!(matches!(bed.inspector().failures("a b").await, Err(Error::Invalid { .. })));
}

/// A filter finds the jobs whose last failure has a fingerprint. This works in a list, which has
/// only the beginning of a message, and for single jobs.
pub async fn jobs_that_failed_alike_are_found_and_run_again(bed: Bed) {
    let rest = "and this is what the server had to say of it, ".repeat(30);
    let texts = ["order 1: no", "order 4711: no", "timed out", &format!("shop 7: {rest}"), &format!("shop 123456: {rest}")];
    let ids = bed.put(texts.len()).await;
    let mut lane = bed.lane().await;
    let jobs = lane.claim(texts.len()).await;
    let bury = |text: &str| Ending::Bury { reason: BuryReason::Failed, error: Some(text.to_owned()) };
    let turn = lane.next().finish(jobs.iter().zip(texts).map(|(job, text)| finish(job, bury(text))).collect());
    assert!(lane.send(&turn).await.stale.is_empty());
    let inspector = bed.inspector();
    let alike = |text: &str| format!("failure={}", Fingerprint::of(text)).parse::<Filter>().expect("it is a filter");
    let of = async |text: &str| {
        let mut walk = inspector.walk(&bed.queue, JobState::Dead).matching(alike(text));
        walk.next().await.expect("a list is answered").map_or(0, |jobs| jobs.len())
    };
    assert_eq!((of(texts[0]).await, of(texts[2]).await, of(texts[3]).await, of("nothing").await), (2, 1, 2, 0));
    for (id, text) in ids.iter().zip(texts) {
        let job = queue_core::JobAddress { queue: bed.queue.clone(), id: id.clone() };
        let record = inspector.show(&job).await.expect("it is there");
        assert_eq!(record.failure(), Some(Fingerprint::of(text)), "the whole message has the fingerprint of its beginning");
    }
    let again = inspector.change_matching(&bed.queue, Change::Requeue, JobState::Dead, &alike(texts[4])).await.expect("they are changed");
    assert_eq!((again, bed.depth(JobState::Dead).await, bed.depth(JobState::Ready).await), (2, 3, 2));
    assert_eq!((bed.state(&ids[3]).await, bed.state(&ids[4]).await), (Some(JobState::Ready), Some(JobState::Ready)));

    // This includes jobs that wait for their next attempt.
    let jobs = lane.claim(2).await;
    let turn = lane.next().finish(jobs.iter().map(|job| finish(job, nack(Duration::from_secs(600)))).collect());
    lane.send(&turn).await;
    let failed = bed.show(&ids[3]).await.expect("it waits").failures.pop().expect("it has failed").message;
    let gone = inspector.change_matching(&bed.queue, Change::Cancel, JobState::Retry, &alike(&failed)).await.expect("they are changed");
    assert_eq!((gone, bed.depth(JobState::Retry).await), (2, 0));
}
