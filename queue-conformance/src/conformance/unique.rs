//! Unique keys: the result of a second job with a key, by the state of its holder.

use std::time::Duration;

use queue_core::{
    JobId,
    broker::{Counter, Due, Ending, Enqueued, Hold, JobState, KeyHolder, NewJob, OnConflict, Priority, SweepLimits, Unique, UniqueKey},
};

use super::bed::{Bed, LONG, Lane, envelope, eventually, given, nack};
use crate::Changes as _;

pub(super) const SKIP: OnConflict = OnConflict::Skip;
pub(super) const REPLACE: OnConflict = OnConflict::Replace;
pub(super) const BUFFER: OnConflict = OnConflict::BufferOne;

pub(super) fn key() -> UniqueKey {
    UniqueKey::of("suite.task", b"key")
}

/// A job with the key of all of these cases.
pub(super) fn job(payload: &str, on_conflict: OnConflict) -> NewJob {
    let mut job = NewJob::new(JobId::make(), envelope(payload));
    job.unique = Some(Box::new(Unique::new(key()).on_conflict(on_conflict)));
    job
}

pub(super) fn held_for(payload: &str, on_conflict: OnConflict, hold: Hold) -> NewJob {
    let mut job = job(payload, on_conflict);
    job.unique = Some(Box::new(Unique::new(key()).on_conflict(on_conflict).hold(hold)));
    job
}

/// A debounced job.
pub(super) fn put_off(payload: &str, delay: Duration, max_wait: Option<Duration>) -> NewJob {
    let mut job = job(payload, REPLACE);
    job.due = Due::After(delay);
    job.unique.as_mut().expect("it has a key").max_wait = max_wait;
    job
}

/// Stores the first job of the key.
pub(super) async fn first(bed: &Bed, job: NewJob) -> JobId {
    let id = job.id.clone();
    assert_eq!(bed.put_job(job).await, Enqueued::Stored);
    id
}

pub(super) async fn holder(bed: &Bed) -> Option<KeyHolder> {
    bed.broker.key_holder(&bed.queue, &key()).await.expect("a key can be looked at")
}

/// Checks that only this job holds the key.
pub(super) async fn is_held_by(bed: &Bed, id: &JobId, when: &str) {
    assert_eq!(holder(bed).await.map(|holder| holder.id).as_ref(), Some(id), "{when}");
}

async fn payload(bed: &Bed, id: &JobId) -> Vec<u8> {
    bed.show(id).await.expect("it is there").envelope
}

/// A claimed job that runs.
pub(super) async fn running(bed: &Bed, lane: &mut Lane, on_conflict: OnConflict) -> (JobId, queue_core::broker::Delivery) {
    let id = first(bed, job("first", on_conflict)).await;
    let delivery = lane.claim_one().await;
    assert_eq!(delivery.id, id);
    (id, delivery)
}

/// By default the existing job is the answer, in every state before its end.
pub async fn a_second_job_of_a_key_is_skipped(bed: Bed) {
    let mut lane = bed.lane().await;
    let id = first(&bed, job("first", SKIP)).await;
    assert_eq!(bed.put_job(job("second", SKIP)).await, Enqueued::Duplicate(id.clone()), "ready");
    let delivery = lane.claim_one().await;
    assert_eq!(bed.put_job(job("second", SKIP)).await, Enqueued::Duplicate(id.clone()), "active");
    assert!(lane.end(&delivery, nack(LONG)).await);
    assert_eq!(bed.put_job(job("second", SKIP)).await, Enqueued::Duplicate(id.clone()), "retry");
    assert_eq!(bed.broker.promote(&bed.queue, std::slice::from_ref(&id)).await.unwrap(), [true]);
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Snooze { delay: LONG }).await);
    assert_eq!(bed.put_job(job("second", SKIP)).await, Enqueued::Duplicate(id.clone()), "scheduled");
    assert_eq!(bed.broker.promote(&bed.queue, std::slice::from_ref(&id)).await.unwrap(), [true]);
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Park { task: "t".to_owned() }).await);
    assert_eq!(bed.put_job(job("second", SKIP)).await, Enqueued::Duplicate(id.clone()), "parked");
    assert_eq!(bed.show(&id).await.unwrap().unique, Some(key()));
    assert_eq!((bed.stats().await.jobs(), bed.counter(Counter::Enqueued).await), (1, 1));
}

