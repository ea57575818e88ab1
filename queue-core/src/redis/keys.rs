//! The keys of a queue. All of them, and its channel, have one hash tag, and so lie in one slot of a cluster. The tag of the queue
//! `mail` is its name. A queue `billing@orders` has the tag `orders`: it lies in the slot of `orders`, beside others of this tag.
//!
//! | kind | type | holds |
//! |---|---|---|
//! | `meta` | hash | `schema`, `bits`, `due`, `paused`, `claim`, `registrations`; of groups `virtual`, `plain`, `line_head`, `line_tail` |
//! | `jobs` | hash | id → envelope, of every job in whatever state |
//! | `ready:0` … `ready:3` | list | ids that may start now, by priority |
//! | `suspect` | list | ids that may start now, of jobs with crashes |
//! | `scheduled`, `retry` | sorted set | ids by the time at which they are due |
//! | `active` | hash | id → tag |
//! | `parked` | sorted set | `task NUL id`, by name |
//! | `unreadable` | sorted set | ids of jobs that releases could not read, by the time at which they are buried |
//! | `releases` | hash | id of such a job → the releases, each after a character 1 |
//! | `dead` | sorted set | ids by the time at which they died |
//! | `ended` | list | ids of kept jobs, in the order in which they ended; `until:id` of those that may come again |
//! | `records` | hash | id → what is known of a kept job |
//! | `attempts`, `snoozes`, `crashes`, `errors`, `priority`, `notes` | hash | by id, of the few jobs that have any |
//! | `given`, `remembered` | hash, sorted set | digests of given ids; those whose jobs are done, by time |
//! | `tomb` | hash | cancelled id and the digit of the list in which it still lies → nothing |
//! | `keyed` | hash | id → its key, for how long it holds it, and since when it waits |
//! | `unique` | hash | key → id of who holds it, `@UNTIL:TERM:id` if it is for a time |
//! | `held` | hash | key → `DUE:id` of who waits for it |
//! | `within` | sorted set | keys that are held for a time, by its end |
//! | `grouped` | hash | id → its place in `line`, and its group |
//! | `line` | sorted set | jobs of groups that may start now, by their bytes: group, digit, chain, number, id |
//! | `turns`, `rested` | sorted set | groups that may be served, and those that may not, by their virtual start |
//! | `holders` | sorted set | group, zero and id of each job that runs and has a group |
//! | `rules` | hash | group, `*` for all or `-` for plain jobs → its rule |
//! | `front` | hash | ordered group → id of who holds its line |
//! | `lanes` | hash | lane → sequence and last answer |
//! | `leases` | sorted set | lanes by deadline |
//! | `terms` | sorted set | lanes by the length of their lease |
//! | `knows` | hash | lane → the feature bits that it knows |
//! | `workers` | hash | worker → its record |
//! | `fenced` | set | lanes whose jobs are being taken back |
//! | `gone` | hash | lane → ids that were cancelled under it |
//! | `producers`, `seen` | hash, sorted set | sequence and last answer; when registered, or looked at by housekeeping |
//! | `counters` | hash | what happened since the queue exists |
//! | `history` | hash | task, NUL, and a minute or hour in a circle → what happened then |
//! | `tasks` | hash | task with a history → the hour in which it was last heard of |
//! | `reporters` | hash | worker → number and hour of its last report |
//! | `schedules`, `states` | hash | schedule → its definition, its state |
//! | `ticks` | sorted set | schedules by the time at which they are due |
//! | `declared` | set | schedules that code declares |
//! | `ticked` | hash | id of a schedule's job that has not ended → run and schedule |
//! | `backfilled` | sorted set | ids that a backfill or a person made, by time |
//! | `watched` | sorted set | ids of jobs for whose end somebody waits, by the time at which that is over |
//! | `progress`, `logs` | hash | id → what its handlers have told |
//! | `hint` | channel | announcements |
//!
//! Beside them there is one set for all queues, `queues`, with their names.

