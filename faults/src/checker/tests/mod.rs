//! One good history, and one for each invariant that breaks this one and no other.

mod bad;
mod story;

use std::collections::BTreeSet;

use self::story::{SUBSCRIPTION, Story, held, tick};
use super::{Held, Invariant, RateTerms, Ticks, Told};
use crate::history::{Ending, Mark, Operation, POWER_CUT, Phase, TAIL_CUT};

#[test]
fn a_good_history_breaks_nothing() {
    let verdict = Story::good().verdict();
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
    let summary = verdict.summary;
    assert_eq!((summary.jobs, summary.refused, summary.fenced_off), (7, 1, 1));
    assert_eq!(summary.duplicates.into_iter().collect::<Vec<_>>(), [("reclaim", 1)]);
}

#[test]
fn every_invariant_has_a_history_that_breaks_it() {
    let shown: BTreeSet<Invariant> = bad::ALL.iter().map(|(invariant, _)| *invariant).collect();
    assert_eq!(shown.len(), bad::ALL.len(), "each once");
    assert_eq!(shown.len(), 30, "all");
}

#[test]
fn a_bad_history_breaks_its_invariant_and_no_other() {
    for (invariant, spoil) in bad::ALL {
        let mut story = Story::good();
        spoil(&mut story);
        let verdict = story.verdict();
        let broken: BTreeSet<Invariant> = verdict.violations.iter().map(|violation| violation.invariant).collect();
        assert_eq!(broken, BTreeSet::from([invariant]), "{:#?}", verdict.violations);
    }
}

#[test]
fn a_log_with_lines_of_a_run_that_was_fenced_is_found() {
    for spoil in bad::TOLD {
        let mut story = Story::good();
        spoil(&mut story);
        let verdict = story.verdict();
        let broken: Vec<Invariant> = verdict.violations.iter().map(|violation| violation.invariant).collect();
        assert_eq!(broken, [Invariant::ResultBinding], "{:#?}", verdict.violations);
    }
    let mut story = Story::good();
    story.keeps(3, [(13, 0), (14, 0), (14, 1)].map(|(claim, line)| Told { claim, line, of: 2 }).to_vec(), 14);
    assert!(story.verdict().violations.is_empty());
}

#[test]
fn a_group_over_its_cap_a_slot_without_its_job_and_a_group_that_starves_are_found() {
    for spoil in bad::GROUPS {
        let mut story = Story::good();
        spoil(&mut story);
        let verdict = story.verdict();
        let broken: Vec<Invariant> = verdict.violations.iter().map(|violation| violation.invariant).collect();
        assert_eq!(broken, [Invariant::Limits], "{:#?}", verdict.violations);
    }
}

fn breaks(spoil: fn(&mut Story)) -> BTreeSet<Invariant> {
    let mut story = Story::good();
    spoil(&mut story);
    story.verdict().violations.iter().map(|violation| violation.invariant).collect()
}

#[test]
fn a_subscription_with_an_event_too_many_or_too_few_is_found() {
    for (at, spoil) in bad::SUBSCRIPTIONS.into_iter().enumerate() {
        assert_eq!(breaks(spoil), BTreeSet::from([Invariant::Subscriptions]), "{at}");
    }
}

#[test]
fn an_ordered_group_out_of_order_is_found() {
    for (at, spoil) in bad::LINES.into_iter().enumerate() {
        assert_eq!(breaks(spoil), BTreeSet::from([Invariant::Lines]), "{at}");
    }
}

#[test]
fn a_job_with_another_payload_than_its_edit_gave_it_is_found() {
    for (at, spoil) in bad::EDITS.into_iter().enumerate() {
        assert_eq!(breaks(spoil), BTreeSet::from([Invariant::PayloadKept]), "{at}");
    }
    let edited = |story: &mut Story| {
        story.edited(8, 400, Phase::Ok);
        story.brings(17, 99);
    };
    let perhaps = |story: &mut Story| story.edited(8, 400, Phase::Unknown);
    for spoil in [edited, perhaps] {
        assert_eq!(breaks(spoil), BTreeSet::new());
    }
}

