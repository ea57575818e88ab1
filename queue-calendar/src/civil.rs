//! The dates and times of day of an expression. There are no time zones here: every day has 24
//! hours.

use crate::field::Field;

/// The fields of an expression, as sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    pub(crate) seconds: u64,
    pub(crate) minutes: u64,
    pub(crate) hours: u64,
    pub(crate) day: Field,
    pub(crate) months: u64,
    pub(crate) weekday: Field,
    /// Whether second, minute or hour has a `*` or a step. The expression then runs by real time,
    /// even if the clock is put forward or back.
    pub(crate) interval: bool,
}

/// A date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    pub(crate) year: i32,
    pub(crate) month: u32,
    pub(crate) day: u32,
    pub(crate) hour: u32,
    pub(crate) minute: u32,
    pub(crate) second: u32,
}

/// The number of years in which a tick is searched for. A 29th of February on a given weekday
/// occurs within 40 years.
const YEARS: i32 = 100;

impl Fields {
    /// The fields second, minute, hour, day, month and weekday.
    pub(crate) fn of(fields: &[Field]) -> Self {
        Fields {
            seconds: fields[0].numbers,
            minutes: fields[1].numbers,
            hours: fields[2].numbers,
            day: fields[3].clone(),
            months: fields[4].numbers,
            weekday: fields[5].clone(),
            interval: fields[..3].iter().any(|field| field.interval),
        }
    }

    /// Whether no day of any year matches.
    pub(crate) fn never(&self) -> bool {
        // The calendar repeats itself after 400 years.
        !(2000..2400).any(|year| months(self.months).any(|month| self.days(year, month) != 0))
    }

    /// The next moment after this one, or this one itself if `itself` is set and it matches.
    pub(crate) fn next(&self, from: Moment, itself: bool) -> Option<Moment> {
        let from = if itself { Some(from) } else { from.plus_second() };
        let from = from?;
        for year in from.year..=from.year.saturating_add(YEARS) {
            for month in months(self.months) {
                if (year, month) < (from.year, from.month) {
                    continue;
                }
                for day in bits(self.days(year, month)) {
                    if (year, month, day) < (from.year, from.month, from.day) {
                        continue;
                    }
                    let same_day = (year, month, day) == (from.year, from.month, from.day);
                    let earliest = if same_day { (from.hour, from.minute, from.second) } else { (0, 0, 0) };
                    if let Some((hour, minute, second)) = self.time(earliest) {
                        return Some(Moment { year, month, day, hour, minute, second });
                    }
                }
            }
        }
        None
    }

    /// The first matching time of day at or after this one.
    fn time(&self, (hour, minute, second): (u32, u32, u32)) -> Option<(u32, u32, u32)> {
        for h in bits(self.hours).filter(|h| *h >= hour) {
            for m in bits(self.minutes).filter(|m| h > hour || *m >= minute) {
                let same = h == hour && m == minute;
                if let Some(s) = bits(self.seconds).find(|s| !same || *s >= second) {
                    return Some((h, m, s));
                }
            }
        }
        None
    }

    /// The matching days of a month, as bits.
    fn days(&self, year: i32, month: u32) -> u64 {
        let length = length_of(year, month);
        let all = (1u64 << (length + 1)) - 2;
        // Sunday is 0.
        let first = weekday_of(year, month, 1);
        let weekday = |day: u32| (first + day - 1) % 7;
        let mut by_day = self.day.numbers & all;
        if self.day.last {
            by_day |= 1 << length;
        }
        let is_workday = |day: u32| !matches!(weekday(day), 0 | 6);
        if self.day.last_workday {
            by_day |= (1..=length).rev().find(|day| is_workday(*day)).map_or(0, |day| 1 << day);
        }
        for day in bits(self.day.nearest).filter(|day| *day <= length) {
            // The nearest workday is in the same month.
            let nearest = match weekday(day) {
                6 if day > 1 => day - 1,
                6 => day + 2,
                0 if day < length => day + 1,
                0 => day - 2,
                _ => day,
            };
            by_day |= 1 << nearest;
        }
        let mut by_weekday = 0;
        for day in 1..=length {
            let (weekday, nth) = (weekday(day), (day - 1) / 7 + 1);
            let is_last = day + 7 > length;
            if self.weekday.numbers >> weekday & 1 == 1
                || self.weekday.nth[weekday as usize] >> nth & 1 == 1
                || is_last && self.weekday.last_of >> weekday & 1 == 1
            {
                by_weekday |= 1 << day;
            }
        }
        match (self.day.any, self.weekday.any) {
            (true, true) => all,
            (true, false) => by_weekday,
            (false, true) => by_day,
            // As in cron, one of the two is enough.
            (false, false) if self.weekday.both => by_day & by_weekday,
            (false, false) => by_day | by_weekday,
        }
    }
}

impl Moment {
    fn plus_second(self) -> Option<Moment> {
        let mut next = Moment { second: self.second + 1, ..self };
        if next.second == 60 {
            (next.minute, next.second) = (next.minute + 1, 0);
        }
        if next.minute == 60 {
            (next.hour, next.minute) = (next.hour + 1, 0);
        }
        if next.hour == 24 {
            (next.day, next.hour) = (next.day + 1, 0);
        }
        if next.day > length_of(next.year, next.month) {
            (next.month, next.day) = (next.month + 1, 1);
        }
        if next.month == 13 {
            (next.year, next.month) = (next.year.checked_add(1)?, 1);
        }
        Some(next)
    }
}

/// The numbers of a set.
pub(crate) fn bits(set: u64) -> impl Iterator<Item = u32> + Clone {
    let mut rest = set;
    std::iter::from_fn(move || {
        let next = rest.trailing_zeros();
        (rest != 0).then(|| {
            rest &= rest - 1;
            next
        })
    })
}

fn months(set: u64) -> impl Iterator<Item = u32> + Clone {
    bits(set & 0x1ffe)
}

fn length_of(year: i32, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Sunday is 0. By T. Sakamoto's table.
fn weekday_of(year: i32, month: u32, day: u32) -> u32 {
    const TABLE: [i32; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
    let year = if month < 3 { year - 1 } else { year };
    let days = year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = days + TABLE[month as usize - 1] + i32::try_from(day).unwrap_or_default();
    days.rem_euclid(7).unsigned_abs()
}
