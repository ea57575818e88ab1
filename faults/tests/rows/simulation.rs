//! Worker and client under simulation, with many seeds.
//! `FAULTS_SEED=17 cargo test -p queue-faults --test rows simulation` replays one.

use std::sync::atomic::{AtomicU64, Ordering};

use queue_faults::sim::{self, Life, OUTCOMES, Outcomes};

/// How many lives are simulated. `FAULTS_SEEDS=10000` for more, from `FAULTS_SEED` on.
const SEEDS: u64 = 300;

/// What a failing seed has shown can be seen again.
#[test]
fn a_seed_decides_everything() {
    for seed in 0..20 {
        let life = || {
            let Life { verdict, outcomes } = sim::run(seed);
            format!("{:?} {outcomes:?}", verdict.summary)
        };
        assert_eq!(life(), life(), "seed {seed}");
    }
}

#[test]
fn no_simulated_life_breaks_a_promise_and_everything_happens_in_some() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (first, seeds) = match number("FAULTS_SEED") {
        Some(seed) => (seed, number("FAULTS_SEEDS").unwrap_or(1)),
        None => (0, number("FAULTS_SEEDS").unwrap_or(SEEDS)),
    };
    let next = AtomicU64::new(first);
    let live = || {
        let (mut jobs, mut outcomes) = (0, Outcomes::new());
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + seeds {
                return (jobs, outcomes);
            }
            let life = sim::run(seed);
            assert!(life.verdict.violations.is_empty(), "FAULTS_SEED={seed}\n{:#?}", life.verdict.violations);
            jobs += life.verdict.summary.jobs;
            life.outcomes.into_iter().for_each(|(name, times)| *outcomes.entry(name).or_default() += times);
        }
    };
    let (mut jobs, mut outcomes) = (0, Outcomes::new());
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let lives: Vec<_> = (0..threads).map(|_| scope.spawn(live)).collect();
        for life in lives {
            let (some, its) = life.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            jobs += some;
            its.into_iter().for_each(|(name, times)| *outcomes.entry(name).or_default() += times);
        }
    });
    println!("{seeds} lives, {jobs} jobs: {outcomes:?}");
    let missing: Vec<_> = OUTCOMES.iter().filter(|name| outcomes.get(**name).is_none_or(|times| *times == 0)).collect();
    assert!(seeds < SEEDS || missing.is_empty(), "of {jobs} jobs in {seeds} lives, none met {missing:?}");
}
