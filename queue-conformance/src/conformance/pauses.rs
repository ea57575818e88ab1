//! Pauses with a reason and an end.

use std::time::{Duration, Instant, SystemTime};

use queue_core::{
    __private::Envelope,
    Error, JobId,
    broker::{Change, Ending, JobState, NewJob, PAUSED_TASKS, Pause, PauseOf, Pauses, Pausing, SetPause, SweepLimits, Turn, TurnAnswer},
    inspect::GroupRule,
};
use tokio::time::sleep;

use super::{
    bed::{Bed, LONG, Lane, nack},
    groups::{cap, depth, group, group_rule, name, put, sound},
};

/// A pause that is over before anybody is impatient.
const SHORT: Duration = Duration::from_millis(150);

async fn pause(bed: &Bed, of: PauseOf, pausing: Pausing) {
    bed.broker.set_pause(&SetPause::pause(bed.queue.clone(), of, pausing)).await.expect("it can be paused");
}

async fn pauses(bed: &Bed) -> Pauses {
    bed.broker.pauses(&bed.queue).await.expect("pauses can be read")
}

async fn of_queue(bed: &Bed) -> Option<Pause> {
    pauses(bed).await.pauses.into_iter().next().map(|stored| stored.pause)
}

fn a() -> PauseOf {
    PauseOf::Group(name("a"))
}

/// The first turn for which a pause has ended that was set for [`SHORT`]. The turn before says when
/// to come.
async fn goes_on(lane: &mut Lane, mut turn: impl FnMut(&mut Lane) -> Turn) -> (Turn, TurnAnswer) {
    let first = turn(lane);
    let answer = lane.send(&first).await;
    if !answer.resumed.is_empty() {
        return (first, answer);
    }
    let wait = answer.next_due.expect("the end is told");
    assert!(wait <= SHORT + Duration::from_millis(2), "{answer:?}");
    sleep(wait).await;
    let next = turn(lane);
    let answer = lane.send(&next).await;
    (next, answer)
}

/// Who paused a queue, when, why and until when is told while it lasts. A later pause says it anew,
/// and has begun with the first.
pub async fn a_queue_reports_who_paused_it_and_why(bed: Bed) {
    assert_eq!(of_queue(&bed).await, None);
    bed.put(1).await;
    pause(&bed, PauseOf::Queue, Pausing::new().because("the database moves: ä\0").by("ada").lasting(LONG)).await;
    let said = of_queue(&bed).await.expect("it is paused");
    assert_eq!((said.reason.as_deref(), said.by.as_deref()), (Some("the database moves: ä\0"), Some("ada")));
    let (since, until) = (said.since.expect("it is known"), said.until.expect("it ends"));
    let lasts = until.duration_since(since).expect("it ends later");
    assert!(lasts >= LONG && lasts < LONG + Duration::from_secs(5), "{lasts:?}");
    pause(&bed, PauseOf::Queue, Pausing::new().by("bob")).await;
    let later = of_queue(&bed).await.expect("it is paused");
    assert_eq!((later.since, later.until, later.reason, later.by.as_deref()), (Some(since), None, None, Some("bob")));
    assert!(bed.lane().await.claim(1).await.is_empty());
    bed.broker.set_pause(&SetPause::of_queue(bed.queue.clone(), false)).await.unwrap();
    assert_eq!(of_queue(&bed).await, None);
    bed.broker.set_pause(&SetPause::of_queue(bed.queue.clone(), false)).await.expect("what goes on may be told to");
    bed.broker.set_pause(&SetPause::of_queue(bed.queue.clone(), true)).await.unwrap();
    let anew = of_queue(&bed).await.expect("it is paused");
    assert!(anew.since >= Some(since) && anew.reason.is_none() && anew.by.is_none());
}

