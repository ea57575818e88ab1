//! Limits: how many jobs that share something run at once over all workers, and how many start in a
//! time.

pub mod gcra;
mod key;
mod used;

use std::{fmt, str::FromStr, time::Duration};

use serde::Serialize;

pub use self::{
    key::{JobLimits, LimitKey},
    used::Used,
};
use crate::error::{Error, Result};

/// Most limits that one job is subject to.
pub const LIMITS_OF_A_JOB: usize = 8;

/// The largest cost of a job, and the largest burst.
pub const COST_MAX: u32 = 1_000_000;

/// The longest period of a rate: a year.
const LONGEST_PERIOD: Duration = Duration::from_secs(366 * 24 * 3600);

/// The shortest time from one start to the next that a rate may ask for: so that whole microseconds
/// are exact to one in a hundred.
const LEAST_STEP_US: u64 = 100;

/// A number of starts in a period, such as `100/1m`: 1 to 10,000 per second, as whole starts, over
/// at most a year.
///
/// ```
/// use queue_core::inspect::Rate;
///
/// let rate: Rate = "100/1m".parse()?;
/// assert_eq!((rate.count(), rate.period().as_secs()), (100, 60));
/// # Ok::<(), queue_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    count: u32,
    period_us: u64,
}

impl Rate {
    /// `count` starts in this period.
    ///
    /// # Errors
    /// [`Error::Invalid`] for none, for more than 10,000 per second, and for a period over a year.
    pub fn new(count: u32, period: Duration) -> Result<Self> {
        let rate = Rate { count, period_us: u64::try_from(period.as_micros()).unwrap_or(u64::MAX) };
        let refused = |problem: &str| Err(Error::invalid("rate", rate.to_string(), problem));
        if count == 0 {
            return refused("would start nothing; to close a limit, set its concurrency to 0");
        }
        if period.is_zero() {
            return refused("has no period; write for example `100/1m`");
        }
        if period > LONGEST_PERIOD {
            return refused("has a period over a year; write a shorter one");
        }
        if rate.period_us / u64::from(count) < LEAST_STEP_US {
            return refused("is more than 10000 per second; use a lower rate, or leave it out");
        }
        Ok(rate)
    }

    /// For the macros, which have checked it.
    #[doc(hidden)]
    pub const fn checked(count: u32, period_us: u64) -> Self {
        Rate { count, period_us }
    }

    /// How many starts there are in a period.
    pub fn count(self) -> u32 {
        self.count
    }

    /// The period.
    pub fn period(self) -> Duration {
        Duration::from_micros(self.period_us)
    }

    /// For brokers: the period in microseconds.
    pub fn period_us(self) -> u64 {
        self.period_us
    }

    /// For brokers: the time that one start takes, in microseconds.
    #[allow(clippy::cast_precision_loss, reason = "a year in microseconds is below 2^53")]
    pub fn step(self) -> f64 {
        self.period_us as f64 / f64::from(self.count)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, humantime::format_duration(self.period()).to_string().replace(' ', ""))
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Rate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unreadable = || Error::invalid("rate", text, "is not a rate; write starts and a period: `100/1m`, `5/1s`, `1/24h`");
        let (count, period) = text.split_once('/').ok_or_else(unreadable)?;
        let count: u32 = count.trim().parse().map_err(|_| unreadable())?;
        let period = period.trim();
        // `5/s` is `5/1s`.
        let period = if period.starts_with(|c: char| c.is_ascii_digit()) { period.to_owned() } else { format!("1{period}") };
        Rate::new(count, humantime::parse_duration(&period).map_err(|_| unreadable())?)
    }
}

/// The rule of a limit. A field of `None` does not limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LimitRule {
    /// Most jobs that run at once, by their leases; 0 closes the limit.
    pub concurrency: Option<u32>,
    /// How many jobs start in a period.
    pub rate: Option<Rate>,
    /// The number of jobs that may start at once after an idle time. Default: 1, so that starts are
    /// spread evenly.
    pub burst: Option<u32>,
}

impl LimitRule {
    /// A rule that allows everything.
    pub const fn new() -> Self {
        LimitRule { concurrency: None, rate: None, burst: None }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        *self == LimitRule::new()
    }

    /// The effective rule if this one is set and that one is declared.
    #[must_use]
    pub fn over(self, declared: LimitRule) -> LimitRule {
        LimitRule {
            concurrency: self.concurrency.or(declared.concurrency),
            rate: self.rate.or(declared.rate),
            burst: self.burst.or(declared.burst),
        }
    }

    /// The number of starts that may come at once.
    pub fn burst(&self) -> u32 {
        self.burst.unwrap_or(1).max(1)
    }

    /// Whether it is valid.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming field, value, and the way out.
    pub fn check(&self) -> Result<()> {
        let burst = |value: u32, problem: &str| Err(Error::invalid("burst", value.to_string(), problem));
        match (self.burst, self.rate) {
            (Some(0), _) => burst(0, "would let nothing start; use 1, which spreads starts evenly, or more"),
            (Some(value), _) if value > COST_MAX => burst(value, "is more than 1000000; use a smaller burst, or no rate"),
            (Some(value), None) => burst(value, "needs a rate; add `rate`, or leave `burst` out"),
            _ => Ok(()),
        }
    }

