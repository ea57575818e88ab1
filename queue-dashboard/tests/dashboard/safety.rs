//! Visitors see and change only what their role allows, for any request.

use std::{
    io,
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use crate::common::{self, Bed, Site, encode, send_mail};
use queue_core::{
    JobId, JobState, Outcome,
    broker::{ProcessId, Register, WorkerInfo},
    prelude::*,
};
use queue_dashboard::Role;
use queue_tests::patience::wait;

crate::on_brokers! {
    no_route_answers_a_role_that_is_too_low_or_a_method_that_it_has_not
    read_only_means_that_there_are_no_routes_to_change_something
    another_host_is_refused_everywhere
    a_change_needs_a_form_of_the_dashboard
    no_text_of_a_job_or_a_worker_becomes_part_of_a_page
    numbers_out_of_all_bounds_are_answered
    who_changed_what_stands_in_the_log
    who_edited_and_copied_a_job_stands_in_the_log
    what_a_person_began_who_has_left_is_ended_and_logged
    a_flood_is_answered_and_streams_are_bounded
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Every route, with valid parameters.
fn routes(read_only: bool) -> Vec<(&'static str, String, Option<Role>)> {
    let filled = |path: &str| {
        path.replace("{queue}", "mail")
            .replace("{schedule}", "nightly")
            .replace("{id}", "one")
            .replace("{page}", "nothing")
            .replace("{name}", "none.css")
    };
    queue_dashboard::__routes(read_only, false).into_iter().map(|(method, path, least)| (method, filled(path), least)).collect()
}

fn roles() -> [(&'static str, Option<Role>); 5] {
    [("", None), ("stranger", None), ("view", Some(Role::View)), ("operate", Some(Role::Operate)), ("admin", Some(Role::Admin))]
}

/// Sends a request with everything that a change needs, with any method.
async fn whole(site: &Site, method: &str, path: &str, role: &str) -> u16 {
    let cookie = format!("queue_csrf={TOKEN}");
    let headers = [
        ("x-role", role),
        ("cookie", cookie.as_str()),
        ("sec-fetch-site", "same-origin"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let path = if path == "/" { "" } else { path };
    site.ask(method, path, &headers, &format!("csrf={TOKEN}&queue=none")).await.status
}

async fn no_route_answers_a_role_that_is_too_low_or_a_method_that_it_has_not(bed: Bed) {
    bed.enqueue("one", None).await;
    bed.schedule("nightly", "0 3 * * *").await;
    let site = bed.site().await;
    let mut asked = 0;
    for (of_route, path, least) in routes(false) {
        for (role, is) in roles() {
            for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
                let status = whole(&site, method, &path, role).await;
                let fits = method == of_route || (method == "HEAD" && of_route == "GET");
                let says = format!("{method} {path} as `{role}`: {status}");
                match (fits, is, least) {
                    (true, _, None) => assert!(matches!(status, 200 | 404), "{says}"),
                    (true, Some(is), Some(least)) if is >= least => assert!(matches!(status, 200 | 303 | 404), "{says}"),
                    (true, Some(_), _) => assert_eq!(status, 403, "{says}"),
                    (false, Some(_), _) => assert_eq!(status, 405, "{says}"),
                    (_, None, _) => assert_eq!(status, 401, "{says}"),
                }
                asked += 1;
            }
        }
    }
    assert!(asked >= 19 * 5 * 8, "the table lists {asked} requests");
    let stats = bed.client.inspector().stats("mail").await.unwrap();
    assert!(stats.count(JobState::Ready) == 1 && !stats.paused, "nothing was changed: {stats:?}");
}

async fn read_only_means_that_there_are_no_routes_to_change_something(bed: Bed) {
    bed.enqueue("one", None).await;
    bed.schedule("nightly", "0 3 * * *").await;
    let site = Site::mounted(queue_dashboard::router(bed.client.clone()).read_only(), "/queue").await;
    assert!(routes(true).iter().all(|(method, ..)| *method == "GET"));
    for (method, path, _) in routes(false).into_iter().filter(|(method, ..)| *method == "POST") {
        assert_eq!(whole(&site, method, &path, "admin").await, 404, "{path}");
    }
    for path in ["/queues", "/jobs?state=ready", "/jobs/mail/one", "/schedules", "/schedules/mail/nightly"] {
        let page = site.get(path).await.body;
        assert!(!page.contains("method=\"post\" action") && !page.contains("formaction") && page.contains("read-only"), "{path}: {page}");
    }
}

async fn another_host_is_refused_everywhere(bed: Bed) {
    let site = Site::mounted(queue_dashboard::router(bed.client.clone()).hosts(["Shop.example"]), "/queue").await;
    for (method, path, _) in routes(false) {
        for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "shop.example.evil", "a@evil.example"] {
            // A router that is nested at `/queue` has no page at `/queue/`.
            let path = if path == "/" { "" } else { &path };
            let answer = site.ask(method, path, &[("host", host), ("x-role", "admin")], "").await;
            assert_eq!(answer.status, 421, "{host} {path}");
        }
    }
    for host in ["localhost", "localhost:7070", "[::1]:7070", "shop.example", "SHOP.example:443", "shop.example."] {
        assert_eq!(site.ask("GET", "", &[("host", host), ("x-role", "view")], "").await.status, 200, "{host}");
    }
    let any = Site::mounted(queue_dashboard::router(bed.client.clone()).any_host(), "/queue").await;
    assert_eq!(any.ask("GET", "", &[("host", "10.0.0.1"), ("x-role", "view")], "").await.status, 200);
}

/// The problem of a request, its headers, its body, and the status of the answer.
type Refused<'a> = (&'a str, Vec<(&'a str, &'a str)>, &'a str, u16);

async fn a_change_needs_a_form_of_the_dashboard(bed: Bed) {
    bed.enqueue("one", Some("no")).await;
    bed.work_until(JobState::Dead, 1).await;
    let site = bed.site().await;
    let origin = format!("http://{}", site.address);
    let form = ("content-type", "application/x-www-form-urlencoded");
    let (good, role) = (format!("queue_csrf={TOKEN}"), ("x-role", "admin"));
    let cookie = ("cookie", good.as_str());
    let (same, body) = (("sec-fetch-site", "same-origin"), format!("csrf={TOKEN}&job=mail/one"));
    let other = format!("csrf={}&job=mail/one", TOKEN.replace('0', "1"));
    let large = format!("{body}&x={}", "a".repeat(200_000));
    let refused: [Refused<'_>; 13] = [
        ("nothing says where it comes from", vec![role, cookie, form], &body, 403),
        ("another site", vec![role, cookie, form, ("sec-fetch-site", "cross-site")], &body, 403),
        ("another site of the same domain", vec![role, cookie, form, ("sec-fetch-site", "same-site"), ("origin", &origin)], &body, 403),
        ("another origin", vec![role, cookie, form, ("origin", "http://evil.example")], &body, 403),
        ("an origin that is hidden", vec![role, cookie, form, ("origin", "null")], &body, 403),
        ("another port", vec![role, cookie, form, ("origin", "http://127.0.0.1:1")], &body, 403),
        ("no cookie", vec![role, form, same], &body, 403),
        ("another token", vec![role, cookie, form, same], &other, 403),
        ("no token", vec![role, cookie, form, same], "job=mail/one", 403),
        ("an empty token", vec![role, ("cookie", "queue_csrf="), form, same], "csrf=&job=mail/one", 403),
        ("JSON", vec![role, cookie, same, ("content-type", "application/json")], &body, 403),
        ("plain text", vec![role, cookie, same, ("content-type", "text/plain")], &body, 403),
        ("too much", vec![role, cookie, form, same], &large, 413),
    ];
    for (what, headers, body, status) in refused {
        let answer = site.ask("POST", "/jobs/requeue", &headers, body).await;
        assert_eq!(answer.status, status, "{what}: {}", answer.body);
        assert!(answer.body.contains("Nothing was changed."), "{what}");
    }
    assert_eq!(site.get(&format!("/jobs/requeue?{body}")).await.status, 405, "no link changes anything");
    assert_eq!(bed.client.inspector().stats("mail").await.unwrap().count(JobState::Dead), 1);
    let by_origin = site.ask("POST", "/jobs/requeue", &[role, cookie, form, ("origin", &origin)], &body).await;
    assert_eq!(by_origin.status, 303, "a browser without Sec-Fetch-Site says the origin");
    let page = site.get("").await;
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("cache-control", "no-store"),
        ("referrer-policy", "same-origin"),
    ] {
        assert_eq!(page.headers[name], value);
    }
    let policy = &page.headers["content-security-policy"];
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(page.headers["set-cookie"].contains("HttpOnly; SameSite=Lax"));
}

/// Texts of an attacker.
const HOSTILE: [&str; 7] = [
    "\"><script>alert(1)</script>",
    "'><img src=x onerror=alert(2)>",
    "javascript:alert(3)",
    "</pre></title><svg/onload=alert(4)>",
    "\u{202e}gnp.exe \u{0}\u{7}\u{1b}[31m",
    "data: x\r\n\r\nevent: gone\r\ndata: y\n\n",
    "{{ 7*7 }}{% raw %}<!--",
];

#[task(queue = "mail", max_attempts = 1)]
pub(crate) async fn hostile(text: String, cancel: bool) -> Outcome {
    if cancel { Outcome::Cancel(text) } else { Outcome::Bury(text) }
}

async fn no_text_of_a_job_or_a_worker_becomes_part_of_a_page(bed: Bed) {
    for (i, text) in HOSTILE.iter().enumerate() {
        for (kind, cancel) in [("dead", false), ("cancelled", true)] {
            let job = hostile::job((*text).to_owned(), cancel).id(format!("{kind}-{i}")).header(format!("x-{text}"), (*text).to_owned());
            job.enqueue(&bed.client).await.unwrap();
        }
    }
    bed.work_until(JobState::Dead, 7).await;
    bed.wait_for(JobState::Cancelled, 7).await;
    for text in HOSTILE {
        let info = WorkerInfo::new(text, 1, text, [text]);
        bed.client.broker().register(&Register::lane("mail", ProcessId::random(), Duration::from_secs(60)).with_info(info)).await.unwrap();
    }
    for (i, text) in HOSTILE.iter().enumerate() {
        common::hostile_schedule(&bed, &format!("bad-{i}"), text).await;
    }
    for text in HOSTILE {
        bed.grouped(text, 1).await;
        let group = queue_core::inspect::GroupName::new(text).unwrap();
        bed.client.inspector().because(text).pause_group("mail", &group).await.unwrap();
    }
    let site = bed.site().await;
    let mut paths: Vec<String> = [
        "",
        "/schedules",
        "/failures",
        "/groups",
        "/groups?queue=mail",
        "/queues",
        "/jobs?state=dead",
        "/jobs?state=cancelled",
        "/workers",
        "/history",
    ]
    .map(str::to_owned)
    .into();
    for i in 0..HOSTILE.len() {
        paths.extend([
            format!("/jobs/mail/dead-{i}"),
            format!("/jobs/mail/cancelled-{i}"),
            format!("/schedules/mail/bad-{i}"),
            format!("/schedules/mail/broken-bad-{i}"),
        ]);
    }
    for text in HOSTILE {
        let text = encode(text);
        paths.push(format!("/queues?text={text}&from={text}"));
        paths.push(format!("/jobs?state=dead&queue={text}&task={text}&text={text}&at={text}&offset={text}&did={text}&n={text}"));
        paths.extend([
            format!("/schedules?queue={text}&at={text}&offset={text}&did={text}&ticks={text}"),
            format!("/schedules/{text}/{text}"),
            format!("/group?queue=mail&group={text}"),
            format!("/group?queue={text}&group={text}"),
            format!("/groups?queue={text}&at={text}&after={text}&offset={text}&did={text}&n={text}&left={text}"),
            format!("/failures?queue={text}&from={text}&did={text}&all={text}&left={text}&more={text}"),
            format!("/operations?queue={text}&did={text}"),
            format!("/operation?queue=mail&id={text}"),
            format!("/operation?queue={text}&id={text}&did={text}"),
            format!("/schedules/mail/bad-0?did={text}"),
            format!("/jobs?state={text}"),
            format!("/jobs/{text}/{text}"),
            format!("/{text}"),
            format!("/assets/{text}"),
            format!("/live/{text}"),
        ]);
    }
    for path in ["/assets/..%2f..%2fCargo.toml", "/assets/%2e%2e%2fdashboard.css", "/assets/C:%5cwindows", "/assets//etc/passwd"] {
        assert_eq!(site.get(path).await.status, 404, "{path}");
    }
    for path in paths {
        let answer = site.get(&path).await;
        assert!(answer.status < 500, "{path}: {}", answer.status);
        let page = &answer.body;
        assert_eq!(page.matches("<script").count(), usize::from(page.contains("</html>")), "{path}: {page}");
        for tag in ["<img", "<svg/", "<!--", " onerror=alert(2)>"] {
            assert!(!page.contains(tag), "{path}: {page}");
        }
        for attribute in ["href=\"javascript:", "href='", "src=\"javascript:"] {
            assert!(!page.contains(attribute), "{path}: {page}");
        }
    }
}

async fn numbers_out_of_all_bounds_are_answered(bed: Bed) {
    bed.enqueue("one", None).await;
    let site = bed.site().await;
    for number in [
        "-1",
        "0",
        "1e9",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551616",
        "99999999999999999999999999999",
        "NaN",
        "%00",
        "٣",
    ] {
        for path in [
            "/jobs?state=ready&offset=",
            "/jobs?state=dead&offset=",
            "/jobs?queue=mail&offset=",
            "/queues?from=",
            "/workers?from=",
            "/schedules?offset=",
            "/schedules?at=mail&offset=",
            "/schedules?did=filled&ticks=",
            "/jobs?did=cancel&of=3&n=",
        ] {
            let answer = wait(format!("{path}{number}")).end_of(site.get(&format!("{path}{}", encode(number)))).await;
            assert_eq!(answer.status, 200, "{path}{number}: {}", answer.body);
        }
    }
    let long = "a".repeat(6_000);
    for path in ["/jobs?text=", "/jobs?task=", "/queues?text="] {
        assert_eq!(site.get(&format!("{path}{long}")).await.status, 200);
    }
    assert_eq!(site.get(&format!("/jobs?{}", "x=1&".repeat(3_000))).await.status, 200);
}

/// All log lines of this process.
fn log() -> &'static Arc<Mutex<Vec<u8>>> {
    #[derive(Clone)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    static LOG: OnceLock<Arc<Mutex<Vec<u8>>>> = OnceLock::new();
    LOG.get_or_init(|| {
        let lines = Arc::<Mutex<Vec<u8>>>::default();
        let writer = Lines(lines.clone());
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).init();
        lines
    })
}

