//! The one suite that every broker passes.
//!
//! A case is an async function over a [`Subject`], a broker with a queue of its own. [`conformance!`](crate::conformance!)
//! makes a test of each for a broker:
//!
//! ```ignore
//! queue_tests::conformance!(on_my_broker, my_broker().await);
//! ```

pub mod endings;
pub mod enqueue;
pub mod leases;
pub mod people;
pub mod turns;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use queue_core::{
    JobId,
    broker::{
        BrokerInfo, Delivery, DynBroker, Ending, Enqueue, Enqueued, Finish, JobRecord, NewJob, PartyName, ProcessId, Register, State, Turn,
        TurnAnswer,
    },
    envelope::Envelope,
};

/// A lease that no test outlives.
pub const LONG: Duration = Duration::from_secs(60);

/// A broker under test, with a queue of its own.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The broker.
    pub broker: DynBroker,
    /// A queue that no other test uses.
    pub queue: Arc<str>,
}

impl Subject {
    /// A subject of this broker.
    pub fn new(broker: DynBroker) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let queue = format!("q{}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed), fastrand::u32(..));
        Subject { broker, queue: queue.into() }
    }

    /// What the broker is.
    pub fn info(&self) -> BrokerInfo {
        self.broker.info()
    }

    /// A registered producer.
    pub async fn producer(&self) -> Producer {
        let name = self.broker.register(&Register::producer(self.queue.clone(), ProcessId::random())).await.unwrap();
        Producer { subject: self.clone(), name, seq: 0 }
    }

    /// Stores jobs that may start now, and gives their ids.
    pub async fn store(&self, count: usize) -> Vec<JobId> {
        let jobs: Vec<NewJob> = (0..count).map(|_| job()).collect();
        let ids = jobs.iter().map(|job| job.id.clone()).collect();
        assert!(self.producer().await.send(jobs).await.iter().all(|answer| *answer == Enqueued::Stored));
        ids
    }

    /// A lane of a process of its own.
    pub async fn lane(&self) -> Lane {
        self.lane_of(ProcessId::random(), LONG).await
    }

    /// A lane of this process.
    pub async fn lane_of(&self, process: ProcessId, lease: Duration) -> Lane {
        let name = self.broker.register(&Register::worker(self.queue.clone(), process, lease)).await.unwrap();
        Lane { subject: self.clone(), name, seq: 0, lease }
    }

    /// A job as the broker shows it.
    pub async fn show(&self, id: &JobId) -> Option<JobRecord> {
        self.broker.show(&self.queue, id).await.unwrap()
    }

    /// The state of a job.
    pub async fn state(&self, id: &JobId) -> Option<State> {
        self.show(id).await.map(|record| record.state)
    }

    /// How many jobs are in a state.
    pub async fn depth(&self, state: State) -> u64 {
        self.broker.stats(&self.queue).await.unwrap().depth.get(&state).copied().unwrap_or(0)
    }

    /// A counter.
    pub async fn counter(&self, name: &str) -> u64 {
        self.broker.stats(&self.queue).await.unwrap().counters.get(name).copied().unwrap_or(0)
    }

    /// One job that a process held when it died, and was charged for: a suspect, ready to be claimed.
    pub async fn suspect(&self) -> JobId {
        let id = self.store(1).await.remove(0);
        self.crash(std::slice::from_ref(&id)).await;
        id
    }

    /// Lets a process die that holds these jobs, which must be the next that are claimed, and takes them back.
    pub async fn crash(&self, ids: &[JobId]) -> queue_core::broker::Reclaimed {
        let mut lane = self.lane_of(ProcessId::random(), Duration::from_millis(1)).await;
        let answer = lane.claim(ids.len()).await;
        assert_eq!(ids_of(&answer.deliveries), ids.to_vec());
        self.reclaim().await
    }

    /// Fences every lane whose lease has run out, and takes its jobs back.
    pub async fn reclaim(&self) -> queue_core::broker::Reclaimed {
        let rule = quick_rule();
        crate::patience::until("a lease to run out", || async {
            !self.broker.suspects(&self.queue, 100).await.unwrap().expired.is_empty()
        })
        .await;
        let suspects = self.broker.suspects(&self.queue, 100).await.unwrap();
        let fenced = self.broker.fence(&self.queue, &suspects.expired).await.unwrap();
        assert!(fenced.iter().all(|fenced| *fenced));
        let mut all = queue_core::broker::Reclaimed::default();
        for _ in 0..100 {
            let step = self.broker.sweep_fenced(&self.queue, &rule).await.unwrap();
            all.released += step.released;
            all.charged += step.charged;
            all.buried += step.buried;
            all.forgotten += step.forgotten;
            if step == queue_core::broker::Reclaimed::default() {
                break;
            }
        }
        all
    }
}

