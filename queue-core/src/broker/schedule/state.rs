//! The state of a schedule.

use serde::{Deserialize, Serialize};

use crate::{
    codec,
    error::{Error, Result},
};

/// Most runs that are kept.
const RUNS_KEPT: usize = 10;

/// Most events that are kept.
const EVENTS_KEPT: usize = 20;

/// The stored form of a schedule except its definition. Scripts read and write it, too: it is a
/// MessagePack map of numbers, texts, and lists that are absent when they are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScheduleState {
    /// Grows with each change of the definition.
    #[serde(rename = "r")]
    pub revision: u64,
    /// The next tick, without jitter.
    #[serde(rename = "n", skip_serializing_if = "Option::is_none")]
    pub next_ms: Option<i64>,
    /// The last tick that was made.
    #[serde(rename = "l", skip_serializing_if = "Option::is_none")]
    pub last_ms: Option<i64>,
    /// The run of the last tick, while its job has not ended.
    #[serde(rename = "u", skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    /// A tick that waits for the end of that job.
    #[serde(rename = "b", skip_serializing_if = "Option::is_none")]
    pub buffered_ms: Option<i64>,
    /// The number of runs, including those that operators started.
    #[serde(rename = "c")]
    pub runs: u64,
    /// The number of ticks.
    #[serde(rename = "m")]
    pub made: u64,
    /// The number of its jobs in a row that became dead letters.
    #[serde(rename = "d")]
    pub dead: u64,
    /// The number of dead jobs in a row that pauses it; 0: none.
    #[serde(rename = "x")]
    pub pause_after: u64,
    /// Why it is paused.
    #[serde(rename = "p", skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// The number of skipped ticks.
    #[serde(rename = "s")]
    pub skipped: u64,
    /// The header `traceparent` of the job of the last tick, to which the next one is linked.
    #[serde(rename = "t", skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// When it was first seen.
    #[serde(rename = "f")]
    pub first_ms: i64,
    /// The last runs, the newest last.
    #[serde(rename = "o", skip_serializing_if = "Vec::is_empty")]
    pub last_runs: Vec<ScheduleRun>,
    /// The last events, the newest last.
    #[serde(rename = "e", skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<ScheduleEvent>,
}

/// A job that a schedule has made: its number, its tick, its id, its final state or an empty text,
/// and the time of its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented above, in this order")]
pub struct ScheduleRun(pub u64, pub i64, pub String, pub String, pub i64);

/// An event: its time and kind, and for skipped ticks the first, the last and their number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented above, in this order")]
pub struct ScheduleEvent(pub i64, pub String, pub i64, pub i64, pub u64);

impl ScheduleState {
    /// Encodes it for storage.
    pub fn encode(&self) -> Vec<u8> {
        codec::pack(self).expect("numbers and texts can be encoded")
    }

    /// Decodes the stored form.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        codec::unpack(bytes).map_err(|problem| Error::Decode { what: "the state of a schedule".into(), problem })
    }

    /// The job of a run has ended in this state, or is parked. True: a tick has waited for that,
    /// and is due now.
    ///
    /// A parked job counts as ended for later ticks. It may still run, and then its ending is
    /// recorded again.
    pub fn ended(&mut self, run: u64, how: &str, now_ms: i64) -> bool {
        if let Some(run) = self.last_runs.iter_mut().find(|known| known.0 == run) {
            (run.3, run.4) = (how.to_owned(), now_ms);
        }
        match how {
            "dead" => {
                self.dead += 1;
                if self.pause_after > 0 && self.dead >= self.pause_after && self.paused.is_none() {
                    self.paused = Some(format!("{} of its jobs died in a row", self.dead));
                    self.happened(ScheduleEvent(now_ms, "paused".to_owned(), 0, 0, self.dead));
                }
            }
            "done" => self.dead = 0,
            _ => {}
        }
        if self.running == Some(run) {
            self.running = None;
            return self.buffered_ms.is_some() && self.paused.is_none();
        }
        false
    }

    /// Records the beginning of a run.
    pub fn begun(&mut self, tick_ms: i64, id: String) -> u64 {
        self.runs += 1;
        self.last_runs.push(ScheduleRun(self.runs, tick_ms, id, String::new(), 0));
        // The active run is kept, even if operators have started many runs since.
        let running = self.running;
        if self.last_runs.len() > RUNS_KEPT
            && let Some(oldest) = self.last_runs.iter().position(|run| Some(run.0) != running)
        {
            self.last_runs.remove(oldest);
        }
        self.runs
    }

    /// Records an event. Consecutive ticks that were skipped for one reason are one event.
    pub fn happened(&mut self, event: ScheduleEvent) {
        if let Some(last) = self.events.last_mut().filter(|last| last.1 == event.1 && event.4 > 0 && last.3 < event.2)
            && event.1.starts_with("skipped")
        {
            (last.0, last.3, last.4) = (event.0, event.3, last.4 + event.4);
            return;
        }
        self.events.push(event);
        let old = self.events.len().saturating_sub(EVENTS_KEPT);
        self.events.drain(..old);
    }
}
