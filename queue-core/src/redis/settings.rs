//! What a server must be before it is trusted with jobs.

use super::link::Link;
use crate::error::{Error, Result};

/// The oldest Redis that is supported: functions of its Lua and sharded announcements are needed.
const OLDEST: (u32, u32) = (7, 0);

/// Checks version, role, mode and eviction.
pub(super) async fn check(link: &Link, location: &str) -> Result<()> {
    let info = match link.command(redis::cmd("INFO").arg("everything")).await {
        Ok(info) => super::answers::text(info)?,
        // A user who may not look at the server may still use it.
        Err(Error::AccessDenied { problem, .. }) if problem.contains("info") => {
            tracing::warn!("cannot check version and settings of {location}: {problem}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    judge(&info, location)
}

fn judge(info: &str, location: &str) -> Result<()> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let version = field("redis_version").unwrap_or("0");
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST {
        return Err(Error::Config(format!("{location} is Redis {version}; 7.0 or newer is needed, or Valkey")));
    }
    if field("cluster_enabled") == Some("1") {
        return Err(Error::Config(format!("{location} is a node of a cluster; a `redis://` URL is for a server that stands alone")));
    }
    if field("role") == Some("slave") {
        return Err(Error::Unavailable { broker: location.to_owned(), problem: "it is a replica; connect to its master".to_owned() });
    }
    if let Some(policy) = field("maxmemory_policy").filter(|policy| policy.starts_with("allkeys")) {
        return Err(Error::Config(format!(
            "{location} has `maxmemory-policy {policy}`, which would drop jobs when its memory is full; set it to `noeviction`"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(info: &str) -> String {
        judge(info, "redis://here").unwrap_err().to_string()
    }

    #[test]
    fn a_server_that_would_lose_jobs_is_refused() {
        assert!(problem("redis_version:6.2.14\r\nrole:master\r\n").contains("7.0 or newer"));
        assert!(problem("redis_version:7.2.4\r\nmaxmemory_policy:allkeys-lru\r\n").contains("noeviction"));
        assert!(problem("redis_version:7.2.4\r\ncluster_enabled:1\r\n").contains("cluster"));
        assert!(problem("redis_version:7.2.4\r\nrole:slave\r\n").contains("replica"));
        assert!(judge("redis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n", "here").is_ok());
    }
}
