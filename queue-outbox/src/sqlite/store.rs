//! The SQLite store of a relay. It has a separate connection that syncs every commit, and uses the
//! threads for blocking work.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};

use queue_core::__private::EffectsKey;

use super::with_tables;
use crate::{
    Relay,
    completion::{EffectsRow, KEPT, cleanup_before},
    desk::{OutboxChange, OutboxQueue, OutboxRow, OutboxRowId},
    error::{Error, Result},
    store::{
        BYTES, Done, Fate, LEASE, Name, PATIENCE, ROWS, Request, Row, Store, Take, Taken, digest, fitting, holder, none_in_flight,
        readable, shown, shown_holder,
    },
};

/// A row that can be sent: it is not refused, it does not wait, and no row of its group waits. A
/// row waits for 60 s at most. A later time comes from a wrong clock. ?2 is the time.
const SENDABLE: &str = "o.refused IS NULL AND (o.retry_at IS NULL OR o.retry_at NOT BETWEEN ?2 AND ?2 + 90000) \
    AND (o.group_digest IS NULL OR NOT EXISTS (SELECT 1 FROM main.queue_outbox b \
    WHERE b.queue = o.queue AND b.group_digest = o.group_digest AND b.retry_at BETWEEN ?2 AND ?2 + 90000))";

/// One row. Numbers can start again, and two queues can have jobs with the same given id.
const THIS: &str = "queue = ?1 AND seq = ?2 AND id = ?3";

const ENDING: &str = "SELECT ending FROM main.queue_effects WHERE job = ?1 AND part = ''";

const LEASE_MS: i64 = LEASE.as_millis() as i64;

impl Relay {
    /// A relay of the outbox in a SQLite file. It opens the file when it runs, and does not create
    /// it.
    pub fn sqlite(path: impl AsRef<Path>) -> Relay {
        let path = path.as_ref().to_owned();
        Relay::of(path.display().to_string(), move || Box::new(Sqlite { path: path.clone(), holder: holder(), connection: None }))
    }
}

#[derive(Debug)]
struct Sqlite {
    path: PathBuf,
    holder: Vec<u8>,
    connection: Option<Open>,
}

/// The identity of the file at a path. It changes if the file is replaced, for example by a
/// restore.
type Identity = (u64, u64);

type Open = (Connection, Option<Identity>);

fn identity(path: &Path) -> Option<Identity> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
    }
    // On these systems an open file can be neither deleted nor moved.
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

impl Sqlite {
    /// Runs some work with the connection on a blocking thread.
    async fn work<T: Send + 'static>(&mut self, work: impl FnOnce(&mut Connection, &[u8]) -> Result<T> + Send + 'static) -> Result<T> {
        let (connection, path, holder) = (self.connection.take(), self.path.clone(), self.holder.clone());
        let worked = tokio::task::spawn_blocking(move || -> Result<(Open, Result<T>)> {
            let (mut connection, file) = match connection.filter(|(_, file)| *file == identity(&path)) {
                Some(open) => open,
                None => {
                    // Read before the file is opened. If the file is replaced in between, it is
                    // opened again.
                    let file = identity(&path);
                    (open(&path)?, file)
                }
            };
            let done = work(&mut connection, &holder);
            Ok(((connection, file), done))
        });
        let (connection, done) = worked.await.map_err(|panic| queue_core::Error::Internal(panic.to_string()))??;
        self.connection = Some(connection);
        done
    }

    /// The same in a write transaction. The result of the work selects whether it commits.
    async fn write<T: Send + 'static>(&mut self, work: impl FnOnce(&Tx<'_>) -> Result<(T, bool)> + Send + 'static) -> Result<T> {
        self.work(move |connection, holder| {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let now: i64 = tx.query_row("SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)", (), |row| row.get(0))?;
            let tx = Tx { tx, now, holder };
            let (done, commits) = work(&tx)?;
            if commits {
                tx.tx.commit()?
            } else {
                tx.tx.rollback()?
            };
            Ok(done)
        })
        .await
    }
}

