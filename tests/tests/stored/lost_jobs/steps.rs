//! No step passes all of a list, and no repair moves what is in one.

use std::{collections::HashSet, time::Duration};

use queue_conformance::{
    Changes as _,
    conformance::{Lane, Producer},
};
use queue_core::{
    JobId,
    broker::{CrashRule, DamageKind, JobState, Priority, ProcessId, Register, SweepLimits, Turn},
};
use queue_tests::{
    on_servers,
    patience::until,
    server::{Kind, Server},
    watch::{Watch, words},
};

use super::{LOOK, QUEUE, READ, REPAIR, drain, given, lose, on, put};

on_servers! {
    many_lost_jobs_are_put_back_in_steps_that_are_bounded
    no_long_list_is_looked_through_for_a_dead_job_without_reason
    a_cancelled_job_in_another_list_is_left_to_whoever_pops_it
}

/// Other hands have put it among the dead, and it is ready.
async fn no_long_list_is_looked_through_for_a_dead_job_without_reason(kind: Kind) {
    let server = Server::start(kind);
    let broker = on(&server).await;
    put(&broker, QUEUE, 41_000).await;
    Producer::on(&broker, QUEUE).await.stored(vec![given("x")]).await;
    server.command(&["ZADD", &format!("queue:{{{QUEUE}}}:dead"), "1", "=x"]);
    let watch = Watch::on(&server);
    assert_eq!(broker.sweep(QUEUE, &SweepLimits::default()).await.unwrap().dead, 1);
    assert_not_called(&["LPOS"], &watch.until_now(&server));
    assert_eq!(broker.show(QUEUE, &JobId::given("x").unwrap()).await.unwrap().expect("it is there").state, JobState::Ready);
}

/// Of commands that may pass all of a list.
fn assert_not_called(verbs: &[&str], lines: &[String]) {
    for line in lines {
        assert!(!verbs.contains(&words(line)[0].as_str()), "it may pass all of a list: {line}");
    }
}

/// How many ids a read of a list passes at most.
fn span(words: &[String]) -> usize {
    let [first, last] = [2, 3].map(|at| words[at].parse::<i64>().unwrap());
    assert_eq!(first < 0, last < 0, "nothing bounds it: {words:?}");
    usize::try_from(last - first + 1).unwrap()
}

async fn many_lost_jobs_are_put_back_in_steps_that_are_bounded(kind: Kind) {
    let server = Server::start(kind);
    let broker = on(&server).await;
    let mut ids = put(&broker, QUEUE, 12 * LOOK).await;
    let mut urgent = given("urgent");
    urgent.priority = Priority::Critical;
    ids.push(urgent.id.clone());
    Producer::on(&broker, QUEUE).await.stored(vec![urgent]).await;
    for list in ["ready:0", "ready:2", "suspect"] {
        server.command(&["RPUSH", &format!("queue:{{{QUEUE}}}:{list}"), "=ghost"]);
    }
    let lost: Vec<&JobId> = ids.iter().step_by(3).take(2 * LOOK).collect();
    lost.iter().for_each(|id| lose(&server, id));
    let watch = Watch::on(&server);
    let damages = broker.audit(QUEUE, REPAIR).await.unwrap();
    let lines = watch.until_now(&server);
    assert_not_called(&["LREM", "LPOS", "LINSERT"], &lines);
    let mut passed = 0;
    let (mut steps, mut reads) = (0, 0);
    for line in &lines {
        let (words, in_script) = (words(line), line.contains(" lua] "));
        if !in_script {
            passed = 0;
            steps += 1;
        }
        if words[0] == "LRANGE" {
            let most = if in_script { 2 * LOOK } else { READ };
            assert!(span(&words) <= most, "{words:?}");
            passed += span(&words);
            reads += usize::from(!in_script);
        }
        assert!(passed <= 2 * LOOK, "{words:?}");
    }
    assert!(steps > 50 && reads > 10, "{steps} steps, {reads} reads: the watch sees them");
    assert_eq!(damages.len(), 2 * LOOK + 3 + 1);
    assert_eq!(damages[0].kind, DamageKind::FeatureUnnoted, "a ghost is in a list that the queue does not use");
    let of = |kind| damages.iter().filter(move |damage| damage.kind == kind).map(|damage| damage.subject.clone());
    assert_eq!(of(DamageKind::IdWithoutJob).collect::<Vec<_>>(), ["ghost"; 3]);
    assert_eq!(of(DamageKind::JobWithoutPlace).collect::<HashSet<_>>(), lost.iter().map(|id| id.to_string()).collect());
    assert_eq!(broker.audit(QUEUE, REPAIR).await.unwrap(), []);
    assert_eq!(drain(&broker, QUEUE).await, ids.into_iter().collect());
    assert_eq!(broker.stats(QUEUE).await.unwrap().jobs(), 0);
}

/// A job that crashed is cancelled and enqueued again: its id is in two lists, and live in one.
async fn a_cancelled_job_in_another_list_is_left_to_whoever_pops_it(kind: Kind) {
    let server = Server::start(kind);
    let broker = on(&server).await;
    let id = given("x").id;
    let mut producer = Producer::on(&broker, QUEUE).await;
    let short = Duration::from_millis(1);
    for _ in 0..3 {
        producer.stored(vec![given("x")]).await;
        let dying = broker.register(&Register::lane(QUEUE, ProcessId::random(), short)).await.unwrap().name;
        let turn = Turn::new(QUEUE, dying.clone(), 1, short).claim(1);
        assert_eq!(broker.turn(&turn).await.unwrap().deliveries.len(), 1);
        until("the lease is over", async || {
            let expired = broker.overdue(QUEUE, 0, 10).await.unwrap().expired;
            broker.fence(QUEUE, &expired).await.unwrap().contains(&true)
        })
        .await;
        let rule = CrashRule { delay: Duration::ZERO, ..CrashRule::default() };
        assert_eq!(broker.reclaim(QUEUE, &rule).await.unwrap().charged, 1);
        let mut lane = Lane::on(&broker, QUEUE).await;
        lane.claim(0).await;
        assert_eq!(server.ask::<usize>(&["LLEN", "queue:{lost}:suspect"]).unwrap(), 1);
        // One that lies here by now would be found by its tombstone.
        broker.cancel(QUEUE, std::slice::from_ref(&id)).await.unwrap();
        assert_eq!(broker.stats(QUEUE).await.unwrap().count(JobState::Ready), 0);
    }
    let watch = Watch::on(&server);
    producer.stored(vec![given("x")]).await;
    assert_eq!(broker.audit(QUEUE, REPAIR).await.unwrap(), []);
    assert_eq!(broker.stats(QUEUE).await.unwrap().count(JobState::Ready), 1);
    let listed = broker.list(QUEUE, JobState::Ready, 0, 10).await.unwrap().jobs;
    assert_eq!(listed.iter().map(|job| &job.id).collect::<Vec<_>>(), [&id], "it is listed once");
    assert_eq!(drain(&broker, QUEUE).await, HashSet::from([id.clone()]));
    assert_eq!(server.ask::<usize>(&["EXISTS", "queue:{lost}:suspect", "queue:{lost}:tomb"]).unwrap(), 0);
    assert_not_called(&["LREM"], &watch.until_now(&server));
}
