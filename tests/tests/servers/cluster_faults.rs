//! Producers and workers go on while the nodes of a cluster fail, and while slots move.
//!
//! There are three queues, one on each master; what is done to a node is done to that of the first.
//! Every test prints how long after the promotion of the new master the first job started, and
//! fails if that is too long.

use std::time::{Duration, Instant, SystemTime};

use queue_conformance::conformance::{Producer, envelope};
use queue_core::{
    __private::RedisBroker,
    JobId,
    broker::{DynBroker, NewJob},
};
use queue_tests::{
    cluster::Cluster,
    fleet::{Fleet, resumed},
    history::{History, JOURNALED},
    on_servers,
    sentinel::Promotion,
    server::Kind,
};

/// A node that is not heard of for so long is taken for dead. Tests of one that is wait for it.
const NODE_TIMEOUT: Duration = Duration::from_millis(1500);

/// The same where all nodes live: a machine that stands still for a moment is no dead node.
const LONG_NODE_TIMEOUT: Duration = Duration::from_secs(5);

on_servers! {
    a_planned_failover_loses_and_doubles_nothing
    a_master_that_is_killed_costs_only_what_its_replica_lacked
    a_replica_that_lagged_is_taken_for_what_it_is
    a_slot_that_moves_key_by_key_loses_and_doubles_nothing
    a_node_that_stands_still_is_left_and_not_come_back_to
    a_call_waits_for_a_slot_on_its_way_and_follows_it
}

async fn a_planned_failover_loses_and_doubles_nothing(kind: Kind) {
    let stage = Stage::new(kind, LONG_NODE_TIMEOUT).await;
    let promotion = stage.cluster.hand_over(stage.slot);
    stage.fleet.flows().await;
    let history = stage.finish().await;
    report("a planned failover", &history, promotion);
    history.assert_flawless();
}

async fn a_master_that_is_killed_costs_only_what_its_replica_lacked(kind: Kind) {
    let mut stage = Stage::new(kind, NODE_TIMEOUT).await;
    let (replicated, killed) = (stage.replicated(), SystemTime::now());
    let (dead, heir) = stage.cluster.kill_master(stage.slot);
    let promotion = stage.cluster.wait_for_promotion(heir);
    stage.fleet.flows().await;
    stage.cluster.bring_back(dead);
    let history = stage.finish().await;
    report("a dead master", &history, promotion);
    history.assert_flawless_but(replicated, promotion.at + JOURNALED);
    elsewhere(&history).assert_flawless();
    let pause = elsewhere(&history).longest_pause(killed, promotion.at);
    println!("a dead master: the queues of others paused for {pause:?}");
    resumed("the queues of others", pause);
}

/// What it lacks is lost or done again, and nobody who knows better spoils it: its workers are
/// `Forgotten` and start over.
async fn a_replica_that_lagged_is_taken_for_what_it_is(kind: Kind) {
    let mut stage = Stage::new(kind, NODE_TIMEOUT).await;
    let replicated = stage.replicated();
    stage.cluster.node(stage.cluster.master(stage.slot)).cut_off_replicas();
    stage.fleet.flows().await;
    stage.fleet.pause_workers();
    stage.fleet.until("jobs to be stored that nobody runs", |history| here(history).lost().len() > 10).await;
    let (_, heir) = stage.cluster.kill_master(stage.slot);
    stage.fleet.resume_workers();
    let promotion = stage.cluster.wait_for_promotion(heir);
    stage.fleet.flows().await;
    let history = stage.finish().await;
    report("a replica that lagged", &history, promotion);
    assert!(!here(&history).lost().is_empty(), "what it lacked is lost: {}", history.summary());
    here(&history).assert_flawless_but(replicated, promotion.at + JOURNALED);
    elsewhere(&history).assert_flawless();
}

/// A queue pauses while its slot is on its way, longer than a lease, and that is all.
async fn a_slot_that_moves_key_by_key_loses_and_doubles_nothing(kind: Kind) {
    let stage = Stage::new(kind, LONG_NODE_TIMEOUT).await;
    let before = SystemTime::now();
    // There and back: the second time its clients know both nodes.
    for _ in 0..2 {
        let to = stage.another_master();
        let moved = stage.cluster.move_slot(stage.slot, to, Duration::from_millis(700)).unwrap();
        assert!(moved > 4, "the queue was alive: {moved} keys");
        stage.cluster.wait_for_agreement();
        stage.fleet.flows().await;
    }
    let pause = |history: &History| history.longest_pause(before, SystemTime::now());
    let history = stage.finish().await;
    println!(
        "a slot that moves: its queue paused for {:?}, the others for {:?}; {}",
        pause(&here(&history)),
        pause(&elsewhere(&history)),
        history.summary()
    );
    history.assert_flawless();
}

