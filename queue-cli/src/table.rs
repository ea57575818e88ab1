//! Lists of records: as JSON, or as a table. Its columns are fields of that JSON or are computed
//! from the record.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use serde::Serialize;
use serde_json::Value;

use super::{
    args::Format,
    exit::{Failure, note},
    output::{plain, print, print_json, relative_time, rounded_duration, table},
};

/// The maximum number of names of a list in a cell.
const NAMED: usize = 3;

/// A column of a table.
pub(super) enum Column<T> {
    /// This field of the JSON form. Its name is the heading, without `_ms` and `_at`.
    Field(&'static str),
    /// The result of this function, with a heading. `#` before the heading aligns it to the right.
    Made(&'static str, fn(&T) -> String),
}

/// A record of a queue.
#[derive(Clone, Serialize)]
pub(super) struct Of<T> {
    pub(super) queue: String,
    #[serde(flatten)]
    pub(super) record: T,
}

impl<T> Of<T> {
    /// The records of some queues, in one list.
    pub(super) fn each(found: Vec<(String, Vec<T>)>) -> Vec<Self> {
        let of_queue = |(queue, records): (String, Vec<T>)| records.into_iter().map(move |record| Of { queue: queue.clone(), record });
        found.into_iter().flat_map(of_queue).collect()
    }
}

/// Prints records: with `--json` an object with this name, else a table, or the note `none` if
/// there are no records.
pub(super) fn list<T: Serialize>(format: &Format, name: &str, records: &[T], columns: &[Column<T>], none: &str) -> Result<(), Failure> {
    if format.json {
        return Ok(print_json(&BTreeMap::from([(name, records)]))?);
    }
    if records.is_empty() {
        note(none);
        return Ok(());
    }
    Ok(print(&text(records, columns))?)
}

/// The table of these records.
pub(super) fn text<T: Serialize>(records: &[T], columns: &[Column<T>]) -> String {
    let of_fields = columns.iter().any(|column| matches!(column, Column::Field(_)));
    let value = |record| if of_fields { serde_json::to_value(record).unwrap_or_default() } else { Value::Null };
    let values: Vec<Value> = records.iter().map(value).collect();
    let headings: Vec<String> = columns.iter().map(|column| column.heading(&values)).collect();
    let cells = |(record, value)| columns.iter().map(|column| column.cell(record, value)).collect::<Vec<_>>();
    table(&headings, records.iter().zip(&values).map(cells))
}

/// One record, with a line for each column that has a value.
pub(super) fn facts<T: Serialize>(record: &T, columns: &[Column<T>]) -> String {
    let values = [serde_json::to_value(record).unwrap_or_default()];
    let facts = columns.iter().map(|column| (column.heading(&values), column.cell(record, &values[0])));
    lines(facts.map(|(heading, cell)| (heading.trim_start_matches('#').to_owned(), cell)))
}

/// A line for each name that has a value.
pub(super) fn lines<N: AsRef<str>>(facts: impl IntoIterator<Item = (N, String)>) -> String {
    let facts: Vec<(N, String)> = facts.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let width = facts.iter().map(|(name, _)| name.as_ref().len()).max().unwrap_or_default();
    facts.iter().map(|(name, value)| format!("{:width$}  {}", name.as_ref(), plain(value))).collect::<Vec<_>>().join("\n")
}

impl<T> Column<T> {
    fn heading(&self, values: &[Value]) -> String {
        match self {
            Column::Field(field) => {
                let is_number = values.iter().any(|value| field_of(value, field).is_number());
                let name = field.rsplit('.').next().unwrap_or(field).trim_end_matches("_ms").trim_end_matches("_at").replace('_', " ");
                if is_number { format!("#{name}") } else { name }
            }
            Column::Made(heading, _) => (*heading).to_owned(),
        }
    }

    fn cell(&self, record: &T, value: &Value) -> String {
        match self {
            Column::Field(field) => display_value(field, field_of(value, field)),
            Column::Made(_, cell) => cell(record),
        }
    }
}

/// A field, or with dots a field of a field.
fn field_of<'v>(value: &'v Value, field: &str) -> &'v Value {
    field.split('.').fold(value, |value, field| &value[field])
}

/// A value in readable form.
fn display_value(field: &str, value: &Value) -> String {
    match value {
        Value::Bool(true) => "yes".to_owned(),
        Value::Number(ms) if field.ends_with("_ms") => {
            ms.as_u64().map(|ms| rounded_duration(Duration::from_millis(ms))).unwrap_or_default()
        }
        Value::Number(number) => number.to_string(),
        Value::String(text) => match humantime::parse_rfc3339(text).ok().filter(|_| field.ends_with("_at")) {
            Some(time) => relative_time(time, SystemTime::now()),
            None => text.clone(),
        },
        Value::Array(names) => {
            let first: Vec<&str> = names.iter().take(NAMED).filter_map(Value::as_str).collect();
            let more = names.len().saturating_sub(NAMED);
            if more == 0 { first.join(", ") } else { format!("{} and {more} more", first.join(", ")) }
        }
        Value::Null | Value::Bool(false) | Value::Object(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_column_is_a_field_or_is_made() {
        let rows = [
            json!({"queue": "mail", "aging_ms": 90_000, "load": {"busy": 3}, "names": ["a", "b", "c", "d"], "paused": true}),
            json!({"queue": "orders", "aging_ms": null, "load": null, "names": [], "paused": false}),
        ];
        use Column::{Field, Made};
        let columns =
            [Field("queue"), Field("aging_ms"), Field("load.busy"), Field("names"), Field("paused"), Made("#x", |_| "7".to_owned())];
        let text = text(&rows, &columns);
        let words: Vec<Vec<&str>> =
            text.lines().map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()).collect();
        assert_eq!(
            words,
            [
                vec!["queue", "aging", "busy", "names", "paused", "x"],
                vec!["mail", "1m 30s", "3", "a, b, c and 1 more", "yes", "7"],
                vec!["orders", "7"]
            ]
        );
    }
}
