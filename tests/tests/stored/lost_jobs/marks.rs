//! What the script knows of ids that came to `ready` since a mark.

use std::{collections::HashSet, time::Duration};

use queue_conformance::{
    Changes as _,
    conformance::{Lane, Producer, nack},
};
use queue_core::{
    __private::RedisBroker,
    broker::{BuryReason, CrashRule, DynBroker, Ending, JobState, ProcessId, Register, SetPause},
};
use queue_tests::{
    on_servers,
    patience::until,
    server::{Kind, Server},
    watch::Watch,
};

use super::{LOOK, QUEUE, REPAIR, drain, given, lose, on, put, subjects};

on_servers! {
    a_job_that_came_to_ready_in_whatever_way_is_not_lost
    where_too_much_has_come_nobody_knows
    what_was_seen_before_a_failover_is_not_believed
}

/// Requests of an audit that can be sent once more, when others have been at work.
struct Auditor {
    mark: Vec<String>,
    strays: Vec<String>,
}

impl Auditor {
    async fn on(server: &Server, broker: &DynBroker) -> Auditor {
        let mut watch = Watch::on(server);
        broker.audit(QUEUE, REPAIR).await.unwrap();
        put(broker, QUEUE, 1).await;
        server.command(&["DEL", &format!("queue:{{{QUEUE}}}:ready:2")]);
        broker.audit(QUEUE, REPAIR).await.unwrap();
        let (mark, mut strays) = (watch.call_with("\"checkpoint\""), watch.call_with("\"strays\""));
        strays.truncate(strays.len() - 3);
        Auditor { mark, strays }
    }

    fn send(words: &[String], queue: &str) -> Vec<String> {
        words.iter().map(|word| word.replace(&format!("{{{QUEUE}}}"), &format!("{{{queue}}}"))).collect()
    }

