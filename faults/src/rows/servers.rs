//! What happens to the server.

use std::time::Duration;

use queue_conformance::patience::patience;
use queue_core::broker::Condition;

use super::{Grade, Harming, REDIS, Row, anything, no_duplicates, refused, taken_back};
use crate::{
    bed::{Bed, Setup},
    checker::Terms,
    process::Mix,
    work::{Deed, QUEUE},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M30",
        name: "the server is away for a while, at the start of workers too",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { server: DURABLE, ..Setup::default() },
        harm: away,
        expect: anything,
    },
    Row {
        number: "M30b",
        name: "the server is away for longer than the default lease, under jobs that run through it",
        grade: Grade::S,
        columns: REDIS,
        setup: || {
            let setup = Setup::default();
            let terms = Terms { lease_ms: 30_000, drain_ms: 90_000, ..setup.terms };
            let mix = Mix { deeds: vec![Deed::Return], ..Mix::plain(60_000) };
            Setup { workers: 4, jobs: 32, mix, server: DURABLE, terms, ..setup }
        },
        harm: |bed| {
            Box::pin(async move {
                bed.pass(Duration::from_secs(2)).await?;
                bed.harm("kill", "broker");
                bed.server()?.kill();
                let away = bed.lease() + bed.ms(1_000, 4_000);
                bed.pass(away).await?;
                bed.server()?.restart();
                Ok(())
            })
        },
        expect: no_duplicates,
    },
    Row {
        number: "M31",
        name: "the server stands still for three leases",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { mix: Mix { ms: 200, ..Mix::default() }, jobs: 600, pause_ms: 20, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                bed.progress(50).await?;
                bed.harm("stop", "broker");
                bed.server()?.pause();
                let time = bed.lease() * 3 + bed.ms(0, 500);
                bed.pass(time).await?;
                bed.server()?.resume();
                Ok(())
            })
        },
        expect: no_duplicates,
    },
    Row {
        number: "M32",
        name: "the server is killed and restarted, with every write kept",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { server: DURABLE, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                for _ in 0..4 {
                    let pause = bed.ms(50, 600);
                    bed.pass(pause).await?;
                    bed.harm("kill", "broker");
                    bed.server()?.kill();
                    let away = bed.ms(0, 300);
                    bed.pass(away).await?;
                    bed.server()?.restart();
                }
                Ok(())
            })
        },
        expect: anything,
    },
    Row {
        number: "M32b",
        name: "the server is killed and comes back empty",
        grade: Grade::S,
        columns: REDIS,
        setup: || {
            let setup = Setup::default();
            let terms = Terms { volatile: true, ..setup.terms };
            Setup { server: &["--appendonly", "no"], terms, ..setup }
        },
        harm: |bed| {
            Box::pin(async move {
                for _ in 0..2 {
                    let pause = bed.ms(200, 800);
                    bed.pass(pause).await?;
                    bed.harm("kill", "broker");
                    bed.server()?.kill();
                    bed.server()?.restart();
                }
                Ok(())
            })
        },
        expect: anything,
    },
    Row {
        number: "M44",
        name: "the server refuses writes for lack of replicas",
        grade: Grade::A,
        columns: REDIS,
        setup: || Setup { mix: Mix { ms: 40, ..Mix::default() }, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                for _ in 0..2 {
                    bed.progress(100).await?;
                    bed.harm("no replicas", "broker");
                    bed.set("min-replicas-to-write", "1")?;
                    let time = bed.ms(200, 2_500);
                    bed.pass(time).await?;
                    bed.set("min-replicas-to-write", "0")?;
                }
                Ok(())
            })
        },
        expect: anything,
    },
    Row {
        number: "M34",
        name: "another program takes leases away and ids out of lists, and the auditor repairs it",
        grade: Grade::A,
        columns: REDIS,
        setup: || {
            let setup = Setup::default();
            let terms = Terms { drain_ms: 240_000, ..setup.terms };
            Setup { workers: 3, pause_ms: 1, jobs: 800, mix: Mix { cancelled: 0, ..Mix::plain(60) }, terms, ..setup }
        },
        harm: other_hands,
        expect: taken_back,
    },
    Row {
        number: "M34a",
        name: "the entry of a lease is deleted by hand, and then jobs fail under it",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { jobs: 600, mix: Mix { deeds: vec![Deed::Fail(1)], ..Mix::plain(150) }, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                for _ in 0..4 {
                    let pause = bed.ms(100, 500);
                    bed.pass(pause).await?;
                    bed.harm("delete leases", "broker");
                    let leases = format!("queue:{{{QUEUE}}}:leases");
                    let _: i64 = bed.server()?.ask_patiently(&["DEL", &leases], patience())?;
                }
                Ok(())
            })
        },
        expect: no_duplicates,
    },
    Row {
        number: "M35",
        name: "the server forgets its scripts, again and again",
        grade: Grade::S,
        columns: REDIS,
        setup: Setup::default,
        harm: |bed| {
            Box::pin(async move {
                for _ in 0..100 {
                    let pause = bed.ms(0, 30);
                    bed.pass(pause).await?;
                    bed.harm("flush scripts", "broker");
                    let _: () = bed.server()?.ask_patiently(&["SCRIPT", "FLUSH"], patience())?;
                }
                Ok(())
            })
        },
        expect: no_duplicates,
    },
    Row {
        number: "M36",
        name: "the server is full and says so, while jobs are acknowledged and leases extended",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { mix: Mix { ms: 300, bytes: 2_000, ..Mix::default() }, pause_ms: 8, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                bed.progress(50).await?;
                for _ in 0..2 {
                    bed.harm("maxmemory", "broker");
                    bed.set("maxmemory", "1mb")?;
                    bed.until_told("the server to say that it is full", Condition::is_full).await?;
                    let time = bed.lease() * 3 / 2 + bed.ms(0, 500);
                    bed.pass(time).await?;
                    bed.set("maxmemory", "0")?;
                    bed.until_told("the server to take jobs again", |condition| condition.trouble.is_none()).await?;
                    bed.pass(Duration::from_millis(200)).await?;
                }
                Ok(())
            })
        },
        expect: refused,
    },
];

fn other_hands(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.progress(100).await?;
        let key = |kind: &str| format!("queue:{{{QUEUE}}}:{kind}");
        let worker = bed.any_worker();
        bed.stop(worker);
        bed.harm("delete leases", "broker");
        let _: i64 = bed.server()?.ask_patiently(&["DEL", &key("leases")], patience())?;
        bed.kill(worker);
        bed.start_worker()?;
        for _ in 0..5 {
            bed.harm("take an id away", "broker");
            let _: Option<Vec<u8>> = bed.server()?.ask_patiently(&["RPOP", &key("ready:2")], patience())?;
        }
        Ok(())
    })
}

pub(super) const DURABLE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

fn away(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        for longer in [true, false] {
            bed.progress(100).await?;
            bed.harm("kill", "broker");
            bed.server()?.kill();
            // Whoever starts workers meanwhile starts them again until the server is there.
            bed.start_worker()?;
            let away = if longer { bed.lease() + bed.ms(500, 3_000) } else { bed.ms(500, 1_000) };
            bed.pass(away).await?;
            bed.server()?.restart();
        }
        Ok(())
    })
}
