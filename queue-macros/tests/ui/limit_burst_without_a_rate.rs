use queue_core::prelude::*;

#[task(limit(concurrency = 2, burst = 5))]
async fn send(account: String) {
    drop(account);
}

fn main() {
    drop(send::job(String::new()));
}
