//! The stored form of progress and logs, which all brokers share: `docs/storage.md` describes it.
//!
//! A progress is `CLAIM:SEQ:AT:` and a MessagePack array. A log is `CLAIM:NEXT:FIRST:MISSED:COUNT:`
//! and its lines. Each line is two bytes of length, high byte first, and `AT:LEVEL:ATTEMPT:TEXT`.
//! Data of another program is read as no progress, or as an empty log.

#[cfg(feature = "sqlite")]
use super::{JobProgress, LOG_BYTES, LOG_LINES};
use super::{LogLevel, ProgressNow, StoredLine, StoredProgress};
use crate::codec;

/// The log of a job.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The last delivery that has logged a line, and the number of its next line.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "on Redis a script compares it"))]
    claim: u64,
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "on Redis a script appends"))]
    expected: u64,
    /// The number of the oldest line since the job was enqueued, and the number of lines that never
    /// arrived.
    first: u64,
    missed: u64,
    lines: std::collections::VecDeque<Vec<u8>>,
}

impl Log {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        Log::parsed(bytes).unwrap_or_default()
    }

    fn parsed(bytes: &[u8]) -> Option<Self> {
        let (numbers, mut rest) = numbers::<5>(bytes)?;
        let [claim, expected, first, missed, count] = numbers;
        let mut lines = std::collections::VecDeque::new();
        while let [high, low, behind @ ..] = rest {
            let (line, behind) = behind.split_at_checked(usize::from(*high) << 8 | usize::from(*low))?;
            lines.push_back(line.to_vec());
            rest = behind;
        }
        (rest.is_empty() && lines.len() as u64 == count).then_some(Log { claim, expected, first, missed, lines })
    }

    /// The number of dropped lines: the oldest ones, and those that never arrived.
    pub(crate) fn dropped(&self) -> u64 {
        self.first.saturating_add(self.missed)
    }

    /// The number after that of the last line.
    pub(crate) fn next(&self) -> u64 {
        self.first.saturating_add(self.lines.len() as u64)
    }

    /// The lines from this number on. An invalid line is left out.
    pub(crate) fn lines_from(&self, from: u64) -> Vec<StoredLine> {
        let skip = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.lines.iter().skip(skip).filter_map(|line| line_of(line)).collect()
    }

    /// Adds the lines of a delivery that it does not have yet.
    #[cfg(feature = "sqlite")]
    pub(crate) fn append(&mut self, reported: &JobProgress, now_ms: i64) {
        if self.claim != reported.claim {
            (self.claim, self.expected) = (reported.claim, 0);
        }
        self.missed += reported.first.saturating_sub(self.expected);
        let known = usize::try_from(self.expected.saturating_sub(reported.first)).unwrap_or(usize::MAX);
        for line in reported.lines.iter().skip(known) {
            let at = stored_at(now_ms, line.age);
            let mut text = format!("{at}:{}:{}:", line.level.number(), reported.attempt).into_bytes();
            text.extend_from_slice(line.text.as_bytes());
            text.truncate(usize::from(u16::MAX));
            self.lines.push_back(text);
        }
        self.expected = self.expected.max(reported.first.saturating_add(reported.lines.len() as u64));
        let mut bytes: usize = self.lines.iter().map(|line| line.len() + 2).sum();
        while self.lines.len() > LOG_LINES || bytes > LOG_BYTES {
            let Some(line) = self.lines.pop_front() else { break };
            bytes -= line.len() + 2;
            self.first += 1;
        }
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn written(&self) -> Vec<u8> {
        let Log { claim, expected, first, missed, lines } = self;
        let mut bytes = format!("{claim}:{expected}:{first}:{missed}:{}:", lines.len()).into_bytes();
        for line in lines {
            bytes.extend(u16::try_from(line.len()).unwrap_or(u16::MAX).to_be_bytes());
            bytes.extend_from_slice(line);
        }
        bytes
    }
}

fn line_of(line: &[u8]) -> Option<StoredLine> {
    let ([at, level, attempt], text) = numbers::<3>(line)?;
    Some(StoredLine {
        at_ms: i64::try_from(at).ok()?,
        attempt: u32::try_from(attempt).ok()?,
        level: LogLevel::from_number(u8::try_from(level).ok()?)?,
        text: String::from_utf8_lossy(text).into_owned(),
    })
}

