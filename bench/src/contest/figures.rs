//! The figures of a contestant.

use std::{path::Path, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt};
use queue_tests::postgres::Postgres;
use serde_json::Value;

use super::{Contestant, Store, killed};
use crate::{
    Error,
    frame::{Figure, Reading, Readings},
    server::Server,
};

/// Measures a contestant at a URL, with its server if there is one.
type Measurement = for<'a> fn(Arc<Contestant>, String, Option<&'a Server>) -> BoxFuture<'a, Readings>;

/// A figure of a contestant, if the contestant supports it.
type Kind = fn(&Arc<Contestant>) -> Option<Figure>;

/// All figures of these, grouped by kind, so that those of one kind are taken within minutes.
/// Figures with the same meaning as our own have the same names.
pub(crate) fn figures(contestants: &[Contestant]) -> Vec<Figure> {
    let contestants: Vec<Arc<Contestant>> = contestants.iter().cloned().map(Arc::new).collect();
    let kinds: [Kind; 9] = [process, process_c64, enqueue_c50, enqueue_all, memory, server_us, latency, lateness, death];
    kinds.iter().flat_map(|kind| contestants.iter().filter_map(kind)).collect()
}

fn process(contestant: &Arc<Contestant>) -> Option<Figure> {
    let about = "Draining a backlog of no-op jobs of 100 bytes at concurrency 256.";
    Some(figure(contestant, "process", about, |contestant, url, _| drain(contestant, url, 256).boxed()).raw(50))
}

fn process_c64(contestant: &Arc<Contestant>) -> Option<Figure> {
    let about = "Draining a backlog of no-op jobs of 100 bytes at concurrency 64.";
    Some(figure(contestant, "process_c64", about, |contestant, url, _| drain(contestant, url, 64).boxed()).raw(50))
}

fn enqueue_c50(contestant: &Arc<Contestant>) -> Option<Figure> {
    let about = "50 concurrent producers, each awaiting its own answers.";
    let measure: Measurement = |contestant, url, _| {
        async move {
            let n = contestant.n_jobs();
            let answer = contestant.ask(&url, &["enqueue", &n.to_string(), "50"]).await?;
            Ok(vec![contestant.rate(&answer)?])
        }
        .boxed()
    };
    Some(figure(contestant, "enqueue_c50", about, measure).raw(50))
}

fn enqueue_all(contestant: &Arc<Contestant>) -> Option<Figure> {
    let about = "Enqueueing many at once, with the call that there is for that.";
    let measure: Measurement = |contestant, url, _| async move { Ok(vec![contestant.rate(&contestant.fill(&url).await?)?]) }.boxed();
    contestant.about.bulk.then(|| figure(contestant, "enqueue_all", about, measure).raw(50))
}

fn memory(contestant: &Arc<Contestant>) -> Option<Figure> {
    let about = "Bytes of redis-server per pending job beyond its payload of 100 bytes.";
    let measure: Measurement = |contestant, url, server| {
        async move {
            let Some(server) = server else { return Ok(Vec::new()) };
            let before = server.info("memory", "used_memory")?;
            contestant.fill(&url).await?;
            // While a hash table grows, both of its tables exist.
            tokio::time::sleep(Duration::from_secs(2)).await;
            let each = (server.info("memory", "used_memory")? - before) / contestant.n_jobs() as f64;
            Ok(vec![Reading::new("", each - 100.0, "bytes")])
        }
        .boxed()
    };
    (contestant.store == Store::Redis).then(|| figure(contestant, "memory", about, measure).most_runs(1))
}

fn server_us(contestant: &Arc<Contestant>) -> Option<Figure> {
    let about = "CPU time of redis-server per job, and commands that it carried out, those of scripts too: enqueued at once where that can be, and drained at concurrency 256.";
    let measure: Measurement = |contestant, url, server| {
        async move {
            let Some(server) = server else { return Ok(Vec::new()) };
            let used = || Ok::<_, Error>((server.cpu_us()?, server.info("stats", "total_commands_processed")?));
            let (us_before, commands_before) = used()?;
            contestant.fill(&url).await?;
            drain_filled(&contestant, &url, 256).await?;
            let (us, commands) = used()?;
            let n = contestant.n_jobs() as f64;
            Ok(vec![Reading::new("", (us - us_before) / n, "us"), Reading::new("_commands", (commands - commands_before) / n, "commands")])
        }
        .boxed()
    };
    (contestant.store == Store::Redis).then(|| figure(contestant, "server_us", about, measure).most_runs(3))
}

