//! Problems of topics.

use std::time::{Duration, SystemTime};

use queue_core::{
    broker::CLEANUP_BEHIND,
    inspect::Inspector,
    topics::{Retention, SubscriptionInfo, TopicInfo},
};

use super::{Problem, REPORTED_FROM};
use crate::output::rounded_duration;

pub(crate) async fn add_advice(inspector: &Inspector, problems: &mut Vec<Problem>) -> queue_core::Result<()> {
    for topic in inspector.topics().await? {
        problems.extend(closed(&topic));
        problems.extend(overdue(&topic));
        problems.extend(topic.subscriptions.iter().filter_map(stopped_subscription));
        problems.extend(topic.subscriptions.iter().filter_map(|of| late_subscription(&topic, of)));
        problems.extend(topic.subscriptions.iter().filter_map(|of| lost_events(&topic, of)));
    }
    Ok(())
}

/// Unread events expire soon: half of the time is over for which the topic keeps them for the
/// subscription.
fn late_subscription(topic: &TopicInfo, of: &SubscriptionInfo) -> Option<Problem> {
    let waits = topic.retention.lag();
    let problem = format!(
        "its oldest unread event is {} old, and the topic keeps unread events for {}; older ones may be lost",
        rounded_duration(of.lag),
        rounded_duration(waits)
    );
    let advice = format!("start more workers, or keep unread events longer with `topics set {} --lag`", topic.name);
    (of.lag > waits / 2).then(|| Problem::advice(Some(&of.queue), problem, advice))
}

/// Expired events that are not removed, or not fast enough.
fn overdue(topic: &TopicInfo) -> Option<Problem> {
    let oldest = topic.first.and_then(|first| SystemTime::now().duration_since(first).ok()).unwrap_or_default();
    let unread = topic.subscriptions.iter().map(|of| of.behind.unwrap_or(topic.events)).max().unwrap_or_default();
    let problem = format!("topic {}: more than 100,000 expired events wait to be removed", topic.name);
    let advice = "start a worker of a subscription: workers remove expired events; if one runs, its log says why it does not";
    (expired(topic.events, topic.bytes, unread, oldest, &topic.retention) > CLEANUP_BEHIND as u64)
        .then(|| Problem::advice(None, problem, advice))
}

/// The approximate number of expired events of a topic, if all came at a steady rate and have one
/// size. An event that a subscription has not read is not counted.
fn expired(events: u64, bytes: u64, unread: u64, oldest: Duration, retention: &Retention) -> u64 {
    let too_many = retention.count.map_or(0, |most| events.saturating_sub(most));
    let too_large = retention.bytes.map_or(0.0, |most| bytes.saturating_sub(most) as f64 / bytes.max(1) as f64 * events as f64);
    let too_old = oldest.saturating_sub(retention.age()).as_secs_f64() / oldest.as_secs_f64().max(1.0) * events as f64;
    too_many.max(too_old as u64).max(too_large as u64).min(events.saturating_sub(unread))
}

fn closed(topic: &TopicInfo) -> Option<Problem> {
    let problem = format!("topic {} accepts no more events: another program has added an entry with the largest possible id", topic.name);
    let advice = "rename the key of its log, and `topics rewind` each subscription to `start`";
    topic.is_closed.then(|| Problem::of_broker(problem, advice))
}

fn stopped_subscription(of: &SubscriptionInfo) -> Option<Problem> {
    let queue = Some(of.queue.as_str());
    if of.rewinding {
        let advice = "if the program that ran it has crashed, run `topics rewind` again: until then the subscription reads nothing";
        return Some(Problem::advice(queue, "a rewind of it is under way", advice));
    }
    let is_alone = of.workers == 0 && of.lag >= REPORTED_FROM;
    let problem = format!("no live worker serves it, and its oldest unread event is {} old", rounded_duration(of.lag));
    is_alone.then(|| Problem::advice(queue, problem, "start a worker, or remove the subscription with `topics unsubscribe`"))
}

fn lost_events(topic: &TopicInfo, of: &SubscriptionInfo) -> Option<Problem> {
    let problem = format!("{} events were removed or damaged before it read them, since it was created", of.lost);
    let advice = format!("if it was too slow, start more workers, or keep unread events longer with `topics set {} --lag`", topic.name);
    (of.lost > 0).then(|| Problem::advice(Some(&of.queue), problem, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_events_are_counted_but_for_those_that_are_unread() {
        const HOUR: Duration = Duration::from_secs(3600);
        let retention = Retention { age: Some(HOUR), count: Some(900_000), ..Retention::default() };
        let waiting = |unread, oldest| expired(1_000_000, 4_000_000, unread, oldest, &retention);
        assert_eq!((waiting(0, HOUR / 2), waiting(0, HOUR)), (100_000, 100_000), "too many");
        assert_eq!(waiting(0, 2 * HOUR), 500_000, "half of them are too old");
        assert_eq!(waiting(800_000, 2 * HOUR), 200_000);
        let of_bytes = Retention { bytes: Some(3_000_000), ..Retention::default() };
        assert_eq!(expired(1_000_000, 4_000_000, 0, Duration::ZERO, &of_bytes), 250_000, "a quarter is too much");
    }
}
