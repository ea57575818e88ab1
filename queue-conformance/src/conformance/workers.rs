//! Workers: what is told of those that are registered, and for how long.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use queue_core::{
    Error,
    broker::{
        AskWorker, Audit, ProcessId, Register, SweepLimits, TASKS_MAX, Turn, WorkerAsk, WorkerAsked, WorkerInfo, WorkerLoad, WorkerMode,
        WorkerRecord,
    },
};

use super::bed::{Bed, LONG, Lane, SHORT, ack, eventually};

fn info(release: &str) -> WorkerInfo {
    WorkerInfo::new("web-1", 4711, release, ["mail.send", "orders.close"])
}

async fn workers(bed: &Bed) -> Vec<WorkerRecord> {
    bed.inspector().workers_of(&bed.queue).await.expect("workers can be listed")
}

/// The ids of those that are listed.
async fn ids(bed: &Bed) -> Vec<ProcessId> {
    let mut ids: Vec<ProcessId> = workers(bed).await.into_iter().map(|worker| worker.id).collect();
    ids.sort_unstable();
    ids
}

/// Waits until no worker can have the time of registration that it would have now.
async fn wait_for_another_time(bed: &Bed) {
    let now = async || bed.broker.register(&Register::producer("clock", ProcessId::random())).await.unwrap().now_ms;
    let before = now().await;
    eventually("the broker's clock goes on", async || (now().await > before).then_some(())).await;
}

/// People see what a worker said when it registered, and since when it is there by the broker's
/// clock.
pub async fn a_registered_worker_is_listed_with_what_it_says(bed: Bed) {
    let process = ProcessId::random();
    let lane = bed.lane_saying(process, LONG, info("v42")).await;
    let [worker] = &workers(&bed).await[..] else { panic!("one worker is listed") };
    assert_eq!((worker.id, worker.host.as_str(), worker.pid, worker.release.as_str()), (process, "web-1", 4711, "v42"));
    assert_eq!((worker.tasks.join(" "), worker.task_count), ("mail.send orders.close".to_owned(), 2));
    assert_eq!((worker.queues.join(" "), worker.lanes), (lane.queue.to_string(), 1));
    let since = worker.since.expect("the time is known");
    assert!(SystemTime::now().duration_since(since).is_ok_and(|age| age < Duration::from_secs(60)), "{since:?}");
    assert!(worker.lease_age < Duration::from_secs(60) && worker.lease_left > LONG - Duration::from_secs(60), "{worker:?}");
    let stats = bed.stats().await;
    assert_eq!((stats.workers, stats.lanes), (1, 1));
}

/// A lane that the broker has forgotten although its lease stood tells the one that takes its
/// place, and people see when that was.
pub async fn a_lane_in_the_place_of_a_lost_one_leaves_a_note_of_the_loss(bed: Bed) {
    let register = |lost| Register::lane(bed.queue.clone(), ProcessId::random(), LONG).after_loss(lost);
    bed.broker.register(&register(false)).await.unwrap();
    assert_eq!(bed.stats().await.lost_at, None);
    let now_ms = bed.broker.register(&register(true)).await.unwrap().now_ms;
    let noted = Some(UNIX_EPOCH + Duration::from_millis(now_ms.unsigned_abs()));
    assert_eq!(bed.stats().await.lost_at, noted);
    bed.broker.register(&register(false)).await.unwrap();
    assert_eq!(bed.stats().await.lost_at, noted, "the note stays");
}

/// A producer hears whether the queue is one that workers serve, or have served.
pub async fn a_producer_learns_whether_a_worker_has_ever_served_its_queue(bed: Bed) {
    let served = async || bed.broker.register(&Register::producer(bed.queue.clone(), ProcessId::random())).await.unwrap().served;
    assert!(!served().await && !served().await, "a producer serves nothing");
    bed.put(1).await;
    assert!(!served().await);
    let mut lane = bed.dying_lane().await;
    assert!(served().await);
    let held = lane.claim(1).await;
    assert!(lane.end(&held[0], ack()).await);
    bed.fence(&[&lane]).await;
    bed.sweep(1, Default::default()).await;
    assert!(served().await, "one that is gone has served it");
}

