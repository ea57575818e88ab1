//! A database or a broker that is set back, replaced or has a wrong clock. No new row is lost and
//! no row is taken for another one; what may come twice is counted.

use std::time::Duration;

use queue_conformance::{
    failing::{FailingBroker, Fault},
    patience::wait,
};
use queue_core::{
    JobId,
    broker::SweepLimits,
    inspect::{GroupName, GroupOrder, GroupRule, RuleOf},
};
use queue_outbox::{OutboxChange, Relayed};
use queue_tests::postgres::Postgres;

use crate::bed::{Bed, Database, Place, job, places};

places! {
    a_broker_that_was_away_for_longer_than_it_keeps_its_producers
    a_relay_that_hangs_while_others_send_changes_nothing
    a_relay_that_hangs_while_another_sends_its_request_changes_nothing
    a_relay_without_a_route_to_the_broker_leaves_the_lease_to_one_that_has_it
    numbers_that_begin_again_while_rows_wait
    a_number_that_comes_again_puts_no_other_row_off
    a_number_that_comes_again_lets_people_change_no_other_row
    a_number_that_comes_again_deletes_no_other_row
    rows_of_transactions_that_commit_late_are_sent_in_order
    a_lease_of_a_clock_that_was_ahead_is_free
}

/// Puts rows, the answer to whose request is lost, and kills the relay.
async fn in_flight(bed: &Bed, jobs: usize) -> Vec<JobId> {
    let ids = bed.put(jobs).await;
    bed.broker.fail(Fault::ReplyLost, u32::MAX);
    let (failed, relay) = (bed.broker.failed(), bed.run_relay());
    let is_in_flight = async || bed.database.number("SELECT count(*) FROM queue_relay WHERE seqs IS NOT NULL").await == 1;
    wait("a request that is in flight").until(async || bed.broker.failed() > failed + 1 && is_in_flight().await).await;
    relay.abort();
    let _ = relay.await;
    bed.broker.fail(Fault::ReplyLost, 0);
    ids
}

async fn free(bed: &Bed) {
    bed.database.execute("UPDATE queue_relay SET holder = NULL, until = NULL").await;
}

fn figures(relayed: Relayed) -> (u64, u64, u64) {
    (relayed.sent, relayed.refused, relayed.perhaps_twice)
}

/// It has the jobs of the request, of which some have ended without a record, and knows nobody who
/// sends.
async fn a_broker_that_was_away_for_longer_than_it_keeps_its_producers(bed: Bed) {
    bed.put(2).await;
    bed.drain().await;
    let ran = bed.runs(2).await;
    assert_eq!(ran.len(), 2);
    let ids = in_flight(&bed, 6).await;
    let ran = bed.runs(2).await;
    assert_eq!(ran, ids[..2]);
    let limits = SweepLimits { producers: Duration::ZERO, ..SweepLimits::default() };
    let sweep = async || bed.client.broker().sweep("default", &limits).await.expect("it sweeps").producers;
    wait("its producers to be forgotten").until(async || sweep().await > 0).await;
    free(&bed).await;
    let relayed = bed.drain().await;
    assert_eq!(figures(relayed), (6, 0, 2), "those that have ended came twice, and are counted");
    bed.has_exactly(ids).await;
    let more = bed.put(3).await;
    assert_eq!(figures(bed.drain().await), (3, 0, 0), "new rows did not come twice");
    assert_eq!(bed.runs(10).await.len(), 6 + more.len());
}

/// The broker has had further requests, and the answer is that this one is old.
async fn a_relay_that_hangs_while_others_send_changes_nothing(bed: Bed) {
    a_relay_that_hangs(bed, 3).await;
}

/// The broker gives the same answer again, and the relay ends a request that another one has ended.
async fn a_relay_that_hangs_while_another_sends_its_request_changes_nothing(bed: Bed) {
    a_relay_that_hangs(bed, 0).await;
}

