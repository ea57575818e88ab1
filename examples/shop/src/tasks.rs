//! The shop's jobs. A job runs *at least* once: each of these may run twice and does its work once.

use queue_core::{Done, prelude::*};

use crate::store::{Result, Store};

/// Closes an order that was not paid in time.
///
/// The job is not cancelled when the order is paid. It reads the order, and does not change a paid
/// one. This needs no further step that could fail.
#[task(queue = "orders", backoff(base = "1s", max = "10m"))]
pub async fn close_unpaid_order(order: String, store: Data<Store>) -> Result<()> {
    if store.close(&order).await? {
        println!("order {order} is closed: it was not paid");
    }
    Ok(())
}

/// Books the payment of an order.
///
/// A sale must not be counted twice. This process may crash after the count is stored and before
/// the queue has the result of the job. Therefore the count, the receipt and the ending of the job
/// commit together: only that commit creates a `Done`.
#[task(queue = "orders", backoff(base = "1s", max = "10m"))]
pub async fn book_payment(order: String, store: Data<Store>, ctx: JobContext) -> Result<Done<()>> {
    store.book(&order, send_receipt::job(order.clone()), &ctx).await
}

/// Sends the receipt of a paid order. The mail may be sent twice if this process crashes at the
/// wrong moment, like every effect outside of the database.
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
        // A mail would be sent here. It is recorded before: a crash between the two steps loses one
        // reminder, and no customer gets it twice.
        println!("mail {number} to {}: we have missed you", found.email);
    }
    Ok(Outcome::Done)
}
