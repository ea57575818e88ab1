//! Permissions and confidentiality: access control, TLS, and passwords in files.

use std::{path::Path, time::Duration};

use queue_conformance::{
    conformance,
    conformance::{Lane, Producer, envelope},
};
use queue_core::{
    __private::RedisBroker,
    Client, Error, JobId,
    broker::{Audit, CrashRule, DynBroker, Ending, Inspect, MOST_WATCHED, NewJob, Retention},
    inspect::{Edit, NewOperation, OperationKind},
    prelude::*,
};
use queue_tests::{
    folder::folder,
    on_servers,
    patience::{WatchBroker, wait},
    roles::{self, Roles},
    server::{Kind, Server, free_port},
};

conformance!(on_redis_with_roles, || Roles::new(Kind::Redis));
conformance!(on_valkey_with_roles, || Roles::new(Kind::Valkey));

on_servers! {
    a_dashboard_cannot_write
    a_dashboard_previews_operations
    an_admin_edits_and_copies_jobs
    an_admin_publishes_to_a_log_that_keeps_so_many_bytes
    a_producer_sees_what_became_of_its_job_and_nothing_of_others
    a_producer_watches_its_job_where_the_marks_of_others_have_expired
    a_password_in_a_file_can_be_replaced_while_we_run
    the_janitor_of_a_worker_and_the_doctor_of_an_admin_may_repair
    a_key_of_another_type_is_named_to_every_user_and_renamed_for_the_admin
}

#[task(queue = "access")]
async fn note(number: u32) {
    let _ = number;
}

async fn admitted(kind: Kind) -> Server {
    let server = Server::start(kind);
    roles::admit(&server, "queue");
    server
}

fn is_denied<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::AccessDenied { .. }))
}

async fn a_dashboard_cannot_write(kind: Kind) {
    let server = admitted(kind).await;
    let producer = Client::connect(&roles::url(&server, "producer")).await.unwrap().watched();
    let job = note::job(1).enqueue(&producer).await.unwrap();
    let dashboard = Client::connect(&roles::url(&server, "dashboard")).await.unwrap().watched();
    let inspector = dashboard.inspector();
    assert_eq!(inspector.queues().await.unwrap(), ["access"]);
    inspector.show(job.address()).await.unwrap();
    assert!(is_denied(&note::job(2).enqueue(&dashboard).await));
    assert!(is_denied(&inspector.cancel(job.address()).await));
    assert!(is_denied(&inspector.delete(job.address()).await));
    assert!(is_denied(&inspector.pause("access").await));
    assert!(is_denied(&inspector.edit(job.address(), &Edit::new().priority(Priority::Low)).await));
    assert!(is_denied(&inspector.duplicate(job.address(), Some("other"), JobId::make()).await));
    assert_eq!(job.status().await.unwrap(), Some(queue_core::broker::JobState::Ready));
}

/// A preview reads jobs in the order of the server: hashes and sorted sets.
async fn a_dashboard_previews_operations(kind: Kind) {
    let server = admitted(kind).await;
    let producer = Client::connect(&roles::url(&server, "producer")).await.unwrap().watched();
    note::job(1).enqueue(&producer).await.unwrap();
    note::job(2).delay(Duration::from_secs(3600)).enqueue(&producer).await.unwrap();
    let inspector = Client::connect(&roles::url(&server, "dashboard")).await.unwrap().inspector();
    for state in ["state=ready", "state=scheduled"] {
        let new = NewOperation::new(OperationKind::Cancel, state.parse().unwrap());
        assert_eq!(inspector.preview_operation("access", &new, 1_000).await.unwrap().eligible, 1, "{state}");
        assert!(is_denied(&inspector.start_operation("access", &new).await), "{state}");
    }
    let drain = NewOperation::all_of(OperationKind::Drain);
    assert_eq!(inspector.preview_operation("access", &drain, 1_000).await.unwrap().eligible, 2);
}

async fn an_admin_edits_and_copies_jobs(kind: Kind) {
    let server = admitted(kind).await;
    let producer = Client::connect(&roles::url(&server, "producer")).await.unwrap().watched();
    let job = note::job(1).enqueue(&producer).await.unwrap();
    let inspector = Client::connect(&roles::url(&server, "admin")).await.unwrap().inspector();
    inspector.edit(job.address(), &Edit::new().priority(Priority::Low).group("a").delay(Duration::from_secs(60))).await.unwrap();
    let copy = inspector.duplicate(job.address(), Some("other"), JobId::make()).await.unwrap();
    assert_eq!(inspector.show(&copy.job).await.unwrap().priority, Priority::Low);
}

