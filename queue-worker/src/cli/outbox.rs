//! `outbox`: the tables by which jobs commit with the data of an application.

use clap::Subcommand;
use queue_outbox::Dialect;

use super::{
    exit::{Exit, Failure},
    output::print,
};

#[derive(Debug, Subcommand)]
pub(super) enum OutboxCommand {
    /// Print the SQL that creates the tables, for a migration of the application
    #[command(after_help = "Examples:
  {bin} outbox init --dialect postgres > migrations/0007_queue_outbox.sql
  {bin} outbox init --dialect postgres --schema tenant_7
  {bin} outbox init --dialect sqlite | sqlite3 shop.db")]
    Init(InitArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct InitArgs {
    /// The database of the application: postgres or sqlite
    #[arg(long)]
    dialect: Dialect,
    /// The schema of the tables in PostgreSQL
    #[arg(long, default_value = "public")]
    schema: String,
}

pub(super) fn outbox(command: &OutboxCommand) -> Result<(), Failure> {
    let OutboxCommand::Init(InitArgs { dialect, schema }) = command;
    let migration = dialect.migration(schema).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    Ok(print(&migration)?)
}
