//! Edits of waiting jobs.

use std::time::Duration;

use queue_core::{
    Error, JobAddress, JobId,
    broker::{
        BuryReason, Change, EditJob, EditedJob, Ending, Enqueued, GroupList, Hold, JobLimits, JobState, NewJob, Priority, SeenJob,
        StoredJob, Unique, UniqueKey,
    },
    inspect::{Aging, Edit, GroupOrder, LimitKey},
};

use super::{
    bed::{Bed, LONG, Lane, envelope, eventually, given, nack},
    groups::{self, cap, depth, group_rule, name, order, sound},
    limits::{concurrency, key as limit_key, limited},
    unique::{self, BUFFER, SKIP, held_for, is_held_by, key},
};
use crate::Changes as _;

fn other_key() -> UniqueKey {
    UniqueKey::of("suite.task", b"other")
}

/// An edit with the present values of a job, without a change.
async fn of(bed: &Bed, id: &JobId) -> EditJob {
    let job = bed.show(id).await.expect("the job is there");
    edit_of(bed, job)
}

fn edit_of(bed: &Bed, job: StoredJob) -> EditJob {
    let seen = SeenJob::new(job.envelope, job.priority, job.group, job.at_ms);
    let mut edit = EditJob::new(&*bed.queue, job.id, seen);
    edit.limits = JobLimits::new(job.limits, 1).map(Box::new);
    edit
}

async fn send(bed: &Bed, edit: &EditJob) -> EditedJob {
    bed.broker.edit(edit).await.expect("an edit is answered")
}

/// Edits a job with its present version, which must succeed.
async fn edit(bed: &Bed, id: &JobId, change: impl FnOnce(&mut EditJob)) {
    let mut edit = of(bed, id).await;
    change(&mut edit);
    assert_eq!(send(bed, &edit).await, EditedJob::Yes);
}

fn payload(text: &str) -> impl FnOnce(&mut EditJob) {
    let envelope = envelope(text);
    move |edit: &mut EditJob| (edit.envelope, edit.is_new_payload) = (envelope, true)
}

async fn ids(lane: &mut Lane, jobs: usize) -> Vec<JobId> {
    groups::one_by_one(lane, jobs).await.into_iter().map(|delivery| delivery.id).collect()
}

/// Parameters, time, priority and group change at once. The other properties stay.
pub async fn an_edit_changes_a_job_that_waits(bed: Bed) {
    let id = bed.put_later(LONG).await;
    let before = bed.show(&id).await.unwrap();
    let at = before.at_ms.unwrap() + 1000;
    edit(&bed, &id, |edit| {
        payload("new")(edit);
        (edit.priority, edit.group, edit.at_ms) = (Priority::High, Some(name("a")), Some(at));
    })
    .await;
    let after = bed.show(&id).await.unwrap();
    assert_eq!((after.state, after.at_ms, after.priority), (JobState::Scheduled, Some(at), Priority::High));
    assert_eq!((after.envelope, after.group), (envelope("new"), Some(name("a"))));
    edit(&bed, &id, |edit| edit.at_ms = Some(0)).await;
    let mut lane = bed.lane().await;
    assert_eq!((bed.state(&id).await, depth(&bed, "a").await), (Some(JobState::Ready), (1, 0)));
    let delivery = lane.claim_one().await;
    assert_eq!((&delivery.id, &delivery.envelope), (&id, &envelope("new")));
    sound(&bed).await;
    lane.ack(&[delivery]).await;
    sound(&bed).await;
}

/// An edit that is sent again succeeds, even if the time of the job has changed since.
pub async fn an_edit_that_is_sent_again_changes_nothing(bed: Bed) {
    let id = bed.put_later(LONG).await;
    let mut wanted = of(&bed, &id).await;
    payload("new")(&mut wanted);
    (wanted.priority, wanted.at_ms) = (Priority::Low, Some(0));
    assert_eq!(send(&bed, &wanted).await, EditedJob::Yes);
    let before = bed.show(&id).await.unwrap();
    for _ in 0..2 {
        assert_eq!(send(&bed, &wanted).await, EditedJob::AsWanted);
    }
    let after = bed.show(&id).await.unwrap();
    assert_eq!((before.envelope, before.at_ms), (after.envelope, after.at_ms));
    assert_eq!(bed.ids(JobState::Ready).await, [id]);
}

