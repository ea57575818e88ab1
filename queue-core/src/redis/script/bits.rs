//! Feature bits: the rare features that a queue uses. `meta` stores them as letters. If a script
//! does not know one of a queue's bits, it changes nothing in the queue.

use std::fmt;

/// A rare feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum Bit {
    /// A job had an envelope of more than 2 KiB: claims check sizes.
    Large,
    /// `attempts` and `errors`.
    Failed,
    /// `records` and `ended`.
    Kept,
    /// `priority`, and the lists of priorities other than normal.
    Priority,
    /// `crashes` and `suspect`.
    Crashed,
    /// `snoozes`, `returned`.
    Snoozed,
    /// `tomb`: an id was cancelled or deleted while it was ready.
    Tombstones,
    /// `parked`.
    Parked,
    /// The queue is paused.
    Paused,
    /// `keyed`, `unique`, `held` and `within`: a job was enqueued with a unique key.
    Unique,
    /// `ticked`: a schedule waits for the end of its jobs.
    Scheduled,
    /// `watched`: a caller waits for the end of a job.
    Watched,
    /// `grouped`, `line`, `next`, `holders`: a job has a group.
    Grouped,
    /// `progress` and `logs`: a handler has reported progress or log lines.
    Progress,
    /// `chains`, `open`, `shut`, `tat`, `costs`: a job has limits.
    Limited,
    /// `rising`, `risen`: the queue has aging.
    Aging,
    /// `resumes`: a pause ends automatically, or a task is paused.
    Resumes,
    /// `tags`: a job has tags.
    Tagged,
    /// `transitions`: a watcher follows the queue.
    Followed,
}

impl Bit {
    pub(in crate::redis) const ALL: [Bit; 19] = [
        Bit::Large,
        Bit::Failed,
        Bit::Kept,
        Bit::Priority,
        Bit::Crashed,
        Bit::Snoozed,
        Bit::Tombstones,
        Bit::Parked,
        Bit::Paused,
        Bit::Unique,
        Bit::Scheduled,
        Bit::Watched,
        Bit::Grouped,
        Bit::Limited,
        Bit::Progress,
        Bit::Aging,
        Bit::Resumes,
        Bit::Tagged,
        Bit::Followed,
    ];

    /// The letter in `meta` and in scripts.
    pub(in crate::redis) fn letter(self) -> char {
        match self {
            Bit::Large => 'l',
            Bit::Failed => 'f',
            Bit::Kept => 'k',
            Bit::Priority => 'p',
            Bit::Crashed => 'c',
            Bit::Snoozed => 'z',
            Bit::Tombstones => 't',
            Bit::Parked => 'a',
            Bit::Paused => 'h',
            Bit::Unique => 'u',
            Bit::Scheduled => 's',
            Bit::Watched => 'w',
            Bit::Grouped => 'g',
            Bit::Progress => 'j',
            Bit::Limited => 'm',
            Bit::Aging => 'o',
            Bit::Resumes => 'e',
            Bit::Tagged => 'i',
            Bit::Followed => 'v',
        }
    }

    /// The name in messages.
    pub(in crate::redis) fn name(self) -> &'static str {
        match self {
            Bit::Large => "large",
            Bit::Failed => "failed",
            Bit::Kept => "kept",
            Bit::Priority => "priority",
            Bit::Crashed => "crashed",
            Bit::Snoozed => "snoozed",
            Bit::Tombstones => "tombstones",
            Bit::Parked => "parked",
            Bit::Paused => "paused",
            Bit::Unique => "unique",
            Bit::Scheduled => "schedules",
            Bit::Watched => "watched",
            Bit::Grouped => "grouped",
            Bit::Progress => "progress",
            Bit::Limited => "limited",
            Bit::Aging => "aging",
            Bit::Resumes => "pauses of tasks, or with an end",
            Bit::Tagged => "tags",
            Bit::Followed => "followed",
        }
    }

    pub(in crate::redis) fn of_letter(letter: &str) -> Option<Bit> {
        Bit::ALL.into_iter().find(|bit| letter.len() == 1 && letter.starts_with(bit.letter()))
    }
}

/// A set of feature bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::redis) struct Bits(u32);

impl Bits {
    pub(in crate::redis) const NONE: Bits = Bits(0);
    pub(in crate::redis) const ALL: Bits = Bits::of(&Bit::ALL);

    pub(in crate::redis) const fn of(bits: &[Bit]) -> Bits {
        let (mut set, mut at) = (0, 0);
        while at < bits.len() {
            set |= 1 << bits[at] as u32;
            at += 1;
        }
        Bits(set)
    }

    pub(in crate::redis) fn with(self, bit: Bit) -> Bits {
        Bits(self.0 | Bits::of(&[bit]).0)
    }

    pub(in crate::redis) fn and(self, other: Bits) -> Bits {
        Bits(self.0 | other.0)
    }

    pub(in crate::redis) fn has(self, bit: Bit) -> bool {
        self.covers(Bits::of(&[bit]))
    }

    pub(in crate::redis) fn covers(self, other: Bits) -> bool {
        self.0 & other.0 == other.0
    }

    /// Decodes the field of `meta`. An unknown character may mean any feature, so all bits are set.
    pub(in crate::redis) fn read(letters: &[u8]) -> Bits {
        letters.iter().fold(Bits::NONE, |bits, letter| match Bit::ALL.iter().find(|bit| bit.letter() == char::from(*letter)) {
            Some(bit) => bits.with(*bit),
            None => Bits::ALL,
        })
    }

    pub(in crate::redis) fn letters(self) -> String {
        Bit::ALL.into_iter().filter(|bit| self.has(*bit)).map(Bit::letter).collect()
    }
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.letters())
    }
}

/// The rare features with which the turns of a queue may still use `turn_plain.lua`.
pub(in crate::redis) const PLAIN_TURN: Bits = Bits::of(&[Bit::Large, Bit::Failed]);

/// The features with which the enqueues of a queue may still use `enqueue_plain.lua`: all but aging
/// and followed transitions. None of them changes how a ready job is stored.
pub(in crate::redis) const PLAIN_ENQUEUE: Bits = Bits(Bits::ALL.0 & !Bits::of(&[Bit::Aging, Bit::Followed]).0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_bit_means_all_of_them() {
        assert_eq!(Bits::read(b""), Bits::NONE);
        assert_eq!(Bits::read(b"fl"), Bits::of(&[Bit::Failed, Bit::Large]));
        for strange in [&b"fx"[..], b"1", b"\xff", b"F"] {
            assert_eq!(Bits::read(strange), Bits::ALL);
        }
        assert_eq!(Bits::read(Bits::ALL.letters().as_bytes()), Bits::ALL);
    }

    #[test]
    fn letters_and_names_are_unlike() {
        for (at, bit) in Bit::ALL.iter().enumerate() {
            assert_eq!(Bit::of_letter(&bit.letter().to_string()), Some(*bit));
            assert!(Bit::ALL[at + 1..].iter().all(|other| other.letter() != bit.letter() && other.name() != bit.name()));
        }
    }
}
