//! Sentinels and clusters as a URL names them: what is told when something is wrong, who is
//! believed, and queues on many nodes.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use queue_core::{Client, Error, broker::JobState, prelude::task};
use queue_tests::{
    cluster::{self, Cluster},
    on_servers,
    patience::{WatchBroker, finished, until, wait},
    sentinel,
    server::{Kind, Server, free_port, shared},
};

on_servers! {
    an_unknown_service_is_reported_with_those_that_are_known
    a_url_of_the_wrong_kind_is_answered_with_the_right_one
    users_and_passwords_reach_whom_they_are_for
    slots_that_nobody_serves_are_reported
    queues_of_a_cluster_are_found_on_all_nodes
    what_a_master_out_of_reach_has_is_named_and_the_rest_is_shown
    a_queue_is_found_by_its_name_while_the_names_are_out_of_reach
    a_sentinel_that_has_not_heard_yet_misleads_nobody
}

#[task(queue = "notes")]
async fn note(number: u32) {
    let _ = number;
}

/// What a look at the broker of a URL says.
async fn check(url: &str) -> Result<(), Error> {
    let looked = async { Client::connect(url).await?.broker().check().await };
    wait("it does not hang").end_of(looked).await
}

#[tokio::test]
async fn sentinels_of_which_none_answers_are_reported_in_time() {
    let (one, two) = (free_port(), free_port());
    let problem = check(&format!("redis+sentinel://127.0.0.1:{one},127.0.0.1:{two}/jobs")).await.unwrap_err();
    assert!(matches!(problem, Error::Unavailable { .. }), "{problem:?}");
    let text = problem.to_string();
    assert!(text.contains(&one.to_string()) && text.contains(&two.to_string()) && text.contains("none of its 2 sentinels"), "{text}");
}

#[tokio::test]
async fn a_cluster_of_which_no_node_answers_is_reported_in_time() {
    let port = free_port();
    let problem = check(&format!("redis+cluster://127.0.0.1:{port}")).await.unwrap_err();
    assert!(matches!(problem, Error::Unavailable { .. }) && problem.to_string().contains(&port.to_string()), "{problem:?}");
}

async fn an_unknown_service_is_reported_with_those_that_are_known(kind: Kind) {
    let url = sentinel::shared(kind).url().replace("/jobs", "/orders");
    let problem = check(&url).await.unwrap_err();
    assert!(matches!(problem, Error::Invalid { .. }), "{problem:?}");
    assert!(problem.to_string().contains("`orders`") && problem.to_string().contains("`jobs`"), "{problem}");
}

async fn a_url_of_the_wrong_kind_is_answered_with_the_right_one(kind: Kind) {
    let standalone = shared(kind);
    let (sentinels, nodes) = (sentinel::shared(kind), cluster::shared(kind));
    let url = |scheme: &str, of: &str| of.replace("redis://", scheme);
    for (wrong, right) in [
        (url("redis+cluster://", &standalone), "redis://"),
        (format!("{}/jobs", url("redis+sentinel://", &standalone)), "redis://"),
        (nodes.node(0).url(), "redis+cluster://"),
        (sentinels.sentinel(0).url(), "redis+sentinel://"),
    ] {
        let problem = check(&wrong).await.unwrap_err();
        assert!(!problem.is_transient() && problem.to_string().contains(right), "{wrong}: {problem}");
    }
}

async fn users_and_passwords_reach_whom_they_are_for(kind: Kind) {
    let (sentinels, nodes) = (sentinel::shared(kind), cluster::shared(kind));
    let add = |server: &Server, user: &str, password: &str| {
        let added: String = server.ask(&["ACL", "SETUSER", user, "on", password, "~*", "&*", "+@all"]).unwrap();
        assert_eq!(added, "OK");
    };
    (0..3).for_each(|number| add(sentinels.sentinel(number), "watch", ">watch-secret"));
    let servers: Vec<&Server> = (0..2).map(|number| sentinels.server(number)).chain(nodes.nodes()).collect();
    servers.into_iter().for_each(|server| add(server, "app", ">app-secret"));
    let namespace = fastrand::u64(..);
    let url = |user: &str, sentinel: &str| {
        [sentinels.url(), nodes.url()].map(|url| {
            let sentinel = if url.contains("sentinel") { sentinel } else { "" };
            format!("{}?namespace=access-{namespace:x}{sentinel}", url.replace("://", &format!("://{user}")))
        })
    };
    for url in url("app:app-secret@", "&sentinel_user=watch&sentinel_password=watch-secret") {
        let client = Client::connect(&url).await.unwrap().watched();
        client.broker().check().await.unwrap();
        note::job(1).enqueue(&client).await.unwrap();
        assert!(!format!("{client:?} {:?}", client.info()).contains("-secret"));
    }
    let [wrong_watch, _] = url("app:app-secret@", "&sentinel_user=watch&sentinel_password=wrong-secret");
    for url in url("app:wrong-secret@", "").into_iter().chain([wrong_watch]) {
        let problem = check(&url).await.unwrap_err();
        assert!(matches!(problem, Error::AccessDenied { .. }), "{url}: {problem:?}");
        assert!(!problem.to_string().contains("wrong-secret"), "{problem}");
    }
}

