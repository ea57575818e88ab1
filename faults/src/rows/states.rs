//! What a server says when it is up and does not serve.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use queue_conformance::patience::patience;
use queue_core::broker::Audit;
use queue_tests::wire::Wire;

use super::{Grade, Harming, REDIS, Row, Unmet, anything, missed, no_duplicates, servers::DURABLE};
use crate::{
    bed::{Bed, Problem, Setup},
    checker::{Summary, Terms},
    history::TAIL_CUT,
    process::Mix,
    work::QUEUE,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M33",
        name: "the server is killed, and the tail of its file is cut off as by a power cut",
        grade: Grade::A,
        columns: REDIS,
        setup: lossy,
        harm: |bed| tail_cut(bed, true),
        expect: anything,
    },
    Row {
        number: "M33b",
        name: "the same, and the server does not rewrite the file: the auditor has to find the damage",
        grade: Grade::A,
        columns: REDIS,
        setup: lossy,
        harm: |bed| tail_cut(bed, false),
        expect: anything,
    },
    Row {
        number: "M42",
        name: "the server is loading its data for seconds",
        grade: Grade::A,
        columns: REDIS,
        setup: || Setup { server: DURABLE, ..Setup::default() },
        harm: loading,
        expect: survived,
    },
    Row {
        number: "M45",
        name: "the server wants another password from everybody, then the old one again",
        grade: Grade::A,
        columns: REDIS,
        setup: outlasting,
        harm: |bed| locked_out(bed, &["resetpass", ">another"], &["nopass"]),
        expect: survived,
    },
    Row {
        number: "M45b",
        name: "the server takes the right to run scripts away, and gives it back",
        grade: Grade::A,
        columns: REDIS,
        setup: outlasting,
        harm: |bed| locked_out(bed, &["-eval", "-evalsha"], &["+@all"]),
        expect: survived,
    },
];

/// What was not yet synced may be lost, and nothing else.
fn lossy() -> Setup {
    let setup = Setup::default();
    let terms = Terms { volatile: true, ..setup.terms };
    Setup { terms, ..setup }
}

/// Leases outlast that nobody is let in, twice in a row.
fn outlasting() -> Setup {
    let setup = Setup { mix: Mix { ms: 40, ..Mix::default() }, ..Setup::default() };
    let terms = Terms { lease_ms: 5_000, ..setup.terms };
    Setup { terms, ..setup }
}

/// No worker gave up.
fn survived(summary: &Summary) -> Result<(), Unmet> {
    match summary.faults.get("died") {
        Some(n) => Err(format!("{n} workers ended").into()),
        None => no_duplicates(summary),
    }
}

/// Cuts the file in the middle of anything, three times. A server that starts with such a file
/// keeps the beginning of a transaction in it, and carries this half out at its next start, unless
/// it writes the file anew before.
fn tail_cut(bed: &mut Bed, anew: bool) -> Harming<'_> {
    Box::pin(async move {
        for _ in 0..3 {
            let pause = bed.ms(300, 1_200);
            bed.pass(pause).await?;
            bed.harm(TAIL_CUT, "broker");
            bed.server()?.kill();
            let length = bed.rng.u64(1..20_000);
            let folder = bed.server()?.folder().join("appendonlydir");
            let written = std::fs::read_dir(folder)?.filter_map(Result::ok).map(|entry| entry.path());
            // The file that is written to, whose name ends so, whatever was written before.
            let last = written
                .filter(|path| path.to_string_lossy().ends_with(".incr.aof"))
                .max_by_key(|path| path.metadata().and_then(|file| file.modified()).ok());
            let file = std::fs::File::options().write(true).open(last.ok_or("the server keeps no file")?)?;
            file.set_len(file.metadata()?.len().saturating_sub(length))?;
            bed.server()?.restart();
            if anew {
                rewrite(bed).await?;
            }
        }
        if !anew {
            // The first call finds that its connection has ended with the server.
            bed.until("the auditor to have looked", async |bed| {
                bed.client.inspector().audit(QUEUE, Audit { repair: true, thorough: true }).await.is_ok()
            })
            .await?;
        }
        Ok(())
    })
}

/// Has the server write its file anew.
async fn rewrite(bed: &mut Bed) -> Result<(), Problem> {
    let rewritten = |said: &str| said.contains("aof_rewrite_in_progress:0") && said.contains("aof_rewrite_scheduled:0");
    let _: String = bed.server()?.ask_patiently(&["BGREWRITEAOF"], patience())?;
    bed.until("the file to be written anew", async |bed| {
        let said = bed.server().ok().and_then(|server| server.ask::<String>(&["INFO", "persistence"]).ok());
        said.is_some_and(|said| rewritten(&said))
    })
    .await
}

/// Keys that only take time to load, and how long: some six seconds in all.
const FILLERS: &str = "5000";
const DELAY_US: &str = "1200";

fn loading(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.progress(300).await?;
        let _: Option<String> = bed.server()?.ask_patiently(&["EVAL", FILL, "0", FILLERS], patience())?;
        rewrite(bed).await?;
        bed.harm("kill", "broker");
        let server = bed.server()?;
        server.kill();
        let options = ["--key-load-delay", DELAY_US, "--loading-process-events-interval-bytes", "1024"];
        let (port, loaded) = (server.port(), AtomicBool::new(false));
        let said = std::thread::scope(|scope| {
            let watching = scope.spawn(|| {
                let says = || Wire::to(port).and_then(|mut wire| wire.say(&["PING"])).unwrap_or_default();
                let mut said = 0;
                while !loaded.load(Ordering::Relaxed) {
                    said += u32::from(says().starts_with("-LOADING"));
                    std::thread::sleep(Duration::from_millis(20));
                }
                said
            });
            tokio::task::block_in_place(|| server.restart_with(&options));
            loaded.store(true, Ordering::Relaxed);
            watching.join()
        });
        let _: Option<String> = bed.server()?.ask_patiently(&["EVAL", CLEAR, "0", FILLERS], patience())?;
        match said {
            Ok(said) if said >= 10 => Ok(()),
            Ok(said) => Err(missed(format!("somebody who asked again and again was told {said} times that it is loading")).into()),
            Err(_) => Err("whoever asks the server has panicked".into()),
        }
    })
}

const FILL: &str = "for i = 1, ARGV[1] do redis.call('SET', 'filler:' .. i, string.rep('x', 200)) end";
const CLEAR: &str = "for i = 1, ARGV[1] do redis.call('DEL', 'filler:' .. i) end";

/// Changes what everybody may do, for a while. Who does it stays connected.
fn locked_out<'a>(bed: &'a mut Bed, lock: &'static [&'static str], open: &'static [&'static str]) -> Harming<'a> {
    Box::pin(async move {
        let mut wire = Wire::to(bed.server()?.port())?;
        let mut everybody = |rules: &[&str]| -> Result<(), Problem> {
            let said = wire.say(&[&["ACL", "SETUSER", "default"], rules].concat())?;
            if !said.starts_with("+OK") {
                return Err(format!("the server says {said}").into());
            }
            wire.say(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])?;
            Ok(())
        };
        for _ in 0..2 {
            bed.progress(100).await?;
            bed.harm("lock out", "broker");
            everybody(lock)?;
            let time = bed.ms(500, 1_400);
            bed.pass(time).await?;
            everybody(open)?;
            let pause = bed.ms(200, 800);
            bed.pass(pause).await?;
        }
        Ok(())
    })
}