fn open(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// Broker, producer, number, rows and digest of the request of a queue, and the number up to which
/// rows are suspect.
type Leased = (Option<String>, Option<String>, i64, Option<String>, Option<Vec<u8>>, i64);

struct Tx<'a> {
    tx: Transaction<'a>,
    now: i64,
    holder: &'a [u8],
}

impl Tx<'_> {
    fn end(&self, queue: &str, done: &Done) -> Result<()> {
        let Done { request: Request { name, number, digest, rows, .. }, fates } = done;
        let ended = self.tx.execute(
            "UPDATE main.queue_relay SET seqs = NULL, digest = NULL \
             WHERE queue = ?1 AND producer = ?2 AND number = ?3 AND digest = ?4 AND seqs IS NOT NULL",
            params![queue, name.producer, number, digest.as_slice()],
        )?;
        if ended == 0 {
            return Ok(());
        }
        for (row, fate) in rows.iter().zip(fates) {
            match fate {
                Fate::Sent => {
                    let mut delete = self.tx.prepare_cached(&format!("DELETE FROM main.queue_outbox WHERE {THIS}"))?;
                    delete.execute(params![queue, row.seq, row.id])?;
                }
                Fate::Later => {
                    let later =
                        format!("UPDATE main.queue_outbox SET retry_at = ?4 + min(max((?4 - created_at) / 2, 1000), 60000) WHERE {THIS}");
                    self.tx.execute(&later, params![queue, row.seq, row.id, self.now])?;
                }
                Fate::Refused(why) => self.refuse(queue, row, why)?,
                Fate::Held => {}
            }
        }
        Ok(())
    }

    fn refuse(&self, queue: &str, row: &Row, why: &str) -> Result<()> {
        let refuse = format!("UPDATE main.queue_outbox SET refused = ?4, retry_at = NULL WHERE {THIS}");
        self.tx.execute(&refuse, params![queue, row.seq, row.id, why])?;
        Ok(())
    }

    fn rows(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<Row>> {
        let mut statement = self.tx.prepare_cached(sql)?;
        let read = |row: &rusqlite::Row<'_>| {
            let created_ms: i64 = row.get(3)?;
            let age = Duration::from_millis(u64::try_from(self.now - created_ms).unwrap_or(0));
            Ok(Row { seq: row.get(0)?, id: row.get(1)?, body: row.get(2)?, created_ms, age })
        };
        Ok(statement.query_map(values, read)?.collect::<Result<_, _>>()?)
    }

    fn in_flight(&self, queue: &str, seqs: &str) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for seq in numbers(seqs) {
            rows.extend(
                self.rows("SELECT seq, id, body, created_at FROM main.queue_outbox WHERE queue = ?1 AND seq = ?2", params![queue, seq])?,
            );
        }
        Ok(rows)
    }

    fn next(&self, queue: &str) -> Result<Vec<Row>> {
        let sql = format!(
            "SELECT o.seq, o.id, o.body, o.created_at FROM main.queue_outbox o WHERE o.queue = ?1 AND {SENDABLE} ORDER BY o.seq LIMIT {ROWS}"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut found = statement.query(params![queue, self.now])?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(row) = found.next()? {
            let created_ms: i64 = row.get(3)?;
            let age = Duration::from_millis(u64::try_from(self.now - created_ms).unwrap_or(0));
            let row = Row { seq: row.get(0)?, id: row.get(1)?, body: row.get(2)?, created_ms, age };
            bytes += row.body.len();
            rows.push(row);
            if bytes > BYTES {
                break;
            }
        }
        Ok(rows)
    }

    fn store(&self, queue: &str, name: &Name, number: i64, rows: &[Row]) -> Result<[u8; 16]> {
        let (seqs, digest): (Vec<String>, _) = (rows.iter().map(|row| row.seq.to_string()).collect(), digest(rows));
        self.tx.execute(
            "UPDATE main.queue_relay SET broker = ?2, producer = ?3, number = ?4, seqs = ?5, digest = ?6 WHERE queue = ?1",
            params![queue, name.broker, name.producer, number, seqs.join(","), digest.as_slice()],
        )?;
        Ok(digest)
    }

    fn give_back(&self, queue: &str) -> Result<()> {
        self.tx.execute("UPDATE main.queue_relay SET holder = NULL, until = NULL WHERE queue = ?1", [queue])?;
        Ok(())
    }

    /// Acquires or keeps the lease. Only a new request extends it.
    fn lease(&self, queue: &str) -> Result<Option<Leased>> {
        const LEASED: &str = "UPDATE main.queue_relay SET holder = ?2, until = CASE WHEN holder = ?2 AND seqs IS NOT NULL THEN until ELSE ?3 + ?4 END \
            WHERE queue = ?1 AND (holder = ?2 OR until IS NULL OR until NOT BETWEEN ?3 AND ?3 + ?4) \
            RETURNING broker, producer, number, seqs, digest, coalesce(suspect, -1)";
        self.tx.execute("INSERT OR IGNORE INTO main.queue_relay (queue) VALUES (?1)", [queue])?;
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?));
        Ok(self.tx.query_row(LEASED, params![queue, self.holder, self.now, LEASE_MS], read).optional()?)
    }

    fn take(&self, queue: &str, broker: &str, fresh: Option<&str>, done: Option<&Done>) -> Result<(Taken, bool)> {
        if let Some(done) = done {
            self.end(queue, done)?;
        }
        let Some((known, producer, number, seqs, stored, suspect)) = self.lease(queue)? else { return Ok((Taken::Leased, true)) };
        let name = known.zip(producer).map(|(broker, producer)| Name { broker, producer });
        if let (Some(seqs), Some(name)) = (seqs, &name) {
            if name.broker != broker {
                return Ok((Taken::in_flight_at(&name.broker, seqs.split(',').count()), false));
            }
            let rows = self.in_flight(queue, &seqs)?;
            let is_changed = Some(digest(&rows).as_slice()) != stored.as_deref();
            let digest = stored.and_then(|stored| stored.try_into().ok()).unwrap_or_default();
            return Ok((Taken::Request(Request { name: name.clone(), number, digest, rows, is_changed, suspect }), true));
        }
        let (mut rows, bad, newer) = readable(queue, self.next(queue)?);
        for (row, why) in bad {
            tracing::warn!(queue, seq = row.seq, why, "a row of the outbox was rejected and will not be sent again");
            self.refuse(queue, &row, &why)?;
        }
        if rows.is_empty() {
            let Some(newer) = newer else { return Ok((Taken::Nothing, true)) };
            self.give_back(queue)?;
            return Ok((Taken::NotHere(newer.to_string()), true));
        }
        rows.truncate(fitting(&rows));
        let (name, number) = match (name.filter(|name| name.broker == broker), fresh) {
            (Some(name), _) => (name, number + 1),
            (None, Some(fresh)) => (Name { broker: broker.to_owned(), producer: fresh.to_owned() }, 1),
            (None, None) => {
                self.give_back(queue)?;
                return Ok((Taken::Nameless, true));
            }
        };
        let digest = self.store(queue, &name, number, &rows)?;
        Ok((Taken::Request(Request { name, number, digest, rows, is_changed: false, suspect }), true))
    }

    fn rename(&self, queue: &str, request: &Request, name: &Name, all: bool) -> Result<()> {
        let all: Option<i64> = match all {
            true => self.tx.query_row("SELECT max(seq) FROM main.queue_outbox WHERE queue = ?1", [queue], |row| row.get(0))?,
            false => None,
        };
        let last = request.rows.last().map_or(-1, |row| row.seq).max(all.unwrap_or(-1));
        self.tx.execute(
            "UPDATE main.queue_relay \
             SET broker = ?2, producer = ?3, number = 0, seqs = NULL, digest = NULL, suspect = max(coalesce(suspect, -1), ?4) \
             WHERE queue = ?1 AND producer = ?5 AND number = ?6 AND digest = ?7 AND seqs IS NOT NULL",
            params![queue, name.broker, name.producer, last, request.name.producer, request.number, request.digest.as_slice()],
        )?;
        Ok(())
    }
}

