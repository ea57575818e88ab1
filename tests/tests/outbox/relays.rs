//! The relay: whatever dies, is lost or comes late, each committed job is in the broker once.

use std::time::Duration;

use queue_conformance::{conformance::Lane, failing::Fault, patience::wait};
use queue_core::{
    __private::SqliteBroker,
    Client, JobId,
    broker::{Durability, DynBroker},
    inspect::{GroupName, GroupOrder, GroupRule, RuleOf},
};
use queue_outbox::{Error, OutboxChange, OutboxRowId, Relay};
use queue_tests::{
    postgres::Postgres,
    server::{Kind, Server},
};

use crate::bed::{Bed, Database, job, places};

places! {
    lost_requests_and_answers_store_no_job_twice
    a_relay_that_dies_at_any_moment_loses_nothing
    several_relays_without_a_lease_send_no_job_twice
    the_jobs_of_a_group_are_sent_in_order
    a_full_group_holds_up_no_other
    a_job_that_is_refused_for_good_is_set_aside
    a_full_broker_buries_nothing
    a_restored_database_loses_no_new_job
    jobs_that_come_twice_after_a_restore_are_counted
    a_row_that_is_gone_in_flight_takes_no_other_along
    a_request_in_flight_at_another_broker_is_not_sent
    an_outbox_has_a_bound
    an_outbox_refuses_new_rows_while_old_ones_wait
    a_relay_reports_what_its_outbox_has
    a_worker_reports_the_outbox_of_its_relay_in_its_first_queue
    a_worker_runs_a_relay_and_ends_with_it
    people_see_and_repair_rows_without_the_broker
    rows_in_flight_are_released_and_not_dropped
    a_relay_that_cannot_get_a_name_leaves_the_lease_to_others
    a_row_of_a_newer_library_does_not_hold_back_what_was_sent
    a_row_that_is_damaged_in_flight_is_set_aside
    a_row_put_off_by_a_clock_that_was_ahead_is_sent
    a_large_backlog_is_sent_in_bounded_requests
    rows_stay_until_their_jobs_are_as_durable_as_the_client_asks
}

async fn lost_requests_and_answers_store_no_job_twice(bed: Bed) {
    let mut ids = Vec::new();
    for (fault, calls) in [(Fault::ReplyLost, 3), (Fault::RequestLost, 2), (Fault::ReplyLost, 1)] {
        ids.extend(bed.put(700).await);
        bed.broker.fail(fault, calls);
        bed.drain().await;
    }
    bed.has_exactly(ids).await;
}

/// Dropped where it stands, which is what a crash looks like to the database and to the broker. The
/// lease of the dead one is taken away, or the next would wait for its end.
async fn a_relay_that_dies_at_any_moment_loses_nothing(bed: Bed) {
    let mut ids = Vec::new();
    for round in 0..25_u64 {
        ids.extend(bed.put(40).await);
        let (relay, client) = (bed.database.relay(), bed.client.clone());
        let running = tokio::spawn(async move { relay.run(&client, std::future::pending::<()>()).await });
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..10 + 4 * round))).await;
        running.abort();
        let _ = running.await;
        bed.database.execute("UPDATE queue_relay SET holder = NULL, until = NULL").await;
    }
    bed.drain().await;
    bed.has_exactly(ids).await;
}

/// The lease only saves work: here nobody has it for long.
async fn several_relays_without_a_lease_send_no_job_twice(bed: Bed) {
    let relays: Vec<_> = (0..4)
        .map(|_| {
            let (relay, client) = (bed.database.relay(), bed.client.clone());
            tokio::spawn(async move { relay.run(&client, std::future::pending::<()>()).await })
        })
        .collect();
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.extend(bed.put(60).await);
        bed.database.execute("UPDATE queue_relay SET holder = NULL, until = NULL").await;
    }
    wait("the outbox to be empty")
        .until(async || {
            bed.database.execute("UPDATE queue_relay SET holder = NULL, until = NULL").await;
            bed.database.waiting().await == 0
        })
        .await;
    relays.iter().for_each(|relay| relay.abort());
    bed.has_exactly(ids).await;
}

async fn ordered(bed: &Bed, most: Option<u64>) {
    let of = RuleOf::Group(GroupName::new("a").unwrap());
    let change = |rule: &mut GroupRule| (rule.order, rule.max_size) = (Some(GroupOrder::Ordered), most);
    bed.client.inspector().set_group_rule("default", &of, change).await.expect("the rule is set");
}

/// Claims and acknowledges one job after the other.
async fn claimed(lane: &mut Lane, jobs: usize) -> Vec<JobId> {
    let mut claimed = Vec::new();
    for _ in 0..jobs {
        let Some(delivery) = lane.claim(1).await.pop() else { break };
        lane.ack(std::slice::from_ref(&delivery)).await;
        claimed.push(delivery.id);
    }
    claimed
}

async fn the_jobs_of_a_group_are_sent_in_order(bed: Bed) {
    ordered(&bed, None).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.extend(bed.database.put((0..300).map(|_| job().group("a")).collect(), true).await.unwrap());
    }
    bed.broker.fail(Fault::ReplyLost, 2);
    bed.drain().await;
    let broker: DynBroker = bed.broker.clone();
    let mut lane = Lane::on(&broker, "default").await;
    assert_eq!(claimed(&mut lane, 1000).await, ids);
}

