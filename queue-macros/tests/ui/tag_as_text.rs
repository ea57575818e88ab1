use queue_core::prelude::*;

#[task(tag(kind = "mail"))]
async fn send(order: u64) {
    drop(order);
}

fn main() {
    drop(send::job(1));
}
