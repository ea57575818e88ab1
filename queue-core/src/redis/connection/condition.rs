//! Whether a server accepts new jobs: its memory, and the conditions under which it refuses all
//! writes.

use redis::Value;

use super::{
    refusal::Refusal,
    servers::{Node, Purpose},
    settings::drops_jobs,
};
use crate::{
    broker::{Condition, Trouble, bytes},
    error::Result,
    redis::values,
};

/// The condition of one server. A user without the permission gets no values.
pub(in crate::redis) async fn read_condition(node: &Node) -> Result<Condition> {
    let link = node.link(Purpose::Heartbeats);
    let info = match link.send(redis::cmd("INFO").arg("memory").arg("persistence").arg("replication")).await {
        Ok(info) => values::text(info)?,
        Err(refusal @ Refusal::Server(_)) if refusal.code() == Some("NOPERM") => return Ok(Condition::default()),
        Err(refusal) => return Err(refusal.into_error(&node.endpoint)),
    };
    let mut condition = condition_of_info(&info);
    if condition.trouble.is_none() && may_refuse(&info) {
        let asked = redis::cmd("CONFIG").arg("GET").arg("stop-writes-on-bgsave-error").arg("min-replicas-to-write").to_owned();
        // Only users who may read the settings can find out whether the server refuses writes.
        if let Ok(Value::Array(settings)) = link.send(&asked).await {
            condition.trouble = refuses(&info, &settings);
        }
    }
    Ok(condition)
}

/// The worse condition of two servers: a queue may be on either.
pub(in crate::redis) fn worse(one: Condition, other: Condition) -> Condition {
    let rank = |condition: &Condition| (condition.trouble.is_some(), condition.percent());
    if rank(&other) > rank(&one) || one == Condition::default() { other } else { one }
}

fn condition_of_info(info: &str) -> Condition {
    let mut condition = Condition::default();
    let Some(used) = number(info, "used_memory") else { return condition };
    // The server compares this number with its limit: the memory without the buffers of its
    // replicas and of its log.
    let used = used.saturating_sub(number(info, "mem_not_counted_for_evict").unwrap_or(0));
    let limit = number(info, "maxmemory").filter(|limit| *limit > 0);
    (condition.used, condition.limit) = (Some(used), limit);
    if let Some(policy) = field(info, "maxmemory_policy").filter(|policy| drops_jobs(policy)) {
        condition.trouble = Some(Trouble::Evicting(format!("its `maxmemory-policy` is `{policy}`")));
    } else if let Some(limit) = limit.filter(|limit| used >= *limit) {
        condition.trouble = Some(Trouble::Full(format!("`maxmemory` is reached ({} of {} are used)", bytes(used), bytes(limit))));
    } else if field(info, "aof_last_write_status").is_some_and(|status| status != "ok") {
        condition.trouble = Some(Trouble::ReadOnly("its append-only file cannot be written (MISCONF)".to_owned()));
    }
    condition
}

/// Whether the settings have to be read.
fn may_refuse(info: &str) -> bool {
    snapshot_failed(info) || good_replicas(info).is_some()
}

fn snapshot_failed(info: &str) -> bool {
    field(info, "rdb_last_bgsave_status").is_some_and(|status| status != "ok")
}

/// The number of replicas that keep up, if the server requires some.
fn good_replicas(info: &str) -> Option<u64> {
    number(info, "min_slaves_good_slaves")
}

fn refuses(info: &str, settings: &[Value]) -> Option<Trouble> {
    let setting = |name: &str| {
        let mut pairs = settings.chunks_exact(2);
        let found = pairs.find(|pair| matches!(&pair[0], Value::BulkString(found) if found == name.as_bytes()))?;
        values::text(found[1].clone()).ok()
    };
    if snapshot_failed(info) && setting("stop-writes-on-bgsave-error").as_deref() == Some("yes") {
        return Some(Trouble::ReadOnly("its last snapshot could not be saved (MISCONF)".to_owned()));
    }
    let (wanted, there) = (setting("min-replicas-to-write")?.parse::<u64>().ok()?, good_replicas(info)?);
    (there < wanted).then(|| Trouble::ReadOnly(format!("it has {there} of the {wanted} replicas that it requires (NOREPLICAS)")))
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn number(info: &str, name: &str) -> Option<u64> {
    field(info, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_full_by_what_it_counts() {
        let info = "used_memory:3000000\r\nmaxmemory:2000000\r\nmem_not_counted_for_evict:1500000\r\n";
        assert_eq!(condition_of_info(info).trouble, None);
        let full = condition_of_info(&info.replace("1500000", "8"));
        assert!(full.is_full() && full.trouble.unwrap().to_string().contains("2.8 MiB of 1.9 MiB"), "{info}");
        assert_eq!(condition_of_info("used_memory:3000000\r\nmaxmemory:0\r\n").trouble, None);
        let evicting = condition_of_info(&info.replace("mem_not", "maxmemory_policy:allkeys-lru\r\nmem_not"));
        assert!(!evicting.is_full() && evicting.trouble.unwrap().to_string().contains("`allkeys-lru`"));
        assert_eq!(condition_of_info("used_memory:3000000\r\nmaxmemory_policy:volatile-lru\r\n").trouble, None);
        assert_eq!(condition_of_info("nothing of it"), Condition::default());
    }

    #[test]
    fn a_server_that_refuses_every_write_reports_why() {
        let text = |text: &str| Value::BulkString(text.into());
        let settings = |stops, replicas| [text("stop-writes-on-bgsave-error"), text(stops), text("min-replicas-to-write"), text(replicas)];
        let trouble_of = |info: &str, stops, replicas| refuses(info, &settings(stops, replicas)).map(|trouble| trouble.to_string());
        let (failed, alone) = ("rdb_last_bgsave_status:err\r\n", "min_slaves_good_slaves:0\r\n");
        assert!(trouble_of(failed, "yes", "0").unwrap().contains("MISCONF"));
        assert!(trouble_of(alone, "yes", "1").unwrap().contains("0 of the 1"));
        assert_eq!((trouble_of(failed, "no", "0"), trouble_of(alone, "yes", "0"), refuses(failed, &[])), (None, None, None));
        assert!(matches!(condition_of_info("used_memory:1\r\naof_last_write_status:err\r\n").trouble, Some(Trouble::ReadOnly(_))));
    }
}