/// Between its take and its answer, for so long that another relay has sent this request and
/// `further` rows.
async fn a_relay_that_hangs(bed: Bed, further: usize) {
    let mut ids = bed.put(4).await;
    bed.broker.enqueues.close();
    let hangs = bed.run_relay();
    wait("a request that is in flight")
        .until(async || bed.database.number("SELECT count(*) FROM queue_relay WHERE seqs IS NOT NULL").await == 1)
        .await;
    free(&bed).await;
    // Another one, which has its own connection to the broker.
    let other = queue_core::Client::with_broker(bed.broker.inner());
    assert_eq!(bed.database.drain(&other).await.sent, 4);
    let ran = bed.runs(4).await;
    assert_eq!(ran, ids);
    ids = bed.put(further).await;
    bed.database.drain(&other).await;
    // A third one has a request in flight when the first one gets its answer.
    let third = FailingBroker::new(bed.broker.inner());
    third.enqueues.close();
    ids.extend(bed.put(1).await);
    let (relay, client) = (bed.database.relay(), queue_core::Client::with_broker(third.clone()));
    let sends = tokio::spawn(async move { relay.run(&client, std::future::pending::<()>()).await });
    let request = async || bed.database.number("SELECT coalesce(max(number), 0) FROM queue_relay WHERE seqs IS NOT NULL").await;
    wait("the request of the third relay").until(async || request().await > 0).await;
    let number = request().await;
    bed.database.put(vec![job().queue("other")], true).await.unwrap();
    bed.broker.enqueues.open();
    wait("the first relay to send what it can").until(async || bed.database.waiting().await == 1).await;
    assert_eq!(request().await, number, "the request in flight is that of the third relay");
    third.enqueues.open();
    wait("the row that is left").until(async || bed.database.waiting().await == 0).await;
    hangs.abort();
    sends.abort();
    bed.has_exactly(ids).await;
}

/// Its lease is not renewed by what it tries.
async fn a_relay_without_a_route_to_the_broker_leaves_the_lease_to_one_that_has_it(bed: Bed) {
    let mut ids = bed.put(2).await;
    bed.drain().await;
    bed.broker.fail(Fault::RequestLost, u32::MAX);
    ids.extend(bed.put(4).await);
    let without = bed.run_relay();
    let until = match bed.database {
        Database::Postgres { .. } => "SELECT (extract(epoch FROM until) * 1000)::int8 FROM queue_relay",
        Database::Sqlite { .. } => "SELECT until FROM queue_relay",
    };
    wait("a request that it cannot send").until(async || bed.broker.failed() > 2).await;
    let ends = bed.database.number(until).await;
    let failed = bed.broker.failed();
    wait("it to try again and again").until(async || bed.broker.failed() > failed + 4).await;
    assert_eq!(bed.database.number(until).await, ends, "it has renewed its lease");
    // It loses its request and takes it again, because a table is away for a moment.
    bed.database.count_takes().await;
    let (database, mut away) = (&bed.database, false);
    let taken = wait("it to take its request again").until(|| {
        away = !away;
        let is_away = away;
        async move {
            let rename = if is_away { "ALTER TABLE queue_outbox RENAME TO away" } else { "ALTER TABLE away RENAME TO queue_outbox" };
            database.execute(rename).await;
            !is_away && database.number("SELECT count(*) FROM takes").await > 0
        }
    });
    taken.await;
    assert_eq!(bed.database.number(until).await, ends, "it has renewed its lease with the same request");
    // The time of the lease passes.
    let passes = match bed.database {
        Database::Postgres { .. } => "UPDATE queue_relay SET until = until - interval '30 s'",
        Database::Sqlite { .. } => "UPDATE queue_relay SET until = until - 30000",
    };
    bed.database.execute(passes).await;
    let other = queue_core::Client::with_broker(bed.broker.inner());
    let relayed = bed.database.drain(&other).await;
    assert_eq!(figures(relayed), (4, 0, 0));
    without.abort();
    bed.broker.fail(Fault::RequestLost, 0);
    bed.has_exactly(ids).await;
}

impl Database {
    /// The table `takes` gets a row whenever a relay changes its own.
    pub(crate) async fn count_takes(&self) {
        let sql = match self {
            Database::Postgres { .. } => {
                "CREATE TABLE takes (n INT); CREATE FUNCTION taken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO takes VALUES (1); RETURN NULL; END $$; \
                 CREATE TRIGGER taken AFTER UPDATE ON queue_relay FOR EACH ROW EXECUTE FUNCTION taken()"
            }
            Database::Sqlite { .. } => {
                "CREATE TABLE takes (n INT); CREATE TRIGGER taken AFTER UPDATE ON queue_relay BEGIN INSERT INTO takes VALUES (1); END"
            }
        };
        self.execute(sql).await;
    }