/// Two keys are independent, and so are two queues.
pub async fn another_key_and_a_job_without_one_are_stored(bed: Bed) {
    first(&bed, job("first", SKIP)).await;
    let mut other = job("other", SKIP);
    other.unique = Some(Box::new(Unique::new(UniqueKey::of("suite.task", b"other"))));
    assert_eq!(bed.put_job(other).await, Enqueued::Stored);
    assert_eq!(bed.put_job(NewJob::new(JobId::make(), envelope("plain"))).await, Enqueued::Stored);
    assert_eq!(bed.depth(JobState::Ready).await, 3);
    let mut lane = bed.lane().await;
    let held = lane.claim(10).await;
    lane.ack(&held).await;
    assert!(holder(&bed).await.is_none());
    assert_eq!(bed.stats().await.jobs(), 0);
}

/// A job that waits takes the payload and the time of the next one.
pub async fn a_job_that_waits_is_replaced(bed: Bed) {
    let id = first(&bed, job("1", REPLACE)).await;
    assert_eq!(bed.put_job(job("2", REPLACE)).await, Enqueued::Replaced(id.clone()));
    assert_eq!((bed.state(&id).await, payload(&bed, &id).await), (Some(JobState::Ready), envelope("2")));
    let mut urgent = job("3", REPLACE);
    urgent.priority = Priority::High;
    assert_eq!(bed.put_job(urgent).await, Enqueued::Replaced(id.clone()));
    assert_eq!(bed.show(&id).await.unwrap().priority, Priority::High);
    assert_eq!(bed.put_job(put_off("4", LONG, None)).await, Enqueued::Replaced(id.clone()));
    assert_eq!((bed.state(&id).await, payload(&bed, &id).await), (Some(JobState::Scheduled), envelope("4")));
    assert_eq!(bed.put_job(job("5", BUFFER)).await, Enqueued::Replaced(id.clone()), "buffer_one leaves the time");
    assert_eq!((bed.state(&id).await, payload(&bed, &id).await), (Some(JobState::Scheduled), envelope("5")));
    assert_eq!(bed.put_job(job("6", REPLACE)).await, Enqueued::Replaced(id.clone()));
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    assert_eq!((&delivery.id, &delivery.envelope), (&id, &envelope("6")));
    lane.ack(&[delivery]).await;
    assert_eq!((bed.stats().await.jobs(), bed.counter(Counter::Enqueued).await), (0, 1));
}

/// A job that waits for its retry or is parked takes the payload, and keeps its position.
pub async fn a_job_that_failed_or_is_parked_takes_the_payload_alone(bed: Bed) {
    let mut lane = bed.lane().await;
    let (id, delivery) = running(&bed, &mut lane, REPLACE).await;
    assert!(lane.end(&delivery, nack(LONG)).await);
    let due = bed.show(&id).await.unwrap().at_ms;
    assert_eq!(bed.put_job(job("2", REPLACE)).await, Enqueued::Replaced(id.clone()));
    let record = bed.show(&id).await.unwrap();
    assert_eq!((record.state, record.attempts, record.at_ms, record.envelope), (JobState::Retry, 1, due, envelope("2")));
    bed.broker.promote(&bed.queue, std::slice::from_ref(&id)).await.unwrap();
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Park { task: "t".to_owned() }).await);
    assert_eq!(bed.put_job(job("3", REPLACE)).await, Enqueued::Replaced(id.clone()));
    assert_eq!((bed.state(&id).await, payload(&bed, &id).await), (Some(JobState::Parked), envelope("3")));
}

