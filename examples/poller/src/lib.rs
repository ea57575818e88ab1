//! Polls accounts in an endless rotation: every account is one job, which repeats forever.
//!
//! A job that returns [`Outcome::Repeat`] starts again after a pause. It is never in the queue
//! twice and never runs twice at once, so its account is not either. A round and the next one are
//! the same job, so a crash between the two cannot lose it.

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

/// The settings of the poller.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The pause between the end of a check and the next check of the same account.
    pub pause: Duration,
    /// The response time of the simulated service.
    pub answer: Duration,
}

/// Checks an account for news once, and repeats after a pause.
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
    // The claim number grows with every start of this job. If a run was paused until another run
    // took over its account, it is refused here and at the end.
    if accounts.begin(&account, ctx.claim())? {
        let news = ask_service(*pace).await;
        accounts.end(&account, ctx.claim(), news)?;
    }
    Ok(Outcome::Repeat(pace.pause))
}

/// Simulates a request to a remote service.
async fn ask_service(pace: Pace) -> u32 {
    tokio::time::sleep(pace.answer).await;
    fastrand::u32(0..3)
}

/// Adds an account to the rotation, unless it is already in it. The id of its job is the name of
/// the account.
///
/// # Errors
/// Those of the queue; a name outside `A-Z a-z 0-9 . _ -` is one.
pub async fn rotate(account: &str, queue: &Client) -> queue_core::Result<()> {
    check_account::job(account.to_owned()).id(account).enqueue(queue).await?;
    Ok(())
}
