//! Leases: their holders, their renewal, and their loss.

use std::time::Duration;

use queue_core::{
    Error,
    broker::{Audit, Changed, Counter, CrashRule, Damage, DamageKind, Extend, JobState, OverdueLane, PartyName, ProcessId, Turn},
};

use super::bed::{Bed, LONG, SHORT, ack, eventually};
use crate::Changes as _;

/// A heartbeat renews the lease, of several lanes at once, with an answer for each.
pub async fn a_heartbeat_renews_the_leases_of_several_lanes(bed: Bed) {
    let lanes = [bed.dying_lane().await, bed.dying_lane().await];
    let stranger = PartyName::new("0123456789abcdef.0123456789abcdef.99");
    let heartbeats = [lanes[0].heartbeat(LONG), Extend::new(bed.queue.clone(), stranger, 0, LONG), lanes[1].heartbeat(LONG)];
    let answers = bed.broker.extend(&heartbeats).await;
    assert_eq!(answers.len(), 3);
    assert!(answers[0].is_ok() && answers[2].is_ok());
    assert!(matches!(answers[1], Err(Error::Forgotten(_))));
    assert!(bed.broker.overdue(&bed.queue, 0, 10).await.unwrap().expired.is_empty());
    assert_eq!(bed.stats().await.lanes, 2);
}

/// A heartbeat of an unknown lane does not register it.
pub async fn a_heartbeat_of_a_stranger_makes_no_entry(bed: Bed) {
    let name = PartyName::new("0123456789abcdef.0123456789abcdef.99");
    for _ in 0..2 {
        let answers = bed.broker.extend(&[Extend::new(bed.queue.clone(), name.clone(), 0, LONG)]).await;
        assert!(matches!(answers[0], Err(Error::Forgotten(_))));
    }
    let turn = Turn::new(bed.queue.clone(), name, 1, LONG);
    assert!(matches!(bed.broker.turn(&turn).await, Err(Error::Forgotten(_))));
    assert_eq!(bed.stats().await.lanes, 0);
}

/// A broker without the last turns of a lane has forgotten it.
pub async fn a_heartbeat_beyond_what_the_broker_knows_is_forgotten(bed: Bed) {
    let mut lane = bed.lane().await;
    lane.claim(0).await;
    assert!(bed.broker.extend(&[lane.heartbeat(LONG)]).await[0].is_ok());
    lane.answered = 2;
    assert!(matches!(bed.broker.extend(&[lane.heartbeat(LONG)]).await[0], Err(Error::Forgotten(_))));
    lane.answered = 0;
    assert!(bed.broker.extend(&[lane.heartbeat(LONG)]).await[0].is_ok(), "a heartbeat that was overtaken by a turn is fine");
}

/// Only lanes with an expired lease are overdue, and at most the requested number is returned.
pub async fn suspects_are_those_whose_lease_is_over(bed: Bed) {
    let alive = bed.lane().await;
    let dead = [bed.dying_lane().await, bed.dying_lane().await, bed.dying_lane().await];
    eventually("three leases end", async || (bed.broker.overdue(&bed.queue, 0, 10).await.unwrap().expired.len() == 3).then_some(())).await;
    let overdue = bed.broker.overdue(&bed.queue, 0, 10).await.unwrap();
    assert_eq!(overdue.fenced, 0);
    assert!(overdue.expired.iter().all(|lane| lane.name != alive.name));
    assert!(dead.iter().all(|lane| overdue.expired.iter().any(|seen| seen.name == lane.name)));
    let page = async |skip| bed.broker.overdue(&bed.queue, skip, 2).await.unwrap().expired;
    assert_eq!((page(0).await, page(2).await), (overdue.expired[..2].to_vec(), overdue.expired[2..].to_vec()));
    assert_eq!(bed.stats().await.lanes, 1, "lanes whose lease is over are not counted");
}

/// The check changes nothing: a lane that comes back before it is fenced keeps its jobs.
pub async fn a_late_turn_of_a_lane_that_nobody_fenced_counts(bed: Bed) {
    bed.put(1).await;
    let mut lane = bed.dying_lane().await;
    let delivery = lane.claim_one().await;
    eventually("its lease ends", async || bed.broker.overdue(&bed.queue, 0, 10).await.unwrap().expired.pop()).await;
    assert!(lane.end(&delivery, ack()).await);
    assert_eq!(bed.counter(Counter::Done).await, 1);
}

