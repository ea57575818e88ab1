//! `topics`: topics, the progress of their subscriptions, and the events of their logs.

mod rewind;

use std::{
    collections::BTreeSet,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Subcommand;
use queue_core::{
    __private::{check_name, declared_events},
    Client, Registry,
    broker::subscription_at,
    topics::{Begin, EventInfo, Publication, Retention, SubscriptionInfo, TopicInfo},
};

use self::rewind::{RewindArgs, rewind};
use super::{
    args::{Format, header},
    enqueue::check_once,
    exit::{Exit, Failure, note},
    output::{exact_duration, print, print_json, relative_time, rounded_duration, utc},
    table::{
        self,
        Column::{self, Field, Made},
    },
};

#[derive(Debug, Subcommand)]
pub(super) enum TopicsCommand {
    /// List the topics, their number of events, and their slowest subscriptions
    #[command(after_help = "Examples:
  {bin} topics list
  {bin} topics list --json | jq -r '.topics[].subscriptions[] | select(.lag_ms > 60000) | .queue'")]
    List {
        #[command(flatten)]
        format: Format,
    },
    /// Show a topic: its retention, and the progress of each subscription
    #[command(after_help = "Examples:
  {bin} topics show orders")]
    Show {
        /// The topic
        #[arg(value_parser = topic)]
        topic: String,
        #[command(flatten)]
        format: Format,
    },
    /// Publish an event; prints its id
    #[command(after_help = "Examples:
  {bin} topics publish orders OrderPaid '{\"order\":17}'
  {bin} topics publish orders OrderPaid '{\"order\":17}' --group order-17 --id order-17-paid --tag order=17")]
    Publish(PublishArgs),
    /// Print the events of a topic, oldest first
    #[command(after_help = "Examples:
  {bin} topics read orders
  {bin} topics read orders --after 1700000000000-0 --limit 100
  {bin} topics read orders --json | jq '.events[].payload'")]
    Read {
        /// The topic
        #[arg(value_parser = topic)]
        topic: String,
        /// Continue after this position
        #[arg(long, value_name = "POSITION")]
        after: Option<String>,
        /// Most events to print
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=100))]
        limit: u16,
        #[command(flatten)]
        format: Format,
    },
    /// Create a subscription before its first worker starts
    #[command(after_help = "Examples:
  {bin} topics subscribe billing@orders --from start
  {bin} topics subscribe billing@orders --from 2026-01-31T12:00:00Z

An existing subscription keeps its position.")]
    Subscribe {
        /// The subscription and the topic
        #[arg(value_name = "SUBSCRIPTION@TOPIC")]
        subscription: Named,
        /// Where it begins: `start`, `now`, or a time
        #[arg(long, value_name = "WHERE", value_parser = begin)]
        from: Begin,
    },
    /// Remove a subscription that no worker serves; its topic no longer keeps events for it
    #[command(after_help = "Examples:
  {bin} topics unsubscribe billing@orders

Events that it has read stay in its queue; `jobs cancel --all --queue billing@orders` removes them.")]
    Unsubscribe {
        /// The subscription and the topic
        #[arg(value_name = "SUBSCRIPTION@TOPIC")]
        subscription: Named,
    },
    /// Rewind a subscription: it reads all events from a position on again, including handled
    /// events
    #[command(after_help = "Examples:
  {bin} topics rewind billing@orders --to start --dry-run                 print how many events and jobs are affected
  {bin} topics rewind billing@orders --to 2026-01-31T12:00:00Z --yes
  {bin} topics rewind billing@orders --to 1700000000000-0 --yes            start with the event at this position
  {bin} topics rewind billing@orders --to now --yes                        skip the unread events

