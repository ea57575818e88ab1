//! Operations: changes of all matching jobs of a queue, in steps. One runner executes a step once,
//! and the next runner continues from there.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use queue_core::{
    __private::Envelope,
    Error, JobId,
    broker::{
        BuryReason, Change, Ending, Enqueued, JobState, OPERATIONS_KEPT, Operate, Operated, OperationDeed, OperationPart, OperationStep,
        Scan, StartOperation,
    },
    inspect::{Filter, NewOperation, Operation, OperationKind, OperationState},
};

use super::{
    bed::{Bed, Producer, envelope, eventually, nack},
    groups::sound,
    unique::{BUFFER, SKIP, job, running},
};
use crate::Changes as _;

pub(super) fn filter(text: &str) -> Filter {
    text.parse().expect("it is a filter")
}

pub(super) async fn start(bed: &Bed, new: &NewOperation) -> Operation {
    bed.inspector().start_operation(&bed.queue, new).await.expect("it is started")
}

/// Takes all steps.
pub(super) async fn run(bed: &Bed, operation: &Operation) -> Operation {
    let mut run = bed.inspector().run_operation(operation);
    while run.step().await.expect("it goes on") {}
    run.operation().clone()
}

/// Runs an operation, and returns the numbers of changed, skipped and failed jobs.
pub(super) async fn counts(bed: &Bed, new: NewOperation) -> (u64, u64, u64) {
    let operation = run(bed, &start(bed, &new).await).await;
    assert_eq!(operation.state, OperationState::Completed);
    (operation.changed, operation.skipped, operation.failed)
}

async fn operate(bed: &Bed, id: &str, deed: OperationDeed) -> Operated {
    bed.broker.operate(&Operate::new(bed.queue.clone(), id, deed)).await.expect("it is answered")
}

/// An operation with this name and this runner.
async fn begun(bed: &Bed, id: &str, kind: OperationKind) -> Operated {
    let start = StartOperation { kind, filter: String::new(), by: None, reason: None, total: 0, runner: Some("one".into()) };
    operate(bed, id, OperationDeed::Start(start)).await
}

fn changing(runner: &str, step: u64, change: Change, ids: &[JobId]) -> OperationDeed {
    changing_in(runner, step, change, &JobState::ALL, ids)
}

/// The same with jobs that are in one of these states.
fn changing_in(runner: &str, step: u64, change: Change, states: &[JobState], ids: &[JobId]) -> OperationDeed {
    let part = OperationPart::Change { change, reason: Some("it is over".to_owned()), states: states.to_vec(), ids: ids.to_vec() };
    let position = Some(format!("behind-{step}"));
    OperationDeed::Step(OperationStep { runner: runner.into(), step, part, position, examined: 10, skipped: 3, end: None, problem: None })
}

fn operation(answer: &Operated) -> Operation {
    match answer {
        Operated::Done { operation, .. } | Operated::Other(operation) | Operated::UnderWay(operation) => operation.clone(),
        other => panic!("there is none: {other:?}"),
    }
}

fn is_done(answer: &Operated) -> bool {
    matches!(answer, Operated::Done { .. })
}

/// A job that its producer has enqueued at this time.
pub(super) fn of_time(at_ms: i64) -> queue_core::broker::NewJob {
    let mut envelope = Envelope::new("suite.task", b"\x80");
    envelope.enqueued_ms = Some(at_ms);
    queue_core::broker::NewJob::new(JobId::make(), envelope.encode().expect("it is small"))
}

