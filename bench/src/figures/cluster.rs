//! A cluster beside one server.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, future::join_all};
use queue_core::Client;
use queue_tests::{cluster::Cluster, server::Kind};

use crate::{
    Error,
    frame::{Figure, Reading, Readings},
    server::Server,
    tasks::{hundred_bytes, noop},
    worker::{Running, drain, jobs},
};

/// What is done with these queues of a broker, in jobs per second.
type Rate = fn(String, Vec<String>) -> futures_util::future::BoxFuture<'static, Result<f64, Error>>;

pub(crate) fn figures() -> Vec<Figure> {
    let figure = |name: &'static str, about: &'static str, queues: usize, rate: Rate| {
        Figure::cluster(name, about, move |program| beside_one_server(program, queues, rate).boxed()).most_runs(3)
    };
    let process: Rate = |url, queues| process(url, queues).boxed();
    let enqueue: Rate = |url, queues| enqueue(url, queues).boxed();
    vec![
        figure("cluster_process", "100,000 preloaded jobs of one queue in a cluster of three masters, concurrency 64.", 1, process),
        figure("cluster_process_six_queues", "The same in six queues, two on each master.", 6, process),
        figure("cluster_enqueue_c50", "50 concurrent producers to one queue of a cluster: 100,000 jobs.", 1, enqueue),
        figure("cluster_enqueue_c50_six_queues", "The same to six queues, two on each master.", 6, enqueue),
    ]
}

async fn beside_one_server(program: &Path, queues: usize, rate: Rate) -> Readings {
    let alone = Server::start(program)?;
    let cluster = Cluster::start(Kind::Redis, Duration::from_secs(5));
    // The master of a cluster has a replica: so has the one that it is compared with.
    let port = alone.port().to_string();
    let replica = queue_tests::server::Server::with(Kind::Redis, &["--replicaof", "127.0.0.1", &port]);
    queue_tests::patience::until("the replica to follow", || async {
        replica.command(&["INFO", "replication"]).contains("master_link_status:up")
    })
    .await;
    let names = spread(&cluster, queues);
    let before = rate(alone.url(), names.clone()).await?;
    let value = rate(cluster.url(), names.clone()).await?;
    alone.flush()?;
    let after = rate(alone.url(), names).await?;
    let reading = Reading::new("", value, "jobs/s");
    Ok(vec![reading.beside(f64::midpoint(before, after), "the same on one server with a replica, before and after")])
}

/// Names of queues that lie on the three masters in turn.
fn spread(cluster: &Cluster, queues: usize) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut candidates = (0..).map(|number| format!("bench-{number}"));
    while names.len() < queues {
        let wanted = names.len() % 3;
        names.extend(candidates.find(|name| cluster.master(cluster.slot(name)) == wanted));
    }
    names
}

async fn process(url: String, queues: Vec<String>) -> Result<f64, Error> {
    let n = 100_000;
    let client = Client::connect(&url).await?;
    client.enqueue_all(jobs(n).zip(queues.iter().cycle()).map(|(job, queue)| job.queue(queue))).await?;
    let begun = Instant::now();
    let running = Running::serving(&client, 64, &queues);
    running.counter.want(n);
    let rate = drain(&running, begun, n).await?;
    running.stop().await;
    Ok(rate)
}

async fn enqueue(url: String, queues: Vec<String>) -> Result<f64, Error> {
    let (producers, n) = (50, 100_000);
    let client = Client::connect(&url).await?;
    for queue in &queues {
        client.enqueue(noop::job(hundred_bytes()).queue(queue)).await?;
    }
    let begun = Instant::now();
    let tasks = (0..producers).map(|producer| {
        let (client, queue) = (client.clone(), queues[producer % queues.len()].clone());
        tokio::spawn(async move {
            for job in jobs(n / producers) {
                client.enqueue(job.queue(&queue)).await?;
            }
            Ok::<_, Error>(())
        })
    });
    for task in join_all(tasks).await {
        task??;
    }
    Ok(n as f64 / begun.elapsed().as_secs_f64())
}
