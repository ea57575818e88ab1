//! The shop's jobs without processes: with the test kit, on SQLite in a folder and on a real
//! PostgreSQL. The relay sends jobs from the outbox to the queue of the test.

use std::{sync::Arc, time::Duration};

use queue_core::{JobId, RawJob, TestContext};
use queue_testing::{TestQueue, assert_enqueued, refute_enqueued};
use queue_tests::patience::wait;
use shop::{
    Store,
    tasks::{book_payment, close_unpaid_order, send_receipt},
};

struct Bed {
    store: Arc<Store>,
    queue: TestQueue,
    _folder: Option<tempfile::TempDir>,
}

impl Bed {
    fn of(store: Store, folder: Option<tempfile::TempDir>) -> Bed {
        let store = Arc::new(store);
        // The worker looks up in the shop's database which jobs have committed.
        let relays = store.clone();
        let queue = TestQueue::new().shared_data(store.clone()).worker(move |worker| worker.outbox(relays.relay().unwrap()));
        Bed { queue, store, _folder: folder }
    }

    fn sqlite() -> Bed {
        let folder = tempfile::tempdir().unwrap();
        Bed::of(Store::sqlite(&folder.path().join("shop.db")).unwrap(), Some(folder))
    }

    async fn postgres() -> Bed {
        let url = queue_tests::postgres::shared().database().await;
        Bed::of(Store::postgres(&url).await.unwrap(), None)
    }

    /// Sends the committed jobs.
    async fn relay(&self, jobs: usize) {
        let all = wait("the jobs to be sent").until(async || self.queue.enqueued().len() >= jobs);
        self.store.relay().unwrap().run(self.queue.client(), all).await;
    }

    async fn order(&self, id: &str) {
        let close = close_unpaid_order::job(id.to_owned()).delay(Duration::from_secs(600));
        self.store.place_order(id, "ada", "ink", close).await.unwrap();
    }

    async fn state(&self, id: &str) -> String {
        self.store.order(id).await.unwrap().unwrap().state
    }
}

async fn an_order_comes_with_its_job(bed: Bed) {
    bed.order("one").await;
    bed.order("two").await;
    bed.relay(2).await;
    assert_enqueued!(bed.queue, close_unpaid_order { order: "one" }, delay = "10m");
    let booking = || book_payment::job("two".to_owned());
    assert!(bed.store.pay("two", booking()).await.unwrap());
    assert!(!bed.store.pay("two", booking()).await.unwrap(), "it is paid");
    bed.relay(3).await;
    assert_enqueued!(bed.queue, book_payment { order: "two" }, count = 1);
    bed.queue.advance("11m");
    assert_eq!(bed.queue.drain().await.all_done(), 3);
    assert_eq!((bed.state("one").await, bed.state("two").await), ("closed".to_owned(), "paid".to_owned()));
    assert_eq!(bed.store.sold("ink").await.unwrap(), 1);
    bed.relay(1).await;
    assert_enqueued!(bed.queue, send_receipt { order: "two" }, count = 1);
    assert_eq!(bed.queue.drain().await.all_done(), 1);
    assert!(!bed.store.pay("one", book_payment::job("one".to_owned())).await.unwrap(), "it was closed");
    refute_enqueued!(bed.queue);
}

/// A worker crashes after the commit of a job. The job runs again, and its second run changes
/// nothing.
async fn a_sale_counts_once_although_its_job_runs_twice(bed: Bed) {
    bed.order("one").await;
    assert!(bed.store.pay("one", book_payment::job("one".to_owned())).await.unwrap());
    let id = JobId::make();
    let run = async |claim| {
        let context = TestContext::new().id(id.clone()).claim(claim).build();
        bed.store.book("one", send_receipt::job("one".to_owned()), &context).await
    };
    assert!(run(1).await.is_ok());
    let again = run(2).await.unwrap_err().to_string();
    assert!(again.contains("another run of job"), "{again}");
    assert_eq!(bed.store.sold("ink").await.unwrap(), 1);
    bed.relay(3).await;
    assert_enqueued!(bed.queue, send_receipt { order: "one" }, count = 1);
}

/// Both or neither are stored: the second order has the id of the first, and the job of the third
/// is not valid.
async fn an_order_that_is_not_stored_has_no_job(bed: Bed) {
    bed.order("one").await;
    let again = bed.store.place_order("one", "ben", "ink", close_unpaid_order::job("one".to_owned())).await;
    assert!(again.is_err());
    let invalid = RawJob::new("close_unpaid_order", vec![0x80]).queue("not a queue");
    assert!(bed.store.place_order("three", "ben", "ink", invalid).await.is_err());
    assert_eq!(bed.store.order("three").await.unwrap(), None);
    bed.relay(1).await;
    assert_eq!(bed.queue.enqueued().len(), 1);
    assert_eq!(bed.store.order("one").await.unwrap().unwrap().customer, "ada");
}

#[tokio::test]
async fn an_order_comes_with_its_job_on_sqlite() {
    an_order_comes_with_its_job(Bed::sqlite()).await;
}

#[tokio::test]
async fn an_order_comes_with_its_job_on_postgres() {
    an_order_comes_with_its_job(Bed::postgres().await).await;
}

#[tokio::test]
async fn an_order_that_is_not_stored_has_no_job_on_sqlite() {
    an_order_that_is_not_stored_has_no_job(Bed::sqlite()).await;
}

#[tokio::test]
async fn an_order_that_is_not_stored_has_no_job_on_postgres() {
    an_order_that_is_not_stored_has_no_job(Bed::postgres().await).await;
}

#[tokio::test]
async fn a_sale_counts_once_although_its_job_runs_twice_on_sqlite() {
    a_sale_counts_once_although_its_job_runs_twice(Bed::sqlite()).await;
}

#[tokio::test]
async fn a_sale_counts_once_although_its_job_runs_twice_on_postgres() {
    a_sale_counts_once_although_its_job_runs_twice(Bed::postgres().await).await;
}
