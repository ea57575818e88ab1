//! Long random stories, checked against a model. The seed is printed; `QUEUE_TEST_SEED` repeats a
//! story.

use std::{collections::BTreeMap, time::Duration};

use fastrand::Rng;
use queue_core::{
    JobId,
    broker::{BuryReason, Change, Changed, CrashRule, Delivery, Due, Ending, Enqueued, Finish, JobState, NewJob, Priority},
};

use super::bed::{Bed, Lane, envelope, finish, given};
use crate::Changes as _;

const STEPS: usize = 400;
const RULE: CrashRule = CrashRule { max_crashes: 3, tasks: &[], window: Duration::from_secs(3600), delay: Duration::from_millis(1) };

/// The model of the jobs.
#[derive(Default)]
struct World {
    /// Jobs that must exist, with their payload.
    alive: BTreeMap<JobId, Vec<u8>>,
    /// Jobs that were dead, cancelled or expired at the last check.
    ended: BTreeMap<JobId, JobState>,
    /// The highest claim number of each id.
    claims: BTreeMap<JobId, u64>,
}

/// Random enqueues, claims, finishes, replays, crashes, cancels, deletes and requeues. Every job is
/// in one state, none is lost, none is delivered to two lanes, and no ended job comes back on its
/// own.
pub async fn a_random_story_loses_and_doubles_nothing(mut bed: Bed) {
    let seed = std::env::var("QUEUE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}; tell it again with QUEUE_TEST_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let other = bed.another_process().await;
    let mut world = World::default();
    let mut lanes: Vec<(Lane, Vec<Delivery>)> = Vec::new();
    for step in 0..STEPS {
        if lanes.len() < 3 {
            let mut lane = if rng.bool() { bed.lane().await } else { bed.dying_lane().await };
            if rng.bool() {
                lane.broker = other.clone();
            }
            lanes.push((lane, Vec::new()));
        }
        match rng.u8(..12) {
            0..=3 => enqueue(&bed, &mut rng, &mut world).await,
            4..=8 => {
                let n = rng.usize(..lanes.len());
                let (lane, held) = &mut lanes[n];
                turn(lane, held, &mut rng, &mut world).await;
            }
            9 => take_out(&bed, &mut rng, &mut world).await,
            10 => requeue(&bed, &mut rng, &mut world).await,
            _ => {
                let n = rng.usize(..lanes.len());
                let (mut lane, held) = lanes.swap_remove(n);
                lane.lease = Duration::from_millis(1);
                lane.claim(0).await;
                bed.reclaim(&[&lane], RULE).await;
                notice_crashed(&bed, &held, &mut world).await;
            }
        }
        if step % 50 == 0 {
            check(&bed, &world).await;
        }
    }
    for (mut lane, held) in lanes {
        let finishes: Vec<Finish> = held.iter().map(|delivery| finish(delivery, Ending::Return)).collect();
        let turn = lane.next().finish(finishes);
        lane.send(&turn).await;
    }
    check(&bed, &world).await;
    drain(&bed, world).await;
}

async fn enqueue(bed: &Bed, rng: &mut Rng, world: &mut World) {
    let mut producer = bed.producer().await;
    let mut jobs: Vec<NewJob> = Vec::new();
    for _ in 0..rng.usize(1..8) {
        let payload = format!("{}", rng.u8(..3));
        let mut job =
            if rng.bool() { NewJob::new(JobId::make(), envelope(&payload)) } else { given(&format!("id-{}", rng.u8(..12)), &payload) };
        job.priority = Priority::ALL[rng.usize(..4)];
        job.due = [Due::Now, Due::Now, Due::After(Duration::from_millis(rng.u64(..30)))][rng.usize(..3)];
        jobs.push(job);
    }
    let request = producer.next(jobs);
    let answers = producer.send(request.jobs.clone()).await;
    if rng.bool() {
        assert_eq!(bed.broker.enqueue(&request).await.unwrap(), answers, "the replay");
    }
    for (job, answer) in request.jobs.into_iter().zip(answers) {
        if answer == Enqueued::Stored {
            assert!(!world.alive.contains_key(&job.id), "{} was stored twice", job.id);
            world.ended.remove(&job.id);
            world.alive.insert(job.id, job.envelope);
        } else {
            assert!(job.id.is_given(), "a made id is new");
        }
    }
}

async fn turn(lane: &mut Lane, held: &mut Vec<Delivery>, rng: &mut Rng, world: &mut World) {
    let mut finishes = Vec::new();
    for _ in 0..rng.usize(..=held.len()) {
        let delivery = held.swap_remove(rng.usize(..held.len()));
        finishes.push(finish(&delivery, ending(rng)));
    }
    let mut turn = lane.next().finish(finishes).claim(rng.usize(..6));
    turn.suspect = rng.bool();
    if rng.bool() {
        turn.resume = vec!["suite.task".into()];
    }
    let answer = lane.send(&turn).await;
    if rng.bool() {
        let again = lane.send(&turn).await;
        assert_eq!((&again.deliveries, &again.stale), (&answer.deliveries, &answer.stale), "the replay");
    }
    for (n, finish) in turn.finishes.iter().enumerate() {
        if answer.stale.contains(&n) {
            continue;
        }
        let ended = match finish.ending {
            Ending::Ack { .. } => None,
            Ending::Bury { .. } => Some(JobState::Dead),
            Ending::Cancel { .. } => Some(JobState::Cancelled),
            Ending::Expire => Some(JobState::Expired),
            _ => continue,
        };
        world.alive.remove(&finish.id).expect("what is finished was alive");
        if let Some(state) = ended {
            world.ended.insert(finish.id.clone(), state);
        }
    }
    for delivery in answer.deliveries {
        let payload = world.alive.get(&delivery.id).unwrap_or_else(|| panic!("{} came back from its end", delivery.id));
        assert_eq!(payload, &delivery.envelope, "{}", delivery.id);
        let last = world.claims.insert(delivery.id.clone(), delivery.claim).unwrap_or(0);
        assert!(delivery.claim > last, "{}: claim {} after {last}", delivery.id, delivery.claim);
        held.push(delivery);
    }
}

fn ending(rng: &mut Rng) -> Ending {
    let delay = Duration::from_millis(rng.u64(..20));
    match rng.u8(..10) {
        0 | 1 => Ending::Ack { result: None, keep: None },
        2 => Ending::Ack { result: Some(vec![1]), keep: Some(Duration::from_millis(rng.u64(..3) * 100_000)) },
        3 => Ending::Nack { delay, error: "random".to_owned() },
        4 => Ending::Snooze { delay },
        5 => Ending::Repeat { delay },
        6 => Ending::Bury { reason: BuryReason::Buried, error: None },
        7 => Ending::Park { task: "suite.task".to_owned() },
        8 => [Ending::Cancel { reason: "random".to_owned() }, Ending::Expire][rng.usize(..2)].clone(),
        _ => Ending::Return,
    }
}

async fn take_out(bed: &Bed, rng: &mut Rng, world: &mut World) {
    let Some(id) = any(rng, world.alive.keys()) else { return };
    if rng.bool() {
        let answer = bed.broker.cancel(&bed.queue, std::slice::from_ref(&id)).await.unwrap().remove(0);
        assert_ne!(answer, Changed::No, "{id} is lost");
        world.ended.insert(id.clone(), JobState::Cancelled);
        world.alive.remove(&id);
    } else if bed.broker.delete(&bed.queue, std::slice::from_ref(&id)).await.unwrap()[0] {
        world.alive.remove(&id);
    } else {
        assert_eq!(bed.state(&id).await, Some(JobState::Active), "only an active job cannot be deleted");
    }
}

async fn requeue(bed: &Bed, rng: &mut Rng, world: &mut World) {
    let ended = world.ended.iter().filter(|(_, state)| Change::Requeue.applies_to(**state)).map(|(id, _)| id);
    let Some(id) = any(rng, ended) else { return };
    let payload = bed.show(&id).await.expect("what has ended like that is kept").envelope;
    assert!(bed.broker.requeue(&bed.queue, std::slice::from_ref(&id)).await.unwrap()[0]);
    world.ended.remove(&id);
    world.alive.insert(id, payload);
}

/// The third crash buries a job, so the story reads the state.
async fn notice_crashed(bed: &Bed, held: &[Delivery], world: &mut World) {
    for delivery in held {
        if world.alive.contains_key(&delivery.id) && bed.state(&delivery.id).await == Some(JobState::Dead) {
            world.alive.remove(&delivery.id);
            world.ended.insert(delivery.id.clone(), JobState::Dead);
        }
    }
}

/// Every job is where it should be, in exactly one list.
async fn check(bed: &Bed, world: &World) {
    let mut seen: BTreeMap<JobId, JobState> = BTreeMap::new();
    let stats = bed.stats().await;
    for state in JobState::ALL {
        let ids = bed.ids(state).await;
        assert_eq!(stats.count(state), ids.len() as u64, "depth of {state}");
        for id in ids {
            let before = seen.insert(id.clone(), state);
            assert_eq!(before, None, "{id} is listed twice, as {before:?} and {state}");
        }
    }
    for id in world.alive.keys() {
        let state = seen.remove(id).unwrap_or_else(|| panic!("{id} is lost"));
        assert!(!state.is_final(), "{id} is {state}");
    }
    for (id, state) in &world.ended {
        assert_eq!(seen.remove(id), Some(*state), "{id}");
    }
    assert!(seen.values().all(|state| *state == JobState::Done), "ghosts: {seen:?}");
}

/// The remaining jobs are delivered, each once.
async fn drain(bed: &Bed, mut world: World) {
    let mut lane = bed.lane().await;
    super::eventually("everything is drained", async || {
        let mut turn = lane.next().claim(100);
        turn.resume = vec!["suite.task".into()];
        let held = lane.send(&turn).await.deliveries;
        lane.ack(&held).await;
        for delivery in held {
            assert!(world.alive.remove(&delivery.id).is_some(), "{} was delivered twice", delivery.id);
        }
        world.alive.is_empty().then_some(())
    })
    .await;
    assert!(lane.claim(100).await.is_empty());
}

fn any<'a>(rng: &mut Rng, mut ids: impl Iterator<Item = &'a JobId> + Clone) -> Option<JobId> {
    let n = ids.clone().count();
    if n == 0 { None } else { ids.nth(rng.usize(..n)).cloned() }
}
