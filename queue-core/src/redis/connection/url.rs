//! URLs, and the connection settings of the servers that they name.
//!
//! | URL | names |
//! |---|---|
//! | `redis://[user:password@]host[:6379][/db]` | one server |
//! | `redis+unix://[user:password@]/path/to/socket` | one server, by its socket |
//! | `redis+sentinel://[user:password@]host[:26379],host…/service[/db]` | the sentinels that know the service's master |
//! | `redis+cluster://[user:password@]host[:6379],host…` | some nodes of a cluster |
//!
//! `rediss` instead of `redis` means TLS. The [`Parameters`] may follow after a `?`.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisFuture,
    io::{AsyncDNSResolver, tcp::TcpSettings},
};

use crate::{
    address::check_name,
    error::{Error, Result},
    text::redacted,
};

/// The namespace of a URL that names none.
const NAMESPACE: &str = "queue";

/// The parts of a URL.
#[derive(Debug)]
pub(in crate::redis) struct Target {
    pub(in crate::redis) engine: Engine,
    pub(in crate::redis) namespace: String,
    /// Without secrets.
    pub(in crate::redis) location: String,
}

/// The kind and the addresses of the servers.
#[derive(Debug)]
#[cfg_attr(not(all(feature = "sentinel", feature = "cluster")), allow(dead_code, reason = "read, and then refused"))]
pub(in crate::redis) enum Engine {
    /// One server without sentinels or a cluster.
    Standalone(Access, Address),
    /// A master that sentinels monitor.
    Sentinel { sentinels: Vec<(Access, Address)>, service: String, servers: Access },
    /// The nodes of a cluster, some of which are named.
    Cluster { seeds: Vec<Address>, nodes: Access },
}

impl Engine {
    /// The servers that the URL names.
    fn addresses(&self) -> Box<dyn Iterator<Item = &Address> + '_> {
        match self {
            Engine::Standalone(_, address) => Box::new(std::iter::once(address)),
            Engine::Sentinel { sentinels, .. } => Box::new(sentinels.iter().map(|(_, address)| address)),
            Engine::Cluster { seeds, .. } => Box::new(seeds.iter()),
        }
    }
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::redis) struct Address {
    /// A host name, or the path of a socket, which begins with a `/`.
    pub(in crate::redis) host: String,
    pub(in crate::redis) port: u16,
}

impl Address {
    pub(in crate::redis) fn is_socket(&self) -> bool {
        self.host.starts_with('/')
    }

    fn is_local(&self) -> bool {
        self.is_socket() || self.host == "localhost" || self.host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.host {
            path if self.is_socket() => f.write_str(path),
            host if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            host => write!(f, "{host}:{}", self.port),
        }
    }
}

/// The connection settings of a server: user, password, database, TLS.
#[derive(Clone)]
pub(in crate::redis) struct Access {
    info: ConnectionInfo,
    /// Read for every connection, so that an operator can replace the password while the process
    /// runs.
    password_file: Option<PathBuf>,
    /// The name in the certificates, if it differs from the address.
    tls_name: Option<String>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Omits the password.
        f.write_str("Access")
    }
}

impl Access {
    pub(in crate::redis) fn uses_tls(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// A client of the server at this address, and how it connects.
    pub(in crate::redis) fn client(&self, address: &Address, protocol: ProtocolVersion) -> Result<(redis::Client, AsyncConnectionConfig)> {
        let mut config = AsyncConnectionConfig::new();
        let at = match self.info.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                let host = self.tls_name.as_ref().unwrap_or(&address.host).clone();
                if self.tls_name.is_some() {
                    config = config.set_dns_resolver(At(address.clone()));
                }
                ConnectionAddr::TcpTls { host, port: address.port, insecure, tls_params }
            }
            _ if address.is_socket() => ConnectionAddr::Unix(PathBuf::from(&address.host)),
            _ => ConnectionAddr::Tcp(address.host.clone(), address.port),
        };
        let mut settings = self.info.redis_settings().clone().set_protocol(protocol);
        if let Some(file) = &self.password_file {
            settings = settings.set_password(password(file)?);
        }
        #[cfg(feature = "tls")]
        // A second call finds a provider installed. The application may have installed its own,
        // which is suitable too.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = redis::Client::open(self.info.clone().set_addr(at).set_redis_settings(settings))
            .map_err(|error| Error::invalid("server address", address.to_string(), format!("cannot be used: {error}")))?;
        Ok((client, config))
    }
}

