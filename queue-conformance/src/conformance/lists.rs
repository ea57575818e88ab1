//! The contents of lists of jobs, and changes of all matching jobs.

use std::time::{Duration, UNIX_EPOCH};

use queue_core::{
    JobAddress, JobId,
    broker::{
        BuryReason, Due, Ending, Enqueued, JobState, LAST, LISTED_ERROR, NewJob, OnConflict, Priority, ProcessId, Scan, StoredPage, Unique,
        UniqueKey,
    },
    inspect::{Change, Filter},
};

use super::{
    bed::{Bed, LONG, envelope, finish},
    groups::RULE,
    limits::{key, limited, put},
};
use crate::Changes as _;

/// A list has the reasons of failures, but no large values.
pub async fn a_list_reports_the_last_failure_and_no_result(bed: Bed) {
    let mut lane = bed.lane().await;
    let failing = bed.put(1).await.remove(0);
    for error in ["first".to_owned(), "é".repeat(LISTED_ERROR)] {
        let held = lane.wait_for_one().await;
        assert!(lane.end(&held, Ending::Nack { delay: Duration::ZERO, error }).await);
    }
    let held = lane.wait_for_one().await;
    assert!(lane.end(&held, Ending::Bury { reason: BuryReason::Buried, error: None }).await);
    let kept = bed.put(1).await.remove(0);
    let held = lane.claim_one().await;
    assert!(lane.end(&held, Ending::Ack { result: Some(vec![7]), keep: Some(LONG) }).await);
    let listed = async |state| bed.broker.list(&bed.queue, state, 0, 10).await.unwrap().jobs.remove(0);
    let (done, dead) = (listed(JobState::Done).await, listed(JobState::Dead).await);
    assert_eq!((done.id, done.result, done.failures), (kept.clone(), None, vec![]));
    assert_eq!((dead.id, dead.failures.len()), (failing.clone(), 1));
    let message = &dead.failures[0].message;
    assert!(message.starts_with('é') && message.len() <= LISTED_ERROR + '…'.len_utf8(), "{} bytes", message.len());
    let (done, dead) = (bed.show(&kept).await.expect("it is kept"), bed.show(&failing).await.expect("it is dead"));
    assert_eq!((done.result, dead.failures.len()), (Some(vec![7]), 2), "a job alone tells all");
}

/// The receipt of a running job has this data, on every broker.
pub async fn a_running_job_reports_who_runs_it_and_since_when(bed: Bed) {
    let process = ProcessId::random();
    let mut lane = bed.lane_of(process, LONG).await;
    let before = bed.put(1).await.remove(0);
    let held = lane.claim_one().await;
    let inspector = bed.inspector();
    let address = JobAddress { queue: bed.queue.clone(), id: before };
    let running = inspector.show(&address).await.unwrap().running.expect("it runs");
    assert_eq!(running.worker, process);
    assert_eq!(running.since, UNIX_EPOCH + Duration::from_millis(held.claim), "the claim number is the time of the claim");
    let listed = inspector.list(&bed.queue, JobState::Active, 0, 10).await.unwrap().jobs.remove(0);
    assert_eq!(listed.running, Some(running));
    assert!(lane.end(&held, Ending::Return).await);
    assert_eq!(inspector.show(&address).await.unwrap().running, None);
}

/// Jobs with limits are listed by priority, followed by suspects.
pub async fn jobs_with_limits_are_listed_by_priority(bed: Bed) {
    let keys = [key("stripe", "")];
    let crashed = put(&bed, "", &keys, 1).await.remove(0);
    let mut dying = bed.dying_lane().await;
    dying.claim_one().await;
    bed.reclaim(&[&dying], RULE).await;
    bed.lane().await.claim(0).await;
    let jobs = [Priority::Low, Priority::Critical, Priority::Normal].map(|priority| {
        let mut job = limited("", &keys);
        job.priority = priority;
        job
    });
    let [low, critical, normal] = jobs.clone().map(|job| job.id);
    bed.producer().await.stored(jobs.to_vec()).await;
    let listed = [critical, normal, low, crashed];
    assert_eq!(bed.ids(JobState::Ready).await, listed);
    let last = bed.broker.list(&bed.queue, JobState::Ready, LAST, 2).await.unwrap();
    assert_eq!(last.jobs.into_iter().map(|job| job.id).collect::<Vec<_>>(), listed[2..]);
}

/// Jobs are changed page by page, however many stay.
pub async fn jobs_that_match_are_changed_and_no_others(bed: Bed) {
    let ids = bed.put(1200).await;
    let marked: Vec<JobId> = (0..3).map(|n| JobId::given(&format!("marked-{n}")).unwrap()).collect();
    for id in &marked {
        bed.put_job(NewJob::new(id.clone(), envelope("marked"))).await;
    }
    let inspector = bed.inspector();
    let filter: Filter = "id~MARKED".parse().unwrap();
    let cancelled = inspector.change_matching(&bed.queue, Change::Cancel, JobState::Ready, &filter).await.unwrap();
    assert_eq!((cancelled, bed.depth(JobState::Ready).await), (3, ids.len() as u64));
    let mut left = inspector.walk(&bed.queue, JobState::Cancelled).matching("id!=marked-1".parse().unwrap()).at_most(1);
    assert_eq!(left.next().await.unwrap().map(|jobs| jobs.len()), Some(1));
    assert!(left.next().await.unwrap().is_none(), "no more than was asked for");
}

