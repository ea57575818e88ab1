//! Transitions, for watchers of a queue: each is reported once and in order, and none without a
//! watcher.

use std::time::Duration;

use queue_core::{
    __private::Envelope,
    JobId,
    broker::{
        Audit, Begin, BuryReason, Change, CrashRule, Due, EditJob, EditedJob, Ending, FOLLOWED, JobState, NewJob, OnConflict, PauseOf,
        Pausing, Priority, REASON_BYTES, ScheduleState, SeenJob, SetPause, StoredTransition, SweepLimits, TRANSITIONS_KEPT, Transitions,
        Unique, UniqueKey, cut_reason, subscription_address,
    },
};
use tokio::time::sleep;

use super::{
    bed::{Bed, LONG, Lane, Producer, ack, envelope, eventually, finish, nack},
    groups, schedules, topics,
};

/// A mark that is short enough to wait for, and longer than a delay of a busy machine between two
/// calls.
const SHORT: Duration = Duration::from_secs(3);

/// A watcher that follows the queue from now on.
struct Reader {
    after: u64,
}

impl Reader {
    async fn of(bed: &Bed) -> Reader {
        // So that the queue exists.
        bed.producer().await;
        let followed = bed.broker.follow(&bed.queue, FOLLOWED).await.expect("a queue can be followed");
        Reader { after: followed.last.expect("the queue exists") }
    }

    async fn read(&mut self, bed: &Bed) -> Vec<StoredTransition> {
        let mut all = Vec::new();
        loop {
            let Transitions { entries, lost, upto, .. } = read(bed, self.after).await;
            assert_eq!(lost, Some(0), "nothing is lost: {entries:?}");
            if upto == self.after {
                return all;
            }
            let numbers: Vec<u64> = entries.iter().map(|entry| entry.number).collect();
            assert_eq!(numbers, (self.after + 1..=upto).collect::<Vec<_>>(), "they are numbered one after the other");
            all.extend(entries);
            self.after = upto;
        }
    }

    /// The transitions of these jobs, one after the other.
    async fn stories(&mut self, bed: &Bed, ids: &[&JobId]) -> Vec<String> {
        let told = self.read(bed).await;
        assert!(told.iter().all(|told| ids.contains(&&told.id)), "no other job was told of: {told:?}");
        ids.iter().map(|id| told.iter().filter(|told| told.id == **id).map(step).collect::<Vec<_>>().join(" ")).collect()
    }
}

async fn read(bed: &Bed, after: u64) -> Transitions {
    bed.broker.transitions(&bed.queue, after, 100).await.expect("transitions can be read")
}

fn step(told: &StoredTransition) -> String {
    let name = |state: Option<JobState>, none| state.map_or(none, JobState::name);
    let reason = told.reason.as_ref().map_or_else(String::new, |reason| format!("({reason})"));
    format!("{}>{}{reason}", name(told.from, "new"), name(told.to, "removed"))
}

