//! From a URL to a broker.

use crate::{
    broker::DynBroker,
    error::{Error, Result},
};

const SCHEMES: [&str; 7] = ["sqlite", "redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"];

/// What becomes of a database file that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Made,
    Refused,
}

/// Opens the broker that a URL names.
pub(super) async fn open(url: &str, missing: Missing) -> Result<DynBroker> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(Error::invalid(
            "URL",
            redacted(url),
            "has no scheme; write for example `sqlite://queue.db` or `redis://127.0.0.1:6379`",
        ));
    };
    if !(rest.starts_with("//") || scheme == "sqlite") {
        let example = nearest(&scheme.to_ascii_lowercase(), SCHEMES).unwrap_or("redis");
        let way_out = format!("has no `//` behind `{scheme}:`; write for example `{example}://127.0.0.1:6379`");
        return Err(Error::invalid("URL", redacted(url), way_out));
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
        "redis" => Ok(crate::redis::RedisBroker::connect(url).await?),
        #[cfg(not(feature = "redis"))]
        "redis" => Err(Error::FeatureOff { scheme: scheme.to_owned(), feature: "redis" }),
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
            Err(Error::invalid("URL scheme", scheme, format!("is not one of ours; Valkey is reached by `{same}://`")))
        }
        other => {
            let near = nearest(&other.to_ascii_lowercase(), SCHEMES).map(|near| format!("; did you mean `{near}://`?")).unwrap_or_default();
            let known = SCHEMES.map(|scheme| format!("`{scheme}://`")).join(", ");
            Err(Error::invalid("URL scheme", other, format!("is unknown{near} (there are {known})")))
        }
    }
}

/// A URL without its password, for messages.
pub(crate) fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // Not a URL, yet whoever wrote it may have put a password into it.
        return url.rsplit_once('@').map_or_else(|| url.to_owned(), |(_, host)| format!("***@{host}"));
    };
    let (authority, tail) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let mut parameters: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty()).collect();
    for pair in &mut parameters {
        if pair.starts_with("sentinel_password=") {
            *pair = "sentinel_password=***";
        }
    }
    if !authority.contains('@') && (path.contains('@') || parameters.iter().any(|pair| pair.contains('@'))) {
        // Its password has a `/` or `?` in it that should have been written as %2F or %3F.
        return format!("{scheme}://***");
    }
    let mark = if parameters.is_empty() { "" } else { "?" };
    let tail = format!("{path}{mark}{}", parameters.join("&"));
    match authority.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split_once(':').map_or(user, |(user, _)| user);
            format!("{scheme}://{user}:***@{host}{tail}")
        }
        None => format!("{scheme}://{authority}{tail}"),
    }
}

/// The nearest of some words, for "did you mean".
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = word.chars().count() / 3 + 1;
    known.into_iter().map(|other| (distance(word, other), other)).filter(|(distance, _)| *distance <= limit).min().map(|(_, other)| other)
}

/// The Levenshtein distance.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = last[0];
        last[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = last[j + 1];
            last[j + 1] = replaced.min(last[j] + 1).min(diagonal + 1);
        }
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_url_that_cannot_be_meant_says_what_can() {
        let problem = async |url: &str| open(url, Missing::Made).await.unwrap_err().to_string();
        assert!(problem("queue.db").await.contains("sqlite://queue.db"));
        assert!(problem("reddis://localhost").await.contains("did you mean `redis://`"));
        assert!(problem("amqp://localhost").await.contains("`rediss://`"));
        assert!(problem("redis:localhost").await.contains("`//`"));
        assert!(problem("REDIS://localhost").await.contains("did you mean `redis://`"));
        assert!(problem("redis+sentinels://localhost/main").await.contains("did you mean `redis+sentinel://`"));
        assert!(problem("valkeys://localhost").await.contains("`rediss://`"));
        assert!(problem("").await.contains("no scheme"));
        assert!(problem("://").await.contains("is unknown"));
    }

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(redacted("redis://app:geheim@host:1/2?x=y"), "redis://app:***@host:1/2?x=y");
        assert_eq!(redacted("redis://:p@ss@host"), "redis://:***@host");
        assert_eq!(redacted("redis://host/0"), "redis://host/0");
        let url = "redis+sentinel://one,two/main?sentinel_password=geheim&namespace=x";
        assert_eq!(redacted(url), "redis+sentinel://one,two/main?sentinel_password=***&namespace=x");
        assert_eq!(redacted("redis:app:geheim@host"), "***@host");
        assert_eq!(redacted("redis://:ge/heim@host"), "redis://***");
        assert_eq!(redacted("redis://:ge?heim@host/0"), "redis://***");
        assert_eq!(redacted("queue.db"), "queue.db");
    }
}
