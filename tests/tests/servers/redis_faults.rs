//! What a Redis or Valkey server can do to its clients, and what they make of it.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::Arc,
    time::Duration,
};

use queue_conformance::{
    Changes as _,
    conformance::{ack, envelope, eventually, finish},
};
use queue_core::{
    __private::RedisBroker,
    Client, Error, JobId,
    broker::{
        Broker, Counter, CrashRule, Due, DynBroker, Ending, Enqueue, Extend, Inspect, JobState, NewJob, OverdueLane, ProcessId, Register,
        SetPause, Turn,
    },
    prelude::task,
};
use queue_tests::{
    on_servers,
    patience::{WatchBroker, wait},
    proxy::{Harm, Proxy},
    server::{Kind, Server, free_port},
};

const LEASE: Duration = Duration::from_secs(60);

#[task(queue = "faults")]
async fn note(number: u32) {
    let _ = number;
}

on_servers! {
    a_killed_server_with_an_append_only_file_loses_nothing
    scripts_that_the_server_forgot_are_sent_again
    a_wrong_password_is_reported_without_repeating_it
    a_user_without_announcements_or_info_can_work
    a_server_that_may_evict_jobs_is_refused
    replies_that_are_cut_off_double_nothing
    a_reply_that_never_comes_is_asked_for_again_on_another_connection
    a_turn_whose_reply_was_lost_is_answered_again
    a_black_hole_ends_in_time_and_heals
    a_full_server_refuses_enqueues_and_nothing_else
    a_server_that_is_full_in_the_middle_of_many_jobs_has_those_that_the_error_names
    namespaces_know_nothing_of_each_other
    a_newer_schema_is_left_alone
    a_master_that_became_a_replica_is_left_at_once
    a_flushed_server_has_forgotten_everyone_and_work_goes_on
}

/// Its name leads to another server by then, and whoever stays connected never hears of that.
async fn a_master_that_became_a_replica_is_left_at_once(kind: Kind) {
    let (old, new) = (Server::start(kind), Server::start(kind));
    let proxy = Proxy::to(old.port());
    let broker = RedisBroker::connect(&proxy.url()).await.unwrap();
    let register = Register::lane("q", ProcessId::random(), LEASE);
    broker.register(&register).await.unwrap();
    proxy.lead_to(new.port());
    let demoted: String = old.ask(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]).unwrap();
    assert_eq!(demoted, "OK");
    broker.register(&register).await.expect("the new master is found");
}

/// Durability as the server has it: with `appendfsync always`, what was acknowledged survives a
/// `kill -9`.
async fn a_killed_server_with_an_append_only_file_loses_nothing(kind: Kind) {
    let mut server = Server::durable(kind);
    let client = Client::connect(&server.url()).await.unwrap().with_deadline(Duration::from_secs(30));
    let enqueuing = tokio::spawn({
        let client = client.clone();
        async move {
            let mut stored = HashSet::new();
            for number in 0..400 {
                let id = match note::job(number).enqueue(&client).await {
                    Ok(handle) => handle.id().clone(),
                    Err(Error::Unknown(pending)) => pending.retry().await.unwrap().id().clone(),
                    Err(error) => panic!("{error}"),
                };
                assert!(stored.insert(id));
            }
            stored
        }
    });
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(60)).await;
        server.kill();
        server.restart();
    }
    let stored = enqueuing.await.unwrap();
    let broker = client.broker();
    assert_eq!(ids(broker, "faults", JobState::Ready).await, stored, "each is there once");
    let stats = broker.stats("faults").await.unwrap();
    assert_eq!((stats.count(JobState::Ready), stats.total(Counter::Enqueued)), (400, 400));
}

async fn scripts_that_the_server_forgot_are_sent_again(kind: Kind) {
    let server = Server::start(kind);
    let broker = server.broker().await;
    let producer = broker.register(&Register::producer("faults", ProcessId::random())).await.unwrap().name;
    let worker = broker.register(&Register::lane("faults", ProcessId::random(), LEASE)).await.unwrap().name;
    for seq in 1..=5 {
        server.command(&["SCRIPT", "FLUSH"]);
        broker.enqueue(&Enqueue::new("faults", producer.clone(), seq, jobs(3))).await.unwrap();
        server.command(&["SCRIPT", "FLUSH"]);
        let turn = Turn::new("faults", worker.clone(), seq, LEASE).claim(1);
        assert_eq!(broker.turn(&turn).await.unwrap().deliveries.len(), 1);
        server.command(&["SCRIPT", "FLUSH"]);
        assert!(broker.extend(&[Extend::new("faults", worker.clone(), seq, LEASE)]).await[0].is_ok());
    }
    assert_eq!(broker.stats("faults").await.unwrap().count(JobState::Ready), 10);
}

