//! The limits of a job: keys, derived from parameters or given, and costs.

use std::collections::BTreeMap;

use crate::{
    address::check_name,
    draft::LimitOptions,
    error::{Error, Result},
    group::GroupName,
    key::{self, KEY_MAX},
    limit::{COST_MAX, JobLimits, LIMITS_OF_A_JOB, LimitDef, LimitKey},
};

/// The limits of a job, and its key for each, as text for operators.
///
/// # Errors
/// [`Error::Invalid`] naming the parameter that cannot be a key; for a cost that could never start,
/// and for too many limits.
pub(super) fn of(
    task: &str,
    declared: &[LimitDef],
    payload: &[u8],
    group: Option<&GroupName>,
    options: Option<Box<LimitOptions>>,
) -> Result<Option<(JobLimits, BTreeMap<String, String>)>> {
    let LimitOptions { given, cost } = options.map(|options| *options).unwrap_or_default();
    let (mut keys, mut texts) = (Vec::new(), BTreeMap::new());
    for limit in declared.iter().filter(|limit| !given.contains_key(limit.name)) {
        if let Some((key, text)) = key::limit_of_payload(task, limit, payload, group)? {
            keys.push(key);
            texts.insert(limit.name.to_owned(), text);
        }
    }
    for (name, by) in given {
        check_name("limit", &name)?;
        if let Some(text) = by.as_ref().filter(|text| text.is_empty() || text.len() > KEY_MAX) {
            let problem = format!("has {} bytes; use 1 to {KEY_MAX}, or leave it out for the key of the whole queue", text.len());
            return Err(Error::invalid("limit key", text, problem));
        }
        keys.push(by.as_ref().map_or_else(|| LimitKey::of(&name, &[]), |text| key::limit_by_text(&name, text)));
        texts.insert(name, by.unwrap_or_default());
    }
    if keys.len() > LIMITS_OF_A_JOB {
        let problem = format!("are more than the {LIMITS_OF_A_JOB} that one job is subject to; let tasks share limits by name");
        return Err(Error::invalid("limits", keys.len().to_string(), problem));
    }
    let declared = declared.iter().filter(|limit| texts.contains_key(limit.name));
    check_cost(cost, declared, keys.is_empty())?;
    Ok(JobLimits::new(keys, cost.unwrap_or(1)).map(|limits| (limits, texts)))
}

/// The error for the name of an unknown limit.
pub(super) fn unknown<'a>(queue: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = crate::text::nearest(name, known).map_or_else(|| ".".to_owned(), |near| format!("; did you mean `{near}`?"));
    format!(
        "is not a limit of queue `{queue}`, and the job would run without it{near} Declare it on a task with `limit(name = \"{name}\", ..)` \
         and start a worker with that task, or use `limits set {queue}/{name} --new`"
    )
}

fn check_cost<'a>(cost: Option<u32>, mut declared: impl Iterator<Item = &'a LimitDef>, has_none: bool) -> Result<()> {
    let Some(cost) = cost else { return Ok(()) };
    let refused = |problem: String| Err(Error::invalid("cost", cost.to_string(), problem));
    if cost == 0 || cost > COST_MAX {
        return refused(format!("is not between 1 and {COST_MAX}"));
    }
    if cost > 1 && has_none {
        return refused("has no effect: the job is subject to no limit; declare one with `#[task(limit(..))]`".to_owned());
    }
    match declared.find(|limit| limit.rule.rate.is_some() && cost > limit.rule.burst()) {
        Some(limit) => {
            let (burst, name) = (limit.rule.burst(), limit.name);
            refused(format!(
                "is more than the burst {burst} of the limit `{name}`, so the job could never start; raise `burst`, or lower the cost"
            ))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(by: &'static [&'static str]) -> LimitDef {
        let mut limit = LimitDef::new("stripe");
        limit.by = by;
        (limit.rule.rate, limit.rule.burst) = (Some("100/1m".parse().unwrap()), Some(20));
        limit
    }

    fn payload(account: Option<&str>) -> Vec<u8> {
        crate::codec::encode(&BTreeMap::from([("account", account)])).unwrap()
    }

    fn options(cost: u32) -> Option<Box<LimitOptions>> {
        Some(Box::new(LimitOptions { cost: Some(cost), ..LimitOptions::default() }))
    }

    #[test]
    fn a_key_is_made_of_values_and_none_is_no_key() {
        let by = limit(&["account"]);
        let made = |account, limit| of("charge", &[limit], &payload(account), None, None).unwrap();
        let (limits, texts) = made(Some("a17"), by).unwrap();
        assert_eq!((limits.keys(), texts["stripe"].as_str()), (&[key::limit_by_text("stripe", "a17")][..], "a17"));
        assert!(made(None, by).is_none());
        assert_eq!(made(None, limit(&[])).unwrap().0.keys(), [LimitKey::of("stripe", &[])]);
        let mut of_group = limit(&[]);
        of_group.by_group = true;
        assert!(made(None, of_group).is_none());
        let acme = GroupName::new("acme").unwrap();
        assert_eq!(of("charge", &[of_group], &payload(None), Some(&acme), None).unwrap().unwrap().1["stripe"], "acme");
    }

    #[test]
    fn what_could_never_start_is_refused() {
        let problem = |declared: &[LimitDef], cost| of("charge", declared, &payload(None), None, options(cost)).unwrap_err().to_string();
        assert!(problem(&[limit(&[])], 21).starts_with("cost `21` is more than the burst 20 of the limit `stripe`"));
        assert!(problem(&[limit(&[])], 0).contains("between 1 and"));
        assert!(problem(&[], 2).contains("has no effect"));
        let mut many = LimitOptions::default();
        many.given.extend((0..9).map(|n| (format!("limit-{n}"), None)));
        assert!(of("charge", &[], &payload(None), None, Some(Box::new(many))).unwrap_err().to_string().contains("more than the 8"));
        assert!(of("charge", &[limit(&[])], &payload(None), None, options(20)).is_ok());
        let float = crate::codec::encode(&BTreeMap::from([("account", 1.5)])).unwrap();
        assert!(of("charge", &[limit(&["account"])], &float, None, None).unwrap_err().to_string().contains("is a float"));
    }
}
