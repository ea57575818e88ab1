//! How Redis and Valkey keep what we look up.

use std::time::Duration;

use queue_conformance::{
    Changes as _,
    conformance::{Lane, Producer, envelope, finish},
};
use queue_core::{
    __private::RedisBroker,
    JobId,
    broker::{DynBroker, Ending, JobState, KeepLimits, NewJob, Priority, ProcessId, Register, SweepLimits, Turn},
};
use queue_tests::{
    on_servers,
    server::{Kind, Server},
};

on_servers! {
    what_is_looked_up_for_each_job_is_no_list_to_the_server
    a_line_of_a_kept_job_may_have_its_expiry
    few_others_keep_no_done_job_out_of_the_list
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
    let worker = broker.register(&Register::lane(QUEUE, ProcessId::random(), LEASE)).await.unwrap().name;
    let held = broker.turn(&Turn::new(QUEUE, worker.clone(), 1, LEASE).claim(4)).await.unwrap().deliveries;
    let endings = [Ending::Nack { delay: LEASE, error: "e".to_owned() }, Ending::Snooze { delay: LEASE }];
    let finishes = held.iter().zip(endings).map(|(delivery, ending)| finish(delivery, ending)).collect();
    broker.turn(&Turn::new(QUEUE, worker, 2, LEASE).finish(finishes)).await.unwrap();
    for key in ["jobs", "active", "priority", "attempts", "snoozes"] {
        assert_eq!(server.command(&["OBJECT", "ENCODING", &format!("queue:{{{QUEUE}}}:{key}")]).trim(), "hashtable", "{key}");
    }
}

/// As those of given ids do; of a made one it stands there twice, and is one job.
async fn a_line_of_a_kept_job_may_have_its_expiry(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let jobs = (0..3).map(|number| NewJob::new(JobId::make(), envelope(&number.to_string()))).collect();
    Producer::on(&broker, QUEUE).await.stored(jobs).await;
    let mut lane = Lane::on(&broker, QUEUE).await;
    for delivery in lane.claim(3).await {
        assert!(lane.end(&delivery, Ending::Ack { result: None, keep: Some(LEASE) }).await);
    }
    let [ended, records, jobs] = ["ended", "records", "jobs"].map(|key| format!("queue:{{{QUEUE}}}:{key}"));
    let rewrite = "local first, second = unpack(redis.call('LRANGE', KEYS[1], 0, 1))
        redis.call('LSET', KEYS[1], 1, cmsgpack.unpack(redis.call('HGET', KEYS[2], second)).u .. ':' .. second)
        return redis.call('RPUSH', KEYS[1], first)";
    assert_eq!(server.command(&["EVAL", rewrite, "2", &ended, &records]).trim(), ":4");
    assert_eq!(broker.list(QUEUE, JobState::Done, 0, 10).await.unwrap().jobs.len(), 3);
    let limits = SweepLimits { keep: KeepLimits { count: 0, bytes: u64::MAX }, ..SweepLimits::default() };
    broker.sweep(QUEUE, &limits).await.unwrap();
    let left = [("LLEN", &ended), ("HLEN", &records), ("HLEN", &jobs)].map(|(verb, key)| server.command(&[verb, key]).trim().to_owned());
    assert_eq!(left, [":0", ":0", ":0"]);
    assert_eq!(broker.stats(QUEUE).await.unwrap().count(JobState::Done), 0);
}

/// A list costs less than a sorted set. It is for the retention that most jobs have, which is
/// neither that of a cancelled job nor that of the one that happened to end first.
async fn few_others_keep_no_done_job_out_of_the_list(kind: Kind) {
    const DONE: usize = 8;
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let mut producer = Producer::on(&broker, QUEUE).await;
    let jobs = |n: u8| (0..n).map(|number| NewJob::new(JobId::make(), envelope(&number.to_string()))).collect::<Vec<_>>();
    let mut lane = Lane::on(&broker, QUEUE).await;
    let sizes = || {
        let size = |command, key| server.ask::<usize>(&[command, &format!("queue:{{{QUEUE}}}:{key}")]).unwrap();
        (size("LLEN", "ended"), size("ZCARD", "lapsing"))
    };
    let unwanted = jobs(1);
    let id = unwanted[0].id.clone();
    producer.stored(unwanted).await;
    broker.cancel(QUEUE, &[id]).await.unwrap();
    producer.stored(jobs(1)).await;
    let first = lane.wait_for_one().await;
    assert!(lane.end(&first, Ending::Ack { result: None, keep: Some(LEASE) }).await);
    assert_eq!(sizes(), (1, 1), "beside a cancelled job");
    producer.stored(jobs(u8::try_from(DONE).unwrap())).await;
    let others = lane.claim(DONE).await;
    let ends = |delivery| finish(delivery, Ending::Ack { result: None, keep: Some(2 * LEASE) });
    lane.send(&lane.next().finish(others.iter().map(ends).collect())).await;
    assert_eq!(sizes(), (DONE, 2), "beside the first that was done");
    assert_eq!(broker.list(QUEUE, JobState::Done, 0, 10).await.unwrap().jobs.len(), DONE + 1);
    let limits = SweepLimits { keep: KeepLimits { count: 0, bytes: u64::MAX }, ..SweepLimits::default() };
    broker.sweep(QUEUE, &limits).await.unwrap();
    assert_eq!(sizes(), (0, 0), "all can be removed");
    assert_eq!(server.ask::<usize>(&["HLEN", &format!("queue:{{{QUEUE}}}:records")]).unwrap(), 0);
}
