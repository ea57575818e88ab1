//! Rules of groups: of one group, of all groups, and the declared rule of all groups.

use rusqlite::{OptionalExtension, params};

use super::limits;
use crate::{
    broker::{GroupRule, RuleOf},
    sqlite::connection::tx::{Queue, Tx},
};

/// The stored rule under a name, as text: empty if there is none.
pub(crate) fn stored_text(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8]) -> rusqlite::Result<String> {
    const RULE: &str = "SELECT rule FROM queue_rules WHERE queue = ?1 AND name = ?2";
    if !tx.may_have_groups() {
        return Ok(String::new());
    }
    let stored: Option<String> = tx.sql(RULE)?.query_row(params![queue.key, name], |row| row.get(0)).optional()?;
    Ok(stored.unwrap_or_default())
}

/// Stores a rule under a name; an empty one is removed.
pub(crate) fn store_rule(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8], rule: &str) -> rusqlite::Result<()> {
    const STORE: &str = "INSERT OR REPLACE INTO queue_rules (queue, name, rule) VALUES (?1, ?2, ?3)";
    const REMOVE: &str = "DELETE FROM queue_rules WHERE queue = ?1 AND name = ?2";
    if rule.is_empty() {
        return tx.sql(REMOVE)?.execute(params![queue.key, name]).map(drop);
    }
    tx.sql(STORE)?.execute(params![queue.key, name, rule]).map(drop)
}

/// The same, decoded.
pub(crate) fn stored_rule(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8]) -> rusqlite::Result<GroupRule> {
    Ok(GroupRule::of_stored(&stored_text(tx, queue, name)?))
}

/// The effective rule of a group: its own rule overrides an operator's rule for all groups (`*`),
/// which overrides the declared rule (`+`).
pub(crate) fn rule(tx: &Tx<'_>, queue: &Queue<'_>, name: &[u8]) -> rusqlite::Result<GroupRule> {
    const RULES: &str = "SELECT name, rule FROM queue_rules WHERE queue = ?1 AND name IN (?2, ?3, ?4)";
    if name == limits::NO_GROUP || !tx.may_have_groups() {
        return Ok(GroupRule::default());
    }
    let (others, declared) = (RuleOf::Others.stored(), RuleOf::Declared.stored());
    let [mut own, mut set, mut coded] = [GroupRule::default(); 3];
    let mut rules = tx.sql(RULES)?;
    let mut rows = rules.query(params![queue.key, name, others, declared])?;
    while let Some(row) = rows.next()? {
        let (of, rule): (Vec<u8>, String) = (row.get(0)?, row.get(1)?);
        let rule = GroupRule::of_stored(&rule);
        match of {
            of if of == others => set = rule,
            of if of == declared => coded = rule,
            _ => own = rule,
        }
    }
    Ok(own.over(set.or(coded)))
}
