//! `groups`: the list of groups, their rules, pause and resume.

use std::str::FromStr;

use clap::Subcommand;
use queue_core::{
    Client,
    broker::MAX_ITEMS,
    inspect::{Cleared, Filter, GroupName, GroupOrder, GroupPage, GroupRule, NewOperation, OperationKind, PauseOf, RuleOf, StoredGroup},
};
use serde::Serialize;
use serde_json::json;

use super::{
    address::Address,
    again::QueueArgs,
    answers::change_each,
    args::Format,
    exit::{Exit, Failure, note},
    operations,
    output::{exact_duration, plain, print, print_json},
    pauses::{self, PauseArgs},
    person,
    queues::{self, Unreadable},
    table::{
        self,
        Column::{self, Field, Made},
        Of,
    },
    terms,
};

/// The number of groups on one page.
const PAGE: usize = 200;

#[derive(Debug, Subcommand)]
pub(super) enum GroupsCommand {
    /// List the groups with ready or running jobs, or with a rule
    #[command(after_help = "Examples:
  {bin} groups list
  {bin} groups list --queue mail --limit 20
  {bin} groups list --json | jq -r '.queues[].groups[] | select(.ready > 1000) | .group'")]
    List {
        #[command(flatten)]
        of: QueueArgs,
        /// Most groups of a queue to print
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        /// Continue after this group
        #[arg(long, value_name = "GROUP", value_parser = GroupName::from_str, requires = "queue")]
        after: Option<GroupName>,
    },
    /// Show a group: its ready and running jobs, its rule and its effective settings
    #[command(after_help = "Examples:
  {bin} groups show mail/acme")]
    Show {
        /// The queue and the group
        #[arg(value_name = "QUEUE/GROUP", value_parser = parse_group_address)]
        group: Address<GroupName>,
        #[command(flatten)]
        format: Format,
    },
    /// Set the rule of a group, which applies from the next claim on
    #[command(after_help = "Examples:
  {bin} groups set mail/acme --weight 3 --cap 10
  {bin} groups set mail/acme --order ordered     one job at a time; a job that waits for its retry blocks the others
  {bin} groups set 'mail/*' --cap 5              default of all groups
  {bin} groups set mail/- --weight 2             of jobs without a group
  {bin} groups set mail/acme --clear             remove what was set

What is set goes over what code declares. `--clear` of `*` where nothing is set forgets what code has declared,
until a worker that declares it looks again: within a minute, if one runs.")]
    Set(SetArgs),
    /// Pause groups: no job of them is claimed, running jobs continue
    #[command(after_help = "Examples:
  {bin} groups pause mail/acme
  {bin} groups pause mail/acme --reason 'unpaid, ticket 4711'
  {bin} groups pause mail/acme --until 2h")]
    Pause {
        /// The queues and the groups
        #[arg(required = true, value_name = "QUEUE/GROUP", value_parser = parse_group_address)]
        groups: Vec<Address<GroupName>>,
        #[command(flatten)]
        pause: PauseArgs,
        #[command(flatten)]
        format: Format,
    },
    /// Resume groups: their jobs are claimed again
    #[command(after_help = "Examples:
  {bin} groups resume mail/acme")]
    Resume {
        /// The queues and the groups
        #[arg(required = true, value_name = "QUEUE/GROUP", value_parser = parse_group_address)]
        groups: Vec<Address<GroupName>>,
        #[command(flatten)]
        format: Format,
    },
    /// Cancel the waiting jobs of groups; running jobs continue
    #[command(after_help = "Examples:
  {bin} groups drain mail/acme
  {bin} groups drain mail/acme --reason 'the customer has left'

Jobs enqueued meanwhile may be included. If it is interrupted, run it again to continue.")]
    Drain(ClearArgs),
    /// Cancel all jobs of groups, including running jobs
    #[command(after_help = "Examples:
  {bin} groups cancel mail/acme

Jobs enqueued meanwhile may be included. If it is interrupted, run it again to continue.")]
    Cancel(ClearArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct ClearArgs {
    /// The queues and the groups
    #[arg(required = true, value_name = "QUEUE/GROUP", value_parser = parse_group_address)]
    groups: Vec<Address<GroupName>>,
    /// Cancel them without a question
    #[arg(long)]
    yes: bool,
    /// The reason, which each job keeps as its note
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    #[command(flatten)]
    format: Format,
}

#[derive(Debug, clap::Args)]
pub(super) struct SetArgs {
    /// The queue and the group; `QUEUE/*` sets the default of all groups, `QUEUE/-` the weight of
    /// jobs without a group
    #[arg(value_name = "QUEUE/GROUP")]
    group: Address,
    /// How often it is served compared with a group of weight 1; 1 to 1000
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// Most jobs of it that run at once; 0 closes it
    #[arg(long, value_name = "N")]
    cap: Option<u32>,
    /// Most ready jobs of it; an enqueue beyond that is rejected
    #[arg(long, value_name = "N")]
    max_size: Option<u64>,
    /// any, ordered (one at a time; a job that waits for its retry blocks the group), skip_failed
    /// (one at a time; a job that waits for its retry lets the next one start)
    #[arg(long, value_name = "ORDER", value_parser = GroupOrder::from_str)]
    order: Option<GroupOrder>,
    /// Remove the settings made before, including a pause
    #[arg(long)]
    clear: bool,
    #[command(flatten)]
    format: Format,
}

/// A group by its name. `*` and `-` are not groups: in `groups set` they mean all groups, and the
/// jobs without a group.
fn parse_group_address(address: &str) -> Result<Address<GroupName>, String> {
    let refused = |problem: &str| Err(problem.to_owned());
    Address::read(address, |name| match name {
        "*" => refused(
            "`*` means all groups, and this command takes groups by name; `groups list` shows the rule of all groups, and `queues pause` pauses a whole queue",
        ),
        "-" => refused(
            "`-` means jobs without a group, and this command takes groups by name; `groups list` shows their rule, and `jobs cancel --all --where group=` cancels them",
        ),
        name => GroupName::new(name).map_err(|error| error.to_string()),
    })
}

/// A line of the list: a group, or a rule that does not belong to a single group.
#[derive(Serialize)]
struct Line {
    queue: String,
    name: String,
    #[serde(flatten)]
    rule: GroupRule,
    group: Option<StoredGroup>,
}

const COLUMNS: [Column<Line>; 11] = [
    Field("queue"),
    Made("group", |line| line.name.clone()),
    Field("group.ready"),
    Field("group.oldest_ms"),
    Field("group.active"),
    Field("weight"),
    Field("cap"),
    Field("max_size"),
    Field("order"),
    Field("paused"),
    Field("group.blocked_by"),
];

const RULE: [Column<Line>; 6] =
    [Made("group", |line| line.name.clone()), Field("weight"), Field("cap"), Field("max_size"), Field("order"), Field("paused")];

/// The rules, then the groups.
fn lines(Of { queue, record: page }: &Of<GroupPage>) -> Vec<Line> {
    let line = |name: String, rule, group| Line { queue: queue.clone(), name, rule, group };
    let rules = [("*", page.others), ("* (code)", page.declared()), ("-", page.plain)];
    let rules = rules.into_iter().filter(|(_, rule)| !rule.is_empty()).map(|(name, rule)| line(name.to_owned(), rule, None));
    rules.chain(page.groups.iter().map(|group| line(group.name.to_string(), group.rule, Some(group.clone())))).collect()
}

pub(super) async fn groups(client: &Client, command: GroupsCommand) -> Result<(), Failure> {
    let inspector = client.inspector();
    match command {
        GroupsCommand::List { of, limit, after } => list(client, of.queue, limit, after.as_ref(), &of.format).await,
        GroupsCommand::Show { group: Address { queue, name }, format } => {
            let (found, page) = find_group(client, &queue, &name).await?;
            show(found, &page, &format)
        }
        GroupsCommand::Set(args) => set(client, args).await,
        GroupsCommand::Pause { groups, pause, format } => {
            for Address { queue, name } in &groups {
                queues::warn_if_unknown(client, queue).await;
                warn_if_unknown(client, queue, name).await?;
            }
            change_each("groups", &groups, &format, async |group| {
                inspector.pause_as(&group.queue, PauseOf::Group(group.name.clone()), pause.pausing()).await?;
                let json = json!({ "queue": group.queue, "group": group.name, "paused": true });
                Ok((format!("{group} is paused{}", pause.end()), json))
            })
            .await
        }
        GroupsCommand::Resume { groups, format } => {
            for Address { queue, name } in &groups {
                find_group(client, queue, name).await?;
            }
            change_each("groups", &groups, &format, async |group| {
                inspector.resume_group(&group.queue, &group.name).await?;
                Ok((format!("{group} is resumed"), json!({ "queue": group.queue, "group": group.name, "paused": false })))
            })
            .await
        }
        GroupsCommand::Drain(args) => clear(client, args, Cleared::Waiting).await,
        GroupsCommand::Cancel(args) => clear(client, args, Cleared::All).await,
    }
}

/// A known group, and the first groups of its queue.
async fn find_group(client: &Client, queue: &str, group: &GroupName) -> Result<(StoredGroup, GroupPage), Failure> {
    let (found, page) = (client.inspector().group(queue, group).await?, client.inspector().groups(queue, None, MAX_ITEMS).await?);
    if is_unknown(client, queue, &found).await? {
        return Err(Failure::new(Exit::NotFound, format!("queue `{queue}` has no group `{group}`{}", did_you_mean(group, &page))));
    }
    Ok((found, page))
}

/// Whether the group has neither jobs nor a rule. Returns an error if the queue does not exist.
async fn is_unknown(client: &Client, queue: &str, group: &StoredGroup) -> Result<bool, Failure> {
    let is_blank = group.ready == 0 && group.active == 0 && group.rule.is_empty() && group.pause.is_none() && group.blocked_by.is_none();
    if !is_blank {
        return Ok(false);
    }
    queues::selected_queues(client, Some(queue)).await?;
    // A scheduled job is not in the counts of its group.
    let of_group = terms::filter(&[&[format!("group={}", Filter::quoted(group.name.as_str()))]])?;
    let mut search = client.inspector().search(of_group).queue(queue);
    while let Some(found) = search.next().await? {
        if !found.jobs.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The most similar name.
fn did_you_mean(group: &GroupName, page: &GroupPage) -> String {
    let near = queue_core::__private::nearest(group.as_str(), page.groups.iter().map(|known| known.name.as_str()));
    near.map(|near| format!(": did you mean `{}`?", plain(near))).unwrap_or_else(|| ": it has no job and no rule".to_owned())
}

/// Prints a note for a rule before the first job of its group, because the name may be misspelled.
async fn warn_if_unknown(client: &Client, queue: &str, group: &GroupName) -> Result<(), Failure> {
    let inspector = client.inspector();
    // For a new queue, another note was already printed.
    if let Ok(true) = is_unknown(client, queue, &inspector.group(queue, group).await?).await {
        let page = inspector.groups(queue, None, MAX_ITEMS).await?;
        note(&format!("group `{group}` of queue `{queue}` is new{}", did_you_mean(group, &page)));
    }
    Ok(())
}

/// The maximum number of jobs that are examined to count those to cancel.
const COUNTED: u64 = 1_000_000;

async fn clear(client: &Client, args: ClearArgs, which: Cleared) -> Result<(), Failure> {
    let inspector = client.inspector().because(args.reason);
    for group in &args.groups {
        queues::selected_queues(client, Some(&group.queue)).await?;
    }
    if !args.yes {
        let (mut jobs, mut least) = (0, "");
        for Address { queue, name } in &args.groups {
            let of_group = format!("group={}", Filter::quoted(name.as_str()));
            let waits = if which == Cleared::Waiting { " state!=active" } else { "" };
            let cancel = NewOperation::new(OperationKind::Cancel, format!("{of_group}{waits}").parse()?);
            let preview = inspector.preview_operation(queue, &cancel, COUNTED).await?;
            jobs += preview.eligible;
            least = if preview.is_whole { least } else { "at least " };
        }
        let groups: Vec<String> = args.groups.iter().map(ToString::to_string).collect();
        if jobs > 0 {
            person::confirm(false, &format!("{least}{} of {} will be cancelled", operations::jobs(jobs), groups.join(", ")))?;
        }
    }
    let mut totals = Vec::new();
    for group in args.groups {
        let Address { queue, name } = &group;
        let mut clearing = inspector.clear_group(queue, name, which);
        let ended = loop {
            match clearing.step().await {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let cancelled = clearing.cancelled();
        if cancelled == 0 && is_unknown(client, queue, &inspector.group(queue, name).await?).await? {
            let page = inspector.groups(queue, None, MAX_ITEMS).await?;
            note(&format!("queue `{queue}` has no group `{name}`{}", did_you_mean(name, &page)));
        }
        if !args.format.json {
            print(&plain(&format!("{group}: {} cancelled", operations::jobs(cancelled))))?;
        }
        ended?;
        totals.push(json!({ "queue": queue, "group": name, "cancelled": cancelled }));
    }
    if args.format.json { Ok(print_json(&json!({ "groups": totals }))?) } else { Ok(()) }
}

async fn list(client: &Client, queue: Option<String>, limit: usize, after: Option<&GroupName>, format: &Format) -> Result<(), Failure> {
    let chosen = queues::of_list(client, queue.as_deref()).await?;
    let (of_each, unreadable) = queues::for_each_queue(chosen, async |queue| read(client, queue, limit, after.cloned()).await).await?;
    let listed: Vec<_> = of_each.into_iter().map(|(queue, record)| Of { queue, record }).collect();
    if format.json {
        print_json(&json!({ "queues": listed }))?;
        return Unreadable::report(&unreadable);
    }
    let rows: Vec<Line> = listed.iter().flat_map(lines).collect();
    if rows.is_empty() {
        if queue.is_some() {
            queues::selected_queues(client, queue.as_deref()).await?;
        }
        note("no group has ready or running jobs, or a rule");
        return Unreadable::report(&unreadable);
    }
    print(&table::text(&rows, &COLUMNS))?;
    for Of { queue, record: page } in &listed {
        if let Some(next) = &page.next {
            note(&format!("there are more: `groups list --queue {queue}` with {}", next_page_argument(next.as_str())));
        }
    }
    Unreadable::report(&unreadable)
}

async fn read(client: &Client, queue: &str, limit: usize, after: Option<GroupName>) -> queue_core::Result<GroupPage> {
    let mut whole = GroupPage::default();
    whole.next = after;
    while whole.groups.len() < limit {
        let page = client.inspector().groups(queue, whole.next.take(), PAGE.min(limit - whole.groups.len())).await?;
        let groups = [whole.groups, page.groups.clone()].concat();
        whole = page;
        whole.groups = groups;
        if whole.next.is_none() {
            break;
        }
    }
    Ok(whole)
}

/// The argument for the page after a group, in a shell.
fn next_page_argument(group: &str) -> String {
    if group.contains(char::is_control) {
        return "`--json` has the group to continue after, as `next`".to_owned();
    }
    format!("--after '{}'", group.replace('\'', r"'\''"))
}

/// A group, its effective rule, and the set and declared rules of all groups.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    group: StoredGroup,
    holds: GroupRule,
    others: GroupRule,
    declared: GroupRule,
}

fn show(group: StoredGroup, page: &GroupPage, format: &Format) -> Result<(), Failure> {
    let holds = group.rule.over(page.defaults());
    if format.json {
        return Ok(print_json(&Shown { group, holds, others: page.others, declared: page.declared() })?);
    }
    let with_source = |value: String, field: fn(&GroupRule) -> bool| match page.source_of(&group.rule, field) {
        "group" | "default" => value,
        source => format!("{value} ({source})"),
    };
    let number = |number: Option<u64>, none: &str| number.map_or_else(|| none.to_owned(), |number| number.to_string());
    let mut lines = vec![
        ("group", group.name.to_string()),
        ("ready", group.ready.to_string()),
        ("active", group.active.to_string()),
        ("weight", with_source(number(holds.weight.map(u64::from), "1"), |rule| rule.weight.is_some())),
        ("cap", with_source(number(holds.cap.map(u64::from), "none"), |rule| rule.cap.is_some())),
        ("max size", with_source(number(holds.max_size, "none"), |rule| rule.max_size.is_some())),
        ("order", with_source(holds.order.unwrap_or_default().to_string(), |rule| rule.order.is_some())),
    ];
    lines.extend(group.oldest.map(|age| ("oldest", exact_duration(age))));
    lines.extend(group.pause.map(|pause| ("paused", pauses::describe_pause(Some(&pause), 200))));
    lines.extend(group.blocked_by.map(|job| ("blocked by", job.to_string())));
    Ok(print(&table::lines(lines))?)
}

async fn set(client: &Client, args: SetArgs) -> Result<(), Failure> {
    let Address { queue, name } = args.group;
    let of = match name.as_str() {
        "*" => RuleOf::Others,
        "-" => RuleOf::Plain,
        name => RuleOf::Group(GroupName::new(name)?),
    };
    if args.weight.is_none() && args.cap.is_none() && args.max_size.is_none() && args.order.is_none() && !args.clear {
        return Err(Failure::new(Exit::Usage, "nothing to set: give --weight, --cap, --max-size, --order or --clear"));
    }
    queues::warn_if_unknown(client, &queue).await;
    if let RuleOf::Group(group) = &of {
        warn_if_unknown(client, &queue, group).await?;
    }
    let inspector = client.inspector();
    if args.clear && of == RuleOf::Others && inspector.groups(&queue, None, 1).await?.others.is_empty() {
        let declared = inspector.forget_declared_groups(&queue).await?;
        if !declared.is_empty() {
            note(&format!("the declared rule is removed until a worker declares it again, within a minute if one runs: {declared}"));
        }
    }
    let rule = inspector
        .set_group_rule(&queue, &of, |rule| {
            if args.clear {
                *rule = GroupRule::new();
            }
            (rule.weight, rule.cap) = (args.weight.or(rule.weight), args.cap.or(rule.cap));
            (rule.max_size, rule.order) = (args.max_size.or(rule.max_size), args.order.or(rule.order));
        })
        .await?;
    if args.format.json {
        return Ok(print_json(&rule)?);
    }
    let line = Line { queue, name: of.to_string(), rule, group: None };
    Ok(print(&table::text(&[line], &RULE))?)
}
