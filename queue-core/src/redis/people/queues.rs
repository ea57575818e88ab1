//! The list of all queues, which has its own hash slot.

use std::time::Instant;

use crate::{
    address::topic_at,
    error::{Error, Result},
    redis::{
        RedisBroker,
        connection::servers::Purpose,
        keys::Kind,
        values::{array, number, text},
    },
};

pub(in crate::redis) async fn queues(broker: &RedisBroker) -> Result<Vec<String>> {
    let mut names = list_registered(broker).await?;
    names.retain(|name| topic_at(name).is_none());
    Ok(names)
}

/// Everything with registrations: queues, and the addresses of topics.
pub(in crate::redis) async fn list_registered(broker: &RedisBroker) -> Result<Vec<String>> {
    let registry = broker.keys.queues();
    // A producer reads the list together with its enqueue. It uses the same connection, so it needs
    // no second one.
    let names = broker.servers.command(Purpose::Requests, &registry, redis::cmd("SMEMBERS").arg(&registry)).await?;
    let mut names: Vec<String> = array(names)?.into_iter().map(text).collect::<Result<_>>()?;
    names.sort_unstable();
    Ok(names)
}

impl RedisBroker {
    /// Adds a queue to the list, which is in a separate hash slot. If the server is full, the
    /// worker continues without this.
    pub(in crate::redis) async fn register_queue(&self, queue: &str, until: Option<Instant>) -> Result<()> {
        let registry = self.keys.queues();
        let ask = redis::cmd("SISMEMBER").arg(&registry).arg(queue).clone();
        let listed = self.servers.command_until(until, Purpose::Requests, &registry, &ask).await?;
        if number::<i64>(listed)? == 1 {
            return Ok(());
        }
        match self.servers.command_until(until, Purpose::Requests, &registry, redis::cmd("SADD").arg(&registry).arg(queue)).await {
            Ok(_) | Err(Error::BrokerFull { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adds an existing queue to the list again, from which it may have been lost.
    pub(in crate::redis) async fn restore_registration(&self, queue: &str) -> Result<()> {
        match number::<i64>(self.read(queue, &self.keys.on("EXISTS", queue, Kind::Meta)).await?)? {
            0 => Ok(()),
            _ => self.register_queue(queue, None).await,
        }
    }
}
