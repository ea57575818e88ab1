//! What a turn costs the server, by each of its two scripts.

use futures_util::FutureExt;
use queue_core::{__private::RedisBroker, Client, broker::DynBroker};

use super::instructions::{Lane, done};
use crate::{
    frame::{Figure, Reading, Readings},
    server::Server,
    worker::jobs,
};

pub(crate) fn figures() -> Vec<Figure> {
    let about = "Time in the server per turn that acks 1, 8, 64 or 256 jobs and claims as many, as the server itself measures it: by the plain script, and by the full one.";
    vec![Figure::redis("turn_us", about, |server| turn_us(server).boxed())]
}

async fn turn_us(server: &Server) -> Readings {
    let mut readings = Vec::new();
    for name in ["plain", "full"] {
        for n in [1, 8, 64, 256] {
            server.flush()?;
            let url = server.url();
            let broker: DynBroker =
                if name == "plain" { RedisBroker::connect(&url).await? } else { RedisBroker::__by_full_scripts(&url).await? };
            let client = Client::with_broker(broker);
            let turns = (51_200 / n).min(4_000);
            client.enqueue_all(jobs((turns + 1) * n)).await?;
            let mut lane = Lane::new(client.broker()).await?;
            let mut held = lane.turn(n, Vec::new(), done).await?;
            server.scripts()?;
            for _ in 0..turns {
                held = lane.turn(n, held, done).await?;
            }
            let (calls, us) = server.scripts()?;
            readings.push(Reading::new(format!("_{name}_{n}"), us / calls, "us"));
        }
    }
    Ok(readings)
}