/// Lanes are not workers: a second lane adds none, and changes neither the record nor its time.
pub async fn a_second_lane_of_a_worker_changes_no_record(bed: Bed) {
    let process = ProcessId::random();
    let _first = bed.lane_saying(process, LONG, info("v42")).await;
    let before = workers(&bed).await;
    wait_for_another_time(&bed).await;
    let _second = bed.lane_saying(process, LONG, info("v43")).await;
    let after = workers(&bed).await;
    assert_eq!((after.len(), after[0].lanes), (1, 2));
    assert_eq!((after[0].release.as_str(), after[0].since), ("v42", before[0].since));
    let stats = bed.stats().await;
    assert_eq!((stats.workers, stats.lanes), (1, 2));
}

/// Two processes on one host are two workers.
pub async fn two_workers_are_distinguished(bed: Bed) {
    let processes = [ProcessId::random(), ProcessId::random()];
    let _lanes = [bed.lane_saying(processes[0], LONG, info("v1")).await, bed.lane_saying(processes[1], LONG, info("v2")).await];
    let found = workers(&bed).await;
    for (process, release) in processes.iter().zip(["v1", "v2"]) {
        let worker = found.iter().find(|worker| worker.id == *process).expect("it is listed");
        assert_eq!((worker.release.as_str(), worker.lanes), (release, 1));
    }
    assert_eq!((found.len(), bed.stats().await.workers), (2, 2));
}

/// A lane whose worker says nothing is a worker of which nothing else is known.
pub async fn a_worker_that_reports_nothing_is_listed(bed: Bed) {
    let lane = bed.lane().await;
    let [worker] = &workers(&bed).await[..] else { panic!("one worker is listed") };
    assert_eq!((worker.id.to_string().as_str(), worker.host.as_str(), worker.pid), (lane.name.process(), "", 0));
    assert!(worker.release.is_empty() && worker.task_count == 0 && worker.since.is_some());
}

/// A producer is no worker, and says nothing of itself.
pub async fn a_producer_is_no_worker(bed: Bed) {
    bed.put(1).await;
    assert_eq!((workers(&bed).await, bed.stats().await.workers), (Vec::new(), 0));
    assert_eq!(bed.broker.workers("a-queue-that-nobody-knows").await.unwrap(), []);
    assert!(matches!(bed.inspector().workers_of("a b").await, Err(Error::Invalid { .. })));
}

/// A record of the largest size comes back whole.
pub async fn a_worker_with_many_tasks_is_listed_with_their_number(bed: Bed) {
    let tasks: Vec<String> = (0..TASKS_MAX + 500).map(|n| format!("reports.task-{n}")).collect();
    let info = WorkerInfo::new("web-1", 1, "v42", tasks.iter().map(String::as_str));
    let _lane = bed.lane_saying(ProcessId::random(), LONG, info).await;
    let [worker] = &workers(&bed).await[..] else { panic!("one worker is listed") };
    assert_eq!((worker.tasks.len(), worker.task_count), (TASKS_MAX, TASKS_MAX as u64 + 500));
    assert_eq!(worker.tasks, tasks[..TASKS_MAX]);
}

/// A heartbeat and a turn say nothing of the worker, but that it was heard of.
pub async fn a_heartbeat_makes_the_newest_lease_of_a_worker_younger(bed: Bed) {
    let mut lane = bed.lane().await;
    wait_for_another_time(&bed).await;
    let old = eventually("the lease has an age", async || {
        workers(&bed).await.pop().filter(|worker| worker.lease_age >= Duration::from_millis(20))
    })
    .await;
    assert!(bed.broker.extend(&[lane.heartbeat(LONG)]).await[0].is_ok());
    let young = workers(&bed).await.remove(0);
    assert_eq!((young.since, young.lanes), (old.since, 1));
    assert!(young.lease_age < old.lease_age + Duration::from_secs(5) && young.lease_left > LONG - Duration::from_secs(5), "{young:?}");
    lane.claim(0).await;
    assert_eq!(workers(&bed).await.remove(0).since, old.since);
}

