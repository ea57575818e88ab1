//! `jobs search`: pages of the matching jobs of all queues. A later call continues after the last
//! page, even if the queues have changed.

use std::time::{Duration, Instant};

use queue_core::{
    Client,
    inspect::{Filter, JobRecord},
};
use serde::Serialize;

use super::{
    args::Format,
    exit::{Failure, note},
    jobs::COLUMNS,
    output::{print, print_json},
    progress::Line,
    queues::{self, Unreadable},
    table, terms,
};

#[derive(Debug, clap::Args)]
pub(super) struct SearchArgs {
    /// A filter, as for `jobs list`
    #[arg(value_name = "FILTER")]
    pub(super) filter: Vec<String>,
    /// The same as an option, as for commands with --all
    #[arg(long = "where", value_name = "FILTER")]
    pub(super) terms: Vec<String>,
    /// Only jobs of this queue; repeat the option for several; the default is all queues
    #[arg(long, value_name = "QUEUE")]
    pub(super) queue: Vec<String>,
    /// Most jobs to print
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(super) limit: u64,
    /// Most jobs to examine; the default is all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) examine: Option<u64>,
    /// Stop after this time, and print how to continue
    #[arg(long, value_name = "DURATION", value_parser = super::args::duration, default_value = "1m")]
    pub(super) timeout: Duration,
    /// Continue a search with the same filter and queues after this cursor, which it has printed
    #[arg(long, value_name = "CURSOR")]
    pub(super) after: Option<String>,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Serialize)]
struct Answer {
    jobs: Vec<JobRecord>,
    examined: u64,
    total: u64,
    cursor: Option<String>,
    unreadable: Vec<Unreadable>,
}

pub(super) async fn search(client: &Client, args: &SearchArgs) -> Result<(), Failure> {
    let filter: Filter = terms::filter(&[&args.filter, &args.terms])?;
    let mut search = client.inspector().search(filter).with_reasons();
    for queue in &args.queue {
        search = queues::selected_queues(client, Some(queue)).await?.into_iter().fold(search, |search, queue| search.queue(queue));
    }
    if let Some(cursor) = &args.after {
        search = search.from(cursor)?;
    }
    let mut answer = Answer { jobs: Vec::new(), examined: 0, total: 0, cursor: None, unreadable: Vec::new() };
    // The number of jobs that earlier commands have examined.
    let before = search.examined();
    let (began, mut line) = (Instant::now(), Line::new());
    while answer.cursor.is_none() || began.elapsed() < args.timeout {
        let room = args.limit.saturating_sub(answer.jobs.len() as u64);
        let rest = args.examine.unwrap_or(u64::MAX).saturating_sub(search.examined() - before);
        if room == 0 || rest == 0 {
            break;
        }
        search = search.page(usize::try_from(room).unwrap_or(500)).examine_at_most(rest.min(5_000));
        let Some(page) = search.next().await? else { break };
        answer.jobs.extend(page.jobs);
        (answer.examined, answer.total, answer.cursor) = (page.examined, page.total, page.cursor);
        for (queue, error) in page.unreadable {
            answer.unreadable.push(Unreadable::from(&queue, error)?);
        }
        if answer.cursor.is_none() {
            break;
        }
        line.show(|| format!("examined {} of {} jobs, found {}", answer.examined, answer.total, answer.jobs.len()));
    }
    line.end();
    if args.format.json {
        print_json(&answer)?;
    } else {
        if answer.jobs.is_empty() {
            note(if answer.cursor.is_some() { "no matching job found so far" } else { "no such job" });
        } else {
            print(&table::text(&answer.jobs, &COLUMNS))?;
        }
        if let Some(cursor) = &answer.cursor {
            note(&format!("examined {} of {} jobs; continue with --after {cursor}", answer.examined, answer.total));
        }
    }
    Unreadable::report(&answer.unreadable)
}
