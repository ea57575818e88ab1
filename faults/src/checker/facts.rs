//! The same history, by job and by process.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Held, Invariant, Snapshot, Terms};
use crate::{
    events::ATTEMPTS,
    history::{Ending, Mark, Operation, Phase, Record, TAIL_CUT, Wish, subscription_of},
};

/// The subject of a finding, whose timeline explains it.
#[derive(Clone, Debug)]
pub(super) enum About {
    Job(String),
    Key(u64),
    Process(String),
    Nothing,
}

/// A broken invariant, before it is explained.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) invariant: Invariant,
    pub(super) about: About,
    pub(super) what: String,
}

/// The time between a request and its answer. `None` if there is no answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from_us: u64,
    pub(super) to_us: Option<u64>,
}

/// The known result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Happened,
    Refused,
    Open,
}

/// A subscription and its changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscription<'a> {
    /// The requests that create it. Refused: it existed.
    pub(super) made: Vec<Marked<'a>>,
    /// The targets of rewinds.
    pub(super) rewinds: Vec<Marked<'a>>,
}

/// A change of a subscription, with its process and its position in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marked<'a> {
    process: &'a str,
    pub(super) span: Span,
    pub(super) fate: Fate,
    pub(super) mark: Mark,
}

/// One enqueue of a key.
#[derive(Clone, Debug)]
pub(super) struct Enqueued<'a> {
    pub(super) span: Span,
    pub(super) fate: Fate,
    pub(super) key: u64,
    pub(super) id: Option<&'a str>,
    pub(super) digest: u64,
    pub(super) delay_ms: u64,
    pub(super) max_attempts: u32,
    pub(super) existing: bool,
    pub(super) wish: Wish,
    pub(super) unique: Option<u64>,
}

/// A request that creates the job of a tick.
#[derive(Clone, Debug)]
pub(super) struct Tick<'a> {
    pub(super) schedule: &'a str,
    pub(super) tick_ms: i64,
    process: &'a str,
    pub(super) fate: Fate,
    span: Span,
}

/// A delivery: its lane, the actions of its handler, and its finishes.
#[derive(Clone, Debug)]
pub(super) struct Delivery<'a> {
    pub(super) claim: u64,
    pub(super) lane: &'a str,
    pub(super) process: &'a str,
    pub(super) claimed_us: u64,
    pub(super) at_ms: i64,
    pub(super) attempts: u32,
    pub(super) crashes: u32,
    pub(super) starts: Vec<u64>,
    pub(super) ends: Vec<u64>,
    pub(super) finishes: BTreeMap<u64, Finish>,
}

/// One finish of a delivery, by the turn that carries it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finish {
    pub(super) ending: Ending,
    pub(super) span: Span,
    pub(super) fate: Fate,
}

impl Delivery<'_> {
    /// The time of the delivery in milliseconds, by the broker's clock. If that clock moves, it is
    /// the time at which the worker received the answer.
    pub(super) fn given_ms(&self, terms: &Terms) -> u64 {
        if terms.clock_moves { self.claimed_us / 1000 } else { u64::try_from(self.at_ms).unwrap_or(0) }
    }

    /// The latest possible time of the delivery, in milliseconds. A lost answer is repeated with
    /// the time of the repetition. The number of a claim is not below its time.
    pub(super) fn given_by_ms(&self, terms: &Terms) -> u64 {
        self.given_ms(terms).min(self.claim)
    }

    /// The finishes that counted or may have counted.
    pub(super) fn possible(&self) -> impl Iterator<Item = &Finish> {
        self.finishes.values().filter(|finish| finish.fate != Fate::Refused)
    }

    /// The finish that counted.
    pub(super) fn accepted(&self) -> Option<&Finish> {
        self.finishes.values().find(|finish| finish.fate == Fate::Happened)
    }
}

