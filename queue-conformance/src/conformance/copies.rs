//! Copies of jobs.

use queue_core::{
    Error, JobAddress, JobId,
    broker::{BuryReason, Due, Ending, Enqueued, JobLimits, JobState, Priority},
};

use super::{
    bed::{Bed, LONG, ack, given},
    groups::{self, sound},
    limits::key as limit_key,
    unique::{self, SKIP, key},
};

/// A copy has the properties of the job, in its own queue or in another one, but no history. A
/// repeated request finds the copy.
pub async fn a_job_is_duplicated(bed: Bed) {
    let inspector = bed.inspector();
    let mut new = groups::job("a");
    (new.priority, new.due) = (Priority::High, Due::After(LONG));
    new.limits = JobLimits::new(vec![limit_key("stripe", "a")], 1).map(Box::new);
    let job = JobAddress { queue: bed.queue.clone(), id: new.id.clone() };
    assert_eq!(bed.put_job(new).await, Enqueued::Stored);
    let (id, into) = (JobId::make(), format!("{}-other", bed.queue));
    for _ in 0..2 {
        let copy = inspector.duplicate(&job, Some(&into), id.clone()).await.unwrap();
        assert_eq!((&*copy.job.queue, &copy.job.id), (into.as_str(), &id));
    }
    let (old, new) = (inspector.show(&job).await.unwrap(), inspector.show(&format!("{into}/{id}").parse().unwrap()).await.unwrap());
    assert_eq!((new.state, new.due_at, new.priority), (JobState::Scheduled, old.due_at, Priority::High));
    assert_eq!((new.group, new.limit_keys, new.task), (old.group, old.limit_keys, old.task));
    assert!(new.enqueued_at.is_some());
    assert_eq!(bed.broker.stats(&into).await.unwrap().jobs(), 1);

    let failed = bed.put(1).await.remove(0);
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, Ending::Bury { reason: BuryReason::Failed, error: Some("x".to_owned()) }).await);
    let job = JobAddress { queue: bed.queue.clone(), id: failed };
    let copy = inspector.duplicate(&job, None, JobId::make()).await.unwrap();
    let record = inspector.show(&copy.job).await.unwrap();
    assert_eq!((record.state, record.failures, record.errors.len()), (JobState::Ready, 0, 0));
    assert_eq!(inspector.show(&job).await.unwrap().state, JobState::Dead);
    let delivery = lane.claim_one().await;
    assert_eq!(delivery.id, copy.job.id);
    lane.ack(&[delivery]).await;
    sound(&bed).await;
}

/// A copy holds its key alone. The queue of the job that holds the key therefore refuses the copy,
/// and another queue accepts it.
pub async fn a_copy_takes_the_key_where_it_is_free(bed: Bed) {
    let inspector = bed.inspector();
    let id = unique::first(&bed, unique::job("1", SKIP)).await;
    let job = JobAddress { queue: bed.queue.clone(), id: id.clone() };
    let refused = inspector.duplicate(&job, None, JobId::make()).await.unwrap_err();
    assert!(matches!(&refused, Error::KeyHeld { holder, .. } if *holder == id), "{refused}");
    assert!(refused.to_string().contains("cannot duplicate"), "{refused}");
    let into = format!("{}-other", bed.queue);
    let copy = inspector.duplicate(&job, Some(&into), JobId::make()).await.unwrap();
    assert_eq!(bed.broker.key_holder(&into, &key()).await.unwrap().map(|holder| holder.id), Some(copy.job.id));
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    assert!(lane.end(&delivery, ack()).await);
}

/// A job with this id that is not a copy is an error, for the first request and for a repeated one.
pub async fn a_job_that_has_the_id_is_not_taken_for_the_copy(bed: Bed) {
    let inspector = bed.inspector();
    let (one, two) = (given("one", "a"), given("two", "b"));
    for job in [one, two] {
        assert_eq!(bed.put_job(job).await, Enqueued::Stored);
    }
    let address = |queue: &str, id: &str| format!("{queue}/{id}").parse::<JobAddress>().unwrap();
    let (job, into) = (address(&bed.queue, "two"), format!("{}-other", bed.queue));
    let id = |id: &str| id.parse::<JobId>().unwrap();
    for taken in ["one", "two"] {
        let refused = inspector.duplicate(&job, None, id(taken)).await.unwrap_err();
        assert!(matches!(&refused, Error::IdConflict(at) if *at == address(&bed.queue, taken)), "{refused}");
    }
    // A copy with the same parameters under this id is the requested copy.
    for _ in 0..2 {
        assert_eq!(inspector.duplicate(&job, Some(&into), id("one")).await.unwrap().job, address(&into, "one"));
    }
    let refused = inspector.duplicate(&address(&bed.queue, "one"), Some(&into), id("one")).await.unwrap_err();
    assert!(matches!(refused, Error::IdConflict(_)), "{refused}");
    assert_eq!((bed.ids(JobState::Ready).await.len(), bed.broker.stats(&into).await.unwrap().jobs()), (2, 1));
}
