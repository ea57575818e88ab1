//! Turns: claims, receipts, replays and bounds.

use std::{collections::HashSet, time::Duration};

use queue_core::{
    Error, JobId,
    broker::{Counter, Delivery, Ending, Finish, JobState, MAX_BYTES, MAX_ITEMS, NewJob, PartyName, Priority, ProcessId, Register, Turn},
};

use super::bed::{Bed, LONG, ack, envelope, finish, nack};
use crate::Changes as _;

/// From enqueue to ack: only counters are left.
pub async fn a_job_is_claimed_acknowledged_and_gone(bed: Bed) {
    let ids = bed.put(1).await;
    assert_eq!(bed.state(&ids[0]).await, Some(JobState::Ready));
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    assert_eq!((&delivery.id, &delivery.envelope), (&ids[0], &envelope("0")));
    assert_eq!((delivery.attempts, delivery.crashes, delivery.snoozes, delivery.void), (0, 0, 0, false));
    assert_eq!(bed.state(&ids[0]).await, Some(JobState::Active));
    lane.ack(&[delivery]).await;
    assert_eq!(bed.state(&ids[0]).await, None);
    let stats = bed.stats().await;
    assert_eq!(stats.jobs(), 0, "{stats:?}");
    assert_eq!((stats.total(Counter::Enqueued), stats.total(Counter::Done)), (1, 1));
}

/// First in, first out.
pub async fn jobs_of_one_priority_are_served_in_order(bed: Bed) {
    let ids = bed.put(700).await;
    let mut lane = bed.lane().await;
    let mut served: Vec<JobId> = Vec::new();
    for _ in 0..7 {
        served.extend(lane.claim(100).await.into_iter().map(|delivery| delivery.id));
    }
    assert_eq!(served, ids);
}

/// Critical before high before normal before low, independent of the order of the enqueues.
pub async fn a_higher_priority_is_served_first(bed: Bed) {
    let mut ids = Vec::new();
    for priority in [Priority::Low, Priority::Normal, Priority::High, Priority::Critical] {
        ids.push(bed.put_at(priority).await);
        ids.push(bed.put_at(priority).await);
    }
    let mut lane = bed.lane().await;
    let served: Vec<JobId> = lane.claim(8).await.into_iter().map(|delivery| delivery.id).collect();
    let expected = [6, 7, 4, 5, 2, 3, 0, 1].map(|n: usize| ids[n].clone());
    assert_eq!(served, expected);
}

/// The requested number is a maximum, and the answer reports whether there are more jobs.
pub async fn a_claim_takes_no_more_than_was_asked_for(bed: Bed) {
    bed.put(5).await;
    let mut lane = bed.lane().await;
    let turn = lane.next().claim(3);
    let answer = lane.send(&turn).await;
    assert_eq!((answer.deliveries.len(), answer.more), (3, true));
    let turn = lane.next().claim(3);
    let answer = lane.send(&turn).await;
    assert_eq!((answer.deliveries.len(), answer.more), (2, false));
    let turn = lane.next();
    assert!(lane.send(&turn).await.deliveries.is_empty(), "a turn that claims nothing brings nothing");
}

/// This also holds if some of the jobs at the head were cancelled.
pub async fn a_claim_among_cancelled_jobs_takes_no_more_than_was_asked_for(bed: Bed) {
    let ids = bed.put(10).await;
    let gone = [0, 1, 4].map(|n| ids[n].clone());
    bed.broker.cancel(&bed.queue, &gone).await.unwrap();
    let mut lane = bed.lane().await;
    let taken: Vec<JobId> = lane.claim(3).await.into_iter().map(|delivery| delivery.id).collect();
    assert_eq!(taken, [2, 3, 5].map(|n| ids[n].clone()));
    assert_eq!(bed.depth(JobState::Ready).await, 4);
}