/// The turn after the end finds that, and takes jobs at once; what it says of the next time brings
/// idle lanes to it.
pub async fn a_queue_goes_on_by_itself_when_the_end_comes(bed: Bed) {
    let mut lane = bed.lane().await;
    bed.put(2).await;
    bed.put_later(LONG).await;
    pause(&bed, PauseOf::Queue, Pausing::new().lasting(LONG / 2)).await;
    let turn = lane.next().claim(10);
    let answer = lane.send(&turn).await;
    let wait = answer.next_due.expect("the end is told");
    assert!(answer.paused && answer.deliveries.is_empty() && answer.resumed.is_empty() && wait <= LONG / 2 + Duration::from_millis(2));
    pause(&bed, PauseOf::Queue, Pausing::new().lasting(SHORT)).await;
    let (turn, answer) = goes_on(&mut lane, |lane| lane.next().claim(10)).await;
    assert_eq!((answer.resumed, answer.paused, answer.deliveries.len()), (vec![PauseOf::Queue], false, 2));
    assert!(answer.next_due.is_some_and(|due| due > LONG / 2), "now it is the job that comes later");
    let again = bed.broker.turn(&turn).await.expect("it is answered again");
    assert!(again.resumed.is_empty() && again.deliveries.len() == 2, "a turn that is sent again ends no pause");
    assert!(!bed.stats().await.paused && of_queue(&bed).await.is_none());
}

/// While a queue is paused without an end, no time is worth to wait for.
pub async fn a_pause_without_an_end_has_no_next_time(bed: Bed) {
    let mut lane = bed.lane().await;
    bed.put_later(LONG).await;
    pause(&bed, a(), Pausing::new().lasting(LONG / 2)).await;
    let turn = lane.next().claim(1);
    assert!(lane.send(&turn).await.next_due.is_some_and(|due| due <= LONG / 2 + SHORT), "that of the group comes first");
    pause(&bed, PauseOf::Queue, Pausing::new()).await;
    let turn = lane.next().claim(1);
    assert_eq!(lane.send(&turn).await.next_due, None);
    pause(&bed, PauseOf::Queue, Pausing::new().lasting(2 * LONG)).await;
    let turn = lane.next().claim(1);
    assert!(lane.send(&turn).await.next_due.is_some_and(|due| due > LONG), "that of the queue alone counts while it is paused");
}

/// An idle lane hears of the end when the pause begins.
pub async fn the_end_of_a_pause_is_announced(bed: Bed) {
    let mut hints = bed.broker.hints(&bed.queue);
    for _ in 0..20 {
        pause(&bed, PauseOf::Queue, Pausing::new().lasting(LONG)).await;
        while let Ok(hint) = tokio::time::timeout(Duration::from_millis(500), hints.next()).await {
            if hint.due.is_some_and(|due| due > Instant::now() + LONG / 2) {
                return;
            }
        }
    }
    panic!("the end was not announced");
}

/// A group goes on by itself, and others were served meanwhile. Its other rules stay.
pub async fn a_group_goes_on_by_itself_when_the_end_comes(bed: Bed) {
    let mut lane = bed.lane().await;
    put(&bed, "a", 2).await;
    put(&bed, "b", 1).await;
    group_rule(&bed, "a", |rule| rule.cap = Some(1)).await;
    pause(&bed, a(), Pausing::new().because("unpaid").by("ada").lasting(LONG)).await;
    let said = group(&bed, "a").await.pause.expect("it is paused");
    assert_eq!((said.reason.as_deref(), said.by.as_deref(), said.until.is_some()), (Some("unpaid"), Some("ada"), true));
    let turn = lane.next().claim(10);
    let answer = lane.send(&turn).await;
    assert_eq!((answer.deliveries.len(), answer.paused, answer.next_due.is_some()), (1, false, true));
    pause(&bed, a(), Pausing::new().lasting(SHORT)).await;
    let (_, answer) = goes_on(&mut lane, |lane| lane.next().claim(10)).await;
    assert_eq!((answer.resumed, answer.deliveries.len()), (vec![a()], 1), "its cap holds as before");
    let now = group(&bed, "a").await;
    assert_eq!((now.pause, now.rule.paused, now.rule.cap), (None, false, Some(1)));
    sound(&bed).await;
}

