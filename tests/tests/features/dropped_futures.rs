//! Futures that are dropped at every await: what they were about happens whole, or not at all, and
//! whoever comes next finds everything in order.

use std::{
    collections::BTreeSet,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use queue_core::{
    __private::Envelope,
    Registry,
    broker::{Counter, JobState},
    prelude::*,
};
use queue_tests::{
    folder::folder,
    patience::{WatchBroker, until},
    server::{Kind, Server},
};
use queue_worker::Worker;

const QUEUE: &str = "dropped";

#[task(queue = "dropped")]
async fn note(number: u32, done: queue_core::Data<AtomicUsize>) {
    let _ = number;
    tokio::task::yield_now().await;
    done.fetch_add(1, Ordering::SeqCst);
}

macro_rules! on_both {
    ($($case:ident)*) => {
        $(mod $case {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_redis() {
                let server = Server::start(Kind::Redis);
                super::$case(Client::connect(&server.url()).await.unwrap().watched()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                let folder = folder();
                let url = format!("sqlite://{}", folder.path().join("queue.db").display());
                super::$case(Client::connect(&url).await.unwrap().watched()).await;
            }
        })*
    };
}

on_both! {
    an_enqueue_leaves_a_whole_job_or_none
    an_enqueue_of_many_leaves_each_whole_or_not_at_all
    a_cancel_happens_or_does_not
    a_worker_leaves_every_job_to_its_successor
}

/// Polls a future so often, each time that it asks for it, and drops it when it asks once more.
/// What it came to, if it did.
async fn dropped_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// The numbers of all jobs that wait. Each is there once, and can be read.
async fn waiting(client: &Client) -> BTreeSet<u32> {
    let inspector = client.inspector();
    let (mut numbers, mut listed, mut walk) = (BTreeSet::new(), 0, inspector.walk(QUEUE, JobState::Ready));
    while let Some(jobs) = walk.next().await.unwrap() {
        for job in jobs {
            let record = inspector.show(&job.address).await.unwrap();
            let envelope = Envelope::decode(record.stored()).unwrap();
            let number = *envelope.payload.last().unwrap();
            listed += 1;
            assert!(numbers.insert(number.into()), "{number} is there twice");
        }
    }
    let stats = inspector.stats(QUEUE).await.unwrap();
    assert_eq!(stats.count(JobState::Ready), listed);
    assert_eq!(stats.total(Counter::Enqueued), listed, "what is counted is there");
    numbers
}

async fn an_enqueue_leaves_a_whole_job_or_none(client: Client) {
    // A payload's last byte is its number.
    let mut answered = BTreeSet::new();
    for round in 0..5 {
        for polls in 0..20 {
            let number = round * 20 + polls;
            if dropped_after(polls as usize, note::job(number).enqueue(&client)).await.is_some() {
                answered.insert(number);
            }
        }
    }
    note::job(120).enqueue(&client).await.unwrap();
    let stored = waiting(&client).await;
    assert!(answered.is_subset(&stored), "what was answered is there");
    assert!(answered.len() > 5 && !answered.contains(&0), "some were dropped, and some were not: {answered:?}");
}

/// Callers give up while a server stands still, as those of a web application do. Their batches
/// stay in flight, all that a queue may have. Whoever comes next waits for one to land.
#[test]
fn an_enqueue_behind_batches_of_callers_who_have_gone_is_answered() {
    let server = Server::start(Kind::Redis);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let client = runtime.block_on(Client::connect(&server.url())).unwrap();
    runtime.block_on(note::job(0).enqueue(&client)).unwrap();
    server.pause();
    let callers = client.clone();
    let (answered, answer) = std::sync::mpsc::channel();
    // A thread of its own: if it stands still for ever, the test says so.
    std::thread::spawn(move || {
        let gone = async {
            let mut held: Vec<_> = (1..6).map(|number| Box::pin(note::job(number).enqueue(&callers))).collect();
            for enqueue in &mut held {
                assert!(poll_fn(|context| Poll::Ready(enqueue.as_mut().poll(context).is_pending())).await);
                // The first goes at once: the next one's batch then takes its place. Too short a
                // pause makes this test see less, and never red.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            // From the first to the last: each that goes makes room for what has gathered.
            held.drain(..).for_each(drop);
        };
        runtime.block_on(gone);
        runtime.block_on(async {
            let mut next = Box::pin(note::job(6).enqueue(&callers));
            assert!(poll_fn(|context| Poll::Ready(next.as_mut().poll(context).is_pending())).await);
            drop(answered.send(Ok(())));
            drop(answered.send(next.await.map(drop)));
        });
    });
    let answer = || answer.recv_timeout(Duration::from_secs(20)).expect("an enqueue is answered, or refused at its deadline");
    answer().expect("it waits for the server");
    server.resume();
    answer().expect("the server goes on");
}

async fn an_enqueue_of_many_leaves_each_whole_or_not_at_all(client: Client) {
    let mut answered = BTreeSet::new();
    for polls in 0..20_u32 {
        let numbers = polls * 5..(polls + 1) * 5;
        let sent = client.enqueue_all(numbers.clone().map(note::job));
        if dropped_after(polls as usize, sent).await.is_some() {
            answered.extend(numbers);
        }
    }
    client.enqueue_all([note::job(120)]).await.unwrap();
    let stored = waiting(&client).await;
    assert!(answered.is_subset(&stored), "what was answered is there");
    assert!(!answered.is_empty() && !answered.contains(&0), "some were dropped, and some were not: {answered:?}");
}

async fn a_cancel_happens_or_does_not(client: Client) {
    let inspector = client.inspector();
    for polls in 0..12 {
        let job = note::job(1).enqueue(&client).await.unwrap();
        let answer = dropped_after(polls, inspector.cancel(job.address())).await;
        let again = inspector.cancel(job.address()).await;
        assert!(answer.is_none() || again.is_err(), "what was cancelled is not cancelled once more");
        until("the job to be gone", || async { job.status().await.unwrap().is_none_or(|state| state == JobState::Cancelled) }).await;
    }
    let stats = inspector.stats(QUEUE).await.unwrap();
    assert_eq!(stats.count(JobState::Ready), 0);
    assert_eq!(stats.total(Counter::Cancelled), 12, "each was counted once");
}

async fn a_worker_leaves_every_job_to_its_successor(client: Client) {
    const JOBS: u32 = 120;
    let runs = Arc::new(AtomicUsize::new(0));
    let worker = || {
        let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<note>().shared_data(runs.clone());
        worker.queue(QUEUE).concurrency(4).lease(Duration::from_secs(3))
    };
    client.enqueue_all((0..JOBS).map(note::job)).await.unwrap();
    for polls in 0..30 {
        let ended = tokio::time::timeout(Duration::from_millis(200), dropped_after(polls, worker().run(std::future::pending())));
        assert!(!matches!(ended.await, Ok(Some(_))), "nobody told it to stop");
    }
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let last = tokio::spawn(worker().run(async { drop(stopped.await) }));
    let inspector = client.inspector();
    let done = async || inspector.stats(QUEUE).await.unwrap().total(Counter::Done);
    until("every job to be done", async || done().await >= u64::from(JOBS)).await;
    drop(stop);
    last.await.unwrap().unwrap();
    assert_eq!(done().await, u64::from(JOBS), "each ended once");
    let left: u64 = inspector.stats(QUEUE).await.unwrap().jobs();
    assert_eq!(left, 0);
}
