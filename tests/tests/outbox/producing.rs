//! What an application does: it needs the database alone.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use queue_core::{__private::Envelope, JobId, JobState, Priority, RawJob, inspect::GroupName, topics::Publication};
use queue_outbox::{Error, Outbox, postgres, sqlite};
use queue_tests::postgres::connect;
use tokio_postgres::types::ToSql;

use crate::bed::{Bed, Database, job, places};

places! {
    a_job_is_enqueued_if_and_only_if_its_transaction_commits
    a_job_keeps_its_options
    a_bad_job_inserts_nothing
}

async fn a_job_is_enqueued_if_and_only_if_its_transaction_commits(bed: Bed) {
    let mut committed = bed.put(3).await;
    bed.database.put(vec![job(), job()], false).await.unwrap();
    // More than one statement takes.
    committed.extend(bed.put(1203).await);
    let relayed = bed.drain().await;
    assert_eq!((relayed.sent, relayed.refused, relayed.perhaps_twice), (1206, 0, 0));
    assert_eq!(bed.ready("default").await, committed, "in the order in which they were inserted");
}

async fn a_job_keeps_its_options(bed: Bed) {
    let (hour, minute) = (Duration::from_secs(3600), Duration::from_secs(60));
    let jobs = vec![
        job().queue("mail").priority(Priority::High).header("tenant", "7").tag("order", "17"),
        job().queue("mail").delay(hour),
        job().queue("mail").id("order-17"),
        job().queue("mail").group("tenant-7").cost(2).limit("stripe", None),
        job().queue("mail").unique_key("one"),
        job().queue("mail").unique_key("one"),
        job().queue("mail").max_attempts(3).timeout(minute).retention(hour),
    ];
    let ids = bed.database.put(jobs, true).await.unwrap();
    // As if it had waited in the outbox for half an hour.
    let aged = match bed.database {
        Database::Postgres { .. } => "UPDATE queue_outbox SET created_at = created_at - interval '30 min'",
        Database::Sqlite { .. } => "UPDATE queue_outbox SET created_at = created_at - 1800000",
    };
    bed.database.execute(aged).await;
    assert_eq!(bed.drain().await.sent, 7, "a duplicate is answered, too");
    let show = async |at: usize| bed.client.broker().show("mail", &ids[at]).await.unwrap();
    let first = show(0).await.unwrap();
    let envelope = Envelope::decode(&first.envelope).unwrap();
    assert_eq!((first.priority, envelope.headers["tenant"].as_str(), envelope.tags["order"].as_str()), (Priority::High, "7", "17"));
    let delayed = show(1).await.unwrap();
    assert_eq!(delayed.state, JobState::Scheduled);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let left = delayed.at_ms.unwrap() - i64::try_from(now).unwrap();
    assert!(left <= 1_800_000, "half of its delay has passed in the outbox, and {left} ms are left");
    assert_eq!(ids[2], JobId::given("order-17").unwrap());
    assert_eq!(show(3).await.unwrap().group, Some(GroupName::new("tenant-7").unwrap()));
    assert!(show(4).await.unwrap().unique.is_some() && show(5).await.is_none());
    assert_eq!(Envelope::decode(&show(6).await.unwrap().envelope).unwrap().max_attempts, Some(3));
}

async fn a_bad_job_inserts_nothing(bed: Bed) {
    for bad in [job().queue("no queue"), RawJob::new("mail.send", vec![0xc1]), RawJob::new("mail.send", vec![0x80]).group("")] {
        let refused = bed.database.put(vec![job(), bad], true).await;
        assert!(matches!(refused, Err(Error::Queue(_))), "{refused:?}");
    }
    // A map of 2 MiB.
    let large = [&[0x81, 0xa1, b'a', 0xc6, 0, 0x20, 0, 0], vec![0; 2 << 20].as_slice()].concat();
    let refused = bed.database.put(vec![job(), RawJob::new("mail.send", large)], true).await;
    assert!(matches!(refused, Err(Error::Queue(queue_core::Error::PayloadTooLarge { .. }))), "{refused:?}");
    assert_eq!(bed.database.waiting().await, 0);
}

mod on_postgres_alone {
    use super::*;
    use postgres::{EnqueueAllIn as _, EnqueueIn as _};