/// For operators.
impl Tx<'_> {
    fn change(&self, queue: &str, change: &OutboxChange) -> Result<Vec<OutboxRowId>> {
        let seqs = "SELECT seqs FROM main.queue_relay WHERE queue = ?1";
        let stored: Option<Option<String>> = self.tx.query_row(seqs, [queue], |row| row.get(0)).optional().map_err(with_tables)?;
        let stored = stored.flatten().unwrap_or_default();
        let in_flight = numbers(&stored);
        let retry = "UPDATE main.queue_outbox SET refused = NULL, retry_at = NULL WHERE (refused IS NOT NULL OR retry_at IS NOT NULL) AND";
        let read = |row: &rusqlite::Row<'_>| Ok(OutboxRowId { seq: row.get(0)?, job: row.get(1)? });
        let (sql, of) = match change {
            OutboxChange::Retry(of) if of.is_empty() => {
                let mut statement = self.tx.prepare(&format!("{retry} queue = ?1 RETURNING seq, id"))?;
                return Ok(statement.query_map([queue], read)?.collect::<Result<_, _>>()?);
            }
            OutboxChange::Retry(of) => (format!("{retry} {THIS}"), of),
            OutboxChange::Drop(of) => {
                none_in_flight(&in_flight, of)?;
                (format!("DELETE FROM main.queue_outbox WHERE {THIS}"), of)
            }
            OutboxChange::Release => {
                let sql = "UPDATE main.queue_relay SET holder = NULL, until = NULL, broker = NULL, producer = NULL, number = 0, seqs = NULL, digest = NULL, \
                    suspect = max(coalesce(suspect, -1), ?2) WHERE queue = ?1 AND seqs IS NOT NULL";
                self.tx.execute(sql, params![queue, in_flight.iter().max().unwrap_or(&-1)])?;
                return Ok(self.in_flight(queue, &stored)?.iter().map(Row::name).collect());
            }
        };
        let mut statement = self.tx.prepare(&format!("{sql} RETURNING seq, id"))?;
        let changed = of.iter().map(|row| statement.query_row(params![queue, row.seq, row.job], read).optional());
        Ok(changed.filter_map(Result::transpose).collect::<Result<_, _>>()?)
    }
}

