//! The dashboard in a real Chromium, over both brokers.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{
    common::{self, Bed, send_mail},
    safety::hostile,
};
use axum::{Router, http::request::Parts};
use queue_core::{
    JobState,
    broker::{Extend, JobProgress, ProcessId, ProgressNow, ProgressReport, Register, Turn, WorkerInfo, WorkerLoad, WorkerMode},
    inspect::{Edit, Fingerprint, GroupName, NewOperation, OperationKind},
    observe::Calls,
    prelude::*,
};
use queue_dashboard::{Person, Role};
use queue_tests::{
    browser::Browser,
    server::{Kind, Server},
};
use tokio::net::TcpListener;

/// Creates a test of each of these functions in a Chromium, on every broker.
macro_rules! in_chromium {
    ($($case:ident)*) => {
        mod in_chromium_on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(super::Scene::on(crate::common::Bed::sqlite().await).await).await;
            })*
        }

        mod in_chromium_on_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(super::Scene::on(crate::common::Bed::redis().await).await).await;
            })*
        }
    };
}

in_chromium! {
    a_person_filters_selects_acts_and_goes_back
    a_person_searches_all_queues_and_goes_on
    an_open_page_changes_and_keeps_what_is_selected
    a_person_watches_pauses_and_goes_on
    a_person_lists_pauses_runs_and_backfills_a_schedule
    a_person_weighs_pauses_and_clears_a_group
    a_person_asks_a_worker_to_claim_nothing_and_to_stop
    a_person_sets_a_limit_and_takes_it_back
    a_person_stops_what_is_done_to_all_jobs
    a_person_goes_on_with_what_is_done_to_all_jobs
    a_person_edits_a_job_that_waits_and_copies_it
    a_person_acts_on_what_the_page_names
    a_person_lets_all_run_again_that_failed_alike
    every_page_works_without_script
    hostile_texts_are_only_read
    every_page_fits_its_window_and_can_be_read
}

struct Scene {
    bed: Bed,
    url: String,
    calls: Arc<Calls>,
}