/// Resolves each name to one address: the name is only for the certificate.
struct At(Address);

impl AsyncDNSResolver for At {
    fn resolve<'a, 'b: 'a>(&'a self, _: &'b str, port: u16) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        Box::pin(async move {
            let found: Box<dyn Iterator<Item = SocketAddr> + Send> = Box::new(tokio::net::lookup_host((self.0.host.as_str(), port)).await?);
            Ok(found)
        })
    }
}

fn password(file: &Path) -> Result<String> {
    let unreadable = |problem: String| Error::Config(format!("the password in `{}` cannot be read: {problem}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(unreadable("the file is empty".to_owned())),
        password => Ok(password.to_owned()),
    }
}

pub(in crate::redis) fn target(url: &str) -> Result<Target> {
    let location = redacted(url);
    if location.ends_with("://***") {
        // The message contains no part of the URL, because any part may belong to its password.
        let advice = "cannot be read; write redis://[user:password@]host[:port][/db], and in a password %40 for `@`, %2F for `/`, %3F for `?`, %23 for `#`";
        return Err(Error::invalid("URL", location, advice));
    }
    let parts = Parts::of(url, &location)?;
    let engine = match parts.engine {
        "" => {
            let (access, address) = parts.server(parts.hosts, parts.path, 6379)?;
            Engine::Standalone(access, address)
        }
        "unix" => {
            if !parts.hosts.is_empty() || parts.path.len() < 2 || parts.scheme != "redis" {
                return Err(Error::invalid("URL", location, "names no socket; write redis+unix:///path/to/socket"));
            }
            let database = if parts.parameters.db.is_empty() { "0" } else { parts.parameters.db };
            let (access, _) = parts.server("localhost", &format!("/{database}"), 6379)?;
            Engine::Standalone(access, Address { host: parts.path.to_owned(), port: 0 })
        }
        "sentinel" => {
            let (service, database) = parts
                .path
                .strip_prefix('/')
                .unwrap_or_default()
                .split_once('/')
                .unwrap_or((parts.path.strip_prefix('/').unwrap_or_default(), ""));
            if service.is_empty() {
                let advice = "names no service; write redis+sentinel://host:port,host:port/SERVICE";
                return Err(Error::invalid("URL", location, advice));
            }
            let (servers, _) = parts.server("localhost", &format!("/{database}"), 6379)?;
            let sentinels = parts.of_sentinels();
            let named = parts.hosts.split(',').map(|host| sentinels.server(host, "", 26379));
            Engine::Sentinel { sentinels: named.collect::<Result<_>>()?, service: service.to_owned(), servers }
        }
        _ => {
            if !matches!(parts.path, "" | "/" | "/0") {
                return Err(Error::invalid("URL", location, "names a database; a cluster has only database 0"));
            }
            let named: Vec<_> = parts.hosts.split(',').map(|host| parts.server(host, "", 6379)).collect::<Result<_>>()?;
            let nodes = named.first().map(|(access, _)| access.clone());
            let nodes = nodes.ok_or_else(|| Error::invalid("URL", &location, "names no server"))?;
            Engine::Cluster { seeds: named.into_iter().map(|(_, address)| address).collect(), nodes }
        }
    };
    if parts.scheme == "redis" && !engine.addresses().all(Address::is_local) {
        tracing::warn!(broker = location, "the connection to another machine is not encrypted; use `rediss` instead of `redis`");
    }
    Ok(Target { engine, namespace: parts.parameters.namespace.to_owned(), location })
}

/// The parameters after the `?` of a URL. File paths are not percent-decoded.
#[derive(Clone, Default)]
struct Parameters<'a> {
    /// The prefix of all keys; `queue` by default.
    namespace: &'a str,
    /// A file with the password, instead of a password in the URL. It is read again for every new
    /// connection.
    password_file: &'a str,
    /// A file with the trusted root certificates (PEM), instead of the default ones. For TLS.
    ca: &'a str,
    /// The name in the certificates of servers that announce addresses. For TLS.
    tls_name: &'a str,
    /// The number of the database. For `redis+unix`, where the path is that of the socket.
    db: &'a str,
    /// Files with our own certificate and its key (PEM), for servers that require one. For TLS.
    cert: &'a str,
    key: &'a str,
    /// The user for sentinels that require authentication. For `redis+sentinel`.
    sentinel_user: &'a str,
    sentinel_password: &'a str,
    sentinel_password_file: &'a str,
}