    #[tokio::test(flavor = "multi_thread")]
    async fn each_wrong_database_has_an_error_of_its_own() {
        let (Database::Postgres { url: here }, Database::Postgres { url: there }) =
            (Database::postgres().await, Database::postgres().await)
        else {
            unreachable!("they are in PostgreSQL")
        };
        let mut client = connect(&there).await;
        let outbox = Outbox::postgres(&connect(&here).await).await.unwrap();
        let tx = client.transaction().await.unwrap();
        assert!(matches!(job().enqueue_in(&outbox, &tx).await, Err(Error::OtherDatabase)));
        assert!(matches!(vec![job(), job()].enqueue_all_in(&outbox, &tx).await, Err(Error::OtherDatabase)));
        drop(tx);
        let outbox = Outbox::postgres(&client).await.unwrap();
        client.batch_execute("UPDATE queue_database SET full_queues = '{default}'").await.unwrap();
        let tx = client.transaction().await.unwrap();
        assert!(matches!(job().enqueue_in(&outbox, &tx).await, Err(Error::Full { queue }) if queue == "default"));
        job().queue("other").enqueue_in(&outbox, &tx).await.expect("only one queue is full");
        drop(tx);
        client.batch_execute("UPDATE queue_database SET full_queues = '{}', version = 2").await.unwrap();
        let tx = client.transaction().await.unwrap();
        assert!(matches!(job().enqueue_in(&outbox, &tx).await, Err(Error::TooNew { found: 2, known: 1 })));
        drop(tx);
        assert!(matches!(Outbox::postgres(&client).await, Err(Error::TooNew { found: 2, known: 1 })));
        client.batch_execute("DROP TABLE queue_database").await.unwrap();
        let missing = Outbox::postgres(&client).await;
        assert!(
            matches!(&missing, Err(error @ Error::NoTables { .. }) if error.to_string().contains("queue outbox init --dialect postgres"))
        );
    }

    /// The later one waits for the commit of the earlier one, and gets the higher number.
    #[tokio::test(flavor = "multi_thread")]
    async fn overlapping_transactions_insert_into_a_group_in_commit_order() {
        let Database::Postgres { url } = Database::postgres().await else { unreachable!("it is in PostgreSQL") };
        for many in [false, true] {
            let (mut one, mut two) = (connect(&url).await, connect(&url).await);
            let outbox = Outbox::postgres(&one).await.unwrap().in_commit_order();
            let first = one.transaction().await.unwrap();
            let id = job().group("a").enqueue_in(&outbox, &first).await.unwrap().id;
            let second = two.transaction().await.unwrap();
            // Other groups, and jobs without one, do not wait.
            job().enqueue_in(&outbox, &second).await.unwrap();
            vec![job().group("b"), job(), job().group("c")].enqueue_all_in(&outbox, &second).await.unwrap();
            let mut waits = Box::pin(async {
                if many {
                    vec![job().group("a"), job()].enqueue_all_in(&outbox, &second).await.unwrap().remove(0).id
                } else {
                    job().group("a").enqueue_in(&outbox, &second).await.unwrap().id
                }
            });
            let locked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
            let database = Database::Postgres { url: url.clone() };
            tokio::select! {
                _ = &mut waits => panic!("it does not wait"),
                () = queue_conformance::patience::wait("it to wait").until(async || database.number(locked).await == 1) => {}
            }
            first.commit().await.unwrap();
            let after = waits.await;
            second.commit().await.unwrap();
            let seq = "SELECT seq FROM queue_outbox WHERE id = $1";
            let mut seqs = Vec::new();
            for id in [&id, &after] {
                seqs.push(connect(&url).await.query_one(seq, &[&id.as_bytes()]).await.unwrap().get::<_, i64>(0));
            }
            assert!(seqs[0] < seqs[1], "{seqs:?}");
        }
    }

    /// More than one statement takes, of which the second finds a full queue. The caller commits
    /// all the same.
    #[tokio::test(flavor = "multi_thread")]
    async fn of_many_jobs_all_are_inserted_or_none() {
        let Database::Postgres { url } = Database::postgres().await else { unreachable!("it is in PostgreSQL") };
        let mut client = connect(&url).await;
        let outbox = Outbox::postgres(&client).await.unwrap();
        client.batch_execute("UPDATE queue_database SET full_queues = '{full}'").await.unwrap();
        let tx = client.transaction().await.unwrap();
        let jobs = (0..1001).map(|n| job().queue(if n < 1000 { "default" } else { "full" }));
        assert!(matches!(jobs.enqueue_all_in(&outbox, &tx).await, Err(Error::Full { queue }) if queue == "full"));
        tx.commit().await.unwrap();
        let count: i64 = client.query_one("SELECT count(*) FROM queue_outbox", &[]).await.unwrap().get(0);
        assert_eq!(count, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_outbox_is_where_its_schema_says() {
        let Database::Postgres { url } = Database::postgres().await else { unreachable!("it is in PostgreSQL") };
        let mut client = connect(&url).await;
        client.batch_execute("CREATE SCHEMA tenant_7").await.unwrap();
        client.batch_execute(&queue_outbox::Dialect::Postgres.migration("tenant_7").unwrap()).await.unwrap();
        let outbox = Outbox::postgres_in(&client, "tenant_7").await.unwrap();
        let tx = client.transaction().await.unwrap();
        job().enqueue_in(&outbox, &tx).await.unwrap();
        tx.commit().await.unwrap();
        let count: i64 = client.query_one("SELECT count(*) FROM tenant_7.queue_outbox", &[]).await.unwrap().get(0);
        assert_eq!(count, 1);
    }

    /// By any library: the statement and its values.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_prepared_job_is_inserted_by_its_statement() {
        let Database::Postgres { url } = Database::postgres().await else { unreachable!("it is in PostgreSQL") };
        let client = connect(&url).await;
        let outbox = Outbox::postgres(&client).await.unwrap();
        let row = outbox.prepare(job().group("a")).unwrap();
        let (database, version) = (outbox.database(), queue_outbox::VERSION);
        let values: [&(dyn ToSql + Sync); 6] = [&database, &version, &row.id, &row.queue, &row.group_digest, &row.body];
        assert_eq!(client.execute(outbox.insert_sql(), &values).await.unwrap(), 1);
        let event = outbox.prepare(Publication::raw("orders", "OrderPaid", vec![0x80])).unwrap();
        assert_eq!((event.queue.as_str(), event.group_digest), ("@orders", None));
    }
}

mod in_sqlite {
    use super::*;
    use rusqlite::Connection;
    use sqlite::{EnqueueAllIn as _, EnqueueIn as _};