impl Scene {
    async fn on(bed: Bed) -> Scene {
        let calls = Arc::new(Calls::default());
        let dashboard: Router =
            queue_dashboard::router(bed.client.with_observer(calls.clone())).authorize(|_: &Parts| Some(Person::new("ada", Role::Admin)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/ops/queue", listener.local_addr().unwrap());
        let app = Router::new().nest("/ops/queue", dashboard);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Scene { bed, url, calls }
    }

    async fn count(&self, state: JobState) -> u64 {
        self.bed.client.inspector().stats("mail").await.unwrap().count(state)
    }
}

const LONG_QUEUE: &str = "a-queue-with-a-name-that-is-as-long-as-names-of-queues-can-be-in-real-life";

/// A lease that is longer than every test.
const LEASE: Duration = Duration::from_secs(600);

impl Scene {
    /// A worker that runs a job and reports its progress. Returns the path of its page.
    async fn busy_worker(&self) -> String {
        let (broker, process) = (self.bed.client.broker(), ProcessId::random());
        let long = "a-release-with-a-name-that-is-as-long-as-they-are-0123456789abcdef";
        let info = WorkerInfo::new("a-host-with-a-name-that-is-long.example.com", 4711, long, ["send"]);
        let lane = broker.register(&Register::lane(LONG_QUEUE, process, LEASE).with_info(info)).await.unwrap().name;
        let turn = Turn::new(LONG_QUEUE, lane.clone(), 1, LEASE).claim(1);
        let job = broker.turn(&turn).await.unwrap().deliveries.pop().expect("a job waits");
        let mut observed = JobProgress::new(job.id.clone(), job.claim, 1);
        observed.progress = Some(ProgressNow::new(1, Some(0.25), "a long message without an end in sight ".repeat(5), None));
        let mut reported = ProgressReport::new(LONG_QUEUE, lane.clone());
        reported.jobs.push(observed);
        broker.store_progress(&reported).await.unwrap();
        let load = WorkerLoad::new(1, 8).using(Some(48_234_496), Some(12_570)).working(WorkerMode::Quiet, 1);
        broker.extend(&[Extend::new(LONG_QUEUE, lane, 1, LEASE).with_load(load)]).await.remove(0).unwrap();
        format!("/worker?id={process}")
    }
}

/// Runs the browser on a blocking thread, so that the tasks of the server continue.
fn browse<T>(work: impl FnOnce(Browser) -> T) -> T {
    tokio::task::block_in_place(|| work(Browser::start()))
}

async fn a_person_filters_selects_acts_and_goes_back(scene: Scene) {
    for id in ["a-1", "a-2", "b-1"] {
        scene.bed.enqueue(id, Some("mailbox is full")).await;
    }
    scene.bed.work_until(JobState::Dead, 3).await;
    let url = scene.url.clone();
    let browser = browse(|browser| {
        browser.open(&url);
        browser.wait_for_text("mailbox is full");
        browser.go("gj", "/jobs");
        // Without a state in the address, failed jobs come first.
        browser.wait_for_count("[data-pick]", 3);
        browser.keys("/");
        browser.wait("document.activeElement.name === 'text'");
        browser.write("[name=text]", "a-\u{e007}");
        browser.wait("document.querySelectorAll('[data-pick]').length === 2");
        // Without a selection, no action is possible.
        browser.wait_for_count("[data-verb]:disabled", 2);
        browser.click("[data-pick]");
        browser.wait("document.querySelector('[data-chosen]').textContent === '1 job selected'");
        browser.click("[formaction$='/requeue']");
        browser.wait_for_text("1 job was requeued.");
        browser.wait_for_count("[data-pick]", 1);
        assert!(browser.url().contains("text=a-"), "the filter stays: {}", browser.url());
        // The script shows it.
        browser.wait("!document.querySelector('[data-all]').parentElement.hidden");
        browser.click("[data-all]");
        browser.click("[formaction$='/delete']");
        browser.wait("document.querySelector('h1').textContent.startsWith('Delete this job?')");
        browser.back();
        browser.wait("document.querySelector('[data-pick]') && !document.querySelector('[data-all]').parentElement.hidden");
        browser.click("[data-all]");
        browser.wait("document.querySelector('[data-pick]').checked || (document.querySelector('[data-all]').click(), false)");
        browser.click("[formaction$='/delete']");
        browser.click("button.danger");
        browser.wait("document.querySelector('.notice.good')");
        browser.open(&format!("{url}/jobs?state=dead"));
        browser.click("table.jobs th a");
        browser.wait("document.querySelector('.timeline')");
        browser.wait_for_text("mail/b-1");
        assert!(!browser.text().contains("hunter2"), "{}", browser.text());
        browser.click("[formaction$='/requeue']");
        browser.wait("document.querySelector('.badge.state').textContent === 'ready'");
        browser.click("[formaction$='/cancel']");
        browser.click("button.danger");
        browser.wait("document.querySelector('.badge.state').textContent === 'cancelled'");
        browser
    });
    assert_eq!((scene.count(JobState::Dead).await, scene.count(JobState::Ready).await, scene.count(JobState::Cancelled).await), (0, 1, 1));
    tokio::task::block_in_place(|| {
        browser.open(&format!("{url}/queues"));
        browser.click("td.act button");
        browser.wait("document.querySelector('td.act button').textContent === 'Resume'");
        assert_eq!(browser.complaints(), [""; 0]);
    });
    assert!(scene.bed.client.inspector().stats("mail").await.unwrap().paused);
}

async fn a_person_searches_all_queues_and_goes_on(scene: Scene) {
    for n in 0..55 {
        scene.bed.enqueue(&format!("job-{n:02}"), None).await;
    }
    send_mail::job("a".to_owned(), None, None).queue(LONG_QUEUE).enqueue(&scene.bed.client).await.unwrap();
    let url = scene.url.clone();
    browse(|browser| {
        browser.open(&format!("{url}/jobs"));
        browser.click(".head a[href$='/search']");
        browser.wait("document.querySelector('h1').textContent === 'Search'");
        browser.write("[name=filter]", "task=send_mail attempts=0\u{e007}");
        browser.wait_for_count("table.jobs tbody tr", 50);
        browser.wait_for_text(LONG_QUEUE);
        browser.click("a[rel=next]");
        browser.wait_for_count("table.jobs tbody tr", 6);
        browser.wait_for_text("Examined 56 of 56 jobs");
        browser.open(&format!("{url}/search?filter=id%3Djob-07"));
        browser.wait_for_count("table.jobs tbody tr", 1);
        browser.click("table.jobs th a");
        browser.wait("document.querySelector('.timeline')");
        browser.open(&format!("{url}/search?filter=state%3Ddead"));
        browser.wait_for_text("No job matches the filter.");
        browser.open(&format!("{url}/search?filter=taks%3Da"));
        browser.wait_for_text("did you mean `task`?");
        browser.open(&format!("{url}/search?filter=payload~hunter2"));
        browser.wait_for_text("hidden values stay hidden");
        assert_eq!(browser.count("table.jobs"), 0, "what is hidden cannot be found out");
        assert_eq!(browser.complaints(), [""; 0]);
    });
}

async fn a_person_watches_pauses_and_goes_on(scene: Scene) {
    scene.bed.enqueue("first", None).await;
    let url = scene.url.clone();
    let browser = browse(|browser| {
        browser.open(&format!("{url}/jobs"));
        browser.click(".head a[href$='/watch']");
        browser.wait("document.querySelector('h1').textContent === 'Watch'");
        browser.write("[name=filter]", "queue=mail task=send_mail\u{e007}");
        browser.wait("document.getElementById('signal').textContent.trim() === 'Live'");
        browser.wait_for_text("No transitions since this page was opened.");
        browser
    });
    // The watch has begun when the mark is set, and the stream reads after it.
    let reads = || scene.calls.snapshot().iter().any(|(verb, of)| *verb == "transitions" && of.calls > 0);
    queue_tests::patience::until("the page reads transitions", async || reads()).await;
    scene.bed.enqueue("second", None).await;
    tokio::task::block_in_place(|| {
        browser.wait_for_count("table.jobs tbody tr", 1);
        assert!(browser.text().contains("second") && browser.text().contains("new"), "{}", browser.text());
        browser.script("document.querySelector('table.jobs tbody tr').seen = 'yes'");
        browser.click("[data-pause]");
        browser.wait("document.querySelector('[data-pause]').textContent === 'Continue'");
        browser.wait("document.getElementById('signal').textContent.trim() === 'Paused'");
    });
    let mut other = scene.bed.client.watch("queue=mail".parse().unwrap()).unwrap();
    assert!(other.next_within(Duration::ZERO).await.unwrap().is_none(), "it begins here");
    scene.bed.enqueue("third", None).await;
    scene.bed.client.inspector().cancel(&"mail/second".parse().unwrap()).await.unwrap();
    // Another watcher receives both transitions. A page that is not paused would receive them as
    // well.
    for _ in 0..2 {
        other.next_within(Duration::from_secs(20)).await.unwrap().expect("it is told in time");
    }
    tokio::task::block_in_place(|| {
        assert_eq!(browser.count("table.jobs tbody tr"), 1, "it stands still");
        browser.click("[data-pause]");
        // The transitions since then are above the earlier ones.
        browser.wait_for_count("table.jobs tbody tr", 3);
        browser.wait("document.querySelector('table.jobs tbody tr td[data-label=to]').textContent === 'cancelled'");
        let seen = "return [...document.querySelectorAll('table.jobs tbody tr')].map((row) => row.seen || 'no').join()";
        assert_eq!(browser.script(seen), "no,no,yes", "the row that was there is the same one");
        assert_eq!(browser.complaints(), [""; 0]);
        browser.open(&format!("{url}/watch?filter=payload~hunter2"));
        browser.wait_for_text("transitions do not have");
    });
}

/// Another program has replaced the key. The reason why the queue cannot be watched is above the
/// page of this queue, and in a row of the page of all queues, until the key is repaired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_sees_why_a_queue_cannot_be_watched() {
    let server = Server::start(Kind::Redis);
    let scene = Scene::on(common::Bed::at(&server).await).await;
    scene.bed.enqueue("first", None).await;
    let url = scene.url.clone();
    let begin = |path: &str| {
        browse(|browser| {
            browser.open(&format!("{url}{path}"));
            browser.wait("document.getElementById('signal').textContent.trim() === 'Live'");
            assert_eq!(browser.count("[role=alert]"), 0);
            browser
        })
    };
    let (one, all) = (begin("/watch?filter=queue%3Dmail"), begin("/watch"));
    let key = "queue:{mail}:transitions";
    server.command(&["DEL", key]);
    server.command(&["SET", key, "another program"]);
    tokio::task::block_in_place(|| {
        one.wait("document.querySelector('[role=alert]')");
        let problem = one.script("return document.querySelector('[role=alert]').textContent").to_string();
        assert!(problem.contains(key) && problem.contains("doctor"), "{problem}");
        one.wait_for_text("Nothing was logged so far.");
        all.wait_for_text("mail cannot be watched, its transitions are lost");
        assert_eq!(all.count("[role=alert]"), 0, "the other queues are watched");
    });
    server.command(&["DEL", key]);
    scene.bed.enqueue("second", None).await;
    tokio::task::block_in_place(|| {
        for browser in [one, all] {
            browser.wait("document.querySelector('table.jobs tbody tr td[data-label=to]')?.textContent === 'ready'");
            assert_eq!(browser.count("[role=alert]"), 0, "it has passed");
            assert_eq!(browser.complaints(), [""; 0]);
        }
    });
}

/// The broker goes away and comes back. An open page shows how old it is, keeps its content, and
/// continues afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_sees_an_outage_and_its_end_on_the_page_of_a_job() {
    let mut server = Server::durable(Kind::Redis);
    let scene = Scene::on(common::Bed::at(&server).await).await;
    scene.bed.enqueue("first", None).await;
    let url = scene.url.clone();
    let browser = browse(|browser| {
        browser.open(&format!("{url}/jobs/mail/first"));
        browser.wait("document.getElementById('signal').textContent.trim() === 'Live'");
        browser.wait("document.querySelector('.badge.state').textContent === 'ready'");
        browser
    });
    server.kill();
    tokio::task::block_in_place(|| {
        browser.wait(
            "document.querySelector('.banner.bad time') && document.querySelector('.banner.bad').textContent.includes('does not answer')",
        );
        browser.wait("/^[0-9]+ s ago$/.test(document.querySelector('.banner.bad time').textContent)");
        browser.wait("document.getElementById('signal').textContent.trim().startsWith('Not up to date')");
        assert_eq!(browser.count(".badge.state"), 1, "what was seen stays");
    });
    server.restart();
    let cancel = async || scene.bed.client.inspector().cancel(&"mail/first".parse().unwrap()).await.is_ok();
    queue_tests::patience::until("the broker is back", cancel).await;
    tokio::task::block_in_place(|| {
        browser.wait("document.querySelector('.badge.state').textContent === 'cancelled' && !document.querySelector('.banner')");
        browser.wait("document.getElementById('signal').textContent.trim() === 'Live'");
        assert_eq!(browser.complaints(), [""; 0]);
    });
}