async fn a_wrong_password_is_reported_without_repeating_it(kind: Kind) {
    let server = Server::with(kind, &["--requirepass", "sesame-open"]);
    let reach = async |url: String| match Client::connect(&url).await {
        Ok(client) => client.broker().check().await,
        Err(error) => Err(error),
    };
    for credentials in ["", ":wrong-secret@", "nobody:wrong-secret@"] {
        let url = server.url().replace("redis://", &format!("redis://{credentials}"));
        let error = reach(url).await.unwrap_err();
        assert!(matches!(error, Error::AccessDenied { .. }), "{credentials}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("wrong-secret"), "{error:?}");
    }
    let url = server.url().replace("redis://", "redis://:sesame-open@");
    reach(url.clone()).await.unwrap();
    let client = Client::connect(&url).await.unwrap().watched();
    assert!(!format!("{:?} {:?}", client, client.info()).contains("sesame-open"));
}

/// Announcements and the look at the settings are a help, not a need.
async fn a_user_without_announcements_or_info_can_work(kind: Kind) {
    let server = Server::start(kind);
    let created = server.command(&["ACL", "SETUSER", "app", "on", ">pw", "~queue:*", "resetchannels", "+@all", "-info"]);
    assert!(created.starts_with("+OK"), "{created}");
    let url = server.url().replace("redis://", "redis://app:pw@");
    let client = Client::connect(&url).await.unwrap().watched();
    client.broker().check().await.unwrap();
    let later = note::job(1).delay(Duration::from_millis(20)).enqueue(&client).await.unwrap();
    note::job(2).enqueue(&client).await.unwrap();
    let broker = client.broker();
    let worker = broker.register(&Register::lane("faults", ProcessId::random(), LEASE)).await.unwrap().name;
    let mut turn = Turn::new("faults", worker, 0, LEASE).claim(5);
    let mut served = 0;
    eventually("both are served", async || {
        turn.seq += 1;
        let answer = broker.turn(&turn).await.unwrap();
        turn.finishes = answer.deliveries.iter().map(|delivery| finish(delivery, ack())).collect();
        served += answer.deliveries.len();
        (served == 2).then_some(())
    })
    .await;
    assert_eq!(later.status().await.unwrap(), Some(JobState::Active));
    broker.set_pause(&SetPause::of_queue("faults", true)).await.unwrap();
    broker.set_pause(&SetPause::of_queue("faults", false)).await.unwrap();
    // Keys that are not ours stay out of reach: what is denied says so.
    let elsewhere = Client::connect(&format!("{url}?namespace=other")).await.unwrap().watched();
    let denied = note::job(3).enqueue(&elsewhere.with_deadline(Duration::from_secs(2))).await.unwrap_err();
    assert!(matches!(denied, Error::AccessDenied { .. }), "{denied:?}");
}

async fn a_server_that_may_evict_jobs_is_refused(kind: Kind) {
    let server = Server::start(kind);
    for policy in ["allkeys-lru", "allkeys-random"] {
        server.command(&["CONFIG", "SET", "maxmemory-policy", policy]);
        let problem = match Client::connect(&server.url()).await {
            Ok(client) => client.broker().check().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(&problem, Error::Evicts { policy: told, .. } if told == policy), "{problem:?}");
        assert!(problem.to_string().contains("noeviction"), "{problem}");
    }
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    Client::connect(&server.url()).await.unwrap().broker().check().await.unwrap();
}

async fn replies_that_are_cut_off_double_nothing(kind: Kind) {
    let server = Server::start(kind);
    let proxy = Arc::new(Proxy::to(server.port()));
    let client = Client::connect(&proxy.url()).await.unwrap().with_deadline(Duration::from_secs(30));
    note::job(0).enqueue(&client).await.unwrap();
    let enqueuing = tokio::spawn({
        let client = client.clone();
        async move {
            let one_by_one = futures_util::future::join_all((1..=200).map(|number| note::job(number).enqueue(&client)));
            let all = client.enqueue_all((201..=5000).map(note::job));
            let (singles, bulk) = futures_util::future::join(one_by_one, all).await;
            singles.into_iter().for_each(|handle| drop(handle.unwrap()));
            assert_eq!(bulk.unwrap().len(), 4800);
        }
    });
    for _ in 0..5 {
        proxy.set(Harm::CutReplies);
        tokio::time::sleep(Duration::from_millis(40)).await;
        proxy.set(Harm::None);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    enqueuing.await.unwrap();
    assert!(proxy.harmed() > 0, "something was cut");
    let stats = client.broker().stats("faults").await.unwrap();
    assert_eq!((stats.count(JobState::Ready), stats.total(Counter::Enqueued)), (5001, 5001));
}

async fn a_reply_that_never_comes_is_asked_for_again_on_another_connection(kind: Kind) {
    let server = Server::start(kind);
    let proxy = Proxy::to(server.port());
    let client = Client::connect(&proxy.url()).await.unwrap().with_deadline(Duration::from_secs(40));
    note::job(0).enqueue(&client).await.unwrap();
    proxy.set(Harm::SwallowReplies);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { note::job(1).enqueue(&client).await }
    });
    eventually("the reply is swallowed", async || (proxy.harmed() > 0).then_some(())).await;
    proxy.set(Harm::None);
    waiting.await.unwrap().unwrap();
    assert_eq!(client.broker().stats("faults").await.unwrap().total(Counter::Enqueued), 2);
}