/// A later pause, another rule, or a resume takes the end along: it comes to nothing.
pub async fn an_end_is_forgotten_with_its_pause(bed: Bed) {
    let mut lane = bed.lane().await;
    put(&bed, "a", 1).await;
    pause(&bed, a(), Pausing::new().lasting(SHORT)).await;
    pause(&bed, a(), Pausing::new()).await;
    pause(&bed, PauseOf::Group(name("b")), Pausing::new().lasting(SHORT)).await;
    group_rule(&bed, "b", |rule| *rule = GroupRule::new()).await;
    group_rule(&bed, "b", |rule| rule.paused = true).await;
    pause(&bed, PauseOf::Queue, Pausing::new().lasting(SHORT)).await;
    bed.broker.set_pause(&SetPause::resume(bed.queue.clone(), PauseOf::Queue)).await.unwrap();
    pause(&bed, PauseOf::Queue, Pausing::new()).await;
    sleep(2 * SHORT).await;
    let turn = lane.next().claim(10);
    let answer = lane.send(&turn).await;
    assert!(answer.resumed.is_empty() && answer.paused && answer.next_due.is_none(), "{answer:?}");
    assert!(group(&bed, "a").await.rule.paused && group(&bed, "b").await.rule.paused);
    bed.broker.set_pause(&SetPause::resume(bed.queue.clone(), PauseOf::Queue)).await.unwrap();
    assert!(lane.claim(10).await.is_empty(), "its group waits");
    bed.broker.set_pause(&SetPause::resume(bed.queue.clone(), a())).await.unwrap();
    assert_eq!(lane.claim(10).await.len(), 1);
    sound(&bed).await;
}

/// What is paused stays so over registrations and housekeeping, and ends at its time all the same.
pub async fn an_end_outlives_housekeeping(bed: Bed) {
    pause(&bed, a(), Pausing::new().lasting(LONG)).await;
    put(&bed, "a", 1).await;
    bed.broker.sweep(&bed.queue, &SweepLimits::default()).await.unwrap();
    let mut lane = bed.lane().await;
    assert!(lane.claim(1).await.is_empty());
    pause(&bed, a(), Pausing::new().lasting(SHORT)).await;
    sleep(2 * SHORT).await;
    bed.broker.sweep(&bed.queue, &SweepLimits::default()).await.unwrap();
    assert_eq!(lane.claim(1).await.len(), 1);
    sound(&bed).await;
}

/// An end that has passed, and a reason that is too long, are refused, and nothing is paused.
pub async fn a_pause_that_cannot_be_is_refused(bed: Bed) {
    bed.put(1).await;
    let refused = async |of: PauseOf, pausing: Pausing| match bed.broker.set_pause(&SetPause::pause(bed.queue.clone(), of, pausing)).await {
        Err(Error::Invalid { field, .. }) => field,
        other => panic!("it is answered {other:?}"),
    };
    let past = SystemTime::now() - LONG;
    assert_eq!(refused(PauseOf::Queue, Pausing::new().until(past)).await, "until");
    assert_eq!(refused(a(), Pausing::new().until(past)).await, "until");
    assert_eq!(refused(PauseOf::Queue, Pausing::new().lasting(Duration::ZERO)).await, "until");
    assert_eq!(refused(PauseOf::Queue, Pausing::new().because("x".repeat(1025))).await, "reason");
    assert!(bed.broker.set_pause(&SetPause::of_queue("no name", true)).await.is_err());
    assert!(of_queue(&bed).await.is_none() && !group(&bed, "a").await.rule.paused);
    assert_eq!(bed.lane().await.claim(1).await.len(), 1);
}

fn of_task(task: &str) -> PauseOf {
    PauseOf::Task(task.into())
}

