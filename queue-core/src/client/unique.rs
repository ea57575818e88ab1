//! The unique key of a job: from the definition of its task, and from the setters of the job.

use std::time::Duration;

use super::prepare::at_most_longest;
use crate::{
    broker::{Due, Hold, OnConflict, Unique},
    draft::Options,
    error::{Error, Result},
    key::{self, UniqueDef},
};

/// The setters of a job about its key.
macro_rules! unique_setters {
    () => {
        /// Gives the job a unique key. While another job of its task holds the key in this queue,
        /// no second job is stored. [`Handle::stored`] reports which job was stored. Range: 1 to
        /// 256 bytes. Default: the key that `#[task(unique)]` derives from the parameters, else
        /// none.
        ///
        /// ```
        /// # use queue_core::prelude::*;
        /// use queue_core::Stored;
        ///
        /// #[task]
        /// async fn reindex(shop: u64) {}
        ///
        /// # async fn example() -> queue_core::Result<()> {
        /// # let queue = Client::connect("sqlite://:memory:").await?;
        /// let first = reindex::job(7).unique_key("shop-7").enqueue(&queue).await?;
        /// let second = reindex::job(7).unique_key("shop-7").enqueue(&queue).await?;
        /// assert_eq!((second.stored(), second.id()), (Stored::Existing, first.id()));
        /// # Ok(()) }
        /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
        /// ```
        pub fn unique_key(mut self, key: impl Into<String>) -> Self {
            self.options.unique().key = Some(key.into());
            self
        }

        /// How long the job holds its key; [`Hold::Within`] takes more than 0, to 100 years.
        /// Default: that of its task, else until the job has ended.
        pub fn hold(mut self, hold: Hold) -> Self {
            self.options.unique().hold = Some(hold);
            self
        }

        /// What happens to the job if another job holds its key. Default: that of its task, else
        /// [`OnConflict::Skip`].
        pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
            self.options.unique().on_conflict = Some(on_conflict);
            self
        }

        /// Starts the job this long after the last enqueue of its key, with the payload of that
        /// enqueue. While the job runs, a further enqueue waits until it has ended.
        /// [`max_wait`](Self::max_wait) bounds how long the job can be postponed. Range: 0 to 100
        /// years. Default: no debounce.
        pub fn debounce(mut self, delay: Duration) -> Self {
            self.options.unique().debounce = Some((delay, false));
            self
        }

        /// As [`debounce`](Self::debounce), with the payload of the first enqueue.
        pub fn debounce_first(mut self, delay: Duration) -> Self {
            self.options.unique().debounce = Some((delay, true));
            self
        }

        /// The longest time, from the first enqueue on, for which later enqueues [postpone the
        /// job](Self::debounce). Range: 0 to 100 years. Default: no bound.
        pub fn max_wait(mut self, longest: Duration) -> Self {
            self.options.unique().max_wait = Some(longest);
            self
        }
    };
}

pub(super) use unique_setters;

