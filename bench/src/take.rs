//! Taking a figure: several runs, each beside its reference, and the medians of them.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::{
    Error,
    bars::Bar,
    frame::{Against, Figure, Measure, Reading},
    server::Server,
    stats::{median, percentile},
};

/// One line of the report. `broker`, `name`, `value`, `unit`, `raw` and `ratio` stay; more may
/// come.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) broker: String,
    pub(crate) name: String,
    /// The median of the runs.
    pub(crate) value: f64,
    pub(crate) unit: String,
    /// What it is compared with, in its unit, by the same runs.
    pub(crate) raw: Option<f64>,
    /// The median of `value / raw` of each run.
    pub(crate) ratio: Option<f64>,
    /// What `raw` is.
    pub(crate) against: Option<String>,
    /// The lowest and highest ratio of a run; without a ratio, value.
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) runs: usize,
    pub(crate) bar: Option<String>,
    pub(crate) met: Option<bool>,
    /// The figure that it is a part of, and what that measures.
    pub(crate) figure: String,
    pub(crate) about: String,
}

/// Where figures are taken.
#[derive(Debug)]
pub(crate) struct Ground {
    /// The program of the Redis server.
    pub(crate) server: PathBuf,
    /// A folder on a disk.
    pub(crate) disk: PathBuf,
    pub(crate) runs: usize,
    /// The last reference: of how many clients, how much, and when.
    last_raw: Option<(usize, f64, Instant)>,
}

/// A reference younger than this, taken after one run, serves as the one before the next.
const FRESH: Duration = Duration::from_millis(500);

impl Ground {
    pub(crate) fn new(server: PathBuf, disk: PathBuf, runs: usize) -> Self {
        Ground { server, disk, runs: runs.max(1), last_raw: None }
    }

    /// Takes a figure as often as it needs.
    pub(crate) async fn take(&mut self, figure: &Figure) -> Result<Vec<Line>, Error> {
        let n_runs = self.runs.min(figure.most_runs);
        let mut runs = Vec::new();
        for run in 1..=n_runs {
            eprintln!("{} {}: run {run} of {n_runs}", figure.broker, figure.name);
            runs.push(self.run(figure).await?);
        }
        Ok((0..runs[0].len()).map(|i| line(figure, &runs.iter().map(|run| &run[i]).collect::<Vec<_>>())).collect())
    }

    /// One run: readings with their references.
    async fn run(&mut self, figure: &Figure) -> Result<Vec<(Reading, Option<f64>)>, Error> {
        let (readings, raw) = match &figure.measure {
            Measure::Redis(measure) => {
                let server = if figure.by_cpu { Server::by_cpu(&self.server)? } else { Server::start(&self.server)? };
                let before = self.raw(&server, figure.raw_clients, true)?;
                let readings = measure(&server).await?;
                server.flush()?;
                let after = self.raw(&server, figure.raw_clients, false)?;
                (readings, f64::midpoint(before, after))
            }
            Measure::Disk(measure) => {
                let folder = TempDir::with_prefix_in("bench-", &self.disk)?;
                (measure(&folder.path().canonicalize()?).await?, f64::NAN)
            }
            Measure::Program(measure) => (measure(Path::new(&self.server)).await?, f64::NAN),
        };
        let reference = |reading: &Reading| match reading.against {
            Against::Nothing => None,
            Against::Raw => Some(raw),
            Against::RoundTrip => Some(1e3 / raw),
            Against::Own(value, _) => Some(value),
        };
        Ok(readings.into_iter().map(|reading| (reference(&reading), reading)).map(|(raw, reading)| (reading, raw)).collect())
    }

    fn raw(&mut self, server: &Server, clients: usize, reuse: bool) -> Result<f64, Error> {
        if clients == 0 {
            return Ok(f64::NAN);
        }
        match self.last_raw {
            Some((same, raw, at)) if reuse && same == clients && at.elapsed() < FRESH => Ok(raw),
            _ => {
                let raw = server.raw(clients)?;
                self.last_raw = Some((clients, raw, Instant::now()));
                Ok(raw)
            }
        }
    }
}

/// What several runs say about one reading.
fn line(figure: &Figure, runs: &[&(Reading, Option<f64>)]) -> Line {
    let (first, raw) = runs[0];
    let value = median(runs.iter().map(|(reading, _)| reading.value));
    let mut ratios: Vec<f64> = runs.iter().filter_map(|(reading, raw)| Some(reading.value / (*raw)?)).collect();
    let ratio = raw.map(|_| percentile(&mut ratios, 50.0));
    let mut spread = if ratio.is_some() { ratios } else { runs.iter().map(|(reading, _)| reading.value).collect() };
    let mut line = Line {
        broker: figure.broker.to_owned(),
        name: format!("{}{}", figure.name, first.suffix),
        value,
        unit: first.unit.to_owned(),
        raw: raw.map(|_| median(runs.iter().filter_map(|(_, raw)| *raw))),
        ratio,
        against: match &first.against {
            Against::Nothing => None,
            Against::Raw => Some(format!("LPUSH per second with {}", clients(figure.raw_clients))),
            Against::RoundTrip => Some(format!("the mean round trip of LPUSH with {}", clients(figure.raw_clients))),
            Against::Own(_, what) => Some(what.clone().into_owned()),
        },
        low: percentile(&mut spread, 0.0),
        high: percentile(&mut spread, 100.0),
        runs: runs.len(),
        bar: None,
        met: None,
        figure: figure.name.clone().into_owned(),
        about: format!("{}{}", figure.about, first.conditions),
    };
    Bar::judge(&mut line);
    line
}

fn clients(n: usize) -> String {
    if n == 1 { "one client".to_owned() } else { format!("{n} clients") }
}
