//! The page Groups: the groups of a queue, their waiting and running jobs, and their rules.

use std::{sync::Arc, time::SystemTime};

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use futures_util::FutureExt;
use queue_core::{
    Error, JobState,
    inspect::{GroupName, GroupOrder, GroupRule, StoredGroup},
};

use super::{
    CHOICES, Content, QUEUES, QUEUES_AT_ONCE, Stale, full_page,
    group::{reason_of, word_for},
    jobs::Notice,
    pauses::describe_pause,
    render,
    unread::Unread,
};
use crate::{
    format::{Moment, count, number, short},
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
    snapshot::{Snapshot, together},
};

/// Groups on one page.
const PAGE: usize = 50;

/// The maximum number of groups of a queue, by name, that are sorted by their waiting jobs.
const SORTED: usize = 1_000;

/// The maximum number of groups in one answer of a broker.
const AT_ONCE: usize = 500;

#[derive(Template)]
#[template(path = "groups.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    stale: Option<Stale>,
    unread: Unread,
    rows: Vec<Row>,
    queue: &'a str,
    queues: Vec<String>,
    rules: Vec<String>,
    back: String,
    first: Option<String>,
    next: Option<String>,
}

/// The start of a page of the list.
#[derive(Clone, Debug, Default)]
struct Place {
    /// The list begins with this queue, if it is a list of all queues.
    queue: String,
    /// The list begins after this group.
    after: Option<GroupName>,
    /// The number of groups to skip, if the groups of one queue are sorted by their waiting jobs.
    offset: usize,
}

struct Row {
    queue: String,
    encoded: String,
    shown: String,
    /// The address of its page.
    page: String,
    share: u64,
    ready: u64,
    ready_text: String,
    oldest: Option<Moment>,
    active: String,
    weight: u32,
    badge: Badge,
    ordered: bool,
}

/// A word for whether its jobs are claimed.
#[derive(Clone, Debug)]
pub(super) struct Badge {
    pub(super) word: &'static str,
    /// The tone of the word.
    pub(super) tone: &'static str,
    pub(super) paused: bool,
    /// The reason, if there is one to show.
    pub(super) why: String,
}

impl Badge {
    /// `is_in_paused`: its queue is paused. It is unknown here whether workers, limits or the
    /// rotation of groups let its jobs start.
    pub(super) fn of(group: &StoredGroup, holds: GroupRule, is_in_paused: bool) -> Badge {
        let active = u32::try_from(group.active).unwrap_or(u32::MAX);
        let (word, tone, why) = match (holds.paused, holds.cap, &group.blocked_by) {
            (true, ..) => ("paused", "warn", group.pause.as_ref().map(describe_pause).unwrap_or_default()),
            (false, Some(0), _) => ("closed", "warn", "its cap is 0".to_owned()),
            (false, _, Some(job)) if holds.order == Some(GroupOrder::Ordered) && group.ready > 0 => {
                ("held", "", format!("{job} blocks the group"))
            }
            (false, Some(cap), _) if active >= cap => ("full", "", format!("{} of {cap} run", group.active)),
            _ if is_in_paused && group.ready > 0 => ("queue paused", "warn", String::new()),
            _ if group.ready > 0 => ("ready", "", String::new()),
            _ if group.active > 0 => ("runs", "good", String::new()),
            _ => ("idle", "", String::new()),
        };
        Badge { word, tone, paused: holds.paused, why: short(&why, 200) }
    }
}

impl Row {
    fn new(queue: &str, group: &StoredGroup, defaults: GroupRule, snapshot: Option<&Snapshot>, now: SystemTime) -> Self {
        let holds = group.rule.over(defaults);
        let name = group.name.to_string();
        let is_paused = is_paused(queue, snapshot);
        Row {
            encoded: encoded(&name),
            shown: short(&name, 60),
            page: of_group(queue, &name),
            share: share(queue, group.ready, snapshot),
            ready: group.ready,
            ready_text: number(group.ready),
            oldest: group.oldest.and_then(|age| now.checked_sub(age)).map(|since| Moment::new(since, now)),
            active: holds.cap.map_or_else(|| number(group.active), |cap| format!("{} / {cap}", number(group.active))),
            weight: holds.weight.unwrap_or(1),
            badge: Badge::of(group, holds, is_paused),
            ordered: !matches!(holds.order, None | Some(GroupOrder::Any)),
            queue: queue.to_owned(),
        }
    }

    fn with_badge(mut self, word: Option<(&'static str, &'static str)>) -> Self {
        if let Some((word, tone)) = word {
            (self.badge.word, self.badge.tone) = (word, tone);
        }
        self
    }
}