/// A heartbeat of one lane says what its worker uses. It stands until another says so; other
/// heartbeats and turns change nothing of it.
pub async fn a_worker_is_listed_with_what_it_reported_last_that_it_uses(bed: Bed) {
    let process = ProcessId::random();
    let mut lane = bed.lane_saying(process, LONG, info("v42")).await;
    let other = bed.lane_saying(process, LONG, info("v42")).await;
    let stranger = bed.lane().await;
    let load = async || {
        let listed = workers(&bed).await;
        assert!(listed.iter().all(|worker| worker.id == process || worker.load.is_none()), "{listed:?}");
        listed.into_iter().find(|worker| worker.id == process).expect("it is listed").load
    };
    assert_eq!(load().await, None, "it has said nothing yet");
    let said = WorkerLoad::new(3, 64).using(Some(48_234_496), Some(1_250));
    assert!(bed.broker.extend(&[lane.heartbeat(LONG).with_load(said), stranger.heartbeat(LONG)]).await.iter().all(Result::is_ok));
    let what = |load: WorkerLoad| (load.memory, load.cpu_millis, load.busy, load.slots);
    let told = load().await.expect("it has said so");
    assert!(told.age < Duration::from_secs(60), "{told:?}");
    assert_eq!(what(told), what(said));
    wait_for_another_time(&bed).await;
    lane.claim(0).await;
    assert!(bed.broker.extend(&[lane.heartbeat(LONG), other.heartbeat(LONG)]).await.iter().all(Result::is_ok));
    let older = load().await.expect("it stands");
    assert!(older.age > Duration::ZERO && what(older) == what(said), "{older:?}");
    // Through another lane, and with less that is known.
    assert!(bed.broker.extend(&[other.heartbeat(LONG).with_load(WorkerLoad::new(0, 64))]).await[0].is_ok());
    let told = load().await.expect("it has said so again");
    assert_eq!(what(told), (None, None, 0, 64));
    assert_eq!(bed.broker.audit(&bed.queue, Audit { repair: false, thorough: true }).await.unwrap(), []);
}

/// Nothing that it has said is left of a worker that is gone, and one that was forgotten says
/// nothing.
pub async fn what_a_worker_uses_goes_with_its_last_lane(bed: Bed) {
    let process = ProcessId::random();
    let first = bed.lane_saying(process, SHORT, info("v42")).await;
    let second = bed.lane_saying(process, SHORT, info("v42")).await;
    let heartbeat = |lane: &Lane| lane.heartbeat(SHORT).with_load(WorkerLoad::new(1, 2));
    assert!(bed.broker.extend(&[heartbeat(&first)]).await[0].is_ok());
    bed.fence(&[&first]).await;
    assert!(workers(&bed).await[0].load.is_some(), "it has another lane");
    bed.fence(&[&second]).await;
    for lane in [&first, &second] {
        assert!(matches!(bed.broker.extend(&[heartbeat(lane)]).await[0], Err(Error::Forgotten(_))));
    }
    assert_eq!(bed.broker.audit(&bed.queue, Audit { repair: false, thorough: true }).await.unwrap(), []);
    let _again = bed.lane_saying(process, LONG, info("v42")).await;
    let again = workers(&bed).await.remove(0);
    assert_eq!((again.id, again.load), (process, None));
}

