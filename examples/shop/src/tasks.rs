//! The shop's jobs. A job runs *at least* once: each of these may run twice and does its work once.

use queue_core::{Done, prelude::*};

use crate::store::{Result, Store};

/// Closes an order that nobody has paid for.
///
/// It is not cancelled when the order is paid: it looks, and leaves a paid order alone. One thing
/// less that can go wrong.
#[task(queue = "orders", backoff(base = "1s", max = "10m"))]
pub async fn close_unpaid_order(order: String, store: Data<Store>) -> Result<()> {
    if store.close(&order).await? {
        println!("order {order} is closed: it was not paid");
    }
    Ok(())
}

/// Books the payment of an order.
///
/// A sale must not be counted twice, and this process can die after the count is stored and before
/// the queue knows that the job is done. So the count, the receipt and the ending of the job commit
/// together: only that commit makes a `Done`.
#[task(queue = "orders", backoff(base = "1s", max = "10m"))]
pub async fn book_payment(order: String, store: Data<Store>, ctx: JobContext) -> Result<Done<()>> {
    store.book(&order, send_receipt::job(order.clone()), &ctx).await
}

/// Sends the receipt of a paid order. The mail may leave twice if this process dies at the wrong
/// moment, as every effect outside of the database.
#[task(queue = "orders", backoff(base = "1s", max = "10m"))]
pub async fn send_receipt(order: String, store: Data<Store>) -> Result<Outcome> {
    let Some(order) = store.order(&order).await? else {
        return Ok(Outcome::Cancel("the order does not exist".to_owned()));
    };
    println!("receipt to {}: {} is paid", order.customer, order.article);
    Ok(Outcome::Done)
}

/// Writes to a customer who has not bought anything yet.
#[task(queue = "mails", max_attempts = 10, backoff(base = "10s", max = "6h"))]
pub async fn send_activation_mail(customer: String, number: u32, store: Data<Store>) -> Result<Outcome> {
    let Some(found) = store.customer(&customer).await? else {
        return Ok(Outcome::Cancel("there is no such customer".to_owned()));
    };
    if !store.is_active(&customer).await? && store.note_mail(&customer, number).await? {
        // Here a mail would leave. It is noted before: a crash between the two loses one reminder,
        // and nobody gets it twice.
        println!("mail {number} to {}: we have missed you", found.email);
    }
    Ok(Outcome::Done)
}
