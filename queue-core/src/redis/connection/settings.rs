//! The requirements that a server must meet before it may hold jobs.

use redis::Value;

use super::{
    refusal::Refusal,
    servers::{Node, Purpose},
};
use crate::{
    broker::Durability,
    error::{Error, Result},
};

/// The oldest supported Redis: the library needs functions of its Lua, and sharded channels.
const OLDEST: (u32, u32) = (7, 0);

/// The role that the URL implies for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(all(feature = "sentinel", feature = "cluster")), allow(dead_code, reason = "there are no such servers"))]
pub(in crate::redis) enum Role {
    Standalone,
    /// A master that sentinels monitor.
    Master,
    /// A node of a cluster.
    Node,
}

/// Checks version, role, mode and eviction.
pub(in crate::redis) async fn check(node: &Node, role: Role) -> Result<()> {
    let location = node.endpoint.shown();
    let info = match node.link(Purpose::Requests).send(redis::cmd("INFO").arg("everything")).await {
        Ok(info) => crate::redis::values::text(info)?,
        // A user without the right to call INFO may still use the server.
        Err(refusal @ Refusal::Server(_)) if refusal.code() == Some("NOPERM") => {
            tracing::warn!(broker = location, error = %refusal.into_error(&node.endpoint), "cannot check version and settings of the server");
            return Ok(());
        }
        Err(refusal) => return Err(refusal.into_error(&node.endpoint)),
    };
    check_info(&info, location, role)
}

/// The minimal durability of a server. Only users who may read its settings can find out whether it
/// syncs its log before it answers.
pub(in crate::redis) async fn durability(node: &Node) -> Result<Durability> {
    let link = node.link(Purpose::Heartbeats);
    let info = match link.send(redis::cmd("INFO").arg("persistence")).await {
        Ok(info) => crate::redis::values::text(info)?,
        Err(refusal @ Refusal::Server(_)) if refusal.code() == Some("NOPERM") => return Ok(Durability::Volatile),
        Err(refusal) => return Err(refusal.into_error(&node.endpoint)),
    };
    if !info.lines().any(|line| line.trim() == "aof_enabled:1") {
        return Ok(Durability::Volatile);
    }
    let syncs = link.send(redis::cmd("CONFIG").arg("GET").arg("appendfsync")).await;
    let always = matches!(syncs, Ok(Value::Array(pair)) if pair.last() == Some(&Value::BulkString(b"always".to_vec())));
    Ok(if always { Durability::PowerLoss } else { Durability::ProcessCrash })
}

pub(in crate::redis) fn check_info(info: &str, location: &str, role: Role) -> Result<()> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(|value| shortened(value.trim()));
    // Valkey has another name for this field.
    if field("redis_mode").or_else(|| field("server_mode")) == Some("sentinel") {
        let advice = "write redis+sentinel://host:port,host:port/SERVICE";
        return Err(Error::Config(format!("{location} is a sentinel, which holds no jobs; {advice}")));
    }
    let version = field("redis_version").unwrap_or("0");
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST {
        return Err(Error::Config(format!("{location} is Redis {version}; 7.0 or newer is needed, or Valkey")));
    }
    if field("cluster_enabled") == Some("1") && role != Role::Node {
        let advice = "write redis+cluster://host:port,host:port";
        return Err(Error::Config(format!("{location} is a node of a cluster; {advice}")));
    }
    if field("role") == Some("slave") {
        return Err(Error::unavailable(location, "it is a replica; connect to its master"));
    }
    // The eviction policy is checked last, because programs that only read accept this error.
    match field("maxmemory_policy").filter(|policy| drops_jobs(policy)) {
        Some(policy) => Err(Error::Evicts { broker: location.to_owned(), policy: policy.to_owned() }),
        None => Ok(()),
    }
}

/// Whether a server with this `maxmemory-policy` drops keys of ours. The policies that begin with
/// `volatile` drop only keys that expire, and ours never do.
pub(in crate::redis) fn drops_jobs(policy: &str) -> bool {
    policy.starts_with("allkeys")
}

/// The part of a server's word that messages show.
fn shortened(word: &str) -> &str {
    const SHOWN: usize = 64;
    word.char_indices().nth(SHOWN).map_or(word, |(end, _)| &word[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(info: &str) -> String {
        check_info(info, "redis://here", Role::Standalone).unwrap_err().to_string()
    }

    #[test]
    fn a_server_that_would_lose_jobs_is_refused() {
        assert!(problem("redis_version:6.2.14\r\nrole:master\r\n").contains("7.0 or newer"));
        assert!(problem("redis_version:7.2.4\r\nmaxmemory_policy:allkeys-lru\r\n").contains("noeviction"));
        assert!(problem("redis_version:7.2.4\r\ncluster_enabled:1\r\n").contains("cluster"));
        assert!(problem("redis_version:7.2.4\r\nrole:slave\r\n").contains("replica"));
        let good = "redis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n";
        assert!(check_info(good, "here", Role::Standalone).is_ok());
    }

    #[test]
    fn a_url_of_another_kind_is_answered_with_the_right_one() {
        let node = "redis_version:7.2.4\r\ncluster_enabled:1\r\n";
        assert!(problem(node).contains("redis+cluster://"));
        assert!(check_info(node, "here", Role::Node).is_ok());
        for mode in ["redis_mode", "server_mode"] {
            assert!(problem(&format!("redis_version:7.2.4\r\n{mode}:sentinel\r\n")).contains("redis+sentinel://"));
        }
    }
}
