//! From a URL to a broker.

use crate::{
    broker::DynBroker,
    error::{Error, Result},
    text::{nearest, redacted},
};

const SCHEMES: [&str; 8] =
    ["sqlite", "redis", "rediss", "redis+unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"];

/// What happens if the database file does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Made,
    Refused,
}

/// Opens the broker that a URL names.
pub(super) async fn open(url: &str, missing: Missing) -> Result<DynBroker> {
    if let Some(problem) = stray(url) {
        return Err(Error::invalid("URL", redacted(url.trim()), problem));
    }
    let Some((scheme, rest)) = url.split_once(':').filter(|(scheme, _)| !scheme.contains('@')) else {
        return Err(Error::invalid(
            "URL",
            redacted(url),
            "has no scheme; write for example `sqlite://queue.db` or `redis://127.0.0.1:6379`",
        ));
    };
    if !(rest.starts_with("//") || scheme == "sqlite") {
        let example = nearest(&scheme.to_ascii_lowercase(), SCHEMES).unwrap_or("redis");
        let advice = format!("has no `//` after `{scheme}:`; write for example `{example}://127.0.0.1:6379`");
        return Err(Error::invalid("URL", redacted(url), advice));
    }
    match scheme {
        #[cfg(feature = "sqlite")]
        "sqlite" if missing == Missing::Refused => Ok(crate::sqlite::SqliteBroker::open_existing(url)?),
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(crate::sqlite::SqliteBroker::open(url)?),
        #[cfg(not(feature = "sqlite"))]
        "sqlite" => {
            let _ = missing;
            Err(Error::FeatureOff { scheme: scheme.to_owned(), feature: "sqlite" })
        }
        #[cfg(feature = "tls")]
        "rediss" => Ok(crate::redis::RedisBroker::connect(url).await?),
        #[cfg(not(feature = "tls"))]
        "rediss" => Err(Error::FeatureOff { scheme: scheme.to_owned(), feature: "tls" }),
        #[cfg(feature = "redis")]
        "redis" | "redis+unix" => Ok(crate::redis::RedisBroker::connect(url).await?),
        #[cfg(not(feature = "redis"))]
        "redis" | "redis+unix" => Err(Error::FeatureOff { scheme: scheme.to_owned(), feature: "redis" }),
        #[cfg(feature = "redis")]
        "redis+sentinel" | "redis+cluster" => Ok(crate::redis::RedisBroker::connect(url).await?),
        #[cfg(feature = "tls")]
        "rediss+sentinel" | "rediss+cluster" => Ok(crate::redis::RedisBroker::connect(url).await?),
        #[cfg(not(feature = "tls"))]
        "rediss+sentinel" | "rediss+cluster" => Err(Error::FeatureOff { scheme: scheme.to_owned(), feature: "tls" }),
        #[cfg(not(feature = "redis"))]
        "redis+sentinel" => Err(Error::FeatureOff { scheme: scheme.to_owned(), feature: "sentinel" }),
        #[cfg(not(feature = "redis"))]
        "redis+cluster" => Err(Error::FeatureOff { scheme: scheme.to_owned(), feature: "cluster" }),
        "valkey" | "valkeys" => {
            let same = if scheme == "valkey" { "redis" } else { "rediss" };
            Err(Error::invalid("URL scheme", scheme, format!("is not supported; use `{same}://` for Valkey")))
        }
        other => {
            let near = nearest(&other.to_ascii_lowercase(), SCHEMES).map(|near| format!("; did you mean `{near}://`?")).unwrap_or_default();
            let known = SCHEMES.map(|scheme| format!("`{scheme}://`")).join(", ");
            Err(Error::invalid("URL scheme", other, format!("is unknown{near} (there are {known})")))
        }
    }
}

/// Characters that were pasted with the URL or read from a file with it: they would lead to another
/// database or server.
fn stray(url: &str) -> Option<&'static str> {
    if url.is_empty() {
        Some("is empty; write for example `sqlite://queue.db` or `redis://127.0.0.1:6379`")
    } else if url.ends_with(['\n', '\r']) {
        Some("ends with a line end: remove it, as `$(cat file)` does, or write `%0A` if the path has one")
    } else if url.contains(char::is_control) {
        Some("has a control character in it: remove it, or percent-encode it")
    } else if url.trim() != url {
        Some("begins or ends with a space: remove it, or write `%20` if the path has one")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unknown_url_is_refused_with_the_known_ones() {
        let problem = async |url: &str| open(url, Missing::Made).await.unwrap_err().to_string();
        assert!(problem("queue.db").await.contains("sqlite://queue.db"));
        assert!(problem("reddis://localhost").await.contains("did you mean `redis://`"));
        assert!(problem("amqp://localhost").await.contains("`rediss://`"));
        assert!(problem("redis:localhost").await.contains("`//`"));
        assert!(problem("REDIS://localhost").await.contains("did you mean `redis://`"));
        assert!(problem("redis+sentinels://localhost/main").await.contains("did you mean `redis+sentinel://`"));
        assert!(problem("valkeys://localhost").await.contains("`rediss://`"));
        assert!(problem("").await.contains("is empty"));
        assert!(problem("sqlite://queue.db\n").await.contains("`sqlite://queue.db` ends with a line end"));
        assert!(problem(" sqlite://queue.db").await.contains("a space"));
        assert!(problem("redis://local\u{1b}host").await.contains("control character"));
        let leak = problem("geheim@host:6379").await;
        assert!(leak.contains("no scheme") && !leak.contains("geheim"), "{leak}");
        assert!(problem("://").await.contains("is unknown"));
    }
}
