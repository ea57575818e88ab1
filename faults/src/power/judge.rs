//! What a queue must still know after a power cut.

use std::collections::{BTreeMap, HashMap};

use queue_core::broker::JobState;

use super::{Change, Log};
use crate::history::{Ending, Operation, Phase, Record};

/// What a database keeps of that which it has acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// All of it.
    Everything,
    /// All but the latest: whatever began after the end of something that was lost is lost, too.
    AllButATail,
}

/// What processes asked of the broker and what they were told, by their place in the log of the
/// disk.
#[derive(Debug, Default)]
pub struct Acts(Vec<Act>);

#[derive(Debug)]
struct Act {
    id: String,
    kind: Kind,
    asked: usize,
    told: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Enqueued,
    Done,
}

/// What was found after a cut.
#[derive(Debug, Default)]
pub struct Found {
    /// Acknowledged and lost, in words.
    pub lost: Vec<String>,
    /// Those of them that may not be lost.
    pub broken: Vec<String>,
    /// How much was acknowledged.
    pub told: usize,
}

impl Acts {
    /// Reads the histories in the log. Only of jobs that are kept when they are done it can be said
    /// whether they are.
    ///
    /// # Errors
    /// When a line is no record.
    pub fn read(log: &Log) -> Result<Acts, String> {
        let mut acts = Acts::default();
        let (mut enqueues, mut finishes) = (HashMap::new(), HashMap::new());
        for (position, entry) in log.entries().filter(|(_, entry)| entry.file.ends_with(".jsonl")) {
            let Change::Write(_, lines) = entry.change else { continue };
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let record: Record = serde_json::from_slice(line).map_err(|error| format!("{}: {error}", entry.file))?;
                let (map, key, id, kind) = match &record.operation {
                    Operation::Enqueue { key, id, existing: false, .. } => (&mut enqueues, key.to_string(), id.clone(), Kind::Enqueued),
                    Operation::Finish { id, claim, ending: Ending::Ack, .. } => {
                        (&mut finishes, format!("{id} {claim}"), Some(id.clone()), Kind::Done)
                    }
                    _ => continue,
                };
                if record.phase == Phase::Invoke {
                    map.entry(key).or_insert(position);
                } else if let (Phase::Ok, Some(id), Some(asked)) = (record.phase, id, map.remove(&key)) {
                    acts.0.push(Act { id, kind, asked, told: Some(position) });
                } else if record.phase == Phase::Fail {
                    map.remove(&key);
                }
            }
        }
        // The jobs of enqueues without an answer are not known; those of finishes are.
        for (key, asked) in finishes {
            let id = key.split(' ').next().unwrap_or_default().to_owned();
            acts.0.push(Act { id, kind: Kind::Done, asked, told: None });
        }
        Ok(acts)
    }

    /// Compares what had been told when the power failed, at this place in the log, with the jobs
    /// that are there and their states.
    pub fn judge(&self, cut: usize, there: &BTreeMap<String, JobState>, keeps: Keeps) -> Found {
        let asked = || self.0.iter().filter(|act| act.asked < cut);
        let latest = asked().filter(|act| act.survived(there)).map(|act| act.asked).max().unwrap_or(0);
        let mut found = Found::default();
        for act in asked() {
            let Some(told) = act.told.filter(|told| *told < cut) else { continue };
            found.told += 1;
            if act.survived(there) {
                continue;
            }
            let what = format!("job {} was {} at {told}", act.id, if act.kind == Kind::Done { "done" } else { "enqueued" });
            match keeps {
                Keeps::Everything => found.broken.push(what.clone()),
                Keeps::AllButATail if told < latest => found.broken.push(format!("{what}, and what began at {latest} is there")),
                Keeps::AllButATail => {}
            }
            found.lost.push(what);
        }
        found
    }
}

impl Act {
    fn survived(&self, there: &BTreeMap<String, JobState>) -> bool {
        match there.get(&self.id) {
            Some(state) => self.kind == Kind::Enqueued || *state == JobState::Done,
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three enqueues, one after the other: asked at 0, 2, 4, told at 1, 3, 5.
    fn three() -> Acts {
        let act = |n: usize| Act { id: n.to_string(), kind: Kind::Enqueued, asked: 2 * n, told: Some(2 * n + 1) };
        Acts((0..3).map(act).collect())
    }

    fn there(ids: &[&str]) -> BTreeMap<String, JobState> {
        ids.iter().map(|id| ((*id).to_owned(), JobState::Ready)).collect()
    }

    #[test]
    fn whoever_keeps_everything_may_lose_only_unreported_jobs() {
        let broken = |cut, ids: &[&str]| three().judge(cut, &there(ids), Keeps::Everything).broken.len();
        assert_eq!([broken(6, &["0", "1", "2"]), broken(5, &["0", "1"]), broken(6, &["0", "1"])], [0, 0, 1]);
    }

    #[test]
    fn a_tail_may_be_lost_and_a_hole_may_not() {
        let judge = |ids: &[&str]| {
            let found = three().judge(6, &there(ids), Keeps::AllButATail);
            (found.lost.len(), found.broken.len())
        };
        assert_eq!([judge(&["0"]), judge(&["0", "2"]), judge(&[])], [(2, 0), (1, 1), (3, 0)]);
    }

    #[test]
    fn a_job_that_was_done_has_to_be_done() {
        let acts = Acts(vec![Act { id: "0".to_owned(), kind: Kind::Done, asked: 0, told: Some(1) }]);
        assert_eq!(acts.judge(2, &there(&["0"]), Keeps::Everything).broken.len(), 1);
    }
}
