//! Changes that spoil the good history, one for each invariant.

use super::{
    super::{Held, HeldKey, Invariant, RateTerms, Told},
    story::{Story, held, id, tick},
};
use crate::history::{Ending, Operation, Phase};

/// Breaks one invariant.
type Spoil = fn(&mut Story);

pub(super) const ALL: [(Invariant, Spoil); 30] = [
    (Invariant::NoLoss, |story| {
        story.stored(20, 400);
        story.count("enqueued", 1);
    }),
    (Invariant::NoGhosts, |story| {
        story.ran("w2", 20, 20, 900, 901, Ending::Ack);
        story.count("done", 1);
    }),
    (Invariant::OnePlace, |story| {
        let twice = Held { state: "done".to_owned(), shown: "done".to_owned(), ..story.held(5).clone() };
        story.snapshot.jobs.push(twice);
    }),
    (Invariant::NoResurrection, |story| {
        story.ran("w2", 1, 20, 900, 901, Ending::Ack);
        story.count("done", 1);
    }),
    (Invariant::Fencing, |story| {
        // The finish of the zombie counted after its successor had begun.
        for record in &mut story.records {
            match &mut record.operation {
                Operation::Finish { claim: 13, .. } if record.phase == Phase::Fail => record.phase = Phase::Ok,
                _ => {}
            }
        }
        story.count("done", 1);
    }),
    (Invariant::SingleHolder, |story| {
        for record in &mut story.records {
            if matches!(record.operation, Operation::Fence { .. }) {
                record.wall_us = 1_605_000;
            }
        }
    }),
    (Invariant::ExplainedRedelivery, |story| story.starts("w1", 1, 10, 6)),
    (Invariant::Attempts, |story| story.held(5).reason = Some("crashed".to_owned())),
    (Invariant::Backoff, |story| {
        for record in &mut story.records {
            match &mut record.operation {
                Operation::Claim { claim: 12, at_ms, .. } => *at_ms = 70,
                Operation::Finish { claim: 11, ending, .. } => *ending = Ending::Nack { delay_ms: 1 },
                _ => {}
            }
        }
    }),
    (Invariant::NeverEarly, |story| {
        for record in &mut story.records {
            if let Operation::Claim { claim: 17, at_ms, .. } = &mut record.operation {
                *at_ms = 800;
            }
        }
    }),
    (Invariant::BoundedLate, |story| {
        story.terms.late_ms = Some(100);
        story.stored(20, 400);
        story.ran("w2", 20, 20, 600, 601, Ending::Ack);
        story.count("enqueued", 1);
        story.count("done", 1);
    }),
    (Invariant::Unique, |story| {
        // Stored while another job of the key runs.
        for (key, at) in [(20, 400), (21, 850)] {
            story.stored(key, at);
        }
        story.unique(20, 3);
        story.unique(21, 3);
        story.ran("w2", 20, 20, 895, 896, Ending::Ack);
        story.ran("w2", 21, 21, 897, 898, Ending::Ack);
        story.count("enqueued", 2);
        story.count("done", 2);
        // At the end, a dead job holds another key.
        story.snapshot.keys.push(HeldKey { unique: 4, id: id(5) });
    }),
    (Invariant::Fifo, |story| {
        story.terms.fifo = true;
        story.stored(20, 400);
        story.stored(21, 410);
        story.ran("w2", 21, 20, 895, 896, Ending::Ack);
        story.ran("w2", 20, 21, 897, 898, Ending::Ack);
        story.count("enqueued", 2);
        story.count("done", 2);
    }),
    (Invariant::Schedules, |story| {
        for phase in [Phase::Invoke, Phase::Ok] {
            story.note("w1", 370, phase, tick(1_000));
        }
        story.count("enqueued", 1);
    }),
    (Invariant::Limits, |story| {
        for key in 20..23 {
            story.stored(key, 400);
            story.ran("w2", key, key, 900 + key, 950 + key, Ending::Ack);
        }
        story.count("enqueued", 3);
        story.count("done", 3);
    }),
    (Invariant::IdempotentEnqueue, |story| {
        // One enqueue with two jobs, which both ran.
        story.note("w2", 900, Phase::Ok, claim("double", 20, 900));
        story.note("w2", 901, Phase::Ok, Operation::Start { key: 1, id: "double".to_owned(), claim: 20, digest: 1 });
    }),
    (Invariant::ResultBinding, |story| story.held(7).result = Some(13)),
    (Invariant::Cancelled, |story| {
        story.ran("w2", 4, 20, 900, 901, Ending::Ack);
        story.count("done", 1);
    }),
    (Invariant::DeadLetters, |story| story.snapshot.jobs.retain(|held| held.id != id(5))),
    (Invariant::PayloadKept, |story| story.held(7).digest = Some(99)),
    (Invariant::Accounting, |story| story.count("done", 1)),
    (Invariant::Isolation, |story| {
        // Another job in the process of a crashing job is buried for crashes.
        story.stored(20, 400);
        story.snapshot.jobs.push(Held { reason: Some("crashed".to_owned()), crashes: 3, ..held(20, "dead") });
        story.count("enqueued", 1);
    }),
    (Invariant::CleanRefusal, |story| {
        story.ran("w2", 6, 20, 900, 901, Ending::Ack);
        story.count("done", 1);
    }),
    (Invariant::NothingStuck, |story| {
        story.stored(20, 400);
        story.claimed("w2", 20, 20, 900);
        story.snapshot.jobs.push(Held { lane: Some("w9.a".to_owned()), ..held(20, "active") });
        story.count("enqueued", 1);
    }),
    (Invariant::NoSilentZombie, |story| {
        story.forget(|operation| matches!(operation, Operation::Renew { .. }));
    }),
    (Invariant::Drains, |story| story.snapshot.drained_ms = None),
    (Invariant::Renewals, |story| {
        story.terms.renewals = true;
        story.stored(20, 1700);
        story.ran("w2", 20, 20, 1710, 2900, Ending::Ack);
        story.forget(|operation| matches!(operation, Operation::Renew { .. }));
        for at in [1720, 2890] {
            story.renewed("w2", at);
        }
        story.count("enqueued", 1);
        story.count("done", 1);
    }),
    (Invariant::Resources, |story| story.snapshot.end.connections = 100),
    (Invariant::Subscriptions, |story| story.published(103, 700)),
    (Invariant::Lines, |story| {
        // The first fails, and the second does not wait for its retry.
        for record in &mut story.records {
            if let Operation::Finish { claim: 101, ending, .. } = &mut record.operation {
                *ending = Ending::Nack { delay_ms: 70 };
            }
        }
        story.claimed_after("w2", 101, 104, 700, (1, 0));
        story.starts("w2", 101, 104, 700);
        story.finished("w2", 101, 104, 705, Ending::Ack, Phase::Ok);
        story.count("failed", 1);
    }),
];

