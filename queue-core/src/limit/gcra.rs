//! Generic cell rate algorithm (ITU-T I.371, the virtual scheduling algorithm), in whole
//! microseconds. For each key, a broker stores how far its *theoretical arrival time* is ahead of
//! now.

use super::LimitRule;

/// The arrival time is at most a burst and `periods` ahead, or [`LONGEST_DEBT_US`] if that is more.
pub const DEBT_PERIODS: i64 = 10;

/// A day, in microseconds.
pub const LONGEST_DEBT_US: i64 = 24 * 3600 * 1_000_000;

/// The duration of `starts` starts, in whole microseconds.
#[allow(clippy::cast_possible_truncation, reason = "a burst of a million at a year each is below 2^63")]
pub fn charge(rule: &LimitRule, cost: u32) -> i64 {
    rule.rate.map_or(0, |rate| (f64::from(cost.min(rule.burst())) * rate.step()).ceil() as i64)
}

/// How far the arrival time may be ahead.
fn allowance(rule: &LimitRule) -> i64 {
    charge(rule, rule.burst())
}

/// How far the arrival time may be ahead. A wrong clock has stored a larger value.
pub fn most(rule: &LimitRule) -> i64 {
    let period = rule.rate.map_or(0, |rate| i64::try_from(rate.period_us()).unwrap_or(i64::MAX));
    allowance(rule).saturating_add(DEBT_PERIODS.saturating_mul(period).max(LONGEST_DEBT_US))
}

/// How far the arrival time is ahead after a run that was charged `declared` starts and has used
/// `actual`. The run is charged all of them, also above the burst, and unused starts are refunded.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "it is bounded by what may be ahead at most")]
pub fn corrected(rule: &LimitRule, ahead: i64, declared: u32, actual: u32) -> i64 {
    let Some(rate) = rule.rate else { return ahead };
    let used = (f64::from(actual) * rate.step()).ceil().min(most(rule) as f64) as i64;
    ahead.saturating_add(used).saturating_sub(charge(rule, declared)).clamp(0, most(rule))
}

/// How long a job of this cost has to wait; 0: it may start now.
pub fn wait(rule: &LimitRule, ahead: i64, cost: u32) -> i64 {
    if rule.rate.is_none() {
        return 0;
    }
    (ahead.saturating_add(charge(rule, cost)).saturating_sub(allowance(rule))).max(0)
}

/// By how much a stored time is ahead by this rule, if it was stored under another rate: the number
/// of starts ahead stays the same.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "it is bounded by the next step")]
pub fn rebased(rule: &LimitRule, ahead: i64, stored_step: f64) -> i64 {
    let Some(rate) = rule.rate else { return 0 };
    let ahead =
        if stored_step > 0.0 && stored_step != rate.step() { (ahead as f64 / stored_step * rate.step()).floor() as i64 } else { ahead };
    ahead.clamp(0, most(rule))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Rate;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    /// Inngest: "3000 requests every minute with burst", "1 request every 24h", "quantity=0 ..".
    #[test]
    fn starts_are_spread_and_a_burst_is_what_was_set() {
        let rule = LimitRule { rate: Some(rate("3000/1m")), burst: Some(5), ..LimitRule::new() };
        let (mut ahead, mut started) = (0, 0);
        while wait(&rule, ahead, 1) == 0 {
            ahead += charge(&rule, 1);
            started += 1;
        }
        assert_eq!((started, wait(&rule, ahead, 1)), (5, 20_000));
        assert_eq!(wait(&rule, ahead - 20_000, 1), 0);
        let day = LimitRule { rate: Some(rate("1/24h")), ..LimitRule::new() };
        assert_eq!(wait(&day, 0, 1), 0);
        assert_eq!(wait(&day, charge(&day, 1), 1), 86_400_000_000);
        // A job that costs more than the burst takes all of it, and starts.
        assert_eq!((wait(&rule, 0, 50), charge(&rule, 50)), (0, 100_000));
        // A new rate keeps the number of starts that are ahead.
        assert_eq!(rebased(&day, 20_000, 20_000.0), 86_400_000_000);
        assert_eq!(rebased(&rule, i64::MAX / 4, 20_000.0), 100_000 + LONGEST_DEBT_US);
        assert_eq!(rebased(&day, i64::MAX / 4, 86_400_000_000.0), 11 * LONGEST_DEBT_US);
        assert_eq!(rebased(&LimitRule::new(), 5, 1.0), 0);
    }

    #[test]
    fn what_a_run_has_really_used_is_charged_in_full_and_the_rest_given_back() {
        let rule = LimitRule { rate: Some(rate("3000/1m")), burst: Some(5), ..LimitRule::new() };
        let started = charge(&rule, 3);
        assert_eq!(corrected(&rule, started, 3, 3), started);
        assert_eq!(corrected(&rule, started, 3, 1), 20_000);
        assert_eq!((corrected(&rule, started, 3, 0), corrected(&rule, 10_000, 3, 0)), (0, 0), "not below now");
        // Twenty are more than the burst: the next one waits until all but four of them are paid
        // for.
        let ahead = corrected(&rule, started, 3, 20);
        assert_eq!((ahead, wait(&rule, ahead, 1)), (400_000, 320_000));
        // A declared cost above the burst was charged as the burst.
        assert_eq!(corrected(&rule, charge(&rule, 9), 9, 6), 120_000);
        assert_eq!(corrected(&rule, started, 3, u32::MAX), 100_000 + LONGEST_DEBT_US);
        let year = LimitRule { rate: Some(rate("1/366days")), ..LimitRule::new() };
        assert_eq!(corrected(&year, charge(&year, 1), 1, u32::MAX), most(&year));
        assert_eq!(corrected(&LimitRule::new(), 7, 1, 9), 7);
    }
}
