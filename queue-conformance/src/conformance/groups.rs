//! Groups: served in rotation, by weight, within their caps, and in order.

use std::time::Duration;

use queue_core::{
    JobId,
    broker::{
        Audit, BuryReason, Change, CrashRule, Delivery, Ending, Enqueued, GroupList, GroupPage, GroupSet, JobState, NewJob, Priority,
        SetGroup, StoredGroup, SweepLimits,
    },
    inspect::{GroupName, GroupOrder, GroupRule, RuleOf},
};

use super::bed::{Bed, LONG, Lane, ack, envelope, eventually, finish, nack};
use crate::Changes as _;

pub(super) const RULE: CrashRule = CrashRule { max_crashes: 3, tasks: &[], window: LONG, delay: Duration::ZERO };

pub(super) fn name(group: &str) -> GroupName {
    GroupName::new(group).expect("it is a name")
}

/// A job of a group, or of none if the name is empty.
pub(super) fn job(group: &str) -> NewJob {
    let mut job = NewJob::new(JobId::make(), envelope(group));
    job.group = (!group.is_empty()).then(|| name(group));
    job
}

/// Stores `jobs` jobs of a group. Returns their ids.
pub(super) async fn put(bed: &Bed, group: &str, jobs: usize) -> Vec<JobId> {
    let jobs: Vec<NewJob> = (0..jobs).map(|_| job(group)).collect();
    let ids = jobs.iter().map(|job| job.id.clone()).collect();
    bed.producer().await.stored(jobs).await;
    ids
}

/// Sets a rule and ignores the earlier one.
pub(super) async fn rule(bed: &Bed, of: &RuleOf, change: impl Fn(&mut GroupRule)) {
    bed.inspector().set_group_rule(&bed.queue, of, change).await.expect("the rule is set");
}

pub(super) async fn group_rule(bed: &Bed, group: &str, change: impl Fn(&mut GroupRule)) {
    rule(bed, &RuleOf::Group(name(group)), change).await;
}

pub(super) async fn cap(bed: &Bed, group: &str, cap: u32) {
    group_rule(bed, group, |rule| rule.cap = Some(cap)).await;
}

pub(super) async fn order(bed: &Bed, group: &str, order: GroupOrder) {
    group_rule(bed, group, |rule| rule.order = Some(order)).await;
}

pub(super) async fn group(bed: &Bed, group: &str) -> StoredGroup {
    bed.inspector().group(&bed.queue, &name(group)).await.expect("a group can be looked at")
}

/// The number of ready and of running jobs of a group.
pub(super) async fn depth(bed: &Bed, of: &str) -> (u64, u64) {
    let group = group(bed, of).await;
    (group.ready, group.active)
}

/// The groups of deliveries, as one text.
pub(super) fn groups(deliveries: &[Delivery]) -> String {
    let group = |delivery: &Delivery| {
        let body = queue_core::__private::Envelope::decode(&delivery.envelope).expect("it is an envelope");
        String::from_utf8_lossy(body.payload).replace(|c: char| c.is_whitespace(), "")
    };
    deliveries.iter().map(|delivery| Some(group(delivery)).filter(|group| !group.is_empty()).unwrap_or_else(|| "-".to_owned())).collect()
}

/// Claims jobs one by one, and leaves them running.
pub(super) async fn one_by_one(lane: &mut Lane, jobs: usize) -> Vec<Delivery> {
    let mut claimed = Vec::new();
    for _ in 0..jobs {
        claimed.extend(lane.claim(1).await);
    }
    claimed
}

/// Checks that slots, lines and the rotation agree with the jobs.
pub(super) async fn sound(bed: &Bed) {
    let damages = bed.broker.audit(&bed.queue, Audit { repair: false, thorough: true }).await.expect("a queue can be audited");
    assert_eq!(damages, []);
}