    #[test]
    fn each_wrong_database_has_an_error_of_its_own() {
        let database = || {
            let connection = Connection::open_in_memory().unwrap();
            connection.execute_batch(&queue_outbox::Dialect::Sqlite.migration("main").unwrap()).unwrap();
            connection
        };
        let (here, mut there) = (database(), database());
        let outbox = Outbox::sqlite(&here).unwrap();
        let tx = there.transaction().unwrap();
        assert!(matches!(job().enqueue_in(&outbox, &tx), Err(Error::OtherDatabase)));
        drop(tx);
        let outbox = Outbox::sqlite(&there).unwrap();
        there.execute_batch("UPDATE queue_database SET full_queues = ',default,'").unwrap();
        let tx = there.transaction().unwrap();
        assert!(matches!(job().enqueue_in(&outbox, &tx), Err(Error::Full { .. })));
        job().queue("default2").enqueue_in(&outbox, &tx).expect("only one queue is full");
        assert!(matches!(vec![job().queue("other"), job()].enqueue_all_in(&outbox, &tx), Err(Error::Full { .. })));
        let count: i64 = tx.query_row("SELECT count(*) FROM queue_outbox", (), |row| row.get(0)).unwrap();
        assert_eq!(count, 1, "all of them or none");
        drop(tx);
        there.execute_batch("UPDATE queue_database SET version = 2").unwrap();
        assert!(matches!(Outbox::sqlite(&there), Err(Error::TooNew { found: 2, known: 1 })));
        there.execute_batch("DROP TABLE queue_database").unwrap();
        assert!(matches!(Outbox::sqlite(&there), Err(Error::NoTables { dialect: "sqlite", .. })));
        let folder = queue_conformance::folder::folder();
        let file = folder.path().join("beside.db").display().to_string();
        there.execute("ATTACH ?1 AS beside", [&file]).unwrap();
        there.execute_batch(&queue_outbox::Dialect::Sqlite.migration("main").unwrap().replace("main.", "beside.")).unwrap();
        let attached = Outbox::sqlite(&there).unwrap_err();
        assert!(matches!(&attached, Error::NoTables { problem, .. } if problem.contains(&file)), "{attached:?}");
        let postgres = Outbox::with_database(queue_outbox::Dialect::Postgres, "public", vec![1], 1).unwrap();
        assert!(matches!(job().enqueue_in(&postgres, &there.transaction().unwrap()), Err(Error::OtherDatabase)));
    }
}

/// It is not the migration that is missing.
#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_an_identity_that_row_level_security_hides_is_named() {
    let database = Database::postgres().await;
    let role = format!("shop_{:016x}", fastrand::u64(..));
    database
        .execute(&format!("CREATE ROLE {role} LOGIN; GRANT SELECT ON queue_database TO {role}; GRANT INSERT ON queue_outbox TO {role}"))
        .await;
    let Database::Postgres { url } = &database else { unreachable!("it is in PostgreSQL") };
    let mut client = connect(&url.replace("//queue@", &format!("//{role}@"))).await;
    let outbox = Outbox::postgres(&client).await.unwrap();
    database.execute("ALTER TABLE queue_database ENABLE ROW LEVEL SECURITY").await;
    let tx = client.transaction().await.unwrap();
    let refused = postgres::EnqueueIn::enqueue_in(job(), &outbox, &tx).await.unwrap_err().to_string();
    tx.rollback().await.unwrap();
    let not_opened = Outbox::postgres(&client).await.unwrap_err().to_string();
    for message in [refused, not_opened] {
        assert!(message.contains("row-level security"), "{message}");
    }
}
