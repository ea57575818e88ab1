//! How much the longest script does, counted in instructions: no machine that lets others have the
//! processor adds to them.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use futures_util::{
    FutureExt,
    stream::{StreamExt, TryStreamExt, iter},
};
use queue_core::{
    JobId,
    broker::{
        Audit, BuryReason, CrashRule, Due, DynBroker, Ending, Enqueue, Finish, KeepLimits, MAX_ITEMS, NewJob, PartyName, ProcessId,
        Register, SweepLimits, Turn,
    },
    prelude::*,
};

use crate::{
    Error,
    counted::{self, Lap, Meter},
    frame::{Figure, Reading, Readings, When},
    server::Server,
    worker::{Running, drain, jobs},
};

const QUEUE: &str = "bench";

/// Jobs that are due at once.
const CROWD: usize = 1_000_000;

/// Lanes whose leases end at once, with a job each.
const LANES: usize = 8_001;

/// Longer than anything takes, on a server that counts.
const LEASE: Duration = Duration::from_secs(3600);

/// Most jobs that a worker claims in one turn, and most that it hands in, if they are done and not
/// kept.
const MOST: usize = 256;

/// A kind of endings, and how many of them a worker hands in in one turn.
type Kind = (&'static str, usize, fn() -> Ending);

const ENDINGS: [Kind; 4] = [
    ("keep", MOST / 2, || Ending::Ack { result: Some(vec![b'x'; 100]), keep: Some(LEASE) }),
    ("nack", MOST / 4, || Ending::Nack { delay: LEASE, error: "x".repeat(200) }),
    ("snooze", MOST / 4, || Ending::Snooze { delay: LEASE }),
    ("bury", MOST / 4, || Ending::Bury { reason: BuryReason::Failed, error: Some("x".repeat(200)) }),
];

pub(crate) fn figures() -> Vec<Figure> {
    let about = "Needs Valgrind; only taken by name. Instructions of the longest script of each kind, beside the half of them, with a million jobs due at once and 8,001 leases that end at once; and the processor time of the longest, at the pace of the same requests without Valgrind.";
    vec![Figure::program("instructions", about, |program| instructions(program).boxed()).when(When::Named).most_runs(1)]
}

async fn instructions(program: &Path) -> Readings {
    let server = Server::by_cpu(program)?;
    crowd(&server).await?;
    let (counting, counts) = counted::server(program, &server.folder().join("dump.rdb"))?;
    let timed = play(&server, &Meter::Time(&server)).await?;
    let counted = play(&counting, &Meter::Instructions(&counting, counts)).await?;
    let mut readings = Vec::new();
    for (timed, counted) in timed.iter().zip(&counted) {
        let (name, longest) = (counted.name, counted.millions(100.0));
        let ms_of_a_million = timed.total / 1e3 / (counted.total / 1e6);
        readings.push(Reading::new(format!("_{name}"), longest, "M").beside(counted.millions(50.0), "half of them"));
        readings.push(Reading::new(format!("_{name}_rare"), counted.millions(99.9), "M, 99.9 %"));
        readings.push(Reading::new(format!("_{name}_ms"), longest * ms_of_a_million, "ms"));
    }
    Ok(readings)
}

/// Saves a queue in which leases have ended and all jobs are due.
async fn crowd(server: &Server) -> Result<(), Error> {
    let client = Client::connect(&server.url()).await?;
    client.enqueue_all(jobs(LANES)).await?;
    let broker = client.broker();
    let claims = iter(0..LANES).map(|_| async {
        let lane = broker.register(&Register::lane(QUEUE, ProcessId::random(), LEASE)).await?.name;
        broker.turn(&Turn::new(QUEUE, lane, 1, Duration::from_millis(500)).claim(1)).await
    });
    claims.buffer_unordered(64).try_collect::<Vec<_>>().await?;
    let due = SystemTime::now() + Duration::from_secs(15);
    client.enqueue_all(jobs(CROWD).map(|job| job.at(due))).await?;
    redis::cmd("SAVE").query::<()>(&mut server.connection()?)?;
    let left = due.duration_since(SystemTime::now()).map_err(|_| "the jobs were due before all were enqueued")?;
    tokio::time::sleep(left).await;
    Ok(())
}

/// All that a queue is asked for, one request after the other.
async fn play(server: &Server, meter: &Meter<'_>) -> Result<Vec<Lap>, Error> {
    let client = Client::connect(&server.url()).await?;
    let mut laps = Vec::new();
    let mut lane = Lane::new(client.broker()).await?;
    meter.start()?;
    let mut held = Vec::new();
    for _ in 0..2_000 {
        held = lane.turn(MOST, held, done).await?;
    }
    laps.push(meter.lap("turn")?);

    let broker = client.broker();
    let mut overdue = broker.overdue(QUEUE, 0, MAX_ITEMS).await?;
    while !overdue.expired.is_empty() {
        broker.fence(QUEUE, &overdue.expired).await?;
        overdue = broker.overdue(QUEUE, 0, MAX_ITEMS).await?;
    }
    laps.push(meter.lap("fence")?);
    let mut moved = 1;
    while moved > 0 {
        let swept = broker.reclaim(QUEUE, &CrashRule::default()).await?;
        moved = swept.returned + swept.charged + swept.buried.len() + swept.forgotten;
    }
    laps.push(meter.lap("reclaim")?);
    // What a crash was charged waits for a second.
    tokio::time::sleep(Duration::from_secs(2)).await;
    for _ in 0..200 {
        held = lane.turn(MOST, held, done).await?;
    }
    laps.push(meter.lap("turn_after_crashes")?);

    let running = Running::start(&client, MOST);
    let n = 60_000;
    running.counter.want(n);
    drain(&running, std::time::Instant::now(), n).await?;
    running.stop().await;
    laps.push(meter.lap("worker")?);

    let mut producer = Producer::new(broker).await?;
    for _ in 0..100 {
        producer.enqueue(Due::Now).await?;
    }
    laps.push(meter.lap("enqueue")?);
    for _ in 0..20 {
        producer.enqueue(Due::After(LEASE)).await?;
    }
    laps.push(meter.lap("enqueue_later")?);
    for _ in 0..50 {
        held = lane.turn(MOST, held, done).await?;
    }
    lane.turn(0, held, done).await?;
    laps.push(meter.lap("turn_of_most")?);
    for (name, n, ending) in ENDINGS {
        for _ in 0..10 {
            let mut held = lane.turn(MOST, Vec::new(), done).await?;
            let others = held.split_off(n);
            lane.turn(0, others, done).await?;
            held = lane.turn(MOST, held, ending).await?;
            lane.turn(0, held, done).await?;
        }
        laps.push(meter.lap(name)?);
    }
    let all = SweepLimits { dead_bytes: 0, keep: KeepLimits { count: 0, bytes: 0 }, ..SweepLimits::default() };
    while !broker.sweep(QUEUE, &all).await?.is_empty() {}
    laps.push(meter.lap("sweep")?);
    client.inspector().stats(QUEUE).await?;
    laps.push(meter.lap("stats")?);
    let how = Audit { repair: true, thorough: false };
    broker.audit(QUEUE, how).await?;
    laps.push(meter.lap("audit")?);
    let lost = "local ids = redis.call('ZRANGE', KEYS[1], 0, 99) redis.call('ZREM', KEYS[1], unpack(ids))";
    redis::cmd("EVAL").arg(lost).arg(1).arg(format!("queue:{{{QUEUE}}}:scheduled")).query::<()>(&mut server.connection()?)?;
    meter.start()?;
    let repaired = broker.audit(QUEUE, how).await?;
    laps.push(meter.lap("repair")?);
    if repaired.len() != 100 {
        return Err(format!("{} jobs were repaired, of 100", repaired.len()).into());
    }
    Ok(laps)
}

pub(super) fn done() -> Ending {
    Ending::Ack { result: None, keep: None }
}

/// A lane that speaks to the broker itself.
pub(super) struct Lane {
    broker: DynBroker,
    name: PartyName,
    turns: u64,
}

impl Lane {
    pub(super) async fn new(broker: &DynBroker) -> Result<Self, Error> {
        let name = broker.register(&Register::lane(QUEUE, ProcessId::random(), LEASE)).await?.name;
        Ok(Lane { broker: broker.clone(), name, turns: 0 })
    }

    pub(super) async fn turn(&mut self, claim: usize, held: Vec<(JobId, u64)>, ending: fn() -> Ending) -> Result<Vec<(JobId, u64)>, Error> {
        self.turns += 1;
        let finishes = held.into_iter().map(|(id, claim)| Finish { id, claim, size: 0, ending: ending(), used: None }).collect();
        let turn = Turn::new(QUEUE, self.name.clone(), self.turns, LEASE).claim(claim).finish(finishes);
        let answer = self.broker.turn(&turn).await?;
        Ok(answer.deliveries.into_iter().map(|delivery| (delivery.id, delivery.claim)).collect())
    }
}

struct Producer {
    broker: DynBroker,
    name: PartyName,
    enqueues: u64,
    envelope: Vec<u8>,
}

impl Producer {
    async fn new(broker: &DynBroker) -> Result<Self, Error> {
        let name = broker.register(&Register::producer(QUEUE, ProcessId::random())).await?.name;
        let envelope = queue_core::__private::Envelope::new("nothing", &[b'x'; 100]).encode()?;
        Ok(Producer { broker: broker.clone(), name, enqueues: 0, envelope })
    }

    async fn enqueue(&mut self, due: Due) -> Result<(), Error> {
        self.enqueues += 1;
        let job = || {
            let mut job = NewJob::new(JobId::make(), self.envelope.clone());
            job.due = due;
            job
        };
        let jobs = (0..MAX_ITEMS).map(|_| job()).collect();
        self.broker.enqueue(&Enqueue::new(QUEUE, self.name.clone(), self.enqueues, jobs)).await?;
        Ok(())
    }
}
