//! Changes of all jobs of a state by operators, and lists of any length.

use std::{cell::Cell, time::Duration};

use queue_core::{
    JobId,
    broker::{BuryReason, Change, Changed, Due, Ending, JobState, NewJob, Priority},
};

use super::bed::{Bed, LONG, envelope, finish, nack};
use crate::Changes as _;

/// More than two pages of a listing.
const PAGES: usize = 1_100;

/// A list with a gap as long as several pages reports that it continues.
pub async fn a_listing_goes_on_behind_a_page_without_jobs(bed: Bed) {
    let ids = bed.put(1_700).await;
    let (gone, left) = ids.split_at(1_650);
    for piece in gone.chunks(500) {
        assert!(bed.broker.cancel(&bed.queue, piece).await.unwrap().iter().all(|answer| *answer == Changed::Yes));
    }
    let (mut seen, mut place) = (Vec::new(), Some(0));
    while let Some(from) = place {
        let page = bed.broker.list(&bed.queue, JobState::Ready, from, 20).await.unwrap();
        assert!(page.jobs.len() <= 20 && page.next.is_none_or(|next| next > from), "from {from}: {:?}", page.next);
        seen.extend(page.jobs.into_iter().map(|job| job.id));
        place = page.next;
    }
    assert_eq!(seen, left);
    let mut walk = bed.inspector().walk(&bed.queue, JobState::Ready).at_most(30);
    let mut walked = Vec::new();
    while let Some(jobs) = walk.next().await.unwrap() {
        assert!(!jobs.is_empty(), "a walk passes what is empty");
        walked.extend(jobs.into_iter().map(|job| job.address.id));
    }
    let rest = walk.next_offset().expect("twenty are left");
    let mut walk = bed.inspector().walk(&bed.queue, JobState::Ready).from(rest);
    while let Some(jobs) = walk.next().await.unwrap() {
        walked.extend(jobs.into_iter().map(|job| job.address.id));
    }
    assert_eq!((walked.as_slice(), walk.next_offset()), (left, None));
}

/// An id that waits at one priority, and was cancelled at another, is listed once.
pub async fn a_job_that_was_cancelled_in_another_line_is_listed_once(bed: Bed) {
    let job = |priority: Priority| {
        let mut job = super::bed::given("again", "x");
        job.priority = priority;
        job
    };
    bed.put_job(job(Priority::Low)).await;
    // More than a page of jobs between the two.
    bed.put(PAGES).await;
    let id = JobId::given("again").unwrap();
    assert_eq!(bed.broker.cancel(&bed.queue, std::slice::from_ref(&id)).await.unwrap(), [Changed::Yes]);
    bed.put_job(job(Priority::Critical)).await;
    let listed = bed.ids(JobState::Ready).await;
    assert_eq!((listed.len(), listed.iter().filter(|listed| **listed == id).count()), (PAGES + 1, 1));
}

/// All jobs are removed, however many there are.
pub async fn twenty_thousand_ready_jobs_are_cancelled_and_deleted(bed: Bed) {
    const MANY: usize = 20_000;
    bed.put(MANY).await;
    let inspector = bed.inspector();
    assert_eq!(inspector.change_all(&bed.queue, Change::Cancel, JobState::Ready).await.unwrap(), MANY as u64);
    assert_eq!((bed.depth(JobState::Ready).await, bed.depth(JobState::Cancelled).await), (0, MANY as u64));
    assert_eq!(inspector.change_all(&bed.queue, Change::Cancel, JobState::Ready).await.unwrap(), 0, "none is left");
    assert_eq!(inspector.change_all(&bed.queue, Change::Delete, JobState::Cancelled).await.unwrap(), MANY as u64);
    assert!(bed.stats().await.jobs() == 0);
    assert_eq!(bed.ids(JobState::Cancelled).await, []);
    let last = bed.put(1).await;
    assert_eq!(bed.ids(JobState::Ready).await, last, "what comes later is found behind all gaps");
}

/// All jobs of any state are deleted together, even if their list has jobs of other states.
pub async fn all_jobs_of_a_state_are_deleted(bed: Bed) {
    let keep = || Ending::Ack { result: None, keep: Some(LONG) };
    let bury = || Ending::Bury { reason: BuryReason::Buried, error: None };
    let park = || Ending::Park { task: "unknown".to_owned() };
    let cancel = || Ending::Cancel { reason: "unwanted".to_owned() };
    // Jobs with three kinds of endings alternate, so that no page has only one state.
    end_all(&bed, 3 * PAGES, |n| [keep(), cancel(), Ending::Expire][n % 3].clone()).await;
    end_all(&bed, PAGES, |_| bury()).await;
    end_all(&bed, PAGES, |_| nack(LONG)).await;
    end_all(&bed, PAGES, |_| park()).await;
    put_later(&bed, PAGES).await;
    bed.put(PAGES).await;
    use JobState::{Cancelled, Dead, Done, Expired, Parked, Ready, Retry, Scheduled};
    for state in [Expired, Cancelled, Done, Dead, Retry, Parked, Scheduled, Ready] {
        let before = bed.stats().await;
        assert_eq!(bed.inspector().change_all(&bed.queue, Change::Delete, state).await.unwrap(), PAGES as u64, "{state}");
        let after = bed.stats().await;
        for other in JobState::ALL {
            let left = if other == state { 0 } else { before.count(other) };
            assert_eq!(after.count(other), left, "{state}: {before:?}, {after:?}");
        }
    }
    assert!(bed.stats().await.jobs() == 0);
}

