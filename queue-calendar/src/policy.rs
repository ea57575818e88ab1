//! What is done about ticks that were missed, and about a tick while the job of the last one has
//! not ended.

use std::time::Duration;

use crate::syntax::SyntaxError;

/// Longest jitter of a schedule.
pub const LONGEST_JITTER: Duration = Duration::from_secs(24 * 3600);

/// Most missed ticks that are made up for: the `n` of `all(n)`.
pub const MOST_CAUGHT_UP: u32 = 1_000;

/// What is done about ticks that nobody made in time, because no worker ran or the broker was out
/// of reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatchUp {
    /// They are skipped.
    Skip,
    /// The last of them is made up for, unless another tick is due anyway. The others are skipped.
    #[default]
    Last,
    /// The last so many are made up for, in their order. Those before are skipped.
    All(u32),
}

impl CatchUp {
    /// Reads `skip`, `last` or `all(100)`.
    ///
    /// # Errors
    /// What is wrong, and where.
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

/// What a tick does while the job of the last tick has not ended. A job that waits for its retry
/// has not ended; a parked or a dead one has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// It makes its job.
    #[default]
    Allow,
    /// It is skipped.
    Skip,
    /// It waits for the end of that job. One tick waits at most; further ones are skipped.
    BufferOne,
    /// It cancels that job, and waits for its end. A newer tick takes the place of one that waits.
    CancelRunning,
}

impl Overlap {
    /// All of them.
    pub const ALL: [Overlap; 4] = [Overlap::Allow, Overlap::Skip, Overlap::BufferOne, Overlap::CancelRunning];

    /// The word for it everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Overlap::Allow => "allow",
            Overlap::Skip => "skip",
            Overlap::BufferOne => "buffer_one",
            Overlap::CancelRunning => "cancel_running",
        }
    }

    /// Reads the word.
    ///
    /// # Errors
    /// For another word.
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