async fn slots_that_nobody_serves_are_reported(kind: Kind) {
    let cluster = Cluster::start(kind, Duration::from_secs(60));
    for node in cluster.nodes() {
        node.ask::<String>(&["CLUSTER", "DELSLOTSRANGE", "100", "199"]).unwrap();
    }
    let problem = check(&cluster.url()).await.unwrap_err();
    assert!(problem.to_string().contains("100-199"), "{problem}");
}

async fn queues_of_a_cluster_are_found_on_all_nodes(kind: Kind) {
    let nodes = cluster::shared(kind);
    let client = Client::connect(&format!("{}?namespace=found-{:x}", nodes.url(), fastrand::u64(..))).await.unwrap().watched();
    let queues: Vec<String> = nodes.masters().into_iter().map(|master| nodes.queue_on(master)).collect();
    assert_eq!(queues.len(), 3);
    let mut jobs = Vec::new();
    for queue in &queues {
        jobs.push(note::job(1).queue(queue).enqueue(&client).await.unwrap());
    }
    let inspector = client.inspector();
    let mut known = inspector.queues().await.unwrap();
    known.sort();
    let mut sorted = queues.clone();
    sorted.sort();
    assert_eq!(known, sorted);
    for (job, queue) in jobs.iter().zip(&queues) {
        assert_eq!(inspector.stats(queue).await.unwrap().count(JobState::Ready), 1);
        assert_eq!(inspector.find(&job.id().to_string()).await.unwrap(), *job.address(), "by its bare id");
        assert_eq!(inspector.show(job.address()).await.unwrap().state, JobState::Ready);
    }
}

/// Two of three masters answer: commands show what these have, name the queues of the third, and
/// say so in their exit code.
async fn what_a_master_out_of_reach_has_is_named_and_the_rest_is_shown(kind: Kind) {
    let mut cluster = Thirds::start(kind).await;
    let lost = cluster.queues.remove(usize::from(cluster.with_names == 0));
    cluster.lose(&lost);
    let commands: [&[&str]; 8] = [
        &["status"],
        &["status", "--json"],
        &["queues", "list"],
        &["jobs", "list"],
        &["jobs", "list", "task=note", "--json"],
        &["jobs", "search", "task=note", "--json"],
        &["workers", "--json"],
        &["jobs", "requeue", "--all"],
    ];
    for (arguments, output) in cluster.say(&commands) {
        let (said, problem) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(5), "{arguments:?}: {said}{problem}");
        assert!(problem.contains(&format!("`{lost}` is unreachable: ")), "{arguments:?}: {problem}");
        if !["workers", "requeue"].iter().any(|command| arguments.contains(command)) {
            assert!(cluster.queues.iter().all(|queue| said.contains(queue.as_str())), "{arguments:?}: {said}");
        }
    }
}

/// Where the master with the names of all queues is out of reach, a queue of another one is found
/// by its name.
async fn a_queue_is_found_by_its_name_while_the_names_are_out_of_reach(kind: Kind) {
    let mut cluster = Thirds::start(kind).await;
    let lost = cluster.queues.remove(cluster.with_names);
    cluster.lose(&lost);
    let queue = cluster.queues[0].clone();
    let commands: [&[&str]; 3] = [&["status"], &["status", "--queue", &queue], &["jobs", "list", "--queue", &queue]];
    for (arguments, output) in cluster.say(&commands) {
        let (said, problem) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let is_found = arguments.contains(&"--queue");
        assert_eq!(output.status.code(), Some(if is_found { 0 } else { 5 }), "{arguments:?}: {said}{problem}");
        assert_eq!(said.contains(&queue), is_found, "{arguments:?}: {said}");
    }
}

/// A cluster with a queue, and a job in it, on each of its three masters.
struct Thirds {
    cluster: Cluster,
    queues: Vec<String>,
    /// Which of them is where the names of all queues are.
    with_names: usize,
}

impl Thirds {
    async fn start(kind: Kind) -> Thirds {
        let cluster = Cluster::with(kind, Duration::from_secs(1), &["--appendonly", "no", "--cluster-require-full-coverage", "no"]);
        let client = Client::connect(&cluster.url()).await.unwrap().watched();
        let masters = cluster.masters();
        let queues: Vec<String> = masters.iter().map(|master| cluster.queue_on(*master)).collect();
        for queue in &queues {
            note::job(1).queue(queue).enqueue(&client).await.unwrap();
        }
        let slot: u16 = cluster.node(0).ask(&["CLUSTER", "KEYSLOT", "queue:queues"]).unwrap();
        let with_names = masters.iter().position(|master| *master == cluster.master(slot)).unwrap();
        Thirds { cluster, queues, with_names }
    }

