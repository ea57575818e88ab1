//! The forms of a page have exactly the described effect. Over both brokers.

use std::time::Duration;

use crate::common::{Answer, Bed, Site, encode, eventually, field, plain, remind, send_mail};
use queue_core::{
    JobId, JobState,
    broker::{Extend, ProcessId, Register, WorkerLoad, WorkerMode},
    inspect::{GroupName, JobRecord, NewOperation, OperationKind},
    prelude::*,
};

crate::on_brokers! {
    a_parameter_of_any_type_is_shown_and_edited
    an_edit_of_one_field_leaves_the_others_as_they_are
    an_edit_of_a_parameter_makes_the_group_of_it_again
    an_edit_without_parameters_is_refused
    large_parameters_are_saved
    links_lead_to_the_job_that_they_name
    buttons_of_a_group_act_on_this_group
    a_pause_ends_at_a_time_of_day
    a_limit_is_set_to_something
    a_copy_in_a_queue_without_workers_reports_it
    an_operation_that_has_ended_is_not_stopped
    a_problem_links_to_where_it_came_from
    a_worker_that_stops_is_asked_nothing_more
    a_worker_that_has_stopped_in_order_is_not_silent
}

const HOUR: Duration = Duration::from_secs(3600);

async fn show(bed: &Bed, address: &str) -> JobRecord {
    bed.client.inspector().show(&address.parse().unwrap()).await.unwrap()
}

/// Sends the form of the page Edit like a browser, with changed values in some fields.
async fn edit(site: &Site, address: &str, path: &str, changed: &[(&str, &str)]) -> Answer {
    let page = site.get(path).await.body;
    let priority = page.split("<option selected>").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let mut form: Vec<(&str, String)> =
        ["seen", "payload", "at", "group", "max_attempts"].into_iter().map(|name| (name, field(&page, name))).collect();
    form.extend([("job", address.to_owned()), ("priority", priority)]);
    for (name, value) in &mut form {
        if let Some((_, new)) = changed.iter().find(|(changed, _)| changed == name) {
            *value = (*new).to_owned();
        }
    }
    let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
    site.post("operate", "/jobs/edit", &form).await
}

#[path = "../../../tests/tests/stored/values/table.rs"]
#[allow(dead_code, unreachable_pub, reason = "other tests use the rest")]
mod table;

