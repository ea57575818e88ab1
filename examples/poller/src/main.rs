//! The worker. Several can run at once. `poller --help` lists its options.

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
            // The jobs of a killed worker continue elsewhere after about this time.
            .lease(time("POLLER_LEASE", "10s")?)
            // An account stays in the rotation, even if it fails, or if workers crash while they
            // check it: its job never becomes a dead letter.
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
