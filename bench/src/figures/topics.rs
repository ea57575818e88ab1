//! Events of a topic, beside a stream with a consumer group by hand: `XADD`, `XREADGROUP` and
//! `XACK`, without retries and dead letters.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, future::try_join_all};
use queue_contender::{Contender, Jobs};
use queue_core::{Registry, prelude::*, topics::Begin};
use queue_worker::Worker;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    Error,
    designs::Streams,
    frame::{Figure, Reading, Readings, When},
    server::Server,
    stats::percentile,
    tasks::{Counter, Starts, hundred_bytes},
    worker::patience,
};

pub(crate) fn figures() -> Vec<Figure> {
    vec![
        Figure::redis(
            "topics_publish",
            "Events of 100 bytes that 1, 50 and 500 producers publish, each awaiting its own answers, and one call of `publish_all`; beside `XADD` by hand \
             in the same run.",
            |server| publish(server).boxed(),
        ),
        Figure::redis(
            "topics_consume",
            "Events per second that one worker handles of a log of 50,000 events, 64 at once, with 1, 3 and 10 subscriptions: of each event as many are \
             handled. Beside `XREADGROUP` and `XACK` by hand in the same run, 64 at once.",
            |server| consume(server).boxed(),
        ),
        Figure::redis(
            "topics_latency",
            "From the call of `publish` to the start of the handler on an idle worker of the same process, 1,000 events, 2 ms after the last has run.",
            |server| latency(server).boxed(),
        ),
        Figure::redis(
            "topics_memory",
            "Bytes of redis-server per event of 100 bytes, 200,000 of them, with 1 and with 10 subscriptions that have read none.",
            |server| memory(server).boxed(),
        )
        .most_runs(3),
        Figure::redis(
            "topics_catch_up",
            "Events per second of a subscription that is 500,000 events behind, beside one that is 50,000 behind; and how many events another subscription, \
             to which 1,000 a second are published, starts within 20 ms while the first one catches up, in percent of those without it.",
            |server| catch_up(server).boxed(),
        )
        .most_runs(3),
        Figure::redis(
            "topics_far",
            "Events per second of a subscription that is 10,000,000 events behind, over the first 1,000,000 of them, beside one that is 50,000 behind; and how \
             many of 1,000 events a second another subscription starts within 20 ms meanwhile, in percent.",
            |server| far(server).boxed(),
        )
        .most_runs(1)
        .when(When::Named),
    ]
}

/// Events that each figure publishes or handles.
const EVENTS: usize = 50_000;

#[derive(Event)]
#[event(topic = "benched")]
struct Benched {
    d: String,
    n: u64,
}

fn event(n: u64) -> Benched {
    Benched { d: hundred_bytes(), n }
}

fn events(n: usize) -> impl Iterator<Item = Benched> + Send {
    (0..n as u64).map(event)
}

/// Functions that count the events of one subscription each.
macro_rules! subscriptions {
    ($($name:ident: $called:literal,)*) => {
        $(#[subscribe(name = $called, from = "start")]
        async fn $name(event: Benched, counter: Data<Arc<Counter>>) {
            std::hint::black_box((event.d, event.n));
            counter.seen_one();
        })*

        /// A worker with the first `subscriptions` of these functions.
        fn worker(client: &Client, subscriptions: usize, counter: &Arc<Counter>) -> Worker {
            let register: &[fn(Worker) -> Worker] = &[$(|worker| worker.register::<$name>()),*];
            let worker = Worker::new(client.clone()).registry(Registry::empty()).data(counter.clone()).concurrency(64);
            register[..subscriptions].iter().fold(worker, |worker, register| register(worker))
        }
    };
}

subscriptions! {
    first: "first",
    second: "second",
    third: "third",
    fourth: "fourth",
    fifth: "fifth",
    sixth: "sixth",
    seventh: "seventh",
    eighth: "eighth",
    ninth: "ninth",
    tenth: "tenth",
}

/// Notes when it started.
#[subscribe(name = "stamped", from = "now")]
async fn stamped(event: Benched, starts: Data<Arc<Starts>>, counter: Data<Arc<Counter>>) {
    starts.0.lock().expect("no holder panics").push((event.n, Instant::now()));
    counter.seen_one();
}

/// A worker of this process, until it is told to stop.
struct Running(CancellationToken, JoinHandle<Result<(), String>>);

impl Running {
    fn start(worker: Worker) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let run = async move { worker.run(stopped.cancelled_owned()).await.map(drop).map_err(|error| error.to_string()) };
        Running(stop, tokio::spawn(run))
    }

    async fn stop(self) -> Result<(), Error> {
        self.0.cancel();
        Ok(self.1.await??)
    }
}

