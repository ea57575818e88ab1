use queue_core::prelude::*;

#[task(limit(rate = "fast"))]
async fn send(account: String) {
    drop(account);
}

fn main() {
    drop(send::job(String::new()));
}