/// `SIGSTOP`: its sockets are open, and nobody answers.
async fn a_node_that_stands_still_is_left_and_not_come_back_to(kind: Kind) {
    let stage = Stage::new(kind, NODE_TIMEOUT).await;
    let old = stage.cluster.master(stage.slot);
    let heir = stage.cluster.replica(old);
    let replicated = stage.replicated();
    stage.cluster.node(old).pause();
    let promotion = stage.cluster.wait_for_promotion(heir);
    stage.fleet.flows().await;
    stage.cluster.node(old).resume();
    stage.fleet.flows().await;
    stage.cluster.wait_for_agreement();
    stage.fleet.flows().await;
    let history = stage.finish().await;
    report("a node that stands still", &history, promotion);
    history.assert_flawless_but(replicated, promotion.at + JOURNALED);
    elsewhere(&history).assert_flawless();
}

/// One call, of somebody who does not try again.
async fn a_call_waits_for_a_slot_on_its_way_and_follows_it(kind: Kind) {
    const REST: Duration = Duration::from_millis(300);
    let cluster = Cluster::start(kind, LONG_NODE_TIMEOUT);
    let queue = cluster.queue_on(0);
    let slot = cluster.slot(&queue);
    let broker: DynBroker = RedisBroker::connect(&cluster.url()).await.unwrap();
    Producer::on(&broker, &queue).await.stored(vec![NewJob::new(JobId::make(), envelope("x"))]).await;
    let from = cluster.master(slot);
    let to = cluster.masters().into_iter().find(|master| *master != from).expect("there are three");
    let moving = tokio::task::spawn_blocking(move || {
        cluster.move_slot(slot, to, REST).unwrap();
        cluster
    });
    let mut longest = Duration::ZERO;
    while !moving.is_finished() {
        let asked = Instant::now();
        broker.stats(&queue).await.expect("a slot that moves is waited for");
        longest = longest.max(asked.elapsed());
    }
    assert!(longest >= REST, "no call has met the slot on its way: {longest:?}");
    // Moved while nobody looked: the first who asks is told where to.
    let cluster = moving.await.unwrap();
    cluster.wait_for_agreement();
    cluster.move_slot(slot, from, Duration::ZERO).unwrap();
    broker.stats(&queue).await.expect("whoever is sent elsewhere goes there");
}

mod on_valkey_alone {
    use super::*;

    /// Valkey 9: `CLUSTER MIGRATESLOTS`.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_slot_that_moves_as_a_whole_loses_and_doubles_nothing() {
        let stage = Stage::new(Kind::Valkey, LONG_NODE_TIMEOUT).await;
        let before = SystemTime::now();
        for _ in 0..2 {
            stage.cluster.move_slot_whole(stage.slot, stage.another_master()).unwrap();
            stage.cluster.wait_for_agreement();
            stage.fleet.flows().await;
        }
        let history = stage.finish().await;
        let pause = here(&history).longest_pause(before, SystemTime::now());
        println!("a slot that moves as a whole: its queue paused for {pause:?}; {}", history.summary());
        history.assert_flawless();
    }
}

/// A cluster and a fleet on it.
struct Stage {
    cluster: Cluster,
    fleet: Fleet,
    /// Of the first queue.
    slot: u16,
    /// A key in this slot, and of no queue.
    key: String,
}

impl Stage {
    async fn new(kind: Kind, node_timeout: Duration) -> Stage {
        // The death of a node is to be no matter of the others.
        let cluster = Cluster::with(kind, node_timeout, &["--appendonly", "no", "--cluster-require-full-coverage", "no"]);
        let queues: Vec<String> = (0..QUEUES).map(|master| cluster.queue_on(master as usize)).collect();
        let names: Vec<&str> = queues.iter().map(String::as_str).collect();
        let fleet = Fleet::start(env!("CARGO_BIN_EXE_chronicler"), &cluster.url(), &names).await;
        Stage { slot: cluster.slot(&queues[0]), key: format!("written:{{{}}}", queues[0]), cluster, fleet }
    }

    fn another_master(&self) -> usize {
        let here = self.cluster.master(self.slot);
        self.cluster.masters().into_iter().find(|master| *master != here).expect("there are three")
    }

    /// Waits until the replica of the slot's master has what was stored before: the time of that.
    fn replicated(&self) -> SystemTime {
        self.cluster.node(self.cluster.master(self.slot)).replicated(&self.key)
    }

    async fn finish(self) -> History {
        self.fleet.finish().await
    }
}

const QUEUES: u32 = 3;

/// The jobs of the queue whose node is harmed. A producer's jobs go to the queues by turns.
fn here(history: &History) -> History {
    history.of(|number| number % QUEUES == 0)
}

/// The jobs of the other queues.
fn elsewhere(history: &History) -> History {
    history.of(|number| number % QUEUES != 0)
}

fn report(what: &str, history: &History, promotion: Promotion) {
    let first = here(history).first_start(promotion.at).expect("jobs start after the promotion");
    println!("{what}: {first:?} from the promotion to the first start; {}", history.summary());
    resumed(what, first);
}
