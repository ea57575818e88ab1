//! Groups: jobs of one tenant, user or account, which share a queue fairly with others; and the
//! rules of a group.

mod check;

use std::{cmp::Ordering, fmt, str::FromStr, sync::Arc};

use serde::Serialize;

use crate::{
    error::{Error, Result},
    text::cut,
};

/// Longest name of a group, in bytes.
pub const GROUP_MAX: usize = 256;

/// The largest weight of a group.
pub const WEIGHT_MAX: u32 = 1000;

/// The name of a group: 1 to 256 bytes of any text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct GroupName(Arc<str>);

impl GroupName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty one, and for one over 256 bytes.
    pub fn new(name: impl AsRef<str>) -> Result<Self> {
        let name = name.as_ref();
        if name.is_empty() || name.len() > GROUP_MAX {
            let problem = format!("has {} bytes; use 1 to {GROUP_MAX}, or leave it out for a job without a group", name.len());
            return Err(Error::invalid("group", cut(name.to_owned(), GROUP_MAX), problem));
        }
        Ok(GroupName(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// For brokers: the name after its length in two bytes, so that no name is a prefix of another.
    /// Names are ordered by these bytes.
    pub fn stored(&self) -> Vec<u8> {
        let length = u16::try_from(self.0.len()).unwrap_or(u16::MAX).to_be_bytes();
        [&length, self.0.as_bytes()].concat()
    }

    /// For brokers: reads the form in storage.
    pub fn of_stored(stored: &[u8]) -> Option<Self> {
        let (length, name) = stored.split_at_checked(2)?;
        let name = std::str::from_utf8(name).ok()?;
        (usize::from(u16::from_be_bytes([length[0], length[1]])) == name.len()).then(|| GroupName::new(name).ok()).flatten()
    }
}

impl Ord for GroupName {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0.len(), &self.0).cmp(&(other.0.len(), &other.0))
    }
}

impl PartialOrd for GroupName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupName({:?})", &*self.0)
    }
}

impl FromStr for GroupName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        GroupName::new(name)
    }
}

/// Whether the jobs of a group run one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GroupOrder {
    /// The cap bounds the running jobs.
    #[default]
    Any,
    /// One at a time, in order. A job that waits for its retry, its snooze or a worker that knows
    /// its task blocks the line, until it has ended: done, dead, cancelled or expired.
    Ordered,
    /// One at a time, in order. A job that waits for its retry does not block the next one, and
    /// returns to the head.
    SkipFailed,
}

impl GroupOrder {
    /// All, in the order in which they are listed.
    pub const ALL: [GroupOrder; 3] = [GroupOrder::Any, GroupOrder::Ordered, GroupOrder::SkipFailed];

    /// The word for it everywhere.
    pub fn name(self) -> &'static str {
        match self {
            GroupOrder::Any => "any",
            GroupOrder::Ordered => "ordered",
            GroupOrder::SkipFailed => "skip_failed",
        }
    }

    /// A letter, as brokers store it.
    fn letter(self) -> char {
        match self {
            GroupOrder::Any => 'a',
            GroupOrder::Ordered => 'o',
            GroupOrder::SkipFailed => 's',
        }
    }
}

impl fmt::Display for GroupOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for GroupOrder {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        GroupOrder::ALL.into_iter().find(|order| order.name() == text).ok_or_else(|| {
            let known: Vec<_> = GroupOrder::ALL.iter().map(|order| order.name()).collect();
            Error::invalid("order", text, format!("is unknown; use one of {}", known.join(", ")))
        })
    }
}

/// The effective rule of a group. A `None` field is taken from the rule of the [other
/// groups](RuleOf::Others), then from the [declaration](RuleOf::Declared) of code, and then from
/// the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GroupRule {
    /// How often it is served, for one time that a group of weight 1 is: 1 to 1000. Default: 1.
    pub weight: Option<u32>,
    /// The most jobs that run at once, by their leases; 0 closes the group. Default: no cap, or 1
    /// for an ordered group.
    pub cap: Option<u32>,
    /// The most ready jobs; an enqueue beyond that is rejected. Default: no bound.
    pub max_size: Option<u64>,
    /// Whether its jobs run in order. Default: [`GroupOrder::Any`].
    pub order: Option<GroupOrder>,
    /// None of its jobs is claimed.
    pub paused: bool,
}

