//! URLs: what they say, and how a server that they name is reached.
//!
//! | URL | names |
//! |---|---|
//! | `redis://[user:password@]host[:6379][/db]` | one server |
//! | `redis+sentinel://[user:password@]host[:26379],host…/service[/db]` | the sentinels that know the service's master |
//! | `redis+cluster://[user:password@]host[:6379],host…` | some nodes of a cluster |
//!
//! `rediss` in place of `redis` means TLS. Behind a `?` stand `namespace=NAME` and, for sentinels that ask for it,
//! `sentinel_user=` and `sentinel_password=`.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, io::tcp::TcpSettings};

use crate::{
    address::check_name,
    client::redacted,
    error::{Error, Result},
};

/// The namespace of a URL that names none.
const NAMESPACE: &str = "queue";

/// What a URL says.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) engine: Engine,
    pub(super) namespace: String,
    /// Without secrets.
    pub(super) location: String,
}

/// Which servers there are.
#[derive(Debug)]
#[cfg_attr(not(all(feature = "sentinel", feature = "cluster")), allow(dead_code, reason = "read, and then refused"))]
pub(super) enum Engine {
    /// One that stands alone.
    Standalone(Access, Address),
    /// A master that sentinels know.
    Sentinel { sentinels: Vec<(Access, Address)>, service: String, servers: Access },
    /// The nodes of a cluster, some of which are named.
    Cluster { seeds: Vec<Address>, nodes: Access },
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') { write!(f, "[{}]:{}", self.host, self.port) } else { write!(f, "{}:{}", self.host, self.port) }
    }
}

/// How a server is spoken to: user, password, database, TLS.
#[derive(Clone)]
pub(super) struct Access(ConnectionInfo);

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // It holds a password.
        f.write_str("Access")
    }
}

impl Access {
    /// A client of the server at this address.
    pub(super) fn client(&self, address: &Address, protocol: ProtocolVersion) -> Result<redis::Client> {
        let at = match self.0.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host: address.host.clone(), port: address.port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(address.host.clone(), address.port),
        };
        let settings = self.0.redis_settings().clone().set_protocol(protocol);
        #[cfg(feature = "tls")]
        // A second call finds one installed, perhaps the application's own, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        redis::Client::open(self.0.clone().set_addr(at).set_redis_settings(settings))
            .map_err(|error| Error::invalid("server address", address.to_string(), format!("cannot be used: {error}")))
    }
}

pub(super) fn target(url: &str) -> Result<Target> {
    let location = redacted(url);
    let parts = Parts::of(url, &location)?;
    let engine = match parts.engine {
        "" => {
            let (access, address) = parts.server(parts.hosts, parts.path, 6379)?;
            Engine::Standalone(access, address)
        }
        "sentinel" => {
            let (service, database) = parts
                .path
                .strip_prefix('/')
                .unwrap_or_default()
                .split_once('/')
                .unwrap_or((parts.path.strip_prefix('/').unwrap_or_default(), ""));
            if service.is_empty() {
                let way_out = "names no service; write redis+sentinel://host:port,host:port/SERVICE";
                return Err(Error::invalid("URL", location, way_out));
            }
            let (servers, _) = parts.server("localhost", &format!("/{database}"), 6379)?;
            let sentinels = Parts { user: parts.sentinel_user.clone(), ..parts.clone() };
            let named = parts.hosts.split(',').map(|host| sentinels.server(host, "", 26379));
            Engine::Sentinel { sentinels: named.collect::<Result<_>>()?, service: service.to_owned(), servers }
        }
        _ => {
            if !matches!(parts.path, "" | "/" | "/0") {
                return Err(Error::invalid("URL", location, "names a database; a cluster has none but 0"));
            }
            let named: Vec<_> = parts.hosts.split(',').map(|host| parts.server(host, "", 6379)).collect::<Result<_>>()?;
            let nodes = named.first().map(|(access, _)| access.clone());
            let nodes = nodes.ok_or_else(|| Error::invalid("URL", &location, "names no server"))?;
            Engine::Cluster { seeds: named.into_iter().map(|(_, address)| address).collect(), nodes }
        }
    };
    Ok(Target { engine, namespace: parts.namespace, location })
}

