//! Scans and searches while jobs are added and removed.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use queue_core::{
    Client, Error, JobId, RawJob,
    broker::{
        Broker, BuryReason, Delivery, Due, DynBroker, Ending, Finish, JobState, NewJob, OnConflict, Priority, Scan, Scanned, Unique,
        UniqueKey, Wrapper,
    },
    inspect::{Change, Edit, Filter, NewOperation, OperationKind},
};

use super::bed::{Bed, LONG, Lane, Producer, envelope, finish, given};

/// The number of jobs of a state at the beginning, and of positions in each step.
const JOBS: usize = 24;
const STEP: usize = 5;

/// All states except `active`, which has a separate case, and `expired`, whose jobs are stored with
/// `done` ones.
const STATES: [JobState; 8] = [
    JobState::Held,
    JobState::Parked,
    JobState::Retry,
    JobState::Dead,
    JobState::Done,
    JobState::Cancelled,
    JobState::Scheduled,
    JobState::Ready,
];

/// Adds new jobs to a state.
struct Brings<'a> {
    bed: &'a Bed,
    lane: Lane,
    now: i64,
    brought: usize,
}

impl Brings<'_> {
    async fn some(&mut self, state: JobState, n: usize) -> Vec<JobId> {
        let ending = match state {
            JobState::Parked => Ending::Park { task: "suite.task".to_owned() },
            JobState::Retry => Ending::Nack { delay: LONG, error: String::new() },
            JobState::Dead => Ending::Bury { reason: BuryReason::Buried, error: None },
            JobState::Done => Ending::Ack { result: None, keep: Some(LONG) },
            JobState::Cancelled => Ending::Cancel { reason: String::new() },
            _ => return self.waiting(state, n).await,
        };
        let claimed = self.claimed(n).await;
        let turn = self.lane.next().finish(claimed.iter().map(|delivery| finish(delivery, ending.clone())).collect());
        assert!(self.lane.send(&turn).await.stale.is_empty());
        claimed.into_iter().map(|delivery| delivery.id).collect()
    }

    async fn claimed(&mut self, n: usize) -> Vec<Delivery> {
        self.bed.put(n).await;
        let claimed = self.lane.claim(n).await;
        assert_eq!(claimed.len(), n);
        claimed
    }

    async fn waiting(&mut self, state: JobState, n: usize) -> Vec<JobId> {
        let mut ids = Vec::new();
        for _ in 0..n {
            self.brought += 1;
            let mut job = NewJob::new(JobId::make(), envelope("scanned"));
            match state {
                // Half of them are due at the same time.
                JobState::Scheduled => {
                    let later = if self.brought.is_multiple_of(2) { 0 } else { self.brought as i64 };
                    job.due = Due::AtMs(self.now + 600_000 + later);
                }
                JobState::Held => {
                    let key = Box::new(Unique::new(self.key()).on_conflict(OnConflict::BufferOne));
                    let mut first = NewJob::new(JobId::make(), envelope("first"));
                    first.unique = Some(key.clone());
                    self.bed.put_job(first).await;
                    assert_eq!(self.lane.claim(1).await.len(), 1);
                    job.unique = Some(key);
                }
                // Of all priorities, and in groups.
                _ => {
                    job.priority = Priority::from_number(u8::try_from(self.brought % 4).unwrap()).unwrap();
                    let group = format!("group-{}", self.brought % 3);
                    job.group = self.brought.is_multiple_of(3).then(|| super::groups::name(&group));
                }
            }
            ids.push(job.id.clone());
            self.bed.put_job(job).await;
        }
        ids
    }

    fn key(&self) -> UniqueKey {
        UniqueKey::of("suite.task", &self.brought.to_be_bytes())
    }
}

