//! The times of schedules: pure code, without a clock. `queue-macros` uses only the syntax.
//! `queue-core` uses all of it with the feature `zones`.
//!
//! | module | contents |
//! |---|---|
//! | `syntax`, `field` | an expression as text, and its problems with their positions |
//! | `civil` | the dates and times of day of an expression, without a time zone |
//! | `calendar` | the instants of these in a time zone: gaps and overlaps |
//! | `words` | a description of an expression in words |
//! | `policy`, `plan` | the handling of missed ticks, and of a tick while the last job still runs |
//!
//! All times are milliseconds since 1970.

#[cfg(feature = "zones")]
mod calendar;
#[cfg_attr(not(feature = "zones"), allow(dead_code, reason = "the syntax asks only whether a day comes at all"))]
mod civil;
mod field;
#[cfg(feature = "zones")]
mod plan;
mod policy;
mod syntax;
mod words;

#[cfg(feature = "zones")]
pub use self::{
    calendar::{Calendar, jitter},
    plan::{ON_TIME_MS, Plan, Rules, Skipped},
};
pub use self::{
    policy::{CatchUp, LONGEST_JITTER, MOST_CAUGHT_UP, Overlap},
    syntax::{Expression, LONGEST_EVERY, LONGEST_TEXT, SyntaxError},
};
