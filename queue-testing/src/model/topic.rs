//! Topics: a log of events, and how far each subscription has read. The queues of the subscriptions are models of their own.

use std::{collections::BTreeMap, time::Duration};

use queue_core::broker::{
    Begin, MOST_TAKEN, NewJob, Retention, StoredEvent, StoredSubscription, StoredTopic, Subscribe, TRIM_STEP, Trimmed,
};

use super::{Model, Place};

/// A topic.
#[derive(Clone, Debug, Default)]
pub struct Topic {
    /// The entries that are still there, with their numbers from 1 on and their times.
    log: BTreeMap<u64, (i64, NewJob)>,
    added: u64,
    retention: Retention,
    subscriptions: BTreeMap<String, Subscription>,
}

#[derive(Clone, Debug)]
struct Subscription {
    /// The number of the last entry that it has read.
    cursor: u64,
    lost: u64,
    made: i64,
    begin: Begin,
    types: Vec<String>,
}

impl Topic {
    /// Appends events.
    pub fn publish(&mut self, events: &[NewJob], now: i64) {
        for event in events {
            self.added += 1;
            self.log.insert(self.added, (now, event.clone()));
        }
        if self.subscriptions.is_empty() {
            self.trim(now);
        }
    }

    /// The names of its subscriptions.
    pub fn names(&self) -> Vec<String> {
        self.subscriptions.keys().cloned().collect()
    }

    /// True: it was made.
    pub fn subscribe(&mut self, request: &Subscribe, now: i64) -> bool {
        if let Some(known) = self.subscriptions.get_mut(&*request.name) {
            if !request.types.is_empty() {
                known.types.clone_from(&request.types);
            }
            return false;
        }
        let gone = self.log.keys().next().map_or(self.added, |first| first - 1);
        let cursor = match request.begin {
            Begin::Now => self.added,
            Begin::Start => gone,
            Begin::AtMs(from) => self.log.iter().filter(|(_, (at, _))| *at < from).map(|(seq, _)| *seq).max().unwrap_or(gone),
        };
        let subscription = Subscription { cursor, lost: 0, made: now, begin: request.begin, types: request.types.clone() };
        self.subscriptions.insert(request.name.to_string(), subscription);
        true
    }

    /// False: there is none.
    pub fn unsubscribe(&mut self, name: &str) -> bool {
        self.subscriptions.remove(name).is_some()
    }

    /// What it keeps from now on.
    pub fn set_retention(&mut self, said: Retention) {
        self.retention = self.retention.with(said);
    }

    /// One step.
    pub fn trim(&mut self, now: i64) -> Trimmed {
        let mut trimmed = Trimmed::default();
        while let Some((seq, (at, _))) = self.log.first_key_value() {
            let (seq, old) = (*seq, Duration::from_millis(u64::try_from(now - at).unwrap_or(0)));
            let waited_for = self.subscriptions.values().any(|subscription| subscription.cursor < seq);
            if !self.retention.drops(old, self.log.len() as u64, waited_for) {
                return trimmed;
            }
            if trimmed.entries == TRIM_STEP as u64 {
                trimmed.more = true;
                return trimmed;
            }
            self.log.remove(&seq);
            trimmed.entries += 1;
            for subscription in self.subscriptions.values_mut().filter(|subscription| subscription.cursor < seq) {
                (subscription.cursor, subscription.lost) = (seq, subscription.lost + 1);
                trimmed.lost += 1;
            }
        }
        trimmed
    }

    /// Everything about it.
    pub fn show(&self, name: &str, now: i64) -> StoredTopic {
        let mut stored = StoredTopic::new(name, now);
        (stored.entries, stored.added, stored.retention) = (self.log.len() as u64, self.added, self.retention);
        stored.first_ms = self.log.values().next().map(|(at, _)| *at);
        for (name, of) in &self.subscriptions {
            let mut subscription = StoredSubscription::new(name, of.cursor.to_string(), of.begin, of.made);
            subscription.types.clone_from(&of.types);
            subscription.behind = Some(self.added - of.cursor);
            subscription.lost = of.lost;
            subscription.next_ms = self.log.range(of.cursor + 1..).next().map(|(_, (at, _))| *at);
            stored.subscriptions.push(subscription);
        }
        stored
    }

    /// Entries behind a position.
    pub fn read(&self, after: Option<&str>, limit: usize) -> Vec<StoredEvent> {
        let after = after.and_then(|after| after.parse().ok()).unwrap_or(0);
        let of = |(seq, (at, event)): (&u64, &(i64, NewJob))| {
            StoredEvent::of_envelope(seq.to_string(), *at, event.id.clone(), event.group.as_ref(), &event.envelope)
        };
        self.log.range(after + 1..).take(limit).map(of).collect()
    }

    /// Reads on for a subscription whose queue this is, while fewer jobs could start than are wanted. True: there is more to read.
    pub fn feed(&mut self, name: &str, queue: &mut Model, wanted: usize) -> bool {
        let Some(subscription) = self.subscriptions.get_mut(name).filter(|_| wanted > 0 && !queue.paused) else { return false };
        while queue.taken() < MOST_TAKEN && queue.startable() < wanted {
            let Some((seq, (_, event))) = self.log.range(subscription.cursor + 1..).next() else { return false };
            subscription.cursor = *seq;
            queue.feed(event);
        }
        queue.taken() < MOST_TAKEN && self.log.range(subscription.cursor + 1..).next().is_some()
    }
}

impl Model {
    /// An event becomes a job, unless its id is known.
    fn feed(&mut self, event: &NewJob) {
        if !self.jobs.contains_key(&event.id) && !self.remembered.contains_key(&event.id) {
            self.arrive(event, self.now);
            self.count("enqueued", 1);
        }
    }

    /// How many jobs have not ended.
    fn taken(&self) -> usize {
        self.jobs.values().filter(|job| !matches!(job.place(), Place::Ended { .. } | Place::Dead { .. })).count()
    }

    /// How many jobs could start: those of a group that may be served count as one.
    fn startable(&self) -> usize {
        let groups = usize::try_from(self.groups.others_in_turn(None)).unwrap_or(usize::MAX);
        self.ready.priorities().iter().map(std::collections::VecDeque::len).sum::<usize>() + groups
    }
}
