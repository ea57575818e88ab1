//! Filters of jobs: one grammar for the command line, the dashboard and programs.

use std::time::{Duration, SystemTime};

use self::transitions::is_of;
use super::{JobRecord, Reason};
use crate::{
    address::{JobAddress, JobId},
    broker::JobState,
};

/// Selects jobs: `task=send_mail state=dead error~timeout older=2d`.
///
/// A filter is a text of terms with spaces between them; a job matches if it matches every term. A
/// term is a field, an operator and a value. A value with a space or a double quote in it is put in
/// double quotes, in which `\"` is a double quote and `\\` a backslash: `error~"timed out"`,
/// `group="the \"A\" team"`. The empty filter matches all jobs.
///
/// | operator | the field's text |
/// |---|---|
/// | `=`, `!=` | is, or is not, the value |
/// | `~`, `!~` | contains, or does not contain, the value, ignoring case |
/// | `>`, `>=`, `<`, `<=` | is more or less: only for `attempts`, which has `=` and `!=` as well |
///
/// | field | what it is |
/// |---|---|
/// | `task`, `state`, `queue`, `priority` | the value of the record |
/// | `id` | its id; with `=` and `!=` also its address: `id=orders/close-17` |
/// | `error` | the messages of the failed attempts; in a list only the last one, and the first 512 bytes of it |
/// | `failure` | the [`Fingerprint`](crate::inspect::Fingerprint) of its last failure |
/// | `reason`, `note` | why it is dead; why it was cancelled |
/// | `payload` | the parameters as JSON |
/// | `host`, `release` | of the worker that runs it |
/// | `unique` | its unique key, as text or as 32 hexadecimal digits |
/// | `group` | its group |
/// | `waiting` | why it does not run: the [`Reason::name`](crate::inspect::Reason::name) of any of its reasons |
/// | `header.NAME` | the header of this name |
/// | `tag.NAME` | the value of its tag of this name; empty without one |
/// | `attempts` | how many of its attempts have failed |
/// | `older=2d`, `newer=1h` | it ended, or if it has not ended it was enqueued, more or less than this long ago |
///
/// ```
/// use queue_core::{JobState, inspect::Filter};
///
/// let filter: Filter = "task=send_mail state=dead error~timeout older=2d".parse()?;
/// assert_eq!(filter.states(), [JobState::Dead]);
///
/// let problem = "taks=send_mail".parse::<Filter>().unwrap_err().to_string();
/// assert!(problem.contains("did you mean `task`?"), "{problem}");
/// # Ok::<(), queue_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Text { field: Field, how: How, value: String },
    Attempts(Compares, u32),
    Older(Duration),
    Newer(Duration),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Task,
    State,
    Queue,
    Id,
    Priority,
    Error,
    Failure,
    Reason,
    Note,
    Payload,
    Host,
    Release,
    Unique,
    Group,
    Waiting,
    Header(String),
    Tag(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Is,
    IsNot,
    Contains,
    ContainsNot,
}

/// How a number compares with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compares {
    Is,
    IsNot,
    More,
    MoreOrIs,
    Less,
    LessOrIs,
}

/// Their signs. A sign comes before its own prefixes.
const COMPARES: [(&str, Compares); 6] = [
    (">=", Compares::MoreOrIs),
    ("<=", Compares::LessOrIs),
    ("!=", Compares::IsNot),
    (">", Compares::More),
    ("<", Compares::Less),
    ("=", Compares::Is),
];

/// Longest filter, in bytes.
const LONGEST: usize = 1024;

const FIELDS: [(&str, Field); 15] = [
    ("task", Field::Task),
    ("state", Field::State),
    ("queue", Field::Queue),
    ("id", Field::Id),
    ("priority", Field::Priority),
    ("error", Field::Error),
    ("failure", Field::Failure),
    ("reason", Field::Reason),
    ("note", Field::Note),
    ("payload", Field::Payload),
    ("host", Field::Host),
    ("release", Field::Release),
    ("unique", Field::Unique),
    ("group", Field::Group),
    ("waiting", Field::Waiting),
];

impl Filter {
    /// Whether a job is wanted. `now` is for `older` and `newer`.
    pub fn matches(&self, job: &JobRecord, now: SystemTime) -> bool {
        self.terms.iter().all(|term| term.matches(job, now))
    }

    /// Whether a job matches all terms except those about why it waits.
    pub(super) fn matches_without_reasons(&self, job: &JobRecord, now: SystemTime) -> bool {
        let needs_reasons = |term: &Term| matches!(term, Term::Text { field: Field::Waiting, .. });
        self.terms.iter().all(|term| needs_reasons(term) || term.matches(job, now))
    }

    /// True if it matches all jobs.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether it uses the reasons why jobs wait: the program that lists the jobs has to [add
    /// them](crate::inspect::Inspector::add_reasons) before it calls the filter.
    pub fn needs_reasons(&self) -> bool {
        self.of(&Field::Waiting).next().is_some()
    }

    /// The id that a matching job has, if the filter names one: only this job has to be examined.
    pub(super) fn id(&self) -> Option<JobId> {
        self.is_id().find_map(|value| value.parse().ok().or_else(|| Some(value.parse::<JobAddress>().ok()?.id)))
    }

    fn is_id(&self) -> impl Iterator<Item = &str> {
        self.of(&Field::Id).filter_map(|(how, value)| (how == How::Is).then_some(value))
    }

