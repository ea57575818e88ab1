//! Searches beside which others push and pop.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use queue_conformance::{
    Changes as _,
    conformance::{Lane, Producer, ack, eventually, finish, nack},
};
use queue_core::{
    __private::{Envelope, RedisBroker},
    JobId,
    broker::{BuryReason, Damage, Delivery, DynBroker, Ending, Inspect, JobState, NewJob},
};
use queue_tests::{
    on_servers,
    patience::{until, wait},
    proxy::Proxy,
    server::{Kind, Server},
};
use tokio::runtime::Handle;

use super::{LOOK, QUEUE, REPAIR, drain, lose, on, put, repaired, subjects};

on_servers! {
    what_comes_back_to_the_head_during_the_search_is_met_there
    what_comes_back_to_the_tail_during_the_search_is_met_there
    a_search_that_a_failover_met_is_given_up
    a_search_that_others_outrun_is_left_to_the_next_audit
    beside_work_lost_jobs_are_put_back_once
    a_requeue_writes_over_no_envelope_that_came_after_its_read
}

/// The stages of a search, at which others do something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Before the script is asked which jobs are in no other place.
    Asks,
    /// Before its first read.
    Begins,
    /// Before the script looks for the first time.
    Looks,
    /// Before the first read of what has come.
    CatchesUp,
    Over,
}

/// An audit between whose requests something is done.
async fn audit_beside<F: Future<Output = ()> + Send>(server: &Server, mut work: impl FnMut(Stage) -> F + Send + 'static) -> Vec<Damage> {
    let (handle, mut stage) = (Handle::current(), Stage::Asks);
    let proxy = Proxy::with_gate(server.port(), move |request| {
        let has = |word: &[u8]| request.windows(word.len()).any(|window| window == word);
        let (comes, next) = match stage {
            // Another part of the audit reads lists, too.
            Stage::Asks => (has(b"\r\nunplaced\r\n"), Stage::Begins),
            Stage::Begins => (has(b"\r\nLRANGE\r\n"), Stage::Looks),
            Stage::Looks => (has(b"\r\nstrays\r\n"), Stage::CatchesUp),
            Stage::CatchesUp => (has(b"\r\nLRANGE\r\n"), Stage::Over),
            Stage::Over => (false, Stage::Over),
        };
        if comes {
            let now = std::mem::replace(&mut stage, next);
            handle.block_on(work(now));
        }
    });
    let broker: DynBroker = RedisBroker::connect(&proxy.url()).await.unwrap();
    broker.audit(QUEUE, REPAIR).await.unwrap()
}

/// Claims the first jobs when the search begins, and lets them come back behind its back.
async fn comes_back(kind: Kind, ending: impl Fn() -> Ending + Send + Clone + 'static) {
    let server = Server::start(kind);
    let broker = on(&server).await;
    let ids = put(&broker, QUEUE, 10 * LOOK).await;
    lose(&server, &ids[5 * LOOK]);
    let lane = Arc::new(tokio::sync::Mutex::new((Lane::on(&broker, QUEUE).await, Vec::<Delivery>::new())));
    let others = broker.clone();
    let damages = audit_beside(&server, move |stage| {
        let (lane, others, ending) = (lane.clone(), others.clone(), ending.clone());
        async move {
            let (lane, held) = &mut *lane.lock().await;
            match stage {
                Stage::Begins => {
                    while held.len() < 2 * LOOK {
                        held.extend(lane.claim(500).await);
                    }
                }
                Stage::Looks => {
                    for some in held.chunks(500) {
                        let turn = lane.next().finish(some.iter().map(|delivery| finish(delivery, ending())).collect());
                        assert!(lane.send(&turn).await.stale.is_empty());
                    }
                }
                // What came back recedes further while it is looked for.
                Stage::CatchesUp => drop(put(&others, QUEUE, LOOK / 2).await),
                Stage::Asks | Stage::Over => (),
            }
        }
    })
    .await;
    assert_eq!(subjects(&damages), HashSet::from([ids[5 * LOOK].to_string().as_str()]));
    assert_eq!(repaired(&broker, QUEUE).await, 1);
    let ran = drain(&broker, QUEUE).await;
    assert_eq!((ran.len(), ids.iter().all(|id| ran.contains(id))), (10 * LOOK + LOOK / 2, true));
}

