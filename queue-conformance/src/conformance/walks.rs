//! The walk through jobs that operations need. A job that moves from one wanted state to another is
//! found, and one that comes back is not found repeatedly.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use queue_core::{
    __private::Envelope,
    Client, Error, JobId,
    broker::{
        Broker, Change, DynBroker, Ending, JobState, MAX_BYTES, NewJob, Operate, Operated, OperationDeed, OperationPart, OperationStep,
        Scan, Wrapper,
    },
    inspect::{NewOperation, OperationKind, OperationState},
};

use super::{
    bed::{Bed, Lane, eventually, finish, nack},
    groups::sound,
    operations::{filter, start},
    searches::CountsScans,
};
use crate::Changes as _;

const HOUR: Duration = Duration::from_secs(3600);

/// All jobs that a walk finds with pages of one. `changes` is called when it has found `behind` of
/// them.
async fn met(bed: &Bed, states: &[JobState], behind: usize, changes: impl AsyncFnOnce()) -> BTreeSet<JobId> {
    let (mut met, mut after, mut changes) = (BTreeSet::new(), None, Some(changes));
    for _ in 0..5_000 {
        let found = bed.broker.scan(&Scan::new(&bed.queue, states, 1).including_moved().after(after)).await.expect("a page can be read");
        met.extend(found.jobs.into_iter().map(|job| job.id));
        after = found.next;
        if after.is_none() {
            assert!(changes.is_none(), "the walk was over before anything changed");
            return met;
        }
        if met.len() >= behind
            && let Some(changes) = changes.take()
        {
            changes().await;
        }
    }
    panic!("the walk does not end");
}

async fn scheduled(bed: &Bed, jobs: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    for _ in 0..jobs {
        ids.push(bed.put_later(HOUR).await);
    }
    ids
}

/// Returns the number of jobs.
async fn snooze(lane: &mut Lane, delay: Duration) -> usize {
    let jobs = lane.claim(500).await;
    let turn = lane.next().finish(jobs.iter().map(|job| finish(job, Ending::Snooze { delay })).collect());
    lane.send(&turn).await;
    jobs.len()
}

/// From `active` to `scheduled`, from `retry` to `scheduled`, and to an earlier position in
/// `scheduled`.
pub async fn a_walk_meets_a_job_that_goes_from_one_wanted_state_to_another(bed: Bed) {
    let mut lane = bed.lane().await;
    // More jobs than one call of `HSCAN` returns, even if the scan has no limit.
    let waits = scheduled(&bed, 600).await;

    let moves = bed.put(1).await.remove(0);
    let delivery = lane.claim_one().await;
    let found = met(&bed, &[JobState::Scheduled, JobState::Active], 5, async || {
        assert!(lane.end(&delivery, Ending::Snooze { delay: HOUR / 2 }).await);
    })
    .await;
    assert!(waits.iter().chain([&moves]).all(|id| found.contains(id)), "it was active, and is scheduled");

    bed.broker.change(&bed.queue, Change::Delete, None, &[moves]).await.expect("it waits");
    let moves = bed.put(1).await.remove(0);
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, nack(HOUR)).await);
    let found = met(&bed, &[JobState::Scheduled, JobState::Retry], 5, async || {
        bed.broker.change(&bed.queue, Change::Promote, None, std::slice::from_ref(&moves)).await.expect("it waits");
        snooze(&mut lane, HOUR / 2).await;
    })
    .await;
    assert!(waits.iter().chain([&moves]).all(|id| found.contains(id)), "it has waited for another attempt, and is scheduled");

    bed.broker.change(&bed.queue, Change::Delete, None, &[moves]).await.expect("it waits");
    let moves = waits.last().expect("there are some");
    let found = met(&bed, &[JobState::Scheduled], 2, async || {
        bed.broker.change(&bed.queue, Change::Promote, None, std::slice::from_ref(moves)).await.expect("it waits");
        snooze(&mut lane, HOUR / 2).await;
    })
    .await;
    assert!(waits.iter().all(|id| found.contains(id)), "it is due earlier");
}