/// A handler can fence its own storage with the claim number.
pub async fn claim_numbers_grow_with_every_delivery_of_a_job(bed: Bed) {
    bed.put(1).await;
    let (mut one, mut other) = (bed.lane().await, bed.lane().await);
    let mut last = 0;
    for _ in 0..5 {
        for lane in [&mut one, &mut other] {
            let delivery = lane.claim_one().await;
            assert!(delivery.claim > last, "{} after {last}", delivery.claim);
            last = delivery.claim;
            assert!(lane.end(&delivery, Ending::Return).await);
        }
    }
}

/// The claim number is half of the receipt.
pub async fn a_finish_with_another_claim_number_is_stale(bed: Bed) {
    let ids = bed.put(1).await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    for claim in [delivery.claim - 1, delivery.claim + 1, 0] {
        let turn = lane.next().finish(vec![Finish { claim, ..finish(&delivery, ack()) }]);
        assert_eq!(lane.send(&turn).await.stale, [0]);
    }
    assert_eq!(bed.state(&ids[0]).await, Some(JobState::Active));
    lane.ack(&[delivery]).await;
}

/// The lane's name is the other half.
pub async fn a_finish_of_another_lane_is_stale(bed: Bed) {
    let ids = bed.put(1).await;
    let process = ProcessId::random();
    let (mut holder, mut thief) = (bed.lane_of(process, LONG).await, bed.lane_of(process, LONG).await);
    let delivery = holder.claim_one().await;
    assert!(!thief.end(&delivery, ack()).await);
    assert!(!thief.end(&delivery, nack(Duration::ZERO)).await);
    assert_eq!(bed.state(&ids[0]).await, Some(JobState::Active));
    holder.ack(&[delivery]).await;
}

/// A delivery ends once.
pub async fn a_second_finish_is_stale_whatever_the_first_was(bed: Bed) {
    bed.put(4).await;
    let mut lane = bed.lane().await;
    let endings = [ack(), nack(LONG), Ending::Snooze { delay: LONG }, Ending::Cancel { reason: "no".to_owned() }];
    for ending in endings {
        let delivery = lane.claim_one().await;
        assert!(lane.end(&delivery, ending).await);
        let before = bed.show(&delivery.id).await.map(|record| record.state);
        for ending in [ack(), nack(Duration::ZERO), Ending::Return, Ending::Void] {
            assert!(!lane.end(&delivery, ending).await);
        }
        assert_eq!(bed.state(&delivery.id).await, before);
    }
}

/// The delivery of an earlier round is stale.
pub async fn an_old_delivery_of_the_same_lane_is_stale(bed: Bed) {
    bed.put(1).await;
    let mut lane = bed.lane().await;
    let old = lane.claim_one().await;
    assert!(lane.end(&old, Ending::Return).await);
    let new = lane.claim_one().await;
    assert!(!lane.end(&old, ack()).await);
    assert_eq!(bed.state(&new.id).await, Some(JobState::Active));
    lane.ack(&[new]).await;
}

/// One bad item never changes the outcome of another.
pub async fn a_stale_finish_spoils_no_other(bed: Bed) {
    bed.put(3).await;
    let mut lane = bed.lane().await;
    let deliveries = lane.claim(3).await;
    let mut finishes: Vec<Finish> = deliveries.iter().map(|delivery| finish(delivery, ack())).collect();
    finishes[1].claim += 1;
    finishes.push(Finish { id: JobId::make(), ..finish(&deliveries[0], nack(Duration::ZERO)) });
    let turn = lane.next().finish(finishes);
    assert_eq!(lane.send(&turn).await.stale, [1, 3]);
    assert_eq!(bed.ids(JobState::Active).await, [deliveries[1].id.clone()]);
    assert_eq!(bed.counter(Counter::Done).await, 2);
}

