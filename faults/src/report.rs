//! What is told in the end: a table for people, one object for programs.

use std::{collections::BTreeMap, process::Command, time::SystemTime};

use serde::{Deserialize, Serialize};

use crate::{bed::Column, checker::Invariant, rows::Row, run::Outcome};

/// Everything that was run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// What was asked for, on the command line.
    pub command: String,
    /// When it began.
    pub began: String,
    /// How many seconds it took.
    pub seconds: u64,
    /// What was tested, on what.
    pub versions: Vec<String>,
    /// By row and column.
    pub rows: Vec<Line>,
    /// Jobs that were accepted.
    pub jobs: usize,
    /// Of these, lost.
    pub lost: usize,
    /// Stuck in the end.
    pub stuck: usize,
    /// Started before their time.
    pub early: usize,
    /// Started twice, and nothing explains it.
    pub unexplained_duplicates: usize,
    /// All broken promises together.
    pub violations: usize,
    /// Runs that could not be made, or that did not show what the row expects.
    pub failed_runs: usize,
    /// Runs whose fault missed its moment. Each was repeated with the next seed.
    #[serde(default)]
    pub inconclusive: usize,
    /// How often all repeats of a row were inconclusive: it shows nothing, and does not hold.
    #[serde(default)]
    pub undecided: usize,
}

/// One row on one broker.
#[derive(Debug, Serialize, Deserialize)]
pub struct Line {
    /// Its number.
    pub row: String,
    /// What fails.
    pub name: String,
    /// The broker.
    pub broker: String,
    /// How often it was run.
    pub runs: usize,
    /// Jobs that were accepted.
    pub jobs: usize,
    /// Faults that were injected.
    pub faults: usize,
    /// Starts that no handler asked for, by cause.
    pub duplicates: BTreeMap<String, usize>,
    /// Finishes of lost leases that were refused.
    pub fenced_off: usize,
    /// Enqueues that were refused.
    pub refused: usize,
    /// Lost jobs.
    pub lost: usize,
    /// Stuck ones.
    pub stuck: usize,
    /// Early ones.
    pub early: usize,
    /// Unexplained ones.
    pub unexplained_duplicates: usize,
    /// Half of all jobs that a fault took away ran again within so many milliseconds.
    pub recovery_p50_ms: Option<u64>,
    /// 99 of 100.
    pub recovery_p99_ms: Option<u64>,
    /// Half of all workers were at work again within so many milliseconds after the end of all
    /// harm.
    pub resume_p50_ms: Option<u64>,
    /// 99 of 100.
    pub resume_p99_ms: Option<u64>,
    /// What was broken, by invariant, and why runs failed.
    pub problems: BTreeMap<String, usize>,
    /// What the row has measured, in milliseconds: the worst of all runs.
    pub figures: BTreeMap<String, f64>,
    /// The seed of its first run, and of its last.
    pub from_to: (u64, u64),
    /// The seeds of runs that did not hold.
    pub seeds: Vec<u64>,
    /// Why runs were inconclusive, and how many.
    #[serde(default)]
    pub inconclusive: BTreeMap<String, usize>,
    /// How often all repeats were.
    #[serde(default)]
    pub undecided: usize,
    #[serde(skip)]
    recovery_ms: Vec<u64>,
    #[serde(skip)]
    resume_ms: Vec<u64>,
}

/// Runs of a row that did not hold, after which it is not run any more for the number of its harms
/// alone.
const FAILURES: usize = 10;

const LOST: &[Invariant] = &[Invariant::NoLoss];
const STUCK: &[Invariant] = &[Invariant::NothingStuck, Invariant::Drains, Invariant::NoSilentZombie];
const EARLY: &[Invariant] = &[Invariant::NeverEarly, Invariant::Backoff];
const UNEXPLAINED: &[Invariant] = &[Invariant::ExplainedRedelivery, Invariant::NoResurrection, Invariant::SingleHolder];

