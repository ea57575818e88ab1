//! `topics rewind`: moves a subscription to another position.

use std::time::{Duration, Instant};

use queue_core::{
    Client,
    topics::{RewindPreview, RewindTarget, Rewinding},
};
use serde::Serialize;

use super::{Named, begin};
use crate::{
    args::Format,
    exit::{Failure, note},
    output::{print, print_json},
    person,
};

/// The interval between two lines of progress.
const NOTED_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(crate) struct RewindArgs {
    /// The subscription and the topic
    #[arg(value_name = "SUBSCRIPTION@TOPIC")]
    subscription: Named,
    /// The new position: `start`, `now`, a time, or a position that `topics read` has printed
    #[arg(long, value_name = "WHERE", value_parser = parse_target)]
    to: RewindTarget,
    /// Rewind it without a question
    #[arg(long)]
    yes: bool,
    /// Print how many events it would read again and how many waiting jobs it would cancel; change
    /// nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    #[command(flatten)]
    format: Format,
}

fn parse_target(text: &str) -> Result<RewindTarget, String> {
    let is_position = text.split('-').count() <= 2 && text.split('-').all(|part| part.parse::<u64>().is_ok());
    if is_position {
        return Ok(RewindTarget::Event(text.to_owned()));
    }
    let problem =
        |_| "write `start`, `now`, a time in UTC as `2026-01-31T12:00:00Z`, or a position that `topics read` has printed".to_owned();
    begin(text).map(RewindTarget::At).map_err(problem)
}

/// The answer as JSON.
#[derive(Serialize)]
struct Answer {
    subscription: String,
    topic: String,
    dry_run: bool,
    again: u64,
    cancelled: u64,
    events_are_gone: bool,
}

pub(super) async fn rewind(client: &Client, args: RewindArgs) -> Result<(), Failure> {
    let inspector = client.inspector();
    let Named { subscription, topic } = &args.subscription;
    let answer = |again, cancelled, events_are_gone| Answer {
        subscription: subscription.clone(),
        topic: topic.clone(),
        dry_run: args.dry_run,
        again,
        cancelled,
        events_are_gone,
    };
    let queue = format!("{subscription}@{topic}");
    if !args.yes {
        let RewindPreview { again, waiting, is_short, .. } = inspector.preview_rewind(topic, subscription, args.to.clone()).await?;
        let preview = format!("{queue} would read {} again; {} would be cancelled", events(again), jobs(waiting));
        if args.dry_run && args.format.json {
            return Ok(print_json(&answer(again, waiting, is_short))?);
        }
        if args.dry_run {
            print(&preview)?;
            return warn_if_short(is_short);
        }
        person::confirm(false, &format!("{preview}{}", if is_short { SHORT } else { "" }))?;
    }
    let mut rewinding = inspector.because(format!("a rewind to {}", args.to)).rewind(topic, subscription, args.to.clone());
    if let Err(error) = run(&mut rewinding, &args.format).await {
        note(&format!("{queue} reads nothing until its rewind has ended: run the rewind again"));
        return Err(error.into());
    }
    let (again, cancelled, is_short) = (rewinding.again(), rewinding.cancelled(), rewinding.is_short());
    if args.format.json {
        return Ok(print_json(&answer(again, cancelled, is_short))?);
    }
    print(&format!("{queue} reads {} again; {} cancelled", events(again), jobs(cancelled)))?;
    warn_if_short(is_short)
}

async fn run(rewinding: &mut Rewinding, format: &Format) -> queue_core::Result<()> {
    let mut noted = Instant::now();
    while rewinding.step().await? {
        if noted.elapsed() > NOTED_EVERY && !format.json {
            noted = Instant::now();
            note(&format!("{} cancelled, {} so far", jobs(rewinding.cancelled()), events(rewinding.again())));
        }
    }
    Ok(())
}

const SHORT: &str = "; the events at this position are no longer kept, so it starts at the oldest event";

fn warn_if_short(is_short: bool) -> Result<(), Failure> {
    if is_short {
        note(SHORT.trim_start_matches("; "));
    }
    Ok(())
}

fn events(n: u64) -> String {
    format!("{n} {}", if n == 1 { "event" } else { "events" })
}

fn jobs(n: u64) -> String {
    format!("{n} {}", if n == 1 { "job" } else { "jobs" })
}

#[cfg(test)]
mod tests {
    use queue_core::topics::Begin;

    use super::*;

    #[test]
    fn a_rewind_target_is_a_word_a_time_or_a_position() {
        assert_eq!(parse_target("start"), Ok(Begin::Start.into()));
        assert_eq!(parse_target("2026-01-31T12:00:00Z"), Ok(Begin::AtMs(1_769_860_800_000).into()));
        for position in ["17", "1700000000000-0", "1700000000000-18446744073709551615"] {
            assert_eq!(parse_target(position), Ok(RewindTarget::Event(position.to_owned())));
        }
        assert!(parse_target("yesterday").is_err() && parse_target("17-").is_err());
    }
}
