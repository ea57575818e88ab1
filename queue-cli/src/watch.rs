//! `watch`: state transitions of jobs, one per line, until it is stopped.

use std::time::{Duration, Instant};

use queue_core::{
    Client,
    inspect::{Filter, Lost, Transition, Watched},
};
use serde::Serialize;

use super::{
    args::Format,
    exit::Failure,
    output::{plain, print, utc, wrap},
    stop::asked_to_stop,
    terms,
};

pub(super) const HELP: &str = "Examples:
  {bin} watch                                      all queues, until Ctrl-C
  {bin} watch --queue orders 'state=dead'          new dead letters
  {bin} watch 'task=send_mail' --for 30s --json | jq -r '.transition.to' | sort | uniq -c
  {bin} watch 'id=orders/close-17'                 one job

A filter has the fields queue, task, id, attempts, reason, note, and state, which is the one that a job has gone to.";

#[derive(Debug, clap::Args)]
pub(super) struct WatchArgs {
    /// A filter of transitions; the default is all
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// The same as an option, as for commands with --all
    #[arg(long = "where", value_name = "FILTER")]
    terms: Vec<String>,
    /// Only this queue, which need not exist yet; repeat the option for several
    #[arg(long, value_name = "QUEUE")]
    queue: Vec<String>,
    /// End after N transitions
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// End after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = super::args::duration)]
    lasting: Option<Duration>,
    #[command(flatten)]
    format: Format,
}

/// A line of the output with `--json`.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    Transition(&'a Transition),
    Lost(&'a Lost),
}

pub(super) async fn watch(client: &Client, args: &WatchArgs) -> Result<(), Failure> {
    let filter: Filter = terms::filter(&[&args.filter, &args.terms])?;
    let mut watch = client.watch(filter)?;
    for queue in &args.queue {
        watch = watch.queue(queue)?;
    }
    // A time that overflows the clock means no end.
    let end = args.lasting.and_then(|time| Instant::now().checked_add(time));
    let mut stop = Box::pin(asked_to_stop());
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let time = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(Instant::now()));
        let watched = tokio::select! {
            watched = watch.next_within(time) => watched?,
            _ = &mut stop => return Ok(()),
        };
        match watched {
            Some(Watched::Transition(transition)) => {
                left -= 1;
                if args.format.json {
                    line(&Line::Transition(&transition))?;
                } else {
                    print(&wrap(&format!("{} {}", utc(transition.at).unwrap_or_default(), plain(&transition.to_string()))))?;
                }
            }
            Some(Watched::Lost(lost)) if args.format.json => line(&Line::Lost(&lost))?,
            Some(Watched::Lost(lost)) => print(&wrap(&format!("-- {}", plain(&lost.to_string()))))?,
            Some(_) => {}
            None if end.is_some_and(|end| Instant::now() >= end) => return Ok(()),
            None => {}
        }
    }
    Ok(())
}

fn line(line: &Line<'_>) -> std::io::Result<()> {
    print(&serde_json::to_string(line).map_err(std::io::Error::other)?)
}