/// Two operators do not overwrite each other. A job that has become due has the same version.
pub async fn an_edit_of_a_job_that_was_changed_meanwhile_changes_nothing(bed: Bed) {
    let id = bed.put_later(LONG).await;
    let mut late = of(&bed, &id).await;
    late.priority = Priority::Critical;
    let changes: [fn(&mut EditJob); 4] = [
        |edit| (edit.envelope, edit.is_new_payload) = (envelope("other"), true),
        |edit| edit.priority = Priority::Low,
        |edit| edit.group = Some(name("a")),
        |edit| edit.at_ms = edit.seen.at_ms.map(|at| at + 1),
    ];
    for change in changes {
        let before = of(&bed, &id).await;
        edit(&bed, &id, change).await;
        assert_eq!(send(&bed, &late).await, EditedJob::Differs);
        assert_ne!(bed.show(&id).await.unwrap().priority, Priority::Critical);
        // And back again.
        edit(&bed, &id, |edit| {
            (edit.envelope, edit.priority, edit.group) = (before.envelope.clone(), before.priority, before.group.clone());
            edit.at_ms = before.seen.at_ms;
        })
        .await;
    }
    assert_eq!(bed.broker.promote(&bed.queue, std::slice::from_ref(&id)).await.unwrap(), [true]);
    assert_eq!(send(&bed, &late).await, EditedJob::Differs, "it was promoted before its time");

    let soon = bed.put_later(Duration::from_millis(20)).await;
    let mut seen = of(&bed, &soon).await;
    seen.priority = Priority::High;
    let mut lane = bed.lane().await;
    eventually("it is due", async || {
        lane.claim(0).await;
        (bed.state(&soon).await == Some(JobState::Ready)).then_some(())
    })
    .await;
    assert_eq!(send(&bed, &seen).await, EditedJob::Yes);
}

/// A running or ended job is refused with its state, and a missing one as missing.
pub async fn a_job_that_does_not_wait_is_not_edited(bed: Bed) {
    let mut lane = bed.lane().await;
    let endings = [
        (JobState::Done, Ending::Ack { result: None, keep: Some(LONG) }),
        (JobState::Dead, Ending::Bury { reason: BuryReason::Failed, error: None }),
        (JobState::Cancelled, Ending::Cancel { reason: "no".to_owned() }),
        (JobState::Expired, Ending::Expire),
    ];
    for (state, ending) in endings {
        let id = bed.put(1).await.remove(0);
        let delivery = lane.claim_one().await;
        let mut wanted = of(&bed, &id).await;
        wanted.priority = Priority::High;
        assert_eq!(send(&bed, &wanted).await, EditedJob::Closed(JobState::Active));
        assert!(lane.end(&delivery, ending).await);
        let mut wanted = of(&bed, &id).await;
        payload("new")(&mut wanted);
        assert_eq!(send(&bed, &wanted).await, EditedJob::Closed(state));
        assert_eq!(bed.show(&id).await.unwrap().envelope, envelope("0"), "{state}");
    }
    let id = bed.put(1).await.remove(0);
    let wanted = of(&bed, &id).await;
    bed.broker.delete(&bed.queue, &[id]).await.unwrap();
    assert_eq!(send(&bed, &wanted).await, EditedJob::Missing);
    let elsewhere = bed.in_queue("suite-nobody");
    let wanted = EditJob::new("suite-nobody", wanted.id, wanted.seen);
    assert_eq!(send(&elsewhere, &wanted).await, EditedJob::Missing);
}

/// With other parameters, a ready job keeps its position. With another priority, it becomes the
/// last job of that priority.
pub async fn an_edit_keeps_the_place_in_the_line_if_it_can(bed: Bed) {
    let jobs = bed.put(3).await;
    let high = bed.put_at(Priority::High).await;
    edit(&bed, &jobs[0], payload("new")).await;
    edit(&bed, &jobs[1], |edit| edit.priority = Priority::High).await;
    let mut lane = bed.lane().await;
    assert_eq!(ids(&mut lane, 4).await, [high, jobs[1].clone(), jobs[0].clone(), jobs[2].clone()]);
    let grouped = groups::put(&bed, "a", 2).await;
    edit(&bed, &grouped[0], payload("new")).await;
    assert_eq!(ids(&mut lane, 2).await, grouped);
    sound(&bed).await;
}