/// Groups are served in rotation, however many jobs each has. The jobs of one group are served in
/// their order.
pub async fn groups_are_served_in_turn(bed: Bed) {
    let many = put(&bed, "a", 5).await;
    put(&bed, "b", 2).await;
    put(&bed, "c", 1).await;
    let mut lane = bed.lane().await;
    let claimed = one_by_one(&mut lane, 8).await;
    assert_eq!(groups(&claimed), "abcabaaa");
    let order: Vec<&JobId> = claimed.iter().map(|delivery| &delivery.id).filter(|id| many.contains(id)).collect();
    assert_eq!(order, many.iter().collect::<Vec<_>>());
    sound(&bed).await;
    lane.ack(&claimed).await;
    assert_eq!((depth(&bed, "a").await, bed.stats().await.jobs()), ((0, 0), 0));
    sound(&bed).await;
}

/// One claim of many jobs is as fair as many claims of one.
pub async fn one_claim_takes_from_groups_in_turn(bed: Bed) {
    for of in ["b", "a", "cc"] {
        put(&bed, of, 3).await;
    }
    let mut lane = bed.lane().await;
    assert_eq!(groups(&lane.claim(5).await), "abccab");
    assert_eq!(groups(&lane.claim(10).await), "ccabcc");
    assert!(lane.claim(1).await.is_empty());
}

/// A group with weight 3 is served three times as often.
pub async fn a_group_is_served_by_its_weight(bed: Bed) {
    put(&bed, "a", 9).await;
    put(&bed, "b", 9).await;
    group_rule(&bed, "b", |rule| rule.weight = Some(3)).await;
    let mut lane = bed.lane().await;
    let claimed = groups(&one_by_one(&mut lane, 12).await);
    assert_eq!(claimed.matches('b').count(), 9, "{claimed}");
    assert_eq!(claimed[..8].matches('b').count(), 6, "{claimed}");
}

/// An idle group does not accumulate credit, and a group that immediately enqueues its next job
/// gains nothing.
pub async fn a_group_that_comes_back_at_once_gains_nothing(bed: Bed) {
    put(&bed, "a", 10).await;
    put(&bed, "b", 1).await;
    let mut lane = bed.lane().await;
    let mut claimed = String::new();
    for _ in 0..8 {
        let deliveries = lane.claim(1).await;
        if groups(&deliveries) == "b" {
            put(&bed, "b", 1).await;
        }
        claimed += &groups(&deliveries);
    }
    assert_eq!(claimed, "abababab");
}

/// A priority orders the jobs of a group. Between groups, the rotation decides.
pub async fn a_priority_orders_inside_its_group(bed: Bed) {
    put(&bed, "a", 2).await;
    put(&bed, "b", 2).await;
    let mut urgent = job("a");
    urgent.priority = Priority::Critical;
    let id = urgent.id.clone();
    assert_eq!(bed.put_job(urgent).await, Enqueued::Stored);
    let mut lane = bed.lane().await;
    let claimed = one_by_one(&mut lane, 5).await;
    assert_eq!((groups(&claimed).as_str(), &claimed[0].id), ("ababa", &id));
}

/// Jobs without a group count as one more group. Neither they nor the groups starve. By default,
/// their share is that of the waiting jobs.
pub async fn plain_jobs_have_their_share(bed: Bed) {
    for of in ["a", "b", "c"] {
        put(&bed, of, 4).await;
    }
    put(&bed, "", 12).await;
    let mut lane = bed.lane().await;
    let claimed = groups(&one_by_one(&mut lane, 24).await);
    let plain = claimed[..12].matches('-').count();
    assert!((5..=7).contains(&plain), "{claimed}");
    put(&bed, "", 6).await;
    put(&bed, "a", 6).await;
    rule(&bed, &RuleOf::Plain, |rule| rule.weight = Some(2)).await;
    let claimed = groups(&one_by_one(&mut lane, 9).await);
    assert!((5..=6).contains(&claimed.matches('-').count()), "{claimed}");
    // The same in one claim.
    rule(&bed, &RuleOf::Plain, |rule| rule.weight = Some(1)).await;
    lane.claim(20).await;
    put(&bed, "", 6).await;
    put(&bed, "a", 6).await;
    let claimed = groups(&lane.claim(6).await);
    assert!((2..=4).contains(&claimed.matches('-').count()), "{claimed}");
    sound(&bed).await;
}