mod names;

pub(in crate::redis) use self::names::{Keys, tag_of};

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum Kind {
    Meta,
    Jobs,
    Ready0,
    Ready1,
    Ready2,
    Ready3,
    Suspect,
    Scheduled,
    Retry,
    Active,
    Parked,
    Unreadable,
    Releases,
    Dead,
    Ended,
    Records,
    Attempts,
    Snoozes,
    Crashes,
    Errors,
    Priority,
    Notes,
    Given,
    Remembered,
    Tomb,
    Keyed,
    Unique,
    Held,
    Within,
    Grouped,
    Line,
    Turns,
    Rested,
    Holders,
    Rules,
    Front,
    Lanes,
    Leases,
    Terms,
    Knows,
    Workers,
    Fenced,
    Gone,
    Producers,
    Seen,
    Counters,
    History,
    Tasks,
    Reporters,
    Schedules,
    States,
    Ticks,
    Declared,
    Ticked,
    Backfilled,
    Watched,
    Progress,
    Logs,
    Hint,
}

/// The type of the set of all queues.
pub(in crate::redis) const QUEUES_HOLD: &str = "set";

/// All keys of a queue.
pub(in crate::redis) const STORED: &[Kind] = &[
    Kind::Meta,
    Kind::Jobs,
    Kind::Ready0,
    Kind::Ready1,
    Kind::Ready2,
    Kind::Ready3,
    Kind::Suspect,
    Kind::Scheduled,
    Kind::Retry,
    Kind::Active,
    Kind::Parked,
    Kind::Unreadable,
    Kind::Releases,
    Kind::Dead,
    Kind::Ended,
    Kind::Records,
    Kind::Attempts,
    Kind::Snoozes,
    Kind::Crashes,
    Kind::Errors,
    Kind::Priority,
    Kind::Notes,
    Kind::Given,
    Kind::Remembered,
    Kind::Tomb,
    Kind::Keyed,
    Kind::Unique,
    Kind::Held,
    Kind::Within,
    Kind::Grouped,
    Kind::Line,
    Kind::Turns,
    Kind::Rested,
    Kind::Holders,
    Kind::Rules,
    Kind::Front,
    Kind::Lanes,
    Kind::Leases,
    Kind::Terms,
    Kind::Knows,
    Kind::Workers,
    Kind::Fenced,
    Kind::Gone,
    Kind::Producers,
    Kind::Seen,
    Kind::Counters,
    Kind::History,
    Kind::Tasks,
    Kind::Reporters,
    Kind::Schedules,
    Kind::States,
    Kind::Ticks,
    Kind::Declared,
    Kind::Ticked,
    Kind::Backfilled,
    Kind::Watched,
    Kind::Progress,
    Kind::Logs,
];

