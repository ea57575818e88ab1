//! Metrics of limits, by name and not by key, because keys are many and may contain the names of
//! accounts.

use std::collections::{BTreeMap, HashMap};

use metrics::Gauge;
use queue_core::broker::{DynBroker, LimitRecord, StoredLimit, history::OTHERS};

/// The maximum number of limits of a queue that have their own label.
const MOST_LIMITS: usize = 100;

/// The figures of a limit: held slots, jobs that wait for a slot, jobs that wait for the rate.
type Figures = [u64; 3];

/// The gauges of the limits of one queue, by their labels.
#[derive(Default)]
pub(super) struct LimitGauges(HashMap<String, [Gauge; 3]>);

impl LimitGauges {
    /// Reads the limits of a queue.
    pub(super) async fn read(&mut self, broker: &DynBroker, queue: &str) {
        // Without an answer, the gauges keep their values.
        let Ok(limits) = broker.limits(queue, None).await else { return };
        let figures = figures(&limits);
        for (label, of) in &figures {
            let gauges = self.0.entry(label.clone()).or_insert_with(|| gauges(queue, label));
            #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
            gauges.iter().zip(of).for_each(|(gauge, figure)| gauge.set(*figure as f64));
        }
        // A limit that was removed has no held slots and no waiting jobs.
        for gauges in self.0.iter().filter(|(label, _)| !figures.contains_key(*label)).map(|(_, gauges)| gauges) {
            gauges.iter().for_each(|gauge| gauge.set(0.0));
        }
    }
}

fn gauges(queue: &str, limit: &str) -> [Gauge; 3] {
    let waiting = |reason: &'static str| {
        let labels = [("queue", queue.to_owned()), ("limit", limit.to_owned()), ("reason", reason.to_owned())];
        metrics::gauge!("queue_limit_waiting", &labels)
    };
    let held = metrics::gauge!("queue_limit_used", "queue" => queue.to_owned(), "limit" => limit.to_owned());
    [held, waiting("limit_full"), waiting("rate_limited")]
}

/// The figures of limits by their labels. The first limits by name have their own label, and the
/// others share one.
fn figures(limits: &[StoredLimit]) -> BTreeMap<String, Figures> {
    let named = limits.iter().filter_map(|limit| Some((LimitRecord::decode(&limit.stored).ok()?.name, limit)));
    let named: BTreeMap<String, &StoredLimit> = named.collect();
    let mut figures = BTreeMap::<String, Figures>::new();
    for (n, (name, limit)) in named.into_iter().enumerate() {
        let label = if n < MOST_LIMITS { name } else { OTHERS.to_owned() };
        let sums = figures.entry(label).or_default();
        sums.iter_mut().zip([limit.held, limit.full, limit.rated]).for_each(|(sum, figure)| *sum += figure);
    }
    figures
}

#[cfg(test)]
mod tests {
    use queue_core::inspect::LimitRule;

    use super::*;

    fn limit(name: &str, held: u64) -> StoredLimit {
        let (mut record, mut rule) = (LimitRecord::new(name), LimitRule::new());
        rule.concurrency = Some(9);
        record.set_to(Some(rule));
        StoredLimit::new(record.encode(), held, 2, 1)
    }

    #[test]
    fn labels_are_bounded_and_nothing_is_left_out() {
        let limits: Vec<StoredLimit> = (0..MOST_LIMITS as u64 + 7).rev().map(|n| limit(&format!("limit-{n:03}"), n)).collect();
        let gauges = figures(&limits);
        assert_eq!((gauges.len(), gauges["limit-000"], gauges["limit-099"]), (MOST_LIMITS + 1, [0, 2, 1], [99, 2, 1]));
        assert_eq!(gauges[OTHERS], [(100..107).sum::<u64>(), 14, 7]);
        assert!(figures(&[StoredLimit::new(b"?".to_vec(), 1, 1, 1)]).is_empty(), "what cannot be read is left out");
    }
}
