//! `limits`: limits, their holders, and their settings at run time.

use std::{str::FromStr, time::SystemTime};

use clap::Subcommand;
use queue_core::{
    Client,
    inspect::{LimitInfo, LimitKeyInfo, LimitRule, Rate},
};
use serde::Serialize;
use serde_json::json;

use super::{
    address::Address,
    again::QueueArgs,
    args::Format,
    exit::{Exit, Failure, note},
    output::{print, print_json, relative_time},
    queues::{self, Unreadable},
    table::{
        self,
        Column::{self, Field, Made},
        Of,
    },
};

#[derive(Debug, Subcommand)]
pub(super) enum LimitsCommand {
    /// List limits, their effective values, and their held slots
    #[command(after_help = "Examples:
  {bin} limits list
  {bin} limits list --queue orders
  {bin} limits list --json | jq -r '.limits[] | select(.full + .rated > 0) | .limit'")]
    List(QueueArgs),
    /// Show a limit and its keys: holders, waiting jobs, and the expected end
    #[command(after_help = "Examples:
  {bin} limits show orders/stripe")]
    Show {
        /// The queue and the limit
        #[arg(value_name = "QUEUE/LIMIT")]
        limit: Address,
        /// Most keys to print
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
        keys: u16,
        #[command(flatten)]
        format: Format,
    },
    /// Set a limit at run time; it overrides the declared one from the next claim on, until it is
    /// removed
    #[command(after_help = "Examples:
  {bin} limits set orders/stripe --concurrency 4
  {bin} limits set orders/stripe --rate 100/1m --burst 20
  {bin} limits set orders/stripe --concurrency 0     close the limit
  {bin} limits set orders/paypal --rate 10/1s --new  a limit that no task declares, for jobs that name it")]
    Set(SetArgs),
    /// Remove the run-time setting of a limit; the declared limit applies again
    #[command(after_help = "Examples:
  {bin} limits remove orders/stripe")]
    Remove {
        /// The queue and the limit
        #[arg(value_name = "QUEUE/LIMIT")]
        limit: Address,
        #[command(flatten)]
        format: Format,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct SetArgs {
    /// The queue and the limit
    #[arg(value_name = "QUEUE/LIMIT")]
    limit: Address,
    /// Most jobs that run at once; 0 closes it
    #[arg(long, value_name = "N")]
    concurrency: Option<u32>,
    /// How many jobs start in a period, as in `100/1m`
    #[arg(long, value_name = "STARTS/TIME", value_parser = Rate::from_str)]
    rate: Option<Rate>,
    /// How many of them may start at once after an idle time
    #[arg(long, value_name = "N")]
    burst: Option<u32>,
    /// Create the limit if none has this name, for jobs that name it, as with `enqueue --limit`
    #[arg(long)]
    new: bool,
    #[command(flatten)]
    format: Format,
}

/// How an operator overrides a limit that is declared in code.
const OVER_CODE: &str = "to let every job start until then, override it with `limits set`, as `--concurrency 100000`";

/// A limit with its keys, as JSON.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    limit: Of<LimitInfo>,
    keys: Vec<LimitKeyInfo>,
}

pub(super) async fn limits(client: &Client, command: LimitsCommand) -> Result<(), Failure> {
    let inspector = client.inspector();
    match command {
        LimitsCommand::List(QueueArgs { queue, format }) => {
            let chosen = queues::of_list(client, queue.as_deref()).await?;
            let (of_each, unreadable) = queues::for_each_queue(chosen, async |queue| inspector.limits(queue).await).await?;
            let rows = Of::each(of_each);
            if rows.is_empty() && queue.is_some() {
                queues::selected_queues(client, queue.as_deref()).await?;
            }
            let none = "there are no limits: declare one with `#[task(limit(..))]`, or make one with `limits set --new`";
            table::list(&format, "limits", &rows, &COLUMNS, none)?;
            Unreadable::report(&unreadable)
        }
        LimitsCommand::Show { limit: Address { queue, name: limit }, keys, format } => {
            let Some(found) = inspector.limit(&queue, &limit).await? else { return Err(unknown_limit(client, &queue, &limit, "").await) };
            let keys = inspector.limit_keys(&queue, &limit, None, keys.into()).await?;
            show(&queue, found, keys, &format)
        }
        LimitsCommand::Set(args) => set(client, args).await,
        LimitsCommand::Remove { limit: Address { queue, name: limit }, format } => {
            let before = inspector.limit(&queue, &limit).await?;
            if !inspector.remove_limit(&queue, &limit).await? {
                return Err(unknown_limit(client, &queue, &limit, "").await);
            }
            let (set, declared) = before.map_or((None, None), |before| (before.set, before.declared));
            if format.json {
                let is_gone = set.is_none() || declared.is_none();
                return Ok(print_json(&json!({ "queue": queue, "limit": limit, "removed": is_gone, "declared": declared }))?);
            }
            match (set, declared) {
                (Some(_), Some(declared)) => print(&format!("{queue}/{limit}: {declared}, as code declares it"))?,
                (_, declared) => {
                    print(&format!("{queue}/{limit} is removed; its jobs stay and are no longer limited by it"))?;
                    if let Some(declared) = declared {
                        note(&format!(
                            "code has declared it ({declared}): a worker that declares it stores it again within a minute; {OVER_CODE}"
                        ));
                    }
                }
            }
            Ok(())
        }
    }
}

async fn unknown_limit(client: &Client, queue: &str, limit: &str, advice: &str) -> Failure {
    let known = client.inspector().limits(queue).await.unwrap_or_default();
    let near = queue_core::__private::nearest(limit, known.iter().map(|limit| limit.name.as_str())).map(str::to_owned);
    let names: Vec<String> = known.into_iter().map(|limit| format!("`{}`", limit.name)).collect();
    let there = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "it has none".to_owned(),
        None => format!("it has {}", names.join(", ")),
    };
    Failure::new(Exit::NotFound, format!("queue `{queue}` has no limit `{limit}`; {there}{advice}"))
}

