//! The accepted numbers, and the messages about different ones.

use std::{collections::BTreeMap, path::Path};

use crate::{Costs, Error};

/// Numbers by name, in their stored form: sorted, one per line.
#[derive(Debug, PartialEq)]
pub(crate) struct Baseline(BTreeMap<String, f64>);

/// The allowed difference of a number: relative, and absolute. Names contain a number of varying
/// length. The order in which two threads run can change the count by one allocation.
const TOLERANCE: f64 = 0.02;
const LEAST: f64 = 0.02;

impl Baseline {
    pub(crate) fn new(costs: Costs) -> Self {
        Baseline(costs.into_iter().map(|(name, value)| (name, (value * 1000.0).round() / 1000.0)).collect())
    }

    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}; `{ACCEPT}` writes it", path.display()))?;
        Ok(Baseline(serde_json::from_str(&text)?))
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        Ok(std::fs::write(path, serde_json::to_string_pretty(&self.0)? + "\n")?)
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string(&self.0).expect("names and numbers can be written")
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The numbers that differ from the accepted ones. A lower number is also reported, so that it
    /// becomes the accepted one.
    pub(crate) fn compare(&self, found: &Baseline) -> Vec<String> {
        let mut complaints = Vec::new();
        for (name, now) in &found.0 {
            let Some(accepted) = self.0.get(name) else {
                complaints.push(format!("{name} is {now} and new: accept it with `{ACCEPT}`"));
                continue;
            };
            let change = now - accepted;
            if change.abs() <= (accepted * TOLERANCE).max(LEAST) {
                continue;
            }
            let percent = change / accepted * 100.0;
            let (verb, advice) = if change > 0.0 {
                ("grew", "find the reason; if it is worth it, accept it with")
            } else {
                ("fell", "keep it by accepting it with")
            };
            complaints.push(format!("{name} {verb} from {accepted} to {now} ({percent:+.1} %): {advice} `{ACCEPT}`"));
        }
        let missing = self.0.keys().filter(|name| !found.0.contains_key(*name));
        complaints.extend(missing.map(|name| format!("{name} is not measured any more: accept that with `{ACCEPT}`")));
        complaints
    }
}

const ACCEPT: &str = "cargo xtask gate --accept";

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: f64) -> Baseline {
        Baseline::new(vec![("commands per job".to_owned(), value)])
    }

    #[test]
    fn a_higher_cost_is_reported_with_its_growth_and_advice() {
        let complaints = of(4.0).compare(&of(5.0));
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].contains("commands per job grew from 4 to 5 (+25.0 %)"), "{complaints:?}");
        assert!(complaints[0].contains("cargo xtask gate --accept"));
    }

    #[test]
    fn a_lower_cost_is_reported_so_that_it_is_accepted() {
        assert!(of(4.0).compare(&of(3.0))[0].contains("fell from 4 to 3 (-25.0 %)"));
    }

    #[test]
    fn a_small_difference_is_none() {
        assert!(of(4.0).compare(&of(4.05)).is_empty());
    }

    #[test]
    fn a_number_that_is_new_or_gone_has_to_be_accepted() {
        let none = Baseline::new(Vec::new());
        assert!(none.compare(&of(1.0))[0].contains("new"));
        assert!(of(1.0).compare(&none)[0].contains("not measured any more"));
    }
}