/// Names that a browser changes when it sends them.
async fn a_person_acts_on_what_the_page_names(scene: Scene) {
    let group = GroupName::new("line\nfeed").unwrap();
    let job = |id: &str| send_mail::job("ada".to_owned(), None, None).id(id).group("line\nfeed");
    for id in ["a%41", "..", "late"] {
        job(id).delay(Duration::from_secs(if id == "late" { 3600 } else { 0 })).enqueue(&scene.bed.client).await.unwrap();
    }
    send_mail::job("ada".to_owned(), None, None).id("aA").enqueue(&scene.bed.client).await.unwrap();
    let (url, inspector) = (scene.url.clone(), scene.bed.client.inspector());
    let browser = browse(|browser| {
        for id in ["a%41", ".."] {
            browser.open(&format!("{url}/jobs?state=ready"));
            browser.click(&format!("[title='mail/{id}']"));
            browser.wait(&format!("document.querySelector('.address')?.textContent === 'mail/{id}'"));
            browser.click("[formaction$='/cancel']");
            browser.click("button.danger");
            browser.wait("document.querySelector('.badge.state')?.textContent === 'cancelled'");
            browser.wait(&format!("document.querySelector('.address').textContent === 'mail/{id}'"));
        }
        browser.open(&format!("{url}/jobs/mail/late/edit"));
        browser.script("document.querySelector('[name=priority]').value = 'high'");
        browser.click(".edit [type=submit]");
        browser.wait_for_text("The job was changed.");
        browser.open(&format!("{url}/group?queue=mail&group=line%0Afeed"));
        browser.click("[formaction$='/groups/pause']");
        browser.wait_for_text("The group is paused.");
        browser.write("[name=cap]", "3");
        browser.click("[action$='/groups/set'] button");
        browser.wait_for_text("The rule is set.");
        assert_eq!(browser.complaints(), [""; 0]);
        browser
    });
    let states = async |id: &str| inspector.show(&format!("mail/{id}").parse().unwrap()).await.unwrap();
    assert_eq!(states("aA").await.state, JobState::Ready, "it is another job");
    let late = states("late").await;
    assert_eq!((late.priority, late.group.as_ref()), (Priority::High, Some(&group)));
    let rule = inspector.group("mail", &group).await.unwrap().rule;
    assert!(rule.paused && rule.cap == Some(3), "{rule}");
    drop(browser);
}

