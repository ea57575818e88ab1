//! Nothing starves: what two successive claims of a lane must return, and which jobs may overtake
//! which.
//!
//! The property is a pure function over what a broker has stored before and after a claim, and the
//! same for all brokers. The stories have hundreds of groups, limit keys and suspects, most of
//! which may not start. `QUEUE_TEST_CASES` is 64 times the number of stories per broker, of seeds
//! that differ from run to run; `QUEUE_TEST_SEED` replays those of a seed. Without both one story
//! is told, which is always the same.

pub(crate) mod reasons;
pub(crate) mod snapshot;
mod story;

use queue_conformance::conformance::{Bed, Storage};
use queue_tests::{
    server::Kind,
    storages::{Server, SqliteMemory},
};

use self::story::Story;

/// One for so many stories of the two brokers: each has hundreds of claims.
const LONGER: u64 = 64;

/// The story that is told where nobody asks for others: it has found keys of a limit that were not
/// reviewed when that changed.
const USUAL: u64 = 13;

#[test]
fn nothing_starves_on_sqlite() {
    tell(Box::new(SqliteMemory::new()));
}

#[test]
fn nothing_starves_on_redis() {
    tell(Box::new(Server::new(Kind::Redis)));
}

fn tell(storage: Box<dyn Storage>) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be started");
    let cases = number("QUEUE_TEST_CASES");
    let first = number("QUEUE_TEST_SEED").or(cases.map(|_| fastrand::u64(..1 << 32))).unwrap_or(USUAL);
    runtime.block_on(async {
        let mut bed = Bed::new(storage).await;
        for seed in first..first + cases.map_or(1, |cases| cases / LONGER).max(1) {
            bed = bed.in_queue(&format!("progress-{seed}"));
            println!("QUEUE_TEST_SEED={seed}");
            let mut story = Story::new(&bed, seed);
            if let Err(problem) = story.tell().await {
                panic!("{problem}\n\nthe story so far (QUEUE_TEST_SEED={seed} tells it again):\n{}", story.told());
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::snapshot::tests;

    #[test]
    fn the_property_finds_each_breach() {
        tests::each_breach_is_found();
    }
}
