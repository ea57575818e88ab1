//! The index of tags: it has each job with a tag as long as the job exists. A search by a tag
//! examines no other job.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use queue_core::{
    __private::Envelope,
    Client, Error, JobAddress, JobId,
    broker::{
        Audit, Begin, Broker, BuryReason, Diagnosis, DynBroker, Ending, JobState, KeepLimits, NewJob, OnConflict, Priority, Scan, Scanned,
        StoredPage, Subscribe, SweepLimits, Unique, UniqueKey, Wrapper, subscription_address,
    },
    inspect::{Change, Edit, Filter, NewOperation, OperationKind},
    topics::Publication,
};

use super::bed::{Bed, LONG, Lane, envelope};

const THOROUGH: Audit = Audit { repair: false, thorough: true };

/// An envelope with tags.
pub(super) fn tagged(tags: &[(&str, &str)]) -> Vec<u8> {
    let mut envelope = Envelope::new("suite.tagged", b"\x80");
    envelope.tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    envelope.encode().expect("it is small")
}

async fn put(bed: &Bed, tags: &[(&str, &str)]) -> JobId {
    let job = NewJob::new(JobId::make(), tagged(tags));
    let id = job.id.clone();
    bed.put_job(job).await;
    id
}

/// The results of a scan by a tag in all states, and the number of jobs in the index.
async fn found(bed: &Bed, name: &str, value: &str) -> (Vec<JobId>, u64) {
    found_in(bed, &bed.queue, name, value).await
}

async fn found_in(bed: &Bed, queue: &str, name: &str, value: &str) -> (Vec<JobId>, u64) {
    let scanned = bed.broker.scan(&Scan::new(queue, &JobState::ALL, 500).tagged(name, value)).await.unwrap();
    assert_eq!(scanned.next, None);
    (scanned.jobs.into_iter().map(|job| job.id).collect(), scanned.of.expect("the first step says how many there are"))
}

async fn is_sound(bed: &Bed) {
    assert_eq!(bed.broker.audit(&bed.queue, THOROUGH).await.unwrap(), []);
}

/// In steps, in the order of the ids, while jobs go and come.
pub async fn a_scan_by_a_tag_looks_at_the_jobs_that_have_it_alone(bed: Bed) {
    bed.put(60).await;
    let mut ids = Vec::new();
    for n in 0..12 {
        ids.push(put(&bed, &[("order", "17"), ("line", &n.to_string())]).await);
        put(&bed, &[("order", "170")]).await;
        put(&bed, &[("orde", "r=17")]).await;
    }
    let given = NewJob::new(JobId::given("marked").unwrap(), tagged(&[("order", "17")]));
    bed.put_job(given.clone()).await;
    ids.push(given.id);
    let mut lane = bed.lane().await;
    lane.claim(70).await;
    let step = async |after| bed.broker.scan(&Scan::new(&bed.queue, &JobState::ALL, 5).tagged("order", "17").after(after)).await.unwrap();
    let first = step(None).await;
    let told = |scanned: &Scanned| scanned.jobs.iter().map(|job| job.id.clone()).collect::<Vec<_>>();
    assert_eq!((told(&first), first.of, first.places.len()), (ids[..5].to_vec(), Some(13), 5));
    let behind_the_second = step(Some(first.places[1].clone())).await;
    assert_eq!(told(&behind_the_second), ids[2..7]);
    // The last examined job is removed, and one that was not examined.
    bed.broker.change(&bed.queue, Change::Delete, None, &[ids[8].clone()]).await.unwrap();
    bed.broker.change(&bed.queue, Change::Cancel, None, &[ids[4].clone()]).await.unwrap();
    bed.broker.change(&bed.queue, Change::Delete, None, &[ids[4].clone()]).await.unwrap();
    let (mut seen, mut place) = (told(&first), first.next);
    while place.is_some() {
        let next = step(place).await;
        assert!(next.jobs.len() <= 5 && next.of.is_none());
        seen.extend(told(&next));
        place = next.next;
    }
    let stay: Vec<JobId> = ids.iter().enumerate().filter(|(at, _)| *at != 8).map(|(_, id)| id.clone()).collect();
    let expected: Vec<JobId> = if seen.contains(&ids[8]) { ids.clone() } else { stay };
    assert_eq!(seen, expected, "each once, in the order of the ids");
    let ready = Scan::new(&bed.queue, &[JobState::Ready], 500).tagged("order", "17");
    assert!(bed.broker.scan(&ready).await.unwrap().jobs.iter().all(|job| job.state == JobState::Ready));
    let error = bed.broker.scan(&ready.after(Some(b"\xc1".to_vec()))).await.unwrap_err();
    assert!(matches!(error, queue_core::Error::Invalid { field: "cursor", .. }), "{error}");
    let nothing = bed.broker.scan(&Scan::new("suite-of-nobody", &JobState::ALL, 5).tagged("order", "17")).await.unwrap();
    assert!(nothing.jobs.is_empty() && nothing.next.is_none());
}

