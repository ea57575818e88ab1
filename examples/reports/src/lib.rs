//! A report for each customer, every night in the customer's time zone.
//!
//! Each customer has a separate schedule, which is created when the customer signs up. After missed
//! nights, the last two are caught up: one report is written, and one waits for it. A report is
//! about a given night, even if it is written later. A report that takes longer than a day delays
//! the next one, and never runs at the same time.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use queue_core::{
    prelude::*,
    schedule::{CatchUp, Overlap, Schedule, ScheduleAddress},
};

/// Where reports go: by customer and by night. A report that is written again replaces itself.
#[derive(Debug, Default)]
pub struct Archive(Mutex<BTreeSet<(u64, SystemTime)>>);

impl Archive {
    /// Stores a report.
    pub fn store(&self, customer: u64, night: SystemTime) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((customer, night));
    }

    /// The nights for which a customer has reports.
    pub fn nights(&self, customer: u64) -> Vec<SystemTime> {
        let reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reports.iter().filter(|(of, _)| *of == customer).map(|(_, night)| *night).collect()
    }
}

/// Writes the report of one customer about one night. Its key is the tick, and not the time of the
/// run, which may be later.
#[task(queue = "reports", max_attempts = 5)]
pub async fn report(customer: u64, archive: Data<Archive>, ctx: JobContext) {
    let night = ctx.scheduled_for().unwrap_or_else(SystemTime::now);
    archive.store(customer, night);
}

/// Reminds the staff to check that reports are written. The schedule is part of the program, so it
/// is declared at its task.
#[task(queue = "reports", schedule(cron = "0 8 * * MON-FRI", tz = "Europe/Berlin", overlap = "skip", catch_up = "skip"))]
pub async fn remind_staff() {
    println!("look at the reports of the night");
}

/// The schedule of a customer.
pub fn nightly(customer: u64, zone: &str) -> Schedule {
    Schedule::cron(format!("nightly-{customer}"), "0 2 * * *")
        .tz(zone)
        .overlap(Overlap::BufferOne)
        .catch_up(CatchUp::All(2))
        .jitter(Duration::from_secs(600))
        .job(report::job(customer))
}

/// A customer signs up, or moves to another time zone.
///
/// # Errors
/// Those of the queue, and an unknown time zone.
pub async fn sign_up(client: &Client, customer: u64, zone: &str) -> queue_core::Result<()> {
    client.schedules().upsert(nightly(customer, zone)).await?;
    Ok(())
}

/// A customer leaves.
///
/// # Errors
/// Those of the queue.
pub async fn leave(client: &Client, customer: u64) -> queue_core::Result<()> {
    client.schedules().remove(&ScheduleAddress::new("reports", &format!("nightly-{customer}"))?).await?;
    Ok(())
}