/// While a job runs, one successor waits for its end, with the newest payload. It gets the key.
pub async fn one_successor_is_held_until_the_job_has_ended(bed: Bed) {
    for on_conflict in [REPLACE, BUFFER] {
        let mut lane = bed.lane().await;
        let (_, delivery) = running(&bed, &mut lane, on_conflict).await;
        let second = job("second", on_conflict);
        let id = second.id.clone();
        assert_eq!(bed.put_job(second).await, Enqueued::Buffered(id.clone()));
        assert_eq!(bed.put_job(job("third", on_conflict)).await, Enqueued::Buffered(id.clone()));
        assert_eq!(bed.state(&id).await, Some(JobState::Held));
        assert_eq!((bed.ids(JobState::Held).await, bed.depth(JobState::Held).await), (vec![id.clone()], 1));
        assert_eq!(holder(&bed).await.unwrap().next, Some(id.clone()));
        assert!(lane.claim(10).await.is_empty(), "never two at once");
        assert!(lane.end(&delivery, nack(Duration::ZERO)).await);
        assert_eq!(bed.state(&id).await, Some(JobState::Held), "only after the retries are exhausted");
        assert_eq!(bed.put_job(job("fourth", on_conflict)).await, Enqueued::Buffered(id.clone()), "the successor is the newest");
        let again = lane.wait_for_one().await;
        lane.ack(&[again]).await;
        is_held_by(&bed, &id, "the successor follows").await;
        let next = lane.claim_one().await;
        assert_eq!((&next.id, &next.envelope), (&id, &envelope("fourth")));
        lane.ack(&[next]).await;
        assert_eq!(holder(&bed).await, None);
        assert_eq!(bed.stats().await.jobs(), 0);
    }
}

/// If the holder waits for its retry, `buffer_one` keeps one more job.
pub async fn one_more_waits_beside_a_job_that_failed(bed: Bed) {
    let mut lane = bed.lane().await;
    let (id, delivery) = running(&bed, &mut lane, BUFFER).await;
    assert!(lane.end(&delivery, nack(LONG)).await);
    let second = job("second", BUFFER);
    let next = second.id.clone();
    assert_eq!(bed.put_job(second).await, Enqueued::Buffered(next.clone()));
    assert_eq!(payload(&bed, &id).await, envelope("first"));
    bed.broker.cancel(&bed.queue, &[id]).await.unwrap();
    is_held_by(&bed, &next, "the first was cancelled").await;
    assert_eq!(bed.state(&next).await, Some(JobState::Ready));
}

/// A successor with a delay also waits for its time.
pub async fn a_successor_with_a_delay_is_scheduled_when_its_key_is_free(bed: Bed) {
    let mut lane = bed.lane().await;
    let (_, delivery) = running(&bed, &mut lane, REPLACE).await;
    let second = put_off("second", LONG, None);
    let next = second.id.clone();
    assert_eq!(bed.put_job(second).await, Enqueued::Buffered(next.clone()));
    lane.ack(&[delivery]).await;
    assert_eq!(bed.state(&next).await, Some(JobState::Scheduled));
    is_held_by(&bed, &next, "it waits").await;
}