/// A form that a browser sends back unchanged changes nothing. An edit of one parameter changes no
/// other parameter.
async fn a_parameter_of_any_type_is_shown_and_edited(bed: Bed) {
    let site = bed.site().await;
    table::all().job().id("all").delay(HOUR).enqueue(&bed.client).await.unwrap();
    let page = site.get("/jobs/values/all").await.body;
    for part in ["550e8400-e29b-41d4-a716-446655440000", "2026-11-18T11:06:40.25", "0.30000000000000004", "19.90", "$base64"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let before = show(&bed, "values/all").await;
    let answer = edit(&site, "values/all", "/jobs/values/all/edit", &[]).await;
    assert!(answer.headers["location"].ends_with("did=edit-none"), "{answer:?}");
    assert_eq!(show(&bed, "values/all").await.payload_json().unwrap(), before.payload_json().unwrap());
    let written = field(&site.get("/jobs/values/all/edit").await.body, "payload").replace("\"note\": 1", "\"note\": 2");
    let answer = edit(&site, "values/all", "/jobs/values/all/edit", &[("payload", &written)]).await;
    assert_eq!(answer.status, 303, "{}", answer.body);
    assert_eq!(show(&bed, "values/all").await.payload::<table::All>().unwrap(), table::All { note: 2, ..table::all() });
    let found = bed.client.inspector().search("payload~550e8400".parse().unwrap()).queue("values").next().await.unwrap().unwrap();
    assert_eq!(found.jobs.len(), 1);
}

async fn an_edit_of_one_field_leaves_the_others_as_they_are(bed: Bed) {
    let site = bed.site().await;
    for (n, group) in ["  lead", "tab\there", "line\nfeed", "tail ", " ", "\u{7}", "acme"].into_iter().enumerate() {
        let address = format!("mail/job-{n}");
        let job = send_mail::job("ada".to_owned(), None, None).id(format!("job-{n}")).group(group).delay(HOUR).max_attempts(7);
        job.enqueue(&bed.client).await.unwrap();
        let before = show(&bed, &address).await;
        let answer = edit(&site, &address, &format!("/jobs/{address}/edit"), &[("priority", "high")]).await;
        assert_eq!(answer.status, 303, "{group:?}: {}", answer.body);
        let after = show(&bed, &address).await;
        assert_eq!(after.group, before.group, "{group:?}");
        assert_eq!((after.priority, after.max_attempts, after.due_at), (Priority::High, Some(7), before.due_at), "{group:?}");
    }
    // The value of the field is applied.
    for (written, group) in [("globex", Some("globex")), ("", None)] {
        edit(&site, "mail/job-0", "/jobs/mail/job-0/edit", &[("group", written), ("max_attempts", "")]).await;
        let job = show(&bed, "mail/job-0").await;
        assert_eq!((job.group.as_ref().map(GroupName::as_str), job.max_attempts), (group, None), "{written}");
    }
}

async fn an_edit_of_a_parameter_makes_the_group_of_it_again(bed: Bed) {
    remind::job("acme".to_owned(), None).id("one").delay(HOUR).enqueue(&bed.client).await.unwrap();
    assert_eq!(show(&bed, "mail/one").await.group.unwrap().as_str(), "acme");
    let site = bed.site().await;
    let answer = edit(&site, "mail/one", "/jobs/mail/one/edit", &[("payload", r#"{"tenant":"globex","fail":null}"#)]).await;
    assert_eq!(answer.status, 303, "{}", answer.body);
    assert_eq!(show(&bed, "mail/one").await.group.unwrap().as_str(), "globex");
    // A group from the field has precedence over the group from the parameter.
    edit(&site, "mail/one", "/jobs/mail/one/edit", &[("payload", r#"{"tenant":"initech","fail":null}"#), ("group", "vip")]).await;
    assert_eq!(show(&bed, "mail/one").await.group.unwrap().as_str(), "vip");
}

async fn an_edit_without_parameters_is_refused(bed: Bed) {
    send_mail::job("ada".to_owned(), None, None).id("one").delay(HOUR).enqueue(&bed.client).await.unwrap();
    let site = bed.site().await;
    for empty in ["", " \r\n"] {
        let answer = edit(&site, "mail/one", "/jobs/mail/one/edit", &[("payload", empty), ("priority", "high")]).await;
        assert!(answer.status == 400 && answer.body.contains("Nothing was changed."), "{empty:?}: {} {}", answer.status, answer.body);
    }
    assert_eq!(show(&bed, "mail/one").await.priority, Priority::Normal);
}

async fn large_parameters_are_saved(bed: Bed) {
    // Each byte takes three in a form.
    let long = "é".repeat(31_000);
    send_mail::job(long, None, None).id("one").delay(HOUR).enqueue(&bed.client).await.unwrap();
    let site = bed.site().await;
    let written = format!(r#"{{"to":"{}","password":null,"fail":null}}"#, "ü".repeat(31_000));
    let answer = edit(&site, "mail/one", "/jobs/mail/one/edit", &[("payload", &written)]).await;
    assert_eq!(answer.status, 303, "{}", answer.body);
    assert!(show(&bed, "mail/one").await.payload_json().unwrap().contains("üü"));
}

async fn links_lead_to_the_job_that_they_name(bed: Bed) {
    let ids = ["a%41", "aA", "%2e%2e", ".", "..", "a+b@c:d", "%"];
    for id in ids {
        let job = send_mail::job("ada".to_owned(), None, None).id(id).group("acme");
        job.enqueue(&bed.client).await.unwrap();
    }
    let site = bed.site().await;
    let (list, found) = (site.get("/jobs?state=ready").await.body, site.get("/search?filter=task%3Dsend_mail").await.body);
    let group = site.get("/group?queue=mail&group=acme").await.body;
    for id in ids {
        let of_list = list.split(&format!("title=\"mail/{id}\"")).next().unwrap().rsplit("href=\"").next().unwrap();
        let path = plain(of_list.split('"').next().unwrap());
        let inner = path.strip_prefix("/queue").unwrap();
        assert!(found.contains(&format!("href=\"{path}\"")) && group.contains(&format!("href=\"{path}\"")), "{id}: no {path}");
        // A browser resolves these as the parent folder, and never sends them.
        assert!(inner.split('/').all(|part| !["", ".", "..", "%2e", "%2e%2e"].contains(&part) || part.is_empty()), "{id}: {path}");
        let page = site.get(inner).await.body;
        assert_eq!(field(&page, "job"), format!("mail/{id}"), "{path}");
        for more in ["edit", "duplicate"] {
            let link = format!("{path}/{more}");
            assert!(page.contains(&format!("href=\"{link}\"")), "{id}: no {link}");
            let form = site.get(link.strip_prefix("/queue").unwrap()).await.body;
            assert_eq!(field(&form, "job"), format!("mail/{id}"), "{link}");
            assert!(form.contains(&format!("href=\"{path}\"")), "{link} leads back");
        }
        let answer = edit(&site, &format!("mail/{id}"), &format!("{inner}/edit"), &[("priority", "high")]).await;
        assert_eq!(answer.headers["location"], format!("{path}?did=edit"), "{id}");
        let back = field(&page, "back");
        let answer = site.post("operate", "/jobs/requeue", &[("job", &format!("mail/{id}")), ("back", &back)]).await;
        assert_eq!(answer.headers["location"], format!("{path}?did=requeue&n=0&of=1"), "{id}");
    }
}

async fn buttons_of_a_group_act_on_this_group(bed: Bed) {
    let site = bed.site().await;
    for name in ["line\nfeed", "cr\rhere", "both\r\nof them", "a b&c=d"] {
        bed.grouped(name, 1).await;
        let group = GroupName::new(name).unwrap();
        let page = site.get(&format!("/group?queue=mail&group={}", encode(name))).await.body;
        let hidden = if page.contains("name=\"group_encoded\"") { "group_encoded" } else { "group" };
        let meant = field(&page, hidden);
        let now = async || bed.client.inspector().group("mail", &group).await.unwrap();
        let answer = site.post("operate", "/groups/pause", &[("queue", "mail"), (hidden, &meant)]).await;
        assert!(answer.status == 303 && now().await.rule.paused, "{name:?}: {}", answer.body);
        let asked = site.post("operate", "/groups/drain", &[("queue", "mail"), (hidden, &meant)]).await.body;
        let sure = [("queue", "mail"), (hidden, &*field(&asked, hidden)), ("sure", "yes")];
        site.post("operate", "/groups/drain", &sure).await;
        assert_eq!(now().await.ready, 0, "{name:?}");
        let list = site.get("/groups?queue=mail").await.body;
        assert!(list.contains(&format!("name=\"{hidden}\"")), "{list}");
        site.post("operate", "/groups/resume", &[("queue", "mail"), (hidden, &meant)]).await;
    }
}

async fn a_pause_ends_at_a_time_of_day(bed: Bed) {
    bed.enqueue("one", None).await;
    let site = bed.site().await;
    for (path, of) in [("/queues/pause", None), ("/queues/pause", Some(("task", "send_mail"))), ("/groups/pause", Some(("group", "acme")))]
    {
        let form: Vec<(&str, &str)> = [("queue", "mail"), ("until", "09:00")].into_iter().chain(of).collect();
        assert_eq!(site.post("operate", path, &form).await.status, 303, "{path} {of:?}");
    }
    let inspector = bed.client.inspector();
    let group = inspector.group("mail", &GroupName::new("acme").unwrap()).await.unwrap().pause;
    let mut pauses: Vec<_> = inspector.pauses("mail").await.unwrap().into_iter().map(|stored| stored.pause).collect();
    pauses.extend(group);
    let until: Vec<_> = pauses.into_iter().map(|pause| pause.until.unwrap()).collect();
    assert_eq!(until.len(), 3);
    for until in until {
        let of_day = until.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() % 86_400;
        assert!(of_day == 9 * 3600 && until > std::time::SystemTime::now(), "{until:?}");
    }
    let refused = site.post("operate", "/queues/pause", &[("queue", "mail"), ("until", "25:00")]).await;
    assert!(refused.status == 400 && refused.body.contains("09:00"), "the way out names it: {}", refused.body);
}

async fn a_limit_is_set_to_something(bed: Bed) {
    bed.limited("acct_17").await;
    let site = bed.site().await;
    let empty = [("queue", "pay"), ("limit", "stripe"), ("concurrency", ""), ("rate", ""), ("burst", "")];
    let answer = site.post("operate", "/limits/set", &empty).await;
    assert!(answer.status == 400 && answer.body.contains("Nothing was changed."), "{} {}", answer.status, answer.body);
    let limit = bed.client.inspector().limit("pay", "stripe").await.unwrap().unwrap();
    assert_eq!(limit.set.and_then(|set| set.concurrency), Some(1));
}

async fn a_copy_in_a_queue_without_workers_reports_it(bed: Bed) {
    bed.enqueue("one", None).await;
    bed.work_until(JobState::Done, 1).await;
    let site = bed.site().await;
    for (queue, says) in [("mial", true), ("mail", false)] {
        let copy = JobId::make().to_string();
        let answer = site.post("operate", "/jobs/duplicate", &[("job", "mail/one"), ("copy", &copy), ("queue", queue)]).await;
        let page = site.get(answer.headers["location"].strip_prefix("/queue").unwrap()).await.body;
        assert!(page.contains("This is the copy."), "{page}");
        assert_eq!(page.contains("No worker has ever served its queue"), says, "{queue}: {page}");
    }
}

async fn an_operation_that_has_ended_is_not_stopped(bed: Bed) {
    bed.enqueue("one", None).await;
    let new = || NewOperation::new(OperationKind::Cancel, "state=ready".parse().unwrap()).by("ada").detached();
    let inspector = bed.client.inspector();
    let started = inspector.start_operation("mail", &new()).await.unwrap();
    let site = bed.site().await;
    let page = format!("operation?queue=mail&id={}", started.id);
    // A second request is redirected to the first operation.
    let all = [("all", "yes"), ("queue", "mail"), ("state", "ready"), ("sure", "yes"), ("back", "jobs")];
    let refused = site.post("operate", "/jobs/cancel", &all).await;
    assert!(refused.status == 409 && plain(&refused.body).contains(&format!("href=\"/queue/{page}\"")), "{}", refused.body);
    // Without a worker, no operation continues automatically.
    let shown = site.get(&format!("/{page}")).await.body;
    assert!(shown.contains("No live worker serves mail") && !shown.contains("resumes it within a minute"), "{shown}");
    let form = [("queue", "mail"), ("id", started.id.as_str())];
    let stopped = site.post("operate", "/operations/stop", &form).await;
    assert_eq!(stopped.headers["location"], "/queue/operations?queue=mail&did=stopped");
    let again = site.post("operate", "/operations/stop", &form).await;
    assert_eq!(again.headers["location"], "/queue/operations?queue=mail&did=ended");
    assert!(site.get("/operations?queue=mail&did=ended").await.body.contains("It had ended before."));
}

async fn a_problem_links_to_where_it_came_from(bed: Bed) {
    bed.enqueue("one", None).await;
    let site = bed.site().await;
    let (token, here) = ("0123456789abcdef0123456789abcdef", format!("http://{}/queue", site.address));
    let cookie = format!("queue_csrf={token}");
    let send = async |path: &str, from: &str, fields: &str| {
        let headers = [
            ("x-role", "operate"),
            ("cookie", cookie.as_str()),
            ("sec-fetch-site", "same-origin"),
            ("content-type", "application/x-www-form-urlencoded"),
            ("referer", from),
        ];
        let answer = site.ask("POST", path, &headers, &format!("csrf={token}&{fields}")).await;
        assert!(answer.status >= 400, "{path}: {}", answer.status);
        plain(&answer.body)
    };
    let wrong = "job=mail%2Fone&seen=x&priority=high";
    let page = send("/jobs/edit", &format!("{here}/jobs/mail/one/edit"), wrong).await;
    assert!(page.contains("href=\"/queue/jobs/mail/one/edit\">Back<"), "{page}");
    let page = send("/queues/pause", &format!("{here}/queues?text=ma"), "queue=mail&until=soon").await;
    assert!(page.contains("href=\"/queue/queues?text=ma\">Back<"), "{page}");
    // A question has the address of its answer, which is not a page.
    let page = send("/jobs/cancel", &format!("{here}/jobs/cancel"), "job=x&sure=yes&back=jobs%3Fstate%3Dready").await;
    assert!(page.contains("href=\"/queue/jobs?state=ready\">Back<"), "{page}");
    let page = send("/jobs/edit", "", wrong).await;
    assert!(page.contains("href=\"/queue/jobs/mail/one\">Back<"), "{page}");
    for elsewhere in
        ["http://evil.example/queue/jobs", &format!("http://{}/other", site.address), "javascript:alert(1)", "//evil.example/queue"]
    {
        let page = send("/queues/pause", elsewhere, "queue=mail&until=soon").await;
        assert!(!page.contains(">Back<"), "{elsewhere}: {page}");
    }
}

/// A worker in the queue `mail` that reports its mode.
async fn worker(bed: &Bed) -> (ProcessId, impl AsyncFn(WorkerMode, u64)) {
    let (broker, process) = (bed.client.broker().clone(), ProcessId::random());
    let lane = broker.register(&Register::lane("mail", process, HOUR)).await.unwrap().name;
    let heartbeat = async move |mode, heard| {
        let load = WorkerLoad::new(0, 8).working(mode, heard);
        broker.extend(&[Extend::new("mail", lane.clone(), 0, HOUR).with_load(load)]).await.remove(0).unwrap();
    };
    (process, heartbeat)
}

async fn a_worker_that_stops_is_asked_nothing_more(bed: Bed) {
    let (process, heartbeat) = worker(&bed).await;
    heartbeat(WorkerMode::Works, 0).await;
    let site = bed.site().await;
    let (id, path) = (process.to_string(), format!("/worker?id={process}"));
    eventually(&site, &path, "/workers/stop").await;
    assert_eq!(site.post("operate", "/workers/stop", &[("id", &id), ("sure", "yes")]).await.status, 303);
    for says in [">asked: stopping<", ">stopping<"] {
        let page = eventually(&site, &path, says).await;
        for verb in ["quiet", "resume", "stop"] {
            assert!(!page.contains(&format!("/workers/{verb}")), "{says} {verb}: {page}");
            let answer = site.post("operate", &format!("/workers/{verb}"), &[("id", &id), ("sure", "yes")]).await;
            assert!(answer.status == 409 && answer.body.contains("Nothing was changed."), "{says} {verb}: {}", answer.body);
        }
        heartbeat(WorkerMode::Stopping, 1).await;
    }
    let asked = bed.client.inspector().worker(process).await.unwrap().unwrap().asked.map(|ask| (ask.number, ask.mode));
    assert_eq!(asked, Some((1, WorkerMode::Stopping)));
}

async fn a_worker_that_has_stopped_in_order_is_not_silent(bed: Bed) {
    bed.enqueue("one", None).await;
    bed.work_until(JobState::Done, 1).await;
    let site = bed.site().await;
    let page = eventually(&site, "/workers", ">stopping<").await;
    assert!(!page.contains(">silent<") && !page.contains("1 silent"), "{page}");
    let id = page.split("/worker?id=").nth(1).unwrap().split('"').next().unwrap();
    let page = site.get(&format!("/worker?id={id}")).await.body;
    assert!(page.contains(">stopping<") && !page.contains(">silent<"), "{page}");
    let refused = site.post("operate", "/workers/resume", &[("id", id)]).await;
    assert_eq!(refused.status, 409, "{}", refused.body);
    assert!(!site.get("").await.body.contains("The last heartbeat of worker"), "it is no finding");
}
