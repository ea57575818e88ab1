//! Names and ids: the grammar of everything that becomes part of a key.

use std::{fmt, str::FromStr, sync::Arc};

use uuid::Uuid;

use crate::error::{Error, Result};

/// Longest queue, task or given job name, in characters.
pub const NAME_MAX: usize = 128;

/// Checks a queue, task, schedule or given job name: 1 to 128 characters of `A-Z a-z 0-9 . _ -`.
///
/// # Errors
/// [`Error::Invalid`] naming `field` and the first character that does not fit.
pub fn check_name(field: &'static str, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(Error::invalid(field, name, format!("has {} characters; use 1 to {NAME_MAX}", name.chars().count())));
    }
    match name.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
        Some(c) => Err(Error::invalid(field, name, format!("contains {c:?}; use only letters, digits and `.`, `_`, `-`"))),
        None => Ok(()),
    }
}

/// The id of a job, unique within its queue: made by us (UUIDv7) or given by the application.
///
/// In storage a made id is its 16 bytes, a given one its text behind a `=`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(Repr);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Repr {
    Made(Uuid),
    /// The name behind its `=`.
    Given(Arc<str>),
}

impl JobId {
    /// A new, unique id whose order follows the time of its making.
    pub fn make() -> Self {
        JobId(Repr::Made(Uuid::now_v7()))
    }

    /// An id chosen by the application: enqueuing it again is answered `Existing`, not with a second job.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is outside the name grammar, or has the form of a made id.
    pub fn given(id: &str) -> Result<Self> {
        check_name("job id", id)?;
        if made_from_text(id).is_some() {
            return Err(Error::invalid("job id", id, "has the form of ids that the queue makes itself (UUIDv7); put a prefix before it"));
        }
        Ok(JobId(Repr::Given(format!("={id}").into())))
    }

    /// True for an id chosen by the application.
    pub fn is_given(&self) -> bool {
        matches!(self.0, Repr::Given(_))
    }

    /// The form in storage.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Made(uuid) => uuid.as_bytes(),
            Repr::Given(text) => text.as_bytes(),
        }
    }

    /// Reads the form in storage.
    ///
    /// # Errors
    /// [`Error::Decode`] when the bytes are neither form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.first() == Some(&b'=') {
            let text = std::str::from_utf8(bytes).ok().filter(|text| check_name("job id", &text[1..]).is_ok());
            if let Some(text) = text {
                return Ok(JobId(Repr::Given(text.into())));
            }
        } else if let Ok(uuid) = Uuid::from_slice(bytes) {
            return Ok(JobId(Repr::Made(uuid)));
        }
        let (shown, more) = bytes.split_at(bytes.len().min(NAME_MAX));
        let more = if more.is_empty() { String::new() } else { format!(" and {} bytes more", more.len()) };
        Err(Error::Decode { what: "a stored job id".into(), problem: format!("{shown:02x?}{more} is neither 16 bytes nor `=` and a name") })
    }

    /// When a made id was made, in milliseconds since 1970 by its maker's clock.
    pub fn made_at_ms(&self) -> Option<u64> {
        match &self.0 {
            Repr::Made(uuid) => uuid.get_timestamp().map(|t| {
                let (seconds, nanos) = t.to_unix();
                seconds * 1000 + u64::from(nanos) / 1_000_000
            }),
            Repr::Given(_) => None,
        }
    }
}

fn made_from_text(text: &str) -> Option<Uuid> {
    (text.len() == 36).then(|| Uuid::try_parse(text).ok()).flatten().filter(|uuid| uuid.get_version_num() == 7)
}

impl FromStr for JobId {
    type Err = Error;

    /// Reads what [`Display`](fmt::Display) prints.
    fn from_str(text: &str) -> Result<Self> {
        match made_from_text(text) {
            Some(uuid) => Ok(JobId(Repr::Made(uuid))),
            None => JobId::given(text),
        }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Made(uuid) => write!(f, "{}", uuid.hyphenated()),
            Repr::Given(text) => f.write_str(&text[1..]),
        }
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Where a job is found: `queue/id`, as it is printed and as commands take it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobAddress {
    /// The queue.
    pub queue: Arc<str>,
    /// The job's id within it.
    pub id: JobId,
}

impl fmt::Display for JobAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.queue, self.id)
    }
}

impl FromStr for JobAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((queue, id)) = text.split_once('/') else {
            return Err(Error::invalid("job", text, "has no `/`; write QUEUE/ID"));
        };
        check_name("queue", queue)?;
        Ok(JobAddress { queue: queue.into(), id: id.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_id_survives_storage_and_text() {
        let id = JobId::make();
        assert_eq!(JobId::from_bytes(id.as_bytes()).unwrap(), id);
        assert_eq!(id.to_string().parse::<JobId>().unwrap(), id);
        assert!(!id.is_given());
    }

    #[test]
    fn a_given_id_of_fifteen_characters_is_not_taken_for_a_made_one() {
        let id = JobId::given("fifteen-letters").unwrap();
        assert_eq!(id.as_bytes().len(), 16);
        assert_eq!(JobId::from_bytes(id.as_bytes()).unwrap(), id);
    }

    #[test]
    fn a_given_id_may_not_look_like_a_made_one() {
        let text = JobId::make().to_string();
        assert!(JobId::given(&text).unwrap_err().to_string().contains("prefix"));
        assert!(JobId::given("0b5f3a52-8d59-4d4e-9f0c-1fbd1e6a7c11").is_ok(), "a UUIDv4 is a name like any other");
    }

    #[test]
    fn names_outside_the_grammar_are_refused_and_the_character_is_named() {
        for bad in ["", "a b", "a{b}", "a:b", "a\0b", "a\nb", "*", "ü", &"x".repeat(129)] {
            assert!(check_name("queue", bad).is_err(), "{bad:?}");
        }
        assert!(check_name("queue", "a b").unwrap_err().to_string().contains("' '"));
    }

    #[test]
    fn an_address_is_read_as_it_is_printed() {
        let address: JobAddress = "mail/order-17".parse().unwrap();
        assert_eq!(address.to_string(), "mail/order-17");
        assert!("order-17".parse::<JobAddress>().is_err());
    }
}