/// Debounce: each enqueue postpones the job, up to the longest wait from the first one on.
pub async fn a_debounced_job_waits_no_longer_than_it_may(bed: Bed) {
    let minute = Duration::from_secs(60);
    let id = first(&bed, put_off("1", minute, Some(2 * minute))).await;
    let due = bed.show(&id).await.unwrap().at_ms.unwrap();
    assert_eq!(bed.put_job(put_off("2", 90 * minute, Some(2 * minute))).await, Enqueued::Replaced(id.clone()));
    let later = bed.show(&id).await.unwrap().at_ms.unwrap();
    assert!((59_000..61_000).contains(&(later - due)), "put off by {} ms", later - due);
    // The longest wait counts from the first of them on, even for a late one.
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(bed.put_job(put_off("again", 90 * minute, Some(2 * minute))).await, Enqueued::Replaced(id.clone()));
    assert_eq!(bed.show(&id).await.unwrap().at_ms, Some(later));
    assert_eq!(bed.put_job(put_off("3", minute / 2, Some(2 * minute))).await, Enqueued::Replaced(id.clone()));
    let sooner = bed.show(&id).await.unwrap().at_ms.unwrap();
    assert!(sooner < due, "the delay counts from the last enqueue on");
    let mut keeps = put_off("4", Duration::ZERO, Some(Duration::ZERO));
    keeps.due = Due::Now;
    keeps.unique.as_mut().unwrap().keep_payload = true;
    assert_eq!(bed.put_job(keeps).await, Enqueued::Replaced(id.clone()));
    assert_eq!((bed.state(&id).await, payload(&bed, &id).await), (Some(JobState::Ready), envelope("3")), "the payload stayed");
    let late = first_of_another(&bed, put_off("1", 90 * minute, Some(minute))).await;
    let wait = bed.show(&late).await.unwrap().at_ms.unwrap() - due;
    assert!((-1_000..10_000).contains(&wait), "the first job waits no longer, either: {wait}");
}

async fn first_of_another(bed: &Bed, mut job: NewJob) -> JobId {
    job.unique.as_mut().unwrap().key = UniqueKey::of("suite.task", b"another");
    first(bed, job).await
}

/// Throttle: the key is held for its time, even if the job ends.
pub async fn a_key_that_is_held_for_a_time_outlives_its_job(bed: Bed) {
    let mut lane = bed.lane().await;
    let long = first(&bed, held_for("long", SKIP, Hold::Within(LONG))).await;
    let delivery = lane.claim_one().await;
    lane.ack(&[delivery]).await;
    for on_conflict in [SKIP, REPLACE, BUFFER] {
        assert_eq!(bed.put_job(job("second", on_conflict)).await, Enqueued::Duplicate(long.clone()));
    }
    assert!(holder(&bed).await.unwrap().until_ms.is_some());
    assert_eq!(bed.broker.sweep(&bed.queue, &SweepLimits::default()).await.unwrap().keys, 0);
    bed.broker.release_key(&bed.queue, &key()).await.unwrap();
    first(&bed, held_for("short", SKIP, Hold::Within(Duration::from_millis(5)))).await;
    eventually("its time is over", async || holder(&bed).await.is_none().then_some(())).await;
    let swept = bed.broker.sweep(&bed.queue, &SweepLimits::default()).await.unwrap();
    assert_eq!(swept.keys, 1, "housekeeping prunes it");
    let next = first(&bed, held_for("next", SKIP, Hold::Within(LONG))).await;
    is_held_by(&bed, &next, "free again").await;
}

/// `until = "started"`: the start frees the key, and a job that comes back needs it again.
pub async fn a_key_that_is_held_until_the_start_is_asked_for_again(bed: Bed) {
    let started = |payload: &str| held_for(payload, SKIP, Hold::UntilStarted);
    let mut lane = bed.lane().await;
    let id = first(&bed, started("first")).await;
    assert_eq!(bed.put_job(started("again")).await, Enqueued::Duplicate(id.clone()));
    let delivery = lane.claim_one().await;
    assert_eq!(holder(&bed).await, None, "it has started");
    assert!(lane.end(&delivery, nack(LONG)).await);
    is_held_by(&bed, &id, "it came back").await;
    bed.broker.promote(&bed.queue, std::slice::from_ref(&id)).await.unwrap();
    let delivery = lane.claim_one().await;
    let younger = first(&bed, started("younger")).await;
    assert!(lane.end(&delivery, nack(LONG)).await);
    let record = bed.show(&id).await.unwrap();
    assert_eq!((record.state, record.note), (JobState::Cancelled, Some(format!("superseded by {younger}"))));
    is_held_by(&bed, &younger, "the younger one has it").await;
}

