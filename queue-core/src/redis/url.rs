//! `redis://` and `rediss://` URLs.

use redis::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion, io::tcp::TcpSettings};

use crate::{
    address::check_name,
    client::redacted,
    error::{Error, Result},
};

/// The namespace of a URL that names none.
const NAMESPACE: &str = "queue";

/// What a URL says.
pub(super) struct Target {
    /// For requests.
    pub(super) requests: redis::Client,
    /// For announcements, which need the newer protocol.
    pub(super) hints: redis::Client,
    pub(super) namespace: String,
    /// Without secrets.
    pub(super) location: String,
}

pub(super) fn target(url: &str) -> Result<Target> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut namespace = NAMESPACE.to_owned();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("namespace", value)) => {
                check_name("namespace", value)?;
                value.clone_into(&mut namespace);
            }
            _ => return Err(Error::invalid("URL parameter", pair, "is unknown; there is `namespace=NAME`")),
        }
    }
    let location = redacted(url);
    let info = base.into_connection_info().map_err(|error| {
        Error::invalid("URL", &location, format!("cannot be read ({error}); write redis://[user:password@]host[:port][/db]"))
    })?;
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
    let client = |protocol: ProtocolVersion| {
        let settings = info.redis_settings().clone().set_protocol(protocol);
        open(info.clone().set_redis_settings(settings), &location)
    };
    Ok(Target { requests: client(ProtocolVersion::RESP2)?, hints: client(ProtocolVersion::RESP3)?, namespace, location })
}

fn open(info: ConnectionInfo, location: &str) -> Result<redis::Client> {
    #[cfg(feature = "tls")]
    // A second call finds one installed, perhaps the application's own, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    redis::Client::open(info).map_err(|error| Error::invalid("URL", location, format!("cannot be used: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_namespace_and_hides_its_password() {
        let target = target("redis://app:geheim@localhost:7000/3?namespace=shop").unwrap();
        assert_eq!((target.namespace.as_str(), target.location.as_str()), ("shop", "redis://app:***@localhost:7000/3?namespace=shop"));
        assert_eq!(super::target("redis://localhost").unwrap().namespace, "queue");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        let problem = |url: &str| target(url).err().unwrap().to_string();
        assert!(problem("redis://localhost?namespace=a%20b").starts_with("namespace "));
        assert!(problem("redis://localhost?timeout=3").contains("timeout=3"));
        assert!(problem("redis://localhost/notanumber").starts_with("URL "));
    }
}