/// The row numbers of a stored request.
fn numbers(seqs: &str) -> Vec<i64> {
    seqs.split(',').filter_map(|seq| seq.parse().ok()).collect()
}

#[async_trait]
impl Store for Sqlite {
    async fn open(&mut self) -> Result<Vec<u8>> {
        self.work(|connection, _| {
            let (id, version) = super::database(connection)?;
            if version > crate::VERSION {
                return Err(Error::TooNew { found: version, known: crate::VERSION });
            }
            Ok(id)
        })
        .await
    }

    async fn queues(&mut self) -> Result<Vec<String>> {
        self.work(|connection, _| {
            let sql = format!(
                "WITH RECURSIVE q(queue) AS (SELECT min(queue) FROM main.queue_outbox UNION ALL \
                 SELECT (SELECT min(o.queue) FROM main.queue_outbox o WHERE o.queue > q.queue) FROM q WHERE q.queue IS NOT NULL), \
                 t(now) AS (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)) \
                 SELECT queue FROM q, t WHERE queue IS NOT NULL AND EXISTS (SELECT 1 FROM main.queue_outbox o WHERE o.queue = q.queue AND {}) \
                 UNION SELECT queue FROM main.queue_relay WHERE seqs IS NOT NULL",
                SENDABLE.replace("?2", "t.now")
            );
            let mut statement = connection.prepare_cached(&sql).map_err(with_tables)?;
            let queues = statement.query_map((), |row| row.get(0))?.collect::<Result<_, _>>()?;
            Ok(queues)
        })
        .await
    }

    async fn take(&mut self, take: &Take<'_>) -> Result<Taken> {
        let (queue, broker) = (take.queue.to_owned(), take.broker.to_owned());
        let (fresh, done) = (take.name.map(str::to_owned), take.done.cloned());
        self.write(move |tx| tx.take(&queue, &broker, fresh.as_deref(), done.as_ref())).await
    }

