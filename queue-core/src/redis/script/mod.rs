//! What a script is, and how it is called.

mod compose;
mod list;

use redis::Cmd;

use self::compose::{made_where_needed, with_numbers, with_parts, without_unused};
pub(in crate::redis) use self::list::*;
use crate::redis::keys::{Keys, Kind};

/// What most keys fit into.
const BYTES_OF_A_KEY: usize = 64;

/// A script, ready to be called.
#[derive(Debug)]
pub(in crate::redis) struct Script {
    #[cfg_attr(not(test), expect(dead_code, reason = "tests tell scripts apart by it"))]
    pub(in crate::redis) name: &'static str,
    pub(in crate::redis) keys: &'static [Kind],
    /// It writes nothing: users who may only read may call it.
    only_reads: bool,
    /// The text that is sent, once per server.
    pub(in crate::redis) body: String,
    /// Its digest, by which it is called.
    pub(in crate::redis) sha: String,
}

impl Script {
    fn new(name: &'static str, flags: &str, keys: &'static [Kind], text: &str) -> Self {
        let text = without_unused(&with_parts(text));
        let body = format!("#!lua {flags}\nlocal KEYS = KEYS\n{}", with_numbers(&made_where_needed(&text), keys));
        let sha = redis::Script::new(&body).get_hash().to_owned();
        Script { name, keys, only_reads: flags.contains("no-writes"), body, sha }
    }

    /// A call by digest; the arguments follow.
    pub(in crate::redis) fn call(&self, keys: &Keys, queue: &str) -> Cmd {
        let verb = if self.only_reads { "EVALSHA_RO" } else { "EVALSHA" };
        complete(Cmd::new(), verb, &self.sha, self.keys, keys, queue)
    }

    /// The same call with the text, for a server that does not have it: the arguments are taken over.
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

    /// A call that is to have so many arguments of so many bytes in all: it is written without being moved.
    pub(in crate::redis) fn call_with(&self, keys: &Keys, queue: &str, arguments: usize, bytes: usize) -> Cmd {
        self.call_with_first(self.keys.len(), keys, queue, arguments, bytes)
    }

    /// The same, with the first few keys.
    pub(in crate::redis) fn call_with_first(&self, used: usize, keys: &Keys, queue: &str, arguments: usize, bytes: usize) -> Cmd {
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

#[cfg(test)]
mod tests {
    use super::{
        compose::{END_IF, IF},
        list::all,
        *,
    };
    use Kind::{Attempts, Errors, Jobs, Meta};

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
