//! A key of the broker that holds something of another type, because another program wrote to it:
//! it is named, the other queues go on, and a repair renames it.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

use queue_conformance::conformance::{Lane, Producer, ack, envelope};
use queue_core::{
    __private::RedisBroker,
    Error, JobId,
    broker::{Audit, Counter, DamageKind, DynBroker, Inspect, NewJob},
};
use queue_tests::{
    cluster, on_servers,
    patience::{output, wait_for},
    server::{Kind, Server},
};

on_servers! {
    each_key_is_named_and_renamed_and_its_queue_works_again
    a_broken_list_of_queues_is_named_and_written_again
    commands_name_the_key_and_show_the_other_queues
    a_worker_logs_the_key_and_runs_the_jobs_after_the_repair
}

const REPAIR: Audit = Audit { repair: true, thorough: true };
const LOOK: Audit = Audit { repair: false, thorough: true };

/// All keys of a queue, with the types that belong to them.
const KEYS: [(&str, &str); 39] = [
    ("meta", "hash"),
    ("jobs", "hash"),
    ("ready:0", "list"),
    ("ready:1", "list"),
    ("ready:2", "list"),
    ("ready:3", "list"),
    ("suspect", "list"),
    ("scheduled", "zset"),
    ("retry", "zset"),
    ("active", "hash"),
    ("parked", "zset"),
    ("dead", "zset"),
    ("ended", "list"),
    ("records", "hash"),
    ("attempts", "hash"),
    ("snoozes", "hash"),
    ("returned", "hash"),
    ("crashes", "hash"),
    ("errors", "hash"),
    ("priority", "hash"),
    ("notes", "hash"),
    ("given", "hash"),
    ("remembered", "zset"),
    ("tomb", "hash"),
    ("keyed", "hash"),
    ("unique", "hash"),
    ("held", "hash"),
    ("within", "zset"),
    ("lanes", "hash"),
    ("leases", "zset"),
    ("durations", "zset"),
    ("knows", "hash"),
    ("workers", "hash"),
    ("fenced", "hash"),
    ("leaving", "set"),
    ("gone", "hash"),
    ("producers", "hash"),
    ("seen", "zset"),
    ("counters", "hash"),
];

fn job() -> NewJob {
    NewJob::new(JobId::make(), envelope("x"))
}

async fn each_key_is_named_and_renamed_and_its_queue_works_again(kind: Kind) {
    let server = Server::start(kind);
    let broker: DynBroker = RedisBroker::connect(&server.url()).await.unwrap();
    for (name, expected) in KEYS {
        let queue = name.replace(':', "");
        Producer::on(&broker, &queue).await.stored(vec![job()]).await;
        let key = format!("queue:{{{queue}}}:{name}");
        server.command(&["DEL", &key]);
        server.command(&["SETRANGE", &key, "0", "theirs"]);
        let found = broker.audit(&queue, LOOK).await.unwrap();
        let said: Vec<(DamageKind, &str)> = found.iter().map(|damage| (damage.kind, damage.subject.as_str())).collect();
        let expected = format!("`{key}` holds a string instead of a {expected}");
        assert_eq!(said, [(DamageKind::KeyOfAnotherType, expected.as_str())]);
        let repaired = broker.audit(&queue, REPAIR).await.unwrap();
        let (first, aside) = repaired[0].subject.split_once("; it is `").expect("the new name is told");
        assert_eq!((repaired[0].kind, first), (DamageKind::KeyOfAnotherType, expected.as_str()));
        assert!(server.command(&["GET", aside.strip_suffix("` now").unwrap()]).contains("theirs"), "{aside}");
        assert_eq!(broker.audit(&queue, LOOK).await.unwrap(), [], "{name}");
        // The job that was there before waits again, unless what is lost was the job itself.
        Producer::on(&broker, &queue).await.stored(vec![job()]).await;
        let mut lane = Lane::on(&broker, &queue).await;
        let held = lane.claim(10).await;
        assert_eq!(held.len(), if name == "jobs" { 1 } else { 2 }, "{name}");
        assert!(lane.end(&held[0], ack()).await);
        assert_eq!(broker.stats(&queue).await.unwrap().total(Counter::Done), 1, "{name}");
    }
}