/// Between two steps, the last seen job and another seen job are deleted, and new jobs are added.
pub async fn a_scan_finds_what_stays_once_while_jobs_come_and_go(bed: Bed) {
    let mut lane = bed.lane().await;
    let turn = lane.next();
    let now = lane.send(&turn).await.now_ms;
    let mut brings = Brings { bed: &bed, lane, now, brought: 0 };
    for state in STATES {
        let mut stay: BTreeSet<JobId> = brings.some(state, JOBS).await.into_iter().collect();
        let (mut seen, mut place): (Vec<JobId>, _) = (Vec::new(), None);
        for step in 0.. {
            let request = Scan::new(&bed.queue, &[state], STEP).after(place);
            let found = bed.broker.scan(&request).await.unwrap();
            assert!(found.jobs.len() <= STEP, "{state}: {}", found.jobs.len());
            assert!(found.jobs.iter().all(|job| job.state == state));
            seen.extend(found.jobs.iter().map(|job| job.id.clone()));
            place = found.next;
            if place.is_none() {
                break;
            }
            assert!(step < 100, "{state}: a scan ends");
            let gone: Vec<JobId> = [seen.last(), seen.get(seen.len() / 2)].into_iter().flatten().cloned().collect();
            if step < 4 {
                bed.broker.change(&bed.queue, Change::Delete, None, &gone).await.unwrap();
                stay.retain(|id| !gone.contains(id));
                brings.some(state, 2).await;
            }
        }
        let once: BTreeSet<JobId> = seen.iter().cloned().collect();
        assert_eq!(once.len(), seen.len(), "{state}: none is seen twice");
        assert_eq!(stay.difference(&once).count(), 0, "{state}: none is passed over");
    }
}

/// Workers claim jobs from the head, more than were seen, and active jobs end.
pub async fn a_scan_passes_over_no_job_while_workers_claim(bed: Bed) {
    let ids = bed.put(60).await;
    let mut lane = bed.lane().await;
    let scan = async |state, after| bed.broker.scan(&Scan::new(&bed.queue, &[state], STEP).after(after)).await.unwrap();
    let first = scan(JobState::Ready, None).await;
    let held = lane.claim(STEP + 7).await;
    let (mut seen, mut place) = (Vec::new(), first.next);
    while place.is_some() {
        let found = scan(JobState::Ready, place).await;
        seen.extend(found.jobs.into_iter().map(|job| job.id));
        place = found.next;
        bed.put(1).await;
        if seen.len() > 60 {
            break;
        }
    }
    assert!(ids[STEP + 7..].iter().all(|id| seen.contains(id)), "what waits is seen");
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len(), "and nothing twice");
    let (mut seen, mut place, mut left) = (BTreeSet::new(), None, held);
    let stay: BTreeSet<JobId> = left.iter().map(|delivery| delivery.id.clone()).collect();
    let mut ended = BTreeSet::new();
    loop {
        let found = scan(JobState::Active, place).await;
        for job in found.jobs {
            assert!(seen.insert(job.id), "no active job is seen twice");
        }
        place = found.next;
        if place.is_none() {
            break;
        }
        let delivery = left.remove(0);
        ended.insert(delivery.id.clone());
        lane.ack(&[delivery]).await;
    }
    assert!(stay.iter().all(|id| seen.contains(id) || ended.contains(id)));
}

/// The last examined job may be claimed and come back at the end, and many others at the head.
pub async fn a_scan_passes_over_no_job_where_others_come_back(bed: Bed) {
    let ids = bed.put(60).await;
    let mut lane = bed.lane().await;
    let scan = async |after, limit| bed.broker.scan(&Scan::new(&bed.queue, &[JobState::Ready], limit).after(after)).await.unwrap();
    let rest = async |mut place: Option<Vec<u8>>, limit| {
        let mut seen = BTreeSet::new();
        while place.is_some() {
            let found = scan(place, limit).await;
            seen.extend(found.jobs.into_iter().map(|job| job.id));
            place = found.next;
        }
        seen
    };
    let first = scan(None, STEP).await;
    let held = lane.claim(STEP + 7).await;
    let last = held.iter().find(|delivery| Some(&delivery.id) == first.jobs.last().map(|job| &job.id)).expect("it is claimed");
    assert!(lane.end(last, Ending::Repeat { delay: Duration::ZERO }).await);
    let seen = rest(first.next, STEP).await;
    assert!(ids[STEP + 7..].iter().all(|id| seen.contains(id)), "what waits is seen");

    let many = bed.put(2_000).await;
    let mut held = Vec::new();
    while held.len() < 700 {
        held.extend(lane.claim(350).await);
    }
    let first = scan(None, 500).await;
    let mut seen: BTreeSet<JobId> = first.jobs.into_iter().map(|job| job.id).collect();
    for some in held.chunks(350) {
        let turn = lane.next().finish(some.iter().map(|delivery| Finish::new(delivery, Ending::Return)).collect());
        assert!(lane.send(&turn).await.stale.is_empty());
    }
    seen.extend(rest(first.next, 400).await);
    assert_eq!(many.iter().filter(|id| !seen.contains(id) && !held.iter().any(|held| held.id == **id)).count(), 0);
}

