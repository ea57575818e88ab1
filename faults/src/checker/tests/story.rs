//! Manual histories. Times are in milliseconds.

use std::collections::BTreeMap;

use super::super::{Held, HeldSchedule, HeldSubscription, Lane, Snapshot, Terms, Ticks, Told, Verdict, check};
use crate::history::{Ending, Mark, Operation, Phase, Record, Wish};

pub(super) struct Story {
    pub(super) records: Vec<Record>,
    pub(super) snapshot: Snapshot,
    pub(super) terms: Terms,
}

/// The subscription of events, whose numbers begin at 100.
pub(super) const SUBSCRIPTION: &str = "ordered@happenings";

pub(super) fn id(key: u64) -> String {
    if key < 100 { format!("job-{key}") } else { format!("{SUBSCRIPTION}/event-{key}") }
}

pub(super) fn tick(tick_ms: i64) -> Operation {
    Operation::Tick { schedule: "often".to_owned(), tick_ms, id: format!("tick-{tick_ms}") }
}

fn tick_claim(claim: u64, at_ms: i64) -> Operation {
    Operation::Claim { id: "tick-1000".to_owned(), lane: "w2.a".to_owned(), claim, at_ms, attempts: 0, crashes: 0 }
}

impl Story {
    /// Two workers, of which the first is killed; jobs that are done, fail, are reclaimed,
    /// cancelled, buried, refused and kept.
    pub(super) fn good() -> Story {
        let terms = Terms { lease_ms: 1_000, backoff_ms: (100, 1_000), ..Terms::default() };
        let mut story = Story { records: Vec::new(), snapshot: Snapshot::default(), terms };
        for worker in ["w1", "w2"] {
            story.note(worker, 0, Phase::Ok, Operation::Up { concurrency: 2, tasks: vec!["work".to_owned()] });
        }
        // Done at once.
        story.stored(1, 1);
        story.ran("w1", 1, 10, 5, 10, Ending::Ack);
        // Fails once, and waits for its backoff.
        story.stored(2, 20);
        story.ran("w1", 2, 11, 25, 30, Ending::Nack { delay_ms: 70 });
        story.claimed_after("w2", 2, 12, 120, (1, 0));
        story.starts("w2", 2, 12, 121);
        story.finished("w2", 2, 12, 130, Ending::Ack, Phase::Ok);
        // Held by a process that is killed. Its finish is too late.
        story.stored(3, 200);
        story.claimed("w1", 3, 13, 205);
        story.starts("w1", 3, 13, 206);
        story.note("driver", 210, Phase::Ok, Operation::Fault { name: "kill".to_owned(), target: "w1".to_owned() });
        for phase in [Phase::Invoke, Phase::Ok] {
            story.note("w2", 1500, phase, Operation::Fence { lane: "w1.a".to_owned() });
        }
        story.claimed_after("w2", 3, 14, 1600, (0, 1));
        story.starts("w2", 3, 14, 1601);
        story.finished("w1", 3, 13, 1605, Ending::Ack, Phase::Fail);
        story.finished("w2", 3, 14, 1610, Ending::Ack, Phase::Ok);
        story.note("w1", 1620, Phase::Ok, Operation::Down);
        // Cancelled before it starts.
        story.stored(4, 300);
        for (phase, at) in [(Phase::Invoke, 310), (Phase::Ok, 311)] {
            story.note("p1", at, phase, Operation::Cancel { id: id(4) });
        }
        // Fails permanently.
        story.enqueued(5, 320, Phase::Ok, 0, 1, Wish::Dead);
        story.ran("w2", 5, 15, 325, 330, Ending::Bury { failed: true });
        story.snapshot.jobs.push(Held { reason: Some("failed".to_owned()), attempts: 1, ..held(5, "dead") });
        // Refused.
        story.enqueued(6, 340, Phase::Fail, 0, 25, Wish::Done);
        // Done, and kept with its result.
        story.stored(7, 350);
        story.ran("w2", 7, 16, 355, 360, Ending::Ack);
        story.snapshot.jobs.push(Held { result: Some(16), ..held(7, "done") });
        // Created by a tick, of which another worker was not notified.
        for (worker, phase) in [("w1", Phase::Invoke), ("w2", Phase::Invoke), ("w2", Phase::Ok), ("w1", Phase::Unknown)] {
            story.note(worker, 365, phase, tick(1_000));
        }
        story.note("w2", 366, Phase::Ok, tick_claim(18, 366));
        story.note("w2", 367, Phase::Ok, Operation::Start { key: 1 << 63, id: "tick-1000".to_owned(), claim: 18, digest: 1 });
        for phase in [Phase::Invoke, Phase::Ok] {
            let (id, lane) = ("tick-1000".to_owned(), "w2.a".to_owned());
            story.note("w2", 368, phase, Operation::Finish { id, lane, claim: 18, seq: 18, ending: Ending::Ack });
        }
        story.snapshot.schedules.push(HeldSchedule {
            name: "often".to_owned(),
            ticks: Ticks::Every { period_ms: 1_000, first_ms: 1_000, next_ms: 3_000 },
            made: 1,
            skipped: 1,
        });
        // Published before the subscription begins, and twice after it.
        story.published(100, 580);
        for (at, phase) in [(585, Phase::Invoke), (586, Phase::Ok)] {
            story.note("w2", at, phase, Operation::Subscribe { subscription: SUBSCRIPTION.to_owned(), begin: Mark::Now });
        }
        for (key, at) in [(101, 590), (102, 595)] {
            story.published(key, at);
            story.ran("w2", key, key, at + 10, at + 13, Ending::Ack);
        }
        story.snapshot.subscriptions.push(HeldSubscription { queue: SUBSCRIPTION.to_owned(), lost: 0 });
        story.terms.ordered.push((SUBSCRIPTION.to_owned(), 1));
        // Scheduled.
        story.enqueued(8, 370, Phase::Ok, 500, 25, Wish::Done);
        story.ran("w2", 8, 17, 880, 890, Ending::Ack);

        story.note("driver", 1700, Phase::Ok, Operation::Heal);
        for at in [1710, 2000, 2300] {
            story.renewed("w2", at);
        }
        story.snapshot.at_ms = 3000;
        story.snapshot.drained_ms = Some(50);
        story.snapshot.lanes.push(Lane { name: "w2.a".to_owned(), deadline_ms: 3300 });
        story.snapshot.counters =
            BTreeMap::from([("enqueued", 10), ("done", 8), ("failed", 2)].map(|(name, count)| (name.to_owned(), count)));
        story
    }