    /// As in a logical replica that was promoted.
    async fn numbers_begin_again(&self) {
        let sql = match self {
            Database::Postgres { .. } => "ALTER TABLE queue_outbox ALTER COLUMN seq RESTART",
            Database::Sqlite { .. } => "DELETE FROM sqlite_sequence WHERE name = 'queue_outbox'",
        };
        self.execute(sql).await;
    }
}

/// While rows wait, in flight or not, of which some have the numbers that come again.
async fn numbers_that_begin_again_while_rows_wait(bed: Bed) {
    let mut ids = bed.put(3).await;
    bed.database.numbers_begin_again().await;
    ids.extend(bed.put(3).await);
    assert_eq!(bed.drain().await.sent, 6);
    bed.database.numbers_begin_again().await;
    ids.extend(in_flight(&bed, 4).await);
    bed.database.numbers_begin_again().await;
    ids.extend(bed.put(6).await);
    free(&bed).await;
    assert_eq!(figures(bed.drain().await).0, 10);
    bed.has_exactly(ids).await;
}

/// The row of a full group is put off, and not the one that has got the same number.
async fn a_number_that_comes_again_puts_no_other_row_off(bed: Bed) {
    let of = RuleOf::Group(GroupName::new("full").unwrap());
    let change = |rule: &mut GroupRule| (rule.order, rule.max_size) = (Some(GroupOrder::Ordered), Some(1));
    bed.client.inspector().set_group_rule("default", &of, change).await.expect("the rule is set");
    bed.database.put(vec![job().group("full")], true).await.unwrap();
    bed.drain().await;
    bed.database.numbers_begin_again().await;
    bed.database.put(vec![job().group("full")], true).await.unwrap();
    bed.broker.enqueues.close();
    let relay = bed.run_relay();
    wait("a request that is in flight")
        .until(async || bed.database.number("SELECT count(*) FROM queue_relay WHERE seqs IS NOT NULL").await == 1)
        .await;
    bed.database.numbers_begin_again().await;
    let other = bed.database.put(vec![job().group("other")], true).await.unwrap();
    bed.broker.enqueues.open();
    wait("the row of the full group to be put off")
        .until(async || bed.database.number("SELECT count(*) FROM queue_outbox WHERE retry_at IS NOT NULL").await > 0)
        .await;
    let put_off = bed.database.number("SELECT count(*) FROM queue_outbox WHERE retry_at IS NOT NULL").await;
    assert_eq!(put_off, 1);
    wait("the other row to be sent").until(async || bed.ready("default").await.contains(&other[0])).await;
    relay.abort();
}

/// They change the rows that they have seen in a list, and not those that have got their numbers
/// since.
async fn a_number_that_comes_again_lets_people_change_no_other_row(bed: Bed) {
    bed.put(2).await;
    let people = bed.database.relay();
    let list = async || people.rows("default", false, 10).await.unwrap().into_iter().map(|row| row.id).collect::<Vec<_>>();
    let seen = list().await;
    bed.drain().await;
    bed.database.numbers_begin_again().await;
    bed.put(2).await;
    bed.database.execute("UPDATE queue_outbox SET refused = 'why'").await;
    let there = list().await;
    assert_eq!(there.iter().map(|row| row.seq).collect::<Vec<_>>(), seen.iter().map(|row| row.seq).collect::<Vec<_>>());
    for change in [OutboxChange::Retry(seen.clone()), OutboxChange::Drop(seen)] {
        assert_eq!(people.change("default", &change).await.unwrap(), [], "{change:?}");
    }
    assert_eq!(bed.database.refused().await, 2);
    assert_eq!(people.change("default", &OutboxChange::Retry(there[..1].to_vec())).await.unwrap(), there[..1]);
    // In PostgreSQL, the row that is sent again has a new number.
    let there = list().await;
    assert_eq!((there.len(), people.change("default", &OutboxChange::Drop(there.clone())).await.unwrap()), (2, there));
}