/// One scan reads several states, and each step examines at most its maximum.
pub async fn a_scan_of_several_states_is_bounded(bed: Bed) {
    let lane = bed.lane().await;
    let mut brings = Brings { bed: &bed, lane, now: 0, brought: 0 };
    let mut all = BTreeSet::new();
    let states = [JobState::Dead, JobState::Done, JobState::Cancelled, JobState::Ready];
    brings.some(JobState::Parked, 7).await;
    for state in states {
        all.extend(brings.some(state, 7).await);
    }
    let (mut seen, mut place, mut steps) = (BTreeSet::new(), None, 0);
    loop {
        let found = bed.broker.scan(&Scan::new(&bed.queue, &states, 4).after(place)).await.unwrap();
        assert!(found.jobs.len() <= 4);
        seen.extend(found.jobs.into_iter().map(|job| job.id));
        (place, steps) = (found.next, steps + 1);
        assert!(steps < 50);
        if place.is_none() {
            break;
        }
    }
    assert_eq!(seen, all);
    let nothing = bed.broker.scan(&Scan::new("suite-of-nobody", &states, 4)).await.unwrap();
    assert!(nothing.jobs.is_empty() && nothing.next.is_none());
    let error = bed.broker.scan(&Scan::new(&bed.queue, &states, 4).after(Some(b"\xc1".to_vec()))).await.unwrap_err();
    assert!(matches!(error, Error::Invalid { field: "cursor", .. }), "{error}");
}

/// Searches of operators: pages, their bounds, progress, and cursors.
pub async fn a_search_reports_its_progress_and_continues(bed: Bed) {
    let ids = bed.put(20).await;
    for n in 0..12 {
        bed.put_job(NewJob::new(JobId::given(&format!("marked-{n}")).unwrap(), envelope("marked"))).await;
    }
    let inspector = bed.inspector();
    let filter = || "id~marked state=ready".parse::<Filter>().unwrap();
    let search = || inspector.search(filter()).queue(&*bed.queue);
    let whole = search().next().await.unwrap().expect("there is a page");
    assert_eq!((whole.jobs.len(), whole.examined, whole.total, whole.cursor, whole.unreadable.len()), (12, 32, 32, None, 0));

    let mut bounded = search().examine_at_most(10).page(5);
    let first = bounded.next().await.unwrap().expect("there is a page");
    assert_eq!((first.jobs.len(), first.examined, first.total), (0, 10, 32), "it says that it has not seen all");
    let cursor = first.cursor.expect("it goes on");
    // Another process continues with the cursor, while examined jobs are deleted.
    let client = Client::with_broker(bed.broker.clone());
    bed.broker.change(&bed.queue, Change::Delete, None, &ids[..5]).await.unwrap();
    let mut other = client.inspector().search(filter()).queue(&*bed.queue).page(5).from(&cursor).unwrap();
    let (mut seen, mut sizes, mut looked) = (Vec::new(), Vec::new(), 0);
    while let Some(page) = other.next().await.unwrap() {
        sizes.push(page.jobs.len());
        assert!(page.examined >= looked && page.examined <= page.total);
        looked = page.examined;
        seen.extend(page.jobs.into_iter().map(|job| job.address.id.to_string()));
    }
    assert_eq!((looked, seen.iter().collect::<BTreeSet<_>>().len(), seen.len()), (32, 12, 12));
    assert!(sizes.iter().all(|size| *size <= 5), "{sizes:?}");

    let error = inspector.search("id~other".parse().unwrap()).from(&cursor).unwrap_err().to_string();
    assert!(error.contains("belongs to another filter"), "{error}");
    // A cursor is refused for other queues, because jobs would be skipped. The order of the queue
    // names does not matter.
    let others: [&[&str]; 3] = [&[], &["other"], &[&bed.queue, "other"]];
    for others in others {
        let mut search = others.iter().fold(inspector.search(filter()), |search, queue| search.queue(*queue)).from(&cursor).unwrap();
        let error = search.next().await.expect_err("it is of another search").to_string();
        assert!(error.contains("belongs to other queues"), "{error}");
    }
    let mut late = inspector.search(filter()).from(&cursor).unwrap().queue(&*bed.queue).queue(&*bed.queue);
    assert_eq!(late.next().await.unwrap().expect("it goes on").jobs.len(), 12);
    let error = inspector.search(filter()).from("marked-1").unwrap_err().to_string();
    assert!(error.contains("is not a valid cursor"), "{error}");
    let exact = inspector.search("id=marked-7".parse().unwrap()).queue(&*bed.queue).next().await.unwrap().expect("there is a page");
    assert_eq!((exact.jobs.len(), exact.examined, exact.cursor), (1, 1, None), "no other job is looked at");
    let exact = inspector.search("id=marked-7 state=dead".parse().unwrap()).queue(&*bed.queue).next().await.unwrap().expect("a page");
    assert_eq!((exact.jobs.len(), exact.cursor), (0, None));
}

