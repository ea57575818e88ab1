//! The decoders of this broker, for [`crate::__fuzz`].

use std::borrow::Cow;

use super::{
    answers,
    settings::{self, Role},
    url,
};
use crate::address::JobId;

/// What a server says of itself, of its cluster, and in answer to our scripts, is refused or taken.
pub(crate) fn answers(bytes: &[u8]) {
    let Ok(value) = redis::parse_redis_value(bytes) else { return };
    let id = JobId::given("fuzz").expect("it is a name");
    answers::kept_until(&value);
    if let Ok(enqueued) = answers::enqueued(value.clone(), 3) {
        assert_eq!(enqueued.len(), 3, "an answer for each job");
    }
    if let Ok((turn, _)) = answers::turn(value.clone(), &[2, 0, 1]) {
        assert!(turn.stale.iter().all(|position| *position < 3), "positions of finishes that were sent");
    }
    drop(answers::plain_turn(value.clone()));
    drop(answers::record(&id, value.clone()));
    drop(answers::gone(value.clone()));
    if let Ok(values) = answers::array(value.clone()) {
        answers::confirmed(values);
    }
    #[cfg(feature = "cluster")]
    drop(super::cluster::range(value.clone(), "127.0.0.1"));
    if let Ok(info) = answers::text(value) {
        for role in [Role::Standalone, Role::Master, Role::Node] {
            if let Err(error) = settings::judge(&info, "redis://127.0.0.1:6379", role) {
                assert!(error.to_string().len() <= crate::envelope::ERROR_MAX, "a message of {} bytes", error.to_string().len());
            }
        }
    }
}

/// What sentinels answer.
#[cfg(feature = "sentinel")]
pub(crate) fn sentinels(bytes: &[u8]) {
    if let Ok(value) = redis::parse_redis_value(bytes) {
        super::sentinel::__fuzz(value);
    }
}

/// What a server sends on a subscription.
pub(crate) fn hints(bytes: &[u8]) {
    if let Ok(value) = redis::parse_redis_value(bytes) {
        super::hints::__fuzz(value);
    }
}

/// A job's failures, as Lua packs them.
pub(crate) fn failures(bytes: &[u8]) {
    if let Err(error) = answers::failures(bytes) {
        assert!(error.to_string().len() <= crate::envelope::ERROR_MAX, "a message of {} bytes", error.to_string().len());
    }
    let gone = redis::Value::BulkString(bytes.to_vec());
    drop(answers::gone(gone));
}

/// What a URL is taken for, or why it is refused.
pub(crate) fn url(text: &str) -> Result<String, String> {
    // The scheme was looked at before.
    let known = ["redis", "rediss"].iter().any(|scheme| text.split(['+', ':']).next() == Some(scheme));
    let text = if known { Cow::Borrowed(text) } else { Cow::Owned(format!("redis://{text}")) };
    url::target(&text).map(|target| format!("{} {target:?}", target.location)).map_err(|error| error.to_string())
}
