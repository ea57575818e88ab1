//! Dashboards on real brokers, with requests over HTTP.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::Mutex,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{Router, http::request::Parts};
use queue_conformance::{
    folder::folder,
    patience::{wait, watch},
};
use queue_core::{
    Client, JobAddress, JobState,
    broker::{
        ProcessId, Register, ScheduleAnswer, ScheduleBody, ScheduleDefinition, ScheduleEvent, ScheduleList, ScheduleSet, ScheduleState,
        SetSchedule, Turn,
    },
    prelude::*,
    schedule::{Schedule, ScheduleAddress},
};
use queue_dashboard::{Dashboard, MissingAuthorize, Person, Role};
use queue_tests::server::{self, Kind, Server};
use queue_worker::{Shutdown, Worker};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Fails if `fail` is set.
#[task(queue = "mail", max_attempts = 1, retention = "1h")]
pub(crate) async fn send_mail(to: String, password: Option<String>, fail: Option<String>) -> Result<String, String> {
    let _ = password;
    match fail {
        Some(error) => Err(error),
        None => Ok(format!("sent to {to}")),
    }
}

/// One job of an account runs at once.
#[task(queue = "pay", limit(name = "stripe", by = [account], concurrency = 1))]
pub(crate) async fn charge(account: String) {
    drop(account);
}

/// The name of its group is a parameter.
#[task(queue = "mail", group = tenant, max_attempts = 5, backoff(base = "1h", max = "1h"))]
pub(crate) async fn remind(tenant: String, fail: Option<String>) -> Result<(), String> {
    drop(tenant);
    fail.map_or(Ok(()), Err)
}

/// A separate broker for a test.
pub(crate) struct Bed {
    pub(crate) client: Client,
    _folder: Option<TempDir>,
}

impl Bed {
    pub(crate) async fn sqlite() -> Bed {
        let folder = folder();
        let url = format!("sqlite://{}", folder.path().join("queue.db").display());
        Bed::with(&url, Some(folder)).await
    }

    pub(crate) async fn redis() -> Bed {
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let url = format!("{}?namespace=dash{}-{nanos}", server::shared(Kind::Redis), std::process::id());
        Bed::with(&url, None).await
    }

    /// A broker on this server.
    pub(crate) async fn at(server: &Server) -> Bed {
        Bed::with(&server.url(), None).await
    }

    /// Waits that time out show the state of the broker.
    async fn with(url: &str, folder: Option<TempDir>) -> Bed {
        let client = Client::connect(url).await.unwrap();
        watch(client.broker());
        Bed { client, _folder: folder }
    }

    pub(crate) async fn enqueue(&self, id: &str, fail: Option<&str>) -> JobAddress {
        let job = send_mail::job(format!("{id}@example.com"), Some("hunter2".to_owned()), fail.map(str::to_owned)).id(id);
        job.enqueue(&self.client).await.unwrap().address().clone()
    }

    /// Jobs of a group.
    pub(crate) async fn grouped(&self, group: &str, jobs: usize) {
        let job = || send_mail::job("ada@example.com".to_owned(), None, None).group(group);
        self.client.enqueue_all((0..jobs).map(|_| job())).await.unwrap();
    }

    /// Two jobs of one account, of which one runs, with a limit of one that an operator has set.
    pub(crate) async fn limited(&self, account: &str) -> JobAddress {
        self.client.inspector().set_limit("pay", "stripe", |rule| rule.concurrency = Some(1)).await.unwrap();
        let jobs = ["first", "second"].map(|id| charge::job(account.to_owned()).id(id));
        self.client.enqueue_all(jobs).await.unwrap();
        let (broker, lease) = (self.client.broker(), Duration::from_secs(600));
        let lane = broker.register(&Register::lane("pay", ProcessId::random(), lease)).await.unwrap().name;
        let claimed = broker.turn(&Turn::new("pay", lane, 1, lease).claim(2)).await.unwrap().deliveries;
        assert_eq!(claimed.len(), 1, "the other one waits for the slot");
        JobAddress { queue: "pay".into(), id: claimed[0].id.clone() }
    }

