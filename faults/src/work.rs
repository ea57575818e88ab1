//! The jobs of the suite: each carries a plan of what its handler does, and writes down when it
//! starts and ends.

use std::time::Duration;

use queue_core::{__private::Envelope, Registry, prelude::*};
use serde::{Deserialize, Serialize};

use crate::history::{Operation, Phase, Recorder, job_name};

/// The queue of all jobs.
pub const QUEUE: &str = "faults";

/// What a handler does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// How long it takes, in milliseconds.
    pub ms: u32,
    /// How it ends.
    pub deed: Deed,
}

/// How a handler ends, or does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    /// It returns.
    #[default]
    Return,
    /// It fails so many times, then returns.
    Fail(u32),
    /// It panics so many times, then returns.
    Panic(u32),
    /// It asks to come back so many times, then returns.
    Snooze(u32),
    /// It takes its process along, every time.
    Abort,
    /// It takes memory until there is none, every time.
    Eat,
    /// It blocks its thread instead of waiting.
    Block,
    /// It tells progress and so many lines while it runs, then returns.
    Tell(u32),
    /// It has used so much of the rates of its limits, then returns.
    Use(u32),
}

/// How long a snooze takes.
pub const SNOOZE: Duration = Duration::from_millis(60);

/// A digest of what a job carries, to be compared between those who sent it and those who got it.
pub fn digest(key: u64, pad: &str) -> u64 {
    fnv(key.to_le_bytes().into_iter().chain(pad.bytes()))
}

/// The key of a stored envelope, if it is one of a job of the suite, and the digest of what it
/// carries: of all its bytes, if it is not.
pub fn key_and_digest(envelope: &[u8]) -> (Option<u64>, u64) {
    #[derive(Deserialize)]
    struct Payload {
        key: u64,
        pad: String,
    }
    let payload = Envelope::decode(envelope).ok().and_then(|envelope| {
        let mut decoder = rmp_serde::Deserializer::from_read_ref(envelope.payload);
        // The default of 1024 overflows the stack of a test where nothing is optimized.
        decoder.set_max_depth(64);
        Payload::deserialize(&mut decoder).ok()
    });
    match payload {
        Some(Payload { key, pad }) => (Some(key), digest(key, &pad)),
        None => (None, fnv(envelope.iter().copied())),
    }
}

/// FNV-1a, 64 bits.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What every job of the suite does. A kept result is the claim number.
#[task(name = "work", queue = "faults")]
pub async fn work(key: u64, pad: String, plan: Plan, recorder: Data<Recorder>, ctx: JobContext) -> Result<u64, Failure> {
    let mut run = Run::start(key, &pad, recorder.into_inner(), &ctx);
    act(plan, &ctx, &mut run).await
}

/// The same under a name that older workers do not know.
#[task(name = "work-of-tomorrow", queue = "faults")]
pub async fn work_of_tomorrow(key: u64, pad: String, plan: Plan, recorder: Data<Recorder>, ctx: JobContext) -> Result<u64, Failure> {
    let mut run = Run::start(key, &pad, recorder.into_inner(), &ctx);
    act(plan, &ctx, &mut run).await
}

/// What a tick of a schedule does. Its job has no number of its own: its id stands for it.
#[task(name = "tick", queue = "faults")]
pub async fn tick(recorder: Data<Recorder>, ctx: JobContext) {
    let key = fnv(ctx.id().to_string().bytes()) | 1 << 63;
    let mut run = Run::start(key, "", recorder.into_inner(), &ctx);
    run.how = "returned";
}

/// The tasks of a worker, of today's binary or tomorrow's.
pub fn registry(tomorrow: bool) -> Registry {
    let mut registry = Registry::empty();
    registry.register::<work>();
    registry.register::<tick>();
    if tomorrow {
        registry.register::<work_of_tomorrow>();
    }
    registry
}

pub(crate) async fn act(plan: Plan, ctx: &JobContext, run: &mut Run) -> Result<u64, Failure> {
    let time = Duration::from_millis(plan.ms.into());
    match plan.deed {
        Deed::Block => std::thread::sleep(time),
        Deed::Tell(lines) => {
            for line in 0..lines {
                ctx.log(format!("{} {line} {lines}", ctx.claim()));
                ctx.progress(f64::from(line + 1) / f64::from(lines), ctx.claim().to_string());
                tokio::time::sleep(time / lines).await;
            }
        }
        Deed::Use(cost) => {
            ctx.set_cost(cost);
            tokio::time::sleep(time).await;
        }
        _ if !time.is_zero() => tokio::time::sleep(time).await,
        _ => {}
    }
    match plan.deed {
        Deed::Fail(times) if ctx.attempt() <= times => {
            run.how = "failed";
            Err(Failure::Failed(ctx.attempt()))
        }
        Deed::Panic(times) if ctx.attempt() <= times => {
            run.how = "panicked";
            // Without the words of a panic, of which there would be thousands.
            std::panic::resume_unwind(Box::new("as planned"))
        }
        Deed::Snooze(times) if ctx.snoozes() < times => {
            run.how = "snoozed";
            Err(Failure::Steered(Outcome::Snooze(SNOOZE)))
        }
        Deed::Abort => std::process::abort(),
        Deed::Eat => {
            let mut eaten = Vec::new();
            loop {
                eaten.push(std::hint::black_box(vec![0_u8; 64 << 20]));
            }
        }
        _ => {
            run.how = "returned";
            Ok(ctx.claim())
        }
    }
}

/// Why a handler did not return what it should.
#[derive(Debug)]
pub enum Failure {
    /// It failed, in this attempt.
    Failed(u32),
    /// It steers the queue.
    Steered(Outcome),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Failed(attempt) => write!(f, "attempt {attempt} fails as planned"),
            Failure::Steered(outcome) => write!(f, "{outcome}"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Failure::Failed(_) => None,
            Failure::Steered(outcome) => Some(outcome),
        }
    }
}

/// One run of a handler: its end is written down, however it comes.
pub(crate) struct Run {
    recorder: std::sync::Arc<Recorder>,
    id: String,
    claim: u64,
    how: &'static str,
}

impl Run {
    pub(crate) fn start(key: u64, pad: &str, recorder: std::sync::Arc<Recorder>, ctx: &JobContext) -> Run {
        let (id, claim) = (job_name(ctx.queue(), ctx.id()), ctx.claim());
        recorder.note(Phase::Ok, Operation::Start { key, id: id.clone(), claim, digest: digest(key, pad) });
        Run { recorder, id, claim, how: "dropped" }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let how = self.how.to_owned();
        self.recorder.note(Phase::Ok, Operation::End { id: self.id.clone(), claim: self.claim, how });
    }
}
