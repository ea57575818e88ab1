//! Jobs that a contestant loses or runs twice when a worker is killed.

use std::{
    collections::HashMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use queue_contender::now_us;
use tempfile::TempDir;

use super::Contestant;
use crate::{
    Error,
    frame::{Reading, Readings},
};

/// Jobs of ten milliseconds each: some seconds of work for two processes. A contestant with a lower
/// limit gets fewer.
const JOBS: usize = 20_000;
const CONCURRENCY: usize = 64;
/// A job that has not ended this long after the kill counts as lost: longer than the sum of any
/// contestant's timeouts.
const LOST: Duration = Duration::from_secs(360);
/// A job that was redelivered shortly before the last job ended may end a second time.
const SETTLE: Duration = Duration::from_secs(3);

/// The runs of one job.
#[derive(Debug, Default)]
struct Runs {
    starts: usize,
    ends: usize,
    first_end_us: u64,
}

pub(super) async fn measure(contestant: Arc<Contestant>, url: String) -> Readings {
    let n = contestant.about.most_jobs.map_or(JOBS, |most| most.min(JOBS));
    contestant.ask(&url, &["mark", &n.to_string()]).await?;
    let folder = TempDir::new()?;
    let files = [folder.path().join("killed"), folder.path().join("survivor")];
    let mut killed = contestant.start(&url, CONCURRENCY, &files[0])?;
    let mut survivor = contestant.start(&url, CONCURRENCY, &files[1])?;
    let begun = Instant::now();
    while marks(&files[..1])?.len() < n / 5 || marks(&files[1..])?.is_empty() {
        if begun.elapsed() > Duration::from_secs(60) {
            return Err(format!("{}: the workers did not get to work within 60 s", contestant.name).into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    killed.kill().await?;
    let (killed_at, killed_us) = (Instant::now(), now_us());
    let interrupted = marks(&files[..1])?.values().filter(|runs| runs.starts > runs.ends).count();
    while ended(&marks(&files)?) < n && killed_at.elapsed() < LOST {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    tokio::time::sleep(SETTLE).await;
    survivor.kill().await?;
    let runs = marks(&files)?;
    let last_us = runs.values().map(|runs| runs.first_end_us).max().unwrap_or(killed_us);
    Ok(vec![
        Reading::new("_interrupted", interrupted as f64, "jobs"),
        Reading::new("_lost", (n - ended(&runs)) as f64, "jobs"),
        Reading::new("_doubled", runs.values().filter(|runs| runs.ends > 1).count() as f64, "jobs"),
        Reading::new("_again", last_us.saturating_sub(killed_us) as f64 / 1e6, "s"),
    ])
}

fn ended(runs: &HashMap<u64, Runs>) -> usize {
    runs.values().filter(|runs| runs.ends > 0).count()
}

/// The marks of the workers. The last line of a killed worker may be torn.
fn marks(files: &[impl AsRef<Path>]) -> Result<HashMap<u64, Runs>, Error> {
    let mut jobs: HashMap<u64, Runs> = HashMap::new();
    for file in files {
        let Ok(text) = std::fs::read_to_string(file) else { continue };
        for line in text.lines() {
            let mut words = line.split(' ');
            let (Some(phase), Some(Ok(number)), Some(Ok(at_us))) =
                (words.next(), words.next().map(str::parse), words.next().map(str::parse::<u64>))
            else {
                continue;
            };
            let runs = jobs.entry(number).or_default();
            if phase == "start" {
                runs.starts += 1;
            } else {
                runs.ends += 1;
                runs.first_end_us = if runs.ends == 1 { at_us } else { runs.first_end_us.min(at_us) };
            }
        }
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_and_doubled_jobs_are_read_from_the_marks() {
        let folder = TempDir::new().unwrap();
        let files = [folder.path().join("killed"), folder.path().join("survivor"), folder.path().join("missing")];
        std::fs::write(&files[0], "start 1 10\nend 1 20\nstart 2 20\nend 3").unwrap();
        std::fs::write(&files[1], "start 1 30\nend 1 40\n").unwrap();
        let runs = marks(&files).unwrap();
        let of = |number| (runs[&number].starts, runs[&number].ends, runs[&number].first_end_us);
        assert_eq!((of(1), of(2)), ((2, 2, 20), (1, 0, 0)));
        assert_eq!((ended(&runs), runs.len()), (1, 2));
    }
}