/// A ready job with a later start time is no longer ready, and is not claimed before that time.
pub async fn a_ready_job_is_put_off(bed: Bed) {
    let jobs = bed.put(2).await;
    let later = bed.put_later(LONG).await;
    let at = bed.show(&later).await.unwrap().at_ms;
    edit(&bed, &jobs[0], |edit| edit.at_ms = at).await;
    let mut lane = bed.lane().await;
    let turn = lane.next().claim(5);
    let answer = lane.send(&turn).await;
    assert_eq!(answer.deliveries.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [&jobs[1]]);
    assert_eq!((bed.state(&jobs[0]).await, answer.next_due.is_some()), (Some(JobState::Scheduled), true));
    edit(&bed, &jobs[0], |edit| edit.at_ms = Some(0)).await;
    assert_eq!(lane.claim_one().await.id, jobs[0]);
    sound(&bed).await;
}

/// A job that waits for a retry keeps its failures. It also keeps its state when only its time
/// changes.
pub async fn a_retry_is_edited_and_keeps_its_failures(bed: Bed) {
    let mut lane = bed.lane().await;
    let id = bed.put(1).await.remove(0);
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, nack(LONG)).await);
    let at = bed.show(&id).await.unwrap().at_ms.unwrap();
    edit(&bed, &id, |edit| {
        payload("mended")(edit);
        edit.at_ms = Some(at + 5);
    })
    .await;
    let job = bed.show(&id).await.unwrap();
    assert_eq!((job.state, job.at_ms, job.attempts, job.failures.len()), (JobState::Retry, Some(at + 5), 1, 1));
    edit(&bed, &id, |edit| edit.at_ms = Some(0)).await;
    let delivery = lane.claim_one().await;
    assert_eq!((&delivery.id, delivery.attempts, &delivery.envelope), (&id, 1, &envelope("mended")));
    lane.ack(&[delivery]).await;
    sound(&bed).await;
}

/// A parked job with other parameters is ready. A parked job with another priority stays parked.
pub async fn a_parked_job_with_other_parameters_is_ready(bed: Bed) {
    let mut lane = bed.lane().await;
    let unreadable = Ending::Unreadable { task: "t".to_owned(), release: "v1".to_owned(), error: "x".to_owned(), within: LONG };
    for ending in [Ending::Park { task: "t".to_owned() }, unreadable] {
        let id = bed.put(1).await.remove(0);
        let delivery = lane.claim_one().await;
        assert!(lane.end(&delivery, ending).await);
        edit(&bed, &id, |edit| edit.priority = Priority::High).await;
        assert_eq!(bed.state(&id).await, Some(JobState::Parked));
        edit(&bed, &id, payload("readable")).await;
        let job = bed.show(&id).await.unwrap();
        assert_eq!((job.state, job.unreadable), (JobState::Ready, None));
        let delivery = lane.claim_one().await;
        assert_eq!((&delivery.id, &delivery.envelope), (&id, &envelope("readable")));
        // Releases that could not read the old parameters may be able to read the new ones.
        let again = Ending::Unreadable { task: "t".to_owned(), release: "v2".to_owned(), error: "x".to_owned(), within: LONG };
        assert!(lane.end(&delivery, again).await);
        assert_eq!(bed.show(&id).await.unwrap().unreadable.map(|unreadable| unreadable.releases), Some(vec!["v2".to_owned()]));
        bed.broker.delete(&bed.queue, std::slice::from_ref(&id)).await.unwrap();
        sound(&bed).await;
    }
}

/// The digest of a given id is that of the job after the edit. Its first enqueue is a different
/// job.
pub async fn an_edit_computes_the_digest_of_a_given_id_again(bed: Bed) {
    assert_eq!(bed.put_given("mine", "1").await, Enqueued::Stored);
    let (old, new) = (given("mine", "1"), given("mine", "2"));
    edit(&bed, &old.id, |edit| {
        payload("2")(edit);
        edit.digest = new.digest;
    })
    .await;
    assert_eq!((bed.put_job(new).await, bed.put_job(old).await), (Enqueued::Existing, Enqueued::IdConflict));
}

