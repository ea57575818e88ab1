//! Reclaims the jobs of crashed workers, in two checks. A lane with an expired lease is overdue. It
//! is fenced only if the broker has not received a heartbeat from it by the second check, by this
//! process's own clock. After any failure of the broker the checks start again, so a Redis that
//! paused makes no lane overdue.
//!
//! A lane is also overdue if its deadline is further ahead than the length of its lease: the
//! broker's clock was set back, and the deadline is not meaningful. Its second check comes one
//! lease later, so its jobs are not reclaimed earlier than with a correct clock.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use queue_core::{
    Error, Result,
    broker::{Ahead, BuryReason, CrashRule, DynBroker, MAX_ITEMS, OverdueLane, OverdueLanes},
};

use super::Pass;
use crate::{
    config::Settings,
    connection::Connection,
    history::History,
    letters, metrics,
    patience::Patience,
    queues::Queues,
    time::now,
    tuning::{CHECKED_TOGETHER, MOST_OVERDUE, RECLAIM_STEPS, SHORTEST_CHECK},
};

/// The lanes that may be dead, with the index of their queue.
type Seen = HashMap<(usize, OverdueLane), Sighting>;

/// The first check of a lane that is overdue.
struct Sighting {
    at: Instant,
    /// The time without a heartbeat after which the lane is confirmed to be dead.
    wait: Duration,
}

impl Sighting {
    fn due(&self) -> Instant {
        self.at + self.wait
    }
}

pub(crate) struct Reclaimer {
    connection: Arc<Connection>,
    queues: Queues,
    history: Arc<History>,
    crashes: CrashRule,
    /// The time between the two checks of a lane.
    confirm: Duration,
    /// Queues are checked in this number of groups, evenly spread over time.
    groups: usize,
    /// The time between two groups.
    step: Duration,
    group: usize,
    step_at: Instant,
    seen: Seen,
    refusals: Patience,
    /// Whether there was a pass.
    began: bool,
}

/// The result of one pass.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Queues that were checked.
    pub(crate) queues: usize,
    /// Lanes that are overdue and wait for their second check.
    pub(crate) overdue: usize,
    /// Jobs that were reclaimed.
    pub(crate) moved: usize,
    /// Queues that could not be checked, or whose jobs could not be reclaimed.
    pub(crate) failed: usize,
}

impl Reclaimer {
    pub(crate) fn new(connection: Arc<Connection>, queues: Queues, history: Arc<History>, settings: &Settings) -> Self {
        let (pass, confirm) = settings.reclaim();
        let groups = queues.len().div_ceil(CHECKED_TOGETHER).max(1);
        Reclaimer {
            confirm,
            groups,
            step: pass / u32::try_from(groups).unwrap_or(u32::MAX),
            group: 0,
            step_at: now(),
            seen: Seen::new(),
            refusals: Patience::new(pass),
            began: false,
            crashes: settings.crashes,
            connection,
            queues,
            history,
        }
    }

    /// The queues of this pass: those whose overdue lanes are due, or the next group.
    fn next_queues(&mut self, asked: Instant) -> Vec<usize> {
        let queues = due(&self.seen, asked);
        if !queues.is_empty() || self.step_at > asked {
            return queues;
        }
        let from = self.group * CHECKED_TOGETHER;
        (self.group, self.step_at) = ((self.group + 1) % self.groups, asked + self.step);
        (from..self.queues.len().min(from + CHECKED_TOGETHER)).collect()
    }

    /// Handles a failure to reclaim the jobs of this queue.
    fn failed(&mut self, queue: usize, error: &Error) {
        let name = &self.queues[queue].name;
        if error.is_transient() {
            start_over(&mut self.seen);
            tracing::debug!(queue = %name, %error, "the reclaimer restarts its pass");
            return;
        }
        // The broker has answered, and the error does not concern other queues.
        self.seen.retain(|(of, _), _| *of != queue);
        self.refusals.failed();
        if self.refusals.is_logged() {
            tracing::error!(queue = %name, %error, "the broker rejected the reclaim: this worker does not reclaim jobs of crashed workers");
        }
    }

