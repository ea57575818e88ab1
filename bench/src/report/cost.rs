//! What a job costs in things that noise does not move: the numbers that the gate holds.

use std::{collections::BTreeMap, fmt::Write};

use crate::Error;

/// The accepted numbers, by "operation: what per job".
const BASELINE: &str = include_str!("../../baseline.json");

const COLUMNS: [&str; 6] = ["requests", "commands", "bytes sent", "bytes received", "bytes written", "allocations"];

/// A table of them.
pub(super) fn table() -> Result<String, Error> {
    let baseline: BTreeMap<String, f64> = serde_json::from_str(BASELINE)?;
    let mut rows: BTreeMap<&str, [Option<f64>; COLUMNS.len()]> = BTreeMap::new();
    for (name, value) in &baseline {
        let (operation, what) = name.split_once(": ").ok_or_else(|| format!("baseline.json: `{name}` names no operation"))?;
        let column = COLUMNS.iter().position(|column| what.strip_suffix(" per job") == Some(*column));
        let column = column.ok_or_else(|| format!("baseline.json: no column for `{what}`"))?;
        rows.entry(operation).or_default()[column] = Some(*value);
    }
    let mut text = format!("| per job | {} |\n|---|{}\n", COLUMNS.join(" | "), "---:|".repeat(COLUMNS.len()));
    for (operation, values) in rows {
        let cells = values.map(|value| value.map_or_else(String::new, super::page::number));
        let _ = writeln!(text, "| {operation} | {} |", cells.join(" | "));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_accepted_number_is_in_the_table() {
        let table = super::table().unwrap();
        assert!(table.contains("| redis turn of 16 |"), "{table}");
    }
}
