//! The bars: the required values of our figures. They are all here, so that the page and the code
//! agree. A regenerated report compares all its figures, including older ones, with the current
//! bars.

use crate::take::Line;

/// The required value of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bar {
    RatioAtLeast(f64),
    AtMost(f64),
}

use Bar::{AtMost, RatioAtLeast};

/// The number's broker and name, and its bar.
const BARS: &[(&str, &str, Bar)] = &[
    ("redis", "process", RatioAtLeast(2.5)),
    ("redis", "process_c64", RatioAtLeast(1.6)),
    ("redis", "retention", RatioAtLeast(0.5)),
    ("redis", "enqueue_seq", RatioAtLeast(0.5)),
    ("redis", "enqueue_c50", RatioAtLeast(1.7)),
    ("redis", "enqueue_c500", RatioAtLeast(3.5)),
    ("redis", "enqueue_all", RatioAtLeast(4.5)),
    ("redis", "unique_enqueue_c50", RatioAtLeast(0.5)),
    ("redis", "unique_enqueue_all", RatioAtLeast(0.35)),
    ("redis", "unique_process", RatioAtLeast(0.7)),
    ("redis", "groups_100_c64", RatioAtLeast(0.35)),
    ("redis", "groups_100_c256", RatioAtLeast(0.35)),
    ("redis", "groups_1k_c64", RatioAtLeast(0.35)),
    ("redis", "groups_1k_c256", RatioAtLeast(0.35)),
    ("redis", "groups_10k_c64", RatioAtLeast(0.35)),
    ("redis", "groups_10k_c256", RatioAtLeast(0.35)),
    ("redis", "groups_100k_c64", RatioAtLeast(0.35)),
    ("redis", "groups_100k_c256", RatioAtLeast(0.35)),
    ("redis", "groups_fair", AtMost(1100.0)),
    ("redis", "limits", RatioAtLeast(0.2)),
    ("redis", "limits_over", AtMost(0.0)),
    ("redis", "limits_leaked", AtMost(0.0)),
    ("redis", "rate_error", AtMost(1.0)),
    ("redis", "rate_burst", AtMost(21.0)),
    ("redis", "topics_consume", RatioAtLeast(0.5)),
    ("redis", "topics_latency_p50", AtMost(0.8)),
    ("redis", "topics_latency_p99", AtMost(3.0)),
    ("redis", "topics_catch_up", RatioAtLeast(0.9)),
    ("redis", "topics_catch_up_beside", RatioAtLeast(0.9)),
    ("redis", "latency_p50", AtMost(0.6)),
    ("redis", "latency_p99", AtMost(2.0)),
    ("redis", "lateness_p50", AtMost(1.0)),
    ("redis", "lateness_p99", AtMost(5.0)),
    ("redis", "lateness_single_p50", AtMost(1.0)),
    ("redis", "lateness_single_p99", AtMost(5.0)),
    ("redis", "lateness_early", AtMost(0.0)),
    ("redis", "schedules_process", RatioAtLeast(0.9)),
    ("redis", "schedules_lateness_p50", AtMost(1.0)),
    ("redis", "schedules_lateness_p99", AtMost(5.0)),
    ("redis", "schedules_lateness_early", AtMost(0.0)),
    ("redis", "schedules_burst", AtMost(300.0)),
    ("redis", "schedules_burst_script", AtMost(5.0)),
    ("redis", "memory", AtMost(130.0)),
    ("redis", "memory_200", AtMost(130.0)),
    ("redis", "server_us", AtMost(6.0)),
    ("redis", "turn_us_plain_1", AtMost(20.0)),
    ("redis", "turn_us_full_1", AtMost(45.0)),
    ("redis", "turn_us_full_8", AtMost(60.0)),
    ("redis", "scale_out_2", RatioAtLeast(0.7)),
    ("redis", "scale_out_4", RatioAtLeast(1.0)),
    ("redis", "scale_out_queues", RatioAtLeast(0.6)),
    ("redis", "scale_out_enqueue", RatioAtLeast(0.3)),
    ("redis", "scale_out_idle", AtMost(2.0)),
    ("redis", "growth_1m", RatioAtLeast(0.9)),
    ("redis", "growth", RatioAtLeast(0.9)),
    ("redis", "growth_scheduled", RatioAtLeast(0.9)),
    ("redis", "due_at_once_script", AtMost(5.0)),
    ("redis", "due_at_once_ping_p99", AtMost(20.0)),
    ("redis", "big_payloads_script", AtMost(5.0)),
    ("redis", "big_payloads_answer", AtMost(1024.0)),
    ("redis", "outbox_postgres_to_start_p50", AtMost(5.0)),
    ("redis", "outbox_sqlite_to_start_p50", AtMost(5.0)),
    ("sqlite", "sqlite_process", RatioAtLeast(0.55)),
    ("sqlite", "sqlite_enqueue_all", RatioAtLeast(0.8)),
    ("sqlite", "sqlite_enqueue_c50", RatioAtLeast(0.45)),
    ("sqlite", "sqlite_latency_p50", AtMost(3.0)),
    ("sqlite", "sqlite_lateness_p50", AtMost(1.0)),
    ("sqlite", "sqlite_lateness_p99", AtMost(5.0)),
    ("sqlite", "sqlite_lateness_single_p50", AtMost(1.0)),
    ("sqlite", "sqlite_lateness_single_p99", AtMost(5.0)),
    ("sqlite", "sqlite_lateness_early", AtMost(0.0)),
];