/// A job.
#[derive(Clone, Debug, Default)]
pub(super) struct Job<'a> {
    pub(super) key: Option<u64>,
    pub(super) deliveries: BTreeMap<u64, Delivery<'a>>,
    /// Starts without a recorded delivery, and claim numbers of two lanes.
    pub(super) stray_starts: Vec<u64>,
    pub(super) shared_claims: Vec<u64>,
    /// The digests of its starts, with their claims.
    pub(super) start_digests: Vec<(u64, u64)>,
    /// The edits of its payload.
    pub(super) edits: Vec<(Span, Fate, u64)>,
    pub(super) cancels: Vec<(Span, Fate)>,
    pub(super) requeues: Vec<(Span, Fate)>,
    /// The rewinds of its subscription. After each, the event may be handled again.
    pub(super) rewinds: Vec<(Span, Fate)>,
    pub(super) deletes: Vec<(Span, Fate)>,
    pub(super) held: Vec<&'a Held>,
}

impl Job<'_> {
    /// Changes that may have let it run again after it had ended.
    pub(super) fn revivals(&self) -> impl Iterator<Item = Span> {
        self.requeues.iter().chain(&self.rewinds).filter(|(_, fate)| *fate != Fate::Refused).map(|(span, _)| *span)
    }
}

/// A process.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    /// The times when it was ready and when it ended, and its concurrency.
    pub(super) lives: Vec<(u64, Option<u64>, usize)>,
    pub(super) tasks: BTreeSet<String>,
}

pub(super) struct Facts<'a> {
    pub(super) records: &'a [Record],
    pub(super) snapshot: &'a Snapshot,
    pub(super) terms: &'a Terms,
    pub(super) enqueues: BTreeMap<u64, Vec<Enqueued<'a>>>,
    /// Events, by their numbers.
    pub(super) publishes: BTreeMap<u64, Vec<Enqueued<'a>>>,
    pub(super) subscriptions: BTreeMap<&'a str, Subscription<'a>>,
    /// The number of events that trims have removed, and how often a subscription had not read one.
    pub(super) trimmed: (u64, u64),
    /// The changes of the number of jobs of each key that run at once.
    pub(super) caps: Vec<(Span, usize)>,
    pub(super) jobs: BTreeMap<&'a str, Job<'a>>,
    /// By the id of the job.
    pub(super) ticks: BTreeMap<&'a str, Vec<Tick<'a>>>,
    pub(super) processes: BTreeMap<&'a str, Process>,
    /// The renewals of each lane, and its process.
    pub(super) renewals: BTreeMap<&'a str, (&'a str, Vec<u64>)>,
    /// The processes that have fenced each lane.
    fences: HashMap<&'a str, Vec<(&'a str, Span, Fate)>>,
    /// Turns that request jobs, by lane and number: the time of sending, and whether the result was
    /// recorded.
    asks: HashMap<(&'a str, u64), (u64, bool)>,
    pub(super) faults: Vec<(u64, &'a str, &'a str)>,
    pub(super) heals: Vec<u64>,
}

impl<'a> Facts<'a> {
    pub(super) fn gather(records: &'a [Record], snapshot: &'a Snapshot, terms: &'a Terms) -> Self {
        let mut facts = Facts {
            records,
            snapshot,
            terms,
            enqueues: BTreeMap::new(),
            publishes: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            trimmed: (0, 0),
            caps: Vec::new(),
            jobs: BTreeMap::new(),
            ticks: BTreeMap::new(),
            processes: BTreeMap::new(),
            renewals: BTreeMap::new(),
            fences: HashMap::new(),
            asks: HashMap::new(),
            faults: Vec::new(),
            heals: Vec::new(),
        };
        for record in records {
            facts.add(record);
        }
        for held in &snapshot.jobs {
            let job = facts.jobs.entry(&held.id).or_default();
            job.held.push(held);
            job.key = job.key.or(held.key);
        }
        for enqueue in facts.enqueues.values().flatten() {
            if let Some(id) = enqueue.id {
                facts.jobs.entry(id).or_default().key = Some(enqueue.key);
            }
        }
        for (name, job) in &mut facts.jobs {
            let rewinds = subscription_of(name).and_then(|queue| facts.subscriptions.get(queue)).map(|of| &of.rewinds);
            job.rewinds = rewinds.into_iter().flatten().map(|rewind| (rewind.span, rewind.fate)).collect();
        }
        facts
    }