/// A full group blocks neither jobs without a group nor other groups.
pub async fn a_full_group_holds_up_no_other(bed: Bed) {
    cap(&bed, "a", 1).await;
    put(&bed, "a", 5).await;
    put(&bed, "b", 2).await;
    put(&bed, "", 1).await;
    let mut lane = bed.lane().await;
    let claimed = lane.claim(10).await;
    let mut order: Vec<char> = groups(&claimed).chars().collect();
    order.sort_unstable();
    assert_eq!(order, ['-', 'a', 'b', 'b']);
    assert_eq!(depth(&bed, "a").await, (4, 1));
    let turn = lane.next().claim(5);
    let answer = lane.send(&turn).await;
    assert!(answer.deliveries.is_empty() && !answer.more, "nothing else may start");
    let running = claimed.iter().find(|delivery| groups(std::slice::from_ref(delivery)) == "a").expect("one of `a` runs");
    let turn = lane.next().finish(vec![finish(running, ack())]).claim(5);
    assert_eq!(groups(&lane.send(&turn).await.deliveries), "a", "its slot is free in the same turn");
    sound(&bed).await;
}

/// Every end of a run releases the slot. The slot belongs to the active job, so it cannot leak.
pub async fn a_slot_is_given_back_whatever_way_a_run_ends(bed: Bed) {
    cap(&bed, "a", 1).await;
    let endings = [
        ack(),
        Ending::Ack { result: Some(b"r".to_vec()), keep: Some(LONG) },
        nack(LONG),
        Ending::Snooze { delay: LONG },
        Ending::Repeat { delay: LONG },
        Ending::Bury { reason: BuryReason::Failed, error: None },
        Ending::Cancel { reason: "no".to_owned() },
        Ending::Expire,
        Ending::Park { task: "t".to_owned() },
        Ending::Unreadable { task: "t".to_owned(), release: "1".to_owned(), error: "e".to_owned(), within: LONG },
    ];
    put(&bed, "a", endings.len() + 3).await;
    let mut lane = bed.lane().await;
    for ending in endings {
        let delivery = lane.claim_one().await;
        assert!(lane.claim(1).await.is_empty(), "{ending:?}: the cap is 1");
        assert!(lane.end(&delivery, ending.clone()).await);
        assert_eq!(depth(&bed, "a").await.1, 0, "{ending:?}");
        sound(&bed).await;
    }
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Return).await);
    assert_eq!(lane.claim_one().await.id, delivery.id, "a returned job comes back to the head");
    bed.broker.cancel(&bed.queue, std::slice::from_ref(&delivery.id)).await.expect("it can be cancelled");
    assert_eq!(depth(&bed, "a").await, (2, 0));
    let mut dying = bed.dying_lane().await;
    let lost = dying.claim_one().await;
    bed.reclaim(&[&dying], RULE).await;
    assert_eq!(depth(&bed, "a").await.1, 0, "a dead worker holds no slot");
    let suspect = eventually("the suspect comes back", async || {
        let mut turn = lane.next().claim(2);
        turn.suspect = true;
        lane.send(&turn).await.deliveries.pop()
    })
    .await;
    assert_eq!(depth(&bed, "a").await.1, 1, "{} or {}", suspect.id, lost.id);
    sound(&bed).await;
}

/// A job that comes back (retry, snooze, return, promotion, requeue) is in its group again.
pub async fn a_job_comes_back_to_its_group(bed: Bed) {
    let ids = put(&bed, "a", 1).await;
    let mut lane = bed.lane().await;
    for ending in [nack(Duration::ZERO), Ending::Snooze { delay: Duration::ZERO }, Ending::Repeat { delay: Duration::ZERO }, Ending::Return]
    {
        let delivery = lane.wait_for_one().await;
        assert_eq!(bed.show(&delivery.id).await.and_then(|job| job.group), Some(name("a")));
        assert!(lane.end(&delivery, ending).await);
    }
    let delivery = lane.wait_for_one().await;
    assert!(lane.end(&delivery, nack(LONG)).await);
    assert_eq!(bed.broker.promote(&bed.queue, &ids).await.expect("it can be promoted"), [true]);
    assert_eq!(depth(&bed, "a").await, (1, 0));
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Failed, error: None }).await);
    for state in [JobState::Dead, JobState::Cancelled] {
        let record = bed.show(&ids[0]).await.expect("its record is kept");
        assert_eq!((record.state, record.group), (state, Some(name("a"))));
        assert_eq!(bed.broker.requeue(&bed.queue, &ids).await.expect("it can be requeued").len(), 1);
        assert_eq!(depth(&bed, "a").await, (1, 0));
        bed.broker.cancel(&bed.queue, &ids).await.expect("it can be cancelled");
        assert_eq!(depth(&bed, "a").await, (0, 0), "a cancelled job leaves its line");
    }
    assert_eq!(bed.ids(JobState::Ready).await, []);
    sound(&bed).await;
}

