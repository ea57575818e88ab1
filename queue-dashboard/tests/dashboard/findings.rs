//! Reports of incidents on the overview and the lists, and the buttons that fix them.

use std::{sync::Arc, time::Duration};

use crate::common::{Bed, eventually};
use queue_conformance::patience::wait;
use queue_core::{
    __private::declare_limits,
    JobState, RawJob,
    broker::{
        CrashRule, Ending, Finish, JobProgress, ProcessId, ProgressNow, ProgressReport, Register, ScheduleAnswer, ScheduleList,
        ScheduleSet, ScheduleState, SetSchedule, Turn, WorkerInfo,
    },
    inspect::{LimitRule, Rate},
    schedule::Schedule,
};

crate::on_brokers! {
    a_parked_job_is_compared_with_the_tasks_of_live_workers
    unreadable_jobs_are_not_counted_as_jobs_without_a_worker
    a_finding_has_the_button_that_helps
    the_first_crash_of_a_job_is_a_finding_with_a_link
    a_schedule_that_fails_is_named_and_has_a_red_badge
    releases_that_declare_different_limits_are_reported
    a_group_has_the_same_word_in_the_list_and_on_its_page
    a_job_that_has_ended_has_no_progress_bar
    the_backlog_of_a_subscription_is_distinguished
    the_metrics_have_every_queue
}

const LEASE: Duration = Duration::from_secs(600);

async fn lane(bed: &Bed, queue: &str, info: WorkerInfo) -> queue_core::broker::PartyName {
    bed.client.broker().register(&Register::lane(queue, ProcessId::random(), LEASE).with_info(info)).await.unwrap().name
}

/// Claims the jobs of the queue, and ends each with this ending.
async fn end_all(bed: &Bed, queue: &str, ending: Ending) {
    let (broker, lane) = (bed.client.broker(), lane(bed, queue, WorkerInfo::new("shop-1", 7, "shop-1", ["other"])).await);
    let claimed = broker.turn(&Turn::new(queue, lane.clone(), 1, LEASE).claim(50)).await.unwrap().deliveries;
    let finishes: Vec<Finish> = claimed.iter().map(|delivery| Finish::new(delivery, ending.clone())).collect();
    broker.turn(&Turn::new(queue, lane, 2, LEASE).finish(finishes)).await.unwrap();
}

async fn a_parked_job_is_compared_with_the_tasks_of_live_workers(bed: Bed) {
    bed.enqueue("one", None).await;
    end_all(&bed, "mail", Ending::Park { task: "send_mail".to_owned() }).await;
    let site = bed.site().await;
    let page = eventually(&site, "", "Parked in `mail`").await;
    assert!(page.contains("1 job of the task `send_mail`, which no live worker has (live: shop-1)."), "{page}");
    // Another application that uses the broker starts, and does not serve the queue.
    lane(&bed, "shop", WorkerInfo::new("mailer-1", 8, "mailer-3", ["send_mail"])).await;
    let page = eventually(&site, "", "does not serve this queue").await;
    assert!(page.contains("The worker mailer-1:8 (release mailer-3) has this task") && !page.contains("Delete the jobs"), "{page}");
    lane(&bed, "mail", WorkerInfo::new("mailer-2", 9, "mailer-3", ["send_mail"])).await;
    let page = eventually(&site, "", "takes them with its next free slot").await;
    assert!(page.contains("The worker mailer-2:9 (release mailer-3)") && !page.contains("Deploy a release"), "{page}");
    let job = site.get("/jobs/mail/one").await.body;
    assert!(!job.contains("No live worker has the task"), "{job}");
}

async fn unreadable_jobs_are_not_counted_as_jobs_without_a_worker(bed: Bed) {
    for id in ["one", "two", "three"] {
        bed.enqueue(id, None).await;
    }
    let within = Duration::from_secs(24 * 3600);
    let error = "release v42 cannot read it: parameter `to` is missing".to_owned();
    end_all(&bed, "mail", Ending::Unreadable { task: "send_mail".to_owned(), release: "v42".to_owned(), error, within }).await;
    let counts = bed.client.inspector().waiting("mail").await.unwrap();
    assert_eq!(counts, [("unreadable", 3)].into());
    let page = eventually(&bed.site().await, "", "3 parked: no live release can read them").await;
    assert!(!page.contains("no live worker has their task"), "{page}");
    assert!(page.contains("Otherwise the first becomes a dead letter in 23 h") || page.contains("a dead letter in 24 h"), "{page}");
}

