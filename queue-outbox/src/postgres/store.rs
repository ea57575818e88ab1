//! The PostgreSQL store of a relay. Every transaction is short, and none is open while the broker
//! is called.

mod floor;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_util::{
    StreamExt,
    future::{BoxFuture, join3},
    stream::poll_fn,
};
use queue_core::__private::EffectsKey;
use tokio::time::timeout;
use tokio_postgres::{
    AsyncMessage, Client, IsolationLevel, Row as PgRow, Transaction,
    types::{ToSql, Type},
};

use self::floor::Floors;
use super::{url::Url, with_tables};
use crate::{
    Relay, bell,
    completion::{EffectsRow, KEPT, cleanup_before},
    desk::{OutboxChange, OutboxQueue, OutboxRow, OutboxRowId},
    dialect::{Dialect, LISTEN, read_hex},
    error::{Error, Result},
    store::{
        BYTES, Done, Fate, LEASE, Name, PATIENCE, ROWS, Request, Row, Store, Take, Taken, digest, fitting, holder, none_in_flight,
        readable, shown, shown_holder,
    },
};

/// The connection of a call that takes longer is considered lost.
const DEADLINE: Duration = Duration::from_secs(15);

/// How long a take waits for the row of its queue, which another session may have locked. The other
/// queues wait during this time.
const TAKE_WAITS: &str = "500ms";

/// The first statement of every transaction of a relay. A plan for an empty table must not be used
/// on a full one. Rows that row-level security hides are an error. JIT is off: without sequential
/// scans, the estimated costs are so high that PostgreSQL would compile each plan, which takes half
/// a second.
const GUARD: &str = "SELECT set_config('lock_timeout', '{lock}', true), set_config('statement_timeout', '5s', true), \
    set_config('idle_in_transaction_session_timeout', '5s', true), set_config('tcp_user_timeout', '8s', true), set_config('row_security', 'off', true), \
    set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true), \
    CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END";

/// A row that waits because it was refused for now. It waits for 60 s at most. A later time comes
/// from a wrong clock.
const WAITS: &str = "retry_at BETWEEN now() AND now() + interval '90 s'";

/// A row that can be sent: it is not refused, it does not wait, and no row of its group waits.
/// `{w}` selects the groups of waiting rows, once and not for each row.
const SENDABLE: &str =
    "o.refused IS NULL AND (o.retry_at IS NULL OR NOT o.{waits}) AND (o.group_digest IS NULL OR (o.queue, o.group_digest) NOT IN ({w}))";

/// The rows of the queue `$1` with these numbers `$2` and ids `$3`. It makes one look-up for each
/// row. A join would read the whole queue if the table was never analyzed.
const THESE: &str = "queue = $1 AND ctid = ANY (ARRAY(SELECT o.ctid FROM unnest($2::bigint[], $3::bytea[]) AS r(seq, id) CROSS JOIN LATERAL \
    (SELECT ctid FROM {s}.queue_outbox WHERE queue = $1 AND seq = r.seq AND id = r.id LIMIT 1) o))";

/// `f`: the queues that have rows, and their floors `$1` and `$2`. Queues with a floor are known.
/// The others are found by a loose index scan between them.
const QUEUES: &str = "k AS (SELECT k.queue, lead(k.queue) OVER (ORDER BY k.queue) AS next, k.floor \
    FROM (SELECT '' AS queue, 0::int8 AS floor UNION ALL SELECT * FROM unnest($1::text[], $2::int8[])) k), \
    q AS (SELECT queue, next FROM k UNION ALL SELECT CASE WHEN q.next IS NULL \
    THEN (SELECT o.queue FROM {s}.queue_outbox o WHERE o.queue > q.queue ORDER BY o.queue LIMIT 1) \
    ELSE (SELECT o.queue FROM {s}.queue_outbox o WHERE o.queue > q.queue AND o.queue < q.next ORDER BY o.queue LIMIT 1) END, q.next \
    FROM q WHERE q.queue IS NOT NULL), \
    f AS MATERIALIZED (SELECT q.queue, coalesce(k.floor, -9223372036854775808) AS floor FROM q LEFT JOIN k ON k.queue = q.queue WHERE q.queue <> '')";

fn sendable(groups_that_wait: &str) -> String {
    SENDABLE.replace("{w}", groups_that_wait).replace("{waits}", WAITS)
}

/// The columns of a [`Row`].
const COLUMNS: &str = "o.seq, o.id, o.body, (extract(epoch FROM o.created_at) * 1000)::int8, \
    greatest(0, extract(epoch FROM clock_timestamp() - o.created_at) * 1000)::int8";

type Connect = dyn Fn() -> BoxFuture<'static, Result<Client, tokio_postgres::Error>> + Send + Sync;