/// The matching jobs are changed, and all are counted. The operator and the reason are kept.
pub async fn an_operation_changes_what_matches_and_reports_how_many(bed: Bed) {
    for id in ["mine-1", "mine-2", "other"] {
        bed.put_given(id, "x").await;
    }
    bed.put_later(Duration::from_secs(600)).await;
    let new = NewOperation::new(OperationKind::Cancel, filter("state=ready id~mine")).by("ada");
    let inspector = bed.inspector().because("ordered twice");
    let started = inspector.start_operation(&bed.queue, &new).await.unwrap();
    assert_eq!((started.state, started.total, started.step), (OperationState::Running, 4, 0));
    assert!(inspector.preview_operation(&bed.queue, &new, 1000).await.unwrap().eligible == 2, "a look changes nothing");
    let ended = run(&bed, &started).await;
    assert_eq!((ended.state, ended.changed, ended.skipped, ended.failed), (OperationState::Completed, 2, 1, 0));
    assert_eq!((ended.by.as_deref(), ended.reason.as_deref(), ended.percent()), (Some("ada"), Some("ordered twice"), 100));
    assert!(ended.ended_ms.is_some_and(|at| at >= ended.started_ms));
    let [mine, other] = ["mine-1", "other"].map(|id| JobId::given(id).unwrap());
    assert_eq!(bed.show(&mine).await.unwrap().note.as_deref(), Some("ordered twice"));
    assert_eq!((bed.state(&mine).await, bed.state(&other).await), (Some(JobState::Cancelled), Some(JobState::Ready)));
    assert_eq!(bed.inspector().operations(&bed.queue).await.unwrap(), [ended]);
    sound(&bed).await;
}

/// Each action, with more jobs than a page and a step have.
pub async fn each_kind_of_operation_changes_all_that_it_applies_to(bed: Bed) {
    let many = 700;
    bed.put(many).await;
    let all = |kind, states: &str| NewOperation::new(kind, filter(states));
    let n = many as u64;
    assert_eq!(counts(&bed, all(OperationKind::Cancel, "state=ready")).await, (n, 0, 0));
    assert_eq!(counts(&bed, all(OperationKind::Requeue, "state=cancelled")).await, (n, 0, 0));
    let mut lane = bed.lane().await;
    let mut failed = 0;
    while failed < many {
        let claimed = lane.claim(500).await;
        failed += claimed.len();
        let turn = lane.next().finish(claimed.iter().map(|job| super::finish(job, nack(Duration::from_secs(600)))).collect());
        lane.send(&turn).await;
    }
    eventually("the clock has gone on", async || {
        let started = super::schedules::now(&bed).await;
        let last = bed.ids(JobState::Retry).await.pop()?;
        (bed.show(&last).await?.failures.last()?.at_ms < started).then_some(())
    })
    .await;
    assert_eq!(counts(&bed, all(OperationKind::Promote, "state=retry")).await, (n, 0, 0));
    assert_eq!(counts(&bed, all(OperationKind::Delete, "state=ready")).await, (n, 0, 0));
    assert_eq!(bed.stats().await.count(JobState::Ready), 0);
    sound(&bed).await;
}

/// A queue has one operation at a time. The running one is returned.
pub async fn a_second_operation_is_refused(bed: Bed) {
    bed.put(1).await;
    assert!(is_done(&begun(&bed, "one", OperationKind::Cancel).await));
    assert!(is_done(&begun(&bed, "one", OperationKind::Cancel).await), "a start that is sent again starts no second one");
    let second = begun(&bed, "two", OperationKind::Delete).await;
    assert!(matches!(&second, Operated::UnderWay(other) if other.id == "one"), "{second:?}");
    let new = NewOperation::new(OperationKind::Delete, filter("state=dead"));
    match bed.inspector().start_operation(&bed.queue, &new).await {
        Err(Error::OperationUnderWay(other)) => assert_eq!(other, format!("{}/one", bed.queue)),
        other => panic!("it is refused: {other:?}"),
    }
    assert!(is_done(&operate(&bed, "one", OperationDeed::Stop).await));
    assert!(is_done(&begun(&bed, "two", OperationKind::Delete).await));
    assert_eq!(operate(&bed, "three", OperationDeed::Stop).await, Operated::NotFound);
}

