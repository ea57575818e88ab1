use queue_core::prelude::*;

#[task(unique(args = [user_id]))]
async fn send(user_id: u64) {
    let _ = user_id;
}

fn main() {
    drop(send::job(1));
}