/// The key and its text, if the job has one. A debounced job gets its delay.
pub(super) fn of(task: &str, declared: Option<UniqueDef>, payload: &[u8], options: &mut Options) -> Result<Option<(Unique, String)>> {
    let own = match (options.unique.take(), declared) {
        (None, None) => return Ok(None),
        (own, _) => own.unwrap_or_default(),
    };
    let (key, text) = match (&own.key, declared) {
        (Some(key), _) => key::given(task, key)?,
        (None, Some(declared)) => key::of_payload(task, declared.by, payload)?,
        (None, None) => {
            let problem = "has no unique key: give the job one with `.unique_key(..)`, or make its task unique with `#[task(unique)]`";
            return Err(Error::invalid("job of task", task, problem));
        }
    };
    let declared = declared.unwrap_or_default();
    let mut unique = Unique::new(key).hold(own.hold.unwrap_or(declared.hold)).on_conflict(own.on_conflict.unwrap_or(declared.on_conflict));
    unique.keep_payload = declared.keep_payload;
    if let Some((delay, keep_payload)) = own.debounce {
        at_most_longest("debounce", Some(delay))?;
        if options.due != Due::Now {
            return Err(Error::invalid(
                "debounce",
                format!("{delay:?}"),
                "sets the delay of the job: leave out `.delay(..)` and `.at(..)`",
            ));
        }
        options.due = Due::After(delay);
        (unique.on_conflict, unique.keep_payload) = (OnConflict::Replace, keep_payload);
    }
    unique.max_wait = at_most_longest("max_wait", own.max_wait)?;
    if unique.max_wait.is_some() && unique.on_conflict != OnConflict::Replace {
        let problem = "bounds how long a job is postponed: it needs `.debounce(..)` or `on_conflict = \"replace\"`";
        return Err(Error::invalid("max_wait", format!("{:?}", unique.max_wait.unwrap_or_default()), problem));
    }
    if let Hold::Within(time) = unique.hold {
        at_most_longest("within", Some(time))?;
        if time == Duration::ZERO {
            return Err(Error::invalid("within", "0s", "must be greater than zero; leave it out to hold the key until the job has ended"));
        }
        if unique.on_conflict != OnConflict::Skip {
            let problem = "holds the key even after the job has ended, so a second job is always skipped: leave out the options that replace, buffer or debounce";
            return Err(Error::invalid("within", format!("{time:?}"), problem));
        }
    }
    Ok(Some((unique, text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(set: impl FnOnce(&mut Options)) -> (Result<Option<(Unique, String)>>, Options) {
        let mut options = Options::default();
        set(&mut options);
        (of("task", None, &[0x80], &mut options), options)
    }

    fn problem(set: impl FnOnce(&mut Options)) -> String {
        with(|options| {
            options.unique().key = Some("k".to_owned());
            set(options);
        })
        .0
        .unwrap_err()
        .to_string()
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_job_without_a_key_setting_has_no_key() {
        assert!(with(|_| {}).0.unwrap().is_none());
    }

    #[test]
    fn a_debounced_job_waits_and_replaces() {
        let (unique, options) = with(|options| {
            options.unique().key = Some("k".to_owned());
            options.unique().debounce = Some((MINUTE, true));
        });
        let (unique, text) = unique.unwrap().unwrap();
        assert_eq!((unique.on_conflict, unique.keep_payload, text.as_str()), (OnConflict::Replace, true, "k"));
        assert_eq!(options.due, Due::After(MINUTE));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        assert!(with(|options| options.unique().debounce = Some((MINUTE, false))).0.unwrap_err().to_string().contains(".unique_key(..)"));
        assert!(problem(|options| (options.due, options.unique().debounce) = (Due::AtMs(1), Some((MINUTE, false)))).contains("`.at(..)`"));
        assert!(problem(|options| options.unique().max_wait = Some(MINUTE)).starts_with("max_wait"));
        assert!(problem(|options| options.unique().hold = Some(Hold::Within(Duration::ZERO))).starts_with("within"));
        assert!(
            problem(|options| {
                options.unique().hold = Some(Hold::Within(MINUTE));
                options.unique().on_conflict = Some(OnConflict::BufferOne);
            })
            .contains("skipped")
        );
    }

    #[test]
    fn the_job_goes_before_its_task() {
        let declared = UniqueDef { hold: Hold::UntilStarted, on_conflict: OnConflict::Replace, ..UniqueDef::DEFAULT };
        let mut options = Options::default();
        let (of_task, _) = of("task", Some(declared), b"\x81\xa1a\x01", &mut options).unwrap().unwrap();
        assert_eq!((of_task.hold, of_task.on_conflict), (Hold::UntilStarted, OnConflict::Replace));
        options.unique().key = Some("k".to_owned());
        options.unique().on_conflict = Some(OnConflict::Skip);
        let (of_job, _) = of("task", Some(declared), b"\x81\xa1a\x01", &mut options).unwrap().unwrap();
        assert_eq!((of_job.hold, of_job.on_conflict), (Hold::UntilStarted, OnConflict::Skip));
        assert_ne!(of_job.key, of_task.key);
    }
}