/// The reason that blocks the first job of each group whose own rule allows a start. It is the word
/// of the page of the group.
async fn reasons(
    shared: &Shared,
    groups: &[(String, StoredGroup, GroupRule)],
    snapshot: Option<&Snapshot>,
) -> Vec<Option<(&'static str, &'static str)>> {
    let mut calls = Vec::with_capacity(groups.len());
    for (queue, group, defaults) in groups {
        let is_ready = Badge::of(group, group.rule.over(*defaults), is_paused(queue, snapshot)).word == "ready";
        calls.push(
            async move {
                let first = if is_ready { shared.inspector.group_line(queue, &group.name, 1).await.ok()?.pop() } else { None }?;
                reason_of(shared, queue, &first).await.ok().map(|reason| word_for(reason.as_ref()))
            }
            .boxed(),
        );
    }
    together(calls).await
}

fn is_paused(queue: &str, snapshot: Option<&Snapshot>) -> bool {
    snapshot.and_then(|snapshot| snapshot.queue(queue)).is_some_and(|queue| queue.stats.paused)
}

/// The share of the ready jobs of its queue, in percent.
fn share(queue: &str, ready: u64, snapshot: Option<&Snapshot>) -> u64 {
    let all = snapshot.and_then(|snapshot| snapshot.queues.iter().find(|other| other.name == queue));
    let all = all.map_or(0, |queue| queue.stats.count(JobState::Ready)).max(ready);
    (ready * 100 + all / 2).checked_div(all).unwrap_or(0)
}

/// The address of the page of a group, relative to the base.
pub(super) fn of_group(queue: &str, group: &str) -> String {
    format!("group?{}", query(&[("queue", queue), ("group", group)]))
}

/// The encoded name of a group for a hidden field. A browser would change the line ends of a name.
pub(super) fn encoded(group: &str) -> String {
    form_urlencoded::byte_serialize(group.as_bytes()).collect()
}

/// The text of a rule.
fn describe_rule(of: &str, rule: GroupRule) -> Option<String> {
    (!rule.is_empty()).then(|| format!("{of}: {rule}."))
}

/// The result of the change that has led to this page.
pub(super) fn notice(params: &Params) -> Option<Notice> {
    let good = |text: &str| Some(Notice { text: text.to_owned(), is_good: true });
    match params.get("did")? {
        "paused" => good("The group is paused. Its running jobs continue."),
        "resumed" => good("The group is resumed."),
        "set" => good("The rule is set. It applies from the next claim on."),
        "cleared" => {
            let n = params.number::<0, { u64::MAX }>("n").get();
            good(&format!("{} {} cancelled.", number(n), if n == 1 { "job was" } else { "jobs were" }))
        }
        "clearing" => good("It continues in the background. The log reports the number of cancelled jobs when it has ended."),
        _ => None,
    }
}

pub(crate) async fn page(State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, RawQuery(query): RawQuery) -> Response {
    match content(&shared, &viewer, &Params::parse(query.unwrap_or_default().as_bytes())).await {
        Ok(content) => full_page(&shared, &viewer, &content),
        Err(problem) => problem.page(&viewer),
    }
}

/// The address of the list, rebuilt from its parameters.
fn list_address(queue: &str, place: &Place) -> String {
    let offset = if place.offset == 0 { String::new() } else { place.offset.to_string() };
    query(&[("queue", queue), ("at", &place.queue), ("after", place.after.as_ref().map_or("", GroupName::as_str)), ("offset", &offset)])
}

/// The request of a list: its queue, and its start.
fn read(params: &Params) -> (String, Place) {
    let offset = usize::try_from(params.number::<0, { SORTED as u64 }>("offset").get()).unwrap_or(SORTED);
    let after = params.get("after").and_then(|after| GroupName::new(after).ok());
    (params.text::<128>("queue"), Place { queue: params.text::<128>("at"), after, offset })
}

/// The address of the list with a form, relative to the base.
pub(super) fn back_to_list(back: &str) -> Option<String> {
    let (queue, place) = read(&Params::parse(back.strip_prefix("groups?")?.as_bytes()));
    Some(format!("groups?{}", list_address(&queue, &place)))
}

/// Groups with their queues and the rules of all groups of these queues, and the start of the next
/// page.
struct Found {
    groups: Vec<(String, StoredGroup, GroupRule)>,
    next: Option<Place>,
    rules: Vec<String>,
}

