//! The names of the keys of a queue.

use std::borrow::Cow;

use super::Kind;

/// A namespace of keys.
#[derive(Clone, Debug)]
pub(in crate::redis) struct Keys {
    namespace: String,
}

impl Keys {
    pub(in crate::redis) fn new(namespace: &str) -> Self {
        Keys { namespace: namespace.to_owned() }
    }

    /// The key of a queue.
    pub(in crate::redis) fn of(&self, queue: &str, kind: Kind) -> String {
        let mut key = String::new();
        self.write(&mut key, queue, kind);
        key
    }

    /// The same, written into an existing text, which it replaces.
    pub(in crate::redis) fn write(&self, key: &mut String, queue: &str, kind: Kind) {
        key.clear();
        for part in [&self.namespace, ":{", tag_of(queue), "}"] {
            key.push_str(part);
        }
        if let Some((own, _)) = queue.split_once(TAGGED).filter(|_| !kind.is_of_topic()) {
            key.extend([TAGGED]);
            key.push_str(own);
        }
        key.push(':');
        key.push_str(kind.suffix());
    }

    /// A command on one key of a queue.
    pub(in crate::redis) fn on(&self, verb: &str, queue: &str, kind: Kind) -> redis::Cmd {
        let mut command = redis::cmd(verb);
        command.arg(self.of(queue, kind));
        command
    }

    /// The set of all queues.
    pub(in crate::redis) fn queues(&self) -> String {
        format!("{}:queues", self.namespace)
    }

    /// A name in the same hash slot of a cluster as that set: the hash tag is the whole name of the
    /// set.
    pub(in crate::redis) fn sibling_of_queues(&self, end: &str) -> String {
        format!("{}:aside:{{{}}}:{end}", self.namespace, self.queues())
    }

    /// The queue to which a channel of ours belongs.
    pub(in crate::redis) fn queue_of_channel<'a>(&self, channel: &'a str) -> Option<Cow<'a, str>> {
        let (tag, rest) = channel.strip_prefix(&self.namespace)?.strip_prefix(":{")?.strip_suffix(":hint")?.split_once('}')?;
        match rest.strip_prefix(TAGGED) {
            None if rest.is_empty() => Some(tag.into()),
            None => None,
            Some(own) => Some(format!("{own}{TAGGED}{tag}").into()),
        }
    }
}

/// Separates the own name of a queue from the tag that it shares with other queues.
const TAGGED: char = '@';

/// The hash tag of a queue, which decides its slot.
pub(in crate::redis) fn tag_of(queue: &str) -> &str {
    queue.split_once(TAGGED).map_or(queue, |(_, tag)| tag)
}