    pub(super) fn verdict(mut self) -> Verdict {
        self.records.sort_by_key(|record| record.wall_us);
        check(&self.records, &self.snapshot, &self.terms)
    }

    pub(super) fn note(&mut self, process: &str, ms: u64, phase: Phase, operation: Operation) {
        let at = ms * 1000;
        self.records.push(Record { process: process.to_owned(), wall_us: at, mono_us: at, phase, operation });
    }

    /// Removes records from the story.
    pub(super) fn forget(&mut self, which: impl Fn(&Operation) -> bool) {
        self.records.retain(|record| !which(&record.operation));
    }

    pub(super) fn enqueued(&mut self, key: u64, ms: u64, phase: Phase, delay_ms: u64, max_attempts: u32, wish: Wish) {
        let id = (phase == Phase::Ok).then(|| id(key));
        let operation = |id| Operation::Enqueue { key, id, digest: key, delay_ms, max_attempts, existing: false, wish, unique: None };
        self.note("p1", ms, Phase::Invoke, operation(None));
        self.note("p1", ms + 1, phase, operation(id));
    }

    pub(super) fn stored(&mut self, key: u64, ms: u64) {
        self.enqueued(key, ms, Phase::Ok, 0, 25, Wish::Done);
    }

    pub(super) fn published(&mut self, key: u64, ms: u64) {
        let operation = |id| Operation::Publish { key, id, digest: key, again: false, wish: Wish::Done };
        self.note("p1", ms, Phase::Invoke, operation(None));
        self.note("p1", ms + 1, Phase::Ok, operation(Some(format!("event-{key}"))));
        self.snapshot.log.push(format!("event-{key}"));
    }

