//! What happens to a SQLite file and those who share it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use queue_core::{
    __private::SqliteBroker,
    broker::{Condition, Counter},
};

use super::{Grade, Harming, Row, SQLITE, Unmet, anything, missed, refused};
use crate::{
    bed::{Bed, Problem, Setup},
    checker::{Summary, Terms},
    power::Keeps,
    process::Mix,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M4b",
        name: "processes are stopped in the middle of what they write",
        grade: Grade::A,
        columns: SQLITE,
        setup: || Setup { workers: 3, pause_ms: 1, mix: Mix { ms: 2, ..Mix::default() }, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                for _ in 0..10 {
                    let worker = bed.any_worker();
                    bed.stop(worker);
                    let (held, pause) = (bed.ms(50, 900), bed.ms(0, 200));
                    bed.pass(held).await?;
                    bed.go_on(worker);
                    bed.pass(pause).await?;
                }
                Ok(())
            })
        },
        expect: anything,
    },
    Row {
        number: "M60",
        name: "eight processes write to the file at once",
        grade: Grade::S,
        columns: SQLITE,
        setup: || Setup { workers: 4, producers: 4, jobs: 3_000, pause_ms: 0, mix: Mix { ms: 1, ..Mix::default() }, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                bed.harm("crowd", "broker");
                bed.progress(1_500).await
            })
        },
        expect: |summary| if summary.refused == 0 { Ok(()) } else { Err(format!("{} enqueues were refused", summary.refused).into()) },
    },
    Row {
        number: "M61",
        name: "processes are killed in the middle of what they write",
        grade: Grade::S,
        columns: SQLITE,
        setup: || Setup { workers: 4, pause_ms: 1, mix: Mix { ms: 2, ..Mix::default() }, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                for _ in 0..10 {
                    let worker = bed.any_worker();
                    bed.kill(worker);
                    bed.start_worker()?;
                    let pause = bed.ms(10, 250);
                    bed.pass(pause).await?;
                }
                Ok(())
            })
        },
        expect: anything,
    },
    Row {
        number: "M62",
        name: "the power fails, at any moment",
        grade: Grade::A,
        columns: SQLITE,
        setup: || recorded(Setup::default()),
        harm: |bed| cut(bed, Keeps::Everything),
        expect: anything,
    },
    Row {
        number: "M62b",
        name: "the power fails where only the end of processes is to be survived",
        grade: Grade::A,
        columns: SQLITE,
        setup: || {
            let setup = recorded(Setup::default());
            let terms = Terms { volatile: true, ..setup.terms };
            Setup { process_crash: true, terms, ..setup }
        },
        harm: |bed| cut(bed, Keeps::AllButATail),
        expect: anything,
    },
    Row {
        number: "M63",
        name: "the disk fills up: enqueues fail with an error, and jobs are acknowledged; then it is freed, and work continues",
        grade: Grade::S,
        columns: SQLITE,
        setup: || Setup { disk_mb: Some(60), mix: Mix { ms: 20, bytes: 4_000, ..Mix::default() }, pause_ms: 1, ..Setup::default() },
        harm: full,
        expect: refused,
    },
    Row {
        number: "M66",
        name: "the file is made read-only, then moved away and back",
        grade: Grade::S,
        columns: SQLITE,
        setup: || Setup { workers: 3, mix: Mix { ms: 40, ..Mix::default() }, ..Setup::default() },
        harm: moved,
        expect: anything,
    },
    Row {
        number: "M66b",
        name: "the file is deleted, and a fresh start makes a new one; then another one takes its place",
        grade: Grade::S,
        columns: SQLITE,
        setup: || {
            let setup = Setup::default();
            let terms = Terms { volatile: true, ..setup.terms };
            Setup { workers: 3, mix: Mix { ms: 40, ..Mix::default() }, terms, ..setup }
        },
        harm: deleted,
        expect: refused_at_all,
    },
];

