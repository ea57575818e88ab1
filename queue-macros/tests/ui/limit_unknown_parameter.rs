use queue_core::prelude::*;

#[task(limit(by = [acount], concurrency = 2))]
async fn send(account: String) {
    drop(account);
}

fn main() {
    drop(send::job(String::new()));
}
