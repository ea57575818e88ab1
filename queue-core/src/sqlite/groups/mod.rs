//! Groups: their list, and their rules.

use rusqlite::{OptionalExtension, params};

use crate::{
    address::JobId,
    broker::{GROUP_RULES, GroupList, GroupName, GroupPage, GroupRule, GroupSet, PauseOf, RuleOf, SetGroup, StoredGroup},
    error,
    sqlite::{
        connection::{
            operation::Commit,
            schema::Feature,
            statement::sql,
            tx::{Failed, Queue, Tx},
            unsigned::Unsigned,
            writer::Writer,
        },
        doors::{groups, limits::NO_GROUP, pauses},
        people,
    },
};

/// The number of groups that one transaction reviews when the rule of all groups has changed.
const REVIEWED: usize = 500;

pub(crate) fn list(tx: &mut Tx<'_>, queue: &str, which: &GroupList) -> Result<GroupPage, Failed> {
    let Some(queue) = tx.queue(queue)? else {
        let one = match which {
            GroupList::One(name) | GroupList::Line { group: name, .. } => vec![StoredGroup::new(name.clone())],
            GroupList::All { .. } => Vec::new(),
        };
        let mut page = GroupPage::new(one, GroupRule::default(), GroupRule::default(), None);
        page.now_ms = tx.now;
        return Ok(page);
    };
    let rule = |of: RuleOf| groups::stored_rule(tx, &queue, &of.stored());
    let (others, plain) = (rule(RuleOf::Others)?, rule(RuleOf::Plain)?);
    let (names, more) = match which {
        GroupList::One(name) | GroupList::Line { group: name, .. } => (vec![name.clone()], false),
        GroupList::All { after, .. } => names(tx, &queue, after.as_ref(), which.limit())?,
    };
    let line = match which {
        GroupList::Line { group, .. } => groups::line(tx, &queue, &group.stored(), which.limit())?,
        _ => Vec::new(),
    };
    let groups: Vec<StoredGroup> = names.iter().map(|name| group(tx, &queue, name)).collect::<Result<_, Failed>>()?;
    let next = groups.last().filter(|_| more).map(|group| group.name.clone());
    let mut page = GroupPage::new(groups, others, plain, next);
    (page.line, page.stored_declared, page.now_ms) = (line, groups::stored_text(tx, &queue, &RuleOf::Declared.stored())?, tx.now);
    Ok(page)
}

/// The names of a page, and whether there are more. `NO_GROUP`, which has the jobs with limits but
/// without a group, is not a group and sorts before all groups.
fn names(tx: &Tx<'_>, queue: &Queue<'_>, after: Option<&GroupName>, limit: usize) -> Result<(Vec<GroupName>, bool), Failed> {
    let mut after = after.map_or_else(|| NO_GROUP.to_vec(), GroupName::stored);
    loop {
        let mut names = tx.sql(sql!("list.sql"))?;
        let mut found: Vec<Vec<u8>> = names
            .query_map(params![queue.key, after, Unsigned(limit + 1)], |row| row.get::<_, Vec<u8>>(0))?
            .collect::<rusqlite::Result<_>>()?;
        let more = found.len() > limit;
        found.truncate(limit);
        // An invalid name is left for the auditor. It still counts for the page.
        let names: Vec<GroupName> = found.iter().filter_map(|stored| GroupName::of_stored(stored)).collect();
        match found.pop() {
            Some(last) if more && names.is_empty() => after = last,
            _ => return Ok((names, more)),
        }
    }
}

fn group(tx: &Tx<'_>, queue: &Queue<'_>, name: &GroupName) -> Result<StoredGroup, Failed> {
    const FRONT: &str = "SELECT front FROM queue_groups WHERE queue = ?1 AND name = ?2";
    let stored = &name.stored();
    let mut group = StoredGroup::new(name.clone());
    group.ready = groups::depth(tx, queue, stored)?;
    group.active = groups::running(tx, queue, stored)?;
    group.set_rule(&groups::stored_text(tx, queue, stored)?);
    group.oldest = people::oldest_age(tx, queue, stored)?;
    if groups::is_ordered(groups::rule(tx, queue, stored)?) {
        let front: Option<Option<Vec<u8>>> = tx.sql(FRONT)?.query_row(params![queue.key, stored], |row| row.get(0)).optional()?;
        group.blocked_by = front.flatten().and_then(|front| JobId::from_bytes(&front).ok());
    }
    Ok(group)
}

/// The largest number of bytes that a rule adds to the file.
const RULE_BYTES: usize = 512;

/// Sets a rule, and recomputes which groups may be served.
pub(crate) async fn change(writer: &Writer, request: &SetGroup) -> error::Result<GroupSet> {
    request.check()?;
    let words = request.record.as_ref().map_or(0, |(_, stored)| stored.len());
    let commit = if request.is_removal() { Commit::Synced } else { Commit::Extra(RULE_BYTES + words) };
    let (wanted, queue) = (request.clone(), request.queue.clone());
    let answer = writer.call(commit, move |tx| set(tx, &wanted)).await?;
    let mut from = (answer == GroupSet::Set && request.is_of_all()).then(Vec::new);
    while let Some(behind) = from {
        let queue = queue.clone();
        from = writer.call(Commit::Soon, move |tx| review(tx, &queue, &behind)).await?;
    }
    Ok(answer)
}

/// Sets a rule, if the stored rule is the one that was read.
fn set(tx: &mut Tx<'_>, request: &SetGroup) -> Result<GroupSet, Failed> {
    const RULES: &str = "SELECT count(*) FROM queue_rules WHERE queue = ?1";
    let queue = tx.queue_or_create(&request.queue)?;
    let name = request.of.stored();
    let stored = groups::stored_text(tx, &queue, &name)?;
    let wanted = request.stored_over(&stored);
    if stored == wanted {
        return Ok(GroupSet::Set);
    }
    if request.is_stale(&stored) {
        return Ok(GroupSet::Stale);
    }
    tx.note(Feature::Groups)?;
    if !request.is_removal() {
        let rules: usize = tx.sql(RULES)?.query_row([queue.key], |row| Unsigned::get(row, 0))?;
        if stored.is_empty() && rules >= GROUP_RULES {
            return Err(request.too_many().into());
        }
    }
    groups::store_rule(tx, &queue, &name, &wanted)?;
    if let RuleOf::Group(group) = &request.of {
        if !request.rule.paused {
            pauses::clear(tx, &queue, &PauseOf::Group(group.clone()))?;
        }
        groups::review(tx, &queue, &name)?;
    }
    Ok(GroupSet::Set)
}

/// Recomputes whether groups may be served, for some of the groups after a name. Returns the last
/// of them, if there are more.
fn review(tx: &mut Tx<'_>, queue: &str, after: &[u8]) -> Result<Option<Vec<u8>>, Failed> {
    /// The next groups with a line, after a name.
    const STEP: &str = "SELECT name FROM queue_groups WHERE queue = ?1 AND name > ?2 ORDER BY name LIMIT ?3";
    let Some(queue) = tx.queue(queue)? else { return Ok(None) };
    let names: Vec<Vec<u8>> = tx
        .sql(STEP)?
        .query_map(params![queue.key, after, Unsigned(REVIEWED)], |row| row.get::<_, Vec<u8>>(0))?
        .collect::<rusqlite::Result<_>>()?;
    for name in &names {
        groups::review(tx, &queue, name)?;
    }
    Ok(names.last().filter(|_| names.len() == REVIEWED).cloned())
}