/// 600 rows wait behind one that is refused for now: more than a request has.
async fn a_full_group_holds_up_no_other(bed: Bed) {
    ordered(&bed, Some(2)).await;
    let of_group = bed.database.put((0..602).map(|_| job().group("a")).collect(), true).await.unwrap();
    let others = bed.put(5).await;
    let running = tokio::spawn({
        let (relay, client) = (bed.database.relay(), bed.client.clone());
        async move { relay.run(&client, std::future::pending::<()>()).await }
    });
    let sent = async || bed.database.waiting().await == 600;
    wait("all but the rest of the group to be sent").on(bed.client.broker()).until(sent).await;
    assert_eq!(bed.database.number("SELECT count(*) FROM queue_outbox WHERE retry_at IS NOT NULL").await, 1);
    let broker: DynBroker = bed.broker.clone();
    let mut lane = Lane::on(&broker, "default").await;
    let mut first = claimed(&mut lane, 7).await;
    first.retain(|id| !others.contains(id));
    assert_eq!(first, of_group[..2]);
    // There is room again: what waits is sent, in order, as its time comes.
    bed.database.execute("DELETE FROM queue_outbox WHERE seq > (SELECT min(seq) + 3 FROM queue_outbox)").await;
    let mut rest = Vec::new();
    wait("the rest of the group")
        .on(&broker)
        .some(async || {
            rest.extend(claimed(&mut lane, 2).await);
            (rest.len() == 4).then_some(())
        })
        .await;
    assert_eq!(rest, of_group[2..6]);
    running.abort();
}

async fn a_job_that_is_refused_for_good_is_set_aside(bed: Bed) {
    let one = bed.database.put(vec![job().id("taken").header("a", "1")], true).await.unwrap();
    bed.drain().await;
    let other = queue_core::RawJob::new("mail.other", vec![0x80]).id("taken");
    let good = bed.database.put(vec![other.group("a"), job().group("a")], true).await.unwrap();
    bed.database.put(vec![job()], true).await.unwrap();
    let damaged = "UPDATE queue_outbox SET body = substr(body, 1, 2) WHERE seq = (SELECT max(seq) FROM queue_outbox)";
    bed.database.execute(damaged).await;
    let relayed = bed.drain().await;
    assert_eq!((relayed.sent, bed.database.refused().await), (1, 2), "one of the group behind it is sent");
    bed.has_exactly(vec![one[0].clone(), good[1].clone()]).await;
    let reasons = "SELECT count(*) FROM queue_outbox WHERE refused LIKE '%has the id `taken`%' OR refused LIKE 'cannot decode%'";
    assert_eq!(bed.database.number(reasons).await, 2);
    // They stay, and nobody looks at them again.
    let more = bed.put(1).await;
    bed.drain().await;
    assert_eq!(bed.database.refused().await, 2);
    assert!(bed.ready("default").await.contains(&more[0]));
}

async fn a_full_broker_buries_nothing(bed: Bed) {
    let ids = bed.put(10).await;
    bed.broker.fail(Fault::Full, u32::MAX);
    let running = tokio::spawn({
        let (relay, client) = (bed.database.relay(), bed.client.clone());
        async move { relay.run(&client, std::future::pending::<()>()).await }
    });
    wait("several tries").until(async || bed.broker.failed() > 3).await;
    assert_eq!((bed.database.waiting().await, bed.database.refused().await), (10, 0));
    assert_eq!(bed.database.number("SELECT count(*) FROM queue_outbox WHERE retry_at IS NOT NULL").await, 0);
    bed.broker.fail(Fault::Full, 0);
    wait("the outbox to be empty").on(bed.client.broker()).until(async || bed.database.waiting().await == 0).await;
    running.abort();
    bed.has_exactly(ids).await;
}

/// Sets the tables aside, and puts them back.
async fn backup(bed: &Bed) {
    bed.database
        .execute("CREATE TABLE old_outbox AS SELECT * FROM queue_outbox; CREATE TABLE old_relay AS SELECT * FROM queue_relay")
        .await;
}

async fn restore(bed: &Bed) {
    let overriding = if matches!(bed.database, Database::Postgres { .. }) { "OVERRIDING SYSTEM VALUE" } else { "" };
    let sql = format!(
        "DELETE FROM queue_outbox; INSERT INTO queue_outbox {overriding} SELECT * FROM old_outbox; \
         DELETE FROM queue_relay; INSERT INTO queue_relay SELECT * FROM old_relay"
    );
    bed.database.execute(&sql).await;
}

/// With the same number, the broker was sent other rows.
async fn a_restored_database_loses_no_new_job(bed: Bed) {
    let mut ids = bed.put(3).await;
    bed.drain().await;
    ids.extend(bed.put(20).await);
    backup(&bed).await;
    bed.drain().await;
    restore(&bed).await;
    // The next request has the number of the last one, and further rows.
    ids.extend(bed.put(5).await);
    let relayed = bed.drain().await;
    bed.has_exactly(ids.clone()).await;
    assert_eq!((relayed.sent, relayed.perhaps_twice), (25, 5), "rows that are there when the broker says so may have been sent before");
    // An older state once more, after which the numbers of the new name go on.
    restore(&bed).await;
    ids.extend(bed.put(5).await);
    bed.drain().await;
    bed.has_exactly(ids).await;
}

async fn jobs_that_come_twice_after_a_restore_are_counted(bed: Bed) {
    bed.put(3).await;
    bed.drain().await;
    bed.put(10).await;
    backup(&bed).await;
    bed.drain().await;
    let broker: DynBroker = bed.broker.clone();
    let mut lane = Lane::on(&broker, "default").await;
    assert_eq!(claimed(&mut lane, 20).await.len(), 13);
    restore(&bed).await;
    bed.put(1).await;
    let relayed = bed.drain().await;
    assert_eq!((relayed.sent, relayed.perhaps_twice), (11, 11));
    assert_eq!(bed.ready("default").await.len(), 11, "those that have ended without a record, and the new one");
}