/// Asks a worker in the queue of the test.
async fn ask(bed: &Bed, process: ProcessId, number: u64, mode: WorkerMode) -> WorkerAsked {
    let request = AskWorker::new(bed.queue.clone(), process, WorkerAsk::new(number, mode, "ada"));
    bed.broker.ask_worker(&request).await.expect("a worker can be asked")
}

/// A heartbeat that says what a worker uses, and what it hears.
async fn hears(bed: &Bed, lane: &Lane, heard: u64) -> Option<WorkerAsk> {
    let heartbeat = lane.heartbeat(LONG).with_load(WorkerLoad::new(0, 64).working(WorkerMode::Quiet, heard));
    bed.broker.extend(&[heartbeat]).await.remove(0).expect("the lease is renewed").asked
}

/// What a worker is asked comes with the answer to each heartbeat that says what it uses, and with
/// no other.
pub async fn a_worker_learns_what_it_is_asked_with_its_next_heartbeat(bed: Bed) {
    let (process, other) = (ProcessId::random(), ProcessId::random());
    let lane = bed.lane_saying(process, LONG, info("v42")).await;
    let stranger = bed.lane_saying(other, LONG, info("v42")).await;
    assert_eq!(ask(&bed, process, 1, WorkerMode::Quiet).await, WorkerAsked::Absent, "it has said nothing yet");
    assert_eq!((hears(&bed, &lane, 0).await, hears(&bed, &stranger, 0).await), (None, None));
    assert_eq!(ask(&bed, process, 1, WorkerMode::Quiet).await, WorkerAsked::Stored);
    let asked = Some(WorkerAsk::new(1, WorkerMode::Quiet, "ada"));
    let of = async |id| workers(&bed).await.into_iter().find(|worker| worker.id == id).expect("it is listed");
    let worker = of(process).await;
    assert_eq!(
        (worker.asked.as_ref(), worker.unconfirmed_request(), worker.reports_to.as_deref()),
        (asked.as_ref(), asked.as_ref(), Some(&*bed.queue))
    );
    assert_eq!(
        bed.broker.extend(&[lane.heartbeat(LONG)]).await.remove(0).unwrap().asked,
        None,
        "this heartbeat does not speak for the worker"
    );
    assert_eq!((hears(&bed, &stranger, 0).await, hears(&bed, &lane, 0).await), (None, asked.clone()));
    assert_eq!(hears(&bed, &lane, 1).await, asked, "it comes each time, and counts once");
    let worker = of(process).await;
    assert_eq!((worker.mode(), worker.unconfirmed_request(), worker.asked.as_ref()), (WorkerMode::Quiet, None, asked.as_ref()));
    assert_eq!(of(other).await.asked, None);
    assert_eq!(bed.broker.audit(&bed.queue, Audit { repair: false, thorough: true }).await.unwrap(), []);
}

/// A request has a number. One with a smaller number, or another one with the same, is told so and
/// changes nothing.
pub async fn the_latest_request_to_a_worker_counts(bed: Bed) {
    let process = ProcessId::random();
    let lane = bed.lane_saying(process, LONG, info("v42")).await;
    hears(&bed, &lane, 0).await;
    for (number, mode, answer, heard) in [
        (2, WorkerMode::Quiet, WorkerAsked::Stored, (2, WorkerMode::Quiet)),
        (2, WorkerMode::Quiet, WorkerAsked::Stored, (2, WorkerMode::Quiet)),
        (2, WorkerMode::Stopping, WorkerAsked::Stale, (2, WorkerMode::Quiet)),
        (1, WorkerMode::Works, WorkerAsked::Stale, (2, WorkerMode::Quiet)),
        (3, WorkerMode::Works, WorkerAsked::Stored, (3, WorkerMode::Works)),
        (9, WorkerMode::Stopping, WorkerAsked::Stored, (9, WorkerMode::Stopping)),
    ] {
        assert_eq!(ask(&bed, process, number, mode).await, answer, "{number} {mode}");
        assert_eq!(hears(&bed, &lane, 0).await.map(|ask| (ask.number, ask.mode)), Some(heard));
    }
    let worker = workers(&bed).await.remove(0);
    assert_eq!(bed.inspector().ask_worker(&worker, WorkerMode::Works, "ada").await.unwrap(), 10);
    // Whoever has looked before is not the last.
    assert_eq!(bed.inspector().ask_worker(&worker, WorkerMode::Quiet, "ada").await.unwrap(), 11);
    assert_eq!(hears(&bed, &lane, 0).await.map(|ask| (ask.number, ask.mode)), Some((11, WorkerMode::Quiet)));
}

