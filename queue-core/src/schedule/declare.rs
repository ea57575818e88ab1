//! Declarations of schedules in code. Several releases may declare one schedule differently. The
//! declaration of the release that appeared last, among releases with a live worker, is effective,
//! so a rollback takes effect. A setting made at run time overrides all declarations.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{change::Changing, define::Prepared, facade::change};
use crate::{
    broker::{Declaration, DynBroker, ScheduleList, StoredSchedule},
    error::Result,
};

/// A schedule that no live worker has declared for this time is paused, if code has declared it
/// before.
pub const UNDECLARED_AFTER: Duration = Duration::from_secs(3600);

/// Why it is.
const UNDECLARED: &str = "no live worker has declared it for an hour";

/// The changes of a check of the declared schedules of a queue.
#[derive(Debug, Default)]
pub struct Declared {
    /// Schedules with a new definition.
    pub changed: Vec<String>,
    /// Schedules that were paused, because no live worker declares them.
    pub paused: Vec<String>,
}

/// Declares the schedules of a release in a queue, and checks those that other releases have
/// declared there. `own` may have schedules of other queues.
///
/// # Errors
/// Those of the broker.
pub async fn declare(broker: &DynBroker, queue: &Arc<str>, release: &str, own: &[Prepared]) -> Result<Declared> {
    let mut declared = Declared::default();
    let known = broker.schedules(queue, &ScheduleList::Declared).await?.schedules;
    let here: Vec<&Prepared> = own.iter().filter(|own| own.queue == *queue).collect();
    if known.is_empty() && here.is_empty() {
        return Ok(declared);
    }
    let workers = broker.workers(queue).await?;
    let mut live: BTreeSet<String> =
        workers.into_iter().filter(|worker| !worker.lease_left.is_zero()).map(|worker| worker.release).collect();
    live.insert(release.to_owned());
    for schedule in here {
        let made = change(broker, queue, &schedule.name, |changing: &mut Changing, now_ms| {
            let before = changing.clone();
            changing.declare(release, schedule, now_ms);
            changing.apply_declared(&schedule.name, &live, now_ms)?;
            Ok((*changing != before).then_some(()))
        });
        if made.await?.is_some() {
            declared.changed.push(schedule.name.clone());
        }
    }
    for StoredSchedule { name, .. } in known.iter().filter(|known| !own.iter().any(|own| own.queue == *queue && own.name == known.name)) {
        // The same one in another queue: it has moved, and must not tick in both.
        let moved = own.iter().find(|own| own.name == *name && own.queue != *queue);
        let paused = change(broker, queue, name, |changing: &mut Changing, now_ms| {
            let before = changing.clone();
            let is_same = moved.filter(|moved| moved.task() == super::define::task_of(&changing.definition.body));
            let why = is_same.map(|moved| format!("it is declared in queue `{}` now", moved.queue));
            let paused = changing.miss(name, &live, why, now_ms)?;
            Ok((*changing != before).then_some(paused))
        });
        if paused.await? == Some(true) {
            declared.paused.push(name.clone());
        }
    }
    Ok(declared)
}

impl Changing {
    /// A release declares this.
    pub(super) fn declare(&mut self, release: &str, schedule: &Prepared, now_ms: i64) {
        let declared = &mut self.definition.declared;
        match declared.iter_mut().find(|known| known.release == release) {
            Some(known) => known.body = schedule.body.clone(),
            None => declared.push(Declaration { release: release.to_owned(), first_ms: now_ms, body: schedule.body.clone() }),
        }
    }

    /// Applies the effective declaration for these live releases.
    pub(super) fn apply_declared(&mut self, name: &str, live: &BTreeSet<String>, now_ms: i64) -> Result<()> {
        self.definition.declared.retain(|known| live.contains(&known.release));
        let latest = self.definition.declared.iter().max_by_key(|known| known.first_ms).map(|known| known.body.clone());
        let Some(body) = latest else { return Ok(()) };
        self.definition.undeclared_ms = None;
        if !self.definition.by_person {
            self.redefine(name, &body, now_ms)?;
        }
        if self.state.paused.as_deref().is_some_and(|why| why == UNDECLARED || why.starts_with("it is declared in queue")) {
            self.resume(name, now_ms)?;
        }
        Ok(())
    }

    /// No worker that runs this code declares it: others may. True: it was paused.
    pub(super) fn miss(&mut self, name: &str, live: &BTreeSet<String>, moved: Option<String>, now_ms: i64) -> Result<bool> {
        if self.definition.declared.iter().any(|known| live.contains(&known.release)) {
            self.apply_declared(name, live, now_ms)?;
            return Ok(false);
        }
        // A setting of an operator needs no code.
        if self.definition.by_person || self.definition.declared.is_empty() {
            return Ok(false);
        }
        let since = *self.definition.undeclared_ms.get_or_insert(now_ms);
        let hour = i64::try_from(UNDECLARED_AFTER.as_millis()).unwrap_or(i64::MAX);
        match moved {
            Some(why) => Ok(self.pause(&why, now_ms)),
            None if now_ms - since >= hour => Ok(self.pause(UNDECLARED, now_ms)),
            None => Ok(false),
        }
    }
}