    /// A schedule that mails with a secret.
    pub(crate) async fn schedule(&self, name: &str, expression: &str) -> ScheduleAddress {
        let job = send_mail::job(format!("{name}@example.com"), Some("hunter2".to_owned()), None);
        self.client.schedules().upsert(Schedule::cron(name, expression).job(job)).await.unwrap().schedule
    }

    /// Runs a worker until `jobs` jobs are in a state.
    pub(crate) async fn work_until(&self, state: JobState, jobs: u64) {
        let stop = Shutdown::new();
        let worker = Worker::new(self.client.clone()).queue("mail").release("v42");
        let running = tokio::spawn(worker.run_with(stop.clone()));
        self.wait_for(state, jobs).await;
        stop.drain();
        running.await.unwrap().unwrap();
    }

    pub(crate) async fn wait_for(&self, state: JobState, jobs: u64) {
        let inspector = self.client.inspector();
        let waiting = wait(format!("{jobs} jobs to be {state}")).on(self.client.broker());
        waiting.until(async || inspector.stats("mail").await.unwrap().count(state) >= jobs).await;
    }

    pub(crate) async fn site(&self) -> Site {
        Site::mounted(queue_dashboard::router(self.client.clone()), "/queue").await
    }
}

/// Schedules whose texts are all hostile: one that can be read, and one that cannot.
pub(crate) async fn hostile_schedule(bed: &Bed, name: &str, text: &str) {
    let broker = bed.client.broker();
    let job = || send_mail::job(text.to_owned(), None, None).header("x".to_owned(), text.to_owned());
    let prepared = Schedule::cron(name, "0 3 * * *").job(job()).prepared(&bed.client).unwrap();
    queue_core::schedule::declare(broker, &"mail".into(), text, &[prepared]).await.unwrap();
    let body = ScheduleBody {
        expression: text.to_owned(),
        zone: text.to_owned(),
        overlap: text.to_owned(),
        catch_up: text.to_owned(),
        ..ScheduleBody::default()
    };
    let definition = ScheduleDefinition { body, ..ScheduleDefinition::default() };
    let mut state = ScheduleState { first_ms: 1, paused: Some(text.to_owned()), ..ScheduleState::default() };
    state.begun(1_000, text.to_owned());
    state.ended(1, text, 2_000);
    state.happened(ScheduleEvent(1, text.to_owned(), 1, 2, 3));
    let now_ms = broker.schedules("mail", &ScheduleList::Declared).await.unwrap().now_ms;
    let mut request = SetSchedule::new("mail", format!("broken-{name}"), now_ms, None);
    request.set = Some(ScheduleSet { definition: Some(definition.encode()), state: state.encode(), due_ms: None, declared: false });
    assert_eq!(broker.set_schedule(&request).await.unwrap(), ScheduleAnswer::Set(vec![]));
}

/// Trusts the role in a header.
pub(crate) fn role_of(request: &Parts) -> Option<Person> {
    let role = match request.headers.get("x-role")?.to_str().ok()? {
        "view" => Role::View,
        "operate" => Role::Operate,
        "admin" => Role::Admin,
        _ => return None,
    };
    Some(Person::new("ada", role))
}

/// The page, once it contains a text.
pub(crate) async fn eventually(site: &Site, path: &str, text: &str) -> String {
    let page = Mutex::new(String::new());
    let waiting = wait(format!("`{text}` at {path}")).every(Duration::from_millis(50)).seeing(|| page.lock().unwrap().clone());
    waiting
        .until(async || {
            let body = site.get(path).await.body;
            let is_there = body.contains(text);
            *page.lock().unwrap() = body;
            is_there
        })
        .await;
    page.into_inner().unwrap()
}

/// A running dashboard.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) base: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
    pub(crate) bytes: usize,
}

impl Site {
    pub(crate) async fn mounted(dashboard: Dashboard<MissingAuthorize>, base: &str) -> Site {
        let dashboard: Router = dashboard.authorize(role_of);
        let app = if base == "/" { dashboard } else { Router::new().nest(base, dashboard) };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Site { address, base: if base == "/" { String::new() } else { base.to_owned() } }
    }

