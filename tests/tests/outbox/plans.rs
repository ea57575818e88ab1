//! How many entries the statements of a relay read, as the server counts them: no time is measured.
//!
//! `QUEUE_TEST_BACKLOG` is the number of rows (20,000), of which five are of one group.

use queue_conformance::patience::wait;
use queue_core::JobState;
use queue_outbox::{OutboxChange, Relay};
use queue_tests::postgres::{Postgres, connect};
use tokio_postgres::IsolationLevel;

use crate::{
    bed::{Bed, Database, Place, job},
    kills::number,
};

/// Entries of indexes, and rows of scans.
const READ: &str = "SELECT (sum(i.idx_tup_read) + max(t.seq_tup_read))::int8 FROM pg_stat_user_indexes i JOIN pg_stat_user_tables t USING (relid) \
    WHERE t.relname = 'queue_outbox'";

/// Runs a relay on a table that was never analyzed. It idles before the rows come, or starts then.
async fn reads_only_the_rows_that_it_sends(idles: bool) {
    let rows = number("QUEUE_TEST_BACKLOG").unwrap_or(20_000).cast_signed();
    let server = Postgres::start();
    let bed = Bed::with_database(Place::PostgresSqlite, Database::in_server(&server).await).await;
    bed.database.execute("ALTER TABLE queue_outbox SET (autovacuum_enabled = off)").await;
    let deletions = "SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'queue_outbox'";
    let mut relay = idles.then(|| bed.run_relay());
    // After five executions, PostgreSQL may keep the plan of a prepared statement.
    for sent in (1..=6).take_while(|_| idles) {
        bed.put(1).await;
        wait("the server to have counted a row").until(async || bed.database.number(deletions).await >= sent).await;
    }
    // One after the other: the number of rows is no bound of a statement.
    for at in (0..rows).step_by(20_000) {
        let jobs = (at..rows.min(at + 20_000)).map(|n| job().group(format!("g{}", n % (rows / 5).max(1))));
        bed.database.put(jobs.collect(), true).await.expect("they are inserted");
    }
    let relay = relay.take().unwrap_or_else(|| bed.run_relay());
    // It does not look at the table, which counts what is read.
    let ready = async || bed.client.inspector().stats("default").await.map_or(0, |stats| stats.count(JobState::Ready));
    let mut seen = 0;
    while seen < rows.unsigned_abs() {
        seen = wait("more jobs to be sent").on(bed.client.broker()).some(async || Some(ready().await).filter(|now| *now > seen)).await;
    }
    wait("the server to have counted").until(async || bed.database.number(deletions).await >= rows - 1000).await;
    relay.abort();
    let read = bed.database.number(READ).await;
    println!("{read} entries were read for {rows} rows");
    assert!(read < 12 * rows, "{read} entries were read for {rows} rows");
}

/// Of a table that was never analyzed PostgreSQL believes that a queue has few rows: joins with the
/// rows of a request read all of it, for each request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_a_relay_reads_only_the_rows_that_it_sends() {
    reads_only_the_rows_that_it_sends(false).await;
}

/// A plan that was cached while the table was empty would read the whole table for each request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_a_relay_that_idled_on_an_empty_table_reads_only_the_rows_that_it_sends() {
    reads_only_the_rows_that_it_sends(true).await;
}

