//! Differences that operators should know of: between the declarations of releases, and between
//! the clocks of the broker and of this machine.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use super::Inspector;
use crate::{
    broker::{GroupsRecord, LimitRecord},
    error::Result,
};

/// A limit, or the rule of all groups of a queue, for which releases with live workers declare
/// different values. From [`Inspector::differences`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The limit; `None`: the rule of all groups.
    pub limit: Option<String>,
    /// The releases, sorted, and the value that each declares.
    pub declared: Vec<(String, String)>,
    /// The value that applies: the setting of an operator, or the declaration of the release that
    /// was first seen latest.
    pub applies: String,
}

impl Difference {
    fn of(limit: Option<String>, declared: BTreeMap<String, String>, applies: String) -> Option<Self> {
        let values: BTreeSet<&String> = declared.values().collect();
        (values.len() > 1).then(|| Difference { limit, declared: declared.into_iter().collect(), applies })
    }

    /// How an operator resolves it.
    pub fn advice(&self) -> &'static str {
        match &self.limit {
            Some(_) => "deploy one release everywhere, or set the value with `limits set`, which overrides every declaration",
            None => "deploy one release everywhere, or set the rule with `groups set`, which overrides every declaration",
        }
    }
}

/// The values with their releases, and the value that applies.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.limit {
            Some(limit) => write!(f, "live releases declare different values for the limit `{limit}`: ")?,
            None => f.write_str("live releases declare different rules for all groups: ")?,
        }
        let declared: Vec<String> = self.declared.iter().map(|(release, value)| format!("{release} declares {value}")).collect();
        write!(f, "{}. In effect for all of them: {}", declared.join(", "), self.applies)
    }
}

impl Inspector {
    /// The limits, and the rule of all groups, for which releases with live workers declare
    /// different values in a queue. One value applies to the workers of all releases.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a name outside the grammar; those of the
    /// broker.
    pub async fn differences(&self, queue: &str) -> Result<Vec<Difference>> {
        let limits = self.stored_limits(queue, None).await?;
        let records: Vec<LimitRecord> = limits.iter().filter_map(|limit| LimitRecord::decode(&limit.stored).ok()).collect();
        let groups = self.first_group(queue).await?;
        let of_groups = GroupsRecord::decode(&groups.stored_declared);
        if records.iter().all(|record| record.declarations().count() < 2) && of_groups.declarations().count() < 2 {
            return Ok(Vec::new());
        }
        let workers = self.workers_of(queue).await?;
        let live: BTreeSet<&str> =
            workers.iter().filter(|worker| !worker.lease_left.is_zero()).map(|worker| worker.release.as_str()).collect();
        let mut found = Vec::new();
        for record in records {
            let declared = record.declarations().filter(|(release, _)| live.contains(release));
            let declared = declared.map(|(release, rule)| (release.to_owned(), rule.to_string())).collect();
            found.extend(Difference::of(Some(record.name.clone()), declared, record.rule().to_string()));
        }
        let declared = of_groups.declarations().filter(|(release, _)| live.contains(release));
        let declared = declared.map(|(release, rule)| (release.to_owned(), rule.to_string())).collect();
        found.extend(Difference::of(None, declared, groups.defaults().to_string()));
        found.sort_by(|one, other| one.limit.cmp(&other.limit));
        Ok(found)
    }

    /// How far the broker's clock is ahead of the clock of this machine, in milliseconds; negative
    /// if it is behind. The duration of the call does not count: 0 means that no difference was
    /// measured.
    ///
    /// # Errors
    /// Those of [`differences`](Self::differences).
    pub async fn clock_skew_ms(&self, queue: &str) -> Result<i64> {
        let before = machine_ms();
        let broker = self.first_group(queue).await?.now_ms;
        Ok(if broker == 0 { 0 } else { skew(before, broker, machine_ms()) })
    }
}

fn machine_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The distance of a time from an interval.
fn skew(before: i64, at: i64, after: i64) -> i64 {
    (at - after).max(0) + (at - before).min(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_duration_of_a_call_is_no_skew() {
        assert_eq!((skew(100, 100, 200), skew(100, 150, 200), skew(100, 200, 200)), (0, 0, 0));
        assert_eq!((skew(100, 3_600_200, 200), skew(3_600_100, 100, 3_600_200)), (3_600_000, -3_600_000));
    }
}
