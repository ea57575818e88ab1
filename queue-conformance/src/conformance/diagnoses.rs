//! The reasons why a job does not run, as far as the broker knows.

use queue_core::{
    JobId,
    broker::{Diagnosis, Ending, HOLDERS_NAMED, JobState, Line, NewJob, Priority, SetPause},
    inspect::{GroupOrder, RuleOf},
};

use super::{
    bed::{Bed, LONG, eventually, nack},
    groups::{RULE, cap, group_rule, job, order, put, rule},
    limits, unique,
};

async fn diagnosis_of(bed: &Bed, id: &JobId) -> Diagnosis {
    let mut diagnoses = bed.broker.diagnose(&bed.queue, std::slice::from_ref(id)).await.expect("one may ask where a job stands");
    diagnoses.pop().flatten().expect("the job is there")
}

async fn line(bed: &Bed, id: &JobId) -> Line {
    diagnosis_of(bed, id).await.line.expect("it is ready")
}

/// A job that waits for its time reports that time, whether its queue is paused or not.
pub async fn a_waiting_job_reports_what_it_waits_for(bed: Bed) {
    let later = bed.put_later(LONG).await;
    let failed = bed.put(1).await.remove(0);
    let mut lane = bed.lane().await;
    let delivery = lane.claim_one().await;
    lane.end(&delivery, nack(LONG)).await;
    bed.broker.set_pause(&SetPause::of_queue(bed.queue.clone(), true)).await.unwrap();
    for (id, state) in [(later, JobState::Scheduled), (failed, JobState::Retry)] {
        let diagnosis = diagnosis_of(&bed, &id).await;
        assert_eq!((diagnosis.job.state, diagnosis.paused, diagnosis.line), (state, true, None));
        let left = diagnosis.job.at_ms.expect("it has a time") - diagnosis.now_ms;
        assert!(left > 500_000 && left <= 601_000, "{left} ms");
    }
}

/// The job waits for earlier jobs of its own priority, and for all jobs of higher priorities.
pub async fn a_ready_job_reports_how_many_go_first(bed: Bed) {
    let ids = bed.put(5).await;
    let high = bed.put_at(Priority::High).await;
    let low = bed.put_at(Priority::Low).await;
    for (id, ahead) in [(&ids[0], 1), (&ids[4], 5), (&high, 0), (&low, 6)] {
        let mut expected = Line::default();
        expected.ahead = ahead;
        assert_eq!(line(&bed, id).await, expected);
    }
    let mut lane = bed.lane().await;
    lane.claim(3).await;
    assert_eq!(line(&bed, &ids[4]).await.ahead, 2);
    // A long list is not read as a whole. The reported number may be higher than the actual one,
    // and never lower.
    let many = bed.producer().await.next((0..400).map(|_| job("")).collect());
    bed.broker.enqueue(&many).await.unwrap();
    let ids: Vec<JobId> = many.jobs.iter().map(|job| job.id.clone()).collect();
    for (place, diagnosis) in bed.broker.diagnose(&bed.queue, &ids).await.unwrap().into_iter().enumerate() {
        let ahead = diagnosis.unwrap().line.unwrap().ahead;
        assert!((3 + place as u64..=404).contains(&ahead), "{ahead} before the one at {place}");
    }
}

/// The reasons of a group: paused, at its cap with its holders, ordered with the job in front, and
/// the number of groups in the rotation.
pub async fn a_job_of_a_group_reports_what_its_group_may(bed: Bed) {
    let ids = put(&bed, "a", 4).await;
    put(&bed, "b", 1).await;
    bed.put(1).await;
    let free = line(&bed, &ids[2]).await;
    assert_eq!((free.ahead, free.groups), (2, 2), "another group, and the jobs without one");
    let group = free.group.expect("it has a group");
    assert_eq!((group.name.as_str(), group.paused, group.cap, group.running, group.blocked_by), ("a", false, None, 0, None));
    cap(&bed, "a", 1).await;
    let mut lane = bed.lane().await;
    let claimed = lane.claim(3).await;
    assert_eq!(claimed.len(), 3, "one of each");
    let full = line(&bed, &ids[2]).await;
    assert_eq!((full.ahead, full.groups), (1, 0));
    let group = full.group.unwrap();
    assert!(group.is_full());
    assert_eq!((group.cap, group.running, &group.holders[..]), (Some(1), 1, &ids[..1]));
    cap(&bed, "a", 0).await;
    group_rule(&bed, "a", |rule| rule.paused = true).await;
    assert!(line(&bed, &ids[2]).await.group.unwrap().paused);
    group_rule(&bed, "a", |rule| (rule.paused, rule.cap) = (false, None)).await;
    order(&bed, "a", GroupOrder::Ordered).await;
    lane.ack(&claimed).await;
    let first = lane.claim_one().await;
    lane.end(&first, nack(LONG)).await;
    let held = line(&bed, &ids[2]).await.group.unwrap();
    assert_eq!((held.running, held.blocked_by), (0, Some(ids[1].clone())), "the one that failed blocks the group line");
    // Not all running jobs are named.
    put(&bed, "many", HOLDERS_NAMED + 3).await;
    let last = put(&bed, "many", 1).await.remove(0);
    lane.claim(HOLDERS_NAMED + 3).await;
    cap(&bed, "many", 1).await;
    let group = line(&bed, &last).await.group.unwrap();
    assert_eq!((group.running, group.holders.len()), (HOLDERS_NAMED as u64 + 3, HOLDERS_NAMED));
}

