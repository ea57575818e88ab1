//! Redis: commands including those in scripts, requests, bytes on the wire, and allocations.

use queue_core::Client;
use queue_tests::server::{Kind, Server};

use crate::{
    Costs, Error, allocations,
    steps::{Hands, ROUNDS, at_once, one_by_one, worker},
};

pub(crate) async fn take() -> Result<Costs, Error> {
    let server = Server::start(Kind::Redis);
    let client = Client::connect(&server.url()).await?;
    let mut costs = Costs::new();
    let mut hands = Hands::new(&client).await?;
    for batch in [1, 16, 64, 256] {
        let jobs = (ROUNDS * batch) as f64;
        let meter = Meter::start(&server)?;
        for _ in 0..ROUNDS {
            hands.enqueue(batch).await?;
        }
        meter.stop(&server, &format!("redis enqueue of {batch}"), jobs, &mut costs)?;

        let mut held = hands.turn(batch, Vec::new()).await?;
        let meter = Meter::start(&server)?;
        for _ in 1..ROUNDS {
            held = hands.turn(batch, held).await?;
        }
        meter.stop(&server, &format!("redis turn of {batch}"), jobs - batch as f64, &mut costs)?;
        hands.turn(0, held).await?;
    }
    one_by_one(&client, 10).await?;
    let meter = Meter::start(&server)?;
    one_by_one(&client, 1_000).await?;
    meter.stop(&server, "redis one by one", 1_000.0, &mut costs)?;
    // Each concurrent batch has a separate producer, which registers at its first use.
    at_once(&client, 5_000).await?;
    let meter = Meter::start(&server)?;
    at_once(&client, 10_000).await?;
    meter.stop(&server, "redis enqueue_all", 10_000.0, &mut costs)?;
    // One job at a time. With more, the number of jobs in a turn would depend on timing.
    let meter = Meter::start(&server)?;
    worker(&client, 1, 16_010).await?;
    meter.stop(&server, "redis worker", 16_010.0, &mut costs)?;
    rarer(&server, &mut costs).await?;
    Ok(costs)
}

/// Single jobs in queues in the state after some weeks.
async fn rarer(server: &Server, costs: &mut Costs) -> Result<(), Error> {
    // The buffer of a connection grows with the data that arrives at once. For the large answers
    // before, that depends on timing.
    let client = &Client::connect(&server.url()).await?;
    let queues = [
        ("kept", Hands::in_queue("kept", client).await?.keeping()),
        ("beside a dead one", Hands::in_queue("dead", client).await?.beside_a_dead_job().await?),
        ("kept, beside a dead one", Hands::in_queue("kept-dead", client).await?.keeping().beside_a_dead_job().await?),
        ("large", Hands::in_queue("large", client).await?.with_large_jobs()?),
    ];
    for (how, mut hands) in queues {
        hands.enqueue(ROUNDS).await?;
        // The first turn of each kind sends the text of its script.
        let mut held = hands.turn(1, Vec::new()).await?;
        held = hands.turn(1, held).await?;
        let meter = Meter::start(server)?;
        for _ in 2..ROUNDS {
            held = hands.turn(1, held).await?;
        }
        meter.stop(server, &format!("redis turn of 1, {how}"), (ROUNDS - 2) as f64, costs)?;
        hands.turn(0, held).await?;
    }
    Ok(())
}

/// The work of the server and this process at some time.
struct Meter {
    commands: f64,
    requests: f64,
    sent: f64,
    received: f64,
    /// The bytes of the server's answers to this meter, which are not part of the measurement.
    told: f64,
    allocations: f64,
}

impl Meter {
    fn start(server: &Server) -> Result<Self, Error> {
        let stats = server.command(&["INFO", "stats"]);
        let number = |field: &str| -> Result<f64, Error> {
            let line = stats.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
            Ok(line.ok_or_else(|| format!("INFO stats has no {field}"))?.trim().parse()?)
        };
        let (sent, received) = (number("total_net_input_bytes")?, number("total_net_output_bytes")?);
        let calls = server.command(&["INFO", "commandstats"]);
        let (mut commands, mut requests) = (0.0, 0.0);
        for line in calls.lines() {
            let Some((name, rest)) = line.strip_prefix("cmdstat_").and_then(|line| line.split_once(":calls=")) else { continue };
            let calls: f64 = rest.split(',').next().unwrap_or(rest).parse()?;
            // The commands of this meter are not counted.
            if name != "info" && !name.starts_with("client") && !name.starts_with("hello") {
                commands += calls;
            }
            if name.starts_with("eval") {
                requests += calls;
            }
        }
        let told = (stats.len() + calls.len()) as f64;
        Ok(Meter { commands, requests, sent, received, told, allocations: allocations() })
    }

    /// The work since the start, per job.
    fn stop(self, server: &Server, name: &str, jobs: f64, costs: &mut Costs) -> Result<(), Error> {
        let allocations = allocations();
        let end = Meter::start(server)?;
        let mut cost = |what: &str, value: f64| costs.push((format!("{name}: {what} per job"), value / jobs));
        cost("commands", end.commands - self.commands);
        cost("requests", end.requests - self.requests);
        cost("bytes sent", end.sent - self.sent);
        cost("bytes received", end.received - self.received - self.told);
        cost("allocations", allocations - self.allocations);
        Ok(())
    }
}
