//! An order is paid, and several parts of a shop receive the event: `cargo run -p events`.
//!
//! Billing, mail and statistics subscribe to the topic `orders`. Mail is down while the orders are
//! paid, and receives all events when it runs again. At the end an audit is added, which reads from
//! the start. Each subscription has its own retries: billing fails once for one of the orders,
//! which does not affect the others.

mod subscribers;

use std::{collections::BTreeMap, process::ExitCode, sync::Arc, time::Duration};

use queue_core::{Client, prelude::*};
use queue_worker::Worker;

use crate::subscribers::{Book, OrderCancelled, OrderPaid, audit, bill, refund, remember, send_mail};

/// The number of paid orders.
const ORDERS: u64 = 5;

/// The maximum time of every wait.
const PATIENCE: Duration = Duration::from_secs(30);

const USAGE: &str = "Usage: events

Pays orders, and shows how the subscriptions to the topic `orders` hear of them. The queue is that of QUEUE_URL, else a temporary file.";

#[tokio::main]
async fn main() -> ExitCode {
    if let Some(argument) = std::env::args().nth(1) {
        if argument == "--help" || argument == "-h" {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        eprintln!("error: unknown argument {argument:?}\n\n{USAGE}");
        return ExitCode::from(2);
    }
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    // Without `QUEUE_URL`, it uses a temporary file.
    let folder = tempfile::tempdir()?;
    let url = match std::env::var_os("QUEUE_URL") {
        Some(_) => Client::url_from_env()?,
        None => format!("sqlite://{}", folder.path().join("queue.db").display()),
    };
    let client = Client::connect(&url).await?;
    let book = Arc::new(Book::default());

    println!("Billing and statistics run. Mail has run before, and is down now.");
    client.inspector().subscribe("orders", "mail", queue_core::topics::Begin::Now).await?;
    let worker = || Worker::new(client.clone()).registry(queue_core::Registry::empty()).data(book.clone());
    let shop = worker().register::<bill>().register::<refund>().register::<remember>();
    shop.run(async {
        publish(&client).await;
        book.wait(|heard| heard["billing"] == ORDERS + 1 && heard["statistics"] == ORDERS, PATIENCE).await;
    })
    .await?;
    tell(&client, &book).await?;

    println!("\nMail is back.");
    let mail = worker().register::<send_mail>();
    mail.run(book.wait(|heard| heard["mail"] == ORDERS, PATIENCE)).await?;
    tell(&client, &book).await?;

    println!("\nAn audit is added, which reads from the start.");
    let audit = worker().register::<audit>();
    audit.run(book.wait(|heard| heard["audit"] == ORDERS, PATIENCE)).await?;
    tell(&client, &book).await
}

/// All orders are paid, and one of them is cancelled afterwards.
async fn publish(client: &Client) {
    let paid = (1..=ORDERS).map(|order| OrderPaid { order, customer: "ada".to_owned(), cents: 100 * order });
    let published = match client.publish_all(paid).await {
        Ok(published) => published,
        Err(error) => return eprintln!("error: {error}"),
    };
    println!("Published {} events; the first is {}.", published.len(), published[0].id);
    // If a subscription is ordered, it handles the events of a group in their order.
    if let Err(error) = (OrderCancelled { order: 1 }).event().group("order-1").header("by", "ada").publish(client).await {
        eprintln!("error: {error}");
    }
}

/// Prints the number of events that each subscriber has received, and the progress of each
/// subscription.
async fn tell(client: &Client, book: &Book) -> Result<(), Box<dyn std::error::Error>> {
    let heard: BTreeMap<&str, u64> = book.heard();
    let topic = client.inspector().topic("orders").await?.ok_or("nothing was published")?;
    println!("{:12} {:>6} {:>7} {:>5}", "subscription", "heard", "behind", "open");
    for of in &topic.subscriptions {
        let behind = of.behind.map_or_else(|| "?".to_owned(), |behind| behind.to_string());
        println!("{:12} {:>6} {behind:>7} {:>5}", of.name, heard.get(of.name.as_str()).copied().unwrap_or_default(), of.open);
    }
    Ok(())
}