/// A step without an answer is sent again. It changes nothing twice, and is counted once.
pub async fn a_step_that_is_sent_again_changes_nothing(bed: Bed) {
    let ids = bed.put(2).await;
    begun(&bed, "one", OperationKind::Cancel).await;
    let step = changing("one", 0, Change::Cancel, &ids[..1]);
    let first = operation(&operate(&bed, "one", step.clone()).await);
    assert_eq!((first.step, first.examined, first.changed, first.skipped), (1, 10, 1, 3));
    assert_eq!(first.position.as_deref(), Some("behind-0"));
    bed.broker.change(&bed.queue, Change::Requeue, None, &ids[..1]).await.unwrap();
    let again = operate(&bed, "one", step).await;
    assert!(is_done(&again));
    assert_eq!(operation(&again), first);
    assert_eq!(bed.state(&ids[0]).await, Some(JobState::Ready), "it is not cancelled once more");
    let ahead = operate(&bed, "one", changing("one", 2, Change::Cancel, &ids[1..])).await;
    assert!(matches!(ahead, Operated::Other(_)), "a step is missing");
    assert_eq!(bed.state(&ids[1]).await, Some(JobState::Ready));
    let second = operation(&operate(&bed, "one", changing("one", 1, Change::Cancel, &ids[1..])).await);
    assert_eq!((second.step, second.changed), (2, 2));
}

/// A runner that was replaced changes nothing. While its last step is recent, only an explicit
/// takeover replaces it.
pub async fn a_runner_that_was_taken_over_changes_nothing(bed: Bed) {
    let ids = bed.put(1).await;
    begun(&bed, "one", OperationKind::Cancel).await;
    let take = |runner: &str, at_once| OperationDeed::Take { runner: runner.into(), at_once };
    let early = operate(&bed, "one", take("two", false)).await;
    assert!(matches!(&early, Operated::Other(of) if of.runner.as_deref() == Some("one")), "{early:?}");
    let taken = operation(&operate(&bed, "one", take("two", true)).await);
    assert_eq!((taken.runner.as_deref(), taken.step), (Some("two"), 1));
    let again = operation(&operate(&bed, "one", take("two", false)).await);
    assert_eq!(
        (again.runner.as_deref(), again.step),
        (Some("two"), 2),
        "it has it already; a step of before that comes late is none of the next"
    );
    for step in [0, 1, 2] {
        let late = operate(&bed, "one", changing("one", step, Change::Cancel, &ids)).await;
        assert!(matches!(late, Operated::Other(_)), "{late:?}");
    }
    assert_eq!(bed.state(&ids[0]).await, Some(JobState::Ready));
    assert!(is_done(&operate(&bed, "one", changing("two", 1, Change::Cancel, &ids)).await));
    assert_eq!(bed.state(&ids[0]).await, Some(JobState::Ready), "it is taken for one that was carried out");
    assert!(is_done(&operate(&bed, "one", changing("two", 2, Change::Cancel, &ids)).await));
    assert_eq!(bed.state(&ids[0]).await, Some(JobState::Cancelled));
}

/// An abandoned operation is continued by the first runner that takes it over.
pub async fn an_operation_goes_on_with_the_next_runner(bed: Bed) {
    bed.put(900).await;
    let new = NewOperation::new(OperationKind::Cancel, filter("state=ready")).detached();
    let started = start(&bed, &new).await;
    assert_eq!(started.runner, None);
    let mut first = bed.inspector().run_operation(&started);
    for _ in 0..2 {
        assert!(first.step().await.unwrap());
    }
    let changed = first.operation().changed;
    assert!(changed > 0 && changed < 900, "{changed}");
    let mut waits = bed.inspector().run_operation(&started);
    assert!(!waits.step().await.unwrap(), "its runner is there");
    let mut second = bed.inspector().run_operation(&started).at_once();
    assert!(second.step().await.unwrap());
    let mut goes_on = true;
    for _ in 0..10 {
        goes_on = goes_on && first.step().await.unwrap();
    }
    assert!(!goes_on && first.is_over(), "it was taken over");
    while second.step().await.unwrap() {}
    assert_eq!((second.operation().changed, second.operation().state), (900, OperationState::Completed));
}

