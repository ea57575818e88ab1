//! Pauses: no job of a queue or a group is claimed, and no job of a task runs, until an operator
//! resumes it or the pause expires.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

use super::{Due, GROUP_RULES, LONGEST};
use crate::{
    address::{check_name, check_queue},
    error::{Error, Result},
    group::{GroupName, GroupRule},
    json,
    text::cut,
};

/// Longest reason of a pause, in bytes.
pub const PAUSE_REASON_MAX: usize = 1024;

/// The longest stored name of the operator who pauses, in bytes; a longer one is cut.
pub const PAUSED_BY_MAX: usize = 128;

/// Most tasks of a queue that are paused at once.
pub const PAUSED_TASKS: usize = 100;

/// The most expired pauses that one turn ends. The next turn ends the others.
pub const RESUMED_AT_ONCE: usize = 100;

/// The subject of a pause in a queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PauseOf {
    /// The queue: none of its jobs is claimed.
    Queue,
    /// A group: none of its jobs is claimed.
    Group(GroupName),
    /// A task, by the name that is stored with its jobs. A claim that finds such a job parks it.
    /// The job is resumed with the task.
    Task(Arc<str>),
}

impl PauseOf {
    /// For brokers: a letter, followed by the stored form of the name.
    pub fn stored(&self) -> Vec<u8> {
        match self {
            PauseOf::Queue => b"q".to_vec(),
            PauseOf::Group(group) => [b"g", &*group.stored()].concat(),
            PauseOf::Task(task) => [b"t", task.as_bytes()].concat(),
        }
    }

    /// For brokers: reads the form in storage.
    pub fn of_stored(stored: &[u8]) -> Option<Self> {
        match stored.split_first()? {
            (b'q', []) => Some(PauseOf::Queue),
            (b'g', name) => GroupName::of_stored(name).map(PauseOf::Group),
            (b't', name) => std::str::from_utf8(name).ok().filter(|name| !name.is_empty()).map(|name| PauseOf::Task(name.into())),
            _ => None,
        }
    }
}

impl fmt::Display for PauseOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PauseOf::Queue => f.write_str("queue"),
            PauseOf::Group(group) => write!(f, "group `{group}`"),
            PauseOf::Task(task) => write!(f, "task `{task}`"),
        }
    }
}

/// The options of a pause. Default: no reason and no end, so that the pause lasts until it is
/// resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pausing {
    /// When it expires, by the broker's clock. It must be in the future.
    pub until: Option<Due>,
    /// The reason: at most [`PAUSE_REASON_MAX`] bytes.
    pub reason: Option<Arc<str>>,
    /// The operator who pauses.
    pub by: Option<Arc<str>>,
}

impl Pausing {
    /// A pause without end, reason and name.
    pub fn new() -> Self {
        Pausing::default()
    }

    /// It ends at this time. The broker's clock counts.
    #[must_use]
    pub fn until(mut self, at: SystemTime) -> Self {
        let at_ms = at.duration_since(UNIX_EPOCH).map_or(0, |at| i64::try_from(at.as_millis()).unwrap_or(i64::MAX));
        self.until = Some(Due::AtMs(at_ms));
        self
    }

    /// The pause expires this time after the broker has stored it.
    #[must_use]
    pub fn lasting(mut self, time: Duration) -> Self {
        self.until = Some(Due::After(time));
        self
    }

    /// Why. An empty reason is not stored.
    #[must_use]
    pub fn because(mut self, reason: impl AsRef<str>) -> Self {
        self.reason = Some(reason.as_ref()).filter(|reason| !reason.is_empty()).map(Into::into);
        self
    }