/// Half of the jobs wait for another attempt. During the walk they move to `scheduled`: about half
/// of them to positions before the walk, and half to positions after it.
pub async fn a_walk_meets_all_jobs_that_go_from_retry_to_scheduled(bed: Bed) {
    let many = 300;
    let waits = scheduled(&bed, many).await;
    let moves = bed.put(many).await;
    let mut lane = bed.lane().await;
    let mut failed = 0;
    while failed < many {
        let jobs = lane.claim(500).await;
        failed += jobs.len();
        let turn = lane.next().finish(jobs.iter().map(|job| finish(job, nack(HOUR))).collect());
        lane.send(&turn).await;
    }
    let found = met(&bed, &[JobState::Scheduled, JobState::Retry], many / 2, async || {
        bed.broker.change(&bed.queue, Change::Promote, None, &moves).await.expect("they wait");
        let mut snoozed = 0;
        while snoozed < many {
            snoozed += snooze(&mut lane, HOUR * 2).await;
        }
    })
    .await;
    assert_eq!(bed.depth(JobState::Scheduled).await, many as u64 * 2);
    assert_eq!(waits.iter().chain(&moves).filter(|id| !found.contains(id)).count(), 0, "jobs that are scheduled were passed over");
}

/// Waiting jobs start during the walk. The walk has passed the jobs that ran when it began.
pub async fn a_walk_meets_all_jobs_that_start_meanwhile(bed: Bed) {
    // More jobs than one call of `HSCAN` returns, even if the scan has no limit.
    let many = 300;
    let moves = scheduled(&bed, many).await;
    let mut lane = bed.lane().await;
    let found = met(&bed, &[JobState::Active, JobState::Scheduled], 5, async || {
        bed.broker.change(&bed.queue, Change::Promote, None, &moves).await.expect("they wait");
        let mut started = 0;
        while started < many {
            started += lane.claim(500).await.len();
        }
    })
    .await;
    assert_eq!(bed.depth(JobState::Active).await, many as u64);
    assert_eq!(moves.iter().filter(|id| !found.contains(id)).count(), 0, "jobs that run were passed over");
}

/// Jobs are promoted, start and snooze between two steps. Each is promoted once, and the operation
/// ends.
pub async fn a_promoted_job_that_snoozes_is_not_promoted_again(bed: Bed) {
    let mut producer = bed.producer().await;
    let many = 600;
    for _ in 0..2 {
        let jobs = (0..many / 2).map(|_| {
            let mut job = queue_core::broker::NewJob::new(JobId::make(), super::bed::envelope("polls"));
            job.due = queue_core::broker::Due::After(HOUR);
            job
        });
        producer.stored(jobs.collect()).await;
    }
    let mut lane = bed.lane().await;
    let promotes = start(&bed, &NewOperation::new(OperationKind::Promote, "state=scheduled".parse().expect("it is a filter"))).await;
    let mut run = bed.inspector().run_operation(&promotes);
    let mut steps = 0;
    while run.step().await.expect("it goes on") {
        snooze(&mut lane, HOUR * 2).await;
        steps += 1;
        assert!(steps < 50, "the operation meets the same jobs again and again: {:?}", run.operation());
    }
    snooze(&mut lane, HOUR * 2).await;
    assert_eq!((run.operation().state, run.operation().changed), (OperationState::Completed, many));
    assert_eq!(bed.depth(JobState::Scheduled).await, many);
}

/// Whether it is a step that changes jobs.
fn changes(request: &Operate) -> bool {
    matches!(&request.deed, OperationDeed::Step(OperationStep { part: OperationPart::Change { ids, .. }, .. }) if !ids.is_empty())
}

/// Forwards some steps that change jobs, and then stops like a crashed process.
#[derive(Debug)]
struct Dies {
    inner: DynBroker,
    steps_left: AtomicUsize,
}

impl Wrapper for Dies {
    fn inner(&self) -> &dyn Broker {
        &*self.inner
    }

    async fn operate(&self, request: &Operate) -> queue_core::Result<Operated> {
        let changes = changes(request);
        let left = self.steps_left.load(Ordering::Relaxed);
        if changes && left == 0 {
            return Err(Error::Internal("the runner is dead".to_owned()));
        }
        self.steps_left.store(left - usize::from(changes), Ordering::Relaxed);
        self.inner.operate(request).await
    }
}

