//! How Redis and Valkey keep what we look up.

use std::time::Duration;

use queue_core::{
    JobId,
    broker::{DynBroker, Ending, NewJob, Priority, ProcessId, Register, Turn},
    redis::RedisBroker,
};
use queue_tests::{
    conformance::{Producer, envelope, finish},
    on_servers,
    server::{Kind, Server},
};

on_servers! {
    what_is_looked_up_for_each_job_is_no_list_to_the_server
}

const QUEUE: &str = "encodings";
const LEASE: Duration = Duration::from_secs(60);

/// A list would be searched from its head for each of the jobs of a turn.
async fn what_is_looked_up_for_each_job_is_no_list_to_the_server(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let jobs = (0..4).map(|number| {
        let mut job = NewJob::new(JobId::make(), envelope(&number.to_string()));
        job.priority = if number == 0 { Priority::High } else { Priority::default() };
        job
    });
    Producer::on(&broker, QUEUE).await.stored(jobs.collect()).await;
    let worker = broker.register(&Register::worker(QUEUE, ProcessId::random(), LEASE)).await.unwrap();
    let held = broker.turn(&Turn::new(QUEUE, worker.clone(), 1, LEASE).claim(4)).await.unwrap().deliveries;
    let endings = [Ending::Nack { delay: LEASE, error: "e".to_owned() }, Ending::Snooze { delay: LEASE }];
    let finishes = held.iter().zip(endings).map(|(delivery, ending)| finish(delivery, ending)).collect();
    broker.turn(&Turn::new(QUEUE, worker, 2, LEASE).finish(finishes)).await.unwrap();
    for key in ["jobs", "active", "priority", "attempts", "snoozes"] {
        assert_eq!(server.command(&["OBJECT", "ENCODING", &format!("queue:{{{QUEUE}}}:{key}")]).trim(), "hashtable", "{key}");
    }
}
