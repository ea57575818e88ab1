//! What the outbox costs in a database of an application, beside the same statements by hand in the
//! same run.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use queue_core::{__private::row::Outgoing, Client, JobId, TestContext, broker::Counter};
use queue_outbox::{Dialect, Done, Outbox, Prepared, Relay, VERSION, postgres, sqlite};
use queue_tests::{
    folder::on_disk,
    patience::wait,
    postgres::{Postgres, connect},
};
use rusqlite::{Connection, TransactionBehavior::Immediate, params};
use tempfile::TempDir;
use tokio_postgres::{
    Statement,
    types::{ToSql, Type},
};

use crate::{
    Error,
    frame::{Figure, Reading, Readings},
    server::Server,
    stats::percentile,
    tasks::{hundred_bytes, noop, stamp},
    worker::{Running, jobs},
};

pub(crate) fn figures() -> Vec<Figure> {
    let about = |database: &str| {
        format!(
            "An outbox in {database}, on a disk, and its relay to Redis; one connection, jobs of 100 bytes. `enqueue_in`: 2,000 transactions of one job each; \
             `enqueue_all_in`: 50,000 jobs in one transaction, 1,000 in a statement where there is one for many; `relay`: rows that it sends and deletes, and by hand \
             a transaction that deletes 500 rows and commits when their jobs are enqueued, which runs jobs twice if the process dies in between; \
             `commit`: an effect that commits with the ending of its job. By hand, rows go to tables with the same columns and indexes, by the same calls of the \
             library: in PostgreSQL statements that are parsed each time, but for `enqueue_prepared`. `to_start`: from the \
             call of the commit to the start of the handler, worker and relay in the same process, 1,000 jobs, 2 ms after the last has run."
        )
    };
    vec![
        Figure::redis("outbox_postgres", about("PostgreSQL with `synchronous_commit = on`"), |server| {
            async move { Bed::postgres().await?.measure(server).await }.boxed()
        })
        .most_runs(3),
        Figure::redis("outbox_sqlite", about("a SQLite file with `synchronous = FULL`"), |server| {
            async move { Bed::sqlite()?.measure(server).await }.boxed()
        })
        .most_runs(3),
    ]
}

/// Rows of a statement by hand: as many as one of ours has.
const CHUNK: usize = 1_000;
const LATENCIES: usize = 1_000;
const REST: Duration = Duration::from_millis(2);

/// What is done through the outbox, and by hand.
#[derive(Clone, Copy)]
enum Step {
    /// A transaction for each job.
    One,
    /// The same, by a statement that was prepared before.
    Prepared,
    /// A transaction for all jobs.
    Many,
    /// An effect that commits with the ending of its job.
    Effect,
}

enum Database {
    Postgres { client: tokio_postgres::Client, one: Statement, ours: Statement, effect: Statement },
    Sqlite(Connection),
}

struct Bed {
    database: Database,
    url: String,
    outbox: Outbox,
    /// The values of each row by hand.
    row: Prepared,
    effects: i64,
    _server: Option<Postgres>,
    _folder: Option<TempDir>,
}

type Value<'a> = (&'a (dyn ToSql + Sync), Type);

const ONE: &str = "INSERT INTO hand_outbox (id, queue, group_digest, body) VALUES ($1, $2, $3, $4)";
const MANY: &str =
    "INSERT INTO hand_outbox (id, queue, group_digest, body) SELECT * FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bytea[])";
const EFFECT: &str = "INSERT INTO effects (n) VALUES ($1)";
const ENDING: &str = "INSERT INTO hand_effects (job, ending) VALUES ($1, $2)";

/// The tables of the outbox, and the same by hand.
fn tables(dialect: Dialect) -> Result<String, Error> {
    let migration = dialect.migration("public")?;
    Ok(format!("{migration}; {}; CREATE TABLE effects (n BIGINT NOT NULL)", migration.replace("queue_", "hand_")))
}

impl Bed {
    async fn postgres() -> Result<Self, Error> {
        let server = Postgres::on_disk();
        let url = server.database().await;
        let client = connect(&url).await;
        client.batch_execute(&tables(Dialect::Postgres)?).await?;
        let outbox = Outbox::postgres(&client).await?;
        let (one, ours, effect) = (client.prepare(ONE).await?, client.prepare(outbox.insert_sql()).await?, client.prepare(EFFECT).await?);
        let database = Database::Postgres { client, one, ours, effect };
        Bed::of(database, url, outbox, Some(server), None)
    }

