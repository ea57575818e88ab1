//! The loop that one would write by hand: one thread, the broker's tables, its statements, its
//! pragmas, and batches as large as the concurrency that the figure has. It has no leases, no
//! names, no wake-ups, no handlers.

use std::{path::Path, time::Instant};

use rusqlite::{Connection, config::DbConfig, params};

/// A connection to a database that a broker has made, with one job in it.
#[derive(Debug)]
pub(super) struct ByHand {
    connection: Connection,
    queue: i64,
    worker: i64,
    tail: i64,
    /// Of the job that the broker stored; the others get the same, and ids that only grow.
    envelope: Vec<u8>,
    id: Vec<u8>,
    next: u64,
}

/// As the broker numbers states.
const READY: i64 = 0;
const ACTIVE: i64 = 4;

impl ByHand {
    pub(super) fn open(file: &Path, queue: &str) -> rusqlite::Result<Self> {
        let connection = Connection::open(file)?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "cache_size", -16_000)?;
        connection.pragma_update(None, "wal_autocheckpoint", 1000)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(128);
        let (queue, tail) =
            connection.query_row("SELECT queue, tail FROM queue_queues WHERE name = ?1", [queue], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (id, envelope) = connection.query_row("SELECT id, envelope FROM queue_jobs", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        connection.execute("INSERT INTO queue_lanes (queue, name, process, deadline) VALUES (?1, 'by hand', 'by hand', 0)", [queue])?;
        let worker = connection.last_insert_rowid();
        Ok(ByHand { connection, queue, worker, tail, envelope, id, next: 0 })
    }

    /// Jobs per second of so many in transactions of `batch`.
    pub(super) fn enqueue(&mut self, n: usize, batch: usize) -> rusqlite::Result<f64> {
        let begun = Instant::now();
        for from in (0..n).step_by(batch) {
            self.run("BEGIN IMMEDIATE")?;
            for _ in from..(from + batch).min(n) {
                self.tail += 1;
                self.next += 1;
                let tail = self.id.len() - 8;
                self.id[tail..].copy_from_slice(&self.next.to_be_bytes());
                self.connection
                    .prepare_cached(
                        "INSERT INTO queue_jobs (queue, id, state, rank, pos, priority, envelope, digest)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
                    )?
                    .execute(params![self.queue, self.id, READY, 2, self.tail, 2, self.envelope, None::<i64>])?;
            }
            self.connection
                .prepare_cached("UPDATE queue_queues SET claim = ?2, head = ?3, tail = ?4 WHERE queue = ?1")?
                .execute(params![self.queue, 0, 0, self.tail])?;
            self.run("COMMIT")?;
        }
        Ok(n as f64 / begun.elapsed().as_secs_f64())
    }

    /// Jobs per second of all that are stored. A transaction removes the jobs of the one before,
    /// and claims the next `batch`.
    pub(super) fn process(&mut self, batch: usize) -> rusqlite::Result<f64> {
        let begun = Instant::now();
        let (mut done, mut claim) = (0, 0);
        let mut held: Vec<Vec<u8>> = Vec::new();
        loop {
            self.run("BEGIN IMMEDIATE")?;
            for id in &held {
                self.connection
                    .prepare_cached("DELETE FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state = ?3 AND rank = ?4 AND pos = ?5")?
                    .execute(params![self.queue, id, ACTIVE, self.worker, claim])?;
            }
            done += held.len();
            claim += 1;
            let found: Vec<(Vec<u8>, Vec<u8>)> = self
                .connection
                .prepare_cached(
                    "SELECT id, envelope, attempts, crashes, snoozes FROM queue_jobs
                     WHERE queue = ?1 AND state = ?2 ORDER BY rank, pos LIMIT ?3",
                )?
                .query_map(params![self.queue, READY, batch as i64], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            for (id, _) in &found {
                self.connection
                    .prepare_cached("UPDATE queue_jobs SET state = ?3, rank = ?4, pos = ?5 WHERE queue = ?1 AND id = ?2")?
                    .execute(params![self.queue, id, ACTIVE, self.worker, claim])?;
            }
            self.connection
                .prepare_cached("UPDATE queue_lanes SET seq = ?2, answer = ?3, deadline = ?4 WHERE lane = ?1")?
                .execute(params![self.worker, claim, None::<Vec<u8>>, claim])?;
            self.run("COMMIT")?;
            if found.is_empty() {
                return Ok(done as f64 / begun.elapsed().as_secs_f64());
            }
            held = found.into_iter().map(|(id, envelope)| (id, std::hint::black_box(envelope)).0).collect();
        }
    }

    fn run(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }
}