/// The finishes and the claim of a turn are one step: a job that it returns may be claimed again by
/// it.
pub async fn finishes_come_before_the_claim(bed: Bed) {
    bed.put(1).await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    let turn = lane.next().finish(vec![finish(&delivery, Ending::Return)]).claim(1);
    let again = lane.send(&turn).await.deliveries;
    assert_eq!(again.len(), 1);
    assert!(again[0].id == delivery.id && again[0].claim > delivery.claim);
}

/// A request with a lost reply is sent again: it gets the same jobs, and nothing happens twice.
pub async fn a_replayed_turn_gives_the_same_answer_and_changes_nothing(bed: Bed) {
    bed.put(10).await;
    let mut lane = bed.lane().await;
    let held = lane.claim(3).await;
    let mut finishes: Vec<Finish> = vec![finish(&held[0], ack()), finish(&held[1], nack(LONG)), finish(&held[2], ack())];
    finishes[2].claim += 1;
    let turn = lane.next().finish(finishes).claim(4);
    let answer = lane.send(&turn).await;
    assert_eq!((answer.deliveries.len(), answer.stale.as_slice()), (4, [2].as_slice()));
    let stats = bed.stats().await;
    for _ in 0..3 {
        let again = lane.send(&turn).await;
        assert_eq!((&again.deliveries, &again.stale), (&answer.deliveries, &answer.stale));
        assert!(again.deliveries.iter().all(|delivery| !delivery.void));
    }
    assert_eq!(bed.stats().await, stats);
    let failed = bed.show(&held[1].id).await.expect("it waits for its backoff");
    assert_eq!((failed.attempts, failed.failures.len()), (1, 1));
    lane.ack(&answer.deliveries).await;
}

/// A replay may return less than the first answer: revoked deliveries come back void.
pub async fn a_delivery_that_was_cancelled_is_void_in_a_replay(bed: Bed) {
    bed.put(2).await;
    let mut lane = bed.lane().await;
    let turn = lane.next().claim(2);
    let first = lane.send(&turn).await.deliveries;
    bed.broker.cancel(&bed.queue, std::slice::from_ref(&first[0].id)).await.unwrap();
    let again = lane.send(&turn).await.deliveries;
    assert_eq!(again.len(), 2);
    let (void, kept): (Vec<&Delivery>, Vec<&Delivery>) = again.iter().partition(|delivery| delivery.void);
    assert_eq!((&void[0].id, void[0].envelope.len()), (&first[0].id, 0));
    assert_eq!(kept, [&first[1]]);
    // The present counters of the job are not those of this delivery.
    bed.broker.requeue(&bed.queue, std::slice::from_ref(&first[0].id)).await.unwrap();
    let mut other = bed.lane().await;
    let delivery = other.claim_one().await;
    assert!(other.end(&delivery, nack(LONG)).await);
    let void = lane.send(&turn).await.deliveries.into_iter().find(|delivery| delivery.void).expect("it is void");
    assert_eq!((void.attempts, void.crashes, void.snoozes, void.odd), (0, 0, 0, false));
    assert!(!lane.end(&void, Ending::Void).await, "its receipt no longer stands");
    assert_eq!(bed.state(&first[0].id).await, Some(JobState::Retry));
}

/// A wrong void answer does no harm: the job is returned.
pub async fn a_void_answer_whose_receipt_stands_is_a_return(bed: Bed) {
    bed.put(2).await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Void).await);
    let again = lane.claim_one().await;
    assert_eq!((&again.id, again.attempts, again.snoozes), (&delivery.id, 0, 0));
}

/// A late duplicate is answered as old and changes nothing.
pub async fn an_older_turn_is_refused_as_old(bed: Bed) {
    bed.put(2).await;
    let mut lane = bed.lane().await;
    let first = lane.next().claim(1);
    lane.send(&first).await;
    lane.claim(0).await;
    let stats = bed.stats().await;
    assert!(matches!(bed.broker.turn(&first).await, Err(Error::Old { seq: 1, .. })));
    assert_eq!(bed.stats().await, stats);
}

