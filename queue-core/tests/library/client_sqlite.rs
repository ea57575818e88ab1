//! The client on SQLite, in a file and in memory, as an application uses it.
#![cfg(feature = "sqlite")]

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::{Duration, SystemTime},
};

use queue_core::{
    Error, RawJob,
    broker::{BuryReason, Changed, Ending, Finish, JobState, ProcessId, Register, Turn},
    inspect::HistorySpan,
    prelude::*,
};

#[task(queue = "orders")]
async fn close(order_id: u64) -> Result<String, std::io::Error> {
    Ok(format!("closed {order_id}"))
}

#[task(queue = "orders")]
async fn reopen(order_id: u64) -> Result<u64, std::io::Error> {
    Ok(order_id)
}

#[task(queue = "orders", alias = "close")]
async fn closes(order_id: u64) {
    let _ = order_id;
}

async fn memory() -> Client {
    Client::connect("sqlite://:memory:").await.unwrap()
}

/// Claims one job and ends it so.
async fn finish_one(client: &Client, ending: Ending) {
    let (queue, lease): (Arc<str>, _) = ("orders".into(), Duration::from_secs(30));
    let broker = client.broker();
    let worker = broker.register(&Register::lane(queue.clone(), ProcessId::random(), lease)).await.unwrap().name;
    let answer = broker.turn(&Turn::new(queue.clone(), worker.clone(), 1, lease).claim(1)).await.unwrap();
    let delivery = &answer.deliveries[0];
    let finish = Finish::new(delivery, ending);
    let answer = broker.turn(&Turn::new(queue, worker, 2, lease).finish(vec![finish])).await.unwrap();
    assert!(answer.stale.is_empty());
}

#[tokio::test]
async fn a_handle_follows_its_job_to_the_result() {
    let client = memory().await;
    let handle = close::job(17).retention(Duration::from_secs(60)).enqueue(&client).await.unwrap();
    assert_eq!(handle.status().await.unwrap(), Some(JobState::Ready));
    assert_eq!(handle.result().await.unwrap(), JobResult::Pending);
    assert_eq!(handle.wait(Duration::from_millis(20)).await.unwrap(), JobResult::Pending);
    let result = rmp_serde::to_vec_named(&"closed 17").unwrap();
    let waiting = handle.clone();
    let waiting = tokio::spawn(async move { waiting.wait(Duration::MAX).await });
    finish_one(&client, Ending::Ack { result: Some(result), keep: Some(Duration::from_secs(60)) }).await;
    assert_eq!(waiting.await.unwrap().unwrap(), JobResult::Done("closed 17".to_owned()));
    let rebuilt = client.handle::<close>(handle.address().to_string().parse().unwrap());
    assert_eq!(rebuilt.result().await.unwrap(), JobResult::Done("closed 17".to_owned()));
}

#[tokio::test]
async fn a_result_of_another_type_is_an_error_that_names_the_job() {
    let client = memory().await;
    let handle = close::job(17).enqueue(&client).await.unwrap();
    let result = rmp_serde::to_vec_named(&17).unwrap();
    finish_one(&client, Ending::Ack { result: Some(result), keep: Some(Duration::from_secs(60)) }).await;
    let problem = handle.result().await.unwrap_err().to_string();
    assert!(problem.contains(&handle.address().to_string()), "{problem}");
}

#[tokio::test]
async fn a_handle_of_another_tasks_job_names_both_tasks_and_the_fix() {
    let client = memory().await;
    let handle = close::job(17).retention(Duration::from_secs(60)).enqueue(&client).await.unwrap();
    finish_one(&client, Ending::Ack { result: None, keep: Some(Duration::from_secs(60)) }).await;
    let wrong = client.handle::<reopen>(handle.address().clone());
    for problem in [wrong.result().await.unwrap_err(), wrong.wait(Duration::from_secs(1)).await.unwrap_err()] {
        assert!(matches!(problem, Error::Invalid { field: "job", .. }), "{problem:?}");
        let problem = problem.to_string();
        for part in [handle.address().to_string().as_str(), "task `close`", "task `reopen`", "client.handle", "alias = \"close\""] {
            assert!(problem.contains(part), "{part}: {problem}");
        }
    }
    // A task that was renamed, and says so, reads the results of its old jobs.
    client.handle::<closes>(handle.address().clone()).result().await.unwrap();
}

