//! The web application: `cargo run -p shop`.

use std::{env, error::Error, process::ExitCode, sync::Arc};

use queue_core::Client;
use shop::{Settings, open_store, router};

#[tokio::main]
async fn main() -> ExitCode {
    if let Some(argument) = env::args().nth(1) {
        let usage = "Usage: shop\n\nServes the shop at SHOP_ADDRESS (127.0.0.1:3000), with the queue of QUEUE_URL and the database of DATABASE_URL (PostgreSQL) or SHOP_DB (SQLite).";
        if argument == "--help" || argument == "-h" {
            println!("{usage}");
            return ExitCode::SUCCESS;
        }
        eprintln!("error: unknown argument {argument:?}\n\n{usage}");
        return ExitCode::from(2);
    }
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Box<dyn Error + Send + Sync>> {
    let settings = Settings::from_env()?;
    let queue = Client::from_env().await?;
    eprintln!("the queue is {}", queue.info().location);
    let app = router(Arc::new(open_store().await?), queue, settings);
    #[cfg(feature = "otel")]
    let (app, traces) = (shop::traces::around_requests(app), shop::traces::export()?);

    let address = match env::var("SHOP_ADDRESS") {
        Err(env::VarError::NotPresent) => "127.0.0.1:3000".to_owned(),
        address => address.map_err(|error| format!("SHOP_ADDRESS: {error}; set it as in `127.0.0.1:3000`, or unset it"))?,
    };
    let listener = tokio::net::TcpListener::bind(&address).await.map_err(|error| format!("cannot listen on {address}: {error}"))?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) }).await?;
    #[cfg(feature = "otel")]
    tokio::task::spawn_blocking(move || traces.map_or(Ok(()), |traces| traces.shutdown())).await??;
    Ok(())
}