/// More ways in which a subscription has too many or too few events.
pub(super) const SUBSCRIPTIONS: [Spoil; 5] = [
    |story| {
        // One from before its begin.
        story.ran("w2", 100, 99, 588, 589, Ending::Ack);
        story.count("enqueued", 1);
        story.count("done", 1);
    },
    // An event is counted as lost, but was handled.
    |story| {
        story.forget(|operation| matches!(operation, Operation::Publish { key: 100, .. }));
        story.snapshot.subscriptions[0].lost = 1;
    },
    |story| {
        // Two were not read, but only one is counted.
        story.published(103, 700);
        story.published(104, 702);
        story.snapshot.subscriptions[0].lost = 1;
    },
    |story| {
        // It is rewound, and handles one of its events again.
        story.rewound(750);
        story.ran("w2", 100, 105, 770, 775, Ending::Ack);
        story.ran("w2", 101, 106, 776, 780, Ending::Ack);
        story.count("enqueued", 2);
        story.count("done", 2);
    },
    |story| {
        // Another server was promoted, whose log has an event that was never handled.
        story.terms.volatile = true;
        story.published(103, 700);
    },
];

/// More ways in which a job runs with a wrong payload.
pub(super) const EDITS: [Spoil; 3] = [
    // The job is edited while it waits, and starts with the old payload.
    |story| {
        story.edited(8, 400, Phase::Ok);
        story.count("done", 0);
    },
    // The edit was refused, but the job starts with its payload.
    |story| {
        story.edited(8, 400, Phase::Fail);
        story.brings(17, 99);
    },
    // The job starts with an unknown payload.
    |story| {
        story.edited(8, 400, Phase::Unknown);
        story.brings(17, 98);
    },
];