impl<'a> Parameters<'a> {
    fn of(query: &'a str, has_tls: bool, engine: &str) -> Result<Self> {
        let has_sentinels = engine == "sentinel";
        let mut this = Parameters { namespace: NAMESPACE, ..Parameters::default() };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            // The value may be a secret.
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let place = match name {
                "namespace" => &mut this.namespace,
                "password_file" => &mut this.password_file,
                "ca" if has_tls => &mut this.ca,
                "tls_name" if has_tls => &mut this.tls_name,
                "db" if engine == "unix" => &mut this.db,
                "cert" if has_tls => &mut this.cert,
                "key" if has_tls => &mut this.key,
                "sentinel_user" if has_sentinels => &mut this.sentinel_user,
                "sentinel_password" if has_sentinels => &mut this.sentinel_password,
                "sentinel_password_file" if has_sentinels => &mut this.sentinel_password_file,
                "ca" | "cert" | "key" | "tls_name" => return Err(Error::invalid("URL parameter", name, "is for TLS; write rediss://")),
                _ => {
                    let tls = if has_tls { ", `ca=`, `cert=`, `key=`, `tls_name=`" } else { "" };
                    let sentinel = if has_sentinels { ", `sentinel_user=`, `sentinel_password=`, `sentinel_password_file=`" } else { "" };
                    let db = if engine == "unix" { ", `db=`" } else { "" };
                    let known = format!("is unknown; there are `namespace=`, `password_file=`{db}{tls}{sentinel}");
                    return Err(Error::invalid("URL parameter", name, known));
                }
            };
            if value.is_empty() {
                return Err(Error::invalid("URL parameter", name, "has no value"));
            }
            *place = value;
        }
        check_name("namespace", this.namespace)?;
        if this.cert.is_empty() != this.key.is_empty() {
            let (given, missing) = if this.key.is_empty() { ("cert", "key") } else { ("key", "cert") };
            return Err(Error::invalid("URL parameter", given, format!("also needs `{missing}=`")));
        }
        Ok(this)
    }
}