/// A URL, taken apart. What is between the parts is checked where they are used.
#[derive(Clone)]
struct Parts<'a> {
    location: &'a str,
    /// `redis` or `rediss`.
    scheme: &'a str,
    /// `sentinel`, `cluster`, or nothing.
    engine: &'a str,
    /// With its `@`.
    user: String,
    hosts: &'a str,
    /// With its `/`.
    path: &'a str,
    namespace: String,
    /// With its `@`.
    sentinel_user: String,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str, location: &'a str) -> Result<Self> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (scheme, rest) = base.split_once("://").unwrap_or(("redis", base));
        let (scheme, engine) = scheme.split_once('+').unwrap_or((scheme, ""));
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (user, hosts) = authority.rsplit_once('@').map_or((String::new(), authority), |(user, hosts)| (format!("{user}@"), hosts));
        let mut namespace = NAMESPACE.to_owned();
        let (mut sentinel_user, mut sentinel_password) = ("", "");
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("namespace", value)) => {
                    check_name("namespace", value)?;
                    value.clone_into(&mut namespace);
                }
                Some(("sentinel_user", value)) if engine == "sentinel" => sentinel_user = value,
                Some(("sentinel_password", value)) if engine == "sentinel" => sentinel_password = value,
                other => {
                    // Whatever stands behind the `=` may be a secret.
                    let name = other.map_or(pair, |(name, _)| name);
                    let known = if engine == "sentinel" { "; also `sentinel_user=` and `sentinel_password=`" } else { "" };
                    return Err(Error::invalid("URL parameter", name, format!("is unknown; there is `namespace=NAME`{known}")));
                }
            }
        }
        let anonymous = sentinel_user.is_empty() && sentinel_password.is_empty();
        let sentinel_user = if anonymous { String::new() } else { format!("{sentinel_user}:{sentinel_password}@") };
        Ok(Parts { location, scheme, engine, user, hosts, path, namespace, sentinel_user })
    }

    /// One server: `host[:port]`, with a database behind a `/`.
    fn server(&self, host: &str, path: &str, port: u16) -> Result<(Access, Address)> {
        let unreadable = |problem: String| {
            let form = match self.engine {
                "" => "redis://[user:password@]host[:port][/db]",
                "sentinel" => "redis+sentinel://[user:password@]host[:port],host[:port]/SERVICE[/db]",
                _ => "redis+cluster://[user:password@]host[:port],host[:port]",
            };
            Error::invalid("URL", self.location, format!("cannot be read ({problem}); write {form}"))
        };
        if host.is_empty() {
            return Err(unreadable("a host has no name".to_owned()));
        }
        let named = !host.ends_with(']') && host.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty());
        let port = if named { String::new() } else { format!(":{port}") };
        let url = format!("{}://{}{host}{port}{path}", self.scheme, self.user);
        let info = url.into_connection_info().map_err(|error| unreadable(error.to_string()))?;
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => Address { host: host.clone(), port: *port },
            ConnectionAddr::Unix(_) => return Err(unreadable("a socket's path is not supported".to_owned())),
            _ => return Err(unreadable("it names no host".to_owned())),
        };
        Ok((Access(info.set_tcp_settings(TcpSettings::default().set_nodelay(true))), address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[test]
    fn a_url_names_a_namespace_and_hides_its_password() {
        let target = target("redis://app:geheim@localhost:7000/3?namespace=shop").unwrap();
        assert_eq!((target.namespace.as_str(), target.location.as_str()), ("shop", "redis://app:***@localhost:7000/3?namespace=shop"));
        assert!(!format!("{target:?}").contains("geheim"));
        assert_eq!(super::target("redis://localhost").unwrap().namespace, "queue");
    }

    #[test]
    fn sentinels_have_a_service_and_a_password_of_their_own() {
        let url = "redis+sentinel://app:p%40ss@one,two:7001/main/2?sentinel_user=watch&sentinel_password=s%3Aecret";
        let target = target(url).unwrap();
        assert!(!target.location.contains("ecret") && !target.location.contains("p%40ss"), "{}", target.location);
        let Engine::Sentinel { sentinels, service, servers } = target.engine else { panic!("sentinels") };
        assert_eq!(service, "main");
        let settings = servers.0.redis_settings();
        assert_eq!((settings.username(), settings.password(), settings.db()), (Some("app"), Some("p@ss"), 2));
        let addresses: Vec<_> = sentinels.iter().map(|(_, address)| address.clone()).collect();
        assert_eq!(addresses, [address("one", 26379), address("two", 7001)]);
        let settings = sentinels[0].0.0.redis_settings();
        assert_eq!((settings.username(), settings.password()), (Some("watch"), Some("s:ecret")));
    }

    #[test]
    fn a_cluster_is_named_by_some_of_its_nodes() {
        let Engine::Cluster { seeds, nodes } = target("redis+cluster://:pw@one:7000,[::1],[::2]:7002").unwrap().engine else {
            panic!("a cluster")
        };
        assert_eq!(seeds, [address("one", 7000), address("::1", 6379), address("::2", 7002)]);
        assert_eq!(nodes.0.redis_settings().password(), Some("pw"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        let problem = |url: &str| target(url).err().unwrap().to_string();
        assert!(problem("redis://localhost?namespace=a%20b").starts_with("namespace "));
        assert!(problem("redis://localhost?timeout=3").contains("`timeout`"));
        assert!(problem("redis://localhost?sentinel_password=geheim").contains("`sentinel_password`"));
        assert!(!problem("redis://localhost?sentinel_password=geheim").contains("geheim"));
        assert!(problem("redis://localhost/notanumber").starts_with("URL "));
        assert!(problem("redis+sentinel://one,two").contains("/SERVICE"));
        assert!(problem("redis+sentinel://one,,two/main").contains("has no name"));
        assert!(problem("redis+cluster://one/3").contains("none but 0"));
        assert!(problem("redis+cluster://one:port").contains("redis+cluster://"));
    }
}
