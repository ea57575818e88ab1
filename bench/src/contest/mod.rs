//! The comparison of our queue with the designs from which it evolved, and with other projects'
//! queues.
//!
//! Each is a program that runs the same commands ([`queue_contender`]) in separate processes, on a
//! separate server. None is affected by the connections, the caches or the data of another. The
//! designs and our queue are parts of this program. The others are separate packages in
//! `bench/peers`, which `cargo xtask bench peers` builds.

mod figures;
mod killed;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Stdio,
};

use queue_tests::patience::wait;
use serde::Deserialize;
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::{
    Error, designs,
    frame::Figure,
    ours::{Ours, Outboxed},
};

/// Our queue among them, on either broker, and with an outbox in PostgreSQL and its relay to Redis.
const OURS: &str = "ours";
const OURS_SQLITE: &str = "ours-sqlite";
const OURS_POSTGRES: &str = "ours-postgres";

/// Other projects' queues, as they are named in `bench/peers`.
const PEERS: [(&str, Store); 8] = [
    ("apalis-redis", Store::Redis),
    ("bullmq-rust", Store::Redis),
    ("bullmq-node", Store::Redis),
    ("rusty-sidekiq", Store::Redis),
    ("apalis-sqlite", Store::Sqlite),
    ("effectum", Store::Sqlite),
    ("river-sqlite", Store::Sqlite),
    ("river-postgres", Store::Postgres),
];

/// The role of a child of this program that runs commands.
pub(crate) const PART: &str = "contender";

/// The figures of a group, `designs` or `peers`, together with ours. Further names select
/// contestants or figures. Our figures in the same stores are always included.
pub(crate) async fn chosen(group: &str, names: &[String], peers: &[String]) -> Result<Vec<Figure>, Error> {
    let mut contestants = vec![Contestant::own(OURS).await?];
    if group == "designs" {
        for name in designs::NAMES {
            contestants.push(Contestant::own(name).await?);
        }
    } else {
        for peer in peers {
            contestants.push(Contestant::peer(peer).await?);
        }
        for (own, store) in [(OURS_POSTGRES, Store::Postgres), (OURS_SQLITE, Store::Sqlite)] {
            if contestants.iter().any(|contestant| contestant.store == store) {
                contestants.insert(1, Contestant::own(own).await?);
            }
        }
    }
    for contestant in &contestants {
        eprintln!("{}: {} ({})", contestant.name, contestant.about.versions, contestant.about.settings);
    }
    let mut figures = figures::figures(&contestants);
    let (by_contestant, by_figure): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| contestants.iter().any(|contestant| contestant.name == name.as_str()));
    if let Some(unknown) = by_figure.iter().find(|name| !figures.iter().any(|figure| figure.name == name.as_str())) {
        let known: Vec<&str> = contestants.iter().map(|contestant| contestant.name).collect();
        return Err(format!("{unknown:?} is neither one of {} nor a figure of theirs", known.join(", ")).into());
    }
    let is_named = |contestant: &Contestant| by_contestant.is_empty() || by_contestant.iter().any(|name| contestant.name == name.as_str());
    let is_ours = |contestant: &Contestant| [OURS, OURS_SQLITE, OURS_POSTGRES].contains(&contestant.name);
    let stays = |contestant: &&Contestant| {
        is_named(contestant) || (is_ours(contestant) && contestants.iter().any(|other| is_named(other) && other.store == contestant.store))
    };
    let stay: Vec<&str> = contestants.iter().filter(stays).map(|contestant| contestant.name).collect();
    figures.retain(|figure| {
        (by_figure.is_empty() || by_figure.iter().any(|name| figure.name == name.as_str())) && stay.contains(&figure.broker)
    });
    Ok(figures)
}

/// A contestant.
#[derive(Clone, Debug)]
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    pub(crate) store: Store,
    pub(crate) about: About,
    program: PathBuf,
    arguments: Vec<OsString>,
    /// The URL of the broker, if a database is the store.
    broker: Option<String>,
}

/// The store of a contestant's jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Redis,
    Sqlite,
    Postgres,
}

/// The description of a contestant.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct About {
    pub(crate) versions: String,
    pub(crate) settings: String,
    pub(crate) bulk: bool,
    pub(crate) delays: bool,
    pub(crate) most_jobs: Option<usize>,
}

impl Contestant {
    /// Our own queue, or a design.
    async fn own(name: &'static str) -> Result<Self, Error> {
        let (part, store) = match name {
            OURS_SQLITE => (OURS, Store::Sqlite),
            OURS_POSTGRES => (name, Store::Postgres),
            _ => (name, Store::Redis),
        };
        let arguments = ["--child", PART, part].map(OsString::from).to_vec();
        Contestant::new(name, store, std::env::current_exe()?, arguments).await
    }

    /// A program that was built for it, given as `NAME=PROGRAM`.
    async fn peer(named: &str) -> Result<Self, Error> {
        let (name, program) = named.split_once('=').ok_or_else(|| format!("the peer {named:?} must be NAME=PROGRAM"))?;
        let known = PEERS.iter().find(|(peer, _)| *peer == name);
        let (name, store) = *known.ok_or_else(|| format!("unknown peer {name:?}"))?;
        Contestant::new(name, store, PathBuf::from(program), Vec::new()).await
    }

    async fn new(name: &'static str, store: Store, program: PathBuf, arguments: Vec<OsString>) -> Result<Self, Error> {
        let unknown = About { versions: String::new(), settings: String::new(), bulk: false, delays: false, most_jobs: None };
        let mut contestant = Contestant { name, store, about: unknown, program, arguments, broker: None };
        contestant.about = serde_json::from_value(contestant.ask("-", &["about"]).await?)?;
        Ok(contestant)
    }

    /// Runs a command in a process, and returns its answer.
    async fn ask(&self, url: &str, words: &[&str]) -> Result<Value, Error> {
        let command = words.join(" ");
        let output = self.process(url, words).stdout(Stdio::piped()).stderr(Stdio::piped()).output();
        let ended = wait(format!("{}: the end of `{command}`", self.name)).times(10).try_end_of(output).await?;
        let output = ended.map_err(|error| format!("{}: cannot start {}: {error}", self.name, self.program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.lines().last().map(serde_json::from_str) {
            Some(Ok(answer)) if output.status.success() => Ok(answer),
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                let said: Vec<&str> = said.lines().rev().take(3).collect();
                Err(format!("{}: `{command}` failed: {}", self.name, said.into_iter().rev().collect::<Vec<_>>().join("; ")).into())
            }
        }
    }

    /// Starts a worker that runs until it is killed, and writes its marks to a file.
    fn start(&self, url: &str, concurrency: usize, marks: &Path) -> Result<Child, Error> {
        let mut command = self.process(url, &["work", &concurrency.to_string()]);
        Ok(command.arg(marks).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }

    fn process(&self, url: &str, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg(url).args(words).stdin(Stdio::null()).kill_on_drop(true);
        command.envs(self.broker.iter().map(|url| ("QUEUE_URL", url)));
        command
    }
}

/// Runs the role of a contestant, in the process that was started for it.
pub(crate) async fn play(arguments: &[String]) -> Result<(), Error> {
    match arguments.split_first() {
        Some((name, rest)) if name == OURS => queue_contender::run::<Ours>(rest).await,
        Some((name, rest)) if name == OURS_POSTGRES => queue_contender::run::<Outboxed>(rest).await,
        Some((name, rest)) => designs::run(name, rest).await,
        None => Err("the contestant has no name".into()),
    }
}