pub(crate) async fn content(shared: &Shared, viewer: &Viewer, params: &Params) -> Result<Content, Problem> {
    let (queue, place) = read(params);
    let view = shared.view().await;
    let snapshot = view.snapshot.as_deref();
    let names: Vec<String> = snapshot.map(|snapshot| snapshot.queues.iter().map(|queue| queue.name.clone()).collect()).unwrap_or_default();
    let _permit = shared.list_permit().await?;
    let mut unread = Unread::of(&view, &queue);
    let found = match queue.as_str() {
        "" => groups_of_all_queues(shared, &names, &place, &mut unread).await,
        name if names.iter().any(|known| known == name) => groups_of_queue(shared, name, &place).await?,
        _ => Found { groups: Vec::new(), next: None, rules: Vec::new() },
    };
    let reasons = reasons(shared, &found.groups, snapshot).await;
    let now = SystemTime::now();
    let is_first = place.queue.is_empty() && place.after.is_none() && place.offset == 0;
    let here = list_address(&queue, &place);
    let page = Page {
        viewer,
        stale: Stale::of(&view),
        unread,
        rows: found
            .groups
            .iter()
            .zip(&reasons)
            .map(|((queue, group, defaults), word)| Row::new(queue, group, *defaults, snapshot, now).with_badge(*word))
            .collect(),
        queues: names.iter().take(CHOICES).cloned().collect(),
        rules: found.rules,
        back: format!("groups?{here}"),
        first: (!is_first).then(|| list_address(&queue, &Place::default())),
        next: found.next.map(|next| list_address(&queue, &next)),
        queue: &queue,
    };
    let status = if snapshot.is_some() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let live = format!("/live/groups?{here}");
    Ok(Content { title: "Groups".to_owned(), tab: "groups", html: render(&page)?, status, live: Some(live), notice: notice(params) })
}

/// The groups of one queue, by their waiting jobs. The first [`SORTED`] groups after a name are
/// examined.
async fn groups_of_queue(shared: &Shared, queue: &str, place: &Place) -> Result<Found, Error> {
    let (mut groups, mut behind, mut rules) = (Vec::new(), place.after.clone(), [GroupRule::default(); 4]);
    while groups.len() < SORTED {
        let page = shared.inspector.groups(queue, behind.take(), AT_ONCE).await?;
        rules = [page.defaults(), page.others, page.declared(), page.plain];
        groups.extend(page.groups);
        behind = page.next;
        if behind.is_none() {
            break;
        }
    }
    let [defaults, others, declared, plain] = rules;
    // Groups with equal numbers are sorted by name.
    groups.sort_by_key(|group| std::cmp::Reverse(group.ready));
    let end = place.offset + PAGE;
    let next = if end < groups.len() {
        Some(Place { offset: end, ..place.clone() })
    } else {
        behind.map(|after| Place { after: Some(after), ..Place::default() })
    };
    let shown = groups.into_iter().skip(place.offset).take(PAGE).map(|group| (queue.to_owned(), group, defaults)).collect();
    let rules = [
        describe_rule("Default of all groups", others),
        describe_rule("Default of all groups, declared in code", declared),
        describe_rule("Jobs without a group", plain),
    ];
    Ok(Found { groups: shown, next, rules: rules.into_iter().flatten().collect() })
}

/// The groups of all queues, by the names of queues and groups.
async fn groups_of_all_queues(shared: &Shared, queues: &[String], from: &Place, unread: &mut Unread) -> Found {
    let rest: Vec<&String> = queues.iter().filter(|name| **name >= from.queue).collect();
    let mut groups: Vec<(String, StoredGroup, GroupRule)> = Vec::new();
    for some in rest.chunks(QUEUES_AT_ONCE).take(QUEUES / QUEUES_AT_ONCE) {
        let calls = some.iter().map(|name| {
            let after = from.after.clone().filter(|_| **name == from.queue);
            shared.inspector.groups(name, after, PAGE).map(move |page| (*name, page)).boxed()
        });
        for (name, page) in together(calls.collect()).await {
            let Some(page) = unread.take_or_record(name, page) else { continue };
            let room = PAGE - groups.len();
            let cut = page.groups.len() > room;
            let (defaults, more) = (page.defaults(), page.next.is_some());
            groups.extend(page.groups.into_iter().take(room).map(|group| (name.clone(), group, defaults)));
            if cut || more {
                // If the page has no room for a group of this queue, the next page begins with the
                // first one.
                let after = groups.last().filter(|(queue, ..)| queue == name).map(|(_, group, _)| group.name.clone());
                return Found { groups, next: Some(Place { queue: name.clone(), after, offset: 0 }), rules: Vec::new() };
            }
        }
    }
    let next = rest.get(QUEUES).map(|name| Place { queue: (*name).clone(), ..Place::default() });
    Found { groups, next, rules: Vec::new() }
}

/// The text for a number of jobs.
pub(super) fn jobs(n: u64) -> String {
    count(n, "job")
}