/// A row is sent, and dropped by hand before its request is answered. Then its number is that of a
/// row of another queue with the same given id, and that of another row of its queue.
async fn a_number_that_comes_again_deletes_no_other_row(bed: Bed) {
    let mut ids = bed.database.put(vec![job().id("twice")], true).await.unwrap();
    bed.broker.enqueues.close();
    let relay = bed.run_relay();
    wait("a request that is in flight")
        .until(async || bed.database.number("SELECT count(*) FROM queue_relay WHERE seqs IS NOT NULL").await == 1)
        .await;
    bed.database.execute("DELETE FROM queue_outbox").await;
    bed.database.numbers_begin_again().await;
    let put = bed.database.put(vec![job().id("twice").queue("other")], true).await.unwrap();
    bed.database.numbers_begin_again().await;
    ids.extend(bed.put(1).await);
    bed.broker.enqueues.open();
    wait("the other rows to be sent").until(async || bed.database.waiting().await == 0).await;
    relay.abort();
    assert_eq!(bed.ready("other").await, put);
    bed.has_exactly(ids).await;
}

/// Their numbers are lower than those of rows that were sent before. Rows of transactions that
/// begin after their commit are sent behind them. In a file, one transaction writes at a time.
async fn rows_of_transactions_that_commit_late_are_sent_in_order(bed: Bed) {
    let Database::Postgres { url } = &bed.database else {
        bed.put(1).await;
        bed.drain().await;
        return;
    };
    use queue_outbox::{Outbox, postgres::EnqueueIn};
    let of = RuleOf::Group(GroupName::new("a").unwrap());
    bed.client.inspector().set_group_rule("default", &of, |rule: &mut GroupRule| rule.order = Some(GroupOrder::Ordered)).await.unwrap();
    let put = async |jobs: usize| bed.database.put((0..jobs).map(|_| job().group("a")).collect(), true).await.unwrap();
    let mut late = queue_tests::postgres::connect(url).await;
    let outbox = Outbox::postgres(&late).await.unwrap();
    let tx = late.transaction().await.unwrap();
    let late = job().group("a").enqueue_in(&outbox, &tx).await.unwrap().id;
    let (relay, mut ids) = (bed.run_relay(), Vec::new());
    for _ in 0..3 {
        ids.extend(put(3).await);
        wait("the rows that have committed to be sent").until(async || bed.database.waiting().await == 0).await;
    }
    bed.broker.enqueues.close();
    ids.extend(put(1).await);
    wait("a request that is in flight")
        .until(async || bed.database.number("SELECT count(*) FROM queue_relay WHERE seqs IS NOT NULL").await == 1)
        .await;
    tx.commit().await.unwrap();
    ids.push(late);
    ids.extend(put(2).await);
    bed.broker.enqueues.open();
    wait("all rows to be sent").until(async || bed.database.waiting().await == 0).await;
    relay.abort();
    assert_eq!(bed.runs(20).await, ids);
}

/// Its relay was killed. The lease would last until the clock is there again.
async fn a_lease_of_a_clock_that_was_ahead_is_free(bed: Bed) {
    let mut ids = bed.put(1).await;
    bed.drain().await;
    ids.extend(in_flight(&bed, 3).await);
    let in_an_hour = match bed.database {
        Database::Postgres { .. } => "until + interval '1 h'",
        Database::Sqlite { .. } => "until + 3600000",
    };
    bed.database.execute(&format!("UPDATE queue_relay SET until = {in_an_hour}")).await;
    assert_eq!(bed.drain().await.sent, 3);
    bed.has_exactly(ids).await;
}

/// An hour ahead, right, an hour behind, and right again. At each time a relay is killed: no lease
/// lasts longer for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_a_server_whose_clock_steps_loses_no_job() {
    const HOUR: i64 = 3_600_000;
    let server = Postgres::with_own_clock();
    let bed = Bed::with_database(Place::PostgresSqlite, Database::in_server(&server).await).await;
    let mut ids = bed.put(1).await;
    bed.drain().await;
    for by in [0, HOUR, 0, -HOUR, 0] {
        server.move_clock(by);
        let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8";
        let right = || i64::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
        let is_moved = async || (bed.database.number(now).await - right() - by).abs() < HOUR / 2;
        wait("the clock to be moved").until(async || is_moved().await).await;
        ids.extend(in_flight(&bed, 3).await);
        let until = "SELECT count(*) FROM queue_relay WHERE until BETWEEN clock_timestamp() AND clock_timestamp() + interval '30 s'";
        assert_eq!(bed.database.number(until).await, 1, "its relay has got the lease");
    }
    server.move_clock(HOUR);
    assert_eq!(figures(bed.drain().await), (15, 0, 0));
    bed.has_exactly(ids).await;
}

