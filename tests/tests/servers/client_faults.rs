//! Enqueues through a broker whose requests and answers get lost.

use std::{
    collections::HashSet,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::{Duration, UNIX_EPOCH},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all, maybe_done},
};
use queue_conformance::failing::{EnqueueFault as Fault, FailingBroker};
use queue_core::{
    __private::{Envelope, SqliteBroker},
    Error,
    broker::{Broker, DynBroker, JobState},
    prelude::*,
};
use queue_tests::patience::until;
use tokio::sync::{Barrier, oneshot};

#[task(queue = "numbers")]
async fn number(n: u64) {
    drop_number(n);
}

fn drop_number(_: u64) {}

/// Longer than any test runs.
const LONG: Duration = Duration::from_secs(60);
/// Of a call that is to fail.
const SHORT: Duration = Duration::from_millis(100);

/// SQLite in memory, whose enqueues fail as planned.
fn broker() -> Arc<FailingBroker> {
    FailingBroker::new(SqliteBroker::open("sqlite::memory:").unwrap())
}

/// A client of it that tries for so long.
fn client(broker: &Arc<FailingBroker>, deadline: Duration) -> Client {
    Client::with_broker(broker.clone() as DynBroker).with_deadline(deadline)
}

async fn stored(client: &Client) -> u64 {
    client.inspector().stats("numbers").await.unwrap().count(JobState::Ready)
}

#[tokio::test]
async fn a_lone_job_leaves_at_once_and_the_next_ones_together() {
    let broker = broker();
    let client = client(&broker, LONG);
    broker.enqueues.close();
    let first = tokio::spawn(number::job(0).enqueue_owned(&client));
    broker.enqueues.has_seen(1).await;
    let gathered = Arc::new(Barrier::new(101));
    let rest: Vec<_> = (1..=100)
        .map(|n| {
            let (mut call, gathered) = (Box::pin(number::job(n).enqueue_owned(&client)), gathered.clone());
            tokio::spawn(async move {
                // The first poll of a call hands its job over.
                assert!(poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending())).await);
                gathered.wait().await;
                call.await
            })
        })
        .collect();
    gathered.wait().await;
    broker.enqueues.open();
    first.await.unwrap().unwrap();
    for handle in rest {
        handle.await.unwrap().unwrap();
    }
    let sizes: Vec<_> = broker.enqueues.seen().iter().map(|seen| seen.ids.len()).collect();
    assert_eq!(sizes[0], 1);
    assert_eq!(sizes.iter().sum::<usize>(), 101);
    // The first of the rest departs at once, some beside it, and the others gather behind them.
    assert!(sizes.len() <= 4, "{sizes:?}");
    assert!(broker.registered() <= 2, "two flights at most, each with a name of its own");
}

/// Without a hand-over to the broker's thread, whoever came before. Names are asked for over there.
#[tokio::test]
async fn who_is_alone_sends_from_where_it_is() {
    let broker = broker();
    let client = client(&broker, LONG);
    let sends_from_here = async || {
        for n in 0..4 {
            number::job(n).enqueue(&client).await.unwrap();
        }
        broker.enqueues.threads().ends_with(&[std::thread::current().id(); 2])
    };
    assert!(sends_from_here().await, "after the first job");
    for stored in join_all((0..100).map(|n| number::job(n).enqueue(&client))).await {
        stored.unwrap();
    }
    assert!(sends_from_here().await, "after a crowd");
    broker.enqueues.plan([Fault::Forgotten]);
    assert!(sends_from_here().await, "under another name");
    broker.enqueues.plan([Fault::Cut; 2]);
    assert!(matches!(number::job(0).enqueue(&client).await, Err(Error::Unknown(_))));
    assert!(sends_from_here().await, "after one whose fate is not known");
}

