//! Many at once.

use std::time::{Duration, Instant};

use futures_util::stream::{StreamExt, iter};
use queue_conformance::patience::patience;
use queue_core::broker::{Counter, ProcessId, Register, Turn};
use queue_tests::{
    server::{Kind, Server},
    wire::Wire,
};

use super::{BOTH, Grade, Harming, REDIS, Row, anything, no_duplicates};
use crate::{
    bed::{Bed, Setup},
    checker::Terms,
    history::{Operation, Phase},
    process::Mix,
    recording::RecordingBroker,
    work::QUEUE,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M49",
        name: "a crowd of jobs is due at once",
        grade: Grade::S,
        columns: REDIS,
        setup: || {
            let mix = Mix { bytes: 20, bulk: true, ..Mix::plain(0) };
            let setup = Setup::default();
            let terms = Terms { drain_ms: 900_000, ..setup.terms };
            Setup { jobs: people(), callers: 1, pause_ms: 0, concurrency: 256, mix, terms, by_cpu: true, ..setup }
        },
        harm: crowd,
        expect: no_duplicates,
    },
    Row {
        number: "M50",
        name: "8,001 leases end at once",
        grade: Grade::S,
        columns: BOTH,
        setup: || {
            let setup = Setup::default();
            let terms = Terms { drain_ms: 120_000, ..setup.terms };
            Setup { jobs: LANES, callers: 1, pause_ms: 0, concurrency: 64, mix: Mix { bulk: true, ..Mix::plain(0) }, terms, ..setup }
        },
        harm: leases,
        expect: anything,
    },
];

/// Jobs that are due at once, where `FAULTS_CROWD` names no other number.
const CROWD: u64 = 100_000;

fn people() -> u64 {
    std::env::var("FAULTS_CROWD").ok().and_then(|people| people.parse().ok()).unwrap_or(CROWD)
}

/// Lanes whose leases end at once: more than Lua can unpack.
const LANES: u64 = 8_001;

/// How long 999 of 1,000 scripts may take: the processor, not the clock on the wall. Workers,
/// producers and whoever else builds and tests share the processors with the server, which may be
/// set aside for tens of milliseconds in the middle of any script.
const LONGEST_SCRIPT: Duration = Duration::from_millis(5);

/// How long none may take. A virtual machine is set aside as a whole, too, which its processor time
/// does not show: a script that reads three keys has lasted 5 ms there.
const LONGEST_STALL: Duration = Duration::from_millis(50);

/// What is said of scripts: of the longest, of half of them, of 999 in 1,000.
const BY_CPU: [&str; 3] =
    ["longest script, processor time", "script, half of them, processor time", "script, 999 of 1,000, processor time"];
const BY_WALL: [&str; 3] = [
    "longest script, on the wall (this server's scripts can be measured by no other clock)",
    "script, half of them, on the wall",
    "script, 999 of 1,000, on the wall",
];

/// What nothing on a machine of ours may take. The promise is 20 ms for the PING of a stranger, on
/// a machine that does nothing else; here it waits for whoever else has the processor. The figure
/// is in the report, with that of an idle server for comparison.
const LONGEST_PING: Duration = Duration::from_millis(100);

/// For how many PINGs the server is watched, one every few milliseconds.
const PINGS: usize = 3_000;

/// Whether a child of the server writes its file anew. What the server writes to meanwhile it
/// copies first, a page at a time, which has made scripts of half a millisecond last 26.
fn is_forked(server: &Server) -> bool {
    server.ask::<String>(&["INFO", "persistence"]).is_ok_and(|said| said.contains("aof_rewrite_in_progress:1"))
}

