//! The file and the thread that owns it: the code that all transitions share.
//!
//! | file | what it does |
//! |---|---|
//! | `url` | reads `sqlite://` URLs |
//! | `schema` | the tables; opens a file that may have them |
//! | `linked` | refuses a SQLite that could corrupt a file |
//! | `file` | notices that the file at the path is another one |
//! | `writer`, `operation` | the thread of a connection; a commit for all operations that wait |
//! | `tx` | the transaction of an operation: statements, clock, counters, hints |
//! | `statement` | includes a `.sql` file |
//! | `text`, `unsigned` | read text that need not be UTF-8; store and read `u64` and `usize` |
//! | `busy` | waits for the write lock of another process |
//! | `ballast`, `condition` | a full disk |
//! | `owners` | refuses files of other users |
//! | `triggers`, `transitions.sql` | record transitions while a watcher follows a queue |
//! | `doorbell`, `sockets` | notifies listeners, here and in other processes, that there is work |

pub(crate) mod ballast;
mod busy;
pub(crate) mod condition;
pub(crate) mod doorbell;
pub(crate) mod file;
mod linked;
pub(crate) mod operation;
mod owners;
pub(crate) mod schema;
#[cfg(unix)]
pub(crate) mod sockets;
pub(crate) mod statement;
pub(crate) mod text;
pub(crate) mod triggers;
pub(crate) mod tx;
pub(crate) mod unsigned;
pub(crate) mod url;
pub(crate) mod writer;

use std::path::Path;

use self::{
    file::{Access, File, Lost},
    writer::Opened,
};
use crate::error::Result;

/// Opens a file, or a database in memory.
pub(crate) fn open(path: Option<&Path>, access: Access, lost: &Lost) -> Result<Opened> {
    let location = schema::display_path(path);
    let Some(path) = path else { return Ok(Opened { connection: schema::open_writer(None)?, file: None, location }) };
    let (connection, file) = File::open(path, access, lost.clone())?;
    Ok(Opened { connection, file: Some(file), location })
}
