//! Takes an order over HTTP, enqueues a job for it, and runs the job. It has sqlx 0.8 with its
//! default features, and so needs no feature of ours.

use std::{error::Error, time::Duration};

use axum::{Router, extract::State, http::StatusCode, routing::post};
use queue_core::prelude::*;
use queue_worker::{Shutdown, Worker};
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

#[task(queue = "orders", retention = "1m")]
async fn close_order(order: u64, _shop: Data<PgPool>) -> Result<u64, std::io::Error> {
    Ok(order + 1)
}

async fn order_placed(State(queue): State<Client>) -> (StatusCode, String) {
    match close_order::job(17).call(&queue, Duration::from_secs(60)).await {
        Ok(JobResult::Done(closed)) => (StatusCode::OK, format!("closed {closed}")),
        Ok(other) => (StatusCode::SERVICE_UNAVAILABLE, format!("{other:?}")),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // `Display`, as an application shows it.
    let queue = match Client::from_env().await {
        Ok(queue) => queue,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(6);
        }
    };
    // No server listens there: the pool connects at its first use.
    let shop = PgPoolOptions::new().connect_lazy("postgres://shop@127.0.0.1:1/shop")?;
    let stop = Shutdown::new();
    let worker = tokio::spawn(Worker::new(queue.clone()).data(shop).run_with(stop.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async { axum::serve(listener, Router::new().route("/orders", post(order_placed)).with_state(queue)).await });

    let mut visitor = TcpStream::connect(address).await?;
    visitor.write_all(b"POST /orders HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await?;
    let mut answer = String::new();
    visitor.read_to_string(&mut answer).await?;
    server.abort();
    stop.drain();
    worker.await??;
    println!("{}", answer.lines().last().unwrap_or_default());
    Ok(())
}
