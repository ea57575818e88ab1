//! The same random operations on Redis and on SQLite, at the same time of one frozen clock: both give the same answers and have the same state after every step, and an audit of
//! each finds nothing. Where the contract of a broker leaves an order free, what is compared is said in `compare.rs` and `world.rs`.
//!
//! `QUEUE_TEST_CASES` is the number of stories, of a new seed; without it and without `QUEUE_TEST_SEED` the same 24 stories are told in each run.

mod compare;
mod operate;
mod world;

use std::fmt::Debug;

use proptest::{strategy::Strategy, test_runner::TestCaseError};

use self::world::Sides;
use crate::{STEPS, compare::Check, judge, step::story, teller, topics, topics::topic_story};

/// The seed and the number of the usual stories.
const USUAL: (u64, u32) = (1, 24);

#[test]
fn both_brokers_agree() {
    tell(&story(STEPS), &world::tell);
}

#[test]
fn both_brokers_agree_on_topics() {
    let one = async |sides: &Sides, story: &[_]| {
        let pass = async || sides.advance(2);
        topics::tell(sides.sqlite(), sides.redis.clone(), story, pass).await
    };
    tell(&topic_story(STEPS), &one);
}

fn tell<T: Debug + Clone>(stories: &impl Strategy<Value = Vec<T>>, one: &impl AsyncFn(&Sides, &[T]) -> Check) {
    let (runtime, mut runner, seed) = teller(Some(USUAL));
    let server = Sides::server();
    let told =
        runner.run(stories, |story| runtime.block_on(async { one(&Sides::new(&server).await, &story).await.map_err(TestCaseError::fail) }));
    judge(told, seed);
}
