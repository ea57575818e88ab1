//! The SQL of the databases: tables, and the statements by which any library can insert.

use std::fmt;

use crate::error::{Error, Result};

/// The version of the tables that this library writes, and the newest version that it supports.
pub const VERSION: i32 = 1;

/// The channel on which relays are notified of rows of other processes. The payload is the identity
/// of the database.
#[cfg(feature = "postgres")]
pub(crate) const LISTEN: &str = "LISTEN queue_outbox";

pub(crate) fn notify(database: &[u8]) -> String {
    format!("SELECT pg_notify('queue_outbox', '{}')", hex(database))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn read_hex(text: &str) -> Option<Vec<u8>> {
    // `from_str_radix` also accepts a sign.
    let byte = |at| u8::from_str_radix(text.get(at..at + 2).filter(|pair| !pair.starts_with('+'))?, 16).ok();
    (0..text.len()).step_by(2).map(byte).collect()
}

/// The key of the advisory lock of a group. It is NULL for a job without a group, which locks
/// nothing.
pub(crate) fn lock_of(digest: &str) -> String {
    format!("('x' || encode(substr({digest}, 1, 8), 'hex'))::bit(64)::bigint")
}

/// The SQL of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// PostgreSQL from 13.
    Postgres,
    /// SQLite from 3.35.
    Sqlite,
}

impl Dialect {
    /// The name in the form of the command line.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Postgres => "postgres",
            Dialect::Sqlite => "sqlite",
        }
    }

    /// The statements that create the tables, for a migration of the application. `schema` is the
    /// schema of PostgreSQL, usually `public`. In SQLite, the tables are in `main`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid name of a schema.
    pub fn migration(self, schema: &str) -> Result<String> {
        match self {
            Dialect::Postgres => Ok(include_str!("postgres.sql").replace("{schema}", &quoted(schema)?)),
            Dialect::Sqlite => Ok(include_str!("sqlite.sql").to_owned()),
        }
    }

    /// Selects the identity of the database and the version of the tables, for
    /// [`Outbox::with_database`](crate::Outbox::with_database).
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid name of a schema.
    pub fn database_sql(self, schema: &str) -> Result<String> {
        Ok(format!("SELECT id, version FROM {}.queue_database", self.schema(schema)?))
    }

    pub(crate) fn schema(self, schema: &str) -> Result<String> {
        match self {
            Dialect::Postgres => quoted(schema),
            Dialect::Sqlite => Ok("main".to_owned()),
        }
    }

    /// Inserts one row. $1 is the identity of the database, and $2 is the version. The others are
    /// id, queue, digest of the group, and body. If it inserts no row, see `why`.
    pub(crate) fn insert(self, schema: &str, in_commit_order: bool) -> String {
        match self {
            // The lock is acquired before the number is drawn.
            Dialect::Postgres if in_commit_order => format!(
                "WITH l AS MATERIALIZED (SELECT pg_advisory_xact_lock({})) \
                 INSERT INTO {schema}.queue_outbox (id, queue, group_digest, body) \
                 SELECT $3::bytea, $4::text, $5::bytea, $6::bytea FROM l, {schema}.queue_database d \
                 WHERE d.id = $1::bytea AND d.version <= $2::int4 AND NOT $4::text = ANY (d.full_queues) AND pg_current_xact_id() IS NOT NULL",
                lock_of("$5::bytea")
            ),
            // The number of the transaction is drawn before that of the row.
            Dialect::Postgres => format!(
                "INSERT INTO {schema}.queue_outbox (id, queue, group_digest, body) \
                 SELECT $3::bytea, $4::text, $5::bytea, $6::bytea FROM {schema}.queue_database d \
                 WHERE d.id = $1::bytea AND d.version <= $2::int4 AND NOT $4::text = ANY (d.full_queues) AND pg_current_xact_id() IS NOT NULL"
            ),
            Dialect::Sqlite => format!(
                "INSERT INTO {schema}.queue_outbox (id, queue, group_digest, body) \
                 SELECT ?3, ?4, ?5, ?6 FROM {schema}.queue_database d \
                 WHERE d.id = ?1 AND d.version <= ?2 AND instr(d.full_queues, ',' || ?4 || ',') = 0"
            ),
        }
    }
}