async fn sound(bed: &Bed) {
    let wrong = bed.broker.audit(&bed.queue, Audit { repair: false, thorough: true }).await.expect("an audit is answered");
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Each state of a job is reported, with its task and its failures, for all endings.
pub async fn every_state_of_a_job_is_reported_in_order(bed: Bed) {
    let mut reader = Reader::of(&bed).await;
    let ids = bed.put(8).await;
    let mut lane = bed.lane().await;
    let jobs = lane.claim(8).await;
    let long = "it is not wanted any more ".repeat(20);
    let turn = lane.next().finish(vec![
        finish(&jobs[0], ack()),
        finish(&jobs[1], Ending::Ack { keep: Some(LONG), result: Some(vec![1]) }),
        finish(&jobs[2], Ending::Bury { reason: BuryReason::Failed, error: Some("it failed".to_owned()) }),
        finish(&jobs[3], Ending::Cancel { reason: long.clone() }),
        finish(&jobs[4], Ending::Expire),
        finish(&jobs[5], Ending::Snooze { delay: LONG }),
        finish(&jobs[6], Ending::Park { task: "unknown".to_owned() }),
        finish(&jobs[7], nack(LONG)),
    ]);
    assert!(lane.send(&turn).await.stale.is_empty());
    let told = reader.read(&bed).await;
    let of = |id: &JobId| told.iter().filter(|told| told.id == *id).map(step).collect::<Vec<_>>().join(" ");
    let runs = "new>ready ready>active active>";
    assert_eq!(of(&ids[0]), format!("{runs}done"));
    assert_eq!(of(&ids[1]), format!("{runs}done"));
    assert_eq!(of(&ids[2]), format!("{runs}dead(failed)"));
    assert_eq!(of(&ids[3]), format!("{runs}cancelled({})", &long[..REASON_BYTES]));
    assert_eq!(of(&ids[4]), format!("{runs}expired"));
    assert_eq!(of(&ids[5]), format!("{runs}scheduled"));
    assert_eq!(of(&ids[6]), format!("{runs}parked"));
    assert_eq!(of(&ids[7]), format!("{runs}retry"));
    assert!(told.iter().all(|told| told.task == "suite.task" && told.at_ms > 0), "{told:?}");
    let attempts: Vec<u32> = told.iter().filter(|told| told.id == ids[7]).map(|told| told.attempts).collect();
    assert_eq!(attempts, [0, 0, 1]);
    sound(&bed).await;
}

/// Changes by operators are reported like those by workers.
pub async fn changes_by_operators_are_reported(bed: Bed) {
    let mut reader = Reader::of(&bed).await;
    let later = bed.put_later(LONG).await;
    let failed = bed.put(1).await.remove(0);
    let mut lane = bed.lane().await;
    let job = lane.claim_one().await;
    assert!(lane.end(&job, nack(LONG)).await);
    let change = async |change, reason: Option<&str>, ids: &[JobId]| {
        bed.broker.change(&bed.queue, change, reason, ids).await.expect("it is answered");
    };
    change(Change::Promote, None, &[later.clone(), failed.clone()]).await;
    assert_eq!(
        reader.stories(&bed, &[&later, &failed]).await,
        ["new>scheduled scheduled>ready", "new>ready ready>active active>retry retry>ready"]
    );
    let jobs = lane.claim(2).await;
    change(Change::Cancel, Some("late"), std::slice::from_ref(&jobs[0].id)).await;
    assert!(lane.end(&jobs[1], Ending::Bury { reason: BuryReason::Failed, error: None }).await);
    change(Change::Requeue, None, &[later.clone(), failed.clone()]).await;
    change(Change::Delete, None, std::slice::from_ref(&jobs[0].id)).await;
    change(Change::Cancel, None, std::slice::from_ref(&jobs[1].id)).await;
    // The deletion of a record of an ended job is not a transition.
    change(Change::Delete, None, std::slice::from_ref(&jobs[1].id)).await;
    assert_eq!(
        reader.stories(&bed, &[&jobs[0].id, &jobs[1].id]).await,
        [
            "ready>active active>cancelled(late) cancelled>ready ready>removed",
            "ready>active active>dead(failed) dead>ready ready>cancelled"
        ]
    );
    sound(&bed).await;
}

/// At most 200 bytes of a reason are reported, without a partial character.
pub async fn a_long_reason_is_cut_behind_a_whole_character(bed: Bed) {
    let mut reader = Reader::of(&bed).await;
    for long in ["é", "a€", "🦀", "a🦀", "a"].map(|text| text.repeat(REASON_BYTES)) {
        let id = bed.put(1).await.remove(0);
        bed.broker.change(&bed.queue, Change::Cancel, Some(&long), std::slice::from_ref(&id)).await.expect("it is answered");
        let told = cut_reason(&long);
        assert!(long.starts_with(told) && told.len() <= REASON_BYTES && told.len() > REASON_BYTES - 4, "{told}");
        assert_eq!(reader.stories(&bed, &[&id]).await, [format!("new>ready ready>cancelled({told})")]);
    }
}

/// A scheduled job is reported when a turn finds that it is due. A job of a crashed process is
/// reported at the reclaim.
pub async fn changes_by_the_clock_are_reported(bed: Bed) {
    let mut reader = Reader::of(&bed).await;
    let mut soon = NewJob::new(JobId::make(), envelope("soon"));
    soon.due = Due::After(Duration::from_millis(20));
    let soon_id = soon.id.clone();
    bed.producer().await.stored(vec![soon]).await;
    let mut lane = bed.lane().await;
    let job = lane.wait_for_one().await;
    assert!(lane.end(&job, nack(Duration::ZERO)).await);
    let job = lane.wait_for_one().await;
    lane.ack(&[job]).await;
    assert_eq!(
        reader.stories(&bed, &[&soon_id]).await,
        ["new>scheduled scheduled>ready ready>active active>retry retry>ready ready>active active>done"]
    );
    let id = bed.put(1).await.remove(0);
    let mut dying = bed.dying_lane().await;
    dying.claim_one().await;
    bed.reclaim(&[&dying], CrashRule { max_crashes: 2, ..CrashRule::default() }).await;
    let mut again = bed.dying_lane().await;
    eventually("the suspect is due", async || {
        let mut turn = again.next().claim(1);
        turn.suspect = true;
        again.send(&turn).await.deliveries.pop()
    })
    .await;
    bed.reclaim(&[&again], CrashRule { max_crashes: 2, ..CrashRule::default() }).await;
    assert_eq!(reader.stories(&bed, &[&id]).await, ["new>ready ready>active active>retry retry>ready ready>active active>dead(crashed)"]);
}

/// A job that waits for a key is reported when it is held and when the key is free.
pub async fn jobs_with_keys_and_groups_are_reported_as_others(bed: Bed) {
    let mut reader = Reader::of(&bed).await;
    let keyed = |on_conflict| {
        let mut job = NewJob::new(JobId::make(), envelope("keyed"));
        job.unique = Some(Box::new(Unique::new(UniqueKey::of("suite.task", b"key")).on_conflict(on_conflict)));
        job
    };
    let (first, second) = (keyed(OnConflict::Skip), keyed(OnConflict::BufferOne));
    let [first_id, second_id] = [&first, &second].map(|job| job.id.clone());
    bed.put_job(first).await;
    let mut lane = bed.lane().await;
    let job = lane.claim_one().await;
    bed.put_job(second).await;
    lane.ack(&[job]).await;
    assert_eq!(reader.stories(&bed, &[&first_id, &second_id]).await, ["new>ready ready>active active>done", "new>held held>ready"]);
    // A job that has not started is replaced: it takes the new time, and there is no second job.
    let mut third = keyed(OnConflict::Replace);
    third.due = Due::After(LONG);
    bed.put_job(third).await;
    assert_eq!(reader.stories(&bed, &[&second_id]).await, ["ready>scheduled"]);
    let ids = groups::put(&bed, "a", 2).await;
    let jobs = lane.claim(2).await;
    lane.ack(&jobs[..1]).await;
    assert!(lane.end(&jobs[1], Ending::Return).await);
    assert_eq!(
        reader.stories(&bed, &[&ids[0], &ids[1]]).await,
        ["new>ready ready>active active>done", "new>ready ready>active active>ready"]
    );
    sound(&bed).await;
}

/// This also holds for the jobs of schedules, and for those of events.
pub async fn jobs_of_schedules_and_topics_are_reported_as_others(bed: Bed) {
    schedules::made(&bed, &ScheduleState::default(), None).await;
    let mut reader = Reader::of(&bed).await;
    let id = schedules::tick(&bed, 1_000).await;
    let mut lane = bed.lane().await;
    let job = lane.claim_one().await;
    lane.ack(&[job]).await;
    assert_eq!(reader.stories(&bed, &[&id]).await, ["new>ready ready>active active>done"]);
    topics::subscribe(&bed, "billing", Begin::Start).await;
    let subscription = subscription_address("billing", &bed.queue);
    let mut lane = topics::lane(&bed, "billing").await;
    lane.claim(1).await;
    topics::publish(&bed, [7]).await;
    let topic = bed.queue.clone();
    let bed = bed.in_queue(&subscription);
    let last = bed.broker.follow(&bed.queue, FOLLOWED).await.expect("a subscription can be followed").last.expect("it exists");
    let job = eventually("the event is a job", async || lane.claim(1).await.pop()).await;
    assert_eq!(read(&bed, last).await.entries.iter().map(step).collect::<Vec<_>>(), ["new>ready", "ready>active"], "{topic}");
    lane.ack(&[job]).await;
}

/// Without a mark nothing is recorded, and earlier transitions are removed.
pub async fn nothing_is_recorded_while_nobody_follows(bed: Bed) {
    assert_eq!(bed.broker.follow("suite-nobody-has-used-it", SHORT).await.expect("it is answered").last, None);
    bed.put(1).await;
    let first = bed.broker.follow(&bed.queue, SHORT).await.expect("it is answered");
    assert_eq!((first.last, first.was_valid), (Some(0), false), "nobody followed");
    bed.put(1).await;
    let second = bed.broker.follow(&bed.queue, SHORT).await.expect("it is answered");
    assert_eq!((second.last, second.was_valid, &second.life), (Some(1), true, &first.life), "somebody does");
    sleep(SHORT + Duration::from_millis(20)).await;
    bed.put(2).await;
    for _ in 0..2 {
        bed.broker.sweep(&bed.queue, &SweepLimits::default()).await.expect("a sweep is answered");
    }
    let read = read(&bed, 0).await;
    assert!(read.entries.is_empty() && read.upto <= 1, "{read:?}");
    sound(&bed).await;
    let third = bed.broker.follow(&bed.queue, SHORT).await.expect("it is answered");
    assert!(!third.was_valid, "whoever followed before has missed something");
    bed.put(1).await;
    let told = self::read(&bed, third.last.expect("the queue exists")).await.entries;
    assert_eq!(told.iter().map(step).collect::<Vec<_>>(), ["new>ready"], "it is told anew");
}

/// Another watcher sets the mark after that of the first has expired. The first detects by the life
/// that it has missed transitions.
pub async fn a_mark_that_begins_again_is_another_life(bed: Bed) {
    let brief = Duration::from_millis(400);
    bed.put(1).await;
    let mut before = bed.broker.follow(&bed.queue, brief).await.expect("it is answered");
    for sweeps in 0..3 {
        bed.put(1).await;
        sleep(brief + Duration::from_millis(20)).await;
        bed.put(1).await;
        for _ in 0..sweeps {
            bed.broker.sweep(&bed.queue, &SweepLimits::default()).await.expect("a sweep is answered");
        }
        let anew = bed.broker.follow(&bed.queue, brief).await.expect("it is answered");
        assert!(!anew.was_valid && anew.life != before.life, "{before:?} {anew:?}");
        assert!(anew.last >= before.last, "the numbers go on: {before:?} {anew:?}");
        let read = read(&bed, anew.last.expect("the queue exists")).await;
        assert_eq!(read.life, anew.life, "an answer says of which life it is");
        before = anew;
    }
}

/// An edit within a state reports nothing, although the job moves.
pub async fn an_edit_within_a_state_is_no_transition(bed: Bed) {
    let id = bed.put(1).await.remove(0);
    let mut reader = Reader::of(&bed).await;
    let edit = async |change: fn(&mut EditJob)| {
        let job = bed.show(&id).await.expect("it is stored");
        let mut edit = EditJob::new(&*bed.queue, job.id, SeenJob::new(job.envelope, job.priority, job.group, job.at_ms));
        change(&mut edit);
        assert_eq!(bed.broker.edit(&edit).await.expect("an edit is answered"), EditedJob::Yes);
    };
    edit(|edit| edit.priority = Priority::High).await;
    edit(|edit| edit.group = Some(groups::name("a"))).await;
    assert_eq!(reader.stories(&bed, &[&id]).await, [""]);
    edit(|edit| edit.at_ms = Some(4_102_444_800_000)).await;
    assert_eq!(reader.stories(&bed, &[&id]).await, ["ready>scheduled"]);
}

/// A job that is parked because its task is paused was never active.
pub async fn a_job_of_a_paused_task_never_was_active(bed: Bed) {
    let mut reader = Reader::of(&bed).await;
    let pause = SetPause::pause(bed.queue.clone(), PauseOf::Task("suite.task".into()), Pausing::new());
    bed.broker.set_pause(&pause).await.expect("it can be paused");
    let first = bed.put(1).await.remove(0);
    let other = NewJob::new(JobId::make(), Envelope::new("suite.other", b"\x80").encode().expect("a small envelope can be encoded"));
    let other_id = other.id.clone();
    bed.put_job(other).await;
    let last = bed.put(1).await.remove(0);
    assert_eq!(bed.lane().await.claim(3).await.len(), 1);
    let parked = "new>ready ready>parked";
    assert_eq!(reader.stories(&bed, &[&first, &other_id, &last]).await, [parked, "new>ready ready>active", parked]);
    sound(&bed).await;
}

/// A mark expires in time, and a shorter one does not end a longer one.
pub async fn a_shorter_mark_ends_no_longer_one(bed: Bed) {
    bed.put(1).await;
    bed.broker.follow(&bed.queue, Duration::from_secs(3600)).await.expect("it is answered");
    bed.broker.follow(&bed.queue, Duration::from_millis(1)).await.expect("it is answered");
    sleep(Duration::from_millis(50)).await;
    let followed = bed.broker.follow(&bed.queue, SHORT).await.expect("it is answered");
    assert!(followed.was_valid);
}

/// A bounded number of the last transitions is kept. A reader is notified of the number of missed
/// ones.
pub async fn a_late_reader_learns_how_many_are_lost(bed: Bed) {
    let mut reader = Reader::of(&bed).await;
    let (mut lane, mut producer) = (bed.lane().await, Producer::on(&bed.broker, &bed.queue).await);
    let mut rounds = 0;
    while 1_500 * rounds <= TRANSITIONS_KEPT + 1_000 {
        rounds += 1;
        producer.stored((0..500).map(|_| NewJob::new(JobId::make(), envelope("many"))).collect()).await;
        let jobs = lane.claim(500).await;
        assert_eq!(jobs.len(), 500);
        lane.ack(&jobs).await;
        bed.broker.follow(&bed.queue, FOLLOWED).await.expect("it is answered");
    }
    let all = 1_500 * rounds;
    let (mut seen, mut lost) = (0, 0);
    loop {
        let read = read(&bed, reader.after).await;
        if read.upto == reader.after {
            break;
        }
        (seen, lost, reader.after) = (seen + read.entries.len() as u64, lost + read.lost.expect("it is known"), read.upto);
    }
    assert_eq!(seen + lost, all, "each is told or counted");
    assert!(seen > TRANSITIONS_KEPT / 2 && seen <= TRANSITIONS_KEPT + 1_000, "{seen} of {all}");
    sound(&bed).await;
}

/// A request may change more jobs than it reports. The others are counted as lost, or are still
/// reported.
pub async fn a_request_with_many_transitions_reports_or_counts_each(bed: Bed) {
    let mut lane = bed.lane().await;
    bed.put(500).await;
    let jobs = lane.claim(500).await;
    bed.put(500).await;
    let mut soon = Vec::new();
    for _ in 0..200 {
        let mut job = NewJob::new(JobId::make(), envelope("soon"));
        job.due = Due::After(Duration::from_millis(300));
        soon.push(job);
    }
    bed.producer().await.stored(soon).await;
    let mut reader = Reader::of(&bed).await;
    sleep(Duration::from_millis(320)).await;
    let turn = lane.next().finish(jobs.iter().map(|job| finish(job, ack())).collect()).claim(500);
    assert_eq!(lane.send(&turn).await.deliveries.len(), 500);
    let (mut seen, mut lost) = (0, 0);
    loop {
        let read = read(&bed, reader.after).await;
        if read.upto == reader.after {
            break;
        }
        (seen, lost, reader.after) = (seen + read.entries.len() as u64, lost + read.lost.expect("it is known"), read.upto);
    }
    assert_eq!(seen + lost, 1_200, "500 ends, 200 that are due, 500 starts");
    assert!(seen >= 1_000, "{seen}");
}

/// Another process reads the same transitions, from any position, and in parts of any size.
pub async fn any_number_of_readers_read_the_same(mut bed: Bed) {
    let reader = Reader::of(&bed).await;
    bed.put(30).await;
    let mut lane = Lane::on(&bed.broker, &bed.queue).await;
    let jobs = lane.claim(30).await;
    lane.ack(&jobs).await;
    let other = bed.another_process().await;
    let all = other.transitions(&bed.queue, reader.after, 1_000).await.expect("it is answered").entries;
    assert_eq!(all.len(), 90);
    let (mut pieces, mut after) = (Vec::new(), reader.after);
    loop {
        let read = bed.broker.transitions(&bed.queue, after, 7).await.expect("it is answered");
        assert_eq!(read.lost, Some(0));
        if read.upto == after {
            break;
        }
        (pieces, after) = ([pieces, read.entries].concat(), read.upto);
    }
    assert_eq!(pieces, all);
    let late = bed.broker.transitions(&bed.queue, after + 7, 7).await.expect("it is answered");
    assert_eq!((late.entries.len(), late.lost, late.upto), (0, None, after), "no such number was given");
}
