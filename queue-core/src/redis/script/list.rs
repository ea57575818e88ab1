//! The scripts, and the fragments from which they are composed.

use std::sync::LazyLock;

use super::{
    Script,
    bits::{Bits, PLAIN_ENQUEUE, PLAIN_TURN},
};
use crate::{
    broker::{
        BACKFILL_REMEMBERED, CHAINS_COUNTED, CLAIM_STEPS, CLEANUP_BEHIND, CLOCK_MOVED, DEFAULT_AGE, DEFAULT_LAG, DUE_ITEMS, FOLLOWED,
        GROUP_RULES, HEADS, HOLDERS_NAMED, LIMIT_RULES, LIMIT_STEP, LOG_BYTES, LOG_LINES, LONGEST_CLOSED, MAX_BYTES, MOST_TAKEN,
        MOST_WATCHED, ODD, OPERATION_LEASE, OPERATIONS_KEPT, OUTBOX, OUTBOXES, PAUSED_TASKS, PLACES_EXAMINED, POPPED_AT_ONCE, Pausing,
        READS_AHEAD, REASON_BYTES, RESUMED_AT_ONCE, SHARE_COUNTED, START_APART, START_COST, STOPPED, SWEEPER_LEASE, TICKETS,
        TRANSITIONS_AT_ONCE, TRANSITIONS_KEPT, TRIM_STEP, UNREADABLE_RELEASES, WATCHED, WATCHED_KEEP, WorkerInfo,
        history::{
            FAILURE_PATTERNS, HOURS, JOBS_NAMED, MINUTES, OTHERS, RELEASES_NAMED, RELEASES_SEEN, REPORTERS_HOURS, TASKS, TASKS_NAMED,
        },
    },
    envelope::tags::TAGS_MAX,
    envelope::{HEADER_BYTES_MAX, HEADERS_MAX, PAYLOAD_MAX},
    limit::gcra::{DEBT_PERIODS, LONGEST_DEBT_US},
    redis::{SCHEMA, enqueue::LARGE, values::FOREVER},
};

/// The retention of a job that has ended without being run: a day.
const UNRUN_MS: u64 = 24 * 3600 * 1000;

/// A scan in the order of the server reads at most this many pieces of this size. A caller requests
/// at most 500 jobs, which are 20 pieces. The script needs the other pieces if a large table has
/// few jobs left.
const SCANNED_AT_ONCE: u64 = 25;
const SCANNED_PIECES: u64 = 40;

/// The numbers of jobs in a line start here. Numbers of jobs that are pushed to the head count
/// down.
const MIDDLE: u64 = 1 << 52;

/// The virtual time at which a new era begins. A double represents twice this number exactly.
const ERA: u64 = 1 << 51;

