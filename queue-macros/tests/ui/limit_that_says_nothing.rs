use queue_core::prelude::*;

#[task(limit(by = [account]))]
async fn send(account: String) {
    drop(account);
}

fn main() {
    drop(send::job(String::new()));
}