    /// A tag that every matching job has, by its name and its value: only jobs with this tag have
    /// to be examined.
    pub(super) fn tag(&self) -> Option<(&str, &str)> {
        self.terms.iter().find_map(|term| match term {
            Term::Text { field: Field::Tag(name), how: How::Is, value } if !value.is_empty() => Some((name.as_str(), value.as_str())),
            _ => None,
        })
    }

    /// Whether it reads data that may be secret: parameters, headers, and parts of unique keys. If
    /// these are hidden from a user, a filter would reveal them by trial.
    pub fn reads_secrets(&self) -> bool {
        self.terms.iter().any(|term| match term {
            Term::Text { field: Field::Payload | Field::Header(_), .. } => true,
            Term::Text { field: Field::Unique, how, .. } => !matches!(how, How::Is | How::IsNot),
            _ => false,
        })
    }

    /// The states that a matching job can have, and that have to be listed.
    pub fn states(&self) -> Vec<JobState> {
        JobState::ALL.into_iter().filter(|state| self.of(&Field::State).all(|(how, value)| how.holds(state.name(), value))).collect()
    }

    /// Whether a matching job can be in a queue of this name.
    pub fn allows_queue(&self, queue: &str) -> bool {
        let is_elsewhere = |value: &str| value.parse::<JobAddress>().is_ok_and(|address| *address.queue != *queue);
        self.of(&Field::Queue).all(|(how, value)| how.holds(queue, value)) && !self.is_id().any(is_elsewhere)
    }

    fn of<'a>(&'a self, wanted: &'a Field) -> impl Iterator<Item = (How, &'a str)> {
        self.terms.iter().filter_map(move |term| match term {
            Term::Text { field, how, value } if field == wanted => Some((*how, value.as_str())),
            _ => None,
        })
    }
}

impl Term {
    fn matches(&self, job: &JobRecord, now: SystemTime) -> bool {
        // A job without a time is neither older nor newer.
        let age = || job.ended_at.or(job.enqueued_at).map(|at| now.duration_since(at).unwrap_or_default());
        match self {
            Term::Older(than) => age().is_some_and(|age| age > *than),
            Term::Newer(than) => age().is_some_and(|age| age < *than),
            Term::Attempts(compares, number) => compares.holds(job.failures, *number),
            // A key has two names.
            Term::Text { field: Field::Unique, how: How::Is, value } if is_digest(job, value) => true,
            Term::Text { field: Field::Unique, how: How::IsNot, value } if is_digest(job, value) => false,
            Term::Text { field: Field::Waiting, how, value } => {
                let any = |how: How| job.waiting.iter().any(|reason| how.holds(reason.name(), value));
                match how {
                    How::Is | How::Contains => any(*how),
                    How::IsNot => !any(How::Is),
                    How::ContainsNot => !any(How::Contains),
                }
            }
            Term::Text { field: Field::Id, how: how @ (How::Is | How::IsNot), value } => {
                is_of(&job.address.queue, &job.address.id, value) == (*how == How::Is)
            }
            Term::Text { field, how, value } => how.holds(&field.text(job), value),
        }
    }
}

fn is_digest(job: &JobRecord, value: &str) -> bool {
    job.unique.is_some_and(|key| key.to_string() == value)
}

impl Field {
    fn text(&self, job: &JobRecord) -> String {
        let running = job.running.as_ref();
        match self {
            Field::Task => job.task.clone().unwrap_or_default(),
            Field::State => job.state.name().to_owned(),
            Field::Queue => job.address.queue.to_string(),
            Field::Id => job.address.id.to_string(),
            Field::Priority => job.priority.name().to_owned(),
            Field::Error => job.errors.iter().map(|error| error.message.as_str()).collect::<Vec<_>>().join("\n"),
            Field::Failure => job.failure().map_or_else(String::new, |print| print.to_string()),
            Field::Reason => job.reason.map_or_else(String::new, |reason| reason.name().to_owned()),
            Field::Note => job.note.clone().unwrap_or_default(),
            Field::Payload => job.payload_json().unwrap_or_default(),
            Field::Host => running.map_or_else(String::new, |running| running.host.clone()),
            Field::Release => running.map_or_else(String::new, |running| running.release.clone()),
            Field::Unique => job.unique_key.clone().unwrap_or_default(),
            Field::Group => job.group.as_ref().map_or_else(String::new, ToString::to_string),
            Field::Waiting => job.waiting.iter().map(Reason::name).collect::<Vec<_>>().join(" "),
            Field::Header(name) => job.headers.get(name).cloned().unwrap_or_default(),
            Field::Tag(name) => job.tags.get(name).cloned().unwrap_or_default(),
        }
    }
}

impl How {
    fn holds(self, text: &str, value: &str) -> bool {
        let contains = || text.to_lowercase().contains(&value.to_lowercase());
        match self {
            How::Is => text == value,
            How::IsNot => text != value,
            How::Contains => contains(),
            How::ContainsNot => !contains(),
        }
    }
}

impl Compares {
    fn holds(self, number: u32, with: u32) -> bool {
        match self {
            Compares::Is => number == with,
            Compares::IsNot => number != with,
            Compares::More => number > with,
            Compares::MoreOrIs => number >= with,
            Compares::Less => number < with,
            Compares::LessOrIs => number <= with,
        }
    }
}

mod problems;
mod text;
mod transitions;

#[cfg(test)]
mod tests;