/// Done, removed or evicted: the tags are removed together with the job.
pub async fn tags_leave_the_index_with_their_jobs(bed: Bed) {
    let mut lane = bed.lane().await;
    let endings = [
        (Ending::Ack { result: None, keep: None }, false),
        (Ending::Ack { result: None, keep: Some(LONG) }, true),
        (Ending::Cancel { reason: String::new() }, true),
        (Ending::Bury { reason: BuryReason::Buried, error: None }, true),
        (Ending::Nack { delay: LONG, error: String::new() }, true),
        (Ending::Return, true),
    ];
    for (at, (ending, stays)) in endings.into_iter().enumerate() {
        let value = at.to_string();
        let id = put(&bed, &[("at", &value), ("all", "of them")]).await;
        let held = lane.claim_one().await;
        assert_eq!((held.id.clone(), found(&bed, "at", &value).await), (id.clone(), (vec![id.clone()], 1)));
        assert!(lane.end(&held, ending.clone()).await);
        assert_eq!(found(&bed, "at", &value).await, if stays { (vec![id.clone()], 1) } else { (vec![], 0) }, "{ending:?}");
        if ending == Ending::Return {
            bed.broker.change(&bed.queue, Change::Delete, None, &[id]).await.unwrap();
            assert_eq!(found(&bed, "at", &value).await, (vec![], 0), "it was deleted");
        }
    }
    is_sound(&bed).await;
    let limits = SweepLimits { dead: Duration::ZERO, dead_bytes: 0, keep: KeepLimits { count: 0, bytes: 0 }, ..SweepLimits::default() };
    bed.broker.sweep(&bed.queue, &limits).await.unwrap();
    assert_eq!(found(&bed, "all", "of them").await.1, 1, "of those that have ended none is left");
    is_sound(&bed).await;
}

/// After a replaced job, a reused id or an edit, the index has the tags of the stored envelope.
pub async fn tags_follow_the_envelope_of_a_job(bed: Bed) {
    let unique = |conflict| Some(Box::new(Unique::new(UniqueKey::of("suite.tagged", b"17")).on_conflict(conflict)));
    let mut first = NewJob::new(JobId::make(), tagged(&[("order", "17"), ("both", "yes")]));
    first.unique = unique(OnConflict::Skip);
    let mut second = NewJob::new(JobId::make(), tagged(&[("order", "18"), ("both", "yes")]));
    second.unique = unique(OnConflict::Replace);
    let id = first.id.clone();
    bed.put_job(first).await;
    let mut skipped = second.clone();
    (skipped.id, skipped.unique) = (JobId::make(), unique(OnConflict::Skip));
    bed.put_job(skipped).await;
    assert_eq!((found(&bed, "order", "17").await.1, found(&bed, "order", "18").await.1), (1, 0), "a job that is skipped has no tags");
    bed.put_job(second.clone()).await;
    let is_second = (vec![id.clone()], 1);
    assert_eq!((found(&bed, "order", "17").await.1, found(&bed, "order", "18").await), (0, is_second.clone()));
    assert_eq!(found(&bed, "both", "yes").await, is_second);
    let mut plain = second;
    (plain.id, plain.envelope) = (JobId::make(), envelope("plain"));
    bed.put_job(plain).await;
    assert_eq!((found(&bed, "order", "18").await.1, found(&bed, "both", "yes").await.1), (0, 0), "a job without tags has replaced it");
    is_sound(&bed).await;

    let again = |value: &str| NewJob::new(JobId::given("again").unwrap(), tagged(&[("time", value)]));
    bed.put_job(again("first")).await;
    bed.put_job(again("second")).await;
    assert_eq!((found(&bed, "time", "first").await.1, found(&bed, "time", "second").await.1), (1, 0), "the same id was there");
    bed.broker.change(&bed.queue, Change::Cancel, None, &[again("first").id]).await.unwrap();
    assert_eq!(found(&bed, "time", "first").await.1, 1, "it is kept");
    bed.put_job(again("second")).await;
    assert_eq!((found(&bed, "time", "first").await.1, found(&bed, "time", "second").await.1), (0, 1));
    is_sound(&bed).await;

    let address = JobAddress { queue: bed.queue.clone(), id: again("first").id };
    let record = bed.inspector().show(&address).await.unwrap();
    bed.inspector().edit(&address, &Edit::of(&record).unwrap().priority(Priority::High).payload(b"\x81\xa1a\x01".to_vec())).await.unwrap();
    assert_eq!(found(&bed, "time", "second").await, (vec![address.id], 1), "it was edited");
    is_sound(&bed).await;
}