impl GroupRule {
    /// An empty rule.
    pub fn new() -> Self {
        GroupRule::default()
    }

    /// For the macros, which have checked it.
    #[doc(hidden)]
    pub const fn made(cap: Option<u32>, max_size: Option<u64>, order: Option<GroupOrder>) -> Self {
        GroupRule { weight: None, cap, max_size, order, paused: false }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        *self == GroupRule::default()
    }

    /// The same, with the fields of another rule where this one has none.
    #[must_use]
    pub fn or(self, other: GroupRule) -> GroupRule {
        GroupRule {
            weight: self.weight.or(other.weight),
            cap: self.cap.or(other.cap),
            max_size: self.max_size.or(other.max_size),
            order: self.order.or(other.order),
            paused: self.paused,
        }
    }

    /// The effective rule of a group with this rule if the other groups have that one. Cap and
    /// order are set if they limit.
    #[must_use]
    pub fn over(self, others: GroupRule) -> GroupRule {
        let order = self.order.or(others.order);
        let is_ordered = !matches!(order, None | Some(GroupOrder::Any));
        let cap = self.cap.or(others.cap).or(is_ordered.then_some(1));
        GroupRule {
            weight: self.weight.or(others.weight),
            // One at a time: a cap of more is that of another rule.
            cap: if is_ordered { cap.map(|cap| cap.min(1)) } else { cap },
            max_size: self.max_size.or(others.max_size),
            order,
            paused: self.paused,
        }
    }

    /// For brokers: weight, cap, largest size, order and pause, separated by colons; missing fields
    /// are empty. The record of a pause follows.
    pub fn stored(&self) -> String {
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let order = self.order.map(|order| order.letter().to_string()).unwrap_or_default();
        let paused = if self.paused { "p" } else { "" };
        format!("{}:{}:{}:{order}:{paused}", number(self.weight.map(u64::from)), number(self.cap.map(u64::from)), number(self.max_size))
    }

    /// For brokers: reads the form in storage. An unreadable form is read as empty.
    pub fn of_stored(stored: &str) -> Self {
        let mut parts = stored.split(':');
        let mut part = || parts.next().unwrap_or_default();
        GroupRule {
            weight: part().parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight)),
            cap: part().parse().ok(),
            max_size: part().parse().ok(),
            order: { part() }.chars().next().and_then(|letter| GroupOrder::ALL.into_iter().find(|order| order.letter() == letter)),
            paused: part().starts_with('p'),
        }
    }

    /// For brokers: the reason of a pause, which follows the letter of the pause.
    pub fn reason_of_stored(stored: &str) -> Option<String> {
        stored.splitn(5, ':').nth(4)?.strip_prefix('p').filter(|reason| !reason.is_empty()).map(str::to_owned)
    }
}

impl fmt::Display for GroupRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |name: &str, value: Option<u64>| value.map(|value| format!("{name} {value}"));
        let parts = [
            number("weight", self.weight.map(u64::from)),
            number("cap", self.cap.map(u64::from)),
            number("largest size", self.max_size),
            self.order.map(|order| format!("order {order}")),
            self.paused.then(|| "paused".to_owned()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(if parts.is_empty() { "nothing" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

/// The groups to which a rule applies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RuleOf {
    /// A group's.
    Group(GroupName),
    /// The default of all groups.
    Others,
    /// The declaration of code for all groups with `#[task(group(..))]`. Workers store it. An
    /// operator sets the default of the [others](Self::Others), which overrides it field by field.
    Declared,
    /// Jobs without a group: only a weight. Default: their share of the waiting jobs.
    Plain,
}

impl RuleOf {
    /// For brokers: the name under which the rule is stored; no group has a name like that of the
    /// other three.
    pub fn stored(&self) -> Vec<u8> {
        match self {
            RuleOf::Group(group) => group.stored(),
            RuleOf::Others => b"*".to_vec(),
            RuleOf::Declared => b"+".to_vec(),
            RuleOf::Plain => b"-".to_vec(),
        }
    }
}

impl fmt::Display for RuleOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleOf::Group(group) => group.fmt(f),
            RuleOf::Others => f.write_str("*"),
            RuleOf::Declared => f.write_str("+"),
            RuleOf::Plain => f.write_str("-"),
        }
    }
}