/// Calls from tasks of their own, which have handed their jobs over and go on when they are let.
async fn begun(client: &Client, n: usize) -> (oneshot::Sender<()>, BoxFuture<'static, Vec<queue_core::Result<()>>>) {
    let gathered = Arc::new(Barrier::new(n + 1));
    let (go, told) = oneshot::channel();
    let told = async move { drop(told.await) }.boxed().shared();
    let begin = |n| {
        let (mut call, gathered, told) =
            (maybe_done(Box::pin(number::job(n as u64).enqueue_owned(client))), gathered.clone(), told.clone());
        tokio::spawn(async move {
            _ = futures_util::poll!(&mut call);
            gathered.wait().await;
            told.await;
            (&mut call).await;
            Pin::new(&mut call).take_output().expect("it has ended").map(drop)
        })
    };
    let calls = join_all((0..n).map(begin).collect::<Vec<_>>());
    gathered.wait().await;
    (go, calls.map(|calls| calls.into_iter().map(|call| call.expect("a call ends well")).collect()).boxed())
}

/// It keeps the producer by which it sends, and may be left alone: by a `select!` that is busy with
/// another branch.
#[tokio::test]
async fn a_call_that_is_not_run_delays_no_other() {
    let broker = broker();
    let client = client(&broker, LONG);
    let all_stored = async |(go, calls): (oneshot::Sender<()>, BoxFuture<'static, Vec<queue_core::Result<()>>>)| {
        go.send(()).unwrap();
        let answers = tokio::time::timeout(LONG / 3, calls).await.expect("nobody waits for another one's call");
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    };
    // Producers have names then, without which nobody sends from its own thread.
    for n in [100, 1, 1] {
        all_stored(begun(&client, n).await).await;
    }
    let seen = broker.enqueues.seen().len();
    broker.enqueues.close();
    let left = begun(&client, 1).await;
    broker.enqueues.has_seen(seen + 1).await;
    let first = begun(&client, 100).await;
    broker.enqueues.has_seen(seen + 2).await;
    let second = begun(&client, 200).await;
    broker.enqueues.open();
    all_stored(first).await;
    all_stored(second).await;
    all_stored(left).await;
    assert_eq!(stored(&client).await, 403);
}

#[tokio::test]
async fn a_lost_answer_makes_no_second_job() {
    let broker = broker();
    let client = client(&broker, LONG);
    broker.enqueues.plan([Fault::LostAnswer, Fault::LostRequest, Fault::LostAnswer]);
    let handle = number::job(1).enqueue(&client).await.unwrap();
    assert!(!handle.existing());
    assert_eq!(stored(&client).await, 1);
    let seen = broker.enqueues.seen();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|one| *one == seen[0]), "a request is sent again as it was: {seen:?}");
}

/// However its clock differs from that of the producer's machine. A batch keeps its time when it is
/// sent again.
#[tokio::test]
async fn a_job_reports_when_it_was_enqueued_by_the_brokers_clock() {
    let broker = SqliteBroker::running(UNIX_EPOCH + Duration::from_millis(1_000_000_000_000)).unwrap();
    let clock = broker.clock();
    let broker = FailingBroker::new(broker);
    let client = client(&broker, LONG);
    let enqueued_ms = async |handle: Handle<number>| {
        let record = client.inspector().show(handle.address()).await.unwrap();
        Envelope::decode(record.stored()).unwrap().enqueued_ms.expect("it says when")
    };
    // The producer hears the time when it registers, with the first job, and its clock is behind by
    // as long as that answer takes.
    let mut behind = 0;
    for n in 0..3 {
        broker.enqueues.plan([Fault::LostRequest]);
        let before = clock.now_ms();
        let sent = tokio::time::timeout(LONG, number::job(n).enqueue(&client)).await.unwrap().unwrap();
        let retried = clock.now_ms();
        let told = enqueued_ms(sent).await;
        // Whole milliseconds of two clocks are added. The request that was lost carried the time:
        // the pause before the next one is 25 ms at least.
        assert!(before - 1 - behind <= told && told <= retried - 25, "{before} - 1 - {behind} <= {told} <= {retried} - 25");
        behind = behind.max(if n == 0 { retried - before } else { 0 });
    }
    let before = clock.now_ms();
    for handle in client.enqueue_all((0..3).map(number::job)).await.unwrap() {
        let told = enqueued_ms(handle).await;
        assert!(before - 1 - behind <= told && told <= clock.now_ms(), "{before} - 1 - {behind} <= {told}");
    }
}

