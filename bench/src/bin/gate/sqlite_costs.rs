//! SQLite: written bytes, and allocations.

use queue_core::Client;

use crate::{
    Costs, Error, allocations,
    steps::{Hands, ROUNDS, at_once, one_by_one, worker},
};

pub(crate) async fn take() -> Result<Costs, Error> {
    let folder = tempfile::tempdir()?;
    let client = Client::connect(&format!("sqlite://{}", folder.path().join("gate.db").display())).await?;
    let mut costs = Costs::new();
    let mut hands = Hands::new(&client).await?;
    for batch in [1, 64] {
        let jobs = (ROUNDS * batch) as f64;
        let meter = Meter::start()?;
        for _ in 0..ROUNDS {
            hands.enqueue(batch).await?;
        }
        meter.stop(&format!("sqlite enqueue of {batch}"), jobs, &mut costs)?;

        let mut held = hands.turn(batch, Vec::new()).await?;
        let meter = Meter::start()?;
        for _ in 1..ROUNDS {
            held = hands.turn(batch, held).await?;
        }
        meter.stop(&format!("sqlite turn of {batch}"), jobs - batch as f64, &mut costs)?;
        hands.turn(0, held).await?;
    }
    one_by_one(&client, 10).await?;
    let meter = Meter::start()?;
    one_by_one(&client, 300).await?;
    meter.stop("sqlite one by one", 300.0, &mut costs)?;
    let before = allocations();
    worker(&client, 1, 310).await?;
    costs.push(("sqlite worker: allocations per job".to_owned(), (allocations() - before) / 310.0));
    let before = allocations();
    at_once(&client, 10_000).await?;
    costs.push(("sqlite enqueue_all: allocations per job".to_owned(), (allocations() - before) / 10_000.0));
    Ok(costs)
}

/// The work of this process at some time.
struct Meter {
    written: Option<f64>,
    allocations: f64,
}

impl Meter {
    fn start() -> Result<Self, Error> {
        Ok(Meter { written: written()?, allocations: allocations() })
    }

    /// The work since the start, per job.
    fn stop(self, name: &str, jobs: f64, costs: &mut Costs) -> Result<(), Error> {
        let mut cost = |what: &str, value: f64| costs.push((format!("{name}: {what} per job"), value / jobs));
        cost("allocations", allocations() - self.allocations);
        if let (Some(before), Some(now)) = (self.written, written()?) {
            cost("bytes written", now - before);
        }
        Ok(())
    }
}

/// Bytes that this process wrote, on systems that report it. The number of writes is not compared,
/// because threads that wake each other also write.
fn written() -> Result<Option<f64>, Error> {
    let Ok(text) = std::fs::read_to_string("/proc/self/io") else { return Ok(None) };
    let line = text.lines().find_map(|line| line.strip_prefix("wchar:")).ok_or("/proc/self/io has no wchar")?;
    Ok(Some(line.trim().parse()?))
}