/// A search of all queues reads one after the other, and skips none.
pub async fn a_search_goes_through_all_queues(bed: Bed) {
    let mark = bed.queue.strip_prefix("suite-").expect("queues of cases are named so").to_owned();
    let others = ["a", "b", "c"].map(|name| format!("{name}-{mark}"));
    let mut ids = BTreeSet::new();
    let mut bed = bed;
    for queue in &others {
        bed = bed.in_queue(queue);
        ids.extend(bed.put(4).await);
        ids.insert(bed.put_later(Duration::from_secs(600)).await);
    }
    let filter: Filter = format!("queue~{mark} queue!=b-{mark}").parse().unwrap();
    let mut search = bed.inspector().search(filter).page(3);
    let (mut seen, mut queues) = (BTreeSet::new(), BTreeSet::new());
    while let Some(page) = search.next().await.unwrap() {
        assert!(page.jobs.len() <= 3);
        for job in page.jobs {
            assert!(seen.insert(job.address.id), "none is found twice");
            queues.insert(job.address.queue.to_string());
        }
    }
    assert_eq!((seen.len(), queues.into_iter().collect::<Vec<_>>()), (10, vec![others[0].clone(), others[2].clone()]));
    assert!(seen.is_subset(&ids));
}

/// `id=QUEUE/ID` is the job with this address, and `id!=QUEUE/ID` all others, in every place for a
/// filter.
pub async fn the_address_of_a_job_is_its_id_in_a_filter(bed: Bed) {
    let inspector = bed.inspector();
    let mut other = Producer::on(&bed.broker, &format!("{}-other", bed.queue)).await;
    for id in ["one", "two", "three"] {
        bed.put_given(id, id).await;
    }
    other.stored(vec![given("two", "other")]).await;
    let queue = &bed.queue;
    let filter = |text: &str| text.replace("Q/", &format!("{queue}/")).parse::<Filter>().unwrap();
    for (text, expected) in
        [("id=Q/two", &["two"][..]), ("id!=Q/two", &["one", "three"]), ("id=two", &["two"]), ("id!=two id!=Q/three", &["one"])]
    {
        let mut search = inspector.search(filter(text)).queue(&**queue);
        let mut found: Vec<String> = search.next().await.unwrap().unwrap().jobs.iter().map(|job| job.address.id.to_string()).collect();
        found.sort();
        assert_eq!(found, expected, "search {text}");
        let mut walk = inspector.walk(queue, JobState::Ready).matching(filter(text));
        let mut listed: Vec<String> = walk.next().await.unwrap().unwrap().iter().map(|job| job.address.id.to_string()).collect();
        listed.sort();
        assert_eq!(listed, expected, "list {text}");
    }
    // In a search of all queues, only this job is examined.
    let page = inspector.search(filter("id=Q/two")).next().await.unwrap().unwrap();
    assert_eq!((page.jobs.len(), page.examined, &page.jobs[0].address.queue), (1, 1, queue));
    let operation = NewOperation::new(OperationKind::Delete, filter("id!=Q/two"));
    assert_eq!(inspector.preview_operation(queue, &operation, u64::MAX).await.unwrap().eligible, 2);
    let operation = NewOperation::new(OperationKind::Delete, filter("id=Q/two"));
    assert_eq!(inspector.preview_operation(queue, &operation, u64::MAX).await.unwrap().eligible, 1);
}