/// The number of jobs that wait for it.
fn waiting(limit: &LimitInfo) -> String {
    (limit.full + limit.rated).to_string()
}

const COLUMNS: [Column<Of<LimitInfo>>; 8] = [
    Field("queue"),
    Field("limit"),
    Field("concurrency"),
    Field("rate"),
    Field("burst"),
    Field("held"),
    Made("#waiting", |row| waiting(&row.record)),
    Made("source", |row| {
        let source = match (row.record.set, row.record.declared) {
            (Some(_), Some(_)) => "set, over code",
            (Some(_), None) => "set",
            (None, _) => "code",
        };
        source.to_owned()
    }),
];

const KEYS: [Column<LimitKeyInfo>; 5] = [
    Made("by", |key| match key.text.as_deref() {
        Some("") => "(the queue)".to_owned(),
        Some(text) => text.to_owned(),
        None => key.key.to_string(),
    }),
    Field("held"),
    Field("waiting"),
    Made("opens", |key| key.until.map(|until| relative_time(until, SystemTime::now())).unwrap_or_default()),
    Made("first holder", |key| key.holders.first().map(|holder| holder.id.to_string()).unwrap_or_default()),
];

const FACTS: [Column<LimitInfo>; 6] = [
    Field("limit"),
    Made("holds", |limit| limit.rule.to_string()),
    Made("declared", |limit| rule_text(limit.declared)),
    Made("set", |limit| rule_text(limit.set)),
    Field("held"),
    Made("waiting", waiting),
];

fn rule_text(rule: Option<LimitRule>) -> String {
    rule.map_or_else(|| "nothing".to_owned(), |rule| rule.to_string())
}

fn show(queue: &str, limit: LimitInfo, keys: Vec<LimitKeyInfo>, format: &Format) -> Result<(), Failure> {
    if format.json {
        let limit = Of { queue: queue.to_owned(), record: limit };
        return Ok(print_json(&Shown { limit, keys })?);
    }
    print(&table::facts(&limit, &FACTS))?;
    if keys.is_empty() {
        return Ok(());
    }
    Ok(print(&format!("\n{}", table::text(&keys, &KEYS)))?)
}

async fn set(client: &Client, args: SetArgs) -> Result<(), Failure> {
    if args.concurrency.is_none() && args.rate.is_none() && args.burst.is_none() {
        return Err(Failure::new(Exit::Usage, "nothing to set: give --concurrency, --rate or --burst"));
    }
    let Address { queue, name: limit } = args.limit;
    if !args.new && client.inspector().limit(&queue, &limit).await?.is_none() {
        return Err(unknown_limit(client, &queue, &limit, "; to make one that no task declares, add `--new`").await);
    }
    let set = client
        .inspector()
        .set_limit(&queue, &limit, |rule| {
            rule.concurrency = args.concurrency.or(rule.concurrency);
            (rule.rate, rule.burst) = (args.rate.or(rule.rate), args.burst.or(rule.burst));
        })
        .await?;
    if args.format.json {
        return Ok(print_json(&Of { queue, record: set })?);
    }
    Ok(print(&format!("{queue}/{limit}: {}", set.rule))?)
}