/// More ways to break an ordered group.
pub(super) const LINES: [Spoil; 2] = [
    |story| {
        // The second begins while the first runs.
        for record in &mut story.records {
            if matches!(record.operation, Operation::Finish { claim: 101, .. }) {
                record.wall_us += 3_000;
            }
        }
    },
    |story| {
        // The line is out of order after a rewind.
        story.rewound(750);
        for (at, key) in [102, 101, 100].into_iter().enumerate() {
            let at = 770 + 10 * at as u64;
            story.ran("w2", key, at, at, at + 5, Ending::Ack);
        }
        story.count("enqueued", 3);
        story.count("done", 3);
    },
];

fn claim(id: &str, claim: u64, at_ms: i64) -> Operation {
    Operation::Claim { id: id.to_owned(), lane: "w2.a".to_owned(), claim, at_ms, attempts: 0, crashes: 0 }
}

fn told(claim: u64, line: u32) -> Told {
    Told { claim, line, of: 2 }
}

/// More ways to break the binding of results, for logs and progress. Job 3 was held with the claims
/// 13 and 14.
pub(super) const TOLD: [Spoil; 5] = [
    |story| story.keeps(3, vec![told(14, 0), told(13, 0), told(14, 1)], 14),
    |story| story.keeps(3, vec![told(13, 1), told(14, 0), told(14, 1)], 14),
    |story| story.keeps(3, vec![told(13, 0), told(14, 0)], 14),
    |story| story.keeps(3, vec![told(12, 0), told(14, 0), told(14, 1)], 14),
    |story| story.keeps(3, vec![told(13, 0), told(14, 0), told(14, 1)], 13),
];

/// More ways to break the limits: those of groups and rates.
pub(super) const GROUPS: [Spoil; 5] = [
    |story| {
        // Two jobs of a group run after an operator has reduced the cap to one.
        story.terms.groups = Some((10, 2));
        story.terms.turns = false;
        story.capped(1, 800);
        for (key, from) in [(20, 890), (30, 893)] {
            story.stored(key, 400);
            story.ran("w2", key, key, from, 899, Ending::Ack);
        }
        story.count("enqueued", 2);
        story.count("done", 2);
    },
    |story| {
        // The usage of a rate is not charged.
        story.terms.rate = Some(RateTerms { per_second: 100, burst: 5, used: 100 });
    },
    |story| {
        // Two jobs of a group with a cap of one run.
        story.terms.groups = Some((10, 1));
        for (key, from) in [(20, 895), (30, 896)] {
            story.stored(key, 400);
            story.ran("w2", key, key, from, 899, Ending::Ack);
        }
        story.count("enqueued", 2);
        story.count("done", 2);
    },
    |story| {
        // A held slot without a job.
        story.terms.groups = Some((10, 1));
        story.snapshot.slots = 1;
    },
    |story| {
        // A job waits, and its group runs none. Jobs of another group are served one after the
        // other.
        story.terms.groups = Some((10, 2));
        story.stored(21, 895);
        for key in [22, 32, 42, 52] {
            story.stored(key, 895);
            story.ran("w2", key, key, 900 + key, 904 + key, Ending::Ack);
        }
        story.ran("w2", 21, 60, 970, 975, Ending::Ack);
        story.count("enqueued", 5);
        story.count("done", 5);
    },
];
