//! Which plots there are. Each answers one question; its title asks it.

use super::{
    page::number,
    plot::{Bars, Kind, Row},
};
use crate::take::Line;

/// A plot of the page.
#[derive(Debug)]
pub(crate) struct Plot {
    pub(crate) file: &'static str,
    pub(crate) title: String,
    pub(crate) svg: String,
}

/// The plots for which there are numbers.
pub(crate) fn of(lines: &[Line]) -> Vec<Plot> {
    let own = |names| labelled(lines, names, Axis::Ratio);
    let beside = |name, axis| beside(lines, name, axis);
    let plots = [
        ("ratios.svg", "How many jobs a second on Redis? (raw LPUSH of the same run = 1)", false, own(RATES)),
        ("sqlite.svg", "How many jobs a second on SQLite? (a loop written by hand = 1)", false, own(SQLITE)),
        (
            "latency.svg",
            "How long from the call of enqueue to the start of the handler? (ms)",
            false,
            labelled(lines, LATENCY, Axis::Value),
        ),
        ("growth.svg", "Does a long queue slow the worker down? (a drain of 10 thousand jobs = 1)", false, own(GROWTH)),
        ("scale-out.svg", "Do more processes or more queues slow the drain down? (one = 1)", false, own(SCALE_OUT)),
        ("beside-process.svg", "Which queue runs jobs fastest? (raw LPUSH = 1)", false, beside("process", Axis::Ratio)),
        (
            "beside-enqueue.svg",
            "Which queue stores jobs of 50 producers fastest? (raw LPUSH = 1)",
            false,
            beside("enqueue_c50", Axis::Ratio),
        ),
        (
            "beside-latency.svg",
            "Which queue starts a lone job soonest? (median, ms; logarithmic)",
            true,
            beside("latency_p50", Axis::Value),
        ),
        ("beside-server.svg", "Which queue costs the server least? (µs of its processor per job)", false, beside("server_us", Axis::Value)),
        ("beside-sqlite.svg", "Which queue on SQLite runs jobs fastest? (jobs a second)", false, beside("sqlite_process", Axis::Value)),
    ];
    let drawn = plots.into_iter().filter(|(_, _, _, rows)| !rows.is_empty());
    drawn
        .map(|(file, title, logarithmic, rows)| {
            let svg = Bars { title: title.to_owned(), logarithmic, rows }.svg();
            Plot { file, title: title.to_owned(), svg }
        })
        .collect()
}

/// What the length of a bar says.
#[derive(Clone, Copy)]
enum Axis {
    Value,
    Ratio,
}

const RATES: &[(&str, &str)] = &[
    ("process_c1", "run, concurrency 1"),
    ("process_c10", "run, concurrency 10"),
    ("process_c64", "run, concurrency 64"),
    ("process", "run, concurrency 256"),
    ("enqueue_seq", "enqueue, 1 producer (1 client = 1)"),
    ("enqueue_c50", "enqueue, 50 producers"),
    ("enqueue_c500", "enqueue, 500 producers"),
    ("enqueue_all", "enqueue_all"),
    ("end_to_end", "enqueue and run at the same time"),
];

const SQLITE: &[(&str, &str)] =
    &[("sqlite_process", "run"), ("sqlite_enqueue_c50", "enqueue, 50 producers"), ("sqlite_enqueue_all", "enqueue_all")];

const LATENCY: &[(&str, &str)] = &[
    ("latency_p50", "Redis, same process, p50"),
    ("latency_p99", "Redis, same process, p99"),
    ("latency_across_p50", "Redis, two processes, p50"),
    ("latency_across_p99", "Redis, two processes, p99"),
    ("latency_half_load_p50", "Redis, at half of full load, p50"),
    ("latency_half_load_p99", "Redis, at half of full load, p99"),
    ("sqlite_latency_p50", "SQLite, two processes, p50"),
    ("sqlite_latency_p99", "SQLite, two processes, p99"),
];

const GROWTH: &[(&str, &str)] = &[
    ("growth_1m", "beside 1 million pending"),
    ("growth", "beside 10 million pending"),
    ("growth_scheduled", "beside 10 million scheduled"),
    ("growth_failed", "beside jobs that have failed"),
];

const SCALE_OUT: &[(&str, &str)] =
    &[("scale_out_2", "2 worker processes"), ("scale_out_4", "4 worker processes"), ("scale_out_queues", "1,000 queues, 1 worker")];

/// Those of our own figures, under these labels.
fn labelled(lines: &[Line], figures: &[(&str, &str)], axis: Axis) -> Vec<Row> {
    let find = |name: &str| lines.iter().find(|line| ours(line) && line.name == name);
    figures.iter().filter_map(|(name, label)| row(find(name)?, label, Kind::Ours, axis)).collect()
}

/// One figure of everybody who has it: ours, of the run with the others, then other projects, then
/// designs; the best of each first.
fn beside(lines: &[Line], name: &str, axis: Axis) -> Vec<Row> {
    let mut rows: Vec<Row> = lines
        .iter()
        .filter(|line| line.name == name)
        .filter_map(|line| row(line, if line.broker.starts_with("ours") { "this project" } else { &line.broker }, kind(line)?, axis))
        .collect();
    let best_first = |one: &Row, other: &Row| match name.contains("latency") || name == "server_us" {
        true => one.value.total_cmp(&other.value),
        false => other.value.total_cmp(&one.value),
    };
    rows.sort_by(|one, other| one.kind.cmp(&other.kind).then_with(|| best_first(one, other)));
    // Alone it is no comparison.
    if rows.iter().any(|row| row.kind != Kind::Ours) { rows } else { Vec::new() }
}

fn row(line: &Line, label: &str, kind: Kind, axis: Axis) -> Option<Row> {
    let (value, text, prefix) = match axis {
        Axis::Value => (line.value, format!("{} {}", number(line.value), line.unit), "≤ "),
        Axis::Ratio => (line.ratio?, format!("{:.2}", line.ratio?), "ratio ≥ "),
    };
    let mark = line.bar.as_deref().and_then(|bar| bar.strip_prefix(prefix)?.split(' ').next()?.parse().ok());
    Some(Row { label: label.to_owned(), value, text, mark, kind })
}

/// Whose a line is that was measured side by side; `None`: it is of our own figures.
pub(crate) fn kind(line: &Line) -> Option<Kind> {
    const DESIGNS: [&str; 4] = ["list", "rpoplpush", "delay_queue", "streams"];
    match &*line.broker {
        _ if ours(line) => None,
        "ours" | "ours-sqlite" | "ours-postgres" => Some(Kind::Ours),
        broker if DESIGNS.contains(&broker) => Some(Kind::Design),
        _ => Some(Kind::Peer),
    }
}

/// Whether it is one of our own figures, which are not measured beside others.
pub(crate) fn ours(line: &Line) -> bool {
    ["redis", "sqlite", "cluster"].contains(&&*line.broker)
}
