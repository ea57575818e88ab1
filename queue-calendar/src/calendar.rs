//! The instants of an expression in a time zone.
//!
//! - A *fixed* time has no `*` and no step in second, minute and hour. If it falls into the gap
//!   when the clock is put forward, it ticks at the end of the gap. If it occurs twice when the
//!   clock is put back, it ticks once, the first time.
//! - Any other time runs by real time. A time in the gap does not exist, and a time that occurs
//!   twice ticks twice.

use std::time::Duration;

use jiff::{Timestamp, civil::DateTime, tz::AmbiguousOffset, tz::TimeZone};

use crate::{
    civil::{Fields, Moment},
    syntax::{Expression, SyntaxError},
};

/// An expression in a time zone.
#[derive(Clone, Debug)]
pub struct Calendar {
    expression: Expression,
    zone: TimeZone,
}

/// The maximum number of clock changes that a search examines. Some zones have four in a year, and
/// a search covers at most a century.
const REGIMES: usize = 500;

impl Calendar {
    /// An expression in the zone with this IANA name.
    ///
    /// # Errors
    /// The problem of the zone: it is unknown, or this machine has no time zones.
    pub fn new(expression: Expression, zone: &str) -> Result<Calendar, SyntaxError> {
        let all = || 0..zone.len();
        let known = if zone == "UTC" { Ok(TimeZone::UTC) } else { TimeZone::get(zone) };
        let zone = known.map_err(|_| {
            let missing = TimeZone::get("Europe/London").is_err();
            let problem = if missing {
                format!(
                    "the time zone `{zone}` is not found, because this machine has no time zones: install `tzdata`, or add the feature \
                     `bundled-zones` to queue-core"
                )
            } else {
                let advice = named_alike(zone).unwrap_or_else(|| "write an IANA name such as `Europe/Berlin` or `UTC`".to_owned());
                format!("`{zone}` is not a time zone; {advice}")
            };
            SyntaxError::new(all(), problem)
        })?;
        Ok(Calendar { expression, zone })
    }

    /// The first tick after this time. `None` if there is none within a hundred years.
    pub fn next(&self, after_ms: i64) -> Option<i64> {
        match &self.expression {
            Expression::Every(interval) => {
                let interval = i64::try_from(interval.as_millis()).ok().filter(|interval| *interval > 0)?;
                after_ms.div_euclid(interval).checked_add(1)?.checked_mul(interval)
            }
            Expression::Cron(fields) if fields.interval => self.next_real(fields, after_ms),
            Expression::Cron(fields) => self.next_fixed(fields, after_ms),
        }
    }

    /// The last tick after `after_ms`, up to and including `until_ms`. `None` if there is none.
    pub fn last(&self, after_ms: i64, until_ms: i64) -> Option<i64> {
        let ticks = |from: i64| self.next(from).is_some_and(|tick| tick <= until_ms);
        if !ticks(after_ms) {
            return None;
        }
        // `next` grows with its argument. The last argument with a tick until then is right before
        // that tick.
        let (mut with, mut without) = (after_ms, until_ms);
        while without - with > 1 {
            let middle = with + (without - with) / 2;
            if ticks(middle) { with = middle } else { without = middle }
        }
        self.next(with)
    }

    fn next_fixed(&self, fields: &Fields, after_ms: i64) -> Option<i64> {
        let mut moment = moment(self.zone.to_datetime(timestamp(after_ms)?));
        loop {
            moment = fields.next(moment, false)?;
            let tick = self.instant(moment)?;
            if tick > after_ms {
                return Some(tick);
            }
        }
    }

    /// The instant of a fixed time.
    fn instant(&self, moment: Moment) -> Option<i64> {
        let local = datetime(moment)?;
        let instant = match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok()?,
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok()?,
            AmbiguousOffset::Gap { before, .. } => {
                let behind = before.to_timestamp(local).ok()?.checked_add(Duration::from_nanos(1)).ok()?;
                self.zone.preceding(behind).next()?.timestamp()
            }
        };
        Some(instant.as_millisecond())
    }

    /// Between two changes of the clock, local times and instants differ by a constant.
    fn next_real(&self, fields: &Fields, after_ms: i64) -> Option<i64> {
        let (mut from, mut itself) = (timestamp(after_ms)?, false);
        for _ in 0..REGIMES {
            let offset = self.zone.to_offset(from);
            let end = self.zone.following(from).next().map(|change| change.timestamp());
            let found = fields.next(moment(offset.to_datetime(from)), itself)?;
            let tick = offset.to_timestamp(datetime(found)?).ok()?;
            match end {
                Some(end) if tick >= end => (from, itself) = (end, true),
                _ => return Some(tick.as_millisecond()),
            }
        }
        None
    }
}

fn timestamp(ms: i64) -> Option<Timestamp> {
    // A tick is in whole seconds, so fractions of a second are dropped.
    Timestamp::from_second(ms.div_euclid(1000)).ok()
}

fn moment(local: DateTime) -> Moment {
    let part = |value: i8| u32::from(value.unsigned_abs());
    Moment {
        year: i32::from(local.year()),
        month: part(local.month()),
        day: part(local.day()),
        hour: part(local.hour()),
        minute: part(local.minute()),
        second: part(local.second()),
    }
}

fn datetime(moment: Moment) -> Option<DateTime> {
    let part = |value: u32| i8::try_from(value).ok();
    let (month, day, hour) = (part(moment.month)?, part(moment.day)?, part(moment.hour)?);
    DateTime::new(i16::try_from(moment.year).ok()?, month, day, hour, part(moment.minute)?, part(moment.second)?, 0).ok()
}

/// The delay of a tick, below `most`. It is always the same for the same name and tick.
pub fn jitter(name: &str, tick_ms: i64, most: Duration) -> i64 {
    let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    if most == 0 {
        return 0;
    }
    // FNV-1a, and the last steps of splitmix64, so that similar values give different results.
    let bytes = name.bytes().chain(tick_ms.to_be_bytes());
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    i64::try_from((hash ^ (hash >> 31)) % most).unwrap_or(0)
}

/// The time zone with this place in its name, if the region is missing.
fn named_alike(place: &str) -> Option<String> {
    let known =
        jiff::tz::db().available().find(|known| known.as_str().rsplit_once('/').is_some_and(|(_, name)| name.eq_ignore_ascii_case(place)));
    known.map(|known| format!("did you mean `{known}`?"))
}
