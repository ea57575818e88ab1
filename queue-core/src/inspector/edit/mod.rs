//! Edits of waiting jobs. `plan` computes the edited job, `seen` is the version of a job that an
//! operator has read.

mod plan;
mod seen;

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use self::plan::{Plan, plan};
pub use self::seen::Seen;
use super::{Inspector, JobRecord};
use crate::{
    address::JobAddress,
    broker::{Diagnosis, EditJob, EditedJob, JobState, Priority, StoredJob},
    error::{Error, Result},
    task::TaskDef,
};

/// The changes of a waiting job, for [`Inspector::edit`]. Everything else is kept.
///
/// ```
/// use std::time::Duration;
/// use queue_core::{Priority, inspect::Edit};
///
/// let edit = Edit::new().priority(Priority::High).delay(Duration::from_secs(600)).payload_json(r#"{"order":18}"#);
/// # drop(edit);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "an edit is made by `inspector.edit(&job, &edit).await`"]
pub struct Edit {
    seen: Option<Seen>,
    task: Option<&'static TaskDef>,
    payload: Option<Parameters>,
    time: Option<Time>,
    priority: Option<Priority>,
    group: Option<Option<String>>,
    max_attempts: Option<Option<u32>>,
}

#[derive(Clone, Debug)]
enum Parameters {
    Encoded(Vec<u8>),
    Json(String),
}

#[derive(Clone, Copy, Debug)]
enum Time {
    Now,
    After(Duration),
    At(SystemTime),
}

impl Edit {
    /// An edit without changes. It is applied to the job in the state that [`Inspector::edit`]
    /// reads.
    pub fn new() -> Self {
        Edit::default()
    }

    /// An edit of a job as this record shows it. It is refused if the job has changed since.
    ///
    /// # Errors
    /// [`Error::Decode`] for a job that cannot be decoded.
    pub fn of(record: &JobRecord) -> Result<Self> {
        Ok(Edit::new().seen(record.seen()?))
    }

    /// An edit of a job as it was seen. It is refused if the job has changed since.
    pub fn seen(mut self, seen: Seen) -> Self {
        self.seen = Some(seen);
        self
    }

    /// The task of the job. New parameters are checked against it, and the unique key, the group,
    /// the limits and the tags that it declares are derived from them. Without it, new parameters
    /// are not checked. The group, the limits and the tags of the job are kept;
    /// [stale](Edited::stale_tags) tags are reported. A job whose unique key is derived from
    /// parameters is refused.
    pub fn task(mut self, task: &'static TaskDef) -> Self {
        self.task = Some(task);
        self
    }

    /// Sets the parameters: a MessagePack map by parameter name.
    pub fn payload(mut self, payload: Vec<u8>) -> Self {
        self.payload = Some(Parameters::Encoded(payload));
        self
    }

    /// Sets the parameters: a JSON object by parameter name, with all of them.
    pub fn payload_json(mut self, json: impl Into<String>) -> Self {
        self.payload = Some(Parameters::Json(json.into()));
        self
    }

    /// The job may start at this time, by the broker's clock; at once if the time is past.
    pub fn at(mut self, time: SystemTime) -> Self {
        self.time = Some(Time::At(time));
        self
    }

    /// The job may start after this delay from now, by the broker's clock.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.time = Some(if delay.is_zero() { Time::Now } else { Time::After(delay) });
        self
    }

    /// The job may start now.
    pub fn now(mut self) -> Self {
        self.time = Some(Time::Now);
        self
    }

    /// Sets the priority.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Puts the job into this group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(Some(group.into()));
        self
    }

    /// Removes the job from its group.
    pub fn no_group(mut self) -> Self {
        self.group = Some(None);
        self
    }

    /// The number of failures that buries the job, including those that it already has; 1: no
    /// retry.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(Some(attempts));
        self
    }

    /// Leaves the number of failures that buries the job to its task.
    pub fn default_max_attempts(mut self) -> Self {
        self.max_attempts = Some(None);
        self
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.payload.is_none() && self.time.is_none() && self.priority.is_none() && self.group.is_none() && self.max_attempts.is_none()
    }
}

