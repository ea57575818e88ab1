//! A round of a watch: reads all queues whose time has come at once, and the list of queues.

use std::{
    future::Future,
    time::{Duration, UNIX_EPOCH},
};

use futures_util::future::{join, join_all};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until, timeout_at},
};

use super::Transition;
use crate::{
    broker::{DynBroker, FOLLOWED, Followed, StoredTransition, Transitions, after, on_broker},
    error::{Error, Result},
};

/// The interval at which the mark of a watcher is renewed.
const RENEWED: Duration = Duration::from_secs(5);
const _: () = assert!(RENEWED.as_millis() * 2 < FOLLOWED.as_millis());

/// The pause after which a queue with events is polled again. A queue without events is polled less
/// and less often.
const BUSY: Duration = Duration::from_millis(20);

/// Most transitions of one answer.
const PAGE: usize = 1_000;

/// A round that has begun. It ends by a timeout.
pub(super) struct Round {
    until: Instant,
    receiver: oneshot::Receiver<RoundAnswers>,
}

/// The answers of a round.
pub(super) struct RoundAnswers {
    /// The existing queues, if the round has searched for them.
    pub(super) found: Option<Result<Vec<String>>>,
    /// The answer of each queue.
    pub(super) answers: Vec<(String, Result<Answer>)>,
}

/// The data of an answer about a queue.
pub(super) struct Answer {
    /// The time of the request.
    asked: Instant,
    followed: Option<Followed>,
    read: Option<Transitions>,
}

/// How far a queue was read.
#[derive(Clone, Debug)]
pub(super) struct Feed {
    /// The number of the last transition that was read; `None` before the first answer.
    after: Option<u64>,
    /// The life of the server that has answered last.
    life: String,
    /// When the mark was set.
    marked: Option<Instant>,
    /// The time of its next poll.
    pub(super) next: Instant,
    /// The pause after that poll.
    pause: Duration,
    /// The queue was made while others were watched, or did not exist, or could not be watched: its
    /// first transitions were not seen.
    is_late: bool,
    /// It cannot be watched, which was reported.
    pub(super) is_refused: bool,
}

impl Round {
    /// Reads these queues, and searches for new ones if `lists`. A queue that has not answered
    /// after this time has failed.
    pub(super) fn begin(broker: &DynBroker, lists: bool, due: Vec<(String, Feed)>, time: Duration) -> Round {
        let (sender, receiver) = oneshot::channel();
        let (own, until) = (broker.clone(), after(time));
        broker.spawn(Box::pin(async move {
            let lister = own.clone();
            let found = async move { if lists { Some(in_time(&lister, until, lister.queues()).await) } else { None } };
            let answers = join_all(due.into_iter().map(|(queue, feed)| {
                let own = own.clone();
                async move {
                    let answer = in_time(&own, until, ask(&own, &queue, &feed)).await;
                    (queue, answer)
                }
            }));
            let (found, answers) = join(found, answers).await;
            // A watcher that has ended does not need the answer.
            let _ = sender.send(RoundAnswers { found, answers });
        }));
        Round { until, receiver }
    }

    /// Waits for the answers; `None`: the deadline has passed first.
    pub(super) async fn wait(&mut self, broker: &DynBroker, end: Option<Instant>) -> Result<Option<RoundAnswers>> {
        let ended = |_| Error::unavailable(broker.info().location, "its I/O thread has ended");
        let Some(end) = end.filter(|end| *end < self.until) else {
            return (&mut self.receiver).await.map(Some).map_err(ended);
        };
        tokio::select! {
            biased;
            brought = &mut self.receiver => brought.map(Some).map_err(ended),
            over = on_broker(broker, async move { sleep_until(end).await }) => over.map(|()| None),
        }
    }
}

/// A call that is not waited for any longer than that.
async fn in_time<T>(broker: &DynBroker, until: Instant, call: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| Error::ambiguous(broker.info().location, "it has not answered a watcher in time");
    timeout_at(until, call).await.map_err(late)?
}

