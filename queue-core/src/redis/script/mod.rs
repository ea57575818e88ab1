//! Scripts and their calls.

pub(in crate::redis) mod bits;
mod compose;
mod list;

use redis::Cmd;

use self::compose::compose;
pub(in crate::redis) use self::list::*;
use crate::redis::keys::{Keys, Kind};

/// The capacity that suffices for most keys.
const BYTES_OF_A_KEY: usize = 64;

/// A script, ready to be called.
#[derive(Debug)]
pub(in crate::redis) struct Script {
    /// The name of its file.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests tell scripts apart by it"))]
    pub(in crate::redis) name: &'static str,
    pub(in crate::redis) keys: Vec<Kind>,
    /// Whether the script writes nothing, so that users who may only read may call it.
    only_reads: bool,
    /// The text, which is sent once per server.
    pub(in crate::redis) body: String,
    /// The digest by which the script is called.
    pub(in crate::redis) sha: String,
}

impl Script {
    fn new(name: &'static str, flags: &str) -> Self {
        let (text, keys) = compose(name, &constants());
        let body = format!("#!lua {flags}\nlocal KEYS = KEYS\n{text}");
        let sha = redis::Script::new(&body).get_hash().to_owned();
        Script { name, keys, only_reads: flags.contains("no-writes"), body, sha }
    }

    /// A call by digest; the arguments follow.
    pub(in crate::redis) fn call(&self, keys: &Keys, queue: &str) -> Cmd {
        self.complete(Cmd::new(), keys, queue)
    }

    /// A call with capacity for this number of arguments and for their bytes, so that it is not
    /// reallocated.
    pub(in crate::redis) fn call_with(&self, keys: &Keys, queue: &str, arguments: usize, bytes: usize) -> Cmd {
        let command = Cmd::with_capacity(3 + self.keys.len() + arguments, 64 + self.keys.len() * BYTES_OF_A_KEY + bytes);
        self.complete(command, keys, queue)
    }

    /// The same call with the text, for a server that does not have the script. The arguments are
    /// copied.
    pub(in crate::redis) fn with_body(&self, call: &Cmd) -> Cmd {
        let mut command = redis::cmd(if self.only_reads { "EVAL_RO" } else { "EVAL" });
        command.arg(&self.body);
        for argument in call.args_iter().skip(2) {
            match argument {
                redis::Arg::Simple(bytes) => command.arg(bytes),
                _ => &mut command,
            };
        }
        command
    }