fn latency(contestant: &Arc<Contestant>) -> Option<Figure> {
    let about = "From the call of enqueue to the start of the handler in the same process, one job at a time on an idle queue.";
    let measure: Measurement = |contestant, url, _| {
        async move {
            let answer = contestant.ask(&url, &["latency", "30"]).await?;
            readings(&answer, &[("_p50", "p50", "ms"), ("_p99", "p99", "ms")])
        }
        .boxed()
    };
    Some(figure(contestant, "latency", about, measure).most_runs(3))
}

fn lateness(contestant: &Arc<Contestant>) -> Option<Figure> {
    let about = "From due to start: 10,000 jobs due over ten seconds, then single delays of 20 to 500 ms on an idle queue.";
    let measure: Measurement = |contestant, url, _| {
        async move {
            let answer = contestant.ask(&url, &["lateness"]).await?;
            let names = [
                ("_p50", "p50", "ms"),
                ("_p99", "p99", "ms"),
                ("_single_p50", "single_p50", "ms"),
                ("_single_p99", "single_p99", "ms"),
                ("_early", "early", "jobs"),
            ];
            readings(&answer, &names)
        }
        .boxed()
    };
    contestant.about.delays.then(|| figure(contestant, "lateness", about, measure).most_runs(1))
}

fn death(contestant: &Arc<Contestant>) -> Option<Figure> {
    let about = "Of two worker processes one is killed in the middle of a backlog: jobs that never end, that end twice, and the time until the last has ended.";
    let measure: Measurement = |contestant, url, _| killed::measure(contestant, url).boxed();
    (contestant.store == Store::Redis).then(|| figure(contestant, "killed", about, measure).most_runs(1))
}

/// A figure on the store of the contestant.
fn figure(contestant: &Arc<Contestant>, what: &str, about: &'static str, measure: Measurement) -> Figure {
    let (of, contestant) = (contestant.name, contestant.clone());
    match contestant.store {
        Store::Redis => Figure::redis(what.to_owned(), about, move |server| measure(contestant.clone(), server.url(), Some(server))).of(of),
        Store::Postgres => Figure::program(format!("postgres_{what}"), about, move |program: &Path| {
            let contestant = contestant.clone();
            async move {
                let (redis, database) = (Server::start(program)?, Postgres::on_disk());
                let contestant = Arc::new(Contestant { broker: Some(redis.url()), ..Contestant::clone(&contestant) });
                measure(contestant, database.url(), None).await
            }
            .boxed()
        })
        .of(of),
        Store::Sqlite => Figure::sqlite(format!("sqlite_{what}"), about, move |folder: &Path| {
            measure(contestant.clone(), format!("sqlite://{}", folder.join("queue.db").display()), None)
        })
        .of(of),
    }
}

async fn drain(contestant: Arc<Contestant>, url: String, concurrency: usize) -> Readings {
    contestant.fill(&url).await?;
    let answer = drain_filled(&contestant, &url, concurrency).await?;
    Ok(vec![contestant.rate(&answer)?])
}

async fn drain_filled(contestant: &Contestant, url: &str, concurrency: usize) -> Result<Value, Error> {
    contestant.ask(url, &["drain", &contestant.n_jobs().to_string(), &concurrency.to_string()]).await
}

impl Contestant {
    /// The number of jobs in a backlog, and in a run of enqueues.
    fn n_jobs(&self) -> usize {
        let n = match self.store {
            Store::Redis => 100_000,
            Store::Sqlite | Store::Postgres => 20_000,
        };
        self.about.most_jobs.map_or(n, |most| most.min(n))
    }

    async fn fill(&self, url: &str) -> Result<Value, Error> {
        self.ask(url, &["fill", &self.n_jobs().to_string()]).await
    }

    /// Jobs per second. On Redis, also relative to raw Redis.
    fn rate(&self, answer: &Value) -> Result<Reading, Error> {
        let value = self.n_jobs() as f64 / number(answer, "seconds")?;
        Ok(if self.store == Store::Redis { Reading::rate(value) } else { Reading::new("", value, "jobs/s") })
    }
}

fn readings(answer: &Value, names: &[(&'static str, &str, &'static str)]) -> Readings {
    names.iter().map(|(suffix, name, unit)| Ok(Reading::new(*suffix, number(answer, name)?, unit))).collect()
}

fn number(answer: &Value, name: &str) -> Result<f64, Error> {
    Ok(answer.get(name).and_then(Value::as_f64).ok_or_else(|| format!("the answer has no number {name}: {answer}"))?)
}