/// The snapshot of the reader keeps the index entries of all rows that were sent meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_a_relay_beside_a_reader_that_stands_for_an_hour_reads_only_the_rows_that_it_sends() {
    let server = Postgres::with_own_clock();
    let bed = Bed::with_database(Place::PostgresSqlite, Database::in_server(&server).await).await;
    let Database::Postgres { url } = &bed.database else { unreachable!("it is in PostgreSQL") };
    bed.database.execute("ALTER TABLE queue_outbox SET (autovacuum_enabled = off)").await;
    let mut reader = connect(url).await;
    let reader = reader.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
    let sees = async || reader.query_one("SELECT count(*) FROM queue_outbox", &[]).await.unwrap().get::<_, i64>(0);
    assert_eq!(sees().await, 0);
    let (relay, mut ids) = (bed.run_relay(), Vec::new());
    let deletions = "SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'queue_outbox'";
    for minutes in 1..=60 {
        server.move_clock(minutes * 60_000);
        ids.extend(bed.put(400).await);
        let ready =
            async || bed.client.inspector().stats("default").await.is_ok_and(|stats| stats.count(JobState::Ready) == ids.len() as u64);
        wait("the rows to be sent").on(bed.client.broker()).until(ready).await;
    }
    // Now and then, a round reads from the start. One row after the other: what is read between two
    // of them, as the server counts it.
    let (mut before, mut read) = (i64::MAX, Vec::new());
    for _ in 0..8 {
        ids.extend(bed.put(1).await);
        wait("the server to have counted").until(async || bed.database.number(deletions).await >= ids.len() as i64).await;
        let now = bed.database.number(READ).await;
        read.push(now.saturating_sub(before));
        before = now;
    }
    relay.abort();
    println!("entries that were read for a row, of {} that are kept: {:?}", ids.len(), &read[1..]);
    // A round every five seconds reads from the start.
    assert!(read[1..].iter().filter(|read| **read < 2_000).count() >= 4, "{read:?}");
    assert_eq!(sees().await, 0, "it has its snapshot");
    bed.has_exactly(ids).await;
}

/// A read from the start takes longer than a statement may, as with some 70 million entries of rows
/// that were sent: here one row, which nobody sees, takes that time. The relay sees the tables by
/// way of views.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_a_relay_whose_reads_from_the_start_take_too_long_sends_new_and_retried_rows() {
    let bed = Bed::new(Place::PostgresSqlite).await;
    let Database::Postgres { url } = &bed.database else { unreachable!("it is in PostgreSQL") };
    let left = async || bed.database.number("SELECT count(*) FROM queue_outbox WHERE seq > 0 AND refused IS NULL").await;
    let views = ["queue_relay", "queue_database", "queue_effects"].map(|table| format!("CREATE VIEW slow.{table} AS TABLE {table};"));
    bed.database
        .execute(&format!(
            "CREATE SCHEMA slow; CREATE SEQUENCE slow_reads; \
             CREATE FUNCTION is_seen(seq BIGINT) RETURNS BOOL LANGUAGE plpgsql COST 100000 AS $$ BEGIN \
             IF seq = 0 THEN PERFORM nextval('slow_reads'); PERFORM pg_sleep(7); END IF; RETURN seq > 0; END $$; \
             CREATE VIEW slow.queue_outbox AS SELECT ctid, * FROM queue_outbox WHERE is_seen(seq); {}",
            views.concat()
        ))
        .await;
    let mut ids = bed.put(3).await;
    bed.database.execute("UPDATE queue_outbox SET refused = 'why'").await;
    let (relay, client) = (Relay::postgres_in(url, "slow").unwrap(), bed.client.clone());
    let relay = tokio::spawn(async move { relay.run(&client, std::future::pending::<()>()).await });
    // Until it knows where it can begin.
    for _ in 0..6 {
        ids.extend(bed.put(1).await);
        wait("the row to be sent").until(async || left().await == 0).await;
    }
    let slow = "INSERT INTO queue_outbox (seq, id, queue, body) OVERRIDING SYSTEM VALUE VALUES (0, '', 'default', '')";
    bed.database.execute(slow).await;
    let slow_reads = async || bed.database.number("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM slow_reads").await;
    wait("a read from the start").until(async || slow_reads().await > 0).await;
    let people = bed.database.relay();
    let refused: Vec<_> = people.rows("default", true, 10).await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(people.change("default", &OutboxChange::Retry(refused[1..2].to_vec())).await.unwrap(), refused[1..2]);
    assert_eq!(people.change("default", &OutboxChange::Retry(Vec::new())).await.unwrap(), [refused[0].clone(), refused[2].clone()]);
    for _ in 0..3 {
        wait("the rows to be sent").until(async || left().await == 0).await;
        ids.extend(bed.put(1).await);
    }
    wait("the row to be sent").until(async || left().await == 0).await;
    println!("{} reads from the start", slow_reads().await);
    relay.abort();
    bed.has_exactly(ids).await;
}
