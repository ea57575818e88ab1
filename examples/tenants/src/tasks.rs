//! The task and its data.

use std::sync::Arc;

use queue_core::prelude::*;

use crate::{
    board::Board,
    geocoder::{Answer, Geocoder},
};

/// The queue.
pub(crate) const QUEUE: &str = "imports";

/// Finds the position of an address.
///
/// Tenants are served in rotation, however many jobs each has enqueued. A tenant makes at most
/// twenty calls per second, and at most four jobs of all tenants run at once. If the service
/// answers that a tenant is over the limit of its plan, that tenant waits, and the job does not
/// use up an attempt.
#[task(
    queue = "imports",
    group = tenant,
    limit(name = "geocoder", by = [tenant], rate = "20/1s", burst = 5),
    limit(name = "connections", concurrency = 4)
)]
pub(crate) async fn geocode(tenant: String, row: u32, geocoder: Data<Arc<Geocoder>>, board: Data<Arc<Board>>) -> Outcome {
    let _ = row;
    match geocoder.call(&tenant).await {
        Answer::Found => {
            board.done(&tenant);
            Outcome::Done
        }
        Answer::TooMany(after) => {
            board.refused(&tenant);
            Outcome::RateLimited(after)
        }
    }
}

/// Enqueues the rows of an import.
pub(crate) async fn import(client: &Client, tenant: &str, rows: u32) -> queue_core::Result<()> {
    let jobs = (0..rows).map(|row| geocode::job(tenant.to_owned(), row));
    Ok(client.enqueue_all(jobs).await.map(drop)?)
}

#[cfg(test)]
mod tests {
    use queue_testing::{TestQueue, assert_enqueued};

    use super::*;

    #[tokio::test]
    async fn a_tenant_waits_for_its_own_rate_and_for_no_other_tenant() {
        let queue = TestQueue::new().data(Arc::new(Geocoder::default())).data(Arc::new(Board::new()));
        import(queue.client(), "acme", 10).await.unwrap();
        import(queue.client(), "globex", 2).await.unwrap();
        assert_enqueued!(queue, geocode { tenant: "acme", row: 9 }, group = "acme", count = 1);

        assert_eq!(queue.drain().await.all_done(), 5 + 2);
        assert_enqueued!(queue, geocode { tenant: "acme", .. }, count = 5);
        queue.advance("50ms");
        assert_eq!(queue.drain().await.all_done(), 1);
        assert_eq!(queue.drain_for("200ms").await.all_done(), 4);
    }
}