    /// For brokers: concurrency, starts, period in microseconds and burst, with colons between;
    /// missing fields are empty.
    pub fn stored(&self) -> String {
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let (count, period) = (self.rate.map(|rate| u64::from(rate.count)), self.rate.map(|rate| rate.period_us));
        let [concurrency, burst] = [self.concurrency, self.burst].map(|value| number(value.map(u64::from)));
        format!("{concurrency}:{}:{}:{burst}", number(count), number(period))
    }

    /// For brokers: reads the form in storage. An unreadable form is read as empty.
    pub fn of_stored(stored: &str) -> Self {
        let mut parts = stored.split(':');
        let mut part = || parts.next().unwrap_or_default();
        let concurrency = part().parse().ok();
        let (count, period): (Option<u32>, Option<u64>) = (part().parse().ok(), part().parse().ok());
        let rate = count.zip(period).and_then(|(count, period)| Rate::new(count, Duration::from_micros(period)).ok());
        LimitRule { concurrency, rate, burst: part().parse().ok().filter(|burst| (1..=COST_MAX).contains(burst)) }
    }
}

impl fmt::Display for LimitRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let concurrency = self.concurrency.map(|concurrency| format!("concurrency {concurrency}"));
        let rate = self.rate.map(|rate| format!("rate {rate}, burst {}", self.burst()));
        let parts: Vec<String> = [concurrency, rate].into_iter().flatten().collect();
        f.write_str(if parts.is_empty() { "nothing" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

/// A limit that a task declares with `#[task(limit(..))]`. Written by the macros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitDef {
    /// Its name in the queue. Tasks that name it share it. Default: that of the task.
    pub name: &'static str,
    /// The parameters, or fields of parameters, from which its keys are derived. None: one for the
    /// whole queue.
    pub by: &'static [&'static str],
    /// Whether each group has its own key.
    pub by_group: bool,
    /// The rule of the limit.
    pub rule: LimitRule,
}

impl LimitDef {
    /// One for the whole queue, which allows everything.
    pub const fn new(name: &'static str) -> Self {
        LimitDef { name, by: &[], by_group: false, rule: LimitRule::new() }
    }

    /// For the macros, which have checked it.
    #[doc(hidden)]
    pub const fn made(
        name: &'static str,
        by: &'static [&'static str],
        by_group: bool,
        concurrency: Option<u32>,
        rate: Option<Rate>,
        burst: Option<u32>,
    ) -> Self {
        LimitDef { name, by, by_group, rule: LimitRule { concurrency, rate, burst } }
    }
}

crate::address::serde_as_text!(Rate);

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn a_rate_is_read_as_it_is_printed() {
        for text in ["100/1m", "5/1s", "1/24h", "3/90s", "7/500ms"] {
            assert_eq!(rate(&rate(text).to_string()), rate(text));
        }
        assert_eq!((rate("5/s"), rate(" 5 / 1s ")), (rate("5/1s"), rate("5/1s")));
        for (text, problem) in [
            ("0/1s", "would start nothing"),
            ("5/0s", "has no period"),
            ("5", "is not a rate"),
            ("-1/1s", "is not a rate"),
            ("1e9/1s", "is not a rate"),
            ("20000/1s", "more than 10000 per second"),
            ("1/400days", "over a year"),
        ] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn a_rule_is_read_as_it_is_stored() {
        let whole = LimitRule { concurrency: Some(0), rate: Some(rate("100/1m")), burst: Some(20) };
        assert_eq!(LimitRule::of_stored(&whole.stored()), whole);
        assert_eq!(whole.stored(), "0:100:60000000:20");
        let less = LimitRule { concurrency: Some(3), ..LimitRule::new() };
        assert_eq!((less.stored().as_str(), LimitRule::of_stored(&less.stored())), ("3:::", less));
        assert!(LimitRule::of_stored("").is_empty() && LimitRule::of_stored("x:0:1:0").is_empty());
        assert_eq!(less.over(whole), LimitRule { concurrency: Some(3), ..whole });
    }

    #[test]
    fn what_cannot_be_is_refused_with_advice() {
        let problem = |rule: LimitRule| rule.check().unwrap_err().to_string();
        let rule = LimitRule { rate: Some(rate("1/1s")), ..LimitRule::new() };
        assert!(problem(LimitRule { burst: Some(0), ..rule }).starts_with("burst `0` would let nothing start"));
        assert!(problem(LimitRule { burst: Some(1_000_001), ..rule }).contains("smaller"));
        assert!(problem(LimitRule { burst: Some(2), ..LimitRule::new() }).contains("add `rate`"));
        assert!(LimitRule { concurrency: Some(0), burst: Some(20), ..rule }.check().is_ok());
    }

    #[test]
    fn a_chain_has_its_keys_sorted_and_each_once() {
        let (one, two) = (LimitKey::of("a", b"1"), LimitKey::of("a", b"2"));
        let limits = JobLimits::new(vec![two, one, two], 0).unwrap();
        assert_eq!((limits.keys().len(), limits.cost, limits.chain()[0]), (2, 1, 32));
        assert_eq!(JobLimits::keys_of(&limits.chain()), limits.keys());
        assert!(one.is_of("a") && !one.is_of("b") && JobLimits::new(vec![], 1).is_none());
        assert_ne!(LimitKey::of("a", b""), one);
    }
}
