//! The interface for applications and operators: [`Schedules`].

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    change::{BY_PERSON, Changing},
    define::{Schedule, ms},
    record::{ScheduleAddress, ScheduleRecord},
    rules::ReadRules,
    step::{Of, job},
};
use crate::{
    address::{JobAddress, JobId},
    broker::{
        DynBroker, MAX_BYTES, MAX_ITEMS, ScheduleAnswer, ScheduleDefinition, ScheduleList, ScheduleSet, ScheduleState, SetSchedule,
        StoredSchedule, TICK_JOBS, TickJob, after, on_broker_until,
    },
    client::Client,
    error::{Error, Result},
    text::nearest,
};

/// Most ticks of a backfill.
pub const MOST_BACKFILLED: usize = 1_000;

/// So often a change is tried while others change the same schedule.
const TRIES: u32 = 50;

/// Schedules of one page.
const PAGE: usize = 200;

/// Defines, lists and changes schedules, from [`Client::schedules`]. A schedule is addressed by
/// `queue/name`.
///
/// ```
/// use queue_core::{prelude::*, schedule::{Schedule, ScheduleAddress}};
///
/// #[task(queue = "reports")]
/// async fn report(customer: u64) {}
///
/// # async fn example() -> queue_core::Result<()> {
/// let client = Client::connect("sqlite://:memory:").await?;
/// let schedules = client.schedules();
/// schedules.upsert(Schedule::cron("nightly-7", "0 3 * * *").tz("Europe/Berlin").job(report::job(7))).await?;
///
/// let nightly: ScheduleAddress = "reports/nightly-7".parse()?;
/// assert_eq!(schedules.next(&nightly, 5).await?.len(), 5);
/// schedules.pause(&nightly).await?;
/// let job = schedules.run_now(&nightly).await?;
/// assert_eq!(job.queue.as_ref(), "reports");
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Schedules {
    client: Client,
}

/// The result of a backfill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backfilled {
    /// How many ticks there are in the span of time.
    pub ticks: usize,
    /// How many jobs were stored. The others exist, or were made by a backfill within the last 24
    /// hours.
    pub jobs: usize,
}

impl Client {
    /// Defines, lists and changes schedules.
    pub fn schedules(&self) -> Schedules {
        Schedules { client: self.clone() }
    }
}

impl Schedules {
    /// Creates or updates the schedule of this name in the queue of its job. Repeating the call has
    /// no effect. An update keeps the pause, the last tick and the runs. It is not retroactive: a
    /// new expression begins now. The setting overrides the declaration in code until it is
    /// [removed](Self::remove).
    ///
    /// # Errors
    /// [`Error::Invalid`] for an expression, a time zone or an option that is wrong, and for a
    /// schedule that never ticks; those of the broker.
    pub async fn upsert(&self, schedule: Schedule) -> Result<ScheduleRecord> {
        let prepared = schedule.prepare(self.client.on_enqueue())?;
        self.client.check_limits(&prepared.queue, &prepared.limits).await?;
        let address = ScheduleAddress { queue: prepared.queue.clone(), name: prepared.name.clone() };
        self.run(move |broker| async move {
            change(&broker, &prepared.queue, &prepared.name, |changing: &mut Changing, now_ms| {
                let before = changing.clone();
                changing.definition.by_person = true;
                changing.redefine(&prepared.name, &prepared.body, now_ms)?;
                Ok((*changing != before).then_some(()))
            })
            .await
        })
        .await?;
        self.get(&address).await?.ok_or_else(|| no_such(&address))
    }

