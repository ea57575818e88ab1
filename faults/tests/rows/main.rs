//! A few rows of the fault matrix, with fixed seeds: `cargo xtask faults` runs all of them, with
//! any.

mod simulation;

use std::path::Path;

use queue_faults::{bed::Column, report::Report, rows, run};

macro_rules! rows {
    ($($name:ident: $number:literal on $column:expr;)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            holds($number, $column).await;
        })*
    };
}

rows! {
    on_redis_a_stopped_worker_changes_nothing_when_it_resumes: "M4" on Column::Redis;
    on_redis_cut_replies_to_enqueues_double_nothing: "M19" on Column::Redis;
    on_redis_a_server_that_stands_still_redelivers_nothing: "M31" on Column::Redis;
    on_redis_a_full_server_takes_acks_and_heartbeats: "M36" on Column::Redis;
    on_sqlite_killed_workers_lose_nothing: "M1" on Column::Sqlite;
    on_redis_unique_jobs_are_one_at_a_time_while_workers_die: "M56" on Column::Redis;
    on_sqlite_unique_jobs_are_one_at_a_time_while_workers_die: "M56" on Column::Sqlite;
    on_redis_each_tick_makes_one_job_while_ten_workers_die: "M54" on Column::Redis;
    on_sqlite_each_tick_makes_one_job_while_ten_workers_die: "M54" on Column::Sqlite;
    on_sentinel_each_tick_makes_one_job_while_another_server_takes_over: "M54" on Column::Sentinel;
    on_redis_a_clock_that_steps_makes_no_tick_twice_and_loses_none: "M54b" on Column::Redis;
    on_redis_schedules_tick_at_the_expected_instants: "M55" on Column::Redis;
    on_sqlite_schedules_tick_at_the_expected_instants: "M55" on Column::Sqlite;
    on_redis_groups_keep_their_caps_while_workers_die: "M74" on Column::Redis;
    on_sqlite_groups_keep_their_caps_while_workers_die: "M74" on Column::Sqlite;
    on_redis_limits_hold_while_workers_die: "M75" on Column::Redis;
    on_sqlite_limits_hold_while_workers_die: "M75" on Column::Sqlite;
    on_redis_logs_are_of_the_runs_that_held_the_job: "M76" on Column::Redis;
    on_sqlite_logs_are_of_the_runs_that_held_the_job: "M76" on Column::Sqlite;
    on_redis_each_subscription_has_each_event_while_workers_die: "M79" on Column::Redis;
    on_sqlite_what_a_subscription_has_lost_is_counted: "M82" on Column::Sqlite;
    on_sqlite_events_are_handled_again_after_rewinds: "M83" on Column::Sqlite;
    on_redis_a_cap_holds_as_it_was_set_last_while_workers_die: "M89" on Column::Redis;
    on_redis_an_edited_job_runs_as_it_was_edited: "M90" on Column::Redis;
    on_redis_an_operation_changes_each_job_once_although_its_runners_die: "M91" on Column::Redis;
    on_sqlite_an_operation_changes_each_job_once_although_its_runners_die: "M91" on Column::Sqlite;
    on_sentinel_an_operation_goes_on_when_another_server_takes_over: "M92" on Column::Sentinel;
    on_sentinel_an_operation_goes_on_from_what_a_replica_has: "M93" on Column::Sentinel;
    on_sentinel_callers_hear_of_their_jobs_when_another_server_takes_over: "M94" on Column::Sentinel;
    on_sentinel_a_watcher_hears_of_each_gap_when_another_server_takes_over: "M95" on Column::Sentinel;
    on_sqlite_poison_is_found_and_innocents_live: "M8" on Column::Sqlite;
    on_sqlite_bombs_are_buried_or_set_aside: "M59" on Column::Sqlite;
    on_sqlite_a_file_that_is_moved_is_missed_and_nothing_is_lost: "M66" on Column::Sqlite;
    on_sqlite_a_power_cut_takes_nothing_that_was_acknowledged: "M62" on Column::Sqlite;
}

/// A run is several processes with short leases: more than a few at once would only show that the
/// machine is small.
static TURNS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(3);

async fn holds(number: &str, column: Column) {
    let _turn = TURNS.acquire().await.expect("it is never closed");
    let row = rows::all().into_iter().find(|row| row.number == number).expect("the row is in the matrix");
    let mut report = Report::default();
    let told = |outcome: &run::Outcome| report.add(row, column, outcome);
    let outcome = run::conclusively(row, column, 17, Path::new(env!("CARGO_BIN_EXE_faults")), told).await;
    report.conclude(row, column, &outcome);
    let violations = outcome.verdict.as_ref().map(|verdict| &verdict.violations);
    // The verdict of a wait begins its first line.
    let problem = outcome.problem().map(ToString::to_string).unwrap_or_default();
    assert!(outcome.held(), "{problem}\n{}\n{violations:#?}", report.table());
}