    fn add(&mut self, record: &'a Record) {
        let (at, phase, process) = (record.wall_us, record.phase, record.process.as_str());
        match &record.operation {
            Operation::Enqueue { key, id, digest, delay_ms, max_attempts, existing, wish, unique } => {
                let (delay_ms, max_attempts, existing, unique) = (*delay_ms, *max_attempts, *existing, *unique);
                let new = Enqueued { delay_ms, max_attempts, existing, unique, ..Enqueued::new(at, *key, id.as_deref(), *digest, *wish) };
                enqueue(self.enqueues.entry(*key).or_default(), new, phase);
            }
            Operation::Publish { key, id, digest, again, wish } => {
                let publishes = self.publishes.entry(*key).or_default();
                // An answer does not contain whether it existed.
                let existing = if phase == Phase::Invoke { *again } else { publishes.last().is_some_and(|open| open.existing) };
                enqueue(publishes, Enqueued { existing, ..Enqueued::new(at, *key, id.as_deref(), *digest, *wish) }, phase);
            }
            Operation::Subscribe { subscription, begin } => {
                mark(&mut self.subscriptions.entry(subscription).or_default().made, process, *begin, at, phase);
            }
            Operation::Rewind { subscription, to } => {
                mark(&mut self.subscriptions.entry(subscription).or_default().rewinds, process, *to, at, phase);
            }
            Operation::Trim { entries, lost } => self.trimmed = (self.trimmed.0 + entries, self.trimmed.1 + lost),
            Operation::Tick { schedule, tick_ms, id } => {
                let ticks = self.ticks.entry(id).or_default();
                if phase == Phase::Invoke {
                    let span = Span { from_us: at, to_us: None };
                    ticks.push(Tick { schedule, tick_ms: *tick_ms, process, fate: Fate::Open, span });
                } else if let Some(open) = ticks.iter_mut().rev().find(|tick| tick.process == process) {
                    close(&mut open.span, &mut open.fate, at, phase);
                }
            }
            Operation::Claim { id, lane, claim, at_ms, attempts, crashes } if phase == Phase::Ok => {
                let job = self.jobs.entry(id).or_default();
                let delivery = job.deliveries.entry(*claim).or_insert_with(|| Delivery {
                    claim: *claim,
                    lane,
                    process,
                    claimed_us: at,
                    at_ms: *at_ms,
                    attempts: *attempts,
                    crashes: *crashes,
                    starts: Vec::new(),
                    ends: Vec::new(),
                    finishes: BTreeMap::new(),
                });
                if delivery.lane != lane {
                    job.shared_claims.push(*claim);
                }
                self.renew(process, lane, at);
            }
            Operation::Start { key, id, claim, digest } => {
                let job = self.jobs.entry(id).or_default();
                job.key = Some(*key);
                job.start_digests.push((*claim, *digest));
                match job.deliveries.get_mut(claim) {
                    Some(delivery) => delivery.starts.push(at),
                    None => job.stray_starts.push(at),
                }
            }
            Operation::End { id, claim, .. } => {
                if let Some(delivery) = self.jobs.entry(id).or_default().deliveries.get_mut(claim) {
                    delivery.ends.push(at);
                }
            }
            Operation::Finish { id, claim, seq, ending, .. } => {
                let Some(delivery) = self.jobs.entry(id).or_default().deliveries.get_mut(claim) else { return };
                let new = Finish { ending: *ending, span: Span { from_us: at, to_us: None }, fate: Fate::Open };
                let finish = delivery.finishes.entry(*seq).or_insert(new);
                if phase != Phase::Invoke {
                    close(&mut finish.span, &mut finish.fate, at, phase);
                }
            }
            Operation::Renew { lane } if phase == Phase::Ok => self.renew(process, lane, at),
            Operation::Ask { lane, seq } => self.asks.entry((lane, *seq)).or_insert((at, false)).1 |= phase == Phase::Ok,
            Operation::Fence { lane } => {
                let fences = self.fences.entry(lane).or_default();
                if phase == Phase::Invoke {
                    fences.push((process, Span { from_us: at, to_us: None }, Fate::Open));
                } else if let Some((_, span, fate)) = fences.iter_mut().rev().find(|fence| fence.0 == process) {
                    close(span, fate, at, phase);
                }
            }
            Operation::Cancel { id } => settle(&mut self.jobs.entry(id).or_default().cancels, at, phase),
            Operation::Requeue { id } => settle(&mut self.jobs.entry(id).or_default().requeues, at, phase),
            Operation::Edit { id, digest } => {
                let edits = &mut self.jobs.entry(id).or_default().edits;
                if phase == Phase::Invoke {
                    edits.push((Span { from_us: at, to_us: None }, Fate::Open, *digest));
                } else if let Some((span, fate, _)) = edits.last_mut() {
                    close(span, fate, at, phase);
                }
            }
            Operation::Cap { cap } if phase == Phase::Invoke => self.caps.push((Span { from_us: at, to_us: None }, *cap)),
            Operation::Cap { .. } => {
                if let Some((span, _)) = self.caps.last_mut() {
                    span.to_us = Some(at);
                }
            }
            Operation::Delete { id } => settle(&mut self.jobs.entry(id).or_default().deletes, at, phase),
            Operation::Up { concurrency, tasks } => {
                let found = self.processes.entry(process).or_default();
                found.lives.push((at, None, *concurrency));
                found.tasks.extend(tasks.iter().cloned());
            }
            Operation::Down => {
                let life = self.processes.entry(process).or_default().lives.last_mut();
                if let Some((_, end @ None, _)) = life {
                    *end = Some(at);
                }
            }
            Operation::Fault { name, target } => self.faults.push((at, name, target)),
            Operation::Heal => self.heals.push(at),
            Operation::Claim { .. } | Operation::Renew { .. } => {}
        }
    }