impl Report {
    /// A report of runs that are to come.
    pub fn begin(arguments: impl Iterator<Item = String>) -> Report {
        let command = ["cargo xtask faults".to_owned()].into_iter().chain(arguments).collect::<Vec<_>>().join(" ");
        let began = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        Report { command, began, versions: versions(), ..Report::default() }
    }

    /// Adds a run.
    pub fn add(&mut self, row: &Row, column: Column, outcome: &Outcome) {
        let broker = column.to_string();
        let known = self.rows.iter().position(|line| line.row == row.number && line.broker == broker);
        let position = known.unwrap_or_else(|| {
            self.rows.push(Line::new(row, broker));
            self.rows.len() - 1
        });
        self.seconds += outcome.time.as_secs();
        let line = &mut self.rows[position];
        line.runs += 1;
        line.from_to = (if line.runs == 1 { outcome.seed } else { line.from_to.0 }, outcome.seed);
        for (name, ms) in &outcome.figures {
            let worst = line.figures.entry((*name).to_owned()).or_insert(*ms);
            *worst = worst.max(*ms);
        }
        if let Some(why) = outcome.inconclusive() {
            *line.inconclusive.entry(why.to_owned()).or_default() += 1;
            self.inconclusive += 1;
        } else if !outcome.held() {
            line.seeds.push(outcome.seed);
            if let Some(problem) = outcome.problem() {
                // A verdict has the state of the queue behind its first line.
                let problem = problem.to_string();
                *line.problems.entry(problem.lines().next().unwrap_or_default().to_owned()).or_default() += 1;
                self.failed_runs += 1;
            }
        }
        let Ok(verdict) = &outcome.verdict else { return };
        let summary = &verdict.summary;
        let broken = |invariants: &[Invariant]| verdict.broken(invariants);
        let (lost, stuck, early, unexplained) = (broken(LOST), broken(STUCK), broken(EARLY), broken(UNEXPLAINED));
        line.jobs += summary.jobs + summary.events;
        line.faults += summary.faults.values().sum::<usize>();
        line.fenced_off += summary.fenced_off;
        line.refused += summary.refused;
        for (cause, n) in &summary.duplicates {
            *line.duplicates.entry((*cause).to_owned()).or_default() += n;
        }
        for violation in &verdict.violations {
            *line.problems.entry(violation.invariant.to_string()).or_default() += 1;
        }
        (line.lost, line.stuck, line.early) = (line.lost + lost, line.stuck + stuck, line.early + early);
        line.unexplained_duplicates += unexplained;
        line.recovery_ms.extend(&summary.recovery_ms);
        line.recovery_ms.sort_unstable();
        line.recovery_p50_ms = percentile(&line.recovery_ms, 50);
        line.recovery_p99_ms = percentile(&line.recovery_ms, 99);
        line.resume_ms.extend(&summary.resume_ms);
        line.resume_ms.sort_unstable();
        line.resume_p50_ms = percentile(&line.resume_ms, 50);
        line.resume_p99_ms = percentile(&line.resume_ms, 99);
        self.jobs += summary.jobs + summary.events;
        (self.lost, self.stuck, self.early) = (self.lost + lost, self.stuck + stuck, self.early + early);
        self.unexplained_duplicates += unexplained;
        self.violations += verdict.violations.len();
    }

    /// Notes how a row ended whose inconclusive runs were repeated.
    pub fn conclude(&mut self, row: &Row, column: Column, last: &Outcome) {
        if last.inconclusive().is_some() {
            let lines = self.rows.iter_mut().filter(|line| line.row == row.number && line.broker == column.name());
            lines.for_each(|line| line.undecided += 1);
            self.undecided += 1;
        }
    }

    /// Whether a row has done so many harms on a broker, or has failed too often to go on.
    pub fn has_done(&self, faults: usize, row: &Row, column: Column) -> bool {
        let line = self.rows.iter().find(|line| line.row == row.number && line.broker == column.name());
        line.is_some_and(|line| line.faults >= faults || line.seeds.len() + line.undecided >= FAILURES)
    }

    /// Whether everything held.
    pub fn held(&self) -> bool {
        self.violations == 0 && self.failed_runs == 0 && self.undecided == 0
    }

