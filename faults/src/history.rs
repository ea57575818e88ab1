//! The recorded actions of processes: one append-only file for each, with a line per record.
//!
//! A record is written in one piece before the next action. A killed process therefore leaves a
//! complete history: at most its last line is torn, and an operation without an answer may or may
//! not have happened.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Instant, SystemTime},
};

use queue_core::{JobId, topics::Begin};
use serde::{Deserialize, Serialize};

/// The phase of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It begins. Without one of the others it may or may not have happened.
    Invoke,
    /// It has happened.
    Ok,
    /// It was refused, and has not happened.
    Fail,
    /// The result is unknown.
    Unknown,
}

/// The ending of a delivery, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Done.
    Ack,
    /// Failed: comes back after `delay_ms`.
    Nack {
        /// The backoff.
        delay_ms: u64,
    },
    /// Comes back after `delay_ms`.
    Snooze {
        /// The delay.
        delay_ms: u64,
    },
    /// Its next round comes after `delay_ms`.
    Repeat {
        /// The delay.
        delay_ms: u64,
    },
    /// Dead.
    Bury {
        /// Whether that counts as a failed attempt.
        failed: bool,
    },
    /// No longer wanted.
    Cancel,
    /// Too late.
    Expire,
    /// Returned.
    Return,
    /// Parked for a worker with its task.
    Park,
    /// The answer to a revoked delivery.
    Void,
}

impl Ending {
    /// Whether the job has ended permanently.
    pub fn is_final(self) -> bool {
        matches!(self, Ending::Ack | Ending::Bury { .. } | Ending::Cancel | Ending::Expire)
    }

    /// The verb.
    pub fn name(self) -> &'static str {
        match self {
            Ending::Ack => "ack",
            Ending::Nack { .. } => "nack",
            Ending::Snooze { .. } => "snooze",
            Ending::Repeat { .. } => "repeat",
            Ending::Bury { .. } => "bury",
            Ending::Cancel => "cancel",
            Ending::Expire => "expire",
            Ending::Return => "return",
            Ending::Park => "park",
            Ending::Void => "void",
        }
    }

    /// The delay until the job may come back.
    pub fn delay_ms(self) -> u64 {
        match self {
            Ending::Nack { delay_ms } | Ending::Snooze { delay_ms } | Ending::Repeat { delay_ms } => delay_ms,
            _ => 0,
        }
    }
}

/// The expected result of a job without faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// Done.
    #[default]
    Done,
    /// Dead: it fails permanently, kills its process, or cannot be read.
    Dead,
    /// Any result: it is cancelled or deleted before.
    Any,
}

/// The begin of a subscription, or the target of its rewind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// At the oldest event.
    Start,
    /// At the next one.
    Now,
    /// At this time, in milliseconds since 1970.
    AtMs(i64),
}

impl From<Begin> for Mark {
    fn from(begin: Begin) -> Self {
        match begin {
            Begin::Now => Mark::Now,
            Begin::Start => Mark::Start,
            Begin::AtMs(at) => Mark::AtMs(at),
        }
    }
}

/// The name of a job in histories: its id. For a job of a subscription, the queue comes before the
/// id, because an event has one id in all subscriptions.
pub fn job_name(queue: &str, id: &JobId) -> String {
    if queue.contains('@') { format!("{queue}/{id}") } else { id.to_string() }
}

/// The queue of the subscription of a job, by its name. `None` if the job is in the queue of all
/// jobs.
pub fn subscription_of(name: &str) -> Option<&str> {
    name.split_once('/').map(|(queue, _)| queue).filter(|queue| queue.contains('@'))
}

