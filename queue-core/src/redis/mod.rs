//! Redis from 7.0, and Valkey: one server, a master that sentinels know, or a cluster.
//!
//! Every transition is one script, which reads and checks first and then writes; a replay of a request is recognised
//! and answered as before. The data is described in `keys`. Connections are supervised by us, in `link`: what a broken, a silent
//! or a demoted server means. `servers` finds the one that holds a queue, with the help of `sentinel` and `cluster`. Whether a
//! request that may have been carried out is sent again is decided by its caller. Requests and beats have a connection to each
//! server, announcements a third.

#[cfg(feature = "fuzz")]
pub(crate) mod __fuzz;
mod answers;
mod audit;
#[cfg(feature = "cluster")]
mod cluster;
mod condition;
mod doubles;
mod endpoint;
mod hints;
mod keys;
mod link;
mod people;
mod reclaim;
mod refusal;
mod requests;
mod script;
#[cfg(feature = "sentinel")]
mod sentinel;
mod servers;
mod settings;
mod strays;
mod turns;
mod types;
mod url;

use std::{
    fmt,
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_util::future::join_all;
use redis::{Cmd, Value};

use self::{
    answers::{array, next, number, text},
    hints::Announcements,
    keys::{Keys, Kind},
    requests::ms,
    script::{CANCEL, DELETE, EXTEND, FENCE, PAUSE, REGISTER, REQUEUE, SUSPECTS, SWEEP, Script},
    servers::{Line, Servers, within},
    turns::PlainQueues,
};
use crate::{
    address::{JobId, check_name},
    alarm::Alarm,
    broker::{
        Ahead, Audit, Broker, BrokerInfo, CancelAnswer, Condition, Confirm, Confirmed, CrashRule, Damage, Due, Durability, Enqueue,
        Enqueued, Extend, Extended, Hints, Inspect, JobRecord, MAX_ITEMS, Page, Party, PartyName, QueueStats, Reclaimed, Register, State,
        Suspect, Suspects, SweepLimits, Swept, Turn, TurnAnswer, sealed,
    },
    error::{Error, Result},
    io::{BoxFuture, IoThread},
};

/// The schema that this library writes.
const SCHEMA: u64 = 1;

/// A broker on Redis or Valkey.
pub struct RedisBroker {
    location: Arc<str>,
    keys: Keys,
    servers: Arc<Servers>,
    announcements: Arc<Announcements>,
    plain: PlainQueues,
    io: IoThread,
}

impl RedisBroker {
    /// A broker on the servers of a `redis://`, `redis+sentinel://` or `redis+cluster://` URL (`rediss` for TLS). They are reached
    /// by the first call, or by [`check`](Broker::check).
    ///
    /// # Errors
    /// [`Error::Invalid`] for a URL that cannot be read, [`Error::FeatureOff`].
    pub async fn connect(url: &str) -> Result<Arc<RedisBroker>> {
        let target = url::target(url)?;
        let io = IoThread::start("queue-redis-io")?;
        let location: Arc<str> = target.location.into();
        let keys = Keys::new(&target.namespace);
        let servers = Arc::new(Servers::start(keys.clone(), target.engine, &location, &io)?);
        let announcements = Announcements::start(servers.clone(), keys.clone(), &io);
        Ok(Arc::new(RedisBroker { location, keys, servers, announcements, plain: PlainQueues::default(), io }))
    }

    /// Calls a script on the line of beats.
    async fn script(&self, queue: &str, script: &Script, call: Cmd) -> Result<Value> {
        self.servers.script(Line::Beats, queue, script, call).await
    }

    /// Reads something of a queue, on the line of beats.
    async fn read(&self, queue: &str, command: &Cmd) -> Result<Value> {
        self.servers.command(Line::Beats, queue, command).await
    }

    /// Calls a script whose arguments are ids and whose answer is a number for each.
    async fn for_each_id(&self, script: &Script, queue: &str, ids: &[JobId]) -> Result<Vec<i64>> {
        bounded("ids", ids.len())?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = script.call(&self.keys, queue);
        for id in ids {
            call.arg(id.as_bytes());
        }
        array(self.script(queue, script, call).await?)?.into_iter().map(number).collect()
    }

    /// Writes a queue into the registry, which lies in a slot of its own. On a Redis that is full a worker does without.
    async fn list_queue(&self, queue: &str, until: Option<Instant>) -> Result<()> {
        let registry = self.keys.queues();
        let ask = redis::cmd("SISMEMBER").arg(&registry).arg(queue).clone();
        let listed = self.servers.command_until(until, Line::Requests, &registry, &ask).await?;
        if number::<i64>(listed)? == 1 {
            return Ok(());
        }
        match self.servers.command_until(until, Line::Requests, &registry, redis::cmd("SADD").arg(&registry).arg(queue)).await {
            Ok(_) | Err(Error::BrokerFull { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What a job that is stored survives, as far as the servers tell in time.
    async fn durability_until(&self, until: Option<Instant>) -> Durability {
        let asked = self.io.clocked(tokio::time::timeout_at(within(until).into(), self.servers.durability()));
        asked.await.ok().and_then(Result::ok).unwrap_or(Durability::Volatile)
    }

    /// Writes a queue that exists into the registry, from which it may have been lost.
    async fn list_again(&self, queue: &str) -> Result<()> {
        match number::<i64>(self.read(queue, &self.keys.on("EXISTS", queue, Kind::Meta)).await?)? {
            0 => Ok(()),
            _ => self.list_queue(queue, None).await,
        }
    }

    async fn extend_one(&self, lane: &Extend) -> Result<Extended> {
        let mut call = EXTEND.call(&self.keys, &lane.queue);
        call.arg(lane.worker.as_str()).arg(lane.answered).arg(ms(lane.lease));
        // The list is a hint, and one that cannot be read is no reason to let the lease run out.
        Ok(Extended::new(answers::gone(self.script(&lane.queue, &EXTEND, call).await?).unwrap_or_default()))
    }
}

impl fmt::Debug for RedisBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBroker").field("location", &self.location).finish_non_exhaustive()
    }
}

fn bounded(what: &'static str, items: usize) -> Result<()> {
    if items > MAX_ITEMS {
        return Err(Error::invalid(what, items.to_string(), format!("are more than the {MAX_ITEMS} of one request")));
    }
    Ok(())
}

#[async_trait]
impl Broker for RedisBroker {
    fn info(&self) -> BrokerInfo {
        BrokerInfo::new("redis", &*self.location)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.io.spawn(task);
    }

    fn alarm(&self) -> Alarm {
        Alarm::exact()
    }

    async fn check(&self) -> Result<()> {
        self.servers.check().await
    }

    async fn register(&self, request: &Register) -> Result<PartyName> {
        check_name("queue", &request.queue)?;
        let mut call = REGISTER.call(&self.keys, &request.queue);
        call.arg(request.process.to_string()).arg(format!("{:016x}", fastrand::u64(..)));
        match request.party {
            Party::Worker { lease } => call.arg("w").arg(ms(lease)),
            Party::Producer => call.arg("p").arg(0),
        };
        // First of all: a queue of which a key is broken is found by `doctor` too, if nobody has ever registered with it.
        self.list_queue(&request.queue, request.until).await?;
        let name = self.servers.script_until(request.until, Line::Requests, &request.queue, &REGISTER, call).await?;
        Ok(PartyName::new(text(name)?))
    }

    async fn enqueue(&self, request: &Enqueue) -> Result<Vec<Enqueued>> {
        bounded("jobs", request.jobs.len())?;
        let (script, call) = requests::enqueue(request, &self.keys);
        let mut sent = pin!(self.io.clocked(self.servers.script_until(request.until, Line::Requests, &request.queue, script, call)));
        let begun = poll_fn(|context| Poll::Ready(sent.as_mut().poll(context))).await;
        // Now it is on its way. A given id may exist already, and bring nothing.
        if request.jobs.iter().any(|job| job.due == Due::Now && !job.id.is_given()) {
            self.announcements.expect(&request.queue);
        }
        let answer = match begun {
            Poll::Ready(answer) => answer?,
            Poll::Pending => sent.await?,
        };
        answers::enqueued(answer, request.jobs.len())
    }

    async fn enqueue_confirmed(&self, request: &Enqueue, confirm: &Confirm) -> Result<(Vec<Enqueued>, Confirmed)> {
        bounded("jobs", request.jobs.len())?;
        let (script, call) = requests::enqueue(request, &self.keys);
        // A replay changes nothing, and is waited for like the write: `WAIT` counts what the connection has seen.
        let then = requests::confirm(confirm, request.until);
        let sent = self.servers.script_then(request.until, Line::Confirmed, &request.queue, script, call, &then);
        let (answer, then) = self.io.clocked(sent).await?;
        let answers = answers::enqueued(answer, request.jobs.len())?;
        let (synced, replicas) = answers::confirmed(then);
        // The jobs are stored: whatever goes wrong with the question, this is no error.
        let durability = if synced { Durability::PowerLoss } else { self.durability_until(request.until).await };
        Ok((answers, Confirmed { durability, replicas }))
    }

    async fn durability(&self) -> Result<Durability> {
        self.servers.durability().await
    }

    async fn condition(&self) -> Result<Condition> {
        self.servers.condition().await
    }

    async fn turn(&self, turn: &Turn) -> Result<TurnAnswer> {
        bounded("finishes", turn.finishes.len())?;
        bounded("claim", turn.claim)?;
        turns::turn(self, turn).await
    }

    async fn look(&self, queue: &str) -> Result<bool> {
        use Kind::{Parked, Ready0, Ready1, Ready2, Ready3, Retry, Scheduled, Suspect};
        let mut command = redis::cmd("EXISTS");
        for kind in [Ready0, Ready1, Ready2, Ready3, Suspect, Scheduled, Retry, Parked] {
            command.arg(self.keys.of(queue, kind));
        }
        Ok(number::<i64>(self.servers.command(Line::Requests, queue, &command).await?)? > 0)
    }

    async fn extend(&self, lanes: &[Extend]) -> Vec<Result<Extended>> {
        // All are sent before the first is waited for: one round trip.
        join_all(lanes.iter().map(|lane| self.extend_one(lane))).await
    }

    async fn suspects(&self, queue: &str, limit: usize) -> Result<Suspects> {
        let mut call = SUSPECTS.call(&self.keys, queue);
        call.arg(limit);
        let mut values = array(self.script(queue, &SUSPECTS, call).await?)?.into_iter();
        let mut lanes = array(next(&mut values)?)?.into_iter();
        let mut expired = Vec::new();
        while let Some(worker) = lanes.next() {
            let deadline_ms = number(next(&mut lanes)?)?;
            // What is no text is no lane of anybody.
            if let Ok(worker) = text(worker) {
                expired.push(Suspect { worker: PartyName::new(worker), deadline_ms });
            }
        }
        let fenced = number(next(&mut values)?)?;
        let (mut lanes, mut ahead) = (array(next(&mut values)?)?.into_iter(), Vec::new());
        while let Some(worker) = lanes.next() {
            let (deadline_ms, term) = (number(next(&mut lanes)?)?, Duration::from_millis(number(next(&mut lanes)?)?));
            if let Ok(worker) = text(worker) {
                ahead.push(Ahead { suspect: Suspect { worker: PartyName::new(worker), deadline_ms }, term });
            }
        }
        Ok(Suspects::new(expired, fenced).ahead(ahead))
    }

    async fn fence(&self, queue: &str, suspects: &[Suspect]) -> Result<Vec<bool>> {
        bounded("suspects", suspects.len())?;
        if suspects.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = FENCE.call(&self.keys, queue);
        for suspect in suspects {
            call.arg(suspect.worker.as_str()).arg(suspect.deadline_ms);
        }
        array(self.script(queue, &FENCE, call).await?)?.into_iter().map(|fenced| Ok(number::<i64>(fenced)? == 1)).collect()
    }

    async fn sweep_fenced(&self, queue: &str, rule: &CrashRule) -> Result<Reclaimed> {
        reclaim::sweep(self, queue, rule).await
    }

    async fn cancel(&self, queue: &str, ids: &[JobId]) -> Result<Vec<CancelAnswer>> {
        let answers = self.for_each_id(&CANCEL, queue, ids).await?;
        let told = answers.into_iter().map(|answer| match answer {
            1 => CancelAnswer::Cancelled,
            2 => CancelAnswer::CancelledActive,
            _ => CancelAnswer::NotFound,
        });
        Ok(told.collect())
    }

    async fn requeue(&self, queue: &str, ids: &[JobId]) -> Result<Vec<bool>> {
        Ok(self.for_each_id(&REQUEUE, queue, ids).await?.into_iter().map(|answer| answer == 1).collect())
    }

    async fn sweep(&self, queue: &str, limits: &SweepLimits) -> Result<Swept> {
        let mut call = SWEEP.call(&self.keys, queue);
        call.arg(limits.items).arg(ms(limits.producers)).arg(ms(limits.tombstones)).arg(limits.tombstone_count);
        call.arg(ms(limits.dead)).arg(limits.dead_bytes).arg(limits.keep.count).arg(limits.keep.bytes);
        let mut values = array(self.script(queue, &SWEEP, call).await?)?.into_iter();
        Ok(Swept {
            producers: number(next(&mut values)?)?,
            tombstones: number(next(&mut values)?)?,
            dead: number(next(&mut values)?)?,
            ended: number(next(&mut values)?)?,
        })
    }

    fn hints(&self, queue: &str) -> Hints {
        self.announcements.of(queue)
    }

    fn __sealed(&self, _: sealed::Seal) {}
}

#[async_trait]
impl Inspect for RedisBroker {
    async fn queues(&self) -> Result<Vec<String>> {
        let registry = self.keys.queues();
        let names = self.read(&registry, redis::cmd("SMEMBERS").arg(&registry)).await?;
        let mut names: Vec<String> = array(names)?.into_iter().map(text).collect::<Result<_>>()?;
        names.sort_unstable();
        Ok(names)
    }

    async fn stats(&self, queue: &str) -> Result<QueueStats> {
        people::stats(self, queue).await
    }

    async fn list(&self, queue: &str, state: State, offset: u64, limit: usize) -> Result<Page> {
        people::list(self, queue, state, offset, limit.clamp(1, MAX_ITEMS)).await
    }

    async fn show(&self, queue: &str, id: &JobId) -> Result<Option<JobRecord>> {
        Ok(people::show(self, queue, std::slice::from_ref(id)).await?.pop())
    }

    async fn delete(&self, queue: &str, ids: &[JobId]) -> Result<Vec<bool>> {
        Ok(self.for_each_id(&DELETE, queue, ids).await?.into_iter().map(|answer| answer == 1).collect())
    }

    async fn audit(&self, queue: &str, how: Audit) -> Result<Vec<Damage>> {
        check_name("queue", queue)?;
        audit::audit(self, queue, how).await
    }

    async fn audit_queues(&self, repair: bool) -> Result<Vec<Damage>> {
        types::audit_registry(self, repair).await
    }

    async fn set_paused(&self, queue: &str, paused: bool) -> Result<()> {
        check_name("queue", queue)?;
        let mut call = PAUSE.call(&self.keys, queue);
        call.arg(u8::from(paused));
        self.script(queue, &PAUSE, call).await.map(drop)
    }
}