    /// The table.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{:<5} {:<6} {:>4} {:>8} {:>6} {:>6} {:>7} {:>7} {:>5} {:>5} {:>5} {:>8} {:>8}  {}\n",
            "row",
            "broker",
            "runs",
            "jobs",
            "faults",
            "twice",
            "fenced",
            "refused",
            "lost",
            "stuck",
            "early",
            "p50 ms",
            "p99 ms",
            "what fails"
        );
        for line in &self.rows {
            let time = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), |ms| ms.to_string());
            text += &format!(
                "{:<5} {:<6} {:>4} {:>8} {:>6} {:>6} {:>7} {:>7} {:>5} {:>5} {:>5} {:>8} {:>8}  {}\n",
                line.row,
                line.broker,
                line.runs,
                line.jobs,
                line.faults,
                line.duplicates.values().sum::<usize>(),
                line.fenced_off,
                line.refused,
                line.lost,
                line.stuck,
                line.early,
                time(line.recovery_p50_ms),
                time(line.recovery_p99_ms),
                line.name,
            );
            if !line.duplicates.is_empty() {
                let causes: Vec<String> = line.duplicates.iter().map(|(cause, n)| format!("{n} by {cause}")).collect();
                text += &format!("{:13}ran twice: {}\n", "", causes.join(", "));
            }
            for (name, ms) in &line.figures {
                text += &format!("{:13}{name}: {ms:.1} ms\n", "");
            }
            for (why, n) in &line.inconclusive {
                text += &format!("{:13}inconclusive {n} times: {why}\n", "");
            }
            if line.undecided > 0 {
                text += &format!("{:13}NOT HELD: all repeats were inconclusive, {} times\n", "", line.undecided);
            }
            for (problem, n) in &line.problems {
                text += &format!("{:13}NOT HELD {n} times: {problem} (seeds {:?})\n", "", line.seeds);
            }
        }
        text += &format!(
            "{} jobs: lost {}, stuck {}, early {}, unexplained duplicates {}; {} promises broken, {} runs failed, {} inconclusive, {} rows undecided\n",
            self.jobs,
            self.lost,
            self.stuck,
            self.early,
            self.unexplained_duplicates,
            self.violations,
            self.failed_runs,
            self.inconclusive,
            self.undecided
        );
        text
    }
}

/// What was tested, on what.
fn versions() -> Vec<String> {
    let program = std::env::var_os("QUEUE_TEST_REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
    let server = Command::new(program).arg("--version").output();
    let server = server.ok().and_then(|said| {
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        Some(said.split_whitespace().find_map(|word| word.strip_prefix("v="))?.to_owned())
    });
    let built = if cfg!(debug_assertions) { "debug build" } else { "optimised build" };
    vec![
        format!("queue {} ({built})", env!("CARGO_PKG_VERSION")),
        format!("Redis {}", server.as_deref().unwrap_or("not found")),
        format!("SQLite {}", rusqlite::version()),
        format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
    ]
}

impl Line {
    fn new(row: &Row, broker: String) -> Line {
        Line {
            row: row.number.to_owned(),
            name: row.name.to_owned(),
            broker,
            runs: 0,
            jobs: 0,
            faults: 0,
            duplicates: BTreeMap::new(),
            fenced_off: 0,
            refused: 0,
            lost: 0,
            stuck: 0,
            early: 0,
            unexplained_duplicates: 0,
            recovery_p50_ms: None,
            recovery_p99_ms: None,
            resume_p50_ms: None,
            resume_p99_ms: None,
            problems: BTreeMap::new(),
            figures: BTreeMap::new(),
            from_to: (0, 0),
            seeds: Vec::new(),
            inconclusive: BTreeMap::new(),
            undecided: 0,
            recovery_ms: Vec::new(),
            resume_ms: Vec::new(),
        }
    }
}

/// Of sorted times.
fn percentile(times: &[u64], percent: usize) -> Option<u64> {
    times.get(times.len().saturating_sub(1) * percent / 100).copied()
}