/// The second check fences only lanes that have not changed since the first.
pub async fn a_lane_that_showed_life_between_the_looks_is_not_fenced(bed: Bed) {
    let (mut by_turn, by_heartbeat) = (bed.dying_lane().await, bed.dying_lane().await);
    let seen = eventually("both leases end", async || {
        let seen = bed.broker.overdue(&bed.queue, 0, 10).await.unwrap().expired;
        (seen.len() == 2).then_some(seen)
    })
    .await;
    by_turn.lease = LONG;
    by_turn.claim(0).await;
    assert!(bed.broker.extend(&[by_heartbeat.heartbeat(LONG)]).await[0].is_ok());
    assert_eq!(bed.broker.fence(&bed.queue, &seen).await.unwrap(), [false, false]);
    by_turn.claim(0).await;
}

/// A deadline that has not passed, or is not the stored one, does not fence a lane.
pub async fn a_fence_wants_the_exact_deadline_and_its_end(bed: Bed) {
    let lane = bed.dying_lane().await;
    let seen = eventually("its lease ends", async || bed.broker.overdue(&bed.queue, 0, 10).await.unwrap().expired.pop()).await;
    let overdue = [
        OverdueLane { deadline_ms: seen.deadline_ms - 1, ..seen.clone() },
        OverdueLane { deadline_ms: seen.deadline_ms + 1, ..seen.clone() },
        OverdueLane { name: PartyName::new("nobody.at.1"), ..seen.clone() },
        seen.clone(),
        seen.clone(),
    ];
    assert_eq!(bed.broker.fence(&bed.queue, &overdue).await.unwrap(), [false, false, false, true, false]);
    assert_eq!(bed.broker.overdue(&bed.queue, 0, 10).await.unwrap().fenced, 1);
    assert!(matches!(bed.broker.turn(&lane.next()).await, Err(Error::Forgotten(_))));
}

/// After the fence, every request of a lane is answered with `Forgotten` and changes nothing.
pub async fn a_fenced_lane_is_forgotten_in_every_request(bed: Bed) {
    let ids = bed.put(2).await;
    let mut lane = bed.dying_lane().await;
    let turn = lane.next().claim(1);
    let held = lane.send(&turn).await.deliveries;
    bed.fence(&[&lane]).await;
    assert!(matches!(bed.broker.turn(&turn).await, Err(Error::Forgotten(_))), "a replay");
    let finishing = lane.next().finish(vec![super::finish(&held[0], ack())]).claim(1);
    assert!(matches!(bed.broker.turn(&finishing).await, Err(Error::Forgotten(_))), "a turn");
    assert!(matches!(bed.broker.extend(&[lane.heartbeat(LONG)]).await[0], Err(Error::Forgotten(_))), "a heartbeat");
    assert_eq!(bed.state(&ids[0]).await, Some(JobState::Active), "until it is swept");
    assert_eq!(bed.state(&ids[1]).await, Some(JobState::Ready));
    let reclaimed = bed.broker.reclaim(&bed.queue, &CrashRule::default()).await.unwrap();
    assert_eq!((reclaimed.charged, reclaimed.forgotten), (1, 1));
    assert!(matches!(bed.broker.turn(&finishing).await, Err(Error::Forgotten(_))), "after the sweep");
    assert_eq!(bed.counter(Counter::Done).await, 0);
}

/// Each lane of a process has a separate lease. The fence of one does not affect the others.
pub async fn a_fence_takes_one_lane_not_its_process(bed: Bed) {
    bed.put(2).await;
    let process = ProcessId::random();
    let (mut one, mut other) = (bed.lane_of(process, SHORT).await, bed.lane_of(process, LONG).await);
    one.claim_one().await;
    let kept = other.claim_one().await;
    bed.reclaim(&[&one], CrashRule::default()).await;
    other.ack(&[kept]).await;
}

