//! The page itself.

use std::{collections::HashSet, fmt::Write as _};

use super::{
    plot::Kind,
    plots::{Plot, kind},
};
use crate::take::Line;

const INTRODUCTION: &str = "# Benchmarks

<!-- Written by `cargo xtask bench --report docs/benchmarks.md`; do not edit. -->

Measurements of the queue on one machine. Each figure has a *reference*, which was measured in the
same run, and a *bar*, the value that we require. Absolute numbers do not carry over to other
machines; ratios to a reference do.

## Measure it yourself

You need Rust, `redis-server` and `redis-benchmark` (7.0 or newer) on the path, a disk for SQLite,
and an otherwise idle machine. In a clone of the repository:

```sh
cargo xtask bench                              # all figures except the long ones: 15 minutes
cargo xtask bench --long                       # also the long ones; 10 million jobs take 3 GB
cargo xtask bench process latency --runs 9     # selected figures
cargo xtask bench redis --json > figures.jsonl # one JSON object per number
cargo xtask bench --list                       # describes each figure
cargo xtask bench instructions                 # instructions of the longest scripts; needs Valgrind
cargo xtask bench --report docs/benchmarks.md  # measures, and writes this page
cargo xtask bench --report docs/benchmarks.md --redraw # only writes this page, from stored numbers
```

## Method

- We measure a release build with default settings. Server, workers and producers share one machine.
- Each run of a Redis figure starts its own `redis-server`, which persists nothing.
- *Raw* is the rate that `redis-benchmark` reports for `LPUSH` without a pipeline. It uses 50
  clients, or one client for figures of one producer and for latency. We measure it directly before
  and after each run, and divide the run's value by the mean of both. A figure with another
  reference names it.
- The reference of a SQLite figure is a hand-written loop on one thread. The loop uses the same
  tables, statements, batches and `synchronous=FULL`, and has no leases, names, wake-ups or
  handlers.
- A value is the median of its runs, and a ratio is the median of their ratios. The spread is the
  range of the ratios, or of the values if there is no ratio.
- The longest script is measured in CPU time of the server: a small library, loaded into the server,
  replaces its clock by one that runs only while the server's thread runs. A wall clock would also
  count the time of other processes that interrupt a script. The `PING` of the same run shows what
  another client sees.
- `instructions` counts the instructions of each script, which does not depend on other programs on
  the machine. One server runs in Valgrind and one without; both get the same requests, and the sums
  of both give the time of a million instructions.
- The commands, bytes and allocations of a job do not depend on the machine. These numbers are in
  `bench/baseline.json`, and `cargo xtask test` fails if one of them grows.
";

/// The text below the bars.
const GOOD_ENOUGH: &str = "
We do not optimize two and four processes, 1,000 queues and the latency of a lone job any further:
[decision 001](decisions/001-good-enough.md) gives the reasons, and the conditions under which we
reconsider.
";