async fn publish(server: &Server) -> Readings {
    let mut readings = Vec::new();
    for (suffix, producers) in [("_c1", 1), ("_c50", 50), ("_c500", 500)] {
        server.flush()?;
        let streams = Streams::connect(&server.url()).await?;
        let by_hand = published(producers, || {
            let streams = streams.clone();
            async move { streams.enqueue(hundred_bytes(), None).await }
        });
        let by_hand = by_hand.await?;
        server.flush()?;
        let client = Client::connect(&server.url()).await?;
        client.publish(event(0)).await?;
        let ours = published(producers, || {
            let client = client.clone();
            async move { Ok(client.publish(event(1)).await.map(drop)?) }
        });
        readings.push(Reading::new(suffix, ours.await?, "events/s").beside(by_hand, "`XADD` by as many producers in the same run"));
    }
    server.flush()?;
    let streams = Streams::connect(&server.url()).await?;
    let begun = Instant::now();
    streams.enqueue_all(vec![hundred_bytes(); EVENTS]).await?;
    let by_hand = EVENTS as f64 / begun.elapsed().as_secs_f64();
    server.flush()?;
    let client = Client::connect(&server.url()).await?;
    client.publish(event(0)).await?;
    let begun = Instant::now();
    client.publish_all(events(EVENTS)).await?;
    let ours = EVENTS as f64 / begun.elapsed().as_secs_f64();
    readings.push(Reading::new("_all", ours, "events/s").beside(by_hand, "`XADD` in pipelines of 500 in the same run"));
    Ok(readings)
}

/// Events per second of `producers`, each of which awaits the answer to one event before it
/// publishes the next.
async fn published<F: Future<Output = Result<(), Error>> + Send>(producers: usize, one: impl Fn() -> F) -> Result<f64, Error> {
    let each = if producers == 1 { EVENTS / 5 } else { EVENTS / producers };
    let begun = Instant::now();
    let one = &one;
    try_join_all((0..producers).map(|_| async move {
        for _ in 0..each {
            one().await?;
        }
        Ok::<_, Error>(())
    }))
    .await?;
    Ok((each * producers) as f64 / begun.elapsed().as_secs_f64())
}

async fn consume(server: &Server) -> Readings {
    server.flush()?;
    let streams = Streams::connect(&server.url()).await?;
    streams.enqueue_all(vec![hundred_bytes(); EVENTS]).await?;
    let jobs = Arc::new(Jobs::default());
    jobs.want(EVENTS);
    let begun = Instant::now();
    let (consumer, theirs) = (streams.clone(), jobs.clone());
    let task = tokio::spawn(async move { consumer.work(64, theirs).await });
    jobs.all(patience()).await?;
    let by_hand = EVENTS as f64 / begun.elapsed().as_secs_f64();
    task.abort();
    let mut readings = Vec::new();
    for (suffix, subscriptions) in [("", 1), ("_3", 3), ("_10", 10)] {
        let rate = handled(server, subscriptions, EVENTS).await?;
        readings.push(Reading::new(suffix, rate, "events/s").beside(by_hand, "a stream with one consumer group by hand in the same run"));
    }
    Ok(readings)
}

/// Events per second that one worker with `subscriptions` functions handles of a log of `n` events
/// that are there already.
async fn handled(server: &Server, subscriptions: usize, n: usize) -> Result<f64, Error> {
    server.flush()?;
    let client = Client::connect(&server.url()).await?;
    client.publish_all(events(n)).await?;
    let counter = Arc::new(Counter::default());
    counter.want(n * subscriptions);
    let begun = Instant::now();
    let running = Running::start(worker(&client, subscriptions, &counter));
    counter.all(patience()).await?;
    let rate = (n * subscriptions) as f64 / begun.elapsed().as_secs_f64();
    running.stop().await?;
    Ok(rate)
}