#[tokio::test]
async fn a_job_that_left_nothing_is_gone() {
    let client = memory().await;
    let handle = close::job(17).enqueue(&client).await.unwrap();
    finish_one(&client, Ending::Ack { result: None, keep: None }).await;
    assert_eq!(handle.status().await.unwrap(), None);
    let problem = handle.result().await.unwrap_err();
    assert!(matches!(&problem, Error::NotKept(job) if job == handle.address()), "{problem}");
    assert!(problem.to_string().contains("without retention") && problem.to_string().contains(".retention(..)"), "{problem}");
    assert!(matches!(handle.wait(Duration::from_secs(1)).await, Err(Error::NotKept(_))));
    let of_many = client.enqueue_all([close::job(19)]).await.unwrap().remove(0);
    finish_one(&client, Ending::Ack { result: None, keep: None }).await;
    assert!(matches!(of_many.result().await, Err(Error::NotKept(_))));
    // Of an address, nobody knows whether there ever was a job.
    assert_eq!(client.handle::<close>(handle.address().clone()).result().await.unwrap(), JobResult::Gone);
    // What was to be kept was kept long enough, or a person has deleted it.
    let kept = close::job(20).retention(Duration::from_secs(60)).enqueue(&client).await.unwrap();
    client.inspector().delete(kept.address()).await.unwrap();
    assert_eq!(kept.result().await.unwrap(), JobResult::Gone);
    let other = close::job(18).enqueue(&client).await.unwrap();
    client.inspector().cancel(other.address()).await.unwrap();
    assert_eq!(other.result().await.unwrap(), JobResult::Cancelled);
}

#[tokio::test]
async fn a_given_id_is_stored_once_and_another_payload_conflicts() {
    let client = memory().await;
    assert!(!close::job(1).id("order-1").enqueue(&client).await.unwrap().existing());
    assert!(close::job(1).id("order-1").enqueue(&client).await.unwrap().existing());
    let Err(Error::IdConflict(address)) = close::job(2).id("order-1").enqueue(&client).await else { panic!("it is a conflict") };
    assert_eq!(address.to_string(), "orders/order-1");
    // The same name in another queue is another job.
    assert!(!close::job(2).id("order-1").queue("others").enqueue(&client).await.unwrap().existing());
    finish_one(&client, Ending::Ack { result: None, keep: None }).await;
    assert!(close::job(1).id("order-1").enqueue(&client).await.unwrap().existing(), "it is remembered after it is done");
    // Cancelling frees the id.
    close::job(5).id("order-5").enqueue(&client).await.unwrap();
    client.inspector().cancel(&"orders/order-5".parse().unwrap()).await.unwrap();
    assert!(!close::job(6).id("order-5").enqueue(&client).await.unwrap().existing());
}

#[tokio::test]
async fn given_ids_within_one_batch_are_distinguished() {
    let client = memory().await;
    let jobs = [close::job(1).id("a"), close::job(1).id("a"), close::job(2).id("a"), close::job(3).id("b"), close::job(4).id("not ok")];
    let answers = client.enqueue_all(jobs).await.unwrap_err().answers;
    let existing: Vec<_> = answers.iter().map(|answer| answer.as_ref().ok().map(Handle::existing)).collect();
    assert_eq!(existing, [Some(false), Some(true), None, Some(false), None]);
    assert!(matches!(answers[2], Err(Error::IdConflict(_))));
    assert!(matches!(answers[4], Err(Error::Invalid { field: "job id", .. })));
}

#[tokio::test]
async fn many_jobs_of_many_queues_are_streamed_in_order() {
    let client = memory().await;
    let jobs = (0..5000_u64).map(|n| close::job(n).queue(format!("queue-{}", n % 97)));
    let handles = client.enqueue_all(jobs).await.unwrap();
    assert_eq!(handles.len(), 5000);
    for (n, handle) in handles.iter().enumerate() {
        assert_eq!(handle.address().queue.as_ref(), format!("queue-{}", n % 97));
    }
    let mut stored = 0;
    for queue in client.inspector().queues().await.unwrap() {
        stored += client.inspector().stats(&queue).await.unwrap().count(JobState::Ready);
    }
    assert_eq!(stored, 5000);
    // Within a queue they stand in the order of the iterator.
    let page = client.inspector().list("queue-3", JobState::Ready, 0, 500).await.unwrap();
    let ids: Vec<_> = handles.iter().filter(|handle| handle.address().queue.as_ref() == "queue-3").map(Handle::id).collect();
    assert_eq!(page.jobs.iter().map(|job| &job.address.id).collect::<Vec<_>>(), ids);
}

#[tokio::test]
async fn large_payloads_go_in_batches_that_are_bounded_in_bytes() {
    let client = memory().await;
    let payload = rmp_serde::to_vec_named(&std::collections::BTreeMap::from([("text", "x".repeat(200_000))])).unwrap();
    let jobs = (0..20).map(|_| client.enqueue_raw(RawJob::new("shout", payload.clone())));
    for outcome in futures_util::future::join_all(jobs).await {
        outcome.unwrap();
    }
    assert_eq!(client.inspector().stats("default").await.unwrap().count(JobState::Ready), 20);
}