/// The worker of a cancelled job is notified with its next heartbeats, until it has answered.
pub async fn a_heartbeat_brings_the_cancels(bed: Bed) {
    bed.put(2).await;
    let mut lane = bed.lane().await;
    let held = lane.claim(2).await;
    let answers = bed.broker.cancel(&bed.queue, std::slice::from_ref(&held[0].id)).await.unwrap();
    assert_eq!(answers, [Changed::WhileActive]);
    for _ in 0..2 {
        let heartbeat = bed.broker.extend(&[lane.heartbeat(LONG)]).await.remove(0).unwrap();
        assert_eq!(heartbeat.cancelled, [(held[0].id.clone(), held[0].claim)]);
    }
    assert!(!lane.end(&held[0], queue_core::broker::Ending::Void).await);
    let heartbeat = bed.broker.extend(&[lane.heartbeat(LONG)]).await.remove(0).unwrap();
    assert!(heartbeat.cancelled.is_empty());
    lane.ack(&held[1..]).await;
}

/// An answer to an earlier delivery of a job does not count for a later one.
pub async fn an_answer_to_an_old_delivery_leaves_the_cancel_of_a_newer_one(bed: Bed) {
    bed.put(1).await;
    let mut lane = bed.lane().await;
    let old = lane.claim_one().await;
    assert!(lane.end(&old, queue_core::broker::Ending::Return).await);
    let new = lane.claim_one().await;
    bed.broker.cancel(&bed.queue, std::slice::from_ref(&new.id)).await.unwrap();
    for ending in [ack(), queue_core::broker::Ending::Void] {
        assert!(!lane.end(&old, ending).await);
        let heartbeat = bed.broker.extend(&[lane.heartbeat(LONG)]).await.remove(0).unwrap();
        assert_eq!(heartbeat.cancelled, [(new.id.clone(), new.claim)]);
    }
}

/// Without turns, a lane is kept alive by its heartbeats; without either, until its lease expires.
pub async fn a_turn_renews_the_lease(bed: Bed) {
    let mut lane = bed.dying_lane().await;
    eventually("its lease ends", async || bed.broker.overdue(&bed.queue, 0, 10).await.unwrap().expired.pop()).await;
    lane.lease = LONG;
    lane.claim(0).await;
    assert!(bed.broker.overdue(&bed.queue, 0, 10).await.unwrap().expired.is_empty());
    lane.lease = SHORT;
    lane.claim(0).await;
    eventually("the shorter lease ends", async || bed.broker.overdue(&bed.queue, 0, 10).await.unwrap().expired.pop()).await;
}

/// The number of lanes is returned, so that they can share the polling.
pub async fn a_turn_reports_how_many_lanes_there_are(bed: Bed) {
    let mut lane = bed.lane().await;
    let (_other, dead) = (bed.lane().await, bed.dying_lane().await);
    let turn = lane.next();
    for _ in 0..2 {
        assert_eq!(lane.send(&turn).await.lanes, 3, "a turn and its replay");
    }
    bed.fence(&[&dead]).await;
    let turn = lane.next();
    assert_eq!(lane.send(&turn).await.lanes, 2, "one is fenced");
}

/// A deadline that is further ahead than the length of the lease comes from a clock that was set
/// back. The check returns it separately, with the length.
pub async fn a_lease_that_ends_later_than_it_can_is_distinguished(bed: Bed) {
    let (alive, lane) = (bed.lane().await, bed.dying_lane().await);
    // Registered for `SHORT`. A lease that is longer than that looks like one after a clock was set
    // back.
    assert!(bed.broker.extend(&[lane.heartbeat(LONG)]).await[0].is_ok());
    let overdue = bed.broker.overdue(&bed.queue, 0, 10).await.unwrap();
    assert!(overdue.expired.is_empty());
    let [ahead] = &overdue.ahead[..] else { panic!("one lane is ahead: {overdue:?}") };
    assert_eq!((&ahead.lane.name, ahead.duration), (&lane.name, SHORT));
    assert!(overdue.ahead.iter().all(|ahead| ahead.lane.name != alive.name));
    assert!(bed.broker.extend(&[lane.heartbeat(SHORT)]).await[0].is_ok());
    assert!(bed.broker.overdue(&bed.queue, 0, 10).await.unwrap().ahead.is_empty(), "a renewal by the clock of now puts it right");
}

