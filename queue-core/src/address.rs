//! Names and ids: the grammar of everything that becomes part of a key.

use std::str::FromStr;

use uuid::Uuid;

pub use crate::id::{JobAddress, JobId};
use crate::{
    error::{Error, Result},
    id::Repr,
};

/// Longest queue, task or given job name, in characters.
pub(crate) const NAME_MAX: usize = 128;

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

/// Separates the name of a subscription from its topic in an address.
const OF_TOPIC: char = '@';

/// Checks the address of a queue: a name, or `SUBSCRIPTION@TOPIC`.
///
/// # Errors
/// [`Error::Invalid`] naming the part that does not fit.
pub fn check_queue(queue: &str) -> Result<()> {
    match queue.split_once(OF_TOPIC) {
        None => check_name("queue", queue),
        Some((subscription, topic)) => {
            check_name("subscription", subscription)?;
            check_name("topic", topic)
        }
    }
}

/// Checks the address with which producers register: a queue, or a topic in the form of
/// [`topic_address`].
///
/// # Errors
/// [`Error::Invalid`] naming the part that does not fit.
pub(crate) fn check_address(address: &str) -> Result<()> {
    match topic_at(address) {
        Some(topic) => check_name("topic", topic),
        None => check_queue(address),
    }
}

/// The address of a topic's log, `@TOPIC`: events are enqueued there.
pub fn topic_address(topic: &str) -> String {
    format!("{OF_TOPIC}{topic}")
}

/// The topic at an address that [`topic_address`] has written.
pub fn topic_at(address: &str) -> Option<&str> {
    address.strip_prefix(OF_TOPIC)
}

/// The address of the queue of a subscription, `SUBSCRIPTION@TOPIC`.
pub fn subscription_address(subscription: &str, topic: &str) -> String {
    format!("{subscription}{OF_TOPIC}{topic}")
}

/// The subscription and the topic of a queue that is one's.
pub fn subscription_at(queue: &str) -> Option<(&str, &str)> {
    queue.split_once(OF_TOPIC).filter(|(subscription, _)| !subscription.is_empty())
}

/// Checks an id that an application chooses. It is a name that may also contain `@ : + %`, for mail
/// addresses, composed ids, and percent-encoded texts.
fn check_id(id: &str) -> Result<()> {
    let name: String = id.chars().map(|c| if matches!(c, '@' | ':' | '+' | '%') { '-' } else { c }).collect();
    match check_name("job id", &name) {
        Ok(()) => Ok(()),
        Err(Error::Invalid { problem, .. }) if (1..=NAME_MAX).contains(&id.len()) => {
            let others = "and `@`, `:`, `+`, `%`; percent-encode the rest, as `%2F` for a slash";
            Err(Error::invalid("job id", id, format!("{problem} {others}")))
        }
        Err(Error::Invalid { problem, .. }) => Err(Error::invalid("job id", id, problem)),
        Err(error) => Err(error),
    }
}

impl JobId {
    /// An id given by the application: enqueuing it again is answered `Existing`, and stores no
    /// second job.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is outside the name grammar, or reads as a generated id.
    pub fn given(id: &str) -> Result<Self> {
        check_id(id)?;
        if made_from_text(id).is_some() {
            return Err(Error::invalid("job id", id, "has the form of a generated id (UUIDv7 or UUIDv8); add a prefix"));
        }
        Ok(JobId(Repr::Given(format!("={id}").into())))
    }

    /// Reads the form in storage.
    ///
    /// # Errors
    /// [`Error::Decode`] when the bytes are neither form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.first() == Some(&b'=') {
            let text = std::str::from_utf8(bytes).ok().filter(|text| check_id(&text[1..]).is_ok());
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
}

fn made_from_text(text: &str) -> Option<Uuid> {
    (text.len() == 36).then(|| Uuid::try_parse(text).ok()).flatten().filter(|uuid| matches!(uuid.get_version_num(), 7 | 8))
}

impl FromStr for JobId {
    type Err = Error;

    /// Parses the output of [`Display`](std::fmt::Display).
    fn from_str(text: &str) -> Result<Self> {
        match made_from_text(text) {
            Some(uuid) => Ok(JobId(Repr::Made(uuid))),
            None => JobId::given(text),
        }
    }
}

impl FromStr for JobAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((queue, id)) = text.split_once('/') else {
            return Err(Error::invalid("job", text, "has no `/`; write QUEUE/ID"));
        };
        check_queue(queue)?;
        Ok(JobAddress { queue: queue.into(), id: id.parse()? })
    }
}

/// Serde's traits for types with a text form: written as `Display` prints them, read by `FromStr`.
macro_rules! serde_as_text {
    ($($ty:ty),+) => {$(
        impl serde::Serialize for $ty {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $ty {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}
pub(crate) use serde_as_text;

serde_as_text!(JobId, JobAddress);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_writes_ids_and_addresses_as_text_and_reads_them_back() {
        for id in [JobId::make(), JobId::given("order-17").unwrap()] {
            let address = JobAddress { queue: "mail".into(), id: id.clone() };
            assert_eq!(serde_json::to_value(&address).unwrap(), format!("mail/{id}"));
            assert_eq!(serde_json::from_value::<JobAddress>(serde_json::to_value(&address).unwrap()).unwrap(), address);
            assert_eq!(crate::codec::decode::<JobId>(&crate::codec::encode(&id).unwrap()).unwrap(), id);
        }
        let problem = serde_json::from_str::<JobAddress>("\"order-17\"").unwrap_err().to_string();
        assert!(problem.contains("QUEUE/ID"), "{problem}");
        assert!(serde_json::from_str::<JobId>("17").is_err());
    }

    #[test]
    fn a_made_id_survives_storage_and_text() {
        let id = JobId::make();
        assert_eq!(JobId::from_bytes(id.as_bytes()).unwrap(), id);
        assert_eq!(id.to_string().parse::<JobId>().unwrap(), id);
        assert!(!id.is_given());
    }

    #[test]
    fn the_id_of_a_tick_is_always_the_same_and_of_a_kind_of_its_own() {
        let tick = |queue, name, at, salt| JobId::of_tick(queue, name, at, salt);
        let id = tick("reports", "nightly", 1_700_000_000_000, 0);
        assert_eq!(id, tick("reports", "nightly", 1_700_000_000_000, 0));
        assert_eq!(id.to_string(), "018bcfe5-6800-8bd1-8494-047748b9e893");
        for other in [
            tick("report", "snightly", 1_700_000_000_000, 0),
            tick("reports", "nightly", 1_700_000_000_001, 0),
            tick("reports", "nightly", 1_700_000_000_000, 1),
            tick("reports", "weekly", 1_700_000_000_000, 0),
        ] {
            assert_ne!(id, other);
        }
        assert!(id.is_of_tick() && !id.is_given() && !JobId::make().is_of_tick());
        assert_eq!((id.made_at_ms(), id.to_string().parse::<JobId>().unwrap()), (Some(1_700_000_000_000), id.clone()));
        assert_eq!(JobId::from_bytes(id.as_bytes()).unwrap(), id);
        assert!(id < tick("reports", "nightly", 1_700_000_001_000, 0), "they sort by time");
        assert!(JobId::given(&id.to_string()).is_err());
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