    /// The operator who pauses. An empty name is not stored.
    #[must_use]
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.by = Some(cut(who.into(), PAUSED_BY_MAX)).filter(|who| !who.is_empty()).map(Into::into);
        self
    }

    /// For brokers: the pause of a group whose job has ended with
    /// [`Ending::RateLimited`](super::Ending::RateLimited).
    pub fn after_rate_limit() -> Self {
        Pausing::new().because("a service that a job of the group calls has had enough")
    }

    /// For brokers: the name and the reason in the form in which they are stored after the times.
    pub fn encoded(&self) -> String {
        serde_json::to_string(&(self.by.as_deref(), self.reason.as_deref())).unwrap_or_default()
    }

    fn check(&self) -> Result<()> {
        if let Some(reason) = self.reason.as_deref().filter(|reason| reason.len() > PAUSE_REASON_MAX) {
            let problem = format!("has {} bytes; use at most {PAUSE_REASON_MAX}", reason.len());
            return Err(Error::invalid("reason", cut(reason.to_owned(), 64), problem));
        }
        match self.until {
            Some(Due::Now) => Err(past("now")),
            Some(Due::After(time)) if time.is_zero() => Err(past("0s")),
            Some(Due::After(time)) if time > LONGEST => {
                let problem = "is more than a hundred years; leave it out for a pause without an end";
                Err(Error::invalid("until", humantime::format_duration(time).to_string(), problem))
            }
            _ => Ok(()),
        }
    }
}

fn past(until: &str) -> Error {
    Error::invalid("until", until, "is not in the future by the broker's clock; use a later time, or leave it out")
}

/// Pauses or resumes a subject. A subject that is paused already gets the new end and reason.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SetPause {
    /// The queue.
    pub queue: Arc<str>,
    /// The subject.
    pub of: PauseOf,
    /// The pause; `None` to resume.
    pub pause: Option<Pausing>,
}

impl SetPause {
    /// Pauses.
    pub fn pause(queue: impl Into<Arc<str>>, of: PauseOf, pausing: Pausing) -> Self {
        SetPause { queue: queue.into(), of, pause: Some(pausing) }
    }

    /// Ends the pause.
    pub fn resume(queue: impl Into<Arc<str>>, of: PauseOf) -> Self {
        SetPause { queue: queue.into(), of, pause: None }
    }

    /// Pauses a queue without options, or resumes it.
    pub fn of_queue(queue: impl Into<Arc<str>>, paused: bool) -> Self {
        SetPause { queue: queue.into(), of: PauseOf::Queue, pause: paused.then(Pausing::new) }
    }

    /// For brokers: whether it is one that can be taken.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a queue or a task outside the grammar, a reason that is too long, and
    /// an end that is not in the future.
    pub fn check(&self) -> Result<()> {
        check_queue(&self.queue)?;
        if let PauseOf::Task(task) = &self.of {
            check_name("task", task)?;
        }
        self.pause.as_ref().map_or(Ok(()), Pausing::check)
    }

    /// For brokers: the error if the queue has the largest number of group rules or paused tasks.
    pub fn too_many(&self) -> Error {
        if matches!(self.of, PauseOf::Task(_)) {
            let problem = format!("would be one more than the {PAUSED_TASKS} paused tasks of a queue; pause the queue");
            return Error::invalid("pause", self.of.to_string(), problem);
        }
        Error::invalid(
            "pause",
            self.of.to_string(),
            format!("would be one more than the {GROUP_RULES} rules of groups of a queue; remove others"),
        )
    }

    /// For brokers: the error where the end has passed by their clock.
    pub fn past(&self) -> Error {
        match self.pause.as_ref().and_then(|pausing| pausing.until) {
            Some(Due::AtMs(at_ms)) => match time(at_ms) {
                Some(at) => past(&humantime::format_rfc3339_seconds(at).to_string()),
                None => past(&at_ms.to_string()),
            },
            _ => past("now"),
        }
    }
}