/// A program without the task does not know which parameter is a tag. It reports the tags that may
/// come from old parameters.
pub async fn an_edit_without_its_task_reports_tags_that_stay(bed: Bed) {
    let payload = |order: u8, to: &str| {
        [b"\x82\xa5order".as_slice(), &[order], b"\xa2to", &[0xa0 | u8::try_from(to.len()).unwrap()], to.as_bytes()].concat()
    };
    let old = payload(17, "ada");
    let mut envelope = Envelope::new("suite.tagged", &old);
    envelope.tags = [("order", "17"), ("customer", "ada"), ("shop", "4")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let job = NewJob::new(JobId::make(), envelope.encode().unwrap());
    let address = JobAddress { queue: bed.queue.clone(), id: job.id.clone() };
    bed.put_job(job).await;
    let inspector = bed.inspector();
    let edit = Edit::new().payload(payload(18, "ada"));
    let stale = [("order".to_owned(), "17".to_owned())].into();
    assert_eq!(inspector.preview_edit(&address, &edit).await.unwrap().stale_tags, stale);
    let edited = inspector.edit(&address, &edit).await.unwrap();
    assert_eq!((edited.stale_tags, edited.changes.len()), (stale, 1));
    assert_eq!((found(&bed, "order", "17").await.1, inspector.show(&address).await.unwrap().tags.len()), (1, 3), "they stay");
    let edited = inspector.edit(&address, &Edit::new().priority(Priority::High)).await.unwrap();
    assert_eq!(edited.stale_tags.len(), 0, "the parameters stay as well");
    is_sound(&bed).await;
}

/// Each subscription makes a job with the tags of the event.
pub async fn jobs_of_events_have_the_tags_of_the_event(bed: Bed) {
    bed.broker.subscribe(&Subscribe::new(bed.queue.clone(), "billing", Begin::Start)).await.unwrap();
    let client = Client::with_broker(bed.broker.clone());
    let event = || Publication::raw(&*bed.queue, "OrderPaid", b"\x80".to_vec());
    let published = event().tag("order", "17").header("of", "it").publish(&client).await.unwrap();
    event().tag("order", "18").publish(&client).await.unwrap();
    event().publish(&client).await.unwrap();
    let events = bed.inspector().events(&bed.queue, None, 10).await.unwrap();
    assert_eq!((events[0].tags.get("order").map(String::as_str), events[2].tags.len()), (Some("17"), 0));
    let queue = subscription_address("billing", &bed.queue);
    let mut lane = Lane::on(&bed.broker, &queue).await;
    let held = lane.claim(3).await;
    assert_eq!(held.len(), 3);
    assert_eq!(found_in(&bed, &queue, "order", "17").await, (vec![published.id.clone()], 1));
    let first = Envelope::decode(&held[0].envelope).unwrap();
    assert_eq!((&*first.headers["of"], &*first.tags["order"]), ("it", "17"));
    assert_eq!(bed.broker.audit(&queue, THOROUGH).await.unwrap(), []);
    lane.ack(&held).await;
    assert_eq!(found_in(&bed, &queue, "order", "17").await.1, 0);
    assert_eq!(bed.broker.audit(&queue, THOROUGH).await.unwrap(), []);
}

/// Records for each scan whether it counts the jobs with the tag, and the number of examined jobs.
/// Lists of states are not read. Each step examines three positions.
#[derive(Debug)]
struct Noting {
    inner: DynBroker,
    scans: Mutex<Vec<(bool, u64)>>,
    /// The number of requests that are answered before one fails: steps of scans, and diagnoses.
    fails_after: Mutex<Option<u32>>,
    /// Whether scans without a tag are also answered.
    goes_by_states: bool,
}

impl Noting {
    fn new(inner: &DynBroker, goes_by_states: bool) -> Arc<Self> {
        Arc::new(Noting { inner: inner.clone(), scans: Mutex::default(), fails_after: Mutex::default(), goes_by_states })
    }

    fn fails(&self) -> queue_core::Result<()> {
        let mut left = self.fails_after.lock().expect("no one panics with it");
        match left.map(|left| left.checked_sub(1)) {
            Some(Some(fewer)) => *left = Some(fewer),
            Some(None) => {
                *left = None;
                return Err(Error::Internal("it fails once".to_owned()));
            }
            None => {}
        }
        Ok(())
    }

    fn noted(&self) -> Vec<(bool, u64)> {
        std::mem::take(&mut *self.scans.lock().expect("no one panics with it"))
    }
}

impl Wrapper for Noting {
    fn inner(&self) -> &dyn Broker {
        &*self.inner
    }

    async fn list(&self, _: &str, state: JobState, _: u64, _: usize) -> queue_core::Result<StoredPage> {
        Err(Error::Internal(format!("the jobs that are {state} are listed, with and without the tag")))
    }

    async fn scan(&self, request: &Scan) -> queue_core::Result<Scanned> {
        assert!(self.goes_by_states || request.tag.is_some(), "a scan goes by the tag");
        self.fails()?;
        let mut small = request.clone();
        small.limit = small.limit.min(3);
        let scanned = self.inner.scan(&small).await?;
        let counts = request.tag.is_some() && request.counts && request.after.is_none();
        self.scans.lock().expect("no one panics with it").push((counts, scanned.examined));
        Ok(scanned)
    }

    async fn diagnose(&self, queue: &str, ids: &[JobId]) -> queue_core::Result<Vec<Option<Diagnosis>>> {
        self.fails()?;
        self.inner.diagnose(queue, ids).await
    }
}

/// Lists, operations and their previews by a tag, and searches: each counts the jobs at most once.
pub async fn nothing_by_a_tag_looks_at_jobs_without_it(bed: Bed) {
    bed.put(300).await;
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(put(&bed, &[("order", "17"), ("third", if n % 3 == 0 { "yes" } else { "no" })]).await);
    }
    let noting = Noting::new(&bed.broker, false);
    let client = Client::with_broker(noting.clone());
    let inspector = client.inspector();
    let filter = |text: &str| text.parse::<Filter>().expect("it is a filter");
    let examined = |noted: Vec<(bool, u64)>| {
        let (counting, others): (Vec<_>, Vec<_>) = noted.into_iter().partition(|(counts, _)| *counts);
        (counting.len(), others.iter().map(|(_, examined)| examined).sum::<u64>())
    };

    let walked = async |from: u64, most: u64| {
        let mut walk = inspector.walk(&bed.queue, JobState::Ready).matching(filter("tag.order=17 tag.third=no")).from(from).at_most(most);
        let mut found = Vec::new();
        while let Some(jobs) = walk.next().await.unwrap() {
            found.extend(jobs.into_iter().map(|job| job.address.id));
        }
        (found, walk.next_offset())
    };
    let thirds: Vec<JobId> = (0..20).filter(|n| n % 3 != 0).map(|n| ids[n].clone()).collect();
    assert_eq!(walked(0, 100).await, (thirds.clone(), None));
    assert_eq!(examined(noting.noted()), (0, 20));
    // Each request fails once.
    for fails_after in 0..14 {
        *noting.fails_after.lock().expect("no one panics with it") = Some(fails_after);
        let filter = filter("tag.order=17 tag.third=no");
        let (mut walk, mut found, mut errors) =
            (inspector.walk(&bed.queue, JobState::Ready).matching(filter).with_reasons(), Vec::new(), 0);
        loop {
            match walk.next().await {
                Ok(Some(jobs)) => found.extend(jobs.into_iter().map(|job| job.address.id)),
                Ok(None) => break,
                Err(_) => errors += 1,
            }
            assert!(walk.next_offset().is_none_or(|at| at <= 20), "{fails_after}: {:?}", walk.next_offset());
        }
        assert_eq!((found, errors), (thirds.clone(), 1), "the request {fails_after} fails");
    }
    assert_eq!(
        inspector.walk(&bed.queue, JobState::Dead).matching(filter("tag.order=17")).next().await.unwrap().map(|jobs| jobs.len()),
        None
    );
    noting.noted();
    let (first, goes_on) = walked(0, 5).await;
    assert_eq!((&first[..], goes_on), (&thirds[..5], Some(8)), "the fifth of them is the eighth that has the tag");
    assert_eq!(walked(8, 100).await, (thirds[5..].to_vec(), None));
    noting.noted();

    let mut search = inspector.search(filter("tag.order=17")).queue(&*bed.queue);
    let page = search.next().await.unwrap().expect("there is a page");
    assert_eq!((page.jobs.len(), page.total, page.cursor), (20, 20, None));
    assert_eq!(noting.noted().iter().filter(|(counts, _)| *counts).count(), 1, "a search counts them once");

    let new = NewOperation::new(OperationKind::Cancel, filter("tag.order=17 tag.third=yes state=ready"));
    let preview = inspector.preview_operation(&bed.queue, &new, 1_000).await.unwrap();
    assert_eq!((preview.eligible, preview.examined, preview.total, preview.is_whole), (7, 20, 20, true));
    noting.noted();
    let started = inspector.start_operation(&bed.queue, &new).await.unwrap();
    assert_eq!((started.total, examined(noting.noted()).0), (20, 1));
    let mut run = inspector.run_operation(&started);
    while run.step().await.unwrap() {}
    assert_eq!(examined(noting.noted()), (1, 20), "its runner counts them once, to see whether they are fewer than those in the states");
    let ended = run.operation();
    assert_eq!((ended.changed, ended.skipped, ended.examined), (7, 13, 20));
    assert_eq!((bed.depth(JobState::Cancelled).await, bed.depth(JobState::Ready).await), (7, 313));
}

