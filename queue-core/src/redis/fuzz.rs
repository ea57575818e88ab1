//! The decoders of this broker, for [`crate::__private::fuzz`].

use std::borrow::Cow;

use super::{
    connection::{
        settings::{self, Role},
        url,
    },
    enqueue, lease, people, turn, values,
};
use crate::address::JobId;

/// Decodes the answers of a server about itself, its cluster, and to our scripts.
pub(crate) fn answers(bytes: &[u8]) {
    let Ok(value) = redis::parse_redis_value(bytes) else { return };
    let id = JobId::given("fuzz").expect("it is a name");
    people::kept_until(&value);
    if let Ok(Some(enqueued)) = enqueue::parse_enqueued(value.clone(), 3) {
        assert_eq!(enqueued.len(), 3, "an answer for each job");
    }
    if let Ok(Some((turn, _))) = turn::answer::parse_turn(value.clone(), &[2, 0, 1]) {
        assert!(turn.stale.iter().all(|position| *position < 3), "positions of finishes that were sent");
    }
    drop(people::record(&id, value.clone()));
    drop(lease::parse_cancelled(value.clone()));
    if let Ok(values) = values::array(value.clone()) {
        enqueue::parse_confirmed(values);
    }
    #[cfg(feature = "cluster")]
    drop(super::connection::cluster::parse_range(value.clone(), "127.0.0.1"));
    if let Ok(info) = values::text(value) {
        for role in [Role::Standalone, Role::Master, Role::Node] {
            if let Err(error) = settings::check_info(&info, "redis://127.0.0.1:6379", role) {
                assert!(error.to_string().len() <= crate::envelope::ERROR_MAX, "a message of {} bytes", error.to_string().len());
            }
        }
    }
}

/// Decodes the answers of sentinels.
#[cfg(feature = "sentinel")]
pub(crate) fn sentinels(bytes: &[u8]) {
    if let Ok(value) = redis::parse_redis_value(bytes) {
        super::connection::sentinel::__fuzz(value);
    }
}

/// Decodes the messages of a server on a subscription.
pub(crate) fn hints(bytes: &[u8]) {
    if let Ok(value) = redis::parse_redis_value(bytes) {
        super::connection::hints::__fuzz(value);
    }
}

/// Decodes a job's failures as Lua packs them.
pub(crate) fn failures(bytes: &[u8]) {
    if let Err(error) = people::failures(bytes) {
        assert!(error.to_string().len() <= crate::envelope::ERROR_MAX, "a message of {} bytes", error.to_string().len());
    }
    let gone = redis::Value::BulkString(bytes.to_vec());
    drop(lease::parse_cancelled(gone));
}

/// The target of a URL, or the error.
pub(crate) fn url(text: &str) -> Result<String, String> {
    // The caller has checked the scheme.
    let known = ["redis", "rediss"].iter().any(|scheme| text.split(['+', ':']).next() == Some(scheme));
    let text = if known { Cow::Borrowed(text) } else { Cow::Owned(format!("redis://{text}")) };
    url::target(&text).map(|target| format!("{} {target:?}", target.location)).map_err(|error| error.to_string())
}