/// A job moves to another group, from any to any, and becomes the last job there.
pub async fn an_edit_moves_a_job_to_another_group(bed: Bed) {
    let (a, b) = (groups::put(&bed, "a", 2).await, groups::put(&bed, "b", 1).await);
    let plain = groups::put(&bed, "", 1).await;
    cap(&bed, "b", 1).await;
    edit(&bed, &a[0], |edit| edit.group = Some(name("b"))).await;
    edit(&bed, &a[1], |edit| edit.group = None).await;
    edit(&bed, &plain[0], |edit| edit.group = Some(name("c"))).await;
    assert_eq!((depth(&bed, "a").await, depth(&bed, "b").await, depth(&bed, "c").await), ((0, 0), (2, 0), (1, 0)));
    sound(&bed).await;
    let mut lane = bed.lane().await;
    let claimed = lane.claim(5).await;
    let mut started: Vec<&JobId> = claimed.iter().map(|delivery| &delivery.id).collect();
    started.sort();
    let mut expected = vec![&b[0], &a[1], &plain[0]];
    expected.sort();
    assert_eq!(started, expected, "the group b is at its cap");
    lane.ack(&claimed).await;
    assert_eq!(lane.claim_one().await.id, a[0]);
    sound(&bed).await;
}

/// A group does not get more jobs than its rule allows. The whole edit is then refused.
pub async fn a_group_that_is_full_takes_no_edited_job(bed: Bed) {
    groups::put(&bed, "a", 1).await;
    group_rule(&bed, "a", |rule| rule.max_size = Some(1)).await;
    let id = bed.put(1).await.remove(0);
    let mut wanted = of(&bed, &id).await;
    payload("new")(&mut wanted);
    wanted.group = Some(name("a"));
    assert_eq!(send(&bed, &wanted).await, EditedJob::GroupFull);
    let job = bed.show(&id).await.unwrap();
    assert_eq!((job.group, job.envelope), (None, envelope("0")));
    let inside = groups::put(&bed, "b", 1).await.remove(0);
    group_rule(&bed, "b", |rule| rule.max_size = Some(1)).await;
    edit(&bed, &inside, payload("new")).await;
    sound(&bed).await;
}

/// The head of an ordered group that waits for its retry blocks the group line while it stays in
/// the group, with any parameters and time. It frees the line when it leaves.
pub async fn the_head_of_an_ordered_group_blocks_the_group_line_until_it_leaves(bed: Bed) {
    order(&bed, "a", GroupOrder::Ordered).await;
    let jobs = groups::put(&bed, "a", 2).await;
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, nack(LONG)).await);
    let at = bed.show(&jobs[0]).await.unwrap().at_ms.map(|at| at + 7);
    edit(&bed, &jobs[0], |edit| {
        payload("mended")(edit);
        edit.at_ms = at;
    })
    .await;
    assert!(lane.claim(5).await.is_empty(), "it blocks the group line");
    sound(&bed).await;
    edit(&bed, &jobs[0], |edit| edit.group = Some(name("b"))).await;
    sound(&bed).await;
    assert_eq!(lane.claim_one().await.id, jobs[1]);
    edit(&bed, &jobs[0], |edit| edit.at_ms = Some(0)).await;
    assert_eq!(lane.claim_one().await.id, jobs[0]);
    sound(&bed).await;
}

/// A job releases its key and takes the new one. The job that waited for the old key follows.
pub async fn an_edit_changes_the_key(bed: Bed) {
    let mut lane = bed.lane().await;
    let id = unique::first(&bed, unique::job("1", BUFFER)).await;
    let delivery = lane.claim_one().await;
    let next = unique::job("2", BUFFER);
    let next_id = next.id.clone();
    assert_eq!(bed.put_job(next).await, Enqueued::Buffered(next_id.clone()));
    assert!(lane.end(&delivery, nack(LONG)).await);
    edit(&bed, &id, |edit| {
        payload("3")(edit);
        edit.unique = Some(other_key());
    })
    .await;
    is_held_by(&bed, &next_id, "the first one has another key").await;
    assert_eq!((bed.state(&next_id).await, bed.state(&id).await), (Some(JobState::Ready), Some(JobState::Retry)));
    assert_eq!(bed.broker.key_holder(&bed.queue, &other_key()).await.unwrap().map(|holder| holder.id), Some(id.clone()));
    assert_eq!(bed.show(&id).await.unwrap().unique, Some(other_key()));
    sound(&bed).await;
    // The new key is released as well.
    edit(&bed, &id, |edit| edit.at_ms = Some(0)).await;
    let claimed = lane.claim(5).await;
    lane.ack(&claimed).await;
    assert_eq!(bed.broker.key_holder(&bed.queue, &other_key()).await.unwrap(), None);
    sound(&bed).await;
}