/// Jobs 22 and later are stored long after job 21 and are claimed before it.
#[test]
fn a_job_that_starves_is_found() {
    fn starving(story: &mut Story) {
        story.terms.aging_ms = Some(10);
        story.stored(21, 400);
        story.stored(22, 1_000);
        story.ran("w2", 22, 22, 1_010, 1_015, Ending::Ack);
        story.ran("w2", 21, 23, 1_020, 1_025, Ending::Ack);
        story.count("enqueued", 2);
        story.count("done", 2);
    }
    fn claimed(story: &mut Story, claims: u64) {
        for seq in 1..=claims {
            story.note("w2", 900, Phase::Ok, Operation::Ask { lane: "w2.b".to_owned(), seq });
        }
    }
    let starved = |story: &mut Story| {
        starving(story);
        claimed(story, 10);
    };
    assert_eq!(breaks(starved), BTreeSet::from([Invariant::Fifo]));
    // Jobs rise only at a claim.
    let unclaimed = |story: &mut Story| {
        starving(story);
        claimed(story, 9);
    };
    assert_eq!(breaks(unclaimed), BTreeSet::new());
    let in_time = |story: &mut Story| {
        starving(story);
        claimed(story, 10);
        story.terms.aging_ms = Some(1_000);
    };
    assert_eq!(breaks(in_time), BTreeSet::new());
}

#[test]
fn a_cap_holds_as_a_person_has_set_it_last() {
    let larger = |story: &mut Story| {
        bad::GROUPS[0](story);
        story.capped(2, 880);
    };
    assert_eq!(breaks(larger), BTreeSet::new());
}

/// All events of the good story are handled again.
fn all_again(story: &mut Story) {
    for (at, key) in [(780, 100), (790, 101), (800, 102)] {
        story.ran("w2", key, at, at, at + 5, Ending::Ack);
    }
}

/// An event that was published before a rewind has its first run after it, and then a second one.
fn again_twice(story: &mut Story) {
    story.published(103, 700);
    story.rewound(750);
    all_again(story);
    story.ran("w2", 103, 810, 810, 815, Ending::Ack);
    story.ran("w2", 103, 820, 820, 825, Ending::Ack);
    story.count("enqueued", 5);
    story.count("done", 5);
}

/// A rewind explains one run of an event, and one more only if its job was active at the rewind.
#[test]
fn a_run_too_many_after_a_rewind_is_found() {
    let third = |story: &mut Story| {
        story.rewound(750);
        all_again(story);
        story.ran("w2", 102, 810, 810, 815, Ending::Ack);
        story.count("enqueued", 4);
        story.count("done", 4);
    };
    let third_since = |story: &mut Story| {
        story.note("w3", 740, Phase::Invoke, Operation::Ask { lane: "w3.a".to_owned(), seq: 1 });
        again_twice(story);
        story.ran("w2", 103, 830, 830, 835, Ending::Ack);
        story.count("enqueued", 1);
        story.count("done", 1);
    };
    let stories: [fn(&mut Story); 3] = [third, again_twice, third_since];
    for (at, spoil) in stories.into_iter().enumerate() {
        assert_eq!(breaks(spoil), BTreeSet::from([Invariant::ExplainedRedelivery]), "{at}");
    }
}

