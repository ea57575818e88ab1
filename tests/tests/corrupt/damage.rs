//! Damage of a key by other programs.

use std::fmt;

use queue_core::Error;

use super::{
    state::{Case, Keeper, Scene},
    verdict::Harm,
};

/// One key and its damage.
#[derive(Clone, Debug)]
pub(crate) struct Damage {
    pub(crate) kind: String,
    pub(crate) how: How,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// No damage, for comparison.
    None,
    /// The key is a string now.
    Retyped,
    /// The key was deleted.
    Deleted,
    /// Every field of the hash has this value.
    Filled(&'static [u8]),
    /// Every member of the sorted set has this score.
    Scored(&'static str),
    /// The key has an additional element: with a value in a hash, with a score in a sorted set.
    Joined(&'static [u8], &'static [u8]),
    /// The key has the id of a job that is also in another key.
    Doubled(&'static str),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        match &self.how {
            How::None => write!(f, "untouched"),
            How::Retyped => write!(f, "retyped"),
            How::Deleted => write!(f, "deleted"),
            How::Filled(value) => write!(f, "filled with `{}`", value.escape_ascii()),
            How::Scored(score) => write!(f, "scored {score}"),
            How::Joined(member, value) => write!(f, "joined by `{}` of `{}`", member.escape_ascii(), value.escape_ascii()),
            How::Doubled(name) => write!(f, "doubles {name}"),
        }
    }
}

const VALUES: &[&[u8]] =
    &[b"", b"garbage", b"-5", b"1.5", b"99999999999999999999", b"\xff\x00\xc1", b"\xdd\xff\xff\xff\xff", b":", b"a:b:c"];

const SCORES: &[&str] = &["-inf", "+inf", "1.5", "-5", "1e300"];

/// Unknown ids: a valid one, an invalid one, and one that is not text.
const MEMBERS: &[&[u8]] = &[b"=ghost", b"ghost", b"\xff\x00garbage", b""];

pub(crate) const LISTS: [&str; 6] = ["ready:0", "ready:1", "ready:2", "ready:3", "suspect", "ended"];
pub(crate) const SORTED: [&str; 12] =
    ["scheduled", "retry", "dead", "parked", "leases", "durations", "seen", "remembered", "resumes", "tags", "transitions", "lapsing"];

/// All damage that is tried.
pub(crate) fn all(scene: &Scene) -> Vec<Damage> {
    let mut all = vec![Damage { kind: "nothing".to_owned(), how: How::None }];
    for kind in &scene.kinds {
        let mut ways = vec![How::Retyped, How::Deleted];
        if LISTS.contains(&kind.as_str()) {
            ways.extend(MEMBERS.iter().map(|member| How::Joined(member, b"")));
            ways.extend(["h0", "r2", "later"].map(How::Doubled));
        } else if SORTED.contains(&kind.as_str()) {
            ways.extend(SCORES.iter().map(|score| How::Scored(score)));
            ways.extend(MEMBERS.iter().map(|member| How::Joined(member, b"0")));
            ways.extend(["h0", "r2"].map(How::Doubled));
        } else {
            ways.extend(VALUES.iter().map(|value| How::Filled(value)));
            ways.extend(MEMBERS.iter().map(|member| How::Joined(member, b"garbage")));
        }
        all.extend(ways.into_iter().map(|how| Damage { kind: kind.clone(), how }));
    }
    all
}

impl Damage {
    /// Applies the damage.
    pub(crate) async fn inflict(&self, case: &Case, keeper: &mut Keeper) {
        let key = case.key(&self.kind);
        let kind = self.kind.as_str();
        match &self.how {
            How::None => {}
            How::Retyped => keeper.ask::<()>(redis::cmd("SET").arg(key).arg("not ours")).await,
            How::Deleted => drop(keeper.ask::<i64>(redis::cmd("DEL").arg(key)).await),
            How::Filled(value) => {
                let fields: Vec<Vec<u8>> = keeper.ask(redis::cmd("HKEYS").arg(&key)).await;
                let mut command = redis::cmd("HSET");
                command.arg(key);
                for field in fields {
                    command.arg(field).arg(*value);
                }
                keeper.ask::<i64>(&command).await;
            }
            How::Scored(score) => {
                let members: Vec<Vec<u8>> = keeper.ask(redis::cmd("ZRANGE").arg(&key).arg(0).arg(-1)).await;
                let mut command = redis::cmd("ZADD");
                command.arg(key);
                for member in members {
                    command.arg(*score).arg(member);
                }
                keeper.ask::<i64>(&command).await;
            }
            How::Joined(member, value) => self.join(&key, member, value, keeper).await,
            How::Doubled(name) => {
                let mut member = case.id(name).as_bytes().to_vec();
                if kind == "parked" {
                    member.splice(0..0, format!("{}\0", super::state::UNKNOWN).into_bytes());
                } else if kind == "ended" {
                    member.splice(0..0, *b"99999999999999:");
                }
                self.join(&key, &member, b"1", keeper).await;
            }
        }
    }

    async fn join(&self, key: &str, member: &[u8], value: &[u8], keeper: &mut Keeper) {
        let kind = self.kind.as_str();
        let mut command = if LISTS.contains(&kind) {
            redis::cmd("LPUSH")
        } else if SORTED.contains(&kind) {
            redis::cmd("ZADD")
        } else {
            redis::cmd("HSET")
        };
        command.arg(key);
        if SORTED.contains(&kind) {
            command.arg(value).arg(member);
        } else if LISTS.contains(&kind) {
            command.arg(member);
        } else {
            command.arg(member).arg(value);
        }
        keeper.ask::<i64>(&command).await;
    }

    /// What a person does who reads the error: a schema number that is none is taken away, and so
    /// is what lanes know. What is no longer of our type is left to the auditor.
    pub(crate) async fn remove(&self, case: &Case, keeper: &mut Keeper) {
        if self.how != How::Retyped && matches!(self.kind.as_str(), "meta" | "knows") {
            keeper.ask::<i64>(redis::cmd("DEL").arg(case.key(&self.kind))).await;
        }
    }
}

impl Harm for Damage {
    fn takes_bodies(&self) -> bool {
        self.kind == "jobs" && matches!(self.how, How::Retyped | How::Deleted | How::Filled(b""))
    }

    fn may_double(&self) -> bool {
        // What is in `ready` and elsewhere is found by the auditor, and a claim hands out nothing
        // that runs.
        matches!(self.how, How::Doubled(_)) && !LISTS[..5].contains(&self.kind.as_str())
    }

    /// Scripts do not check the type of each key before they begin.
    fn may_interrupt(&self) -> bool {
        self.how == How::Retyped
    }

    /// What has lost its type is refused with the server's word for it; everything else is worked
    /// around, but for what says who somebody is, or of which version the data are.
    fn explains(&self, error: &Error) -> bool {
        match (error, &self.how) {
            (Error::WrongType { key, .. }, How::Retyped) => key.ends_with(&self.kind),
            (Error::Forgotten(_), _) => matches!(self.kind.as_str(), "lanes" | "producers"),
            (Error::Old { .. }, How::Filled(_)) => matches!(self.kind.as_str(), "lanes" | "producers"),
            (Error::SchemaTooNew { .. }, How::Filled(_)) => self.kind == "meta",
            (Error::FeatureUnknown { .. }, How::Filled(_)) => self.kind == "knows",
            _ => false,
        }
    }
}
