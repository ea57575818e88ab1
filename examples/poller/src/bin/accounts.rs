//! Adds accounts to the rotation, and shows their progress: `accounts add ada ben`, `accounts
//! list`.

use std::{env, error::Error, process::ExitCode};

use poller::{Accounts, rotate};
use queue_core::{Client, JobId};

const USAGE: &str = "usage: accounts add NAME…   puts accounts into the rotation (again does no harm)
       accounts list        shows how often each was checked";

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let done = match words.split_first() {
        Some((verb, names)) if verb == "add" && !names.is_empty() => add(names).await,
        Some((verb, [])) if verb == "list" => list(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn add(names: &[String]) -> Result<(), Box<dyn Error>> {
    // An invalid job id is refused before any account is added.
    names.iter().try_for_each(|name| JobId::given(name).map(drop))?;
    let accounts = open()?;
    let queue = Client::from_env().await?;
    for name in names {
        // The account is added first: a check without its account would end the rotation.
        accounts.add(name)?;
        rotate(name, &queue).await?;
    }
    println!("{} in the rotation, on {}", names.join(", "), queue.info().location);
    Ok(())
}

fn list() -> Result<(), Box<dyn Error>> {
    for account in open()?.all()? {
        println!("{}: {} checks, {} news", account.name, account.checks, account.news);
    }
    Ok(())
}

fn open() -> Result<Accounts, Box<dyn Error>> {
    let path = poller::accounts_path()?;
    Accounts::open(&path).map_err(|error| format!("cannot open {}: {error}", path.display()).into())
}