async fn an_open_page_changes_and_keeps_what_is_selected(scene: Scene) {
    scene.bed.enqueue("first", None).await;
    let url = scene.url.clone();
    let browser = browse(|browser| {
        browser.open(&format!("{url}/jobs?state=ready"));
        browser.wait("document.getElementById('signal').textContent.trim() === 'Live'");
        browser.click("[data-pick][value='mail/first']");
        browser.write("[name=task]", "send");
        browser
    });
    scene.bed.enqueue("second", None).await;
    tokio::task::block_in_place(|| {
        browser.wait("document.querySelector('[data-pick][value=\"mail/second\"]')");
        let kept = "return [document.querySelector('[data-pick][value=\"mail/first\"]').checked, document.activeElement.name, document.activeElement.value].join()";
        assert_eq!(browser.script(kept), "true,task,send", "what a person was doing goes on");
        // In a hidden tab the page sends no requests.
        browser.script("Object.defineProperty(document, 'hidden', { value: true, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))");
        browser.wait("document.getElementById('signal').textContent.trim() === 'Paused'");
    });
    let total = || scene.calls.snapshot().values().map(|verb| verb.calls).sum::<u64>();
    queue_tests::patience::until("nothing is asked", async || {
        let before = total();
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        total() == before
    })
    .await;
    scene.bed.enqueue("third", None).await;
    tokio::task::block_in_place(|| {
        browser.script("Object.defineProperty(document, 'hidden', { value: false, configurable: true }); document.dispatchEvent(new Event('visibilitychange'))");
        browser.wait("document.querySelector('[data-pick][value=\"mail/third\"]')");
        assert_eq!(browser.complaints(), [""; 0]);
    });
}

async fn a_person_weighs_pauses_and_clears_a_group(scene: Scene) {
    scene.bed.grouped("acme", 1_200).await;
    scene.bed.grouped("globex", 2).await;
    let (url, acme) = (scene.url.clone(), GroupName::new("acme").unwrap());
    let browser = browse(|browser| {
        browser.open(&url);
        browser.go("gr", "/groups");
        browser.wait("document.getElementById('signal').textContent.trim() === 'Live'");
        let text = browser.text();
        assert!(text.contains("acme") && text.contains("1,200") && text.contains("100 %") && text.contains("ready"), "{text}");
        browser.click("td.act button");
        browser.wait_for_text("The group is paused. Its running jobs continue.");
        browser.click("tbody th a");
        browser.wait_for_text("Paused: ");
        browser.wait_for_count("li.next", 10);
        browser.click("[formaction$='/groups/resume']");
        browser.wait_for_text("The group is resumed.");
        browser.write("[name=reason]", "unpaid, ticket 4711");
        browser.click("[formaction$='/groups/pause']");
        browser.wait_for_text(": unpaid, ticket 4711.");
        browser.write("[name=weight]", "3");
        browser.write("[name=cap]", "5");
        browser.click("[action$='/groups/set'] button");
        browser.wait_for_text("The rule is set.");
        browser.wait_for_text("0 of 5");
        browser
    });
    let group = scene.bed.client.inspector().group("mail", &acme).await.unwrap();
    assert_eq!((group.rule.weight, group.rule.cap, group.rule.paused), (Some(3), Some(5), true));
    // The change of another operator is shown without a click.
    scene.bed.client.inspector().resume_group("mail", &acme).await.unwrap();
    tokio::task::block_in_place(|| {
        browser.wait_for_text("1,200 jobs are ready. The first does not run: no live worker serves its queue.");
        browser.click("[formaction$='/groups/drain']");
        browser.wait_for_text("Cancel the waiting jobs of acme?");
        browser.back();
        browser.wait("document.querySelector(\"[formaction$='/groups/drain']\")");
        browser.click("[formaction$='/groups/drain']");
        browser.wait_for_text("Cancel the waiting jobs of acme?");
        browser.write("[name=reason]", "left");
        browser.click("button.danger");
        browser.wait_for_text("1,200 jobs were cancelled.");
        assert_eq!(browser.complaints(), [""; 0]);
    });
    assert_eq!((scene.count(JobState::Ready).await, scene.count(JobState::Cancelled).await), (2, 1_200));
}

async fn a_person_asks_a_worker_to_claim_nothing_and_to_stop(scene: Scene) {
    let broker = scene.bed.client.broker();
    let process = ProcessId::random();
    let lane = broker.register(&Register::lane("mail", process, LEASE)).await.unwrap().name;
    let heartbeat = async |mode, heard| {
        let load = WorkerLoad::new(2, 8).using(Some(48_234_496), Some(1_257)).working(mode, heard);
        broker.extend(&[Extend::new("mail", lane.clone(), 0, LEASE).with_load(load)]).await.remove(0).unwrap().asked.map(|ask| ask.mode)
    };
    assert_eq!(heartbeat(WorkerMode::Works, 0).await, None);
    let url = scene.url.clone();
    let browser = browse(|browser| {
        browser.open(&url);
        browser.go("gw", "/workers");
        browser.wait_for_text("46.0 MiB");
        browser.click("tbody th a");
        browser.wait_for_text("2 of 8");
        browser.wait("document.getElementById('signal').textContent.trim() === 'Live'");
        browser.click("[formaction$='/workers/quiet']");
        browser.wait_for_text("The worker is asked to claim nothing.");
        browser.wait_for_text("asked: quiet");
        browser
    });
    assert_eq!(heartbeat(WorkerMode::Quiet, 1).await, Some(WorkerMode::Quiet));
    // The report of the worker is shown without a click.
    tokio::task::block_in_place(|| {
        browser.wait("document.querySelector(\"[formaction$='/workers/resume']\") && !document.body.textContent.includes('asked: quiet')");
        browser.click("[formaction$='/workers/stop']");
        browser.wait_for_text("Stop the worker");
        browser.click("button.danger");
        browser.wait_for_text("The worker is asked to stop.");
        assert_eq!(browser.complaints(), [""; 0]);
    });
    assert_eq!(heartbeat(WorkerMode::Stopping, 2).await, Some(WorkerMode::Stopping));
}

async fn a_person_sets_a_limit_and_takes_it_back(scene: Scene) {
    scene.bed.limited("acct_17").await;
    let url = scene.url.clone();
    let browser = browse(|browser| {
        browser.open(&url);
        browser.go("gl", "/limits");
        browser.wait_for_text("stripe");
        browser.click("tbody th a");
        browser.wait_for_text("acct_17");
        browser.wait("document.getElementById('signal').textContent.trim() === 'Live'");
        browser.write("[name=concurrency]", "2");
        browser.click("[action$='/limits/set'] button");
        browser.wait_for_text("The limit is set.");
        browser.wait_for_text("1 / 2");
        browser
    });
    // The change of another operator is shown without a click.
    scene.bed.client.inspector().set_limit("pay", "stripe", |rule| rule.concurrency = Some(7)).await.unwrap();
    tokio::task::block_in_place(|| {
        browser.wait_for_text("1 / 7");
        browser.click("[action$='/limits/remove'] button");
        browser.wait_for_text("The setting was removed.");
        assert_eq!(browser.complaints(), [""; 0]);
    });
}

