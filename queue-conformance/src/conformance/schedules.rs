//! Schedules: a compare-and-set on their state together with their jobs, and the effect of a job's
//! end on the state.

use std::{fmt::Write, time::Duration};

use queue_core::{
    JobId,
    broker::{
        BuryReason, CLOCK_MOVED, Change, Counter, CrashRule, Delivery, Ending, JobState, NewJob, Priority, ProcessId, STOPPED,
        ScheduleAnswer, ScheduleList, ScheduleSet, ScheduleState, SetSchedule, TickJob,
    },
};

use super::bed::{Bed, Lane, SHORT, ack, envelope, eventually, hears_of_nothing_yet, nack};
use crate::patience::wait;

const NAME: &str = "nightly";

/// The broker's clock.
pub(super) async fn now(bed: &Bed) -> i64 {
    bed.broker.schedules(&bed.queue, &ScheduleList::Declared).await.expect("schedules can be listed").now_ms
}

/// The state of the schedule.
async fn state(bed: &Bed) -> ScheduleState {
    let page = bed.broker.schedules(&bed.queue, &ScheduleList::One(NAME.to_owned())).await.expect("a schedule can be looked at");
    ScheduleState::decode(&page.schedules[0].state).expect("its state can be read")
}

fn tick_id(bed: &Bed, tick: i64) -> JobId {
    JobId::of_tick(&bed.queue, NAME, tick, 0)
}

fn tick_job(bed: &Bed, tick: i64, run: u64) -> TickJob {
    TickJob { job: NewJob::new(tick_id(bed, tick), envelope("tick")), run, remembered: false }
}

fn set_to(state: &ScheduleState, due_ms: Option<i64>) -> Option<ScheduleSet> {
    Some(ScheduleSet { definition: Some(b"what".to_vec()), state: state.encode(), due_ms, declared: false })
}

async fn send(bed: &Bed, request: &SetSchedule) -> ScheduleAnswer {
    bed.broker.set_schedule(request).await.expect("a change of a schedule is answered")
}

/// Creates the schedule.
pub(super) async fn made(bed: &Bed, state: &ScheduleState, due_ms: Option<i64>) {
    let mut request = SetSchedule::new(bed.queue.clone(), NAME, now(bed).await, None);
    request.set = set_to(state, due_ms);
    assert_eq!(send(bed, &request).await, ScheduleAnswer::Set(vec![]));
}

/// A request that changes the schedule from its present state.
async fn change(bed: &Bed, change: impl FnOnce(&mut ScheduleState)) -> SetSchedule {
    let before = state(bed).await;
    let mut after = before.clone();
    change(&mut after);
    let mut request = SetSchedule::new(bed.queue.clone(), NAME, now(bed).await, Some(before.encode()));
    request.set = set_to(&after, None);
    request
}

/// Makes a tick whose job the schedule waits for.
pub(super) async fn tick(bed: &Bed, tick: i64) -> JobId {
    let id = tick_id(bed, tick);
    let mut request = change(bed, |state| state.running = Some(state.begun(tick, id.to_string()))).await;
    // The stored state is read and compared without changes.
    let page = bed.broker.schedules(&bed.queue, &ScheduleList::One(NAME.to_owned())).await.unwrap();
    request.expected = Some(page.schedules[0].state.clone());
    let run = state(bed).await.runs + 1;
    request.jobs.push(tick_job(bed, tick, run));
    assert_eq!(send(bed, &request).await, ScheduleAnswer::Set(vec![true]));
    id
}

/// The outcome of the last run.
pub(super) async fn outcome(bed: &Bed) -> (Option<u64>, String) {
    let state = state(bed).await;
    (state.running, state.last_runs.last().expect("there was a run").3.clone())
}

/// A schedule is created, read, changed and removed.
pub async fn a_schedule_is_stored_and_removed(bed: Bed) {
    let mut first = ScheduleState { next_ms: Some(5_000), ..ScheduleState::default() };
    made(&bed, &first, None).await;
    assert!(bed.broker.queues().await.unwrap().iter().any(|queue| **queue == *bed.queue), "its queue is listed");
    assert_eq!(state(&bed).await, first);
    let mut request = change(&bed, |state| state.next_ms = Some(9_000)).await;
    let set = request.set.as_mut().unwrap();
    (set.definition, set.declared) = (None, true);
    assert_eq!(send(&bed, &request).await, ScheduleAnswer::Set(vec![]));
    first.next_ms = Some(9_000);
    let page = bed.broker.schedules(&bed.queue, &ScheduleList::Declared).await.unwrap();
    assert_eq!((page.schedules.len(), page.schedules[0].definition.as_slice()), (1, &b"what"[..]), "a definition that is not given stays");
    assert_eq!(state(&bed).await, first);
    let mut request = change(&bed, |_| {}).await;
    request.set = None;
    assert_eq!(send(&bed, &request).await, ScheduleAnswer::Set(vec![]));
    for which in [ScheduleList::Declared, ScheduleList::One(NAME.to_owned()), ScheduleList::All { offset: 0, limit: 9 }] {
        assert_eq!(bed.broker.schedules(&bed.queue, &which).await.unwrap().schedules, []);
    }
}

