//! The safeguards that are taken out.

/// One safeguard, and how it is taken out.
pub(super) struct Mutant {
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    /// Occurs once in the file.
    /// An expression, or `if … {`, can be switched while the tests run (see `mod.rs`).
    pub(super) find: &'static str,
    pub(super) replace: &'static str,
    /// Arguments of `cargo test` for the tests of which one must fail.
    pub(super) tests: &'static [&'static str],
}

const REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::", "on_redis_by_full_scripts::"];
const SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::"];
const GROUPS_REDIS: &[&str] = &[
    "-p",
    "queue-tests",
    "--test",
    "conformance",
    "--",
    "on_redis::groups",
    "on_redis::lines",
    "on_redis::slots",
    "on_redis::drains",
    "on_redis::declared",
];
const GROUPS_SQLITE: &[&str] = &[
    "-p",
    "queue-tests",
    "--test",
    "conformance",
    "--",
    "on_sqlite_file::groups",
    "on_sqlite_file::lines",
    "on_sqlite_file::slots",
    "on_sqlite_file::drains",
    "on_sqlite_file::declared",
];
const EDITS_REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::edits"];
const EDITS_SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::edits"];
const AGING_REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::aging"];
const AGING_SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::aging"];
const WORKERS_REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::workers"];
const WORKERS_SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::workers"];
const WORKERS_CLI: &[&str] = &["-p", "queue-tests", "--test", "cli", "--", "worker_on_sqlite", "stop_on_sqlite"];
const PAUSES_REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::pauses"];
const PAUSES_SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::pauses"];
const WATCHING: &[&str] =
    &["-p", "queue-tests", "--test", "cli", "--test", "conformance", "--", "a_queue_is_as_before", "on_redis::transitions"];
const TRANSITIONS_REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::transitions"];
const TRANSITIONS_SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::transitions"];
const SEARCHES_REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::searches"];
const SEARCHES_SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::searches"];
const TAGS_REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::tags"];
const TAGS_SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::tags"];
const TAGS: &[&str] = &["-p", "queue-tests", "--test", "features", "--", "tags::"];
const SEARCHES: &[&str] = &["-p", "queue-tests", "--test", "stored", "--", "searches::"];
const GROUPS: &[&str] = &["-p", "queue-tests", "--test", "features", "--", "groups::"];
const LIMITS_REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::limits", "on_redis::rates"];
const LIMITS_SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::limits", "on_sqlite_file::rates"];
const RECORDS_REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::records"];
const RECORDS_SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::records"];
const GROUPS_CLI: &[&str] = &["-p", "queue-tests", "--test", "cli", "--", "groups_cli::"];
const LIMITS: &[&str] = &["-p", "queue-tests", "--test", "features", "--", "limits::"];
const TOPICS_REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::topics"];
const TOPICS_SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::topics"];
const RETAINED_REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::retained"];
const RETAINED_SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::retained"];
const REWINDS_REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::rewinds"];
const REWINDS_SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::rewinds"];
const OPERATIONS_REDIS: &[&str] =
    &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::operations", "on_redis::walks", "on_redis::drained"];
const OPERATIONS_SQLITE: &[&str] =
    &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::operations", "on_sqlite_file::walks", "on_sqlite_file::drained"];
const OPERATIONS_CLI: &[&str] = &["-p", "queue-tests", "--test", "cli", "--", "operations_cli::"];
const TOPICS: &[&str] = &["-p", "queue-tests", "--test", "features", "--", "topics::"];
const TICKS_REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::schedules"];
const TICKS_SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::schedules"];
const SCHEDULES: &[&str] = &[
    "-p",
    "queue-tests",
    "--test",
    "features",
    "--",
    "audit_on_redis_finds_a_run",
    "each_tick_makes_one_job_however_many_die::on_redis",
    "people_run_and_backfill_a_paused_schedule::on_redis",
    "a_next_tick_that_lies_too_far_ahead_is_brought_back::on_redis",
];
const SQLITE_SCHEDULES: &[&str] = &[
    "-p",
    "queue-tests",
    "--test",
    "features",
    "--",
    "audit_on_sqlite_finds_a_run",
    "each_tick_makes_one_job_however_many_die::on_sqlite",
    "people_run_and_backfill_a_paused_schedule::on_sqlite",
    "a_next_tick_that_lies_too_far_ahead_is_brought_back::on_sqlite",
];
const REDIS_FAULTS: &[&str] = &["-p", "queue-tests", "--test", "servers", "--", "redis_faults::on_redis"];
const REDIS_NOTES: &[&str] = &["-p", "queue-tests", "--test", "servers", "--", "redis_notes::on_redis"];
const SENTINELS: &[&str] = &["-p", "queue-tests", "--test", "servers", "--", "sentinel_faults::on_redis"];
const CLUSTER: &[&str] = &["-p", "queue-tests", "--test", "servers", "--", "cluster_faults::on_redis"];
const CLIENT: &[&str] = &["-p", "queue-tests", "--test", "servers", "--", "client_faults::"];
const ENQUEUES: &[&str] = &["-p", "queue-tests", "--test", "features", "--", "enqueue_middleware::"];
const OBSERVED: &[&str] = &["-p", "queue-tests", "--test", "features", "--", "observed::"];
const RUNTIMES: &[&str] = &["-p", "queue-tests", "--test", "features", "--", "any_runtime::"];
const OUTAGES: &[&str] = &["-p", "queue-tests", "--test", "outages", "--", "worker_outages::"];
const LOG_LINES: &[&str] = &["-p", "queue-tests", "--test", "log_lines"];
const HELD: &[&str] = &["-p", "queue-tests", "--test", "outages", "--", "held_jobs::on_redis"];
const WORKER: &[&str] = &["-p", "queue-worker", "--tests"];
const DISK: &[&str] = &["-p", "queue-tests", "--test", "outages", "--", "full_disk::"];
const CORE: &[&str] = &["-p", "queue-core", "--lib", "--all-features"];
const DECODERS: &[&str] = &["-p", "queue-tests", "--test", "stored", "--", "decoders::"];
const AUDITOR: &[&str] = &["-p", "queue-tests", "--test", "stored", "--", "auditor::on_redis"];
const CORRUPT: &[&str] = &["-p", "queue-tests", "--test", "corrupt", "--", "on_redis_no"];
const LATE: &[&str] = &["-p", "queue-tests", "--test", "corrupt", "--", "late::on_redis"];
const ENCODINGS: &[&str] = &["-p", "queue-tests", "--test", "stored", "--", "encodings::on_redis"];
const ANNOUNCED: &[&str] = &["-p", "queue-tests", "--test", "servers", "--", "announcements::on_redis"];
const LOST: &[&str] = &["-p", "queue-tests", "--test", "stored", "--", "lost_jobs::", "--skip", "on_valkey"];
const ROWS: &[&str] = &["-p", "queue-tests", "--test", "corrupt", "--", "sqlite"];
const FILES: &[&str] = &["-p", "queue-core", "--test", "library", "--", "sqlite_files::"];
const LOST_FILES: &[&str] = &["-p", "queue-core", "--test", "library", "--", "sqlite_lost_files::"];
const PLACES: &[&str] = &["-p", "queue-tests", "--test", "outages", "--", "places::"];
const POWER: &[&str] = &["-p", "queue-faults", "--test", "rows", "--", "on_sqlite_a_power_cut"];
const TYPES: &[&str] = &["-p", "queue-tests", "--test", "stored", "--", "other_types::on_redis"];
const KEYS: &[&str] = &["-p", "queue-tests", "--test", "stored", "--", "keys::on_redis"];
const WATCHED: &[&str] = &["-p", "queue-tests", "--test", "features", "--", "watched::on_redis"];
const SQLITE_WATCHED: &[&str] = &["-p", "queue-tests", "--test", "features", "--", "watched::", "--skip", "watched::on_"];
const REMARKS: &[&str] = &["-p", "queue-tests", "--test", "features", "--", "remarks::"];
const FAILED_REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::failures"];
const FAILED_SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::failures"];
const DASHBOARD: &[&str] = &["-p", "queue-dashboard", "--test", "dashboard", "--", "failures_that_are_alike"];
const ACCESS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "a_password_in_a_file"];

macro_rules! mutants {
    ($($tests:ident $file:literal { $($name:literal: $find:literal => $replace:literal;)* })*) => {
        pub(super) const MUTANTS: &[Mutant] = &[
            $($(Mutant { name: $name, file: $file, find: $find, replace: $replace, tests: $tests },)*)*
        ];
    };
}

/// Those whose text is no expression: each is built alone.
pub(super) const BUILT_ALONE: &[&str] = &[
    "sqlite: what is acknowledged is on disk",
    "sqlite: a log without its database is kept",
    "worker: a panic is contained",
    "worker: an unanswered turn is sent again",
    "sqlite ask: an older request changes nothing",
    "watching: on SQLite each change is told",
    "topics: on SQLite no type is forgotten",
    "rewinds: on SQLite another one takes over",
    "rewinds: on SQLite half of one reads nothing",
    "operations: who goes from retry to scheduled is met",
    "sqlite scan: a step through all jobs ends with a mebibyte",
];

