//! What handlers tell of their jobs: progress, and a log of bounded length. It stays for as long as the job.

use std::{collections::VecDeque, time::Duration};

use queue_core::{
    JobId, Result,
    broker::{LOG_BYTES, LOG_LINES, Remarks, StoredLine, StoredProgress, StoredRemarks},
};

use super::{Model, doors::Place, enqueue::forgotten};

/// What is kept of a job.
#[derive(Clone, Debug, Default)]
pub(in crate::model) struct Told {
    progress: Option<((u64, u64), StoredProgress)>,
    /// The claim of the last delivery that told a line, and the number of its next.
    claim: u64,
    expected: u64,
    /// How many lines of before were dropped, and how many never came.
    first: u64,
    missed: u64,
    lines: VecDeque<StoredLine>,
}

impl Model {
    /// Keeps what is told of jobs that the lane holds.
    ///
    /// # Errors
    /// `Forgotten` for a lane without an entry.
    pub fn remark(&mut self, remarks: &Remarks) -> Result<Vec<bool>> {
        if self.lanes.get(&remarks.lane).is_none_or(|lane| lane.fenced) {
            return Err(forgotten(&remarks.lane));
        }
        let mut answers = Vec::new();
        for job in &remarks.jobs {
            let holds = self.jobs.get(&job.id).is_some_and(
                |stored| matches!(stored.place(), Place::Active { lane, claim } if *lane == remarks.lane && *claim == job.claim),
            );
            answers.push(holds);
            if !holds {
                continue;
            }
            let now = self.now;
            let at = |age: Duration| now - i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            let told = &mut self.jobs.edit(&job.id).told;
            if let Some(progress) = &job.progress {
                let number = (job.claim, progress.seq);
                if told.progress.as_ref().is_none_or(|(known, _)| *known < number) {
                    told.progress = Some((number, StoredProgress::new(at(progress.age), job.attempt, progress)));
                }
            }
            if !job.lines.is_empty() && told.claim != job.claim {
                (told.claim, told.expected) = (job.claim, 0);
            }
            for (number, line) in (job.first..).zip(&job.lines) {
                if number >= told.expected {
                    told.missed += number - told.expected;
                    told.expected = number + 1;
                    told.lines.push_back(StoredLine::new(at(line.age), job.attempt, line));
                }
            }
            while told.lines.len() > LOG_LINES || told.lines.iter().map(bytes).sum::<usize>() > LOG_BYTES {
                told.lines.pop_front();
                told.first += 1;
            }
            if self.watched.contains_key(&job.id) {
                self.remarked.push(job.id.clone());
            }
        }
        Ok(answers)
    }

    /// What is kept of a job, with the lines from this number on.
    pub fn remarks(&self, id: &JobId, from: u64) -> Option<StoredRemarks> {
        let told = self.jobs.get(id)?.told.clone();
        let skip = usize::try_from(from.saturating_sub(told.first)).unwrap_or(usize::MAX);
        let next = told.first + told.lines.len() as u64;
        let lines = told.lines.into_iter().skip(skip).collect();
        Some(StoredRemarks::new(told.progress.map(|(_, progress)| progress), lines, next, told.first + told.missed))
    }

    /// The watched jobs of which something was told since the last call, for those who listen.
    pub fn take_remarked(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.remarked)
    }
}

/// What a line takes where it is stored.
fn bytes(line: &StoredLine) -> usize {
    format!("{}:0:{}:{}", line.at_ms, line.attempt, line.text).len() + 2
}