/// The longest script of each kind, in milliseconds.
const LONGEST_SCRIPT: Bar = AtMost(5.0);

impl Bar {
    /// The bar of this number; other projects' queues and designs have none.
    pub(crate) fn of(broker: &str, name: &str) -> Option<Bar> {
        if broker == "redis" && name.starts_with("instructions_") && name.ends_with("_ms") {
            return Some(LONGEST_SCRIPT);
        }
        BARS.iter().find(|(of, figure, _)| (*of, *figure) == (broker, name)).map(|(_, _, bar)| *bar)
    }

    /// Writes the bar and the result of the comparison into the line.
    pub(crate) fn judge(line: &mut Line) {
        let bar = Bar::of(&line.broker, &line.name);
        line.bar = bar.map(|bar| bar.shown(&line.unit));
        line.met = bar.and_then(|bar| bar.met(line.value, line.ratio));
    }

    /// Whether it is met; `None` without the required ratio.
    fn met(self, value: f64, ratio: Option<f64>) -> Option<bool> {
        match self {
            RatioAtLeast(bar) => ratio.map(|ratio| ratio >= bar),
            AtMost(bar) => Some(value <= bar),
        }
    }

    fn shown(self, unit: &str) -> String {
        match self {
            RatioAtLeast(bar) => format!("ratio ≥ {bar}"),
            AtMost(bar) => format!("≤ {bar} {unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_is_that_of_a_figure() {
        let figures = crate::figures::all();
        for (broker, name, _) in BARS {
            assert!(figures.iter().any(|figure| figure.broker == *broker && name.starts_with(&*figure.name)), "{broker} {name}");
        }
    }

    #[test]
    fn a_bar_belongs_to_ours_alone_and_reports_whether_it_is_met() {
        assert_eq!(Bar::of("list", "process"), None);
        assert_eq!(Bar::of("redis", "instructions_turn_ms"), Some(LONGEST_SCRIPT));
        let bar = Bar::of("redis", "scale_out_2").unwrap();
        assert_eq!([0.695, 0.7].map(|ratio| bar.met(200_000.0, Some(ratio))), [Some(false), Some(true)]);
        assert_eq!(bar.met(200_000.0, None), None);
        assert_eq!(AtMost(0.6).met(0.5, Some(6.0)), Some(true));
    }
}
