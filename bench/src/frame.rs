//! What a figure is: something that can be measured by name, with what it is compared to and what
//! it has to reach.

use std::{borrow::Cow, path::Path};

use futures_util::future::BoxFuture;

use crate::{Error, server::Server};

/// Something that can be measured by name.
pub(crate) struct Figure {
    pub(crate) broker: &'static str,
    pub(crate) name: Cow<'static, str>,
    /// What is measured, as a sentence of the report.
    pub(crate) about: Cow<'static, str>,
    pub(crate) when: When,
    /// How many runs are enough, where that is fewer than were asked for.
    pub(crate) most_runs: usize,
    /// How many clients the reference has that is taken before and after each run; 0 for none.
    pub(crate) raw_clients: usize,
    /// Whether its Redis server measures scripts by the CPU time that they take.
    pub(crate) by_cpu: bool,
    pub(crate) measure: Measure,
}

/// When a figure is taken without being named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// In every run.
    Plain,
    /// With `--long`.
    Long,
    /// Never: it needs more than the others.
    Named,
}

/// What a figure is given to measure on, each time anew.
pub(crate) enum Measure {
    /// A Redis server of its own.
    Redis(On<Server>),
    /// An empty folder on a disk.
    Disk(On<Path>),
    /// The program of the Redis server.
    Program(On<Path>),
}

/// One run of a figure on what it is given.
type On<T> = Box<dyn for<'a> Fn(&'a T) -> BoxFuture<'a, Readings>>;

/// What one run of a figure gives.
pub(crate) type Readings = Result<Vec<Reading>, Error>;

/// One number of a figure.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// What follows the figure's name; nothing for its main number.
    pub(crate) suffix: Cow<'static, str>,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) against: Against,
    /// What it was measured on, as sentences of the report, where the machine alone does not say it.
    pub(crate) conditions: String,
}

/// What the ratio of a reading is relative to.
#[derive(Clone, Debug)]
pub(crate) enum Against {
    Nothing,
    /// Jobs per second: the `LPUSH` per second of the figure's `raw_clients`.
    Raw,
    /// Milliseconds: the round trip of one `LPUSH`, by the same reference.
    RoundTrip,
    /// A number of the same run, and what it is.
    Own(f64, Cow<'static, str>),
}

impl Figure {
    /// A figure on a Redis server that is started for it, and that nothing else uses.
    pub(crate) fn redis<F>(name: impl Into<Cow<'static, str>>, about: impl Into<Cow<'static, str>>, measure: F) -> Self
    where
        F: for<'a> Fn(&'a Server) -> BoxFuture<'a, Readings> + 'static,
    {
        Figure::new(name.into(), about.into(), Measure::Redis(Box::new(measure)))
    }

    /// A figure of SQLite, in an empty folder on a disk.
    pub(crate) fn sqlite<F>(name: impl Into<Cow<'static, str>>, about: impl Into<Cow<'static, str>>, measure: F) -> Self
    where
        F: for<'a> Fn(&'a Path) -> BoxFuture<'a, Readings> + 'static,
    {
        Figure::new(name.into(), about.into(), Measure::Disk(Box::new(measure))).of("sqlite")
    }

    /// A figure of a cluster, which it starts itself.
    pub(crate) fn cluster<F>(name: impl Into<Cow<'static, str>>, about: impl Into<Cow<'static, str>>, measure: F) -> Self
    where
        F: for<'a> Fn(&'a Path) -> BoxFuture<'a, Readings> + 'static,
    {
        Figure::program(name, about, measure).of("cluster")
    }

    /// A figure of Redis servers that it starts itself.
    pub(crate) fn program<F>(name: impl Into<Cow<'static, str>>, about: impl Into<Cow<'static, str>>, measure: F) -> Self
    where
        F: for<'a> Fn(&'a Path) -> BoxFuture<'a, Readings> + 'static,
    {
        Figure::new(name.into(), about.into(), Measure::Program(Box::new(measure)))
    }

    fn new(name: Cow<'static, str>, about: Cow<'static, str>, measure: Measure) -> Self {
        Figure { broker: "redis", name, about, when: When::Plain, most_runs: usize::MAX, raw_clients: 0, by_cpu: false, measure }
    }

    /// Names the broker, or another contender than ours.
    pub(crate) fn of(mut self, broker: &'static str) -> Self {
        self.broker = broker;
        self
    }

    /// Puts it between two runs of `redis-benchmark` with so many clients.
    pub(crate) fn raw(mut self, clients: usize) -> Self {
        self.raw_clients = clients;
        self
    }

    /// Lets its Redis server measure scripts by the CPU time that they take.
    pub(crate) fn by_cpu(mut self) -> Self {
        self.by_cpu = true;
        self
    }

    /// Lets so many runs be enough: it takes long, or moves little.
    pub(crate) fn most_runs(mut self, runs: usize) -> Self {
        self.most_runs = runs;
        self
    }

    pub(crate) fn when(mut self, when: When) -> Self {
        self.when = when;
        self
    }
}

impl Reading {
    pub(crate) fn new(suffix: impl Into<Cow<'static, str>>, value: f64, unit: &'static str) -> Self {
        Reading { suffix: suffix.into(), value, unit, against: Against::Nothing, conditions: String::new() }
    }

    /// The figure's main number: jobs per second beside raw `LPUSH` per second.
    pub(crate) fn rate(value: f64) -> Self {
        Reading::new("", value, "jobs/s").against(Against::Raw)
    }

    pub(crate) fn against(mut self, against: Against) -> Self {
        self.against = against;
        self
    }

    /// Relative to a number of the same run.
    pub(crate) fn beside(self, value: f64, what: impl Into<Cow<'static, str>>) -> Self {
        self.against(Against::Own(value, what.into()))
    }
}

impl std::fmt::Debug for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Figure").field("broker", &self.broker).field("name", &self.name).finish_non_exhaustive()
    }
}
