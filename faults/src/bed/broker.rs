//! The broker of a run, and the lines to it.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use queue_tests::{
    proxy::{Harm, Proxy},
    server::{Kind, Server},
};

use super::{Problem, Setup, disk::Disk};
use crate::checker::{Lane, Resources};

/// Which broker a row is run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// A server that stands alone.
    Redis,
    /// A file.
    Sqlite,
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Column::Redis => "redis",
            Column::Sqlite => "sqlite",
        })
    }
}

impl FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "redis" => Ok(Column::Redis),
            "sqlite" => Ok(Column::Sqlite),
            "sentinel" | "cluster" => Err(format!("the suite has no column `{text}` yet; use redis or sqlite")),
            _ => Err("is no broker; use redis or sqlite".to_owned()),
        }
    }
}

/// Where the broker is.
#[derive(Debug)]
pub(super) enum Place {
    Server { server: Server },
    File { path: PathBuf, disk: Option<Disk> },
}

/// What no inspector tells.
pub(super) struct Inside {
    /// The registered lanes.
    pub(super) lanes: Vec<Lane>,
    /// The stored ids of all bodies, where bodies lie apart from states.
    pub(super) bodies: Vec<Vec<u8>>,
}

/// The way from a process to its broker.
#[derive(Debug)]
pub(super) enum Line {
    /// Through a proxy, which can be told to do harm.
    Proxy(Proxy),
    /// To a file, to which nothing can be done on the way.
    Direct,
}

impl Line {
    /// Changes what is done on the way.
    pub(super) fn set(&self, harm: Harm) {
        if let Line::Proxy(proxy) = self {
            proxy.set(harm);
        }
    }

    pub(super) fn url(&self, place: &Place) -> String {
        match self {
            Line::Proxy(proxy) => proxy.url(),
            Line::Direct => place.url(),
        }
    }
}

impl Place {
    pub(super) fn start(column: Column, setup: &Setup, folder: &Path) -> Result<Place, Problem> {
        Ok(match column {
            Column::Redis => Place::Server { server: Server::with(Kind::Redis, setup.server) },
            Column::Sqlite => {
                let disk = setup.disk_mb.map(Disk::mount).transpose()?;
                let path = disk.as_ref().map_or(folder, Disk::path).join("queue.db");
                Place::File { path, disk }
            }
        })
    }

    pub(super) fn url(&self) -> String {
        match self {
            Place::Server { server, .. } => server.url(),
            Place::File { path, .. } => format!("sqlite://{}", path.display()),
        }
    }

    pub(super) fn line(&self) -> Line {
        match self {
            Place::Server { server, .. } => Line::Proxy(Proxy::to(server.port())),
            Place::File { .. } => Line::Direct,
        }
    }

    pub(super) fn server(&mut self) -> Option<&mut Server> {
        match self {
            Place::Server { server, .. } => Some(server),
            Place::File { .. } => None,
        }
    }

    pub(super) fn disk(&self) -> Option<&Disk> {
        match self {
            Place::File { disk, .. } => disk.as_ref(),
            Place::Server { .. } => None,
        }
    }

    /// Ends whatever was done to it.
    pub(super) fn heal(&mut self) -> Result<(), Problem> {
        match self {
            Place::Server { server, .. } => {
                if server.is_up() {
                    server.resume();
                } else {
                    server.restart();
                }
                let _: Result<(), _> = server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
            }
            Place::File { disk: Some(disk), .. } => disk.free(),
            Place::File { .. } => {}
        }
        Ok(())
    }

    pub(super) fn resources(&mut self) -> Resources {
        match self {
            Place::Server { server, .. } => {
                let info: String = server.ask(&["INFO", "clients"]).unwrap_or_default();
                let connections = info.lines().find_map(|line| line.strip_prefix("connected_clients:")?.trim().parse().ok());
                let keys = server.ask(&["DBSIZE"]).unwrap_or(0);
                Resources { keys, connections: connections.unwrap_or(0), ..Resources::default() }
            }
            Place::File { path, .. } => {
                let log = std::fs::metadata(path.with_extension("db-wal")).map_or(0, |log| log.len());
                Resources { log_bytes: log, ..Resources::default() }
            }
        }
    }

    /// What can be seen only from inside.
    pub(super) fn inside(&mut self) -> Result<Inside, Problem> {
        match self {
            Place::Server { server, .. } => {
                let key = |kind: &str| format!("queue:{{{}}}:{kind}", crate::work::QUEUE);
                let names: Vec<String> = server.ask(&["HKEYS", &key("workers")])?;
                let leases: Vec<(String, i64)> = server.ask(&["ZRANGE", &key("leases"), "0", "-1", "WITHSCORES"])?;
                let deadline = |name: &String| leases.iter().find(|(lane, _)| lane == name).map_or(0, |(_, deadline)| *deadline);
                let lanes = names.iter().map(|name| Lane { name: name.clone(), deadline_ms: deadline(name) }).collect();
                Ok(Inside { lanes, bodies: server.ask(&["HKEYS", &key("jobs")])? })
            }
            Place::File { path, .. } => {
                let file = rusqlite::Connection::open_with_flags(&*path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
                let mut lanes = file.prepare("SELECT name, deadline FROM queue_workers")?;
                let lanes = lanes.query_map([], |row| Ok(Lane { name: row.get(0)?, deadline_ms: row.get(1)? }))?;
                Ok(Inside { lanes: lanes.collect::<Result<_, _>>()?, bodies: Vec::new() })
            }
        }
    }
}
