//! How much the statements of a relay read, as the server counts it: no time is measured.

use queue_conformance::patience::wait;
use queue_core::JobState;
use queue_tests::postgres::Postgres;

use crate::bed::{Bed, Database, Place, job};

/// Of a table that was never analyzed PostgreSQL believes that a queue has few rows: joins with the rows of a request read all of it, for each request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_a_relay_reads_only_the_rows_that_it_sends() {
    const ROWS: i64 = 20_000;
    let server = Postgres::start();
    let bed = Bed::with_database(Place::PostgresSqlite, Database::in_server(&server).await).await;
    bed.database.execute("ALTER TABLE queue_outbox SET (autovacuum_enabled = off)").await;
    bed.database.put((0..ROWS).map(|n| job().group(format!("g{}", n % 4000))).collect(), true).await.expect("they are inserted");
    // It does not look at the table, which counts what is read.
    let ready = async || bed.client.inspector().stats("default").await.map_or(0, |stats| stats.count(JobState::Ready));
    let sent = wait("the jobs to be sent").on(bed.client.broker()).until(async || ready().await >= ROWS.unsigned_abs());
    bed.database.relay().run(&bed.client, sent).await;
    let deletions = "SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'queue_outbox'";
    wait("the server to have counted").until(async || bed.database.number(deletions).await >= ROWS - 1000).await;
    let read = "SELECT (sum(i.idx_tup_read) + max(t.seq_tup_read))::int8 FROM pg_stat_user_indexes i JOIN pg_stat_user_tables t USING (relid) \
        WHERE t.relname = 'queue_outbox'";
    let read = bed.database.number(read).await;
    println!("{read} entries were read for {ROWS} rows");
    assert!(read < 12 * ROWS, "{read} entries were read for {ROWS} rows");
}
