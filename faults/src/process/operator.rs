//! A process that takes the steps of an operation, as a command line does that a person has told to
//! go on with it.

use std::time::Duration;

use queue_core::{
    Error as QueueError,
    inspect::{Inspector, Operation},
};

use super::{Error, OperatorOrders, connect};
use crate::work::QUEUE;

/// Between two tries of what the broker could not do.
const AGAIN: Duration = Duration::from_millis(50);

pub(super) async fn run(orders: OperatorOrders) -> Result<(), Error> {
    let client = connect(&orders.common.url).await?;
    take_steps(&client.inspector(), &orders.operation, Duration::from_millis(orders.pause_ms)).await?;
    Ok(())
}

/// Takes an operation over at once, and takes its steps to the end, with a pause between two of
/// them. What the broker cannot do is tried again. A runner that is taken over ends.
///
/// # Errors
/// Those that do not pass.
pub async fn take_steps(inspector: &Inspector, id: &str, pause: Duration) -> Result<Operation, QueueError> {
    let operation = loop {
        match inspector.operation(QUEUE, id).await {
            Err(error) if error.is_transient() => tokio::time::sleep(AGAIN).await,
            answer => break answer?,
        }
    };
    let mut run = inspector.run_operation(&operation).at_once();
    loop {
        match run.step().await {
            Ok(true) => tokio::time::sleep(pause).await,
            Ok(false) => return Ok(run.operation().clone()),
            Err(error) if error.is_transient() => tokio::time::sleep(AGAIN).await,
            Err(error) => return Err(error),
        }
    }
}
