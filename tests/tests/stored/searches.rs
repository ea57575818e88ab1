//! What a search asks of its broker, and no more: how many queues at once, of which jobs why they
//! wait; and what it says after an error.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use queue_conformance::conformance::{Producer, envelope};
use queue_core::{
    __private::SqliteBroker,
    Client, Error, JobId,
    broker::{Broker, Diagnosis, DynBroker, MAX_ITEMS, NewJob, QueueStats, Scan, Scanned, Wrapper},
    inspect::Search,
};
use std::time::Duration;

/// A broker that notes what it is asked.
#[derive(Debug)]
struct Noting {
    inner: DynBroker,
    /// How many `stats` are under way, and how many were at most.
    now: AtomicUsize,
    most: AtomicUsize,
    /// The jobs of which it was asked where they stand.
    diagnosed: Mutex<Vec<JobId>>,
    /// The next step of a scan fails.
    fails: AtomicBool,
}

impl Noting {
    fn new(inner: DynBroker) -> Arc<Self> {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Noting { inner, now, most, diagnosed: Mutex::default(), fails: AtomicBool::new(false) })
    }

    fn search(self: &Arc<Self>, filter: &str) -> Search {
        let client = Client::with_broker(self.clone()).with_deadline(Duration::from_secs(600));
        client.inspector().search(filter.parse().unwrap())
    }
}

impl Wrapper for Noting {
    fn inner(&self) -> &dyn Broker {
        &*self.inner
    }

    async fn stats(&self, queue: &str) -> queue_core::Result<QueueStats> {
        if queue == "replaced" {
            let key = "queue:{replaced}:jobs".to_owned();
            return Err(Error::WrongType {
                broker: "noting".to_owned(),
                queue: Some(queue.to_owned()),
                key,
                expected: "hash",
                found: "string".to_owned(),
            });
        }
        self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        self.inner.stats(queue).await
    }

    async fn scan(&self, request: &Scan) -> queue_core::Result<Scanned> {
        if self.fails.swap(false, Ordering::SeqCst) {
            return Err(Error::Internal("the step fails".to_owned()));
        }
        self.inner.scan(request).await
    }

    async fn diagnose(&self, queue: &str, ids: &[JobId]) -> queue_core::Result<Vec<Option<Diagnosis>>> {
        self.diagnosed.lock().unwrap().extend_from_slice(ids);
        self.inner.diagnose(queue, ids).await
    }
}

async fn put(broker: &DynBroker, queue: &str, n: usize) -> Vec<JobId> {
    let jobs: Vec<NewJob> = (0..n).map(|n| NewJob::new(JobId::given(&format!("j-{n}")).unwrap(), envelope("noted"))).collect();
    let ids = jobs.iter().map(|job| job.id.clone()).collect();
    Producer::on(broker, queue).await.stored(jobs).await;
    ids
}

#[tokio::test]
async fn a_search_asks_a_bounded_number_of_queues_at_once() {
    let noting = Noting::new(SqliteBroker::open("sqlite::memory:").unwrap());
    let mut search = noting.search("task=suite.task");
    for n in 0..100 {
        search = search.queue(format!("queue-{n}"));
    }
    assert_eq!(search.next().await.unwrap().expect("there is a page").jobs.len(), 0);
    let most = noting.most.load(Ordering::SeqCst);
    assert!((2..=16).contains(&most), "{most} queues at once");
}

#[tokio::test]
async fn why_a_job_waits_is_asked_of_those_that_match_all_else() {
    let broker: DynBroker = SqliteBroker::open("sqlite::memory:").unwrap();
    let ids = put(&broker, "mail", 60).await;
    let noting = Noting::new(broker);
    let asked = || std::mem::take(&mut *noting.diagnosed.lock().unwrap());
    let found = noting.search("id~j-7").with_reasons().next().await.unwrap().expect("there is a page");
    assert!(found.jobs.len() == 1 && !found.jobs[0].waiting.is_empty() && found.examined == 60);
    assert_eq!(asked(), [ids[7].clone()]);
    let found = noting.search("waiting=no_worker id~j-1").next().await.unwrap().expect("there is a page");
    assert_eq!((found.jobs.len(), asked().len()), (11, 11));
    let found = noting.search("task=suite.task").with_reasons().page(5).next().await.unwrap().expect("there is a page");
    assert!(found.jobs.len() == 5 && asked().len() <= 6, "a page has five jobs");
    let found = noting.search("waiting!=no_worker id~j-1").next().await.unwrap().expect("there is a page");
    assert_eq!((found.jobs.len(), asked().len() <= MAX_ITEMS), (0, true));
}

#[tokio::test]
async fn queues_that_cannot_be_read_are_named_after_an_error_of_the_first_page() {
    let broker: DynBroker = SqliteBroker::open("sqlite::memory:").unwrap();
    put(&broker, "mail", 3).await;
    let noting = Noting::new(broker);
    noting.fails.store(true, Ordering::SeqCst);
    let mut search = noting.search("task=suite.task").queue("mail").queue("replaced").page(2);
    assert!(matches!(search.next().await, Err(Error::Internal(_))));
    let page = search.next().await.unwrap().expect("the same page is asked for again");
    let named = |unreadable: Vec<(String, Error)>| unreadable.into_iter().map(|(queue, _)| queue).collect::<Vec<_>>();
    assert_eq!((page.jobs.len(), named(page.unreadable)), (2, vec!["replaced".to_owned()]));
    let page = search.next().await.unwrap().expect("there is another page");
    assert_eq!((page.jobs.len(), named(page.unreadable)), (1, vec![]), "it is named once");
}
