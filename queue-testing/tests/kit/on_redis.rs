//! The same on a server.

use std::panic::{AssertUnwindSafe, catch_unwind};

use queue_core::prelude::*;
use queue_testing::{TestQueue, assert_enqueued, refute_enqueued};
use queue_tests::server::{Kind, Server};

use crate::tasks::*;

#[tokio::test]
async fn two_tests_on_one_server_share_nothing() {
    let server = Server::start(Kind::Redis);
    let (one, other) = (TestQueue::redis(&server.url()), TestQueue::redis(&server.url()));
    asks::job(3).enqueue(one.client()).await.unwrap();
    assert_enqueued!(one, asks { number: 3 }, queue = "asking");
    refute_enqueued!(other);
    assert_eq!(one.drain().await.all_done(), 2);
    summary::job().delay(Duration::from_secs(600)).enqueue(one.client()).await.unwrap();
    assert_enqueued!(one, summary, delay = "10m");
    assert_eq!(one.run_in_place(square::job(5)).await, Ok(25));
    let refused = catch_unwind(AssertUnwindSafe(|| one.advance("10m"))).unwrap_err();
    let message = refused.downcast_ref::<&str>().map(ToString::to_string).or_else(|| refused.downcast_ref::<String>().cloned());
    assert!(message.is_some_and(|message| message.contains("the clock of a Redis server cannot be moved")));
}