/// Nothing is left of a request to a worker that is gone: not for those that come after it, and not
/// for itself if it registers again.
pub async fn a_request_goes_with_its_worker(bed: Bed) {
    let process = ProcessId::random();
    let lane = bed.lane_saying(process, SHORT, info("v42")).await;
    assert!(bed.broker.extend(&[lane.heartbeat(SHORT).with_load(WorkerLoad::new(1, 2))]).await[0].is_ok());
    assert_eq!(ask(&bed, process, 1, WorkerMode::Stopping).await, WorkerAsked::Stored);
    bed.fence(&[&lane]).await;
    assert_eq!(ask(&bed, process, 2, WorkerMode::Stopping).await, WorkerAsked::Absent);
    assert_eq!(bed.broker.audit(&bed.queue, Audit { repair: false, thorough: true }).await.unwrap(), []);
    let again = bed.lane_saying(process, LONG, info("v42")).await;
    assert_eq!(hears(&bed, &again, 0).await, None);
    assert_eq!(workers(&bed).await[0].asked, None);
}

/// Until it is fenced, a worker whose lease is over is listed, and does not count.
pub async fn a_worker_whose_lease_is_over_is_listed_and_not_counted(bed: Bed) {
    let lane = bed.dying_lane().await;
    let worker = eventually("its lease ends", async || workers(&bed).await.pop().filter(|worker| worker.lease_left.is_zero())).await;
    assert_eq!((worker.id.to_string().as_str(), worker.lanes), (lane.name.process(), 1));
    let stats = bed.stats().await;
    assert_eq!((stats.workers, stats.lanes), (0, 0));
}

/// A worker that stops gives its leases back, and says so: it was heard of then, not when a lease
/// of the usual length would have begun.
pub async fn a_worker_that_has_stopped_was_seen_when_it_reported_so(bed: Bed) {
    let process = ProcessId::random();
    let mut lane = bed.lane_saying(process, LONG, info("v42")).await;
    let other = bed.lane_saying(process, LONG, info("v42")).await;
    let load = WorkerLoad::new(0, 64).working(WorkerMode::Stopping, 1);
    assert!(bed.broker.extend(&[other.heartbeat(Duration::ZERO).with_load(load)]).await[0].is_ok());
    lane.send(&Turn::new(bed.queue.clone(), lane.name.clone(), lane.answered + 1, Duration::ZERO)).await;
    let worker = workers(&bed).await.remove(0);
    assert_eq!((worker.lanes, worker.mode(), worker.lease_left), (2, WorkerMode::Stopping, Duration::ZERO));
    assert!(worker.lease_age < LONG / 2, "{worker:?}");
    assert_eq!(bed.stats().await.workers, 0);
}

