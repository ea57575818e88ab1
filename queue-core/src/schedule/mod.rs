//! Schedules, which create jobs by a cron expression or an interval.
//!
//! A [`Schedule`] has a time rule and a job. It is given to a worker (`Worker::schedule`), declared
//! on a task (`#[task(schedule(..))]`), or set at run time by [`Schedules::upsert`]. The broker
//! stores it in the queue of its job. Any worker of this queue makes its ticks; there is no leader.
//!
//! | module | what it does |
//! |---|---|
//! | `define` | the builder, and what it is checked for |
//! | `rules` | a stored definition that was read: its calendar and its policies |
//! | `step` | what the ticks that are due do: the one place where that is decided |
//! | `change` | what a new definition, a pause, a resume change |
//! | `tick` | what a worker does: asks what is due, decides, sets |
//! | `clamp` | next ticks that lie too far ahead are brought back |
//! | `declare` | what code declares, release by release |
//! | `facade`, `record` | what people and applications call and read |

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