Waiting jobs of the subscription are cancelled, except in a rewind to the start; running jobs
continue. During the rewind the subscription reads no events. If the command is interrupted, run it
again.")]
    Rewind(RewindArgs),
    /// Set the retention of a topic
    #[command(after_help = "Examples:
  {bin} topics set orders --age 30days --count 1000000
  {bin} topics set orders --bytes 1GiB
  {bin} topics set orders --lag 2days     events are kept this long for slow subscriptions")]
    Set(SetArgs),
    /// Remove expired events now; workers of the subscriptions do so regularly
    #[command(after_help = "Examples:
  {bin} topics trim orders")]
    Trim {
        /// The topic
        #[arg(value_parser = topic)]
        topic: String,
        #[command(flatten)]
        format: Format,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct PublishArgs {
    /// The topic
    #[arg(value_parser = topic)]
    topic: String,
    /// The type of the event
    #[arg(value_name = "TYPE")]
    event: String,
    /// Its fields, a JSON object
    #[arg(value_name = "JSON")]
    payload: String,
    /// Its group
    #[arg(long)]
    group: Option<String>,
    /// An id for deduplication: each subscription gets it once
    #[arg(long)]
    id: Option<String>,
    /// Add a tag to its jobs, to find them with the filter tag.NAME=VALUE; repeat the option for
    /// several
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    tag: Vec<(String, String)>,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, clap::Args)]
pub(super) struct SetArgs {
    /// The topic
    #[arg(value_parser = topic)]
    topic: String,
    /// Remove events older than this
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    age: Option<Duration>,
    /// Keep at most this number of events; the oldest are removed first
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Keep about this size of events; the oldest are removed first
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    bytes: Option<u64>,
    /// How long an event is kept for subscriptions that have not read it
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    lag: Option<Duration>,
}

/// `billing@orders`.
#[derive(Clone, Debug)]
pub(super) struct Named {
    subscription: String,
    topic: String,
}

impl FromStr for Named {
    type Err = queue_core::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (subscription, topic) = text.split_once('@').ok_or_else(|| queue_core::Error::Invalid {
            field: "subscription",
            value: text.to_owned(),
            problem: "is not a subscription and topic; write them as `billing@orders`".to_owned(),
        })?;
        check_name("subscription", subscription)?;
        check_name("topic", topic)?;
        Ok(Named { subscription: subscription.to_owned(), topic: topic.to_owned() })
    }
}

fn topic(name: &str) -> Result<String, queue_core::Error> {
    check_name("topic", name).map(|()| name.to_owned())
}

/// A number of bytes, with a unit or without.
fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = ["", "KiB", "MiB", "GiB", "TiB"].iter().position(|known| *known == unit.trim());
    let known = number.parse::<u64>().ok().zip(shift).and_then(|(number, shift)| number.checked_mul(1 << (10 * shift)));
    known.ok_or_else(|| "write a number of bytes, or one of KiB, MiB, GiB or TiB, as `1GiB`".to_owned())
}

fn size(bytes: u64) -> String {
    let unit = ["KiB", "MiB", "GiB", "TiB"].into_iter().zip(1_u32..).filter(|(_, power)| bytes >= 1 << (10 * power)).last();
    #[expect(clippy::cast_precision_loss, reason = "a person reads two digits of it")]
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(unit, power)| format!("{:.1} {unit}", bytes as f64 / f64::from(1 << 10_u32).powi(power.cast_signed())),
    )
}

fn begin(text: &str) -> Result<Begin, String> {
    match text {
        "now" => Ok(Begin::Now),
        "start" => Ok(Begin::Start),
        _ => {
            let since = humantime::parse_rfc3339_weak(text).ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let ms = since.and_then(|since| i64::try_from(since.as_millis()).ok());
            ms.map(Begin::AtMs).ok_or_else(|| "write `start`, `now`, or a time in UTC as `2026-01-31T12:00:00Z`".to_owned())
        }
    }
}

