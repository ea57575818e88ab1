//! The actual usage of the rates of a job's limits, as reported by the handler; buffered until the
//! result of the run is sent.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::JobContext;
use crate::{broker::Used, error::Result};

/// Made with the first word.
pub(super) type NowUsed = Mutex<Option<Box<Used>>>;

impl JobContext {
    /// Reports the actual cost of this run, in starts, to the rate limits of the job: tokens of a
    /// language model, bytes, calls.
    ///
    /// At the claim the job was charged its declared cost ([`cost`](crate::Job::cost), 1 by
    /// default). When the run ends, the broker charges the difference or refunds it; 0 refunds
    /// everything. This applies to every outcome. A cost above the burst is charged in full: no job
    /// with the same keys starts until it is paid for, at most for a day or ten periods of the
    /// rate.
    ///
    /// The last call counts, for this run only; the next claim is charged the declared cost again.
    /// A run whose lease is lost changes nothing. Limits without a rate ignore it, and so does a
    /// job without limits.
    ///
    /// ```
    /// use queue_core::prelude::*;
    ///
    /// # struct Answer { tokens: u32 }
    /// # async fn complete(_prompt: &str) -> Result<Answer, std::io::Error> { Ok(Answer { tokens: 731 }) }
    /// #[task(limit(name = "tokens", by = [account], rate = "60000/1m", burst = 4000))]
    /// async fn summarize(account: String, text: String, ctx: JobContext) -> Result<(), std::io::Error> {
    ///     let answer = complete(&text).await?;
    ///     ctx.set_cost(answer.tokens);
    ///     Ok(())
    /// }
    ///
    /// # async fn example() {
    /// let job = summarize::job("acct_17".to_owned(), "…".to_owned()).cost(500); // as far as is known before
    /// # let _ = job;
    /// let ctx = queue_core::TestContext::new().build();
    /// summarize("acct_17".to_owned(), "…".to_owned(), ctx.clone()).await.unwrap();
    /// assert_eq!(ctx.used().unwrap().all(), Some(731));
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example());
    /// ```
    pub fn set_cost(&self, actual: u32) {
        self.now_used().get_or_insert_default().set(actual);
    }

    /// Overrides [`set_cost`](Self::set_cost) for one limit, where the limits of a job count
    /// different things: one counts calls, another tokens. The name of a limit that does not apply
    /// to the job changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for an invalid name, and for more names than a job
    /// can have limits.
    pub fn set_cost_of(&self, limit: &str, actual: u32) -> Result<()> {
        // A rejected name changes nothing.
        let mut now = self.now_used();
        let mut used = now.as_deref().cloned().unwrap_or_default();
        used.set_of(limit, actual)?;
        *now = Some(Box::new(used));
        Ok(())
    }

    /// The cost that [`set_cost`](Self::set_cost) and [`set_cost_of`](Self::set_cost_of) have
    /// reported: for tests, and for middleware. `None`: none.
    pub fn used(&self) -> Option<Box<Used>> {
        self.now_used().clone()
    }

    fn now_used(&self) -> MutexGuard<'_, Option<Box<Used>>> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use crate::TestContext;

    #[test]
    fn the_last_word_counts_and_a_name_that_is_refused_leaves_nothing() {
        let context = TestContext::new().build();
        assert!(context.used().is_none() && context.set_cost_of("no name!", 3).is_err() && context.used().is_none());
        context.set_cost(5);
        context.clone().set_cost(7);
        context.set_cost_of("tokens", 9).unwrap();
        let used = context.used().unwrap();
        assert_eq!((used.all(), used.named().collect::<Vec<_>>()), (Some(7), vec![("tokens", 9)]));
    }
}
