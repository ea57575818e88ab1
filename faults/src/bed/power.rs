//! Power cuts: the possible databases after each cut, and the continuation of the run after one of
//! them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use queue_core::{
    Client,
    broker::{Audit, Counter, JobState},
};

use queue_conformance::folder::folder;

use super::{Bed, Problem, broker::Place};
use crate::{
    history::POWER_CUT,
    power::{Acts, Change, Disk, Found, Keeps, Log, Loss},
    rows::missed,
    work::QUEUE,
};

/// The file in which processes record their file operations.
#[derive(Debug)]
pub(super) struct Recording {
    log: PathBuf,
    /// The database and its log at the start of the first process.
    base: BTreeMap<String, Vec<u8>>,
}

/// A power cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// The entry of the log before which it happens.
    at: usize,
    loss: Loss,
    seed: u64,
}

impl Recording {
    /// Begins, while only the driver has the file open.
    pub(super) fn begin(database: &Path) -> Result<Recording, Problem> {
        Ok(Recording { log: database.with_file_name("disk.log"), base: files(database)? })
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }
}

impl Bed {
    /// Waits until all work has ended, then simulates `cuts` power cuts at moments of the
    /// recording, one after the other, and checks the remaining database. Finally the run continues
    /// from one of them.
    ///
    /// # Errors
    /// If acknowledged data was lost, or if nothing could have been lost: then the cuts had no
    /// effect.
    pub async fn cut_power(&mut self, cuts: usize, keeps: Keeps) -> Result<(), Problem> {
        self.rest().await?;
        let recording = self.recording.take().ok_or("this row needs a recording of the disk")?;
        let log = Log::read(&recording.log)?;
        let acts = Acts::read(&log)?;
        let Place::File { path: database, .. } = &self.place else { return Err("this row needs a file".into()) };
        let database = database.clone();
        let mut seeded: Vec<Cut> = (0..cuts).map(|_| self.any_cut(log.len())).collect();
        seeded.sort_by_key(|cut| cut.at);
        let goes_on = self.rng.usize(..cuts);

        let scratch = folder();
        let mut disk = Disk::with(recording.base.clone());
        let mut liar = disk.clone().forgetful();
        let (mut position, mut lost, mut noticed, mut told) = (0, 0, 0, 0);
        for (number, cut) in seeded.iter().enumerate() {
            for entry in (position..cut.at).map(|position| log.entry(position)) {
                disk.play(entry);
                liar.play(entry);
            }
            position = cut.at;
            self.harm(POWER_CUT, "broker");
            let folder = scratch.path().join(number.to_string());
            let left = lay_out(&disk, cut, &folder)?;
            if number == goes_on {
                self.restore(&log, cut, &left).await?;
            }
            let found = look(&left).await.map(|there| acts.judge(cut.at, &there, keeps));
            match found {
                Ok(Found { broken, lost: missing, told: all }) if broken.is_empty() => (lost, told) = (lost + missing.len(), told + all),
                found => {
                    // The file before it was opened.
                    let _ = fs::remove_dir_all(&folder);
                    lay_out(&disk, cut, &folder)?;
                    let what = found.map_or_else(
                        |problem| problem.to_string(),
                        |found| format!("{} are lost, such as {}", found.broken.len(), found.broken[0]),
                    );
                    let kept = scratch.keep().join(number.to_string());
                    return Err(format!("power cut {cut:?} of {}: {what}; its files: {}", log.len(), kept.display()).into());
                }
            }
            // A loss must be detected for a disk that acknowledges data without storing it.
            // Otherwise this row detects nothing.
            if number % 10 == 0 {
                let lie = Cut { loss: Loss::Latest, ..*cut };
                let left = lay_out(&liar, &lie, &scratch.path().join("lie"))?;
                noticed += look(&left).await.map_or(1, |there| acts.judge(cut.at, &there, Keeps::Everything).broken.len());
            }
            let _ = fs::remove_dir_all(&folder);
        }
        for entry in (position..log.len()).map(|position| log.entry(position)) {
            disk.play(entry);
        }
        let whole = disk.after_a_cut(Loss::Nothing, &mut self.rng);
        for (name, bytes) in files(&database)? {
            if whole.get(name.as_str()) != Some(&bytes) {
                return Err(format!("{name} is not what was written down of it").into());
            }
        }
        match (noticed, lost, keeps) {
            (0, ..) => Err(missed("no loss was seen on a disk that keeps nothing").into()),
            (_, 0, Keeps::AllButATail) => Err(missed(format!("nothing of {told} was lost")).into()),
            _ => Ok(()),
        }
    }