    fn sqlite() -> Result<Self, Error> {
        let folder = on_disk();
        let file = folder.path().join("app.db");
        let connection = Connection::open(&file)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.execute_batch(&tables(Dialect::Sqlite)?)?;
        let outbox = Outbox::sqlite(&connection)?;
        Bed::of(Database::Sqlite(connection), file.display().to_string(), outbox, None, Some(folder))
    }

    fn of(database: Database, url: String, outbox: Outbox, server: Option<Postgres>, folder: Option<TempDir>) -> Result<Self, Error> {
        let row = outbox.prepare(noop::job(hundred_bytes()))?;
        Ok(Bed { database, url, outbox, row, effects: 0, _server: server, _folder: folder })
    }

    fn relay(&self) -> Result<Relay, Error> {
        Ok(match self.database {
            Database::Postgres { .. } => Relay::postgres(&self.url)?,
            Database::Sqlite(_) => Relay::sqlite(&self.url),
        })
    }

    async fn measure(mut self, server: &Server) -> Readings {
        let queue = Client::connect(&server.url()).await?;
        let mut readings = vec![self.beside("_enqueue_in", Step::One).await?, self.beside("_enqueue_all_in", Step::Many).await?];
        if matches!(self.database, Database::Postgres { .. }) {
            readings.push(self.beside("_enqueue_prepared", Step::Prepared).await?);
        }
        let ours = self.relayed(&queue).await?;
        let by_hand = self.relayed_by_hand(&queue).await?;
        readings.push(Reading::new("_relay", ours, "rows/s").beside(by_hand, "50,000 rows sent by hand, after it"));
        readings.push(self.beside("_commit", Step::Effect).await?);
        server.flush()?;
        let mut millis = self.latencies(&Client::connect(&server.url()).await?).await?;
        let mut commits = Vec::new();
        for _ in 0..LATENCIES / 10 {
            commits.push(self.insert(1).await?.elapsed().as_secs_f64() * 1e3);
            tokio::time::sleep(REST).await;
        }
        let three = 3.0 * percentile(&mut commits, 50.0);
        for (suffix, p) in [("_to_start_p50", 50.0), ("_to_start_p99", 99.0)] {
            readings.push(Reading::new(suffix, percentile(&mut millis, p), "ms").beside(three, "three `COMMIT`s of a row by hand"));
        }
        let conditions = self.conditions().await?;
        readings.iter_mut().for_each(|reading| reading.conditions.clone_from(&conditions));
        Ok(readings)
    }

    /// What the database says of itself, and the file system that it is on.
    async fn conditions(&mut self) -> Result<String, Error> {
        let (settings, folder) = match &mut self.database {
            Database::Postgres { client, .. } => {
                let mut settings = Vec::new();
                for name in ["server_version", "fsync", "synchronous_commit", "wal_sync_method", "data_directory"] {
                    let value: String = client.query_one(&format!("SHOW {name}"), &[]).await?.get(0);
                    settings.push(value);
                }
                let folder = PathBuf::from(settings.pop().unwrap_or_default());
                let [version, fsync, commit, method] = settings.as_slice() else { return Err("SHOW has no answer".into()) };
                (format!("PostgreSQL {version}, `fsync = {fsync}`, `synchronous_commit = {commit}`, `wal_sync_method = {method}`"), folder)
            }
            Database::Sqlite(connection) => {
                let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
                (format!("SQLite {}, `synchronous = {}`", rusqlite::version(), number("synchronous")?), PathBuf::from(&self.url))
            }
        };
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mounts = mounts.lines().filter_map(|line| line.split(' ').nth(1).zip(line.split(' ').nth(2)));
        let kind = mounts.filter(|(at, _)| folder.starts_with(at)).max_by_key(|(at, _)| at.len()).map_or("unknown", |(_, kind)| kind);
        Ok(format!(" Measured on {settings}, file system {kind}."))
    }

    /// The rate of ours, between two runs by hand.
    async fn beside(&mut self, suffix: &'static str, step: Step) -> Result<Reading, Error> {
        let before = self.rate(step, false).await?;
        let ours = self.rate(step, true).await?;
        let after = self.rate(step, false).await?;
        Ok(Reading::new(suffix, ours, "rows/s").beside(f64::midpoint(before, after), "the same by hand, before and after"))
    }