async fn what_comes_back_to_the_head_during_the_search_is_met_there(kind: Kind) {
    comes_back(kind, || Ending::Return).await;
}

async fn what_comes_back_to_the_tail_during_the_search_is_met_there(kind: Kind) {
    comes_back(kind, || Ending::Repeat { delay: Duration::ZERO }).await;
}

/// A queue in which one of many jobs is lost.
async fn one_lost(kind: Kind) -> (Arc<Server>, DynBroker) {
    let server = Arc::new(Server::start(kind));
    let broker = on(&server).await;
    let ids = put(&broker, QUEUE, 3 * LOOK).await;
    lose(&server, &ids[LOOK]);
    (server, broker)
}

async fn a_search_that_a_failover_met_is_given_up(kind: Kind) {
    let (server, broker) = one_lost(kind).await;
    let failing = server.clone();
    let damages = audit_beside(&server, move |stage| {
        if stage == Stage::Looks {
            for master in [["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]] {
                assert_eq!(failing.ask::<String>(&master).unwrap(), "OK");
            }
        }
        std::future::ready(())
    })
    .await;
    assert_eq!(damages, []);
    assert_eq!(broker.audit(QUEUE, REPAIR).await.unwrap().len(), 1);
}

async fn a_search_that_others_outrun_is_left_to_the_next_audit(kind: Kind) {
    let (server, broker) = one_lost(kind).await;
    let counting = server.clone();
    let proxy = Proxy::with_gate(server.port(), move |request| {
        if request.windows(10).any(|window| window == b"\r\nstrays\r\n") {
            counting.command(&["HINCRBY", &format!("queue:{{{QUEUE}}}:counters"), "enqueued", "6000"]);
        }
    });
    let behind = RedisBroker::connect(&proxy.url()).await.unwrap();
    let damages = wait("it ends").end_of(behind.audit(QUEUE, REPAIR)).await.unwrap();
    assert_eq!(damages, []);
    assert_eq!(broker.audit(QUEUE, REPAIR).await.unwrap().len(), 1);
}

/// Workers claim, give back and finish, and producers enqueue, while jobs are lost at many places.
async fn beside_work_lost_jobs_are_put_back_once(kind: Kind) {
    const LOST: usize = 40;
    let server = Server::start(kind);
    let broker = on(&server).await;
    let ids = put(&broker, QUEUE, 30_000).await;
    let lost: Vec<JobId> = ids.iter().rev().step_by(20_000 / LOST).take(LOST).cloned().collect();
    lost.iter().for_each(|id| lose(&server, id));
    let over = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    for _ in 0..2 {
        let (broker, over) = (broker.clone(), over.clone());
        workers.push(tokio::spawn(async move {
            let mut lane = Lane::on(&broker, QUEUE).await;
            let (mut times, mut done) = (HashMap::<JobId, usize>::new(), Vec::new());
            while !over.load(Ordering::Relaxed) {
                let held = lane.claim(64).await;
                let endings = held.iter().enumerate().map(|(at, delivery)| {
                    let ending = match at % 8 {
                        0 | 1 => Ending::Return,
                        2 | 3 => Ending::Repeat { delay: Duration::ZERO },
                        4 | 5 => nack(Duration::ZERO),
                        6 => Ending::Snooze { delay: Duration::from_millis(1) },
                        _ => ack(),
                    };
                    if matches!(ending, Ending::Ack { .. }) {
                        done.push(delivery.id.clone());
                    }
                    *times.entry(delivery.id.clone()).or_default() += 1;
                    finish(delivery, ending)
                });
                let turn = lane.next().finish(endings.collect());
                // Whoever has a second place is claimed while it is held, and its first holder is
                // stale.
                assert!(lane.send(&turn).await.stale.is_empty(), "a job was in two hands");
                // An audit that is outrun gives up.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            done
        }));
    }
    let producing = tokio::spawn({
        let (broker, over) = (broker.clone(), over.clone());
        async move {
            let mut more = Vec::new();
            while !over.load(Ordering::Relaxed) {
                more.extend(put(&broker, QUEUE, 20).await);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            more
        }
    });
    let mut found = HashSet::new();
    let searching = async {
        while found.len() < LOST {
            for id in subjects(&broker.audit(QUEUE, REPAIR).await.unwrap()) {
                assert!(found.insert(id.to_owned()), "{id} was put back twice");
            }
        }
    };
    wait(format!("{LOST} jobs to be put back")).times(2).end_of(searching).await;
    over.store(true, Ordering::Relaxed);
    assert_eq!(found, lost.iter().map(JobId::to_string).collect());
    assert_eq!(repaired(&broker, QUEUE).await, LOST as u64);
    let mut all: HashSet<JobId> = ids.into_iter().chain(producing.await.unwrap()).collect();
    for worker in workers {
        for id in worker.await.unwrap() {
            assert!(all.remove(&id), "{id} ran twice");
        }
    }
    until("nobody holds any", async || broker.stats(QUEUE).await.unwrap().count(JobState::Active) == 0).await;
    let mut ran = drain(&broker, QUEUE).await;
    eventually("what was snoozed has run", async || {
        for id in drain(&broker, QUEUE).await {
            assert!(ran.insert(id.clone()), "{id} ran twice");
        }
        (broker.stats(QUEUE).await.unwrap().jobs() == 0).then_some(())
    })
    .await;
    assert!(ran == all, "{} of {} have run", ran.len(), all.len());
}

/// The job has another envelope by the time at which the requeue writes: it keeps that, and loses
/// the expiry of it.
async fn a_requeue_writes_over_no_envelope_that_came_after_its_read(kind: Kind) {
    let server = Server::start(kind);
    let broker = on(&server).await;
    let expiring = |id: &str| {
        let mut envelope = Envelope::new("suite.task", id.as_bytes());
        envelope.expires_ms = Some(i64::MAX / 2);
        NewJob::new(JobId::given(id).unwrap(), envelope.encode().unwrap())
    };
    Producer::on(&broker, QUEUE).await.stored(vec![expiring("a"), expiring("b")]).await;
    let mut lane = Lane::on(&broker, QUEUE).await;
    for delivery in lane.claim(2).await {
        assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Buried, error: None }).await);
    }
    let (url, mut has_read, jobs) = (server.url(), None, format!("queue:{{{QUEUE}}}:jobs"));
    let proxy = Proxy::with_gate(server.port(), move |request| {
        let has = |word: &[u8]| request.windows(word.len()).any(|window| window == word);
        if has(b"\r\nHMGET\r\n") {
            has_read.get_or_insert(false);
        } else if has(b"\r\nEVALSHA\r\n") && has_read == Some(false) {
            has_read = Some(true);
            let mut other = redis::Client::open(&*url).unwrap().get_connection().unwrap();
            let copy = "return redis.call('HSET', KEYS[1], '=a', redis.call('HGET', KEYS[1], '=b'))";
            redis::cmd("EVAL").arg(copy).arg(1).arg(&jobs).query::<i64>(&mut other).unwrap();
        }
    });
    let beside: DynBroker = RedisBroker::connect(&proxy.url()).await.unwrap();
    let a = JobId::given("a").unwrap();
    assert_eq!(beside.requeue(QUEUE, std::slice::from_ref(&a)).await.unwrap(), [true]);
    let stored = broker.show(QUEUE, &a).await.unwrap().unwrap().envelope;
    let stored = Envelope::decode(&stored).unwrap();
    assert_eq!((stored.payload, stored.expires_ms), (&b"b"[..], None));
}