    /// A schedule, its last runs and its last events. `None`: it does not exist.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn get(&self, schedule: &ScheduleAddress) -> Result<Option<ScheduleRecord>> {
        let at = schedule.clone();
        let page = self.run(move |broker| async move { broker.schedules(&at.queue, &ScheduleList::One(at.name)).await }).await?;
        Ok(page.schedules.first().map(|stored| ScheduleRecord::read(&schedule.queue, stored)))
    }

    /// All schedules of a queue, the one that ticks next first; those that do not tick come last.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn list(&self, queue: &str) -> Result<Vec<ScheduleRecord>> {
        let (mut offset, mut all) = (Some(0), Vec::new());
        while let Some(at) = offset {
            let (records, next) = self.page(queue, at, PAGE).await?;
            all.extend(records);
            offset = next;
        }
        Ok(all)
    }

    /// A page of them, at most `limit` (1 to 500), from `offset` on: 0, or the next offset that the
    /// previous page has returned.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn page(&self, queue: &str, offset: u64, limit: usize) -> Result<(Vec<ScheduleRecord>, Option<u64>)> {
        crate::address::check_queue(queue)?;
        let queue: Arc<str> = queue.into();
        let of = queue.clone();
        let page = self.run(move |broker| async move { broker.schedules(&of, &ScheduleList::All { offset, limit }).await }).await?;
        Ok((page.schedules.iter().map(|stored| ScheduleRecord::read(&queue, stored)).collect(), page.next))
    }

    /// Pauses a schedule. Its jobs continue. False if it is already paused.
    ///
    /// # Errors
    /// [`Error::NoSuchSchedule`], here and below; those of the broker.
    pub async fn pause(&self, schedule: &ScheduleAddress) -> Result<bool> {
        let paused = self.change(schedule, |changing, _, now_ms| Ok(changing.pause(BY_PERSON, now_ms)));
        paused.await
    }

    /// Resumes a schedule. Ticks missed during the pause are skipped. False if it is not paused.
    ///
    /// # Errors
    /// Those of [`pause`](Self::pause).
    pub async fn resume(&self, schedule: &ScheduleAddress) -> Result<bool> {
        self.change(schedule, |changing, name, now_ms| changing.resume(name, now_ms)).await
    }

    /// Removes a schedule. Its jobs stay. A declared schedule is created again within a minute:
    /// pause it instead. False if it does not exist.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn remove(&self, schedule: &ScheduleAddress) -> Result<bool> {
        let at = schedule.clone();
        self.run(move |broker| async move {
            for _ in 0..TRIES {
                let page = broker.schedules(&at.queue, &ScheduleList::One(at.name.clone())).await?;
                let Some(stored) = page.schedules.into_iter().next() else { return Ok(false) };
                let request = SetSchedule::new(at.queue.clone(), at.name.clone(), page.now_ms, Some(stored.state));
                if broker.set_schedule(&request).await? == ScheduleAnswer::Set(Vec::new()) {
                    return Ok(true);
                }
            }
            Err(busy(&at.name))
        })
        .await
    }

    /// Creates a job of a schedule now, in addition to the ticks, even if the schedule is paused.
    /// The overlap policy does not apply. [`scheduled_for`](crate::JobContext::scheduled_for) is
    /// the current time.
    ///
    /// # Errors
    /// Those of [`pause`](Self::pause).
    pub async fn run_now(&self, schedule: &ScheduleAddress) -> Result<JobAddress> {
        let (at, salt) = (schedule.clone(), fastrand::u64(1..));
        self.run(move |broker| async move {
            // A request whose answer was lost is sent again, and makes the same job.
            let mut made: Option<(i64, JobId)> = None;
            make(&broker, &at, |now_ms| {
                let one = made.get_or_insert_with(|| (now_ms, JobId::of_tick(&at.queue, &at.name, now_ms, salt)));
                vec![one.clone()]
            })
            .await?;
            let (_, id) = made.ok_or_else(|| no_such(&at))?;
            Ok(JobAddress { queue: at.queue, id })
        })
        .await
    }

    /// Creates the jobs of all ticks from `from` to `to`, both included, even if the schedule is
    /// paused. A job has the id of its tick: an existing job is not created again, nor one that a
    /// backfill has created within the last 24 hours. At most [`MOST_BACKFILLED`] ticks of the
    /// past.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more ticks, and for a span that ends in the future; those of
    /// [`pause`](Self::pause).
    pub async fn backfill(&self, schedule: &ScheduleAddress, from: SystemTime, to: SystemTime) -> Result<Backfilled> {
        let at = schedule.clone();
        self.run(move |broker| async move {
            let page = broker.schedules(&at.queue, &ScheduleList::One(at.name.clone())).await?;
            let stored = page.schedules.first().ok_or_else(|| no_such(&at))?;
            let body = ScheduleDefinition::decode(&stored.definition)?.body;
            let shown = || format!("{} to {}", humantime::format_rfc3339_seconds(from), humantime::format_rfc3339_seconds(to));
            if ms(to) > page.now_ms {
                return Err(Error::invalid("backfill", shown(), "ends in the future; only past ticks can be backfilled"));
            }
            if from > to {
                return Err(Error::invalid("backfill", shown(), "ends before it begins; give the earlier time first"));
            }
            let ticks = ReadRules::of(&at.name, &body)?.between(ms(from), ms(to), MOST_BACKFILLED + 1);
            if ticks.len() > MOST_BACKFILLED {
                let problem = format!("has more than {MOST_BACKFILLED} ticks; choose a shorter span");
                return Err(Error::invalid("backfill", shown(), problem));
            }
            let fits = (MAX_BYTES / body.envelope.len().max(1)).clamp(1, TICK_JOBS - 1);
            let mut jobs = 0;
            for some in ticks.chunks(fits) {
                let ids = |_| some.iter().map(|tick| (*tick, JobId::of_tick(&at.queue, &at.name, *tick, 0))).collect();
                jobs += make(&broker, &at, ids).await?;
            }
            Ok(Backfilled { ticks: ticks.len(), jobs })
        })
        .await
    }

    /// The next `n` ticks of a schedule; fewer if it ends earlier, and none while it is paused.
    ///
    /// # Errors
    /// Those of [`pause`](Self::pause).
    pub async fn next(&self, schedule: &ScheduleAddress, n: usize) -> Result<Vec<SystemTime>> {
        let Some(record) = self.get(schedule).await? else { return Err(self.no_such(schedule).await) };
        record.next_ticks(n)
    }

    async fn change<T: Send + 'static>(
        &self,
        schedule: &ScheduleAddress,
        mut what: impl FnMut(&mut Changing, &str, i64) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let at = schedule.clone();
        self.run(move |broker| async move {
            let (mut answer, mut known) = (None, true);
            change(&broker, &at.queue, &at.name, |changing: &mut Changing, now_ms| {
                known = changing.state.first_ms != 0;
                if !known {
                    return Ok(None);
                }
                let before = changing.clone();
                answer = Some(what(changing, &at.name, now_ms)?);
                Ok((*changing != before).then_some(()))
            })
            .await?;
            answer.filter(|_| known).ok_or_else(|| no_such(&at))
        })
        .await
    }

    /// On the broker's thread, so that any runtime will do.
    async fn run<T, F>(&self, work: impl FnOnce(DynBroker) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        match on_broker_until(self.client.broker(), after(self.client.deadline()), work(self.client.broker().clone())).await {
            Err(Error::NoSuchSchedule { schedule, .. }) => Err(match schedule.parse() {
                Ok(address) => self.no_such(&address).await,
                Err(error) => error,
            }),
            answer => answer,
        }
    }

    /// The error for an address that no schedule has, with the one that was perhaps meant.
    #[doc(hidden)]
    pub async fn no_such(&self, schedule: &ScheduleAddress) -> Error {
        let (queue, broker) = (schedule.queue.clone(), self.client.broker().clone());
        let all = async move { broker.schedules(&queue, &ScheduleList::All { offset: 0, limit: MAX_ITEMS }).await };
        let page = on_broker_until(self.client.broker(), after(self.client.deadline()), all).await;
        let known = page.map(|page| page.schedules).unwrap_or_default();
        let near = nearest(&schedule.name, known.iter().map(|stored| stored.name.as_str()));
        let nearest = near.map(|name| ScheduleAddress { queue: schedule.queue.clone(), name: name.to_owned() }.to_string());
        Error::NoSuchSchedule { schedule: schedule.to_string(), nearest }
    }
}

