//! The time of pages does not depend on the number of jobs and queues. `QUEUE_TEST_JOBS=1000000
//! cargo test -p queue-dashboard --test dashboard million -- --nocapture` prints the figures of a
//! million jobs.

use std::time::{Duration, Instant};

use crate::common::{self, Bed, send_mail};

crate::on_brokers! {
    a_page_of_very_many_jobs_is_made_at_once
    very_many_queues_are_read_together
}

/// The maximum time of a page in a debug build while other tests run. A page of a release build
/// takes a tenth.
const AT_MOST: Duration = Duration::from_secs(5);

fn jobs() -> u64 {
    std::env::var("QUEUE_TEST_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(30_000)
}

/// The fastest of five tries, because a busy machine may delay a page or cause a timeout of its
/// broker.
async fn timed(site: &common::Site, path: &str) -> (Duration, String) {
    let (mut best, mut refused) = (None, Vec::new());
    for _ in 0..5 {
        let start = Instant::now();
        let answer = site.get(path).await;
        let took = start.elapsed();
        if answer.status != 200 {
            refused.push(answer.status);
        } else if best.as_ref().is_none_or(|(best, _)| took < *best) {
            best = Some((took, answer.body));
        }
    }
    let (best, body) = best.unwrap_or_else(|| panic!("{path}: {refused:?}"));
    println!("{best:>12.3?} {:>7} bytes {path}", body.len());
    assert!(best < AT_MOST, "verdict: SLOW: {path} takes {best:?}");
    (best, body)
}

/// The address of the link before this attribute.
fn link_before(page: &str, attribute: &str) -> Option<String> {
    let (before, _) = page.split_once(attribute)?;
    let link = before.rsplit("href=\"").next()?.split('"').next()?;
    Some(link.replace("&amp;", "&").replace("&#38;", "&"))
}

async fn a_page_of_very_many_jobs_is_made_at_once(bed: Bed) {
    let all = jobs();
    let start = Instant::now();
    // One batch after the other, because the batches of one call may overtake each other.
    for first in (0..all).step_by(80) {
        let jobs =
            (first..all.min(first + 80)).map(|n| send_mail::job(format!("person-{n}@example.com"), None, None).id(format!("job-{n}")));
        bed.client.enqueue_all(jobs).await.unwrap();
    }
    println!("{} with {all} jobs, stored in {:?}", bed.client.info().kind, start.elapsed());
    let site = bed.site().await;
    timed(&site, "").await;
    timed(&site, "/queues").await;
    let (_, first) = timed(&site, "/jobs?state=ready&queue=mail").await;
    assert!(first.contains("mail/job-0\"") && first.contains("rel=\"next\""));
    let last = all - 50;
    let (_, page) = timed(&site, &format!("/jobs?state=ready&queue=mail&offset={last}")).await;
    assert!(page.contains(&format!("mail/job-{}\"", all - 1)), "{page}");
    let (_, middle) = timed(&site, &format!("/jobs?state=ready&queue=mail&offset={}", all / 2)).await;
    assert_eq!(middle.matches("data-pick").count(), 50);
    // A search reads for a bounded time, and continues automatically until it has found a job.
    let last_one = format!("person-{}@example.com", all - 1);
    for (path, shows) in
        [(format!("/jobs?state=ready&text={last_one}"), "data-pick"), (format!("/search?filter=id~job-{}", all - 1), "id=\"j-")]
    {
        let (mut path, mut pages) = (path, 0);
        let found = loop {
            let (_, page) = timed(&site, &path).await;
            match link_before(&page, " data-continue") {
                Some(next) => path = next.strip_prefix(&site.base).unwrap().to_owned(),
                None => break page,
            }
            pages += 1;
        };
        println!("{pages} pages until the last job");
        assert_eq!(found.matches(shows).count(), 1, "{found}");
        assert!(found.contains("Examined "), "{found}");
    }
    let (_, page) = timed(&site, &format!("/jobs?state=ready&queue=mail&offset={}", u64::MAX)).await;
    assert!(page.contains(&format!("mail/job-{}\"", all - 1)), "the last page: {page}");
    // Each page begins after the one before.
    let ids = |page: &str| -> Vec<String> {
        page.split("name=\"job\" value=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    };
    let (mut seen, mut next) = (ids(&first), first);
    for _ in 0..20 {
        let link = link_before(&next, " rel=\"next\"").unwrap();
        next = timed(&site, link.strip_prefix(&site.base).unwrap()).await.1;
        seen.extend(ids(&next));
    }
    let shown = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!((shown, seen.len()), (1050, 1050), "no job is shown twice");
    let (_, far) = timed(&site, &format!("/jobs?state=ready&queue=mail&offset={}", i64::MAX)).await;
    assert!(far.contains("There are no more ready jobs"), "{far}");
}

async fn very_many_queues_are_read_together(bed: Bed) {
    let queues = 1_000;
    for n in 0..queues {
        send_mail::job("a".to_owned(), None, None).queue(format!("queue-{n:04}")).enqueue(&bed.client).await.unwrap();
    }
    let site = bed.site().await;
    println!("{} with {queues} queues", bed.client.info().kind);
    let start = Instant::now();
    site.get("").await;
    println!("the first look: {:?}", start.elapsed());
    // A busy server may not have answered for some of them in the first snapshot.
    let all_were_read = async || timed(&site, "").await.1.contains("And 995 more queues without a worker.");
    queue_tests::patience::until("all queues were read", all_were_read).await;
    let (_, page) = timed(&site, "/queues").await;
    assert!(page.contains("1–50 of 1000"), "{page}");
    let (_, page) = timed(&site, "/queues?text=queue-099").await;
    assert_eq!(page.matches("id=\"q-").count(), 10);
    let (_, page) = timed(&site, "/jobs?state=ready").await;
    assert_eq!(page.matches("data-pick").count(), 50);
}
