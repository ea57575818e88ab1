//! The version of a job that an operator has read, as a string for forms and commands.

use std::{fmt, str::FromStr};

use crate::{
    broker::{GroupName, Priority, StoredJob},
    digest,
    envelope::Envelope,
    error::{Error, Result},
};

/// The editable state of a job, as it was read before an [edit](crate::inspect::Inspector::edit):
/// its parameters (as a digest), priority, maximum of attempts, time and group. As text it is one
/// word, for forms and command lines: `jobs edit --dry-run` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    payload: [u8; Seen::DIGEST],
    priority: Priority,
    max_attempts: Option<u32>,
    at_ms: Option<i64>,
    group: Option<GroupName>,
}

impl Seen {
    const DIGEST: usize = 12;

    /// The editable state of a job; `None` if it cannot be decoded.
    pub(super) fn of(job: &StoredJob) -> Option<Self> {
        Seen::of_parts(&job.envelope, job.priority, job.group.clone(), job.at_ms.filter(|_| !job.state.is_final()))
    }

    pub(in crate::inspector) fn of_parts(
        envelope: &[u8],
        priority: Priority,
        group: Option<GroupName>,
        at_ms: Option<i64>,
    ) -> Option<Self> {
        let envelope = Envelope::decode(envelope).ok()?;
        let mut payload = [0; Seen::DIGEST];
        payload.copy_from_slice(&digest::sha256(envelope.payload)[..Seen::DIGEST]);
        Some(Seen { payload, priority, max_attempts: envelope.max_attempts, at_ms, group })
    }

    /// The differences between a job and this state, in words; empty if there are none. A job that
    /// has become due meanwhile counts as unchanged.
    pub(super) fn differs(&self, now: &Seen, now_ms: i64) -> Vec<String> {
        let mut differs = Vec::new();
        if self.payload != now.payload {
            differs.push("its parameters have changed".to_owned());
        }
        let mut compare = |what: &str, before: String, now: String| {
            if before != now {
                differs.push(format!("its {what} was {before} and is {now}"));
            }
        };
        compare("priority", self.priority.to_string(), now.priority.to_string());
        compare("maximum of attempts", attempts(self.max_attempts), attempts(now.max_attempts));
        compare("group", group(self.group.as_ref()), group(now.group.as_ref()));
        let has_become_due = now.at_ms.is_none() && self.at_ms.is_some_and(|at| at <= now_ms);
        if !has_become_due {
            compare("time", when(self.at_ms), when(now.at_ms));
        }
        differs
    }
}

const NO_GROUP: &str = "none";

/// A maximum of attempts, for display.
pub(super) fn attempts(attempts: Option<u32>) -> String {
    attempts.map_or_else(|| "that of its task".to_owned(), |attempts| attempts.to_string())
}

/// A group, for display. A group with the name `none` is in quotes.
pub(super) fn group(group: Option<&GroupName>) -> String {
    let name = |group: &GroupName| if group.as_str() == NO_GROUP { format!("\"{group}\"") } else { group.to_string() };
    group.map_or_else(|| NO_GROUP.to_owned(), name)
}

/// A time, for display.
pub(super) fn when(at_ms: Option<i64>) -> String {
    let time = at_ms.and_then(super::super::record::time);
    time.map_or_else(|| "now".to_owned(), |time| humantime::format_rfc3339_millis(time).to_string())
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.payload.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ":{}:", self.priority)?;
        self.max_attempts.map_or(Ok(()), |attempts| write!(f, "{attempts}"))?;
        f.write_str(":")?;
        self.at_ms.map_or(Ok(()), |at| write!(f, "{at}"))?;
        // A group may have any characters, and a word has no spaces.
        f.write_str(":")?;
        self.group.iter().flat_map(|group| group.as_str().bytes()).try_for_each(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'@' => write!(f, "{}", char::from(byte)),
            _ => write!(f, "%{byte:02x}"),
        })
    }
}

impl FromStr for Seen {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        read(text).ok_or_else(|| Error::invalid("seen", text, "is not a job version as `jobs edit --dry-run` prints it"))
    }
}

fn read(text: &str) -> Option<Seen> {
    let [payload, priority, max_attempts, at, group] = text.split(':').collect::<Vec<_>>().try_into().ok()?;
    if payload.len() != 2 * Seen::DIGEST || !payload.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut digest = [0; Seen::DIGEST];
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(payload.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    let (mut name, mut rest) = (Vec::new(), group.bytes());
    while let Some(byte) = rest.next() {
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        name.push(if byte == b'%' { digit(rest.next()?)? << 4 | digit(rest.next()?)? } else { byte });
    }
    Some(Seen {
        payload: digest,
        priority: priority.parse().ok()?,
        max_attempts: Some(max_attempts).filter(|text| !text.is_empty()).map(str::parse).transpose().ok()?,
        at_ms: Some(at).filter(|text| !text.is_empty()).map(str::parse).transpose().ok()?,
        group: Some(String::from_utf8(name).ok()?).filter(|name| !name.is_empty()).map(GroupName::new).transpose().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        let mut envelope = Envelope::new("task", b"\x81\xa1a\x01");
        envelope.max_attempts = Some(3);
        let group = GroupName::new("a b:ä%").unwrap();
        Seen::of_parts(&envelope.encode().unwrap(), Priority::High, Some(group), Some(17)).unwrap()
    }

    #[test]
    fn it_is_one_word_and_is_read_as_it_is_written() {
        let text = seen().to_string();
        assert!(!text.contains(char::is_whitespace) && text.is_ascii(), "{text}");
        assert_eq!(text.parse::<Seen>().unwrap(), seen());
        let bare = Seen { max_attempts: None, at_ms: None, group: None, ..seen() };
        assert_eq!(bare.to_string().parse::<Seen>().unwrap(), bare);
        for wrong in ["", "x", "::::", &text[1..], &format!("{text}%"), &format!("{text}:"), "+10000000000000000000000:high:::"] {
            assert!(wrong.parse::<Seen>().unwrap_err().to_string().contains("jobs edit --dry-run"), "{wrong}");
        }
    }

    #[test]
    fn what_differs_is_reported() {
        let other = Seen { payload: [0; 12], priority: Priority::Low, max_attempts: None, at_ms: Some(1_764_000_000_000), group: None };
        let differences = seen().differs(&other, 0).join("; ");
        for part in [
            "its parameters have changed",
            "its priority was high and is low",
            "its maximum of attempts was 3 and is that of its task",
            "its group was a b:ä% and is none",
            "its time was 1970-01-01T00:00:00.017Z and is 2025-11-24T16:00:00.000Z",
        ] {
            assert!(differences.contains(part), "{part}: {differences}");
        }
        let due = Seen { at_ms: None, ..seen() };
        assert_eq!((seen().differs(&due, 17), seen().differs(&due, 16).len(), due.differs(&seen(), 17).len()), (vec![], 1, 1));
    }
}
