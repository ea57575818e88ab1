//! Jobs in transactions of sqlx, with a real PostgreSQL and a SQLite file. The adapter for sqlx 0.9
//! runs the same tests.

mod postgres;
mod sqlite;