    /// A mark of now: the life of the server, and what was pushed.
    fn mark(&self, server: &Server, queue: &str) -> [String; 2] {
        let words = Auditor::send(&self.mark, queue);
        let mark: Vec<String> = server.ask(&words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        mark.into_iter().take(2).collect::<Vec<_>>().try_into().unwrap()
    }

    /// Those that are lost, of jobs that were not in `ready` at the mark.
    fn lost(&self, server: &Server, queue: &str, mark: &[String; 2], ids: &[&str]) -> Option<Vec<String>> {
        let mut words = Auditor::send(&self.strays, queue);
        words.extend(mark.iter().cloned().chain(ids.iter().map(|id| format!("={id}"))));
        server.ask(&words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap()
    }
}

/// Each way is counted by something else.
async fn a_job_that_came_to_ready_in_whatever_way_is_not_lost(kind: Kind) {
    let server = Server::start(kind);
    let broker = on(&server).await;
    let auditor = Auditor::on(&server, &broker).await;
    for way in ["return", "repeat", "fail", "fail before", "snooze", "reclaim", "requeue", "promote", "enqueue", "repair"] {
        let queue = format!("lost-{}", way.replace(' ', "-"));
        let queue = queue.as_str();
        let process = ProcessId::random();
        let mut lane = Lane::on(&broker, queue).await;
        lane.lease = if way == "reclaim" { Duration::from_millis(1) } else { lane.lease };
        lane.name = broker.register(&Register::lane(queue, process, lane.lease)).await.unwrap().name;
        Producer::on(&broker, queue).await.stored(vec![given("x")]).await;
        let held = lane.claim_one().await;
        put(&broker, queue, 3 * LOOK).await;
        if way == "fail before" {
            broker.set_pause(&SetPause::of_queue(queue, true)).await.unwrap();
            assert!(lane.end(&held, nack(Duration::ZERO)).await);
        }
        let mark = auditor.mark(&server, queue);
        match way {
            "return" => assert!(lane.end(&held, Ending::Return).await),
            "repeat" => assert!(lane.end(&held, Ending::Repeat { delay: Duration::ZERO }).await),
            "fail" => assert!(lane.end(&held, nack(Duration::ZERO)).await),
            "fail before" => {
                broker.set_pause(&SetPause::of_queue(queue, false)).await.unwrap();
                assert!(lane.claim(0).await.is_empty());
            }
            "snooze" => assert!(lane.end(&held, Ending::Snooze { delay: Duration::ZERO }).await),
            "reclaim" => {
                // Its process lives, so that it goes back to the head.
                broker.register(&Register::lane(queue, process, Duration::from_secs(60))).await.unwrap();
                until("the lease is over", async || {
                    let expired = broker.overdue(queue, 0, 10).await.unwrap().expired;
                    broker.fence(queue, &expired).await.unwrap().contains(&true)
                })
                .await;
                assert_eq!(broker.reclaim(queue, &CrashRule::default()).await.unwrap().returned, 1);
            }
            "requeue" => {
                assert!(lane.end(&held, Ending::Bury { reason: BuryReason::Buried, error: None }).await);
                assert_eq!(broker.requeue(queue, std::slice::from_ref(&held.id)).await.unwrap(), [true]);
            }
            "promote" => {
                assert!(lane.end(&held, nack(Duration::from_secs(60))).await);
                assert_eq!(broker.promote(queue, std::slice::from_ref(&held.id)).await.unwrap(), [true]);
            }
            "enqueue" => {
                broker.cancel(queue, std::slice::from_ref(&held.id)).await.unwrap();
                Producer::on(&broker, queue).await.stored(vec![given("x")]).await;
            }
            _ => {
                server.command(&["HDEL", &format!("queue:{{{queue}}}:active"), "=x"]);
                assert_eq!(subjects(&broker.audit(queue, REPAIR).await.unwrap()), HashSet::from(["x"]), "{way}");
            }
        }
        assert_eq!(broker.show(queue, &held.id).await.unwrap().unwrap().state, JobState::Ready, "{way}");
        assert_eq!(auditor.lost(&server, queue, &mark, &["x"]), Some(vec![]), "{way}");
        assert!(drain(&broker, queue).await.contains(&held.id), "{way}");
    }
}

async fn where_too_much_has_come_nobody_knows(kind: Kind) {
    let server = Server::start(kind);
    let broker = on(&server).await;
    let auditor = Auditor::on(&server, &broker).await;
    let mut lane = Lane::on(&broker, "long").await;
    Producer::on(&broker, "long").await.stored(vec![given("x"), given("lost")]).await;
    let held = lane.claim(2).await;
    put(&broker, "long", 3 * LOOK).await;
    let mark = auditor.mark(&server, "long");
    assert!(lane.end(&held[0], Ending::Return).await);
    server.command(&["HDEL", "queue:{long}:active", "=lost"]);
    put(&broker, "long", LOOK - 1).await;
    assert_eq!(auditor.lost(&server, "long", &mark, &["x", "lost"]), Some(vec!["=lost".to_owned()]), "it is put back");
    // Together with the one that was put back, one too many.
    assert_eq!(auditor.lost(&server, "long", &mark, &["x", "lost"]), None);
    // Short lists are looked through as they are.
    put(&broker, "short", LOOK).await;
    Producer::on(&broker, "short").await.stored(vec![given("x")]).await;
    put(&broker, "short", LOOK - 1).await;
    assert_eq!(auditor.lost(&server, "short", &mark, &["x"]), Some(vec![]));
    put(&broker, "short", 1).await;
    assert_eq!(auditor.lost(&server, "short", &mark, &["x"]), None);
}

/// A server that takes over may lack what was read of the last one.
async fn what_was_seen_before_a_failover_is_not_believed(kind: Kind) {
    let mut server = Server::durable(kind);
    let broker = on(&server).await;
    let auditor = Auditor::on(&server, &broker).await;
    put(&broker, QUEUE, 3 * LOOK).await;
    let mark = auditor.mark(&server, QUEUE);
    assert_eq!(auditor.lost(&server, QUEUE, &mark, &["x"]), Some(vec![]));
    for master in [["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]] {
        assert_eq!(server.ask::<String>(&master).unwrap(), "OK");
    }
    assert_eq!(auditor.lost(&server, QUEUE, &mark, &["x"]), None, "another master");
    let mark = auditor.mark(&server, QUEUE);
    server.restart();
    let broker = on(&server).await;
    // The script went with the process.
    broker.audit(QUEUE, REPAIR).await.unwrap();
    assert_eq!(auditor.lost(&server, QUEUE, &mark, &["x"]), None, "another process");
    let user = ["ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all", "-info"];
    assert_eq!(server.ask::<String>(&user).unwrap(), "OK");
    let app: DynBroker = RedisBroker::connect(&server.url().replace("redis://", "redis://app:pw@")).await.unwrap();
    let ids = put(&broker, QUEUE, 1).await;
    lose(&server, &ids[0]);
    assert_eq!(app.audit(QUEUE, REPAIR).await.unwrap(), [], "who cannot know leaves it alone");
    assert_eq!(broker.audit(QUEUE, REPAIR).await.unwrap().len(), 1);
}
