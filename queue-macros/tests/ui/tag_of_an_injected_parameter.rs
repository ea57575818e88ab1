use queue_core::prelude::*;

#[task(tag(ctx))]
async fn send(order: u64, ctx: JobContext) {
    drop((order, ctx));
}

fn main() {
    drop(send::job(1));
}
