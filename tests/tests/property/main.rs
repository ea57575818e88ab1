//! The same random operations on Redis and on SQLite, at the same time of one frozen clock: both
//! give the same answers and have the same state after every step, and an audit of each finds
//! nothing. Where the contract of a broker leaves an order free, what is compared is said in
//! `compare.rs` and `world.rs`. The same comparison holds for a broker on Redis that uses plain
//! scripts and one that does not; of these two all stored bytes are compared.
//!
//! The steps name jobs, lanes and deliveries by numbers that are resolved while the story runs: so
//! any part of a story is a story, and one that fails can be shrunk although the brokers choose
//! some things for themselves. `QUEUE_TEST_SEED` replays the stories of a seed,
//! `QUEUE_TEST_SHRINK=0` does not shrink a story that fails.
//!
//! `QUEUE_TEST_CASES` is the number of stories, of a new seed; without it and without
//! `QUEUE_TEST_SEED` the same stories are told in each run.

mod compare;
mod edit;
mod job;
mod operate;
mod progress;
mod step;
mod topics;
mod world;

use std::{fmt::Debug, sync::Arc};

use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};
use queue_tests::server::Server;
use tokio::runtime::Runtime;

use self::{
    compare::Check,
    step::{story, story_for_scripts},
    topics::topic_story,
    world::Sides,
};

/// Most steps of a story.
const STEPS: usize = 60;

/// The seed of the usual stories, and how many these are of both brokers, and of each other kind.
/// One takes a fifth of a second of one core: 57 % of it is the thread of the test, whose code and
/// that of our crates is not optimized, 24 % the server, and 19 % the threads of the two brokers.
/// So neither fewer calls nor faster scripts alone make it short.
const SEED: u64 = 1;
const OF_BROKERS: u32 = 100;
const OF_OTHERS: u32 = 24;

#[test]
fn both_brokers_agree() {
    tell(OF_BROKERS, &story(STEPS), &Sides::of_brokers, &world::tell);
}

#[test]
fn both_brokers_agree_on_topics() {
    tell(OF_OTHERS, &topic_story(STEPS), &Sides::of_brokers, &topics::tell);
}

#[test]
fn plain_and_full_scripts_leave_the_same_state() {
    tell(OF_OTHERS, &story_for_scripts(STEPS), &Sides::of_scripts, &world::tell);
}

fn tell<T: Debug + Clone>(
    usual: u32,
    stories: &impl Strategy<Value = Vec<T>>,
    sides: &impl AsyncFn(&Arc<Server>) -> Sides,
    one: &impl AsyncFn(&Sides, &[T]) -> Check,
) {
    let (runtime, mut runner, seed) = teller(usual);
    let server = Sides::server();
    let told =
        runner.run(stories, |story| runtime.block_on(async { one(&sides(&server).await, &story).await.map_err(TestCaseError::fail) }));
    judge(told, seed);
}

/// Who tells stories, so many if no other number is asked for, and by which seed.
fn teller(usual: u32) -> (Runtime, TestRunner, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let asked = number("QUEUE_TEST_CASES").and_then(|cases| u32::try_from(cases).ok());
    let usual_seed = asked.is_none().then_some(SEED);
    let seed = number("QUEUE_TEST_SEED").or(usual_seed).unwrap_or_else(|| fastrand::u64(..));
    let cases = asked.unwrap_or(usual);
    println!("seed {seed}; QUEUE_TEST_SEED={seed} tells these stories again");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: u32::try_from(number("QUEUE_TEST_SHRINK").unwrap_or(4000)).unwrap_or(4000),
        max_shrink_time: 120_000,
        ..Config::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be started");
    (runtime, TestRunner::new_with_rng(config, rng), seed)
}

fn judge<T: Debug>(told: Result<(), TestError<Vec<T>>>, seed: u64) {
    match told {
        Ok(()) => {}
        Err(TestError::Fail(reason, story)) => {
            let steps: String = story.iter().enumerate().map(|(n, step)| format!("{:3} {step:?}\n", n + 1)).collect();
            panic!("{reason}\n\nthe shortest story that fails (QUEUE_TEST_SEED={seed}):\n{steps}");
        }
        Err(other) => panic!("{other}"),
    }
}
