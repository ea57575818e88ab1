//! The safeguards that are taken out.

/// One safeguard, and how it is taken out.
pub(super) struct Mutant {
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    /// Occurs once in the file.
    pub(super) find: &'static str,
    pub(super) replace: &'static str,
    /// Arguments of `cargo test` for the tests of which one must fail.
    pub(super) tests: &'static [&'static str],
}

const REDIS: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_redis::"];
const SQLITE: &[&str] = &["-p", "queue-tests", "--test", "conformance", "--", "on_sqlite_file::"];
const REDIS_FAULTS: &[&str] = &["-p", "queue-tests", "--test", "redis_faults", "--", "on_redis"];
const SENTINELS: &[&str] = &["-p", "queue-tests", "--test", "sentinel_faults", "--", "on_redis"];
const CLUSTER: &[&str] = &["-p", "queue-tests", "--test", "cluster_faults", "--", "on_redis"];
const CLIENT: &[&str] = &["-p", "queue-tests", "--test", "client_faults"];
const OUTAGES: &[&str] = &["-p", "queue-tests", "--test", "worker_outages"];
const WORKER: &[&str] = &["-p", "queue-worker", "--tests"];
const DISK: &[&str] = &["-p", "queue-core", "--test", "sqlite_full_disk"];
const CORE: &[&str] = &["-p", "queue-core", "--lib", "--all-features"];
const ACCESS: &[&str] = &["-p", "queue-tests", "--test", "access", "--", "password"];

macro_rules! mutants {
    ($($tests:ident $file:literal { $($name:literal: $find:literal => $replace:literal;)* })*) => {
        pub(super) const MUTANTS: &[Mutant] = &[
            $($(Mutant { name: $name, file: $file, find: $find, replace: $replace, tests: $tests },)*)*
        ];
    };
}