async fn resume(bed: &Bed, of: PauseOf) {
    bed.broker.set_pause(&SetPause::resume(bed.queue.clone(), of)).await.expect("it can go on");
}

async fn put_of(bed: &Bed, task: &str, jobs: usize) -> Vec<JobId> {
    let envelope = Envelope::new(task, b"\x80").encode().expect("a small envelope can be encoded");
    let jobs: Vec<NewJob> = (0..jobs).map(|_| NewJob::new(JobId::make(), envelope.clone())).collect();
    let ids = jobs.iter().map(|job| job.id.clone()).collect();
    bed.producer().await.stored(jobs).await;
    ids
}

/// A turn that claims, and asks for parked jobs of a task.
async fn claim_of(lane: &mut Lane, n: usize, task: &str) -> TurnAnswer {
    let turn = claims_of(lane, n, task);
    lane.send(&turn).await
}

fn claims_of(lane: &mut Lane, n: usize, task: &str) -> Turn {
    let mut turn = lane.next().claim(n);
    turn.resume = vec![task.into()];
    turn
}

fn ids_of(answer: &TurnAnswer) -> Vec<JobId> {
    answer.deliveries.iter().map(|delivery| delivery.id.clone()).collect()
}

/// A claim that meets jobs of a paused task parks them and takes the others. They are counted, and
/// come first when the task goes on.
pub async fn jobs_of_a_paused_task_are_parked_and_come_back_in_their_order(bed: Bed) {
    let mut lane = bed.lane().await;
    pause(&bed, of_task("send"), Pausing::new().because("the server is down").by("ada")).await;
    let (first, other) = (put_of(&bed, "send", 3).await, put_of(&bed, "count", 1).await);
    let answer = claim_of(&mut lane, 2, "send").await;
    assert_eq!((answer.more, answer.parked, answer.paused), (false, true, false));
    assert_eq!((ids_of(&answer), &answer.aside), (other, &first));
    let told = pauses(&bed).await.pauses;
    assert_eq!((told.len(), told[0].of.clone(), told[0].parked), (1, of_task("send"), 3));
    assert_eq!((told[0].pause.reason.as_deref(), told[0].pause.by.as_deref()), (Some("the server is down"), Some("ada")));
    assert_eq!(bed.ids(JobState::Parked).await, first);
    assert!(claim_of(&mut lane, 10, "send").await.deliveries.is_empty(), "they stay");
    put_of(&bed, "send", 1).await;
    resume(&bed, of_task("send")).await;
    assert_eq!(ids_of(&claim_of(&mut lane, 2, "send").await), first[..2]);
    let rest = claim_of(&mut lane, 10, "send").await;
    assert_eq!((ids_of(&rest)[0].clone(), rest.deliveries.len(), rest.parked), (first[2].clone(), 2, false));
    assert!(pauses(&bed).await.pauses.is_empty());
    sound(&bed).await;
}

/// Hundreds of jobs of a paused task come first, in the line, in a group and in a group that runs
/// one at a time: claims of one job each pass them.
pub async fn jobs_of_a_paused_task_keep_no_other_waiting(bed: Bed) {
    let mut lane = bed.lane().await;
    cap(&bed, "b", 1).await;
    pause(&bed, of_task("send"), Pausing::new()).await;
    for group in ["", "a", "b"] {
        let of = |task: &str| {
            let mut job = NewJob::new(JobId::make(), Envelope::new(task, b"\x80").encode().expect("a small envelope can be encoded"));
            job.group = (!group.is_empty()).then(|| name(group));
            job
        };
        let cancelled = of("count");
        let id = cancelled.id.clone();
        bed.producer().await.stored((0..300).map(|_| of("send")).chain([of("count"), cancelled]).collect()).await;
        bed.broker.change(&bed.queue, Change::Cancel, None, &[id]).await.expect("it can be cancelled");
        let first = claim_of(&mut lane, 1, "send").await;
        let second = claim_of(&mut lane, 1, "send").await;
        let answers = [first, second];
        let aside: usize = answers.iter().map(|answer| answer.aside.len()).sum();
        let got: Vec<_> = answers.into_iter().flat_map(|answer| answer.deliveries).collect();
        assert_eq!((got.len(), aside), (1, 300), "of group {group:?}");
        lane.ack(&got).await;
    }
    sound(&bed).await;
}