#[derive(Event)]
#[event(topic = "noted")]
struct Noted {
    text: String,
}

/// The topic has no subscription, so no worker trims it.
async fn an_admin_publishes_to_a_log_that_keeps_so_many_bytes(kind: Kind) {
    let server = admitted(kind).await;
    for role in ["admin", "producer"] {
        let admin = Client::connect(&roles::url(&server, "admin")).await.unwrap().watched();
        let kept = Retention { bytes: Some(20_000), ..Retention::default() };
        admin.inspector().set_retention("noted", kept).await.unwrap();
        let client = Client::connect(&roles::url(&server, role)).await.unwrap().watched();
        for _ in 0..10 {
            client.publish_all((0..10).map(|_| Noted { text: "a".repeat(1000) })).await.unwrap();
        }
        let topic = admin.inspector().topic("noted").await.unwrap().unwrap();
        assert!(topic.bytes < 60_000, "{role}: {}", topic.bytes);
    }
}

async fn a_key_of_another_type_is_named_to_every_user_and_renamed_for_the_admin(kind: Kind) {
    let server = admitted(kind).await;
    let all = RedisBroker::connect(&server.url()).await.unwrap();
    server.command(&["SET", "queue:{access}:jobs", "theirs"]);
    server.command(&["SET", "queue:queues", "theirs"]);
    for role in ["producer", "worker", "admin", "dashboard"] {
        let broker = RedisBroker::connect(&roles::url(&server, role)).await.unwrap();
        let error = broker.show("access", &JobId::make()).await.unwrap_err();
        assert!(matches!(&error, Error::WrongType { key, .. } if key == "queue:{access}:jobs"), "{role}: {error}");
    }
    let admin = RedisBroker::connect(&roles::url(&server, "admin")).await.unwrap();
    assert!(matches!(admin.queues().await, Err(Error::WrongType { queue: None, .. })));
    assert_eq!(admin.audit("access", Audit { repair: true, thorough: true }).await.unwrap().len(), 1);
    assert_eq!(admin.audit_queues(true).await.unwrap().len(), 1);
    assert_eq!(all.audit("access", Audit { repair: false, thorough: true }).await.unwrap(), []);
}

async fn the_janitor_of_a_worker_and_the_doctor_of_an_admin_may_repair(kind: Kind) {
    let server = admitted(kind).await;
    for (role, thorough) in [("worker", false), ("admin", true)] {
        let all: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
        let jobs: Vec<NewJob> = (0..6).map(|number| NewJob::new(JobId::make(), envelope(&number.to_string()))).collect();
        Producer::on(&all, role).await.stored(jobs).await;
        let mut lane = Lane::on(&all, role).await;
        let held = lane.claim(2).await;
        assert!(lane.end(&held[0], Ending::Park { task: "unknown".to_owned() }).await);
        let key = |kind: &str| format!("queue:{{{role}}}:{kind}");
        server.command(&["DEL", &key("leases"), &key("notes")]);
        server.command(&["EVAL", TEAR, "2", &key("ready:2"), &key("active")]);
        server.command(&["RPUSH", &key("ready:0"), "=ghost"]);
        server.command(&["ZADD", &key("retry"), "99999999999999", "=ghost"]);
        let broker = RedisBroker::connect(&roles::url(&server, role)).await.unwrap();
        let found = broker.audit(role, Audit { repair: true, thorough }).await.unwrap();
        let found: Vec<&str> = found.iter().map(|damage| damage.kind.name()).collect();
        let expected = [
            "feature without its bit",
            "lane without lease",
            "held by nobody",
            "held by nobody",
            "id without job",
            "id without job",
            "parked without task",
            "job without place",
        ];
        assert_eq!(found, expected, "{role}");
        all.reclaim(role, &CrashRule::default()).await.unwrap();
        assert_eq!(broker.audit(role, Audit { repair: false, thorough: true }).await.unwrap(), [], "{role}");
    }
}

/// Loses a job, and leaves two others without a holder.
const TEAR: &str = "redis.call('LPOP', KEYS[1]) redis.call('HSET', KEYS[2], redis.call('LPOP', KEYS[1]), 'nobody:1', redis.call('LPOP', KEYS[1]), 'nothing')";

