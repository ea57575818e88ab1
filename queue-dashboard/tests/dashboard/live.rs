//! Updates of open pages, and their low cost.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::common::{Bed, Site, Stream};
use queue_core::{Client, JobState, observe::Calls};
use queue_tests::{
    patience::wait,
    server::{Kind, Server},
};

crate::on_brokers! {
    a_change_reaches_an_open_page_within_seconds
    a_page_changes_at_most_twice_a_second
    many_open_pages_cost_the_broker_as_much_as_one
    nothing_is_asked_when_nobody_looks
    a_stream_ends_with_its_server
    the_page_of_a_job_that_is_gone_reports_it
}

async fn a_change_reaches_an_open_page_within_seconds(bed: Bed) {
    bed.enqueue("one", None).await;
    let site = bed.site().await;
    for (page, seen, after) in [
        ("overview", ">1<", ">2<"),
        ("queues", ">2<", ">3<"),
        ("jobs?state=ready", "mail/two-queues?", "mail/two-jobs?state=ready"),
        ("job?queue=mail&id=one", ">ready<", ">cancelled<"),
    ] {
        let mut stream = Stream::open(&site, &format!("/live/{page}")).await;
        let (name, data) = stream.event().await.unwrap();
        assert_eq!(name, "page");
        if !seen.contains('?') {
            assert!(data.contains(seen), "{page}: {data}");
        }
        let start = Instant::now();
        let id = format!("two-{}", page.split('?').next().unwrap());
        if page.starts_with("job?") {
            bed.client.inspector().cancel(&"mail/one".parse().unwrap()).await.unwrap();
        } else {
            bed.enqueue(&id, None).await;
        }
        let after = if after.contains('?') { format!("mail/{id}") } else { after.to_owned() };
        let shows = async { while !stream.event().await.unwrap().1.contains(&after) {} };
        wait(format!("{page} to show {after}")).end_of(shows).await;
        println!("{page}: {:?}", start.elapsed());
    }
    assert_eq!(site.get("/live/nothing").await.status, 404);
}

async fn a_page_changes_at_most_twice_a_second(bed: Bed) {
    let site = bed.site().await;
    let mut stream = Stream::open(&site, "/live/overview").await;
    let (start, mut pages, mut n) = (Instant::now(), 0_u32, 0);
    while start.elapsed() < Duration::from_secs(4) {
        bed.enqueue(&format!("job-{n}"), None).await;
        n += 1;
        if let Ok(event) = tokio::time::timeout(Duration::from_millis(5), stream.event()).await {
            pages += u32::from(event.unwrap().0 == "page");
        }
    }
    let lasted = start.elapsed();
    println!("{pages} pages in {lasted:?}, {n} jobs");
    assert!(pages > 0 && f64::from(pages) <= 2.0 * lasted.as_secs_f64() + 1.0, "{pages} pages in {lasted:?}");
}

async fn many_open_pages_cost_the_broker_as_much_as_one(bed: Bed) {
    bed.enqueue("one", None).await;
    let opened = async |pages: usize| {
        let calls = Arc::new(Calls::default());
        let site = Site::mounted(queue_dashboard::router(bed.client.with_observer(calls.clone())), "/queue").await;
        let mut streams = Vec::new();
        for _ in 0..pages {
            let mut stream = Stream::open(&site, "/live/overview").await;
            stream.event().await.unwrap();
            streams.push(tokio::spawn(async move { while stream.event().await.is_some() {} }));
        }
        (calls, streams)
    };
    // In the same five seconds, so that a delay affects both.
    let ((one, alone), (many, streams)) = (opened(1).await, opened(20).await);
    let before = (total(&one), total(&many));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (one, many) = (total(&one) - before.0, total(&many) - before.1);
    alone.iter().chain(&streams).for_each(tokio::task::JoinHandle::abort);
    println!("calls of the broker in 5 s: {one} for one page, {many} for twenty");
    assert!(many <= one + one / 2, "{one} calls for one page, {many} for twenty");
}

fn total(calls: &Calls) -> u64 {
    calls.snapshot().values().map(|verb| verb.calls).sum()
}

async fn nothing_is_asked_when_nobody_looks(bed: Bed) {
    let calls = Arc::new(Calls::default());
    let site = Site::mounted(queue_dashboard::router(bed.client.with_observer(calls.clone())), "/queue").await;
    let mut stream = Stream::open(&site, "/live/overview").await;
    stream.event().await.unwrap();
    drop(stream);
    // The server notices the closed streams at its next write, after two seconds at most.
    queue_tests::patience::until("nothing to be asked for a second", async || {
        let before = total(&calls);
        tokio::time::sleep(Duration::from_secs(1)).await;
        total(&calls) == before
    })
    .await;
}

async fn a_stream_ends_with_its_server(bed: Bed) {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let dashboard = queue_dashboard::router(bed.client.clone()).until(async move { drop(stopped.await) });
    let site = Site::mounted(dashboard, "/queue").await;
    let mut stream = Stream::open(&site, "/live/overview").await;
    stream.event().await.unwrap();
    stop.send(()).unwrap();
    wait("the stream to end").end_of(async { while stream.event().await.is_some() {} }).await;
}

async fn the_page_of_a_job_that_is_gone_reports_it(bed: Bed) {
    bed.enqueue("one", Some("no")).await;
    bed.work_until(JobState::Dead, 1).await;
    let site = bed.site().await;
    let mut stream = Stream::open(&site, "/live/job?queue=mail&id=one").await;
    assert_eq!(stream.event().await.unwrap().0, "page");
    bed.client.inspector().delete(&"mail/one".parse().unwrap()).await.unwrap();
    let gone = loop {
        let (name, data) = stream.event().await.unwrap();
        if name == "gone" {
            break data;
        }
    };
    assert!(gone.contains("There is no such job"), "{gone}");
    assert!(stream.event().await.is_none(), "the stream ends");
}

/// A page of one object stays during an outage, reports it, and continues afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_one_thing_come_back_after_an_outage_on_redis() {
    let mut server = Server::durable(Kind::Redis);
    let bed = Bed::at(&server).await;
    bed.limited("acct_17").await;
    bed.grouped("acme", 1).await;
    bed.enqueue("one", None).await;
    let client = Client::connect(&server.url()).await.unwrap();
    let site = Site::mounted(queue_dashboard::router(client), "/queue").await;
    let paths = ["job?queue=mail&id=one", "jobs?state=ready&queue=mail", "group?queue=mail&group=acme", "limit?queue=pay&limit=stripe"];
    let mut streams = Vec::new();
    for path in paths {
        let mut stream = Stream::open(&site, &format!("/live/{path}")).await;
        assert_eq!(stream.event().await.unwrap().0, "page", "{path}");
        streams.push(stream);
    }
    server.kill();
    for (path, stream) in paths.iter().zip(&mut streams) {
        loop {
            let (name, data) = stream.event().await.unwrap_or_else(|| panic!("{path}: the stream ends"));
            assert_ne!(name, "gone", "{path}: {data}");
            if name == "late" {
                assert!(data.contains("The broker does not answer.") && data.contains("What you see is from"), "{path}: {data}");
                break;
            }
        }
    }
    server.restart();
    for (path, stream) in paths.iter().zip(&mut streams) {
        let is_back = async {
            loop {
                let (name, data) = stream.event().await.unwrap_or_else(|| panic!("{path}: the stream ends"));
                assert_ne!(name, "gone", "{path}: {data}");
                if name == "page" && !data.contains("does not answer") {
                    break;
                }
            }
        };
        wait(format!("{path} to come back")).end_of(is_back).await;
    }
}
