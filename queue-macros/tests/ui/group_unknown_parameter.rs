use queue_core::prelude::*;

#[task(group = tenat)]
async fn send(tenant: String) {
    drop(tenant);
}

fn main() {
    drop(send::job(String::new()));
}