/// A cancelled or deleted job in the middle of its group is removed from it, and the others keep
/// their order.
pub async fn a_cancelled_job_leaves_the_line_of_its_group(bed: Bed) {
    let ids = put(&bed, "a", 5).await;
    bed.broker.cancel(&bed.queue, &ids[1..2]).await.expect("it can be cancelled");
    bed.broker.delete(&bed.queue, &ids[3..4]).await.expect("it can be deleted");
    assert_eq!((bed.depth(JobState::Ready).await, depth(&bed, "a").await), (3, (3, 0)));
    assert_eq!(bed.ids(JobState::Ready).await, [ids[0].clone(), ids[2].clone(), ids[4].clone()]);
    let mut lane = bed.lane().await;
    let order: Vec<JobId> = lane.claim(9).await.into_iter().map(|delivery| delivery.id).collect();
    assert_eq!(order, [ids[0].clone(), ids[2].clone(), ids[4].clone()]);
    sound(&bed).await;
}

/// A paused group waits, and other groups do not. The next claim after its resume serves it.
pub async fn a_paused_group_waits(bed: Bed) {
    put(&bed, "a", 2).await;
    put(&bed, "b", 1).await;
    let a = name("a");
    bed.inspector().pause_group(&bed.queue, &a).await.expect("it can be paused");
    put(&bed, "a", 1).await;
    let mut lane = bed.lane().await;
    assert_eq!(groups(&lane.claim(5).await), "b");
    assert_eq!((depth(&bed, "a").await, group(&bed, "a").await.rule.paused), ((3, 0), true));
    sound(&bed).await;
    bed.inspector().resume_group(&bed.queue, &a).await.expect("it can be resumed");
    assert_eq!(groups(&lane.claim(5).await), "aaa");
    assert!(group(&bed, "a").await.rule.is_empty());
    sound(&bed).await;
}

/// A changed cap applies from the next claim on, and stops no running job. The removal of a rule
/// removes no job.
pub async fn a_changed_cap_holds_from_the_next_claim_on(bed: Bed) {
    put(&bed, "a", 8).await;
    cap(&bed, "a", 3).await;
    let mut lane = bed.lane().await;
    let running = lane.claim(9).await;
    assert_eq!(running.len(), 3);
    cap(&bed, "a", 1).await;
    lane.ack(&running[..2]).await;
    assert!(lane.claim(9).await.is_empty(), "one still runs");
    cap(&bed, "a", 2).await;
    assert_eq!(lane.claim(9).await.len(), 1);
    cap(&bed, "a", 0).await;
    assert!(lane.claim(9).await.is_empty());
    sound(&bed).await;
    group_rule(&bed, "a", |rule| *rule = GroupRule::new()).await;
    assert_eq!(lane.claim(9).await.len(), 4);
    sound(&bed).await;
}

/// The rule of all groups applies where the rule of a group has no value.
pub async fn the_rule_of_all_groups_holds_for_each(bed: Bed) {
    rule(&bed, &RuleOf::Others, |rule| rule.cap = Some(1)).await;
    cap(&bed, "b", 2).await;
    for of in ["a", "b", "c"] {
        put(&bed, of, 3).await;
    }
    let mut lane = bed.lane().await;
    let mut claimed: Vec<char> = groups(&lane.claim(20).await).chars().collect();
    claimed.sort_unstable();
    assert_eq!(claimed, ['a', 'b', 'b', 'c']);
    rule(&bed, &RuleOf::Others, |rule| rule.cap = Some(2)).await;
    let mut claimed: Vec<char> = groups(&lane.claim(20).await).chars().collect();
    claimed.sort_unstable();
    assert_eq!(claimed, ['a', 'c'], "the groups that were full are served at the next claim");
    sound(&bed).await;
}