/// All jobs wait in `scheduled` for one moment; from there on the server is watched by one who has
/// nothing to do with them.
fn crowd(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.client.inspector().pause(QUEUE).await?;
        let _: () = bed.server()?.ask(&["CONFIG", "SET", "auto-aof-rewrite-percentage", "0"])?;
        bed.until_within("the crowd to be stored", patience() * 10, async |bed| bed.counter(Counter::Enqueued).await >= people()).await?;
        // They lie in `ready`: put them back to where they wait for their time.
        let key = |kind: &str| format!("queue:{{{QUEUE}}}:{kind}");
        let (ready, scheduled) = (key("ready:2"), key("scheduled"));
        loop {
            let moved: u64 = bed.server()?.ask(&["EVAL", DELAY, "2", &ready, &scheduled])?;
            if moved == 0 {
                break;
            }
        }
        bed.until("the server to be one process", async |bed| !bed.server().is_ok_and(|server| is_forked(server))).await?;
        bed.harm("due at once", "broker");
        let server = bed.server()?;
        let _: () = server.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "1000"])?;
        let _: () = server.ask(&["CONFIG", "SET", "slowlog-max-len", "10000"])?;
        let _: () = server.ask(&["SLOWLOG", "RESET"])?;
        let _: () = server.ask(&["CONFIG", "SET", "latency-tracking-info-percentiles", "50 99 99.9"])?;
        let _: () = server.ask(&["CONFIG", "RESETSTAT"])?;
        bed.client.inspector().resume(QUEUE).await?;
        let idle = Server::start(Kind::Redis);
        let (mut wire, mut quiet) = (Wire::to(bed.server()?.port())?, Wire::to(idle.port())?);
        let (mut pings, mut reference) = (Vec::new(), Vec::new());
        while pings.len() < PINGS {
            pings.push(ping(&mut wire)?);
            reference.push(ping(&mut quiet)?);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let slow: Vec<SlowCommand> = bed.server()?.ask(&["SLOWLOG", "GET", "10000"])?;
        let longest = Duration::from_micros(slow.iter().map(|command| command.2).max().unwrap_or(0));
        let (p99, idle_p99) = (p99(pings), p99(reference));
        let by_cpu = bed.server()?.measures_by_cpu();
        let [most_of_all, half, nearly_all] = if by_cpu { BY_CPU } else { BY_WALL };
        bed.measured(most_of_all, longest);
        let said: String = bed.server()?.ask(&["INFO", "latencystats"])?;
        let line = said.lines().find_map(|line| line.strip_prefix("latency_percentiles_usec_evalsha:")).ok_or("no script was called")?;
        let within = |field: &str| {
            let us = line.split(',').find_map(|part| part.strip_prefix(field)).and_then(|us| us.parse::<f64>().ok());
            us.map(|us| Duration::from_secs_f64(us / 1e6)).ok_or(format!("no {field} in {line}"))
        };
        let (common, rare) = (within("p50=")?, within("p99.9=")?);
        bed.measured(half, common);
        bed.measured(nearly_all, rare);
        bed.measured("PING, 99 of 100", p99);
        bed.measured("PING of an idle server meanwhile, 99 of 100", idle_p99);
        if (by_cpu && rare > LONGEST_SCRIPT) || longest > LONGEST_STALL || p99 > LONGEST_PING {
            return Err(format!(
                "999 of 1,000 scripts took {rare:?}, one {longest:?}, 99 of 100 PINGs {p99:?}, and {idle_p99:?} at an idle server"
            )
            .into());
        }
        Ok(())
    })
}

fn ping(wire: &mut Wire) -> std::io::Result<Duration> {
    let before = Instant::now();
    wire.say(&["PING"])?;
    Ok(before.elapsed())
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

/// Of an entry of the slow log: number, time, microseconds, words, and who.
type SlowCommand = (u64, u64, u64, Vec<Vec<u8>>, String, String);

const DELAY: &str = "local ids = redis.call('LPOP', KEYS[1], 1000)
if not ids then return 0 end
for _, id in ipairs(ids) do redis.call('ZADD', KEYS[2], 1, id) end
return #ids";

/// As many lanes as there are jobs claim one each, and are never heard of again.
fn leases(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.client.inspector().pause(QUEUE).await?;
        bed.until("the jobs to be stored", async |bed| bed.counter(Counter::Enqueued).await >= LANES).await?;
        for worker in 0..bed.workers.len() {
            bed.stop(worker);
        }
        bed.client.inspector().resume(QUEUE).await?;
        let broker = RecordingBroker::new(bed.client.broker().clone(), bed.recorder().clone(), None);
        let lease = Duration::from_secs(20);
        let claims = iter(0..LANES).map(|_| async {
            use queue_core::broker::Broker;
            let lane = broker.register(&Register::lane(QUEUE, ProcessId::random(), lease)).await?.name;
            // The shorter lease of the last turn is the one that counts.
            broker.turn(&Turn::new(QUEUE, lane, 1, Duration::from_millis(500)).claim(1)).await
        });
        let claimed: Vec<_> = claims.buffer_unordered(64).collect().await;
        for answer in claimed {
            answer?;
        }
        bed.recorder().note(Phase::Ok, Operation::Fault { name: "leases end".to_owned(), target: "driver".to_owned() });
        for worker in 0..bed.workers.len() {
            bed.go_on(worker);
        }
        Ok(())
    })
}