/// Skipped numbers of turns mean that the broker has lost some.
pub async fn a_turn_that_skips_ahead_is_forgotten(bed: Bed) {
    bed.put(1).await;
    let lane = bed.lane().await;
    let turn = Turn::new(bed.queue.clone(), lane.name.clone(), 2, LONG).claim(1);
    assert!(matches!(bed.broker.turn(&turn).await, Err(Error::Forgotten(_))));
    assert_eq!(bed.depth(JobState::Ready).await, 1);
}

/// Only registration makes an entry.
pub async fn a_lane_that_never_registered_is_forgotten(bed: Bed) {
    bed.put(1).await;
    let name = PartyName::new("0123456789abcdef.0123456789abcdef.99");
    for _ in 0..2 {
        let turn = Turn::new(bed.queue.clone(), name.clone(), 1, LONG).claim(1);
        assert!(matches!(bed.broker.turn(&turn).await, Err(Error::Forgotten(_))));
    }
    let turn = Turn::new("a-queue-that-nobody-knows", name, 1, LONG).claim(1);
    assert!(matches!(bed.broker.turn(&turn).await, Err(Error::Forgotten(_))));
}

/// A name is never given twice, and begins with the process.
pub async fn every_registration_gets_a_name_of_its_own(bed: Bed) {
    let process = ProcessId::random();
    let mut names = HashSet::new();
    for _ in 0..20 {
        let worker = bed.broker.register(&Register::lane(bed.queue.clone(), process, LONG)).await.unwrap().name;
        let producer = bed.broker.register(&Register::producer(bed.queue.clone(), process)).await.unwrap().name;
        assert_eq!((worker.process(), producer.process()), (process.to_string().as_str(), process.to_string().as_str()));
        assert!(names.insert(worker) && names.insert(producer));
    }
}

/// Lanes of several processes at once: every job is delivered, none twice.
pub async fn no_job_is_held_by_two_lanes(mut bed: Bed) {
    let ids: HashSet<JobId> = bed.put(2_000).await.into_iter().collect();
    let second = bed.another_process().await;
    let mut tasks = Vec::new();
    for n in 0..6 {
        let mut lane = bed.lane().await;
        if n % 2 == 1 {
            lane.broker = second.clone();
        }
        tasks.push(async move {
            let mut mine = Vec::new();
            loop {
                let held = lane.claim(50).await;
                if held.is_empty() {
                    return mine;
                }
                lane.ack(&held).await;
                mine.extend(held.into_iter().map(|delivery| delivery.id));
            }
        });
    }
    let all: Vec<JobId> = futures_util::future::join_all(tasks).await.into_iter().flatten().collect();
    assert_eq!(all.len(), ids.len());
    assert_eq!(all.into_iter().collect::<HashSet<_>>(), ids);
}

/// A request over the bound is an error of the caller.
pub async fn a_request_over_the_bound_of_items_is_refused(bed: Bed) {
    let lane = bed.lane().await;
    let refused = |error: Error| matches!(error, Error::Invalid { .. });
    assert!(refused(bed.broker.turn(&lane.next().claim(MAX_ITEMS + 1)).await.unwrap_err()));
    let finishes = (0..=MAX_ITEMS).map(|_| Finish { id: JobId::make(), claim: 1, size: 0, ending: ack(), used: None }).collect();
    assert!(refused(bed.broker.turn(&lane.next().finish(finishes)).await.unwrap_err()));
    let jobs = (0..=MAX_ITEMS).map(|_| NewJob::new(JobId::make(), envelope("x"))).collect();
    let producer = bed.producer().await;
    assert!(refused(bed.broker.enqueue(&producer.next(jobs)).await.unwrap_err()));
    let ids: Vec<JobId> = (0..=MAX_ITEMS).map(|_| JobId::make()).collect();
    assert!(refused(bed.broker.cancel(&bed.queue, &ids).await.unwrap_err()));
    assert!(refused(bed.broker.promote(&bed.queue, &ids).await.unwrap_err()));
    assert_eq!(bed.depth(JobState::Ready).await, 0);
}

