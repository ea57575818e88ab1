//! The events of the topic `orders`, and their subscribers.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use queue_core::prelude::*;
use tokio::sync::Notify;

/// An order is paid.
#[derive(Event)]
#[event(topic = "orders")]
pub(crate) struct OrderPaid {
    pub(crate) order: u64,
    pub(crate) customer: String,
    pub(crate) cents: u64,
}

/// An order is cancelled.
#[derive(Event)]
#[event(topic = "orders")]
pub(crate) struct OrderCancelled {
    pub(crate) order: u64,
}

/// The number of events that each subscriber has received.
#[derive(Default)]
pub(crate) struct Book {
    heard: Mutex<BTreeMap<&'static str, u64>>,
    changed: Notify,
}

impl Book {
    fn note(&self, subscription: &'static str) {
        *self.heard.lock().expect("no handler panics").entry(subscription).or_default() += 1;
        self.changed.notify_waiters();
    }

    /// All counts.
    pub(crate) fn heard(&self) -> BTreeMap<&'static str, u64> {
        self.heard.lock().expect("no handler panics").clone()
    }

    /// Waits until this holds, but no longer than `patience`.
    pub(crate) async fn wait(&self, holds: impl Fn(&Counts) -> bool, patience: Duration) {
        let waited = tokio::time::timeout(patience, async {
            loop {
                let changed = self.changed.notified();
                if holds(&Counts(self.heard())) {
                    return;
                }
                changed.await;
            }
        });
        if waited.await.is_err() {
            eprintln!("nothing more was heard of for {patience:?}");
        }
    }
}

/// The number of events of each subscription. Subscriptions without events are included.
pub(crate) struct Counts(BTreeMap<&'static str, u64>);

impl std::ops::Index<&str> for Counts {
    type Output = u64;

    fn index(&self, subscription: &str) -> &u64 {
        self.0.get(subscription).unwrap_or(&0)
    }
}

/// Functions with the same name are one subscription: billing receives both types of event. It
/// handles the events of one order in their order.
#[subscribe(name = "billing", from = "start", ordered, max_attempts = 8, backoff(base = "50ms", max = "1s"))]
pub(crate) async fn bill(event: OrderPaid, ctx: JobContext, book: Data<Arc<Book>>) -> Result<(), String> {
    if event.order == 3 && ctx.attempt() == 1 {
        return Err("the bank does not answer".to_owned());
    }
    book.note("billing");
    Ok(())
}

#[subscribe(name = "billing", from = "start", ordered, max_attempts = 8, backoff(base = "50ms", max = "1s"))]
pub(crate) async fn refund(event: OrderCancelled, ctx: JobContext, book: Data<Arc<Book>>) {
    println!("billing: order {} is refunded, cancelled by {}", event.order, ctx.header("by").unwrap_or("nobody"));
    book.note("billing");
}

#[subscribe(name = "statistics", from = "start")]
pub(crate) async fn remember(event: OrderPaid, book: Data<Arc<Book>>) {
    println!("statistics: {} cents more", event.cents);
    book.note("statistics");
}

#[subscribe(name = "mail", from = "now")]
pub(crate) async fn send_mail(event: OrderPaid, book: Data<Arc<Book>>) {
    println!("mail: thanks to {} for order {}", event.customer, event.order);
    book.note("mail");
}

#[subscribe(name = "audit", from = "start")]
pub(crate) async fn audit(event: OrderPaid, book: Data<Arc<Book>>) {
    println!("audit: order {} was paid", event.order);
    book.note("audit");
}
