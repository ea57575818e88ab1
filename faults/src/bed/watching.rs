//! A watcher of the queue of a run, and its transitions.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use queue_core::{
    JobAddress, JobId, JobState,
    inspect::{Transition, Watched},
};
use tokio::task::JoinHandle;

use super::{Bed, Problem};
use crate::work::QUEUE;

/// It reads in a separate task, unless it is suspended.
#[derive(Debug)]
pub struct Watcher {
    seen: Arc<Mutex<Vec<Watched>>>,
    reads: Arc<AtomicBool>,
    task: JoinHandle<Result<(), queue_core::Error>>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watcher {
    fn seen(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of received transitions and losses.
    pub fn told(&self) -> usize {
        self.seen().len()
    }

    /// The number of reported losses.
    pub fn losses(&self) -> usize {
        self.seen().iter().filter(|watched| matches!(watched, Watched::Lost(_))).count()
    }

    /// Resumes or suspends reading, to simulate a busy program.
    pub fn reads(&self, reads: bool) {
        self.reads.store(reads, Ordering::Relaxed);
    }

    /// The transitions of a job since the last loss; the state is `None` for a new job.
    fn story(&self, id: &JobId) -> Vec<(Option<JobState>, Option<JobState>)> {
        let mut story = Vec::new();
        for watched in &*self.seen() {
            match watched {
                Watched::Transition(Transition { job, from, to, .. }) if job.id == *id => story.push((*from, *to)),
                Watched::Lost(_) => story.clear(),
                _ => {}
            }
        }
        story
    }

    /// Waits until it has received each transition of a job that is enqueued now and runs once.
    ///
    /// # Errors
    /// If it has not in time.
    pub async fn hears_of(&self, bed: &mut Bed, id: &JobId) -> Result<(), Problem> {
        use JobState::{Active, Done, Ready};
        let whole = [(None, Some(Ready)), (Some(Ready), Some(Active)), (Some(Active), Some(Done))];
        let heard = bed.until("a watcher to hear of a job", async |_| self.story(id).len() >= whole.len()).await;
        let story = self.story(id);
        if heard.is_err() || story != whole {
            return Err(format!("a watcher was told of job {id}, which was enqueued and has run: {story:?}").into());
        }
        Ok(())
    }

    /// Waits until each job is in the last received state since the last loss. A removed job must
    /// have ended.
    ///
    /// # Errors
    /// If one is not: a later transition was lost without a report.
    pub async fn knows_the_state_of_each_job(&self, bed: &mut Bed) -> Result<(), Problem> {
        let mut left = self.open();
        let inspector = bed.client.inspector();
        let known = bed.until("a watcher to know the state of each job", async |_| {
            let told = self.open();
            let mut wrong = BTreeMap::new();
            for (job, state) in left.keys().filter_map(|job| Some((job, *told.get(job)?))) {
                let found = inspector.show(job).await.ok().map(|found| found.state);
                if found != Some(state) {
                    wrong.insert(job.clone(), state);
                }
            }
            left = wrong;
            left.is_empty()
        });
        let known = known.await;
        match (known, left.first_key_value()) {
            (Err(_), Some((job, state))) => {
                let many = left.len();
                Err(format!("a watcher was told that job {job} is {state}, and what has become of it since is lost, which was not told: so it is with {many} jobs").into())
            }
            (known, _) => known,
        }
    }

    /// The jobs that have not ended, by the transitions since the last loss.
    fn open(&self) -> BTreeMap<JobAddress, JobState> {
        let mut open = BTreeMap::new();
        for watched in &*self.seen() {
            match watched {
                Watched::Transition(Transition { job, to, .. }) => match to.filter(|state| !state.is_final()) {
                    Some(state) => drop(open.insert(job.clone(), state)),
                    None => drop(open.remove(job)),
                },
                Watched::Lost(_) => open.clear(),
                _ => {}
            }
        }
        open
    }

    /// Checks that no transition is missing without a reported loss: each transition of a job must
    /// begin in the state of the one before.
    ///
    /// # Errors
    /// If one is missing.
    pub fn is_whole(&self) -> Result<(), Problem> {
        if self.task.is_finished() {
            return Err("the watch has ended with an error".into());
        }
        let mut states: BTreeMap<JobId, Option<JobState>> = BTreeMap::new();
        let mut losses = 0;
        for watched in &*self.seen() {
            match watched {
                Watched::Transition(told) => {
                    let before = states.insert(told.job.id.clone(), told.to);
                    // The id of a removed job may be used again.
                    let is_new = told.from.is_none() && before.is_some_and(|before| before.is_none_or(JobState::is_final));
                    if before.is_some_and(|before| before != told.from) && !is_new {
                        let before = before.flatten().map_or("removed", JobState::name);
                        return Err(format!("after {losses} losses a watcher was told `{told}`, and before that it was {before}: between them something is lost that was not told").into());
                    }
                }
                Watched::Lost(_) => {
                    losses += 1;
                    states.clear();
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Bed {
    /// Begins to watch the queue.
    ///
    /// # Errors
    /// When it cannot be watched.
    pub async fn watch(&self) -> Result<Watcher, Problem> {
        let mut watch = self.client.watch(format!("queue={QUEUE}").parse()?)?;
        let (seen, reads) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(true)));
        let (noted, goes_on) = (seen.clone(), reads.clone());
        let note = move |watched| noted.lock().unwrap_or_else(PoisonError::into_inner).push(watched);
        watch.next_within(Duration::ZERO).await?.into_iter().for_each(&note);
        let task = tokio::spawn(async move {
            loop {
                if goes_on.load(Ordering::Relaxed) {
                    watch.next_within(Duration::from_millis(20)).await?.into_iter().for_each(&note);
                } else {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        });
        Ok(Watcher { seen, reads, task })
    }
}