/// The crash rule with a delay that tests can wait for.
pub fn quick_rule() -> queue_core::broker::CrashRule {
    queue_core::broker::CrashRule { delay: Duration::from_millis(1), ..Default::default() }
}

/// A producer with its sequence.
#[derive(Debug)]
pub struct Producer {
    subject: Subject,
    /// Its name.
    pub name: PartyName,
    /// Its last number.
    pub seq: u64,
}

impl Producer {
    /// A request under the next number.
    pub fn request(&mut self, jobs: Vec<NewJob>) -> Enqueue {
        self.seq += 1;
        Enqueue::new(self.subject.queue.clone(), self.name.clone(), self.seq, jobs)
    }

    /// Sends jobs.
    pub async fn send(&mut self, jobs: Vec<NewJob>) -> Vec<Enqueued> {
        let request = self.request(jobs);
        self.subject.broker.enqueue(&request).await.unwrap()
    }

    /// Sends one job.
    pub async fn send_one(&mut self, job: NewJob) -> Enqueued {
        self.send(vec![job]).await[0]
    }
}

/// A lane with its sequence.
#[derive(Debug)]
pub struct Lane {
    subject: Subject,
    /// Its name.
    pub name: PartyName,
    /// Its last answered turn.
    pub seq: u64,
    /// Its lease.
    pub lease: Duration,
}

impl Lane {
    /// The next turn.
    pub fn next(&mut self) -> Turn {
        self.seq += 1;
        Turn::new(self.subject.queue.clone(), self.name.clone(), self.seq, self.lease)
    }

    /// Sends a turn.
    pub async fn send(&self, turn: &Turn) -> TurnAnswer {
        self.subject.broker.turn(turn).await.unwrap()
    }

    /// Claims.
    pub async fn claim(&mut self, count: usize) -> TurnAnswer {
        let turn = self.next().claim(count);
        self.send(&turn).await
    }

    /// Claims one job.
    pub async fn claim_one(&mut self) -> Delivery {
        let mut answer = self.claim(1).await;
        assert_eq!(answer.deliveries.len(), 1, "there is a job to claim");
        answer.deliveries.remove(0)
    }

    /// Claims one job as soon as there is one.
    pub async fn claim_when_due(&mut self) -> Delivery {
        let until = std::time::Instant::now() + crate::patience::PATIENCE;
        loop {
            let mut answer = self.claim(1).await;
            if let Some(delivery) = answer.deliveries.pop() {
                return delivery;
            }
            assert!(std::time::Instant::now() < until, "no job became due");
            tokio::time::sleep(answer.next_due.unwrap_or(Duration::from_millis(5)).min(Duration::from_millis(50))).await;
        }
    }

    /// Hands in an ending of each delivery.
    pub async fn end(&mut self, deliveries: &[Delivery], ending: Ending) -> TurnAnswer {
        let finishes = deliveries.iter().map(|delivery| finish(delivery, ending.clone())).collect();
        let turn = self.next().finish(finishes);
        self.send(&turn).await
    }

    /// Hands in the ending of one delivery, which must count.
    pub async fn end_one(&mut self, delivery: &Delivery, ending: Ending) {
        let answer = self.end(std::slice::from_ref(delivery), ending).await;
        assert!(answer.stale.is_empty(), "the ending counts");
    }
}

/// A job that may start now.
pub fn job() -> NewJob {
    NewJob::new(JobId::make(), envelope(100))
}

/// A job with a given id; jobs with the same number have the same payload.
pub fn given(id: &str, payload: u8) -> NewJob {
    let payload = [payload];
    let envelope = Envelope::new("task", &payload);
    let mut job = NewJob::new(JobId::given(id).unwrap(), envelope.encode().unwrap());
    job.digest = envelope.digest();
    job
}

/// An envelope with a payload of this size.
pub fn envelope(size: usize) -> Vec<u8> {
    Envelope::new("task", &vec![7; size]).encode().unwrap()
}

/// An ending of a delivery.
pub fn finish(delivery: &Delivery, ending: Ending) -> Finish {
    Finish { id: delivery.id.clone(), claim: delivery.claim, ending }
}

/// An ack that leaves nothing.
pub fn ack() -> Ending {
    Ending::Ack { result: None, keep: None }
}

/// The ids of deliveries.
pub fn ids_of(deliveries: &[Delivery]) -> Vec<JobId> {
    deliveries.iter().map(|delivery| delivery.id.clone()).collect()
}

