#![doc = include_str!("keys/keys.md")]

mod names;

pub(in crate::redis) use self::names::{Keys, tag_of};

/// The contents of a key.
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
    Lapsing,
    Records,
    Attempts,
    Snoozes,
    Returned,
    Crashes,
    Errors,
    Priority,
    Notes,
    Given,
    Remembered,
    Tombstones,
    Keyed,
    Unique,
    Held,
    Holds,
    Within,
    Grouped,
    Line,
    Next,
    Doubts,
    Rested,
    Holders,
    Rules,
    Ruled,
    Front,
    Chains,
    Costs,
    Limits,
    Open,
    Numbered,
    Ranked,
    Risen,
    Rising,
    Roomy,
    Shut,
    Tat,
    Wake,
    Lanes,
    Leases,
    Durations,
    Knows,
    Workers,
    Loads,
    Asked,
    Fenced,
    Leaving,
    Gone,
    Producers,
    Seen,
    Counters,
    History,
    Tasks,
    Reporters,
    Deployed,
    Failures,
    Schedules,
    States,
    Ticks,
    Declared,
    Ticked,
    Backfilled,
    Watched,
    Transitions,
    Operations,
    Pauses,
    Resumes,
    Progress,
    Logs,
    Tags,
    Log,
    Topic,
    Subscriptions,
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
    Kind::Lapsing,
    Kind::Records,
    Kind::Attempts,
    Kind::Snoozes,
    Kind::Returned,
    Kind::Crashes,
    Kind::Errors,
    Kind::Priority,
    Kind::Notes,
    Kind::Given,
    Kind::Remembered,
    Kind::Tombstones,
    Kind::Keyed,
    Kind::Unique,
    Kind::Held,
    Kind::Holds,
    Kind::Within,
    Kind::Grouped,
    Kind::Line,
    Kind::Next,
    Kind::Doubts,
    Kind::Rested,
    Kind::Holders,
    Kind::Rules,
    Kind::Ruled,
    Kind::Front,
    Kind::Chains,
    Kind::Costs,
    Kind::Limits,
    Kind::Open,
    Kind::Numbered,
    Kind::Ranked,
    Kind::Risen,
    Kind::Rising,
    Kind::Roomy,
    Kind::Shut,
    Kind::Tat,
    Kind::Wake,
    Kind::Lanes,
    Kind::Leases,
    Kind::Durations,
    Kind::Knows,
    Kind::Workers,
    Kind::Loads,
    Kind::Asked,
    Kind::Fenced,
    Kind::Leaving,
    Kind::Gone,
    Kind::Producers,
    Kind::Seen,
    Kind::Counters,
    Kind::History,
    Kind::Tasks,
    Kind::Reporters,
    Kind::Deployed,
    Kind::Failures,
    Kind::Schedules,
    Kind::States,
    Kind::Ticks,
    Kind::Declared,
    Kind::Ticked,
    Kind::Backfilled,
    Kind::Watched,
    Kind::Transitions,
    Kind::Operations,
    Kind::Pauses,
    Kind::Resumes,
    Kind::Progress,
    Kind::Logs,
    Kind::Tags,
    Kind::Log,
    Kind::Topic,
    Kind::Subscriptions,
];

