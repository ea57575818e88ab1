//! The broker of a run, and the connections to it.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use queue_conformance::patience::patience;
use queue_tests::{
    cluster::Cluster,
    proxy::{Harm, Proxy},
    sentinel::Sentinels,
    server::{Kind, Server},
};

use super::{Problem, Setup, disk::Disk, power::Recording};
use crate::{
    checker::{Lane, Resources},
    events::TOPIC,
    work::QUEUE,
};

/// The broker on which a row runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// A single server.
    Redis,
    /// A master with a replica, watched by sentinels.
    Sentinel,
    /// Three masters, each with a replica.
    Cluster,
    /// A file.
    Sqlite,
}

impl Column {
    /// All columns.
    pub const ALL: [Column; 4] = [Column::Redis, Column::Sentinel, Column::Cluster, Column::Sqlite];

    /// The name in all interfaces.
    pub fn name(self) -> &'static str {
        match self {
            Column::Redis => "redis",
            Column::Sentinel => "sentinel",
            Column::Cluster => "cluster",
            Column::Sqlite => "sqlite",
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Column::ALL.map(Column::name).join(", ");
        Column::ALL.into_iter().find(|column| column.name() == text).ok_or_else(|| format!("is no broker; use one of {}", known()))
    }
}

/// The location of the broker.
#[derive(Debug)]
pub(super) enum Place {
    Server {
        server: Server,
    },
    Sentinels {
        all: Sentinels,
        killed: Option<Killed>,
    },
    /// The hash tag of the keys of a run.
    Cluster {
        all: Cluster,
        killed: Option<Killed>,
        tag: &'static str,
    },
    File {
        path: PathBuf,
        process_crash: bool,
        disk: Option<Disk>,
    },
}

/// The numbers of a master that was killed, and of its replica.
type Killed = (usize, usize);

/// The time without an answer after which a server is considered down.
const DOWN_AFTER: Duration = Duration::from_millis(1_500);

/// Internal data that no inspector returns.
pub(super) struct Inside {
    /// The registered lanes.
    pub(super) lanes: Vec<Lane>,
    /// The stored ids of all bodies, if bodies are stored separately from states.
    pub(super) bodies: Vec<Vec<u8>>,
}

/// The connection from a process to its broker.
#[derive(Debug)]
pub(super) enum Line {
    /// Through a proxy that can inject faults.
    Proxy(Proxy),
    /// Without a proxy, so no faults can be injected.
    Direct,
}

impl Line {
    /// Changes the injected fault.
    pub(super) fn set(&self, harm: Harm) {
        if let Line::Proxy(proxy) = self {
            proxy.set(harm);
        }
    }

