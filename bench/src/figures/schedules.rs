//! What schedules cost, and how exactly they tick.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::{FutureExt, future::join_all};
use queue_core::{Client, broker::Counter, schedule::Schedule};

use super::process::process;
use crate::{
    Error,
    frame::{Figure, Reading, Readings},
    server::Server,
    stats::percentile,
    tasks::{hundred_bytes, noop, ticked},
    worker::{Running, patience},
};

pub(crate) fn figures() -> Vec<Figure> {
    let lateness = "Between the time of a tick and the start of its job: 20 schedules that tick each second, each tick up to 0.9 s later by its jitter, for 30 s.";
    let burst = "1,000 schedules that are due in the same millisecond, and one worker: the time until all their jobs are stored, and the CPU time of the longest script.";
    vec![
        Figure::redis(
            "schedules_process",
            "`process` while 100,000 schedules are stored in the same queue, beside `process` without them in the same run; bytes of redis-server per \
             schedule whose job has 100 bytes; and how long it takes to list them.",
            |server| processed(server).boxed(),
        )
        .most_runs(3),
        Figure::redis("schedules_lateness", lateness, |server| late(server).boxed()).most_runs(2),
        Figure::redis("schedules_burst", burst, |server| burst_of(server).boxed()).by_cpu().most_runs(3),
    ]
}

/// The queue of all tasks.
const QUEUE: &str = "bench";

/// Stores schedules, many at a time.
async fn store(client: &Client, schedules: impl Iterator<Item = Schedule>) -> Result<(), Error> {
    const AT_ONCE: usize = 50;
    let mut of_callers: Vec<Vec<Schedule>> = (0..AT_ONCE).map(|_| Vec::new()).collect();
    schedules.enumerate().for_each(|(number, schedule)| of_callers[number % AT_ONCE].push(schedule));
    let callers = of_callers.into_iter().map(|schedules| {
        let client = client.clone();
        tokio::spawn(async move {
            for schedule in schedules {
                client.schedules().upsert(schedule).await?;
            }
            Ok::<_, Error>(())
        })
    });
    for caller in join_all(callers).await {
        caller??;
    }
    Ok(())
}

async fn processed(server: &Server) -> Readings {
    let (jobs, schedules) = (200_000, 100_000);
    let usual = process(&server.url(), 256, jobs).await?;
    server.flush()?;
    let client = Client::connect(&server.url()).await?;
    client.enqueue(noop::job(hundred_bytes())).await?;
    let before = server.info("memory", "used_memory")?;
    let later = SystemTime::now() + Duration::from_secs(7 * 24 * 3600);
    let hourly = |number| Schedule::cron(format!("customer-{number:06}"), "@hourly").start(later).job(noop::job(hundred_bytes()));
    store(&client, (0..schedules).map(hourly)).await?;
    // While a hash table grows, both its tables are there.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let each = (server.info("memory", "used_memory")? - before) / f64::from(schedules);
    let begun = Instant::now();
    let listed = client.schedules().list(QUEUE).await?.len();
    let list = begun.elapsed();
    if listed != usize::try_from(schedules)? {
        return Err(format!("{listed} of {schedules} schedules are listed").into());
    }
    let rate = process(&server.url(), 256, jobs).await?;
    Ok(vec![
        Reading::new("", rate, "jobs/s").beside(usual, "`process` in the same run"),
        Reading::new("_memory", each, "bytes"),
        Reading::new("_list", list.as_secs_f64(), "s"),
    ])
}

async fn late(server: &Server) -> Readings {
    const SCHEDULES: u64 = 20;
    const TICKS: usize = 30;
    let client = Client::connect(&server.url()).await?;
    let running = Running::start(&client, 64);
    // They begin together, when all are stored.
    let start = UNIX_EPOCH + Duration::from_secs(UNIX_EPOCH.elapsed()?.as_secs() + 3);
    let second = Duration::from_secs(1);
    let schedules = (0..SCHEDULES).map(|number| {
        let schedule = Schedule::every(format!("late-{number}"), second).start(start).jitter(Duration::from_millis(900));
        schedule.max_ticks(TICKS as u64).job(ticked::job(number))
    });
    store(&client, schedules).await?;
    let mut due: Vec<Vec<f64>> = vec![Vec::new(); usize::try_from(SCHEDULES)?];
    for record in client.schedules().list(QUEUE).await? {
        let number: usize = record.schedule.name.trim_start_matches("late-").parse()?;
        due[number] = record.next_ticks(TICKS)?.into_iter().map(us).collect();
    }
    running.counter.want(usize::try_from(SCHEDULES)? * TICKS);
    running.counter.all(patience()).await?;
    let starts = running.ticks.take();
    running.stop().await;
    let late = |(number, tick_us, started_us): (u64, f64, f64)| {
        let nth = ((tick_us - us(start)) / 1e6).round() as usize;
        Some((started_us - due.get(number as usize)?.get(nth)?) / 1e3)
    };
    let mut millis: Vec<f64> = starts.into_iter().filter_map(late).collect();
    let early = millis.iter().filter(|late| **late < 0.0).count();
    Ok(vec![
        Reading::new("_p50", percentile(&mut millis, 50.0), "ms"),
        Reading::new("_p99", percentile(&mut millis, 99.0), "ms"),
        Reading::new("_early", early as f64, "jobs"),
    ])
}

async fn burst_of(server: &Server) -> Readings {
    const SCHEDULES: usize = 1_000;
    let client = Client::connect(&server.url()).await?;
    client.enqueue(noop::job(hundred_bytes())).await?;
    let at = UNIX_EPOCH + Duration::from_secs(UNIX_EPOCH.elapsed()?.as_secs() + 10);
    let once = |number| Schedule::every(format!("burst-{number}"), Duration::from_secs(1)).start(at).max_ticks(1);
    store(&client, (0..SCHEDULES).map(|number| once(number).job(noop::job(hundred_bytes())))).await?;
    let left = at.duration_since(SystemTime::now()).map_err(|_| "the schedules were due before all were stored")?;
    let running = Running::start(&client, 256);
    running.counter.want(SCHEDULES + 1);
    tokio::time::sleep(left.saturating_sub(Duration::from_millis(500))).await;
    server.watch_slow()?;
    let inspector = client.inspector();
    let until = Instant::now() + patience();
    while inspector.stats(QUEUE).await?.total(Counter::Enqueued) < SCHEDULES as u64 + 1 {
        if Instant::now() > until {
            return Err("not all schedules have ticked".into());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let all = at.elapsed()?;
    running.counter.all(patience()).await?;
    running.stop().await;
    Ok(vec![Reading::new("", all.as_secs_f64() * 1e3, "ms"), server.longest_script()?])
}

/// Microseconds since 1970.
fn us(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64() * 1e6)
}