/// An operation has the runner that has started it, even before its first step.
pub async fn an_operation_is_run_by_the_one_who_has_started_it(bed: Bed) {
    bed.put(3).await;
    let started = start(&bed, &NewOperation::new(OperationKind::Cancel, filter("state=ready"))).await;
    let seen = bed.inspector().operation(&bed.queue, &started.id).await.unwrap();
    let mut other = bed.inspector().run_operation(&seen);
    assert!(!other.step().await.unwrap() && other.is_over());
    assert_eq!((other.operation().changed, run(&bed, &started).await.changed), (0, 3));
}

/// A stopped operation does not continue.
pub async fn an_operation_that_was_stopped_takes_no_step(bed: Bed) {
    bed.put(900).await;
    let started = start(&bed, &NewOperation::new(OperationKind::Delete, filter("state=ready"))).await;
    let mut run = bed.inspector().run_operation(&started);
    assert!(run.step().await.unwrap() && run.step().await.unwrap());
    let stopped = bed.inspector().stop_operation(&bed.queue, &started.id).await.unwrap();
    assert_eq!(stopped.state, OperationState::Stopped);
    while run.step().await.unwrap() {}
    let left = bed.depth(JobState::Ready).await;
    assert_eq!((run.operation().state, 900 - left), (OperationState::Stopped, stopped.changed));
    assert_eq!(bed.inspector().stop_operation(&bed.queue, &started.id).await.unwrap(), stopped, "it may be said again");
    sound(&bed).await;
}

/// Jobs that were enqueued or have ended after its start are not affected.
pub async fn an_operation_concerns_jobs_that_were_there_before(bed: Bed) {
    bed.producer().await.stored(vec![of_time(1)]).await;
    let mut lane = bed.lane().await;
    let dies = lane.claim_one().await;
    let old = bed.put(1).await;
    let cancels = start(&bed, &NewOperation::new(OperationKind::Cancel, filter("state=ready"))).await;
    let young = of_time(cancels.started_ms + 1);
    let id = young.id.clone();
    bed.producer().await.stored(vec![young]).await;
    assert_eq!(run(&bed, &cancels).await.changed, 1);
    assert_eq!((bed.state(&old[0]).await, bed.state(&id).await), (Some(JobState::Cancelled), Some(JobState::Ready)));
    let requeues = start(&bed, &NewOperation::new(OperationKind::Requeue, filter("state!=done"))).await;
    eventually("the clock goes on", async || (super::schedules::now(&bed).await > requeues.started_ms).then_some(())).await;
    assert!(lane.end(&dies, Ending::Bury { reason: BuryReason::Failed, error: None }).await);
    let ended = run(&bed, &requeues).await;
    assert_eq!((ended.changed, ended.skipped), (1, 1), "the cancelled one; what dies meanwhile stays dead");
    assert_eq!(bed.state(&dies.id).await, Some(JobState::Dead));
}

/// Between the read of a job and the step, the job may start or end, and another job may get its
/// id. Such a job is not changed.
pub async fn a_job_that_has_changed_since_it_was_read_stays(bed: Bed) {
    let ids = bed.put(3).await;
    let given = JobId::given("mine").expect("it is an id");
    bed.put_given("mine", "x").await;
    bed.broker.cancel(&bed.queue, std::slice::from_ref(&given)).await.expect("it waits");
    assert!(is_done(&begun(&bed, "busy", OperationKind::Cancel).await));
    let mut lane = bed.lane().await;
    let [runs, dies] = lane.claim(2).await.try_into().expect("both wait");
    assert!(lane.end(&dies, Ending::Bury { reason: BuryReason::Failed, error: None }).await);
    let asked = [runs.id.clone(), dies.id.clone(), ids[2].clone()];
    let answer = operate(&bed, "busy", changing_in("one", 0, Change::Cancel, &[JobState::Ready], &asked)).await;
    assert_eq!((operation(&answer).changed, operation(&answer).skipped), (1, 5), "three were skipped by its runner");
    assert_eq!(bed.state(&runs.id).await, Some(JobState::Active));
    let answer = operate(&bed, "busy", changing_in("one", 1, Change::Delete, &[JobState::Ready, JobState::Scheduled], &asked)).await;
    assert_eq!((operation(&answer).changed, bed.state(&dies.id).await), (1, Some(JobState::Dead)));
    let mut young = of_time(operation(&answer).started_ms + 1);
    young.id = given.clone();
    bed.producer().await.stored(vec![young]).await;
    let answer =
        operate(&bed, "busy", changing_in("one", 2, Change::Delete, &[JobState::Cancelled, JobState::Ready], std::slice::from_ref(&given)))
            .await;
    assert_eq!((operation(&answer).changed, bed.state(&given).await), (1, Some(JobState::Ready)), "it is another one");
    sound(&bed).await;
}