/// Of two requests with the same earlier state, one succeeds.
pub async fn a_schedule_that_was_changed_meanwhile_is_stale(bed: Bed) {
    made(&bed, &ScheduleState::default(), None).await;
    let mut again = SetSchedule::new(bed.queue.clone(), NAME, now(&bed).await, None);
    again.set = set_to(&ScheduleState::default(), None);
    assert_eq!(send(&bed, &again).await, ScheduleAnswer::Stale, "it is there already");
    let mut one = change(&bed, |state| state.next_ms = Some(1)).await;
    let mut other = change(&bed, |state| state.next_ms = Some(2)).await;
    one.jobs.push(tick_job(&bed, 1_000, 1));
    other.jobs.push(tick_job(&bed, 2_000, 1));
    assert_eq!(send(&bed, &one).await, ScheduleAnswer::Set(vec![true]));
    assert_eq!(send(&bed, &other).await, ScheduleAnswer::Stale);
    assert_eq!(send(&bed, &one).await, ScheduleAnswer::Stale, "one that is sent again has changed it itself");
    assert_eq!(bed.ids(JobState::Ready).await, [tick_id(&bed, 1_000)]);
    other.expected = None;
    other.name = "unknown".to_owned();
    other.set = None;
    other.jobs.clear();
    assert_eq!(send(&bed, &other).await, ScheduleAnswer::Set(vec![]), "what is not there can be removed");
}

/// A request with the time of a clock that was set since is refused.
pub async fn a_request_from_another_time_is_refused(bed: Bed) {
    made(&bed, &ScheduleState::default(), None).await;
    let by = i64::try_from(CLOCK_MOVED.as_millis()).unwrap() + 1_000;
    for wrong in [-by, by] {
        let mut request = change(&bed, |state| state.next_ms = Some(1)).await;
        request.asked_ms += wrong;
        request.jobs.push(tick_job(&bed, 1_000, 1));
        assert_eq!(send(&bed, &request).await, ScheduleAnswer::Moved);
    }
    assert_eq!((state(&bed).await, bed.depth(JobState::Ready).await), (ScheduleState::default(), 0));
}

/// Only one of several workers makes the tick. If it crashes, another one does.
pub async fn a_due_schedule_is_handed_out_to_one_and_later_to_another(bed: Bed) {
    assert!(bed.broker.due_schedules(&bed.queue, 10).await.unwrap().next_due.is_none());
    let now = now(&bed).await;
    made(&bed, &ScheduleState::default(), Some(now)).await;
    let due = bed.broker.due_schedules(&bed.queue, 10).await.unwrap();
    assert_eq!((due.schedules.len(), due.schedules[0].name.as_str()), (1, NAME));
    assert!(due.next_due.is_some_and(|wait| wait <= Duration::from_secs(1)), "{:?}", due.next_due);
    assert_eq!(bed.broker.due_schedules(&bed.queue, 10).await.unwrap().schedules, []);
    let again = eventually("it is due again", async || bed.broker.due_schedules(&bed.queue, 10).await.unwrap().schedules.pop()).await;
    assert_eq!(again, due.schedules[0]);
    let mut request = change(&bed, |state| state.next_ms = Some(now + 60_000)).await;
    request.set.as_mut().unwrap().due_ms = Some(now + 60_000);
    send(&bed, &request).await;
    let due = bed.broker.due_schedules(&bed.queue, 10).await.unwrap();
    let wait = due.next_due.expect("it is due in a minute");
    assert!(due.schedules.is_empty() && wait <= Duration::from_secs(60) && wait >= Duration::from_secs(40), "{wait:?}");
}