/// Enqueues into a file that is not there were refused.
fn refused_at_all(summary: &Summary) -> Result<(), Unmet> {
    if summary.refused > 0 { Ok(()) } else { Err(missed("nothing was refused")) }
}

/// Jobs that leave a trace when they are done, and enough of them for the log to be merged a few
/// times.
fn recorded(setup: Setup) -> Setup {
    let mix = Mix { kept: 1, cancelled: 0, bytes: 4_000, ..Mix::default() };
    Setup { workers: 2, producers: 2, jobs: 1_000, pause_ms: 1, recorded: true, mix, ..setup }
}

/// How many power cuts one recording is good for.
const CUTS: usize = 100;

fn cut(bed: &mut Bed, keeps: Keeps) -> Harming<'_> {
    Box::pin(async move {
        bed.cut_power(CUTS, keeps).await?;
        bed.power_returns().await
    })
}

fn full(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        for _ in 0..2 {
            bed.progress(100).await?;
            bed.harm("disk full", "broker");
            bed.disk()?.fill()?;
            bed.until_told("the disk to be told as full", Condition::is_full).await?;
            let time = bed.lease() + bed.ms(0, 1_000);
            bed.pass(time).await?;
            bed.disk()?.free();
            bed.until_told("jobs to be taken again", |condition| condition.trouble.is_none()).await?;
            bed.pass(Duration::from_millis(300)).await?;
        }
        Ok(())
    })
}

fn moved(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        let (path, away) = (bed.file()?, bed.file()?.with_extension("away"));
        bed.progress(50).await?;
        bed.harm("read-only", "broker");
        let writable = fs::metadata(&path)?.permissions();
        let mut read_only = writable.clone();
        read_only.set_readonly(true);
        fs::set_permissions(&path, read_only)?;
        let more = bed.counter(Counter::Done).await + 50;
        bed.progress(more).await?;
        fs::set_permissions(&path, writable)?;
        for _ in 0..3 {
            bed.harm("move away", "broker");
            fs::rename(&path, &away)?;
            bed.until_told("the file to be told as lost", Condition::is_lost).await?;
            let time = bed.ms(0, 2 * 1_500);
            bed.pass(time).await?;
            none_made(&path)?;
            fs::rename(&away, &path)?;
            bed.until_told("the file to be found", |condition| condition.trouble.is_none()).await?;
            let more = bed.counter(Counter::Done).await + 20;
            bed.progress(more).await?;
        }
        Ok(())
    })
}

fn deleted(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        let path = bed.file()?;
        let beside = |end: &str| {
            let mut name = path.clone().into_os_string();
            name.push(end);
            PathBuf::from(name)
        };
        bed.progress(50).await?;
        bed.harm("delete", "broker");
        for end in ["", "-wal", "-shm", "-ballast"] {
            let _ = fs::remove_file(beside(end));
        }
        bed.until_told("the file to be told as lost", Condition::is_lost).await?;
        // Longer than an enqueue is tried.
        bed.pass(Duration::from_millis(bed.setup().deadline_ms + 500)).await?;
        none_made(&path)?;
        bed.start_worker()?;
        bed.until_told("the new file to be opened", |condition| condition.trouble.is_none()).await?;
        bed.progress(50).await?;

        let other = path.with_extension("other");
        drop(SqliteBroker::open_path(&other)?);
        let before = fs::read(&other)?;
        bed.harm("replace", "broker");
        fs::rename(&other, &path)?;
        bed.until_told("the file to be told as lost", Condition::is_lost).await?;
        let time = bed.ms(1_000, 2_000);
        bed.pass(time).await?;
        if fs::read(&path)? != before {
            return Err("the new file was changed while the log of the old one lay beside it".into());
        }
        for end in ["-wal", "-shm"] {
            fs::remove_file(beside(end))?;
        }
        bed.until_told("the new file to be opened", |condition| condition.trouble.is_none()).await
    })
}

/// Nobody makes a new file where one has vanished.
fn none_made(path: &Path) -> Result<(), Problem> {
    if path.exists() { Err("a new file was made".into()) } else { Ok(()) }
}
