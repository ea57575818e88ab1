//! Topics: a log of events, and how far each subscription has read. The queues of the subscriptions are models of their own.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use queue_core::{
    JobId,
    broker::{
        Begin, MAX_BYTES, MOST_TAKEN, Mark, NewJob, Retention, Rewind, RewindStep, Rewound, StoredEvent, StoredSubscription, StoredTopic,
        Subscribe, TRIM_STEP, Trimmed, Unknown,
    },
    envelope::Envelope,
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
    unknown: Unknown,
    skipped: u64,
    /// A rewind of it is under way: whose it is, and how far it had read.
    rewind: Option<(String, u64)>,
    /// The last rewind of it that has ended.
    ended: Option<String>,
    /// How far it had read before that.
    before: u64,
}

impl Subscription {
    fn knows(&self, event: &NewJob) -> bool {
        Envelope::decode(&event.envelope).is_ok_and(|envelope| self.types.iter().any(|known| *known == envelope.task))
    }
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
            known.unknown = request.unknown.unwrap_or(known.unknown);
            if !request.types.is_empty() {
                let all: BTreeSet<&String> = known.types.iter().chain(&request.types).collect();
                known.types = all.into_iter().cloned().collect();
            }
            return false;
        }
        let gone = self.gone();
        let cursor = match request.begin {
            Begin::Now => self.added,
            Begin::Start => gone,
            Begin::AtMs(from) => self.log.iter().filter(|(_, (at, _))| *at < from).map(|(seq, _)| *seq).max().unwrap_or(gone),
        };
        let subscription = Subscription {
            cursor,
            lost: 0,
            made: now,
            begin: request.begin,
            types: request.types.clone(),
            unknown: request.unknown.unwrap_or_default(),
            skipped: 0,
            rewind: None,
            ended: None,
            before: 0,
        };
        self.subscriptions.insert(request.name.to_string(), subscription);
        true
    }

    /// False: there is none.
    pub fn unsubscribe(&mut self, name: &str) -> bool {
        self.subscriptions.remove(name).is_some()
    }

    /// One step of a rewind of a subscription whose queue this is.
    ///
    /// # Errors
    /// [`queue_core::Error::Invalid`] for a mark that is no position.
    pub fn rewind(&mut self, request: &Rewind, queue: &mut Model) -> queue_core::Result<Rewound> {
        let number = |position: &str| position.parse::<u64>().map_err(|_| Rewind::unknown(position));
        let entries = |log: &BTreeMap<u64, (i64, NewJob)>, after: u64, upto: u64| -> (Vec<(u64, JobId)>, bool) {
            let (mut entries, mut bytes) = (Vec::new(), 0);
            for (seq, (_, event)) in log.range(after + 1..).take_while(|(seq, _)| **seq <= upto) {
                if entries.len() == TRIM_STEP || bytes >= MAX_BYTES {
                    return (entries, true);
                }
                entries.push((*seq, event.id.clone()));
                bytes += event.envelope.len();
            }
            (entries, false)
        };
        let passed = |entries: &[(u64, JobId)], more: bool| {
            let next = entries.last().filter(|_| more).map(|(seq, _)| seq.to_string());
            Rewound::Passed { entries: entries.len() as u64, next }
        };
        let found = match &request.step {
            RewindStep::Look(mark) | RewindStep::Begin { mark, .. } => Some(self.find(mark)?),
            _ => None,
        };
        let Some(subscription) = self.subscriptions.get_mut(&*request.name) else { return Ok(Rewound::Nobody) };
        let upto = subscription.rewind.as_ref().map_or(0, |(_, upto)| *upto).max(subscription.cursor).max(subscription.before);
        let before = subscription.rewind.as_ref().map(|(token, _)| token).or(subscription.ended.as_ref()).cloned().unwrap_or_default();
        let is_other = |token: &String| subscription.rewind.as_ref().is_none_or(|(known, _)| known != token);
        Ok(match (&request.step, found) {
            (RewindStep::Begin { token, after, .. }, _) if is_other(token) && before != *after => Rewound::Other,
            (RewindStep::End(token, _), _) if subscription.rewind.is_none() && subscription.ended.as_ref() == Some(token) => Rewound::Ended,
            (RewindStep::Cancel { token, .. } | RewindStep::Forget(_, token) | RewindStep::End(token, _), _) if is_other(token) => {
                Rewound::Other
            }
            (RewindStep::Cancel { reason, ids, .. }, _) => {
                let cancelled = ids.iter().filter(|id| queue.cancel_waiting(id, reason.as_deref())).count();
                Rewound::Cancelled(cancelled as u64)
            }
            (RewindStep::Look(_), Some((from, _, is_short))) => {
                Rewound::Mark { from: from.to_string(), upto: upto.to_string(), is_short, token: before }
            }
            (RewindStep::Begin { token, .. }, Some((from, begin, is_short))) => {
                (subscription.cursor, subscription.begin, subscription.rewind) = (from, begin, Some((token.clone(), upto)));
                Rewound::Mark { from: from.to_string(), upto: upto.to_string(), is_short, token: before }
            }
            (RewindStep::Count(after, upto), _) => {
                let (entries, more) = entries(&self.log, number(after)?, number(upto)?);
                passed(&entries, more)
            }
            (RewindStep::Forget(after, _), _) => {
                let (entries, more) = entries(&self.log, number(after)?, upto);
                entries.iter().for_each(|(_, id)| queue.forget_event(id));
                passed(&entries, more)
            }
            _ => {
                subscription.before = upto;
                subscription.ended = subscription.rewind.take().map(|(token, _)| token);
                Rewound::Ended
            }
        })
    }

    /// The cursor before a mark, where a subscription begins then, and whether entries of it are gone.
    fn find(&self, mark: &Mark) -> queue_core::Result<(u64, Begin, bool)> {
        let (gone, first) = (self.gone(), self.log.values().next().map(|(at, _)| *at));
        Ok(match mark {
            Mark::At(Begin::Start) => (gone, Begin::Start, false),
            Mark::At(Begin::Now) => (self.added, Begin::Now, false),
            Mark::At(begin @ Begin::AtMs(from)) => {
                let before = self.log.iter().filter(|(_, (at, _))| at < from).map(|(seq, _)| *seq).max();
                (before.unwrap_or(gone), *begin, gone > 0 && first.is_none_or(|first| *from < first))
            }
            Mark::Event(position) => {
                let seq: u64 = position.parse().map_err(|_| Rewind::unknown(position))?;
                let begin = self.log.get(&seq).map_or(if seq > self.added { Begin::Now } else { Begin::Start }, |(at, _)| Begin::AtMs(*at));
                (seq.saturating_sub(1).clamp(gone, self.added), begin, seq <= gone)
            }
        })
    }

    /// How many bytes the log has.
    fn bytes(&self) -> u64 {
        self.log.values().map(|(_, event)| (event.id.as_bytes().len() + event.envelope.len()) as u64).sum()
    }

    /// How many entries are no longer in the log.
    fn gone(&self) -> u64 {
        self.log.keys().next().map_or(self.added, |first| first - 1)
    }

    /// What it keeps from now on.
    pub fn set_retention(&mut self, said: Retention) {
        self.retention = self.retention.with(said);
    }

    /// One step.
    pub fn trim(&mut self, now: i64) -> Trimmed {
        let (mut trimmed, mut bytes) = (Trimmed::default(), 0);
        while let Some((seq, (at, event))) = self.log.first_key_value() {
            let size = event.envelope.len();
            let (seq, old) = (*seq, Duration::from_millis(u64::try_from(now - at).unwrap_or(0)));
            let waited_for = self.subscriptions.values().any(|subscription| subscription.cursor < seq);
            if !self.retention.drops(old, self.log.len() as u64, self.bytes(), waited_for) {
                return trimmed;
            }
            if trimmed.entries == TRIM_STEP as u64 || bytes >= MAX_BYTES {
                trimmed.more = true;
                return trimmed;
            }
            self.log.remove(&seq);
            trimmed.entries += 1;
            bytes += size;
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
        stored.bytes = self.bytes();
        stored.first_ms = self.log.values().next().map(|(at, _)| *at);
        for (name, of) in &self.subscriptions {
            let mut subscription = StoredSubscription::new(name, of.cursor.to_string(), of.begin, of.made);
            subscription.types.clone_from(&of.types);
            subscription.behind = Some(self.added - of.cursor);
            subscription.lost = of.lost;
            (subscription.unknown, subscription.skipped) = (of.unknown, of.skipped);
            subscription.rewinding = of.rewind.is_some();
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
        let Some(subscription) = self.subscriptions.get_mut(name).filter(|of| wanted > 0 && !queue.paused && of.rewind.is_none()) else {
            return false;
        };
        while queue.taken() < MOST_TAKEN && queue.startable() < wanted {
            let Some((seq, (_, event))) = self.log.range(subscription.cursor + 1..).next() else { return false };
            subscription.cursor = *seq;
            if subscription.unknown == Unknown::Skip && !subscription.types.is_empty() && !subscription.knows(event) {
                subscription.skipped += 1;
            } else {
                queue.feed(event);
            }
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

    /// Nothing is known of an event any more, unless its job is active.
    fn forget_event(&mut self, id: &JobId) {
        if !self.delete(id) && !self.jobs.contains_key(id) {
            self.remembered.remove(id);
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
