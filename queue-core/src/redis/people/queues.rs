//! The list of all queues, which lies in a slot of its own.

use crate::{
    address::topic_at,
    error::Result,
    redis::{
        RedisBroker,
        connection::servers::Purpose,
        values::{array, text},
    },
};

pub(in crate::redis) async fn queues(broker: &RedisBroker) -> Result<Vec<String>> {
    let mut names = registered(broker).await?;
    names.retain(|name| topic_at(name).is_none());
    Ok(names)
}

/// Everything with which somebody has registered: queues, and the addresses of topics.
pub(in crate::redis) async fn registered(broker: &RedisBroker) -> Result<Vec<String>> {
    let registry = broker.keys.queues();
    // A producer asks for it beside its enqueue, and needs no second connection for that.
    let names = broker.servers.command(Purpose::Requests, &registry, redis::cmd("SMEMBERS").arg(&registry)).await?;
    let mut names: Vec<String> = array(names)?.into_iter().map(text).collect::<Result<_>>()?;
    names.sort_unstable();
    Ok(names)
}