    /// Waits until all work is done, and only the driver has the file open.
    async fn rest(&mut self) -> Result<(), Problem> {
        let jobs = self.setup.jobs;
        self.until("all jobs to be done", async |bed| {
            bed.producers.iter_mut().all(super::child::Producer::has_ended) && bed.counter(Counter::Done).await >= jobs
        })
        .await?;
        for worker in 0..self.workers.len() {
            self.end(worker).await?;
        }
        Ok(())
    }

    fn any_cut(&mut self, entries: usize) -> Cut {
        let loss = *self.rng.choice(&Loss::ALL).expect("there are some");
        Cut { at: self.rng.usize(1..=entries), loss, seed: self.rng.u64(..) }
    }

    /// Continues the run from here: with the remaining file, the histories at that time, and new
    /// processes.
    async fn restore(&mut self, log: &Log, cut: &Cut, left: &Path) -> Result<(), Problem> {
        let mut histories: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
        for (position, entry) in log.entries().filter(|(_, entry)| entry.file.ends_with(".jsonl")) {
            let history = histories.entry(entry.file).or_default();
            if let Change::Write(_, lines) = entry.change
                && position < cut.at
            {
                history.extend_from_slice(lines);
            }
        }
        for (name, lines) in histories {
            fs::write(self.folder.path().join(name), lines)?;
        }
        let restored = self.folder.path().join("restored").join("queue.db");
        for (name, bytes) in files(left)? {
            let copy = restored.with_file_name(name);
            fs::create_dir_all(copy.parent().unwrap_or(&copy))?;
            fs::write(copy, bytes)?;
        }
        self.restored = Some(restored);
        Ok(())
    }

    /// Starts new processes on the restored database.
    ///
    /// # Errors
    /// If none was restored, or a process cannot be started.
    pub async fn power_returns(&mut self) -> Result<(), Problem> {
        let restored = self.restored.take().ok_or("no database was restored")?;
        let Place::File { path, .. } = &mut self.place else { return Err("this row needs a file".into()) };
        *path = restored;
        self.client = Client::connect(&self.place.url()).await?;
        for _ in 0..self.setup.workers {
            self.start_worker()?;
        }
        self.start_producer(self.setup.producers)
    }
}

/// Writes the files after a cut, and returns the path of the database.
fn lay_out(disk: &Disk<'_>, cut: &Cut, folder: &Path) -> Result<PathBuf, Problem> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder)?;
    for (name, bytes) in disk.after_a_cut(cut.loss, &mut fastrand::Rng::with_seed(cut.seed)) {
        fs::write(folder.join(name), bytes)?;
    }
    Ok(folder.join("queue.db"))
}

/// Opens the database that the crash left. Returns all jobs and their states, or the damage.
async fn look(database: &Path) -> Result<BTreeMap<String, JobState>, Problem> {
    // A disk of this machine that is blocked for some seconds breaks no promise.
    let url = queue_core::Client::sqlite_url(database);
    let client = match Client::connect(&url).await {
        Err(error) if error.is_transient() => Client::connect(&url).await?,
        opened => opened?,
    };
    let client = client.with_deadline(Duration::from_secs(60));
    let inspector = client.inspector();
    let damages = inspector.audit(QUEUE, Audit { repair: false, thorough: true }).await?;
    if let Some(damage) = damages.first() {
        return Err(format!("{} damages, such as {}: {}", damages.len(), damage.kind, damage.subject).into());
    }
    // A cut before the first job leaves no queue. `judge` decides whether jobs may be missing.
    let is_there = inspector.queues().await?.iter().any(|queue| queue == QUEUE);
    let mut there = BTreeMap::new();
    for state in JobState::ALL.into_iter().filter(|_| is_there) {
        let mut walk = inspector.walk(QUEUE, state);
        while let Some(jobs) = walk.next().await? {
            for job in jobs {
                if there.insert(job.address.id.to_string(), state).is_some() {
                    return Err(format!("job {} is there twice", job.address).into());
                }
            }
        }
    }
    drop(client);
    let file = rusqlite::Connection::open(database)?;
    let said: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if said != "ok" {
        return Err(format!("the file is damaged: {said}").into());
    }
    Ok(there)
}

/// The database and its log.
fn files(database: &Path) -> Result<BTreeMap<String, Vec<u8>>, Problem> {
    let mut files = BTreeMap::new();
    for name in ["queue.db", "queue.db-wal"] {
        match fs::read(database.with_file_name(name)) {
            Ok(bytes) => drop(files.insert(name.to_owned(), bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(files)
}