/// The job of a tick is like others: it waits with its priority, and is counted.
pub async fn a_tick_makes_a_job_in_the_same_transition(bed: Bed) {
    made(&bed, &ScheduleState::default(), None).await;
    let mut lane = bed.lane().await;
    assert_eq!(lane.claim(1).await, []);
    let mut request = change(&bed, |state| state.last_ms = Some(2_000)).await;
    request.jobs = vec![tick_job(&bed, 1_000, 1), tick_job(&bed, 2_000, 2), tick_job(&bed, 1_000, 3)];
    request.jobs[1].job.priority = Priority::High;
    assert_eq!(send(&bed, &request).await, ScheduleAnswer::Set(vec![true, true, false]), "a job that exists is not stored again");
    assert_eq!((state(&bed).await.last_ms, bed.counter(Counter::Enqueued).await), (Some(2_000), 2));
    let claimed = lane.claim(9).await;
    let ids: Vec<JobId> = claimed.iter().map(|delivery| delivery.id.clone()).collect();
    assert_eq!(ids, [tick_id(&bed, 2_000), tick_id(&bed, 1_000)]);
    assert!(ids.iter().all(JobId::is_of_tick));
    lane.ack(&claimed).await;
    assert_eq!(bed.counter(Counter::Done).await, 2);
}

/// The schedule stores its last job until that has ended, and then its outcome.
pub async fn the_end_of_its_last_job_is_noted_by_the_schedule(bed: Bed) {
    made(&bed, &ScheduleState::default(), None).await;
    let mut lane = bed.lane().await;
    let cases: [(&str, Ending); 6] = [
        ("done", ack()),
        ("done", Ending::Ack { result: None, keep: Some(Duration::from_secs(60)) }),
        ("dead", Ending::Bury { reason: BuryReason::Failed, error: Some("no".to_owned()) }),
        ("cancelled", Ending::Cancel { reason: "no".to_owned() }),
        ("expired", Ending::Expire),
        ("parked", Ending::Park { task: "unknown".to_owned() }),
    ];
    for (at, (how, ending)) in cases.into_iter().enumerate() {
        let at = i64::try_from(at).unwrap() * 1_000;
        tick(&bed, at).await;
        let held = lane.claim_one().await;
        assert_eq!(outcome(&bed).await, (Some(state(&bed).await.runs), String::new()));
        assert!(lane.end(&held, ending).await);
        assert_eq!(outcome(&bed).await, (None, how.to_owned()));
    }
    for (at, change, how) in [(20_000, Change::Cancel, "cancelled"), (21_000, Change::Delete, "deleted")] {
        let id = tick(&bed, at).await;
        assert!(bed.broker.change(&bed.queue, change, None, &[id]).await.unwrap()[0].done());
        assert_eq!(outcome(&bed).await, (None, how.to_owned()));
    }
    let id = tick(&bed, 22_000).await;
    let held = lane.claim_one().await;
    assert_eq!(held.id, id);
    assert!(bed.broker.change(&bed.queue, Change::Cancel, None, &[id]).await.unwrap()[0].done());
    assert_eq!(outcome(&bed).await, (None, "cancelled".to_owned()), "while it runs, too");
    assert!(!lane.end(&held, ack()).await);
}

/// A job that waits for its retry, or has crashed, has not ended.
pub async fn a_job_that_comes_back_has_not_ended(bed: Bed) {
    made(&bed, &ScheduleState::default(), None).await;
    tick(&bed, 1_000).await;
    let mut lane = bed.lane().await;
    let again = [nack(Duration::ZERO), Ending::Snooze { delay: Duration::ZERO }, Ending::Repeat { delay: Duration::ZERO }, Ending::Return];
    for ending in again {
        let held = lane.wait_for_one().await;
        assert!(lane.end(&held, ending).await);
        assert_eq!(outcome(&bed).await, (Some(1), String::new()));
    }
    let mut dying = bed.dying_lane().await;
    dying.wait_for_one().await;
    bed.reclaim(&[&dying], CrashRule { delay: Duration::ZERO, ..CrashRule::default() }).await;
    assert_eq!(outcome(&bed).await, (Some(1), String::new()));
    let held = lane.wait_for_one().await;
    lane.ack(&[held]).await;
    assert_eq!(outcome(&bed).await, (None, "done".to_owned()));
}

/// The tick is due as soon as that job has ended, and tickers are notified.
pub async fn a_tick_that_waits_for_the_last_job_is_due_at_its_end(bed: Bed) {
    made(&bed, &ScheduleState::default(), None).await;
    tick(&bed, 1_000).await;
    let mut request = change(&bed, |state| state.buffered_ms = Some(2_000)).await;
    let page = bed.broker.schedules(&bed.queue, &ScheduleList::One(NAME.to_owned())).await.unwrap();
    request.expected = Some(page.schedules[0].state.clone());
    assert_eq!(send(&bed, &request).await, ScheduleAnswer::Set(vec![]));
    assert_eq!(bed.broker.due_schedules(&bed.queue, 1).await.unwrap().schedules, []);
    let mut hints = hears_of_nothing_yet(&bed.broker, &bed.queue, bed.broker.tick_hints(&bed.queue)).await;
    let mut lane = bed.lane().await;
    let held = lane.claim_one().await;
    lane.ack(&[held]).await;
    assert_eq!(bed.broker.due_schedules(&bed.queue, 1).await.unwrap().schedules.len(), 1);
    wait("the announcement").end_of(hints.next()).await;
}

