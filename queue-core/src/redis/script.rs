//! The scripts: each a constant, with the keys that it declares.

use std::{fmt::Write, ops::Range, sync::LazyLock};

use redis::Cmd;

use super::keys::{Keys, Kind, STORED};

/// A script, ready to be called.
#[derive(Debug)]
pub(super) struct Script {
    #[cfg_attr(not(test), expect(dead_code, reason = "tests tell scripts apart by it"))]
    pub(super) name: &'static str,
    pub(super) keys: &'static [Kind],
    /// It writes nothing: users who may only read may call it.
    only_reads: bool,
    /// The text that is sent, once per server.
    pub(super) body: String,
    /// Its digest, by which it is called.
    pub(super) sha: String,
}

use Kind::{
    Active, Attempts, Counters, Crashes, Dead, Ended, Errors, Fenced, Given, Gone, Jobs, Leases, Meta, Notes, Parked, Priority, Producers,
    Ready0, Ready1, Ready2, Ready3, Records, Retry, Scheduled, Seen, Snoozes, Suspect, Terms, Tomb, Tombstones, Workers,
};

/// What most keys fit into.
const BYTES_OF_A_KEY: usize = 64;

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
        include_str!(concat!("scripts/", $name, ".lua"))
    };
}

macro_rules! script {
    ($name:ident, $file:literal, $flags:literal, $keys:expr, [$($part:literal),*]) => {
        pub(super) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new($file, $flags, $keys, &[$(text!($part),)* text!($file)].join("\n")));
    };
}

/// The parts that a script makes where its text has a line `--- if CONDITION: NAME, NAME`.
fn part(name: &str) -> &'static str {
    match name {
        "clock" => text!("clock"),
        "hint" => text!("hint"),
        "tools" => text!("tools"),
        "known" => text!("known"),
        "ended" => text!("ended"),
        _ => unreachable!("a script asks for a part that is none: {name}"),
    }
}

// Finishes, beats and reclaims work on a Redis that is full, and so does all that makes room.
script!(
    REGISTER,
    "register",
    "flags=allow-oom",
    &[
        Meta, Workers, Leases, Terms, Producers, Seen, Counters, Scheduled, Retry, Attempts, Snoozes, Crashes, Errors, Priority, Tomb,
        Ready0, Ready1, Ready3, Suspect, Parked
    ],
    ["prelude", "clock", "schema", "plain"]
);
script!(
    ENQUEUE,
    "enqueue",
    "",
    keys![Scheduled, Producers],
    ["prelude", "clock", "schema", "sequence", "tools", "plain", "hint", "sparse", "known", "ready", "ended"]
);
script!(ENQUEUE_READY, "enqueue_ready", "", &[Meta, Producers, Jobs, Ready2, Counters], ["prelude", "schema", "sequence"]);
script!(
    TURN,
    "turn",
    "flags=allow-oom",
    keys![Scheduled, Retry, Active, Workers, Leases, Gone, Parked],
    ["prelude", "clock", "tools", "plain", "hint", "sparse", "known", "ready", "claim"]
);
script!(
    TURN_PLAIN,
    "turn_plain",
    "flags=allow-oom",
    &[Meta, Workers, Leases, Active, Jobs, Ready2, Counters, Tombstones, Attempts, Errors, Snoozes, Crashes, Priority, Records, Ended],
    ["prelude", "clock"]
);
/// A turn of a plain queue that keeps no jobs does with the keys before the end of these, and before their start where none has failed.
pub(super) const FAILURE_KEYS: Range<usize> = 8..10;
script!(EXTEND, "extend", "flags=allow-oom", &[Meta, Workers, Leases, Gone, Counters], ["prelude", "clock", "schema"]);
script!(SUSPECTS, "suspects", "flags=no-writes", &[Leases, Terms, Fenced, Counters], ["prelude", "clock", "terms"]);
script!(ALIVE, "alive", "flags=no-writes", &[Leases, Counters], ["prelude", "clock"]);
script!(
    FENCE,
    "fence",
    "flags=allow-oom",
    &[Meta, Workers, Leases, Terms, Gone, Fenced, Counters],
    ["prelude", "clock", "schema", "terms"]
);
script!(
    RECLAIM,
    "reclaim",
    "flags=allow-oom",
    keys![Retry, Active, Workers],
    ["prelude", "clock", "schema", "tools", "plain", "hint", "sparse", "known", "ready", "ended"]
);
script!(FORGET, "forget", "flags=allow-oom", &[Fenced, Counters], ["prelude"]);
script!(
    CANCEL,
    "cancel",
    "flags=allow-oom",
    keys![Scheduled, Retry, Active, Workers, Gone, Parked],
    ["prelude", "clock", "schema", "tools", "plain", "hint", "sparse", "known", "ready", "ended"]
);
script!(
    REQUEUE,
    "requeue",
    "flags=allow-oom",
    keys![],
    ["prelude", "clock", "schema", "tools", "hint", "sparse", "known", "ready", "ended"]
);
script!(
    DELETE,
    "delete",
    "flags=allow-oom",
    keys![Scheduled, Retry, Active, Parked],
    ["prelude", "clock", "schema", "tools", "plain", "hint", "sparse", "known", "ready", "ended"]
);
script!(
    SWEEP,
    "sweep",
    "flags=allow-oom",
    keys![Scheduled, Retry, Active, Producers, Seen],
    ["prelude", "clock", "schema", "tools", "plain", "hint", "sparse", "known", "ready", "ended"]
);
script!(
    AUDIT,
    "audit",
    "flags=allow-oom",
    keys![Scheduled, Retry, Active, Workers, Leases, Terms, Fenced, Parked],
    ["prelude", "clock", "schema", "terms", "tools", "plain", "hint", "sparse", "known", "ready", "ended"]
);
script!(PAUSE, "pause", "flags=allow-oom", &[Meta, Counters], ["prelude", "clock", "schema", "plain", "hint"]);
script!(
    SHOW,
    "show",
    "flags=no-writes",
    &[Jobs, Records, Active, Notes, Scheduled, Retry, Dead, Priority, Attempts, Crashes, Snoozes, Errors, Counters],
    ["prelude"]
);
script!(TYPES, "types", "flags=no-writes", STORED, ["prelude"]);
script!(ASIDE, "aside", "flags=allow-oom", STORED, ["prelude"]);
script!(
    STATS,
    "stats",
    "flags=no-writes",
    &[Meta, Tomb, Ready0, Ready1, Ready2, Ready3, Suspect, Scheduled, Retry, Active, Parked, Dead, Leases, Counters],
    ["prelude", "clock"]
);