/// A key that another job holds is not taken, and the whole edit is refused.
pub async fn an_edit_takes_no_key_from_another_job(bed: Bed) {
    let holder = unique::first(&bed, unique::job("holder", SKIP)).await;
    let mut other = unique::job("other", SKIP);
    other.unique = Some(Box::new(Unique::new(other_key())));
    let id = unique::first(&bed, other).await;
    let mut wanted = of(&bed, &id).await;
    payload("new")(&mut wanted);
    (wanted.priority, wanted.group, wanted.unique) = (Priority::High, Some(name("a")), Some(key()));
    assert_eq!(send(&bed, &wanted).await, EditedJob::Held(holder.clone()));
    let job = bed.show(&id).await.unwrap();
    assert_eq!((job.envelope, job.priority, job.group, job.unique), (envelope("other"), Priority::Normal, None, Some(other_key())));
    is_held_by(&bed, &holder, "as before").await;
    // Its own key is not a conflict. A job without a key gets none.
    edit(&bed, &id, |edit| (edit.priority, edit.unique) = (Priority::High, Some(other_key()))).await;
    let plain = bed.put(1).await.remove(0);
    edit(&bed, &plain, |edit| (edit.priority, edit.unique) = (Priority::High, Some(UniqueKey::of("t", b"third")))).await;
    assert_eq!(bed.show(&plain).await.unwrap().unique, None);
    sound(&bed).await;
}

/// A job that is held for a key is no longer held if it gets another key. Another time and other
/// parameters do not change that it is held.
pub async fn a_held_job_with_another_key_waits_no_longer(bed: Bed) {
    let mut lane = bed.lane().await;
    let (_, delivery) = unique::running(&bed, &mut lane, BUFFER).await;
    let held = unique::job("held", BUFFER);
    let id = held.id.clone();
    assert_eq!(bed.put_job(held).await, Enqueued::Buffered(id.clone()));
    let at = bed.show(&id).await.unwrap().at_ms.unwrap() + 3_600_000;
    edit(&bed, &id, |edit| {
        payload("later")(edit);
        edit.at_ms = Some(at);
    })
    .await;
    let job = bed.show(&id).await.unwrap();
    assert_eq!((job.state, job.at_ms, job.envelope), (JobState::Held, Some(at), envelope("later")));
    edit(&bed, &id, |edit| (edit.unique, edit.at_ms) = (Some(other_key()), Some(0))).await;
    assert_eq!(bed.state(&id).await, Some(JobState::Ready));
    assert_eq!(lane.claim_one().await.id, id);
    is_held_by(&bed, &delivery.id, "the first one goes on").await;
    sound(&bed).await;
}

/// A key that is held for a time moves with its job, until the same time.
pub async fn a_key_that_is_held_for_a_time_goes_along(bed: Bed) {
    let id = unique::first(&bed, held_for("1", SKIP, Hold::Within(LONG))).await;
    let until = unique::holder(&bed).await.unwrap().until_ms;
    edit(&bed, &id, |edit| edit.unique = Some(other_key())).await;
    assert_eq!(unique::holder(&bed).await, None);
    let holder = bed.broker.key_holder(&bed.queue, &other_key()).await.unwrap().unwrap();
    assert_eq!((holder.id, holder.until_ms), (id, until));
    sound(&bed).await;
}

