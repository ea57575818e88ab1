//! How the text of a script is put together.

use std::fmt::Write;

use super::list::part;
use crate::redis::keys::Kind;

/// A script's text without the functions of its parts that it does not call: each would be made anew by every call.
pub(super) fn without_unused(text: &str) -> String {
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
pub(super) const IF: &str = "--- if ";
/// The line that ends those parts.
pub(super) const END_IF: &str = "--- end if";

/// A script's text with the parts that it names.
pub(super) fn with_parts(text: &str) -> String {
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
pub(super) fn made_where_needed(text: &str) -> String {
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
pub(super) fn name_of(block: &str) -> Option<&str> {
    block.strip_prefix("local function ")?.split('(').next()
}

pub(super) fn calls(block: &str, name: &str) -> bool {
    let code = block.lines().filter(|line| !line.trim_start().starts_with("--"));
    let mut words = code.flat_map(|line| line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')));
    words.any(|word| word == name)
}

/// A script's text, in which `K.jobs` stands for the key of that kind: with the number of the key in its place, which costs less
/// at each call than a table.
pub(super) fn with_numbers(text: &str, keys: &[Kind]) -> String {
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
