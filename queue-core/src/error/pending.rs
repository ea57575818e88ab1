//! An enqueue whose fate is unknown, in [`Error::Unknown`]. `client/pending.rs` repeats it.

use std::{any::Any, fmt, marker::PhantomData, sync::Arc};

use super::Error;
use crate::id::JobAddress;

/// An enqueue without an answer: its jobs may or may not be stored.
///
/// [`Error::Unknown`] holds it without the type of its task; [`of`](Self::of) gives it the type.
///
/// ```no_run
/// # use queue_core::{prelude::*, Error};
/// # #[task] async fn close(order_id: u64) {}
/// # async fn example(queue: Client) -> queue_core::Result<()> {
/// let handle: Handle<close> = match close::job(17).enqueue(&queue).await {
///     // Later, when the broker is back: it is stored once, whether the first call had arrived or not.
///     Err(Error::Unknown(pending)) => pending.of::<close>().retry().await?,
///     other => other?,
/// };
/// println!("{} is stored; existed before: {}", handle.address(), handle.existing());
/// # Ok(()) }
/// ```
pub struct Pending<T = ()> {
    pub(crate) address: JobAddress,
    /// The address of its broker.
    pub(crate) broker: String,
    /// The error of the last try.
    pub(crate) cause: Error,
    /// The request in the client's form. Errors are in a lower layer than the client, and cannot
    /// name its types.
    pub(crate) request: Arc<dyn Any + Send + Sync>,
    pub(crate) task: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("address", &self.address).field("cause", &self.cause).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pending { broker, address: job, .. } = self;
        write!(
            f,
            "the broker at {broker} has not confirmed in time that job `{job}` is stored; call `retry()` of the pending call, which never stores a second job"
        )
    }
}

impl<T> std::error::Error for Pending<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}
