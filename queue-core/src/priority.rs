//! The priority of a job.

use std::{fmt, str::FromStr};

use crate::{
    address::serde_as_text,
    error::{Error, Result},
};

/// One of four priorities; each queue serves a higher one before all lower ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Before everything else.
    Critical = 0,
    /// Before normal jobs.
    High = 1,
    /// The default.
    #[default]
    Normal = 2,
    /// When nothing else waits.
    Low = 3,
}

impl Priority {
    /// All, from the first served to the last.
    pub const ALL: [Priority; 4] = [Priority::Critical, Priority::High, Priority::Normal, Priority::Low];

    /// The number in storage, 0 to 3.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Reads the number in storage.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The name on the command line and in `#[task(priority = "...")]`.
    pub fn name(self) -> &'static str {
        match self {
            Priority::Critical => "critical",
            Priority::High => "high",
            Priority::Normal => "normal",
            Priority::Low => "low",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Priority {
    type Err = Error;

    /// Parses the output of [`Display`](fmt::Display).
    fn from_str(text: &str) -> Result<Self> {
        let known = Priority::ALL.map(Priority::name).join(", ");
        let found = Priority::ALL.into_iter().find(|priority| priority.name() == text);
        found.ok_or_else(|| Error::invalid("priority", text, format!("is unknown; use one of {known}")))
    }
}

serde_as_text!(Priority);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_read_as_it_is_printed() {
        for priority in Priority::ALL {
            assert_eq!(priority.to_string().parse::<Priority>().unwrap(), priority);
            assert_eq!(serde_json::to_value(priority).unwrap(), priority.name());
            assert_eq!(serde_json::from_value::<Priority>(priority.name().into()).unwrap(), priority);
        }
        let problem = "urgent".parse::<Priority>().unwrap_err().to_string();
        assert!(problem.contains("`urgent`") && problem.contains("critical, high, normal, low"), "{problem}");
    }
}