async fn a_turn_whose_reply_was_lost_is_answered_again(kind: Kind) {
    let server = Server::start(kind);
    let proxy = Proxy::to(server.port());
    let broker = RedisBroker::connect(&proxy.url()).await.unwrap();
    let producer = broker.register(&Register::producer("faults", ProcessId::random())).await.unwrap().name;
    broker.enqueue(&Enqueue::new("faults", producer, 1, jobs(20))).await.unwrap();
    let worker = broker.register(&Register::lane("faults", ProcessId::random(), LEASE)).await.unwrap().name;
    let mut held = broker.turn(&Turn::new("faults", worker.clone(), 1, LEASE).claim(5)).await.unwrap().deliveries;
    let finishes = held.iter().map(|delivery| finish(delivery, ack())).collect();
    let turn = Turn::new("faults", worker.clone(), 2, LEASE).finish(finishes).claim(5);
    proxy.set(Harm::CutReplies);
    let error = broker.turn(&turn).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error:?}");
    let direct = server.broker().await;
    assert_eq!(direct.stats("faults").await.unwrap().total(Counter::Done), 5, "it had arrived");
    proxy.set(Harm::None);
    let answer = broker.turn(&turn).await.unwrap();
    assert_eq!((answer.deliveries.len(), answer.stale.len()), (5, 0));
    held.extend(answer.deliveries);
    let stats = direct.stats("faults").await.unwrap();
    assert_eq!((stats.count(JobState::Active), stats.count(JobState::Ready), stats.total(Counter::Done)), (5, 10, 5));
    assert_eq!(held.iter().map(|delivery| &delivery.id).collect::<HashSet<_>>().len(), 10);
}

async fn a_black_hole_ends_in_time_and_heals(kind: Kind) {
    let server = Server::start(kind);
    let proxy = Proxy::to(server.port());
    let broker = RedisBroker::connect(&proxy.url()).await.unwrap();
    broker.register(&Register::producer("faults", ProcessId::random())).await.unwrap();
    proxy.set(Harm::BlackHole);
    let call = broker.stats("faults");
    let error = wait("a call has a deadline").end_of(call).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    proxy.set(Harm::None);
    eventually("it answers again", async || broker.stats("faults").await.ok()).await;
}

