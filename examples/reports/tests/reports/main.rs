//! The test controls the clock of the queue: a night takes some milliseconds.

mod commands;

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use queue_core::schedule::ScheduleAddress;
use queue_testing::TestQueue;
use reports::{Archive, leave, sign_up};

/// An evening in 2026, at 23:00 by UTC.
const EVENING: Duration = Duration::from_secs(1_795_608_000 + 11 * 3600);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// From 23:00 to 08:00 UTC. It includes 02:00 in Berlin and in New York.
const NIGHT: Duration = Duration::from_secs(9 * 3600);

/// A queue whose clock is at the evening.
fn queue(archive: &Arc<Archive>) -> TestQueue {
    TestQueue::starting_at(UNIX_EPOCH + EVENING).shared_data(archive.clone())
}

#[tokio::test]
async fn every_customer_has_a_report_of_each_night_also_of_those_that_nobody_worked_in() {
    let archive = Arc::new(Archive::default());
    let queue = queue(&archive);
    let client = queue.client();
    sign_up(client, 7, "Europe/Berlin").await.unwrap();
    sign_up(client, 8, "America/New_York").await.unwrap();
    for _ in 0..2 {
        queue.drain_for(NIGHT).await;
        queue.advance(DAY - NIGHT);
    }
    assert_eq!((archive.nights(7).len(), archive.nights(8).len()), (2, 2));

    // No worker runs for five nights. The last two are caught up.
    queue.advance(DAY * 5);
    queue.drain_for("1h").await;
    let nights = archive.nights(7);
    assert!((4..=5).contains(&nights.len()), "{nights:?}");
    let record = client.schedules().get(&ScheduleAddress::new("reports", "nightly-7").unwrap()).await.unwrap().unwrap();
    assert!((2..=4).contains(&record.skipped), "{record:?}");
    assert!(record.events.iter().any(|event| event.what == "skipped: missed"));
    let gaps: Vec<Duration> = nights.windows(2).map(|pair| pair[1].duration_since(pair[0]).unwrap()).collect();
    assert!(gaps.iter().all(|gap| *gap >= Duration::from_secs(23 * 3600)), "a report is about a night: {gaps:?}");

    leave(client, 7).await.unwrap();
    let before = archive.nights(7).len();
    queue.drain_for(NIGHT).await;
    assert_eq!(archive.nights(7).len(), before);
    assert!(archive.nights(8).len() > before);
}

#[tokio::test]
async fn what_the_program_declares_is_there_when_a_worker_has_started() {
    let archive = Arc::new(Archive::default());
    let queue = queue(&archive);
    let client = queue.client();
    queue.drain().await;
    let all = client.schedules().list("reports").await.unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].schedule.to_string().as_str(), all[0].words.as_str()), ("reports/remind_staff", "at 08:00, on Monday to Friday"));
    assert!(!all[0].set_at_run_time && all[0].declared_by.len() == 1);
}