/// Pages are consecutive in every state, even if jobs share a time, priority or task. The last page
/// is the end of the list.
pub async fn pages_fit_together_in_every_state(bed: Bed) {
    const JOBS: usize = 23;
    let mut lane = bed.lane().await;
    let turn = lane.next();
    let now = lane.send(&turn).await.now_ms;
    let job = |n: usize| {
        let mut job = NewJob::new(JobId::make(), envelope(&n.to_string()));
        job.priority = Priority::from_number(u8::try_from(n % 4).unwrap()).unwrap();
        job
    };
    let endings = [
        Ending::Park { task: "suite.task".to_owned() },
        Ending::Nack { delay: LONG, error: String::new() },
        Ending::Bury { reason: BuryReason::Buried, error: None },
        Ending::Ack { result: None, keep: Some(LONG) },
        Ending::Cancel { reason: String::new() },
    ];
    let states = [JobState::Parked, JobState::Retry, JobState::Dead, JobState::Done, JobState::Cancelled];
    let mut producer = bed.producer().await;
    for ending in endings {
        producer.stored((0..JOBS).map(job).collect()).await;
        let finishes = lane.claim(JOBS).await.iter().map(|delivery| finish(delivery, ending.clone())).collect();
        let turn = lane.next().finish(finishes);
        assert!(lane.send(&turn).await.stale.is_empty());
    }
    // Half of the scheduled jobs are due at the same time.
    let due = |n: usize| {
        let mut job = job(n);
        job.due = Due::AtMs(now + 600_000 + if n.is_multiple_of(2) { 0 } else { n as i64 });
        job
    };
    producer.stored((0..JOBS).map(due).collect()).await;
    producer.stored((0..JOBS).map(job).collect()).await;
    assert_eq!(lane.claim(JOBS).await.len(), JOBS);
    producer.stored((0..JOBS).map(job).collect()).await;
    for state in states.into_iter().chain([JobState::Scheduled, JobState::Active, JobState::Ready]) {
        let whole = bed.broker.list(&bed.queue, state, 0, 100).await.unwrap();
        assert!(whole.next.is_none());
        let whole = of(&whole);
        assert_eq!(whole.len(), JOBS, "{state}");
        for limit in [1, 5, 23] {
            let (mut seen, mut place) = (Vec::new(), Some(0));
            while let Some(from) = place {
                let page = bed.broker.list(&bed.queue, state, from, limit).await.unwrap();
                assert!(page.jobs.len() <= limit && page.next.is_none_or(|next| next > from));
                seen.extend(of(&page));
                place = page.next;
            }
            assert_eq!(seen, whole, "{state} by {limit}");
            if !matches!(state, JobState::Done | JobState::Cancelled) {
                let last = bed.broker.list(&bed.queue, state, LAST, limit).await.unwrap();
                assert_eq!((of(&last), last.next), (whole[JOBS - limit..].to_vec(), None), "the last {limit} of {state}");
            }
        }
        if !matches!(state, JobState::Done | JobState::Cancelled) {
            let rest = bed.broker.list(&bed.queue, state, 20, 100).await.unwrap();
            assert_eq!(of(&rest), whole[20..], "{state}");
        }
    }
}

/// Pages of held jobs are consecutive in the order of their due times. A job that is no longer held
/// is on no page.
pub async fn held_jobs_are_listed_as_they_are_due(bed: Bed) {
    const JOBS: usize = 12;
    let mut lane = bed.lane().await;
    let turn = lane.next();
    let now = lane.send(&turn).await.now_ms;
    let job = |n: usize, due: Due| {
        let mut job = NewJob::new(JobId::make(), envelope(&n.to_string()));
        job.due = due;
        job.unique = Some(Box::new(Unique::new(UniqueKey::of("suite.task", &n.to_be_bytes())).on_conflict(OnConflict::BufferOne)));
        job
    };
    let mut producer = bed.producer().await;
    producer.stored((0..JOBS).map(|n| job(n, Due::Now)).collect()).await;
    let running = lane.claim(JOBS).await;
    let later = |n: usize| Due::AtMs(now + 600_000 - 1_000 * i64::try_from(n).expect("it is small"));
    let held: Vec<NewJob> = (0..JOBS).map(|n| job(n, later(n))).collect();
    let mut expected: Vec<JobId> = held.iter().rev().map(|job| job.id.clone()).collect();
    assert!(producer.send(held).await.iter().all(|answer| matches!(answer, Enqueued::Buffered(_))));
    let list = async |from, limit| bed.broker.list(&bed.queue, JobState::Held, from, limit).await.expect("they can be listed");
    let all = async |limit| {
        let (mut seen, mut place) = (Vec::new(), Some(0));
        while let Some(from) = place {
            let page = list(from, limit).await;
            assert!(page.jobs.len() <= limit && page.next.is_none_or(|next| next > from));
            seen.extend(of(&page));
            place = page.next;
        }
        seen
    };
    for limit in [1, 5, JOBS] {
        assert_eq!(all(limit).await, expected, "by {limit}");
        assert_eq!(of(&list(LAST, limit).await), expected[JOBS - limit..], "the last {limit}");
    }
    let found = bed.broker.scan(&Scan::new(&bed.queue, &[JobState::Held], 5)).await.expect("they can be scanned");
    assert_eq!(found.jobs.iter().map(|job| job.id.clone()).collect::<Vec<_>>(), expected[..5]);
    bed.broker.cancel(&bed.queue, &expected[..1]).await.expect("it can be cancelled");
    expected.remove(0);
    assert_eq!(all(5).await, expected);
    lane.ack(&running).await;
    assert_eq!((all(5).await, bed.depth(JobState::Scheduled).await), (vec![], JOBS as u64 - 1));
}

fn of(page: &StoredPage) -> Vec<JobId> {
    page.jobs.iter().map(|job| job.id.clone()).collect()
}