/// A valid pause: the operator, the time, the reason and the end. A `None` field is unknown, or was
/// not given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pause {
    /// Since when, by the broker's clock.
    #[serde(serialize_with = "json::utc")]
    pub since: Option<SystemTime>,
    /// When it expires, by the broker's clock; `None`: it lasts until an operator resumes it.
    #[serde(serialize_with = "json::utc")]
    pub until: Option<SystemTime>,
    /// Why.
    pub reason: Option<String>,
    /// The operator who paused it, or last changed the reason and the end.
    pub by: Option<String>,
}

impl Pause {
    /// For brokers: the form in storage.
    pub fn stored(since_ms: i64, until_ms: Option<i64>, encoded: &str) -> String {
        format!("{since_ms}:{}:{encoded}", until_ms.map(|until| until.to_string()).unwrap_or_default())
    }

    /// For brokers: decodes the stored form. A text of another form is a reason.
    pub fn of_stored(stored: &str) -> Self {
        let mut parts = stored.splitn(3, ':');
        let parsed = (|| {
            let (since, until) = (parts.next()?.parse().ok()?, parts.next()?);
            let (by, reason): (Option<String>, Option<String>) = serde_json::from_str(parts.next()?).ok()?;
            Some(Pause { since: time(since), until: until.parse().ok().and_then(time), reason, by })
        })();
        parsed.unwrap_or_else(|| Pause { reason: Some(stored.to_owned()).filter(|reason| !reason.is_empty()), ..Pause::default() })
    }

    /// For brokers: the stored start of the pause; `None` also if the pause has ended by now.
    pub fn since_of_stored(stored: &str, now_ms: i64) -> Option<i64> {
        let (since, until, _) = Pause::end_of_stored(stored)?;
        until.is_none_or(|until| until > now_ms).then_some(since)
    }

    /// For brokers: the stored form of begin, end and options.
    pub fn end_of_stored(stored: &str) -> Option<(i64, Option<i64>, &str)> {
        let mut parts = stored.splitn(3, ':');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok(), parts.next()?))
    }

    /// For brokers: the pause of a group, which is stored after its rule.
    pub fn of_rule(stored: &str) -> Option<Self> {
        GroupRule::of_stored(stored).paused.then(|| Pause::of_stored(&GroupRule::reason_of_stored(stored).unwrap_or_default()))
    }

    /// Whether its end has passed by the broker's clock: the next claim finds that it has ended.
    pub fn is_over(&self, now: SystemTime) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// The same with a time in milliseconds since 1970.
    pub fn is_over_at(&self, now_ms: i64) -> bool {
        self.is_over(time(now_ms).unwrap_or(UNIX_EPOCH))
    }
}

/// The text that follows `paused`: the end, the operator, and the reason.
impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("paused")?;
        if let Some(until) = self.until.and_then(printed) {
            write!(f, " until {until}")?;
        }
        if let Some(by) = &self.by {
            write!(f, " by {by}")?;
        }
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

/// The last moment of the year 9999 is the last that can be printed.
fn printed(at: SystemTime) -> Option<String> {
    const LAST: Duration = Duration::from_millis(253_402_300_799_999);
    let since = at.duration_since(UNIX_EPOCH).ok().filter(|since| *since <= LAST)?;
    Some(humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string())
}

fn time(ms: i64) -> Option<SystemTime> {
    u64::try_from(ms).ok().and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)))
}

/// A pause of a queue, as a broker returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredPause {
    /// The subject.
    pub of: PauseOf,
    /// The operator, the time, the reason and the end.
    pub pause: Pause,
    /// For a task: the number of its parked jobs, including those that no worker knew.
    pub parked: u64,
}

impl StoredPause {
    /// A pause.
    pub fn new(of: PauseOf, pause: Pause) -> Self {
        StoredPause { of, pause, parked: 0 }
    }
}

/// The pauses of a queue and its tasks. Those of groups are part of their
/// [rules](super::StoredGroup::pause).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pauses {
    /// The broker's time, in milliseconds since 1970.
    pub now_ms: i64,
    /// The pauses, that of the queue first, then those of tasks by their names. An end may have
    /// passed: the next claim finds that.
    pub pauses: Vec<StoredPause>,
}