    async fn rename(&mut self, queue: &str, request: &Request, name: &Name, all: bool) -> Result<()> {
        let (queue, request, name) = (queue.to_owned(), request.clone(), name.clone());
        self.write(move |tx| Ok((tx.rename(&queue, &request, &name, all)?, true))).await
    }

    async fn release(&mut self, done: &[(&str, &Done)]) -> Result<()> {
        let done: Vec<(String, Done)> = done.iter().map(|(queue, done)| ((*queue).to_owned(), (*done).clone())).collect();
        self.write(move |tx| {
            for (queue, done) in &done {
                tx.end(queue, done)?;
            }
            tx.tx.execute("UPDATE main.queue_relay SET holder = NULL, until = NULL WHERE holder = ?1", [tx.holder])?;
            Ok(((), true))
        })
        .await
    }

    async fn set_full(&mut self, queues: &[String]) -> Result<()> {
        let full: String = queues.iter().fold(",".to_owned(), |all, queue| all + queue + ",");
        let is_so = full.clone();
        let known = self.work(move |connection, _| {
            let sql = "SELECT full_queues = ?1 FROM main.queue_database";
            connection.query_row(sql, [&is_so], |row| row.get(0)).optional().map_err(with_tables)
        });
        if known.await? == Some(true) {
            // Without a change there is no write.
            return Ok(());
        }
        let changed = move |tx: &Tx<'_>| Ok((tx.tx.execute("UPDATE main.queue_database SET full_queues = ?1", [&full])?, true));
        self.write(changed).await.map(drop)
    }

