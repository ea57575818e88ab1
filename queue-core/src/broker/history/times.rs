//! A histogram of durations, of a fixed number of buckets.

use std::time::Duration;

use serde::{Serialize, Serializer, ser::SerializeStruct};

/// Durations below this, in microseconds, share the first bucket.
const FIRST: u64 = 1 << FIRST_POWER;
const FIRST_POWER: u32 = 7;

/// Durations from this on, in microseconds, share the last bucket: 38 hours.
const LAST: u64 = 1 << LAST_POWER;
const LAST_POWER: u32 = 37;

/// Each doubling is cut into four.
const CUTS: u32 = 4;

/// How many buckets there are.
pub const BUCKETS: usize = 2 + ((LAST_POWER - FIRST_POWER) * CUTS) as usize;

/// How long something took, often: how many durations, their sum, and how they are distributed.
///
/// The distribution has 122 buckets. Between 128 µs and 38 h each doubling is cut into four buckets
/// of the same width, so that a [`quantile`](Self::quantile) is wrong by at most 12.5 % of the true
/// value. Below 128 µs it is wrong by at most 64 µs. Only buckets with something in them are kept.
///
/// It is [`Serialize`](serde::Serialize): `count`, `mean_ms`, `p50_ms`, `p95_ms` and `p99_ms`, the
/// last four `null` if there is nothing.
///
/// ```
/// use std::time::Duration;
///
/// use queue_core::inspect::Times;
///
/// let mut times = Times::default();
/// for ms in 1..=100 {
///     times.add(Duration::from_millis(ms));
/// }
/// assert_eq!((times.count(), times.mean()), (100, Some(Duration::from_micros(50_500))));
/// let p95 = times.p95().unwrap();
/// assert!(p95 > Duration::from_millis(84) && p95 < Duration::from_millis(107), "{p95:?}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Each bucket that has any, and how many, in order.
    buckets: Vec<(u8, u64)>,
    sum_us: u64,
}

impl Times {
    /// Adds one.
    pub fn add(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.sum_us = self.sum_us.saturating_add(us);
        self.put(bucket_of(us), 1);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Times) {
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        for (bucket, count) in &other.buckets {
            self.put(*bucket, *count);
        }
    }

    fn put(&mut self, bucket: u8, count: u64) {
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(count),
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The sum of all.
    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.sum_us)
    }

    /// The mean, which is exact. `None` if there is nothing.
    pub fn mean(&self) -> Option<Duration> {
        self.sum_us.checked_div(self.count()).map(Duration::from_micros)
    }

    /// The duration that this part of all durations does not exceed: 0.5 for the median. `None` if
    /// there is nothing. It is the middle of its bucket.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a place in a distribution"
        )]
        let rank = ((part.clamp(0.0, 1.0) * self.count() as f64).ceil() as u64).max(1);
        let mut passed = 0;
        let (bucket, _) = self.buckets.iter().find(|(_, count)| {
            passed += count;
            passed >= rank
        })?;
        Some(Duration::from_micros(middle_of(*bucket)))
    }

    /// The median.
    pub fn p50(&self) -> Option<Duration> {
        self.quantile(0.5)
    }

    /// The time that 95 of 100 values do not exceed.
    pub fn p95(&self) -> Option<Duration> {
        self.quantile(0.95)
    }

    /// The time that 99 of 100 values do not exceed.
    pub fn p99(&self) -> Option<Duration> {
        self.quantile(0.99)
    }

    /// Makes it empty, and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.buckets.clear();
        self.sum_us = 0;
    }

    /// The sum in microseconds, then bucket and count of each bucket that has any.
    pub(super) fn flat(&self) -> Vec<u64> {
        let mut flat = vec![self.sum_us];
        flat.extend(self.buckets.iter().flat_map(|(bucket, count)| [u64::from(*bucket), *count]));
        flat
    }

    /// Decodes the output of [`flat`](Self::flat), in any order. An invalid bucket is skipped.
    pub(super) fn of_flat(flat: &[u64]) -> Self {
        let [sum_us, pairs @ ..] = flat else { return Times::default() };
        let mut times = Times { buckets: Vec::new(), sum_us: *sum_us };
        for pair in pairs.chunks_exact(2) {
            if let Some(bucket) = u8::try_from(pair[0]).ok().filter(|bucket| usize::from(*bucket) < BUCKETS && pair[1] > 0) {
                times.put(bucket, pair[1]);
            }
        }
        times
    }
}

