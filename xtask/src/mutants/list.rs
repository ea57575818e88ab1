//! The safeguards that are removed: those of the protocol, in scripts and statements. The list has
//! at most 60, because each repeats a line of its script.

/// A safeguard, how it is removed, and the test that detects that.
pub(super) struct Mutant {
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    /// The text, which occurs once in the file.
    pub(super) find: &'static str,
    pub(super) replace: &'static str,
    /// A test program of `queue-tests`.
    pub(super) program: &'static str,
    pub(super) test: &'static str,
}

macro_rules! mutants {
    ($($file:literal { $($name:literal: $find:literal => $replace:literal in $program:ident $test:literal;)* })*) => {
        pub(super) const MUTANTS: &[Mutant] = &[
            $($(Mutant { name: $name, file: $file, find: $find, replace: $replace, program: stringify!($program), test: $test },)*)*
        ];
    };
}

mutants! {
    "queue-core/src/redis/turn/turn.lua" {
        "turn: a lane must be known": "if not last or seq > last + 1 then" => "if seq > last + 1 then"
            in conformance "on_redis::turns::a_lane_that_never_registered_is_forgotten";
        "turn: an old sequence is refused": "elseif seq < last then" => "elseif false then"
            in conformance "on_redis::turns::an_older_turn_is_refused_as_old";
        "turn: a replay is recognised": "if seq == last then" => "if false then"
            in conformance "on_redis::turns::a_delivery_that_was_cancelled_is_void_in_a_replay";
        "turn: claim numbers grow": "math.max(last_number < FOREVER / 4 and last_number + 1 or 0, now)" => "1"
            in conformance "on_redis::reclaims::uncharged_jobs_return_to_the_head";
        "turn: a lease is renewed": "call('ZADD', K.leases, ms(now + ARGV[3]), lane)" => ""
            in conformance "on_redis_by_full_scripts::leases::a_turn_renews_the_lease";
    }
    "queue-core/src/redis/turn/acks.lua" {
        "turn: an ack needs its receipt": "if receipts[at] == receipt then" => "if true then"
            in conformance "on_redis::turns::a_finish_of_another_lane_is_stale";
    }
    "queue-core/src/redis/turn/others.lua" {
        "turn: another ending needs its receipt": "if call('HGET', K.active, id) ~= lane .. ':' .. claim then" => "if false then"
            in conformance "on_redis::turns::a_delivery_that_was_cancelled_is_void_in_a_replay";
    }
    "queue-core/src/redis/turn/replay.lua" {
        "turn: a replay voids what was taken away": "if receipts[at] ~= lane .. ':' .. claim then" => "if false then"
            in conformance "on_redis::turns::a_delivery_that_was_cancelled_is_void_in_a_replay";
    }
    "queue-core/src/redis/turn/claim.lua" {
        "turn: a paused queue gives nothing out": "if not paused and wanted > 0 then" => "if wanted > 0 then"
            in conformance "on_redis::pauses::a_queue_reports_who_paused_it_and_why";
    }
    "queue-core/src/redis/turn/claim_parked.lua" {
        "turn: one suspect at a time": "may_suspect = may_suspect and not crashes[at]" => "may_suspect = true"
            in conformance "on_redis::reclaims::a_parked_suspect_is_resumed_like_any_other_suspect";
    }
    "queue-core/src/redis/turn/turn_plain.lua" {
        "plain turn: it is for the next turn": "string.match(entry, '^%d+') or '') ~= seq - 1 then" => "string.match(entry, '^%d+') or '') == nil then"
            in conformance "on_redis::turns::a_turn_that_skips_ahead_is_forgotten";
        "plain turn: it is for queues without rare features": " or string.find(bits, C.not_plain_turn)" => ""
            in conformance "on_redis::turns::a_claim_among_cancelled_jobs_takes_no_more_than_was_asked_for";
        "plain turn: an ack needs its receipt": "if active[at] ~= receipt then" => "if false then"
            in conformance "on_redis::turns::a_finish_of_another_lane_is_stale";
        "plain turn: attempts go with their job": "    call('HDEL', K.attempts, unpack(acked))\n" => ""
            in property "plain_and_full_scripts_leave_the_same_state";
        "plain turn: the last claim number is stored": "  call('HSET', K.meta, 'claim', number)\n" => ""
            in conformance "on_redis::turns::claim_numbers_grow_with_every_delivery_of_a_job";
        "plain turn: what runs is not handed out": "if active[done + at] or not body" => "if not body"
            in stored "auditor::on_redis::a_claim_hands_out_no_job_that_runs";
        "plain turn: an id that is there twice is handed out once": "if doubled > 0 then" => "if false then"
            in stored "auditor::on_redis::a_claim_hands_out_no_job_that_runs";
        "plain turn: errors go with their job": "    call('HDEL', K.errors, unpack(acked))\n" => ""
            in property "plain_and_full_scripts_leave_the_same_state";
    }
    "queue-core/src/redis/enqueue/kinds.lua" {
        "enqueue: a given id exists once": "if known then\n    return known == digest" => "if false then\n    return known == digest"
            in conformance "on_redis::enqueues::a_finished_given_id_is_remembered";
        "progress: a record that is replaced takes it along": "delete_progress({ id })" => ""
            in conformance "on_redis::progress::a_job_that_is_gone_leaves_no_progress";
    }
    "queue-core/src/redis/enqueue/sequence.lua" {
        "enqueue: a replay is recognised": "elseif last - seq == 0 then" => "elseif false then"
            in conformance "on_redis::enqueues::a_replay_after_thousands_of_other_jobs_is_recognised";
        "enqueue: an old sequence is refused": "elseif last - seq > 0 or" => "elseif"
            in conformance "on_redis::enqueues::an_older_enqueue_is_refused_as_old";
        "enqueue: a producer must be known": "  return redis.error_reply('FORGOTTEN ' .. ARGV[1])" => "  last = 0"
            in conformance "on_redis::enqueues::an_unknown_producer_is_forgotten_and_nothing_is_stored";
    }
    "queue-core/src/redis/lease/extend.lua" {
        "extend: lost turns are noticed": "tonumber(string.match(entry, '^%d+') or -1) < tonumber(ARGV[2])" => "false"
            in conformance "on_redis::leases::a_heartbeat_beyond_what_the_broker_knows_is_forgotten";
    }
    "queue-core/src/redis/lease/fence.lua" {
        "fence: only the lease that was seen": "whole(deadline) == tonumber(ARGV[i + 1])" => "true"
            in conformance "on_redis::leases::a_fence_wants_the_exact_deadline_and_its_end";
        "fence: only a lease that is over": "whole(deadline) <= now" => "true"
            in corrupt "late::on_redis::a_lease_that_is_not_over_is_not_fenced_by_whoever_knows_its_end";
    }
    "queue-core/src/redis/lease/reclaim.lua" {
        "reclaim: the receipt must be the one seen": "call('HGET', K.active, id) == receipt and" => ""
            in corrupt "late::on_redis::a_late_reclaim_takes_nothing_from_a_later_holder_or_from_one_that_lives";
        "reclaim: the lane must be fenced": "and call('HEXISTS', K.lanes, lane_of(receipt) or '') == 0" => ""
            in corrupt "late::on_redis::a_late_reclaim_takes_nothing_from_a_later_holder_or_from_one_that_lives";
        "reclaim: the last crash buries": "if crashes >= crash_limit(id) then" => "if false then"
            in conformance "on_redis::reclaims::a_job_buried_for_its_crashes_can_be_requeued";
    }
    "queue-core/src/redis/doors/settle.lua" {
        "settle: a job that has ended is active no more": "call('HDEL', K.active, unpack(ids))" => "local _ = ids"
            in conformance "on_redis::endings::a_burial_without_error_counts_no_attempt";
    }
    "queue-core/src/redis/doors/ready.lua" {
        "ready: nothing starts early": "call('ZRANGEBYSCORE', key, '-inf', ms(now)," => "call('ZRANGEBYSCORE', key, '-inf', '+inf',"
            in conformance "on_redis::changes::a_lane_at_work_leaves_nothing_of_what_has_failed";
    }
    "queue-core/src/redis/doors/keys.lua" {
        "keys: a job gives back only what it holds": "if holders[at] == mine[at] then" => "if true then"
            in conformance "on_redis::keys::a_job_that_comes_back_to_a_key_of_a_younger_one_is_superseded";
    }
    "queue-core/src/redis/doors/end.lua" {
        "keys: the end frees a key": "release_keys(ids, true)" => "release_keys({}, true)"
            in conformance "on_redis::keys::every_end_lets_the_successor_follow";
    }
    "queue-core/src/redis/doors/groups.lua" {
        "groups: a slot is given back with the run": "call_in_pieces('ZREM', K.holders, slots)" => "call('ZCARD', K.holders)"
            in conformance "on_redis::groups::a_changed_cap_holds_from_the_next_claim_on";
        "groups: the end of a job frees its line": "if lines and call('HGET', K.front, group) == ids[at] then" => "if false then"
            in conformance "on_redis::lines::the_end_of_a_job_frees_the_line";
        "groups: the job that blocks the group line goes first": "elseif holder_of_line(group) == id then" => "elseif false then"
            in conformance "on_redis::lines::a_job_that_waits_for_its_retry_blocks_the_group_line";
    }
    "queue-core/src/redis/doors/rotation.lua" {
        "groups: a group pays for its start": "entry.start + entry.cost, entry.room > 0" => "entry.start, entry.room > 0"
            in conformance "on_redis::groups::one_claim_takes_from_groups_in_turn";
    }
    "queue-core/src/redis/doors/limits.lua" {
        "limits: one that has no free slot lets nothing start": "return state_of(key).left <= 0 and FOREVER or L.opens_at(key, cost)" => "return L.opens_at(key, cost)"
            in conformance "on_redis::limits::a_cancelled_job_leaves_no_slot";
        "limits: a claim takes of a key what it may, and no more": "state.left = state.left - (back and -1 or 1)" => "state.left = state.left - 0"
            in conformance "on_redis::limits::a_cancelled_job_leaves_no_slot";
    }
    "queue-core/src/redis/schedule/set.lua" {
        "schedules: a state that was changed meanwhile is stale": "(call('HGET', K.states, name) or '') ~= ARGV[3]" => "false"
            in conformance "on_redis::schedules::a_schedule_that_was_changed_meanwhile_is_stale";
        "schedules: a job that exists is not stored again": "seen[id] or " => ""
            in conformance "on_redis::schedules::a_tick_makes_a_job_in_the_same_transition";
    }
    "queue-core/src/redis/topic/feed.lua" {
        "topics: what was read is not read again": "of.cursor = entries[#entries][1]" => "of.cursor = of.cursor"
            in conformance "on_redis::topics::a_failure_concerns_one_subscription";
    }
    "queue-core/src/redis/topic/trim.lua" {
        "topics: what a subscription has not read stays": "stays = not is_over or old <= lag and slowest and is_behind(id, slowest)" => "stays = not is_over"
            in conformance "on_redis::topics::a_trim_keeps_what_a_subscription_has_not_read";
    }
    "queue-core/src/redis/audit/checks.lua" {
        "audit: a lane without lease is found": "call('HEXISTS', K.lanes, lane) == 1 and not" => "false and not"
            in stored "auditor::on_redis::a_lane_whose_lease_was_deleted_gets_one_that_is_over";
        "keys: one without its job is found": "if stored and not is_key_held(key) and not" => "if false and not"
            in stored "keys::on_redis::a_key_is_recounted_from_the_jobs";
        "groups: a phantom slot is found": "if call('ZSCORE', K.holders, member) and" => "if false and"
            in features "groups::on_redis::slots_and_eligible_groups_are_recounted_from_the_jobs";
        "limits: a key with room that no claim would examine is found": "call('ZSCORE', K.shut, member) and not call('ZSCORE', K.roomy, key)" => "false"
            in features "limits::on_redis::slots_and_chains_are_recounted_from_the_jobs";
    }
    "queue-core/src/sqlite/turn/lane.sql" {
        "sqlite turn: a fenced lane is unknown": "AND NOT fenced" => ""
            in conformance "on_sqlite_file::leases::a_fenced_lane_is_forgotten_in_every_request";
    }
    "queue-core/src/sqlite/doors/end_acked.sql" {
        "sqlite end: an ack needs its receipt": "AND state = ?3 AND rank = ?4 AND pos = ?5" => "AND ?3 + ?4 + ?5 NOT NULL"
            in conformance "on_sqlite_file::turns::a_finish_with_another_claim_number_is_stale";
    }
    "queue-core/src/sqlite/doors/settle_holder.sql" {
        "sqlite settle: another ending needs its receipt": "AND state = ?3 AND rank = ?4 AND pos = ?5" => "AND ?3 + ?4 + ?5 NOT NULL"
            in conformance "on_sqlite_file::endings::jobs_that_are_kept_together_keep_their_own_results";
    }
    "queue-core/src/sqlite/turn/answered.sql" {
        "sqlite turn: a lease is renewed": "deadline = ?4" => "deadline = iif(?4, deadline, 0)"
            in conformance "on_sqlite_file::leases::a_lane_whose_lease_ends_later_than_it_can_is_fenced";
    }
    "queue-core/src/sqlite/lease/extend.sql" {
        "sqlite extend: lost turns are noticed": "AND seq >= ?3" => "AND ?3 NOT NULL"
            in conformance "on_sqlite_file::leases::a_heartbeat_beyond_what_the_broker_knows_is_forgotten";
    }
    "queue-core/src/sqlite/lease/fence.sql" {
        "sqlite fence: only the lease that was seen": "AND deadline = ?3" => "AND ?3 NOT NULL"
            in conformance "on_sqlite_file::leases::a_fence_wants_the_exact_deadline_and_its_end";
        "sqlite fence: only a lease that is over": "(deadline <= ?4 OR deadline > ?4 + duration)" => "?4 NOT NULL"
            in corrupt "late::in_a_sqlite_file_a_lease_that_is_not_over_is_not_fenced_by_whoever_knows_its_end";
    }
    "queue-core/src/sqlite/doors/ready_due.sql" {
        "sqlite ready: nothing starts early": "AND pos <= ?3" => "AND ?3 NOT NULL"
            in conformance "on_sqlite_file::changes::a_lane_at_work_leaves_nothing_of_what_has_failed";
    }
    "queue-core/src/sqlite/progress/gone.sql" {
        "sqlite progress: the row of a job takes it along": "DELETE FROM queue_progress WHERE queue = OLD.queue AND id = OLD.id;" => "SELECT 1;"
            in conformance "on_sqlite_file::progress::a_job_that_is_gone_leaves_no_progress";
    }
    "queue-core/src/sqlite/turn/delivered.sql" {
        "sqlite replay: only what the lane still holds": "AND state = ?3 AND rank = ?4 AND pos = ?5" => "AND ?3 + ?4 + ?5 NOT NULL"
            in conformance "on_sqlite_file::turns::a_delivery_that_was_cancelled_is_void_in_a_replay";
    }
    "queue-core/src/sqlite/audit/key_leaked.sql" {
        "sqlite audit: a key without its job is found": "AND until IS NULL AND NOT EXISTS" => "AND until IS NULL AND NOT NOT EXISTS"
            in stored "keys::keys_in_a_sqlite_file_are_recounted_from_the_jobs";
    }
    "queue-core/src/sqlite/lease/fenced.sql" {
        "sqlite reclaim: only fenced lanes": "WHERE queue = ?1 AND fenced ORDER" => "WHERE queue = ?1 ORDER"
            in conformance "on_sqlite_file::leases::a_fence_takes_one_lane_not_its_process";
    }
}
