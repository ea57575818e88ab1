//! Changes of a group by operators: a pause with a reason, a list of its next jobs, and the cancel
//! of its jobs in steps.

use std::time::Duration;

use queue_core::{
    JobAddress, JobId,
    broker::{Change, Due, GroupList, JobLimits, JobState, NewJob, Priority},
    inspect::{Cleared, GroupOrder, LimitKey},
};

use super::{
    bed::{Bed, LONG, Lane, nack},
    groups::{cap, depth, group, group_rule, groups, job, name, order, put, sound},
    history::enqueued,
    limits,
};

/// A pause may have a reason. It is shown until the pause ends, even if other parts of the rule
/// change.
pub async fn a_pause_reports_why_until_it_ends(bed: Bed) {
    let a = name("a");
    let inspector = bed.inspector();
    let why = async || group(&bed, "a").await.pause.and_then(|pause| pause.reason);
    inspector.clone().because("unpaid: since May").pause_group(&bed.queue, &a).await.unwrap();
    assert_eq!(why().await.as_deref(), Some("unpaid: since May"));
    group_rule(&bed, "a", |rule| rule.weight = Some(7)).await;
    assert_eq!((why().await.as_deref(), group(&bed, "a").await.rule.weight), (Some("unpaid: since May"), Some(7)));
    inspector.clone().because("p:\0:päy").pause_group(&bed.queue, &a).await.unwrap();
    assert_eq!(why().await.as_deref(), Some("p:\0:päy"), "it may be said anew");
    put(&bed, "a", 1).await;
    let mut lane = bed.lane().await;
    assert!(lane.claim(1).await.is_empty());
    inspector.clone().because("paid").resume_group(&bed.queue, &a).await.unwrap();
    assert_eq!((why().await, group(&bed, "a").await.rule.weight), (None, Some(7)));
    inspector.pause_group(&bed.queue, &a).await.unwrap();
    assert_eq!(why().await, None, "an earlier reason is forgotten");
    sound(&bed).await;
}

/// The first jobs of a line, in the order in which they will start; suspects last.
pub async fn the_line_of_a_group_is_read_in_order(bed: Bed) {
    let line = async |jobs| bed.broker.groups(&bed.queue, &GroupList::Line { group: name("a"), jobs }).await.unwrap().line;
    assert_eq!(line(5).await, []);
    let jobs: Vec<NewJob> = [Priority::Low, Priority::Normal, Priority::Critical, Priority::Normal]
        .map(|priority| {
            let mut job = job("a");
            job.priority = priority;
            job
        })
        .into();
    let ids = [2, 1, 3, 0].map(|at: usize| jobs[at].id.clone());
    bed.producer().await.stored(jobs).await;
    put(&bed, "b", 2).await;
    assert_eq!(line(500).await, ids);
    assert_eq!(line(3).await, ids[..3]);
    let mut lane = bed.lane().await;
    let claimed: Vec<JobId> =
        lane.claim(3).await.into_iter().filter(|job| groups(std::slice::from_ref(job)) == "a").map(|job| job.id).collect();
    let rest: Vec<JobId> = ids.into_iter().filter(|id| !claimed.contains(id)).collect();
    assert_eq!(line(500).await, rest);
}

const HOUR: Duration = Duration::from_secs(3600);

fn is_about(oldest: Option<Duration>, hours: u32) {
    let (oldest, age) = (oldest.expect("its age is known"), HOUR * hours);
    assert!(oldest + HOUR / 60 > age && oldest < age + HOUR / 60, "{oldest:?} instead of {age:?}");
}

/// A job of a group, or of none, that was enqueued `hours` hours ago.
fn old(group: &str, hours: u32) -> NewJob {
    let mut job = enqueued("send", HOUR * hours, Duration::ZERO);
    job.group = (!group.is_empty()).then(|| name(group));
    job
}

/// The same, subject to a limit.
fn old_limited(group: &str, hours: u32, key: LimitKey) -> NewJob {
    let mut job = old(group, hours);
    job.limits = JobLimits::new(vec![key], 1).map(Box::new);
    job
}