async fn a_person_stops_what_is_done_to_all_jobs(scene: Scene) {
    send_mail::job("ada@example.com".to_owned(), None, None).enqueue(&scene.bed.client).await.unwrap();
    let inspector = scene.bed.client.inspector();
    let new = NewOperation::new(OperationKind::Cancel, "state=ready".parse().unwrap()).by("ada").detached();
    let url = scene.url.clone();
    let browser = browse(|browser| {
        browser.open(&url);
        browser.go("gp", "/operations");
        browser.wait_for_text("There are no operations yet.");
        browser.wait("document.getElementById('signal').textContent.trim() === 'Live'");
        browser
    });
    // The change of another operator is shown without a click.
    inspector.start_operation("mail", &new).await.unwrap();
    tokio::task::block_in_place(|| {
        browser.wait_for_text("running");
        browser.click("[action$='/operations/stop'] button");
        browser.wait_for_text("It is stopped. Its changes remain.");
        browser.wait_for_text("stopped");
        assert_eq!(browser.complaints(), [""; 0]);
    });
    assert_eq!(inspector.stats("mail").await.unwrap().count(JobState::Ready), 1);
}

async fn a_person_goes_on_with_what_is_done_to_all_jobs(scene: Scene) {
    send_mail::job("ada@example.com".to_owned(), None, None).enqueue(&scene.bed.client).await.unwrap();
    let inspector = scene.bed.client.inspector().because("a wrong import");
    let cancel = || NewOperation::new(OperationKind::Cancel, "state=ready".parse().unwrap()).by("ada").detached();
    let first = inspector.start_operation("mail", &cancel()).await.unwrap();
    let url = scene.url.clone();
    let browser = browse(|browser| {
        browser.open(&format!("{url}/operations"));
        browser.click("th[scope=row] a[href*='/operation?']");
        browser.wait_for_text("a wrong import");
        browser.wait("document.querySelector('progress').value === 0");
        browser.click("button[formaction$='/operations/resume']");
        browser.wait_for_text("completed");
        browser.wait("document.querySelector('progress').value === 100 && !document.querySelector('[action$=\"/operations/stop\"]')");
        browser
    });
    assert_eq!(inspector.stats("mail").await.unwrap().count(JobState::Cancelled), 1);
    let second = inspector.start_operation("mail", &cancel()).await.unwrap();
    tokio::task::block_in_place(|| {
        browser.open(&format!("{url}/operation?queue=mail&id={}", second.id));
        browser.click("[action$='/operations/stop'] button.harmful");
        browser.wait_for_text("It is stopped. Its changes remain.");
        browser.wait_for_text("stopped");
        assert_eq!(browser.complaints(), [""; 0]);
    });
    assert_eq!(inspector.operation("mail", &first.id).await.unwrap().changed, 1);
}

async fn a_person_edits_a_job_that_waits_and_copies_it(scene: Scene) {
    let job = send_mail::job("ada@example.com".to_owned(), None, None).id("late").delay(Duration::from_secs(3600));
    job.enqueue(&scene.bed.client).await.unwrap();
    let (url, inspector) = (scene.url.clone(), scene.bed.client.inspector());
    let address = "mail/late".parse().unwrap();
    let browser = browse(|browser| {
        browser.open(&format!("{url}/jobs/mail/late"));
        browser.click("a[href$='/mail/late/edit']");
        browser.wait("document.querySelector('.edit textarea') && document.readyState === 'complete'");
        assert!(browser.script("return document.querySelector('textarea').value").as_str().unwrap_or_default().contains("ada@example.com"));
        assert!(browser.script("return document.querySelector('[name=priority]').value").as_str().unwrap_or_default().contains("normal"));
        assert!(
            browser.script("return document.querySelector('[name=at]').value").as_str().unwrap_or_default().contains("T"),
            "it is prefilled with its time"
        );
        browser.script("document.querySelector('textarea').value = document.querySelector('textarea').value.replace('ada@', 'grace@')");
        browser.script("document.querySelector('[name=priority]').value = 'high'");
        browser.write("[name=group]", "vip");
        browser.write("[name=max_attempts]", "3");
        browser.click(".edit [type=submit]");
        browser.wait_for_text("The job was changed.");
        browser.wait_for_text("grace@example.com");
        browser
    });
    let record = inspector.show(&address).await.unwrap();
    assert_eq!((record.priority, record.group.as_ref().unwrap().as_str(), record.max_attempts), (Priority::High, "vip", Some(3)));
    assert!(record.payload_json().unwrap().contains("grace@example.com"));
    // Another operator changes the job while the form is open.
    tokio::task::block_in_place(|| {
        browser.open(&format!("{url}/jobs/mail/late/edit"));
        browser.wait("document.querySelector('.edit textarea') && document.readyState === 'complete'");
    });
    inspector.edit(&address, &Edit::new().priority(Priority::Critical)).await.unwrap();
    tokio::task::block_in_place(|| {
        browser.write("[name=group]", "!");
        browser.click(".edit [type=submit]");
        browser.wait_for_text("The job has changed");
        browser.wait_for_text("its priority was high and is critical");
        browser.open(&format!("{url}/jobs/mail/late"));
        browser.click("a[href$='/mail/late/duplicate']");
        browser.wait("document.querySelector('.edit [name=queue]')");
        browser.click(".edit [type=submit]");
        browser.wait_for_text("This is the copy.");
        browser.wait_for_text("grace@example.com");
        let complaints = browser.complaints();
        assert!(complaints.iter().all(|complaint| complaint.contains("409 (Conflict)")), "{complaints:?}");
    });
    assert_eq!(inspector.show(&address).await.unwrap().priority, Priority::Critical, "nobody was overwritten");
    assert_eq!(scene.count(JobState::Scheduled).await, 2);
}

