//! Lost jobs are looked for in a `ready` of any length, beside everybody else, and no job gets a
//! second place in it.

mod marks;
mod searches;
mod steps;

use std::collections::HashSet;

use queue_conformance::conformance::{Lane, Producer, envelope};
use queue_core::{
    __private::{Envelope, RedisBroker},
    JobId,
    broker::{Audit, Counter, Damage, DamageKind, DynBroker, NewJob},
};
use queue_tests::server::Server;

const QUEUE: &str = "lost";

/// Most ids that a script reads at each end of one long list.
const LOOK: usize = 2_500;

/// Most ids of one read.
const READ: usize = 2_000;

const REPAIR: Audit = Audit { repair: true, thorough: true };

async fn on(server: &Server) -> DynBroker {
    RedisBroker::connect(&server.url()).await.unwrap()
}

fn given(id: &str) -> NewJob {
    let bytes = envelope(id);
    let mut job = NewJob::new(JobId::given(id).unwrap(), bytes.clone());
    job.digest = Envelope::decode(&bytes).unwrap().digest();
    job
}

async fn put(broker: &DynBroker, queue: &str, jobs: usize) -> Vec<JobId> {
    let mut producer = Producer::on(broker, queue).await;
    let mut ids = Vec::new();
    for piece in vec![(); jobs].chunks(500) {
        let jobs: Vec<NewJob> = piece.iter().map(|()| NewJob::new(JobId::make(), envelope("filler"))).collect();
        ids.extend(jobs.iter().map(|job| job.id.clone()));
        producer.stored(jobs).await;
    }
    ids
}

/// Loses a job that is ready.
fn lose(server: &Server, id: &JobId) {
    let mut lost: redis::Connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let key = format!("queue:{{{QUEUE}}}:ready:2");
    assert_eq!(redis::cmd("LREM").arg(key).arg(1).arg(id.as_bytes()).query::<i64>(&mut lost).unwrap(), 1);
}

async fn repaired(broker: &DynBroker, queue: &str) -> u64 {
    broker.stats(queue).await.unwrap().total(Counter::Repaired)
}

fn subjects(damages: &[Damage]) -> HashSet<&str> {
    assert!(damages.iter().all(|damage| damage.kind == DamageKind::JobWithoutPlace), "{damages:?}");
    damages.iter().map(|damage| damage.subject.as_str()).collect()
}

/// Runs all jobs that are left, each of which comes once.
async fn drain(broker: &DynBroker, queue: &str) -> HashSet<JobId> {
    let mut lane = Lane::on(broker, queue).await;
    let mut ran = HashSet::new();
    loop {
        let held = lane.claim(500).await;
        if held.is_empty() {
            return ran;
        }
        lane.ack(&held).await;
        for delivery in held {
            assert!(ran.insert(delivery.id.clone()), "{} ran twice", delivery.id);
        }
    }
}