    fn renew(&mut self, process: &'a str, lane: &'a str, at: u64) {
        self.renewals.entry(lane).or_insert_with(|| (process, Vec::new())).1.push(at);
    }

    /// The times of turns that request jobs, in order.
    pub(super) fn asked(&self) -> Vec<u64> {
        let mut asked: Vec<u64> = self.asks.values().map(|(at, _)| *at).collect();
        asked.sort_unstable();
        asked
    }

    /// The times of turns whose results were not recorded, in milliseconds.
    pub(super) fn unanswered_ms(&self) -> Vec<u64> {
        self.asks.values().filter(|(_, answered)| !answered).map(|(at, _)| at / 1000).collect()
    }

    /// The times in which a lane may have held jobs of an answer that no worker logged: each ends
    /// when the lane was fenced, or this many milliseconds after its lease.
    pub(super) fn unanswered_until(&self, beyond_ms: u64) -> Vec<(u64, u64)> {
        let unanswered = self.asks.iter().filter(|(_, (_, answered))| !answered);
        let fenced = |lane: &str| {
            self.fences.get(lane)?.iter().filter(|fence| fence.2 == Fate::Happened).filter_map(|(_, span, _)| span.to_us).min()
        };
        // Jobs of a fenced lane are reclaimed in steps.
        const STEPS_US: u64 = 500_000;
        let until = |lane: &str, at: u64| fenced(lane).map_or(at + (self.terms.lease_ms + beyond_ms) * 1000, |us| us + STEPS_US);
        unanswered.map(|((lane, _), (at, _))| (*at, until(lane, *at))).collect()
    }