/// A job that cannot come back, because another one has its key, is counted.
pub async fn a_job_whose_key_is_held_stays_as_it_is(bed: Bed) {
    let mut lane = bed.lane().await;
    let (dead, delivery) = running(&bed, &mut lane, SKIP).await;
    assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Failed, error: None }).await);
    assert_eq!(bed.put_job(job("second", SKIP)).await, Enqueued::Stored);
    eventually("the clock goes on", async || {
        let died = bed.show(&dead).await?.at_ms?;
        (super::schedules::now(&bed).await > died).then_some(())
    })
    .await;
    assert_eq!(counts(&bed, NewOperation::new(OperationKind::Requeue, filter("state=dead"))).await, (0, 0, 1));
    assert_eq!(bed.state(&dead).await, Some(JobState::Dead));
}

/// The last operations and the running one are kept.
pub async fn the_history_of_operations_is_bounded(bed: Bed) {
    for n in 0..OPERATIONS_KEPT + 5 {
        let id = format!("{n:03}");
        assert!(is_done(&begun(&bed, &id, OperationKind::Cancel).await));
        assert!(is_done(&operate(&bed, &id, OperationDeed::Stop).await));
    }
    let kept: Vec<String> = bed.inspector().operations(&bed.queue).await.unwrap().into_iter().map(|operation| operation.id).collect();
    let last: BTreeSet<String> = (5..OPERATIONS_KEPT + 5).map(|n| format!("{n:03}")).collect();
    assert_eq!((kept.len(), kept.into_iter().collect()), (OPERATIONS_KEPT, last));
}

/// A walk finds every job that does not move, although others are claimed, are enqueued, or move in
/// the meantime.
pub async fn a_walk_meets_every_job_that_stays(bed: Bed) {
    let ids = bed.put(1200).await;
    let mut producer = Producer::on(&bed.broker, &bed.queue).await;
    let mut lane = bed.lane().await;
    let (mut met, mut after, mut pages) = (BTreeSet::new(), None, 0);
    loop {
        let states = [JobState::Ready, JobState::Retry, JobState::Active];
        let found = bed.broker.scan(&Scan::new(&bed.queue, &states, 50).including_moved().after(after)).await.unwrap();
        met.extend(found.jobs.into_iter().map(|job| job.id));
        (after, pages) = (found.next, pages + 1);
        if after.is_none() {
            break;
        }
        let claimed = lane.claim(20).await;
        lane.ack(&claimed[..10]).await;
        for failed in &claimed[10..] {
            assert!(lane.end(failed, nack(Duration::from_secs(600))).await);
        }
        producer.stored((0..20).map(|_| queue_core::broker::NewJob::new(JobId::make(), envelope("more"))).collect()).await;
        assert!(pages < 500, "it ends");
    }
    let mut stays = BTreeSet::new();
    for state in [JobState::Ready, JobState::Retry, JobState::Active] {
        stays.extend(bed.ids(state).await);
    }
    let missed: Vec<&JobId> = ids.iter().filter(|id| stays.contains(id) && !met.contains(id)).collect();
    assert_eq!(missed, [] as [&JobId; 0]);
    let nothing = bed.broker.scan(&Scan::new(&bed.queue, &[], 50).including_moved()).await.unwrap();
    assert!(nothing.jobs.is_empty() && nothing.next.is_none());
}

