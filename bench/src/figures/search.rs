//! How fast a search goes through a million jobs, for how long it keeps the server to itself, and
//! how soon a page comes from the middle of them.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use queue_core::{
    Client, JobState,
    inspect::{Change, Filter, Found},
};

use crate::{
    Error,
    frame::{Figure, Reading, Readings},
    server::Server,
    worker::jobs,
};

pub(crate) fn figures() -> Vec<Figure> {
    let about = "A million jobs in one state, `ready`, `scheduled` and `cancelled` one after the other: how many of them a search looks at in a second that finds none, \
                 the CPU time of the longest script, how long a page of 50 takes from the middle of them, and how long one of those with a tag takes that a thousand more jobs have.";
    vec![Figure::redis("search", about, |server| search(server).boxed()).by_cpu().most_runs(2)]
}

const JOBS: usize = 1_000_000;

const STATES: [JobState; 3] = [JobState::Ready, JobState::Cancelled, JobState::Scheduled];

/// How many jobs lie before a page in the middle.
const MIDDLE: u64 = JOBS as u64 / 2;

async fn search(server: &Server) -> Readings {
    let mut readings = Vec::new();
    let client = Client::connect(&server.url()).await?;
    let queue = "bench";
    client.enqueue_all(jobs(JOBS)).await?;
    server.watch_slow()?;
    for state in STATES {
        match state {
            JobState::Cancelled => drop(client.inspector().change_all(queue, Change::Cancel, JobState::Ready).await?),
            JobState::Scheduled => {
                server.flush()?;
                client.enqueue_all(jobs(JOBS).map(|job| job.delay(Duration::from_secs(24 * 3600)))).await?;
            }
            _ => {}
        }
        readings.extend(of_state(&client, state).await?);
    }
    readings.push(by_tag(&client).await?);
    readings.push(server.longest_script()?);
    Ok(readings)
}

/// How long the longest of all pages of a search by a tag takes.
async fn by_tag(client: &Client) -> Result<Reading, Error> {
    const TAGGED: usize = 1_000;
    client.enqueue_all(jobs(TAGGED).map(|job| job.tag("order", "17"))).await?;
    let mut search = client.inspector().search("tag.order=17".parse()?);
    let (mut found, mut longest, mut begun) = (0, Duration::ZERO, Instant::now());
    while let Some(page) = search.next().await? {
        longest = longest.max(begun.elapsed());
        found += page.jobs.len();
        begun = Instant::now();
    }
    if found != TAGGED {
        return Err(format!("a search by a tag has found {found} jobs of {TAGGED}").into());
    }
    Ok(Reading::new("_tag_page", longest.as_secs_f64() * 1e3, "ms"))
}

async fn of_state(client: &Client, state: JobState) -> Result<Vec<Reading>, Error> {
    let filter: Filter = format!("state={state} task=none").parse()?;
    let (begun, mut last) = (Instant::now(), Found::default());
    let mut search = client.inspector().search(filter);
    while let Some(page) = search.next().await? {
        last = page;
    }
    if last.examined != JOBS as u64 {
        return Err(format!("a search for what is {state} has looked at {} jobs of {JOBS}", last.examined).into());
    }
    let rate = last.examined as f64 / begun.elapsed().as_secs_f64();
    let all: Filter = format!("state={state}").parse()?;
    let mut search = client.inspector().search(all.clone()).page(500);
    let mut cursor = None;
    while search.examined() < MIDDLE {
        let Some(page) = search.next().await? else { break };
        cursor = page.cursor;
    }
    let cursor = cursor.ok_or("the middle is not reached")?;
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let begun = Instant::now();
        let page = client.inspector().search(all.clone()).page(50).from(&cursor)?.next().await?.ok_or("there is a page")?;
        longest = longest.max(begun.elapsed());
        if page.jobs.len() != 50 {
            return Err(format!("a page of what is {state} has {} jobs", page.jobs.len()).into());
        }
    }
    Ok(vec![Reading::new(format!("_{state}"), rate, "jobs/s"), Reading::new(format!("_{state}_page"), longest.as_secs_f64() * 1e3, "ms")])
}