async fn who_changed_what_stands_in_the_log(bed: Bed) {
    let log = log();
    // The ids are unique, because this test shares its log with others.
    let id = format!("audited-{}", bed.client.info().kind);
    bed.enqueue(&id, Some("no")).await;
    bed.work_until(JobState::Dead, 1).await;
    let site = bed.site().await;
    site.post("operate", "/jobs/requeue", &[("job", &format!("mail/{id}")), ("job", "mail/none")]).await;
    site.post("operate", "/queues/pause", &[("queue", "mail")]).await;
    let nightly = bed.schedule(&id, "0 3 * * *").await.to_string();
    let span = [("schedule", nightly.as_str()), ("from", "2026-03-01T00:00"), ("to", "2026-03-03T00:00"), ("sure", "yes")];
    for (role, path) in [("operate", "pause"), ("operate", "run"), ("operate", "backfill"), ("view", "resume")] {
        site.post(role, &format!("/schedules/{path}"), &span).await;
    }
    site.post("operate", "/schedules/pause", &[("schedule", "mail/none")]).await;
    site.post("view", "/jobs/cancel", &[("job", &format!("mail/{id}")), ("sure", "yes")]).await;
    let text = String::from_utf8(log.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("queue_dashboard::audit")).collect();
    let of_schedule: Vec<_> = lines.iter().filter(|line| line.contains(&format!("schedule=\"{id}\""))).collect();
    assert_eq!(of_schedule.len(), 3, "what was refused is no change: {of_schedule:?}");
    for (line, fields) in of_schedule.iter().zip([
        ["action=\"pause\"", "jobs=\"\"", "changed=1", "who=\"ada\""],
        ["action=\"run\"", "jobs=\"", "changed=1", "role=\"operate\""],
        ["action=\"backfill\"", "queue=\"mail\"", "changed=2", "answered=true"],
    ]) {
        assert!(fields.iter().all(|field| line.contains(field)), "{fields:?}: {line}");
    }
    let requeue: Vec<_> = lines.iter().filter(|line| line.contains(&id) && !line.contains(" schedule=")).collect();
    assert_eq!(requeue.len(), 1, "what was refused is no change: {lines:?}");
    for field in ["who=\"ada\"", "role=\"operate\"", "action=\"requeue\"", "queue=\"mail\"", "changed=1"] {
        assert!(requeue[0].contains(field), "no {field}: {}", requeue[0]);
    }
    assert!(lines.iter().any(|line| line.contains("action=\"pause\"") && line.contains("queue=\"mail\"")), "{lines:?}");
    assert!(!text.contains("hunter2"), "no parameter is logged");
}