/// Each state has a separate walk.
pub async fn a_walk_meets_the_jobs_of_each_state(bed: Bed) {
    let mut lane = bed.lane().await;
    let (_, _running) = running(&bed, &mut lane, BUFFER).await;
    bed.put_job(job("held", BUFFER)).await;
    bed.put(5).await;
    bed.put_later(Duration::from_secs(600)).await;
    let claimed = lane.claim(3).await;
    assert!(lane.end(&claimed[0], Ending::Ack { result: None, keep: Some(Duration::from_secs(600)) }).await);
    assert!(lane.end(&claimed[1], Ending::Bury { reason: BuryReason::Failed, error: None }).await);
    assert!(lane.end(&claimed[2], nack(Duration::from_secs(600))).await);
    for state in JobState::ALL {
        let (mut met, mut after) = (BTreeSet::new(), None);
        loop {
            let found = bed.broker.scan(&Scan::new(&bed.queue, &[state], 1).including_moved().after(after)).await.unwrap();
            assert!(found.jobs.iter().all(|job| job.state == state));
            met.extend(found.jobs.into_iter().map(|job| job.id));
            after = found.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(met, bed.ids(state).await.into_iter().collect(), "{state}");
    }
    let strange = Scan::new(&bed.queue, &[JobState::Dead], 1).including_moved().after(Some(b"no where".to_vec()));
    assert!(bed.broker.scan(&strange).await.is_err());
}

/// After a restored backup, an operation continues from its stored position. Later changes are made
/// again.
pub async fn an_operation_goes_on_after_a_restored_backup(bed: Bed) {
    bed.put(900).await;
    let started = start(&bed, &NewOperation::new(OperationKind::Cancel, filter("state=ready"))).await;
    let mut run = bed.inspector().run_operation(&started);
    assert!(run.step().await.unwrap() && run.step().await.unwrap());
    drop(run);
    let bed = bed.save().await;
    let stored = bed.inspector().operation(&bed.queue, &started.id).await.unwrap();
    let mut run = bed.inspector().run_operation(&stored).at_once();
    assert!(run.step().await.unwrap() && run.step().await.unwrap());
    drop(run);
    let bed = bed.restore().await;
    let Ok(stored) = bed.inspector().operation(&bed.queue, &started.id).await else {
        assert_eq!(bed.stats().await.count(JobState::Ready), 0, "a storage that cannot be backed up is empty");
        return;
    };
    let mut run = bed.inspector().run_operation(&stored).at_once();
    while run.step().await.unwrap() {}
    assert_eq!((run.operation().changed, bed.depth(JobState::Ready).await), (900, 0));
    assert_eq!(bed.depth(JobState::Cancelled).await, 900);
    sound(&bed).await;
}

/// An invalid operation is refused, and nothing is stored.
pub async fn an_operation_outside_its_bounds_is_refused(bed: Bed) {
    let refused = async |deed: OperationDeed| bed.broker.operate(&Operate::new(bed.queue.clone(), "one", deed)).await.is_err();
    let runner: Arc<str> = "one".into();
    begun(&bed, "one", OperationKind::Cancel).await;
    assert!(refused(OperationDeed::Take { runner: "a b".into(), at_once: true }).await);
    let ids: Vec<JobId> = (0..501).map(|_| JobId::make()).collect();
    assert!(refused(changing(&runner, 0, Change::Cancel, &ids)).await);
    assert!(refused(changing(&runner, 0, Change::Requeue, &ids[..51])).await);
    let OperationDeed::Step(mut step) = changing(&runner, 0, Change::Cancel, &ids[..1]) else { unreachable!() };
    step.position = Some("two words".to_owned());
    assert!(refused(OperationDeed::Step(step)).await);
    assert_eq!(bed.inspector().operation(&bed.queue, "one").await.unwrap().step, 0);
    let unheard = bed.broker.operate(&Operate::new("nobody-knows", "one", OperationDeed::Stop)).await.unwrap();
    assert_eq!(unheard, Operated::NotFound);
}
