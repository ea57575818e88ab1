//! Walks through the jobs of a server: how much one step reads, and what happens to a walk when the
//! server is another one.

use std::time::Duration;

use queue_conformance::conformance::{Lane, Producer, envelope, eventually, nack};
use queue_core::{
    __private::{Envelope, RedisBroker},
    JobId,
    broker::{DynBroker, Ending, JobState, NewJob, Scan},
};
use queue_tests::{
    on_servers,
    server::{Kind, Server},
};

on_servers! {
    a_step_ends_with_a_mebibyte_of_results
    a_walk_begins_again_on_another_server
    a_walk_ends_where_the_server_does_not_report_who_it_is
}

const QUEUE: &str = "walks";
const HOUR: Duration = Duration::from_secs(3600);

/// A hundred and sixty done jobs with results of 64 KiB, and one that is ready: the walk goes
/// through all jobs.
async fn a_step_ends_with_a_mebibyte_of_results(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let (mut producer, mut lane) = (Producer::on(&broker, QUEUE).await, Lane::on(&broker, QUEUE).await);
    producer.stored((0..160).map(|_| NewJob::new(JobId::make(), envelope("done"))).collect()).await;
    for held in lane.claim(160).await {
        assert!(lane.end(&held, Ending::Ack { result: Some(vec![7; 64 * 1024]), keep: Some(HOUR) }).await);
    }
    producer.stored(vec![NewJob::new(JobId::make(), envelope("ready"))]).await;
    let (mut found, mut steps, mut after) = (0, 0, None);
    loop {
        let request = Scan::new(QUEUE, &[JobState::Done, JobState::Ready], 500).including_moved().after(after);
        let step = broker.scan(&request).await.unwrap();
        (found, steps, after) = (found + step.jobs.len(), steps + 1, step.next);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, 161);
    assert!(steps >= 5, "ten mebibytes are read in {steps} steps");
}

/// It may lack what was done to the jobs that lie behind: the walk goes through these again, by a
/// tag and without.
async fn a_walk_begins_again_on_another_server(kind: Kind) {
    let mut server = Server::durable(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    let (mut producer, mut lane) = (Producer::on(&broker, QUEUE).await, Lane::on(&broker, QUEUE).await);
    let tagged = |n: usize| {
        let mut envelope = Envelope::new("a.task", b"\x80");
        envelope.tags.insert("order".to_owned(), "17".to_owned());
        NewJob::new(JobId::given(&format!("job-{n}")).unwrap(), envelope.encode().unwrap())
    };
    producer.stored(vec![tagged(0)]).await;
    let failed = lane.claim_one().await;
    assert!(lane.end(&failed, nack(HOUR)).await);
    producer.stored((1..5).map(tagged).collect()).await;

    let by_places = Scan::new(QUEUE, &[JobState::Retry, JobState::Scheduled], 2).including_moved();
    let by_tag = Scan::new(QUEUE, &JobState::ALL, 2).including_moved().tagged("order", "17");
    let told = |scanned: queue_core::broker::Scanned| scanned.jobs.into_iter().map(|job| job.id).collect::<Vec<_>>();
    let mut behind = Vec::new();
    for request in [by_places, by_tag] {
        let first = broker.scan(&request).await.unwrap();
        let second = request.clone().after(Some(first.next.clone().expect("it goes on")));
        let expected = told(first);
        assert!(expected.contains(&failed.id));
        assert!(!told(broker.scan(&second).await.unwrap()).contains(&failed.id), "the same server goes on");
        behind.push((second, expected));
    }
    server.kill();
    server.restart();
    for (second, expected) in behind {
        let found = eventually("the server is there again", async || broker.scan(&second).await.ok()).await;
        assert_eq!(told(found), expected, "{second:?}");
    }
}

/// `INFO` is denied: it is taken for the same server.
async fn a_walk_ends_where_the_server_does_not_report_who_it_is(kind: Kind) {
    let server = Server::start(kind);
    let created = server.command(&["ACL", "SETUSER", "app", "on", ">pw", "~queue:*", "resetchannels", "+@all", "-info"]);
    assert!(created.starts_with("+OK"), "{created}");
    let broker: DynBroker = RedisBroker::connect(&server.url().replace("redis://", "redis://app:pw@")).await.unwrap();
    let mut large = Envelope::new("a.task", &[0; 1024]);
    large.tags.insert("order".to_owned(), "17".to_owned());
    let jobs = (0..300).map(|_| NewJob::new(JobId::make(), large.encode().unwrap())).collect();
    Producer::on(&broker, QUEUE).await.stored(jobs).await;
    let walk = Scan::new(QUEUE, &[JobState::Ready], 20).including_moved();
    for request in [walk.clone(), walk.tagged("order", "17")] {
        let (mut found, mut steps, mut after) = (0, 0, None);
        loop {
            let step = broker.scan(&request.clone().after(after)).await.unwrap();
            (found, steps, after) = (found + step.jobs.len(), steps + 1, step.next);
            if after.is_none() {
                break;
            }
            assert!(steps < 100, "it ends");
        }
        assert!(found >= 300 && steps > 5, "{found} jobs in {steps} steps");
    }
}
