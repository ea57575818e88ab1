//! The data of the accounts: a SQLite file that all workers of this machine share.

use std::{
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rusqlite::{Connection, Result, params};

/// `claim` is the number of the latest check that has begun. Smaller numbers are refused. `checks`
/// is the log. A check that never ended has no `ended`.
const CREATE: &str = "
CREATE TABLE IF NOT EXISTS accounts (
    name TEXT PRIMARY KEY, claim INTEGER NOT NULL DEFAULT 0, checks INTEGER NOT NULL DEFAULT 0, news INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS checks (
    account TEXT NOT NULL, claim INTEGER NOT NULL, process INTEGER NOT NULL, began INTEGER NOT NULL, ended INTEGER,
    PRIMARY KEY (account, claim)
) WITHOUT ROWID;
";

/// The accounts of the poller.
#[derive(Debug)]
pub struct Accounts(Mutex<Connection>);

/// One account, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// The number of checks that have ended.
    pub checks: u32,
    /// The number of news that they have found.
    pub news: u32,
}

/// One check, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The claim number of its run.
    pub claim: i64,
    /// The process that has made the check.
    pub process: u32,
    /// When it began, in milliseconds since 1970.
    pub began: i64,
    /// When it ended. `None` if it still runs, or if its process was killed.
    pub ended: Option<i64>,
}

impl Accounts {
    /// Opens the file, and creates it if it does not exist.
    ///
    /// # Errors
    /// Those of SQLite, here and below.
    pub fn open(path: &Path) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.execute_batch(CREATE)?;
        Ok(Accounts(Mutex::new(connection)))
    }

    /// Adds an account, unless there is one of this name.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn add(&self, name: &str) -> Result<()> {
        self.lock().execute("INSERT OR IGNORE INTO accounts (name) VALUES (?1)", [name])?;
        Ok(())
    }

    /// Whether there is an account of this name.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn has(&self, name: &str) -> Result<bool> {
        self.lock().query_row("SELECT EXISTS (SELECT 1 FROM accounts WHERE name = ?1)", [name], |row| row.get(0))
    }

    /// Records that a check begins. Returns false if a later one has begun.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn begin(&self, account: &str, claim: u64) -> Result<bool> {
        let claim = claim.cast_signed();
        let mut connection = self.lock();
        let both = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let newest = both.execute("UPDATE accounts SET claim = ?2 WHERE name = ?1 AND claim < ?2", params![account, claim])? == 1;
        if newest {
            let check = params![account, claim, std::process::id(), now()];
            both.execute("INSERT INTO checks (account, claim, process, began) VALUES (?1, ?2, ?3, ?4)", check)?;
        }
        both.commit()?;
        Ok(newest)
    }

    /// Records the result of a check, unless a later one has begun.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn end(&self, account: &str, claim: u64, news: u32) -> Result<()> {
        let claim = claim.cast_signed();
        let mut connection = self.lock();
        let both = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let mine = "UPDATE accounts SET checks = checks + 1, news = news + ?3 WHERE name = ?1 AND claim = ?2";
        if both.execute(mine, params![account, claim, news])? == 1 {
            both.execute("UPDATE checks SET ended = ?3 WHERE account = ?1 AND claim = ?2", params![account, claim, now()])?;
        }
        both.commit()
    }

    /// All accounts, by name.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn all(&self) -> Result<Vec<Account>> {
        let connection = self.lock();
        let mut select = connection.prepare("SELECT name, checks, news FROM accounts ORDER BY name")?;
        let rows = select.query_map([], |row| Ok(Account { name: row.get(0)?, checks: row.get(1)?, news: row.get(2)? }))?;
        rows.collect()
    }

    /// The checks of an account, in the order in which they began.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn checks(&self, account: &str) -> Result<Vec<Check>> {
        let connection = self.lock();
        let mut select = connection.prepare("SELECT claim, process, began, ended FROM checks WHERE account = ?1 ORDER BY claim")?;
        let rows = select
            .query_map([account], |row| Ok(Check { claim: row.get(0)?, process: row.get(1)?, began: row.get(2)?, ended: row.get(3)? }))?;
        rows.collect()
    }

    /// A statement takes no longer than a write to the disk, so it needs no separate thread.
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
