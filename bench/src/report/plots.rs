//! Which plots there are.

use super::{
    page::number,
    plot::{Bars, Row},
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
    let plots = [
        ("ratios.svg", "Jobs per second, relative to raw LPUSH of the same run; the red line is the bar", false, ratios(lines)),
        ("sqlite.svg", "SQLite: jobs per second, relative to a loop written by hand in the same run", false, sqlite(lines)),
        ("latency.svg", "From enqueue to start, in milliseconds (logarithmic)", true, latency(lines)),
        ("growth.svg", "Draining while so many jobs are pending, relative to raw LPUSH", false, growth(lines)),
        ("scale-out.svg", "Draining with more processes, relative to raw LPUSH or to one process", false, scale_out(lines)),
    ];
    let drawn = plots.into_iter().filter(|(_, _, _, rows)| !rows.is_empty());
    drawn
        .map(|(file, title, logarithmic, rows)| {
            let svg = Bars { title: title.to_owned(), logarithmic, rows }.svg();
            Plot { file, title: title.to_owned(), svg }
        })
        .collect()
}

/// The ratios to raw `LPUSH`; those of other designs and peers stand behind ours of the same name.
fn ratios(lines: &[Line]) -> Vec<Row> {
    let is_raw = |line: &&Line| line.against.as_deref().is_some_and(|against| against.starts_with("LPUSH"));
    let rates: Vec<&Line> = lines.iter().filter(is_raw).filter(|line| !line.figure.starts_with("growth")).collect();
    let mut rows = Vec::new();
    for ours in rates.iter().filter(|line| line.broker == "redis") {
        rows.extend(ratio(ours, &ours.name, true));
        for other in rates.iter().filter(|line| line.broker != "redis" && line.name == ours.name) {
            rows.extend(ratio(other, &format!("{} {}", other.broker, other.name), false));
        }
    }
    rows
}

fn sqlite(lines: &[Line]) -> Vec<Row> {
    lines.iter().filter(|line| line.broker == "sqlite").filter_map(|line| ratio(line, &line.name, true)).collect()
}

fn latency(lines: &[Line]) -> Vec<Row> {
    let is_percentile = |line: &&Line| line.unit == "ms" && line.name.contains("latency") && line.name.contains("_p");
    let row = |line: &Line| Row {
        label: if ours(line) { line.name.clone() } else { format!("{} {}", line.broker, line.name) },
        value: line.value,
        text: format!("{} ms", number(line.value)),
        mark: None,
        ours: ours(line),
    };
    lines.iter().filter(is_percentile).map(row).collect()
}

fn growth(lines: &[Line]) -> Vec<Row> {
    let cases = [("growth_1m_10k", "10 thousand pending"), ("growth_1m_raw", "1 million pending"), ("growth_raw", "10 million pending")];
    labelled(lines, &cases)
}

fn scale_out(lines: &[Line]) -> Vec<Row> {
    let cases = [
        ("scale_out_1", "1 process, to raw"),
        ("scale_out_2", "2 processes, to one"),
        ("scale_out_4", "4 processes, to one"),
        ("scale_out_queues", "1,000 queues, to one queue"),
    ];
    labelled(lines, &cases)
}

fn labelled(lines: &[Line], cases: &[(&str, &str)]) -> Vec<Row> {
    let find = |name: &str| lines.iter().find(|line| line.broker == "redis" && line.name == name);
    cases.iter().filter_map(|(name, label)| ratio(find(name)?, label, true)).collect()
}

fn ratio(line: &Line, label: &str, ours: bool) -> Option<Row> {
    let value = line.ratio?;
    let mark = line.bar.as_deref().and_then(|bar| bar.strip_prefix("ratio ≥ ")?.parse().ok());
    Some(Row { label: label.to_owned(), value, text: format!("{value:.2}"), mark, ours })
}

/// Whether it is of our own brokers.
pub(crate) fn ours(line: &Line) -> bool {
    ["redis", "sqlite", "cluster"].contains(&&*line.broker)
}