async fn a_person_lets_all_run_again_that_failed_alike(scene: Scene) {
    for n in 0..7 {
        scene.bed.enqueue(&format!("job-{n}"), Some(if n < 5 { "order 17: no stock" } else { "smtp says 550" })).await;
    }
    scene.bed.work_until(JobState::Dead, 7).await;
    let url = scene.url.clone();
    browse(|browser| {
        browser.open(&url);
        browser.go("gf", "/failures");
        browser.wait("document.getElementById('signal').textContent.trim() === 'Live'");
        browser.wait_for_text("order *: no stock");
        browser.click(&format!("[id$='-{}'] [formaction$='/jobs/requeue']", Fingerprint::of("order 1: no stock")));
        browser.wait_for_text("Requeue all dead jobs of mail that failed so?");
        browser.click("button.danger");
        browser.wait_for_text("5 jobs were requeued.");
        assert_eq!(browser.complaints(), [""; 0]);
    });
    assert_eq!((scene.count(JobState::Ready).await, scene.count(JobState::Dead).await), (5, 2));
}

/// Writes into the two fields of the form, whose keys depend on the language of the browser.
const SPAN: &str = "for (const [name, value] of [['from', '2026-03-01T00:00'], ['to', '2026-03-07T12:00']]) document.querySelector('[name=' + name + ']').value = value";

async fn a_person_lists_pauses_runs_and_backfills_a_schedule(scene: Scene) {
    let nightly = scene.bed.schedule("nightly", "0 3 * * *").await;
    let url = scene.url.clone();
    let browser = browse(|browser| {
        browser.open(&url);
        browser.go("gs", "/schedules");
        browser.wait("document.getElementById('signal').textContent.trim() === 'Live'");
        let text = browser.text();
        assert!(text.contains("mail/nightly") && text.contains("at 03:00") && text.contains("UTC") && text.contains("no worker"), "{text}");
        browser.keys("/");
        browser.wait("document.activeElement.name === 'queue'");
        browser.write("[name=queue]", "mail\u{e007}");
        browser.wait("location.search.includes('queue=mail')");
        browser.click("td.act button");
        browser.wait_for_text("The schedule is paused. Its jobs continue.");
        browser.wait("document.querySelector('td.act button').textContent === 'Resume' && location.search.includes('queue=mail')");
        browser.click("tbody th a");
        browser.wait_for_text("None: it is paused.");
        browser.click("[formaction$='/schedules/run']");
        browser.wait_for_text("A job was created.");
        browser
    });
    assert_eq!(scene.count(JobState::Ready).await, 1, "it is run while it is paused");
    tokio::task::block_in_place(|| {
        browser.click("[formaction$='/schedules/resume']");
        browser.wait_for_text("The schedule is resumed.");
        browser.wait_for_count("li.next", 5);
        // An operator continues to type while the page is updated.
        browser.wait("document.getElementById('signal').textContent.trim() === 'Live'");
        browser.script(SPAN);
        browser.click("[action$='/schedules/backfill'] button");
        browser.wait_for_text("Create the jobs of 7 ticks?");
        browser.back();
        browser.wait("document.querySelector('[name=from]') && document.querySelector('[name=to]')");
        browser.script(SPAN);
        browser.click("[action$='/schedules/backfill'] button");
        browser.click("button.primary");
        browser.wait_for_text("7 ticks: 7 jobs were made.");
    });
    assert_eq!(scene.count(JobState::Ready).await, 8);
    scene.bed.work_until(JobState::Done, 8).await;
    tokio::task::block_in_place(|| {
        browser.wait("[...document.querySelectorAll('.timeline a')].filter((a) => a.textContent === 'done').length === 8");
        browser.click(".timeline a");
        browser.wait("document.querySelector('.badge.state').textContent === 'done'");
        assert_eq!(browser.complaints(), [""; 0]);
    });
    assert!(scene.bed.client.schedules().get(&nightly).await.unwrap().unwrap().paused.is_none());
}

async fn every_page_works_without_script(scene: Scene) {
    for n in 0..60 {
        scene.bed.enqueue(&format!("job-{n:02}"), None).await;
    }
    scene.bed.schedule("nightly", "0 3 * * *").await;
    let url = scene.url.clone();
    browse(|browser| {
        browser.scripts(false);
        browser.open(&url);
        browser.wait_for_text("No live worker serves the queue mail");
        assert_eq!(browser.count("#signal:not([hidden])") + browser.count("#theme:not([hidden])") + browser.count(".all:not([hidden])"), 0);
        browser.click("nav a[href$='/jobs']");
        browser.click("a[rel=next]");
        browser.wait_for_count("[data-pick]", 10);
        browser.back();
        browser.wait_for_count("[data-pick]", 50);
        browser.write("[name=text]", "job-07");
        browser.click(".filter button");
        browser.wait_for_count("[data-pick]", 1);
        browser.click("[data-pick]");
        browser.click("[formaction$='/cancel']");
        browser.click("button.danger");
        browser.wait_for_text("1 job was cancelled.");
        browser.open(&format!("{url}/queues"));
        browser.click("td.act button");
        browser.wait_for_text("The queue is paused.");
        browser.open(&format!("{url}/jobs/mail/job-07"));
        browser.wait_for_text("Cancelled");
        browser.click("nav a[href$='/schedules']");
        browser.click("td.act button");
        browser.wait_for_text("The schedule is paused.");
        browser.click("tbody th a");
        browser.click("[formaction$='/schedules/run']");
        browser.wait_for_text("A job was created.");
    });
    assert_eq!((scene.count(JobState::Cancelled).await, scene.count(JobState::Ready).await), (1, 60));
}