/// A group at its maximum size refuses further jobs: the enqueue is answered, and stores nothing.
pub async fn a_group_that_is_full_of_waiting_jobs_refuses_more(bed: Bed) {
    group_rule(&bed, "a", |rule| rule.max_size = Some(2)).await;
    let mut producer = bed.producer().await;
    let answers = producer.send(vec![job("a"), job("b"), job("a"), job("a"), job("")]).await;
    assert_eq!(answers, [Enqueued::Stored, Enqueued::Stored, Enqueued::Stored, Enqueued::GroupFull, Enqueued::Stored]);
    let mut given = super::bed::given("g", "a");
    given.group = Some(name("a"));
    let mut later = job("a");
    later.due = queue_core::broker::Due::After(LONG);
    let id = later.id.clone();
    assert_eq!(producer.send(vec![given.clone(), later]).await, [Enqueued::GroupFull, Enqueued::GroupFull]);
    assert_eq!((bed.show(&given.id).await.is_none(), bed.show(&id).await.is_none()), (true, true));
    assert_eq!(bed.stats().await.jobs(), 4);
    let mut lane = bed.lane().await;
    lane.claim(9).await;
    assert_eq!(producer.send(vec![given]).await, [Enqueued::Stored], "there is room again");
    sound(&bed).await;
}

/// Rules are compared when they are set. An invalid rule is refused.
pub async fn a_rule_that_was_changed_meanwhile_is_stale(bed: Bed) {
    let of = RuleOf::Group(name("a"));
    let (none, mut one, mut two) = (GroupRule::new(), GroupRule::new(), GroupRule::new());
    (one.weight, two.weight) = (Some(1), Some(2));
    let set = async |expected, rule| bed.broker.set_group(&SetGroup::new(bed.queue.clone(), of.clone(), expected, rule)).await;
    assert_eq!(set(none, one).await.unwrap(), GroupSet::Set);
    assert_eq!(set(none, two).await.unwrap(), GroupSet::Stale);
    assert_eq!(set(none, one).await.unwrap(), GroupSet::Set, "it finds what it wanted");
    assert_eq!(set(one, two).await.unwrap(), GroupSet::Set);
    let mut wrong = none;
    wrong.weight = Some(0);
    let refused = set(two, wrong).await.unwrap_err().to_string();
    assert!(refused.starts_with("weight `0` is not between 1 and 1000"), "{refused}");
    assert_eq!(group(&bed, "a").await.rule, two);
    assert_eq!(set(two, none).await.unwrap(), GroupSet::Set);
    assert!(group(&bed, "a").await.rule.is_empty());
}

/// Groups with jobs or rules are listed by page, in the order of their names.
pub async fn groups_are_listed_by_page(bed: Bed) {
    for of in ["b", "a", "cc", "d"] {
        put(&bed, of, 1).await;
    }
    cap(&bed, "e", 2).await;
    rule(&bed, &RuleOf::Others, |rule| rule.weight = Some(4)).await;
    let mut lane = bed.lane().await;
    lane.claim(1).await;
    let page = async |after: Option<&str>, limit| -> GroupPage {
        bed.broker.groups(&bed.queue, &GroupList::All { after: after.map(name), limit }).await.expect("groups can be listed")
    };
    let names = |page: &GroupPage| page.groups.iter().map(|group| group.name.to_string()).collect::<Vec<_>>();
    let first = page(None, 3).await;
    assert_eq!((names(&first), first.next, first.others.weight), (vec!["a".into(), "b".into(), "d".into()], Some(name("d")), Some(4)));
    assert_eq!(first.groups.iter().map(|group| (group.ready, group.active)).collect::<Vec<_>>(), [(0, 1), (1, 0), (1, 0)]);
    let second = page(Some("d"), 3).await;
    assert_eq!((names(&second), second.next, second.groups[0].rule.cap), (vec!["e".to_owned(), "cc".to_owned()], None, Some(2)));
    assert_eq!(names(&page(None, 500).await).len(), 5);
    assert_eq!(group(&bed, "nobody").await, StoredGroup::new(name("nobody")));
}