mutants! {
    REDIS "queue-core/src/redis/turn/turn.lua" {
        "turn: a lane must be known": "if not last or seq > last + 1 then" => "if seq > last + 1 then";
        "turn: a skipped sequence is refused": "if not last or seq > last + 1 then" => "if not last then";
        "turn: an old sequence is refused": "elseif seq < last then" => "elseif false then";
        "turn: a replay is recognised": "if seq == last then" => "if false then";
        "turn: claim numbers grow": "math.max(last_number < FOREVER / 4 and last_number + 1 or 0, now)" => "1";
        "turn: a lease is renewed": "call('ZADD', K.leases, ms(now + ARGV[3]), lane)" => "";
    }
    REDIS_NOTES "queue-core/src/redis/turn/turn.lua" {
        "turn: a claim takes so many large jobs": "math.min(wanted, 64)" => "wanted";
    }
    REDIS "queue-core/src/redis/turn/turn_plain.lua" {
        "plain turn: it is for the next turn": "string.match(entry, '^%d+') or '') ~= seq - 1 then" => "string.match(entry, '^%d+') or '') == nil then";
        "plain turn: it is for queues without rare features": " or string.find(bits, C.not_plain_turn)" => "";
        "plain turn: it waits for no job": "if due <= now or not bits" => "if not bits";
        "plain turn: an ack needs its tag": "if active[at] ~= tag then" => "if false then";
        "plain turn: that there is more is told": "local waits = #ids > n and 1 or 0" => "local waits = 0";
        "plain turn: an answer is bounded in bytes": "if bytes > C.max_bytes and at > 1 then" => "if false then";
        "plain turn: attempts are told": "attempts = failed and call('HMGET', K.attempts, unpack(ids)) or nil" => "attempts = nil";
        "plain turn: attempts go with their job": "    call('HDEL', K.attempts, unpack(acked))\n" => "";
        "plain turn: a given id that is done is remembered for a while": "if #given > 0 then" => "if false then";
        "plain turn: the last claim number is stored": "  call('HSET', K.meta, 'claim', number)\n" => "";
    }
    AUDITOR "queue-core/src/redis/turn/turn_plain.lua" {
        "plain turn: what runs is not handed out": "if active[done + at] or not body" => "if not body";
        "plain turn: what has no envelope is not handed out": "not body or body == '' or not is_id(id)" => "not is_id(id)";
        "plain turn: an id that is there twice is handed out once": "if doubled > 0 then" => "if false then";
    }
    REDIS_NOTES "queue-core/src/redis/turn/turn_plain.lua" {
        "plain turn: a claim takes so many large jobs": "math.min(ARGV[4], 64)" => "tonumber(ARGV[4])";
        "plain turn: unreadable bits are all of them": "not bits or string.find(bits, C.not_plain_turn)" => "bits and string.find(bits, C.not_plain_turn)";
    }
    REDIS_FAULTS "queue-core/src/redis/turn/turn_plain.lua" {
        "plain turn: a newer schema is left alone": " or head[1] and head[1] ~= C.schema then" => " then";
    }
    REDIS "queue-core/src/redis/turn/acks.lua" {
        "turn: an ack needs its tag": "if tags[at] == tag then" => "if true then";
        "turn: what is kept is of the jobs that are the lane's": "places = places }" => "places = nil }";
        "turn: what is not kept is gone": "if keep_ms ~= '' then" => "if true then";
        "turn: what is kept is there": "if keep_ms ~= '' then" => "if false then";
    }
    REDIS "queue-core/src/redis/turn/finish.lua" {
        "turn: kept jobs are trimmed": "trim_ended(2 * (#acked - #gone), tonumber(ARGV[5]), tonumber(ARGV[6]))" => "local _ = 0";
    }
    REDIS "queue-core/src/redis/turn/others.lua" {
        "turn: another ending needs its tag": "if call('HGET', K.active, id) ~= lane .. ':' .. claim then" => "if false then";
        "turn: a finished round clears the crashes": "if has('c') and ran then" => "if false then";
        "turn: a job that was read is offered to all again": "if has('a') and ran then" => "if false then";
    }
    REDIS "queue-core/src/redis/turn/claim.lua" {
        "turn: a paused queue gives nothing out": "if not paused and wanted > 0 then" => "if wanted > 0 then";
        "turn: a suspect that was cancelled takes the turn of no other": "if passed == 0 or #ids > before then" => "if true then";
        "turn: who may have no suspect gets none": "local may_suspect = ARGV[7] == '1'" => "local may_suspect = true";
    }
    REDIS "queue-core/src/redis/turn/claim_parked.lua" {
        "turn: one suspect at a time": "may_suspect = may_suspect and not crashes[at]" => "may_suspect = true";
    }
    REDIS_NOTES "queue-core/src/redis/turn/claim.lua" {
        "turn: a paused queue promotes nothing": "  if not paused then\n    promoted" => "  if true then\n    promoted";
    }
    REDIS "queue-core/src/redis/turn/claim.lua" {
        "turn: a list is not empty for what was left out": "drained = passed == #found" => "drained = true";
    }
    REDIS "queue-core/src/redis/turn/waits.lua" {
        "turn: that suspects wait is told": "2 * call('EXISTS', K.suspect)" => "0";
        "turn: that there is more is told": "more = call('EXISTS', K.ready2)" => "more = 0";
    }
    REDIS "queue-core/src/redis/turn/replay.lua" {
        "turn: a replay voids what was taken away": "if tags[at] ~= lane .. ':' .. claim then" => "if false then";
    }
    REDIS "queue-core/src/redis/doors/admit.lua" {
        "admit: an answer is bounded in bytes": "if bytes > 0 and bytes + size > max_bytes then" => "if false then";
        "admit: a single larger envelope travels alone": "if bytes > 0 and bytes + size > max_bytes then" => "if bytes + size > max_bytes then";
        "admit: tombs are dropped": "elseif is_tomb and is_tomb[at] then" => "elseif false then";
        "admit: no more than was asked for": "if n >= wanted then" => "if false then";
        "admit: attempts are told": "    attempts = call('HMGET', K.attempts, unpack(ids))" => "    attempts = {}";
        "admit: the last claim number is stored": "call('HSET', K.meta, 'claim', claim)" => "";
    }
    LOST "queue-core/src/redis/doors/admit.lua" {
        "admit: a tomb is of one list": "tombs[at] = id .. list" => "tombs[at] = id .. 2";
    }
    AUDITOR "queue-core/src/redis/doors/admit.lua" {
        "admit: what runs is not handed out": "local twice = running[at] or ended" => "local twice = ended";
        "admit: what is kept is not handed out": "local twice = running[at] or ended and ended[at]" => "local twice = running[at]";
        "admit: no answer is empty that need not be": "if bytes > 0 and bytes + size > max_bytes then" => "if at > 1 and bytes + size > max_bytes then";
        "admit: an id that is there twice is handed out once": "if put_all(K.active, pairs_) < #ids then" => "put_all(K.active, pairs_)\n    if false then";
        "admit: what has no envelope is not handed out": "if not bodies[at] or bodies[at] == '' or not is_id(ids[at]) then" => "if false then";
        "admit: what has no envelope leaves nothing": "end_gone(broken)" => "";
    }
    REDIS "queue-core/src/redis/doors/settle.lua" {
        "settle: a job that has ended is active no more": "call('HDEL', K.active, unpack(ids))" => "local _ = ids";
    }
    REDIS "queue-core/src/redis/doors/end.lua" {
        "end: a given id that is done is remembered for a while": "if #given > 0 then" => "if false then";
        "end: attempts go with their job": "    many('HDEL', K.attempts, ids)\n" => "";
        "end: errors go with their job": "    many('HDEL', K.errors, ids)\n" => "";
        "end: snoozes go with their job": "    many('HDEL', K.snoozes, ids)\n" => "";
        "end: releases go with their job": "    many('HDEL', K.released, ids)\n" => "";
        "kept: a job counts with its own size": "(one_size or sizes[place] or 0)" => "(one_size or sizes[i] or 0)";
        "kept: a result stays with its job": "local result = results[place] or" => "local result = results[i] or";
        "kept: a result counts": "(one_size or sizes[place] or 0) + #result" => "(one_size or sizes[place] or 0)";
        "kept: what is known of a job goes along": "record[name] = values[i] or nil" => "local _ = 0";
        "kept: what differs has a record of its own": "differs = differs or values[i]" => "differs = result ~= ''";
        "kept: an id that may come again has its time beside it": "if string.byte(id) >= 48 or state ~= 'done' then" => "if false then";
        "kept: a line of an earlier job takes nothing along": "if record and record.u == upto and not gone[id] then" => "if record and not gone[id] then";
    }
    REDIS "queue-core/src/redis/people/cancelling.lua" {
        "cancel: the reason stays with the job": "  unwait(id)\n  end_unrun(id, 'cancelled', reason)" => "  unwait(id)\n  end_unrun(id, 'cancelled')";
    }
    SEARCHES_REDIS "queue-core/src/redis/people/scan.lua" {
        "scan: members of one score are told apart": "return a > b" => "return a < b";
    }
    SEARCHES_REDIS "queue-core/src/redis/people/scan.rs" {
        "scan: a list goes on behind the last element": "found.map(|at| at + 1)" => "found.map(|at| at)";
        "scan: a list from which the last element has gone is read from its head": "(from == 0).then_some(0)" => "None::<usize>";
        "scan: one that came back is another place": "last.before.as_deref() == Some(before)" => "true";
        "scan: a list goes on behind the window": "next.is_none() && window.len() as u64 == n" => "false";
        "scan: a hash goes on behind the last id": "last.is_none_or(|last| *id > last.element)" => "true";
    }
    SEARCHES_SQLITE "queue-core/src/sqlite/people/scan.sql" {
        "sqlite scan: a state goes on behind the last job": "(rank, pos, id) > (?3, ?4, ?5)" => "(rank, pos, id) >= (?3, ?4, ?5)";
    }
    SEARCHES_SQLITE "queue-core/src/inspector/search.rs" {
        "search: a page ends with the last job that has a place": "(jobs.len() > room).then(|| places[room - 1])" => "None::<usize>";
        "search: a cursor is of one filter": "if at.filter != check(&self.filter) {" => "if false {";
        "search: a cursor is of the queues that were named": "queues != check_queues(&self.queues)" => "false";
    }
    SEARCHES "queue-core/src/inspector/search.rs" {
        "search: why jobs wait is asked of those that match all else": "self.filter.matches_but_why(job, now)" => "true";
        "search: few queues are asked at once": "Semaphore::new(ASKED_AT_ONCE)" => "Semaphore::new(1000)";
        "search: queues that cannot be read are named after an error": "self.unreadable = unreadable" => "drop(unreadable)";
    }
    TAGS_REDIS "queue-core/src/redis/doors/end.lua" {
        "tags: they go with a job of which nothing is left": "drop_tags(ids)" => "local _ = 0";
        "tags: they go with a kept job": "drop_tags(gone)" => "local _ = 0";
    }
    TAGS_REDIS "queue-core/src/redis/doors/tags.lua" {
        "tags: those of an envelope that is replaced go": "drop_tags({ id })" => "local _ = 0";
        "tags: those of the envelope that replaces it come": "add_tags({ id, envelope })" => "local _ = 0";
        "tags: jobs that are stored together have theirs": "put_all(K.jobs, pairs_)\n  add_tags(pairs_)" => "put_all(K.jobs, pairs_)";
    }
    TAGS_REDIS "queue-core/src/redis/topic/event.lua" {
        "tags: those of an event are in the index": "may_have_tags or not unknown_to_a_lane('i')" => "false";
    }
    OPERATIONS_REDIS "queue-core/src/redis/people/tagged.lua" {
        "operations: by a tag a walk begins anew on another server": " or alive ~= (ARGV[5] or '')" => "";
    }
    TAGS_REDIS "queue-core/src/redis/people/tagged.lua" {
        "tags: a scan goes on behind the last id": "'(' .. digest .. ARGV[4]" => "'[' .. digest .. ARGV[4]";
    }
    TAGS "queue-core/src/redis/audit/audit.lua" {
        "tags: the audit sees an entry without its job": "not is_right or tonumber(score) ~= 0" => "tonumber(score) ~= 0";
        "tags: the audit sees a tag that the job does not have": "what == 'tags' or is_member(id, ARGV[i])" => "true";
        "tags: the audit sees a tag that is missing": "misses or not call('ZSCORE', K.tags, member)" => "misses";
    }
    TAGS "queue-core/src/redis/doors/tags.lua" {
        "tags: large envelopes are read some at a time": "has('l') and 16 or PIECE" => "PIECE";
    }
    TAGS "queue-core/src/redis/people/scan.rs" {
        "tags: the job is asked whether it has the tag": "is_tagged(&job.envelope, name, value)" => "true";
    }
    TAGS_SQLITE "queue-core/src/sqlite/doors/tags.rs" {
        "sqlite tags: they go with the job": "tx.sql(sql!(\"tags_gone.sql\"))?.execute([])?" => "0";
        "sqlite tags: they go with the envelope": "tx.sql(sql!(\"tags_changed.sql\"))?.execute([])?" => "0";
    }
    TAGS_SQLITE "queue-core/src/sqlite/people/tagged.sql" {
        "sqlite tags: a scan goes on behind the last id": "id > ?3" => "id >= ?3";
    }
    TAGS "queue-core/src/sqlite/audit/tags.rs" {
        "sqlite tags: the audit sees a tag that the job does not have": "leaked.append(&mut strange(tx, queue)?)" => "()";
        "sqlite tags: the audit sees a tag that is missing": "!known.exists(params![queue.key, digest, id])?" => "false";
    }
    SQLITE "queue-core/src/sqlite/doors/page.rs" {
        "sqlite page: jobs of one time are told apart": "if *last == time { ties + here } else { here }" => "here";
    }
    REDIS "queue-core/src/redis/doors/back.lua" {
        "errors: the oldest go first": "while #failures > 10 do" => "while false do";
        "back: a parked job sets its bit": "mark('a')\n  end_ticks" => "end_ticks";
        "back: the time of an unreadable job counts from the first": "call('ZSCORE', K.unreadable, id) or now + within" => "now + within";
        "back: no job is offered to releases without end": "#releases > C.releases and now or until_ms" => "until_ms";
    }
    REDIS "queue-core/src/redis/doors/ready.lua" {
        "ready: who lies in the list already is not pushed": "return call('HDEL', K.tomb, id .. list) == 1" => "return call('HDEL', K.tomb, id .. list) == 2";
        "ready: a ready job that goes gets a tomb": "      entomb(id)\n" => "";
        "ready: a release that has failed on a job is not offered it again": "if not string.find(name .. '\\1', '\\1' .. release .. '\\1', 1, true) then" => "if true then";
        "ready: nothing starts early": "call('ZRANGEBYSCORE', key, '-inf', ms(now)," => "call('ZRANGEBYSCORE', key, '-inf', '+inf',";
        "ready: what is due is moved in bounded steps": "'LIMIT', 0, C.due_items)" => "'LIMIT', 0, 100000)";
        "ready: what waits for its time is noted": "  due_by(first)\n" => "";
        "ready: of what waits the first counts": "first = math.min(first, tonumber(pairs_[i]))" => "first = tonumber(pairs_[i])";
    }
    CORRUPT "queue-core/src/redis/doors/ready.lua" {
        "other hands: a priority that is none is normal": "list and list <= 3 and LISTS[list] and list or 2" => "list";
    }
    REDIS_NOTES "queue-core/src/redis/script/rare.lua" {
        "bits: who writes a rare key sets its bit": "  mark(bit)\n" => "";
    }
    REDIS_NOTES "queue-core/src/redis/script/bits.lua" {
        "bits: a feature that is not known is refused": "if unknown then" => "if false then";
        "bits: unreadable ones are all of them": "head[2] and string.match(head[2], '^%l*$')" => "head[2]";
    }
    REDIS_FAULTS "queue-core/src/redis/script/bits.lua" {
        "bits: a newer schema is left alone": "if head[1] and head[1] ~= C.schema then" => "if false then";
    }
    CORRUPT "queue-core/src/redis/script/bits.lua" {
        "other hands: no reply repeats what they wrote": "(string.match(head[1], '^%d+$') or 'unknown')" => "head[1]";
    }
    REDIS_NOTES "queue-core/src/redis/script/guard.lua" {
        "bits: a lane that is no more holds nobody up": " and call('HEXISTS', K.lanes, known[at]) == 1 then" => " then";
        "bits: one that a lane does not know is not set": "if not string.find(known[at + 1], bit, 1, true) and" => "if false and";
    }
    REDIS_NOTES "queue-core/src/redis/script/recount_bits.lua" {
        "bits: a pause is seen": "if told[1] == '1' then" => "if false then";
        "bits: failures are seen": "  add('f', K.attempts, K.errors)\n" => "";
        "bits: other priorities are seen": "    add('p', K.priority, K.ready0, K.ready1, K.ready3, K.rising, K.risen)\n" => "";
        "bits: what is gone has no bit": "needed = call('EXISTS', ...) > 0 and needed .. bit or needed" => "needed = needed .. bit";
    }
    REDIS "queue-core/src/redis/people/pause.lua" {
        "pause: it sets its bit": "mark('h')" => "";
    }
    REDIS "queue-core/src/redis/people/cancelling.lua" {
        "cancel: a worker hears of it": "if #gone < 500 then" => "if false then";
        "cancel: an active job is taken away": "    settle({ id })\n" => "";
    }
    LATE "queue-core/src/redis/people/cancelling.lua" {
        "cancel: what a worker hears is bounded": "if #gone < 500 then" => "if true then";
    }
    EDITS_REDIS "queue-core/src/redis/people/edit.lua" {
        "edit: what has ended stays": "if state == 'active' or state == 'dead' or call('HEXISTS', K.records, id) == 1 then" => "if state == 'active' then";
        "edit: what runs stays": "if state == 'active' or state == 'dead' or" => "if state == 'dead' or";
        "edit: what is wanted is no conflict": "if not (retimes or rekeys or regroups) and body == job[2] and priority == job[3] then" => "if false then";
        "edit: other parameters are seen": "if job[2] ~= seen_body or job[3]" => "if job[3]";
        "edit: another priority is seen": "job[3] ~= seen_priority or" => "";
        "edit: another group is seen": "own_group ~= seen_group or" => "";
        "edit: another time is seen": " or not is_time_seen then" => " then";
        "edit: what has become due is as it was": "own_at == seen_at or own_at == '' and is_over(seen_at)" => "own_at == seen_at";
        "edit: a key that another job holds is not taken": "if other and other ~= id then" => "if false then";
        "edit: a full group takes none": "if most and depth_of(group) >= most then" => "if false then";
        "edit: it leaves its place": "  unwait(id)\n" => "";
        "edit: a place is kept": "state == 'ready' and (priority ~= job[3] or regroups)" => "state == 'ready'";
        "edit: who reads other parameters": "or state == 'parked' and is_new == '1'" => "";
        "edit: what could not be read is forgotten": "    forget_unreadable({ id })\n" => "";
        "edit: a held job has another time": "elseif retimes then" => "elseif false then";
        "edit: the digest is computed anew": "  call('HSET', K.given, id, digest)\n" => "";
        "edit: a retry stays one": "if state == 'retry' and time > now then" => "if false then";
    }
    EDITS_REDIS "queue-core/src/redis/doors/edit.lua" {
        "edit: the line of an ordered group is freed": "    leave_groups({ id }, false)\n" => "";
        "edit: the old key is given back": "  if stored == id then\n    free_key(own)\n  end\n" => "";
        "edit: a key that is held for a time goes along": "      put_rare('u', K.unique, key, '@' .. upto .. ':' .. term .. ':' .. id)\n" => "";
    }
    EDITS_SQLITE "queue-core/src/sqlite/doors/edit.rs" {
        "sqlite edit: what runs or has ended stays": "if state == JobState::Active || state.is_final() {" => "if false {";
        "sqlite edit: it is compared with what was seen": "if !is_seen(&own, &request.seen) || !request.is_time_seen(own.at, tx.now) {" => "if false {";
        "sqlite edit: a full group takes none": "if request.group != own.group && groups::is_full(tx, queue, &wanted)? {" => "if false {";
        "sqlite edit: the old chain is left": "        groups::review_of(tx, queue, id)?;\n" => "";
        "sqlite edit: a retry stays one": "if own.state == RETRY { RETRY } else { SCHEDULED }" => "SCHEDULED";
        "sqlite edit: what could not be read is forgotten": "if own.state == PARKED {" => "if false {";
    }
    REDIS "queue-core/src/redis/people/promoting.lua" {
        "promote: what waits for no time stays": "if call('ZSCORE', K.scheduled, id) or call('ZSCORE', K.retry, id) then" => "if call('HEXISTS', K.jobs, id) == 1 then";
        "promote: it leaves its place": "    unwait(id)\n" => "";
        "promote: who waits hears of it": "if back(early, false) then" => "back(early, false)\nif false then";
    }
    REDIS "queue-core/src/redis/people/remove.lua" {
        "delete: an active job stays": "or call('HEXISTS', K.active, id) == 1 then" => "then";
    }
    REDIS "queue-core/src/redis/enqueue/kinds.lua" {
        "enqueue: a given id exists once": "if known then\n    return known == digest" => "if false then\n    return known == digest";
        "enqueue: another payload is a conflict": "known == digest and 1 or 2" => "1";
        "enqueue: what is due later waits": "if at > now then" => "if false then";
        "enqueue: a priority of many sets its bit": "if list ~= 2 then\n      mark('p')" => "if list ~= 2 then";
        "enqueue: a large job sets its bit": "  mark('l')\n" => "";
    }
    LATE "queue-core/src/redis/enqueue/kinds.lua" {
        "other hands: a lost digest makes no second job": "if not known and not record and call" => "if false and call";
    }
    REDIS "queue-core/src/redis/enqueue/enqueue_plain.lua" {
        "plain enqueue: a large job has its bit": "ARGV[3] ~= '' and not string.find(bits, ARGV[3], 1, true)" => "false";
    }
    REDIS_FAULTS "queue-core/src/redis/script/mod.rs" {
        "full: endings work on a full server": "format!(\"#!lua {flags}\\nlocal KEYS = KEYS\\n{text}\")" => "format!(\"#!lua {}\\nlocal KEYS = KEYS\\n{text}\", if name == \"turn/turn\" { \"\" } else { flags })";
        "full: plain turns work on a full server": "format!(\"#!lua {flags}\\nlocal KEYS = KEYS\\n{text}\")" => "format!(\"#!lua {}\\nlocal KEYS = KEYS\\n{text}\", if name == \"turn/turn_plain\" { \"\" } else { flags })";
        "full: beats work on a full server": "format!(\"#!lua {flags}\\nlocal KEYS = KEYS\\n{text}\")" => "format!(\"#!lua {}\\nlocal KEYS = KEYS\\n{text}\", if name == \"lease/extend\" { \"\" } else { flags })";
    }
    REDIS "queue-core/src/redis/enqueue/sequence.lua" {
        "enqueue: a replay is recognised": "elseif last - seq == 0 then" => "elseif false then";
        "enqueue: a replay has the answers of then": "return ids and { stored, unpack(ids) } or stored ~= '' and stored or false" => "return false";
        "enqueue: an old sequence is refused": "elseif last - seq > 0 or" => "elseif";
        "enqueue: a producer must be known": "  return redis.error_reply('FORGOTTEN ' .. ARGV[1])" => "  last = 0";
    }
    REDIS "queue-core/src/redis/lease/extend.lua" {
        "extend: a lane must be known": "if not entry or tonumber" => "if entry and tonumber";
        "extend: lost turns are noticed": "tonumber(string.match(entry, '^%d+') or -1) < tonumber(ARGV[2])" => "false";
        "extend: a worker hears what it is asked": "if type(asked) == 'string' then" => "if false then";
    }
    WORKERS_REDIS "queue-core/src/redis/people/ask_worker.lua" {
        "ask: a worker that has said nothing is not asked": "if call('HEXISTS', K.loads, ARGV[1]) == 0 then" => "if false then";
        "ask: an older request changes nothing": "whole(known[2] or '') >= tonumber(ARGV[2])" => "false";
        "ask: the same request is stored again": "if stored ~= ARGV[3] and known" => "if known";
    }
    WORKERS_REDIS "queue-core/src/redis/lease/deregister.lua" {
        "deregister: what a worker uses goes with it": "call('HDEL', K.loads, worker_of(lane))" => "call('HDEL', K.loads, '')";
        "deregister: what it was asked goes with it": "call('HDEL', K.asked, worker_of(lane))" => "call('HDEL', K.asked, '')";
    }
    WORKERS_SQLITE "queue-core/src/sqlite/people/workers.rs" {
        "sqlite ask: an older request changes nothing": "AND (number < ?3 OR asked = ?4)" => "AND ?3 NOT NULL";
    }
    WORKERS_SQLITE "queue-core/src/sqlite/lease/deregister_load.sql" {
        "sqlite deregister: what a worker uses goes with its last lane alone": "AND NOT fenced)" => "AND fenced AND lane = 0)";
    }
    WORKERS_CLI "queue-worker/src/pump/turns.rs" {
        "worker: a quiet worker claims nothing": "self.mode() == WorkerMode::Works" => "self.stopping.is_none()";
    }
    WORKERS_CLI "queue-worker/src/pump/stop.rs" {
        "worker: it stops when it is asked to": "self.mode != WorkerMode::Stops" => "true";
    }
    WORKERS_CLI "queue-core/src/inspector/why.rs" {
        "why: a job waits for quiet workers": "up().all(|worker| worker.mode() != WorkerMode::Works)" => "false";
    }
    SQLITE "queue-core/src/inspector/why.rs" {
        "why: groups are counted page by page": "page.next.is_none() || looked >= ready" => "true";
    }
    REDIS "queue-core/src/redis/lease/fence.lua" {
        "fence: only the lease that was seen": "whole(deadline) == tonumber(ARGV[i + 1])" => "true";
        "fence: a lease that ends too late is over": " or is_ahead(ARGV[i], deadline)" => "";
        "fence: a lane that is named twice is fenced once": "not fenced[ARGV[i]] and call('ZSCORE', K.leases, ARGV[i])" => "call('ZSCORE', K.leases, ARGV[i])";
    }
    REDIS "queue-core/src/redis/lease/deregister.lua" {
        "fence: the lane is forgotten": "HDEL = { K.lanes, K.gone, K.knows }" => "HDEL = { K.gone, K.knows }";
        "workers: a record goes with the last lane": "call('HDEL', K.workers, worker_of(lane))" => "";
        "workers: a record stays with another lane": "if not stay[worker_of(lane)] then" => "if true then";
    }
    REDIS "queue-core/src/redis/lease/register.lua" {
        "workers: a second lane changes no record": "if call('HEXISTS', K.workers, ARGV[1]) == 0 then" => "if true then";
    }
    REDIS "queue-core/src/redis/people/stats.lua" {
        "workers: a worker with two lanes counts once": "seen[worker] and workers or workers + 1" => "workers + 1";
    }
    AUDITOR "queue-core/src/redis/audit/audit.lua" {
        "audit: a record with a lane is no damage": "not stay[ARGV[i]] and stored > 0" => "stored > 0";
        "audit: only a record that was seen to be damaged is replaced": "(call('HGET', K.workers, worker) or '') == ARGV[i + 1]" => "false";
    }
    CORE "queue-core/src/outcome.rs" {
        "results: the reason in place of a result is no result": "!reason.is_empty()" => "false";
    }
    WATCHED "queue-core/src/client/handle.rs" {
        "results: who waits for a dropped result is told": "stored_result(bytes.unwrap_or(NIL))" => "Ok::<_, String>(bytes.unwrap_or(NIL))";
        "results: a type of one value may have content": "size_of::<T>() > 0 || codec::decode::<T>(NIL).is_err()" => "size_of::<T>() > 0";
    }
    CORE "queue-core/src/broker/worker.rs" {
        "workers: the number of tasks in a record is bounded": "names.len() < TASKS_MAX && bytes <= TASKS_BYTES" => "true";
        "workers: a record of a newer library is not damaged": "u64::from(*version) > VERSION" => "false";
        "workers: one that has stopped was heard of then": "load.map_or(Duration::MAX, |load| load.age)" => "Duration::MAX";
    }
    SQLITE "queue-core/src/sqlite/lease/deregister.sql" {
        "sqlite workers: a record stays with another lane": "AND name BETWEEN ?2 || '.' AND ?2 || '/' AND process = ?2 AND NOT fenced" => "AND 0";
    }
    SQLITE "queue-core/src/sqlite/lease/fence.rs" {
        "sqlite workers: a record goes with the last lane": "if fenced == 1 {" => "if false {";
    }
    SQLITE "queue-core/src/sqlite/lease/register_worker.sql" {
        "sqlite workers: a second lane changes no record": "INSERT OR IGNORE" => "INSERT OR REPLACE";
    }
    REDIS "queue-core/src/redis/lease/overdue.lua" {
        "overdue: a lease that ends too late is one": "    if term then" => "    if false then";
    }
    REDIS_FAULTS "queue-core/src/redis/connection/link.rs" {
        "link: a silent connection is given up": "if is_dead {" => "if false {";
    }
    SENTINELS "queue-core/src/redis/connection/sentinel.rs" {
        "sentinel: connections to the old master are dropped": "self.master.endpoint.move_to(master.clone())" => "false";
    }
    CLUSTER "queue-core/src/redis/connection/refusal.rs" {
        "cluster: a slot that is moving is waited for": "matches!(self.code(), Some(\"READONLY\" | \"LOADING\" | \"MASTERDOWN\" | \"CLUSTERDOWN\" | \"TRYAGAIN\" | \"BUSY\"))" => "matches!(self.code(), Some(\"READONLY\" | \"LOADING\" | \"MASTERDOWN\" | \"CLUSTERDOWN\" | \"BUSY\"))";
    }
    CLUSTER "queue-core/src/redis/connection/cluster.rs" {
        "cluster: a redirection is followed": "error.redirect_node()?" => "error.redirect_node().filter(|_| false)?";
    }
    ACCESS "queue-core/src/redis/connection/url.rs" {
        "access: a password file is read again": "settings.set_password(password(file)?)" => "{ static ONCE: std::sync::OnceLock<String> = std::sync::OnceLock::new(); settings.set_password(ONCE.get_or_init(|| password(file).unwrap_or_default()).clone()) }";
    }
    SQLITE "queue-core/src/sqlite/turn/mod.rs" {
        "sqlite turn: an old sequence is refused": "if turn.seq < last {" => "if false {";
        "sqlite turn: a skipped sequence is refused": "if turn.seq - last > 1 {" => "if false {";
        "sqlite turn: a replay is recognised": "if turn.seq == last {" => "if false {";
        "sqlite turn: claim numbers grow": "tx.now.max(queue.last_claim() + 1)" => "1";
    }
    SQLITE "queue-core/src/sqlite/turn/lane.sql" {
        "sqlite turn: a fenced lane is unknown": "AND NOT fenced" => "";
    }
    SQLITE "queue-core/src/sqlite/doors/end_acked.sql" {
        "sqlite end: an ack needs its tag": "AND state = ?3 AND rank = ?4 AND pos = ?5" => "AND ?3 + ?4 + ?5 NOT NULL";
    }
    SQLITE "queue-core/src/sqlite/doors/settle_holder.sql" {
        "sqlite settle: another ending needs its tag": "AND state = ?3 AND rank = ?4 AND pos = ?5" => "AND ?3 + ?4 + ?5 NOT NULL";
    }
    SQLITE "queue-core/src/sqlite/enqueue/mod.rs" {
        "sqlite enqueue: a replay is recognised": "if request.seq == last {" => "if false {";
        "sqlite enqueue: an old sequence is refused": "request.seq < last" => "false";
        "sqlite enqueue: another payload is a conflict": "digest == job.digest.cast_signed()" => "true";
    }
    SQLITE "queue-core/src/sqlite/lease/extend.sql" {
        "sqlite extend: lost turns are noticed": "AND seq >= ?3" => "AND ?3 NOT NULL";
    }
    SQLITE "queue-core/src/sqlite/lease/overdue_ahead.sql" {
        "sqlite overdue: a lease that ends too late is one": "AND deadline > ?2 + term" => "AND deadline > ?2 + term AND 0";
    }
    SQLITE "queue-core/src/sqlite/lease/fence.sql" {
        "sqlite fence: a lease that ends too late is over": "OR deadline > ?4 + term" => "";
        "sqlite fence: only the lease that was seen": "AND deadline = ?3" => "AND ?3 NOT NULL";
    }
    ROWS "queue-core/src/sqlite/lease/fence.sql" {
        "sqlite fence: only a lease that is over": "(deadline <= ?4 OR deadline > ?4 + term)" => "?4 NOT NULL";
    }
    DISK "queue-core/src/sqlite/connection/writer.rs" {
        "sqlite: a full disk refuses enqueues, not finishes": "self.commit_without_adding(&mut answers)" => "{ let error = self.full(); answers.iter_mut().for_each(|(_, failure)| *failure = Some(error.duplicate())) }";
    }
    POWER "queue-core/src/sqlite/connection/writer.rs" {
        "sqlite: what is acknowledged is on disk": "Commit::Jobs(_) | Commit::Synced => durability == Durability::PowerLoss," => "Commit::Jobs(_) | Commit::Synced => false,";
    }
    POWER "queue-core/src/sqlite/mod.rs" {
        "sqlite: a finish is on disk": "if turn.finishes.is_empty() { Commit::Soon } else { Commit::Synced }" => "Commit::Soon";
    }
    CORE "queue-core/src/codec.rs" {
        "codec: depth is bounded": "if depth == DEPTH_MAX {" => "if false {";
    }
    CORE "queue-core/src/envelope.rs" {
        "envelope: a payload is bounded": "if self.payload.len() > PAYLOAD_MAX {" => "if false {";
    }
    CORE "queue-core/src/address.rs" {
        "names: the grammar is checked": "!(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))" => "false";
    }
    CLIENT "queue-core/src/client/producer.rs" {
        "client: an ambiguous enqueue is unknown": "matches!(error, Error::Ambiguous { .. })" => "false";
        "client: a call ends at its deadline": "timeout_at(callers.next().min(end) + LATE, &mut attempt)" => "timeout_at(callers.next().min(end) + LATE * 500, &mut attempt)";
    }
    ENQUEUES "queue-core/src/client/prepare.rs" {
        "middleware: a job passes before it is encoded": "on_enqueue.enqueue(&mut Draft::new(task, queue, priority, payload.len(), &mut options))?" => "()";
    }
    ENQUEUES "queue-core/src/draft.rs" {
        "middleware: a panic refuses its job": "catch_unwind(AssertUnwindSafe(|| self.each.iter().try_for_each(|each| each.on_enqueue(draft))))" => "Ok::<_, Box<dyn std::any::Any + Send>>(self.each.iter().try_for_each(|each| each.on_enqueue(draft)))";
        "middleware: any error is a refusal": "Err(draft.refused(error))" => "Err(error)";
    }
    ENQUEUES "queue-core/src/middleware.rs" {
        "middleware: a shared one is asked": "M::enqueue(self, draft)" => "Ok(())";
    }
    OBSERVED "queue-core/src/observe/observed.rs" {
        "observer: a call that was dropped is cancelled": "CallOutcome::Cancelled" => "CallOutcome::Ok";
        "observer: an error is told": "answer.error().map_or(CallOutcome::Ok, |error| CallOutcome::Failed(error.kind()))" => "CallOutcome::Ok";
        "observer: a beat that lost a lane is no success": "self.iter().find_map(Answer::error)" => "None";
        "observer: its panic changes nothing": "catch_unwind(AssertUnwindSafe(|| self.observer.call(self.verb, self.outcome, elapsed)))" => "Ok::<_, Box<dyn std::any::Any + Send>>(self.observer.call(self.verb, self.outcome, elapsed))";
    }
    WORKER "queue-core/src/middleware.rs" {
        "middleware: a run that was told to stop does not begin": "self.context.cancel_cause()" => "None";
    }
    WORKER "queue-worker/src/run/handle.rs" {
        "worker: a blocking handler is never given away": "thread.is_left().await" => "()";
        "worker: a panic is contained": "Ok(handler) => AssertUnwindSafe(handler).catch_unwind()," => "Ok(handler) => handler.map(Ok::<_, Box<dyn Any + Send>>),";
    }
    WORKER "queue-worker/src/pump/answers.rs" {
        "worker: suspects of all queues come to their turn": "self.suspects.told(id.queue, answer.suspects)" => "()";
    }
    LOG_LINES "queue-worker/src/pump/mod.rs" {
        "worker: who buries a job says so": "matches!(ending, Ending::Bury { .. })" => "false";
    }
    LOG_LINES "queue-worker/src/reclaimer.rs" {
        "worker: a job that died with its processes is told of": "letters::buried(shared, name, &reclaimed.buried, BuryReason::Crashed).await" => "()";
    }
    WORKER "queue-worker/src/outage.rs" {
        "worker: an outage is not over while a request has no answer": "state.waiting > 0" => "false";
    }
    OBSERVED "queue-worker/src/pump/answers.rs" {
        "worker: it says what it uses when it begins": "self.speak_first()" => "()";
    }
    OBSERVED "queue-worker/src/pump/stop.rs" {
        "worker: it says that it stops": "speaks_in.take_if(|queue| *queue == index).is_some()" => "false";
    }
    WORKER "queue-worker/src/usage.rs" {
        "worker: a share of CPU is not that of some milliseconds": "passed >= SPAN" => "true";
    }
    WORKER "queue-worker/src/pump/stop.rs" {
        "worker: the grace time is what it says": "now + (settings.grace - settings.notice())" => "now + settings.grace";
    }
    WORKER "queue-worker/src/pump/suspects.rs" {
        "worker: one suspect at a time": "self.running == 0 && self.asked.is_none()" => "true";
    }
    OUTAGES "queue-worker/src/pump/answers.rs" {
        "worker: a suspect whose turn was late waits for the other": "suspect && self.suspects.runs()" => "false";
        "worker: a turn that is late keeps no right to a suspect": "self.suspects.answered(LaneId { queue: index, lane: number })" => "()";
    }
    OUTAGES "queue-worker/src/pump/turns.rs" {
        "worker: a queue that cannot be registered with keeps back no other": "!self.queues[*queue].introduced && now < *since + LATE" => "!self.queues[*queue].introduced";
    }
    WORKER "queue-worker/src/pump/pace.rs" {
        "worker: what is little does not wait for ever": "until <= now" => "false";
        "worker: a low limit is much": "self.part().max(self.slots.div_ceil(8)).min(most)" => "self.part().max(self.slots.div_ceil(8))";
    }
    WORKER "queue-worker/src/pump/reason.rs" {
        "hints: what has been found is no news": "as_of.is_some() && as_of < self.found_all" => "false";
        "hints: an answer takes along what was announced before": "news.as_of().is_none() || news.as_of() >= as_of" => "true";
    }
    ANNOUNCED "queue-core/src/redis/enqueue/mod.rs" {
        "hints: work of the same process is expected": "broker.announcements.expect(&request.queue)" => "()";
    }
    OUTAGES "queue-worker/src/run/mod.rs" {
        "worker: isolation starts nothing": "self.shared.stopping.load(Ordering::Relaxed) || self.shared.is_isolated() || self.lease.until() <= now()" => "self.shared.stopping.load(Ordering::Relaxed)";
    }
    OUTAGES "queue-worker/src/lane.rs" {
        "worker: an unanswered turn is sent again": "Err(Error::Forgotten(_) | Error::Old { .. }) => return TurnEnd::Forgotten," => "Err(_) => return TurnEnd::Forgotten,";
    }
    REDIS "queue-core/src/redis/script/tools.lua" {
        "scripts: a delay counts from the end of its millisecond": "math.ceil(micros / 1000) + delay or now" => "now + delay or now";
    }
    LATE "queue-core/src/redis/script/tools.lua" {
        "scripts: lists are unpacked in pieces": "math.min(from + PIECE - 1, #list)" => "#list";
    }
    ENCODINGS "queue-core/src/redis/script/prelude.lua" {
        "lookups: a small hash is no list": "local LONG = '-----------------------------------------------------------------'" => "local LONG = '-'";
    }
    REDIS_NOTES "queue-core/src/redis/audit/sweep.lua" {
        "sweep: a producer that sends is kept": "#string.match(entry, '%?*$') < (string.find(entry, '^%d+#') and 30 or 1)" => "false";
        "sweep: a look begins a producer's time anew": "many('ZADD', K.seen, looked)" => "";
        "sweep: what other hands have brought is looked for": "\nrecount_bits()\n" => "\n";
    }
    AUDITOR "queue-core/src/redis/audit/audit.lua" {
        "audit: one of two places stays": "if stays then\n            others" => "if true then\n            others";
        "audit: what is elsewhere is not ready": "local stays = is_held(id) or" => "local stays = false and";
        "audit: what a tomb is for is left to it": "call('HEXISTS', K.tomb, id .. list) == 1 and 2 or 1" => "1";
        "audit: a list that has grown is looked at behind that": " - ARGV[at + 1] - grown[list] or -1" => " - ARGV[at + 1] or -1";
    }
    REDIS "queue-core/src/inspector/walk.rs" {
        "a walk passes what is empty": "self.from = page.next.filter(|next| *next > from)" => "self.from = page.next.filter(|_| !page.jobs.is_empty())";
    }
    REDIS "queue-core/src/inspector/change.rs" {
        "all of a state: an empty page is no end": "place = next.filter(|next| *next > from)" => "place = next.filter(|_| changed > 0)";
        "all of a state: jobs that moved up are met again": "left == 0 || fruitless == 2" => "true";
    }
    REDIS "queue-core/src/redis/people/mod.rs" {
        "a listing of ready has no cancelled job": "(tomb == Value::Nil).then_some(id)" => "Some(id)";
    }
    TYPES "queue-core/src/redis/connection/misfits.rs" {
        "types: a key that is right is left alone": "found != \"none\" && found != expected" => "found != \"none\"";
    }
    TYPES "queue-core/src/redis/audit/aside.lua" {
        "types: a repair renames only what is of another type": "found ~= 'none' and found ~= ARGV[at + 1] and call" => "found ~= 'none' and call";
    }
    TYPES "queue-core/src/redis/connection/servers.rs" {
        "types: an error names the key": "refusal.code() == Some(\"WRONGTYPE\")" => "false";
    }
    ENCODINGS "queue-core/src/redis/people/mod.rs" {
        "kept: a job is listed once": "seen.insert(id.clone())" => "true";
    }
    REDIS "queue-core/src/redis/lease/reclaim.lua" {
    }
    REDIS_FAULTS "queue-core/src/redis/script/schema.lua" {
        "other scripts: a newer schema is left alone": "if schema and schema ~= C.schema then" => "if false then";
    }
    REDIS "queue-core/src/redis/lease/reclaim.lua" {
        "reclaim: crashes count in their window": "now - first > window" => "false";
        "reclaim: the last crash buries": "if crashes >= most_crashes(id) then" => "if false then";
    }
    REDIS "queue-core/src/redis/audit/sweep.lua" {
        "sweep: remembered ids are bounded": "if excess > 0 then" => "if false then";
        "sweep: dead jobs are evicted in bounded steps": "while dead < items do" => "while true do";
        "sweep: young dead jobs stay": "if tonumber(head[2]) > now - ARGV[5] and bytes" => "if false and bytes";
    }
    LATE "queue-core/src/redis/audit/audit.lua" {
        "audit: what has its place is no stray": "call('HEXISTS', K.jobs, id) == 1 and not is_placed(id) then\n      found(id)\n    end" => "call('HEXISTS', K.jobs, id) == 1 then\n      found(id)\n    end";
        "audit: what is ready is no stray": "ids[id] = nil" => "local _ = id";
        "audit: what has left its set is no damage": "and call('ZSCORE', key, member) then" => "then";
    }
    LOST "queue-core/src/redis/audit/audit.lua" {
        "audit: what came to the head is no stray": "{ list, 0, come - 1 }" => "nil";
        "audit: what came to the tail is no stray": "{ list, -come, -1 }" => "nil";
        "audit: too much to look through is not judged": "if passed > MOST then" => "if false then";
        "audit: a mark is of one life": "marked_life ~= life()" => "false";
        "audit: who cannot know the life has no mark": "marked_life == '' or" => "";
        "audit: what was due is counted": "-call('ZCARD', K.scheduled) - call('ZCARD', K.retry)" => "0";
        "audit: what was enqueued is counted": "'enqueued', 'failed'," => "'failed',";
        "audit: what failed is counted": "'enqueued', 'failed'," => "'enqueued',";
        "audit: what was snoozed is counted": "'snoozed', 'repeated'," => "'repeated',";
        "audit: what repeats is counted": "'snoozed', 'repeated'," => "'snoozed',";
        "audit: what was released is counted": "'released', 'reclaimed'," => "'reclaimed',";
        "audit: what was reclaimed is counted": "'released', 'reclaimed'," => "'released',";
        "audit: what was requeued is counted": "'requeued', 'repaired', '.replaced' }" => "'repaired', '.replaced' }";
        "audit: what was repaired is counted": "'requeued', 'repaired', '.replaced' }" => "'requeued', '.replaced' }";
        "audit: an id under a tomb is no damage": "and call('HEXISTS', K.tomb, id .. list) == 0 then" => "then";
    }
    LOST "queue-core/src/redis/audit/strays.rs" {
        "audit: lists are read from their tails": "search.read(list, 0, usize::MAX).await?" => "()";
        "audit: what came to the head is read": "self.read(list, length.saturating_sub(come), usize::MAX).await?" => "()";
        "audit: what came to the tail is read": "self.read(list, read, come).await?" => "()";
        "audit: what recedes is followed": "come_since(last, &self.pass.mark().await?)" => "come";
        "audit: a search ends with the server's life": "mark.life != last.life || mark.life.is_empty() || mark.pushes < last.pushes" => "false";
        "audit: a search is bounded": "self.reads -= 1" => "self.reads -= 0";
    }
    LOST "queue-core/src/redis/audit/sweep.lua" {
        "sweep: no long list is looked through": "if passed > 40000 then" => "if false then";
    }
    AUDITOR "queue-core/src/redis/audit/audit.lua" {
        "audit: a lease without end is none": "return deadline and whole(deadline) < FOREVER" => "return deadline";
        "audit: a lane without lease is found": "not has_lease(ARGV[i]) then" => "false then";
    }
    CORRUPT "queue-core/src/redis/script/prelude.lua" {
        "other hands: what cannot be unpacked is empty": "local ok, value = pcall(cmsgpack.unpack, stored)" => "local ok, value = true, cmsgpack.unpack(stored)";
        "other hands: a number that is none begins anew": "if type(answer) == 'table' and answer.err then" => "if type(answer) == 'table' and answer.err then error(answer.err) end if false then";
        "other hands: what is no id is dropped": "  return #id == 16\n" => "  return true\n";
    }
    CORRUPT "queue-core/src/redis/audit/sweep.lua" {
        "other hands: what lives is not evicted": "if not stays then" => "if true then";
    }
    CORRUPT "queue-core/src/redis/lease/overdue.lua" {
        "other hands: a deadline is a whole number": "expired[i] = ms(whole(expired[i]))" => "expired[i] = expired[i]";
    }
    CORRUPT "queue-core/src/redis/audit/audit.lua" {
        "audit: a parked job that lost its task gets it back": "call('HSET', K.notes, id, task)" => "local _ = task";
    }
    REDIS "queue-core/src/redis/mod.rs" {
        "requests are bounded": "if items > MAX_ITEMS {" => "if false {";
    }
    REDIS "queue-core/src/redis/lease/sweep.rs" {
        "reclaim: a suspect's neighbours go free": "job.suspect || !with_suspects.contains(&job.process)" => "true";
        "reclaim: who lives is not charged": "!living.contains(&job.process)" => "true";
        "reclaim: a lane is forgotten after a whole scan": "complete && all <= RECLAIM_ITEMS" => "true";
    }
    CORRUPT "queue-core/src/redis/lease/mod.rs" {
        "other hands: a beat outlives what cannot be read": "gone::gone(gone).unwrap_or_default()" => "gone::gone(gone)?";
    }
    REDIS_FAULTS "queue-core/src/redis/connection/link.rs" {
        "link: a demoted master is left at once": "if error.kind() == redis::ErrorKind::Server(ServerErrorKind::ReadOnly) {" => "if false {";
    }
    SQLITE "queue-core/src/sqlite/turn/mod.rs" {
        "sqlite turn: a paused queue gives nothing out": "if queue.paused {" => "if false {";
    }
    SQLITE "queue-core/src/sqlite/turn/answered.sql" {
        "sqlite turn: a lease is renewed": "deadline = ?4" => "deadline = iif(?4, deadline, 0)";
    }
    SQLITE "queue-core/src/sqlite/doors/admit.rs" {
        "sqlite admit: a release that has failed on a job is not offered it again": "if failed_releases(&name).all(|failed| failed != release) {" => "if true {";
        "sqlite admit: an answer is bounded in bytes": "bytes > MAX_BYTES && !self.empty" => "false";
    }
    SQLITE "queue-core/src/sqlite/doors/ready_due.sql" {
        "sqlite ready: nothing starts early": "AND pos <= ?3" => "AND ?3 NOT NULL";
    }
    SQLITE "queue-core/src/sqlite/doors/ready.rs" {
        "sqlite promote: what waits for no time stays": "if waits {" => "if true {";
        "sqlite promote: who waits hears of it": "tx.hint(queue.name, tx.now)" => "()";
    }
    SQLITE "queue-core/src/sqlite/lease/reclaim.rs" {
        "sqlite reclaim: who lives, and a suspect's neighbours, go free": "!lives && (!has_suspect || job.is_suspect(lane.renewed))" => "true";
        "sqlite reclaim: a lane is forgotten when all its jobs are moved": "if process.charged.len() > left || process.free.len() + process.charged.len() > RECLAIM_ITEMS {" => "if false {";
        "sqlite reclaim: the last crash buries": "if is_last {" => "if false {";
    }
    SQLITE "queue-core/src/sqlite/doors/settle_tell.sql" {
        "sqlite cancel: a worker hears of it": "VALUES (?1, ?2, ?3)" => "SELECT ?1, ?2, ?3 WHERE 0";
    }
    FILES "queue-core/src/sqlite/connection/schema.rs" {
        "sqlite: a newer schema is left alone": "match found.cmp(&SCHEMA) {" => "match SCHEMA.cmp(&SCHEMA) {";
    }
    ROWS "queue-core/src/sqlite/doors/row.rs" {
        "sqlite, other hands: failures that cannot be read give way": "failures(bytes).unwrap_or_default()" => "failures(bytes)?";
    }
    ROWS "queue-core/src/sqlite/connection/tx.rs" {
        "sqlite, other hands: claim numbers end nowhere": "if self.claim < 1 << 50 {" => "if true {";
    }
    ROWS "queue-core/src/sqlite/audit/mod.rs" {
        "sqlite audit: no lane gets a number from elsewhere": "*lane <= last" => "true";
    }
    CORE "queue-core/src/codec.rs" {
        "codec: elements are bounded": "elements > ELEMENTS_MAX || inside > ELEMENTS_MAX" => "false";
    }
    CORE "queue-core/src/envelope.rs" {
        "envelope: headers are bounded": "if headers > HEADER_BYTES_MAX {" => "if false {";
        "envelope: a time is written once": "time.iter().all(|byte| *byte == 0)" => "true";
    }
    CORE "queue-core/src/client/sender.rs" {
        "client: a batch is bounded in bytes": "bytes <= MAX_BYTES" => "true";
    }
    LOST_FILES "queue-core/src/sqlite/connection/file.rs" {
        "sqlite: a file that has gone is not used": "if !self.lost && self.is_there() {" => "if !self.lost {";
        "sqlite: a replaced file is not used": "self.database.is_none_or(|opened| found == opened)" => "true";
        "sqlite: no database is opened with the log of another": "!is_old && self.beside.contains(log)" => "false";
    }
    LOST_FILES "queue-core/src/sqlite/connection/schema.rs" {
        "sqlite: a log without its database is kept": "if let Some(log) = left_behind(path) {" => "if let Some(log) = left_behind(path).filter(|_| false) {";
    }
    CORE "queue-core/src/sqlite/connection/writer.rs" {
        "sqlite: a promise is for a file that is there": "self.file.as_ref().is_some_and(|file| !file.is_there())" => "false";
    }
    PLACES "queue-worker/src/cli/mod.rs" {
        "looking makes no database": "Client::connect_existing(&url_or_env()?).await" => "Client::connect(&url_or_env()?).await";
    }
    CLIENT "queue-core/src/client/sender.rs" {
        "client: whoever is alone sends from its own thread": "self.callers.fetch_add(1, Ordering::Relaxed) == 0" => "self.callers.fetch_add(1, Ordering::Relaxed) == usize::MAX";
    }
    RUNTIMES "queue-core/src/client/sender.rs" {
        "client: whoever is alone needs no clock": "on_broker(&self.route.broker, concluded.in_current_span()).await.map_err(Failure::Refused)?" => "concluded.await";
    }
    WORKER "queue-worker/src/reclaimer.rs" {
        "worker: the reclaimer looks twice": "first.due() <= asked" => "true";
        "worker: a lease that ends too late is watched for its length": "term.saturating_add(confirm)" => "confirm";
        "worker: the reclaimer looks at all queues": "(self.group + 1) % self.groups" => "self.group";
    }
    HELD "queue-worker/src/pump/turns.rs" {
        "worker: no more jobs are held than run": "claim.min(room)" => "claim";
    }
    WORKER "queue-core/src/sqlite/mod.rs" {
        "worker: beats have a thread of their own": "self.io.spawn(task)" => "drop(tokio::spawn(task))";
    }
    WORKER "queue-worker/src/run/ending.rs" {
        "worker: the last failure buries": "if attempt >= options.max_attempts {" => "if false {";
    }
    OUTAGES "queue-worker/src/reclaimer.rs" {
        "worker: an outage makes nobody a suspect": "seen.clear()" => "()";
        "worker: a queue that is refused is alone concerned": "self.seen.retain(|(of, _), _| *of != queue)" => "self.seen.clear()";
    }
    LATE "queue-core/src/redis/lease/fence.lua" {
        "fence: only a lease that is over": "whole(deadline) <= now" => "true";
    }
    LATE "queue-core/src/redis/lease/reclaim.lua" {
        "reclaim: the tag must be the one seen": "call('HGET', K.active, id) == tag and" => "";
        "reclaim: the lane must be fenced": "and call('HEXISTS', K.lanes, lane_of(tag) or '') == 0" => "";
    }
    LATE "queue-core/src/redis/script/prelude.lua" {
        "other hands: numbers are bounded": "return math.floor(math.min(number, FOREVER))" => "return number";
    }
    SQLITE "queue-core/src/sqlite/connection/tx.rs" {
        "sqlite: a delay counts from the end of its millisecond": "i64::from(!delay.is_zero() && is_between)" => "0";
    }
    REDIS "queue-core/src/redis/doors/keys.lua" {
        "keys: a successor follows when its key is free": "if call('EXISTS', K.held) == 1 then" => "if false then";
        "keys: a job gives back only what it holds": "if holders[at] == mine[at] then" => "if true then";
        "keys: a younger job is not driven out": "elseif other ~= id and not upto then" => "elseif false then";
        "keys: a time that is over frees a key": "if upto > now then" => "if true then";
        "keys: housekeeping prunes": "call('ZRANGEBYSCORE', K.within, '-inf', ms(now), 'LIMIT', 0, items)" => "{}";
    }
    REDIS "queue-core/src/redis/doors/end.lua" {
        "keys: the end frees a key": "give_keys_back(ids, true)" => "give_keys_back({}, true)";
        "keys: a dead job holds no key": "give_keys_back({ id }, false)" => "give_keys_back({}, false)";
    }
    REDIS "queue-core/src/redis/doors/admit.lua" {
        "keys: the start frees a key that is held until then": "give_keys_back(ids, false, 's')" => "give_keys_back({}, false, 's')";
    }
    REDIS "queue-core/src/redis/doors/ready.lua" {
        "keys: a held job that is taken out follows nobody": "if has('u') and unhold(id) then" => "if false then";
    }
    REDIS "queue-core/src/redis/enqueue/unique.lua" {
        "keys: jobs of one request see each other": "not holders[at] and not taken[keys[at]]" => "not holders[at]";
        "keys: jobs that are stored in one piece see each other": "if holders[at] or taken[key] then" => "if holders[at] then";
        "keys: jobs that are stored in one piece see who holds a key": "if holders[at] or taken[key] then" => "if taken[key] then";
        "keys: jobs of one part see each other when a key is held": "not holders[at] and not taken[key]\n" => "not holders[at]\n";
        "keys: nobody puts a job off for longer than it may wait": "due_at = math.min(due_at, math.min(first, now) + most)" => "due_at = due_at + 0";
    }
    REDIS "queue-core/src/redis/people/standing.lua" {
        "why: jobs of a higher priority go first": "for list = 0, own - 1 do" => "for list = 0, -1 do";
        "why: a long list is counted from its end too": "'RANK', '-1', 'MAXLEN', looked) or length" => "'RANK', '-1', 'MAXLEN', looked) or 0";
        "why: who holds the line is told": "holder and holder ~= id and holder or ''" => "''";
        "why: who holds the slots is told": "if rule.cap and running >= rule.cap then" => "if false then";
        "why: other groups are counted": "(call('ZSCORE', K.turns, group) and 1 or 0)" => "0";
    }
    SQLITE "queue-core/src/sqlite/people/standing.rs" {
        "sqlite why: other groups are counted": "turns.saturating_sub(u64::from(in_turn))" => "turns";
        "sqlite why: what was not counted is not left out": "before <= most" => "true";
    }
    SQLITE "queue-core/src/sqlite/doors/groups.rs" {
        "sqlite why: who holds the line is told": "is_ordered(rule) && *front != id" => "false";
    }
    KEYS "queue-core/src/redis/enqueue/mod.rs" {
        "keys: a lane that knows none keeps them out": "bits.with(Bit::Unique)" => "bits";
    }
    KEYS "queue-core/src/redis/audit/audit.lua" {
        "keys: one without its job is found": "if call('HEXISTS', K.unique, ARGV[i]) == 1 and not holder_of(ARGV[i])" => "if false";
    }
    SQLITE "queue-core/src/sqlite/doors/keys.rs" {
        "sqlite keys: a successor follows when its key is free": "follow(tx, queue, key, &next)" => "Ok(())";
        "sqlite keys: a younger job is not driven out": "Ok(Some(JobId::from_bytes(&held.id)?))" => "Ok(None)";
    }
    SQLITE "queue-core/src/sqlite/doors/end.rs" {
        "sqlite keys: an ack frees the key": "keys::give_back(tx, queue, id, true)?" => "()";
    }
    GROUPS "queue-core/src/sqlite/audit/mod.rs" {
        "sqlite groups: a place in no line is found": "rows(tx, sql!(\"without_line.sql\"), queue, LINED)?" => "Vec::new()";
    }
    DECODERS "queue-core/src/redis/connection/hints.rs" {
        "hints: what is no text breaks no subscription": "message.and_then(|message| values::text(message).ok())" => "message.map(|message| values::text(message).unwrap())";
    }
    REDIS "queue-core/src/redis/people/watch.lua" {
        "watch: what has ended is not marked": "and job[1] ~= 'dead' and call('HEXISTS', K.records, id) == 0" => "and true";
        "watch: a mark sets its bit": "mark('w')" => "";
    }
    WATCHED "queue-core/src/redis/people/watch.lua" {
        "watch: a lane that knows no marks keeps them out": "not unknown_to_a_lane('w')" => "true";
    }
    REDIS "queue-core/src/redis/doors/end.lua" {
        "watch: the end of a job that leaves nothing is told": "end_ticks(ids, 'deleted')\n  tell_ended(ids)" => "end_ticks(ids, 'deleted')";
        "watch: the end of a job that is kept is told": "end_ticks(ids, state)\n  tell_ended(ids)" => "end_ticks(ids, state)";
        "watch: a death is told": "tell_ended({ id })" => "";
    }
    REDIS "queue-core/src/redis/doors/watched.lua" {
        "watch: nobody hears of what is not watched": "    if waits then" => "    if true then";
        "watch: the end takes the mark along": "many('ZREM', K.watched, told)" => "";
    }
    WATCHED "queue-core/src/redis/audit/sweep.lua" {
        "watch: the marks of those who have gone are swept": "call('ZRANGEBYSCORE', K.watched, '-inf', ms(now), 'LIMIT', 0, items)" => "{}";
    }
    SQLITE "queue-core/src/sqlite/doors/watched.rs" {
        "sqlite watch: what has ended is not marked": "![DONE, DEAD, CANCELLED, EXPIRED].contains(&state)" => "true";
        "sqlite watch: nobody hears of what is not watched": "forget(tx, queue, &id)?" => "(forget(tx, queue, &id)? || true)";
    }
    SQLITE_WATCHED "queue-core/src/sqlite/doors/watched.rs" {
        "sqlite watch: the marks of those who have gone are swept": "tx.sql(PRUNE)?.execute(params![queue.key, tx.now, Unsigned(items)])" => "Ok(0)";
    }
    REDIS "queue-core/src/redis/turn/acks.lua" {
        "watch: a job that is not kept is kept for who waits": "has('w') and call('ZMSCORE', K.watched, unpack(own)) or {}" => "{}";
    }
    REDIS "queue-core/src/redis/people/watch.lua" {
        "watch: workers hear of it": "hint_watch()" => "";
    }
    SQLITE "queue-core/src/sqlite/turn/finish.rs" {
        "sqlite watch: a job that is not kept is kept for who waits": "matches!(finish.ending, Ending::Ack { .. }) && watched::is_watched(tx, queue, id)?" => "false";
    }
    WATCHED "queue-worker/src/run/ending.rs" {
        "watch: the result is brought while somebody waits": "options.keep.is_some() || self.watched.stands()" => "options.keep.is_some()";
    }
    REDIS "queue-core/src/redis/remark/remark.lua" {
        "remarks: only the holder of a job tells": "call('HGET', K.active, id) == lane .. ':' .. claim" => "true";
        "remarks: a fenced lane tells nothing": "call('HEXISTS', K.lanes, lane) == 0" => "false";
        "remarks: a late change puts no progress back": "known_claim == claim and whole(known_seq) < whole(seq)" => "true";
        "remarks: a line that comes again is not added": "for skipped = math.max(0, expected - number), n - 1 do" => "for skipped = 0, n - 1 do";
        "remarks: lines that never came are counted": "missed = missed + math.max(0, number - expected)" => "";
        "remarks: a log has a bound of lines": "lines > C.log_lines or" => "";
        "remarks: a log has a bound of bytes": "or #body - from + 1 > C.log_bytes" => "";
        "remarks: who watches a job hears of it": "hint_remark(id)" => "";
        "remarks: nobody hears of what is not watched": "has('w') and call('ZSCORE', K.watched, id)" => "true";
    }
    REMARKS "queue-core/src/redis/remark/remark.lua" {
        "remarks: a lane that knows none keeps them out": "local behind = unknown_to_a_lane('j')" => "local behind = nil";
    }
    REDIS "queue-core/src/redis/doors/end.lua" {
        "remarks: a job that leaves nothing takes them along": "tell_ended(ids)\n  forget_remarks(ids)" => "tell_ended(ids)";
        "remarks: a kept job takes them along": "forget_remarks(gone)" => "";
    }
    REDIS "queue-core/src/redis/enqueue/kinds.lua" {
        "remarks: a record that gives way takes them along": "forget_remarks({ id })" => "";
    }
    REMARKS "queue-core/src/redis/script/recount_bits.lua" {
        "remarks: their bit goes with the last": "add('j', K.progress, K.logs)" => "needed = needed .. 'j'";
    }
    SQLITE "queue-core/src/sqlite/remark/mod.rs" {
        "sqlite remarks: only the holder of a job tells": "!tx.sql(sql!(\"holds.sql\"))?.exists(params![queue.key, id, ACTIVE, lane, claim])?" => "false";
        "sqlite remarks: a late change puts no progress back": "known.is_none_or(|known| known < (told.claim, now.seq))" => "true";
        "sqlite remarks: who watches a job hears of it": "tx.hint(&remarks_of(queue.name, &told.id), tx.now)" => "()";
    }
    SQLITE "queue-core/src/sqlite/remark/lane.sql" {
        "sqlite remarks: a fenced lane tells nothing": "AND NOT fenced" => "";
    }
    SQLITE "queue-core/src/sqlite/remark/gone.sql" {
        "sqlite remarks: the row of a job takes them along": "DELETE FROM queue_remarks WHERE queue = OLD.queue AND id = OLD.id;" => "SELECT 1;";
    }
    SQLITE "queue-core/src/broker/remark/stored.rs" {
        "sqlite remarks: a line that comes again is not added": "told.lines.iter().skip(known)" => "told.lines.iter().skip(0)";
        "sqlite remarks: a log has its bounds": "self.lines.len() > LOG_LINES || bytes > LOG_BYTES" => "false";
    }
    REMARKS "queue-worker/src/run/mod.rs" {
        "remarks: what was told last is stored before the ending": "if context.has_told() {" => "if false {";
    }
    REMARKS "queue-worker/src/scribe.rs" {
        "remarks: stored a few times a second": "now() + REMARKED" => "now()";
    }
    CORE "queue-core/src/context/remarks.rs" {
        "remarks: what waits in the worker is bounded": "self.lines.len() > LOG_LINES || self.bytes > LOG_BYTES" => "false";
    }
    TICKS_REDIS "queue-core/src/redis/schedule/set.lua" {
        "schedules: a state that was changed meanwhile is stale": "(call('HGET', K.states, name) or '') ~= ARGV[3]" => "false";
        "schedules: nobody decides by a clock that was set": "math.abs(now - ARGV[2]) > C.clock_moved" => "false";
        "schedules: a job that exists is not stored again": "seen[id] or " => "";
        "schedules: a backfill is remembered": "ARGV[at + 4] == '1' and is_remembered(id)" => "false";
    }
    TICKS_REDIS "queue-core/src/redis/schedule/ended.lua" {
        "schedules: a tick that waits is due at the end of the last job": "if state.b and not state.p then" => "if false then";
        "schedules: the last job is forgotten at its end": "if state.u == run then" => "if false then";
        "schedules: dead jobs in a row pause their schedule": "whole(state.x) > 0 and state.d >= whole(state.x)" => "false";
    }
    TICKS_REDIS "queue-core/src/redis/schedule/due.lua" {
        "schedules: one that is due is handed out once": "many('ZADD', K.ticks, later)" => "";
    }
    TICKS_REDIS "queue-core/src/redis/turn/others.lua" {
        "schedules: a job that is to be stopped does not come back": "not stays and is_stopped(id)" => "false";
    }
    TICKS_REDIS "queue-core/src/redis/lease/reclaim.lua" {
        "schedules: a job that is to be stopped ends with its worker": "if is_stopped(id) then" => "if false then";
    }
    TICKS_SQLITE "queue-core/src/sqlite/schedule/mod.rs" {
        "sqlite: a schedule that was changed meanwhile is stale": "state != request.expected" => "false";
        "sqlite: nobody decides by a clock that was set": "request.has_moved(tx.now)" => "false";
        "sqlite: a job that is to be stopped does not come back": "stop.is_some_and(|stop| stop != 0)" => "false";
    }
    TICKS_REDIS "queue-core/src/redis/schedule/list.lua" {
        "schedules: those that are not due at all are due after no time": "'(' .. ms(FOREVER)" => "'+inf'";
    }
    SCHEDULES "queue-core/src/redis/audit/audit.lua" {
        "audit: a run of a schedule whose job is not there": "K.ticked, id) == 1\n      and (call('HEXISTS', K.jobs, id) == 0 or call('HEXISTS', K.records, id) == 1 or call('ZSCORE', K.dead, id)) then" => "K.ticked, id) == 1\n      and false then";
        "audit: a run of a schedule whose job is cancelled": "K.ticked, id) == 1\n      and (call('HEXISTS', K.jobs, id) == 0 or call('HEXISTS', K.records, id) == 1 or call('ZSCORE', K.dead, id)) then" => "K.ticked, id) == 1\n      and (call('HEXISTS', K.jobs, id) == 0 or call('ZSCORE', K.dead, id)) then";
        "audit: a run of a schedule whose job is dead": "K.ticked, id) == 1\n      and (call('HEXISTS', K.jobs, id) == 0 or call('HEXISTS', K.records, id) == 1 or call('ZSCORE', K.dead, id)) then" => "K.ticked, id) == 1\n      and (call('HEXISTS', K.jobs, id) == 0 or call('HEXISTS', K.records, id) == 1) then";
        "audit: a schedule hears that its job is not there": "end_ticks({ id }, 'deleted')" => "";
    }
    SQLITE_SCHEDULES "queue-core/src/sqlite/audit/mod.rs" {
        "sqlite: a run of a schedule without its job is found": "rows(tx, sql!(\"ticked_hollow.sql\"), queue, HELD)?" => "Vec::<(Value, Value)>::new()";
    }
    CORE "queue-core/src/schedule/change.rs" {
        "schedules: a next tick that lies too far ahead is brought back": "stored > *latest" => "false";
        "schedules: what a clock that was an hour ahead has made is not made again": "now_ms.saturating_add(day)" => "now_ms";
        "schedules: a pause ends with a next tick that can be": "self.clamp(name, now_ms)?" => "false";
        "schedules: one that is made again does not hear of earlier jobs": "now_ms.unsigned_abs()" => "0";
    }
    GROUPS_REDIS "queue-core/src/redis/doors/turns.lua" {
        "groups: plain jobs pay for their turns": "entry.start = entry.start + plain_cost" => "entry.start = entry.start + 0";
        "groups: a group pays for its turn": "entry.start + entry.cost, entry.room > 0" => "entry.start, entry.room > 0";
    }
    GROUPS_REDIS "queue-core/src/redis/doors/suspects.lua" {
        "groups: who runs has a slot": "many('ZADD', K.holders, slots)" => "call('ZCARD', K.holders)";
    }
    LIMITS_REDIS "queue-core/src/redis/doors/suspects.lua" {
        "limits: a suspect waits for its limit": "if #chain == 1 or not limits().blocker(chain, id) then" => "if true then";
    }
    REDIS "queue-core/src/redis/doors/suspects.lua" {
        "suspects: a search goes on inside a group": "group == resumed and behind or" => "";
        "suspects: a search that stops half-way is no answer": "may_be_doubted = stop ~= nil" => "may_be_doubted = false";
    }
    REDIS "queue-core/src/redis/doors/groups.lua" {
        "groups: a large weight counts for who comes back": "math.min(C.turn_apart, cost_of(rule_of(group).weight))" => "C.turn_apart";
        "suspects: a group pays for its suspect": "turn = turn or ms(math.max(start and start_of(start) or next_start(group)" => "turn = turn or start or ms(math.max(next_start(group)";
    }
    REDIS "queue-core/src/redis/audit/sweep.lua" {
        "sweep: one sweeps at a time": "sweeper ~= ARGV[9] and whole(upto) > now" => "false and whole(upto) > now";
    }
    GROUPS_REDIS "queue-core/src/redis/doors/groups.lua" {
        "groups: a slot is given back with the run": "many('ZREM', K.holders, slots)" => "call('ZCARD', K.holders)";
        "groups: one that is full is out of the turns": "if room_of(group) <= 0 then" => "if false then";
        "groups: the end of a job frees its line": "if lines and call('HGET', K.front, group) == ids[at] then" => "if false then";
        "groups: who holds the line goes first": "elseif holder_of_line(group) == id then" => "elseif false then";
        "groups: a suspect waits while its group is full": "if not has_suspect(group) or room_of(group) <= 0 then" => "if not has_suspect(group) then";
        "groups: who comes back at once gains nothing": "math.max(next_start(group), start_of(rested[at] or ''))" => "virtual_time()";
        "groups: a cancelled job leaves its line": "    if member then\n      call('ZREM', K.line, member)" => "    if false then\n      call('ZREM', K.line, member)";
    }
    PAUSES_REDIS "queue-core/src/redis/turn/resume.lua" {
        "pauses: the turn after the end of a pause lets it go on": "ms(now), 'LIMIT'" => "'0', 'LIMIT'";
        "pauses: a queue that goes on is claimed from at once": "paused = paused and of ~= 'q'" => "paused = paused";
    }
    PAUSES_REDIS "queue-core/src/redis/doors/pauses.lua" {
        "pauses: a group that goes on is served": "if rule then\n      set_rule" => "if false then\n      set_rule";
        "pauses: an end is forgotten with its pause": "call('ZREM', K.resumes, of)" => "call('ZCARD', K.resumes)";
    }
    PAUSES_REDIS "queue-core/src/redis/turn/answer.lua" {
        "pauses: idle lanes come when a pause ends": "call('ZSCORE', K.resumes, 'q') or FOREVER" => "FOREVER";
    }
    PAUSES_REDIS "queue-core/src/redis/people/pause.lua" {
        "pauses: an end lies in the future": "if upto <= now then" => "if false then";
    }
    PAUSES_REDIS "queue-core/src/redis/turn/aside.lua" {
        "pauses: jobs of a paused task are not handed out": "if task and paused_tasks[task] then" => "if false then";
        "pauses: who is set aside holds no slot": "    settle(aside)\n" => "    call('HDEL', K.active, unpack(aside))\n";
        "pauses: there may be more behind what was set aside": "waits = what_waits(false)" => "waits = waits";
    }
    PAUSES_REDIS "queue-core/src/redis/turn/claim_parked.lua" {
        "pauses: parked jobs of a paused task stay": "local stays = paused_tasks and paused_tasks[ARGV[at]]" => "local stays = false";
    }
    PAUSES_SQLITE "queue-core/src/sqlite/turn/claim.rs" {
        "sqlite pauses: parked jobs of a paused task stay": "!paused.contains_key(*task)" => "true";
    }
    PAUSES_SQLITE "queue-core/src/sqlite/turn/mod.rs" {
        "sqlite pauses: the turn after the end of a pause lets it go on": "pauses::resume_due(tx, &mut queue)?" => "Vec::new()";
    }
    AGING_REDIS "queue-core/src/redis/doors/admit.lua" {
        "aging: a job that comes back begins at its own priority": "if has('o') and #ids > 0 then" => "if false then";
    }
    AGING_REDIS "queue-core/src/redis/enqueue/store.lua" {
        "aging: jobs that are stored in one piece rise": "  set_out(ids, false)\n" => "";
    }
    AGING_REDIS "queue-core/src/redis/doors/rise.lua" {
        "aging: who has risen stands behind those that have that priority": "line_up(ids, false)" => "line_up(ids, true)";
    }
    AGING_SQLITE "queue-core/src/sqlite/doors/aging.rs" {
        "sqlite aging: the priority of a job is its own": "tx.sql(OWN)?.query_row(params![queue.key, id], |row| row.get(0))?" => "Value::Integer(level - 1)";
    }
    GROUPS_REDIS "queue-core/src/redis/doors/groups.lua" {
        "groups: what code declares holds where nothing is set": "rules.others[at] = (rules.others[at] or '') ~= '' and rules.others[at] or declared[at]" => "rules.others[at] = rules.others[at]";
    }
    GROUPS_SQLITE "queue-core/src/sqlite/doors/rules.rs" {
        "sqlite groups: what code declares holds where nothing is set": "RuleOf::Declared.stored()" => "RuleOf::Others.stored()";
    }
    GROUPS_REDIS "queue-core/src/redis/groups/list.lua" {
        "groups: jobs without a group are on no page": "ARGV[2] == '' and NO_GROUP or ARGV[2]" => "ARGV[2]";
    }
    GROUPS_SQLITE "queue-core/src/sqlite/groups/mod.rs" {
        "sqlite groups: jobs without a group are on no page": "after.map_or_else(|| NO_GROUP.to_vec(), GroupName::stored)" => "after.map_or_else(Vec::new, GroupName::stored)";
    }
    GROUPS_REDIS "queue-core/src/redis/people/since.lua" {
        "groups: the age of each kind of jobs is told": "if more_chains == 0 then" => "if true then";
    }
    GROUPS_REDIS "queue-core/src/redis/people/stats.lua" {
        "groups: the age of groups without a turn is told": "for _ = 1, oldest and 0 or 2 * C.heads do" => "for _ = 1, 0 do";
        "groups: the age of jobs with limits and no group is told": "  look(NO_GROUP)" => "";
    }
    GROUPS_SQLITE "queue-core/src/sqlite/people/stats.rs" {
        "sqlite groups: the age of groups without a turn is told": "!looked.contains(name)" => "false";
        "sqlite groups: the age of each kind of jobs is told": "limits::chains(tx, queue, group, HEADS)?" => "limits::chains(tx, queue, group, 0)?";
    }
    GROUPS_REDIS "queue-core/src/redis/groups/set.lua" {
        "groups: a reason stands while it pauses": "wanted = wanted .. why" => "wanted = wanted";
        "groups: who declares has read what is declared": "elseif rule ~= ARGV[2] then" => "elseif ARGV[1] ~= '+' and rule ~= ARGV[2] then";
    }
    GROUPS_SQLITE "queue-core/src/inspector/clear.rs" {
        "groups: a cancel finds jobs that wait for a time": "[Place::Line].into_iter().chain(states).chain([Place::Line]).collect()" => "[Place::Line].into_iter().collect()";
        "groups: a drain lets jobs go on that run": "(which == Cleared::All).then_some(JobState::Active)" => "Some(JobState::Active)";
    }
    GROUPS_SQLITE "queue-core/src/broker/group.rs" {
        "sqlite groups: who declares has read what is declared": "**read != *stored" => "false";
        "sqlite groups: what is declared holds at the next claim": "matches!(self.of, RuleOf::Others | RuleOf::Declared)" => "self.of == RuleOf::Others";
        "sqlite groups: a reason stands while it pauses": "GroupRule::reason_of_stored(stored).unwrap_or_default()" => "String::new()";
    }
    GROUPS_REDIS "queue-core/src/redis/enqueue/kinds.lua" {
        "groups: one of a largest size takes no more": "most and depth_of(group) + (coming[group] or 0) >= most" => "false";
    }
    GROUPS_REDIS "queue-core/src/redis/turn/claim_parked.lua" {
        "groups: a parked job waits for its group": "found = wait_for_their_groups(task, found, may_suspect, room)" => "found = found";
    }
    GROUPS_REDIS "queue-core/src/redis/turn/claim.lua" {
        "groups: who failed comes back to the head": "rule_of(group_in(stored)).order == 's'" => "false";
    }
    GROUPS "queue-core/src/redis/enqueue/mod.rs" {
        "groups: a lane that knows none keeps them out": "bits.with(Bit::Grouped)" => "bits";
    }
    GROUPS "queue-core/src/redis/audit/audit.lua" {
        "groups: a phantom slot is found": "if call('ZSCORE', K.holders, ARGV[i]) and" => "if false and";
        "groups: one that nobody serves is found": "if is_out_of_turn(group) then" => "if false then";
    }
    GROUPS_SQLITE "queue-core/src/sqlite/doors/virtual_time.rs" {
        "sqlite groups: a group pays for its turn": "start.saturating_add(cost)" => "start";
        "sqlite groups: virtual time goes on": "self.virtual_time.max(Some(start))" => "None";
    }
    GROUPS_SQLITE "queue-core/src/sqlite/doors/groups.rs" {
        "sqlite groups: a slot is given back with the run": "tx.sql(GIVE)?.execute(params![queue.key, name, id])? > 0" => "false";
        "sqlite groups: one of a largest size takes no more": "Ok(depth(tx, queue, &name)? >= most)" => "Ok(false)";
        "sqlite groups: one that is full is out of the turns": "room(tx, queue, name, rule)? == 0" => "false";
    }
    RETAINED_REDIS "queue-core/src/redis/topic/event.lua" {
        "topics: what is not known is passed over": "if skips and fields.type and not known[fields.type]" => "if false";
    }
    RETAINED_REDIS "queue-core/src/redis/topic/subscribe.lua" {
        "topics: no type is forgotten": "of.types = both(of.types, types)" => "of.types = types";
    }
    RETAINED_REDIS "queue-core/src/redis/topic/trim.lua" {
        "topics: a log keeps about so many bytes": "most = size > whole(settings[4]) and math" => "most = false and math";
    }
    TOPICS "queue-core/src/redis/topic/event.lua" {
        "topics: an id that does not fit is a dead letter": "or not fits and 'the id" => "or false and 'the id";
    }
    RETAINED_SQLITE "queue-core/src/sqlite/topic/feed.rs" {
        "topics: on SQLite what is not known is passed over": "if skips && !types.is_empty() && !types.split(',').any(|known| is_of(&event, known)) {" => "if false {";
    }
    RETAINED_SQLITE "queue-core/src/sqlite/topic/mod.rs" {
        "topics: on SQLite no type is forgotten": "known.split(',').chain(types.split(','))" => "types.split(',')";
        "topics: on SQLite what is trimmed is no longer counted": "if goes && fits { *bytes } else { 0 }" => "0";
    }
    OPERATIONS_REDIS "queue-core/src/redis/operation/step.lua" {
        "operations: a step that is sent again changes nothing": "elseif of.runner == runner and of.step == plus(step, 1) then" => "elseif false then";
        "operations: a step counts if it is the next": "or of.step ~= step then" => "then";
        "operations: who was taken over changes nothing": "or of.runner ~= runner or" => "or";
        "operations: one that was stopped changes nothing": "elseif of.state ~= 'running' or" => "elseif";
        "operations: what could not come back is counted": "    failed = failed + 1\n" => "";
        "operations: a job that has changed meanwhile stays": "string.find(',' .. states .. ',', ',' .. job[1] .. ',', 1, true) and enqueued_at" => "enqueued_at";
        "operations: another job of the id stays": "and enqueued_at(job[2]) <= whole(of.started) then" => "then";
        "operations: it has ended with its last step": "if ends ~= '' then" => "if false then";
    }
    OPERATIONS_REDIS "queue-core/src/redis/operation/set.lua" {
        "operations: a queue has one at a time": "if known and known.state == 'running' then" => "if false then";
        "operations: the oldest go": "for at = C.operations_kept, #ended do" => "for at = 1000, #ended do";
        "operations: who is at it is not taken over": "or not (is_mine or is_left) then" => "then";
        "operations: a step of before that comes late changes nothing": "of.runner, of.step, of.stepped = ARGV[3], plus(of.step, 1), ms(now)" => "of.runner, of.stepped = ARGV[3], ms(now)";
        "operations: one that has ended stays as it is": "elseif deed == 'stop' and of.state == 'running' then" => "elseif deed == 'stop' then";
    }
    OPERATIONS_REDIS "queue-core/src/redis/operation/pop.lua" {
        "drain: what is too new stays": "math.max(enqueued_at(bodies[at]), failed) > upto and stay or gone" => "gone";
        "drain: what is too new keeps its place": "        put_back(list, stay)\n" => "";
        "drain: a gap goes with its tomb": "if not (has('t') and unearth(id, list)) and is_here then" => "if is_here then";
        "drain: nothing is left": "        end_gone(gone)\n" => "";
        "drain: a given id is free": "          free_id(id)\n" => "";
    }
    OPERATIONS_REDIS "queue-core/src/redis/people/scan.lua" {
        "operations: results are counted as well": "(job and bytes_of(job) or #items[at + 1])" => "(job and #job[2] or #items[at + 1])";
        "operations: other states are not met": "if job and is_wanted[job[1]] then" => "if job then";
    }
    OPERATIONS_REDIS "queue-core/src/redis/people/scan.rs" {
        "operations: ready jobs are looked for among all": "if request.goes_through_all() {" => "if false {";
        "operations: who goes from retry to scheduled is met": "    (\"active\", &[JobState::Active]),\n    (\"retry\", &[JobState::Retry]),\n    (\"scheduled\", &[JobState::Scheduled]),\n" => "    (\"active\", &[JobState::Active]),\n    (\"scheduled\", &[JobState::Scheduled]),\n    (\"retry\", &[JobState::Retry]),\n";
        "operations: each place is gone through": "places.get(at + 1).map(|place| (*place, 0, &life))" => "None";
        "operations: on another server a walk begins anew": "at > 0 && alive != life" => "false";
    }
    OPERATIONS_REDIS "queue-core/src/inspector/operations/run.rs" {
        "operations: what is too new is not concerned": "at <= started" => "true";
        "operations: what does not match stays": "self.concerns(job) && self.filter.matches(job, now)" => "self.concerns(job)";
        "operations: who has not started it has another name": "operation.is_own" => "true";
        "operations: after a lost answer it goes on from what is stored": "self.is_mine = false" => "()";
        "operations: a part counts what it has looked at": "part.len() as u64" => "0";
        "operations: a position that cannot be read begins anew": "self.is_mine && self.after.is_some()" => "false";
        "operations: who was taken over ends": "operation.runner.as_deref() == Some(&*self.runner)" => "true";
    }
    OPERATIONS_REDIS "queue-core/src/broker/scan.rs" {
        "operations: who goes from scheduled to active is met": "places.clone().count() > 1 && !places.all(|state| are_due(&state))" => "false";
    }
    OPERATIONS_CLI "queue-core/src/inspector/operations/mod.rs" {
        "operations: a start without an answer is named": "without_answer(error, queue, &id)" => "error";
    }
    OPERATIONS_SQLITE "queue-core/src/broker/operation/mod.rs" {
        "operations: on SQLite a step that is sent again changes nothing": "if is_mine && operation.step == step.step + 1 {" => "if false {";
        "operations: on SQLite who was taken over changes nothing": "!is_mine || !operation.is_running() || operation.step != step.step" => "!operation.is_running() || operation.step != step.step";
        "operations: on SQLite a queue has one at a time": "stored.iter().find(|operation| operation.is_running())" => "stored.iter().find(|_| false)";
        "operations: on SQLite a job that has changed meanwhile stays": "states.contains(&job.state) && enqueued.is_none_or(|at| at <= started_ms)" => "enqueued.is_none_or(|at| at <= started_ms)";
        "operations: on SQLite the oldest go": "stored.len().saturating_sub(OPERATIONS_KEPT - 1)" => "0";
    }
    OPERATIONS_SQLITE "queue-core/src/sqlite/people/scan.rs" {
        "operations: on SQLite jobs that move are looked for among all": "request.meets_movers && !request.states.iter().all(|state| state.is_final())" => "false";
    }
    OPERATIONS_SQLITE "queue-core/src/sqlite/people/scan_all.sql" {
        "operations: on SQLite a walk goes on behind the last id": "job.id > ?2" => "job.id >= ?2";
    }
    OPERATIONS_REDIS "queue-core/src/redis/people/scan.lua" {
        "scan: a step through all jobs ends with a mebibyte": " or size >= C.max_bytes or" => " or";
    }
    OPERATIONS_REDIS "queue-core/src/redis/people/show.lua" {
        "scan: a step through the states ends with a mebibyte": "if size >= C.max_bytes then" => "if false then";
    }
    OPERATIONS_SQLITE "queue-core/src/sqlite/people/scan.rs" {
        "sqlite scan: a step through the states ends with a mebibyte": "if size >= MAX_BYTES && last.is_some() {" => "if false {";
        "sqlite scan: a step through all jobs ends with a mebibyte": "        if size >= MAX_BYTES {\n            break;" => "        if false {\n            break;";
        "sqlite scan: a step by a tag ends with a mebibyte": "size < MAX_BYTES" => "true";
    }
    TAGS_REDIS "queue-core/src/inspector/search.rs" {
        "tags: an operation looks at the jobs that have the tag": "self.tagged(name, value)" => "self";
    }
    TAGS_REDIS "queue-core/src/inspector/walk.rs" {
        "tags: a list goes on where it was after an error": "self.place.clone()" => "self.place.take()";
        "tags: a list looks at the jobs that have the tag": "if self.filter.tag().is_some() {" => "if false {";
        "tags: a list goes on behind the jobs that were skipped": "begins + last as u64 + 1" => "begins + last as u64";
    }
    REWINDS_REDIS "queue-core/src/redis/topic/feed.lua" {
        "rewinds: half of one reads nothing": "if not of or of.token then" => "if not of then";
    }
    REWINDS_REDIS "queue-core/src/redis/topic/rewind.lua" {
        "rewinds: a begin that comes late changes nothing": "before ~= ARGV[6] and of.token ~= ARGV[4] then" => "false then";
        "rewinds: what was read is let go of": "if not remove(id) and call('HEXISTS', K.jobs, id) == 0 then" => "if false then";
        "rewinds: another one takes over": "elseif of.token ~= (step == 'forget' and ARGV[4] or mark) then" => "elseif false then";
        "rewinds: a job that runs is not cancelled": "if call('HEXISTS', K.active, id) == 0 and cancel_waiting(" => "if cancel_waiting(";
        "rewinds: one that was taken over has not ended it": "and of.ended == mark then" => "then";
        "rewinds: a step looks at so many entries": "while more and passed < C.trim_step and size" => "while more and size";
        "rewinds: what was read before half of one is let go of": "if not of.upto or is_behind(of.cursor, of.upto) then" => "if true then";
        "rewinds: the place in the log is known": "of.position = of.upto_position - whole(ARGV[4])" => "of.position = nil";
    }
    REWINDS_REDIS "queue-core/src/redis/topic/subscription.lua" {
        "rewinds: what was read before one that has ended is let go of": "(of.token or is_behind(of.upto, of.cursor)) then" => "of.token then";
    }
    TOPICS_REDIS "queue-core/src/redis/topic/subscription.lua" {
        "topics: a step over large events passes few of them": "local fit = read == 0 and 4 or" => "local fit = 50 or";
    }
    TOPICS_SQLITE "queue-core/src/sqlite/topic/mod.rs" {
        "topics: on SQLite a step over large events removes few of them": "begun - size < MOST_BYTES" => "true";
    }
    REWINDS_SQLITE "queue-core/src/sqlite/topic/rewind.rs" {
        "rewinds: on SQLite what was read is let go of": "people::remove(tx, queue, id)?" => "true";
        "rewinds: on SQLite another one takes over": "under_way.as_ref() != Some(token) =>" => "false =>";
        "rewinds: on SQLite one that was taken over has not ended it": "ended.as_ref() == Some(token)" => "under_way.is_none()";
        "rewinds: on SQLite a begin that comes late changes nothing": "under_way.as_ref().or(ended.as_ref()).map_or(\"\", String::as_str) != after" => "false";
        "rewinds: on SQLite what was read before half of one is let go of": "upto.unwrap_or(0).max(cursor)" => "cursor";
        "rewinds: on SQLite what was read before one that has ended is let go of": "before.parse().unwrap_or(0)" => "0";
    }
    REWINDS_SQLITE "queue-core/src/sqlite/topic/feed.rs" {
        "rewinds: on SQLite half of one reads nothing": " AND name = ?2 AND upto IS NULL" => " AND name = ?2";
    }
    TOPICS_REDIS "queue-core/src/redis/topic/feed.lua" {
        "topics: a subscription reads no further than it may": "math.min(C.most_taken - taken, " => "math.min(";
        "topics: it reads no more than can start": "wanted - startable()" => "wanted";
        "topics: one that claims few reads for itself alone": "and wanted >= C.reads_ahead then" => "then";
        "topics: what was read is not read again": "of.cursor = entries[#entries][1]" => "of.cursor = of.cursor";
        "topics: a paused one reads nothing": "if has('h') and head[5] == '1' then" => "if false then";
    }
    TOPICS_REDIS "queue-core/src/redis/topic/event.lua" {
        "topics: a given id is one job": "not (is_given and call('HEXISTS', K.given, id) == 1)" => "true";
        "topics: an event has its group": "if group and group ~= '' and #group <= 256 then" => "if false then";
    }
    TOPICS "queue-core/src/redis/topic/event.lua" {
        "topics: what nobody can read is a dead letter": "if problem then" => "if false then";
        "topics: headers and tags of another program are texts": "or not is_text(value)" => "or false";
        "topics: headers of another program are looked at": "texts_of(headers, C.most_headers, C.header_bytes)" => "unpacked(headers)";
    }
    TOPICS_REDIS "queue-core/src/redis/topic/trim.lua" {
        "topics: what a subscription has not read stays": "stays = not is_over or old <= lag and slowest and is_behind(id, slowest)" => "stays = not is_over";
        "topics: what is lost is counted": "lost, of.lost, of.cursor, of.changed = lost + missed, of.lost + missed, ids[gone], true" => "lost, of.cursor, of.changed = lost + missed, ids[gone], true";
    }
    TOPICS_REDIS "queue-core/src/redis/topic/publish.lua" {
        "topics: each subscription is told": "redis.pcall('SPUBLISH'" => "tostring('SPUBLISH'";
    }
    TOPICS_SQLITE "queue-core/src/sqlite/topic/feed.rs" {
        "topics: on SQLite it reads no more than can start": "could_start < turn.claim" => "true";
        "topics: on SQLite it reads no further than it may": "taken < MOST_TAKEN && read < TRIM_STEP" => "read < TRIM_STEP";
    }
    TOPICS "queue-worker/src/worker/check.rs" {
        "topics: functions of one subscription agree": "known.begin != begin" => "false";
    }
    LIMITS_REDIS "queue-core/src/redis/doors/limits.lua" {
        "limits: one that has no free slot lets nothing start": "return state_of(key).left <= 0 and FOREVER or L.opens_at(key, cost)" => "return L.opens_at(key, cost)";
        "limits: a rate spreads starts": "return wait > 0 and math.max(upto or 0, math.ceil((micros + wait) / 1000)) or upto" => "return upto";
        "limits: one that has had enough waits": "local upto = state.closed > now and state.closed or nil" => "local upto = nil";
        "limits: a claim takes of a key what it may, and no more": "state.left = state.left - (back and -1 or 1)" => "state.left = state.left - 0";
        "limits: a start is charged": "put_rare('m', K.tat, key, ms(micros + state.ahead)" => "put_rare('m', K.tat, key, ms(micros)";
        "limits: what waits for a key is let in when it has room": "      if is_waited_for(key) then\n        roomy[" => "      if false then\n        roomy[";
        "limits: what waits for a rate is let in in time": "    if at < FOREVER then\n      call('ZADD', K.wake" => "    if false then\n      call('ZADD', K.wake";
        "limits: a job that has not started gives its start back": "L.take(chain, id, true)\n      L.write()" => "L.write()";
        "limits: a changed rate leaves as many starts ahead": "state.ahead, state.dirty = math.floor(state.ahead / (period / starts) * rule.step), true" => "state.dirty = true";
        "limits: what a run has really used is charged": "if starts and state.rule.step then" => "if false then";
        "limits: what a run has not used is given back": "- charge(state.rule, declared)\n" => "\n";
        "limits: who waits for a job that costs more says so": "return at > math.max(now, upto or 0) and not call('ZSCORE', K.roomy, key) and at or upto" => "return upto";
        "limits: each key that runs is held": "slots[at] = '\\255' .. key .. '\\0' .. id" => "slots[at] = slots[1]";
    }
    LIMITS_REDIS "queue-core/src/redis/doors/groups.lua" {
        "limits: an ordered group keeps its order over many keys": "limits().first_numbered(prefix, is_in_line)" => "nil";
        "limits: slots are given back with the run": "for _, slot in ipairs(limits().slots(chain, ids[at])) do" => "for _, slot in ipairs({}) do";
    }
    RECORDS_REDIS "queue-core/src/redis/turn/others.lua" {
        "limits: rate limits are counted apart from snoozes": "one_more('z', K.snoozes, id, 4294967296)" => "one_more('z', K.snoozes, id)";
    }
    RECORDS_SQLITE "queue-core/src/sqlite/doors/back.rs" {
        "sqlite limits: rate limits are counted apart from snoozes": "snoozed(tx, queue, &job, ONE_RATE_LIMITED)?" => "snoozed(tx, queue, &job, 1)?";
    }
    WORKER "queue-worker/src/run/ending.rs" {
        "limits: a job that is rate limited for ever is buried": "context.rate_limited() + 1 >= RATE_LIMITED_MOST" => "false";
    }
    GROUPS_CLI "queue-core/src/inspector/groups.rs" {
        "groups: a cap below the order of all groups is refused": "rule.check_below(of, &of_all)?" => "()";
    }
    LIMITS_REDIS "queue-core/src/redis/doors/turns.lua" {
        "limits: in an ordered group nobody passes": "not entry.holder and is_in_order(entry.group) and first_in_line(entry.group)" => "nil";
        "limits: jobs with limits have half of the turns": "math.floor(entry.start / entry.cost) * 0.618033988749895 % 1 < 0.5" => "false";
        "limits: plain jobs with limits take the place of no group": "1, limited and n + 1 or n" => "1, n";
        "limits: plain jobs with limits count for their share": "depth - chained, plain + chained" => "depth, plain";
    }
    LIMITS_REDIS "queue-core/src/redis/turn/used.lua" {
        "limits: what a run has used counts under its tag": "if has('m') and call('HGET', K.active, id) == lane .. ':' .. claim then" => "if has('m') then";
    }
    LIMITS "queue-core/src/redis/doors/limits.lua" {
        "limits: a rate that a wrong clock has stored is brought back": "state.dirty = state.dirty or state.ahead > rule.most" => "state.dirty = state.dirty";
        "limits: a key is kept for a job that costs more": "if upto ~= FOREVER then\n        upto = L.reserved_until(key, upto)" => "if false then\n        upto = nil";
        "limits: a key is kept while a job waits for it": "and is_waited_for(key) and at or upto" => "and at or upto";
    }
    LIMITS "queue-core/src/sqlite/doors/ledger.rs" {
        "sqlite limits: a rate that a wrong clock has stored is brought back": "tat - tx.micros() > gcra::most(&rule)" => "false";
        "sqlite limits: a key is kept for a job that costs more": "reserved_until(tx, queue, key, &self.state(tx, queue, key)?.rule, opens)?" => "opens";
    }
    LIMITS "queue-worker/src/pump/mod.rs" {
        "limits: what a handler says of its cost travels with the ending": "held.handler.as_ref().and_then(|handler| handler.context.used())" => "None";
    }
    LIMITS_REDIS "queue-core/src/broker/turn.rs" {
        "limits: a job that has not started says nothing of what it used": "self.used.as_deref().filter(|_| self.ending.has_started())" => "self.used.as_deref()";
    }
    CORE "queue-core/src/limit/gcra.rs" {
        "limits: more than the burst is charged in full": "(f64::from(actual) * rate.step())" => "(f64::from(actual.min(rule.burst())) * rate.step())";
    }
    LIMITS "queue-core/src/redis/enqueue/mod.rs" {
        "limits: a lane that knows none keeps them out": "bits.and(Bits::of(&[Bit::Grouped, Bit::Limited]))" => "bits.with(Bit::Grouped)";
    }
    LIMITS "queue-core/src/redis/audit/audit.lua" {
        "limits: a key at which nobody will look is found": "call('ZSCORE', K.shut, ARGV[i]) and not limits().is_watched(key)" => "false";
    }
    LIMITS_SQLITE "queue-core/src/sqlite/doors/ledger.rs" {
        "sqlite limits: one that has no free slot lets nothing start": "Ok(self.state(tx, queue, key)?.left <= 0)" => "Ok(false)";
        "sqlite limits: one that has had enough waits": "*closed > tx.now" => "false";
        "sqlite limits: what a run has really used is charged": "gcra::corrected(&state.rule, state.ahead, limited.cost, starts)" => "state.ahead";
        "sqlite limits: a rate spreads starts": "wait > 0" => "wait < 0";
        "sqlite limits: a closed key opens no earlier than its rate": "closed.max(rated)" => "closed.or(rated)";
    }
    LIMITS_SQLITE "queue-core/src/sqlite/doors/chains.rs" {
        "sqlite limits: jobs with limits have half of the turns": "turn.wrapping_mul(GOLDEN) < 1 << 63" => "false";
    }
    LIMITS_SQLITE "queue-core/src/inspector/why.rs" {
        "why: a closed group is told beside who holds its line": "*cap == 0 || !is_held" => "!is_held";
        "why: a closed limit waits for no holder": "if concurrency > 0 { holders } else { Vec::new() }" => "holders";
    }
    LIMITS_SQLITE "queue-core/src/sqlite/doors/keys.rs" {
        "sqlite limits: a job that is replaced leaves nothing at its old priority": "groups::tidy_chains(tx, queue, id)?" => "()";
    }
    LIMITS_SQLITE "queue-core/src/sqlite/doors/limits.rs" {
        "sqlite limits: who waits for a job that costs more says so": "if !is_full {" => "if false {";
        "sqlite limits: what waits for a key is let in when it has room": "if is_waited_for(tx, queue, key)? {" => "if false {";
    }
    CORE "queue-core/src/client/limits.rs" {
        "limits: a cost above the burst is refused": "limit.rule.rate.is_some() && cost > limit.rule.burst()" => "false";
    }
    GROUPS "queue-worker/src/worker/check.rs" {
        "groups: tasks of a queue agree on them": "if rule != task.group_rule {" => "if false {";
    }
    LIMITS "queue-worker/src/worker/check.rs" {
        "limits: tasks that share one agree": "if rule != limit.rule {" => "if false {";
    }
    CORE "queue-core/src/broker/limit.rs" {
        "limits: what a person has set outlives what code declares": "set.over(declared)" => "declared";
        "limits: a rollback takes effect": "if self.declared.iter().any(|declared| live.contains(&declared.0)) {" => "if false {";
    }
    CORE "queue-core/src/fingerprint.rs" {
        "failures: an id is taken out as a whole": "if is_id(word) {" => "if false {";
        "failures: an apostrophe opens nothing": "begins || c != '\\''" => "true";
        "failures: a word that may be cut does not count": "if is_cut && pattern.len() < LONGEST {" => "if false {";
    }
    CORE "queue-core/src/broker/history/failures.rs" {
        "failures: what is long over is not told": "age <= FAILURES_TOLD" => "true";
    }
    FAILED_REDIS "queue-core/src/redis/history/failed.lua" {
        "failures: what was seen last stays": "first < second or first == second and one < other" => "first > second";
        "failures: their number is bounded": "for at = 1, #order - C.kinds + 1 do" => "for at = 1, 0 do";
        "failures: when the first was seen stays": "whole(row[1]), math.floor(now)" => "math.floor(now), math.floor(now)";
        "failures: names are bounded": "while #names > most do" => "while false do";
    }
    FAILED_SQLITE "queue-core/src/sqlite/history/failures.rs" {
        "sqlite failures: their number is bounded": "tx.sql(ROOM)?.execute(params![queue.key, Unsigned(KINDS - 1)])?" => "0";
    }
    WATCHING "queue-core/src/redis/doors/transitions.lua" {
        "watching: the bit goes with the mark": "if #some < FORGOTTEN_AT_ONCE and bits and string.find(bits, 'v', 1, true) then" => "if false then";
        "watching: nothing is told without a mark": "is_marked = upto > now and upto <= now + C.followed_ms" => "is_marked = true";
        "watching: what one request does not tell is counted": "call('HSET', K.meta, 'transitions', ms(last + n))" => "call('HSET', K.meta, 'transitions', ms(last + #piece / 4 - 1))";
    }
    TRANSITIONS_REDIS "queue-core/src/redis/doors/settle.lua" {
        "watching: a job that was active is told as such": "left(ids, 'active')" => "";
    }
    TRANSITIONS_SQLITE "queue-core/src/sqlite/connection/told.sql" {
        "watching: on SQLite each change is told": "AFTER UPDATE OF state ON queue_jobs" => "AFTER UPDATE OF digest ON queue_jobs";
        "watching: on SQLite a reason is cut by its bytes": "substr(CAST(NEW.note AS BLOB), 1, 200)" => "substr(NEW.note, 1, 200)";
    }
    CORE "queue-core/src/broker/transition.rs" {
        "watching: what is lost is counted": "(upto - after).saturating_sub(told.len() as u64)" => "0";
        "watching: a reason ends with a whole character": "problem.error_len().is_none()" => "false";
    }
    CORE "queue-core/src/client/watch/round.rs" {
        "watching: another server may lack the last": "!stood || life != self.life" => "!stood";
        "watching: another server is known by its answer": "read.life != self.life" => "false";
    }
    WORKER "queue-worker/src/failures.rs" {
        "failures: a report is bounded": "kinds.len() < KINDS_REPORTED - 1" => "true";
    }
    DASHBOARD "queue-dashboard/src/pages/act_all.rs" {
        "failures: only those who failed so are changed": "format!(\"state={state} failure={print}\").parse()?" => "format!(\"state={state}\").parse()?";
    }
    CORE "queue-core/src/schedule/step.rs" {
        "schedules: a tick sees that the last job has not ended": "state.running.is_some()" => "false";
    }
    DECODERS "queue-core/src/redis/connection/sentinel.rs" {
        "sentinels: an address that cannot be is refused": "if host.is_empty() || host.len() > NAME_MAX || port == 0 {" => "if false {";
        "sentinels: a message repeats few names": "cut(names.collect::<Vec<_>>().join(\", \"), NAMES_MAX)" => "names.collect::<Vec<_>>().join(\", \")";
    }
}