pub(super) async fn topics(client: &Client, command: TopicsCommand) -> Result<(), Failure> {
    let inspector = client.inspector();
    match command {
        TopicsCommand::List { format } => {
            let none = "there are no topics: publish an event, or subscribe to one";
            table::list(&format, "topics", &inspector.topics().await?, &COLUMNS, none)
        }
        TopicsCommand::Show { topic, format } => match inspector.topic(&topic).await? {
            Some(found) => show(&found, &format),
            None => Err(unknown_topic(client, &topic).await),
        },
        TopicsCommand::Publish(args) => publish(client, args).await,
        TopicsCommand::Read { topic, after, limit, format } => {
            let events = inspector.events(&topic, after.as_deref(), limit.into()).await?;
            if events.is_empty() && inspector.topic(&topic).await?.is_none() {
                return Err(unknown_topic(client, &topic).await);
            }
            table::list(&format, "events", &events, &EVENTS, "there are no events")
        }
        TopicsCommand::Subscribe { subscription: Named { subscription, topic }, from } => {
            warn_if_unknown(client, &topic).await?;
            let made = inspector.subscribe(&topic, &subscription, from).await?;
            let what = if made { "is made" } else { "already exists and keeps its position" };
            Ok(print(&format!("{subscription}@{topic} {what}"))?)
        }
        TopicsCommand::Unsubscribe { subscription: Named { subscription, topic } } => {
            if inspector.unsubscribe(&topic, &subscription).await? {
                return Ok(print(&format!("{subscription}@{topic} is removed; the events that it has read stay in its queue"))?);
            }
            Err(queue_core::Error::Config(format!("topic `{topic}` has no subscription `{subscription}`; see `topics show {topic}`"))
                .into())
        }
        TopicsCommand::Rewind(args) => rewind(client, args).await,
        TopicsCommand::Set(SetArgs { topic, age, count, bytes, lag }) => {
            let changed = Retention { age, count, bytes, lag };
            if changed == Retention::default() {
                return Err(Failure::new(Exit::Usage, "nothing to set: give --age, --count, --bytes or --lag"));
            }
            warn_if_unknown(client, &topic).await?;
            inspector.set_retention(&topic, changed).await?;
            let kept = inspector.topic(&topic).await?.map(|topic| topic.retention).unwrap_or(changed);
            Ok(print(&format!("{topic}: {}", describe_retention(&kept)))?)
        }
        TopicsCommand::Trim { topic, format } => {
            if inspector.topic(&topic).await?.is_none() {
                return Err(unknown_topic(client, &topic).await);
            }
            let trimmed = inspector.trim_topic(&topic).await?;
            if format.json {
                return Ok(print_json(&serde_json::json!({ "removed": trimmed.entries, "lost": trimmed.lost }))?);
            }
            let lost = if trimmed.lost > 0 { format!("; subscriptions have lost {} by that", trimmed.lost) } else { String::new() };
            Ok(print(&format!("{topic}: {} events removed{lost}", trimmed.entries))?)
        }
    }
}

/// Prints a note for a topic that does not exist yet, because its name may be misspelled.
async fn warn_if_unknown(client: &Client, topic: &str) -> Result<(), Failure> {
    let known = client.broker().topics().await?;
    if !known.iter().any(|known| **known == *topic) {
        let near = queue_core::__private::nearest(topic, known.iter().map(|name| &**name));
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        note(&format!("topic `{topic}` is new{hint}"));
    }
    Ok(())
}

/// Returns an error for an event that is unknown to this program, if the program has events of this
/// topic, or an event with a similar name.
pub(super) fn check(registry: &Registry, command: &TopicsCommand) -> Result<(), Failure> {
    let TopicsCommand::Publish(PublishArgs { topic, event, .. }) = command else { return Ok(()) };
    let subscribed = registry.tasks().filter_map(|task| Some((subscription_at(task.queue)?.1, task.name)));
    let known: BTreeSet<(&str, &str)> = declared_events().map(|event| (event.topic, event.name)).chain(subscribed).collect();
    if known.is_empty() || known.contains(&(topic, event)) {
        return Ok(());
    }
    let refused = |what: String| {
        let elsewhere = "For an event of another program, use its command line, or `queue topics publish`";
        Err(Failure::new(Exit::Usage, format!("{what} {elsewhere}")))
    };
    let of_topic = |wanted: &str| known.iter().filter(|(topic, _)| *topic == wanted).map(|(_, event)| *event).collect::<Vec<_>>();
    let events = of_topic(topic);
    if !events.is_empty() {
        let there = queue_core::__private::nearest(event, events.iter().copied())
            .map_or_else(|| format!("it has {}.", events.join(", ")), |near| format!("did you mean `{near}`?"));
        return refused(format!("this program has no event `{event}` of topic `{topic}`: {there}"));
    }
    let topics = known.iter().map(|(topic, _)| *topic);
    match (queue_core::__private::nearest(topic, topics), known.iter().find(|(_, known)| *known == event)) {
        (Some(near), _) => refused(format!("this program has no topic `{topic}`: did you mean `{near}`?")),
        (None, Some((of, _))) => refused(format!("this program has `{event}` as an event of topic `{of}`, not of `{topic}`.")),
        (None, None) => Ok(()),
    }
}