/// Renews the mark where that is due, and reads on.
async fn ask(broker: &DynBroker, queue: &str, feed: &Feed) -> Result<Answer> {
    let asked = Instant::now();
    let is_due = feed.marked.is_none_or(|marked| marked.elapsed() >= RENEWED);
    let followed = if is_due { Some(broker.follow(queue, FOLLOWED).await?) } else { None };
    let read = match feed.after {
        Some(after) => Some(broker.transitions(queue, after, PAGE).await?),
        None => None,
    };
    Ok(Answer { asked, followed, read })
}

/// By the times of the transitions, and those of a queue in its own order: the clock of its broker
/// may have stepped back.
pub(super) fn in_order(queues: Vec<Vec<Transition>>) -> Vec<Transition> {
    let mut ordered = Vec::new();
    for queue in queues {
        let mut latest = UNIX_EPOCH;
        for transition in queue {
            latest = latest.max(transition.at);
            ordered.push((latest, transition));
        }
    }
    ordered.sort_by_key(|(latest, _)| *latest);
    ordered.into_iter().map(|(_, transition)| transition).collect()
}

impl Feed {
    pub(super) fn new(is_late: bool) -> Self {
        Feed { after: None, life: String::new(), marked: None, next: Instant::now(), pause: BUSY, is_late, is_refused: false }
    }

    /// It did not answer, and is polled again after this pause.
    pub(super) fn fail(&mut self, pause: Duration) {
        // The broker may be another server then: the next mark shows this.
        (self.marked, self.next) = (None, Instant::now() + pause);
    }

    /// Records that the queue cannot be watched. Returns whether this is news.
    pub(super) fn refuse(&mut self) -> bool {
        self.is_late = true;
        !std::mem::replace(&mut self.is_refused, true)
    }