/// The parts of a URL. Each is checked where it is used.
#[derive(Clone)]
struct Parts<'a> {
    location: &'a str,
    /// `redis` or `rediss`.
    scheme: &'a str,
    /// `unix`, `sentinel`, `cluster`, or nothing.
    engine: &'a str,
    /// With its `@`.
    user: String,
    hosts: &'a str,
    /// With its `/`.
    path: &'a str,
    parameters: Parameters<'a>,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str, location: &'a str) -> Result<Self> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (scheme, rest) = base.split_once("://").unwrap_or(("redis", base));
        let (scheme, engine) = scheme.split_once('+').unwrap_or((scheme, ""));
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (user, hosts) = authority.rsplit_once('@').map_or((String::new(), authority), |(user, hosts)| (format!("{user}@"), hosts));
        let parameters = Parameters::of(query, scheme == "rediss", engine)?;
        Ok(Parts { location, scheme, engine, user, hosts, path, parameters })
    }

    /// The same, with the sentinels' user and password.
    fn of_sentinels(&self) -> Self {
        let Parameters { sentinel_user, sentinel_password, sentinel_password_file, .. } = self.parameters;
        let anonymous = sentinel_user.is_empty() && sentinel_password.is_empty();
        let user = if anonymous { String::new() } else { format!("{sentinel_user}:{sentinel_password}@") };
        let parameters = Parameters { password_file: sentinel_password_file, ..self.parameters.clone() };
        Parts { user, parameters, ..self.clone() }
    }

    /// Adds the certificates that the URL names to a server's address.
    #[cfg(feature = "tls")]
    fn with_certificates(&self, info: ConnectionInfo) -> Result<ConnectionInfo> {
        let Parameters { ca, cert, key, .. } = self.parameters;
        if ca.is_empty() && cert.is_empty() {
            return Ok(info);
        }
        let read = |name: &'static str, file: &str| {
            fs::read(file).map_err(|error| Error::invalid("URL parameter", format!("{name}={file}"), format!("cannot be read: {error}")))
        };
        let root_cert = if ca.is_empty() { None } else { Some(read("ca", ca)?) };
        let client_tls = if cert.is_empty() {
            None
        } else {
            Some(redis::ClientTlsConfig { client_cert: read("cert", cert)?, client_key: read("key", key)? })
        };
        let client = redis::Client::build_with_tls(info, redis::TlsCertificates { client_tls, root_cert });
        let unusable = |error| Error::Config(format!("the certificates of {} cannot be used: {error}", self.location));
        Ok(client.map_err(unusable)?.get_connection_info().clone())
    }

    /// One server: `host[:port]`, with a database after a `/`.
    fn server(&self, host: &str, path: &str, port: u16) -> Result<(Access, Address)> {
        let unreadable = |problem: String| {
            let form = match self.engine {
                "" => "redis://[user:password@]host[:port][/db]",
                "unix" => "redis+unix://[user:password@]/path/to/socket[?db=NUMBER]",
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
            ConnectionAddr::Unix(_) => return Err(unreadable("write redis+unix:// for a socket".to_owned())),
            _ => return Err(unreadable("it names no host".to_owned())),
        };
        let password_file = Some(self.parameters.password_file).filter(|file| !file.is_empty()).map(PathBuf::from);
        if let Some(file) = &password_file {
            password(file)?;
        }
        #[cfg(feature = "tls")]
        let info = self.with_certificates(info)?;
        let tls_name = Some(self.parameters.tls_name).filter(|name| !name.is_empty()).map(str::to_owned);
        Ok((Access { info: info.set_tcp_settings(TcpSettings::default().set_nodelay(true)), password_file, tls_name }, address))
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
        let settings = servers.info.redis_settings();
        assert_eq!((settings.username(), settings.password(), settings.db()), (Some("app"), Some("p@ss"), 2));
        let addresses: Vec<_> = sentinels.iter().map(|(_, address)| address.clone()).collect();
        assert_eq!(addresses, [address("one", 26379), address("two", 7001)]);
        let settings = sentinels[0].0.info.redis_settings();
        assert_eq!((settings.username(), settings.password()), (Some("watch"), Some("s:ecret")));
    }

    #[test]
    fn a_cluster_is_named_by_some_of_its_nodes() {
        let Engine::Cluster { seeds, nodes } = target("redis+cluster://:pw@one:7000,[::1],[::2]:7002").unwrap().engine else {
            panic!("a cluster")
        };
        assert_eq!(seeds, [address("one", 7000), address("::1", 6379), address("::2", 7002)]);
        assert_eq!(nodes.info.redis_settings().password(), Some("pw"));
    }

    #[test]
    fn a_socket_has_a_path_and_a_database() {
        let target = target("redis+unix://app:geheim@/run/redis/redis.sock?db=3&namespace=shop").unwrap();
        assert_eq!(target.location, "redis+unix://app:***@/run/redis/redis.sock?db=3&namespace=shop");
        let Engine::Standalone(access, address) = target.engine else { panic!("one server") };
        let settings = access.info.redis_settings();
        assert_eq!((settings.username(), settings.password(), settings.db()), (Some("app"), Some("geheim"), 3));
        assert_eq!(address.to_string(), "/run/redis/redis.sock");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        let problem = |url: &str| target(url).err().unwrap().to_string();
        assert!(problem("redis://localhost?namespace=a%20b").starts_with("namespace "));
        assert!(problem("redis://localhost?timeout=3").contains("`timeout`"));
        assert!(problem("redis://localhost?sentinel_password=geheim").contains("`sentinel_password`"));
        assert!(!problem("redis://localhost?sentinel_password=geheim").contains("geheim"));
        assert!(problem("redis://localhost?ca=/etc/ca.pem").contains("rediss://"));
        assert!(problem("rediss://localhost?cert=/etc/me.pem").contains("`key=`"));
        assert!(problem("redis://localhost?namespace=").contains("no value"));
        assert!(problem("redis://localhost?password_file=/nowhere/at/all").contains("/nowhere/at/all"));
        assert!(problem("redis://localhost/notanumber").starts_with("URL "));
        assert!(problem("redis+sentinel://one,two").contains("/SERVICE"));
        assert!(problem("redis+sentinel://one,,two/main").contains("has no name"));
        for wrong in ["redis+unix://", "redis+unix:///", "redis+unix://localhost/run/redis.sock"] {
            assert!(problem(wrong).contains("redis+unix:///path/to/socket"), "{wrong}");
        }
        assert!(problem("redis+unix:///run/redis.sock?db=x").contains("db=NUMBER"));
        assert!(problem("redis://localhost?db=1").contains("`db` is unknown"));
        assert!(problem("redis://localhost?tls_name=one").contains("rediss://"));
        assert!(problem("redis+cluster://one/3").contains("only database 0"));
        assert!(problem("redis+cluster://one:port").contains("redis+cluster://"));
    }
}
