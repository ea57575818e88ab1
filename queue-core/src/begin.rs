//! Where a subscription to a topic begins.

use serde::{Serialize, Serializer};

use crate::json;

/// Where a new subscription begins to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At the next event.
    Now,
    /// At the oldest event in the log.
    Start,
    /// At the first event of this time or later, in broker milliseconds since 1970.
    AtMs(i64),
}

impl Begin {
    /// The stored form: `now`, `start`, or the milliseconds.
    pub fn stored(&self) -> String {
        match self {
            Begin::Now => "now".to_owned(),
            Begin::Start => "start".to_owned(),
            Begin::AtMs(at) => at.max(&0).to_string(),
        }
    }

    /// Reads what is stored. An unknown value means the start, so no event is missed.
    pub fn of_stored(text: &str) -> Self {
        match text {
            "now" => Begin::Now,
            text => text.parse().map_or(Begin::Start, Begin::AtMs),
        }
    }
}

impl Serialize for Begin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Begin::AtMs(at) => json::utc_of_ms(at, serializer),
            _ => serializer.serialize_str(&self.stored()),
        }
    }
}

/// What a subscription does with an event of a type that none of its workers knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// It is parked until a release knows its type.
    #[default]
    Park,
    /// It is skipped, and counted.
    Skip,
}

impl Unknown {
    /// The stored form: `park` or `skip`.
    pub fn name(self) -> &'static str {
        match self {
            Unknown::Park => "park",
            Unknown::Skip => "skip",
        }
    }

    /// Reads what is stored. An unknown value means park, so no event is missed.
    pub fn of_stored(text: &str) -> Self {
        if text == "skip" { Unknown::Skip } else { Unknown::Park }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_of_a_begin_is_read_again() {
        for begin in [Begin::Now, Begin::Start, Begin::AtMs(1_700_000_000_000)] {
            assert_eq!(Begin::of_stored(&begin.stored()), begin);
        }
        assert_eq!(Begin::of_stored("nonsense"), Begin::Start, "no event is missed");
    }
}