/// The constants that scripts use as `C.name`.
pub(super) fn constants() -> [(&'static str, String); 73] {
    [
        ("schema", format!("'{SCHEMA}'")),
        ("forever", FOREVER.to_string()),
        ("max_bytes", MAX_BYTES.to_string()),
        ("due_items", DUE_ITEMS.to_string()),
        ("unrun_ms", UNRUN_MS.to_string()),
        // The record of a worker that has none, except for the time.
        ("no_record", text_of(WorkerInfo::default().encoded())),
        // Unreadable jobs.
        ("releases", UNREADABLE_RELEASES.to_string()),
        // Schedules.
        ("stopped", format!("'{STOPPED}'")),
        ("clock_moved", CLOCK_MOVED.as_millis().to_string()),
        ("remembered_ms", BACKFILL_REMEMBERED.as_millis().to_string()),
        // Watched jobs.
        ("watched_ms", WATCHED.as_millis().to_string()),
        ("most_watched", MOST_WATCHED.to_string()),
        ("watched_keep_ms", WATCHED_KEEP.as_millis().to_string()),
        // Watchers that follow a queue.
        ("followed_ms", FOLLOWED.as_millis().to_string()),
        ("transitions_kept", TRANSITIONS_KEPT.to_string()),
        ("transitions_at_once", TRANSITIONS_AT_ONCE.to_string()),
        ("reason_bytes", REASON_BYTES.to_string()),
        // Scans.
        ("scanned_at_once", SCANNED_AT_ONCE.to_string()),
        ("scanned_pieces", SCANNED_PIECES.to_string()),
        // The position of jobs.
        ("places_examined", PLACES_EXAMINED.to_string()),
        ("holders_named", HOLDERS_NAMED.to_string()),
        // The log of a job.
        ("log_bytes", LOG_BYTES.to_string()),
        ("log_lines", LOG_LINES.to_string()),
        // Headers and tags.
        ("most_headers", HEADERS_MAX.to_string()),
        ("header_bytes", HEADER_BYTES_MAX.to_string()),
        ("most_tags", TAGS_MAX.to_string()),
        // The oldest ready job.
        ("heads", HEADS.to_string()),
        // Sweeps.
        ("cleanup_behind", CLEANUP_BEHIND.to_string()),
        ("sweeper_lease", SWEEPER_LEASE.as_millis().to_string()),
        // Groups.
        ("start_cost", START_COST.to_string()),
        ("start_apart", START_APART.to_string()),
        ("middle", MIDDLE.to_string()),
        ("odd", ODD.to_string()),
        ("era", ERA.to_string()),
        ("share_counted", SHARE_COUNTED.to_string()),
        ("group_rules", GROUP_RULES.to_string()),
        // Pauses.
        ("resumed_at_once", RESUMED_AT_ONCE.to_string()),
        ("paused_tasks", PAUSED_TASKS.to_string()),
        ("after_rate_limit", format!("'{}'", Pausing::after_rate_limit().encoded())),
        // Operations.
        ("operations_kept", OPERATIONS_KEPT.to_string()),
        ("operation_lease", OPERATION_LEASE.as_millis().to_string()),
        ("popped", POPPED_AT_ONCE.to_string()),
        // Limits.
        ("limit_rules", LIMIT_RULES.to_string()),
        ("limit_step", LIMIT_STEP.to_string()),
        ("tickets", TICKETS.to_string()),
        ("claim_steps", CLAIM_STEPS.to_string()),
        // A limit key has 16 bytes, six of which are the name of its limit. All keys of a limit
        // sort before its name followed by this text.
        ("last_key", format!("'{}'", "\\255".repeat(11))),
        ("chains_counted", CHAINS_COUNTED.to_string()),
        ("longest_closed", LONGEST_CLOSED.as_millis().to_string()),
        ("debt_periods", DEBT_PERIODS.to_string()),
        ("longest_debt_us", LONGEST_DEBT_US.to_string()),
        // The history: the length, and the number of tasks.
        ("minutes", MINUTES.to_string()),
        ("hours", HOURS.to_string()),
        ("tasks", TASKS.to_string()),
        ("others", format!("'{OTHERS}'")),
        ("reporter_hours", REPORTERS_HOURS.to_string()),
        ("failure_patterns", FAILURE_PATTERNS.to_string()),
        ("tasks_named", TASKS_NAMED.to_string()),
        ("releases_named", RELEASES_NAMED.to_string()),
        ("jobs_named", JOBS_NAMED.to_string()),
        ("releases_seen", RELEASES_SEEN.to_string()),
        ("outbox", format!("'{OUTBOX}'")),
        ("outboxes", OUTBOXES.to_string()),
        // Topics.
        ("most_taken", MOST_TAKEN.to_string()),
        ("most_payload", PAYLOAD_MAX.to_string()),
        ("large", LARGE.to_string()),
        ("reads_ahead", READS_AHEAD.to_string()),
        ("trim_step", TRIM_STEP.to_string()),
        ("default_age", DEFAULT_AGE.as_millis().to_string()),
        ("default_lag", DEFAULT_LAG.as_millis().to_string()),
        // A bit that this library does not know, and the bits that the plain scripts do not
        // support.
        ("unknown", format!("'[^{}]'", Bits::ALL.letters())),
        ("not_plain_turn", format!("'[^{}]'", PLAIN_TURN.letters())),
        ("not_plain_enqueue", format!("'[^{}]'", PLAIN_ENQUEUE.letters())),
    ]
}

/// Bytes as a literal of Lua.
fn text_of(bytes: &[u8]) -> String {
    let escaped: String = bytes.iter().map(|byte| format!("\\{byte:03}")).collect();
    format!("'{escaped}'")
}

macro_rules! text {
    ($name:literal) => {
        crate::sources::current(concat!("queue-core/src/redis/", $name, ".lua").as_ref(), include_str!(concat!("../", $name, ".lua")))
    };
}

macro_rules! fragments {
    ($($name:literal)*) => {
        vec![$(($name, text!($name)),)*]
    };
}

/// The fragments from which scripts are composed.
static FRAGMENTS: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    fragments! {
        "audit/aside"
        "audit/find"
        "audit/checks"
        "audit/repair"
        "audit/sweep"
        "audit/types"
        "doors/admit"
        "doors/aging"
        "doors/return_jobs"
        "doors/edit"
        "doors/end"
        "doors/groups"
        "doors/keys"
        "doors/limits"
        "doors/pauses"
        "doors/ready"
        "doors/raise"
        "doors/progress"
        "doors/settle"
        "doors/suspects"
        "doors/tags"
        "doors/transitions"
        "doors/rotation"
        "doors/watched"
        "enqueue/enqueue"
        "enqueue/enqueue_plain"
        "enqueue/kinds"
        "enqueue/sequence"
        "enqueue/store"
        "enqueue/unique"
        "groups/list"
        "groups/review"
        "groups/set"
        "history/failed"
        "history/failures"
        "history/history"
        "history/report"
        "lease/alive"
        "lease/deregister"
        "lease/extend"
        "lease/fence"
        "lease/forget"
        "lease/reclaim"
        "lease/register"
        "lease/overdue"
        "lease/duration"
        "limits/keys"
        "limits/list"
        "limits/review"
        "limits/set"
        "operation/pop"
        "operation/set"
        "operation/step"
        "operation/stored"
        "people/aging"
        "people/ask_worker"
        "people/cancel"
        "people/cancelling"
        "people/delete"
        "people/diagnose"
        "people/edit"
        "people/follow"
        "people/key"
        "people/keys"
        "people/update_due_and_hint"
        "people/pause"
        "people/pauses"
        "people/promote"
        "people/promoting"
        "people/release_key"
        "people/remove"
        "people/remove_queue"
        "people/requeue"
        "people/requeueing"
        "people/scan"
        "people/show"
        "people/shown"
        "people/since"
        "people/stats"
        "people/tagged"
        "people/transitions"
        "people/watch"
        "people/workers"
        "progress/read"
        "progress/store"
        "schedule/due"
        "schedule/ended"
        "schedule/list"
        "schedule/set"
        "script/bits"
        "script/clock"
        "script/first_due"
        "script/guard"
        "script/has"
        "script/hint"
        "script/incarnation"
        "script/recount_bits"
        "script/prelude"
        "script/rare"
        "script/schema"
        "script/tools"
        "topic/entry"
        "topic/event"
        "topic/feed"
        "topic/publish"
        "topic/rewind"
        "topic/show"
        "topic/subscribe"
        "topic/subscription"
        "topic/trim"
        "turn/acks"
        "turn/answer"
        "turn/aside"
        "turn/claim"
        "turn/claim_in_rotation"
        "turn/claim_parked"
        "turn/finish"
        "turn/others"
        "turn/replay"
        "turn/resume"
        "turn/turn"
        "turn/turn_plain"
        "turn/used"
        "turn/waits"
    }
});

