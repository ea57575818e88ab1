//! The commands of a worker binary, with the programs of `src/bin`.

mod cli;
mod documents;
mod edits_cli;
mod environment;
mod groups_cli;
mod history_cli;
mod limits_cli;
mod names;
mod operations_cli;
mod slow_clients;
mod topics_cli;
mod watching;
mod workers_cli;