/// Decodes `N` numbers, each followed by a `:`. Returns them with the rest.
fn numbers<const N: usize>(mut bytes: &[u8]) -> Option<([u64; N], &[u8])> {
    let mut found = [0; N];
    for number in &mut found {
        let end = bytes.iter().position(|byte| *byte == b':')?;
        *number = std::str::from_utf8(&bytes[..end]).ok()?.parse().ok()?;
        bytes = &bytes[end + 1..];
    }
    Some((found, bytes))
}

/// The time of a report, by the broker's clock.
#[cfg(feature = "sqlite")]
pub(crate) fn stored_at(now_ms: i64, age: std::time::Duration) -> i64 {
    now_ms.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)).max(0)
}

/// The part of a stored progress after its numbers.
pub(crate) fn progress_stored(attempt: u32, now: &ProgressNow) -> Vec<u8> {
    codec::pack(&(attempt, now.fraction, &now.message, &now.value)).unwrap_or_default()
}

/// The delivery, the number and the value of a stored progress.
pub(crate) fn progress_of(bytes: &[u8]) -> Option<((u64, u64), StoredProgress)> {
    let ([claim, seq, at], packed) = numbers::<3>(bytes)?;
    let (attempt, fraction, message, value): (u32, Option<f64>, String, Option<Vec<u8>>) = codec::unpack(packed).ok()?;
    let fraction = fraction.filter(|fraction| (0.0..=1.0).contains(fraction));
    Some(((claim, seq), StoredProgress { at_ms: i64::try_from(at).ok()?, attempt, fraction, message, value }))
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;
    use crate::{JobId, broker::LineNow};

    fn reported(claim: u64, first: u64, lines: &[&str]) -> JobProgress {
        let mut reported = JobProgress::new(JobId::make(), claim, 1);
        reported.first = first;
        reported.lines = lines.iter().map(|text| LineNow::new(LogLevel::Info, *text)).collect();
        reported
    }

    fn texts(log: &Log, from: u64) -> Vec<String> {
        log.lines_from(from).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn a_log_is_read_as_it_was_written_and_lines_that_come_twice_are_one() {
        let mut log = Log::default();
        log.append(&reported(7, 0, &["a", "b: ü"]), 1000);
        let mut log = Log::read(&log.written());
        log.append(&reported(7, 1, &["b: ü", "c"]), 1001);
        // Two were dropped in transit; the next delivery starts at 0.
        log.append(&reported(7, 5, &["f"]), 1002);
        log.append(&reported(9, 0, &["g"]), 1003);
        let log = Log::read(&log.written());
        assert_eq!(texts(&log, 0), ["a", "b: ü", "c", "f", "g"]);
        assert_eq!((texts(&log, 3), log.next(), log.dropped()), (vec!["f".to_owned(), "g".to_owned()], 5, 2));
        assert_eq!(log.lines_from(0)[4].at_ms, 1003);
    }

    #[test]
    fn what_is_no_log_is_an_empty_one_and_what_is_no_progress_is_none() {
        let whole = {
            let mut log = Log::default();
            log.append(&reported(7, 0, &["abc"]), 1000);
            log.written()
        };
        for strange in [&b""[..], b"7:", b"1:2:3:4:9:", b"a:b:c:d:e:", &whole[..whole.len() - 1], &[&whole[..], b"x"].concat()] {
            let log = Log::read(strange);
            assert_eq!((log.next(), log.dropped(), log.lines_from(0)), (0, 0, Vec::new()), "{strange:?}");
        }
        let now = ProgressNow::new(3, Some(0.5), "half", Some(vec![1, 2]));
        let stored = [&b"7:3:1000:"[..], &progress_stored(2, &now)].concat();
        assert_eq!(progress_of(&stored), Some(((7, 3), StoredProgress::new(1000, 2, &now))));
        for strange in [&b""[..], b"7:3:", b"7:3:1000:", b"7:3:1000:\xc0", &stored[1..]] {
            assert_eq!(progress_of(strange), None, "{strange:?}");
        }
    }
}