/// The waiting time of the oldest ready job of a group. Jobs that have failed before do not count.
pub async fn the_age_of_the_oldest_job_of_a_group_is_reported(bed: Bed) {
    let oldest = async |of| group(&bed, of).await.oldest;
    assert_eq!((oldest("a").await, bed.stats().await.oldest), (None, None));
    let mut urgent = old("b", 5);
    urgent.priority = Priority::Critical;
    bed.producer().await.stored(vec![old("a", 2), old("a", 1), old("b", 4), urgent, old("b", 3)]).await;
    is_about(oldest("a").await, 2);
    is_about(oldest("b").await, 5);
    is_about(bed.stats().await.oldest, 5);
    cap(&bed, "b", 0).await;
    is_about(bed.stats().await.oldest, 2);
    let mut lane = bed.lane().await;
    let taken = lane.claim_one().await;
    is_about(oldest("a").await, 1);
    assert!(lane.end(&taken, nack(LONG)).await);
    bed.broker.change(&bed.queue, Change::Promote, None, &[taken.id]).await.expect("jobs can be promoted");
    assert_eq!(depth(&bed, "a").await, (2, 0));
    is_about(oldest("a").await, 1);
}

/// Jobs with limits also count: for a group the first job of each kind, and without a group the
/// first job of the queue.
pub async fn the_age_of_the_oldest_job_with_limits_is_reported(bed: Bed) {
    let key = |value| limits::key("account", value);
    let oldest = async |of| group(&bed, of).await.oldest;
    bed.producer().await.stored(vec![old("z", 1)]).await;
    bed.producer().await.stored(vec![old_limited("", 1, key("x")), old_limited("", 3, key("y")), old_limited("", 2, key("z"))]).await;
    is_about(bed.stats().await.oldest, 3);
    let mut urgent = old_limited("a", 6, key("x"));
    urgent.priority = Priority::Critical;
    bed.producer().await.stored(vec![old("a", 4), old_limited("a", 5, key("x"))]).await;
    is_about(oldest("a").await, 5);
    is_about(bed.stats().await.oldest, 5);
    // Many jobs of one kind do not hide the other kinds.
    let many = (0..12)
        .flat_map(|_| ["x", "y", "z"].map(|value| old_limited("b", 1, key(value))))
        .chain([old("b", 1), old_limited("b", 7, key("w"))]);
    bed.producer().await.stored(many.collect()).await;
    is_about(oldest("b").await, 7);
    bed.producer().await.stored(vec![urgent]).await;
    is_about(oldest("a").await, 6);
    is_about(bed.stats().await.oldest, 7);
}

/// If all groups of a queue are paused, the age of its ready jobs is still reported.
pub async fn the_age_of_the_oldest_job_is_reported_while_all_groups_are_paused(bed: Bed) {
    bed.producer().await.stored(vec![old("a", 1), old("b", 3), old("cc", 2)]).await;
    for of in ["a", "b", "cc"] {
        group_rule(&bed, of, |rule| rule.paused = true).await;
    }
    is_about(bed.stats().await.oldest, 3);
    // With many waiting jobs, the age is that of one of them.
    let mut lane = bed.lane().await;
    let groups: Vec<String> = (0..30).map(|n| format!("g{n}")).collect();
    for of in &groups {
        cap(&bed, of, 0).await;
    }
    bed.producer().await.stored(groups.iter().map(|of| old(of, 1)).collect()).await;
    assert!(lane.claim(5).await.is_empty());
    let oldest = bed.stats().await.oldest.expect("that of some is known");
    assert!(oldest + HOUR / 60 > HOUR, "{oldest:?}");
}

/// This also holds for jobs that wait for a closed limit, with groups and without.
pub async fn the_age_of_the_oldest_job_is_reported_while_a_limit_is_closed(bed: Bed) {
    let of = limits::key("stripe", "");
    limits::concurrency(&bed, "stripe", 0).await;
    let mut lane = bed.lane().await;
    let plain = old_limited("", 2, of);
    let plain_at = JobAddress { queue: bed.queue.clone(), id: plain.id.clone() };
    bed.producer().await.stored(vec![plain]).await;
    assert!(limits::claim_all(&mut lane, 5).await.is_empty());
    is_about(bed.stats().await.oldest, 2);
    // A job without a group comes before groups that may not be served.
    bed.producer().await.stored(vec![old_limited("a", 3, of), old_limited("b", 4, of)]).await;
    assert!(limits::claim_all(&mut lane, 5).await.is_empty());
    is_about(bed.stats().await.oldest, 2);
    is_about(group(&bed, "a").await.oldest, 3);
    bed.inspector().change(Change::Cancel, &plain_at).await.expect("a waiting job can be cancelled");
    is_about(bed.stats().await.oldest, 4);
}