#[tokio::test]
async fn nothing_invalid_reaches_the_broker() {
    let client = memory().await;
    let problem = async |job: Job<close>| job.enqueue(&client).await.unwrap_err().to_string();
    assert!(problem(close::job(1).delay(Duration::MAX)).await.starts_with("delay "));
    assert!(problem(close::job(1).queue("a b")).await.starts_with("queue `a b` "));
    assert!(problem(close::job(1).queue("")).await.starts_with("queue "));
    assert!(problem(close::job(1).id("x".repeat(129))).await.starts_with("job id "));
    assert!(problem(close::job(1).id("018f3c1e-7a2b-7c3d-8e4f-1a2b3c4d5e6f")).await.contains("prefix"));
    assert!(client.inspector().queues().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_delay_and_a_time_are_scheduled_and_the_past_is_now() {
    let client = memory().await;
    let hour = Duration::from_secs(3600);
    let later = close::job(1).delay(hour).enqueue(&client).await.unwrap();
    let at = close::job(2).at(SystemTime::now() + hour).enqueue(&client).await.unwrap();
    let past = close::job(3).at(SystemTime::now() - hour).enqueue(&client).await.unwrap();
    let ancient = close::job(4).at(SystemTime::UNIX_EPOCH - hour).enqueue(&client).await.unwrap();
    for (handle, state) in [(later, JobState::Scheduled), (at, JobState::Scheduled), (past, JobState::Ready), (ancient, JobState::Ready)] {
        assert_eq!(handle.status().await.unwrap(), Some(state));
    }
}

#[tokio::test]
async fn the_inspector_finds_and_repairs() {
    let client = memory().await;
    let inspector = client.inspector();
    let dead = close::job(1).id("dead").enqueue(&client).await.unwrap();
    finish_one(&client, Ending::Bury { reason: BuryReason::Failed, error: Some("no such order".into()) }).await;
    let JobResult::Dead(reason) = dead.result().await.unwrap() else { panic!("it is dead") };
    assert!(reason.contains("no such order"), "{reason}");
    assert_eq!(inspector.find("dead").await.unwrap(), *dead.address());
    assert!(matches!(inspector.cancel(dead.address()).await, Err(Error::WrongState { state: "dead", .. })));
    inspector.requeue(dead.address()).await.unwrap();
    assert_eq!(dead.status().await.unwrap(), Some(JobState::Ready));
    assert!(matches!(inspector.requeue(dead.address()).await, Err(Error::WrongState { .. })));
    close::job(1).id("dead").queue("others").enqueue(&client).await.unwrap();
    assert!(inspector.find("dead").await.unwrap_err().to_string().contains("orders/dead"));
    assert_eq!(inspector.cancel(dead.address()).await.unwrap(), Changed::Yes);
    inspector.delete(dead.address()).await.unwrap();
    assert!(matches!(inspector.show(dead.address()).await, Err(Error::NoSuchJob(_))));
    assert!(matches!(inspector.delete(dead.address()).await, Err(Error::NoSuchJob(_))));
    assert!(matches!(inspector.list("orders", JobState::Dead, 0, 0).await, Err(Error::Invalid { field: "limit", .. })));
    inspector.pause("orders").await.unwrap();
    assert!(inspector.stats("orders").await.unwrap().paused);
    inspector.resume("orders").await.unwrap();
    assert!(!inspector.stats("orders").await.unwrap().paused);
}

#[tokio::test]
async fn two_clients_of_one_file_see_the_same_jobs() {
    let folder = crate::folder::folder();
    let url = format!("sqlite://{}", folder.path().join("queue.db").display());
    let (one, other) = (Client::connect(&url).await.unwrap(), Client::connect(&url).await.unwrap());
    let handle = close::job(1).enqueue(&one).await.unwrap();
    assert_eq!(other.handle::<close>(handle.address().clone()).status().await.unwrap(), Some(JobState::Ready));
    let raw = RawJob::from_json(close::definition(), r#"{"order_id": 2}"#).unwrap();
    let (address, stored) = other.enqueue_raw(raw).await.unwrap();
    assert_eq!(stored, queue_core::Stored::New);
    assert_eq!(one.inspector().find(&address.id.to_string()).await.unwrap(), address);
}

#[test]
fn a_program_without_tokio_can_do_it_all() {
    block_on(async {
        let client = memory().await;
        let handle = close::job(1).enqueue(&client).await.unwrap();
        client.enqueue_all((0..2000).map(close::job)).await.unwrap();
        assert_eq!(handle.wait(Duration::from_secs(1)).await.unwrap(), JobResult::Pending);
        assert_eq!(handle.status().await.unwrap(), Some(JobState::Ready));
        let inspector = client.inspector();
        assert_eq!(inspector.find(&handle.id().to_string()).await.unwrap(), *handle.address());
        inspector.cancel(handle.address()).await.unwrap();
        assert_eq!(inspector.stats("orders").await.unwrap().count(JobState::Ready), 2000);
    });
}

/// Runs a future on a thread that parks, without any runtime.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        std::thread::park();
    }
}

#[tokio::test]
async fn many_jobs_can_be_made_of_borrowed_items_in_a_handler() {
    async fn handler(client: Client, orders: Vec<u64>) {
        client.enqueue_all(orders.iter().map(|order| close::job(*order))).await.unwrap();
        client.enqueue_all(orders.iter().filter(|order| **order > 1).map(|order| close::job(*order))).await.unwrap();
    }
    /// As web frameworks ask for.
    fn serve(handler: impl Future<Output = ()> + Send + 'static) -> tokio::task::JoinHandle<()> {
        tokio::spawn(handler)
    }
    let client = memory().await;
    serve(handler(client.clone(), vec![1, 2, 3])).await.unwrap();
    assert_eq!(client.inspector().stats("orders").await.unwrap().count(JobState::Ready), 5);
}

#[task(queue = "limited", limit(name = "stripe", concurrency = 2))]
async fn charge(order_id: u64) {
    let _ = order_id;
}

/// A slip in its name would leave the job without its limit.
#[tokio::test]
async fn a_limit_that_nobody_knows_is_an_error_with_the_nearest_name() {
    let client = memory().await;
    let refused = async |job: Job<close>| client.enqueue(job).await.unwrap_err().to_string();
    let error = refused(close::job(1).limit("nope", None)).await;
    assert!(error.starts_with("limit `nope` is not a limit of queue `orders`"), "{error}");
    assert!(error.contains(r#"Declare it on a task with `limit(name = "nope", ..)`"#), "{error}");
    client.inspector().set_limit("orders", "shipping", |rule| rule.concurrency = Some(1)).await.unwrap();
    let error = refused(close::job(1).limit("shiping", Some("a"))).await;
    assert!(error.contains("did you mean `shipping`?") && error.contains("`limits set orders/shiping --new`"), "{error}");
    let all = client.enqueue_all([close::job(1), close::job(2).limit("shiping", None)]).await.unwrap_err();
    assert_eq!((all.stored(), all.given()), (1, 2));
    let schedule = queue_core::schedule::Schedule::every("often", Duration::from_secs(60)).job(close::job(3).limit("shiping", None));
    assert!(client.schedules().upsert(schedule).await.unwrap_err().to_string().contains("did you mean `shipping`?"));
    close::job(1).limit("shipping", Some("a")).enqueue(&client).await.unwrap();
    // What another task of this program declares needs no worker that has run.
    close::job(1).queue("limited").limit("stripe", None).enqueue(&client).await.unwrap();
    charge::job(1).limit("stripe", Some("a")).enqueue(&client).await.unwrap();
}

#[tokio::test]
async fn a_queue_that_nobody_knows_is_an_error_with_the_nearest_name() {
    let client = memory().await;
    close::job(1).enqueue(&client).await.unwrap();
    let inspector = client.inspector();
    let is_refused =
        |error: Error| matches!(&error, Error::NoSuchQueue { queue, nearest } if queue == "ordres" && nearest.as_deref() == Some("orders"));
    assert!(is_refused(inspector.stats("ordres").await.unwrap_err()));
    assert!(is_refused(inspector.list("ordres", JobState::Ready, 0, 10).await.unwrap_err()));
    assert!(is_refused(inspector.walk("ordres", JobState::Dead).next().await.unwrap_err()));
    assert!(is_refused(inspector.history("ordres", HistorySpan::HOUR).await.unwrap_err()));
    assert!(is_refused(inspector.failures("ordres").await.unwrap_err()));
    assert!(is_refused(inspector.groups("ordres", None, 10).await.unwrap_err()));
    assert!(is_refused(inspector.limits("ordres").await.unwrap_err()));
    inspector.history("orders", HistorySpan::HOUR).await.unwrap();
    assert!(inspector.failures("orders").await.unwrap().is_empty() && inspector.limits("orders").await.unwrap().is_empty());
    assert!(inspector.groups("orders", None, 10).await.unwrap().groups.is_empty());
    assert_eq!(inspector.stats("ordres").await.unwrap_err().to_string(), "there is no queue `ordres`; did you mean `orders`?");
    assert!(inspector.list("orders", JobState::Dead, 0, 10).await.unwrap().jobs.is_empty());
    inspector.pause("later").await.unwrap();
    assert!(inspector.stats("later").await.unwrap().paused, "what is set of a queue may be there before it");
}