/// Sends one job, and four more whose answer is lost, until the relay dies. Gives the ids of all.
async fn in_flight(bed: &Bed) -> Vec<JobId> {
    let mut ids = bed.put(1).await;
    bed.drain().await;
    ids.extend(bed.put(4).await);
    bed.broker.fail(Fault::ReplyLost, u32::MAX);
    let running = tokio::spawn({
        let (relay, client) = (bed.database.relay(), bed.client.clone());
        async move { relay.run(&client, std::future::pending::<()>()).await }
    });
    let is_in_flight = async || bed.database.number("SELECT count(*) FROM queue_relay WHERE seqs IS NOT NULL").await == 1;
    wait("a request that is in flight").until(async || bed.broker.failed() > 1 && is_in_flight().await).await;
    running.abort();
    let _ = running.await;
    assert!(is_in_flight().await);
    ids
}

/// By hand, or by a restore of one table.
async fn a_row_that_is_gone_in_flight_takes_no_other_along(bed: Bed) {
    let ids = in_flight(&bed).await;
    bed.database.execute("DELETE FROM queue_outbox WHERE seq = (SELECT min(seq) FROM queue_outbox)").await;
    bed.database.execute("UPDATE queue_relay SET holder = NULL, until = NULL").await;
    bed.broker.fail(Fault::ReplyLost, 0);
    let more = bed.put(1).await;
    bed.drain().await;
    bed.has_exactly([ids, more].concat()).await;
}

async fn a_request_in_flight_at_another_broker_is_not_sent(bed: Bed) {
    let ids = in_flight(&bed).await;
    bed.database.execute("UPDATE queue_relay SET holder = NULL, until = NULL").await;
    let folder = queue_conformance::folder::folder();
    let other: DynBroker = SqliteBroker::open(&format!("sqlite://{}", folder.path().join("other.db").display())).unwrap();
    let other = Client::with_broker(other);
    let started = bed.database.number("SELECT number FROM queue_relay").await;
    let mut looks = 0;
    // It looks several times, sends nothing, and keeps no lease.
    let several = wait("several looks").some(async || {
        looks += 1;
        (looks > 40).then_some(())
    });
    bed.database.relay().run(&other, several).await;
    assert_eq!(bed.database.number("SELECT count(*) FROM queue_relay WHERE holder IS NOT NULL").await, 0);
    assert_eq!((bed.database.waiting().await, bed.database.number("SELECT number FROM queue_relay").await), (4, started));
    assert_eq!(other.broker().stats("default").await.unwrap().jobs(), 0);
    bed.broker.fail(Fault::ReplyLost, 0);
    bed.drain().await;
    bed.has_exactly(ids).await;
}

async fn an_outbox_has_a_bound(bed: Bed) {
    bed.put(3).await;
    bed.broker.fail(Fault::RequestLost, u32::MAX);
    let running = tokio::spawn({
        let (relay, client) = (bed.database.relay().max_rows(2), bed.client.clone());
        async move { relay.run(&client, std::future::pending::<()>()).await }
    });
    wait("the queue to be full").until(async || matches!(bed.database.put(vec![job()], true).await, Err(Error::Full { .. }))).await;
    bed.database.put(vec![job().queue("other")], true).await.expect("only one queue is full");
    running.abort();
    let _ = running.await;
    bed.broker.fail(Fault::RequestLost, 0);
    bed.database.execute("UPDATE queue_relay SET holder = NULL, until = NULL").await;
    bed.drain().await;
    bed.drain().await;
    wait("the queue to have room")
        .until(async || {
            bed.drain().await;
            bed.database.put(vec![job()], true).await.is_ok()
        })
        .await;
}

/// The bound is off unless it is set: an outage of the broker refuses no row.
async fn an_outbox_refuses_new_rows_while_old_ones_wait(bed: Bed) {
    bed.put(1).await;
    bed.broker.fail(Fault::RequestLost, u32::MAX);
    let relay = |relay: Relay| {
        let client = bed.client.clone();
        tokio::spawn(async move { relay.run(&client, std::future::pending::<()>()).await })
    };
    let hour = match &bed.database {
        Database::Postgres { .. } => "created_at - interval '1 h'",
        Database::Sqlite { .. } => "created_at - 3600000",
    };
    bed.database.execute(&format!("UPDATE queue_outbox SET created_at = {hour}")).await;
    let is_full = match &bed.database {
        Database::Postgres { .. } => "SELECT count(*) FROM queue_database WHERE 'default' = ANY (full_queues)",
        Database::Sqlite { .. } => "SELECT count(*) FROM queue_database WHERE full_queues = ',default,'",
    };
    let running = relay(bed.database.relay());
    // Rows are counted before they are sent.
    wait("a relay that has tried to send").until(async || bed.broker.failed() > 1).await;
    assert_eq!(bed.database.number(is_full).await, 0, "it has no bound");
    running.abort();
    let _ = running.await;
    let running = relay(bed.database.relay().max_age(Duration::from_secs(60)));
    wait("the queue to be full").until(async || matches!(bed.database.put(vec![job()], true).await, Err(Error::Full { .. }))).await;
    bed.database.put(vec![job().queue("other")], true).await.expect("only one queue is full");
    let queues = bed.database.relay().queues().await.unwrap();
    assert_eq!(queues.iter().map(|queue| (queue.queue.as_str(), queue.full)).collect::<Vec<_>>(), [("default", true), ("other", false)]);
    running.abort();
    let _ = running.await;
    bed.broker.fail(Fault::RequestLost, 0);
    bed.database.execute("UPDATE queue_relay SET holder = NULL, until = NULL").await;
    bed.drain().await;
    wait("the queue to have room")
        .until(async || {
            bed.database.relay().max_age(Duration::from_secs(60)).run(&bed.client, std::future::ready(())).await;
            bed.drain().await;
            bed.database.put(vec![job()], true).await.is_ok()
        })
        .await;
}