    /// The number of replies that were swallowed or truncated.
    pub(super) fn harmed(&self) -> usize {
        match self {
            Line::Proxy(proxy) => proxy.harmed(),
            Line::Direct => 0,
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
            Column::Redis if setup.by_cpu => Place::Server { server: Server::by_cpu(Kind::Redis, setup.server) },
            Column::Redis if setup.own_clocks => Place::Server { server: Server::with_own_clock(Kind::Redis, setup.server) },
            Column::Redis => Place::Server { server: Server::with(Kind::Redis, setup.server) },
            Column::Sentinel if setup.own_clocks => {
                Place::Sentinels { all: Sentinels::with_own_clocks(Kind::Redis, DOWN_AFTER), killed: None }
            }
            Column::Sentinel => Place::Sentinels { all: Sentinels::start(Kind::Redis, DOWN_AFTER), killed: None },
            Column::Cluster => {
                let tag = if setup.mix.events { TOPIC } else { QUEUE };
                Place::Cluster { all: Cluster::start(Kind::Redis, DOWN_AFTER), killed: None, tag }
            }
            Column::Sqlite => {
                let disk = setup.disk_mb.map(Disk::mount).transpose()?;
                let path = disk.as_ref().map_or(folder, Disk::path).join("queue.db");
                Place::File { path, process_crash: setup.process_crash, disk }
            }
        })
    }

    pub(super) fn column(&self) -> Column {
        match self {
            Place::Server { .. } => Column::Redis,
            Place::Sentinels { .. } => Column::Sentinel,
            Place::Cluster { .. } => Column::Cluster,
            Place::File { .. } => Column::Sqlite,
        }
    }

    pub(super) fn url(&self) -> String {
        match self {
            Place::Server { server } => server.url(),
            Place::Sentinels { all, .. } => all.url(),
            Place::Cluster { all, .. } => all.url(),
            Place::File { path, process_crash, .. } => {
                format!("sqlite://{}{}", path.display(), if *process_crash { "?durability=process-crash" } else { "" })
            }
        }
    }

    /// From now on, all file operations of processes are recorded.
    pub(super) fn record(&self) -> Result<Recording, Problem> {
        match self {
            Place::File { path, .. } => Recording::begin(path),
            Place::Server { .. } | Place::Sentinels { .. } | Place::Cluster { .. } => Err("only a file can be recorded".into()),
        }
    }

    pub(super) fn line(&self) -> Line {
        match self {
            Place::Server { server } => Line::Proxy(Proxy::to(server.port())),
            // These servers redirect clients themselves.
            Place::Sentinels { .. } | Place::Cluster { .. } | Place::File { .. } => Line::Direct,
        }
    }

    pub(super) fn server(&mut self) -> Option<&mut Server> {
        match self {
            Place::Server { server } => Some(server),
            Place::Sentinels { .. } | Place::Cluster { .. } | Place::File { .. } => None,
        }
    }

    /// A planned failover, which loses nothing.
    pub(super) fn hand_over(&mut self) -> Result<(), Problem> {
        match self {
            Place::Sentinels { all, .. } => drop(all.hand_over()),
            Place::Cluster { all, tag, .. } => drop(all.hand_over(all.slot(tag))),
            Place::Server { .. } | Place::File { .. } => return Err("this row needs sentinels or a cluster".into()),
        }
        Ok(())
    }

    /// Waits until another failover is possible.
    pub(super) fn settled(&self) -> Result<(), Problem> {
        match self {
            Place::Sentinels { all, .. } => {
                all.wait_for_sync();
                all.wait_for_sentinels();
            }
            Place::Cluster { all, .. } => {
                all.wait_for_sync();
                all.wait_for_agreement();
            }
            Place::Server { .. } | Place::File { .. } => return Err("this row needs sentinels or a cluster".into()),
        }
        Ok(())
    }

    /// Sets the error of the master's clock from now on.
    pub(super) fn move_clock(&self, by_ms: i64) -> Result<(), Problem> {
        match self {
            Place::Server { server } => server.move_clock(by_ms),
            Place::Sentinels { all, .. } => all.server(all.master()).move_clock(by_ms),
            Place::Cluster { .. } | Place::File { .. } => return Err("this row needs a server or sentinels".into()),
        }
        Ok(())
    }

    /// From now on, the replica of the master does not receive writes.
    pub(super) fn cut_off_replicas(&self) -> Result<(), Problem> {
        match self {
            Place::Sentinels { all, .. } => all.server(all.master()).cut_off_replicas(),
            Place::Cluster { all, tag, .. } => all.node(all.master(all.slot(tag))).cut_off_replicas(),
            Place::Server { .. } | Place::File { .. } => return Err("this row needs sentinels or a cluster".into()),
        }
        Ok(())
    }

    /// Kills the master.
    pub(super) fn kill_master(&mut self) -> Result<(), Problem> {
        match self {
            Place::Sentinels { all, killed } => {
                let master = all.kill_master();
                *killed = Some((master, 1 - master));
            }
            Place::Cluster { all, killed, tag } => *killed = Some(all.kill_master(all.slot(tag))),
            Place::Server { .. } | Place::File { .. } => return Err("this row needs sentinels or a cluster".into()),
        }
        Ok(())
    }

    /// Waits until the replica of the killed master was promoted.
    pub(super) fn wait_for_promotion(&self) -> Result<(), Problem> {
        match self {
            Place::Sentinels { all, killed: Some((_, replica)) } => drop(all.wait_for_promotion(*replica)),
            Place::Cluster { all, killed: Some((_, replica)), .. } => drop(all.wait_for_promotion(*replica)),
            _ => return Err("no master was killed".into()),
        }
        Ok(())
    }

    /// Suspends or resumes the sentinels.
    pub(super) fn pause_sentinels(&mut self, pause: bool) -> Result<(), Problem> {
        match self {
            Place::Sentinels { all, .. } if pause => all.pause_sentinels(0..3),
            Place::Sentinels { all, .. } => all.resume_sentinels(0..3),
            _ => return Err("this row needs sentinels".into()),
        }
        Ok(())
    }

    /// Moves the slot of the queue to another master, key by key.
    pub(super) fn move_slot(&mut self) -> Result<(), Problem> {
        let Place::Cluster { all, tag, .. } = self else { return Err("this row needs a cluster".into()) };
        let slot = all.slot(tag);
        let from = all.master(slot);
        let to = all.masters().into_iter().find(|master| *master != from).ok_or("there is one master only")?;
        all.move_slot(slot, to, Duration::from_millis(20))?;
        Ok(())
    }

    /// The database file, if there is one.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Place::File { path, .. } => Some(path),
            Place::Server { .. } | Place::Sentinels { .. } | Place::Cluster { .. } => None,
        }
    }

    pub(super) fn disk(&self) -> Option<&Disk> {
        match self {
            Place::File { disk, .. } => disk.as_ref(),
            Place::Server { .. } | Place::Sentinels { .. } | Place::Cluster { .. } => None,
        }
    }

    /// Ends all injected faults.
    pub(super) fn heal(&mut self) -> Result<(), Problem> {
        match self {
            Place::Sentinels { all, killed } => {
                all.resume_sentinels(0..3);
                if let Some((master, _)) = killed.take() {
                    all.bring_back(master);
                }
            }
            Place::Cluster { all, killed, .. } => {
                if let Some((master, _)) = killed.take() {
                    all.bring_back(master);
                }
            }
            Place::Server { server } => {
                if server.is_up() {
                    server.resume();
                } else {
                    server.restart();
                }
                let _: Result<(), _> = server.ask_patiently(&["CONFIG", "SET", "maxmemory", "0"], patience());
            }
            Place::File { disk: Some(disk), .. } => disk.free(),
            Place::File { .. } => {}
        }
        Ok(())
    }

    /// The number of times that a server has blocked all clients because of its disk. This is not a
    /// fault of a run, but may look like one.
    pub(super) fn disk_waits(&self) -> u64 {
        let Place::Server { server } = self else { return 0 };
        let info: String = server.ask_patiently(&["INFO", "persistence"], patience()).unwrap_or_default();
        info.lines().find_map(|line| line.strip_prefix("aof_delayed_fsync:")?.trim().parse().ok()).unwrap_or(0)
    }

    pub(super) fn resources(&mut self) -> Resources {
        match self {
            Place::Sentinels { .. } | Place::Cluster { .. } => Resources::default(),
            Place::Server { server } => {
                let info: String = server.ask_patiently(&["INFO", "clients"], patience()).unwrap_or_default();
                let connections = info.lines().find_map(|line| line.strip_prefix("connected_clients:")?.trim().parse().ok());
                let keys = server.ask_patiently(&["DBSIZE"], patience()).unwrap_or(0);
                Resources { keys, connections: connections.unwrap_or(0), ..Resources::default() }
            }
            Place::File { path, .. } => {
                let log = std::fs::metadata(path.with_extension("db-wal")).map_or(0, |log| log.len());
                Resources { log_bytes: log, ..Resources::default() }
            }
        }
    }

    /// Internal data of a queue.
    pub(super) fn inside(&self, queue: &str) -> Result<Inside, Problem> {
        // The queues of subscriptions are in the slot of their topic.
        let (own, tag) = queue.split_once('@').map_or((String::new(), queue), |(own, topic)| (format!("@{own}"), topic));
        let master = match self {
            Place::Server { server } => Some(server),
            Place::Sentinels { all, .. } => Some(all.server(all.master())),
            Place::Cluster { all, .. } => Some(all.node(all.master(all.slot(tag)))),
            Place::File { .. } => None,
        };
        match (master, self) {
            (Some(server), _) => {
                let key = |kind: &str| format!("queue:{{{tag}}}{own}:{kind}");
                let names: Vec<String> = server.ask_patiently(&["HKEYS", &key("lanes")], patience())?;
                let leases: Vec<(String, i64)> = server.ask_patiently(&["ZRANGE", &key("leases"), "0", "-1", "WITHSCORES"], patience())?;
                let deadline = |name: &String| leases.iter().find(|(lane, _)| lane == name).map_or(0, |(_, deadline)| *deadline);
                let lanes = names.iter().map(|name| Lane { name: name.clone(), deadline_ms: deadline(name) }).collect();
                Ok(Inside { lanes, bodies: server.ask_patiently(&["HKEYS", &key("jobs")], patience())? })
            }
            (None, Place::File { path, .. }) => {
                let file = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
                let mut lanes = file.prepare(
                    "SELECT queue_lanes.name, deadline FROM queue_lanes JOIN queue_queues ON queue_lanes.queue = queue_queues.queue WHERE queue_queues.name = ?1",
                )?;
                let lanes = lanes.query_map([queue], |row| Ok(Lane { name: row.get(0)?, deadline_ms: row.get(1)? }))?;
                Ok(Inside { lanes: lanes.collect::<Result<_, _>>()?, bodies: Vec::new() })
            }
            (None, _) => Err("there is neither a server nor a file".into()),
        }
    }
}
