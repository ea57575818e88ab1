//! How the text of a script is put together.
//!
//! Fragments include each other: `--- include turn/acks, script/clock`, each once. An include
//! inside a block of Lua defines its functions for that block. Functions that are not called are
//! left out, because every call would create each of them again. At last `K.jobs` becomes the
//! number of the key of that kind, and `C.schema` a constant.
//!
//! The file of a script begins with its header. The header is a block with these entries in this
//! order, and leaves out those that do not apply:
//!
//! ```text
//! -- One sentence: what the script does.
//! -- KEYS: of a script that takes all keys of the queue
//! -- ARGV[1]    name   meaning
//! -- ARGV[2..]  names  meaning of all that follow
//! -- Returns: the answer
//! -- Errors: the codes of the error replies
//! -- Events: what the script publishes or records
//! ```
//!
//! A script that writes `K.jobs` takes that key: its header does not list it. The errors are:
//!
//! - `BEHIND`: a lane does not know a feature bit that the call needs.
//! - `FEATURE`: the queue has a feature bit that this library does not know.
//! - `FORGOTTEN`: the lane or the producer is not known.
//! - `OLD`: the number of the call is below the last one, or has another digest.
//! - `SCHEMA`: the queue has another schema number.
//!
//! The events are the functions of `script/hint.lua` that publish them, and `transitions`: the log
//! of transitions of a queue that a watcher follows (`doors/transitions.lua`).

use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
};

use super::list::fragment;
use crate::redis::keys::{Kind, STORED};

const INCLUDE: &str = "--- include ";

/// The text of a script, and the keys that it uses, in the order in which it numbers them.
pub(super) fn compose(name: &str, constants: &[(&str, String)]) -> (String, Vec<Kind>) {
    let mut whole = String::new();
    include(name, &mut HashSet::new(), &mut whole);
    let text = without_unused(&whole);
    // A script that iterates over its keys gets all keys.
    let mut keys: Vec<Kind> = if text.contains("ipairs(KEYS)") { STORED.to_vec() } else { Vec::new() };
    let text = exchanged(&text, "K.", |name| {
        let kind = STORED.iter().copied().find(|kind| kind.name() == name)?;
        let at = keys.iter().position(|key| *key == kind).unwrap_or_else(|| {
            keys.push(kind);
            keys.len() - 1
        });
        Some(format!("KEYS[{}]", at + 1))
    });
    let text = exchanged(&text, "C.", |name| constants.iter().find(|(constant, _)| *constant == name).map(|(_, value)| value.clone()));
    (text, keys)
}

/// Adds a fragment, with those that it includes.
fn include(name: &str, included: &mut HashSet<String>, whole: &mut String) {
    if !included.insert(name.to_owned()) {
        return;
    }
    for line in fragment(name).lines() {
        let directive = line.trim_start();
        if let Some(names) = directive.strip_prefix(INCLUDE) {
            names.split(", ").for_each(|name| include(name, included, whole));
        } else if !directive.starts_with("--") && !directive.is_empty() {
            let _ = writeln!(whole, "{line}");
        }
    }
}

/// A script's text without the functions that it does not call.
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
    let definitions: HashMap<&str, usize> = blocks.iter().enumerate().filter_map(|(at, block)| Some((name_of(block)?, at))).collect();
    let mut is_used: Vec<bool> = blocks.iter().map(|block| name_of(block).is_none()).collect();
    let mut unread: Vec<usize> = (0..blocks.len()).filter(|at| is_used[*at]).collect();
    while let Some(at) = unread.pop() {
        for word in blocks[at].split(|c| !is_of_a_word(c)) {
            if let Some(&definition) = definitions.get(word)
                && !std::mem::replace(&mut is_used[definition], true)
            {
                unread.push(definition);
            }
        }
    }
    let used: Vec<&str> = blocks.iter().zip(is_used).filter(|(_, is_used)| *is_used).map(|(block, _)| block.as_str()).collect();
    used.join("\n")
}