/// Without a worker it reports in the first queue of the outbox. It says how old the figures are,
/// and who has the lease.
async fn a_relay_reports_what_its_outbox_has(bed: Bed) {
    let ids = bed.put(3).await;
    bed.database.put(vec![job().queue("other")], true).await.unwrap();
    bed.database.execute("UPDATE queue_outbox SET refused = 'why' WHERE seq = (SELECT min(seq) FROM queue_outbox)").await;
    let outbox = async |queue: &str| bed.client.inspector().stats(queue).await.ok().and_then(|stats| stats.outboxes.into_iter().next());
    assert_eq!(outbox("default").await, None);
    let reported = wait("a report").some(async || outbox("default").await);
    bed.database.relay().max_rows(3).max_age(Duration::from_secs(90)).run(&bed.client, reported).await;
    let first = outbox("default").await.unwrap();
    let figures: Vec<_> = first.queues.iter().map(|depth| (depth.queue.as_str(), depth.waiting, depth.refused, depth.full)).collect();
    assert_eq!(figures, [("default", 2, 1, false), ("other", 1, 0, false)]);
    assert_eq!((first.max_rows, first.max_age), (3, Some(Duration::from_secs(90))));
    assert!(first.oldest().is_some() && !first.is_stale() && first.problems().len() == 1, "{first:?}");
    assert!(!first.database.contains("://") && !first.database.is_empty(), "no password: {first:?}");
    assert_eq!(outbox("other").await, None, "an outbox is reported once");
    // The next relay replaces it. It has a request in flight, and so the lease.
    bed.database.execute("UPDATE queue_outbox SET refused = NULL").await;
    bed.drain().await;
    assert_eq!(bed.database.waiting().await, 0);
    let later = wait("the next report").some(async || outbox("default").await.filter(|outbox| outbox.waiting() == 0));
    bed.database.relay().run(&bed.client, later).await;
    let last = outbox("default").await.unwrap();
    assert_eq!((&last.id, last.waiting(), last.refused(), last.max_age), (&first.id, 0, 0, None));
    assert_eq!(bed.ready("default").await.len(), ids.len());
}

async fn a_worker_reports_the_outbox_of_its_relay_in_its_first_queue(bed: Bed) {
    bed.put(1).await;
    let outbox = async |queue: &str| bed.client.inspector().stats(queue).await.ok().and_then(|stats| stats.outboxes.into_iter().next());
    let worker = queue_worker::Worker::new(bed.client.clone()).register::<nothing>().queue("elsewhere");
    worker.outbox(bed.database.relay()).run(wait("a report").until(async || outbox("elsewhere").await.is_some())).await.unwrap();
    assert_eq!(outbox("default").await, None);
    assert_eq!(outbox("elsewhere").await.unwrap().queues.len(), 1);
}

#[queue_core::task(queue = "elsewhere")]
async fn nothing() {}

/// It serves every queue, not only those of its worker.
async fn a_worker_runs_a_relay_and_ends_with_it(bed: Bed) {
    let ids = bed.put(3).await;
    let until = wait("the outbox to be empty").on(bed.client.broker()).until(async || bed.database.waiting().await == 0);
    let worker = queue_worker::Worker::new(bed.client.clone()).register::<nothing>().queue("elsewhere");
    worker.outbox(bed.database.relay()).run(until).await.unwrap();
    assert_eq!(bed.database.number("SELECT count(*) FROM queue_relay WHERE holder IS NOT NULL OR seqs IS NOT NULL").await, 0);
    bed.has_exactly(ids).await;
    // Nobody sends any more.
    bed.put(1).await;
    assert_eq!(bed.database.waiting().await, 1);
}

async fn people_see_and_repair_rows_without_the_broker(bed: Bed) {
    bed.database.put(vec![job().id("taken").header("a", "1")], true).await.unwrap();
    bed.drain().await;
    let of_group = vec![job().group("a"), job().group("a"), job().queue("other")];
    let other = queue_core::RawJob::new("mail.other", vec![0x80]).id("taken");
    let ids = bed.database.put([vec![other], of_group].concat(), true).await.unwrap();
    bed.broker.fail(Fault::RequestLost, u32::MAX);
    let people = bed.database.relay();
    let changed = async |change| people.change("default", &change).await.unwrap();
    let listed: Vec<OutboxRowId> = people.rows("default", false, 10).await.unwrap().into_iter().map(|row| row.id).collect();
    let set = format!(
        "UPDATE queue_outbox SET refused = 'why' WHERE seq = {}; UPDATE queue_outbox SET retry_at = {} WHERE seq = {}",
        listed[0].seq,
        bed.database.soon(),
        listed[1].seq
    );
    bed.database.execute(&set).await;
    let queues = people.queues().await.unwrap();
    let figures: Vec<_> =
        queues.iter().map(|of| (of.queue.as_str(), of.waiting, of.refused, of.in_flight, of.leased, of.oldest.is_some())).collect();
    assert_eq!(figures, [("default", 2, 1, 0, false, true), ("other", 1, 0, 0, false, true)]);
    let rows = people.rows("default", false, 10).await.unwrap();
    let shown: Vec<_> = rows.iter().map(|row| (row.id.job(), row.task.as_deref(), row.put_off, row.refused.as_deref())).collect();
    let of = |at: usize, put_off, refused| (ids[at].to_string(), Some(if at == 0 { "mail.other" } else { "mail.send" }), put_off, refused);
    assert_eq!(shown, [of(0, false, Some("why")), of(1, true, None), of(2, false, None)]);
    for (refused, limit) in [(true, 10), (false, 1)] {
        let rows = people.rows("default", refused, limit).await.unwrap();
        assert_eq!(rows.into_iter().map(|row| row.id).collect::<Vec<_>>(), listed[..1]);
    }
    // Of another job.
    let mut stranger = listed[0].clone();
    stranger.seq = listed[1].seq;
    assert_eq!(changed(OutboxChange::Retry(vec![stranger.clone()])).await, []);
    assert_eq!(changed(OutboxChange::Retry(listed[1..].to_vec())).await, listed[1..2], "one waited");
    assert_eq!(changed(OutboxChange::Retry(Vec::new())).await, listed[..1]);
    // In PostgreSQL it has a new number.
    let row = people.rows("default", false, 10).await.unwrap().into_iter().map(|row| row.id).find(|row| row.job() == listed[0].job());
    let row = row.unwrap();
    assert_eq!(changed(OutboxChange::Drop(vec![row.clone(), stranger])).await, [row]);
    assert_eq!(changed(OutboxChange::Release).await, [], "nothing is in flight");
    bed.broker.fail(Fault::RequestLost, 0);
    bed.drain().await;
    assert_eq!(bed.ready("default").await.len(), 3);
}

