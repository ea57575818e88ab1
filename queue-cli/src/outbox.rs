//! `outbox`: the tables with which jobs commit with the data of an application, and their rows.
//! These commands need only the database, and no broker.

use clap::Subcommand;
use queue_outbox::{Dialect, Error, OutboxChange, OutboxQueue, OutboxRow, OutboxRowId, Relay};
use serde_json::json;

use super::{
    args::Format,
    exit::{Exit, Failure},
    output::{print, print_json, short},
    person,
    table::{
        self,
        Column::{self, Field, Made},
    },
};

#[derive(Debug, Subcommand)]
pub(super) enum OutboxCommand {
    /// Print the SQL that creates the tables, for a migration of the application
    #[command(after_help = "Examples:
  {bin} outbox init --dialect postgres > migrations/0007_queue_outbox.sql
  {bin} outbox init --dialect postgres --schema tenant_7
  {bin} outbox init --dialect sqlite | sqlite3 shop.db")]
    Init(InitArgs),
    /// List the queues of an outbox with their depth and oldest row, or the rows of one queue
    #[command(after_help = "Examples:
  {bin} outbox list --database postgres://shop@db/shop
  {bin} outbox list --database shop.db --queue mail             its rows, in the order to send in
  {bin} outbox list --database shop.db --queue mail --refused   only those that can never be sent
  {bin} outbox list --database shop.db --json | jq '.queues[].waiting'

It needs the database and no broker. PostgreSQL is connected to without TLS")]
    List {
        #[command(flatten)]
        database: DatabaseArgs,
        /// List the rows of this queue; of a topic: @ and its name
        #[arg(long)]
        queue: Option<String>,
        /// List only rows that can never be sent
        #[arg(long, requires = "queue")]
        refused: bool,
        /// List at most this many rows
        #[arg(long, default_value = "100", value_name = "ROWS")]
        limit: u32,
        #[command(flatten)]
        format: Format,
    },
    /// Send rows again that were refused, or that wait because their group was full
    #[command(after_help = "Examples:
  {bin} outbox retry --database postgres://shop@db/shop mail           all of the queue
  {bin} outbox retry --database postgres://shop@db/shop mail 4711/order-7 4712/order-8

Rows are written as `outbox list --queue` shows them: the number and the id of the job")]
    Retry {
        #[command(flatten)]
        database: DatabaseArgs,
        /// The queue; of a topic: @ and its name
        queue: String,
        /// The rows; without any: all of the queue
        #[arg(value_name = "SEQ/JOB")]
        rows: Vec<OutboxRowId>,
        #[command(flatten)]
        format: Format,
    },
    /// Delete rows: their jobs are never enqueued
    #[command(after_help = "Examples:
  {bin} outbox drop --database postgres://shop@db/shop mail 4711/order-7 --yes

Rows are written as `outbox list --queue` shows them: the number and the id of the job. Rows that are in flight to the broker are not dropped: exit code 4, and nothing was changed")]
    Drop {
        #[command(flatten)]
        database: DatabaseArgs,
        /// The queue; of a topic: @ and its name
        queue: String,
        /// The rows
        #[arg(required = true, value_name = "SEQ/JOB")]
        rows: Vec<OutboxRowId>,
        /// Drop them without a question
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        format: Format,
    },
    /// Take back a request that is in flight at a broker which does not come back, so that its rows
    /// are sent to another one
    #[command(after_help = "Examples:
  {bin} outbox release --database postgres://shop@db/shop mail --yes

Jobs that the old broker has stored may run twice. While that broker can be reached, run a relay with its URL instead")]
    Release {
        #[command(flatten)]
        database: DatabaseArgs,
        /// The queue; of a topic: @ and its name
        queue: String,
        /// Release it without a question
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        format: Format,
    },
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

#[derive(Debug, clap::Args)]
pub(super) struct DatabaseArgs {
    /// The database of the application: postgres://USER@HOST/DATABASE, or the path of a SQLite file
    #[arg(long, value_name = "URL|PATH")]
    database: String,
    /// The schema of the tables in PostgreSQL
    #[arg(long, default_value = "public")]
    schema: String,
}

impl DatabaseArgs {
    fn relay(&self) -> Result<Relay, Failure> {
        let is_postgres = ["postgres://", "postgresql://"].iter().any(|scheme| self.database.starts_with(scheme));
        if is_postgres { self.postgres() } else { self.sqlite() }
    }

    #[cfg(feature = "outbox-postgres")]
    fn postgres(&self) -> Result<Relay, Failure> {
        Relay::postgres_in(&self.database, &self.schema).map_err(|error| Failure::new(Exit::Usage, format!("--database: {error}")))
    }

