//! Resumes operations whose runner has stopped.
//!
//! Each step of an operation is a compare-and-set on its number. Several workers may therefore try
//! it at once: one succeeds, and no job is changed twice.

use std::time::Duration;

use queue_core::{
    Client,
    broker::DynBroker,
    inspect::{Inspector, Operation, OperationState, RunOperation},
};

use super::Pass;
use crate::{queues::Queues, tuning::OPERATIONS};

pub(crate) struct Operator {
    queues: Queues,
    inspector: Inspector,
}

/// The result of one round over all queues.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    /// Operations that have ended in this round.
    pub(crate) ended: usize,
    /// Jobs that these operations have changed.
    pub(crate) changed: u64,
}

impl Operator {
    pub(crate) fn new(broker: DynBroker, queues: Queues) -> Self {
        Operator { queues, inspector: Client::with_broker(broker).inspector() }
    }

    /// One step. Returns false if the operation has ended, if another worker runs it, or if it has
    /// to wait for the next round.
    async fn step(run: &mut RunOperation, before: &Operation, round: &mut Round) -> bool {
        let queue = &*before.queue;
        match run.step().await {
            Ok(true) => return true,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(queue, operation = before.id, %error, "a step of an operation failed, retrying in the next round");
                return false;
            }
        }
        let ended = run.operation();
        // Another worker runs the operation, or has made this step first.
        if ended.state != OperationState::Running && ended.step > before.step {
            round.ended += 1;
            round.changed += ended.changed - before.changed.min(ended.changed);
            let (id, kind, state, changed) = (&*ended.id, ended.kind.name(), ended.state.name(), ended.changed);
            tracing::info!(queue, operation = id, kind, state, changed, "resumed an operation whose runner had stopped");
        }
        false
    }
}

impl Pass for Operator {
    const NAME: &'static str = "operator";
    type Report = Round;

    /// The pause is random, so that workers that were started together do not search together.
    fn pause(&mut self) -> Duration {
        OPERATIONS.mul_f64(0.5 + fastrand::f64())
    }

    /// One round over all queues. The operations take turns, one step each, so that no operation
    /// waits for the end of another.
    async fn tick(&mut self) -> Round {
        let (mut round, mut runs) = (Round::default(), Vec::new());
        for queue in self.queues.iter().map(|queue| &*queue.name) {
            match self.inspector.operations(queue).await {
                Ok(operations) => runs.extend(operations.into_iter().filter(Operation::is_running)),
                Err(error) => tracing::debug!(queue, %error, "cannot list the operations, retrying in the next round"),
            }
        }
        let mut runs: Vec<_> = runs.into_iter().map(|operation| (self.inspector.run_operation(&operation), operation)).collect();
        while !runs.is_empty() {
            let mut left = Vec::new();
            for (mut run, before) in runs {
                if Operator::step(&mut run, &before, &mut round).await {
                    left.push((run, before));
                }
            }
            runs = left;
        }
        round
    }
}

#[cfg(test)]
mod tests {
    use queue_core::{
        RawJob,
        inspect::{NewOperation, OperationKind},
    };

    use super::*;
    use crate::queues::queues;

    #[tokio::test]
    async fn a_worker_goes_on_with_an_operation_that_no_one_runs() {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let inspector = client.inspector();
        for _ in 0..3 {
            client.enqueue_raw(RawJob::new("task", vec![0x80]).queue("left")).await.unwrap();
        }
        let mut operator = Operator::new(client.broker().clone(), queues(["left"]));
        assert_eq!(operator.tick().await, Round::default());
        let filter = "state=ready".parse().unwrap();
        let started = inspector.start_operation("left", &NewOperation::new(OperationKind::Cancel, filter)).await.unwrap();
        assert_eq!(operator.tick().await, Round::default(), "the one who has started it is there");
        inspector.stop_operation("left", &started.id).await.unwrap();
        inspector.start_operation("left", &NewOperation::all_of(OperationKind::Drain).detached()).await.unwrap();
        assert_eq!(operator.tick().await, Round { ended: 1, changed: 3 });
        let last = inspector.operations("left").await.unwrap();
        assert!(last.iter().any(|operation| operation.state == OperationState::Completed), "{last:?}");
        assert_eq!(operator.tick().await, Round::default());
    }
}
