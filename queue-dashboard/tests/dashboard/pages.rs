//! The pages, over both brokers.

use std::time::Duration;

use futures_util::future::join_all;

use crate::common::{self, Bed, Site, Stream, encode, eventually};
use queue_core::{
    __private::Encoded,
    Client, JobState, LogLevel, RawJob,
    broker::{
        Ending, Extend, Finish, JobProgress, LineNow, ProcessId, ProgressNow, ProgressReport, Register, Turn, WorkerLoad, WorkerMode,
        history::Report,
    },
    inspect::{Fingerprint, GroupName, GroupOrder, NewOperation, OperationKind, OutboxDepth, OutboxRecord},
    schedule::Schedule,
};
use queue_tests::{
    patience::until,
    server::{Kind, Server},
};
use queue_worker::{Shutdown, Worker};

crate::on_brokers! {
    every_page_has_an_empty_state
    the_overview_reports_what_is_wrong
    the_overview_shows_outboxes
    links_follow_the_place_where_it_is_mounted
    jobs_are_narrowed_and_paged_without_losing_one
    what_is_done_to_the_selected_is_done_to_them_alone
    all_jobs_of_a_state_are_changed_after_a_question
    operations_are_listed_and_stopped
    an_operation_reports_how_far_it_is_and_is_gone_on_with
    a_release_that_cannot_read_jobs_is_named
    a_job_shows_its_errors_and_hides_its_secrets
    a_job_reports_that_its_result_was_too_large_to_keep
    progress_and_log_of_a_job_are_live_and_hide_secrets
    a_queue_is_paused_and_resumed
    a_job_reports_why_it_does_not_run
    a_worker_that_is_not_seen_is_silent
    a_worker_shows_what_it_uses
    a_worker_shows_what_runs_on_it
    a_worker_is_asked_to_claim_nothing_and_to_stop
    a_schedule_is_paused_run_and_backfilled
    schedules_report_what_keeps_their_jobs_from_running
    schedules_are_paged_without_losing_one
    a_group_is_paused_weighed_and_cancelled
    groups_are_listed_by_what_waits_and_paged_without_losing_one
    groups_do_not_report_that_they_are_in_turn_where_they_are_not
    the_overview_reports_in_words_what_jobs_wait_for
    failures_offer_what_their_own_jobs_allow
    the_history_reports_which_queue_is_not_known
    a_limit_says_who_holds_it_and_is_set
    limits_are_paged_without_losing_one
    a_topic_reports_how_far_its_subscriptions_are
    failures_that_are_alike_are_one_row_and_are_acted_on_together
    the_history_reports_what_workers_did_in_each_span
    a_first_visit_is_less_than_sixty_kilobytes
}

async fn every_page_has_an_empty_state(bed: Bed) {
    let site = bed.site().await;
    for (path, text) in [
        ("", "No queue yet"),
        ("/queues", "No queue yet"),
        ("/jobs", "Nothing waits"),
        ("/jobs?state=dead", "Jobs that failed permanently are listed here"),
        ("/schedules", "No schedule yet"),
        ("/groups", "No group has jobs."),
        ("/groups?queue=mail", "No group in mail has jobs"),
        ("/limits", "No queue has a limit."),
        ("/operations", "There are no operations yet."),
        ("/topics", "No topic yet"),
        ("/failures", "No run is known to have failed"),
        ("/failures?queue=mail", "No run of mail is known to have failed"),
        ("/workers", "No worker."),
        ("/history", "Nothing is reported of the last 1 hour"),
    ] {
        let answer = site.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.body.contains(text), "{path} does not say `{text}`: {}", answer.body);
    }
    assert_eq!(site.get("/jobs/mail/none").await.status, 404);
    for path in [
        "/schedules/mail/none",
        "/schedules/mail",
        "/group",
        "/group?queue=mail&group=acme",
        "/limit",
        "/limit?queue=mail&limit=x",
        "/operation",
        "/operation?queue=mail&id=none",
        "/topic",
        "/topic?topic=orders",
        "/nothing",
    ] {
        assert_eq!(site.get(path).await.status, 404, "{path}");
    }
    assert_eq!(site.get("/jobs?state=asleep").await.status, 400);
}

