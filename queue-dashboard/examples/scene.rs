//! A dashboard with sample data: running workers, failing tasks, and a queue without a worker. It
//! prints its address, and runs until it is killed. `cargo run -p queue-dashboard --example scene`;
//! `cargo xtask screenshots` takes screenshots of it.

use std::{error::Error, time::Duration};

use axum::{Router, http::request::Parts};
use queue_core::{
    broker::{DynBroker, ProcessId, Register, WorkerInfo},
    prelude::*,
};
use queue_dashboard::{Person, Role};
use queue_worker::Worker;
use serde::{Deserialize, Serialize};

type Failure = Box<dyn Error + Send + Sync>;

#[task(queue = "mail", retention = "1h", backoff(base = "40s", max = "2h"))]
async fn send_mail(to: String, template: String, smtp_password: Option<String>) -> Result<String, Failure> {
    let _ = (smtp_password, template);
    tokio::time::sleep(Duration::from_millis(fastrand_ms(15, 60))).await;
    if to.ends_with("@full.example") {
        return Err("smtp.internal:587 answered 452 4.2.2: mailbox full".into());
    }
    Ok(format!("accepted for {to}"))
}

#[derive(Debug, Serialize, Deserialize)]
struct Size {
    width: u32,
    height: u32,
}

#[task(queue = "images", max_attempts = 1)]
async fn make_thumbnail(object: String, sizes: Vec<Size>) -> Result<(), Failure> {
    tokio::time::sleep(Duration::from_millis(fastrand_ms(40, 180))).await;
    if object.ends_with(".heic") {
        return Err(format!("cannot decode {object}: unsupported brand `msf1` in ftyp box ({} sizes wanted)", sizes.len()).into());
    }
    Ok(())
}

#[task(queue = "reports")]
async fn monthly_report(customer: u64, month: String, ctx: JobContext) {
    ctx.log(format!("reads the orders of customer {customer} in {month}"));
    for part in 0..3600_u32 {
        ctx.progress(f64::from(part % 240) / 240.0, format!("page {} of 240", part % 240 + 1));
        if part % 12 == 0 {
            ctx.log(format!("{} orders so far", part * 7));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[task(queue = "billing")]
async fn charge_card(order_id: u64, amount_cents: u64, card_token: String) {
    let _ = (order_id, amount_cents, card_token);
}

fn fastrand_ms(from: u64, to: u64) -> u64 {
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| u64::from(time.subsec_nanos()));
    from + nanos / 1000 % (to - from)
}

fn role_of(_: &Parts) -> Option<Person> {
    Some(Person::new("ada", Role::Admin))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let url = std::env::args().nth(1).unwrap_or_else(|| format!("sqlite://{}", folder.path().join("queue.db").display()));
    let queue = Client::connect(&url).await?;
    let listener = tokio::net::TcpListener::bind(std::env::var("SCENE_ADDRESS").as_deref().unwrap_or("127.0.0.1:0")).await?;
    let address = listener.local_addr()?;
    for (queues, release) in [(&["mail", "images"][..], "v2.14.0"), (&["mail"], "v2.14.0"), (&["images", "reports"], "v2.13.2")] {
        let mut worker = Worker::new(queue.clone()).release(release).concurrency(6);
        for name in queues {
            worker = worker.queue(*name);
        }
        tokio::spawn(worker.run(std::future::pending()));
    }
    stranger(queue.broker()).await?;
    tokio::spawn(fill(queue.clone()));
    let app = Router::new().nest("/queue", queue_dashboard::router(queue).authorize(role_of));
    println!("http://{address}/queue");
    Ok(axum::serve(listener, app).await?)
}

/// A crashed worker: it is registered and sends no heartbeats.
async fn stranger(broker: &DynBroker) -> Result<(), Failure> {
    let info = WorkerInfo::new("web-3", 2207, "v2.13.2", ["charge_card", "send_mail"]);
    broker.register(&Register::lane("billing", ProcessId::random(), Duration::from_secs(5)).with_info(info)).await?;
    Ok(())
}

/// Enqueues the initial jobs, then one job after the other.
async fn fill(queue: Client) -> Result<(), Failure> {
    for n in 0..160_u64 {
        charge_card::job(4_000 + n, 1_999 + n * 7, format!("tok_{n}")).id(format!("charge-{}", 4_000 + n)).enqueue(&queue).await?;
    }
    for n in 0..37_u64 {
        let sizes = vec![Size { width: 320, height: 240 }, Size { width: 1280, height: 960 }];
        make_thumbnail::job(format!("uploads/2026/11/IMG_{}.heic", 2_210 + n), sizes).enqueue(&queue).await?;
    }
    for n in 0..23_u64 {
        let job = send_mail::job(format!("customer{n}@full.example"), "invoice".to_owned(), Some("s3cr3t".to_owned()));
        job.header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").enqueue(&queue).await?;
    }
    for n in 0..9_u64 {
        monthly_report::job(700 + n, "2026-10".to_owned()).priority(Priority::Low).enqueue(&queue).await?;
    }
    for n in 0..64_u64 {
        let job = send_mail::job(format!("customer{n}@example.com"), "reminder".to_owned(), None);
        job.delay(Duration::from_secs(900 + n * 340)).enqueue(&queue).await?;
    }
    // A task that no release has.
    for n in 0..4_u64 {
        let payload = vec![0x81, 0xa2, b'i', b'd', u8::try_from(n).unwrap_or(0)];
        queue.enqueue_raw(queue_core::RawJob::new("resize_video", payload).queue("images").id(format!("video-{n}"))).await?;
    }
    charge_card::job(1, 100, "tok".to_owned()).queue("archive").enqueue(&queue).await?;
    queue.inspector().pause("archive").await?;
    let (mut n, started) = (0_u64, tokio::time::Instant::now());
    loop {
        n += 1;
        // The load varies as on a working day.
        let wave = (started.elapsed().as_secs_f64() / 9.0).sin().mul_add(18.0, 34.0);
        send_mail::job(format!("customer{n}@example.com"), "welcome".to_owned(), None).enqueue(&queue).await?;
        if n.is_multiple_of(4) {
            make_thumbnail::job(format!("uploads/2026/11/IMG_{n}.jpg"), vec![Size { width: 320, height: 240 }]).enqueue(&queue).await?;
        }
        if n.is_multiple_of(23) {
            make_thumbnail::job(format!("uploads/2026/11/IMG_{n}.heic"), Vec::new()).enqueue(&queue).await?;
        }
        tokio::time::sleep(Duration::from_secs_f64(1.0 / wave)).await;
    }
}