/// A job is subject to its present limits. It waits for those, and no longer for the earlier ones.
pub async fn an_edit_changes_the_limits(bed: Bed) {
    concurrency(&bed, "stripe", 1).await;
    let (a, b) = (limit_key("stripe", "a"), limit_key("stripe", "b"));
    let jobs: Vec<NewJob> = (0..3).map(|_| limited("g", &[a])).collect();
    let names: Vec<JobId> = jobs.iter().map(|job| job.id.clone()).collect();
    bed.producer().await.stored(jobs).await;
    let mut lane = bed.lane().await;
    let first = super::limits::claim_all(&mut lane, 5).await;
    assert_eq!(first.len(), 1);
    let keys = |keys: &[LimitKey]| JobLimits::new(keys.to_vec(), 1).map(Box::new);
    edit(&bed, &names[1], |edit| edit.limits = keys(&[b])).await;
    edit(&bed, &names[2], |edit| (edit.limits, edit.group) = (None, None)).await;
    assert_eq!(bed.show(&names[1]).await.unwrap().limits, [b]);
    sound(&bed).await;
    let more = super::limits::claim_all(&mut lane, 5).await;
    assert_eq!(more.len(), 2, "neither waits for the key of the first");
    lane.ack(&more).await;
    let id = bed.put_later(LONG).await;
    edit(&bed, &id, |edit| (edit.limits, edit.at_ms) = (keys(&[a]), Some(0))).await;
    assert!(super::limits::claim_all(&mut lane, 5).await.is_empty(), "its limit is taken");
    lane.ack(&first).await;
    assert_eq!(super::limits::claim_all(&mut lane, 5).await.len(), 1);
    sound(&bed).await;
}

/// A job of a group with changed limits or priority leaves nothing at its old position. Its group
/// is no longer listed when the job has ended.
pub async fn an_edit_leaves_nothing_at_the_old_place(bed: Bed) {
    concurrency(&bed, "stripe", 1).await;
    let (a, b) = (limit_key("stripe", "a"), limit_key("stripe", "b"));
    let jobs: Vec<NewJob> = ["limits", "priority"].map(|group| limited(group, &[a])).into();
    let names: Vec<JobId> = jobs.iter().map(|job| job.id.clone()).collect();
    bed.producer().await.stored(jobs).await;
    edit(&bed, &names[0], |edit| edit.limits = JobLimits::new(vec![b], 1).map(Box::new)).await;
    edit(&bed, &names[1], |edit| edit.priority = Priority::Critical).await;
    sound(&bed).await;
    let mut lane = bed.lane().await;
    let claimed = super::limits::claim_all(&mut lane, 5).await;
    assert_eq!(claimed.len(), 2);
    lane.ack(&claimed).await;
    let listed = bed.broker.groups(&bed.queue, &GroupList::All { after: None, limit: 10 }).await.expect("groups can be listed");
    assert_eq!(listed.groups, []);
    sound(&bed).await;
}

/// A job that waits for a full key gets another key. The jobs behind it are no longer blocked.
pub async fn an_edit_of_the_limits_frees_those_behind(bed: Bed) {
    let rate = "1/1h".parse().expect("it is a rate");
    super::limits::set(&bed, "api", |rule| (rule.rate, rule.burst) = (Some(rate), Some(10))).await;
    let of = |key: &str, cost| {
        let mut job = limited("", &[]);
        job.limits = JobLimits::new(vec![limit_key("api", key)], cost).map(Box::new);
        job
    };
    let costly = of("a", 5);
    let id = costly.id.clone();
    bed.producer().await.stored(vec![of("a", 6), costly, of("a", 4)]).await;
    let mut lane = bed.lane().await;
    assert_eq!(super::limits::claim_all(&mut lane, 5).await.len(), 1);
    assert!(super::limits::claim_all(&mut lane, 5).await.is_empty(), "the costly one waits, and is not overtaken");
    edit(&bed, &id, |edit| edit.limits = JobLimits::new(vec![limit_key("api", "b")], 5).map(Box::new)).await;
    assert_eq!(super::limits::claim_all(&mut lane, 5).await.len(), 2);
    sound(&bed).await;
}