    /// Fences the lanes that are confirmed to be dead, reclaims their jobs, and returns the number
    /// of jobs.
    async fn reclaim(&self, queue: usize, found: Result<Found>) -> Result<usize> {
        let name = &*self.queues[queue].name;
        let Found { confirmed, mut fenced } = found?;
        // An idle worker polls rarely; this check is frequent enough to detect whether the broker
        // is reachable.
        self.connection.answered();
        for lanes in confirmed.chunks(MAX_ITEMS) {
            fenced |= self.connection.broker.fence(name, lanes).await?.contains(&true);
        }
        let mut all = 0;
        for _ in 0..RECLAIM_STEPS {
            if !fenced {
                break;
            }
            let reclaimed = self.connection.broker.reclaim(name, &self.crashes).await?;
            let moved = reclaimed.moved();
            all += moved;
            if moved > 0 {
                tracing::warn!(
                    queue = name,
                    returned = reclaimed.returned,
                    charged = reclaimed.charged,
                    buried = reclaimed.buried.len(),
                    "reclaimed jobs of crashed workers"
                );
            }
            metrics::reclaimed(name, moved, reclaimed.charged + reclaimed.buried.len());
            self.history.reclaimed(queue, reclaimed.charged, reclaimed.buried.len());
            letters::log_buried(&self.connection.broker, name, &reclaimed.buried, BuryReason::Crashed).await;
            fenced = moved + reclaimed.forgotten > 0;
        }
        Ok(all)
    }
}

impl Pass for Reclaimer {
    const NAME: &'static str = "reclaimer";
    type Report = Checked;

    /// Until the next group, or the next second check. The first pass starts at once.
    fn pause(&mut self) -> Duration {
        if !std::mem::replace(&mut self.began, true) {
            return Duration::ZERO;
        }
        let next = self.seen.values().map(Sighting::due).fold(self.step_at, Instant::min);
        next.saturating_duration_since(now()).max(SHORTEST_CHECK)
    }

    /// Checks some queues.
    async fn tick(&mut self) -> Checked {
        let asked = now();
        let queues = self.next_queues(asked);
        let confirm = self.confirm;
        let mut checked = Checked { queues: queues.len(), ..Checked::default() };
        let answers = join_all(queues.iter().map(|queue| overdue(&self.connection.broker, &self.queues[*queue].name))).await;
        // The answer may have left the broker at any time before it arrived. The time until the
        // second check is counted from its arrival.
        let answered = now();
        if answers.iter().any(|answer| answer.as_ref().is_err_and(Error::is_transient)) {
            start_over(&mut self.seen);
        }
        let seen = &mut self.seen;
        let found: Vec<_> = queues
            .into_iter()
            .zip(answers)
            .map(|(queue, overdue)| (queue, overdue.map(|overdue| confirmed(seen, queue, (asked, answered), overdue, confirm))))
            .collect();
        let this = &*self;
        let reclaimed = join_all(found.into_iter().map(async |(queue, found)| (queue, this.reclaim(queue, found).await))).await;
        for (queue, outcome) in reclaimed {
            match outcome {
                Ok(moved) => checked.moved += moved,
                Err(error) => {
                    checked.failed += 1;
                    self.failed(queue, &error);
                }
            }
        }
        checked.overdue = self.seen.len();
        checked
    }
}

/// The overdue lanes of a queue, page by page. A further page is read if a page is full of expired
/// lanes, or has a lane whose lease ends later than possible. If few lanes are overdue this is one
/// call, however many lanes are alive.
async fn overdue(broker: &DynBroker, queue: &str) -> Result<OverdueLanes> {
    let mut all = OverdueLanes::default();
    for skip in (0..MOST_OVERDUE).step_by(MAX_ITEMS) {
        let page = broker.overdue(queue, skip, MAX_ITEMS).await?;
        let is_last = page.expired.len() < MAX_ITEMS && page.ahead.is_empty();
        all.fenced = page.fenced;
        all.expired.extend(page.expired);
        all.ahead.extend(page.ahead);
        if is_last {
            break;
        }
    }
    Ok(all)
}

/// The broker may be hanging: discards the earlier checks.
fn start_over(seen: &mut Seen) {
    seen.clear();
}

/// Some queues with overdue lanes that are due for the second check.
fn due(seen: &Seen, now: Instant) -> Vec<usize> {
    let due: BTreeSet<usize> = seen.iter().filter(|(_, first)| first.due() <= now).map(|((queue, _), _)| *queue).collect();
    due.into_iter().take(CHECKED_TOGETHER).collect()
}

/// The result of the check of a queue.
struct Found {
    /// The lanes that are overdue in both checks, without a heartbeat in between.
    confirmed: Vec<OverdueLane>,
    /// Whether there are fenced lanes, whose jobs are to be reclaimed.
    fenced: bool,
}