/// The jobs of a page are submitted in several parts. Examined jobs are counted with the part that
/// has changed them.
pub async fn the_counts_of_an_operation_add_up_after_its_runner_has_died_between_two_parts(bed: Bed) {
    let (many, others) = (300, 40);
    let ids = bed.put(many).await;
    for n in 0..others {
        bed.put_given(&format!("other-{n}"), "x").await;
    }
    let given = (0..others).map(|n| JobId::given(&format!("other-{n}")).unwrap());
    let all: Vec<JobId> = ids.into_iter().chain(given).collect();
    bed.broker.cancel(&bed.queue, &all).await.unwrap();
    eventually("the clock goes on", async || {
        let cancelled = bed.show(all.last()?).await?.at_ms?;
        (super::schedules::now(&bed).await > cancelled).then_some(())
    })
    .await;
    let requeue = NewOperation::new(OperationKind::Requeue, filter("state=cancelled id!~other"));
    let started = start(&bed, &requeue).await;
    // Each of them stops after two parts of a page.
    for _ in 0..2 {
        let dies = Arc::new(Dies { inner: bed.broker.clone(), steps_left: AtomicUsize::new(2) });
        let mut run = Client::with_broker(dies).inspector().run_operation(&started).at_once();
        while run.step().await.is_ok() {}
    }
    let died = bed.inspector().operation(&bed.queue, &started.id).await.unwrap();
    assert!(died.is_running() && died.changed == 200, "{died:?}");
    let mut run = bed.inspector().run_operation(&started).at_once();
    while run.step().await.unwrap() {}
    let ended = run.operation();
    let n = |jobs: usize| jobs as u64;
    assert_eq!((ended.changed, ended.skipped, ended.failed), (n(many), n(others), 0));
    assert_eq!(ended.examined, n(many + others), "each job was examined once: {ended:?}");
    sound(&bed).await;
}

/// One of another release, and what is none: the walk begins anew.
pub async fn an_operation_whose_position_cannot_be_read_begins_again(bed: Bed) {
    for (at, position) in ["behind-7", "c1", "tag:c1", "tag:none", "a1613d"].into_iter().enumerate() {
        for filter_text in ["state=ready", "state=ready tag.order=17"] {
            for _ in 0..30 {
                let mut tagged = Envelope::new("suite.tagged", b"\x80");
                tagged.tags.insert("order".to_owned(), "17".to_owned());
                bed.put_job(NewJob::new(JobId::make(), tagged.encode().expect("it is small"))).await;
            }
            let mut cancel = start(&bed, &NewOperation::new(OperationKind::Cancel, filter(filter_text))).await;
            let part = OperationPart::Change { change: Change::Cancel, reason: None, states: vec![JobState::Ready], ids: Vec::new() };
            let step = OperationStep {
                runner: cancel.runner.clone().expect("it has a runner").into(),
                step: cancel.step,
                part,
                position: Some(position.to_owned()),
                examined: 0,
                skipped: 0,
                end: None,
                problem: None,
            };
            let deed = OperationDeed::Step(step);
            let answer = bed.broker.operate(&Operate::new(bed.queue.clone(), cancel.id.clone(), deed)).await.unwrap();
            let Operated::Done { operation, .. } = answer else { panic!("{answer:?}") };
            assert_eq!(operation.position.as_deref(), Some(position));
            cancel.clone_from(&operation);
            let mut run = bed.inspector().run_operation(&cancel).at_once();
            while run.step().await.unwrap() {}
            let ended = run.operation();
            assert_eq!((ended.state, ended.changed), (OperationState::Completed, 30), "{at}: {position}: {ended:?}");
        }
    }
    sound(&bed).await;
}

/// What a preview looks at is in the states of its operation, and what its steps read is bounded.
pub async fn a_preview_looks_at_jobs_in_the_states_of_its_operation(bed: Bed) {
    let mut lane = bed.lane().await;
    bed.put(20).await;
    let held = lane.claim(20).await;
    for held in &held {
        assert!(lane.end(held, Ending::Ack { result: None, keep: Some(HOUR) }).await);
    }
    let cancelled = bed.put(5).await;
    bed.broker.cancel(&bed.queue, &cancelled).await.unwrap();
    let mut producer = bed.producer().await;
    for _ in 0..6 {
        producer.stored((0..100).map(|_| NewJob::new(JobId::make(), super::bed::envelope("waits"))).collect()).await;
    }
    bed.put_later(HOUR).await;
    let inspector = bed.inspector();
    let requeue = NewOperation::new(OperationKind::Requeue, filter("state=cancelled"));
    let preview = inspector.preview_operation(&bed.queue, &requeue, 1_000).await.unwrap();
    assert_eq!((preview.eligible, preview.examined, preview.total, preview.is_whole), (5, 5, 5, true));
    let counts = Arc::new(CountsScans::new(bed.broker.clone()));
    let promote = NewOperation::new(OperationKind::Promote, filter("state=scheduled"));
    let client = Client::with_broker(counts.clone());
    let preview = client.inspector().preview_operation(&bed.queue, &promote, 250).await.unwrap();
    assert!(preview.examined <= 1 && preview.total == 1, "{preview:?}");
    assert_eq!(counts.scans(), 1, "one step reads 250 jobs: {preview:?}");
}