/// The broker of the request does not come back.
async fn rows_in_flight_are_released_and_not_dropped(bed: Bed) {
    let ids = in_flight(&bed).await;
    bed.database.execute("UPDATE queue_relay SET broker = 'redis://gone'").await;
    let people = bed.database.relay();
    let queue = people.queues().await.unwrap().remove(0);
    assert_eq!((queue.in_flight, queue.broker.as_deref(), queue.leased), (4, Some("redis://gone"), true));
    let process = format!(" pid {}", std::process::id());
    assert!(queue.holder.as_deref().is_some_and(|holder| holder.ends_with(&process)), "{queue:?}");
    let listed: Vec<OutboxRowId> = people.rows("default", false, 10).await.unwrap().into_iter().map(|row| row.id).collect();
    let refused = people.change("default", &OutboxChange::Drop(listed[..1].to_vec())).await;
    assert!(matches!(&refused, Err(Error::Invalid { field: "row", .. })), "{refused:?}");
    assert_eq!(bed.database.waiting().await, 4);
    assert_eq!(people.change("default", &OutboxChange::Release).await.unwrap(), listed);
    bed.broker.fail(Fault::ReplyLost, 0);
    let relayed = bed.drain().await;
    assert_eq!((relayed.sent, relayed.perhaps_twice), (4, 0), "this broker has them");
    bed.has_exactly(ids).await;
}

async fn a_relay_that_cannot_get_a_name_leaves_the_lease_to_others(bed: Bed) {
    let ids = bed.put(3).await;
    bed.broker.fail(Fault::RequestLost, u32::MAX);
    let running = tokio::spawn({
        let (relay, client) = (bed.database.relay(), bed.client.clone());
        async move { relay.run(&client, std::future::pending::<()>()).await }
    });
    wait("several tries").until(async || bed.broker.failed() > 3).await;
    assert_eq!(bed.database.number("SELECT count(*) FROM queue_relay WHERE holder IS NOT NULL").await, 0);
    running.abort();
    bed.broker.fail(Fault::RequestLost, 0);
    bed.drain().await;
    bed.has_exactly(ids).await;
}

async fn a_row_of_a_newer_library_does_not_hold_back_what_was_sent(bed: Bed) {
    let ids = bed.put(3).await;
    bed.put(1).await;
    let newer = match bed.database {
        Database::Postgres { .. } => r"'\x02'::bytea",
        Database::Sqlite { .. } => "x'02'",
    };
    let of_last = "WHERE seq = (SELECT max(seq) FROM queue_outbox)";
    bed.database
        .execute(&format!("UPDATE queue_outbox SET body = CAST({newer} || substr(body, 2) AS {}) {of_last}", bed.database.bytes()))
        .await;
    let relay = bed.database.relay();
    let sent = async || bed.database.waiting().await == 1;
    relay.run(&bed.client, wait("all but the newer row to be sent").on(bed.client.broker()).until(sent)).await;
    bed.has_exactly(ids).await;
    assert_eq!(bed.database.refused().await, 0, "it waits for a newer relay");
    assert_eq!(bed.database.number("SELECT count(*) FROM queue_relay WHERE holder IS NOT NULL OR seqs IS NOT NULL").await, 0);
}

async fn a_row_that_is_damaged_in_flight_is_set_aside(bed: Bed) {
    let ids = in_flight(&bed).await;
    bed.database.execute("UPDATE queue_outbox SET body = substr(body, 1, 2) WHERE seq = (SELECT min(seq) FROM queue_outbox)").await;
    bed.database.execute("UPDATE queue_relay SET holder = NULL, until = NULL").await;
    bed.broker.fail(Fault::ReplyLost, 0);
    let more = bed.put(1).await;
    bed.drain().await;
    assert_eq!(bed.database.refused().await, 1);
    bed.has_exactly([ids, more].concat()).await;
}

/// Its group would wait until the clock is there again.
async fn a_row_put_off_by_a_clock_that_was_ahead_is_sent(bed: Bed) {
    let ids = bed.database.put((0..3).map(|_| job().group("a")).collect(), true).await.unwrap();
    let in_an_hour = match bed.database {
        Database::Postgres { .. } => "now() + interval '1 h'",
        Database::Sqlite { .. } => "created_at + 3600000",
    };
    bed.database.execute(&format!("UPDATE queue_outbox SET retry_at = {in_an_hour} WHERE seq = (SELECT min(seq) FROM queue_outbox)")).await;
    bed.drain().await;
    bed.has_exactly(ids).await;
}