/// More lanes than the check returns have longer leases than the one whose lease ends later than
/// possible.
pub async fn longer_leases_hide_none_that_ends_later_than_it_can(bed: Bed) {
    let mut alive = Vec::new();
    for _ in 0..4 {
        alive.push(bed.lane().await);
    }
    let lane = bed.dying_lane().await;
    assert!(bed.broker.extend(&[lane.heartbeat(3 * LONG)]).await[0].is_ok());
    let ahead = bed.broker.overdue(&bed.queue, 0, 3).await.unwrap().ahead;
    assert!(ahead.iter().any(|ahead| ahead.lane.name == lane.name), "{ahead:?}");
}

/// Live lanes with later deadlines may hide a lane from the first check. The auditor finds it, and
/// the check finds it when its lease ends.
pub async fn a_lane_behind_a_page_of_longer_leases_is_found(bed: Bed) {
    let mut alive = Vec::new();
    for _ in 0..4 {
        alive.push(bed.lane_of(ProcessId::random(), 3 * LONG).await);
    }
    let lane = bed.dying_lane().await;
    assert!(bed.broker.extend(&[lane.heartbeat(2 * LONG)]).await[0].is_ok());
    assert_eq!(bed.broker.overdue(&bed.queue, 0, 2).await.unwrap().expired, []);
    let told = [Damage { kind: DamageKind::LeaseTooLong, subject: lane.name.as_str().to_owned() }];
    assert_eq!(bed.broker.audit(&bed.queue, Audit { repair: true, thorough: false }).await.unwrap(), told);
    let expired = eventually("its lease ends", async || bed.broker.overdue(&bed.queue, 0, 2).await.unwrap().expired.pop()).await;
    assert_eq!(expired.name, lane.name);
}

/// A lane whose deadline is too far ahead is fenced like one with an expired lease, if the deadline
/// has not changed.
pub async fn a_lane_whose_lease_ends_later_than_it_can_is_fenced(bed: Bed) {
    bed.put(1).await;
    let mut lane = bed.dying_lane().await;
    lane.lease = LONG;
    let held = lane.claim_one().await;
    let seen = bed.broker.overdue(&bed.queue, 0, 10).await.unwrap().ahead.pop().expect("it is ahead").lane;
    let other = OverdueLane { deadline_ms: seen.deadline_ms - 1, ..seen.clone() };
    assert_eq!(bed.broker.fence(&bed.queue, &[other, seen.clone(), seen]).await.unwrap(), [false, true, false]);
    assert!(matches!(bed.broker.turn(&lane.next()).await, Err(Error::Forgotten(_))));
    bed.sweep(1, CrashRule { delay: Duration::ZERO, ..CrashRule::default() }).await;
    assert!(bed.broker.overdue(&bed.queue, 0, 10).await.unwrap() == Default::default(), "nothing is left of it");
    let mut heir = bed.lane().await;
    let again = eventually("its job comes back", async || heir.claim(1).await.pop()).await;
    assert!(again.id == held.id && again.claim > held.claim, "the claim number grows, whatever the clock says");
}

/// The auditor finds a lease that ends later than possible, and shortens it to the length of a
/// renewal.
pub async fn the_auditor_cuts_a_lease_that_ends_later_than_it_can(bed: Bed) {
    let (_alive, lane) = (bed.lane().await, bed.dying_lane().await);
    assert!(bed.broker.extend(&[lane.heartbeat(LONG)]).await[0].is_ok());
    let told = [Damage { kind: DamageKind::LeaseTooLong, subject: lane.name.as_str().to_owned() }];
    for repair in [false, true] {
        assert_eq!(bed.broker.audit(&bed.queue, Audit { repair, thorough: false }).await.unwrap(), told);
    }
    assert_eq!(bed.broker.audit(&bed.queue, Audit { repair: false, thorough: true }).await.unwrap(), []);
    eventually("its lease ends", async || bed.broker.overdue(&bed.queue, 0, 10).await.unwrap().expired.pop()).await;
}