impl Relay {
    /// A relay of the outbox in the schema `public` of the database at this URL:
    /// `postgres://user:password@host/database`. With the feature `tls`, `sslmode` selects the use
    /// of TLS (`prefer`, `require`, `verify-ca`, `verify-full`). The relay trusts the certificates
    /// in the file `sslrootcert`, or else those of the public authorities. For any other way to
    /// connect, see [`postgres_with`](Self::postgres_with).
    ///
    /// # Errors
    /// [`Error::Postgres`] for a URL that cannot be read, [`Error::Invalid`] for a parameter of TLS
    /// that cannot be used.
    pub fn postgres(url: &str) -> Result<Relay> {
        Relay::postgres_in(url, "public")
    }

    /// The same for an outbox in another schema.
    ///
    /// # Errors
    /// The same, and [`Error::Invalid`] for an invalid name of a schema.
    pub fn postgres_in(url: &str, schema: &str) -> Result<Relay> {
        let Url { config, tls } = Url::read(url)?;
        let what = format!("PostgreSQL database `{}`", config.get_dbname().or(config.get_user()).unwrap_or_default());
        Relay::postgres_with(what, schema, move || {
            let (config, tls) = (config.clone(), tls.connector());
            async move {
                let (client, mut connection) = config.connect(tls).await?;
                tokio::spawn(async move {
                    let mut messages = poll_fn(move |context| connection.poll_message(context));
                    // The caller of a query also gets an error.
                    while let Some(Ok(message)) = messages.next().await {
                        if let AsyncMessage::Notification(notification) = message
                            && let Some(database) = read_hex(notification.payload())
                        {
                            bell::of(&database).send_replace(());
                        }
                    }
                });
                client.batch_execute(LISTEN).await?;
                Ok(client)
            }
        })
    }

    /// A relay with connections that the application opens, for example with client certificates or
    /// with a secret that changes. `what` names the database in log lines and in reports. `schema`
    /// is the schema of the tables.
    ///
    /// `connect` returns an exclusive connection, and spawns its driver. A relay calls it
    /// when it starts, after each error, and about once a minute for the cleanup of endings; a
    /// worker also for the look-ups of endings. Such a relay does not receive `pg_notify`: call
    /// [`Outbox::wake`](crate::Outbox::wake) when your connection receives a notification of the
    /// channel `queue_outbox`, or let it poll.
    ///
    /// ```no_run
    /// use queue_outbox::Relay;
    /// use tokio_postgres::NoTls;
    ///
    /// # fn example() -> queue_outbox::Result<()> {
    /// let relay = Relay::postgres_with("orders", "public", || async {
    ///     let password = std::fs::read("/run/secrets/orders").unwrap_or_default();
    ///     let mut config = tokio_postgres::Config::new();
    ///     let (client, driver) = config.host("db").user("shop").dbname("shop").password(password).connect(NoTls).await?;
    ///     tokio::spawn(driver);
    ///     Ok(client)
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] for the name of a schema that cannot be one. An error of `connect` is
    /// logged as `cannot read the outbox`, and the relay connects again after a pause.
    pub fn postgres_with<F>(what: impl Into<String>, schema: &str, connect: impl Fn() -> F + Send + Sync + 'static) -> Result<Relay>
    where
        F: Future<Output = Result<Client, tokio_postgres::Error>> + Send + 'static,
    {
        let schema = Dialect::Postgres.schema(schema)?;
        let connect: Arc<Connect> = Arc::new(move || Box::pin(connect()));
        Ok(Relay::of(what, move || {
            Box::new(Postgres {
                connect: connect.clone(),
                schema: schema.clone(),
                holder: holder(),
                client: None,
                database: Vec::new(),
                floors: Floors::default(),
            })
        }))
    }
}

struct Postgres {
    connect: Arc<Connect>,
    schema: String,
    holder: Vec<u8>,
    client: Option<Client>,
    /// The identity of the database to which the floors belong.
    database: Vec<u8>,
    floors: Floors,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("schema", &self.schema).finish_non_exhaustive()
    }
}

type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// A transaction of a relay, in a schema.
struct Tx<'a> {
    tx: Transaction<'a>,
    schema: &'a str,
    holder: &'a [u8],
}

impl Postgres {
    async fn client(&mut self) -> Result<&mut Client> {
        let client = match self.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => (self.connect)().await?,
        };
        Ok(self.client.insert(client))
    }

    async fn begin(&mut self) -> Result<Tx<'_>> {
        self.begin_waiting("5s").await
    }

    /// The same with a maximum time for which statements wait for a lock.
    async fn begin_waiting(&mut self, lock: &str) -> Result<Tx<'_>> {
        self.client().await?;
        let Some(client) = &mut self.client else { unreachable!("it was connected") };
        let tx = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await?;
        tx.query_typed(&GUARD.replace("{lock}", lock), &[]).await?;
        Ok(Tx { tx, schema: &self.schema, holder: &self.holder })
    }
}