/// By rows, and by bytes.
async fn a_large_backlog_is_sent_in_bounded_requests(bed: Bed) {
    let mut ids = bed.put(2600).await;
    let large = || {
        let mut payload = vec![0x81, 0xa1, b'x', 0xc6];
        payload.extend(200_000_u32.to_be_bytes());
        payload.resize(payload.len() + 200_000, 7);
        queue_core::RawJob::new("mail.send", payload)
    };
    ids.extend(bed.database.put((0..12).map(|_| large()).collect(), true).await.unwrap());
    bed.drain().await;
    bed.has_exactly(ids).await;
}

/// No broker here has a replica.
async fn rows_stay_until_their_jobs_are_as_durable_as_the_client_asks(bed: Bed) {
    let ids = bed.put(3).await;
    let asks = bed.client.with_replicas(1);
    let stored = wait("the jobs to be stored").on(bed.client.broker()).until(async || bed.ready("default").await.len() == 3);
    assert_eq!(bed.database.relay().run(&asks, stored).await.sent, 0);
    assert_eq!(bed.database.waiting().await, 3);
    bed.database.drain(&bed.client.with_durability(Durability::Volatile)).await;
    bed.has_exactly(ids).await;
}

mod on_postgres_alone {
    use super::*;

    fn run(database: &Database, client: &Client) -> tokio::task::JoinHandle<queue_outbox::Relayed> {
        let (relay, client) = (database.relay(), client.clone());
        tokio::spawn(async move { relay.run(&client, std::future::pending::<()>()).await })
    }