/// After an edit, a job that has risen is back at its own priority, and rises from there.
pub async fn an_edited_job_rises_again(bed: Bed) {
    bed.inspector().set_aging(&bed.queue, Aging::Every(LONG)).await.unwrap();
    let id = bed.put_at(Priority::Low).await;
    let rises = bed.show(&id).await.unwrap().rises_ms;
    edit(&bed, &id, payload("new")).await;
    assert_eq!(bed.show(&id).await.unwrap().rises_ms, rises, "it keeps its place");
    edit(&bed, &id, |edit| edit.priority = Priority::Critical).await;
    assert_eq!(bed.show(&id).await.unwrap().rises_ms, None, "it can rise no further");
    edit(&bed, &id, |edit| edit.priority = Priority::Normal).await;
    assert!(bed.show(&id).await.unwrap().rises_ms.is_some());
    let later = bed.put_later(LONG).await;
    let at = bed.show(&later).await.unwrap().at_ms;
    edit(&bed, &id, |edit| edit.at_ms = at).await;
    assert_eq!(bed.show(&id).await.unwrap().rises_ms, None, "it is not ready");
    sound(&bed).await;
}

/// If an edit and a claim happen at once, one wins: a worker gets either the old or the edited job.
pub async fn an_edit_and_a_claim_exclude_each_other(bed: Bed) {
    let mut lane = bed.lane().await;
    for n in 0..20 {
        let id = bed.put(1).await.remove(0);
        let mut wanted = of(&bed, &id).await;
        payload("new")(&mut wanted);
        // Every second edit postpones the job.
        wanted.at_ms = (n % 2 == 0).then_some(4_000_000_000_000);
        let (edited, claimed) = tokio::join!(bed.broker.edit(&wanted), lane.claim(1));
        let edited = edited.unwrap();
        match (&edited, claimed.first()) {
            (EditedJob::Yes, Some(delivery)) => assert_eq!((&delivery.envelope, n % 2), (&envelope("new"), 1)),
            (EditedJob::Yes, None) => {
                assert_eq!(bed.state(&id).await, Some(if n % 2 == 0 { JobState::Scheduled } else { JobState::Ready }))
            }
            (EditedJob::Closed(JobState::Active), Some(delivery)) => assert_eq!(delivery.envelope, envelope("0")),
            other => panic!("{other:?}"),
        }
        lane.ack(&claimed).await;
        bed.broker.change(&bed.queue, Change::Delete, None, &[id]).await.unwrap();
    }
    assert_eq!(bed.stats().await.jobs(), 0);
    sound(&bed).await;
}

/// The message for an operator: the change since, and the fix.
pub async fn an_inspector_reports_why_it_does_not_edit(bed: Bed) {
    let inspector = bed.inspector();
    let id = bed.put_later(LONG).await;
    let job = JobAddress { queue: bed.queue.clone(), id: id.clone() };
    let record = inspector.show(&job).await.unwrap();
    let seen = Edit::of(&record).unwrap();
    let edited = inspector.edit(&job, &seen.clone().priority(Priority::High).group("a").max_attempts(3)).await.unwrap();
    assert_eq!(edited.changes.iter().map(|change| change.field).collect::<Vec<_>>(), ["priority", "group", "max_attempts"]);
    let again = inspector.edit(&job, &seen.clone().priority(Priority::High)).await.unwrap();
    assert!(again.changes.is_empty(), "it is so already");
    let late = inspector.edit(&job, &seen.clone().priority(Priority::Low)).await.unwrap_err();
    let text = late.to_string();
    assert!(matches!(late, Error::EditConflict { .. }) && text.contains("its priority was normal and is high"), "{text}");
    assert!(text.contains("its group was none and is a") && text.contains("maximum of attempts was that of its task and is 3"), "{text}");

    let preview = inspector.preview_edit(&job, &Edit::new().now()).await.unwrap();
    assert_eq!(
        (preview.changes[0].field, preview.changes[0].after.as_str(), bed.state(&id).await),
        ("time", "now", Some(JobState::Scheduled))
    );
    inspector.edit(&job, &Edit::new().now().no_group().default_max_attempts()).await.unwrap();
    assert_eq!(bed.state(&id).await, Some(JobState::Ready));
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    let refused = inspector.edit(&job, &Edit::new().priority(Priority::Low)).await.unwrap_err().to_string();
    assert!(refused.contains("it is active; wait until"), "{refused}");
    assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Failed, error: None }).await);
    let refused = inspector.edit(&job, &Edit::new().priority(Priority::Low)).await.unwrap_err().to_string();
    assert!(refused.contains("it is dead; requeue it"), "{refused}");
    assert!(matches!(inspector.edit(&job, &Edit::new()).await, Err(Error::Invalid { .. })), "it changes nothing");
}