async fn hostile_texts_are_only_read(scene: Scene) {
    let texts = [
        "\"><script>window.owned = 1</script>",
        "<img src=x onerror=\"window.owned = 1\">",
        "</pre><svg onload=window.owned=1>",
        "\u{202e}gnp.exe\r\n\r\nevent: gone\r\ndata: <b id=owned>",
    ];
    for (i, text) in texts.iter().enumerate() {
        let job = hostile::job((*text).to_owned(), false).id(format!("bad-{i}")).header(format!("x{text}"), (*text).to_owned());
        job.enqueue(&scene.bed.client).await.unwrap();
    }
    scene.bed.work_until(JobState::Dead, 4).await;
    for (i, text) in texts.iter().enumerate() {
        common::hostile_schedule(&scene.bed, &format!("bad-{i}"), text).await;
    }
    let url = scene.url.clone();
    browse(|browser| {
        let pages = ["", "/jobs?state=dead", "/jobs/mail/bad-0", "/jobs/mail/bad-1", "/jobs/mail/bad-2", "/jobs/mail/bad-3"];
        let search = "/jobs?state=dead&text=%22%3E%3Cscript%3Ewindow.owned%3D1%3C%2Fscript%3E";
        let schedules = [
            "/schedules",
            "/schedules/mail/bad-0",
            "/schedules/mail/bad-2",
            "/schedules/mail/broken-bad-1",
            "/schedules/mail/broken-bad-3",
        ];
        for page in pages.into_iter().chain([search]).chain(schedules) {
            browser.open(&format!("{url}{page}"));
            // This also holds after the script has updated the page.
            browser.wait("document.getElementById('signal').textContent.trim() === 'Live'");
            assert_eq!(
                browser.script("return window.owned === undefined && !document.getElementById('owned') && document.scripts.length === 1"),
                true,
                "{page}"
            );
        }
        browser.open(&format!("{url}/jobs/mail/bad-0"));
        // The text is shown without changes.
        browser.wait_for_text(texts[0]);
        assert_eq!(browser.complaints(), [""; 0]);
    });
}

/// The lowest contrast of all texts with their background, and the elements that are wider than
/// their window.
const READABLE: &str = r"
const linear = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
const rgba = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
const over = (top, under) => { const a = top[3] / 255; return [0, 1, 2].map((i) => top[i] * a + under[i] * (1 - a)); };
const bad = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const element = walk.currentNode.parentElement, style = getComputedStyle(element);
  if (!walk.currentNode.data.trim() || !element.checkVisibility() || element.closest('.hide, .skip, :disabled, noscript, datalist')) continue;
  const behind = [];
  let opacity = 1;
  for (let at = element; at; at = at.parentElement) { const s = getComputedStyle(at); behind.unshift(rgba(s.backgroundColor)); opacity *= Number(s.opacity); }
  const under = behind.reduce((below, top) => over(top, below), [255, 255, 255]);
  const color = rgba(style.color); color[3] *= opacity;
  const [a, b] = [light(over(color, under)), light(under)].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05), large = parseFloat(style.fontSize) >= 24;
  if (ratio < (large ? 3 : 4.5)) bad.push(walk.currentNode.data.trim().slice(0, 30) + ' ' + ratio.toFixed(2));
}
for (const input of document.querySelectorAll('input:not([type=hidden]), select')) if (!input.labels?.length && !input.ariaLabel) bad.push('no label: ' + input.outerHTML);
for (const button of document.querySelectorAll('button, a')) if (button.checkVisibility() && !(button.textContent.trim() || button.ariaLabel)) bad.push('no name: ' + button.outerHTML);
const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
for (const id of new Set(ids)) if (ids.filter((each) => each === id).length > 1) bad.push('twice: ' + id);
if (document.documentElement.scrollWidth > document.documentElement.clientWidth) bad.push('wider than its window: ' + [...document.querySelectorAll('body *')].filter((element) => element.getBoundingClientRect().right > document.documentElement.clientWidth).slice(0, 3).map((element) => element.outerHTML.slice(0, 90)).join());
for (const box of document.querySelectorAll('.scroll, nav')) if (box.scrollWidth > box.clientWidth + 1) bad.push('cut: ' + (box.ariaLabel || box.firstElementChild?.className) + ' ' + box.scrollWidth + ' in ' + box.clientWidth);
const words = document.createTreeWalker(document.getElementById('live'), NodeFilter.SHOW_TEXT);
while (words.nextNode()) if (words.currentNode.data.includes('`') && !words.currentNode.parentElement.closest('.hide, pre, code')) bad.push('raw backtick: ' + words.currentNode.data.trim().slice(0, 60));
const labels = [...document.querySelectorAll('.chart span')].map((element) => element.getBoundingClientRect());
for (const [i, a] of labels.entries()) for (const b of labels.slice(i + 1)) if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) bad.push('labels overlap');
if (!document.documentElement.lang || document.querySelectorAll('h1').length !== 1) bad.push('no language, or not one heading');
return [...new Set(bad)].join('; ');
";