/// An edit is logged without parameters, and a refused edit is not logged. Hidden parameters cannot
/// be edited, and a second click creates no second copy.
async fn who_edited_and_copied_a_job_stands_in_the_log(bed: Bed) {
    let log = log();
    let id = format!("edited-{}", bed.client.info().kind);
    let job = send_mail::job("ada".to_owned(), Some("hunter2".to_owned()), None).id(&id).delay(Duration::from_secs(3600));
    job.enqueue(&bed.client).await.unwrap();
    let (site, address) = (bed.site().await, format!("mail/{id}"));
    let page = site.ask("GET", &format!("/jobs/{address}/edit"), &[("x-role", "view")], "").await;
    assert_eq!(page.status, 403, "who may only look");
    let page = site.ask("GET", &format!("/jobs/{address}/edit"), &[("x-role", "operate")], "").await.body;
    assert!(!page.contains("hunter2") && !page.contains("<textarea") && page.contains("hidden here"), "{page}");
    let seen = page.split("name=\"seen\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
    let form = |priority| vec![("job", address.as_str()), ("seen", seen.as_str()), ("priority", priority), ("at", "now"), ("group", "vip")];
    site.post("view", "/jobs/edit", &form("high")).await;
    assert_eq!(site.post("operate", "/jobs/edit", &form("high")).await.status, 303);
    assert_eq!(site.post("operate", "/jobs/edit", &form("low")).await.status, 409, "it is not as it was seen");
    assert_eq!(site.post("operate", "/jobs/edit", &form("high")).await.status, 303, "it is so already");
    assert_eq!(
        site.post("operate", "/jobs/edit", &[("job", &*address), ("seen", &*seen), ("priority", "high"), ("at", "soon")]).await.status,
        400
    );
    let copy = JobId::make().to_string();
    for _ in 0..2 {
        assert_eq!(site.post("operate", "/jobs/duplicate", &[("job", &*address), ("copy", &*copy), ("queue", "mail")]).await.status, 303);
    }
    let record = bed.client.inspector().show(&address.parse().unwrap()).await.unwrap();
    assert_eq!((record.state, record.priority, record.group.as_ref().unwrap().as_str()), (JobState::Ready, Priority::High, "vip"));
    assert_eq!(bed.client.inspector().stats("mail").await.unwrap().jobs(), 2, "the job and one copy");
    let text = String::from_utf8(log.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("queue_dashboard::audit") && line.contains(&id)).collect();
    assert_eq!(lines.len(), 3, "what was refused is no change: {lines:?}");
    for field in ["who=\"ada\"", "role=\"operate\"", "action=\"edit\"", "what=\"time,priority,group\"", "answered=true"] {
        assert!(lines[0].contains(field), "no {field}: {}", lines[0]);
    }
    assert!(lines[1].contains("action=\"duplicate\"") && lines[1].contains(&copy), "{}", lines[1]);
    assert!(!text.contains("hunter2"), "no parameter is logged");
}

/// The browser is closed as soon as the change has begun.
async fn what_a_person_began_who_has_left_is_ended_and_logged(bed: Bed) {
    use tokio::io::AsyncWriteExt;
    let log = log();
    let (kind, inspector) = (bed.client.info().kind, bed.client.inspector());
    let (left, gone) = (format!("left-{kind}"), format!("gone-{kind}"));
    let jobs = |n| (0..n).map(|n| send_mail::job(format!("a{n}"), None, None).queue(left.as_str()));
    bed.client.enqueue_all(jobs(10_000)).await.unwrap();
    bed.client.enqueue_all(jobs(10_000).map(|job| job.queue(gone.as_str()).group("acme"))).await.unwrap();
    let site = bed.site().await;
    let changes = [
        ("/jobs/cancel", format!("all=yes&queue={left}&state=ready&sure=yes&back=jobs"), &left),
        ("/groups/drain", format!("queue={gone}&group=acme&sure=yes"), &gone),
    ];
    let cancelled = async |queue: &str| inspector.stats(queue).await.unwrap().count(JobState::Cancelled);
    for (path, body, queue) in changes {
        let body = format!("csrf={TOKEN}&{body}");
        let head = format!(
            "POST /queue{path} HTTP/1.1\r\nhost: {}\r\nx-role: operate\r\ncookie: queue_csrf={TOKEN}\r\nsec-fetch-site: same-origin\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n",
            site.address,
            body.len()
        );
        let mut stream = tokio::net::TcpStream::connect(site.address).await.unwrap();
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        queue_tests::patience::until("the change has begun", async || cancelled(queue).await > 0).await;
        drop(stream);
        let begun = cancelled(queue).await;
        assert!(begun < 10_000, "{path} was too fast to leave");
        queue_tests::patience::until("all are cancelled", async || inspector.stats(queue).await.unwrap().count(JobState::Ready) == 0).await;
        let is_logged = || {
            let text = String::from_utf8(log.lock().unwrap().clone()).unwrap();
            text.lines()
                .any(|line| line.contains("queue_dashboard::audit") && line.contains(queue.as_str()) && line.contains("changed=10000"))
        };
        queue_tests::patience::until("the log has a line", async || is_logged()).await;
    }
    let operations = inspector.operations(&left).await.unwrap();
    assert!(operations.len() == 1 && !operations[0].is_running(), "{operations:?}");
}

async fn a_flood_is_answered_and_streams_are_bounded(bed: Bed) {
    let jobs = (0..2_000).map(|n| send_mail::job(format!("a{n}"), None, None));
    bed.client.enqueue_all(jobs).await.unwrap();
    let site = Arc::new(bed.site().await);
    let start = Instant::now();
    let asked = (0..150).map(|n| {
        let site = site.clone();
        tokio::spawn(async move { site.get(&format!("/jobs?state=ready&text=a{n}zzz")).await.status })
    });
    for answer in asked.collect::<Vec<_>>() {
        assert!(matches!(answer.await.unwrap(), 200 | 503));
    }
    println!("150 searches of 2,000 jobs: {:?}", start.elapsed());
    let mut streams = Vec::new();
    for _ in 0..70 {
        streams.push(common::Stream::open(&site, "/live/queues").await);
    }
    assert_eq!(streams.iter().filter(|stream| stream.status == 200).count(), 64);
    assert_eq!(streams.iter().filter(|stream| stream.status == 503).count(), 6);
    assert_eq!(site.get("").await.status, 200, "pages go on");
}
