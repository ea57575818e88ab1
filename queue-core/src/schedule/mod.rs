//! Schedules, which create jobs by a cron expression or an interval.
//!
//! A [`Schedule`] has a time rule and a job. It is given to a worker (`Worker::schedule`), declared
//! on a task (`#[task(schedule(..))]`), or set at run time by [`Schedules::upsert`]. The broker
//! stores it in the queue of its job. Any worker of this queue makes its ticks; there is no leader.
//!
//! | module | what it does |
//! |---|---|
//! | `define` | the builder and its checks |
//! | `rules` | a stored definition that was read: its calendar and its policies |
//! | `step` | the one place that decides what due ticks do |
//! | `change` | the changes by a new definition, a pause or a resume |
//! | `tick` | the calls of a worker: read the due schedules, decide, store |
//! | `clamp` | corrects next ticks that are too far in the future |
//! | `declare` | the declarations of code, by release |
//! | `facade`, `record` | the calls and records for operators and applications |

mod change;
mod clamp;
mod declare;
mod define;
mod facade;
mod record;
mod rules;
mod step;
#[cfg(test)]
mod tests;
mod tick;

#[doc(hidden)]
pub use queue_calendar::Expression;
#[doc(inline)]
pub use queue_calendar::{CatchUp, Overlap};

#[doc(hidden)]
pub use self::{
    change::BY_PERSON,
    clamp::{Clamped, clamp},
    declare::{Declared, UNDECLARED_AFTER, declare},
    define::Prepared,
    facade::MOST_BACKFILLED,
    tick::{DueTicks, Ticks, tick_due},
};
pub use self::{
    define::Schedule,
    facade::{Backfilled, Schedules},
    record::{ScheduleAddress, ScheduleHappened, ScheduleRan, ScheduleRecord},
};
