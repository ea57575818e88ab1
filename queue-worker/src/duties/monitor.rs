//! Checks the condition of the broker with every heartbeat: whether it is full, and whether its
//! file has been removed. An idle worker checks it as well.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use queue_core::broker::{Condition, Trouble};

use super::Pass;
use crate::{connection::Connection, time::now, tuning::LOGGED_AGAIN};

pub(crate) struct Monitor {
    connection: Arc<Connection>,
    heartbeat: Duration,
    logged: Logged,
    /// Whether a check was made.
    began: bool,
}

impl Monitor {
    pub(crate) fn new(connection: Arc<Connection>, heartbeat: Duration) -> Self {
        Monitor { connection, heartbeat, logged: Logged::default(), began: false }
    }
}

impl Pass for Monitor {
    const NAME: &'static str = "monitor";
    /// What was logged.
    type Report = Option<News>;

    /// About the time of a heartbeat. The first check is made at once.
    fn pause(&mut self) -> Duration {
        if !std::mem::replace(&mut self.began, true) {
            return Duration::ZERO;
        }
        self.heartbeat.mul_f64(0.75 + fastrand::f64() / 4.0)
    }

    /// One check.
    async fn tick(&mut self) -> Option<News> {
        let broker = self.connection.broker.info().location;
        match self.connection.broker.condition().await {
            Ok(condition) => {
                let news = self.logged.log(&broker, &condition, now());
                self.connection.set_condition(condition);
                news
            }
            Err(error) => {
                // Other duties report an outage.
                tracing::debug!(broker, %error, "cannot read the broker's condition");
                None
            }
        }
    }
}

/// The name of [`Trouble::Evicting`].
const EVICTING: &str = "evicting";

/// The last reported trouble, and the time of the report.
#[derive(Default)]
struct Logged(Option<(&'static str, Instant)>);

/// What is logged.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    Trouble,
    Over,
}

impl Logged {
    /// Logs trouble when it begins, at intervals while it lasts, and when it ends.
    fn log(&mut self, broker: &str, condition: &Condition, now: Instant) -> Option<News> {
        let Condition { used, limit, free, trouble, .. } = condition;
        let was_evicting = self.0.is_some_and(|(name, _)| name == EVICTING);
        let news = self.news(trouble.as_ref(), now);
        match (&news, trouble) {
            (Some(News::Over), _) if was_evicting => tracing::info!(broker, "the broker no longer evicts jobs"),
            (Some(News::Over), _) => tracing::info!(broker, used, limit, free, "the broker accepts new jobs again"),
            (Some(News::Trouble), Some(trouble)) => {
                tracing::warn!(broker, used, limit, free, "the broker is {}: {trouble}; {}", trouble.name(), trouble.advice());
            }
            _ => {}
        }
        news
    }

    /// The broker itself logs a lost file, because it notices that first.
    fn news(&mut self, trouble: Option<&Trouble>, now: Instant) -> Option<News> {
        match trouble {
            None => self.0.take().map(|_| News::Over),
            Some(Trouble::Lost(_)) => None,
            Some(trouble) => {
                let known = self.0.is_some_and(|(name, at)| name == trouble.name() && now < at + LOGGED_AGAIN);
                (!known).then(|| {
                    self.0 = Some((trouble.name(), now));
                    News::Trouble
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use queue_core::Client;

    use super::*;

    #[tokio::test]
    async fn a_look_at_a_broker_that_is_well_is_no_news_and_is_noted() {
        let client = Client::connect("sqlite://:memory:").await.unwrap();
        let connection = Connection::new(client.broker().clone(), Duration::from_secs(5));
        let mut full = Condition::default();
        full.trouble = Some(Trouble::Full(String::new()));
        connection.set_condition(full);
        assert_eq!(Monitor::new(connection.clone(), Duration::from_secs(5)).tick().await, None);
        assert_eq!(connection.condition().trouble, None);
    }

    #[test]
    fn trouble_is_reported_when_it_begins_once_an_interval_and_when_it_is_over() {
        let (mut logged, began) = (Logged::default(), now());
        let full = |used: u32| Trouble::Full(format!("{used} bytes are used"));
        assert_eq!(logged.news(None, began), None);
        assert_eq!(logged.news(Some(&full(1)), began), Some(News::Trouble));
        // The figures change with every check.
        assert_eq!(logged.news(Some(&full(2)), began + LOGGED_AGAIN / 2), None);
        assert_eq!(logged.news(Some(&full(3)), began + LOGGED_AGAIN), Some(News::Trouble));
        assert_eq!(logged.news(Some(&Trouble::ReadOnly(String::new())), began + LOGGED_AGAIN), Some(News::Trouble));
        assert_eq!([logged.news(None, began), logged.news(None, began)], [Some(News::Over), None]);
        assert_eq!(logged.news(Some(&Trouble::Lost(String::new())), began), None);
    }
}
