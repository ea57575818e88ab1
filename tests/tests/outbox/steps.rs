//! A process that is killed, or whose database is, exactly between two steps. The number of runs
//! says more than that of the effects: where an effect has committed, its job does not run again,
//! and no job is sent twice.

use queue_conformance::patience::wait;
use queue_core::{Client, JobState};
use queue_tests::postgres::{Postgres, connect};

use crate::{
    bed::{Place, in_places},
    till::Till,
};

/// More than ten: one of them has two rounds.
const ORDERS: u64 = 12;

impl Till {
    async fn jobs(&self) -> u64 {
        let client = Client::open(&self.broker).await.expect("the URL of a server of ours");
        client.inspector().stats("till").await.map_or(0, |stats| stats.count(JobState::Ready))
    }

    /// Rows, rows in flight, and jobs at the broker.
    async fn place(&self) -> (i64, i64, u64) {
        let rows = self.database.number("SELECT count(*) FROM queue_outbox").await;
        let requests = self.database.number("SELECT count(*) FROM queue_relay WHERE seqs IS NOT NULL").await;
        (rows, requests, self.jobs().await)
    }

    /// A worker, with its relay, runs everything: each round of each order once, and `again` more.
    async fn ends(&self, again: i64) {
        let worker = self.start("work");
        self.settles().await;
        worker.kill();
        self.free().await;
        assert_eq!(self.runs().await - self.rounds().await, again, "runs of jobs that had run before");
    }
}

mod cases {
    use super::*;

    /// Nothing was written before the commit; everything is there after it.
    pub(super) async fn the_application_is_killed(place: Place) {
        let mut till = Till::new(place, None).await;
        for (step, there) in [("ordered", 0), ("inserted", 0), ("committed", 1)] {
            let before = till.database.number("SELECT count(*) FROM orders").await;
            till.orders += ORDERS;
            till.stopped("orders", step).await.kill();
            let orders = wait("the end of its transaction").some(async || {
                let orders = till.database.number("SELECT count(*) FROM orders").await;
                (orders == before + there).then_some(orders)
            });
            assert_eq!(orders.await, till.database.number("SELECT count(*) FROM queue_outbox").await + before);
            till.order(0).await;
            till.ends(0).await;
            till.database.execute("DELETE FROM runs").await;
            till.database.execute("INSERT INTO runs (n) SELECT n FROM effects").await;
        }
    }

    /// Everything that it had sent has run and is gone before the next relay comes.
    pub(super) async fn the_relay_is_killed(place: Place) {
        let mut till = Till::new(place, None).await;
        for step in ["taken", "sent"] {
            till.order(ORDERS).await;
            let relay = till.stopped("relay", step).await;
            let jobs = if step == "sent" { ORDERS } else { 0 };
            assert_eq!(till.place().await, (ORDERS.cast_signed(), 1, jobs));
            // Its relay has no lease.
            let worker = till.start("work");
            if step == "sent" {
                wait("the jobs that were sent to have run")
                    .until(async || till.runs().await >= till.rounds().await && till.jobs().await == 0)
                    .await;
            }
            relay.kill();
            till.free().await;
            till.settles().await;
            worker.kill();
            till.free().await;
            assert_eq!(till.runs().await, till.rounds().await, "a job was sent twice");
        }
    }

    pub(super) async fn the_worker_is_killed(place: Place) {
        let mut till = Till::new(place, None).await;
        let mut again = 0;
        for step in ["effect", "paid", "effect of a round", "paid in a round", "acked"] {
            till.order(ORDERS).await;
            till.stopped("work", step).await.kill();
            till.free().await;
            // What has committed does not run again.
            again += i64::from(step.starts_with("effect"));
            till.ends(again).await;
        }
    }

    /// Its copy has the rows of all jobs, of which one runs and the others wait, all without an
    /// effect. The application goes on beside a server; a file is replaced while it is down.
    pub(super) async fn the_database_is_restored_while_a_job_runs_and_others_wait(place: Place) {
        let mut till = Till::new(place, (place != Place::SqliteRedis).then(Postgres::start)).await;
        till.order(ORDERS).await;
        till.database.is_copied(&mut till.server);
        let relay = till.start("relay");
        wait("all jobs to be sent").until(async || till.database.waiting().await == 0).await;
        relay.kill();
        till.free().await;
        let worker = till.stopped("work", "effect").await;
        assert_eq!(till.place().await, (0, 0, ORDERS - 1), "one runs");
        let worker = if till.server.is_some() {
            till.database.is_set_back(&mut till.server);
            worker.goes_on()
        } else {
            worker.kill();
            till.database.is_set_back(&mut till.server);
            till.start("work")
        };
        till.settles().await;
        worker.kill();
        // The restore has lost the beginning of the first run.
        assert_eq!(till.runs().await, till.rounds().await, "a job has come twice");
    }
}