    /// Rows per second.
    async fn rate(&mut self, step: Step, ours: bool) -> Result<f64, Error> {
        let (times, rows) = if matches!(step, Step::Many) { (1, 50_000) } else { (2_000, 1) };
        let begun = Instant::now();
        for _ in 0..times {
            match (step, ours) {
                (Step::Effect, _) => self.effect(ours).await?,
                (Step::Prepared, _) => self.prepared(ours).await?,
                (_, true) => drop(self.enqueue(jobs(rows).collect()).await?),
                (_, false) => drop(self.insert(rows).await?),
            }
        }
        Ok((times * rows) as f64 / begun.elapsed().as_secs_f64())
    }

    /// Enqueues in one transaction. Gives when its commit was called.
    async fn enqueue<J: Outgoing + Send>(&mut self, mut jobs: Vec<J>) -> Result<Instant, Error> {
        let one = if jobs.len() == 1 { jobs.pop() } else { None };
        match &mut self.database {
            Database::Postgres { client, .. } => {
                use postgres::{EnqueueAllIn as _, EnqueueIn as _};
                let tx = client.transaction().await?;
                match one {
                    Some(job) => drop(job.enqueue_in(&self.outbox, &tx).await?),
                    None => drop(jobs.enqueue_all_in(&self.outbox, &tx).await?),
                }
                let called = Instant::now();
                tx.commit().await?;
                Ok(called)
            }
            Database::Sqlite(connection) => {
                use sqlite::{EnqueueAllIn as _, EnqueueIn as _};
                let tx = connection.transaction_with_behavior(Immediate)?;
                match one {
                    Some(job) => drop(job.enqueue_in(&self.outbox, &tx)?),
                    None => drop(jobs.enqueue_all_in(&self.outbox, &tx)?),
                }
                let called = Instant::now();
                tx.commit()?;
                Ok(called)
            }
        }
    }