/// The record goes with the last lane of its worker, at once when that is fenced, and with no lane
/// before it.
pub async fn the_last_lane_of_a_worker_takes_its_record(bed: Bed) {
    let (dying, alive) = (ProcessId::random(), ProcessId::random());
    let lanes = [
        bed.lane_saying(dying, SHORT, info("v42")).await,
        bed.lane_saying(dying, SHORT, info("v42")).await,
        bed.lane_saying(alive, SHORT, info("v42")).await,
    ];
    let stays = bed.lane_saying(alive, LONG, info("v42")).await;
    bed.fence(&[&lanes[0]]).await;
    let worker = workers(&bed).await.into_iter().find(|worker| worker.id == dying).expect("it has another lane");
    assert_eq!((worker.release.as_str(), worker.lanes), ("v42", 1));
    bed.fence(&[&lanes[1], &lanes[2]]).await;
    assert_eq!(ids(&bed).await, [alive]);
    bed.sweep(3, Default::default()).await;
    let worker = workers(&bed).await.remove(0);
    assert_eq!((worker.release.as_str(), worker.lanes, stays.answered), ("v42", 1, 0));
    assert_eq!(bed.broker.audit(&bed.queue, Audit { repair: false, thorough: true }).await.unwrap(), []);
    // All lanes of a worker in one request.
    let both = [bed.lane_saying(dying, SHORT, info("v43")).await, bed.lane_saying(dying, SHORT, info("v43")).await];
    bed.fence(&[&both[0], &both[1]]).await;
    assert_eq!(ids(&bed).await, [alive]);
}

/// A worker that was forgotten stores its record again with its next lane, and is registered since
/// then.
pub async fn a_worker_that_registers_again_is_listed_again(bed: Bed) {
    let process = ProcessId::random();
    let mut lane = bed.lane_saying(process, SHORT, info("v42")).await;
    let before = workers(&bed).await.remove(0);
    bed.fence(&[&lane]).await;
    assert_eq!(ids(&bed).await, []);
    lane.lease = LONG;
    assert!(matches!(bed.broker.turn(&lane.next()).await, Err(Error::Forgotten(_))));
    assert!(matches!(bed.broker.extend(&[lane.heartbeat(LONG)]).await[0], Err(Error::Forgotten(_))));
    assert_eq!(ids(&bed).await, [], "what comes of a fenced lane makes no worker");
    wait_for_another_time(&bed).await;
    let _again: Lane = bed.lane_saying(process, LONG, info("v42")).await;
    // The reclaim of the old lane takes nothing of the new one.
    bed.sweep(1, Default::default()).await;
    let after = workers(&bed).await.remove(0);
    assert_eq!((after.id, after.release.as_str(), after.lanes), (process, "v42", 1));
    assert!(after.since > before.since);
}

/// Housekeeping removes no worker.
pub async fn a_sweep_removes_no_worker(bed: Bed) {
    let process = ProcessId::random();
    let _lane = bed.lane_saying(process, LONG, info("v42")).await;
    let before = workers(&bed).await.remove(0);
    bed.broker.sweep(&bed.queue, &SweepLimits { producers: Duration::ZERO, ..SweepLimits::default() }).await.unwrap();
    let after = workers(&bed).await.remove(0);
    assert_eq!((after.id, after.release, after.since), (process, before.release, before.since));
}

/// A worker of several queues is one worker.
pub async fn a_worker_of_several_queues_is_listed_once(bed: Bed) {
    let (process, alone) = (ProcessId::random(), ProcessId::random());
    let _lane = bed.lane_saying(process, LONG, info("v42")).await;
    let first = workers(&bed).await.remove(0);
    wait_for_another_time(&bed).await;
    let (name, other) = (bed.queue.clone(), format!("other-{}", bed.queue));
    let bed = bed.in_queue(&other);
    let _others = [bed.lane_saying(process, LONG, info("v42")).await, bed.lane_saying(alone, LONG, info("v43")).await];
    let all = bed.inspector().workers().await.unwrap();
    let of = |id| all.iter().filter(|worker| worker.id == id).collect::<Vec<_>>();
    let ([worker], [single]) = (&of(process)[..], &of(alone)[..]) else { panic!("each is listed once: {all:?}") };
    assert_eq!((worker.queues.join(" "), worker.lanes, worker.since), (format!("{other} {name}"), 2, first.since));
    assert_eq!((single.queues.join(" "), single.release.as_str()), (other, "v43"));
}