crate::address::serde_as_text!(GroupName);

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> GroupName {
        GroupName::new(name).unwrap()
    }

    #[test]
    fn a_name_is_read_as_it_is_stored() {
        for name in ["a", "acme", "ä@example.com", "*", "-", "a\0b", &"x".repeat(256)] {
            assert_eq!(GroupName::of_stored(&group(name).stored()), Some(group(name)));
        }
        assert!(GroupName::new("").is_err() && GroupName::new("x".repeat(257)).unwrap_err().to_string().contains("257 bytes"));
        assert_eq!(GroupName::of_stored(b"\0\x02a"), None);
        let mut names = [group("b"), group("aa"), group("a")];
        names.sort();
        assert_eq!(names, [group("a"), group("b"), group("aa")]);
    }

    #[test]
    fn a_rule_is_read_as_it_is_stored() {
        let mut rule = GroupRule { weight: Some(3), cap: Some(0), max_size: Some(9), order: Some(GroupOrder::SkipFailed), paused: true };
        assert_eq!(GroupRule::of_stored(&rule.stored()), rule);
        let why = format!("{}unpaid: since May", rule.stored());
        assert_eq!((GroupRule::of_stored(&why), GroupRule::reason_of_stored(&why).as_deref()), (rule, Some("unpaid: since May")));
        assert_eq!((GroupRule::reason_of_stored(&rule.stored()), GroupRule::reason_of_stored(":2:::x")), (None, None));
        rule = GroupRule { cap: Some(2), ..GroupRule::new() };
        assert_eq!((rule.stored().as_str(), GroupRule::of_stored(&rule.stored())), (":2:::", rule));
        assert!(GroupRule::of_stored("").is_empty() && GroupRule::of_stored("0:x:-1:z:y").is_empty());
    }

    #[test]
    fn a_rule_goes_over_that_of_the_others() {
        let others = GroupRule { cap: Some(4), weight: Some(2), ..GroupRule::new() };
        let own = GroupRule { weight: Some(5), paused: true, ..GroupRule::new() };
        let both = own.over(others);
        assert_eq!((both.weight, both.cap, both.paused), (Some(5), Some(4), true));
        let ordered = GroupRule { order: Some(GroupOrder::Ordered), ..GroupRule::new() };
        assert_eq!(ordered.over(others).cap, Some(1));
        assert_eq!(GroupRule { cap: Some(0), ..ordered }.over(others).cap, Some(0));
        let declared = GroupRule { cap: Some(9), max_size: Some(7), ..ordered };
        let both = others.or(declared);
        assert_eq!(both.to_string(), "weight 2, cap 4, largest size 7, order ordered");
        assert_eq!((own.over(both).cap, own.over(both).max_size), (Some(1), Some(7)));
        assert_eq!(
            (GroupRule { paused: true, ..GroupRule::new() }.to_string(), GroupRule::new().to_string()),
            ("paused".into(), "nothing".into())
        );
    }

    #[test]
    fn what_cannot_be_is_refused_with_advice() {
        let of = RuleOf::Group(group("acme"));
        let problem = |rule: GroupRule, of: &RuleOf| rule.check(of).unwrap_err().to_string();
        let rule = GroupRule::new();
        assert!(problem(GroupRule { weight: Some(0), ..rule }, &of).starts_with("weight `0` is not between 1 and 1000"));
        assert!(problem(GroupRule { weight: Some(1001), ..rule }, &of).contains("divide"));
        assert!(problem(GroupRule { cap: Some(2), order: Some(GroupOrder::Ordered), ..rule }, &of).contains("contradicts"));
        assert!(problem(GroupRule { max_size: Some(0), ..rule }, &of).contains("at least 1"));
        assert!(problem(GroupRule { cap: Some(2), ..rule }, &RuleOf::Plain).contains("only a weight"));
        assert!(problem(GroupRule { paused: true, ..rule }, &RuleOf::Others).contains("pause the queue"));
        assert!(GroupRule { cap: Some(0), ..rule }.check(&of).is_ok());
    }
}
