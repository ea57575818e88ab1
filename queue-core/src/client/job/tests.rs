use std::collections::BTreeMap;

use std::time::UNIX_EPOCH;

use super::*;

fn problem(job: RawJob) -> String {
    job.prepare(&EnqueueStack::default()).unwrap_err().to_string()
}

fn job() -> RawJob {
    RawJob::new("task", vec![0x80])
}

#[test]
fn a_value_out_of_range_is_refused_by_name() {
    assert!(problem(job().delay(Duration::MAX)).starts_with("delay "));
    assert!(problem(job().timeout(Duration::ZERO)).starts_with("timeout "));
    assert!(problem(job().retention(Duration::MAX)).starts_with("retention "));
    assert!(problem(job().max_attempts(0)).starts_with("max_attempts "));
    assert!(problem(job().queue("a b")).starts_with("queue `a b` "));
    assert!(problem(job().id("")).starts_with("job id "));
    assert!(problem(job().at(UNIX_EPOCH + LONGEST * 3)).starts_with("at "));
    assert!(problem(job().unique_key("")).starts_with("unique_key "));
    assert!(problem(job().debounce(Duration::MAX).unique_key("k")).starts_with("debounce "));
    assert!(problem(job().header("big", "x".repeat(10_000))).starts_with("headers "));
    assert!(problem(RawJob::new("no/task", vec![0x80])).starts_with("task "));
}

#[test]
fn a_depth_bomb_and_a_payload_over_the_cap_are_refused() {
    let mut bomb = vec![0x91; 100_000];
    bomb.push(0xc0);
    assert!(matches!(RawJob::new("task", bomb).prepare(&EnqueueStack::default()), Err(Error::Encode { .. })));
    let payload = crate::codec::encode(&BTreeMap::from([("text", "x".repeat(300_000))])).unwrap();
    assert!(matches!(RawJob::new("task", payload).prepare(&EnqueueStack::default()), Err(Error::PayloadTooLarge { .. })));
}

#[test]
fn a_payload_that_is_no_map_is_refused() {
    for payload in [vec![], vec![0x90], vec![0xc0], vec![0x80, 0x80]] {
        assert!(matches!(RawJob::new("task", payload).prepare(&EnqueueStack::default()), Err(Error::Encode { .. })));
    }
}

#[test]
fn the_job_goes_before_the_default() {
    let prepared = job().queue("mail").priority(Priority::High).id("order-1").prepare(&EnqueueStack::default()).unwrap();
    assert_eq!(prepared.address.to_string(), "mail/order-1");
    assert_eq!(prepared.job.priority, Priority::High);
    assert_ne!(prepared.job.digest, 0);
    assert_eq!(job().prepare(&EnqueueStack::default()).unwrap().address.queue.as_ref(), DEFAULT_QUEUE);
}