    /// The number of processes that were killed from outside while they held this job.
    pub(super) fn kills_under(&self, job: &Job<'_>) -> usize {
        let is_killed = |delivery: &&Delivery<'_>| {
            let kills = || self.faults.iter().filter(|(_, name, target)| *name == "kill" && *target == delivery.process);
            delivery.accepted().is_none() && kills().any(|(at, ..)| *at >= delivery.claimed_us)
        };
        job.deliveries.values().filter(is_killed).count()
    }

    /// Whether the broker may have lost acknowledged data in this time.
    pub(super) fn tail_was_cut(&self, from_us: u64, to_us: u64) -> bool {
        self.faults.iter().any(|(at, name, _)| *name == TAIL_CUT && (from_us..=to_us).contains(at))
    }

    /// The earliest possible time at which a lane was fenced.
    pub(super) fn fenced_since(&self, lane: &str) -> Option<u64> {
        self.fences.get(lane)?.iter().filter(|(.., fate)| *fate != Fate::Refused).map(|(_, span, _)| span.from_us).min()
    }

    /// The number of times that processes were fenced in this period. Each may have held a job
    /// without recording it. A fence may take effect at any time up to its answer.
    pub(super) fn fenced_between(&self, from_us: u64, to_us: u64) -> usize {
        let holds = |(_, span, fate): &&(&str, Span, Fate)| {
            *fate != Fate::Refused && span.from_us <= to_us && span.to_us.is_none_or(|answered| answered >= from_us)
        };
        let first = |fences: &[(&str, Span, Fate)]| fences.iter().filter(holds).map(|(_, span, _)| span.from_us).min();
        // The lanes of a process share the first part of their names, and are fenced together. A
        // process that comes back is fenced again.
        let fenced = self.fences.iter().filter_map(|(lane, fences)| Some((lane.split('.').next(), first(fences)?)));
        fenced.collect::<BTreeSet<_>>().len()
    }

    /// The maximum number of entries of the log for an event.
    pub(super) fn entries_of(&self, event: u64) -> usize {
        self.publishes.get(&event).into_iter().flatten().filter(|publish| publish.fate != Fate::Refused).count()
    }

    /// The first enqueue of a job.
    pub(super) fn enqueue_of(&self, job: &Job<'_>) -> Option<&Enqueued<'a>> {
        let key = job.key?;
        // Jobs and events have different numbers.
        self.enqueues.get(&key).or_else(|| self.publishes.get(&key))?.first()
    }
}

impl<'a> Enqueued<'a> {
    /// One that was just sent.
    fn new(at: u64, key: u64, id: Option<&'a str>, digest: u64, wish: Wish) -> Self {
        Enqueued {
            span: Span { from_us: at, to_us: None },
            fate: Fate::Open,
            key,
            id,
            digest,
            delay_ms: 0,
            max_attempts: ATTEMPTS,
            existing: false,
            wish,
            unique: None,
        }
    }
}

/// Adds a record of an enqueue: a new one, or the result of the pending one.
fn enqueue<'a>(enqueues: &mut Vec<Enqueued<'a>>, record: Enqueued<'a>, phase: Phase) {
    if phase == Phase::Invoke {
        enqueues.push(record);
    } else if let Some(open) = enqueues.last_mut() {
        open.id = record.id.or(open.id);
        open.existing = record.existing;
        close(&mut open.span, &mut open.fate, record.span.from_us, phase);
    }
}

/// The same for a subscription. Several workers may create one at the same time.
fn mark<'a>(operations: &mut Vec<Marked<'a>>, process: &'a str, mark: Mark, at: u64, phase: Phase) {
    if phase == Phase::Invoke {
        operations.push(Marked { process, span: Span { from_us: at, to_us: None }, fate: Fate::Open, mark });
    } else if let Some(open) = operations.iter_mut().rev().find(|open| open.process == process) {
        close(&mut open.span, &mut open.fate, at, phase);
    }
}

fn close(span: &mut Span, fate: &mut Fate, at: u64, phase: Phase) {
    span.to_us = Some(at);
    *fate = match (phase, *fate) {
        // A later answer cannot undo a change that has happened.
        (_, Fate::Happened) | (Phase::Ok, _) => Fate::Happened,
        (Phase::Fail, _) => Fate::Refused,
        (Phase::Unknown | Phase::Invoke, _) => Fate::Open,
    };
}

fn settle(operations: &mut Vec<(Span, Fate)>, at: u64, phase: Phase) {
    if phase == Phase::Invoke {
        operations.push((Span { from_us: at, to_us: None }, Fate::Open));
    } else if let Some((span, fate)) = operations.last_mut() {
        close(span, fate, at, phase);
    }
}

/// Adds a finding about a job.
pub(super) fn broken(found: &mut Vec<Finding>, invariant: Invariant, id: &str, what: impl Into<String>) {
    found.push(Finding { invariant, about: About::Job(id.to_owned()), what: format!("job {id}: {}", what.into()) });
}