async fn a_producer_sees_what_became_of_its_job_and_nothing_of_others(kind: Kind) {
    let server = admitted(kind).await;
    let client = Client::connect(&roles::url(&server, "producer")).await.unwrap().watched();
    let job = note::job(1).enqueue(&client).await.unwrap();
    assert_eq!(job.status().await.unwrap(), Some(queue_core::broker::JobState::Ready));
    assert!(is_denied(&client.inspector().queues().await));
    let elsewhere = Client::connect(&format!("{}?namespace=other", roles::url(&server, "producer"))).await.unwrap().watched();
    assert!(is_denied(&note::job(2).enqueue(&elsewhere).await));
}

async fn a_producer_watches_its_job_where_the_marks_of_others_have_expired(kind: Kind) {
    let server = admitted(kind).await;
    let client = Client::connect(&roles::url(&server, "producer")).await.unwrap().watched();
    let job = note::job(1).enqueue(&client).await.unwrap();
    let most = MOST_WATCHED.to_string();
    server.command(&["EVAL", "for n = 1, ARGV[1] do redis.call('ZADD', KEYS[1], 1, n) end", "1", "queue:{access}:watched", &most]);
    assert!(client.broker().watch("access", &job.address().id).await.unwrap().is_some());
    let expired: Option<f64> = server.ask(&["ZSCORE", "queue:{access}:watched", "1"]).unwrap();
    assert_eq!(expired, None, "an expired mark makes room");
}

async fn a_password_in_a_file_can_be_replaced_while_we_run(kind: Kind) {
    let server = admitted(kind).await;
    let folder = folder();
    let file = folder.path().join("password");
    std::fs::write(&file, "change-me\n").unwrap();
    let url = server.url().replace("redis://", "redis://queue-producer@");
    let client = Client::connect(&format!("{url}?password_file={}", file.display())).await.unwrap().watched();
    note::job(1).enqueue(&client).await.unwrap();

    // The server now requires the new password, also for existing connections.
    server.command(&["ACL", "SETUSER", "queue-producer", "resetpass", ">another"]);
    server.command(&["CLIENT", "KILL", "USER", "queue-producer"]);
    assert!(note::job(2).enqueue(&client).await.is_err());
    std::fs::write(&file, "another").unwrap();
    queue_tests::patience::until("the new password to be taken", || async { note::job(3).enqueue(&client).await.is_ok() }).await;
}

/// A self-made certificate for this host, with the files of both sides.
struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    fn new() -> Self {
        Self::of(&["localhost", "127.0.0.1"])
    }

    /// Certificates of a server with these names.
    fn of(names: &[&str]) -> Self {
        let folder = folder();
        let this = Certificates { folder };
        let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        ca.distinguished_name.push(rcgen::DnType::CommonName, "an authority of our own");
        let ca_key = rcgen::KeyPair::generate().unwrap();
        let ca_certificate = ca.self_signed(&ca_key).unwrap();
        let issuer = rcgen::Issuer::new(ca, ca_key);
        this.write("ca.pem", &ca_certificate.pem());
        for name in ["server", "client"] {
            let key = rcgen::KeyPair::generate().unwrap();
            let params = rcgen::CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
            this.write(&format!("{name}.pem"), &params.signed_by(&key, &issuer).unwrap().pem());
            this.write(&format!("{name}.key"), &key.serialize_pem());
        }
        this
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> String {
        Path::display(&self.folder.path().join(name)).to_string()
    }

    /// The options of a server with TLS on a further port, and to its peers.
    fn options(&self, port: u16) -> Vec<String> {
        let file = |name: &str| self.path(name);
        let words = [("port", port.to_string()), ("ca-cert-file", file("ca.pem")), ("cert-file", file("server.pem"))];
        let words = words.into_iter().chain([("key-file", file("server.key")), ("replication", "yes".to_owned())]);
        words.flat_map(|(name, value)| [format!("--tls-{name}"), value]).collect()
    }

    /// The parameters of a URL with the client's certificate.
    fn parameters(&self) -> String {
        format!("ca={}&cert={}&key={}", self.path("ca.pem"), self.path("client.pem"), self.path("client.key"))
    }
}

fn as_words(options: &[String]) -> Vec<&str> {
    options.iter().map(String::as_str).collect()
}