mutants! {
    REDIS "queue-core/src/redis/scripts/turn.lua" {
        "turn: a finish needs its tag": "if tags[at] ~= tag then\n      all = false" => "if false then\n      all = false";
        "turn: a lane must be known": "if not entry then\n  return redis.error_reply('FORGOTTEN ' .. worker)" => "if false then\n  return redis.error_reply('FORGOTTEN ' .. worker)";
        "turn: an old sequence is refused": "if seq < last then" => "if false then";
        "turn: a skipped sequence is refused": "elseif seq > last + 1 then" => "elseif false then";
        "turn: a replay is recognised": "if seq == last then" => "if false then";
        "turn: a replay voids what was taken away": "if tags[i] ~= worker .. ':' .. last_claim then" => "if false then";
        "turn: a newer schema is left alone": "if meta[1] and meta[1] ~= SCHEMA then" => "if false then";
        "turn: claim numbers grow": "math.max(tonumber(meta[3] or '0') + 1, now)" => "1";
        "turn: tombs are dropped": "if has_tombs and #found > 0 then" => "if false then";
        "turn: an answer is bounded in bytes": "if bytes > max_bytes and #ids > 0 then" => "if false then";
        "turn: a paused queue gives nothing out": "if not paused then" => "if true then";
        "turn: a lease is renewed": "call('ZADD', K.leases, ms(now + ARGV[3]), worker)" => "";
    }
    REDIS "queue-core/src/redis/scripts/sequence.lua" {
        "enqueue: a replay is recognised": "elseif seq == last then" => "elseif false then";
        "enqueue: an old sequence is refused": "if seq < last then" => "if false then";
        "enqueue: a producer must be known": "if not entry then" => "if not entry then entry = '0:0' end if false then";
        "enqueue: a newer schema is left alone": "if meta[1] and meta[1] ~= SCHEMA then" => "if false then";
    }
    REDIS "queue-core/src/redis/scripts/enqueue.lua" {
        "enqueue: a given id exists once": "if not known then" => "if true then";
        "enqueue: another payload is a conflict": "known == digest and 1 or 2" => "1";
    }
    REDIS "queue-core/src/redis/scripts/extend.lua" {
        "extend: a lane must be known": "if not entry or tonumber" => "if entry and tonumber";
        "extend: lost turns are noticed": "tonumber(string.match(entry, '^%d+')) < tonumber(ARGV[2])" => "false";
    }
    REDIS "queue-core/src/redis/scripts/fence.lua" {
        "fence: only the lease that was seen": "tonumber(deadline) == tonumber(ARGV[i + 1])" => "true";
        "fence: only a lease that is over": "tonumber(deadline) <= now" => "true";
        "fence: the lane is forgotten": "call('HDEL', K.workers, ARGV[i])" => "";
    }
    REDIS "queue-core/src/redis/scripts/reclaim.lua" {
        "reclaim: the tag must be the one seen": "call('HGET', K.active, id) == tag and" => "";
        "reclaim: the lane must be fenced": "and call('HEXISTS', K.workers, worker_of(tag)) == 0" => "";
    }
    REDIS "queue-core/src/redis/scripts/schema.lua" {
        "other scripts: a newer schema is left alone": "if schema and schema ~= SCHEMA then" => "if false then";
    }
    REDIS "queue-core/src/redis/scripts/ready.lua" {
        "ready: an id lies there once": "if tonumber(at) == list then" => "if false then";
        "ready: a tomb goes with the id in another list": "call('LREM', LISTS[tonumber(at)], 1, id)" => "";
    }
    REDIS "queue-core/src/redis/scripts/prelude.lua" {
        "scripts: lists are unpacked in pieces": "math.min(from + PIECE - 1, #list)" => "#list";
    }
    REDIS "queue-core/src/redis/scripts/cancel.lua" {
        "cancel: a worker hears of it": "if #gone < 500 then" => "if false then";
    }
    REDIS_FAULTS "queue-core/src/redis/script.rs" {
        "full: finishes work on a full server": "script!(TURN, \"turn\", \"flags=allow-oom\"" => "script!(TURN, \"turn\", \"\"";
        "full: beats work on a full server": "script!(EXTEND, \"extend\", \"flags=allow-oom\"" => "script!(EXTEND, \"extend\", \"\"";
    }
    REDIS_FAULTS "queue-core/src/redis/link.rs" {
        "link: a silent connection is given up": "if timeouts >= TIMEOUTS {" => "if false {";
    }
    SENTINELS "queue-core/src/redis/sentinel.rs" {
        "sentinel: connections to the old master are dropped": "if self.master.endpoint.move_to(" => "if false && self.master.endpoint.move_to(";
    }
    CLUSTER "queue-core/src/redis/refusal.rs" {
        "cluster: a slot that is moving is waited for": " | \"TRYAGAIN\"))" => "))";
    }
    CLUSTER "queue-core/src/redis/cluster.rs" {
        "cluster: a redirection is followed": "let (address, slot) = error.redirect_node()?;" => "let (address, slot) = error.redirect_node().filter(|_| false)?;";
    }
    ACCESS "queue-core/src/redis/url.rs" {
        "access: a password file is read again": "settings = settings.set_password(password(file)?);" => "static ONCE: std::sync::OnceLock<String> = std::sync::OnceLock::new(); settings = settings.set_password(ONCE.get_or_init(|| password(file).unwrap_or_default()));";
    }
    SQLITE "queue-core/src/sqlite/turn.rs" {
        "sqlite turn: a fenced lane is unknown": "WHERE queue = ?1 AND name = ?2 AND NOT fenced" => "WHERE queue = ?1 AND name = ?2";
        "sqlite turn: an old sequence is refused": "if turn.seq < last {" => "if false {";
        "sqlite turn: a skipped sequence is refused": "if turn.seq > last + 1 {" => "if false {";
        "sqlite turn: a replay is recognised": "if turn.seq == last {" => "if false {";
        "sqlite turn: claim numbers grow": "queue.claim = tx.now.max(queue.claim + 1);" => "queue.claim = 1;";
    }
    SQLITE "queue-core/src/sqlite/finish.rs" {
        "sqlite finish: an ack needs its tag": "DELETE FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND state = ?3 AND rank = ?4 AND pos = ?5" => "DELETE FROM queue_jobs WHERE queue = ?1 AND id = ?2 AND ?3 + ?4 + ?5 NOT NULL";
        "sqlite finish: another ending needs its tag": "             WHERE queue = ?1 AND id = ?2 AND state = ?3 AND rank = ?4 AND pos = ?5" => "             WHERE queue = ?1 AND id = ?2 AND ?3 + ?4 + ?5 NOT NULL";
    }
    SQLITE "queue-core/src/sqlite/enqueue.rs" {
        "sqlite enqueue: a replay is recognised": "if request.seq == last {" => "if false {";
        "sqlite enqueue: an old sequence is refused": "if request.seq < last {" => "if false {";
        "sqlite enqueue: another payload is a conflict": "if digest == job.digest.cast_signed() { Enqueued::Existing }" => "if true { Enqueued::Existing }";
    }
    SQLITE "queue-core/src/sqlite/reclaim.rs" {
        "sqlite extend: lost turns are noticed": "AND seq >= ?3 AND NOT fenced RETURNING worker" => "AND ?3 NOT NULL AND NOT fenced RETURNING worker";
        "sqlite fence: only the lease that was seen": "AND name = ?2 AND deadline = ?3 AND deadline <= ?4 AND NOT fenced" => "AND name = ?2 AND ?3 NOT NULL AND deadline <= ?4 AND NOT fenced";
        "sqlite fence: only a lease that is over": "AND deadline = ?3 AND deadline <= ?4 AND NOT fenced" => "AND deadline = ?3 AND ?4 NOT NULL AND NOT fenced";
    }
    DISK "queue-core/src/sqlite/writer.rs" {
        "sqlite: a full disk refuses enqueues, not finishes": "self.commit_without_adding(&mut answers);" => "let error = self.full(); answers.iter_mut().for_each(|(_, failure)| *failure = Some(error.duplicate()));";
    }
    CORE "queue-core/src/codec.rs" {
        "codec: depth is bounded": "if depth == DEPTH_MAX {" => "if depth == DEPTH_MAX && false {";
    }
    CORE "queue-core/src/envelope.rs" {
        "envelope: a payload is bounded": "return Err(Error::PayloadTooLarge" => "if false { return Ok(Vec::new()) } let _ = || Err::<(), _>(Error::PayloadTooLarge";
    }
    CORE "queue-core/src/address.rs" {
        "names: the grammar is checked": "match name.chars().find(|c| !(" => "match name.chars().find(|c| false && !(";
    }
    CLIENT "queue-core/src/client/producer.rs" {
        "client: an ambiguous enqueue is unknown": "may_have_arrived |= matches!(error, Error::Ambiguous { .. });" => "may_have_arrived |= false;";
    }
    WORKER "queue-worker/src/executor.rs" {
        "worker: a panic is contained": "Ok(handler) => AssertUnwindSafe(handler).catch_unwind()," => "Ok(handler) => handler.map(Ok::<_, Box<dyn Any + Send>>),";
    }
    WORKER "queue-worker/src/pump/turns.rs" {
        "worker: one suspect at a time": "let asked = claim > 0 && self.suspects == 0 && !self.suspect_asked;" => "let asked = claim > 0;";
    }
    OUTAGES "queue-worker/src/executor.rs" {
        "worker: isolation starts nothing": "|| self.shared.is_isolated() || self.lease.until() <= now()" => "";
    }
    OUTAGES "queue-worker/src/lane.rs" {
        "worker: an unanswered turn is sent again": "Err(Error::Forgotten(_) | Error::Old { .. }) => return TurnEnd::Forgotten," => "Err(_) => return TurnEnd::Forgotten,";
    }
}