/// The page for these lines.
pub(crate) fn page(lines: &[Line], plots: &[Plot], folder: &str, facts: &[(&'static str, String)], is_busy: bool, costs: &str) -> String {
    let mut page = INTRODUCTION.to_owned();
    page += "\n## Machine and versions\n\n| | |\n|---|---|\n";
    for (name, value) in facts {
        let _ = writeln!(page, "| {name} | {value} |");
    }
    if is_busy {
        page += "\n**The machine was busy with other work when this page was written. Take its numbers as provisional.**\n";
    }
    page += "\n## Bars\n\n| | figure | value | ratio | bar | |\n|---|---|---:|---:|---|---|\n";
    for line in lines.iter().filter(|line| line.bar.is_some()) {
        let met = match line.met {
            Some(true) => "met",
            Some(false) => "**not met**",
            None => "",
        };
        let bar = line.bar.as_deref().unwrap_or_default();
        // In full: 0.695 does not meet a bar of 0.7.
        let (value, ratio) = (value(line), line.ratio.map_or_else(String::new, number));
        let _ = writeln!(page, "| {} | `{}` | {value} | {ratio} | {bar} | {met} |", line.broker, line.name);
    }
    page += GOOD_ENOUGH;
    page += "\n## Plots\n";
    for plot in plots {
        let _ = write!(page, "\n![{}]({folder}/{})\n", plot.title, plot.file);
    }
    page += &side_by_side(lines);
    let _ = write!(page, "\n## What a job costs\n\nCounted, not timed: the numbers of `cargo xtask gate`.\n\n{costs}");
    page += "\n## All figures\n";
    let mut brokers: Vec<&str> = lines.iter().map(|line| &*line.broker).collect();
    brokers.dedup();
    for broker in brokers {
        let _ = write!(page, "\n### {broker}\n\n| figure | value | reference | ratio | spread | runs |\n|---|---:|---|---:|---|---:|\n");
        for line in lines.iter().filter(|line| line.broker == broker) {
            let reference = match (line.raw, &line.against) {
                (Some(raw), Some(against)) => format!("{}: {against}", number(raw)),
                _ => String::new(),
            };
            let spread = format!("{} to {}", number(line.low), number(line.high));
            let (value, ratio) = (value(line), ratio(line));
            let _ = writeln!(page, "| `{}` | {value} | {reference} | {ratio} | {spread} | {} |", line.name, line.runs);
        }
        page += "\n";
        let mut told = Vec::new();
        for line in lines.iter().filter(|line| line.broker == broker) {
            if !told.contains(&&line.figure) {
                told.push(&line.figure);
                let _ = writeln!(page, "- `{}`: {}", line.figure, line.about);
            }
        }
    }
    page
}

/// Compares our numbers with the numbers of other projects and designs that have the same name.
fn side_by_side(lines: &[Line]) -> String {
    let is_sqlite = |line: &Line| line.name.starts_with("sqlite_");
    let is_postgres = |line: &Line| line.name.starts_with("postgres_");
    let is_peer_on_redis = |line: &Line| kind(line) == Some(Kind::Peer) && !is_sqlite(line) && !is_postgres(line);
    let tables = [
        ("Other projects on Redis", table(lines, |line| line.broker == "ours" || is_peer_on_redis(line))),
        ("Designs on Redis", table(lines, |line| line.broker == "ours" || kind(line) == Some(Kind::Design))),
        ("Other projects on SQLite", table(lines, |line| kind(line).is_some() && is_sqlite(line))),
        ("Other projects in PostgreSQL", table(lines, |line| kind(line).is_some() && is_postgres(line))),
    ];
    let mut text =
        "\n## Side by side\n\nAll have the same payloads and concurrency; the ratio to raw is in parentheses. *Ours* was measured in\n\
         the run of the others, so it differs from the figures above. A negative lateness means that a job\n\
         started before it was due. The [comparison](comparison.md#method) describes the settings.\n"
            .to_owned();
    let before = text.len();
    for (title, table) in tables.into_iter().filter(|(_, table)| !table.is_empty()) {
        let _ = write!(text, "\n### {title}\n\n{table}");
    }
    if text.len() > before { text } else { String::new() }
}

/// A column for each contestant among the chosen lines, ours first; nothing without another.
fn table(lines: &[Line], is_chosen: impl Fn(&Line) -> bool) -> String {
    let chosen: Vec<&Line> = lines.iter().filter(|line| is_chosen(line)).collect();
    let mut columns: Vec<(Kind, &str)> = chosen.iter().filter_map(|line| Some((kind(line)?, &*line.broker))).collect();
    columns.sort_unstable();
    columns.dedup();
    if columns.iter().all(|(kind, _)| *kind == Kind::Ours) {
        return String::new();
    }
    let heads: Vec<&str> = columns.iter().map(|(kind, broker)| if *kind == Kind::Ours { "ours" } else { broker }).collect();
    let mut text = format!("| figure | {} |\n|---|{}\n", heads.join(" | "), "---:|".repeat(columns.len()));
    let shown = |line: Option<&&Line>| {
        line.map_or_else(String::new, |line| value(line) + &line.ratio.map_or_else(String::new, |ratio| format!(" ({ratio:.2})")))
    };
    let mut seen = HashSet::new();
    for name in chosen.iter().map(|line| &*line.name).filter(|name| seen.insert(*name)) {
        let of = |broker: &str| chosen.iter().find(|line| line.broker == broker && line.name == name);
        // Some figures are not measured of everybody.
        if columns.iter().filter(|(_, broker)| of(broker).is_some()).count() > 1 {
            let cells: Vec<String> = columns.iter().map(|(_, broker)| shown(of(broker))).collect();
            let _ = writeln!(text, "| `{name}` | {} |", cells.join(" | "));
        }
    }
    text
}

fn value(line: &Line) -> String {
    format!("{} {}", number(line.value), line.unit)
}

fn ratio(line: &Line) -> String {
    line.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))
}

/// A number as people read it.
pub(crate) fn number(value: f64) -> String {
    if value.abs() < 100.0 {
        let digits = if value.abs() < 10.0 { 3 } else { 1 };
        let text = format!("{value:.digits$}");
        return if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    }
    let sign = if value < 0.0 { "-" } else { "" };
    let digits = format!("{:.0}", value.abs());
    let first = digits.len() % 3;
    let groups: Vec<&str> = std::iter::once(&digits[..first])
        .chain((first..digits.len()).step_by(3).map(|at| &digits[at..at + 3]))
        .filter(|group| !group.is_empty())
        .collect();
    format!("{sign}{}", groups.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_contestant_stands_beside_ours_in_a_table_of_its_own() {
        let lines = [
            ("redis", "process"),
            ("ours", "process"),
            ("ours", "killed_lost"),
            ("list", "killed_lost"),
            ("list", "growth"),
            ("ours-sqlite", "sqlite_process"),
            ("effectum", "sqlite_process"),
        ];
        let lines = lines.map(|(broker, name)| Line {
            broker: broker.to_owned(),
            name: name.to_owned(),
            value: 7.0,
            unit: "jobs".to_owned(),
            raw: None,
            ratio: None,
            against: None,
            low: 7.0,
            high: 7.0,
            runs: 1,
            bar: None,
            met: None,
            figure: name.to_owned(),
            about: String::new(),
        });
        let text = side_by_side(&lines);
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('#') || line.starts_with("| ")).collect();
        let designs = ["### Designs on Redis", "| figure | ours | list |", "| `killed_lost` | 7 jobs | 7 jobs |"];
        let sqlite = ["### Other projects on SQLite", "| figure | ours | effectum |", "| `sqlite_process` | 7 jobs | 7 jobs |"];
        assert_eq!(rows, [["## Side by side"].as_slice(), &designs, &sqlite].concat());
        assert_eq!(side_by_side(&lines[..3]), "", "ours alone is no comparison");
    }

    #[test]
    fn numbers_read_well() {
        let read = [0.0, 0.0625, 1.5, 12.34, 123.4, -482.1, 99_999.6, 1_234_567.0].map(number);
        assert_eq!(read, ["0", "0.062", "1.5", "12.3", "123", "-482", "100,000", "1,234,567"]);
    }
}
