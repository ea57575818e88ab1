//! Random operations on a real broker and on the [`Model`](queue_conformance::model::Model), compared after every step: each answer, and
//! every job. A failing story is shrunk to the shortest that fails.
//!
//! `QUEUE_TEST_CASES` is the number of stories per broker (64), `QUEUE_TEST_SEED` replays those of a seed, `QUEUE_TEST_SHRINK=0` does
//! not shrink a story that fails. The steps name jobs,
//! lanes and deliveries by numbers that are resolved while the story runs, so that any part of a story is a story: that is
//! what makes shrinking work, although the broker chooses some things for itself.

mod compare;
mod edit;
mod follow;
mod operate;
mod progress;
mod sides;
mod step;
mod topics;
mod why;
mod world;

use std::{fmt::Debug, time::Duration};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use queue_conformance::{conformance::Storage, memory_broker::Memory};
use queue_core::broker::DynBroker;
use queue_tests::{
    server::Kind,
    storages::{Server, SqliteMemory},
};
use tokio::runtime::Runtime;

use self::{
    step::story,
    topics::{tell, topic_story},
    world::World,
};

/// Most steps of a story.
const STEPS: usize = 60;

#[test]
fn sqlite_does_what_the_model_does() {
    compare(SqliteMemory::new());
}

#[test]
fn redis_does_what_the_model_does() {
    compare(Server::new(Kind::Redis));
}

#[test]
fn redis_does_what_the_model_does_by_full_scripts() {
    compare(Server::by_full_scripts(Kind::Redis));
}

#[test]
fn valkey_does_what_the_model_does() {
    compare(Server::new(Kind::Valkey));
}

/// The comparison itself: the model agrees with itself.
#[test]
fn the_model_does_what_the_model_does() {
    compare(Memory::new());
}

#[test]
fn sqlite_does_with_topics_what_the_model_does() {
    compare_topics(SqliteMemory::new());
}

#[test]
fn redis_does_with_topics_what_the_model_does() {
    compare_topics(Server::new(Kind::Redis));
}

#[test]
fn valkey_does_with_topics_what_the_model_does() {
    compare_topics(Server::new(Kind::Valkey));
}

fn compare(mut storage: impl Storage) {
    let (runtime, mut runner, seed) = teller(None);
    let broker: DynBroker = runtime.block_on(storage.open());
    let told = runner.run(&story(STEPS), |story| {
        runtime.block_on(async {
            let mut world = World::new(broker.clone()).await;
            for (n, step) in story.iter().enumerate() {
                world.act(step).await.map_err(|problem| TestCaseError::fail(format!("step {}, {step:?}: {problem}", n + 1)))?;
            }
            Ok(())
        })
    });
    judge(told, seed);
}

fn compare_topics(mut storage: impl Storage) {
    let (runtime, mut runner, seed) = teller(None);
    let (broker, memory): (DynBroker, DynBroker) = (runtime.block_on(storage.open()), runtime.block_on(Memory::new().open()));
    let told = runner.run(&topic_story(STEPS), |story| {
        let pass = async || tokio::time::sleep(Duration::from_millis(2)).await;
        runtime.block_on(async { tell(memory.clone(), broker.clone(), &story, pass).await.map_err(TestCaseError::fail) })
    });
    judge(told, seed);
}

/// Who tells stories, by which seed. `usual`: the seed and the number of the stories that are told where nobody asks for others.
fn teller(usual: Option<(u64, u32)>) -> (Runtime, TestRunner, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let asked = number("QUEUE_TEST_CASES").and_then(|cases| u32::try_from(cases).ok());
    let usual_seed = usual.filter(|_| asked.is_none()).map(|(seed, _)| seed);
    let seed = number("QUEUE_TEST_SEED").or(usual_seed).unwrap_or_else(|| fastrand::u64(..));
    let cases = asked.unwrap_or(usual.map_or(64, |(_, cases)| cases));
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