/// The connections to the sentinel and to the master use TLS.
#[tokio::test]
async fn on_redis_tls_reaches_sentinels_and_their_master() {
    let files = Certificates::new();
    let (port, watch) = (free_port(), free_port());
    let _master = Server::with(Kind::Redis, &as_words(&files.options(port)));
    let _sentinel = Server::launched(Kind::Redis, |folder| {
        let config = folder.join("sentinel.conf");
        std::fs::write(&config, format!("sentinel monitor jobs 127.0.0.1 {port} 1\n")).unwrap();
        let mut options = vec![config.display().to_string(), "--sentinel".to_owned()];
        options.extend(files.options(watch));
        options
    });
    let url = format!("rediss+sentinel://localhost:{watch}/jobs?{}", files.parameters());
    let client = Client::connect(&url).await.unwrap().watched();
    let job = note::job(1).enqueue(&client).await.unwrap();
    assert_eq!(job.status().await.unwrap(), Some(queue_core::broker::JobState::Ready));
}

/// A cluster of one node, and its port for TLS.
async fn tls_cluster(files: &Certificates) -> (Server, u16) {
    let port = free_port();
    let mut options = files.options(port);
    options.extend(["--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port"].map(str::to_owned));
    options.push(free_port().to_string());
    let node = Server::with(Kind::Redis, &as_words(&options));
    assert!(node.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).starts_with("+OK"));
    queue_tests::patience::until("the cluster to be up", || async { node.command(&["CLUSTER", "INFO"]).contains("state:ok") }).await;
    (node, port)
}

/// The nodes announce their ports for TLS.
#[tokio::test]
async fn on_redis_tls_reaches_the_nodes_of_a_cluster() {
    let files = Certificates::new();
    let (_node, port) = tls_cluster(&files).await;
    let url = format!("rediss+cluster://localhost:{port}?{}", files.parameters());
    let client = Client::connect(&url).await.unwrap().watched();
    let job = note::job(1).enqueue(&client).await.unwrap();
    assert_eq!(job.status().await.unwrap(), Some(queue_core::broker::JobState::Ready));
}

/// As in managed clusters: the nodes announce addresses, and their certificate has a name.
#[tokio::test]
async fn on_redis_tls_verifies_the_name_that_it_is_given() {
    let files = Certificates::of(&["jobs.example"]);
    let (_node, port) = tls_cluster(&files).await;
    let url = format!("rediss+cluster://127.0.0.1:{port}?{}", files.parameters());
    let error = Client::connect(&url).await.unwrap_err();
    assert!(matches!(&error, Error::Unavailable { problem, .. } if problem.contains("certificate")), "{error}");
    let client = Client::connect(&format!("{url}&tls_name=jobs.example")).await.unwrap().watched();
    let job = note::job(1).enqueue(&client).await.unwrap();
    assert_eq!(job.status().await.unwrap(), Some(queue_core::broker::JobState::Ready));
}

#[tokio::test]
async fn on_redis_a_socket_reaches_the_server() {
    let server = Server::start(Kind::Redis);
    let by_socket = Client::connect(&format!("redis+unix://{}?db=1", server.socket().display())).await.unwrap().watched();
    let by_port = Client::connect(&format!("{}/1", server.url())).await.unwrap().watched();
    let job = note::job(1).enqueue(&by_socket).await.unwrap();
    by_port.inspector().show(job.address()).await.unwrap();
    drop(server);
    let error = note::job(2).enqueue(&by_socket).await.unwrap_err();
    assert!(error.to_string().contains("redis+unix://"), "{error}");
}

#[tokio::test]
async fn on_redis_tls_trusts_the_configured_roots_and_shows_who_we_are() {
    let files = Certificates::new();
    let port = free_port();
    let _server = Server::with(Kind::Redis, &as_words(&files.options(port)));
    let url = |parameters: &str| format!("rediss://localhost:{port}?{parameters}");
    let client = Client::connect(&url(&files.parameters())).await.unwrap().watched();
    note::job(1).enqueue(&client).await.unwrap();

    // No public authority has signed the certificate of this server.
    let stranger = Client::connect(&url("")).await.unwrap_err();
    assert!(matches!(&stranger, Error::Unavailable { problem, .. } if problem.contains("certificate")), "{stranger}");
    // The server requires a client certificate.
    let nobody = Client::connect(&url(&format!("ca={}", files.path("ca.pem")))).await.unwrap_err();
    assert!(matches!(&nobody, Error::Unavailable { .. }), "{nobody}");
    // A plain connection is not accepted instead.
    let url = format!("redis://localhost:{port}");
    assert!(wait("the connection to be refused").end_of(Client::connect(&url)).await.is_err());
}