    fn complete(&self, mut command: Cmd, keys: &Keys, queue: &str) -> Cmd {
        command.arg(if self.only_reads { "EVALSHA_RO" } else { "EVALSHA" }).arg(&self.sha).arg(self.keys.len());
        let mut key = String::with_capacity(BYTES_OF_A_KEY);
        for kind in &self.keys {
            keys.write(&mut key, queue, *kind);
            command.arg(&key);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::{
        list::{all, fragments, verbs_of},
        *,
    };
    use crate::broker::{Caller, VERBS};

    /// The hash tag of a key, which decides its slot.
    fn tag(key: &str) -> &str {
        let start = key.find('{').map_or(0, |at| at + 1);
        let end = key[start..].find('}').map_or(key.len(), |at| start + at);
        &key[start..end]
    }

    #[test]
    fn the_keys_of_every_script_lie_in_one_slot() {
        let keys = Keys::new("name.space");
        for script in all() {
            for kind in &script.keys {
                assert_eq!(tag(&keys.of("a-queue", *kind)), "a-queue", "{} of {}", kind.name(), script.name);
            }
        }
    }

    #[test]
    fn every_key_and_every_constant_of_a_script_is_known_before_it_runs() {
        for script in all() {
            for strange in ["K.", "C.", "KEYS[k", "--- "] {
                let at = script.body.match_indices(strange).find(|(at, _)| !script.body[..*at].ends_with(|c: char| c.is_alphanumeric()));
                assert!(at.is_none(), "{}: {:?}", script.name, &script.body[at.map_or(0, |(at, _)| at)..]);
            }
        }
    }

    /// A fragment that calls a function has to include the fragment that defines it: Lua would find
    /// a missing function only at the call.
    #[test]
    fn every_function_that_a_script_calls_is_in_it() {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let definitions = fragments().flat_map(|(_, text)| text.split("local function ").skip(1));
        let names: BTreeSet<&str> = definitions.filter_map(|rest| rest.split(|c: char| !is_part(c)).next()).collect();
        assert!(names.contains("call_in_pieces"));
        for script in all() {
            let calls = |name: &str| {
                let call = format!("{name}(");
                script.body.match_indices(&call).any(|(at, _)| !script.body[..at].ends_with(|c: char| is_part(c) || matches!(c, '.' | ':')))
            };
            for name in names.iter().filter(|name| calls(name)) {
                assert!(script.body.contains(&format!("local function {name}(")), "{} calls `{name}`, which it does not have", script.name);
            }
        }
    }

    /// The commands that a script may call, as access-control files write them. The server refuses
    /// changes of a script that only reads.
    fn commands(script: &Script) -> BTreeSet<String> {
        const CHANGES: [&str; 16] = [
            "hdel", "hincrby", "hset", "lpop", "lpush", "lset", "ltrim", "renamenx", "rpush", "sadd", "spublish", "srem", "xadd", "xtrim",
            "zadd", "zrem",
        ];
        let name = |rest: &str| -> Option<(String, String)> {
            let (name, behind) = rest.split_once('\'')?;
            (name.len() > 2 && name.bytes().all(|byte| byte.is_ascii_uppercase())).then(|| (name.to_ascii_lowercase(), behind.to_owned()))
        };
        let called = script.body.split("('").skip(1).filter_map(name).filter_map(|(command, behind)| match &*command {
            "memory" | "xinfo" => Some(format!("{command}|{}", name(behind.strip_prefix(", '")?)?.0)),
            _ => Some(command),
        });
        called.filter(|command| !script.only_reads || !CHANGES.contains(&command.as_str())).collect()
    }

    /// The commands that the code calls outside of scripts.
    fn called_by_all(role: Caller) -> Vec<&'static str> {
        let connecting = ["ping", "info", "role", "cluster|info", "cluster|slots", "asking", "time"];
        let scripts =
            ["eval_ro", "evalsha_ro"].into_iter().chain(["eval", "evalsha", "ssubscribe"].into_iter().filter(|_| role != Caller::Viewer));
        let own: &[&str] = match role {
            Caller::Producer => &["sadd", "sismember", "wait"],
            Caller::Worker => &["zscan"],
            Caller::Operator => &["sadd", "sismember", "zscan"],
            Caller::Viewer => &["hscan", "sismember", "zscan"],
        };
        connecting.into_iter().chain(scripts).chain(own.iter().copied()).collect()
    }

    #[test]
    fn the_access_control_files_allow_what_each_role_calls_and_nothing_else() {
        let (mut problems, mut named) = (Vec::new(), BTreeSet::new());
        for script in all() {
            for verb in verbs_of(script) {
                assert!(VERBS.iter().any(|known| known.name == *verb), "{}: `{verb}` is not a verb", script.name);
                named.insert(*verb);
            }
        }
        for (role, file) in
            [(Caller::Producer, "producer"), (Caller::Worker, "worker"), (Caller::Operator, "admin"), (Caller::Viewer, "dashboard")]
        {
            let calls = |name: &str| {
                let verb = VERBS.iter().find(|verb| verb.name == name).expect("it was checked");
                verb.callers.contains(&role) || role == Caller::Operator && verb.callers.contains(&Caller::Viewer)
            };
            let mut needed: BTreeMap<String, String> =
                called_by_all(role).into_iter().map(|command| (command.to_owned(), "the connection".to_owned())).collect();
            for script in all().into_iter().filter(|script| verbs_of(script).is_empty() || verbs_of(script).iter().any(|verb| calls(verb)))
            {
                needed.extend(commands(script).into_iter().map(|command| (command, script.name.to_owned())));
            }
            let text =
                std::fs::read_to_string(format!("{}/../docs/acl/{file}.acl", env!("CARGO_MANIFEST_DIR"))).expect("the file is there");
            let allowed: BTreeSet<&str> = text.split_whitespace().filter_map(|word| word.strip_prefix('+')).collect();
            let missing = needed.iter().filter(|(command, _)| !allowed.contains(command.as_str()));
            problems.extend(missing.map(|(command, script)| format!("{file}.acl lacks +{command}, which {script} needs")));
            let idle = allowed.iter().filter(|command| !needed.contains_key(**command));
            problems.extend(idle.map(|command| format!("{file}.acl has +{command}, which nothing needs")));
        }
        assert!(problems.is_empty(), "{problems:#?}");
        assert!(named.len() > 40, "only {} verbs run a script", named.len());
    }

    /// Each key is an argument of every call, and costs time.
    #[test]
    fn plain_scripts_have_few_keys() {
        assert_eq!([TURN_PLAIN.keys.len(), ENQUEUE_PLAIN.keys.len()], [10, 5]);
    }

    /// Keys that most queues do not have are written by one helper, which sets the bit first, or in
    /// the doors.
    #[test]
    fn rare_keys_are_written_behind_their_bits() {
        let rare = [
            "attempts",
            "errors",
            "snoozes",
            "returned",
            "crashes",
            "priority",
            "tombstones",
            "keyed",
            "unique",
            "held",
            "grouped",
            "front",
        ];
        for (name, text) in fragments() {
            for key in rare {
                let wrote = format!("'HSET', K.{key},");
                assert!(!text.contains(&wrote), "{name} writes `{key}` without its bit");
                assert!(!text.contains(&format!(" put(K.{key}")), "{name} writes `{key}` without its bit");
            }
        }
    }

    /// A script that reads a whole key would block the server for longer as the key grows. Keys
    /// that may grow without bound are read in pages.
    #[test]
    fn only_bounded_keys_are_read_whole() {
        // The fragments that read a whole key, and what bounds each key.
        let bounded = [
            ("audit/checks", "lanes", "the workers that are up"),
            ("audit/find", "active", "FEW"),
            ("audit/find", "jobs", "FEW"),
            ("audit/find", "lanes", "FEW"),
            ("audit/find", "workers", "FEW"),
            ("doors/rotation", "tombstones", "LIMIT_STEP"),
            ("history/failed", "failures", "FAILURE_PATTERNS"),
            ("history/failures", "failures", "FAILURE_PATTERNS"),
            ("history/history", "deployed", "RELEASES_SEEN"),
            ("history/history", "tasks", "TASKS"),
            ("history/report", "counters", "the kinds of events, and OUTBOXES"),
            ("history/report", "reporters", "the workers of a day"),
            ("history/report", "tasks", "TASKS"),
            ("lease/register", "deployed", "RELEASES_SEEN"),
            ("limits/list", "limits", "LIMIT_RULES"),
            ("operation/set", "operations", "OPERATIONS_KEPT"),
            ("people/pauses", "pauses", "PAUSED_TASKS"),
            ("people/remove_queue", "producers", "10,000, of which there are fewer"),
            ("people/stats", "counters", "the kinds of events"),
            ("schedule/list", "declared", "the schedules that code declares"),
            ("script/guard", "knows", "the workers that are up"),
            ("topic/publish", "subscriptions", "the subscriptions that code declares"),
            ("topic/show", "subscriptions", "the subscriptions that code declares"),
            ("topic/trim", "subscriptions", "the subscriptions that code declares"),
            ("turn/resume", "pauses", "PAUSED_TASKS"),
        ];
        let mut found = Vec::new();
        for (name, text) in fragments() {
            for verb in ["HKEYS", "HGETALL", "HVALS", "SMEMBERS"] {
                let begin = format!("'{verb}', K.");
                let keys = text.split(&begin).skip(1).map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default());
                found.extend(keys.map(|key| (name, key)));
            }
        }
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, bounded.map(|(name, key, _)| (name, key)));
    }

    /// Lanes are removed only by one function, which also removes the record of their worker.
    #[test]
    fn lanes_go_by_one_function() {
        let keys = ["lanes", "leases", "durations", "knows"];
        for (name, text) in fragments().filter(|(name, _)| *name != "lease/deregister") {
            for key in keys {
                for removed in ["'HDEL'", "'ZREM'", "'DEL'", "'UNLINK'"].map(|verb| format!("{verb}, K.{key}")) {
                    assert!(!text.contains(&removed), "{name} takes a lane out of `{key}`");
                }
            }
        }
    }

    /// Jobs change their place only through a door. A plain turn has checked that the doors would
    /// do nothing else.
    #[test]
    fn jobs_change_places_in_the_doors_alone() {
        let writes = ["HSET", "HDEL", "ZADD", "ZREM", "LPUSH", "RPUSH", "LPOP", "LTRIM", "LSET"];
        let places =
            ["active", "dead", "records", "ended", "parked", "scheduled", "retry", "held", "unique", "line", "next", "holders", "front"];
        for (name, text) in fragments().filter(|(name, _)| !name.starts_with("doors/") && *name != "turn/turn_plain") {
            for (write, place) in writes.iter().flat_map(|write| places.iter().map(move |place| (write, place))) {
                assert!(!text.contains(&format!("'{write}', K.{place},")), "{name}: {write} of `{place}`");
            }
        }
    }
}