#[test]
fn what_a_subscription_may_do_is_no_violation() {
    // Lost events are counted.
    let lost = |story: &mut Story| {
        story.published(103, 700);
        story.snapshot.subscriptions[0].lost = 1;
    };
    // The subscription is rewound to its start, and handles the whole log in order.
    let rewound = |story: &mut Story| {
        story.rewound(750);
        for key in [100, 101, 102] {
            let at = 770 + 10 * (key - 100);
            story.ran("w2", key, key + 10, at, at + 5, Ending::Ack);
        }
        story.count("enqueued", 3);
        story.count("done", 3);
    };
    // The event of a job that ran during the rewind is handled again later.
    let ran_through = |story: &mut Story| {
        story.rewound(602);
        for (key, at) in [(100, 640), (101, 650), (102, 660)] {
            story.ran("w2", key, key + 10, at, at + 5, Ending::Ack);
        }
        story.count("enqueued", 3);
        story.count("done", 3);
    };
    // A second rewind, whose answer was lost, may have skipped events of the first one.
    let skipped = |story: &mut Story| {
        story.rewound(750);
        story.note("driver", 765, Phase::Invoke, Operation::Rewind { subscription: SUBSCRIPTION.to_owned(), to: Mark::Now });
    };
    // Another server was promoted that does not know the event, and runs ended jobs again.
    let forgotten = |story: &mut Story| {
        story.terms.volatile = true;
        story.published(103, 700);
        story.snapshot.log.retain(|id| id != "event-103");
        story.ran("w2", 101, 110, 770, 775, Ending::Ack);
    };
    // A job was claimed before a rewind, and the answer was repeated after it. Its event is handled
    // again later.
    let told_late = |story: &mut Story| {
        story.published(103, 700);
        story.rewound(750);
        story.ran("w2", 103, 745, 770, 775, Ending::Ack);
        all_again(story);
        story.ran("w2", 103, 810, 810, 815, Ending::Ack);
        story.count("enqueued", 5);
        story.count("done", 5);
    };
    // The same holds if the worker that had claimed it before the rewind could not report that. Its
    // first run looks like one after the rewind.
    let unreported = |story: &mut Story| {
        story.note("w3", 740, Phase::Invoke, Operation::Ask { lane: "w3.a".to_owned(), seq: 1 });
        again_twice(story);
    };
    // The subscription has not read the second entry of an event, and does not run its job again.
    let twice = |story: &mut Story| {
        story.published(103, 700);
        story.ran("w2", 103, 705, 705, 710, Ending::Ack);
        story.published(103, 720);
        story.rewound(750);
        all_again(story);
        story.count("enqueued", 4);
        story.count("done", 4);
    };
    let stories: [fn(&mut Story); 8] = [lost, rewound, ran_through, skipped, forgotten, told_late, unreported, twice];
    for (at, spoil) in stories.into_iter().enumerate() {
        assert_eq!(breaks(spoil), BTreeSet::new(), "{at}");
    }
    // A worker claimed the last job before the rewind, and was killed before it could record that.
    // The job has kept its position, and comes first.
    let unseen = |story: &mut Story| {
        story.rewound(750);
        story.claimed_after("w2", 102, 105, 770, (0, 1));
        story.starts("w2", 102, 105, 770);
        story.finished("w2", 102, 105, 775, Ending::Ack, Phase::Ok);
        for (at, key) in [(780, 100), (790, 101)] {
            story.ran("w2", key, at, at, at + 5, Ending::Ack);
        }
        story.count("enqueued", 3);
        story.count("done", 3);
    };
    assert!(!breaks(unseen).contains(&Invariant::Lines));
    // This also holds for a worker that was cut off and was not charged with a crash.
    let cut_off = |story: &mut Story| {
        story.note("w3", 740, Phase::Invoke, Operation::Ask { lane: "w3.a".to_owned(), seq: 1 });
        story.rewound(750);
        for (at, key) in [(770, 102), (780, 100), (790, 101)] {
            story.ran("w2", key, at, at, at + 5, Ending::Ack);
        }
        story.count("enqueued", 3);
        story.count("done", 3);
    };
    assert!(!breaks(cut_off).contains(&Invariant::Lines));
}

#[test]
fn what_a_rate_allows_is_no_violation() {
    let mut story = Story::good();
    story.terms.rate = Some(RateTerms { per_second: 100, burst: 5, used: 2 });
    assert_eq!(story.verdict().violations.len(), 0);
}

#[test]
fn a_violation_is_explained_by_the_timeline_of_its_job() {
    let mut story = Story::good();
    story.starts("w1", 1, 10, 950);
    let verdict = story.verdict();
    let timeline = verdict.violations[0].timeline.join("\n");
    for words in ["enqueue 1 as job-1", "claim 10 by w1.a", "start of claim 10", "ack of claim 10", "*** kill: w1"] {
        assert!(timeline.contains(words), "{words} in\n{timeline}");
    }
    assert!(!timeline.contains("job-2"), "{timeline}");
}

/// A tick is lost, made twice, made without a worker, or not counted.
#[test]
fn every_way_to_lose_or_double_a_tick_is_found() {
    type Spoil = fn(&mut Story);
    let spoilt: [(&str, Spoil); 6] = [
        ("its tick has made it 2 times", |story| {
            story.note("w1", 370, Phase::Invoke, tick(1_000));
            story.note("w1", 371, Phase::Ok, tick(1_000));
            story.count("enqueued", 1);
        }),
        ("is no tick of it", |story| {
            story.note("w1", 370, Phase::Invoke, tick(1_500));
            story.note("w1", 371, Phase::Ok, tick(1_500));
        }),
        ("not accounted for", |story| story.snapshot.schedules[0].skipped = 0),
        ("1 to 1 were seen", |story| story.snapshot.schedules[0].made = 2),
        ("was not made", |story| story.snapshot.schedules[0].ticks = Ticks::Made(vec![1_000, 2_000])),
        ("is no tick of it", |story| story.snapshot.schedules[0].ticks = Ticks::Made(vec![])),
    ];
    for (says, spoil) in spoilt {
        let mut story = Story::good();
        spoil(&mut story);
        let found: Vec<String> = story.verdict().violations.into_iter().map(|violation| violation.what).collect();
        assert!(found.iter().any(|what| what.contains(says)), "{says}: {found:?}");
    }
}