/// All of them.
#[cfg(test)]
fn all() -> [&'static Script; 21] {
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

impl Script {
    fn new(name: &'static str, flags: &str, keys: &'static [Kind], text: &str) -> Self {
        let text = without_unused(&with_parts(text));
        let body = format!("#!lua {flags}\nlocal KEYS = KEYS\n{}", with_numbers(&made_where_needed(&text), keys));
        let sha = redis::Script::new(&body).get_hash().to_owned();
        Script { name, keys, only_reads: flags.contains("no-writes"), body, sha }
    }

    /// A call by digest; the arguments follow.
    pub(super) fn call(&self, keys: &Keys, queue: &str) -> Cmd {
        let verb = if self.only_reads { "EVALSHA_RO" } else { "EVALSHA" };
        complete(Cmd::new(), verb, &self.sha, self.keys, keys, queue)
    }

    /// The same call with the text, for a server that does not have it: the arguments are taken over.
    pub(super) fn with_body(&self, call: &Cmd) -> Cmd {
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

    /// A call that is to have so many arguments of so many bytes in all: it is written without being moved.
    pub(super) fn call_with(&self, keys: &Keys, queue: &str, arguments: usize, bytes: usize) -> Cmd {
        self.call_with_first(self.keys.len(), keys, queue, arguments, bytes)
    }

    /// The same, with the first few keys.
    pub(super) fn call_with_first(&self, used: usize, keys: &Keys, queue: &str, arguments: usize, bytes: usize) -> Cmd {
        let kinds = &self.keys[..used];
        let command = Cmd::with_capacity(3 + used + arguments, 64 + used * BYTES_OF_A_KEY + bytes);
        complete(command, "EVALSHA", &self.sha, kinds, keys, queue)
    }
}

fn complete(mut command: Cmd, verb: &str, sha: &str, kinds: &[Kind], keys: &Keys, queue: &str) -> Cmd {
    command.arg(verb).arg(sha).arg(kinds.len());
    let mut key = String::with_capacity(BYTES_OF_A_KEY);
    for kind in kinds {
        keys.write(&mut key, queue, *kind);
        command.arg(&key);
    }
    command
}

/// A script's text without the functions of its parts that it does not call: each would be made anew by every call.
fn without_unused(text: &str) -> String {
    let mut blocks: Vec<String> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let begins = line.starts_with("local function ");
        match blocks.last_mut() {
            Some(block) if inside && !begins => {
                block.push('\n');
                block.push_str(line);
            }
            _ => blocks.push(line.to_owned()),
        }
        inside = (inside || begins) && line != "end";
    }
    loop {
        let is_used = |block: &&String| name_of(block).is_none_or(|name| blocks.iter().any(|other| other != *block && calls(other, name)));
        let used: Vec<String> = blocks.iter().filter(is_used).cloned().collect();
        if used.len() == blocks.len() {
            return used.join("\n");
        }
        blocks = used;
    }
}

/// Begins a line that names parts, and the condition on which a call makes them.
const IF: &str = "--- if ";
/// The line that ends those parts.
const END_IF: &str = "--- end if";

/// A script's text with the parts that it names.
fn with_parts(text: &str) -> String {
    let mut whole = String::new();
    for line in text.lines() {
        let _ = writeln!(whole, "{line}");
        if let Some((_, names)) = line.strip_prefix(IF).and_then(|named| named.split_once(": ")) {
            names.split(", ").for_each(|name| whole.push_str(part(name)));
            let _ = writeln!(whole, "{END_IF}");
        }
    }
    whole
}

/// A script's text in which what parts define, one name by line, is made only on their condition: to a call that does without they
/// are but names.
fn made_where_needed(text: &str) -> String {
    let (mut made, mut lines) = (String::new(), text.lines());
    while let Some(line) = lines.next() {
        let Some((condition, _)) = line.strip_prefix(IF).and_then(|named| named.split_once(": ")) else {
            let _ = writeln!(made, "{line}");
            continue;
        };
        let (mut names, mut body) = (Vec::new(), String::new());
        for line in lines.by_ref().take_while(|line| *line != END_IF) {
            let defined = line.strip_prefix("local ").unwrap_or(line);
            if defined != line {
                let named = defined.strip_prefix("function ").unwrap_or(defined);
                names.extend(named.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next());
            }
            let _ = writeln!(body, "{defined}");
        }
        let _ = write!(made, "local {}\nif {condition} then\n{body}end\n", names.join(", "));
    }
    made
}

/// The name of the function that a block defines.
fn name_of(block: &str) -> Option<&str> {
    block.strip_prefix("local function ")?.split('(').next()
}

fn calls(block: &str, name: &str) -> bool {
    let code = block.lines().filter(|line| !line.trim_start().starts_with("--"));
    let mut words = code.flat_map(|line| line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')));
    words.any(|word| word == name)
}

/// A script's text, in which `K.jobs` stands for the key of that kind: with the number of the key in its place, which costs less
/// at each call than a table.
fn with_numbers(text: &str, keys: &[Kind]) -> String {
    let mut parts = text.split("K.");
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        match keys.iter().position(|kind| kind.name() == name) {
            Some(index) if !written.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_') => {
                let _ = write!(written, "KEYS[{}]{rest}", index + 1);
            }
            _ => {
                let _ = write!(written, "K.{part}");
            }
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

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
            for kind in script.keys {
                assert_eq!(tag(&keys.of("a-queue", *kind)), "a-queue", "{} of {}", kind.name(), script.name);
            }
        }
    }

    #[test]
    fn every_script_declares_the_keys_that_it_uses() {
        for script in all() {
            for (at, _) in script.body.match_indices("K.") {
                let before = script.body[..at].chars().next_back();
                let name: String = script.body[at + 2..].chars().take_while(char::is_ascii_alphanumeric).collect();
                assert!(before.is_some_and(|c| c.is_alphanumeric() || c == '_'), "{} uses K.{name} and does not declare it", script.name);
            }
            assert!(!script.body.contains("K["), "{} looks for a key that is not known before it runs", script.name);
        }
    }

    #[test]
    fn the_bound_of_an_answer_is_that_of_all_brokers() {
        assert!(TURN_PLAIN.body.contains(&format!("local MAX_BYTES = {}\n", crate::broker::MAX_BYTES)));
    }

    #[test]
    fn the_keys_of_failures_of_a_plain_turn_lie_together() {
        assert!(matches!(TURN_PLAIN.keys[FAILURE_KEYS], [Attempts, Errors]));
    }

    #[test]
    fn what_is_not_called_is_left_out() {
        let text = "local function a()\n  return 1\nend\nlocal function b()\n  return a()\nend\n-- b\nlocal function c()\n  return 2\nend\nreturn c()";
        assert_eq!(without_unused(text), "-- b\nlocal function c()\n  return 2\nend\nreturn c()");
        assert!(!ENQUEUE_READY.body.contains("function worker_of"));
        assert!(ENQUEUE_READY.body.contains("function count"));
    }

    #[test]
    fn what_a_call_does_without_is_only_named() {
        let text = format!("a()\n{IF}x > 1: b, c\nlocal function b()\n  local x = 1\nend\nlocal c = {{ 2 }}\n{END_IF}\nd()\n");
        assert_eq!(made_where_needed(&text), "a()\nlocal b, c\nif x > 1 then\nfunction b()\n  local x = 1\nend\nc = { 2 }\nend\nd()\n");
        assert_eq!(made_where_needed("local a = 1\n"), "local a = 1\n");
    }

    #[test]
    fn parts_stand_where_they_are_named() {
        let text = with_parts("a()\n--- if b: hint\nc()");
        assert!(text.starts_with("a()\n--- if b: hint\n") && text.contains("local function hint(") && text.ends_with("--- end if\nc()\n"));
    }

    #[test]
    fn a_key_stands_as_its_number() {
        let text = with_numbers("call('HGET', K.jobs, OK.jobs, K.jobs2, K.meta)", &[Meta, Jobs]);
        assert_eq!(text, "call('HGET', KEYS[2], OK.jobs, K.jobs2, KEYS[1])");
    }

    #[test]
    fn no_key_is_declared_twice() {
        for script in all() {
            for (index, kind) in script.keys.iter().enumerate() {
                assert!(!script.keys[..index].contains(kind), "{} declares {} twice", script.name, kind.name());
            }
        }
    }
}