    async fn of(bed: &Bed) -> tokio_postgres::Client {
        let Database::Postgres { url } = &bed.database else { unreachable!("it is in PostgreSQL") };
        queue_tests::postgres::connect(url).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn on_redis_an_older_worker_beside_a_release_with_a_new_feature() {
        jobs_with_a_feature_that_a_worker_does_not_know_hold_up_no_other(Database::postgres().await, |client| client).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn on_redis_an_older_worker_and_a_client_that_asks_for_durability() {
        let asks = |client: Client| client.with_durability(Durability::Volatile);
        jobs_with_a_feature_that_a_worker_does_not_know_hold_up_no_other(Database::postgres().await, asks).await;
    }

    /// Somebody holds the row of one queue, and the transactions about it fail.
    #[tokio::test(flavor = "multi_thread")]
    async fn on_redis_trouble_with_one_queue_holds_up_no_other() {
        let bed = Bed::new(crate::bed::Place::PostgresRedis).await;
        let mut client = of(&bed).await;
        bed.database.execute("INSERT INTO queue_relay (queue) VALUES ('a')").await;
        let locked = client.transaction().await.unwrap();
        locked.execute("UPDATE queue_relay SET number = 0 WHERE queue = 'a'", &[]).await.unwrap();
        bed.database.put(vec![job().queue("a"), job().queue("b")], true).await.unwrap();
        let running = run(&bed.database, &bed.client);
        wait("that of the other queue to be sent").until(async || bed.database.waiting().await == 1).await;
        drop(locked);
        wait("the outbox to be empty").until(async || bed.database.waiting().await == 0).await;
        running.abort();
    }

    /// The other queue is not served before this one.
    #[tokio::test(flavor = "multi_thread")]
    async fn on_redis_a_locked_queue_delays_the_others_by_less_than_a_lock_timeout() {
        let bed = Bed::new(crate::bed::Place::PostgresRedis).await;
        let mut client = of(&bed).await;
        bed.database.execute("INSERT INTO queue_relay (queue) VALUES ('a')").await;
        let locked = client.transaction().await.unwrap();
        locked.execute("UPDATE queue_relay SET number = 0 WHERE queue = 'a'", &[]).await.unwrap();
        bed.database.put(vec![job().queue("a"), job().queue("b")], true).await.unwrap();
        let began = std::time::Instant::now();
        let running = run(&bed.database, &bed.client);
        wait("that of the other queue to be sent").until(async || bed.database.waiting().await == 1).await;
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        running.abort();
    }

    /// Its role may do everything but mark a queue as full.
    #[tokio::test(flavor = "multi_thread")]
    async fn on_redis_rows_that_cannot_be_counted_are_sent() {
        let bed = Bed::new(crate::bed::Place::PostgresRedis).await;
        let role = format!("relay_{:016x}", fastrand::u64(..));
        let grants = format!(
            "CREATE ROLE {role} LOGIN; GRANT SELECT ON queue_database TO {role}; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON queue_outbox, queue_relay TO {role}"
        );
        bed.database.execute(&grants).await;
        let Database::Postgres { url } = &bed.database else { unreachable!("it is in PostgreSQL") };
        let url = url.replace("//queue@", &format!("//{role}@"));
        let ids = bed.put(2).await;
        let until = wait("the outbox to be empty").until(async || bed.database.waiting().await == 0);
        queue_outbox::Relay::postgres(&url).unwrap().run(&bed.client, until).await;
        bed.has_exactly(ids).await;
    }

    /// It would send some rows, and believe that these are all.
    #[tokio::test(flavor = "multi_thread")]
    async fn on_redis_rows_that_row_level_security_hides_are_an_error() {
        let bed = Bed::new(crate::bed::Place::PostgresRedis).await;
        let role = format!("relay_{:016x}", fastrand::u64(..));
        let hidden = format!(
            "CREATE ROLE {role} LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON queue_database, queue_outbox, queue_relay TO {role}; \
             ALTER TABLE queue_outbox ENABLE ROW LEVEL SECURITY; CREATE POLICY visible ON queue_outbox USING (queue = 'default')"
        );
        bed.put(2).await;
        bed.database.execute(&hidden).await;
        let Database::Postgres { url } = &bed.database else { unreachable!("it is in PostgreSQL") };
        let relay = queue_outbox::Relay::postgres(&url.replace("//queue@", &format!("//{role}@"))).unwrap();
        let refused = relay.queues().await.unwrap_err();
        assert!(matches!(&refused, Error::RowSecurity { problem } if problem.contains("queue_outbox")), "{refused:?}");
        assert!(refused.to_string().contains("own the tables"), "{refused}");
        bed.database.execute(&format!("ALTER TABLE queue_outbox OWNER TO {role}")).await;
        let until = wait("the outbox to be empty").until(async || bed.database.waiting().await == 0);
        assert_eq!(relay.run(&bed.client, until).await.sent, 2);
    }

    /// The first host is read-only, as a standby is.
    #[tokio::test(flavor = "multi_thread")]
    async fn on_redis_a_relay_finds_the_primary_among_several_hosts() {
        let bed = Bed::new(crate::bed::Place::PostgresRedis).await;
        let Database::Postgres { url } = &bed.database else { unreachable!("it is in PostgreSQL") };
        let (server, name) = url.rsplit_once('/').unwrap();
        let other = Postgres::start();
        let read_only = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
        for sql in [format!("CREATE DATABASE {name}"), read_only] {
            queue_tests::postgres::connect(&other.url()).await.batch_execute(&sql).await.unwrap();
        }
        let url = other.url();
        let (standby, _) = url.rsplit_once('/').unwrap();
        let (_, primary) = server.split_once('@').unwrap();
        let relay = queue_outbox::Relay::postgres(&format!("{standby},{primary}/{name}?target_session_attrs=read-write")).unwrap();
        let ids = bed.put(2).await;
        relay.run(&bed.client, wait("the outbox to be empty").until(async || bed.database.waiting().await == 0)).await;
        bed.has_exactly(ids).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_command_line_reaches_an_outbox() {
        let Database::Postgres { url } = Database::postgres().await else { unreachable!("it is in PostgreSQL") };
        Database::Postgres { url: url.clone() }.put(vec![job().queue("mail")], true).await.unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_shop_worker"));
        command.args(["outbox", "list", "--json", "--database", &url]).env("QUEUE_URL", "redis://127.0.0.1:1");
        let listed = tokio::task::spawn_blocking(move || queue_tests::patience::output(&mut command).unwrap()).await.unwrap();
        let queues: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("it prints JSON");
        assert_eq!((&queues["queues"][0]["queue"], &queues["queues"][0]["waiting"]), (&"mail".into(), &1.into()));
    }

    /// The relay idles, and would look again after a second at the latest: it is told sooner.
    #[tokio::test(flavor = "multi_thread")]
    async fn on_redis_a_relay_of_another_process_is_notified_of_a_commit() {
        let bed = Bed::new(crate::bed::Place::PostgresRedis).await;
        let running = run(&bed.database, &bed.client);
        let mut client = of(&bed).await;
        let outbox = queue_outbox::Outbox::postgres(&client).await.unwrap();
        let mut times = Vec::new();
        for _ in 0..5 {
            // Longer than it looks every 20 ms.
            tokio::time::sleep(Duration::from_millis(1100)).await;
            let tx = client.transaction().await.unwrap();
            queue_outbox::postgres::EnqueueIn::enqueue_in(job(), &outbox, &tx).await.unwrap();
            tx.commit().await.unwrap();
            let began = std::time::Instant::now();
            // Not by `wake`, which is for this process.
            client.batch_execute(outbox.notify_sql().unwrap()).await.unwrap();
            wait("it to be sent").every(Duration::from_millis(1)).until(async || bed.database.waiting().await == 0).await;
            times.push(began.elapsed());
        }
        running.abort();
        times.sort();
        // Each alone would take 0.5 s in the middle.
        eprintln!("from commit to the deletion of the row: {times:?}");
        assert!(times[0] < Duration::from_millis(700), "{times:?}");
    }

    /// The database dies between any two steps.
    #[tokio::test(flavor = "multi_thread")]
    async fn on_redis_a_database_that_is_killed_loses_no_job() {
        let mut server = Postgres::start();
        let url = server.database().await;
        let client = queue_tests::postgres::connect(&url).await;
        client.batch_execute(&queue_outbox::Dialect::Postgres.migration("public").unwrap()).await.unwrap();
        let database = Database::Postgres { url };
        let redis = Server::start(Kind::Redis);
        let broker: DynBroker = redis.broker().await;
        let client = Client::with_broker(broker);
        let running = tokio::spawn({
            let (relay, client) = (database.relay(), client.clone());
            async move { relay.run(&client, std::future::pending::<()>()).await }
        });
        let mut ids = Vec::new();
        for _ in 0..4 {
            ids.extend(database.put((0..900).map(|_| job()).collect(), true).await.unwrap());
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..40))).await;
            server.kill();
            server.restart();
        }
        wait("the outbox to be empty").on(client.broker()).until(async || database.waiting().await == 0).await;
        running.abort();
        let mut ready = Vec::new();
        let mut walk = client.inspector().walk("default", queue_core::JobState::Ready);
        while let Some(jobs) = walk.next().await.unwrap() {
            ready.extend(jobs.into_iter().map(|job| job.address.id));
        }
        ready.sort();
        ids.sort();
        assert!(ready == ids, "{} jobs of {}", ready.len(), ids.len());
    }
}

