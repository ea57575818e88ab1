use queue_core::prelude::*;

#[task(schedule(every = "90s", args(customer = "seven")))]
async fn report(customer: u64) {
    let _ = customer;
}

fn main() {}
