//! The client in an application whose runtime is not ours, or that has none.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use futures_util::future::BoxFuture;
use queue_conformance::failing::FailingBroker;
use queue_core::{__private::SqliteBroker, broker::JobState, prelude::*};
use queue_tests::{
    patience::{WatchBroker, joined, wait_for},
    server::{Kind, Server},
};
use tokio::runtime::{Builder, Runtime};

#[task(queue = "anywhere")]
async fn number(n: u64) {
    let _ = n;
}

/// Wakes the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor: this thread, without a clock or sockets.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

async fn enqueue_and_look(client: Client) {
    for n in 0..5 {
        number::job(n).enqueue(&client).await.unwrap();
    }
    let stats = client.inspector().stats("anywhere").await.unwrap();
    assert_eq!(stats.count(JobState::Ready), 5);
}

#[test]
fn redis_without_a_runtime() {
    let server = Server::start(Kind::Redis);
    block_on(async { enqueue_and_look(Client::connect(&server.url()).await.unwrap().watched()).await });
}

#[test]
fn sqlite_without_a_runtime() {
    block_on(async { enqueue_and_look(Client::connect("sqlite://:memory:").await.unwrap().watched()).await });
}

#[test]
fn a_runtime_without_a_clock() {
    let server = Server::start(Kind::Redis);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { enqueue_and_look(Client::connect(&server.url()).await.unwrap().watched()).await });
}

/// A lone caller sends by itself; what comes of it when nobody answers is not its own affair.
#[test]
fn a_server_that_is_down_for_a_while() {
    let mut server = Server::durable(Kind::Redis);
    block_on(async {
        let client = Client::connect(&server.url()).await.unwrap().with_deadline(Duration::from_secs(30));
        number::job(0).enqueue(&client).await.unwrap();
        number::job(1).enqueue(&client).await.unwrap();
        server.kill();
        let restarted = thread::spawn(move || {
            server.restart();
            server
        });
        number::job(2).enqueue(&client).await.unwrap();
        let _server = joined(restarted);
        assert_eq!(client.inspector().stats("anywhere").await.unwrap().count(JobState::Ready), 3);
    });
}

/// An embedded broker, whose enqueues can be held up.
fn embedded() -> (Arc<FailingBroker>, Client) {
    let broker = FailingBroker::new(SqliteBroker::open("sqlite://:memory:").unwrap());
    (broker.clone(), Client::with_broker(broker))
}

/// A call from a task of a runtime, which has handed its job over and waits.
fn begun_in(runtime: &Runtime, broker: &FailingBroker, client: &Client, n: u64) -> BoxFuture<'static, queue_core::Result<Handle<number>>> {
    let (begun, call) = mpsc::channel();
    let client = client.clone();
    broker.enqueues.close();
    drop(runtime.spawn(async move {
        let mut call: BoxFuture<'static, _> = Box::pin(async move { number::job(n).enqueue(&client).await });
        assert!(futures_util::poll!(&mut call).is_pending(), "there is an answer to wait for");
        begun.send(call).ok();
    }));
    let call = call.recv().expect("the task ends well");
    broker.enqueues.open();
    call
}

/// What ends, on a thread of its own.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(work()));
    told.recv_timeout(Duration::from_secs(20)).expect("it has not ended")
}

/// What a call waits for runs on the broker's thread, not in the runtime that called.
#[test]
fn a_runtime_that_ends_leaves_no_call_behind() {
    let runtime = Runtime::new().unwrap();
    let (broker, client) = embedded();
    let call = begun_in(&runtime, &broker, &client, 0);
    runtime.shutdown_background();
    in_time(move || block_on(call)).unwrap();
    let next = Runtime::new().unwrap();
    block_on(next.spawn(async move {
        for n in 1..5 {
            number::job(n).enqueue(&client).await.unwrap();
        }
        assert_eq!(client.inspector().stats("anywhere").await.unwrap().count(JobState::Ready), 5);
    }))
    .unwrap();
}

#[test]
fn a_runtime_that_is_blocked_delays_nobody_outside() {
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let (broker, client) = embedded();
    block_on(begun_in(&runtime, &broker, &client, 0)).unwrap();
    let (go_on, blocks) = mpsc::channel::<()>();
    let blocked = runtime.spawn(async move { blocks.recv_timeout(Duration::from_secs(20)) });
    let outside = Runtime::new().unwrap();
    let in_pool = client.clone();
    let in_pool = move || block_on(futures_util::future::try_join_all((10..13).map(|n| number::job(n).enqueue(&in_pool)))).map(drop);
    block_on(runtime.spawn_blocking(in_pool)).unwrap().unwrap();
    // From another runtime, from a thread that waits in the blocked one, and from none.
    for (n, runtime) in [(1, Some(&outside)), (4, Some(&runtime)), (7, None)] {
        let calls = futures_util::future::join_all((n..n + 3).map(|n| {
            let client = client.clone();
            async move { number::job(n).enqueue(&client).await.map(drop) }
        }));
        let stored = match runtime {
            Some(runtime) if n == 1 => block_on(runtime.spawn(calls)).unwrap(),
            Some(runtime) => runtime.block_on(calls),
            None => block_on(calls),
        };
        assert!(stored.iter().all(Result::is_ok));
    }
    go_on.send(()).unwrap();
    block_on(blocked).unwrap().unwrap();
}

/// Its thread is the one that would run what it waits for.
#[test]
fn a_task_that_keeps_its_thread_while_it_waits_is_answered() {
    let runtimes = [Builder::new_multi_thread().worker_threads(2).build().unwrap(), Builder::new_current_thread().build().unwrap()];
    for runtime in runtimes {
        let client = block_on(Client::connect("sqlite://:memory:")).unwrap();
        in_time(move || {
            let task = async move { block_on(number::job(0).enqueue(&client)).map(drop) };
            runtime.block_on(runtime.spawn(task))
        })
        .unwrap()
        .unwrap();
    }
}

#[test]
fn a_runtime_that_is_no_longer_driven_keeps_no_broker() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let broker = SqliteBroker::open("sqlite://:memory:").unwrap();
    let (alive, client) = (Arc::downgrade(&broker), Client::with_broker(broker));
    runtime.block_on(runtime.spawn(async move { number::job(0).enqueue(&client).await.map(drop) })).unwrap().unwrap();
    wait_for("the broker has ended", || alive.upgrade().is_none().then_some(()));
    drop(runtime);
}