/// The key of a limit that blocks the job, with the holders of its slots or the end of the wait.
/// Also the maximum number of jobs before it, with limits and without.
pub async fn a_job_reports_which_limit_holds_it_back(bed: Bed) {
    limits::concurrency(&bed, "stripe", 1).await;
    limits::set(&bed, "calls", |rule| rule.rate = Some("1/1h".parse().expect("it is a rate"))).await;
    let (slot, start) = (limits::key("stripe", "acct_17"), limits::key("calls", ""));
    let ids = limits::put(&bed, "", &[slot], 3).await;
    let rated = limits::put(&bed, "a", &[start], 2).await;
    let plain = bed.put(1).await.remove(0);
    let open = line(&bed, &ids[2]).await;
    assert_eq!((open.ahead, open.groups, open.limits.len()), (3, 1, 0), "two of its kind and a plain one may go first");
    assert_eq!(line(&bed, &plain).await.ahead, 3);
    let mut lane = bed.lane().await;
    assert_eq!(limits::claim_all(&mut lane, 10).await.len(), 3, "one of each");
    let full = line(&bed, &ids[2]).await;
    assert_eq!((full.ahead, full.limits.len()), (1, 1));
    let key = &full.limits[0];
    assert_eq!((key.key, key.rule.concurrency, key.held, &key.holders[..], key.until_ms), (slot, Some(1), 1, &ids[..1], None));
    let waits = diagnosis_of(&bed, &rated[1]).await;
    let key = &waits.line.expect("it is ready").limits[0];
    assert_eq!((key.key, key.held), (start, 1));
    let left = key.until_ms.expect("it opens at a time") - waits.now_ms;
    assert!((3_590_000..=3_600_001).contains(&left), "{left} ms");
    let counts = bed.inspector().limits(&bed.queue).await.expect("limits can be listed");
    let counts: Vec<_> = counts.iter().map(|limit| (limit.name.as_str(), limit.held, limit.full, limit.rated)).collect();
    assert_eq!(counts, [("calls", 1, 0, 1), ("stripe", 1, 2, 0)]);
    limits::concurrency(&bed, "stripe", 2).await;
    assert!(line(&bed, &ids[2]).await.limits.is_empty());
}

/// Suspects are not counted with the other jobs.
pub async fn a_suspect_stands_in_a_line_of_its_own(bed: Bed) {
    let suspects = bed.put(2).await;
    let mut dying = bed.dying_lane().await;
    dying.claim(2).await;
    bed.reclaim(&[&dying], RULE).await;
    let mut lane = bed.lane().await;
    eventually("both are ready", async || {
        let turn = lane.next();
        lane.send(&turn).await;
        (bed.depth(JobState::Ready).await == 2).then_some(())
    })
    .await;
    let others = bed.put(3).await;
    let order = bed.ids(JobState::Ready).await;
    assert_eq!(order.len(), 5);
    let suspects: Vec<&JobId> = order.iter().filter(|id| suspects.contains(id)).collect();
    for (id, crashes, ahead) in [(&others[1], 0, 1), (suspects[0], 1, 0), (suspects[1], 1, 1)] {
        let diagnosis = diagnosis_of(&bed, id).await;
        assert_eq!((diagnosis.job.crashes, diagnosis.line.map(|line| line.ahead)), (crashes, Some(ahead)));
    }
}

/// A job reports a valid lease, an expired lease, and the reclaim, with the end of the lease.
pub async fn a_running_job_reports_whether_its_lease_is_valid(bed: Bed) {
    let ids = bed.put(2).await;
    let (mut lane, mut dying) = (bed.lane().await, bed.dying_lane().await);
    lane.claim_one().await;
    dying.claim_one().await;
    let left = diagnosis_of(&bed, &ids[0]).await.lease_left_ms.expect("its lane has a lease");
    assert!(left > 500_000 && left <= 601_000, "{left} ms");
    let ended = async || {
        let diagnosis = diagnosis_of(&bed, &ids[1]).await;
        Some(diagnosis.now_ms + diagnosis.lease_left_ms?).filter(|_| diagnosis.job.state == JobState::Active)
    };
    eventually("the lease is over", async || (diagnosis_of(&bed, &ids[1]).await.lease_left_ms? <= 0).then_some(())).await;
    let before = ended().await;
    bed.fence(&[&dying]).await;
    assert!(before.is_some());
    assert_eq!(ended().await, before);
}