/// Keys apply within a batch, and a replay of it gives the same answers.
pub async fn a_batch_honours_keys_within_itself(bed: Bed) {
    let mut lane = bed.lane().await;
    let (running_id, _) = running(&bed, &mut lane, SKIP).await;
    let other = |payload: &str, on_conflict: OnConflict| {
        let mut job = job(payload, on_conflict);
        job.unique.as_mut().unwrap().key = UniqueKey::of("suite.task", b"batch");
        job
    };
    let plain = NewJob::new(JobId::make(), envelope("plain"));
    let jobs = vec![
        other("1", SKIP),
        job("2", SKIP),
        other("3", REPLACE),
        plain,
        job("4", BUFFER),
        job("5", BUFFER),
        given("g", "6"),
        other("7", SKIP),
    ];
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id.clone()).collect();
    let mut producer = bed.producer().await;
    let request = producer.next(jobs);
    let answers = vec![
        Enqueued::Stored,
        Enqueued::Duplicate(running_id),
        Enqueued::Replaced(ids[0].clone()),
        Enqueued::Stored,
        Enqueued::Buffered(ids[4].clone()),
        Enqueued::Buffered(ids[4].clone()),
        Enqueued::Stored,
        Enqueued::Duplicate(ids[0].clone()),
    ];
    assert_eq!(bed.broker.enqueue(&request).await.unwrap(), answers);
    bed.broker.delete(&bed.queue, &ids[..1]).await.unwrap();
    assert_eq!(bed.broker.enqueue(&request).await.unwrap(), answers, "a replay changes nothing");
    producer.seq = request.seq;
    producer.stored(vec![NewJob::new(JobId::make(), envelope("goes on"))]).await;
    assert_eq!(bed.counter(Counter::Enqueued).await, 6);
}

/// Jobs of a request differ only in their keys: only the first of each key is stored.
pub async fn of_jobs_of_one_request_the_first_of_each_key_is_stored(bed: Bed) {
    for priority in [Priority::Normal, Priority::High] {
        let with_key = |name: &str| {
            let mut job = job(name, SKIP);
            job.priority = priority;
            job.unique.as_mut().unwrap().key = UniqueKey::of("suite.task", format!("{name} {priority:?}").as_bytes());
            job
        };
        let jobs: Vec<_> = ["a", "a", "b"].map(with_key).into();
        let first = jobs[0].id.clone();
        let answers = bed.broker.enqueue(&bed.producer().await.next(jobs)).await.unwrap();
        assert_eq!(answers, [Enqueued::Stored, Enqueued::Duplicate(first.clone()), Enqueued::Stored]);
        let jobs: Vec<_> = ["c", "a", "c"].map(with_key).into();
        let third = jobs[0].id.clone();
        let answers = bed.broker.enqueue(&bed.producer().await.next(jobs)).await.unwrap();
        assert_eq!(answers, [Enqueued::Stored, Enqueued::Duplicate(first), Enqueued::Duplicate(third)]);
    }
    assert_eq!(bed.depth(JobState::Ready).await, 6);
    assert_eq!(bed.counter(Counter::Enqueued).await, 6);
}

/// A given id has precedence: an existing job with this id is the answer, whatever job holds the
/// key.
pub async fn a_given_id_is_asked_for_before_the_key(bed: Bed) {
    let with_key = |id: &str, payload: &str| {
        let mut new = given(id, payload);
        new.unique = job("", SKIP).unique;
        new
    };
    let id = first(&bed, with_key("a", "x")).await;
    assert_eq!(bed.put_job(with_key("a", "x")).await, Enqueued::Existing);
    assert_eq!(bed.put_job(with_key("a", "y")).await, Enqueued::IdConflict);
    assert_eq!(bed.put_job(with_key("b", "x")).await, Enqueued::Duplicate(id));
    let mut lane = bed.lane().await;
    let held = lane.claim(10).await;
    lane.ack(&held).await;
    assert_eq!(bed.put_job(with_key("a", "x")).await, Enqueued::Existing, "it is remembered");
    assert_eq!(bed.put_job(with_key("b", "x")).await, Enqueued::Stored, "the id was not taken");
}