/// The changes of an edit, or of its preview.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Edited {
    /// The job.
    pub job: JobAddress,
    /// The differences; empty if the job already had the wanted values.
    pub changes: Vec<EditChange>,
    /// The state of the job before: for [`Edit::seen`].
    pub seen: Seen,
    /// Tags that the job keeps although each has the value of a parameter that is another one now.
    /// Without its [task](Edit::task) an edit cannot determine whether the tag is derived from the
    /// parameter; with it, the tag is derived again.
    pub stale_tags: BTreeMap<String, String>,
}

/// One thing that an edit changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EditChange {
    /// `payload`, `time`, `priority`, `group`, `max_attempts`; `unique_key`, `limits` and `tags`,
    /// if they are derived from parameters.
    pub field: &'static str,
    /// The old value, for display.
    pub before: String,
    /// The new value, for display.
    pub after: String,
}

impl JobRecord {
    /// The editable state of the job in this record, for [`Edit::seen`].
    ///
    /// # Errors
    /// [`Error::Decode`] for a job that cannot be decoded.
    pub fn seen(&self) -> Result<Seen> {
        let at_ms =
            self.due_at.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()).and_then(|at| i64::try_from(at.as_millis()).ok());
        let seen = Seen::of_parts(self.stored(), self.priority, self.group.clone(), at_ms);
        let problem = || self.undecodable.clone().unwrap_or_else(|| "it is unreadable".to_owned());
        seen.ok_or_else(|| Error::Decode { what: format!("job `{}`", self.address), problem: problem() })
    }
}

