//! Looks how the broker is, with every beat: whether it is full, or its file has gone. An idle worker looks, too.

use std::{sync::Arc, time::Instant};

use queue_core::broker::{Condition, Trouble};

use crate::{engine::Shared, time::now, tuning::TOLD_AGAIN};

pub(crate) async fn run(shared: Arc<Shared>) {
    let mut told = Told::default();
    let broker = shared.broker.info().location;
    loop {
        match shared.broker.condition().await {
            Ok(condition) => {
                told.tell(&broker, &condition, now());
                shared.note(condition);
            }
            // Those who work with it say so.
            Err(error) => tracing::debug!(broker, %error, "cannot ask how the broker is"),
        }
        tokio::time::sleep(shared.settings.beat().mul_f64(0.75 + fastrand::f64() / 4.0)).await;
    }
}

/// Which trouble was told last, and when.
#[derive(Default)]
struct Told(Option<(&'static str, Instant)>);

/// What is worth a line.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Trouble,
    Over,
}

impl Told {
    /// Tells of trouble when it begins, once in a while as long as it lasts, and when it ends.
    fn tell(&mut self, broker: &str, condition: &Condition, now: Instant) {
        let Condition { used, limit, free, trouble, .. } = condition;
        match (self.news(trouble.as_ref(), now), trouble) {
            (Some(News::Over), _) => tracing::info!(broker, used, limit, free, "the broker takes new jobs again"),
            (Some(News::Trouble), Some(trouble)) => {
                tracing::warn!(broker, used, limit, free, "the broker is {}: {trouble}; {}", trouble.name(), trouble.way_out());
            }
            _ => {}
        }
    }

    /// A lost file is told by the broker itself, which is the first to know.
    fn news(&mut self, trouble: Option<&Trouble>, now: Instant) -> Option<News> {
        match trouble {
            None => self.0.take().map(|_| News::Over),
            Some(Trouble::Lost(_)) => None,
            Some(trouble) => {
                let known = self.0.is_some_and(|(name, at)| name == trouble.name() && now < at + TOLD_AGAIN);
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
    use super::*;

    #[test]
    fn trouble_is_told_when_it_begins_once_an_interval_and_when_it_is_over() {
        let (mut told, began) = (Told::default(), now());
        let full = |used: u32| Trouble::Full(format!("{used} bytes are used"));
        assert_eq!(told.news(None, began), None);
        assert_eq!(told.news(Some(&full(1)), began), Some(News::Trouble));
        // The figures change with every look.
        assert_eq!(told.news(Some(&full(2)), began + TOLD_AGAIN / 2), None);
        assert_eq!(told.news(Some(&full(3)), began + TOLD_AGAIN), Some(News::Trouble));
        assert_eq!(told.news(Some(&Trouble::ReadOnly(String::new())), began + TOLD_AGAIN), Some(News::Trouble));
        assert_eq!([told.news(None, began), told.news(None, began)], [Some(News::Over), None]);
        assert_eq!(told.news(Some(&Trouble::Lost(String::new())), began), None);
    }
}