/// Waiting and running jobs are cancelled together. Dead jobs are requeued together.
pub async fn all_jobs_of_a_state_are_cancelled_or_put_back(bed: Bed) {
    end_all(&bed, PAGES, |_| nack(LONG)).await;
    end_all(&bed, PAGES, |_| Ending::Park { task: "unknown".to_owned() }).await;
    end_all(&bed, PAGES, |_| Ending::Bury { reason: BuryReason::Buried, error: None }).await;
    put_later(&bed, PAGES).await;
    let inspector = bed.inspector();
    assert_eq!(inspector.change_all(&bed.queue, Change::Requeue, JobState::Dead).await.unwrap(), PAGES as u64);
    let mut lane = bed.lane().await;
    let mut held = 0;
    while held < PAGES {
        held += lane.claim(500).await.len();
    }
    for state in [JobState::Retry, JobState::Parked, JobState::Scheduled, JobState::Active] {
        assert_eq!(inspector.change_all(&bed.queue, Change::Cancel, state).await.unwrap(), PAGES as u64, "{state}");
        assert_eq!((bed.depth(state).await, inspector.change_all(&bed.queue, Change::Cancel, state).await.unwrap()), (0, 0), "{state}");
    }
    assert_eq!(bed.depth(JobState::Cancelled).await, 4 * PAGES as u64);
}

/// Scheduled and retrying jobs are promoted together, and no others.
pub async fn all_jobs_that_wait_for_a_time_are_promoted(bed: Bed) {
    end_all(&bed, PAGES, |_| nack(LONG)).await;
    put_later(&bed, PAGES).await;
    let inspector = bed.inspector();
    for state in [JobState::Retry, JobState::Scheduled] {
        assert_eq!(inspector.change_all(&bed.queue, Change::Promote, state).await.unwrap(), PAGES as u64, "{state}");
        assert_eq!((bed.depth(state).await, inspector.change_all(&bed.queue, Change::Promote, state).await.unwrap()), (0, 0), "{state}");
    }
    assert_eq!(inspector.change_all(&bed.queue, Change::Promote, JobState::Ready).await.unwrap(), 0);
    assert_eq!(bed.depth(JobState::Ready).await, 2 * PAGES as u64);
}

/// A worker that claims in the meantime hides no job: each job is cancelled, or is held.
pub async fn all_are_cancelled_beside_a_lane_that_claims(bed: Bed) {
    const JOBS: u64 = 5_000;
    bed.put(JOBS as usize).await;
    let (inspector, queue) = (bed.inspector(), bed.queue.clone());
    let mut lane = bed.lane().await;
    let is_over = Cell::new(false);
    let cancels = async {
        let cancelled = inspector.change_all(&queue, Change::Cancel, JobState::Ready).await.unwrap();
        is_over.set(true);
        cancelled
    };
    let claims = async {
        // Its claims remove the gaps at the head, so that jobs move to positions that the walk has
        // already read.
        while !is_over.get() {
            if bed.depth(JobState::Cancelled).await > JOBS / 3 {
                lane.claim(5).await;
            }
            tokio::task::yield_now().await;
        }
    };
    let (cancelled, ()) = tokio::join!(cancels, claims);
    let stats = bed.stats().await;
    let of = |state: JobState| stats.count(state);
    assert_eq!((of(JobState::Ready), of(JobState::Cancelled), of(JobState::Cancelled) + of(JobState::Active)), (0, cancelled, JOBS));
}

/// Enqueues and claims `jobs` jobs, and ends each.
async fn end_all(bed: &Bed, jobs: usize, ending: impl Fn(usize) -> Ending) {
    bed.put(jobs).await;
    let mut lane = bed.lane().await;
    let mut ended = 0;
    while ended < jobs {
        let held = lane.claim(500).await;
        assert!(!held.is_empty(), "{ended} of {jobs}");
        let finishes = held.iter().enumerate().map(|(at, delivery)| finish(delivery, ending(ended + at))).collect();
        let turn = lane.next().finish(finishes);
        assert!(lane.send(&turn).await.stale.is_empty());
        ended += held.len();
    }
}

async fn put_later(bed: &Bed, jobs: usize) {
    let mut producer = bed.producer().await;
    for piece in (0..jobs).collect::<Vec<_>>().chunks(500) {
        let later = |_: &usize| {
            let mut job = NewJob::new(JobId::make(), envelope("later"));
            job.due = Due::After(LONG + Duration::from_secs(1));
            job
        };
        producer.stored(piece.iter().map(later).collect()).await;
    }
}