async fn a_finding_has_the_button_that_helps(bed: Bed) {
    bed.enqueue("one", None).await;
    bed.client.inspector().pause("mail").await.unwrap();
    let site = bed.site().await;
    let page = eventually(&site, "", "The queue `mail` is paused").await;
    assert!(page.contains("/queues/resume\"") && page.contains(">Resume</button>"), "{page}");
    let view = site.ask("GET", "", &[("x-role", "view")], "").await.body;
    assert!(view.contains("The queue `mail` is paused") && !view.contains("/queues/resume"), "who may not resume sees no button: {view}");
    let form = [("queue", "mail"), ("back", "queues")];
    assert_eq!(site.post("operate", "/queues/resume", &form).await.status, 303);
    assert!(!bed.client.inspector().stats("mail").await.unwrap().paused);
    // All dead jobs of the queue have the same failure.
    bed.enqueue("fails", Some("smtp says 550")).await;
    bed.work_until(JobState::Dead, 1).await;
    let page = eventually(&site, "", "smtp says 550").await;
    assert!(page.contains(">Requeue all</button>") && !page.contains("examined"), "{page}");
}

async fn the_first_crash_of_a_job_is_a_finding_with_a_link(bed: Bed) {
    bed.enqueue("one", None).await;
    let (broker, lease) = (bed.client.broker(), Duration::from_millis(1));
    let lane = broker.register(&Register::lane("mail", ProcessId::random(), lease)).await.unwrap().name;
    broker.turn(&Turn::new("mail", lane, 1, lease).claim(1)).await.unwrap();
    wait("its lease to end").on(broker).until(async || !broker.overdue("mail", 0, 10).await.unwrap().expired.is_empty()).await;
    let overdue = broker.overdue("mail", 0, 10).await.unwrap().expired;
    let site = bed.site().await;
    let page = site.get("/jobs/mail/one").await.body;
    assert!(page.contains("the job is being reclaimed; its lease ended <time "), "{page}");
    broker.fence("mail", &overdue).await.unwrap();
    broker.reclaim("mail", &CrashRule { delay: Duration::ZERO, ..CrashRule::default() }).await.unwrap();
    let page =
        eventually(&site, "", "The job `one` in `mail` of the task `send_mail` was running when its worker process crashed (1 crash).")
            .await;
    assert!(page.contains("href=\"/queue/jobs/mail/one\""), "{page}");
}

async fn a_schedule_that_fails_is_named_and_has_a_red_badge(bed: Bed) {
    let address = bed.schedule("nightly", "0 3 * * *").await;
    bed.enqueue("fails", Some("no disk")).await;
    bed.work_until(JobState::Dead, 1).await;
    let broker = bed.client.broker();
    let stored = broker.schedules("mail", &ScheduleList::One("nightly".into())).await.unwrap();
    let read = &stored.schedules[0];
    let mut state = ScheduleState::decode(&read.state).unwrap();
    for tick in [1_000, 2_000] {
        let run = state.begun(tick, "tick".to_owned());
        state.ended(run, "dead", tick + 500);
    }
    let mut request = SetSchedule::new("mail", "nightly".to_owned(), stored.now_ms, Some(read.state.clone()));
    request.set = Some(ScheduleSet { definition: None, state: state.encode(), due_ms: None, declared: false });
    assert_eq!(broker.set_schedule(&request).await.unwrap(), ScheduleAnswer::Set(vec![]));
    let site = bed.site().await;
    let page = eventually(&site, "", "The schedule `mail/nightly` fails").await;
    assert!(page.contains("its last 2 jobs are dead letters of the task `send_mail`."), "{page}");
    assert!(page.contains("/schedules/pause\"") && page.contains(">Pause</button>"), "{page}");
    let list = site.get("/schedules").await.body;
    assert!(list.contains("<span class=\"badge bad\">failing</span>") && !list.contains(">ticks</span>"), "{list}");
    let page = site.get(&format!("/schedules/{address}")).await.body;
    assert!(page.contains("Its last 2 jobs became dead letters."), "{page}");
}

async fn releases_that_declare_different_limits_are_reported(bed: Bed) {
    let (broker, queue): (_, Arc<str>) = (bed.client.broker(), "pay".into());
    let inspector = bed.client.inspector();
    for (release, concurrency) in [("v1", 4), ("v2", 2)] {
        lane(&bed, "pay", WorkerInfo::new(release, 1, release, ["charge"])).await;
        let mut rule = LimitRule::new();
        rule.concurrency = Some(concurrency);
        declare_limits(broker, &queue, release, &[("stripe", rule)].into()).await.unwrap();
        let differences = inspector.differences("pay").await.unwrap();
        assert_eq!(differences.is_empty(), release == "v1", "{differences:?}");
    }
    let difference = inspector.differences("pay").await.unwrap().remove(0).to_string();
    let text = "live releases declare different values for the limit `stripe`: v1 declares concurrency 4, v2 declares concurrency 2. \
                In effect for all of them: concurrency ";
    assert!(difference.starts_with(text), "{difference}");
    let page = eventually(&bed.site().await, "", "v1 declares concurrency 4, v2 declares concurrency 2").await;
    assert!(page.contains("/limits?queue=pay"), "{page}");
}