/// One that was cancelled, was requeued and is done has two ends, and is behind what ended between
/// them.
pub async fn a_scan_goes_on_behind_each_job_that_has_ended(bed: Bed) {
    let mut lane = bed.lane().await;
    let twice = bed.put(1).await;
    bed.broker.change(&bed.queue, Change::Cancel, None, &twice).await.unwrap();
    let ack = Ending::Ack { result: None, keep: Some(HOUR) };
    for round in 0..3 {
        bed.put(3).await;
        if round == 1 {
            bed.broker.change(&bed.queue, Change::Requeue, None, &twice).await.unwrap();
        }
        for held in lane.claim(10).await {
            assert!(lane.end(&held, ack.clone()).await);
        }
    }
    let scan = async |after| {
        let found = bed.broker.scan(&Scan::new(&bed.queue, &[JobState::Done, JobState::Cancelled], 500).after(after)).await.unwrap();
        (found.jobs.into_iter().map(|job| job.id).collect::<Vec<_>>(), found.places)
    };
    let (ids, places) = scan(None).await;
    assert_eq!((ids.len(), places.len(), ids.contains(&twice[0])), (10, 10, true));
    for (at, place) in places.into_iter().enumerate() {
        assert_eq!(scan(Some(place)).await.0, ids[at + 1..], "behind the job {at}");
    }
}

/// Carries out each step that changes jobs, and keeps every second answer to itself, from the first
/// on.
#[derive(Debug)]
struct Loses {
    inner: DynBroker,
    steps: AtomicUsize,
}

impl Wrapper for Loses {
    fn inner(&self) -> &dyn Broker {
        &*self.inner
    }

    async fn operate(&self, request: &Operate) -> queue_core::Result<Operated> {
        let answer = self.inner.operate(request).await;
        if changes(request) && self.steps.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            return Err(Error::Internal("the answer is lost".to_owned()));
        }
        answer
    }
}

/// After an error a runner does not know whether its step was carried out. No job is left out, and
/// none is counted twice.
pub async fn a_runner_goes_on_from_what_is_stored_after_a_lost_answer(bed: Bed) {
    let many = 900;
    bed.put(many).await;
    let started = start(&bed, &NewOperation::new(OperationKind::Cancel, filter("state=ready"))).await;
    let loses = Arc::new(Loses { inner: bed.broker.clone(), steps: AtomicUsize::new(0) });
    let client = Client::with_broker(loses);
    let mut run = client.inspector().run_operation(&started);
    let (mut steps, mut lost) = (0, 0);
    loop {
        match run.step().await {
            Ok(true) => {}
            Ok(false) => break,
            Err(_) => lost += 1,
        }
        steps += 1;
        assert!(steps < 200, "the operation does not end: {:?}", run.operation());
    }
    let ended = run.operation();
    assert!(lost >= 2, "{lost} answers were lost");
    assert_eq!((ended.state, ended.changed, ended.failed), (OperationState::Completed, many as u64, 0), "{ended:?}");
    assert_eq!((bed.depth(JobState::Ready).await, bed.depth(JobState::Cancelled).await), (0, many as u64));
    sound(&bed).await;
}

/// Forty jobs of 200 KiB, with and without those that move, and by a tag: a step brings a mebibyte
/// and a piece of its broker, and all are found.
pub async fn a_step_of_a_scan_ends_with_a_mebibyte_of_jobs(bed: Bed) {
    let mut ids = BTreeSet::new();
    for _ in 0..40 {
        let mut large = Envelope::new("suite.large", &[0; 200 * 1024]);
        large.tags.insert("size".to_owned(), "large".to_owned());
        let job = NewJob::new(JobId::make(), large.encode().expect("it is small enough"));
        ids.insert(job.id.clone());
        bed.put_job(job).await;
    }
    let in_order = Scan::new(&bed.queue, &[JobState::Ready], 500);
    for request in [in_order.clone(), in_order.clone().including_moved(), in_order.tagged("size", "large")] {
        let (mut seen, mut place, mut steps) = (BTreeSet::new(), None, 0);
        loop {
            let found = bed.broker.scan(&request.clone().after(place)).await.unwrap();
            let size: usize = found.jobs.iter().map(|job| job.envelope.len()).sum();
            // A server may return more than it was asked for: the entries of a whole bucket and of
            // those chained to it.
            assert!(size <= 5 * MAX_BYTES, "a step has {size} bytes: {request:?}");
            seen.extend(found.jobs.into_iter().map(|job| job.id));
            (place, steps) = (found.next, steps + 1);
            assert!(steps < 100, "it ends: {request:?}");
            if place.is_none() {
                break;
            }
        }
        assert_eq!(seen, ids, "{request:?}");
        assert!(steps >= 2, "{steps} steps: {request:?}");
    }
}