fn bucket_of(us: u64) -> u8 {
    if us < FIRST {
        return 0;
    }
    if us >= LAST {
        return u8::try_from(BUCKETS - 1).expect("there are fewer than 256");
    }
    let power = us.ilog2();
    let cut = (us >> (power - CUTS.ilog2())) - u64::from(CUTS);
    u8::try_from(1 + u64::from((power - FIRST_POWER) * CUTS) + cut).expect("there are fewer than 256")
}

/// The least duration of a bucket, and its width, in microseconds.
fn bounds_of(bucket: u8) -> (u64, u64) {
    let Some(at) = u32::from(bucket).checked_sub(1) else { return (0, FIRST) };
    let (power, cut) = (FIRST_POWER + at / CUTS, u64::from(at % CUTS));
    if power >= LAST_POWER {
        return (LAST, 0);
    }
    let width = (1 << power) / u64::from(CUTS);
    ((1 << power) + cut * width, width)
}

fn middle_of(bucket: u8) -> u64 {
    let (least, width) = bounds_of(bucket);
    least + width / 2
}

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1000.0);
        let mut fields = serializer.serialize_struct("Times", 5)?;
        fields.serialize_field("count", &self.count())?;
        fields.serialize_field("mean_ms", &ms(self.mean()))?;
        fields.serialize_field("p50_ms", &ms(self.p50()))?;
        fields.serialize_field("p95_ms", &ms(self.p95()))?;
        fields.serialize_field("p99_ms", &ms(self.p99()))?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_a_bucket_whose_middle_is_near_it() {
        let powers = (0..63).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + (1 << power) / 3]);
        for us in powers.chain([0, 127, 128, 1_000, 999_999, LAST - 1, LAST, u64::MAX]) {
            let bucket = bucket_of(us);
            assert!(usize::from(bucket) < BUCKETS);
            let ((least, width), middle) = (bounds_of(bucket), middle_of(bucket));
            if us >= LAST {
                assert_eq!((least, width), (LAST, 0));
                continue;
            }
            assert!(least <= us && us < least + width, "{us} is in {bucket}: {least} and {width} more");
            let wrong = middle.abs_diff(us);
            assert!(wrong <= 64 || wrong * 8 <= us, "{us} is reported as {middle}");
        }
        // No gap between two, and none is without a duration.
        for bucket in 1..u8::try_from(BUCKETS).unwrap() {
            let (before, width) = bounds_of(bucket - 1);
            assert_eq!(bounds_of(bucket).0, before + width);
            assert_eq!(bucket_of(bounds_of(bucket).0), bucket);
        }
    }

    #[test]
    fn quantiles_are_those_of_the_durations_within_the_bound() {
        let mut sorted: Vec<u64> = (0..5_000).map(|n| 200 + n * n * 7 % 90_000_000).collect();
        let mut times = Times::default();
        sorted.iter().for_each(|us| times.add(Duration::from_micros(*us)));
        sorted.sort_unstable();
        for (part, at) in [(0.0, 0), (0.5, 2_499), (0.95, 4_749), (0.99, 4_949), (1.0, 4_999)] {
            let (measured, right) = (times.quantile(part).unwrap().as_micros(), u128::from(sorted[at]));
            assert!(measured.abs_diff(right) * 8 <= right, "{part}: {measured} instead of {right}");
        }
        assert_eq!((times.count(), Times::default().p50(), Times::default().mean()), (5_000, None, None));
    }

    #[test]
    fn what_is_merged_is_as_if_it_had_been_added() {
        let (mut one, mut other, mut both) = (Times::default(), Times::default(), Times::default());
        for ms in 1..500 {
            let time = Duration::from_millis(ms * ms);
            if ms % 3 == 0 {
                one.add(time)
            } else {
                other.add(time)
            }
            both.add(time);
        }
        one.merge(&other);
        assert_eq!(one, both);
        assert_eq!(Times::of_flat(&both.flat()), both);
        assert_eq!(Times::of_flat(&[5, 200, 1, 3, 0, 4]), Times { buckets: Vec::new(), sum_us: 5 }, "what is no bucket is skipped");
        both.clear();
        assert_eq!(both, Times::default());
    }
}
