//! The two tasks, and how they get into the queue.

use std::{fs::File as Opened, io, sync::Arc};

use indicatif::ProgressBar;
use queue_core::prelude::*;

use crate::{
    error::{Failure, Result},
    scan::File,
    store::{self, Store},
};

/// What the tasks work with.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) store: Arc<Store>,
    pub(crate) bar: ProgressBar,
}

/// Hashes one file. The first file of a run fails once, on purpose: watch it being tried again.
#[task(blocking, max_attempts = 5, backoff(base = "500ms", max = "5s"))]
fn hash_file(
    run: i64,
    path: Vec<u8>,
    size: u64,
    modified: u64,
    flaky: bool,
    desk: Data<Desk>,
    ctx: JobContext,
) -> std::result::Result<(), String> {
    let file = File { path: store::path(&path), size, modified };
    if flaky && ctx.attempt() == 1 {
        let name = file.path.file_name().unwrap_or_default().display();
        desk.bar.suspend(|| eprintln!("{name}: the disk hiccups (on purpose); the job is tried again in half a second"));
        return Err("the disk hiccups, on purpose".to_owned());
    }
    let failed = |failure: Failure| failure.to_string();
    // Known from an earlier run, or from a run of this very job that was killed before it could say so.
    let digest = if desk.store.knows(&file).map_err(failed)? {
        None
    } else {
        match digest(&file) {
            Ok(digest) => Some(digest),
            Err(error) => {
                desk.bar.suspend(|| eprintln!("skipped: {}: {error}", file.path.display()));
                None
            }
        }
    };
    if desk.store.finish_file(run, &file, digest.as_ref().map(|digest| digest.as_bytes().as_slice())).map_err(failed)? {
        desk.bar.inc(1);
    }
    Ok(())
}

/// Snoozes while files of its run are left; then the run is finished.
#[task(blocking)]
fn report(run: i64, desk: Data<Desk>) -> std::result::Result<Outcome, String> {
    let failed = |failure: Failure| failure.to_string();
    if desk.store.left(run).map_err(failed)? > 0 {
        return Ok(Outcome::Snooze(Duration::from_millis(100)));
    }
    desk.store.finish_run(run).map_err(failed)?;
    Ok(Outcome::Done)
}

fn digest(file: &File) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(Opened::open(&file.path)?)?;
    Ok(hasher.finalize())
}

/// One job per file, and the report. Their ids name run and file: enqueuing them again after a crash makes no second job.
pub(crate) async fn enqueue(client: &Client, queue: &str, run: i64, files: &[File]) -> Result<()> {
    let jobs = files.iter().enumerate().map(|(index, file)| {
        let path = store::bytes(&file.path);
        let mut name = blake3::Hasher::new();
        name.update(&path).update(&file.size.to_le_bytes()).update(&file.modified.to_le_bytes());
        let name = &name.finalize().to_hex()[..24];
        hash_file::job(run, path, file.size, file.modified, index == 0).queue(queue).id(format!("{run}-{name}"))
    });
    client.enqueue_all(jobs).await?;
    report::job(run).queue(queue).id(format!("{run}-report")).enqueue(client).await?;
    Ok(())
}