    /// The subscription is rewound to its start.
    pub(super) fn rewound(&mut self, ms: u64) {
        for (at, phase) in [(ms, Phase::Invoke), (ms + 10, Phase::Ok)] {
            self.note("driver", at, phase, Operation::Rewind { subscription: SUBSCRIPTION.to_owned(), to: Mark::Start });
        }
    }

    /// An operator edits the payload of a job.
    pub(super) fn edited(&mut self, key: u64, ms: u64, phase: Phase) {
        for (at, phase) in [(ms, Phase::Invoke), (ms + 1, phase)] {
            self.note("driver", at, phase, Operation::Edit { id: id(key), digest: 99 });
        }
    }

    /// The start of a claim has this payload.
    pub(super) fn brings(&mut self, of: u64, payload: u64) {
        for record in &mut self.records {
            match &mut record.operation {
                Operation::Start { claim, digest, .. } if *claim == of => *digest = payload,
                _ => {}
            }
        }
    }

    /// An operator sets the number of jobs of each key that run at once.
    pub(super) fn capped(&mut self, cap: usize, ms: u64) {
        for (at, phase) in [(ms, Phase::Invoke), (ms + 1, Phase::Ok)] {
            self.note("driver", at, phase, Operation::Cap { cap });
        }
    }

    /// Gives an enqueued job a unique key.
    pub(super) fn unique(&mut self, job: u64, number: u64) {
        for record in &mut self.records {
            match &mut record.operation {
                Operation::Enqueue { key, unique, .. } if *key == job => *unique = Some(number),
                _ => {}
            }
        }
    }

    pub(super) fn claimed(&mut self, worker: &str, key: u64, claim: u64, ms: u64) {
        self.claimed_after(worker, key, claim, ms, (0, 0));
    }

    pub(super) fn claimed_after(&mut self, worker: &str, key: u64, claim: u64, ms: u64, (attempts, crashes): (u32, u32)) {
        let at_ms = i64::try_from(ms).unwrap();
        let operation = Operation::Claim { id: id(key), lane: format!("{worker}.a"), claim, at_ms, attempts, crashes };
        self.note(worker, ms, Phase::Ok, operation);
    }

    pub(super) fn starts(&mut self, worker: &str, key: u64, claim: u64, ms: u64) {
        self.note(worker, ms, Phase::Ok, Operation::Start { key, id: id(key), claim, digest: key });
    }

    pub(super) fn finished(&mut self, worker: &str, key: u64, claim: u64, ms: u64, ending: Ending, phase: Phase) {
        self.note(worker, ms, Phase::Ok, Operation::End { id: id(key), claim, how: "returned".to_owned() });
        let operation = Operation::Finish { id: id(key), lane: format!("{worker}.a"), claim, seq: ms, ending };
        self.note(worker, ms, Phase::Invoke, operation.clone());
        self.note(worker, ms + 1, phase, operation);
    }

    /// Claimed at `from`, finished at `to`.
    pub(super) fn ran(&mut self, worker: &str, key: u64, claim: u64, from: u64, to: u64, ending: Ending) {
        self.claimed(worker, key, claim, from);
        self.starts(worker, key, claim, from);
        self.finished(worker, key, claim, to, ending, Phase::Ok);
    }

    pub(super) fn renewed(&mut self, worker: &str, ms: u64) {
        self.note(worker, ms, Phase::Ok, Operation::Renew { lane: format!("{worker}.a") });
    }

    /// Increases a counter.
    pub(super) fn count(&mut self, name: &str, more: u64) {
        *self.snapshot.counters.entry(name.to_owned()).or_default() += more;
    }

    /// A job that is done is kept, with this log, and the progress of this claim.
    pub(super) fn keeps(&mut self, key: u64, told: Vec<Told>, progress: u64) {
        self.snapshot.jobs.push(Held { told, progress: Some(progress), ..held(key, "done") });
    }

    pub(super) fn held(&mut self, key: u64) -> &mut Held {
        self.snapshot.jobs.iter_mut().find(|held| held.id == id(key)).expect("it is held")
    }
}

/// A job in a state, with its payload.
pub(super) fn held(key: u64, state: &str) -> Held {
    Held {
        id: id(key),
        state: state.to_owned(),
        shown: state.to_owned(),
        task: Some("work".to_owned()),
        key: Some(key),
        digest: Some(key),
        ..Held::default()
    }
}