async fn a_broken_list_of_queues_is_named_and_written_again(kind: Kind) {
    let (alone, nodes) = (Server::start(kind), cluster::shared(kind));
    let namespace = format!("types-{:x}", fastrand::u64(..));
    let key = format!("{namespace}:queues");
    // In a cluster the list and its new name have to lie in one slot.
    for (url, server) in [(alone.url(), &alone), (nodes.url(), nodes.node(nodes.master(nodes.slot(&key))))] {
        let broker = RedisBroker::connect(&format!("{url}?namespace={namespace}")).await.unwrap();
        let all: DynBroker = broker.clone();
        Producer::on(&all, "mail").await.stored(vec![job()]).await;
        assert_eq!(broker.queues().await.unwrap(), ["mail"]);
        server.command(&["DEL", &key]);
        server.command(&["RPUSH", &key, "theirs"]);
        let error = broker.queues().await.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("key `{key}` at ")) && text.contains(" holds a list instead of a set"), "{text}");
        assert!(matches!(error, Error::WrongType { queue: None, .. }), "{error:?}");
        assert_eq!(broker.audit_queues(false).await.unwrap()[0].kind, DamageKind::KeyOfAnotherType);
        let repaired = broker.audit_queues(true).await.unwrap();
        let (_, aside) = repaired[0].subject.split_once("; it is `").expect("the new name is told");
        assert!(server.command(&["LINDEX", aside.strip_suffix("` now").unwrap(), "0"]).contains("theirs"), "{aside}");
        assert_eq!((broker.audit_queues(true).await.unwrap(), broker.queues().await.unwrap()), (vec![], vec![]));
        // The janitor of a worker of the queue lists it again.
        broker.audit("mail", Audit { repair: true, thorough: false }).await.unwrap();
        broker.audit("unknown", REPAIR).await.unwrap();
        assert_eq!(broker.queues().await.unwrap(), ["mail"], "and none that does not exist");
    }
}

async fn commands_name_the_key_and_show_the_other_queues(kind: Kind) {
    let server = Server::start(kind);
    let shop = Shop(server.url());
    shop.run(&["enqueue", "greet", "--args", "{\"name\":\"Ada\"}"], 0);
    shop.run(&["enqueue", "close_order", "--args", "{\"order_id\":1}"], 0);
    server.command(&["DEL", "queue:{orders}:ready:2"]);
    server.command(&["SET", "queue:{orders}:ready:2", "theirs"]);
    let misfit = "holds a string instead of a list";
    let told = format!("key `queue:{{orders}}:ready:2` of queue `orders` at {} {misfit}", server.url());
    for command in [&["status"][..], &["queues", "list"], &["jobs", "list"], &["status", "--json"], &["jobs", "list", "--json"]] {
        let (stdout, stderr) = shop.run(command, 9);
        assert!(stdout.contains("greetings"), "{command:?}: {stdout}");
        let error = if command.contains(&"--json") { "{\"error\":\"" } else { "error: " };
        let problem = stderr.strip_prefix(error).unwrap_or_default();
        assert!(problem.starts_with(&told) && problem.contains("run `doctor --repair`"), "{command:?}: {stderr}");
    }
    let (stdout, stderr) = shop.run(&["jobs", "cancel", "--all", "--state", "ready"], 9);
    assert!(stdout.contains("greetings: 1 ready job cancelled") && stderr.starts_with(&format!("error: {told}")), "{stdout}{stderr}");
    for command in [&["enqueue", "close_order", "--args", "{\"order_id\":2}"][..], &["status", "--queue", "orders"]] {
        let (_, stderr) = shop.run(command, 9);
        assert!(stderr.contains(&told), "{command:?}: {stderr}");
    }
    let (stdout, _) = shop.run(&["doctor"], 9);
    assert!(
        stdout.contains(&format!("- fault: orders: key of another type: `queue:{{orders}}:ready:2` {misfit}; `doctor --repair`")),
        "{stdout}"
    );
    let (stdout, _) = shop.run(&["doctor", "--repair"], 0);
    assert!(
        stdout.contains("- repaired: orders: key of another type") && stdout.contains("it is `queue:{orders}:ready:2:aside:"),
        "{stdout}"
    );
    // The job that could not be stored whole, and the one that was there before.
    assert!(stdout.contains("repaired: orders: job without place"), "{stdout}");
    shop.run(&["doctor"], 0);
    let (stdout, _) = shop.run(&["jobs", "list", "--queue", "orders", "--state", "ready"], 0);
    assert_eq!(stdout.matches("close_order").count(), 2, "{stdout}");

    server.command(&["DEL", "queue:queues"]);
    server.command(&["SET", "queue:queues", "theirs"]);
    let (_, stderr) = shop.run(&["status"], 9);
    assert!(stderr.starts_with(&format!("error: key `queue:queues` at {} holds a string instead of a set", server.url())), "{stderr}");
    let (stdout, _) = shop.run(&["doctor"], 9);
    assert!(stdout.contains("- fault: key of another type: `queue:queues` holds a string instead of a set"), "{stdout}");
    let (stdout, _) = shop.run(&["doctor", "--repair"], 0);
    assert!(stdout.contains("it is `queue:aside:{queue:queues}:"), "{stdout}");
    shop.run(&["enqueue", "greet", "--args", "{\"name\":\"Eve\"}"], 0);
    let (stdout, _) = shop.run(&["status"], 0);
    assert!(stdout.contains("greetings"), "{stdout}");
}

