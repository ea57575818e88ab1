//! The shop's jobs. A job runs *at least* once: each of these may run twice and does its work once.

use queue_core::prelude::*;

use crate::store::Store;

/// Closes an order that nobody has paid for.
///
/// It is not cancelled when the order is paid: it looks, and leaves a paid order alone. One thing less that can go wrong.
#[task(queue = "orders", blocking, backoff(base = "1s", max = "10m"))]
pub(crate) fn close_unpaid_order(order: String, store: Data<Store>) -> Result<(), rusqlite::Error> {
    if store.close(&order)? {
        println!("order {order} is closed: it was not paid");
    }
    Ok(())
}

/// Writes to a customer who has not bought anything yet.
#[task(queue = "mails", blocking, max_attempts = 10, backoff(base = "10s", max = "6h"))]
pub(crate) fn send_activation_mail(customer: String, number: u32, store: Data<Store>) -> Result<Outcome, rusqlite::Error> {
    let Some(found) = store.customer(&customer)? else {
        return Ok(Outcome::Cancel("there is no such customer".to_owned()));
    };
    if !store.is_active(&customer)? && store.note_mail(&customer, number)? {
        // Here a mail would leave. It is noted before: a crash between the two loses one reminder, and nobody gets it twice.
        println!("mail {number} to {}: we have missed you", found.email);
    }
    Ok(Outcome::Done)
}
