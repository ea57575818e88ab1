use queue_core::prelude::*;

#[task(unique(by = [user_id, rate]))]
async fn send(user_id: u64, rate: Option<f64>) {
    drop((user_id, rate));
}

fn main() {
    drop(send::job(1, None));
}
