//! The URL of a PostgreSQL database, and the TLS of the relay's connections. The values of
//! `sslmode` have the same meaning as in libpq and in sqlx:
//!
//! | `sslmode` | TLS | the certificate of the server |
//! |---|---|---|
//! | `disable` | no | |
//! | `allow`, `prefer` (default) | if the server has it | is not verified |
//! | `require` | yes | is not verified, unless `sslrootcert` is given: then as `verify-ca` |
//! | `verify-ca` | yes | is one of `sslrootcert`, or is signed by one of them |
//! | `verify-full` | yes | the same, and it has the name of the host |

use tokio_postgres::Config;

use crate::error::{Error, Result};

/// The part of the server's certificate that is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "tls"), allow(dead_code))]
pub(super) enum Verify {
    Nothing,
    Chain,
    Host,
}

/// The settings of a URL.
#[derive(Clone, Debug)]
pub(super) struct Url {
    pub(super) config: Config,
    pub(super) tls: Tls,
}

const MODES: &str = "is unknown; use disable, prefer, require, verify-ca or verify-full";

impl Url {
    /// Reads a URL. The TLS parameters that tokio-postgres does not support are removed from it.
    pub(super) fn read(url: &str) -> Result<Url> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut rest, mut mode, mut roots) = (Vec::new(), None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => roots = Some(decoded(value)),
                Some(("channel_binding", "require")) => {
                    let problem = "is not supported: remove it from the URL; `sslmode=verify-full` verifies the server".to_owned();
                    return Err(Error::Invalid { field: "channel_binding", value: "require".to_owned(), problem });
                }
                _ => rest.push(pair),
            }
        }
        let (plain, verify) = match mode.unwrap_or("prefer") {
            "disable" => ("disable", Verify::Nothing),
            "allow" | "prefer" => ("prefer", Verify::Nothing),
            "require" if roots.is_none() => ("require", Verify::Nothing),
            "require" | "verify-ca" => ("require", Verify::Chain),
            "verify-full" => ("require", Verify::Host),
            other => return Err(Error::Invalid { field: "sslmode", value: other.chars().take(80).collect(), problem: MODES.to_owned() }),
        };
        let sslmode = format!("sslmode={plain}");
        // tokio-postgres reads the other form, `host=db user=shop`, without changes.
        let config = match base.contains("://") {
            true => {
                rest.push(&sslmode);
                format!("{base}?{}", rest.join("&")).parse()?
            }
            false => url.parse()?,
        };
        Ok(Url { config, tls: Tls::new(mode.unwrap_or("prefer"), plain, verify, roots.as_deref())? })
    }
}

/// Decodes the percent-escapes of a URL.
fn decoded(value: &str) -> String {
    let (mut bytes, mut left) = (Vec::new(), value);
    while let Some(first) = left.bytes().next() {
        let escape = left.strip_prefix('%').and_then(|left| u8::from_str_radix(left.get(..2)?, 16).ok());
        bytes.push(escape.unwrap_or(first));
        // A byte of a multi-byte character is only appended.
        left = match escape {
            Some(_) => &left[3..],
            None => {
                let width = left.chars().next().map_or(1, char::len_utf8);
                bytes.extend_from_slice(&left.as_bytes()[1..width]);
                &left[width..]
            }
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(not(feature = "tls"))]
pub(super) use self::without::Tls;

#[cfg(not(feature = "tls"))]
mod without {
    use super::{Error, Result, Verify};

    /// Connects without TLS.
    #[derive(Clone, Copy, Debug)]
    pub(in super::super) struct Tls;

    impl Tls {
        pub(super) fn new(mode: &str, plain: &str, _: Verify, _: Option<&str>) -> Result<Tls> {
            if plain == "require" {
                let problem =
                    "needs TLS: turn on the feature `tls` of queue-outbox or of queue-worker, or use the program `queue`".to_owned();
                return Err(Error::Invalid { field: "sslmode", value: mode.to_owned(), problem });
            }
            Ok(Tls)
        }

        #[expect(clippy::unused_self, reason = "with the feature it is used")]
        pub(in super::super) fn connector(&self) -> tokio_postgres::NoTls {
            tokio_postgres::NoTls
        }
    }
}

#[cfg(feature = "tls")]
pub(super) use super::tls::Tls;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_cannot_be_used_names_the_parameter() {
        let refused = |url: &str| Url::read(url).unwrap_err().to_string();
        assert_eq!(refused("postgres://shop@db/shop?sslmode=always"), format!("sslmode `always` {MODES}"));
        assert!(
            refused("postgres://db/shop?sslmode=require&channel_binding=require").starts_with("channel_binding `require` is not supported")
        );
        assert!(Url::read("postgres://db:no/shop").is_err());
        for (url, host) in [
            ("postgres://shop@db/shop", "db"),
            ("host=db2 user=shop", "db2"),
            ("postgres://db3/shop?sslmode=disable&application_name=x", "db3"),
        ] {
            let config = Url::read(url).unwrap().config;
            assert_eq!(config.get_hosts(), [tokio_postgres::config::Host::Tcp(host.to_owned())], "{url}");
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn without_tls_a_url_that_needs_it_is_refused() {
        for mode in ["require", "verify-ca", "verify-full"] {
            let refused = Url::read(&format!("postgres://db/shop?sslmode={mode}")).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("sslmode `{mode}` needs TLS: turn on the feature `tls`")), "{refused}");
        }
    }

    #[test]
    fn escapes_of_a_path_are_read() {
        assert_eq!(decoded("%2Fetc%2fca%20of%20ü.pem"), "/etc/ca of ü.pem");
        assert_eq!(decoded("100%"), "100%");
    }
}