/// A claim without a recorded answer is lost. No data is lost, and the job runs again uncharged.
#[test]
fn a_power_cut_explains_another_claim_of_what_was_not_finished() {
    let verdict = |cut: bool| {
        let mut story = Story::good();
        story.forget(|operation| matches!(operation, Operation::Fence { .. }));
        for record in &mut story.records {
            if let Operation::Claim { claim: 14, crashes, .. } = &mut record.operation {
                *crashes = 0;
            }
        }
        if cut {
            story.note("driver", 1550, Phase::Ok, Operation::Fault { name: POWER_CUT.to_owned(), target: "broker".to_owned() });
        }
        story.verdict()
    };
    assert!(!verdict(false).violations.is_empty());
    let verdict = verdict(true);
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
    assert_eq!(verdict.summary.duplicates.into_iter().collect::<Vec<_>>(), [(POWER_CUT, 1)]);
}

/// A failure in the lost end of the broker's file is not counted, and causes no delay.
#[test]
fn a_cut_tail_explains_a_claim_before_the_delay_of_what_was_forgotten() {
    let early = |attempts_after: u32, cut: bool| {
        let mut story = Story::good();
        for record in &mut story.records {
            if let Operation::Claim { claim: 12, at_ms, attempts, .. } = &mut record.operation {
                (*at_ms, *attempts) = (50, attempts_after);
            }
        }
        if cut {
            story.note("driver", 40, Phase::Ok, Operation::Fault { name: TAIL_CUT.to_owned(), target: "broker".to_owned() });
        }
        let times = [Invariant::Backoff, Invariant::NeverEarly];
        story.verdict().violations.iter().any(|violation| times.contains(&violation.invariant))
    };
    assert!(early(0, false) && early(1, true), "it was forgotten only if it is not counted, and something was cut");
    assert!(!early(0, true));
}

/// A process loses its lease, comes back, gets the job again, and is cut off before it can record
/// that.
#[test]
fn a_process_can_lose_a_job_twice() {
    let mut story = Story::good();
    for phase in [Phase::Invoke, Phase::Ok] {
        story.note("w2", 1550, phase, Operation::Fence { lane: "w1.b".to_owned() });
    }
    for record in &mut story.records {
        if let Operation::Claim { claim: 14, crashes, .. } = &mut record.operation {
            *crashes = 2;
        }
    }
    let verdict = story.verdict();
    assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
}

/// If its processes are killed often enough, any job looks like one that kills them.
#[test]
fn a_job_whose_processes_are_killed_too_often_may_die_of_it() {
    let violations = |kills: usize| {
        let mut story = Story::good();
        story.terms.lease_ms = 100;
        story.stored(20, 400);
        for (crashes, worker) in ["w3", "w4", "w5"].into_iter().enumerate() {
            let (number, at) = (crashes as u64, 410 + 200 * crashes as u64);
            story.note(worker, at, Phase::Ok, Operation::Up { concurrency: 2, tasks: vec!["work".to_owned()] });
            story.claimed_after(worker, 20, 20 + number, at + 1, (0, u32::try_from(crashes).unwrap()));
            story.starts(worker, 20, 20 + number, at + 2);
            if crashes < kills {
                story.note("driver", at + 3, Phase::Ok, Operation::Fault { name: "kill".to_owned(), target: worker.to_owned() });
            }
            story.note(worker, at + 4, Phase::Ok, Operation::Down);
            for phase in [Phase::Invoke, Phase::Ok] {
                story.note("w2", at + 150, phase, Operation::Fence { lane: format!("{worker}.a") });
            }
        }
        story.snapshot.jobs.push(Held { reason: Some("crashed".to_owned()), crashes: 3, ..held(20, "dead") });
        story.count("enqueued", 1);
        story.verdict().violations.into_iter().map(|violation| violation.invariant).collect::<Vec<_>>()
    };
    assert_eq!(violations(3), []);
    assert_eq!(violations(2), [Invariant::Isolation]);
}