/// Ten dead jobs of a customer with forty more done jobs.
pub async fn an_operation_goes_by_a_tag_if_fewer_jobs_have_it_than_its_states(bed: Bed) {
    for _ in 0..50 {
        put(&bed, &[("customer", "ada")]).await;
    }
    let mut lane = bed.lane().await;
    for (at, held) in lane.claim(50).await.iter().enumerate() {
        let buries = Ending::Bury { reason: BuryReason::Buried, error: None };
        assert!(lane.end(held, if at % 5 == 0 { buries } else { Ending::Ack { result: None, keep: Some(LONG) } }).await);
    }
    let noting = Noting::new(&bed.broker, true);
    let inspector = Client::with_broker(noting.clone()).inspector();
    let new = NewOperation::new(OperationKind::Requeue, "tag.customer=ada state=dead".parse().expect("it is a filter"));
    let preview = inspector.preview_operation(&bed.queue, &new, 1_000).await.unwrap();
    assert_eq!((preview.eligible, preview.examined, preview.total, preview.is_whole), (10, 10, 10, true));
    let started = inspector.start_operation(&bed.queue, &new).await.unwrap();
    noting.noted();
    let mut run = inspector.run_operation(&started);
    while run.step().await.unwrap() {}
    let examined: u64 = noting.noted().iter().filter(|(counts, _)| !counts).map(|(_, examined)| examined).sum();
    assert_eq!((examined, run.operation().changed, run.operation().examined, started.total), (10, 10, 10, 10));
    is_sound(&bed).await;
}