#[tokio::test]
async fn an_enqueue_that_may_have_arrived_is_unknown_and_retry_settles_it() {
    for fault in [Fault::Cut, Fault::CutBefore] {
        let broker = broker();
        let client = client(&broker, LONG);
        broker.enqueues.always(fault);
        let Err(Error::Unknown(pending)) = number::job(1).enqueue(&client).await else { panic!("it must be unknown") };
        let address = pending.address().clone();
        let Err(Error::Unknown(pending)) = pending.retry().await else { panic!("it must be unknown again") };
        broker.enqueues.always(Fault::None);
        // Others go on under a new name, and do not spoil the number that is asked again.
        number::job(2).enqueue(&client).await.unwrap();
        let handle = pending.of::<number>().retry().await.unwrap();
        assert_eq!((handle.address(), handle.existing()), (&address, false));
        assert!(handle.result().await.unwrap().is_pending(), "its result can be read as the task's");
        assert_eq!(stored(&client).await, 2);
        assert_eq!(client.handle::<number>(address).status().await.unwrap(), Some(JobState::Ready));
        let seen = broker.enqueues.seen();
        let (first, last, other) = (&seen[0], &seen[4], &seen[3]);
        assert_eq!([&seen[1], &seen[2], last], [first; 3]);
        assert_ne!(first.producer, other.producer);
    }
}

#[tokio::test]
async fn one_retry_settles_a_batch_for_all_its_callers() {
    let broker = broker();
    let client = client(&broker, LONG);
    number::job(0).enqueue(&client).await.unwrap();
    broker.enqueues.always(Fault::Cut);
    let jobs = (1..=20).map(|n| number::job(n).enqueue(&client));
    let pending: Vec<_> = join_all(jobs)
        .await
        .into_iter()
        .map(|outcome| match outcome {
            Err(Error::Unknown(pending)) => pending,
            other => panic!("it must be unknown: {other:?}"),
        })
        .collect();
    broker.enqueues.always(Fault::None);
    let before = broker.enqueues.seen().len();
    let batches = (before - 1) / 2;
    assert!(batches < 20, "they were gathered");
    for pending in pending {
        assert!(!pending.retry().await.unwrap().existing());
    }
    assert_eq!(broker.enqueues.seen().len(), before + batches, "each batch was asked for once more");
    assert_eq!(stored(&client).await, 21);
}

#[tokio::test]
async fn what_was_surely_not_stored_is_reported_to_be_so() {
    let broker = broker();
    let client = client(&broker, LONG);
    broker.enqueues.always(Fault::Unavailable);
    assert!(matches!(number::job(1).enqueue(&client.with_deadline(SHORT)).await, Err(Error::Unavailable { .. })));
    broker.enqueues.always(Fault::None);
    broker.enqueues.plan([Fault::Full]);
    assert!(matches!(number::job(1).enqueue(&client).await, Err(Error::BrokerFull { .. })));
    assert_eq!(stored(&client).await, 0);
    number::job(1).enqueue(&client).await.unwrap();
    assert_eq!(stored(&client).await, 1);
}

#[tokio::test]
async fn a_refusal_after_a_lost_answer_is_still_unknown() {
    let broker = broker();
    let client = client(&broker, LONG);
    for refusal in [Fault::Full, Fault::Forgotten] {
        broker.enqueues.plan([Fault::LostAnswer, refusal]);
        assert!(matches!(number::job(1).enqueue(&client).await, Err(Error::Unknown(_))));
    }
    assert_eq!(stored(&client).await, 2);
}

#[tokio::test]
async fn a_full_broker_is_reported_at_once() {
    let broker = broker();
    let client = client(&broker, LONG);
    broker.enqueues.plan([Fault::Full]);
    let outcome = tokio::time::timeout(Duration::from_secs(5), number::job(1).enqueue(&client)).await.expect("without waiting");
    assert!(matches!(outcome, Err(Error::BrokerFull { .. })));
}

