//! The schedules of a run, and their expected ticks.

use std::time::{SystemTime, UNIX_EPOCH};

use queue_core::{
    RawJob,
    schedule::{Schedule, ScheduleAddress, ScheduleRecord},
};

use super::{Bed, Problem};
use crate::{
    checker::{HeldSchedule, Ticks},
    work::QUEUE,
};

/// A schedule of a row.
#[derive(Debug)]
pub(super) struct Defined {
    address: ScheduleAddress,
    wanted: Wanted,
}

/// The expected ticks.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// One at each multiple of `period_ms` from the first one on.
    Every {
        /// The period.
        period_ms: i64,
        /// The first tick.
        first_ms: i64,
    },
    /// Exactly these ticks, in milliseconds since 1970.
    Made(Vec<i64>),
}

impl Bed {
    /// Defines a schedule whose ticks record their runs. The record has its first tick.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn schedule(&mut self, schedule: Schedule, wanted: impl FnOnce(&ScheduleRecord) -> Wanted) -> Result<(), Problem> {
        let record = self.client.schedules().upsert(schedule.raw_job(RawJob::new("tick", vec![0x80]).queue(QUEUE))).await?;
        let wanted = wanted(&record);
        self.schedules.retain(|known| known.address != record.schedule);
        self.schedules.push(Defined { address: record.schedule, wanted });
        Ok(())
    }

    /// The record of a schedule; `None` while the broker is unreachable.
    pub async fn schedule_record(&self, name: &str) -> Option<ScheduleRecord> {
        self.client.schedules().get(&ScheduleAddress::new(QUEUE, name).ok()?).await.ok()?
    }

    /// Waits until each schedule has made one more tick.
    ///
    /// # Errors
    /// If one does not.
    pub async fn ticked(&mut self) -> Result<(), Problem> {
        let names: Vec<String> = self.schedules.iter().map(|known| known.address.name.clone()).collect();
        for name in names {
            let before = self.until_known(&name).await?.made;
            let more = async |bed: &mut Bed| bed.schedule_record(&name).await.is_some_and(|record| record.made > before);
            self.until(&format!("a tick of {name}"), more).await?;
        }
        Ok(())
    }

    /// The record of a schedule, when the broker answers.
    ///
    /// # Errors
    /// If it does not in time.
    pub async fn until_known(&mut self, name: &str) -> Result<ScheduleRecord, Problem> {
        let mut record = None;
        let known = async |bed: &mut Bed| {
            record = bed.schedule_record(name).await;
            record.is_some()
        };
        self.until(&format!("the broker to tell of {name}"), known).await?;
        record.ok_or_else(|| format!("there is no schedule {name}").into())
    }

    /// Stops all ticks, and returns the expected ticks.
    pub(super) async fn end_schedules(&mut self) -> Result<Vec<HeldSchedule>, Problem> {
        let mut held = Vec::new();
        for Defined { address, wanted } in std::mem::take(&mut self.schedules) {
            let client = self.client.clone();
            let paused = async |_: &mut Bed| client.schedules().pause(&address).await.is_ok();
            self.until(&format!("{address} to be paused"), paused).await?;
            let record = self.until_known(&address.name).await?;
            let next_ms = record.next.map_or(0, ms);
            let ticks = match wanted {
                Wanted::Every { period_ms, first_ms } => Ticks::Every { period_ms, first_ms, next_ms },
                Wanted::Made(ticks) => Ticks::Made(ticks),
            };
            // A tick that waits for the end of a job counts as well.
            let skipped = record.skipped + u64::from(record.waiting.is_some());
            held.push(HeldSchedule { name: address.name, ticks, made: record.made, skipped });
        }
        Ok(held)
    }
}

/// Milliseconds since 1970.
fn ms(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

impl Wanted {
    /// One at each multiple of `period_ms`, starting with the next tick.
    pub fn every(period_ms: i64, record: &ScheduleRecord) -> Wanted {
        Wanted::Every { period_ms, first_ms: record.next.map_or(0, ms) }
    }

    /// The ticks up to now, one per second, and these.
    pub fn seconds_and(record: &ScheduleRecord, more: &[i64]) -> Wanted {
        let last = record.last.map_or(0, ms);
        let made = i64::try_from(record.made).unwrap_or(0);
        Wanted::Made((0..made).map(|n| last - 1_000 * n).chain(more.iter().copied()).collect())
    }
}