in_places! {
    cases
    the_application_is_killed
    the_database_is_restored_while_a_job_runs_and_others_wait
    the_relay_is_killed
    the_worker_is_killed
}

/// Where the server itself is held in the middle of a COMMIT.
mod on_postgres_alone {
    use super::*;

    /// Commits of these changes wait for a lock.
    const HELD: &str = "CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(47); RETURN NULL; END $$; \
        CREATE CONSTRAINT TRIGGER held AFTER {event} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW {when} EXECUTE FUNCTION held()";

    /// The part whose COMMIT is held, and of what.
    const COMMITS: [(&str, &str, &str); 4] = [
        ("orders", "INSERT ON queue_outbox", ""),
        ("relay", "UPDATE ON queue_relay", "WHEN (OLD.seqs IS NULL AND NEW.seqs IS NOT NULL)"),
        ("relay", "UPDATE ON queue_relay", "WHEN (OLD.seqs IS NOT NULL AND NEW.seqs IS NULL)"),
        ("work", "INSERT ON queue_effects", ""),
    ];

    /// The process dies and its COMMIT succeeds, or the server dies and nothing of it is left.
    async fn killed_in_the_middle_of_a_commit(part: &str, event: &str, when: &str, kills_server: bool) {
        println!("{part} in the commit of {event} {when}, {}", if kills_server { "the server is killed" } else { "it is killed" });
        let mut till = Till::new(Place::PostgresRedis, Some(Postgres::start())).await;
        let crate::bed::Database::Postgres { url } = &till.database else { unreachable!("it is in PostgreSQL") };
        let url = url.clone();
        if part != "orders" {
            till.order(ORDERS).await;
        }
        till.database.execute(&HELD.replace("{event}", event).replace("{when}", when)).await;
        let holder = connect(&url).await;
        holder.batch_execute("SELECT pg_advisory_lock(47)").await.expect("nobody has it");
        till.orders = ORDERS;
        // The relay of the worker is not the one that is held.
        if part == "work" {
            let relay = till.start("relay");
            wait("all jobs to be sent").until(async || till.database.waiting().await == 0).await;
            relay.kill();
            till.free().await;
        }
        let process = till.start(part);
        let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        // All that its worker runs at once.
        let held = if part == "work" { 8 } else { 1 };
        wait("a COMMIT to be held").until(async || till.database.number(waiting).await >= held).await;
        let open = if part == "work" { till.runs().await } else { 0 };
        if kills_server {
            till.server.as_mut().expect("it has one").restart();
            drop(holder);
            till.database.execute("DROP FUNCTION held CASCADE").await;
            // It goes on.
            if part == "orders" {
                till.all_ordered(process).await;
            } else {
                till.free().await;
                till.ends_with(open).await;
                process.kill();
                return;
            }
        } else {
            process.kill();
            drop(holder);
            wait("the COMMIT to end").until(async || till.database.number(waiting).await == 0).await;
            till.database.execute("DROP FUNCTION held CASCADE").await;
            till.free().await;
        }
        till.order(0).await;
        // Of those that were committed none runs again.
        till.ends_with(if kills_server { open } else { 0 }).await;
    }

    impl Till {
        /// Not more than these run again.
        async fn ends_with(&self, again: i64) {
            let worker = self.start("work");
            self.settles().await;
            worker.kill();
            let more = self.runs().await - self.rounds().await;
            assert!((0..=again).contains(&more), "{more} runs of jobs that had run before, and {again} were open");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_redis_a_process_is_killed_in_the_middle_of_a_commit() {
        for (part, event, when) in COMMITS {
            killed_in_the_middle_of_a_commit(part, event, when, false).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_redis_the_server_is_killed_in_the_middle_of_a_commit() {
        for (part, event, when) in COMMITS {
            killed_in_the_middle_of_a_commit(part, event, when, true).await;
        }
    }

    /// Its process goes on when the server is there again.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_redis_the_server_is_killed_between_two_steps() {
        let mut till = Till::new(Place::PostgresRedis, Some(Postgres::start())).await;
        let mut again = 0;
        for (part, step) in [("orders", "inserted"), ("relay", "taken"), ("relay", "sent"), ("work", "effect"), ("work", "paid")] {
            if part == "orders" {
                till.orders += ORDERS;
            } else {
                till.order(ORDERS).await;
            }
            let stopped = till.stopped(part, step).await;
            till.server.as_mut().expect("it has one").restart();
            let process = stopped.goes_on();
            if part == "orders" {
                till.all_ordered(process).await;
                till.ends(again).await;
            } else {
                again += i64::from(step == "effect");
                if part == "relay" {
                    wait("all jobs to be sent").until(async || till.database.waiting().await == 0).await;
                    process.kill();
                    till.free().await;
                    till.ends(again).await;
                } else {
                    till.settles().await;
                    process.kill();
                    assert_eq!(till.runs().await - till.rounds().await, again);
                }
            }
            till.free().await;
        }
    }
}