    #[cfg(not(feature = "outbox-postgres"))]
    #[expect(clippy::unused_self, reason = "with the feature it is used")]
    fn postgres(&self) -> Result<Relay, Failure> {
        Err(missing_feature("PostgreSQL", "outbox-postgres"))
    }

    #[cfg(feature = "sqlite")]
    #[expect(clippy::unnecessary_wraps, reason = "without the feature it fails")]
    fn sqlite(&self) -> Result<Relay, Failure> {
        Ok(Relay::sqlite(self.database.strip_prefix("sqlite://").unwrap_or(&self.database)))
    }

    #[cfg(not(feature = "sqlite"))]
    #[expect(clippy::unused_self, reason = "with the feature it is used")]
    fn sqlite(&self) -> Result<Relay, Failure> {
        Err(missing_feature("SQLite", "sqlite"))
    }
}

#[cfg(not(all(feature = "outbox-postgres", feature = "sqlite")))]
fn missing_feature(database: &str, feature: &str) -> Failure {
    let problem =
        format!("this program was built without {database}: use the program `queue`, or turn on the feature `{feature}` of queue-worker");
    Failure::new(Exit::Setup, problem)
}

pub(super) async fn outbox(command: OutboxCommand) -> Result<(), Failure> {
    match command {
        OutboxCommand::Init(InitArgs { dialect, schema }) => {
            let migration = dialect.migration(&schema).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
            Ok(print(&migration)?)
        }
        OutboxCommand::List { database, queue: None, format, .. } => {
            let queues = database.relay()?.queues().await.map_err(|error| failure(&error))?;
            table::list(&format, "queues", &queues, &QUEUES, "the outbox is empty")
        }
        OutboxCommand::List { database, queue: Some(queue), refused, limit, format } => {
            let rows = database.relay()?.rows(&queue, refused, limit).await.map_err(|error| failure(&error))?;
            table::list(&format, "rows", &rows, &ROWS, &format!("{queue} has no such rows"))
        }
        OutboxCommand::Retry { database, queue, rows, format } => {
            change(&database, &queue, &OutboxChange::Retry(rows), "to be sent again", &format).await
        }
        OutboxCommand::Drop { database, queue, rows, yes, format } => {
            person::confirm(yes, &format!("{} of {queue} will be dropped, and their jobs never enqueued", counted(rows.len())))?;
            change(&database, &queue, &OutboxChange::Drop(rows), "dropped", &format).await
        }
        OutboxCommand::Release { database, queue, yes, format } => {
            person::confirm(
                yes,
                &format!("the request in flight of {queue} will be sent again, and jobs that its broker has may run twice"),
            )?;
            change(&database, &queue, &OutboxChange::Release, "no longer in flight", &format).await
        }
    }
}

async fn change(database: &DatabaseArgs, queue: &str, change: &OutboxChange, what: &str, format: &Format) -> Result<(), Failure> {
    let changed = database.relay()?.change(queue, change).await.map_err(|error| failure(&error))?;
    if format.json {
        let rows: Vec<String> = changed.iter().map(OutboxRowId::to_string).collect();
        print_json(&json!({ "queue": queue, "rows": rows }))?;
    } else {
        print(&format!("{queue}: {} {what}", counted(changed.len())))?;
    }
    let asked = match change {
        OutboxChange::Retry(rows) | OutboxChange::Drop(rows) => rows.as_slice(),
        _ => &[],
    };
    let missing: Vec<String> = asked.iter().filter(|row| !changed.contains(row)).map(OutboxRowId::to_string).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Exit::NotFound, format!("not changed, because they are not there or were already sent: {}", missing.join(", "))))
}

fn failure(error: &Error) -> Failure {
    let exit = match error {
        Error::Invalid { field: "row", .. } => Exit::WrongState,
        Error::Invalid { .. } => Exit::Usage,
        Error::NoTables { .. } | Error::TooNew { .. } => Exit::Setup,
        _ => Exit::Unavailable,
    };
    Failure::new(exit, error.to_string())
}

fn counted(rows: usize) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}

const QUEUES: [Column<OutboxQueue>; 8] = [
    Field("queue"),
    Field("waiting"),
    Field("oldest_ms"),
    Field("in_flight"),
    Field("refused"),
    Field("full"),
    Made("relay", |queue| queue.holder.clone().unwrap_or_else(|| "none".to_owned())),
    Field("broker"),
];

const ROWS: [Column<OutboxRow>; 4] = [
    Field("row"),
    Field("task"),
    Field("age_ms"),
    Made("state", |row| match &row.refused {
        Some(why) => format!("refused: {}", short(why, 200)),
        None if row.put_off => "put off: its group is full".to_owned(),
        None => "waiting".to_owned(),
    }),
];
