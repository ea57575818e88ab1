//! Valid events and subscriptions.
#![allow(dead_code, reason = "what the functions do is not the point")]

use queue_core::prelude::*;

#[derive(Event)]
#[event(topic = "orders", name = "order.paid")]
pub struct OrderPaid {
    r#type: u8,
    #[default("EUR".to_owned())]
    currency: String,
    note: Option<String>,
}

#[derive(Event)]
#[event(topic = "orders")]
struct Nothing {}

#[subscribe(name = "billing", from = "2026-01-31", unknown = "skip", ordered, retention = "1h")]
/// With a doc comment.
pub async fn bill(ctx: JobContext, event: OrderPaid, rate: Data<f64>) -> Result<u64, std::fmt::Error> {
    let _ = (ctx.attempt(), event.currency, event.note, *rate);
    Ok(u64::from(event.r#type))
}

#[subscribe(name = "billing", from = "2026-01-31", unknown = "skip", blocking)]
fn nothing(_event: Nothing) {}

#[test]
fn a_subscription_has_its_address_and_the_type_of_its_event() {
    let def = bill::definition();
    assert_eq!((def.queue, def.name, nothing::definition().name), ("billing@orders", "order.paid", "Nothing"));
    assert!(def.subscription.is_some_and(|of| of.unknown == queue_core::topics::Unknown::Skip) && def.params.len() == 3);
}
