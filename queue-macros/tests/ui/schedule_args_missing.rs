use queue_core::prelude::*;

#[task(schedule(every = "90s"))]
async fn report(customer: u64) {
    let _ = customer;
}

fn main() {}
