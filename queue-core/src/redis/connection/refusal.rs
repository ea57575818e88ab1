//! Error replies, sorted by the reaction of the caller.

use std::sync::Arc;

use redis::{ErrorKind, RedisError};

use super::endpoint::Endpoint;
use crate::{
    error::{Error, Unreachable},
    redis::script::bits::Bit,
};

/// Why a call failed.
#[derive(Debug)]
pub(in crate::redis) enum Refusal {
    /// The call was never sent.
    Unconnected(Error),
    /// The call may have been carried out. The reason why there is no answer, and the error of the
    /// connection if there is one.
    Unanswered(String, Option<RedisError>),
    /// The server answered with an error.
    Server(RedisError),
}

impl Refusal {
    /// The first word of a server's error.
    pub(in crate::redis) fn code(&self) -> Option<&str> {
        match self {
            Refusal::Server(error) => error.code(),
            _ => None,
        }
    }

    /// Whether the call was certainly not carried out, and may succeed soon.
    pub(in crate::redis) fn is_temporary(&self) -> bool {
        match self {
            Refusal::Unconnected(error) => error.is_transient(),
            Refusal::Unanswered(..) => false,
            Refusal::Server(_) => {
                matches!(self.code(), Some("READONLY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY"))
            }
        }
    }

    /// The error that the caller gets.
    pub(in crate::redis) fn into_error(self, endpoint: &Endpoint) -> Error {
        match self {
            Refusal::Unconnected(error) => error,
            Refusal::Unanswered(problem, cause) => {
                let ambiguous = Error::ambiguous(endpoint.shown(), problem);
                match cause {
                    Some(cause) => ambiguous.caused_by(cause),
                    None => ambiguous,
                }
            }
            Refusal::Server(error) => classify(error, endpoint),
        }
    }
}

/// The name of a feature; one that is newer than this library has reported its own.
/// Who does not know a feature that a request would set.
pub(in crate::redis) const BY_A_LANE: &str = "a worker of the queue";

fn feature_label(feature: &str) -> String {
    Bit::of_letter(feature).map_or_else(|| feature.to_owned(), |bit| bit.name().to_owned())
}

fn classify(error: RedisError, endpoint: &Endpoint) -> Error {
    match (error.code(), error.kind()) {
        (Some(code), _) => error_of_code(code, error.detail().unwrap_or_default(), endpoint).caused_by(error),
        (None, ErrorKind::AuthenticationFailed) => error_of_code("WRONGPASS", "", endpoint),
        (None, ErrorKind::Io) => {
            let problem = error.to_string();
            let cause = Unreachable { problem: problem.clone(), cause: Some(Arc::new(error)) };
            endpoint.unavailable(problem).caused_by(cause)
        }
        (None, _) => endpoint
            .unavailable(format!("its answer is not in the Redis protocol ({error}); check that the URL names a Redis server"))
            .caused_by(error),
    }
}

/// The error for a reply with this code.
pub(super) fn error_of_code(code: &str, detail: &str, endpoint: &Endpoint) -> Error {
    let broker = endpoint.shown().to_owned();
    let denied = |problem: String| Error::AccessDenied { broker: broker.clone(), problem };
    match code {
        "FORGOTTEN" => Error::Forgotten(detail.to_owned()),
        "OLD" => match detail.rsplit_once(' ').map(|(name, seq)| (name, seq.parse())) {
            Some((name, Ok(seq))) => Error::Old { name: name.to_owned(), seq },
            _ => Error::Internal(format!("OLD {detail}")),
        },
        "SCHEMA" => Error::SchemaTooNew { queue: broker, found: detail.parse().unwrap_or(u64::MAX), known: crate::redis::SCHEMA },
        "FEATURE" => Error::FeatureUnknown { broker, feature: feature_label(detail), by: "this library" },
        "BEHIND" => Error::FeatureUnknown { broker, feature: feature_label(detail), by: BY_A_LANE },
        "OOM" => Error::BrokerFull { broker, problem: "its `maxmemory` is reached".to_owned() },
        "NOAUTH" => denied("it requires a password; write redis://user:password@host".to_owned()),
        "WRONGPASS" => denied("wrong user name or password, or the user is disabled".to_owned()),
        "NOPERM" => denied(format!("{detail}; the rules that each role needs are in `docs/acl`")),
        "DENIED" => denied("it is in protected mode and accepts only local connections until a password is set".to_owned()),
        "ERR" if detail.contains("user executing the script") => {
            denied(format!("{detail}; the rules that each role needs are in `docs/acl`"))
        }
        "ERR" if detail.contains("DB index is out of range") || detail.contains("SELECT is not allowed") => {
            let advice = "databases are numbered from 0, and the server's setting `databases` is their number; a cluster has only 0";
            Error::Config(format!("{broker} names a database that the server does not have ({detail}): {advice}"))
        }
        "CROSSSLOT" => Error::Internal(format!(
            "{broker} reports that the keys of one request are on several nodes (CROSSSLOT {detail}); all keys of a queue have one hash tag, so check for a proxy that changes keys, or report a bug"
        )),
        _ => match temporary_problem(code, detail) {
            Some(problem) => endpoint.unavailable(problem),
            None => Error::Internal(format!("{code} {detail}")),
        },
    }
}

/// The problem of a server that was reached but cannot serve now.
fn temporary_problem(code: &str, detail: &str) -> Option<String> {
    let problem = match code {
        "READONLY" => "it has become a replica and accepts no writes (READONLY); a URL without sentinels must name the new master",
        "LOADING" => "it has just started and is loading its data (LOADING); wait until it has finished",
        "MASTERDOWN" => "it is a replica that has lost its master (MASTERDOWN); wait for the failover, or check the master",
        "CLUSTERDOWN" => {
            return Some(format!("its cluster does not serve all slots (CLUSTERDOWN {detail}); see `redis-cli --cluster check`"));
        }
        "TRYAGAIN" => "the slot of the queue is migrating to another node (TRYAGAIN); wait until the migration has finished",
        "MOVED" | "ASK" => return Some(format!("the nodes of its cluster do not agree where the queue is ({code} {detail})")),
        "BUSY" => "it is blocked by a script or function of another client (BUSY); wait, or stop it with `SCRIPT KILL` or `FUNCTION KILL`",
        "MISCONF" => return Some(format!("it rejects all writes because it cannot save them to its disk (MISCONF {detail})")),
        "NOREPLICAS" => "it rejects all writes because fewer replicas are connected than `min-replicas-to-write` requires (NOREPLICAS)",
        "ERR" if detail.contains("max number of clients") => {
            return Some(format!(
                "it accepts no more connections ({detail}): raise its `maxclients`, or list the connections with `CLIENT LIST`"
            ));
        }
        _ => return None,
    };
    Some(problem.to_owned())
}