/// This also holds if the only group is ordered, and its line is held by a job that runs or waits
/// for its retry.
pub async fn the_age_of_the_oldest_job_is_reported_while_a_line_is_held(bed: Bed) {
    order(&bed, "a", GroupOrder::Ordered).await;
    bed.producer().await.stored(vec![old("a", 3), old("a", 2), old("a", 1)]).await;
    let mut lane = bed.lane().await;
    let holder = lane.claim_one().await;
    is_about(bed.stats().await.oldest, 2);
    assert!(lane.end(&holder, nack(LONG)).await);
    assert!(lane.claim(5).await.is_empty());
    is_about(bed.stats().await.oldest, 2);
}

/// Jobs of the group in every state, and a job of another group in each. Returns the running job of
/// each group.
async fn jobs_in_all_states(bed: &Bed, lane: &mut Lane) -> [JobId; 2] {
    let later = |of: &str| {
        let mut later = job(of);
        later.due = Due::After(LONG);
        later
    };
    let running = [put(bed, "a", 1).await.remove(0), put(bed, "b", 1).await.remove(0)];
    assert_eq!(lane.claim(5).await.len(), 2);
    // These wait for a retry.
    let [failed, other] = [put(bed, "a", 1).await.remove(0), put(bed, "b", 1).await.remove(0)];
    let claimed = lane.claim(5).await;
    assert!(claimed.iter().all(|job| job.id == failed || job.id == other) && claimed.len() == 2);
    for job in &claimed {
        assert!(lane.end(job, nack(LONG)).await);
    }
    bed.producer().await.stored((0..3).flat_map(|_| [later("a"), later("b")]).collect()).await;
    running
}

/// More jobs than one step can cancel. Another group and a running job are not affected.
pub async fn the_waiting_jobs_of_a_group_are_cancelled_in_steps(bed: Bed) {
    let mut lane = bed.lane().await;
    let [running, other] = jobs_in_all_states(&bed, &mut lane).await;
    for _ in 0..3 {
        put(&bed, "a", 400).await;
    }
    put(&bed, "b", 3).await;
    let mut clearing = bed.inspector().because("left").clear_group(&bed.queue, &name("a"), Cleared::Waiting);
    assert!(clearing.step().await.unwrap());
    assert_eq!((clearing.cancelled(), group(&bed, "a").await.ready), (500, 700), "a step is bounded");
    while clearing.step().await.unwrap() {}
    assert_eq!(clearing.cancelled(), 1_204);
    assert!(!clearing.step().await.unwrap(), "there is nothing more to do");
    assert_eq!((bed.state(&running).await, bed.state(&other).await), (Some(JobState::Active), Some(JobState::Active)));
    let stats = bed.stats().await;
    let counts = [JobState::Ready, JobState::Scheduled, JobState::Retry, JobState::Active].map(|state| stats.count(state));
    assert_eq!(counts, [3, 3, 1, 2], "the other group has all its jobs");
    assert_eq!((group(&bed, "a").await.ready, group(&bed, "b").await.ready), (0, 3));
    sound(&bed).await;
}

/// Running jobs are cancelled as well: their handlers are notified, and their slots are free.
pub async fn all_jobs_of_a_group_are_cancelled_in_steps(bed: Bed) {
    let mut lane = bed.lane().await;
    let [running, other] = jobs_in_all_states(&bed, &mut lane).await;
    for _ in 0..2 {
        put(&bed, "a", 300).await;
    }
    cap(&bed, "a", 1).await;
    let mut clearing = bed.inspector().because("left").clear_group(&bed.queue, &name("a"), Cleared::All);
    while clearing.step().await.unwrap() {}
    assert_eq!(clearing.cancelled(), 605);
    let shown = bed.show(&running).await.expect("its record is kept");
    assert_eq!((shown.state, shown.note.as_deref()), (JobState::Cancelled, Some("left")));
    assert_eq!((bed.state(&other).await, group(&bed, "a").await.active), (Some(JobState::Active), 0));
    put(&bed, "a", 1).await;
    assert_eq!(lane.claim(5).await.len(), 1, "who comes later is served");
    sound(&bed).await;
}