/// A fragment's text.
pub(super) fn fragment(name: &str) -> &'static str {
    let found = FRAGMENTS.iter().find(|(fragment, _)| *fragment == name);
    found.unwrap_or_else(|| unreachable!("a script includes a fragment that is none: {name}")).1
}

/// All fragments.
#[cfg(test)]
pub(super) fn fragments() -> impl Iterator<Item = (&'static str, &'static str)> {
    FRAGMENTS.iter().copied()
}

macro_rules! scripts {
    ($($name:ident: $file:literal, $flags:literal, [$($verb:ident),*];)*) => {
        $(pub(in crate::redis) static $name: LazyLock<Script> = LazyLock::new(|| Script::new($file, $flags));)*

        /// All scripts.
        #[cfg(test)]
        pub(super) fn all() -> Vec<&'static Script> {
            vec![$(&$name,)*]
        }

        /// The verbs that run a script. A script without verbs may be run by any verb.
        #[cfg(test)]
        pub(super) fn verbs_of(script: &Script) -> &'static [&'static str] {
            $(if std::ptr::eq(script, &*$name) {
                return &[$(stringify!($verb)),*];
            })*
            unreachable!("the list has every script")
        }
    };
}

// Name, file, flags, and the verbs that run the script: `docs/acl` permits its commands to the
// callers of these verbs. Scripts for endings, heartbeats, reclaims and removals work on a full
// server. The script of the history does not, because a history grows and its reports can wait.
scripts! {
    TURN: "turn/turn", "flags=allow-oom", [turn];
    TURN_PLAIN: "turn/turn_plain", "flags=allow-oom", [turn];
    ENQUEUE: "enqueue/enqueue", "", [enqueue];
    ENQUEUE_PLAIN: "enqueue/enqueue_plain", "", [enqueue];
    REGISTER: "lease/register", "flags=allow-oom", [register];
    EXTEND: "lease/extend", "flags=allow-oom", [extend];
    OVERDUE: "lease/overdue", "flags=no-writes", [overdue];
    FENCE: "lease/fence", "flags=allow-oom", [fence];
    ALIVE: "lease/alive", "flags=no-writes", [reclaim];
    RECLAIM: "lease/reclaim", "flags=allow-oom", [reclaim];
    FORGET: "lease/forget", "flags=allow-oom", [reclaim];
    CANCEL: "people/cancel", "flags=allow-oom", [change];
    REQUEUE: "people/requeue", "flags=allow-oom", [change];
    PROMOTE: "people/promote", "flags=allow-oom", [change];
    DELETE: "people/delete", "flags=allow-oom", [change];
    EDIT: "people/edit", "", [edit];
    AGING: "people/aging", "", [set_aging];
    PAUSE: "people/pause", "flags=allow-oom", [set_pause];
    SET_OPERATION: "operation/set", "flags=allow-oom", [operate];
    STEP_OPERATION: "operation/step", "flags=allow-oom", [operate];
    REMOVE_QUEUE: "people/remove_queue", "flags=allow-oom", [remove_queue];
    ASK_WORKER: "people/ask_worker", "flags=allow-oom", [ask_worker];
    PAUSES: "people/pauses", "flags=no-writes", [pauses];
    KEY: "people/key", "flags=no-writes", [key_holder];
    KEYS: "people/keys", "flags=no-writes", [keys];
    RELEASE_KEY: "people/release_key", "flags=allow-oom", [release_key];
    GROUPS: "groups/list", "flags=no-writes", [groups];
    SET_GROUP: "groups/set", "", [set_group];
    CLEAR_GROUP: "groups/set", "flags=allow-oom", [set_group];
    REVIEW_GROUPS: "groups/review", "flags=allow-oom", [set_group];
    LIMITS: "limits/list", "flags=no-writes", [limits];
    LIMIT_KEYS: "limits/keys", "flags=no-writes", [limit_keys];
    SET_LIMIT: "limits/set", "", [set_limit];
    REMOVE_LIMIT: "limits/set", "flags=allow-oom", [set_limit];
    REVIEW_LIMIT: "limits/review", "flags=allow-oom", [set_limit];
    SHOW: "people/show", "flags=no-writes", [show];
    SCAN: "people/scan", "flags=no-writes", [scan];
    TAGGED: "people/tagged", "flags=no-writes", [scan];
    DIAGNOSE: "people/diagnose", "flags=no-writes", [diagnose];
    WATCH: "people/watch", "", [watch];
    FOLLOW: "people/follow", "", [follow];
    TRANSITIONS: "people/transitions", "flags=no-writes", [transitions];
    STORE_PROGRESS: "progress/store", "", [store_progress];
    READ_PROGRESS: "progress/read", "flags=no-writes", [progress_and_log];
    STATS: "people/stats", "flags=no-writes", [stats];
    WORKERS: "people/workers", "flags=no-writes", [workers];
    SWEEP: "audit/sweep", "flags=allow-oom", [sweep];
    FIND: "audit/find", "flags=no-writes", [audit];
    REPAIR: "audit/repair", "flags=allow-oom", [audit];
    REPORT: "history/report", "", [report];
    HISTORY: "history/history", "flags=no-writes", [history];
    FAILURES: "history/failures", "flags=no-writes", [failures];
    DUE_SCHEDULES: "schedule/due", "flags=allow-oom", [due_schedules];
    SCHEDULES: "schedule/list", "flags=no-writes", [schedules];
    SET_SCHEDULE: "schedule/set", "", [set_schedule];
    CHANGE_SCHEDULE: "schedule/set", "flags=allow-oom", [set_schedule];
    PUBLISH: "topic/publish", "", [enqueue];
    SUBSCRIBE: "topic/subscribe", "", [subscribe];
    FEED: "topic/feed", "", [turn];
    TOPIC: "topic/show", "flags=no-writes", [topic];
    TRIM_TOPIC: "topic/trim", "flags=allow-oom", [trim_topic];
    REWIND: "topic/rewind", "flags=allow-oom", [rewind];
    TYPES: "audit/types", "flags=no-writes", [];
    ASIDE: "audit/aside", "flags=allow-oom", [audit_queues];
}
