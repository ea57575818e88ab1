//! The scripts: each a constant, with the keys that it declares.

use std::{ops::Range, sync::LazyLock};

use super::Script;
use crate::redis::keys::{Kind, STORED};

use Kind::{
    Active, Attempts, Counters, Crashes, Dead, Ended, Errors, Fenced, Given, Gone, Jobs, Leases, Meta, Notes, Parked, Priority, Producers,
    Ready0, Ready1, Ready2, Ready3, Records, Retry, Scheduled, Seen, Snoozes, Suspect, Terms, Tomb, Tombstones, Workers,
};

/// What `ready.lua` and `ended.lua` use.
macro_rules! keys {
    ($($more:ident),*) => {
        &[
            Meta, Jobs, Ready0, Ready1, Ready2, Ready3, Suspect, Attempts, Snoozes, Crashes, Errors, Priority, Tomb, Counters, Records, Ended,
            Dead, Notes, Given, Tombstones, $($more),*
        ]
    };
}

macro_rules! text {
    ($name:literal) => {
        include_str!(concat!("../", $name, ".lua"))
    };
}

macro_rules! script {
    ($name:ident, $file:literal, $flags:literal, $keys:expr, [$($part:literal),*]) => {
        pub(in crate::redis) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new($file, $flags, $keys, &[$(text!($part),)* text!($file)].join("\n")));
    };
}

/// The parts that a script makes where its text has a line `--- if CONDITION: NAME, NAME`.
pub(super) fn part(name: &str) -> &'static str {
    match name {
        "clock" => text!("script/clock"),
        "hint" => text!("script/hint"),
        "tools" => text!("script/tools"),
        "known" => text!("script/known"),
        "ended" => text!("doors/ended"),
        _ => unreachable!("a script asks for a part that is none: {name}"),
    }
}

