//! Polls accounts in an endless rotation: every account is one job, for ever.
//!
//! A job that returns [`Outcome::Repeat`] starts over after a while. It is never in the queue twice
//! and never in two hands, so that neither is its account; and since the round that ends and the
//! next one are the same job, no crash between the two can lose it.

mod accounts;

use queue_core::prelude::*;

pub use self::accounts::{Account, Accounts, Check};

/// The file that `POLLER_ACCOUNTS` names, or `accounts.db`.
///
/// # Errors
/// When the variable is empty.
pub fn accounts_path() -> Result<std::path::PathBuf, String> {
    let path = std::env::var_os("POLLER_ACCOUNTS").unwrap_or_else(|| "accounts.db".into());
    if path.is_empty() {
        return Err("POLLER_ACCOUNTS is empty: set it to a file, or unset it for the default, `accounts.db`".to_owned());
    }
    Ok(path.into())
}

/// How the poller is set.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// From the end of a check to the next one of the same account.
    pub pause: Duration,
    /// How long the service takes to answer. A real one takes what it takes.
    pub answer: Duration,
}

/// Looks once what is new in an account, and comes back after a pause.
#[task(queue = "accounts", timeout = "1m", backoff(base = "1s", max = "5m"))]
pub async fn check_account(
    account: String,
    accounts: Data<Accounts>,
    pace: Data<Pace>,
    ctx: JobContext,
) -> Result<Outcome, rusqlite::Error> {
    if !accounts.has(&account)? {
        return Ok(Outcome::Cancel(format!("there is no account `{account}` any more")));
    }
    // The claim number grows with every start of this job. A run that was paused for so long that
    // another took its account over is refused here and at the end, whatever it believes.
    if accounts.begin(&account, ctx.claim())? {
        let news = ask_service(*pace).await;
        accounts.end(&account, ctx.claim(), news)?;
    }
    Ok(Outcome::Repeat(pace.pause))
}

/// Stands for a request to somebody's server.
async fn ask_service(pace: Pace) -> u32 {
    tokio::time::sleep(pace.answer).await;
    fastrand::u32(0..3)
}

/// Puts an account into the rotation, unless it is in it: its job has the account's name as its id.
///
/// # Errors
/// Those of the queue; a name outside `A-Z a-z 0-9 . _ -` is one.
pub async fn rotate(account: &str, queue: &Client) -> queue_core::Result<()> {
    check_account::job(account.to_owned()).id(account).enqueue(queue).await?;
    Ok(())
}