    /// Continues with an answer. Returns the number of lost transitions, if any, and the
    /// transitions that were read.
    pub(super) fn take(
        &mut self,
        Answer { asked, followed, read }: Answer,
        idle: Duration,
    ) -> (Option<Option<u64>>, Vec<StoredTransition>) {
        let now = Instant::now();
        self.is_refused = false;
        let mut is_broken = false;
        if let Some(Followed { last, was_valid, life, .. }) = followed {
            let Some(last) = last else {
                // No program has used the queue yet, or it is gone.
                (self.after, self.marked, self.is_late, self.next) = (None, None, true, now + idle);
                return (None, Vec::new());
            };
            self.marked = Some(asked);
            if self.after.is_none() {
                (self.after, self.life, self.next) = (Some(last), life, now + BUSY);
                return (std::mem::take(&mut self.is_late).then_some(None), Vec::new());
            }
            is_broken = !was_valid || life != self.life;
            self.life = life;
        }
        let Some(read) = read else { return (None, Vec::new()) };
        if read.life != self.life {
            // Another server has answered, which may lack the mark and earlier transitions, or the
            // mark had expired for a while.
            (is_broken, self.marked, self.life) = (true, None, read.life);
        }
        let is_full = read.entries.len() >= PAGE;
        self.pause = if read.entries.is_empty() { (self.pause * 2).min(idle) } else { BUSY };
        self.next = if is_full { now } else { now + self.pause };
        self.after = Some(read.upto);
        let lost = match read.lost {
            None => Some(None),
            Some(_) if is_broken => Some(None),
            Some(0) => None,
            Some(lost) => Some(Some(lost)),
        };
        (lost, read.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        address::{JobAddress, JobId},
        client::watch::IDLE,
    };

    fn answer(followed: Option<Followed>, read: Option<Transitions>) -> Answer {
        Answer { asked: Instant::now(), followed, read }
    }

    fn begun() -> Feed {
        let mut feed = Feed::new(false);
        let begin = answer(Some(Followed::new(7, false, "one".to_owned())), None);
        assert_eq!(feed.take(begin, IDLE).0, None, "it begins");
        feed
    }

    fn read(numbers: &[u64], after: u64, last: u64) -> Option<Transitions> {
        let transitions = numbers.iter().map(|number| StoredTransition::new(*number, 0, JobId::make())).collect();
        Some(Transitions::read(transitions, after, last, true).of_life("one".to_owned()))
    }

    #[test]
    fn what_is_lost_is_reported_once() {
        let mut feed = begun();
        let mut take = |followed: Option<(bool, &str)>, read| {
            let followed = followed.map(|(was_valid, life)| Followed::new(0, was_valid, life.to_owned()));
            feed.take(answer(followed, read), IDLE).0
        };
        let of_two = |read: Option<Transitions>| read.map(|read| read.of_life("two".to_owned()));
        assert_eq!(take(None, read(&[8], 7, 8)), None);
        assert_eq!(take(Some((true, "one")), read(&[9], 8, 9)), None, "the mark was renewed");
        assert_eq!(take(None, read(&[12], 9, 12)), Some(Some(2)));
        assert_eq!(take(Some((true, "two")), of_two(read(&[13], 12, 13))), Some(None), "another server may lack the last");
        assert_eq!(take(Some((false, "two")), of_two(read(&[], 13, 13))), Some(None), "no mark stood");
        assert_eq!(take(None, of_two(read(&[], 13, 2))), Some(None), "the numbers are those of an older copy");
        assert_eq!(take(None, of_two(read(&[3], 2, 3))), None);
        assert_eq!(take(Some((true, "two")), read(&[4], 3, 4)), Some(None), "another server has answered after the mark");
    }

    #[test]
    fn what_another_server_reports_comes_behind_the_loss() {
        let mut feed = begun();
        assert_eq!(feed.take(answer(None, read(&[8], 7, 8)), IDLE).0, None);
        let of_two = |read: Option<Transitions>| read.map(|read| read.of_life("two".to_owned()));
        let (lost, transitions) = feed.take(answer(None, of_two(read(&[9, 10], 8, 10))), IDLE);
        assert_eq!((lost, transitions.len()), (Some(None), 2), "the numbers alone do not tell");
        assert!(feed.marked.is_none(), "the mark is set there at once");
        assert_eq!(
            feed.take(answer(Some(Followed::new(10, true, "two".to_owned())), of_two(read(&[11], 10, 11))), IDLE).0,
            None,
            "it is told once"
        );
    }

    #[test]
    fn a_queue_that_did_not_exist_begins_with_a_loss() {
        let mut feed = Feed::new(false);
        assert_eq!(feed.take(answer(Some(Followed::default()), None), IDLE).0, None);
        let begin = answer(Some(Followed::new(7, false, String::new())), None);
        assert_eq!(feed.take(begin, IDLE).0, Some(None));
        assert_eq!(feed.after, Some(7));
    }

    #[test]
    fn a_queue_that_could_not_be_watched_begins_with_a_loss() {
        let mut feed = Feed::new(false);
        assert!(feed.refuse(), "it is told");
        assert!(!feed.refuse(), "once");
        assert_eq!(feed.take(answer(Some(Followed::new(7, false, String::new())), None), IDLE).0, Some(None));
        assert!(!feed.is_refused);
    }

    #[test]
    fn a_clock_that_steps_back_changes_no_order_within_a_queue() {
        let of = |queue: &str, times: &[u64]| -> Vec<Transition> {
            let at = |time: &u64| Transition {
                at: UNIX_EPOCH + Duration::from_secs(*time),
                job: JobAddress { queue: queue.into(), id: JobId::make() },
                task: String::new(),
                from: None,
                to: None,
                attempts: 0,
                reason: None,
            };
            times.iter().map(at).collect()
        };
        let transitions = in_order(vec![of("a", &[5, 9, 2, 3, 10]), of("b", &[1, 7, 9, 12])]);
        let transitions: Vec<(&str, u64)> =
            transitions.iter().map(|one| (&*one.job.queue, one.at.duration_since(UNIX_EPOCH).unwrap().as_secs())).collect();
        assert_eq!(transitions, [("b", 1), ("a", 5), ("b", 7), ("a", 9), ("a", 2), ("a", 3), ("b", 9), ("a", 10), ("b", 12)]);
    }
}