/// Tickers are notified of a schedule that is due before all others.
pub async fn a_schedule_that_is_due_first_is_announced(bed: Bed) {
    let mut hints = hears_of_nothing_yet(&bed.broker, &bed.queue, bed.broker.tick_hints(&bed.queue)).await;
    let now = now(&bed).await;
    made(&bed, &ScheduleState::default(), Some(now + 60_000)).await;
    let hint = wait("the announcement").end_of(hints.next()).await;
    let wait = hint.due.expect("it is due later").saturating_duration_since(std::time::Instant::now());
    assert!(wait > Duration::from_secs(30) && wait <= Duration::from_secs(61), "{wait:?}");
}

/// The declared number of dead letters in a row pauses the schedule. A done job resets the count.
pub async fn jobs_that_die_in_a_row_pause_their_schedule(bed: Bed) {
    let now = now(&bed).await;
    made(&bed, &ScheduleState { pause_after: 2, ..ScheduleState::default() }, Some(now + 60_000)).await;
    let mut lane = bed.lane().await;
    let dead = || Ending::Bury { reason: BuryReason::Failed, error: None };
    for (at, ending) in [dead(), ack(), dead(), dead()].into_iter().enumerate() {
        assert_eq!(state(&bed).await.paused, None);
        tick(&bed, i64::try_from(at).unwrap() * 1_000).await;
        let held = lane.claim_one().await;
        assert!(lane.end(&held, ending).await);
    }
    let state = state(&bed).await;
    assert_eq!((state.paused.as_deref(), state.dead), (Some("2 of its jobs died in a row"), 2));
    assert_eq!(state.events.last().map(|event| event.1.as_str()), Some("paused"));
    assert!(bed.broker.due_schedules(&bed.queue, 1).await.unwrap().next_due.is_none(), "it is not looked at any more");
}

async fn stop(bed: &Bed, id: &JobId) {
    let mut request = change(bed, |state| state.buffered_ms = Some(9_000)).await;
    let page = bed.broker.schedules(&bed.queue, &ScheduleList::One(NAME.to_owned())).await.unwrap();
    request.expected = Some(page.schedules[0].state.clone());
    request.stop = Some(id.clone());
    assert_eq!(send(bed, &request).await, ScheduleAnswer::Set(vec![]));
}

async fn hears(lane: &Lane) -> Vec<(JobId, u64)> {
    let heartbeat = [lane.heartbeat(Duration::from_secs(30))];
    lane.broker.extend(&heartbeat).await.remove(0).expect("the lane lives").cancelled
}

/// The job keeps its receipt until its ending. Any ending other than done or dead then cancels it.
pub async fn a_running_job_that_is_to_be_stopped_is_cancelled_at_its_ending(bed: Bed) {
    made(&bed, &ScheduleState::default(), None).await;
    let mut lane = bed.lane().await;
    let later = Duration::from_secs(3600);
    let endings = [
        (nack(later), JobState::Cancelled),
        (Ending::Snooze { delay: later }, JobState::Cancelled),
        (Ending::Repeat { delay: later }, JobState::Cancelled),
        (Ending::Return, JobState::Cancelled),
        (Ending::Void, JobState::Cancelled),
        (Ending::Park { task: "unknown".to_owned() }, JobState::Cancelled),
        (Ending::Bury { reason: BuryReason::Buried, error: None }, JobState::Dead),
        (Ending::Ack { result: None, keep: Some(later) }, JobState::Done),
    ];
    for (at, (ending, expected)) in endings.into_iter().enumerate() {
        let id = tick(&bed, i64::try_from(at).unwrap() * 1_000).await;
        let held: Delivery = lane.claim_one().await;
        stop(&bed, &id).await;
        assert_eq!((hears(&lane).await, bed.state(&id).await), (vec![(id.clone(), held.claim)], Some(JobState::Active)));
        assert!(lane.end(&held, ending.clone()).await, "its receipt stands: {ending:?}");
        let record = bed.show(&id).await.expect("it is kept");
        assert_eq!((record.state, hears(&lane).await), (expected, vec![]), "{ending:?}");
        assert_eq!(record.note.as_deref(), (expected == JobState::Cancelled).then_some(STOPPED));
        assert_eq!(outcome(&bed).await, (None, expected.name().to_owned()));
        assert_eq!(bed.broker.due_schedules(&bed.queue, 1).await.unwrap().schedules.len(), 1, "the tick that waited is due");
    }
}

