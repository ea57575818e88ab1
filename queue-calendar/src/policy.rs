//! The policies for missed ticks, and for a tick while the job of the last one has not ended.

use std::time::Duration;

use crate::syntax::SyntaxError;

/// The longest jitter of a schedule.
pub const LONGEST_JITTER: Duration = Duration::from_secs(24 * 3600);

/// The maximum number of missed ticks that are made: the `n` of `all(n)`.
pub const MOST_CAUGHT_UP: u32 = 1_000;

/// The policy for ticks that were not made in time, because no worker ran or the broker was
/// unreachable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatchUp {
    /// They are skipped.
    Skip,
    /// The last of them is made, unless another tick is due now. The others are skipped.
    #[default]
    Last,
    /// The last `n` of them are made, in their order. Earlier ones are skipped.
    All(u32),
}

impl CatchUp {
    /// Parses `skip`, `last` or `all(100)`.
    ///
    /// # Errors
    /// The problem and its position.
    pub fn parse(text: &str) -> Result<CatchUp, SyntaxError> {
        let all = 0..text.len();
        match text {
            "skip" => return Ok(CatchUp::Skip),
            "last" => return Ok(CatchUp::Last),
            "all" => return Err(SyntaxError::new(all, "`all` needs a bound; write for example `all(100)`")),
            _ => {}
        }
        let Some(number) = text.strip_prefix("all(").and_then(|rest| rest.strip_suffix(')')) else {
            return Err(SyntaxError::new(all, "`catch_up` is one of `skip`, `last`, `all(100)`"));
        };
        match number.trim().parse::<u32>() {
            Ok(n) if (1..=MOST_CAUGHT_UP).contains(&n) => Ok(CatchUp::All(n)),
            _ => Err(SyntaxError::new(4..4 + number.len(), format!("`all(n)` makes up for 1 to {MOST_CAUGHT_UP} ticks"))),
        }
    }
}

impl std::fmt::Display for CatchUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CatchUp::Skip => f.write_str("skip"),
            CatchUp::Last => f.write_str("last"),
            CatchUp::All(n) => write!(f, "all({n})"),
        }
    }
}

/// The effect of a tick while the job of the last tick has not ended. A job that waits for its
/// retry has not ended. A parked or a dead job has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// The tick creates its job.
    #[default]
    Allow,
    /// The tick is skipped.
    Skip,
    /// The tick waits for the end of that job. At most one tick waits. Further ones are skipped.
    BufferOne,
    /// The tick cancels that job, and waits for its end. A newer tick replaces a waiting one.
    CancelRunning,
}

impl Overlap {
    /// All policies.
    pub const ALL: [Overlap; 4] = [Overlap::Allow, Overlap::Skip, Overlap::BufferOne, Overlap::CancelRunning];

    /// The name of the policy in all interfaces.
    pub fn name(self) -> &'static str {
        match self {
            Overlap::Allow => "allow",
            Overlap::Skip => "skip",
            Overlap::BufferOne => "buffer_one",
            Overlap::CancelRunning => "cancel_running",
        }
    }

    /// Parses the name.
    ///
    /// # Errors
    /// An unknown name.
    pub fn parse(text: &str) -> Result<Overlap, SyntaxError> {
        Overlap::ALL
            .into_iter()
            .find(|overlap| overlap.name() == text)
            .ok_or_else(|| SyntaxError::new(0..text.len(), "`overlap` is one of `allow`, `skip`, `buffer_one`, `cancel_running`"))
    }
}

impl std::fmt::Display for Overlap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_as_it_is_printed() {
        for catch_up in [CatchUp::Skip, CatchUp::Last, CatchUp::All(1), CatchUp::All(1000)] {
            assert_eq!(CatchUp::parse(&catch_up.to_string()), Ok(catch_up));
        }
        for overlap in Overlap::ALL {
            assert_eq!(Overlap::parse(overlap.name()), Ok(overlap));
        }
        for wrong in ["all", "all()", "all(0)", "all(1001)", "all(-1)", "some", ""] {
            assert!(CatchUp::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Overlap::parse("buffer").is_err());
    }
}
