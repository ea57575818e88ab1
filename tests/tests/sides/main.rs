//! The same random operations on Redis and on SQLite, at the same time of one frozen clock: both give the same answers and have the same state after every step, and an audit of
//! each finds nothing. A failing story is shrunk to the shortest that fails.
//!
//! `QUEUE_TEST_CASES` is the number of stories, of a new seed (24, always the same, without it), `QUEUE_TEST_SEED` replays those of a seed, `QUEUE_TEST_SHRINK=0` does not shrink a story that fails. The steps name jobs, lanes and
//! deliveries by numbers that are resolved while the story runs, so that any part of a story is a story: that is what makes shrinking work.
//!
//! Where the contract of a broker leaves an order free, what is compared is said in `compare.rs`.

mod compare;
mod edit;
mod operate;
mod progress;
mod step;
mod topics;
mod world;

use std::fmt::Debug;

use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};

use self::{compare::Check, step::story, topics::topic_story, world::Sides};

/// Most steps of a story.
const STEPS: usize = 60;

#[test]
fn redis_and_sqlite_agree() {
    tell(&story(STEPS), &world::tell);
}

#[test]
fn redis_and_sqlite_agree_on_topics() {
    tell(&topic_story(STEPS), &topics::tell);
}

/// Tells stories.
fn tell<T: Debug + Clone>(stories: &impl Strategy<Value = Vec<T>>, one: &impl AsyncFn(&Sides, &[T]) -> Check) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    // Where nobody asks for more stories, they are always the same.
    let asked = number("QUEUE_TEST_CASES").map(|_| fastrand::u64(..));
    let seed = number("QUEUE_TEST_SEED").or(asked).unwrap_or(1);
    let cases = number("QUEUE_TEST_CASES").and_then(|cases| u32::try_from(cases).ok()).unwrap_or(24);
    println!("seed {seed}; QUEUE_TEST_SEED={seed} tells these stories again");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: u32::try_from(number("QUEUE_TEST_SHRINK").unwrap_or(4000)).unwrap_or(4000),
        max_shrink_time: 120_000,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be started");
    let server = Sides::server();
    let told = runner.run(stories, |story| {
        runtime.block_on(async {
            let sides = Sides::new(&server).await;
            one(&sides, &story).await.map_err(TestCaseError::fail)
        })
    });
    match told {
        Ok(()) => {}
        Err(TestError::Fail(reason, story)) => {
            let steps: String = story.iter().enumerate().map(|(n, step)| format!("{:3} {step:?}\n", n + 1)).collect();
            panic!("{reason}\n\nthe shortest story that fails (QUEUE_TEST_SEED={seed}):\n{steps}");
        }
        Err(other) => panic!("{other}"),
    }
}