/// The jobs of a paused task are parked in short steps, however many a claim asks for.
pub async fn a_claim_parks_some_jobs_of_a_paused_task_at_a_time(bed: Bed) {
    const JOBS: usize = 3000;
    let mut lane = bed.lane().await;
    pause(&bed, of_task("send"), Pausing::new()).await;
    for _ in 0..JOBS / 500 {
        let of = |_| NewJob::new(JobId::make(), Envelope::new("send", b"\x80").encode().expect("a small envelope can be encoded"));
        bed.producer().await.stored((0..500).map(of).collect()).await;
    }
    let (mut parked, mut claims) = (0, 0);
    while parked < JOBS {
        let answer = claim_of(&mut lane, 500, "send").await;
        assert!((1..=1000).contains(&answer.aside.len()), "{} in one claim", answer.aside.len());
        (parked, claims) = (parked + answer.aside.len(), claims + 1);
    }
    assert_eq!((parked, bed.depth(JobState::Parked).await), (JOBS, JOBS as u64), "after {claims} claims");
}

/// Attempts, slots, keys and lines are as they would be if nobody had looked.
pub async fn a_paused_task_burns_nothing(bed: Bed) {
    let mut lane = bed.lane().await;
    cap(&bed, "a", 1).await;
    let [grouped, _] = put(&bed, "a", 2).await.try_into().expect("they are two");
    let task = Envelope::decode(&bed.show(&grouped).await.expect("it is stored").envelope).expect("it can be decoded").task.to_string();
    let [failed] = put_of(&bed, &task, 1).await.try_into().expect("it is one");
    let held = lane.claim(5).await;
    assert_eq!(held.len(), 2);
    for delivery in &held {
        assert!(lane.end(delivery, nack(Duration::ZERO)).await);
    }
    pause(&bed, of_task(&task), Pausing::new()).await;
    let answer = claim_of(&mut lane, 5, &task).await;
    let told = (answer.deliveries.len(), answer.aside.len(), answer.more);
    assert_eq!(told, (0, 3, false), "a job that was set aside gives its slot back, and the next of its group may start: {answer:?}");
    assert_eq!((depth(&bed, "a").await, bed.depth(JobState::Parked).await), ((0, 0), 3));
    let shown = bed.show(&failed).await.expect("it is stored");
    assert_eq!((shown.state, shown.attempts, shown.crashes, shown.snoozes), (JobState::Parked, 1, 0, 0));
    resume(&bed, of_task(&task)).await;
    let answer = claim_of(&mut lane, 5, &task).await;
    assert_eq!((answer.deliveries.len(), depth(&bed, "a").await), (2, (1, 1)), "its group has one slot: {answer:?}");
    assert!(answer.deliveries.iter().all(|delivery| delivery.attempts <= 1 && delivery.crashes == 0));
    sound(&bed).await;
}

/// The end of the pause of a task comes by itself, and its jobs with it.
pub async fn a_task_goes_on_by_itself_when_the_end_comes(bed: Bed) {
    let mut lane = bed.lane().await;
    let ids = put_of(&bed, "send", 2).await;
    pause(&bed, of_task("send"), Pausing::new().lasting(LONG)).await;
    let answer = claim_of(&mut lane, 5, "send").await;
    assert_eq!((&answer.aside, answer.next_due.is_some()), (&ids, true));
    pause(&bed, of_task("send"), Pausing::new().lasting(SHORT)).await;
    let (_, answer) = goes_on(&mut lane, |lane| claims_of(lane, 5, "send")).await;
    assert_eq!((ids_of(&answer), answer.resumed), (ids, vec![of_task("send")]));
    pause(&bed, of_task("send"), Pausing::new()).await;
    let turn = lane.next().claim(1);
    assert_eq!(lane.send(&turn).await.next_due, None, "it has no end");
}