/// Records the overdue lanes of a queue, and returns the confirmed ones. The checks of a lane start
/// again if it is no longer overdue, if its lease was renewed in the meantime, or if it is now
/// overdue for the other reason.
fn confirmed(seen: &mut Seen, queue: usize, (asked, answered): (Instant, Instant), overdue: OverdueLanes, confirm: Duration) -> Found {
    let fenced = overdue.fenced > 0;
    let expired = overdue.expired.into_iter().map(|lane| (lane, confirm));
    let ahead = overdue.ahead.into_iter().map(|Ahead { lane, duration }| (lane, duration.saturating_add(confirm)));
    let found: HashMap<OverdueLane, Duration> = expired.chain(ahead).collect();
    seen.retain(|(of, lane), first| *of != queue || found.get(lane) == Some(&first.wait));
    let mut confirmed = Vec::new();
    for (lane, wait) in found {
        let first = seen.entry((queue, lane.clone())).or_insert(Sighting { at: answered, wait });
        if first.due() <= asked {
            seen.remove(&(queue, lane.clone()));
            confirmed.push(lane);
        }
    }
    Found { confirmed, fenced }
}

#[cfg(test)]
mod tests {
    use queue_core::{
        Client, RawJob,
        broker::{PartyName, ProcessId, Register, Turn},
    };

    use super::*;
    use crate::queues::queues;

    #[tokio::test]
    async fn a_pass_takes_back_what_a_dead_lane_held_at_its_second_look() {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let (broker, lease) = (client.broker().clone(), Duration::from_millis(50));
        client.enqueue_raw(RawJob::new("task", vec![0x80]).queue("dead")).await.unwrap();
        let lane = broker.register(&Register::lane("dead", ProcessId::random(), lease)).await.unwrap().name;
        broker.turn(&Turn::new("dead", lane, 1, lease).claim(1)).await.unwrap();
        let settings = Settings { lease: Duration::from_millis(300), ..Settings::default() };
        let queues = queues(["dead"]);
        let history = History::new(broker.clone(), ProcessId::random(), "v7".into(), queues.clone());
        let mut reclaimer = Reclaimer::new(Connection::new(broker, settings.heartbeat_interval()), queues, history, &settings);
        let mut passes = Vec::new();
        while passes.last().is_none_or(|checked: &Checked| checked.moved == 0) {
            tokio::time::sleep(reclaimer.pause()).await;
            passes.push(reclaimer.tick().await);
        }
        assert_eq!(passes.pop(), Some(Checked { queues: 1, overdue: 0, moved: 1, failed: 0 }));
        assert!(passes.iter().any(|checked| checked.overdue == 1), "there was a look before: {passes:?}");
        assert!(passes.iter().all(|checked| checked.moved + checked.failed == 0));
    }

    /// A server that was suspended, and answers the first check only when it resumes.
    #[test]
    fn the_second_look_is_counted_from_the_answer_to_the_first() {
        const CONFIRM: Duration = Duration::from_secs(6);
        let (mut seen, began) = (Seen::new(), now());
        let mut is_confirmed = |queue, asked: u64, answered: u64| {
            let at = |seconds| began + Duration::from_secs(seconds);
            let expired = vec![OverdueLane { name: PartyName::new("lane"), deadline_ms: 1 }];
            let found = confirmed(&mut seen, queue, (at(asked), at(answered)), OverdueLanes::new(expired, 0), CONFIRM);
            found.confirmed.len() == 1
        };
        assert!(!is_confirmed(0, 0, 10) && !is_confirmed(1, 10, 11));
        assert!(!is_confirmed(0, 11, 12) && !is_confirmed(0, 15, 20));
        assert!(is_confirmed(0, 16, 17), "six seconds after the answer");
        assert!(!is_confirmed(1, 16, 16), "each queue by itself");
        assert!(!is_confirmed(0, 17, 18), "whoever is one anew starts from the beginning");
    }

    #[test]
    fn a_lease_that_ends_too_late_is_watched_for_its_whole_length() {
        const CONFIRM: Duration = Duration::from_secs(6);
        let (mut seen, began) = (Seen::new(), now());
        let lane = OverdueLane { name: PartyName::new("lane"), deadline_ms: 3_600_000 };
        let ahead =
            |duration| OverdueLanes::new(Vec::new(), 0).ahead(vec![Ahead { lane: lane.clone(), duration: Duration::from_secs(duration) }]);
        let expired = OverdueLanes::new(vec![lane.clone()], 0);
        let mut is_confirmed = |at: u64, overdue: OverdueLanes| {
            let at = began + Duration::from_secs(at);
            !confirmed(&mut seen, 0, (at, at), overdue, CONFIRM).confirmed.is_empty()
        };
        assert!(!is_confirmed(0, ahead(30)) && !is_confirmed(35, ahead(30)));
        assert!(is_confirmed(36, ahead(30)), "its lease, and the time between two looks");
        assert!(
            !is_confirmed(40, ahead(30)) && !is_confirmed(60, OverdueLanes::default()) && !is_confirmed(80, ahead(30)),
            "it was renewed"
        );
        assert!(!is_confirmed(90, expired.clone()), "the clock is right again: that is another reason");
        assert!(is_confirmed(96, expired));
    }
}