async fn a_group_has_the_same_word_in_the_list_and_on_its_page(bed: Bed) {
    bed.client.inspector().set_limit("mail", "smtp", |rule| rule.rate = Some("1/1h".parse::<Rate>().unwrap())).await.unwrap();
    let job = || RawJob::new("send_mail", vec![0x80]).queue("mail").group("acme").limit("smtp", None);
    for _ in 0..2 {
        bed.client.enqueue_raw(job()).await.unwrap();
    }
    let lane = lane(&bed, "mail", WorkerInfo::default()).await;
    let claimed = bed.client.broker().turn(&Turn::new("mail", lane, 1, LEASE).claim(2)).await.unwrap().deliveries;
    assert_eq!(claimed.len(), 1, "the rate lets one job start");
    let site = bed.site().await;
    let page = site.get("/group?queue=mail&group=acme").await.body;
    assert!(page.contains(">rate limited<"), "{page}");
    let list = site.get("/groups").await.body;
    assert!(list.contains(">rate limited<") && !list.contains(">ready<"), "{list}");
}

async fn a_job_that_has_ended_has_no_progress_bar(bed: Bed) {
    bed.enqueue("one", None).await;
    let (broker, lane) = (bed.client.broker(), lane(&bed, "mail", WorkerInfo::default()).await);
    let job = broker.turn(&Turn::new("mail", lane.clone(), 1, LEASE).claim(1)).await.unwrap().deliveries.remove(0);
    let mut reported = JobProgress::new(job.id.clone(), job.claim, 1);
    reported.progress = Some(ProgressNow::new(1, Some(0.5), "half", None));
    let mut request = ProgressReport::new("mail", lane.clone());
    request.jobs.push(reported);
    assert_eq!(broker.store_progress(&request).await.unwrap(), [true]);
    let site = bed.site().await;
    let page = site.get("/jobs/mail/one").await.body;
    assert!(page.contains("<progress max=\"1000\" value=\"500\""), "{page}");
    let ending = Ending::Ack { result: None, keep: Some(LEASE) };
    broker.turn(&Turn::new("mail", lane, 2, LEASE).finish(vec![Finish::new(&job, ending)])).await.unwrap();
    let page = site.get("/jobs/mail/one").await.body;
    assert!(page.contains("Last progress report") && page.contains("before the job ended") && !page.contains("<progress"), "{page}");
}

async fn the_backlog_of_a_subscription_is_distinguished(bed: Bed) {
    bed.client.inspector().subscribe("orders", "billing", queue_core::topics::Begin::Start).await.unwrap();
    for n in 0..5 {
        let json = format!("{{\"order\":{n}}}");
        queue_core::topics::Publication::from_json("orders", "OrderPaid", &json).unwrap().publish(&bed.client).await.unwrap();
    }
    let (broker, lane) = (bed.client.broker(), lane(&bed, "billing@orders", WorkerInfo::default()).await);
    let mut claimed = 0;
    for seq in 1..=3 {
        claimed += broker.turn(&Turn::new("billing@orders", lane.clone(), seq, LEASE).claim(2 - claimed)).await.unwrap().deliveries.len();
    }
    let topic = bed.client.inspector().topic("orders").await.unwrap().unwrap();
    let of = &topic.subscriptions[0];
    assert_eq!((of.active, claimed > 0), (claimed as u64, true), "{of:?}");
    assert_eq!(of.open, of.waiting + of.active + of.retry + of.parked);
    let page = bed.site().await.get("/topic?topic=orders").await.body;
    for cell in [format!("data-label=\"waiting\">{}<", of.waiting), format!("data-label=\"running\">{}<", of.active)] {
        assert!(page.contains(&cell), "no {cell}: {page}");
    }
}

async fn the_metrics_have_every_queue(bed: Bed) {
    bed.enqueue("one", None).await;
    bed.client
        .schedules()
        .upsert(Schedule::cron("lost", "0 4 * * *").raw_job(RawJob::new("task", vec![0x80]).queue("shop")))
        .await
        .unwrap();
    lane(&bed, "shop", WorkerInfo::default()).await;
    let site = bed.site().await;
    let answer = site.get("/metrics").await;
    assert_eq!((answer.status, answer.headers["content-type"].as_str()), (200, "text/plain; version=0.0.4; charset=utf-8"));
    for line in ["queue_workers{queue=\"mail\"} 0\n", "queue_jobs{queue=\"mail\",state=\"ready\"} 1\n", "queue_workers{queue=\"shop\"} 1\n"]
    {
        assert!(answer.body.contains(line), "no {line}: {}", answer.body);
    }
    assert!(!site.ask("GET", "/metrics", &[], "").await.body.contains("queue_workers"), "only for those who may look");
}