#[tokio::test]
async fn a_forgotten_producer_registers_again() {
    let broker = broker();
    let client = client(&broker, LONG);
    number::job(1).enqueue(&client).await.unwrap();
    broker.enqueues.plan([Fault::Forgotten, Fault::Forgotten]);
    number::job(2).enqueue(&client).await.unwrap();
    assert_eq!(stored(&client).await, 2);
    assert_eq!(broker.registered(), 3);
}

#[tokio::test]
async fn a_retry_that_nobody_remembers_reports_it() {
    let broker = broker();
    let client = client(&broker, LONG);
    broker.enqueues.plan([Fault::Cut, Fault::Cut, Fault::Forgotten]);
    let Err(Error::Unknown(pending)) = number::job(1).enqueue(&client).await else { panic!("it must be unknown") };
    assert!(matches!(pending.retry().await, Err(Error::Forgotten(_))));
}

#[tokio::test]
async fn nobody_waits_much_longer_than_the_deadline() {
    let broker = broker();
    let deadline = Duration::from_secs(5);
    let client = client(&broker, deadline);
    broker.enqueues.always(Fault::Unavailable);
    let begin = std::time::Instant::now();
    // At least twenty batches, of which two are in flight at once: if the later ones waited for a
    // deadline of each one before them, they would take ten deadlines.
    let outcomes = join_all((0..10_000).map(|n| number::job(n).enqueue(&client))).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(Error::Unavailable { .. }))));
    assert!(begin.elapsed() < deadline * 6, "{:?}", begin.elapsed());
}

/// Brokers end their calls by themselves. Should one not, callers are told all the same, each at
/// its own deadline, and may ask again.
#[tokio::test]
async fn a_broker_that_does_not_answer_keeps_nobody_beyond_its_deadline() {
    const DEADLINE: Duration = Duration::from_millis(400);
    let broker = broker();
    let client = client(&broker, DEADLINE);
    // Producers have names then.
    for _ in 0..2 {
        let number = join_all((0..100).map(|n| number::job(n).enqueue(&client))).await;
        assert!(number.iter().all(Result::is_ok));
    }
    let seen = broker.enqueues.seen().len();
    broker.enqueues.close();
    // Who is alone relies on the broker, which has a deadline.
    let mut alone = Box::pin(number::job(0).enqueue(&client));
    assert!(futures_util::poll!(&mut alone).is_pending());
    broker.enqueues.has_seen(seen + 1).await;
    let crowd = join_all((0..40_u32).map(async |n| {
        tokio::time::sleep(DEADLINE.mul_f64(f64::from(n) / 40.0)).await;
        let begun = std::time::Instant::now();
        let outcome = number::job(u64::from(n)).enqueue(&client).await;
        let took = begun.elapsed();
        assert!(took >= DEADLINE - Duration::from_millis(15), "{took:?}: {outcome:?}");
        outcome.expect_err("nobody has an answer")
    }));
    let errors = tokio::time::timeout(LONG, crowd).await.expect("nobody is kept");
    broker.enqueues.open();
    // All are carried out at once, and who is alone may find the writer busy, at its deadline.
    if let Err(error) = alone.await {
        settle(error).await;
    }
    let mut unknown = 0;
    for error in errors {
        assert!(std::error::Error::source(&error).is_some() || matches!(error, Error::Unavailable { .. }), "{error:?}");
        match error {
            Error::Unavailable { .. } => continue,
            error => settle(error).await,
        }
        unknown += 1;
    }
    assert_ne!(unknown, 0);
    assert_eq!(stored(&client).await, 201 + unknown, "what was not known is there once, and what was not sent is not");
}