/// Ends every wait: no timeout of the server ends a COMMIT that waits for a standby.
async fn in_time<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(DEADLINE, work).await.unwrap_or(Err(Error::Late(DEADLINE)))
}

impl Tx<'_> {
    /// Runs a statement. `{s}` in it is replaced by the schema.
    async fn run(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<PgRow>> {
        self.tx.query_typed(&sql.replace("{s}", self.schema), values).await.map_err(with_tables)
    }

    /// The queues that have a row to send, from their floors on.
    async fn queues(&self, floors: &Floors) -> Result<Vec<String>> {
        let (known, from) = floors.all();
        let sql = format!(
            "WITH RECURSIVE {QUEUES}, w AS MATERIALIZED (SELECT b.queue, b.group_digest FROM f JOIN {{s}}.queue_outbox b ON b.queue = f.queue \
             WHERE b.group_digest IS NOT NULL AND b.{WAITS}) \
             SELECT queue FROM f WHERE (SELECT TRUE FROM {{s}}.queue_outbox o WHERE o.queue = f.queue AND o.seq >= f.floor AND {} LIMIT 1) \
             UNION SELECT queue FROM {{s}}.queue_relay WHERE seqs IS NOT NULL",
            sendable("SELECT queue, group_digest FROM w")
        );
        let values: [Value<'_>; 2] = [(&known, Type::TEXT_ARRAY), (&from, Type::INT8_ARRAY)];
        let found = self.run(&sql, &values).await?;
        Ok(found.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
    }

    /// Ends a request, if it is still the one in flight: its rows are deleted or set aside.
    async fn end(&self, queue: &str, done: &Done) -> Result<()> {
        let Done { request: Request { name, number, digest, rows, .. }, fates } = done;
        let digest = digest.as_slice();
        let ended = self
            .run(
                "UPDATE {s}.queue_relay SET seqs = NULL, digest = NULL \
                 WHERE queue = $1 AND producer = $2 AND number = $3 AND digest = $4 AND seqs IS NOT NULL RETURNING 1",
                &[(&queue, Type::TEXT), (&name.producer, Type::TEXT), (number, Type::INT8), (&digest, Type::BYTEA)],
            )
            .await?;
        if ended.is_empty() {
            return Ok(());
        }
        let of = |fate: &Fate| -> (Vec<i64>, Vec<&[u8]>) {
            rows.iter().zip(fates).filter(|(_, of)| *of == fate).map(|(row, _)| (row.seq, row.id.as_slice())).unzip()
        };
        let (seqs, ids) = of(&Fate::Sent);
        if !seqs.is_empty() {
            self.run(
                &format!("DELETE FROM {{s}}.queue_outbox WHERE {THESE}"),
                &[(&queue, Type::TEXT), (&seqs, Type::INT8_ARRAY), (&ids, Type::BYTEA_ARRAY)],
            )
            .await?;
        }
        let (seqs, ids) = of(&Fate::Later);
        if !seqs.is_empty() {
            self.run(
                &format!(
                    "UPDATE {{s}}.queue_outbox SET retry_at = clock_timestamp() + \
                     least(greatest((clock_timestamp() - created_at) / 2, interval '1 s'), interval '60 s') WHERE {THESE}"
                ),
                &[(&queue, Type::TEXT), (&seqs, Type::INT8_ARRAY), (&ids, Type::BYTEA_ARRAY)],
            )
            .await?;
        }
        for (row, fate) in rows.iter().zip(fates) {
            if let Fate::Refused(why) = fate {
                self.refuse(queue, row, why).await?;
            }
        }
        Ok(())
    }

    async fn refuse(&self, queue: &str, row: &Row, why: &str) -> Result<()> {
        self.run(
            "UPDATE {s}.queue_outbox SET refused = $4, retry_at = NULL WHERE queue = $1 AND seq = $2 AND id = $3",
            &[(&queue, Type::TEXT), (&row.seq, Type::INT8), (&row.id, Type::BYTEA), (&why, Type::TEXT)],
        )
        .await
        .map(drop)
    }

    /// Locks the row of the queue, and acquires or keeps the lease. Only a new request extends the
    /// lease.
    async fn lease(&self, queue: &str) -> Result<Option<PgRow>> {
        let sql = format!(
            "UPDATE {{s}}.queue_relay SET holder = $2, \
             until = CASE WHEN holder = $2 AND seqs IS NOT NULL THEN until ELSE clock_timestamp() + interval '{0} s' END \
             WHERE queue = $1 AND (holder = $2 OR until IS NULL OR until NOT BETWEEN clock_timestamp() AND clock_timestamp() + interval '{0} s') \
             RETURNING broker, producer, number, seqs, digest, coalesce(suspect, -1)",
            LEASE.as_secs()
        );
        let values: [Value<'_>; 2] = [(&queue, Type::TEXT), (&self.holder, Type::BYTEA)];
        if let Some(found) = self.run(&sql, &values).await?.pop() {
            return Ok(Some(found));
        }
        let made = "INSERT INTO {s}.queue_relay (queue) VALUES ($1) ON CONFLICT DO NOTHING RETURNING 1";
        if self.run(made, &[(&queue, Type::TEXT)]).await?.is_empty() {
            return Ok(None);
        }
        Ok(self.run(&sql, &values).await?.pop())
    }

    async fn give_back(&self, queue: &str) -> Result<()> {
        let sql = "UPDATE {s}.queue_relay SET holder = NULL, until = NULL WHERE queue = $1";
        self.run(sql, &[(&queue, Type::TEXT)]).await.map(drop)
    }

    /// The rows of a request.
    async fn in_flight(&self, queue: &str, seqs: &[i64]) -> Result<Vec<Row>> {
        let sql = format!(
            "SELECT o.* FROM (SELECT DISTINCT unnest($2::bigint[]) AS seq) r CROSS JOIN LATERAL \
             (SELECT {COLUMNS} FROM {{s}}.queue_outbox o WHERE o.queue = $1 AND o.seq = r.seq ORDER BY o.id LIMIT {ROWS}) o ORDER BY 1, 2"
        );
        rows(&self.run(&sql, &[(&queue, Type::TEXT), (&seqs, Type::INT8_ARRAY)]).await?)
    }

    /// The next rows, in a separate statement: its snapshot is not older than the lock.
    async fn next(&self, queue: &str, floors: &mut Floors) -> Result<Vec<Row>> {
        let waiting = format!(
            "SELECT b.queue, b.group_digest FROM {{s}}.queue_outbox b WHERE b.queue = $1 AND b.group_digest IS NOT NULL AND b.{WAITS}"
        );
        // Bodies are read only of rows that fit into the request.
        let sql = format!(
            "WITH t AS (SELECT seq, id, n FROM (SELECT t.seq, t.id, sum(bytes) OVER (ORDER BY seq, id) AS bytes, row_number() OVER (ORDER BY seq, id) AS n \
             FROM (SELECT o.seq, o.id, octet_length(o.body) AS bytes FROM {{s}}.queue_outbox o WHERE o.queue = $1 AND o.seq >= $2 AND {} \
             ORDER BY o.seq, o.id LIMIT {ROWS}) t) u WHERE bytes <= {BYTES} OR n = 1) \
             SELECT o.*, (SELECT o.seq FROM {{s}}.queue_outbox o WHERE o.queue = $1 AND o.seq >= $2 AND o.refused IS NULL ORDER BY o.seq LIMIT 1), \
             pg_current_xact_id()::text::int8, pg_snapshot_xmin(pg_current_snapshot())::text::int8 FROM t CROSS JOIN LATERAL \
             (SELECT {COLUMNS} FROM {{s}}.queue_outbox o WHERE o.queue = $1 AND o.seq = t.seq AND o.id = t.id LIMIT 1) o ORDER BY t.n",
            sendable(&waiting)
        );
        let found = self.run(&sql, &[(&queue, Type::TEXT), (&floors.of(queue), Type::INT8)]).await?;
        if let Some(first) = found.first() {
            floors.note_lowest(queue, first.try_get(5)?, first.try_get(6)?, first.try_get(7)?);
        }
        rows(&found)
    }

    async fn store(&self, queue: &str, name: &Name, number: i64, rows: &[Row]) -> Result<[u8; 16]> {
        let (seqs, digest): (Vec<i64>, _) = (rows.iter().map(|row| row.seq).collect(), digest(rows));
        let bytes = digest.as_slice();
        self.run(
            "UPDATE {s}.queue_relay SET broker = $2, producer = $3, number = $4, seqs = $5, digest = $6 WHERE queue = $1",
            &[
                (&queue, Type::TEXT),
                (&name.broker, Type::TEXT),
                (&name.producer, Type::TEXT),
                (&number, Type::INT8),
                (&seqs, Type::INT8_ARRAY),
                (&bytes, Type::BYTEA),
            ],
        )
        .await?;
        Ok(digest)
    }

    /// Returns false if the transaction must not be committed.
    async fn take(&self, take: &Take<'_>, floors: &mut Floors) -> Result<(Taken, bool)> {
        let queue = take.queue;
        if let Some(done) = take.done {
            self.end(queue, done).await?;
        }
        let Some(found) = self.lease(queue).await? else { return Ok((Taken::Leased, true)) };
        let (broker, producer): (Option<String>, Option<String>) = (found.try_get(0)?, found.try_get(1)?);
        let (number, seqs, stored): (i64, Option<Vec<i64>>, Option<Vec<u8>>) = (found.try_get(2)?, found.try_get(3)?, found.try_get(4)?);
        let suspect: i64 = found.try_get(5)?;
        let name = broker.zip(producer).map(|(broker, producer)| Name { broker, producer });
        if let (Some(seqs), Some(name)) = (seqs, &name) {
            if name.broker != take.broker {
                return Ok((Taken::in_flight_at(&name.broker, seqs.len()), false));
            }
            let rows = self.in_flight(queue, &seqs).await?;
            let is_changed = Some(digest(&rows).as_slice()) != stored.as_deref();
            let digest = stored.and_then(|stored| stored.try_into().ok()).unwrap_or_default();
            return Ok((Taken::Request(Request { name: name.clone(), number, digest, rows, is_changed, suspect }), true));
        }
        let (mut rows, bad, newer) = readable(queue, self.next(queue, floors).await?);
        for (row, why) in bad {
            tracing::warn!(queue, seq = row.seq, why, "a row of the outbox was rejected and will not be sent again");
            self.refuse(queue, &row, &why).await?;
        }
        if rows.is_empty() {
            let Some(newer) = newer else { return Ok((Taken::Nothing, true)) };
            self.give_back(queue).await?;
            return Ok((Taken::NotHere(newer.to_string()), true));
        }
        rows.truncate(fitting(&rows));
        let (name, number) = match (name.filter(|name| name.broker == take.broker), take.name) {
            (Some(name), _) => (name, number + 1),
            (None, Some(fresh)) => (Name { broker: take.broker.to_owned(), producer: fresh.to_owned() }, 1),
            (None, None) => {
                self.give_back(queue).await?;
                return Ok((Taken::Nameless, true));
            }
        };
        let digest = self.store(queue, &name, number, &rows).await?;
        Ok((Taken::Request(Request { name, number, digest, rows, is_changed: false, suspect }), true))
    }

    async fn rename(&self, queue: &str, request: &Request, name: &Name, all: bool) -> Result<()> {
        let (digest, last) = (request.digest.as_slice(), request.rows.last().map_or(-1, |row| row.seq));
        let suspect = if all { "(SELECT max(o.seq) FROM {s}.queue_outbox o WHERE o.queue = $1)" } else { "NULL::bigint" };
        let sql = format!(
            "UPDATE {{s}}.queue_relay SET broker = $2, producer = $3, number = 0, seqs = NULL, digest = NULL, suspect = greatest(suspect, $4, {suspect}) \
             WHERE queue = $1 AND producer = $5 AND number = $6 AND digest = $7 AND seqs IS NOT NULL"
        );
        let values: [Value<'_>; 7] = [
            (&queue, Type::TEXT),
            (&name.broker, Type::TEXT),
            (&name.producer, Type::TEXT),
            (&last, Type::INT8),
            (&request.name.producer, Type::TEXT),
            (&request.number, Type::INT8),
            (&digest, Type::BYTEA),
        ];
        self.run(&sql, &values).await.map(drop)
    }
}

/// For operators.
impl Tx<'_> {
    /// Rows that are not refused are counted from the floors on. Refused rows are counted with a
    /// separate index.
    async fn figures(&self, most: i64, floors: &Floors) -> Result<Vec<OutboxQueue>> {
        // The oldest row is the row with the lowest number, or nearly so.
        let sql = format!(
            "WITH RECURSIVE {QUEUES}, n AS (SELECT coalesce(f.queue, r.queue) AS queue, coalesce(f.floor, -9223372036854775808) AS floor \
             FROM f FULL JOIN {{s}}.queue_relay r ON r.queue = f.queue WHERE coalesce(f.queue, r.queue) <> '') \
             SELECT n.queue, (SELECT count(*) FROM (SELECT 1 FROM {{s}}.queue_outbox o \
             WHERE o.queue = n.queue AND o.seq >= n.floor AND o.refused IS NULL LIMIT $3) c), \
             (SELECT count(*) FROM (SELECT 1 FROM {{s}}.queue_outbox o WHERE o.queue = n.queue AND o.refused IS NOT NULL LIMIT $3) c), \
             (SELECT (extract(epoch FROM clock_timestamp() - o.created_at) * 1000)::int8 FROM {{s}}.queue_outbox o \
             WHERE o.queue = n.queue AND o.seq >= n.floor AND o.refused IS NULL ORDER BY o.seq LIMIT 1), \
             coalesce(cardinality(r.seqs), 0)::int8, r.broker, \
             CASE WHEN r.until BETWEEN clock_timestamp() AND clock_timestamp() + interval '{} s' THEN r.holder END, \
             coalesce((SELECT n.queue = ANY (d.full_queues) FROM {{s}}.queue_database d), FALSE) \
             FROM n LEFT JOIN {{s}}.queue_relay r ON r.queue = n.queue ORDER BY n.queue",
            LEASE.as_secs()
        );
        let read = |row: &PgRow| -> Result<OutboxQueue, tokio_postgres::Error> {
            let number = |at| row.try_get::<_, i64>(at).map(|n| u64::try_from(n).unwrap_or(0));
            let (waiting, refused, age): (u64, u64, Option<i64>) = (number(1)?, number(2)?, row.try_get(3)?);
            let holder: Option<Vec<u8>> = row.try_get(6)?;
            Ok(OutboxQueue {
                queue: row.try_get(0)?,
                waiting,
                refused,
                oldest: age.map(|age| Duration::from_millis(u64::try_from(age).unwrap_or(0))),
                in_flight: number(4)?,
                broker: row.try_get(5)?,
                leased: holder.is_some(),
                holder: holder.map(|holder| shown_holder(&holder)),
                full: row.try_get(7)?,
            })
        };
        let (known, from) = floors.known();
        let values: [Value<'_>; 3] = [(&known, Type::TEXT_ARRAY), (&from, Type::INT8_ARRAY), (&most, Type::INT8)];
        Ok(self.run(&sql, &values).await?.iter().map(read).collect::<Result<_, _>>()?)
    }

    async fn shown(&self, queue: &str, refused: bool, limit: u32) -> Result<Vec<OutboxRow>> {
        let only = if refused { "AND o.refused IS NOT NULL" } else { "" };
        let sql = format!(
            "SELECT {COLUMNS}, coalesce(o.{WAITS}, FALSE), o.refused FROM {{s}}.queue_outbox o WHERE o.queue = $1 {only} ORDER BY o.seq, o.id LIMIT {limit}"
        );
        let found = self.run(&sql, &[(&queue, Type::TEXT)]).await?;
        let read = |(row, found): (&Row, &PgRow)| Ok(shown(queue, row, found.try_get(5)?, found.try_get(6)?));
        rows(&found)?.iter().zip(&found).map(read).collect()
    }

    /// The row of the relay is locked, so no request begins or ends in the meantime. A refused row
    /// may be below the floors of relays, so it gets a new number. As with an INSERT, this number
    /// is drawn after that of the transaction.
    async fn change(&self, queue: &str, change: &OutboxChange) -> Result<Vec<OutboxRowId>> {
        let of_queue: [Value<'_>; 1] = [(&queue, Type::TEXT)];
        let locked = self.run("SELECT seqs FROM {s}.queue_relay WHERE queue = $1 FOR UPDATE", &of_queue).await?;
        let in_flight = locked.first().map(|row| row.try_get::<_, Option<Vec<i64>>>(0)).transpose()?.flatten().unwrap_or_default();
        let retry = |these: &str| {
            format!(
                "WITH old AS MATERIALIZED (SELECT ctid, seq, id, refused FROM {{s}}.queue_outbox \
                 WHERE (refused IS NOT NULL OR retry_at IS NOT NULL) AND {these} AND pg_current_xact_id() IS NOT NULL ORDER BY seq, id FOR UPDATE), \
                 later AS (UPDATE {{s}}.queue_outbox o SET retry_at = NULL FROM old WHERE o.ctid = old.ctid AND old.refused IS NULL), \
                 again AS (UPDATE {{s}}.queue_outbox o SET refused = NULL, retry_at = NULL, seq = DEFAULT FROM old \
                 WHERE o.ctid = old.ctid AND old.refused IS NOT NULL) SELECT seq, id FROM old"
            )
        };
        let (sql, of) = match change {
            OutboxChange::Retry(of) if of.is_empty() => (retry("queue = $1"), None),
            OutboxChange::Retry(of) => (retry(THESE), Some(of)),
            OutboxChange::Drop(of) => {
                none_in_flight(&in_flight, of)?;
                (format!("DELETE FROM {{s}}.queue_outbox WHERE {THESE} RETURNING seq, id"), Some(of))
            }
            OutboxChange::Release => {
                let sql = "UPDATE {s}.queue_relay SET holder = NULL, until = NULL, broker = NULL, producer = NULL, number = 0, seqs = NULL, digest = NULL, \
                    suspect = greatest(suspect, $2) WHERE queue = $1 AND seqs IS NOT NULL";
                self.run(sql, &[(&queue, Type::TEXT), (&in_flight.iter().max(), Type::INT8)]).await?;
                return Ok(self.in_flight(queue, &in_flight).await?.iter().map(Row::name).collect());
            }
        };
        let (seqs, ids): (Vec<i64>, Vec<&[u8]>) = of.iter().copied().flatten().map(|row| (row.seq, row.job.as_slice())).unzip();
        let values: [Value<'_>; 3] = [(&queue, Type::TEXT), (&seqs, Type::INT8_ARRAY), (&ids, Type::BYTEA_ARRAY)];
        let changed = self.run(&sql, if of.is_some() { &values } else { &values[..1] }).await?;
        let read = |row: &PgRow| Ok(OutboxRowId { seq: row.try_get(0)?, job: row.try_get(1)? });
        changed.iter().map(read).collect()
    }
}

fn rows(found: &[PgRow]) -> Result<Vec<Row>> {
    let read = |row: &PgRow| -> Result<Row, tokio_postgres::Error> {
        let age: i64 = row.try_get(4)?;
        let age = Duration::from_millis(u64::try_from(age).unwrap_or(0));
        Ok(Row { seq: row.try_get(0)?, id: row.try_get(1)?, body: row.try_get(2)?, created_ms: row.try_get(3)?, age })
    };
    Ok(found.iter().map(read).collect::<Result<_, _>>()?)
}

#[async_trait]
impl Store for Postgres {
    async fn open(&mut self) -> Result<Vec<u8>> {
        let database: Vec<u8> = in_time(async {
            let tx = self.begin().await?;
            let found = tx.run("SELECT id, version FROM {s}.queue_database", &[]).await?;
            let found = found.first().ok_or_else(|| crate::adapter::no_row(Dialect::Postgres))?;
            let version = found.try_get(1)?;
            if version > crate::VERSION {
                return Err(Error::TooNew { found: version, known: crate::VERSION });
            }
            Ok(found.try_get(0)?)
        })
        .await?;
        if database != self.database {
            (self.database, self.floors) = (database.clone(), Floors::default());
        }
        Ok(database)
    }

    async fn queues(&mut self) -> Result<Vec<String>> {
        let (mut floors, began) = (std::mem::take(&mut self.floors), Instant::now());
        floors.begin_round();
        let found = in_time(async { self.begin().await?.queues(&floors).await }).await;
        floors.note_read(began.elapsed());
        self.floors = floors;
        found
    }

    async fn take(&mut self, take: &Take<'_>) -> Result<Taken> {
        let (mut floors, began) = (std::mem::take(&mut self.floors), Instant::now());
        let taken = in_time(async {
            let tx = self.begin_waiting(TAKE_WAITS).await?;
            let (taken, commits) = tx.take(take, &mut floors).await?;
            if commits {
                tx.tx.commit().await?
            } else {
                tx.tx.rollback().await?
            };
            Ok(taken)
        })
        .await;
        floors.note_read(began.elapsed());
        self.floors = floors;
        taken
    }

    async fn rename(&mut self, queue: &str, request: &Request, name: &Name, all: bool) -> Result<()> {
        in_time(async {
            let tx = self.begin_waiting(TAKE_WAITS).await?;
            tx.rename(queue, request, name, all).await?;
            Ok(tx.tx.commit().await?)
        })
        .await
    }

    async fn release(&mut self, done: &[(&str, &Done)]) -> Result<()> {
        in_time(async {
            let tx = self.begin().await?;
            for (queue, done) in done {
                tx.end(queue, done).await?;
            }
            let holder = tx.holder;
            tx.run("UPDATE {s}.queue_relay SET holder = NULL, until = NULL WHERE holder = $1", &[(&holder, Type::BYTEA)]).await?;
            tx.tx.commit().await?;
            Ok(())
        })
        .await
    }

    async fn set_full(&mut self, queues: &[String]) -> Result<()> {
        in_time(async {
            let tx = self.begin().await?;
            let sql = "UPDATE {s}.queue_database SET full_queues = $1 WHERE full_queues IS DISTINCT FROM $1";
            tx.run(sql, &[(&queues, Type::TEXT_ARRAY)]).await?;
            Ok(tx.tx.commit().await?)
        })
        .await
    }

    async fn figures(&mut self, most: i64) -> Result<Vec<OutboxQueue>> {
        let floors = std::mem::take(&mut self.floors);
        let found = in_time(async { self.begin().await?.figures(most, &floors).await }).await;
        self.floors = floors;
        found
    }

    async fn rows(&mut self, queue: &str, refused: bool, limit: u32) -> Result<Vec<OutboxRow>> {
        in_time(async { self.begin().await?.shown(queue, refused, limit).await }).await
    }

    async fn change(&mut self, queue: &str, change: &OutboxChange) -> Result<Vec<OutboxRowId>> {
        in_time(async {
            let tx = self.begin().await?;
            let changed = tx.change(queue, change).await?;
            tx.tx.commit().await?;
            Ok(changed)
        })
        .await
    }

    async fn endings(&mut self, keys: &[&[u8]]) -> Result<(Vec<u8>, Vec<Option<Vec<u8>>>)> {
        in_time(async {
            let sql = "SELECT pg_is_in_recovery(), d.id, e.ending FROM {s}.queue_database d CROSS JOIN unnest($1::bytea[]) WITH ORDINALITY AS k(job, n) \
                LEFT JOIN LATERAL (SELECT ending FROM {s}.queue_effects WHERE job = k.job AND part = '' LIMIT 1) e ON TRUE ORDER BY k.n"
                .replace("{s}", &self.schema);
            // In one round trip: all three are sent before the first answer. Hidden rows are also
            // an error here, and are not treated as missing endings.
            let client = self.client().await?;
            let begun = client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; SET LOCAL row_security = off");
            let keys: [Value<'_>; 1] = [(&keys, Type::BYTEA_ARRAY)];
            let (begun, found, ended) = join3(begun, client.query_typed(&sql, &keys), client.batch_execute("COMMIT")).await;
            begun?;
            let found = found.map_err(with_tables)?;
            ended?;
            let first = found.first().ok_or_else(|| crate::adapter::no_row(Dialect::Postgres))?;
            if first.try_get(0)? {
                return Err(Error::Standby);
            }
            Ok((first.try_get(1)?, found.iter().map(|row| row.try_get(2)).collect::<Result<_, _>>()?))
        })
        .await
    }

    /// The INSERT waits for an uncommitted INSERT, and the update of an existing row waits for
    /// another update. The transaction is rolled back.
    async fn settled(&mut self, key: &EffectsKey) -> Result<Option<Vec<u8>>> {
        in_time(async {
            let tx = self.begin().await?;
            let sql = "INSERT INTO {s}.queue_effects AS e (job, ending) VALUES ($1, '') \
                ON CONFLICT (job, part) DO UPDATE SET at = e.at RETURNING e.ending";
            let found = tx.run(sql, &[(&key.as_slice(), Type::BYTEA)]).await?;
            let ending: Vec<u8> =
                found.first().ok_or_else(|| crate::adapter::no_tables(Dialect::Postgres, "queue_effects takes no row"))?.try_get(0)?;
            tx.tx.rollback().await?;
            Ok((!ending.is_empty()).then_some(ending))
        })
        .await
    }

    async fn may_clean(&mut self) -> Result<bool> {
        in_time(async {
            let tx = self.begin().await?;
            let may = tx.lease("").await?.is_some();
            tx.tx.commit().await?;
            Ok(may)
        })
        .await
    }

    async fn effects(&mut self, after: &[u8], limit: usize) -> Result<Vec<EffectsRow>> {
        in_time(async {
            let tx = self.begin().await?;
            let now: i64 = tx.run("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8", &[]).await?[0].try_get(0)?;
            let sql = format!(
                "SELECT job, ending, at < clock_timestamp() - interval '{} s' FROM {{s}}.queue_effects WHERE part = '' AND job > $1 AND job < $2 ORDER BY job LIMIT {limit}",
                KEPT.as_secs()
            );
            let before = cleanup_before(now);
            let found = tx.run(&sql, &[(&after, Type::BYTEA), (&before.as_slice(), Type::BYTEA)]).await?;
            let read = |row: &PgRow| Ok::<_, tokio_postgres::Error>(EffectsRow { key: row.try_get(0)?, ending: row.try_get(1)?, is_old: row.try_get(2)? });
            Ok(found.iter().map(read).collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn remove_effects(&mut self, rows: &[EffectsRow]) -> Result<()> {
        in_time(async {
            let tx = self.begin().await?;
            let (keys, endings): (Vec<&[u8]>, Vec<&[u8]>) = rows.iter().map(|row| (row.key.as_slice(), row.ending.as_slice())).unzip();
            let sql = "DELETE FROM {s}.queue_effects WHERE ctid = ANY (ARRAY(SELECT e.ctid FROM unnest($1::bytea[], $2::bytea[]) AS r(job, ending) \
                CROSS JOIN LATERAL (SELECT ctid FROM {s}.queue_effects WHERE job = r.job AND ending = r.ending OFFSET 0) e))";
            tx.run(sql, &[(&keys, Type::BYTEA_ARRAY), (&endings, Type::BYTEA_ARRAY)]).await?;
            Ok(tx.tx.commit().await?)
        })
        .await
    }

    /// Floors are kept, because a read from the start may have taken too long. If the database was
    /// restored, the next read from the start corrects them.
    fn disconnect(&mut self) {
        self.client = None;
    }
}

const _: () = assert!(PATIENCE.as_secs() == 5, "`begin` and GUARD say it, too");