/// The worker has crashed: the job is cancelled, and does not come back.
pub async fn a_job_that_is_to_be_stopped_ends_with_its_worker(bed: Bed) {
    made(&bed, &ScheduleState::default(), None).await;
    let mut dying = bed.lane_of(ProcessId::random(), SHORT).await;
    let id = tick(&bed, 1_000).await;
    dying.claim_one().await;
    stop(&bed, &id).await;
    let reclaimed = bed.reclaim(&[&dying], CrashRule::default()).await;
    assert_eq!((reclaimed.moved(), bed.state(&id).await), (0, Some(JobState::Cancelled)));
    assert_eq!(outcome(&bed).await, (None, "cancelled".to_owned()));
    assert_eq!((bed.counter(Counter::Reclaimed).await, bed.counter(Counter::Crashed).await), (1, 0));
}

/// The job is not running, so it is cancelled at once.
pub async fn a_waiting_job_that_is_to_be_stopped_is_cancelled_at_once(bed: Bed) {
    made(&bed, &ScheduleState::default(), None).await;
    let id = tick(&bed, 1_000).await;
    stop(&bed, &id).await;
    assert_eq!((bed.state(&id).await, outcome(&bed).await), (Some(JobState::Cancelled), (None, "cancelled".to_owned())));
    assert_eq!(bed.lane().await.claim(1).await, []);
}

/// A repeated backfill creates each job once, even if the first one has ended.
pub async fn a_backfilled_job_is_made_once(bed: Bed) {
    made(&bed, &ScheduleState::default(), None).await;
    tick(&bed, 1_000).await;
    let mut lane = bed.lane().await;
    let held = lane.claim_one().await;
    lane.ack(&[held]).await;
    for stored in [true, false] {
        let mut request = change(&bed, |state| state.skipped += 1).await;
        let page = bed.broker.schedules(&bed.queue, &ScheduleList::One(NAME.to_owned())).await.unwrap();
        request.expected = Some(page.schedules[0].state.clone());
        request.jobs.push(tick_job(&bed, 1_000, 7));
        request.jobs[0].remembered = true;
        assert_eq!(send(&bed, &request).await, ScheduleAnswer::Set(vec![stored]));
        let held = lane.claim(1).await;
        assert_eq!(held.len(), usize::from(stored));
        lane.ack(&held).await;
    }
}

/// They are listed by their due time. Those without a due time come last.
pub async fn schedules_are_listed_by_page(bed: Bed) {
    let now = now(&bed).await;
    for (name, due) in [("c", Some(now + 30_000)), ("a", None), ("b", Some(now + 20_000)), ("d", Some(now + 40_000))] {
        let mut request = SetSchedule::new(bed.queue.clone(), name, now, None);
        request.set = set_to(&ScheduleState::default(), due);
        assert_eq!(send(&bed, &request).await, ScheduleAnswer::Set(vec![]));
    }
    let (mut offset, mut listed) = (Some(0), String::new());
    while let Some(at) = offset {
        let page = bed.broker.schedules(&bed.queue, &ScheduleList::All { offset: at, limit: 3 }).await.unwrap();
        page.schedules.iter().for_each(|schedule| write!(listed, "{} ", schedule.name).expect("a text can be written to"));
        offset = page.next;
        listed.push('|');
    }
    assert_eq!(listed, "b c d |a |");
}

/// Only these, and none without a due time.
pub async fn schedules_that_are_due_after_a_time_are_listed(bed: Bed) {
    let now = now(&bed).await;
    for (name, due) in
        [("soon", Some(now + 20_000)), ("at", Some(now + 30_000)), ("paused", None), ("c", Some(now + 50_000)), ("b", Some(now + 40_000))]
    {
        let mut request = SetSchedule::new(bed.queue.clone(), name, now, None);
        request.set = set_to(&ScheduleState::default(), due);
        assert_eq!(send(&bed, &request).await, ScheduleAnswer::Set(vec![]));
    }
    let (mut offset, mut listed) = (Some(0), String::new());
    while let Some(at) = offset {
        let which = ScheduleList::After { after_ms: now + 30_000, offset: at, limit: 1 };
        let page = bed.broker.schedules(&bed.queue, &which).await.unwrap();
        page.schedules.iter().for_each(|schedule| write!(listed, "{} ", schedule.name).expect("a text can be written to"));
        offset = page.next;
        listed.push('|');
    }
    assert_eq!(listed, "b |c |");
}
