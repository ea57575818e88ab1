//! The worker: start as many as you like. `poller --help` tells what else it can do.

use std::{env, error::Error, process::ExitCode, time::Duration};

use poller::{Accounts, Pace};

#[tokio::main]
async fn main() -> ExitCode {
    queue_worker::run(async |worker| {
        let accounts = poller::accounts_path()?;
        let pace = Pace { pause: time("POLLER_PAUSE", "5s")?, answer: time("POLLER_ANSWER", "200ms")? };
        Ok(worker
            .data(Accounts::open(&accounts)?)
            .data(pace)
            // What a killed worker held goes on elsewhere after about this time.
            .lease(time("POLLER_LEASE", "10s")?)
            // An account that fails, or is checked while workers die, stays in the rotation: nobody
            // would look for it among the dead letters.
            .max_attempts(u32::MAX)
            .max_crashes(u32::MAX))
    })
    .await
}

fn time(variable: &str, default: &str) -> Result<Duration, Box<dyn Error + Send + Sync>> {
    let text = match env::var(variable) {
        Err(env::VarError::NotPresent) => default.to_owned(),
        text => text.map_err(|error| format!("{variable}: {error}; set it to a time such as `{default}`, or unset it"))?,
    };
    humantime::parse_duration(&text).map_err(|error| format!("{variable} `{text}` is no time such as `{default}`: {error}").into())
}
