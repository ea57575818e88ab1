//! Changes of jobs by operators, as methods with their names.

use async_trait::async_trait;
use queue_core::{
    JobId, Result,
    broker::{Change, Changed, Inspect},
};

/// Short forms of [`Inspect::change`], for tests.
#[async_trait]
pub trait Changes: Inspect {
    /// [`Change::Cancel`].
    async fn cancel(&self, queue: &str, ids: &[JobId]) -> Result<Vec<Changed>> {
        self.change(queue, Change::Cancel, None, ids).await
    }

    /// [`Change::Requeue`].
    async fn requeue(&self, queue: &str, ids: &[JobId]) -> Result<Vec<bool>> {
        Ok(done(&self.change(queue, Change::Requeue, None, ids).await?))
    }

    /// [`Change::Promote`].
    async fn promote(&self, queue: &str, ids: &[JobId]) -> Result<Vec<bool>> {
        Ok(done(&self.change(queue, Change::Promote, None, ids).await?))
    }

    /// [`Change::Delete`].
    async fn delete(&self, queue: &str, ids: &[JobId]) -> Result<Vec<bool>> {
        Ok(done(&self.change(queue, Change::Delete, None, ids).await?))
    }
}

impl<B: Inspect + ?Sized> Changes for B {}

fn done(answers: &[Changed]) -> Vec<bool> {
    answers.iter().map(Changed::done).collect()
}
