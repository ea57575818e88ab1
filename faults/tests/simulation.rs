//! Worker and client under simulation, with many seeds. `FAULTS_SEED=17 cargo test -p queue-faults --test simulation` replays one.

use queue_faults::sim;

/// How many lives are simulated. `FAULTS_SEEDS=10000` for more.
const SEEDS: u64 = 600;

/// What a failing seed has shown can be seen again.
#[test]
fn a_seed_decides_everything() {
    for seed in 0..20 {
        let life = || format!("{:?}", sim::run(seed).summary);
        assert_eq!(life(), life(), "seed {seed}");
    }
}

#[test]
fn no_simulated_life_breaks_a_promise() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (first, seeds) = match number("FAULTS_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("FAULTS_SEEDS").unwrap_or(SEEDS)),
    };
    let (mut jobs, mut twice) = (0, 0);
    for seed in first..first + seeds {
        let verdict = sim::run(seed);
        assert!(verdict.violations.is_empty(), "FAULTS_SEED={seed}\n{:#?}", verdict.violations);
        jobs += verdict.summary.jobs;
        twice += verdict.summary.duplicates.values().sum::<usize>();
    }
    assert!(seeds == 1 || (jobs > 0 && twice > 0), "{jobs} jobs, {twice} of them twice: the harm hits nothing");
}