async fn latency(server: &Server) -> Readings {
    let client = Client::connect(&server.url()).await?;
    let (counter, starts) = (Arc::new(Counter::default()), Arc::new(Starts::default()));
    let running = Running::start(stamping(&client, &counter, &starts));
    subscribed(&client).await?;
    let mut sent = Vec::new();
    for n in 0..1_100 {
        counter.want(1);
        sent.push(Instant::now());
        client.publish(event(n)).await?;
        counter.all(Duration::from_secs(10)).await?;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    running.stop().await?;
    let starts = std::mem::take(&mut *starts.0.lock().expect("no holder panics"));
    // The first hundred warm connections and caches up.
    let mut millis: Vec<f64> =
        starts.iter().filter(|(n, _)| *n >= 100).map(|(n, at)| (*at - sent[*n as usize]).as_secs_f64() * 1e3).collect();
    Ok(vec![
        Reading::new("_p50", percentile(&mut millis, 50.0), "ms"),
        Reading::new("_p90", percentile(&mut millis, 90.0), "ms"),
        Reading::new("_p99", percentile(&mut millis, 99.0), "ms"),
    ])
}

fn stamping(client: &Client, counter: &Arc<Counter>, starts: &Arc<Starts>) -> Worker {
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<stamped>();
    worker.data(counter.clone()).data(starts.clone()).concurrency(64)
}

/// Waits for a worker to have made the subscription that notes when events start.
async fn subscribed(client: &Client) -> Result<(), Error> {
    let made =
        async || client.inspector().topic("benched").await.is_ok_and(|topic| topic.is_some_and(|topic| !topic.subscriptions.is_empty()));
    tokio::time::timeout(patience(), async {
        while !made().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await?;
    Ok(())
}

async fn memory(server: &Server) -> Readings {
    const MANY: usize = 200_000;
    let mut readings = Vec::new();
    for (suffix, subscriptions) in [("_1", 1), ("_10", 10)] {
        server.flush()?;
        let client = Client::connect(&server.url()).await?;
        for n in 0..subscriptions {
            client.inspector().subscribe("benched", &format!("quiet-{n}"), Begin::Start).await?;
        }
        client.publish(event(0)).await?;
        let before = server.info("memory", "used_memory")?;
        client.publish_all(events(MANY)).await?;
        readings.push(Reading::new(suffix, (server.info("memory", "used_memory")? - before) / MANY as f64, "bytes"));
    }
    Ok(readings)
}

/// How far behind the subscription of `topics_far` begins.
const FAR: usize = 10_000_000;

async fn far(server: &Server) -> Readings {
    let short = handled(server, 1, EVENTS).await?;
    server.flush()?;
    let client = Client::connect(&server.url()).await?;
    client.publish_all(events(FAR)).await?;
    let (counter, begun) = (Arc::new(Counter::default()), Instant::now());
    counter.want(FAR / 10);
    let running = Running::start(worker(&client, 1, &counter));
    counter.all(patience()).await?;
    let took = begun.elapsed();
    running.stop().await?;
    let beside = quick_of(&client, true).await?;
    Ok(vec![
        Reading::new("", (FAR / 10) as f64 / took.as_secs_f64(), "events/s").beside(short, "50,000 events in the same run"),
        Reading::new("_beside", beside, "%"),
    ])
}

async fn catch_up(server: &Server) -> Readings {
    let short = handled(server, 1, EVENTS).await?;
    let long = handled(server, 1, 10 * EVENTS).await?;
    let alone = in_time(server, false).await?;
    let beside = in_time(server, true).await?;
    Ok(vec![
        Reading::new("", long, "events/s").beside(short, "50,000 events in the same run"),
        Reading::new("_beside", beside, "%").beside(alone, "without one that catches up"),
    ])
}

/// Of the events that are published at 1,000 a second for three seconds: how many percent start
/// within 20 ms; beside a subscription that catches up, or not.
async fn in_time(server: &Server, beside: bool) -> Result<f64, Error> {
    server.flush()?;
    let client = Client::connect(&server.url()).await?;
    client.publish_all(events(10 * EVENTS)).await?;
    quick_of(&client, beside).await
}

/// [`in_time`] of a log that has events already.
async fn quick_of(client: &Client, beside: bool) -> Result<f64, Error> {
    const SENT: usize = 3_000;
    let (counter, starts, others) = (Arc::new(Counter::default()), Arc::new(Starts::default()), Arc::new(Counter::default()));
    counter.want(SENT);
    let running = Running::start(stamping(client, &counter, &starts));
    subscribed(client).await?;
    let catching_up = beside.then(|| Running::start(worker(client, 1, &others)));
    let (mut ticks, mut sent) = (tokio::time::interval(Duration::from_millis(1)), Vec::new());
    let mut sending = tokio::task::JoinSet::new();
    while sent.len() < SENT {
        ticks.tick().await;
        let (client, n) = (client.clone(), sent.len() as u64);
        sent.push(Instant::now());
        sending.spawn(async move { client.publish(event(n)).await.map(drop) });
    }
    for published in sending.join_all().await {
        published?;
    }
    counter.all(patience()).await?;
    running.stop().await?;
    if let Some(catching_up) = catching_up {
        catching_up.stop().await?;
    }
    let starts = std::mem::take(&mut *starts.0.lock().expect("no holder panics"));
    let quick = starts.iter().filter(|(n, at)| at.duration_since(sent[*n as usize]) <= Duration::from_millis(20)).count();
    Ok(quick as f64 * 100.0 / SENT as f64)
}