fn no_such(schedule: &ScheduleAddress) -> Error {
    Error::NoSuchSchedule { schedule: schedule.to_string(), nearest: None }
}

/// Reads a schedule, changes it, and writes it; repeats this if the schedule was changed in
/// between. `what` gets a new one if there is none, and returns `None` if nothing has to be set.
pub(super) async fn change<T>(
    broker: &DynBroker,
    queue: &Arc<str>,
    name: &str,
    mut what: impl FnMut(&mut Changing, i64) -> Result<Option<T>>,
) -> Result<Option<T>> {
    for tries in 0..TRIES {
        let page = broker.schedules(queue, &ScheduleList::One(name.to_owned())).await?;
        let stored = page.schedules.into_iter().next();
        let mut changing = stored.as_ref().map(read).transpose()?.unwrap_or_default();
        let Some(answer) = what(&mut changing, page.now_ms)? else { return Ok(None) };
        let request = setting(queue, name, page.now_ms, stored, &changing)?;
        match broker.set_schedule(&request).await? {
            ScheduleAnswer::Set(_) => return Ok(Some(answer)),
            ScheduleAnswer::Stale | ScheduleAnswer::Moved => tokio::time::sleep(Duration::from_millis(u64::from(tries))).await,
        }
    }
    Err(busy(name))
}