/// A held job reports the job for whose end it waits.
pub async fn a_job_reports_who_holds_its_key(bed: Bed) {
    let mut lane = bed.lane().await;
    let (holder, delivery) = unique::running(&bed, &mut lane, unique::BUFFER).await;
    let next = unique::job("next", unique::BUFFER);
    let id = next.id.clone();
    bed.put_job(next).await;
    let diagnosis = diagnosis_of(&bed, &id).await;
    assert_eq!((diagnosis.job.state, diagnosis.holder), (JobState::Held, Some(holder)));
    lane.end(&delivery, Ending::Cancel { reason: String::new() }).await;
    assert_eq!(diagnosis_of(&bed, &id).await.job.state, JobState::Ready);
}

/// One answer per id, in order, also for missing jobs. An unknown queue has no answers.
pub async fn many_are_asked_for_at_once(bed: Bed) {
    let none = bed.broker.diagnose("nobody-knows", &[JobId::make(), JobId::make()]).await.unwrap();
    assert!(none.len() == 2 && none.iter().all(Option::is_none));
    let ids = bed.put(2).await;
    let asked = [ids[1].clone(), JobId::make(), ids[0].clone()];
    let found = bed.broker.diagnose(&bed.queue, &asked).await.unwrap();
    let found: Vec<_> = found.into_iter().map(|diagnosis| diagnosis.map(|diagnosis| diagnosis.job.id)).collect();
    assert_eq!(found, [Some(ids[1].clone()), None, Some(ids[0].clone())]);
    assert!(bed.broker.diagnose(&bed.queue, &[]).await.unwrap().is_empty());
    let too_many: Vec<JobId> = (0..=queue_core::broker::MAX_ITEMS).map(|_| JobId::make()).collect();
    assert!(bed.broker.diagnose(&bed.queue, &too_many).await.is_err());
}

/// A job of a paused group that also waits for a limit is counted only for its group.
pub async fn no_job_is_counted_for_its_group_and_for_its_limit(bed: Bed) {
    let (mut lane, of) = (bed.lane().await, [limits::key("stripe", "")]);
    limits::concurrency(&bed, "stripe", 1).await;
    limits::put(&bed, "a", &of, 4).await;
    assert_eq!(limits::claim_all(&mut lane, 10).await.len(), 1);
    let counts = async || bed.inspector().waiting(&bed.queue).await.expect("a queue can be asked");
    assert_eq!(counts().await, [("limit_full", 3)].into());
    group_rule(&bed, "a", |rule| rule.paused = true).await;
    bed.put(2).await;
    assert_eq!(counts().await, [("group_paused", 3), ("behind", 2)].into());
    limits::put(&bed, "", &of, 2).await;
    assert_eq!(limits::claim_all(&mut lane, 10).await.len(), 2);
    assert_eq!(counts().await, [("group_paused", 3), ("limit_full", 2)].into());
}

/// Groups are read page by page.
pub async fn the_jobs_of_more_groups_than_a_page_has_are_counted(bed: Bed) {
    const GROUPS: usize = 1010;
    let (mut producer, mut lane) = (bed.producer().await, bed.lane().await);
    let mut one_of_each = async || {
        let jobs: Vec<NewJob> = (0..GROUPS).map(|n| job(&format!("g{n}"))).collect();
        for jobs in jobs.chunks(500) {
            producer.stored(jobs.to_vec()).await;
        }
    };
    one_of_each().await;
    for _ in 0..3 {
        limits::claim_all(&mut lane, 400).await;
    }
    assert_eq!(bed.depth(JobState::Active).await, GROUPS as u64);
    rule(&bed, &RuleOf::Others, |rule| rule.cap = Some(1)).await;
    one_of_each().await;
    bed.put(2).await;
    let counts = bed.inspector().waiting(&bed.queue).await.expect("a queue can be asked");
    assert_eq!(counts, [("group_full", 1010), ("behind", 2)].into());
}

/// The other jobs of an ordered group wait for the job that holds its line. This job waits for none
/// of them.
pub async fn who_holds_a_line_is_not_counted_as_out_of_order(bed: Bed) {
    let mut lane = bed.lane().await;
    order(&bed, "a", GroupOrder::Ordered).await;
    put(&bed, "a", 3).await;
    let holder = lane.claim_one().await;
    let counts = async || bed.inspector().waiting(&bed.queue).await.expect("a queue can be asked");
    assert_eq!(counts().await, [("out_of_order", 2)].into());
    assert!(lane.end(&holder, Ending::Return).await);
    assert_eq!(counts().await, [("out_of_order", 2), ("behind", 1)].into());
}