async fn a_full_server_refuses_enqueues_and_nothing_else(kind: Kind) {
    let server = Server::start(kind);
    let broker = server.broker().await;
    let producer = broker.register(&Register::producer("faults", ProcessId::random())).await.unwrap().name;
    broker.enqueue(&Enqueue::new("faults", producer.clone(), 1, jobs(300))).await.unwrap();
    let worker = broker.register(&Register::lane("faults", ProcessId::random(), LEASE)).await.unwrap().name;
    let held = broker.turn(&Turn::new("faults", worker.clone(), 1, LEASE).claim(100)).await.unwrap().deliveries;
    let of_plain = broker.register(&Register::producer("plain", ProcessId::random())).await.unwrap().name;
    broker.enqueue(&Enqueue::new("plain", of_plain, 1, jobs(2))).await.unwrap();
    let plain = broker.register(&Register::lane("plain", ProcessId::random(), LEASE)).await.unwrap().name;
    let first = broker.turn(&Turn::new("plain", plain.clone(), 1, LEASE).claim(1)).await.unwrap().deliveries.remove(0);
    let lost = broker.register(&Register::lane("faults", ProcessId::random(), Duration::from_millis(1))).await.unwrap().name;
    broker.turn(&Turn::new("faults", lost.clone(), 1, Duration::from_millis(1)).claim(3)).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1mb"]);

    let refused = broker.enqueue(&Enqueue::new("faults", producer.clone(), 2, jobs(10))).await.unwrap_err();
    assert!(matches!(refused, Error::BrokerFull { .. }), "{refused:?}");
    assert_eq!(broker.stats("faults").await.unwrap().total(Counter::Enqueued), 300);
    assert!(broker.extend(&[Extend::new("faults", worker.clone(), 1, LEASE)]).await[0].is_ok());
    let endings = [
        ack(),
        Ending::Ack { result: Some(vec![1; 1000]), keep: Some(LEASE) },
        Ending::Nack { delay: LEASE, error: "x".to_owned() },
        Ending::Snooze { delay: LEASE },
        Ending::Return,
        Ending::Stopped { by_shutdown: true },
        Ending::Cancel { reason: "no".to_owned() },
    ];
    let finishes: Vec<_> = held.iter().zip(endings.into_iter().cycle()).map(|(delivery, ending)| finish(delivery, ending)).collect();
    let answer = broker.turn(&Turn::new("faults", worker.clone(), 2, LEASE).finish(finishes).claim(5)).await.unwrap();
    assert_eq!((answer.stale.len(), answer.deliveries.len()), (0, 5));
    let answer = broker.turn(&Turn::new("plain", plain, 2, LEASE).finish(vec![finish(&first, ack())]).claim(1)).await.unwrap();
    assert_eq!((answer.stale.len(), answer.deliveries.len()), (0, 1));
    let suspects = eventually("its lease ends", async || {
        let suspects = broker.overdue("faults", 0, 10).await.unwrap().expired;
        (!suspects.is_empty()).then_some(suspects)
    })
    .await;
    assert_eq!(broker.fence("faults", &suspects).await.unwrap(), [true]);
    assert_eq!(broker.reclaim("faults", &CrashRule::default()).await.unwrap().charged, 3);
    let waiting: Vec<JobId> = ids(&(broker.clone() as DynBroker), "faults", JobState::Ready).await.into_iter().take(10).collect();
    assert_eq!(broker.cancel("faults", &waiting).await.unwrap().len(), 10);
    assert!(broker.delete("faults", &waiting).await.unwrap().into_iter().all(|deleted| deleted));

    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    broker.enqueue(&Enqueue::new("faults", producer, 2, jobs(10))).await.unwrap();
    assert_eq!(broker.stats("faults").await.unwrap().total(Counter::Enqueued), 310);
}

