//! `backup`: copies a SQLite database.

use std::path::{Path, PathBuf};

use queue_core::Client;
use serde::Serialize;

use super::{
    args::Format,
    exit::{Exit, Failure},
    output::{print, print_json},
};

pub(super) const HELP: &str = "Examples:
  {bin} backup /backup/queue-$(date +%F).db
  {bin} --url sqlite://queue.db backup copy.db

The copy is one file with everything that was committed. A copy by `cp` lacks the data in the -wal file next to
the database, and may be empty. To restore it, stop all processes: see docs/backup.md.
A Redis or Valkey server makes its own backups, from its RDB or append-only file.";

#[derive(Debug, clap::Args)]
pub(super) struct BackupArgs {
    /// The file to create; it must not exist
    file: PathBuf,
    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Made {
    file: String,
    bytes: u64,
}

pub(super) fn backup(client: &Client, args: &BackupArgs) -> Result<(), Failure> {
    let info = client.info();
    if info.kind != "sqlite" || info.location == ":memory:" {
        let problem = format!("{} is not a SQLite file: back up the server's RDB or append-only file instead", info.location);
        return Err(Failure::new(Exit::Usage, problem));
    }
    let bytes = queue_core::__private::backup(Path::new(&info.location), &args.file)?;
    let made = Made { file: args.file.display().to_string(), bytes };
    if args.format.json {
        print_json(&made)?
    } else {
        print(&format!("{}: {} bytes", made.file, made.bytes))?
    }
    Ok(())
}