async fn unknown_topic(client: &Client, topic: &str) -> Failure {
    let known = client.broker().topics().await.unwrap_or_default();
    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    let there = match queue_core::__private::nearest(topic, known.iter().map(|name| &**name)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "there is none".to_owned(),
        None => format!("there are {}", names.join(", ")),
    };
    Failure::new(Exit::NotFound, format!("no topic `{topic}`; {there}"))
}

fn describe_retention(kept: &Retention) -> String {
    let count = kept.count.map(|count| format!(", and {count} at most")).unwrap_or_default();
    let bytes = kept.bytes.map(|bytes| format!(", and about {}", size(bytes))).unwrap_or_default();
    format!("keeps events for {}{count}{bytes}; waits {} for slow subscriptions", exact_duration(kept.age()), exact_duration(kept.lag()))
}

const COLUMNS: [Column<TopicInfo>; 6] = [
    Field("topic"),
    Field("events"),
    Field("added"),
    Made("#subscriptions", |topic| topic.subscriptions.len().to_string()),
    Made("slowest", |topic| {
        let slowest = topic.subscriptions.iter().max_by_key(|subscription| subscription.lag);
        let text =
            |of: &SubscriptionInfo| if of.lag.is_zero() { "-".to_owned() } else { format!("{} ({})", of.name, rounded_duration(of.lag)) };
        slowest.map(text).unwrap_or_default()
    }),
    Made("#lost", |topic| topic.subscriptions.iter().map(|subscription| subscription.lost).sum::<u64>().to_string()),
];

const SUBSCRIPTIONS: [Column<SubscriptionInfo>; 11] = [
    Field("subscription"),
    Made("#unread", |of| of.behind.map_or_else(|| "?".to_owned(), |behind| behind.to_string())),
    Field("lag_ms"),
    Field("waiting"),
    Field("active"),
    Field("retry"),
    Field("parked"),
    Field("dead"),
    Field("lost"),
    Field("workers"),
    Field("types"),
];

fn show(topic: &TopicInfo, format: &Format) -> Result<(), Failure> {
    if format.json {
        return Ok(print_json(topic)?);
    }
    let now = SystemTime::now();
    let first = topic.first.map(|first| relative_time(first, now)).unwrap_or_else(|| "-".to_owned());
    let lines = [
        ("topic", topic.name.clone()),
        ("events", format!("{} of {} added in total, about {}", topic.events, topic.added, size(topic.bytes))),
        ("oldest", first),
        ("retention", describe_retention(&topic.retention)),
    ];
    print(&table::lines(lines))?;
    if topic.subscriptions.is_empty() {
        note("it has no subscriptions");
        return Ok(());
    }
    print(&format!("\n{}", table::text(&topic.subscriptions, &SUBSCRIPTIONS)))?;
    for of in &topic.subscriptions {
        if of.skipped > 0 {
            note(&format!("{} has skipped {} events of types that it did not know", of.name, of.skipped));
        }
        if let Some(why) = &of.stop_reason {
            note(&format!("{} is stopped: {why}", of.name));
        }
    }
    Ok(())
}

async fn publish(client: &Client, args: PublishArgs) -> Result<(), Failure> {
    let topic = args.topic.clone();
    let mut event = Publication::from_json(args.topic, args.event, &args.payload)?;
    if let Some(group) = args.group {
        event = event.group(group);
    }
    if let Some(id) = args.id {
        event = event.id(id);
    }
    check_once("tag", args.tag.iter().map(|(name, _)| name))?;
    for (name, value) in args.tag {
        event = event.tag(name, value);
    }
    warn_if_unknown(client, &topic).await?;
    let published = event.publish(client).await?;
    if args.format.json {
        return Ok(print_json(&serde_json::json!({ "topic": &*published.topic, "id": published.id.to_string() }))?);
    }
    Ok(print(&published.id.to_string())?)
}

const EVENTS: [Column<EventInfo>; 5] = [
    Field("position"),
    Made("added", |event| utc(event.at).unwrap_or_default()),
    Field("type"),
    Field("group"),
    Made("payload", |event| event.payload.clone().unwrap_or_else(|problem| format!("({problem})"))),
];
