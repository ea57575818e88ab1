//! Corrects next ticks that are too far ahead, because a wrong clock set them.

use std::sync::Arc;

use super::{
    change::{Changing, SET_BACK},
    facade::{change, read},
};
use crate::{
    broker::{DynBroker, ScheduleList},
    error::Result,
};

/// The result of a check of some schedules.
#[derive(Debug, Default)]
pub struct Clamped {
    /// The schedules whose next tick was too far in the future.
    pub schedules: Vec<String>,
    /// Where the next check begins; `None`: at 0.
    pub next: Option<u64>,
}

/// Checks the schedules of a queue that are due in more than a day, at most `limit` of them from
/// `offset` on: only a wrong clock can have set some of them so far ahead. With `repair` these are
/// corrected. A schedule that this machine cannot read is left for another one.
///
/// # Errors
/// Those of the broker.
pub async fn clamp(broker: &DynBroker, queue: &Arc<str>, offset: u64, limit: usize, repair: bool) -> Result<Clamped> {
    // Reads only the broker's time.
    let now_ms = broker.schedules(queue, &ScheduleList::After { after_ms: i64::MAX >> 12, offset: 0, limit: 1 }).await?.now_ms;
    let after_ms = now_ms.saturating_add(i64::try_from(SET_BACK.as_millis()).unwrap_or(i64::MAX));
    let page = broker.schedules(queue, &ScheduleList::After { after_ms, offset, limit }).await?;
    let mut clamped = Clamped { schedules: Vec::new(), next: page.next };
    for stored in page.schedules {
        let is_ahead = read(&stored).and_then(|mut changing| changing.clamp(&stored.name, page.now_ms)).unwrap_or(false);
        if !is_ahead {
            continue;
        }
        if repair {
            change(broker, queue, &stored.name, |changing: &mut Changing, now_ms| {
                // Another process may have removed or corrected it.
                let known = changing.state.first_ms != 0;
                Ok((known && changing.clamp(&stored.name, now_ms)?).then_some(()))
            })
            .await?;
        }
        clamped.schedules.push(stored.name);
    }
    Ok(clamped)
}
