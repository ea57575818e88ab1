//! Error replies, sorted into what whoever asked can do about them.

use redis::{ErrorKind, RedisError};

use super::endpoint::Endpoint;
use crate::{error::Error, redis::script::bits::Bit};

/// Why a call brought nothing.
#[derive(Debug)]
pub(in crate::redis) enum Refusal {
    /// It was never sent.
    Unconnected(Error),
    /// It may have been carried out: why there is no answer, and the error of the connection if it has one.
    Unanswered(String, Option<RedisError>),
    /// The server said no.
    Server(RedisError),
}

impl Refusal {
    /// The word with which a server's error begins.
    pub(in crate::redis) fn code(&self) -> Option<&str> {
        match self {
            Refusal::Server(error) => error.code(),
            _ => None,
        }
    }

    /// Whether it was surely not carried out, and may be soon.
    pub(in crate::redis) fn may_pass(&self) -> bool {
        match self {
            Refusal::Unconnected(error) => error.is_transient(),
            Refusal::Unanswered(..) => false,
            Refusal::Server(_) => {
                matches!(self.code(), Some("READONLY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN"))
            }
        }
    }

    /// What it means to whoever asked.
    pub(in crate::redis) fn told(self, endpoint: &Endpoint) -> Error {
        match self {
            Refusal::Unconnected(error) => error,
            Refusal::Unanswered(problem, cause) => {
                let ambiguous = Error::ambiguous(endpoint.shown(), problem);
                match cause {
                    Some(cause) => ambiguous.caused_by(cause),
                    None => ambiguous,
                }
            }
            Refusal::Server(error) => sorted(error, endpoint),
        }
    }
}

/// The name of a feature; one that is newer than this library has told its own.
fn named(feature: &str) -> String {
    Bit::of_letter(feature).map_or_else(|| feature.to_owned(), |bit| bit.name().to_owned())
}

fn sorted(error: RedisError, endpoint: &Endpoint) -> Error {
    let broker = endpoint.shown().to_owned();
    let detail = error.detail().unwrap_or_default().to_owned();
    match error.code() {
        Some("FORGOTTEN") => Error::Forgotten(detail),
        Some("OLD") => match detail.rsplit_once(' ').map(|(name, seq)| (name, seq.parse())) {
            Some((name, Ok(seq))) => Error::Old { name: name.to_owned(), seq },
            _ => Error::Internal(format!("OLD {detail}")),
        },
        Some("SCHEMA") => Error::SchemaTooNew { queue: broker, found: detail.parse().unwrap_or(u64::MAX), known: crate::redis::SCHEMA },
        Some("FEATURE") => Error::FeatureUnknown { broker, feature: named(&detail), by: "this library" },
        Some("BEHIND") => Error::FeatureUnknown { broker, feature: named(&detail), by: "a worker of the queue" },
        Some("OOM") => Error::BrokerFull { broker, problem: "its `maxmemory` is reached".to_owned() },
        Some("NOAUTH") => Error::AccessDenied { broker, problem: "it wants a password; write redis://user:password@host".to_owned() },
        Some("WRONGPASS") => Error::AccessDenied { broker, problem: "wrong user name or password".to_owned() },
        Some("ERR") if detail.contains("user executing the script") => Error::AccessDenied { broker, problem: detail },
        Some("NOPERM") => Error::AccessDenied { broker, problem: detail },
        Some(
            code @ ("READONLY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY" | "MISCONF" | "NOREPLICAS" | "MOVED"
            | "ASK"),
        ) => endpoint.unavailable(format!("{code} {detail}")).caused_by(error),
        Some("ERR") if detail.contains("max number of clients") => endpoint.unavailable(detail).caused_by(error),
        Some(code) => Error::Internal(format!("{code} {detail}")),
        None if error.kind() == ErrorKind::AuthenticationFailed => {
            Error::AccessDenied { broker, problem: "wrong user name or password".to_owned() }
        }
        None => endpoint.unavailable(error.to_string()).caused_by(error),
    }
}