// Finishes, beats and reclaims work on a Redis that is full, and so does all that makes room.
script!(
    REGISTER,
    "lease/register",
    "flags=allow-oom",
    &[
        Meta, Workers, Leases, Terms, Producers, Seen, Counters, Scheduled, Retry, Attempts, Snoozes, Crashes, Errors, Priority, Tomb,
        Ready0, Ready1, Ready3, Suspect, Parked
    ],
    ["script/prelude", "script/clock", "script/schema", "script/plain"]
);
script!(
    ENQUEUE,
    "enqueue/enqueue",
    "",
    keys![Scheduled, Producers],
    [
        "script/prelude",
        "script/clock",
        "script/schema",
        "enqueue/sequence",
        "script/tools",
        "script/plain",
        "script/hint",
        "script/sparse",
        "script/known",
        "doors/ready",
        "doors/ended"
    ]
);
script!(
    ENQUEUE_READY,
    "enqueue/enqueue_ready",
    "",
    &[Meta, Producers, Jobs, Ready2, Counters],
    ["script/prelude", "script/schema", "enqueue/sequence"]
);
script!(
    TURN,
    "turn/turn",
    "flags=allow-oom",
    keys![Scheduled, Retry, Active, Workers, Leases, Gone, Parked],
    [
        "script/prelude",
        "script/clock",
        "script/tools",
        "script/plain",
        "script/hint",
        "script/sparse",
        "script/known",
        "doors/ready",
        "turn/claim"
    ]
);
script!(
    TURN_PLAIN,
    "turn/turn_plain",
    "flags=allow-oom",
    &[Meta, Workers, Leases, Active, Jobs, Ready2, Counters, Tombstones, Attempts, Errors, Snoozes, Crashes, Priority, Records, Ended],
    ["script/prelude", "script/clock"]
);
/// A turn of a plain queue that keeps no jobs does with the keys before the end of these, and before their start where none has failed.
pub(in crate::redis) const FAILURE_KEYS: Range<usize> = 8..10;
script!(
    EXTEND,
    "lease/extend",
    "flags=allow-oom",
    &[Meta, Workers, Leases, Gone, Counters],
    ["script/prelude", "script/clock", "script/schema"]
);
script!(
    SUSPECTS,
    "lease/suspects",
    "flags=no-writes",
    &[Leases, Terms, Fenced, Counters],
    ["script/prelude", "script/clock", "lease/terms"]
);
script!(ALIVE, "lease/alive", "flags=no-writes", &[Leases, Counters], ["script/prelude", "script/clock"]);
script!(
    FENCE,
    "lease/fence",
    "flags=allow-oom",
    &[Meta, Workers, Leases, Terms, Gone, Fenced, Counters],
    ["script/prelude", "script/clock", "script/schema", "lease/terms"]
);
script!(
    RECLAIM,
    "lease/reclaim",
    "flags=allow-oom",
    keys![Retry, Active, Workers],
    [
        "script/prelude",
        "script/clock",
        "script/schema",
        "script/tools",
        "script/plain",
        "script/hint",
        "script/sparse",
        "script/known",
        "doors/ready",
        "doors/ended"
    ]
);
script!(FORGET, "lease/forget", "flags=allow-oom", &[Fenced, Counters], ["script/prelude"]);
script!(
    CANCEL,
    "people/cancel",
    "flags=allow-oom",
    keys![Scheduled, Retry, Active, Workers, Gone, Parked],
    [
        "script/prelude",
        "script/clock",
        "script/schema",
        "script/tools",
        "script/plain",
        "script/hint",
        "script/sparse",
        "script/known",
        "doors/ready",
        "doors/ended"
    ]
);
script!(
    REQUEUE,
    "people/requeue",
    "flags=allow-oom",
    keys![],
    [
        "script/prelude",
        "script/clock",
        "script/schema",
        "script/tools",
        "script/hint",
        "script/sparse",
        "script/known",
        "doors/ready",
        "doors/ended"
    ]
);
script!(
    DELETE,
    "people/delete",
    "flags=allow-oom",
    keys![Scheduled, Retry, Active, Parked],
    [
        "script/prelude",
        "script/clock",
        "script/schema",
        "script/tools",
        "script/plain",
        "script/hint",
        "script/sparse",
        "script/known",
        "doors/ready",
        "doors/ended"
    ]
);
script!(
    SWEEP,
    "audit/sweep",
    "flags=allow-oom",
    keys![Scheduled, Retry, Active, Producers, Seen],
    [
        "script/prelude",
        "script/clock",
        "script/schema",
        "script/tools",
        "script/plain",
        "script/hint",
        "script/sparse",
        "script/known",
        "doors/ready",
        "doors/ended"
    ]
);
script!(
    AUDIT,
    "audit/audit",
    "flags=allow-oom",
    keys![Scheduled, Retry, Active, Workers, Leases, Terms, Fenced, Parked],
    [
        "script/prelude",
        "script/clock",
        "script/schema",
        "lease/terms",
        "script/tools",
        "script/plain",
        "script/hint",
        "script/sparse",
        "script/known",
        "doors/ready",
        "doors/ended"
    ]
);
script!(
    PAUSE,
    "people/pause",
    "flags=allow-oom",
    &[Meta, Counters],
    ["script/prelude", "script/clock", "script/schema", "script/plain", "script/hint"]
);
script!(
    SHOW,
    "people/show",
    "flags=no-writes",
    &[Jobs, Records, Active, Notes, Scheduled, Retry, Dead, Priority, Attempts, Crashes, Snoozes, Errors, Counters],
    ["script/prelude"]
);
script!(TYPES, "audit/types", "flags=no-writes", STORED, ["script/prelude"]);
script!(ASIDE, "audit/aside", "flags=allow-oom", STORED, ["script/prelude"]);
script!(
    STATS,
    "people/stats",
    "flags=no-writes",
    &[Meta, Tomb, Ready0, Ready1, Ready2, Ready3, Suspect, Scheduled, Retry, Active, Parked, Dead, Leases, Counters],
    ["script/prelude", "script/clock"]
);

/// All of them.
#[cfg(test)]
pub(super) fn all() -> [&'static Script; 21] {
    [
        &REGISTER,
        &ENQUEUE,
        &ENQUEUE_READY,
        &TURN,
        &TURN_PLAIN,
        &EXTEND,
        &SUSPECTS,
        &ALIVE,
        &FENCE,
        &RECLAIM,
        &FORGET,
        &CANCEL,
        &REQUEUE,
        &DELETE,
        &SWEEP,
        &PAUSE,
        &SHOW,
        &STATS,
        &AUDIT,
        &TYPES,
        &ASIDE,
    ]
}
