//! The output of commands that change several things: a line for each, or with `--json` an object
//! with one list.

use std::collections::BTreeMap;

use queue_core::Error;
use serde_json::Value;

use super::{
    args::Format,
    exit::Failure,
    output::{plain, print, print_json},
};

/// Executes the change for each, until one is refused. The lines and rows of the earlier ones are
/// still printed.
pub(super) async fn change_each<T>(
    name: &str,
    items: &[T],
    format: &Format,
    change: impl AsyncFn(&T) -> Result<(String, Value), Error>,
) -> Result<(), Failure> {
    let (mut rows, mut ended) = (Vec::with_capacity(items.len()), Ok(()));
    for item in items {
        match change(item).await {
            Ok((line, row)) => {
                if !format.json {
                    print(&plain(&line))?;
                }
                rows.push(row);
            }
            Err(error) => {
                ended = Err(error.into());
                break;
            }
        }
    }
    if format.json {
        print_json(&BTreeMap::from([(name, rows)]))?;
    }
    ended
}
