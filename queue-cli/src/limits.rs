//! `limits`: limits, their holders, and their settings at run time.

use std::{str::FromStr, time::SystemTime};

use clap::Subcommand;
use queue_core::{
    __private::{check_name, check_queue},
    Client,
    inspect::{LimitInfo, LimitKeyInfo, LimitRule, Rate},
};
use serde::Serialize;
use serde_json::json;

use super::{
    args::Format,
    exit::{Exit, Failure, note},
    output::{print, print_json, relative, short, table, utc},
    queues::{self, Unreadable},
};

#[derive(Debug, Subcommand)]
pub(super) enum LimitsCommand {
    /// List limits, their effective values, and their held slots
    #[command(after_help = "Examples:
  {bin} limits list
  {bin} limits list orders
  {bin} limits list --json | jq -r '.limits[] | select(.waiting > 0) | .limit'")]
    List {
        /// Only this queue
        #[arg(value_parser = queue)]
        queue: Option<String>,
        #[command(flatten)]
        format: Format,
    },
    /// Show a limit and its keys: holders, waiting jobs, and the expected end
    #[command(after_help = "Examples:
  {bin} limits show orders/stripe")]
    Show {
        /// The queue and the limit
        #[arg(value_name = "QUEUE/LIMIT")]
        limit: Named,
        /// Most keys to print
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
        keys: u16,
        #[command(flatten)]
        format: Format,
    },
    /// Set a limit at run time; it overrides the declared one from the next claim on, until it is removed
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
        limit: Named,
        #[command(flatten)]
        format: Format,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct SetArgs {
    /// The queue and the limit
    #[arg(value_name = "QUEUE/LIMIT")]
    limit: Named,
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

/// How a person keeps a limit from holding that code declares.
const OVER_CODE: &str = "to let every job start until then, override it with `limits set`, as `--concurrency 100000`";

/// `orders/stripe`.
#[derive(Clone, Debug)]
pub(super) struct Named {
    queue: String,
    limit: String,
}

impl FromStr for Named {
    type Err = queue_core::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (queue, limit) = text.split_once('/').ok_or_else(|| queue_core::Error::Invalid {
            field: "limit",
            value: text.to_owned(),
            problem: "is not a queue and limit; write them as `orders/stripe`".to_owned(),
        })?;
        check_queue(queue)?;
        check_name("limit", limit)?;
        Ok(Named { queue: queue.to_owned(), limit: limit.to_owned() })
    }
}

fn queue(name: &str) -> Result<String, queue_core::Error> {
    check_queue(name).map(|()| name.to_owned())
}

/// A limit, as JSON.
#[derive(Serialize)]
struct Row {
    queue: String,
    limit: String,
    #[serde(flatten)]
    rule: Rule,
    declared: Option<Rule>,
    set: Option<Rule>,
    held: u64,
    waiting: u64,
}

#[derive(Serialize)]
struct Rule {
    concurrency: Option<u32>,
    rate: Option<String>,
    burst: Option<u32>,
}

#[derive(Serialize)]
struct Key {
    key: String,
    by: Option<String>,
    held: u64,
    holders: Vec<String>,
    waiting: u64,
    next: Option<String>,
    until: Option<String>,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    limit: Row,
    keys: Vec<Key>,
}

impl From<LimitRule> for Rule {
    fn from(rule: LimitRule) -> Self {
        Rule { concurrency: rule.concurrency, rate: rule.rate.map(|rate| rate.to_string()), burst: rule.rate.map(|_| rule.burst()) }
    }
}

fn row(queue: &str, limit: LimitInfo) -> Row {
    Row {
        queue: queue.to_owned(),
        limit: limit.name,
        rule: limit.rule.into(),
        declared: limit.declared.map(Rule::from),
        set: limit.set.map(Rule::from),
        held: limit.held,
        waiting: limit.full + limit.rated,
    }
}

fn key(key: LimitKeyInfo) -> Key {
    Key {
        key: key.key.to_string(),
        by: key.text,
        held: key.held,
        holders: key.holders.iter().map(ToString::to_string).collect(),
        waiting: key.waiting,
        next: key.next.map(|next| next.to_string()),
        until: key.until.and_then(utc),
    }
}

pub(super) async fn limits(client: &Client, command: LimitsCommand) -> Result<(), Failure> {
    let inspector = client.inspector();
    match command {
        LimitsCommand::List { queue, format } => {
            let chosen = queues::of_list(client, queue.as_deref()).await?;
            let (of_each, unreadable) = queues::of_each(chosen, async |queue| inspector.limits(queue).await).await?;
            let rows: Vec<Row> =
                of_each.into_iter().flat_map(|(queue, limits)| limits.into_iter().map(move |limit| row(&queue, limit))).collect();
            if rows.is_empty() && queue.is_some() {
                queues::chosen(client, queue.as_deref()).await?;
            }
            list(&rows, &format)?;
            Unreadable::tell(&unreadable)
        }
        LimitsCommand::Show { limit: Named { queue, limit }, keys, format } => {
            let Some(found) = inspector.limit(&queue, &limit).await? else { return Err(unknown(client, &queue, &limit, "").await) };
            let keys = inspector.limit_keys(&queue, &limit, None, keys.into()).await?;
            show(&queue, found, keys, &format)
        }
        LimitsCommand::Set(args) => set(client, args).await,
        LimitsCommand::Remove { limit: Named { queue, limit }, format } => {
            let before = inspector.limit(&queue, &limit).await?;
            if !inspector.remove_limit(&queue, &limit).await? {
                return Err(unknown(client, &queue, &limit, "").await);
            }
            let (set, declared) = before.map_or((None, None), |before| (before.set, before.declared));
            if format.json {
                let is_gone = set.is_none() || declared.is_none();
                let declared = declared.map(Rule::from);
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

async fn unknown(client: &Client, queue: &str, limit: &str, way_out: &str) -> Failure {
    let known = client.inspector().limits(queue).await.unwrap_or_default();
    let near = queue_core::__private::nearest(limit, known.iter().map(|limit| limit.name.as_str())).map(str::to_owned);
    let names: Vec<String> = known.into_iter().map(|limit| format!("`{}`", limit.name)).collect();
    let there = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "it has none".to_owned(),
        None => format!("it has {}", names.join(", ")),
    };
    Failure::new(Exit::NotFound, format!("queue `{queue}` has no limit `{limit}`; {there}{way_out}"))
}

fn list(rows: &[Row], format: &Format) -> Result<(), Failure> {
    if format.json {
        return Ok(print_json(&json!({ "limits": rows }))?);
    }
    if rows.is_empty() {
        note("there are no limits: declare one with `#[task(limit(..))]`, or make one with `limits set --new`");
        return Ok(());
    }
    let text = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    let rows = rows.iter().map(|row| {
        let said = match (&row.set, &row.declared) {
            (Some(_), Some(_)) => "set, over code",
            (Some(_), None) => "set",
            (None, _) => "code",
        };
        let rate = row.rule.rate.clone().unwrap_or_default();
        let [held, waiting] = [row.held, row.waiting].map(|count| count.to_string());
        [row.queue.clone(), row.limit.clone(), text(row.rule.concurrency), rate, text(row.rule.burst), held, waiting, said.to_owned()]
    });
    Ok(print(&table(["queue", "limit", "#concurrency", "#rate", "#burst", "#held", "#waiting", "source"], rows))?)
}

fn show(queue: &str, limit: LimitInfo, keys: Vec<LimitKeyInfo>, format: &Format) -> Result<(), Failure> {
    if format.json {
        return Ok(print_json(&Shown { limit: row(queue, limit), keys: keys.into_iter().map(key).collect() })?);
    }
    let said = |rule: Option<LimitRule>| rule.map_or_else(|| "nothing".to_owned(), |rule| rule.to_string());
    let lines = [
        ("limit", limit.name.clone()),
        ("holds", limit.rule.to_string()),
        ("declared", said(limit.declared)),
        ("set", said(limit.set)),
        ("held", limit.held.to_string()),
        ("waiting", (limit.full + limit.rated).to_string()),
    ];
    let text: Vec<String> = lines.into_iter().map(|(name, value)| format!("{name:8}  {value}")).collect();
    print(&text.join("\n"))?;
    if keys.is_empty() {
        return Ok(());
    }
    let now = SystemTime::now();
    let rows = keys.into_iter().map(|key| {
        let by = match key.text.as_deref() {
            Some("") => "(the queue)".to_owned(),
            Some(text) => short(text, 40),
            None => key.key.to_string(),
        };
        let until = key.until.map(|until| relative(until, now)).unwrap_or_default();
        let holder = key.holders.first().map(|holder| holder.id.to_string()).unwrap_or_default();
        [by, key.held.to_string(), key.waiting.to_string(), until, holder]
    });
    Ok(print(&format!("\n{}", table(["by", "#held", "#waiting", "opens", "first holder"], rows)))?)
}

async fn set(client: &Client, args: SetArgs) -> Result<(), Failure> {
    if args.concurrency.is_none() && args.rate.is_none() && args.burst.is_none() {
        return Err(Failure::new(Exit::Usage, "nothing to set: give --concurrency, --rate or --burst"));
    }
    let Named { queue, limit } = args.limit;
    if !args.new && client.inspector().limit(&queue, &limit).await?.is_none() {
        return Err(unknown(client, &queue, &limit, "; to make one that no task declares, add `--new`").await);
    }
    let set = client
        .inspector()
        .set_limit(&queue, &limit, |rule| {
            rule.concurrency = args.concurrency.or(rule.concurrency);
            (rule.rate, rule.burst) = (args.rate.or(rule.rate), args.burst.or(rule.burst));
        })
        .await?;
    if args.format.json {
        return Ok(print_json(&row(&queue, set))?);
    }
    Ok(print(&format!("{queue}/{limit}: {}", set.rule))?)
}