    /// Kills the master of a queue and its replica.
    fn lose(&mut self, queue: &str) {
        let (_, replica) = self.cluster.kill_master(self.cluster.slot(queue));
        self.cluster.kill(replica);
    }

    /// What commands say, all at once: each waits for the master, as far as its deadline lets it.
    fn say<'a>(&self, commands: &[&'a [&'a str]]) -> Vec<(&'a [&'a str], Output)> {
        let started: Vec<_> = commands
            .iter()
            .map(|arguments| {
                let mut command = Command::new(env!("CARGO_BIN_EXE_shop_worker"));
                command.args(*arguments).env_remove("RUST_LOG").env("QUEUE_URL", self.cluster.url());
                (*arguments, command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
            })
            .collect();
        started.into_iter().map(|(arguments, command)| (arguments, finished(command))).collect()
    }
}

/// A failover is known to one sentinel before the others hear of it. If it is silent for a moment,
/// nobody goes back to the old master, where whatever is written would be lost.
async fn a_sentinel_that_has_not_heard_yet_misleads_nobody(kind: Kind) {
    let (old, new) = (Server::start(kind), Server::start(kind));
    let (first, second) = (Sentinel::start(old.port()), Sentinel::start(old.port()));
    let url = format!("redis+sentinel://127.0.0.1:{},127.0.0.1:{}/jobs", first.port, second.port);
    let client = Client::connect(&url).await.unwrap().watched();
    note::job(0).enqueue(&client).await.unwrap();
    let enqueued = |server: &Server| server.ask::<Option<u32>>(&["HGET", "queue:{notes}:counters", "enqueued"]).unwrap().unwrap_or(0);
    assert_eq!((enqueued(&old), enqueued(&new)), (1, 0));
    first.says(Some((2, new.port())));
    until("the client to move", async || {
        // What is on its way in that moment has an answer that nobody will ever know.
        let _ = note::job(1).enqueue(&client).await;
        enqueued(&new) > 0
    })
    .await;
    let before = enqueued(&old);
    first.says(None);
    let asked = second.asked();
    until("the other to be asked a few times", async || {
        note::job(2).enqueue(&client).await.unwrap();
        second.asked() >= asked + 3
    })
    .await;
    assert_eq!(enqueued(&old), before, "nothing is written to the old master");
    // Those who set the service up again begin to count anew: in time they are believed.
    let since = Instant::now();
    until("the client to follow the only one that speaks", async || {
        let _ = note::job(3).enqueue(&client).await;
        enqueued(&old) > before
    })
    .await;
    assert!(since.elapsed() > Duration::from_secs(2));
}

/// A sentinel that says what it is told to.
struct Sentinel {
    port: u16,
    said: Arc<Mutex<Said>>,
}

struct Said {
    /// Epoch and master, or silence.
    view: Option<(u64, u16)>,
    asked: usize,
}

impl Sentinel {
    fn start(master: u16) -> Sentinel {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let said = Arc::new(Mutex::new(Said { view: Some((1, master)), asked: 0 }));
        let shared = said.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let said = shared.clone();
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let mut stream = stream;
                    while let Some(words) = request(&mut reader) {
                        let Some(answer) = answer(&words, &said) else { continue };
                        if stream.write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Sentinel { port, said }
    }

    fn says(&self, view: Option<(u64, u16)>) {
        self.said.lock().unwrap().view = view;
    }

    fn asked(&self) -> usize {
        self.said.lock().unwrap().asked
    }
}

fn answer(words: &[String], said: &Mutex<Said>) -> Option<String> {
    let array =
        |words: &[String]| words.iter().fold(format!("*{}\r\n", words.len()), |all, word| format!("{all}${}\r\n{word}\r\n", word.len()));
    let mut said = said.lock().unwrap();
    match words.get(1).map(String::as_str) {
        Some("GET-MASTER-ADDR-BY-NAME") => {
            said.asked += 1;
            said.view.map(|(_, port)| array(&["127.0.0.1".to_owned(), port.to_string()]))
        }
        Some("MASTER") => said.view.map(|(epoch, _)| array(&["config-epoch".to_owned(), epoch.to_string()])),
        _ => Some("+OK\r\n".to_owned()),
    }
}

/// One request of the Redis protocol.
fn request(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut line = String::new();
    let mut number = |reader: &mut dyn BufRead| -> Option<usize> {
        line.clear();
        reader.read_line(&mut line).ok()?;
        line.get(1..)?.trim().parse().ok()
    };
    let mut words = Vec::new();
    for _ in 0..number(reader)? {
        let mut word = vec![0; number(reader)? + 2];
        reader.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    Some(words)
}
