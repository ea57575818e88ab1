//! The times of the shop, from the environment.

use std::{env, path::PathBuf, time::Duration};

use crate::store::Store;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The times of the shop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// An order that is not paid within this time is closed.
    pub pay_within: Duration,
    /// When activation mails are sent to a customer without a purchase, counted from the sign-up.
    pub activation_mails: Vec<Duration>,
}

impl Settings {
    /// `SHOP_PAY_WITHIN` (default `10m`) and `SHOP_ACTIVATION_MAILS` (default
    /// `3days,7days,14days`).
    ///
    /// # Errors
    /// An error with the name of the variable that is not a valid time.
    pub fn from_env() -> Result<Self> {
        Ok(Settings {
            pay_within: time("SHOP_PAY_WITHIN", &text("SHOP_PAY_WITHIN", "10m")?)?,
            activation_mails: text("SHOP_ACTIVATION_MAILS", "3days,7days,14days")?
                .split(',')
                .map(|word| time("SHOP_ACTIVATION_MAILS", word.trim()))
                .collect::<Result<_>>()?,
        })
    }
}

/// Connects to the PostgreSQL database in `DATABASE_URL`. Without it, opens the file in `SHOP_DB`,
/// or `shop.db`. Web application and worker must use the same database.
///
/// # Errors
/// Those of the database, with its name.
pub async fn open_store() -> Result<Store> {
    match env::var("DATABASE_URL") {
        Err(env::VarError::NotPresent) => {}
        Ok(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            return Store::postgres(&url).await.map_err(|error| format!("cannot open the database of DATABASE_URL: {error}").into());
        }
        _ => {
            return Err(
                "DATABASE_URL is not a URL of PostgreSQL: set it as in `postgres://shop@localhost/shop`, or unset it for SQLite".into()
            );
        }
    }
    let path = env::var_os("SHOP_DB").map_or_else(|| PathBuf::from("shop.db"), PathBuf::from);
    if path.as_os_str().is_empty() {
        return Err("SHOP_DB is empty: set it to a file, or unset it for the default, `shop.db`".into());
    }
    Store::sqlite(&path).map_err(|error| format!("cannot open {}: {error}", path.display()).into())
}

fn text(variable: &str, default: &str) -> Result<String> {
    match env::var(variable) {
        Err(env::VarError::NotPresent) => Ok(default.to_owned()),
        text => text.map_err(|error| format!("{variable}: {error}; set it as in `{default}`, or unset it").into()),
    }
}

fn time(variable: &str, text: &str) -> Result<Duration> {
    humantime::parse_duration(text).map_err(|error| format!("{variable}: `{text}` is no time such as `10m`: {error}").into())
}