/// No reclaimer runs here, so the worker stays on the list.
async fn a_worker_that_is_not_seen_is_silent(bed: Bed) {
    let dead = Register::lane("mail", ProcessId::random(), Duration::from_millis(1));
    bed.client.broker().register(&dead).await.unwrap();
    let site = bed.site().await;
    let page = eventually(&site, "/workers", "class=\"gone\"").await;
    assert!(page.contains("0 live, 1 silent") && page.contains(r#"<span class="late">over</span>"#), "{page}");
}

async fn a_worker_shows_what_it_uses(bed: Bed) {
    let (broker, duration) = (bed.client.broker(), Duration::from_secs(600));
    let lane = broker.register(&Register::lane("mail", ProcessId::random(), duration)).await.unwrap().name;
    let site = bed.site().await;
    let page = eventually(&site, "/workers", "1 live").await;
    let unknown = ["slots", "memory", "CPU"].map(|name| format!(r#"data-label="{name}">unknown<"#));
    assert!(unknown.iter().all(|cell| page.contains(cell)), "{page}");
    let load = WorkerLoad::new(3, 64).using(Some(48_234_496), Some(1_257));
    broker.extend(&[Extend::new("mail", lane, 0, duration).with_load(load)]).await.remove(0).unwrap();
    let page = eventually(&site, "/workers", "3 of 64").await;
    assert!(page.contains(">46.0 MiB<") && page.contains(">125 %<") && !unknown.iter().any(|cell| page.contains(cell)), "{page}");
}

async fn a_worker_shows_what_runs_on_it(bed: Bed) {
    bed.enqueue("one", None).await;
    let (broker, lease, process) = (bed.client.broker(), Duration::from_secs(600), ProcessId::random());
    let lane = broker.register(&Register::lane("mail", process, lease)).await.unwrap().name;
    let site = bed.site().await;
    let path = format!("/worker?id={process}");
    let list = eventually(&site, "/workers", &path).await;
    assert!(list.contains("1 live"), "{list}");
    assert!(eventually(&site, &path, "No job runs on it").await.contains(">unknown<"));
    let job = broker.turn(&Turn::new("mail", lane.clone(), 1, lease).claim(1)).await.unwrap().deliveries.remove(0);
    let mut observed = JobProgress::new(job.id.clone(), job.claim, 1);
    observed.progress = Some(ProgressNow::new(1, Some(0.25), "<b>first</b> token=s1", None));
    let mut reported = ProgressReport::new("mail", lane.clone());
    reported.jobs.push(observed);
    assert_eq!(broker.store_progress(&reported).await.unwrap(), [true]);
    let page = site.get(&path).await.body;
    for text in ["/jobs/mail/one", "send_mail", r#"<progress max="1000" value="250""#, "25 %", "&#60;b&#62;first&#60;/b&#62; token=•"] {
        assert!(page.contains(text), "no `{text}`: {page}");
    }
    assert!(!page.contains("token=s1"), "{page}");
    let mut stream = Stream::open(&site, &format!("/live{path}")).await;
    let (name, data) = stream.event().await.expect("the stream goes on");
    assert!(name == "page" && data.contains("25 %"), "{name}: {data}");
    for unknown in ["/worker", "/worker?id=web-1", "/worker?id=0123456789abcdef"] {
        assert_eq!(site.get(unknown).await.status, 404, "{unknown}");
    }
}

async fn a_worker_is_asked_to_claim_nothing_and_to_stop(bed: Bed) {
    let (broker, lease, process) = (bed.client.broker(), Duration::from_secs(600), ProcessId::random());
    let lane = broker.register(&Register::lane("mail", process, lease)).await.unwrap().name;
    let site = bed.site().await;
    let (id, path) = (process.to_string(), format!("/worker?id={process}"));
    let page = eventually(&site, &path, "No job runs on it").await;
    assert!(!page.contains("/workers/quiet"), "it has said nothing yet: {page}");
    assert_eq!(site.post("operate", "/workers/quiet", &[("id", &id)]).await.status, 400);
    let heartbeat = async |mode, heard| {
        let load = WorkerLoad::new(0, 8).working(mode, heard);
        broker.extend(&[Extend::new("mail", lane.clone(), 0, lease).with_load(load)]).await.remove(0).unwrap().asked
    };
    assert_eq!(heartbeat(WorkerMode::Works, 0).await, None);
    eventually(&site, &path, "/workers/quiet").await;
    assert_eq!(site.post("view", "/workers/quiet", &[("id", &id)]).await.status, 403);
    let shown = site.post("operate", "/workers/quiet", &[("id", &id)]).await;
    assert_eq!(shown.status, 303);
    let asked = heartbeat(WorkerMode::Quiet, 1).await.expect("it is asked");
    assert_eq!((asked.number, asked.mode), (1, WorkerMode::Quiet));
    assert!(asked.by.ends_with("with the dashboard"), "{}", asked.by);
    let page = eventually(&site, &path, ">quiet<").await;
    assert!(page.contains("/workers/resume") && !page.contains("/workers/quiet"), "{page}");
    eventually(&site, "/workers", ">quiet<").await;
    let question = site.post("operate", "/workers/stop", &[("id", &id)]).await;
    assert!(question.status == 200 && question.body.contains("Stop the worker"), "{}", question.body);
    assert_eq!(heartbeat(WorkerMode::Quiet, 1).await.unwrap().number, 1, "nothing was done before the question is answered");
    assert_eq!(site.post("operate", "/workers/stop", &[("id", &id), ("sure", "yes")]).await.status, 303);
    assert_eq!(heartbeat(WorkerMode::Quiet, 1).await.map(|ask| (ask.number, ask.mode)), Some((2, WorkerMode::Stopping)));
    eventually(&site, &path, ">asked: stopping<").await;
    heartbeat(WorkerMode::Stopping, 2).await;
    let page = eventually(&site, &path, ">stopping<").await;
    assert!(!page.contains("/workers/stop") && !page.contains("/workers/resume"), "nothing takes it back: {page}");
    assert_eq!(site.post("operate", "/workers/stop", &[("id", "0123456789abcdef")]).await.status, 404);
}

async fn a_job_reports_why_it_does_not_run(bed: Bed) {
    bed.enqueue("one", None).await;
    bed.enqueue("two", None).await;
    let site = bed.site().await;
    let page = site.get("/jobs/mail/two").await.body;
    assert!(page.contains("Why it does not run"), "{page}");
    assert!(page.contains("No live worker serves its queue") && page.contains("Behind at most 1 other"), "{page}");
    bed.client.inspector().pause("mail").await.unwrap();
    let page = site.get("/jobs/mail/one").await.body;
    assert!(page.contains("Its queue is paused") && !page.contains("Behind"), "{page}");
    let list = site.get("/jobs?state=ready").await.body;
    assert_eq!(list.matches(r#"title="its queue is paused">queue paused<"#).count(), 2, "{list}");
    let found = site.get(&format!("/jobs?state=ready&text={}", encode("waiting=queue_paused"))).await.body;
    assert_eq!(found.matches("queue paused<").count(), 2, "{found}");
    let none = site.get(&format!("/jobs?state=ready&text={}", encode("waiting=group_full"))).await.body;
    assert!(none.contains("matches the filter"), "{none}");
    bed.client.inspector().resume("mail").await.unwrap();
    bed.work_until(JobState::Done, 2).await;
    let page = site.get("/jobs/mail/one").await.body;
    assert!(!page.contains("Why it does not run"), "{page}");
}

async fn the_overview_reports_what_is_wrong(bed: Bed) {
    bed.enqueue("waits", None).await;
    let site = bed.site().await;
    let page = site.get("").await.body;
    assert!(page.contains("No live worker serves the queue `mail`: 1 job is waiting."), "{page}");
    // The number of jobs that wait for each reason, with the link to them.
    let link = "/jobs?state=ready&amp;text=waiting%3Dno_worker\">1 without a worker<";
    assert!(page.contains(link) || page.contains(&link.replace("&amp;", "&#38;")), "{page}");
    let listed = site.get("/jobs?state=ready&text=waiting%3Dno_worker").await.body;
    assert!(listed.contains("/jobs/mail/waits"), "{listed}");
    assert!(!site.get("/jobs?state=ready&text=waiting%3Dqueue_paused").await.body.contains("/jobs/mail/waits"));
    bed.enqueue("fails", Some("smtp says 550")).await;
    bed.work_until(JobState::Dead, 1).await;
    // A snapshot may be half a second old, and data with more calls two seconds.
    let page = eventually(&site, "", "smtp says 550").await;
    assert!(page.contains("Dead in `mail`: 1 job of the task `send_mail` failed in every attempt."), "{page}");
    let page = site.get("/workers").await.body;
    assert!(page.contains("v42"), "{page}");
}

async fn the_overview_shows_outboxes(bed: Bed) {
    bed.enqueue("waits", None).await;
    let site = bed.site().await;
    assert!(!site.get("").await.body.contains("Outboxes"), "nobody has reported one");
    let mut depth = OutboxDepth::new("mail");
    (depth.waiting, depth.refused, depth.full, depth.holder) = (1_200, 2, true, Some("<b>web-1</b> pid 7".to_owned()));
    let outbox = OutboxRecord::new(b"\x01", "PostgreSQL database `shop`", 1_000, None, vec![depth]);
    bed.client.broker().report(&Report::new("mail", ProcessId::random(), 1).outbox(outbox)).await.unwrap();
    let page = eventually(&site, "", "Outboxes").await;
    for part in [r#"data-label="waiting">1,200<"#, r#"data-label="refused">2<"#, ">full<", "2 refused rows of mail", "web-1"] {
        assert!(page.contains(part), "no {part}: {page}");
    }
    assert!(!page.contains("<b>web-1"), "{page}");
}

async fn the_history_reports_what_workers_did_in_each_span(bed: Bed) {
    for id in ["one", "two"] {
        bed.enqueue(id, None).await;
    }
    bed.enqueue("fails", Some("smtp says 550")).await;
    // A worker that stops has reported.
    bed.work_until(JobState::Dead, 1).await;
    bed.wait_for(JobState::Done, 2).await;
    let site = bed.site().await;
    for path in ["/history", "/history?span=24h&queue=mail", "/history?span=14d&queue=no-such-queue", "/history?span=a%20year"] {
        let page = eventually(&site, path, "send_mail").await;
        for cell in [r#"data-label="done">2<"#, r#"data-label="failed">1<"#, r#"data-label="dead">1<"#] {
            assert!(page.contains(cell), "{path}: no {cell} in {page}");
        }
        assert!(!page.contains(r#"data-label="run p99">–<"#), "{path}: a run took some time: {page}");
    }
}

async fn failures_that_are_alike_are_one_row_and_are_acted_on_together(bed: Bed) {
    for (id, fail) in [("one", "order 17: no stock"), ("two", "order 4711: no stock"), ("three", "smtp says 550")] {
        bed.enqueue(id, Some(fail)).await;
    }
    // A worker that stops has reported.
    bed.work_until(JobState::Dead, 3).await;
    let site = bed.site().await;
    let page = site.get("/failures").await.body;
    let print = Fingerprint::of("order 1: no stock").to_string();
    for text in
        ["2 patterns", "order *: no stock", "smtp says *", "v42", "send_mail <span class=\"faint\">2</span>", &print, "/jobs/mail/two"]
    {
        assert!(page.contains(text), "no `{text}`: {page}");
    }
    assert!(page.contains(r#"data-label="count">2<"#) && page.contains("Requeue dead") && !page.contains("Retry now"), "{page}");
    let listed = site.get(&format!("/jobs?state=dead&queue=mail&text=failure%3D{print}")).await.body;
    assert!(listed.contains("mail/one") && listed.contains("mail/two") && !listed.contains("mail/three"), "{listed}");

    let stats = async || bed.client.inspector().stats("mail").await.unwrap();
    let all = [("all", "yes"), ("queue", "mail"), ("state", "dead"), ("failure", print.as_str()), ("back", "failures?queue=mail")];
    let question = site.post("operate", "/jobs/requeue", &all).await;
    assert!(question.body.contains("Requeue all dead jobs of mail that failed so?"), "{}", question.body);
    assert!(question.body.contains("order *: no stock") && question.body.contains(&format!("value=\"{print}\"")), "{}", question.body);
    assert_eq!(stats().await.count(JobState::Dead), 3);
    let sure = [&all[..], &[("sure", "yes")]].concat();
    assert_eq!(site.post("view", "/jobs/requeue", &sure).await.status, 403);
    let answer = site.post("operate", "/jobs/requeue", &sure).await;
    let observed = "/queue/failures?queue=mail&did=requeue&all=2&left=0";
    assert_eq!((answer.status, answer.headers["location"].as_str()), (303, observed));
    assert!(site.get(observed.strip_prefix("/queue").unwrap()).await.body.contains("2 jobs were requeued."));
    assert_eq!((stats().await.count(JobState::Dead), stats().await.count(JobState::Ready)), (1, 2));
    for wrong in ["timeout", "../x"] {
        let form: Vec<(&str, &str)> = sure.iter().map(|(name, old)| (*name, if *name == "failure" { wrong } else { *old })).collect();
        assert_eq!(site.post("operate", "/jobs/requeue", &form).await.status, 400, "{wrong}: all jobs are not meant");
    }
    assert_eq!(stats().await.count(JobState::Dead), 1);
}

async fn links_follow_the_place_where_it_is_mounted(bed: Bed) {
    bed.enqueue("one", None).await;
    let nightly = bed.schedule("nightly", "0 3 * * *").await;
    bed.client.schedules().run_now(&nightly).await.unwrap();
    queue_core::topics::Publication::from_json("orders", "OrderPaid", r#"{"order":17}"#).unwrap().publish(&bed.client).await.unwrap();
    bed.client.inspector().subscribe("orders", "billing", queue_core::topics::Begin::Start).await.unwrap();
    bed.limited("acct_17").await;
    let new = NewOperation::new(OperationKind::Delete, "state=dead".parse().unwrap()).detached();
    let operation = bed.client.inspector().start_operation("mail", &new).await.unwrap();
    let of_operation = format!("/operation?queue=mail&id={}", operation.id);
    for base in ["/", "/q", "/a/b"] {
        let site = Site::mounted(queue_dashboard::router(bed.client.clone()), base).await;
        let home = if base == "/" { "/" } else { "" };
        for path in [
            home,
            "/queues",
            "/jobs",
            "/jobs/mail/one",
            "/failures",
            "/schedules",
            "/schedules/mail/nightly",
            "/groups",
            "/group?queue=mail&group=acme",
            "/limits",
            "/limit?queue=pay&limit=stripe",
            "/operations",
            "/watch",
            &of_operation,
            "/topics",
            "/topic?topic=orders",
            "/workers",
            "/history",
        ] {
            let answer = site.get(path).await;
            assert_eq!(answer.status, 200, "{base} {path}");
            let links = ["href=\"", "src=\"", "action=\"", "data-live=\""].into_iter().flat_map(|name| answer.body.split(name).skip(1));
            let links = links
                .map(|rest| rest.split('"').next().unwrap().replace("&amp;", "&").replace("&#38;", "&"))
                .filter(|link| !link.starts_with('#'));
            for link in links {
                assert!(!link.starts_with("//"), "{base} {path}: {link}");
                let inner = link.strip_prefix(site.base.as_str()).unwrap_or_else(|| panic!("{base} {path}: {link} leads out"));
                let changes = [
                    "/jobs/cancel",
                    "/jobs/delete",
                    "/schedules/run",
                    "/schedules/backfill",
                    "/groups/set",
                    "/groups/drain",
                    "/groups/cancel",
                    "/groups/resume",
                    "/limits/set",
                    "/limits/remove",
                    "/operations/stop",
                    "/operations/resume",
                    "/topics/rewind",
                    "/workers/quiet",
                    "/workers/resume",
                    "/workers/stop",
                ]
                .contains(&inner);
                if !inner.contains("/live/") && !inner.contains("/pause") && !changes {
                    assert_eq!(site.get(inner).await.status, 200, "{base} {path}: {link}");
                }
            }
        }
    }
}

async fn jobs_are_narrowed_and_paged_without_losing_one(bed: Bed) {
    let ids: Vec<String> = (0..130).map(|n| format!("job-{n:03}")).collect();
    for id in &ids {
        bed.enqueue(id, None).await;
    }
    let site = bed.site().await;
    let mut seen = Vec::new();
    let mut path = "/jobs?state=ready".to_owned();
    loop {
        let page = site.get(&path).await.body;
        seen.extend(page.split("name=\"job\" value=\"mail/").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()));
        let Some(next) = page.split("rel=\"next\"").next().filter(|_| page.contains("rel=\"next\"")) else { break };
        let link = next.rsplit("href=\"").next().unwrap().split('"').next().unwrap();
        path = link.replace("&amp;", "&").replace("&#38;", "&").strip_prefix(&site.base).unwrap().to_owned();
        assert!(seen.len() <= 130, "it goes round in circles");
    }
    seen.sort();
    assert_eq!(seen, ids);
    let rows = |page: &str| page.matches("data-pick").count();
    assert_eq!(rows(&site.get("/jobs?state=ready&text=job-07").await.body), 10);
    assert_eq!(rows(&site.get("/jobs?state=ready&text=JOB-07&task=send").await.body), 10);
    assert_eq!(rows(&site.get("/jobs?state=ready&task=other").await.body), 0);
    assert_eq!(rows(&site.get("/jobs?state=ready&queue=other").await.body), 0);
    assert_eq!(rows(&site.get("/jobs?state=ready&text=009%40example").await.body), 1, "the parameters are searched");
    assert_eq!(rows(&site.get("/jobs?state=ready&text=hunter2").await.body), 0, "a secret is not found by its text");
    assert_eq!(rows(&site.get("/jobs?state=ready&text=id~07+id!~071").await.body), 11, "the filter of the command line");
    let page = site.get("/jobs?state=ready&text=payload~hunter2").await.body;
    assert!(rows(&page) == 0 && page.contains("hidden values stay hidden"), "nor by a filter: {page}");
    let page = site.get("/jobs?state=ready&text=taks%3Dx").await.body;
    assert!(rows(&page) == 0 && page.contains("did you mean `task`?"), "{page}");
    assert_eq!(rows(&site.get("/jobs?state=ready&text=job").await.body), 50, "a page has its bound");
}

async fn what_is_done_to_the_selected_is_done_to_them_alone(bed: Bed) {
    for id in ["a", "b", "c"] {
        bed.enqueue(id, Some("no")).await;
    }
    bed.work_until(JobState::Dead, 3).await;
    let site = bed.site().await;
    let stats = async || bed.client.inspector().stats("mail").await.unwrap();
    let answer = site
        .post("operate", "/jobs/requeue", &[("job", "mail/a"), ("job", "mail/b"), ("job", "mail/none"), ("back", "jobs?state=dead")])
        .await;
    assert_eq!((answer.status, answer.headers["location"].as_str()), (303, "/queue/jobs?state=dead&did=requeue&n=2&of=3"));
    assert!(site.get("/jobs?state=dead&did=requeue&n=2&of=3").await.body.contains("2 of 3 jobs were requeued"));
    assert_eq!((stats().await.count(JobState::Ready), stats().await.count(JobState::Dead)), (2, 1));
    // A harmful change needs a confirmation.
    let answer = site.post("operate", "/jobs/cancel", &[("job", "mail/a"), ("back", "jobs")]).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("Cancel this job?"), "{}", answer.body);
    assert_eq!(stats().await.count(JobState::Cancelled), 0);
    let answer = site.post("operate", "/jobs/cancel", &[("job", "mail/a"), ("sure", "yes"), ("back", "jobs/mail/a")]).await;
    assert_eq!((answer.status, answer.headers["location"].as_str()), (303, "/queue/jobs/mail/a?did=cancel&n=1&of=1"));
    assert_eq!(stats().await.count(JobState::Cancelled), 1);
    let answer = site.post("admin", "/jobs/delete", &[("job", "mail/c"), ("sure", "yes"), ("back", "jobs/mail/c")]).await;
    assert_eq!((answer.status, answer.headers["location"].as_str()), (303, "/queue/jobs?did=delete&n=1&of=1"));
    assert_eq!(stats().await.count(JobState::Dead), 0);
    let answer = site.post("operate", "/jobs/requeue", &[("back", "jobs")]).await;
    assert_eq!((answer.status, answer.headers["location"].as_str()), (303, "/queue/jobs?did=requeue&n=0&of=0"));
    let many: Vec<(&str, &str)> = std::iter::repeat_n(("job", "mail/b"), 101).collect();
    assert_eq!(site.post("operate", "/jobs/requeue", &many).await.status, 413);
    assert_eq!(site.post("operate", "/jobs/requeue", &[("job", "no address")]).await.status, 400);
}

async fn all_jobs_of_a_state_are_changed_after_a_question(bed: Bed) {
    for n in 0..60 {
        bed.enqueue(&format!("job-{n:03}"), None).await;
    }
    let site = bed.site().await;
    assert!(site.get("/jobs?state=ready&queue=mail").await.body.contains("Cancel all"));
    for path in ["/jobs?state=ready", "/jobs?state=ready&queue=mail&task=send"] {
        assert!(!site.get(path).await.body.contains("Cancel all"), "{path}");
    }
    let stats = async || bed.client.inspector().stats("mail").await.unwrap();
    let all = [("all", "yes"), ("queue", "mail"), ("state", "ready"), ("back", "jobs?state=ready&queue=mail")];
    let answer = site.post("operate", "/jobs/cancel", &all).await;
    assert!(answer.body.contains("Cancel all 60 ready jobs of mail?"), "{}", answer.body);
    assert_eq!(stats().await.count(JobState::Cancelled), 0);
    let sure = [&all[..], &[("sure", "yes"), ("reason", "not today"), ("job", "mail/job-001")]].concat();
    assert_eq!(site.post("view", "/jobs/cancel", &sure).await.status, 403);
    let answer = site.post("operate", "/jobs/cancel", &sure).await;
    let observed = "/queue/jobs?state=ready&queue=mail&did=cancel&all=60&left=0";
    assert_eq!((answer.status, answer.headers["location"].as_str()), (303, observed));
    assert!(site.get(observed.strip_prefix("/queue").unwrap()).await.body.contains("60 jobs were cancelled."));
    assert_eq!((stats().await.count(JobState::Cancelled), stats().await.count(JobState::Ready)), (60, 0));
    assert!(site.get("/jobs/mail/job-007").await.body.contains("not today"));
    for (field, value, status) in [("queue", "none", 404), ("state", "done", 400), ("state", "strange", 400)] {
        let wrong: Vec<(&str, &str)> = sure.iter().map(|(name, old)| (*name, if *name == field { value } else { *old })).collect();
        assert_eq!(site.post("operate", "/jobs/cancel", &wrong).await.status, status, "{field} {value}");
    }
}

async fn operations_are_listed_and_stopped(bed: Bed) {
    for n in 0..3 {
        bed.enqueue(&format!("job-{n}"), None).await;
    }
    let inspector = bed.client.inspector().because("a wrong import");
    let filter = "state=ready id~job".parse().unwrap();
    let new = NewOperation::new(OperationKind::Cancel, filter).by("ada").detached();
    let started = inspector.start_operation("mail", &new).await.unwrap();
    let site = bed.site().await;
    let page = site.get("/operations").await.body;
    for text in ["cancel", "state=ready id~job", "a wrong import", "ada", "running", &started.id, "/queue/operations/stop"] {
        assert!(page.contains(text), "no `{text}`: {page}");
    }
    let form = [("queue", "mail"), ("id", started.id.as_str())];
    assert_eq!(site.post("view", "/operations/stop", &form).await.status, 403);
    let all = [("all", "yes"), ("queue", "mail"), ("state", "ready"), ("sure", "yes"), ("back", "jobs")];
    let refused = site.post("operate", "/jobs/cancel", &all).await;
    assert!(refused.status == 409 && refused.body.contains("is still running"), "{}", refused.body);
    let answer = site.post("operate", "/operations/stop", &form).await;
    assert_eq!((answer.status, answer.headers["location"].as_str()), (303, "/queue/operations?queue=mail&did=stopped"));
    let page = site.get("/operations?queue=mail&did=stopped").await.body;
    assert!(page.contains("Its changes remain.") && !page.contains("/queue/operations/stop"), "{page}");
    let again = site.post("operate", "/operations/stop", &form).await;
    assert_eq!(again.headers["location"].as_str(), "/queue/operations?queue=mail&did=ended");
    assert_eq!(site.post("operate", "/operations/stop", &[("queue", "mail"), ("id", "none")]).await.status, 404);
    assert_eq!(site.post("operate", "/jobs/cancel", &all).await.status, 303);
    let page = site.get("/operations").await.body;
    assert!(page.contains("completed") && page.contains(r#"data-label="changed">3<"#), "{page}");
}

async fn an_operation_reports_how_far_it_is_and_is_gone_on_with(bed: Bed) {
    for n in 0..3 {
        bed.enqueue(&format!("job-{n}"), None).await;
    }
    let inspector = bed.client.inspector().because("a <wrong> import");
    let new = NewOperation::new(OperationKind::Cancel, "state=ready id!=job-1".parse().unwrap()).by("ada").detached();
    let started = inspector.start_operation("mail", &new).await.unwrap();
    let site = bed.site().await;
    let path = format!("/operation?queue=mail&id={}", started.id);
    assert!(site.get("/operations").await.body.contains(&format!("/queue/{}", path.trim_start_matches('/').replace('&', "&#38;"))));
    let page = site.get(&path).await.body;
    for text in [
        "state=ready id!=job-1",
        "a &#60;wrong&#62; import",
        "ada",
        "running",
        "0 of about 3",
        &started.id,
        "Resume now",
        "/queue/operations/stop",
    ] {
        assert!(page.contains(text), "no `{text}`: {page}");
    }
    let form = [("queue", "mail"), ("id", started.id.as_str())];
    assert_eq!(site.post("view", "/operations/resume", &form).await.status, 403);
    assert_eq!(site.post("operate", "/operations/resume", &[("queue", "mail"), ("id", "none")]).await.status, 404);
    let answer = site.post("operate", "/operations/resume", &form).await;
    assert_eq!((answer.status, answer.headers["location"].as_str()), (303, &*format!("/queue{path}&did=started")));
    let page = eventually(&site, &path, "completed").await;
    for text in ["2</dd>", "1</dd>", "3 of about 3", "100 %"] {
        assert!(page.contains(text), "no `{text}`: {page}");
    }
    assert!(!page.contains("/operations/stop") && !page.contains("Resume now"), "{page}");
    let again = site.post("operate", "/operations/resume", &form).await;
    assert_eq!(again.headers["location"].as_str(), format!("/queue{path}&did=ended"));
    let back = [("queue", "mail"), ("id", started.id.as_str()), ("back", "operation")];
    let stopped = site.post("operate", "/operations/stop", &back).await;
    assert_eq!(stopped.headers["location"].as_str(), format!("/queue{path}&did=ended"));
}

async fn a_release_that_cannot_read_jobs_is_named(bed: Bed) {
    bed.enqueue("strange", None).await;
    let broker = bed.client.broker();
    let lease = Duration::from_secs(30);
    let lane = broker.register(&Register::lane("mail", ProcessId::random(), lease)).await.unwrap().name;
    let claimed = broker.turn(&Turn::new("mail", lane.clone(), 1, lease).claim(1)).await.unwrap().deliveries;
    let (task, release) = ("send_mail".to_owned(), "v42".to_owned());
    let error = "release v42 cannot read it: parameter `to` is missing".to_owned();
    let ending = Ending::Unreadable { task, release, error, within: Duration::from_secs(24 * 3600) };
    let finishes = vec![Finish::new(&claimed[0], ending)];
    broker.turn(&Turn::new("mail", lane, 2, lease).finish(finishes)).await.unwrap();
    let site = bed.site().await;
    let overview = site.get("").await.body;
    assert!(overview.contains("which release v42 cannot read") && overview.contains("parameter `to` is missing"), "{overview}");
    let page = site.get("/jobs/mail/strange").await.body;
    for text in
        ["Cannot be read by v42", "it becomes a dead letter in", "Waits for a release that can read it", "parameter `to` is missing"]
    {
        assert!(page.contains(text), "no `{text}`: {page}");
    }
}

async fn a_job_shows_its_errors_and_hides_its_secrets(bed: Bed) {
    bed.enqueue("bad", Some("mailbox is full: token=s9, retried")).await;
    bed.enqueue("good", None).await;
    bed.work_until(JobState::Dead, 1).await;
    bed.work_until(JobState::Done, 1).await;
    let site = bed.site().await;
    for path in ["/jobs?state=dead", "/search?filter=state%3Ddead", ""] {
        let page = site.get(path).await.body;
        assert!(page.contains("mailbox is full: token=••••••, retried") && !page.contains("s9"), "{path}: {page}");
    }
    let page = site.get("/jobs/mail/bad").await.body;
    for text in ["Attempt 1 failed", "mailbox is full", "bad@example.com", "It runs again only if", "Requeue", "••••••"] {
        assert!(page.contains(text), "no `{text}`: {page}");
    }
    assert!(!page.contains("hunter2"), "{page}");
    let page = site.get("/jobs/mail/good").await.body;
    assert!(page.contains("sent to good@example.com") && page.contains(">done<"), "{page}");
}

async fn a_job_reports_that_its_result_was_too_large_to_keep(bed: Bed) {
    bed.enqueue("huge", None).await;
    let (broker, lease) = (bed.client.broker(), Duration::from_secs(30));
    let lane = broker.register(&Register::lane("mail", ProcessId::random(), lease)).await.unwrap().name;
    let claimed = broker.turn(&Turn::new("mail", lane.clone(), 1, lease).claim(1)).await.unwrap().deliveries;
    let (result, why) = Encoded::of(&"x".repeat(170_000)).into_stored();
    let ending = Ending::Ack { result: Some(result), keep: Some(lease) };
    broker.turn(&Turn::new("mail", lane, 2, lease).finish(vec![Finish::new(&claimed[0], ending)])).await.unwrap();
    let page = bed.site().await.get("/jobs/mail/huge").await.body;
    assert!(page.contains(&format!("(dropped: {}", why.expect("it is too large"))) && page.contains("it has 170005 bytes"), "{page}");
}

async fn progress_and_log_of_a_job_are_live_and_hide_secrets(bed: Bed) {
    bed.enqueue("one", None).await;
    let (site, broker) = (bed.site().await, bed.client.broker());
    assert!(!site.get("/jobs/mail/one").await.body.contains("progress-title"), "nothing was told");
    let lease = Duration::from_secs(60);
    let lane = broker.register(&Register::lane("mail", ProcessId::random(), lease)).await.unwrap().name;
    let job = broker.turn(&Turn::new("mail", lane.clone(), 1, lease).claim(1)).await.unwrap().deliveries.remove(0);
    let tell = async |seq: u64, fraction: f64, message: &str, line: &str| {
        let value =
            queue_core::__private::codec::encode(&std::collections::BTreeMap::from([("api_key", "hunter3"), ("at", "here")])).unwrap();
        let mut observed = JobProgress::new(job.id.clone(), job.claim, 2);
        observed.progress = Some(ProgressNow::new(seq, Some(fraction), message, Some(value)));
        (observed.first, observed.lines) = (seq - 1, vec![LineNow::new(LogLevel::Warn, line)]);
        let mut request = ProgressReport::new("mail", lane.clone());
        request.jobs.push(observed);
        assert_eq!(broker.store_progress(&request).await.unwrap(), [true]);
    };
    tell(1, 0.25, "<b>first</b> token=s1", "signed in, password=s2 <i>").await;
    let page = site.get("/jobs/mail/one").await.body;
    for text in [
        r#"<progress max="1000" value="250""#,
        "25 %",
        "&#60;b&#62;first&#60;/b&#62; token=•",
        "attempt 2",
        "signed in, password=•",
        ">warn<",
    ] {
        assert!(page.contains(text), "no `{text}`: {page}");
    }
    for secret in ["token=s1", "password=s2", "hunter3", " <i>"] {
        assert!(!page.contains(secret), "{secret}: {page}");
    }
    let mut stream = Stream::open(&site, "/live/job?queue=mail&id=one").await;
    let mut next = async |text: &str| {
        loop {
            let (name, data) = stream.event().await.expect("the stream goes on");
            if name == "page" && data.contains(text) {
                return;
            }
        }
    };
    next("25 %").await;
    tell(2, 0.5, "second", "one more line").await;
    next("one more line").await;
}

async fn a_queue_is_paused_and_resumed(bed: Bed) {
    bed.enqueue("one", None).await;
    let site = bed.site().await;
    assert!(site.get("/queues").await.body.contains("Pause mail"));
    let answer = site.post("operate", "/queues/pause", &[("queue", "mail"), ("back", "queues?text=ma")]).await;
    assert_eq!((answer.status, answer.headers["location"].as_str()), (303, "/queue/queues?text=ma&did=pause"));
    assert!(bed.client.inspector().stats("mail").await.unwrap().paused);
    let page = site.get("/queues?text=ma&did=pause").await.body;
    assert!(page.contains("Resume mail") && page.contains("The queue is paused."), "who has changed something sees it: {page}");
    assert!(site.get("").await.body.contains("The queue `mail` is paused"));
    site.post("operate", "/queues/pause", &[("queue", "mail"), ("reason", "it <moves>"), ("until", "2h")]).await;
    let pause = bed.client.inspector().stats("mail").await.unwrap().pause.expect("it is paused");
    assert!(pause.reason.as_deref() == Some("it <moves>") && pause.by.is_some() && pause.until > pause.since, "{pause:?}");
    let page = site.get("/queues").await.body;
    assert!(page.contains("until 20") && page.contains("it &#60;moves&#62;"), "{page}");
    let refused = site.post("operate", "/queues/pause", &[("queue", "mail"), ("until", "2001-01-01T00:00:00Z")]).await;
    assert!(refused.body.contains("is not in the future"), "{}", refused.body);
    let fields = [("queue", "mail"), ("task", "send"), ("reason", "the server is down")];
    let answer = site.post("operate", "/queues/pause", &fields).await;
    assert_eq!(answer.headers["location"].as_str(), "/queue/queues?did=pause-task");
    let page = site.get("/queues").await.body;
    assert!(page.contains("task send paused") && page.contains("Resume send") && page.contains("the server is down"), "{page}");
    site.post("operate", "/queues/resume", &[("queue", "mail"), ("task", "send")]).await;
    assert!(!site.get("/queues").await.body.contains("task send paused"));
    assert_eq!(site.post("operate", "/queues/pause", &[("queue", "mail"), ("task", "no name")]).await.status, 400);
    site.post("operate", "/queues/resume", &[("queue", "mail")]).await;
    assert!(!bed.client.inspector().stats("mail").await.unwrap().paused);
    assert_eq!(site.post("operate", "/queues/pause", &[("queue", "none")]).await.status, 404);
    assert_eq!(bed.client.inspector().queues().await.unwrap(), ["mail"], "a name that nobody knows makes no queue");
}

async fn a_schedule_is_paused_run_and_backfilled(bed: Bed) {
    let nightly = bed.schedule("nightly", "0 3 * * *").await;
    let site = bed.site().await;
    let page = "/schedules/mail/nightly";
    let shown = site.get("/schedules").await.body;
    assert!(shown.contains("mail/nightly") && shown.contains("at 03:00") && shown.contains(">ticks<"), "{shown}");
    let shown = site.get(page).await.body;
    assert!(shown.contains("At 03:00") && shown.contains("nightly@example.com") && !shown.contains("hunter2"), "{shown}");
    assert_eq!(shown.matches("<li class=\"next\">").count(), 5, "{shown}");

    let post = async |path: &str, fields: &[(&str, &str)]| {
        let answer = site.post("operate", path, fields).await;
        assert_eq!(answer.status, 303, "{path}: {}", answer.body);
        site.get(answer.headers["location"].strip_prefix(&site.base).unwrap()).await.body
    };
    let named = ("schedule", "mail/nightly");
    for (path, says) in [
        ("/schedules/pause", "The schedule is paused."),
        ("/schedules/pause", "was paused already"),
        ("/schedules/resume", "The schedule is resumed."),
        ("/schedules/resume", "was not paused"),
        ("/schedules/pause", "None: it is paused."),
    ] {
        let shown = post(path, &[named]).await;
        assert!(shown.contains(says) && shown.contains("Next ticks"), "{path} leads to the schedule, which says `{says}`: {shown}");
    }
    assert!(bed.client.schedules().get(&nightly).await.unwrap().unwrap().paused.is_some());
    let shown = post("/schedules/resume", &[named, ("back", "schedules?queue=mail")]).await;
    assert!(shown.contains("<h1>Schedules</h1>") && shown.contains("The schedule is resumed."), "back to the list: {shown}");

    let shown = post("/schedules/run", &[named]).await;
    assert!(shown.contains("A job was created.") && shown.contains("has not ended"), "{shown}");
    let run = bed.client.schedules().get(&nightly).await.unwrap().unwrap().runs.remove(0).job.unwrap();
    assert!(shown.contains(&format!("/jobs/{run}\"")), "{shown}");
    bed.work_until(JobState::Done, 1).await;
    assert!(site.get(page).await.body.contains(">done</a>"), "what became of it");

    let span = |from, to| [named, ("from", from), ("to", to)];
    let ask = async |fields: &[(&str, &str)]| site.post("operate", "/schedules/backfill", fields).await;
    for (from, to, says) in [
        ("2026-03-01T00:00", "yesterday", "The field “to” is not a time."),
        ("", "2026-03-01T00:00", "The field “from” is not a time."),
        ("2026-03-02T00:00", "2026-03-01T00:00", "ends before it begins"),
        ("2016-03-02T00:00", "2026-03-01T00:00", "more than 1000 ticks"),
    ] {
        let answer = ask(&span(from, to)).await;
        assert!(
            answer.status == 400 && answer.body.contains(says) && answer.body.contains("Nothing was created."),
            "{from} {to}: {answer:?}"
        );
    }
    let none = post("/schedules/backfill", &span("2026-03-01T04:00", "2026-03-01T05:00:30")).await;
    assert!(none.contains("There is no tick in that time range."), "{none}");
    let week = span("2026-03-01T03:00", "2026-03-07T03:00:00Z");
    let asked = ask(&week).await;
    assert!(asked.status == 200 && asked.body.contains("Create the jobs of 7 ticks?"), "both ends are included: {asked:?}");
    for text in
        ["<time datetime=\"2026-03-01T03:00:00", "<time datetime=\"2026-03-07T03:00:00", "class=\"primary\" type=\"submit\">Backfill<"]
    {
        assert!(asked.body.contains(text), "no `{text}`: {}", asked.body);
    }
    assert_eq!(bed.client.inspector().stats("mail").await.unwrap().count(JobState::Ready), 0, "a person is asked first");
    let sure = [&week[..], &[("sure", "yes")]].concat();
    assert!(post("/schedules/backfill", &sure).await.contains("7 ticks: 7 jobs were made."));
    assert!(post("/schedules/backfill", &sure).await.contains("7 ticks: 0 jobs were made; the others exist"));
    assert_eq!(bed.client.inspector().stats("mail").await.unwrap().count(JobState::Ready), 7);

    let future = ask(&[&span("2036-03-01T00:00", "2036-03-07T00:00")[..], &[("sure", "yes")]].concat()).await;
    assert!(future.status == 400 && future.body.contains("future"), "{future:?}");
    for path in ["/schedules/pause", "/schedules/resume", "/schedules/run"] {
        for name in ["mail/none", "none/none", "nightly", ""] {
            assert_eq!(site.post("operate", path, &[("schedule", name)]).await.status, 404, "{path} {name}");
        }
    }
}

async fn schedules_report_what_keeps_their_jobs_from_running(bed: Bed) {
    bed.schedule("nightly", "0 3 * * *").await;
    let unknown = RawJob::new("no_such_task", vec![0x80]).queue("mail");
    bed.client.schedules().upsert(Schedule::cron("lost", "0 4 * * *").raw_job(unknown)).await.unwrap();
    let site = bed.site().await;
    for path in ["/schedules/mail/nightly", "/schedules/mail/lost"] {
        let page = site.get(path).await.body;
        assert!(page.contains("No live worker serves the queue mail"), "{path}: {page}");
    }
    let stop = Shutdown::new();
    let running = tokio::spawn(Worker::new(bed.client.clone()).queue("mail").run_with(stop.clone()));
    let page = eventually(&site, "/schedules/mail/lost", "No live worker of the queue has the task no_such_task").await;
    assert!(!page.contains("No live worker serves"), "{page}");
    let page = site.get("/schedules").await.body;
    assert_eq!((page.matches(">unknown task<").count(), page.matches(">no worker<").count()), (1, 0), "{page}");
    assert!(!site.get("/schedules/mail/nightly").await.body.contains("No live worker"));
    stop.drain();
    running.await.unwrap().unwrap();
}

async fn schedules_are_paged_without_losing_one(bed: Bed) {
    let mut names: Vec<String> = Vec::new();
    for (queue, schedules) in [("a", 20), ("b", 70), ("c", 0), ("d", 31)] {
        for n in 0..schedules {
            let job = common::send_mail::job("a".to_owned(), None, None).queue(queue);
            bed.client.schedules().upsert(Schedule::cron(format!("s{n:02}"), "0 3 * * *").job(job)).await.unwrap();
            names.push(format!("{queue}/s{n:02}"));
        }
    }
    let site = bed.site().await;
    for (start, expected) in [("/schedules", &names[..]), ("/schedules?queue=b", &names[20..90]), ("/schedules?queue=c", &[])] {
        let (mut seen, mut path, mut pages) = (Vec::new(), start.to_owned(), 0);
        loop {
            let page = site.get(&path).await.body;
            seen.extend(page.split("<tr id=\"s-").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()));
            pages += 1;
            let Some(next) = page.split("rel=\"next\"").next().filter(|_| page.contains("rel=\"next\"")) else { break };
            let link = next.rsplit("href=\"").next().unwrap().split('"').next().unwrap();
            path = link.replace("&amp;", "&").replace("&#38;", "&").strip_prefix(&site.base).unwrap().to_owned();
        }
        seen.sort();
        assert_eq!(seen, expected, "{start}");
        assert!(pages <= 1 + expected.len() / 20, "{pages} pages");
    }
}

async fn a_first_visit_is_less_than_sixty_kilobytes(bed: Bed) {
    for n in 0..12 {
        let job = common::send_mail::job("a".to_owned(), None, None).queue(format!("queue-{n}"));
        job.enqueue(&bed.client).await.unwrap();
    }
    let site = bed.site().await;
    let page = site.get("").await;
    let mut bytes = page.bytes;
    for asset in page.body.split('"').filter(|part| part.contains("/assets/")) {
        let answer = site.get(asset.strip_prefix(&site.base).unwrap()).await;
        assert_eq!(answer.headers["cache-control"], "public, max-age=31536000, immutable");
        bytes += answer.bytes;
    }
    println!("a first visit: {bytes} bytes");
    assert!(bytes < 60_000, "{bytes} bytes");
}

/// Every page of the route table for the lowest role, with its content.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_made_with_the_rights_of_the_dashboard_on_redis() {
    let server = Server::start(Kind::Redis);
    queue_tests::roles::admit(&server, "queue");
    let bed = Bed::at(&server).await;
    bed.enqueue("one", None).await;
    bed.grouped("acme", 1).await;
    bed.schedule("nightly", "0 3 * * *").await;
    bed.limited("acct_17").await;
    queue_core::topics::Publication::from_json("orders", "OrderPaid", r#"{"order":17}"#).unwrap().publish(&bed.client).await.unwrap();
    let new = NewOperation::new(OperationKind::Delete, "state=dead".parse().unwrap()).detached();
    let operation = bed.client.inspector().start_operation("mail", &new).await.unwrap();
    let process = ProcessId::random();
    bed.client.broker().register(&Register::lane("mail", process, Duration::from_secs(600))).await.unwrap();
    let address = |path: &str| match path {
        "/" => String::new(),
        "/jobs/{queue}/{id}" => "/jobs/mail/one".to_owned(),
        "/schedules/{queue}/{schedule}" => "/schedules/mail/nightly".to_owned(),
        "/group" => "/group?queue=mail&group=acme".to_owned(),
        "/limit" => "/limit?queue=pay&limit=stripe".to_owned(),
        "/operation" => format!("/operation?queue=mail&id={}", operation.id),
        "/topic" => "/topic?topic=orders".to_owned(),
        "/worker" => format!("/worker?id={process}"),
        path => path.to_owned(),
    };
    let pages =
        queue_dashboard::__routes(true, false).into_iter().filter(|(_, path, least)| least.is_some() && !path.starts_with("/live/"));
    let mut addresses: Vec<String> = pages.map(|(_, path, _)| address(path)).collect();
    assert!(addresses.len() >= 20, "{addresses:?}");
    addresses.extend(["/jobs?state=dead", "/search?filter=task%3Dsend_mail", "/watch?filter=queue%3Dmail"].map(str::to_owned));
    let client = Client::connect(&queue_tests::roles::url(&server, "dashboard")).await.unwrap();
    let site = Site::mounted(queue_dashboard::router(client).read_only(), "/queue").await;
    for path in addresses {
        let answer = site.get(&path).await;
        let is_whole = ["does not answer", "could not be read"].iter().all(|problem| !answer.body.contains(problem));
        assert!(answer.status == 200 && is_whole, "{path}: {} {}", answer.status, answer.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eviction_policy_is_among_what_is_wrong_on_redis() {
    let server = Server::start(Kind::Redis);
    let client = Client::connect(&server.url()).await.unwrap();
    let site = Site::mounted(queue_dashboard::router(client), "/queue").await;
    assert!(!site.get("").await.body.contains("drops jobs"));
    server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let page = eventually(&site, "", "it drops jobs when its memory is full").await;
    assert!(page.contains("allkeys-lru") && page.contains("noeviction"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_goes_away_leaves_a_page_that_reports_it_on_redis() {
    let mut server = Server::start(Kind::Redis);
    let client = Client::connect(&server.url()).await.unwrap();
    common::send_mail::job("a".to_owned(), None, None).enqueue(&client).await.unwrap();
    let site = Site::mounted(queue_dashboard::router(client), "/queue").await;
    assert!(site.get("").await.body.contains("No live worker"));
    server.kill();
    let page = eventually(&site, "", "The broker does not answer.").await;
    assert!(page.contains("What you see is from") && page.contains("No live worker"), "the last figures stay: {page}");
    assert_eq!(site.get("/jobs?state=ready").await.status, 503);
    server.restart();
    until("the broker to answer", async || !site.get("").await.body.contains("The broker does not answer.")).await;
    assert_eq!(encode("a b"), "a%20b");
}

async fn a_group_is_paused_weighed_and_cancelled(bed: Bed) {
    // A name may contain any characters.
    let name = "Ä/mü & \"Söhne\"?";
    bed.grouped(name, 3).await;
    bed.grouped("globex", 1).await;
    let site = bed.site().await;
    let group = GroupName::new(name).unwrap();
    let now = async || bed.client.inspector().group("mail", &group).await.unwrap();
    let page = format!("/group?queue=mail&group={}", encode(name));
    let list = site.get("/groups?queue=mail").await.body;
    for text in ["Ä/mü &#38; &#34;Söhne&#34;?", "globex", "75 %", "25 %", ">no worker<"] {
        assert!(list.contains(text), "no `{text}` in {list}");
    }
    let shown = site.get(&page).await.body;
    assert!(
        shown.contains("3 jobs are ready. The first does not run: no live worker") && shown.matches("class=\"next\"").count() == 3,
        "{shown}"
    );

    let post = async |path: &str, fields: &[(&str, &str)]| {
        let fields: Vec<(&str, &str)> = [("queue", "mail"), ("group", name)].into_iter().chain(fields.iter().copied()).collect();
        let answer = site.post("operate", path, &fields).await;
        match answer.headers.get("location") {
            Some(place) => site.get(place.strip_prefix(&site.base).unwrap()).await.body,
            None => answer.body,
        }
    };
    let shown = post("/groups/pause", &[("reason", "unpaid")]).await;
    assert!(shown.contains("The group is paused.") && shown.contains(": unpaid."), "{shown}");
    assert!(now().await.rule.paused);
    let shown = post("/groups/pause", &[("reason", "unpaid"), ("until", "2h")]).await;
    assert!(shown.contains("Paused: until 20") && now().await.pause.is_some_and(|pause| pause.until.is_some()), "{shown}");
    let shown = post("/groups/pause", &[("until", "soon")]).await;
    assert!(shown.contains("The time `soon` cannot be read") && now().await.pause.is_some_and(|pause| pause.until.is_some()), "{shown}");
    let back = post("/groups/resume", &[("back", "groups?queue=mail&at=x")]).await;
    assert!(back.contains("<h1>Groups</h1>") && back.contains("The group is resumed."), "back to the list: {back}");

    let shown = post("/groups/set", &[("weight", "7"), ("cap", "2"), ("max_size", ""), ("order", "skip_failed")]).await;
    assert!(shown.contains("contradicts the order"), "{shown}");
    let shown = post("/groups/set", &[("weight", "7"), ("cap", "-1"), ("max_size", ""), ("order", "")]).await;
    assert!(shown.contains("The field “cap” is not an integer"), "{shown}");
    assert_eq!(now().await.rule.weight, None, "nothing was changed");
    let shown = post("/groups/set", &[("weight", "7"), ("cap", "2"), ("max_size", "5"), ("order", "any")]).await;
    assert!(shown.contains("The rule is set.") && shown.contains("value=\"7\""), "{shown}");
    let rule = now().await.rule;
    assert_eq!((rule.weight, rule.cap, rule.max_size, rule.order), (Some(7), Some(2), Some(5), Some(GroupOrder::Any)));
    post("/groups/set", &[("weight", ""), ("cap", "2"), ("max_size", ""), ("order", "")]).await;
    assert_eq!((now().await.rule.weight, now().await.rule.cap), (None, Some(2)));

    for path in ["/groups/drain", "/groups/cancel"] {
        let asked = post(path, &[]).await;
        assert!(asked.contains("No, go back") && asked.contains("3 jobs of it are ready"), "{path}: {asked}");
    }
    assert_eq!(now().await.ready, 3, "nothing was done without an answer");
    let shown = post("/groups/drain", &[("sure", "yes"), ("reason", "left")]).await;
    assert!(shown.contains("3 jobs were cancelled.") && shown.contains("has no ready or running jobs"), "{shown}");
    let stats = bed.client.inspector().stats("mail").await.unwrap();
    assert_eq!((stats.count(JobState::Ready), stats.total(queue_core::broker::Counter::Cancelled)), (1, 3), "the other group has its job");
    let none = site.post("operate", "/groups/pause", &[("queue", "mail")]).await;
    assert_eq!(none.status, 404, "{}", none.body);
}

async fn groups_do_not_report_that_they_are_in_turn_where_they_are_not(bed: Bed) {
    bed.grouped("acme", 1).await;
    let site = bed.site().await;
    let of = "/group?queue=mail&group=acme";
    let page = site.get(of).await.body;
    assert!(
        page.contains("1 job is ready. The first does not run: no live worker serves its queue.") && page.contains(">no worker<"),
        "{page}"
    );
    // A worker registers.
    let (broker, lease) = (bed.client.broker(), Duration::from_secs(600));
    broker.register(&Register::lane("mail", ProcessId::random(), lease)).await.unwrap();
    let page = site.get(of).await.body;
    assert!(page.contains("1 job waits behind others.") && page.contains(">in rotation<"), "{page}");
    let list = site.get("/groups").await.body;
    assert!(list.contains(">in rotation<") && !list.contains(">ready<"), "the list has the word of the page: {list}");
    bed.client.inspector().pause("mail").await.unwrap();
    let page = site.get(of).await.body;
    assert!(page.contains("The first does not run: its queue is paused.") && page.contains(">queue paused<"), "{page}");
    let list = eventually(&site, "/groups", ">queue paused<").await;
    assert!(!list.contains(">ready<") && !list.contains(">in rotation<"), "{list}");

    bed.client.inspector().set_limit("pay", "stripe", |rule| rule.concurrency = Some(0)).await.unwrap();
    let jobs = (0..2).map(|_| common::charge::job("acct".to_owned()).group("globex"));
    bed.client.enqueue_all(jobs).await.unwrap();
    broker.register(&Register::lane("pay", ProcessId::random(), lease)).await.unwrap();
    let page = site.get("/group?queue=pay&group=globex").await.body;
    assert!(page.contains("2 jobs are ready. The first does not run: its limit `stripe`") && page.contains(">limit full<"), "{page}");
    assert!(!page.contains(">in rotation<") && !page.contains("wait behind others"), "{page}");
}

async fn the_overview_reports_in_words_what_jobs_wait_for(bed: Bed) {
    bed.limited("acct_17").await;
    let page = eventually(&bed.site().await, "", "1 waiting for a slot of a limit<").await;
    assert!(!page.contains("limit_full<"), "{page}");
}

async fn failures_offer_what_their_own_jobs_allow(bed: Bed) {
    for (id, fail) in [("one", "no stock"), ("two", "smtp says 550")] {
        common::remind::job("acme".to_owned(), Some(fail.to_owned())).id(id).enqueue(&bed.client).await.unwrap();
    }
    bed.work_until(JobState::Retry, 2).await;
    // One of them is parked, because its task is paused when it is due again.
    let inspector = bed.client.inspector();
    inspector.pause_as("mail", queue_core::inspect::PauseOf::Task("remind".into()), queue_core::inspect::Pausing::new()).await.unwrap();
    inspector.promote(&"mail/two".parse().unwrap()).await.unwrap();
    bed.work_until(JobState::Parked, 1).await;
    let page = eventually(&bed.site().await, "/failures", "smtp says *").await;
    let row = |error: &str| {
        let id = format!("id=\"f-mail-{}\"", Fingerprint::of(error));
        page.split(&id).nth(1).unwrap_or_else(|| panic!("no {id}: {page}")).split("</tr>").next().unwrap().to_owned()
    };
    let (retries, parked) = (row("no stock"), row("smtp says 550"));
    assert!(retries.contains("Retry now") && retries.contains(">Retrying<") && !retries.contains(">Parked<"), "{retries}");
    assert!(!parked.contains("Retry now") && !parked.contains(">Retrying<") && parked.contains(">Parked<"), "{parked}");
}

async fn the_history_reports_which_queue_is_not_known(bed: Bed) {
    bed.enqueue("one", None).await;
    let site = bed.site().await;
    assert!(site.get("/history?queue=nope").await.body.contains("The queue nope is not known."));
    assert!(!site.get("/history?queue=mail").await.body.contains("is not known."));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_report_that_they_could_not_be_read_while_the_broker_is_away_on_redis() {
    let mut server = Server::start(Kind::Redis);
    let client = Client::connect(&server.url()).await.unwrap();
    common::send_mail::job("a".to_owned(), None, None).enqueue(&client).await.unwrap();
    let (knows, knows_nothing) = (
        Site::mounted(queue_dashboard::router(client.clone()), "/queue").await,
        Site::mounted(queue_dashboard::router(client), "/queue").await,
    );
    assert!(knows.get("").await.body.contains("No live worker"));
    let claims = [
        ("/failures", "No run is known to have failed"),
        ("/operations", "There are no operations yet"),
        ("/groups", "No group has jobs."),
        ("/limits", "No queue has a limit."),
        ("/schedules", "No schedule yet"),
    ];
    for (path, nothing) in claims {
        assert!(knows.get(path).await.body.contains(nothing), "{path}");
    }
    server.kill();
    eventually(&knows, "", "The broker does not answer.").await;
    // Each page waits for the broker until its deadline, so all are requested at once.
    let unread = async |site: &Site, path, nothing| {
        let page = site.get(path).await.body;
        assert!(page.contains("could not be read") && !page.contains(nothing), "{path} claims that there is nothing: {page}");
        page
    };
    let asked = [("/jobs?state=ready", "Nothing waits"), ("/queues", "No queue yet")];
    join_all(asked.map(|(path, nothing)| unread(&knows_nothing, path, nothing))).await;
    let asked = claims.iter().flat_map(|claim| [&knows, &knows_nothing].map(|site| (site, claim)));
    join_all(asked.map(async |(site, (path, nothing))| {
        let page = unread(site, path, nothing).await;
        assert!(page.contains("The broker does not answer.") && !page.contains("0 patterns"), "{path}: {page}");
        assert_eq!(page.contains("mail could not be read"), std::ptr::eq(site, &knows), "{path} names the queue that it knows: {page}");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_cannot_be_read_is_named_by_the_lists_on_redis() {
    let server = Server::start(Kind::Redis);
    let client = Client::connect(&server.url()).await.unwrap();
    for queue in ["mail", "other"] {
        common::send_mail::job("a".to_owned(), None, None).queue(queue).enqueue(&client).await.unwrap();
    }
    let site = Site::mounted(queue_dashboard::router(client), "/queue").await;
    assert!(site.get("/groups").await.body.contains("No group has jobs."));
    for key in ["queue:{mail}:failures", "queue:{mail}:operations", "queue:{mail}:limits", "queue:{mail}:pool", "queue:{mail}:groups"] {
        server.command(&["SET", key, "another program"]);
    }
    let mut named = 0;
    for path in ["/failures", "/operations", "/groups", "/limits"] {
        let page = site.get(path).await.body;
        named += u32::from(page.contains("mail could not be read"));
        assert!(!page.contains("other could not be read"), "{path}: {page}");
    }
    assert!(named > 0, "one of these keys is looked at");
}

async fn a_topic_reports_how_far_its_subscriptions_are(bed: Bed) {
    let inspector = bed.client.inspector();
    inspector.subscribe("orders", "billing", queue_core::topics::Begin::Start).await.unwrap();
    for n in 0..60 {
        let json = format!(r#"{{"order":{n},"password":"hunter2"}}"#);
        queue_core::topics::Publication::from_json("orders", "OrderPaid", &json).unwrap().group("ada").publish(&bed.client).await.unwrap();
    }
    let site = bed.site().await;
    let list = site.get("/topics").await.body;
    for text in [">orders<", "data-label=\"events\">60<", ">stopped<"] {
        assert!(list.contains(text), "no `{text}`: {list}");
    }
    let page = site.get("/topic?topic=orders").await.body;
    for text in [
        ">billing<",
        "data-label=\"unread\">60<",
        "stopped: no live worker serves it",
        "OrderPaid",
        ">ada<",
        "&quot;order&quot;: 0",
        "any number",
    ] {
        assert!(page.contains(text) || page.contains(&text.replace("&quot;", "&#34;")), "no `{text}`: {page}");
    }
    assert!(!page.contains("hunter2"), "{page}");
    let form = [("topic", "orders"), ("subscription", "billing"), ("to", "now")];
    assert_eq!(site.post("view", "/topics/rewind", &form).await.status, 403);
    let sure = site.post("operate", "/topics/rewind", &form).await.body;
    assert!(sure.contains("Rewind billing to now?") && sure.contains("0 events of orders"), "{sure}");
    assert!(
        sure.contains("0 of its jobs wait, and will be cancelled.") && sure.contains("class=\"danger\" type=\"submit\">Rewind<"),
        "{sure}"
    );
    let done = site.post("operate", "/topics/rewind", &[&form[..], &[("sure", "yes")]].concat()).await;
    assert_eq!(done.status, 303, "{}", done.body);
    assert!(site.get("/topic?topic=orders").await.body.contains("data-label=\"unread\">0<"));
    let nobody = [("topic", "orders"), ("subscription", "nobody"), ("to", "now"), ("sure", "yes")];
    assert!(site.post("operate", "/topics/rewind", &nobody).await.body.contains("has no subscription"));
    let next = page.split("rel=\"next\"").next().unwrap().rsplit("topic?").next().unwrap().split('"').next().unwrap().replace("&#38;", "&");
    let rest = site.get(&format!("/topic?{}", next.replace("&amp;", "&"))).await.body;
    assert_eq!(rest.matches("data-label=\"type\"").count(), 10, "{rest}");
}

async fn a_limit_says_who_holds_it_and_is_set(bed: Bed) {
    let first = bed.limited("acct_17").await;
    let site = bed.site().await;
    let list = site.get("/limits").await.body;
    for text in ["stripe", ">pay<", "data-label=\"waiting\">1<", ">set<"] {
        assert!(list.contains(text), "no `{text}`: {list}");
    }
    let page = "/limit?queue=pay&limit=stripe";
    let shown = site.get(page).await.body;
    for text in ["acct_17", "1 / 1", "data-label=\"waiting\">1<", &format!("/jobs/{first}")] {
        assert!(shown.contains(text), "no `{text}`: {shown}");
    }
    let second = site.get("/jobs/pay/second").await.body;
    assert!(second.contains("limit `stripe` of `acct_17` is full: 1 of 1 run") && second.contains("stripe of acct_17"), "{second}");
    let listed = site.get(&format!("/jobs?state=ready&text={}", encode("waiting=limit_full"))).await.body;
    assert!(listed.contains("pay/second") && listed.contains("limit stripe acct_17 1/1"), "{listed}");

    let post = async |path: &str, fields: &[(&str, &str)]| {
        let fields: Vec<(&str, &str)> = [("queue", "pay"), ("limit", "stripe")].into_iter().chain(fields.iter().copied()).collect();
        let answer = site.post("operate", path, &fields).await;
        match answer.headers.get("location") {
            Some(place) => site.get(place.strip_prefix(&site.base).unwrap()).await.body,
            None => answer.body,
        }
    };
    for (fields, problem) in [
        ([("concurrency", "-1"), ("rate", ""), ("burst", "")], "The field “concurrency” is not an integer"),
        ([("concurrency", "1"), ("rate", "many"), ("burst", "")], "is not a rate"),
        ([("concurrency", "1"), ("rate", ""), ("burst", "5")], "needs a rate"),
    ] {
        let shown = post("/limits/set", &fields).await;
        assert!(shown.contains(problem), "no `{problem}`: {shown}");
    }
    let holds = async || bed.client.inspector().limit("pay", "stripe").await.unwrap().map(|limit| limit.rule.to_string());
    let before = holds().await;
    let shown = post("/limits/set", &[("concurrency", "4"), ("rate", "100/1m"), ("burst", "20")]).await;
    assert!(shown.contains("The limit is set.") && shown.contains("1 / 4") && shown.contains("value=\"100/1m\""), "{shown}");
    assert_ne!(holds().await, before);
    let shown = post("/limits/remove", &[]).await;
    assert!(shown.contains("The setting was removed.") && shown.contains("<h1>Limits</h1>"), "{shown}");
    assert_eq!(holds().await, None, "no code declares it");
    let none = site.post("operate", "/limits/set", &[("queue", "pay"), ("limit", "stripe")]).await;
    assert_eq!(none.status, 404, "{}", none.body);
}

async fn limits_are_paged_without_losing_one(bed: Bed) {
    bed.enqueue("one", None).await;
    for n in 0..60 {
        bed.client.inspector().set_limit("mail", &format!("l{n:02}"), |rule| rule.concurrency = Some(1)).await.unwrap();
    }
    let site = bed.site().await;
    let (mut path, mut seen) = ("/limits".to_owned(), Vec::new());
    loop {
        let body = site.get(&path).await.body;
        seen.extend(body.split("<th scope=\"row\">").skip(1).map(|row| row.split(['>', '<']).nth(2).unwrap().to_owned()));
        let Some((before, _)) = body.split_once("\" rel=\"next\"") else { break };
        path = before.rsplit("href=\"").next().unwrap().replace("&#38;", "&").strip_prefix(&site.base).unwrap().to_owned();
    }
    assert_eq!(seen, (0..60).map(|n| format!("l{n:02}")).collect::<Vec<_>>());
}

async fn groups_are_listed_by_what_waits_and_paged_without_losing_one(bed: Bed) {
    for n in 0..60 {
        bed.grouped(&format!("t{n:02}"), if n == 55 { 3 } else { 1 }).await;
    }
    let site = bed.site().await;
    for of in ["/groups", "/groups?queue=mail"] {
        let (mut path, mut seen) = (of.to_owned(), Vec::new());
        loop {
            let body = site.get(&path).await.body;
            let names: Vec<String> =
                body.split("<th scope=\"row\">").skip(1).map(|row| row.split(['>', '<']).nth(2).unwrap().to_owned()).collect();
            assert!(names.len() <= 50 && !names.is_empty(), "{path}: {body}");
            seen.extend(names);
            let next = body
                .split("rel=\"next\"")
                .next()
                .filter(|_| body.contains("rel=\"next\""))
                .and_then(|before| before.rsplit("href=\"").next());
            match next.and_then(|next| next.split('"').next()) {
                Some(next) => path = next.replace("&#38;", "&").strip_prefix(&site.base).unwrap().to_owned(),
                None => break,
            }
        }
        if of.contains("queue") {
            assert_eq!(seen[0], "t55", "the one with most jobs is first");
        }
        seen.sort();
        assert_eq!(seen, (0..60).map(|n| format!("t{n:02}")).collect::<Vec<_>>(), "{of}");
    }
}
