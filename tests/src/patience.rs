//! The [waits](queue_conformance::patience) of all tests, and two short forms of them.

pub use queue_conformance::patience::{
    Late, Lines, STRETCH, Verdict, Wait, WatchBroker, exit, finished, joined, output, patience, wait, watch,
};

/// Checks repeatedly until the answer is true. On a timeout, it examines the brokers that its
/// thread [watches](watch).
///
/// # Panics
/// With the verdict, if it times out.
#[track_caller]
pub fn until<F: Future<Output = bool>>(what: &str, holds: impl FnMut() -> F) -> impl Future<Output = ()> {
    wait(what).until(holds)
}

/// Checks repeatedly until there is an answer, and blocks the thread. On a timeout, it examines the
/// brokers that its thread [watches](watch).
///
/// # Panics
/// With the verdict, if it times out.
#[track_caller]
pub fn wait_for<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    wait(what).block_some(ask)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use queue_conformance::conformance::{Lane, Producer, ack, envelope, finish};
    use queue_core::{
        __private::{RedisBroker, SqliteBroker},
        broker::{Counter, DynBroker},
    };

    use super::*;
    use crate::server::{self, Kind};

    fn sqlite() -> DynBroker {
        SqliteBroker::open("sqlite::memory:").unwrap()
    }

    async fn redis() -> DynBroker {
        let url = format!("{}?namespace=patience-{:016x}", server::shared(Kind::Redis), fastrand::u64(..));
        RedisBroker::connect(&url).await.unwrap()
    }

    /// One lane holds all jobs of a queue.
    async fn running(broker: &DynBroker, jobs: usize) -> (Lane, Vec<queue_core::broker::Delivery>) {
        let new = |n: usize| queue_core::broker::NewJob::new(queue_core::JobId::make(), envelope(&n.to_string()));
        Producer::on(broker, "slow").await.stored((0..jobs).map(new).collect()).await;
        let mut lane = Lane::on(broker, "slow").await;
        let deliveries = lane.claim(jobs).await;
        assert_eq!(deliveries.len(), jobs);
        (lane, deliveries)
    }

    fn soon<'a>(what: &str) -> Wait<'a> {
        wait(what).within(Duration::from_millis(50))
    }

    async fn a_queue_in_which_nothing_happens_is_stuck(broker: DynBroker) {
        let (mut lane, deliveries) = running(&broker, 2).await;
        let empty = async || broker.stats("slow").await.unwrap().jobs() == 0;
        let late = soon("the queue to be empty").on(&broker).try_some(async || empty().await.then_some(())).await.unwrap_err();
        let said = late.to_string();
        assert_eq!(late.verdict, Verdict::Stuck, "{said}");
        assert_eq!(said.lines().next(), Some("verdict: STUCK: the queue to be empty"));
        let job = format!("job {} active, receipt ", deliveries[0].id);
        assert!(said.contains(&job) && said.contains("it runs") && said.contains("enqueued 2"), "{said}");
        // A heartbeat does not count as progress. If a queue is named, other queues do not count
        // either.
        let beating = async {
            let mut other = Producer::on(&broker, "other").await;
            loop {
                assert!(broker.extend(&[lane.heartbeat(Duration::from_secs(600))]).await.iter().all(Result::is_ok));
                other.stored(vec![queue_core::broker::NewJob::new(queue_core::JobId::make(), envelope("other"))]).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let late = soon("a heartbeat").on_queue(&broker, "slow").try_end_of(beating).await;
        let late: Late = match late {
            Ok(()) => unreachable!("it sends heartbeats forever"),
            Err(late) => late,
        };
        assert_eq!(late.verdict, Verdict::Stuck, "{late}");
        lane.ack(&deliveries).await;
    }

    async fn a_queue_in_which_jobs_end_is_slow(broker: DynBroker) {
        let (mut lane, deliveries) = running(&broker, 100).await;
        let acks = async {
            for delivery in deliveries {
                let turn = lane.next().finish(vec![finish(&delivery, ack())]);
                lane.send(&turn).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let late = soon("the last ack").on(&broker).try_end_of(acks).await.unwrap_err();
        let said = late.to_string();
        assert_eq!(late.verdict, Verdict::Slow, "{said}");
        let second = said.split_once("2s later:").expect("there is a second look").1;
        assert!(second.contains("\n- queue slow: ") && second.contains(&format!("{} ", Counter::Done)), "{said}");
        // A wait without a name examines the brokers that its thread watches, even on a thread with
        // a runtime.
        watch(&broker);
        let late = soon("nothing").try_block_some(|| None::<()>).unwrap_err();
        assert!(late.verdict == Verdict::Stuck && late.to_string().contains("queue slow: "), "{late}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_sqlite() {
        a_queue_in_which_nothing_happens_is_stuck(sqlite()).await;
        a_queue_in_which_jobs_end_is_slow(sqlite()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_redis() {
        a_queue_in_which_nothing_happens_is_stuck(redis().await).await;
        a_queue_in_which_jobs_end_is_slow(redis().await).await;
    }

    #[tokio::test]
    async fn a_broker_that_does_not_answer_leaves_the_judgment_to_the_text() {
        let broker: DynBroker = RedisBroker::connect(&format!("redis://127.0.0.1:{}", queue_conformance::port::free_port())).await.unwrap();
        let mut looks = 0;
        let text = move || {
            looks += 1;
            format!("look {looks}")
        };
        let late = soon("a page").on(&broker).seeing(text).try_some(async || None::<()>).await.unwrap_err();
        let said = late.to_string();
        assert!(late.verdict == Verdict::Slow && said.contains("does not answer") && said.contains("+ look 2"), "{said}");
    }
}
