//! Problems of topics.

use queue_core::{Inspector, SubscriptionInfo, TopicInfo};

use super::{Problem, WORTH_A_WORD};
use crate::cli::output::coarse;

pub(in crate::cli) async fn advise(inspector: &Inspector, problems: &mut Vec<Problem>) -> queue_core::Result<()> {
    for topic in inspector.topics().await? {
        problems.extend(closed(&topic));
        problems.extend(topic.subscriptions.iter().filter_map(stands));
        problems.extend(topic.subscriptions.iter().filter_map(|of| late(&topic, of)));
        problems.extend(topic.subscriptions.iter().filter_map(|of| lost(&topic, of)));
    }
    Ok(())
}

/// What it has not read is gone soon: half of the time is over for which the topic waits for it.
fn late(topic: &TopicInfo, of: &SubscriptionInfo) -> Option<Problem> {
    let waits = topic.retention.lag();
    let problem = format!(
        "its oldest unread event is {} old, and the topic keeps unread events for {}; older ones may be lost",
        coarse(of.lag),
        coarse(waits)
    );
    let way_out = format!("start more workers, or keep unread events longer with `topics set {} --lag`", topic.name);
    (of.lag > waits / 2).then(|| Problem::advice(Some(&of.queue), problem, way_out))
}

fn closed(topic: &TopicInfo) -> Option<Problem> {
    let problem = format!("topic {} accepts no more events: another program has added an entry with the largest possible id", topic.name);
    let way_out = "rename the key of its log, and `topics rewind` each subscription to `start`";
    topic.is_closed.then(|| Problem::of_broker(problem, way_out))
}

fn stands(of: &SubscriptionInfo) -> Option<Problem> {
    let queue = Some(of.queue.as_str());
    if of.rewinding {
        let way_out = "if the program that ran it has crashed, run `topics rewind` again: until then the subscription reads nothing";
        return Some(Problem::advice(queue, "a rewind of it is under way", way_out));
    }
    let is_alone = of.workers == 0 && of.lag >= WORTH_A_WORD;
    let problem = format!("no worker serves it, and its oldest unread event is {} old", coarse(of.lag));
    is_alone.then(|| Problem::advice(queue, problem, "start a worker, or remove the subscription with `topics unsubscribe`"))
}

fn lost(topic: &TopicInfo, of: &SubscriptionInfo) -> Option<Problem> {
    let problem = format!("{} events were removed before it read them, since it was created", of.lost);
    let way_out = format!("it was too slow: start more workers, or keep unread events longer with `topics set {} --lag`", topic.name);
    (of.lost > 0).then(|| Problem::advice(Some(&of.queue), problem, way_out))
}
