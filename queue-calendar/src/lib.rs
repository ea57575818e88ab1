//! When schedules tick: pure code, without a clock. `queue-macros` takes the syntax alone,
//! `queue-core` the rest with the feature `zones`.
//!
//! | module | what it knows |
//! |---|---|
//! | `syntax`, `field` | an expression as text, and what is wrong where in it |
//! | `civil` | which dates and times of day an expression means, in no time zone |
//! | `calendar` | which instants these are in a time zone: gaps and overlaps |
//! | `words` | an expression as people say it |
//! | `policy`, `plan` | what is done about ticks that were missed, and about a tick while the last job still runs |
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