async fn a_server_that_is_full_in_the_middle_of_many_jobs_has_those_that_the_error_names(kind: Kind) {
    const JOBS: u32 = 9_000;
    let server = Server::start(kind);
    let client = Client::connect(&server.url()).await.unwrap();
    let used = server.command(&["INFO", "memory"]);
    let used: u64 = used.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().trim().parse().unwrap();
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    server.command(&["CONFIG", "SET", "maxmemory", &(used + 10 * 1024 * 1024).to_string()]);
    let jobs = || (0..JOBS).map(|number| note::job(number).header("text", "x".repeat(3_000)));
    let all = client.enqueue_all(jobs()).await.expect_err("they take 27 MB");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);

    let stats = client.inspector().stats("faults").await.unwrap();
    let stored: Vec<_> = all.answers.iter().filter_map(|answer| answer.as_ref().ok().map(|handle| handle.address().clone())).collect();
    assert!(stored.len() >= 500 && stored.len() < 8_000, "{} were stored", stored.len());
    assert_eq!((stats.count(JobState::Ready), all.unknown()), (stored.len() as u64, 0), "all that are there are named");
    for address in stored.iter().step_by(97) {
        assert_eq!(client.inspector().show(address).await.unwrap().state, JobState::Ready);
    }
    let refused = all.answers.iter().filter_map(|answer| answer.as_ref().err());
    for error in refused {
        assert!(matches!(error, Error::BrokerFull { .. } | Error::Unavailable { .. }), "{error:?}");
    }
    let text = all.to_string();
    assert!(
        text.starts_with(&format!("{} of {JOBS} jobs were not stored, {} were stored;", JOBS as usize - stored.len(), stored.len())),
        "{text}"
    );
    // With `?`.
    let error = Error::from(all);
    assert!(!error.is_transient() && error.is_ambiguous(), "a repetition would store them twice");
    let Error::PartlyStored { stored: named, given, cause } = error else { panic!("{error:?}") };
    assert!(matches!(*cause, Error::BrokerFull { .. }), "{cause:?}");
    assert_eq!((named, given), (stored, JOBS as usize));
    // Before anything is stored, nothing is: that call may be repeated.
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let none = Error::from(client.enqueue_all(jobs()).await.expect_err("there is no room"));
    assert!(matches!(none, Error::BrokerFull { .. }) && none.is_transient(), "{none:?}");
}

async fn namespaces_know_nothing_of_each_other(kind: Kind) {
    let server = Server::start(kind);
    let shop = Client::connect(&format!("{}?namespace=shop", server.url())).await.unwrap().watched();
    let mail = Client::connect(&format!("{}?namespace=mail", server.url())).await.unwrap().watched();
    note::job(1).id("same").enqueue(&shop).await.unwrap();
    assert!(mail.inspector().queues().await.unwrap().is_empty());
    let handle = note::job(2).id("same").enqueue(&mail).await.unwrap();
    assert!(!handle.existing());
    assert_eq!(shop.inspector().stats("faults").await.unwrap().total(Counter::Enqueued), 1);
    let keys = server.command(&["EVAL", "return table.concat(redis.call('KEYS', '*'), ' ')", "0"]);
    assert!(keys.split_whitespace().all(|key| key.starts_with("shop:") || key.starts_with("mail:")), "{keys}");
}

async fn a_newer_schema_is_left_alone(kind: Kind) {
    let server = Server::start(kind);
    let broker = server.broker().await;
    let producer = broker.register(&Register::producer("faults", ProcessId::random())).await.unwrap().name;
    let worker = broker.register(&Register::lane("faults", ProcessId::random(), LEASE)).await.unwrap().name;
    let mut given = NewJob::new(JobId::given("g").unwrap(), envelope("x"));
    given.due = Due::After(LEASE);
    broker.enqueue(&Enqueue::new("faults", producer.clone(), 1, vec![given])).await.unwrap();
    let of_plain = broker.register(&Register::lane("plain", ProcessId::random(), LEASE)).await.unwrap().name;
    for queue in ["faults", "plain"] {
        server.command(&["HSET", &format!("queue:{{{queue}}}:meta"), "schema", "2"]);
    }
    let dump = || server.command(&["EVAL", DIGEST, "0"]);
    let before = dump();
    let newer = |error: Error| matches!(error, Error::SchemaTooNew { found: 2, known: 1, .. });
    assert!(newer(broker.enqueue(&Enqueue::new("faults", producer, 2, jobs(1))).await.unwrap_err()));
    let lane = worker.clone();
    assert!(newer(broker.turn(&Turn::new("faults", worker, 1, LEASE).claim(1)).await.unwrap_err()));
    assert!(newer(broker.turn(&Turn::new("plain", of_plain, 1, LEASE).claim(1)).await.unwrap_err()));
    assert!(newer(broker.register(&Register::producer("faults", ProcessId::random())).await.unwrap_err()));
    assert!(newer(broker.extend(&[Extend::new("faults", lane.clone(), 1, LEASE)]).await.remove(0).unwrap_err()));
    assert!(newer(broker.fence("faults", &[OverdueLane { name: lane, deadline_ms: 1 }]).await.unwrap_err()));
    assert!(newer(broker.cancel("faults", &[JobId::given("g").unwrap()]).await.unwrap_err()));
    assert!(newer(broker.delete("faults", &[JobId::given("g").unwrap()]).await.unwrap_err()));
    assert_eq!(dump(), before, "nothing was written");
}

