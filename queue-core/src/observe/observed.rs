//! The wrapper around a broker that times every call.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use tokio::time::Instant;

use super::{CallOutcome, Observe};
use crate::{
    broker::{Broker, DynBroker, Extend, Extended, Wrapper},
    error::{Error, Result},
    outcome::drop_catching_panics,
};

/// A broker that reports its calls to an observer.
pub(crate) struct Observed {
    inner: DynBroker,
    observer: Box<dyn Observe>,
}

impl Observed {
    pub(crate) fn new(inner: DynBroker, observer: impl Observe) -> Self {
        Observed { inner, observer: Box::new(observer) }
    }

    async fn timed<A: Answer>(&self, verb: &'static str, call: impl Future<Output = A> + Send) -> A {
        let mut running = Running { observer: &*self.observer, verb, begun: Instant::now(), outcome: CallOutcome::Cancelled };
        #[cfg(feature = "otel")]
        let call = tracing::Instrument::instrument(call, super::otel::call(verb));
        let answer = call.await;
        running.outcome = answer.error().map_or(CallOutcome::Ok, |error| CallOutcome::Failed(error.kind()));
        answer
    }
}

/// A call that has begun. It reports to the observer when it is dropped, even if its caller did not
/// wait for the answer.
struct Running<'a> {
    observer: &'a dyn Observe,
    verb: &'static str,
    begun: Instant,
    outcome: CallOutcome,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let elapsed = self.begun.elapsed();
        // The answer is worth more than its figure. The application's panic hook has printed the
        // message of the panic.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.observer.call(self.verb, self.outcome, elapsed))) {
            drop_catching_panics(panic);
        }
    }
}

/// The answer of a verb.
trait Answer {
    /// The first error in it.
    fn error(&self) -> Option<&Error>;
}

impl<T> Answer for Result<T> {
    fn error(&self) -> Option<&Error> {
        self.as_ref().err()
    }
}

impl<T> Answer for Vec<Result<T>> {
    fn error(&self) -> Option<&Error> {
        self.iter().find_map(Answer::error)
    }
}

impl Wrapper for Observed {
    fn inner(&self) -> &dyn Broker {
        &*self.inner
    }

    async fn around<T: Send>(&self, verb: &'static str, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        self.timed(verb, call).await
    }

    async fn extend(&self, lanes: &[Extend]) -> Vec<Result<Extended>> {
        self.timed("extend", self.inner.extend(lanes)).await
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observed").field(&self.inner).finish()
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{observe::Calls, sqlite::SqliteBroker};

    #[tokio::test(start_paused = true)]
    async fn a_call_takes_from_its_first_step_to_its_answer() {
        let calls = Arc::new(Calls::default());
        let observed = Observed::new(SqliteBroker::open("sqlite::memory:").unwrap(), calls.clone());
        for seconds in [2, 0, 1] {
            let call = observed.timed("turn", async {
                tokio::time::advance(Duration::from_secs(seconds)).await;
                Ok(())
            });
            // The call was not polled yet.
            tokio::time::advance(Duration::from_secs(10)).await;
            call.await.unwrap();
        }
        let turns = &calls.snapshot()["turn"];
        assert_eq!((turns.calls, turns.total, turns.max), (3, Duration::from_secs(3), Duration::from_secs(2)));
    }
}
