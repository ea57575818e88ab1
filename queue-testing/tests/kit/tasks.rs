//! The tasks of the application that is tested.

use std::{
    io,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use queue_core::prelude::*;
use serde::{Deserialize, Serialize};

#[task(queue = "mail", max_attempts = 3)]
pub(crate) async fn send_mail(to: String, template: String, copies: Option<u32>) -> Result<u32, io::Error> {
    match to.contains('@') {
        true => Ok(1 + copies.unwrap_or(0) + u32::from(template.is_empty())),
        false => Err(io::Error::other(format!("`{to}` is not an address"))),
    }
}

#[task(queue = "files")]
pub(crate) async fn import(files: u32, ctx: JobContext) -> Result<(), queue_core::Error> {
    for file in 0..files {
        import_file::job(file).enqueue(ctx.client()).await?;
    }
    summary::job().delay(Duration::from_secs(3600)).enqueue(ctx.client()).await.map(drop)
}

#[task(queue = "files")]
pub(crate) async fn import_file(file: u32, imported: Data<AtomicU32>) {
    let _ = file;
    imported.fetch_add(1, Relaxed);
}

#[task]
pub(crate) async fn summary() {}

#[task]
pub(crate) async fn flaky(failures: u32, ctx: JobContext) -> Result<u32, String> {
    if ctx.attempt() <= failures { Err(format!("attempt {}", ctx.attempt())) } else { Ok(ctx.attempt()) }
}

#[task]
pub(crate) async fn buries() -> Outcome {
    Outcome::Bury("it can never succeed".to_owned())
}

#[task]
pub(crate) async fn snoozes_once(ctx: JobContext) -> Outcome {
    if ctx.snoozes() == 0 { Outcome::Snooze(Duration::from_secs(60)) } else { Outcome::Done }
}

#[task]
pub(crate) async fn cancels() -> Outcome {
    Outcome::Cancel("nobody wants it".to_owned())
}

#[task]
pub(crate) async fn panics() {
    panic!("at the disco");
}

/// Waits for another job.
#[task(queue = "asking")]
pub(crate) async fn asks(number: u64, ctx: JobContext) -> Result<u64, String> {
    match square::job(number).call(ctx.client(), Duration::from_secs(60)).await.map_err(|error| error.to_string())? {
        JobResult::Done(square) => Ok(square + 1),
        other => Err(format!("{other:?}")),
    }
}

#[task(queue = "squares")]
pub(crate) async fn square(number: u64) -> Result<u64, io::Error> {
    Ok(number * number)
}

#[task(blocking)]
pub(crate) fn adds(one: u64, other: u64) -> Result<u64, io::Error> {
    Ok(one + other)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) x: i32,
    pub(crate) y: f64,
}

#[task]
pub(crate) async fn plots(points: Vec<Point>, image: Vec<u8>, opacity: f32, r#type: String) -> Result<Point, io::Error> {
    let _ = (image, opacity, r#type);
    points.into_iter().next().ok_or_else(|| io::Error::other("no point"))
}

#[task(queue = "charges", unique(by = [customer], within = "10m"))]
pub(crate) async fn charges(customer: String, cents: u64) {
    let _ = (customer, cents);
}

#[task(queue = "calls", limit(name = "service", rate = "1/1m", burst = 1))]
pub(crate) async fn calls(number: u32) {
    let _ = number;
}

#[task(queue = "tenants", group(by = tenant, cap = 1, max_size = 2))]
pub(crate) async fn serves(tenant: String) {
    let _ = tenant;
}

#[task]
pub(crate) async fn counts(count: Data<AtomicU32>) {
    count.fetch_add(1, Relaxed);
}
