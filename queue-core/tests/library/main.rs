//! The library's own tests: its layers, and SQLite files.

mod client_sqlite;
mod layers;
mod sqlite_files;
mod sqlite_kill;
mod sqlite_lost_files;
mod sqlite_smoke;
