//! Jobs that commit with the data of an application, in a real PostgreSQL and in SQLite files, and
//! the relay that sends them to a real Redis and to SQLite.

mod bed;
mod commits;
mod disasters;
mod kills;
mod plans;
mod producing;
mod relays;
mod steps;
mod till;