impl Inspector {
    /// Edits a waiting job in one transition: either all changes apply, or none. Its unique key,
    /// its group and its limits are computed again. A ready job moves to the tail of its line if
    /// its priority, group or limits change, and otherwise keeps its place. A parked job with new
    /// parameters is ready again. A job that waits for a retry keeps its failures.
    ///
    /// Two operators do not overwrite each other: the job is changed only if it is as it was
    /// [seen](Edit::of). A job that already has the wanted values is not an error: nothing is
    /// [changed](Edited::changes).
    ///
    /// ```
    /// use queue_core::{inspect::Edit, prelude::*};
    ///
    /// #[task]
    /// async fn greet(name: String) {}
    ///
    /// # async fn example() -> queue_core::Result<()> {
    /// # let queue = Client::connect("sqlite://:memory:").await?;
    /// let handle = greet::job("Ada".to_owned()).delay(Duration::from_secs(3600)).enqueue(&queue).await?;
    /// let inspector = queue.inspector();
    ///
    /// let record = inspector.show(handle.address()).await?;
    /// let edit = Edit::of(&record)?.task(greet::definition()).payload_json(r#"{"name":"Grace"}"#).now();
    /// let edited = inspector.edit(handle.address(), &edit).await?;
    /// assert_eq!(edited.changes[0].after, r#"{"name":"Grace"}"#);
    ///
    /// // Another person still sees the job as it was.
    /// let late = Edit::of(&record)?.priority(Priority::Low);
    /// assert!(inspector.edit(handle.address(), &late).await.unwrap_err().to_string().contains("its parameters have changed"));
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchJob`]; [`Error::WrongState`] if it is active or has ended;
    /// [`Error::EditConflict`] if it has changed since it was seen, with the differences;
    /// [`Error::KeyHeld`] if another job holds its new key; [`Error::GroupFull`];
    /// [`Error::Invalid`] for an invalid value.
    pub async fn edit(&self, job: &JobAddress, edit: &Edit) -> Result<Edited> {
        let (plan, diagnosis, edited) = self.planned(job, edit).await?;
        if plan.changes.is_empty() {
            return Ok(edited);
        }
        let request = plan.request.clone();
        let ask = move |broker: crate::broker::DynBroker| {
            let request = request.clone();
            async move { broker.edit(&request).await }
        };
        match self.repeat(self.until(), ask).await? {
            EditedJob::Yes | EditedJob::AsWanted => Ok(edited),
            EditedJob::Missing => Err(Error::NoSuchJob(job.to_string())),
            EditedJob::Held(holder) => Err(Error::KeyHeld { job: job.clone(), verb: "edit", holder }),
            EditedJob::GroupFull => Err(Error::group_full(&job.queue, plan.request.group.as_ref().map(|group| group.as_str()))),
            EditedJob::Closed(_) | EditedJob::Differs => match self.stored(self.until(), job).await? {
                None => Err(Error::NoSuchJob(job.to_string())),
                // The answer was lost, and a worker was quick.
                Some(now) if is_as_wanted(&now, &plan.request) => Ok(edited),
                Some(now) if is_closed(now.state) => Err(closed(job, now.state)),
                Some(now) => Err(conflict(job, &edited.seen, &now, diagnosis.now_ms)),
            },
        }
    }

    /// The changes that an [edit](Self::edit) would make now. Nothing is changed.
    ///
    /// # Errors
    /// Those of [`edit`](Self::edit), except for a key that another job holds and a full group:
    /// only the edit itself checks these.
    pub async fn preview_edit(&self, job: &JobAddress, edit: &Edit) -> Result<Edited> {
        Ok(self.planned(job, edit).await?.2)
    }

    async fn planned(&self, job: &JobAddress, edit: &Edit) -> Result<(Plan, Diagnosis, Edited)> {
        if edit.is_empty() {
            return Err(Error::invalid(
                "edit",
                job.to_string(),
                "changes nothing: set parameters, a time, a priority, a group or attempts",
            ));
        }
        let asked = job.clone();
        let ask = move |broker: crate::broker::DynBroker| {
            let job = asked.clone();
            async move { broker.diagnose(&job.queue, std::slice::from_ref(&job.id)).await }
        };
        let diagnosis = self.ask(self.until(), ask).await?.into_iter().next().flatten();
        let diagnosis = diagnosis.ok_or_else(|| Error::NoSuchJob(job.to_string()))?;
        if is_closed(diagnosis.job.state) {
            return Err(closed(job, diagnosis.job.state));
        }
        let plan = plan(job, &diagnosis, edit)?;
        let problem = || Error::Decode { what: format!("job `{job}`"), problem: "it is unreadable".to_owned() };
        let seen = Seen::of(&diagnosis.job).ok_or_else(problem)?;
        let differs = |before: &&Seen| !plan.changes.is_empty() && !before.differs(&seen, diagnosis.now_ms).is_empty();
        if let Some(before) = edit.seen.as_ref().filter(differs) {
            return Err(conflict(job, before, &diagnosis.job, diagnosis.now_ms));
        }
        let edited = Edited { job: job.clone(), changes: plan.changes.clone(), seen, stale_tags: plan.stale_tags.clone() };
        Ok((plan, diagnosis, edited))
    }
}

fn is_closed(state: JobState) -> bool {
    state == JobState::Active || state.is_final()
}

fn closed(job: &JobAddress, state: JobState) -> Error {
    Error::WrongState { job: job.clone(), verb: "edit", state: state.name() }
}

/// Whether a job that no longer waits has the requested values. Its start time cannot be compared:
/// it has passed.
fn is_as_wanted(now: &StoredJob, request: &EditJob) -> bool {
    let wanted = (&request.envelope, request.priority, &request.group);
    let seen = (&request.seen.envelope, request.seen.priority, &request.seen.group);
    wanted != seen && (&now.envelope, now.priority, &now.group) == wanted
}

fn conflict(job: &JobAddress, seen: &Seen, now: &StoredJob, now_ms: i64) -> Error {
    let differs = Seen::of(now).map(|now| seen.differs(&now, now_ms)).filter(|differs| !differs.is_empty());
    let what = differs.map_or_else(|| "it was changed, or has run, meanwhile".to_owned(), |differs| differs.join(", "));
    Error::EditConflict { job: job.clone(), what }
}