/// Makes jobs of a schedule in addition to its ticks: pairs of a tick and an id. Returns how many
/// were stored.
async fn make(broker: &DynBroker, at: &ScheduleAddress, mut what: impl FnMut(i64) -> Vec<(i64, JobId)>) -> Result<usize> {
    for tries in 0..TRIES {
        let page = broker.schedules(&at.queue, &ScheduleList::One(at.name.clone())).await?;
        let stored = page.schedules.into_iter().next().ok_or_else(|| no_such(at))?;
        let mut changing = read(&stored)?;
        let wanted = what(page.now_ms);
        let mut jobs = Vec::with_capacity(wanted.len());
        for (tick, id) in wanted {
            let run = changing.state.begun(tick, id.to_string());
            let of = Of { queue: &at.queue, name: &at.name, body: &changing.definition.body };
            jobs.push(TickJob { job: job(of, id, tick, page.now_ms, None)?.0, run, remembered: true });
        }
        let mut request = setting(&at.queue, &at.name, page.now_ms, Some(stored), &changing)?;
        request.jobs = jobs;
        match broker.set_schedule(&request).await? {
            ScheduleAnswer::Set(stored) => return Ok(stored.iter().filter(|stored| **stored).count()),
            ScheduleAnswer::Stale | ScheduleAnswer::Moved => tokio::time::sleep(Duration::from_millis(u64::from(tries))).await,
        }
    }
    Err(busy(&at.name))
}

pub(super) fn read(stored: &StoredSchedule) -> Result<Changing> {
    Ok(Changing { definition: ScheduleDefinition::decode(&stored.definition)?, state: ScheduleState::decode(&stored.state)? })
}

fn setting(queue: &Arc<str>, name: &str, now_ms: i64, stored: Option<StoredSchedule>, changing: &Changing) -> Result<SetSchedule> {
    let definition = Some(changing.definition.encode()).filter(|new| stored.as_ref().is_none_or(|stored| stored.definition != *new));
    let mut state = changing.state.clone();
    // Two concurrent changes of only the definition must conflict.
    state.revision += u64::from(definition.is_some());
    let set = ScheduleSet {
        definition,
        state: state.encode(),
        due_ms: changing.due(name, now_ms)?,
        declared: !changing.definition.declared.is_empty(),
    };
    let mut request = SetSchedule::new(queue.clone(), name, now_ms, stored.map(|stored| stored.state));
    request.set = Some(set);
    Ok(request)
}

fn busy(name: &str) -> Error {
    Error::Internal(format!("gave up: the schedule `{name}` keeps changing"))
}

pub(super) fn time(ms: i64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(u64::try_from(ms).ok()?))
}
