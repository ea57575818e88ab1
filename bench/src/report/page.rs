//! The page itself.

use std::{collections::HashSet, fmt::Write as _};

use super::{
    machine::is_busy,
    plots::{Plot, ours},
};
use crate::take::Line;

const INTRODUCTION: &str = "# Benchmarks

<!-- Written by `cargo xtask bench --report docs/benchmarks.md`; do not edit. -->

What the queue does on one machine, beside a reference of the same run, and beside the bars that we hold ourselves to.
Absolute numbers say little about another machine; ratios travel.

## Measure it yourself

Needed are Rust, `redis-server` and `redis-benchmark` (7.0 or newer) on the path, a disk for SQLite, and a machine that does
nothing else. In a clone of the repository:

```sh
cargo xtask bench                                   # every figure below but the long ones: some 15 minutes
cargo xtask bench --long                            # those too; 10 million jobs take 3 GB
cargo xtask bench process latency --runs 9          # some of them
cargo xtask bench redis --json > figures.jsonl      # one object per number
cargo xtask bench --list                            # what each figure measures
cargo xtask bench instructions                      # the longest scripts, in instructions; needs Valgrind
cargo xtask bench --report docs/benchmarks.md       # this page
```

## How it is measured

- Release build, default settings, everything on one machine: server, workers, producers.
- Each run of a Redis figure has a `redis-server` of its own that keeps nothing on disk.
- *Raw* is what `redis-benchmark` reads for `LPUSH` without a pipeline, with 50 clients (one, for one producer and for
  latency), right before and right after the run; the run's ratio is its value over the mean of both. What a figure is relative
  to instead, where it is, stands beside it.
- A SQLite figure is relative to a loop on one thread that was written by hand: the same tables, statements, batches and
  `synchronous=FULL`, without leases, names, wake-ups and handlers.
- A value is the median of its runs, a ratio the median of their ratios. The spread is that of the ratios, or of the values
  where there is no ratio.
- The longest script is measured in CPU time of the server: its clock goes on only while its thread runs, by a small library that is
  loaded before it. A clock on the wall would count, too, for how long the machine lets others have the processor in the middle of a
  script, which says nothing of the script; what a client sees of it all is in the `PING` of the same run.
- `instructions` counts what scripts do instead, which no other program on the machine changes: a server in Valgrind and one without
  are asked for the same, and what a million instructions take is read from the sums of both.
- What a job costs in commands, bytes and allocations does not depend on the machine. Those numbers are in
  `bench/baseline.json`, and `cargo xtask test` fails when one of them grows.
";

/// The page for these lines.
pub(crate) fn page(lines: &[Line], plots: &[Plot], folder: &str, facts: &[(&'static str, String)], costs: &str) -> String {
    let mut page = INTRODUCTION.to_owned();
    page += "\n## Machine and versions\n\n| | |\n|---|---|\n";
    for (name, value) in facts {
        let _ = writeln!(page, "| {name} | {value} |");
    }
    if is_busy() {
        page += "\n**The machine was busy with other work when this page was written: its numbers are provisional.**\n";
    }
    page += "\n## Bars\n\n| | figure | value | ratio | bar | |\n|---|---|---:|---:|---|---|\n";
    for line in lines.iter().filter(|line| line.bar.is_some()) {
        let met = match line.met {
            Some(true) => "met",
            Some(false) => "**not met**",
            None => "",
        };
        let bar = line.bar.as_deref().unwrap_or_default();
        let (value, ratio) = (value(line), ratio(line));
        let _ = writeln!(page, "| {} | `{}` | {value} | {ratio} | {bar} | {met} |", line.broker, line.name);
    }
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

/// Our numbers beside those of the same name that others have.
fn side_by_side(lines: &[Line]) -> String {
    let mut others: Vec<&str> = lines.iter().filter(|line| !ours(line)).map(|line| &*line.broker).collect();
    others.dedup();
    if others.is_empty() {
        return String::new();
    }
    let mut text = "\n## Side by side\n\nThe same payloads and concurrency; in brackets the ratio to raw, read around each run. *Ours* is of the figures above, \
         which may be of another day; *ours, beside them* was measured in the run of the peers.\n\n".to_owned();
    // Ours, once more, measured in the frame of the others and beside them.
    let heads: Vec<&str> = others.iter().map(|broker| if *broker == "ours" { "ours, beside them" } else { broker }).collect();
    let _ = writeln!(text, "| figure | ours | {} |", heads.join(" | "));
    let _ = writeln!(text, "|---|---:|{}", "---:|".repeat(others.len()));
    // In their frame alone is measured, for one, the death of a worker.
    let mut seen = HashSet::new();
    let names = lines.iter().filter(|line| ours(line) || line.broker == "ours").map(|line| &*line.name).filter(|name| seen.insert(*name));
    let shown = |line: Option<&Line>| {
        line.map_or_else(String::new, |line| value(line) + &line.ratio.map_or_else(String::new, |ratio| format!(" ({ratio:.2})")))
    };
    for name in names {
        let own = lines.iter().find(|line| ours(line) && line.name == name);
        let of = |broker: &&str| lines.iter().find(|line| line.broker == *broker && line.name == name);
        if others.iter().any(|broker| of(broker).is_some()) {
            let cells: Vec<String> = others.iter().map(|broker| shown(of(broker))).collect();
            let _ = writeln!(text, "| `{name}` | {} | {} |", shown(own), cells.join(" | "));
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
    fn what_only_contestants_have_stands_side_by_side_too() {
        let lines = [("redis", "process"), ("ours", "process"), ("ours", "killed_lost"), ("list", "killed_lost"), ("list", "growth")];
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
        let table = side_by_side(&lines);
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows, ["| `process` | 7 jobs | 7 jobs |  |", "| `killed_lost` |  | 7 jobs | 7 jobs |"]);
    }

    #[test]
    fn numbers_read_well() {
        let read = [0.0, 0.0625, 1.5, 12.34, 123.4, -482.1, 99_999.6, 1_234_567.0].map(number);
        assert_eq!(read, ["0", "0.062", "1.5", "12.3", "123", "-482", "100,000", "1,234,567"]);
    }
}