/// Jobs with limits and without a group are not listed as a group, and do not end a page.
pub async fn jobs_with_limits_and_without_a_group_are_on_no_page(bed: Bed) {
    let of = [super::limits::key("one", "")];
    for group in ["a", "b", "c", "dd"] {
        put(&bed, group, 1).await;
    }
    super::limits::put(&bed, "", &of, 2).await;
    let pages = async |limit| {
        let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = bed.inspector().groups(&bed.queue, after, limit).await.expect("groups can be listed");
            found.extend(page.groups.iter().map(|group| group.name.to_string()));
            (after, pages) = (page.next, pages + 1);
            if after.is_none() {
                return (found.concat(), pages);
            }
        }
    };
    for (limit, n) in [(1, 4), (3, 2), (4, 1), (500, 1)] {
        assert_eq!(pages(limit).await, ("abcdd".to_owned(), n), "{limit} on a page");
    }
    // One of them runs, and a group also has limits.
    let mut lane = bed.lane().await;
    assert_eq!(super::limits::claim_all(&mut lane, 9).await.len(), 6);
    super::limits::put(&bed, "a", &of, 1).await;
    super::limits::put(&bed, "", &of, 1).await;
    for limit in [1, 3] {
        assert_eq!(pages(limit).await.0, "abcdd", "{limit} on a page");
    }
}

/// Groups whose next job arrives after the start of the last one get their shares as well, even
/// with large weights.
pub async fn a_large_weight_counts_for_a_group_that_comes_back(bed: Bed) {
    for (group, weight) in [("a", 1000), ("b", 100)] {
        group_rule(&bed, group, |rule| rule.weight = Some(weight)).await;
        put(&bed, group, 1).await;
    }
    let mut lane = bed.lane().await;
    let mut served = String::new();
    for _ in 0..22 {
        let group = groups(&lane.claim(1).await);
        put(&bed, &group, 1).await;
        served += &group;
    }
    assert_eq!(served.matches('a').count(), 20, "ten times the share of the other: {served}");
    sound(&bed).await;
}

/// The start of a group is removed only if no job waits. Jobs of a full group do wait.
pub async fn a_sweep_forgets_no_start_while_a_full_group_waits(bed: Bed) {
    rule(&bed, &RuleOf::Others, |rule| rule.cap = Some(1)).await;
    put(&bed, "a", 2).await;
    put(&bed, "b", 1).await;
    let mut lane = bed.lane().await;
    let running = lane.claim(2).await;
    assert_eq!(groups(&running), "ab");
    bed.broker.sweep(&bed.queue, &SweepLimits::default()).await.expect("a queue can be swept");
    put(&bed, "b", 1).await;
    lane.ack(&running).await;
    assert_eq!(groups(&one_by_one(&mut lane, 2).await), "ab", "each has had one turn, and equal starts go by name");
    sound(&bed).await;
}

/// If no job waits, the start of a group is removed even if a running job blocks its line.
pub async fn a_sweep_forgets_the_start_of_a_group_whose_line_is_blocked(bed: Bed) {
    order(&bed, "a", GroupOrder::Ordered).await;
    put(&bed, "a", 1).await;
    let mut lane = bed.lane().await;
    let running = lane.claim(1).await;
    bed.broker.sweep(&bed.queue, &SweepLimits::default()).await.expect("a queue can be swept");
    put(&bed, "b", 1).await;
    lane.ack(&running).await;
    put(&bed, "a", 1).await;
    assert_eq!(groups(&one_by_one(&mut lane, 2).await), "ab", "no group is ahead of another");
    sound(&bed).await;
}

/// A cancelled job does not wait: if no other is ready, all starts are removed.
pub async fn a_sweep_forgets_all_starts_when_the_last_ready_job_was_cancelled(bed: Bed) {
    put(&bed, "a", 1).await;
    let mut lane = bed.lane().await;
    let running = lane.claim(1).await;
    lane.ack(&running).await;
    let ids = put(&bed, "", 1).await;
    assert!(bed.broker.change(&bed.queue, Change::Cancel, None, &ids).await.expect("it can be cancelled")[0].done());
    bed.broker.sweep(&bed.queue, &SweepLimits::default()).await.expect("a queue can be swept");
    put(&bed, "b", 1).await;
    put(&bed, "a", 1).await;
    assert_eq!(groups(&one_by_one(&mut lane, 2).await), "ab", "no group is ahead of another");
    sound(&bed).await;
}