    /// Inserts as many rows by hand in one transaction. Gives when its commit was called.
    async fn insert(&mut self, rows: usize) -> Result<Instant, Error> {
        let Prepared { id, queue, group_digest, body, .. } = &self.row;
        match &mut self.database {
            Database::Postgres { client, .. } => {
                let tx = client.transaction().await?;
                if rows == 1 {
                    let values: [Value<'_>; 4] = [(id, Type::BYTEA), (queue, Type::TEXT), (group_digest, Type::BYTEA), (body, Type::BYTEA)];
                    tx.execute_typed(ONE, &values).await?;
                } else {
                    for _ in 0..rows / CHUNK {
                        let (ids, queues, groups, bodies) =
                            (vec![id; CHUNK], vec![queue; CHUNK], vec![group_digest; CHUNK], vec![body; CHUNK]);
                        let values: [Value<'_>; 4] = [
                            (&ids, Type::BYTEA_ARRAY),
                            (&queues, Type::TEXT_ARRAY),
                            (&groups, Type::BYTEA_ARRAY),
                            (&bodies, Type::BYTEA_ARRAY),
                        ];
                        tx.execute_typed(MANY, &values).await?;
                    }
                }
                let called = Instant::now();
                tx.commit().await?;
                Ok(called)
            }
            Database::Sqlite(connection) => {
                let tx = connection.transaction_with_behavior(Immediate)?;
                for _ in 0..rows {
                    tx.prepare_cached(ONE)?.execute(params![id, queue, group_digest, body])?;
                }
                let called = Instant::now();
                tx.commit()?;
                Ok(called)
            }
        }
    }

    /// A row by a prepared statement: ours, with the values of a job, or that by hand. PostgreSQL
    /// alone.
    async fn prepared(&mut self, is_ours: bool) -> Result<(), Error> {
        let Database::Postgres { client, one, ours, .. } = &mut self.database else { return Ok(()) };
        let tx = client.transaction().await?;
        if is_ours {
            let Prepared { id, queue, group_digest, body, .. } = self.outbox.prepare(noop::job(hundred_bytes()))?;
            tx.execute(ours, &[&self.outbox.database(), &VERSION, &id, &queue, &group_digest, &body]).await?;
        } else {
            let Prepared { id, queue, group_digest, body, .. } = &self.row;
            tx.execute(one, &[id, queue, group_digest, body]).await?;
        }
        Ok(tx.commit().await?)
    }

    /// An effect and the ending of its job in one transaction.
    async fn effect(&mut self, ours: bool) -> Result<(), Error> {
        self.effects += 1;
        let n = self.effects;
        let context = TestContext::new().id(JobId::given(&n.to_string())?).build();
        // As long as ours are.
        let mut key = [0; 24];
        key[16..].copy_from_slice(&n.to_be_bytes());
        let (key, stored) = (key.as_slice(), [0; 24].as_slice());
        match &mut self.database {
            Database::Postgres { client, effect, .. } if !ours => {
                let tx = client.transaction().await?;
                tx.execute(effect, &[&n]).await?;
                tx.execute_typed(ENDING, &[(&key, Type::BYTEA), (&stored, Type::BYTEA)]).await?;
                tx.commit().await?;
            }
            Database::Postgres { client, effect, .. } => {
                use postgres::Commit as _;
                let tx = context.begin(&self.outbox, client).await?;
                tx.execute(effect, &[&n]).await?;
                let _: Done<()> = context.commit(tx, ()).await?;
            }
            Database::Sqlite(connection) if !ours => {
                let tx = connection.transaction_with_behavior(Immediate)?;
                tx.prepare_cached(EFFECT)?.execute([n])?;
                tx.prepare_cached(ENDING)?.execute([key, stored])?;
                tx.commit()?;
            }
            Database::Sqlite(connection) => {
                use sqlite::Commit as _;
                let tx = context.begin(&self.outbox, connection)?;
                tx.prepare_cached(EFFECT)?.execute([n])?;
                let _: Done<()> = context.commit(tx, ())?;
            }
        }
        Ok(())
    }

    /// Rows per second of a relay that finds all of them.
    async fn relayed(&mut self, queue: &Client) -> Result<f64, Error> {
        let (rows, inspector) = (52_000, &queue.inspector());
        let begun = Instant::now();
        let sent = wait("all rows to be sent")
            .times(5)
            .every(Duration::from_millis(2))
            .until(|| async move { inspector.stats("bench").await.is_ok_and(|stats| stats.total(Counter::Enqueued) >= rows) });
        self.relay()?.run(queue, sent).await;
        Ok(rows as f64 / begun.elapsed().as_secs_f64())
    }

    /// The same by hand, of rows in the other tables.
    async fn relayed_by_hand(&mut self, queue: &Client) -> Result<f64, Error> {
        const REQUEST: usize = 500;
        match &mut self.database {
            Database::Postgres { client, .. } => client.batch_execute("TRUNCATE hand_outbox").await?,
            Database::Sqlite(connection) => connection.execute_batch("DELETE FROM hand_outbox")?,
        }
        self.insert(50_000).await?;
        let mut sent = 0;
        let begun = Instant::now();
        loop {
            let enqueue = async |rows: usize| queue.enqueue_all(jobs(rows)).await.map(drop);
            let deleted = match &mut self.database {
                Database::Postgres { client, .. } => {
                    let tx = client.transaction().await?;
                    let sql = format!(
                        "DELETE FROM hand_outbox WHERE ctid = ANY (ARRAY(SELECT ctid FROM hand_outbox ORDER BY queue, seq LIMIT {REQUEST})) RETURNING body"
                    );
                    let deleted = tx.query_typed(&sql, &[]).await?.len();
                    enqueue(deleted).await?;
                    tx.commit().await?;
                    deleted
                }
                Database::Sqlite(connection) => {
                    connection.execute_batch("BEGIN IMMEDIATE")?;
                    let sql = format!(
                        "DELETE FROM hand_outbox WHERE seq IN (SELECT seq FROM hand_outbox ORDER BY seq LIMIT {REQUEST}) RETURNING body"
                    );
                    let deleted = {
                        let mut delete = connection.prepare_cached(&sql)?;
                        delete.query_map((), |row| row.get::<_, Vec<u8>>(0))?.collect::<Result<Vec<_>, _>>()?.len()
                    };
                    enqueue(deleted).await?;
                    connection.execute_batch("COMMIT")?;
                    deleted
                }
            };
            if deleted == 0 {
                return Ok(f64::from(sent) / begun.elapsed().as_secs_f64());
            }
            sent += u32::try_from(deleted)?;
        }
    }

    /// Milliseconds from the call of the commit to the start.
    async fn latencies(&mut self, queue: &Client) -> Result<Vec<f64>, Error> {
        let relay = self.relay()?;
        let running = Running::with(queue, 10, |worker| worker.outbox(relay));
        let mut called = Vec::new();
        for n in 0..LATENCIES + 100 {
            running.counter.want(1);
            called.push(self.enqueue(vec![stamp::job(n as u64)]).await?);
            self.outbox.wake();
            running.counter.all(Duration::from_secs(10)).await?;
            tokio::time::sleep(REST).await;
        }
        let starts = std::mem::take(&mut *running.starts.0.lock().expect("no holder panics"));
        running.stop().await;
        Ok(starts.iter().skip(100).map(|(n, start)| (*start - called[*n as usize]).as_secs_f64() * 1e3).collect())
    }
}