async fn a_worker_logs_the_key_and_runs_the_jobs_after_the_repair(kind: Kind) {
    let server = Server::start(kind);
    let shop = Shop(server.url());
    shop.run(&["enqueue", "greet", "--args", "{\"name\":\"Ada\"}", "--id", "ada"], 0);
    server.command(&["SET", "queue:{orders}:lanes", "theirs"]);
    let mut worker = Working(shop.command(&["work"]).env("SHOP_NAME", "Ada").stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
    let lines = Arc::new(Mutex::new(Vec::new()));
    let (log, read) = (BufReader::new(worker.0.stderr.take().unwrap()), lines.clone());
    std::thread::spawn(move || log.lines().map_while(Result::ok).for_each(|line| read.lock().unwrap().push(line)));
    let told = format!("key `queue:{{orders}}:lanes` of queue `orders` at {} holds a string instead of a hash", server.url());
    wait_for("the worker to name the key", || lines.lock().unwrap().iter().any(|line| line.contains(&told)).then_some(()));
    let done = |job: &str, word: &str| {
        wait_for(&format!("`{job}` to be {word}"), || {
            let ended = output(&mut shop.command(&["jobs", "show", job])).unwrap();
            String::from_utf8_lossy(&ended.stdout).contains(word).then_some(())
        });
    };
    // The other queue is served.
    done("greetings/ada", "done");
    shop.run(&["doctor", "--repair"], 0);
    shop.run(&["enqueue", "close_order", "--args", "{\"order_id\":1}", "--id", "one"], 0);
    done("orders/one", "dead");
    let lines = lines.lock().unwrap();
    assert!(lines.iter().all(|line| !line.contains("WRONGTYPE")), "{lines:?}");
}

/// The command line of a worker binary.
struct Shop(String);

impl Shop {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop_worker"));
        command.args(arguments).env("QUEUE_URL", &self.0).env_remove("SHOP_NAME").env_remove("RUST_LOG");
        command
    }

    /// Gives standard output and standard error.
    fn run(&self, arguments: &[&str], code: i32) -> (String, String) {
        let ended = output(&mut self.command(arguments)).unwrap();
        let [stdout, stderr] = [&ended.stdout, &ended.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {stdout}{stderr}");
        (stdout, stderr)
    }
}

/// A worker process, ended with the test.
struct Working(Child);

impl Drop for Working {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