    async fn figures(&mut self, most: i64) -> Result<Vec<OutboxQueue>> {
        self.work(move |connection, _| {
            // The oldest row is the row with the lowest number, or nearly so.
            let sql = "WITH RECURSIVE q(queue) AS (SELECT min(queue) FROM main.queue_outbox UNION ALL \
                SELECT (SELECT min(o.queue) FROM main.queue_outbox o WHERE o.queue > q.queue) FROM q WHERE q.queue IS NOT NULL), \
                t(now) AS (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)), \
                n(queue) AS (SELECT queue FROM q WHERE queue IS NOT NULL UNION SELECT queue FROM main.queue_relay WHERE queue <> '') \
                SELECT n.queue, (SELECT count(*) FROM (SELECT 1 FROM main.queue_outbox o WHERE o.queue = n.queue LIMIT ?2)), \
                (SELECT count(*) FROM (SELECT 1 FROM main.queue_outbox o WHERE o.queue = n.queue AND o.refused IS NOT NULL LIMIT ?2)), \
                (SELECT t.now - o.created_at FROM main.queue_outbox o WHERE o.queue = n.queue AND o.refused IS NULL ORDER BY o.seq LIMIT 1), \
                r.seqs, r.broker, CASE WHEN r.until BETWEEN t.now AND t.now + ?1 THEN r.holder END, \
                coalesce((SELECT instr(d.full_queues, ',' || n.queue || ',') > 0 FROM main.queue_database d), 0) \
                FROM n, t LEFT JOIN main.queue_relay r ON r.queue = n.queue ORDER BY n.queue";
            let number = |row: &rusqlite::Row<'_>, at| Ok::<_, rusqlite::Error>(u64::try_from(row.get::<_, i64>(at)?).unwrap_or(0));
            let read = |row: &rusqlite::Row<'_>| {
                let (rows, refused, age): (u64, u64, Option<i64>) = (number(row, 1)?, number(row, 2)?, row.get(3)?);
                let (seqs, holder): (Option<String>, Option<Vec<u8>>) = (row.get(4)?, row.get(6)?);
                Ok(OutboxQueue {
                    queue: row.get(0)?,
                    waiting: rows.saturating_sub(refused),
                    refused,
                    oldest: age.map(|age| Duration::from_millis(u64::try_from(age).unwrap_or(0))),
                    in_flight: seqs.map_or(0, |seqs| numbers(&seqs).len() as u64),
                    broker: row.get(5)?,
                    leased: holder.is_some(),
                    holder: holder.map(|holder| shown_holder(&holder)),
                    full: row.get(7)?,
                })
            };
            let mut statement = connection.prepare_cached(sql).map_err(with_tables)?;
            Ok(statement.query_map([LEASE_MS, most], read)?.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn rows(&mut self, queue: &str, refused: bool, limit: u32) -> Result<Vec<OutboxRow>> {
        let queue = queue.to_owned();
        self.work(move |connection, _| {
            let sql = "WITH t(now) AS (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)) \
                SELECT o.seq, o.id, o.body, o.created_at, t.now - o.created_at, coalesce(o.retry_at BETWEEN t.now AND t.now + 90000, 0), o.refused \
                FROM main.queue_outbox o, t WHERE o.queue = ?1 AND (o.refused IS NOT NULL OR NOT ?2) ORDER BY o.seq LIMIT ?3";
            let mut statement = connection.prepare(sql).map_err(with_tables)?;
            let read = |row: &rusqlite::Row<'_>| {
                let age = Duration::from_millis(u64::try_from(row.get::<_, i64>(4)?).unwrap_or(0));
                let found = Row { seq: row.get(0)?, id: row.get(1)?, body: row.get(2)?, created_ms: row.get(3)?, age };
                Ok(shown(&queue, &found, row.get(5)?, row.get(6)?))
            };
            Ok(statement.query_map(params![queue, refused, limit], read)?.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn change(&mut self, queue: &str, change: &OutboxChange) -> Result<Vec<OutboxRowId>> {
        let (queue, change) = (queue.to_owned(), change.clone());
        self.write(move |tx| Ok((tx.change(&queue, &change)?, true))).await
    }

    async fn endings(&mut self, keys: &[&[u8]]) -> Result<(Vec<u8>, Vec<Option<Vec<u8>>>)> {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        self.work(move |connection, _| {
            let tx = connection.transaction()?;
            let (id, _) = super::database(&tx)?;
            let mut select = tx.prepare_cached(ENDING).map_err(with_tables)?;
            let endings = keys.iter().map(|key| select.query_row([key], |row| row.get(0)).optional()).collect::<Result<_, _>>()?;
            Ok((id, endings))
        })
        .await
    }

    /// Only one transaction writes at a time, so a new one sees all committed data.
    async fn settled(&mut self, key: &EffectsKey) -> Result<Option<Vec<u8>>> {
        let key = *key;
        self.write(move |tx| {
            let found = tx.tx.prepare_cached(ENDING).map_err(with_tables)?.query_row([key.as_slice()], |row| row.get(0)).optional()?;
            Ok((found, false))
        })
        .await
    }

    async fn may_clean(&mut self) -> Result<bool> {
        self.write(|tx| Ok((tx.lease("")?.is_some(), true))).await
    }

    async fn effects(&mut self, after: &[u8], limit: usize) -> Result<Vec<EffectsRow>> {
        let (after, limit) = (after.to_vec(), i64::try_from(limit).unwrap_or(i64::MAX));
        self.work(move |connection, _| {
            let now: i64 =
                connection.query_row("SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)", (), |row| row.get(0))?;
            let sql = "SELECT job, ending, at < ?3 FROM main.queue_effects WHERE part = '' AND job > ?1 AND job < ?2 ORDER BY job LIMIT ?4";
            let mut select = connection.prepare_cached(sql).map_err(with_tables)?;
            let read = |row: &rusqlite::Row<'_>| Ok(EffectsRow { key: row.get(0)?, ending: row.get(1)?, is_old: row.get(2)? });
            let old = now.saturating_sub(i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX));
            Ok(select.query_map(params![after, cleanup_before(now).as_slice(), old, limit], read)?.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn remove_effects(&mut self, rows: &[EffectsRow]) -> Result<()> {
        let rows = rows.to_vec();
        self.write(move |tx| {
            let mut delete = tx.tx.prepare_cached("DELETE FROM main.queue_effects WHERE job = ?1 AND ending = ?2")?;
            for row in &rows {
                delete.execute(params![row.key, row.ending])?;
            }
            Ok(((), true))
        })
        .await
    }

    fn disconnect(&mut self) {
        self.connection = None;
    }
}
