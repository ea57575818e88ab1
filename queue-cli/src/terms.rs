//! Filters on the command line, in several parts.

use queue_core::{Error, inspect::Filter};

/// The filter of these parts: all terms have to match.
pub(super) fn filter(parts: &[&[String]]) -> Result<Filter, Error> {
    parts.concat().join(" ").parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terms_of_all_parts_have_to_match() {
        let words = |text: &str| text.split_terminator('|').map(str::to_owned).collect::<Vec<_>>();
        let joined = |parts: &[&str]| {
            let parts: Vec<Vec<String>> = parts.iter().map(|part| words(part)).collect();
            filter(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()).map_err(|error| error.to_string())
        };
        assert_eq!(joined(&["task=a older=2d|id=7", "state=dead"]), Ok("task=a older=2d id=7 state=dead".parse().unwrap()));
        assert_eq!(joined(&["", ""]), Ok(Filter::default()));
        assert!(joined(&["task=a", "older=2"]).is_err());
    }
}