/// The name of the function that a block defines.
fn name_of(block: &str) -> Option<&str> {
    block.strip_prefix("local function ")?.split('(').next()
}

/// Whether a character can be part of a name.
fn is_of_a_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// A text with other words for all that begin with a prefix.
fn exchanged(text: &str, prefix: &str, mut word: impl FnMut(&str) -> Option<String>) -> String {
    let mut parts = text.split(prefix);
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_at(part.find(|c| !is_of_a_word(c)).unwrap_or(part.len()));
        match word(name).filter(|_| !written.ends_with(is_of_a_word)) {
            Some(word) => {
                let _ = write!(written, "{word}{rest}");
            }
            None => {
                let _ = write!(written, "{prefix}{part}");
            }
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::redis::script::list::{all, fragments};

    /// Whether a line of a fragment is a comment.
    fn is_comment(line: &str) -> bool {
        line.starts_with("--") && !line.starts_with(INCLUDE)
    }

    #[test]
    fn headers_of_scripts_are_blocks() {
        const ENTRIES: [&str; 5] = ["-- KEYS: ", "-- ARGV[", "-- Returns:", "-- Errors: ", "-- Events: "];
        for script in all() {
            let header: Vec<&str> = fragment(script.name).lines().take_while(|line| is_comment(line)).collect();
            for line in &header {
                assert!(line.matches("ARGV[").count() < 2, "{}: an argument has a line of its own: {line}", script.name);
            }
            let entries: Vec<usize> = header.iter().filter_map(|line| ENTRIES.iter().position(|entry| line.starts_with(entry))).collect();
            assert!(!entries.is_empty() && entries.is_sorted(), "{}: the entries of the header are not in order", script.name);

            let listed: BTreeSet<&str> =
                header.iter().filter_map(|line| line.strip_prefix("-- Errors: ")).flat_map(|codes| codes.split(", ")).collect();
            let replies = script.body.split("error_reply('").skip(1);
            let returned: BTreeSet<&str> = replies.filter_map(|reply| reply.split(|c: char| !c.is_ascii_uppercase()).next()).collect();
            assert_eq!(listed, returned, "{}: the errors of the header are not those of the script", script.name);
        }
    }

    #[test]
    fn comments_have_at_most_100_columns() {
        for (name, text) in fragments() {
            for line in text.lines().filter(|line| is_comment(line.trim_start())) {
                assert!(line.chars().count() <= 100, "{name}: a comment has more than 100 columns: {line}");
            }
        }
    }

    #[test]
    fn what_is_not_called_is_left_out() {
        let text =
            "local function a()\n  return 1\nend\nlocal function b()\n  return a()\nend\nlocal function c()\n  return 2\nend\nreturn c()";
        assert_eq!(without_unused(text), "local function c()\n  return 2\nend\nreturn c()");
        let text = "local function d()\n  return e()\nend\nlocal function e()\n  return d()\nend\nreturn 1";
        assert_eq!(without_unused(text), "return 1", "functions that only call each other are left out");
    }

    /// The half of the auditor that finds damage sees mistakes of the doors.
    #[test]
    fn the_finder_includes_no_door() {
        let doors = |name| {
            let mut included = HashSet::new();
            include(name, &mut included, &mut String::new());
            included.into_iter().filter(|name| name.starts_with("doors/")).collect::<Vec<_>>()
        };
        assert_eq!(doors("audit/find"), [] as [&str; 0]);
        assert!(doors("audit/repair").contains(&"doors/settle".to_owned()));
    }

    #[test]
    fn a_key_stands_as_its_number_and_no_other_word_does() {
        let word = |name: &str| (name == "jobs").then(|| "KEYS[2]".to_owned());
        assert_eq!(exchanged("call('HGET', K.jobs, OK.jobs, K.jobs2)", "K.", word), "call('HGET', KEYS[2], OK.jobs, K.jobs2)");
    }
}