impl Kind {
    /// The name in Lua, and the last part of the key with `:` before the number of a list.
    pub(in crate::redis) fn name(self) -> &'static str {
        match self {
            Kind::Meta => "meta",
            Kind::Jobs => "jobs",
            Kind::Ready0 => "ready0",
            Kind::Ready1 => "ready1",
            Kind::Ready2 => "ready2",
            Kind::Ready3 => "ready3",
            Kind::Suspect => "suspect",
            Kind::Scheduled => "scheduled",
            Kind::Retry => "retry",
            Kind::Active => "active",
            Kind::Parked => "parked",
            Kind::Unreadable => "unreadable",
            Kind::Releases => "releases",
            Kind::Dead => "dead",
            Kind::Ended => "ended",
            Kind::Records => "records",
            Kind::Attempts => "attempts",
            Kind::Snoozes => "snoozes",
            Kind::Crashes => "crashes",
            Kind::Errors => "errors",
            Kind::Priority => "priority",
            Kind::Notes => "notes",
            Kind::Given => "given",
            Kind::Remembered => "remembered",
            Kind::Tomb => "tomb",
            Kind::Keyed => "keyed",
            Kind::Unique => "unique",
            Kind::Held => "held",
            Kind::Within => "within",
            Kind::Grouped => "grouped",
            Kind::Line => "line",
            Kind::Turns => "turns",
            Kind::Rested => "rested",
            Kind::Holders => "holders",
            Kind::Rules => "rules",
            Kind::Front => "front",
            Kind::Lanes => "lanes",
            Kind::Leases => "leases",
            Kind::Terms => "terms",
            Kind::Knows => "knows",
            Kind::Workers => "workers",
            Kind::Fenced => "fenced",
            Kind::Gone => "gone",
            Kind::Producers => "producers",
            Kind::Seen => "seen",
            Kind::Counters => "counters",
            Kind::History => "history",
            Kind::Tasks => "tasks",
            Kind::Reporters => "reporters",
            Kind::Schedules => "schedules",
            Kind::States => "states",
            Kind::Ticks => "ticks",
            Kind::Declared => "declared",
            Kind::Ticked => "ticked",
            Kind::Backfilled => "backfilled",
            Kind::Watched => "watched",
            Kind::Progress => "progress",
            Kind::Logs => "logs",
            Kind::Hint => "hint",
        }
    }

    /// The digit that stands for a list of `ready` in the name of a tomb.
    pub(in crate::redis) fn digit(self) -> &'static str {
        match self {
            Kind::Ready0 => "0",
            Kind::Ready1 => "1",
            Kind::Ready2 => "2",
            Kind::Ready3 => "3",
            Kind::Suspect => "9",
            other => unreachable!("{} is no list of `ready`", other.name()),
        }
    }

    /// The type of the key, as the command `TYPE` names it.
    pub(in crate::redis) fn holds(self) -> &'static str {
        match self {
            Kind::Ready0 | Kind::Ready1 | Kind::Ready2 | Kind::Ready3 | Kind::Suspect | Kind::Ended => "list",
            Kind::Scheduled
            | Kind::Retry
            | Kind::Parked
            | Kind::Unreadable
            | Kind::Dead
            | Kind::Remembered
            | Kind::Leases
            | Kind::Terms
            | Kind::Seen
            | Kind::Within
            | Kind::Line
            | Kind::Turns
            | Kind::Rested
            | Kind::Holders
            | Kind::Ticks
            | Kind::Backfilled
            | Kind::Watched => "zset",
            Kind::Fenced | Kind::Declared => "set",
            Kind::Hint => "channel",
            Kind::Meta
            | Kind::Jobs
            | Kind::Active
            | Kind::Releases
            | Kind::Records
            | Kind::Attempts
            | Kind::Snoozes
            | Kind::Crashes
            | Kind::Errors
            | Kind::Priority
            | Kind::Notes
            | Kind::Given
            | Kind::Tomb
            | Kind::Keyed
            | Kind::Unique
            | Kind::Held
            | Kind::Grouped
            | Kind::Rules
            | Kind::Front
            | Kind::Lanes
            | Kind::Knows
            | Kind::Workers
            | Kind::Gone
            | Kind::Producers
            | Kind::Counters
            | Kind::History
            | Kind::Tasks
            | Kind::Reporters
            | Kind::Schedules
            | Kind::States
            | Kind::Ticked
            | Kind::Progress
            | Kind::Logs => "hash",
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Kind::Ready0 => "ready:0",
            Kind::Ready1 => "ready:1",
            Kind::Ready2 => "ready:2",
            Kind::Ready3 => "ready:3",
            other => other.name(),
        }
    }
}

/// The lists of `ready`, in the order in which they are served.
pub(in crate::redis) const READY: [Kind; 5] = [Kind::Suspect, Kind::Ready0, Kind::Ready1, Kind::Ready2, Kind::Ready3];

#[cfg(test)]
mod tests;