/// Jobs that no worker knew stay where they are, and count.
pub async fn jobs_that_are_parked_already_stay_so_while_their_task_is_paused(bed: Bed) {
    let mut lane = bed.lane().await;
    let ids = put_of(&bed, "send", 1).await;
    let held = lane.claim_one().await;
    assert!(lane.end(&held, Ending::Park { task: "send".to_owned() }).await);
    pause(&bed, of_task("send"), Pausing::new()).await;
    assert_eq!(pauses(&bed).await.pauses[0].parked, 1);
    assert!(claim_of(&mut lane, 5, "send").await.deliveries.is_empty());
    bed.broker.sweep(&bed.queue, &SweepLimits::default()).await.unwrap();
    assert!(claim_of(&mut lane, 5, "send").await.deliveries.is_empty());
    resume(&bed, of_task("send")).await;
    assert_eq!(ids_of(&claim_of(&mut lane, 5, "send").await), ids);
}

/// One more is refused; one that is paused may be paused again.
pub async fn a_queue_has_a_bounded_number_of_paused_tasks(bed: Bed) {
    for n in 0..PAUSED_TASKS {
        pause(&bed, of_task(&format!("task-{n}")), Pausing::new()).await;
    }
    let more = SetPause::pause(bed.queue.clone(), of_task("one-more"), Pausing::new());
    let refused = bed.broker.set_pause(&more).await.unwrap_err().to_string();
    assert!(refused.contains("100 paused tasks"), "{refused}");
    pause(&bed, of_task("task-7"), Pausing::new().because("again")).await;
    pause(&bed, PauseOf::Queue, Pausing::new()).await;
    assert_eq!(pauses(&bed).await.pauses.len(), PAUSED_TASKS + 1);
    assert!(bed.broker.set_pause(&SetPause::pause(bed.queue.clone(), of_task("no name"), Pausing::new())).await.is_err());
}

/// Where no worker looks, a pause whose end has come stays with the broker. It is shown no longer,
/// and a new one has begun by itself.
pub async fn a_pause_that_has_ended_is_none_although_no_worker_looks(bed: Bed) {
    let all = [PauseOf::Queue, a(), of_task("send")];
    put(&bed, "a", 1).await;
    for of in &all {
        pause(&bed, of.clone(), Pausing::new().lasting(LONG)).await;
    }
    let begun = group(&bed, "a").await.pause.and_then(|pause| pause.since).expect("it is known");
    for of in &all {
        pause(&bed, of.clone(), Pausing::new().lasting(SHORT)).await;
    }
    sleep(2 * SHORT).await;
    let shown = bed.inspector().group(&bed.queue, &name("a")).await.unwrap();
    assert_eq!((shown.pause, shown.rule.paused), (None, false));
    let listed = bed.inspector().groups(&bed.queue, None, 10).await.unwrap();
    assert!(listed.groups.iter().all(|group| group.pause.is_none() && !group.rule.paused), "{listed:?}");
    group_rule(&bed, "a", |rule| rule.weight = Some(2)).await;
    for of in &all {
        pause(&bed, of.clone(), Pausing::new().lasting(LONG)).await;
    }
    let since = |pause: Option<Pause>| pause.and_then(|pause| pause.since).expect("it is known");
    assert!(since(group(&bed, "a").await.pause) >= begun + SHORT, "that of the group has begun anew");
    for stored in pauses(&bed).await.pauses {
        assert!(since(Some(stored.pause)) >= begun + SHORT, "that of the {} has begun anew", stored.of);
    }
    sound(&bed).await;
}