/// Inserts rows from four arrays, in their order: numbers are drawn after the sort. The parameters
/// are as above. If it inserts fewer rows than given, see `why`. Locks are acquired in the order of
/// their keys, so that two statements do not deadlock.
pub(crate) fn insert_many(schema: &str, in_commit_order: bool) -> String {
    let (with, from) = if in_commit_order {
        let keys = format!("SELECT DISTINCT {} AS key FROM unnest($5::bytea[]) AS g(digest) WHERE digest IS NOT NULL", lock_of("digest"));
        let lock = format!("WITH l AS MATERIALIZED (SELECT count(pg_advisory_xact_lock(key)) FROM ({keys} ORDER BY key OFFSET 0) k) ");
        (lock, "l, ")
    } else {
        (String::new(), "")
    };
    format!(
        "{with}INSERT INTO {schema}.queue_outbox (id, queue, group_digest, body) \
         SELECT r.id, r.queue, r.grp, r.body FROM {from}{schema}.queue_database d, \
         unnest($3::bytea[], $4::text[], $5::bytea[], $6::bytea[]) WITH ORDINALITY AS r(id, queue, grp, body, n) \
         WHERE d.id = $1::bytea AND d.version <= $2::int4 AND NOT d.full_queues && $4::text[] AND pg_current_xact_id() IS NOT NULL \
         ORDER BY r.n"
    )
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Dialect {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = [Dialect::Postgres, Dialect::Sqlite];
        known.into_iter().find(|dialect| dialect.name() == text).ok_or_else(|| Error::Invalid {
            field: "dialect",
            value: text.to_owned(),
            problem: "is unknown; use postgres or sqlite".to_owned(),
        })
    }
}

/// The quoted name of a schema.
fn quoted(schema: &str) -> Result<String> {
    let is_name = (1..=63).contains(&schema.len()) && schema.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name || schema.starts_with(|c: char| c.is_ascii_digit()) {
        let problem = "must be 1 to 63 letters, digits and `_`, and must not begin with a digit".to_owned();
        return Err(Error::Invalid { field: "schema", value: schema.chars().take(80).collect(), problem });
    }
    Ok(format!("\"{schema}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_a_migration_is_a_name() {
        let migration = Dialect::Postgres.migration("tenant_7").unwrap();
        assert!(migration.contains("CREATE TABLE \"tenant_7\".queue_outbox (") && !migration.contains("{schema}"), "{migration}");
        assert!(Dialect::Sqlite.migration("public").unwrap().contains("CREATE TABLE main.queue_outbox ("));
        for wrong in ["", "a b", "a\"; DROP TABLE x; --", "7a", "ü", &"x".repeat(64)] {
            assert!(matches!(Dialect::Postgres.migration(wrong), Err(Error::Invalid { field: "schema", .. })), "{wrong}");
        }
    }

    #[test]
    fn hexadecimal_digits_are_read_as_they_are_written() {
        assert_eq!(read_hex(&hex(&[0, 0x0f, 0xff])), Some(vec![0, 0x0f, 0xff]));
        for wrong in ["+f", "0", "0g", "ü"] {
            assert_eq!(read_hex(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_dialect_is_read_as_it_is_printed() {
        for dialect in [Dialect::Postgres, Dialect::Sqlite] {
            assert_eq!(dialect.to_string().parse::<Dialect>().unwrap(), dialect);
        }
        assert!("mysql".parse::<Dialect>().unwrap_err().to_string().contains("use postgres or sqlite"));
    }
}