/// However many jobs there are, and in whichever state.
pub async fn a_search_by_a_tag_reports_how_many_jobs_have_it(bed: Bed) {
    bed.put(30).await;
    for n in 0..9 {
        put(&bed, &[("order", "17"), ("even", if n % 2 == 0 { "yes" } else { "no" })]).await;
    }
    let mut lane = bed.lane().await;
    let held = lane.claim(35).await;
    lane.ack(&held[..33]).await;
    let page = async |filter: &str, size| {
        let mut search = bed.inspector().search(filter.parse().unwrap()).queue(&*bed.queue).page(size);
        let (mut pages, mut ids, mut sums) = (0, Vec::new(), (0, 0));
        while let Some(page) = search.next().await.unwrap() {
            assert!(page.jobs.len() <= size && page.unreadable.is_empty());
            pages += 1;
            sums = (page.examined, page.total);
            ids.extend(page.jobs.into_iter().map(|job| job.address.id));
        }
        assert!(ids.is_sorted_by(|one, other| one.as_bytes() < other.as_bytes()), "each once, in the order of the ids");
        (pages, ids.len(), sums)
    };
    assert_eq!(page("tag.order=17", 50).await, (1, 6, (6, 6)));
    assert_eq!(page("tag.order=17 state=active", 50).await, (1, 2, (6, 6)));
    assert_eq!(page("tag.even=yes tag.order=17", 50).await, (1, 3, (3, 3)));
    assert_eq!(page("tag.order=17 tag.even=yes", 1).await, (3, 3, (6, 6)));
    assert_eq!(page("tag.order=1", 50).await, (1, 0, (0, 0)));
}