impl Kind {
    /// The name in Lua. It is also the last part of the key, which has a `:` before the number of a
    /// list.
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
            Kind::Lapsing => "lapsing",
            Kind::Records => "records",
            Kind::Attempts => "attempts",
            Kind::Snoozes => "snoozes",
            Kind::Returned => "returned",
            Kind::Crashes => "crashes",
            Kind::Errors => "errors",
            Kind::Priority => "priority",
            Kind::Notes => "notes",
            Kind::Given => "given",
            Kind::Remembered => "remembered",
            Kind::Tombstones => "tombstones",
            Kind::Keyed => "keyed",
            Kind::Unique => "unique",
            Kind::Held => "held",
            Kind::Holds => "holds",
            Kind::Within => "within",
            Kind::Grouped => "grouped",
            Kind::Line => "line",
            Kind::Next => "next",
            Kind::Doubts => "doubts",
            Kind::Rested => "rested",
            Kind::Holders => "holders",
            Kind::Rules => "rules",
            Kind::Ruled => "ruled",
            Kind::Front => "front",
            Kind::Chains => "chains",
            Kind::Open => "open",
            Kind::Shut => "shut",
            Kind::Numbered => "numbered",
            Kind::Ranked => "ranked",
            Kind::Roomy => "roomy",
            Kind::Wake => "wake",
            Kind::Limits => "limits",
            Kind::Tat => "tat",
            Kind::Costs => "costs",
            Kind::Rising => "rising",
            Kind::Risen => "risen",
            Kind::Lanes => "lanes",
            Kind::Leases => "leases",
            Kind::Durations => "durations",
            Kind::Knows => "knows",
            Kind::Workers => "workers",
            Kind::Loads => "loads",
            Kind::Asked => "asked",
            Kind::Fenced => "fenced",
            Kind::Leaving => "leaving",
            Kind::Gone => "gone",
            Kind::Producers => "producers",
            Kind::Seen => "seen",
            Kind::Counters => "counters",
            Kind::History => "history",
            Kind::Tasks => "tasks",
            Kind::Reporters => "reporters",
            Kind::Deployed => "deployed",
            Kind::Failures => "failures",
            Kind::Schedules => "schedules",
            Kind::States => "states",
            Kind::Ticks => "ticks",
            Kind::Declared => "declared",
            Kind::Ticked => "ticked",
            Kind::Backfilled => "backfilled",
            Kind::Watched => "watched",
            Kind::Transitions => "transitions",
            Kind::Operations => "operations",
            Kind::Pauses => "pauses",
            Kind::Resumes => "resumes",
            Kind::Progress => "progress",
            Kind::Logs => "logs",
            Kind::Tags => "tags",
            Kind::Log => "log",
            Kind::Topic => "topic",
            Kind::Subscriptions => "subscriptions",
            Kind::Hint => "hint",
        }
    }

    /// The digit of a list of `ready` in the name of a tombstone.
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
    pub(in crate::redis) fn redis_type(self) -> &'static str {
        match self {
            Kind::Ready0 | Kind::Ready1 | Kind::Ready2 | Kind::Ready3 | Kind::Suspect | Kind::Ended => "list",
            Kind::Scheduled
            | Kind::Retry
            | Kind::Parked
            | Kind::Unreadable
            | Kind::Dead
            | Kind::Lapsing
            | Kind::Remembered
            | Kind::Leases
            | Kind::Durations
            | Kind::Seen
            | Kind::Within
            | Kind::Holds
            | Kind::Ruled
            | Kind::Line
            | Kind::Next
            | Kind::Doubts
            | Kind::Rested
            | Kind::Holders
            | Kind::Open
            | Kind::Shut
            | Kind::Numbered
            | Kind::Ranked
            | Kind::Roomy
            | Kind::Wake
            | Kind::Rising
            | Kind::Ticks
            | Kind::Backfilled
            | Kind::Watched
            | Kind::Transitions
            | Kind::Resumes
            | Kind::Tags => "zset",
            Kind::Leaving | Kind::Declared => "set",
            Kind::Hint => "channel",
            Kind::Log => "stream",
            Kind::Meta
            | Kind::Jobs
            | Kind::Active
            | Kind::Releases
            | Kind::Records
            | Kind::Attempts
            | Kind::Snoozes
            | Kind::Returned
            | Kind::Crashes
            | Kind::Errors
            | Kind::Fenced
            | Kind::Priority
            | Kind::Notes
            | Kind::Given
            | Kind::Tombstones
            | Kind::Keyed
            | Kind::Unique
            | Kind::Held
            | Kind::Grouped
            | Kind::Rules
            | Kind::Front
            | Kind::Chains
            | Kind::Limits
            | Kind::Tat
            | Kind::Costs
            | Kind::Risen
            | Kind::Lanes
            | Kind::Knows
            | Kind::Workers
            | Kind::Loads
            | Kind::Asked
            | Kind::Gone
            | Kind::Producers
            | Kind::Counters
            | Kind::History
            | Kind::Tasks
            | Kind::Reporters
            | Kind::Deployed
            | Kind::Failures
            | Kind::Schedules
            | Kind::States
            | Kind::Ticked
            | Kind::Operations
            | Kind::Pauses
            | Kind::Progress
            | Kind::Logs
            | Kind::Topic
            | Kind::Subscriptions => "hash",
        }
    }

    /// Whether the key belongs to a topic, so that all queues with its tag share it.
    fn is_of_topic(self) -> bool {
        matches!(self, Kind::Log | Kind::Topic | Kind::Subscriptions)
    }

    fn suffix(self) -> &'static str {
        match self {
            Kind::Ready0 => "ready:0",
            Kind::Ready1 => "ready:1",
            Kind::Ready2 => "ready:2",
            Kind::Ready3 => "ready:3",
            Kind::Tombstones => "tomb",
            other => other.name(),
        }
    }
}

/// The lists of `ready`, in the order in which they are served.
pub(in crate::redis) const READY: [Kind; 5] = [Kind::Suspect, Kind::Ready0, Kind::Ready1, Kind::Ready2, Kind::Ready3];

#[cfg(test)]
mod tests;