/// The contents of all keys of our namespace.
const DIGEST: &str = "
local all = redis.call('KEYS', 'queue:*')
table.sort(all)
for i, key in ipairs(all) do all[i] = redis.sha1hex(redis.call('DUMP', key)) end
return table.concat(all, ' ')";

async fn a_flushed_server_has_forgotten_everyone_and_work_goes_on(kind: Kind) {
    let server = Server::start(kind);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    note::job(1).enqueue(&client).await.unwrap();
    let broker = client.broker();
    let worker = broker.register(&Register::lane("faults", ProcessId::random(), LEASE)).await.unwrap().name;
    let held = broker.turn(&Turn::new("faults", worker.clone(), 1, LEASE).claim(1)).await.unwrap().deliveries;
    server.command(&["FLUSHALL"]);
    let turn = Turn::new("faults", worker.clone(), 2, LEASE).finish(vec![finish(&held[0], ack())]);
    assert!(matches!(broker.turn(&turn).await, Err(Error::Forgotten(_))));
    assert!(matches!(broker.extend(&[Extend::new("faults", worker, 1, LEASE)]).await[0], Err(Error::Forgotten(_))));
    // The client's own producer is forgotten too: it registers anew, since that sequence was never
    // sent before.
    let handle = note::job(2).enqueue(&client).await.unwrap();
    assert_eq!(handle.status().await.unwrap(), Some(JobState::Ready));
    assert_eq!(client.inspector().stats("faults").await.unwrap().total(Counter::Enqueued), 1);
}

#[tokio::test]
async fn a_port_that_nobody_listens_on_is_reported_in_time() {
    let url = format!("redis://127.0.0.1:{}", free_port());
    let reach = async {
        let client = Client::connect(&url).await?;
        client.broker().check().await
    };
    let error = wait("it does not hang").end_of(reach).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }) && error.to_string().contains("127.0.0.1"), "{error}");
}

/// A stranger who speaks the protocol of an old server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_too_old_is_refused_with_its_version() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut stream = stream;
                while let Some(words) = request(&mut reader) {
                    let info = "redis_version:6.2.14\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n";
                    let reply = match words[0].as_str() {
                        "INFO" => format!("${}\r\n{info}\r\n", info.len()),
                        "HELLO" => "-ERR unknown command\r\n".to_owned(),
                        _ => "+OK\r\n".to_owned(),
                    };
                    if stream.write_all(reply.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let error = match Client::connect(&url).await {
        Ok(client) => client.broker().check().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(&error, Error::Config(text) if text.contains("6.2.14") && text.contains("7.0")), "{error:?}");
}

/// One request of the Redis protocol.
fn request(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut line = String::new();
    let mut next = |reader: &mut dyn BufRead| -> Option<usize> {
        line.clear();
        reader.read_line(&mut line).ok()?;
        line.get(1..)?.trim().parse().ok()
    };
    let count = next(reader)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; next(reader)? + 2];
        reader.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8_lossy(&word).to_uppercase());
    }
    Some(words)
}

/// The ids of a state, each of which has to be listed once.
async fn ids(broker: &DynBroker, queue: &str, state: JobState) -> HashSet<JobId> {
    let (mut ids, mut walk) = (HashSet::new(), Client::with_broker(broker.clone()).inspector().walk(queue, state));
    while let Some(jobs) = walk.next().await.unwrap() {
        for job in jobs {
            assert!(ids.insert(job.address.id.clone()), "{} is listed twice", job.address);
        }
    }
    ids
}

fn jobs(n: usize) -> Vec<NewJob> {
    (0..n).map(|n| NewJob::new(JobId::make(), envelope(&n.to_string()))).collect()
}
