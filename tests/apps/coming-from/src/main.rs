//! The jobs of `docs/coming-from.md` that are written for other frameworks: they compile.

mod river {
    use riverqueue::{
        BoxError, Client, InsertOpts, JobArgs,
        jiff::{SignedDuration, Timestamp},
    };
    use serde::{Deserialize, Serialize};

    pub async fn insert(client: Client) -> Result<(), BoxError> {
        #[derive(Clone, Deserialize, JobArgs, Serialize)]
        #[river(kind = "send_receipt")]
        struct SendReceipt {
            order_id: u64,
        }

        client
            .insert(SendReceipt { order_id: 17 })
            .opts(
                InsertOpts::default()
                    .with_queue("mail")
                    .with_max_attempts(5)
                    .with_scheduled_at(Timestamp::now() + SignedDuration::from_mins(10)),
            )
            .await?;
        Ok(())
    }
}

mod apalis {
    use std::time::Duration;

    use apalis::prelude::*;

    pub struct SendReceipt {
        order_id: u64,
    }

    async fn send_receipt(receipt: SendReceipt) -> Result<(), BoxDynError> {
        println!("receipt of order {}", receipt.order_id);
        Ok(())
    }

    pub async fn push_and_work(mut storage: MemoryStorage<SendReceipt>) -> Result<(), BoxDynError> {
        let task = TaskBuilder::new(SendReceipt { order_id: 17 }).run_after(Duration::from_secs(600)).max_attempts(5).build();
        storage.push_task(task).await?;

        WorkerBuilder::new("mail").backend(storage).build(send_receipt).run().await?;
        Ok(())
    }
}

fn main() {
    let _ = (river::insert, apalis::push_and_work);
}