async fn every_page_fits_its_window_and_can_be_read(scene: Scene) {
    for n in 0..3 {
        scene.bed.enqueue(&format!("bad-{n}"), Some("mailbox is full, and this is a long message without an end in sight")).await;
    }
    scene.bed.work_until(JobState::Dead, 3).await;
    scene.bed.enqueue("waits", None).await;
    send_mail::job("a".to_owned(), None, None).queue(LONG_QUEUE).enqueue(&scene.bed.client).await.unwrap();
    scene.bed.client.inspector().pause("mail").await.unwrap();
    let nightly = scene.bed.schedule("nightly-report-of-a-customer-with-a-long-name-in-a-queue", "*/7 3-5,8,9 L JAN-MAR,JUL *").await;
    scene.bed.client.schedules().run_now(&nightly).await.unwrap();
    let march = |day: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_772_323_200 + day * 86_400);
    assert!(scene.bed.client.schedules().backfill(&nightly, march(0), march(31)).await.unwrap().jobs > 5);
    let paused = scene.bed.schedule("paused", "0 3 * * *").await;
    scene.bed.client.schedules().pause(&paused).await.unwrap();
    let of_nightly = format!("/schedules/{nightly}");
    let long = "a-customer-with-a-name-that-has-no-end-in-sight-and-is-an-address@example.com";
    scene.bed.grouped(long, 12).await;
    scene.bed.client.inspector().because("unpaid").pause_group("mail", &GroupName::new(long).unwrap()).await.unwrap();
    scene.bed.limited("an-account-with-a-name-that-has-no-end-in-sight@example.com").await;
    let topic = "a-topic-with-a-name-that-is-as-long-as-they-are";
    let payload = format!(r#"{{"note":"{}"}}"#, "a long text without an end in sight ".repeat(9));
    let event = queue_core::topics::Publication::from_json(topic, "an.event.with-a-name-that-is-long", &payload).unwrap();
    event.group(long).publish(&scene.bed.client).await.unwrap();
    let subscribe = async |name| scene.bed.client.inspector().subscribe(topic, name, queue_core::topics::Begin::Start).await.unwrap();
    assert!(subscribe("a-subscription-with-a-name-that-is-long").await && subscribe("mail").await);
    let of_worker = scene.busy_worker().await;
    let new = NewOperation::new(OperationKind::Cancel, "state=scheduled".parse().unwrap()).by("ada").detached();
    let operation = scene.bed.client.inspector().start_operation("mail", &new).await.unwrap();
    let of_operation = format!("/operation?queue=mail&id={}", operation.id);
    let of_group = format!("/group?queue=mail&group={}", long.replace('@', "%40"));
    let of_topic = format!("/topic?topic={topic}");
    let pages = [
        "/",
        "/queues",
        "/jobs",
        "/jobs?state=dead",
        "/jobs?state=expired",
        "/jobs?state=ready&queue=mail",
        "/jobs?state=active",
        "/jobs/mail/bad-0",
        "/jobs/mail/waits",
        "/jobs/mail/waits/edit",
        "/jobs/mail/waits/duplicate",
        "/search?filter=attempts%3E%3D0",
        "/search",
        "/watch",
        "/workers",
        &of_worker,
        "/history",
        "/history?queue=mail",
        "/failures",
        "/schedules",
        "/schedules?queue=none",
        &of_nightly,
        "/schedules/mail/paused",
        "/groups",
        "/groups?queue=mail",
        &of_group,
        "/group?queue=mail&group=idle",
        "/limits",
        "/limit?queue=pay&limit=stripe",
        "/operations",
        &of_operation,
        "/topics",
        &of_topic,
        "/none",
    ];
    let missing: Vec<&str> = routes().filter(|route| !pages.iter().any(|page| is_at(page, route))).collect();
    assert!(missing.is_empty(), "no page is looked at of these routes: {missing:?}");
    // Confirmation pages: the page before, the first action there, and the button that leads to
    // them.
    let last_day = SPAN.replace("03-01T", "03-30T").replace("03-07T", "03-31T");
    let sure = [
        ("/jobs/mail/bad-0", "", "[formaction$='/delete']"),
        ("/jobs?state=dead", "", "[data-all]"),
        (&*of_group, "", "[formaction$='/groups/cancel']"),
        (&*of_worker, "", "[formaction$='/workers/stop']"),
        (&*of_nightly, &*last_day, "[action$='/schedules/backfill'] button"),
        (&*of_topic, "document.querySelector('[name=to]').value = 'start'", "[action$='/topics/rewind'] button"),
    ];
    let url = scene.url.clone();
    browse(|browser| {
        let mut problems = Vec::new();
        let mut read = |name: &str| {
            // On a busy machine the driver may answer before the page is there.
            browser.wait("document.readyState === 'complete' && document.querySelector('h1')");
            for (width, height) in [(375, 812), (768, 1024), (1280, 900)] {
                for theme in ["light", "dark"] {
                    let is_dark = theme == "dark";
                    browser.look(width, height, is_dark);
                    let problem = browser.script(READABLE);
                    if problem != "" {
                        problems.push(format!("{name} at {width} pixels, {theme}: {problem}"));
                    }
                    picture(&browser, &format!("{width}-{theme}{name}"), (width, height, is_dark));
                }
            }
        };
        for page in pages {
            browser.open(&format!("{url}{}", page.strip_suffix('/').unwrap_or(page)));
            read(page);
        }
        for (page, first, button) in sure {
            browser.open(&format!("{url}{page}"));
            browser.script(first);
            browser.click(button);
            if button == "[data-all]" {
                browser.click("[formaction$='/delete']");
            }
            browser.wait("document.querySelector('.confirm, .danger')");
            read(&format!("{page}-sure"));
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
        // Every list is in the navigation, with its own letter.
        browser.open(&url);
        let links = browser.script(
            "return [...document.querySelectorAll('nav [data-key]')].map((link) => link.getAttribute('href') + ' ' + link.dataset.key)",
        );
        let links: Vec<(&str, &str)> = links.as_array().unwrap().iter().filter_map(|link| link.as_str()?.split_once(' ')).collect();
        let letters: std::collections::BTreeSet<&str> = links.iter().map(|(_, letter)| *letter).collect();
        assert_eq!(letters.len(), links.len(), "{links:?}");
        // The others have a parameter.
        for list in
            routes().filter(|route| !route.contains('{') && !["/group", "/limit", "/operation", "/topic", "/worker"].contains(route))
        {
            assert!(
                links.iter().any(|(link, _)| link.strip_prefix("/ops/queue").unwrap_or(link) == list.trim_end_matches('/')),
                "{list}: {links:?}"
            );
        }
    });
}

/// The pages in the table of routes.
fn routes() -> impl Iterator<Item = &'static str> {
    let table = include_str!("../../src/routes.rs").split("reads(\"").skip(1).filter_map(|rest| rest.split('"').next());
    // These are not pages.
    table.filter(|route| !["/live/{page}", "/assets/{name}", "/metrics"].contains(route))
}

/// Whether this page is one of a route.
fn is_at(page: &str, route: &str) -> bool {
    let path = page.split('?').next().unwrap_or(page);
    let (parts, of_route): (Vec<&str>, Vec<&str>) = (path.split('/').collect(), route.split('/').collect());
    parts.len() == of_route.len() && parts.iter().zip(of_route).all(|(part, of)| *part == of || of.starts_with('{'))
}

/// A screenshot of the whole page, if `QUEUE_TEST_PICTURES` names a folder.
fn picture(browser: &Browser, name: &str, (width, height, is_dark): (u32, u32, bool)) {
    let Some(folder) = std::env::var_os("QUEUE_TEST_PICTURES") else { return };
    let whole = browser.script("return Math.min(2600, document.documentElement.scrollHeight)").as_u64().unwrap_or(900);
    browser.look(width, height.max(u32::try_from(whole).unwrap()), is_dark);
    let name: String = name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).take(60).collect();
    std::fs::write(std::path::Path::new(&folder).join(format!("{name}.png")), browser.picture()).unwrap();
    browser.look(width, height, is_dark);
}
