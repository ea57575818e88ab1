//! The two tasks, and how they get into the queue.

use std::{fs::File as Opened, io, sync::Arc};

use indicatif::ProgressBar;
use queue_core::prelude::*;

use crate::{
    error::{Failure, Result},
    scan::File,
    store::{self, Store},
};

/// The data of the tasks.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) store: Arc<Store>,
    pub(crate) bar: ProgressBar,
    /// The number of times that the first file of a run fails.
    pub(crate) hiccups: u32,
    /// The minimum duration of each job, so that a user can watch.
    pub(crate) pause: Duration,
}

/// Hashes one file. The first file of a run fails at first, on purpose, to show the retry.
#[task(blocking, max_attempts = 5, backoff(base = "500ms", max = "5s"))]
#[expect(clippy::too_many_arguments, reason = "each is a part of what is stored")]
fn hash_file(
    run: i64,
    #[default] name: String, // for people who look at the job
    path: Vec<u8>,
    size: u64,
    modified: u64,
    flaky: bool,
    desk: Data<Desk>,
    ctx: JobContext,
) -> std::result::Result<(), String> {
    let file = File { path: store::path(&path), size, modified };
    std::thread::sleep(desk.pause);
    if flaky && ctx.attempt() <= desk.hiccups {
        desk.bar.suspend(|| eprintln!("{name}: the disk hiccups (on purpose); the job is tried again soon"));
        return Err("the disk hiccups, on purpose".to_owned());
    }
    let failed = |failure: Failure| failure.to_string();
    // The digest may be known from an earlier run, or from a run of this job that was killed before
    // it could report.
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

/// Enqueues one job per file, and the report. Their ids contain run and file, so enqueuing them
/// again after a crash creates no second job. With `watched`, the file that fails at first is
/// retried before the others.
pub(crate) async fn enqueue(client: &Client, queue: &str, run: i64, files: &[File], watched: bool) -> Result<()> {
    let jobs = files.iter().enumerate().map(|(index, file)| {
        let (path, name) = (store::bytes(&file.path), file.path.file_name().unwrap_or_default().display().to_string());
        let mut key = blake3::Hasher::new();
        key.update(&path).update(&file.size.to_le_bytes()).update(&file.modified.to_le_bytes());
        let key = &key.finalize().to_hex()[..24];
        let job = hash_file::job(run, name, path, file.size, file.modified, index == 0).queue(queue).id(format!("{run}-{key}"));
        if watched && index == 0 { job.priority(Priority::High) } else { job }
    });
    client.enqueue_all(jobs).await?;
    report::job(run).queue(queue).id(format!("{run}-report")).enqueue(client).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use queue_testing::{TestQueue, assert_enqueued};

    use super::*;

    #[tokio::test]
    async fn a_file_is_tried_again_and_the_report_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(&folder.path().join("digests")).unwrap());
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "the same").unwrap();
            File { path, size: 8, modified: 0 }
        };
        let (run, files) = (store.begin_run().unwrap(), [file("one"), file("two")]);
        store.enter_files(run, &files).unwrap();

        let queue = TestQueue::new().data(Desk { store: store.clone(), bar: ProgressBar::hidden(), hiccups: 1, pause: Duration::ZERO });
        for _ in 0..2 {
            enqueue(queue.client(), "files", run, &files, false).await.unwrap();
        }
        assert_enqueued!(queue, hash_file { name: "one", flaky: true, .. }, queue = "files", max_attempts = 5, count = 1);
        assert_enqueued!(queue, hash_file, count = 2);

        let drained = queue.drain().await;
        assert_eq!((drained.done, drained.failed, drained.snoozed), (1, 1, 1), "{drained:?}");
        assert!(store.report(run).unwrap().is_none());
        queue.drain_for("1s").await;
        assert_eq!(store.report(run).unwrap().unwrap()[0].paths.len(), 2);
    }
}