/// An operation. The broker identifies jobs by their id, and producers identify them by their key,
/// a number in the payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A job is stored.
    Enqueue {
        /// The job's number.
        key: u64,
        /// Its id, if known.
        id: Option<String>,
        /// A digest of its payload.
        digest: u64,
        /// How long it has to wait.
        delay_ms: u64,
        /// The number of the failure that buries it.
        max_attempts: u32,
        /// Whether the broker had it already.
        existing: bool,
        /// Its expected result.
        wish: Wish,
        /// The number of its unique key, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unique: Option<u64>,
    },
    /// An event is published.
    Publish {
        /// The number of the event.
        key: u64,
        /// Its id, if known.
        id: Option<String>,
        /// A digest of its payload.
        digest: u64,
        /// Whether it was published before, under the same given id.
        again: bool,
        /// The expected result of its jobs.
        wish: Wish,
    },
    /// A subscription is created. `Fail` if it existed.
    Subscribe {
        /// Its queue.
        subscription: String,
        /// Where it begins.
        begin: Mark,
    },
    /// A subscription is rewound.
    Rewind {
        /// Its queue.
        subscription: String,
        /// The target.
        to: Mark,
    },
    /// Events past the retention of their topic were removed.
    Trim {
        /// The number of removed events.
        entries: u64,
        /// The number of times that a subscription had not read one of them.
        lost: u64,
    },
    /// The job of a tick is created. `Ok` if it was stored, `Fail` if a job with this id exists.
    Tick {
        /// The schedule.
        schedule: String,
        /// The tick, in milliseconds since 1970.
        tick_ms: i64,
        /// The id of the job.
        id: String,
    },
    /// A turn has claimed a job.
    Claim {
        /// The job.
        id: String,
        /// The lane.
        lane: String,
        /// The claim number: with the lane the token of the delivery.
        claim: u64,
        /// The time of the broker's clock.
        at_ms: i64,
        /// Failures so far.
        attempts: u32,
        /// Crashes so far.
        crashes: u32,
    },
    /// A handler begins.
    Start {
        /// The job's number in its payload.
        key: u64,
        /// The job.
        id: String,
        /// The claim number.
        claim: u64,
        /// The digest of the received payload.
        digest: u64,
    },
    /// A handler ends.
    End {
        /// The job.
        id: String,
        /// The claim number.
        claim: u64,
        /// The result in one word.
        how: String,
    },
    /// A delivery is finished. `Ok` if the finish was accepted, `Fail` if its lease was lost.
    Finish {
        /// The job.
        id: String,
        /// The lane.
        lane: String,
        /// The claim number.
        claim: u64,
        /// The turn that carries it. If it is sent again, it is the same finish.
        seq: u64,
        /// The ending.
        ending: Ending,
    },
    /// A worker requests jobs. `Ok` if it has recorded the result.
    Ask {
        /// The lane.
        lane: String,
        /// The number of the turn.
        seq: u64,
    },
    /// A lane renewed its lease, by a turn or a heartbeat.
    Renew {
        /// The lane.
        lane: String,
    },
    /// A lane was fenced, and its jobs are reclaimed.
    Fence {
        /// The lane.
        lane: String,
    },
    /// An operator or the application cancels a job.
    Cancel {
        /// The job.
        id: String,
    },
    /// An operator requeues a dead job.
    Requeue {
        /// The job.
        id: String,
    },
    /// An operator edits a waiting job.
    Edit {
        /// The job.
        id: String,
        /// The digest of its new payload.
        digest: u64,
    },
    /// An operator sets the number of jobs of each key that run at once.
    Cap {
        /// The number of jobs.
        cap: usize,
    },
    /// An operator deletes a job.
    Delete {
        /// The job.
        id: String,
    },
    /// A worker process is ready.
    Up {
        /// The maximum number of concurrent jobs.
        concurrency: usize,
        /// The tasks of the worker.
        tasks: Vec<String>,
    },
    /// A worker process has ended or was killed.
    Down,
    /// A fault is injected.
    Fault {
        /// The name of the fault.
        name: String,
        /// The target: a process of the history, the broker, or a connection.
        target: String,
    },
    /// All faults have ended.
    Heal,
}

impl Operation {
    /// The id of the job of the operation.
    pub fn id(&self) -> Option<&str> {
        match self {
            Operation::Enqueue { id, .. } | Operation::Publish { id, .. } => id.as_deref(),
            Operation::Tick { id, .. }
            | Operation::Claim { id, .. }
            | Operation::Start { id, .. }
            | Operation::End { id, .. }
            | Operation::Finish { id, .. }
            | Operation::Cancel { id }
            | Operation::Requeue { id }
            | Operation::Edit { id, .. }
            | Operation::Delete { id } => Some(id),
            _ => None,
        }
    }
}

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The process.
    #[serde(rename = "p")]
    pub process: String,
    /// The time in microseconds since 1970, by the wall clock.
    #[serde(rename = "w")]
    pub wall_us: u64,
    /// The time in microseconds since the first record of the process.
    #[serde(rename = "m")]
    pub mono_us: u64,
    /// The phase of the operation.
    #[serde(rename = "f")]
    pub phase: Phase,
    /// The operation.
    #[serde(rename = "o")]
    pub operation: Operation,
}

/// Writes the history of a process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    process: String,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    File { file: File, began: Instant },
    Memory(Memory),
}

/// A history in memory with the runtime's clock, for simulated processes.
#[derive(Clone, Debug)]
pub struct Memory {
    began: tokio::time::Instant,
    records: Arc<Mutex<Vec<Record>>>,
}

impl Memory {
    /// An empty history. Its time begins now, at [`ORIGIN_US`].
    pub fn begin() -> Memory {
        Memory { began: tokio::time::Instant::now(), records: Arc::default() }
    }

    /// Microseconds since 1970, by the clock of this history.
    pub fn now_us(&self) -> u64 {
        ORIGIN_US + u64::try_from(self.began.elapsed().as_micros()).expect("fits for ages")
    }