/// A full turn of 500 finishes and 500 claims works.
pub async fn a_turn_of_the_largest_size_is_answered(bed: Bed) {
    bed.put(2 * MAX_ITEMS).await;
    let mut lane = bed.lane().await;
    let held = lane.claim(MAX_ITEMS).await;
    assert_eq!(held.len(), MAX_ITEMS);
    let turn = lane.next().finish(held.iter().map(|delivery| finish(delivery, ack())).collect()).claim(MAX_ITEMS);
    let answer = lane.send(&turn).await;
    assert_eq!((answer.deliveries.len(), answer.stale.len(), answer.more), (MAX_ITEMS, 0, false));
    assert_eq!(lane.send(&turn).await.deliveries, answer.deliveries);
}

/// Large jobs come in several answers, each about a mebibyte.
pub async fn an_answer_is_bounded_in_bytes(bed: Bed) {
    const SIZE: usize = 200 * 1024;
    let mut producer = bed.producer().await;
    for n in 0..20_u8 {
        producer.stored(vec![NewJob::new(JobId::make(), vec![n; SIZE])]).await;
    }
    let mut lane = bed.lane().await;
    let mut seen = Vec::new();
    while seen.len() < 20 {
        let turn = lane.next().claim(20);
        let answer = lane.send(&turn).await;
        let held = answer.deliveries;
        let bytes: usize = held.iter().map(|delivery| delivery.envelope.len()).sum();
        assert!(!held.is_empty() && bytes <= MAX_BYTES + SIZE, "{} jobs of {bytes} bytes", held.len());
        seen.extend(held.iter().map(|delivery| delivery.envelope[0]));
        assert_eq!(answer.more, seen.len() < 20, "what the bound has left is told, after {} jobs", seen.len());
        lane.ack(&held).await;
    }
    assert_eq!(seen, (0..20).collect::<Vec<u8>>(), "in order, and none is lost at the bound");
}

/// A job that is larger than the bound travels alone.
pub async fn a_job_over_the_bound_of_bytes_travels_alone(bed: Bed) {
    let mut producer = bed.producer().await;
    let large = NewJob::new(JobId::make(), vec![7; MAX_BYTES + 1000]);
    let id = large.id.clone();
    producer.stored(vec![large]).await;
    producer.stored(vec![NewJob::new(JobId::make(), envelope("small"))]).await;
    let mut lane = bed.lane().await;
    let held = lane.claim(10).await;
    assert!(held.len() == 1 && held[0].id == id && held[0].envelope.len() == MAX_BYTES + 1000);
    assert_eq!(lane.claim(10).await.len(), 1);
}

/// The envelope is unchanged.
pub async fn an_envelope_comes_back_byte_for_byte(bed: Bed) {
    let bytes: Vec<u8> = (0..=255_u8).chain([0, 10, 13, 0, 255]).collect();
    let mut producer = bed.producer().await;
    let mut odd = given_with(&bytes);
    odd.digest = u64::MAX;
    producer.stored(vec![NewJob::new(JobId::make(), bytes.clone()), odd, NewJob::new(JobId::make(), vec![0])]).await;
    let mut lane = bed.lane().await;
    let held = lane.claim(3).await;
    assert_eq!(held[0].envelope, bytes);
    assert_eq!((&held[1].envelope, held[1].id.to_string().as_str()), (&bytes, "odd.-_ID"));
    assert_eq!(held[2].envelope, [0]);
    assert_eq!(bed.show(&held[0].id).await.expect("it is active").envelope, bytes);
}

fn given_with(bytes: &[u8]) -> NewJob {
    NewJob::new(JobId::given("odd.-_ID").expect("it is a name"), bytes.to_vec())
}