/// Makes a test of every case for one broker: `conformance!(module, expression that gives a DynBroker)`.
#[macro_export]
macro_rules! conformance {
    ($module:ident, $broker:expr) => {
        $crate::conformance!(@ $module, $broker,
            enqueue: [
                jobs_are_served_in_the_order_of_their_enqueue,
                a_replayed_enqueue_stores_nothing_and_answers_the_same,
                an_older_sequence_is_refused,
                an_unknown_producer_is_forgotten,
                a_given_id_is_stored_once,
                the_answers_of_a_mixed_batch_keep_their_order,
                a_given_id_is_remembered_after_its_job_is_done,
                payloads_of_any_bytes_come_back_as_they_were,
                the_largest_batch_is_stored,
                a_batch_over_the_bound_is_refused,
                a_replay_among_thousands_of_others_is_recognised,
            ],
            turns: [
                a_claim_gives_each_job_to_one_lane,
                a_replayed_turn_gives_the_same_and_applies_nothing_twice,
                a_replayed_turn_voids_what_was_taken_away_since,
                a_turn_out_of_order_is_refused,
                an_unknown_worker_is_forgotten,
                higher_priorities_are_served_first,
                a_delayed_job_is_not_served_early,
                a_time_that_is_past_means_now,
                a_retry_and_a_schedule_are_due_in_the_order_of_their_times,
                the_next_due_time_is_told,
                an_answer_is_bounded_in_bytes,
                a_single_large_job_is_served,
                a_paused_queue_hands_out_nothing,
                claim_numbers_grow,
                finishing_and_claiming_are_one_turn,
                a_hint_comes_for_a_new_job,
                a_hint_comes_for_a_job_that_is_due_earlier,
                more_than_a_batch_of_due_jobs_is_promoted,
            ],
            endings: [
                an_ack_leaves_nothing,
                an_ack_with_retention_keeps_the_result,
                retention_ends,
                no_more_is_kept_than_the_limit,
                a_nack_waits_and_counts_an_attempt,
                a_snooze_counts_a_snooze_alone,
                a_repeat_clears_the_counters,
                a_repeat_without_a_delay_goes_to_the_tail,
                a_bury_keeps_reason_history_and_payload,
                only_the_last_failures_are_kept,
                a_cancel_by_the_handler_keeps_its_reason,
                an_expired_job_is_kept_for_people,
                a_release_goes_to_the_head_uncharged,
                a_stale_ending_changes_nothing,
                an_ending_counts_once,
                parked_jobs_wait_for_a_lane_that_knows_their_task,
                one_stale_ending_does_not_harm_the_others,
                errors_of_any_text_come_back,
            ],
            leases: [
                a_live_lane_is_no_suspect,
                a_beat_renews_the_lease,
                a_beat_of_a_lane_that_lost_turns_is_forgotten,
                a_renewed_lane_is_not_fenced,
                a_fenced_lane_is_forgotten_and_its_endings_with_it,
                jobs_of_a_dead_process_come_back_charged,
                innocent_jobs_beside_a_suspect_are_not_charged,
                the_third_crash_buries,
                a_finished_round_clears_the_crashes,
                one_suspect_is_served_at_a_time,
                a_sweep_moves_many_jobs_in_steps,
                idle_lanes_are_pruned,
            ],
            people: [
                a_cancelled_ready_job_is_not_served,
                a_cancelled_waiting_job_is_not_served,
                a_cancelled_active_job_is_told_to_its_lane,
                a_cancelled_id_may_be_used_again,
                a_cancelled_id_is_served_once_when_it_is_enqueued_again,
                a_cancelled_parked_job_is_gone,
                a_cancel_of_what_has_ended_is_not_found,
                a_deleted_id_may_be_used_again,
                an_expired_id_may_be_used_again,
                a_dead_id_is_kept_and_a_requeued_one_runs_again,
                an_active_job_is_not_deleted,
                every_state_is_listed_in_pages,
                statistics_add_up,
                the_queue_is_registered,
                a_sweep_removes_what_is_past_its_time,
                dead_jobs_over_the_limit_are_evicted_and_counted,
            ]
        );
    };
    (@ $module:ident, $broker:expr, $($group:ident: [$($case:ident),* $(,)?]),*) => {
        mod $module {
            #[allow(unused_imports, reason = "the expression may name what lies beside it")]
            use super::*;
            $($(
                #[tokio::test]
                async fn $case() {
                    let broker: queue_core::broker::DynBroker = $broker;
                    $crate::conformance::$group::$case($crate::conformance::Subject::new(broker)).await;
                }
            )*)*
        }
    };
}
