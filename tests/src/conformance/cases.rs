//! The list of all cases, in one macro: a case that is not on it is found by the test below.

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cases {
    ([$($with:tt)*], $($argument:tt)*) => {
        $($with)*! { $($argument)*,
            turns:
                a_job_is_claimed_acknowledged_and_gone
                jobs_of_one_priority_are_served_in_order
                a_higher_priority_is_served_first
                a_claim_takes_no_more_than_was_asked_for
                claim_numbers_grow_with_every_delivery_of_a_job
                a_finish_with_another_claim_number_is_stale
                a_finish_of_another_lane_is_stale
                a_second_finish_is_stale_whatever_the_first_was
                an_old_delivery_of_the_same_lane_is_stale
                a_stale_finish_spoils_no_other
                finishes_come_before_the_claim
                a_replayed_turn_gives_the_same_answer_and_changes_nothing
                a_delivery_that_was_cancelled_is_void_in_a_replay
                a_void_answer_whose_tag_stands_is_a_release
                an_older_turn_is_refused_as_old
                a_turn_that_skips_ahead_is_forgotten
                a_lane_that_never_registered_is_forgotten
                every_registration_gets_a_name_of_its_own
                no_job_is_held_by_two_lanes
                a_request_over_the_bound_of_items_is_refused
                a_turn_of_the_largest_size_is_answered
                an_answer_is_bounded_in_bytes
                a_job_over_the_bound_of_bytes_travels_alone
                an_envelope_comes_back_byte_for_byte;
            endings:
                a_failed_job_waits_in_retry_with_its_error
                attempts_are_counted_from_failure_to_failure
                the_last_failures_are_kept
                an_error_of_any_text_comes_back
                a_snoozed_job_is_scheduled_and_counts_a_snooze
                a_repeated_job_starts_its_next_round_clean
                a_job_repeated_at_once_joins_the_tail
                a_buried_job_is_kept_with_reason_and_history
                a_burial_without_error_counts_no_attempt
                a_result_is_kept_only_where_it_is_asked_for
                kept_jobs_are_trimmed_to_the_limit_of_their_number
                kept_jobs_are_trimmed_to_the_limit_of_their_bytes
                jobs_that_are_kept_together_keep_their_own_results
                jobs_that_are_kept_together_count_with_their_own_sizes
                a_job_that_cancels_itself_is_recorded_with_its_reason
                an_expired_job_is_recorded
                a_released_job_goes_to_the_head_and_is_charged_nothing
                a_released_job_keeps_its_priority
                a_job_that_comes_back_keeps_its_priority
                a_parked_job_waits_for_a_worker_that_knows_its_task
                resumed_jobs_come_first_and_within_the_claim
                a_parked_job_keeps_its_attempts;
            enqueues:
                a_replayed_enqueue_stores_nothing_twice
                a_replay_after_thousands_of_other_jobs_is_recognised
                a_replay_repeats_the_answers_of_then
                an_older_enqueue_is_refused_as_old
                gaps_in_the_sequence_of_a_producer_are_fine
                an_unknown_producer_is_forgotten_and_nothing_is_stored
                a_given_id_that_exists_is_answered_in_every_state
                a_finished_given_id_is_remembered
                one_conflict_in_a_batch_spoils_no_other
                queues_know_nothing_of_each_other
                a_cancelled_id_can_be_enqueued_again
                a_cancelled_id_may_come_back_in_another_line
                an_id_cancelled_while_active_can_be_enqueued_again
                a_deleted_id_can_be_enqueued_again
                an_expired_id_can_be_enqueued_again
                a_requeued_id_is_answered_as_existing
                an_enqueue_of_nothing_is_answered_with_nothing
                a_confirmed_enqueue_says_how_safe_its_jobs_are;
            times:
                a_delayed_job_is_never_early
                a_failed_job_is_never_early
                a_job_due_in_the_past_is_ready
                a_job_due_at_a_time_is_scheduled_for_it
                an_endless_delay_does_not_overflow
                due_jobs_join_the_tail_in_the_order_of_their_times
                many_jobs_due_at_once_are_all_served
                a_turn_moves_a_bounded_number_of_due_jobs
                a_turn_tells_when_the_next_job_is_due
                a_turn_counts_to_the_next_due_job_from_the_time_that_it_tells
                a_look_overlooks_nothing
                the_clock_goes_forward
                a_new_job_is_announced
                a_new_job_is_announced_to_other_processes
                a_job_that_is_due_earlier_than_all_is_announced
                a_job_that_comes_back_is_announced;
            leases:
                a_beat_renews_the_leases_of_several_lanes
                a_beat_of_a_stranger_makes_no_entry
                a_beat_beyond_what_the_broker_knows_is_forgotten
                suspects_are_those_whose_lease_is_over
                a_late_turn_of_a_lane_that_nobody_fenced_counts
                a_lane_that_showed_life_between_the_looks_is_not_fenced
                a_fence_wants_the_exact_deadline_and_its_end
                a_fenced_lane_is_forgotten_in_every_request
                a_fence_takes_one_lane_not_its_process
                a_beat_brings_the_cancels
                an_answer_to_an_old_delivery_leaves_the_cancel_of_a_newer_one
                a_turn_renews_the_lease
                a_turn_tells_how_many_lanes_there_are;
            reclaims:
                a_lost_process_charges_a_crash_to_what_it_held
                a_suspect_is_charged_alone_and_its_neighbours_go_free
                another_process_is_judged_for_itself
                uncharged_jobs_return_to_the_head
                the_last_crash_buries_the_job
                crashes_outside_the_window_start_a_new_count
                a_finished_run_clears_the_crashes
                a_turn_brings_one_suspect_at_most
                a_process_that_lives_under_another_name_is_charged_nothing
                a_parked_suspect_is_resumed_like_any_other_suspect
                what_was_finished_in_time_is_not_reclaimed
                an_idle_lane_is_forgotten_without_charge
                a_sweep_goes_in_bounded_steps_that_anyone_can_continue
                a_half_done_sweep_with_a_suspect_is_judged_the_same
                a_job_cancelled_under_a_lost_worker_stays_cancelled
                a_job_buried_for_its_crashes_can_be_requeued;
            people:
                a_cancelled_job_never_starts
                a_job_cancelled_while_active_can_change_nothing
                what_has_ended_cannot_be_cancelled
                depth_leaves_out_what_was_cancelled
                a_job_behind_many_cancelled_ones_is_served
                a_requeued_job_starts_clean
                only_the_dead_are_requeued
                a_deleted_job_leaves_nothing
                a_paused_queue_gives_nothing_out
                resuming_a_queue_is_announced
                a_cancelled_job_keeps_its_payload
                a_queue_that_nobody_touched_has_no_damage;
            records:
                every_state_is_listed_in_order
                a_listing_comes_in_pages
                a_record_names_the_holder_of_an_active_job
                what_is_not_there_is_not_shown
                queues_are_listed_by_name
                a_name_outside_the_grammar_is_refused
                idle_producers_are_swept
                tombstones_of_given_ids_are_swept_by_age_and_number
                a_given_id_that_is_used_again_starts_over
                dead_jobs_are_evicted_by_age_and_by_bytes_and_counted
                an_evicted_id_can_be_enqueued_again
                kept_jobs_are_swept_when_their_time_is_over
                a_kept_job_outlives_an_earlier_one_of_its_id
                ended_jobs_are_swept_to_the_limits_of_their_queue
                a_round_of_housekeeping_is_bounded
                after_a_restored_backup_lanes_are_forgotten_and_work_goes_on;
            stories:
                a_random_story_loses_and_doubles_nothing;
        }
    };
}

#[cfg(test)]
mod tests {
    macro_rules! listed {
        ($($group:ident: $($case:ident)*;)*) => {
            [$((stringify!($group), include_str!(concat!(stringify!($group), ".rs")), vec![$(stringify!($case)),*])),*]
        };
    }

    macro_rules! list {
        (list, $($cases:tt)*) => { listed!{ $($cases)* } };
    }

    #[test]
    fn every_case_is_on_the_list() {
        for (group, source, listed) in crate::__conformance_cases!([list], list) {
            let written: Vec<&str> = source.lines().filter_map(|line| line.strip_prefix("pub async fn ")?.split('(').next()).collect();
            assert_eq!(written, listed, "{group}.rs");
        }
    }
}