/// A lane of an older library would serve no group. Only the jobs of groups wait for its end.
async fn jobs_with_a_feature_that_a_worker_does_not_know_hold_up_no_other(database: Database, asks: impl Fn(Client) -> Client) {
    let server = Server::start(Kind::Redis);
    let broker: DynBroker = server.broker().await;
    let client = asks(Client::with_broker(broker.clone()));
    let mut lane = Lane::on(&broker, "default").await;
    let knows = "queue:{default}:knows";
    server.command(&["HSET", knows, lane.name.as_str(), "lfkpcztahus"]);
    let jobs = vec![job().id("a"), job().id("b").group("a"), job().id("c").group("a"), job(), job().unique_key("k"), job().group("b")];
    let ids = database.put(jobs, true).await.unwrap();
    let running = tokio::spawn({
        let (relay, client) = (database.relay(), client.clone());
        async move { relay.run(&client, std::future::pending::<()>()).await }
    });
    wait("all but those of groups to be sent").on(&broker).until(async || database.waiting().await == 3).await;
    let put_off = "SELECT count(*) FROM queue_outbox WHERE retry_at IS NOT NULL";
    wait("the answer to be noted").until(async || database.number(put_off).await == 2).await;
    assert_eq!(database.refused().await, 0);
    let others = claimed(&mut lane, 10).await;
    assert_eq!(others, [ids[0].clone(), ids[3].clone(), ids[4].clone()]);
    // It is replaced by one of this library.
    server.command(&["HDEL", knows, lane.name.as_str()]);
    wait("the others to be sent").on(&broker).until(async || database.waiting().await == 0).await;
    running.abort();
    let mut lane = Lane::on(&broker, "default").await;
    let of_groups = claimed(&mut lane, 10).await;
    let place = |id: &JobId| of_groups.iter().position(|other| other == id).expect("it was sent");
    assert!(of_groups.len() == 3 && place(&ids[1]) < place(&ids[2]), "{of_groups:?}");
}

mod in_sqlite_and_on_redis_alone {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn an_older_worker_beside_a_release_with_a_new_feature() {
        jobs_with_a_feature_that_a_worker_does_not_know_hold_up_no_other(Database::sqlite(), |client| client).await;
    }

    /// Its snapshot keeps the log of the file from being emptied.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_reader_that_stands_holds_up_no_job() {
        let bed = Bed::new(crate::bed::Place::SqliteRedis).await;
        let Database::Sqlite { path, .. } = &bed.database else { unreachable!("it is a file") };
        let reader = crate::bed::open(path);
        let sees = || reader.query_row("SELECT count(*) FROM queue_outbox", (), |row| row.get::<_, i64>(0)).unwrap();
        reader.execute_batch("BEGIN").unwrap();
        assert_eq!(sees(), 0);
        let (running, mut ids) = (bed.run_relay(), Vec::new());
        for _ in 0..30 {
            ids.extend(bed.put(600).await);
            wait("the rows to be sent").until(async || bed.database.waiting().await == 0).await;
        }
        assert_eq!(sees(), 0, "it has its snapshot");
        let log = || std::fs::metadata(path.with_extension("db-wal")).unwrap().len();
        assert!(log() > 5_000_000, "{} bytes", log());
        reader.execute_batch("COMMIT").unwrap();
        running.abort();
        let _ = running.await;
        bed.database.execute("PRAGMA wal_checkpoint(TRUNCATE)").await;
        assert_eq!(log(), 0);
        bed.has_exactly(ids).await;
    }

    /// By a restore, for example: the relay still has the file open that was there before.
    #[cfg(unix)]
    #[tokio::test(flavor = "multi_thread")]
    async fn a_file_that_is_replaced_is_the_one_whose_jobs_are_sent() {
        let bed = Bed::new(crate::bed::Place::SqliteRedis).await;
        let mut ids = bed.put(2).await;
        let running = tokio::spawn({
            let (relay, client) = (bed.database.relay(), bed.client.clone());
            async move { relay.run(&client, std::future::pending::<()>()).await }
        });
        wait("the outbox to be empty").until(async || bed.database.waiting().await == 0).await;
        let other = Database::sqlite();
        other.execute("PRAGMA journal_mode = DELETE").await;
        ids.extend(other.put(vec![job(), job(), job()], true).await.unwrap());
        let (Database::Sqlite { path: from, .. }, Database::Sqlite { path: to, .. }) = (&other, &bed.database) else {
            unreachable!("they are files")
        };
        for log in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{log}", to.display()));
        }
        std::fs::rename(from, to).unwrap();
        wait("those of the other file to be sent").until(async || bed.database.waiting().await == 0).await;
        running.abort();
        bed.has_exactly(ids).await;
    }

    /// The broker is killed, and away for a while: rows wait, and none is buried.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_broker_that_is_away_gets_every_job_when_it_is_back() {
        let (database, mut redis) = (Database::sqlite(), Server::durable(Kind::Redis));
        let broker: DynBroker = redis.broker().await;
        let client = Client::with_broker(broker);
        let running = tokio::spawn({
            let (relay, client) = (database.relay(), client.clone());
            async move { relay.run(&client, std::future::pending::<()>()).await }
        });
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.extend(database.put((0..700).map(|_| job()).collect(), true).await.unwrap());
            redis.kill();
            ids.extend(database.put((0..30).map(|_| job()).collect(), true).await.unwrap());
            redis.restart();
        }
        wait("the outbox to be empty").on(client.broker()).until(async || database.waiting().await == 0).await;
        assert_eq!(database.refused().await, 0);
        running.abort();
        let mut ready = Vec::new();
        let mut walk = client.inspector().walk("default", queue_core::JobState::Ready);
        while let Some(jobs) = walk.next().await.unwrap() {
            ready.extend(jobs.into_iter().map(|job| job.address.id));
        }
        ready.sort();
        ids.sort();
        assert!(ready == ids, "{} jobs of {}", ready.len(), ids.len());
    }
}