/// A database whose state can be set back.
struct Site {
    bed: Bed,
    server: Option<Postgres>,
}

impl Site {
    async fn new(place: Place) -> Site {
        let server = (place != Place::SqliteRedis).then(Postgres::start);
        let database = match &server {
            Some(server) => Database::in_server(server).await,
            None => Database::sqlite(),
        };
        Site { bed: Bed::with_database(place, database).await, server }
    }

    fn is_copied(&mut self) {
        self.bed.database.is_copied(&mut self.server);
    }

    fn is_set_back(&mut self) {
        self.bed.database.is_set_back(&mut self.server);
    }
}

mod set_back {
    use super::*;

    /// The copy has rows that were sent later, and numbers that were given later, too. Of the jobs
    /// of these rows some have ended, some wait.
    pub(super) async fn a_replica_that_lags_is_promoted(place: Place) {
        let mut site = Site::new(place).await;
        site.bed.put(5).await;
        site.bed.drain().await;
        assert_eq!(site.bed.runs(5).await.len(), 5);
        let old = site.bed.put(10).await;
        site.is_copied();
        site.bed.drain().await;
        let newer = site.bed.put(4).await;
        site.bed.drain().await;
        assert_eq!(site.bed.runs(6).await, old[..6]);
        site.is_set_back();
        assert_eq!(site.bed.database.waiting().await, 10);
        // Rows with the numbers of those that were lost.
        let relayed = site.bed.drain().await;
        assert_eq!(figures(relayed), (10, 0, 6), "those that have ended came twice, and are counted");
        let new = site.bed.put(20).await;
        assert_eq!(figures(site.bed.drain().await), (20, 0, 0));
        site.bed.has_exactly([old, newer, new].concat()).await;
    }

    /// A relay runs all the time, and rows are written as soon as the server is there again, before
    /// it has seen anything.
    pub(super) async fn a_database_is_set_back_while_a_relay_runs(place: Place) {
        let mut site = Site::new(place).await;
        let relay = site.bed.run_relay();
        let sent = async |bed: &Bed| {
            wait("the outbox to be empty").on(bed.client.broker()).until(async || bed.database.waiting().await == 0).await
        };
        let mut ids = site.bed.put(3).await;
        sent(&site.bed).await;
        // The next requests cannot be sent until the copy is there.
        site.bed.broker.fail(Fault::RequestLost, u32::MAX);
        ids.extend(site.bed.put(7).await);
        wait("a request that cannot be sent").until(async || site.bed.broker.failed() > 0).await;
        site.is_copied();
        site.bed.broker.fail(Fault::RequestLost, 0);
        for _ in 0..3 {
            ids.extend(site.bed.put(4).await);
            sent(&site.bed).await;
        }
        site.is_set_back();
        for _ in 0..4 {
            ids.extend(site.bed.put(4).await);
        }
        sent(&site.bed).await;
        relay.abort();
        site.bed.has_exactly(ids).await;
    }

    /// Another one at the same address has nothing of it: the rows of the request are sent to it,
    /// and counted.
    pub(super) async fn a_broker_is_replaced_while_a_request_is_in_flight(place: Place) {
        let database = Site::new(place).await;
        let mut redis = queue_tests::server::Server::start(queue_tests::server::Kind::Redis);
        let broker: queue_core::broker::DynBroker = redis.broker().await;
        let broker = FailingBroker::new(broker);
        let client = queue_core::Client::with_broker(broker.clone());
        let Site { bed: Bed { database, .. }, server: _server } = database;
        let bed = Bed { database, broker, client };
        bed.put(3).await;
        bed.drain().await;
        let ids = in_flight(&bed, 5).await;
        // It keeps nothing.
        redis.restart();
        let more = bed.put(2).await;
        free(&bed).await;
        assert_eq!(figures(bed.drain().await), (7, 0, 5), "the first broker may have run them");
        bed.has_exactly([ids, more].concat()).await;
    }
}

mod sites {
    use crate::bed::in_places;

    use super::set_back;

    in_places! {
        set_back
        a_replica_that_lags_is_promoted
        a_database_is_set_back_while_a_relay_runs
        a_broker_is_replaced_while_a_request_is_in_flight
    }
}
