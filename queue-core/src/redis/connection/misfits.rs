//! Keys with one of our names but another type, because another program has written to them. Every
//! command on such a key fails with `WRONGTYPE`, and this error does not name the key.

use redis::Value;

use super::{link::Link, servers::Purpose};
use crate::{
    broker::{Damage, DamageKind},
    error::{Error, Result},
    redis::{
        RedisBroker,
        keys::{Keys, QUEUES_HOLD, STORED},
        script::{ASIDE, TYPES},
        values::{array, text},
    },
};

/// A key of the wrong type.
#[derive(Debug, PartialEq, Eq)]
struct Misfit {
    key: String,
    found: String,
    expected: &'static str,
}

impl Misfit {
    fn damage(self, aside: Option<&str>) -> Damage {
        let Misfit { key, found, expected } = self;
        let moved = aside.map(|name| format!("; it is `{name}` now")).unwrap_or_default();
        Damage { kind: DamageKind::KeyOfAnotherType, subject: format!("`{key}` holds a {found} instead of a {expected}{moved}") }
    }
}

/// The error for an answer of `WRONGTYPE`. It names the first key of the wrong type in the queue,
/// or in the list of all queues. If no key has the wrong type any longer, a repair was faster, and
/// the call may be repeated. `None`: the server does not permit the check.
pub(in crate::redis) async fn wrong_type_error(keys: &Keys, tag: &str, link: &Link, broker: &str) -> Option<Error> {
    let registry = keys.queues();
    let (queue, misfit) = if tag == registry {
        let found = link.send(redis::cmd("TYPE").arg(&registry)).await.ok()?;
        (None, of_registry(registry, found).ok()?)
    } else {
        let types = link.send(&TYPES.with_body(&TYPES.call(keys, tag))).await.ok()?;
        (Some(tag.to_owned()), of_queue(keys, tag, types).ok()?.into_iter().next())
    };
    let broker = broker.to_owned();
    Some(match misfit {
        Some(Misfit { key, found, expected }) => Error::WrongType { broker, queue, key, found, expected },
        None => Error::ambiguous(broker, "a key of the wrong type was renamed during the request"),
    })
}

/// The keys of a queue with the wrong type. With `repair` each is renamed, but never to an existing
/// key.
pub(in crate::redis) async fn audit(broker: &RedisBroker, queue: &str, repair: bool) -> Result<Vec<Damage>> {
    let misfits = of_queue(&broker.keys, queue, broker.script(queue, &TYPES, TYPES.call(&broker.keys, queue)).await?)?;
    if misfits.is_empty() || !repair {
        return Ok(misfits.into_iter().map(|misfit| misfit.damage(None)).collect());
    }
    let mut call = ASIDE.call(&broker.keys, queue);
    call.arg(format!(":aside:{}", new_name()));
    for kind in STORED {
        call.arg(kind.redis_type());
    }
    let renamed: Vec<String> = array(broker.script(queue, &ASIDE, call).await?)?.into_iter().map(text).collect::<Result<_>>()?;
    let mut damages = Vec::new();
    for misfit in misfits {
        let is_new_name = |name: &&String| name.strip_prefix(&misfit.key).is_some_and(|end| end.starts_with(":aside:"));
        let name = renamed.iter().find(is_new_name).map(String::as_str);
        damages.push(misfit.damage(name));
    }
    Ok(damages)
}

/// The same for the list of all queues.
pub(in crate::redis) async fn audit_registry(broker: &RedisBroker, repair: bool) -> Result<Vec<Damage>> {
    let registry = broker.keys.queues();
    let found = broker.read(&registry, redis::cmd("TYPE").arg(&registry)).await?;
    let Some(misfit) = of_registry(registry.clone(), found)? else {
        return Ok(Vec::new());
    };
    if !repair {
        return Ok(vec![misfit.damage(None)]);
    }
    let aside = broker.keys.sibling_of_queues(&new_name());
    let mut rename = redis::cmd("RENAMENX");
    let renamed = broker.servers.command(Purpose::Heartbeats, &registry, rename.arg(&registry).arg(&aside)).await?;
    Ok(vec![misfit.damage((renamed == Value::Int(1)).then_some(&aside))])
}

/// A unique suffix.
fn new_name() -> String {
    format!("{:016x}", fastrand::u64(..))
}

fn of_queue(keys: &Keys, queue: &str, types: Value) -> Result<Vec<Misfit>> {
    let types: Vec<String> = array(types)?.into_iter().map(text).collect::<Result<_>>()?;
    let of_each = STORED.iter().zip(types);
    Ok(of_each.filter_map(|(kind, found)| misfit(keys.of(queue, *kind), found, kind.redis_type())).collect())
}

fn of_registry(registry: String, found: Value) -> Result<Option<Misfit>> {
    Ok(misfit(registry, text(found)?, QUEUES_HOLD))
}

fn misfit(key: String, found: String, expected: &'static str) -> Option<Misfit> {
    (found != "none" && found != expected).then_some(Misfit { key, found, expected })
}