impl Pauses {
    /// The pauses at this time.
    pub fn new(now_ms: i64, pauses: Vec<StoredPause>) -> Self {
        Pauses { now_ms, pauses }
    }

    /// The pauses that have not expired by the broker's clock.
    pub fn unexpired(self) -> impl Iterator<Item = StoredPause> {
        self.pauses.into_iter().filter(move |stored| !stored.pause.is_over_at(self.now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_paused_is_read_as_it_is_stored() {
        for of in [PauseOf::Queue, PauseOf::Group(GroupName::new("a:ä\0").unwrap()), PauseOf::Task("send".into())] {
            assert_eq!(PauseOf::of_stored(&of.stored()), Some(of));
        }
        for strange in [&b""[..], b"qq", b"g", b"g\0\x01", b"x", b"t", b"t\xff"] {
            assert_eq!(PauseOf::of_stored(strange), None);
        }
    }

    #[test]
    fn a_pause_is_read_as_it_is_stored_and_what_is_none_is_a_reason() {
        let pausing = Pausing::new().because("a \"move\": p:\0ä").by("ada");
        let pause = Pause::of_stored(&Pause::stored(1_000, Some(61_000), &pausing.encoded()));
        let known = Pause { since: time(1_000), until: time(61_000), reason: Some("a \"move\": p:\0ä".into()), by: Some("ada".into()) };
        assert_eq!(pause, known);
        assert!(!pause.is_over(time(60_999).unwrap()) && pause.is_over(time(61_000).unwrap()));
        assert_eq!(Pause::of_stored(&Pause::stored(7, None, &Pausing::new().encoded())), Pause { since: time(7), ..Pause::default() });
        assert_eq!((Pause::of_stored(""), Pause::of_stored("since May").reason.as_deref()), (Pause::default(), Some("since May")));
        assert_eq!(Pause::of_stored("1:2").reason.as_deref(), Some("1:2"));
        assert_eq!(known.to_string(), "paused until 1970-01-01T00:01:01Z by ada: a \"move\": p:\0ä");
        let json = serde_json::to_string(&Pause { reason: None, ..known }).unwrap();
        assert_eq!(json, r#"{"since":"1970-01-01T00:00:01.000Z","until":"1970-01-01T00:01:01.000Z","reason":null,"by":"ada"}"#);
        assert_eq!(
            (Pause::default().to_string(), Pause::of_rule("3::::p7::[null,\"x\"]").unwrap().to_string()),
            ("paused".into(), "paused: x".into())
        );
        assert_eq!(Pause::of_rule("3::::"), None);
        let since = |stored: &str, now_ms| Pause::since_of_stored(stored, now_ms);
        assert_eq!([since("7:9:[]", 8), since("7:9:[]", 9), since("7::[]", 9), since("since May", 9)], [Some(7), None, Some(7), None]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_advice() {
        let refused = |pausing: Pausing| SetPause::pause("mail", PauseOf::Queue, pausing).check().unwrap_err().to_string();
        assert!(refused(Pausing::new().because("x".repeat(1025))).contains("has 1025 bytes; use at most 1024"));
        assert!(refused(Pausing::new().lasting(Duration::ZERO)).starts_with("until `0s` is not in the future"));
        assert!(refused(Pausing::new().lasting(2 * LONGEST)).contains("without an end"));
        assert!(SetPause::pause("mail", PauseOf::Queue, Pausing::new().because("x".repeat(1024))).check().is_ok());
        assert!(SetPause::of_queue("no name", false).check().is_err());
        let past = SetPause::pause("mail", PauseOf::Queue, Pausing::new().until(UNIX_EPOCH)).past().to_string();
        assert!(past.starts_with("until `1970-01-01T00:00:00Z` is not in the future"), "{past}");
    }
}
