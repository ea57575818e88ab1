use queue_core::prelude::*;

#[task(schedule(every = "90s", args(custmer = 7, customer = 7)))]
async fn report(customer: u64) {
    let _ = customer;
}

fn main() {}