/// Asks until it is known what has become of a job.
async fn settle(mut error: Error) {
    while let Error::Unknown(pending) = error {
        match pending.retry().await {
            Ok(_) => return,
            Err(next) => error = next,
        }
    }
    panic!("{error:?}");
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_a_whole_job_or_none() {
    let broker = broker();
    let client = client(&broker, LONG);
    broker.enqueues.close();
    let dropped = tokio::spawn(number::job(1).enqueue_owned(&client));
    broker.enqueues.has_seen(1).await;
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    let bulk = tokio::spawn({
        let client = client.clone();
        async move { client.enqueue_all((0..10).map(number::job)).await }
    });
    broker.enqueues.has_seen(2).await;
    bulk.abort();
    assert!(bulk.await.unwrap_err().is_cancelled());
    broker.enqueues.open();
    number::job(2).enqueue(&client).await.unwrap();
    client.enqueue_all((0..10).map(number::job)).await.unwrap();
    // The dropped ones were under way: nobody asks about them, and they are there.
    until("all to be stored", async || stored(&client).await == 22).await;
}

#[tokio::test]
async fn each_item_of_a_batch_that_was_cut_off_has_an_answer_of_its_own() {
    let broker = broker();
    let client = client(&broker, LONG);
    broker.enqueues.plan([Fault::None]);
    broker.enqueues.always(Fault::Cut);
    let taken = AtomicU64::new(0);
    let jobs = (0..100_000).map(|n| {
        taken.store(n, Ordering::Relaxed);
        number::job(n)
    });
    let error = client.enqueue_all(jobs).await.unwrap_err();
    let taken = taken.into_inner();
    assert!(taken < 10_000, "no more was taken than a few batches: {taken}");
    assert_eq!(error.answers.len() as u64, taken + 1);
    let (mut ok, mut refused, mut unknown) = (0, 0, Vec::new());
    for answer in error.answers {
        match answer {
            Ok(_) => ok += 1,
            Err(Error::Unknown(pending)) => unknown.push(pending),
            Err(Error::Unavailable { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(ok, 500);
    assert!(unknown.len() >= 500 && unknown.len() % 500 == 0, "{}", unknown.len());
    assert_ne!(refused, 0, "what was being gathered was not sent");
    let enqueued = 500 + unknown.len() as u64;
    broker.enqueues.always(Fault::None);
    let addresses: HashSet<_> = unknown.iter().map(|pending| pending.address().clone()).collect();
    for pending in unknown {
        let settled = pending.retry().await.unwrap();
        assert!(addresses.contains(settled.address()) && !settled.existing());
    }
    assert_eq!(stored(&client).await, enqueued);
}

#[tokio::test]
async fn torn_answers_are_an_error_and_no_hang() {
    let broker = broker();
    let client = client(&broker, LONG);
    broker.enqueues.plan([Fault::Torn, Fault::Torn]);
    assert!(matches!(number::job(1).enqueue(&client).await, Err(Error::Internal(_))));
    assert!(client.enqueue_all((0..3).map(number::job)).await.is_err());
}

#[tokio::test]
async fn gathered_jobs_outlive_their_callers_runtime() {
    let broker = broker();
    let client = client(&broker, LONG);
    let first = client.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(number::job(1).enqueue(&first)).unwrap();
    })
    .join()
    .unwrap();
    number::job(2).enqueue(&client).await.unwrap();
    assert_eq!(broker.registered(), 1);
}

/// `enqueue` with a client of its own, for `tokio::spawn`.
trait EnqueueOwned {
    fn enqueue_owned(self, client: &Client) -> impl Future<Output = queue_core::Result<Handle<number>>> + Send + 'static;
}

impl EnqueueOwned for Job<number> {
    fn enqueue_owned(self, client: &Client) -> impl Future<Output = queue_core::Result<Handle<number>>> + Send + 'static {
        let client = client.clone();
        async move { self.enqueue(&client).await }
    }
}

#[allow(dead_code, reason = "a check at compile time: what callers hold can be sent and shared")]
fn can_be_sent_and_shared() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Client>();
    check::<Handle<number>>();
    check::<Arc<Error>>();
    check::<queue_core::Pending>();
    check::<queue_core::Pending<number>>();
    check::<queue_core::EnqueueAllError<number>>();
}
