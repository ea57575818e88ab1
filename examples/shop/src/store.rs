//! The shop's own data. Each change is one statement that says from which state it goes, so that of two who want to change an
//! order at once exactly one does.

use std::{
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OptionalExtension, Result, params};
use serde::Serialize;

const CREATE: &str = "
CREATE TABLE IF NOT EXISTS orders (
    id TEXT PRIMARY KEY, customer TEXT NOT NULL, article TEXT NOT NULL, state TEXT NOT NULL CHECK (state IN ('open', 'paid', 'closed'))
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS customers (id TEXT PRIMARY KEY, email TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS mails (customer TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (customer, number)) WITHOUT ROWID;
";

/// The database of the shop.
#[derive(Debug)]
pub struct Store(Mutex<Connection>);

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

impl Store {
    /// Opens the file, and makes it if there is none.
    ///
    /// # Errors
    /// Those of SQLite, here and below.
    pub fn open(path: &Path) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.execute_batch(CREATE)?;
        Ok(Store(Mutex::new(connection)))
    }

    pub(crate) fn place_order(&self, id: &str, customer: &str, article: &str) -> Result<()> {
        let order = params![id, customer, article];
        self.lock().execute("INSERT INTO orders (id, customer, article, state) VALUES (?1, ?2, ?3, 'open')", order)?;
        Ok(())
    }

    pub(crate) fn order(&self, id: &str) -> Result<Option<Order>> {
        let connection = self.lock();
        let mut select = connection.prepare_cached("SELECT id, customer, article, state FROM orders WHERE id = ?1")?;
        let order =
            |row: &rusqlite::Row<'_>| Ok(Order { id: row.get(0)?, customer: row.get(1)?, article: row.get(2)?, state: row.get(3)? });
        select.query_row([id], order).optional()
    }

    /// False: it is not open.
    pub(crate) fn pay(&self, id: &str) -> Result<bool> {
        Ok(self.lock().execute("UPDATE orders SET state = 'paid' WHERE id = ?1 AND state = 'open'", [id])? == 1)
    }

    /// False: it is not open.
    pub(crate) fn close(&self, id: &str) -> Result<bool> {
        Ok(self.lock().execute("UPDATE orders SET state = 'closed' WHERE id = ?1 AND state = 'open'", [id])? == 1)
    }

    pub(crate) fn join(&self, id: &str, email: &str) -> Result<()> {
        self.lock().execute("INSERT INTO customers (id, email) VALUES (?1, ?2)", [id, email])?;
        Ok(())
    }

    pub(crate) fn customer(&self, id: &str) -> Result<Option<Customer>> {
        let connection = self.lock();
        let email = connection.query_row("SELECT email FROM customers WHERE id = ?1", [id], |row| row.get(0)).optional()?;
        let Some(email) = email else { return Ok(None) };
        let mut mails = connection.prepare_cached("SELECT number FROM mails WHERE customer = ?1 ORDER BY number")?;
        let mails = mails.query_map([id], |row| row.get(0))?.collect::<Result<_>>()?;
        Ok(Some(Customer { id: id.to_owned(), email, mails }))
    }

    /// Whether the customer has paid for anything.
    pub(crate) fn is_active(&self, customer: &str) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM orders WHERE customer = ?1 AND state = 'paid')";
        self.lock().query_row(sql, [customer], |row| row.get(0))
    }

    /// False: it was sent before.
    pub(crate) fn note_mail(&self, customer: &str, number: u32) -> Result<bool> {
        Ok(self.lock().execute("INSERT OR IGNORE INTO mails (customer, number) VALUES (?1, ?2)", params![customer, number])? == 1)
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