/// Cancelled jobs are stored among done jobs.
pub async fn a_search_for_one_state_reads_each_job_once(bed: Bed) {
    let mut lane = bed.lane().await;
    bed.put(200).await;
    let held = lane.claim(200).await;
    let endings = held.iter().enumerate().map(|(at, delivery)| {
        let ended = if at % 4 == 0 { Ending::Cancel { reason: String::new() } } else { Ending::Ack { result: None, keep: Some(LONG) } };
        finish(delivery, ended)
    });
    let turn = lane.next().finish(endings.collect());
    assert!(lane.send(&turn).await.stale.is_empty());
    let broker = Arc::new(CountsScans::new(bed.broker.clone()));
    let inspector = Client::with_broker(broker.clone()).inspector();
    let mut search = inspector.search("state=cancelled task!=other".parse().unwrap()).queue(&*bed.queue).page(5);
    let mut seen = BTreeSet::new();
    while let Some(page) = search.next().await.unwrap() {
        assert!(page.jobs.len() <= 5);
        for job in page.jobs {
            assert!(seen.insert(job.address.id), "none is found twice");
        }
    }
    assert_eq!(seen.len(), 50);
    let scans = broker.scans();
    assert!(scans <= 11, "ten pages need ten steps, and were read in {scans}");
}

/// Counts the steps of scans.
#[derive(Debug)]
pub(super) struct CountsScans {
    inner: DynBroker,
    scans: AtomicU64,
}

impl CountsScans {
    pub(super) fn new(inner: DynBroker) -> Self {
        CountsScans { inner, scans: AtomicU64::new(0) }
    }

    /// The number of steps.
    pub(super) fn scans(&self) -> u64 {
        self.scans.load(Ordering::Relaxed)
    }
}

impl Wrapper for CountsScans {
    fn inner(&self) -> &dyn Broker {
        &*self.inner
    }

    async fn scan(&self, request: &Scan) -> queue_core::Result<Scanned> {
        self.scans.fetch_add(1, Ordering::Relaxed);
        self.inner.scan(request).await
    }
}

/// A job keeps its tags over a failure, an edit, its death and its requeue. A copy has them as
/// well.
pub async fn tags_stay_with_a_job_whatever_becomes_of_it(bed: Bed) {
    let client = Client::with_broker(bed.broker.clone());
    let job = || RawJob::new("suite.task", b"\x80".to_vec()).queue(&*bed.queue);
    let tagged = client.enqueue_raw(job().tag("order", "17").tag("line", "a b")).await.unwrap().0;
    client.enqueue_raw(job().tag("order", "170")).await.unwrap();
    client.enqueue_raw(job()).await.unwrap();
    let inspector = bed.inspector();
    let found = async |filter: &str| {
        let mut search = inspector.search(filter.parse().unwrap()).queue(&*bed.queue);
        let page = search.next().await.unwrap().expect("there is a page");
        assert_eq!(page.cursor, None);
        page.jobs.into_iter().map(|job| job.address).collect::<Vec<_>>()
    };
    let filter = "tag.order=17 tag.line=\"a b\"";
    let is_found =
        async |state: JobState| assert_eq!(found(&format!("{filter} state={state}")).await, std::slice::from_ref(&tagged), "{state}");
    is_found(JobState::Ready).await;
    assert_eq!((found("tag.order~17").await.len(), found("tag.order=").await.len(), found("tag.order!=17").await.len()), (2, 1, 2));
    let record = inspector.show(&tagged).await.unwrap();
    assert_eq!(record.tags.into_iter().collect::<Vec<_>>(), [("line".to_owned(), "a b".to_owned()), ("order".to_owned(), "17".to_owned())]);

    let mut lane = bed.lane().await;
    let claimed = lane.claim(3).await;
    is_found(JobState::Active).await;
    let held = claimed.iter().find(|delivery| delivery.id == tagged.id).expect("it was claimed");
    assert!(lane.end(held, Ending::Nack { delay: LONG, error: "no".to_owned() }).await);
    is_found(JobState::Retry).await;
    let record = inspector.show(&tagged).await.unwrap();
    inspector.edit(&tagged, &Edit::of(&record).unwrap().priority(Priority::High).delay(Duration::ZERO)).await.unwrap();
    let held = lane.wait_for_one().await;
    assert!(lane.end(&held, Ending::Bury { reason: BuryReason::Buried, error: None }).await);
    is_found(JobState::Dead).await;
    bed.broker.change(&bed.queue, Change::Requeue, None, std::slice::from_ref(&tagged.id)).await.unwrap();
    is_found(JobState::Ready).await;
    let copy = inspector.duplicate(&tagged, None, JobId::make()).await.unwrap().job;
    assert_eq!(inspector.show(&copy).await.unwrap().tags.len(), 2);
    bed.broker.change(&bed.queue, Change::Delete, None, &[tagged.id.clone(), copy.id]).await.unwrap();
    assert_eq!(found(filter).await, [], "what is gone is not found");
}
