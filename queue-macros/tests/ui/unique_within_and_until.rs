use queue_core::prelude::*;

#[task(unique(within = "10m", until = "started"))]
async fn send(user_id: u64) {
    let _ = user_id;
}

fn main() {
    drop(send::job(1));
}
