//! The shop's own data: in PostgreSQL, or in a SQLite file. Each change is one transaction with a
//! statement and the jobs that belong to it. The statement names the state from which it changes a
//! row. If two changes of an order happen at once, exactly one succeeds.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use queue_core::JobContext;
use queue_outbox::{Dialect, Done, Outbox, Outgoing, Relay, postgres, sqlite};
use rusqlite::{Connection, TransactionBehavior, params_from_iter};
use serde::Serialize;
use tokio_postgres::{Client, NoTls, types::ToSql};

/// PostgreSQL and SQLite both understand it.
const CREATE: &str = "
CREATE TABLE IF NOT EXISTS orders (
    id TEXT PRIMARY KEY, customer TEXT NOT NULL, article TEXT NOT NULL, state TEXT NOT NULL CHECK (state IN ('open', 'paid', 'closed'))
);
CREATE TABLE IF NOT EXISTS sales (article TEXT PRIMARY KEY, sold BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS customers (id TEXT PRIMARY KEY, email TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS mails (customer TEXT NOT NULL, number TEXT NOT NULL, PRIMARY KEY (customer, number));
";

/// The result of the store's functions. The error may be any problem of a database.
pub(crate) type Result<T, E = io::Error> = std::result::Result<T, E>;

/// The database of the shop, and the outbox in it.
#[derive(Debug)]
pub struct Store {
    database: Database,
    outbox: Outbox,
}

#[derive(Debug)]
enum Database {
    Sqlite(Arc<Mutex<Connection>>),
    Postgres { url: String, client: Box<tokio::sync::Mutex<Client>> },
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Order {
    /// Its id.
    pub id: String,
    /// Who ordered.
    pub customer: String,
    /// What.
    pub article: String,
    /// `open`, `paid` or `closed`.
    pub state: String,
}

/// A customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Customer {
    /// The id.
    pub id: String,
    /// Where mails go.
    pub email: String,
    /// The activation mails that were sent, by their number from 1.
    pub mails: Vec<u32>,
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    Ok(client)
}

async fn migrate(client: &mut Client) -> Result<(), tokio_postgres::Error> {
    let tx = client.transaction().await?;
    // If several programs start at once, one of them creates the tables.
    tx.batch_execute("SELECT pg_advisory_xact_lock(76)").await?;
    tx.batch_execute(CREATE).await?;
    if !tx.query_one("SELECT to_regclass('public.queue_database') IS NOT NULL", &[]).await?.get::<_, bool>(0) {
        tx.batch_execute(&Dialect::Postgres.migration("public").expect("`public` is a name")).await?;
    }
    tx.commit().await
}

impl Store {
    /// Opens the file, and creates it if it does not exist.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn sqlite(path: &Path) -> Result<Self> {
        let open = || -> rusqlite::Result<Connection> {
            let mut connection = Connection::open(path)?;
            connection.busy_timeout(Duration::from_secs(10))?;
            connection.pragma_update(None, "journal_mode", "wal")?;
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            tx.execute_batch(CREATE)?;
            let has_outbox = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'queue_database')";
            if !tx.query_row(has_outbox, (), |row| row.get(0))? {
                tx.execute_batch(&Dialect::Sqlite.migration("main").expect("`main` is a name"))?;
            }
            tx.commit()?;
            Ok(connection)
        };
        let connection = open().map_err(io::Error::other)?;
        let outbox = Outbox::sqlite(&connection).map_err(io::Error::other)?;
        Ok(Store { database: Database::Sqlite(Arc::new(Mutex::new(connection))), outbox })
    }

    /// Connects to the database, and creates missing tables.
    ///
    /// # Errors
    /// Those of PostgreSQL.
    pub async fn postgres(url: &str) -> Result<Self> {
        let mut client = connect(url).await?;
        migrate(&mut client).await.map_err(io::Error::other)?;
        let outbox = Outbox::postgres(&client).await.map_err(io::Error::other)?;
        Ok(Store { database: Database::Postgres { url: url.to_owned(), client: Box::new(tokio::sync::Mutex::new(client)) }, outbox })
    }

    /// The relay of the outbox, which the worker runs.
    ///
    /// # Errors
    /// A URL that cannot be read.
    pub fn relay(&self) -> Result<Relay> {
        match &self.database {
            Database::Sqlite(connection) => {
                let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(Relay::sqlite(connection.path().unwrap_or_default()))
            }
            Database::Postgres { url, .. } => Relay::postgres(url).map_err(io::Error::other),
        }
    }

    /// Stores an order, together with its job: both or neither.
    ///
    /// # Errors
    /// Those of the database, here and below, and of a job that cannot be enqueued.
    pub async fn place_order(&self, id: &str, customer: &str, article: &str, job: impl Outgoing + Send + 'static) -> Result<()> {
        let insert = "INSERT INTO orders (id, customer, article, state) VALUES ($1, $2, $3, 'open')";
        self.change(insert, &[id, customer, article], Some(job)).await.map(drop)
    }

    /// An order.
    ///
    /// # Errors
    /// As above.
    pub async fn order(&self, id: &str) -> Result<Option<Order>> {
        let rows = self.select("SELECT id, customer, article, state FROM orders WHERE id = $1", &[id]).await?;
        let order = |row: Vec<String>| {
            let [id, customer, article, state] = row.try_into().ok()?;
            Some(Order { id, customer, article, state })
        };
        Ok(rows.into_iter().next().and_then(order))
    }

    /// Marks an order as paid. Returns false if it is not open. The job that books the payment is
    /// stored in the same transaction: both or neither.
    ///
    /// # Errors
    /// As above.
    pub async fn pay(&self, id: &str, booking: impl Outgoing + Send + 'static) -> Result<bool> {
        let changed = self.change("UPDATE orders SET state = 'paid' WHERE id = $1 AND state = 'open'", &[id], Some(booking)).await?;
        Ok(changed == 1)
    }

    /// Books the payment of an order and enqueues its receipt, in one transaction with the ending
    /// of the job. The table does not record whether this order is booked. Only the ending ensures
    /// that it happens once.
    ///
    /// # Errors
    /// As above, and those of a commit.
    pub async fn book(&self, order: &str, receipt: impl Outgoing + Send + 'static, ctx: &JobContext) -> Result<Done<()>> {
        const BOOK: &str = "INSERT INTO sales (article, sold) SELECT article, 1 FROM orders WHERE id = $1 AND state = 'paid' \
            ON CONFLICT (article) DO UPDATE SET sold = sales.sold + 1";
        match &self.database {
            Database::Sqlite(connection) => {
                use sqlite::{Commit, EnqueueIn};
                let (connection, outbox, ctx, order) = (connection.clone(), self.outbox.clone(), ctx.clone(), order.to_owned());
                blocking(move || {
                    let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                    let tx = ctx.begin(&outbox, &mut connection).map_err(io::Error::other)?;
                    tx.execute(BOOK, [order]).map_err(io::Error::other)?;
                    receipt.enqueue_in(&outbox, &tx).map_err(io::Error::other)?;
                    ctx.commit(tx, ()).map_err(io::Error::other)
                })
                .await
            }
            Database::Postgres { url, client } => {
                use postgres::{Commit, EnqueueIn};
                let mut client = client.lock().await;
                if client.is_closed() {
                    *client = connect(url).await?;
                }
                let tx = ctx.begin(&self.outbox, &mut client).await.map_err(io::Error::other)?;
                tx.execute(BOOK, &[&order]).await.map_err(io::Error::other)?;
                receipt.enqueue_in(&self.outbox, &tx).await.map_err(io::Error::other)?;
                ctx.commit(tx, ()).await.map_err(io::Error::other)
            }
        }
    }

    /// The number of sales of an article.
    ///
    /// # Errors
    /// As above.
    pub async fn sold(&self, article: &str) -> Result<u64> {
        let sold = self.select("SELECT CAST(sold AS TEXT) FROM sales WHERE article = $1", &[article]).await?;
        Ok(sold.into_iter().flatten().next().and_then(|sold| sold.parse().ok()).unwrap_or(0))
    }

    pub(crate) async fn close(&self, id: &str) -> Result<bool> {
        let close = "UPDATE orders SET state = 'closed' WHERE id = $1 AND state = 'open'";
        Ok(self.change(close, &[id], None::<queue_core::RawJob>).await? == 1)
    }

    pub(crate) async fn join(&self, id: &str, email: &str) -> Result<()> {
        let insert = "INSERT INTO customers (id, email) VALUES ($1, $2)";
        self.change(insert, &[id, email], None::<queue_core::RawJob>).await.map(drop)
    }

    pub(crate) async fn customer(&self, id: &str) -> Result<Option<Customer>> {
        let Some(found) = self.select("SELECT email FROM customers WHERE id = $1", &[id]).await?.pop() else { return Ok(None) };
        let mails = self.select("SELECT number FROM mails WHERE customer = $1", &[id]).await?;
        let mut mails: Vec<u32> = mails.into_iter().flatten().filter_map(|number| number.parse().ok()).collect();
        mails.sort_unstable();
        Ok(Some(Customer { id: id.to_owned(), email: found.into_iter().collect(), mails }))
    }

    /// Whether the customer has paid for anything.
    pub(crate) async fn is_active(&self, customer: &str) -> Result<bool> {
        let paid = self.select("SELECT id FROM orders WHERE customer = $1 AND state = 'paid' LIMIT 1", &[customer]).await?;
        Ok(!paid.is_empty())
    }

    /// Records a mail. Returns false if it was already sent.
    pub(crate) async fn note_mail(&self, customer: &str, number: u32) -> Result<bool> {
        let note = "INSERT INTO mails (customer, number) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        Ok(self.change(note, &[customer, &number.to_string()], None::<queue_core::RawJob>).await? == 1)
    }

    /// One transaction with a statement, and a job if the statement changes a row. Returns the
    /// number of changed rows.
    async fn change<J: Outgoing + Send + 'static>(&self, sql: &'static str, values: &[&str], job: Option<J>) -> Result<u64> {
        let changed = match &self.database {
            Database::Sqlite(connection) => {
                let (connection, outbox) = (connection.clone(), self.outbox.clone());
                let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
                blocking(move || {
                    let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(io::Error::other)?;
                    let changed = tx.execute(sql, params_from_iter(&values)).map_err(io::Error::other)?;
                    if let Some(job) = job.filter(|_| changed > 0) {
                        sqlite::EnqueueIn::enqueue_in(job, &outbox, &tx).map_err(io::Error::other)?;
                    }
                    tx.commit().map_err(io::Error::other)?;
                    Ok(changed as u64)
                })
                .await?
            }
            Database::Postgres { url, client } => {
                let mut client = client.lock().await;
                if client.is_closed() {
                    *client = connect(url).await?;
                }
                let tx = client.transaction().await.map_err(io::Error::other)?;
                let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
                let changed = tx.execute(sql, &values).await.map_err(io::Error::other)?;
                if let Some(job) = job.filter(|_| changed > 0) {
                    postgres::EnqueueIn::enqueue_in(job, &self.outbox, &tx).await.map_err(io::Error::other)?;
                }
                tx.commit().await.map_err(io::Error::other)?;
                // The relay is in another process.
                self.outbox.notify(&client).await;
                changed
            }
        };
        self.outbox.wake();
        Ok(changed)
    }

    /// The rows of a query, whose columns are all texts.
    async fn select(&self, sql: &'static str, values: &[&str]) -> Result<Vec<Vec<String>>> {
        match &self.database {
            Database::Sqlite(connection) => {
                let connection = connection.clone();
                let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
                blocking(move || {
                    let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                    let mut select = connection.prepare_cached(sql).map_err(io::Error::other)?;
                    let columns = select.column_count();
                    let read = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at)).collect();
                    let rows = select.query_map(params_from_iter(&values), read).map_err(io::Error::other)?;
                    rows.collect::<rusqlite::Result<_>>().map_err(io::Error::other)
                })
                .await
            }
            Database::Postgres { url, client } => {
                let mut client = client.lock().await;
                if client.is_closed() {
                    *client = connect(url).await?;
                }
                let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
                let rows = client.query(sql, &values).await.map_err(io::Error::other)?;
                let read = |row: &tokio_postgres::Row| (0..row.len()).map(|at| row.try_get(at)).collect();
                rows.iter().map(read).collect::<Result<_, tokio_postgres::Error>>().map_err(io::Error::other)
            }
        }
    }
}

/// Runs blocking work on a thread for that.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
