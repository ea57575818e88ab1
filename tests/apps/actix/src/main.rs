//! Takes an order over HTTP with actix-web, enqueues a job for it, and runs the job. `docs/web.md`
//! shows the lines up to `main`.

use actix_web::{App, HttpResponse, HttpServer, dev::Server, web};
use queue_core::prelude::*;

#[task(queue = "orders", retention = "1m")]
async fn close_order(order: u64) -> Result<u64, std::io::Error> {
    Ok(order + 1)
}

async fn order_placed(queue: web::Data<Client>, order: web::Path<u64>) -> HttpResponse {
    match close_order::job(*order).enqueue(&queue).await {
        Ok(handle) => HttpResponse::Accepted().body(handle.address().to_string()),
        Err(error) => HttpResponse::ServiceUnavailable().body(error.to_string()),
    }
}

fn serve(queue: Client, listener: std::net::TcpListener) -> std::io::Result<Server> {
    let queue = web::Data::new(queue);
    let app = move || App::new().app_data(queue.clone()).route("/orders/{order}", web::post().to(order_placed));
    Ok(HttpServer::new(app).listen(listener)?.run())
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    use queue_worker::Worker;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let queue = Client::connect("sqlite://:memory:").await?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let mut visitor = tokio::net::TcpStream::connect(listener.local_addr()?).await?;
    let server = serve(queue.clone(), listener)?;
    let (handle, serving) = (server.handle(), tokio::spawn(server));

    visitor.write_all(b"POST /orders/17 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await?;
    let mut answer = String::new();
    visitor.read_to_string(&mut answer).await?;
    handle.stop(true).await;
    serving.await??;

    Worker::new(queue.clone()).run_until_idle().await?;
    let job = queue.handle::<close_order>(answer.lines().last().unwrap_or_default().parse()?);
    match job.result().await? {
        JobResult::Done(closed) => println!("closed {closed}"),
        other => println!("{other:?}"),
    }
    Ok(())
}
