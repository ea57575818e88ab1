//! Many tenants of different size share a service with limits: `cargo run -p tenants`.
//!
//! One tenant imports 300 rows, the others a few. Each row is a call of a service that allows a
//! number of calls per second. The program shows that the small tenants are done soon, that no
//! tenant calls more often than its limit, and the effect of an answer 429. At the end it prints
//! how long each tenant waited, and for what. With `--listen 127.0.0.1:8000` it serves the API
//! instead, and runs until Ctrl-C.

mod api;
mod board;
mod geocoder;
mod tasks;

use std::{cmp::Reverse, net::SocketAddr, process::ExitCode, sync::Arc, time::Duration};

use clap::Parser;
use queue_core::Client;
use queue_worker::Worker;

use crate::{board::Board, geocoder::Geocoder};

/// Many tenants of different size share a service with limits.
#[derive(Parser)]
#[command(name = "tenants", after_help = EXAMPLES)]
struct Arguments {
    /// Prints the report as JSON.
    #[arg(long)]
    json: bool,
    /// Rows that the largest tenant imports.
    #[arg(long, default_value_t = 300)]
    rows: u32,
    /// Serves the API at this address, and works until Ctrl-C.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

const EXAMPLES: &str = "Examples:
  cargo run -p tenants
  QUEUE_URL=redis://127.0.0.1:6379 cargo run -p tenants -- --json
  cargo run -p tenants -- --listen 127.0.0.1:8000
  curl -d '{\"rows\": 100}' -H 'content-type: application/json' http://127.0.0.1:8000/tenants/acme/imports";

/// The other tenants, and the number of rows of each.
const OTHERS: [(&str, u32); 4] = [("globex", 40), ("initech", 12), ("hooli", 6), ("umbrella", 3)];

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    // Without `QUEUE_URL`, it uses a temporary file.
    let folder = tempfile::tempdir()?;
    let url = match std::env::var_os("QUEUE_URL") {
        Some(_) => Client::url_from_env()?,
        None => format!("sqlite://{}", folder.path().join("queue.db").display()),
    };
    let client = Client::connect(&url).await?;
    let board = Arc::new(Board::new());
    let worker = Worker::new(client.clone()).concurrency(8).data(Arc::new(Geocoder::default())).data(board.clone());
    if let Some(address) = arguments.listen {
        return serve(address, client, worker).await;
    }
    let mut tenants = vec![("acme", arguments.rows)];
    tenants.extend(OTHERS);
    for (tenant, rows) in tenants {
        board.expects(tenant, rows);
        tasks::import(&client, tenant, rows).await?;
    }
    let stop = async {
        tokio::select! {
            () = board.all_done() => {}
            () = board.watch(client.inspector()) => {}
            () = tell(&board) => {}
            _ = tokio::signal::ctrl_c() => eprintln!("stopped"),
        }
    };
    worker.run(stop).await?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&board.report())?);
    } else {
        print(&board);
    }
    Ok(())
}

async fn serve(address: SocketAddr, client: Client, worker: Worker) -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("listening at http://{}; Ctrl-C stops", listener.local_addr()?);
    let served = axum::serve(listener, api::router(client)).into_future();
    tokio::select! {
        served = served => Ok(served?),
        stopped = worker.run(async { drop(tokio::signal::ctrl_c().await) }) => Ok(stopped.map(drop)?),
    }
}

/// Prints the progress of each tenant once a second.
async fn tell(board: &Board) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let parts: Vec<String> = board.progress().iter().map(|(tenant, done, jobs)| format!("{tenant} {done}/{jobs}")).collect();
        eprintln!("{}", parts.join("   "));
    }
}

fn print(board: &Board) {
    println!("{:10} {:>5} {:>9} {:>9} {:>9} {:>5}  waited for", "tenant", "rows", "first", "half", "all", "429");
    for line in board.report() {
        let seconds = |ms: u64| format!("{}.{:01} s", ms / 1000, ms % 1000 / 100);
        let mut waits: Vec<(&str, u64)> = line.waited_for.iter().map(|(reason, share)| (*reason, *share)).collect();
        waits.sort_by_key(|(_, share)| Reverse(*share));
        let waits: Vec<String> = waits.iter().map(|(reason, share)| format!("{} {share} %", reason.replace('_', " "))).collect();
        println!(
            "{:10} {:>5} {:>9} {:>9} {:>9} {:>5}  {}",
            line.tenant,
            line.jobs,
            seconds(line.first_ms),
            seconds(line.half_ms),
            seconds(line.all_ms),
            line.refused,
            waits.join(", ")
        );
    }
}