    /// Sends exactly this request. `host` and the role are added unless they are given.
    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        ask(self.address, method, &format!("{}{path}", self.base), headers, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[("x-role", "admin")], "").await
    }

    /// Sends a form like a browser that has loaded a page before.
    pub(crate) async fn post(&self, role: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
        let token = "0123456789abcdef0123456789abcdef";
        let body: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        let body = format!("csrf={token}&{}", body.join("&"));
        let cookie = format!("queue_csrf={token}");
        let headers = [
            ("x-role", role),
            ("cookie", cookie.as_str()),
            ("sec-fetch-site", "same-origin"),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        self.ask("POST", path, &headers, &body).await
    }
}

pub(crate) async fn ask(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "host") {
        request.push_str(&format!("host: {address}\r\n"));
    }
    headers.iter().filter(|(_, value)| !value.is_empty()).for_each(|(name, value)| request.push_str(&format!("{name}: {value}\r\n")));
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A server that refuses a large body may close the connection after its answer.
    let _ = wait(format!("an answer to {method} {path}")).end_of(stream.read_to_end(&mut answer)).await;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{method} {path}: no answer: {text}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers =
        lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    Answer { status, headers, body: body.to_owned(), bytes: answer.len() }
}

pub(crate) fn encode(text: &str) -> String {
    text.bytes().map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The value that a browser sends for an unchanged field of a page.
pub(crate) fn field(page: &str, name: &str) -> String {
    let value = page.split(&format!("name=\"{name}\"")).nth(1).unwrap_or_else(|| panic!("no field {name}: {page}"));
    let (tag, rest) = value.split_once('>').unwrap();
    if tag.contains("spellcheck") {
        return plain(rest.split("</textarea>").next().unwrap());
    }
    let text = plain(tag.split_once("value=\"").unwrap().1.split('"').next().unwrap());
    let is_hidden = page.contains(&format!("type=\"hidden\" name=\"{name}\""));
    // By the HTML specification, a one-line field has no line ends, and a form has CRLF.
    if is_hidden { text.replace("\r\n", "\n").replace(['\r', '\n'], "\r\n") } else { text.replace(['\r', '\n'], "") }
}

/// The text of a page without HTML escapes.
pub(crate) fn plain(html: &str) -> String {
    [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&"), ("&amp;", "&")]
        .iter()
        .fold(html.to_owned(), |text, (code, sign)| text.replace(code, sign))
}

/// Creates a test of each of these functions on every broker.
#[macro_export]
macro_rules! on_brokers {
    ($($case:ident)*) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case($crate::common::Bed::sqlite().await).await;
            })*
        }

        mod on_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case($crate::common::Bed::redis().await).await;
            })*
        }
    };
}

/// A stream of server-sent events.
pub(crate) struct Stream {
    pub(crate) status: u16,
    stream: tokio::io::BufReader<TcpStream>,
}

impl Stream {
    pub(crate) async fn open(site: &Site, path: &str) -> Stream {
        use tokio::io::AsyncBufReadExt;
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        let head = format!("GET {}{path} HTTP/1.1\r\nhost: {}\r\nx-role: operate\r\n\r\n", site.base, site.address);
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut stream = tokio::io::BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        Stream { status: line.split(' ').nth(1).unwrap().parse().unwrap(), stream }
    }

    /// The next event with its name and its data; `None`: the stream has ended.
    pub(crate) async fn event(&mut self) -> Option<(String, String)> {
        use tokio::io::AsyncBufReadExt;
        let (mut name, mut data) = (None, String::new());
        loop {
            let mut line = String::new();
            let read = wait("an event of the stream").end_of(self.stream.read_line(&mut line)).await;
            if read.unwrap_or(0) == 0 || line == "0\r\n" {
                return None;
            }
            // The sizes of chunks are between the fields.
            let line = line.trim_end_matches(['\r', '\n']);
            match line.split_once(": ") {
                Some(("event", value)) => name = Some(value.to_owned()),
                Some(("data", value)) => data.push_str(value),
                _ if line.is_empty() && name.is_some() && !data.is_empty() => return Some((name.unwrap(), data)),
                _ => {}
            }
        }
    }
}
