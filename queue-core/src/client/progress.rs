//! The progress of a running job, as an application reads it.

use super::Handle;
use crate::{
    error::{Error, Result},
    inspector::{Follow, JobLog, Progress},
};

impl<T> Handle<T> {
    /// The progress of the job, as its handler has reported it with
    /// [`JobContext::progress`](crate::JobContext::progress). `None` if it has reported nothing, or
    /// the broker does not have the job. It is kept as long as the job is.
    ///
    /// # Errors
    /// Those of the broker.
    pub async fn progress(&self) -> Result<Option<Progress>> {
        self.client().inspector().progress(self.address()).await
    }

    /// The log of the job, and its progress.
    ///
    /// # Errors
    /// [`Error::NoSuchJob`]; those of the broker.
    pub async fn log(&self) -> Result<JobLog> {
        self.client().inspector().log(self.address(), 0).await
    }

    /// The progress of the job, as it changes. The broker wakes the watcher, about four times a
    /// second at most. Any number of watchers may watch one job, in any process.
    ///
    /// ```no_run
    /// # use queue_core::prelude::*;
    /// # async fn example<T>(handle: Handle<T>) -> queue_core::Result<()> {
    /// let mut changes = handle.watch_progress();
    /// while let Some(progress) = changes.next().await? {
    ///     println!("{:.0} % {}", 100.0 * progress.fraction.unwrap_or(0.0), progress.message);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn watch_progress(&self) -> ProgressWatch {
        ProgressWatch(self.client().inspector().follow_progress(self.address()))
    }
}

/// The progress of a job, as it changes. From [`Handle::watch_progress`].
#[derive(Debug)]
pub struct ProgressWatch(Follow);

impl ProgressWatch {
    /// Waits for the next change. The first call returns the present progress, if there is any. If
    /// changes follow each other quickly, only the last one may be returned. `None`: the job has
    /// ended and its last progress was returned, or the job is gone.
    ///
    /// # Errors
    /// Those of the broker, after which it may be called again.
    pub async fn next(&mut self) -> Result<Option<Progress>> {
        loop {
            return match self.0.next().await {
                Ok(Some(JobLog { progress: Some(progress), .. })) => Ok(Some(progress)),
                // Another program has written something that is not progress.
                Ok(Some(_)) => continue,
                Ok(None) | Err(Error::NoSuchJob(_)) => Ok(None),
                Err(error) => Err(error),
            };
        }
    }
}
