//! Sweeps the jobs of fenced lanes: Rust scans them, and bounded scripts move them.

use std::collections::{HashMap, HashSet};

use redis::Value;

use crate::{
    address::JobId,
    broker::{CrashRule, PartyName, RECLAIM_ITEMS, Reclaimed},
    error::Result,
    redis::{
        RedisBroker,
        keys::Kind,
        script::{ALIVE, FORGET, RECLAIM},
        values::{array, bytes, ms, next, number, text},
    },
};

/// The most jobs of one pass. The next pass continues.
const PASS: usize = 20_000;

struct Held {
    id: Vec<u8>,
    receipt: Vec<u8>,
    process: String,
    claim: u64,
    /// For a job of a fenced lane: the latest time at which its process may have been alive, and
    /// the last renewal of the lease.
    fenced: Option<(u64, u64)>,
    suspect: bool,
}

impl Held {
    /// The longest time for which the job may have run.
    fn run_time(&self) -> u64 {
        self.fenced.map_or(0, |(until, _)| until.saturating_sub(self.claim))
    }

    /// Whether the process was alive for longer in this run than the job may have run before its
    /// last crash.
    fn outlived(&self, ran: u64) -> bool {
        self.fenced.is_some_and(|(_, renewed)| renewed.saturating_sub(self.claim) > ran)
    }
}

/// R7. The jobs of the fenced lanes of one process are judged together. The jobs that are not
/// charged are moved first, so that a reclaimer that continues an incomplete sweep judges alike.
pub(in crate::redis) async fn sweep(broker: &RedisBroker, queue: &str, rule: &CrashRule) -> Result<Reclaimed> {
    let mut reclaimed = Reclaimed::default();
    let mut lanes = array(broker.read(queue, &broker.keys.on("HGETALL", queue, Kind::Fenced)).await?)?.into_iter();
    let (mut members, mut fenced) = (Vec::new(), HashMap::new());
    while let Some(name) = lanes.next() {
        let (name, times) = (bytes(name)?, text(next(&mut lanes)?).unwrap_or_default());
        let (until, renewed) = times.split_once(':').unwrap_or_default();
        // A value that is not text is not the name of a lane. It is removed with the others.
        if let Ok(lane) = String::from_utf8(name.clone()) {
            fenced.insert(lane, (until.parse().unwrap_or(0), renewed.parse().unwrap_or(0)));
        }
        members.push(name);
    }
    if members.is_empty() {
        return Ok(reclaimed);
    }
    let (mut held, complete) = scan(broker, queue, &fenced).await?;
    mark_suspects(broker, queue, &mut held).await?;
    let with_suspects: HashSet<String> = held.iter().filter(|job| job.suspect).map(|job| job.process.clone()).collect();
    // A suspect in another lane of the process, even in one with a valid lease, clears the other
    // jobs as well.
    held.retain(|job| job.fenced.is_some());
    let living = if held.is_empty() { HashSet::new() } else { live_processes(broker, queue).await? };
    let is_charged = |job: &Held| !living.contains(&job.process) && (job.suspect || !with_suspects.contains(&job.process));
    // A scan has no order. The jobs are sorted by claim, and within a claim by id.
    held.sort_by(|one, other| (is_charged(one), one.claim, &one.id).cmp(&(is_charged(other), other.claim, &other.id)));
    let all = held.len();
    held.truncate(RECLAIM_ITEMS);

    if !held.is_empty() {
        let mut call = RECLAIM.call(&broker.keys, queue);
        call.arg(rule.max_crashes).arg(ms(rule.window)).arg(ms(rule.delay)).arg(rule.tasks.len());
        for (task, most) in rule.tasks {
            call.arg(*task).arg(*most);
        }
        for job in &held {
            call.arg(&job.id).arg(&job.receipt).arg(match is_charged(job) {
                true => format!("+{}", job.run_time()),
                false if living.contains(&job.process) => "f".to_owned(),
                false => "0".to_owned(),
            });
        }
        let mut answer = array(broker.script(queue, &RECLAIM, call).await?)?.into_iter();
        reclaimed.returned = number(next(&mut answer)?)?;
        reclaimed.charged = number(next(&mut answer)?)?;
        // A value that is not an id cannot be looked up, so it is left out.
        let buried = array(next(&mut answer)?)?.into_iter().filter_map(|id| JobId::from_bytes(&bytes(id).ok()?).ok());
        reclaimed.buried = buried.collect();
    }
    if complete && all <= RECLAIM_ITEMS {
        // The scan began after the lanes were fenced, and all jobs that it found have been moved.
        for piece in members.chunks(500) {
            let mut call = FORGET.call(&broker.keys, queue);
            for name in piece {
                call.arg(name);
            }
            reclaimed.forgotten += number::<usize>(broker.script(queue, &FORGET, call).await?)?;
        }
    }
    Ok(reclaimed)
}

/// The active jobs of processes with fenced lanes, and whether the scan has reached its end.
async fn scan(broker: &RedisBroker, queue: &str, fenced: &HashMap<String, (u64, u64)>) -> Result<(Vec<Held>, bool)> {
    let dying: HashSet<String> = fenced.keys().map(|name| PartyName::new(name.as_str()).process().to_owned()).collect();
    let mut held: HashMap<Vec<u8>, Held> = HashMap::new();
    let mut cursor = "0".to_owned();
    loop {
        let mut command = broker.keys.on("HSCAN", queue, Kind::Active);
        command.arg(&cursor).arg("COUNT").arg(500);
        let mut answer = array(broker.read(queue, &command).await?)?.into_iter();
        cursor = text(next(&mut answer)?)?;
        let mut entries = array(next(&mut answer)?)?.into_iter();
        while let Some(id) = entries.next() {
            let (id, receipt) = (bytes(id)?, bytes(next(&mut entries)?)?);
            let Some((worker, claim)) = std::str::from_utf8(&receipt).ok().and_then(|receipt| receipt.rsplit_once(':')) else { continue };
            let claim = claim.parse().unwrap_or(0);
            let process = PartyName::new(worker).process().to_owned();
            if dying.contains(&process) {
                let fenced = fenced.get(worker).copied();
                held.insert(id.clone(), Held { id, receipt, process, claim, fenced, suspect: false });
            }
        }
        if cursor == "0" || held.len() >= PASS {
            return Ok((held.into_values().collect(), cursor == "0"));
        }
    }
}

/// The processes that have a lane with a valid lease. If such a process also has a fenced lane, it
/// has not crashed: the broker had forgotten that lane, and the process continues under other
/// names.
async fn live_processes(broker: &RedisBroker, queue: &str) -> Result<HashSet<String>> {
    let lanes = array(broker.script(queue, &ALIVE, ALIVE.call(&broker.keys, queue)).await?)?;
    Ok(lanes.into_iter().filter_map(|lane| text(lane).ok()).map(|lane| PartyName::new(lane).process().to_owned()).collect())
}

async fn mark_suspects(broker: &RedisBroker, queue: &str, held: &mut [Held]) -> Result<()> {
    for piece in held.chunks_mut(500) {
        let mut command = broker.keys.on("HMGET", queue, Kind::Crashes);
        for job in piece.iter() {
            command.arg(&job.id);
        }
        let crashes = array(broker.read(queue, &command).await?)?;
        for (job, crashes) in piece.iter_mut().zip(crashes) {
            let Value::BulkString(crashes) = crashes else { continue };
            let ran = String::from_utf8_lossy(&crashes).split(':').nth(2).and_then(|ran| ran.parse().ok());
            job.suspect = !ran.is_some_and(|ran| job.outlived(ran));
        }
    }
    Ok(())
}