    /// All records.
    pub fn records(&self) -> Vec<Record> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The start of simulated time.
pub const ORIGIN_US: u64 = 1_000_000_000_000_000;

impl Recorder {
    /// Appends to a file.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path, process: impl Into<String>) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let sink = Sink::File { file, began: Instant::now() };
        Ok(Recorder(Arc::new(Inner { process: process.into(), sink })))
    }

    /// Appends to a history in memory.
    pub fn simulated(memory: &Memory, process: impl Into<String>) -> Self {
        Recorder(Arc::new(Inner { process: process.into(), sink: Sink::Memory(memory.clone()) }))
    }

    /// Writes one record.
    pub fn note(&self, phase: Phase, operation: Operation) {
        self.note_all([(phase, operation)]);
    }

    /// Writes several records in one piece, so that a crash leaves complete lines.
    ///
    /// # Panics
    /// If the file cannot be written, because a history with gaps proves nothing.
    pub fn note_all(&self, records: impl IntoIterator<Item = (Phase, Operation)>) {
        let record = |wall_us, mono_us, (phase, operation)| {
            let process = self.0.process.clone();
            Record { process, wall_us, mono_us, phase, operation }
        };
        let (mut file, began) = match &self.0.sink {
            Sink::File { file, began } => (file, began),
            Sink::Memory(memory) => {
                let now_us = memory.now_us();
                let mut all = memory.records.lock().unwrap_or_else(PoisonError::into_inner);
                return all.extend(records.into_iter().map(|what| record(now_us, now_us - ORIGIN_US, what)));
            }
        };
        let (wall_us, mono_us) = (now_us(), u64::try_from(began.elapsed().as_micros()).expect("fits for ages"));
        let mut lines = Vec::new();
        for what in records {
            serde_json::to_writer(&mut lines, &record(wall_us, mono_us, what)).expect("a record has only strings and numbers");
            lines.push(b'\n');
        }
        if !lines.is_empty() {
            file.write_all(&lines).expect("the history can be written");
        }
    }
}

/// The variable with the error of a process's clock, in milliseconds.
pub const CLOCK: &str = "FAULTS_CLOCK_MS";

/// Microseconds since 1970, by a clock that is set once and never jumps, so that histories of one
/// machine are comparable.
pub fn now_us() -> u64 {
    static BASE: OnceLock<(Instant, u64)> = OnceLock::new();
    let (began, wall) = BASE.get_or_init(|| {
        // A process that loses the processor between the two readings would always be behind the
        // others. The closest pair is used.
        let readings = (0..100).map(|_| {
            let began = Instant::now();
            let wall = SystemTime::UNIX_EPOCH.elapsed().expect("the clock is past 1970");
            (began.elapsed(), began, wall)
        });
        let (_, began, wall) = { readings }.min_by_key(|(apart, ..)| *apart).expect("there are some");
        let wall = i64::try_from(wall.as_micros()).expect("fits for ages");
        // A process whose clock was moved subtracts the error here.
        let moved_ms: i64 = std::env::var(CLOCK).ok().and_then(|ms| ms.parse().ok()).unwrap_or(0);
        (began, u64::try_from(wall - moved_ms * 1000).expect("it is past 1970 all the same"))
    });
    wall + u64::try_from(began.elapsed().as_micros()).expect("fits for ages")
}

/// The fault after which a broker may have lost unacknowledged data.
pub const POWER_CUT: &str = "power cut";

/// The fault after which a broker may also have lost acknowledged data.
pub const TAIL_CUT: &str = "cut tail";

/// Reads the histories in a folder (`*.jsonl`) and merges them by time. Records of one process keep
/// their order.
///
/// # Errors
/// If a file cannot be read, or has an invalid line that is not a torn last one.
pub fn read(folder: &Path) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let text = std::fs::read(&path)?;
        let mut lines = text.split(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            match serde_json::from_slice(line) {
                Ok(record) => records.push(record),
                // The piece after the last line end: empty, or torn by a kill.
                Err(_) if lines.peek().is_none() => {}
                Err(error) => {
                    let shown = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
                    return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}: {shown}", path.display())));
                }
            }
        }
    }
    records.sort_by_key(|record: &Record| record.wall_us);
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back_and_a_torn_line_is_left_out() {
        let folder = std::env::temp_dir().join(format!("queue-faults-history-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (first, second) = (folder.join("a.jsonl"), folder.join("b.jsonl"));
        Recorder::open(&first, "a").unwrap().note(Phase::Ok, Operation::Heal);
        Recorder::open(&second, "b").unwrap().note(Phase::Invoke, Operation::Cancel { id: "x".to_owned() });
        OpenOptions::new().append(true).open(&second).unwrap().write_all(b"{\"p\":\"b\",\"w\":12").unwrap();
        let records = read(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let read: Vec<_> = records.iter().map(|record| (record.process.as_str(), record.phase)).collect();
        assert_eq!(read, [("a", Phase::Ok), ("b", Phase::Invoke)]);
    }
}
